//! `infer tune`: what it measures, remembers and forgets. How fast anything is, nobody can say here.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{Infer, Ran};

/// A home in which nothing is tuned.
fn home() -> Arc<TempDir> {
    Arc::new(TempDir::new().expect("a temporary folder"))
}

fn tuned_file(home: &Arc<TempDir>) -> PathBuf {
    home.path().join("config/infer/tuned.json")
}

/// The object of `infer tune … --json`. A busy machine is told about on stderr.
fn tune(home: &Arc<TempDir>, args: &[&str]) -> Value {
    let infer =
        Infer::new().home(home).args(["tune", "--json", "--device", "cpu"]).args(args.iter().copied());
    let ran = infer.stdout_is(|_| true).stderr_is(|_| true).run();
    assert_eq!(ran.stdout.lines().count(), 1, "{}", ran.stdout);
    serde_json::from_str(&ran.stdout).expect("an object")
}

/// What is remembered.
fn remembered(home: &Arc<TempDir>) -> Value {
    let text = fs::read_to_string(tuned_file(home)).expect("a file of choices");
    serde_json::from_str(&text).expect("an object")
}

/// Change the choice that is remembered.
fn choose(home: &Arc<TempDir>, key: &str, value: Value) {
    let mut file = remembered(home);
    file["tuned"][0][key] = value;
    fs::write(tuned_file(home), file.to_string()).expect("a file of choices");
}

fn ask(home: &Arc<TempDir>, args: &[&str]) -> Ran {
    let infer = Infer::new().home(home).args(["run", "demo", "hello", "--temp", "0", "--device", "cpu"]);
    infer.args(args.iter().copied()).stdout("Hello! How can I help you?\n").stderr_is(|_| true).run()
}

#[test]
fn what_is_measured_is_remembered_and_used() {
    let home = home();
    let found = tune(&home, &["demo", "--seconds", "2"]);
    assert_eq!((&found["model"], &found["remembered"]), (&json!("demo"), &json!(true)));
    for step in found["steps"].as_array().expect("steps") {
        assert!(
            step["setting"].is_string() && step["value"].is_string() && step["chosen"].is_boolean(),
            "{step}"
        );
        assert!(step["gain"].as_f64().is_some_and(|gain| gain > 0.0), "{step}");
    }
    let named = |key: &str| {
        found[key].as_array().expect("a list").iter().any(|each| each.to_string().contains("flash attention"))
    };
    assert!(named("steps") || named("left"), "{found}");
    let file = remembered(&home);
    let entry = &file["tuned"][0];
    for key in ["flash_attention", "threads", "threads_batch", "ubatch", "cpu_only"] {
        assert_eq!(entry[key], found["tuned"][key], "{key}");
    }
    assert_eq!((&entry["architecture"], &entry["parameters"]), (&json!("llama"), &json!("2.1M")));
    // What is slower than the defaults is not chosen.
    let kept = found["kept_defaults"] == json!(true) || found["tests"] == json!([]);
    assert!(
        kept == (found["tuned"] == found["defaults"]) && (kept || found["gain"].as_f64() > Some(1.03)),
        "{found}"
    );
    assert!(ask(&home, &["-v"]).stderr.contains("; tuned: "));
}

#[test]
fn run_names_the_choice_and_flags_win() {
    let home = home();
    tune(&home, &["demo", "--seconds", "1"]);
    choose(&home, "flash_attention", json!("off"));
    choose(&home, "threads", json!(1));
    choose(&home, "threads_batch", json!(2));
    choose(&home, "ubatch", json!(64));
    let tuned = |args: &[&str]| {
        ask(&home, args)
            .stderr
            .contains("; tuned: 1 thread, 2 for prompts, flash attention off, micro-batch 64")
    };
    assert!(tuned(&["-v"]) && tuned(&["--stats"]) && !tuned(&[]));
    let said = ask(&home, &["-v", "--threads", "2", "--kv", "q8_0"]);
    assert!(
        said.stderr.contains("; tuned: 2 threads, flash attention auto, micro-batch 64"),
        "{}",
        said.stderr
    );
}

