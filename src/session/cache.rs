//! The prefix cache on disk: what a model made of the beginning of a prompt, so that the next run reads it instead of
//! evaluating it again. An entry is used only where reading is quicker than evaluating, both measured on this machine:
//! see [`pays_off`].
//!
//! Nothing here fails: an entry that cannot be used or kept is a note for those who want to know.

use std::borrow::Cow;
use std::fs;
use std::hash::Hasher;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use serde::{Deserialize, Serialize};
use twox_hash::XxHash3_64;

mod entry;
mod folder;
mod look;

use super::{Event, Sink, Template};
use crate::engine::{Engine, Token};
use crate::human::{Bytes, Count, Seconds};
pub(crate) use entry::About;
use entry::Flaw;
use folder::{Folder, Item, MOST, touch};
use look::{Candidate, not_used};

/// Fewer tokens are not worth a file, nor a look into one.
pub(super) const FEWEST: usize = 16;

/// What a cache's values depend on besides its tokens. Entries with another key are of no use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Key {
    /// Tells the model from all others.
    model: String,
    /// Everything else: a name for a person, and a value.
    settings: Vec<(String, String)>,
}

impl Key {
    pub(crate) fn new(
        model: String,
        template: Option<&Template>,
        settings: Vec<(&'static str, String)>,
    ) -> Self {
        let template = template.map_or("none".to_owned(), |template| hex(template.source().as_bytes()));
        let settings = std::iter::once(("chat template", template)).chain(settings);
        Self { model, settings: settings.map(|(name, value)| (name.to_owned(), value)).collect() }
    }

    /// What is not the same, in words for a person.
    fn difference<'k>(&'k self, other: &'k Self) -> Option<&'k str> {
        if self.model != other.model {
            return Some("model");
        }
        let mut pairs = self.settings.iter().zip(&other.settings);
        let different = pairs.find(|(one, other)| one != other).map(|((name, _), _)| name.as_str());
        different.or((self.settings.len() != other.settings.len()).then_some("version of this program"))
    }
}

/// The entries that one conversation can use and make.
#[derive(Debug)]
pub(crate) struct PrefixStore {
    folder: Folder,
    /// The most bytes of all entries together.
    limit: u64,
    key: Key,
    /// The model as the person named it.
    model: String,
    session: Option<String>,
}

/// The tokens that an entry brought into the engine's cache, perhaps none, and what evaluating them once took.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Restored {
    pub(super) tokens: Vec<Token>,
    pub(super) evaluation: Duration,
    /// They are those of the session, and perhaps not as a fresh evaluation would make them.
    pub(super) of_session: bool,
}

impl PrefixStore {
    pub(crate) fn new(folder: PathBuf, limit: u64, key: Key, model: String) -> Self {
        Self { folder: Folder::new(folder), limit, key, model, session: None }
    }

    /// Keep the state of this session, and use what was kept of it.
    pub(crate) fn for_session(mut self, name: &str) -> Self {
        self.session = Some(name.to_owned());
        self
    }

    pub(super) fn has_session(&self) -> bool {
        self.session.is_some()
    }

    /// Fill the engine's cache from the entry of which most tokens are useful, if reading it pays off: `have` tokens are
    /// in the cache already. `None` where the cache is as it was. Answers also why nothing, or not more, came of it.
    pub(super) fn restore<E: Engine>(
        &self,
        engine: &mut E,
        useful: impl Fn(&[Token]) -> usize,
        have: usize,
        note: &mut dyn FnMut(&str),
    ) -> (Option<Restored>, Option<Cow<'static, str>>) {
        let mut look = self.look(&useful, engine.window(), have, note);
        let mut why_not = look.why_not();
        look.candidates.sort_by_key(|candidate| std::cmp::Reverse(candidate.useful));
        for Candidate { path, about, useful } in look.candidates {
            // Looking for it does not count: only reading it was measured before.
            let start = Instant::now();
            if let Err(flaw) = about.verify(&path) {
                note_flaw(&path, &flaw, note);
                why_not = flaw.reason().map(not_used).or(why_not);
                continue;
            }
            let done = engine.restore(&path, &about.tokens);
            let took = start.elapsed();
            if !done {
                return (Some(Restored::default()), refused(&path, &about, note).or(why_not));
            }
            note_read(&path, useful, took, &about, note);
            let restored = Restored {
                of_session: about.session.is_some(),
                evaluation: about.evaluation,
                tokens: about.tokens,
            };
            return (Some(restored), why_not);
        }
        (None, why_not)
    }

