//! The most that a machine could do with a model: how many bytes and multiplications a token takes, from the header
//! alone, over what the machine moves and multiplies in a second. After Williams, Waterman and Patterson, "Roofline:
//! an insightful visual performance model for multicore architectures", Communications of the ACM 52(4), 2009.
//!
//! Counted is what cannot be avoided: every weight that takes part is read once for all tokens that are evaluated
//! together, and each token reads the keys and values that it sees. Not counted are what stays in a cache (activations)
//! and what is small (norms, softmax, the recurrence of a state).

use std::fmt;

use super::gguf::{Cache, Header, Shape, Tensor, layer_of};
use crate::engine::KvType;
use crate::engine::throughput::{F16, Matrix, Throughput};
use crate::numbers::float;

/// What a model costs.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Roofline {
    /// Bytes of the weights that every token needs.
    dense: u64,
    /// Of those that only a token with an output needs: the output matrix and the last layer's feed-forward part, but for
    /// experts.
    last: u64,
    /// Of all experts, and how many of how many a token uses.
    experts: u64,
    used: (u64, u64),
    /// Of the rows of tables that a token takes.
    rows: u64,
    cache: Cache,
    kinds: Vec<MatrixKind>,
}

/// The matrices whose weights have the same type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct MatrixKind {
    largest: Matrix,
    /// Multiplications for each token, and those for a token with an output.
    each: u64,
    last: u64,
}

/// Tokens of a prompt, evaluated in micro-batches behind others.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Prompt {
    pub(crate) tokens: u64,
    /// Tokens before them.
    pub(crate) depth: u64,
    pub(crate) micro_batch: u64,
}

/// What a machine does in a second.
#[derive(Debug, Clone)]
pub(crate) struct Machine {
    /// Read from memory.
    pub(crate) bytes: f64,
    pub(crate) throughput: Throughput,
    /// With a token at a time.
    pub(crate) one: Throughput,
}

/// What there is too little of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bound {
    Bandwidth,
    Compute,
}

/// The most tokens per second, and what would have to be faster for more.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Limit {
    pub(crate) tokens_per_second: f64,
    pub(crate) bound: Bound,
}

impl Limit {
    /// Of so many tokens for which both take so many seconds, at the same time.
    fn of(tokens: f64, moving: f64, computing: f64) -> Self {
        let (seconds, bound) =
            if moving > computing { (moving, Bound::Bandwidth) } else { (computing, Bound::Compute) };
        Self { tokens_per_second: tokens / seconds, bound }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Bandwidth => "bandwidth",
            Self::Compute => "compute",
        })
    }
}

impl Roofline {
    pub(crate) fn new(header: &Header, shape: &Shape) -> Self {
        let experts = shape.experts.unwrap_or(1).max(1);
        let tied = header.tensor("output.weight").is_none();
        let layers = shape.layers.unwrap_or(0);
        let mut all = Self {
            dense: 0,
            last: 0,
            experts: 0,
            used: (shape.experts_used.unwrap_or(1).min(experts), experts),
            rows: 0,
            cache: shape.cache.clone(),
            kinds: Vec::new(),
        };
        for tensor in &header.tensors {
            all.add(tensor, layers, tied);
        }
        all.kinds.sort_by_key(|kind| std::cmp::Reverse(kind.each));
        all
    }

    fn add(&mut self, tensor: &Tensor, layers: u64, tied: bool) {
        let name = tensor.name.as_str();
        let layer = layer_of(name);
        // Layers that predict further tokens rest.
        if layer.is_some_and(|layer| layer >= layers) {
            return;
        }
        if TABLES.contains(&name) {
            add(&mut self.rows, tensor.bytes / tensor.dims.get(1).copied().unwrap_or(1).max(1));
        }
        let is_output = name.starts_with("output.") || (tied && name == "token_embd.weight");
        if name.contains("exps.") {
            add(&mut self.experts, tensor.bytes);
            self.multiply(tensor, share(tensor.elements(), self.used.0, self.used.1), 0);
        } else if is_output || (layer == layers.checked_sub(1) && name.contains(".ffn_")) {
            add(&mut self.last, tensor.bytes);
            self.multiply(tensor, 0, tensor.elements());
        } else if !TABLES.contains(&name) {
            add(&mut self.dense, tensor.bytes);
            self.multiply(tensor, tensor.elements(), 0);
        }
    }

