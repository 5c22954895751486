//! A writer of tiny GGUF files for tests, independent of the reader in the program: whole models that llama.cpp loads
//! and runs, and ways to spoil them.

#![allow(
    dead_code,
    unreachable_pub,
    unused_imports,
    clippy::unwrap_used,
    reason = "each user needs another part of it, and only tests use it"
)]

use std::collections::BTreeMap;
use std::path::Path;

// With its path, because this file is a module of several trees.
#[path = "tiny_gguf/kinds.rs"]
mod kinds;

pub(crate) use kinds::{KINDS, Kind, WINDOW};

/// A value of the metadata, with the type that it has in the file.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    U32(u32),
    I32(i32),
    U64(u64),
    U16(u16),
    F32(f32),
    Bool(bool),
    Text(String),
    U32s(Vec<u32>),
    I32s(Vec<i32>),
    F32s(Vec<f32>),
    Bools(Vec<bool>),
    Texts(Vec<String>),
    /// Arrays of `u32` in an array, which llama.cpp does not read.
    Nested(Vec<Vec<u32>>),
    /// Any kind with any bytes.
    Raw(u32, Vec<u8>),
}

/// A tensor as it is written: name, dimensions with the row first, the number of its type, its bytes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Tensor {
    pub name: String,
    pub dims: Vec<u64>,
    pub kind: u32,
    pub data: Vec<u8>,
}

/// A GGUF file in the making.
#[derive(Debug, Clone)]
pub(crate) struct Tiny {
    pub metadata: Vec<(String, Value)>,
    pub tensors: Vec<Tensor>,
    /// Bytes in the header that no builder would write: magic, version.
    pub magic: [u8; 4],
    pub version: u32,
    pub alignment: usize,
}

pub(crate) const LAYERS: u64 = 2;
pub(crate) const WIDTH: u64 = 64;
pub(crate) const HEADS: u64 = 4;
pub(crate) const KV_HEADS: u64 = 2;
pub(crate) const FEED_FORWARD: u64 = 128;
pub(crate) const CONTROL: [&str; 4] = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|reserved|>"];
pub(crate) const MERGES: [&str; 8] = ["h e", "l l", "he ll", "hell o", "Ġ w", "o r", "Ġw or", "l d"];
pub(crate) const TEMPLATE: &str = "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

impl Tiny {
    /// A file with nothing in it.
    pub(crate) fn empty() -> Self {
        Self { metadata: Vec::new(), tensors: Vec::new(), magic: *b"GGUF", version: 3, alignment: 32 }
    }

    /// A valid model with random weights that are the same each time: 2 layers, width 64, 4 heads, 2 KV heads, a
    /// context of 256 tokens and a byte-level vocabulary.
    pub(crate) fn llama() -> Self {
        let layer = || [kinds::attention(WIDTH / HEADS, HEADS, KV_HEADS), kinds::feed_forward()].concat();
        Self::model("llama", &(0..LAYERS).map(|_| layer()).collect::<Vec<_>>())
    }

    /// A model with these layers. The keys say what [`Self::llama`] is like; others set what differs.
    fn model(arch: &str, layers: &[kinds::Layer]) -> Self {
        let tokens = vocabulary();
        let count = tokens.len() as u64;
        Self::empty()
            .with_general(arch)
            .with_hyperparameters(arch, layers.len() as u64)
            .with_vocabulary(arch, tokens)
            .with_weights(count, layers)
    }

    /// The same model under another name of architecture, with its keys renamed.
    pub(crate) fn with_architecture(mut self, arch: &str) -> Self {
        for (key, value) in &mut self.metadata {
            if let Some(rest) = key.strip_prefix("llama.") {
                *key = format!("{arch}.{rest}");
            }
            if key == "general.architecture" {
                *value = Value::Text(arch.to_owned());
            }
        }
        self
    }

    /// Set a key, in its place if it is there and at the end if not.
    pub(crate) fn set(mut self, key: &str, value: Value) -> Self {
        match self.metadata.iter_mut().find(|(k, _)| k == key) {
            Some(entry) => entry.1 = value,
            None => self.metadata.push((key.to_owned(), value)),
        }
        self
    }

    /// Drop a key.
    pub(crate) fn without(mut self, key: &str) -> Self {
        self.metadata.retain(|(k, _)| k != key);
        self
    }

    /// Drop all keys that begin so: `tokenizer.` makes a model without a vocabulary.
    pub(crate) fn without_prefix(mut self, prefix: &str) -> Self {
        self.metadata.retain(|(k, _)| !k.starts_with(prefix));
        self
    }

    /// Drop a tensor.
    pub(crate) fn without_tensor(mut self, name: &str) -> Self {
        self.tensors.retain(|t| t.name != name);
        self
    }

    /// Drop all tensors.
    pub(crate) fn without_tensors(mut self) -> Self {
        self.tensors.clear();
        self
    }

