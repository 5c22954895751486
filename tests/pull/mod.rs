//! `infer pull` against the loopback hub: what it fetches, what it says, and what it leaves on the disk.

mod access;
mod answers;
mod disk;
mod environment;
mod faults;
mod names;
#[cfg(unix)]
mod resume;
mod security;

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::Infer;
use crate::support::hub::{Content, Fault, Hub, Place, Repo, Request, Server};
use crate::support::tiny_gguf::Tiny;

const MIB: u64 = 1 << 20;
const REPO: &str = "org/name";
const FILE: &str = "m-Q4_K_M.gguf";

/// The ranges that one connection asks for when nothing is wrong.
const FIRST: Range<u64> = 0..4 * MIB;
const SECOND: Range<u64> = 4 * MIB..6 * MIB;

/// A model of six blocks.
fn content() -> Content {
    Content::big_gguf(6 * MIB, 1)
}

/// A hub with one model.
fn hub() -> Hub {
    Hub::with(Repo::new(REPO).content(FILE, &content()))
}

fn pull(hub: &Hub, args: &[&str]) -> Infer {
    pull_from(&hub.endpoint(), args)
}

fn pull_from(endpoint: &str, args: &[&str]) -> Infer {
    Infer::new().arg("pull").args(args.iter().copied()).env("HF_ENDPOINT", endpoint)
}

/// A model with little in it, for what is not about its bytes.
fn tiny() -> Vec<u8> {
    Tiny::llama().bytes()
}

/// The folder of a repository in the cache of a home.
fn folder(home: &Path, repo: &str) -> PathBuf {
    home.join("cache/huggingface/hub").join(format!("models--{}", repo.replace('/', "--")))
}

/// Where a file is after a pull, as it is printed.
fn path_of(hub: &Hub, repo: &str, file: &str) -> String {
    let folder = format!("{{home}}/cache/huggingface/hub/models--{}", repo.replace('/', "--"));
    format!("{folder}/snapshots/{}/{file}\n", hub.commit(repo, "main"))
}

/// What is said beside the path when all goes well.
fn said(hub: &Hub) -> String {
    said_with(hub, "")
}

/// The same with some lines after the first byte.
fn said_with(hub: &Hub, notes: &str) -> String {
    let endpoint = hub.endpoint();
    format!(
        "org/name:Q4_K_M (6.3 MB)\nlicense: apache-2.0 ({endpoint}/org/name)\n\
         m-Q4_K_M.gguf: fetching 6.3 MB\n{notes}m-Q4_K_M.gguf: 6.3 MB in TIME, SHA-256 verified\n"
    )
}

/// A check of stderr that does not look at how long things took.
fn timeless(expected: impl Into<String>) -> impl Fn(&str) -> bool + 'static {
    let expected = expected.into();
    move |text| {
        let masked: String = text.lines().map(masked).collect();
        assert_eq!(masked, expected);
        true
    }
}

fn masked(line: &str) -> String {
    match (line.split_once(" in "), line.strip_suffix(", SHA-256 verified")) {
        (Some((what, _)), Some(_)) => format!("{what} in TIME, SHA-256 verified\n"),
        _ => format!("{line}\n"),
    }
}

/// That the model is there as it should be, and nothing is left of its download.
#[track_caller]
fn assert_published(hub: &Hub, home: &Arc<TempDir>, content: &Content) {
    let folder = folder(home.path(), REPO);
    let pointer = folder.join("snapshots").join(hub.commit(REPO, "main")).join(FILE);
    let bytes = std::fs::read(pointer).expect("a published model");
    assert!(bytes == content.bytes(&(0..content.len())), "the bytes are others");
    assert_eq!(blobs(home), [content.sha256()]);
    assert_eq!(std::fs::read_to_string(folder.join("refs/main")).ok(), Some(hub.commit(REPO, "main")));
    assert_eq!((hub.xet_requests(), hub.token_seen_on_cdn()), (0, false));
}

/// That there is nothing that could be taken for a model.
#[track_caller]
fn assert_nothing_published(home: &Arc<TempDir>) {
    let snapshots = folder(home.path(), REPO).join("snapshots");
    let found: Vec<_> = std::fs::read_dir(snapshots).into_iter().flatten().collect();
    assert!(found.is_empty(), "{found:?}");
    assert!(!blobs(home).contains(&content().sha256()));
}

