//! What can be said to `infer run` and `infer chat`.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};

use super::values::{KvArg, parse_context, parse_gpu_layers, parse_max_tokens, parse_size, parse_tokens};
use crate::cli::sessions::Name;
use crate::engine::GpuLayers;

pub(super) const RUN_EXAMPLES: &str = "\
Examples:
  infer run smollm2:135m \"What is the capital of France?\"
  git diff | infer run qwen3:4b -s \"You review code.\" \"Review this change\"
  infer run model.gguf -f notes.md --temp 0 --json | jq -r .text
  infer run org/repo:Q8_0 --yes --raw -n 64 \"Once upon a time\"

A model that is not on this machine is offered for download on a terminal, and fetched without a question with \
`--yes`. `demo` is a tiny one inside the program. \
The answer goes to stdout and everything else to stderr. Files, arguments and piped input are joined by blank \
lines, in this order, into one prompt. Without any of them, on a terminal, `run` becomes `chat`.";

pub(super) const CHAT_EXAMPLES: &str = "\
Examples:
  infer chat qwen3:4b
  infer chat model.gguf -s \"You answer in one sentence.\" --ctx 4096
  infer chat qwen3:4b --session trip    keep it, or go on with it; then the model can be left out
  infer chat --continue                 go on with the last one that was kept
  printf 'My name is Ada.\\nWhat is my name?\\n' | infer chat demo --temp 0

`/help` lists the commands. A line that ends in `\\` goes on; `\"\"\"` begins and ends a block of lines.
Ctrl-C stops an answer and keeps what there is of it, Ctrl-D leaves. Of a session each message is on the disk before it is \
evaluated.";

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// A name (`qwen3:4b`, `demo`), a repository (`org/repo[:QUANT]`), or the path of a GGUF file
    #[arg(value_name = "MODEL", value_hint = ValueHint::FilePath)]
    pub(crate) model: String,

    #[command(flatten)]
    pub(crate) common: AnswerArgs,

    /// The prompt; more words are joined by spaces
    pub(crate) prompt: Vec<String>,

    /// Add a file to the prompt (repeatable)
    #[arg(short, long = "file", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) files: Vec<PathBuf>,

    /// Continue the text as it is, without the chat template
    #[arg(long, conflicts_with_all = ["system", "template"])]
    pub(crate) raw: bool,

    /// What to do when the window is full [default: stop]
    #[arg(long, value_name = "HOW", env = "INFER_OVERFLOW")]
    pub(crate) overflow: Option<OverflowArg>,

    /// Print one JSON object with text, thinking, counts, times and settings
    #[arg(help_heading = "Output", long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ChatArgs {
    /// A name (`qwen3:4b`, `demo`), a repository (`org/repo[:QUANT]`), or the path of a GGUF file; a session remembers its own
    #[arg(value_name = "MODEL", value_hint = ValueHint::FilePath)]
    pub(crate) model: Option<String>,

    #[command(flatten)]
    pub(crate) common: AnswerArgs,

    /// What to do when the window is full [default: slide]
    #[arg(long, value_name = "HOW", env = "INFER_OVERFLOW")]
    pub(crate) overflow: Option<OverflowArg>,

    #[command(flatten)]
    pub(crate) session: SessionArgs,
}

/// A conversation that is kept, and what to do with those that are.
#[derive(Debug, Default, Args)]
pub(crate) struct SessionArgs {
    /// Keep the conversation under this name, or go on with the one that is kept there
    #[arg(help_heading = "Sessions", long = "session", value_name = "NAME")]
    pub(crate) name: Option<Name>,

    /// Go on with the session used last
    #[arg(help_heading = "Sessions", long = "continue", conflicts_with = "name")]
    pub(crate) last: bool,

    /// List the sessions
    #[arg(help_heading = "Sessions", long = "list-sessions", conflicts_with_all = ["model", "name", "last", "remove"])]
    pub(crate) list: bool,

    /// With `--list-sessions`, print one JSON object
    #[arg(help_heading = "Sessions", long, requires = "list", conflicts_with_all = ["model", "name", "last", "remove"])]
    pub(crate) json: bool,

    /// Remove a session; on a terminal it asks first, unless `--yes` is given
    #[arg(help_heading = "Sessions", long = "remove-session", value_name = "NAME", conflicts_with_all = ["model", "name", "last"])]
    pub(crate) remove: Option<Name>,
}

/// What `run` and `chat` share.
#[derive(Debug, Clone, Args)]
pub(crate) struct AnswerArgs {
    #[command(flatten)]
    pub(crate) model: ModelArgs,

    #[command(flatten)]
    pub(crate) context: ContextArgs,

    #[command(flatten)]
    pub(crate) sampling: SamplingArgs,

    /// System prompt
    #[arg(short, long, value_name = "TEXT")]
    pub(crate) system: Option<String>,

    /// Chat template in place of the model's own: a name (chatml, …) or a Jinja file
    #[arg(long, value_name = "NAME|FILE", value_hint = ValueHint::FilePath)]
    pub(crate) template: Option<String>,

    /// Let a reasoning model think first; thoughts never reach stdout
    #[arg(long, value_name = "WHEN", default_value = "auto", env = "INFER_THINK")]
    pub(crate) think: ThinkArg,

