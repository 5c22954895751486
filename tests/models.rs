//! `infer list`, `infer rm`, `infer show` of a model on the hub, and every command on a model that isn't here.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde_json::{Value as Json, json};
use tempfile::TempDir;

use crate::support::hub::{Content, Fault, Hub, Repo, Server};
use crate::support::tiny_gguf::{Tensor, Tiny};
use crate::support::{Infer, Ran, rows, sees_gpu};

const DEMO: &[u8] = include_bytes!("../assets/demo/demo-f16.gguf");
const PARIS: &str = "The capital of France is Paris.\n";
const QUESTION: &str = "What is the capital of France?";

const SMOLLM2: &str = "bartowski/SmolLM2-135M-Instruct-GGUF";
const SMOLLM2_FILE: &str = "SmolLM2-135M-Instruct-Q4_K_M.gguf";
const FIRST: &str = "1111111111111111111111111111111111111111";
const SECOND: &str = "2222222222222222222222222222222222222222";

/// A home whose cache of the hub is filled as other tools fill it.
struct Cache(Arc<TempDir>);

impl Cache {
    fn new() -> Self {
        Self(Arc::new(TempDir::new().expect("a temporary folder")))
    }

    fn infer(&self, args: &[&str]) -> Infer {
        // The times in a table are local ones.
        Infer::new().home(&self.0).env("TZ", "UTC").args(args.iter().copied())
    }

    fn hub(&self) -> PathBuf {
        self.0.path().join("cache/huggingface/hub")
    }

    fn folder(&self, repo: &str) -> PathBuf {
        self.hub().join(format!("models--{}", repo.replace('/', "--")))
    }

    fn blob(&self, repo: &str, hash: &str) -> PathBuf {
        self.folder(repo).join("blobs").join(hash)
    }

    fn pointer(&self, repo: &str, commit: &str, path: &str) -> PathBuf {
        self.folder(repo).join("snapshots").join(commit).join(path)
    }

    /// A blob of so many bytes, changed on the 2nd of March 2026 at noon.
    fn put_blob(&self, repo: &str, hash: &str, bytes: u64) {
        let file = create(&self.blob(repo, hash));
        file.set_len(bytes).expect("room");
        let noon = SystemTime::UNIX_EPOCH + Duration::from_secs(1_772_452_800);
        file.set_modified(noon).expect("a time");
    }

    /// A pointer of a commit, to a blob that is there or not.
    fn point(&self, repo: &str, commit: &str, path: &str, hash: &str) {
        let pointer = self.pointer(repo, commit, path);
        fs::create_dir_all(pointer.parent().expect("a folder")).expect("a folder");
        let up = "../".repeat(path.split('/').count() + 1);
        symlink(format!("{up}blobs/{hash}"), pointer).expect("a link");
    }

    fn put_ref(&self, repo: &str, name: &str, commit: &str) {
        write(&self.folder(repo).join("refs").join(name), commit);
    }

    /// A model of one file at `main`.
    fn put(&self, repo: &str, path: &str, hash: &str, bytes: u64) {
        self.put_blob(repo, hash, bytes);
        self.point(repo, FIRST, path, hash);
        self.put_ref(repo, "main", FIRST);
    }

    /// A download of ours that has the first `blocks` megabytes of `size`.
    fn put_partial(&self, repo: &str, path: &str, hash: &str, size: u64, blocks: u64) {
        create(&self.blob(repo, &format!("{hash}.infer-part"))).set_len(blocks << 20).expect("room");
        let head = json!({
            "v": 1, "repo": repo, "commit": FIRST, "path": path, "etag": hash, "size": size, "block": 1 << 20,
        });
        let lines = (0..blocks).map(|block| format!("{{\"b\":{block},\"x\":\"0000000000000000\"}}\n"));
        let text = format!("{head}\n{}", lines.collect::<String>());
        write(&self.blob(repo, &format!("{hash}.infer-part.json")), &text);
    }

    /// Every name in the cache, sorted; locks and the tag of the cache left out.
    fn names(&self) -> Vec<String> {
        let mut found = Vec::new();
        names_below(&self.hub(), "", &mut found);
        found.retain(|name| !name.starts_with(".locks") && name != "CACHEDIR.TAG");
        found.sort();
        found
    }

    /// Whoever holds it downloads that file.
    fn lock(&self, repo: &str, hash: &str) -> File {
        let folder = self.folder(repo);
        let name = folder.file_name().expect("a name").to_string_lossy().into_owned();
        let file = create(&self.hub().join(".locks").join(name).join(format!("{hash}.lock")));
        file.lock().expect("a lock");
        file
    }
}

fn names_below(folder: &Path, prefix: &str, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.file_type().expect("a type").is_dir() {
            names_below(&entry.path(), &format!("{name}/"), found);
        } else {
            found.push(name);
        }
    }
}

fn create(path: &Path) -> File {
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    File::create(path).expect("a file")
}

fn write(path: &Path, text: &str) {
    drop(create(path));
    fs::write(path, text).expect("a file");
}

