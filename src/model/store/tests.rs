use std::io::Write;
use std::ops::ControlFlow;
use std::time::{Duration, SystemTime};

use tempfile::TempDir;

use super::lock::Lock;
use super::*;
use crate::error::Kind;
use crate::model::name::Revision;
use crate::model::quant::{RemoteFile, Variant};

/// A cache in a folder of its own.
struct Cache {
    folder: TempDir,
    store: Store,
}

fn repo() -> RepoId {
    RepoId::parse("Org/Name-GGUF").unwrap()
}

fn revision(text: &str) -> Revision {
    Revision::parse(text).unwrap()
}

fn path(text: &str) -> RepoPath {
    RepoPath::parse(text).unwrap()
}

fn sha(digit: char) -> String {
    digit.to_string().repeat(64)
}

fn commit(digit: char) -> String {
    digit.to_string().repeat(40)
}

impl Cache {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path().join("hub"), folder.path().join("ours"));
        Self { folder, store }
    }

    /// A cache with two commits: `main` is at `b`; `x-Q8_0.gguf` is the same in both, `x-Q4_0.gguf` was changed.
    fn filled() -> Self {
        let cache = Self::new();
        cache.put('a', Some("v1"), "x-Q8_0.gguf", '1', b"eight");
        cache.put('a', Some("v1"), "sub/x-Q4_0.gguf", '2', b"old");
        cache.put('b', Some("main"), "x-Q8_0.gguf", '1', b"eight");
        cache.put('b', Some("main"), "sub/x-Q4_0.gguf", '3', b"newer");
        cache.age('a', 20);
        cache.age('b', 10);
        cache
    }

    fn slot(&self, hash: char) -> Slot {
        self.store.slot(&repo(), &sha(hash)).unwrap()
    }

    fn part(&self, hash: char, bytes: &[u8]) {
        self.store.prepare(&repo()).unwrap();
        self.store.open_part(&self.slot(hash)).unwrap().write_all(bytes).unwrap();
    }

    fn put(&self, at: char, to: Option<&str>, file: &str, hash: char, bytes: &[u8]) -> PathBuf {
        self.part(hash, bytes);
        let to = to.map(revision);
        self.store.publish(&repo(), &commit(at), to.as_ref(), &path(file), &sha(hash)).unwrap()
    }

    /// Make a snapshot look as if changed some seconds ago.
    fn age(&self, at: char, seconds: u64) {
        let folder = self.store.repo_folder(&repo()).join("snapshots").join(commit(at));
        let time = SystemTime::now() - Duration::from_secs(seconds);
        File::open(folder).unwrap().set_modified(time).unwrap();
    }

    fn journal(&self, hash: char, file: &str, done: &[u64]) {
        let head = JournalHead {
            repo: repo(),
            commit: commit('b'),
            path: path(file),
            etag: sha(hash),
            size: 10,
            block: 4,
        };
        let mut writer = Journal::open(&self.slot(hash).journal, &head).unwrap().writer;
        for block in done {
            writer.block_done(*block, 0).unwrap();
        }
    }

    /// Every name in the cache but the tag, hashes and commits shortened; links with where they lead.
    fn names(&self) -> Vec<String> {
        let files = walk::files_below(self.store.hub_cache()).into_iter();
        files
            .filter(|(name, _)| name != "CACHEDIR.TAG")
            .map(|(name, file)| match fs::read_link(file) {
                Ok(target) => short(&format!("{name} -> {}", target.display())),
                Err(_) => short(&name),
            })
            .collect()
    }

    fn hold(&self, hash: char) -> Lock {
        self.store.lock(&repo(), &sha(hash), &mut |_| ControlFlow::Break(())).unwrap().unwrap()
    }
}

/// Hashes and commits by one digit.
fn short(text: &str) -> String {
    let digits = ('0'..='9').chain('a'..='f');
    digits.fold(text.replace("models--Org--Name-GGUF", "REPO"), |text, digit| {
        text.replace(&sha(digit), &format!("<{digit}>")).replace(&commit(digit), &format!("({digit})"))
    })
}

