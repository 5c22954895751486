//! Tokens in, tokens out. The trait below is all that a conversation needs of a language model; nothing here is FFI.

use std::fmt;
use std::ops::Range;
use std::path::Path;

use crate::error::Result;

pub(crate) mod bandwidth;
pub(crate) mod calibrate;
pub(crate) mod cuda;
mod ggml;
pub(crate) mod leave;
pub(crate) mod llama;
pub(crate) mod log;
pub(crate) mod placement;
pub(crate) mod quality;
pub(crate) mod quantize;
mod sampler;
pub(crate) mod sampling;
#[cfg(test)]
pub(crate) mod scripted;
#[cfg(unix)]
pub(crate) mod signals;
pub(crate) mod throughput;
#[cfg(test)]
#[expect(clippy::duplicate_mod, reason = "the engine must not know the model")]
#[path = "../../tests/support/tiny_gguf.rs"]
mod tiny_gguf;
mod vram;

pub(crate) use sampling::Sampling;

/// The most tokens of one evaluation, when nothing else is asked for. A prompt is interrupted and reported on between these.
pub(crate) const BATCH: u32 = 512;

/// The index of a token in a model's vocabulary.
pub(crate) type Token = i32;

/// What a device computes with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeviceKind {
    Cpu,
    Gpu,
    Other,
}

/// Something that can hold layers of a model. Memory in bytes.
#[derive(Debug, Clone)]
pub(crate) struct Device {
    pub(crate) kind: DeviceKind,
    /// The place in llama.cpp's own list.
    pub(crate) index: usize,
    /// What `--device` takes, such as `CUDA0`.
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) backend: String,
    pub(crate) total: u64,
    pub(crate) free: u64,
}

impl Device {
    /// Is this the device, or one of the family, that a person means by `cuda0`, or by `cuda`?
    pub(crate) fn is_called(&self, wanted: &str) -> bool {
        let family = self.name.trim_end_matches(|c: char| c.is_ascii_digit());
        self.name.eq_ignore_ascii_case(wanted) || family.eq_ignore_ascii_case(wanted)
    }
}

/// How many layers go to the GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GpuLayers {
    /// As many as fit.
    Auto,
    All,
    Count(u32),
}

/// The type of the keys and values in the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KvType {
    F16,
    Q8_0,
    Q4_0,
}

impl KvType {
    pub(crate) const ALL: [Self; 3] = [Self::F16, Self::Q8_0, Self::Q4_0];

    /// How many numbers are stored together, behind a scale of 16 bits where they are quantized.
    pub(crate) fn block(self) -> u64 {
        match self {
            Self::F16 => 1,
            Self::Q8_0 | Self::Q4_0 => 32,
        }
    }

    /// Bytes for so many numbers of a key or a value.
    pub(crate) fn bytes(self, numbers: u64) -> u64 {
        let block = match self {
            Self::F16 => 2,
            Self::Q8_0 => 34,
            Self::Q4_0 => 18,
        };
        numbers.div_ceil(self.block()).saturating_mul(block)
    }
}

impl fmt::Display for KvType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::F16 => "f16",
            Self::Q8_0 => "q8_0",
            Self::Q4_0 => "q4_0",
        })
    }
}

/// Whether attention is computed in one pass that never holds the whole matrix of scores (Dao et al., "`FlashAttention`",
/// 2022).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flash {
    /// Where llama.cpp knows that the device can.
    Auto,
    On,
    Off,
}

/// Where a model goes, how large its cache is and how it is evaluated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LoadPlan {
    pub(crate) gpu_layers: GpuLayers,
    /// A device, or a family of them such as `cuda`; `cpu` for none.
    pub(crate) device: Option<String>,
    /// The window in tokens.
    pub(crate) ctx: u32,
    pub(crate) kv: KvType,
    pub(crate) flash: Flash,
    /// Threads for the decode.
    pub(crate) threads: usize,
    /// Threads for the prefill.
    pub(crate) threads_batch: usize,
    /// The most tokens of one evaluation.
    pub(crate) batch: u32,
    /// Tokens of a micro-batch, in which they go through the layers together.
    pub(crate) ubatch: u32,
}

impl LoadPlan {
    /// All of it on the CPU, evaluated as usual.
    #[cfg(test)]
    pub(crate) fn on_cpu(ctx: u32, kv: KvType, threads: usize) -> Self {
        Self { gpu_layers: GpuLayers::Count(0), ..Self::usual(ctx, kv, threads) }
    }

    /// As much as fits on the GPU, evaluated as usual.
    pub(crate) fn usual(ctx: u32, kv: KvType, threads: usize) -> Self {
        Self {
            gpu_layers: GpuLayers::Auto,
            device: None,
            ctx,
            kv,
            flash: Flash::Auto,
            threads,
            threads_batch: threads,
            batch: BATCH,
            ubatch: BATCH,
        }
    }
}

