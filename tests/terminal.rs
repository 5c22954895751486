//! The person at the terminal: keys, Ctrl-C, what stands on the screen in the end, and what is said where none is.
#![cfg(unix)]

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::support::tiny_gguf::{Tiny, Value as Put};
use crate::support::{Infer, Ran, Stream, Terminal, rows};

/// The demo model counts without an end, and a window of 20,000 tokens takes it minutes to fill.
const ENDLESS: [&str; 2] = ["--ctx", "20000"];
const COUNT: &str = "Count from 1 to 99.";
const COUNTING: &str = "1, 2, 3, 4, ";
/// What is said about that window.
const BEYOND: &str =
    "context: 20,000 tokens wanted, the model was trained on 1,024; answers may get worse beyond\n";

fn run() -> Infer {
    Infer::new().args(["run", "demo", "-t", "1", "--temp", "0"])
}

fn chat() -> Infer {
    Infer::new().args(["chat", "demo", "-t", "1", "--temp", "0"])
}

/// A prompt that takes the demo model minutes to read.
fn endless_prompt() -> String {
    "The quick brown fox jumps over the lazy dog. ".repeat(500)
}

/// Types a line at the prompt.
#[track_caller]
fn enter(terminal: &mut Terminal, line: &str) {
    terminal.send(&format!("{line}\r"));
    terminal.wait_for("\n");
}

/// Types a line at the prompt, and gives what comes before the next prompt.
#[track_caller]
fn say(terminal: &mut Terminal, line: &str) -> String {
    enter(terminal, line);
    let said = terminal.wait_for(">>> ");
    // The line editor begins with it.
    said.strip_suffix('\r').map_or(said.clone(), str::to_owned)
}

/// Leaves with Ctrl-D.
#[track_caller]
fn leave(mut terminal: Terminal) -> Ran {
    terminal.send("\x04");
    terminal.finish()
}

/// The conversation of a `/save talk.jsonl`: roles and contents.
#[track_caller]
fn saved(home: &Path) -> Vec<(String, String)> {
    let text = fs::read_to_string(home.join("talk.jsonl")).expect("a saved conversation");
    let field = |line: &Value, name: &str| line[name].as_str().expect("a text").to_owned();
    text.lines()
        .map(|line| serde_json::from_str(line).expect("a JSON object"))
        .map(|line| (field(&line, "role"), field(&line, "content")))
        .collect()
}

/// What the user wrote in it.
#[track_caller]
fn messages(home: &Path) -> Vec<String> {
    saved(home).into_iter().filter(|(role, _)| role == "user").map(|(_, content)| content).collect()
}

#[test]
fn a_conversation_as_it_stands_on_the_screen() {
    let mut terminal = chat().terminal();
    terminal.wait_for(">>> ");
    say(&mut terminal, "Hello!");
    say(&mut terminal, "");
    say(&mut terminal, "What is 1 + 1?");
    let expected = [
        "demo, context 1,024; /help lists the commands",
        ">>> Hello!",
        "Hello! How can I help you?",
        ">>>",
        ">>> What is 1 + 1?",
        "1 + 1 = 2.",
        ">>>",
        "",
    ];
    assert_eq!(rows(&leave(terminal).stdout), expected);
}

#[test]
fn quiet_has_no_banner_but_errors() {
    let mut terminal = chat().arg("-q").terminal();
    terminal.wait_for(">>> ");
    say(&mut terminal, "/clear");
    say(&mut terminal, "/undo");
    let expected = [">>> /clear", ">>> /undo", "error: there is nothing to take back", ">>>", ""];
    assert_eq!(rows(&leave(terminal).stdout), expected);
}

#[test]
fn help_lists_the_commands_and_an_error_has_a_hint_and_ends_nothing() {
    let mut terminal = chat().terminal();
    terminal.wait_for(">>> ");
    assert!(say(&mut terminal, "/help").contains("/regen             answer the last message once more\r\n"));
    let error = say(&mut terminal, "/hepl");
    assert_eq!(error, "error: there is no command `/hepl`\r\nhint: `/help` lists the commands\r\n");
    assert_eq!(say(&mut terminal, "Hello!"), "Hello! How can I help you?\r\n");
    enter(&mut terminal, "/bye");
    terminal.finish();
}

#[test]
fn run_without_a_prompt_becomes_a_conversation() {
    let mut terminal = run().terminal();
    terminal.wait_for("/help lists the commands");
    terminal.wait_for(">>> ");
    assert_eq!(say(&mut terminal, "Hello!"), "Hello! How can I help you?\r\n");
    leave(terminal);
}

