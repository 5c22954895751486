//! The one place that touches stdout, stderr, the terminal, colour, bars and Ctrl-C.
//!
//! Its verbs are meanings: `say` is the product and goes to stdout, the rest goes to stderr. What a model wrote is
//! shown raw in a pipe, and with its control characters escaped on a terminal.

use std::borrow::Cow;
use std::io::{self, BufRead, IsTerminal, Read, Write};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use self::ctrl_c::{CtrlC, Meaning};
use super::args::VolumeArgs;
use crate::engine::leave::leave;
use crate::error::{Error, Kind, Result};
use crate::human::{Escaped, is_harmful};

mod bar;
mod ctrl_c;
mod downloads;
mod line;

pub(crate) use bar::Bar;
pub(crate) use downloads::Downloads;

/// Which streams are a terminal.
#[derive(Clone, Copy)]
struct Terminals {
    stdin: bool,
    stdout: bool,
    stderr: bool,
}

/// What the terminal can be asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    /// It cannot move its cursor: lines of text, no bars and no line editor.
    Dumb,
    Plain,
    Coloured,
}

impl Style {
    fn from_env() -> Self {
        let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        // The names on which rustyline refuses to edit.
        if set("TERM").is_some_and(|term| ["dumb", "cons25", "emacs"].iter().any(|name| term == *name)) {
            return Self::Dumb;
        }
        if set("NO_COLOR").is_some() { Self::Plain } else { Self::Coloured }
    }
}

pub(crate) struct Ui {
    out: Box<dyn Write>,
    err: Box<dyn Write>,
    terminals: Terminals,
    volume: VolumeArgs,
    style: Style,
    /// What was said has not ended its last line.
    open_line: bool,
    /// A thought is being shown and its line is open.
    in_thought: bool,
    closed: Option<io::ErrorKind>,
    ctrl_c: Arc<CtrlC>,
}

impl Ui {
    /// The process's own streams. Takes Ctrl-C over: it leaves at once until [`Ui::stop_with_brake`].
    pub(crate) fn new(volume: VolumeArgs) -> Self {
        let terminals = Terminals {
            stdin: io::stdin().is_terminal(),
            stdout: io::stdout().is_terminal(),
            stderr: io::stderr().is_terminal(),
        };
        let ctrl_c = Arc::new(CtrlC::default());
        ctrl_c::listen(Arc::clone(&ctrl_c), terminals.stderr);
        Self {
            out: Box::new(io::stdout()),
            err: Box::new(io::stderr()),
            terminals,
            volume,
            style: Style::from_env(),
            open_line: false,
            in_thought: false,
            closed: None,
            ctrl_c,
        }
    }

    /// A person on both ends?
    pub(crate) fn is_interactive(&self) -> bool {
        self.terminals.stdin && self.terminals.stdout
    }

    /// Is there input in a pipe or a file?
    pub(crate) fn has_piped_input(&self) -> bool {
        !self.terminals.stdin
    }

    /// Is the terminal one that shows lines and can do no more?
    pub(crate) fn is_dumb(&self) -> bool {
        self.style == Style::Dumb
    }

    /// How wide a page may be; a pipe has no width.
    pub(crate) fn columns(&self) -> Option<usize> {
        self.terminals.stdout.then(|| console::Term::stdout().size().1.into())
    }

    fn is_coloured(&self) -> bool {
        self.terminals.stderr && self.style == Style::Coloured
    }

    pub(crate) fn is_quiet(&self) -> bool {
        self.volume.quiet
    }

    pub(crate) fn is_verbose(&self) -> bool {
        self.volume.verbose > 0
    }

    /// Could a person see a thought?
    pub(crate) fn shows_thoughts(&self) -> bool {
        self.terminals.stderr && !self.volume.quiet
    }

    /// All of stdin, up to `limit` bytes.
    pub(crate) fn read_input(limit: u64) -> io::Result<Vec<u8>> {
        let mut input = Vec::new();
        io::stdin().lock().take(limit).read_to_end(&mut input)?;
        Ok(input)
    }

