//! Rows for people: a table that grows row by row. Its columns are known before the first row comes, from what is planned.

use std::fmt::Write;
use std::time::Duration;

use super::names::short;
use super::row::{About, Kind, NOISY, Planned, Row};
use super::settings;
use crate::human::{Bytes, Escaped, Params, Rate, Seconds};

/// Characters between two columns.
const GAP: &str = "  ";

const MODEL: &str = "model";

/// The longest name of a model.
const LONGEST: usize = 26;
/// The shortest that it is cut to on a narrow terminal.
const SHORTEST: usize = 12;

/// What the rows will say besides their rates.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Extras {
    pub(crate) roofline: bool,
    /// A ratio to an earlier run.
    pub(crate) baseline: bool,
}

/// A table in the making.
pub(crate) struct Table {
    columns: Vec<Column>,
    /// Titles that had no room.
    left_out: Vec<&'static str>,
    /// One model is described above the table, several each in its rows.
    one_model: bool,
    constant: Vec<String>,
    has_begun: bool,
    noisy: bool,
    models: Vec<Told>,
}

/// What is told of a model below the table.
struct Told {
    name: String,
    cold: Option<Duration>,
    warm: Option<Duration>,
    steady: Option<u64>,
    peak: Option<u64>,
    vram: Option<u64>,
}

struct Column {
    title: &'static str,
    width: usize,
    align: Align,
    text: Text,
}

/// What stands in a column, from a row and its ratio to an earlier run.
type Text = Box<dyn Fn(&Row, Option<f64>) -> String>;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Align {
    Left,
    Right,
}

impl Table {
    /// A table of so many characters; a pipe has no width.
    pub(crate) fn new(plan: &[Planned], extras: Extras, width: Option<usize>) -> Self {
        let one_model = plan.iter().all(|row| Some(&row.model) == plan.first().map(|row| &row.model));
        let mut table = Self {
            columns: columns(plan, extras, one_model),
            left_out: Vec::new(),
            one_model,
            constant: settings::constant(plan),
            has_begun: false,
            noisy: false,
            models: Vec::new(),
        };
        if let Some(width) = width {
            table.fit(width, plan);
        }
        table
    }

    /// Leave out what can be missed most easily and cut names, until the rest has room.
    fn fit(&mut self, width: usize, plan: &[Planned]) {
        let too_wide = |columns: &[Column]| {
            let needed: usize = columns.iter().map(|column| column.width + GAP.len()).sum();
            needed.saturating_sub(GAP.len()).saturating_sub(width)
        };
        for title in ["TTFT again", "in all", "TPOT p95", "params", "size"] {
            let at = self.columns.iter().position(|column| column.title == title);
            if let Some(at) = at.filter(|_| too_wide(&self.columns) > 0) {
                self.columns.remove(at);
                self.left_out.push(title);
            }
        }
        let excess = too_wide(&self.columns);
        if let Some(models) = self.columns.first_mut().filter(|column| column.title == MODEL && excess > 0) {
            *models = model_column(plan, models.width.saturating_sub(excess).max(SHORTEST));
        }
    }

    /// One more row, and before the first what is the same in all; `ratio` compares it with an earlier run.
    pub(crate) fn row(&mut self, row: &Row, ratio: Option<f64>) -> String {
        let heading = if self.has_begun { String::new() } else { self.heading(row) };
        self.has_begun = true;
        self.noisy |= row.is_noisy();
        self.remember(row);
        heading + &line(self.columns.iter().map(|column| (column, (column.text)(row, ratio))))
    }