/// 64 hexadecimal digits.
fn hash(digit: char) -> String {
    digit.to_string().repeat(64)
}

fn object(ran: &Ran) -> Json {
    assert_eq!(ran.stdout.lines().count(), 1, "{}", ran.stdout);
    serde_json::from_str(&ran.stdout).expect("one object")
}

/// A hub with the demo model under a name of the registry.
fn hub() -> Hub {
    Hub::with(Repo::new(SMOLLM2).file(SMOLLM2_FILE, DEMO))
}

fn at(hub: &Hub, args: &[&str]) -> Infer {
    Infer::new().env("HF_ENDPOINT", hub.endpoint()).args(args.iter().copied())
}

/// Greedy, with one thread: always the same answer.
const SAME: [&str; 4] = ["-t", "1", "--temp", "0"];

// --- list ---

/// Two models, a split one, a partial download, one that goes on now, and all kinds of leftovers.
fn full_cache() -> (Cache, File) {
    let cache = Cache::new();
    cache.put(SMOLLM2, SMOLLM2_FILE, &hash('a'), 105_454_432);
    cache.put("org/Big-GGUF", "Q8_0/Big-Q8_0-00001-of-00002.gguf", &hash('b'), 3_000_000_000);
    cache.put("org/Big-GGUF", "Q8_0/Big-Q8_0-00002-of-00002.gguf", &hash('c'), 1_000_000_000);
    cache.put("org/Plain", "plain.gguf", &hash('d'), 999);
    cache.put("org/Plain", "mmproj-plain.gguf", &hash('e'), 500);
    cache.put_partial("org/Big-GGUF", "Big-Q4_K_M.gguf", &hash('1'), 3 << 20, 2);
    cache.put_partial("org/Now", "Now-Q4_0.gguf", &hash('2'), 10 << 20, 1);
    cache.put_blob("org/Plain", &hash('3'), 4096);
    cache.put_blob("org/Plain", &format!("{}.incomplete", hash('4')), 2048);
    cache.put_blob("org/Plain", "x.tmp", 1);
    cache.point("org/Plain", FIRST, "gone.gguf", &hash('5'));
    let held = cache.lock("org/Now", &hash('2'));
    (cache, held)
}

#[test]
fn the_table_names_what_can_be_typed() {
    let (cache, _held) = full_cache();
    let table = "\
NAME                          QUANT   SIZE            MODIFIED          PLACE
smollm2:135m                  Q4_K_M  105.5 MB        2026-03-02 12:00  hub cache
org/Big-GGUF:Q8_0             Q8_0    4.0 GB          2026-03-02 12:00  hub cache
org/Plain/plain.gguf          -       999 B           2026-03-02 12:00  hub cache
org/Big-GGUF/Big-Q4_K_M.gguf  Q4_K_M  66% of 3.1 MB   -                 partial
org/Now/Now-Q4_0.gguf         Q4_0    10% of 10.5 MB  -                 downloading
";
    cache.infer(&["list"]).stdout(table).run();
    cache.infer(&["ls"]).stdout(table).run();
    // The widest name pushes the other columns aside.
    let rows = |text: &str| -> Vec<String> {
        text.lines()
            .map(|line| {
                line.split("  ").filter(|cell| !cell.is_empty()).map(str::trim).collect::<Vec<_>>().join("|")
            })
            .collect()
    };
    let all = cache.infer(&["list", "--all"]).stdout_is(|_| true).run();
    let loose = [
        "org/Plain: mmproj-plain.gguf|-|500 B|-|sidecar".to_owned(),
        "org/Plain: gone.gguf|-|0 B|-|dangling link".to_owned(),
        format!("org/Plain: {}…|-|4.1 KB|-|orphan", &hash('3')[..40]),
        format!("org/Plain: {}…|-|2.0 KB|-|other program's partial", &hash('4')[..40]),
        "org/Plain: x.tmp|-|1 B|-|temporary".to_owned(),
    ];
    assert_eq!(rows(&all.stdout), [rows(table), loose.to_vec()].concat());
}

