//! What rows are called next to each other in a picture.

use std::ffi::OsStr;
use std::path::Path;

use super::row::{About, Planned, Row};
use super::settings;
use crate::human::{Escaped, Params};

/// The most letters of a model's name.
const LONGEST: usize = 40;

/// What lines are called: by what tells them apart.
pub(super) struct Names {
    several_models: bool,
    varying: Vec<&'static settings::Setting>,
    constant: Vec<String>,
}

impl Names {
    pub(super) fn new(plan: &[Planned]) -> Self {
        Self {
            several_models: plan.iter().any(|row| row.model != plan[0].model),
            varying: settings::varying(plan),
            constant: settings::constant(plan),
        }
    }

    pub(super) fn line(&self, row: &Row) -> String {
        let chosen = self
            .varying
            .iter()
            .map(|setting| format!("{} {}", setting.title, (setting.value)(&row.settings)));
        let chosen = chosen.collect::<Vec<_>>().join(", ");
        let name = if self.several_models || chosen.is_empty() {
            short(&row.model.name, LONGEST)
        } else {
            String::new()
        };
        clean(&[name, chosen])
    }

    pub(super) fn about(&self, row: &Row) -> [String; 2] {
        let About { name, kind, params, .. } = &row.model;
        let model = if self.several_models {
            String::new()
        } else {
            format!("{}: {kind}, {}", short(name, LONGEST), Params(*params))
        };
        let machine = if row.run.gpu_info.is_empty() { &row.run.cpu_info } else { &row.run.gpu_info };
        [clean(&[model, machine.clone()]), clean(&[self.constant.join(", ")])]
    }
}

/// A model on little room: a file without its folder, and of what is still too long the end, which tells most.
pub(super) fn short(name: &str, longest: usize) -> String {
    let is_file = Path::new(name).extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gguf"));
    let stem = Path::new(name).file_stem().and_then(OsStr::to_str).filter(|_| is_file);
    let name = Escaped(stem.unwrap_or(name)).to_string();
    let length = name.chars().count();
    if length <= longest {
        name
    } else {
        format!("…{}", name.chars().skip(length - longest + 1).collect::<String>())
    }
}

/// Parts that are not empty, without what no XML may have in it.
fn clean(parts: &[String]) -> String {
    let parts: Vec<&str> = parts.iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
    Escaped(&parts.join(" · ")).to_string().replace(['\u{fffe}', '\u{ffff}'], "\u{fffd}")
}

#[cfg(test)]
mod tests {
    use super::super::row::example;
    use super::*;

    fn names(rows: &[Row]) -> Vec<String> {
        let plan: Vec<Planned> = rows.iter().map(Planned::from).collect();
        let names = Names::new(&plan);
        rows.iter().map(|row| names.line(row)).collect()
    }

    #[test]
    fn a_row_is_called_by_what_tells_it_from_others() {
        let mut rows = [example::row(&[]), example::row(&[])];
        assert_eq!(names(&rows), ["smollm2:135m"; 2]);
        rows[1].settings.flash = Some(true);
        assert_eq!(names(&rows), ["flash auto", "flash on"]);
        rows[1].model.name = format!("/folder/{}.gguf", "m".repeat(50));
        assert_eq!(
            names(&rows),
            ["smollm2:135m · flash auto".to_owned(), format!("…{} · flash on", "m".repeat(39))]
        );
    }

    #[test]
    fn a_short_name_is_the_part_that_tells_most() {
        for (name, expected) in [
            ("smollm2:135m", "smollm2:135m"),
            ("./folder/model.Q4_1.gguf", "model.Q4_1"),
            ("SmolLM2-135M-Instruct.Q4_1.gguf", "…135M-Instruct.Q4_1"),
            ("org/repository-GGUF:Q4_K_M", "…sitory-GGUF:Q4_K_M"),
            ("a\u{1b}.gguf", "a\\u{1b}"),
            ("", ""),
        ] {
            assert_eq!(short(name, 19), expected);
        }
    }

    #[test]
    fn what_is_the_same_is_told_once() {
        let mut row = example::row(&[]);
        let about = |row: &Row| Names::new(&[row.into()]).about(row);
        let settings = "threads 2, batch 2048, ubatch 512, KV f16";
        assert_eq!(about(&row), ["smollm2:135m: llama 256M Q4_1, 134.5M · AMD EPYC", settings]);
        row.run.gpu_info = "NVIDIA H200".to_owned();
        assert_eq!(about(&row)[0], "smollm2:135m: llama 256M Q4_1, 134.5M · NVIDIA H200");
    }
}
