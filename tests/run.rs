//! `infer run` on the demo model: what goes in, what comes out, on which stream, with which exit code.

use serde_json::Value;

use crate::support::tiny_gguf::{Tensor, Tiny};
use crate::support::{Infer, sees_gpu};

/// `infer run demo`, always the same answer to the same prompt.
fn run() -> Infer {
    Infer::new().args(["run", "demo", "-t", "1", "--temp", "0"])
}

const PARIS: &str = "The capital of France is Paris.\n";

#[test]
fn the_answer_is_all_that_is_on_stdout_and_ends_in_one_newline() {
    run().arg("What is the capital of France?").stdout(PARIS).run();
}

#[test]
fn words_are_joined_to_one_prompt() {
    run().args(["What", "is", "the", "capital", "of", "France?"]).stdout(PARIS).run();
}

#[test]
fn a_pipe_alone_is_the_prompt_and_its_last_newline_is_not() {
    run().stdin("What is the capital of France?\n").stdout(PARIS).run();
}

#[test]
fn files_arguments_and_the_pipe_are_joined_by_blank_lines_in_this_order() {
    let tokens = |ran: &str| serde_json::from_str::<Value>(ran).map(|v| v["tokens"]["prompt"].as_u64());
    let joined = run().args(["--json", "one\n\ntwo\n\nRepeat:\n\nthree"]).stdout_is(|_| true).run();
    let parts = run()
        .args(["--json", "Repeat:", "-f", "one.txt", "-f", "two.txt"])
        .file("one.txt", "one\n")
        .file("two.txt", "two\n\n")
        .stdin("three\n")
        .stdout_is(|_| true)
        .run();
    let (joined, parts) = (tokens(&joined.stdout).unwrap(), tokens(&parts.stdout).unwrap());
    assert!(joined.is_some() && joined == parts, "{joined:?} {parts:?}");
}

#[test]
fn a_system_prompt_is_heard() {
    run().args(["-s", "The user's name is Ada.", "What is my name?"]).stdout("Your name is Ada.\n").run();
}

#[test]
fn emoji_and_other_scripts_that_are_split_over_tokens_come_out_whole() {
    run().arg("What is the emoji for a cat?").stdout("🐱\n").run();
    run().arg("Say hello in Japanese.").stdout("こんにちは！\n").run();
}

#[test]
fn each_request_adds_a_line_to_the_metrics_file() {
    let first = run_with_file("m.jsonl").stdout("3 + 4 = 7.\n").run();
    let chat =
        Infer::new().home(&first.home).args(["chat", "demo", "--temp", "0", "--metrics-file", "m.jsonl"]);
    chat.stdin("Hello\nWhat is 3 + 4?\n").stdout_is(|_| true).run();
    let text = std::fs::read_to_string(first.home.path().join("m.jsonl")).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [run, one, two] = &lines[..] else { panic!("{text}") };
    for line in &lines {
        assert_eq!((&line["model"], &line["finish"]), (&"demo".into(), &"end_of_turn".into()));
        assert!(
            line["ms"]["ttft"].as_f64() > Some(0.0) && line["ms"]["tpot_p95"].as_f64() > Some(0.0),
            "{line}"
        );
    }
    assert!(run["ms"]["load"].is_number() && one["ms"]["load"].is_null());
    assert_eq!(one["tokens"]["cache_hit"], 0.0);
    assert!(two["tokens"]["cache_hit"].as_f64() > Some(0.4), "{two}");

    let note =
        |err: &str| err.starts_with("metrics: cannot write `no/m.jsonl`: ") && err.lines().count() == 1;
    run_with_file("no/m.jsonl").stdout("3 + 4 = 7.\n").stderr_is(note).run();
}

fn run_with_file(path: &str) -> Infer {
    run().args(["--metrics-file", path, "What is 3 + 4?"])
}

