//! What can be said on the command line: declarations and help, no behaviour.

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

mod answer;
mod bench;
mod cache;
mod fit;
mod models;
mod quantize;
mod tune;
mod values;

pub(crate) use answer::{
    AnswerArgs, ChatArgs, OverflowArg, PresetArg, RunArgs, SamplingArgs, SessionArgs, ThinkArg,
};
pub(crate) use bench::{BenchArgs, FlashArg, OutputArg};
pub(crate) use cache::{CacheClearArgs, CacheCommand, CacheListArgs};
pub(crate) use fit::FitArgs;
pub(crate) use models::{ListArgs, PullArgs, RmArgs, ShowArgs};
pub(crate) use quantize::{GradeArg, QuantizeArgs};
pub(crate) use tune::TuneArgs;
pub(crate) use values::KvArg;

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

const DOCTOR_EXAMPLES: &str = "\
Examples:
  infer doctor
  infer doctor --offline --json | jq '.checks[] | select(.state != \"ok\")'

Each check is `ok`, `warn` or `fail`; what is not right comes with one step to take next. Exits with 1 when a check fails. \
A hub that cannot be reached is a warning: models that are here run without it. Of a token it says where it comes from, \
never what it is.";

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
    #[command(after_help = answer::RUN_EXAMPLES)]
    Run(RunArgs),
    /// Hold a conversation
    #[command(after_help = answer::CHAT_EXAMPLES)]
    Chat(ChatArgs),
    /// Download a model from the hub, or go on with a download
    #[command(after_help = models::PULL_EXAMPLES)]
    Pull(PullArgs),
    /// List the models on this machine, and downloads that did not end
    #[command(visible_alias = "ls", after_help = models::LIST_EXAMPLES)]
    List(ListArgs),
    /// Show what is in a model, and whether one of the hub would fit here
    #[command(after_help = models::SHOW_EXAMPLES)]
    Show(ShowArgs),
    /// List the models that this machine can run, and how fast at most
    #[command(after_help = fit::EXAMPLES)]
    Fit(FitArgs),
    /// Remove models and partial downloads
    #[command(visible_alias = "remove", after_help = models::RM_EXAMPLES)]
    Rm(RmArgs),
    /// List or clear what was kept of prompts on disk
    #[command(after_help = cache::EXAMPLES, disable_help_subcommand = true)]
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
    #[command(after_help = quantize::EXAMPLES)]
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
pub(crate) struct DoctorArgs {
    /// Do not ask the hub; `HF_HUB_OFFLINE=1` does the same
    #[arg(long)]
    pub(crate) offline: bool,

    /// Print one JSON object
    #[arg(help_heading = "Output", long)]
    pub(crate) json: bool,
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

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_tree_is_sound() {
        Cli::command().debug_assert();
    }
}