    /// One line of piped stdin, up to `limit` bytes and without its end; `None` at the end of the input.
    pub(crate) fn read_line(&self, limit: u64) -> Result<Option<Vec<u8>>> {
        let mut line = Vec::new();
        let read = self.leave_while(|| io::stdin().lock().take(limit).read_until(b'\n', &mut line))?;
        let read = read.map_err(|e| Error::failed(format!("cannot read the input: {e}")))?;
        let text = line.strip_suffix(b"\n").unwrap_or(&line);
        Ok((read > 0).then(|| text.strip_suffix(b"\r").unwrap_or(text).to_owned()))
    }

    // --- the product ---

    /// Text of an answer, as it comes. Breaks when nobody reads any more.
    pub(crate) fn say(&mut self, text: &str) -> ControlFlow<()> {
        self.end_thought();
        let shown = if self.terminals.stdout { escape(text) } else { Cow::Borrowed(text) };
        if let Some(last) = shown.as_bytes().last() {
            self.open_line = *last != b'\n';
        }
        self.product(shown.as_bytes())
    }

    /// The answer is over: it ends in one newline, if there was any text.
    pub(crate) fn end_answer(&mut self) -> ControlFlow<()> {
        self.end_thought();
        if std::mem::take(&mut self.open_line) {
            return self.product(b"\n");
        }
        self.clear_echo();
        ControlFlow::Continue(())
    }

    /// Text that is asked for and complete, such as a table.
    pub(crate) fn page(&mut self, text: &str) -> ControlFlow<()> {
        self.say(text)?;
        self.end_answer()
    }

    /// One line of JSON.
    pub(crate) fn json(&mut self, value: &serde_json::Value) -> ControlFlow<()> {
        self.clear_echo();
        let mut text = value.to_string();
        if self.terminals.stdout {
            text = harmless_json(&text);
        }
        self.product(format!("{text}\n").as_bytes())
    }

    fn product(&mut self, bytes: &[u8]) -> ControlFlow<()> {
        if self.closed.is_none() {
            self.closed = self.out.write_all(bytes).and_then(|()| self.out.flush()).err().map(|e| e.kind());
        }
        if self.closed.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// Can stdout take no more?
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.is_some()
    }

    /// Whether all of the product arrived. A reader that went away has what it wanted; a full disk has not.
    pub(crate) fn check_product(&self) -> Result<()> {
        match self.closed {
            None | Some(io::ErrorKind::BrokenPipe) => Ok(()),
            Some(kind) => Err(Error::failed(format!("cannot write the answer: {kind}"))),
        }
    }

    // --- beside the product ---

    /// Something that must not pass silently, or was asked for.
    pub(crate) fn note(&mut self, line: &str) {
        self.break_line();
        self.line(line);
    }

    /// Something good to know; not with `--quiet`.
    pub(crate) fn status(&mut self, line: &str) {
        if !self.volume.quiet {
            self.note(line);
        }
    }

    /// Something for those who want to know, `--verbose`.
    pub(crate) fn detail(&mut self, line: &str) {
        if self.is_verbose() {
            self.note(line);
        }
    }

    /// The model's reasoning: dim, and only to a terminal.
    pub(crate) fn thought(&mut self, text: &str) {
        if !self.shows_thoughts() {
            return;
        }
        if !self.in_thought {
            self.break_line();
            self.in_thought = true;
        }
        let (on, off) = if self.is_coloured() { ("\x1b[2m", "\x1b[0m") } else { ("", "") };
        self.stderr(&format!("{on}{}{off}", escape(text)));
    }

    fn end_thought(&mut self) {
        if std::mem::take(&mut self.in_thought) {
            self.stderr("\n\n");
        }
    }

