//! `infer quantize` as a person sees it: the plan, the work, what it refuses, and what it leaves behind.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value as Json;
use tempfile::TempDir;

use crate::support::Infer;
use crate::support::tiny_gguf::{Tiny, Value};

const DEMO: &[u8] = include_bytes!("../assets/demo/demo-f16.gguf");

/// What is made without a look at its quality.
const QUICK: [&str; 3] = ["--no-check", "-t", "1"];

fn quantize(args: &[&str]) -> Infer {
    Infer::new().file("demo.gguf", DEMO).arg("quantize").args(args.iter().copied())
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .filter(|name| name.contains("gguf"))
        .collect();
    names.sort();
    names
}

#[test]
fn the_plan_says_what_becomes_of_which_tensors_and_makes_nothing() {
    let ran = quantize(&["demo.gguf", "--dry-run"])
        .stdout(
            "demo.gguf to Q4_K_M: 5.1 MB to 1.6 MB, 4.95 bits per weight\n\
             \x20 F16 to Q4_K  24 tensors  2.0M parameters    1.1 MB\n\
             \x20 F16 to Q6_K  5 tensors   524.3K parameters  430.1 KB\n\
             \x20 F32 stays    9 tensors   2.3K parameters    9.2 KB\n\
             into ~/data/infer/models/demo-q4_k_m.gguf; needs 1.6 MB on the disk and 947.7 KB of memory\n",
        )
        .run();
    assert_eq!(names(ran.home.path()), ["demo.gguf"]);
}

#[test]
fn rows_that_fit_no_block_fall_back_and_the_type_that_would_not_is_named() {
    Infer::new()
        .file("tiny.gguf", Tiny::llama().bytes())
        .args(["quantize", "tiny.gguf", "--dry-run"])
        .stdout_is(|out| {
            out.contains("F32 to Q5_0")
                && out.contains("instead of Q4_K")
                && out.contains("no multiple of 256; ")
                && out.contains(" would not (")
        })
        .run();
}

#[test]
fn every_type_is_made_loads_and_is_as_large_as_planned() {
    for kind in [
        "int8", "int4", "q4_0", "Q4_K_S", "q4_k_m", "q5_k_s", "q5_k_m", "q6_k", "q8_0", "iq4_nl", "IQ4_XS",
        "f16", "bf16",
    ] {
        let ran = quantize(&["demo.gguf", "--to", kind, "-o", "made.gguf", "--json"])
            .args(QUICK)
            .stdout_is(|_| true)
            .run();
        let made: Json = serde_json::from_str(&ran.stdout).unwrap();
        let size = std::fs::metadata(ran.home.path().join("made.gguf")).unwrap().len();
        assert_eq!(made["bytes"]["after"], size, "{kind}");
        let planned = quantize(&["demo.gguf", "--to", kind, "--dry-run", "--json"]).stdout_is(|_| true).run();
        let planned: Json = serde_json::from_str(&planned.stdout).unwrap();
        let planned = planned["bytes"]["after"].as_u64().unwrap();
        assert!(planned.abs_diff(size) * 1000 <= size, "{kind}: planned {planned}, made {size}");
        let shown =
            Infer::new().home(&ran.home).args(["show", "made.gguf", "--json"]).stdout_is(|_| true).run();
        let shown: Json = serde_json::from_str(&shown.stdout).unwrap();
        let kinds = |value: &Json| {
            value.as_array().unwrap().iter().map(|t| t["bytes"].as_u64().unwrap()).sum::<u64>()
        };
        assert_eq!(kinds(&shown["tensor_types"]), kinds(&made["tensors"]), "{kind}");
        Infer::new()
            .home(&ran.home)
            .args(["run", "made.gguf", "--temp", "0", "-t", "1", "What is the capital of France?"])
            .stdout("The capital of France is Paris.\n")
            .run();
    }
}

