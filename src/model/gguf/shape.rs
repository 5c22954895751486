//! What a header says about its model, in plain values: for showing it, and for planning where it fits.

use std::fmt;

use super::Header;
use super::cache::Cache;
use super::compute::Compute;
use super::spread::Spread;
use crate::model::arch::{self, Slides};

/// llama.cpp loads no more layers than this.
pub(super) const MAX_LAYERS: u64 = 512;

/// A model's dimensions and facts. What the file does not say is `None` or empty.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Shape {
    pub(crate) architecture: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) licence: Option<String>,
    pub(crate) parameters: u64,
    pub(crate) file_bytes: u64,
    pub(crate) tensor_bytes: u64,
    /// How the weights are stored, the largest share first.
    pub(crate) types: Vec<TypeShare>,
    /// What most of the weights are, as the file calls it: `Q4_K_M`.
    pub(crate) file_type: Option<&'static str>,
    /// Tokens in a context that the model was trained on.
    pub(crate) context: Option<u64>,
    /// Layers that generate; extra ones that predict several tokens ahead are not counted.
    pub(crate) layers: Option<u64>,
    /// The width of an embedding.
    pub(crate) width: Option<u64>,
    pub(crate) feed_forward: Option<u64>,
    /// Query heads, layer by layer.
    pub(crate) heads: Vec<u64>,
    /// Heads of the KV cache, layer by layer.
    pub(crate) kv_heads: Vec<u64>,
    /// Numbers in a key and in a value of one head.
    pub(crate) head_width: (u64, u64),
    pub(crate) sliding: Option<Sliding>,
    pub(crate) experts: Option<u64>,
    pub(crate) experts_used: Option<u64>,
    pub(crate) vocabulary: Option<u64>,
    pub(crate) tokenizer: Option<String>,
    pub(crate) pre_tokenizer: Option<String>,
    pub(crate) special: Vec<SpecialToken>,
    pub(crate) add_bos: Option<bool>,
    /// Names of chat templates; the one without a name is `default`.
    pub(crate) templates: Vec<String>,
    /// Recommended sampling, under the names of [`arch::SAMPLING`].
    pub(crate) sampling: Vec<(&'static str, f64)>,
    /// What a context keeps.
    pub(crate) cache: Cache,
    /// What an evaluation takes.
    pub(crate) compute: Compute,
    /// Where the weights are used.
    pub(crate) spread: Spread,
}

/// The tensors that share a type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TypeShare {
    pub(crate) name: &'static str,
    pub(crate) tensors: u64,
    pub(crate) parameters: u64,
    pub(crate) bytes: u64,
}

/// Layers that see only the last `window` tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sliding {
    pub(crate) window: u64,
    /// Which layers slide.
    pub(crate) layers: Vec<bool>,
    /// Numbers in a key and in a value of one head of these layers.
    pub(crate) head_width: (u64, u64),
}

/// A token with a purpose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SpecialToken {
    /// `bos`, `eos`, `eot`, …
    pub(crate) role: &'static str,
    pub(crate) id: u64,
    /// Nothing when the vocabulary has no such token.
    pub(crate) text: Option<String>,
}

/// How many query heads share a head of the KV cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Attention {
    /// Multi-head: each has its own.
    Multi,
    /// Grouped-query: some share one.
    Grouped,
    /// Multi-query: all share one.
    Single,
}

impl fmt::Display for Attention {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Multi => "MHA",
            Self::Grouped => "GQA",
            Self::Single => "MQA",
        })
    }
}

impl Header {
    /// What the header says about its model.
    pub(crate) fn shape(&self) -> Shape {
        let text = |key| self.str(key).map(str::to_owned);
        let layers = self.generating_layers();
        let (heads, kv_heads) = self.heads();
        let head_width = self.head_width(&heads);
        let sliding = self.sliding(head_width);
        Shape {
            architecture: text("general.architecture"),
            name: text("general.name"),
            licence: text("general.license"),
            parameters: self.tensors.iter().fold(0, |sum, t| sum.saturating_add(t.elements())),
            file_bytes: self.file_bytes,
            tensor_bytes: self.tensors.iter().fold(0, |sum, t| sum.saturating_add(t.bytes)),
            types: self.types(),
            file_type: self.u64("general.file_type").and_then(arch::file_type),
            context: self.arch_u64("context_length"),
            layers,
            width: self.arch_u64("embedding_length"),
            feed_forward: self
                .per_layer("feed_forward_length", self.layer_count())
                .and_then(|all| all.into_iter().max()),
            cache: self.cache((&heads, &kv_heads), head_width, sliding.as_ref()),
            spread: self.spread(),
            compute: self.compute(&heads, &kv_heads, head_width),
            sliding,
            heads,
            kv_heads,
            head_width,
            experts: self.arch_u64("expert_count").filter(|&n| n > 0),
            experts_used: self
                .per_layer("expert_used_count", self.layer_count())
                .and_then(|all| all.into_iter().max())
                .filter(|&n| n > 0),
            vocabulary: self
                .texts("tokenizer.ggml.tokens")
                .map(|t| t.len() as u64)
                .or(self.arch_u64("vocab_size")),
            tokenizer: text("tokenizer.ggml.model"),
            pre_tokenizer: text("tokenizer.ggml.pre"),
            special: self.special(),
            add_bos: self.bool("tokenizer.ggml.add_bos_token"),
            templates: self
                .chat_templates()
                .iter()
                .map(|(name, _)| name.unwrap_or("default").to_owned())
                .collect(),
            sampling: arch::SAMPLING
                .iter()
                .filter_map(|&name| Some((name, self.f64(&format!("general.sampling.{name}"))?)))
                .collect(),
        }
    }

