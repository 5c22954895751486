//! The importance matrix ("imatrix"): for each weight, how strongly the inputs of its columns are used on some text.
//! Quantizing weighs the errors with it. llama.cpp's two forms of file are read, its newer one (GGUF) is written.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use crate::engine::calibrate::{Calibrated, Squares};
use crate::error::{Error, Kind, Result};
use crate::human::Escaped;

mod coverage;
mod gguf_form;
mod legacy;
#[cfg(test)]
mod tests;

/// What a text did to a model's weights, by their names.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Imatrix {
    pub(crate) entries: BTreeMap<String, Squares>,
    /// The names of the texts that it was computed on.
    pub(crate) datasets: Vec<String>,
    /// Pieces of text that were evaluated, and tokens in each; 0 where the file does not say.
    pub(crate) chunks: u32,
    pub(crate) chunk_size: u32,
}

impl Imatrix {
    /// What a model made of the text called `dataset`.
    pub(crate) fn new(calibrated: Calibrated, dataset: &str) -> Self {
        Self {
            entries: calibrated.tensors,
            datasets: vec![dataset.to_owned()],
            chunks: calibrated.chunks,
            chunk_size: calibrated.chunk_size,
        }
    }

    /// Read a file of either form. An error where it is cut short, contradicts itself or holds a value that is no sum
    /// of squares: not finite, or below 0.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let quoted = quoted(path);
        let about = fs::metadata(path).map_err(|e| open_error(&e, &quoted))?;
        if !about.is_file() {
            return Err(Error::failed(format!("{quoted} is not a regular file")));
        }
        let file = File::open(path).map_err(|e| open_error(&e, &quoted))?;
        Self::parse(file, about.len(), &quoted)
    }

    /// Read either form from a stream of `len` bytes; `quoted` names it in errors.
    fn parse(mut stream: impl Read + Seek, len: u64, quoted: &str) -> Result<Self> {
        let failed = |e: io::Error| Error::failed(format!("cannot read {quoted}: {e}"));
        let mut magic = Vec::new();
        stream.by_ref().take(4).read_to_end(&mut magic).map_err(failed)?;
        stream.seek(SeekFrom::Start(0)).map_err(failed)?;
        if magic == b"GGUF" {
            gguf_form::read(stream, len, quoted)
        } else {
            legacy::read(stream, len, quoted)
        }
    }

    /// Write llama.cpp's GGUF form: the whole file or none, in place of one that is there.
    pub(crate) fn write(&self, path: &Path) -> Result<()> {
        gguf_form::write(self, path)
    }

    /// What `llama_model_quantize` wants: for each weight the mean square of the input of each column, the experts
    /// one after another. An expert that no token was sent to counts evenly, with 1. As `load_imatrix` in
    /// llama.cpp's `tools/quantize/quantize.cpp`.
    pub(crate) fn means(&self) -> BTreeMap<&str, Vec<f32>> {
        self.entries.iter().map(|(name, squares)| (name.as_str(), means(squares))).collect()
    }
}

fn means(squares: &Squares) -> Vec<f32> {
    let width = squares.width().max(1);
    let experts = squares.sums.chunks(width).zip(&squares.counts);
    experts.flat_map(|(sums, &count)| sums.iter().map(move |&sum| mean(sum, count))).collect()
}

#[expect(clippy::cast_precision_loss, reason = "llama.cpp divides by a float too")]
fn mean(sum: f32, count: u64) -> f32 {
    if count == 0 { 1.0 } else { sum / count as f32 }
}

/// The sums of a file, if each is one: finite, and of squares.
fn check_sums(name: &str, sums: &[f32]) -> std::result::Result<(), String> {
    match sums.iter().find(|sum| !sum.is_finite() || **sum < 0.0) {
        Some(sum) => Err(format!("`{}` has the value {sum}", Escaped(name))),
        None => Ok(()),
    }
}

/// The floats in `bytes`.
fn floats(bytes: &[u8]) -> Vec<f32> {
    let (numbers, _) = bytes.as_chunks::<4>();
    numbers.iter().map(|&number| f32::from_le_bytes(number)).collect()
}

/// A path in backticks, on one line whatever is in it.
fn quoted(path: &Path) -> String {
    format!("`{}`", Escaped(&path.to_string_lossy()))
}

fn open_error(e: &io::Error, quoted: &str) -> Error {
    match e.kind() {
        io::ErrorKind::NotFound => Error::new(Kind::NotFound, format!("no such file: {quoted}"))
            .hint("`--calibrate TEXTFILE` computes an importance matrix from a text"),
        io::ErrorKind::PermissionDenied => Error::failed(format!("no permission to read {quoted}")),
        _ => Error::failed(format!("cannot read {quoted}: {e}")),
    }
}