#[test]
fn bench_measures_with_the_choice() {
    let home = home();
    tune(&home, &["demo", "--seconds", "1"]);
    choose(&home, "flash_attention", json!("off"));
    choose(&home, "ubatch", json!(64));
    let rows = |args: &[&str]| -> Value {
        let infer = Infer::new()
            .home(&home)
            .args(["bench", "demo", "-p", "8", "-g", "0", "-a", "0+0", "-r", "1", "--json"]);
        let infer = infer.args(["--device", "cpu"]).args(args.iter().copied());
        serde_json::from_str(&infer.stdout_is(|_| true).stderr_is(|_| true).run().stdout).unwrap()
    };
    let row = &rows(&[])[0];
    assert_eq!((&row["flash_attn"], &row["n_ubatch"], &row["n_batch"]), (&json!(0), &json!(64), &json!(512)));
    let row = &rows(&["--flash", "on", "-u", "32"])[0];
    assert_eq!((&row["flash_attn"], &row["n_ubatch"]), (&json!(1), &json!(32)));
}

#[test]
fn a_dry_run_remembers_nothing() {
    let home = home();
    let found = tune(&home, &["demo", "--seconds", "1", "--dry-run"]);
    assert_eq!(found["remembered"], json!(false));
    assert!(!tuned_file(&home).exists());
    assert!(!ask(&home, &["-v"]).stderr.contains("tuned"));
}

#[test]
fn what_is_remembered_is_listed_and_forgotten() {
    let home = home();
    let list = |expected: &'static str| {
        Infer::new().home(&home).arg("tune").stdout_is(move |text| text.contains(expected)).run();
    };
    list("nothing is tuned yet; `infer tune MODEL` measures\n");
    tune(&home, &["demo", "--seconds", "1"]);
    list("llama         2.1M  ");
    assert_eq!(tune(&home, &[])["tuned"].as_array().map(Vec::len), Some(1));
    assert_eq!(tune(&home, &["demo", "--clear"]), json!({ "forgotten": 1 }));
    list("nothing is tuned yet");
    Infer::new().home(&home).args(["tune", "--clear"]).stderr("forgotten: 0 choices\n").run();
    assert!(!tuned_file(&home).exists());
    Infer::new().home(&home).args(["tune", "--clear"]).stderr("forgotten: 0 choices\n").run();
}

#[test]
fn a_file_that_cannot_be_used_is_said_in_one_line() {
    let home = home();
    let folder = tuned_file(&home).parent().unwrap().to_owned();
    fs::create_dir_all(&folder).unwrap();
    for text in ["{", "[]", "{\"version\": 99, \"tuned\": []}"] {
        fs::write(tuned_file(&home), text).unwrap();
        let line = format!(
            "tuned settings: not in use: `{}` is damaged, or of another version; `infer tune --clear` removes the file\n",
            tuned_file(&home).display()
        );
        assert_eq!(ask(&home, &[]).stderr, line);
        Infer::new().home(&home).args(["tune"]).status(1).stderr_is(|text| text.starts_with("error: ")).run();
    }
    // The next choice takes its place.
    tune(&home, &["demo", "--seconds", "1"]);
    assert_eq!(ask(&home, &[]).stderr, "");
    fs::write(tuned_file(&home), "{").unwrap();
    Infer::new().home(&home).args(["tune", "--clear", "-q"]).run();
    assert!(!tuned_file(&home).exists());
}

#[test]
fn another_machine_or_size_is_not_meant() {
    let home = home();
    tune(&home, &["demo", "--seconds", "1"]);
    for (key, other) in
        [("machine", "another"), ("parameters", "8.6B"), ("llama_cpp", "b1"), ("architecture", "qwen3")]
    {
        let before = remembered(&home);
        choose(&home, key, json!(other));
        assert!(!ask(&home, &["-v"]).stderr.contains("tuned"), "{key}");
        choose(&home, key, before["tuned"][0][key].clone());
        assert!(ask(&home, &["-v"]).stderr.contains("; tuned: "), "{key}");
    }
}

#[test]
fn a_model_is_needed_to_measure() {
    Infer::new()
        .args(["tune", "--dry-run"])
        .status(2)
        .stderr_is(|text| text.starts_with("error: ") && text.contains("<MODEL>"))
        .run();
    Infer::new().args(["tune", "missing.gguf"]).status(3).stderr_is(|text| text.starts_with("error: ")).run();
}
