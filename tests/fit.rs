//! `infer fit`: the list that says what to run here.

use serde_json::Value;

use crate::support::Infer;
use crate::support::tiny_gguf::Tiny;

fn fit(args: &[&str]) -> Infer {
    Infer::new().arg("fit").args(args.iter().copied())
}

/// The object of `--json`, which is all that is printed.
fn object(infer: Infer) -> Value {
    let ran = infer.arg("--json").stdout_is(|text| text.lines().count() == 1).run();
    serde_json::from_str(&ran.stdout).expect("an object")
}

fn models(object: &Value) -> &[Value] {
    object["models"].as_array().expect("models")
}

#[test]
fn a_model_that_is_here_is_judged_by_its_header() {
    let object = object(fit(&["demo"]));
    let [demo] = models(&object) else { panic!("{object}") };
    for (pointer, expected) in [
        ("/name", Value::from("demo")),
        ("/quantization", Value::from("F16")),
        ("/bytes", Value::from(5_121_024)),
        ("/estimated", Value::from(false)),
        ("/here", Value::from(true)),
        ("/fits", Value::from(true)),
        ("/why", Value::Null),
        ("/layers", Value::from(5)),
        ("/context", Value::from(1024)),
        ("/kv", Value::from("f16")),
    ] {
        assert_eq!(demo.pointer(pointer), Some(&expected), "{pointer}");
    }
    // Its weights, the table of embeddings once more for a row, and 2 KB for each of 514 tokens.
    let speed = object.pointer("/machine/bytes_per_second").and_then(Value::as_f64).expect("a speed");
    let most = demo["tokens_per_second"].as_f64().expect("a limit");
    if object["machine"]["gpus"].as_array().is_some_and(Vec::is_empty) {
        let read = 5_121_024.0 + 512.0 + 514.0 * 2048.0;
        assert!((most * read / speed - 1.0).abs() < 1e-6, "{most} {speed}");
    }
}

#[test]
fn without_names_it_lists_the_registry_the_largest_comfortable_one_first() {
    let object = object(fit(&["--all"]));
    let all = models(&object);
    assert!(all.len() > 30, "{}", all.len());
    assert!(all.iter().all(|model| model["estimated"] == true && model["here"] == false));
    let of = |name: &str| all.iter().find(|model| model["name"] == name).expect(name);
    assert_eq!(of("qwen3:8b")["bytes"], 4_900_000_000_u64);
    assert_eq!(of("qwen3:8b")["quantization"], "Q4_K_M");
    assert!(of("qwen3:8b")["layers"].is_null());
    // What fits stands before what does not.
    let fits: Vec<bool> = all.iter().map(|model| model["fits"] == true).collect();
    assert!(fits.is_sorted_by(|a, b| a >= b), "{fits:?}");
}

#[test]
fn what_does_not_fit_is_left_out_or_says_why() {
    let ran = fit(&["--ctx", "1073741824"]).stdout_is(|_| true).stderr_is(|_| true).run();
    assert_eq!(ran.stdout, "NAME  QUANT  SIZE  RUNS ON  CONTEXT  UP TO\n");
    let all = fit(&["--ctx", "1073741824", "--all"]).stdout_is(|_| true).stderr_is(|_| true).run();
    let row = all.stdout.lines().find(|line| line.starts_with("qwen3:8b ")).expect("a row");
    let words: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(words[..9], ["qwen3:8b", "Q4_K_M", "~4.9", "GB", "no", "-", "-", "needs", "159.4"], "{row}");
    assert!(row.ends_with(" is free"), "{row}");
}

#[test]
fn the_advice_can_be_typed() {
    let ran = fit(&["demo"]).stdout_is(|_| true).stderr_is(|_| true).run();
    let mut rows = ran.stdout.lines();
    assert_eq!(
        rows.next().map(|head| head.split_whitespace().collect::<Vec<_>>()),
        Some(vec!["NAME", "QUANT", "SIZE", "RUNS", "ON", "CONTEXT", "UP", "TO"])
    );
    assert!(
        rows.next().is_some_and(|row| row.starts_with("demo  F16    5.1 MB  ") && row.ends_with("  here"))
    );
    let [machine, advice] = ran.stderr.lines().collect::<Vec<_>>()[..] else { panic!("{}", ran.stderr) };
    assert!(machine.contains("CPU: ") && machine.ends_with(" a second"), "{machine}");
    assert_eq!(advice, "the largest that answers as fast as one reads: `infer run demo`");
    fit(&["demo", "-q"]).stdout_is(|_| true).run();
}

#[test]
fn eight_bits_are_taken_where_a_model_can_have_them() {
    let narrow = || fit(&["narrow.gguf", "demo", "--kv", "q8_0"]).file("narrow.gguf", Tiny::llama().bytes());
    let object = object(narrow());
    let [demo, narrow] = models(&object) else { panic!("{object}") };
    assert_eq!((&demo["name"], &demo["kv"]), (&Value::from("demo"), &Value::from("q8_0")));
    let why = "a q8_0 KV cache needs heads of a multiple of 32 values; here they have 16";
    assert_eq!((&narrow["fits"], &narrow["why"]), (&Value::from(false), &Value::from(why)));
}

#[test]
fn a_context_is_given_as_everywhere() {
    let object = object(fit(&["demo", "--ctx", "2k"]));
    assert_eq!(models(&object)[0]["context"], 2048);
    let error = "error: invalid value '15' for '--ctx <N>': a context has 16 to 1,073,741,824 tokens";
    fit(&["--ctx", "15"]).status(2).stderr_is(|err| err.lines().next() == Some(error)).run();
}

#[test]
fn a_device_that_is_not_there_is_refused() {
    fit(&["demo", "--device", "abacus"])
        .status(1)
        .stderr_is(|text| {
            text.starts_with("error: no device `abacus`; this build sees `")
                && text.ends_with("`\nhint: `infer --version -v` lists backends and devices\n")
        })
        .run();
    let object = object(fit(&["demo", "--device", "cpu"]));
    assert_eq!(object.pointer("/machine/gpus"), Some(&Value::Array(Vec::new())));
}

#[test]
fn names_that_say_nothing_are_refused() {
    fit(&["org/repo"])
        .status(1)
        .stderr(
            "error: `org/repo` is not here, and its size is not known\n\
             hint: `infer show org/repo` reads its header\n",
        )
        .run();
    fit(&["nonsense-model"]).status(3).stderr_is(|err| err.starts_with("error: no such model: ")).run();
}

/// A thread takes two megabytes of addresses for its stack.
#[test]
#[cfg(target_os = "linux")]
fn threads_that_cannot_be_started_are_one_clear_error() {
    let home = tempfile::tempdir().expect("a folder");
    let script = "ulimit -v 1000000 && exec \"$INFER\" fit demo --threads 1024";
    let ran = std::process::Command::new("/bin/sh")
        .args(["-c", script])
        .env_clear()
        .env("HOME", home.path())
        .env("INFER", env!("CARGO_BIN_EXE_infer"))
        .output()
        .expect("a shell");
    let said = String::from_utf8_lossy(&ran.stderr);
    let [error, hint] = said.lines().collect::<Vec<_>>()[..] else { panic!("{said}") };
    assert!(error.starts_with("error: cannot start 1024 threads: "), "{error}");
    assert!(hint.starts_with("hint: `--threads "), "{hint}");
    assert_eq!((ran.status.code(), ran.stdout.len()), (Some(1), 0));
}
