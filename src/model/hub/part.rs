//! The file that a download grows in, its journal, and the checksums that run along.
//!
//! Every block is written where it belongs and then noted in the journal with a fast hash (XXH3) of the bytes as they
//! came. One thread follows the unbroken beginning of the file: it reads each block back, compares the fast hash, so that
//! a block hurt on the disk is fetched again at once, and feeds the SHA-256 of the whole. Another keeps writing to the
//! disk what the system still holds in memory, so that little is left to do at the end.

use std::fs::File;
use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use sha2::{Digest, Sha256};
use twox_hash::XxHash3_64;

use super::ranges::{BLOCK, block_bytes, block_count};
use crate::model::store::JournalWriter;

/// So many new blocks are brought to the disk at once.
const FLUSH: u64 = 64;

pub(crate) struct Part {
    file: File,
    size: u64,
    journal: Mutex<JournalWriter>,
    marks: Mutex<Marks>,
    changed: Condvar,
}

struct Marks {
    /// The fast hash of each block that is there.
    blocks: Vec<Option<u64>>,
    /// How many blocks have come since the beginning of this run.
    arrived: u64,
    stopped: bool,
}

impl Part {
    /// `file` is open for reading and writing; `known` are the blocks of an earlier run.
    pub(crate) fn new(
        file: File,
        size: u64,
        journal: JournalWriter,
        known: impl Fn(u64) -> Option<u64>,
    ) -> io::Result<Self> {
        file.set_len(size)?;
        let blocks = (0..block_count(size)).map(known).collect();
        Ok(Self {
            file,
            size,
            journal: Mutex::new(journal),
            marks: Mutex::new(Marks { blocks, arrived: 0, stopped: false }),
            changed: Condvar::new(),
        })
    }

    pub(super) fn size(&self) -> u64 {
        self.size
    }

    pub(super) fn has(&self, block: u64) -> bool {
        self.marks().blocks.get(index(block)).is_some_and(Option::is_some)
    }

    /// Bytes of the blocks that are there.
    pub(crate) fn bytes(&self) -> u64 {
        let marks = self.marks();
        let there = (0..).zip(&marks.blocks).filter(|(_, hash)| hash.is_some());
        there.map(|(block, _)| block_bytes(block, self.size)).map(|range| range.end - range.start).sum()
    }

    pub(super) fn write(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        positioned::write_all(&self.file, bytes, at)
    }

