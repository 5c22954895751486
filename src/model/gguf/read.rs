//! Reading a header without trusting it: every count is held against the bytes that are left, every sum is checked,
//! and memory grows with what was read, never with what was announced.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};

use super::{Header, Numbers, Tensor, Texts, Value};
use crate::error::{Error, Result};
use crate::human::{Bytes, Escaped, Thousands};
use crate::model::arch::{self, TensorType};

/// The largest header that is read, in bytes. A vocabulary of 260,000 tokens with its merges takes about 20 MB.
const MAX_HEADER: u64 = 256 << 20;
/// The deepest nesting of arrays. llama.cpp reads none.
const MAX_DEPTH: u32 = 4;
/// The largest `general.alignment`, in bytes.
const MAX_ALIGNMENT: u64 = 1 << 20;
/// llama.cpp keeps a tensor's name in 64 bytes, with a zero at the end.
const MAX_TENSOR_NAME: u64 = 63;
/// llama.cpp keeps this many dimensions.
const MAX_DIMS: u32 = 4;

/// Read a header from a stream of `len` bytes; `quoted` names it in errors.
pub(super) fn header(stream: impl Read, len: u64, quoted: &str) -> Result<Header> {
    let mut source = Source { stream, at: 0, end: len.min(MAX_HEADER) };
    let mut stage = Stage::Magic;
    parse(&mut source, len, &mut stage).map_err(|fault| fault.into_error(quoted, &stage, len))
}

/// How far reading has come, for the error when the file ends there.
enum Stage {
    Magic,
    Metadata,
    Tensors(u64),
}

/// Why reading stopped.
enum Fault {
    /// The file, or the part of it that a header may take, ended.
    End,
    Io(io::Error),
    /// The file is no GGUF that this program reads; a clause that follows the file's name.
    Refused(String),
    /// The file contradicts itself.
    Damaged(String),
}

type Parsed<T> = std::result::Result<T, Fault>;

impl Fault {
    fn into_error(self, quoted: &str, stage: &Stage, len: u64) -> Error {
        let size = Thousands(len);
        Error::failed(match self {
            Self::Io(e) => format!("cannot read {quoted}: {e}"),
            Self::Refused(clause) => format!("{quoted} {clause}"),
            Self::Damaged(clause) => format!("{quoted} is damaged: {clause}"),
            Self::End if len > MAX_HEADER => {
                format!("{quoted} is damaged: its header takes more than {}", Bytes(MAX_HEADER))
            }
            Self::End => match stage {
                Stage::Magic => format!("{quoted} is not a GGUF file: it has only {size} bytes"),
                Stage::Metadata => {
                    format!("{quoted} is cut short or damaged: its {size} bytes end inside the metadata")
                }
                Stage::Tensors(n) => {
                    format!(
                        "{quoted} is cut short or damaged: its {size} bytes end inside the list of its {} tensors",
                        Thousands(*n)
                    )
                }
            },
        })
    }
}

fn damaged<T>(clause: impl Into<String>) -> Parsed<T> {
    Err(Fault::Damaged(clause.into()))
}

/// So many bytes are made room for before they have arrived.
const SMALL: u64 = 4096;

/// A stream that knows how many bytes may still come.
struct Source<R> {
    stream: R,
    at: u64,
    end: u64,
}

impl<R: Read> Source<R> {
    fn left(&self) -> u64 {
        self.end - self.at
    }

    fn array<const N: usize>(&mut self) -> Parsed<[u8; N]> {
        let mut buffer = [0; N];
        if self.left() < N as u64 {
            return Err(Fault::End);
        }
        self.stream.read_exact(&mut buffer).map_err(Fault::Io)?;
        self.at += N as u64;
        Ok(buffer)
    }