#[test]
fn json_has_the_same_facts() {
    let (cache, _held) = full_cache();
    let list = object(&cache.infer(&["list", "--json"]).stdout_is(|_| true).run());
    assert_eq!(list.as_object().expect("an object").keys().collect::<Vec<_>>(), ["models", "partials"]);
    let names: Vec<&Json> = list["models"].as_array().expect("a list").iter().map(|m| &m["name"]).collect();
    assert_eq!(names, ["smollm2:135m", "org/Big-GGUF:Q8_0", "org/Plain/plain.gguf"]);
    let pointer = cache.pointer("org/Big-GGUF", FIRST, "Q8_0/Big-Q8_0-00001-of-00002.gguf");
    assert_eq!(
        list["models"][1],
        json!({
            "name": "org/Big-GGUF:Q8_0",
            "repo": "org/Big-GGUF",
            "quantization": "Q8_0",
            "files": ["Q8_0/Big-Q8_0-00001-of-00002.gguf", "Q8_0/Big-Q8_0-00002-of-00002.gguf"],
            "path": pointer,
            "bytes": 4_000_000_000_u64,
            "modified": 1_772_452_800,
            "commit": FIRST,
            "refs": ["main"],
            "place": "hub_cache",
        })
    );
    let mut partial = list["partials"][0].clone();
    // A file with holes; how many blocks that takes is the file system's.
    assert!(partial["on_disk"].take().is_u64());
    assert_eq!(
        partial,
        json!({
            "name": "org/Big-GGUF/Big-Q4_K_M.gguf",
            "repo": "org/Big-GGUF",
            "file": "Big-Q4_K_M.gguf",
            "done": 2 << 20,
            "bytes": 3 << 20,
            "on_disk": null,
            "downloading": false,
            "path": cache.blob("org/Big-GGUF", &format!("{}.infer-part", hash('1'))),
        })
    );
    assert_eq!(list["partials"][1]["downloading"], true);
    let all = object(&cache.infer(&["list", "--all", "--json"]).stdout_is(|_| true).run());
    let kinds: Vec<(&Json, &Json)> = all["loose"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|loose| (&loose["kind"], &loose["bytes"]))
        .collect();
    let expected = [
        (json!("sidecar"), json!(500)),
        (json!("dangling link"), json!(0)),
        (json!("orphan"), json!(4096)),
        (json!("other program's partial"), json!(2048)),
        (json!("temporary"), json!(1)),
    ];
    assert_eq!(kinds, expected.iter().map(|(kind, bytes)| (kind, bytes)).collect::<Vec<_>>());
}

#[test]
fn an_empty_machine_says_how_to_begin() {
    let said = "no models yet; `infer pull smollm2:135m` fetches one, `infer list --names` shows more\n";
    Infer::new().arg("list").stderr(said).run();
    Infer::new().args(["list", "--all"]).stderr(said).run();
    Infer::new().args(["list", "-q"]).run();
    Infer::new().args(["list", "--json"]).stdout("{\"models\":[],\"partials\":[]}\n").run();
}

#[test]
fn a_cache_is_where_the_environment_says() {
    let cache = Cache::new();
    cache.put("org/Plain", "plain.gguf", &hash('d'), 999);
    let list = |name: &str, value: PathBuf| Infer::new().args(["list", "--json"]).env(name, value);
    for infer in [
        list("HF_HUB_CACHE", cache.hub()),
        list("HUGGINGFACE_HUB_CACHE", cache.hub()),
        list("HF_HOME", cache.0.path().join("cache/huggingface")),
        list("XDG_CACHE_HOME", cache.0.path().join("cache")),
        cache.infer(&["list", "--json"]).env("HF_HUB_CACHE", "~/cache/huggingface/hub"),
    ] {
        let list = object(&infer.stdout_is(|_| true).run());
        assert_eq!(list["models"][0]["name"], "org/Plain/plain.gguf");
    }
}

#[test]
fn a_name_of_the_cache_does_no_harm_on_a_terminal() {
    let cache = Cache::new();
    cache.put("org/Plain", "a\u{9b}2J\u{202e}b.gguf", &hash('d'), 999);
    let harmless = |text: &str| !text.contains(['\u{9b}', '\u{202e}']);
    cache.infer(&["list", "--all"]).stdout_is(harmless).stderr_is(harmless).run();
}

#[test]
fn the_names_are_those_of_the_registry_and_of_ones_own_file() {
    let shipped = include_str!("../models.toml").lines().filter(|line| line.starts_with("repo = ")).count();
    let row = "smollm2:135m      135M        Apache-2.0  tiny; to try things out, more than to rely on";
    let ran = Infer::new().args(["list", "--names"]).stdout_is(|_| true).run();
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert_eq!(lines.len(), shipped + 1, "a head and all models");
    assert_eq!(lines[0], "NAME              PARAMETERS  LICENSE     GOOD FOR");
    assert!(lines.contains(&row), "{}", ran.stdout);

    // On a terminal the last column is broken between words.
    let screen = rows(&Infer::new().args(["list", "--names"]).terminal().finish().stdout);
    let at = screen.iter().position(|row| row.starts_with("smollm2:135m ")).expect("the row");
    assert_eq!(screen[at], row[..row.len() - " rely on".len()]);
    assert_eq!(screen[at + 1], format!("{}rely on", " ".repeat(42)));

    let own = "[\"smollm2:135m\"]\nrepo = \"me/Mine\"\nabout = \"mine\"\n\
               [zz-work]\nrepo = \"me/Work-GGUF\"\nquant = \"Q5_K_M\"\nsampling = { temp = 0.1 }\n";
    let with_own = || Infer::new().args(["list", "--names", "--json"]).file("config/infer/models.toml", own);
    let names = object(&with_own().stdout_is(|_| true).run());
    let names = names["names"].as_array().expect("a list");
    assert_eq!(names.len(), shipped + 1);
    let of = |name: &str| names.iter().find(|entry| entry["name"] == name);
    assert_eq!(of("smollm2:135m").map(|entry| &entry["model"]), Some(&json!("me/Mine")));
    assert_eq!(
        of("zz-work"),
        Some(&json!({
            "name": "zz-work", "model": "me/Work-GGUF:Q5_K_M", "parameters": "", "license": "", "about": "",
            "sampling": { "temp": 0.1 },
        }))
    );
    Infer::new()
        .args(["list", "--names"])
        .file("config/infer/models.toml", "[mine]\nrepo = \"me/Mine\"\nquants = \"Q8_0\"\n")
        .status(1)
        .stderr_is(|text| {
            text.starts_with("error: `") && text.contains("/config/infer/models.toml` line 3: unknown field")
        })
        .run();
}

