//! What a context keeps of the tokens it has read, layer by layer and to the byte, as llama.cpp allocates it.

use super::Header;
use super::shape::Sliding;
use crate::engine::{BATCH, KvType};
use crate::model::arch::{self, Recurrence};
use crate::numbers::{product, sum};

/// A cache has a multiple of so many cells, one for each token.
const STEP: u64 = 256;
/// Recurrent states are 32-bit floats.
const FLOAT: u64 = 4;

/// The memory of a context. The index that some models with sparse attention keep beside it is not counted.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Cache {
    /// The layers that look at keys and values.
    layers: Vec<Layer>,
    /// How far sliding layers look back.
    window: u64,
    /// Bytes of recurrent states.
    state: u64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Layer {
    /// Of queries.
    queries: u64,
    /// Of keys and values.
    heads: u64,
    /// Numbers in a key and in a value of one head.
    width: (u64, u64),
    /// Values are a part of the keys.
    latent: bool,
    sliding: bool,
    /// The keys and values are those of a layer before.
    borrows: bool,
}

impl Layer {
    /// Bytes of one token.
    fn bytes(&self, kv: KvType) -> u64 {
        let bytes = |width| kv.bytes(product([self.heads, width]));
        let (key, value) = self.width;
        sum([bytes(key), if self.latent { 0 } else { bytes(value) }])
    }
}

impl Cache {
    /// Bytes for keys and values of one token, while no window slides.
    pub(crate) fn bytes_per_token(&self, kv: KvType) -> u64 {
        sum(self.owners().map(|layer| layer.bytes(kv)))
    }

    /// The layers with keys and values of their own.
    fn owners(&self) -> impl Iterator<Item = &Layer> {
        self.layers.iter().filter(|layer| !layer.borrows)
    }

    /// Bytes of keys and values that a token reads which sees so many tokens, itself among them. Sliding layers see
    /// their window.
    pub(crate) fn read_bytes(&self, tokens: u64, kv: KvType) -> u64 {
        sum(self.layers.iter().map(|layer| product([layer.bytes(kv), self.seen(layer, tokens)])))
    }

    /// Multiplications of queries by keys, and of their weights by values, for so many tokens behind `before` others:
    /// each sees those before it and itself.
    pub(crate) fn multiplications(&self, before: u64, tokens: u64) -> u64 {
        let looks = |layer| {
            let most = self.seen(layer, u64::MAX);
            looks(sum([before, tokens]), most).saturating_sub(looks(before, most))
        };
        let numbers = |layer: &Layer| sum([layer.width.0, layer.width.1]);
        sum(self.layers.iter().map(|layer| product([layer.queries, numbers(layer), looks(layer)])))
    }

    fn seen(&self, layer: &Layer, tokens: u64) -> u64 {
        if layer.sliding { tokens.min(self.window) } else { tokens }
    }

    /// Bytes for keys and values in a context of so many tokens, evaluated in batches of the usual size.
    pub(crate) fn kv_bytes(&self, tokens: u64, kv: KvType) -> u64 {
        self.kv_bytes_by(tokens, BATCH.into(), kv)
    }

    /// The same for micro-batches of so many tokens.
    pub(crate) fn kv_bytes_by(&self, tokens: u64, ubatch: u64, kv: KvType) -> u64 {
        let sliding = self.sliding_cells(tokens, ubatch);
        let cells = |layer: &Layer| if layer.sliding { sliding } else { padded(tokens) };
        sum(self.owners().map(|layer| product([layer.bytes(kv), cells(layer)])))
    }

    /// Sliding layers keep their window and room for a micro-batch.
    fn sliding_cells(&self, tokens: u64, ubatch: u64) -> u64 {
        padded(padded(tokens).min(sum([self.window, tokens.min(ubatch)])))
    }

    /// The cells of each cache that there is: one for layers that see all, one for those that slide.
    pub(crate) fn cells(&self, tokens: u64, ubatch: u64) -> Vec<u64> {
        let has = |sliding| self.layers.iter().any(|layer| layer.sliding == sliding);
        // Beside a cache that slides llama.cpp always has the other.
        let full = (has(false) || has(true)).then(|| padded(tokens));
        full.into_iter().chain(has(true).then(|| self.sliding_cells(tokens, ubatch))).collect()
    }

