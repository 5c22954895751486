use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use super::*;
use crate::engine::llama::Weights;
use crate::engine::log::lines_of;
use crate::engine::{Flash, LoadPlan};
use crate::model::gguf::tiny_gguf::{KINDS, Tiny, Value};

/// MiB of the compute buffer in llama.cpp's log: `sched_reserve: CPU compute buffer size = 6.02 MiB`.
fn told(path: &Path, plan: &LoadPlan) -> f64 {
    let lines = lines_of(|| {
        let weights = Weights::load(path, plan, &mut |_| ControlFlow::Continue(())).unwrap();
        drop(weights.open(Arc::default()).unwrap());
    });
    let size = |line: &String| {
        let (_, size) = line.split_once("sched_reserve:")?.1.split_once("compute buffer size =")?;
        size.trim().strip_suffix(" MiB")?.parse::<f64>().ok()
    };
    lines.iter().find_map(size).unwrap()
}

/// Contexts, types and micro-batches, and all scores at once.
fn plans() -> Vec<LoadPlan> {
    let usual = |ctx| LoadPlan::on_cpu(ctx, KvType::F16, 1);
    let contexts = [100, 512, 1024, 8192].into_iter();
    let eight = contexts.clone().map(|ctx| LoadPlan::on_cpu(ctx, KvType::Q8_0, 1));
    let small = LoadPlan { ubatch: 128, ..usual(1024) };
    let scores = [512, 1024].map(|ctx| LoadPlan { flash: Flash::Off, ..usual(ctx) });
    contexts.map(usual).chain(eight).chain([small]).chain(scores).collect()
}

/// Ours over llama.cpp's for all of them, at least and at most.
fn ratios(path: &Path) -> (f64, f64) {
    let shape = Header::open(path).unwrap().shape();
    let (mut least, mut most) = (f64::INFINITY, 0.0_f64);
    for plan in plans().into_iter().filter(|plan| shape.cache.unfit_width(plan.kv).is_none()) {
        let LoadPlan { ctx, kv, ubatch, flash, .. } = plan;
        let bytes = shape.compute.bytes(&shape.cache, ctx.into(), ubatch.into(), kv, flash != Flash::Off);
        #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
        let ours = bytes as f64 / f64::from(1 << 20);
        // The log tells hundredths.
        let told = told(path, &plan);
        least = least.min(ours / (told - 0.005));
        most = most.max(ours / (told + 0.005));
    }
    (least, most)
}

/// A model of two layers with these dimensions: width, head, heads, those of the cache, feed-forward; experts, those
/// used, and the width of one.
fn made(arch: &str, [width, head, heads, kv_heads, inner, experts, used, expert]: [u64; 8]) -> Tiny {
    let keys = [
        ("embedding_length", width),
        ("attention.head_count", heads),
        ("attention.head_count_kv", kv_heads),
        ("attention.key_length", head),
        ("attention.value_length", head),
        ("rope.dimension_count", head),
        ("feed_forward_length", inner),
        ("expert_count", experts),
        ("expert_used_count", used),
        ("expert_feed_forward_length", expert),
    ];
    let number = |n: u64| Value::U32(u32::try_from(n).unwrap());
    let bare = Tiny::llama().without_tensors().with_architecture(arch);
    let bare = keys
        .iter()
        .filter(|(_, n)| *n > 0)
        .fold(bare, |tiny, (key, n)| tiny.set(&format!("{arch}.{key}"), number(*n)));
    let (queries, keys) = (head * heads, head * kv_heads);
    let layer: &[(&str, &[u64])] = &[
        ("attn_norm", &[width]),
        ("ffn_norm", &[width]),
        ("attn_q", &[width, queries]),
        ("attn_k", &[width, keys]),
        ("attn_v", &[width, keys]),
        ("attn_output", &[queries, width]),
    ];
    let dense: &[(&str, &[u64])] =
        &[("ffn_gate", &[width, inner]), ("ffn_up", &[width, inner]), ("ffn_down", &[inner, width])];
    let mixture: &[(&str, &[u64])] = &[
        ("attn_q_norm", &[head]),
        ("attn_k_norm", &[head]),
        ("ffn_gate_inp", &[width, experts]),
        ("ffn_gate_exps", &[width, expert, experts]),
        ("ffn_up_exps", &[width, expert, experts]),
        ("ffn_down_exps", &[expert, width, experts]),
    ];
    let layer = [layer, if experts > 0 { mixture } else { dense }].concat();
    let tiny = bare.with_zeros("token_embd.weight", &[width, 268]).with_zeros("output_norm.weight", &[width]);
    (0..2).fold(tiny, |tiny, index| {
        layer
            .iter()
            .fold(tiny, |tiny, (name, dims)| tiny.with_zeros(&format!("blk.{index}.{name}.weight"), dims))
    })
}

#[test]
fn it_is_what_llama_cpp_allocates_where_feed_forward_layers_are_widest() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tiny.gguf");
    let wide = [("llama", [256, 32, 8, 2, 1024, 0, 0, 0]), ("qwen3moe", [256, 64, 4, 2, 512, 8, 4, 512])];
    for (arch, dims) in wide {
        made(arch, dims).write(&path);
        let (least, most) = ratios(&path);
        assert!(least >= 1.0 && most < 1.05, "{arch} {dims:?}: {least} to {most}");
    }
    let (least, most) = ratios(&crate::model::demo::unpack(folder.path()).unwrap());
    assert!(least >= 1.0 && most < 1.05, "demo: {least} to {most}");
}

#[test]
fn it_is_never_less_than_llama_cpp_allocates() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tiny.gguf");
    let narrow = [
        ("llama", [256, 32, 8, 8, 64, 0, 0, 0]),
        ("llama", [256, 128, 8, 2, 64, 0, 0, 0]),
        ("llama", [256, 128, 8, 8, 700, 0, 0, 0]),
        ("llama", [512, 128, 2, 2, 400, 0, 0, 0]),
        ("llama", [512, 128, 2, 2, 1400, 0, 0, 0]),
        ("qwen3moe", [256, 64, 4, 2, 512, 8, 4, 128]),
        ("qwen3moe", [256, 64, 4, 2, 512, 8, 1, 64]),
        ("qwen3moe", [256, 64, 4, 2, 512, 8, 8, 64]),
    ];
    let narrow = narrow.map(|(arch, dims)| (format!("{arch} {dims:?}"), made(arch, dims)));
    let kinds = KINDS.into_iter().map(|(name, make)| (name.to_owned(), make()));
    let others = [("no positions", Tiny::without_positions()), ("four heads", Tiny::llama())];
    let others = others.map(|(name, tiny)| (name.to_owned(), tiny));
    for (name, tiny) in kinds.chain(narrow).chain(others) {
        tiny.write(&path);
        let (least, most) = ratios(&path);
        assert!(least >= 1.0 && most < 1.6, "{name}: {least} to {most}");
    }
}