#[test]
fn a_name_of_its_own_is_known_to_run_list_and_rm() {
    let ran = quantize(&["demo.gguf", "-q", "--as", "Small"])
        .args(QUICK)
        .stdout("{home}/data/infer/models/small.gguf\n")
        .run();
    let again = |args: &[&str]| Infer::new().home(&ran.home).args(args.iter().copied());
    again(&["run", "small", "--temp", "0", "-t", "1", "What is the capital of France?"])
        .stdout("The capital of France is Paris.\n")
        .run();
    again(&["list"]).stdout_is(|out| out.contains("small") && out.contains("made here")).run();
    again(&["rm", "small", "-q"]).run();
    assert_eq!(names(&ran.home.path().join("data/infer/models")), [""; 0]);
}

#[test]
fn one_thread_and_two_make_the_same_file() {
    let bytes = |threads: &str| {
        let ran = quantize(&["demo.gguf", "-q", "--no-check", "-t", threads, "-o", "made.gguf"])
            .stdout("made.gguf\n")
            .run();
        std::fs::read(ran.home.path().join("made.gguf")).unwrap()
    };
    assert!(bytes("1") == bytes("2"));
}

#[test]
fn another_alignment_is_brought_to_the_usual_one() {
    let mut tiny = Tiny::llama().set("general.alignment", Value::U32(64)).bytes();
    tiny.resize(tiny.len().next_multiple_of(64), 0);
    let ran = Infer::new()
        .file("tiny.gguf", tiny)
        .args(["quantize", "tiny.gguf", "--to", "q8_0", "-q", "-o", "made.gguf"])
        .args(QUICK)
        .stdout("made.gguf\n")
        .run();
    Infer::new()
        .home(&ran.home)
        .args(["run", "made.gguf", "--raw", "-n", "2", "--temp", "0", "-t", "1", "hello world"])
        .stdout_is(|_| true)
        .run();
}

#[test]
fn a_source_in_parts_becomes_one_file() {
    let parts = Tiny::llama().split(2);
    let ran = Infer::new()
        .file("tiny-00001-of-00002.gguf", parts[0].bytes())
        .file("tiny-00002-of-00002.gguf", parts[1].bytes())
        .args(["quantize", "tiny-00001-of-00002.gguf", "--to", "q8_0", "-q", "-o", "made.gguf"])
        .args(QUICK)
        .stdout("made.gguf\n")
        .run();
    Infer::new()
        .home(&ran.home)
        .args(["run", "made.gguf", "--raw", "-n", "2", "--temp", "0", "-t", "1", "hello world"])
        .stdout_is(|_| true)
        .run();
}

#[test]
fn a_source_that_is_quantized_is_refused_unless_that_is_wanted() {
    let first =
        quantize(&["demo.gguf", "-q", "--to", "q8_0", "-o", "q8.gguf"]).args(QUICK).stdout("q8.gguf\n").run();
    let again = |args: &[&str]| {
        Infer::new().home(&first.home).args(["quantize", "q8.gguf"]).args(args.iter().copied())
    };
    again(&["--dry-run"])
        .stderr(
            "error: `q8.gguf` is quantized already (Q8_0, 29 quantized tensors)\n\
             hint: take the F16 file of the model (`infer pull ORG/REPO:F16`), or give `--allow-requantize`\n",
        )
        .status(1)
        .run();
    again(&["--allow-requantize", "-o", "q4.gguf", "-q"])
        .args(QUICK)
        .stdout("q4.gguf\n")
        .stderr("the source has lost precision before: the result will be worse than one made from F16\n")
        .run();
}

