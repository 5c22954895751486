//! `--plot`: tokens per second over depth, as an SVG. At a single depth there is no line, so that bars stand for it.

use plotters::coord::Shift;
use plotters::prelude::*;

use self::axis::{Axis, apart, round_ticks, speed, tick, tokens, width};
use self::figure::{Figure, Panel, Point};
use self::legend::Legend;
use super::row::{Kind, Planned, Row};
use crate::error::{Error, Result};

mod axis;
mod colours;
mod figure;
mod legend;
mod shapes;
#[cfg(test)]
mod tests;

/// Pixels of a panel with its axes, of which there are two next to each other, and of one that is alone.
const PANEL: (u32, u32) = (480, 340);
const ALONE: (u32, u32) = (760, 400);
const HEADER: u32 = 82;
/// Around the axes of a panel.
const ABOVE: u32 = 38;
const BELOW: u32 = 56;
const LEFT: u32 = 74;
const RIGHT: u32 = 26;
/// At the edges of the picture.
const MARGIN: u32 = 20;
/// A panel has room for so many bars at least.
const FEW: f64 = 5.0;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<Axis, Axis>>;
type Drawn<T = ()> = std::result::Result<T, DrawingAreaErrorKind<std::io::Error>>;

/// Will there be something to draw?
pub(crate) fn check(plan: &[Planned]) -> Result<()> {
    if plan.iter().any(|row| row.test.kind != Kind::Answer) { Ok(()) } else { Err(nothing()) }
}

fn nothing() -> Error {
    Error::usage("there is nothing to plot: whole answers have no depth")
        .hint("`-p 512 -g 128 -d 0,2048,8192` measures at three depths")
}

/// The whole file.
pub(crate) fn svg(rows: &[Row]) -> Result<String> {
    let figure = Figure::new(rows).ok_or_else(nothing)?;
    let mut text = String::new();
    draw(&figure, &mut text).map_err(|e| Error::failed(format!("cannot draw the plot: {e}")))?;
    // Behind the opening tag.
    let start = text.find("<svg").and_then(|start| Some(start + text[start..].find('>')? + 1)).unwrap_or(0);
    text.insert_str(start, &format!("\n{}", colours::style()));
    Ok(text)
}

fn draw(figure: &Figure, text: &mut String) -> Drawn {
    let columns = figure.panels.len().min(2);
    let rows = figure.panels.len().div_ceil(columns);
    let panel = if columns == 1 { ALONE } else { PANEL };
    let (wide, high) = (panel.0 * number(columns), panel.1 * number(rows));
    let legend = Legend::new(figure, wide);
    let root = SVGBackend::with_string(text, (wide, HEADER + high + legend.height())).into_drawing_area();
    root.fill(&colours::paper())?;
    head(&root, figure, wide)?;
    let (_, below) = root.split_vertically(HEADER);
    let (panels, _) = below.split_vertically(high);
    for (area, panel) in panels.split_evenly((rows, columns)).iter().zip(&figure.panels) {
        if panel.depths.len() == 1 {
            bars(&root, area, panel)?;
        } else {
            lines(&root, area, panel)?;
        }
    }
    legend.draw(&root, HEADER + high)?;
    root.present()
}

fn head(root: &Area<'_>, figure: &Figure, wide: u32) -> Drawn {
    let inside = f64::from(wide - 2 * MARGIN);
    shapes::text(root, "Tokens per second", (20, 26), 18, colours::ink(), shapes::LEFT)?;
    (50..).step_by(20).zip(&figure.about).try_for_each(|(y, line)| {
        shapes::text(root, &axis::cut(line, inside), (20, y), shapes::SMALL, colours::faint(), shapes::LEFT)
    })
}

