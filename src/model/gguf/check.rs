//! Can the bundled llama.cpp run this file? It answers many contradictions in a header by dividing by zero, by
//! `abort()` or by an exception across the FFI, so they have to be found before it sees the file.

use std::path::Path;

use super::shape::MAX_LAYERS;
use super::{Header, Tensor, Texts, Value, quoted};
use crate::error::{Error, Result};
use crate::human::Escaped;
use crate::model::arch;

/// Bounds that no real model comes near, so that products of them fit 64 bits.
const MAX_WIDTH: u64 = 1 << 20;
const MAX_FEED_FORWARD: u64 = 1 << 24;
const MAX_HEADS: u64 = 1 << 16;
pub(super) const MAX_TOKENS: u64 = i32::MAX as u64;
/// llama.cpp adds a batch to the window and rounds up, in 32 bits.
const MAX_WINDOW: u64 = 1 << 24;
/// `LLAMA_MAX_EXPERTS`.
const MAX_EXPERTS: u64 = 1024;
/// llama.cpp's memory map asserts that the weights begin at a multiple of this many bytes.
const MAPPED_ALIGNMENT: u64 = 32;

/// A contradiction, as a clause that follows "is damaged: ".
pub(super) type Checked = std::result::Result<(), String>;

impl Header {
    /// Refuse, with the reason, a file that llama.cpp cannot run as a language model, or would crash on.
    pub(crate) fn check_runnable(&self, path: &Path) -> Result<()> {
        let quoted = quoted(path);
        self.check_purpose(&quoted)?;
        let whole;
        let header = if self.parts == self.part_count() {
            self
        } else {
            whole = self.clone().with_parts(path)?;
            &whole
        };
        header.check_content(&quoted)?;
        for check in [Self::check_vocabulary, Self::check_numbers, Self::check_experts, Self::check_tensors] {
            check(header).map_err(|clause| Error::failed(format!("{quoted} is damaged: {clause}")))?;
        }
        Ok(())
    }

    /// Is it a language model at all?
    fn check_purpose(&self, quoted: &str) -> Result<()> {
        let refuse = |what: &str| Err(Error::failed(format!("{quoted} is {what}, not a language model")));
        match self.str("general.type") {
            Some("mmproj") => return refuse("a projector of images or sound (mmproj)"),
            Some("adapter") => return refuse("an adapter (LoRA)"),
            Some("imatrix") => return refuse("an importance matrix"),
            _ => {}
        }
        // A later part of a split model names no architecture; that it is one is the better message.
        if self.part_count() > 1 && self.u64("split.no").is_some_and(|n| n > 0) {
            return Ok(());
        }
        match self.architecture() {
            Some("clip") => refuse("a projector of images or sound (mmproj)"),
            Some("controlvector") => refuse("a control vector"),
            Some(name) if !arch::is_known(name) => {
                let name = Escaped(name);
                Err(Error::failed(format!(
                    "{quoted} has the architecture `{name}`, which this version cannot run"
                )))
            }
            Some(name) => match arch::other_purpose(name) {
                Some(what) => {
                    Err(Error::failed(format!("{quoted} is {what} (`{name}`), it cannot write text")))
                }
                None => self.check_decoder(quoted),
            },
            None => Err(Error::failed(format!("{quoted} does not say which architecture it has"))),
        }
    }

    /// An architecture for text may still have been trained for something else.
    fn check_decoder(&self, quoted: &str) -> Result<()> {
        let pooled = self.arch_u64("pooling_type").is_some_and(|n| (1..=4).contains(&n));
        let two_way = self.bool(&self.arch_key("attention.causal")) == Some(false);
        if pooled || two_way {
            return Err(Error::failed(format!("{quoted} is an embedding model, it cannot write text")));
        }
        Ok(())
    }

    fn check_content(&self, quoted: &str) -> Result<()> {
        let error = |what: &str| Err(Error::failed(format!("{quoted} {what}")));
        match self.str("tokenizer.ggml.model") {
            None | Some("none" | "no_vocab") => return error("has no vocabulary, it cannot write text"),
            Some(model) if !arch::is_tokenizer(model) => {
                return error(&format!("has the tokenizer `{}`, which cannot write text", Escaped(model)));
            }
            Some(_) => {}
        }
        if self.tensors.is_empty() { error("has a vocabulary but no weights") } else { Ok(()) }
    }