/// The names of what lies among the blobs.
fn blobs(home: &Arc<TempDir>) -> Vec<String> {
    let entries = std::fs::read_dir(folder(home.path(), REPO).join("blobs")).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn is_head(request: &Request) -> bool {
    request.server == Server::Hub && request.method == "HEAD"
}

fn is_get(request: &Request) -> bool {
    request.server == Server::Cdn && request.method == "GET"
}

#[test]
fn a_model_lies_where_python_looks_for_it() {
    let (hub, content) = (hub(), content());
    let ran = pull(&hub, &[REPO]).stdout(path_of(&hub, REPO, FILE)).stderr_is(timeless(said(&hub))).run();
    assert_published(&hub, &ran.home, &content);
    let commit = hub.commit(REPO, "main");
    assert_eq!(
        hub.lines(Server::Hub),
        ["GET /api/models/org/name 200", &format!("HEAD /org/name/resolve/{commit}/{FILE} 302")]
    );
    let agents = hub.count(|r| r.header("user-agent").is_some_and(|agent| agent.starts_with("infer/")));
    assert_eq!(agents, hub.requests().len());
    let folder = folder(ran.home.path(), REPO);
    let link = std::fs::read_link(folder.join("snapshots").join(&commit).join(FILE)).expect("a link");
    assert_eq!(link, Path::new("../../blobs").join(content.sha256()));
}

#[test]
fn a_second_pull_asks_and_fetches_nothing() {
    let hub = hub();
    let first = pull(&hub, &[REPO]).stdout(path_of(&hub, REPO, FILE)).stderr_is(timeless(said(&hub))).run();
    hub.forget();
    pull(&hub, &[REPO])
        .home(&first.home)
        .stdout(path_of(&hub, REPO, FILE))
        .stderr_is(|text| text.ends_with("\nm-Q4_K_M.gguf: already here\n") && text.lines().count() == 2)
        .run();
    assert_eq!((hub.asked(Server::Hub), hub.asked(Server::Cdn)), (2, 0));
}

#[test]
fn quiet_is_only_the_path() {
    let hub = hub();
    let ran = pull(&hub, &[REPO, "-q"]).stdout(path_of(&hub, REPO, FILE)).run();
    assert_published(&hub, &ran.home, &content());
}

#[test]
fn several_models_come_one_after_the_other() {
    let hub = hub();
    hub.add(Repo::new("org/other").file("o-Q8_0.gguf", tiny()));
    let paths = path_of(&hub, "org/other", "o-Q8_0.gguf") + &path_of(&hub, REPO, FILE);
    pull(&hub, &["org/other", REPO, "-q"]).stdout(paths).run();
    // The first that fails ends it; what came before stays.
    let ran = pull(&hub, &["org/other", "org/none", REPO, "-q"])
        .status(3)
        .stdout(path_of(&hub, "org/other", "o-Q8_0.gguf"))
        .stderr(
            "error: org/none does not exist, or is private and no token is set\n\
             hint: check the spelling; for a private one set HF_TOKEN, or log in with `hf auth login`\n",
        )
        .run();
    assert_eq!(blobs(&ran.home), [""; 0]);
}

#[test]
fn what_was_pulled_answers() {
    let demo = std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/demo/demo-f16.gguf"));
    let hub = Hub::with(Repo::new("org/repo").file("demo-f16.gguf", demo.expect("the demo model")));
    let ran = pull(&hub, &["org/repo", "-q"]).stdout(path_of(&hub, "org/repo", "demo-f16.gguf")).run();
    hub.forget();
    Infer::new()
        .args(["run", "org/repo", "What is the capital of France?", "--temp", "0"])
        .env("HF_ENDPOINT", hub.endpoint())
        .home(&ran.home)
        .stdout("The capital of France is Paris.\n")
        .run();
    assert_eq!(hub.requests().len(), 0);
}

#[test]
fn run_pulls_what_is_not_here_when_told_to() {
    let demo = std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/demo/demo-f16.gguf"));
    let hub = Hub::with(Repo::new("org/repo").file("demo-f16.gguf", demo.expect("the demo model")));
    let run = || {
        Infer::new()
            .args(["run", "org/repo", "What is the capital of France?", "--temp", "0", "-q"])
            .env("HF_ENDPOINT", hub.endpoint())
    };
    run()
        .status(3)
        .stderr("error: `org/repo` is not on this machine\nhint: `infer pull org/repo`, or give `--yes`\n")
        .run();
    assert_eq!(hub.requests().len(), 0);
    run().arg("--yes").stdout("The capital of France is Paris.\n").run();
}

#[test]
fn a_dry_run_fetches_nothing() {
    let hub = hub();
    let ran = pull(&hub, &[REPO, "--dry-run"]).stderr("org/name:Q4_K_M (6.3 MB)\n").run();
    assert_eq!((hub.asked(Server::Hub), hub.asked(Server::Cdn)), (2, 0));
    assert!(!folder(ran.home.path(), REPO).exists());
}

#[test]
fn a_model_may_be_too_large() {
    let hub = hub();
    pull(&hub, &[REPO, "--max-size", "5MB"])
        .status(5)
        .stderr(
            "error: org/name has 6.3 MB, more than 5.0 MB\n\
             hint: raise `--max-size`, or choose a smaller quant\n",
        )
        .run();
    assert_eq!(hub.asked(Server::Cdn), 0);
    pull(&hub, &[REPO, "--max-size", "6MiB", "-q"]).stdout(path_of(&hub, REPO, FILE)).run();
}

/// Events without what depends on time: seconds are rounded away, progress may come any number of times.
fn events(stdout: &str) -> Vec<Value> {
    let mut events: Vec<Value> =
        stdout.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect();
    events.retain(|event| event["event"] != "progress");
    for event in &mut events {
        if event["event"] == "file" {
            assert!(event["seconds"].is_f64(), "{event}");
            event["seconds"] = json!("TIME");
        }
    }
    events
}

#[test]
fn events_for_a_program() {
    let (hub, content) = (hub(), content());
    let ran = pull(&hub, &[REPO, "--json"]).stdout_is(|_| true).run();
    let (sha256, commit) = (content.sha256(), hub.commit(REPO, "main"));
    let at =
        format!("{}", folder(ran.home.path(), REPO).join("snapshots").join(&commit).join(FILE).display());
    let bytes = 6 * MIB;
    let expected = [
        json!({
            "event": "plan", "model": REPO, "repo": REPO, "commit": commit, "variant": "Q4_K_M",
            "license": "apache-2.0", "bytes": bytes, "missing": bytes,
            "files": [{ "path": FILE, "bytes": bytes, "have": 0, "sha256": sha256 }],
        }),
        json!({ "event": "begin", "path": FILE, "have": 0, "bytes": bytes }),
        json!({
            "event": "file", "path": FILE, "at": at, "bytes": bytes, "fetched": bytes, "seconds": "TIME",
            "sha256": sha256,
        }),
        json!({ "event": "done", "model": REPO, "path": at }),
    ];
    assert_eq!(events(&ran.stdout), expected);
    let progress = ran.stdout.lines().find(|line| line.contains("\"progress\"")).expect("progress");
    let progress: Value = serde_json::from_str(progress).expect("JSON");
    let keys: Vec<_> = progress.as_object().expect("an object").keys().collect();
    assert_eq!(keys, ["event", "path", "have", "bytes"]);

    let error = pull(&hub, &["org/none", "--json"]).status(3).stdout_is(|_| true).run();
    assert_eq!(
        events(&error.stdout),
        [json!({ "error": {
            "kind": "not_found",
            "message": "org/none does not exist, or is private and no token is set",
            "hint": "check the spelling; for a private one set HF_TOKEN, or log in with `hf auth login`",
        } })]
    );
}

#[test]
fn waits_and_notes_are_events_too() {
    let hub = hub();
    hub.set(Fault::TooMany { retry_after: 1 }.at(Place::Head).times(1));
    hub.set(Fault::Status(503).at(Place::Info).times(1));
    hub.set(Fault::IgnoreRange);
    let text = "the server sends whole files only: one connection, and what breaks begins again";
    // What must not pass silently does not depend on who reads the events.
    let ran = pull(&hub, &[REPO, "--json"]).stdout_is(|_| true).stderr(format!("{text}\n")).run();
    let mut all = events(&ran.stdout);
    let retry = all.remove(0);
    assert!(retry["seconds"].as_f64().is_some_and(|wait| (0.25..=0.5).contains(&wait)), "{retry}");
    let host = hub.endpoint().replace("http://", "");
    let expected = json!({
        "event": "retry", "why": format!("{host} answers 503 Service Unavailable"), "seconds": retry["seconds"],
    });
    assert_eq!(retry, expected);
    let why = format!("{host} answers 429 Too Many Requests");
    assert_eq!(all[0], json!({ "event": "wait", "why": why, "seconds": 1.0 }));
    assert_eq!(all[3], json!({ "event": "note", "text": text }));
    let names: Vec<_> = all.iter().filter_map(|event| event["event"].as_str()).collect();
    assert_eq!(names, ["wait", "plan", "begin", "note", "file", "done"]);
    // The same for a person who wants to know everything.
    hub.set(Fault::Status(503).at(Place::Info).times(1));
    pull(&hub, &[REPO, "--dry-run", "-v"])
        .stderr_is(move |text| {
            text.contains(&format!("{host} answers 503 Service Unavailable; trying again in 0."))
        })
        .run();
}

#[test]
fn a_program_that_reads_no_more_ends_the_pull() {
    let hub = hub();
    hub.rate(Some(MIB));
    let ran = pull(&hub, &[REPO, "--json", "--connections", "1"])
        .status(130)
        .stdout_is(|_| true)
        .hang_up_after(1)
        .run();
    assert_nothing_published(&ran.home);
}

#[test]
fn bytes_come_over_as_many_connections_as_are_wanted() {
    for (wanted, expected) in [("1", 1), ("2", 2), ("16", 6)] {
        let hub = hub();
        hub.set(Fault::Hold { after: 0 });
        std::thread::scope(|scope| {
            let pull = scope.spawn(|| {
                let path = path_of(&hub, REPO, FILE);
                pull(&hub, &[REPO, "-q", "--connections", wanted]).stdout(path).run()
            });
            hub.wait_for(expected, is_get);
            let connections = hub.connections(Server::Cdn);
            hub.release();
            assert_published(&hub, &pull.join().expect("a pull").home, &content());
            assert_eq!(connections, expected);
        });
    }
}
