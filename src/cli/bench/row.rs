//! One measured row: what was run, how, how long each repetition took, and the numbers that follow from that.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;

use crate::engine::{GpuLayers, KvType};
use crate::model::roofline::Limit;

/// A row is noisy when its spread is above this share of its median.
pub(crate) const NOISY: f64 = 0.03;

/// One test of one model under one choice of settings.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) run: Environment,
    pub(crate) model: About,
    pub(crate) settings: Settings,
    pub(crate) test: Test,
    /// How long each repetition took, in the order in which they ran.
    pub(crate) samples: Vec<Duration>,
    /// When the test began.
    pub(crate) at: Timestamp,
    /// Only of a test with an answer.
    pub(crate) answer: Option<Answer>,
    pub(crate) load: Load,
    pub(crate) roofline: Option<Limit>,
    pub(crate) memory: Memory,
}

/// A row before it is measured.
#[derive(Debug, Clone)]
pub(crate) struct Planned {
    /// As the person named it.
    pub(crate) model: String,
    pub(crate) settings: Settings,
    pub(crate) test: Test,
}

/// The program and the machine, the same in every row of a run.
#[derive(Debug, Clone)]
pub(crate) struct Environment {
    /// Of llama.cpp, as are the number and the backends.
    pub(crate) build_commit: String,
    pub(crate) build_number: u32,
    /// `CPU`, or the names of all others joined with commas.
    pub(crate) backends: String,
    pub(crate) cpu_info: String,
    /// Empty without a GPU.
    pub(crate) gpu_info: String,
    pub(crate) infer_version: String,
}

/// A model.
#[derive(Debug, Clone)]
pub(crate) struct About {
    /// As the person named it.
    pub(crate) name: String,
    pub(crate) filename: String,
    /// llama.cpp's own words, such as `llama 256M Q4_1`.
    pub(crate) kind: String,
    /// Of all tensors.
    pub(crate) bytes: u64,
    pub(crate) params: u64,
}

/// What can be chosen, and may differ from row to row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Settings {
    pub(crate) batch: u32,
    pub(crate) ubatch: u32,
    pub(crate) threads: usize,
    /// Threads for a prompt.
    pub(crate) threads_batch: usize,
    pub(crate) kv: KvType,
    pub(crate) gpu_layers: GpuLayers,
    /// Flash attention; without a choice llama.cpp decides.
    pub(crate) flash: Option<bool>,
    /// As given to `--device`.
    pub(crate) device: Option<String>,
}

/// What a test does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Prefill,
    Decode,
    /// A prompt and what is generated after it.
    Answer,
}

/// A test, counted in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Test {
    pub(crate) kind: Kind,
    /// Evaluated in a repetition; 0 when only generating.
    pub(crate) prompt: u32,
    /// Generated in a repetition; 0 when only evaluating.
    pub(crate) generated: u32,
    /// In the cache before a repetition begins.
    pub(crate) depth: u32,
}

/// What a person notices of an answer. Medians over the repetitions.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    /// Time to the first token.
    pub(crate) ttft: Duration,
    /// Time per output token after the first, in the middle …
    pub(crate) tpot_p50: Duration,
    /// … and of the slow ones.
    pub(crate) tpot_p95: Duration,
    pub(crate) end_to_end: Duration,
    /// Time to the first token of the same prompt asked again, and the share of it that was in the cache then.
    pub(crate) ttft_again: Option<Duration>,
    pub(crate) cache_hit: Option<f64>,
}

/// How long it took until the model could be used.
#[derive(Debug, Clone, Default)]
pub(crate) struct Load {
    /// With the file out of the system's memory.
    pub(crate) cold: Option<Duration>,
    /// With the file in it.
    pub(crate) warm: Option<Duration>,
}

/// Bytes of this process, and of the GPU.
#[derive(Debug, Clone, Default)]
pub(crate) struct Memory {
    pub(crate) peak: Option<u64>,
    pub(crate) steady: Option<u64>,
    pub(crate) vram: Option<u64>,
}

impl From<&Row> for Planned {
    fn from(row: &Row) -> Self {
        Self { model: row.model.name.clone(), settings: row.settings.clone(), test: row.test }
    }
}