/// One model for every file, by the text behind its last `-`; files without one are none.
fn group(files: &[RemoteFile]) -> Vec<Variant> {
    let label = |file: &RemoteFile| {
        let (_, label) = file.path.rsplit_once('-')?;
        Some(label.trim_end_matches(".gguf").to_owned())
    };
    files
        .iter()
        .filter_map(|file| {
            let label = Some(label(file)?);
            Some(Variant { label, files: vec![file.clone()], missing: Vec::new() })
        })
        .collect()
}

#[test]
fn lies_as_python_lays_it() {
    let cache = Cache::filled();
    assert_eq!(
        cache.names(),
        [
            "REPO/blobs/<1>",
            "REPO/blobs/<2>",
            "REPO/blobs/<3>",
            "REPO/refs/main",
            "REPO/refs/v1",
            "REPO/snapshots/(a)/sub/x-Q4_0.gguf -> ../../../blobs/<2>",
            "REPO/snapshots/(a)/x-Q8_0.gguf -> ../../blobs/<1>",
            "REPO/snapshots/(b)/sub/x-Q4_0.gguf -> ../../../blobs/<3>",
            "REPO/snapshots/(b)/x-Q8_0.gguf -> ../../blobs/<1>",
        ]
    );
    let main = cache.store.repo_folder(&repo()).join("refs/main");
    assert_eq!(fs::read_to_string(main).unwrap(), commit('b'), "without a line end");
}

#[test]
fn publishing_again_changes_nothing_but_the_ref() {
    let cache = Cache::filled();
    let before = cache.names();
    cache.part('1', b"eight");
    cache.journal('1', "x-Q8_0.gguf", &[0]);
    let (to, file) = (revision("main"), path("x-Q8_0.gguf"));
    cache.store.publish(&repo(), &commit('a'), Some(&to), &file, &sha('1')).unwrap();
    assert_eq!(cache.names(), before, "part and journal are gone");
    assert_eq!(cache.store.cached(&repo(), Some(&to))[0].commit, commit('a'));
    let to = revision("refs/pr/1");
    cache.store.link(&repo(), &commit('a'), Some(&to), &file, &sha('1')).unwrap();
    assert_eq!(cache.store.cached(&repo(), Some(&to))[0].commit, commit('a'));
    let here = revision(&commit('a'));
    cache.store.link(&repo(), &commit('a'), Some(&here), &file, &sha('1')).unwrap();
    assert_eq!(cache.names().len(), before.len() + 1, "a commit has no ref");
}

#[test]
fn a_wrong_pointer_and_a_wrong_blob_are_replaced() {
    let cache = Cache::filled();
    let pointer = cache.put('a', None, "x-Q8_0.gguf", '2', b"old");
    assert_eq!(fs::read(&pointer).unwrap(), b"old");
    fs::remove_file(&pointer).unwrap();
    fs::write(&pointer, "something else").unwrap();
    cache.put('a', None, "x-Q8_0.gguf", '1', b"eight");
    assert_eq!(fs::read(&pointer).unwrap(), b"eight");
    fs::write(cache.slot('1').blob, "cut").unwrap();
    cache.put('a', None, "x-Q8_0.gguf", '1', b"eight");
    assert_eq!(fs::read(&pointer).unwrap(), b"eight");
}

