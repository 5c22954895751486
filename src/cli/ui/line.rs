//! The line of a download, as wide as the terminal allows: `name  ██████░░░░  60%  1.2/2.0 GB  45.2 MB/s  0:18`.
//! What is least needed goes first where there is no room: the sizes, the bar, the time left, the rate.

use console::measure_text_width as columns_of;

use crate::human::Bytes;

/// A shorter bar says nothing, a longer one no more.
const BAR: std::ops::RangeInclusive<usize> = 10..=30;

/// Columns between two parts.
const GAP: usize = 2;

/// Fewer columns of a label do not tell it from others; with so many, a bar is worth more than the rest of it.
const SHORT_LABEL: usize = 14;
const LABEL: usize = 20;

pub(super) struct Line<'a> {
    pub(super) label: &'a str,
    pub(super) have: u64,
    pub(super) size: u64,
    pub(super) rest: Rest<'a>,
}

/// What stands at the end.
#[derive(Clone, Copy)]
pub(super) enum Rest<'a> {
    /// Bytes per second, once they are known.
    Rate(Option<f64>),
    Words(&'a str),
}

/// Columns of what begins and what follows: lines that stand together give it the same room.
#[derive(Clone, Copy, Default)]
pub(super) struct Widths {
    label: usize,
    sizes: usize,
}

impl Widths {
    /// Enough for this line as well.
    pub(super) fn and(self, line: &Line) -> Self {
        let sizes = columns_of(&sizes(line.have, line.size));
        Self { label: self.label.max(columns_of(line.label)), sizes: self.sizes.max(sizes) }
    }
}

impl Line<'_> {
    /// All of it, in so many columns at most.
    pub(super) fn text(&self, columns: usize, widths: Widths, is_coloured: bool) -> String {
        let share = share(self.have, self.size, 100);
        let percent = format!("{share:>3}%");
        let (bar, label, end) = self.layout(columns.saturating_sub(percent.len() + GAP), widths);
        let mut parts = vec![pad(&middle(self.label, label), label)];
        if bar > 0 {
            parts.push(self.bar(bar, is_coloured));
        }
        parts.push(percent);
        parts.extend(end);
        parts.retain(|part| !part.is_empty());
        parts.join(&" ".repeat(GAP)).trim_end().to_owned()
    }

    /// Columns of the bar and the label, and the parts behind the percentage. `room` is for all of these.
    fn layout(&self, room: usize, widths: Widths) -> (usize, usize, Vec<String>) {
        let label_columns = widths.label;
        if let Rest::Words(words) = self.rest {
            let left = room.saturating_sub(columns_of(words) + GAP);
            let label = label_columns.min(left.max(SHORT_LABEL)).min(room);
            let words = middle(words, room.saturating_sub(label + GAP));
            return (0, label, vec![words]);
        }
        let least = label_columns.min(SHORT_LABEL);
        let taken = |end: &[String]| end.iter().map(|part| GAP + columns_of(part)).sum::<usize>();
        let ends = self.ends(widths.sizes);
        let end = ends.into_iter().find(|end| taken(end) + least <= room).unwrap_or_default();
        let room = room.saturating_sub(taken(&end));
        let for_bar = room.saturating_sub(label_columns.min(LABEL) + GAP);
        if for_bar < *BAR.start() {
            return (0, label_columns.min(room), end);
        }
        let bar = room.saturating_sub(label_columns + GAP).clamp(*BAR.start(), *BAR.end());
        (bar, label_columns.min(room - bar - GAP), end)
    }

    /// What may stand behind the percentage, the best first.
    fn ends(&self, sizes_columns: usize) -> [Vec<String>; 4] {
        let Rest::Rate(per_second) = self.rest else { return Default::default() };
        let (rate, left) = match per_second {
            None => (String::new(), String::new()),
            Some(per_second) if per_second < 1.0 => ("0 B/s".to_owned(), "stalled".to_owned()),
            Some(per_second) => (rate(per_second), left(self.size.saturating_sub(self.have), per_second)),
        };
        // What changes takes the same room all the time.
        let (rate, left) = (format!("{rate:>10}"), format!("{left:<7}"));
        let sizes = format!("{:>sizes_columns$}", sizes(self.have, self.size));
        [vec![sizes, rate.clone(), left.clone()], vec![rate.clone(), left], vec![rate], Vec::new()]
    }

    fn bar(&self, columns: usize, is_coloured: bool) -> String {
        let done = usize::try_from(share(self.have, self.size, columns as u64)).unwrap_or(columns);
        let (full, rest) = ("█".repeat(done), "░".repeat(columns - done));
        if is_coloured { format!("\x1b[36m{full}\x1b[0m\x1b[2m{rest}\x1b[0m") } else { full + &rest }
    }
}

