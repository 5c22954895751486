//! The header of a GGUF file: metadata, tensors and typed questions about them. `read` builds it from bytes that
//! nobody vouches for, `shape` says what it means, `check` whether llama.cpp can run it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::Path;

use crate::error::{Error, Kind, Result};
use crate::human::Escaped;
use crate::model::arch::TensorType;

mod cache;
mod check;
mod compute;
mod parts;
mod read;
mod shape;
mod spread;
#[cfg(test)]
#[path = "../../tests/support/tiny_gguf.rs"]
pub(crate) mod tiny_gguf;
mod vocabulary;

pub(crate) use cache::Cache;
pub(crate) use shape::Shape;

/// All that stands before a file's weights.
#[derive(Debug, Clone)]
pub(crate) struct Header {
    /// The version of the format, 2 or 3.
    pub(crate) version: u32,
    /// The size of the file, or of all its parts, in bytes.
    pub(crate) file_bytes: u64,
    pub(crate) tensors: Vec<Tensor>,
    metadata: BTreeMap<String, Value>,
    /// Where the weights begin, in bytes from the start of the file.
    data_start: u64,
    /// How many files of a split model are in here.
    parts: u64,
}

/// A named block of weights.
#[derive(Debug, Clone)]
pub(crate) struct Tensor {
    pub(crate) name: String,
    /// Elements in each dimension, the row first.
    pub(crate) dims: Vec<u64>,
    pub(crate) kind: &'static TensorType,
    /// From the start of the weights, in bytes.
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

impl Tensor {
    /// The number of elements. Cannot overflow: the file has room for them.
    pub(crate) fn elements(&self) -> u64 {
        self.dims.iter().product()
    }
}

/// The layer that a tensor of this name belongs to: `blk.7.attn_q.weight` to layer 7.
pub(crate) fn layer_of(name: &str) -> Option<u64> {
    name.strip_prefix("blk.")?.split_once('.')?.0.parse().ok()
}

/// One value of the metadata.
#[derive(Debug, Clone, PartialEq)]
enum Value {
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Bool(bool),
    Text(Vec<u8>),
    Numbers(Numbers),
    Texts(Texts),
    Nested(Vec<Value>),
}

/// An array of numbers as it stands in the file.
#[derive(Debug, Clone, PartialEq)]
struct Numbers {
    kind: u32,
    bytes: Vec<u8>,
}

impl Numbers {
    fn iter(&self) -> impl ExactSizeIterator<Item = Value> {
        // The kind was checked when the array was read; 1 only keeps the division defined.
        self.bytes
            .chunks_exact(read::scalar_size(self.kind).unwrap_or(1))
            .map(|chunk| read::scalar(self.kind, chunk))
    }
}

/// An array of strings, in one piece: a vocabulary has hundreds of thousands.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Texts {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Texts {
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The bytes of one string; they need not be UTF-8.
    pub(crate) fn get(&self, index: usize) -> Option<&[u8]> {
        let end = *self.ends.get(index)?;
        let start = if index == 0 { 0 } else { *self.ends.get(index - 1)? };
        self.bytes.get(start..end)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).filter_map(|index| self.get(index))
    }
}

