//! The journal of a download in progress: what the file is to become, and which blocks of it are on the disk.
//!
//! JSON lines beside the part file. The first says what is being downloaded; each further line, one block that has
//! been written and a quick hash of it, so that what a power cut took is noticed. A line is one append: a torn last
//! line is ignored, and a block that appears twice counts as last written.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::model::name::{RepoId, RepoPath, is_commit, is_sha256};

const VERSION: u32 = 1;

/// What a part file is to become.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JournalHead {
    pub(crate) repo: RepoId,
    pub(crate) commit: String,
    pub(crate) path: RepoPath,
    /// The sha256 of the whole file.
    pub(crate) etag: String,
    pub(crate) size: u64,
    /// The bytes of a block; the last one may be shorter.
    pub(crate) block: u64,
}

/// Finished blocks by their number, with the xxh3 of what was written.
pub(crate) type Blocks = BTreeMap<u64, u64>;

/// Why a journal that was there could not be gone on with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StartedOver {
    /// No first line of ours.
    Unreadable,
    /// Another file, by its hash.
    EtagChanged {
        was: String,
    },
    SizeChanged {
        was: u64,
    },
    /// Written with blocks of another size.
    BlockChanged {
        was: u64,
    },
}

/// A journal as read, for those who only look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Partial {
    pub(crate) head: JournalHead,
    /// The bytes in finished blocks.
    pub(crate) done: u64,
}

/// The journal of one part file.
#[derive(Debug)]
pub(crate) struct Journal {
    head: JournalHead,
    blocks: Blocks,
}

/// A journal opened for more blocks.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) writer: JournalWriter,
    pub(crate) blocks: Blocks,
    /// Set when there was a journal whose blocks are of no use.
    pub(crate) started_over: Option<StartedOver>,
}

impl Journal {
    /// What a journal says, or `None` where there is none that can be read.
    pub(crate) fn read(path: &Path) -> Option<Partial> {
        let journal = Self::parse(&fs::read(path).ok()?)?;
        let done = journal.blocks.keys().map(|block| journal.head.bytes_of(*block)).sum();
        Some(Partial { head: journal.head, done })
    }

    /// Go on with the journal at `path`, or begin it. The blocks of one about other bytes are dropped; that the same
    /// bytes now have another name or commit is no reason to.
    pub(crate) fn open(path: &Path, head: &JournalHead) -> Result<Opened> {
        let failed = |e: io::Error| Error::failed(format!("cannot write `{}`: {e}", path.display()));
        let before = match fs::read(path) {
            Ok(bytes) => Some(bytes),
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            Err(e) => return Err(Error::failed(format!("cannot read `{}`: {e}", path.display()))),
        };
        let (blocks, started_over) = match before {
            None => (Blocks::new(), None),
            Some(bytes) => {
                match Self::parse(&bytes).ok_or(StartedOver::Unreadable).and_then(|j| j.fits(head)) {
                    Ok(blocks) => (blocks, None),
                    Err(why) => (Blocks::new(), Some(why)),
                }
            }
        };
        let file = rewrite(path, head, &blocks).map_err(failed)?;
        Ok(Opened { writer: JournalWriter { file }, blocks, started_over })
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        // What stands behind the last line end was torn off.
        let whole = &bytes[..=bytes.iter().rposition(|byte| *byte == b'\n')?];
        let mut lines = whole.split(|byte| *byte == b'\n');
        let head = serde_json::from_slice::<HeadLine>(lines.next()?).ok()?.check()?;
        let blocks = lines
            .filter_map(|line| serde_json::from_slice::<BlockLine>(line).ok())
            .filter(|line| head.bytes_of(line.b) > 0)
            .filter_map(|line| Some((line.b, u64::from_str_radix(&line.x, 16).ok()?)))
            .collect();
        Some(Self { head, blocks })
    }

    /// The blocks, if they are blocks of what is wanted now.
    fn fits(self, wanted: &JournalHead) -> std::result::Result<Blocks, StartedOver> {
        let was = self.head;
        if was.etag != wanted.etag {
            Err(StartedOver::EtagChanged { was: was.etag })
        } else if was.size != wanted.size {
            Err(StartedOver::SizeChanged { was: was.size })
        } else if was.block != wanted.block {
            Err(StartedOver::BlockChanged { was: was.block })
        } else {
            Ok(self.blocks)
        }
    }
}

impl JournalHead {
    /// The length of a block; 0 where the file has no such block.
    pub(crate) fn bytes_of(&self, block: u64) -> u64 {
        let start = block.saturating_mul(self.block);
        self.size.saturating_sub(start).min(self.block)
    }
}

/// The writing side of a journal.
#[derive(Debug)]
pub(crate) struct JournalWriter {
    file: File,
}

impl JournalWriter {
    /// Note a block that has been written to the part file, with the xxh3 of its bytes.
    pub(crate) fn block_done(&mut self, block: u64, xxh3: u64) -> io::Result<()> {
        self.file.write_all(&line(&BlockLine { b: block, x: format!("{xxh3:016x}") })?)
    }
}

/// The whole journal anew, without torn and double lines; left open for appending.
fn rewrite(path: &Path, head: &JournalHead, blocks: &Blocks) -> io::Result<File> {
    let mut text = line(&HeadLine::from(head))?;
    for (&b, xxh3) in blocks {
        text.extend(line(&BlockLine { b, x: format!("{xxh3:016x}") })?);
    }
    let (mut file, temporary) = super::temporary(path.parent().unwrap_or(Path::new(".")), "journal")?;
    file.write_all(&text)?;
    file.sync_data()?;
    temporary.persist(path)?;
    Ok(file)
}

