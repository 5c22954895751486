//! The whole program on real models. `make test-real` fetches them and runs these.

mod interop;

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::support::{Infer, real_model, real_python};

fn run(model: &str) -> Infer {
    Infer::new().arg("run").arg(real_model(model)).args(["-t", "1", "--temp", "0"])
}

fn chat(model: &str) -> Infer {
    Infer::new().arg("chat").arg(real_model(model)).args(["-t", "1", "--temp", "0"])
}

fn json(infer: Infer) -> Value {
    let ran = infer.arg("--json").stdout_is(|_| true).run();
    serde_json::from_str(&ran.stdout).unwrap_or_else(|e| panic!("{e}: {}", ran.stdout))
}

const SMOLLM2: &str = "SmolLM2-135M-Instruct.Q4_1.gguf";
const GEMMA: &str = "gemma-3-270m-q4_k_m.gguf";
const BRIEF: &str = "You are a helpful assistant.";

#[test]
#[ignore = "needs a real model"]
fn smollm2_names_paris() {
    run(SMOLLM2)
        .args(["-s", BRIEF, "What is the capital of France?"])
        .stdout("The capital of France is Paris.\n")
        .run();
}

#[test]
#[ignore = "needs a real model"]
fn smollm2_keeps_the_bos_that_is_its_role_marker() {
    // `<|im_start|>` for each message and for the answer; nothing stripped, nothing doubled.
    let prompt = "<|im_start|>system\nA<|im_end|>\n<|im_start|>user\nB<|im_end|>\n<|im_start|>assistant\n";
    let raw = json(run(SMOLLM2).args(["-n", "1", "--raw"]).stdin(prompt));
    let value = json(run(SMOLLM2).args(["-s", "A", "-n", "1", "B"]));
    assert_eq!((&value["tokens"]["prompt"], &raw["tokens"]["prompt"]), (&16.into(), &16.into()));
}

#[test]
#[ignore = "needs a real model"]
fn smollm2_remembers_over_turns_and_evaluates_only_new_tokens() {
    let lines = "What is the capital of France?\nAnd of Italy?\n";
    let ran = chat(SMOLLM2)
        .args(["-s", BRIEF, "--stats"])
        .stdin(lines)
        .stdout("The capital of France is Paris.\nThe capital of Italy is Rome.\n")
        .stderr_is(|_| true)
        .run();
    let stats: Vec<&str> = ran.stderr.lines().filter(|line| line.contains(" cached")).collect();
    assert!(
        stats.len() == 2 && stats[0].contains("(0 cached)") && !stats[1].contains("(0 cached)"),
        "{stats:?}"
    );
}

#[test]
#[ignore = "needs a real model"]
fn smollm2_reads_a_pipe_and_a_file() {
    let report = "The meeting is on Tuesday at ten. Bring the blue folder.";
    let run = || run(SMOLLM2).args(["-s", BRIEF, "-n", "40", "On which day is the meeting?"]);
    run().stdin(report).stdout_is(|out| out.contains("Tuesday")).run();
    run()
        .args(["-f", "report.txt"])
        .file("report.txt", report)
        .stdout_is(|out| out.contains("Tuesday"))
        .run();
}

#[test]
#[ignore = "needs a real model"]
fn gemma_continues_text_and_has_no_template() {
    run(GEMMA)
        .args(["-n", "6", "Monday, Tuesday, Wednesday,"])
        .stdout(" Thursday, Friday, Saturday,\n")
        .run();
    run(GEMMA).args(["--raw", "-n", "6", "1, 2, 3, 4, 5, 6,"]).stdout(" 7, 8,\n").run();
    let refused = "error: the model has no chat template, so it can only continue texts\n\
                   hint: try `--template chatml`, or `infer run MODEL --raw \"Once upon a time\"`\n";
    chat(GEMMA).stdin("hi\n").stderr(refused).status(1).run();
}

#[test]
#[ignore = "needs a real model"]
fn gemma_gets_exactly_one_bos() {
    let count =
        |text: &str| json(run(GEMMA).args(["--raw", "-n", "1", text]))["tokens"]["prompt"].as_u64().unwrap();
    assert_eq!(count("The"), 2);
    assert_eq!(count("<bos>The"), 2, "the prompt brings its own");
}