impl Header {
    /// Read and check a file's header. Takes milliseconds.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let quoted = quoted(path);
        let about = fs::metadata(path).map_err(|e| open_error(&e, &quoted))?;
        if about.is_dir() {
            return Err(Error::failed(format!("{quoted} is a folder, not a GGUF file")));
        }
        if !about.is_file() {
            return Err(Error::failed(format!("{quoted} is not a regular file")));
        }
        if about.len() == 0 {
            return Err(Error::failed(format!("{quoted} is empty, it has 0 bytes")));
        }
        let file = File::open(path).map_err(|e| open_error(&e, &quoted))?;
        Self::read(BufReader::with_capacity(1 << 16, file), about.len(), &quoted)
    }

    /// Read a header from the beginning of a stream of `len` bytes; `quoted` names it in errors.
    pub(crate) fn read(stream: impl Read, len: u64, quoted: &str) -> Result<Self> {
        read::header(stream, len, quoted)
    }

    /// How many bytes stand before the weights.
    pub(crate) fn meta_bytes(&self) -> u64 {
        self.data_start
    }

    fn value(&self, key: &str) -> Option<&Value> {
        self.metadata.get(key)
    }

    /// A string, if the key holds one and it is UTF-8.
    pub(crate) fn str(&self, key: &str) -> Option<&str> {
        match self.value(key)? {
            Value::Text(bytes) => std::str::from_utf8(bytes).ok(),
            _ => None,
        }
    }

    /// A whole number of any width that is not negative.
    pub(crate) fn u64(&self, key: &str) -> Option<u64> {
        self.value(key)?.as_u64()
    }

    /// A number of any type.
    pub(crate) fn f64(&self, key: &str) -> Option<f64> {
        self.value(key)?.as_f64()
    }

    pub(crate) fn bool(&self, key: &str) -> Option<bool> {
        match self.value(key)? {
            Value::Bool(b) => Some(*b),
            _ => None,
        }
    }

    /// An array of strings.
    pub(crate) fn texts(&self, key: &str) -> Option<&Texts> {
        match self.value(key)? {
            Value::Texts(texts) => Some(texts),
            _ => None,
        }
    }

    /// The length of an array of any type.
    pub(crate) fn array_len(&self, key: &str) -> Option<usize> {
        match self.value(key)? {
            Value::Texts(texts) => Some(texts.len()),
            Value::Numbers(numbers) => Some(numbers.iter().len()),
            Value::Nested(values) => Some(values.len()),
            _ => None,
        }
    }

    /// An array of whole numbers or truth values; what is negative or no such number counts as 0.
    pub(crate) fn u64s(&self, key: &str) -> Option<Vec<u64>> {
        match self.value(key)? {
            Value::Numbers(numbers) => Some(numbers.iter().map(|v| v.as_u64().unwrap_or(0)).collect()),
            _ => None,
        }
    }

    /// What the model calls its architecture, such as `llama`.
    pub(crate) fn architecture(&self) -> Option<&str> {
        self.str("general.architecture")
    }

    /// A key of the architecture's own: `block_count` stands for `llama.block_count`.
    pub(crate) fn arch_key(&self, key: &str) -> String {
        format!("{}.{key}", self.architecture().unwrap_or_default())
    }

    /// Like [`Self::u64`], with the architecture's name before the key.
    pub(crate) fn arch_u64(&self, key: &str) -> Option<u64> {
        self.u64(&self.arch_key(key))
    }

    /// A number for each layer: given as an array, or once for all.
    pub(crate) fn per_layer(&self, key: &str, layers: usize) -> Option<Vec<u64>> {
        let key = self.arch_key(key);
        match self.u64(&key) {
            Some(one) => Some(vec![one; layers]),
            None => self.u64s(&key).filter(|all| all.len() == layers),
        }
    }

    /// The text of a token, if there is such a token and it is UTF-8.
    pub(crate) fn token(&self, id: u64) -> Option<&str> {
        let texts = self.texts("tokenizer.ggml.tokens")?;
        std::str::from_utf8(texts.get(usize::try_from(id).ok()?)?).ok()
    }

    /// The chat templates: `None` names the default one.
    pub(crate) fn chat_templates(&self) -> Vec<(Option<&str>, &str)> {
        let key = "tokenizer.chat_template";
        let named = self
            .metadata
            .keys()
            .filter_map(|k| Some((Some(k.strip_prefix(key)?.strip_prefix('.')?), self.str(k)?)));
        self.str(key).map(|text| (None, text)).into_iter().chain(named).collect()
    }

    pub(crate) fn tensor(&self, name: &str) -> Option<&Tensor> {
        self.tensors.iter().find(|t| t.name == name)
    }
}

impl Value {
    fn as_u64(&self) -> Option<u64> {
        match *self {
            Self::Unsigned(n) => Some(n),
            Self::Signed(n) => u64::try_from(n).ok(),
            Self::Bool(b) => Some(u64::from(b)),
            _ => None,
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "no parameter of a model needs more than 53 bits")]
    fn as_f64(&self) -> Option<f64> {
        match *self {
            Self::Float(x) => Some(x),
            Self::Unsigned(n) => Some(n as f64),
            Self::Signed(n) => Some(n as f64),
            _ => None,
        }
    }
}

/// A path or a name in backticks, on one line whatever is in it.
fn quoted(path: &Path) -> String {
    format!("`{}`", Escaped(&path.to_string_lossy()))
}

fn open_error(e: &io::Error, quoted: &str) -> Error {
    match e.kind() {
        io::ErrorKind::NotFound => Error::new(Kind::NotFound, format!("no such file: {quoted}"))
            .hint("give the path of a GGUF file, or try `infer run demo`"),
        io::ErrorKind::PermissionDenied => Error::failed(format!("no permission to read {quoted}")),
        _ => Error::failed(format!("cannot read {quoted}: {e}")),
    }
}