fn line(value: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    Ok(line)
}

/// The first line as it stands in the file, unchecked.
#[derive(Serialize, Deserialize)]
struct HeadLine {
    v: u32,
    repo: String,
    commit: String,
    path: String,
    etag: String,
    size: u64,
    block: u64,
}

impl HeadLine {
    fn check(self) -> Option<JournalHead> {
        let Self { v, repo, commit, path, etag, size, block } = self;
        if v != VERSION || block == 0 || !is_commit(&commit) || !is_sha256(&etag) {
            return None;
        }
        let (repo, path) = (RepoId::parse(&repo).ok()?, RepoPath::parse(&path)?);
        Some(JournalHead { repo, commit, path, etag, size, block })
    }
}

impl From<&JournalHead> for HeadLine {
    fn from(head: &JournalHead) -> Self {
        let JournalHead { repo, commit, path, etag, size, block } = head.clone();
        Self { v: VERSION, repo: repo.to_string(), commit, path: path.to_string(), etag, size, block }
    }
}

#[derive(Serialize, Deserialize)]
struct BlockLine {
    b: u64,
    x: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
    const BLOCK: u64 = 1 << 20;

    fn head() -> JournalHead {
        JournalHead {
            repo: RepoId::parse("org/name").unwrap(),
            commit: COMMIT.into(),
            path: RepoPath::parse("sub/file.gguf").unwrap(),
            etag: "a".repeat(64),
            size: 2 * BLOCK + 5,
            block: BLOCK,
        }
    }

    fn first_line() -> String {
        let etag = "a".repeat(64);
        format!(
            r#"{{"v":1,"repo":"org/name","commit":"{COMMIT}","path":"sub/file.gguf","etag":"{etag}","size":2097157,"block":1048576}}"#
        ) + "\n"
    }

    #[test]
    fn writes_one_line_for_the_file_and_one_for_each_block() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("j");
        let mut opened = Journal::open(&path, &head()).unwrap();
        assert_eq!((opened.blocks, opened.started_over), (Blocks::new(), None));
        opened.writer.block_done(2, 0xab).unwrap();
        opened.writer.block_done(0, u64::MAX).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        let blocks = "{\"b\":2,\"x\":\"00000000000000ab\"}\n{\"b\":0,\"x\":\"ffffffffffffffff\"}\n";
        assert_eq!(text, first_line() + blocks);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside it");
        assert_eq!(Journal::read(&path), Some(Partial { head: head(), done: BLOCK + 5 }));
    }

    #[test]
    fn goes_on_behind_a_torn_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("j");
        fs::write(
            &path,
            first_line() + "{\"b\":1,\"x\":\"1\"}\nrubbish\n{\"b\":1,\"x\":\"2\"}\n{\"b\":0,\"x",
        )
        .unwrap();
        let mut opened = Journal::open(&path, &head()).unwrap();
        assert_eq!((opened.blocks, opened.started_over), (Blocks::from([(1, 2)]), None));
        opened.writer.block_done(0, 3).unwrap();
        let opened = Journal::open(&path, &head()).unwrap();
        assert_eq!(opened.blocks, Blocks::from([(0, 3), (1, 2)]));
        assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 3);
    }

    #[test]
    fn starts_over_only_for_other_bytes_and_says_why() {
        let was = "a".repeat(64);
        let cases = [
            (JournalHead { etag: "b".repeat(64), ..head() }, Some(StartedOver::EtagChanged { was })),
            (JournalHead { size: 7, ..head() }, Some(StartedOver::SizeChanged { was: 2 * BLOCK + 5 })),
            (JournalHead { block: 7, ..head() }, Some(StartedOver::BlockChanged { was: BLOCK })),
            (JournalHead { commit: "f".repeat(40), ..head() }, None),
            (JournalHead { path: RepoPath::parse("renamed.gguf").unwrap(), ..head() }, None),
        ];
        for (wanted, why) in cases {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("j");
            Journal::open(&path, &head()).unwrap().writer.block_done(1, 9).unwrap();
            let opened = Journal::open(&path, &wanted).unwrap();
            let kept = if why.is_some() { Blocks::new() } else { Blocks::from([(1, 9)]) };
            assert_eq!((opened.blocks, opened.started_over), (kept, why));
            assert_eq!(Journal::read(&path).unwrap().head, wanted);
        }
    }

    #[test]
    fn what_is_no_journal_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("j");
        assert_eq!(Journal::read(&path), None);
        let torn = first_line();
        for text in [
            "",
            "\n",
            torn.trim_end(),
            &torn.replace("\"v\":1", "\"v\":2"),
            &torn.replace("sub/", "../"),
            &torn.replace("org/name", "org"),
            &torn.replace(COMMIT, "main"),
            &torn.replace(":1048576", ":0"),
            &torn.replace("aaaa", "AAAA"),
        ] {
            fs::write(&path, text).unwrap();
            assert_eq!(Journal::read(&path), None, "{text}");
            let opened = Journal::open(&path, &head()).unwrap();
            assert_eq!(opened.started_over, Some(StartedOver::Unreadable), "{text}");
            assert_eq!(fs::read_to_string(&path).unwrap(), first_line());
        }
    }

    #[test]
    fn a_block_that_the_file_does_not_have_counts_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("j");
        let lines =
            format!("{{\"b\":3,\"x\":\"1\"}}\n{{\"b\":{},\"x\":\"1\"}}\n{{\"b\":2,\"x\":\"1\"}}\n", u64::MAX);
        fs::write(&path, first_line() + &lines).unwrap();
        assert_eq!(Journal::read(&path).unwrap().done, 5);
    }
}
