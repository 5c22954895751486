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
        if let Some(missed) = missed_features() {
            let _ = writeln!(text, "unused     {missed} (rebuild with `{REBUILD}`)");
        }
    }
    // Whether all of it could be written is asked once, at the end.
    let _ = ui.page(&text);
}

const REBUILD: &str = "RUSTFLAGS=\"-C target-cpu=native\" cargo install --path .";

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

/// Refuse, before the first call into the engine, to run on a processor that would stop at an unknown instruction.
pub(crate) fn check_cpu() -> Result<()> {
    let missing: Vec<&str> =
        cpu_features().filter(|(_, built, has)| *built && !*has).map(|(name, ..)| name).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(Error::failed(format!("this binary was built for a processor with {}", missing.join(", ")))
        .hint(format!("rebuild on this machine with `{REBUILD}`")))
}

/// Instruction sets that make models much faster, here but not in this build.
fn missed_features() -> Option<String> {
    let missed: Vec<&str> =
        cpu_features().filter(|(_, built, has)| !*built && *has).map(|(name, ..)| name).collect();
    (!missed.is_empty()).then(|| missed.join(", "))
}

/// Say once a day that a rebuild would be faster.
pub(crate) fn advise_rebuild(ui: &mut Ui) {
    if let (Some(missed), Some(folder)) = (missed_features(), dirs::state()) {
        advise(ui, &missed, &folder.join("rebuild-advice"));
    }
}

/// The stamp is a file whose age says when this was said last.
fn advise(ui: &mut Ui, missed: &str, stamp: &Path) {
    let said = fs::metadata(stamp).and_then(|meta| meta.modified()).ok();
    let age = said.and_then(|at| SystemTime::now().duration_since(at).ok());
    if age.is_some_and(|age| age < Duration::from_secs(86_400)) {
        return;
    }
    ui.status(&format!(
        "this processor has {missed}, which this build does not use; rebuild with `{REBUILD}`"
    ));
    // Without the stamp the line comes again, which is no harm.
    let _ = stamp.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(stamp, ""));
}

/// Instruction sets that matter here: name, in this build, on this processor. llama.cpp is compiled for the same
/// target as this file, so the compiler's view of the one is that of the other.
fn cpu_features() -> impl Iterator<Item = (&'static str, bool, bool)> {
    macro_rules! features {
        ($detect:ident: $($name:tt),*) => { vec![$(($name, cfg!(target_feature = $name), std::arch::$detect!($name))),*] };
    }
    #[cfg(target_arch = "x86_64")]
    let list = {
        let mut list = features!(is_x86_feature_detected: "avx512f", "avx512bw", "avx512vnni", "avx512bf16");
        // ggml's own default for x86-64 needs these even where the compiler's target does not.
        list.extend([
            ("avx2", true, std::arch::is_x86_feature_detected!("avx2")),
            ("fma", true, std::arch::is_x86_feature_detected!("fma")),
            ("f16c", true, std::arch::is_x86_feature_detected!("f16c")),
            ("bmi2", true, std::arch::is_x86_feature_detected!("bmi2")),
        ]);
        list
    };
    #[cfg(target_arch = "aarch64")]
    let list = features!(is_aarch64_feature_detected: "dotprod", "i8mm", "fp16");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let list: Vec<(&'static str, bool, bool)> = Vec::new();
    list.into_iter()
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