/// What became of the tokens given to [`Engine::feed`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fed {
    /// All of them are in the cache.
    All,
    /// Evaluation was stopped by the brake; the cache holds this many tokens in all, which can be fewer than before.
    Interrupted(usize),
}

/// A language model with one sequence of tokens in its cache.
pub(crate) trait Engine {
    /// Text to tokens. With `special`, the text of a control token becomes that token; without, it stays text.
    /// Never adds a token of its own.
    fn tokenize(&self, text: &str, special: bool) -> Result<Vec<Token>>;

    /// The bytes that a token stands for: any part of a UTF-8 sequence. With `special` also those of control
    /// tokens, which stand for nothing otherwise.
    fn piece(&self, token: Token, special: bool) -> Vec<u8>;

    /// Does this token end the generation?
    fn is_end(&self, token: Token) -> bool;

    /// The token that the vocabulary wants in front of every prompt, if it wants one.
    fn bos(&self) -> Option<Token>;

    /// The texts of all tokens that text must not turn into by itself.
    fn control_texts(&self) -> &[String];

    /// The most tokens that the cache can hold.
    fn window(&self) -> usize;

    /// The most tokens that are evaluated at once. [`Self::feed`] takes more, and evaluates them in turn.
    fn batch(&self) -> usize;

    /// Keep the first `len` tokens in the cache and forget the rest. Answers how many could be kept: `len`, or where
    /// this kind of memory cannot go back so far the tokens before the last [`Self::mark`] that it can, perhaps none.
    fn truncate(&mut self, len: usize) -> Result<usize>;

    /// Can [`Self::truncate`] go back to any place? Not where layers slide over their window or sum up all tokens.
    fn goes_back(&self) -> bool;

    /// Remember this place, so that [`Self::truncate`] can come back to it where the memory does not by itself.
    fn mark(&mut self) -> Result<()>;

    /// Why cached tokens cannot move to other positions, in words for a person; nothing where they can.
    fn unshiftable(&self) -> Option<&'static str>;

    /// Take these tokens out of the cache; those behind them move up, without being evaluated again. Only where
    /// nothing is [`Self::unshiftable`].
    fn remove(&mut self, range: Range<usize>) -> Result<()>;

    /// The bytes that [`Self::save`] would write; none where nothing is cached, or what moved waits for the next feed.
    fn state_size(&self) -> Option<u64>;

    /// Write what the cache holds, these tokens, to a file.
    fn save(&mut self, path: &Path, tokens: &[Token]) -> Result<()>;

    /// Put into the cache what [`Self::save`] wrote to a file, if that is just these tokens. Otherwise the cache is
    /// empty afterwards. What stands behind it in the file is not read. Nothing can be sampled before the next feed.
    fn restore(&mut self, path: &Path, tokens: &[Token]) -> bool;

    /// Bytes that the model, its cache and its buffers take on the GPUs; none without a GPU.
    fn vram(&self) -> Option<u64> {
        None
    }

    /// Evaluate tokens at the end of the cache. Stops early when the engine's brake says so. Only with `output` can
    /// the next token be sampled afterwards; for a large vocabulary that costs as much as some tokens of a prompt.
    fn feed(&mut self, tokens: &[Token], output: bool) -> Result<Fed>;

    /// Wait until all that was fed has been evaluated: a GPU goes on by itself.
    fn wait(&mut self);

    /// Start an answer: a fresh sampler whose penalties know `history`.
    fn begin(&mut self, sampling: &Sampling, history: &[Token]) -> Result<()>;

    /// Choose the next token after the last one fed, and tell the sampler.
    fn sample(&mut self) -> Result<Token>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantized_numbers_come_in_blocks() {
        for (kv, bytes) in [(KvType::F16, 128), (KvType::Q8_0, 68), (KvType::Q4_0, 36)] {
            assert_eq!((kv.bytes(64), kv.bytes(0), 64 % kv.block()), (bytes, 0, 0), "{kv}");
        }
    }

    #[test]
    fn a_device_is_called_by_its_name_or_family() {
        let device = |name: &str| Device {
            kind: DeviceKind::Gpu,
            index: 0,
            name: name.to_owned(),
            description: String::new(),
            backend: String::new(),
            total: 0,
            free: 0,
        };
        for (name, wanted, expected) in [
            ("CUDA0", "cuda", true),
            ("CUDA0", "cuda0", true),
            ("CUDA0", "cuda1", false),
            ("CUDA10", "cuda1", false),
            ("CPU", "cpu", true),
            ("CPU", "cuda", false),
            ("CUDA0", "", false),
        ] {
            assert_eq!(device(name).is_called(wanted), expected, "{name} {wanted}");
        }
    }
}
