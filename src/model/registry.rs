//! Short names for models of the hub: those of `models.toml`, which is part of the program, under the user's own.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::ops::Range;
use std::path::Path;

use serde::Deserialize;
use toml::Spanned;

use super::name::{Alias, HubRef, Pick, RepoId, RepoPath, Revision, is_gguf, is_sha256};
use super::quant;
use crate::error::{Error, Kind, Result};
use crate::human::Escaped;

const SHIPPED: &str = include_str!("../../models.toml");

/// Names that may stand for one another; longer chains are taken for circles.
const LONGEST_CHAIN: usize = 8;

/// How many names are suggested, and how like the unknown one they have to be.
const SUGGESTIONS: usize = 3;
const ALIKE: f64 = 0.84;

/// Every alias there is.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    entries: BTreeMap<String, Entry>,
    /// Names for other names: `qwen3` for `qwen3:4b`.
    links: BTreeMap<String, String>,
}

/// What an alias stands for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    pub(crate) alias: String,
    pub(crate) repo: RepoId,
    pub(crate) pick: Pick,
    pub(crate) revision: Option<Revision>,
    /// The sha256 of the file at that revision.
    pub(crate) sha256: Option<String>,
    pub(crate) license: String,
    /// The number of parameters, as its makers call it: `8B`, `30B-A3B`.
    pub(crate) size: String,
    /// What it is good for.
    pub(crate) about: String,
    /// `temp`, `top_k`, `top_p`, `min_p`, `repeat_penalty`, as far as its makers recommend them.
    pub(crate) sampling: BTreeMap<String, f64>,
    /// From the user's own file.
    pub(crate) own: bool,
}

/// An entry as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
struct Written {
    same_as: Option<String>,
    repo: Option<String>,
    quant: Option<String>,
    file: Option<String>,
    revision: Option<String>,
    sha256: Option<String>,
    #[serde(default)]
    license: String,
    #[serde(default)]
    size: String,
    #[serde(default)]
    about: String,
    #[serde(default)]
    sampling: BTreeMap<String, f64>,
}

/// What is wrong in a file, and where.
type Wrong = (String, Option<Range<usize>>);

impl Registry {
    /// The shipped names, and over them, name by name, those of the user's file, if there is one.
    pub(crate) fn load(user: Option<&Path>) -> Result<Self> {
        let mut registry = Self::default();
        registry.add(SHIPPED, false).map_err(|wrong| in_file("models.toml", SHIPPED, wrong))?;
        let Some(path) = user else { return Ok(registry) };
        let name = path.to_string_lossy();
        match std::fs::read_to_string(path) {
            Ok(text) => registry.add(&text, true).map_err(|wrong| in_file(&name, &text, wrong))?,
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            Err(e) => return Err(Error::failed(format!("cannot read `{}`: {e}", Escaped(&name)))),
        }
        Ok(registry)
    }

    fn add(&mut self, text: &str, own: bool) -> std::result::Result<(), Wrong> {
        let written: BTreeMap<Spanned<String>, Written> =
            toml::from_str(text).map_err(|e| (e.message().to_owned(), e.span()))?;
        let mut places = Vec::new();
        for (alias, written) in written {
            let (span, alias) = (alias.span(), alias.into_inner());
            let wrong = |message| (format!("`{}`: {message}", Escaped(&alias)), Some(span.clone()));
            if !is_alias(&alias) {
                return Err(wrong("an alias is lower case: `name` or `name:size`".to_owned()));
            }
            self.entries.remove(&alias);
            self.links.remove(&alias);
            match written.checked(&alias, own).map_err(wrong)? {
                Meaning::Same(other) => drop(self.links.insert(alias.clone(), other)),
                Meaning::Entry(entry) => drop(self.entries.insert(alias.clone(), *entry)),
            }
            places.push((alias, span));
        }
        match places.into_iter().find(|(alias, _)| self.get(alias).is_none()) {
            Some((alias, span)) => Err((format!("`{alias}`: `same_as` leads to no model"), Some(span))),
            None => Ok(()),
        }
    }