#[test]
fn an_answer_ends_where_the_prompt_of_the_shell_begins() {
    let ran = run().arg("Hello!").terminal().finish();
    assert_eq!(rows(&ran.stdout), ["Hello! How can I help you?", ""]);
}

#[test]
fn tab_completes_commands_and_files() {
    let talk = "{\"role\":\"user\",\"content\":\"Hi\"}\n{\"role\":\"assistant\",\"content\":\"Hello!\"}\n";
    let mut terminal = chat().file("talk.jsonl", talk).terminal();
    terminal.wait_for(">>> ");
    terminal.send("/re\t\t");
    terminal.wait_for("/regen");
    terminal.wait_for("/read");
    terminal.wait_for(">>> /re");
    terminal.send("\x03");
    terminal.wait_for("\n\r>>> ");
    terminal.send("/lo\tta\t");
    terminal.wait_for("/load talk.jsonl");
    assert_eq!(say(&mut terminal, ""), "loaded 2 messages from `talk.jsonl`\r\n");
    leave(terminal);
}

#[test]
fn ctrl_c_at_the_prompt_clears_what_was_typed() {
    let mut terminal = chat().terminal();
    let home = terminal.home();
    terminal.wait_for(">>> ");
    terminal.send("never said\x03");
    terminal.wait_for("\n\r>>> ");
    enter(&mut terminal, "nor \\");
    terminal.wait_for("... ");
    terminal.send("this\x03");
    terminal.wait_for("\n\r>>> ");
    say(&mut terminal, "Hello!");
    say(&mut terminal, "/save talk.jsonl");
    leave(terminal);
    assert_eq!(messages(home.path()), ["Hello!"]);
}

#[test]
fn ctrl_c_stops_an_answer_and_keeps_the_part() {
    let mut terminal = chat().args(ENDLESS).terminal();
    let home = terminal.home();
    terminal.wait_for(">>> ");
    enter(&mut terminal, COUNT);
    terminal.wait_for(COUNTING);
    terminal.send("\x03");
    terminal.wait_for("\nstopped\r\n");
    terminal.wait_for(">>> ");
    // What the model makes of so long a context is not known, but that it may answer is.
    say(&mut terminal, "/set max-tokens 3");
    say(&mut terminal, "Hello!");
    say(&mut terminal, "/save talk.jsonl");
    leave(terminal);
    let talk = saved(home.path());
    let roles: Vec<&str> = talk.iter().map(|(role, _)| role.as_str()).collect();
    assert_eq!(roles, ["user", "assistant", "user", "assistant"]);
    assert!(talk[0].1 == COUNT && talk[1].1.starts_with(COUNTING) && talk[2].1 == "Hello!", "{talk:?}");
}

#[test]
fn ctrl_c_during_a_long_prefill_takes_the_message_back() {
    let mut terminal = chat().args(ENDLESS).file("long.txt", endless_prompt()).terminal();
    let home = terminal.home();
    terminal.wait_for(">>> ");
    assert!(say(&mut terminal, "/read long.txt").contains("it goes in front of the next message"));
    for _ in 0..2 {
        enter(&mut terminal, "Sum it up.");
        // The bar.
        terminal.wait_for("reading");
        terminal.send("\x03");
        terminal.wait_for("stopped; the conversation stays as it was\r\n");
        terminal.wait_for(">>> ");
        assert_eq!(say(&mut terminal, "/save talk.jsonl"), "saved 0 messages to `talk.jsonl`\r\n");
    }
    // The second time the file was still in front, or there had been no bar; `/clear` forgets it.
    say(&mut terminal, "/clear");
    assert_eq!(say(&mut terminal, "Hello!"), "Hello! How can I help you?\r\n");
    let screen = rows(&leave(terminal).stdout);
    assert_eq!(messages(home.path()), [""; 0]);
    let at = screen.iter().position(|row| row == ">>> Sum it up.").expect("the message");
    assert_eq!(screen[at + 1], "stopped; the conversation stays as it was", "no trace of bar and ^C");
}

/// Opens a named pipe for writing, once the program reads it.
#[track_caller]
fn open_pipe(path: &Path) -> fs::File {
    let (sender, opened) = mpsc::channel();
    let path = path.to_owned();
    thread::spawn(move || sender.send(OpenOptions::new().write(true).open(path)));
    opened.recv_timeout(Duration::from_secs(60)).expect("a reader").expect("a pipe")
}