    /// A note in the middle of an answer begins on a line of its own, where both meet on one screen.
    fn break_line(&mut self) {
        self.end_thought();
        if self.open_line && self.terminals.stdout && self.terminals.stderr {
            self.open_line = false;
            self.stderr("\n");
        }
    }

    /// A terminal shows Ctrl-C as `^C` where the cursor is. On a line of its own it is taken away again.
    pub(crate) fn clear_echo(&mut self) {
        if self.is_interrupted() && self.terminals.stdin && self.terminals.stderr {
            self.stderr(if self.is_dumb() { "\n" } else { "\r\x1b[K" });
        }
    }

    /// The error and its hint, in two lines.
    pub(crate) fn error(&mut self, error: &Error) {
        self.break_line();
        let (red, cyan, off) =
            if self.is_coloured() { ("\x1b[1;31m", "\x1b[36m", "\x1b[0m") } else { ("", "", "") };
        self.line_styled("error: ", red, off, &error.message);
        if let Some(hint) = &error.hint {
            self.line_styled("hint: ", cyan, off, hint);
        }
    }

    /// Say an error now, because what stands on stdout is complete; what is left of it is the exit code.
    pub(crate) fn told(&mut self, error: &Error) -> Error {
        if error.kind != Kind::Interrupted && !error.message.is_empty() {
            self.error(error);
        }
        Error::new(error.kind, "")
    }

    fn line_styled(&mut self, label: &str, on: &str, off: &str, text: &str) {
        self.stderr(&format!("{on}{label}{off}{}\n", escape(&text.replace(['\n', '\r'], " "))));
    }

    fn line(&mut self, line: &str) {
        self.stderr(&format!("{}\n", escape(line)));
    }

    /// A closed stderr loses what would have been said on it, and nothing else.
    fn stderr(&mut self, text: &str) {
        let _ = self.err.write_all(text.as_bytes()).and_then(|()| self.err.flush());
    }

    /// The prompt of a terminal that has no line editor.
    pub(crate) fn ask(&mut self, prompt: &str) {
        self.stderr(prompt);
    }

    /// A bar over `total` steps, on a terminal and when the work lasts. Not between the lines of `--verbose`.
    pub(crate) fn progress(&self, label: &str, total: u64) -> Bar {
        Bar::new(label, total, self.draws_bars())
    }

    /// Changing words about work whose length is not known, on a terminal.
    pub(crate) fn watching(&self) -> Bar {
        Bar::words("", self.draws_bars())
    }

    /// Bars for files that are fetched, on a terminal. Not between the lines of `--verbose`, nor where events are told on
    /// the same screen.
    pub(crate) fn downloads(&self, files: usize, total: u64, tells_events: bool) -> Downloads {
        let wanted = self.draws_bars() && !(tells_events && self.terminals.stdout);
        Downloads::new(files, total, wanted, self.is_coloured())
    }

    /// Are bars shown? Lines stand for them where they are not.
    pub(crate) fn draws_bars(&self) -> bool {
        self.terminals.stderr && !self.is_dumb() && !self.volume.quiet && !self.is_verbose()
    }

    /// A person who can be asked something?
    pub(crate) fn can_ask(&self) -> bool {
        self.terminals.stdin && self.terminals.stderr
    }

    /// A question to a person; anything but yes is no.
    pub(crate) fn confirm(&mut self, question: &str, default: bool) -> Result<bool> {
        let choice = if default { "[Y/n]" } else { "[y/N]" };
        self.break_line();
        // Who reads the question may already answer with Ctrl-C.
        self.ctrl_c.mean(Meaning::Leave);
        self.stderr(&format!("{} {choice} ", escape(question)));
        let line = self.read_line(100)?;
        let Some(line) = line else {
            self.stderr("\n");
            return Ok(false);
        };
        let answer = String::from_utf8_lossy(&line).trim().to_lowercase();
        Ok(if answer.is_empty() { default } else { ["y", "yes"].contains(&answer.as_str()) })
    }

    // --- Ctrl-C ---

