//! Bars of downloads on a terminal: one for the file at hand, and one for all when there are several.

use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

const FILE: &str = "{prefix:.cyan} {bar:20} {percent:>3}%  {decimal_bytes}/{decimal_total_bytes}  {msg}";
const ALL: &str = "all files {bar:20} {percent:>3}%  {decimal_bytes}/{decimal_total_bytes}";

/// Nothing is drawn where it is not wanted.
pub(crate) struct Downloads {
    bars: Option<MultiProgress>,
    file: Option<ProgressBar>,
    all: Option<ProgressBar>,
    /// A line of words while there is no file.
    words: Option<ProgressBar>,
    /// Bytes of the files before this one.
    before: u64,
    rate: Rate,
}

impl Downloads {
    /// Bars for `files` files of `total` bytes together.
    pub(super) fn new(files: usize, total: u64, wanted: bool) -> Self {
        let bars = wanted.then(|| MultiProgress::with_draw_target(ProgressDrawTarget::stderr_with_hz(10)));
        let all = bars.as_ref().filter(|_| files > 1).map(|bars| bars.add(bar(total, ALL)));
        Self { bars, file: None, all, words: None, before: 0, rate: Rate::default() }
    }

    /// The next file, of which `have` bytes are here already.
    pub(crate) fn begin(&mut self, name: &str, size: u64, have: u64) {
        let Some(bars) = &self.bars else { return };
        if let Some(words) = self.words.take() {
            words.finish_and_clear();
        }
        let file = bars.insert(0, bar(size, FILE));
        file.set_prefix(name.to_owned());
        self.rate = Rate::default();
        self.file = Some(file);
        self.set(have, 0);
    }

    /// `have` bytes of the file are here, of which `came` came in this run.
    pub(crate) fn set(&mut self, have: u64, came: u64) {
        let Some(file) = &self.file else { return };
        file.set_position(have);
        if let Some(per_second) = self.rate.update(came, file.elapsed()) {
            let left = file.length().unwrap_or(0).saturating_sub(have);
            file.set_message(Rate::text(per_second, left));
        }
        file.tick();
        if let Some(all) = &self.all {
            all.set_position(self.before + have);
            all.tick();
        }
    }

    /// Words in place of the rate, such as the seconds of a wait.
    pub(crate) fn say(&mut self, text: &str) {
        let Some(bars) = &self.bars else { return };
        let line = match &self.file {
            Some(file) => file,
            None => self.words.get_or_insert_with(|| bars.add(bar(1, "{msg}"))),
        };
        line.set_message(text.to_owned());
        line.tick();
    }

    /// The file is here.
    pub(crate) fn end(&mut self, size: u64) {
        self.before += size;
        if let (Some(file), Some(bars)) = (self.file.take(), &self.bars) {
            file.finish_and_clear();
            bars.remove(&file);
        }
        if let Some(all) = &self.all {
            all.set_position(self.before);
        }
    }

    /// Do something to the terminal while no bar is on it.
    pub(crate) fn aside(&self, work: impl FnOnce()) {
        match &self.bars {
            Some(bars) => bars.suspend(work),
            None => work(),
        }
    }

    pub(crate) fn clear(&mut self) {
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

fn bar(total: u64, template: &str) -> ProgressBar {
    let bar = ProgressBar::new(total);
    // The template is a constant; a plain bar is what is left if it were wrong.
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// The rate over the last few seconds.
#[derive(Default)]
struct Rate {
    /// Up to some thirty measurements: when, and how many bytes had come.
    past: std::collections::VecDeque<(Duration, u64)>,
}

impl Rate {
    const SPAN: Duration = Duration::from_secs(5);

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
        (span > 0.3).then_some(per_second)
    }

    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "shown with three digits"
    )]
    fn text(per_second: f64, left: u64) -> String {
        use crate::human::{Bytes, Seconds};
        let rate = Bytes(per_second as u64);
        if per_second < 1.0 {
            return "no bytes are coming".to_owned();
        }
        format!("{rate}/s  {} left", Seconds((left as f64 / per_second).round()))
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
        assert_eq!(Rate::text(2_000_000.0, 10_000_000), "2.0 MB/s  5.00 s left");
        assert_eq!(Rate::text(0.0, 1), "no bytes are coming");
    }
}
