//! The cache of prompts on disk: what the second run finds, what it must not use, and the verbs that show and clear it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use tempfile::TempDir;

use crate::support::Infer;

const DEMO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/demo/demo-f16.gguf");

/// A file that fills most of the window of the demo.
fn text() -> String {
    "The capital of France is Paris, and that of Italy is Rome.\n".repeat(40)
}

/// `infer run demo -f big.txt …` in a home where an earlier run may have been.
fn ask(home: Option<&Arc<TempDir>>, args: &[&str]) -> Infer {
    let infer = Infer::new().args(["run", "demo", "-t", "1", "-n", "12", "-f", "big.txt"]);
    let infer = infer.args(args.iter().copied()).file("big.txt", text());
    match home {
        Some(home) => infer.home(home).file("big.txt", text()),
        None => infer,
    }
}

/// The object of `--json`, and the lines about the cache on stderr.
fn answer(infer: Infer) -> (Value, Vec<String>, Arc<TempDir>) {
    let ran = infer.args(["--json", "-v"]).stdout_is(|_| true).stderr_is(|_| true).run();
    let notes = ran.stderr.lines().filter(|line| line.starts_with("cache: ")).map(str::to_owned).collect();
    (serde_json::from_str(&ran.stdout).expect("an object"), notes, ran.home)
}

fn count(value: &Value, name: &str) -> u64 {
    value["tokens"][name].as_u64().expect("a number")
}

fn entries(home: &Arc<TempDir>) -> Vec<PathBuf> {
    let Ok(files) = fs::read_dir(home.path().join("cache/infer/prefixes")) else { return Vec::new() };
    let paths = files.map(|file| file.expect("a file").path());
    paths.filter(|path| path.extension().is_some_and(|kind| kind == "kv")).collect()
}

#[test]
fn a_second_run_reads_the_file_s_state_and_answers_the_same() {
    let cold = ["--temp", "0", "What is the capital of France?"];
    let hot =
        ["--temp", "1.5", "--top-k", "0", "--top-p", "1", "--min-p", "0", "--seed", "3", "Tell a story."];
    let (first, notes, home) = answer(ask(None, &cold));
    assert_eq!((count(&first, "cached"), &first["tokens"]["cached_from"]), (0, &Value::Null));
    assert_eq!(first["tokens"]["not_cached"], "nothing was cached");
    assert!(notes.len() == 1 && notes[0].contains(" tokens kept, "), "{notes:?}");
    assert_eq!(entries(&home).len(), 1);

    let (second, notes, _) = answer(ask(Some(&home), &cold));
    assert_eq!((&second["text"], &second["tokens"]["cached_from"]), (&first["text"], &"disk".into()));
    assert_eq!(second["tokens"]["not_cached"], Value::Null);
    assert_eq!(count(&second, "prompt"), count(&first, "prompt"));
    assert_eq!(count(&second, "cached") + count(&second, "evaluated"), count(&second, "prompt"));
    assert!(count(&second, "prompt") > 400 && count(&second, "evaluated") < 40, "{}", second["tokens"]);
    assert!(notes.len() == 1 && notes[0].contains(" tokens loaded in "), "{notes:?}");

    // Another question about the same file, with a seed.
    let (cached, _, _) = answer(ask(Some(&home), &hot));
    let (fresh, notes, nothing) = answer(ask(None, &hot).arg("--no-cache"));
    assert_eq!(count(&cached, "cached"), count(&second, "cached"));
    assert_eq!((&cached["text"], count(&fresh, "cached")), (&fresh["text"], 0));
    assert_eq!(fresh["tokens"]["not_cached"], "the cache on disk is not in use");
    assert!(notes.is_empty() && entries(&nothing).is_empty());
    assert_eq!(entries(&home).len(), 1, "it is the same file");
}

#[test]
fn a_line_in_front_of_the_file_is_told_as_the_reason() {
    let question = ["--temp", "0", "Hello!"];
    let (_, _, home) = answer(ask(None, &question));
    let changed = "A line in front.\n".to_owned() + &text();
    let (value, _, _) = answer(ask(Some(&home), &question).file("big.txt", changed));
    let tokens = &value["tokens"];
    assert_eq!(
        (&tokens["cached"], &tokens["not_cached"]),
        (&0.into(), &"no entry on disk fits the beginning of this prompt".into())
    );
}

