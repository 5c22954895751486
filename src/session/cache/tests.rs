use std::fs::{self, File};
use std::ops::ControlFlow;
use std::sync::Barrier;

use tempfile::TempDir;

use super::*;
use crate::engine::scripted::Scripted;

const LONG: Duration = Duration::from_secs(3600);

fn key(model: &str, kv: &str) -> Key {
    Key::new(model.to_owned(), None, vec![("type of the KV cache", kv.to_owned())])
}

fn store(folder: &Path) -> PrefixStore {
    PrefixStore::new(folder.to_owned(), 1 << 20, key("m", "f16"), "tiny".to_owned())
}

/// An engine that holds these tokens.
fn engine(tokens: &[Token]) -> Scripted {
    let mut engine = Scripted::new(1000, &[]);
    engine.cache = tokens.to_vec();
    engine
}

fn tokens(count: i32) -> Vec<Token> {
    (0..count).collect()
}

/// Keep these tokens; what was noted.
fn keep(store: &PrefixStore, tokens: &[Token], evaluation: Duration, for_session: bool) -> String {
    let mut notes = Vec::new();
    store.keep(&mut engine(tokens), tokens, evaluation, for_session, &mut |event| {
        if let Event::Cache(note) = event {
            notes.push(note.to_owned());
        }
        ControlFlow::Continue(())
    });
    notes.join("\n")
}

/// What comes back for a prompt of these tokens, and what was noted. The cache holds it.
fn restore(store: &PrefixStore, wanted: &[Token]) -> (Option<Vec<Token>>, String) {
    let (restored, notes, _) = restore_with_reason(store, wanted);
    (restored, notes)
}

/// As `restore`, and why nothing or not more came back.
fn restore_with_reason(
    store: &PrefixStore,
    wanted: &[Token],
) -> (Option<Vec<Token>>, String, Option<String>) {
    let mut engine = engine(&[]);
    let mut notes = Vec::new();
    let useful = |tokens: &[Token]| tokens.iter().zip(wanted).take_while(|(a, b)| a == b).count();
    let (restored, why_not) = store.restore(&mut engine, useful, 0, &mut |note| notes.push(note.to_owned()));
    assert_eq!(restored.as_ref().map(|restored| restored.tokens.clone()).unwrap_or_default(), engine.cache);
    (restored.map(|restored| restored.tokens), notes.join("\n"), why_not.map(Cow::into_owned))
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    all.retain(|path| path.extension().is_some_and(|kind| kind == "kv"));
    all.sort();
    all
}

fn only_entry(folder: &TempDir) -> PathBuf {
    let all = entries(folder.path());
    assert_eq!(all.len(), 1);
    all[0].clone()
}

fn age(path: &Path, seconds: u64) {
    let time = SystemTime::now() - Duration::from_secs(seconds);
    File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
}

#[test]
fn reading_pays_off_when_it_is_quicker_than_evaluating_what_is_gained() {
    let ms = Duration::from_millis;
    for (reading, evaluation, gain, tokens, expected) in [
        (ms(10), ms(100), 100, 100, true),
        (ms(100), ms(100), 100, 100, false),
        (ms(100), ms(10), 100, 100, false),
        (ms(10), ms(100), 11, 100, true),
        (ms(10), ms(100), 10, 100, false),
        (ms(10), ms(100), 0, 100, false),
        (ms(0), ms(100), 1, 100, true),
        (ms(0), ms(0), 100, 100, false),
        (ms(10), ms(100), 0, 0, false),
        (Duration::MAX, ms(100), 100, 100, false),
        (ms(10), Duration::MAX, usize::MAX, usize::MAX, true),
    ] {
        assert_eq!(
            pays_off(reading, evaluation, gain, tokens),
            expected,
            "{reading:?} {evaluation:?} {gain} {tokens}"
        );
    }
}

#[test]
fn what_is_kept_comes_back() {
    let folder = TempDir::new().unwrap();
    let store = store(&folder.path().join("not/there/yet"));
    assert_eq!(restore(&store, &tokens(50)), (None, String::new()));
    let note = keep(&store, &tokens(40), LONG, false);
    assert!(note.starts_with("cache: 40 tokens kept, "), "{note}");
    let (restored, note) = restore(&store, &tokens(50));
    assert_eq!(restored, Some(tokens(40)));
    assert!(note.starts_with("cache: 40 tokens loaded in "), "{note}");
    // Of an entry that is longer or goes on otherwise the beginning is of use; a few tokens are of none.
    assert_eq!(restore(&store, &tokens(20)).0, Some(tokens(40)));
    assert_eq!(restore(&store, &[tokens(20), tokens(20)].concat()).0, Some(tokens(40)));
    assert_eq!(restore(&store, &tokens(15)), (None, String::new()));
}