impl Row {
    /// Tokens per second of each repetition.
    pub(crate) fn rates(&self) -> Vec<f64> {
        let tokens = f64::from(self.test.prompt) + f64::from(self.test.generated);
        let nanosecond = Duration::from_nanos(1);
        self.samples.iter().map(|time| tokens / (*time).max(nanosecond).as_secs_f64()).collect()
    }

    /// Tokens per second of the middle repetition.
    pub(crate) fn median(&self) -> Option<f64> {
        quantile(&self.rates(), 0.5)
    }

    /// Half the width of the middle half of the repetitions as a share of their median: what stands behind `±`. One
    /// repetition that was disturbed does not count. `None` where there are too few to tell.
    pub(crate) fn spread(&self) -> Option<f64> {
        let rates = self.rates();
        if rates.len() < 3 {
            return None;
        }
        let [low, middle, high] = [0.25, 0.5, 0.75].map(|share| quantile(&rates, share));
        let (low, middle, high) = (low?, middle?, high?);
        (middle > 0.0).then(|| (high - low) / 2.0 / middle)
    }

    /// The threads that work in this test; in an answer those that generate.
    pub(crate) fn threads(&self) -> usize {
        if self.test.kind == Kind::Prefill { self.settings.threads_batch } else { self.settings.threads }
    }

    /// Do the repetitions differ so much that the row should not be relied on?
    pub(crate) fn is_noisy(&self) -> bool {
        self.spread().is_some_and(|spread| spread > NOISY)
    }

    /// The median as percent of the roofline.
    pub(crate) fn roofline_percent(&self) -> Option<f64> {
        let limit = self.roofline?.tokens_per_second;
        (limit > 0.0 && limit.is_finite()).then_some(self.median()? / limit * 100.0)
    }
}

impl fmt::Display for Test {
    /// As llama-bench writes it: `pp512`, `tg128 @ d2048`, `pp512+tg128`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { prompt, generated, depth, .. } = self;
        let test = match self.kind {
            Kind::Prefill => format!("pp{prompt}"),
            Kind::Decode => format!("tg{generated}"),
            Kind::Answer => format!("pp{prompt}+tg{generated}"),
        };
        f.pad(&if *depth > 0 { format!("{test} @ d{depth}") } else { test })
    }
}

/// The mean; 0 of nothing, as llama-bench has it.
pub(crate) fn mean(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / count(values) }
}

/// The standard deviation of a sample; 0 of fewer than two values.
pub(crate) fn deviation(values: &[f64]) -> f64 {
    if values.len() < 2 {
        return 0.0;
    }
    let mean = mean(values);
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (squares / (count(values) - 1.0)).sqrt()
}

/// The value that such a share of all does not exceed, between the two nearest in proportion; `None` of nothing.
pub(crate) fn quantile(values: &[f64], share: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let place = (count(&sorted) - 1.0) * share;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an index, and `as` saturates"
    )]
    let below = place as usize;
    let low = *sorted.get(below)?;
    let high = *sorted.get(below + 1).unwrap_or(&low);
    Some(low + (high - low) * place.fract().max(0.0))
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn count(values: &[f64]) -> f64 {
    values.len() as f64
}

#[cfg(test)]
pub(super) mod example {
    //! Rows for tests.

    use super::*;
    use crate::model::roofline::Bound;

    /// A test of everything.
    pub(crate) fn full() -> Row {
        Row {
            test: Test { kind: Kind::Answer, prompt: 60, generated: 40, depth: 16 },
            answer: Some(Answer {
                ttft: Duration::from_millis(400),
                tpot_p50: Duration::from_micros(12_500),
                tpot_p95: Duration::from_millis(20),
                end_to_end: Duration::from_secs(1),
                ttft_again: Some(Duration::from_millis(15)),
                cache_hit: Some(0.25),
            }),
            load: Load { cold: Some(Duration::from_millis(300)), warm: Some(Duration::from_millis(50)) },
            roofline: Some(Limit { tokens_per_second: 125.0, bound: Bound::Bandwidth }),
            memory: Memory { peak: Some(3_000_000), steady: Some(2_000_000), vram: Some(1_000_000) },
            ..row(&[1000, 1000, 1000])
        }
    }