    fn u32(&mut self) -> Parsed<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn u64(&mut self) -> Parsed<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// Append `len` bytes. The buffer grows as they arrive.
    fn append(&mut self, len: u64, buffer: &mut Vec<u8>) -> Parsed<()> {
        if self.left() < len {
            return Err(Fault::End);
        }
        if len <= SMALL {
            let start = buffer.len();
            buffer.resize(start + usize::try_from(len).unwrap_or(0), 0);
            self.stream.read_exact(&mut buffer[start..]).map_err(Fault::Io)?;
        } else if self.stream.by_ref().take(len).read_to_end(buffer).map_err(Fault::Io)? as u64 != len {
            return Err(Fault::Io(io::ErrorKind::UnexpectedEof.into()));
        }
        self.at += len;
        Ok(())
    }

    fn string(&mut self) -> Parsed<Vec<u8>> {
        let mut bytes = Vec::new();
        let len = self.u64()?;
        self.append(len, &mut bytes)?;
        Ok(bytes)
    }

    /// A name: a string that has to be readable.
    fn name(&mut self, what: &str) -> Parsed<String> {
        match String::from_utf8(self.string()?) {
            Ok(name) if !name.is_empty() => Ok(name),
            _ => damaged(format!("a {what} has a name that is empty or not UTF-8")),
        }
    }

    /// A count of things that take at least `each` bytes. More than there is room for is an error at once.
    fn count(&mut self, each: u64) -> Parsed<u64> {
        let n = self.u64()?;
        self.check_room(n, each)?;
        Ok(n)
    }

    fn check_room(&self, n: u64, each: u64) -> Parsed<()> {
        if n.checked_mul(each).is_none_or(|bytes| bytes > self.left()) { Err(Fault::End) } else { Ok(()) }
    }
}

/// A kind, a length of a key and a value of one byte.
const LEAST_ENTRY: u64 = 8 + 4 + 1;
/// A length of a name, a number of dimensions, a type and an offset.
const LEAST_TENSOR: u64 = 8 + 4 + 4 + 8;

fn parse<R: Read>(source: &mut Source<R>, file_bytes: u64, stage: &mut Stage) -> Parsed<Header> {
    check_magic(source.array()?)?;
    *stage = Stage::Metadata;
    let version = check_version(source.u32()?)?;
    let tensor_count = source.u64()?;
    let entry_count = source.count(LEAST_ENTRY)?;
    let metadata = parse_metadata(source, entry_count)?;
    *stage = Stage::Tensors(tensor_count);
    source.check_room(tensor_count, LEAST_TENSOR)?;
    let mut tensors = Vec::new();
    for _ in 0..tensor_count {
        tensors.push(parse_tensor(source)?);
    }
    let alignment = alignment(&metadata)?;
    let data_start = source.at.next_multiple_of(alignment);
    check_layout(&tensors, alignment, data_start, file_bytes)?;
    Ok(Header { version, file_bytes, tensors, metadata, data_start, parts: 1 })
}

fn check_magic(magic: [u8; 4]) -> Parsed<()> {
    let clause = match &magic {
        b"GGUF" => return Ok(()),
        b"vers" => "is not a GGUF file but a pointer of Git LFS to one".into(),
        b"<!do" | b"<!DO" | b"<htm" | b"<HTM" => "is not a GGUF file but a web page".into(),
        b"FUGG" => "is a big-endian GGUF file, this machine needs a little-endian one".into(),
        [a, b, c, d] => {
            format!("is not a GGUF file: it begins with the bytes {a:02x} {b:02x} {c:02x} {d:02x}")
        }
    };
    Err(Fault::Refused(clause))
}

fn check_version(version: u32) -> Parsed<u32> {
    Err(Fault::Refused(match version {
        2 | 3 => return Ok(version),
        // A small number of the other byte order.
        n if n != 0 && n.trailing_zeros() >= 16 => {
            "is a big-endian GGUF file, this machine needs a little-endian one".into()
        }
        n => format!("is a GGUF file of version {n}, only versions 2 and 3 can be read"),
    }))
}

