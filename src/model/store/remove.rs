//! Removing: first a plan, which only looks and can be shown; then exactly that. Only names in the two folders are ever
//! removed, never what a link leads to, except that a pointer takes the blob of its own repository along when no other
//! needs it.

use std::collections::{BTreeSet, HashSet};
use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};

use super::list::{on_disk, partial_of};
use super::lock::{Lock, is_held, try_lock};
use super::walk::{Entry, Repo, Tree, children, commit_of, files_below};
use super::{PartialFile, Store, cannot, identity, shared};
use crate::error::{Error, Kind, Result};
use crate::model::name::{RepoId, Revision};

/// What is to be removed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Target<'a> {
    /// A repository with everything in it.
    Repo(&'a RepoId),
    /// Files of a repository, in every commit or in that of one revision, with the downloads of them.
    Files { repo: &'a RepoId, revision: Option<&'a Revision>, paths: &'a [String] },
    /// A download that did not end.
    Partial { repo: &'a RepoId, sha256: &'a str },
    /// A file in our own folder.
    Ours(&'a Path),
}

/// What is removed, in this order, and how much room that makes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Removal {
    steps: Vec<Step>,
    /// Locks that must be free, and go too.
    locks: Vec<PathBuf>,
    /// Bytes that Python keeps for several repositories, to go if nobody needs them any more.
    shared: Vec<PathBuf>,
    /// Folders that go if nothing is left in them, the deepest first.
    folders: Vec<PathBuf>,
    bytes: u64,
    /// What a message calls it.
    name: String,
}

/// One name to be removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) what: What,
    pub(crate) path: PathBuf,
    /// The room that this makes.
    pub(crate) bytes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum What {
    Ref,
    Pointer,
    Blob,
    /// A part file or its journal.
    Partial,
    /// A model made here.
    Ours,
    /// Anything else in the folder of a repository that goes as a whole.
    Other,
}

impl Removal {
    pub(crate) fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The room that it makes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Store {
    /// What removing this comes to. Refuses what is not here and what is being downloaded.
    pub(crate) fn plan_removal(&self, target: Target) -> Result<Removal> {
        let plan = match target {
            Target::Ours(path) => return self.plan_ours(path),
            Target::Repo(repo) => self.plan_repo(repo, &self.folder_of(repo)?),
            Target::Files { repo, revision, paths } => {
                let folder = self.folder_of(repo)?;
                let commit = revision.map(|r| commit_of(&folder, &r.to_string()).ok_or_else(|| absent(repo)));
                self.plan_files(repo, &Repo::read(&folder), commit.transpose()?.as_deref(), paths)?
            }
            Target::Partial { repo, sha256 } => {
                let read = Repo::read(&self.folder_of(repo)?);
                self.finish(repo, &read, |blob| partial_of(blob) == Some(sha256), Vec::new())?
            }
        };
        if plan.locks.iter().any(|lock| is_held(lock)) {
            return Err(busy(&plan.name));
        }
        Ok(plan)
    }

    fn plan_ours(&self, path: &Path) -> Result<Removal> {
        let name = path.display().to_string();
        let metadata = fs::symlink_metadata(path).map_err(|e| cannot("remove", path, &e))?;
        if path.parent() != Some(&self.ours) || metadata.is_dir() {
            return Err(Error::failed(format!("`{name}` is no model of `{}`", self.ours.display())));
        }
        let bytes = if metadata.is_file() { metadata.len() } else { 0 };
        let steps = vec![Step { what: What::Ours, path: path.to_owned(), bytes }];
        Ok(Removal { steps, bytes, name, ..Removal::default() })
    }

    fn plan_files(
        &self,
        id: &RepoId,
        repo: &Repo,
        commit: Option<&str>,
        paths: &[String],
    ) -> Result<Removal> {
        let chosen = |tree: &Tree| commit.is_none_or(|commit| commit == tree.commit);
        let goes = |tree: &Tree, entry: &Entry| chosen(tree) && paths.contains(&entry.path);
        let mut steps = Vec::new();
        let emptied =
            |tree: &&Tree| !tree.entries.is_empty() && tree.entries.iter().all(|entry| goes(tree, entry));
        for tree in repo.snapshots.iter().filter(emptied) {
            let refs = repo.refs.iter().filter(|r| r.commit == tree.commit);
            steps.extend(refs.map(|r| Step { what: What::Ref, path: r.file.clone(), bytes: 0 }));
        }
        let (mut freed, mut kept) = (BTreeSet::new(), HashSet::new());
        for (tree, entry) in repo.snapshots.iter().flat_map(|t| t.entries.iter().map(move |e| (t, e))) {
            if goes(tree, entry) {
                // A file in a pointer's place is counted here, one with a blob at the blob.
                let own =
                    fs::symlink_metadata(&entry.file).ok().filter(|m| m.is_file() && entry.blob.is_none());
                let bytes = own.map_or(0, |metadata| metadata.len());
                steps.push(Step { what: What::Pointer, path: entry.file.clone(), bytes });
                freed.extend(entry.blob.as_deref());
            } else {
                kept.extend(entry.blob.as_deref());
            }
        }
        let partials: Vec<String> = self
            .partials(id)
            .into_iter()
            .filter(|partial| is_of(partial, commit, paths))
            .map(|partial| partial.sha256)
            .collect();
        let goes = |blob: &Path| {
            let part = partial_of(blob).is_some_and(|hash| partials.iter().any(|other| other == hash));
            part || (freed.contains(blob) && !kept.contains(blob))
        };
        self.finish(id, repo, goes, steps)
    }

    /// Add the blobs that go. When nothing but the repository's folders would be left, they go as well.
    fn finish(
        &self,
        id: &RepoId,
        repo: &Repo,
        goes: impl Fn(&Path) -> bool,
        steps: Vec<Step>,
    ) -> Result<Removal> {
        let blobs: Vec<&PathBuf> = repo.blobs.iter().filter(|blob| goes(blob)).collect();
        if steps.is_empty() && blobs.is_empty() {
            return Err(absent(id));
        }
        let pointers = repo.snapshots.iter().map(|tree| tree.entries.len()).sum::<usize>();
        let going = steps.iter().filter(|step| step.what == What::Pointer).count();
        if going == pointers && blobs.len() == repo.blobs.len() {
            return Ok(self.plan_repo(id, &repo.folder));
        }
        let mut plan = Removal { steps, name: id.to_string(), ..Removal::default() };
        for blob in blobs {
            let hash = partial_of(blob).or_else(|| blob.file_name()?.to_str()).unwrap_or_default();
            plan.locks.push(self.slot_in(&repo.folder, hash).lock);
            plan.push_blob(blob);
        }
        plan.locks.dedup();
        plan.folders = self.folders_of(&plan.steps, &repo.folder);
        plan.count(self);
        Ok(plan)
    }

    fn plan_repo(&self, id: &RepoId, folder: &Path) -> Removal {
        let mut plan = Removal { name: id.to_string(), ..Removal::default() };
        let mut seen = HashSet::new();
        for (path, file) in files_below(folder) {
            let what = match path.split('/').next() {
                Some("refs") => What::Ref,
                Some("snapshots") => What::Pointer,
                Some("blobs") => {
                    plan.push_blob(&file);
                    seen.extend(fs::symlink_metadata(&file).ok().map(|metadata| identity(&metadata)));
                    continue;
                }
                _ => What::Other,
            };
            // A hard link to a blob makes no room of its own; blobs come first by name. Refs are not worth counting.
            let own = fs::symlink_metadata(&file).ok().filter(Metadata::is_file);
            let bytes = own.filter(|m| what != What::Ref && seen.insert(identity(m))).map_or(0, |m| m.len());
            plan.steps.push(Step { what, path: file, bytes });
        }
        plan.steps.sort_by_key(|step| step.what);
        let locks = self.locks_of(folder);
        plan.locks = children(&locks)
            .into_iter()
            .filter(|lock| lock.extension().is_some_and(|e| e == "lock"))
            .collect();
        plan.locks.sort();
        plan.folders = folders_below(folder);
        plan.folders.extend([folder.to_owned(), locks]);
        plan.count(self);
        plan
    }

    /// The repository's folder, if it is one that may be changed.
    fn folder_of(&self, repo: &RepoId) -> Result<PathBuf> {
        let folder = self.repo_folder(repo);
        if !folder.is_dir() {
            return Err(absent(repo));
        }
        for folder in [&folder, &folder.join("blobs"), &folder.join("snapshots")] {
            if folder.exists() {
                self.stays_inside(folder)?;
            }
        }
        Ok(folder)
    }

    /// The folders of these files below the repository's own three, the deepest first.
    fn folders_of(&self, steps: &[Step], repo_folder: &Path) -> Vec<PathBuf> {
        let above = |path: &Path| path.ancestors().skip(1).map(Path::to_owned).collect::<Vec<_>>();
        let depth = repo_folder.components().count() + 1;
        let all: BTreeSet<PathBuf> = steps.iter().flat_map(|step| above(&step.path)).collect();
        let mut folders: Vec<_> =
            all.into_iter().filter(|folder| folder.components().count() > depth).collect();
        folders.reverse();
        folders.push(self.locks_of(repo_folder));
        folders
    }

    /// Remove what was planned: the room that made.
    pub(crate) fn remove(&self, removal: &Removal) -> Result<u64> {
        let held = self.hold(removal)?;
        let mut freed = 0;
        for step in &removal.steps {
            freed += self.remove_one(step)?;
        }
        freed += removal.shared.iter().map(|bytes| shared::sweep(&self.hub, bytes)).sum::<u64>();
        for lock in removal.locks.iter().filter(|lock| self.may_go(lock)) {
            let _ = fs::remove_file(lock);
        }
        drop(held);
        for folder in removal.folders.iter().filter(|folder| self.may_go(folder)) {
            // One with something in it stays.
            let _ = fs::remove_dir(folder);
        }
        Ok(freed)
    }

    /// Take every lock, so that nobody begins to download what is being removed.
    fn hold(&self, removal: &Removal) -> Result<Vec<Lock>> {
        let mut held = Vec::new();
        for path in &removal.locks {
            self.create(path.parent().unwrap_or(&self.hub))?;
            let lock = try_lock(path).map_err(|e| cannot("lock", path, &e))?;
            held.push(lock.ok_or_else(|| busy(&removal.name))?);
        }
        Ok(held)
    }

    fn remove_one(&self, step: &Step) -> Result<u64> {
        if !self.may_go(&step.path) {
            return Err(Error::failed(format!("`{}` is not where it was", step.path.display())));
        }
        match fs::remove_file(&step.path) {
            Ok(()) => Ok(step.bytes),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(0),
            Err(e) => Err(cannot("remove", &step.path, &e)),
        }
    }

    /// That this name is still one in our two folders, or gone.
    fn may_go(&self, path: &Path) -> bool {
        let real = |path: &Path| fs::canonicalize(path);
        match path.parent().map(real) {
            Some(Ok(folder)) => [&self.hub, &self.ours]
                .into_iter()
                .any(|root| real(root).is_ok_and(|root| folder.starts_with(root))),
            Some(Err(e)) => e.kind() == io::ErrorKind::NotFound,
            None => false,
        }
    }
}

impl Removal {
    fn push_blob(&mut self, blob: &Path) {
        let part = partial_of(blob).is_some();
        let bytes = match fs::symlink_metadata(blob) {
            Ok(metadata) if metadata.is_file() && part => on_disk(&metadata),
            Ok(metadata) if metadata.is_file() => metadata.len(),
            _ => 0,
        };
        let what = if part { What::Partial } else { What::Blob };
        self.steps.push(Step { what, path: blob.to_owned(), bytes });
    }

    /// Sum up, with the shared bytes that only blobs that go stand for.
    fn count(&mut self, store: &Store) {
        let blobs: BTreeSet<PathBuf> =
            self.steps.iter().filter(|s| s.what == What::Blob).map(|s| s.path.clone()).collect();
        self.bytes = self.steps.iter().map(|step| step.bytes).sum();
        let shared = blobs.iter().filter_map(|blob| shared::bytes_of(&store.hub, blob));
        self.shared = shared.collect::<BTreeSet<_>>().into_iter().collect();
        for bytes in &self.shared {
            let users = shared::users(&store.hub, bytes).filter(|users| users.is_subset(&blobs));
            self.bytes += users.and_then(|_| fs::metadata(bytes).ok()).map_or(0, |metadata| metadata.len());
        }
    }
}

/// Whether a download is one of these files.
fn is_of(partial: &PartialFile, commit: Option<&str>, paths: &[String]) -> bool {
    partial.journal.as_ref().is_some_and(|journal| {
        paths.contains(&journal.head.path.to_string())
            && commit.is_none_or(|commit| journal.head.commit == commit)
    })
}

/// The folders below one, the deepest first; links are not folders.
fn folders_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for child in children(folder) {
        if fs::symlink_metadata(&child).is_ok_and(|metadata| metadata.is_dir()) {
            found.extend(folders_below(&child));
            found.push(child);
        }
    }
    found
}

fn absent(repo: &RepoId) -> Error {
    Error::new(Kind::NotFound, format!("nothing of that is here: `{repo}`"))
        .hint("`infer list` shows what is here")
}

fn busy(name: &str) -> Error {
    Error::failed(format!("`{name}` is being downloaded"))
        .hint("wait for that to end, or stop it with Ctrl-C, and try again")
}