#[test]
fn the_second_ctrl_c_leaves_whatever_goes_on() {
    let terminal = chat();
    let pipe = terminal.home_path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success());
    let mut terminal = terminal.status(130).terminal();
    terminal.wait_for(">>> ");
    // Reading a file does not listen to Ctrl-C: once is remembered, and forgotten at the next prompt …
    enter(&mut terminal, "/read pipe");
    let mut writer = open_pipe(&pipe);
    terminal.send("\x03");
    terminal.wait_for("^C");
    writer.write_all(b"facts").expect("a reader");
    drop(writer);
    terminal.wait_for("read 5 bytes");
    terminal.wait_for(">>> ");
    assert_eq!(say(&mut terminal, "/clear"), "the conversation is forgotten\r\n");
    // … and twice leaves.
    enter(&mut terminal, "/read pipe");
    let _writer = open_pipe(&pipe);
    let ran = terminal.insist("\x03");
    // More of them may have come while it left.
    assert!(ran.stdout.contains("^C\r\n"), "{:?}", ran.stdout);
}

#[test]
fn blocks_and_continued_lines_are_one_message() {
    let mut terminal = chat().terminal();
    let home = terminal.home();
    terminal.wait_for(">>> ");
    for line in ["\"\"\"", "one", ""] {
        enter(&mut terminal, line);
        terminal.wait_for("... ");
    }
    say(&mut terminal, "two\"\"\"");
    enter(&mut terminal, "three\\");
    terminal.wait_for("... ");
    say(&mut terminal, "four");
    say(&mut terminal, "/save talk.jsonl");
    leave(terminal);
    assert_eq!(messages(home.path()), ["one\n\ntwo", "three\nfour"]);
}

#[test]
fn a_paste_of_several_lines_is_one_message() {
    let mut terminal = chat().terminal();
    let home = terminal.home();
    terminal.wait_for(">>> ");
    terminal.send("\x1b[200~def f(x):\r    return x\r\x1b[201~");
    terminal.wait_for("return x");
    terminal.send("explained");
    terminal.wait_for("explained");
    say(&mut terminal, "");
    say(&mut terminal, "/save talk.jsonl");
    leave(terminal);
    assert_eq!(messages(home.path()), ["def f(x):\n    return x\nexplained"]);
}

#[test]
fn wide_characters_are_typed_and_deleted_whole() {
    let mut terminal = chat().terminal();
    let home = terminal.home();
    terminal.wait_for(">>> ");
    // The last one is a family of three people and their joiners.
    terminal.send("日本語🦊\u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f467}");
    say(&mut terminal, "\x7f\x7f\x7f中é");
    say(&mut terminal, "/save talk.jsonl");
    leave(terminal);
    assert_eq!(messages(home.path()), ["日本中é"]);
}

#[test]
fn edit_offers_the_old_text_and_takes_nothing_back_before_there_is_a_new_one() {
    let mut terminal = chat().terminal();
    let home = terminal.home();
    terminal.wait_for(">>> ");
    assert_eq!(say(&mut terminal, "What is 1 + 1?"), "1 + 1 = 2.\r\n");
    enter(&mut terminal, "/edit");
    terminal.wait_for("What is 1 + 1?");
    terminal.send("\x03");
    terminal.wait_for("\n\r>>> ");
    say(&mut terminal, "/save talk.jsonl");
    assert_eq!(messages(home.path()), ["What is 1 + 1?"]);
    enter(&mut terminal, "/edit");
    terminal.wait_for("What is 1 + 1?");
    assert_eq!(say(&mut terminal, "\x7f\x7f3?"), "1 + 3 = 4.\r\n");
    say(&mut terminal, "/save talk.jsonl");
    leave(terminal);
    assert_eq!(messages(home.path()), ["What is 1 + 3?"]);
}

#[test]
fn lines_are_kept_from_run_to_run_and_only_for_oneself() {
    let mut terminal = chat().terminal();
    let home = terminal.home();
    terminal.wait_for(">>> ");
    say(&mut terminal, "What is 1 + 1?");
    enter(&mut terminal, "two\\");
    terminal.wait_for("... ");
    say(&mut terminal, "lines \\n");
    leave(terminal);
    let history = fs::metadata(home.path().join("state/infer/history")).expect("the history");
    assert_eq!(history.permissions().mode() & 0o777, 0o600, "conversations are private");

    let mut terminal = chat().home(&home).terminal();
    terminal.wait_for(">>> ");
    terminal.send("\x1b[A");
    terminal.wait_for("lines \\n");
    say(&mut terminal, "");
    // The first arrow stays inside a message of two lines, and the same message is there once.
    terminal.send("\x1b[A");
    terminal.wait_for("lines \\n");
    terminal.send("\x1b[A\x1b[A");
    terminal.wait_for("What is 1 + 1?");
    assert_eq!(say(&mut terminal, ""), "1 + 1 = 2.\r\n");
    say(&mut terminal, "/save talk.jsonl");
    leave(terminal);
    assert_eq!(messages(home.path()), ["two\nlines \\n", "What is 1 + 1?"]);
}

