//! `infer fit`: which models this machine can run, and how fast at most.

use std::path::Path;

use serde_json::{Value, json};

use super::args::FitArgs;
use super::load::kv;
use super::models::name_of;
use super::pull;
use super::room::Room;
use super::ui::Ui;
use crate::engine::{Device, KvType, bandwidth, placement};
use crate::error::{Error, Kind, Result};
use crate::human::{Bytes, Count, Escaped};
use crate::machine;
use crate::model::fit::estimate::Estimate;
use crate::model::fit::{self, Fitting, Plan, TooBig, Wish};
use crate::model::gguf::Header;
use crate::model::registry::Entry;
use crate::model::roofline::Roofline;
use crate::model::{Located, Places, quant};
use crate::numbers::{float, whole};
use rows::Row;

mod rows;
mod smaller;

pub(crate) use smaller::smaller;

/// Tokens before the one whose time is told: a question and a part of the answer.
const DEPTH: u64 = 512;

/// The bandwidth is measured on as many bytes as a model of this size has, which no processor's cache holds.
const WORKING_SET: u64 = 1 << 30;

pub(crate) fn run(ui: &mut Ui, args: &FitArgs) -> Result<()> {
    if let Some(device) = &args.device {
        placement::named(device)?;
    }
    let places = pull::places()?;
    let room = Room::on(args.device.as_deref());
    let here = Here::measure(ui, &room, args.threads.map_or_else(machine::threads, usize::from))?;
    let wish = Wish { ctx: args.ctx, kv: args.kv.into(), ..Wish::default() };
    let judge = Judge { room: &room, here: &here, wish };
    let mut rows =
        if args.models.is_empty() { judge.all(ui, &places) } else { judge.named(&places, &args.models)? };
    rows.retain(|row| row.plan.is_ok() || args.all || !args.models.is_empty());
    rows::sort(&mut rows);
    // Whether all of it could be written is asked once, at the end.
    let _ = if args.json {
        ui.json(&json!({ "machine": here.json(&room), "models": rows::json(&rows) }))
    } else {
        ui.page(&rows::table(&rows))
    };
    if !args.json {
        ui.status(&here.line(&room));
        if let Some(advice) = rows::advice(&rows) {
            ui.status(&advice);
        }
    }
    Ok(())
}

/// What this machine reads in a second.
struct Here {
    threads: usize,
    cpu: f64,
    gpus: Vec<(String, f64)>,
}

impl Here {
    fn measure(ui: &Ui, room: &Room, threads: usize) -> Result<Self> {
        ui.stop_with_brake();
        let brake = ui.brake();
        let read = |gpu: Option<&Device>| {
            let measured = bandwidth::measure(gpu, threads, WORKING_SET, &brake)?;
            measured
                .map(|read| read.bytes_per_second)
                .ok_or_else(|| Error::new(Kind::Interrupted, "interrupted"))
        };
        let cpu = read(None)?;
        let gpus = room.view().gpus().map(|gpu| Ok((gpu.name.clone(), read(Some(gpu))?)));
        Ok(Self { threads, cpu, gpus: gpus.collect::<Result<_>>()? })
    }

    /// The most tokens per second of a model that reads so many bytes for each.
    fn limit(&self, plan: &Plan, bytes: u64) -> f64 {
        let speed = |name: &str| self.gpus.iter().find(|gpu| gpu.0 == name).map_or(self.cpu, |gpu| gpu.1);
        let held = |part: &fit::Part| float(part.weights.saturating_add(part.cache));
        let all: f64 = plan.parts.iter().map(held).sum();
        // Each device reads its share, one after the other.
        let seconds = plan.parts.iter().map(|part| held(part) / all * float(bytes) / speed(&part.name));
        1.0 / seconds.sum::<f64>()
    }

    fn json(&self, room: &Room) -> Value {
        json!({
            "memory": room.view().memory,
            "threads": self.threads,
            "bytes_per_second": self.cpu,
            "gpus": room.view().gpus().zip(&self.gpus).map(|(gpu, (name, speed))| json!({
                "name": name, "free": gpu.free, "total": gpu.total, "bytes_per_second": speed,
            })).collect::<Vec<_>>(),
        })
    }

    /// What the numbers rest on.
    fn line(&self, room: &Room) -> String {
        let memory = room.view().memory.map_or_else(String::new, |free| format!("{} free, ", Bytes(free)));
        let gpus = room.view().gpus().zip(&self.gpus).map(|(gpu, (name, speed))| {
            format!("{name}: {} free, copies {} a second", Bytes(gpu.free), Bytes(whole(*speed)))
        });
        let (speed, threads) = (Bytes(whole(self.cpu)), Count(self.threads as u64, "thread"));
        let cpu = format!("CPU: {memory}{threads} read {speed} a second");
        gpus.chain([cpu]).collect::<Vec<_>>().join("; ")
    }
}

