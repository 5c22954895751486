//! `infer bench`: what this machine did with a model, test by test.

use std::time::{Duration, Instant};

use jiff::Timestamp;

use self::limits::Limits;
use self::output::Output;
use self::row::{About, Environment, Load, Planned, Row, Settings, Test};
use self::work::Left;
use super::args::{BenchArgs, FlashArg};
use super::pull::Found;
use super::room::Room;
use super::ui::{Bar, Ui};
use super::{load, pull, spin, tuned, version};
use crate::engine::llama::{LLAMA_CPP_BUILD, Weights};
use crate::engine::{DeviceKind, Flash, KvType, LoadPlan, placement};
use crate::error::{Error, Kind, Result};
use crate::machine;
use crate::model::gguf::Header;
use crate::model::page_cache;

mod bars;
mod baseline;
mod json;
mod limits;
mod markdown;
mod measure;
mod names;
mod output;
mod plot;
pub(super) mod row;
mod settings;
mod table;
mod work;

pub(crate) fn run(ui: &mut Ui, args: &BenchArgs) -> Result<()> {
    version::advise_rebuild(ui);
    if work::tests(args, u64::MAX).is_empty() {
        return Err(Error::usage("no test is left").hint("`infer bench MODEL` alone runs the usual ones"));
    }
    if let Some(device) = &args.device {
        placement::named(device)?;
    }
    let find = |name: &String| Model::find(ui, name, args);
    let models = args.models.iter().map(find).collect::<Result<Vec<_>>>()?;
    let planned: Vec<Planned> = models.iter().flat_map(Model::planned).collect();
    let mut output = Output::new(args, &planned, ui.columns())?;
    let mut bench =
        Bench { args, environment: environment(), left: Left::default(), prefill: None, decode: None };
    for model in &models {
        for test in &model.tests {
            bench.left.add(Left::whole(*test, args.repetitions).times(model.plans.len() as u64));
        }
    }
    if spin::others_run() {
        ui.status("others use this machine now: what is measured may be less than it can do");
    }
    ui.stop_with_brake();
    output.begin(ui);
    let measured = models.iter().try_for_each(|model| bench.model(ui, model, &mut output));
    output.end(ui);
    // What was measured stands on stdout already, in its form; an error does not belong there.
    let drawn = output.draw(ui);
    measured.and(drawn).and_then(|()| output.judge()).map_err(|error| ui.told(&error))
}

/// A model to be measured, and how.
struct Model {
    found: Found,
    header: Header,
    tests: Vec<Test>,
    plans: Vec<LoadPlan>,
}

impl Model {
    fn find(ui: &mut Ui, name: &str, args: &BenchArgs) -> Result<Self> {
        let found = pull::obtain(ui, name, args.yes)?;
        let header = Header::open(&found.path)?.with_parts(&found.path)?;
        header.check_runnable(&found.path)?;
        let shape = header.shape();
        let tests = work::tests(args, shape.context.unwrap_or(0));
        let window = tests.iter().map(|test| work::window(*test)).max().unwrap_or(0);
        load::check_positions(&header, window)?;
        load::warn_beyond_training(ui, window, &shape);
        let kvs = args.kv.iter().map(|kv| load::kv::choose(ui, *kv, &shape)).collect::<Result<Vec<_>>>()?;
        let room = Room::on(args.device.as_deref());
        let usual =
            LoadPlan { device: args.device.clone(), ..LoadPlan::usual(window, kvs[0], machine::threads()) };
        let threads_said = !args.threads.is_empty();
        let (usual, _, is_tuned) =
            load::plan::tuned_or_usual(ui, &found.name, &shape, usual, threads_said, Some(window), &room)
                .map_err(too_deep)?;
        if is_tuned {
            ui.detail(&format!("{name}: tuned: {}", tuned::words(&usual)));
        }
        let plans = work::plans(args, &usual, &kvs)?;
        if plans.iter().any(|plan| plan.kv != KvType::F16) && args.flash.contains(&FlashArg::Off) {
            ui.note("flash: always on where the KV cache is quantized, nothing else can read that");
        }
        for plan in &plans {
            load::plan::fitted(&found.name, &shape, plan, Some(window), &room).map_err(too_deep)?;
        }
        Ok(Self { found, header, tests, plans })
    }

