//! What can be said to `infer bench`.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};

use super::values::{KvArg, parse_gpu_layers};
use crate::engine::{Flash, GpuLayers};

pub(super) const EXAMPLES: &str = "\
Examples:
  infer bench smollm2:135m
  infer bench qwen3:4b -d 0,2048,8192 --plot depth.svg
  infer bench model.gguf -t 2,4,8 --kv f16,q8_0        every thread count with every KV type
  infer bench model.gguf -o json > before.json
  infer bench model.gguf --baseline before.json --fail-slower 5

The tests are those of llama-bench: `pp512` evaluates a prompt of 512 tokens, `tg128` generates 128 tokens, `@ d2048` begins \
with 2,048 tokens in the cache. `pp512+tg128` is a whole answer, sampled as `run` samples it, with the time to the first token \
(TTFT) and the time per output token (TPOT). Lists are combined, each value with each. `roofline` is the share of what this \
machine's memory bandwidth or matrix throughput allows, both measured here first. Rows appear as they are measured, and \
Ctrl-C keeps those that are there.";

#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    /// Names (`qwen3:4b`, `demo`), repositories (`org/repo[:QUANT]`), or paths of GGUF files
    #[arg(value_name = "MODEL", value_hint = ValueHint::FilePath, required = true)]
    pub(crate) models: Vec<String>,

    /// Prompts to evaluate, tokens; 0 for none
    #[arg(help_heading = "Tests", short, long, value_name = "N,…", default_value = "512", value_delimiter = ',',
        value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    pub(crate) prompt: Vec<u32>,

    /// Tokens to generate; 0 for none
    #[arg(help_heading = "Tests", short, long = "gen", visible_short_alias = 'n', value_name = "N,…", default_value = "128",
        value_delimiter = ',', value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    pub(crate) generate: Vec<u32>,

    /// Tokens in the cache before each test [default: 0,2048, as far as the model's context reaches]
    #[arg(help_heading = "Tests", short, long, value_name = "N,…", value_delimiter = ',',
        value_parser = clap::value_parser!(u32).range(0..=10_000_000))]
    pub(crate) depth: Vec<u32>,

    /// A whole answer: tokens of the prompt and of the answer (repeatable); `0+0` for none
    #[arg(help_heading = "Tests", short, long, value_name = "P+G", default_value = "512+128", value_parser = parse_answer)]
    pub(crate) answer: Vec<(u32, u32)>,

    /// Repetitions of each test
    #[arg(help_heading = "Tests", short, long, value_name = "N", default_value_t = 5,
        value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) repetitions: u32,

    /// Threads [default: the cores that this process may use]
    #[arg(help_heading = "Settings", short, long, value_name = "N,…", value_delimiter = ',', env = "INFER_THREADS",
        value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Vec<u16>,

    /// Tokens of one evaluation [default: 512, or the micro-batch if that is larger]
    #[arg(help_heading = "Settings", short, long, value_name = "N,…", value_delimiter = ',',
        value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) batch: Vec<u32>,

    /// Tokens of a micro-batch, at most those of one evaluation [default: 512]
    #[arg(help_heading = "Settings", short, long, value_name = "N,…", value_delimiter = ',',
        value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) ubatch: Vec<u32>,

    /// Types of the KV cache
    #[arg(
        help_heading = "Settings",
        long,
        value_name = "TYPE,…",
        default_value = "f16",
        value_delimiter = ',',
        env = "INFER_KV"
    )]
    pub(crate) kv: Vec<KvArg>,

    /// Flash attention
    #[arg(help_heading = "Settings", long, value_name = "WHEN,…", value_delimiter = ',')]
    pub(crate) flash: Vec<FlashArg>,

    /// Layers on the GPU: numbers, `auto` (what fits) or `all`
    #[arg(help_heading = "Settings", long, visible_alias = "ngl", value_name = "N,…", default_value = "auto",
        value_delimiter = ',', env = "INFER_GPU_LAYERS", value_parser = parse_gpu_layers)]
    pub(crate) gpu_layers: Vec<GpuLayers>,

    /// Use this device and fail if it isn't there, such as `cuda`, `cuda1` or `cpu`
    #[arg(help_heading = "Settings", long, value_name = "NAME", env = "INFER_DEVICE")]
    pub(crate) device: Option<String>,

    /// Download a model without asking when it is not here
    #[arg(short, long)]
    pub(crate) yes: bool,

    /// Form of the rows on stdout; `json`, `jsonl`, `csv` and `md` have llama-bench's names
    #[arg(
        help_heading = "Output",
        short,
        long,
        value_name = "FORM",
        default_value = "table",
        conflicts_with = "json"
    )]
    pub(crate) output: OutputArg,

    /// The same as `-o json`
    #[arg(help_heading = "Output", long)]
    pub(crate) json: bool,

    /// Compare with the rows of an earlier `-o json` or `-o jsonl`, of llama-bench's too
    #[arg(help_heading = "Output", long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) baseline: Option<PathBuf>,

    /// Exit with 1 when a row is slower than the baseline by more than this many percent
    #[arg(help_heading = "Output", long, value_name = "PERCENT", requires = "baseline", value_parser = parse_percent)]
    pub(crate) fail_slower: Option<f64>,

    /// Draw tokens per second over depth into this file
    #[arg(help_heading = "Output", long, value_name = "FILE.svg", value_hint = ValueHint::FilePath)]
    pub(crate) plot: Option<PathBuf>,
}

impl BenchArgs {
    /// Would a program read the rows as JSON?
    pub(crate) fn prints_json(&self) -> bool {
        self.json || matches!(self.output, OutputArg::Json | OutputArg::Jsonl)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputArg {
    Table,
    Md,
    Csv,
    Json,
    Jsonl,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FlashArg {
    /// Where llama.cpp knows that the device can
    Auto,
    On,
    Off,
}

impl From<FlashArg> for Flash {
    fn from(arg: FlashArg) -> Self {
        match arg {
            FlashArg::Auto => Self::Auto,
            FlashArg::On => Self::On,
            FlashArg::Off => Self::Off,
        }
    }
}

/// `512+128`, or llama-bench's `512,128`.
fn parse_answer(text: &str) -> Result<(u32, u32), String> {
    let number = |part: &str| part.parse().ok().filter(|n| *n <= 1_000_000);
    let (prompt, answer) = text.split_once(['+', ',']).unwrap_or(("", ""));
    match (number(prompt), number(answer)) {
        (Some(0), Some(0)) => Ok((0, 0)),
        (Some(prompt @ 1..), Some(answer @ 1..)) => Ok((prompt, answer)),
        _ => Err("not the tokens of a prompt and of an answer, such as `512+128`".to_owned()),
    }
}

fn parse_percent(text: &str) -> Result<f64, String> {
    let number = text.trim_end_matches('%').parse().ok();
    number.filter(|n| (0.0..=100.0).contains(n)).ok_or_else(|| "not a percentage from 0 to 100".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_has_a_prompt() {
        for (text, expected) in [
            ("512+128", Some((512, 128))),
            ("512,128", Some((512, 128))),
            ("0+0", Some((0, 0))),
            ("0+128", None),
            ("512+0", None),
            ("512", None),
            ("-1+2", None),
            ("512+9999999999", None),
        ] {
            assert_eq!(parse_answer(text).ok(), expected, "{text}");
        }
    }

    #[test]
    fn a_percentage_has_an_end() {
        for (text, expected) in
            [("5", Some(5.0)), ("2.5%", Some(2.5)), ("-1", None), ("101", None), ("nan", None)]
        {
            assert_eq!(parse_percent(text).ok(), expected, "{text}");
        }
    }
}