    /// Keep the engine's cache, which holds these tokens, if reading them pays off. `for_session` replaces what was
    /// kept of the session; otherwise any prompt may begin with them.
    pub(super) fn keep<E: Engine>(
        &self,
        engine: &mut E,
        tokens: &[Token],
        evaluation: Duration,
        for_session: bool,
        sink: &mut Sink,
    ) {
        let session = self.session.clone().filter(|_| for_session);
        let path = self.folder.entry(&self.name(tokens, session.as_deref()));
        if session.is_none() && path.exists() {
            return touch(&path);
        }
        let said = match self.write(engine, &path, tokens, evaluation, session, sink) {
            Ok(said) => said,
            Err(error) => format!("{} are not kept: {error}", Count(tokens.len() as u64, "token")),
        };
        note(sink, &format!("cache: {said}"));
    }

    fn write<E: Engine>(
        &self,
        engine: &mut E,
        path: &Path,
        tokens: &[Token],
        evaluation: Duration,
        session: Option<String>,
        sink: &mut Sink,
    ) -> io::Result<String> {
        let size =
            engine.state_size().ok_or_else(|| io::Error::other("the cache is not in a state for that"))?;
        let size = size + entry::longest_description(tokens.len());
        if size > self.limit {
            return Err(io::Error::other(format!("{} are more than the cache may hold", Bytes(size))));
        }
        let folder = self.folder.lock(&mut || go_on(sink))?;
        let removed = folder.make_room(size, self.limit, Some(path))?;
        note_removed(removed, self.limit, &mut |text| note(sink, text));
        // Until it has its name it goes away by itself, however this ends.
        let mut new = folder.create()?;
        go_on(sink)?;
        engine.save(new.path(), tokens).map_err(|error| io::Error::other(error.message))?;
        let (key, model) = (self.key.clone(), self.model.clone());
        let mut about = About::new(key, model, session, tokens.to_vec(), evaluation);
        about.measure(new.as_file_mut(), &mut || go_on(sink))?;
        let pays = about.pays_off(tokens.len());
        if !pays {
            // The entry stays without content, so that this is not tried every time.
            new.as_file_mut().set_len(0)?;
            about.measure(new.as_file_mut(), &mut || go_on(sink))?;
        }
        about.append(new.as_file_mut())?;
        // Nobody waits for the disk: what a power failure cuts off is seen by its checksums.
        let bytes = new.as_file().metadata()?.len();
        new.persist(path).map_err(|error| error.error)?;
        let tokens = Count(tokens.len() as u64, "token");
        Ok(if pays {
            format!("{tokens} kept, {}", Bytes(bytes))
        } else {
            format!("{tokens} are not kept: evaluating them is quicker")
        })
    }

    /// Remove what is too much, such as after the limit was lowered, and what was not finished.
    pub(super) fn trim(&self, note: &mut dyn FnMut(&str)) {
        let lock = || self.folder.lock(&mut || Ok(()));
        let trimmed = self.folder.is_untidy(self.limit).then(|| lock()?.make_room(0, self.limit, None));
        match trimmed {
            Some(Ok(removed)) => note_removed(removed, self.limit, note),
            Some(Err(error)) => note(&format!("cache: it is larger than wanted: {error}")),
            None => {}
        }
    }

    /// The file's name without its ending: the model, and what tells its entries apart.
    fn name(&self, tokens: &[Token], session: Option<&str>) -> String {
        let model = self.model_part();
        if let Some(session) = session {
            return format!("{model}{}", session_part(session));
        }
        let mut hash = XxHash3_64::with_seed(0);
        for (name, value) in &self.key.settings {
            hash.write(name.as_bytes());
            hash.write(value.as_bytes());
        }
        for token in tokens {
            hash.write_i32(*token);
        }
        format!("{model}{:016x}", hash.finish())
    }

    fn model_part(&self) -> String {
        format!("{}-", hex(self.key.model.as_bytes()))
    }
}

fn note(sink: &mut Sink, text: &str) {
    // The brake is asked again soon; notes can't be refused.
    let _ = sink(Event::Cache(text));
}

/// An error when keeping is to end.
fn go_on(sink: &mut Sink) -> io::Result<()> {
    if sink(Event::Keeping).is_break() { Err(io::Error::other("it was interrupted")) } else { Ok(()) }
}

/// Say how many entries had to go, and their bytes.
fn note_removed((entries, bytes): (usize, u64), limit: u64, note: &mut dyn FnMut(&str)) {
    if entries > 0 {
        let what = if entries == 1 { "entry" } else { "entries" };
        note(&format!(
            "cache: removed {entries} {what}, {}: {MOST} entries and {} are the most that is kept",
            Bytes(bytes),
            Bytes(limit)
        ));
    }
}

fn hex(bytes: &[u8]) -> String {
    format!("{:016x}", XxHash3_64::oneshot(bytes))
}

