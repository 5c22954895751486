//! One cache for two programs: Python's `huggingface_hub` and this one, against a hub on this machine.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::SMOLLM2;
use crate::support::hub::{Content, Fault, Hub, Repo, Request, Server};
use crate::support::tiny_gguf::{Tiny, Value as Meta};
use crate::support::{Infer, Ran, real_model, real_python};

/// What every script begins with.
const IMPORTS: &str = "
import json, sys
from huggingface_hub import constants, hf_hub_download, scan_cache_dir
from huggingface_hub.errors import LocalEntryNotFoundError
";

/// `hf_hub_download` for each of the arguments `file@revision`; prints paths, one a line.
const DOWNLOAD: &str = "
for name in sys.argv[2:]:
    file, revision = name.split('@')
    print(hf_hub_download(sys.argv[1], file, revision=revision))
";

/// The same without a look at the hub.
const FIND: &str = "
for name in sys.argv[2:]:
    file, revision = name.split('@')
    print(hf_hub_download(sys.argv[1], file, revision=revision, local_files_only=True))
";

/// What `scan_cache_dir` has to say: repositories with the refs and files of their commits.
const SCAN: &str = "
found = scan_cache_dir()
repos = {
    repo.repo_id: {
        'bytes': repo.size_on_disk,
        'commits': {
            revision.commit_hash: [sorted(revision.refs), sorted(file.file_name for file in revision.files)]
            for revision in repo.revisions
        },
    }
    for repo in found.repos
}
print(json.dumps({
    'warnings': [str(warning) for warning in found.warnings],
    'incomplete': len(found.incomplete_files),
    'repos': repos,
}))
";

/// A hub and a home where both programs have their cache.
struct Shared {
    hub: Hub,
    home: Arc<TempDir>,
}

impl Shared {
    fn with(repo: Repo) -> Self {
        Self { hub: Hub::with(repo), home: Arc::new(TempDir::new().expect("a temporary folder")) }
    }

    fn cache(&self) -> PathBuf {
        self.home.path().join("cache/huggingface")
    }

    fn infer(&self, verb: &str) -> Infer {
        Infer::new().home(&self.home).env("HF_ENDPOINT", self.hub.endpoint()).arg(verb)
    }

    /// Pulls and returns the path that is printed.
    #[track_caller]
    fn pull(&self, name: &str) -> String {
        let ran = self.infer("pull").arg(name).stdout_is(|_| true).stderr_is(|_| true).run();
        line(&ran).to_owned()
    }

    /// Pulls what has to be here already.
    #[track_caller]
    fn pull_nothing(&self, name: &str) -> String {
        let before = self.hub.cdn_bytes();
        let here = |text: &str| text.lines().last().is_some_and(|line| line.ends_with(": already here"));
        let ran = self.infer("pull").arg(name).stdout_is(|_| true).stderr_is(here).run();
        assert_eq!(self.hub.cdn_bytes(), before, "bytes were fetched again");
        line(&ran).to_owned()
    }

    fn python_command(&self, script: &str, args: &[&str]) -> Command {
        let mut command = Command::new(real_python());
        command.args(["-c", &format!("{IMPORTS}{script}")]).args(args).current_dir(self.home.path());
        command.env_clear().envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
        command
            .env("HOME", self.home.path())
            .env("HF_HOME", self.cache())
            .env("HF_ENDPOINT", self.hub.endpoint());
        for switch in ["HF_HUB_DISABLE_XET", "HF_HUB_DISABLE_TELEMETRY", "HF_HUB_DISABLE_PROGRESS_BARS"] {
            command.env(switch, "1");
        }
        command
    }

    /// What a script prints, when it ends well.
    #[track_caller]
    fn python(&self, script: &str, args: &[&str]) -> String {
        let ran = self.python_command(script, args).output().expect("Python");
        let said = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success(), "{script}\n{said}");
        String::from_utf8(ran.stdout).expect("text")
    }

    #[track_caller]
    fn python_paths(&self, script: &str, repo: &str, files: &[&str]) -> Vec<String> {
        let out = self.python(script, &[&[repo], files].concat());
        out.lines().map(str::to_owned).collect()
    }

    /// Python sees a cache without faults.
    #[track_caller]
    fn scan(&self) -> Value {
        let found: Value = serde_json::from_str(&self.python(SCAN, &[])).expect("JSON");
        assert_eq!((&found["warnings"], &found["incomplete"]), (&json!([]), &json!(0)));
        found["repos"].clone()
    }
}

