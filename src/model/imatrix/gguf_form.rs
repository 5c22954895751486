//! The newer form of an importance matrix: a GGUF file with two tensors for each weight, `NAME.in_sum2`, the sums of
//! squares, `[columns, experts]`, and `NAME.counts`, the rows in each sum, `[1, experts]`. As `common_imatrix_load` in
//! llama.cpp's `common/imatrix-loader.cpp` and `save_imatrix` in its `tools/imatrix/imatrix.cpp`. What else newer
//! versions write for their statistics (`.in_sum`, `.stats`) plays no part in quantizing and is neither read nor written.

use std::collections::BTreeMap;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::Path;

use super::{Imatrix, Squares, check_sums, floats, quoted};
use crate::error::{Error, Result};
use crate::human::Escaped;
use crate::model::gguf::{Header, Tensor};
use crate::model::store;

const SUMS: &str = ".in_sum2";
const COUNTS: &str = ".counts";
const DATASETS: &str = "imatrix.datasets";
const CHUNKS: &str = "imatrix.chunk_count";
const CHUNK_SIZE: &str = "imatrix.chunk_size";
/// More rows than any text has; below it a double, and so `llround`, is exact.
const MOST_ROWS: f32 = 9_007_199_254_740_992.0;

/// Read from a stream of `len` bytes; `quoted` names it in errors.
pub(super) fn read(mut stream: impl Read + Seek, len: u64, quoted: &str) -> Result<Imatrix> {
    let header = Header::read(BufReader::with_capacity(1 << 16, stream.by_ref()), len, quoted)?;
    if header.str("general.type") != Some("imatrix") {
        return Err(Error::failed(format!("{quoted} is a GGUF file, but not an importance matrix")));
    }
    let damaged = |clause: String| Error::failed(format!("{quoted} is damaged: {clause}"));
    let mut imatrix = about(&header).map_err(damaged)?;
    for (name, pair) in pairs(&header) {
        let (Some(sums), Some(counts)) = (pair.sums, pair.counts) else {
            let missing = if pair.sums.is_none() { SUMS } else { COUNTS };
            return Err(damaged(format!("it has no tensor `{}{missing}`", Escaped(name))));
        };
        check_pair(name, sums, counts).map_err(damaged)?;
        let mut load = |tensor: &Tensor| {
            load(&mut stream, header.meta_bytes(), tensor)
                .map_err(|e| Error::failed(format!("cannot read {quoted}: {e}")))
        };
        let (sums, rows) = (load(sums)?, load(counts)?);
        check_sums(name, &sums).map_err(damaged)?;
        let counts = whole_counts(name, &rows).map_err(damaged)?;
        imatrix.entries.insert(name.to_owned(), Squares { sums, counts });
    }
    if imatrix.entries.is_empty() {
        return Err(damaged("it has no entries".to_owned()));
    }
    Ok(imatrix)
}

type Checked<T> = std::result::Result<T, String>;

/// The metadata, all of which `llama-quantize` asks for.
fn about(header: &Header) -> Checked<Imatrix> {
    let number = |key: &str| {
        header
            .u64(key)
            .and_then(|n| u32::try_from(n).ok())
            .ok_or_else(|| format!("`{key}` is missing or no whole number of 32 bits"))
    };
    let texts =
        header.texts(DATASETS).ok_or_else(|| format!("`{DATASETS}` is missing or no list of texts"))?;
    Ok(Imatrix {
        entries: BTreeMap::new(),
        datasets: texts.iter().map(|text| String::from_utf8_lossy(text).into_owned()).collect(),
        chunks: number(CHUNKS)?,
        chunk_size: number(CHUNK_SIZE)?,
    })
}

/// The tensors of one weight.
#[derive(Default)]
struct Pair<'a> {
    sums: Option<&'a Tensor>,
    counts: Option<&'a Tensor>,
}

fn pairs(header: &Header) -> BTreeMap<&str, Pair<'_>> {
    let mut pairs: BTreeMap<&str, Pair<'_>> = BTreeMap::new();
    for tensor in &header.tensors {
        if let Some(name) = tensor.name.strip_suffix(SUMS) {
            pairs.entry(name).or_default().sums = Some(tensor);
        } else if let Some(name) = tensor.name.strip_suffix(COUNTS) {
            pairs.entry(name).or_default().counts = Some(tensor);
        }
    }
    pairs
}

fn check_pair(name: &str, sums: &Tensor, counts: &Tensor) -> Checked<()> {
    let shown = Escaped(name);
    if name.is_empty() || name.contains('\0') {
        return Err(format!("the name `{shown}` is not the name of a weight"));
    }
    if sums.kind.name != "F32" || counts.kind.name != "F32" {
        return Err(format!("the sums and counts of `{shown}` must be F32"));
    }
    if !sums.elements().is_multiple_of(counts.elements()) {
        return Err(format!("`{shown}` has {} sums and {} counts", sums.elements(), counts.elements()));
    }
    Ok(())
}

