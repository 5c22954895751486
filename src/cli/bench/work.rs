//! What there is to measure: every choice of settings with every test, and how much of it is left.

use std::time::Duration;

use super::row::{Kind, Test};
use crate::cli::args::BenchArgs;
use crate::engine::{Flash, GpuLayers, KvType, LoadPlan};

/// Plans for all that the lists of settings combine to, those with the same weights and cache next to each other. The
/// window is left to each test.
pub(super) fn plans(args: &BenchArgs, usual: &LoadPlan) -> Vec<LoadPlan> {
    let or = |list: &[u32], usual: u32| if list.is_empty() { vec![usual] } else { list.to_vec() };
    let kvs: Vec<KvType> = args.kv.iter().map(|kv| (*kv).into()).collect();
    let threads: Vec<usize> = args.threads.iter().copied().map(usize::from).collect();
    let flash: Vec<Flash> = args.flash.iter().map(|flash| (*flash).into()).collect();
    let mut plans: Vec<LoadPlan> = vec![LoadPlan { device: args.device.clone(), ..usual.clone() }];
    vary(&mut plans, &args.gpu_layers, |plan, layers: GpuLayers| plan.gpu_layers = layers);
    vary(&mut plans, &kvs, |plan, kv| plan.kv = kv);
    vary(&mut plans, &flash, |plan, flash| plan.flash = flash);
    vary(&mut plans, &threads, |plan, threads| (plan.threads, plan.threads_batch) = (threads, threads));
    vary(&mut plans, &or(&args.batch, usual.batch), |plan, batch| plan.batch = batch);
    // A micro-batch is never larger than its batch; where both are lists, that can leave a pair twice.
    vary(&mut plans, &or(&args.ubatch, usual.ubatch), |plan, ubatch| plan.ubatch = ubatch.min(plan.batch));
    let mut once: Vec<LoadPlan> = Vec::new();
    for plan in plans {
        if !once.contains(&plan) {
            once.push(plan);
        }
    }
    once
}

/// Each plan once with each of the values, or as it was where there is none.
fn vary<T: Copy>(plans: &mut Vec<LoadPlan>, values: &[T], set: impl Fn(&mut LoadPlan, T)) {
    if values.is_empty() {
        return;
    }
    let with = |plan: &LoadPlan, value: T| {
        let mut plan = plan.clone();
        set(&mut plan, value);
        plan
    };
    *plans = plans.iter().flat_map(|plan| values.iter().map(move |value| with(plan, *value))).collect();
}

/// The tests, depth by depth.
pub(super) fn tests(args: &BenchArgs) -> Vec<Test> {
    let mut tests = Vec::new();
    for &depth in &args.depth {
        let test = |kind, prompt, generated| Test { kind, prompt, generated, depth };
        tests.extend(args.prompt.iter().map(|&n| test(Kind::Prefill, n, 0)));
        tests.extend(args.generate.iter().map(|&n| test(Kind::Decode, 0, n)));
        // An answer begins with nothing in the cache.
        if depth == 0 {
            tests.extend(args.answer.iter().map(|&(prompt, answer)| test(Kind::Answer, prompt, answer)));
        }
    }
    tests.retain(|test| test.prompt + test.generated > 0);
    tests
}

/// The window that a test needs, in tokens.
pub(super) fn window(test: Test) -> u32 {
    test.depth + test.prompt + test.generated
}

/// Tokens that have to be evaluated as prompts, and one after another.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Left {
    pub(super) prompt: u64,
    pub(super) generated: u64,
}

impl Left {
    /// Of one repetition.
    pub(super) fn of(test: Test) -> Self {
        Self { prompt: test.prompt.into(), generated: test.generated.into() }
    }

    /// Of a test with its way to the depth, and with one repetition to warm up.
    pub(super) fn whole(test: Test, repetitions: u32) -> Self {
        let one = Self::of(test);
        let times = u64::from(repetitions) + 1;
        Self { prompt: one.prompt * times + u64::from(test.depth), generated: one.generated * times }
    }

    pub(super) fn times(self, times: u64) -> Self {
        Self { prompt: self.prompt * times, generated: self.generated * times }
    }

