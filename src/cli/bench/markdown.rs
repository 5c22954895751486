//! Rows as a Markdown table, to be pasted next to one of llama-bench: its columns with its meaning, then ours.

use std::time::Duration;

use super::row::{Kind, Planned, Row, deviation, mean};
use super::settings;
use super::table::Extras;
use crate::human::Escaped;

/// A table in the making.
pub(crate) struct Markdown {
    columns: Vec<Column>,
    rows: usize,
    /// What stands below llama-bench's table.
    build: String,
}

struct Column {
    title: &'static str,
    is_number: bool,
    text: Text,
}

/// What stands in a column, from a row and its ratio to an earlier run.
type Text = Box<dyn Fn(&Row, Option<f64>) -> String>;

impl Markdown {
    pub(crate) fn new(plan: &[Planned], extras: Extras) -> Self {
        Self { columns: columns(plan, extras), rows: 0, build: String::new() }
    }

    /// One row, and before the first the titles.
    pub(crate) fn row(&mut self, row: &Row, ratio: Option<f64>) -> String {
        self.rows += 1;
        let titles = if self.rows > 1 { String::new() } else { self.titles() };
        let run = &row.run;
        self.build =
            format!("\nbuild: {} ({}), infer {}\n", run.build_commit, run.build_number, run.infer_version);
        titles + &line(self.columns.iter().map(|column| (column.text)(row, ratio)))
    }

    fn titles(&self) -> String {
        let rule = |column: &Column| if column.is_number { "---:" } else { "---" }.to_owned();
        let titles = line(self.columns.iter().map(|column| column.title.to_owned()));
        titles + &line(self.columns.iter().map(rule))
    }

    pub(crate) fn end(&self) -> &str {
        &self.build
    }
}

fn line(cells: impl Iterator<Item = String>) -> String {
    let cells = cells.map(|cell| Escaped(&cell.replace('|', "\\|")).to_string());
    format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "))
}

fn columns(plan: &[Planned], extras: Extras) -> Vec<Column> {
    let several = plan.iter().any(|row| Some(&row.model) != plan.first().map(|row| &row.model));
    let mut columns = Vec::new();
    if several {
        columns.push(word("name", |row, _| row.model.name.clone()));
    }
    columns.push(word("model", |row, _| row.model.kind.clone()));
    columns.push(number("size", |row, _| size(row.model.bytes)));
    columns.push(number("params", |row, _| params(row.model.params)));
    columns.push(word("backend", |row, _| row.run.backends.clone()));
    let varying = settings::varying(plan);
    if varying.iter().all(|setting| setting.title != "threads") {
        columns.push(number("threads", |row, _| row.threads().to_string()));
    }
    columns.extend(
        varying.into_iter().map(|setting| number(setting.title, |row, _| (setting.value)(&row.settings))),
    );
    columns.push(number("test", |row, _| row.test.to_string()));
    columns.push(number("t/s", |row, _| {
        let rates = row.rates();
        format!("{:.2} ± {:.2}", mean(&rates), deviation(&rates))
    }));
    columns.push(number("median t/s", |row, _| or_empty(row.median(), |rate| format!("{rate:.2}"))));
    if extras.baseline {
        columns.push(number("baseline", |_, ratio| or_empty(ratio, |ratio| format!("{ratio:.2}×"))));
    }
    columns.extend(ours(plan, extras));
    columns
}

fn ours(plan: &[Planned], extras: Extras) -> Vec<Column> {
    let mut columns = Vec::new();
    if extras.roofline {
        columns.push(number("roofline", |row, _| {
            or_empty(row.roofline_percent(), |share| format!("{share:.0}%"))
        }));
        columns.push(word("bound", |row, _| or_empty(row.roofline, |roofline| roofline.bound.to_string())));
    }
    if plan.iter().any(|row| row.test.kind == Kind::Answer) {
        columns.push(number("TTFT ms", |row, _| or_empty(row.answer.as_ref(), |answer| millis(answer.ttft))));
        columns.push(number("TPOT ms", |row, _| {
            or_empty(row.answer.as_ref(), |answer| millis(answer.tpot_p50))
        }));
        columns.push(number("TPOT p95 ms", |row, _| {
            or_empty(row.answer.as_ref(), |answer| millis(answer.tpot_p95))
        }));
        columns.push(number("in all ms", |row, _| {
            or_empty(row.answer.as_ref(), |answer| millis(answer.end_to_end))
        }));
        columns.push(number("TTFT again ms", |row, _| {
            or_empty(row.answer.as_ref().and_then(|answer| answer.ttft_again), millis)
        }));
    }
    columns
}

