//! Tiny models of the kinds that differ in what they remember of a text, each of which llama.cpp runs.

use super::{FEED_FORWARD, Tiny, Value, WIDTH, number};

/// The weights of a layer: what stands behind `blk.N.`, and the dimensions.
pub(super) type Layer = Vec<(&'static str, Vec<u64>)>;

pub(crate) type Kind = (&'static str, fn() -> Tiny);

/// All of them, by name.
pub(crate) const KINDS: [Kind; 6] = [
    ("one layer", Tiny::one_layer),
    ("m-rope", Tiny::mrope),
    ("sliding", Tiny::sliding),
    ("latent", Tiny::latent),
    ("recurrent", Tiny::recurrent),
    ("hybrid", Tiny::hybrid),
];

const CONTEXT: u32 = 512;
/// Two heads share one of the KV cache, as wide as a block of quantized numbers.
const HEAD: u64 = 32;
/// The sliding window, in tokens.
pub(crate) const WINDOW: u32 = 32;

impl Tiny {
    /// A `llama` of one layer: what is cached of a token depends on that token alone.
    pub(crate) fn one_layer() -> Self {
        Self::narrow("llama", &[transformer()])
    }

    /// A `qwen2vl`, whose positions have parts for time, height and width.
    pub(crate) fn mrope() -> Self {
        Self::narrow("qwen2vl", &[transformer(), transformer()])
            .set("qwen2vl.rope.dimension_sections", Value::I32s(vec![4, 6, 6, 0]))
    }

    /// A `gemma3` that looks back [`WINDOW`] tokens in its first and third layer and on all in the second.
    pub(crate) fn sliding() -> Self {
        let layer = [
            transformer(),
            normalized_heads(),
            norms(&["post_attention_norm.weight", "post_ffw_norm.weight"]),
        ];
        Self::narrow("gemma3", &[layer.concat(), layer.concat(), layer.concat()])
            .set("gemma3.attention.sliding_window", Value::U32(WINDOW))
            .set("gemma3.attention.sliding_window_pattern", Value::Bools(vec![true, false, true]))
    }

    /// A `deepseek2` of one layer, which caches keys alone: their first half serves as values.
    pub(crate) fn latent() -> Self {
        Self::narrow("deepseek2", &[[latent_attention(), feed_forward()].concat()])
            .set("deepseek2.leading_dense_block_count", Value::U32(1))
            .set("deepseek2.expert_feed_forward_length", Value::U32(0))
            .set("deepseek2.expert_shared_count", Value::U32(0))
            .set("deepseek2.attention.q_lora_rank", Value::U32(0))
            .set("deepseek2.attention.kv_lora_rank", number(HEAD))
            .set("deepseek2.attention.key_length", number(2 * HEAD))
            .set("deepseek2.attention.value_length", number(HEAD))
            .set("deepseek2.attention.key_length_mla", number(2 * HEAD))
            .set("deepseek2.attention.value_length_mla", number(HEAD))
    }

    /// A `mamba`, which keeps a state of constant size.
    pub(crate) fn recurrent() -> Self {
        Self::narrow("mamba", &[mamba(), mamba()])
            .without("mamba.attention.head_count")
            .without("mamba.attention.head_count_kv")
            .set("mamba.feed_forward_length", Value::U32(0))
            .set("mamba.ssm.conv_kernel", number(KERNEL))
            .set("mamba.ssm.inner_size", number(2 * WIDTH))
            .set("mamba.ssm.state_size", number(STATE))
            .set("mamba.ssm.time_step_rank", number(RANK))
    }

    /// An `lfm2`: a convolution that keeps its last inputs, and a layer of attention.
    pub(crate) fn hybrid() -> Self {
        let first = [convolution(), feed_forward()].concat();
        let second = [transformer(), normalized_heads()].concat();
        Self::narrow("lfm2", &[first, second])
            .set("lfm2.attention.head_count_kv", Value::U32s(vec![0, 1]))
            .set("lfm2.shortconv.l_cache", number(KERNEL))
            .change_tensor("output_norm.weight", |norm| norm.name = "token_embd_norm.weight".into())
    }

    /// A `smollm3` of four layers: the first three change nothing, the last knows no positions.
    pub(crate) fn without_positions() -> Self {
        let mut tiny = Self::narrow("smollm3", &[transformer(), transformer(), transformer(), transformer()]);
        for tensor in &mut tiny.tensors {
            let adds = ["attn_output.weight", "ffn_down.weight"].iter().any(|end| tensor.name.ends_with(end));
            if adds && !tensor.name.starts_with("blk.3.") {
                tensor.data.fill(0);
            }
        }
        tiny
    }

    /// A model with two heads, one KV head and a context that takes some overflowing.
    fn narrow(arch: &str, layers: &[Layer]) -> Self {
        Self::model(arch, layers)
            .set_for(arch, "context_length", Value::U32(CONTEXT))
            .set_for(arch, "attention.head_count", number(WIDTH / HEAD))
            .set_for(arch, "attention.head_count_kv", Value::U32(1))
            .set_for(arch, "rope.dimension_count", number(HEAD))
    }
}

/// The convolution's length, the numbers in a channel's state, and the rank of the time steps.
const KERNEL: u64 = 4;
const STATE: u64 = 16;
const RANK: u64 = 4;

pub(super) fn attention(head: u64, heads: u64, kv_heads: u64) -> Layer {
    vec![
        ("attn_norm.weight", vec![WIDTH]),
        ("attn_q.weight", vec![WIDTH, head * heads]),
        ("attn_k.weight", vec![WIDTH, head * kv_heads]),
        ("attn_v.weight", vec![WIDTH, head * kv_heads]),
        ("attn_output.weight", vec![head * heads, WIDTH]),
    ]
}

pub(super) fn feed_forward() -> Layer {
    vec![
        ("ffn_norm.weight", vec![WIDTH]),
        ("ffn_gate.weight", vec![WIDTH, FEED_FORWARD]),
        ("ffn_up.weight", vec![WIDTH, FEED_FORWARD]),
        ("ffn_down.weight", vec![FEED_FORWARD, WIDTH]),
    ]
}

fn transformer() -> Layer {
    [attention(HEAD, WIDTH / HEAD, 1), feed_forward()].concat()
}

fn normalized_heads() -> Layer {
    vec![("attn_q_norm.weight", vec![HEAD]), ("attn_k_norm.weight", vec![HEAD])]
}

fn norms(names: &[&'static str]) -> Layer {
    names.iter().map(|&name| (name, vec![WIDTH])).collect()
}

/// Half of each head is rotated; the other half of the keys and all values come out of one vector.
fn latent_attention() -> Layer {
    let heads = WIDTH / HEAD;
    vec![
        ("attn_norm.weight", vec![WIDTH]),
        ("attn_kv_a_norm.weight", vec![HEAD]),
        ("attn_q.weight", vec![WIDTH, heads * 2 * HEAD]),
        ("attn_kv_a_mqa.weight", vec![WIDTH, 2 * HEAD]),
        ("attn_k_b.weight", vec![HEAD, HEAD, heads]),
        ("attn_v_b.weight", vec![HEAD, HEAD, heads]),
        ("attn_output.weight", vec![heads * HEAD, WIDTH]),
    ]
}

fn mamba() -> Layer {
    let inner = 2 * WIDTH;
    vec![
        ("attn_norm.weight", vec![WIDTH]),
        ("ssm_in.weight", vec![WIDTH, 2 * inner]),
        ("ssm_conv1d.weight", vec![KERNEL, inner]),
        ("ssm_conv1d.bias", vec![inner]),
        ("ssm_x.weight", vec![inner, RANK + 2 * STATE]),
        ("ssm_dt.weight", vec![RANK, inner]),
        ("ssm_dt.bias", vec![inner]),
        ("ssm_a", vec![STATE, inner]),
        ("ssm_d", vec![inner]),
        ("ssm_out.weight", vec![inner, WIDTH]),
    ]
}

fn convolution() -> Layer {
    vec![
        ("attn_norm.weight", vec![WIDTH]),
        ("shortconv.conv.weight", vec![KERNEL, WIDTH]),
        ("shortconv.in_proj.weight", vec![WIDTH, 3 * WIDTH]),
        ("shortconv.out_proj.weight", vec![WIDTH, WIDTH]),
    ]
}
