//! What an interruption leaves, and that the same command goes on from there.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{
    FILE, MIB, REPO, SECOND, assert_nothing_published, assert_published, blobs, content, events, folder, hub,
    is_get, path_of, pull, said, timeless,
};
use crate::support::hub::{Content, Fault, Hub, Place};
use crate::support::{Ran, Stream};

const ONE: [&str; 3] = [REPO, "--connections", "1"];

/// A pull that is interrupted when the first of its two ranges is here, and one that goes on.
fn interrupted(hub: &Hub) -> Ran {
    // Told to wait for half a minute, it says so, and then a person loses patience.
    hub.set(Fault::TooMany { retry_after: 30 }.after(1).at(Place::Cdn));
    let cdn = hub.cdn();
    let wait = "429 Too Many Requests; trying again in 30.0 s\n";
    let said = said(hub);
    let begun = &said[..said.find("m-Q4_K_M.gguf: 6.3 MB in").expect("the last line")];
    let ran = pull(hub, &ONE)
        .interrupt_after(Stream::Stderr, wait)
        .status(130)
        .stderr(format!(
            "{begun}{} answers {wait}interrupted: 4.2 MB of 6.3 MB are kept; the same command goes on from there\n",
            cdn.trim_start_matches("http://")
        ))
        .run();
    assert_nothing_published(&ran.home);
    let sha256 = content().sha256();
    assert_eq!(blobs(&ran.home), [format!("{sha256}.infer-part"), format!("{sha256}.infer-part.json")]);
    hub.clear_faults();
    hub.forget();
    ran
}

/// What the same command says then.
fn resumed(hub: &Hub) -> String {
    said(hub)
        .replace("(6.3 MB)", "(6.3 MB, 2.1 MB of it missing)")
        .replace("fetching 6.3 MB", "fetching 6.3 MB, 4.2 MB of them here already")
        .replace("6.3 MB in", "2.1 MB in")
}

#[test]
fn the_same_command_fetches_only_what_is_missing() {
    let hub = hub();
    let home = interrupted(&hub).home;
    let path = path_of(&hub, REPO, FILE);
    pull(&hub, &ONE).home(&home).stdout(path).stderr_is(timeless(resumed(&hub))).run();
    assert_eq!(hub.ranges(), [SECOND]);
    assert_published(&hub, &home, &content());
}

#[test]
fn an_interruption_loses_at_most_an_unfinished_block_of_each_connection() {
    let (hub, held) = (hub(), 3 * MIB + 500_000);
    hub.set(Fault::Hold { after: held });
    let ran = pull(&hub, &[REPO, "--connections", "1", "--json"])
        .interrupt_after(Stream::Stdout, format!("\"have\":{held},"))
        .status(130)
        .stdout_is(|_| true)
        .run();
    let last: Value = serde_json::from_str(ran.stdout.lines().last().expect("an error")).expect("JSON");
    let message = "interrupted: 3.1 MB of 6.3 MB are kept; the same command goes on from there";
    assert_eq!(last, json!({ "error": { "kind": "interrupted", "message": message, "hint": null } }));
    hub.release();
    let second =
        pull(&hub, &[REPO, "--connections", "1", "--json"]).home(&ran.home).stdout_is(|_| true).run();
    let all = events(&second.stdout);
    let (plan, begin, file) = (&all[0], &all[1], &all[2]);
    assert_eq!(
        json!([plan["missing"], plan["files"][0]["have"], begin["have"], file["fetched"]]),
        json!([3 * MIB, 3 * MIB, 3 * MIB, 3 * MIB])
    );
    assert_eq!(hub.sent_twice(), held - 3 * MIB);
    assert_published(&hub, &ran.home, &content());
}

