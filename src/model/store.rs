//! What lies where on this disk: the hub's cache, shared with other tools, and the folder of models made here.
//!
//! The cache is laid out as Python's `huggingface_hub` lays it, so that neither tool downloads what the other has:
//!
//! ```text
//! models--org--name/blobs/<sha256>                     the bytes of a file
//! models--org--name/blobs/<sha256>.infer-part          a download of ours in progress, and its journal `….json`
//! models--org--name/snapshots/<commit>/<path>          a link to ../../blobs/<sha256>: a pointer
//! models--org--name/refs/<revision>                    the commit that a branch or tag was last seen at
//! .locks/models--org--name/<sha256>.lock               held by who downloads that file
//! blobs/<..>/<xet hash>                                where Python may keep the bytes of several repositories' blobs
//! ```

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use tempfile::TempPath;

use crate::error::{Error, Result};
use crate::model::name::{RepoId, RepoPath, is_commit, is_sha256};

mod cached;
mod journal;
mod list;
mod lock;
mod publish;
mod remove;
mod shared;
mod walk;

pub(crate) use journal::{Journal, JournalHead, JournalWriter, Partial, StartedOver};
pub(crate) use list::{Held, Listing, Loose, LooseKind, PartialFile, Place};
pub(crate) use remove::{Removal, Target};

/// The two folders that hold models.
#[derive(Debug, Clone)]
pub(crate) struct Store {
    hub: PathBuf,
    ours: PathBuf,
}

/// Where the bytes of one file lie, or are to lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Slot {
    /// The whole file, verified.
    pub(crate) blob: PathBuf,
    /// What has been downloaded of it.
    pub(crate) part: PathBuf,
    pub(crate) journal: PathBuf,
    pub(crate) lock: PathBuf,
}

const PART: &str = ".infer-part";
const JOURNAL: &str = ".infer-part.json";

impl Store {
    /// The hub's cache, and the folder of models that this program made.
    pub(crate) fn new(hub_cache: PathBuf, ours: PathBuf) -> Self {
        Self { hub: hub_cache, ours }
    }

    pub(crate) fn hub_cache(&self) -> &Path {
        &self.hub
    }

    pub(crate) fn ours(&self) -> &Path {
        &self.ours
    }

    /// The folder of a repository. The hub does not tell letter case apart, so one that is there is used as it is written.
    pub(crate) fn repo_folder(&self, repo: &RepoId) -> PathBuf {
        let name = format!("models--{}--{}", repo.org(), repo.name());
        let folder = self.hub.join(&name);
        if folder.is_dir() {
            return folder;
        }
        let entries = fs::read_dir(&self.hub).into_iter().flatten().flatten();
        let alike = entries.map(|e| e.file_name()).filter(|other| other.eq_ignore_ascii_case(&name)).min();
        alike.map_or(folder, |other| self.hub.join(other))
    }

    /// Where the bytes with this hash lie in the repository.
    pub(crate) fn slot(&self, repo: &RepoId, sha256: &str) -> Result<Slot> {
        if !is_sha256(sha256) {
            return Err(Error::failed(format!("not a sha256: `{}`", sha256.escape_debug())));
        }
        Ok(self.slot_in(&self.repo_folder(repo), sha256))
    }

    fn slot_in(&self, repo_folder: &Path, sha256: &str) -> Slot {
        let blobs = repo_folder.join("blobs");
        Slot {
            blob: blobs.join(sha256),
            part: blobs.join(format!("{sha256}{PART}")),
            journal: blobs.join(format!("{sha256}{JOURNAL}")),
            lock: self.locks_of(repo_folder).join(format!("{sha256}.lock")),
        }
    }

    /// The folder of the locks of a repository.
    fn locks_of(&self, repo_folder: &Path) -> PathBuf {
        self.hub.join(".locks").join(repo_folder.file_name().unwrap_or_default())
    }

    /// The path under which a file of a repository is found and loaded.
    pub(crate) fn pointer(&self, repo: &RepoId, commit: &str, path: &RepoPath) -> Result<PathBuf> {
        if !is_commit(commit) {
            return Err(Error::failed(format!("not a commit: `{}`", commit.escape_debug())));
        }
        Ok(join(&self.repo_folder(repo).join("snapshots").join(commit), &path.to_string()))
    }

