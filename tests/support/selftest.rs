//! The builder itself is tested with `sh` in the program's place: a comparison that cannot fail proves nothing.

#![cfg(unix)]

use std::time::{Duration, Instant};

use super::terminal::{plain, rows};
use super::{Infer, Stream, real_model};

/// A builder that runs a script of `sh`.
fn sh(script: &str) -> Infer {
    let mut infer = Infer::new().arg("-c").arg(script);
    infer.program = "/bin/sh".into();
    infer
}

/// The report of a run that has to fail.
#[track_caller]
fn failure(infer: Infer) -> String {
    infer.check().expect_err("a failure")
}

#[test]
fn expects_success_and_silence_by_default() {
    sh("exit 0").run();
    assert!(failure(sh("echo hello")).contains("stdout differs:\n+hello\n"));
    assert!(failure(sh("echo hello >&2")).contains("stderr differs:\n+hello\n"));
    assert!(failure(sh("exit 3")).contains("status: expected 0, got 3"));
    assert!(failure(sh("kill -SEGV $$")).contains("status: expected 0, got signal 11"));
}

#[test]
fn compares_exactly() {
    let ran = sh("printf 'a\\nb'; echo c >&2; exit 4").stdout("a\nb").stderr("c\n").status(4).run();
    assert_eq!((ran.status, ran.stdout.as_str(), ran.stderr.as_str()), (4, "a\nb", "c\n"));
    let report = failure(sh("printf a").stdout("a\n"));
    assert!(report.contains("-a\n+a  (no newline at the end)"), "{report}");
    assert!(report.starts_with("$ sh -c 'printf a'\n"), "{report}");
}

#[test]
fn checks_what_cannot_be_said_exactly() {
    let is_number = |text: &str| text.trim().parse::<u32>().is_ok();
    sh("echo $$").stdout_is(is_number).run();
    sh("echo $$ >&2").stderr_is(is_number).run();
    assert!(failure(sh("echo no").stdout_is(is_number)).contains("stdout is not as it should be"));
}

#[test]
fn gives_a_home_of_its_own_and_nothing_else() {
    let folders = "echo \"$HOME $XDG_CACHE_HOME $XDG_CONFIG_HOME $XDG_DATA_HOME $(pwd -P)\"";
    let home = sh("ls -A").stdout("state\n").run().home;
    let real = home.path().canonicalize().expect("the home");
    let expected = format!("{{home}} {{home}}/cache {{home}}/config {{home}}/data {}\n", real.display());
    sh(folders).home(&home).stdout(expected).run();
    sh("echo \"[$CARGO_MANIFEST_DIR][$GREETING]\"").env("GREETING", "hi").stdout("[][hi]\n").run();
}

#[test]
fn feeds_stdin_and_files() {
    sh("cat").run();
    sh("cat").stdin("one\ntwo").stdout("one\ntwo").run();
    sh("exit 0").stdin(vec![b'x'; 1 << 20]).run();
    let first = sh("cat folder/in.txt > out.txt").file("folder/in.txt", "text\n").run();
    sh("cat out.txt").home(&first.home).stdout("text\n").run();
}

#[test]
fn reads_both_streams_at_once() {
    let much =
        "i=0; while [ $i -lt 5000 ]; do echo 0123456789012345678901234567890; echo e >&2; i=$((i+1)); done";
    sh(much).stdout_is(|text| text.len() == 160_000).stderr_is(|text| text.len() == 10_000).run();
}

#[test]
fn kills_a_child_that_hangs() {
    let start = Instant::now();
    let report = failure(sh("echo begun; exec sleep 30").timeout(Duration::from_millis(300)));
    assert!(report.contains("still running after 300ms: killed") && report.contains("begun"), "{report}");
    assert!(start.elapsed() < Duration::from_secs(10));
}

#[test]
fn interrupts_when_a_text_appears() {
    let script = "trap 'echo caught; exit 130' INT; printf ready; while :; do sleep 0.02; done";
    sh(script).interrupt_after(Stream::Stdout, "ready").stdout("readycaught\n").status(130).run();
    let report = failure(sh("exit 0").interrupt_after(Stream::Stderr, "ready"));
    assert!(report.contains("no SIGINT sent: \"ready\" never appeared on stderr"), "{report}");
}

#[test]
fn hangs_up() {
    let endless = "while echo line; do :; done 2>/dev/null; echo over >&2";
    sh(&format!("trap '' PIPE; {endless}"))
        .hang_up_after(10)
        .stdout_is(|text| text.len() >= 10)
        .stderr("over\n")
        .run();
    sh(endless).hang_up_after(10).stdout_is(|text| text.len() >= 10).status(-13).run();
}

#[test]
fn speaks_to_a_terminal() {
    let script = "trap 'echo caught; exit 7' INT
        [ -t 0 ] && [ -t 1 ] && [ -t 2 ] && stty size && printf 'name? ' && read name && echo \"hello $name\"
        while :; do sleep 0.02; done";
    let mut terminal = sh(script).status(7).terminal();
    assert_eq!(terminal.wait_for("name? "), "24 80\r\n");
    terminal.send("Ada\r");
    terminal.wait_for("hello Ada");
    terminal.send("\x03");
    let ran = terminal.finish();
    assert!(ran.stdout.ends_with("caught\r\n"), "{:?}", ran.stdout);
}

#[test]
fn interrupts_a_child_that_reads() {
    let script = "trap 'echo caught; exit 130' INT; while read -r line; do :; done";
    sh(script).stdin("line\n".repeat(40_000)).interrupt_reading().stdout("caught\n").status(130).run();
}

#[test]
fn redirects_as_a_shell_does() {
    let ran = sh("echo out; echo err >&2").redirect("> out.txt").stderr("err\n").run();
    sh("cat out.txt").home(&ran.home).stdout("out\n").run();
}

#[test]
fn rows_are_what_is_left_of_a_terminal() {
    let long = "x".repeat(81);
    for (raw, expected) in [
        ("a\r\nb\r\n", &["a", "b", ""][..]),
        ("bar 10%\r\u{1b}[2Kdone", &["done"]),
        ("one\r\ntwo\r\u{1b}[1A\u{1b}[Jnew", &["new"]),
        ("abc\u{1b}[1m\u{8}\u{1b}[2Dx\u{1b}[C!", &["xb!"]),
        (&long, &[&long[1..], "x"]),
    ] {
        assert_eq!(rows(raw), expected, "{raw:?}");
    }
}

#[test]
#[should_panic(expected = "status: expected 0, got 3")]
fn terminal_compares_the_status() {
    sh("exit 3").terminal().finish();
}

#[test]
#[should_panic(expected = "waited for \"never\"")]
fn terminal_does_not_wait_for_ever() {
    sh("sleep 30").timeout(Duration::from_millis(300)).terminal().wait_for("never");
}

#[test]
#[should_panic(expected = "still running: killed")]
fn terminal_kills_a_child_that_hangs() {
    sh("sleep 30").timeout(Duration::from_millis(300)).terminal().finish();
}

#[test]
#[ignore = "needs the real models"]
fn real_models_are_there() {
    real_model("SmolLM2-135M-Instruct.Q4_1.gguf");
    real_model("gemma-3-270m-q4_k_m.gguf");
}

#[test]
fn plain_text_has_no_escape_sequences() {
    assert_eq!(
        plain("\u{1b}[1;32m>\u{1b}[0m a\u{1b}[K\u{1b}]0;title\u{7}b\u{1b}]0;t\u{1b}\\c\u{1b}7d"),
        "> abcd"
    );
}
