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

/// What goes with a row of log-probabilities in 16 bits: token `i` has `scale * steps[i] + lowest`.
///
/// llama.cpp compares with a reference in this form (`log_softmax` into `uint16_t`); so do we, also where the
/// reference is in memory, for the same figures. The loss, the negative log-probability of the text's own token, is
/// kept as it was: 16 bits cut it off at [`DEPTH`], which makes a reference that knows little of a text look better.
#[expect(clippy::struct_field_names, reason = "the word that llama.cpp uses")]
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Scale {
    pub(super) scale: f32,
    pub(super) lowest: f32,
    pub(super) loss: f32,
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

    /// Take the rows of a chunk, one for each target: `logits` holds at least as many.
    pub(super) fn fill(&mut self, logits: &[f32], targets: &[Token], threads: usize) -> Result<()> {
        let vocabulary = self.vocabulary;
        let jobs = self.rows_mut().zip(logits.chunks_exact(vocabulary)).zip(targets);
        spread(jobs.collect(), threads, |(((scale, steps), logits), &target)| {
            *scale = pack(logits, steps, index(target, logits.len())?)?;
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
fn pack(logits: &[f32], steps: &mut [u16], target: usize) -> Result<Scale> {
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
    Ok(Scale { scale, lowest: lowest - highest - log_sum, loss: highest + log_sum - logits[target] })
}

/// `log_softmax` against the reference's row.
fn position(scale: Scale, steps: &[u16], logits: &[f32], target: usize) -> Result<Position> {
    let (highest, _) = range(logits)?;
    let log_sum = narrow(sum_exp(logits, highest).ln());
    let loss = highest + log_sum - logits[target];
    let top_step = steps.iter().fold(0, |top, &step| top.max(step));
    let top_log_prob = scale.log_prob(top_step);
    // The first of equals, in both.
    let top = logits.iter().position(|&logit| logit >= highest);
    #[expect(clippy::float_cmp, reason = "the same sum of the same numbers")]
    let reference_top = steps.iter().position(|&step| scale.log_prob(step) == top_log_prob);
    Ok(Position {
        loss,
        reference_loss: scale.loss,
        kl: divergence(scale, steps, logits, highest + log_sum),
        difference: (-loss).exp() - scale.log_prob(steps[target]).exp(),
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

/// e to a power of about 0 or less, rounded to single precision; 0 below -87.
///
/// 2 to the whole part of the power of two, and Taylor's series for the rest, in double precision, so that nearly every
/// answer is the C library's. A call of that for each number would take most of the time, and keep the compiler from
/// taking many at once.
fn exp(x: f32) -> f32 {
    const ROUND: f64 = 6_755_399_441_055_744.0;
    let x = if x > -87.0 { f64::from(x) } else { -87.0 };
    let power = x * std::f64::consts::LOG2_E + ROUND;
    let rest = x - (power - ROUND) * std::f64::consts::LN_2;
    let mut sum = 1.0 / 3_628_800.0;
    for factorial in [362_880.0, 40_320.0, 5_040.0, 720.0, 120.0, 24.0, 6.0, 2.0, 1.0, 1.0] {
        sum = sum * rest + 1.0 / factorial;
    }
    let scale = f64::from_bits(power.to_bits().wrapping_sub(ROUND.to_bits()).wrapping_add(1023) << 52);
    if x > -87.0 { narrow(sum * scale) } else { 0.0 }
}

#[expect(clippy::cast_possible_truncation, reason = "llama.cpp keeps this sum in single precision")]
fn narrow(x: f64) -> f32 {
    x as f32
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "exact ones")]
mod tests {
    use super::*;

    /// Rows of many lengths, from flat to steep, with no pattern that the lanes could hide.
    fn row(len: usize, seed: u64, spread: f32) -> Vec<f32> {
        let mut random = fastrand::Rng::with_seed(seed);
        (0..len).map(|_| (random.f32() - 0.5) * spread).collect()
    }

    /// ln(softmax), in the plainest way.
    fn log_softmax(logits: &[f32]) -> Vec<f64> {
        let highest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let sum: f64 = logits.iter().map(|&x| f64::from(x - highest).exp()).sum();
        logits.iter().map(|&x| f64::from(x - highest) - sum.ln()).collect()
    }

    #[test]
    fn the_exponential_is_the_exact_one_rounded() {
        let mut random = fastrand::Rng::with_seed(1);
        let mut different = 0;
        for _ in 0..500_000 {
            let x = random.f32() * -86.99;
            let (got, wanted) = (exp(x), narrow(f64::from(x).exp()));
            assert!(got.to_bits().abs_diff(wanted.to_bits()) <= 1, "e^{x} is {wanted}, not {got}");
            different += u32::from(got != wanted);
        }
        assert!(different < 50, "{different} of 500,000 are not rounded to the nearest");
        assert_eq!(
            [0.0, 1e-3, -1.0, -88.0, f32::NEG_INFINITY].map(exp),
            [1.0, 1.001_000_5, 0.367_879_44, 0.0, 0.0]
        );
    }

    #[test]
    fn the_range_sees_every_number_and_refuses_what_is_none() {
        for len in 1..50 {
            let mut logits = row(len, len as u64, 8.0);
            for at in 0..len {
                let kept = logits[at];
                logits[at] = 5.0;
                assert_eq!(range(&logits).unwrap().0, 5.0);
                logits[at] = -5.0;
                assert_eq!(range(&logits).unwrap().1, -5.0);
                for bad in [f32::NAN, f32::INFINITY] {
                    logits[at] = bad;
                    assert!(range(&logits).is_err(), "{bad} at {at} of {len}");
                }
                logits[at] = kept;
            }
        }
        assert_eq!(range(&[f32::NEG_INFINITY, 1.0]).unwrap(), (1.0, f32::NEG_INFINITY));
        assert!(range(&[f32::NEG_INFINITY; 40]).is_err() && range(&[]).is_err());
    }

    #[test]
    fn steps_reach_from_the_top_to_sixteen_below_it() {
        let mut steps = [7; 5];
        let scale = pack(&[3.0, 1.0, -13.0, -40.0, f32::NEG_INFINITY], &mut steps, 3).unwrap();
        assert_eq!(steps, [65535, 57343, 0, 0, 0]);
        assert_eq!(scale.scale, 16.0 / 65535.0);
        assert!((scale.loss - 43.126_928).abs() < 1e-5, "the loss is not cut off: {scale:?}");
        // The top has ln(1 / (1 + e^-2 + …)).
        assert!((scale.log_prob(65535) + 0.126_928_1).abs() < 1e-5, "{scale:?}");
        let scale = pack(&[2.5; 4], &mut steps[..4], 0).unwrap();
        assert_eq!((steps[..4].to_vec(), scale.scale), (vec![0; 4], 0.0));
        assert!((scale.log_prob(0) + 4.0_f32.ln()).abs() < 1e-6);
        for (x, step) in
            [(0.0, 0), (0.5, 0), (1.5, 2), (2.5, 2), (2.51, 3), (65534.6, 65535), (65535.0, 65535)]
        {
            assert_eq!(nearest(x), step, "{x}");
        }
    }

    #[test]
    fn rows_of_any_length_say_what_the_plain_formulas_say() {
        for (len, spread) in [(1, 1.0), (3, 2.0), (16, 9.0), (37, 6.0), (1000, 12.0), (4099, 20.0)] {
            let (a, b) = (row(len, 1, spread), row(len, 2, spread));
            let (log_p, log_q) = (log_softmax(&a), log_softmax(&b));
            let target = len / 2;
            let mut packed = Packed::new(1, len);
            let token = Token::try_from(target).unwrap();
            packed.fill(&a, &[token], 1).unwrap();
            let got = packed.compare(&b, &[token], 1).unwrap()[0];
            // Each stored log-probability is off by half a step at most.
            let grain = 0.5 * 16.0 / 65535.0;
            let kl: f64 = log_p.iter().zip(&log_q).map(|(p, q)| p.exp() * (p - q)).sum();
            let most: f64 = log_p.iter().zip(&log_q).map(|(p, q)| p.exp() * (1.0 + (p - q).abs())).sum();
            assert!((got.kl - kl).abs() < grain * most + 1e-6, "{len}: {} is not {kl}", got.kl);
            assert!((f64::from(got.loss) + log_q[target]).abs() < 4e-6, "{len}: {got:?}");
            assert!((f64::from(got.reference_loss) + log_p[target]).abs() < 4e-6, "{len}: {got:?}");
            let difference = log_q[target].exp() - log_p[target].exp();
            assert!((f64::from(got.difference) - difference).abs() < grain + 1e-6, "{len}: {got:?}");
            let top = |row: &[f64]| row.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)).unwrap().0;
            assert_eq!(got.same_top, top(&log_p) == top(&log_q), "{len}");
            let loss = losses(&b, len, &[token], 1).unwrap()[0];
            assert!((loss + log_q[target]).abs() < 1e-6, "{len}: {loss}");
        }
    }

    #[test]
    fn of_equally_likely_tokens_the_first_is_the_top() {
        let mut packed = Packed::new(1, 40);
        let mut logits = vec![0.0; 40];
        (logits[33], logits[20]) = (4.0, 4.0);
        packed.fill(&logits, &[0], 1).unwrap();
        for (better, same) in [(20, true), (33, false), (0, false)] {
            let mut other = vec![0.0; 40];
            (other[35], other[better]) = (1.0, 1.0);
            assert_eq!(packed.compare(&other, &[0], 1).unwrap()[0].same_top, same, "{better}");
        }
    }

    #[test]
    fn work_is_spread_without_changing_the_order() {
        for count in [0, 1, 2, 7, 255] {
            let jobs: Vec<usize> = (0..count).collect();
            for threads in [0, 1, 2, 3, 8, 300] {
                assert_eq!(spread(jobs.clone(), threads, |job| job), jobs, "{count} on {threads}");
            }
        }
    }
}