#[test]
fn the_entry_with_most_useful_tokens_is_taken_and_only_if_memory_has_fewer() {
    let folder = TempDir::new().unwrap();
    let store = store(folder.path());
    for count in [30, 80, 50] {
        keep(&store, &tokens(count), LONG, false);
    }
    assert_eq!(restore(&store, &tokens(60)).0.map(|tokens| tokens.len()), Some(80));
    for (have, expected) in [(0, true), (44, true), (45, false), (60, false)] {
        let mut engine = engine(&[7]);
        let useful = |tokens: &[Token]| tokens.len().min(60);
        let (restored, _) = store.restore(&mut engine, useful, have, &mut |_| {});
        assert_eq!((restored.is_some(), engine.cache.len() > 1), (expected, expected), "{have}");
    }
}

#[test]
fn what_is_evaluated_more_quickly_is_not_kept_and_not_tried_again() {
    let folder = TempDir::new().unwrap();
    let store = store(folder.path());
    let expected = "cache: 40 tokens are not kept: evaluating them is quicker";
    assert_eq!(keep(&store, &tokens(40), Duration::ZERO, false), expected);
    let unused = "cache: an entry for 40 tokens is not used: evaluating the tokens is quicker";
    assert_eq!(restore(&store, &tokens(50)), (None, unused.to_owned()));
    let path = only_entry(&folder);
    let about = About::read(&path).unwrap();
    assert!(about.is_empty() && path.metadata().unwrap().len() < 1000);
    assert_eq!(keep(&store, &tokens(40), LONG, false), "", "it is known already");
}

#[test]
fn what_turns_out_slower_is_used_once_and_removed() {
    let folder = TempDir::new().unwrap();
    let store = store(folder.path());
    keep(&store, &tokens(40), LONG, false);
    let path = only_entry(&folder);
    let mut file = File::options().read(true).write(true).open(&path).unwrap();
    // As if the disk had been quicker when it was measured.
    let about = About::read(&path).unwrap().with_times(Duration::from_nanos(2), Duration::from_nanos(1));
    file.set_len(4 + 4 * 40).unwrap();
    about.append(&mut file).unwrap();
    let (restored, note) = restore(&store, &tokens(50));
    assert_eq!(restored, Some(tokens(40)));
    assert!(note.ends_with("cache: that was slower than evaluating them, so the entry is removed"), "{note}");
    assert!(!path.exists());
}

#[test]
fn entries_that_were_made_otherwise_are_left_alone_and_one_reason_is_given() {
    let folder = TempDir::new().unwrap();
    keep(&store(folder.path()), &tokens(40), LONG, false);
    let with = |key| PrefixStore { key, ..store(folder.path()) };
    let not_used = |reason: &str| format!("cache: an entry for 40 tokens is not used: {reason}");
    let cases = [
        (with(key("other", "f16")), String::new()),
        (with(key("m", "q8_0")), not_used("it was made with another type of the KV cache")),
        (
            with(Key::new("m".to_owned(), None, Vec::new())),
            not_used("it was made with another version of this program"),
        ),
        (
            with(Key::new(
                "m".to_owned(),
                Some(&Template::new("{{ messages }}", "", "").unwrap()),
                vec![("type of the KV cache", "f16".to_owned())],
            )),
            not_used("it was made with another chat template"),
        ),
    ];
    for (store, expected) in &cases {
        assert_eq!(restore(store, &tokens(50)), (None, expected.clone()));
    }
    // An entry that lies under the name of another model's.
    let wrong = folder.path().join(format!("{}1.kv", cases[0].0.model_part()));
    fs::copy(only_entry(&folder), &wrong).unwrap();
    assert_eq!(restore(&cases[0].0, &tokens(50)), (None, not_used("it was made with another model")));
    fs::remove_file(wrong).unwrap();
    // A better one is no reason to complain, a worse one is.
    keep(&cases[1].0, &tokens(45), LONG, false);
    assert!(!restore(&cases[1].0, &tokens(50)).1.contains("is not used"));
    let (restored, note) = restore(&store(folder.path()), &tokens(50));
    assert_eq!(restored.map(|tokens| tokens.len()), Some(40));
    assert!(note.starts_with("cache: an entry for 45 tokens is not used: it was made with "), "{note}");
    assert_eq!(entries(folder.path()).len(), 2);
}