#[test]
fn a_system_prompt_is_kept_and_the_question_is_not() {
    let ask = |home: Option<&Arc<TempDir>>, question: &str| {
        let infer = Infer::new().args(["run", "demo", "-t", "1", "--temp", "0", "-s"]);
        let infer = infer.args(["The user's name is Ada. You answer in one short sentence.", question]);
        answer(match home {
            Some(home) => infer.home(home),
            None => infer,
        })
    };
    let (_, _, home) = ask(None, "What is my name?");
    let (other, _, _) = ask(Some(&home), "Who are you?");
    assert!(count(&other, "cached") > 15 && count(&other, "evaluated") < 30, "{}", other["tokens"]);
    for path in entries(&home) {
        let bytes = fs::read(path).unwrap();
        assert!(!bytes.windows(4).any(|some| some == b"name"), "no text stands in an entry");
    }
}

#[test]
fn a_chat_begins_where_a_run_began() {
    let system = "The user's name is Ada. You answer in one short sentence.";
    let chat = Infer::new().args(["chat", "demo", "-t", "1", "--temp", "0", "--stats", "-s", system]);
    let ran = chat.stdin("What is my name?\n").stdout_is(|_| true).stderr_is(|_| true).run();
    assert!(ran.stderr.contains("(0 cached)"), "{}", ran.stderr);
    let chat = Infer::new().args(["chat", "demo", "-t", "1", "--temp", "0", "--stats", "-s", system]);
    let again = chat.home(&ran.home).stdin("Hello!\nWho are you?\n");
    let again = again.stdout_is(|_| true).stderr_is(|_| true).run();
    let mut turns = again.stderr.lines().filter(|line| line.contains(" cached"));
    assert!(turns.next().is_some_and(|line| line.contains(" cached on disk)")), "{}", again.stderr);
    assert!(turns.next().is_some_and(|line| line.contains(" cached)")), "{}", again.stderr);
}

#[test]
fn a_session_goes_on_from_disk_until_it_is_removed() {
    let chat = |args: &[&str], lines: &str| {
        let infer = Infer::new().args(["chat", "-t", "1", "--temp", "0", "--stats"]);
        infer.args(args.iter().copied()).stdin(lines).stdout_is(|_| true).stderr_is(|_| true)
    };
    let told = "My name is Ada.\nTell me a story about a fox named Lily.\n";
    let ran = chat(&["demo", "--session", "work"], told).run();
    let held: Vec<u64> = numbers(&ran.stderr);
    let again = chat(&["--session", "work"], "What is my name?\n").home(&ran.home).run();
    assert_eq!(again.stdout, "Your name is Ada.\n");
    // All of the last turn: its prompt and its answer.
    let cached = numbers(&again.stderr)[1];
    assert_eq!(cached, held[3] + held[5], "{}", ran.stderr);
    assert!(again.stderr.contains(" cached on disk)"), "{}", again.stderr);
    assert!(numbers(&again.stderr)[0] - cached < 30, "{}", again.stderr);
    assert_eq!(entries(&ran.home).len(), 1);
    // Another session has no part in it.
    let other = chat(&["demo", "--session", "play"], told).home(&ran.home).run();
    assert!(other.stderr.contains("(0 cached)"), "{}", other.stderr);
    let list = || Infer::new().home(&ran.home).args(["cache", "list"]);
    list().stdout_is(|out| out.contains("  session work\n") && out.contains("  session play\n")).run();
    chat(&["--remove-session", "work"], "").home(&ran.home).run();
    list().stdout_is(|out| !out.contains("session work") && out.contains("  session play\n")).run();
}

/// The counts of tokens in lines of statistics: of the prompt, cached, generated, and so on for each turn.
fn numbers(stats: &str) -> Vec<u64> {
    let words: Vec<&str> = stats.split([' ', '(']).collect();
    let counted =
        words.windows(2).filter(|pair| pair[1].starts_with("token") || pair[1].starts_with("cached"));
    counted.filter_map(|pair| pair[0].replace(',', "").parse().ok()).collect()
}

#[test]
fn what_was_made_otherwise_is_not_used() {
    let (first, _, home) = answer(ask(None, &["--temp", "0", "Hello!"]));
    let not_used = |infer: Infer, what: &str| {
        let (value, notes, _) = answer(infer);
        assert_eq!(count(&value, "cached"), 0);
        let reason = format!("is not used: it was made with another {what}");
        assert_eq!(value["tokens"]["not_cached"], format!("an entry on disk {reason}"));
        assert!(notes.iter().any(|note| note.ends_with(&reason)), "{notes:?}");
        assert!(notes.iter().all(|note| !note.contains("loaded")), "{notes:?}");
    };
    not_used(ask(Some(&home), &["--temp", "0", "--kv", "q8_0", "Hello!"]), "type of the KV cache");
    let template = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n";
    let other = ask(Some(&home), &["--temp", "0", "--template", "other.jinja", "Hello!"]);
    not_used(other.file("other.jinja", template), "chat template");
    // All three have their own entries now.
    assert_eq!(entries(&home).len(), 3);
    let (again, _, _) = answer(ask(Some(&home), &["--temp", "0", "Hello!"]));
    assert_eq!((&again["text"], &again["tokens"]["cached_from"]), (&first["text"], &"disk".into()));
}

