//! From what each token says to figures with their standard errors, as llama.cpp's `kl_divergence()` reckons them.

use super::rows::Position;
use super::{Comparison, Estimate, Evaluation};

/// Perplexity from the negative log-probabilities of all tokens (`perplexity()`).
pub(super) fn evaluation(losses: &[f64]) -> Evaluation {
    let mean = Sums::of(losses.iter().map(|&loss| (loss, loss * loss))).mean();
    Evaluation { perplexity: mean.exp(), tokens: losses.len() }
}

/// All figures of a comparison (`kl_divergence()`), in the precision that llama.cpp has at each step. The reference's
/// perplexity is the one that it prints when it writes the reference's log-probabilities.
pub(super) fn comparison(positions: &[Position]) -> Comparison {
    let of = |value: fn(&Position) -> (f64, f64)| Sums::of(positions.iter().map(value));
    let candidate = of(|p| (p.loss.into(), (p.loss * p.loss).into()));
    let reference = of(|p| (p.reference_loss.into(), (p.reference_loss * p.reference_loss).into()));
    let kl = of(|p| (p.kl, p.kl * p.kl));
    let squares = of(|p| {
        let square = f64::from(p.difference * p.difference);
        (square, square * square)
    });
    let products = positions.iter().map(|p| f64::from(p.loss * p.reference_loss)).sum();
    let same_top = positions.iter().filter(|p| p.same_top).count();
    let mut divergences: Vec<f32> = positions.iter().map(|p| narrow(p.kl)).collect();
    divergences.sort_by(f32::total_cmp);
    Comparison {
        tokens: positions.len(),
        reference: reference.mean().exp(),
        candidate: candidate.mean().exp(),
        ratio: ratio(&candidate, &reference, products).exp(),
        kl: kl.mean(),
        kl_median: median(&divergences),
        kl_90: percentile(&divergences, 0.9),
        kl_95: percentile(&divergences, 0.95),
        kl_99: percentile(&divergences, 0.99),
        kl_max: divergences.last().copied().unwrap_or(0.0),
        top1: share(same_top, positions.len()),
        rms_dp: root(squares.mean()),
    }
}

/// A sum of numbers, the sum of their squares, and their count.
struct Sums {
    sum: f64,
    squares: f64,
    count: f64,
}

impl Sums {
    fn of(values: impl Iterator<Item = (f64, f64)>) -> Self {
        let mut sums = Self { sum: 0.0, squares: 0.0, count: 0.0 };
        for (value, square) in values {
            sums.sum += value;
            sums.squares += square;
            sums.count += 1.0;
        }
        sums
    }

    /// The mean, and its standard error where there are more than ten numbers.
    fn mean(&self) -> Estimate {
        if self.count < 1.0 {
            return Estimate { value: 0.0, error: 0.0 };
        }
        let value = self.sum / self.count;
        let variance = self.squares / self.count - value * value;
        let known = variance > 0.0 && self.count > 10.0;
        Estimate { value, error: if known { (variance / (self.count - 1.0)).sqrt() } else { 0.0 } }
    }
}

impl Estimate {
    /// e to this; the error by the first derivative.
    fn exp(self) -> Self {
        let value = self.value.exp();
        Self { value, error: value * self.error }
    }
}

/// The mean of ln(candidate / reference). The two move together from token to token, which makes the error of their
/// ratio much smaller than those of the two.
fn ratio(candidate: &Sums, reference: &Sums, products: f64) -> Estimate {
    let (a, b, count) = (candidate.mean(), reference.mean(), candidate.count);
    let covariance = if count < 10.0 { 0.0 } else { (products / count - a.value * b.value) / (count - 1.0) };
    let variance = a.error * a.error + b.error * b.error - 2.0 * covariance;
    Estimate { value: a.value - b.value, error: variance.max(0.0).sqrt() }
}

/// The root of a mean of squares; the error by the first derivative.
fn root(square: Estimate) -> Estimate {
    let value = square.value.sqrt();
    Estimate { value, error: if value > 0.0 { 0.5 / value * square.error } else { 0.0 } }
}

#[expect(clippy::cast_precision_loss, reason = "counts of tokens are far below 2^52")]
fn share(part: usize, all: usize) -> Estimate {
    if all < 2 {
        return Estimate { value: part as f64, error: 0.0 };
    }
    let value = part as f64 / all as f64;
    Estimate { value, error: (value * (1.0 - value) / (all - 1) as f64).sqrt() }
}