#[test]
fn the_reason_why_nothing_or_not_more_was_used_is_the_true_one() {
    let folder = TempDir::new().unwrap();
    let (ours, q8) = (store(folder.path()), PrefixStore { key: key("m", "q8_0"), ..store(folder.path()) });
    let reason = |store: &PrefixStore, wanted: &[Token]| {
        let (restored, _, why_not) = restore_with_reason(store, wanted);
        (restored.map(|tokens| tokens.len()), why_not)
    };
    let because = |reason: &str| Some(reason.to_owned());
    let other_kv = "an entry on disk is not used: it was made with another type of the KV cache";
    assert_eq!(reason(&ours, &tokens(50)), (None, because("nothing was cached")));
    keep(&ours, &tokens(40), LONG, false);
    assert_eq!(reason(&ours, &tokens(50)), (Some(40), None));
    let line_in_front = [&[7, 8, 9], &*tokens(50)].concat();
    let differs = "no entry on disk fits the beginning of this prompt";
    assert_eq!(reason(&ours, &line_in_front), (None, because(differs)));
    assert_eq!(reason(&q8, &tokens(50)), (None, because(other_kv)));
    // A better entry is missed although another one is used.
    keep(&q8, &tokens(45), LONG, false);
    assert_eq!(reason(&ours, &tokens(50)), (Some(40), because(other_kv)));
    // What another session keeps is not there.
    let folder = TempDir::new().unwrap();
    let ours = store(folder.path());
    keep(&store(folder.path()).for_session("work"), &tokens(40), LONG, true);
    assert_eq!(reason(&ours, &tokens(50)), (None, because("nothing was cached")));
    keep(&ours, &tokens(30), Duration::ZERO, false);
    let slower = "an entry on disk is not used: evaluating the tokens is quicker";
    assert_eq!(reason(&ours, &tokens(50)), (None, because(slower)));
    for (at, broken) in [(100, "its content is damaged"), (800, "its description is damaged")] {
        let folder = TempDir::new().unwrap();
        let ours = store(folder.path());
        keep(&ours, &tokens(100), LONG, false);
        let mut bytes = fs::read(only_entry(&folder)).unwrap();
        bytes[at] ^= 1;
        fs::write(only_entry(&folder), bytes).unwrap();
        let broken = format!("an entry on disk is not used: {broken}");
        assert_eq!(reason(&ours, &tokens(120)), (None, Some(broken)));
    }
}

#[test]
fn an_entry_longer_than_the_context_is_not_used() {
    let folder = TempDir::new().unwrap();
    let store = store(folder.path());
    keep(&store, &tokens(40), LONG, false);
    let mut notes = Vec::new();
    let mut small = Scripted::new(39, &[]);
    let (restored, _) = store.restore(&mut small, |_| 30, 0, &mut |note| notes.push(note.to_owned()));
    assert_eq!(restored, None);
    assert_eq!(notes, ["cache: an entry for 30 tokens is not used: it is longer than the context"]);
}

#[test]
fn a_session_has_one_entry_for_itself() {
    let folder = TempDir::new().unwrap();
    let work = store(folder.path()).for_session("work");
    keep(&work, &tokens(40), LONG, true);
    keep(&work, &tokens(60), LONG, true);
    only_entry(&folder);
    assert_eq!(restore(&work, &tokens(99)).0.map(|tokens| tokens.len()), Some(60));
    // Also when it is kept with other settings.
    keep(
        &PrefixStore { key: key("m", "q8_0"), ..store(folder.path()) }.for_session("work"),
        &tokens(70),
        LONG,
        true,
    );
    only_entry(&folder);
    keep(&work, &tokens(60), LONG, true);
    for other in [store(folder.path()), store(folder.path()).for_session("play")] {
        assert_eq!(restore(&other, &tokens(99)), (None, String::new()));
    }
    keep(&work, &tokens(30), LONG, false);
    assert_eq!(entries(folder.path()).len(), 2);
    assert_eq!(restore(&store(folder.path()), &tokens(99)).0.map(|tokens| tokens.len()), Some(30));
    assert_eq!(restore(&work, &tokens(99)).0.map(|tokens| tokens.len()), Some(60));
}