    fn check_numbers(&self) -> Checked {
        let width = self.required("embedding_length", MAX_WIDTH)?;
        let layers = self.required("block_count", MAX_LAYERS)?;
        self.required("context_length", MAX_TOKENS)?;
        let extra = self.arch_u64("nextn_predict_layers").unwrap_or(0);
        if extra >= layers {
            return Err(format!("{extra} of its {layers} layers predict ahead, none is left"));
        }
        self.check_per_layer("feed_forward_length", MAX_FEED_FORWARD)?;
        self.check_heads(width)?;
        self.check_floats()?;
        self.check_divisors()?;
        self.check_window()?;
        let scaling = self.arch_key("rope.scaling.type");
        match self.str(&scaling) {
            Some("none" | "linear" | "yarn" | "longrope") => Ok(()),
            None if self.value(&scaling).is_none() => Ok(()),
            _ => Err(format!("`{scaling}` is none of `none`, `linear`, `yarn`, `longrope`")),
        }
    }

    /// A number from 1 to `most` that has to be there.
    fn required(&self, key: &str, most: u64) -> std::result::Result<u64, String> {
        match self.arch_u64(key) {
            Some(n) if (1..=most).contains(&n) => Ok(n),
            Some(n) => Err(format!("`{}` is {n}, it must be from 1 to {most}", self.arch_key(key))),
            None => Err(format!("`{}` is missing or no whole number", self.arch_key(key))),
        }
    }

    /// A number for all layers, or one for each, of at most `most`.
    fn check_per_layer(&self, key: &str, most: u64) -> Checked {
        let full = self.arch_key(key);
        if self.value(&full).is_none() {
            return Ok(());
        }
        let layers = self.layer_count();
        let all = self
            .per_layer(key, layers)
            .ok_or_else(|| format!("`{full}` is neither a number nor {layers} numbers"))?;
        match all.iter().find(|&&n| n > most) {
            Some(n) => Err(format!("`{full}` is {n}, it must be at most {most}")),
            None => Ok(()),
        }
    }

    fn check_heads(&self, width: u64) -> Checked {
        let arch = self.architecture().unwrap_or_default();
        if arch::is_recurrent(arch) {
            return Ok(());
        }
        self.check_per_layer("attention.head_count", MAX_HEADS)?;
        self.check_per_layer("attention.head_count_kv", MAX_HEADS)?;
        let layers = self.layer_count();
        let key = self.arch_key("attention.head_count");
        let heads =
            self.per_layer("attention.head_count", layers).ok_or_else(|| format!("`{key}` is missing"))?;
        if heads.iter().all(|&n| n == 0) {
            return Err(format!("`{key}` is 0"));
        }
        let kv = self.per_layer("attention.head_count_kv", layers).unwrap_or_else(|| heads.clone());
        for (heads, kv) in heads.iter().zip(&kv) {
            if *heads > 0 && *kv > 0 && !heads.is_multiple_of(*kv) {
                return Err(format!("its {heads} heads cannot share {kv} heads of the KV cache"));
            }
        }
        let equal = |all: &[u64]| all.iter().all(|n| Some(n) == all.first());
        if arch::has_equal_layers(arch) && !(equal(&heads) && equal(&kv)) {
            return Err("its layers have different numbers of heads".to_owned());
        }
        self.check_head_width(arch, width, &heads)
    }

    fn check_head_width(&self, arch: &str, width: u64, heads: &[u64]) -> Checked {
        // Layers without heads come first in some hybrid models; the width of a head is told by the file then.
        if heads.first() == Some(&0) {
            return Ok(());
        }
        let (key, value) = self.head_width(heads);
        if !(1..=MAX_WIDTH).contains(&key) || !(1..=MAX_WIDTH).contains(&value) {
            return Err(format!(
                "its heads are {key} wide for keys and {value} for values, at a width of {width}"
            ));
        }
        let rotated = self.arch_u64("rope.dimension_count").unwrap_or(key);
        let sliding_key = self.arch_u64("attention.key_length_swa").unwrap_or(key);
        let sliding_rotated = self.arch_u64("rope.dimension_count_swa").unwrap_or(rotated.min(sliding_key));
        for (rotated, key) in [(rotated, key), (sliding_rotated, sliding_key)] {
            if rotated > key || !rotated.is_multiple_of(2) || (rotated == 0 && !arch::rotates_nothing(arch)) {
                return Err(format!("{rotated} dimensions of heads {key} wide are rotated"));
            }
        }
        let same_widths = arch::rotates_whole_head(arch) || matches!(arch, "gemma" | "gemma2" | "gemma3");
        if same_widths && key != value {
            return Err(format!("its keys are {key} wide, its values {value}"));
        }
        if arch::rotates_whole_head(arch) && rotated != key {
            return Err(format!("{rotated} dimensions of heads {key} wide are rotated, all must be"));
        }
        Ok(())
    }