#[test]
fn without_links_a_pointer_is_another_name_or_the_file_itself() {
    let cache = Cache::new();
    cache.part('1', b"bytes");
    let slot = cache.slot('1');
    fs::rename(&slot.part, &slot.blob).unwrap();
    let pointer = cache.store.pointer(&repo(), &commit('a'), &path("x-Q8_0.gguf")).unwrap();
    fs::create_dir_all(pointer.parent().unwrap()).unwrap();
    for _ in 0..2 {
        publish::point(&slot.blob, &pointer, "unused", &publish::WAYS[1..]).unwrap();
        assert_eq!(cache.names(), ["REPO/blobs/<1>", "REPO/snapshots/(a)/x-Q8_0.gguf"]);
    }
    let listing = cache.store.list(&group);
    assert_eq!((listing.models.len(), listing.loose), (1, vec![]), "the blob is no orphan");
    let plan = cache.store.plan_removal(Target::Repo(&repo())).unwrap();
    assert_eq!(plan.bytes(), 5, "counted once");
    fs::remove_file(&pointer).unwrap();
    for _ in 0..2 {
        publish::point(&slot.blob, &pointer, "unused", &publish::WAYS[2..]).unwrap();
        assert_eq!(cache.names(), ["REPO/snapshots/(a)/x-Q8_0.gguf"]);
    }
    let (file, size) = (path("x-Q8_0.gguf"), 5);
    assert!(!cache.store.has(&repo(), &sha('1'), size));
    assert_eq!(cache.store.pointed(&repo(), &commit('a'), &file, size), Some(pointer));
    assert_eq!(cache.store.pointed(&repo(), &commit('a'), &file, 6), None);
    assert_eq!(cache.store.plan_removal(Target::Repo(&repo())).unwrap().bytes(), 5);
}

#[test]
fn only_checked_names_become_paths() {
    let cache = Cache::new();
    for hash in ["", "../../../x", &commit('a'), &"A".repeat(64)] {
        assert!(cache.store.slot(&repo(), hash).is_err(), "{hash}");
    }
    for commit in ["", "main", "../../../x", &sha('a')] {
        assert!(cache.store.pointer(&repo(), commit, &path("x.gguf")).is_err(), "{commit}");
    }
}

#[test]
fn a_folder_in_other_letter_case_is_the_same_repository() {
    let cache = Cache::filled();
    let other = RepoId::parse("org/name-gguf").unwrap();
    assert_eq!(cache.store.repo_folder(&other), cache.store.repo_folder(&repo()));
    assert_eq!(cache.store.cached(&other, None).len(), 2);
    assert!(cache.store.has(&other, &sha('1'), 5));
    assert!(!cache.store.has(&other, &sha('1'), 6));
    assert!(!cache.store.has(&other, &sha('9'), 5));
    let new = RepoId::parse("org/name-GGUF-2").unwrap();
    assert!(cache.store.repo_folder(&new).ends_with("models--org--name-GGUF-2"));
}

#[test]
fn finds_the_snapshot_of_main_first_and_then_the_newest() {
    let cache = Cache::filled();
    cache.put('c', None, "x-Q8_0.gguf", '1', b"eight");
    let commits = |revision: Option<&Revision>| -> Vec<String> {
        cache.store.cached(&repo(), revision).into_iter().map(|snapshot| short(&snapshot.commit)).collect()
    };
    assert_eq!(commits(None), ["(b)", "(c)", "(a)"]);
    assert_eq!(commits(Some(&revision("v1"))), ["(a)"]);
    assert_eq!(commits(Some(&revision(&commit('c')))), ["(c)"]);
    assert_eq!(commits(Some(&revision("v2"))), [""; 0]);
    assert_eq!(commits(Some(&revision(&commit('d')))), [""; 0]);
    let absent = RepoId::parse("org/absent").unwrap();
    assert_eq!(cache.store.cached(&absent, None), []);
}

#[test]
fn a_snapshot_has_the_gguf_files_that_can_be_read() {
    let cache = Cache::filled();
    let snapshot = cache.store.repo_folder(&repo()).join("snapshots").join(commit('b'));
    fs::write(snapshot.join("README.md"), "text").unwrap();
    fs::write(snapshot.join("a\\b.gguf"), "no path of the hub").unwrap();
    fs::create_dir(snapshot.join("folder.gguf")).unwrap();
    fs::write(snapshot.join("SHOUT.GGUF"), "loud").unwrap();
    cache.put('b', None, "gone.gguf", '4', b"gone");
    fs::remove_file(cache.slot('4').blob).unwrap();
    let file = |path: &str, size| RemoteFile { path: path.into(), size: Some(size) };
    let found = &cache.store.cached(&repo(), None)[0];
    assert_eq!(found.folder, snapshot);
    assert_eq!(found.files, [file("SHOUT.GGUF", 4), file("sub/x-Q4_0.gguf", 5), file("x-Q8_0.gguf", 5)]);
}

