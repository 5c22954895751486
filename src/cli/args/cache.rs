//! What can be said to `infer cache`.

use clap::{Args, Subcommand};

pub(super) const EXAMPLES: &str = "\
Examples:
  infer cache list
  infer cache clear --yes

`run` and `chat` keep what the model made of system prompts, files (`-f`) and sessions, so that the next run reads that \
from disk instead of evaluating it again. It lies in the cache folder, readable by nobody else, up to 256 entries and \
INFER_CACHE_SIZE; what was used longest ago goes first. What is removed is only evaluated once more.";

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
