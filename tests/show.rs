//! `infer show`: what a model is, without loading it.

use serde_json::Value as Json;

use crate::support::Infer;
use crate::support::tiny_gguf::{TEMPLATE, Tiny, Value};

fn show(args: &[&str]) -> Infer {
    Infer::new().arg("show").args(args.iter().copied())
}

fn tiny(file: &str, model: &Tiny) -> Infer {
    show(&[file]).file(file, model.bytes())
}

#[test]
fn the_demo_model() {
    // Without a GPU, so that it says the same everywhere.
    show(&["demo"])
        .env("CUDA_VISIBLE_DEVICES", "")
        .stdout(
            "\
file            {home}/cache/infer/infer-demo-f16.gguf
fits here       yes, on the CPU, context 1,024
                CPU: weights 5.1 MB, KV f16 2.1 MB, compute 6.8 MB, output 3.1 KB
name            infer-demo
architecture    llama
parameters      2.6M
size            5.1 MB
license         MIT OR Apache-2.0
quantization    F16, 16.01 bits per weight
                F16  29 tensors  5.1 MB  2.6M parameters
                F32   9 tensors  9.2 KB  2.3K parameters
context         1,024 tokens
layers          4
width           256
feed-forward    512
attention       GQA, 8 heads, 4 KV heads, head width 32
KV cache        f16   2.0 KB per token, 2.1 MB at 1,024 tokens
                q8_0  1.1 KB per token, 1.1 MB at 1,024 tokens
                q4_0  576 B per token, 589.8 KB at 1,024 tokens
vocabulary      768 tokens
tokenizer       gpt2, smollm
special tokens  bos            0  `<|endoftext|>`
                eos            2  `<|im_end|>`
                eot            2  `<|im_end|>`
                unk            0  `<|endoftext|>`
                pad            0  `<|endoftext|>`
begins with     no token of its own
chat template   default
",
        )
        .run();
}

#[test]
fn json_has_these_keys() {
    let ran = show(&["demo", "--json"]).stdout_is(|text| text.lines().count() == 1).run();
    let object: Json = serde_json::from_str(&ran.stdout).expect("one object");
    let keys: Vec<&str> = object.as_object().expect("an object").keys().map(String::as_str).collect();
    assert_eq!(
        keys,
        [
            "path",
            "gguf_version",
            "architecture",
            "name",
            "license",
            "parameters",
            "file_bytes",
            "tensor_bytes",
            "quantization",
            "bits_per_weight",
            "tensor_types",
            "context_length",
            "layers",
            "embedding_length",
            "feed_forward_length",
            "attention",
            "heads",
            "kv_heads",
            "key_length",
            "value_length",
            "sliding_window",
            "sliding_layers",
            "experts",
            "experts_used",
            "kv_cache",
            "recurrent_state_bytes",
            "vocabulary",
            "tokenizer",
            "pre_tokenizer",
            "add_bos",
            "special_tokens",
            "chat_templates",
            "sampling",
            "fits",
        ]
    );
    for (pointer, expected) in [
        ("/architecture", Json::from("llama")),
        ("/parameters", Json::from(2_558_208)),
        ("/file_bytes", Json::from(5_143_232)),
        (
            "/tensor_types/1",
            serde_json::json!({"type": "F32", "tensors": 9, "parameters": 2304, "bytes": 9216}),
        ),
        ("/context_length", Json::from(1024)),
        ("/kv_cache/bytes_per_token", Json::from(2048)),
        ("/special_tokens/eos", serde_json::json!({"id": 2, "text": "<|im_end|>"})),
        ("/chat_templates", serde_json::json!(["default"])),
        ("/experts", Json::Null),
        ("/fits/context", Json::from(1024)),
        ("/fits/layers", Json::from(5)),
    ] {
        assert_eq!(object.pointer(pointer), Some(&expected), "{pointer}");
    }
}

#[test]
fn errors_are_an_object_under_json() {
    show(&["m.gguf", "--json"])
        .file("m.gguf", "")
        .status(1)
        .stdout("{\"error\":{\"kind\":\"failed\",\"message\":\"`m.gguf` is empty, it has 0 bytes\",\"hint\":null}}\n")
        .run();
}

#[test]
fn the_template_as_it_is() {
    show(&["m.gguf", "--template"])
        .file("m.gguf", Tiny::llama().bytes())
        .stdout(format!("{TEMPLATE}\n"))
        .run();
    show(&["m.gguf", "--template"])
        .file("m.gguf", Tiny::llama().without("tokenizer.chat_template").bytes())
        .status(1)
        .stderr(
            "error: the model has no chat template\n\
             hint: `infer run MODEL --raw` continues a text without one\n",
        )
        .run();
}

#[test]
fn a_model_without_a_template_says_none() {
    tiny("m.gguf", &Tiny::llama().without("tokenizer.chat_template"))
        .stdout_is(|text| text.ends_with("\nchat template   none\n"))
        .run();
}

/// A name in a file is foreign text: it must not move the cursor or colour the terminal.
#[test]
fn control_characters_are_escaped() {
    let wild = |key| (key, Value::Text("\u{1b}[2J\r\nx\u{9b}\u{202e}".into()));
    let model = ["general.name", "general.license", "tokenizer.ggml.pre", "tokenizer.chat_template.\u{1b}c"]
        .map(wild)
        .into_iter()
        .fold(Tiny::llama(), |model, (key, value)| model.set(key, value));
    let harmless = |text: &str| !text.chars().any(|c| c != '\n' && (c.is_control() || c == '\u{202e}'));
    let ran = tiny("m.gguf", &model).stdout_is(harmless).run();
    for line in [
        "name            \\u{1b}[2J\\r\\nx\\u{9b}\\u{202e}",
        "tokenizer       gpt2, \\u{1b}[2J\\r\\nx\\u{9b}\\u{202e}",
        "chat template   default, \\u{1b}c",
    ] {
        assert!(ran.stdout.lines().any(|l| l == line), "{line}\n{}", ran.stdout);
    }
    show(&["m.gguf", "--json"]).home(&ran.home).stdout_is(|text| text.trim_end().lines().count() == 1).run();
    let architecture = Tiny::llama().with_architecture("\u{1b}[31m");
    tiny("m.gguf", &architecture)
        .stdout_is(move |text| harmless(text) && text.contains("\narchitecture    \\u{1b}[31m\n"))
        .run();
}

#[test]
fn a_split_model_is_counted_whole() {
    let parts: Vec<Vec<u8>> = Tiny::llama().split(3).iter().map(Tiny::bytes).collect();
    let name = |n: usize| format!("m-0000{n}-of-00003.gguf");
    let bytes: usize = parts.iter().map(Vec::len).sum();
    let with = |numbers: &[usize], args: &[&str]| {
        let infer = show(&[&name(1)]).args(args.iter().copied());
        numbers.iter().fold(infer, |infer, &n| infer.file(name(n), parts[n - 1].clone()))
    };
    let whole = with(&[1, 2, 3], &["--json"]).stdout_is(|text| text.starts_with('{')).run();
    let object: Json = serde_json::from_str(&whole.stdout).expect("one object");
    assert_eq!(object["file_bytes"], bytes);
    assert_eq!(object["tensor_types"][0]["tensors"], 20);
    with(&[1, 2], &[])
        .status(1)
        .stderr(format!("error: part 3 of 3 of `{}` is missing: `{}`\n", name(1), name(3)))
        .run();
    // Its template is in the first part.
    with(&[1], &["--template"]).stdout(format!("{TEMPLATE}\n")).run();
}
