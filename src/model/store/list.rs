//! Everything that is held here: models, downloads that did not end, and what no model needs.

use std::collections::HashSet;
use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::cached::{is_gguf, modified};
use super::lock::is_held;
use super::walk::{Entry, Repo, Tree, children};
use super::{JOURNAL, Journal, PART, Partial, Store};
use crate::model::name::{RepoId, is_commit, is_sha256};
use crate::model::quant::{RemoteFile, Variant};

/// What a walk through both folders found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Listing {
    pub(crate) models: Vec<Held>,
    pub(crate) partials: Vec<PartialFile>,
    pub(crate) loose: Vec<Loose>,
}

/// A model that can be loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Held {
    /// `None` for one of ours.
    pub(crate) repo: Option<RepoId>,
    /// Its files, with their sizes.
    pub(crate) variant: Variant,
    /// The first file, to be loaded.
    pub(crate) path: PathBuf,
    pub(crate) size: u64,
    pub(crate) modified: SystemTime,
    /// The newest commit with these bytes.
    pub(crate) commit: Option<String>,
    /// The branches and tags at a commit with these bytes.
    pub(crate) refs: Vec<String>,
    pub(crate) place: Place,
}

/// Where a model lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    HubCache,
    Ours,
}

/// A download of ours that did not end, or has not yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PartialFile {
    pub(crate) repo: RepoId,
    pub(crate) sha256: String,
    pub(crate) part: PathBuf,
    /// The bytes that it takes here.
    pub(crate) on_disk: u64,
    /// Which file it is and how much of it is done; `None` where that is not known.
    pub(crate) journal: Option<Partial>,
    /// Somebody is at it now.
    pub(crate) busy: bool,
}

/// Something that no model needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Loose {
    pub(crate) repo: RepoId,
    pub(crate) what: LooseKind,
    pub(crate) path: PathBuf,
    pub(crate) size: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LooseKind {
    /// A blob that no snapshot points to.
    Orphan,
    /// A pointer to nothing.
    Dangling,
    /// The unfinished download of another tool.
    Incomplete,
    /// A GGUF file that is no model by itself.
    Sidecar,
    /// A temporary file of an interrupted program.
    Temporary,
}

/// How the GGUF files of one commit make models.
pub(crate) type Group<'a> = &'a dyn Fn(&[RemoteFile]) -> Vec<Variant>;

impl Store {
    /// Everything that is held here, by repository and path.
    pub(crate) fn list(&self, group: Group) -> Listing {
        let mut listing = Listing::default();
        for (id, folder) in self.repos() {
            let repo = Repo::read(&folder);
            models(&id, &repo, group, &mut listing);
            listing.partials.extend(self.partials_in(&id, &repo));
            listing.loose.extend(loose(&id, &repo));
        }
        listing.models.extend(self.made_here(group));
        listing
    }

    /// The downloads into a repository that did not end, or have not yet.
    pub(crate) fn partials(&self, repo: &RepoId) -> Vec<PartialFile> {
        self.partials_in(repo, &Repo::read(&self.repo_folder(repo)))
    }

    fn partials_in(&self, id: &RepoId, repo: &Repo) -> Vec<PartialFile> {
        let mut hashes: Vec<&str> = repo.blobs.iter().filter_map(|blob| partial_of(blob)).collect();
        hashes.sort_unstable();
        hashes.dedup();
        hashes.into_iter().map(|sha256| self.partial(id, repo, sha256)).collect()
    }

    fn partial(&self, id: &RepoId, repo: &Repo, sha256: &str) -> PartialFile {
        let slot = self.slot_in(&repo.folder, sha256);
        let bytes = fs::symlink_metadata(&slot.part).ok().filter(Metadata::is_file);
        let mut journal = Journal::read(&slot.journal).filter(|partial| partial.head.etag == sha256);
        if let (Some(partial), None) = (&mut journal, &bytes) {
            partial.done = 0;
        }
        PartialFile {
            repo: id.clone(),
            sha256: sha256.to_owned(),
            on_disk: bytes.as_ref().map_or(0, on_disk),
            journal,
            busy: is_held(&slot.lock),
            part: slot.part,
        }
    }

    /// The models in our own folder.
    fn made_here(&self, group: Group) -> Vec<Held> {
        let mut files: Vec<_> = children(&self.ours)
            .into_iter()
            .filter_map(|path| {
                let name = path.file_name()?.to_str().filter(|name| is_gguf(name))?.to_owned();
                let bytes = fs::metadata(&path).ok().filter(Metadata::is_file)?;
                Some((name, path, bytes))
            })
            .collect();
        files.sort_by(|(a, ..), (b, ..)| a.cmp(b));
        files
            .into_iter()
            .map(|(name, path, bytes)| {
                let file = RemoteFile { path: name, size: Some(bytes.len()) };
                let alone = Variant { label: None, files: vec![file.clone()], missing: Vec::new() };
                Held {
                    repo: None,
                    // Whatever its name looks like, it was made as a model.
                    variant: group(&[file]).pop().unwrap_or(alone),
                    path,
                    size: bytes.len(),
                    modified: modified(&bytes),
                    commit: None,
                    refs: Vec::new(),
                    place: Place::Ours,
                }
            })
            .collect()
    }
}

