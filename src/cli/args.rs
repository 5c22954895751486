//! What can be said on the command line: declarations and help, no behaviour.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use clap_complete::Shell;

use super::sessions::Name;
use crate::engine::KvType;
use crate::model::recipe::Target;

mod bench;
mod tune;

pub(crate) use bench::{BenchArgs, FlashArg, OutputArg};
pub(crate) use tune::TuneArgs;

const EXAMPLES: &str = "\
Examples:
  infer run smollm2:135m \"What is the capital of France?\"
  cat report.txt | infer run qwen3:4b \"Summarise this\" > summary.txt
  infer chat qwen3:4b
  infer list --names            which models have a short name

A model that is not on this machine is downloaded, after a question.

Exit codes:
  0 done      3 no such model    6 prompt too long
  1 failed    4 network          130 interrupted
  2 usage     5 does not fit";

const PULL_EXAMPLES: &str = "\
Examples:
  infer pull smollm2:135m                         from `infer list --names`
  infer pull Qwen/Qwen3-0.6B-GGUF                 a repository, its usual quant
  infer pull Qwen/Qwen3-0.6B-GGUF:Q8_0 qwen3:4b   a quant, and another model
  infer pull org/repo/file.gguf@v1.0              a file of one revision
  infer run \"$(infer pull qwen3:4b)\" \"Hello\"      stdout is the path

Files go into the cache of the Hugging Face hub, which Python's huggingface_hub shares, and appear there only when \
their SHA-256 is right. Ctrl-C keeps what has come; the same command goes on. A token is read from HF_TOKEN or from \
what `hf auth login` stored, the hub's address from HF_ENDPOINT, the cache from HF_HUB_CACHE or HF_HOME, and \
HF_HUB_OFFLINE=1 keeps the network out.";

const LIST_EXAMPLES: &str = "\
Examples:
  infer list
  infer list --names                       which models have a short name
  infer list --all                         also what no model needs
  infer list --json | jq -r '.models[].path'";

const RM_EXAMPLES: &str = "\
Examples:
  infer rm smollm2:135m
  infer rm Qwen/Qwen3-0.6B-GGUF:Q8_0 --dry-run
  infer rm org/repo                    every model and download of a repository
  infer rm org/repo --all              what other programs left there as well

On a terminal it asks first, unless `--yes` is given. What another model of the repository needs stays.";

const QUANTIZE_EXAMPLES: &str = "\
Examples:
  infer quantize org/repo:F16                            INT4 (Q4_K_M), under a name of its own
  infer quantize model-f16.gguf --to int8 -o model-q8.gguf
  infer quantize model-f16.gguf --to q4_0 --dry-run      the plan only
  infer quantize model-f16.gguf --calibrate notes.txt    spend the bits where this text needs them
  infer quantize --compare model-f16.gguf model-q4.gguf  the verdict for two files at hand

Types, from the best to the smallest: q8_0 (int8), q6_k, q5_k_m, q5_k_s, q4_k_m (int4), q4_k_s, iq4_nl, q4_0, iq4_xs; also \
f16 and bf16. The verdict is measured on a text: perplexity of both files, the KL divergence between their predictions, and \
how often their most likely next token is the same. It is written into the file.";

const RUN_EXAMPLES: &str = "\
Examples:
  infer run smollm2:135m \"What is the capital of France?\"
  git diff | infer run qwen3:4b -s \"You review code.\" \"Review this change\"
  infer run model.gguf -f notes.md --temp 0 --json | jq -r .text
  infer run org/repo:Q8_0 --yes --raw -n 64 \"Once upon a time\"

A model that is not on this machine is offered for download on a terminal, and fetched without a question with \
`--yes`. `demo` is a tiny one inside the program. \
The answer goes to stdout and everything else to stderr. Files, arguments and piped input are joined by blank \
lines, in this order, into one prompt. Without any of them, on a terminal, `run` becomes `chat`.";

const CHAT_EXAMPLES: &str = "\
Examples:
  infer chat qwen3:4b
  infer chat model.gguf -s \"You answer in one sentence.\" --ctx 4096
  infer chat qwen3:4b --session trip    keep it, or go on with it; then the model can be left out
  infer chat --continue                 go on with the last one that was kept
  printf 'My name is Ada.\\nWhat is my name?\\n' | infer chat demo --temp 0