#[test]
fn json_has_exactly_the_documented_keys() {
    let ran = run()
        .args(["--json", "--seed", "7", "What is 3 + 4?"])
        .stdout_is(|out| out.lines().count() == 1)
        .run();
    let value: Value = serde_json::from_str(&ran.stdout).unwrap();
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ");
    assert_eq!(
        keys(&value),
        "model text thinking finish seed tokens ms tokens_per_second sampling context bytes"
    );
    assert_eq!(keys(&value["tokens"]), "prompt cached evaluated generated cached_from not_cached cache_hit");
    assert_eq!(keys(&value["ms"]), "load ttft tpot total tpot_p50 tpot_p95");
    assert_eq!(keys(&value["tokens_per_second"]), "prefill decode");
    assert_eq!(keys(&value["context"]), "size used dropped_turns dropped_tokens evictions");
    assert_eq!(keys(&value["sampling"]), "temp top_k top_p min_p repeat_penalty seed");
    assert_eq!(keys(&value["bytes"]), "vram");
    assert_eq!(value["model"], "demo");
    assert_eq!(value["text"], "3 + 4 = 7.");
    assert_eq!(value["thinking"], Value::Null);
    assert_eq!((&value["finish"], &value["seed"]), (&"end_of_turn".into(), &7.into()));
    assert_eq!(value["sampling"]["temp"], serde_json::json!({ "value": 0, "from": "flag" }));
    assert_eq!(value["sampling"]["top_k"], serde_json::json!({ "value": 40, "from": "default" }));
    let counts = |name: &str| value["tokens"][name].as_u64().unwrap();
    assert_eq!((counts("cached"), counts("prompt")), (0, counts("evaluated")));
    assert!(counts("generated") > 3 && value["ms"]["total"].as_f64().unwrap() > 0.0);
    assert_eq!(value["context"]["size"], 1024);
    assert_eq!(value["context"]["used"].as_u64(), Some(counts("prompt") + counts("generated")));
}