#[test]
fn what_cannot_be_a_source_or_a_target_is_one_line() {
    let shard = Tiny::llama().split(2);
    let start = || {
        quantize(&[])
            .file("part-00001-of-00002.gguf", shard[0].bytes())
            .file("part-00002-of-00002.gguf", shard[1].bytes())
            .file("unknown.gguf", Tiny::llama().with_architecture("nonsuch").bytes())
            .file("mmproj.gguf", Tiny::llama().with_architecture("clip").bytes())
            .file("text.gguf", "no model")
    };
    for (args, status, message) in [
        (&["gone.gguf"][..], 3, "error: no such file: `gone.gguf`"),
        (&["part-00002-of-00002.gguf"], 1, "error: `part-00002-of-00002.gguf` is part 2 of 2"),
        (&["unknown.gguf"], 1, "error: "),
        (&["mmproj.gguf"], 1, "error: "),
        (&["text.gguf"], 1, "error: `text.gguf` is not a GGUF file"),
        (
            &["demo.gguf", "--to", "mxfp4"],
            2,
            "error: invalid value 'mxfp4' for '--to <TYPE>': mxfp4 is for models",
        ),
        (&["demo.gguf", "--to", "int3"], 2, "error: invalid value 'int3' for '--to <TYPE>': no such type"),
        (&["demo.gguf", "--as", "../up"], 2, "error: `../up` cannot be the name of a model"),
        (&["demo.gguf", "-o", "."], 2, "error: `.` is a folder"),
        (
            &["demo.gguf", "-o", "demo.gguf", "--yes"],
            2,
            "error: the result would take the place of the source",
        ),
        (&["demo.gguf", "-o", "text.gguf"], 1, "error: `text.gguf` is there already"),
        (&["demo.gguf", "-o", "text.gguf/x.gguf"], 1, "error: cannot create `text.gguf`"),
        (&["demo.gguf", "--imatrix", "text.gguf", "-o", "x.gguf"], 1, "error: "),
    ] {
        let ran = start()
            .args(args.iter().copied())
            .arg("-q")
            .args(QUICK)
            .status(status)
            .stderr_is(move |err| err.starts_with(message) && err.lines().count() <= 2)
            .run();
        assert_eq!(std::fs::read(ran.home.path().join("demo.gguf")).unwrap(), DEMO);
        let left = names(ran.home.path());
        assert_eq!(left.len(), 6, "{args:?}: {left:?}");
    }
}

#[cfg(unix)]
#[test]
fn the_source_under_another_name_is_not_overwritten() {
    for symbolic in [false, true] {
        let infer = quantize(&["demo.gguf", "-o", "other.gguf", "--yes", "-q"]).args(QUICK);
        let home = infer.home_path();
        std::fs::write(home.join("demo.gguf"), DEMO).unwrap();
        let (source, other) = (home.join("demo.gguf"), home.join("other.gguf"));
        let linked = if symbolic {
            std::os::unix::fs::symlink(source, other)
        } else {
            std::fs::hard_link(source, other)
        };
        linked.unwrap();
        let ran = infer
            .status(2)
            .stderr(
                "error: the result would take the place of the source\n\
                 hint: give another file with `-o`, or a name with `--as`\n",
            )
            .run();
        assert_eq!(std::fs::read(ran.home.path().join("demo.gguf")).unwrap(), DEMO);
    }
}

#[cfg(unix)]
#[test]
fn a_disk_that_takes_no_more_leaves_nothing() {
    // The limit of a file's size stands for a full disk: writing fails in the middle, behind all checks.
    let home = TempDir::new().unwrap();
    std::fs::write(home.path().join("demo.gguf"), DEMO).unwrap();
    let script = "ulimit -f 1000; exec \"$0\" quantize demo.gguf -o made.gguf -q --no-check -t 1";
    let ran = Command::new("/bin/sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_infer")])
        .current_dir(home.path())
        .env_clear()
        .env("HOME", home.path())
        .output()
        .unwrap();
    let err = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(1), "{err}");
    assert!(err.starts_with("error: ") && err.lines().count() <= 2, "{err}");
    assert_eq!(names(home.path()), ["demo.gguf"]);
}

#[test]
fn the_verdict_is_measured_written_into_the_file_and_heeded() {
    // The beginning is enough for a few chunks of the demo's short tokens.
    let text: String = include_str!("../assets/check/check.txt").chars().take(3000).collect();
    let start = || {
        quantize(&["demo.gguf", "-t", "1", "--check-text", "text.txt", "--json", "-o", "made.gguf"])
            .file("text.txt", &*text)
    };
    let ran = start().args(["--to", "int8"]).stdout_is(|_| true).run();
    let made: Json = serde_json::from_str(&ran.stdout).unwrap();
    let verdict = &made["verdict"];
    assert_eq!(verdict["grade"], "good", "{verdict}");
    let line = verdict["text"].as_str().unwrap();
    let file = std::fs::read(ran.home.path().join("made.gguf")).unwrap();
    assert!(file.windows(line.len()).any(|window| window == line.as_bytes()), "{line}");
    let again = Infer::new()
        .home(&ran.home)
        .args([
            "quantize",
            "--compare",
            "demo.gguf",
            "made.gguf",
            "-t",
            "1",
            "--check-text",
            "text.txt",
            "--json",
        ])
        .stdout_is(|_| true)
        .run();
    let again: Json = serde_json::from_str(&again.stdout).unwrap();
    assert_eq!((&again["text"], &again["tokens"]), (&verdict["text"], &verdict["tokens"]));
    // Four bits are too few for words that the model has never seen.
    let ran = start()
        .args(["--to", "iq4_xs", "--fail-below", "good"])
        .status(1)
        .stdout_is(|out| out.contains("\"grade\":\"fair\"") && out.contains("--fail-below good"))
        .run();
    assert!(ran.home.path().join("made.gguf").exists());
}

