//! One process at a time on a conversation.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use super::journal::{cannot, is_at, temporary};
use crate::error::Result;

/// The file of a conversation, for this process alone until it is dropped. The system takes the claim from a process
/// that ends in any other way.
#[derive(Debug)]
pub(crate) struct Claim {
    pub(super) path: PathBuf,
    /// A file of its own is locked: the conversation's is replaced by a new one now and then.
    _lock: File,
}

impl Claim {
    /// Claim the conversation at `path`, which need not exist; `None` while another process has it. A file system that
    /// cannot lock is gone on with.
    pub(crate) fn take(path: &Path) -> Result<Option<Self>> {
        let at = lock_path(path);
        loop {
            let lock = open(&at).map_err(|e| cannot("write", &at, &e))?;
            if matches!(lock.try_lock(), Err(TryLockError::WouldBlock)) {
                return Ok(None);
            }
            // Who gives a claim up removes the lock: then this one keeps nobody out.
            if is_at(&lock, &at) {
                return Ok(Some(Self { path: path.to_owned(), _lock: lock }));
            }
        }
    }

    /// Remove the conversation.
    pub(crate) fn remove(self) -> Result<()> {
        // It is there only when a process was killed at the wrong moment.
        let _ = fs::remove_file(temporary(&self.path));
        fs::remove_file(&self.path).map_err(|e| cannot("remove", &self.path, &e))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // A file that stays keeps nobody out.
        let _ = fs::remove_file(lock_path(&self.path));
    }
}

fn lock_path(path: &Path) -> PathBuf {
    path.with_extension("lock")
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_claim_is_refused_until_the_first_is_given_up_and_a_stale_lock_keeps_nobody_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.jsonl");
        fs::write(folder.path().join("a.lock"), "").unwrap();
        let first = Claim::take(&path).unwrap();
        assert!(first.is_some() && Claim::take(&path).unwrap().is_none());
        drop(first);
        assert!(Claim::take(&path).unwrap().is_some());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left");
    }

    #[test]
    fn removing_takes_also_what_a_killed_process_left() {
        let folder = tempfile::tempdir().unwrap();
        for file in ["a.jsonl", "a.tmp", "b.jsonl"] {
            fs::write(folder.path().join(file), "damaged").unwrap();
        }
        Claim::take(&folder.path().join("a.jsonl")).unwrap().unwrap().remove().unwrap();
        let left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(left, ["b.jsonl"]);
    }
}
