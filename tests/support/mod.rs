//! The test builder: one run of the program with its own empty home, compared exactly.
//!
//! ```ignore
//! Infer::new().args(["run", "demo", "Hello!"]).stdout("Hello! How can I help you?\n").run();
//! ```
//!
//! Status 0, empty stdout and empty stderr are expected unless the test says otherwise, so nothing goes unseen.

mod diff;
pub(crate) mod hub;
mod selftest;
#[cfg(unix)]
mod terminal;
pub(crate) mod tiny_gguf;

use std::ffi::{OsStr, OsString};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

#[cfg(unix)]
pub(crate) use terminal::{Terminal, rows};

/// Longest life of a child, unless the test says otherwise.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Where the real models are; `make test-real` sets it.
const MODELS: &str = "INFER_TEST_MODELS";

/// The Python of the same; its packages are those of tests/real/fetch.sh.
const PYTHON: &str = "INFER_TEST_PYTHON";

/// The state folder below `home`, in which the advice to rebuild for this processor counts as given today: it is no
/// matter of the tests how this binary was built.
pub(crate) fn state_without_advice(home: &Path) -> PathBuf {
    let state = home.join("state");
    let stamp = state.join("infer/rebuild-advice");
    std::fs::create_dir_all(state.join("infer"))
        .and_then(|()| std::fs::write(stamp, ""))
        .expect("a state folder");
    state
}

/// Does the program see a GPU? Some refusals are others then.
pub(crate) fn sees_gpu() -> bool {
    let ran = Infer::new().args(["--version", "-v"]).stdout_is(|_| true).stderr_is(|_| true).run();
    ran.stdout.lines().any(|line| line.starts_with("device ") && !line.contains("CPU"))
}

/// The path of a real model, for tests marked `#[ignore]`.
pub(crate) fn real_model(file: &str) -> PathBuf {
    let folder =
        std::env::var_os(MODELS).unwrap_or_else(|| panic!("{MODELS} is not set: type `make test-real`"));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder).join(file);
    assert!(path.is_file(), "{} is not there: type `make test-real`", path.display());
    path
}

/// A Python with `huggingface_hub`, for tests marked `#[ignore]`.
pub(crate) fn real_python() -> PathBuf {
    let python =
        std::env::var_os(PYTHON).unwrap_or_else(|| panic!("{PYTHON} is not set: type `make test-real`"));
    Path::new(env!("CARGO_MANIFEST_DIR")).join(python)
}

/// One of the two output streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
}