    /// Add a tensor of zeros in 32-bit floats.
    pub(crate) fn with_zeros(mut self, name: &str, dims: &[u64]) -> Self {
        let bytes = dims.iter().product::<u64>() * 4;
        let data = vec![0; usize::try_from(bytes).unwrap()];
        self.tensors.push(Tensor { name: name.to_owned(), dims: dims.to_vec(), kind: 0, data });
        self
    }

    /// Change a tensor.
    pub(crate) fn change_tensor(mut self, name: &str, change: impl FnOnce(&mut Tensor)) -> Self {
        change(self.tensors.iter_mut().find(|t| t.name == name).unwrap());
        self
    }

    /// The model in `count` files: the first has the metadata, and the tensors are dealt out in order. Write them
    /// under names that end in `-00001-of-0000N.gguf`.
    pub(crate) fn split(self, count: u16) -> Vec<Self> {
        let each = self.tensors.len().div_ceil(usize::from(count));
        let total = i32::try_from(self.tensors.len()).unwrap();
        let part = |no: u16| {
            let base = if no == 0 { Self { tensors: Vec::new(), ..self.clone() } } else { Self::empty() };
            let mut part = base
                .set("split.no", Value::U16(no))
                .set("split.count", Value::U16(count))
                .set("split.tensors.count", Value::I32(total));
            part.tensors = self.tensors.iter().skip(usize::from(no) * each).take(each).cloned().collect();
            part
        };
        (0..count).map(part).collect()
    }

    /// The whole file.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut out = self.header_bytes();
        if !self.tensors.is_empty() {
            pad(&mut out, self.alignment);
        }
        for (i, tensor) in self.tensors.iter().enumerate() {
            out.extend(&tensor.data);
            if i + 1 < self.tensors.len() {
                pad(&mut out, self.alignment);
            }
        }
        out
    }

    /// All that stands before the padding and the weights.
    pub(crate) fn header_bytes(&self) -> Vec<u8> {
        let mut out = self.magic.to_vec();
        out.extend(self.version.to_le_bytes());
        out.extend((self.tensors.len() as u64).to_le_bytes());
        out.extend((self.metadata.len() as u64).to_le_bytes());
        for (key, value) in &self.metadata {
            put_text(&mut out, key);
            put_value(&mut out, value);
        }
        let mut offset = 0_usize;
        for tensor in &self.tensors {
            put_text(&mut out, &tensor.name);
            out.extend(u32::try_from(tensor.dims.len()).unwrap().to_le_bytes());
            for dim in &tensor.dims {
                out.extend(dim.to_le_bytes());
            }
            out.extend(tensor.kind.to_le_bytes());
            out.extend((offset as u64).to_le_bytes());
            offset = (offset + tensor.data.len()).next_multiple_of(self.alignment);
        }
        out
    }

    /// Write the file.
    pub(crate) fn write(&self, path: &Path) {
        std::fs::write(path, self.bytes()).unwrap();
    }

    fn with_general(self, arch: &str) -> Self {
        self.set("general.architecture", Value::Text(arch.into()))
            .set("general.type", Value::Text("model".into()))
            .set("general.name", Value::Text("tiny".into()))
            .set("general.license", Value::Text("MIT OR Apache-2.0".into()))
            .set("general.file_type", Value::U32(0))
    }

    fn with_hyperparameters(self, arch: &str, layers: u64) -> Self {
        self.set_for(arch, "context_length", Value::U32(256))
            .set_for(arch, "embedding_length", number(WIDTH))
            .set_for(arch, "block_count", number(layers))
            .set_for(arch, "feed_forward_length", number(FEED_FORWARD))
            .set_for(arch, "attention.head_count", number(HEADS))
            .set_for(arch, "attention.head_count_kv", number(KV_HEADS))
            .set_for(arch, "attention.layer_norm_rms_epsilon", Value::F32(1e-5))
            .set_for(arch, "rope.dimension_count", number(WIDTH / HEADS))
            .set_for(arch, "rope.freq_base", Value::F32(10_000.0))
    }

    /// Set a key of an architecture.
    fn set_for(self, arch: &str, key: &str, value: Value) -> Self {
        self.set(&format!("{arch}.{key}"), value)
    }

    fn with_vocabulary(self, arch: &str, tokens: Vec<String>) -> Self {
        let kinds = tokens.iter().map(|t| if CONTROL.contains(&t.as_str()) { 3 } else { 1 }).collect();
        self.set_for(arch, "vocab_size", number(tokens.len() as u64))
            .set("tokenizer.ggml.model", Value::Text("gpt2".into()))
            .set("tokenizer.ggml.pre", Value::Text("smollm".into()))
            .set("tokenizer.ggml.tokens", Value::Texts(tokens))
            .set("tokenizer.ggml.token_type", Value::I32s(kinds))
            .set("tokenizer.ggml.merges", Value::Texts(MERGES.map(str::to_owned).to_vec()))
            .set("tokenizer.ggml.bos_token_id", Value::U32(0))
            .set("tokenizer.ggml.eos_token_id", Value::U32(2))
            .set("tokenizer.ggml.padding_token_id", Value::U32(0))
            .set("tokenizer.ggml.unknown_token_id", Value::U32(0))
            .set("tokenizer.ggml.add_bos_token", Value::Bool(false))
            .set("tokenizer.ggml.add_space_prefix", Value::Bool(false))
            .set("tokenizer.chat_template", Value::Text(TEMPLATE.into()))
    }

    fn with_weights(mut self, vocabulary: u64, layers: &[kinds::Layer]) -> Self {
        let mut random = Random(0x2545_f491_4f6c_dd1d);
        let mut add = |name: String, dims: &[u64]| self.tensors.push(random.tensor(name, dims));
        add("token_embd.weight".into(), &[WIDTH, vocabulary]);
        add("output_norm.weight".into(), &[WIDTH]);
        for (index, layer) in layers.iter().enumerate() {
            for (name, dims) in layer {
                add(format!("blk.{index}.{name}"), dims);
            }
        }
        self
    }
}

