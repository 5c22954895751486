//! What this binary is, and whether it suits this processor.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::dirs;
use super::ui::Ui;
use crate::engine::{DeviceKind, llama, placement};
use crate::error::{Error, Result};
use crate::human::Bytes;

/// One line; with `--verbose` what the engine was built with and what it sees.
pub(crate) fn print(ui: &mut Ui) {
    let mut text = format!("infer {}\n", env!("CARGO_PKG_VERSION"));
    if ui.is_verbose() {
        // Writing to a string cannot fail.
        let devices = placement::devices();
        let _ = writeln!(text, "llama.cpp  {}", llama::LLAMA_CPP_BUILD);
        let _ = writeln!(text, "built for  {}", features(&placement::system_info()));
        let mut backends: Vec<&str> = devices.iter().map(|d| d.backend.as_str()).collect();
        backends.dedup();
        let _ = writeln!(text, "backends   {}", backends.join(", "));
        for device in &devices {
            let free = if device.kind == DeviceKind::Cpu {
                format!("{} in all", Bytes(device.total))
            } else {
                format!("{} of {} free", Bytes(device.free), Bytes(device.total))
            };
            let _ = writeln!(text, "device     {}: {}, {free}", device.name, device.description);
        }
        if let Some(missed) = missed_here() {
            let _ = writeln!(text, "unused     {missed} (rebuild with `{REBUILD}`)");
        }
    }
    // Whether all of it could be written is asked once, at the end.
    let _ = ui.page(&text);
}

/// Without the feature the rebuilt program would not know the GPU any more.
pub(crate) const REBUILD: &str = if cfg!(feature = "cuda") {
    "RUSTFLAGS=\"-C target-cpu=native\" cargo install --path . --features cuda"
} else {
    "RUSTFLAGS=\"-C target-cpu=native\" cargo install --path ."
};

/// `CPU : SSE3 = 1 | AVX = 1` says `CPU: SSE3 AVX`.
fn features(info: &str) -> String {
    info.split(" | ")
        .filter_map(|part| {
            let (name, value) = part.trim().rsplit_once(" = ")?;
            let name = name.replace(" : ", ": ");
            Some(if value == "1" { name } else { format!("{name}={value}") })
        })
        .collect::<Vec<_>>()
        .join(" ")
}

/// An instruction set.
struct Feature {
    name: &'static str,
    /// This build uses it.
    built: bool,
    /// This processor has it.
    present: bool,
    /// It makes models much faster, so that its absence from a build is worth a word.
    matters: bool,
}

/// Refuse, before the first call into the engine, to run on a processor that would stop at an unknown instruction.
pub(crate) fn check_cpu() -> Result<()> {
    check(&cpu_features())
}

fn check(features: &[Feature]) -> Result<()> {
    match named(features, |f| f.built && !f.present) {
        None => Ok(()),
        Some(missing) => Err(Error::failed(format!("this binary was built for a processor with {missing}"))
            .hint(format!("rebuild on this machine with `{REBUILD}`"))),
    }
}

/// Instruction sets that make models much faster, here but not in this build.
fn missed(features: &[Feature]) -> Option<String> {
    named(features, |f| f.matters && f.present && !f.built)
}

/// [`missed`] on this processor.
pub(crate) fn missed_here() -> Option<String> {
    missed(&cpu_features())
}

/// The instruction sets that this build uses.
pub(crate) fn used() -> String {
    named(&cpu_features(), |f| f.built && f.present).unwrap_or_else(|| "no special instructions".to_owned())
}

fn named(features: &[Feature], which: impl Fn(&&Feature) -> bool) -> Option<String> {
    let names: Vec<&str> = features.iter().filter(which).map(|f| f.name).collect();
    (!names.is_empty()).then(|| names.join(", "))
}

/// Say once a day that a rebuild would be faster.
pub(crate) fn advise_rebuild(ui: &mut Ui) {
    if let (Some(missed), Some(folder)) = (missed_here(), dirs::state()) {
        advise(ui, &missed, &folder.join("rebuild-advice"));
    }
}

