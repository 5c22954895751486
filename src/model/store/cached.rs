//! What of one repository is here: answered without looking at any other.

use std::fs::{self, File};
use std::path::PathBuf;
use std::time::SystemTime;

use super::Store;
use super::walk::{self, commit_of, files_below};
use crate::model::name::{RepoId, RepoPath, Revision};
use crate::model::quant::RemoteFile;

/// The GGUF files of one commit that can be read here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Snapshot {
    pub(crate) commit: String,
    pub(crate) folder: PathBuf,
    /// By path in the repository.
    pub(crate) files: Vec<RemoteFile>,
}

impl Store {
    /// The snapshots of a repository: the one that `main` was last seen at, then the others, newest first. With a
    /// revision only that one's. Pointers to nothing are left out.
    pub(crate) fn cached(&self, repo: &RepoId, revision: Option<&Revision>) -> Vec<Snapshot> {
        let folder = self.repo_folder(repo);
        let commits = match revision {
            Some(revision) => commit_of(&folder, &revision.to_string()).into_iter().collect(),
            None => walk::commits(&folder),
        };
        let snapshots = folder.join("snapshots");
        let there = commits.into_iter().map(|commit| (snapshots.join(&commit), commit));
        there
            .filter(|(folder, _)| folder.is_dir())
            .map(|(folder, commit)| Snapshot { commit, files: gguf_files(&folder), folder })
            .collect()
    }

    /// Whether the bytes with this hash are here, whole.
    pub(crate) fn has(&self, repo: &RepoId, sha256: &str, size: u64) -> bool {
        let blob = self.slot(repo, sha256).ok().and_then(|slot| fs::metadata(slot.blob).ok());
        blob.is_some_and(|blob| blob.is_file() && blob.len() == size)
    }

    /// The file itself, where a pointer (or, without links, the file in its place) has the right size.
    pub(crate) fn pointed(&self, repo: &RepoId, commit: &str, path: &RepoPath, size: u64) -> Option<PathBuf> {
        let pointer = self.pointer(repo, commit, path).ok()?;
        let file = fs::metadata(&pointer).ok()?;
        (file.is_file() && file.len() == size).then_some(pointer)
    }
}

fn gguf_files(snapshot: &std::path::Path) -> Vec<RemoteFile> {
    let files = files_below(snapshot).into_iter().filter(|(path, _)| is_gguf(path));
    files
        .filter_map(|(path, file)| {
            // Not opened before it is known to be a file: a pipe would wait for its other end.
            let size = fs::metadata(&file).ok().filter(std::fs::Metadata::is_file)?.len();
            File::open(&file).ok()?;
            Some(RemoteFile { path, size: Some(size) })
        })
        .collect()
}

/// Whether a path in a repository is one of a GGUF file, and may be one here.
pub(super) fn is_gguf(path: &str) -> bool {
    let is = path.rsplit_once('.').is_some_and(|(_, ending)| ending.eq_ignore_ascii_case("gguf"));
    is && RepoPath::parse(path).is_some()
}

/// When a file or folder was last changed; long ago where that is not known.
pub(super) fn modified(metadata: &fs::Metadata) -> SystemTime {
    metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH)
}
