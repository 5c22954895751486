//! An earlier run to compare with: the rows of `-o json` or `-o jsonl`, ours or llama-bench's.

use std::collections::HashMap;
use std::fs;
use std::io::Read;
use std::path::Path;

use serde_json::error::Category;
use serde_json::{Map, Value};

use super::json::theirs;
use super::row::{Kind, Row, quantile};
use crate::error::{Error, Result};
use crate::human::{Bytes, Count};

/// The most bytes of a file. A row has about two thousand.
const LARGEST: u64 = 16 << 20;

/// Slower than any machine, in tokens per second.
const SLOWEST: f64 = 1e-6;

/// Rows are compared only where all of these are the same, as far as both say them. In a row, `n_threads` are those that
/// work in its test; where a prompt is followed by an answer, others may work in the prompt.
const SETTINGS: [&str; 8] =
    ["n_batch", "n_ubatch", "n_threads", "type_k", "type_v", "n_gpu_layers", "flash_attn", "devices"];

const PROMPT_THREADS: &str = "n_threads_batch";

/// The rows of an earlier run, and what became of the comparison so far.
#[derive(Debug)]
pub(crate) struct Baseline {
    earlier: Vec<Earlier>,
    /// Of each row that could be compared, its name and its ratio.
    compared: Vec<(String, f64)>,
    /// Of the others, why not.
    missing: Vec<(String, String)>,
}

#[derive(Debug)]
struct Earlier {
    fields: Map<String, Value>,
    /// Tokens per second.
    speed: f64,
    is_used: bool,
}

impl Baseline {
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let name = path.display();
        let mut bytes = Vec::new();
        let read = fs::File::open(path).and_then(|file| file.take(LARGEST + 1).read_to_end(&mut bytes));
        read.map_err(|e| Error::usage(format!("cannot read `{name}`: {e}")))?;
        if bytes.len() as u64 > LARGEST {
            return Err(Error::usage(format!("`{name}` is larger than {}", Bytes(LARGEST))));
        }
        Self::parse(&bytes).map_err(|cause| {
            Error::usage(format!("cannot compare with `{name}`: {cause}"))
                .hint("`infer bench MODEL -o json > FILE` writes a file to compare with")
        })
    }

    fn parse(bytes: &[u8]) -> std::result::Result<Self, String> {
        let is_array = bytes.trim_ascii_start().starts_with(b"[");
        let rows: Vec<Map<String, Value>> =
            if is_array { serde_json::from_slice(bytes) } else { lines(bytes) }.map_err(|e| cause(&e))?;
        if rows.is_empty() {
            return Err("it has no rows".to_owned());
        }
        let earlier = rows
            .into_iter()
            .enumerate()
            .map(|(at, fields)| Earlier::new(fields).map_err(|cause| format!("row {}: {cause}", at + 1)));
        Ok(Self {
            earlier: earlier.collect::<std::result::Result<_, _>>()?,
            compared: Vec::new(),
            missing: Vec::new(),
        })
    }

    /// How many times as fast as earlier this row is; nothing where there was none like it.
    pub(crate) fn compare(&mut self, row: &Row) -> Option<f64> {
        let mut now: HashMap<&str, Value> = theirs(row).into_iter().collect();
        if row.test.kind == Kind::Answer {
            now.insert(PROMPT_THREADS, row.settings.threads_batch.into());
        }
        let name = format!("{} {}", row.model.name, row.test);
        let similar = self.earlier.iter_mut().filter(|earlier| earlier.is_same_test(row, &now));
        let mut reason = "not in it".to_owned();
        let mut ratio = None;
        // The last one counts, where a file was written on.
        for earlier in similar {
            if let Some(difference) = earlier.difference(&now) {
                reason = difference;
                continue;
            }
            earlier.is_used = true;
            ratio = row.median().map(|speed| speed / earlier.speed);
        }
        match ratio {
            Some(ratio) => self.compared.push((name, ratio)),
            None => self.missing.push((name, reason)),
        }
        ratio
    }

    /// What could not be compared, one line for each reason.
    pub(crate) fn notes(&self) -> Vec<String> {
        let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
        for (name, reason) in &self.missing {
            match reasons.iter_mut().find(|(known, _)| known == reason) {
                Some((_, names)) => names.push(name),
                None => reasons.push((reason, vec![name])),
            }
        }
        let mut notes: Vec<String> = reasons
            .into_iter()
            .map(|(reason, names)| format!("baseline: cannot compare {}: {reason}", names.join(", ")))
            .collect();
        let unused = self.earlier.iter().filter(|earlier| !earlier.is_used).count() as u64;
        if unused > 0 {
            notes.push(format!("baseline: not run this time: {}", Count(unused, "row")));
        }
        notes
    }

    /// An error when a row is slower by more than so many percent, or could not be compared: who asks wants to know of each.
    pub(crate) fn slower_than(&self, percent: f64) -> Result<()> {
        let cannot = |rows: String| {
            Error::failed(format!("{rows} be compared with the baseline"))
                .hint("use the tests and the settings of that run")
        };
        if self.compared.is_empty() {
            return Err(cannot("no row could".to_owned()));
        }
        let is_slower = |(_, ratio): &&(String, f64)| *ratio < 1.0 - percent / 100.0;
        let slower: Vec<String> = self
            .compared
            .iter()
            .filter(is_slower)
            .map(|(name, ratio)| format!("{name} by {:.1}%", (1.0 - ratio) * 100.0))
            .collect();
        if !slower.is_empty() {
            let rows = Count(slower.len() as u64, "row");
            let slower = slower.join(", ");
            return Err(Error::failed(format!(
                "{rows} slower than the baseline by more than {percent}%: {slower}"
            )));
        }
        if self.missing.is_empty() {
            return Ok(());
        }
        let missing: Vec<&str> = self.missing.iter().map(|(name, _)| name.as_str()).collect();
        Err(cannot(format!("{} cannot", missing.join(", "))))
    }
}