    /// What a name stands for, in any letter case.
    pub(crate) fn get(&self, alias: &str) -> Option<&Entry> {
        let mut name = alias.to_lowercase();
        for _ in 0..LONGEST_CHAIN {
            match self.links.get(&name) {
                Some(other) => name.clone_from(other),
                None => return self.entries.get(&name),
            }
        }
        None
    }

    /// Every model once, by name and then by size.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &Entry> {
        let mut entries: Vec<&Entry> = self.entries.values().collect();
        entries
            .sort_by(|a, b| order(&a.alias).partial_cmp(&order(&b.alias)).unwrap_or(a.alias.cmp(&b.alias)));
        entries.into_iter()
    }

    /// The entry behind an alias that was typed, and which of its files: `qwen3:8b` as a whole, else `qwen3` with the
    /// quant `8b`, which is none.
    pub(crate) fn find(&self, alias: &Alias) -> Option<(&Entry, Pick)> {
        if let Some(entry) = self.get(&alias.to_string()) {
            return Some((entry, entry.pick.clone()));
        }
        let quant = alias.quant.as_ref()?;
        // Behind the name of a family an unknown word would rather be a size.
        let is_quant = alias.name.contains(':') || quant::is_quant(quant);
        let entry = is_quant.then(|| self.get(&alias.name))??;
        Some((entry, Pick::Quant(quant.clone())))
    }

    /// Where on the hub the model is that an alias stands for.
    pub(crate) fn resolve(&self, alias: &Alias) -> Result<HubRef> {
        if let Some((entry, pick)) = self.find(alias) {
            return Ok(HubRef { repo: entry.repo.clone(), revision: entry.revision.clone(), pick });
        }
        let name = alias.to_string();
        let hint = match self.nearest(&name).as_slice() {
            [] => "give `org/repo` of a model on the hub, the path of a GGUF file, or try `infer run demo`"
                .to_owned(),
            names => format!("did you mean {}?", any_of(names)),
        };
        Err(Error::new(Kind::NotFound, format!("no such model: `{}`", Escaped(&name))).hint(hint))
    }

    /// The entry that describes a model of the hub: the same file, or else another of the same repository.
    pub(crate) fn entry_for(&self, hub: &HubRef) -> Option<&Entry> {
        let entries = self.entries.values().filter(|entry| entry.repo.same_as(&hub.repo));
        entries.min_by_key(|entry| (entry.pick != hub.pick, !entry.own))
    }

    /// Names that may have been meant: the sizes of the same family by their size, else what is spelt alike.
    pub(crate) fn nearest(&self, alias: &str) -> Vec<&str> {
        let alias = alias.to_lowercase();
        let (family, size) = alias.split_once(':').unwrap_or((&alias, ""));
        let names = || self.entries.keys().chain(self.links.keys()).map(String::as_str);
        let sizes = names().filter(|name| name.split_once(':').is_some_and(|(own, _)| own == family));
        let mut ranked: Vec<(f64, &str)> = sizes.map(|name| (size_distance(name, size), name)).collect();
        if ranked.is_empty() {
            let far = |name: &str| {
                let whole = strsim::jaro_winkler(name, &alias);
                1.0 - whole.max(strsim::jaro_winkler(name, family))
            };
            ranked = names().map(|name| (far(name), name)).filter(|(far, _)| *far <= 1.0 - ALIKE).collect();
        }
        ranked.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        ranked.into_iter().take(SUGGESTIONS).map(|(_, name)| name).collect()
    }
}

/// What an entry turns out to be.
enum Meaning {
    Same(String),
    Entry(Box<Entry>),
}