/// Two fine-tunes of a model differ in nothing but their numbers.
#[test]
fn another_model_of_the_same_form_is_not_used() {
    let mut bytes = fs::read(DEMO).unwrap();
    let (one, middle) = (bytes.clone(), bytes.len() / 2);
    bytes[middle] ^= 1;
    let run = |infer: Infer| {
        let infer =
            infer.args(["run", "m.gguf", "-t", "1", "-n", "4", "-f", "big.txt", "--temp", "0", "Hello!"]);
        answer(infer.file("big.txt", text()))
    };
    let (_, _, home) = run(Infer::new().file("m.gguf", one));
    let (value, notes, _) = run(Infer::new().home(&home).file("m.gguf", bytes));
    assert_eq!(count(&value, "cached"), 0, "{notes:?}");
    assert_eq!(entries(&home).len(), 2);
}

#[test]
fn a_broken_entry_changes_nothing_but_the_time() {
    let question = ["--temp", "0", "What is the capital of France?"];
    let (first, _, home) = answer(ask(None, &question));
    let path = entries(&home).remove(0);
    let whole = fs::read(&path).unwrap();
    let len = whole.len();
    let flipped = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at] ^= 4;
        bytes
    };
    for broken in
        [whole[..0].to_vec(), whole[..len / 2].to_vec(), flipped(0), flipped(len / 2), flipped(len - 30)]
    {
        fs::write(&path, &broken).unwrap();
        let (value, notes, _) = answer(ask(Some(&home), &question));
        assert_eq!((&value["text"], count(&value, "cached")), (&first["text"], 0));
        let reason = value["tokens"]["not_cached"].as_str().unwrap();
        assert!(reason.starts_with("an entry on disk is not used: it"), "{reason}");
        let [unused, kept] = notes.as_slice() else { panic!("{notes:?}") };
        assert!(
            unused.starts_with("cache: an entry is not used and removed: its ")
                || unused.ends_with("it is cut off")
        );
        assert!(kept.contains(" tokens kept, "), "{kept}");
        // Nothing of it is seen without `-v`.
        fs::write(&path, &broken).unwrap();
        ask(Some(&home), &question).stdout(format!("{}\n", first["text"].as_str().unwrap().trim_end())).run();
        let (value, _, _) = answer(ask(Some(&home), &question));
        assert_eq!(count(&value, "cached"), count(&value, "prompt") - count(&value, "evaluated"));
        assert_eq!(value["tokens"]["cached_from"], "disk");
    }
}

#[test]
fn it_can_be_switched_off_and_bounded() {
    let question = ["--temp", "0", "Hello!"];
    let (_, notes, home) = answer(ask(None, &question).env("INFER_CACHE_SIZE", "0"));
    assert!(notes.is_empty() && entries(&home).is_empty());
    let (_, notes, home) = answer(ask(None, &question).env("INFER_CACHE_SIZE", "100kB"));
    assert!(notes[0].ends_with(" are more than the cache may hold"), "{notes:?}");
    assert!(entries(&home).is_empty());
    // What was kept under a higher limit goes.
    let (_, _, home) = answer(ask(None, &question));
    assert_eq!(entries(&home).len(), 1);
    answer(
        Infer::new().home(&home).env("INFER_CACHE_SIZE", "100kB").args(["run", "demo", "-n", "1", "Hello!"]),
    );
    assert!(entries(&home).is_empty());
    let refused = "error: invalid value 'much' for '--cache-size <SIZE>': not a size such as `8GB`, `500MB` or a number of bytes\n\
                   hint: INFER_CACHE_SIZE is set in the environment: ";
    let infer = Infer::new().env("INFER_CACHE_SIZE", "much").args(["run", "demo", "Hello!"]).status(2);
    infer.stderr_is(move |err| err.starts_with(refused)).run();
}

