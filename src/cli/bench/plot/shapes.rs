//! What a plot is made of, at pixels of the whole picture.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::{Area, Drawn, colours};

pub(super) type Pixel = (i32, i32);

pub(super) const LEFT: HPos = HPos::Left;
pub(super) const MIDDLE: HPos = HPos::Center;
pub(super) const RIGHT: HPos = HPos::Right;

/// The size of most letters, in pixels.
pub(super) const SMALL: u32 = 12;

/// Letters of so many pixels. The crate divides sizes by 1.24 on their way to the file.
pub(super) fn font(size: u32, colour: RGBColor) -> TextStyle<'static> {
    ("sans-serif", f64::from(size) * 1.24).into_font().color(&colour)
}

/// A line of text, its middle at the height of the pixel.
pub(super) fn text(
    area: &Area<'_>,
    text: &str,
    at: Pixel,
    size: u32,
    colour: RGBColor,
    anchor: HPos,
) -> Drawn {
    let style = font(size, colour).pos(Pos::new(anchor, VPos::Center));
    area.draw(&Text::new(text.to_owned(), at, style))
}

pub(super) fn dashes(area: &Area<'_>, points: &[Pixel], colour: RGBColor) -> Drawn {
    let style = colour.stroke_width(1);
    area.draw(&plotters::element::DashedPathElement::new(points.iter().copied(), 5, 4, style))
}

/// The mark of a line: lines of the same colour have different ones.
pub(super) fn mark(area: &Area<'_>, (x, y): Pixel, number: usize) -> Drawn {
    let style = colours::line(number).filled();
    let polygon = |points: &[Pixel]| {
        area.draw(&Polygon::new(points.iter().map(|(dx, dy)| (x + dx, y + dy)).collect::<Vec<_>>(), style))
    };
    match (number + number / colours::COUNT) % 4 {
        0 => area.draw(&Circle::new((x, y), 4, style)),
        1 => polygon(&[(-4, -4), (4, -4), (4, 4), (-4, 4)]),
        2 => polygon(&[(0, -5), (5, 4), (-5, 4)]),
        _ => polygon(&[(0, -6), (6, 0), (0, 6), (-6, 0)]),
    }
}
