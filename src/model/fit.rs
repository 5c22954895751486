//! Where a model goes and how large its window is: a plan from its header and what memory there is, or what is missing
//! and what would fit. Nothing is measured or loaded here; on a GPU llama.cpp's own fit has the last word.

use crate::engine::{Device, DeviceKind, Flash, GpuLayers, KvType, LoadPlan};
use crate::error::{Error, Kind};
use crate::human::{Bytes, Thousands};
use crate::numbers::sum;
use place::{Load, place};

pub(crate) mod estimate;
mod place;

/// The window when none is asked for, unless the model's own is smaller.
const DEFAULT_CTX: u64 = 8192;

/// The smallest window that is worth a conversation.
const SMALLEST_CTX: u32 = 512;

/// The name of the part that is on no GPU.
const CPU: &str = "CPU";

/// What a person wants, and how the model is evaluated.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wish {
    pub(crate) ctx: Option<u32>,
    pub(crate) kv: KvType,
    pub(crate) gpu_layers: GpuLayers,
    /// Tokens that go through the layers together.
    pub(crate) ubatch: u32,
    /// Flash attention, which never holds all scores.
    pub(crate) flash: bool,
}

impl Wish {
    /// A window of so many tokens, or the usual one, for a model that is loaded like this.
    pub(crate) fn of(load: &LoadPlan, ctx: Option<u32>) -> Self {
        let flash = load.flash != Flash::Off || load.kv != KvType::F16;
        Self { ctx, kv: load.kv, gpu_layers: load.gpu_layers, ubatch: load.ubatch, flash }
    }
}

impl Default for Wish {
    fn default() -> Self {
        Self::of(&LoadPlan::usual(0, KvType::F16, 1), None)
    }
}

/// What can be fitted: a model with its header, or one of which little is known.
pub(crate) trait Fitting {
    /// Tokens of a context that it was trained on; 0 where that is not said.
    fn trained(&self) -> u64;

    /// Can keys and values be stored in eight bits?
    fn takes_eight_bits(&self) -> bool;

    /// What it brings with a window of so many tokens.
    fn load(&self, wish: &Wish, ctx: u32) -> Load;
}

/// The memory that there is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room<'a> {
    /// Those of kind GPU are used, in this order.
    pub(crate) devices: &'a [Device],
    /// Bytes free for the CPU; nothing where it can't be told.
    pub(crate) memory: Option<u64>,
}

impl<'a> Room<'a> {
    pub(crate) fn gpus(self) -> impl Iterator<Item = &'a Device> {
        self.devices.iter().filter(|device| device.kind == DeviceKind::Gpu)
    }
}

/// What goes where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) ctx: u32,
    pub(crate) kv: KvType,
    /// All layers; the output counts as one, as in llama.cpp.
    pub(crate) layers: u64,
    /// The GPUs that have some, then the CPU.
    pub(crate) parts: Vec<Part>,
}

/// What one device gets. Memory in bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Part {
    /// `CUDA0`, or `CPU`.
    pub(crate) name: String,
    pub(crate) layers: u64,
    pub(crate) weights: u64,
    /// Keys, values and states.
    pub(crate) cache: u64,
    /// Copies of what of the cache cannot go back.
    pub(crate) marks: u64,
    pub(crate) compute: u64,
    pub(crate) output: u64,
    /// Left for others.
    pub(crate) margin: u64,
    pub(crate) free: Option<u64>,
}

impl Part {
    /// All of it but the margin.
    pub(crate) fn used(&self) -> u64 {
        sum([self.weights, self.cache, self.marks, self.compute, self.output])
    }

    fn needed(&self) -> u64 {
        sum([self.used(), self.margin])
    }

    fn fits(&self) -> bool {
        self.free.is_none_or(|free| self.needed() <= free)
    }
}

impl Plan {
    pub(crate) fn gpus(&self) -> impl Iterator<Item = &Part> {
        self.parts.iter().filter(|part| part.name != CPU)
    }

    pub(crate) fn gpu_layers(&self) -> u64 {
        self.gpus().map(|part| part.layers).sum()
    }

    fn fits(&self) -> bool {
        self.parts.iter().all(Part::fits)
    }

    /// The bytes of one kind on all devices.
    pub(crate) fn all(&self, of: impl Fn(&Part) -> u64) -> u64 {
        sum(self.parts.iter().map(of))
    }
}

