//! One process at a time on a conversation.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use super::journal::{cannot, is_at, temporary};
use crate::error::Result;

/// The file of a conversation, for this process alone until it is dropped. The system takes the claim from a process
/// that ends in any other way.
#[derive(Debug)]
pub(crate) struct Claim {
    /// Where the conversation lies, behind a link if there is one.
    pub(super) path: PathBuf,
    /// The path that was asked for.
    given: PathBuf,
    is_exclusive: bool,
    /// A file of its own is locked: the conversation's is replaced by a new one now and then.
    lock: File,
}

impl Claim {
    /// Claim the conversation at `path`, which need not exist; `None` while another process has it. A file system that
    /// cannot lock is gone on with, see [`Self::is_exclusive`].
    pub(crate) fn take(path: &Path) -> Result<Option<Self>> {
        Self::take_with(path, File::try_lock)
    }

    fn take_with(
        given: &Path,
        try_lock: impl Fn(&File) -> std::result::Result<(), TryLockError>,
    ) -> Result<Option<Self>> {
        let path = behind_link(given);
        let at = lock_path(&path);
        loop {
            let lock = open(&at).map_err(|e| cannot("write", &at, &e))?;
            let locked = try_lock(&lock);
            if matches!(locked, Err(TryLockError::WouldBlock)) {
                return Ok(None);
            }
            // Who gives a claim up removes the lock: then this one keeps nobody out.
            if is_at(&lock, &at) {
                let is_exclusive = locked.is_ok();
                return Ok(Some(Self { path, given: given.to_owned(), is_exclusive, lock }));
            }
        }
    }

    /// Does it keep others out? Not on a file system that cannot lock.
    pub(crate) fn is_exclusive(&self) -> bool {
        self.is_exclusive
    }

    /// Remove the conversation, or the link to it.
    pub(crate) fn remove(self) -> Result<()> {
        // It is there only when a process was killed at the wrong moment.
        let _ = fs::remove_file(temporary(&self.path));
        fs::remove_file(&self.given).map_err(|e| cannot("remove", &self.given, &e))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let at = lock_path(&self.path);
        let is_ours = is_at(&self.lock, &at) && self.lock.metadata().is_ok_and(|about| about.len() == 0);
        if is_ours {
            // A file that stays keeps nobody out.
            let _ = fs::remove_file(at);
        }
    }
}

/// What a link leads to, also where there is no file yet.
fn behind_link(path: &Path) -> PathBuf {
    let first = fs::read_link(path).map(|target| path.parent().map_or(target.clone(), |p| p.join(&target)));
    let Ok(first) = first else { return path.to_owned() };
    fs::canonicalize(path).unwrap_or(first)
}

fn lock_path(path: &Path) -> PathBuf {
    beside(path, ".infer")
}

/// A hidden file of ours beside a conversation, which may lie anywhere and among anything. Its whole name is in it, so that
/// no two share one; the ending is short, so that with the longest name of a session it is still a name of a file.
pub(super) fn beside(path: &Path, ending: &str) -> PathBuf {
    let name = path.file_name().unwrap_or_default();
    path.with_file_name([OsStr::new("."), name, OsStr::new(ending)].iter().copied().collect::<OsString>())
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
        fs::write(folder.path().join(".a.jsonl.infer"), "").unwrap();
        let first = Claim::take(&path).unwrap();
        assert!(first.is_some() && Claim::take(&path).unwrap().is_none());
        drop(first);
        assert!(Claim::take(&path).unwrap().is_some());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left");
    }

    #[test]
    fn a_file_system_that_cannot_lock_is_gone_on_with_and_known() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.jsonl");
        assert!(Claim::take(&path).unwrap().unwrap().is_exclusive());
        let unsupported = |_: &File| Err(TryLockError::Error(io::ErrorKind::Unsupported.into()));
        assert!(!Claim::take_with(&path, unsupported).unwrap().unwrap().is_exclusive());
    }

    #[test]
    #[cfg(unix)]
    fn a_link_stands_for_the_file_that_it_leads_to() {
        use std::os::unix::fs::symlink;
        let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let [one, other] = ["a.jsonl", "b.jsonl"].map(|name| folder.path().join(name));
        let target = elsewhere.path().join("c.jsonl");
        for link in [&one, &other] {
            symlink(&target, link).unwrap();
        }
        for exists in [false, true] {
            let claim = Claim::take(&one).unwrap().unwrap();
            assert_eq!(fs::canonicalize(&claim.path).ok().as_deref(), exists.then_some(&*claim.path));
            assert!(Claim::take(&other).unwrap().is_none() && Claim::take(&target).unwrap().is_none());
            fs::write(&target, "x").unwrap();
        }
        Claim::take(&one).unwrap().unwrap().remove().unwrap();
        assert!(!one.is_symlink() && target.exists(), "the link goes, what it leads to stays");
    }

    #[test]
    #[cfg(unix)]
    fn what_others_keep_beside_the_file_behind_a_link_stays_and_is_no_lock() {
        let (folder, theirs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let beside = ["flake.lock", "flake.tmp", "flake.nix"].map(|name| theirs.path().join(name));
        for file in &beside {
            fs::write(file, "precious").unwrap();
        }
        let claims = ["flake.jsonl", "flake.txt"].map(|name| {
            let link = folder.path().join(name);
            std::os::unix::fs::symlink(theirs.path().join(name), &link).unwrap();
            Claim::take(&link).unwrap().expect("one for each file, also of one stem")
        });
        for claim in claims {
            claim.remove().unwrap();
        }
        for file in &beside {
            assert_eq!(fs::read_to_string(file).unwrap(), "precious");
        }
        assert_eq!(fs::read_dir(theirs.path()).unwrap().count(), beside.len());
    }

    #[test]
    fn of_locks_only_its_own_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let (path, lock) = (folder.path().join("a.jsonl"), folder.path().join(".a.jsonl.infer"));
        fs::write(&lock, "not ours").unwrap();
        drop(Claim::take(&path).unwrap().unwrap());
        assert_eq!(fs::read_to_string(&lock).unwrap(), "not ours");
        let claim = Claim::take(&path).unwrap();
        fs::remove_file(&lock).unwrap();
        fs::write(&lock, "").unwrap();
        drop(claim);
        assert!(lock.exists(), "that of another process by now");
    }

    #[test]
    fn the_longest_name_of_a_session_has_room_for_what_lies_beside_it() {
        let path = PathBuf::from(format!("{}.jsonl", "\u{10400}".repeat(60)));
        for beside in [lock_path(&path), temporary(&path)] {
            assert!(beside.as_os_str().len() <= 255, "{}", beside.display());
        }
    }

    #[test]
    fn removing_takes_also_what_a_killed_process_left() {
        let folder = tempfile::tempdir().unwrap();
        for file in ["a.jsonl", ".a.jsonl.infer~", "b.jsonl"] {
            fs::write(folder.path().join(file), "damaged").unwrap();
        }
        Claim::take(&folder.path().join("a.jsonl")).unwrap().unwrap().remove().unwrap();
        let left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(left, ["b.jsonl"]);
    }
}
