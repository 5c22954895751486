//! Whether a model would run on this machine, judged before it is here.

use std::fmt::{self, Display, Formatter};

use serde_json::{Value, json};

use crate::engine::{DeviceKind, KvType, placement};
use crate::human::Thousands;
use crate::machine;
use crate::model::fit::{self, Need};
use crate::model::gguf::Shape;

/// The memory that a model could use, in bytes.
pub(crate) struct Room {
    memory: Option<u64>,
    /// Free on the GPUs together; `None` without one.
    gpu: Option<u64>,
}

impl Room {
    pub(crate) fn here() -> Self {
        let gpus: Vec<u64> =
            placement::devices().into_iter().filter(|d| d.kind == DeviceKind::Gpu).map(|d| d.free).collect();
        let gpu = (!gpus.is_empty()).then(|| gpus.iter().sum());
        Self { memory: machine::memory_available(), gpu }
    }

    fn all(&self) -> Option<u64> {
        self.memory.map(|memory| memory.saturating_add(self.gpu.unwrap_or(0)))
    }

    /// Whether a model of so many bytes can run here with a small context, as far as is known.
    pub(crate) fn holds(&self, bytes: u64) -> bool {
        const CONTEXT: u64 = 256 << 20;
        self.all().is_none_or(|memory| bytes.saturating_add(CONTEXT) <= memory)
    }
}

/// Whether a model runs here, and how.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Fits {
    No(String),
    Yes { layers: u64, on_gpu: Option<u64>, context: u32 },
}

/// An estimate from the header alone: weights and an f16 KV cache, and on a GPU a tenth more for its buffers. What really
/// fits is asked of the devices when the model is loaded.
pub(crate) fn fits(shape: &Shape, room: &Room) -> Fits {
    let need = Need {
        weights: shape.tensor_bytes,
        cache: &|tokens| shape.cache.bytes(tokens, KvType::F16),
        trained: shape.context.unwrap_or(0),
    };
    let context = match fit::context(&need, None, room.all()) {
        Ok(context) => context,
        Err(error) => return Fits::No(error.message),
    };
    let layers = shape.layers.unwrap_or(0) + 1;
    let buffers = need.weights / 10;
    let whole = need.weights.saturating_add((need.cache)(context.into())).saturating_add(buffers).max(1);
    let part = |gpu: u64| u64::try_from(u128::from(layers) * u128::from(gpu.min(whole)) / u128::from(whole));
    Fits::Yes { layers, on_gpu: room.gpu.map(|gpu| part(gpu).unwrap_or(layers)), context }
}

impl Display for Fits {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::No(why) => write!(f, "no: {why}"),
            Self::Yes { layers, on_gpu: Some(gpu), context } => {
                write!(f, "yes, {gpu}/{layers} layers on the GPU, context {}", Thousands((*context).into()))
            }
            Self::Yes { on_gpu: None, context, .. } => {
                write!(f, "yes, on the CPU, context {}", Thousands((*context).into()))
            }
        }
    }
}

impl Fits {
    pub(crate) fn json(&self) -> Value {
        match self {
            Self::No(why) => json!({ "fits": false, "why": why }),
            Self::Yes { layers, on_gpu, context } => {
                json!({ "fits": true, "layers": layers, "gpu_layers": on_gpu.unwrap_or(0), "context": context })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::gguf::Header;
    use crate::model::gguf::tiny_gguf::Tiny;

    #[test]
    fn an_estimate_of_what_fits() {
        let shape = Header::from_bytes(&Tiny::llama().bytes()).unwrap().shape();
        let (bytes, kv) = (shape.tensor_bytes, shape.cache.bytes(256, KvType::F16));
        for (memory, gpu, expected) in [
            (None, None, "yes, on the CPU, context 256"),
            (Some(bytes + kv), None, "yes, on the CPU, context 256"),
            (Some(0), Some(2 * bytes), "yes, 3/3 layers on the GPU, context 256"),
            (Some(bytes + kv), Some(bytes / 2), "yes, 1/3 layers on the GPU, context 256"),
            (Some(1000), None, "no: the model needs 430.3 KB at context 256; 1.0 KB is free"),
        ] {
            assert_eq!(fits(&shape, &Room { memory, gpu }).to_string(), expected);
        }
    }
}