fn session_part(session: &str) -> String {
    format!("session-{}", hex(session.as_bytes()))
}

/// Does reading an entry pay off, when `gain` of its `tokens` need not be evaluated then? Evaluating all of them took
/// `evaluation`, as measured when they were; `reading` is measured before an entry is kept, and again whenever it is
/// used.
fn pays_off(reading: Duration, evaluation: Duration, gain: usize, tokens: usize) -> bool {
    reading.as_nanos().saturating_mul(tokens as u128) < evaluation.as_nanos().saturating_mul(gain as u128)
}

/// Say how quickly an entry was read, and remove it if that was not worth it.
fn note_read(path: &Path, useful: usize, took: Duration, about: &About, note: &mut dyn FnMut(&str)) {
    let useful = Count(useful as u64, "token");
    note(&format!("cache: {useful} loaded in {}", Seconds(took.as_secs_f64())));
    if pays_off(took, about.evaluation, 1, 1) {
        return touch(path);
    }
    note("cache: that was slower than evaluating them, so the entry is removed");
    // It would only be as slow again.
    let _ = folder::remove(path);
}

/// Say that the engine did not take an entry that was found to be whole, and why, unless another process replaced it just
/// then.
fn refused(path: &Path, about: &About, note: &mut dyn FnMut(&str)) -> Option<Cow<'static, str>> {
    if About::read(path).as_ref() != Ok(about) {
        return None;
    }
    note("cache: an entry is removed: llama.cpp cannot read it");
    // It would only be refused again.
    let _ = folder::remove(path);
    Some(not_used("llama.cpp cannot read it"))
}

/// Say why an entry is not used, and remove it if nobody can use it.
fn note_flaw(path: &Path, flaw: &Flaw, note: &mut dyn FnMut(&str)) {
    match flaw {
        Flaw::Broken(why) => {
            note(&format!("cache: an entry is not used and removed: {why}"));
            // Then it is removed another time.
            let _ = folder::remove(path);
        }
        Flaw::Foreign(why) => note(&format!("cache: an entry is not used: {why}")),
        Flaw::Gone => {}
    }
}

/// An entry, for a person.
#[derive(Debug)]
pub(crate) struct Held {
    /// What it holds; `None` where that cannot be read.
    pub(crate) about: Option<About>,
    pub(crate) bytes: u64,
    pub(crate) used: SystemTime,
}

/// All entries of a folder, those used last first.
pub(crate) fn list(folder: &Path) -> Vec<Held> {
    let held = |Item { path, bytes, used }| Held { about: About::read(&path).ok(), bytes, used };
    Folder::new(folder.to_owned()).entries("").into_iter().map(held).collect()
}

/// How the entries of a folder are.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Health {
    pub(crate) entries: usize,
    pub(crate) bytes: u64,
    /// Entries that cannot be used, as far as they were read.
    pub(crate) broken: usize,
    /// Entries of which only the description was read.
    pub(crate) unread: usize,
}

/// Read all entries of a folder, those used last first. `go_on` is told the bytes read and those of all before each of
/// them; when it breaks, descriptions are read alone.
pub(crate) fn check(folder: &Path, go_on: &mut dyn FnMut(u64, u64) -> ControlFlow<()>) -> Health {
    let items = Folder::new(folder.to_owned()).entries("");
    let all = items.iter().map(|item| item.bytes).sum();
    let (mut done, mut reads, mut health) = (0, true, Health::default());
    for Item { path, bytes, .. } in items {
        reads = reads && go_on(done, all).is_continue();
        let found = About::read(&path).and_then(|about| if reads { about.verify(&path) } else { Ok(()) });
        if found == Err(Flaw::Gone) {
            continue;
        }
        done += bytes;
        health.entries += 1;
        health.bytes += bytes;
        health.broken += usize::from(found.is_err());
        health.unread += usize::from(found.is_ok() && !reads);
    }
    health
}

/// Remove what a folder holds of a session, of whatever model.
pub(crate) fn forget(folder: &Path, session: &str) -> io::Result<()> {
    let name = session_part(session);
    let is_its =
        |item: &Item| item.path.file_stem().is_some_and(|stem| stem.to_string_lossy().ends_with(&name));
    let mut entries = Folder::new(folder.to_owned()).entries("").into_iter().filter(is_its);
    entries.try_for_each(|item| folder::remove(&item.path))
}

/// Remove all entries of a folder. Answers how many bytes that freed.
pub(crate) fn clear(folder: &Path) -> io::Result<u64> {
    if !fs::exists(folder)? {
        return Ok(0);
    }
    Folder::new(folder.to_owned()).lock(&mut || Ok(())).and_then(|folder| folder.clear())
}

#[cfg(test)]
mod tests;
