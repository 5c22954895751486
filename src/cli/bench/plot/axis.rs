//! An axis, and where it has its ticks.

use std::ops::Range;

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use plotters::coord::types::RangedCoordf64;

use crate::human::Thousands;

/// From one number to another, with ticks at given places.
pub(super) struct Axis {
    scale: RangedCoordf64,
    ticks: Vec<f64>,
}

impl Axis {
    pub(super) fn new((first, last): (f64, f64), ticks: Vec<f64>) -> Self {
        Self { scale: (first..last).into(), ticks }
    }
}

impl Ranged for Axis {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        self.scale.map(value, limit)
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() { Vec::new() } else { self.ticks.clone() }
    }

    fn range(&self) -> Range<f64> {
        self.scale.range()
    }
}

/// Ticks from 0 up to a round number that is not below `top`, about five of them.
pub(super) fn round_ticks(top: f64) -> Vec<f64> {
    let top = if top.is_finite() && top > 0.0 { top } else { 1.0 };
    let rough = top / 5.0;
    let size = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0].map(|n| n * size).into_iter().find(|step| *step >= rough * 0.999);
    let step = step.unwrap_or(rough);
    let mut ticks = vec![0.0];
    while ticks.last().is_some_and(|last| *last < top * 0.999) {
        ticks.push(step * f64::from(u32::try_from(ticks.len()).unwrap_or(u32::MAX)));
    }
    ticks
}

/// Those of the depths whose labels do not touch each other, the first and the last always. `scale` is pixels for a token.
pub(super) fn apart(depths: &[f64], scale: f64, gap: f64) -> Vec<f64> {
    let (Some(&first), Some(&last)) = (depths.first(), depths.last()) else { return Vec::new() };
    let half = |depth: f64| width(&tokens(depth)) / 2.0;
    let touch = |a: f64, b: f64| (b - a) * scale < half(a) + half(b) + gap;
    let mut kept = vec![first];
    for &depth in &depths[1..] {
        let previous = kept.last().copied().unwrap_or(first);
        let is_last = depth.total_cmp(&last).is_eq();
        if is_last || (!touch(previous, depth) && !touch(depth, last)) {
            kept.push(depth);
        }
    }
    kept
}

/// A whole number with commas.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "depths come from u32")]
pub(super) fn tokens(depth: f64) -> String {
    Thousands(depth.round() as u64).to_string()
}

/// A speed with as many digits as can be read: `1,840`, `64.2`, `0.25`.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rounded, and `as` saturates")]
pub(super) fn speed(value: f64) -> String {
    match value {
        99.95.. => Thousands(value.round() as u64).to_string(),
        9.995.. => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// A tick has only the digits that it needs.
pub(super) fn tick(value: f64) -> String {
    let text = speed(value);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// Pixels of a letter, of which most are narrower.
const LETTER: f64 = 7.0;

/// About how wide a text is in pixels. An SVG does not know either before it is shown.
#[expect(clippy::cast_precision_loss, reason = "a line of text")]
pub(super) fn width(text: &str) -> f64 {
    text.chars().count() as f64 * LETTER
}

/// As much of a text as there is room for.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "pixels of a picture")]
pub(super) fn cut(text: &str, room: f64) -> String {
    if width(text) <= room {
        return text.to_owned();
    }
    let letters = (room / LETTER) as usize;
    format!("{}…", text.chars().take(letters.saturating_sub(1)).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_reach_over_the_top() {
        for (top, ticks) in [
            (1.0, &[0.0, 0.2, 0.4, 0.6, 0.8, 1.0][..]),
            (64.2, &[0.0, 20.0, 40.0, 60.0, 80.0]),
            (512.0, &[0.0, 200.0, 400.0, 600.0]),
            (1040.0, &[0.0, 250.0, 500.0, 750.0, 1000.0, 1250.0]),
            (0.0, &[0.0, 0.2, 0.4, 0.6, 0.8, 1.0]),
            (f64::NAN, &[0.0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        ] {
            let found: Vec<String> = round_ticks(top).into_iter().map(tick).collect();
            assert_eq!(found, ticks.iter().map(|t| tick(*t)).collect::<Vec<_>>(), "{top}");
        }
    }

    #[test]
    fn labels_that_would_touch_are_left_out() {
        let depths = [0.0, 512.0, 1024.0, 2048.0, 8192.0, 32768.0];
        assert_eq!(apart(&depths, 400.0 / 32768.0, 8.0), [0.0, 8192.0, 32768.0]);
        assert_eq!(apart(&depths, 4000.0 / 32768.0, 8.0), depths);
        assert_eq!(apart(&depths, 0.0, 8.0), [0.0, 32768.0]);
        assert_eq!((apart(&[512.0], 1.0, 8.0), apart(&[], 1.0, 8.0)), (vec![512.0], vec![]));
    }

    #[test]
    fn numbers_have_the_digits_that_can_be_read() {
        for (value, as_speed, as_tick) in [
            (1840.4, "1,840", "1,840"),
            (64.24, "64.2", "64.2"),
            (60.0, "60.0", "60"),
            (0.25, "0.25", "0.25"),
            (0.0, "0.00", "0"),
        ] {
            assert_eq!((speed(value).as_str(), tick(value).as_str()), (as_speed, as_tick));
        }
    }
}
