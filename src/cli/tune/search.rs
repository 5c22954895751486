//! Which settings are fastest, one after the other: each is tried in turn against the best so far, piece by piece of the
//! same work, and taken only when it is faster clearly. Nothing is measured here but by the clock that is given.

use std::time::Duration;

use crate::cli::bench::row::{Kind, Test, quantile};
use crate::engine::{Flash, KvType, LoadPlan};
use crate::error::Result;

/// What is not faster by more than this is not faster.
const CLEAR: f64 = 1.03;

/// No test may become slower than by noise, however much faster the others are.
const WORST: f64 = 1.0 / CLEAR;

/// Times a piece of work by a plan.
pub(super) type Clock<'a> = dyn FnMut(&LoadPlan, Test) -> Result<Duration> + 'a;

/// How much work a measurement is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sizes {
    /// Tokens of a prompt, and of an answer.
    pub(super) prompt: u32,
    pub(super) answer: u32,
    /// Tokens in the cache for tests with much in it; 0 for none.
    pub(super) depth: u32,
    /// Tokens of the prompt that tells micro-batches apart.
    pub(super) long_prompt: u32,
    /// How often each is repeated.
    pub(super) rounds: usize,
}

impl Sizes {
    fn prefill(&self, depth: u32) -> Test {
        Test { kind: Kind::Prefill, prompt: self.prompt, generated: 0, depth }
    }

    pub(super) fn decode(&self, depth: u32) -> Test {
        Test { kind: Kind::Decode, prompt: 0, generated: self.answer, depth }
    }

    /// Those of a prompt and an answer, behind little and behind much.
    pub(super) fn tests(&self) -> Vec<Test> {
        let mut tests = vec![self.prefill(0), self.decode(0)];
        if self.depth > 0 {
            tests.extend([self.prefill(self.depth), self.decode(self.depth)]);
        }
        tests
    }

    /// The window that all tests fit in, tokens.
    pub(super) fn window(&self) -> u32 {
        (self.depth + self.prompt.max(self.answer)).max(self.long_prompt)
    }
}

/// A setting: its name, other values for it, and what tells them apart.
pub(super) struct Setting {
    name: &'static str,
    others: fn(&LoadPlan, &[usize], Sizes) -> Vec<LoadPlan>,
    value: fn(&LoadPlan) -> String,
    tests: fn(Sizes) -> Vec<Test>,
}

/// Threads come first: with the right ones all else is measured with less noise, and in less time.
pub(super) const THREADS: [Setting; 2] = [
    Setting {
        name: "threads",
        others: |best, threads, _| {
            threads.iter().map(|&threads| LoadPlan { threads, ..best.clone() }).collect()
        },
        value: |plan| plan.threads.to_string(),
        tests: |sizes| vec![sizes.decode(0)],
    },
    Setting {
        name: "threads for prompts",
        others: |best, threads, _| {
            threads.iter().map(|&threads_batch| LoadPlan { threads_batch, ..best.clone() }).collect()
        },
        value: |plan| plan.threads_batch.to_string(),
        tests: |sizes| vec![sizes.prefill(0)],
    },
];

/// One after the other, a prompt is evaluated in pieces of this size.
pub(super) const BATCHES: [Setting; 1] = [Setting {
    name: "micro-batch",
    others: |best, _, sizes| {
        // A prompt of one micro-batch says nothing about smaller ones.
        let tells = |size: &u32| *size <= sizes.long_prompt / if *size < best.ubatch { 2 } else { 1 };
        let sizes = [128, 256, 512, 1024, 2048].into_iter().filter(tells);
        sizes.map(|ubatch| LoadPlan { ubatch, batch: best.batch.max(ubatch), ..best.clone() }).collect()
    },
    value: |plan| plan.ubatch.to_string(),
    tests: |sizes| vec![Test { prompt: sizes.long_prompt, ..sizes.prefill(0) }],
}];

/// What needs much in the cache comes last, because it takes time to get there and the comparison at the end begins there.
pub(super) const ATTENTION: [Setting; 1] = [Setting {
    name: "flash attention",
    others: |best, _, _| match best.kv {
        KvType::F16 => vec![LoadPlan { flash: Flash::Off, ..best.clone() }],
        KvType::Q8_0 | KvType::Q4_0 => Vec::new(),
    },
    value: |plan| if plan.flash == Flash::Off { "off" } else { "auto" }.to_owned(),
    tests: |sizes| {
        let mut tests = vec![sizes.decode(0)];
        if sizes.depth > 0 {
            tests.push(sizes.decode(sizes.depth / 2));
        }
        tests.extend([sizes.prefill(sizes.depth), sizes.decode(sizes.depth)]);
        tests
    },
}];

