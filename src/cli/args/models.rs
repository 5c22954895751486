//! What can be said to the verbs on the files of models: `infer pull`, `list`, `show` and `rm`.

use clap::{Args, ValueHint};

use super::values::parse_size;

pub(super) const PULL_EXAMPLES: &str = "\
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

pub(super) const LIST_EXAMPLES: &str = "\
Examples:
  infer list
  infer list --names                       which models have a short name
  infer list --all                         also what no model needs
  infer list --json | jq -r '.models[].path'";

pub(super) const SHOW_EXAMPLES: &str = "\
Examples:
  infer show qwen3:8b                      from the hub it fetches the header only
  infer show model.gguf --json | jq .context_length
  infer show demo --template > chat.jinja";

pub(super) const RM_EXAMPLES: &str = "\
Examples:
  infer rm smollm2:135m
  infer rm Qwen/Qwen3-0.6B-GGUF:Q8_0 --dry-run
  infer rm org/repo                    every model and download of a repository
  infer rm org/repo --all              what other programs left there as well

On a terminal it asks first, unless `--yes` is given. What another model of the repository needs stays.";

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