#[test]
fn a_session_is_forgotten_whatever_the_model() {
    let folder = TempDir::new().unwrap();
    for (model, session) in [("m", "work"), ("other", "work"), ("m", "play")] {
        let store = PrefixStore { key: key(model, "f16"), ..store(folder.path()) }.for_session(session);
        keep(&store, &tokens(40), LONG, true);
        keep(&store, &tokens(30), LONG, false);
    }
    forget(folder.path(), "work").unwrap();
    let mut left: Vec<_> = list(folder.path()).into_iter().filter_map(|held| held.about?.session).collect();
    left.sort();
    assert_eq!((left, entries(folder.path()).len()), (vec!["play".to_owned()], 3));
    forget(&folder.path().join("none"), "work").unwrap();
}

#[test]
fn an_entry_cut_anywhere_is_noticed_and_removed() {
    let folder = TempDir::new().unwrap();
    let store = store(folder.path());
    keep(&store, &tokens(40), LONG, false);
    let path = only_entry(&folder);
    let whole = fs::read(&path).unwrap();
    for len in 0..whole.len() {
        fs::write(&path, &whole[..len]).unwrap();
        let (restored, note) = restore(&store, &tokens(50));
        assert_eq!(restored, None, "{len}");
        assert!(note.starts_with("cache: an entry is not used and removed: it "), "{len}: {note}");
        assert!(!path.exists(), "{len}");
    }
    fs::write(&path, &whole).unwrap();
    assert!(restore(&store, &tokens(50)).0.is_some());
}

#[test]
fn an_entry_with_any_bit_flipped_is_noticed_and_removed() {
    let folder = TempDir::new().unwrap();
    let store = store(folder.path());
    keep(&store, &tokens(40), LONG, false);
    let path = only_entry(&folder);
    let whole = fs::read(&path).unwrap();
    for bit in 0..8 * whole.len() {
        let mut flipped = whole.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        fs::write(&path, &flipped).unwrap();
        let (restored, note) = restore(&store, &tokens(50));
        assert_eq!(restored, None, "{bit}");
        assert!(note.starts_with("cache: an entry is not used and removed: it"), "{bit}: {note}");
        assert!(!path.exists(), "{bit}");
    }
}

#[test]
fn the_next_best_takes_the_place_of_a_broken_entry() {
    let folder = TempDir::new().unwrap();
    let store = store(folder.path());
    keep(&store, &tokens(40), LONG, false);
    let first = only_entry(&folder);
    keep(&store, &tokens(60), LONG, false);
    let better = entries(folder.path()).into_iter().find(|path| *path != first).unwrap();
    let mut bytes = fs::read(&better).unwrap();
    bytes[100] ^= 1;
    fs::write(&better, bytes).unwrap();
    let (restored, note) = restore(&store, &tokens(70));
    assert_eq!(restored, Some(tokens(40)));
    assert!(note.starts_with("cache: an entry is not used and removed: its content is damaged\n"), "{note}");
    assert_eq!(only_entry(&folder), first);
}

#[test]
fn an_entry_of_another_version_is_left_alone() {
    let folder = TempDir::new().unwrap();
    let store = store(folder.path());
    keep(&store, &tokens(40), LONG, false);
    let path = only_entry(&folder);
    let json = br#"{"version":2,"all":"different"}"#;
    let mut bytes = json.to_vec();
    bytes.extend((json.len() as u64).to_le_bytes());
    bytes.extend(XxHash3_64::oneshot(json).to_le_bytes());
    bytes.extend(b"infer-kv");
    fs::write(&path, bytes).unwrap();
    let expected = "cache: an entry is not used: another version of this program made it";
    assert_eq!(restore(&store, &tokens(50)), (None, expected.to_owned()));
    assert!(path.exists());
}

