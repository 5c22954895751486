//! What can be said to `infer fit`.

use clap::{Args, ValueHint};

use super::values::{KvArg, parse_context};

pub(super) const EXAMPLES: &str = "\
Examples:
  infer fit                          what fits, the largest that answers as fast as one reads first
  infer fit qwen3:8b model.gguf
  infer fit --ctx 32k --kv q8_0      for long texts
  infer fit --all --json | jq -r '.models[] | select(.fits) | .name'

Of models that are here sizes come from the header; of others they are estimated from size and quantization, and marked \
with `~`. Tokens per second are the most that memory allows: what a token has to read over what this machine reads in a \
second, which is measured first. Real answers come at a third to nine tenths of that.";

#[derive(Debug, Args)]
pub(crate) struct FitArgs {
    /// Only these: names of `infer list --names`, or models that are here [default: both]
    #[arg(value_name = "MODEL", value_hint = ValueHint::FilePath)]
    pub(crate) models: Vec<String>,

    /// Also those that do not fit, and why
    #[arg(short, long)]
    pub(crate) all: bool,

    /// Context that has to fit, tokens; `8k` is 8192 [default: what fits, at most 8192 or the model's own]
    #[arg(help_heading = "Context", short, long, value_name = "N", env = "INFER_CTX",
        allow_negative_numbers = true, value_parser = parse_context)]
    pub(crate) ctx: Option<u32>,

    /// Type of the KV cache; `q8_0` takes half the memory of `f16`, `q4_0` less than a third
    #[arg(help_heading = "Context", long, value_name = "TYPE", default_value = "f16", env = "INFER_KV")]
    pub(crate) kv: KvArg,

    /// Use this device only, such as `cuda`, `cuda1` or `cpu`
    #[arg(help_heading = "Placement", long, value_name = "NAME", env = "INFER_DEVICE")]
    pub(crate) device: Option<String>,

    /// Threads [default: the cores that this process may use]
    #[arg(help_heading = "Placement", short, long, value_name = "N", env = "INFER_THREADS",
        value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,

    /// Print one JSON object
    #[arg(help_heading = "Output", long)]
    pub(crate) json: bool,
}