/// Changes one byte of what an interrupted pull left.
fn hurt(home: &Arc<TempDir>, at: u64) {
    let part = folder(home.path(), REPO).join("blobs").join(format!("{}.infer-part", content().sha256()));
    let mut bytes = std::fs::read(&part).expect("a part file");
    bytes[usize::try_from(at).expect("a place")] ^= 0xff;
    std::fs::write(&part, bytes).expect("a part file");
}

#[test]
fn a_block_hurt_on_the_disk_is_fetched_again_and_no_other() {
    let hub = hub();
    let home = interrupted(&hub).home;
    hurt(&home, 2 * MIB + 17);
    let path = path_of(&hub, REPO, FILE);
    let said = resumed(&hub).replace("2.1 MB in", "3.1 MB in");
    pull(&hub, &ONE).home(&home).stdout(path).stderr_is(timeless(said)).run();
    let mut ranges = hub.ranges();
    ranges.sort_by_key(|range| range.start);
    assert_eq!(ranges, [2 * MIB..3 * MIB, SECOND]);
    assert_published(&hub, &home, &content());
}

#[test]
fn a_part_file_that_was_cut_or_lost_is_filled_again() {
    for length in [Some(2 * MIB), Some(0), None] {
        let hub = hub();
        let home = interrupted(&hub).home;
        let part = folder(home.path(), REPO).join("blobs").join(format!("{}.infer-part", content().sha256()));
        match length {
            Some(length) => std::fs::File::options().write(true).open(&part).and_then(|f| f.set_len(length)),
            None => std::fs::remove_file(&part),
        }
        .expect("a part file");
        pull(&hub, &[REPO, "--connections", "1", "-q"]).home(&home).stdout(path_of(&hub, REPO, FILE)).run();
        assert_eq!(hub.cdn_bytes(), 6 * MIB - length.unwrap_or(0));
        assert_published(&hub, &home, &content());
    }
}

#[test]
fn an_older_version_of_the_file_is_dropped() {
    let hub = hub();
    let home = interrupted(&hub).home;
    let newer = Content::big_gguf(6 * MIB, 2);
    hub.change(REPO, |repo| repo.content(FILE, &newer));
    let old = "org/name/m-Q4_K_M.gguf has changed on the hub: 4.2 MB of its older version are dropped\n";
    let said = said(&hub).replace("m-Q4_K_M.gguf: fetching", &format!("{old}m-Q4_K_M.gguf: fetching"));
    pull(&hub, &ONE).home(&home).stdout(path_of(&hub, REPO, FILE)).stderr_is(timeless(said)).run();
    assert_published(&hub, &home, &newer);
}

#[test]
fn a_damaged_record_is_not_trusted() {
    let hub = hub();
    let home = interrupted(&hub).home;
    let journal = format!("{}.infer-part.json", content().sha256());
    std::fs::write(folder(home.path(), REPO).join("blobs").join(journal), "{}\n").expect("a journal");
    let note = "org/name/m-Q4_K_M.gguf: what an earlier download left cannot be used (its record is damaged); starting over\n";
    let said = said(&hub).replace("m-Q4_K_M.gguf: fetching", &format!("{note}m-Q4_K_M.gguf: fetching"));
    pull(&hub, &ONE).home(&home).stdout(path_of(&hub, REPO, FILE)).stderr_is(timeless(said)).run();
    assert_published(&hub, &home, &content());
}

#[test]
fn a_moved_branch_with_the_same_bytes_goes_on() {
    let hub = hub();
    let home = interrupted(&hub).home;
    let commit = hub.change(REPO, |repo| repo.file("README.md", "# New\n"));
    pull(&hub, &[REPO, "--connections", "1", "-q"]).home(&home).stdout(path_of(&hub, REPO, FILE)).run();
    assert_eq!(hub.ranges(), [SECOND]);
    assert!(path_of(&hub, REPO, FILE).contains(&commit));
    assert_published(&hub, &home, &content());
}

