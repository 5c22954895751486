//! The program in a pseudo-terminal: what a person sees and types.

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};

use tempfile::TempDir;

use super::{Infer, Ran, describe};

/// A running program whose three streams are one terminal. It is killed when this is dropped.
pub(crate) struct Terminal {
    what: Infer,
    child: Box<dyn Child + Send + Sync>,
    // The terminal hangs up when it goes.
    master: Box<dyn MasterPty + Send>,
    keyboard: Box<dyn Write + Send>,
    chunks: Receiver<Vec<u8>>,
    bytes: Vec<u8>,
    /// Keys typed again and again until the end.
    insists: Option<String>,
    /// How much of `screen()` earlier waits have used up.
    seen: usize,
    deadline: Instant,
}

impl Terminal {
    pub(super) fn start(what: Infer) -> Self {
        let size = PtySize { rows: 24, cols: 80, pixel_width: 0, pixel_height: 0 };
        let pair = native_pty_system().openpty(size).expect("a pseudo-terminal");
        let mut command = CommandBuilder::new(&what.program);
        command.args(&what.args);
        command.cwd(what.home.path());
        command.env_clear();
        command.env("TERM", "xterm-256color");
        for (name, value) in what.environment() {
            command.env(name, value);
        }
        let child = pair.slave.spawn_command(command).expect("the program in a pseudo-terminal");
        drop(pair.slave);
        let mut reader = pair.master.try_clone_reader().expect("the screen");
        let keyboard = pair.master.take_writer().expect("the keyboard");
        let (sender, chunks) = mpsc::channel();
        thread::spawn(move || {
            let mut buffer = [0; 8192];
            while let Ok(count @ 1..) = reader.read(&mut buffer) {
                if sender.send(buffer[..count].to_vec()).is_err() {
                    break;
                }
            }
        });
        let deadline = Instant::now() + what.timeout;
        Self {
            what,
            child,
            master: pair.master,
            keyboard,
            chunks,
            bytes: Vec::new(),
            insists: None,
            seen: 0,
            deadline,
        }
    }

    /// Types as a keyboard sends it: `\r` is the return key, `\t` the tab key, `\x03` Ctrl-C, `\x04` Ctrl-D.
    #[track_caller]
    pub(crate) fn send(&mut self, keys: &str) {
        let sent = self.keyboard.write_all(keys.as_bytes()).and_then(|()| self.keyboard.flush());
        if let Err(error) = sent {
            self.fail(&format!("{keys:?} cannot be typed: {error}"));
        }
    }

    /// The home of this run.
    pub(crate) fn home(&self) -> Arc<TempDir> {
        Arc::clone(&self.what.home)
    }

    /// Changes the size of the window.
    #[track_caller]
    pub(crate) fn resize(&mut self, cols: u16, rows: u16) {
        let size = PtySize { rows, cols, pixel_width: 0, pixel_height: 0 };
        self.master.resize(size).expect("another size");
    }