fn number(n: u64) -> Value {
    Value::U32(u32::try_from(n).unwrap())
}

/// The control tokens, one token for each byte in GPT-2's alphabet, and what the merges make.
pub(crate) fn vocabulary() -> Vec<String> {
    let bytes = byte_alphabet().into_values().map(String::from);
    let merged = MERGES.iter().map(|m| m.replace(' ', ""));
    CONTROL.iter().map(|&t| t.to_owned()).chain(bytes).chain(merged).collect()
}

/// Printable bytes stand for themselves, the others for the characters from 256 on.
fn byte_alphabet() -> BTreeMap<u8, char> {
    let mut next = 256_u32;
    let mut letter = |byte: u8| match byte {
        b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff => char::from(byte),
        _ => {
            next += 1;
            char::from_u32(next - 1).unwrap()
        }
    };
    (0..=255).map(|byte| (byte, letter(byte))).collect()
}

/// xorshift64*: the same weights everywhere.
struct Random(u64);

impl Random {
    /// From -0.5 to 0.5, in steps of 2^-16.
    fn next(&mut self) -> f32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let top = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 40;
        f32::from(u16::try_from(top >> 8).unwrap()) / 65_536.0 - 0.5
    }

    /// Matrices of small numbers; norms and biases, which have one dimension, of ones.
    fn tensor(&mut self, name: String, dims: &[u64]) -> Tensor {
        let count = usize::try_from(dims.iter().product::<u64>()).unwrap();
        let mut number = || match dims {
            [_] => 1.0,
            // How fast a state fades: slowly, and never the other way.
            _ if name.ends_with(".ssm_a") => self.next() * 0.05 - 0.06,
            _ => self.next() * 0.5,
        };
        let data = (0..count).flat_map(|_| number().to_le_bytes()).collect();
        Tensor { name, dims: dims.to_vec(), kind: 0, data }
    }
}

fn pad(out: &mut Vec<u8>, alignment: usize) {
    out.resize(out.len().next_multiple_of(alignment), 0);
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend(text.as_bytes());
}

fn put_array<T>(out: &mut Vec<u8>, kind: u32, items: &[T], mut put: impl FnMut(&mut Vec<u8>, &T)) {
    out.extend(9_u32.to_le_bytes());
    put_items(out, kind, items, &mut put);
}

fn put_items<T>(out: &mut Vec<u8>, kind: u32, items: &[T], put: &mut impl FnMut(&mut Vec<u8>, &T)) {
    out.extend(kind.to_le_bytes());
    out.extend((items.len() as u64).to_le_bytes());
    for item in items {
        put(out, item);
    }
}

fn put_value(out: &mut Vec<u8>, value: &Value) {
    let mut scalar = |kind: u32, bytes: &[u8]| {
        out.extend(kind.to_le_bytes());
        out.extend(bytes);
    };
    match value {
        Value::U16(n) => scalar(2, &n.to_le_bytes()),
        Value::U32(n) => scalar(4, &n.to_le_bytes()),
        Value::I32(n) => scalar(5, &n.to_le_bytes()),
        Value::F32(x) => scalar(6, &x.to_le_bytes()),
        Value::Bool(b) => scalar(7, &[u8::from(*b)]),
        Value::U64(n) => scalar(10, &n.to_le_bytes()),
        Value::Raw(kind, bytes) => scalar(*kind, bytes),
        Value::Text(text) => {
            scalar(8, &[]);
            put_text(out, text);
        }
        Value::U32s(all) => put_array(out, 4, all, |out, n| out.extend(n.to_le_bytes())),
        Value::I32s(all) => put_array(out, 5, all, |out, n| out.extend(n.to_le_bytes())),
        Value::F32s(all) => put_array(out, 6, all, |out, x| out.extend(x.to_le_bytes())),
        Value::Bools(all) => put_array(out, 7, all, |out, b| out.push(u8::from(*b))),
        Value::Texts(all) => put_array(out, 8, all, |out, text| put_text(out, text)),
        Value::Nested(all) => put_array(out, 9, all, |out, inner| {
            put_items(out, 4, inner, &mut |out: &mut Vec<u8>, n: &u32| out.extend(n.to_le_bytes()));
        }),
    }
}