/// The models of a repository: each once, however many commits have the same bytes under the same names. A GGUF file
/// that belongs to none is a loose one.
fn models(id: &RepoId, repo: &Repo, group: Group, listing: &mut Listing) {
    let first = listing.models.len();
    let mut seen: Vec<Vec<(&str, &Path)>> = Vec::new();
    let mut sidecars = HashSet::new();
    for tree in &repo.snapshots {
        let refs = repo.refs.iter().filter(|r| r.commit == tree.commit).map(|r| r.name.clone());
        let readable: Vec<&Entry> = tree.entries.iter().filter(|entry| is_readable_gguf(entry)).collect();
        let files: Vec<RemoteFile> = readable.iter().map(|entry| remote(entry)).collect();
        let variants = group(&files);
        for entry in &readable {
            let grouped = variants.iter().flat_map(|v| &v.files).any(|file| file.path == entry.path);
            if !grouped && sidecars.insert(entry.bytes_at()) {
                listing.loose.push(entry.loose(id, LooseKind::Sidecar));
            }
        }
        for variant in variants {
            let of = |file: &RemoteFile| readable.iter().copied().find(|entry| entry.path == file.path);
            let entries: Vec<&Entry> = variant.files.iter().filter_map(of).collect();
            let key: Vec<_> = entries.iter().map(|entry| (entry.path.as_str(), entry.bytes_at())).collect();
            if let Some(at) = seen.iter().position(|other| *other == key) {
                listing.models[first + at].refs.extend(refs.clone());
            } else if let Some(held) = held(id, tree, variant, &entries, refs.clone().collect()) {
                seen.push(key);
                listing.models.push(held);
            }
        }
    }
}

fn held(id: &RepoId, tree: &Tree, variant: Variant, entries: &[&Entry], refs: Vec<String>) -> Option<Held> {
    let bytes = || entries.iter().filter_map(|entry| entry.bytes.as_ref());
    Some(Held {
        repo: Some(id.clone()),
        variant,
        path: entries.first()?.file.clone(),
        size: bytes().map(Metadata::len).sum(),
        modified: bytes().map(modified).max()?,
        commit: Some(tree.commit.clone()),
        refs,
        place: Place::HubCache,
    })
}

fn remote(entry: &Entry) -> RemoteFile {
    RemoteFile { path: entry.path.clone(), size: entry.bytes.as_ref().map(Metadata::len) }
}

fn is_readable_gguf(entry: &Entry) -> bool {
    is_gguf(&entry.path) && entry.bytes.as_ref().is_some_and(Metadata::is_file)
}

impl Entry {
    /// Where its bytes lie in this repository.
    fn bytes_at(&self) -> &Path {
        self.blob.as_ref().unwrap_or(&self.file)
    }

    fn loose(&self, id: &RepoId, what: LooseKind) -> Loose {
        let size = self.bytes.as_ref().map_or(0, Metadata::len);
        Loose { repo: id.clone(), what, path: self.file.clone(), size }
    }
}

/// Pointers to nothing, and what lies among the blobs without being needed.
fn loose(id: &RepoId, repo: &Repo) -> Vec<Loose> {
    let entries = || repo.snapshots.iter().flat_map(|tree| &tree.entries);
    let dangling = entries().filter(|entry| entry.bytes.is_none());
    let mut found: Vec<Loose> = dangling.map(|entry| entry.loose(id, LooseKind::Dangling)).collect();
    let used: HashSet<&Path> = entries().filter_map(|entry| entry.blob.as_deref()).collect();
    for blob in &repo.blobs {
        let Some(what) = kind_of(blob).filter(|_| !used.contains(blob.as_path())) else { continue };
        let size = fs::metadata(blob).map_or(0, |bytes| bytes.len());
        found.push(Loose { repo: id.clone(), what, path: blob.clone(), size });
    }
    found
}

/// What something among the blobs is when no pointer leads to it; `None` for what is accounted for elsewhere.
fn kind_of(blob: &Path) -> Option<LooseKind> {
    let name = blob.file_name()?.to_str()?;
    if name.starts_with('.') || partial_of(blob).is_some() {
        None
    } else if name.ends_with(".incomplete") {
        Some(LooseKind::Incomplete)
    } else if is_commit(name) || is_sha256(name) {
        Some(LooseKind::Orphan)
    } else {
        Some(LooseKind::Temporary)
    }
}

/// The hash of which this is the part file or the journal.
pub(super) fn partial_of(blob: &Path) -> Option<&str> {
    let name = blob.file_name()?.to_str()?;
    let hash = name.strip_suffix(PART).or_else(|| name.strip_suffix(JOURNAL))?;
    Some(hash).filter(|hash| is_sha256(hash))
}

/// The bytes that a file with holes takes.
#[cfg(unix)]
pub(super) fn on_disk(metadata: &Metadata) -> u64 {
    use std::os::unix::fs::MetadataExt;
    metadata.blocks() * 512
}

#[cfg(not(unix))]
pub(super) fn on_disk(metadata: &Metadata) -> u64 {
    metadata.len()
}