impl Written {
    fn checked(self, alias: &str, own: bool) -> std::result::Result<Meaning, String> {
        let repo = match (self.same_as, self.repo) {
            (Some(other), None) => return Ok(Meaning::Same(other)),
            (None, Some(repo)) => RepoId::parse(&repo).map_err(|e| e.message)?,
            (None, None) => return Err("`repo` or `same_as` is missing".to_owned()),
            (Some(_), Some(_)) => return Err("`repo` and `same_as` exclude each other".to_owned()),
        };
        let pick = match (self.quant, self.file) {
            (None, None) => Pick::Default,
            (Some(quant), None) => Pick::Quant(quant),
            (None, Some(file)) if is_gguf(&file) && RepoPath::parse(&file).is_some() => Pick::File(file),
            (None, Some(_)) => {
                return Err("`file` must be the path of a GGUF file in the repository".to_owned());
            }
            (Some(_), Some(_)) => return Err("`quant` and `file` exclude each other".to_owned()),
        };
        let revision = self.revision.map(Revision::parse).transpose().map_err(|e| e.message)?;
        if let Some(sha256) = &self.sha256 {
            if !is_sha256(sha256) {
                return Err("`sha256` must be 64 hex digits in lower case".to_owned());
            }
            if !revision.as_ref().is_some_and(Revision::is_commit) || !matches!(pick, Pick::File(_)) {
                return Err("`sha256` needs a `file` and the commit that has it as `revision`".to_owned());
            }
        }
        self.sampling.iter().try_for_each(|(name, value)| check_sampling(name, *value))?;
        Ok(Meaning::Entry(Box::new(Entry {
            alias: alias.to_owned(),
            repo,
            pick,
            revision,
            sha256: self.sha256,
            license: self.license,
            size: self.size,
            about: self.about,
            sampling: self.sampling,
            own,
        })))
    }
}

fn check_sampling(name: &str, value: f64) -> std::result::Result<(), String> {
    let (fits, range) = match name {
        "temp" => ((0.0..=100.0).contains(&value), "from 0 to 100"),
        "top_k" => ((0.0..=2e9).contains(&value) && value.fract() == 0.0, "a whole number from 0"),
        "top_p" | "min_p" => ((0.0..=1.0).contains(&value), "from 0 to 1"),
        "repeat_penalty" => (value > 0.0 && value <= 10.0, "more than 0 and at most 10"),
        _ => {
            let known = "`temp`, `top_k`, `top_p`, `min_p` and `repeat_penalty`";
            return Err(format!("`sampling` knows {known}, not `{}`", Escaped(name)));
        }
    };
    if fits { Ok(()) } else { Err(format!("`{name}` is {value}, it must be {range}")) }
}

/// What can be typed as an alias and cannot be anything else.
fn is_alias(text: &str) -> bool {
    let word = |word: &str| {
        word.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
            && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_.".contains(&b))
    };
    let (family, size) = text.split_once(':').unwrap_or((text, "x"));
    word(family) && word(size) && !is_gguf(text) && !matches!(family, "demo" | "hf" | "http" | "https")
}

/// For a file of names, what is wrong with which line.
fn in_file(name: &str, text: &str, (message, span): Wrong) -> Error {
    let line =
        span.and_then(|span| text.get(..span.start)).map_or(1, |before| 1 + before.matches('\n').count());
    Error::failed(format!("`{}` line {line}: {}", Escaped(name), Escaped(message.trim())))
        .hint("correct that line, or move the file away")
}

/// A family and a size, for sorting.
fn order(alias: &str) -> (&str, f64) {
    let (family, size) = alias.split_once(':').unwrap_or((alias, ""));
    (family, parameters(size).unwrap_or_default())
}

/// `0.6b`, `135m`, `30b-a3b`, `e4b`: how many parameters that is.
pub(super) fn parameters(size: &str) -> Option<f64> {
    let size = size.strip_prefix('e').unwrap_or(size);
    let unit = size.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let scale = match size.as_bytes()[unit] {
        b'm' => 1e6,
        b'b' => 1e9,
        _ => return None,
    };
    size[..unit].parse::<f64>().ok().map(|number| number * scale).filter(|n| *n > 0.0)
}

/// How far a name's size is from the one asked for: by ratio, where both are numbers.
fn size_distance(name: &str, wanted: &str) -> f64 {
    let own = name.split_once(':').map_or("", |(_, size)| size);
    match (parameters(own), parameters(wanted)) {
        (Some(own), Some(wanted)) => (own / wanted).ln().abs(),
        _ => 100.0 - strsim::jaro_winkler(own, wanted),
    }
}

/// `a`, `b` or `c`
fn any_of(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    match quoted.as_slice() {
        [first @ .., last] if !first.is_empty() => format!("{} or {last}", first.join(", ")),
        _ => quoted.concat(),
    }
}

#[cfg(test)]
mod tests;
