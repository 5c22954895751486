//! From a name to files on the disk: what to fetch, whether it fits, and the order of things.
//!
//! A plan is made first, of what the hub says and what is here already. Then each file is fetched under its lock, checked,
//! and published, so that a model is never half there under its name.

use std::io::BufReader;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::gguf::Header;
use super::hub::{self, BLOCK, Hub, HubFile, Info, MARGIN, Meta, Part, Remote};
use super::name::{HubRef, Pick, RepoId, RepoPath, Revision};
use super::quant::{self, RemoteFile, Unpicked, Variant};
use super::store::{Journal, JournalHead, PartialFile, Slot, StartedOver, Store};
use crate::error::{Error, Kind, Result};
use crate::human::{Bytes, Count, Escaped};

/// What is to be fetched, and what a person allows.
pub(crate) struct Wish<'a> {
    pub(crate) model: &'a HubRef,
    /// As the person named it, for hints.
    pub(crate) name: &'a str,
    /// The most bytes of a model.
    pub(crate) max_size: Option<u64>,
    /// Whether a model of so many bytes can run here, as far as is known.
    pub(crate) fits: &'a dyn Fn(u64) -> bool,
}

/// The files of one model.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) repo: RepoId,
    pub(crate) commit: String,
    /// The quant, or the file's name.
    pub(crate) variant: String,
    pub(crate) license: Option<String>,
    pub(crate) files: Vec<Planned>,
}

/// One file of a plan.
#[derive(Debug)]
pub(crate) struct Planned {
    pub(crate) file: HubFile,
    pub(crate) meta: Meta,
    /// Bytes that are here: all, or what an earlier download left.
    pub(crate) have: u64,
}

impl Plan {
    pub(crate) fn size(&self) -> u64 {
        self.files.iter().map(|planned| planned.meta.size).sum()
    }

    /// Bytes still to be fetched.
    pub(crate) fn missing(&self) -> u64 {
        self.files.iter().map(|planned| planned.meta.size.saturating_sub(planned.have)).sum()
    }
}

/// What happens during a pull, in this order for each file; hub events come in between.
pub(crate) enum Step<'a> {
    Hub(&'a hub::Event<'a>),
    /// Another process is fetching this file.
    Locked {
        path: &'a str,
        waited: Duration,
    },
    /// Fetching begins, with so many bytes already here.
    Begin {
        planned: &'a Planned,
        have: u64,
    },
    /// The file is published at this path; `fetched` bytes came, none where it was here.
    Done {
        planned: &'a Planned,
        at: &'a Path,
        fetched: u64,
        took: Duration,
    },
}