    /// All layers of the file, bounded so that a list of them stays small.
    pub(super) fn layer_count(&self) -> usize {
        let n = self.arch_u64("block_count").unwrap_or(0).min(MAX_LAYERS);
        usize::try_from(n).unwrap_or(0)
    }

    fn generating_layers(&self) -> Option<u64> {
        let extra = self.arch_u64("nextn_predict_layers").unwrap_or(0);
        Some(self.arch_u64("block_count")?.saturating_sub(extra))
    }

    fn heads(&self) -> (Vec<u64>, Vec<u64>) {
        let all = self.layer_count();
        let mut heads = self.per_layer("attention.head_count", all).unwrap_or_default();
        let mut kv = self.per_layer("attention.head_count_kv", all).unwrap_or_else(|| heads.clone());
        let generating = self.generating_layers().and_then(|n| usize::try_from(n).ok()).unwrap_or(all);
        heads.truncate(generating);
        kv.truncate(generating);
        (heads, kv)
    }

    /// What llama.cpp takes: the width divided among the first layer's heads, unless the file says otherwise.
    pub(super) fn head_width(&self, heads: &[u64]) -> (u64, u64) {
        let first = heads.first().copied().unwrap_or(0);
        let share = self.arch_u64("embedding_length").unwrap_or(0).checked_div(first).unwrap_or(0);
        let width = |key| self.arch_u64(key).unwrap_or(share);
        (width("attention.key_length"), width("attention.value_length"))
    }

    fn sliding(&self, full: (u64, u64)) -> Option<Sliding> {
        let told = self.arch_u64("attention.sliding_window");
        let window = arch::sliding_window(self.architecture()?, told)?;
        let layers = self.sliding_layers()?;
        let width = |key, full| self.arch_u64(key).unwrap_or(full);
        let head_width =
            (width("attention.key_length_swa", full.0), width("attention.value_length_swa", full.1));
        layers.contains(&true).then_some(Sliding { window, layers, head_width })
    }

    fn sliding_layers(&self) -> Option<Vec<bool>> {
        let layers = self.generating_layers()?.min(MAX_LAYERS);
        let slides = arch::slides(self.architecture()?, layers)?;
        let count = usize::try_from(layers).ok()?;
        let key = self.arch_key("attention.sliding_window_pattern");
        if let Some(told) = self.u64s(&key) {
            return Some((0..count).map(|i| told.get(i).is_some_and(|&slides| slides != 0)).collect());
        }
        let Slides::Between { every, first } = slides else { return None };
        let every = self.u64(&key).map_or(Some(every), |n| usize::try_from(n).ok())?;
        Some((0..count).map(|i| every == 0 || i % every != if first { 0 } else { every - 1 }).collect())
    }

    fn types(&self) -> Vec<TypeShare> {
        let mut types: Vec<TypeShare> = Vec::new();
        for tensor in &self.tensors {
            let index = types.iter().position(|t| t.name == tensor.kind.name).unwrap_or_else(|| {
                types.push(TypeShare { name: tensor.kind.name, tensors: 0, parameters: 0, bytes: 0 });
                types.len() - 1
            });
            let share = &mut types[index];
            share.tensors += 1;
            share.parameters = share.parameters.saturating_add(tensor.elements());
            share.bytes = share.bytes.saturating_add(tensor.bytes);
        }
        types.sort_by(|a, b| b.bytes.cmp(&a.bytes).then(a.name.cmp(b.name)));
        types
    }

    fn special(&self) -> Vec<SpecialToken> {
        let token = |&(role, key): &(&'static str, &str)| {
            let id = self.u64(&format!("tokenizer.ggml.{key}"))?;
            Some(SpecialToken { role, id, text: self.token(id).map(str::to_owned) })
        };
        arch::SPECIAL_TOKENS.iter().filter_map(token).collect()
    }
}