/// What was found.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) best: LoadPlan,
    pub(super) steps: Vec<Step>,
    /// Settings that there was no time for.
    pub(super) left: Vec<&'static str>,
}

/// A value that was tried for a setting.
#[derive(Debug, PartialEq)]
pub(super) struct Step {
    pub(super) setting: &'static str,
    pub(super) value: String,
    /// How many times as fast it was as the best before it.
    pub(super) gain: f64,
    pub(super) chosen: bool,
}

impl Found {
    pub(super) fn nothing(start: LoadPlan) -> Self {
        Self { best: start, steps: Vec::new(), left: Vec::new() }
    }
}

/// Where settings are tried.
#[derive(Clone, Copy)]
pub(super) struct Ground<'a> {
    /// Counts of threads that there are processors for.
    pub(super) threads: &'a [usize],
    pub(super) sizes: Sizes,
    /// Is there memory for a plan?
    pub(super) fits: &'a dyn Fn(&LoadPlan) -> bool,
}

/// Try these settings one after the other, until it is late, from what was found so far.
pub(super) fn search(
    settings: &[Setting],
    mut found: Found,
    ground: Ground<'_>,
    clock: &mut Clock,
    is_late: &dyn Fn() -> bool,
) -> Result<Found> {
    let Ground { threads, sizes, fits } = ground;
    for setting in settings {
        let mut plans = vec![found.best.clone()];
        let others = (setting.others)(&found.best, threads, sizes).into_iter();
        plans.extend(others.filter(|plan| *plan != found.best && fits(plan)));
        if plans.len() == 1 {
            continue;
        }
        if is_late() {
            found.left.push(setting.name);
            continue;
        }
        let times = interleaved(&plans, &(setting.tests)(sizes), sizes.rounds, clock)?;
        let gains: Vec<Gain> = times[1..].iter().map(|other| Gain::of(&times[0], other)).collect();
        let best = fastest(&gains);
        for (index, gain) in gains.iter().enumerate() {
            found.steps.push(Step {
                setting: setting.name,
                value: (setting.value)(&plans[index + 1]),
                gain: gain.median(),
                chosen: best == Some(index),
            });
        }
        if let Some(best) = best {
            found.best = plans.swap_remove(best + 1);
        }
    }
    Ok(found)
}

/// The one that is faster clearly, and the most.
fn fastest(gains: &[Gain]) -> Option<usize> {
    let clear = gains.iter().enumerate().filter(|(_, gain)| gain.is_clear());
    clear.max_by(|(_, one), (_, other)| one.median().total_cmp(&other.median())).map(|(index, _)| index)
}

/// The seconds of a test, round by round.
pub(super) type Times = Vec<f64>;

/// The times of each plan and test. In each round every plan has its turn, in an order that changes, so that what else
/// happens on the machine meets all of them. Tests of the same depth follow each other: it takes time to get there.
pub(super) fn interleaved(
    plans: &[LoadPlan],
    tests: &[Test],
    rounds: usize,
    clock: &mut Clock,
) -> Result<Vec<Vec<Times>>> {
    let mut times = vec![vec![Times::new(); tests.len()]; plans.len()];
    let mut first = 0;
    for same in tests.chunk_by(|one, other| one.depth == other.depth) {
        for round in 0..rounds {
            let mut order: Vec<usize> = (0..plans.len()).collect();
            if round % 2 == 1 {
                order.reverse();
            }
            for plan in order {
                for (index, test) in same.iter().enumerate() {
                    let time = clock(&plans[plan], *test)?;
                    times[plan][first + index].push(time.as_secs_f64().max(1e-9));
                }
            }
        }
        first += same.len();
    }
    Ok(times)
}

/// How many times as fast one plan is as another.
#[derive(Debug)]
pub(super) struct Gain {
    /// Test by test, each round by round.
    tests: Vec<Vec<f64>>,
}

impl Gain {
    pub(super) fn of(base: &[Times], other: &[Times]) -> Self {
        let ratios = |(base, other): (&Times, &Times)| base.iter().zip(other).map(|(b, o)| b / o).collect();
        Self { tests: base.iter().zip(other).map(ratios).collect() }
    }

    /// In each round, the geometric mean over the tests: all count the same, however long they take.
    fn rounds(&self) -> Vec<f64> {
        let rounds = self.tests.iter().map(Vec::len).min().unwrap_or(0);
        #[expect(clippy::cast_precision_loss, reason = "a few tests")]
        let mean = |round: usize| {
            let logs: f64 = self.tests.iter().map(|test| test[round].ln()).sum();
            (logs / self.tests.len() as f64).exp()
        };
        (0..rounds).map(mean).collect()
    }