/// A program that runs beside the test, and not longer than it.
struct Started(Child);

impl Started {
    fn new(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self(command.spawn().expect("a program"))
    }

    /// Waits for a line on stderr with these words.
    #[track_caller]
    fn says(&mut self, words: &str) {
        let mut lines = BufReader::new(self.0.stderr.as_mut().expect("a pipe")).lines();
        let said = lines.by_ref().map_while(Result::ok).find(|line| line.contains(words));
        assert!(said.is_some(), "{words:?} was not said");
    }

    /// Waits for a line on stdout.
    fn line(&mut self) -> String {
        let mut line = String::new();
        BufReader::new(self.0.stdout.as_mut().expect("a pipe")).read_line(&mut line).expect("a line");
        line.trim_end().to_owned()
    }

    /// Closes its stdin.
    fn let_go(&mut self) {
        drop(self.0.stdin.take());
    }

    /// All of stdout and of stderr, when it ends well.
    #[track_caller]
    fn end(mut self) -> (String, String) {
        self.let_go();
        let (mut out, mut err) = (String::new(), String::new());
        self.0.stdout.take().expect("a pipe").read_to_string(&mut out).expect("text");
        self.0.stderr.take().expect("a pipe").read_to_string(&mut err).expect("text");
        assert!(self.0.wait().expect("an end").success(), "{out}{err}");
        (out, err)
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // It has ended already, unless the test failed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[track_caller]
fn line(ran: &Ran) -> &str {
    let mut lines = ran.stdout.lines();
    lines.next().filter(|_| lines.next().is_none()).unwrap_or_else(|| panic!("one line: {}", ran.stdout))
}

/// A small model that is another one for every number.
fn tiny(number: u16) -> Vec<u8> {
    Tiny::llama().set("test.number", Meta::U16(number)).bytes()
}

fn demo() -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/demo/demo-f16.gguf");
    fs::read(path).expect("the demo model")
}

/// A repository with a branch, a tag and a pull request, each with a file of its own, and its name.
fn with_revisions() -> Repo {
    Repo::new("org/name")
        .file("m-Q4_0.gguf", tiny(1))
        .named("v1.0")
        .file("m-Q4_0.gguf", tiny(2))
        .named("refs/pr/1")
        .file("m-Q4_0.gguf", tiny(3))
        .named("feature/x")
        .file("m-Q4_0.gguf", tiny(4))
        .file("README.md", "# A model\n")
}

const REVISIONS: [&str; 4] = ["main", "v1.0", "refs/pr/1", "feature/x"];

fn is_body(request: &Request) -> bool {
    request.server == Server::Cdn && request.method == "GET"
}

#[test]
#[ignore = "needs Python's huggingface_hub"]
fn what_python_stored_is_found() {
    let shared = Shared::with(Repo::new("org/demo").file("demo-F16.gguf", demo()).file("config.json", "{}"));
    let stored = shared.python_paths(DOWNLOAD, "org/demo", &["demo-F16.gguf@main", "config.json@main"]);
    assert_eq!(shared.pull_nothing("org/demo"), stored[0]);

    let answer =
        |infer: Infer| infer.args(["-t", "1", "--temp", "0", "Hello!"]).stdout_is(|_| true).run().stdout;
    let expected = answer(Infer::new().args(["run", "demo"]));
    let asked = shared.hub.requests().len();
    for offline in ["0", "1"] {
        assert_eq!(answer(shared.infer("run").arg("org/demo").env("HF_HUB_OFFLINE", offline)), expected);
    }
    assert_eq!(shared.hub.requests().len(), asked, "what is here needs no hub");
    shared
        .infer("pull")
        .arg("org/demo")
        .env("HF_HUB_OFFLINE", "1")
        .stdout(format!("{}\n", stored[0]))
        .stderr("org/demo: already here\n")
        .run();
    let files = json!([["main"], ["config.json", "demo-F16.gguf"]]);
    assert_eq!(shared.scan()["org/demo"]["commits"][shared.hub.commit("org/demo", "main")], files);
}

#[test]
#[ignore = "needs Python's huggingface_hub"]
fn what_python_stored_of_every_revision_is_found() {
    let shared = Shared::with(with_revisions());
    let commit = shared.hub.commit("org/name", "v1.0");
    for revision in REVISIONS.into_iter().chain([commit.as_str()]) {
        let stored = shared.python_paths(DOWNLOAD, "org/name", &[&format!("m-Q4_0.gguf@{revision}")]);
        assert_eq!(shared.pull_nothing(&format!("org/name@{revision}")), stored[0]);
        shared.scan();
    }
    assert_eq!(shared.hub.count(is_body), REVISIONS.len(), "one of each");
}

#[test]
#[ignore = "needs Python's huggingface_hub"]
fn python_finds_what_was_pulled_of_every_revision() {
    let shared = Shared::with(with_revisions());
    let commit = shared.hub.commit("org/name", "v1.0");
    for revision in REVISIONS.into_iter().chain([commit.as_str()]) {
        let pulled = shared.pull(&format!("org/name@{revision}"));
        shared.scan();
        let bytes = shared.hub.cdn_bytes();
        let name = format!("m-Q4_0.gguf@{revision}");
        for script in [FIND, DOWNLOAD, FIND] {
            assert_eq!(shared.python_paths(script, "org/name", &[&name]), [pulled.as_str()]);
        }
        assert_eq!(shared.hub.cdn_bytes(), bytes, "bytes were fetched again");
    }
    let repos = shared.scan();
    for revision in REVISIONS {
        let commit = shared.hub.commit("org/name", revision);
        assert_eq!(repos["org/name"]["commits"][commit], json!([[revision], ["m-Q4_0.gguf"]]));
    }
}

#[test]
#[ignore = "needs Python's huggingface_hub"]
fn a_commit_alone_makes_no_ref_and_a_moved_branch_keeps_both() {
    let shared = Shared::with(with_revisions());
    let (old, new) = (shared.hub.commit("org/name", "v1.0"), shared.hub.commit("org/name", "main"));
    shared.pull(&format!("org/name@{old}"));
    assert_eq!(shared.scan()["org/name"]["commits"], json!({ &old: [[], ["m-Q4_0.gguf"]] }));
    shared.pull("org/name");
    let newer = shared.hub.change("org/name", |repo| repo.file("README.md", "# Another text\n"));
    // The model is the same in both commits.
    shared.pull_nothing("org/name");
    let commits = json!({
        &old: [[], ["m-Q4_0.gguf"]], &new: [[], ["m-Q4_0.gguf"]], &newer: [["main"], ["m-Q4_0.gguf"]],
    });
    assert_eq!(shared.scan()["org/name"]["commits"], commits);
    let found = shared.python_paths(FIND, "org/name", &["m-Q4_0.gguf@main"]);
    assert!(found[0].contains(&newer), "{found:?}");
}

#[test]
#[ignore = "needs Python's huggingface_hub"]
fn folders_and_shards_are_the_same_for_both() {
    let shards = [1, 2].map(|number| format!("Q8_0/m-Q8_0-0000{number}-of-00002.gguf"));
    let mut repo = Repo::new("org/name").file("sub/below/m-Q4_0.gguf", tiny(1));
    for (path, shard) in shards.iter().zip(Tiny::llama().split(2)) {
        repo = repo.file(path, shard.bytes());
    }
    let names = [shards[0].as_str(), &shards[1], "sub/below/m-Q4_0.gguf"].map(|path| format!("{path}@main"));
    let names: Vec<&str> = names.iter().map(String::as_str).collect();

    let ours = Shared::with(repo.clone());
    let pulled = [ours.pull("org/name:Q8_0"), ours.pull("org/name:Q4_0")];
    let bytes = ours.hub.cdn_bytes();
    for script in [FIND, DOWNLOAD] {
        let found = ours.python_paths(script, "org/name", &names);
        assert_eq!([&found[0], &found[2]], [&pulled[0], &pulled[1]]);
        assert!(found[1].ends_with(&shards[1]), "{}", found[1]);
    }
    assert_eq!(ours.hub.cdn_bytes(), bytes, "bytes were fetched again");
    ours.scan();

    let theirs = Shared::with(repo);
    let stored = theirs.python_paths(DOWNLOAD, "org/name", &names);
    assert_eq!(theirs.pull_nothing("org/name:Q8_0"), stored[0]);
    assert_eq!(theirs.pull_nothing("org/name:Q4_0"), stored[2]);
    assert_eq!(theirs.scan(), ours.scan());
}

/// A download that was killed, then what removes it and the model beside it.
#[test]
#[ignore = "needs Python's huggingface_hub"]
fn python_sees_no_fault_in_a_partial_download_nor_after_a_removal() {
    let big = Content::big_gguf(5 << 20, 1);
    let shared = Shared::with(with_revisions().content("m-Q8_0.gguf", &big));
    shared.hub.set(Fault::Hold { after: 3 << 20 });
    let mut command = shared.infer("pull").arg("org/name:Q8_0").command();
    let mut pulling =
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("infer");
    shared.hub.wait_for_bytes(3 << 20);
    // Also while it goes on.
    assert_eq!(shared.scan()["org/name"]["commits"], json!({}));
    pulling.kill().expect("a running program");
    pulling.wait().expect("its end");
    shared.hub.release();
    assert_eq!(shared.scan()["org/name"]["commits"], json!({}));

    let pulled = shared.pull("org/name:Q4_0");
    shared.pull("org/name@v1.0");
    shared.scan();
    assert_eq!(shared.python_paths(FIND, "org/name", &["m-Q4_0.gguf@main"]), [pulled.as_str()]);

    let remove = |name: &str| {
        shared.infer("rm").arg(name).stderr_is(|text| text.starts_with("freed ")).run();
        shared.scan()
    };
    let left = remove("org/name@v1.0");
    assert_eq!(left["org/name"]["commits"].as_object().map(serde_json::Map::len), Some(1));
    let left = remove("org/name:Q8_0");
    assert_eq!(left["org/name"]["bytes"], fs::metadata(&pulled).expect("the model").len());
    let missing = "
try:
    hf_hub_download('org/name', 'm-Q4_0.gguf', local_files_only=True)
except LocalEntryNotFoundError:
    print('gone')
";
    assert_eq!(remove("org/name"), json!({}));
    assert_eq!(shared.python(missing, &[]), "gone\n");
}

/// What one left half done, the other brings to its end in its own way; nothing of the half is left.
#[test]
#[ignore = "needs Python's huggingface_hub"]
fn a_partial_download_of_one_is_no_hindrance_to_the_other() {
    let big = Content::big_gguf(5 << 20, 1);
    let shared = Shared::with(Repo::new("org/name").content("m-Q8_0.gguf", &big));
    shared.hub.set(Fault::Hold { after: 3 << 20 });
    let pull = Started::new(shared.infer("pull").arg("org/name").command());
    shared.hub.wait_for_bytes(3 << 20);
    drop(pull);
    shared.hub.release();
    let stored = shared.python_paths(DOWNLOAD, "org/name", &["m-Q8_0.gguf@main"]);
    assert_eq!(shared.pull_nothing("org/name"), stored[0]);
    let listed = shared.infer("list").arg("--json").stdout_is(|_| true).run().stdout;
    let listed: Value = serde_json::from_str(&listed).expect("JSON");
    assert_eq!((&listed["models"][0]["path"], &listed["partials"]), (&json!(stored[0]), &json!([])));
    assert_eq!(shared.scan()["org/name"]["bytes"], big.len());
    let blobs = shared.cache().join("hub/models--org--name/blobs");
    assert_eq!(fs::read_dir(blobs).expect("the blobs").count(), 1);
}

#[test]
#[ignore = "needs Python's huggingface_hub"]
fn a_pull_waits_for_pythons_download() {
    let big = Content::big_gguf(2 << 20, 1);
    let shared = Shared::with(Repo::new("org/name").content("m-Q4_0.gguf", &big));
    shared.hub.set(Fault::Hold { after: 1 << 20 });
    let python = Started::new(shared.python_command(DOWNLOAD, &["org/name", "m-Q4_0.gguf@main"]));
    shared.hub.wait_for_bytes(1 << 20);
    let mut pull = Started::new(shared.infer("pull").arg("org/name").command());
    pull.says("another process fetches m-Q4_0.gguf; waiting");
    shared.hub.release();
    let stored = python.end().0;
    let (out, err) = pull.end();
    assert_eq!((out, err.as_str()), (stored, "m-Q4_0.gguf: already here\n"));
    assert_eq!((shared.hub.count(is_body), shared.hub.cdn_bytes()), (1, big.len()));
    shared.scan();
}

#[test]
#[ignore = "needs Python's huggingface_hub"]
fn python_waits_for_a_pull() {
    let big = Content::big_gguf(2 << 20, 1);
    let shared = Shared::with(Repo::new("org/name").content("m-Q4_0.gguf", &big));
    shared.hub.set(Fault::Hold { after: 1 << 20 });
    let pull = Started::new(shared.infer("pull").args(["org/name", "--connections", "1"]).command());
    shared.hub.wait_for_bytes(1 << 20);
    let script = "
constants.FILELOCK_LOG_EVERY_SECONDS = 0.05
__import__('huggingface_hub').logging.set_verbosity_info()
";
    let mut python = Started::new(
        shared.python_command(&format!("{script}{DOWNLOAD}"), &["org/name", "m-Q4_0.gguf@main"]),
    );
    python.says("Still waiting to acquire lock");
    shared.hub.release();
    let pulled = pull.end().0;
    assert_eq!(python.end().0, pulled);
    assert_eq!((shared.hub.count(is_body), shared.hub.cdn_bytes()), (1, big.len()));
    shared.scan();
}

/// A lock held by whoever takes its time, not by a download.
#[test]
#[ignore = "needs Python's huggingface_hub"]
fn a_pull_goes_on_when_a_lock_is_let_go_without_a_file() {
    let shared = Shared::with(Repo::new("org/name").file("m-Q4_0.gguf", tiny(1)));
    let lock = format!(".locks/models--org--name/{}.lock", shared.hub.etag("org/name", "m-Q4_0.gguf"));
    let lock = shared.cache().join("hub").join(lock);
    fs::create_dir_all(lock.parent().expect("a folder")).expect("a folder");
    let script = "
from huggingface_hub.utils import WeakFileLock
with WeakFileLock(sys.argv[1]):
    print('held', flush=True)
    sys.stdin.read()
";
    let mut holder = Started::new(shared.python_command(script, &[&lock.to_string_lossy()]));
    assert_eq!(holder.line(), "held");
    let mut pull = Started::new(shared.infer("pull").arg("org/name").command());
    pull.says("another process fetches m-Q4_0.gguf; waiting");
    assert_eq!(shared.hub.count(is_body), 0);
    holder.end();
    let (out, err) = pull.end();
    assert!(err.contains("SHA-256 verified"), "{err}");
    assert_eq!(shared.python_paths(FIND, "org/name", &["m-Q4_0.gguf@main"]), [out.trim_end()]);
}

#[test]
#[ignore = "needs a real model"]
fn a_pulled_smollm2_answers_like_its_file() {
    let file = real_model(SMOLLM2);
    let shared = Shared::with(Repo::new("org/smollm2").file(SMOLLM2, fs::read(&file).expect("the model")));
    let pulled = shared.pull("org/smollm2:Q4_1");
    assert_eq!(fs::read(&pulled).ok(), fs::read(&file).ok(), "the same bytes");
    let question = [
        "-s",
        "You answer in one word.",
        "-t",
        "1",
        "--temp",
        "0",
        "-n",
        "8",
        "What is the capital of France?",
    ];
    let answer = |infer: Infer| infer.args(question).stdout_is(|text| text.len() > 1).run().stdout;
    let expected = answer(Infer::new().arg("run").arg(file));
    let asked = shared.hub.requests().len();
    assert_eq!(answer(shared.infer("run").arg("org/smollm2:Q4_1")), expected);
    assert_eq!(shared.hub.requests().len(), asked, "what is here needs no hub");
    assert_eq!(shared.python_paths(FIND, "org/smollm2", &[&format!("{SMOLLM2}@main")]), [pulled]);
}
