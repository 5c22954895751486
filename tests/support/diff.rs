//! A line diff that shows what cannot be seen: control characters, a missing newline at the end.

/// Expected lines with `-`, actual lines with `+`, common ones with a space.
pub(crate) fn lines(expected: &str, actual: &str) -> String {
    let old: Vec<&str> = expected.split_inclusive('\n').collect();
    let new: Vec<&str> = actual.split_inclusive('\n').collect();
    let mut report = Vec::new();
    let (mut i, mut j) = (0, 0);
    for (a, b) in common(&old, &new) {
        report.extend(old[i..a].iter().map(|line| show('-', line)));
        report.extend(new[j..b].iter().map(|line| show('+', line)));
        report.push(show(' ', old[a]));
        (i, j) = (a + 1, b + 1);
    }
    report.extend(old[i..].iter().map(|line| show('-', line)));
    report.extend(new[j..].iter().map(|line| show('+', line)));
    report.join("\n")
}

/// A longest common subsequence, as pairs of places. Texts of tests are short, so the quadratic table is fine.
fn common(old: &[&str], new: &[&str]) -> Vec<(usize, usize)> {
    let mut longest = vec![vec![0_usize; new.len() + 1]; old.len() + 1];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            longest[i][j] = if old[i] == new[j] {
                longest[i + 1][j + 1] + 1
            } else {
                longest[i + 1][j].max(longest[i][j + 1])
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    let mut pairs = Vec::new();
    while i < old.len() && j < new.len() {
        if old[i] == new[j] {
            pairs.push((i, j));
            (i, j) = (i + 1, j + 1);
        } else if longest[i + 1][j] >= longest[i][j + 1] {
            i += 1;
        } else {
            j += 1;
        }
    }
    pairs
}

fn show(mark: char, line: &str) -> String {
    let (text, end) = match line.strip_suffix('\n') {
        Some(text) => (text, ""),
        None => (line, "  (no newline at the end)"),
    };
    let visible: String = text
        .chars()
        .map(|c| if c.is_control() { c.escape_default().to_string() } else { c.to_string() })
        .collect();
    format!("{mark}{visible}{end}")
}

#[test]
fn diff_shows_each_kind_of_line() {
    assert_eq!(lines("a\nb\nc\n", "a\nB\nc\nd"), " a\n-b\n+B\n c\n+d  (no newline at the end)");
    assert_eq!(lines("", "\u{1b}[1m\n"), "+\\u{1b}[1m");
    assert_eq!(lines("x\ny\nz\n", "z\n"), "-x\n-y\n z");
}
