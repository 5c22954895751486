//! Numbers and foreign text as people read them: sizes, counts, durations, rates. Every type here is a `Display`.

use std::fmt::{Display, Formatter, Result, Write};

/// A size in bytes, with decimal units: `98.4 MB`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bytes(pub(crate) u64);

/// A number of things: `1 model`, `2 models`, `1,840 entries`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Count<'a>(pub(crate) u64, pub(crate) &'a str);

/// A number of parameters: `134.5M`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Params(pub(crate) u64);

/// A whole number in groups of three digits: `1,840`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Thousands(pub(crate) u64);

/// A duration in seconds: `0.49 s`, `12.3 s`, `2 min 05 s`, `1 h 02 min`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seconds(pub(crate) f64);

/// Something per second, mostly tokens: `64.2`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rate(pub(crate) f64);

/// Text from a stranger on one line: whatever could move a cursor or reorder a line is written as an escape.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Escaped<'a>(pub(crate) &'a str);

impl Display for Bytes {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        if self.0 < 1000 {
            return f.pad(&format!("{} B", self.0));
        }
        f.pad(&scaled(self.0, &[" KB", " MB", " GB", " TB", " PB", " EB"]))
    }
}

impl Display for Params {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        if self.0 < 1000 {
            return f.pad(&self.0.to_string());
        }
        f.pad(&scaled(self.0, &["K", "M", "B", "T", "P", "E"]))
    }
}

/// `n` of at least 1000, with one decimal, in the first unit that needs no more than three digits before it.
fn scaled(n: u64, units: &[&str]) -> String {
    let mut size: u128 = 1;
    let mut text = String::new();
    for unit in units {
        size *= 1000;
        let tenths = (u128::from(n) * 10 + size / 2) / size;
        text = format!("{}.{}{unit}", tenths / 10, tenths % 10);
        if tenths < 10_000 {
            break;
        }
    }
    text
}

impl Display for Count<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let Self(n, noun) = *self;
        let text = match noun.strip_suffix('y') {
            _ if n == 1 => format!("1 {noun}"),
            Some(stem) if !stem.ends_with(['a', 'e', 'i', 'o', 'u']) => format!("{} {stem}ies", Thousands(n)),
            _ => format!("{} {noun}s", Thousands(n)),
        };
        f.pad(&text)
    }
}

impl Display for Thousands {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let digits = self.0.to_string();
        let mut text = String::new();
        for (i, digit) in digits.chars().enumerate() {
            if i > 0 && (digits.len() - i).is_multiple_of(3) {
                text.push(',');
            }
            text.push(digit);
        }
        f.pad(&text)
    }
}

impl Display for Seconds {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "rounded, not negative, and `as` saturates"
    )]
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let seconds = if self.0.is_finite() { self.0.max(0.0) } else { return f.pad("-") };
        let whole = seconds.round() as u64;
        // Compared after rounding, so that 9.996 becomes `10.0 s` and 59.96 becomes `1 min 00 s`.
        let text = if (seconds * 100.0).round() < 1000.0 {
            format!("{seconds:.2} s")
        } else if (seconds * 10.0).round() < 600.0 {
            format!("{seconds:.1} s")
        } else if whole < 3600 {
            format!("{} min {:02} s", whole / 60, whole % 60)
        } else {
            format!("{} h {:02} min", whole / 3600, whole % 3600 / 60)
        };
        f.pad(&text)
    }
}

impl Display for Rate {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        if self.0.is_finite() { f.pad(&format!("{:.1}", self.0)) } else { f.pad("-") }
    }
}

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        for c in self.0.chars() {
            match c {
                '\n' => f.write_str("\\n")?,
                '\r' => f.write_str("\\r")?,
                '\t' => f.write_str("\\t")?,
                c if is_harmful(c) => write!(f, "\\u{{{:x}}}", u32::from(c))?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

/// Control characters, line separators, byte order marks and the marks that reorder or hide text on a terminal.
pub(crate) fn is_harmful(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200b}' | '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn table<T: Copy, D: Display>(make: impl Fn(T) -> D, rows: &[(T, &str)]) {
        for (value, text) in rows {
            assert_eq!(make(*value).to_string(), *text);
        }
    }

    #[test]
    fn bytes() {
        table(
            Bytes,
            &[
                (0, "0 B"),
                (999, "999 B"),
                (1000, "1.0 KB"),
                (999_949, "999.9 KB"),
                (999_950, "1.0 MB"),
                (98_362_432, "98.4 MB"),
                (4_831_838_208, "4.8 GB"),
                (u64::MAX, "18.4 EB"),
            ],
        );
    }

    #[test]
    fn params() {
        table(
            Params,
            &[
                (0, "0"),
                (512, "512"),
                (2_566_272, "2.6M"),
                (134_515_008, "134.5M"),
                (999_999_999, "1.0B"),
                (70_553_706_496, "70.6B"),
            ],
        );
    }

    #[test]
    fn counts() {
        for (n, noun, text) in [
            (0, "model", "0 models"),
            (1, "model", "1 model"),
            (2, "model", "2 models"),
            (1840, "token", "1,840 tokens"),
            (1, "entry", "1 entry"),
            (3, "entry", "3 entries"),
            (2, "day", "2 days"),
        ] {
            assert_eq!(Count(n, noun).to_string(), text);
        }
    }

    #[test]
    fn thousands() {
        table(
            Thousands,
            &[
                (0, "0"),
                (999, "999"),
                (1000, "1,000"),
                (1840, "1,840"),
                (1_234_567, "1,234,567"),
                (u64::MAX, "18,446,744,073,709,551,615"),
            ],
        );
    }

    #[test]
    fn seconds() {
        table(
            Seconds,
            &[
                (0.0, "0.00 s"),
                (-1.0, "0.00 s"),
                (0.494, "0.49 s"),
                (9.994, "9.99 s"),
                (9.996, "10.0 s"),
                (12.34, "12.3 s"),
                (59.94, "59.9 s"),
                (59.96, "1 min 00 s"),
                (125.4, "2 min 05 s"),
                (3599.6, "1 h 00 min"),
                (3725.0, "1 h 02 min"),
                (f64::NAN, "-"),
                (f64::INFINITY, "-"),
            ],
        );
    }

    #[test]
    fn rates() {
        table(Rate, &[(64.249, "64.2"), (0.0, "0.0"), (1840.06, "1840.1"), (f64::INFINITY, "-")]);
    }

    #[test]
    fn pads_to_a_width() {
        assert_eq!(format!("{:>8}|{:<8}|", Bytes(1000), Params(1000)), "  1.0 KB|1.0K    |");
    }

    #[test]
    fn escapes_what_a_terminal_would_obey() {
        table(
            Escaped,
            &[
                ("plain, é 你 🦊", "plain, é 你 🦊"),
                ("a\nb\tc\r", "a\\nb\\tc\\r"),
                ("\x1b[31mred", "\\u{1b}[31mred"),
                ("\u{202e}evil\u{0}\u{9b}", "\\u{202e}evil\\u{0}\\u{9b}"),
            ],
        );
    }
}