// --- rm ---

#[test]
fn a_model_goes_by_every_name_that_it_has() {
    for name in [
        "smollm2:135m",
        SMOLLM2,
        "hf.co/bartowski/smollm2-135m-instruct-gguf",
        "bartowski/SmolLM2-135M-Instruct-GGUF:q4_k_m",
        "bartowski/SmolLM2-135M-Instruct-GGUF/SmolLM2-135M-Instruct-Q4_K_M.gguf",
        "bartowski/SmolLM2-135M-Instruct-GGUF@main",
    ] {
        let cache = Cache::new();
        cache.put(SMOLLM2, SMOLLM2_FILE, &hash('a'), 105_454_432);
        cache.put("org/Plain", "plain.gguf", &hash('d'), 999);
        let others = Cache::new();
        others.put("org/Plain", "plain.gguf", &hash('d'), 999);
        cache.infer(&["rm", name]).stderr("freed 105.5 MB\n").run();
        assert_eq!(cache.names(), others.names(), "{name}");
        assert!(!cache.folder(SMOLLM2).exists(), "{name}");
        cache.infer(&["remove", name]).status(3).stderr_is(|text| text.starts_with("error: ")).run();
    }
}

#[test]
fn one_quant_goes_with_all_its_parts_and_the_others_stay() {
    let cache = Cache::new();
    let big = "org/Big-GGUF";
    cache.put(big, "Q8_0/Big-Q8_0-00001-of-00002.gguf", &hash('b'), 3_000_000_000);
    cache.put(big, "Q8_0/Big-Q8_0-00002-of-00002.gguf", &hash('c'), 1_000_000_000);
    let rest = Cache::new();
    for cache in [&cache, &rest] {
        cache.put(big, "Big-Q4_0.gguf", &hash('d'), 500);
    }
    let ran = cache.infer(&["rm", "org/Big-GGUF:Q8_0", "--json"]).stdout_is(|_| true).run();
    let removed = object(&ran);
    assert_eq!((&removed["bytes"], &removed["dry_run"]), (&json!(4_000_000_000_u64), &json!(false)));
    let paths: Vec<&str> = removed["removed"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|step| step["path"].as_str())
        .collect();
    assert_eq!(paths.len(), 4, "two pointers and two blobs: {paths:?}");
    assert_eq!(cache.names(), rest.names());
}

#[test]
fn bytes_that_another_commit_needs_stay() {
    let cache = Cache::new();
    cache.put_blob("org/Two", &hash('a'), 700);
    cache.point("org/Two", FIRST, "old-Q4_0.gguf", &hash('a'));
    cache.point("org/Two", SECOND, "new-Q8_0.gguf", &hash('a'));
    cache.put_ref("org/Two", "main", SECOND);
    cache.infer(&["rm", "org/Two/old-Q4_0.gguf"]).stderr("freed 0 B\n").run();
    assert!(
        cache.blob("org/Two", &hash('a')).exists()
            && !cache.pointer("org/Two", FIRST, "old-Q4_0.gguf").exists()
    );
    cache.infer(&["rm", "org/Two/new-Q8_0.gguf"]).stderr("freed 700 B\n").run();
    assert_eq!(cache.names(), [""; 0]);
}

#[test]
fn a_partial_download_goes_too() {
    for name in ["org/Big-GGUF", "org/Big-GGUF:Q4_K_M", "org/Big-GGUF/Big-Q4_K_M.gguf"] {
        let cache = Cache::new();
        cache.put_partial("org/Big-GGUF", "Big-Q4_K_M.gguf", &hash('1'), 3 << 20, 2);
        cache.infer(&["rm", name]).stderr_is(|text| text.starts_with("freed ")).run();
        assert_eq!(cache.names(), [""; 0], "{name}");
    }
    // Nobody knows of which file this is.
    let cache = Cache::new();
    write(&cache.blob("org/Lost", &format!("{}.infer-part", hash('1'))), "bytes");
    cache.infer(&["rm", "org/Lost:Q4_K_M"]).status(3).stderr_is(|_| true).run();
    cache.infer(&["rm", "org/Lost"]).stderr_is(|text| text.starts_with("freed ")).run();
    assert_eq!(cache.names(), [""; 0]);
}