/// Hears steps and answers whether to go on.
pub(crate) type Steps<'a> = &'a mut dyn FnMut(&Step<'_>) -> ControlFlow<()>;

/// Which files a name means today, and what of them is here.
pub(crate) fn plan(hub: &Hub, store: &Store, wish: &Wish<'_>, steps: Steps<'_>) -> Result<Plan> {
    let mut sink = |event: &hub::Event<'_>| steps(&Step::Hub(event));
    let info = hub.info(&wish.model.repo, wish.model.revision.as_ref(), &mut sink)?;
    let all = quant::variants(&info.files);
    let variant = match quant::pick(&all, &wish.model.pick) {
        Ok(variant) => variant,
        Err(unpicked) => return Err(explain(hub, &info, wish, &unpicked, &mut sink)),
    };
    let mut files = Vec::with_capacity(variant.files.len());
    for file in &variant.files {
        files.push(planned(hub, store, &info, wish.model.revision.as_ref(), &file.path, &mut sink)?);
    }
    let plan = Plan {
        repo: info.repo.clone(),
        commit: info.commit.clone(),
        variant: variant.name().to_owned(),
        license: info.license.clone(),
        files,
    };
    check_size(&plan, wish)?;
    if wish.model.pick == Pick::Default && !(wish.fits)(plan.size()) {
        suggest_smaller(hub, &plan, wish, &mut sink)?;
    }
    Ok(plan)
}

fn planned(
    hub: &Hub,
    store: &Store,
    info: &Info,
    revision: Option<&Revision>,
    path: &str,
    sink: hub::Sink<'_>,
) -> Result<Planned> {
    let path = RepoPath::parse(path).ok_or_else(|| {
        Error::new(
            Kind::Network,
            format!("{} names a file `{}`, which no cache can hold", info.repo, Escaped(path)),
        )
        .hint("choose another repository")
    })?;
    let (repo, commit) = (info.repo.clone(), info.commit.clone());
    let file = HubFile { repo, revision: revision.cloned(), commit, path };
    let meta = hub.meta(&file, sink)?;
    let have = if is_here(store, &file, &meta) {
        meta.size
    } else {
        let slot = store.slot(&file.repo, &meta.sha256)?;
        Journal::read(&slot.journal)
            .filter(|partial| partial.head.size == meta.size)
            .map_or(0, |partial| partial.done)
    };
    Ok(Planned { file, meta, have })
}

/// Whether the file's bytes are here: as a blob, or in its place where the system has no links.
fn is_here(store: &Store, file: &HubFile, meta: &Meta) -> bool {
    store.has(&file.repo, &meta.sha256, meta.size)
        || store.pointed(&file.repo, &file.commit, &file.path, meta.size).is_some()
}

fn check_size(plan: &Plan, wish: &Wish<'_>) -> Result<()> {
    match wish.max_size {
        Some(most) if plan.size() > most => {
            let message = format!("{} has {}, more than {}", wish.name, Bytes(plan.size()), Bytes(most));
            Err(Error::new(Kind::TooBig, message).hint("raise `--max-size`, or choose a smaller quant"))
        }
        _ => Ok(()),
    }
}

/// The usual choice does not fit: say so, and what would. Nothing else is chosen silently.
fn suggest_smaller(hub: &Hub, plan: &Plan, wish: &Wish<'_>, sink: hub::Sink<'_>) -> Result<()> {
    let all = quant::variants(&sizes(hub, &plan.repo, &plan.commit, sink)?);
    let fitting =
        all.iter().filter(|v| v.missing.is_empty() && v.size().is_some_and(|size| (wish.fits)(size)));
    let best = fitting.max_by_key(|variant| variant.size());
    let advice = best.map_or("no quant of it would".to_owned(), |best| {
        format!("`{}:{}` ({}) would", plan.repo, best.name(), Bytes(best.size().unwrap_or(0)))
    });
    let note = format!(
        "{} ({}) does not fit into this machine's memory; {advice}",
        plan.variant,
        Bytes(plan.size())
    );
    if sink(&hub::Event::Note(&note)).is_break() { Err(hub::interrupted()) } else { Ok(()) }
}

/// The files with their sizes, which are worth a question but not an error.
fn sizes(hub: &Hub, repo: &RepoId, commit: &str, sink: hub::Sink<'_>) -> Result<Vec<RemoteFile>> {
    match hub.tree(repo, commit, sink) {
        Err(error) if error.kind == Kind::Interrupted => Err(error),
        files => Ok(files.unwrap_or_default()),
    }
}

/// Nothing was picked: why, and everything that could be.
fn explain(hub: &Hub, info: &Info, wish: &Wish<'_>, unpicked: &Unpicked<'_>, sink: hub::Sink<'_>) -> Error {
    let repo = &info.repo;
    if matches!(unpicked, Unpicked::NoGguf) {
        return no_gguf(hub, repo, sink);
    }
    let sizes = match sizes(hub, repo, &info.commit, sink) {
        Ok(sizes) => sizes,
        Err(interrupted) => return interrupted,
    };
    let all = quant::variants(if sizes.is_empty() { &info.files } else { &sizes });
    let list = |variants: &mut dyn Iterator<Item = &Variant>| {
        variants.map(|variant| entry(variant, wish.fits)).collect::<Vec<_>>().join(", ")
    };
    let not_found = |message: String| Error::new(Kind::NotFound, message);
    let first =
        |wanted: Option<&Variant>| wanted.or(all.first()).map_or_else(String::new, |v| v.name().to_owned());
    match unpicked {
        Unpicked::NoSuch { wanted, nearest } => {
            not_found(format!("{repo} has no `{}`; it has {}", Escaped(wanted), list(&mut all.iter())))
                .hint(format!("try `infer pull {repo}:{}`", Escaped(&first(*nearest))))
        }
        Unpicked::Ambiguous(some) => {
            let paths: Vec<String> =
                some.iter().filter_map(|v| v.files.first()).map(|f| Escaped(&f.path).to_string()).collect();
            Error::usage(format!(
                "`{}` means {}: {}",
                Escaped(wish.name),
                Count(paths.len() as u64, "file"),
                paths.join(", ")
            ))
            .hint(format!("give the file: `infer pull {repo}/{}`", paths.first().map_or("", String::as_str)))
        }
        Unpicked::NoDefault => {
            not_found(format!("{repo} has none of the usual quants; it has {}", list(&mut all.iter())))
                .hint(format!("choose one: `infer pull {repo}:{}`", Escaped(&first(None))))
        }
        Unpicked::Holes(variant) => {
            let missing: Vec<String> = variant.missing.iter().map(ToString::to_string).collect();
            let whole = list(&mut all.iter().filter(|v| v.missing.is_empty()));
            not_found(format!(
                "part {} of {repo}:{} is missing on the hub",
                missing.join(", "),
                Escaped(variant.name())
            ))
            .hint(if whole.is_empty() {
                "choose another repository".to_owned()
            } else {
                format!("it also has {whole}")
            })
        }
        Unpicked::NoGguf => no_gguf(hub, repo, sink),
    }
}

/// `Q4_K_M 2.6 GB`, with a word where it does not fit.
fn entry(variant: &Variant, fits: &dyn Fn(u64) -> bool) -> String {
    let size = variant.size().map_or_else(String::new, |size| {
        format!(" {}{}", Bytes(size), if fits(size) { "" } else { " (does not fit)" })
    });
    format!("{}{size}", Escaped(variant.name()))
}

/// A repository of weights in another format: others may have made GGUF files of it.
fn no_gguf(hub: &Hub, repo: &RepoId, sink: hub::Sink<'_>) -> Error {
    let found = match hub.search(repo.name(), sink) {
        Err(error) if error.kind == Kind::Interrupted => return error,
        found => found.unwrap_or_default(),
    };
    let names: Vec<String> =
        found.iter().filter(|other| *other != repo).map(|other| format!("`infer pull {other}`")).collect();
    let hint = if names.is_empty() {
        format!("look for one with them, such as `{repo}-GGUF`")
    } else {
        format!("try {}", names.join(" or "))
    };
    Error::new(Kind::NotFound, format!("{repo} has no GGUF files")).hint(hint)
}

/// Fetch what is missing of a plan. The path to load the model from.
pub(crate) fn fetch(hub: &Hub, store: &Store, plan: &Plan, steps: Steps<'_>) -> Result<PathBuf> {
    store.prepare(&plan.repo)?;
    check_space(store, plan)?;
    let mut first = None;
    for planned in &plan.files {
        let at = fetch_file(hub, store, planned, steps)?;
        first.get_or_insert(at);
    }
    first.ok_or_else(|| Error::failed("the model has no files"))
}

fn check_space(store: &Store, plan: &Plan) -> Result<()> {
    let folder = store.repo_folder(&plan.repo);
    let (missing, free) = (plan.missing(), Store::free_space(&folder)?);
    if missing == 0 || missing.saturating_add(MARGIN) <= free {
        return Ok(());
    }
    let kept = plan.size() - missing;
    let kept = if kept > 0 { format!(" ({} are here already)", Bytes(kept)) } else { String::new() };
    let message = format!(
        "{} more are needed{kept}, {} are free in `{}`",
        Bytes(missing.saturating_add(MARGIN)),
        Bytes(free),
        store.hub_cache().display()
    );
    Err(Error::new(Kind::TooBig, message)
        .hint("`infer list` shows what could go, `infer rm MODEL` removes it"))
}

fn fetch_file(hub: &Hub, store: &Store, planned: &Planned, steps: Steps<'_>) -> Result<PathBuf> {
    let Planned { file, meta, .. } = planned;
    let started = Instant::now();
    let slot = store.slot(&file.repo, &meta.sha256)?;
    let here = |steps: Steps<'_>| {
        let at = store.link(&file.repo, &file.commit, Some(&ref_of(file)), &file.path, &meta.sha256)?;
        Store::drop_partial(&slot);
        done(planned, at, 0, started, steps)
    };
    if is_here(store, file, meta) {
        return here(steps);
    }
    let mut waiting = |waited| steps(&Step::Locked { path: file.path.as_str(), waited });
    let Some(lock) = store.lock(&file.repo, &meta.sha256, &mut waiting)? else {
        return Err(hub::interrupted());
    };
    // Whoever held the lock may have fetched it.
    if is_here(store, file, meta) {
        drop(lock);
        return here(steps);
    }
    drop_old_partials(store, planned, steps)?;
    let fetched = fetch_part(hub, store, planned, &slot, steps)?;
    if let Err(error) = Header::open(&slot.part) {
        Store::discard(&slot)?;
        let message = error.message.replace(&*slot.part.to_string_lossy(), file.path.as_str());
        return Err(Error::failed(format!("{file} is not a model: {message}"))
            .hint("choose another file or repository"));
    }
    let at = store.publish(&file.repo, &file.commit, Some(&ref_of(file)), &file.path, &meta.sha256)?;
    done(planned, at, fetched, started, steps)
}