#[test]
fn what_was_used_longest_ago_goes_first() {
    let folder = TempDir::new().unwrap();
    let roomy = store(folder.path());
    let mut paths = Vec::new();
    for first in 1..5 {
        let tokens: Vec<Token> = (first * 1000..first * 1000 + 40).collect();
        keep(&roomy, &tokens, LONG, false);
        let path = entries(folder.path()).into_iter().find(|path| !paths.contains(path)).unwrap();
        age(&path, 100 - u64::try_from(first).unwrap());
        paths.push(path);
    }
    let is_there = || paths.iter().map(|path| path.exists()).collect::<Vec<_>>();
    // The oldest is used, which makes it the newest.
    assert!(restore(&roomy, &(1000..1050).collect::<Vec<_>>()).0.is_some());
    // Three entries, whose measured times may take a digit more.
    let limit = 3 * paths[0].metadata().unwrap().len() + 100;
    let tight = PrefixStore { limit, ..store(folder.path()) };
    let mut notes = Vec::new();
    tight.trim(&mut |note| notes.push(note.to_owned()));
    assert!(notes.len() == 1 && notes[0].starts_with("cache: removed 1 entry, "), "{notes:?}");
    assert_eq!(is_there(), [true, false, true, true]);
    // Room is made for as many tokens as this before they are written, and a little more than they take.
    let limit = limit + entry::longest_description(40);
    keep(&PrefixStore { limit, ..store(folder.path()) }, &(5000..5040).collect::<Vec<_>>(), LONG, false);
    assert_eq!(is_there(), [true, false, false, true]);
    let note = keep(
        &PrefixStore { limit: 100, ..store(folder.path()) },
        &(6000..6040).collect::<Vec<_>>(),
        LONG,
        false,
    );
    assert!(note.ends_with("are more than the cache may hold"), "{note}");
    assert_eq!(entries(folder.path()).len(), 3);
}

#[test]
fn there_are_never_more_than_so_many_entries() {
    let folder = TempDir::new().unwrap();
    let store = store(folder.path());
    keep(&store, &tokens(40), LONG, false);
    let first = only_entry(&folder);
    let copies: Vec<PathBuf> = (0..MOST + 2).map(|n| folder.path().join(format!("{n}.kv"))).collect();
    for (n, copy) in copies.iter().enumerate() {
        fs::copy(&first, copy).unwrap();
        age(copy, 1000 - n as u64);
    }
    let mut notes = Vec::new();
    store.trim(&mut |note| notes.push(note.to_owned()));
    let is_removal = |notes: &[String]| {
        notes.len() == 1
            && notes[0].starts_with("cache: removed 3 entries, ")
            && notes[0].ends_with(": 256 entries and 1.0 MB are the most that is kept")
    };
    assert!(is_removal(&notes), "{notes:?}");
    assert_eq!(entries(folder.path()).len(), MOST);
    assert!(first.exists() && copies.iter().take(3).all(|copy| !copy.exists()), "the oldest go");
    // One more takes the place of the oldest, one for the same tokens takes none.
    keep(&store, &tokens(50), LONG, false);
    assert!(entries(folder.path()).len() == MOST && !copies[3].exists() && copies[4].exists());
    keep(&store.for_session("work"), &tokens(60), LONG, true);
    assert!(!copies[4].exists() && copies[5].exists());
    keep(&self::store(folder.path()).for_session("work"), &tokens(70), LONG, true);
    assert!(entries(folder.path()).len() == MOST && copies[5].exists());
}

#[test]
fn what_a_dead_process_left_is_removed_and_other_files_are_not() {
    let folder = TempDir::new().unwrap();
    for name in ["abc.kv-new", "notes.txt"] {
        fs::write(folder.path().join(name), "x").unwrap();
    }
    store(folder.path()).trim(&mut |note| panic!("{note}"));
    assert!(!folder.path().join("abc.kv-new").exists());
    keep(&store(folder.path()), &tokens(40), LONG, false);
    fs::write(folder.path().join("def.kv-new"), "x").unwrap();
    let entry = only_entry(&folder).metadata().unwrap().len();
    assert_eq!(clear(folder.path()).unwrap(), entry + 1);
    let mut left: Vec<_> =
        fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["lock", "notes.txt"]);
}

#[cfg(unix)]
#[test]
fn nobody_else_can_read_it() {
    use std::os::unix::fs::PermissionsExt;
    let parent = TempDir::new().unwrap();
    let folder = parent.path().join("a/b");
    keep(&store(&folder), &tokens(40), LONG, false);
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&folder), mode(&parent.path().join("a"))), (0o700, 0o700));
    let files: Vec<PathBuf> = fs::read_dir(&folder).unwrap().map(|file| file.unwrap().path()).collect();
    assert_eq!(files.len(), 2);
    assert!(files.iter().all(|path| mode(path) == 0o600));
}