/// A prompt longer than the sliding window of 512 tokens.
fn long_text() -> String {
    let words = ["river", "stone", "lamp", "garden", "letter", "winter", "bridge", "music"];
    (0..700).map(|i| words[(i * i + i / 3) % words.len()]).collect::<Vec<_>>().join(" ")
}

#[test]
#[ignore = "needs a real model"]
fn gemmas_sliding_window_answers_like_a_fresh_process_after_edit_and_regenerate() {
    let template = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:";
    let chat = |lines: String| {
        chat(GEMMA)
            .args(["--template", "plain.jinja", "-n", "12", "--stop", "\n"])
            .file("plain.jinja", template)
            .stdin(lines)
            .stdout_is(|_| true)
            .stderr_is(|_| true)
            .run()
            .stdout
    };
    let last = |out: &str| out.lines().last().unwrap_or_default().to_owned();
    let long = long_text();
    let fresh = chat(format!("{long} The capital of France is\n"));
    let regenerated = chat(format!("{long} The capital of France is\n/regen\n"));
    assert_eq!(last(&regenerated), last(&fresh), "regenerated");
    let edited = chat(format!("{long} The capital of Italy is\n/edit {long} The capital of France is\n"));
    assert_eq!(last(&edited), last(&fresh), "edited");
    // The edit is far behind the window: everything must be evaluated again.
    let early = chat(format!("The sea. {long} It is\n/edit {long} The capital of France is\n"));
    assert_eq!(last(&early), last(&fresh), "edited at the start");
}

#[test]
#[ignore = "needs a real model"]
fn gemmas_sliding_window_answers_like_a_fresh_process_after_overflow() {
    let template = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:";
    let chat = |lines: &str| {
        chat(GEMMA)
            .args(["--template", "plain.jinja", "-n", "12", "--stop", "\n", "--ctx", "1024"])
            .file("plain.jinja", template)
            .stdin(lines)
            .stdout_is(|_| true)
            .stderr_is(|_| true)
            .run()
    };
    let long = long_text();
    let question = format!("{long} The capital of France is\n");
    let after = chat(&format!("{long}\n{question}"));
    assert!(after.stderr.contains("window: dropped 1 turn, "), "{}", after.stderr);
    assert_eq!(after.stdout.lines().last(), chat(&question).stdout.lines().last());
}

#[test]
#[ignore = "needs a real model"]
fn what_a_file_left_on_disk_serves_the_next_run_also_with_a_sliding_window() {
    for model in [SMOLLM2, GEMMA] {
        let ask = |question: &str| {
            let infer = run(model).args(["--template", "chatml", "-n", "12", "-f", "long.txt", question]);
            infer.file("long.txt", long_text())
        };
        let first = ask("Which word comes first?").arg("--json").stdout_is(|_| true).run();
        for question in ["Which word comes first?", "Say hello."] {
            let cached = json(ask(question).home(&first.home));
            let fresh = json(ask(question).arg("--no-cache"));
            assert_eq!((&cached["text"], &cached["tokens"]["cached_from"]), (&fresh["text"], &"disk".into()));
            let evaluated = cached["tokens"]["evaluated"].as_u64();
            assert!(evaluated < Some(40) && fresh["tokens"]["evaluated"].as_u64() > Some(700), "{cached}");
        }
    }
}

#[test]
#[ignore = "needs a real model"]
fn show_knows_both_models() {
    let show = |model: &str| {
        let ran = Infer::new().arg("show").arg(real_model(model)).arg("--json").stdout_is(|_| true).run();
        serde_json::from_str::<Value>(&ran.stdout).unwrap()
    };
    let (smollm2, gemma) = (show(SMOLLM2), show(GEMMA));
    assert_eq!((&smollm2["architecture"], &gemma["architecture"]), (&"llama".into(), &"gemma3".into()));
    assert_eq!((&smollm2["attention"], &gemma["attention"]), (&"GQA".into(), &"MQA".into()));
    assert_eq!(gemma["sliding_window"], 512);
}