fn word(title: &'static str, text: impl Fn(&Row, Option<f64>) -> String + 'static) -> Column {
    Column { title, is_number: false, text: Box::new(text) }
}

fn number(title: &'static str, text: impl Fn(&Row, Option<f64>) -> String + 'static) -> Column {
    Column { title, is_number: true, text: Box::new(text) }
}

fn or_empty<T>(value: Option<T>, text: impl Fn(T) -> String) -> String {
    value.map_or_else(String::new, text)
}

fn millis(time: Duration) -> String {
    format!("{:.2}", time.as_secs_f64() * 1000.0)
}

/// In llama-bench's units.
#[expect(clippy::cast_precision_loss, reason = "shown with two decimals")]
fn size(bytes: u64) -> String {
    let mebibytes = bytes as f64 / 1024.0 / 1024.0;
    if bytes < 1 << 30 { format!("{mebibytes:.2} MiB") } else { format!("{:.2} GiB", mebibytes / 1024.0) }
}

#[expect(clippy::cast_precision_loss, reason = "shown with two decimals")]
fn params(count: u64) -> String {
    let millions = count as f64 / 1e6;
    if count < 1_000_000_000 { format!("{millions:.2} M") } else { format!("{:.2} B", millions / 1000.0) }
}

#[cfg(test)]
mod tests {
    use super::super::row::example::{full, row};
    use super::*;
    use crate::engine::KvType;

    fn render(rows: &[Row], extras: Extras) -> String {
        let plan: Vec<Planned> = rows.iter().map(Planned::from).collect();
        let mut table = Markdown::new(&plan, extras);
        let lines: String = rows.iter().map(|row| table.row(row, Some(1.25))).collect();
        lines + table.end()
    }

    #[test]
    fn speed_has_the_columns_of_llama_bench() {
        assert_eq!(
            render(&[row(&[1000, 2000]), row(&[])], Extras::default()),
            "\
| model | size | params | backend | threads | test | t/s | median t/s |
| --- | ---: | ---: | --- | ---: | ---: | ---: | ---: |
| llama 256M Q4_1 | 92.10 MiB | 134.52 M | CPU | 2 | tg100 | 75.00 ± 35.36 | 75.00 |
| llama 256M Q4_1 | 92.10 MiB | 134.52 M | CPU | 2 | tg100 | 0.00 ± 0.00 |  |

build: abc1234 (11434), infer 0.1.0
"
        );
    }

    #[test]
    fn what_differs_and_what_only_we_measure_is_added() {
        let mut rows = [full(), row(&[1000])];
        rows[1].model.name = "a|b".to_owned();
        (rows[1].model.bytes, rows[1].model.params) = (5 << 30, 8_030_000_000);
        rows[1].settings.kv = KvType::Q8_0;
        assert_eq!(
            render(&rows, Extras { roofline: true, baseline: true }),
            "\
| name | model | size | params | backend | threads | kv | test | t/s | median t/s | baseline | roofline | bound | TTFT ms | TPOT ms | TPOT p95 ms | in all ms | TTFT again ms |
| --- | --- | ---: | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- | ---: | ---: | ---: | ---: | ---: |
| smollm2:135m | llama 256M Q4_1 | 92.10 MiB | 134.52 M | CPU | 2 | f16 | pp60+tg40 @ d16 | 100.00 ± 0.00 | 100.00 | 1.25× | 80% | bandwidth | 400.00 | 12.50 | 20.00 | 1000.00 | 15.00 |
| a\\|b | llama 256M Q4_1 | 5.00 GiB | 8.03 B | CPU | 2 | q8_0 | tg100 | 100.00 ± 0.00 | 100.00 | 1.25× |  |  |  |  |  |  |  |

build: abc1234 (11434), infer 0.1.0
"
        );
    }

    #[test]
    fn a_table_without_rows_is_nothing() {
        assert_eq!(render(&[], Extras::default()), "");
    }
}
