//! Rows for programs: `json`, `jsonl` and `csv` with the keys of llama-bench b11434, then ours. What llama-bench can choose
//! and this program cannot has llama-bench's default.

use std::time::Duration;

use serde_json::{Value, json};

use super::row::{Row, Settings, deviation, mean};
use crate::cli::ui;
use crate::engine::GpuLayers;

/// How rows are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// One array, open until the end.
    Json,
    /// One object a line.
    Jsonl,
    /// A line of names, then one line for each row. Without the samples.
    Csv,
}

/// Rows as text, each as it comes.
pub(crate) struct Writer {
    format: Format,
    rows: usize,
}

impl Writer {
    pub(crate) fn new(format: Format) -> Self {
        Self { format, rows: 0 }
    }

    /// Before the first row, which may be minutes away.
    pub(crate) fn begin(&self) -> String {
        match self.format {
            Format::Json => "[\n".to_owned(),
            Format::Jsonl | Format::Csv => String::new(),
        }
    }

    /// One row; `ratio` compares it with an earlier run.
    pub(crate) fn row(&mut self, row: &Row, ratio: Option<f64>) -> String {
        self.rows += 1;
        match self.format {
            Format::Json => {
                let before = if self.rows > 1 { ",\n" } else { "" };
                let lines: Vec<String> = members(row, ratio).map(|member| format!("    {member}")).collect();
                format!("{before}  {{\n{}\n  }}", lines.join(",\n"))
            }
            Format::Jsonl => format!("{{{}}}\n", members(row, ratio).collect::<Vec<_>>().join(", ")),
            Format::Csv => {
                let (names, cells): (Vec<_>, Vec<_>) = theirs(row)
                    .into_iter()
                    .chain(ours(row, ratio))
                    .map(|(name, value)| (name, cell(&value)))
                    .unzip();
                let names = if self.rows > 1 { String::new() } else { format!("{}\n", names.join(",")) };
                format!("{names}{}\n", cells.join(","))
            }
        }
    }

    /// After the last row, also after Ctrl-C.
    pub(crate) fn end(&self) -> String {
        match self.format {
            Format::Json if self.rows > 0 => "\n]\n".to_owned(),
            Format::Json => "]\n".to_owned(),
            Format::Jsonl | Format::Csv => String::new(),
        }
    }
}

