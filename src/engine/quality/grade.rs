//! A word for a comparison: good, fair or poor.
//!
//! The thresholds are for a model held against what it was quantized from, on `assets/check/check.txt`. Measured there
//! (mean KL divergence, top-1 agreement), without an importance matrix:
//!
//! | | demo, 2.6 M | `SmolLM2` 135M | Gemma 3 270M | Llama 3 8B |
//! |---|---|---|---|---|
//! | `q8_0` | 0.0015, 97.5 % | 0.0046, 95.3 % | 0.0039, 95.8 % | 0.0014, 97.7 % |
//! | `q6_k` | 0.0093, 93.5 % | 0.0114, 93.0 % | 0.0107, 94.3 % | 0.0055, 96.0 % |
//! | `q5_k_m` | 0.026, 89.0 % | 0.086, 82.7 % | 0.050, 87.8 % | 0.011 |
//! | `q4_k_m` | 0.072, 83.5 % | 0.061, 85.0 % | 0.007, 94.0 % | 0.031, 91.9 % |
//! | `iq4_xs` | 0.117, 78.7 % | 0.212, 72.6 % | 0.219, 75.0 % | 0.036 |
//! | `q4_0` | 0.154, 76.6 % | 0.303, 68.5 % | 0.513, 62.9 % | 0.072 |
//! | `q2_k` | 0.808, 50.8 % | | | 0.445, 71.1 % |
//!
//! `SmolLM2` and Gemma are not what their makers published: their F16 was unpacked from a file of 4 bits (`Q4_1`, and
//! `Q4_K_M`, which comes back all but unharmed), and other grids of few bits fit that badly. The last column is
//! llama.cpp's own (`tools/perplexity/README.md`, `WikiText`, `iq4_xs` with an importance matrix). Small models suffer more
//! from the same number of bits than large ones and are more often fair or poor; and the same word does not mean that two
//! models can do the same.
//!
//! Both figures have to be within their thresholds: a mean divergence hides damage on few tokens, and agreement hides
//! damage below the most likely token.

use std::fmt;

use super::Comparison;

/// The most divergence, in nats, and the least agreement, of 1, that are still good: 8 and 6 bits always, and 4 or 5
/// where model and type suit each other.
const GOOD: (f64, f64) = (0.06, 0.86);

/// What is still fair: of use where memory is short. Beyond it every fourth token or more would have been another one.
const FAIR: (f64, f64) = (0.2, 0.75);

/// From the worst to the best.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Grade {
    Poor,
    Fair,
    Good,
}

/// The grade of a candidate. A comparison without finite figures is poor.
pub(crate) fn judge(comparison: &Comparison) -> Grade {
    let within = |(kl, top1)| comparison.kl.value <= kl && comparison.top1.value >= top1;
    if within(GOOD) {
        Grade::Good
    } else if within(FAIR) {
        Grade::Fair
    } else {
        Grade::Poor
    }
}

impl Grade {
    /// The word that is typed and printed.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Poor => "poor",
            Self::Fair => "fair",
            Self::Good => "good",
        }
    }
}

/// A line about a comparison: `good: top-1 96.8 %, KL 0.004`.
pub(crate) struct Verdict<'a> {
    pub(crate) comparison: &'a Comparison,
    /// What to try where it is poor, such as `q5_k_m or --calibrate`.
    pub(crate) better: Option<&'a str>,
}

impl fmt::Display for Verdict<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let grade = judge(self.comparison);
        // 16 bits can leave a divergence just below 0, and half a token more is not all of them.
        let kl = self.comparison.kl.value.max(0.0);
        let top1 = 100.0 * self.comparison.top1.value;
        let top1 = if top1 < 100.0 { top1.min(99.9) } else { top1 };
        write!(f, "{}: top-1 {top1:.1} %, KL {kl:.3}", grade.as_str())?;
        match self.better {
            Some(better) if grade == Grade::Poor => write!(f, ", try {better}"),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::statistics::comparison;
    use super::super::{Comparison, Estimate};
    use super::*;

    fn with(kl: f64, top1: f64) -> Comparison {
        let estimate = |value| Estimate { value, error: 0.0 };
        Comparison { kl: estimate(kl), top1: estimate(top1), ..comparison(&[]) }
    }

    #[test]
    fn the_worse_of_divergence_and_agreement_decides() {
        for (kl, top1, grade, line) in [
            (0.0044, 0.9681, Grade::Good, "good: top-1 96.8 %, KL 0.004"),
            (-1e-6, 1.0, Grade::Good, "good: top-1 100.0 %, KL 0.000"),
            (0.0, 0.9999, Grade::Good, "good: top-1 99.9 %, KL 0.000"),
            (0.06, 0.86, Grade::Good, "good: top-1 86.0 %, KL 0.060"),
            (0.061, 0.95, Grade::Fair, "fair: top-1 95.0 %, KL 0.061"),
            (0.01, 0.85, Grade::Fair, "fair: top-1 85.0 %, KL 0.010"),
            (0.2, 0.75, Grade::Fair, "fair: top-1 75.0 %, KL 0.200"),
            (0.21, 0.9, Grade::Poor, "poor: top-1 90.0 %, KL 0.210, try q5_k_m or --calibrate"),
            (0.1, 0.5, Grade::Poor, "poor: top-1 50.0 %, KL 0.100, try q5_k_m or --calibrate"),
            (f64::INFINITY, 0.99, Grade::Poor, "poor: top-1 99.0 %, KL inf, try q5_k_m or --calibrate"),
        ] {
            let comparison = with(kl, top1);
            assert_eq!(judge(&comparison), grade, "{kl} {top1}");
            let better = Some("q5_k_m or --calibrate");
            assert_eq!(Verdict { comparison: &comparison, better }.to_string(), line);
        }
        assert_eq!(judge(&with(f64::NAN, 1.0)), Grade::Poor);
        let poor = with(1.0, 0.2);
        assert_eq!(Verdict { comparison: &poor, better: None }.to_string(), "poor: top-1 20.0 %, KL 1.000");
        assert!(Grade::Good > Grade::Fair && Grade::Fair > Grade::Poor);
    }
}
