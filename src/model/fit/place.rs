//! Everything in its place with a window of a given size, whether it fits or not.

use super::{CPU, Fitting, Part, Plan, Room, Wish, sum};
use crate::engine::placement::GPU_MARGIN;
use crate::engine::{Device, GpuLayers, KvType};
use crate::model::gguf::Shape;

/// What the program itself takes of the memory: its code, the vocabulary, what is read and written.
pub(crate) const HOST_MARGIN: u64 = 128 << 20;

/// Places to return to in a conversation are copied, up to so many and so many bytes (`engine/llama/marks.rs`).
const MARKS: u64 = 8;
const MARK_BYTES: u64 = 1 << 30;

/// A logit is a 32-bit float.
const LOGIT: u64 = 4;

/// What there is to place. Bytes.
pub(crate) struct Load {
    /// From the output down, which is how llama.cpp fills a GPU.
    pub(super) layers: Vec<Layer>,
    /// Weights that stay on the CPU.
    pub(super) input: u64,
    /// Those that a GPU with the output needs once more.
    pub(super) copied: u64,
    pub(super) marks: u64,
    pub(super) compute: u64,
    pub(super) output: u64,
}

pub(super) struct Layer {
    pub(super) weights: u64,
    pub(super) cache: u64,
}

pub(super) fn place(model: &impl Fitting, room: Room<'_>, wish: &Wish, ctx: u32) -> Plan {
    let load = model.load(wish, ctx);
    let all = load.layers.len();
    let mut rest = load.layers.as_slice();
    let mut wanted = match wish.gpu_layers {
        GpuLayers::Auto | GpuLayers::All => all,
        GpuLayers::Count(count) => usize::try_from(count).unwrap_or(all).min(all),
    };
    let mut parts = Vec::new();
    let mut gpus = room.gpus().peekable();
    while let Some(gpu) = gpus.next() {
        let (margin, budget) = match wish.gpu_layers {
            GpuLayers::Auto => (GPU_MARGIN as u64, gpu.free.saturating_sub(GPU_MARGIN as u64)),
            // The last one gets what is wanted, and is seen to be too small.
            _ if gpus.peek().is_none() => (0, u64::MAX),
            _ => (0, gpu.free),
        };
        let count = load.fitting(&rest[..wanted], budget.saturating_sub(load.compute));
        if count > 0 {
            parts.push(load.on_gpu(gpu, &rest[..count], parts.is_empty(), margin));
        }
        (rest, wanted) = (&rest[count..], wanted - count);
    }
    parts.push(load.on_cpu(rest, room.memory));
    Plan { ctx, kv: wish.kv, layers: all as u64, parts }
}

impl Fitting for Shape {
    fn trained(&self) -> u64 {
        self.context.unwrap_or(0)
    }

    fn takes_eight_bits(&self) -> bool {
        self.cache.has_kv() && self.cache.unfit_width(KvType::Q8_0).is_none()
    }

    fn load(&self, wish: &Wish, ctx: u32) -> Load {
        let (tokens, ubatch) = (u64::from(ctx), u64::from(wish.ubatch.min(ctx)));
        let cache = self.cache.bytes(tokens, ubatch, wish.kv);
        let each = cache.div_ceil((self.spread.layers.len() as u64).max(1));
        let output = Layer { weights: self.spread.output, cache: 0 };
        let layers = self.spread.layers.iter().rev().map(|weights| Layer { weights: *weights, cache: each });
        let mark = self.cache.mark_bytes(tokens, ubatch, wish.kv);
        Load {
            layers: std::iter::once(output).chain(layers).collect(),
            input: self.spread.input,
            copied: self.spread.copied,
            marks: if mark > MARK_BYTES { 0 } else { (MARKS * mark).min(MARK_BYTES) },
            compute: self.compute.bytes(&self.cache, tokens, ubatch, wish.kv, wish.flash),
            output: self.vocabulary.unwrap_or(0).saturating_mul(LOGIT),
        }
    }
}

impl Load {
    /// How many of these layers fit into so many bytes.
    fn fitting(&self, layers: &[Layer], budget: u64) -> usize {
        let mut used = self.copied;
        let fits = |layer: &&Layer| {
            used = sum([used, layer.weights, layer.cache]);
            used <= budget
        };
        layers.iter().take_while(fits).count()
    }

    fn on_gpu(&self, gpu: &Device, layers: &[Layer], has_output: bool, margin: u64) -> Part {
        Part {
            name: gpu.name.clone(),
            layers: layers.len() as u64,
            weights: sum([weights(layers), if has_output { self.copied } else { 0 }]),
            cache: cache(layers),
            compute: self.compute,
            margin,
            free: Some(gpu.free),
            ..Part::default()
        }
    }

    /// The rest, and what is always there. Weights are pages of the file that the system can drop and read again, but
    /// each token needs them all.
    fn on_cpu(&self, layers: &[Layer], free: Option<u64>) -> Part {
        Part {
            name: CPU.to_owned(),
            layers: layers.len() as u64,
            weights: sum([self.input, weights(layers)]),
            cache: cache(layers),
            marks: self.marks,
            compute: self.compute,
            output: self.output,
            margin: HOST_MARGIN,
            free,
        }
    }
}

fn weights(layers: &[Layer]) -> u64 {
    sum(layers.iter().map(|layer| layer.weights))
}

fn cache(layers: &[Layer]) -> u64 {
    sum(layers.iter().map(|layer| layer.cache))
}