type Field = (&'static str, Value);

/// `"name": value` of everything, in order. A terminal must not obey what stands in a name.
fn members(row: &Row, ratio: Option<f64>) -> impl Iterator<Item = String> {
    let fields = theirs(row).into_iter().chain(samples(row)).chain(ours(row, ratio));
    fields.map(|(name, value)| format!("\"{name}\": {}", ui::harmless_json(&value.to_string())))
}

/// What llama-bench's `get_fields` lists.
pub(super) fn theirs(row: &Row) -> Vec<Field> {
    let Row { run, model, settings, test, .. } = row;
    let rates = row.rates();
    let seconds: Vec<f64> = row.samples.iter().map(Duration::as_secs_f64).collect();
    let in_all: Duration = row.samples.iter().sum();
    let repetitions = u32::try_from(row.samples.len()).unwrap_or(u32::MAX).max(1);
    vec![
        ("build_commit", json!(run.build_commit)),
        ("build_number", json!(run.build_number)),
        ("cpu_info", json!(run.cpu_info)),
        ("gpu_info", json!(run.gpu_info)),
        ("backends", json!(run.backends)),
        ("model_filename", json!(model.filename)),
        ("model_type", json!(model.kind)),
        ("model_size", json!(model.bytes)),
        ("model_n_params", json!(model.params)),
        ("n_batch", json!(settings.batch)),
        ("n_ubatch", json!(settings.ubatch)),
        ("n_threads", json!(row.threads())),
        ("cpu_mask", json!("0x0")),
        ("cpu_strict", json!(false)),
        ("poll", json!(50)),
        ("type_k", json!(settings.kv.to_string())),
        ("type_v", json!(settings.kv.to_string())),
        ("n_gpu_layers", json!(gpu_layers(settings))),
        ("n_cpu_moe", json!(0)),
        ("split_mode", json!("layer")),
        ("main_gpu", json!(0)),
        ("no_kv_offload", json!(false)),
        ("flash_attn", json!(settings.flash.map_or(-1, i32::from))),
        ("devices", json!(devices(settings))),
        ("tensor_split", json!("0.00")),
        ("tensor_buft_overrides", json!("none")),
        ("load_mode", json!("auto")),
        ("lazy_mode", json!("auto")),
        ("embeddings", json!(false)),
        ("no_op_offload", json!(0)),
        ("no_host", json!(false)),
        ("repack", json!(true)),
        ("fit_target", json!(0)),
        ("fit_min_ctx", json!(0)),
        ("n_prompt", json!(test.prompt)),
        ("n_gen", json!(test.generated)),
        ("n_depth", json!(test.depth)),
        ("test_time", json!(row.at.strftime("%FT%TZ").to_string())),
        ("avg_ns", json!(nanoseconds(in_all / repetitions))),
        (
            "stddev_ns",
            json!(nanoseconds(Duration::try_from_secs_f64(deviation(&seconds)).unwrap_or_default())),
        ),
        ("avg_ts", decimal(mean(&rates))),
        ("stddev_ts", decimal(deviation(&rates))),
    ]
}

/// What llama-bench writes behind them, in JSON only.
fn samples(row: &Row) -> [Field; 2] {
    let times: Vec<u64> = row.samples.iter().copied().map(nanoseconds).collect();
    let rates: Vec<Value> = row.rates().into_iter().map(decimal).collect();
    [("samples_ns", json!(times)), ("samples_ts", json!(rates))]
}

/// What only this program writes; `null` where there is nothing to say.
fn ours(row: &Row, ratio: Option<f64>) -> Vec<Field> {
    let answer = row.answer.as_ref();
    let roofline = row.roofline.filter(|roofline| roofline.tokens_per_second.is_finite());
    let or_null = |value: Option<f64>| value.map_or(Value::Null, decimal);
    let millis = |time: Option<Duration>| or_null(time.map(|time| time.as_secs_f64() * 1000.0));
    vec![
        ("infer_version", json!(row.run.infer_version)),
        ("model", json!(row.model.name)),
        ("test", json!(row.test.to_string())),
        ("n_threads_batch", json!(row.settings.threads_batch)),
        ("median_ts", or_null(row.median())),
        ("spread", or_null(row.spread())),
        ("noisy", json!(row.spread().map(|_| row.is_noisy()))),
        ("ttft_ms", millis(answer.map(|answer| answer.ttft))),
        ("tpot_ms", millis(answer.map(|answer| answer.tpot_p50))),
        ("tpot_p95_ms", millis(answer.map(|answer| answer.tpot_p95))),
        ("end_to_end_ms", millis(answer.map(|answer| answer.end_to_end))),
        ("ttft_again_ms", millis(answer.and_then(|answer| answer.ttft_again))),
        ("cache_hit", or_null(answer.and_then(|answer| answer.cache_hit))),
        ("load_ms", millis(row.load.warm)),
        ("load_cold_ms", millis(row.load.cold)),
        ("roofline_ts", or_null(roofline.map(|roofline| roofline.tokens_per_second))),
        ("roofline_pct", or_null(row.roofline_percent())),
        ("roofline_bound", json!(roofline.map(|roofline| roofline.bound.to_string()))),
        ("memory_peak", json!(row.memory.peak)),
        ("memory_steady", json!(row.memory.steady)),
        ("vram", json!(row.memory.vram)),
        ("baseline_ratio", or_null(ratio)),
    ]
}

/// llama.cpp's numbers for choices that are none.
fn gpu_layers(settings: &Settings) -> i64 {
    match settings.gpu_layers {
        GpuLayers::Auto => -1,
        GpuLayers::All => -2,
        GpuLayers::Count(layers) => layers.into(),
    }
}

fn devices(settings: &Settings) -> &str {
    match settings.device.as_deref() {
        None => "auto",
        Some(name) if name.eq_ignore_ascii_case("cpu") => "none",
        Some(name) => name,
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// A number with the six decimals of llama-bench; `null` for one that JSON has not.
fn decimal(value: f64) -> Value {
    json!((value * 1e6).round() / 1e6)
}

/// As llama-bench: in quotes whatever it is, yes and no as 1 and 0.
fn cell(value: &Value) -> String {
    let text = match value {
        Value::Null => String::new(),
        Value::Bool(yes) => u8::from(*yes).to_string(),
        Value::String(text) => text.replace('"', "\"\""),
        number => number.to_string(),
    };
    format!("\"{text}\"")
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::super::row::example::{self, full};
    use super::super::row::{Kind, Test};
    use super::*;
    use crate::engine::KvType;

    /// What `llama-bench -o json` of b11434 printed for a model with two repetitions, up to names of this machine.
    const LLAMA_BENCH: &str = r#"{
    "build_commit": "unknown",
    "build_number": 0,
    "cpu_info": "AMD EPYC",
    "gpu_info": "",
    "backends": "CPU",
    "model_filename": "/models/smollm2.gguf",
    "model_type": "llama 256M Q4_1",
    "model_size": 96576768,
    "model_n_params": 134515008,
    "n_batch": 2048,
    "n_ubatch": 512,
    "n_threads": 2,
    "cpu_mask": "0x0",
    "cpu_strict": false,
    "poll": 50,
    "type_k": "f16",
    "type_v": "f16",
    "n_gpu_layers": -1,
    "n_cpu_moe": 0,
    "split_mode": "layer",
    "main_gpu": 0,
    "no_kv_offload": false,
    "flash_attn": -1,
    "devices": "auto",
    "tensor_split": "0.00",
    "tensor_buft_overrides": "none",
    "load_mode": "auto",
    "lazy_mode": "auto",
    "embeddings": false,
    "no_op_offload": 0,
    "no_host": false,
    "repack": true,
    "fit_target": 0,
    "fit_min_ctx": 0,
    "n_prompt": 0,
    "n_gen": 4,
    "n_depth": 0,
    "test_time": "2026-12-01T06:13:20Z",
    "avg_ns": 108839787,
    "stddev_ns": 7858759,
    "avg_ts": 36.847318,
    "stddev_ts": 2.660550,
    "samples_ns": [ 114396760, 103282815 ],
    "samples_ts": [ 34.966, 38.7286 ]
  }"#;

    const OURS: [&str; 22] = [
        "infer_version",
        "model",
        "test",
        "n_threads_batch",
        "median_ts",
        "spread",
        "noisy",
        "ttft_ms",
        "tpot_ms",
        "tpot_p95_ms",
        "end_to_end_ms",
        "ttft_again_ms",
        "cache_hit",
        "load_ms",
        "load_cold_ms",
        "roofline_ts",
        "roofline_pct",
        "roofline_bound",
        "memory_peak",
        "memory_steady",
        "vram",
        "baseline_ratio",
    ];

    fn parse(text: &str) -> serde_json::Map<String, Value> {
        serde_json::from_str(text).unwrap()
    }

    /// The same measurement as llama-bench's.
    fn same() -> Row {
        let mut row = example::row(&[]);
        row.samples = [114_396_760, 103_282_815].map(Duration::from_nanos).to_vec();
        row.test = Test { kind: Kind::Decode, prompt: 0, generated: 4, depth: 0 };
        row.run.build_commit = "unknown".to_owned();
        row.run.build_number = 0;
        row.at = "2026-12-01T06:13:20.75Z".parse::<Timestamp>().unwrap();
        row
    }

    #[test]
    fn the_same_measurement_is_written_as_llama_bench_writes_it() {
        let theirs = parse(LLAMA_BENCH);
        let ours = parse(&Writer::new(Format::Jsonl).row(&same(), None));
        for ((name, value), (our_name, our_value)) in theirs.iter().zip(&ours) {
            assert_eq!(name, our_name);
            let close = |a: &Value, b: &Value| match (a.as_f64(), b.as_f64()) {
                // llama-bench rounds its samples to six digits, and cuts off parts of nanoseconds.
                (Some(a), Some(b)) => {
                    (a - b).abs() <= a.abs() * 2e-5 && a.fract().eq(&0.0) == b.fract().eq(&0.0)
                }
                _ => a == b,
            };
            let same = match (value.as_array(), our_value.as_array()) {
                (Some(a), Some(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| close(a, b)),
                _ => close(value, our_value),
            };
            assert!(same, "{name}: {value} is not {our_value}");
        }
        let more: Vec<&String> = ours.keys().skip(theirs.len()).collect();
        assert_eq!(more, OURS);
    }

    #[test]
    fn all_that_was_measured_is_there_and_null_where_nothing_was() {
        let full = parse(&Writer::new(Format::Jsonl).row(&full(), Some(1.5)));
        let expected = json!([
            "0.1.0",
            "smollm2:135m",
            "pp60+tg40 @ d16",
            2,
            100.0,
            0.0,
            false,
            400.0,
            12.5,
            20.0,
            1000.0,
            15.0,
            0.25,
            50.0,
            300.0,
            125.0,
            80.0,
            "bandwidth",
            3_000_000,
            2_000_000,
            1_000_000,
            1.5
        ]);
        assert_eq!(json!(OURS.map(|name| &full[name])), expected);
        let bare = parse(&Writer::new(Format::Jsonl).row(&example::row(&[]), None));
        let null = Value::Null;
        assert!(OURS[4..].iter().all(|name| bare[*name] == null), "{bare:?}");
        assert_eq!(
            (&bare["avg_ns"], &bare["avg_ts"], &bare["samples_ns"]),
            (&json!(0), &json!(0.0), &json!([]))
        );
    }

    #[test]
    fn choices_have_the_numbers_of_llama_cpp() {
        let mut row = full();
        row.test.kind = Kind::Prefill;
        row.settings = Settings {
            batch: 256,
            ubatch: 128,
            threads: 2,
            threads_batch: 4,
            kv: KvType::Q8_0,
            gpu_layers: GpuLayers::Count(12),
            flash: Some(true),
            device: Some("CUDA0".to_owned()),
        };
        let values = |row: &Row| {
            let row = parse(&Writer::new(Format::Jsonl).row(row, None));
            let names = ["n_batch", "n_ubatch", "n_threads", "n_threads_batch", "type_k", "type_v"];
            let more = ["n_gpu_layers", "flash_attn", "devices"];
            json!(names.iter().chain(&more).map(|name| row[*name].clone()).collect::<Vec<_>>())
        };
        assert_eq!(values(&row), json!([256, 128, 4, 4, "q8_0", "q8_0", 12, 1, "CUDA0"]));
        row.test.kind = Kind::Decode;
        row.settings.gpu_layers = GpuLayers::All;
        row.settings.flash = Some(false);
        row.settings.device = Some("cpu".to_owned());
        assert_eq!(values(&row), json!([256, 128, 2, 4, "q8_0", "q8_0", -2, 0, "none"]));
    }

    #[test]
    fn an_array_is_whole_however_many_rows_there_were() {
        for rows in 0..3 {
            let mut writer = Writer::new(Format::Json);
            let mut text = writer.begin();
            assert_eq!(text, "[\n");
            (0..rows).for_each(|_| text += &writer.row(&full(), None));
            text += &writer.end();
            let Ok(Value::Array(read)) = serde_json::from_str(&text) else { panic!("{text}") };
            assert_eq!(read.len(), rows);
        }
    }

    #[test]
    fn every_line_is_an_object() {
        let mut writer = Writer::new(Format::Jsonl);
        let text =
            [writer.begin(), writer.row(&full(), None), writer.row(&same(), None), writer.end()].concat();
        assert_eq!(
            text.lines().map(parse).map(|row| row["test"].clone()).collect::<Vec<_>>(),
            ["pp60+tg40 @ d16", "tg4"]
        );
    }

    #[test]
    fn a_table_of_commas_has_its_names_once() {
        let mut writer = Writer::new(Format::Csv);
        let mut row = full();
        row.model.name = "a \"b\", c".to_owned();
        row.roofline = None;
        let text = [writer.begin(), writer.row(&row, None), writer.row(&same(), None), writer.end()].concat();
        let lines: Vec<&str> = text.lines().collect();
        let theirs = parse(LLAMA_BENCH);
        let names = theirs.keys().map(String::as_str).filter(|name| !name.starts_with("samples"));
        assert_eq!(lines[0].split(',').collect::<Vec<_>>(), names.chain(OURS).collect::<Vec<_>>());
        assert_eq!(lines.len(), 3);
        assert!(
            lines[1].starts_with(r#""abc1234","11434","AMD EPYC","","CPU","/models/smollm2.gguf","#),
            "{}",
            lines[1]
        );
        let ours = r#""0.1.0","a ""b"", c","pp60+tg40 @ d16","2","100.0","0.0","0","400.0","12.5","20.0","1000.0","15.0","0.25","50.0","300.0","","","","3000000","2000000","1000000","""#;
        assert!(lines[1].ends_with(ours), "{}", lines[1]);
    }

    #[test]
    fn a_name_cannot_move_a_cursor_or_end_a_line() {
        let mut row = full();
        row.model.name = "a\u{9b}2J\n\u{202e}é".to_owned();
        let line = Writer::new(Format::Jsonl).row(&row, None);
        assert!(line.contains(r#""model": "a\u009b2J\n\u202eé""#), "{line}");
        assert_eq!(parse(&line)["model"], json!(row.model.name));
    }
}