    fn planned(&self) -> impl Iterator<Item = Planned> {
        let planned = |plan: &LoadPlan, test: Test| Planned {
            model: self.found.name.clone(),
            settings: chosen(plan),
            test,
        };
        self.plans.iter().flat_map(move |plan| self.tests.iter().map(move |test| planned(plan, *test)))
    }
}

/// What all models share.
struct Bench<'a> {
    args: &'a BenchArgs,
    environment: Environment,
    left: Left,
    /// Tokens per second, as seen last.
    prefill: Option<f64>,
    decode: Option<f64>,
}

/// A model in memory.
struct InMemory {
    weights: Weights,
    /// What it was loaded by.
    plan: LoadPlan,
    about: About,
    load: Load,
}

impl Bench<'_> {
    /// All tests of a model, until nobody reads any more.
    fn model(&mut self, ui: &mut Ui, model: &Model, output: &mut Output) -> Result<()> {
        let mut limits = Limits::new(&model.header);
        let mut loaded: Option<InMemory> = None;
        for plan in &model.plans {
            let here = match loaded.take().filter(|here| lies_as(plan, &here.plan)) {
                Some(here) => here,
                None => load_twice(ui, model, plan.clone())?,
            };
            for test in &model.tests {
                if ui.is_closed() {
                    return Ok(());
                }
                let roofline = limits.of(ui, *test, plan, here.weights.is_whole_on_gpu);
                let row = Row { roofline, ..self.test(ui, &here, plan, *test)? };
                output.row(ui, row);
            }
            loaded = Some(here);
        }
        Ok(())
    }

    fn test(&mut self, ui: &mut Ui, here: &InMemory, plan: &LoadPlan, test: Test) -> Result<Row> {
        let at = Timestamp::now();
        machine::forget_memory_peak();
        let plan = LoadPlan { ctx: work::window(test), ..plan.clone() };
        let llama = here.weights.open_by(&plan, ui.brake())?;
        let repetitions = self.args.repetitions;
        let mut after = self.left;
        after.take(Left::whole(test, repetitions));
        let bar = ui.watching();
        self.show(&bar, &here.about.name, test);
        let report = &mut |done: Left, time: Duration| {
            self.see(done, time);
            self.left.take(done);
            self.show(&bar, &here.about.name, test);
        };
        let measured = measure::measure(llama, test, repetitions, report)?;
        drop(bar);
        let Some(measured) = measured else { return Err(Error::new(Kind::Interrupted, "interrupted")) };
        self.left = after;
        Ok(Row {
            run: self.environment.clone(),
            model: here.about.clone(),
            settings: chosen(&plan),
            test,
            samples: measured.samples,
            at,
            answer: measured.answer,
            load: here.load.clone(),
            roofline: None,
            memory: measured.memory,
        })
    }

    /// The speed of what was done last; an answer has both in it.
    fn see(&mut self, done: Left, time: Duration) {
        match (done.rate(time), done.generated) {
            (Some(rate), 0) => self.prefill = Some(rate),
            (Some(rate), _) if done.prompt == 0 => self.decode = Some(rate),
            _ => {}
        }
    }

    fn show(&self, bar: &Bar, name: &str, test: Test) {
        let left = self.left.time(self.prefill, self.decode);
        let left = left.map(|left| format!(", about {} left", about(left)));
        bar.say(&format!("{name}: {test}{}", left.unwrap_or_default()));
    }
}

