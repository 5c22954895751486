use std::collections::BTreeSet;
use std::time::Duration;

use super::super::row::Test;
use super::super::row::example::{full, row};
use super::*;
use crate::model::roofline::{Bound, Limit};

/// Reading and generating, with so many choices of threads, at each of the depths.
fn rows(choices: usize, depths: &[u32]) -> Vec<Row> {
    let mut rows = Vec::new();
    for (threads, &depth) in
        (1..=choices).flat_map(|threads| depths.iter().map(move |depth| (threads, depth)))
    {
        for (kind, prompt, generated, base) in
            [(Kind::Prefill, 512, 0, 1200.0), (Kind::Decode, 0, 128, 1900.0)]
        {
            let millis = base * (1.0 + f64::from(number(threads)) * 0.3 + f64::from(depth) / 9000.0);
            let mut row = row(&[]);
            row.samples = vec![Duration::from_secs_f64(millis / 1000.0)];
            row.test = Test { kind, prompt, generated, depth };
            (row.settings.threads, row.settings.threads_batch) = (threads, threads);
            let limit = row.median().unwrap() * 1.5;
            row.roofline = Some(Limit { tokens_per_second: limit, bound: Bound::Compute });
            rows.push(row);
        }
    }
    rows
}

/// The value of an attribute.
fn attribute<'a>(tag: &'a str, name: &str) -> &'a str {
    let start = tag.find(&format!(" {name}=\"")).unwrap() + name.len() + 3;
    tag[start..].split('"').next().unwrap()
}

/// Every text with the room that it takes: left, top, right, bottom.
fn texts(svg: &str) -> Vec<(String, [f64; 4])> {
    let texts = svg.split("<text").skip(1).map(|part| {
        let (tag, rest) = part.split_once('>').unwrap();
        let text = rest.split("</text>").next().unwrap().trim().to_owned();
        let value = |name: &str| attribute(tag, name).parse::<f64>().unwrap();
        let (x, y, size) = (value("x"), value("y"), value("font-size"));
        let wide = width(&text) * size / 12.0;
        let left = x - wide
            * match attribute(tag, "text-anchor") {
                "start" => 0.0,
                "middle" => 0.5,
                _ => 1.0,
            };
        (text, [left, y - size / 2.0, left + wide, y + size / 2.0])
    });
    texts.collect()
}

#[test]
fn no_text_touches_another_or_the_edge() {
    let depths = [0, 512, 2048, 4096, 8192, 16384];
    for (choices, depths) in
        [1, 2, 3, 8, 20].iter().flat_map(|n| [(*n, &depths[..1]), (*n, &depths[..2]), (*n, &depths)])
    {
        let mut rows = rows(choices, depths);
        rows[0].model.name = "a name as long as names of files can be and longer still.gguf".to_owned();
        let svg = svg(&rows).unwrap();
        let (wide, high) = (
            attribute(&svg, "width").parse::<f64>().unwrap(),
            attribute(&svg, "height").parse::<f64>().unwrap(),
        );
        let texts = texts(&svg);
        for (at, (text, [left, top, right, bottom])) in texts.iter().enumerate() {
            assert!(
                *left >= 0.0 && *top >= 0.0 && *right <= wide && *bottom <= high,
                "{text}: {left} {right} of {wide}"
            );
            for (other, [x0, y0, x1, y1]) in &texts[at + 1..] {
                let apart = right <= x0 || x1 <= left || bottom <= y0 || y1 <= top;
                assert!(apart, "{choices} choices, {} depths: `{text}` lies on `{other}`", depths.len());
            }
        }
    }
}

#[test]
fn every_colour_has_a_dark_counterpart() {
    let svg = svg(&rows(9, &[0, 64])).unwrap();
    let (style, drawing) = svg.split_once("</style>").unwrap();
    let colours: BTreeSet<&str> = ["fill=\"#", "stroke=\"#"]
        .iter()
        .flat_map(|start| drawing.split(start).skip(1).map(|rest| rest.split('"').next().unwrap()))
        .collect();
    assert_eq!(colours.len(), 4 + colours::COUNT, "{colours:?}");
    for colour in colours {
        assert!(style.contains(&format!("[fill=\"#{colour}\"]{{fill:#")), "{colour}");
        assert!(style.contains(&format!("[stroke=\"#{colour}\"]{{stroke:#")), "{colour}");
    }
    assert!(style.contains("@media (prefers-color-scheme:dark)"));
}

#[test]
fn lines_over_depth_and_bars_at_one() {
    let words = |svg: &str| texts(svg).into_iter().map(|(text, _)| text).collect::<Vec<_>>();
    let several = svg(&rows(1, &[0, 2048])).unwrap();
    assert_eq!(
        words(&several),
        [
            "Tokens per second",
            "smollm2:135m: llama 256M Q4_1, 134.5M · AMD EPYC",
            "threads 1, batch 2048, ubatch 512, KV f16",
            "0",
            "100",
            "200",
            "300",
            "400",
            "500",
            "0",
            "2,048",
            "tokens in the cache",
            "tokens/s",
            "Reading 512 tokens (pp512)",
            "0",
            "20",
            "40",
            "60",
            "80",
            "0",
            "2,048",
            "tokens in the cache",
            "tokens/s",
            "Generating 128 tokens (tg128)",
            "roofline: the most that memory bandwidth or computing power allows here",
        ]
    );
    assert_eq!(several.matches("<circle").count(), 4);
    let one = svg(&rows(2, &[64])).unwrap();
    assert_eq!(
        words(&one)[21..],
        [
            "Generating 128 tokens (tg128)",
            "51.5",
            "41.9",
            "threads 1",
            "threads 2",
            "roofline: the most that memory bandwidth or computing power allows here",
        ]
    );
    assert_eq!(one.matches("<circle").count(), 0);
}

#[test]
fn a_name_stays_text() {
    let mut rows = rows(1, &[0]);
    rows[0].model.name = "<b>&\u{1b}\u{ffff}\"".to_owned();
    let svg = svg(&rows).unwrap();
    assert!(svg.contains("&lt;b&gt;&amp;\\u{1b}\u{fffd}"), "{svg}");
    assert!(!svg.contains(|c: char| c.is_control() && c != '\n'));
}

#[test]
fn answers_alone_have_no_plot() {
    let plan = |row: &Row| check(&[row.into()]).is_ok();
    assert_eq!([&full(), &row(&[])].map(plan), [false, true]);
    assert!(svg(&[full()]).is_err() && svg(&[]).is_err() && svg(&[row(&[])]).is_err());
    let mut rows = rows(1, &[0]);
    rows.push(full());
    assert_eq!(texts(&svg(&rows).unwrap()).iter().filter(|(text, _)| text == "tokens/s").count(), 2);
}

#[test]
fn two_models_of_one_short_name_are_two_lines() {
    let mut all = Vec::new();
    for folder in ["a", "b"] {
        all.extend(rows(1, &[0, 512]).into_iter().map(|mut row| {
            row.model.name = format!("/{folder}/m.gguf");
            row
        }));
    }
    let figure = Figure::new(&all).unwrap();
    assert_eq!(figure.names, ["/a/m.gguf (1)", "/b/m.gguf (2)"]);
    for panel in &figure.panels {
        let points: Vec<usize> = panel.lines.iter().map(|line| line.points.len()).collect();
        assert_eq!(points, [2, 2]);
    }
}