    /// Bytes of what cannot go back to an earlier place by itself, and is copied to be able to: the sliding part and the
    /// states.
    pub(crate) fn mark_bytes(&self, tokens: u64, ubatch: u64, kv: KvType) -> u64 {
        let cells = self.sliding_cells(tokens, ubatch);
        let sliding = self.owners().filter(|layer| layer.sliding);
        sum([self.state, sum(sliding.map(|layer| product([layer.bytes(kv), cells])))])
    }

    /// Bytes for states that sum up what was read, however much it is.
    pub(crate) fn state_bytes(&self) -> u64 {
        self.state
    }

    /// Bytes of all of it, evaluated in micro-batches of so many tokens.
    pub(crate) fn bytes(&self, tokens: u64, ubatch: u64, kv: KvType) -> u64 {
        sum([self.kv_bytes_by(tokens, ubatch, kv), self.state])
    }

    /// Does it have keys and values at all?
    pub(crate) fn has_kv(&self) -> bool {
        self.bytes_per_token(KvType::F16) > 0
    }

    /// The width of a head that blocks of this type do not fill.
    pub(crate) fn unfit_width(&self, kv: KvType) -> Option<u64> {
        let mut widths = self.layers.iter().flat_map(|layer| [layer.width.0, layer.width.1]);
        widths.find(|width| !width.is_multiple_of(kv.block()))
    }
}

/// How often so many tokens look at one another, each at itself and those before it, but at no more than `most`.
fn looks(tokens: u64, most: u64) -> u64 {
    let rising = tokens.min(most);
    sum([product([rising, rising.saturating_add(1)]) / 2, product([tokens - rising, most])])
}

fn padded(tokens: u64) -> u64 {
    product([tokens.div_ceil(STEP), STEP])
}

impl Header {
    /// What a context of this model keeps, given its query heads and those of the KV cache, layer by layer, and their
    /// width.
    pub(super) fn cache(
        &self,
        (heads, kv_heads): (&[u64], &[u64]),
        width: (u64, u64),
        sliding: Option<&Sliding>,
    ) -> Cache {
        let arch = self.architecture().unwrap_or_default();
        let recurrent = self.recurrent_layers(arch, kv_heads);
        let beside = arch::recurrence(arch) == Recurrence::Beside;
        let latent = self.arch_u64("attention.key_length_mla").is_some_and(|n| n > 0);
        let own = self.own_layers(arch, kv_heads.len());
        let layer = |index: usize| {
            let slides = sliding.filter(|s| s.layers.get(index) == Some(&true));
            Layer {
                queries: heads.get(index).copied().unwrap_or(0),
                heads: kv_heads[index],
                width: slides.map_or(width, |s| s.head_width),
                latent,
                sliding: slides.is_some(),
                borrows: index >= own,
            }
        };
        let mut layers: Vec<Layer> =
            (0..kv_heads.len()).filter(|&index| beside || !recurrent[index]).map(layer).collect();
        match arch {
            "nanbeige" => layers = layers.repeat(self.loops(layers.len())),
            // It chooses among adapters.
            "graniteswitch" => {
                layers.push(Layer { queries: 1, heads: 1, width, latent, sliding: false, borrows: false });
            }
            _ => {}
        }
        let states = recurrent.iter().filter(|&&recurs| recurs).count() as u64;
        let numbers = self.state_numbers(arch, heads.first().copied().unwrap_or(0), width.0);
        Cache { layers, window: sliding.map_or(0, |s| s.window), state: product([states, numbers, FLOAT]) }
    }

    /// The first layers, which do not look into the cache of another.
    fn own_layers(&self, arch: &str, layers: usize) -> usize {
        match arch {
            "gemma3n" => layers.min(20),
            "gemma4" => {
                let shared = self.arch_u64("attention.shared_kv_layers").unwrap_or(0);
                layers.saturating_sub(usize::try_from(shared).unwrap_or(usize::MAX))
            }
            _ => layers,
        }
    }

    /// How often this model goes through its layers, each time with other keys and values.
    fn loops(&self, layers: usize) -> usize {
        let most = super::shape::MAX_LAYERS / (layers as u64).max(1);
        usize::try_from(self.arch_u64("num_loops").unwrap_or(1).clamp(1, most.max(1))).unwrap_or(1)
    }

