//! Where a model goes, and a line about it.

use std::time::Duration;

use super::kv;
use crate::cli::args::AnswerArgs;
use crate::cli::fit as fitting;
use crate::cli::room::Room;
use crate::cli::tuned;
use crate::cli::ui::Ui;
use crate::engine::{GpuLayers, LoadPlan};
use crate::error::Result;
use crate::human::{Bytes, Count, Seconds, Thousands};
use crate::machine;
use crate::model::fit::{self, Plan, Wish};
use crate::model::gguf::Shape;

/// How a model is loaded, and what of it goes where.
pub(super) struct Planned {
    pub(super) load: LoadPlan,
    pub(super) plan: Plan,
    /// By what `infer tune` has found.
    is_tuned: bool,
}

/// Where the model goes and how large its window is.
pub(super) fn plan(ui: &mut Ui, args: &AnswerArgs, name: &str, shape: &Shape) -> Result<Planned> {
    let kv = kv::choose(ui, args.context.kv, shape)?;
    let threads = args.model.threads.map_or_else(machine::threads, usize::from);
    let usual = LoadPlan {
        gpu_layers: args.model.gpu_layers,
        device: args.model.device.clone(),
        ..LoadPlan::usual(0, kv, threads)
    };
    let room = Room::on(usual.device.as_deref());
    let (load, plan, is_tuned) =
        tuned_or_usual(ui, name, shape, usual, args.model.threads.is_some(), args.context.ctx, &room)?;
    let usual = fit::usual_context(shape.context.unwrap_or(0));
    if args.context.ctx.is_none() && u64::from(plan.ctx) < usual {
        ui.note(&format!(
            "context: {} tokens, because {} do not fit into the {} that are free",
            Thousands(plan.ctx.into()),
            Thousands(usual),
            Bytes(plan.all(|part| part.free.unwrap_or(0)))
        ));
    }
    let has_gpu = room.view().gpus().next().is_some();
    if !has_gpu && !matches!(args.model.gpu_layers, GpuLayers::Auto | GpuLayers::Count(0)) {
        ui.note("no GPU is seen: all layers stay on the CPU");
    }
    Ok(Planned { load: LoadPlan { ctx: plan.ctx, ..load }, plan, is_tuned })
}

/// The usual plan with what `infer tune` has found for such a model, unless that leaves less room for a context: that is
/// not what a person wants who wants it fast. Says whether it is tuned.
pub(crate) fn tuned_or_usual(
    ui: &mut Ui,
    name: &str,
    shape: &Shape,
    usual: LoadPlan,
    threads_said: bool,
    ctx: Option<u32>,
    room: &Room,
) -> Result<(LoadPlan, Plan, bool)> {
    let plan = fitted(name, shape, &usual, ctx, room);
    if let Some(choice) = tuned::find(ui, shape, usual.device.as_deref()) {
        let mut load = usual.clone();
        choice.apply(&mut load, threads_said);
        match fitted(name, shape, &load, ctx, room) {
            Ok(tuned) if plan.as_ref().map_or(true, |plan| tuned.ctx >= plan.ctx) => {
                return Ok((load, tuned, true));
            }
            _ => ui.detail("tuned: not in use: it leaves less room for a context"),
        }
    }
    Ok((usual, plan?, false))
}

/// What goes where, with a window of so many tokens or the usual one.
pub(crate) fn fitted(
    name: &str,
    shape: &Shape,
    load: &LoadPlan,
    ctx: Option<u32>,
    room: &Room,
) -> Result<Plan> {
    let plan = fit::plan(shape, room.view(), &Wish::of(load, ctx));
    plan.map_err(|too_big| too_big.error(|bytes| fitting::smaller(name, shape, bytes)))
}

/// One line about where the model went and what its context costs.
pub(super) fn load_line(shape: &Shape, planned: &Planned, on_gpu: i32, took: Duration) -> String {
    let Planned { load, plan, is_tuned } = planned;
    // llama.cpp's fit may have put more layers on a GPU than the plan, which is careful.
    let all = plan.layers;
    let layers = u64::try_from(on_gpu).unwrap_or(all).min(all);
    let gpus: Vec<String> = plan
        .gpus()
        .map(|part| {
            let free = Bytes(part.free.unwrap_or(0));
            format!("{}: {}/{all} layers, {} of {free}", part.name, part.layers, Bytes(part.used()))
        })
        .collect();
    let place = if gpus.is_empty() {
        let cpu = &plan.parts[0];
        let free = cpu.free.map_or_else(String::new, |free| format!(" of {} free", Bytes(free)));
        let threads = Count(load.threads as u64, "thread");
        let (weights, compute) = (Bytes(cpu.weights), Bytes(cpu.compute));
        format!("CPU: {threads}, weights {weights}, compute {compute}, {} in all{free}", Bytes(cpu.used()))
    } else if layers == plan.gpu_layers() {
        gpus.join(", ")
    } else {
        format!("{}; llama.cpp took {layers}", gpus.join(", "))
    };
    let tuned = if *is_tuned { format!("; tuned: {}", tuned::words(load)) } else { String::new() };
    format!(
        "loaded in {}; {place}; context {}, {}{tuned}",
        Seconds(took.as_secs_f64()),
        Thousands(load.ctx.into()),
        kv::cost(shape, load.ctx.into(), load.kv)
    )
}
