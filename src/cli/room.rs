//! The memory of this machine, and how a model would fit into it.

use std::fmt::{self, Display, Formatter};

use serde_json::{Value, json};

use crate::engine::{Device, placement};
use crate::human::{Bytes, Thousands};
use crate::machine;
use crate::model::fit::{self, Part, Plan, TooBig, Wish};
use crate::model::gguf::Shape;

/// The memory that a model could use.
pub(crate) struct Room {
    devices: Vec<Device>,
    memory: Option<u64>,
}

impl Room {
    pub(crate) fn here() -> Self {
        Self::on(None)
    }

    /// With no GPUs but those that a person means by `cuda`, or by `cuda1`.
    pub(crate) fn on(device: Option<&str>) -> Self {
        let mut devices = placement::devices();
        devices.retain(|each| device.is_none_or(|wanted| each.is_called(wanted)));
        Self { devices, memory: machine::memory_available() }
    }

    /// A CPU with all memory that there could be.
    #[cfg(test)]
    pub(crate) fn boundless() -> Self {
        Self { devices: Vec::new(), memory: None }
    }

    pub(crate) fn view(&self) -> fit::Room<'_> {
        fit::Room { devices: &self.devices, memory: self.memory }
    }

    /// Whether a model of so many bytes can run here with a small context, as far as is known.
    pub(crate) fn holds(&self, bytes: u64) -> bool {
        const CONTEXT: u64 = 256 << 20;
        let gpus: u64 = self.view().gpus().map(|gpu| gpu.free).sum();
        self.memory.is_none_or(|memory| bytes.saturating_add(CONTEXT) <= memory.saturating_add(gpus))
    }

    /// Whether a model would run here, with the usual window and 16-bit keys and values.
    pub(crate) fn fits(&self, shape: &Shape) -> Fits {
        let kept = if shape.cache.has_kv() { "KV f16" } else { "state" };
        Fits { plan: fit::plan(shape, self.view(), &Wish::default()), kept }
    }
}

/// Whether a model runs here, and how.
pub(crate) struct Fits {
    plan: Result<Plan, TooBig>,
    /// What its context keeps.
    kept: &'static str,
}

impl Fits {
    /// What each device would hold, in a line each.
    pub(crate) fn parts(&self) -> Vec<String> {
        let parts = self.plan.iter().flat_map(|plan| &plan.parts);
        parts.map(|part| format!("{}: {}", part.name, share(part, self.kept))).collect()
    }

    pub(crate) fn json(&self) -> Value {
        match &self.plan {
            Err(why) => json!({ "fits": false, "why": why.message() }),
            Ok(plan) => json!({
                "fits": true,
                "layers": plan.layers,
                "gpu_layers": plan.gpu_layers(),
                "context": plan.ctx,
                "kv": plan.kv.to_string(),
                "devices": plan.parts.iter().map(part_json).collect::<Vec<_>>(),
            }),
        }
    }
}

impl Display for Fits {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.plan {
            Err(why) => write!(f, "no: {}", why.message()),
            Ok(plan) => {
                let context = Thousands(plan.ctx.into());
                match plan.gpu_layers() {
                    0 => write!(f, "yes, on the CPU, context {context}"),
                    on_gpu => write!(f, "yes, {on_gpu}/{} layers on the GPU, context {context}", plan.layers),
                }
            }
        }
    }
}

/// `weights 98.4 MB, KV f16 184.3 MB, compute 23.7 MB`: what there is of each.
fn share(part: &Part, kept: &'static str) -> String {
    let all = [
        ("weights", part.weights),
        (kept, part.cache),
        ("copies to return to", part.marks),
        ("compute", part.compute),
        ("output", part.output),
    ];
    let some = all.iter().filter(|(_, bytes)| *bytes > 0);
    some.map(|(name, bytes)| format!("{name} {}", Bytes(*bytes))).collect::<Vec<_>>().join(", ")
}

/// Bytes of each kind.
pub(crate) fn part_json(part: &Part) -> Value {
    json!({
        "name": part.name,
        "layers": part.layers,
        "weights": part.weights,
        "cache": part.cache,
        "marks": part.marks,
        "compute": part.compute,
        "output": part.output,
        "margin": part.margin,
        "free": part.free,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::DeviceKind;
    use crate::model::gguf::Header;
    use crate::model::gguf::tiny_gguf::Tiny;

    fn room(memory: Option<u64>, gpu: Option<u64>) -> Room {
        let device = |free| Device {
            kind: DeviceKind::Gpu,
            index: 0,
            name: "CUDA0".to_owned(),
            description: String::new(),
            backend: String::new(),
            total: free,
            free,
        };
        Room { devices: gpu.map(device).into_iter().collect(), memory }
    }

    #[test]
    fn says_what_fits_and_where() {
        let shape = Header::from_bytes(&Tiny::llama().bytes()).unwrap().shape();
        for (memory, gpu, expected) in [
            (None, None, "yes, on the CPU, context 256"),
            (Some(1 << 30), None, "yes, on the CPU, context 256"),
            (Some(1 << 30), Some(2 << 30), "yes, 3/3 layers on the GPU, context 256"),
            (Some(1 << 30), Some(1 << 30), "yes, on the CPU, context 256"),
            (Some(1000), None, "no: the model needs 135.5 MB at context 256; 1.0 KB is free"),
        ] {
            assert_eq!(room(memory, gpu).fits(&shape).to_string(), expected);
        }
    }

    #[test]
    fn says_what_each_device_would_hold() {
        let shape = Header::from_bytes(&Tiny::llama().bytes()).unwrap().shape();
        let fits = room(None, Some(2 << 30)).fits(&shape);
        assert_eq!(
            fits.parts(),
            [
                "CUDA0: weights 364.8 KB, KV f16 65.5 KB, compute 868.4 KB",
                "CPU: weights 68.6 KB, compute 868.4 KB, output 1.1 KB"
            ]
        );
        let value = fits.json();
        assert_eq!((&value["gpu_layers"], &value["kv"]), (&json!(3), &json!("f16")));
        assert_eq!(value["devices"][0]["cache"], 65_536);
        assert_eq!(room(Some(1000), None).fits(&shape).json()["fits"], false);
    }

    #[test]
    fn what_cannot_go_back_is_copied_and_a_state_is_no_key() {
        let parts =
            |tiny: &Tiny| room(None, None).fits(&Header::from_bytes(&tiny.bytes()).unwrap().shape()).parts();
        let [recurrent] = &parts(&Tiny::recurrent())[..] else { panic!() };
        assert!(recurrent.contains(", state 19.5 KB, copies to return to 155.6 KB, compute "), "{recurrent}");
    }

    #[test]
    fn a_size_alone_is_held_with_a_small_context() {
        for (memory, gpu, expected) in
            [(None, None, true), (Some(1 << 30), None, true), (Some(1 << 28), None, false)]
        {
            assert_eq!(room(memory, gpu).holds(512 << 20), expected);
        }
        assert!(room(Some(1 << 28), Some(1 << 30)).holds(512 << 20));
    }
}
