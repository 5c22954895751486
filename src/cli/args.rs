//! What can be said on the command line: declarations and help, no behaviour.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use clap_complete::Shell;

const EXAMPLES: &str = "\
Examples:
  infer run demo \"What is the capital of France?\"
  cat report.txt | infer run model.gguf \"Summarise this\" > summary.txt
  infer chat model.gguf

Exit codes:
  0 done  1 failed  2 usage  3 no such model  5 does not fit  6 prompt too long  130 interrupted";

const RUN_EXAMPLES: &str = "\
Examples:
  infer run demo \"What is the capital of France?\"
  git diff | infer run model.gguf -s \"You review code.\" \"Review this change\"
  infer run model.gguf -f notes.md --temp 0 --json | jq -r .text
  infer run base.gguf --raw -n 64 \"Once upon a time\"

The answer goes to stdout and everything else to stderr. Arguments, files and piped input are joined by blank \
lines, in this order, into one prompt. Without any of them, on a terminal, `run` becomes `chat`.";

const CHAT_EXAMPLES: &str = "\
Examples:
  infer chat demo
  infer chat model.gguf -s \"You answer in one sentence.\" --ctx 4096
  printf 'My name is Ada.\\nWhat is my name?\\n' | infer chat demo --temp 0

`/help` lists the commands. A line that ends in `\\` goes on; `\"\"\"` begins and ends a block of lines.
Ctrl-C stops an answer and keeps what there is of it, Ctrl-D leaves.";

const SHOW_EXAMPLES: &str = "\
Examples:
  infer show demo
  infer show model.gguf --json | jq .context_length
  infer show model.gguf --template > chat.jinja";

/// Run language models on your own machine, from the terminal
#[derive(Debug, Parser)]
#[command(
    name = "infer",
    version,
    disable_version_flag = true,
    arg_required_else_help = true,
    after_help = EXAMPLES
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,

    #[command(flatten)]
    pub(crate) volume: VolumeArgs,

    /// Print the version; with -v also the llama.cpp build, its CPU features, backends and devices
    #[arg(short = 'V', long)]
    pub(crate) version: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Answer one prompt
    #[command(after_help = RUN_EXAMPLES)]
    Run(RunArgs),
    /// Hold a conversation
    #[command(after_help = CHAT_EXAMPLES)]
    Chat(ChatArgs),
    /// Show what is in a model file
    #[command(after_help = SHOW_EXAMPLES)]
    Show(ShowArgs),
    /// Print a completion script for a shell
    #[command(
        after_help = "Example:\n  infer completions bash > ~/.local/share/bash-completion/completions/infer"
    )]
    Completions {
        /// The shell
        shell: Shell,
    },
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
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
    #[command(flatten)]
    pub(crate) common: AnswerArgs,

    /// What to do when the window is full [default: rebuild]
    #[arg(long, value_name = "HOW", env = "INFER_OVERFLOW")]
    pub(crate) overflow: Option<OverflowArg>,
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
    #[arg(short = 'n', long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) max_tokens: Option<usize>,

    /// Stop before this text (repeatable)
    #[arg(long = "stop", value_name = "TEXT", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(crate) stops: Vec<String>,

    /// Print statistics on stderr
    #[arg(help_heading = "Output", long)]
    pub(crate) stats: bool,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct ModelArgs {
    /// The path of a GGUF file, or `demo`
    #[arg(value_name = "MODEL", value_hint = ValueHint::FilePath)]
    pub(crate) model: String,

    /// Layers on the GPU: a number, `auto` (what fits) or `all`
    #[arg(help_heading = "Placement", long, visible_alias = "ngl", value_name = "N|auto|all", default_value = "auto", env = "INFER_GPU_LAYERS",
        value_parser = parse_gpu_layers)]
    pub(crate) gpu_layers: crate::engine::GpuLayers,

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
    /// Context, tokens [default: what fits, at most 8192 or the model's own]
    #[arg(help_heading = "Context", short, long, value_name = "N", env = "INFER_CTX",
        value_parser = clap::value_parser!(u32).range(16..=1_073_741_824))]
    pub(crate) ctx: Option<u32>,

    /// Type of the KV cache
    #[arg(help_heading = "Context", long, value_name = "TYPE", default_value = "f16", env = "INFER_KV")]
    pub(crate) kv: KvArg,
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

#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct VolumeArgs {
    /// Only errors and what was asked for
    #[arg(help_heading = "Output", short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,

    /// More on stderr, the log of llama.cpp included
    #[arg(help_heading = "Output", short, long, global = true)]
    pub(crate) verbose: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// The path of a GGUF file, or `demo`
    #[arg(value_name = "MODEL", value_hint = ValueHint::FilePath)]
    pub(crate) model: String,

    /// Print one JSON object
    #[arg(long, conflicts_with = "template")]
    pub(crate) json: bool,

    /// Print the chat template
    #[arg(long)]
    pub(crate) template: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum OverflowArg {
    /// Drop the oldest whole turns and evaluate the rest again
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
pub(crate) enum KvArg {
    F16,
    #[value(name = "q8_0", alias = "int8")]
    Q8_0,
    #[value(name = "q4_0", alias = "int4")]
    Q4_0,
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

fn parse_gpu_layers(text: &str) -> Result<crate::engine::GpuLayers, String> {
    use crate::engine::GpuLayers;
    match text {
        "auto" => Ok(GpuLayers::Auto),
        "all" => Ok(GpuLayers::All),
        _ => text.parse().map(GpuLayers::Count).map_err(|_| "not a number, `auto` or `all`".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_tree_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn layers_are_a_number_or_a_word() {
        use crate::engine::GpuLayers;
        for (text, expected) in [
            ("auto", Ok(GpuLayers::Auto)),
            ("all", Ok(GpuLayers::All)),
            ("12", Ok(GpuLayers::Count(12))),
            ("some", Err("not a number, `auto` or `all`".to_owned())),
            ("-1", Err("not a number, `auto` or `all`".to_owned())),
        ] {
            assert_eq!(parse_gpu_layers(text), expected);
        }
    }
}