/// Axes with ticks for some places from left to right, and from 0 up to what the panel has. All words are upright.
fn axes<'a, 'b>(
    root: &Area<'_>,
    area: &'a Area<'b>,
    panel: &Panel,
    across: (f64, f64),
    ticks: Vec<f64>,
    words: &str,
) -> Drawn<Chart<'a, 'b>> {
    let up = round_ticks(panel.top());
    let top = up.last().copied().unwrap_or(1.0);
    let mut chart = ChartBuilder::on(area)
        .margin_top(ABOVE)
        .margin_right(RIGHT)
        .x_label_area_size(BELOW)
        .y_label_area_size(LEFT)
        .build_cartesian_2d(Axis::new(across, ticks), Axis::new((0.0, top), up))?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .bold_line_style(colours::grid())
        .light_line_style(TRANSPARENT)
        .axis_style(colours::faint())
        .label_style(shapes::font(shapes::SMALL, colours::faint()))
        .x_label_formatter(&|depth| tokens(*depth))
        .y_label_formatter(&|value| tick(*value))
        .draw()?;
    let (x, y) = chart.plotting_area().get_pixel_range();
    let middle = (i32::midpoint(x.start, x.end), y.end + 40);
    shapes::text(root, words, middle, shapes::SMALL, colours::faint(), shapes::MIDDLE)?;
    shapes::text(
        root,
        "tokens/s",
        (x.start - 10, y.start - 20),
        shapes::SMALL,
        colours::faint(),
        shapes::RIGHT,
    )?;
    shapes::text(root, &panel.title, (x.start, y.start - 20), 14, colours::ink(), shapes::LEFT)?;
    Ok(chart)
}

fn lines(root: &Area<'_>, area: &Area<'_>, panel: &Panel) -> Drawn {
    let (first, last) = panel.depths.first().zip(panel.depths.last()).unwrap_or((&0.0, &1.0));
    let margin = (last - first) * 0.03;
    let pixels = f64::from(area.dim_in_pixel().0.saturating_sub(LEFT + RIGHT));
    let ticks = apart(&panel.depths, pixels / (last - first + 2.0 * margin), 10.0);
    let chart = axes(root, area, panel, (first - margin, last + margin), ticks, "tokens in the cache")?;
    let pixel = |point: &Point| chart.plotting_area().map_coordinate(point);
    for line in &panel.lines {
        let colour = colours::line(line.number);
        shapes::dashes(root, &line.roofline.iter().map(pixel).collect::<Vec<_>>(), colour)?;
    }
    for line in &panel.lines {
        let colour = colours::line(line.number);
        let points: Vec<_> = line.points.iter().map(pixel).collect();
        root.draw(&PathElement::new(points.clone(), colour.stroke_width(2)))?;
        points.into_iter().try_for_each(|point| shapes::mark(root, point, line.number))?;
    }
    Ok(())
}

fn bars(root: &Area<'_>, area: &Area<'_>, panel: &Panel) -> Drawn {
    let depth = panel.depths.first().copied().unwrap_or(0.0);
    let words = format!("with {} tokens in the cache", tokens(depth));
    // A few bars stand in the middle.
    let count = f64::from(number(panel.lines.len()));
    let aside = (FEW - count).max(0.0) / 2.0;
    let chart = axes(root, area, panel, (-aside, count + aside), Vec::new(), &words)?;
    let pixel = |at: f64, value: f64| chart.plotting_area().map_coordinate(&(at, value));
    for (place, line) in (0_u32..).map(f64::from).zip(&panel.lines) {
        let Some((_, value)) = line.points.first() else { continue };
        let (low, high) = (pixel(place + 0.14, 0.0), pixel(place + 0.86, *value));
        root.draw(&Rectangle::new([low, high], colours::line(line.number).filled()))?;
        let label = speed(*value);
        if width(&label) < f64::from(high.0 - low.0) {
            let (below, colour) =
                if low.1 - high.1 > 24 { (13, colours::paper()) } else { (-10, colours::ink()) };
            let middle = (i32::midpoint(low.0, high.0), high.1 + below);
            shapes::text(root, &label, middle, shapes::SMALL, colour, shapes::MIDDLE)?;
        }
        if let Some((_, limit)) = line.roofline.first() {
            shapes::dashes(
                root,
                &[pixel(place + 0.06, *limit), pixel(place + 0.94, *limit)],
                colours::ink(),
            )?;
        }
    }
    Ok(())
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
