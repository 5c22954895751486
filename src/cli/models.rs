//! `infer list` and `infer rm`: what is on this machine, and less of it.

use std::fmt::Write;
use std::time::SystemTime;

use serde_json::{Value, json};

use super::args::{ListArgs, RmArgs};
use super::hub::shown;
use super::pull::places;
use super::ui::Ui;
use crate::error::{Error, Kind, Result};
use crate::human::{Bytes, Escaped};
use crate::model::name::{HubRef, Pick, RepoId};
use crate::model::quant::{self, RemoteFile, Variant};
use crate::model::store::{Held, Listing, Loose, LooseKind, PartialFile, Place, Removal, Target};
use crate::model::{Located, Places};

/// `infer list`.
pub(crate) fn list(ui: &mut Ui, args: &ListArgs) -> Result<()> {
    let places = places()?;
    // Whether all of it could be written is asked once, at the end.
    let _ = if args.names {
        if args.json { ui.json(&names_json(&places)) } else { ui.page(&names(&places, ui.columns())) }
    } else {
        let listing = places.store.list(&quant::variants);
        if args.json {
            ui.json(&listing_json(&places, &listing, args.all))
        } else if is_empty(&listing, args.all) {
            ui.status(
                "no models yet; `infer pull smollm2:135m` fetches one, `infer list --names` shows more",
            );
            return Ok(());
        } else {
            ui.page(&table(&places, &listing, args.all))
        }
    };
    Ok(())
}

fn is_empty(listing: &Listing, all: bool) -> bool {
    listing.models.is_empty() && listing.partials.is_empty() && (!all || listing.loose.is_empty())
}

/// What can be typed to get this model.
pub(crate) fn name_of(places: &Places, held: &Held) -> String {
    let Some(repo) = &held.repo else { return file_stem(held) };
    alias_of(places, repo, &held.variant).unwrap_or_else(|| typed(repo, &held.variant))
}

fn file_stem(held: &Held) -> String {
    held.path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned())
}

/// `org/repo:Q4_K_M`, or `org/repo/file.gguf` for a file without a quant in its name.
fn typed(repo: &RepoId, variant: &Variant) -> String {
    match (&variant.label, variant.files.first()) {
        (Some(label), _) => format!("{repo}:{label}"),
        (None, Some(file)) => format!("{repo}/{}", file.path),
        (None, None) => repo.to_string(),
    }
}

/// The registry's name for just this model.
fn alias_of(places: &Places, repo: &RepoId, variant: &Variant) -> Option<String> {
    let one = std::slice::from_ref(variant);
    let entry = places.registry.entries().find(|entry| {
        entry.repo.same_as(repo) && entry.pick != Pick::Default && quant::pick(one, &entry.pick).is_ok()
    })?;
    Some(entry.alias.clone())
}

fn place_of(held: &Held) -> &'static str {
    match held.place {
        Place::HubCache => "hub cache",
        Place::Ours => "made here",
    }
}

fn table(places: &Places, listing: &Listing, all: bool) -> String {
    let mut rows = vec![["NAME", "QUANT", "SIZE", "MODIFIED", "PLACE"].map(str::to_owned)];
    rows.extend(listing.models.iter().map(|held| {
        [
            Escaped(&name_of(places, held)).to_string(),
            held.variant.label.clone().unwrap_or_else(|| "-".to_owned()),
            Bytes(held.size).to_string(),
            minute(held.modified),
            place_of(held).to_owned(),
        ]
    }));
    rows.extend(listing.partials.iter().map(partial_row));
    if all {
        rows.extend(listing.loose.iter().map(|loose| {
            let name =
                loose.path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            let name = format!("{}: {}", loose.repo, short(&name));
            [
                Escaped(&name).to_string(),
                "-".to_owned(),
                Bytes(loose.size).to_string(),
                "-".to_owned(),
                kind_of(loose).to_owned(),
            ]
        }));
    }
    columns(&rows)
}

