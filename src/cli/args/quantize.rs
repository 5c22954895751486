//! What can be said to `infer quantize`.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};

use crate::model::recipe::Target;

pub(super) const EXAMPLES: &str = "\
Examples:
  infer quantize org/repo:F16                            INT4 (Q4_K_M), under a name of its own
  infer quantize model-f16.gguf --to int8 -o model-q8.gguf
  infer quantize model-f16.gguf --to q4_0 --dry-run      the plan only
  infer quantize model-f16.gguf --calibrate notes.txt    spend the bits where this text needs them
  infer quantize --compare model-f16.gguf model-q4.gguf  the verdict for two files at hand

Types, from the best to the smallest: q8_0 (int8), q6_k, q5_k_m, q5_k_s, q4_k_m (int4), q4_k_s, iq4_nl, q4_0, iq4_xs; also \
f16 and bf16. The verdict is measured on a text: perplexity of both files, the KL divergence between their predictions, and \
how often their most likely next token is the same. It is written into the file.";

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
