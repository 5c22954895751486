//! Contexts over the same weights, each by another plan, and the time of a piece of work in them.

use std::time::Duration;

use super::search::Sizes;
use crate::cli::bench::row::{Kind, Test};
use crate::cli::load::TEXT;
use crate::engine::llama::{Brake, Llama, Weights};
use crate::engine::{LoadPlan, Token};
use crate::error::{Error, Kind as ErrorKind, Result};
use crate::session::speed::{Track, text_of};

pub(super) struct Contexts<'w> {
    weights: &'w Weights,
    brake: Brake,
    window: u32,
    text: Vec<Token>,
    /// By their plans, but for threads. The one used last stands last.
    open: Vec<(LoadPlan, Llama<'w>)>,
    /// The most that there is memory for.
    most: usize,
}

impl<'w> Contexts<'w> {
    /// With room for so many tokens each. At least two are open, so that they can take turns.
    pub(super) fn new(weights: &'w Weights, window: u32, most: usize, brake: Brake) -> Self {
        Self { weights, brake, window, text: Vec::new(), open: Vec::new(), most: most.max(2) }
    }

    /// How long a piece of work takes by a plan.
    pub(super) fn time(&mut self, plan: &LoadPlan, test: Test) -> Result<Duration> {
        self.ready(plan)?;
        let Some((_, llama)) = self.open.last_mut() else { return Err(interrupted()) };
        llama.set_threads(plan.threads, plan.threads_batch);
        let mut track = Track::new(llama, &self.text, test.depth as usize);
        let time = match test.kind {
            Kind::Prefill => track.prefill(test.prompt as usize)?,
            _ => track.decode(test.generated as usize)?.map(|times| times.iter().sum()),
        };
        time.ok_or_else(interrupted)
    }

    /// Have a context for a plan, as the last of them.
    fn ready(&mut self, plan: &LoadPlan) -> Result<()> {
        let plan = LoadPlan { ctx: self.window, threads: 1, threads_batch: 1, ..plan.clone() };
        if let Some(index) = self.open.iter().position(|(open, _)| *open == plan) {
            let here = self.open.remove(index);
            self.open.push(here);
            return Ok(());
        }
        if self.open.len() == self.most {
            self.open.remove(0);
        }
        let mut llama = self.weights.open_by(&plan, self.brake.clone())?;
        if self.text.is_empty() {
            self.text = text_of(&llama, TEXT, self.window as usize)?;
        }
        // The first evaluation of each kind makes room for what the others use.
        let mut track = Track::new(&mut llama, &self.text, 0);
        track.prefill(self.text.len().min(16))?;
        track.decode(self.text.len().min(2))?;
        self.open.push((plan, llama));
        Ok(())
    }
}

fn interrupted() -> Error {
    Error::new(ErrorKind::Interrupted, "interrupted")
}

/// The depths for tests with much in the cache, the deepest first.
const DEPTHS: [u32; 4] = [2048, 1024, 512, 256];

/// Tokens of a short prompt and of a short answer, to see how fast the machine is.
const TRIAL: (u32, u32) = (64, 8);

/// How much work fits into a time, by a short trial. `most` is the longest window.
pub(super) fn sizes(
    weights: &Weights,
    plan: &LoadPlan,
    seconds: f64,
    most: u32,
    brake: Brake,
) -> Result<Sizes> {
    let window = most.min(TRIAL.0);
    let mut contexts = Contexts::new(weights, window, 2, brake);
    let test = |kind, prompt, generated| Test { kind, prompt, generated, depth: 0 };
    let mut rate = |test: Test, tokens: u32| -> Result<f64> {
        contexts.time(plan, test)?;
        Ok(f64::from(tokens) / contexts.time(plan, test)?.as_secs_f64().max(1e-9))
    };
    let prefill = rate(test(Kind::Prefill, window, 0), window)?;
    let generated = window.min(TRIAL.1);
    let decode = rate(test(Kind::Decode, 0, generated), generated)?;
    Ok(fitting(prefill, decode, seconds, most))
}

/// By tokens per second of a prompt and of an answer. The shares of the time are those of a search with all settings: two or
/// three times to a depth, some thirty prompts and answers, and some nine long prompts.
fn fitting(prefill: f64, decode: f64, seconds: f64, most: u32) -> Sizes {
    let largest = |sizes: &[u32], rate: f64, share: f64, most: u32| {
        sizes.iter().copied().find(|n| *n <= most && f64::from(*n) <= rate * seconds * share)
    };
    let prompt = largest(&[512, 256, 128, 64, 32, 16, 8], prefill, 0.012, most / 2).unwrap_or(4).min(most);
    let answer = largest(&[64, 32, 16, 8], decode, 0.006, most / 2).unwrap_or(4).min(most);
    let long_prompt = largest(&[2048, 1024, 512, 256], prefill, 0.025, most).unwrap_or(0);
    let depth = largest(&DEPTHS, prefill, 0.13, most - prompt.max(answer)).unwrap_or(0);
    Sizes { prompt, answer, depth, long_prompt, rounds: 3 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_work_fits_the_time_and_the_window() {
        for (prefill, decode, seconds, most, expected) in [
            // A small model on a small machine.
            (400.0, 100.0, 45.0, 8192, (128, 16, 2048, 256)),
            (400.0, 100.0, 10.0, 8192, (32, 4, 512, 0)),
            // A GPU.
            (20_000.0, 200.0, 45.0, 8192, (512, 32, 2048, 2048)),
            // A large model: answers are short, and the cache stays empty.
            (8.0, 2.0, 45.0, 8192, (4, 4, 0, 0)),
            // A window that is soon full.
            (400.0, 100.0, 45.0, 512, (128, 16, 256, 256)),
            (400.0, 100.0, 45.0, 16, (8, 8, 0, 0)),
        ] {
            let sizes = fitting(prefill, decode, seconds, most);
            let found = (sizes.prompt, sizes.answer, sizes.depth, sizes.long_prompt);
            assert_eq!(found, expected, "{prefill} {decode} {seconds} {most}");
            assert!(sizes.window() <= most);
        }
    }
}