/// Of numbers in order; of an even count the mean of the two in the middle.
fn median(sorted: &[f32]) -> f32 {
    let middle = sorted.len() / 2;
    match sorted.get(middle) {
        None => 0.0,
        Some(&upper) if sorted.len() % 2 == 1 => upper,
        Some(&upper) => 0.5 * (upper + sorted[middle - 1]),
    }
}

/// Of numbers in order, between two of them in proportion. `fraction` is 0 to 1.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "llama.cpp's steps, in its precision"
)]
fn percentile(sorted: &[f32], fraction: f32) -> f32 {
    let Some(last) = sorted.len().checked_sub(1) else { return 0.0 };
    let place = fraction * last as f32;
    let below = place as usize;
    let part = place - below as f32;
    (1.0 - part) * sorted[below.min(last)] + part * sorted[(below + 1).min(last)]
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "llama.cpp keeps the single divergences in single precision"
)]
fn narrow(x: f64) -> f32 {
    x as f32
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "exact by construction")]
mod tests {
    use super::*;

    /// Twelve tokens: loss, the reference's loss, divergence, difference in probability, same top.
    const TOKENS: [(f32, f32, f64, f32, bool); 12] = [
        (0.5, 0.25, 0.125, -0.25, true),
        (1.0, 1.5, 0.0625, 0.125, true),
        (2.0, 2.0, 0.0, 0.0, true),
        (3.5, 2.5, 0.5, -0.0625, false),
        (0.25, 0.25, 0.0, 0.0, true),
        (4.0, 4.5, 1.0, 0.03125, false),
        (1.5, 1.25, 0.25, -0.125, true),
        (0.75, 0.5, 0.03125, -0.125, true),
        (2.5, 3.0, 0.25, 0.0625, true),
        (5.0, 4.0, 2.0, -0.5, false),
        (1.0, 0.75, 0.125, -0.25, true),
        (0.5, 0.75, 0.0625, 0.25, true),
    ];

    fn positions() -> Vec<Position> {
        let position = |(loss, reference_loss, kl, difference, same_top)| Position {
            loss,
            reference_loss,
            kl,
            difference,
            same_top,
        };
        TOKENS.into_iter().map(position).collect()
    }

    fn is(got: Estimate, value: f64, error: f64) {
        let close = |a: f64, b: f64| (a - b).abs() < 1e-9;
        assert!(close(got.value, value) && close(got.error, error), "{got:?} is not {value} ± {error}");
    }

    /// The expected figures are the textbook's, by Python's `statistics`: the standard error of a mean is the sample's
    /// standard deviation over the root of the count, that of the ratio comes from the differences of the losses.
    #[test]
    fn figures_and_their_errors_are_the_textbook_s() {
        let all = comparison(&positions());
        is(all.candidate, 6.520_819_120_330_112_5, 2.932_034_891_526_077);
        is(all.reference, 5.875_747_778_240_869, 2.462_375_958_306_801);
        is(all.ratio, 1.109_785_403_736_708_8, 0.165_407_663_130_070_16);
        is(all.kl, 0.367_187_5, 0.169_605_583_916_461_74);
        is(all.top1, 0.75, 0.130_558_241_966_773_38);
        is(all.rms_dp, 0.202_723_963_083_630_9, 0.050_214_767_790_397_574);
        assert_eq!((all.kl_median, all.kl_max, all.tokens), (0.125, 2.0, 12));
        for (got, wanted) in [(all.kl_90, 0.95), (all.kl_95, 1.45), (all.kl_99, 1.89)] {
            assert!((got - wanted).abs() < 1e-6, "{got} is not {wanted}");
        }
        let losses: Vec<f64> = TOKENS.iter().map(|token| token.0.into()).collect();
        is(evaluation(&losses).perplexity, 6.520_819_120_330_112_5, 2.932_034_891_526_077);
    }

    #[test]
    fn few_tokens_have_no_errors_and_none_have_no_figures() {
        let few = comparison(&positions()[..10]);
        assert_eq!((few.kl.error, few.candidate.error, few.tokens), (0.0, 0.0, 10));
        let none = comparison(&[]);
        assert_eq!((none.kl, none.kl_max, none.tokens), (Estimate { value: 0.0, error: 0.0 }, 0.0, 0));
        let sorted = [1.0, 2.0, 4.0];
        assert_eq!([median(&sorted), median(&sorted[..2]), median(&[])], [2.0, 1.5, 0.0]);
        assert_eq!(
            [percentile(&sorted, 0.0), percentile(&sorted, 0.75), percentile(&sorted, 1.0)],
            [1.0, 3.0, 4.0]
        );
    }
}