    fn heading(&self, row: &Row) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let mut tell = |line: &str| {
            let _ = writeln!(text, "{}", Escaped(line));
        };
        if self.one_model {
            let About { name, kind, bytes, params, .. } = &row.model;
            tell(&format!("{name}: {kind}, {}, {} parameters", Bytes(*bytes), Params(*params)));
        }
        let info = if row.run.gpu_info.is_empty() { &row.run.cpu_info } else { &row.run.gpu_info };
        tell(&format!("{}: {info}", row.run.backends));
        tell(&self.constant.join(", "));
        let titles = line(self.columns.iter().map(|column| (column, column.title.to_owned())));
        format!("{text}\n{titles}")
    }

    fn remember(&mut self, row: &Row) {
        let name = &row.model.name;
        let at = self.models.iter().position(|told| told.name == *name).unwrap_or_else(|| {
            self.models.push(Told {
                name: name.clone(),
                cold: None,
                warm: None,
                steady: None,
                peak: None,
                vram: None,
            });
            self.models.len() - 1
        });
        let told = &mut self.models[at];
        told.cold = told.cold.or(row.load.cold);
        told.warm = told.warm.or(row.load.warm);
        told.steady = told.steady.max(row.memory.steady);
        told.peak = told.peak.max(row.memory.peak);
        told.vram = told.vram.max(row.memory.vram);
    }

    /// What belongs below the rows, if anything.
    pub(crate) fn end(&self) -> String {
        let mut lines = Vec::new();
        if self.noisy {
            let percent = NOISY * 100.0;
            lines.push(format!(
                "* noisy: repetitions differ by more than ±{percent:.0}%; close other programs, or raise `-r`"
            ));
        }
        lines.extend(self.models.iter().filter_map(Told::line));
        if self.has_begun && !self.left_out.is_empty() {
            lines.push(format!("a wider terminal, or `-o md`, also shows: {}", self.left_out.join(", ")));
        }
        if lines.is_empty() { String::new() } else { format!("\n{}\n", lines.join("\n")) }
    }
}

impl Told {
    fn line(&self) -> Option<String> {
        let seconds = |time: Duration| Seconds(time.as_secs_f64());
        let join = |facts: [Option<String>; 2]| facts.into_iter().flatten().collect::<Vec<_>>().join(", ");
        let load = join([
            self.warm.map(|time| format!("loaded in {}", seconds(time))),
            self.cold.map(|time| format!("cold in {}", seconds(time))),
        ]);
        let memory = join([
            self.steady.map(|bytes| format!("memory {}", Bytes(bytes))),
            self.peak.map(|bytes| format!("peak {}", Bytes(bytes))),
        ]);
        let vram = self.vram.map(|bytes| format!("GPU memory {}", Bytes(bytes))).unwrap_or_default();
        let facts: Vec<String> = [load, memory, vram].into_iter().filter(|fact| !fact.is_empty()).collect();
        (!facts.is_empty()).then(|| format!("{}: {}", short(&self.name, LONGEST), facts.join("; ")))
    }
}

fn line<'a>(cells: impl Iterator<Item = (&'a Column, String)>) -> String {
    let cells = cells.map(|(Column { width, align, .. }, text)| match align {
        Align::Left => format!("{text:<width$}"),
        Align::Right => format!("{text:>width$}"),
    });
    format!("{}\n", cells.collect::<Vec<_>>().join(GAP).trim_end())
}

fn columns(plan: &[Planned], extras: Extras, one_model: bool) -> Vec<Column> {
    let mut columns = Vec::new();
    if !one_model {
        columns.push(model_column(plan, LONGEST));
        columns.push(column("size", 8, Align::Right, |row, _| Bytes(row.model.bytes).to_string()));
        columns.push(column("params", 6, Align::Right, |row, _| Params(row.model.params).to_string()));
    }
    for setting in settings::varying(plan) {
        let widest = plan.iter().map(|row| (setting.value)(&row.settings).chars().count()).max().unwrap_or(0);
        let text = |row: &Row, _| Escaped(&(setting.value)(&row.settings)).to_string();
        columns.push(column(setting.title, widest, Align::Right, text));
    }
    let widest = plan.iter().map(|row| row.test.to_string().len()).max().unwrap_or(0);
    columns.push(column("test", widest, Align::Left, |row, _| row.test.to_string()));
    columns.push(column("t/s", 8, Align::Right, |row, _| rate(row)));
    columns.push(column("±", 6, Align::Left, |row, _| spread(row)));
    if extras.baseline {
        columns.push(column("baseline", 6, Align::Right, |_, ratio| ratio.map_or_else(nothing, times)));
    }
    let has = |answer: bool| plan.iter().any(|row| (row.test.kind == Kind::Answer) == answer);
    if extras.roofline && has(false) {
        columns.push(column("roofline", 13, Align::Left, |row, _| roofline(row)));
    }
    if has(true) {
        columns.extend(answer_columns());
    }
    columns
}

fn model_column(plan: &[Planned], longest: usize) -> Column {
    let widest = plan.iter().map(|row| short(&row.model, longest).chars().count()).max().unwrap_or(0);
    column(MODEL, widest, Align::Left, move |row, _| short(&row.model.name, longest))
}

