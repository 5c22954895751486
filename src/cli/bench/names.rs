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
    /// Each model as the person named it, and what it is called.
    models: Vec<(String, String)>,
    varying: Vec<&'static settings::Setting>,
    constant: Vec<String>,
}

impl Names {
    pub(super) fn new(plan: &[Planned]) -> Self {
        Self { models: called(plan), varying: settings::varying(plan), constant: settings::constant(plan) }
    }

    pub(super) fn line(&self, row: &Row) -> String {
        let chosen = self
            .varying
            .iter()
            .map(|setting| format!("{} {}", setting.title, (setting.value)(&row.settings)));
        let chosen = chosen.collect::<Vec<_>>().join(", ");
        let name = self.models.iter().find(|(model, _)| *model == row.model.name);
        let name = name.filter(|_| self.models.len() > 1 || chosen.is_empty());
        let name = name.map_or_else(String::new, |(_, called)| called.clone());
        clean(&[name, chosen])
    }

    pub(super) fn about(&self, row: &Row) -> [String; 2] {
        let About { name, kind, params, .. } = &row.model;
        let model = if self.models.len() > 1 {
            String::new()
        } else {
            format!("{}: {kind}, {}", short(name, LONGEST), Params(*params))
        };
        let machine = if row.run.gpu_info.is_empty() { &row.run.cpu_info } else { &row.run.gpu_info };
        [clean(&[model, machine.clone()]), clean(&[self.constant.join(", ")])]
    }
}

/// What each model is called: those with the same short name by their folder too, and by their place in the order, since
/// of a long path the end alone is shown.
fn called(plan: &[Planned]) -> Vec<(String, String)> {
    let mut models: Vec<&str> = Vec::new();
    for row in plan {
        if !models.contains(&row.model.as_str()) {
            models.push(&row.model);
        }
    }
    let shorts: Vec<String> = models.iter().map(|model| short(model, LONGEST)).collect();
    let call = |(place, model): (usize, &&str)| {
        let is_shared = shorts.iter().filter(|short| **short == shorts[place]).count() > 1;
        let called = if is_shared {
            format!("{} ({})", end(&Escaped(model).to_string(), LONGEST - 5), place + 1)
        } else {
            shorts[place].clone()
        };
        ((*model).to_owned(), called)
    };
    models.iter().enumerate().map(call).collect()
}

/// A model on little room: a file without its folder, and of what is still too long the end, which tells most.
pub(super) fn short(name: &str, longest: usize) -> String {
    let is_file = Path::new(name).extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gguf"));
    let stem = Path::new(name).file_stem().and_then(OsStr::to_str).filter(|_| is_file);
    end(&Escaped(stem.unwrap_or(name)).to_string(), longest)
}

fn end(text: &str, longest: usize) -> String {
    let length = text.chars().count();
    if length <= longest {
        text.to_owned()
    } else {
        format!("…{}", text.chars().skip(length - longest + 1).collect::<String>())
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
    fn models_of_the_same_short_name_are_told_apart() {
        let long = |folder: &str| format!("/{folder}/{}/m.gguf", "x".repeat(50));
        let rows = ["/a/m.gguf", "/b/m.gguf", "n", &long("c"), &long("d")].map(|name| {
            let mut row = example::row(&[]);
            row.model.name = name.to_owned();
            row
        });
        let end = format!("…{}/m.gguf", "x".repeat(27));
        let expected = ["/a/m.gguf (1)", "/b/m.gguf (2)", "n", &format!("{end} (4)"), &format!("{end} (5)")];
        assert_eq!(names(&rows), expected);
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