    /// The model that was made here under this name.
    pub(crate) fn made_here_as(&self, name: &str) -> Option<PathBuf> {
        let file = format!("{name}.gguf");
        let path = self.ours.join(RepoPath::parse(&file)?.as_str());
        (!file.contains('/') && path.is_file()).then_some(path)
    }

    /// Remove what has been downloaded of a file. The lock must be held.
    pub(crate) fn discard(slot: &Slot) -> Result<()> {
        for path in [&slot.part, &slot.journal] {
            match fs::remove_file(path) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(cannot("remove", path, &e)),
                _ => {}
            }
        }
        Ok(())
    }

    /// Remove what has been downloaded of a file that came whole in another way, unless somebody is at it.
    pub(crate) fn drop_partial(slot: &Slot) {
        if !slot.part.exists() && !slot.journal.exists() {
            return;
        }
        if let Ok(Some(_lock)) = lock::try_lock(&slot.lock) {
            // It is only in the way.
            let _ = Self::discard(slot);
        }
    }

    /// The bytes free for `path`, which need not exist yet.
    pub(crate) fn free_space(path: &Path) -> Result<u64> {
        let there = path.ancestors().find(|folder| folder.exists());
        // A relative path ends in the empty one, which is here.
        let there = there.filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        fs4::available_space(there).map_err(|e| cannot("see the free space of", there, &e))
    }

    /// Make a folder in the cache, and the cache.
    fn create(&self, folder: &Path) -> Result<()> {
        fs::create_dir_all(&self.hub).map_err(|e| cannot("create", &self.hub, &e))?;
        // Looked at before, so that nothing is made elsewhere either.
        self.stays_inside(folder.ancestors().find(|folder| folder.exists()).unwrap_or(folder))?;
        fs::create_dir_all(folder).map_err(|e| cannot("create", folder, &e))?;
        self.stays_inside(folder)
    }

    /// That a folder lies where its path says: no link leads it out of the cache. The cache itself may be one.
    fn stays_inside(&self, folder: &Path) -> Result<()> {
        let real = |path: &Path| fs::canonicalize(path).map_err(|e| cannot("open", path, &e));
        if real(folder)?.starts_with(real(&self.hub)?) {
            return Ok(());
        }
        Err(Error::failed(format!("`{}` leads out of the cache through a link", folder.display()))
            .hint("set HF_HUB_CACHE to a cache that is a folder of its own"))
    }
}

/// A path below `folder` from one that the hub writes with `/`.
fn join(folder: &Path, path: &str) -> PathBuf {
    let mut whole = folder.to_owned();
    whole.extend(path.split('/'));
    whole
}

fn cannot(act: &str, path: &Path, e: &io::Error) -> Error {
    let error = Error::failed(format!("cannot {act} `{}`: {e}", path.display()));
    match e.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            error.hint("set HF_HUB_CACHE to a folder that can be written")
        }
        _ => error,
    }
}

/// A temporary file in `folder`, as readable as the umask allows; a rename brings it to its place. It is written only
/// at its end.
fn temporary(folder: &Path, name: &str) -> io::Result<(File, TempPath)> {
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let prefix = format!("{name}.");
    Ok(builder.append(true).prefix(&prefix).suffix(".tmp").tempfile_in(folder)?.into_parts())
}

/// Open a file for reading and writing, or create it (then `true`); never through a link.
fn open_plain(path: &Path) -> io::Result<(File, bool)> {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    match options.clone().create_new(true).open(path) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
        created => return Ok((created?, true)),
    }
    // Nothing has been written when this turns out to be somebody else's file.
    let file = options.open(path)?;
    if is_at(&file, path)? {
        return Ok((file, false));
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a plain file"))
}

/// Whether an open file is the one that stands at `path` itself.
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let there = fs::symlink_metadata(path)?;
    Ok(there.is_file() && identity(&there) == identity(&file.metadata()?))
}

/// What two names of one file have in common.
#[cfg(unix)]
type Identity = (u64, u64);
/// What two names of one file have in common, nearly: the standard library knows no better here.
#[cfg(not(unix))]
type Identity = (u64, Option<std::time::SystemTime>);

#[cfg(unix)]
fn identity(metadata: &Metadata) -> Identity {
    use std::os::unix::fs::MetadataExt;
    (metadata.dev(), metadata.ino())
}

#[cfg(not(unix))]
fn identity(metadata: &Metadata) -> Identity {
    (metadata.len(), metadata.modified().ok())
}

#[cfg(test)]
mod tests;