/// `have` of `size` in so many steps, rounded down.
fn share(have: u64, size: u64, steps: u64) -> u64 {
    let share = u128::from(have.min(size)) * u128::from(steps) / u128::from(size.max(1));
    u64::try_from(share).unwrap_or(steps)
}

/// `47.5/105.5 MB`, in the unit of the whole, always as wide as at the end.
fn sizes(have: u64, size: u64) -> String {
    let whole = Bytes(size).to_string();
    let (number, unit) = whole.split_once(' ').unwrap_or((&whole, ""));
    let power = ["B", "KB", "MB", "GB", "TB"].iter().position(|name| *name == unit).unwrap_or(0);
    #[expect(clippy::cast_precision_loss, reason = "shown with one digit behind the point")]
    let have = have as f64 / 1000_f64.powi(i32::try_from(power).unwrap_or(0));
    let digits = usize::from(power > 0);
    format!("{have:>width$.digits$}/{whole}", width = number.len())
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "shown with three digits")]
fn rate(per_second: f64) -> String {
    format!("{}/s", Bytes(per_second as u64))
}

/// `0:18`, `2:05`, `1:02:05`.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "whole seconds, and `as` saturates"
)]
fn left(bytes: u64, per_second: f64) -> String {
    let seconds = (bytes as f64 / per_second).round() as u64;
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, minutes, seconds) => format!("{minutes}:{seconds:02}"),
        (hours @ ..100, minutes, seconds) => format!("{hours}:{minutes:02}:{seconds:02}"),
        _ => String::new(),
    }
}

fn pad(text: &str, columns: usize) -> String {
    let mut text = text.to_owned();
    text.push_str(&" ".repeat(columns.saturating_sub(columns_of(&text))));
    text
}

/// Text in so many columns at most, its middle left out: what tells names apart is at both ends.
pub(super) fn middle(text: &str, columns: usize) -> String {
    if columns_of(text) <= columns {
        return text.to_owned();
    }
    let room = columns.saturating_sub(1);
    let end = room * 3 / 5;
    let mut short = taken(text.chars(), room - end);
    if columns > 0 {
        short.push('…');
    }
    let tail: String = taken(text.chars().rev(), end).chars().rev().collect();
    short.push_str(&tail);
    short
}