`/help` lists the commands. A line that ends in `\\` goes on; `\"\"\"` begins and ends a block of lines.
Ctrl-C stops an answer and keeps what there is of it, Ctrl-D leaves. Of a session each message is on the disk before it is \
evaluated.";

const CACHE_EXAMPLES: &str = "\
Examples:
  infer cache list
  infer cache clear --yes

`run` and `chat` keep what the model made of system prompts, files (`-f`) and sessions, so that the next run reads that \
from disk instead of evaluating it again. It lies in the cache folder, readable by nobody else, up to 256 entries and \
INFER_CACHE_SIZE; what was used longest ago goes first. What is removed is only evaluated once more.";

const DOCTOR_EXAMPLES: &str = "\
Examples:
  infer doctor
  infer doctor --offline --json | jq '.checks[] | select(.state != \"ok\")'

Each check is `ok`, `warn` or `fail`; what is not right comes with one step to take next. Exits with 1 when a check fails. \
A hub that cannot be reached is a warning: models that are here run without it. Of a token it says where it comes from, \
never what it is.";

const FIT_EXAMPLES: &str = "\
Examples:
  infer fit                          what fits, the largest that answers as fast as one reads first
  infer fit qwen3:8b model.gguf
  infer fit --ctx 32768 --kv q8_0    for long texts
  infer fit --all --json | jq -r '.models[] | select(.fits) | .name'

Of models that are here sizes come from the header; of others they are estimated from size and quantization, and marked \
with `~`. Tokens per second are the most that memory allows: what a token has to read over what this machine reads in a \
second, which is measured first. Real answers come at half to nine tenths of that.";

const SHOW_EXAMPLES: &str = "\
Examples:
  infer show qwen3:8b                      from the hub it fetches the header only
  infer show model.gguf --json | jq .context_length
  infer show demo --template > chat.jinja";

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
    /// Download a model from the hub, or go on with a download
    #[command(after_help = PULL_EXAMPLES)]
    Pull(PullArgs),
    /// List the models on this machine, and downloads that did not end
    #[command(visible_alias = "ls", after_help = LIST_EXAMPLES)]
    List(ListArgs),
    /// Show what is in a model, and whether one of the hub would fit here
    #[command(after_help = SHOW_EXAMPLES)]
    Show(ShowArgs),
    /// List the models that this machine can run, and how fast at most
    #[command(after_help = FIT_EXAMPLES)]
    Fit(FitArgs),
    /// Remove models and partial downloads
    #[command(visible_alias = "remove", after_help = RM_EXAMPLES)]
    Rm(RmArgs),
    /// List or clear what was kept of prompts on disk
    #[command(after_help = CACHE_EXAMPLES, disable_help_subcommand = true)]
    Cache {
        #[command(subcommand)]
        command: CacheCommand,
    },
    /// Check this machine and this build, and say what to do about what is not right
    #[command(after_help = DOCTOR_EXAMPLES)]
    Doctor(DoctorArgs),
    /// Measure how fast models are here, and how near to what this machine allows
    #[command(after_help = bench::EXAMPLES)]
    Bench(BenchArgs),
    /// Measure which settings are fastest here for a model, and remember them
    #[command(after_help = tune::EXAMPLES)]
    Tune(TuneArgs),
    /// Make a smaller INT8 or INT4 model of a file, and measure what was lost
    #[command(after_help = QUANTIZE_EXAMPLES)]
    Quantize(QuantizeArgs),
    /// The process that quantizes, started by `quantize`
    #[command(name = super::quantize::worker::COMMAND, hide = true)]
    QuantizeWorker {
        #[arg(long)]
        json: bool,
    },
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
pub(crate) struct PullArgs {
    /// Names, repositories or files: `qwen3:4b`, `org/repo[:QUANT][@REVISION]`, `org/repo/file.gguf`, or a URL of the hub
    #[arg(value_name = "MODEL", required = true)]
    pub(crate) models: Vec<String>,

