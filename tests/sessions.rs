//! `infer chat --session`: conversations that outlive the process, however it ends.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde_json::Value;
use tempfile::TempDir;

use crate::support::Infer;

/// The demo model counts without an end, and a window of 20,000 tokens takes it minutes to fill.
const ENDLESS: [&str; 2] = ["--ctx", "20000"];
const COUNT: &str = "Count from 1 to 99.";

const UNANSWERED: &str = "the last message has no answer yet; `/regen` answers it\n";

fn infer(home: &Arc<TempDir>) -> Infer {
    Infer::new().home(home).args(["chat", "-t", "1", "--temp", "0"])
}

fn home() -> Arc<TempDir> {
    Arc::new(TempDir::new().expect("a temporary folder"))
}

fn folder(home: &TempDir) -> PathBuf {
    home.path().join("data/infer/sessions")
}

fn file(home: &TempDir, name: &str) -> PathBuf {
    folder(home).join(format!("{name}.jsonl"))
}

/// The lines of a session: the model, then roles and contents.
fn lines(home: &TempDir, name: &str) -> Vec<String> {
    let text = fs::read_to_string(file(home, name)).expect("a session");
    text.lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON"))
        .map(|line| match line["role"].as_str() {
            None => format!("model: {}", line["model"].as_str().expect("a model")),
            Some(role) => format!("{role}: {}", line["content"].as_str().expect("a text")),
        })
        .collect()
}

/// A session that says who the user is.
fn tell(home: &Arc<TempDir>, name: &str) {
    infer(home).args(["demo", "--session", name]).stdin("My name is Ada.\n").stdout_is(|_| true).run();
}

fn ask(home: &Arc<TempDir>) -> Infer {
    infer(home).stdin("What is my name?\n").stdout("Your name is Ada.\n")
}

/// A running conversation in a session, of which the first lines of answers have been read.
struct Talk {
    child: Child,
    out: BufReader<std::process::ChildStdout>,
}

impl Talk {
    fn begin(infer: &Infer, said: &str) -> Self {
        let mut command = infer.command();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("the program");
        let stdin = child.stdin.as_mut().expect("a piped stdin");
        stdin.write_all(said.as_bytes()).expect("a program that reads");
        let out = BufReader::new(child.stdout.take().expect("a piped stdout"));
        Self { child, out }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.out.read_line(&mut line).expect("a line");
        line
    }
}

impl Drop for Talk {
    /// SIGKILL on Unix.
    fn drop(&mut self) {
        self.child.kill().and_then(|()| self.child.wait()).expect("the end of the program");
    }
}

#[test]
fn a_second_process_remembers_what_was_said_in_the_first() {
    let home = home();
    tell(&home, "a");
    ask(&home).args(["demo", "--session", "a"]).run();
    let held = lines(&home, "a");
    assert_eq!(
        (held[0].as_str(), held[1].as_str(), held[4].as_str(), held.len()),
        ("model: demo", "user: My name is Ada.", "assistant: Your name is Ada.", 5)
    );
    let left: Vec<_> = fs::read_dir(folder(&home)).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, ["a.jsonl"], "no lock and no half file stays");
}

#[test]
fn the_model_is_remembered_and_can_be_changed() {
    let home = home();
    tell(&home, "a");
    ask(&home).args(["--session", "a"]).run();
    fs::write(home.path().join("other.gguf"), include_bytes!("../assets/demo/demo-f16.gguf")).unwrap();
    let other = home.path().join("other.gguf");
    let said = format!("session `a`: held with `demo` so far, from now on with `{}`\n", other.display());
    // It counts when something is said.
    infer(&home).args(["other.gguf", "--session", "a"]).stderr(&*said).run();
    assert_eq!(lines(&home, "a")[0], "model: demo");
    ask(&home).args(["other.gguf", "--session", "a"]).stderr(said).run();
    assert_eq!(lines(&home, "a")[0], format!("model: {}", other.display()));
    ask(&home).args(["--session", "a"]).run();
}

