//! The arithmetic over the vocabulary: from rows of logits to log-probabilities and what they say.
//!
//! The formulas are those of llama.cpp's `tools/perplexity/perplexity.cpp`, in the precision that it has at each
//! step, so that the figures agree to the digits that it prints. All logarithms are natural. The loops run over
//! [`LANES`] numbers side by side, which the compiler turns into vector instructions.

use std::thread;

use crate::engine::Token;
use crate::error::{Error, Result};

/// Numbers that a loop takes at once.
const LANES: usize = 16;

/// Log-probabilities this far below the most likely token's share the lowest step. Less likely tokens than e to this
/// power count for nothing in the KL divergence.
const DEPTH: f32 = 16.0;

/// A row of log-probabilities in 16 bits: token `i` has `scale * steps[i] + lowest`.
///
/// llama.cpp compares with a reference in this form (`log_softmax` into `uint16_t`); so do we, also where the
/// reference is in memory, for the same figures.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Scale {
    pub(super) scale: f32,
    pub(super) lowest: f32,
}

/// The log-probabilities of one chunk of the reference.
#[derive(Debug, Clone)]
pub(super) struct Packed {
    scales: Vec<Scale>,
    /// One row of the vocabulary's size for each scale.
    steps: Vec<u16>,
    vocabulary: usize,
}

/// What one scored token says about two models. Losses are negative log-probabilities.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Position {
    pub(super) loss: f32,
    pub(super) reference_loss: f32,
    pub(super) kl: f64,
    /// The probability of the token in the candidate less that in the reference.
    pub(super) difference: f32,
    pub(super) same_top: bool,
}

impl Packed {
    pub(super) fn new(rows: usize, vocabulary: usize) -> Self {
        Self { scales: vec![Scale::default(); rows], steps: vec![0; rows * vocabulary], vocabulary }
    }

    /// Each row with its scale.
    pub(super) fn rows(&self) -> impl Iterator<Item = (Scale, &[u16])> {
        self.scales.iter().copied().zip(self.steps.chunks_exact(self.vocabulary))
    }

    /// Each row with its scale, to be written.
    pub(super) fn rows_mut(&mut self) -> impl Iterator<Item = (&mut Scale, &mut [u16])> {
        self.scales.iter_mut().zip(self.steps.chunks_exact_mut(self.vocabulary))
    }

    /// Take the rows of a chunk: `logits` holds at least as many rows as there is room for.
    pub(super) fn fill(&mut self, logits: &[f32], threads: usize) -> Result<()> {
        let vocabulary = self.vocabulary;
        let jobs = self.rows_mut().zip(logits.chunks_exact(vocabulary));
        spread(jobs.collect(), threads, |((scale, steps), logits)| {
            *scale = pack(logits, steps)?;
            Ok(())
        })
        .into_iter()
        .collect()
    }

    /// Hold the candidate's rows against the reference's, one for each target.
    pub(super) fn compare(&self, logits: &[f32], targets: &[Token], threads: usize) -> Result<Vec<Position>> {
        let jobs = self.rows().zip(logits.chunks_exact(self.vocabulary)).zip(targets);
        spread(jobs.collect(), threads, |(((scale, steps), logits), &target)| {
            position(scale, steps, logits, index(target, logits.len())?)
        })
        .into_iter()
        .collect()
    }
}

/// The negative log-probability of each target in its row of logits.
pub(super) fn losses(
    logits: &[f32],
    vocabulary: usize,
    targets: &[Token],
    threads: usize,
) -> Result<Vec<f64>> {
    let jobs = logits.chunks_exact(vocabulary).zip(targets);
    spread(jobs.collect(), threads, |(row, &target)| {
        let (highest, _) = range(row)?;
        let target = row[index(target, row.len())?];
        Ok(sum_exp(row, highest).ln() - f64::from(target - highest))
    })
    .into_iter()
    .collect()
}

fn index(token: Token, len: usize) -> Result<usize> {
    let index = usize::try_from(token).ok().filter(|&at| at < len);
    index.ok_or_else(|| Error::failed(format!("token {token} is not in the model's vocabulary of {len}")))
}