fn parse_metadata<R: Read>(source: &mut Source<R>, count: u64) -> Parsed<BTreeMap<String, Value>> {
    let mut metadata = BTreeMap::new();
    for _ in 0..count {
        let key = source.name("key")?;
        let kind = source.u32()?;
        let value = parse_value(source, kind, &key)?;
        if metadata.contains_key(&key) {
            return damaged(format!("the key `{}` occurs twice", Escaped(&key)));
        }
        metadata.insert(key, value);
    }
    Ok(metadata)
}

const KIND_FLOAT32: u32 = 6;
const KIND_BOOL: u32 = 7;
const KIND_STRING: u32 = 8;
const KIND_ARRAY: u32 = 9;

/// The bytes that a number takes, or nothing for a kind that is no number.
pub(super) fn scalar_size(kind: u32) -> Option<usize> {
    Some(match kind {
        0 | 1 | KIND_BOOL => 1,
        2 | 3 => 2,
        4 | 5 | KIND_FLOAT32 => 4,
        10..=12 => 8,
        _ => return None,
    })
}

/// The number in `bytes`, which are as many as the kind takes.
pub(super) fn scalar(kind: u32, bytes: &[u8]) -> Value {
    let mut wide = [0; 8];
    for (to, from) in wide.iter_mut().zip(bytes) {
        *to = *from;
    }
    let [a, b, c, d, ..] = wide;
    match kind {
        1 => Value::Signed(i8::from_le_bytes([a]).into()),
        3 => Value::Signed(i16::from_le_bytes([a, b]).into()),
        5 => Value::Signed(i32::from_le_bytes([a, b, c, d]).into()),
        11 => Value::Signed(i64::from_le_bytes(wide)),
        KIND_FLOAT32 => Value::Float(widen(f32::from_le_bytes([a, b, c, d]))),
        KIND_BOOL => Value::Bool(a != 0),
        12 => Value::Float(f64::from_le_bytes(wide)),
        _ => Value::Unsigned(u64::from_le_bytes(wide)),
    }
}

/// The double that is written like the float: 0.6 stays 0.6.
fn widen(x: f32) -> f64 {
    x.to_string().parse().unwrap_or_else(|_| f64::from(x))
}

fn parse_value<R: Read>(source: &mut Source<R>, kind: u32, key: &str) -> Parsed<Value> {
    match kind {
        KIND_STRING => Ok(Value::Text(source.string()?)),
        KIND_ARRAY => parse_array(source, key, 1),
        kind => match scalar_size(kind) {
            Some(size) => {
                let mut bytes = Vec::new();
                source.append(size as u64, &mut bytes)?;
                Ok(scalar(kind, &bytes))
            }
            None => damaged(format!("the key `{}` has a value of the unknown kind {kind}", Escaped(key))),
        },
    }
}

fn parse_array<R: Read>(source: &mut Source<R>, key: &str, depth: u32) -> Parsed<Value> {
    let kind = source.u32()?;
    if let Some(size) = scalar_size(kind) {
        let count = source.count(size as u64)?;
        let mut bytes = Vec::new();
        source.append(count * size as u64, &mut bytes)?;
        return Ok(Value::Numbers(Numbers { kind, bytes }));
    }
    match kind {
        KIND_STRING => parse_texts(source),
        KIND_ARRAY if depth < MAX_DEPTH => {
            let count = source.count(4 + 8)?;
            let mut values = Vec::new();
            for _ in 0..count {
                values.push(parse_array(source, key, depth + 1)?);
            }
            Ok(Value::Nested(values))
        }
        KIND_ARRAY => {
            damaged(format!("the key `{}` has arrays in arrays more than {MAX_DEPTH} deep", Escaped(key)))
        }
        _ => damaged(format!("the key `{}` has an array of the unknown kind {kind}", Escaped(key))),
    }
}