    /// Over all tests.
    pub(super) fn median(&self) -> f64 {
        quantile(&self.rounds(), 0.5).unwrap_or(1.0)
    }

    /// Of each test.
    pub(super) fn medians(&self) -> Vec<f64> {
        self.tests.iter().map(|test| quantile(test, 0.5).unwrap_or(1.0)).collect()
    }

    /// Is it faster by more than noise, without making any test much slower?
    pub(super) fn is_clear(&self) -> bool {
        let most_rounds = quantile(&self.rounds(), 0.25).is_some_and(|low| low > 1.0);
        self.median() > CLEAR && most_rounds && self.medians().iter().all(|test| *test > WORST)
    }
}

/// The whole choice against the defaults: the tests with much in the cache first, where the contexts are already.
pub(super) fn verify(
    defaults: &LoadPlan,
    best: &LoadPlan,
    sizes: Sizes,
    clock: &mut Clock,
) -> Result<(Vec<Test>, Vec<Vec<Times>>)> {
    let mut tests = sizes.tests();
    tests.sort_by_key(|test| std::cmp::Reverse(test.depth));
    let times = interleaved(&[defaults.clone(), best.clone()], &tests, sizes.rounds, clock)?;
    Ok((tests, times))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: Sizes = Sizes { prompt: 128, answer: 16, depth: 2048, long_prompt: 512, rounds: 3 };

    fn start() -> LoadPlan {
        LoadPlan { batch: 512, ..LoadPlan::on_cpu(4096, KvType::F16, 4) }
    }

    /// Try all settings.
    fn search_all(threads: &[usize], clock: &mut Clock, is_late: &dyn Fn() -> bool) -> Found {
        search_where(&|_| true, threads, clock, is_late)
    }

    fn search_where(
        fits: &dyn Fn(&LoadPlan) -> bool,
        threads: &[usize],
        clock: &mut Clock,
        is_late: &dyn Fn() -> bool,
    ) -> Found {
        let ground = Ground { threads, sizes: SIZES, fits };
        let found = search(&THREADS, Found::nothing(start()), ground, clock, is_late).unwrap();
        let found = search(&BATCHES, found, ground, clock, is_late).unwrap();
        search(&ATTENTION, found, ground, clock, is_late).unwrap()
    }

    /// A machine whose work takes as many milliseconds as this says.
    fn on(machine: impl Fn(&LoadPlan, Test) -> f64) -> impl FnMut(&LoadPlan, Test) -> Result<Duration> {
        move |plan, test| Ok(Duration::from_secs_f64(machine(plan, test) / 1000.0))
    }

    fn chosen(found: &Found) -> Vec<(&'static str, &str)> {
        let chosen = found.steps.iter().filter(|step| step.chosen);
        chosen.map(|step| (step.setting, step.value.as_str())).collect()
    }

    #[test]
    fn what_is_faster_is_chosen_setting_by_setting() {
        // Without flash attention an answer behind much takes half as long; two threads are better for answers and
        // eight for prompts; small micro-batches are better.
        let mut clock = on(|plan, test| {
            let attention = if test.depth > 0 && plan.flash != Flash::Off { 20.0 } else { 10.0 };
            match test.kind {
                Kind::Prefill => {
                    100.0 / if plan.threads_batch == 8 { 2.0 } else { 1.0 } + f64::from(plan.ubatch) / 10.0
                }
                _ => attention + if plan.threads == 2 { 0.0 } else { 5.0 },
            }
        });
        let found = search_all(&[2, 4, 8], &mut clock, &|| false);
        assert_eq!(
            chosen(&found),
            [
                ("threads", "2"),
                ("threads for prompts", "8"),
                ("micro-batch", "128"),
                ("flash attention", "off")
            ]
        );
        let expected = LoadPlan { flash: Flash::Off, threads: 2, threads_batch: 8, ubatch: 128, ..start() };
        assert_eq!(found.best, expected);
        assert!(found.left.is_empty());
        // All that was tried is told: two, two, two and one other.
        assert_eq!(found.steps.len(), 7);
        assert!((found.steps[0].gain - 1.5).abs() < 1e-6, "{:?}", found.steps[0]);
    }

    #[test]
    fn what_does_not_fit_is_not_tried() {
        let mut clock = on(|plan, _| 100.0 / f64::from(plan.ubatch));
        let found = search_where(&|plan| plan.ubatch < 512, &[], &mut clock, &|| false);
        let tried: Vec<_> = found.steps.iter().map(|step| (step.setting, step.value.as_str())).collect();
        assert_eq!(tried, [("micro-batch", "128"), ("micro-batch", "256")]);
    }

    #[test]
    fn what_is_hardly_faster_is_left_alone() {
        let mut clock = on(|plan, _| if *plan == start() { 102.0 } else { 100.0 });
        let found = search_all(&[2, 4], &mut clock, &|| false);
        assert_eq!(found.best, start());
        assert!(found.steps.iter().all(|step| !step.chosen && step.gain > 1.0));
    }

    #[test]
    fn noise_is_not_speed() {
        // Faster in two rounds of five, by much.
        let gain = |other: [f64; 5]| Gain::of(&[vec![1.0; 5]], &[other.to_vec()]);
        assert!(!gain([0.5, 0.5, 1.1, 1.1, 1.1]).is_clear());
        assert!(gain([0.9, 0.9, 0.9, 0.9, 5.0]).is_clear());
        assert!(!gain([0.9, 0.9, 0.9, 1.05, 1.05]).is_clear());
    }

    #[test]
    fn no_test_is_made_much_slower() {
        let base = [vec![1.0; 3], vec![1.0; 3]];
        assert!(Gain::of(&base, &[vec![0.5; 3], vec![1.02; 3]]).is_clear());
        assert!(!Gain::of(&base, &[vec![0.2; 3], vec![1.05; 3]]).is_clear());
        assert!((Gain::of(&base, &[vec![0.25; 3], vec![1.0; 3]]).median() - 2.0).abs() < 1e-9);
    }

    #[test]
    fn plans_take_turns_and_depths_follow_each_other() {
        let mut turns = Vec::new();
        let plans = [start(), LoadPlan { threads: 1, ..start() }];
        let mut clock = |plan: &LoadPlan, test: Test| {
            turns.push(format!("{}:{test}", plan.threads));
            Ok(Duration::from_millis(1))
        };
        let sizes = Sizes { rounds: 2, ..SIZES };
        interleaved(&plans, &sizes.tests()[1..], 2, &mut clock).unwrap();
        assert_eq!(
            turns.join(" "),
            "4:tg16 1:tg16 1:tg16 4:tg16 \
             4:pp128 @ d2048 4:tg16 @ d2048 1:pp128 @ d2048 1:tg16 @ d2048 \
             1:pp128 @ d2048 1:tg16 @ d2048 4:pp128 @ d2048 4:tg16 @ d2048"
        );
    }

    #[test]
    fn when_it_is_late_the_rest_is_named_and_left() {
        let turns = std::cell::Cell::new(0);
        let mut clock = |_: &LoadPlan, _: Test| {
            turns.set(turns.get() + 1);
            Ok(Duration::from_millis(1))
        };
        let found = search_all(&[2, 4], &mut clock, &|| turns.get() > 0);
        assert_eq!(found.left, ["threads for prompts", "micro-batch", "flash attention"]);
        // The start and one other plan, one test, three rounds.
        assert_eq!(turns.get(), 6);
    }

    #[test]
    fn only_what_a_prompt_can_tell_apart_is_tried() {
        let tried = |long_prompt, ubatch| {
            let best = LoadPlan { ubatch, ..start() };
            let others = (BATCHES[0].others)(&best, &[], Sizes { long_prompt, ..SIZES });
            others
                .iter()
                .map(|plan| (plan.ubatch, plan.batch))
                .filter(|(size, _)| *size != ubatch)
                .collect::<Vec<_>>()
        };
        assert_eq!(tried(64, 512), []);
        assert_eq!(tried(512, 512), [(128, 512), (256, 512)]);
        assert_eq!(tried(2048, 512), [(128, 512), (256, 512), (1024, 1024), (2048, 2048)]);
        let quantized = LoadPlan { kv: KvType::Q8_0, ..start() };
        assert!((ATTENTION[0].others)(&quantized, &[], SIZES).is_empty());
    }

    #[test]
    fn the_choice_is_verified_where_the_cache_is_full_first() {
        let (tests, times) = verify(&start(), &start(), SIZES, &mut on(|_, _| 1.0)).unwrap();
        let shown: Vec<String> = tests.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["pp128 @ d2048", "tg16 @ d2048", "pp128", "tg16"]);
        assert_eq!((times.len(), times[0].len(), times[0][0].len()), (2, 4, 3));
        assert_eq!(SIZES.window(), 2048 + 128);
    }
}
