//! `infer pull`, and the offer to pull of every command that needs a model which is not here.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::args::PullArgs;
use super::dirs;
use super::hub::{self as place, OPTIONS};
use super::room::Room;
use super::ui::{Downloads, Ui};
use crate::error::{Error, Kind, Result};
use crate::human::{Bytes, Count, Escaped, Seconds};
use crate::model::gguf::Header;
use crate::model::hub::{Event, Hub, Options};
use crate::model::name::HubRef;
use crate::model::pull::{self, Plan, Planned, Step, Wish};
use crate::model::{Located, Places};

/// The most often that `--json` says how far a download is.
const EVERY: Duration = Duration::from_secs(1);

/// Everything that a model can be looked for in.
pub(crate) fn places() -> Result<Places> {
    Ok(Places {
        demo: dirs::cache()?,
        store: place::store()?,
        registry: place::registry()?,
        endpoint: place::endpoint(),
    })
}

/// A model on this machine.
pub(crate) struct Found {
    /// As the person named it.
    pub(crate) name: String,
    /// Its file, the first of its parts.
    pub(crate) path: PathBuf,
    /// What the registry says of how to sample, by the names of the flags with `_`.
    pub(crate) sampling: BTreeMap<String, f64>,
}

/// The files of a model. One that is not here is pulled when a person says so.
pub(crate) fn obtain(ui: &mut Ui, name: &str, yes: bool) -> Result<Found> {
    let places = places()?;
    let path = match places.locate(name)? {
        Located::File(path) => path,
        Located::Remote(model) => offer(ui, &places, name, &model, yes)?,
    };
    let sampling = places.entry(name).map(|entry| entry.sampling.clone()).unwrap_or_default();
    Ok(Found { name: name.to_owned(), path, sampling })
}

fn offer(ui: &mut Ui, places: &Places, name: &str, model: &HubRef, yes: bool) -> Result<PathBuf> {
    let shown = Escaped(name);
    let absent = Error::new(Kind::NotFound, format!("`{shown}` is not on this machine"));
    if place::is_offline() {
        return Err(Error { kind: Kind::NotFound, ..offline(name) });
    }
    if !yes && !ui.can_ask() {
        return Err(absent.hint(format!("`infer pull {shown}`, or give `--yes`")));
    }
    let mut puller = Puller::new(ui, places, OPTIONS, false)?;
    let plan = puller.plan(name, model, None)?;
    if !yes {
        puller.ui.note(&absent.message);
        if !puller.ui.confirm(&format!("Pull {}?", summary(&plan)), true)? {
            return Err(Error::new(Kind::NotFound, "nothing was pulled")
                .hint(format!("`infer pull {shown}` fetches it")));
        }
    }
    puller.fetch(&plan)
}

/// The header of a model on the hub, without a download.
pub(crate) fn peek(ui: &mut Ui, places: &Places, name: &str, model: &HubRef) -> Result<(Plan, Header)> {
    if place::is_offline() {
        return Err(offline(name));
    }
    let mut puller = Puller::new(ui, places, OPTIONS, false)?;
    let plan = puller.plan(name, model, None)?;
    let mut show = Show::new(puller.ui, false, 0, 0);
    let header = pull::remote_header(&puller.hub, &plan, &mut |event| show.step(&Step::Hub(event)));
    drop(show);
    puller.say_interruption(header).map(|header| (plan, header))
}

fn offline(name: &str) -> Error {
    Error::new(Kind::Network, format!("`{}` is not here, and HF_HUB_OFFLINE is set", Escaped(name)))
        .hint("`unset HF_HUB_OFFLINE` and type it again; `infer list` shows what is here")
}

/// `infer pull`.
pub(crate) fn run(ui: &mut Ui, args: &PullArgs) -> Result<()> {
    let places = places()?;
    for name in &args.models {
        let model = match places.locate(name)? {
            Located::File(path) => {
                // With the hub at hand its newest version is asked for all the same.
                let Some(model) = places.on_hub(name)?.filter(|_| !place::is_offline()) else {
                    already_here(ui, name, &path, args.json);
                    continue;
                };
                model
            }
            Located::Remote(model) => model,
        };
        if place::is_offline() {
            return Err(offline(name));
        }
        let mut puller = Puller::new(ui, &places, place::options(args), args.json)?;
        puller.pull(name, &model, args)?;
    }
    Ok(())
}

fn already_here(ui: &mut Ui, name: &str, path: &Path, json: bool) {
    ui.status(&format!("{}: already here", Escaped(name)));
    finished(ui, name, path, json);
}

/// The path goes to stdout: scripts load the model from there.
fn finished(ui: &mut Ui, name: &str, path: &Path, json: bool) {
    // A reader that is gone needs no path.
    let _ = if json {
        ui.json(&json!({ "event": "done", "model": name, "path": path.to_string_lossy() }))
    } else {
        ui.page(&path.to_string_lossy())
    };
}