/// Not in the words of the parser, which may quote half of a file.
fn cause(e: &serde_json::Error) -> String {
    let cause = match e.classify() {
        Category::Eof => "it ends too early",
        Category::Data => "a row is no object",
        Category::Syntax | Category::Io => "it is no JSON",
    };
    format!("{cause}, at line {} column {}", e.line(), e.column())
}

/// One object after the other.
fn lines(bytes: &[u8]) -> serde_json::Result<Vec<Map<String, Value>>> {
    serde_json::Deserializer::from_slice(bytes).into_iter().collect()
}

impl Earlier {
    fn new(fields: Map<String, Value>) -> std::result::Result<Self, String> {
        let has = |name: &str, is_right: fn(&Value) -> bool| match fields.get(name) {
            Some(value) if is_right(value) => Ok(()),
            Some(_) => Err(format!("`{name}` has the wrong type")),
            None => Err(format!("no `{name}`")),
        };
        has("model_filename", Value::is_string)?;
        for name in ["n_prompt", "n_gen", "n_depth"] {
            has(name, Value::is_u64)?;
        }
        has("avg_ts", Value::is_number)?;
        let samples = fields.get("samples_ts").and_then(Value::as_array);
        let samples: Vec<f64> = samples.into_iter().flatten().filter_map(Value::as_f64).collect();
        let mean = fields.get("avg_ts").and_then(Value::as_f64);
        let speed = quantile(&samples, 0.5).or(mean).filter(|speed| speed.is_finite() && *speed >= SLOWEST);
        Ok(Self { speed: speed.ok_or("it has no speed")?, fields, is_used: false })
    }

    /// Is this the same test of the same model: one of the same name, or a file of the same name in whatever folder?
    fn is_same_test(&self, row: &Row, now: &HashMap<&str, Value>) -> bool {
        let text = |name: &str| self.fields.get(name).and_then(Value::as_str);
        let is_same_model = text("model") == Some(&row.model.name)
            || text("model_filename").is_some_and(|path| file_name(path) == file_name(&row.model.filename));
        let same = |name: &str| self.fields.get(name) == now.get(name);
        is_same_model && ["n_prompt", "n_gen", "n_depth"].into_iter().all(same)
    }

    /// The first setting that is another one now, in words.
    fn difference(&self, now: &HashMap<&str, Value>) -> Option<String> {
        SETTINGS.into_iter().chain([PROMPT_THREADS]).find_map(|name| {
            let (earlier, now) = (self.fields.get(name)?, now.get(name)?);
            (earlier != now).then(|| format!("`{name}` was {earlier} and is {now}"))
        })
    }
}

