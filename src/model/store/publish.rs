//! From a verified part file to a file that everybody finds: blob, pointer, ref. Each step is whole or not at all, and
//! can be done again after a crash.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::{Slot, Store, cannot, identity, open_plain, temporary};
use crate::error::{Error, Result};
use crate::model::name::{RepoId, RepoPath, Revision};

const TAG: &str = "Signature: 8a477f597d28d172789f06886806bc55\n\
    # This file is a cache directory tag created by infer.\n\
    # For information about cache directory tags, see:\n\
    #\thttps://bford.info/cachedir/\n";

impl Store {
    /// Make the folders that a download into this repository needs, and refuse a cache that others can tamper with.
    pub(crate) fn prepare(&self, repo: &RepoId) -> Result<()> {
        self.create(&self.hub)?;
        #[cfg(unix)]
        self.refuse_foreign()?;
        let tag = self.hub.join("CACHEDIR.TAG");
        if !tag.exists() {
            // Only advice for backup programs.
            let _ = fs::write(tag, TAG);
        }
        let folder = self.repo_folder(repo);
        self.create(&folder.join("blobs"))?;
        // Python's scan calls a repository without it damaged.
        self.create(&folder.join("snapshots"))
    }

    /// Whoever can write into the cache can exchange what has been verified.
    #[cfg(unix)]
    fn refuse_foreign(&self) -> Result<()> {
        use std::os::unix::fs::MetadataExt;
        let there = fs::metadata(&self.hub).map_err(|e| cannot("open", &self.hub, &e))?;
        let mine = tempfile::tempfile_in(&self.hub).and_then(|file| file.metadata());
        let me = mine.map_err(|e| cannot("write into", &self.hub, &e))?.uid();
        if !is_foreign(there.uid(), me, there.mode()) {
            return Ok(());
        }
        Err(Error::failed(format!(
            "everybody can write into the cache `{}` of another user",
            self.hub.display()
        ))
        .hint("set HF_HUB_CACHE to a folder of your own"))
    }

    /// Open the part file, or create it; never through a link.
    pub(crate) fn open_part(&self, slot: &Slot) -> Result<File> {
        self.stays_inside(slot.part.parent().unwrap_or(&self.hub))?;
        open_plain(&slot.part).map(|(file, _)| file).map_err(|e| cannot("open", &slot.part, &e))
    }

    /// Make a part file that has been verified and synced the file at `path`: the file's path, to be loaded.
    pub(crate) fn publish(
        &self,
        repo: &RepoId,
        commit: &str,
        revision: Option<&Revision>,
        path: &RepoPath,
        sha256: &str,
    ) -> Result<PathBuf> {
        let slot = self.slot(repo, sha256)?;
        let blobs = slot.blob.parent().unwrap_or(&self.hub);
        self.stays_inside(blobs)?;
        let part = fs::symlink_metadata(&slot.part).map_err(|e| cannot("open", &slot.part, &e))?;
        if !part.is_file() {
            return Err(Error::failed(format!("`{}` is not a plain file", slot.part.display())));
        }
        // One of another size is not what its name says, and would be in the way for ever.
        if fs::metadata(&slot.blob).is_ok_and(|blob| blob.is_file() && blob.len() == part.len()) {
            fs::remove_file(&slot.part).map_err(|e| cannot("remove", &slot.part, &e))?;
        } else {
            fs::rename(&slot.part, &slot.blob).map_err(|e| cannot("write", &slot.blob, &e))?;
        }
        sync(blobs).map_err(|e| cannot("write", blobs, &e))?;
        let pointer = self.link(repo, commit, revision, path, sha256)?;
        match fs::remove_file(&slot.journal) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(cannot("remove", &slot.journal, &e)),
            _ => Ok(pointer),
        }
    }

    /// Make the blob that is here the file at `path`: the file's path, to be loaded.
    pub(crate) fn link(
        &self,
        repo: &RepoId,
        commit: &str,
        revision: Option<&Revision>,
        path: &RepoPath,
        sha256: &str,
    ) -> Result<PathBuf> {
        let slot = self.slot(repo, sha256)?;
        let pointer = self.pointer(repo, commit, path)?;
        let folder = pointer.parent().unwrap_or(&self.hub);
        self.create(folder)?;
        let ups = path.to_string().split('/').count() + 1;
        let target = format!("{}blobs/{sha256}", "../".repeat(ups));
        point(&slot.blob, &pointer, &target, &WAYS).map_err(|e| cannot("write", &pointer, &e))?;
        // Last, so that no ref ever names a snapshot that is not there.
        if let Some(revision) = revision.filter(|revision| !revision.is_commit()) {
            self.write_ref(repo, revision, commit)?;
        }
        Ok(pointer)
    }

    fn write_ref(&self, repo: &RepoId, revision: &Revision, commit: &str) -> Result<()> {
        let folder = self.repo_folder(repo);
        let file = super::join(&folder.join("refs"), &revision.to_string());
        if fs::read(&file).is_ok_and(|bytes| bytes == commit.as_bytes()) {
            return Ok(());
        }
        self.create(file.parent().unwrap_or(&folder))?;
        let write = || {
            // Not among the refs: everything there is read as one.
            let (mut temporary, path) = temporary(&folder.join("blobs"), "ref")?;
            temporary.write_all(commit.as_bytes())?;
            temporary.sync_all()?;
            Ok(path.persist(&file)?)
        };
        write().map_err(|e: io::Error| cannot("write", &file, &e))
    }
}

