//! `infer chat` from a pipe: a line a turn, only answers on stdout.

use crate::support::Infer;

fn chat() -> Infer {
    Infer::new().args(["chat", "demo", "-t", "1", "--temp", "0"])
}

#[test]
fn a_line_is_a_turn_and_earlier_ones_are_remembered() {
    chat()
        .stdin("My name is Ada.\nWhat is my name?\n")
        .stdout_is(|out| out.ends_with("\nYour name is Ada.\n"))
        .run();
}

#[test]
fn a_second_turn_evaluates_only_its_new_tokens() {
    let ran =
        chat().arg("--stats").stdin("Hello\nWhat is 3 + 4?\n").stdout_is(|_| true).stderr_is(|_| true).run();
    // "prompt 9 tokens (0 cached), …, 9 tokens, …"
    let numbers =
        |line: &str| line.split([' ', '(']).filter_map(|word| word.parse().ok()).collect::<Vec<usize>>();
    // Behind the line on loading.
    let turns = || ran.stderr.lines().skip(1);
    let stats: Vec<Vec<usize>> = turns().map(numbers).collect();
    let [first, second] = &stats[..] else { panic!("{}", ran.stderr) };
    let ([prompt, 0, answer], [all, cached, _]) = (&first[..3], &second[..3]) else {
        panic!("{}", ran.stderr)
    };
    assert_eq!(*cached, prompt + answer, "all of the first turn is in the cache");
    assert!(all > cached);
    assert!(turns().all(|line| line.contains(", window ") && line.ends_with(" of 1,024")), "{}", ran.stderr);
}

#[test]
fn commands_speak_on_stderr() {
    let lines = "Hello\n/clear\n/system The user's name is Ada.\nWhat is my name?\n/bye\nnever\n";
    let said = "the conversation is forgotten\nthe system prompt is set\n";
    chat().stdin(lines).stdout_is(|out| out.ends_with("\nYour name is Ada.\n")).stderr(said).run();
}

#[test]
fn a_script_stops_at_an_error_with_its_code() {
    let expected = "error: there is no command `/hepl`\nhint: `/help` lists the commands\n";
    chat().stdin("/hepl\nHello\n").stderr(expected).status(2).run();
}

#[test]
fn a_message_too_long_for_the_window_is_refused_with_both_numbers() {
    let long = "word ".repeat(300) + "\n";
    let refused = |err: &str| err.contains(" tokens long, the context holds 128\n");
    chat().args(["--ctx", "128"]).stdin(long).stderr_is(refused).status(6).run();
}

#[test]
fn when_the_window_is_full_the_oldest_turns_go_and_the_system_prompt_stays() {
    let story = "Tell me a story about a fox named Lily.\n";
    let lines = format!("{story}{story}{story}What is my name?\n");
    let run = chat().args(["--ctx", "384", "-s", "The user's name is Ada."]).stdin(lines);
    let dropped = |err: &str| {
        err.lines().count() > 0
            && err
                .lines()
                .all(|line| line.starts_with("window: dropped ") && line.ends_with(" of 384 in use"))
    };
    run.stdout_is(|out| out.ends_with("\nYour name is Ada.\n")).stderr_is(dropped).run();
}

#[test]
fn a_conversation_is_saved_and_loaded() {
    let first = chat()
        .stdin("My name is Ada.\n/save talk.jsonl\n")
        .stdout_is(|_| true)
        .stderr("saved 2 messages to `talk.jsonl`\n")
        .run();
    let saved = std::fs::read_to_string(first.home.path().join("talk.jsonl")).unwrap();
    assert!(saved.starts_with("{\"role\":\"user\",\"content\":\"My name is Ada.\"}\n"), "{saved}");
    chat()
        .home(&first.home)
        .stdin("/load talk.jsonl\nWhat is my name?\n")
        .stdout("Your name is Ada.\n")
        .stderr("loaded 2 messages from `talk.jsonl`\n")
        .run();
}

#[test]
fn the_answers_are_those_of_run() {
    for prompt in ["What is the capital of Japan?", "Tell me a story about a fox named Lily."] {
        let run =
            Infer::new().args(["run", "demo", "-t", "1", "--temp", "0", prompt]).stdout_is(|_| true).run();
        chat().stdin(format!("{prompt}\n")).stdout(run.stdout).run();
    }
}
