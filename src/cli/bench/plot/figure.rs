//! What a plot shows: a panel for each test, and in it a line over depth for each model and choice of settings.

use crate::cli::bench::names::Names;
use crate::cli::bench::row::{Kind, Planned, Row, Settings, Test};
use crate::human::Thousands;

pub(super) struct Figure {
    /// Lines about what is the same everywhere.
    pub(super) about: [String; 2],
    pub(super) panels: Vec<Panel>,
    /// The names of all lines, in the order of their numbers.
    pub(super) names: Vec<String>,
}

pub(super) struct Panel {
    pub(super) title: String,
    /// In order, each once.
    pub(super) depths: Vec<f64>,
    pub(super) lines: Vec<Line>,
}

#[derive(Default)]
pub(super) struct Line {
    /// Which one it is in all panels.
    pub(super) number: usize,
    /// Depth and tokens per second, from left to right.
    pub(super) points: Vec<Point>,
    pub(super) roofline: Vec<Point>,
}

pub(super) type Point = (f64, f64);

impl Figure {
    /// `None` where there is nothing to show: whole answers have no depth.
    pub(super) fn new(rows: &[Row]) -> Option<Self> {
        let rows: Vec<&Row> =
            rows.iter().filter(|row| row.test.kind != Kind::Answer && row.median().is_some()).collect();
        let first = rows.first()?;
        let plan: Vec<Planned> = rows.iter().map(|row| Planned::from(*row)).collect();
        let named = Names::new(&plan);
        let mut figure = Self { about: named.about(first), panels: Vec::new(), names: Vec::new() };
        let mut tests: Vec<Test> = Vec::new();
        let mut lines: Vec<(&str, &Settings)> = Vec::new();
        for row in rows {
            let test = Test { depth: 0, ..row.test };
            let panel = place(&mut tests, test);
            if panel == figure.panels.len() {
                figure.panels.push(Panel::new(test));
            }
            let number = place(&mut lines, (&row.model.name, &row.settings));
            if number == figure.names.len() {
                figure.names.push(named.line(row));
            }
            figure.panels[panel].add(number, row);
        }
        figure.panels.iter_mut().for_each(Panel::sort);
        Some(figure)
    }
}

/// Where something is in a list, at its end if it was not there before.
fn place<T: PartialEq>(list: &mut Vec<T>, item: T) -> usize {
    list.iter().position(|known| *known == item).unwrap_or_else(|| {
        list.push(item);
        list.len() - 1
    })
}

impl Panel {
    fn new(test: Test) -> Self {
        let title = match test.kind {
            Kind::Decode => format!("Generating {} tokens ({test})", Thousands(test.generated.into())),
            Kind::Prefill | Kind::Answer => {
                format!("Reading {} tokens ({test})", Thousands(test.prompt.into()))
            }
        };
        Self { title, depths: Vec::new(), lines: Vec::new() }
    }

    fn add(&mut self, number: usize, row: &Row) {
        let depth = f64::from(row.test.depth);
        place(&mut self.depths, depth);
        let at = self.lines.iter().position(|line| line.number == number).unwrap_or_else(|| {
            self.lines.push(Line { number, ..Line::default() });
            self.lines.len() - 1
        });
        let limit = row.roofline.map(|roofline| roofline.tokens_per_second).filter(|limit| limit.is_finite());
        self.lines[at].points.extend(row.median().map(|speed| (depth, speed)));
        self.lines[at].roofline.extend(limit.map(|limit| (depth, limit)));
    }

    fn sort(&mut self) {
        self.depths.sort_by(f64::total_cmp);
        for line in &mut self.lines {
            line.points.sort_by(|a, b| a.0.total_cmp(&b.0));
            line.roofline.sort_by(|a, b| a.0.total_cmp(&b.0));
        }
    }

    /// The largest number of tokens per second.
    pub(super) fn top(&self) -> f64 {
        let all = self.lines.iter().flat_map(|line| line.points.iter().chain(&line.roofline));
        all.map(|point| point.1).fold(0.0, f64::max)
    }
}
