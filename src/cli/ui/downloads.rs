//! Bars of downloads on a terminal: one for the file at hand, and one for all when there are several.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::bar::{Bar, Lines, columns};
use super::line::{Line, Rest, Widths};

/// Words are news for so long; then the rate is shown again.
const NEWS: Duration = Duration::from_millis(1500);

/// Nothing is drawn where it is not wanted.
pub(crate) struct Downloads {
    bars: Option<MultiProgress>,
    is_coloured: bool,
    file: Option<File>,
    /// The line for all files, and their number.
    all: Option<(ProgressBar, usize)>,
    total: u64,
    /// Bytes of the files before this one, and how many those are.
    before: u64,
    ended: usize,
    /// A line of words while there is no file.
    words: Option<ProgressBar>,
    /// Says that somebody is being asked.
    asking: Option<Bar>,
}

/// The file at hand.
struct File {
    line: ProgressBar,
    name: String,
    size: u64,
    have: u64,
    began: Instant,
    rate: Rate,
    per_second: Option<f64>,
    /// Words in place of the rate, and since when.
    said: Option<(String, Instant)>,
}

impl Downloads {
    /// Bars for `files` files of `total` bytes together. Without files the hub is being asked for them.
    pub(super) fn new(files: usize, total: u64, wanted: bool, is_coloured: bool) -> Self {
        let target = || ProgressDrawTarget::term_like_with_hz(Box::new(Lines::default()), 10);
        let bars = wanted.then(|| MultiProgress::with_draw_target(target()));
        let all = bars.as_ref().filter(|_| files > 1).map(|bars| (bars.add(empty()), files));
        let asking = (files == 0).then(|| Bar::words("asking the hub", wanted));
        Self { bars, is_coloured, file: None, all, total, before: 0, ended: 0, words: None, asking }
    }

    /// The next file, of which `have` bytes are here already.
    pub(crate) fn begin(&mut self, name: &str, size: u64, have: u64) {
        self.stop_words();
        let Some(bars) = &self.bars else { return };
        self.file = Some(File {
            line: bars.insert(0, empty()),
            name: name.to_owned(),
            size,
            have,
            began: Instant::now(),
            rate: Rate::default(),
            per_second: None,
            said: None,
        });
        self.set(have, 0);
    }

    /// `have` bytes of the file are here, of which `came` came in this run.
    pub(crate) fn set(&mut self, have: u64, came: u64) {
        let Some(file) = &mut self.file else { return };
        file.have = have;
        file.per_second = file.rate.update(came, file.began.elapsed());
        file.said = file.said.take().filter(|(_, since)| since.elapsed() < NEWS);
        self.draw();
    }

    /// Words in place of the rate, such as the seconds of a wait.
    pub(crate) fn say(&mut self, text: &str) {
        if let Some(file) = &mut self.file {
            file.said = Some((text.to_owned(), Instant::now()));
            self.draw();
        } else if let Some(bars) = &self.bars {
            self.asking = None;
            let words = self.words.get_or_insert_with(|| bars.add(empty()));
            words.set_message(super::line::middle(text, columns()));
        }
    }

    /// The file is here.
    pub(crate) fn end(&mut self, size: u64) {
        self.stop_words();
        self.before += size;
        self.ended += 1;
        if let (Some(file), Some(bars)) = (self.file.take(), &self.bars) {
            file.line.finish_and_clear();
            bars.remove(&file.line);
        }
    }

    /// Do something to the terminal while no bar is on it.
    pub(crate) fn aside(&mut self, work: impl FnOnce()) {
        self.asking = None;
        match &self.bars {
            Some(bars) => bars.suspend(work),
            None => work(),
        }
    }

    fn draw(&self) {
        let Some(file) = &self.file else { return };
        let rest = match &file.said {
            Some((words, _)) => Rest::Words(words),
            None => Rest::Rate(file.per_second),
        };
        let one = Line { label: &file.name, have: file.have, size: file.size, rest };
        let number = self.all.as_ref().map(|(_, files)| format!("file {} of {files}", self.ended + 1));
        let rest = Rest::Rate(file.per_second);
        let all = number.as_ref().map(|label| Line {
            label,
            have: self.before + file.have,
            size: self.total,
            rest,
        });
        let room = columns();
        let widths = Widths::default().and(&one);
        let widths = all.as_ref().map_or(widths, |all| widths.and(all));
        file.line.set_message(one.text(room, widths, self.is_coloured));
        if let (Some((line, _)), Some(all)) = (&self.all, all) {
            line.set_message(all.text(room, widths, self.is_coloured));
        }
    }

    fn stop_words(&mut self) {
        self.asking = None;
        if let (Some(words), Some(bars)) = (self.words.take(), &self.bars) {
            words.finish_and_clear();
            bars.remove(&words);
        }
    }

    pub(crate) fn clear(&mut self) {
        self.asking = None;
        if let Some(bars) = self.bars.take() {
            // What cannot be cleared stays.
            let _ = bars.clear();
        }
        (self.file, self.all, self.words) = (None, None, None);
    }
}

impl Drop for Downloads {
    fn drop(&mut self) {
        self.clear();
    }
}

/// A line without a text yet.
fn empty() -> ProgressBar {
    let bar = ProgressBar::new(1);
    // The template is a constant; a plain bar is what is left if it were wrong.
    match ProgressStyle::with_template("{msg}") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// The rate over the last few seconds.
#[derive(Default)]
struct Rate {
    /// Up to some thirty measurements: when, and how many bytes had come.
    past: VecDeque<(Duration, u64)>,
}

impl Rate {
    const SPAN: Duration = Duration::from_secs(5);
    /// Nothing in so many seconds is not a slow beginning any more.
    const STALLED: f64 = 3.0;

    /// Bytes per second, once there is something to tell it from.
    fn update(&mut self, came: u64, now: Duration) -> Option<f64> {
        if self.past.back().is_none_or(|(last, _)| now.saturating_sub(*last) >= Duration::from_millis(150)) {
            self.past.push_back((now, came));
        }
        while self.past.len() > 2
            && self.past.front().is_some_and(|(then, _)| now.saturating_sub(*then) > Self::SPAN)
        {
            self.past.pop_front();
        }
        let (then, had) = *self.past.front()?;
        let span = now.saturating_sub(then).as_secs_f64();
        #[expect(clippy::cast_precision_loss, reason = "a rate is shown with three digits")]
        let per_second = came.saturating_sub(had) as f64 / span;
        (span > if came > had { 0.3 } else { Self::STALLED }).then_some(per_second)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_of_the_last_seconds() {
        let mut rate = Rate::default();
        let at = |tenths: u64| Duration::from_millis(tenths * 100);
        assert_eq!(rate.update(0, at(0)), None);
        assert_eq!(rate.update(500, at(5)), Some(1000.0));
        for tenths in 6..=100 {
            rate.update(500 + (tenths - 5) * 200, at(tenths));
        }
        let last = rate.update(19_700, at(101)).unwrap();
        assert!((last - 2000.0).abs() < 50.0, "{last}");
        let mut rate = Rate::default();
        let silent = [0, 10, 29, 31].map(|tenths| rate.update(0, at(tenths)));
        assert_eq!(silent, [None, None, None, Some(0.0)]);
    }
}