#[cfg(unix)]
#[test]
fn no_link_leads_out_of_the_cache() {
    use std::os::unix::fs::symlink;
    let cache = Cache::filled();
    let outside = cache.folder.path().join("outside");
    fs::create_dir(&outside).unwrap();
    let victim = outside.join("victim");
    fs::write(&victim, "precious").unwrap();

    let slot = cache.slot('5');
    for target in [&victim, &outside.join("new")] {
        symlink(target, &slot.part).unwrap();
        assert!(cache.store.open_part(&slot).is_err());
        assert!(cache.store.publish(&repo(), &commit('a'), None, &path("x.gguf"), &sha('5')).is_err());
        fs::remove_file(&slot.part).unwrap();
    }
    let snapshots = cache.store.repo_folder(&repo()).join("snapshots");
    symlink(&outside, snapshots.join(commit('e'))).unwrap();
    let linked = cache.store.link(&repo(), &commit('e'), None, &path("x.gguf"), &sha('1'));
    assert!(linked.unwrap_err().message.ends_with("leads out of the cache through a link"));

    let other = RepoId::parse("org/other").unwrap();
    symlink(&outside, cache.store.hub_cache().join("models--org--other")).unwrap();
    assert!(cache.store.prepare(&other).is_err());
    assert!(cache.store.plan_removal(Target::Repo(&other)).is_err());
    symlink(&outside, cache.store.hub_cache().join(".locks")).unwrap();
    assert!(cache.store.lock(&repo(), &sha('1'), &mut |_| ControlFlow::Break(())).is_err());

    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    assert_eq!(walk::children(&outside), [victim], "nothing was made there");
}

#[cfg(unix)]
#[test]
fn the_cache_itself_may_be_a_link() {
    let cache = Cache::filled();
    let link = cache.folder.path().join("link");
    std::os::unix::fs::symlink(cache.store.hub_cache(), &link).unwrap();
    let cache = Cache { store: Store::new(link, cache.store.ours().to_owned()), folder: cache.folder };
    let file = cache.put('c', None, "y-Q4_0.gguf", '6', b"more");
    assert_eq!(fs::read(file).unwrap(), b"more");
    assert_eq!(cache.store.list(&group).loose, []);
    let plan = cache.store.plan_removal(Target::Repo(&repo())).unwrap();
    assert_eq!(cache.store.remove(&plan).unwrap(), 5 + 3 + 5 + 4);
    assert_eq!(cache.names(), [""; 0]);
}

#[test]
fn a_lock_is_waited_for() {
    let cache = Cache::new();
    let (sha, mut held) = (sha('1'), Some(cache.hold('1')));
    let lock = |waiting: &mut dyn FnMut(Duration) -> ControlFlow<()>| {
        cache.store.lock(&repo(), &sha, waiting).unwrap().is_some()
    };
    assert!(!lock(&mut |_| ControlFlow::Break(())), "broken off");
    let mut waits = 0;
    assert!(lock(&mut |_| {
        waits += 1;
        held = None;
        ControlFlow::Continue(())
    }));
    assert_eq!(waits, 1);
    assert_eq!(cache.names(), [".locks/REPO/<1>.lock"], "the file stays behind");
}

#[test]
fn a_partial_of_what_is_whole_goes_unless_somebody_is_at_it() {
    let cache = Cache::new();
    cache.part('1', b"half");
    cache.journal('1', "x.gguf", &[0]);
    let held = cache.hold('1');
    let before = cache.names();
    Store::drop_partial(&cache.slot('1'));
    assert_eq!(cache.names(), before);
    drop(held);
    Store::drop_partial(&cache.slot('1'));
    Store::drop_partial(&cache.slot('2'));
    assert_eq!(cache.names(), [".locks/REPO/<1>.lock"], "no lock is made for nothing");
}

