//! What `infer show` says about a model: a table for people and an object for programs. Pure: nothing is printed here.

use std::fmt::{Display, Write};
use std::path::Path;

use serde_json::{Value, json};

use super::room::Fits;
use crate::engine::KvType;
use crate::human::{Bytes, Count, Escaped, Params, Thousands};
use crate::model::fit;
use crate::model::gguf::{Header, Shape};
use crate::model::pull::Plan;

/// An aligned table, with a line break at the end of each line.
pub(crate) fn text(header: &Header, source: &Source<'_>, fits: &Fits) -> String {
    let shape = header.shape();
    let mut table = Table::default();
    match source {
        Source::Here(path) => table.row("file", Escaped(&path.to_string_lossy())),
        Source::Hub(plan) => {
            let file = plan.files.first().map_or_else(String::new, |planned| planned.file.to_string());
            table.row("file", format_args!("{} (on the hub, not here)", Escaped(&file)));
        }
    }
    table.row("fits here", fits);
    for part in fits.parts() {
        table.more(part);
    }
    identity(&mut table, &shape);
    weights(&mut table, &shape);
    dimensions(&mut table, &shape);
    cache(&mut table, &shape);
    vocabulary(&mut table, &shape);
    conversation(&mut table, &shape);
    table.finish()
}

/// The same facts as [`text`]: sizes in bytes, lengths in tokens, `null` where the file says nothing.
pub(crate) fn json(header: &Header, source: &Source<'_>, fits: &Fits) -> Value {
    let shape = header.shape();
    let mut value = facts(header, &shape);
    match source {
        Source::Here(path) => value["path"] = json!(path.to_string_lossy()),
        Source::Hub(plan) => {
            value["hub"] = json!({
                "repo": plan.repo.to_string(),
                "commit": plan.commit,
                "files": plan.files.iter().map(|planned| planned.file.path.as_str()).collect::<Vec<_>>(),
                "license": plan.license,
            });
        }
    }
    value["fits"] = fits.json();
    value
}

fn facts(header: &Header, shape: &Shape) -> Value {
    let attention = shape.attention();
    json!({
        "path": null,
        "gguf_version": header.version,
        "architecture": shape.architecture,
        "name": shape.name,
        "license": shape.licence,
        "parameters": shape.parameters,
        "file_bytes": shape.file_bytes,
        "tensor_bytes": shape.tensor_bytes,
        "quantization": shape.file_type,
        "bits_per_weight": shape.bits_per_weight(),
        "tensor_types": shape.types.iter().map(|t| json!({
            "type": t.name, "tensors": t.tensors, "parameters": t.parameters, "bytes": t.bytes,
        })).collect::<Vec<_>>(),
        "context_length": shape.context,
        "layers": shape.layers,
        "embedding_length": shape.width,
        "feed_forward_length": shape.feed_forward,
        "attention": attention.map(|a| a.to_string()),
        "heads": per_layer(&shape.heads),
        "kv_heads": per_layer(&shape.kv_heads),
        "key_length": attention.map(|_| shape.head_width.0),
        "value_length": attention.map(|_| shape.head_width.1),
        "sliding_window": shape.sliding.as_ref().map(|s| s.window),
        "sliding_layers": shape.sliding.as_ref().map(|s| s.layers.iter().filter(|&&slides| slides).count()),
        "experts": shape.experts,
        "experts_used": shape.experts_used,
        "kv_cache": attention.map(|_| json!({
            "bytes_per_token": shape.cache.bytes_per_token(KvType::F16),
            "bytes_at_8192": shape.cache.kv_bytes(8192, KvType::F16),
            "context": usual_context(shape),
            "types": kv_types(shape).map(|kv| (kv.to_string(), json!({
                "bytes_per_token": shape.cache.bytes_per_token(kv),
                "bytes": shape.cache.kv_bytes(usual_context(shape), kv),
            }))).collect::<serde_json::Map<_, _>>(),
        })),
        "recurrent_state_bytes": Some(shape.cache.state_bytes()).filter(|&bytes| bytes > 0),
        "vocabulary": shape.vocabulary,
        "tokenizer": shape.tokenizer,
        "pre_tokenizer": shape.pre_tokenizer,
        "add_bos": shape.add_bos,
        "special_tokens": shape.special.iter().map(|t| {
            (t.role.to_owned(), json!({ "id": t.id, "text": t.text }))
        }).collect::<serde_json::Map<_, _>>(),
        "chat_templates": shape.templates,
        "sampling": shape.sampling.iter().map(|&(name, value)| {
            (name.to_owned(), number(value))
        }).collect::<serde_json::Map<_, _>>(),
    })
}