/// The first characters, as many as there is room for.
fn taken(chars: impl Iterator<Item = char>, columns: usize) -> String {
    let mut text = String::new();
    for c in chars {
        text.push(c);
        if columns_of(&text) > columns {
            text.pop();
            break;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "SmolLM2-135M-Instruct-Q4_K_M.gguf";

    fn line(columns: usize, label: &str, rest: Rest<'_>) -> String {
        let line = Line { label, have: 47_500_000, size: 105_454_432, rest };
        let text = line.text(columns, Widths::default().and(&line), false);
        assert!(columns_of(&text) <= columns, "{text}");
        text
    }

    #[test]
    fn a_line_gives_up_what_is_least_needed() {
        let rest = Rest::Rate(Some(12_345_678.0));
        for (columns, expected) in [
            (
                116,
                "SmolLM2-135M-Instruct-Q4_K_M.gguf  █████████████░░░░░░░░░░░░░░░░░   45%   47.5/105.5 MB   12.3 MB/s  0:05",
            ),
            (76, "SmolLM2-…-Q4_K_M.gguf  ████░░░░░░   45%   47.5/105.5 MB   12.3 MB/s  0:05"),
            (56, "SmolLM2-135M…ruct-Q4_K_M.gguf   45%   12.3 MB/s  0:05"),
            (36, "SmolLM2…4_K_M.gguf   45%   12.3 MB/s"),
            (26, "SmolLM2-…Q4_K_M.gguf   45%"),
            (16, "Smol….gguf   45%"),
            (4, " 45%"),
        ] {
            assert_eq!(line(columns, NAME, rest), expected);
        }
    }

    #[test]
    fn words_come_before_bar_and_sizes() {
        let words = Rest::Words("the CDN limits the requests of this address; again in 8 s");
        for (columns, expected) in [
            (
                96,
                "SmolLM2-135M…struct-Q4_K_M.gguf   45%  the CDN limits the requests of this address; again in 8 s",
            ),
            (76, "SmolLM…_M.gguf   45%  the CDN limits the req…s of this address; again in 8 s"),
            (36, "SmolLM…_M.gguf   45%  the CD… in 8 s"),
            (10, "Sm…f   45%"),
        ] {
            assert_eq!(line(columns, NAME, words), expected);
        }
    }

    #[test]
    fn nothing_moves_while_numbers_grow() {
        let at = |have: u64, per_second| {
            let line = Line { label: "m.gguf", have, size: 2_000_000_000, rest: Rest::Rate(per_second) };
            line.text(76, Widths::default().and(&line), false).find('%')
        };
        let first = at(0, None);
        for (have, per_second) in [(1, Some(0.0)), (999_999_999, Some(1e3)), (2_000_000_000, Some(123e6))] {
            assert_eq!(at(have, per_second), first);
        }
    }

    #[test]
    fn lines_that_stand_together_are_aligned() {
        let rest = Rest::Rate(Some(1e6));
        let one = Line { label: "m-00001-of-00003.gguf", have: 1 << 20, size: 6 << 20, rest };
        let all = Line { label: "file 1 of 3", have: 1 << 20, size: 18_000_000_000, rest };
        let widths = Widths::default().and(&one).and(&all);
        let bars = [one, all].map(|line| line.text(76, widths, false).chars().position(|c| c == '░'));
        assert!(bars[0].is_some() && bars[1].is_some());
        let ends = [6 << 20, 18_000_000_000].map(|size| {
            let line = Line { label: "m", have: size, size, rest };
            line.text(76, widths, false).chars().position(|c| c == '%')
        });
        assert_eq!(ends[0], ends[1]);
    }

    #[test]
    fn wide_characters_take_their_room() {
        for (text, columns, expected) in [
            ("模型文件名称很长.gguf", 12, "模型….gguf"),
            ("abc", 3, "abc"),
            ("abcd", 3, "a…d"),
            ("ab", 1, "…"),
            ("ab", 0, ""),
        ] {
            assert_eq!(middle(text, columns), expected);
        }
    }

    #[test]
    fn times_and_sizes() {
        for (seconds, expected) in
            [(0, "0:00"), (59, "0:59"), (125, "2:05"), (3725, "1:02:05"), (400_000, "")]
        {
            assert_eq!(left(seconds, 1.0), expected);
        }
        for (have, size, expected) in [
            (0, 900, "  0/900 B"),
            (1_000_000, 105_454_432, "  1.0/105.5 MB"),
            (105_454_432, 105_454_432, "105.5/105.5 MB"),
            (500_000_000, 999_960_000, "0.5/1.0 GB"),
        ] {
            assert_eq!(sizes(have, size), expected);
        }
    }

    #[test]
    fn colour_is_around_the_bar_alone() {
        let line = Line { label: "m", have: 1, size: 2, rest: Rest::Rate(None) };
        let [coloured, plain] = [true, false].map(|on| line.text(60, Widths::default(), on));
        assert!(coloured.contains("\x1b[36m") && !plain.contains('\x1b'));
        assert_eq!(columns_of(&coloured), columns_of(&plain));
    }
}