    /// Count the multiplications by a matrix. Norms, of one dimension, are small.
    fn multiply(&mut self, tensor: &Tensor, each: u64, last: u64) {
        let [columns, rows, ..] = tensor.dims[..] else { return };
        let matrix = Matrix { kind: tensor.kind.id, columns, rows };
        match self.kinds.iter_mut().find(|kind| kind.largest.kind == matrix.kind) {
            None => self.kinds.push(MatrixKind { largest: matrix, each, last }),
            Some(kind) => {
                // An output matrix is no example for a prompt.
                if each > 0 && (kind.each == 0 || size(&matrix) > size(&kind.largest)) {
                    kind.largest = matrix;
                }
                add(&mut kind.each, each);
                add(&mut kind.last, last);
            }
        }
    }

    /// Matrices like those that a prompt is multiplied by, to be measured: one of each type with a share worth it, and
    /// one of 16-bit floats, as which keys and values are multiplied.
    pub(crate) fn matrices(&self) -> Vec<Matrix> {
        const SMALLEST: u64 = 20;
        let most = self.kinds.first().map_or(0, |kind| kind.each);
        let large = self.kinds.iter().filter(|kind| kind.each > most / SMALLEST);
        let mut all: Vec<Matrix> = large.map(|kind| kind.largest).collect();
        if !all.iter().any(|matrix| matrix.kind == F16) {
            all.extend(all.first().map(|&matrix| Matrix { kind: F16, ..matrix }));
        }
        all
    }

    /// Bytes of weights that one token needs.
    pub(crate) fn weight_bytes(&self) -> u64 {
        let experts = share(self.experts, self.used.0, self.used.1);
        self.dense.saturating_add(self.last).saturating_add(self.rows).saturating_add(experts)
    }

    /// Bytes that are read and written for the next token behind `depth` others.
    pub(crate) fn decode_bytes(&self, depth: u64, kv: KvType) -> u64 {
        let seen = self.cache.read_bytes(depth.saturating_add(1), kv);
        let written = self.cache.bytes_per_token(kv);
        self.weight_bytes().saturating_add(seen).saturating_add(written).saturating_add(self.states())
    }

    /// Recurrent states are read and written.
    fn states(&self) -> u64 {
        self.cache.state_bytes().saturating_mul(2)
    }

    /// The most tokens per second, one after the other, behind `depth` others. For a whole answer, take the depth in
    /// its middle.
    pub(crate) fn decode_limit(&self, depth: u64, kv: KvType, machine: &Machine) -> Limit {
        let moving = float(self.decode_bytes(depth, kv)) / machine.bytes;
        let one = Prompt { tokens: 1, depth, micro_batch: 1 };
        Limit::of(1.0, moving, self.computing(one, &machine.one))
    }

    /// Seconds of a prompt's additions and multiplications.
    fn computing(&self, prompt: Prompt, throughput: &Throughput) -> f64 {
        self.prefill_flops(prompt).iter().map(|(kind, flops)| flops / throughput.of(*kind)).sum()
    }

    /// Additions and multiplications of a prompt whose last token has an output, by the type of what is multiplied by.
    fn prefill_flops(&self, prompt: Prompt) -> Vec<(u32, f64)> {
        let tokens = float(prompt.tokens);
        let weights = |kind: &MatrixKind| tokens * float(kind.each) + float(kind.last);
        let looks = float(self.cache.multiplications(prompt.depth, prompt.tokens));
        let weights = self.kinds.iter().map(|kind| (kind.largest.kind, 2.0 * weights(kind)));
        weights.chain([(F16, 2.0 * looks)]).collect()
    }