#[test]
fn continue_is_the_session_used_last() {
    let home = home();
    for (name, day) in [("a", 2), ("b", 1)] {
        tell(&home, name);
        let file = File::options().append(true).open(file(&home, name)).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(day * 86_400)).unwrap();
    }
    ask(&home).arg("--continue").run();
    assert_eq!((lines(&home, "a").len(), lines(&home, "b").len()), (5, 3));
    // Looking at a session is using it.
    infer(&home).args(["--session", "b"]).run();
    ask(&home).arg("--continue").run();
    assert_eq!((lines(&home, "a").len(), lines(&home, "b").len()), (5, 5));
}

#[test]
fn a_folder_with_the_name_of_a_session_is_not_in_the_way() {
    let home = home();
    tell(&home, "a");
    fs::create_dir(file(&home, "newer")).unwrap();
    ask(&home).arg("--continue").run();
    infer(&home).arg("--list-sessions").stdout_is(|out| out.lines().count() == 2).run();
}

#[test]
fn what_there_is_not_is_said_before_a_model_is_loaded() {
    for (args, status, said) in [
        (
            &["--continue"][..],
            1,
            "error: there is no session to go on with\nhint: `infer chat MODEL --session NAME` begins one\n",
        ),
        (
            &["--session", "a"],
            2,
            "error: there is no session `a` yet, so it needs a model\nhint: `infer chat MODEL --session a`\n",
        ),
        (
            &[],
            2,
            "error: no model is given\nhint: `infer chat demo`, or `infer chat --continue` for the last session\n",
        ),
        (
            &["--remove-session", "a"],
            1,
            "error: there is no session `a`\nhint: `infer chat --list-sessions` shows what there is\n",
        ),
    ] {
        infer(&home()).args(args.iter().copied()).status(status).stderr(said).run();
    }
}

#[test]
fn what_does_not_go_together_is_refused() {
    let json =
        "`infer run MODEL --json \"Hello\"` prints an answer as JSON; in `chat` it is for `--list-sessions`";
    for (args, first, second) in [
        (&["demo", "--json"][..], "[MODEL]", "--json"),
        (&["demo", "--list-sessions"], "[MODEL]", "--list-sessions"),
        (&["--session", "a", "--continue"], "--session <NAME>", "--continue"),
        (&["--session", "a", "--remove-session", "a"], "--session <NAME>", "--remove-session <NAME>"),
    ] {
        let message = format!("the argument '{first}' cannot be used with '{second}'");
        let hint = "`infer --help` and `infer COMMAND --help` show what there is";
        let (out, err) = if args.contains(&"--json") {
            let error = serde_json::json!({ "kind": "usage", "message": message, "hint": json });
            (format!("{{\"error\":{error}}}\n"), String::new())
        } else {
            (String::new(), format!("error: {message}\nhint: {hint}\n"))
        };
        infer(&home()).args(args.iter().copied()).status(2).stdout(out).stderr(err).run();
    }
    let message = "the following required arguments were not provided: --list-sessions";
    let error = serde_json::json!({ "error": { "kind": "usage", "message": message, "hint": json } });
    infer(&home()).arg("--json").status(2).stdout(format!("{error}\n")).run();
}

#[test]
fn names_that_lead_elsewhere_are_refused() {
    for name in ["../a", "a/b", ".a", "-", "", "a b"] {
        let said = format!(
            "error: invalid value '{name}' for '--session <NAME>': a name is up to 60 letters, digits, `-`, `_` and \
             `.`, of which `-` and `.` are not the first\n\
             hint: `infer --help` and `infer COMMAND --help` show what there is\n"
        );
        infer(&home()).arg("demo").arg(format!("--session={name}")).status(2).stderr(said).run();
    }
}

#[test]
fn a_kill_in_the_middle_of_an_answer_loses_only_the_answer() {
    let home = home();
    let counting = infer(&home).args(ENDLESS).args(["demo", "--session", "a"]);
    let mut talk = Talk::begin(&counting, &format!("Hello!\n{COUNT}\n"));
    assert_eq!(talk.line(), "Hello! How can I help you?\n");
    let mut begun = [0; 8];
    talk.out.read_exact(&mut begun).unwrap();
    assert_eq!(&begun, b"1, 2, 3,");
    drop(talk);
    let mut expected = vec!["model: demo", "user: Hello!", "assistant: Hello! How can I help you?"];
    let count = format!("user: {COUNT}");
    expected.push(&count);
    assert_eq!(lines(&home, "a"), expected);

    // Neither the lock of the dead process nor the question without an answer is in the way.
    let resume = |line: &str| infer(&home).args(["--session", "a", "-n", "8"]).stdin(format!("{line}\n"));
    resume("/regen").stdout_is(|out| out.starts_with("1, 2,")).stderr(UNANSWERED).run();
    let answered = lines(&home, "a");
    assert!(answered.len() == 5 && answered[4].starts_with("assistant: 1, 2,"), "{answered:?}");
}

