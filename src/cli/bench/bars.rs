//! Tokens per second as bars in a terminal, with a shade up to the roofline.

use super::names::Names;
use super::row::{Kind, Planned, Row};
use crate::human::Rate;

/// Columns: the most that a bar takes, and the fewest that show something.
const LONGEST: usize = 48;
const SHORTEST: usize = 10;

/// The characters that bars are made of.
pub(crate) struct Blocks {
    full: char,
    /// Parts of a column, of which there is room for one more at the end.
    parts: &'static [char],
    shade: char,
}

impl Blocks {
    pub(crate) const UNICODE: Self =
        Self { full: '█', parts: &['▏', '▎', '▍', '▌', '▋', '▊', '▉'], shade: '░' };
    pub(crate) const ASCII: Self = Self { full: '#', parts: &[], shade: '.' };
}

/// A line for each row. Prompts, tokens and answers have a scale each, as one is so much faster than the other. Nothing
/// where there is no room.
pub(crate) fn bars(rows: &[Row], width: usize, blocks: &Blocks) -> String {
    let plan: Vec<Planned> = rows.iter().map(Planned::from).collect();
    let Some(lines) = lines(rows, &plan, width, blocks) else { return String::new() };
    lines.into_iter().map(|line| line + "\n").collect()
}

fn lines(rows: &[Row], plan: &[Planned], width: usize, blocks: &Blocks) -> Option<Vec<String>> {
    let first = plan.first()?;
    let names = Names::new(plan);
    let is_one = plan.iter().all(|row| row.model == first.model && row.settings == first.settings);
    let tests = aligned(rows.iter().map(|row| row.test.to_string()));
    let labels = if is_one {
        tests
    } else {
        let names = aligned(rows.iter().map(|row| names.line(row)));
        names.iter().zip(tests).map(|(name, test)| format!("{name}  {test}")).collect()
    };
    let label_width = labels.first()?.chars().count();
    let room = width.checked_sub(label_width + 2 + 8 + 1).filter(|room| *room >= SHORTEST)?.min(LONGEST);
    let tops = [Kind::Prefill, Kind::Decode, Kind::Answer].map(|kind| (kind, top(rows, kind)));
    let line = |(row, label): (&Row, &String)| {
        let top = tops.iter().find(|(kind, _)| *kind == row.test.kind).map_or(0.0, |(_, top)| *top);
        let speed = row.median().unwrap_or(0.0);
        let bar =
            blocks.bar(speed / top, row.roofline.map(|roofline| roofline.tokens_per_second / top), room);
        format!("{label}  {:>8} {bar}", Rate(speed)).trim_end().to_owned()
    };
    Some(rows.iter().zip(&labels).map(line).collect())
}

/// Words of the same width.
fn aligned(words: impl Iterator<Item = String>) -> Vec<String> {
    let words: Vec<String> = words.collect();
    let widest = words.iter().map(|word| word.chars().count()).max().unwrap_or(0);
    words.into_iter().map(|word| format!("{word:<widest$}")).collect()
}

/// The fastest of a kind, or its roofline.
fn top(rows: &[Row], kind: Kind) -> f64 {
    let of_kind = rows.iter().filter(|row| row.test.kind == kind);
    let speeds =
        of_kind.flat_map(|row| [row.median(), row.roofline.map(|roofline| roofline.tokens_per_second)]);
    speeds.flatten().filter(|speed| speed.is_finite()).fold(0.0, f64::max)
}

impl Blocks {
    /// A bar for a share of the room, and a shade from there to another share.
    fn bar(&self, share: f64, limit: Option<f64>, room: usize) -> String {
        let steps = self.parts.len() + 1;
        let (full, part) = {
            let all = scaled(share, room * steps);
            (all / steps, all % steps)
        };
        let mut bar = self.full.to_string().repeat(full);
        bar.extend(part.checked_sub(1).and_then(|part| self.parts.get(part)));
        let beyond = scaled(limit.unwrap_or(0.0), room).saturating_sub(bar.chars().count());
        bar + &self.shade.to_string().repeat(beyond)
    }
}

/// So much of a number; nothing of what is no share.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "between 0 and some hundreds, and `as` makes 0 of what is no number"
)]
fn scaled(share: f64, of: usize) -> usize {
    (share.clamp(0.0, 1.0) * of as f64).round() as usize
}

#[cfg(test)]
mod tests {
    use super::super::row::Test;
    use super::super::row::example::{full, row};
    use super::*;
    use crate::model::roofline::{Bound, Limit};

    fn measured(kind: Kind, tokens: u32, depth: u32, millis: u64, limit: Option<f64>) -> Row {
        let (prompt, generated) = if kind == Kind::Prefill { (tokens, 0) } else { (0, tokens) };
        Row {
            test: Test { kind, prompt, generated, depth },
            roofline: limit.map(|limit| Limit { tokens_per_second: limit, bound: Bound::Bandwidth }),
            ..row(&[millis])
        }
    }

    fn rows() -> Vec<Row> {
        vec![
            measured(Kind::Prefill, 512, 0, 1000, Some(1024.0)),
            measured(Kind::Decode, 128, 0, 2000, Some(80.0)),
            measured(Kind::Decode, 128, 2048, 4100, None),
            Row { roofline: None, ..full() },
        ]
    }

    #[test]
    fn each_kind_has_a_scale_of_its_own() {
        assert_eq!(
            bars(&rows(), 46, &Blocks::UNICODE),
            "\
pp512               512.0 ██████████░░░░░░░░░░
tg128                64.0 ████████████████░░░░
tg128 @ d2048        31.2 ███████▊
pp60+tg40 @ d16     100.0 ████████████████████
"
        );
        assert_eq!(
            bars(&rows(), 46, &Blocks::ASCII),
            "\
pp512               512.0 ##########..........
tg128                64.0 ################....
tg128 @ d2048        31.2 ########
pp60+tg40 @ d16     100.0 ####################
"
        );
    }

    #[test]
    fn several_choices_are_named_and_a_narrow_terminal_shows_nothing() {
        let mut rows = rows();
        rows.truncate(2);
        rows[1].settings.threads = 4;
        rows[1].samples.clear();
        assert_eq!(
            bars(&rows, 80, &Blocks::UNICODE),
            "\
threads 2, prompt threads 2  pp512     512.0 █████████████████▌░░░░░░░░░░░░░░░░░
threads 4, prompt threads 2  tg128       0.0 ░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░
"
        );
        assert_eq!(bars(&rows, 20, &Blocks::UNICODE), "");
        assert_eq!(bars(&[], 80, &Blocks::UNICODE), "");
    }

    #[test]
    fn a_bar_ends_within_its_room_whatever_the_number() {
        for (share, limit, bar) in [
            (1.0, None, "████"),
            (0.5, Some(1.0), "██░░"),
            (0.53, Some(0.5), "██▏"),
            (0.97, Some(1.0), "███▉"),
            (7.0, Some(f64::INFINITY), "████"),
            (f64::NAN, Some(f64::NAN), ""),
            (-1.0, None, ""),
        ] {
            assert_eq!(Blocks::UNICODE.bar(share, limit, 4), bar, "{share}");
        }
        assert_eq!(Blocks::ASCII.bar(0.5, Some(1.0), 4), "##..");
    }
}