#[test]
fn two_that_write_the_same_entry_leave_a_whole_one() {
    let folder = TempDir::new().unwrap();
    let (start, whole) = (Barrier::new(4), [40, 50, 60, 70]);
    std::thread::scope(|threads| {
        for count in [40, 50, 60, 70] {
            let (folder, start) = (folder.path(), &start);
            threads.spawn(move || {
                let store = store(folder).for_session("work");
                start.wait();
                for _ in 0..5 {
                    let note = keep(&store, &tokens(count), LONG, true);
                    let kept = note.starts_with(&format!("cache: {count} tokens kept"));
                    assert!(kept || note.ends_with("another process is writing"), "{note}");
                    // Nothing where it was replaced at that moment.
                    let restored = restore(&store, &tokens(99)).0.unwrap_or_default().len();
                    assert!(restored == 0 || whole.contains(&restored), "{restored}");
                }
            });
        }
    });
    let left = restore(&store(folder.path()).for_session("work"), &tokens(99)).0;
    assert!(left.is_some_and(|tokens| whole.contains(&tokens.len())));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "the entry and the lock");
}

#[test]
fn an_entry_that_is_replaced_while_it_is_read_stays() {
    let (folder, other) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let [ours, _] = [(&folder, 40), (&other, 50)].map(|(folder, count)| {
        let store = store(folder.path()).for_session("work");
        keep(&store, &tokens(count), LONG, true);
        store
    });
    let mut engine = engine(&[]);
    engine.replacement = Some(only_entry(&other));
    let (restored, why_not) = ours.restore(&mut engine, <[Token]>::len, 0, &mut |note| panic!("{note}"));
    assert_eq!((restored, why_not), (Some(Restored::default()), None));
    assert_eq!(restore(&ours, &tokens(99)).0, Some(tokens(50)));
}

#[test]
fn a_folder_that_cannot_be_written_is_a_note() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("file"), "").unwrap();
    let note = keep(&store(&folder.path().join("file/below")), &tokens(40), LONG, false);
    assert!(note.starts_with("cache: 40 tokens are not kept: "), "{note}");
    assert_eq!(clear(&folder.path().join("none")).unwrap(), 0);
    assert!(list(&folder.path().join("none")).is_empty());
}

#[test]
fn a_list_has_what_was_used_last_first() {
    let folder = TempDir::new().unwrap();
    let store = store(folder.path()).for_session("work");
    keep(&store, &tokens(40), LONG, false);
    age(&only_entry(&folder), 100);
    keep(&store, &tokens(50), LONG, true);
    fs::write(folder.path().join("broken.kv"), "x").unwrap();
    age(&folder.path().join("broken.kv"), 200);
    let shown = |held: &Held| {
        held.about.as_ref().map(|about| (about.model.clone(), about.tokens.len(), about.session.clone()))
    };
    let expected =
        [Some(("tiny".to_owned(), 50, Some("work".to_owned()))), Some(("tiny".to_owned(), 40, None)), None];
    assert_eq!(list(folder.path()).iter().map(shown).collect::<Vec<_>>(), expected);
}

#[test]
fn a_check_reads_all_entries_until_it_is_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    for (count, age_of) in [(40, 1), (50, 2), (60, 3)] {
        keep(&store, &tokens(count), LONG, false);
        let path = entries(folder.path())
            .into_iter()
            .find(|path| About::read(path).is_ok_and(|about| about.tokens == tokens(count)))
            .unwrap();
        if count == 50 {
            // One byte of what the engine wrote.
            let mut bytes = fs::read(&path).unwrap();
            bytes[4] ^= 1;
            fs::write(&path, bytes).unwrap();
        }
        age(&path, age_of);
    }
    fs::write(folder.path().join("other.kv"), "no entry").unwrap();
    age(&folder.path().join("other.kv"), 4);
    let bytes = list(folder.path()).iter().map(|held| held.bytes).sum();
    for (stop_after, broken, unread) in [(9, 2, 0), (2, 2, 1), (1, 1, 2), (0, 1, 3)] {
        let mut told = Vec::new();
        let health = check(folder.path(), &mut |done, all| {
            assert_eq!(all, bytes);
            told.push(done);
            if told.len() > stop_after { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        assert_eq!(health, Health { entries: 4, bytes, broken, unread }, "{stop_after}");
        assert!(told[0] == 0 && told.is_sorted() && told.len() == 4.min(stop_after + 1), "{told:?}");
    }
}