#[test]
fn a_new_message_takes_the_place_of_one_without_an_answer() {
    let home = home();
    tell(&home, "a");
    let mut held = fs::read_to_string(file(&home, "a")).unwrap();
    held += "{\"role\":\"user\",\"content\":\"What?\"}\n";
    fs::write(file(&home, "a"), held).unwrap();
    let said = format!("{UNANSWERED}the message without an answer makes room for this one\n");
    ask(&home).args(["--session", "a"]).stderr(said).run();
    assert_eq!(lines(&home, "a")[3..], ["user: What is my name?", "assistant: Your name is Ada."]);
}

#[test]
fn a_line_that_was_being_written_is_dropped_and_said_so_once() {
    let home = home();
    tell(&home, "a");
    let whole = fs::read_to_string(file(&home, "a")).unwrap();
    fs::write(file(&home, "a"), format!("{whole}{{\"role\":\"us")).unwrap();
    let said = "session `a`: the last line was cut off in the middle and is dropped\n";
    infer(&home).args(["--session", "a"]).stderr(said).run();
    assert_eq!(fs::read_to_string(file(&home, "a")).unwrap(), whole);
    ask(&home).args(["--session", "a"]).run();
}

#[test]
fn a_second_process_on_a_session_is_refused() {
    let home = home();
    let mut first = Talk::begin(&infer(&home).args(["demo", "--session", "a"]), "Hello!\n");
    assert_eq!(first.line(), "Hello! How can I help you?\n");
    let refused = "error: the session `a` is in use by another process\n\
                   hint: leave it there first, or begin another: `--session NAME`\n";
    // A model that is not there would be told if it were looked for.
    for args in [&["none.gguf", "--session", "a"][..], &["--continue"], &["--remove-session", "a"]] {
        infer(&home).args(args.iter().copied()).status(1).stderr(refused).run();
    }
    infer(&home).args(["demo", "--session", "b"]).run();
    infer(&home).arg("--list-sessions").stdout_is(|out| out.contains("\na ")).run();
    drop(first);
    infer(&home).args(["--remove-session", "a"]).stderr("removed the session `a`\n").run();
    assert_eq!(fs::read_dir(folder(&home)).unwrap().count(), 0);
}

#[test]
fn sessions_are_listed() {
    let home = home();
    let none = "no sessions yet; `infer chat MODEL --session NAME` begins one\n";
    infer(&home).arg("--list-sessions").stderr(none).run();
    infer(&home).args(["--list-sessions", "--json"]).stdout("{\"sessions\":[]}\n").run();
    tell(&home, "a");
    fs::write(file(&home, "old"), "{\"role\":\"user\",\"content\":\"Hi\\u001b[2J\"}\n").unwrap();
    fs::write(file(&home, "worse"), "damaged\n").unwrap();
    for (name, day) in [("a", 3), ("old", 2), ("worse", 1)] {
        let file = File::options().append(true).open(file(&home, name)).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(day * 86_400)).unwrap();
    }
    let problem = format!(
        "`{}`: line 1 is not a message such as {{\"role\":\"user\",\"content\":\"Hello\"}}",
        file(&home, "worse").display()
    );
    let table = format!(
        "NAME   MODEL  TURNS  LAST USED         FIRST WORDS\n\
         a      demo   1      1970-01-04 00:00  My name is Ada.\n\
         old    -      1      1970-01-03 00:00  Hi\\u{{1b}}[2J\n\
         worse  -      -      1970-01-02 00:00  ({problem})\n"
    );
    infer(&home).arg("--list-sessions").env("TZ", "UTC").stdout(table).run();
    let ran = infer(&home).args(["--list-sessions", "--json"]).stdout_is(|_| true).run();
    let json: Value = serde_json::from_str(&ran.stdout).unwrap();
    let [first, .., worse] = &json["sessions"].as_array().unwrap()[..] else { panic!("{json}") };
    let expected = serde_json::json!({
        "name": "a", "model": "demo", "turns": 1, "last_used": 3 * 86_400, "first_words": "My name is Ada.",
        "path": file(&home, "a"), "error": null,
    });
    assert_eq!(first, &expected);
    assert_eq!((&worse["error"], &worse["turns"]), (&Value::from(problem), &Value::Null));
}

