//! A reference's log-probabilities in a temporary file, for when two models do not fit into memory together.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};
use std::path::Path;

use super::Vocabulary;
use super::rows::Packed;
use crate::engine::Token;
use crate::error::{Error, Result};

/// Bytes in front of each row: its scale, its lowest log-probability and its loss.
const HEAD: usize = 12;

/// What a reference said about a text. The file has no name, or goes with this value.
pub(crate) struct Recording {
    file: BufReader<File>,
    pub(super) vocabulary: Vocabulary,
    /// The whole chunks of the text.
    pub(super) tokens: Vec<Token>,
}

/// A recording in the making.
pub(super) struct Recorder {
    file: BufWriter<File>,
    bytes: Vec<u8>,
}

impl Recorder {
    pub(super) fn new(folder: &Path) -> Result<Self> {
        let file = tempfile::tempfile_in(folder).map_err(|error| {
            Error::failed(format!("cannot write a temporary file to `{}`: {error}", folder.display()))
        })?;
        Ok(Self { file: BufWriter::new(file), bytes: Vec::new() })
    }

    pub(super) fn push(&mut self, rows: &Packed) -> Result<()> {
        for (scale, steps) in rows.rows() {
            self.bytes.clear();
            for number in [scale.scale, scale.lowest, scale.loss] {
                self.bytes.extend(number.to_le_bytes());
            }
            self.bytes.extend(steps.iter().flat_map(|step| step.to_le_bytes()));
            self.file.write_all(&self.bytes).map_err(|e| cannot("write", &e))?;
        }
        Ok(())
    }

    pub(super) fn finish(self, vocabulary: Vocabulary, tokens: Vec<Token>) -> Result<Recording> {
        let mut file = self.file.into_inner().map_err(|e| cannot("write", e.error()))?;
        file.rewind().map_err(|e| cannot("read", &e))?;
        Ok(Recording { file: BufReader::new(file), vocabulary, tokens })
    }
}

impl Recording {
    /// The rows of the next chunk.
    pub(super) fn next(&mut self, rows: &mut Packed) -> Result<()> {
        let mut bytes = vec![0; HEAD + 2 * self.vocabulary.len];
        for (scale, steps) in rows.rows_mut() {
            self.file.read_exact(&mut bytes).map_err(|e| cannot("read", &e))?;
            let (head, body) = bytes.split_at(HEAD);
            let mut numbers = head.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes));
            for number in [&mut scale.scale, &mut scale.lowest, &mut scale.loss] {
                *number = numbers.next().unwrap_or(f32::NAN);
            }
            for (step, bytes) in steps.iter_mut().zip(body.as_chunks::<2>().0) {
                *step = u16::from_le_bytes(*bytes);
            }
        }
        Ok(())
    }
}

fn cannot(what: &str, error: &io::Error) -> Error {
    Error::failed(format!("cannot {what} the reference's log-probabilities: {error}"))
}