fn answer_columns() -> [Column; 5] {
    let time = |title, of: fn(&super::row::Answer) -> Duration| {
        column(title, 7, Align::Right, move |row, _| {
            row.answer.as_ref().map_or_else(String::new, |a| brief(of(a)))
        })
    };
    let again = |row: &Row, _| {
        row.answer.as_ref().and_then(|answer| answer.ttft_again).map_or_else(String::new, brief)
    };
    [
        time("TTFT", |answer| answer.ttft),
        time("TPOT", |answer| answer.tpot_p50),
        time("TPOT p95", |answer| answer.tpot_p95),
        time("in all", |answer| answer.end_to_end),
        column("TTFT again", 10, Align::Right, again),
    ]
}

fn column(
    title: &'static str,
    widest: usize,
    align: Align,
    text: impl Fn(&Row, Option<f64>) -> String + 'static,
) -> Column {
    Column { title, width: widest.max(title.chars().count()), align, text: Box::new(text) }
}

fn nothing() -> String {
    "-".to_owned()
}

fn rate(row: &Row) -> String {
    row.median().map_or_else(nothing, |rate| Rate(rate).to_string())
}

fn times(ratio: f64) -> String {
    format!("{ratio:.2}×")
}

/// `1.2%`, `12%*`: the star leads to the line below the table.
fn spread(row: &Row) -> String {
    let star = if row.is_noisy() { "*" } else { "" };
    row.spread().map_or_else(String::new, |spread| {
        let percent = spread * 100.0;
        if percent < 9.95 { format!("{percent:.1}%{star}") } else { format!("{percent:.0}%{star}") }
    })
}

fn roofline(row: &Row) -> String {
    let known = row.roofline.zip(row.roofline_percent());
    known.map_or_else(String::new, |(roofline, percent)| format!("{percent:>3.0}% {}", roofline.bound))
}