fn parse_texts<R: Read>(source: &mut Source<R>) -> Parsed<Value> {
    let count = source.count(8)?;
    let mut texts = Texts::default();
    for _ in 0..count {
        let len = source.u64()?;
        source.append(len, &mut texts.bytes)?;
        texts.ends.push(texts.bytes.len());
    }
    Ok(Value::Texts(texts))
}

fn parse_tensor<R: Read>(source: &mut Source<R>) -> Parsed<Tensor> {
    let name = source.name("tensor")?;
    let shown = Escaped(&name);
    if name.len() as u64 > MAX_TENSOR_NAME {
        return damaged(format!("the name of the tensor `{shown}` is longer than {MAX_TENSOR_NAME} bytes"));
    }
    let rank = source.u32()?;
    if rank > MAX_DIMS {
        return damaged(format!(
            "the tensor `{shown}` has {rank} dimensions, at most {MAX_DIMS} are possible"
        ));
    }
    let mut dims = Vec::new();
    for _ in 0..rank {
        dims.push(source.u64()?);
    }
    let id = source.u32()?;
    let Some(kind) = arch::tensor_type(id) else {
        return damaged(format!("the tensor `{shown}` has the unknown type {id}"));
    };
    let Some(bytes) = tensor_bytes(&dims, kind) else {
        return damaged(format!(
            "the tensor `{shown}` cannot have the shape {dims:?} with the type {}",
            kind.name
        ));
    };
    Ok(Tensor { offset: source.u64()?, dims, kind, bytes, name })
}

/// The size of a tensor; nothing when its shape is empty, does not divide into blocks or overflows.
fn tensor_bytes(dims: &[u64], kind: &TensorType) -> Option<u64> {
    let row = dims.first().copied().unwrap_or(1);
    if dims.contains(&0) || !row.is_multiple_of(kind.block) {
        return None;
    }
    let elements = dims.iter().try_fold(1_u64, |product, &dim| product.checked_mul(dim))?;
    // llama.cpp counts in signed numbers.
    (elements / kind.block)
        .checked_mul(kind.bytes)
        .filter(|&n| i64::try_from(n).is_ok() && i64::try_from(elements).is_ok())
}

fn alignment(metadata: &BTreeMap<String, Value>) -> Parsed<u64> {
    match metadata.get("general.alignment") {
        None => Ok(32),
        Some(value) => match value.as_u64() {
            Some(n) if n.is_power_of_two() && n <= MAX_ALIGNMENT => Ok(n),
            Some(n) => damaged(format!(
                "`general.alignment` is {n}, it must be a power of two up to {MAX_ALIGNMENT}"
            )),
            None => damaged("`general.alignment` is not a whole number"),
        },
    }
}

/// Every tensor has its own name and its own bytes, at a multiple of the alignment and inside the file.
fn check_layout(tensors: &[Tensor], alignment: u64, data_start: u64, file_bytes: u64) -> Parsed<()> {
    let mut names = BTreeSet::new();
    let mut order: Vec<&Tensor> = tensors.iter().collect();
    order.sort_by_key(|t| t.offset);
    let mut end = 0_u64;
    for t in order {
        let shown = Escaped(&t.name);
        if !names.insert(&t.name) {
            return damaged(format!("the tensor `{shown}` occurs twice"));
        }
        if !t.offset.is_multiple_of(alignment) {
            return damaged(format!(
                "the tensor `{shown}` begins at byte {}, not at a multiple of {alignment}",
                t.offset
            ));
        }
        if t.offset < end {
            return damaged(format!("the tensor `{shown}` begins inside another one, at byte {}", t.offset));
        }
        end = match t.offset.checked_add(t.bytes) {
            Some(end) => end,
            None => return damaged(format!("the tensor `{shown}` ends behind every possible byte")),
        };
    }
    let needed = data_start.saturating_add(end);
    if !tensors.is_empty() && needed > file_bytes {
        return Err(Fault::Refused(format!(
            "is cut short: its tensors need {} bytes, it has {}",
            Thousands(needed),
            Thousands(file_bytes)
        )));
    }
    Ok(())
}