/// Enough of a long name to tell it from others: blobs are called by their SHA-256.
fn short(name: &str) -> String {
    let mut chars = name.chars();
    let start: String = chars.by_ref().take(40).collect();
    if chars.next().is_some() { format!("{start}…") } else { start }
}

fn partial_row(partial: &PartialFile) -> [String; 5] {
    let state = if partial.busy { "downloading" } else { "partial" };
    let (name, label, size) = match &partial.journal {
        Some(journal) => (
            partial_name(partial),
            quant::quant_of(journal.head.path.as_str()).unwrap_or_else(|| "-".to_owned()),
            format!("{}% of {}", percent(journal.done, journal.head.size), Bytes(journal.head.size)),
        ),
        None => (partial_name(partial), "-".to_owned(), Bytes(partial.on_disk).to_string()),
    };
    [Escaped(&name).to_string(), label, size, "-".to_owned(), state.to_owned()]
}

fn partial_name(partial: &PartialFile) -> String {
    match &partial.journal {
        Some(journal) => format!("{}/{}", partial.repo, journal.head.path),
        None => format!("{}: {}", partial.repo, short(&partial.sha256)),
    }
}

fn percent(done: u64, of: u64) -> u64 {
    u64::try_from(u128::from(done) * 100 / u128::from(of.max(1))).unwrap_or(100)
}

fn kind_of(loose: &Loose) -> &'static str {
    match loose.what {
        LooseKind::Orphan => "orphan",
        LooseKind::Dangling => "dangling link",
        LooseKind::Incomplete => "other program's partial",
        LooseKind::Sidecar => "sidecar",
        LooseKind::Temporary => "temporary",
    }
}

/// `2026-11-30 22:10`, in local time.
pub(crate) fn minute(time: SystemTime) -> String {
    let zoned = jiff::Timestamp::try_from(time).map(|at| at.to_zoned_datetime(jiff::tz::TimeZone::system()));
    zoned.map_or_else(|_| "-".to_owned(), |at| at.strftime("%Y-%m-%d %H:%M").to_string())
}

/// Characters between two columns, and the fewest that a column of sentences is broken to.
const GAP: usize = 2;
const SHORTEST: usize = 20;

fn widest<const N: usize>(rows: &[[String; N]], column: usize) -> usize {
    rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0)
}

/// Rows with their columns aligned.
pub(crate) fn columns<const N: usize>(rows: &[[String; N]]) -> String {
    let widths: [usize; N] = std::array::from_fn(|column| widest(rows, column));
    rows.iter().fold(String::new(), |mut text, row| {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}", cells.collect::<Vec<_>>().join(&" ".repeat(GAP)).trim_end());
        text
    })
}

fn listing_json(places: &Places, listing: &Listing, all: bool) -> Value {
    let models: Vec<Value> = listing
        .models
        .iter()
        .map(|held| {
            json!({
                "name": name_of(places, held),
                "repo": held.repo.as_ref().map(ToString::to_string),
                "quantization": held.variant.label,
                "files": held.variant.files.iter().map(|file| &file.path).collect::<Vec<_>>(),
                "path": held.path.to_string_lossy(),
                "bytes": held.size,
                "modified": seconds(held.modified),
                "commit": held.commit,
                "refs": held.refs,
                "place": match held.place { Place::HubCache => "hub_cache", Place::Ours => "ours" },
            })
        })
        .collect();
    let partials: Vec<Value> = listing.partials.iter().map(partial_json).collect();
    let mut value = json!({ "models": models, "partials": partials });
    if all {
        let loose = listing.loose.iter().map(|loose| {
            json!({
                "repo": loose.repo.to_string(),
                "kind": kind_of(loose),
                "path": loose.path.to_string_lossy(),
                "bytes": loose.size,
            })
        });
        value["loose"] = loose.collect();
    }
    value
}

fn partial_json(partial: &PartialFile) -> Value {
    let journal = partial.journal.as_ref();
    json!({
        "name": partial_name(partial),
        "repo": partial.repo.to_string(),
        "file": journal.map(|journal| journal.head.path.to_string()),
        "done": journal.map(|journal| journal.done),
        "bytes": journal.map(|journal| journal.head.size),
        "on_disk": partial.on_disk,
        "downloading": partial.busy,
        "path": partial.part.to_string_lossy(),
    })
}

