//! What `infer tune` found, in words, tables and JSON.

use std::fmt::Write;

use serde_json::{Value, json};

use super::search::Step;
use crate::cli::bench::row::Test;
use crate::cli::models::columns;
use crate::cli::tuned::{self, Choice, Entry};
use crate::engine::LoadPlan;
use crate::human::{Escaped, Rate};

/// All that was measured, and what came of it.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) model: String,
    pub(super) machine: String,
    pub(super) defaults: LoadPlan,
    pub(super) best: LoadPlan,
    pub(super) steps: Vec<Step>,
    /// Settings that there was no time for.
    pub(super) left: Vec<&'static str>,
    /// The last comparison; empty where nothing was to be compared.
    pub(super) rows: Vec<Row>,
    /// Over all tests of the last comparison.
    pub(super) gain: f64,
    /// How many times as fast answers are with the KV cache in eight bits, if clearly.
    pub(super) kv: Option<f64>,
    /// The defaults were kept, because all changes together were not faster clearly.
    pub(super) kept: bool,
    pub(super) remembered: bool,
}

/// A test of the last comparison, in tokens per second.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) test: Test,
    pub(super) defaults: f64,
    pub(super) tuned: f64,
    pub(super) gain: f64,
}

impl Report {
    pub(super) fn text(&self) -> String {
        let mut rows = vec![["setting", "value", "speed", ""].map(str::to_owned)];
        rows.extend(self.steps.iter().map(|step| {
            let chosen = if step.chosen { "chosen" } else { "" };
            [step.setting.to_owned(), step.value.clone(), times(step.gain), chosen.to_owned()]
        }));
        let mut text = format!("{} on {}\n\n", Escaped(&self.model), Escaped(&self.machine));
        text += &columns(&rows);
        if !self.rows.is_empty() {
            let mut rows = vec![["test", "defaults t/s", "tuned t/s", "speed"].map(str::to_owned)];
            rows.extend(self.rows.iter().map(|row| {
                let rate = |rate| Rate(rate).to_string();
                [row.test.to_string(), rate(row.defaults), rate(row.tuned), times(row.gain)]
            }));
            text += "\n";
            text += &columns(&rows);
        }
        text += "\n";
        // Writing to a string cannot fail.
        let _ = writeln!(text, "llama.cpp's defaults: {}", tuned::words(&self.defaults));
        text += &self.conclusion();
        text
    }

    fn conclusion(&self) -> String {
        let mut text = String::new();
        if !self.left.is_empty() {
            let _ = writeln!(text, "no time for: {}; give more `--seconds`", self.left.join(", "));
        }
        if let Some(kv) = self.kv {
            let _ = writeln!(
                text,
                "`--kv q8_0` makes answers {} as fast; they differ a little, so it is not chosen",
                times(kv)
            );
        }
        let what = if self.rows.is_empty() {
            "nothing is clearly faster than the defaults".to_owned()
        } else if self.kept {
            "all changes together are not clearly faster than the defaults, which are kept".to_owned()
        } else {
            format!("{}: {}", times(self.gain), tuned::words(&self.best))
        };
        let remembered = if self.remembered { "remembered" } else { "not remembered" };
        let _ = writeln!(text, "{remembered}: {what}");
        text
    }

    pub(super) fn json(&self) -> Value {
        let step = |step: &Step| json!({ "setting": step.setting, "value": step.value, "gain": step.gain, "chosen": step.chosen });
        let row = |row: &Row| {
            json!({
                "test": row.test.to_string(),
                "defaults_ts": row.defaults,
                "tuned_ts": row.tuned,
                "gain": row.gain,
            })
        };
        json!({
            "model": self.model,
            "machine": self.machine,
            "defaults": Choice::of(&self.defaults),
            "tuned": Choice::of(&self.best),
            "steps": self.steps.iter().map(step).collect::<Vec<_>>(),
            "left": self.left,
            "tests": self.rows.iter().map(row).collect::<Vec<_>>(),
            "gain": self.gain,
            "kv_q8_0_gain": self.kv,
            "kept_defaults": self.kept,
            "remembered": self.remembered,
        })
    }
}

/// `1.38×`.
fn times(gain: f64) -> String {
    format!("{gain:.2}×")
}