    /// Most tokens to generate [default: until the end of the turn]
    #[arg(short = 'n', long, value_name = "N", allow_negative_numbers = true, value_parser = parse_max_tokens)]
    pub(crate) max_tokens: Option<usize>,

    /// Stop before this text (repeatable)
    #[arg(long = "stop", value_name = "TEXT", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(crate) stops: Vec<String>,

    /// Print statistics on stderr
    #[arg(help_heading = "Output", long)]
    pub(crate) stats: bool,

    /// Append counts and times of each request to this file, as a line of JSON without any text of it
    #[arg(help_heading = "Output", long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) metrics_file: Option<PathBuf>,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct ModelArgs {
    /// Download the model without asking when it is not here
    #[arg(short, long)]
    pub(crate) yes: bool,

    /// Layers on the GPU: a number, `auto` (what fits) or `all`
    #[arg(help_heading = "Placement", long, visible_alias = "ngl", value_name = "N|auto|all", default_value = "auto", env = "INFER_GPU_LAYERS",
        value_parser = parse_gpu_layers)]
    pub(crate) gpu_layers: GpuLayers,

    /// Use this device and fail if it isn't there, such as `cuda`, `cuda1` or `cpu`
    #[arg(help_heading = "Placement", long, value_name = "NAME", env = "INFER_DEVICE")]
    pub(crate) device: Option<String>,

    /// Threads [default: the cores that this process may use]
    #[arg(help_heading = "Placement", short, long, value_name = "N", env = "INFER_THREADS",
        value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct ContextArgs {
    /// Context, tokens; `8k` is 8192 [default: what fits, at most 8192 or the model's own]
    #[arg(help_heading = "Context", short, long, value_name = "N", env = "INFER_CTX",
        allow_negative_numbers = true, value_parser = parse_context)]
    pub(crate) ctx: Option<u32>,

    /// Type of the KV cache; `q8_0` takes half the memory of `f16`, `q4_0` less than a third
    #[arg(help_heading = "Context", long, value_name = "TYPE", default_value = "f16", env = "INFER_KV")]
    pub(crate) kv: KvArg,

    /// First tokens that stay when the window is full, rounded up to whole turns that half of it holds; the system prompt
    /// always stays
    #[arg(help_heading = "Context", long, value_name = "N", env = "INFER_KEEP",
        allow_negative_numbers = true, value_parser = parse_tokens)]
    pub(crate) keep: Option<u32>,

    /// Neither use nor fill the cache of prompts on disk
    #[arg(help_heading = "Context", long)]
    pub(crate) no_cache: bool,

    /// The most that this cache may take, such as `2GB`; 0 for no cache
    #[arg(help_heading = "Context", long, value_name = "SIZE", default_value = "2GB", env = "INFER_CACHE_SIZE",
        value_parser = parse_size)]
    pub(crate) cache_size: u64,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct SamplingArgs {
    /// Temperature; 0 is greedy [default: 0.8]
    #[arg(
        help_heading = "Sampling",
        long,
        value_name = "X",
        env = "INFER_TEMP",
        allow_negative_numbers = true
    )]
    pub(crate) temp: Option<f32>,

    /// Choose among the N most likely tokens, 0 for all [default: 40]
    #[arg(
        help_heading = "Sampling",
        long,
        value_name = "N",
        env = "INFER_TOP_K",
        allow_negative_numbers = true
    )]
    pub(crate) top_k: Option<i32>,

    /// Choose among the fewest tokens with this probability together [default: 0.95]
    #[arg(
        help_heading = "Sampling",
        long,
        value_name = "P",
        env = "INFER_TOP_P",
        allow_negative_numbers = true
    )]
    pub(crate) top_p: Option<f32>,

    /// Drop tokens less likely than this share of the most likely one [default: 0.05]
    #[arg(
        help_heading = "Sampling",
        long,
        value_name = "P",
        env = "INFER_MIN_P",
        allow_negative_numbers = true
    )]
    pub(crate) min_p: Option<f32>,

    /// Divide the logits of the last 64 tokens, the prompt's too, by this [default: 1.0]
    #[arg(
        help_heading = "Sampling",
        long,
        value_name = "X",
        env = "INFER_REPEAT_PENALTY",
        allow_negative_numbers = true
    )]
    pub(crate) repeat_penalty: Option<f32>,

    /// Seed of the random numbers [default: random]
    #[arg(
        help_heading = "Sampling",
        long,
        value_name = "N",
        env = "INFER_SEED",
        allow_negative_numbers = true
    )]
    pub(crate) seed: Option<u32>,

    /// Temperature 0.2, 0.7 or 1.0 with a top-p that suits it
    #[arg(help_heading = "Sampling", long, value_name = "NAME", env = "INFER_PRESET")]
    pub(crate) preset: Option<PresetArg>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum OverflowArg {
    /// Drop the oldest whole turns, or the oldest half of a long answer; the rest moves up in the cache
    Slide,
    /// Drop the same, and evaluate the rest again: exact, slower
    Rebuild,
    /// End the answer
    Stop,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum ThinkArg {
    /// What the model's template does by itself
    Auto,
    On,
    Off,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum PresetArg {
    /// Temperature 0.2, top-p 0.9
    Precise,
    /// Temperature 0.7, top-p 0.95
    Balanced,
    /// Temperature 1.0, top-p 0.98
    Creative,
}