pub(crate) fn seconds(time: SystemTime) -> Option<u64> {
    time.duration_since(SystemTime::UNIX_EPOCH).ok().map(|since| since.as_secs())
}

/// The registry: names with their size, licence and use, the last as wide as the terminal.
fn names(places: &Places, width: Option<usize>) -> String {
    let mut rows = vec![["NAME", "PARAMETERS", "LICENSE", "GOOD FOR"].map(str::to_owned)];
    rows.extend(places.registry.entries().map(|entry| {
        [&entry.alias, &entry.size, &entry.license, &entry.about].map(|text| Escaped(text).to_string())
    }));
    let Some(width) = width else { return columns(&rows) };
    let before: usize = (0..3).map(|column| widest(&rows, column) + GAP).sum();
    let lines = rows.into_iter().flat_map(|[name, size, license, about]| {
        let mut parts = broken(&about, width.saturating_sub(before).max(SHORTEST)).into_iter();
        let first = [name, size, license, parts.next().unwrap_or_default()];
        let more = parts.map(|line| [String::new(), String::new(), String::new(), line]);
        std::iter::once(first).chain(more).collect::<Vec<_>>()
    });
    columns(&lines.collect::<Vec<_>>())
}

/// A text in lines of so many characters, broken between words.
fn broken(text: &str, width: usize) -> Vec<String> {
    text.split_whitespace().fold(Vec::new(), |mut lines: Vec<String>, word| {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
        lines
    })
}

fn names_json(places: &Places) -> Value {
    let entries = places.registry.entries().map(|entry| {
        json!({
            "name": entry.alias,
            "model": HubRef { repo: entry.repo.clone(), revision: entry.revision.clone(), pick: entry.pick.clone() }.to_string(),
            "parameters": entry.size,
            "license": entry.license,
            "about": entry.about,
            "sampling": entry.sampling,
        })
    });
    json!({ "names": entries.collect::<Vec<_>>() })
}

/// `infer rm`.
pub(crate) fn remove(ui: &mut Ui, args: &RmArgs) -> Result<()> {
    let places = places()?;
    let mut removals = Vec::new();
    for name in &args.models {
        removals.extend(plan_removal(&places, name, args.all)?);
    }
    let bytes: u64 = removals.iter().map(Removal::bytes).sum();
    let is_asked = !args.yes && !args.dry_run && ui.can_ask();
    if !args.json && (is_asked || args.dry_run || ui.is_verbose()) {
        for step in removals.iter().flat_map(Removal::steps).filter(|step| step.bytes > 0) {
            ui.note(&format!("{:>9}  {}", Bytes(step.bytes).to_string(), shown(&step.path)));
        }
    }
    if is_asked && !ui.confirm(&format!("remove {}?", Bytes(bytes)), false)? {
        return Err(Error::failed("nothing was removed").hint("answer `y`, or give `--yes`"));
    }
    let mut freed = bytes;
    if !args.dry_run {
        freed = 0;
        for removal in &removals {
            freed += places.store.remove(removal)?;
        }
    }
    if args.json {
        // A reader that is gone needs no object.
        let _ = ui.json(&removal_json(&removals, freed, args.dry_run));
    } else {
        let would = if args.dry_run { "would free" } else { "freed" };
        ui.status(&format!("{would} {}", Bytes(freed)));
    }
    Ok(())
}

fn removal_json(removals: &[Removal], freed: u64, dry_run: bool) -> Value {
    let steps = removals.iter().flat_map(Removal::steps);
    json!({
        "removed": steps.map(|step| json!({ "path": step.path.to_string_lossy(), "bytes": step.bytes })).collect::<Vec<_>>(),
        "bytes": freed,
        "dry_run": dry_run,
    })
}

