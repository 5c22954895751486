//! The older form of an importance matrix, a list of names and floats without any mark. Little-endian:
//!
//! ```text
//! i32 entries, then for each: i32 length, name, i32 calls, i32 values, f32 × values
//! i32 chunks, i32 length, name of the text              (both or neither)
//! ```
//!
//! The values are means multiplied by `calls`, the number of chunks. As `common_imatrix_load_legacy` in llama.cpp's
//! `common/imatrix-loader.cpp`, which trusts every length; here each is held against the bytes that are left.

use std::io::{self, BufReader, Read};

use super::{Imatrix, Squares, check_sums, floats};
use crate::error::{Error, Result};
use crate::human::{Escaped, Thousands};

/// A length, a name of one byte, calls, a number of values and one of them.
const LEAST_ENTRY: u64 = 4 + 1 + 4 + 4 + 4;

enum Fault {
    Io(io::Error),
    /// The file ended.
    End,
    /// Its first number makes no sense: it is something else.
    Other,
    /// It contradicts itself; a clause.
    Damaged(String),
}

type Parsed<T> = std::result::Result<T, Fault>;

fn damaged<T>(clause: impl Into<String>) -> Parsed<T> {
    Err(Fault::Damaged(clause.into()))
}

/// Read from a stream of `len` bytes; `quoted` names it in errors.
pub(super) fn read(stream: impl Read, len: u64, quoted: &str) -> Result<Imatrix> {
    let mut source = Source { stream: BufReader::with_capacity(1 << 16, stream), left: len };
    parse(&mut source).map_err(|fault| {
        Error::failed(match fault {
            Fault::Io(e) => format!("cannot read {quoted}: {e}"),
            Fault::End => {
                format!("{quoted} is cut short: its {} bytes end inside an importance matrix", Thousands(len))
            }
            Fault::Other => {
                format!("{quoted} is not an importance matrix, neither in GGUF nor in the older form")
            }
            Fault::Damaged(clause) => format!("{quoted} is damaged: {clause}"),
        })
    })
}

/// A stream that knows how many bytes may still come.
struct Source<R> {
    stream: R,
    left: u64,
}

impl<R: Read> Source<R> {
    /// The next `len` bytes. Memory grows as they arrive.
    fn bytes(&mut self, len: u64) -> Parsed<Vec<u8>> {
        if len > self.left {
            return Err(Fault::End);
        }
        let mut bytes = Vec::new();
        let got = self.stream.by_ref().take(len).read_to_end(&mut bytes).map_err(Fault::Io)?;
        if got as u64 != len {
            return Err(Fault::Io(io::ErrorKind::UnexpectedEof.into()));
        }
        self.left -= len;
        Ok(bytes)
    }

    fn i32(&mut self) -> Parsed<i32> {
        let mut number = [0; 4];
        if self.left < 4 {
            return Err(Fault::End);
        }
        self.stream.read_exact(&mut number).map_err(Fault::Io)?;
        self.left -= 4;
        Ok(i32::from_le_bytes(number))
    }

    /// A number that has to be above 0.
    fn count(&mut self, what: &str) -> Parsed<u64> {
        match self.i32()? {
            n @ 1.. => Ok(u64::from(n.unsigned_abs())),
            n => damaged(format!("{what} is {n}")),
        }
    }
}

fn parse<R: Read>(source: &mut Source<R>) -> Parsed<Imatrix> {
    if source.left < 4 {
        return Err(Fault::Other);
    }
    let count = match u64::try_from(source.i32()?) {
        Ok(count @ 1..) if count.saturating_mul(LEAST_ENTRY) <= source.left => count,
        _ => return Err(Fault::Other),
    };
    let mut imatrix = Imatrix::default();
    for _ in 0..count {
        let (name, squares) = parse_entry(source, imatrix.entries.is_empty())?;
        if imatrix.entries.insert(name.clone(), squares).is_some() {
            return damaged(format!("the entry `{}` occurs twice", Escaped(&name)));
        }
    }
    if source.left > 0 {
        parse_end(source, &mut imatrix)?;
    }
    if source.left > 0 {
        return damaged(format!("{} bytes stand behind its end", Thousands(source.left)));
    }
    Ok(imatrix)
}

fn parse_entry<R: Read>(source: &mut Source<R>, first: bool) -> Parsed<(String, Squares)> {
    // Any file whose first four bytes are a small number comes this far.
    let other = |fault| if first { Fault::Other } else { fault };
    let len = source.count("the length of a name").map_err(other)?;
    let name = String::from_utf8(source.bytes(len).map_err(other)?).unwrap_or_default();
    if name.is_empty() || name.contains('\0') {
        return Err(other(Fault::Damaged("a name is not text".to_owned())));
    }
    let calls = source.i32()?;
    let values = source.count(&format!("the number of values of `{}`", Escaped(&name)))?;
    let sums = floats(&source.bytes(values * 4)?);
    check_sums(&name, &sums).map_err(Fault::Damaged)?;
    // Without calls, llama.cpp takes the values as they are.
    let counts = vec![u64::try_from(calls).unwrap_or(0).max(1)];
    Ok((name, Squares { sums, counts }))
}

/// What newer files add: chunks, and the name of the text.
fn parse_end<R: Read>(source: &mut Source<R>, imatrix: &mut Imatrix) -> Parsed<()> {
    imatrix.chunks = u32::try_from(source.i32()?).unwrap_or(0);
    match u64::try_from(source.i32()?) {
        Ok(0) => {}
        Ok(len) => imatrix.datasets.push(String::from_utf8_lossy(&source.bytes(len)?).into_owned()),
        Err(_) => return damaged("the length of the text's name is below 0"),
    }
    Ok(())
}
