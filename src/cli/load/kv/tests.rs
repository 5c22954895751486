use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::*;
use crate::engine::llama::Weights;
use crate::engine::log::lines_of;
use crate::engine::{Engine, Fed, LoadPlan, Sampling};
use crate::model::gguf::Header;
use crate::model::gguf::tiny_gguf::{KINDS, Kind, Tiny, Value};

fn weights(path: &Path, ctx: u32, kv: KvType) -> Weights {
    let plan = LoadPlan::on_cpu(ctx, kv, 1);
    Weights::load(path, &plan, &mut |_| ControlFlow::Continue(())).unwrap()
}

fn shape(path: &Path) -> Shape {
    let header = Header::open(path).unwrap();
    header.check_runnable(path).unwrap();
    header.shape()
}

/// The tiny models of every kind and the demo, as files.
fn models(folder: &Path) -> Vec<(&'static str, PathBuf)> {
    let write = |(name, make): Kind| {
        let path = folder.join(format!("{name}.gguf"));
        make().write(&path);
        (name, path)
    };
    let demo = ("demo", crate::model::demo::unpack(folder).unwrap());
    KINDS.into_iter().map(write).chain([demo]).collect()
}

/// What llama.cpp says that it allocated: MiB, and cells times layers.
#[derive(Default)]
struct Told {
    mib: f64,
    cells: u64,
}

/// The line of each cache is like `llama_kv_cache: size =    1.50 MiB (   512 cells,   3 layers,  1/1 seqs), K (f16): …`.
fn told(lines: &[String], who: &str) -> Told {
    let mut told = Told::default();
    for line in lines {
        let Some((_, line)) = line.split_once(&format!("{who}: size =")) else { continue };
        let words: Vec<&str> = line.split([' ', '(', ',', ')']).filter(|word| !word.is_empty()).collect();
        let before = |unit| words[words.iter().position(|word| *word == unit).unwrap() - 1];
        told.mib += before("MiB").parse::<f64>().unwrap();
        told.cells += before("cells").parse::<u64>().unwrap() * before("layers").parse::<u64>().unwrap();
    }
    told
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

#[test]
fn sizes_are_those_that_llama_cpp_allocates() {
    let folder = tempfile::tempdir().unwrap();
    for (name, path) in models(folder.path()) {
        let cache = shape(&path).cache;
        for kv in KvType::ALL {
            for ctx in [100, 512, 1000, 4096, 8192] {
                let lines = lines_of(|| drop(weights(&path, ctx, kv).open(Arc::default()).unwrap()));
                let what = format!("{name} {kv} {ctx}\n{lines:#?}");
                let (keys, state) = (told(&lines, "llama_kv_cache"), told(&lines, "llama_memory_recurrent"));
                let bytes = cache.kv_bytes(ctx.into(), kv);
                // Each of at most two caches is told to the hundredth.
                assert!((keys.mib - mib(bytes)).abs() <= 0.01, "{what}");
                assert!((state.mib - mib(cache.state_bytes())).abs() <= 0.005, "{what}");
                assert_eq!(keys.cells > 0, cache.has_kv(), "{what}");
                // In each of these models all layers with keys have equal ones.
                assert_eq!(bytes * layers(name), keys.cells * cache.bytes_per_token(kv), "{what}");
            }
        }
    }
}

/// How many layers have keys.
fn layers(name: &str) -> u64 {
    match name {
        "recurrent" => 0,
        "one layer" | "latent" | "hybrid" => 1,
        "sliding" => 3,
        "demo" => 4,
        _ => 2,
    }
}

#[test]
fn a_type_is_refused_or_it_opens_and_decodes() {
    let folder = tempfile::tempdir().unwrap();
    let narrow = folder.path().join("narrow.gguf");
    Tiny::llama().write(&narrow);
    let mut refused = Vec::new();
    for (name, path) in models(folder.path()).into_iter().chain([("narrow", narrow)]) {
        for kv in KvType::ALL {
            match usable(kv, &shape(&path)) {
                Ok(kv) => decode(&path, kv),
                Err(error) => {
                    assert_eq!(error.hint.as_deref(), Some("leave `--kv` out"));
                    refused.push(format!("{name}: {}", error.message));
                    // It would not have opened.
                    assert!(weights(&path, 256, kv).open(Arc::default()).is_err(), "{name} {kv}");
                }
            }
        }
    }
    let width = "KV cache needs heads of a multiple of 32 values; here they have 16";
    assert_eq!(refused, [format!("narrow: a q8_0 {width}"), format!("narrow: a q4_0 {width}")]);
}

/// Read more than a batch and generate some tokens.
fn decode(path: &Path, kv: KvType) {
    let weights = weights(path, 1000, kv);
    let mut llama = weights.open(Arc::default()).unwrap();
    let prompt: Vec<_> = (0..600).map(|i| 4 + i % 200).collect();
    assert_eq!(llama.feed(&prompt, true).unwrap(), Fed::All);
    llama.begin(&Sampling { temp: 0.0, ..Sampling::default() }, &[]).unwrap();
    for _ in 0..3 {
        let token = llama.sample().unwrap();
        assert_eq!(llama.feed(&[token], true).unwrap(), Fed::All);
    }
}

#[test]
fn heads_of_any_layer_can_be_the_reason() {
    let shape = |tiny: &Tiny| Header::from_bytes(&tiny.bytes()).unwrap().shape();
    let sliding = Tiny::sliding().set("gemma3.attention.value_length_swa", Value::U32(80));
    let message = |kv, tiny: &Tiny| usable(kv, &shape(tiny)).unwrap_err().message;
    assert_eq!(usable(KvType::F16, &shape(&sliding)).unwrap(), KvType::F16);
    assert_eq!(
        message(KvType::Q4_0, &sliding),
        "a q4_0 KV cache needs heads of a multiple of 32 values; here they have 80"
    );
    let grok = Tiny::one_layer().with_architecture("grok");
    assert_eq!(usable(KvType::F16, &shape(&grok)).unwrap(), KvType::F16);
    assert_eq!(
        message(KvType::Q8_0, &grok),
        "a q8_0 KV cache needs flash attention, which `grok` models do without"
    );
    assert_eq!(usable(KvType::Q8_0, &shape(&Tiny::recurrent())).unwrap(), KvType::F16);
}

#[test]
fn eight_bits_take_half_of_sixteen() {
    let folder = tempfile::tempdir().unwrap();
    let path = crate::model::demo::unpack(folder.path()).unwrap();
    let mib = |kv| {
        told(&lines_of(|| drop(weights(&path, 8192, kv).open(Arc::default()).unwrap())), "llama_kv_cache").mib
    };
    let (whole, half) = (mib(KvType::F16), mib(KvType::Q8_0));
    assert!((half / whole - 34.0 / 64.0).abs() < 0.001, "{half} of {whole}");
}

#[test]
fn costs_are_told_in_a_few_words() {
    let cost = |tiny: Tiny, tokens, kv| cost(&Header::from_bytes(&tiny.bytes()).unwrap().shape(), tokens, kv);
    assert_eq!(cost(Tiny::one_layer(), 8192, KvType::Q8_0), "KV q8_0 557.1 KB (68 B a token)");
    assert_eq!(cost(Tiny::one_layer(), 100, KvType::F16), "KV f16 32.8 KB (128 B a token)");
    assert_eq!(cost(Tiny::recurrent(), 512, KvType::F16), "state 19.5 KB");
    assert_eq!(cost(Tiny::hybrid(), 512, KvType::F16), "KV f16 65.5 KB (128 B a token), state 768 B");
}