#[test]
fn an_interruption_while_the_hub_thinks_ends_at_once() {
    for place in [Place::Info, Place::Head] {
        let hub = hub();
        hub.set(Fault::TooMany { retry_after: 30 }.at(place));
        let endpoint = hub.endpoint();
        let wait = "429 Too Many Requests; trying again in 30.0 s\n";
        pull(&hub, &[REPO])
            .interrupt_after(Stream::Stderr, wait)
            .status(130)
            .stderr(format!(
                "{} answers {wait}interrupted; the same command goes on\n",
                endpoint.trim_start_matches("http://")
            ))
            .run();
    }
}

/// Waits until a file of a test says something.
#[track_caller]
fn wait_for_text(path: &std::path::Path, text: &str) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !std::fs::read_to_string(path).is_ok_and(|all| all.contains(text)) {
        assert!(Instant::now() < deadline, "`{text}` never came");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn waiting_for_another_is_an_event() {
    let hub = hub();
    hub.set(Fault::Hold { after: MIB });
    let home = Arc::new(TempDir::new().expect("a temporary folder"));
    thread::scope(|scope| {
        let first =
            scope.spawn(|| pull(&hub, &[REPO, "-q"]).home(&home).stdout(path_of(&hub, REPO, FILE)).run());
        hub.wait_for_bytes(MIB);
        let second = scope.spawn(|| {
            pull(&hub, &[REPO, "--json"]).home(&home).redirect(">second.txt").run();
        });
        wait_for_text(&home.path().join("second.txt"), "\"locked\"");
        hub.release();
        first.join().expect("the first");
        second.join().expect("the second");
    });
    let second = std::fs::read_to_string(home.path().join("second.txt")).expect("what the second said");
    let all = events(&second);
    assert_eq!(all[1], json!({ "event": "locked", "path": FILE }));
    assert_eq!(json!([all[2]["event"], all[2]["fetched"], all[3]["event"]]), json!(["file", 0, "done"]));
}

#[test]
fn two_at_once_fetch_it_once() {
    let hub = hub();
    hub.set(Fault::Hold { after: MIB });
    let home = Arc::new(TempDir::new().expect("a temporary folder"));
    let path = path_of(&hub, REPO, FILE);
    thread::scope(|scope| {
        let first = scope.spawn(|| {
            pull(&hub, &ONE).home(&home).stdout(&path).stderr_is(timeless(said(&hub))).run();
        });
        hub.wait_for_bytes(MIB);
        let second =
            scope.spawn(|| pull(&hub, &ONE).home(&home).stdout(&path).redirect("2>second.txt").run());
        wait_for_text(&home.path().join("second.txt"), "another process fetches m-Q4_K_M.gguf; waiting\n");
        hub.release();
        first.join().expect("the first");
        second.join().expect("the second");
    });
    let second = std::fs::read_to_string(home.path().join("second.txt")).expect("what the second said");
    assert!(second.ends_with("; waiting\nm-Q4_K_M.gguf: already here\n"), "{second}");
    assert_eq!((hub.cdn_bytes(), hub.count(is_get)), (6 * MIB, 2));
    assert_published(&hub, &home, &content());
}

#[test]
fn waiting_for_another_can_be_interrupted() {
    let hub = hub();
    hub.set(Fault::Hold { after: MIB });
    let home = Arc::new(TempDir::new().expect("a temporary folder"));
    thread::scope(|scope| {
        let first =
            scope.spawn(|| pull(&hub, &[REPO, "-q"]).home(&home).stdout(path_of(&hub, REPO, FILE)).run());
        hub.wait_for_bytes(MIB);
        pull(&hub, &ONE)
            .home(&home)
            .interrupt_after(Stream::Stderr, "; waiting\n")
            .status(130)
            .stderr_is(|text| {
                text.ends_with(
                    "another process fetches m-Q4_K_M.gguf; waiting\ninterrupted; the same command goes on\n",
                )
            })
            .run();
        hub.release();
        first.join().expect("the first");
    });
    assert_published(&hub, &home, &content());
}
