//! One repository's folder as it is: snapshots, refs and blobs, and which belongs to which.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};

use super::cached::modified;
use super::{Identity, Store, identity};
use crate::model::name::{RepoId, Revision, is_commit};

/// The folder of a repository, read whole.
pub(super) struct Repo {
    pub(super) folder: PathBuf,
    /// The one of `main` first, then newest first.
    pub(super) snapshots: Vec<Tree>,
    pub(super) refs: Vec<Ref>,
    /// Whatever lies in `blobs/`, by name.
    pub(super) blobs: Vec<PathBuf>,
}

/// The pointers of one commit.
pub(super) struct Tree {
    pub(super) commit: String,
    pub(super) entries: Vec<Entry>,
}

/// A pointer.
pub(super) struct Entry {
    /// In the repository, with `/`.
    pub(super) path: String,
    pub(super) file: PathBuf,
    /// The blob of this repository that it stands for, whether that is there or not.
    pub(super) blob: Option<PathBuf>,
    /// Of the bytes; `None` for a link to nothing.
    pub(super) bytes: Option<Metadata>,
}

/// A branch or tag.
pub(super) struct Ref {
    pub(super) name: String,
    pub(super) file: PathBuf,
    pub(super) commit: String,
}

impl Repo {
    pub(super) fn read(folder: &Path) -> Self {
        let mut blobs: Vec<PathBuf> = children(&folder.join("blobs"));
        blobs.sort();
        let known = KnownBlobs::new(folder, &blobs);
        let tree = |commit: String| {
            let files = files_below(&folder.join("snapshots").join(&commit)).into_iter();
            Tree { entries: files.map(|(path, file)| known.entry(path, file)).collect(), commit }
        };
        let snapshots = commits(folder).into_iter().map(tree).collect();
        Self { folder: folder.to_owned(), snapshots, refs: refs(folder), blobs }
    }
}

/// The blobs of a repository, to tell which of them a pointer stands for.
struct KnownBlobs {
    folder: PathBuf,
    real: Option<PathBuf>,
    /// On systems without symbolic links a pointer is a hard link.
    by_identity: HashMap<Identity, PathBuf>,
}

impl KnownBlobs {
    fn new(repo_folder: &Path, blobs: &[PathBuf]) -> Self {
        let folder = repo_folder.join("blobs");
        let plain = |blob: &PathBuf| fs::symlink_metadata(blob).ok().filter(Metadata::is_file);
        let by_identity =
            blobs.iter().filter_map(|blob| Some((identity(&plain(blob)?), blob.clone()))).collect();
        Self { real: fs::canonicalize(&folder).ok(), folder, by_identity }
    }

    fn entry(&self, path: String, file: PathBuf) -> Entry {
        let bytes = fs::metadata(&file).ok();
        let blob = match fs::read_link(&file) {
            Ok(target) => self.target(&file, &target),
            Err(_) => bytes.as_ref().and_then(|bytes| self.by_identity.get(&identity(bytes)).cloned()),
        };
        Entry { path, file, blob, bytes }
    }

    /// The blob that a link leads to in one step; Python's blobs may be links themselves.
    fn target(&self, link: &Path, target: &Path) -> Option<PathBuf> {
        let target = link.parent()?.join(target);
        let folder = fs::canonicalize(target.parent()?).ok()?;
        (Some(&folder) == self.real.as_ref())
            .then(|| self.folder.join(target.file_name().unwrap_or_default()))
    }
}

impl Store {
    /// The repositories of models in the hub's cache, by folder name.
    pub(super) fn repos(&self) -> Vec<(RepoId, PathBuf)> {
        let mut repos: Vec<_> = children(&self.hub)
            .into_iter()
            .filter(|folder| folder.is_dir())
            .filter_map(|folder| {
                let (org, name) = folder.file_name()?.to_str()?.strip_prefix("models--")?.split_once("--")?;
                Some((RepoId::parse(&format!("{org}/{name}")).ok()?, folder))
            })
            .collect();
        repos.sort_by(|(_, a), (_, b)| a.cmp(b));
        repos
    }
}

/// The commits with a snapshot, that of `main` first, then newest first.
pub(super) fn commits(repo_folder: &Path) -> Vec<String> {
    let main = commit_of(repo_folder, "main");
    let mut found: Vec<_> = children(&repo_folder.join("snapshots"))
        .into_iter()
        .filter_map(|folder| {
            let commit = folder.file_name()?.to_str().filter(|name| is_commit(name))?.to_owned();
            let metadata = fs::metadata(&folder).ok().filter(Metadata::is_dir)?;
            Some((main.as_ref() != Some(&commit), Reverse(modified(&metadata)), commit))
        })
        .collect();
    found.sort();
    found.into_iter().map(|(_, _, commit)| commit).collect()
}

/// The commit that a revision stands for: itself, or what its ref says.
pub(super) fn commit_of(repo_folder: &Path, revision: &str) -> Option<String> {
    if is_commit(revision) {
        return Some(revision.to_owned());
    }
    let text = fs::read_to_string(super::join(&repo_folder.join("refs"), revision)).ok()?;
    Some(text.trim().to_owned()).filter(|commit| is_commit(commit))
}

fn refs(repo_folder: &Path) -> Vec<Ref> {
    let files = files_below(&repo_folder.join("refs")).into_iter();
    files
        .filter_map(|(name, file)| {
            let name = Revision::parse(&name).ok()?.to_string();
            Some(Ref { commit: commit_of(repo_folder, &name)?, name, file })
        })
        .collect()
}

/// Every entry below a folder that is no folder, with its path from there; links to folders are not entered.
pub(super) fn files_below(folder: &Path) -> Vec<(String, PathBuf)> {
    let mut found = Vec::new();
    gather(folder, "", &mut found);
    found.sort();
    found
}

fn gather(folder: &Path, prefix: &str, found: &mut Vec<(String, PathBuf)>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            gather(&entry.path(), &format!("{name}/"), found);
        } else {
            found.push((name, entry.path()));
        }
    }
}

/// What lies in a folder; nothing when it is not there.
pub(super) fn children(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}