    /// A decode test whose repetitions took so many milliseconds.
    pub(crate) fn row(millis: &[u64]) -> Row {
        Row {
            run: Environment {
                build_commit: "abc1234".to_owned(),
                build_number: 11434,
                backends: "CPU".to_owned(),
                cpu_info: "AMD EPYC".to_owned(),
                gpu_info: String::new(),
                infer_version: "0.1.0".to_owned(),
            },
            model: About {
                name: "smollm2:135m".to_owned(),
                filename: "/models/smollm2.gguf".to_owned(),
                kind: "llama 256M Q4_1".to_owned(),
                bytes: 96_576_768,
                params: 134_515_008,
            },
            settings: Settings {
                batch: 2048,
                ubatch: 512,
                threads: 2,
                threads_batch: 2,
                kv: KvType::F16,
                gpu_layers: GpuLayers::Auto,
                flash: None,
                device: None,
            },
            test: Test { kind: Kind::Decode, prompt: 0, generated: 100, depth: 0 },
            samples: millis.iter().copied().map(Duration::from_millis).collect(),
            at: Timestamp::UNIX_EPOCH,
            answer: None,
            load: Load::default(),
            roofline: None,
            memory: Memory::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::example::row;
    use super::*;
    use crate::model::roofline::Bound;

    #[test]
    fn few_repetitions_say_what_they_can() {
        for (millis, median, spread) in [
            (&[][..], None, None),
            (&[1000], Some(100.0), None),
            (&[1000, 500], Some(150.0), None),
            (&[1000, 500, 1000], Some(100.0), Some(0.25)),
            (&[1000, 500, 1000, 1000, 2000], Some(100.0), Some(0.0)),
        ] {
            let row = row(millis);
            assert_eq!((row.median(), row.spread()), (median, spread), "{millis:?}");
        }
    }

    #[test]
    fn one_disturbed_repetition_does_not_make_a_row_noisy() {
        assert!(!row(&[1000, 1000, 1000, 1000, 9000]).is_noisy());
        assert!(!row(&[1000, 1000, 1020, 1050, 1100]).is_noisy());
        assert!(row(&[1000, 1000, 1020, 1070, 1100]).is_noisy());
        assert!(!row(&[1000, 9000]).is_noisy());
    }

    #[test]
    fn a_time_too_short_to_measure_is_no_infinity() {
        let row = row(&[0]);
        assert_eq!(row.median(), Some(100.0 / 1e-9));
    }

    #[test]
    fn mean_and_deviation_are_those_of_a_sample() {
        let values = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0];
        assert!((mean(&values) - 5.0).abs() < 1e-12);
        assert!((deviation(&values) - (32.0_f64 / 7.0).sqrt()).abs() < 1e-12);
        for few in [&[][..], &[3.0]] {
            assert_eq!((deviation(few), quantile(few, 0.5)), (0.0, few.first().copied()));
        }
        assert_eq!(mean(&[]).to_bits(), 0.0_f64.to_bits());
    }

    #[test]
    fn a_quantile_lies_between_its_neighbours() {
        let values = [40.0, 10.0, 20.0, 30.0];
        let quantiles = [0.0, 0.25, 0.5, 0.75, 1.0].map(|share| quantile(&values, share));
        assert_eq!(quantiles, [10.0, 17.5, 25.0, 32.5, 40.0].map(Some));
    }

    #[test]
    fn the_roofline_is_compared_with_the_median() {
        let mut row = row(&[1000, 1000, 4000]);
        assert_eq!(row.roofline_percent(), None);
        for (limit, percent) in [(125.0, Some(80.0)), (0.0, None), (f64::INFINITY, None), (f64::NAN, None)] {
            row.roofline = Some(Limit { tokens_per_second: limit, bound: Bound::Bandwidth });
            assert_eq!(row.roofline_percent(), percent, "{limit}");
        }
    }

    #[test]
    fn tests_have_the_names_of_llama_bench() {
        for (kind, prompt, generated, depth, name) in [
            (Kind::Prefill, 512, 0, 0, "pp512"),
            (Kind::Decode, 0, 128, 2048, "tg128 @ d2048"),
            (Kind::Answer, 512, 128, 0, "pp512+tg128"),
        ] {
            assert_eq!(Test { kind, prompt, generated, depth }.to_string(), name);
        }
    }
}