/// Where a header was read.
pub(crate) enum Source<'a> {
    Here(&'a Path),
    /// On the hub.
    Hub(&'a Plan),
}

fn identity(table: &mut Table, shape: &Shape) {
    table.text("name", shape.name.as_deref());
    table.text("architecture", shape.architecture.as_deref());
    table.row("parameters", Params(shape.parameters));
    table.row("size", Bytes(shape.file_bytes));
    table.text("license", shape.licence.as_deref());
}

/// The kind of quantization and, below it, what it is made of.
fn weights(table: &mut Table, shape: &Shape) {
    let bits = format!("{:.2} bits per weight", shape.bits_per_weight());
    table.row("quantization", shape.file_type.map_or_else(|| bits.clone(), |name| format!("{name}, {bits}")));
    let [mut names, mut counts, mut sizes] = [0; 3];
    let rows: Vec<_> = shape
        .types
        .iter()
        .map(|t| {
            let row = (
                t.name,
                Count(t.tensors, "tensor").to_string(),
                Bytes(t.bytes).to_string(),
                Params(t.parameters),
            );
            names = names.max(row.0.len());
            counts = counts.max(row.1.len());
            sizes = sizes.max(row.2.len());
            row
        })
        .collect();
    for (name, count, size, parameters) in rows {
        table.more(format_args!("{name:names$}  {count:>counts$}  {size:>sizes$}  {parameters} parameters"));
    }
}

fn dimensions(table: &mut Table, shape: &Shape) {
    table.number("context", shape.context, "token");
    table.number("layers", shape.layers, "");
    table.number("width", shape.width, "");
    table.number("feed-forward", shape.feed_forward, "");
    if let Some(kind) = shape.attention() {
        let (heads, kv) = (range(&shape.heads, "head"), range(&shape.kv_heads, "KV head"));
        let (key, value) = shape.head_width;
        let width =
            if key == value { key.to_string() } else { format!("{key} for keys, {value} for values") };
        table.row("attention", format_args!("{kind}, {heads}, {kv}, head width {width}"));
    }
    if let Some(sliding) = &shape.sliding {
        let slide = sliding.layers.iter().filter(|&&slides| slides).count();
        let window = Count(sliding.window, "token");
        table.row(
            "sliding window",
            format_args!("{window} in {slide} of {}", Count(sliding.layers.len() as u64, "layer")),
        );
    }
    if let Some(experts) = shape.experts {
        let used = shape.experts_used.unwrap_or(0);
        table.row("experts", format_args!("{used} of {} for each token", Thousands(experts)));
    }
}

/// The context that the model gets where memory allows.
fn usual_context(shape: &Shape) -> u64 {
    fit::usual_context(shape.context.unwrap_or(u64::MAX))
}

/// The types that its KV cache can have.
fn kv_types(shape: &Shape) -> impl Iterator<Item = KvType> {
    KvType::ALL.into_iter().filter(|&kv| shape.cache.unfit_width(kv).is_none())
}

fn cache(table: &mut Table, shape: &Shape) {
    let (cache, context) = (&shape.cache, usual_context(shape));
    if cache.has_kv() {
        for (i, kv) in kv_types(shape).enumerate() {
            let (token, whole) = (Bytes(cache.bytes_per_token(kv)), Bytes(cache.kv_bytes(context, kv)));
            let line = format!("{kv:<4}  {token} per token, {whole} at {}", Count(context, "token"));
            if i == 0 { table.row("KV cache", line) } else { table.more(line) }
        }
    }
    if cache.state_bytes() > 0 {
        table.row("state", format_args!("{}, however long the text", Bytes(cache.state_bytes())));
    }
}

fn vocabulary(table: &mut Table, shape: &Shape) {
    table.number("vocabulary", shape.vocabulary, "token");
    if let Some(tokenizer) = &shape.tokenizer {
        let pre = shape.pre_tokenizer.as_ref().map(|pre| format!(", {}", Escaped(pre))).unwrap_or_default();
        table.row("tokenizer", format_args!("{}{pre}", Escaped(tokenizer)));
    }
    for (i, token) in shape.special.iter().enumerate() {
        let text =
            token.text.as_deref().map_or("not in the vocabulary".into(), |t| format!("`{}`", Escaped(t)));
        let line = format!("{:<7}  {:>7}  {text}", token.role, token.id);
        if i == 0 { table.row("special tokens", line) } else { table.more(line) }
    }
    match shape.add_bos {
        Some(true) => table.row("begins with", "bos"),
        Some(false) => table.row("begins with", "no token of its own"),
        None => {}
    }
}

fn conversation(table: &mut Table, shape: &Shape) {
    let names: Vec<String> = shape.templates.iter().map(|name| Escaped(name).to_string()).collect();
    table.row("chat template", if names.is_empty() { "none".to_owned() } else { names.join(", ") });
    let sampling: Vec<String> =
        shape.sampling.iter().map(|(name, value)| format!("{name} {value}")).collect();
    if !sampling.is_empty() {
        table.row("sampling", sampling.join(", "));
    }
}

/// Lines of a label and a value.
#[derive(Default)]
struct Table {
    rows: Vec<(&'static str, String)>,
}

impl Table {
    fn row(&mut self, label: &'static str, value: impl Display) {
        self.rows.push((label, value.to_string()));
    }

    /// Another line of the value before.
    fn more(&mut self, value: impl Display) {
        self.row("", value);
    }

    /// A row for text from the file, if it has any.
    fn text(&mut self, label: &'static str, value: Option<&str>) {
        if let Some(value) = value {
            self.row(label, Escaped(value));
        }
    }

    /// A row for a number, if there is one, with a noun unless that is empty.
    fn number(&mut self, label: &'static str, value: Option<u64>, noun: &str) {
        match value {
            Some(n) if noun.is_empty() => self.row(label, Thousands(n)),
            Some(n) => self.row(label, Count(n, noun)),
            None => {}
        }
    }

    fn finish(self) -> String {
        let width = self.rows.iter().map(|(label, _)| label.len()).max().unwrap_or(0);
        self.rows.iter().fold(String::new(), |mut out, (label, value)| {
            // Writing to a string cannot fail.
            let _ = writeln!(out, "{label:width$}  {value}");
            out
        })
    }
}

/// One number when all layers have the same, and the least and the most when not.
fn range(all: &[u64], noun: &str) -> String {
    let (least, most) = (all.iter().min().copied().unwrap_or(0), all.iter().max().copied().unwrap_or(0));
    let most = Count(most, noun);
    if least == most.0 { most.to_string() } else { format!("{least} to {most}") }
}

/// One number when all layers have the same, a list when not, `null` for none.
fn per_layer(all: &[u64]) -> Value {
    match all {
        [] => Value::Null,
        [first, rest @ ..] if rest.iter().all(|n| n == first) => json!(first),
        _ => json!(all),
    }
}

/// A whole number without a decimal point, so that `top_k` is 40 and not 40.0.
#[expect(clippy::cast_possible_truncation, reason = "only numbers that keep their value are cast")]
fn number(x: f64) -> Value {
    if x.fract() == 0.0 && x.abs() < 1e15 { json!(x as i64) } else { json!(x) }
}

#[cfg(test)]
mod tests {
    use super::super::room::Room;
    use super::*;
    use crate::model::gguf::tiny_gguf::{Tiny, Value as Put};

    fn header(tiny: &Tiny) -> Header {
        Header::from_bytes(&tiny.bytes()).unwrap()
    }

    fn fits(header: &Header) -> Fits {
        Room::boundless().fits(&header.shape())
    }

    fn text_of(tiny: &Tiny, path: &str) -> String {
        let header = header(tiny);
        text(&header, &Source::Here(Path::new(path)), &fits(&header))
    }

    fn json_of(tiny: &Tiny) -> Value {
        let header = header(tiny);
        json(&header, &Source::Here(Path::new("m.gguf")), &fits(&header))
    }

    #[test]
    fn the_table_of_the_tiny_model() {
        let tiny = Tiny::llama()
            .set("general.name", Put::Text("ti\u{1b}[2Jny".into()))
            .set("general.sampling.temp", Put::F32(0.6))
            .set("general.sampling.top_k", Put::I32(20));
        assert_eq!(
            text_of(&tiny, "a\nb.gguf"),
            "\
file            a\\nb.gguf
fits here       yes, on the CPU, context 256
                CPU: weights 364.8 KB, KV f16 65.5 KB, compute 868.4 KB, output 1.1 KB
name            ti\\u{1b}[2Jny
architecture    llama
parameters      91.2K
size            371.2 KB
license         MIT OR Apache-2.0
quantization    F32, 32.00 bits per weight
                F32  20 tensors  364.8 KB  91.2K parameters
context         256 tokens
layers          2
width           64
feed-forward    128
attention       GQA, 4 heads, 2 KV heads, head width 16
KV cache        f16   256 B per token, 65.5 KB at 256 tokens
vocabulary      268 tokens
tokenizer       gpt2, smollm
special tokens  bos            0  `<|endoftext|>`
                eos            2  `<|im_end|>`
                unk            0  `<|endoftext|>`
                pad            0  `<|endoftext|>`
begins with     no token of its own
chat template   default
sampling        temp 0.6, top_k 20
"
        );
    }

    #[test]
    fn the_table_of_a_file_that_says_little() {
        let tiny = Tiny::empty().set("general.architecture", Put::Text("llama".into()));
        assert_eq!(
            text_of(&tiny, "m.gguf"),
            "\
file           m.gguf
fits here      yes, on the CPU, context 1
               CPU: compute 64 B
architecture   llama
parameters     0
size           69 B
quantization   0.00 bits per weight
chat template  none
"
        );
    }

    #[test]
    fn lists_types_heads_and_experts() {
        let tiny = Tiny::llama()
            .change_tensor("token_embd.weight", |t| (t.kind, t.data) = (8, vec![0; 64 / 32 * 34 * 268]))
            .set("llama.attention.head_count_kv", Put::U32s(vec![2, 1]))
            .set("llama.attention.value_length", Put::U32(8))
            .set("llama.expert_count", Put::U32(128))
            .set("llama.expert_used_count", Put::U32(8))
            .set("tokenizer.ggml.padding_token_id", Put::U32(9999));
        let text = text_of(&tiny, "m.gguf");
        for line in [
            "                F32   19 tensors  296.2 KB  74.0K parameters",
            "                Q8_0    1 tensor   18.2 KB  17.2K parameters",
            "attention       GQA, 4 heads, 1 to 2 KV heads, head width 16 for keys, 8 for values",
            "experts         8 of 128 for each token",
            "                pad         9999  not in the vocabulary",
        ] {
            assert!(text.lines().any(|l| l == line), "{line}\n{text}");
        }
    }

    #[test]
    fn says_what_a_context_costs() {
        for (tiny, lines) in [
            (
                Tiny::sliding(),
                vec![
                    "sliding window  32 tokens in 2 of 3 layers",
                    "KV cache        f16   384 B per token, 196.6 KB at 512 tokens",
                    "                q8_0  204 B per token, 104.4 KB at 512 tokens",
                    "                q4_0  108 B per token, 55.3 KB at 512 tokens",
                ],
            ),
            (Tiny::recurrent(), vec!["state           19.5 KB, however long the text"]),
            (
                Tiny::hybrid(),
                vec![
                    "KV cache        f16   128 B per token, 65.5 KB at 512 tokens",
                    "state           768 B, however long the text",
                ],
            ),
        ] {
            let text = text_of(&tiny, "m.gguf");
            for line in lines {
                assert!(text.lines().any(|l| l == line), "{line}\n{text}");
            }
        }
        let value = json_of(&Tiny::recurrent());
        assert_eq!((&value["kv_cache"], &value["recurrent_state_bytes"]), (&Value::Null, &json!(19_456)));
    }

    #[test]
    fn the_object_has_the_same_facts() {
        let tiny = Tiny::llama()
            .set("general.sampling.temp", Put::F32(0.6))
            .set("general.sampling.top_k", Put::I32(20));
        let value = json_of(&tiny);
        for (pointer, expected) in [
            ("/path", json!("m.gguf")),
            ("/architecture", json!("llama")),
            ("/quantization", json!("F32")),
            ("/bits_per_weight", json!(32.0)),
            ("/tensor_types/0/tensors", json!(20)),
            ("/context_length", json!(256)),
            ("/attention", json!("GQA")),
            ("/kv_heads", json!(2)),
            ("/key_length", json!(16)),
            ("/sliding_window", Value::Null),
            ("/experts", Value::Null),
            ("/kv_cache/bytes_per_token", json!(256)),
            ("/kv_cache/bytes_at_8192", json!(2_097_152)),
            ("/kv_cache/context", json!(256)),
            ("/kv_cache/types", json!({ "f16": { "bytes_per_token": 256, "bytes": 65_536 } })),
            ("/recurrent_state_bytes", Value::Null),
            ("/special_tokens/eos", json!({ "id": 2, "text": "<|im_end|>" })),
            ("/chat_templates", json!(["default"])),
            ("/sampling", json!({ "temp": 0.6, "top_k": 20 })),
            ("/add_bos", json!(false)),
        ] {
            assert_eq!(value.pointer(pointer), Some(&expected), "{pointer}");
        }
    }

    #[test]
    fn the_object_keeps_its_keys_when_there_is_nothing_to_say() {
        let full = json_of(&Tiny::llama());
        let bare = json_of(&Tiny::empty());
        let keys = |v: &Value| v.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        assert_eq!(keys(&full), keys(&bare));
        assert_eq!(bare["attention"], Value::Null);
        assert_eq!(bare["heads"], Value::Null);
        let uneven = Tiny::llama().set("llama.attention.head_count_kv", Put::U32s(vec![2, 1]));
        assert_eq!(json_of(&uneven)["kv_heads"], json!([2, 1]));
    }
}