/// Why a model does not fit, and what would.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TooBig {
    /// The device with too little memory.
    pub(crate) device: String,
    pub(crate) needed: u64,
    pub(crate) free: u64,
    pub(crate) ctx: u64,
    /// The best first.
    pub(crate) ways: Vec<Way>,
    /// What weights could have, with the smallest window.
    pub(crate) room: u64,
}

/// What can be given to fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Context(u32),
    Kv(KvType),
    GpuLayers(u64),
}

impl TooBig {
    pub(crate) fn message(&self) -> String {
        let place = if self.device == CPU { String::new() } else { format!(" on {}", self.device) };
        format!(
            "the model needs {} at context {}; {} is free{place}",
            Bytes(self.needed),
            Thousands(self.ctx),
            Bytes(self.free)
        )
    }

    /// The error, with a way out. Where none of ours helps, `other` knows one for weights of so many bytes.
    pub(crate) fn error(&self, other: impl FnOnce(u64) -> String) -> Error {
        let flags: Vec<String> = self
            .ways
            .iter()
            .map(|way| match way {
                Way::Context(ctx) => format!("`--ctx {ctx}`"),
                Way::Kv(kv) => format!("`--kv {kv}`"),
                Way::GpuLayers(layers) => format!("`--gpu-layers {layers}`"),
            })
            .collect();
        let hint = if flags.is_empty() { other(self.room) } else { format!("try {}", flags.join(" or ")) };
        Error::new(Kind::TooBig, self.message()).hint(hint)
    }
}

/// The window when none is asked for and memory is no matter.
pub(crate) fn usual_context(trained: u64) -> u64 {
    trained.clamp(1, DEFAULT_CTX)
}

/// The window wanted, or what fits of the usual one, and where all of it goes.
pub(crate) fn plan(model: &impl Fitting, room: Room<'_>, wish: &Wish) -> Result<Plan, TooBig> {
    let usual = usual_context(model.trained());
    let ctx = wish.ctx.unwrap_or_else(|| u32::try_from(usual).unwrap_or(u32::MAX));
    let whole = place(model, room, wish, ctx);
    let Some(part) = whole.parts.iter().find(|part| !part.fits()) else { return Ok(whole) };
    match smaller_context(model, room, wish, ctx) {
        Some(ctx) if wish.ctx.is_none() => Ok(place(model, room, wish, ctx)),
        smaller => Err(TooBig {
            device: part.name.clone(),
            needed: part.needed(),
            free: part.free.unwrap_or(u64::MAX),
            ctx: ctx.into(),
            ways: smaller.map(Way::Context).into_iter().chain(other_ways(model, room, wish, ctx)).collect(),
            room: room_for_weights(model, room, wish, ctx),
        }),
    }
}

/// The largest window, halving the one wanted, that fits.
fn smaller_context(model: &impl Fitting, room: Room<'_>, wish: &Wish, ctx: u32) -> Option<u32> {
    let halves = std::iter::successors(Some(ctx), |ctx| Some(ctx / 2));
    let mut worthwhile = halves.skip(1).take_while(|ctx| *ctx > SMALLEST_CTX / 2);
    worthwhile.find(|ctx| place(model, room, wish, *ctx).fits())
}

/// With the window wanted: eight bits in the cache, fewer layers on the GPU.
fn other_ways(model: &impl Fitting, room: Room<'_>, wish: &Wish, ctx: u32) -> Vec<Way> {
    let mut ways = Vec::new();
    let eight = Wish { kv: KvType::Q8_0, ..*wish };
    if wish.kv == KvType::F16 && model.takes_eight_bits() && place(model, room, &eight, ctx).fits() {
        ways.push(Way::Kv(KvType::Q8_0));
    }
    let fewer = place(model, room, &Wish { gpu_layers: GpuLayers::Auto, ..*wish }, ctx);
    if wish.gpu_layers != GpuLayers::Auto && fewer.fits() {
        ways.push(Way::GpuLayers(fewer.gpu_layers()));
    }
    ways
}

/// What all devices have for weights with the smallest window.
fn room_for_weights(model: &impl Fitting, room: Room<'_>, wish: &Wish, ctx: u32) -> u64 {
    let least = place(model, room, wish, ctx.min(SMALLEST_CTX));
    let beside = sum(least.parts.iter().map(|part| part.needed() - part.weights));
    let free = room.gpus().map(|gpu| gpu.free).chain([room.memory.unwrap_or(u64::MAX)]);
    sum(free).saturating_sub(beside)
}

#[cfg(test)]
mod tests;