#[cfg(unix)]
#[test]
fn a_lock_whose_file_was_removed_keeps_nobody_out() {
    use std::os::unix::fs::PermissionsExt;
    let cache = Cache::new();
    let _held = cache.hold('1');
    let file = cache.slot('1').lock;
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o664, "as Python's");
    let lock = cache.store.lock(&repo(), &sha('1'), &mut |_| {
        fs::remove_file(&file).unwrap();
        ControlFlow::Continue(())
    });
    assert!(lock.unwrap().is_some());
}

#[test]
fn lists_each_model_once() {
    let cache = Cache::filled();
    fs::create_dir(cache.store.ours()).unwrap();
    fs::write(cache.store.ours().join("mine-Q4_0.gguf"), "mine").unwrap();
    fs::write(cache.store.ours().join("plain.gguf"), "plain!").unwrap();
    fs::write(cache.store.ours().join("notes.txt"), "").unwrap();
    let listing = cache.store.list(&group);
    let shown: Vec<_> = listing
        .models
        .iter()
        .map(|held| {
            let repo = held.repo.as_ref().map_or(String::new(), ToString::to_string);
            let label = held.variant.label.as_deref().unwrap_or("-");
            let commit = held.commit.as_deref().map_or(String::new(), short);
            format!("{repo} {label} {} {commit} {} {:?}", held.size, held.refs.join(","), held.place)
        })
        .collect();
    assert_eq!(
        shown,
        [
            "Org/Name-GGUF Q4_0 5 (b) main HubCache",
            "Org/Name-GGUF Q8_0 5 (b) main,v1 HubCache",
            "Org/Name-GGUF Q4_0 3 (a) v1 HubCache",
            " Q4_0 4   Ours",
            " - 6   Ours",
        ]
    );
    assert_eq!(fs::read(&listing.models[2].path).unwrap(), b"old");
    assert_eq!((listing.partials, listing.loose), (vec![], vec![]));
    assert_eq!(Cache::new().store.list(&group), Listing::default());
}

#[test]
fn lists_downloads_that_did_not_end() {
    let cache = Cache::filled();
    let blobs = cache.slot('1').blob.parent().unwrap().to_owned();
    cache.part('4', b"0123456789");
    cache.journal('4', "x-Q5_0.gguf", &[0, 2]);
    cache.part('5', b"no journal");
    cache.journal('6', "no-part.gguf", &[0]);
    cache.part('7', b"journal of another");
    fs::copy(cache.slot('4').journal, cache.slot('7').journal).unwrap();
    fs::write(blobs.join("x.infer-part"), "no hash").unwrap();
    let _busy = cache.hold('4');
    let listing = cache.store.list(&group);
    let shown: Vec<_> = listing
        .partials
        .iter()
        .map(|partial| {
            let known = partial.journal.as_ref();
            let known = known.map(|p| format!("{} {}/{}", p.head.path, p.done, p.head.size));
            format!("{} {} {}", short(&partial.sha256), known.unwrap_or("?".into()), partial.busy)
        })
        .collect();
    assert_eq!(
        shown,
        ["<4> x-Q5_0.gguf 6/10 true", "<5> ? false", "<6> no-part.gguf 0/10 false", "<7> ? false"]
    );
    assert_eq!(cache.store.partials(&repo()), listing.partials);
    assert_eq!(listing.models.len(), 3);
}