#[test]
fn a_window_may_change_its_size_while_a_line_is_typed() {
    let mut terminal = chat().terminal();
    terminal.wait_for(">>> ");
    terminal.send("What is the capital");
    terminal.wait_for("capital");
    terminal.resize(12, 6);
    terminal.send(" of France?\r");
    terminal.wait_for("The capital of France is Paris.");
    terminal.wait_for(">>> ");
    leave(terminal);
}

#[test]
fn prompts_stay_on_the_terminal_when_the_answers_go_to_a_file() {
    let ran = |mut terminal: Terminal| {
        terminal.wait_for(">>> ");
        enter(&mut terminal, "Hello!");
        terminal.wait_for(">>> ");
        let ran = leave(terminal);
        let answers = fs::read_to_string(ran.home.path().join("out.txt")).expect("the file");
        assert_eq!(answers, "Hello! How can I help you?\n");
        rows(&ran.stdout)
    };
    let banner = "demo, context 1,024; /help lists the commands";
    let screen = ran(chat().redirect("> out.txt").terminal());
    assert_eq!(screen, [banner, ">>> Hello!", ">>>", ""]);
    let screen = ran(chat().env("TERM", "dumb").redirect("> out.txt").terminal());
    assert_eq!(screen, [banner, ">>> Hello!", ">>>", ""]);
}

#[test]
fn a_dumb_terminal_is_enough() {
    let mut terminal = chat().env("TERM", "dumb").terminal();
    terminal.wait_for(">>> ");
    assert_eq!(say(&mut terminal, "Hello!"), "Hello! How can I help you?\r\n");
    // The terminal itself drops the line.
    terminal.send("never said\x03");
    terminal.wait_for("^C");
    assert_eq!(say(&mut terminal, "/clear"), "the conversation is forgotten\r\n");
    let error = say(&mut terminal, "/edit");
    assert_eq!(error, "error: `/edit` needs the new text here\r\nhint: `/edit What is 2 + 3?`\r\n");
    let ran = leave(terminal);
    assert!(!ran.stdout.contains('\u{1b}'), "{:?}", ran.stdout);
}

#[test]
fn an_interrupted_answer_is_printed_as_far_as_it_came() {
    let part = |out: &str| out.starts_with(COUNTING) && out.ends_with('\n') && out.lines().count() == 1;
    run()
        .args(ENDLESS)
        .arg(COUNT)
        .interrupt_after(Stream::Stdout, COUNTING)
        .stdout_is(part)
        .stderr(BEYOND)
        .status(130)
        .run();
    let mut terminal = run().args(ENDLESS).arg(COUNT).status(130).terminal();
    terminal.wait_for(COUNTING);
    terminal.send("\x03");
    let screen = rows(&terminal.finish().stdout);
    assert_eq!(screen.last().map(String::as_str), Some(""));
    assert_ne!(screen[screen.len() - 2], "", "one newline ends it");
}

#[test]
fn a_piped_conversation_ends_where_it_is_interrupted() {
    chat()
        .args(ENDLESS)
        .stdin(format!("{COUNT}\nHello!\n"))
        .interrupt_after(Stream::Stdout, COUNTING)
        .stdout_is(|out| out.starts_with(COUNTING) && out.lines().count() == 1)
        .stderr(BEYOND)
        .status(130)
        .run();
}

#[test]
fn json_of_an_interrupted_answer_is_one_object() {
    let is_whole = |out: &str| {
        let object: Value = serde_json::from_str(out).unwrap_or_default();
        object["finish"] == "interrupted" && out.ends_with("}\n")
    };
    run()
        .args(ENDLESS)
        .args(["--json", "-v", COUNT])
        .interrupt_after(Stream::Stderr, "; context 20,000, KV ")
        .stdout_is(is_whole)
        .stderr_is(|err| !err.contains("error"))
        .status(130)
        .run();
}

#[test]
fn an_interruption_while_reading_leaves_at_once() {
    let much = "word\n".repeat(50_000);
    run().stdin(much.clone()).interrupt_reading().status(130).run();
    // Each line is a command, so that nothing is answered.
    chat().stdin("/clear\n".repeat(50_000)).arg("-q").interrupt_reading().status(130).run();
}