/// How a file gets its second name.
#[derive(Debug, Clone, Copy)]
pub(super) enum Way {
    Symlink,
    HardLink,
    /// No second name: the blob goes, which Python understands too.
    Move,
}

pub(super) const WAYS: [Way; 3] = [Way::Symlink, Way::HardLink, Way::Move];

/// Let `pointer` stand for `blob`, in the first way that the system can. What stood there before is replaced.
pub(super) fn point(blob: &Path, pointer: &Path, target: &str, ways: &[Way]) -> io::Result<()> {
    let bytes = match fs::metadata(blob) {
        // Moved there before.
        Err(e) if e.kind() == io::ErrorKind::NotFound && is_plain(pointer) => return Ok(()),
        bytes => bytes?,
    };
    if fs::metadata(pointer).is_ok_and(|there| identity(&there) == identity(&bytes)) {
        return Ok(());
    }
    let mut result = Err(io::ErrorKind::Unsupported.into());
    for way in ways {
        result = match way {
            Way::Symlink => replace(blob, pointer, |path| symlink(Path::new(target), path)),
            Way::HardLink => replace(blob, pointer, |path| fs::hard_link(blob, path)),
            Way::Move => fs::rename(blob, pointer),
        };
        if result.is_ok() {
            break;
        }
    }
    result
}

/// Make a link beside the blob and bring it to its place: what a crash leaves is not in anybody's snapshot.
fn replace(blob: &Path, pointer: &Path, make: impl FnMut(&Path) -> io::Result<()>) -> io::Result<()> {
    let folder = blob.parent().unwrap_or(Path::new("."));
    let link = tempfile::Builder::new().prefix("link.").suffix(".tmp").make_in(folder, make)?;
    Ok(link.into_temp_path().persist(pointer)?)
}

#[cfg(unix)]
fn symlink(target: &Path, link: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(target, link)
}

#[cfg(windows)]
fn symlink(target: &Path, link: &Path) -> io::Result<()> {
    // A link that Windows follows is written with its own separators.
    let target: PathBuf = target.components().collect();
    std::os::windows::fs::symlink_file(target, link)
}

fn is_plain(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file())
}

/// Put a folder's names onto the disk.
fn sync(folder: &Path) -> io::Result<()> {
    #[cfg(unix)]
    File::open(folder)?.sync_all()?;
    let _ = folder;
    Ok(())
}

/// Whether a cache is one that its owner (neither this user nor the system's) lets everybody write into.
pub(super) fn is_foreign(owner: u32, me: u32, mode: u32) -> bool {
    owner != me && owner != 0 && mode & 0o002 != 0
}