/// Behind the last slash of either kind.
fn file_name(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::super::json::{Format, Writer};
    use super::super::row::Test;
    use super::super::row::example::row;
    use super::*;

    /// 100 tokens per second.
    fn decode(depth: u32) -> Row {
        Row {
            test: Test { kind: Kind::Decode, prompt: 0, generated: 100, depth },
            ..row(&[1000, 1000, 1000])
        }
    }

    fn written(format: Format, rows: &[Row]) -> Vec<u8> {
        let mut writer = Writer::new(format);
        let begin = writer.begin();
        let rows: String = rows.iter().map(|row| writer.row(row, None)).collect();
        (begin + &rows + &writer.end()).into_bytes()
    }

    fn parsed(text: &[u8]) -> Baseline {
        Baseline::parse(text).unwrap()
    }

    #[test]
    fn our_own_rows_are_read_in_both_forms() {
        let slower = Row { samples: row(&[900, 1250, 2000]).samples, ..decode(0) };
        for format in [Format::Json, Format::Jsonl] {
            let mut baseline = parsed(&written(format, &[decode(0), decode(16)]));
            assert_eq!(baseline.compare(&slower), Some(0.8));
            assert_eq!(baseline.compare(&decode(16)), Some(1.0));
            assert_eq!(baseline.notes(), [""; 0]);
        }
    }

    #[test]
    fn rows_of_llama_bench_are_read() {
        let text = br#"[
  {
    "build_commit": "unknown", "build_number": 0, "model_filename": "C:\\elsewhere\\smollm2.gguf",
    "n_batch": 2048, "n_ubatch": 512, "n_threads": 2, "type_k": "f16", "type_v": "f16", "n_gpu_layers": -1,
    "flash_attn": -1, "devices": "auto", "n_prompt": 0, "n_gen": 100, "n_depth": 0, "avg_ts": 60.000000,
    "samples_ns": [ 2000000000, 2000000000, 1250000000 ],
    "samples_ts": [ 50, 50, 80 ]
  }
]
"#;
        let mut baseline = parsed(text);
        assert_eq!(baseline.compare(&decode(0)), Some(2.0));
        assert_eq!(baseline.compare(&Row { samples: Vec::new(), ..decode(0) }), None);
    }

    #[test]
    fn without_samples_the_mean_counts_and_what_one_side_does_not_say_cannot_differ() {
        let text =
            br#"{"model_filename": "smollm2.gguf", "n_prompt": 0, "n_gen": 100, "n_depth": 0, "avg_ts": 25}"#;
        assert_eq!(parsed(text).compare(&decode(0)), Some(4.0));
    }

    #[test]
    fn of_rows_that_are_the_same_the_last_one_counts() {
        let later = Row { samples: row(&[500]).samples, ..decode(0) };
        let mut baseline = parsed(&written(Format::Jsonl, &[decode(0), later]));
        assert_eq!(baseline.compare(&decode(0)), Some(0.5));
        assert_eq!(baseline.notes(), [""; 0]);
    }

    #[test]
    fn what_cannot_be_compared_is_told_with_its_reason() {
        let mut baseline = parsed(&written(Format::Json, &[decode(0), decode(16), decode(32)]));
        let mut other = decode(0);
        other.model.name = "other".to_owned();
        other.model.filename = "/models/other.gguf".to_owned();
        let mut threads = [decode(0), decode(16)];
        for row in &mut threads {
            row.settings.threads = 4;
        }
        assert_eq!(baseline.compare(&other), None);
        assert!(threads.iter().all(|row| baseline.compare(row).is_none()));
        assert_eq!(baseline.compare(&decode(0)), Some(1.0));
        assert_eq!(
            baseline.notes(),
            [
                "baseline: cannot compare other tg100: not in it",
                "baseline: cannot compare smollm2:135m tg100, smollm2:135m tg100 @ d16: `n_threads` was 2 and is 4",
                "baseline: not run this time: 2 rows",
            ]
        );
    }

    #[test]
    fn threads_for_prompts_are_compared_where_they_work_beside_others() {
        let row = |kind, prompt, generated, threads_batch| {
            let mut row = decode(0);
            (row.test, row.settings.threads_batch) =
                (Test { kind, prompt, generated, depth: 0 }, threads_batch);
            row
        };
        for (kind, prompt, generated, differs) in [
            (Kind::Answer, 64, 16, Some("`n_threads_batch` was 2 and is 4")),
            (Kind::Prefill, 64, 0, Some("`n_threads` was 2 and is 4")),
            (Kind::Decode, 0, 16, None),
        ] {
            let mut earlier = written(Format::Jsonl, &[row(kind, prompt, generated, 2)]);
            let mut baseline = parsed(&earlier);
            baseline.compare(&row(kind, prompt, generated, 4));
            let reason = baseline.missing.first().map(|(_, reason)| reason.as_str());
            assert_eq!((reason, baseline.compared.is_empty()), (differs, differs.is_some()), "{kind:?}");
            // A row of llama-bench says nothing of it.
            earlier = String::from_utf8(earlier).unwrap().replace(PROMPT_THREADS, "other").into_bytes();
            let mut baseline = parsed(&earlier);
            baseline.compare(&row(kind, prompt, generated, 4));
            assert_eq!(baseline.compared.is_empty(), kind == Kind::Prefill, "{kind:?}");
        }
    }

    #[test]
    fn a_model_is_known_by_its_name_or_its_file() {
        let mut renamed = decode(0);
        renamed.model.name = "./smollm2.gguf".to_owned();
        let mut moved = decode(0);
        moved.model.filename = "blob".to_owned();
        let mut other = decode(0);
        (other.model.name, other.model.filename) =
            ("smollm2:360m".to_owned(), "/models/smollm2-360m.gguf".to_owned());
        let mut baseline = parsed(&written(Format::Json, &[decode(0)]));
        assert_eq!([&renamed, &moved, &other].map(|row| baseline.compare(row)), [Some(1.0), Some(1.0), None]);
    }

    #[test]
    fn slower_rows_fail_and_so_do_those_that_cannot_be_compared() {
        let mut baseline = parsed(&written(Format::Json, &[decode(0), decode(16)]));
        let message = |baseline: &Baseline, percent| baseline.slower_than(percent).map_err(|e| e.message);
        assert_eq!(message(&baseline, 5.0), Err("no row could be compared with the baseline".to_owned()));
        baseline.compare(&Row { samples: row(&[1250]).samples, ..decode(0) });
        baseline.compare(&Row { samples: row(&[900]).samples, ..decode(16) });
        assert_eq!(message(&baseline, 20.5), Ok(()));
        let slower = "1 row slower than the baseline by more than 19.5%: smollm2:135m tg100 by 20.0%";
        assert_eq!(message(&baseline, 19.5), Err(slower.to_owned()));
        assert_eq!(baseline.slower_than(19.5).unwrap_err().kind.exit_code(), 1);
        baseline.compare(&decode(32));
        baseline.compare(&decode(64));
        assert_eq!(message(&baseline, 19.5), Err(slower.to_owned()));
        let missing =
            "smollm2:135m tg100 @ d32, smollm2:135m tg100 @ d64 cannot be compared with the baseline";
        assert_eq!(message(&baseline, 20.5), Err(missing.to_owned()));
        assert_eq!(baseline.slower_than(20.5).unwrap_err().kind.exit_code(), 1);
    }

    #[test]
    fn a_file_that_is_no_earlier_run_is_refused_in_one_line() {
        let row = r#""model_filename": "m", "n_prompt": 0, "n_gen": 1, "n_depth": 0"#;
        let with = |more: &str| format!("{{{row}, {more}}}");
        let deep = "[".repeat(100_000);
        for (text, cause) in [
            (String::new(), "it has no rows"),
            ("[]".to_owned(), "it has no rows"),
            ("model,size\n".to_owned(), "it is no JSON, at line 1 column 1"),
            ("[1]".to_owned(), "a row is no object, at line 1 column 2"),
            ("[{}".to_owned(), "it ends too early, at line 1 column 3"),
            (deep, "a row is no object, at line 1 column 1"),
            ("{}".to_owned(), "row 1: no `model_filename`"),
            (r#"{"model_filename": 1}"#.to_owned(), "row 1: `model_filename` has the wrong type"),
            (
                with(r#""avg_ts": 1"#).replace("\"n_gen\": 1", "\"n_gen\": -1"),
                "row 1: `n_gen` has the wrong type",
            ),
            (with(r#""avg_ts": "1""#), "row 1: `avg_ts` has the wrong type"),
            (with(r#""avg_ts": 0"#), "row 1: it has no speed"),
            (with(r#""avg_ts": 1, "samples_ts": [0, -1]"#), "row 1: it has no speed"),
            (with(r#""avg_ts": 1e-300"#), "row 1: it has no speed"),
            (with(r#""avg_ts": 1e999"#), "it is no JSON, at line 1 column 80"),
            (with(r#""avg_ts": nan"#), "it is no JSON, at line 1 column 77"),
            ("\u{0}\u{1b}".to_owned(), "it is no JSON, at line 1 column 1"),
        ] {
            assert_eq!(Baseline::parse(text.as_bytes()).unwrap_err(), cause, "{text:.100}");
        }
        assert!(Baseline::parse(b"{\"a\": \"\xff\"}").is_err());
    }

    #[test]
    fn errors_name_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("b.json");
        let error = Baseline::read(&path).unwrap_err();
        assert!(error.message.starts_with("cannot read `") && error.kind.exit_code() == 2, "{error}");
        fs::write(&path, "hello").unwrap();
        let error = Baseline::read(&path).unwrap_err();
        let shown = path.display();
        assert_eq!(
            error.message,
            format!("cannot compare with `{shown}`: it is no JSON, at line 1 column 1")
        );
        assert_eq!(
            error.hint.as_deref(),
            Some("`infer bench MODEL -o json > FILE` writes a file to compare with")
        );
        fs::File::create(&path).unwrap().set_len(LARGEST + 1).unwrap();
        assert_eq!(Baseline::read(&path).unwrap_err().message, format!("`{shown}` is larger than 16.8 MB"));
    }
}