    /// Waits until `text` is on the screen, after what the last wait found; gives what came before it.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, text: &str) -> String {
        loop {
            let screen = self.screen();
            let fresh = screen.get(self.seen..).unwrap_or_default();
            if let Some(at) = fresh.find(text) {
                self.seen += at + text.len();
                return fresh[..at].to_owned();
            }
            match self.chunks.recv_timeout(self.deadline.saturating_duration_since(Instant::now())) {
                Ok(chunk) => self.bytes.extend(chunk),
                Err(_) => self.fail(&format!("waited for {text:?}")),
            }
        }
    }

    /// Everything so far without escape sequences; a line ends in `\r\n`.
    pub(crate) fn screen(&self) -> String {
        plain(&String::from_utf8_lossy(&self.bytes))
    }

    /// As `finish`, typing `keys` again and again: two signals that come close together can become one.
    #[track_caller]
    pub(crate) fn insist(mut self, keys: &str) -> Ran {
        self.insists = Some(keys.to_owned());
        self.finish()
    }

    /// Waits for the end and compares the status. `stdout` of the result is the whole screen, raw.
    #[track_caller]
    pub(crate) fn finish(mut self) -> Ran {
        let status = loop {
            match self.chunks.recv_timeout(Duration::from_millis(5)) {
                Ok(chunk) => self.bytes.extend(chunk),
                Err(RecvTimeoutError::Timeout) => {
                    if let Some(keys) = &self.insists {
                        // The child may just have ended.
                        let _ = self.keyboard.write_all(keys.as_bytes());
                    }
                }
                Err(RecvTimeoutError::Disconnected) => thread::sleep(Duration::from_millis(5)),
            }
            match self.child.try_wait().expect("the state of the child") {
                Some(status) => break status,
                None if Instant::now() >= self.deadline => self.fail("still running: killed"),
                None => {}
            }
        };
        // The last words may be on their way. The end of the stream is no sign: another child of the same test process
        // can hold the terminal open for a moment.
        while let Ok(chunk) = self.chunks.recv_timeout(Duration::from_millis(200)) {
            self.bytes.extend(chunk);
        }
        let code = i32::try_from(status.exit_code()).expect("a small exit code");
        if let Some(signal) = status.signal() {
            self.fail(&format!("ended by a signal: {signal}"));
        }
        if code != self.what.status {
            self.fail(&format!("status: expected {}, got {code}", describe(self.what.status)));
        }
        Ran {
            status: code,
            stdout: String::from_utf8_lossy(&self.bytes).into_owned(),
            stderr: String::new(),
            home: self.what.home.clone(),
        }
    }

    #[track_caller]
    fn fail(&self, complaint: &str) -> ! {
        panic!("{}\n\n{complaint}\n\n--- screen ---\n{}", self.what.command_line(), self.screen());
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Both fail only when the child has ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What stands on an endless terminal of 80 columns in the end: letters, and the movements that bars and prompts use.
pub(crate) fn rows(raw: &str) -> Vec<String> {
    let mut rows: Vec<Vec<char>> = vec![Vec::new()];
    let (mut row, mut col) = (0_usize, 0_usize);
    let mut chars = raw.chars();
    while let Some(c) = chars.next() {
        match c {
            '\r' => col = 0,
            '\n' => row += 1,
            '\u{8}' => col = col.saturating_sub(1),
            '\u{1b}' => {
                if chars.next() != Some('[') {
                    continue;
                }
                let mut number = String::new();
                let end = chars.by_ref().find(|&c| {
                    number.push(c);
                    ('@'..='~').contains(&c)
                });
                number.pop();
                let count = number.parse::<usize>();
                match end {
                    Some('A') => row = row.saturating_sub(count.unwrap_or(1)),
                    Some('B') => row += count.unwrap_or(1),
                    Some('C') => col += count.unwrap_or(1),
                    Some('D') => col = col.saturating_sub(count.unwrap_or(1)),
                    Some('G') => col = count.unwrap_or(1) - 1,
                    Some('K') if count == Ok(2) => rows[row].clear(),
                    Some('K') => rows[row].truncate(col),
                    Some('J') => {
                        rows[row].truncate(col);
                        rows.truncate(row + 1);
                    }
                    // Colours and modes.
                    _ => {}
                }
            }
            c => {
                if col == 80 {
                    (row, col) = (row + 1, 0);
                }
                if row >= rows.len() {
                    rows.resize(row + 1, Vec::new());
                }
                if rows[row].len() <= col {
                    rows[row].resize(col + 1, ' ');
                }
                rows[row][col] = c;
                col += 1;
            }
        }
        if row >= rows.len() {
            rows.resize(row + 1, Vec::new());
        }
    }
    rows.iter().map(|row| row.iter().collect::<String>().trim_end().to_owned()).collect()
}

/// Without escape sequences: CSI (`ESC [ … letter`), OSC (`ESC ] … BEL` or `ESC \`), and `ESC` with one character.
pub(super) fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\u{1b}' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('[') => {
                chars.by_ref().find(|c| ('@'..='~').contains(c));
            }
            Some(']') => {
                let mut escaped = false;
                chars.by_ref().find(|&c| {
                    let end = c == '\u{7}' || (escaped && c == '\\');
                    escaped = c == '\u{1b}';
                    end
                });
            }
            _ => {}
        }
    }
    out
}