#[test]
fn an_error_under_json_is_an_object_with_the_same_exit_code() {
    let expected = r#"{"error":{"kind":"not_found","message":"no such model: `llama9`","hint":"did you mean `llama3.1`, `llama3.2` or `llama3.1:8b`?"}}"#;
    Infer::new().args(["run", "llama9", "--json", "hi"]).stdout(format!("{expected}\n")).status(3).run();
    let usage = |out: &str| {
        out.starts_with(r#"{"error":{"kind":"usage","message":"unexpected argument '--colour' found","#)
    };
    Infer::new().args(["run", "demo", "--json", "--colour"]).stdout_is(usage).status(2).run();
}

#[test]
fn cutting_by_length_and_stop_string_is_no_error() {
    let question = "Count from 3 to 7.";
    run()
        .args(["-n", "4", question])
        .stdout_is(|out| out.starts_with('3') && "3, 4, 5, 6, 7".starts_with(out.trim_end()))
        .run();
    run().args(["-n", "0", question]).run();
    run().args(["--stop", ", 6", question]).stdout("3, 4, 5\n").run();
    run()
        .args(["--stop", "9", "--stop", "4, 5", question])
        .stdout("3,\n")
        .stdout_is(|out| out == "3, \n")
        .run();
    let json = run().args(["--json", "--stop", "5", question]).stdout_is(|_| true).run();
    let value: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!((&value["finish"], &value["text"]), (&"stop".into(), &"3, 4, ".into()));
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_others_differ() {
    let story = |seed: &str| {
        let run =
            Infer::new().args(["run", "demo", "-t", "1", "--temp", "1.5", "--top-k", "0", "--min-p", "0"]);
        run.args(["--top-p", "1", "--seed", seed, "Tell me a story about a fox named Lily."])
            .stdout_is(|_| true)
            .run()
            .stdout
    };
    assert_eq!(story("1"), story("1"));
    assert_ne!(story("1"), story("2"));
}

#[test]
fn statistics_go_to_stderr_and_name_where_values_come_from() {
    let run = run().env("INFER_TOP_K", "12").args(["--stats", "--preset", "precise", "What is 3 + 4?"]);
    let ran = run.stdout("3 + 4 = 7.\n").stderr_is(|err| err.lines().count() == 3).run();
    let loaded = ran.stderr.lines().next().unwrap();
    assert!(
        loaded.starts_with("loaded in ") && loaded.contains("; context 1,024, KV f16 2.1 MB "),
        "{loaded}"
    );
    let stats = ran.stderr.lines().nth(1).unwrap();
    for part in
        ["load ", "prompt ", "(0 cached)", "prefill ", "TTFT ", "decode ", "TPOT ", "finish end_of_turn"]
    {
        assert!(stats.contains(part), "{part} in {stats}");
    }
    assert!(
        ran.stderr.contains("sampling: temp 0 (flag), top-k 12 (env), top-p 0.9 (preset)"),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_prompt_longer_than_the_context_is_refused_with_both_numbers() {
    let prompt = "word ".repeat(400);
    let is_refusal = |err: &str| {
        err.starts_with("error: the prompt is ")
            && err.contains(" tokens long, the context holds 256\nhint: shorten it, or try `--ctx 1024`\n")
    };
    run().args(["--ctx", "256"]).stdin(prompt).stderr_is(is_refusal).status(6).run();
}

#[test]
fn a_full_window_ends_the_answer_and_says_so() {
    let said = "window: all 64 tokens are in use, the answer ends here; try a larger `--ctx` or `--overflow slide`\n";
    let story = "Tell me a story about a fox named Lily.";
    run().args(["--ctx", "64", story]).stdout_is(|out| out.starts_with("Long ago")).stderr(said).run();
    // `chat` says it in the same words.
    let chat =
        Infer::new().args(["chat", "demo", "-t", "1", "--temp", "0", "--ctx", "64", "--overflow", "stop"]);
    chat.stdin(format!("{story}\n")).stdout_is(|out| out.starts_with("Long ago")).stderr(said).run();
}

#[test]
fn an_empty_prompt_is_a_usage_error() {
    let expected = "error: the prompt is empty\nhint: `infer run MODEL \"your question\"`, or pipe one in\n";
    run().stdin("").stderr(expected).status(2).run();
    run().stdin(" \n\n").stderr(expected).status(2).run();
}

#[test]
fn what_is_not_text_is_refused_with_the_place() {
    let hint = "hint: convert it first, such as with `iconv -f latin1 -t utf-8`\n";
    let expected = format!("error: the piped input is not UTF-8 text at byte 4\n{hint}");
    run().stdin(b"caf \xe9".to_vec()).stderr(expected).status(1).run();
    let expected = format!("error: `x.txt` is not UTF-8 text at byte 0\n{hint}");
    run().args(["-f", "x.txt"]).file("x.txt", b"\xff".to_vec()).stderr(expected).status(1).run();
    let expected = "error: cannot read `none.txt`: No such file or directory (os error 2)\n";
    run().args(["-f", "none.txt"]).stderr(expected).status(1).run();
}

#[test]
fn what_a_person_typed_cannot_become_a_control_token() {
    let tokens = |text: &str| {
        let ran = run().args(["--json", "-n", "1", text]).stdout_is(|_| true).run();
        serde_json::from_str::<Value>(&ran.stdout).unwrap()["tokens"]["prompt"].as_u64().unwrap()
    };
    let plain = tokens("a");
    assert!(tokens("a<|im_end|>") > plain + 5, "the text is spelled out, not one token");
    assert_eq!(tokens("aa<|im_end|>") - tokens("a<|im_end|>"), tokens("aa") - plain);
}

#[test]
fn raw_continues_the_text_as_it_is() {
    let raw = Infer::new().args(["run", "demo", "-t", "1", "--temp", "0", "--raw"]);
    let prompt = "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n";
    raw.stdin(prompt).stdout(PARIS).run();
}

#[test]
fn a_model_without_a_template_continues_and_says_so_with_verbose() {
    use crate::support::tiny_gguf::Tiny;
    let tiny = Tiny::llama().without("tokenizer.chat_template").bytes();
    let run =
        || Infer::new().args(["run", "tiny.gguf", "-t", "1", "-n", "1", "a"]).file("tiny.gguf", tiny.clone());
    run().stdout_is(|_| true).run();
    let said = "the model has no chat template: it continues the text as it is\n";
    run().arg("-v").stdout_is(|_| true).stderr_is(move |err| err.contains(said)).run();
    let refused = "error: the model has no chat template, and so no place for a system prompt\n\
                   hint: leave `-s` out, or give a template such as `--template chatml`\n";
    run().args(["-s", "x"]).stderr(refused).status(2).run();
    let chat = "error: the model has no chat template, so it can only continue texts\n\
                hint: try `--template chatml`, or `infer run MODEL --raw \"Once upon a time\"`\n";
    Infer::new().args(["chat", "tiny.gguf", "-t", "1"]).file("tiny.gguf", tiny).stderr(chat).status(1).run();
}

#[test]
fn a_template_can_be_given_by_name_or_file() {
    run().args(["--template", "chatml", "What is the capital of France?"]).stdout(PARIS).run();
    let source = "{{ '<|im_start|>user\n' + messages[0].content + '<|im_end|>\n<|im_start|>assistant\n' }}";
    run()
        .args(["--template", "my.jinja", "What is the capital of France?"])
        .file("my.jinja", source)
        .stdout(PARIS)
        .run();
    let refused = |err: &str| {
        err.starts_with("error: no template `nope`: ")
            && err.contains("\nhint: `--template` takes a Jinja file or one of chatml, ")
    };
    run().args(["--template", "nope", "hi"]).stderr_is(refused).status(2).run();
}

#[test]
fn a_template_without_a_place_for_the_system_prompt_gets_it_in_the_first_message() {
    let source = "{% if messages[0].role == 'system' %}{{ raise_exception('no system role') }}{% endif %}\
                  {{ '<|im_start|>user\n' + messages[0].content + '<|im_end|>\n<|im_start|>assistant\n' }}";
    let said = "the model's template takes no system prompt: it was put in front of the first message\n";
    let run =
        || run().args(["--template", "t.jinja", "-s", "Hello!", "Hello!", "-n", "1"]).file("t.jinja", source);
    run().stdout_is(|_| true).stderr(said).run();
    run().arg("-q").stdout_is(|_| true).stderr(said).run();
}

#[test]
fn thoughts_never_reach_stdout_and_have_their_own_field() {
    let source = "{# </think> #}{{ '<|im_start|>user\n' + messages[0].content + '<|im_end|>\n<|im_start|>assistant\n' }}\
                  {% if enable_thinking is defined and not enable_thinking %}{% else %}<think>\n{% endif %}";
    let run = |think: &str| {
        let run = run().args(["--template", "t.jinja", "--think", think, "--json", "-n", "3", "Hello"]);
        let ran = run.file("t.jinja", source).stdout_is(|_| true).run();
        serde_json::from_str::<Value>(&ran.stdout).unwrap()
    };
    let (on, off) = (run("auto"), run("off"));
    assert!(on["text"] == "" && on["thinking"].as_str().is_some_and(|t| !t.is_empty()), "{on}");
    assert!(off["thinking"] == Value::Null && off["text"] != "", "{off}");
}

#[test]
fn bad_values_are_usage_errors_that_name_the_flag() {
    let help = "hint: `infer --help` and `infer COMMAND --help` show what there is\n";
    for (args, message) in [
        (&["--temp", "-1"][..], "error: `temp` is -1, it must be from 0 to 100\n".to_owned()),
        (&["--top-p", "1.5"], "error: `top-p` is 1.5, it must be from 0 to 1\n".to_owned()),
        (
            &["--ctx", "0"],
            "error: invalid value '0' for '--ctx <N>': a context has 16 to 1,073,741,824 tokens\n\
             hint: `--ctx 8192`, or `--ctx 8k`\n"
                .to_owned(),
        ),
        (
            &["--keep", "-1"],
            "error: invalid value '-1' for '--keep <N>': not a number of tokens\n\
             hint: `--keep 256`, up to half of the context\n"
                .to_owned(),
        ),
        (
            &["-n", "x"],
            "error: invalid value 'x' for '--max-tokens <N>': not a number of tokens\n\
             hint: `-n 256`, or leave it out for no limit\n"
                .to_owned(),
        ),
        (&["--seed", "x"], format!("error: invalid value 'x' for '--seed <N>': not a whole number\n{help}")),
        (
            &["--gpu-layers", "some"],
            format!(
                "error: invalid value 'some' for '--gpu-layers <N|auto|all>': not a number, `auto` or `all`\n{help}"
            ),
        ),
        (
            &["--tmep", "1"],
            "error: unexpected argument '--tmep' found\nhint: did you mean `--temp`?\n".to_owned(),
        ),
    ] {
        Infer::new().args(["run", "demo", "hi"]).args(args.iter().copied()).stderr(message).status(2).run();
    }
}

#[test]
fn a_bad_value_of_the_environment_is_told_as_that() {
    let expected = "error: invalid value 'abc' for '--ctx <N>': not a number of tokens\n\
                    hint: INFER_CTX is set in the environment: `unset INFER_CTX`, or give `--ctx`\n";
    run().arg("hi").env("INFER_CTX", "abc").stderr(expected).status(2).run();
    // A flag wins.
    let run = run().args(["--ctx", "1k", "What is the capital of France?"]);
    run.env("INFER_CTX", "abc").stdout(PARIS).run();
}

#[test]
fn a_device_that_is_not_there_fails_rather_than_falls_back() {
    if sees_gpu() {
        return;
    }
    let expected = "error: no device `cuda`; this build sees `cpu`\nhint: `infer --version -v` lists backends and devices\n";
    run().args(["--device", "cuda", "hi"]).stderr(expected).status(1).run();
    run().args(["--device", "cpu", "What is the capital of France?"]).stdout(PARIS).run();
}

#[test]
#[cfg(target_os = "linux")]
fn a_window_that_does_not_fit_into_memory_is_refused_with_numbers() {
    let refused = |err: &str| {
        err.starts_with("error: the model needs 3.3 TB at context 1,073,741,824; ")
            && err.contains("\nhint: try `--ctx ")
    };
    run().args(["--ctx", "1073741824", "hi"]).stderr_is(refused).status(5).run();
}

#[test]
#[cfg(target_os = "linux")]
fn a_model_that_does_not_fit_names_one_that_does() {
    let elements = 1 << 40;
    let mut model = Tiny::llama();
    let huge =
        Tensor { name: "blk.0.huge.weight".to_owned(), dims: vec![elements], kind: 0, data: Vec::new() };
    model.tensors.push(huge);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("huge.gguf");
    model.write(&path);
    // The rest of the file is a hole.
    let file = std::fs::File::options().write(true).open(&path).expect("the file");
    file.set_len(file.metadata().expect("its size").len() + 4 * elements).expect("a hole");
    let refused = |err: &str| {
        err.starts_with("error: the model needs 4.4 TB at context 256; ")
            && err.contains("\nhint: try a smaller model: `infer run ")
    };
    Infer::new().arg("run").arg(&path).args(["--gpu-layers", "0", "hi"]).stderr_is(refused).status(5).run();
}

#[test]
fn input_without_an_end_is_refused() {
    let expected = "error: `/dev/zero` is longer than 16.8 MB\n\
                    hint: give the part that matters, such as with `head -c 100000`\n";
    run().args(["-f", "/dev/zero"]).stderr(expected).status(6).run();
}

/// GNU's OpenMP tells what it was told.
#[test]
#[cfg(target_os = "linux")]
fn a_person_says_how_long_threads_wait_for_each_other() {
    let run =
        || run().env("OMP_DISPLAY_ENV", "verbose").args(["What is the capital of France?"]).stdout(PARIS);
    run().env("GOMP_SPINCOUNT", "7").stderr_is(|err| err.contains("GOMP_SPINCOUNT = '7'")).run();
    run().env("OMP_WAIT_POLICY", "passive").stderr_is(|err| err.contains("GOMP_SPINCOUNT = '0'")).run();
}

#[test]
fn a_quantized_cache_answers_too() {
    for kv in ["q8_0", "int8", "q4_0", "int4"] {
        run().args(["--kv", kv, "What is the capital of France?"]).stdout(PARIS).run();
    }
}

#[test]
fn a_window_beyond_the_training_is_warned_of() {
    let said = "context: 2,048 tokens wanted, the model was trained on 1,024; answers may get worse beyond\n";
    run().args(["--ctx", "2048", "What is the capital of France?"]).stdout(PARIS).stderr(said).run();
}

#[test]
fn the_version_is_one_line_and_more_with_verbose() {
    let line = format!("infer {}\n", env!("CARGO_PKG_VERSION"));
    Infer::new().arg("--version").stdout(line.clone()).run();
    let ran = Infer::new().args(["-V", "-v"]).stdout_is(|_| true).run();
    assert!(ran.stdout.starts_with(&line), "{}", ran.stdout);
    for part in ["\nllama.cpp  b", "\nbuilt for  CPU: ", "\nbackends   ", "\ndevice     "] {
        assert!(ran.stdout.contains(part), "{part} in {}", ran.stdout);
    }
}

#[test]
fn without_a_command_the_help_is_an_error() {
    Infer::new().stderr_is(|err| err.contains("Usage: infer")).status(2).run();
    Infer::new().arg("--help").stdout_is(|out| out.contains("Usage: infer")).run();
}

#[test]
fn a_seed_is_reported_so_that_an_answer_can_be_had_again() {
    let first = Infer::new()
        .args(["run", "demo", "-t", "1", "--temp", "1", "--json", "Hello"])
        .stdout_is(|_| true)
        .run();
    let value: Value = serde_json::from_str(&first.stdout).unwrap();
    assert_eq!(value["sampling"]["seed"]["from"], "random");
    let seed = value["seed"].to_string();
    let text = value["text"].as_str().unwrap().trim_end().to_owned() + "\n";
    Infer::new().args(["run", "demo", "-t", "1", "--temp", "1", "--seed", &seed, "Hello"]).stdout(text).run();
}

#[test]
fn prompts_around_a_batch_and_around_the_window() {
    // Every digit is a token.
    let raw = |tokens: usize| {
        Infer::new()
            .args(["run", "demo", "-t", "1", "--temp", "0", "--raw", "--json", "-n", "5"])
            .stdin("1".repeat(tokens))
    };
    for (tokens, generated, finish) in
        [(511, 5, "length"), (512, 5, "length"), (513, 5, "length"), (1023, 2, "window")]
    {
        let ran = raw(tokens).stdout_is(|_| true).stderr_is(|_| true).run();
        let value: Value = serde_json::from_str(&ran.stdout).unwrap();
        let said = (&value["tokens"]["prompt"], &value["tokens"]["generated"], &value["finish"]);
        assert_eq!(said, (&tokens.into(), &generated.into(), &finish.into()));
    }
    for tokens in [1024, 1025] {
        let refused = move |out: &str| {
            out.contains(&format!(
                "the prompt is 1,{:03} tokens long, the context holds 1,024",
                tokens - 1000
            ))
        };
        raw(tokens).stdout_is(refused).status(6).run();
    }
}

#[test]
fn the_threads_are_those_that_the_process_may_use() {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let words = if threads == 1 { "1 thread".to_owned() } else { format!("{threads} threads") };
    let run =
        || Infer::new().args(["run", "demo", "-v", "--temp", "0", "-n", "1", "Hello"]).stdout_is(|_| true);
    run().args(["-t", "3"]).stderr_is(|err| err.contains("CPU: 3 threads, weights 5.1 MB, ")).run();
    if threads <= 2 {
        run().stderr_is(move |err| err.contains(&format!("CPU: {words}, weights 5.1 MB, "))).run();
    }
}

#[test]
fn layers_for_a_gpu_that_is_not_there_are_not_silently_elsewhere() {
    if sees_gpu() {
        return;
    }
    let said = "no GPU is seen: all layers stay on the CPU\n";
    run().args(["--gpu-layers", "all", "What is the capital of France?"]).stdout(PARIS).stderr(said).run();
    run().args(["--ngl", "0", "What is the capital of France?"]).stdout(PARIS).run();
}

#[test]
fn what_makes_no_sense_is_said_before_anything_is_read() {
    let expected = "error: `-f` takes a file\nhint: piped input is part of the prompt without a flag\n";
    run().args(["-f", "-"]).stdin("hi").stderr(expected).status(2).run();
    for (name, hint) in [
        ("llama9", "did you mean `llama3.1`, `llama3.2` or `llama3.1:8b`?"),
        ("qwen3:9b", "did you mean `qwen3:8b`, `qwen3:14b` or `qwen3:4b`?"),
        ("zzz", "give `org/repo` of a model on the hub, the path of a GGUF file, or try `infer run demo`"),
    ] {
        let expected = format!("error: no such model: `{name}`\nhint: {hint}\n");
        Infer::new().args(["run", name]).stdin("never read").stderr(expected).status(3).run();
    }
    for (word, hint) in [
        ("pul", "did you mean `pull`?"),
        ("qwen3:8b", "`infer --help` lists the commands; `infer run MODEL` asks a model"),
    ] {
        let expected = format!("error: unrecognized subcommand '{word}'\nhint: {hint}\n");
        Infer::new().arg(word).stderr(expected).status(2).run();
    }
}

#[test]
fn once_verbose_is_our_own_lines_and_twice_the_log_of_llama_cpp() {
    let run = |args: &[&'static str]| {
        let run =
            Infer::new().args(["run", "demo", "-t", "1", "--temp", "0", "What is the capital of France?"]);
        run.args(args.iter().copied()).stdout(PARIS).stderr_is(|_| true).run().stderr
    };
    let own = run(&["-v"]);
    assert!(own.starts_with("loaded ") && own.lines().count() == 1, "{own}");
    for args in [&["-vv"][..], &["-v", "--verbose"]] {
        let all = run(args);
        let (log, rest): (Vec<_>, Vec<_>) = all.lines().partition(|line| line.starts_with("llama.cpp: "));
        assert!(log.len() > 20 && rest.len() == 1 && rest[0].starts_with("loaded "), "{all}");
    }
}
