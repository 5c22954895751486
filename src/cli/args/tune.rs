//! What can be said to `infer tune`.

use clap::{Args, ValueHint};

pub(super) const EXAMPLES: &str = "\
Examples:
  infer tune smollm2:135m
  infer tune qwen3:4b --dry-run        measure and show, remember nothing
  infer tune                           what is remembered
  infer tune --clear                   forget all of it

Measured are flash attention on and off with little and with much in the cache, threads for prompts and for answers, and the \
micro-batch; with a GPU also whether the CPU alone is faster, and KV types. Something is chosen when it is faster than llama.cpp's \
defaults by more than 3% and more than the noise, and in the end the whole choice is measured against the defaults once more. \
It is remembered for this machine and for models of this architecture and about this size, in `tuned.json` in the config \
folder. `run`, `chat` and `bench` use it where no flag says otherwise, and name it with -v.";

#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
pub(crate) struct TuneArgs {
    /// A name (`qwen3:4b`, `demo`), a repository (`org/repo[:QUANT]`), or the path of a GGUF file
    #[arg(value_name = "MODEL", value_hint = ValueHint::FilePath)]
    pub(crate) model: Option<String>,

    /// Forget what is remembered for models like this one, or without a model all of it
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) clear: bool,

    /// Measure and show, but do not remember
    #[arg(long, requires = "model")]
    pub(crate) dry_run: bool,

    /// About how long to measure; with less time prompts are shorter and caches less deep
    #[arg(long, value_name = "SECONDS", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=600))]
    pub(crate) seconds: u32,

    /// Use this device and fail if it isn't there, such as `cuda`, `cuda1` or `cpu`
    #[arg(long, value_name = "NAME", env = "INFER_DEVICE")]
    pub(crate) device: Option<String>,

    /// Download the model without asking when it is not here
    #[arg(short, long)]
    pub(crate) yes: bool,

    /// Print one JSON object
    #[arg(help_heading = "Output", long)]
    pub(crate) json: bool,
}