#[test]
fn it_can_be_listed_and_cleared() {
    let nothing =
        "nothing is kept; `run` and `chat` keep what they read of system prompts, files and sessions\n";
    let list = |home: &Arc<TempDir>| Infer::new().home(home).args(["cache", "list"]);
    let clear = |home: &Arc<TempDir>| Infer::new().home(home).args(["cache", "clear"]);
    let ran = Infer::new().args(["cache", "list"]).stderr(nothing).run();
    clear(&ran.home).stderr("freed 0 B\n").run();
    let empty = r#"{"entries":[],"bytes":0,"path":"{home}/cache/infer/prefixes"}"#;
    list(&ran.home).arg("--json").stdout(format!("{empty}\n")).run();

    let (_, _, home) = answer(ask(None, &["Hello!"]));
    let is_table = |out: &str| {
        let rows: Vec<Vec<&str>> = out.lines().map(|line| line.split_whitespace().collect()).collect();
        rows.len() == 2
            && rows[0] == ["MODEL", "TOKENS", "SIZE", "USED", "FOR"]
            && (rows[1][0], rows[1].last()) == ("demo", Some(&"prompts"))
    };
    list(&home).stdout_is(is_table).run();
    let ran = list(&home).arg("--json").stdout_is(|_| true).run();
    let value: Value = serde_json::from_str(&ran.stdout).unwrap();
    let entry = &value["entries"][0];
    let keys: Vec<&str> = entry.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys, ["model", "tokens", "session", "bytes", "used"]);
    assert_eq!(
        (&entry["model"], &entry["session"], &entry["bytes"]),
        (&"demo".into(), &Value::Null, &value["bytes"])
    );
    assert!(entry["tokens"].as_u64() > Some(400) && entry["used"].as_u64() > Some(1_700_000_000));
    clear(&home)
        .args(["--yes", "--json"])
        .stdout(format!("{{\"removed\":1,\"bytes\":{}}}\n", value["bytes"]))
        .run();
    assert!(entries(&home).is_empty());
    list(&home).stderr(nothing).run();
}

#[test]
fn who_wants_to_remove_a_part_is_told_what_there_is() {
    for (args, message) in [
        (&["rm"][..], "unrecognized subcommand 'rm'"),
        (&["clear", "demo"], "unexpected argument 'demo' found"),
    ] {
        let said = format!(
            "error: {message}\nhint: `infer cache clear` removes all of it, `infer chat --remove-session NAME` a session \
             and what is kept of it\n"
        );
        Infer::new().arg("cache").args(args.iter().copied()).status(2).stderr(said).run();
    }
}

#[cfg(unix)]
#[test]
fn on_a_terminal_it_is_cleared_after_a_question() {
    let (_, _, home) = answer(ask(None, &["Hello!"]));
    let clear = || Infer::new().home(&home).env("NO_COLOR", "1").args(["cache", "clear"]);
    let mut terminal = clear().status(1).terminal();
    terminal.wait_for("remove 1 entry, ");
    terminal.send("n\r");
    assert!(terminal.finish().stdout.contains("error: nothing was removed"));
    assert_eq!(entries(&home).len(), 1);
    let mut terminal = clear().terminal();
    terminal.wait_for("? [y/N] ");
    terminal.send("y\r");
    terminal.wait_for("freed ");
    terminal.finish();
    assert!(entries(&home).is_empty());
}

#[cfg(unix)]
#[test]
fn nobody_else_can_read_it() {
    use std::os::unix::fs::PermissionsExt;
    let (_, _, home) = answer(ask(None, &["Hello!"]));
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    let folder = home.path().join("cache/infer/prefixes");
    assert_eq!(mode(&folder), 0o700);
    for file in fs::read_dir(&folder).unwrap() {
        assert_eq!(mode(&file.unwrap().path()), 0o600);
    }
}

/// Where nothing can be written the answer is the same.
#[cfg(unix)]
#[test]
fn a_folder_that_cannot_be_used_is_a_detail() {
    let question = ["--temp", "0", "What is the capital of France?"];
    let (first, _, _) = answer(ask(None, &question));
    let (value, notes, _) = answer(ask(None, &question).file("cache/infer/prefixes", "a file"));
    assert_eq!(value["text"], first["text"]);
    assert!(notes.iter().any(|note| note.contains(" are not kept: ")), "{notes:?}");
}

#[cfg(unix)]
#[test]
fn a_disk_that_is_full_on_leaving_is_a_detail() {
    let question = ["--temp", "0", "What is the capital of France?"];
    let (first, _, home) = answer(ask(None, &question).arg("--no-cache"));
    let limited = ask(Some(&home), &question).args(["--json", "-v"]).limit_files(64);
    let ran = limited.stdout_is(|_| true).stderr_is(|err| err.contains(" are not kept: ")).run();
    let value: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(value["text"], first["text"]);
    let left: Vec<_> = fs::read_dir(home.path().join("cache/infer/prefixes")).unwrap().collect();
    assert_eq!(left.len(), 1, "the lock alone: {left:?}");
}