    /// Connections per file
    #[arg(long, value_name = "N", default_value_t = 8, env = "INFER_CONNECTIONS",
        value_parser = clap::value_parser!(u8).range(1..=16))]
    pub(crate) connections: u8,

    /// Attempts in a row that may bring nothing before it gives up
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(0..=100))]
    pub(crate) retries: u32,

    /// How long a server may be silent before the connection is opened anew
    #[arg(long, value_name = "SECONDS", default_value_t = 30,
        value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(crate) timeout: u64,

    /// Refuse a model larger than this, such as `8GB` or `500MB`
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) max_size: Option<u64>,

    /// Say what would be fetched, and fetch nothing
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Print events as lines of JSON
    #[arg(help_heading = "Output", long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Also what no name refers to: loose files of the cache, and downloads of other programs
    #[arg(short, long)]
    pub(crate) all: bool,

    /// The names that `infer pull` knows, instead of what is here
    #[arg(long, conflicts_with = "all")]
    pub(crate) names: bool,

    /// Print one JSON object
    #[arg(help_heading = "Output", long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct FitArgs {
    /// Only these: names of `infer list --names`, or models that are here [default: both]
    #[arg(value_name = "MODEL", value_hint = ValueHint::FilePath)]
    pub(crate) models: Vec<String>,

    /// Also those that do not fit, and why
    #[arg(short, long)]
    pub(crate) all: bool,

    /// Context that has to fit, tokens [default: what fits, at most 8192 or the model's own]
    #[arg(help_heading = "Context", short, long, value_name = "N", env = "INFER_CTX",
        value_parser = clap::value_parser!(u32).range(16..=1_073_741_824))]
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

#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
pub(crate) struct RmArgs {
    /// Models, repositories or partial downloads, as `infer list` names them
    #[arg(value_name = "MODEL", required = true)]
    pub(crate) models: Vec<String>,

    /// Say what would be removed, and remove nothing
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Everything that is here of the repositories, other programs' files too
    #[arg(long)]
    pub(crate) all: bool,

    /// Do not ask
    #[arg(short, long)]
    pub(crate) yes: bool,

    /// Print one JSON object
    #[arg(help_heading = "Output", long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CacheCommand {
    /// List what is kept, what was used last first
    #[command(visible_alias = "ls")]
    List(CacheListArgs),
    /// Remove all of it
    Clear(CacheClearArgs),
}

#[derive(Debug, Args)]
pub(crate) struct CacheListArgs {
    /// Print one JSON object
    #[arg(help_heading = "Output", long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CacheClearArgs {
    /// Do not ask
    #[arg(short, long)]
    pub(crate) yes: bool,

    /// Print one JSON object
    #[arg(help_heading = "Output", long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Do not ask the hub; `HF_HUB_OFFLINE=1` does the same
    #[arg(long)]
    pub(crate) offline: bool,

    /// Print one JSON object
    #[arg(help_heading = "Output", long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
pub(crate) struct QuantizeArgs {
    /// The model to make smaller, best as F16, BF16 or F32
    #[arg(value_name = "MODEL", value_hint = ValueHint::FilePath, required_unless_present = "compare")]
    pub(crate) model: Option<String>,

    /// The type to make: int4, int8, or one of those below
    #[arg(long, value_name = "TYPE", default_value = "int4", value_parser = clap::value_parser!(Target))]
    pub(crate) to: Target,

    /// Write this file
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "name")]
    pub(crate) output: Option<PathBuf>,

    /// Keep it under this name, for `infer run NAME` [default: made from the source's name]
    #[arg(long = "as", value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// Use an importance matrix, a file of llama.cpp's or of `--calibrate`
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "calibrate")]
    pub(crate) imatrix: Option<PathBuf>,

    /// Compute an importance matrix from this text first, and keep it beside the result
    #[arg(long, value_name = "TEXTFILE", value_hint = ValueHint::FilePath)]
    pub(crate) calibrate: Option<PathBuf>,

    /// Take a source that is quantized already
    #[arg(long)]
    pub(crate) allow_requantize: bool,

    /// Threads [default: the cores that this process may use]
    #[arg(short, long, value_name = "N", env = "INFER_THREADS", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,

    /// Show the plan, and make nothing
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Do not measure the result
    #[arg(help_heading = "Verdict", long)]
    pub(crate) no_check: bool,

    /// Measure on this text in place of the one inside the program
    #[arg(help_heading = "Verdict", long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "no_check")]
    pub(crate) check_text: Option<PathBuf>,

    /// Exit with 1 when the verdict is worse
    #[arg(help_heading = "Verdict", long, value_name = "GRADE", conflicts_with = "no_check")]
    pub(crate) fail_below: Option<GradeArg>,

    /// Only measure: how the predictions of B differ from those of A; without B, the perplexity of A
    #[arg(help_heading = "Verdict", long, num_args = 1..=2, value_name = "A [B]", value_hint = ValueHint::FilePath,
        conflicts_with_all = ["model", "output", "name", "imatrix", "calibrate", "dry_run", "no_check"])]
    pub(crate) compare: Option<Vec<String>>,

    /// Download the source, or replace the result, without asking
    #[arg(short, long)]
    pub(crate) yes: bool,

    /// Print one JSON object
    #[arg(help_heading = "Output", long)]
    pub(crate) json: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum GradeArg {
    Good,
    Fair,
}

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

