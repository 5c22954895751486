//! One download of a file at a time, also against other tools: the lock files of Python's `huggingface_hub`.
//!
//! The lock is a courtesy, the hash is the truth: a file system that cannot lock is gone on with. Like there, the
//! file stays behind.

use std::fs::{File, TryLockError};
use std::io;
use std::ops::ControlFlow;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use super::{Store, cannot, is_at, open_plain};
use crate::error::Result;
use crate::model::name::RepoId;

const POLL: Duration = Duration::from_millis(100);

/// A lock held until it is dropped.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

impl Store {
    /// Lock the file with this hash. While another holds it, `waiting` hears for how long; `None` when that breaks off.
    pub(crate) fn lock(
        &self,
        repo: &RepoId,
        sha256: &str,
        waiting: &mut dyn FnMut(Duration) -> ControlFlow<()>,
    ) -> Result<Option<Lock>> {
        let path = self.slot(repo, sha256)?.lock;
        self.create(path.parent().unwrap_or(&self.hub))?;
        let start = Instant::now();
        loop {
            match try_lock(&path).map_err(|e| cannot("lock", &path, &e))? {
                Some(lock) => return Ok(Some(lock)),
                None if waiting(start.elapsed()).is_break() => return Ok(None),
                None => thread::sleep(POLL),
            }
        }
    }
}

/// The lock, or `None` while another holds it.
pub(super) fn try_lock(path: &Path) -> io::Result<Option<Lock>> {
    loop {
        let file = open(path)?;
        if is_contended(&file) {
            return Ok(None);
        }
        // Who removes a model removes its lock: then this one keeps nobody out.
        if is_at(&file, path).unwrap_or(false) {
            return Ok(Some(Lock { _file: file }));
        }
    }
}

/// Whether another holds the lock now. Nothing is created to find out.
pub(super) fn is_held(path: &Path) -> bool {
    File::open(path).is_ok_and(|file| is_contended(&file))
}

fn is_contended(file: &File) -> bool {
    match file.try_lock() {
        Ok(()) => false,
        Err(TryLockError::WouldBlock) => true,
        // Some file systems say so when they mean the above; every other error is that of one that cannot lock.
        Err(TryLockError::Error(e)) => e.kind() == io::ErrorKind::PermissionDenied,
    }
}

fn open(path: &Path) -> io::Result<File> {
    match open_plain(path) {
        Ok((file, created)) => {
            #[cfg(unix)]
            if created {
                // As Python does, so that others who share the cache can wait too.
                let _ = file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o664));
            }
            let _ = created;
            Ok(file)
        }
        // Another person's lock file: reading is enough to wait for it.
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => File::open(path),
        Err(e) => Err(e),
    }
}