/// The stamp is a file whose age says when this was said last.
fn advise(ui: &mut Ui, missed: &str, stamp: &Path) {
    let said = fs::metadata(stamp).and_then(|meta| meta.modified()).ok();
    let age = said.and_then(|at| SystemTime::now().duration_since(at).ok());
    if ui.is_quiet() || age.is_some_and(|age| age < Duration::from_secs(86_400)) {
        return;
    }
    ui.status(&format!(
        "this processor has {missed}, which this build does not use; rebuild with `{REBUILD}`"
    ));
    // Without the stamp the line comes again, which is no harm.
    let _ = stamp.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(stamp, ""));
}

/// Instruction sets that this build may use. llama.cpp is compiled for the same target as this file, so the compiler's
/// view of the one is that of the other.
fn cpu_features() -> Vec<Feature> {
    macro_rules! features {
        ($detect:ident, matters: [$($fast:tt),*], others: [$($other:tt),*]) => {
            vec![
                $(Feature { name: $fast, built: cfg!(target_feature = $fast), present: std::arch::$detect!($fast), matters: true },)*
                $(Feature { name: $other, built: cfg!(target_feature = $other), present: std::arch::$detect!($other), matters: false },)*
            ]
        };
    }
    #[cfg(target_arch = "x86_64")]
    {
        let mut list = features!(is_x86_feature_detected,
            matters: ["avx512f", "avx512bw", "avx512vnni", "avx512bf16", "avxvnni"],
            others: ["avx", "avx2", "fma", "f16c", "bmi1", "bmi2", "popcnt", "lzcnt", "avx512cd", "avx512dq", "avx512vl",
                "avx512ifma", "avx512vbmi", "avx512vbmi2", "avx512bitalg", "avx512vpopcntdq", "gfni", "vaes", "vpclmulqdq"]);
        // ggml's own default for x86-64 needs these even where the compiler's target does not.
        for feature in &mut list {
            feature.built |= ["avx", "avx2", "fma", "f16c", "bmi2"].contains(&feature.name);
        }
        list
    }
    #[cfg(target_arch = "aarch64")]
    {
        features!(is_aarch64_feature_detected, matters: ["dotprod", "i8mm"], others: ["neon", "fp16", "bf16", "sve", "sve2"])
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn llama_cpps_line_becomes_a_list() {
        let info = "CPU : SSE3 = 1 | AVX = 1 | REPACK = 1 | CUDA : ARCHS = 900 | ";
        assert_eq!(features(info), "CPU: SSE3 AVX REPACK CUDA: ARCHS=900");
    }

    #[test]
    fn a_rebuild_is_advised_once_a_day() {
        let folder = tempfile::tempdir().unwrap();
        let stamp = folder.path().join("infer/advice");
        let (mut ui, _, err) = Ui::captured(false);
        advise(&mut ui, "avx512f", &stamp);
        advise(&mut ui, "avx512f", &stamp);
        assert_eq!(err.text().matches("this processor has avx512f, which").count(), 1);
        let yesterday = SystemTime::now() - Duration::from_secs(90_000);
        fs::File::options().write(true).open(&stamp).unwrap().set_modified(yesterday).unwrap();
        advise(&mut ui, "avx512f", &stamp);
        assert_eq!(err.text().matches("this processor has avx512f, which").count(), 2);
    }

    #[test]
    fn a_processor_that_lacks_something_is_refused_and_one_that_offers_more_is_named() {
        let feature = |name, built, present, matters| Feature { name, built, present, matters };
        let list = [
            feature("both", true, true, true),
            feature("lacking", true, false, false),
            feature("lacking2", true, false, true),
            feature("more", false, true, true),
            feature("little more", false, true, false),
            feature("neither", false, false, true),
        ];
        let error = check(&list).unwrap_err();
        assert_eq!(error.message, "this binary was built for a processor with lacking, lacking2");
        assert_eq!(error.kind.exit_code(), 1);
        assert_eq!(missed(&list).as_deref(), Some("more"));
        assert!(check(&list[3..]).is_ok() && missed(&list[4..]).is_none());
    }

    #[test]
    fn the_machine_that_built_this_can_run_it() {
        check_cpu().unwrap();
    }

    #[test]
    fn the_named_build_is_the_pinned_one() {
        let manifest = include_str!("../../Cargo.toml");
        assert!(
            manifest.contains("llama-cpp-sys-2 = \"=0.1.161\""),
            "bring LLAMA_CPP_BUILD up to the new pin"
        );
    }
}
