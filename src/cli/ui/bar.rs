//! Progress on a terminal.

use std::io::{self, Write};
use std::thread;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle, TermLike};

/// A bar appears when the work has taken this long.
const DELAY: Duration = Duration::from_millis(250);

/// Columns of a bar. There must be room for the `^C` that the terminal writes behind it: where that begins another
/// line, the bar stays on the screen for good.
const WIDTH: u16 = 40;

/// Nothing is drawn where it is not wanted, nor in the first quarter of a second.
pub(crate) struct Bar(Option<ProgressBar>);

impl Bar {
    pub(super) fn new(label: &str, total: u64, wanted: bool) -> Self {
        if !wanted {
            return Self(None);
        }
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden());
        // The template is a constant; a plain bar is what is left if it were wrong.
        if let Ok(style) = ProgressStyle::with_template("{msg} {bar:20} {percent:>3}%") {
            bar.set_style(style);
        }
        bar.set_message(label.to_owned());
        let weak = bar.downgrade();
        // The first step can take seconds, and the delay ends in the middle of it. Without a thread there is no bar.
        let _ = thread::Builder::new().spawn(move || {
            thread::sleep(DELAY);
            if let Some(bar) = weak.upgrade() {
                bar.set_draw_target(ProgressDrawTarget::term_like_with_hz(Box::new(Line), 20));
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
