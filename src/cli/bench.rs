//! `infer bench`: what this machine did with a model, test by test.

use std::time::{Duration, Instant};

use jiff::Timestamp;

use self::limits::Limits;
use self::output::Output;
use self::row::{About, Environment, Load, Planned, Row, Settings, Test};
use self::work::Left;
use super::args::BenchArgs;
use super::pull::Found;
use super::room::Room;
use super::ui::{Bar, Ui};
use super::{load, pull, spin, tuned, version};
use crate::engine::llama::{LLAMA_CPP_BUILD, Weights};
use crate::engine::{DeviceKind, Flash, LoadPlan, placement};
use crate::error::{Error, Kind, Result};
use crate::human::Seconds;
use crate::machine;
use crate::model::gguf::Header;
use crate::model::page_cache;

#[allow(dead_code, reason = "called when a terminal shows them")]
mod bars;
mod baseline;
mod json;
mod limits;
mod markdown;
mod measure;
mod names;
mod output;
#[allow(dead_code, reason = "called when `--plot` is there")]
mod plot;
pub(super) mod row;
mod settings;
mod table;
mod work;

pub(crate) fn run(ui: &mut Ui, args: &BenchArgs) -> Result<()> {
    version::advise_rebuild(ui);
    let tests = work::tests(args);
    if tests.is_empty() {
        return Err(Error::usage("no test is left").hint("`infer bench MODEL` alone runs the usual ones"));
    }
    if let Some(device) = &args.device {
        placement::named(device)?;
    }
    let find = |name: &String| Model::find(ui, name, args, largest(&tests));
    let models = args.models.iter().map(find).collect::<Result<Vec<_>>>()?;
    let planned: Vec<Planned> = models.iter().flat_map(|model| model.planned(&tests)).collect();
    let mut output = Output::new(args, &planned, ui.columns())?;
    let mut bench =
        Bench { args, environment: environment(), left: Left::default(), prefill: None, decode: None };
    for model in &models {
        for test in &tests {
            bench.left.add(Left::whole(*test, args.repetitions).times(model.plans.len() as u64));
        }
    }
    if spin::others_run() {
        ui.status("others use this machine now: what is measured may be less than it can do");
    }
    ui.stop_with_brake();
    output.begin(ui);
    let measured = models.iter().try_for_each(|model| bench.model(ui, model, &tests, &mut output));
    output.end(ui);
    // What was measured stands on stdout already, in its form; an error does not belong there.
    let drawn = output.draw(ui);
    measured.and(drawn).and_then(|()| output.judge()).map_err(|error| ui.told(&error))
}

/// A model to be measured, and how.
struct Model {
    found: Found,
    header: Header,
    layers: u64,
    plans: Vec<LoadPlan>,
}

impl Model {
    fn find(ui: &mut Ui, name: &str, args: &BenchArgs, window: u32) -> Result<Self> {
        let found = pull::obtain(ui, name, args.yes)?;
        let header = Header::open(&found.path)?.with_parts(&found.path)?;
        header.check_runnable(&found.path)?;
        load::check_positions(&header, window)?;
        let shape = header.shape();
        for kv in &args.kv {
            load::kv::choose(ui, *kv, &shape)?;
        }
        let room = Room::on(args.device.as_deref());
        let usual = LoadPlan {
            device: args.device.clone(),
            ..LoadPlan::usual(window, args.kv[0].into(), machine::threads())
        };
        let threads_said = !args.threads.is_empty();
        let (usual, _, is_tuned) =
            load::plan::tuned_or_usual(ui, &found.name, &shape, usual, threads_said, Some(window), &room)?;
        if is_tuned {
            ui.detail(&format!("{name}: tuned: {}", tuned::words(&usual)));
        }
        let plans = work::plans(args, &usual);
        for plan in &plans {
            load::plan::fitted(&found.name, &shape, plan, Some(window), &room)?;
        }
        let layers = shape.layers.unwrap_or(0) + 1;
        Ok(Self { found, header, layers, plans })
    }

    fn planned<'a>(&'a self, tests: &'a [Test]) -> impl Iterator<Item = Planned> + 'a {
        let planned = |plan: &LoadPlan, test: Test| Planned {
            model: self.found.name.clone(),
            settings: chosen(plan),
            test,
        };
        self.plans.iter().flat_map(move |plan| tests.iter().map(move |test| planned(plan, *test)))
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
    fn model(&mut self, ui: &mut Ui, model: &Model, tests: &[Test], output: &mut Output) -> Result<()> {
        let mut limits = Limits::new(&model.header);
        let mut loaded: Option<InMemory> = None;
        for plan in &model.plans {
            // Other weights lie elsewhere; all the rest is a matter of the context.
            let is_there = loaded
                .as_ref()
                .is_some_and(|loaded| (loaded.plan.gpu_layers, loaded.plan.kv) == (plan.gpu_layers, plan.kv));
            let here = match loaded.take().filter(|_| is_there) {
                Some(here) => here,
                None => load_twice(ui, model, plan.clone())?,
            };
            let is_on_gpu = u64::try_from(here.weights.gpu_layers).is_ok_and(|layers| layers >= model.layers);
            for test in tests {
                let roofline = limits.of(*test, plan, is_on_gpu, &ui.brake())?;
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
        let left = left.map(|left| format!(", about {} left", Seconds(left.as_secs_f64().ceil())));
        bar.say(&format!("{name}: {test}{}", left.unwrap_or_default()));
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

/// The window of the largest test.
fn largest(tests: &[Test]) -> u32 {
    tests.iter().map(|test| work::window(*test)).max().unwrap_or(0)
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