/// What a name stands for, to be removed.
fn plan_removal(places: &Places, name: &str, all: bool) -> Result<Vec<Removal>> {
    let Some(model) = places.on_hub(name)? else { return plan_local(places, name) };
    let absent = || {
        Error::new(Kind::NotFound, format!("`{}` is not on this machine", Escaped(name)))
            .hint("`infer list` shows what is")
    };
    if all {
        let plan = places.store.plan_removal(Target::Repo(&model.repo));
        return plan.map(|plan| vec![plan]).map_err(|e| if e.kind == Kind::NotFound { absent() } else { e });
    }
    let listing = places.store.list(&quant::variants);
    let held: Vec<Variant> = listing
        .models
        .iter()
        .filter(|held| is_of(held.repo.as_ref(), &model))
        .map(|held| held.variant.clone())
        .collect();
    let mut paths: Vec<String> = picked(&held, &model.pick);
    let partials: Vec<&PartialFile> =
        listing.partials.iter().filter(|p| is_of(Some(&p.repo), &model)).collect();
    let unfinished: Vec<RemoteFile> = partials
        .iter()
        .filter_map(|partial| partial.journal.as_ref())
        .map(|journal| RemoteFile { path: journal.head.path.to_string(), size: Some(journal.head.size) })
        .collect();
    paths.extend(picked(&quant::variants(&unfinished), &model.pick));
    let mut removals = Vec::new();
    if !paths.is_empty() {
        let target = Target::Files { repo: &model.repo, revision: model.revision.as_ref(), paths: &paths };
        removals.push(places.store.plan_removal(target)?);
    }
    // Of a partial download without a journal nobody knows which file it is: it goes with its repository.
    if model.pick == Pick::Default {
        for partial in partials.iter().filter(|partial| partial.journal.is_none()) {
            let target = Target::Partial { repo: &partial.repo, sha256: &partial.sha256 };
            removals.push(places.store.plan_removal(target)?);
        }
    }
    if removals.is_empty() { Err(absent()) } else { Ok(removals) }
}

fn is_of(repo: Option<&RepoId>, model: &HubRef) -> bool {
    repo.is_some_and(|repo| repo.same_as(&model.repo))
}

/// The files of the models that are meant: all of them where no quant is named.
fn picked(all: &[Variant], pick: &Pick) -> Vec<String> {
    let chosen: Vec<&Variant> = match pick {
        Pick::Default => all.iter().collect(),
        pick => quant::pick(all, pick).into_iter().collect(),
    };
    chosen.iter().flat_map(|variant| &variant.files).map(|file| file.path.clone()).collect()
}

/// A model made here. Files elsewhere belong to the person.
fn plan_local(places: &Places, name: &str) -> Result<Vec<Removal>> {
    if name.eq_ignore_ascii_case("demo") {
        return Err(
            Error::usage("`demo` is part of the program").hint("`infer list` shows what can be removed")
        );
    }
    let Located::File(path) = places.locate(name)? else { return Ok(Vec::new()) };
    if path.parent() == Some(places.store.ours()) {
        return Ok(vec![places.store.plan_removal(Target::Ours(&path))?]);
    }
    let shown = Escaped(&path.to_string_lossy()).to_string();
    Err(Error::usage(format!("`{shown}` is a file of your own")).hint(format!("`rm {shown}` removes it")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let rows = [["A", "B"], ["long", "b"], ["é", ""]].map(|row| row.map(str::to_owned));
        assert_eq!(columns(&rows), "A     B\nlong  b\né\n");
    }

    #[test]
    fn sentences_are_broken_between_words() {
        for (text, width, expected) in [
            ("one two three", 7, &["one two", "three"][..]),
            ("one two three", 100, &["one two three"]),
            ("endless word", 3, &["endless", "word"]),
            ("", 7, &[]),
        ] {
            assert_eq!(broken(text, width), expected, "{text}");
        }
    }

    #[test]
    fn a_share_is_rounded_down() {
        for (done, of, expected) in [(0, 10, 0), (999, 1000, 99), (10, 10, 100), (0, 0, 0)] {
            assert_eq!(percent(done, of), expected);
        }
    }
}
