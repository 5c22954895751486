//! What one answer took: counts of tokens and durations. Rates are computed when they are shown.

use std::time::Duration;

/// Why nothing was reused, where there was nothing.
pub(crate) const NOTHING_CACHED: &str = "nothing was cached";

/// Where tokens that needed no evaluation came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// The memory of this process.
    Memory,
    /// A file that an earlier process left.
    Disk,
}

impl Source {
    /// The word that `--json` prints.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Disk => "disk",
        }
    }
}

/// Measured over one answer. "Evaluated" tokens are those that the cache did not hold already.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Metrics {
    /// Tokens of the prompt, cached or not.
    pub(crate) prompt: usize,
    /// Tokens of the prompt that were in the cache already.
    pub(crate) cached: usize,
    /// Where they were.
    pub(crate) cached_from: Option<Source>,
    /// Why tokens were evaluated that might have been cached, in words for a person.
    pub(crate) not_cached: Option<&'static str>,
    /// Tokens of prompts that were evaluated, again after the window was rebuilt.
    pub(crate) evaluated: usize,
    /// Tokens generated, the end of the turn not counted.
    pub(crate) generated: usize,
    /// Time spent evaluating prompts.
    pub(crate) prefill: Duration,
    /// Time to first token: from the start of the answer until its first token was chosen.
    pub(crate) ttft: Option<Duration>,
    /// Time from the first token to the last, prefill taken out.
    pub(crate) decode: Duration,
    /// From the start of the answer to its end.
    pub(crate) total: Duration,
    /// How often something left the window.
    pub(crate) evictions: usize,
    /// Whole turns that left the window.
    pub(crate) dropped_turns: usize,
    /// Tokens that left it, of those turns or of the answer itself.
    pub(crate) dropped_tokens: usize,
    /// Tokens in the cache at the end.
    pub(crate) used: usize,
}

impl Metrics {
    /// Evaluated prompt tokens per second.
    pub(crate) fn prefill_rate(&self) -> Option<f64> {
        rate(self.evaluated, self.prefill)
    }

    /// Tokens per second after the first, whose time belongs to the prefill.
    pub(crate) fn decode_rate(&self) -> Option<f64> {
        rate(self.generated.checked_sub(1)?, self.decode)
    }

    /// Time per output token after the first.
    pub(crate) fn tpot(&self) -> Option<Duration> {
        let steps = u32::try_from(self.generated.checked_sub(1)?).ok()?;
        self.decode.checked_div(steps)
    }
}

#[expect(clippy::cast_precision_loss, reason = "token counts are far below 2^52")]
fn rate(tokens: usize, time: Duration) -> Option<f64> {
    (tokens > 0 && !time.is_zero()).then(|| tokens as f64 / time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_leave_out_what_was_cached_and_the_first_token() {
        let metrics = Metrics {
            prompt: 110,
            cached: 100,
            evaluated: 10,
            generated: 21,
            prefill: Duration::from_millis(100),
            decode: Duration::from_secs(2),
            ..Metrics::default()
        };
        assert_eq!(metrics.prefill_rate(), Some(100.0));
        assert_eq!(metrics.decode_rate(), Some(10.0));
        assert_eq!(metrics.tpot(), Some(Duration::from_millis(100)));
    }

    #[test]
    fn there_is_no_rate_without_tokens() {
        let one = Metrics { generated: 1, ..Metrics::default() };
        for metrics in [Metrics::default(), one] {
            assert_eq!((metrics.prefill_rate(), metrics.decode_rate(), metrics.tpot()), (None, None, None));
        }
    }
}