#[test]
fn a_damaged_session_is_refused_and_can_be_removed() {
    let home = home();
    tell(&home, "a");
    fs::write(file(&home, "a"), "damaged\n").unwrap();
    let said = format!(
        "error: `{}`: line 1 is not a message such as {{\"role\":\"user\",\"content\":\"Hello\"}}\n\
         hint: mend the file, or begin another session: `--session NAME`\n",
        file(&home, "a").display()
    );
    infer(&home).args(["--session", "a"]).status(1).stderr(said).run();
    assert_eq!(fs::read_to_string(file(&home, "a")).unwrap(), "damaged\n");
    infer(&home).args(["--remove-session", "a"]).stderr("removed the session `a`\n").run();
    assert!(!file(&home, "a").exists());
}

#[test]
fn the_system_prompt_is_part_of_a_session() {
    let home = home();
    infer(&home)
        .args(["demo", "--session", "a", "-s", "The user's name is Ada."])
        .stdin("Hello!\n")
        .stdout_is(|_| true)
        .run();
    ask(&home).args(["--session", "a"]).run();
    let said = "`-s` is not used: the session keeps its own system prompt; `/system TEXT` changes it\n";
    ask(&home).args(["--session", "a", "-s", "The user's name is Bob."]).stderr(said).run();
    tell(&home, "b");
    let said = "the session had no system prompt and has that of `-s` now\n";
    ask(&home).args(["--session", "b", "-s", "Be brief."]).stderr(said).run();
    assert_eq!(lines(&home, "b")[1], "system: Be brief.");
}

#[test]
fn save_and_load_work_in_a_session_and_its_file_can_be_loaded() {
    let home = home();
    tell(&home, "a");
    let load = format!("/load {}\n", file(&home, "a").display());
    let ran = infer(&home)
        .args(["demo", "--session", "b"])
        .stdin(format!("{load}What is my name?\n/save talk.jsonl\n"))
        .stdout("Your name is Ada.\n")
        .stderr(format!(
            "loaded 2 messages from `{}`\nsaved 4 messages to `talk.jsonl`\n",
            file(&home, "a").display()
        ))
        .run();
    let saved = fs::read_to_string(ran.home.path().join("talk.jsonl")).unwrap();
    let kept = fs::read_to_string(file(&home, "b")).unwrap();
    assert_eq!(kept, format!("{{\"model\":\"demo\"}}\n{saved}"));
}

#[test]
fn nothing_is_kept_of_a_session_in_which_nothing_is_said() {
    let home = home();
    infer(&home).args(["demo", "--session", "a"]).run();
    assert_eq!(fs::read_dir(folder(&home)).unwrap().count(), 0);
}

#[test]
fn without_a_session_nothing_is_kept() {
    let home = home();
    infer(&home).arg("demo").stdin("Hello!\n").stdout_is(|_| true).run();
    assert!(!folder(&home).exists());
}

#[test]
fn a_folder_that_cannot_be_made_is_one_clear_error() {
    let error = "error: cannot create `{home}/data/infer/sessions`: ";
    let home = home();
    fs::write(home.path().join("data"), "not a folder").unwrap();
    let error = error.replace("{home}", &home.path().to_string_lossy());
    infer(&home)
        .args(["none.gguf", "--session", "a"])
        .status(1)
        .stderr_is(move |err| {
            err.starts_with(&error)
                && err.ends_with("\nhint: set XDG_DATA_HOME to a folder that can be written\n")
                && err.lines().count() == 2
        })
        .run();
}

#[cfg(unix)]
mod unix {
    use std::os::unix::fs::PermissionsExt;
    use std::process::Command;

    use super::*;
    use crate::support::rows;

