//! What there is to measure: every choice of settings with every test, and how much of it is left.

use std::time::Duration;

use super::row::{Kind, Test};
use crate::cli::args::BenchArgs;
use crate::engine::{Flash, GpuLayers, KvType, LoadPlan};
use crate::error::{Error, Result};
use crate::human::Thousands;

/// The depths that are measured when none is asked for.
const DEPTHS: [u32; 2] = [0, 2048];

/// The most settings of one run; nobody would wait for more.
const MOST_PLANS: usize = 1000;

/// Plans for all that the lists of settings combine to, those with the same weights and cache next to each other. The
/// window is left to each test.
pub(super) fn plans(args: &BenchArgs, usual: &LoadPlan, kvs: &[KvType]) -> Result<Vec<LoadPlan>> {
    let lists = [kvs.len(), args.flash.len(), args.threads.len(), args.gpu_layers.len()];
    let batches = [args.batch.len(), args.ubatch.len()];
    let all = lists.iter().chain(&batches).fold(1_usize, |all, list| all.saturating_mul((*list).max(1)));
    if all > MOST_PLANS {
        let message = format!("the lists combine to {} settings", Thousands(all as u64));
        return Err(Error::usage(message).hint(format!("give up to {MOST_PLANS} at a time")));
    }
    let threads: Vec<usize> = args.threads.iter().copied().map(usize::from).collect();
    let flash: Vec<Flash> = args.flash.iter().map(|flash| (*flash).into()).collect();
    let mut plans: Vec<LoadPlan> = vec![LoadPlan { device: args.device.clone(), ..usual.clone() }];
    vary(&mut plans, &args.gpu_layers, |plan, layers: GpuLayers| plan.gpu_layers = layers);
    vary(&mut plans, kvs, |plan, kv| plan.kv = kv);
    // Nothing else can read a quantized cache.
    let readable = |plan: &LoadPlan, flash| {
        if flash == Flash::Off && plan.kv != KvType::F16 { Flash::On } else { flash }
    };
    vary(&mut plans, &flash, |plan, flash| plan.flash = readable(plan, flash));
    vary(&mut plans, &threads, |plan, threads| (plan.threads, plan.threads_batch) = (threads, threads));
    vary(&mut plans, &args.batch, |plan, batch| plan.batch = batch);
    let grows = args.batch.is_empty();
    vary(&mut plans, &args.ubatch, |plan, ubatch| {
        plan.ubatch = ubatch;
        plan.batch = if grows { plan.batch.max(ubatch) } else { plan.batch };
    });
    for plan in &mut plans {
        plan.ubatch = plan.ubatch.min(plan.batch);
    }
    // What had to be made equal is measured once.
    let mut once: Vec<LoadPlan> = Vec::new();
    for plan in plans {
        if !once.contains(&plan) {
            once.push(plan);
        }
    }
    Ok(once)
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

/// The tests, depth by depth, for a model with a context of so many tokens.
pub(super) fn tests(args: &BenchArgs, context: u64) -> Vec<Test> {
    let mut tests = Vec::new();
    let depths = if args.depth.is_empty() { DEPTHS.to_vec() } else { args.depth.clone() };
    for depth in depths {
        let test = |kind, prompt, generated| Test { kind, prompt, generated, depth };
        tests.extend(args.prompt.iter().map(|&n| test(Kind::Prefill, n, 0)));
        tests.extend(args.generate.iter().map(|&n| test(Kind::Decode, 0, n)));
        // An answer begins with nothing in the cache.
        if depth == 0 {
            tests.extend(args.answer.iter().map(|&(prompt, answer)| test(Kind::Answer, prompt, answer)));
        }
    }
    let reaches =
        |test: Test| !args.depth.is_empty() || test.depth == 0 || u64::from(window(test)) <= context;
    tests.retain(|test| test.prompt + test.generated > 0 && reaches(*test));
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
            let args = args(line);
            let kvs: Vec<KvType> = args.kv.iter().map(|kv| (*kv).into()).collect();
            let plans = plans(&args, &usual(), &kvs).unwrap();
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
    fn what_cannot_be_is_made_what_can() {
        let shown = |line: &str| -> Vec<String> {
            let args = args(line);
            let kvs: Vec<KvType> = args.kv.iter().map(|kv| (*kv).into()).collect();
            let plans = plans(&args, &usual(), &kvs).unwrap();
            plans.iter().map(|p| format!("{} {:?} {}/{}", p.kv, p.flash, p.batch, p.ubatch)).collect()
        };
        assert_eq!(shown("m -u 1024,64"), ["f16 Auto 1024/1024", "f16 Auto 512/64"]);
        assert_eq!(shown("m -b 256 -u 1024,64"), ["f16 Auto 256/256", "f16 Auto 256/64"]);
        assert_eq!(
            shown("m --kv f16,q8_0 --flash on,off"),
            ["f16 On 512/512", "f16 Off 512/512", "q8_0 On 512/512"]
        );
    }

    #[test]
    fn nobody_waits_for_too_many_settings() {
        let list = |len: u32| (1..=len).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
        let args = args(&format!("m -t {} -b {} -u {}", list(1000), list(1000), list(1000)));
        let error = plans(&args, &usual(), &[KvType::F16]).unwrap_err();
        assert_eq!(error.message, "the lists combine to 1,000,000,000 settings");
    }

    #[test]
    fn tests_go_depth_by_depth() {
        let shown = |line: &str| -> Vec<String> {
            tests(&args(line), 2200).iter().map(ToString::to_string).collect()
        };
        // Of the usual tests those that the context has room for, and all that are asked for.
        assert_eq!(shown("m"), ["pp512", "tg128", "pp512+tg128", "tg128 @ d2048"]);
        assert_eq!(shown("m -g 8 -p 0 -d 4096"), ["tg8 @ d4096"]);
        assert_eq!(shown("m -p 0 -g 8,16 -d 0,64 -a 0+0"), ["tg8", "tg16", "tg8 @ d64", "tg16 @ d64"]);
        assert_eq!(shown("m -p 32 -n 0 -d 64 -a 8+8"), ["pp32 @ d64"]);
        assert_eq!(window(tests(&args("m -p 32 -d 64"), 0)[0]), 96);
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