#[cfg(test)]
impl Header {
    /// Read a header from memory; errors call the file `dir/m.gguf`.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self> {
        Self::read(bytes, bytes.len() as u64, "`dir/m.gguf`")
    }
}

#[cfg(test)]
mod tests {
    use super::tiny_gguf::{Tensor as PutTensor, Tiny, Value as Put};
    use super::*;
    use crate::engine::KvType;
    use crate::model::gguf::shape::Attention;

    /// A small header with a value of every kind, so that all of it can be tried out byte by byte.
    fn small() -> Tiny {
        Tiny::empty()
            .set("general.architecture", Put::Text("llama".into()))
            .set("general.alignment", Put::U32(32))
            .set("llama.block_count", Put::U32(2))
            .set("llama.embedding_length", Put::U32(4))
            .set("llama.context_length", Put::U64(99))
            .set("llama.attention.head_count", Put::U32s(vec![2, 1]))
            .set("llama.attention.layer_norm_rms_epsilon", Put::F32(1e-5))
            .set("llama.attention.sliding_window", Put::U16(8))
            .set("llama.attention.sliding_window_pattern", Put::Bools(vec![true, false]))
            .set("tokenizer.ggml.model", Put::Text("gpt2".into()))
            .set("tokenizer.ggml.tokens", Put::Texts(vec!["a".into(), "b".into()]))
            .set("tokenizer.ggml.merges", Put::Texts(vec!["a b".into()]))
            .set("tokenizer.ggml.add_bos_token", Put::Bool(true))
            .set("tokenizer.ggml.eos_token_id", Put::I32(1))
            .set("nested", Put::Nested(vec![vec![1, 2], vec![]]))
            .with_zeros("token_embd.weight", &[4, 2])
            .with_zeros("output_norm.weight", &[4])
    }

    #[track_caller]
    fn refuses(bytes: &[u8], message: &str) {
        assert_eq!(Header::from_bytes(bytes).unwrap_err().message, format!("`dir/m.gguf` {message}"));
    }

    /// Everything that may be asked of a header that could be read.
    fn ask_everything(header: &Header) {
        let shape = header.shape();
        let _ = (shape.bits_per_weight(), shape.attention(), shape.cache.bytes(8192, 512, KvType::Q8_0));
        let _ = shape.compute.bytes(&shape.cache, 8192, 512, KvType::Q8_0, false);
        let _ = header.check_runnable(Path::new("dir/m.gguf")).is_ok();
        for key in header.metadata.keys() {
            let _ = (header.str(key), header.u64(key), header.f64(key), header.bool(key));
            let _ = (header.array_len(key), header.u64s(key), header.texts(key).map(|t| t.iter().count()));
        }
    }

    #[test]
    fn reads_every_kind_of_value() {
        let header = Header::from_bytes(&small().bytes()).unwrap();
        assert_eq!(header.version, 3);
        assert_eq!(header.str("general.architecture"), Some("llama"));
        assert_eq!(header.arch_u64("context_length"), Some(99));
        assert_eq!(header.arch_u64("attention.sliding_window"), Some(8));
        assert_eq!(header.f64(&header.arch_key("attention.layer_norm_rms_epsilon")), Some(1e-5));
        assert_eq!(header.per_layer("attention.head_count", 2), Some(vec![2, 1]));
        assert_eq!(header.per_layer("attention.head_count", 3), None);
        assert_eq!(header.per_layer("block_count", 3), Some(vec![2, 2, 2]));
        assert_eq!(header.u64s("llama.attention.sliding_window_pattern"), Some(vec![1, 0]));
        assert_eq!(header.bool("tokenizer.ggml.add_bos_token"), Some(true));
        assert_eq!(header.u64("tokenizer.ggml.eos_token_id"), Some(1));
        assert_eq!(header.f64("tokenizer.ggml.eos_token_id"), Some(1.0));
        assert_eq!((header.token(1), header.token(2), header.token(u64::MAX)), (Some("b"), None, None));
        assert_eq!(header.array_len("nested"), Some(2));
        assert_eq!(
            header.tensor("token_embd.weight").map(|t| (t.elements(), t.bytes, t.offset)),
            Some((8, 32, 0))
        );
    }