#[derive(Debug, Clone, Copy, Default, Args)]
pub(crate) struct VolumeArgs {
    /// Only errors and what was asked for
    #[arg(help_heading = "Output", short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,

    /// More on stderr; `-vv` also the log of llama.cpp
    #[arg(help_heading = "Output", short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
}

#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// A name (`qwen3:4b`, `demo`), a repository (`org/repo[:QUANT]`), or the path of a GGUF file
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
pub(crate) enum KvArg {
    F16,
    #[value(name = "q8_0", alias = "int8")]
    Q8_0,
    #[value(name = "q4_0", alias = "int4")]
    Q4_0,
}

impl From<KvArg> for KvType {
    fn from(arg: KvArg) -> Self {
        match arg {
            KvArg::F16 => Self::F16,
            KvArg::Q8_0 => Self::Q8_0,
            KvArg::Q4_0 => Self::Q4_0,
        }
    }
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

/// A number of tokens, also in thousands of 1024 as contexts are named.
fn parse_tokens(text: &str) -> Result<u32, String> {
    let (number, unit) = text.strip_suffix(['k', 'K']).map_or((text, 1), |number| (number, 1024));
    let tokens = number.parse::<u32>().ok().and_then(|number| number.checked_mul(unit));
    tokens.ok_or_else(|| "not a number of tokens".to_owned())
}

fn parse_max_tokens(text: &str) -> Result<usize, String> {
    parse_tokens(text).map(|tokens| tokens as usize)
}

fn parse_context(text: &str) -> Result<u32, String> {
    let tokens = parse_tokens(text)?;
    let fits = (16..=1 << 30).contains(&tokens);
    fits.then_some(tokens).ok_or_else(|| "a context has 16 to 1,073,741,824 tokens".to_owned())
}

/// Bytes, with a unit of 1000 or 1024.
fn parse_size(text: &str) -> Result<u64, String> {
    let wrong = || "not a size such as `8GB`, `500MB` or a number of bytes".to_owned();
    let lower = text.to_lowercase();
    let digits = lower.trim_end_matches(|c: char| c.is_ascii_alphabetic()).trim_end();
    let unit: u64 = match lower[digits.len()..].trim() {
        "" | "b" => 1,
        "k" | "kb" => 1000,
        "m" | "mb" => 1_000_000,
        "g" | "gb" => 1_000_000_000,
        "t" | "tb" => 1_000_000_000_000,
        "kib" => 1 << 10,
        "mib" => 1 << 20,
        "gib" => 1 << 30,
        "tib" => 1 << 40,
        _ => return Err(wrong()),
    };
    let number: f64 = digits.parse().ok().filter(|n| (0.0..1e9).contains(n)).ok_or_else(wrong)?;
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is in the range, and a byte more or less does not matter"
    )]
    Ok((number * unit as f64) as u64)
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
    fn tokens_are_counted_alone_or_in_thousands() {
        for (text, expected) in [
            ("0", Some(0)),
            ("4096", Some(4096)),
            ("8k", Some(8192)),
            ("32K", Some(32_768)),
            ("4194304k", None),
            ("4294967296", None),
            ("-1", None),
            ("1.5k", None),
            ("k", None),
            ("8kb", None),
            ("abc", None),
        ] {
            assert_eq!(parse_tokens(text).ok(), expected, "{text}");
        }
        for (text, expected) in
            [("15", None), ("16", Some(16)), ("1048576k", Some(1 << 30)), ("1048577k", None), ("0", None)]
        {
            assert_eq!(parse_context(text).ok(), expected, "{text}");
        }
    }

    #[test]
    fn sizes_have_units() {
        for (text, expected) in [
            ("8GB", Some(8_000_000_000)),
            ("1.5g", Some(1_500_000_000)),
            ("500 MB", Some(500_000_000)),
            ("2GiB", Some(2 << 30)),
            ("1024", Some(1024)),
            ("", None),
            ("-1GB", None),
            ("8 parsecs", None),
            ("1e300", None),
        ] {
            assert_eq!(parse_size(text).ok(), expected, "{text}");
        }
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
