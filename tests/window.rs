//! The window over long conversations: what leaves it, what stays, and that memory does not grow.

use serde_json::Value;

use crate::support::Infer;
use crate::support::tiny_gguf::{CONTROL, Tensor, Tiny, vocabulary};

fn chat(ctx: &str) -> Infer {
    Infer::new().args(["chat", "demo", "-t", "1", "--temp", "0", "--ctx", ctx])
}

/// Questions that have nothing to do with names.
fn sums(count: usize) -> String {
    let sum = |i| format!("What is {} + {}?", i % 10, i / 10 % 10);
    (0..count).map(sum).collect::<Vec<_>>().join("\n") + "\n"
}

/// Turns that stderr reports as dropped, if it reports nothing else.
pub(crate) fn dropped_turns(stderr: &str) -> Option<usize> {
    let turns = |line: &str| line.strip_prefix("window: dropped ")?.split(' ').next()?.parse::<usize>().ok();
    stderr.lines().map(turns).sum()
}

#[test]
fn a_fact_in_the_system_prompt_outlives_fifty_dropped_turns() {
    let lines = sums(60) + "What is my name?\n";
    chat("256")
        .args(["-s", "The user's name is Ada."])
        .stdin(lines)
        .stdout_is(|out| out.ends_with("\nYour name is Ada.\n"))
        .stderr_is(|err| dropped_turns(err).is_some_and(|turns| turns >= 50))
        .run();
}

#[test]
fn a_fact_is_known_while_it_is_in_the_window_and_not_afterwards() {
    let recall = |turns: usize| {
        let lines = format!("My name is Ada.\n{}What is my name?\n", sums(turns));
        let ran = chat("256").stdin(lines).stdout_is(|_| true).stderr_is(|_| true).run();
        ran.stdout.lines().last().unwrap().to_owned()
    };
    assert_eq!(recall(3), "Your name is Ada.");
    assert!(!recall(60).contains("Ada"));
}

#[test]
fn the_window_is_shown_on_request() {
    let shown = |err: &str| {
        let mut lines = err.lines().skip_while(|line| line.starts_with("window: dropped"));
        lines.next() == Some("window: 256 tokens")
            && err.contains("  system prompt and template\n")
            && err.contains(" dropped\n")
            && err.contains("  What is 9 + 1?\n")
            && err.ends_with("  free\n")
    };
    chat("256").stdin(sums(20) + "/context\n").stdout_is(|_| true).stderr_is(shown).run();
}

/// A model with random weights that never ends by itself: the output for its control tokens, the first ones, is 0.
fn endless() -> Vec<u8> {
    let clear = |tensor: &mut Tensor| {
        let row = tensor.data.len() / vocabulary().len();
        tensor.data[..CONTROL.len() * row].fill(0);
    };
    Tiny::llama().change_tensor("token_embd.weight", clear).bytes()
}

/// With `--raw` the first four tokens stay (and here the prompt has as many or more), and of what follows in a full window of
/// 256 the oldest half goes: 127 of the 252 there and the one that finds no room.
#[test]
fn an_answer_may_be_ten_times_as_long_as_the_window() {
    let run = |overflow: &str| {
        let run = Infer::new().file("tiny.gguf", endless());
        let args =
            ["run", "tiny.gguf", "--raw", "--json", "-t", "1", "--temp", "0", "--ctx", "256", "-n", "2560"];
        let run = run.args(args).args(["--overflow", overflow, "hello world, hello world"]);
        let ran = run.stdout_is(|_| true).stderr_is(|_| true).run();
        (serde_json::from_str::<Value>(&ran.stdout).unwrap(), ran.stderr)
    };
    let (stopped, said) = run("stop");
    let prompt = stopped["tokens"]["prompt"].as_u64().unwrap();
    assert!(prompt >= 4, "{prompt}");
    assert_eq!(said.lines().count(), 1);
    // The last token is chosen and given out, and finds no room any more.
    let expected = serde_json::json!({
        "size": 256, "used": 256, "dropped_turns": 0, "dropped_tokens": 0, "evictions": 0
    });
    assert_eq!((&stopped["finish"], &stopped["context"]), (&"window".into(), &expected));
    assert_eq!(stopped["tokens"]["generated"], 256 - prompt + 1);
    // Nobody asks for room for the last token.
    let tokens = prompt + 2560 - 1;
    let evictions = (tokens - 256).div_ceil(127);
    let dropped = "window: dropped the oldest part of the answer, 127 tokens; 130 of 256 in use";
    for overflow in ["slide", "rebuild"] {
        let (answer, said) = run(overflow);
        let expected = serde_json::json!({
            "size": 256, "used": tokens - 127 * evictions, "dropped_turns": 0, "dropped_tokens": 127 * evictions,
            "evictions": evictions
        });
        assert_eq!((&answer["finish"], &answer["context"]), (&"length".into(), &expected), "{overflow}");
        assert_eq!(answer["tokens"]["generated"], 2560);
        assert!(said.lines().all(|line| line == dropped), "{said}");
        assert_eq!(said.lines().count() as u64, evictions);
        // Until the window is full nothing differs.
        let text = |answer: &Value| answer["text"].as_str().unwrap().to_owned();
        let same = text(&stopped);
        // The last letter may have been cut in the middle.
        let same = same.trim_end_matches(char::REPLACEMENT_CHARACTER);
        assert!(text(&answer).starts_with(same) && same.len() > 200, "{overflow}: {same}");
    }
}

#[test]
fn what_stays_must_leave_room() {
    let expected = "error: `--keep 200` leaves too little of a context of 256 tokens\n\
                    hint: `--keep` takes up to half of the context: 128\n";
    chat("256").args(["--keep", "200"]).stdin("Hello\n").stderr(expected).status(2).run();
}

/// Two thousand turns through a pipe, in a window of 512 tokens.
#[test]
#[cfg(target_os = "linux")]
fn a_long_conversation_takes_no_more_memory_than_a_short_one() {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::process::Stdio;

    const WARM: usize = 300;
    const TURNS: usize = 2000;
    let mut child = chat("512")
        .command()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let status = format!("/proc/{}/status", child.id());
    let resident = || {
        let status = std::fs::read_to_string(&status).ok()?;
        let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
        line.split_whitespace().nth(1)?.parse::<u64>().ok()
    };
    let mut stdin = child.stdin.take().unwrap();
    let mut answers = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut stderr = child.stderr.take().unwrap();
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        stderr.read_to_string(&mut text).map(|_| text)
    });
    let mut turns = |count: usize| {
        let mut answer = || answers.next()?.ok().filter(|answer| !answer.is_empty());
        sums(count).lines().all(|line| writeln!(stdin, "{line}").is_ok() && answer().is_some())
    };
    let warm = turns(WARM).then(resident).flatten();
    let end = turns(TURNS - WARM).then(resident).flatten();
    drop(stdin);
    let ended = child.wait().unwrap();
    let stderr = reader.join().unwrap().unwrap();
    // Whatever went wrong, the program has said it.
    let (Some(warm), Some(end), true) = (warm, end, ended.success()) else { panic!("{ended}: {stderr}") };
    assert!(end * 100 <= warm * 102, "{warm} kB after {WARM} turns, {end} kB after {TURNS}");
    // All but those in the window, which holds some twenty.
    let Some(dropped) = dropped_turns(&stderr) else { panic!("{stderr}") };
    assert!((TURNS - 60..TURNS).contains(&dropped), "{dropped}");
}