#[test]
fn lists_what_no_model_needs() {
    let cache = Cache::filled();
    let blobs = cache.slot('1').blob.parent().unwrap().to_owned();
    cache.put('b', None, "sidecar.gguf", '4', b"projector");
    cache.put('c', None, "sidecar.gguf", '4', b"projector");
    cache.put('b', None, "README.md", '5', b"# text");
    fs::write(blobs.join(sha('6')), "orphan").unwrap();
    fs::write(blobs.join(format!("{}.0123abcd.incomplete", sha('7'))), "part").unwrap();
    fs::write(blobs.join("link.x.tmp"), "").unwrap();
    fs::write(blobs.join(".DS_Store"), "").unwrap();
    fs::remove_file(cache.slot('2').blob).unwrap();
    let listing = cache.store.list(&group);
    let shown: Vec<_> = listing
        .loose
        .iter()
        .map(|loose| {
            let path = loose.path.strip_prefix(cache.store.hub_cache()).unwrap();
            format!("{:?} {} {}", loose.what, loose.size, short(&path.display().to_string()))
        })
        .collect();
    assert_eq!(
        shown,
        [
            "Sidecar 9 REPO/snapshots/(b)/sidecar.gguf",
            "Dangling 0 REPO/snapshots/(a)/sub/x-Q4_0.gguf",
            "Orphan 6 REPO/blobs/<6>",
            "Incomplete 4 REPO/blobs/<7>.0123abcd.incomplete",
            "Temporary 0 REPO/blobs/link.x.tmp",
        ]
    );
    assert_eq!(listing.models.len(), 2);
}

/// Plan and remove: what the plan says, and the names left.
fn removed(cache: &Cache, target: Target) -> (Vec<String>, u64) {
    let plan = cache.store.plan_removal(target).unwrap();
    let steps = plan.steps().iter().map(|step| {
        let path = step.path.strip_prefix(cache.folder.path()).unwrap();
        let path = short(&path.display().to_string());
        format!("{:?} {path}", step.what)
    });
    let steps = steps.collect();
    assert_eq!(cache.store.remove(&plan).unwrap(), plan.bytes());
    (steps, plan.bytes())
}

#[test]
fn removes_a_file_in_every_commit_with_its_bytes() {
    let cache = Cache::filled();
    cache.part('4', b"");
    cache.journal('4', "sub/x-Q4_0.gguf", &[0]);
    cache.part('5', b"");
    cache.journal('5', "other.gguf", &[0]);
    drop(cache.hold('2'));
    let paths = ["sub/x-Q4_0.gguf".to_owned()];
    let (steps, bytes) = removed(&cache, Target::Files { repo: &repo(), revision: None, paths: &paths });
    assert_eq!(
        steps,
        [
            "Pointer hub/REPO/snapshots/(b)/sub/x-Q4_0.gguf",
            "Pointer hub/REPO/snapshots/(a)/sub/x-Q4_0.gguf",
            "Blob hub/REPO/blobs/<2>",
            "Blob hub/REPO/blobs/<3>",
            "Partial hub/REPO/blobs/<4>.infer-part",
            "Partial hub/REPO/blobs/<4>.infer-part.json",
        ]
    );
    assert!(bytes >= 3 + 5, "and what the journal takes");
    assert_eq!(
        cache.names(),
        [
            "REPO/blobs/<1>",
            "REPO/blobs/<5>.infer-part",
            "REPO/blobs/<5>.infer-part.json",
            "REPO/refs/main",
            "REPO/refs/v1",
            "REPO/snapshots/(a)/x-Q8_0.gguf -> ../../blobs/<1>",
            "REPO/snapshots/(b)/x-Q8_0.gguf -> ../../blobs/<1>",
        ]
    );
    let snapshot = cache.store.repo_folder(&repo()).join("snapshots").join(commit('a'));
    assert!(!snapshot.join("sub").exists());
    assert!(!cache.slot('1').lock.parent().unwrap().exists());
}