    /// Tokens per second, when it took so long.
    pub(super) fn rate(self, time: Duration) -> Option<f64> {
        #[expect(clippy::cast_precision_loss, reason = "token counts are far below 2^52")]
        let tokens = (self.prompt + self.generated) as f64;
        (tokens > 0.0 && !time.is_zero()).then(|| tokens / time.as_secs_f64())
    }

    pub(super) fn add(&mut self, other: Self) {
        self.prompt += other.prompt;
        self.generated += other.generated;
    }

    pub(super) fn take(&mut self, other: Self) {
        self.prompt = self.prompt.saturating_sub(other.prompt);
        self.generated = self.generated.saturating_sub(other.generated);
    }

    /// How long it will take, at the speeds seen so far in tokens per second; `None` while they are not known.
    pub(super) fn time(self, prefill: Option<f64>, decode: Option<f64>) -> Option<Duration> {
        #[expect(clippy::cast_precision_loss, reason = "token counts are far below 2^52")]
        let part = |tokens: u64, rate: Option<f64>| match rate {
            _ if tokens == 0 => Some(0.0),
            Some(rate) if rate > 0.0 => Some(tokens as f64 / rate),
            _ => None,
        };
        Duration::try_from_secs_f64(part(self.prompt, prefill)? + part(self.generated, decode)?).ok()
    }
}

#[cfg(test)]
mod unit {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Only {
        #[command(flatten)]
        bench: BenchArgs,
    }

    fn args(line: &str) -> BenchArgs {
        Only::parse_from(["bench"].into_iter().chain(line.split_whitespace())).bench
    }

    fn usual() -> LoadPlan {
        LoadPlan::usual(0, KvType::F16, 4)
    }

    #[test]
    fn lists_are_combined_each_value_with_each() {
        let shown = |line: &str| -> Vec<String> {
            let plans = plans(&args(line), &usual());
            let show =
                |p: &LoadPlan| format!("{:?} {} {} {}/{}", p.gpu_layers, p.kv, p.threads, p.batch, p.ubatch);
            plans.iter().map(show).collect()
        };
        assert_eq!(shown("m"), ["Auto f16 4 512/512"]);
        assert_eq!(
            shown("m -t 1,2 --kv f16,q8_0"),
            ["Auto f16 1 512/512", "Auto f16 2 512/512", "Auto q8_0 1 512/512", "Auto q8_0 2 512/512"]
        );
        assert_eq!(
            shown("m -b 64,128 -u 64,128 --ngl 3"),
            ["Count(3) f16 4 64/64", "Count(3) f16 4 128/64", "Count(3) f16 4 128/128"]
        );
    }

    #[test]
    fn tests_go_depth_by_depth() {
        let shown =
            |line: &str| -> Vec<String> { tests(&args(line)).iter().map(ToString::to_string).collect() };
        assert_eq!(shown("m"), ["pp512", "tg128", "pp512+tg128"]);
        assert_eq!(shown("m -p 0 -g 8,16 -d 0,64 -a 0+0"), ["tg8", "tg16", "tg8 @ d64", "tg16 @ d64"]);
        assert_eq!(shown("m -p 32 -n 0 -d 64 -a 8+8"), ["pp32 @ d64"]);
        assert_eq!(window(tests(&args("m -p 32 -d 64"))[0]), 96);
    }

    #[test]
    fn the_time_left_follows_from_what_is_known() {
        let test = Test { kind: Kind::Answer, prompt: 100, generated: 10, depth: 0 };
        let mut left = Left::whole(test, 4);
        assert_eq!(left, Left { prompt: 500, generated: 50 });
        left.take(Left::of(test));
        assert_eq!(left.time(Some(100.0), Some(10.0)), Some(Duration::from_secs(8)));
        assert_eq!(left.time(Some(100.0), None), None);
        left.take(Left { prompt: 0, generated: 900 });
        assert_eq!(left.time(Some(100.0), None), Some(Duration::from_secs(4)));
        left.add(Left { prompt: 100, generated: 0 });
        assert_eq!(left.time(Some(0.0), None), None);
    }
}