/// `Qwen/Qwen3-0.6B-GGUF:Q8_0 (639.4 MB)`, or how much of it is missing.
fn summary(plan: &Plan) -> String {
    let (size, missing) = (plan.size(), plan.missing());
    let rest = match missing {
        0 => ", all of it here".to_owned(),
        _ if missing < size => format!(", {} of it missing", Bytes(missing)),
        _ => String::new(),
    };
    let files = if plan.files.len() > 1 {
        format!(" in {}", Count(plan.files.len() as u64, "file"))
    } else {
        String::new()
    };
    format!("{}:{} ({}{files}{rest})", plan.repo, Escaped(&plan.variant), Bytes(size))
}

/// One model on its way, and what is shown of it.
struct Puller<'a> {
    ui: &'a mut Ui,
    places: &'a Places,
    hub: Hub,
    json: bool,
}

impl<'a> Puller<'a> {
    fn new(ui: &'a mut Ui, places: &'a Places, options: Options, json: bool) -> Result<Self> {
        let hub = place::hub(options)?;
        place::say_where_token_goes(ui, &hub);
        ui.stop_with_brake();
        Ok(Self { ui, places, hub, json })
    }

    fn pull(&mut self, name: &str, model: &HubRef, args: &PullArgs) -> Result<()> {
        let plan = self.plan(name, model, args.max_size)?;
        if self.json {
            // A reader that is gone needs no plan.
            let _ = self.ui.json(&plan_json(name, &plan));
        } else {
            self.ui.status(&summary(&plan));
        }
        if args.dry_run {
            return Ok(());
        }
        let path = self.fetch(&plan)?;
        finished(self.ui, name, &path, self.json);
        Ok(())
    }

    fn plan(&mut self, name: &str, model: &HubRef, max_size: Option<u64>) -> Result<Plan> {
        let room = Room::here();
        let wish = Wish { model, name, max_size, fits: &|bytes| room.holds(bytes) };
        let mut show = Show::new(self.ui, self.json, 0, 0);
        let plan = pull::plan(&self.hub, &self.places.store, &wish, &mut |step| show.step(step));
        drop(show);
        self.say_interruption(plan)
    }

    fn fetch(&mut self, plan: &Plan) -> Result<PathBuf> {
        if let Some(license) = plan.license.as_ref().filter(|_| plan.missing() > 0 && !self.json) {
            let page = format!("{}/{}", self.hub.access().endpoint(), plan.repo);
            self.ui.status(&format!("license: {} ({page})", Escaped(license)));
        }
        let mut show = Show::new(self.ui, self.json, plan.files.len(), plan.size());
        let path = pull::fetch(&self.hub, &self.places.store, plan, &mut |step| show.step(step));
        drop(show);
        self.say_interruption(path)
    }

    /// What was kept is worth a line also when a person stopped it.
    fn say_interruption<T>(&mut self, result: Result<T>) -> Result<T> {
        let Err(error) = result else { return result };
        if error.kind != Kind::Interrupted {
            return Err(error);
        }
        if self.ui.is_closed() {
            // Nobody reads the events any more: nobody has to be told.
            return Err(Error::new(Kind::Interrupted, ""));
        }
        if !self.json {
            self.ui.clear_echo();
            self.ui.note(&error.message);
        }
        Err(error)
    }
}

fn plan_json(name: &str, plan: &Plan) -> Value {
    json!({
        "event": "plan",
        "model": name,
        "repo": plan.repo.to_string(),
        "commit": plan.commit,
        "variant": plan.variant,
        "license": plan.license,
        "bytes": plan.size(),
        "missing": plan.missing(),
        "files": plan.files.iter().map(|planned| json!({
            "path": planned.file.path.as_str(),
            "bytes": planned.meta.size,
            "have": planned.have,
            "sha256": planned.meta.sha256,
        })).collect::<Vec<_>>(),
    })
}

/// What a person sees of a pull: bars on a terminal, lines or JSON elsewhere.
struct Show<'a> {
    ui: &'a mut Ui,
    bars: Downloads,
    json: bool,
    path: String,
    size: u64,
    /// Bytes that came of the file at hand.
    came: u64,
    told: Option<Instant>,
    /// Why nothing happens, and until when.
    wait: Option<(String, Instant)>,
    is_locked: bool,
}

impl<'a> Show<'a> {
    fn new(ui: &'a mut Ui, json: bool, files: usize, total: u64) -> Self {
        let bars = ui.downloads(files, total, json);
        Self {
            ui,
            bars,
            json,
            path: String::new(),
            size: 0,
            came: 0,
            told: None,
            wait: None,
            is_locked: false,
        }
    }