impl Stream {
    fn name(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

/// What a stream has to be.
enum Expected {
    Text(String),
    Check(Box<dyn Fn(&str) -> bool>),
}

/// What happened in one run.
#[derive(Debug)]
pub(crate) struct Ran {
    /// The exit code, or the negative number of the signal that ended the child.
    pub(crate) status: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// The home of this run, for `Infer::home` of the next one.
    pub(crate) home: Arc<TempDir>,
}

/// A run of the program that has yet to happen.
#[must_use = "nothing happens before `.run()` or `.terminal()`"]
pub(crate) struct Infer {
    program: PathBuf,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    stdin: Option<Vec<u8>>,
    files: Vec<(PathBuf, Vec<u8>)>,
    home: Arc<TempDir>,
    stdout: Expected,
    stderr: Expected,
    status: i32,
    timeout: Duration,
    interrupt: Option<(Stream, String)>,
    /// SIGINT when stdin has been taken, which then stays open.
    interrupt_reading: bool,
    hang_up: Option<usize>,
}

impl Infer {
    /// The program, without arguments, in an empty home which is also the current folder.
    pub(crate) fn new() -> Self {
        Self {
            program: env!("CARGO_BIN_EXE_infer").into(),
            args: Vec::new(),
            env: Vec::new(),
            stdin: None,
            files: Vec::new(),
            home: Arc::new(TempDir::new().expect("a temporary folder")),
            stdout: Expected::Text(String::new()),
            stderr: Expected::Text(String::new()),
            status: 0,
            timeout: TIMEOUT,
            interrupt: None,
            interrupt_reading: false,
            hang_up: None,
        }
    }

    pub(crate) fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    pub(crate) fn args<S: Into<OsString>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// One more variable in an environment that holds only `PATH` and the folders of the temporary home.
    pub(crate) fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Bytes on a piped stdin, which is closed after them. Without this, stdin is empty.
    pub(crate) fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = Some(bytes.into());
        self
    }

    /// A file in the home, and so in the current folder; folders on the way are made.
    pub(crate) fn file(mut self, path: impl Into<PathBuf>, content: impl Into<Vec<u8>>) -> Self {
        self.files.push((path.into(), content.into()));
        self
    }

    /// The home of an earlier run instead of a new one: its cache, history and files.
    pub(crate) fn home(mut self, home: &Arc<TempDir>) -> Self {
        self.home = Arc::clone(home);
        self
    }

    /// Where the home is, for what `file` cannot make.
    pub(crate) fn home_path(&self) -> PathBuf {
        self.home.path().to_owned()
    }

    /// All of stdout; `{home}` stands for the path of the home.
    pub(crate) fn stdout(mut self, text: impl Into<String>) -> Self {
        self.stdout = Expected::Text(text.into());
        self
    }

    /// All of stderr; `{home}` stands for the path of the home.
    pub(crate) fn stderr(mut self, text: impl Into<String>) -> Self {
        self.stderr = Expected::Text(text.into());
        self
    }

    /// For what cannot be said exactly: times, sampled text. The whole run is shown when the check says no.
    pub(crate) fn stdout_is(mut self, check: impl Fn(&str) -> bool + 'static) -> Self {
        self.stdout = Expected::Check(Box::new(check));
        self
    }

    /// As `stdout_is`.
    pub(crate) fn stderr_is(mut self, check: impl Fn(&str) -> bool + 'static) -> Self {
        self.stderr = Expected::Check(Box::new(check));
        self
    }

    /// The exit code, or the negative number of a signal.
    pub(crate) fn status(mut self, status: i32) -> Self {
        self.status = status;
        self
    }

    /// After this the child is killed and the test fails.
    pub(crate) fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sends SIGINT once, as soon as `text` has appeared.
    #[cfg(unix)]
    pub(crate) fn interrupt_after(mut self, stream: Stream, text: impl Into<String>) -> Self {
        self.interrupt = Some((stream, text.into()));
        self
    }

    /// Sends SIGINT when stdin has been written, and keeps it open. Give more than a pipe holds: then the child is known
    /// to be reading.
    #[cfg(unix)]
    pub(crate) fn interrupt_reading(mut self) -> Self {
        self.interrupt_reading = true;
        self
    }

    /// Redirects streams of the program as `sh` does: `> out.txt`. Come to the arguments before this.
    #[cfg(unix)]
    pub(crate) fn redirect(self, how: &str) -> Self {
        self.shell(format!("exec \"$0\" \"$@\" {how}"))
    }

    /// Lets no file of the program grow beyond so many blocks of 512 bytes, which stands for a full disk. Come to the
    /// arguments before this.
    #[cfg(unix)]
    pub(crate) fn limit_files(self, blocks: u32) -> Self {
        self.shell(format!("ulimit -f {blocks}; exec \"$0\" \"$@\""))
    }

    #[cfg(unix)]
    fn shell(mut self, script: String) -> Self {
        let program = std::mem::replace(&mut self.program, "/bin/sh".into());
        self.args.splice(0..0, ["-c".into(), script.into(), program.into()]);
        self
    }

    /// Closes the reading end of stdout once so many bytes have come, as `head -c` does.
    pub(crate) fn hang_up_after(mut self, bytes: usize) -> Self {
        self.hang_up = Some(bytes);
        self
    }

    /// Runs, compares, and hands back what happened for further looks.
    #[track_caller]
    pub(crate) fn run(self) -> Ran {
        match self.check() {
            Ok(ran) => ran,
            Err(report) => panic!("{report}"),
        }
    }

    /// As `run`, with a failure as a value.
    fn check(self) -> Result<Ran, String> {
        let mut command = self.command();
        command.stdin(if self.stdin.is_some() { Stdio::piped() } else { Stdio::null() });
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{} does not start: {error}", self.program.display()));

        let (written, all_written) = mpsc::channel();
        // Its result holds the pipe open until the end of this run.
        let _writer = child.stdin.take().zip(self.stdin.clone()).map(|(mut pipe, bytes)| {
            let stays_open = self.interrupt_reading;
            thread::spawn(move || {
                // A child may end without having read everything; that is its right.
                let done = pipe.write_all(&bytes).is_ok();
                // The run may be over.
                let _ = written.send(done);
                stays_open.then_some(pipe)
            })
        });
        if self.interrupt_reading && all_written.recv_timeout(self.timeout) == Ok(true) {
            send_interrupt(&child);
        }
        let (sender, chunks) = mpsc::channel();
        read(child.stdout.take(), Stream::Stdout, self.hang_up, &sender);
        read(child.stderr.take(), Stream::Stderr, None, &sender);
        drop(sender);

        let deadline = Instant::now() + self.timeout;
        let mut outputs = Outputs::default();
        let mut interrupt = self.interrupt.as_ref();
        let on_time = outputs.collect(&chunks, deadline, |outputs| {
            if interrupt.is_some_and(|(stream, text)| outputs.text(*stream).contains(text.as_str())) {
                interrupt = None;
                send_interrupt(&child);
            }
        });
        let status = wait(&mut child, deadline);
        let mut complaints = Vec::new();
        if !on_time || status.is_none() {
            // Both fail only when the child has just ended by itself.
            let _ = child.kill();
            let _ = child.wait();
            complaints.push(format!("still running after {:?}: killed", self.timeout));
        }
        if let Some((stream, text)) = interrupt {
            complaints.push(format!("no SIGINT sent: {text:?} never appeared on {}", stream.name()));
        }
        let ran = Ran {
            status: status.map_or(-9, number),
            stdout: outputs.text(Stream::Stdout),
            stderr: outputs.text(Stream::Stderr),
            home: Arc::clone(&self.home),
        };
        if status.is_some() && ran.status != self.status {
            complaints.push(format!(
                "status: expected {}, got {}",
                describe(self.status),
                describe(ran.status)
            ));
        }
        complaints.extend(self.compare(Stream::Stdout, &self.stdout, &ran.stdout));
        complaints.extend(self.compare(Stream::Stderr, &self.stderr, &ran.stderr));
        if complaints.is_empty() { Ok(ran) } else { Err(self.report(&complaints, &ran)) }
    }

    /// The program with its arguments in its home, for a test that watches over it by itself.
    pub(crate) fn command(&self) -> Command {
        self.write_files();
        let mut command = Command::new(&self.program);
        command.args(&self.args).current_dir(self.home.path()).env_clear().envs(self.environment());
        command
    }

    /// Starts the program in a pseudo-terminal of 80 columns and 24 rows.
    #[cfg(unix)]
    #[track_caller]
    pub(crate) fn terminal(self) -> Terminal {
        self.write_files();
        Terminal::start(self)
    }

    fn write_files(&self) {
        for (path, content) in &self.files {
            let path = self.home.path().join(path);
            let folder = path.parent().expect("a file has a folder");
            std::fs::create_dir_all(folder).expect("a folder in the temporary home");
            std::fs::write(&path, content).expect("a file in the temporary home");
        }
    }

    /// Everything the child may know of the machine.
    fn environment(&self) -> Vec<(OsString, OsString)> {
        let home = self.home.path();
        let mut environment: Vec<(OsString, OsString)> = vec![
            ("HOME".into(), home.into()),
            ("XDG_CACHE_HOME".into(), home.join("cache").into()),
            ("XDG_CONFIG_HOME".into(), home.join("config").into()),
            ("XDG_DATA_HOME".into(), home.join("data").into()),
            ("XDG_STATE_HOME".into(), state_without_advice(home).into()),
        ];
        // Windows finds its own libraries and folders through the rest.
        if cfg!(windows) {
            for name in ["USERPROFILE", "LOCALAPPDATA", "APPDATA"] {
                environment.push((name.into(), home.into()));
            }
        }
        for name in ["PATH", "SystemRoot"] {
            environment.extend(std::env::var_os(name).map(|value| (name.into(), value)));
        }
        environment.extend(self.env.iter().cloned());
        environment
    }

    fn compare(&self, stream: Stream, expected: &Expected, actual: &str) -> Option<String> {
        match expected {
            Expected::Text(text) => {
                let text = text.replace("{home}", &self.home.path().to_string_lossy());
                (text != actual)
                    .then(|| format!("{} differs:\n{}", stream.name(), diff::lines(&text, actual)))
            }
            Expected::Check(check) => {
                (!check(actual)).then(|| format!("{} is not as it should be", stream.name()))
            }
        }
    }

    fn report(&self, complaints: &[String], ran: &Ran) -> String {
        format!(
            "{}\n\n{}\n\n--- stdout ---\n{}\n--- stderr ---\n{}\n--- status {} ---",
            self.command_line(),
            complaints.join("\n"),
            ran.stdout,
            ran.stderr,
            describe(ran.status)
        )
    }

    fn command_line(&self) -> String {
        let program = self.program.file_stem().unwrap_or_default();
        let words = std::iter::once(program).chain(self.args.iter().map(OsString::as_os_str));
        let words: Vec<_> = words.map(quoted).collect();
        format!("$ {}", words.join(" "))
    }
}

/// A word of a command line as it can be typed.
fn quoted(word: &OsStr) -> String {
    let word = word.to_string_lossy();
    let plain = |c: char| c.is_alphanumeric() || "-_./:=,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.into()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// What has come so far on each stream.
#[derive(Default)]
struct Outputs {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl Outputs {
    fn text(&self, stream: Stream) -> String {
        let bytes = match stream {
            Stream::Stdout => &self.stdout,
            Stream::Stderr => &self.stderr,
        };
        String::from_utf8_lossy(bytes).into_owned()
    }

    /// Takes chunks until both streams are closed; false when the deadline came first.
    fn collect(
        &mut self,
        chunks: &Receiver<(Stream, Vec<u8>)>,
        deadline: Instant,
        mut after_each: impl FnMut(&Self),
    ) -> bool {
        loop {
            match chunks.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok((Stream::Stdout, bytes)) => self.stdout.extend(bytes),
                Ok((Stream::Stderr, bytes)) => self.stderr.extend(bytes),
                Err(RecvTimeoutError::Disconnected) => return true,
                Err(RecvTimeoutError::Timeout) => return false,
            }
            after_each(self);
        }
    }
}

/// Sends what comes from a pipe, until its end or until `limit` bytes have come.
fn read(
    pipe: Option<impl Read + Send + 'static>,
    stream: Stream,
    limit: Option<usize>,
    sender: &Sender<(Stream, Vec<u8>)>,
) {
    let (mut pipe, sender) = (pipe.expect("a piped stream"), sender.clone());
    thread::spawn(move || {
        let mut buffer = [0; 8192];
        let mut total = 0;
        while let Ok(count @ 1..) = pipe.read(&mut buffer) {
            total += count;
            if sender.send((stream, buffer[..count].into())).is_err()
                || limit.is_some_and(|limit| total >= limit)
            {
                break;
            }
        }
    });
}

/// The status of the child, or nothing if the deadline comes first.
fn wait(child: &mut Child, deadline: Instant) -> Option<ExitStatus> {
    loop {
        match child.try_wait().expect("the state of the child") {
            Some(status) => return Some(status),
            None if Instant::now() >= deadline => return None,
            None => thread::sleep(Duration::from_millis(2)),
        }
    }
}

#[cfg(unix)]
fn send_interrupt(child: &Child) {
    use rustix::process::{Pid, Signal, kill_process};
    // The child has not been waited for, so its number cannot belong to another process.
    kill_process(Pid::from_child(child), Signal::INT).expect("SIGINT to the child");
}

#[cfg(not(unix))]
fn send_interrupt(_: &Child) {
    unreachable!("`interrupt_after` exists on Unix only");
}

/// The exit code, or the negative number of the signal.
#[cfg(unix)]
fn number(status: ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    status.code().or_else(|| status.signal().map(|signal| -signal)).expect("a code or a signal")
}

#[cfg(not(unix))]
fn number(status: ExitStatus) -> i32 {
    status.code().expect("a code")
}

fn describe(status: i32) -> String {
    if status < 0 { format!("signal {}", -status) } else { status.to_string() }
}