    /// Runs a script in the home, with `chat` as a command that goes on with a session from a pipe; its exit code and
    /// what it said on stderr.
    fn script(home: &Path, before: &[&str], script: &str) -> (Option<i32>, String) {
        let script = format!("chat() {{ \"$INFER\" chat --session a -t 1 --temp 0 >/dev/null; }}\n{script}");
        let mut words = before.to_vec();
        words.extend(["/bin/sh", "-c", &script]);
        let ran = Command::new(words[0])
            .args(&words[1..])
            .current_dir(home)
            .env_clear()
            .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
            .env("HOME", home)
            .env("XDG_CACHE_HOME", home.join("cache"))
            .env("XDG_DATA_HOME", home.join("data"))
            .env("XDG_STATE_HOME", home.join("state"))
            .env("INFER", env!("CARGO_BIN_EXE_infer"))
            .output()
            .expect("a shell");
        (ran.status.code(), String::from_utf8_lossy(&ran.stderr).into_owned())
    }

    #[test]
    fn nobody_else_can_read_a_session() {
        let home = home();
        tell(&home, "a");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&folder(&home)), mode(&file(&home, "a"))), (0o700, 0o600));
    }

    #[test]
    fn a_full_disk_is_an_error_and_loses_nothing_that_was_said() {
        let home = home();
        tell(&home, "a");
        let before = fs::read_to_string(file(&home, "a")).unwrap();
        // The limit of a file's size stands for a full disk: writing fails in the middle of the line.
        let fill = "head -c 5000 /dev/zero | tr '\\0' x | { ulimit -f 2; chat; }";
        let (code, err) = script(home.path(), &["env"], fill);
        let error = format!(
            "error: cannot write `{}`: File too large (os error 27)\n\
             hint: `ulimit -f unlimited` lifts the limit on the size of a file\n",
            file(&home, "a").display()
        );
        assert_eq!((code, err), (Some(1), error));
        assert_eq!(fs::read_to_string(file(&home, "a")).unwrap(), before);
        ask(&home).args(["--session", "a"]).run();
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_disk_that_cannot_be_written_is_one_clear_error() {
        let home = home();
        tell(&home, "a");
        let alone = ["unshare", "--user", "--map-root-user", "--mount"];
        let mount = "mount --bind data data && mount -o remount,bind,ro data || exit 99";
        if script(home.path(), &alone, mount).0 != Some(0) {
            // A test that shows nothing says so.
            let _ = writeln!(std::io::stderr(), "skipped: this system lets no test mount a disk");
            return;
        }
        let (code, err) = script(home.path(), &alone, &format!("{mount}\necho Hello | chat"));
        let error = format!(
            "error: cannot write `{}`: Read-only file system (os error 30)\n\
             hint: set XDG_DATA_HOME to a folder that can be written\n",
            folder(&home).join(".a.jsonl.infer").display()
        );
        assert_eq!((code, err), (Some(1), error));
    }

    #[test]
    fn a_person_sees_which_session_it_is_and_is_asked_before_it_is_removed() {
        let home = home();
        let resume = || infer(&home).args(["demo", "--session", "a"]);
        let mut terminal = resume().terminal();
        terminal.wait_for("session `a`: new\r\n");
        terminal.wait_for(">>> ");
        terminal.send("My name is Ada.\r");
        terminal.wait_for("\n");
        terminal.wait_for(">>> ");
        terminal.send("\x04");
        terminal.finish();
        let mut terminal = resume().terminal();
        terminal.wait_for(">>> ");
        terminal.send("What is my name?\r");
        terminal.wait_for("\n");
        terminal.wait_for(">>> ");
        terminal.send("\x04");
        let expected = [
            "demo, context 1,024; /help lists the commands",
            "session `a`: 1 turn",
            ">>> What is my name?",
            "Your name is Ada.",
            ">>>",
            "",
        ];
        assert_eq!(rows(&terminal.finish().stdout), expected);
        let remove = || infer(&home).args(["--remove-session", "a"]);
        let mut terminal = remove().status(1).terminal();
        terminal.wait_for("remove the session `a`? [y/N] ");
        terminal.send("\r");
        terminal.finish();
        assert!(file(&home, "a").exists());
        let mut terminal = remove().terminal();
        terminal.wait_for("[y/N] ");
        terminal.send("y\r");
        terminal.finish();
        assert!(!file(&home, "a").exists());
    }
}