    /// From now on work asks for the brake: Ctrl-C sets it, and leaves only when it is set already.
    pub(crate) fn stop_with_brake(&self) {
        self.ctrl_c.mean(Meaning::Brake);
    }

    /// Set while a person wants the work to stop.
    pub(crate) fn brake(&self) -> Arc<AtomicBool> {
        self.ctrl_c.brake()
    }

    pub(crate) fn is_interrupted(&self) -> bool {
        self.ctrl_c.is_pressed()
    }

    /// The interruption has been answered; work may start again.
    pub(crate) fn release_brake(&self) {
        self.ctrl_c.release();
    }

    /// Wait for something that cannot be stopped but by leaving.
    fn leave_while<T>(&self, wait: impl FnOnce() -> T) -> Result<T> {
        self.ctrl_c.mean(Meaning::Leave);
        // One that came just before has set the brake, and nobody would look at it while this waits.
        if self.is_interrupted() {
            return Err(Error::new(Kind::Interrupted, ""));
        }
        let answer = wait();
        self.stop_with_brake();
        Ok(answer)
    }

    /// Let a person edit a line.
    pub(crate) fn edit_while<T>(&self, edit: impl FnOnce() -> T) -> T {
        self.ctrl_c.mean(Meaning::Nothing);
        let line = edit();
        // What was meant for an answer that ended by itself must not stop the next one.
        self.release_brake();
        self.stop_with_brake();
        line
    }
}

/// The last words when llama.cpp gives up in the middle of a call; nothing can be unwound there.
pub(crate) fn last_words(message: &str) -> ! {
    let line = message.lines().next().unwrap_or_default();
    let place = line.rsplit_once('/').map_or(line, |(_, file)| file);
    let _ = writeln!(io::stderr(), "error: llama.cpp gave up: {}", escape(place));
    let _ =
        writeln!(io::stderr(), "hint: the model file may be damaged; `infer show MODEL` reads its header");
    leave(1)
}

/// A line of llama.cpp's log as the product of a process that works for another.
pub(crate) fn work_line(line: &str) {
    let mut out = io::stdout().lock();
    // A reader that is gone has its own end to wait for.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// A line of llama.cpp's log, for `-vv`.
pub(crate) fn log_line(line: &str) {
    let _ = writeln!(io::stderr(), "llama.cpp: {}", escape(line));
}

/// What could harm a terminal as visible text; line breaks and tabs stay.
pub(crate) fn escape(text: &str) -> Cow<'_, str> {
    let layout = ['\n', '\t'];
    if !text.contains(|c| is_harmful(c) && !layout.contains(&c)) {
        return Cow::Borrowed(text);
    }
    let pieces = text.split_inclusive(layout).map(|piece| {
        let words = piece.trim_end_matches(layout);
        format!("{}{}", Escaped(words), &piece[words.len()..])
    });
    Cow::Owned(pieces.collect())
}

/// JSON has an escape of its own for what could harm a terminal.
pub(crate) fn harmless_json(text: &str) -> String {
    let escaped = |c: char| if is_harmful(c) { format!("\\u{:04x}", u32::from(c)) } else { c.into() };
    text.chars().map(escaped).collect()
}

#[cfg(test)]
pub(crate) mod captured {
    //! A `Ui` whose streams end up in two strings.

    use std::sync::{Mutex, PoisonError};

    use super::*;

    #[derive(Clone, Default)]
    pub(crate) struct Stream(Arc<Mutex<Vec<u8>>>);

    impl Stream {
        pub(crate) fn text(&self) -> String {
            let bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            String::from_utf8_lossy(&bytes).into_owned()
        }
    }