    /// NaN and infinity trip assertions or make every token as likely as any; so does a negative epsilon.
    fn check_floats(&self) -> Checked {
        let prefix = self.arch_key("");
        for (key, value) in &self.metadata {
            let Value::Float(x) = *value else { continue };
            let Some(name) = key.strip_prefix(&prefix).or_else(|| key.strip_prefix("general.sampling."))
            else {
                continue;
            };
            let fine = match name {
                _ if name.ends_with("epsilon") => (0.0..=1.0).contains(&x),
                "rope.freq_base" | "rope.freq_base_swa" => x.is_finite() && x > 0.0,
                "rope.scaling.factor"
                | "rope.scale_linear"
                | "final_logit_softcapping"
                | "attn_logit_softcapping" => x.is_finite() && x >= 0.0,
                _ => x.is_finite(),
            };
            if !fine {
                return Err(format!("`{}` is {x}", Escaped(key)));
            }
        }
        Ok(())
    }

    /// Numbers that llama.cpp divides by without looking, where an architecture has them.
    fn check_divisors(&self) -> Checked {
        let keys = [
            "ssm.conv_kernel",
            "ssm.inner_size",
            "ssm.state_size",
            "ssm.time_step_rank",
            "ssm.group_count",
            "wkv.head_size",
            "experts_per_group",
            "full_attention_interval",
        ];
        for key in keys.map(|key| self.arch_key(key)) {
            if self.value(&key).is_some() && self.u64(&key).is_none_or(|n| n == 0) {
                return Err(format!("`{key}` is not a whole number above 0"));
            }
        }
        Ok(())
    }

    fn check_window(&self) -> Checked {
        let key = self.arch_key("attention.sliding_window");
        let window = self.u64(&key).unwrap_or(0);
        if window > MAX_WINDOW {
            return Err(format!("`{key}` is {window}, it must be at most {MAX_WINDOW}"));
        }
        // llama.cpp makes two caches then, and asserts that both are used.
        let layers = self.layer_count() as u64;
        let alternates = self.architecture().is_some_and(|a| arch::slides(a, layers).is_some());
        if window > 0 && alternates && self.shape().sliding.is_none() {
            return Err(format!("`{key}` is {window}, but no layer slides"));
        }
        Ok(())
    }

    /// The assertions of `llama_model_base::load_hparams`.
    fn check_experts(&self) -> Checked {
        self.check_per_layer("expert_used_count", MAX_EXPERTS)?;
        let number = |key| self.arch_u64(key).unwrap_or(0);
        let (experts, groups, chosen) =
            (number("expert_count"), number("expert_group_count"), number("expert_group_used_count"));
        let used = self
            .per_layer("expert_used_count", self.layer_count())
            .and_then(|all| all.into_iter().max())
            .unwrap_or(0);
        let uneven = used > 0
            && self.array_len(&self.arch_key("expert_used_count")).is_some()
            && !self.uses_equally(used);
        if uneven && self.architecture() != Some("nemotron_h_moe") {
            return Err("its layers use different numbers of experts".to_owned());
        }
        // llama.cpp itself takes one expert for none in these.
        if experts <= 1 && self.architecture().is_some_and(|a| a.starts_with("hunyuan")) {
            return Ok(());
        }
        if experts > MAX_EXPERTS || used > experts || (experts > 0 && used == 0) {
            return Err(format!("it uses {used} of {experts} experts"));
        }
        let fits = groups <= 1 || (experts.is_multiple_of(groups) && (1..groups).contains(&chosen));
        if groups > 0 && (groups >= experts || !fits) {
            return Err(format!("it uses {chosen} of {groups} groups of {experts} experts"));
        }
        Ok(())
    }

    /// Only one architecture reads the number of experts layer by layer.
    fn uses_equally(&self, used: u64) -> bool {
        self.per_layer("expert_used_count", self.layer_count())
            .is_some_and(|all| all.iter().all(|&n| n == used))
    }