/// What is remembered.
pub(super) fn list(entries: &[Entry]) -> String {
    if entries.is_empty() {
        return "nothing is tuned yet; `infer tune MODEL` measures\n".to_owned();
    }
    let mut rows = vec![["architecture", "size", "machine", "speed", "choice"].map(str::to_owned)];
    rows.extend(entries.iter().map(|entry| {
        let mut plan = LoadPlan::usual(0, crate::engine::KvType::F16, 1);
        entry.choice.apply(&mut plan, false);
        let key = &entry.key;
        let shown = |text: &str| Escaped(text).to_string();
        [
            shown(&key.architecture),
            shown(&key.parameters),
            shown(&key.machine),
            times(entry.gain),
            tuned::words(&plan),
        ]
    }));
    columns(&rows)
}

pub(super) fn list_json(entries: &[Entry]) -> Value {
    json!({ "tuned": entries })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::bench::row::Kind;
    use crate::engine::{Flash, KvType};

    fn report() -> Report {
        let defaults = LoadPlan::on_cpu(4096, KvType::F16, 2);
        let test = |kind, prompt, generated, depth| Test { kind, prompt, generated, depth };
        Report {
            model: "m".to_owned(),
            machine: "a CPU, 2 threads".to_owned(),
            best: LoadPlan { flash: Flash::Off, ..defaults.clone() },
            defaults,
            steps: vec![
                Step { setting: "flash attention", value: "off".to_owned(), gain: 1.384, chosen: true },
                Step { setting: "threads", value: "1".to_owned(), gain: 0.8, chosen: false },
            ],
            left: vec!["micro-batch"],
            rows: vec![
                Row { test: test(Kind::Prefill, 128, 0, 0), defaults: 400.0, tuned: 396.0, gain: 0.99 },
                Row { test: test(Kind::Decode, 0, 16, 2048), defaults: 25.0, tuned: 72.5, gain: 2.9 },
            ],
            gain: 1.69,
            kv: None,
            kept: false,
            remembered: true,
        }
    }

    #[test]
    fn the_tables_say_what_was_tried_and_what_it_gave() {
        assert_eq!(
            report().text(),
            "m on a CPU, 2 threads\n\
             \n\
             setting          value  speed\n\
             flash attention  off    1.38×  chosen\n\
             threads          1      0.80×\n\
             \n\
             test          defaults t/s  tuned t/s  speed\n\
             pp128         400.0         396.0      0.99×\n\
             tg16 @ d2048  25.0          72.5       2.90×\n\
             \n\
             llama.cpp's defaults: 2 threads, flash attention auto, micro-batch 512, no layers on the GPU\n\
             no time for: micro-batch; give more `--seconds`\n\
             remembered: 1.69×: 2 threads, flash attention off, micro-batch 512, no layers on the GPU\n"
        );
    }

    #[test]
    fn what_is_not_better_is_said_too() {
        let kept = Report { kept: true, remembered: false, left: Vec::new(), kv: Some(1.2), ..report() };
        let text = kept.text();
        assert!(text.ends_with(
            "`--kv q8_0` makes answers 1.20× as fast; they differ a little, so it is not chosen\n\
             not remembered: all changes together are not clearly faster than the defaults, which are kept\n"
        ));
        let nothing = Report { rows: Vec::new(), left: Vec::new(), ..report() };
        assert!(nothing.text().ends_with("remembered: nothing is clearly faster than the defaults\n"));
    }

    #[test]
    fn json_has_all_of_it() {
        let value = report().json();
        assert_eq!(value["tuned"]["flash_attention"], "off");
        assert_eq!(value["defaults"]["flash_attention"], "auto");
        assert_eq!(
            value["tests"][1],
            json!({ "test": "tg16 @ d2048", "defaults_ts": 25.0, "tuned_ts": 72.5, "gain": 2.9 })
        );
        assert_eq!(value["steps"][0]["chosen"], true);
        assert_eq!((&value["left"][0], &value["kv_q8_0_gain"]), (&json!("micro-batch"), &Value::Null));
    }

    #[test]
    fn the_list_has_a_line_for_each_choice() {
        let entry = crate::cli::tuned::tests::entry("llama");
        assert_eq!(
            list(std::slice::from_ref(&entry)),
            "architecture  size    machine           speed  choice\n\
             llama         134.2M  a CPU, 2 threads  1.25×  3 threads, 4 for prompts, flash attention off, micro-batch 128\n"
        );
        assert_eq!(list(&[]), "nothing is tuned yet; `infer tune MODEL` measures\n");
        assert_eq!(list_json(&[entry])["tuned"][0]["threads_batch"], 4);
    }
}