/// Here the window is as long as the tests want it.
fn too_deep(error: Error) -> Error {
    let hint = error.hint.clone().filter(|hint| !hint.contains("`--ctx"));
    error.hint(hint.unwrap_or_else(|| "try a smaller `--depth` or `--prompt`, or `--kv q8_0`".to_owned()))
}

/// No more than can be known.
fn about(time: Duration) -> String {
    match time.as_secs() + 1 {
        seconds @ ..120 => format!("{seconds} s"),
        seconds => format!("{} min", seconds.div_ceil(60)),
    }
}

/// Load it as if for the first time, and then once more.
fn load_twice(ui: &mut Ui, model: &Model, plan: LoadPlan) -> Result<InMemory> {
    let path = &model.found.path;
    for file in model.header.part_paths(path) {
        page_cache::forget(&file);
    }
    let before = machine::disk_reads();
    let (weights, first) = timed(ui, path, &plan)?;
    // Only who reads the file from the disk has seen a cold load.
    let read = before.zip(machine::disk_reads()).map(|(before, after)| after.saturating_sub(before));
    let is_cold = read.is_some_and(|read| read > model.header.file_bytes / 2);
    drop(weights);
    let (weights, second) = timed(ui, path, &plan)?;
    let (kind, bytes, params) = weights.about();
    let filename = path.to_string_lossy().into_owned();
    Ok(InMemory {
        weights,
        plan,
        about: About { name: model.found.name.clone(), filename, kind, bytes, params },
        load: Load { cold: is_cold.then_some(first), warm: Some(second) },
    })
}

/// Load, and open a context as `run` does.
fn timed(ui: &Ui, path: &std::path::Path, plan: &LoadPlan) -> Result<(Weights, Duration)> {
    let started = Instant::now();
    let weights = load::load_weights(ui, path, plan)?;
    drop(weights.open(ui.brake())?);
    Ok((weights, started.elapsed()))
}

/// Would the weights lie where they lie for the other plan? On a GPU they share the memory with cache and buffers; all else
/// is a matter of the context.
fn lies_as(plan: &LoadPlan, other: &LoadPlan) -> bool {
    let shares = |plan: &LoadPlan| {
        let on_gpu = placement::uses_gpu(plan.device.as_deref(), plan.gpu_layers);
        on_gpu.then_some((plan.kv, plan.ubatch, plan.flash))
    };
    plan.gpu_layers == other.gpu_layers && shares(plan) == shares(other)
}

fn chosen(plan: &LoadPlan) -> Settings {
    Settings {
        batch: plan.batch,
        ubatch: plan.ubatch,
        threads: plan.threads,
        threads_batch: plan.threads_batch,
        kv: plan.kv,
        gpu_layers: plan.gpu_layers,
        flash: match plan.flash {
            Flash::Auto => None,
            Flash::On => Some(true),
            Flash::Off => Some(false),
        },
        device: plan.device.clone(),
    }
}

fn environment() -> Environment {
    let devices = placement::devices();
    let described = |kind: DeviceKind| {
        let of_kind = devices.iter().filter(|device| device.kind == kind);
        of_kind.map(|device| device.description.trim()).collect::<Vec<_>>().join(", ")
    };
    let mut backends: Vec<&str> =
        devices.iter().filter(|d| d.kind != DeviceKind::Cpu).map(|d| d.backend.as_str()).collect();
    backends.dedup();
    Environment {
        build_commit: "unknown".to_owned(),
        build_number: LLAMA_CPP_BUILD.trim_start_matches('b').parse().unwrap_or(0),
        backends: if backends.is_empty() { "CPU".to_owned() } else { backends.join(",") },
        cpu_info: described(DeviceKind::Cpu),
        gpu_info: described(DeviceKind::Gpu),
        infer_version: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_to_wait_is_a_round_number() {
        for (millis, expected) in
            [(0, "1 s"), (41_200, "42 s"), (118_999, "119 s"), (119_000, "2 min"), (3_599_000, "60 min")]
        {
            assert_eq!(about(Duration::from_millis(millis)), expected);
        }
    }
}