#[test]
fn what_is_being_downloaded_is_refused() {
    let (cache, _held) = full_cache();
    let before = cache.names();
    for args in [&["rm", "org/Now"][..], &["rm", "org/Now", "--all"], &["rm", "org/Now", "--dry-run"]] {
        cache
            .infer(args)
            .status(1)
            .stderr(
                "error: `org/Now` is being downloaded\n\
                 hint: wait for that to end, or stop it with Ctrl-C, and try again\n",
            )
            .run();
    }
    // One that is refused keeps the others of the same command.
    cache.infer(&["rm", "org/Plain", "org/Now"]).status(1).stderr_is(|_| true).run();
    assert_eq!(cache.names(), before);
}

#[test]
fn all_of_a_repository_goes_with_what_others_left() {
    let (cache, _held) = full_cache();
    cache.infer(&["rm", "org/Plain"]).stderr_is(|text| text.starts_with("freed ")).run();
    assert!(cache.blob("org/Plain", &hash('3')).exists(), "no model needs it, and nobody named it");
    cache.infer(&["rm", "org/Plain", "--all"]).stderr_is(|text| text.starts_with("freed ")).run();
    assert!(!cache.folder("org/Plain").exists());
}

#[test]
fn a_dry_run_says_what_would_go() {
    let cache = Cache::new();
    cache.put(SMOLLM2, SMOLLM2_FILE, &hash('a'), 105_454_432);
    let before = cache.names();
    let folder = "~/cache/huggingface/hub/models--bartowski--SmolLM2-135M-Instruct-GGUF";
    let said = format!(" 105.5 MB  {folder}/blobs/{}\nwould free 105.5 MB\n", hash('a'));
    cache.infer(&["rm", "smollm2:135m", "--dry-run"]).stderr(said).run();
    let ran = cache.infer(&["rm", "smollm2:135m", "--dry-run", "--json"]).stdout_is(|_| true).run();
    assert_eq!(object(&ran)["dry_run"], true);
    assert_eq!(cache.names(), before);
}

#[test]
fn what_is_not_here_or_not_ours_is_refused() {
    let cache = Cache::new();
    cache.put(SMOLLM2, "SmolLM2-135M-Instruct-Q8_0.gguf", &hash('a'), 1000);
    let own = cache.0.path().join("own.gguf");
    write(&own, "mine");
    for (name, status, said) in [
        (
            "smollm2:135m",
            3,
            "error: `smollm2:135m` is not on this machine\nhint: `infer list` shows what is\n",
        ),
        ("org/none", 3, "error: `org/none` is not on this machine\nhint: `infer list` shows what is\n"),
        ("./none.gguf", 3, "error: no such file: `./none.gguf`\nhint: "),
        ("smolm2", 3, "error: no such model: `smolm2`\nhint: did you mean "),
        ("demo", 2, "error: `demo` is part of the program\nhint: `infer list` shows what can be removed\n"),
        ("./own.gguf", 2, "error: `./own.gguf` is a file of your own\nhint: `rm ./own.gguf` removes it\n"),
        ("own.gguf", 2, "error: `own.gguf` is a file of your own\nhint: `rm own.gguf` removes it\n"),
        ("org/../..", 2, "error: "),
    ] {
        for extra in [&[][..], &["--all"], &["--yes"]] {
            let infer = cache.infer(&["rm", name]).args(extra.iter().copied());
            if extra == ["--all"] && status == 3 && name == "smollm2:135m" {
                continue; // its repository is here
            }
            infer.status(status).stderr_is(move |text| text.starts_with(said)).run();
        }
    }
    assert!(own.exists() && cache.blob(SMOLLM2, &hash('a')).exists());
}

#[test]
fn a_link_out_of_the_cache_leads_nowhere() {
    let cache = Cache::new();
    let outside = cache.0.path().join("outside.gguf");
    write(&outside, "precious");
    let pointer = cache.pointer("org/Evil", FIRST, "m-Q4_0.gguf");
    fs::create_dir_all(pointer.parent().expect("a folder")).expect("a folder");
    symlink(&outside, &pointer).expect("a link");
    cache.put_ref("org/Evil", "main", FIRST);
    cache.infer(&["rm", "org/Evil"]).stderr_is(|text| text.starts_with("freed ")).run();
    assert!(!pointer.exists() && fs::read(&outside).expect("the file") == b"precious");
    // Nor does a folder that is a link.
    let elsewhere = cache.0.path().join("elsewhere");
    write(&elsewhere.join("snapshots").join(FIRST).join("m-Q4_0.gguf"), "precious");
    symlink(&elsewhere, cache.folder("org/Linked")).expect("a link");
    cache.infer(&["rm", "org/Linked", "--all"]).status(1).stderr_is(|text| text.starts_with("error: ")).run();
    assert!(elsewhere.join("snapshots").join(FIRST).join("m-Q4_0.gguf").exists());
}