/// Three digits: `9.87 ms`, `24.3 ms`, `123 ms`, `1.23 s`.
fn brief(time: Duration) -> String {
    let millis = time.as_secs_f64() * 1000.0;
    match millis {
        ..9.995 => format!("{millis:.2} ms"),
        ..99.95 => format!("{millis:.1} ms"),
        ..999.5 => format!("{millis:.0} ms"),
        _ => Seconds(time.as_secs_f64()).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::row::example::{full, row};
    use super::super::row::{Load, Memory, Test};
    use super::*;
    use crate::engine::KvType;
    use crate::model::roofline::{Bound, Limit};

    const ROOFLINE: Extras = Extras { roofline: true, baseline: false };

    fn render(rows: &[(Row, Option<f64>)], extras: Extras, width: Option<usize>) -> String {
        let plan: Vec<Planned> = rows.iter().map(|(row, _)| row.into()).collect();
        let mut table = Table::new(&plan, extras, width);
        let lines: String = rows.iter().map(|(row, ratio)| table.row(row, *ratio)).collect();
        lines + &table.end()
    }

    fn prefill(depth: u32, millis: &[u64], roofline: f64) -> Row {
        Row {
            test: Test { kind: Kind::Prefill, prompt: 512, generated: 0, depth },
            roofline: Some(Limit { tokens_per_second: roofline, bound: Bound::Compute }),
            ..row(millis)
        }
    }

    fn decode(depth: u32, millis: &[u64], roofline: f64) -> Row {
        Row {
            test: Test { kind: Kind::Decode, prompt: 0, generated: 128, depth },
            roofline: Some(Limit { tokens_per_second: roofline, bound: Bound::Bandwidth }),
            ..row(millis)
        }
    }

    #[test]
    fn one_model_is_told_above_and_what_it_took_below() {
        let mut rows = vec![
            (prefill(0, &[1000, 1010, 1030], 600.0), None),
            (decode(0, &[2000, 2000, 2000], 80.0), None),
            (prefill(2048, &[1800, 2000, 2400], 300.0), None),
            (decode(2048, &[2500], 60.0), None),
            (full(), None),
        ];
        rows[0].0.load = Load { cold: None, warm: Some(Duration::from_millis(52)) };
        rows[1].0.memory = Memory { peak: Some(3_500_000), steady: Some(1_500_000), vram: None };
        assert_eq!(
            render(&rows, ROOFLINE, Some(80)),
            "\
smollm2:135m: llama 256M Q4_1, 96.6 MB, 134.5M parameters
CPU: AMD EPYC
threads 2, batch 2048, ubatch 512, KV f16

test                  t/s  ±       roofline          TTFT     TPOT  TPOT p95
pp512               506.9  0.7%     84% compute
tg128                64.0  0.0%     80% bandwidth
pp512 @ d2048       256.0  6.9%*    85% compute
tg128 @ d2048        51.2           85% bandwidth
pp60+tg40 @ d16     100.0  0.0%     80% bandwidth   400 ms  12.5 ms   20.0 ms

* noisy: repetitions differ by more than ±3%; close other programs, or raise `-r`
smollm2:135m: loaded in 0.05 s, cold in 0.30 s; memory 2.0 MB, peak 3.5 MB; GPU memory 1.0 MB
a wider terminal, or `-o md`, also shows: TTFT again, in all
"
        );
    }

    #[test]
    fn several_models_and_settings_are_columns() {
        let mut rows = vec![
            (prefill(0, &[1000, 1000, 1000], 600.0), Some(1.0)),
            (prefill(0, &[1100, 1100, 1100], 0.0), None),
            (full(), Some(0.954)),
        ];
        rows[1].0.settings.kv = KvType::Q8_0;
        rows[2].0.model.name = "./folder/SmolLM2-135M-Instruct.Q4_1.gguf".to_owned();
        rows[2].0.model.bytes = 4_800_000_000;
        let extras = Extras { roofline: true, baseline: true };
        let wide = render(&rows, extras, None);
        assert_eq!(
            wide,
            "\
CPU: AMD EPYC
threads 2, batch 2048, ubatch 512

model                           size  params    kv  test                  t/s  ±       baseline  roofline          TTFT     TPOT  TPOT p95   in all  TTFT again
smollm2:135m                 96.6 MB  134.5M   f16  pp512               512.0  0.0%       1.00×   85% compute
smollm2:135m                 96.6 MB  134.5M  q8_0  pp512               465.5  0.0%           -
SmolLM2-135M-Instruct.Q4_1    4.8 GB  134.5M   f16  pp60+tg40 @ d16     100.0  0.0%       0.95×   80% bandwidth   400 ms  12.5 ms   20.0 ms   1.00 s     15.0 ms

SmolLM2-135M-Instruct.Q4_1: loaded in 0.05 s, cold in 0.30 s; memory 2.0 MB, peak 3.0 MB; GPU memory 1.0 MB
"
        );
        let narrow = render(&rows, extras, Some(80));
        assert_eq!(
            narrow,
            "\
CPU: AMD EPYC
threads 2, batch 2048, ubatch 512

model           kv  test                  t/s  ±       baseline  roofline          TTFT     TPOT
smollm2:135m   f16  pp512               512.0  0.0%       1.00×   85% compute
smollm2:135m  q8_0  pp512               465.5  0.0%           -
…struct.Q4_1   f16  pp60+tg40 @ d16     100.0  0.0%       0.95×   80% bandwidth   400 ms  12.5 ms

SmolLM2-135M-Instruct.Q4_1: loaded in 0.05 s, cold in 0.30 s; memory 2.0 MB, peak 3.0 MB; GPU memory 1.0 MB
a wider terminal, or `-o md`, also shows: TTFT again, in all, TPOT p95, params, size
"
        );
    }

    #[test]
    fn without_a_roofline_or_an_answer_there_is_no_column_for_them() {
        let mut tiny = decode(0, &[], 1.0);
        tiny.model.name = "a\u{1b}[2J\n".to_owned();
        (tiny.run.gpu_info, tiny.run.backends) = ("NVIDIA H200".to_owned(), "CUDA".to_owned());
        let text = render(&[(tiny, None)], Extras::default(), Some(1));
        assert_eq!(
            text,
            "\
a\\u{1b}[2J\\n: llama 256M Q4_1, 96.6 MB, 134.5M parameters
CUDA: NVIDIA H200
threads 2, batch 2048, ubatch 512, KV f16

test        t/s  ±
tg128         -
"
        );
        let nothing = Table::new(&[], ROOFLINE, None);
        assert_eq!(nothing.end(), "");
    }

    #[test]
    fn a_time_has_three_digits() {
        for (micros, text) in [
            (9, "0.01 ms"),
            (9_994, "9.99 ms"),
            (9_996, "10.0 ms"),
            (99_960, "100 ms"),
            (999_600, "1.00 s"),
            (12_340_000, "12.3 s"),
        ] {
            assert_eq!(brief(Duration::from_micros(micros)), text);
        }
    }
}