    impl Write for Stream {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Ui {
        pub(crate) fn captured(terminal: bool) -> (Self, Stream, Stream) {
            let (out, err) = (Stream::default(), Stream::default());
            let ui = Self {
                out: Box::new(out.clone()),
                err: Box::new(err.clone()),
                terminals: Terminals { stdin: terminal, stdout: terminal, stderr: terminal },
                volume: VolumeArgs::default(),
                style: Style::Plain,
                open_line: false,
                in_thought: false,
                closed: None,
                ctrl_c: Arc::default(),
            };
            (ui, out, err)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_become_visible_and_the_rest_stays() {
        for (text, shown) in [
            ("plain\n\ttext é 日本", "plain\n\ttext é 日本"),
            ("a\x1b[31mb", "a\\u{1b}[31mb"),
            ("bell\x07 back\x08 return\r", "bell\\u{7} back\\u{8} return\\r"),
            ("\u{9b}2J", "\\u{9b}2J"),
            ("x\u{202e}y", "x\\u{202e}y"),
        ] {
            assert_eq!(escape(text), shown);
        }
    }

    #[test]
    fn an_answer_ends_in_one_newline() {
        for (pieces, expected) in [
            (&["a", "b"][..], "ab\n"),
            (&["a\n"], "a\n"),
            (&["a\n\n"], "a\n\n"),
            (&[], ""),
            (&["a", ""], "a\n"),
        ] {
            let (mut ui, out, err) = Ui::captured(false);
            for piece in pieces {
                assert!(ui.say(piece).is_continue());
            }
            assert!(ui.end_answer().is_continue());
            assert_eq!((out.text().as_str(), err.text().as_str()), (expected, ""));
        }
    }

    #[test]
    fn a_pipe_gets_the_bytes_and_a_terminal_the_escaped_ones() {
        for (terminal, expected) in [(false, "\x1b[2J\n"), (true, "\\u{1b}[2J\n")] {
            let (mut ui, out, _) = Ui::captured(terminal);
            assert!(ui.page("\x1b[2J").is_continue());
            assert_eq!(out.text(), expected);
        }
    }

    #[test]
    fn json_on_a_terminal_is_harmless_and_still_json() {
        let value = serde_json::json!("a\u{9b}2J\u{202e}é");
        for (terminal, expected) in [(false, "\"a\u{9b}2J\u{202e}é\"\n"), (true, "\"a\\u009b2J\\u202eé\"\n")]
        {
            let (mut ui, out, _) = Ui::captured(terminal);
            assert!(ui.json(&value).is_continue());
            assert_eq!(out.text(), expected);
            assert_eq!(serde_json::from_str::<serde_json::Value>(&out.text()).unwrap(), value);
        }
    }

    #[test]
    fn thoughts_go_to_a_terminal_only_and_never_to_stdout() {
        for (terminal, expected) in [(false, ""), (true, "hm\n\n")] {
            let (mut ui, out, err) = Ui::captured(terminal);
            ui.thought("hm");
            assert!(ui.page("yes").is_continue());
            assert_eq!((out.text().as_str(), err.text().as_str()), ("yes\n", expected));
        }
    }

    #[test]
    fn an_error_is_two_lines_whatever_is_in_it() {
        let (mut ui, out, err) = Ui::captured(false);
        ui.error(&Error::failed("a\nb\x1b[0m").hint("type `c`"));
        assert_eq!(
            (out.text().as_str(), err.text().as_str()),
            ("", "error: a b\\u{1b}[0m\nhint: type `c`\n")
        );
    }

    #[test]
    fn a_note_inside_an_answer_begins_on_its_own_line() {
        let (mut ui, _, err) = Ui::captured(true);
        assert!(ui.say("half").is_continue());
        ui.note("window: dropped 1 turn");
        assert_eq!(err.text(), "\nwindow: dropped 1 turn\n");
    }

    struct Broken;

    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_closed_pipe_breaks_quietly() {
        let (mut ui, _, err) = Ui::captured(false);
        ui.out = Box::new(Broken);
        assert!(ui.say("a").is_break());
        assert!(ui.is_closed() && ui.check_product().is_ok());
        assert_eq!(err.text(), "");
    }
}