#[test]
fn removes_one_revision_and_keeps_what_others_need() {
    let cache = Cache::filled();
    let paths = ["sub/x-Q4_0.gguf".to_owned(), "x-Q8_0.gguf".to_owned()];
    let v1 = revision("v1");
    let (steps, bytes) = removed(&cache, Target::Files { repo: &repo(), revision: Some(&v1), paths: &paths });
    assert_eq!(
        steps,
        [
            "Ref hub/REPO/refs/v1",
            "Pointer hub/REPO/snapshots/(a)/sub/x-Q4_0.gguf",
            "Pointer hub/REPO/snapshots/(a)/x-Q8_0.gguf",
            "Blob hub/REPO/blobs/<2>",
        ]
    );
    assert_eq!(bytes, 3);
    assert_eq!(cache.store.cached(&repo(), None).len(), 1);
    let folder = cache.store.repo_folder(&repo());
    assert!(!folder.join("snapshots").join(commit('a')).exists());
    // With the last of its files the repository goes, whatever else tools keep there.
    fs::create_dir(folder.join("trees")).unwrap();
    fs::write(folder.join("trees/b.json"), "{}").unwrap();
    let (steps, bytes) = removed(&cache, Target::Files { repo: &repo(), revision: None, paths: &paths });
    assert_eq!((steps.len(), bytes), (6, 5 + 5 + 2));
    assert!(!folder.exists());
}

#[test]
fn removes_a_whole_repository_and_nothing_that_came_in_between() {
    let cache = Cache::filled();
    let folder = cache.store.repo_folder(&repo());
    drop(cache.hold('1'));
    let plan = cache.store.plan_removal(Target::Repo(&repo())).unwrap();
    assert_eq!(plan.bytes(), 5 + 3 + 5);
    fs::write(folder.join("blobs").join(sha('9')), "new").unwrap();
    fs::remove_file(cache.slot('3').blob).unwrap();
    assert_eq!(cache.store.remove(&plan).unwrap(), 5 + 3, "what was gone made no room");
    assert_eq!(cache.names(), ["REPO/blobs/<9>"]);
    removed(&cache, Target::Repo(&repo()));
    let left: Vec<_> =
        fs::read_dir(cache.store.hub_cache()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "the tag and the folder of locks: {left:?}");
}

#[test]
fn removes_a_download_that_did_not_end() {
    let cache = Cache::filled();
    cache.part('4', b"");
    let before = cache.names();
    cache.part('5', b"");
    cache.journal('5', "y.gguf", &[0]);
    let (steps, _) = removed(&cache, Target::Partial { repo: &repo(), sha256: &sha('5') });
    let part = "Partial hub/REPO/blobs/<5>.infer-part";
    assert_eq!(steps, [part.to_owned(), format!("{part}.json")]);
    assert_eq!(cache.names(), before);
    // Alone it takes the repository's folder along.
    let cache = Cache::new();
    cache.part('5', b"");
    removed(&cache, Target::Partial { repo: &repo(), sha256: &sha('5') });
    assert!(!cache.store.repo_folder(&repo()).exists());
}

#[test]
fn removes_one_of_ours_and_only_there() {
    let cache = Cache::filled();
    let ours = cache.store.ours().to_owned();
    fs::create_dir_all(ours.join("folder")).unwrap();
    let mine = ours.join("mine.gguf");
    fs::write(&mine, "mine").unwrap();
    for path in [
        ours.join("folder"),
        ours.join("absent.gguf"),
        cache.slot('1').blob,
        ours.join("../hub/CACHEDIR.TAG"),
    ] {
        assert!(cache.store.plan_removal(Target::Ours(&path)).is_err(), "{}", path.display());
    }
    assert_eq!(removed(&cache, Target::Ours(&mine)), (vec!["Ours ours/mine.gguf".into()], 4));
    assert!(!mine.exists());
}