/// The floats of a tensor. The header has been held against the size of the file; memory grows as they arrive.
fn load(stream: &mut (impl Read + Seek), data_start: u64, tensor: &Tensor) -> io::Result<Vec<f32>> {
    stream.seek(SeekFrom::Start(data_start + tensor.offset))?;
    let mut bytes = Vec::new();
    let got = stream.take(tensor.bytes).read_to_end(&mut bytes)?;
    if got as u64 == tensor.bytes { Ok(floats(&bytes)) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

fn whole_counts(name: &str, rows: &[f32]) -> Checked<Vec<u64>> {
    let whole = |&count: &f32| {
        if !(0.0..=MOST_ROWS).contains(&count) {
            return Err(format!("`{}` has the count {count}", Escaped(name)));
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked above")]
        Ok(count.round() as u64)
    };
    rows.iter().map(whole).collect()
}

/// Write all of it or nothing.
pub(super) fn write(imatrix: &Imatrix, path: &Path) -> Result<()> {
    let head = head(imatrix)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let write = || {
        let (file, temporary) = store::temporary(folder, &name)?;
        let mut out = BufWriter::with_capacity(1 << 16, &file);
        out.write_all(&head)?;
        put_data(&mut out, imatrix)?;
        out.flush()?;
        drop(out);
        file.sync_all()?;
        temporary.persist(path).map_err(io::Error::from)
    };
    write().map_err(|e| Error::failed(format!("cannot write {}: {e}", quoted(path))))
}

const ALIGNMENT: usize = 32;
/// llama.cpp keeps a tensor's name in 64 bytes, with a zero at the end.
const MAX_NAME: usize = 63;
const KIND_U32: u32 = 4;
const KIND_TEXT: u32 = 8;
const KIND_ARRAY: u32 = 9;
const F32: u32 = 0;

/// All that stands before the floats.
fn head(imatrix: &Imatrix) -> Result<Vec<u8>> {
    let mut out = b"GGUF".to_vec();
    out.extend(3_u32.to_le_bytes());
    out.extend((imatrix.entries.len() as u64 * 2).to_le_bytes());
    out.extend(4_u64.to_le_bytes());
    put_key(&mut out, "general.type", KIND_TEXT);
    put_text(&mut out, "imatrix");
    put_key(&mut out, DATASETS, KIND_ARRAY);
    out.extend(KIND_TEXT.to_le_bytes());
    out.extend((imatrix.datasets.len() as u64).to_le_bytes());
    imatrix.datasets.iter().for_each(|text| put_text(&mut out, text));
    for (key, number) in [(CHUNKS, imatrix.chunks), (CHUNK_SIZE, imatrix.chunk_size)] {
        put_key(&mut out, key, KIND_U32);
        out.extend(number.to_le_bytes());
    }
    put_tensors(&mut out, imatrix)?;
    pad(&mut out);
    Ok(out)
}

fn put_tensors(out: &mut Vec<u8>, imatrix: &Imatrix) -> Result<()> {
    let mut offset = 0;
    for (name, squares) in &imatrix.entries {
        if name.len() + SUMS.len() > MAX_NAME {
            let shown = Escaped(name);
            return Err(Error::failed(format!("the name `{shown}` is too long for an importance matrix")));
        }
        for (end, width) in [(SUMS, squares.width()), (COUNTS, 1)] {
            put_text(out, &format!("{name}{end}"));
            out.extend(2_u32.to_le_bytes());
            out.extend((width as u64).to_le_bytes());
            out.extend((squares.counts.len() as u64).to_le_bytes());
            out.extend(F32.to_le_bytes());
            out.extend((offset as u64).to_le_bytes());
            offset = (offset + width * squares.counts.len() * 4).next_multiple_of(ALIGNMENT);
        }
    }
    Ok(())
}

fn put_data(out: &mut impl Write, imatrix: &Imatrix) -> io::Result<()> {
    for squares in imatrix.entries.values() {
        #[expect(clippy::cast_precision_loss, reason = "the form has floats for counts")]
        let counts = squares.counts.iter().map(|&count| count as f32);
        for floats in [squares.sums.clone(), counts.collect()] {
            let mut bytes: Vec<u8> = floats.iter().flat_map(|float| float.to_le_bytes()).collect();
            pad(&mut bytes);
            out.write_all(&bytes)?;
        }
    }
    Ok(())
}

fn put_key(out: &mut Vec<u8>, key: &str, kind: u32) {
    put_text(out, key);
    out.extend(kind.to_le_bytes());
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend(text.as_bytes());
}

fn pad(out: &mut Vec<u8>) {
    out.resize(out.len().next_multiple_of(ALIGNMENT), 0);
}