/// How each model would run.
struct Judge<'a> {
    room: &'a Room,
    here: &'a Here,
    wish: Wish,
}

impl Judge<'_> {
    /// The models of the registry, and those that are here.
    fn all(&self, ui: &mut Ui, places: &Places) -> Vec<Row> {
        let mut rows = Vec::new();
        for held in places.store.list(&quant::variants).models {
            let name = name_of(places, &held);
            match self.file(&name, &held.path) {
                Ok(row) => rows.push(Row { about: about(places, &name), ..row }),
                Err(error) => ui.detail(&format!("{}: {}", Escaped(&name), error.message)),
            }
        }
        let here: Vec<String> = rows.iter().map(|row| row.name.clone()).collect();
        let others = places.registry.entries().filter(|entry| !here.contains(&entry.alias));
        rows.extend(others.filter_map(|entry| self.entry(&entry.alias, entry)));
        rows
    }

    fn named(&self, places: &Places, names: &[String]) -> Result<Vec<Row>> {
        let row = |name: &String| match places.locate(name)? {
            Located::File(path) => {
                self.file(name, &path).map(|row| Row { about: about(places, name), ..row })
            }
            Located::Remote(_) => {
                places.entry(name).and_then(|entry| self.entry(name, entry)).ok_or_else(|| {
                    let message = format!("`{}` is not here, and its size is not known", Escaped(name));
                    Error::failed(message).hint(format!("`infer show {}` reads its header", Escaped(name)))
                })
            }
        };
        names.iter().map(row).collect()
    }

    /// A model that is here, by its header.
    fn file(&self, name: &str, path: &Path) -> Result<Row> {
        let header = Header::open(path)?.with_parts(path)?;
        header.check_runnable(path)?;
        let shape = header.shape();
        let usable = kv::usable(self.wish.kv, &shape);
        let wish = Wish { kv: *usable.as_ref().unwrap_or(&KvType::F16), ..self.wish };
        let bytes = Roofline::new(&header, &shape).decode_bytes(DEPTH, wish.kv);
        let row = self.row(name, &shape, &wish, (shape.tensor_bytes, bytes));
        let row = Row { quant: shape.file_type.map(str::to_owned), exact: true, here: true, ..row };
        Ok(match usable {
            Ok(_) => row,
            Err(refused) => Row { plan: Err(refused.message), limit: None, ..row },
        })
    }

    /// A model of which the registry says how large it is.
    fn entry(&self, name: &str, entry: &Entry) -> Option<Row> {
        let estimate = Estimate::of(entry)?;
        let bytes = (estimate.weights, estimate.decode_bytes(DEPTH, self.wish.kv));
        let row = self.row(name, &estimate, &self.wish, bytes);
        Some(Row { quant: Some(estimate.quant.clone()), about: entry.about.clone(), ..row })
    }

    fn row(&self, name: &str, model: &impl Fitting, wish: &Wish, (bytes, read): (u64, u64)) -> Row {
        let plan = fit::plan(model, self.room.view(), wish);
        Row {
            name: name.to_owned(),
            quant: None,
            bytes,
            exact: false,
            here: false,
            about: String::new(),
            limit: plan.as_ref().ok().map(|plan| self.here.limit(plan, read)),
            plan: plan.map_err(|too_big: TooBig| {
                format!("needs {}, {} is free", Bytes(too_big.needed), Bytes(too_big.free))
            }),
        }
    }
}

/// What the registry says that a model is good for.
fn about(places: &Places, name: &str) -> String {
    places.entry(name).map_or_else(String::new, |entry| entry.about.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::fit::Part;

    #[test]
    fn each_device_reads_its_share_in_turn() {
        let here = Here { threads: 2, cpu: 100.0, gpus: vec![("CUDA0".to_owned(), 1000.0)] };
        let part =
            |name: &str, weights, cache| Part { name: name.to_owned(), weights, cache, ..Part::default() };
        let plan = |parts| Plan { ctx: 512, kv: KvType::F16, layers: 1, parts };
        for (parts, limit) in [
            (vec![part("CPU", 900, 100)], 0.1),
            (vec![part("CUDA0", 900, 100), part("CPU", 0, 0)], 1.0),
            // Half of 1000 bytes takes 5 s, the other half 0.5 s.
            (vec![part("CUDA0", 500, 0), part("CPU", 400, 100)], 1.0 / 5.5),
        ] {
            assert!((here.limit(&plan(parts), 1000) - limit).abs() < 1e-9);
        }
    }
}