#[test]
fn refuses_to_remove_what_is_not_here_or_being_downloaded() {
    let cache = Cache::filled();
    let absent = RepoId::parse("org/absent").unwrap();
    let (none, v2) = (["y.gguf".to_owned()], revision("v2"));
    let eight = ["x-Q8_0.gguf".to_owned()];
    for target in [
        Target::Repo(&absent),
        Target::Files { repo: &repo(), revision: None, paths: &none },
        Target::Files { repo: &repo(), revision: Some(&v2), paths: &eight },
        Target::Partial { repo: &repo(), sha256: &sha('5') },
    ] {
        assert_eq!(cache.store.plan_removal(target).unwrap_err().kind, Kind::NotFound);
    }
    let target = Target::Files { repo: &repo(), revision: None, paths: &eight };
    let plan = cache.store.plan_removal(target).unwrap();
    let before = cache.names();
    let held = cache.hold('1');
    for error in [
        cache.store.plan_removal(target).unwrap_err(),
        cache.store.plan_removal(Target::Repo(&repo())).unwrap_err(),
        cache.store.remove(&plan).unwrap_err(),
    ] {
        assert_eq!(error.message, "`Org/Name-GGUF` is being downloaded");
        assert!(error.hint.is_some());
    }
    drop(held);
    fs::remove_file(cache.slot('1').lock).unwrap();
    assert_eq!(cache.names(), before);
}

#[cfg(unix)]
#[test]
fn a_pointer_out_of_the_repository_goes_without_what_it_leads_to() {
    let cache = Cache::filled();
    let outside = cache.folder.path().join("precious");
    fs::write(&outside, "precious").unwrap();
    let pointer = cache.store.pointer(&repo(), &commit('b'), &path("y.gguf")).unwrap();
    std::os::unix::fs::symlink(&outside, &pointer).unwrap();
    let paths = ["y.gguf".to_owned()];
    let (steps, bytes) = removed(&cache, Target::Files { repo: &repo(), revision: None, paths: &paths });
    assert_eq!((steps.len(), bytes), (1, 0));
    assert!(!pointer.exists() && outside.exists());
}

#[cfg(unix)]
#[test]
fn bytes_that_python_shares_go_with_the_last_that_needs_them() {
    let cache = Cache::filled();
    let hub = cache.store.hub_cache();
    let hash = format!("ab{}", "0".repeat(62));
    let bytes = hub.join("blobs/ab").join(&hash);
    fs::create_dir_all(bytes.parent().unwrap()).unwrap();
    fs::write(hub.join("blobs/.huggingface-shared-blobs"), "1\n").unwrap();
    fs::rename(cache.slot('1').blob, &bytes).unwrap();
    let other = hub.join("models--org--other/blobs");
    fs::create_dir_all(&other).unwrap();
    let links = [cache.slot('1').blob, other.join(sha('1'))];
    for link in &links {
        std::os::unix::fs::symlink(format!("../../blobs/ab/{hash}"), link).unwrap();
    }
    assert!(cache.store.has(&repo(), &sha('1'), 5));
    let manifest =
        format!("models--Org--Name-GGUF/blobs/{0}\nmodels--org--other/blobs/{0}\n../x\nrubbish\n", sha('1'));
    let refs = bytes.with_extension("refs");
    let paths = ["x-Q8_0.gguf".to_owned()];
    let target = Target::Files { repo: &repo(), revision: None, paths: &paths };

    assert_eq!(
        cache.store.plan_removal(target).unwrap().bytes(),
        0,
        "without the names of their users they stay"
    );
    fs::write(&refs, manifest).unwrap();
    assert_eq!(cache.store.plan_removal(target).unwrap().bytes(), 0, "another needs them");
    fs::remove_file(&links[1]).unwrap();
    let (_, freed) = removed(&cache, target);
    assert_eq!((freed, bytes.exists(), refs.exists()), (5, false, false));
}

#[test]
fn a_cache_that_everybody_may_change_is_refused() {
    for (owner, me, mode, foreign) in [
        (1, 1, 0o777, false),
        (2, 1, 0o777, true),
        (2, 1, 0o1777, true),
        (2, 1, 0o775, false),
        (0, 1, 0o777, false),
        (1, 0, 0o777, true),
    ] {
        assert_eq!(publish::is_foreign(owner, me, mode), foreign, "{owner} {me} {mode:o}");
    }
}

#[test]
fn free_space_is_that_of_the_nearest_folder() {
    let folder = tempfile::tempdir().unwrap();
    assert!(Store::free_space(&folder.path().join("not/there/yet")).unwrap() > 0);
    assert!(Store::free_space(Path::new("not-there-either")).unwrap() > 0);
}