/// Bring the part file to its end. How many bytes came.
fn fetch_part(hub: &Hub, store: &Store, planned: &Planned, slot: &Slot, steps: Steps<'_>) -> Result<u64> {
    let Planned { file, meta, .. } = planned;
    let head = JournalHead {
        repo: file.repo.clone(),
        commit: file.commit.clone(),
        path: file.path.clone(),
        etag: meta.sha256.clone(),
        size: meta.size,
        block: BLOCK,
    };
    let opened = Journal::open(&slot.journal, &head)?;
    let handle = store.open_part(slot)?;
    if let Some(why) = &opened.started_over {
        let note =
            format!("{file}: what an earlier download left cannot be used ({}); starting over", reason(why));
        say(&note, steps)?;
    }
    let length = handle.metadata().map_or(0, |about| about.len());
    // A journal without its file knows nothing.
    let known = |block: u64| opened.blocks.get(&block).copied().filter(|_| length > block * BLOCK);
    let part = Part::new(handle, meta.size, opened.writer, known)
        .map_err(|e| Error::failed(format!("cannot write `{}`: {e}", slot.part.display())))?;
    begin(planned, part.bytes(), steps)?;
    let mut fetched = 0;
    let mut sink = |event: &hub::Event<'_>| {
        if let hub::Event::Progress { came, .. } = event {
            fetched = *came;
        }
        steps(&Step::Hub(event))
    };
    let folder = slot.part.parent().unwrap_or(Path::new("."));
    match hub.fetch(file, meta, part, folder, &mut sink)? {
        None => Ok(fetched),
        Some(got) => {
            Store::discard(slot)?;
            Err(corrupt(planned, &got))
        }
    }
}