    #[test]
    fn a_wrong_type_is_no_value() {
        let header = Header::from_bytes(&small().bytes()).unwrap();
        for key in ["general.architecture", "nested", "tokenizer.ggml.tokens", "none such"] {
            assert_eq!(
                (header.u64(key), header.f64(key), header.bool(key), header.u64s(key)),
                (None, None, None, None)
            );
        }
        assert_eq!((header.str("llama.block_count"), header.str("nested")), (None, None));
        assert!(header.texts("nested").is_none() && header.array_len("llama.block_count").is_none());
    }

    #[test]
    fn reads_each_kind_of_number() {
        for (kind, bytes, number) in [
            (0, vec![200], Some(200)),
            (1, vec![0xff], None),
            (1, vec![7], Some(7)),
            (2, vec![1, 2], Some(513)),
            (3, vec![0xff, 0xff], None),
            (4, vec![0, 0, 0, 0x80], Some(1 << 31)),
            (5, vec![0, 0, 0, 0x80], None),
            (10, vec![0xff; 8], Some(u64::MAX)),
            (11, vec![1, 0, 0, 0, 0, 0, 0, 0], Some(1)),
            (12, vec![0; 8], None),
        ] {
            let header = Header::from_bytes(&Tiny::empty().set("n", Put::Raw(kind, bytes)).bytes()).unwrap();
            assert_eq!(header.u64("n"), number, "{kind}");
            assert!(header.f64("n").is_some(), "{kind}");
        }
    }

    #[test]
    fn reads_version_2_and_refuses_others() {
        assert_eq!(Header::from_bytes(&Tiny { version: 2, ..small() }.bytes()).unwrap().version, 2);
        let version = |version| Tiny { version, ..small() }.bytes();
        refuses(&version(1), "is a GGUF file of version 1, only versions 2 and 3 can be read");
        refuses(&version(4), "is a GGUF file of version 4, only versions 2 and 3 can be read");
        refuses(&version(0), "is a GGUF file of version 0, only versions 2 and 3 can be read");
        let big = "is a big-endian GGUF file, this machine needs a little-endian one";
        refuses(&version(3_u32.swap_bytes()), big);
        refuses(&version(2_u32.swap_bytes()), big);
    }

    #[test]
    fn says_what_else_a_file_is() {
        refuses(b"PK\x03\x04....", "is not a GGUF file: it begins with the bytes 50 4b 03 04");
        refuses(b"<!doctype html>", "is not a GGUF file but a web page");
        refuses(
            b"version https://git-lfs.github.com/spec/v1",
            "is not a GGUF file but a pointer of Git LFS to one",
        );
        refuses(b"GG", "is not a GGUF file: it has only 2 bytes");
    }

    #[test]
    fn a_file_cut_anywhere_says_where() {
        let tiny = small();
        let (bytes, header) = (tiny.bytes(), tiny.header_bytes().len());
        let list = header
            - [17, 18].iter().zip([2, 1]).map(|(name, rank)| 8 + name + 4 + 8 * rank + 4 + 8).sum::<usize>();
        for len in 0..bytes.len() {
            let message = Header::from_bytes(&bytes[..len]).unwrap_err().message;
            let end = match len {
                0..4 => format!("is not a GGUF file: it has only {len} bytes"),
                _ if len < list => {
                    format!("is cut short or damaged: its {len} bytes end inside the metadata")
                }
                _ if len < header => {
                    format!("is cut short or damaged: its {len} bytes end inside the list of its 2 tensors")
                }
                _ => format!("is cut short: its tensors need {} bytes, it has {len}", bytes.len()),
            };
            assert_eq!(message.replace(',', ""), format!("`dir/m.gguf` {}", end.replace(',', "")), "{len}");
        }
        Header::from_bytes(&bytes).unwrap();
    }

    #[test]
    fn survives_every_change_of_every_byte() {
        let tiny = small();
        let (bytes, header) = (tiny.bytes(), tiny.header_bytes().len());
        let mut readable = 0;
        for at in 0..header {
            for change in [0x01, 0x02, 0x10, 0x40, 0x80, 0xff, bytes[at], !bytes[at]] {
                let mut changed = bytes.clone();
                changed[at] ^= change;
                match Header::from_bytes(&changed) {
                    Ok(header) => {
                        readable += 1;
                        ask_everything(&header);
                    }
                    Err(e) => {
                        assert!(e.message.starts_with("`dir/m.gguf` ") && !e.message.contains('\n'), "{e}");
                    }
                }
            }
        }
        assert!(readable > 100);
    }

