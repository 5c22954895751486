//! What one answer took: counts of tokens and durations. Rates are computed when they are shown.

use std::borrow::Cow;
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
    pub(crate) not_cached: Option<Cow<'static, str>>,
    /// Tokens of prompts that were evaluated, again after the window was rebuilt.
    pub(crate) evaluated: usize,
    /// Tokens generated, the end of the turn not counted.
    pub(crate) generated: usize,
    /// Time spent evaluating prompts.
    pub(crate) prefill: Duration,
    /// Time to first token: from the start of the request until the first of its text or thoughts was given out. `None`
    /// where nothing was.
    pub(crate) ttft: Option<Duration>,
    /// Time from the first token to the last, prefill taken out.
    pub(crate) decode: Duration,
    /// The time of each token after the first.
    pub(crate) steps: Steps,
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
    /// Bytes taken on the GPUs at the end; `None` without a GPU.
    pub(crate) vram: Option<u64>,
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

    /// The share of the prompt that was in the cache.
    #[expect(clippy::cast_precision_loss, reason = "token counts are far below 2^52")]
    pub(crate) fn cache_hit(&self) -> Option<f64> {
        (self.prompt > 0).then(|| self.cached as f64 / self.prompt as f64)
    }

    /// Time per output token after the first.
    pub(crate) fn tpot(&self) -> Option<Duration> {
        let steps = u32::try_from(self.generated.checked_sub(1)?).ok()?;
        self.decode.checked_div(steps)
    }
}

/// How often something took how long, in so little room however often that was: each time is known to about 1 %.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Steps {
    /// By the logarithm of the microseconds; as long as the longest time needs, 1,024 at the most.
    counts: Vec<u32>,
}

impl Steps {
    /// Parts between a time and its double.
    const PARTS: f64 = 32.0;

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 1,024")]
    pub(crate) fn add(&mut self, time: Duration) {
        let micros = u32::try_from(time.as_micros()).unwrap_or(u32::MAX).max(1);
        let part = (f64::from(micros).log2() * Self::PARTS) as usize;
        if self.counts.len() <= part {
            self.counts.resize(part + 1, 0);
        }
        self.counts[part] = self.counts[part].saturating_add(1);
    }

    /// The time that so many of a hundred did not exceed.
    pub(crate) fn percentile(&self, percent: u64) -> Option<Duration> {
        let all: u64 = self.counts.iter().map(|count| u64::from(*count)).sum();
        let rank = (all * percent).div_ceil(100);
        let mut seen = 0;
        let part = self.counts.iter().position(|count| {
            seen += u64::from(*count);
            seen > 0 && seen >= rank
        })?;
        let middle = f64::from(u32::try_from(part).ok()?) + 0.5;
        Some(Duration::from_secs_f64((middle / Self::PARTS).exp2() / 1e6))
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
    fn the_middle_and_the_slow_ones_are_known_to_about_a_percent() {
        let mut steps = Steps::default();
        assert_eq!(steps.percentile(50), None);
        for (millis, times) in [(10, 90), (2000, 4), (300, 6)] {
            (0..times).for_each(|_| steps.add(Duration::from_millis(millis)));
        }
        for (percent, millis) in
            [(0, 10.0), (50, 10.0), (90, 10.0), (91, 300.0), (96, 300.0), (97, 2000.0), (100, 2000.0)]
        {
            let found = steps.percentile(percent).unwrap().as_secs_f64() * 1000.0;
            assert!((found / millis - 1.0).abs() < 0.012, "{percent}: {found}");
        }
        steps.add(Duration::ZERO);
        steps.add(Duration::MAX);
        assert!(steps.counts.len() <= 1024);
    }

    #[test]
    fn the_share_of_the_cache() {
        let metrics = Metrics { prompt: 8, cached: 6, ..Metrics::default() };
        assert_eq!((metrics.cache_hit(), Metrics::default().cache_hit()), (Some(0.75), None));
    }

    #[test]
    fn there_is_no_rate_without_tokens() {
        let one = Metrics { generated: 1, ..Metrics::default() };
        for metrics in [Metrics::default(), one] {
            assert_eq!((metrics.prefill_rate(), metrics.decode_rate(), metrics.tpot()), (None, None, None));
        }
    }
}
