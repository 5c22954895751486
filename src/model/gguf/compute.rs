//! What one evaluation takes besides weights and cache: llama.cpp's compute buffer, from above.
//!
//! It holds what is alive at the widest moment of the graph (`src/llama-graph.cpp`): the inputs, among them one mask for
//! each cache, and the numbers of a micro-batch in the widest layer. `ggml-alloc.c` gives room back after the last use and
//! lets most operations overwrite their input, but not the product of gate and up.

use super::Header;
use super::cache::Cache;
use crate::engine::KvType;
use crate::numbers::{product, sum};

/// Numbers are 32-bit floats.
const FLOAT: u64 = 4;
/// Embeddings that stay all the way, in widths of the model: those given in place of tokens, twice, and a copy of them
/// that no layer reads but the graph builds; and one more that falls between larger ones.
const STAYING: u64 = 4;
/// Positions, places in the cache and the like.
const INDICES: u64 = 64;

/// Numbers for each token of a micro-batch, unless said otherwise.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Compute {
    width: u64,
    attention: u64,
    feed_forward: u64,
    recurrent: u64,
    /// Inputs that each layer has of its own.
    beside: u64,
    /// Query heads of the layer that has most.
    heads: u64,
    /// Of the matrices that spread quantized keys and values, in all.
    rotations: u64,
    /// Of the state of one layer, in all.
    state: u64,
    vocabulary: u64,
}

impl Compute {
    /// Bytes for evaluating so many tokens at a time in a context of `tokens`. Without flash attention, all scores of a
    /// layer are there at once.
    pub(crate) fn bytes(&self, cache: &Cache, tokens: u64, ubatch: u64, kv: KvType, flash: bool) -> u64 {
        let ubatch = ubatch.min(tokens);
        let cells = cache.cells(tokens, ubatch);
        let most = cells.iter().copied().max().unwrap_or(0);
        // Values are then laid out otherwise, and one more embedding finds no room between.
        let (mask, scores, more) =
            if flash { (FLOAT / 2, 0, 0) } else { (FLOAT, product([self.heads, most]), self.width) };
        let layer = sum([self.attention, scores]).max(sum([self.feed_forward, more])).max(self.recurrent);
        let numbers = sum([product([STAYING, self.width]), self.beside, layer]);
        let turned = if kv == KvType::F16 { 0 } else { self.rotations };
        sum([
            product([ubatch, numbers, FLOAT]).max(product([self.vocabulary, FLOAT])),
            product([ubatch, mask, sum(cells.iter().copied())]),
            product([turned, cells.len() as u64, FLOAT]),
            product([2, self.state, FLOAT]),
            product([ubatch, INDICES]),
        ])
    }
}

impl Header {
    /// What evaluating this model takes, given its query heads and those of the KV cache, and their width.
    pub(super) fn compute(&self, heads: &[u64], kv_heads: &[u64], (key, value): (u64, u64)) -> Compute {
        let number = |name| self.arch_u64(name).unwrap_or(0);
        let most = |all: &[u64]| all.iter().copied().max().unwrap_or(0);
        let (width, heads, kv_heads) = (number("embedding_length"), most(heads), most(kv_heads));
        let queries = product([heads, key.max(value)]);
        let latent = self.arch_u64("attention.key_length_mla").is_some_and(|n| n > 0);
        let vocabulary =
            self.texts("tokenizer.ggml.tokens").map_or(number("vocab_size"), |all| all.len() as u64);
        Compute {
            width,
            // What is added at the end, queries, keys and values, and what attention answers. Where keys are made of a
            // latent vector, also the queries before that.
            attention: sum([
                width,
                product([2 + u64::from(latent), queries]),
                product([kv_heads, sum([key, value])]),
            ]),
            feed_forward: self.feed_forward_numbers(width),
            recurrent: self.recurrent_numbers(width),
            beside: product([2, number("embedding_length_per_layer_input"), number("block_count")]),
            heads,
            rotations: sum([rotation(key, true), rotation(value, false)]),
            state: self.state_numbers(self.architecture().unwrap_or_default(), heads, key),
            vocabulary,
        }
    }

    /// What is added at the end; up, gate and their product, of each expert that is used; what these answer, before and
    /// after it is weighted.
    fn feed_forward_numbers(&self, width: u64) -> u64 {
        let widest = |name| self.per_layer(name, self.layer_count()).and_then(|all| all.into_iter().max());
        let inner = widest("feed_forward_length").unwrap_or(0);
        let used = widest("expert_used_count").unwrap_or(0);
        if used == 0 {
            return sum([width, product([3, inner])]);
        }
        // Some say how wide layers without experts would be that they do not have.
        let has_dense = self.tensors.iter().any(|tensor| tensor.name.ends_with(".ffn_down.weight"));
        let dense = if has_dense { inner } else { 0 };
        let expert = widest("expert_feed_forward_length").unwrap_or(inner);
        // It runs beside the others, from the same normalized input.
        let shared = widest("expert_shared_feed_forward_length").unwrap_or(0);
        let three = [product([used, expert]), dense, sum([shared, width])].map(|inner| product([3, inner]));
        let weighted = product([2, used, width]);
        sum([width, three.into_iter().max().unwrap_or(0)]).max(weighted)
    }

    /// What goes into the states and comes out of them.
    fn recurrent_numbers(&self, width: u64) -> u64 {
        let number = |name| self.arch_u64(name).unwrap_or(0);
        let inner = number("ssm.inner_size");
        if inner == 0 {
            return 0;
        }
        let groups = product([2, number("ssm.group_count").max(1), number("ssm.state_size")]);
        sum([product([4, width]), product([6, sum([inner, groups])])])
    }
}

/// `llama_kv_cache`: a square matrix as wide as the largest power of two in a key, and 64 for a value.
fn rotation(width: u64, is_key: bool) -> u64 {
    if width == 0 || !width.is_multiple_of(64) {
        return 0;
    }
    let side = if is_key { 1 << width.trailing_zeros() } else { 64 };
    product([side, side])
}

#[cfg(test)]
mod tests;
