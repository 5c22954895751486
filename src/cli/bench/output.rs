//! Rows to stdout, as they come, in the form that is wanted.

use std::io::Read;
use std::path::{Path, PathBuf};

use super::bars::{Blocks, bars};
use super::baseline::Baseline;
use super::json::{Format, Writer};
use super::markdown::Markdown;
use super::plot;
use super::row::{Planned, Row};
use super::table::{Extras, Table};
use crate::cli::args::{BenchArgs, OutputArg};
use crate::cli::load::{self, Readers};
use crate::cli::ui::Ui;
use crate::error::{Error, Result};

/// Below the bars.
const LEGEND: &str =
    "prompts, tokens and answers have a scale each; the light part is what is left to the roofline\n";

pub(super) struct Output {
    form: Form,
    baseline: Option<Baseline>,
    fail_slower: Option<f64>,
    plot: Option<PathBuf>,
    /// Of a terminal.
    width: Option<usize>,
    rows: Vec<Row>,
}

enum Form {
    Table(Table),
    Markdown(Markdown),
    Data(Writer),
}

impl Output {
    pub(super) fn new(args: &BenchArgs, planned: &[Planned], width: Option<usize>) -> Result<Self> {
        let baseline = args.baseline.as_deref().map(Baseline::read).transpose()?;
        let extras = Extras { roofline: true, baseline: args.baseline.is_some() };
        let form = match if args.json { OutputArg::Json } else { args.output } {
            OutputArg::Table => Form::Table(Table::new(planned, extras, width)),
            OutputArg::Md => Form::Markdown(Markdown::new(planned, extras)),
            OutputArg::Csv => Form::Data(Writer::new(Format::Csv)),
            OutputArg::Json => Form::Data(Writer::new(Format::Json)),
            OutputArg::Jsonl => Form::Data(Writer::new(Format::Jsonl)),
        };
        if let Some(path) = &args.plot {
            plot::check(planned)?;
            check_folder(path)?;
            check_file(path)?;
        }
        let (fail_slower, plot) = (args.fail_slower, args.plot.clone());
        Ok(Self { form, baseline, fail_slower, plot, width, rows: Vec::new() })
    }

    /// What stands before the first row, which may be minutes away.
    pub(super) fn begin(&mut self, ui: &mut Ui) {
        if let Form::Data(writer) = &self.form {
            print(ui, &writer.begin());
        }
    }

    pub(super) fn row(&mut self, ui: &mut Ui, row: Row) {
        let ratio = self.baseline.as_mut().and_then(|baseline| baseline.compare(&row));
        let text = match &mut self.form {
            Form::Table(table) => table.row(&row, ratio),
            Form::Markdown(table) => table.row(&row, ratio),
            Form::Data(writer) => writer.row(&row, ratio),
        };
        print(ui, &text);
        self.rows.push(row);
    }

    /// What belongs behind the last row, whichever that was.
    pub(super) fn end(&mut self, ui: &mut Ui) {
        let text = match &self.form {
            Form::Table(table) => table.end() + &self.bars(ui),
            Form::Markdown(table) => table.end().to_owned(),
            Form::Data(writer) => writer.end(),
        };
        print(ui, &text);
        for note in self.baseline.iter().flat_map(Baseline::notes) {
            ui.note(&note);
        }
    }

    /// Pictures of letters for a person who looks.
    fn bars(&self, ui: &Ui) -> String {
        let blocks = if ui.is_dumb() { Blocks::ASCII } else { Blocks::UNICODE };
        let bars = self.width.map(|width| bars(&self.rows, width, &blocks));
        bars.filter(|bars| !bars.is_empty()).map_or_else(String::new, |bars| format!("\n{bars}{LEGEND}"))
    }

    /// Draw what there is.
    pub(super) fn draw(&self, ui: &mut Ui) -> Result<()> {
        let Some(path) = self.plot.as_deref().filter(|_| !self.rows.is_empty()) else { return Ok(()) };
        load::write_file(path, &plot::svg(&self.rows)?, Readers::Usual)?;
        ui.status(&format!("plot: {}", path.display()));
        Ok(())
    }

    /// Whether it was fast enough, where that was asked.
    pub(super) fn judge(&self) -> Result<()> {
        match (&self.baseline, self.fail_slower) {
            (Some(baseline), Some(percent)) => baseline.slower_than(percent),
            _ => Ok(()),
        }
    }
}

/// A folder that is not there is told before hours of work.
fn check_folder(path: &Path) -> Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    match folder.filter(|folder| !folder.is_dir()) {
        Some(folder) => Err(Error::usage(format!("`{}` is not a folder", folder.display()))
            .hint(format!("`mkdir -p {}`", folder.display()))),
        None => Ok(()),
    }
}

/// What is there and no drawing stays.
fn check_file(path: &Path) -> Result<()> {
    let Ok(about) = std::fs::metadata(path) else { return Ok(()) };
    let is_drawing = about.is_file() && {
        let mut start = [0; 4];
        let read = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut start));
        about.len() == 0 || (read.is_ok() && start == *b"<svg")
    };
    if is_drawing {
        return Ok(());
    }
    let message = format!("`{}` exists and is not a plot; it is left as it is", path.display());
    Err(Error::usage(message).hint("give another name, such as `--plot depth.svg`"))
}

/// Whether all of it could be written is asked once, at the end.
fn print(ui: &mut Ui, text: &str) {
    if !text.is_empty() {
        let _ = ui.say(text);
    }
}
