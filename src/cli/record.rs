//! The figures of an answer as JSON: in `run --json`, and a line per request in the file of `--metrics-file`.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use super::models::seconds;
use super::ui::Ui;
use crate::session::Outcome;
use crate::session::metrics::{Metrics, Source};

/// Append the figures of a request as one line. Nothing of its text is in them. A file that can't be written is a note.
pub(crate) fn append(
    ui: &mut Ui,
    path: &Path,
    model: &str,
    window: usize,
    load: Option<Duration>,
    outcome: &Outcome,
) {
    let m = &outcome.metrics;
    let line = json!({
        "time": seconds(SystemTime::now()),
        "model": model,
        "finish": outcome.finish.as_str(),
        "tokens": tokens(m),
        "ms": times(m, load),
        "tokens_per_second": rates(m),
        "context": context(m, window),
        "bytes": bytes(m),
    });
    if let Err(e) = append_line(path, &line) {
        ui.note(&format!("metrics: cannot write `{}`: {e}", path.display()));
    }
}

/// One write for each line, so that those of several processes do not mix.
fn append_line(path: &Path, line: &Value) -> std::io::Result<()> {
    let mut options = File::options();
    options.create(true).append(true).read(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    // A line that a full disk cut off spoils no other.
    let mut last = [b'\n'];
    if file.seek(SeekFrom::End(-1)).is_ok() {
        file.read_exact(&mut last)?;
    }
    let before = if last == *b"\n" { "" } else { "\n" };
    file.write_all(format!("{before}{line}\n").as_bytes())
}

pub(crate) fn tokens(m: &Metrics) -> Value {
    json!({
        "prompt": m.prompt,
        "cached": m.cached,
        "evaluated": m.evaluated,
        "generated": m.generated,
        "cached_from": m.cached_from.map(Source::as_str),
        "not_cached": m.not_cached,
        "cache_hit": m.cache_hit().map(round),
    })
}

/// `load` is `None` where the model was there already.
pub(crate) fn times(m: &Metrics, load: Option<Duration>) -> Value {
    json!({
        "load": load.map(millis),
        "ttft": m.ttft.map(millis),
        "tpot": m.tpot().map(millis),
        "total": millis(load.unwrap_or_default() + m.total),
        "tpot_p50": m.steps.percentile(50).map(millis),
        "tpot_p95": m.steps.percentile(95).map(millis),
    })
}

pub(crate) fn rates(m: &Metrics) -> Value {
    json!({ "prefill": m.prefill_rate().map(round), "decode": m.decode_rate().map(round) })
}

pub(crate) fn context(m: &Metrics, window: usize) -> Value {
    json!({
        "size": window,
        "used": m.used,
        "dropped_turns": m.dropped_turns,
        "dropped_tokens": m.dropped_tokens,
        "evictions": m.evictions,
    })
}

/// Memory.
pub(crate) fn bytes(m: &Metrics) -> Value {
    json!({ "vram": m.vram })
}

/// Milliseconds with three decimals.
fn millis(time: Duration) -> f64 {
    round(time.as_secs_f64() * 1000.0)
}

fn round(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::Finish;

    #[test]
    fn a_line_is_added_for_each_request_and_trouble_is_a_note() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.jsonl");
        let (mut ui, out, err) = Ui::captured(false);
        let metrics = Metrics { prompt: 8, cached: 6, used: 9, vram: Some(7), ..Metrics::default() };
        let outcome =
            Outcome { finish: Finish::Stop, text: "secret".to_owned(), thought: String::new(), metrics };
        append(&mut ui, &path, "m", 16, None, &outcome);
        append(&mut ui, &path, "m", 16, Some(Duration::from_millis(5)), &outcome);
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 2);
        assert_eq!(
            (&lines[0]["tokens"]["cache_hit"], &lines[0]["context"]["used"]),
            (&json!(0.75), &json!(9))
        );
        assert_eq!((&lines[0]["ms"]["load"], &lines[1]["ms"]["load"]), (&Value::Null, &json!(5.0)));
        assert_eq!(lines[0]["bytes"], json!({ "vram": 7 }));
        assert!(!text.contains("secret") && err.text().is_empty());
        std::fs::write(&path, "{\"cut").unwrap();
        append(&mut ui, &path, "m", 16, None, &outcome);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("{\"cut\n{\"time\"") && text.ends_with("}\n"), "{text}");
        append(&mut ui, folder.path(), "m", 16, None, &outcome);
        assert!(err.text().starts_with("metrics: cannot write `") && out.text().is_empty());
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
    }
}