#[test]
fn a_person_is_asked_before_anything_goes() {
    let cache = Cache::new();
    cache.put(SMOLLM2, SMOLLM2_FILE, &hash('a'), 105_454_432);
    let before = cache.names();
    for (keys, status, end) in [
        ("n\r", 1, "error: nothing was removed"),
        ("\r", 1, "error: nothing was removed"),
        ("\x04", 1, "error: nothing was removed"),
        // The terminal may drop what was written just before Ctrl-C.
        ("\x03", 130, ""),
    ] {
        let mut terminal =
            cache.infer(&["rm", "smollm2:135m"]).env("NO_COLOR", "1").status(status).terminal();
        terminal.wait_for("remove 105.5 MB? [y/N] ");
        terminal.send(keys);
        let screen = rows(&terminal.finish().stdout);
        assert!(status == 130 || screen.iter().any(|row| row == end), "{keys:?} {screen:?}");
        assert!(status != 130 || !screen.concat().contains("error"), "{screen:?}");
        assert_eq!(cache.names(), before, "{keys:?}");
    }
    let mut terminal = cache.infer(&["rm", "smollm2:135m"]).terminal();
    terminal.wait_for("remove 105.5 MB? [y/N] ");
    terminal.send("y\r");
    terminal.wait_for("freed 105.5 MB");
    terminal.finish();
    assert_eq!(cache.names(), [""; 0]);
    cache.put(SMOLLM2, SMOLLM2_FILE, &hash('a'), 105_454_432);
    let ran = cache.infer(&["rm", "smollm2:135m", "--yes"]).terminal().finish();
    assert_eq!(rows(&ran.stdout), ["freed 105.5 MB", ""]);
}

// --- show ---

#[test]
fn the_header_of_a_model_on_the_hub_takes_one_small_range() {
    let hub =
        Hub::with(Repo::new("org/Large-GGUF").content("L-Q8_0.gguf", &Content::big_gguf(300_000_000, 1)));
    let ran = at(&hub, &["show", "org/Large-GGUF"]).stdout_is(|_| true).run();
    let fits =
        if sees_gpu() { "yes, 3/3 layers on the GPU, context 256" } else { "yes, on the CPU, context 256" };
    for line in [
        "file            org/Large-GGUF/L-Q8_0.gguf (on the hub, not here)".to_owned(),
        format!("fits here       {fits}"),
        "architecture    llama".to_owned(),
        "size            300.0 MB".to_owned(),
    ] {
        assert!(ran.stdout.lines().any(|l| l == line), "{line}\n{}", ran.stdout);
    }
    assert_eq!(hub.ranges().first(), Some(&(0..1 << 20)));
    assert_eq!(hub.ranges().len(), 1, "one question for the bytes");
    assert!(hub.asked(Server::Hub) <= 2, "{:?}", hub.lines(Server::Hub));
    assert_eq!(Cache(ran.home).names(), [""; 0], "nothing is kept");
}

#[test]
fn json_and_template_of_a_model_on_the_hub() {
    let hub = hub();
    let ran = at(&hub, &["show", "smollm2:135m", "--json"]).stdout_is(|_| true).run();
    let shown = object(&ran);
    for (pointer, expected) in [
        ("/path", Json::Null),
        ("/parameters", json!(2_558_208)),
        ("/hub/repo", json!(SMOLLM2)),
        ("/hub/commit", json!(hub.commit(SMOLLM2, "main"))),
        ("/hub/files", json!([SMOLLM2_FILE])),
        ("/fits/fits", json!(true)),
        ("/fits/context", json!(1024)),
    ] {
        assert_eq!(shown.pointer(pointer), Some(&expected), "{pointer}");
    }
    let here = Infer::new().args(["show", "demo", "--template"]).stdout_is(|text| text.len() > 100).run();
    at(&hub, &["show", "smollm2:135m", "--template"]).stdout(here.stdout).run();
    // Once it is here the hub is not asked.
    let ran = at(&hub, &["pull", "smollm2:135m", "-q"]).stdout_is(|_| true).run();
    hub.forget();
    let path = ran.stdout.trim_end().to_owned();
    let ran = at(&hub, &["show", "smollm2:135m", "--json"]).home(&ran.home).stdout_is(|_| true).run();
    let shown = object(&ran);
    assert_eq!((&shown["path"], &shown["hub"]), (&json!(path), &Json::Null));
    assert_eq!(shown.pointer("/fits/context"), Some(&json!(1024)));
    assert_eq!(hub.requests().len(), 0);
}

#[test]
fn a_split_model_on_the_hub_is_counted_whole() {
    let parts: Vec<Vec<u8>> = Tiny::llama().split(3).iter().map(Tiny::bytes).collect();
    let bytes: usize = parts.iter().map(Vec::len).sum();
    let name = |n: usize| format!("m-Q8_0-0000{n}-of-00003.gguf");
    let whole = (1..=3).fold(Repo::new("org/Split"), |repo, n| repo.file(&name(n), parts[n - 1].clone()));
    let hub = Hub::with(whole.clone());
    let shown = object(&at(&hub, &["show", "org/Split", "--json"]).stdout_is(|_| true).run());
    assert_eq!((&shown["file_bytes"], &shown["tensor_types"][0]["tensors"]), (&json!(bytes), &json!(20)));
    assert_eq!(shown["hub"]["files"].as_array().map(Vec::len), Some(3));
    let hub = Hub::with(whole.without(&name(2)));
    at(&hub, &["show", "org/Split:Q8_0"])
        .status(3)
        .stderr("error: part 2 of org/Split:Q8_0 is missing on the hub\nhint: choose another repository\n")
        .run();
}