#[test]
fn an_interruption_while_loading_is_no_error() {
    run()
        .args(ENDLESS)
        .args(["-vv", COUNT])
        .interrupt_after(Stream::Stderr, "llama.cpp: ")
        // The signal may come late.
        .stdout_is(|out| out.is_empty() || COUNTING.starts_with(out.trim_end()) || out.starts_with(COUNTING))
        .stderr_is(|err| !err.contains("error"))
        .status(130)
        .run();
}

#[test]
fn a_reader_that_has_enough_is_no_error() {
    let enough = |out: &str| out.starts_with('1') && !out.contains('\n');
    run().args(ENDLESS).arg(COUNT).hang_up_after(1).stdout_is(enough).stderr(BEYOND).run();
    let lines = format!("{COUNT}\nHello!\n");
    chat().args(ENDLESS).stdin(lines).hang_up_after(1).stdout_is(enough).stderr(BEYOND).run();
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_is_an_error() {
    let error = "error: cannot write the answer: no storage space\n";
    for args in [&["Hello!"][..], &["--json", "Hello!"]] {
        run().args(args.iter().copied()).redirect("> /dev/full").stderr(error).status(1).run();
    }
    chat().stdin("Hello!\nHello!\n").redirect("> /dev/full").stderr(error).status(1).run();
}

#[test]
fn a_bar_leaves_no_trace() {
    let mut terminal = run().args(ENDLESS).args(["-f", "long.txt"]).file("long.txt", endless_prompt());
    terminal = terminal.status(130);
    let mut terminal = terminal.terminal();
    terminal.wait_for("reading");
    terminal.send("\x03");
    let screen = rows(&terminal.finish().stdout);
    assert_eq!(screen.concat(), BEYOND.trim_end(), "{screen:?}");
    assert_eq!(screen.last().map(String::as_str), Some(""));
}

#[test]
fn control_characters_are_escaped_on_a_terminal_only() {
    let mut model = Vec::new();
    model.extend(Tiny::llama().set("tokenizer.chat_template", Put::Text("\x1b[2J\u{202e}x".into())).bytes());
    let show = || Infer::new().args(["show", "tiny.gguf", "--template"]).file("tiny.gguf", model.clone());
    show().stdout("\x1b[2J\u{202e}x\n").run();
    assert_eq!(show().terminal().finish().stdout, "\\u{1b}[2J\\u{202e}x\r\n");
}

#[test]
fn colours_are_for_terminals_that_have_and_want_them() {
    let missing = || Infer::new().args(["run", "./missing.gguf", "Hello!"]).status(3);
    let plain = "error: no such file: `./missing.gguf`\n\
                 hint: give the path of a GGUF file, or a name of `infer list --names`\n";
    missing().stderr(plain).run();
    let on_screen = plain.replace('\n', "\r\n");
    for (name, value, coloured) in
        [("NO_COLOR", "", true), ("NO_COLOR", "1", false), ("TERM", "dumb", false), ("TERM", "xterm", true)]
    {
        let raw = missing().env(name, value).terminal().finish().stdout;
        let expected = if coloured {
            on_screen
                .replace("error: ", "\u{1b}[1;31merror: \u{1b}[0m")
                .replace("hint: ", "\u{1b}[36mhint: \u{1b}[0m")
        } else {
            on_screen.clone()
        };
        assert_eq!(raw, expected, "{name}={value}");
    }
}

#[test]
fn thoughts_are_dim_on_a_terminal_and_nowhere_else() {
    // The prompt opens the thought, which the demo model never closes.
    let template = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}\
                    <|im_start|>assistant\n<think>\n{# </think> #}";
    let think = || {
        let args = ["--template", "think.jinja", "-n", "4", "Hello!"];
        run().args(args).file("think.jinja", template)
    };
    think().run();
    let ran = think().redirect("> out.txt").terminal().finish();
    assert!(ran.stdout.starts_with("\u{1b}[2m") && ran.stdout.ends_with("\u{1b}[0m\r\n\r\n"), "{ran:?}");
    assert_eq!(fs::read_to_string(ran.home.path().join("out.txt")).expect("the file"), "");
}

#[test]
fn lines_typed_ahead_are_kept() {
    let mut terminal = chat().terminal();
    terminal.wait_for(">>> ");
    terminal.send("Hello!\rWhat is 3 + 4?\r\"\"\"\rCount from\r3 to 7.\"\"\"\r/save talk.jsonl\r");
    terminal.wait_for("How can I help you?");
    terminal.wait_for("3 + 4 = 7.");
    terminal.wait_for("saved 6 messages");
    // Ctrl-D ends the input at a prompt; before one it is no key yet.
    terminal.wait_for(">>> ");
    leave(terminal);
}
