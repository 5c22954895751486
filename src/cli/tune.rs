//! `infer tune`: what is fastest on this machine for a model like this one, measured and remembered.

use std::time::{Duration, Instant};

use self::contexts::Contexts;
use self::report::{Report, Row};
use self::search::{Clock, Found, Gain, Ground, Sizes, Step};
use super::args::TuneArgs;
use super::bench::row::{Kind as TestKind, Test, quantile};
use super::pull::Found as Model;
use super::room::Room;
use super::tuned::{self, Choice, Entry, Key};
use super::ui::{Bar, Ui};
use super::{fit as fitting, load, pull, spin, version};
use crate::engine::llama::Weights;
use crate::engine::{BATCH, GpuLayers, KvType, LoadPlan, placement};
use crate::error::Result;
use crate::human::Count;
use crate::machine;
use crate::model::fit::{self, Wish};
use crate::model::gguf::{Header, Shape};

mod contexts;
mod report;
mod search;

/// The longest window that is measured.
const LONGEST: u64 = 4096;

/// The batch of llama.cpp's tools. Their micro-batch is as large as our batch.
const TOOLS_BATCH: u32 = 2048;

/// Settings are tried until this share of the time is over; the rest is for the last comparison.
const SEARCHING: f64 = 0.7;

pub(crate) fn run(ui: &mut Ui, args: &TuneArgs) -> Result<()> {
    if let Some(device) = &args.device {
        placement::named(device)?;
    }
    match &args.model {
        Some(name) => {
            let model = pull::obtain(ui, name, args.yes)?;
            let header = Header::open(&model.path)?.with_parts(&model.path)?;
            header.check_runnable(&model.path)?;
            let shape = header.shape();
            if args.clear { clear(ui, args, Some(&shape)) } else { tune(ui, args, &model, &header, &shape) }
        }
        None if args.clear => clear(ui, args, None),
        None => {
            let entries = tuned::all()?;
            // Whether all of it could be written is asked once, at the end.
            let _ = if args.json {
                ui.json(&report::list_json(&entries))
            } else {
                ui.page(&report::list(&entries))
            };
            Ok(())
        }
    }
}

fn clear(ui: &mut Ui, args: &TuneArgs, shape: Option<&Shape>) -> Result<()> {
    let key = shape.map(|shape| Key::here(shape, args.device.as_deref()));
    let gone = tuned::forget(key.as_ref())?;
    if args.json {
        let _ = ui.json(&serde_json::json!({ "forgotten": gone }));
    } else {
        ui.status(&format!("forgotten: {}", Count(gone as u64, "choice")));
    }
    Ok(())
}

fn tune(ui: &mut Ui, args: &TuneArgs, model: &Model, header: &Header, shape: &Shape) -> Result<()> {
    version::advise_rebuild(ui);
    let longest = u32::try_from(shape.context.unwrap_or(LONGEST).clamp(1, LONGEST)).unwrap_or(1);
    load::check_positions(header, longest)?;
    let defaults = tools_defaults(args, longest);
    let room = Room::on(args.device.as_deref());
    fit::plan(shape, room.view(), &Wish::of(&defaults, Some(longest)))
        .map_err(|too_big| too_big.error(|bytes| fitting::smaller(&model.name, shape, bytes)))?;
    if spin::others_run() {
        ui.status("others use this machine now: what is fastest may be something else when they do not");
    }
    ui.stop_with_brake();
    let mut report = Tuning { ui, args, model, shape, longest }.measure(&defaults)?;
    let key = Key::here(shape, args.device.as_deref());
    report.machine.clone_from(&key.machine);
    let mut remembered = Ok(());
    let choice = Choice::of(&report.best);
    // A search without time that found nothing is no reason to forget a better one.
    let says_something = report.left.is_empty()
        || choice != Choice::of(&defaults)
        || tuned::find(ui, shape, args.device.as_deref()).is_none();
    if !args.dry_run && says_something {
        remembered = tuned::remember(ui, Entry { key, choice, model: model.name.clone(), gain: report.gain });
        report.remembered = remembered.is_ok();
    }
    let _ = if args.json { ui.json(&report.json()) } else { ui.page(&report.text()) };
    // What was measured took a minute, and stands on stdout in any case.
    remembered.map_err(|error| ui.told(&error))
}