/// Do all jobs, as many at once as there are threads. The answers come in the order of the jobs, so that sums over
/// them do not depend on the number of threads.
fn spread<J: Send, R: Send>(mut jobs: Vec<J>, threads: usize, work: impl Fn(J) -> R + Sync) -> Vec<R> {
    let share = jobs.len().div_ceil(threads.max(1)).max(1);
    let mut bands = Vec::new();
    while jobs.len() > share {
        bands.push(jobs.split_off(jobs.len() - share));
    }
    let work = &work;
    let do_all = |band: Vec<J>| band.into_iter().map(work).collect::<Vec<R>>();
    thread::scope(|scope| {
        let others: Vec<_> = bands.into_iter().rev().map(|band| scope.spawn(move || do_all(band))).collect();
        let mut answers = do_all(jobs);
        for other in others {
            match other.join() {
                Ok(more) => answers.extend(more),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        answers
    })
}

/// `log_softmax` into 16 bits.
fn pack(logits: &[f32], steps: &mut [u16]) -> Result<Scale> {
    let (highest, lowest) = range(logits)?;
    let lowest = lowest.max(highest - DEPTH);
    let log_sum = narrow(sum_exp(logits, highest).ln());
    let scale = (highest - lowest) / 65535.0;
    if scale > 0.0 {
        let steps_per_unit = 1.0 / scale;
        for (step, &logit) in steps.iter_mut().zip(logits) {
            *step = if logit > lowest { nearest(steps_per_unit * (logit - lowest)) } else { 0 };
        }
    } else {
        steps.fill(0);
    }
    Ok(Scale { scale, lowest: lowest - highest - log_sum })
}

/// `log_softmax` against the reference's row.
fn position(scale: Scale, steps: &[u16], logits: &[f32], target: usize) -> Result<Position> {
    let (highest, _) = range(logits)?;
    let log_sum = narrow(sum_exp(logits, highest).ln());
    let loss = highest + log_sum - logits[target];
    let reference_loss = -scale.log_prob(steps[target]);
    let top_step = steps.iter().fold(0, |top, &step| top.max(step));
    let top_log_prob = scale.log_prob(top_step);
    // The first of equals, in both.
    let top = logits.iter().position(|&logit| logit >= highest);
    #[expect(clippy::float_cmp, reason = "the same sum of the same numbers")]
    let reference_top = steps.iter().position(|&step| scale.log_prob(step) == top_log_prob);
    Ok(Position {
        loss,
        reference_loss,
        kl: divergence(scale, steps, logits, highest + log_sum),
        difference: (-loss).exp() - (-reference_loss).exp(),
        same_top: top == reference_top,
    })
}

impl Scale {
    fn log_prob(self, step: u16) -> f32 {
        self.scale * f32::from(step) + self.lowest
    }
}

/// The KL divergence of the candidate, whose probabilities are e to `logit - normal`, from the reference.
fn divergence(scale: Scale, steps: &[u16], logits: &[f32], normal: f32) -> f64 {
    let term = |step: u16, logit: f32| {
        let log_prob = scale.log_prob(step);
        if log_prob > -DEPTH { exp(log_prob) * (log_prob - logit + normal) } else { 0.0 }
    };
    let (steps, rest_steps) = steps.as_chunks::<LANES>();
    let (logits, rest) = logits.as_chunks::<LANES>();
    let mut sums = [0.0_f64; LANES];
    for (steps, logits) in steps.iter().zip(logits) {
        for lane in 0..LANES {
            sums[lane] += f64::from(term(steps[lane], logits[lane]));
        }
    }
    let rest: f64 = rest_steps.iter().zip(rest).map(|(&step, &logit)| f64::from(term(step, logit))).sum();
    sums.iter().sum::<f64>() + rest
}

/// The highest and the lowest logit. Minus infinity is how a token is ruled out; nothing else may be infinite.
fn range(logits: &[f32]) -> Result<(f32, f32)> {
    let (chunks, rest) = logits.as_chunks::<LANES>();
    let mut high = [f32::NEG_INFINITY; LANES];
    let mut low = [f32::INFINITY; LANES];
    let mut good = [true; LANES];
    for chunk in chunks {
        for lane in 0..LANES {
            let logit = chunk[lane];
            good[lane] &= logit <= f32::MAX;
            high[lane] = if logit > high[lane] { logit } else { high[lane] };
            low[lane] = if logit < low[lane] { logit } else { low[lane] };
        }
    }
    let all_good = good.iter().all(|&good| good) && rest.iter().all(|&logit| logit <= f32::MAX);
    let highest = high.iter().chain(rest).copied().fold(f32::NEG_INFINITY, f32::max);
    let lowest = low.iter().chain(rest).copied().fold(f32::INFINITY, f32::min);
    if all_good && highest > f32::NEG_INFINITY {
        Ok((highest, lowest))
    } else {
        Err(Error::failed("the model's output is not a number; the weights or the device are faulty"))
    }
}

/// The sum of e to `logit - highest`.
fn sum_exp(logits: &[f32], highest: f32) -> f64 {
    let (chunks, rest) = logits.as_chunks::<LANES>();
    let mut sums = [0.0_f64; LANES];
    for chunk in chunks {
        for lane in 0..LANES {
            sums[lane] += f64::from(exp(chunk[lane] - highest));
        }
    }
    sums.iter().sum::<f64>() + rest.iter().map(|&logit| f64::from(exp(logit - highest))).sum::<f64>()
}

/// Added to a small number, it leaves the nearest integer in the lowest bits.
const ROUND: f32 = 12_582_912.0;

/// The nearest integer, of two equally near the even one. The number is at most 65535.
fn nearest(x: f32) -> u16 {
    #[expect(clippy::cast_possible_truncation, reason = "the lowest bits are what is wanted")]
    let step = (x + ROUND).to_bits() as u16;
    step
}

/// e to a power of about 0 or less, to two units in the last place; 0 below -87.
///
/// The reduction and the polynomial are those of Cephes' `expf`: a call of the C library for each number would take
/// most of the time, and hinder the compiler in taking many at once.
fn exp(x: f32) -> f32 {
    const LN_2: (f32, f32) = (0.693_359_4, -2.121_944_4e-4);
    let power = x * std::f32::consts::LOG2_E + ROUND;
    let whole = power - ROUND;
    let rest = x - whole * LN_2.0 - whole * LN_2.1;
    let mut sum = 1.987_569_1e-4_f32;
    for factor in [1.398_2e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5] {
        sum = sum * rest + factor;
    }
    let sum = sum * rest * rest + rest + 1.0;
    let scale = f32::from_bits(power.to_bits().wrapping_sub(ROUND.to_bits()).wrapping_add(127) << 23);
    if x < -87.0 { 0.0 } else { sum * scale }
}

#[expect(clippy::cast_possible_truncation, reason = "llama.cpp keeps this sum in single precision")]
fn narrow(x: f64) -> f32 {
    x as f32
}
