//! The rows of `infer fit`: in which order, and how they are printed. Pure.

use std::cmp::Reverse;

use serde_json::{Value, json};

use crate::cli::models::columns;
use crate::cli::room::part_json;
use crate::human::{Bytes, Escaped, Rate, Thousands};
use crate::model::fit::{Part, Plan};

/// Tokens per second from which an answer comes as fast as one reads: some 250 words a minute, and half as much again,
/// because the limit is never quite reached.
const COMFORTABLE: f64 = 8.0;

/// A model, and how it would run.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) quant: Option<String>,
    /// Of the weights.
    pub(crate) bytes: u64,
    /// Numbers come from a header, not from a name.
    pub(crate) exact: bool,
    pub(crate) here: bool,
    pub(crate) about: String,
    /// Or why not.
    pub(crate) plan: Result<Plan, String>,
    /// The most tokens per second, where the model fits.
    pub(crate) limit: Option<f64>,
}

impl Row {
    fn is_comfortable(&self) -> bool {
        self.limit.is_some_and(|limit| limit >= COMFORTABLE)
    }

    /// What is estimated, says so.
    fn about(&self, text: impl std::fmt::Display) -> String {
        if self.exact { text.to_string() } else { format!("~{text}") }
    }

    fn cells(&self) -> [String; 7] {
        let (runs_on, context, note) = match &self.plan {
            Ok(plan) => {
                (place(plan), Thousands(plan.ctx.into()).to_string(), if self.here { "here" } else { "" })
            }
            Err(why) => ("no".to_owned(), "-".to_owned(), why.as_str()),
        };
        [
            Escaped(&self.name).to_string(),
            self.quant.clone().unwrap_or_else(|| "-".to_owned()),
            self.about(Bytes(self.bytes)),
            runs_on,
            context,
            self.limit
                .map_or_else(|| "-".to_owned(), |limit| self.about(format_args!("{} tokens/s", Rate(limit)))),
            Escaped(note).to_string(),
        ]
    }

    fn json(&self) -> Value {
        let plan = self.plan.as_ref().ok();
        json!({
            "name": self.name,
            "quantization": self.quant,
            "bytes": self.bytes,
            "estimated": !self.exact,
            "here": self.here,
            "about": self.about,
            "fits": plan.is_some(),
            "why": self.plan.as_ref().err(),
            "layers": plan.filter(|_| self.exact).map(|plan| plan.layers),
            "gpu_share": plan.map(gpu_share),
            "context": plan.map(|plan| plan.ctx),
            "kv": plan.map(|plan| plan.kv.to_string()),
            "memory": plan.map(|plan| plan.all(Part::used)),
            "devices": plan.map_or_else(Vec::new, |plan| plan.parts.iter().map(part_json).collect()),
            "tokens_per_second": self.limit,
        })
    }
}

/// `GPU`, `CPU`, or `GPU 60%`, the share of the layers.
fn place(plan: &Plan) -> String {
    match plan.gpu_layers() {
        0 => "CPU".to_owned(),
        layers if layers == plan.layers => "GPU".to_owned(),
        _ => format!("GPU {:.0}%", 100.0 * gpu_share(plan)),
    }
}

#[expect(clippy::cast_precision_loss, reason = "a few hundred layers")]
fn gpu_share(plan: &Plan) -> f64 {
    plan.gpu_layers() as f64 / plan.layers.max(1) as f64
}

/// The largest that answers comfortably first, then those that answer slowly, the fastest first, then what does not fit.
pub(crate) fn sort(rows: &mut [Row]) {
    rows.sort_by(|a, b| {
        let group = |row: &Row| (row.plan.is_err(), !row.is_comfortable());
        let within = |row: &Row| (Reverse(row.bytes), row.name.clone());
        let by_speed = || b.limit.unwrap_or(0.0).total_cmp(&a.limit.unwrap_or(0.0));
        let slow = group(a) == (false, true);
        group(a).cmp(&group(b)).then_with(|| if slow { by_speed() } else { within(a).cmp(&within(b)) })
    });
}

pub(crate) fn table(rows: &[Row]) -> String {
    let head = ["NAME", "QUANT", "SIZE", "RUNS ON", "CONTEXT", "UP TO", ""].map(str::to_owned);
    let all: Vec<_> = std::iter::once(head).chain(rows.iter().map(Row::cells)).collect();
    columns(&all)
}