    fn step(&mut self, step: &Step<'_>) -> ControlFlow<()> {
        match step {
            Step::Hub(event) => self.event(event),
            Step::Locked { path, waited } => self.locked(path, *waited),
            Step::Begin { planned, have } => self.begin(planned, *have),
            Step::Done { planned, at, fetched, took } => self.done(planned, at, *fetched, *took),
        }
        if self.ui.is_interrupted() || self.ui.is_closed() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }

    fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::Tick => self.count_down(),
            Event::Progress { have, came } => self.progress(*have, *came),
            Event::Wait { why, left } => {
                self.wait = Some(((*why).to_owned(), Instant::now() + *left));
                self.tell(&json!({ "event": "wait", "why": why, "seconds": left.as_secs_f64() }));
                if !self.json && !self.ui.draws_bars() {
                    self.ui.note(&format!("{why}; trying again in {}", Seconds(left.as_secs_f64())));
                }
                self.count_down();
            }
            Event::Retry { why, wait } => {
                self.tell(&json!({ "event": "retry", "why": why, "seconds": wait.as_secs_f64() }));
                if self.ui.draws_bars() {
                    self.wait = Some(((*why).to_owned(), Instant::now() + *wait));
                } else if !self.json {
                    self.ui.detail(&format!("{why}; trying again in {}", Seconds(wait.as_secs_f64())));
                }
            }
            Event::Note(text) => {
                let ui = &mut *self.ui;
                self.bars.aside(|| ui.note(text));
                self.tell(&json!({ "event": "note", "text": text }));
            }
        }
    }

    fn progress(&mut self, have: u64, came: u64) {
        if came > self.came {
            self.wait = None;
        }
        self.came = came;
        self.bars.set(have, came);
        self.count_down();
        if self.json && self.told.is_none_or(|told| told.elapsed() >= EVERY) {
            self.told = Some(Instant::now());
            self.tell(&json!({ "event": "progress", "path": self.path, "have": have, "bytes": self.size }));
        }
    }

    /// Show how long a wait still lasts.
    fn count_down(&mut self) {
        let Some((why, until)) = &self.wait else { return };
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            self.wait = None;
        } else {
            self.bars.say(&format!("{}; again in {} s", Escaped(why), left.as_secs() + 1));
        }
    }

    fn locked(&mut self, path: &str, waited: Duration) {
        let text = format!("another process fetches {}; waiting", Escaped(path));
        if !std::mem::replace(&mut self.is_locked, true) {
            self.tell(&json!({ "event": "locked", "path": path }));
            if !self.json && !self.ui.draws_bars() {
                self.ui.status(&text);
            }
        }
        self.bars.say(&format!("{text} {} s", waited.as_secs()));
    }

    fn begin(&mut self, planned: &Planned, have: u64) {
        let path = planned.file.path.as_str();
        path.clone_into(&mut self.path);
        self.size = planned.meta.size;
        self.came = 0;
        self.told = None;
        self.bars.begin(&Escaped(path).to_string(), self.size, have);
        self.tell(&json!({ "event": "begin", "path": path, "have": have, "bytes": self.size }));
        if !self.json && !self.ui.draws_bars() {
            let resumed =
                if have > 0 { format!(", {} of them here already", Bytes(have)) } else { String::new() };
            self.ui.status(&format!("{}: fetching {}{resumed}", Escaped(path), Bytes(self.size)));
        }
    }

    fn done(&mut self, planned: &Planned, at: &Path, fetched: u64, took: Duration) {
        let (path, size) = (planned.file.path.as_str(), planned.meta.size);
        self.bars.end(size);
        self.is_locked = false;
        self.tell(&json!({
            "event": "file", "path": path, "at": at.to_string_lossy(), "bytes": size,
            "fetched": fetched, "seconds": took.as_secs_f64(), "sha256": planned.meta.sha256,
        }));
        if self.json {
            return;
        }
        let line = if fetched == 0 {
            format!("{}: already here", Escaped(path))
        } else {
            format!(
                "{}: {} in {}{}, SHA-256 verified",
                Escaped(path),
                Bytes(fetched),
                Seconds(took.as_secs_f64()),
                rate(fetched, took)
            )
        };
        let ui = &mut *self.ui;
        self.bars.aside(|| ui.status(&line));
    }

    /// An event for a program. One whose reader is gone ends the pull, at the next step.
    fn tell(&mut self, event: &Value) {
        if self.json {
            let _ = self.ui.json(event);
        }
    }
}

/// ` (88.1 MB/s)`, where the time is long enough to tell.
fn rate(bytes: u64, took: Duration) -> String {
    if took < Duration::from_millis(50) {
        return String::new();
    }
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rate is shown with few digits"
    )]
    let per_second = (bytes as f64 / took.as_secs_f64()) as u64;
    format!(" ({}/s)", Bytes(per_second))
}