impl Shape {
    /// All of the weights' bits over all of the parameters.
    #[expect(clippy::cast_precision_loss, reason = "a number for people")]
    pub(crate) fn bits_per_weight(&self) -> f64 {
        if self.parameters == 0 { 0.0 } else { self.tensor_bytes as f64 * 8.0 / self.parameters as f64 }
    }

    /// Nothing for a model without attention.
    pub(crate) fn attention(&self) -> Option<Attention> {
        let heads = self.heads.iter().copied().max().filter(|&n| n > 0)?;
        let kv = self.kv_heads.iter().copied().max().filter(|&n| n > 0)?;
        Some(match kv {
            n if n == heads => Attention::Multi,
            1 => Attention::Single,
            _ => Attention::Grouped,
        })
    }

    /// A special token by its role: `bos`, `eos`, …
    pub(crate) fn special(&self, role: &str) -> Option<&SpecialToken> {
        self.special.iter().find(|t| t.role == role)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::KvType;
    use crate::model::gguf::tiny_gguf::{Tiny, Value};

    #[expect(clippy::needless_pass_by_value, reason = "files made on the spot read better so")]
    fn shape(tiny: Tiny) -> Shape {
        Header::from_bytes(&tiny.bytes()).unwrap().shape()
    }

    #[test]
    fn tells_what_the_tiny_model_is() {
        let shape = shape(Tiny::llama());
        assert_eq!(shape.architecture.as_deref(), Some("llama"));
        assert_eq!(shape.name.as_deref(), Some("tiny"));
        assert_eq!(
            (shape.layers, shape.width, shape.context, shape.feed_forward),
            (Some(2), Some(64), Some(256), Some(128))
        );
        assert_eq!(
            (shape.heads.as_slice(), shape.kv_heads.as_slice(), shape.head_width),
            ([4, 4].as_slice(), [2, 2].as_slice(), (16, 16))
        );
        assert_eq!(shape.file_type, Some("F32"));
        assert_eq!(shape.tensor_bytes, shape.parameters * 4);
        assert!((shape.bits_per_weight() - 32.0).abs() < 1e-9);
        assert_eq!(shape.types.len(), 1);
        assert_eq!((shape.types[0].name, shape.types[0].tensors), ("F32", 2 * 9 + 2));
        assert_eq!(shape.special("eos").and_then(|t| t.text.as_deref()), Some("<|im_end|>"));
        assert_eq!(shape.special("mask"), None);
        assert_eq!(shape.templates, ["default"]);
        assert_eq!(shape.add_bos, Some(false));
        assert_eq!(shape.sliding, None);
        assert_eq!((shape.experts, shape.experts_used), (None, None));
    }

    #[test]
    fn names_the_attention_by_its_heads() {
        for (kv, kind, name) in
            [(4, Attention::Multi, "MHA"), (2, Attention::Grouped, "GQA"), (1, Attention::Single, "MQA")]
        {
            let shape = shape(Tiny::llama().set("llama.attention.head_count_kv", Value::U32(kv)));
            assert_eq!(shape.attention(), Some(kind));
            assert_eq!(kind.to_string(), name);
        }
    }

    #[test]
    fn an_architecture_that_ignores_its_window_has_none() {
        assert_eq!(shape(Tiny::llama().set("llama.attention.sliding_window", Value::U32(512))).sliding, None);
    }

    #[test]
    fn reads_recommended_sampling_as_it_was_written() {
        let shape = shape(
            Tiny::llama()
                .set("general.sampling.temp", Value::F32(0.6))
                .set("general.sampling.top_k", Value::I32(20))
                .set("general.sampling.penalty_last_n", Value::I32(-1))
                .set("general.sampling.min_p", Value::Text("none".into())),
        );
        assert_eq!(shape.sampling, [("temp", 0.6), ("top_k", 20.0), ("penalty_last_n", -1.0)]);
    }

    #[test]
    fn named_templates_are_listed_after_the_default() {
        let tiny = Tiny::llama().set("tokenizer.chat_template.tool_use", Value::Text("x".into()));
        assert_eq!(shape(tiny).templates, ["default", "tool_use"]);
    }

    #[test]
    fn wrong_types_and_wild_numbers_are_no_facts() {
        let shape = shape(
            Tiny::llama()
                .set("llama.block_count", Value::U64(u64::MAX))
                .set("general.name", Value::U32(7))
                .set("llama.context_length", Value::Text("long".into()))
                .set("llama.attention.key_length", Value::U64(u64::MAX))
                .set("tokenizer.ggml.eos_token_id", Value::I32(-1)),
        );
        assert_eq!((shape.name.as_deref(), shape.context, shape.layers), (None, None, Some(u64::MAX)));
        assert_eq!(shape.special("eos"), None);
        assert!(shape.cache.bytes(u64::MAX, u64::MAX, KvType::F16) > 0);
    }
}