    /// A block is written.
    pub(super) fn mark(&self, block: u64, hash: u64) -> io::Result<()> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner).block_done(block, hash)?;
        let mut marks = self.marks();
        if let Some(mark) = marks.blocks.get_mut(index(block)) {
            *mark = Some(hash);
        }
        marks.arrived += 1;
        self.changed.notify_all();
        Ok(())
    }

    /// Forget every block: the next pass fetches them all.
    pub(super) fn forget_all(&self) {
        let mut marks = self.marks();
        marks.blocks.fill(None);
        marks.stopped = false;
    }

    /// End the threads that follow. What they wait for will not come in this run.
    pub(super) fn stop(&self) {
        self.marks().stopped = true;
        self.changed.notify_all();
    }

    /// Follow the download and answer with the SHA-256 of the whole, or `None` when it was stopped before the end. `hurt`
    /// learns of blocks whose bytes on the disk are not those that came.
    pub(super) fn follow(&self, hurt: &dyn Fn(u64)) -> io::Result<Option<String>> {
        let mut sha = Sha256::new();
        let mut buffer = vec![0; usize::try_from(BLOCK.min(self.size)).unwrap_or_default()];
        let mut block = 0;
        while block < block_count(self.size) {
            let Some(expected) = self.wait_for(block) else { return Ok(None) };
            let range = block_bytes(block, self.size);
            let bytes = &mut buffer[..index(range.end - range.start)];
            positioned::read_exact(&self.file, bytes, range.start)?;
            if XxHash3_64::oneshot(bytes) == expected {
                sha.update(&*bytes);
                block += 1;
            } else {
                self.marks().blocks[index(block)] = None;
                hurt(block);
            }
        }
        Ok(Some(hex(&sha.finalize())))
    }

    /// The fast hash of a block as soon as it is there.
    fn wait_for(&self, block: u64) -> Option<u64> {
        let mut marks = self.marks();
        loop {
            if marks.stopped {
                return None;
            }
            if let Some(hash) = marks.blocks[index(block)] {
                return Some(hash);
            }
            marks = self.changed.wait(marks).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Keep bringing to the disk what has come.
    pub(super) fn flush_along(&self) {
        let mut flushed = 0;
        loop {
            {
                let mut marks = self.marks();
                while !marks.stopped && marks.arrived < flushed + FLUSH {
                    marks = self.changed.wait(marks).unwrap_or_else(PoisonError::into_inner);
                }
                if marks.stopped {
                    return;
                }
                flushed = marks.arrived;
            }
            // What could not be written shows when the whole is synced.
            let _ = self.file.sync_data();
        }
    }

    /// All of it on the disk.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.file.sync_all()
    }

    fn marks(&self) -> MutexGuard<'_, Marks> {
        self.marks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place in memory; what is counted here was allocated or read from a file that exists.
fn index(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(64), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Reading and writing at a place, from many threads at once.
mod positioned {
    use std::fs::File;
    use std::io;

    #[cfg(unix)]
    pub(super) fn write_all(file: &File, bytes: &[u8], at: u64) -> io::Result<()> {
        std::os::unix::fs::FileExt::write_all_at(file, bytes, at)
    }

    #[cfg(unix)]
    pub(super) fn read_exact(file: &File, bytes: &mut [u8], at: u64) -> io::Result<()> {
        std::os::unix::fs::FileExt::read_exact_at(file, bytes, at)
    }

    #[cfg(windows)]
    pub(super) fn write_all(file: &File, mut bytes: &[u8], mut at: u64) -> io::Result<()> {
        while !bytes.is_empty() {
            let n = std::os::windows::fs::FileExt::seek_write(file, bytes, at)?;
            (bytes, at) = (&bytes[n..], at + n as u64);
        }
        Ok(())
    }

    #[cfg(windows)]
    pub(super) fn read_exact(file: &File, mut bytes: &mut [u8], mut at: u64) -> io::Result<()> {
        while !bytes.is_empty() {
            let n = std::os::windows::fs::FileExt::seek_read(file, bytes, at)?;
            if n == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            (bytes, at) = (&mut bytes[n..], at + n as u64);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::thread;

    use super::*;
    use crate::model::name::{RepoId, RepoPath};
    use crate::model::store::{Journal, JournalHead};

    /// Two blocks and five bytes.
    fn bytes() -> Vec<u8> {
        (0..2 * BLOCK + 5).map(|n| u8::try_from(n % 251).unwrap()).collect()
    }

    fn block(bytes: &[u8], block: u64) -> &[u8] {
        let range = block_bytes(block, bytes.len() as u64);
        &bytes[index(range.start)..index(range.end)]
    }

    fn sha256(bytes: &[u8]) -> String {
        hex(&Sha256::digest(bytes))
    }

    /// A part file of which the disk holds `written` and an earlier run noted the hashes of `known`.
    fn part(folder: &std::path::Path, written: &[u8], known: &[u64]) -> Part {
        let path = folder.join("part");
        std::fs::write(&path, written).unwrap();
        let file = File::options().read(true).write(true).open(path).unwrap();
        let head = JournalHead {
            repo: RepoId::parse("org/name").unwrap(),
            commit: "a".repeat(40),
            path: RepoPath::parse("m.gguf").unwrap(),
            etag: "b".repeat(64),
            size: bytes().len() as u64,
            block: BLOCK,
        };
        let journal = Journal::open(&folder.join("journal"), &head).unwrap().writer;
        let all = bytes();
        let hash = |n| known.contains(&n).then(|| XxHash3_64::oneshot(block(&all, n)));
        Part::new(file, all.len() as u64, journal, hash).unwrap()
    }

    fn come(part: &Part, bytes: &[u8], n: u64) {
        part.write(block(bytes, n), n * BLOCK).unwrap();
        part.mark(n, XxHash3_64::oneshot(block(bytes, n))).unwrap();
    }

    #[test]
    fn blocks_are_followed_in_whatever_order_they_come() {
        let (folder, all) = (tempfile::tempdir().unwrap(), bytes());
        let part = part(folder.path(), &[], &[]);
        assert_eq!((part.size(), part.bytes(), part.has(0)), (2 * BLOCK + 5, 0, false));
        let sha = thread::scope(|scope| {
            let sha = scope.spawn(|| part.follow(&|block| panic!("block {block} is hurt")));
            for n in [2, 0, 1] {
                come(&part, &all, n);
            }
            sha.join().unwrap().unwrap()
        });
        assert_eq!(sha, Some(sha256(&all)));
        assert_eq!((part.bytes(), part.has(2), part.has(3)), (2 * BLOCK + 5, true, false));
        assert_eq!(Journal::read(&folder.path().join("journal")).unwrap().done, 2 * BLOCK + 5);
    }

    #[test]
    fn what_an_earlier_run_left_is_read_and_not_trusted() {
        let (folder, all) = (tempfile::tempdir().unwrap(), bytes());
        let mut hurt = all.clone();
        hurt[index(BLOCK)] ^= 1;
        let part = part(folder.path(), &hurt, &[0, 1, 2]);
        assert_eq!(part.bytes(), 2 * BLOCK + 5);
        let told = Mutex::new(Vec::new());
        let sha = part.follow(&|n| {
            told.lock().unwrap().push((n, part.has(n), part.bytes()));
            come(&part, &all, n);
        });
        assert_eq!(sha.unwrap(), Some(sha256(&all)));
        assert_eq!(told.into_inner().unwrap(), [(1, false, BLOCK + 5)]);
    }

    #[test]
    fn a_file_that_was_cut_has_its_size_again_and_lacks_its_end() {
        let (folder, all) = (tempfile::tempdir().unwrap(), bytes());
        let part = part(folder.path(), &all[..index(BLOCK) + 7], &[0, 1, 2]);
        let told = Mutex::new(Vec::new());
        let sha = part.follow(&|n| {
            told.lock().unwrap().push(n);
            come(&part, &all, n);
        });
        assert_eq!((sha.unwrap(), told.into_inner().unwrap()), (Some(sha256(&all)), vec![1, 2]));
    }

    #[test]
    fn who_follows_and_who_flushes_can_be_stopped() {
        let folder = tempfile::tempdir().unwrap();
        let part = part(folder.path(), &bytes(), &[0]);
        thread::scope(|scope| {
            let follower = scope.spawn(|| part.follow(&|block| panic!("block {block} is hurt")));
            let flusher = scope.spawn(|| part.flush_along());
            part.stop();
            assert_eq!(follower.join().unwrap().unwrap(), None);
            flusher.join().unwrap();
        });
        part.forget_all();
        assert_eq!((part.bytes(), part.has(0)), (0, false));
    }
}
