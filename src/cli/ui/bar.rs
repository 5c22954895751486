//! Progress on a terminal.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle, TermLike};

/// A bar appears when the work has taken this long.
const DELAY: Duration = Duration::from_millis(250);

/// Nothing is drawn where it is not wanted, nor in the first quarter of a second.
pub(crate) struct Bar(Option<ProgressBar>);

impl Bar {
    pub(super) fn new(label: &str, total: u64, wanted: bool) -> Self {
        Self::with("{msg} {bar:20} {percent:>3}%", label, total, wanted)
    }

    /// Words alone, for what nobody knows the length of.
    pub(super) fn words(text: &str, wanted: bool) -> Self {
        Self::with("{msg}", text, 1, wanted)
    }

    fn with(template: &str, label: &str, total: u64, wanted: bool) -> Self {
        if !wanted {
            return Self(None);
        }
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden());
        // The template is a constant; a plain bar is what is left if it were wrong.
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_message(label.to_owned());
        let weak = bar.downgrade();
        // The first step can take seconds, and the delay ends in the middle of it. Without a thread there is no bar.
        let _ = thread::Builder::new().spawn(move || {
            thread::sleep(DELAY);
            if let Some(bar) = weak.upgrade() {
                bar.set_draw_target(ProgressDrawTarget::term_like_with_hz(Box::new(Lines::default()), 20));
                // Draws nothing when the bar has just been cleared.
                bar.tick();
            }
        });
        Self(Some(bar))
    }

    pub(crate) fn set(&self, done: u64) {
        if let Some(bar) = &self.0 {
            bar.set_position(done);
        }
    }

    /// Other words.
    pub(crate) fn say(&self, text: &str) {
        if let Some(bar) = &self.0 {
            bar.set_message(text.to_owned());
        }
    }

    pub(crate) fn clear(&mut self) {
        if let Some(bar) = self.0.take() {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Columns of the terminal for the text of a line. There must be room for the `^C` that the terminal writes behind it: where
/// that begins another line, the bar stays on the screen for good.
pub(super) fn columns() -> usize {
    const ECHO: u16 = 3;
    console::Term::stderr().size().1.saturating_sub(ECHO).into()
}

/// Lines at the end of what stands on stderr.
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// A line has ended, and another may follow.
    has_ended: AtomicBool,
}

impl Lines {
    fn move_by(&self, rows: usize, letter: char) -> io::Result<()> {
        self.has_ended.store(false, Ordering::Relaxed);
        if rows > 0 { write!(io::stderr(), "\x1b[{rows}{letter}") } else { Ok(()) }
    }
}

impl TermLike for Lines {
    fn width(&self) -> u16 {
        u16::try_from(columns()).unwrap_or(u16::MAX)
    }

    fn move_cursor_up(&self, rows: usize) -> io::Result<()> {
        self.move_by(rows, 'A')
    }

    fn move_cursor_down(&self, rows: usize) -> io::Result<()> {
        self.move_by(rows, 'B')
    }

    fn move_cursor_right(&self, columns: usize) -> io::Result<()> {
        self.move_by(columns, 'C')
    }

    fn move_cursor_left(&self, columns: usize) -> io::Result<()> {
        self.move_by(columns, 'D')
    }

    fn write_line(&self, text: &str) -> io::Result<()> {
        writeln!(io::stderr(), "{text}")
    }

    /// indicatif fills each line with spaces, so that the next one begins by itself. Here the cursor stays behind the text.
    fn write_str(&self, text: &str) -> io::Result<()> {
        if text.chars().all(|c| c == ' ') {
            self.has_ended.store(true, Ordering::Relaxed);
            return Ok(());
        }
        let newline = if self.has_ended.swap(false, Ordering::Relaxed) { "\n" } else { "" };
        write!(io::stderr(), "{newline}{text}")
    }

    fn clear_line(&self) -> io::Result<()> {
        self.has_ended.store(false, Ordering::Relaxed);
        write!(io::stderr(), "\r\x1b[2K")
    }

    fn flush(&self) -> io::Result<()> {
        io::stderr().flush()
    }
}
