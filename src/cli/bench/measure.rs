//! One test on one model: warm up, repeat, and gather what a row says.

use std::time::Duration;

use super::row::{Answer, Kind, Memory, Test, quantile};
use super::work::Left;
use crate::cli::load::TEXT;
use crate::engine::llama::Llama;
use crate::engine::{Engine, Sampling, Token};
use crate::error::Result;
use crate::machine;
use crate::session::speed::{Track, text_of};
use crate::session::{Finish, Metrics, Now, Options, Overflow, Session, Think};

/// A CUDA graph is recorded when a step has been seen three times.
const WARM_STEPS: usize = 4;

/// Two times in a row within this share of each other, and a device is warm.
const WARM: f64 = 0.05;

/// Warming up ends here in any case.
const WARM_TRIES: usize = 3;

/// What a test found.
pub(super) struct Measured {
    pub(super) samples: Vec<Duration>,
    pub(super) answer: Option<Answer>,
    pub(super) memory: Memory,
}

/// Told after each repetition what of the work it was, and how long it took.
pub(super) type Report<'a> = dyn FnMut(Left, Duration) + 'a;

/// Run a test so many times in a context of its own. `None` when the brake stopped it.
pub(super) fn measure(
    llama: Llama<'_>,
    test: Test,
    repetitions: u32,
    report: &mut Report<'_>,
) -> Result<Option<Measured>> {
    let tokens = text_of(&llama, TEXT, super::work::window(test) as usize)?;
    match test.kind {
        Kind::Answer => answers(llama, &tokens, test, repetitions, report),
        Kind::Prefill | Kind::Decode => steps(llama, &tokens, test, repetitions, report),
    }
}

fn steps(
    mut llama: Llama<'_>,
    tokens: &[Token],
    test: Test,
    repetitions: u32,
    report: &mut Report<'_>,
) -> Result<Option<Measured>> {
    let mut track = Track::new(&mut llama, tokens, test.depth as usize);
    let mut one = |prompt: usize, generated: usize| -> Result<Option<Duration>> {
        match test.kind {
            Kind::Prefill => track.prefill(prompt),
            _ => Ok(track.decode(generated)?.map(|times| times.iter().sum())),
        }
    };
    let (prompt, generated) = (test.prompt as usize, test.generated as usize);
    let mut last: Option<Duration> = None;
    for _ in 0..WARM_TRIES {
        let Some(time) = one(prompt, generated.min(WARM_STEPS))? else { return Ok(None) };
        if last.replace(time).is_some_and(|last| is_near(last, time)) {
            break;
        }
    }
    let mut samples = Vec::new();
    for _ in 0..repetitions {
        let Some(time) = one(prompt, generated)? else { return Ok(None) };
        report(Left::of(test), time);
        samples.push(time);
    }
    Ok(Some(Measured { samples, answer: None, memory: memory(llama.vram()) }))
}

fn is_near(one: Duration, other: Duration) -> bool {
    (one.as_secs_f64() / other.as_secs_f64() - 1.0).abs() < WARM
}

/// Whole answers, each from an empty cache.
fn answers(
    llama: Llama<'_>,
    tokens: &[Token],
    test: Test,
    repetitions: u32,
    report: &mut Report<'_>,
) -> Result<Option<Measured>> {
    let prompt = &tokens[..test.prompt as usize];
    let mut session = Session::new(llama, None);
    let mut one = |generated: usize, from_empty: bool| -> Result<Option<Metrics>> {
        if from_empty {
            session.forget()?;
        }
        let outcome =
            session.measure(prompt, &options(generated), &mut |_| std::ops::ControlFlow::Continue(()))?;
        Ok((outcome.finish != Finish::Interrupted).then_some(outcome.metrics))
    };
    let generated = test.generated as usize;
    if one(generated.min(WARM_STEPS), true)?.is_none() {
        return Ok(None);
    }
    let mut all = Vec::new();
    for _ in 0..repetitions {
        let Some(metrics) = one(generated, true)? else { return Ok(None) };
        report(Left::of(test), metrics.total);
        all.push(metrics);
    }
    let vram = all.last().and_then(|metrics| metrics.vram);
    // As in a conversation, where the beginning of the prompt is there already.
    let Some(again) = one(generated.min(WARM_STEPS), false)? else { return Ok(None) };
    let samples = all.iter().map(|metrics| metrics.total).collect();
    Ok(Some(Measured { samples, answer: answer(&all, &again), memory: memory(vram) }))
}

/// Greedy would be faster than what `run` does without being asked.
fn options(generated: usize) -> Options {
    Options {
        sampling: Sampling { seed: 1, ..Sampling::default() },
        stops: Vec::new(),
        max_tokens: Some(generated),
        think: Think::Auto,
        overflow: Overflow::Stop,
        keep: 0,
        now: Now::default(),
    }
}

/// The middle of each figure.
fn answer(all: &[Metrics], again: &Metrics) -> Option<Answer> {
    let middle = |times: Vec<Duration>| {
        let seconds: Vec<f64> = times.iter().map(Duration::as_secs_f64).collect();
        quantile(&seconds, 0.5).map(Duration::from_secs_f64)
    };
    let of = |figure: &dyn Fn(&Metrics) -> Option<Duration>| middle(all.iter().filter_map(figure).collect());
    Some(Answer {
        ttft: of(&|m| Some(first(m)))?,
        tpot_p50: of(&|m| m.steps.percentile(50)).unwrap_or_default(),
        tpot_p95: of(&|m| m.steps.percentile(95)).unwrap_or_default(),
        end_to_end: of(&|m| Some(m.total))?,
        ttft_again: Some(first(again)),
        cache_hit: again.cache_hit(),
    })
}

/// Time to the first token, which may stand for no text yet.
fn first(metrics: &Metrics) -> Duration {
    metrics.ttft.unwrap_or(metrics.prefill)
}

fn memory(vram: Option<u64>) -> Memory {
    let (peak, steady) = machine::memory_used().unzip();
    Memory { peak, steady, vram }
}