    /// Bytes of a prompt: the weights once for each micro-batch, and of the experts as many as its tokens can choose;
    /// the keys and values that the last token of each sees, and those that each token leaves.
    fn prefill_bytes(&self, prompt: Prompt, kv: KvType) -> f64 {
        let size = prompt.micro_batch.clamp(1, prompt.tokens.max(1));
        let passes = float(prompt.tokens.div_ceil(size));
        let chosen = self.used.0.saturating_mul(size).min(self.used.1);
        let weights = float(self.dense) + float(share(self.experts, chosen, self.used.1));
        // The passes see more and more: on average what lies in the middle.
        let middle = prompt.depth.saturating_add(prompt.tokens.saturating_add(size) / 2);
        let pass = weights + float(self.cache.read_bytes(middle, kv)) + float(self.states());
        let token = float(self.rows) + float(self.cache.bytes_per_token(kv));
        passes * pass + float(prompt.tokens) * token + float(self.last)
    }

    /// The most tokens of a prompt per second.
    pub(crate) fn prefill_limit(&self, prompt: Prompt, kv: KvType, machine: &Machine) -> Limit {
        let moving = self.prefill_bytes(prompt, kv) / machine.bytes;
        Limit::of(float(prompt.tokens), moving, self.computing(prompt, &machine.throughput))
    }
}

/// Tables of which a token takes a row.
const TABLES: [&str; 4] =
    ["token_embd.weight", "per_layer_token_embd.weight", "position_embd.weight", "token_types.weight"];

/// Headers that nobody has checked may name any number.
fn add(to: &mut u64, more: u64) {
    *to = to.saturating_add(more);
}

fn size(matrix: &Matrix) -> u64 {
    matrix.columns.saturating_mul(matrix.rows)
}