/// As `llama-bench` and the other tools of llama.cpp have it: a thread for each core, flash attention where llama.cpp
/// thinks fit, batches of 2048 in micro-batches of 512.
fn tools_defaults(args: &TuneArgs, ctx: u32) -> LoadPlan {
    LoadPlan {
        device: args.device.clone(),
        batch: TOOLS_BATCH,
        ..LoadPlan::usual(ctx, KvType::F16, machine::cores())
    }
}

/// A model that is being tuned.
struct Tuning<'a> {
    ui: &'a mut Ui,
    args: &'a TuneArgs,
    model: &'a Model,
    shape: &'a Shape,
    longest: u32,
}

impl Tuning<'_> {
    fn measure(&mut self, defaults: &LoadPlan) -> Result<Report> {
        let start = LoadPlan { batch: BATCH, ..defaults.clone() };
        let (weights, place) = self.place(&start)?;
        let seconds = f64::from(self.args.seconds);
        let began = Instant::now();
        let start = place.as_ref().filter(|step| step.chosen).map_or(start.clone(), |_| on_cpu(&start));
        let late = |share: f64| move || began.elapsed() > Duration::from_secs_f64(seconds * share);
        let (shape, room) = (self.shape, Room::on(self.args.device.as_deref()));
        let fits =
            |plan: &LoadPlan| fit::plan(shape, room.view(), &Wish::of(plan, Some(self.longest))).is_ok();
        let threads = machine::thread_counts();
        let bar = self.ui.watching();
        let name = &self.model.name;
        let sizes = contexts::sizes(&weights, &start, seconds, self.longest, self.ui.brake())?;
        let mut contexts = self.contexts(&weights, sizes);
        let found = Found::nothing(start);
        let clock = &mut |plan: &LoadPlan, test: Test| timed(&bar, name, &mut contexts, plan, test);
        let ground = Ground { threads: &threads, sizes, fits: &fits };
        let found = search::search(&search::THREADS, found, ground, clock, &late(SEARCHING))?;
        drop(contexts);
        // With other threads more may fit into the time.
        let sizes = contexts::sizes(&weights, &found.best, seconds, self.longest, self.ui.brake())?;
        let mut contexts = self.contexts(&weights, sizes);
        let clock = &mut |plan: &LoadPlan, test: Test| timed(&bar, name, &mut contexts, plan, test);
        let ground = Ground { sizes, ..ground };
        // Attention is what matters most with much in the cache, and has its part of the time.
        let found = search::search(&search::BATCHES, found, ground, clock, &late(SEARCHING / 2.0))?;
        let mut found = search::search(&search::ATTENTION, found, ground, clock, &late(SEARCHING))?;
        found.steps.splice(0..0, place);
        let on_gpu = placement::uses_gpu(self.args.device.as_deref(), found.best.gpu_layers);
        let kv = if on_gpu { self.kv(&found.best, sizes, clock)? } else { None };
        // The weights are where they are: the defaults are measured there too.
        let same_place = LoadPlan { gpu_layers: found.best.gpu_layers, ..defaults.clone() };
        verified(&self.model.name, &same_place, found, kv, sizes, clock)
    }

    /// The weights where they are faster: on the GPU, or all on the CPU. The CPU has to be faster clearly.
    fn place(&mut self, start: &LoadPlan) -> Result<(Weights, Option<Step>)> {
        let weights = load::load_weights(self.ui, &self.model.path, start)?;
        if !placement::uses_gpu(self.args.device.as_deref(), start.gpu_layers) {
            return Ok((weights, None));
        }
        let sizes =
            contexts::sizes(&weights, start, f64::from(self.args.seconds), self.longest, self.ui.brake())?;
        let sizes = Sizes { depth: 0, long_prompt: sizes.prompt, ..sizes };
        let gpu = self.alone(&weights, start, sizes)?;
        drop(weights);
        let cpu_plan = on_cpu(start);
        let weights = load::load_weights(self.ui, &self.model.path, &cpu_plan)?;
        let gain = Gain::of(&gpu, &self.alone(&weights, &cpu_plan, sizes)?);
        let chosen = gain.is_clear();
        let step = Step { setting: "GPU layers", value: "0".to_owned(), gain: gain.median(), chosen };
        if chosen {
            return Ok((weights, Some(step)));
        }
        drop(weights);
        Ok((load::load_weights(self.ui, &self.model.path, start)?, Some(step)))
    }

    /// The times of one plan, without another to take turns with.
    fn alone(&mut self, weights: &Weights, plan: &LoadPlan, sizes: Sizes) -> Result<Vec<search::Times>> {
        let mut contexts = self.contexts(weights, sizes);
        let bar = self.ui.watching();
        let clock =
            &mut |plan: &LoadPlan, test: Test| timed(&bar, &self.model.name, &mut contexts, plan, test);
        let plans = std::slice::from_ref(plan);
        let mut times = search::interleaved(plans, &sizes.tests(), sizes.rounds, clock)?;
        Ok(times.pop().unwrap_or_default())
    }

    /// How much faster answers are with keys and values in eight bits. They differ a little, so that is not chosen here.
    fn kv(&mut self, best: &LoadPlan, sizes: Sizes, clock: &mut Clock) -> Result<Option<f64>> {
        if self.shape.cache.unfit_width(KvType::Q8_0).is_some() || !self.shape.cache.has_kv() {
            return Ok(None);
        }
        let plans = [best.clone(), LoadPlan { kv: KvType::Q8_0, ..best.clone() }];
        let times = search::interleaved(&plans, &[sizes.decode(sizes.depth)], sizes.rounds, clock)?;
        let gain = Gain::of(&times[0], &times[1]);
        Ok(gain.is_clear().then(|| gain.median()))
    }

    /// As many contexts as there is memory for, up to what is of use.
    fn contexts<'w>(&self, weights: &'w Weights, sizes: Sizes) -> Contexts<'w> {
        let window = sizes.window();
        let each = self.shape.cache.bytes(window.into(), BATCH.into(), KvType::F16).saturating_mul(2).max(1);
        let free = machine::memory_available().unwrap_or(u64::MAX) / 2;
        let most = usize::try_from(free / each).unwrap_or(usize::MAX).clamp(2, 4);
        Contexts::new(weights, window, most, self.ui.brake())
    }
}

