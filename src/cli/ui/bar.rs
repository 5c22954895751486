//! Progress on a terminal.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle, TermLike};

/// A bar appears when the work has taken this long.
const DELAY: Duration = Duration::from_millis(250);

/// Columns of a bar. There must be room for the `^C` that the terminal writes behind it: where that begins another
/// line, the bar stays on the screen for good.
const WIDTH: u16 = 40;

/// Nothing is drawn where it is not wanted, nor in the first quarter of a second.
pub(crate) struct Bar {
    shown: Option<ProgressBar>,
    wanted: bool,
    label: String,
    total: u64,
    started: Instant,
}

impl Bar {
    pub(super) fn new(label: &str, total: u64, wanted: bool) -> Self {
        Self { shown: None, wanted, label: label.to_owned(), total, started: Instant::now() }
    }

    pub(crate) fn set(&mut self, done: u64) {
        if self.shown.is_none() && self.wanted && self.started.elapsed() >= DELAY {
            let target = ProgressDrawTarget::term_like_with_hz(Box::new(Line), 20);
            let bar = ProgressBar::with_draw_target(Some(self.total), target);
            // The template is a constant; a plain bar is what is left if it were wrong.
            if let Ok(style) = ProgressStyle::with_template("{msg} {bar:20} {percent:>3}% {eta}") {
                bar.set_style(style);
            }
            bar.set_message(self.label.clone());
            self.shown = Some(bar);
        }
        if let Some(bar) = &self.shown {
            bar.set_position(done);
        }
    }

    pub(crate) fn clear(&mut self) {
        if let Some(bar) = self.shown.take() {
            bar.finish_and_clear();
        }
        self.wanted = false;
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.clear();
    }
}

/// The beginning of a line on stderr.
#[derive(Debug)]
struct Line;

impl TermLike for Line {
    fn width(&self) -> u16 {
        WIDTH
    }

    fn move_cursor_up(&self, n: usize) -> io::Result<()> {
        if n > 0 { write!(io::stderr(), "\x1b[{n}A") } else { Ok(()) }
    }

    fn move_cursor_down(&self, n: usize) -> io::Result<()> {
        if n > 0 { write!(io::stderr(), "\x1b[{n}B") } else { Ok(()) }
    }

    fn move_cursor_right(&self, n: usize) -> io::Result<()> {
        if n > 0 { write!(io::stderr(), "\x1b[{n}C") } else { Ok(()) }
    }

    fn move_cursor_left(&self, n: usize) -> io::Result<()> {
        if n > 0 { write!(io::stderr(), "\x1b[{n}D") } else { Ok(()) }
    }

    fn write_line(&self, text: &str) -> io::Result<()> {
        writeln!(io::stderr(), "{text}")
    }

    fn write_str(&self, text: &str) -> io::Result<()> {
        io::stderr().write_all(text.as_bytes())
    }

    fn clear_line(&self) -> io::Result<()> {
        self.write_str("\r\x1b[2K")
    }

    fn flush(&self) -> io::Result<()> {
        io::stderr().flush()
    }
}