    fn check_tensors(&self) -> Checked {
        let embedding = self.tensor("token_embd.weight").ok_or("it has no tensor `token_embd.weight`")?;
        let width = self.arch_u64("embedding_length").unwrap_or(0);
        let tokens = self.texts("tokenizer.ggml.tokens").map_or(0, Texts::len) as u64;
        if embedding.dims != [width, tokens] {
            return Err(format!(
                "its embeddings have the shape {:?}, it must be [{width}, {tokens}]",
                embedding.dims
            ));
        }
        if !self.data_start.is_multiple_of(MAPPED_ALIGNMENT) {
            return Err(format!(
                "its weights begin at byte {}, not at a multiple of {MAPPED_ALIGNMENT}",
                self.data_start
            ));
        }
        self.tensors.iter().try_for_each(check_type)
    }
}

/// llama.cpp aborts on a norm that is not in 32-bit floats, and on a matrix of integers or of doubles.
fn check_type(tensor: &Tensor) -> Checked {
    let (name, kind) = (&tensor.name, tensor.kind);
    let table = name.contains("tid2eid") && kind.name == "I32";
    let plain = ["norm.weight", ".bias"].iter().any(|end| name.ends_with(end)) || name.starts_with("rope_");
    if (!kind.weight && !table) || (plain && kind.name != "F32") {
        return Err(format!("its tensor `{}` has the type {}", Escaped(name), kind.name));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::gguf::tiny_gguf::{Tiny, Value as Put, vocabulary};

    fn check(tiny: &Tiny) -> Result<()> {
        Header::from_bytes(&tiny.bytes())?.check_runnable(Path::new("dir/m.gguf"))
    }

    #[track_caller]
    #[expect(clippy::needless_pass_by_value, reason = "a table of files made on the spot reads better so")]
    fn refuses(tiny: Tiny, message: &str) {
        assert_eq!(check(&tiny).unwrap_err().message, format!("`dir/m.gguf` {message}"));
    }

    fn text(text: &str) -> Put {
        Put::Text(text.to_owned())
    }

    #[test]
    fn takes_the_tiny_model() {
        check(&Tiny::llama()).unwrap();
    }

    #[test]
    fn takes_harmless_oddities() {
        for (key, value) in [
            ("tokenizer.ggml.padding_token_id", Put::U32(9999)),
            ("tokenizer.ggml.bos_token_id", Put::U32(u32::MAX)),
            ("tokenizer.ggml.eot_token_id", Put::I32(-1)),
            ("general.type", text("something")),
            ("llama.vocab_size", Put::U32(1)),
            ("llama.rope.scaling.factor", Put::F32(8.0)),
            ("llama.rope.scaling.type", text("yarn")),
            ("llama.expert_count", Put::U32(0)),
            ("llama.expert_used_count", Put::U32(0)),
            ("split.count", Put::U16(1)),
            ("split.count", Put::U16(0)),
            ("tokenizer.ggml.scores", Put::F32s(vec![0.0; 300])),
        ] {
            check(&Tiny::llama().set(key, value)).unwrap_or_else(|e| panic!("{key}: {e}"));
        }
    }

    #[test]
    fn names_what_is_no_language_model() {
        for (kind, message) in [
            ("mmproj", "is a projector of images or sound (mmproj), not a language model"),
            ("adapter", "is an adapter (LoRA), not a language model"),
            ("imatrix", "is an importance matrix, not a language model"),
        ] {
            refuses(Tiny::empty().set("general.type", text(kind)), message);
        }
        for (arch, message) in [
            ("clip", "is a projector of images or sound (mmproj), not a language model"),
            ("controlvector", "is a control vector, not a language model"),
            ("bert", "is an embedding model (`bert`), it cannot write text"),
            ("t5", "is an encoder-decoder model (`t5`), it cannot write text"),
            ("t5encoder", "is an encoder without a decoder (`t5encoder`), it cannot write text"),
            ("llada", "is a diffusion model (`llada`), it cannot write text"),
            ("eagle3", "is a draft head for speculative decoding (`eagle3`), it cannot write text"),
            ("dflash", "is a draft head for speculative decoding (`dflash`), it cannot write text"),
            ("gpt9\n", "has the architecture `gpt9\\n`, which this version cannot run"),
        ] {
            refuses(Tiny::llama().with_architecture(arch), message);
        }
        refuses(Tiny::llama().without("general.architecture"), "does not say which architecture it has");
        refuses(
            Tiny::llama().set("llama.pooling_type", Put::U32(3)),
            "is an embedding model, it cannot write text",
        );
        refuses(
            Tiny::llama().set("llama.attention.causal", Put::Bool(false)),
            "is an embedding model, it cannot write text",
        );
    }

    #[test]
    fn names_what_is_missing() {
        refuses(Tiny::llama().without_prefix("tokenizer."), "has no vocabulary, it cannot write text");
        refuses(
            Tiny::llama().set("tokenizer.ggml.model", text("none")),
            "has no vocabulary, it cannot write text",
        );
        refuses(
            Tiny::llama().set("tokenizer.ggml.model", text("bert")),
            "has the tokenizer `bert`, which cannot write text",
        );
        refuses(Tiny::llama().without_tensors(), "has a vocabulary but no weights");
    }

    #[test]
    #[expect(clippy::too_many_lines, reason = "a flat table")]
    fn finds_each_contradiction() {
        let mut twice = vocabulary();
        twice[200] = "a\0b".into();
        let many = u32::MAX;
        for (key, value, clause) in [
            ("llama.block_count", Put::U32(0), "`llama.block_count` is 0, it must be from 1 to 512"),
            ("llama.block_count", Put::U32(513), "`llama.block_count` is 513, it must be from 1 to 512"),
            ("llama.block_count", text("2"), "`llama.block_count` is missing or no whole number"),
            ("llama.nextn_predict_layers", Put::U32(2), "2 of its 2 layers predict ahead, none is left"),
            (
                "llama.embedding_length",
                Put::U32(0),
                "`llama.embedding_length` is 0, it must be from 1 to 1048576",
            ),
            (
                "llama.embedding_length",
                Put::U32(67),
                "its embeddings have the shape [64, 268], it must be [67, 268]",
            ),
            (
                "llama.context_length",
                Put::U32(many),
                "`llama.context_length` is 4294967295, it must be from 1 to 2147483647",
            ),
            (
                "llama.feed_forward_length",
                Put::U32(many),
                "`llama.feed_forward_length` is 4294967295, it must be at most 16777216",
            ),
            (
                "llama.feed_forward_length",
                Put::U32s(vec![1]),
                "`llama.feed_forward_length` is neither a number nor 2 numbers",
            ),
            ("llama.attention.head_count", Put::U32(0), "`llama.attention.head_count` is 0"),
            ("llama.attention.head_count", Put::U32(3), "its 3 heads cannot share 2 heads of the KV cache"),
            (
                "llama.attention.head_count",
                Put::U32(128),
                "its heads are 0 wide for keys and 0 for values, at a width of 64",
            ),
            (
                "llama.attention.head_count_kv",
                Put::U32(8),
                "its 4 heads cannot share 8 heads of the KV cache",
            ),
            (
                "llama.attention.head_count_kv",
                Put::U32s(vec![2, 1]),
                "its layers have different numbers of heads",
            ),
            ("llama.expert_used_count", Put::U32s(vec![1, 0]), "its layers use different numbers of experts"),
            ("llama.rope.dimension_count", Put::U32(0), "0 dimensions of heads 16 wide are rotated"),
            ("llama.rope.dimension_count_swa", Put::U32(15), "15 dimensions of heads 16 wide are rotated"),
            ("llama.attention.key_length", Put::U32(32), "its keys are 32 wide, its values 16"),
            (
                "llama.rope.dimension_count",
                Put::U32(8),
                "8 dimensions of heads 16 wide are rotated, all must be",
            ),
            ("llama.rope.dimension_count", Put::U32(18), "18 dimensions of heads 16 wide are rotated"),
            ("llama.rope.freq_base", Put::F32(0.0), "`llama.rope.freq_base` is 0"),
            ("llama.rope.freq_base", Put::F32(f32::NAN), "`llama.rope.freq_base` is NaN"),
            ("llama.rope.scaling.factor", Put::F32(f32::INFINITY), "`llama.rope.scaling.factor` is inf"),
            (
                "llama.rope.scaling.type",
                text("su"),
                "`llama.rope.scaling.type` is none of `none`, `linear`, `yarn`, `longrope`",
            ),
            (
                "llama.attention.layer_norm_rms_epsilon",
                Put::F32(-1.0),
                "`llama.attention.layer_norm_rms_epsilon` is -1",
            ),
            (
                "llama.attention.sliding_window",
                Put::U32(many),
                "`llama.attention.sliding_window` is 4294967295, it must be at most 16777216",
            ),
            ("llama.ssm.group_count", Put::U32(0), "`llama.ssm.group_count` is not a whole number above 0"),
            ("llama.expert_count", Put::U32(4), "it uses 0 of 4 experts"),
            ("llama.expert_used_count", Put::U32(1), "it uses 1 of 0 experts"),
            ("llama.expert_group_count", Put::U32(1), "it uses 0 of 1 groups of 0 experts"),
            (
                "tokenizer.ggml.eos_token_id",
                Put::U32(268),
                "`tokenizer.ggml.eos_token_id` is 268, but there are 268 tokens",
            ),
            ("tokenizer.ggml.token_type", Put::I32s(vec![1]), "it has 268 tokens, but types for 1 of them"),
            ("tokenizer.ggml.scores", Put::F32(1.0), "it has 268 tokens, but scores for 0 of them"),
            ("tokenizer.ggml.tokens", Put::U32(1), "it has no list of tokens"),
            ("tokenizer.ggml.tokens", Put::Texts(vec![]), "it has no list of tokens"),
            ("tokenizer.ggml.tokens", Put::Texts(twice), "the token `a` occurs twice"),
            ("tokenizer.ggml.merges", Put::Texts(vec![]), "its tokenizer has no merges"),
            (
                "tokenizer.ggml.merges",
                Put::Texts(vec!["a b".into(), "ab ".into()]),
                "merge 1 of its tokenizer does not have two halves",
            ),
            (
                "tokenizer.ggml.merges",
                Put::Texts(vec![" b".into()]),
                "merge 0 of its tokenizer does not have two halves",
            ),
            ("tokenizer.ggml.model", text("llama"), "its vocabulary lacks the token `<0x00>`"),
        ] {
            refuses(Tiny::llama().set(key, value), &format!("is damaged: {clause}"));
        }
    }

    #[test]
    fn a_window_needs_a_layer_that_slides() {
        let tiny = |pattern| {
            let tiny = Tiny::llama()
                .with_architecture("gemma3")
                .set("gemma3.attention.sliding_window", Put::U32(16));
            tiny.set("gemma3.attention.sliding_window_pattern", pattern)
        };
        check(&tiny(Put::U32(2))).unwrap();
        refuses(
            tiny(Put::U32(1)),
            "is damaged: `gemma3.attention.sliding_window` is 16, but no layer slides",
        );
        refuses(
            tiny(Put::Bools(vec![])),
            "is damaged: `gemma3.attention.sliding_window` is 16, but no layer slides",
        );
    }

    #[test]
    fn finds_tensors_that_cannot_be() {
        let retype = |name: &str, kind| Tiny::llama().change_tensor(name, |t| t.kind = kind);
        refuses(
            Tiny::llama().without_tensor("token_embd.weight"),
            "is damaged: it has no tensor `token_embd.weight`",
        );
        refuses(
            retype("output_norm.weight", 26),
            "is damaged: its tensor `output_norm.weight` has the type I32",
        );
        refuses(
            retype("output_norm.weight", 1),
            "is damaged: its tensor `output_norm.weight` has the type F16",
        );
        refuses(
            retype("blk.0.attn_q.weight", 26),
            "is damaged: its tensor `blk.0.attn_q.weight` has the type I32",
        );
        // Some alignment of 8 does put the weights where a map cannot have them.
        let lengths = ["", "12345678", "1234567812345678", "123456781234567812345678"];
        let odd = lengths.map(|name| {
            let tiny = Tiny {
                alignment: 8,
                ..Tiny::llama().set("general.alignment", Put::U32(8)).set("general.name", text(name))
            };
            check(&tiny)
        });
        assert_eq!(odd.iter().filter(|result| result.is_ok()).count(), 1);
    }

    #[test]
    fn takes_a_vocabulary_of_bytes_and_none_that_lacks_one() {
        let mut tokens: Vec<String> = (0..=255_u8).map(|b| format!("<0x{b:02X}>")).collect();
        tokens.resize_with(268, String::new);
        let tiny = |tokens| {
            Tiny::llama()
                .set("tokenizer.ggml.model", text("llama"))
                .set("tokenizer.ggml.tokens", Put::Texts(tokens))
        };
        check(&tiny(tokens.clone())).unwrap();
        tokens[0xe9] = "<0xe9>".into();
        refuses(tiny(tokens), "is damaged: its vocabulary lacks the token `<0xE9>`");
    }
}