#[test]
fn a_model_too_large_for_this_machine_is_told_before_it_is_fetched() {
    let mut model = Tiny::llama();
    let elements = 1 << 42;
    model.tensors.push(Tensor { name: "huge".to_owned(), dims: vec![elements], kind: 0, data: Vec::new() });
    let header = model.bytes();
    let hub = Hub::with(Repo::new("org/Huge").file("h-Q8_0.gguf", header));
    hub.set(Fault::SizeOff(4 * i64::try_from(elements).expect("a size")));
    let said = |text: &str| text.starts_with("Q8_0 (17.6 TB) does not fit into this machine's memory; ");
    let ran = at(&hub, &["show", "org/Huge"]).stdout_is(|_| true).stderr_is(said).run();
    let fits = ran.stdout.lines().find(|line| line.starts_with("fits here")).expect("the line");
    assert!(fits.starts_with("fits here       no: the model needs 17.6 TB at context "), "{fits}");
    let shown = object(&at(&hub, &["show", "org/Huge", "--json"]).stdout_is(|_| true).stderr_is(said).run());
    assert_eq!(shown["fits"]["fits"], false);
}

#[test]
fn what_the_hub_refuses_to_show_is_said() {
    let hub = Hub::with(Repo::new("org/gated").file("m-Q4_0.gguf", DEMO).gated("manual"));
    let page = format!("{}/org/gated", hub.endpoint());
    at(&hub, &["show", "org/gated"])
        .status(4)
        .stderr(format!(
            "error: org/gated is gated: its licence has to be accepted first\n\
             hint: accept its licence at {page}, then set HF_TOKEN, or log in with `hf auth login`\n"
        ))
        .run();
    at(&hub, &["show", "org/none"])
        .status(3)
        .stderr(
            "error: org/none does not exist, or is private and no token is set\n\
             hint: check the spelling; for a private one set HF_TOKEN, or log in with `hf auth login`\n",
        )
        .run();
    at(&hub, &["show", "org/gated", "--json"])
        .env("HF_HUB_OFFLINE", "1")
        .status(4)
        .stdout("{\"error\":{\"kind\":\"network\",\"message\":\"`org/gated` is not here, and HF_HUB_OFFLINE is set\",\"hint\":\"`unset HF_HUB_OFFLINE` and type it again; `infer list` shows what is here\"}}\n")
        .run();
}

// --- run and chat on what isn't here ---

#[test]
fn in_a_pipe_nothing_is_fetched_unasked() {
    let hub = hub();
    for (name, command) in [("smollm2:135m", "run"), ("smollm2:135m", "chat"), ("org/none:Q8_0", "run")] {
        at(&hub, &[command, name])
            .stdin("never read")
            .status(3)
            .stderr(format!(
                "error: `{name}` is not on this machine\nhint: `infer pull {name}`, or give `--yes`\n"
            ))
            .run();
    }
    assert_eq!(hub.connections(Server::Hub), 0);
}

/// What was pulled answers, and the second time without a connection.
#[test]
fn yes_pulls_and_what_is_here_needs_no_hub() {
    let hub = hub();
    let ran = at(&hub, &["run", "smollm2:135m", "--yes", QUESTION])
        .args(SAME)
        .stdout(PARIS)
        .stderr_is(|text| {
            let lines: Vec<&str> = text.lines().collect();
            lines.len() == 3
                && lines[0].starts_with("license: apache-2.0 (http://")
                && lines[1] == format!("{SMOLLM2_FILE}: fetching 5.1 MB")
                && lines[2].starts_with(&format!("{SMOLLM2_FILE}: 5.1 MB in "))
                && lines[2].ends_with(", SHA-256 verified")
        })
        .run();
    hub.forget();
    let again = |name: &str, args: &[&str]| {
        let args = [&["run", name, QUESTION][..], args].concat();
        at(&hub, &args).args(SAME).home(&ran.home).stdout(PARIS)
    };
    again("smollm2:135m", &[]).run();
    again("smollm2:135m", &["--yes"]).run();
    again(SMOLLM2, &[]).run();
    again(&format!("{SMOLLM2}:q4"), &[]).env("HF_HUB_OFFLINE", "1").run();
    assert_eq!((hub.requests().len(), hub.asked(Server::Hub)), (0, 0), "{:?}", hub.lines(Server::Hub));
    let home = ran.home;
    let endpoint = Hub::refused();
    let alone =
        |args: &[&str]| Infer::new().args(args.iter().copied()).env("HF_ENDPOINT", &endpoint).home(&home);
    alone(&["run", "smollm2:135m", QUESTION]).args(SAME).stdout(PARIS).run();
    alone(&["chat", "smollm2:135m"]).args(SAME).stdin(QUESTION).stdout(PARIS).run();
    alone(&["show", "smollm2:135m"]).stdout_is(|text| text.contains("infer-demo")).run();
}

