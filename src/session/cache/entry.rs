//! One entry, a file: first what the engine wrote, then what that is, as JSON, then how to find and check the JSON.
//! The engine reads its part from the front and leaves the rest alone.

use std::fs::File;
use std::hash::Hasher;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use twox_hash::XxHash3_64;

use super::Key;
use crate::engine::Token;

const VERSION: u32 = 1;
const MAGIC: [u8; 8] = *b"infer-kv";
/// Length and hash of the description, and the magic bytes.
const TAIL: u64 = 24;
/// No description is longer: a million tokens take ten bytes each at the most.
const LONGEST: u64 = 64 << 20;

/// The most bytes that the description of an entry of so many tokens takes, its names being of the usual lengths.
pub(super) fn longest_description(tokens: usize) -> u64 {
    4096 + 12 * tokens as u64
}

/// What an entry holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct About {
    version: u32,
    pub(crate) key: Key,
    /// The model as a person named it.
    pub(crate) model: String,
    /// The session that it belongs to; without one any prompt may begin with it.
    pub(crate) session: Option<String>,
    pub(crate) tokens: Vec<Token>,
    /// Bytes that the engine wrote, and their hash.
    payload: u64,
    hash: u64,
    /// What it took to evaluate these tokens, and what it takes to read them.
    pub(super) evaluation: Duration,
    reading: Duration,
}

/// Why an entry cannot be used, in words for a person.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Flaw {
    /// It will never be of use.
    Broken(&'static str),
    /// It may be of use to somebody else.
    Foreign(&'static str),
    /// Another process has removed or replaced it.
    Gone,
}

impl Flaw {
    /// Nothing where there is no entry any more.
    pub(super) fn reason(&self) -> Option<&'static str> {
        match self {
            Self::Broken(reason) | Self::Foreign(reason) => Some(reason),
            Self::Gone => None,
        }
    }
}

impl From<io::Error> for Flaw {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Self::Gone,
            io::ErrorKind::UnexpectedEof => Self::Broken("it is cut off"),
            _ => Self::Foreign("it cannot be read"),
        }
    }
}

/// The part of a description that says how to read the rest.
#[derive(Deserialize)]
struct Form {
    version: u32,
}

impl About {
    pub(super) fn new(
        key: Key,
        model: String,
        session: Option<String>,
        tokens: Vec<Token>,
        evaluation: Duration,
    ) -> Self {
        let (payload, hash, reading) = (0, 0, Duration::ZERO);
        Self { version: VERSION, key, model, session, tokens, payload, hash, evaluation, reading }
    }

    /// Take in what the engine wrote to a file that has nothing else yet: its hash, and how long it takes to read. That
    /// will be done twice, to see that it is whole and then by the engine. Ends early when it may not go on.
    pub(super) fn measure(
        &mut self,
        file: &mut File,
        go_on: &mut dyn FnMut() -> io::Result<()>,
    ) -> io::Result<()> {
        self.payload = file.metadata()?.len();
        self.reading = Duration::MAX;
        // Another process can be in the way of the first attempt.
        for _ in 0..3 {
            let start = Instant::now();
            self.hash = hash(file, self.payload, go_on)?;
            self.reading = self.reading.min(2 * start.elapsed());
            if self.pays_off(self.tokens.len()) {
                break;
            }
        }
        Ok(())
    }

    /// Is it quicker to read the entry than to evaluate so many of its tokens?
    pub(super) fn pays_off(&self, gain: usize) -> bool {
        super::pays_off(self.reading, self.evaluation, gain, self.tokens.len())
    }

    /// Stands for tokens that are quicker evaluated than read.
    pub(crate) fn is_empty(&self) -> bool {
        self.payload == 0
    }

    /// Write the description behind what the engine wrote.
    pub(super) fn append(&self, file: &mut File) -> io::Result<()> {
        let json = serde_json::to_vec(self)?;
        let mut tail = (json.len() as u64).to_le_bytes().to_vec();
        tail.extend(XxHash3_64::oneshot(&json).to_le_bytes());
        tail.extend(MAGIC);
        file.seek(SeekFrom::End(0))?;
        file.write_all(&json)?;
        file.write_all(&tail)
    }

    /// Read what is in a file. What the engine wrote is left to [`Self::verify`].
    pub(super) fn read(path: &Path) -> Result<Self, Flaw> {
        Self::read_from(&mut File::open(path)?)
    }

    fn read_from(file: &mut File) -> Result<Self, Flaw> {
        let all = file.metadata()?.len();
        let before_tail = all.checked_sub(TAIL).ok_or(Flaw::Broken("it is cut off"))?;
        file.seek(SeekFrom::Start(before_tail))?;
        let (len, hash, magic) = (number(file)?, number(file)?, number(file)?);
        if magic.to_le_bytes() != MAGIC {
            return Err(Flaw::Broken("it is cut off"));
        }
        let start = before_tail.checked_sub(len).filter(|_| len <= LONGEST);
        let start = start.ok_or(Flaw::Broken("its description is damaged"))?;
        file.seek(SeekFrom::Start(start))?;
        let mut json = Vec::new();
        file.take(len).read_to_end(&mut json)?;
        if XxHash3_64::oneshot(&json) != hash {
            return Err(Flaw::Broken("its description is damaged"));
        }
        let damaged = |_| Flaw::Broken("its description is damaged");
        let form: Form = serde_json::from_slice(&json).map_err(damaged)?;
        if form.version != VERSION {
            return Err(Flaw::Foreign("another version of this program made it"));
        }
        let about: Self = serde_json::from_slice(&json).map_err(damaged)?;
        if about.payload == start { Ok(about) } else { Err(Flaw::Broken("its length is wrong")) }
    }

    /// Is what the engine wrote as it was?
    pub(super) fn verify(&self, path: &Path) -> Result<(), Flaw> {
        let file = &mut File::open(path)?;
        if Self::read_from(file)? != *self {
            return Err(Flaw::Gone);
        }
        if hash(file, self.payload, &mut || Ok(()))? == self.hash {
            Ok(())
        } else {
            Err(Flaw::Broken("its content is damaged"))
        }
    }
}

fn number(file: &mut File) -> io::Result<u64> {
    let mut bytes = [0; 8];
    file.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

/// The hash of the first `len` bytes of a file.
fn hash(file: &mut File, len: u64, go_on: &mut dyn FnMut() -> io::Result<()>) -> io::Result<u64> {
    file.seek(SeekFrom::Start(0))?;
    let mut hash = XxHash3_64::with_seed(0);
    let mut buffer = vec![0; 1 << 18];
    let mut left = len;
    while left > 0 {
        go_on()?;
        let want = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        file.read_exact(&mut buffer[..want])?;
        hash.write(&buffer[..want]);
        left -= want as u64;
    }
    Ok(hash.finish())
}

#[cfg(test)]
impl About {
    /// As if it had been measured so.
    pub(super) fn with_times(self, evaluation: Duration, reading: Duration) -> Self {
        Self { evaluation, reading, ..self }
    }
}
