//! The verdict: what quantizing cost, measured on one text.

use std::ops::ControlFlow;
use std::path::Path;

use serde_json::{Value, json};

use crate::cli::args::{GradeArg, QuantizeArgs};
use crate::cli::load::{self, TEXT};
use crate::cli::models::columns;
use crate::cli::ui::Ui;
use crate::engine::quality::{self, Comparison, Estimate, Evaluation, Event, Grade, Measuring};
use crate::engine::{KvType, LoadPlan};
use crate::error::{Error, Kind, Result};
use crate::human::Thousands;
use crate::machine;
use crate::model::gguf::Header;

/// What was measured.
pub(super) struct Verdict {
    comparison: Comparison,
    grade: Grade,
    /// The candidate's bytes over the reference's.
    size: f64,
}

/// Measure how the predictions of `candidate` differ from those of `reference`.
pub(super) fn measure(
    ui: &mut Ui,
    args: &QuantizeArgs,
    reference: &Path,
    candidate: &Path,
) -> Result<Verdict> {
    let text = args.check_text.as_deref().map(load::read_text).transpose()?;
    let headers =
        [reference, candidate].map(|path| Header::open(path).and_then(|header| header.with_parts(path)));
    let [first, second] = headers;
    let (first, second) = (first?, second?);
    first.check_runnable(reference)?;
    second.check_runnable(candidate)?;
    let plan = load_plan(args);
    let how = Measuring {
        plan: &plan,
        text: text.as_deref().unwrap_or(TEXT),
        together: fit_together(&first, &second),
        folder: &std::env::temp_dir(),
        brake: ui.brake(),
    };
    ui.stop_with_brake();
    let comparison = watch(ui, reference, candidate, &how)?;
    #[expect(clippy::cast_precision_loss, reason = "a ratio is shown with three digits")]
    let size = second.file_bytes as f64 / first.file_bytes.max(1) as f64;
    Ok(Verdict { grade: quality::judge(&comparison), comparison, size })
}

/// The perplexity of one model, which is then the product.
pub(super) fn alone(ui: &mut Ui, args: &QuantizeArgs, path: &Path) -> Result<()> {
    let text = args.check_text.as_deref().map(load::read_text).transpose()?;
    Header::open(path)?.with_parts(path)?.check_runnable(path)?;
    let plan = load_plan(args);
    let how = Measuring {
        plan: &plan,
        text: text.as_deref().unwrap_or(TEXT),
        together: true,
        folder: &std::env::temp_dir(),
        brake: ui.brake(),
    };
    ui.stop_with_brake();
    let mut bar = ui.progress("measuring", 1000);
    let go_on =
        |ui: &Ui| if ui.is_interrupted() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
    let weights = how.load(path, &mut |_| go_on(ui))?;
    let result = quality::perplexity(&mut how.open(&weights)?, how.text, plan.threads, &mut |done, all| {
        bar.set(done as u64 * 1000 / (all as u64).max(1));
        go_on(ui)
    });
    bar.clear();
    let Evaluation { perplexity, tokens } = result?;
    // Whether all of it could be written is asked once, at the end.
    let _ = if args.json {
        ui.json(&json!({ "tokens": tokens, "perplexity": { "value": perplexity.value, "error": perplexity.error } }))
    } else {
        let tokens = Thousands(tokens as u64);
        ui.page(&format!(
            "perplexity {} {} on {tokens} tokens\n",
            number(perplexity.value),
            error(perplexity)
        ))
    };
    Ok(())
}

/// Where a model goes to be looked into.
pub(super) fn load_plan(args: &QuantizeArgs) -> LoadPlan {
    LoadPlan::usual(512, KvType::F16, args.threads.map_or_else(machine::threads, usize::from))
}

/// Do both models and what measuring takes fit into memory at once?
fn fit_together(first: &Header, second: &Header) -> bool {
    let shape = first.shape();
    let logits =
        quality::memory_for_logits(usize::try_from(shape.vocabulary.unwrap_or(0)).unwrap_or(usize::MAX));
    let weights = shape.tensor_bytes.saturating_add(second.shape().tensor_bytes);
    machine::memory_available().is_none_or(|memory| weights.saturating_add(2 * logits) < memory / 10 * 9)
}

/// Measure with a bar.
fn watch(ui: &mut Ui, reference: &Path, candidate: &Path, how: &Measuring<'_>) -> Result<Comparison> {
    let mut bar = ui.progress("measuring", 1000);
    let result = quality::compare_files(reference, candidate, how, &mut |event| {
        if let Event::Evaluated(done, all) = event {
            bar.set(done as u64 * 1000 / (all as u64).max(1));
        }
        if ui.is_interrupted() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    bar.clear();
    if ui.is_interrupted() {
        return Err(Error::new(Kind::Interrupted, "interrupted while measuring; nothing was written"));
    }
    result
}

impl Verdict {
    /// The table and, below, the judgement.
    pub(super) fn text(&self) -> String {
        let c = &self.comparison;
        let rows = [
            ["", "value", "error"].map(str::to_owned),
            ["perplexity of the source".to_owned(), number(c.reference.value), error(c.reference)],
            ["perplexity of the result".to_owned(), number(c.candidate.value), error(c.candidate)],
            ["KL divergence, mean".to_owned(), format!("{:.5}", c.kl.value), format!("± {:.5}", c.kl.error)],
            ["KL divergence, 99 of 100 below".to_owned(), format!("{:.5}", c.kl_99), String::new()],
            [
                "same most likely token".to_owned(),
                percent(c.top1.value),
                format!("± {}", percent(c.top1.error)),
            ],
            ["size".to_owned(), percent(self.size), String::new()],
        ];
        format!("{}{}\n", columns(&rows), self.line())
    }

    /// One line, which also stands in the file.
    pub(super) fn line(&self) -> String {
        let better = Some("q5_k_m or --calibrate");
        quality::Verdict { comparison: &self.comparison, better }.to_string()
    }

    pub(super) fn json(&self) -> Value {
        let c = &self.comparison;
        let estimate = |e: Estimate| json!({ "value": e.value, "error": e.error });
        json!({
            "grade": self.grade.as_str(),
            "tokens": c.tokens,
            "perplexity": { "source": estimate(c.reference), "result": estimate(c.candidate), "ratio": estimate(c.ratio) },
            "kl_divergence": {
                "mean": estimate(c.kl), "median": c.kl_median, "p90": c.kl_90, "p95": c.kl_95, "p99": c.kl_99, "max": c.kl_max,
            },
            "top1_agreement": estimate(c.top1),
            "rms_delta_p": estimate(c.rms_dp),
            "size_ratio": self.size,
            "text": self.line(),
        })
    }

    /// Is it good enough for a script?
    pub(super) fn check(&self, least: Option<GradeArg>) -> Result<()> {
        let least = match least {
            None => return Ok(()),
            Some(GradeArg::Good) => Grade::Good,
            Some(GradeArg::Fair) => Grade::Fair,
        };
        if self.grade >= least {
            return Ok(());
        }
        Err(Error::failed(format!(
            "the verdict is {}, `--fail-below {}` was given",
            self.grade.as_str(),
            least.as_str()
        ))
        .hint("try a larger type such as `--to q5_k_m`, or `--calibrate TEXTFILE`"))
    }

    /// How much was measured on.
    pub(super) fn tokens(&self) -> String {
        format!("measured on {} tokens", Thousands(self.comparison.tokens as u64))
    }
}

fn number(value: f64) -> String {
    format!("{value:.4}")
}

fn error(estimate: Estimate) -> String {
    format!("± {:.4}", estimate.error)
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}