/// So many of so many parts.
fn share(whole: u64, used: u64, all: u64) -> u64 {
    u64::try_from(u128::from(whole) * u128::from(used) / u128::from(all.max(1))).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::model::gguf::tiny_gguf::{KINDS, Tiny, Value};

    fn roofline(tiny: &Tiny) -> Roofline {
        let header = Header::from_bytes(&tiny.bytes()).unwrap();
        Roofline::new(&header, &header.shape())
    }

    fn demo() -> Roofline {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/demo/demo-f16.gguf");
        let header = Header::open(Path::new(path)).unwrap();
        Roofline::new(&header, &header.shape())
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole numbers")]
    fn flops(roofline: &Roofline, prompt: Prompt) -> u64 {
        roofline.prefill_flops(prompt).iter().map(|(_, flops)| flops).sum::<f64>() as u64
    }

    /// Parameters of the demo model's parts: width 256, 8 heads and 4 of the cache, feed-forward 512, 768 words.
    const ATTENTION: u64 = 256 * 256 + 2 * 256 * 128 + 256 * 256;
    const FEED_FORWARD: u64 = 3 * 256 * 512;
    const WORDS: u64 = 256 * 768;

    #[test]
    fn a_token_reads_all_weights_and_what_it_sees() {
        let demo = demo();
        // 16-bit matrices, 32-bit norms, and a row of the table, which is the output matrix too.
        let weights = 2 * (4 * (ATTENTION + FEED_FORWARD) + WORDS) + 4 * 9 * 256 + 2 * 256;
        assert_eq!(demo.weight_bytes(), weights);
        // 2 KB of keys and values for each token seen, and for the one that is written.
        assert_eq!(demo.decode_bytes(0, KvType::F16), weights + 2 * 2048);
        assert_eq!(demo.decode_bytes(100, KvType::F16), weights + 102 * 2048);
        assert_eq!(demo.decode_bytes(100, KvType::Q8_0), weights + 102 * 1088);
        let infinite = Throughput::new(vec![(F16, f64::INFINITY)]);
        let bytes = 10.0 * float(weights + 4096);
        let machine = Machine { bytes, throughput: infinite.clone(), one: infinite };
        let limit = demo.decode_limit(0, KvType::F16, &machine).tokens_per_second;
        assert!((limit - 10.0).abs() < 1e-9, "{limit}");
    }

    #[test]
    fn a_prompt_is_multiplied_by_what_its_tokens_need() {
        let prompt = Prompt { tokens: 10, depth: 5, micro_batch: 512 };
        // Each layer's attention for each token, three feed-forward parts for each and the last one's and the output
        // for one, and 6 + … + 15 looks at keys and values of 8 × (32 + 32) numbers in four layers.
        let weights = 10 * (4 * ATTENTION + 3 * FEED_FORWARD) + FEED_FORWARD + WORDS;
        let looks = 4 * 8 * 64 * (6..=15).sum::<u64>();
        assert_eq!(flops(&demo(), prompt), 2 * (weights + looks));
    }

    #[test]
    fn a_prompt_reads_the_weights_once_for_each_micro_batch() {
        let demo = demo();
        let bytes =
            |micro_batch| demo.prefill_bytes(Prompt { tokens: 8, depth: 0, micro_batch }, KvType::F16);
        let once = 2 * (FEED_FORWARD + WORDS) + 4 * 256;
        let pass = 2 * (4 * ATTENTION + 3 * FEED_FORWARD) + 4 * 8 * 256;
        let tokens = 8 * (512 + 2048);
        assert!((bytes(8) - float(once + pass + 8 * 2048 + tokens)).abs() < 1.0);
        assert!((bytes(512) - bytes(8)).abs() < 1.0);
        // Two passes that see 4 and 8 tokens.
        assert!((bytes(4) - float(once + 2 * pass + 12 * 2048 + tokens)).abs() < 1.0);
    }

    #[test]
    fn the_slower_of_two_is_the_limit() {
        let demo = demo();
        let prompt = Prompt { tokens: 512, depth: 0, micro_batch: 512 };
        let (bytes, flops) = (demo.prefill_bytes(prompt, KvType::F16), float(flops(&demo, prompt)));
        for (seconds, bound) in [((2.0, 1.0), Bound::Bandwidth), ((1.0, 2.0), Bound::Compute)] {
            let throughput = Throughput::new(vec![(F16, flops / seconds.1)]);
            let machine = Machine { bytes: bytes / seconds.0, one: throughput.clone(), throughput };
            let limit = demo.prefill_limit(prompt, KvType::F16, &machine);
            assert_eq!(limit.bound, bound);
            assert!((limit.tokens_per_second - 256.0).abs() < 1e-9);
        }
        assert_eq!(format!("{}, {}", Bound::Bandwidth, Bound::Compute), "bandwidth, compute");
    }

    #[test]
    fn an_output_matrix_of_its_own_leaves_a_row_of_the_table() {
        let tiny = Tiny::llama();
        let words = tiny.tensors[0].dims[1];
        let tied = roofline(&tiny).weight_bytes();
        assert_eq!(tied, tiny.tensors.iter().map(|t| t.data.len() as u64).sum::<u64>() + 64 * 4);
        let untied = roofline(&tiny.with_zeros("output.weight", &[64, words]));
        assert_eq!(untied.weight_bytes(), tied);
        assert_eq!(untied.kinds.iter().map(|kind| kind.last).sum::<u64>(), 64 * words + 3 * 64 * 128);
    }

    #[test]
    fn of_experts_only_those_used_are_read() {
        let tiny = Tiny::llama()
            .with_zeros("blk.0.ffn_up_exps.weight", &[64, 32, 8])
            .with_zeros("blk.0.ffn_up_exps.bias", &[32, 8])
            .with_zeros("blk.0.ffn_up_shexp.weight", &[64, 32])
            .set("llama.expert_count", Value::U32(8))
            .set("llama.expert_used_count", Value::U32(2));
        let (with, without) = (roofline(&tiny), roofline(&Tiny::llama()));
        let (expert, shared) = (4 * (64 * 32 + 32), 4 * 64 * 32);
        assert_eq!(with.weight_bytes() - without.weight_bytes(), 2 * expert + shared);
        // Three tokens of two experts each choose at most six, five at most all eight.
        for (tokens, experts) in [(1, 2), (3, 6), (5, 8), (100, 8)] {
            let prompt = Prompt { tokens, depth: 0, micro_batch: tokens };
            let more = with.prefill_bytes(prompt, KvType::F16) - without.prefill_bytes(prompt, KvType::F16);
            assert!((more - float(experts * expert + shared)).abs() < 1.0, "{tokens}");
            let more = flops(&with, prompt) - flops(&without, prompt);
            assert_eq!(more, 2 * tokens * (2 * (64 * 32 + 32) + 64 * 32), "{tokens}");
        }
    }

    #[test]
    fn layers_that_predict_further_tokens_rest() {
        let tiny = Tiny::llama().set("llama.nextn_predict_layers", Value::U32(1));
        let layer: usize =
            tiny.tensors.iter().filter(|t| t.name.starts_with("blk.1.")).map(|t| t.data.len()).sum();
        assert_eq!(roofline(&Tiny::llama()).weight_bytes() - roofline(&tiny).weight_bytes(), layer as u64);
    }

    #[test]
    fn a_state_is_read_and_written_whatever_the_depth() {
        let recurrent = roofline(&KINDS.iter().find(|(name, _)| *name == "recurrent").unwrap().1());
        let state = 2 * 128 * (3 + 16) * 4;
        for depth in [0, 1000] {
            let bytes = recurrent.decode_bytes(depth, KvType::F16);
            assert_eq!(bytes, recurrent.weight_bytes() + 2 * state);
        }
    }

    #[test]
    fn one_matrix_of_each_type_stands_for_all() {
        assert_eq!(demo().matrices(), [Matrix { kind: F16, columns: 512, rows: 256 }]);
        let changed = Tiny::llama().change_tensor("blk.0.ffn_up.weight", |t| {
            (t.kind, t.dims, t.data) = (8, vec![64, 128], vec![0; 64 * 128 / 32 * 34]);
        });
        let matrix = |kind, columns, rows| Matrix { kind, columns, rows };
        let (floats, quantized) = (matrix(0, 64, 128), matrix(8, 64, 128));
        assert_eq!(roofline(&changed).matrices(), [floats, quantized, Matrix { kind: F16, ..floats }]);
        // A prompt is multiplied by each as often as the model has it, and by keys and values.
        let prompt = Prompt { tokens: 1, depth: 0, micro_batch: 1 };
        let words = Tiny::llama().tensors[0].dims[1];
        let all = 2 * (64 * 64 * 2 + 2 * 64 * 32 + 3 * 64 * 128) + 64 * words;
        let expected = [(0, all - 64 * 128), (8, 64 * 128), (F16, 2 * 4 * 2 * 16)];
        let flops = roofline(&changed).prefill_flops(prompt);
        assert!(
            flops.iter().zip(expected).all(|(a, b)| a.0 == b.0 && (a.1 - float(2 * b.1)).abs() < 1.0),
            "{flops:?}"
        );
    }

    #[test]
    fn a_small_share_is_not_worth_measuring() {
        let tiny = Tiny::llama().with_zeros("blk.0.attn_gate.weight", &[32, 32]);
        let tiny = tiny.change_tensor("blk.0.attn_gate.weight", |t| {
            (t.kind, t.data) = (8, vec![0; 32 * 34]);
        });
        let kinds: Vec<u32> = roofline(&tiny).matrices().iter().map(|matrix| matrix.kind).collect();
        assert_eq!(kinds, [0, F16]);
    }
}
