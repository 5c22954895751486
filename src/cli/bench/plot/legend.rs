//! Which line is which, below the panels.

use plotters::prelude::*;

use super::axis::{cut, width};
use super::figure::Figure;
use super::shapes::{self, Pixel};
use super::{Area, Drawn, MARGIN, colours, number};

/// Pixels from one entry to the one below, and of the sample before its words.
const ROW: u32 = 22;
const SAMPLE: u32 = 44;

pub(super) struct Legend {
    /// Lines with their numbers; one alone is named by the title.
    names: Vec<(usize, String)>,
    roofline: bool,
    /// Of bars, not of lines.
    bars: bool,
    columns: usize,
    column_width: u32,
}

impl Legend {
    pub(super) fn new(figure: &Figure, wide: u32) -> Self {
        let names: Vec<(usize, String)> = figure.names.iter().cloned().enumerate().collect();
        let names = if names.len() > 1 { names } else { Vec::new() };
        let roofline =
            figure.panels.iter().flat_map(|panel| &panel.lines).any(|line| !line.roofline.is_empty());
        let room = wide - 2 * MARGIN;
        let bars = figure.panels.iter().all(|panel| panel.depths.len() == 1);
        let longest = names.iter().map(|(_, name)| width(name)).fold(0.0, f64::max);
        let needed = f64::from(SAMPLE) + longest + 16.0;
        let columns =
            (1..=names.len().max(1)).rev().find(|n| needed * f64::from(number(*n)) <= f64::from(room));
        let columns = columns.unwrap_or(1).min(4);
        Self { names, roofline, bars, columns, column_width: room / number(columns) }
    }

    fn rows(&self) -> usize {
        self.names.len().div_ceil(self.columns) + usize::from(self.roofline)
    }

    pub(super) fn height(&self) -> u32 {
        number(self.rows()) * ROW + 2 * MARGIN
    }

    pub(super) fn draw(&self, root: &Area<'_>, top: u32) -> Drawn {
        let pixel = |column: usize, row: usize| -> Pixel {
            let x = MARGIN + number(column) * self.column_width;
            let y = top + MARGIN / 2 + number(row) * ROW + ROW / 2;
            (x.cast_signed(), y.cast_signed())
        };
        let sample = |(x, y): Pixel| [(x, y), (x + 32, y)];
        for (place, (line, name)) in self.names.iter().enumerate() {
            let (x, y) = pixel(place % self.columns, place / self.columns);
            let colour = colours::line(*line);
            if self.bars {
                root.draw(&Rectangle::new([(x + 18, y - 7), (x + 32, y + 7)], colour.filled()))?;
            } else {
                root.draw(&PathElement::new(sample((x, y)), colour.stroke_width(2)))?;
                shapes::mark(root, (x + 16, y), *line)?;
            }
            let name = cut(name, f64::from(self.column_width - SAMPLE));
            shapes::text(
                root,
                &name,
                (x + SAMPLE.cast_signed(), y),
                shapes::SMALL,
                colours::ink(),
                shapes::LEFT,
            )?;
        }
        if self.roofline {
            let (x, y) = pixel(0, self.rows() - 1);
            shapes::dashes(root, &sample((x, y)), colours::ink())?;
            let words = "roofline: the most that memory bandwidth or computing power allows here";
            shapes::text(
                root,
                words,
                (x + SAMPLE.cast_signed(), y),
                shapes::SMALL,
                colours::ink(),
                shapes::LEFT,
            )?;
        }
        Ok(())
    }
}