/// What llama.cpp allocates for keys and values, in MiB, and what we say that it is, in bytes of a short number.
#[test]
#[ignore = "needs a real model"]
fn the_load_line_says_what_llama_cpp_allocates() {
    for model in [SMOLLM2, GEMMA] {
        for kv in ["f16", "q8_0", "q4_0"] {
            for ctx in ["100", "512", "1000", "4096", "8192"] {
                let ran = run(model)
                    .args(["-vv", "-n", "1", "--kv", kv, "-c", ctx, "x"])
                    .stdout_is(|_| true)
                    .stderr_is(|_| true)
                    .run();
                let after = |line: &str, start: &str| {
                    let number = line.split_once(start)?.1.split_whitespace().next()?;
                    number.parse::<f64>().ok()
                };
                let told: f64 =
                    ran.stderr.lines().filter_map(|line| after(line, "llama_kv_cache: size =")).sum();
                let ours = ran.stderr.lines().find_map(|line| after(line, &format!("KV {kv} "))).unwrap();
                // A tenth of a MB is what the line shows.
                let told = told * f64::from(1 << 20) / 1e6;
                assert!((ours - told).abs() < 0.07, "{model} {kv} {ctx}: {ours} MB, llama.cpp {told} MB");
            }
        }
    }
}

#[test]
#[ignore = "needs Python"]
fn a_model_of_random_weights_is_what_was_asked_for_and_runs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("random.gguf");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/gpu/random_model.py");
    let shape =
        "--layers 8 --width 256 --feed-forward 512 --heads 4 --kv-heads 2 --vocabulary 300 --context 512";
    let made =
        Command::new(real_python()).arg(script).arg(&path).args(shape.split(' ')).status().expect("Python");
    assert!(made.success());
    let about = json(Infer::new().arg("show").arg(&path));
    assert_eq!((&about["quantization"], &about["layers"]), (&"Q4_K_M".into(), &8.into()));
    let answer = json(Infer::new().arg("run").arg(&path).args(["--temp", "0", "-n", "8", "Hello"]));
    assert_eq!(answer["tokens"]["generated"], 8);
}

/// The plan of `show` and what llama.cpp's log says that it allocates: within 3 %, part by part. Weights that it copies into
/// another layout (`CPU_REPACK`) take the place of the file's pages, which are never read again.
#[test]
#[ignore = "needs a real model"]
fn the_plan_is_what_llama_cpp_allocates() {
    for model in ["demo", SMOLLM2, GEMMA] {
        let path = if model == "demo" { model.into() } else { real_model(model) };
        for kv in ["f16", "q8_0"] {
            for ctx in ["512", "1024", "8192"] {
                let what = format!("{model} {kv} {ctx}");
                let fit = || Infer::new().arg("fit").arg(&path).args(["--kv", kv, "-c", ctx, "-t", "1"]);
                let ran = fit().args(["-q", "--device", "cpu", "--json"]).stdout_is(|_| true).run();
                let planned: Value = serde_json::from_str(&ran.stdout).unwrap();
                let run =
                    Infer::new().arg("run").arg(&path).args(["-vv", "-n", "1", "-t", "1", "--raw", "x"]);
                let run = run.args(["--kv", kv, "-c", ctx, "--device", "cpu"]);
                let log = run.stdout_is(|_| true).stderr_is(|_| true).run().stderr;
                for (part, buffer) in [
                    ("weights", "CPU_Mapped model buffer size"),
                    ("cache", "CPU KV buffer size"),
                    ("compute", "CPU compute buffer size ="),
                    ("output", "CPU  output buffer size"),
                ] {
                    let told: f64 = log.lines().filter_map(|line| mib_behind(line, buffer)).sum();
                    let ours =
                        planned["models"][0]["devices"][0][part].as_f64().unwrap() / f64::from(1 << 20);
                    // The log tells hundredths.
                    let near = (ours - told).abs() <= 0.03 * told + 0.006;
                    assert!(near, "{what}: {part} {ours} MiB, llama.cpp {told} MiB\n{log}");
                }
            }
        }
    }
}

/// `CPU KV buffer size =    11.25 MiB`
fn mib_behind(line: &str, buffer: &str) -> Option<f64> {
    let words = line.split_once(buffer)?.1.trim_start_matches([' ', '=']);
    words.split_once(" MiB")?.0.trim().parse().ok()
}