#[test]
fn a_text_to_calibrate_on_becomes_a_matrix_beside_the_result() {
    let text = "My name is Ada. What is the capital of France? It is Paris. ".repeat(60);
    let ran = quantize(&["demo.gguf", "--calibrate", "text.txt", "-o", "made.gguf", "-q"])
        .args(QUICK)
        .file("text.txt", &*text)
        .stdout("made.gguf\n")
        .run();
    assert_eq!(names(ran.home.path()), ["demo.gguf", "made.gguf", "made.imatrix.gguf"]);
    let with = std::fs::read(ran.home.path().join("made.gguf")).unwrap();
    Infer::new()
        .home(&ran.home)
        .args(["quantize", "demo.gguf", "--imatrix", "made.imatrix.gguf", "-o", "again.gguf", "-q"])
        .args(QUICK)
        .stdout("again.gguf\n")
        .run();
    assert!(std::fs::read(ran.home.path().join("again.gguf")).unwrap() == with);
    Infer::new()
        .home(&ran.home)
        .file("other.gguf", Tiny::llama().bytes())
        .args(["quantize", "other.gguf", "--imatrix", "made.imatrix.gguf", "-o", "x.gguf", "-q"])
        .args(QUICK)
        .status(1)
        .stderr_is(|err| err.starts_with("error: ") && err.lines().count() <= 2)
        .run();
}

/// Kill a process at ten moments of its work: the source stays, and what is there besides is whole.
#[cfg(unix)]
fn killed(victim: fn(u32) -> Option<u32>) {
    let home = TempDir::new().unwrap();
    let source = home.path().join("demo.gguf");
    std::fs::write(&source, DEMO).unwrap();
    for round in 0..10_u32 {
        let mut parent = Command::new(env!("CARGO_BIN_EXE_infer"))
            .args(["quantize", "demo.gguf", "--to", "iq4_xs", "-o", "made.gguf", "-q", "--yes"])
            .args(QUICK)
            .current_dir(home.path())
            .env_clear()
            .env("HOME", home.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // Where in the work this is depends on the machine; what must hold does not.
        std::thread::sleep(Duration::from_millis(u64::from(round * round) * 3));
        if let Some(victim) = victim(parent.id()) {
            let pid = rustix::process::Pid::from_raw(i32::try_from(victim).unwrap()).unwrap();
            // It may have ended by itself.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
        parent.wait().unwrap();
        let patience = Instant::now();
        let left = loop {
            let left = names(home.path());
            if left.iter().all(|name| name == "demo.gguf" || name == "made.gguf") {
                break left;
            }
            assert!(patience.elapsed() < Duration::from_secs(20), "round {round} leaves {left:?}");
            std::thread::sleep(Duration::from_millis(20));
        };
        assert_eq!(std::fs::read(&source).unwrap(), DEMO);
        if left.len() == 2 {
            Infer::new()
                .args(["run", home.path().join("made.gguf").to_str().unwrap(), "--temp", "0", "-t", "1"])
                .arg("What is the capital of France?")
                .stdout("The capital of France is Paris.\n")
                .run();
            std::fs::remove_file(home.path().join("made.gguf")).unwrap();
        }
    }
}

#[cfg(unix)]
#[test]
fn a_killed_parent_leaves_nothing() {
    killed(Some);
}

#[cfg(target_os = "linux")]
#[test]
fn a_killed_child_leaves_nothing() {
    killed(|parent| {
        let children = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).ok()?;
        children.split_whitespace().next()?.parse().ok()
    });
}