#[test]
fn offline_is_said_and_not_asked_about() {
    for args in [&["run", "smollm2:135m", "hi"][..], &["run", "smollm2:135m", "--yes", "hi"]] {
        let hub = hub();
        at(&hub, args)
            .env("HF_HUB_OFFLINE", "1")
            .status(3)
            .stderr(
                "error: `smollm2:135m` is not here, and HF_HUB_OFFLINE is set\n\
                 hint: `unset HF_HUB_OFFLINE` and type it again; `infer list` shows what is here\n",
            )
            .run();
        assert_eq!(hub.connections(Server::Hub), 0);
    }
}

#[test]
fn a_word_that_names_no_model_may_be_a_file_here() {
    let infer = || Infer::new().file("word", DEMO).file("folder/x", "");
    infer().args(["run", "word", QUESTION]).args(SAME).stdout(PARIS).run();
    infer().args(["rm", "word"]).status(2).stderr_is(|text| text.contains("a file of your own")).run();
    // A name of the registry comes first.
    Infer::new().file("smollm2", DEMO).args(["run", "smollm2", "hi"]).status(3).stderr_is(|_| true).run();
}

/// A model whose makers recommend how to sample.
#[test]
fn the_registry_says_how_to_sample() {
    let hub =
        Hub::with(Repo::new("ggml-org/gemma-3-270m-it-qat-GGUF").file("gemma-3-270m-it-qat-Q4_0.gguf", DEMO));
    let ran = at(&hub, &["run", "gemma3:270m", "--yes", "-q", "--json", "--top-p", "0.5", QUESTION])
        .args(["-t", "1", "-n", "2"])
        .stdout_is(|_| true)
        .run();
    let sampling = object(&ran)["sampling"].clone();
    for (name, expected) in [
        ("temp", json!({ "value": 1, "from": "registry" })),
        ("top_k", json!({ "value": 64, "from": "registry" })),
        ("top_p", json!({ "value": 0.5, "from": "flag" })),
        ("min_p", json!({ "value": 0, "from": "registry" })),
        ("repeat_penalty", json!({ "value": 1, "from": "default" })),
    ] {
        assert_eq!(sampling[name], expected, "{name}");
    }
    // Also by the name of the repository, and in words.
    at(&hub, &["run", "ggml-org/gemma-3-270m-it-qat-GGUF", "--stats", "--temp", "0", QUESTION])
        .args(["-t", "1"])
        .home(&ran.home)
        .stdout(PARIS)
        .stderr_is(|text| {
            text.contains(
                "\nsampling: temp 0 (flag), top-k 64 (registry), top-p 0.95 (registry), min-p 0 (registry), ",
            )
        })
        .run();
}

#[test]
fn a_person_is_asked_before_anything_is_fetched() {
    let asked = format!("Pull {SMOLLM2}:Q4_K_M (5.1 MB)? [Y/n]");
    for (keys, status, end) in
        [("n\r", 3, "error: nothing was pulled"), ("\x04", 3, "error: nothing was pulled"), ("\x03", 130, "")]
    {
        for command in
            [&["run", "smollm2:135m", "hi"][..], &["run", "smollm2:135m"], &["chat", "smollm2:135m"]]
        {
            let hub = hub();
            let mut terminal = at(&hub, command).env("NO_COLOR", "1").status(status).terminal();
            terminal.wait_for("[Y/n] ");
            terminal.send(keys);
            let ran = terminal.finish();
            let screen = rows(&ran.stdout);
            assert_eq!(screen[0], "`smollm2:135m` is not on this machine");
            assert!(screen[1].starts_with(&asked), "{screen:?}");
            assert!(status == 130 || screen.iter().any(|row| row == end), "{keys:?} {screen:?}");
            assert!(status != 130 || !screen.concat().contains("error"), "{screen:?}");
            assert_eq!(hub.asked(Server::Cdn), 0);
            assert_eq!(Cache(ran.home).names(), [""; 0]);
        }
    }
}

#[test]
fn yes_of_a_person_downloads_and_answers() {
    for keys in ["y\r", "\r", "Yes\r"] {
        let hub = hub();
        let mut terminal = at(&hub, &["run", "smollm2:135m", QUESTION]).args(SAME).terminal();
        terminal.wait_for("[Y/n] ");
        terminal.send(keys);
        terminal.wait_for("SHA-256 verified");
        terminal.wait_for(PARIS.trim_end());
        let screen = rows(&terminal.finish().stdout);
        assert_eq!(screen.iter().rev().take(2).collect::<Vec<_>>(), ["", PARIS.trim_end()], "{screen:?}");
        assert!(!screen.concat().contains(['█', '░']), "{screen:?}");
    }
}

#[test]
fn a_conversation_begins_with_a_download() {
    let hub = hub();
    let mut terminal = at(&hub, &["chat", "smollm2:135m"]).args(SAME).terminal();
    terminal.wait_for("[Y/n] ");
    terminal.send("\r");
    terminal.wait_for(">>> ");
    terminal.send(&format!("{QUESTION}\r"));
    terminal.wait_for(PARIS.trim_end());
    terminal.wait_for(">>> ");
    terminal.send("\x04");
    terminal.finish();
}