    #[test]
    fn survives_a_change_of_every_byte_of_a_whole_model() {
        let tiny = Tiny::llama();
        let (mut bytes, header) = (tiny.bytes(), tiny.header_bytes().len());
        for at in (0..header).step_by(3) {
            let before = bytes[at];
            bytes[at] = !before;
            if let Ok(header) = Header::from_bytes(&bytes) {
                ask_everything(&header);
            }
            bytes[at] = before;
        }
    }

    /// A count at one place of the file, replaced.
    fn with_u64(bytes: &[u8], at: usize, n: u64) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        bytes[at..at + 8].copy_from_slice(&n.to_le_bytes());
        bytes
    }

    #[test]
    fn huge_counts_are_refused_before_anything_is_allocated() {
        let bytes = small().bytes();
        let find = |text: &str| bytes.windows(text.len()).position(|w| w == text.as_bytes()).unwrap();
        let tokens = find("tokenizer.ggml.tokens") + "tokenizer.ggml.tokens".len();
        let nested = find("nested") + "nested".len();
        // tensors, entries, a key, a string, an array of strings, a token, an array of arrays, one of those
        let places = [
            8,
            16,
            24,
            find("general.architecture") + 20 + 4,
            tokens + 8,
            tokens + 16,
            nested + 8,
            nested + 20,
            find("token_embd.weight") - 8,
        ];
        for at in places {
            for n in [1 << 31, 1 << 60, 1 << 61, 1 << 62, 1 << 63, u64::MAX] {
                let message = Header::from_bytes(&with_u64(&bytes, at, n)).unwrap_err().message;
                assert!(
                    message.contains("is cut short or damaged: its 912 bytes end"),
                    "{at} {n}: {message}"
                );
            }
        }
    }

    #[test]
    fn memory_follows_what_was_read() {
        // A stream that claims to be large and ends early must not make room for what it announces.
        let mut bytes = b"GGUF\x03\0\0\0".to_vec();
        bytes.extend(0_u64.to_le_bytes());
        bytes.extend(1_u64.to_le_bytes());
        bytes.extend((200_u64 << 20).to_le_bytes());
        let error = Header::read(&bytes[..], 1 << 40, "`m`").unwrap_err();
        assert_eq!(error.message, "cannot read `m`: unexpected end of file");
        bytes.truncate(24);
        bytes.extend((1_u64 << 39).to_le_bytes());
        let error = Header::read(&bytes[..], 1 << 40, "`m`").unwrap_err();
        assert_eq!(error.message, "`m` is damaged: its header takes more than 268.4 MB");
    }

    #[test]
    fn alignment_is_a_sane_power_of_two() {
        for n in [0, 3, 33, 1 << 21, 1 << 31, u32::MAX] {
            let bytes = small().set("general.alignment", Put::U32(n)).bytes();
            refuses(
                &bytes,
                &format!("is damaged: `general.alignment` is {n}, it must be a power of two up to 1048576"),
            );
        }
        let bytes = small().set("general.alignment", Put::Text("32".into())).bytes();
        refuses(&bytes, "is damaged: `general.alignment` is not a whole number");
        for alignment in [1, 8, 64, 4096] {
            let tiny = small().set("general.alignment", Put::U32(u32::try_from(alignment).unwrap()));
            Header::from_bytes(&Tiny { alignment, ..tiny }.bytes()).unwrap();
        }
    }

    #[test]
    fn shapes_that_cannot_be_are_refused() {
        for (dims, kind, shown) in [
            (vec![1 << 32, 1 << 32], 0, "[4294967296, 4294967296] with the type F32"),
            (vec![1 << 62, 2], 0, "[4611686018427387904, 2] with the type F32"),
            (vec![1 << 62], 0, "[4611686018427387904] with the type F32"),
            (vec![1 << 63], 24, "[9223372036854775808] with the type I8"),
            (vec![4, 0], 0, "[4, 0] with the type F32"),
            (vec![33], 2, "[33] with the type Q4_0"),
            (vec![32, 2], 12, "[32, 2] with the type Q4_K"),
        ] {
            let tiny = small().change_tensor("output_norm.weight", |t| (t.dims, t.kind) = (dims, kind));
            refuses(
                &tiny.bytes(),
                &format!("is damaged: the tensor `output_norm.weight` cannot have the shape {shown}"),
            );
        }
        let change = |change: fn(&mut PutTensor)| small().change_tensor("output_norm.weight", change).bytes();
        refuses(
            &change(|t| t.dims = vec![1; 5]),
            "is damaged: the tensor `output_norm.weight` has 5 dimensions, at most 4 are possible",
        );
        refuses(
            &change(|t| t.kind = 4),
            "is damaged: the tensor `output_norm.weight` has the unknown type 4",
        );
        refuses(
            &change(|t| t.name = "token_embd.weight".into()),
            "is damaged: the tensor `token_embd.weight` occurs twice",
        );
        refuses(
            &change(|t| t.name = String::new()),
            "is damaged: a tensor has a name that is empty or not UTF-8",
        );
        let long = "x".repeat(64);
        let bytes = small().change_tensor("output_norm.weight", |t| t.name.clone_from(&long)).bytes();
        refuses(&bytes, &format!("is damaged: the name of the tensor `{long}` is longer than 63 bytes"));
    }

    #[test]
    fn tensors_have_their_own_aligned_place() {
        let tiny = small();
        let (bytes, end) = (tiny.bytes(), tiny.header_bytes().len());
        let offset = |n| with_u64(&bytes, end - 8, n);
        refuses(
            &offset(0),
            "is damaged: the tensor `output_norm.weight` begins inside another one, at byte 0",
        );
        refuses(
            &offset(33),
            "is damaged: the tensor `output_norm.weight` begins at byte 33, not at a multiple of 32",
        );
        refuses(
            &offset(u64::MAX - 31),
            "is cut short: its tensors need 18,446,744,073,709,551,615 bytes, it has 912",
        );
    }

    #[test]
    fn entries_that_cannot_be_are_refused() {
        let with = |value| Tiny::empty().set("k\u{1b}", value).bytes();
        refuses(
            &with(Put::Raw(13, vec![0])),
            "is damaged: the key `k\\u{1b}` has a value of the unknown kind 13",
        );
        refuses(
            &with(Put::Raw(9, [13, 0, 0, 0].repeat(3))),
            "is damaged: the key `k\\u{1b}` has an array of the unknown kind 13",
        );
        let deep: Vec<u8> =
            std::iter::repeat_n([9_u8, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0], 40).flatten().collect();
        refuses(
            &with(Put::Raw(9, deep)),
            "is damaged: the key `k\\u{1b}` has arrays in arrays more than 4 deep",
        );
        let mut twice = small();
        twice.metadata.push(("nested".into(), Put::U32(1)));
        refuses(&twice.bytes(), "is damaged: the key `nested` occurs twice");
        refuses(
            &Tiny::empty().set("", Put::U32(1)).bytes(),
            "is damaged: a key has a name that is empty or not UTF-8",
        );
    }

    #[test]
    fn says_why_a_path_cannot_be_opened() {
        let dir = std::env::temp_dir().join(format!("infer-gguf-open-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let empty = dir.join("empty.gguf");
        std::fs::write(&empty, b"").unwrap();
        let missing = dir.join("a\nb.gguf");
        let shown = dir.display();
        for (path, kind, message) in [
            (&dir, Kind::Failed, format!("`{shown}` is a folder, not a GGUF file")),
            (&empty, Kind::Failed, format!("`{shown}/empty.gguf` is empty, it has 0 bytes")),
            (&missing, Kind::NotFound, format!("no such file: `{shown}/a\\nb.gguf`")),
        ] {
            let error = Header::open(path).unwrap_err();
            assert_eq!((error.kind, error.message.replace('\\', "/")), (kind, message.replace('\\', "/")));
        }
        std::fs::remove_dir_all(&dir).unwrap();
        let denied = open_error(&io::ErrorKind::PermissionDenied.into(), "`m`");
        assert_eq!((denied.kind, denied.message.as_str()), (Kind::Failed, "no permission to read `m`"));
    }

    #[test]
    fn reads_the_demo_model() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/demo/demo-f16.gguf");
        let header = Header::open(Path::new(path)).unwrap();
        header.check_runnable(Path::new(path)).unwrap();
        let shape = header.shape();
        assert_eq!(shape.architecture.as_deref(), Some("llama"));
        assert_eq!(shape.name.as_deref(), Some("infer-demo"));
        assert_eq!(shape.file_type, Some("F16"));
        assert_eq!(shape.special("eos").and_then(|t| t.text.as_deref()), Some("<|im_end|>"));
        assert_eq!(shape.attention(), Some(Attention::Grouped));
    }
}