/// A line on the first row, if it is worth one.
pub(crate) fn advice(rows: &[Row]) -> Option<String> {
    let best = rows.first()?;
    best.plan.as_ref().ok()?;
    let name = Escaped(&best.name);
    Some(if best.is_comfortable() {
        format!("the largest that answers as fast as one reads: `infer run {name}`")
    } else {
        format!("none answers as fast as one reads; the fastest: `infer run {name}`")
    })
}

pub(crate) fn json(rows: &[Row]) -> Vec<Value> {
    rows.iter().map(Row::json).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::KvType;

    fn row(name: &str, bytes: u64, limit: f64) -> Row {
        let part = Part { name: "CPU".to_owned(), layers: 3, weights: bytes, ..Part::default() };
        Row {
            name: name.to_owned(),
            quant: Some("Q4_K_M".to_owned()),
            bytes,
            exact: false,
            here: false,
            about: String::new(),
            plan: Ok(Plan { ctx: 8192, kv: KvType::F16, layers: 3, parts: vec![part] }),
            limit: Some(limit),
        }
    }

    fn too_big(name: &str, bytes: u64) -> Row {
        Row { plan: Err("needs more".to_owned()), limit: None, ..row(name, bytes, 0.0) }
    }

    fn on_gpu(mut row: Row, layers: u64) -> Row {
        let plan = row.plan.as_mut().unwrap();
        plan.parts[0].layers = 3 - layers;
        plan.parts.insert(0, Part { name: "CUDA0".to_owned(), layers, ..Part::default() });
        row
    }

    #[test]
    fn the_largest_that_is_comfortable_stands_first() {
        let mut rows = vec![
            too_big("huge", 9_000),
            row("slow", 5_000, 3.0),
            row("tiny", 1_000, 90.0),
            row("slower", 4_000, 2.0),
            row("good", 2_000, 8.0),
            too_big("huger", 10_000),
        ];
        sort(&mut rows);
        let names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(names, ["good", "tiny", "slow", "slower", "huger", "huge"]);
        assert_eq!(
            advice(&rows).as_deref(),
            Some("the largest that answers as fast as one reads: `infer run good`")
        );
        let slow = [row("slow", 5_000, 3.0)];
        let words = "none answers as fast as one reads; the fastest: `infer run slow`";
        assert_eq!(advice(&slow).as_deref(), Some(words));
        assert_eq!((advice(&[]), advice(&[too_big("huge", 1)])), (None, None));
    }

    #[test]
    fn the_table_says_what_is_estimated_and_what_is_here() {
        let rows = [
            row("good", 2_000_000, 8.04),
            Row { exact: true, here: true, quant: None, ..row("/a\nb.gguf", 2_000_000, 123.0) },
            on_gpu(row("part", 3_000_000, 20.0), 2),
            on_gpu(row("whole", 3_000_000, 20.0), 3),
            too_big("huge", 9_000),
        ];
        assert_eq!(
            table(&rows),
            "\
NAME        QUANT   SIZE     RUNS ON  CONTEXT  UP TO
good        Q4_K_M  ~2.0 MB  CPU      8,192    ~8.0 tokens/s
/a\\nb.gguf  -       2.0 MB   CPU      8,192    123.0 tokens/s  here
part        Q4_K_M  ~3.0 MB  GPU 67%  8,192    ~20.0 tokens/s
whole       Q4_K_M  ~3.0 MB  GPU      8,192    ~20.0 tokens/s
huge        Q4_K_M  ~9.0 KB  no       -        -               needs more
"
        );
    }

    #[test]
    fn the_objects_have_the_same_facts() {
        let rows = json(&[row("good", 2_000, 8.5), too_big("huge", 9_000)]);
        for (pointer, expected) in [
            ("/name", json!("good")),
            ("/bytes", json!(2_000)),
            ("/estimated", json!(true)),
            ("/fits", json!(true)),
            ("/why", Value::Null),
            ("/layers", Value::Null),
            ("/gpu_share", json!(0.0)),
            ("/context", json!(8192)),
            ("/memory", json!(2_000)),
            ("/tokens_per_second", json!(8.5)),
        ] {
            assert_eq!(rows[0].pointer(pointer), Some(&expected), "{pointer}");
        }
        assert_eq!((&rows[1]["fits"], &rows[1]["why"]), (&json!(false), &json!("needs more")));
        assert_eq!(rows[1]["tokens_per_second"], Value::Null);
    }
}