fn on_cpu(plan: &LoadPlan) -> LoadPlan {
    LoadPlan { gpu_layers: GpuLayers::Count(0), ..plan.clone() }
}

/// The time of a piece of work, and words about it meanwhile.
fn timed(bar: &Bar, name: &str, contexts: &mut Contexts, plan: &LoadPlan, test: Test) -> Result<Duration> {
    bar.say(&format!("{name}: {test} with {}", tuned::words(plan)));
    contexts.time(plan, test)
}

/// Compare what was found with the defaults, and keep those where it is not faster clearly.
fn verified(
    name: &str,
    defaults: &LoadPlan,
    found: Found,
    kv: Option<f64>,
    sizes: Sizes,
    clock: &mut Clock,
) -> Result<Report> {
    let mut report = Report {
        model: name.to_owned(),
        machine: String::new(),
        defaults: defaults.clone(),
        best: found.best,
        steps: found.steps,
        left: found.left,
        rows: Vec::new(),
        gain: 1.0,
        kv,
        kept: false,
        remembered: false,
    };
    if Choice::of(&report.best) == Choice::of(defaults) {
        return Ok(report);
    }
    let (tests, times) = search::verify(defaults, &report.best, sizes, clock)?;
    let gain = Gain::of(&times[0], &times[1]);
    let median = |times: &search::Times| quantile(times, 0.5).unwrap_or(f64::NAN);
    let row = |index: usize, test: &Test| Row {
        test: *test,
        defaults: tokens(*test) / median(&times[0][index]),
        tuned: tokens(*test) / median(&times[1][index]),
        gain: gain.medians()[index],
    };
    report.rows = tests.iter().enumerate().map(|(index, test)| row(index, test)).collect();
    report.rows.sort_by_key(|row| (row.test.depth, row.test.kind == TestKind::Decode));
    report.gain = gain.median();
    if !gain.is_clear() {
        (report.kept, report.gain) = (true, 1.0);
        report.best = LoadPlan { batch: BATCH, ..defaults.clone() };
    }
    Ok(report)
}

fn tokens(test: Test) -> f64 {
    f64::from(test.prompt) + f64::from(test.generated)
}