fn corrupt(planned: &Planned, got: &str) -> Error {
    let (file, wanted) = (&planned.file, &planned.meta.sha256);
    let message = format!(
        "{file} came twice with other bytes than the hub promises (SHA-256 {}…, not {}…); nothing was kept",
        &got[..12],
        &wanted[..12]
    );
    Error::failed(message)
        .hint(format!("a proxy may change them: try another network, then `infer pull {file}`"))
}

/// What an earlier download left of another version of the same file is of no use any more.
fn drop_old_partials(store: &Store, planned: &Planned, steps: Steps<'_>) -> Result<()> {
    let Planned { file, meta, .. } = planned;
    let is_old = |partial: &PartialFile| {
        let head = partial.journal.as_ref().map(|journal| &journal.head);
        !partial.busy
            && partial.sha256 != meta.sha256
            && head.is_some_and(|h| h.path == file.path && h.commit != file.commit)
    };
    for old in store.partials(&file.repo).iter().filter(|partial| is_old(partial)) {
        let done = old.journal.as_ref().map_or(0, |journal| journal.done);
        say(
            &format!("{file} has changed on the hub: {} of its older version are dropped", Bytes(done)),
            steps,
        )?;
        Store::discard(&store.slot(&file.repo, &old.sha256)?)?;
    }
    Ok(())
}

fn reason(why: &StartedOver) -> String {
    match why {
        StartedOver::Unreadable => "its record is damaged".to_owned(),
        StartedOver::EtagChanged { was } => format!("its SHA-256 was {}…", &was[..12]),
        StartedOver::SizeChanged { was } => format!("its size was {}", Bytes(*was)),
        StartedOver::BlockChanged { was } => format!("its blocks were of {}", Bytes(*was)),
    }
}

fn say(note: &str, steps: Steps<'_>) -> Result<()> {
    if steps(&Step::Hub(&hub::Event::Note(note))).is_break() { Err(hub::interrupted()) } else { Ok(()) }
}

fn begin(planned: &Planned, have: u64, steps: Steps<'_>) -> Result<()> {
    if steps(&Step::Begin { planned, have }).is_break() { Err(hub::interrupted()) } else { Ok(()) }
}

fn done(planned: &Planned, at: PathBuf, fetched: u64, started: Instant, steps: Steps<'_>) -> Result<PathBuf> {
    let step = Step::Done { planned, at: &at, fetched, took: started.elapsed() };
    if steps(&step).is_break() { Err(hub::interrupted()) } else { Ok(at) }
}

/// The ref that remembers the commit, as Python's `huggingface_hub` writes it.
fn ref_of(file: &HubFile) -> Revision {
    file.revision.clone().unwrap_or_else(Revision::main)
}

/// The header of a model that has not been fetched, its parts' included.
pub(crate) fn remote_header(hub: &Hub, plan: &Plan, sink: hub::Sink<'_>) -> Result<Header> {
    let first = plan.files.first().ok_or_else(|| Error::failed("the model has no files"))?;
    let header = header_of(hub, first, &mut *sink)?;
    let shown = format!("`{}`", first.file);
    header.join(&shown, |number| {
        let part = usize::try_from(number - 1).ok().and_then(|at| plan.files.get(at));
        let part =
            part.ok_or_else(|| Error::failed(format!("part {number} of {shown} is missing on the hub")))?;
        Ok((format!("`{}`", part.file), header_of(hub, part, &mut *sink)?))
    })
}

fn header_of(hub: &Hub, planned: &Planned, sink: hub::Sink<'_>) -> Result<Header> {
    let mut remote = Remote::new(hub, &planned.file, &planned.meta, sink);
    let header = Header::read(BufReader::new(&mut remote), planned.meta.size, &format!("`{}`", planned.file));
    header.map_err(|error| remote.into_error().unwrap_or(error))
}