    fn recurrent_layers(&self, arch: &str, kv_heads: &[u64]) -> Vec<bool> {
        let all = self.layer_count();
        let feed_forward = || self.per_layer("feed_forward_length", all).unwrap_or_else(|| vec![0; all]);
        match arch::recurrence(arch) {
            Recurrence::None => vec![false; kv_heads.len()],
            Recurrence::All => vec![true; all],
            Recurrence::Beside => vec![true; kv_heads.len()],
            Recurrence::WithoutHeads => kv_heads.iter().map(|&heads| heads == 0).collect(),
            Recurrence::WithoutHeadsAndFeedForward => {
                kv_heads.iter().zip(feed_forward()).map(|(&heads, width)| heads == 0 && width == 0).collect()
            }
            Recurrence::Between(every) => {
                let every = self.arch_u64("full_attention_interval").unwrap_or(every).max(1);
                let told = self.per_layer("attention.recurrent_layers", all);
                let recurs = |layer: usize| match &told {
                    Some(told) => told[layer] != 0,
                    None => !(layer as u64 + 1).is_multiple_of(every),
                };
                (0..kv_heads.len()).map(recurs).collect()
            }
        }
    }

    /// Numbers in the state of one layer: `n_embd_r` and `n_embd_s` of llama.cpp.
    pub(super) fn state_numbers(&self, arch: &str, heads: u64, head_width: u64) -> u64 {
        let number = |key| self.arch_u64(key).unwrap_or(0);
        let (width, kernel) = (number("embedding_length"), number("ssm.conv_kernel"));
        match arch {
            "rwkv6" | "rwkv6qwen2" | "rwkv7" | "arwkv7" => {
                let shifts = self.arch_u64("token_shift_count").unwrap_or(2);
                product([width, sum([shifts, number("wkv.head_size")])])
            }
            "lfm2" | "lfm2moe" => product([width, number("shortconv.l_cache").saturating_sub(1)]),
            "bailingmoe3" | "glm5-next" | "kimi-k3" | "kimi-linear" => {
                let (head, before) = (number("kda.head_dim"), if kernel > 0 { kernel - 1 } else { 3 });
                product([heads, head, sum([head, product([3, before])])])
            }
            "minimax-01" => product([head_width, head_width, heads]),
            _ => {
                let (inner, state) = (number("ssm.inner_size"), number("ssm.state_size"));
                let groups = if matches!(arch, "jamba" | "mamba") { 0 } else { number("ssm.group_count") };
                let convolved = sum([inner, product([2, groups, state])]);
                sum([product([kernel.saturating_sub(1), convolved]), product([state, inner])])
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::gguf::tiny_gguf::{KINDS, Tiny, Value};

    fn cache(tiny: &Tiny) -> Cache {
        Header::from_bytes(&tiny.bytes()).unwrap().shape().cache
    }

    fn kind(wanted: &str) -> Tiny {
        KINDS.iter().find(|(name, _)| *name == wanted).unwrap().1()
    }

    #[test]
    fn counts_each_kind_as_llama_cpp_allocates_it() {
        for (name, token, at_100, at_8192, state) in [
            ("one layer", 128, 128 * 256, 128 * 8192, 0),
            ("m-rope", 256, 256 * 256, 256 * 8192, 0),
            // Two layers keep a window of 32 and a batch, at most all.
            ("sliding", 384, 384 * 256, 128 * 8192 + 2 * 128 * 768, 0),
            ("latent", 128, 128 * 256, 128 * 8192, 0),
            // In each of two layers 128 channels: 3 inputs and a state of 16.
            ("recurrent", 0, 0, 0, 2 * 128 * (3 + 16) * 4),
            ("hybrid", 128, 128 * 256, 128 * 8192, 64 * 3 * 4),
        ] {
            let cache = cache(&kind(name));
            let kv = KvType::F16;
            assert_eq!(
                (
                    cache.bytes_per_token(kv),
                    cache.kv_bytes(100, kv),
                    cache.kv_bytes(8192, kv),
                    cache.state_bytes()
                ),
                (token, at_100, at_8192, state),
                "{name}"
            );
            assert_eq!(cache.bytes(8192, 512, kv), at_8192 + state, "{name}");
            assert_eq!(cache.has_kv(), token > 0, "{name}");
            for (kv, bytes) in [(KvType::Q8_0, 34), (KvType::Q4_0, 18)] {
                assert_eq!(cache.kv_bytes(8192, kv), at_8192 / 64 * bytes, "{name} {kv}");
                assert_eq!(cache.unfit_width(kv), None, "{name} {kv}");
            }
        }
    }

    #[test]
    fn a_batch_in_a_small_context_is_small_too() {
        let cache = cache(&kind("sliding"));
        for (tokens, sliding) in [(200, 256), (230, 256), (300, 512), (512, 512), (513, 768), (100_000, 768)]
        {
            let full = 128 * padded(tokens);
            assert_eq!(cache.kv_bytes(tokens, KvType::F16) - full, 2 * 128 * sliding, "{tokens}");
        }
    }

    #[test]
    fn a_smaller_micro_batch_needs_less_of_a_sliding_cache() {
        let cache = cache(&kind("sliding"));
        for (ubatch, sliding) in [(512, 768), (256, 512), (1, 256), (9000, 8192)] {
            assert_eq!(cache.cells(8192, ubatch), [8192, sliding], "{ubatch}");
            let bytes = 128 * 8192 + 2 * 128 * sliding;
            assert_eq!(cache.kv_bytes_by(8192, ubatch, KvType::F16), bytes, "{ubatch}");
            assert_eq!(cache.mark_bytes(8192, ubatch, KvType::F16), 2 * 128 * sliding, "{ubatch}");
        }
        for (name, cells, mark) in
            [("one layer", vec![8192], 0), ("recurrent", vec![], 19_456), ("hybrid", vec![8192], 768)]
        {
            let cache = self::cache(&kind(name));
            assert_eq!(
                (cache.cells(8192, 512), cache.mark_bytes(8192, 512, KvType::F16)),
                (cells, mark),
                "{name}"
            );
        }
    }

    #[test]
    fn heads_may_differ_from_layer_to_layer() {
        let uneven = Tiny::llama().set("llama.attention.head_count_kv", Value::U32s(vec![2, 0]));
        assert_eq!(cache(&uneven).bytes_per_token(KvType::F16), 128);
        assert_eq!(cache(&uneven).unfit_width(KvType::F16), None);
        assert_eq!(cache(&uneven).unfit_width(KvType::Q4_0), Some(16));
    }

    #[test]
    fn a_token_reads_what_it_sees() {
        // Of f16 keys and values of 32 numbers each, 128 bytes in a layer; three layers, two of which see 32 tokens.
        let sliding = cache(&kind("sliding"));
        for (tokens, seen) in [(0, 0), (1, 3), (32, 96), (33, 33 + 64), (1000, 1000 + 64)] {
            assert_eq!(sliding.read_bytes(tokens, KvType::F16), 128 * seen, "{tokens}");
        }
        assert_eq!(cache(&kind("recurrent")).read_bytes(1000, KvType::F16), 0);
        // Two layers keep nothing, but look at what others keep.
        let shared = as_arch("gemma4", &[("attention.shared_kv_layers", Value::U32(2))]);
        assert_eq!(shared.bytes_per_token(KvType::Q8_0), 6 * 2 * 2 * 17);
        assert_eq!(shared.read_bytes(10, KvType::Q8_0), 8 * 2 * 2 * 17 * 10);
    }

    #[test]
    fn each_token_looks_at_those_before_it() {
        let one = cache(&kind("one layer"));
        // Two heads of 32 + 32 numbers; 1 + 2 + 3 + 4 looks, and 10 × 4 more behind 10 others.
        assert_eq!(one.multiplications(0, 4), 2 * 64 * 10);
        assert_eq!(one.multiplications(10, 4), 2 * 64 * (40 + 10));
        assert_eq!(one.multiplications(10, 0), 0);
        // The sliding layers see 32 at most: 31 + 32 + 32 looks.
        let sliding = cache(&kind("sliding"));
        assert_eq!(sliding.multiplications(30, 3), 2 * 64 * (31 + 32 + 33 + 2 * (31 + 32 + 32)));
        // What is latent is looked at by its 64 numbers, and 32 of them serve as values.
        assert_eq!(cache(&kind("latent")).multiplications(0, 1), 2 * (64 + 32));
        assert_eq!(cache(&kind("recurrent")).multiplications(0, 9), 0);
    }

    #[test]
    fn sliding_layers_may_have_other_heads() {
        let wide = kind("sliding").set("gemma3.attention.key_length_swa", Value::U32(48));
        assert_eq!(cache(&wide).bytes_per_token(KvType::F16), 128 + 2 * (48 + 32) * 2);
        assert_eq!(cache(&wide).unfit_width(KvType::Q8_0), Some(48));
    }

    /// The tiny `llama` with eight layers of another architecture, and some keys of it.
    fn as_arch(arch: &str, keys: &[(&str, Value)]) -> Cache {
        let tiny = Tiny::llama().with_architecture(arch).set(&format!("{arch}.block_count"), Value::U32(8));
        cache(&keys.iter().fold(tiny, |tiny, (key, value)| tiny.set(&format!("{arch}.{key}"), value.clone())))
    }

    #[test]
    fn some_architectures_share_or_repeat_layers() {
        let layers = |cache: Cache| cache.bytes_per_token(KvType::F16) / 128;
        assert_eq!(layers(as_arch("llama", &[("attention.shared_kv_layers", Value::U32(3))])), 8);
        assert_eq!(layers(as_arch("gemma4", &[("attention.shared_kv_layers", Value::U32(3))])), 5);
        assert_eq!(layers(as_arch("gemma3n", &[("block_count", Value::U32(30))])), 20);
        assert_eq!(layers(as_arch("nanbeige", &[("num_loops", Value::U32(2))])), 16);
        assert_eq!(layers(as_arch("qwen3", &[("nextn_predict_layers", Value::U32(1))])), 7);
        let switch = as_arch("graniteswitch", &[]);
        assert_eq!(switch.bytes_per_token(KvType::F16), 8 * 128 + 64);
    }

    #[test]
    fn recurrent_layers_have_a_state_and_no_keys() {
        let ssm = [
            ("ssm.conv_kernel", Value::U32(4)),
            ("ssm.inner_size", Value::U32(128)),
            ("ssm.state_size", Value::U32(16)),
            ("ssm.group_count", Value::U32(2)),
        ];
        let with = |more: &[(&'static str, Value)]| [&ssm, more].concat();
        // Convolved are the channels and, for each group, what goes into the state and what comes out of it.
        let state = 4 * (3 * (128 + 2 * 2 * 16) + 16 * 128);
        let heads = |all: [u32; 8]| ("attention.head_count_kv", Value::U32s(all.to_vec()));
        let some = heads([0, 2, 0, 0, 0, 2, 0, 0]);
        for (arch, keys, recurrent, cached) in [
            ("qwen3next", with(&[]), 6, 2),
            ("qwen35", with(&[("full_attention_interval", Value::U32(2))]), 4, 4),
            ("qwen35", with(&[("attention.recurrent_layers", Value::Bools(vec![true; 8]))]), 8, 0),
            ("granitehybrid", with(std::slice::from_ref(&some)), 6, 2),
            ("falcon-h1", with(&[]), 8, 8),
            (
                "nemotron_h",
                with(&[some, ("feed_forward_length", Value::U32s(vec![9, 0, 0, 0, 9, 0, 0, 0]))]),
                4,
                2,
            ),
        ] {
            let cache = as_arch(arch, &keys);
            assert_eq!(cache.state_bytes(), recurrent * state, "{arch}");
            assert_eq!(cache.bytes_per_token(KvType::F16), cached * 128, "{arch}");
        }
    }

    #[test]
    fn other_states_have_other_sizes() {
        let linear = [("kda.head_dim", Value::U32(16)), ("ssm.conv_kernel", Value::U32(4))];
        for (arch, keys, numbers) in [
            ("rwkv7", vec![("wkv.head_size", Value::U32(16))], 64 * (2 + 16)),
            (
                "arwkv7",
                vec![("wkv.head_size", Value::U32(16)), ("token_shift_count", Value::U32(1))],
                64 * (1 + 16),
            ),
            ("minimax-01", vec![("attention.recurrent_layers", Value::U32(1))], 16 * 16 * 4),
            ("kimi-linear", [linear.to_vec(), vec![("attention.head_count_kv", Value::U32(0))]].concat(), {
                3 * 3 * 4 * 16 + 16 * 16 * 4
            }),
        ] {
            assert_eq!(as_arch(arch, &keys).state_bytes(), 8 * numbers * 4, "{arch}");
        }
    }
}
