//! `infer doctor`: what is right with this machine and this build, what is not, and what to type next.

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::args::DoctorArgs;
use super::models::columns;
use super::ui::{Bar, Ui};
use super::{cache, dirs, hub, pull, version};
use crate::engine::llama::{LLAMA_CPP_BUILD, Weights};
use crate::engine::{Device, DeviceKind, KvType, LoadPlan, Sampling, placement};
use crate::error::{Error, Result};
use crate::human::{Bytes, Count, Escaped};
use crate::machine;
use crate::model::gguf::Header;
use crate::model::store::{LooseKind, Store};
use crate::model::{Located, quant};
use crate::session::{Now, Options, Overflow, Session, Template, Think};

mod cuda;

/// How long the hub may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long the cache of prompts may be read for.
const READING: Duration = Duration::from_secs(10);

/// With less memory, or less room on a disk, few models can be used.
const LITTLE_MEMORY: u64 = 1 << 30;
const LITTLE_ROOM: u64 = 2_000_000_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Ok,
    Warn,
    Fail,
}

impl State {
    fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }
}

/// What was looked at, what was found, and what can be done about it.
#[derive(Debug)]
struct Check {
    name: &'static str,
    state: State,
    found: String,
    next: Option<String>,
}

impl Check {
    fn ok(name: &'static str, found: impl Into<String>) -> Self {
        Self { name, state: State::Ok, found: found.into(), next: None }
    }

    fn warn(name: &'static str, found: impl Into<String>, next: impl Into<String>) -> Self {
        Self { name, state: State::Warn, found: found.into(), next: Some(next.into()) }
    }

    fn fail(name: &'static str, error: Error) -> Self {
        Self { name, state: State::Fail, found: error.message, next: error.hint }
    }
}

pub(crate) fn run(ui: &mut Ui, args: &DoctorArgs) -> Result<()> {
    let checks = all(ui, args.offline || hub::is_offline());
    let failed = checks.iter().filter(|check| check.state == State::Fail).count();
    // Whether all of it could be written is asked once, at the end.
    let _ = if args.json { ui.json(&object(&checks)) } else { ui.page(&page(&checks)) };
    if failed == 0 {
        return Ok(());
    }
    // Everything is said already.
    Err(Error::failed(if args.json {
        String::new()
    } else {
        format!("{} failed", Count(failed as u64, "check"))
    }))
}

fn all(ui: &Ui, offline: bool) -> Vec<Check> {
    let devices = placement::devices();
    let mut checks =
        vec![processor(), backends(&devices), gpu(&devices, machine::nvidia_driver().as_deref()), memory()];
    checks.extend(cuda::check(&devices));
    checks.extend(folders());
    checks.extend([token(), reach(offline), names(), kept(ui), downloads(), answers()]);
    checks
}

fn object(checks: &[Check]) -> Value {
    let worst = checks.iter().map(|check| check.state).max_by_key(|state| *state as u8).unwrap_or(State::Ok);
    let checks: Vec<Value> = checks
        .iter()
        .map(|check| {
            json!({ "name": check.name, "state": check.state.as_str(), "found": check.found, "next": check.next })
        })
        .collect();
    json!({ "state": worst.as_str(), "checks": checks })
}

fn page(checks: &[Check]) -> String {
    let mut rows = Vec::new();
    for check in checks {
        rows.push([check.state.as_str(), check.name, &Escaped(&check.found).to_string()].map(str::to_owned));
        let next = check.next.as_ref().map(|next| format!("next: {}", Escaped(next)));
        rows.extend(next.map(|next| [String::new(), String::new(), next]));
    }
    columns(&rows)
}

fn processor() -> Check {
    let found = format!("{}; uses {}", Count(machine::threads() as u64, "thread"), version::used());
    match version::missed_here() {
        None => Check::ok("processor", found),
        Some(missed) => Check::warn(
            "processor",
            format!("{found}; has {missed}, which this build does not use"),
            version::REBUILD,
        ),
    }
}

fn backends(devices: &[Device]) -> Check {
    let mut names: Vec<&str> = devices.iter().map(|device| device.backend.as_str()).collect();
    names.dedup();
    let built = ["cuda", "metal", "vulkan"].into_iter().zip(placement::GPU_BACKENDS);
    let built: Vec<&str> = built.filter_map(|(name, is_built)| is_built.then_some(name)).collect();
    let built = if built.is_empty() { "the CPU alone".to_owned() } else { built.join(", ") };
    Check::ok(
        "backends",
        format!("llama.cpp {LLAMA_CPP_BUILD}, built for {built}; found {}", names.join(", ")),
    )
}

/// `driver` is the version of NVIDIA's, where there is one.
fn gpu(devices: &[Device], driver: Option<&str>) -> Check {
    let driver_text = driver.map_or(String::new(), |version| format!("; NVIDIA driver {version}"));
    let free =
        |d: &Device| format!("{}: {}, {} of {} free", d.name, d.description, Bytes(d.free), Bytes(d.total));
    let gpus: Vec<String> = devices.iter().filter(|d| d.kind == DeviceKind::Gpu).map(free).collect();
    match (gpus.is_empty(), driver) {
        (false, _) => Check::ok("gpu", format!("{}{driver_text}", gpus.join("; "))),
        (true, None) => Check::ok("gpu", "none is seen; models run on the CPU"),
        (true, Some(_)) => Check::warn(
            "gpu",
            format!("none is seen{driver_text}"),
            if placement::GPU_BACKENDS[0] { "nvidia-smi" } else { "cargo install --path . --features cuda" },
        ),
    }
}

fn memory() -> Check {
    match machine::memory_available() {
        None => Check::ok("memory", "what is free cannot be told here"),
        Some(free) if free < LITTLE_MEMORY => {
            Check::warn("memory", format!("{} free", Bytes(free)), "infer run smollm2:135m \"Hello\"")
        }
        Some(free) => Check::ok("memory", format!("{} free", Bytes(free))),
    }
}

/// The folders that are written to.
fn folders() -> [Check; 3] {
    let store = hub::store();
    let check = |name, path: Result<&Path>, variable| match path {
        Ok(path) => folder(name, path, variable),
        Err(error) => Check::fail(name, error),
    };
    let lost = || Error::failed("no home folder").hint("set HOME");
    [
        check("hub cache", store.as_ref().map(Store::hub_cache).map_err(|_| lost()), "HF_HUB_CACHE"),
        check("cache", dirs::cache().as_deref().map_err(|_| lost()), "XDG_CACHE_HOME"),
        check("data", store.as_ref().map(Store::ours).map_err(|_| lost()), "XDG_DATA_HOME"),
    ]
}

/// Can files be made in a folder, or the folder itself, and is there room? Nothing stays of the attempt.
fn folder(name: &'static str, path: &Path, variable: &str) -> Check {
    let shown = hub::shown(path);
    let hint = format!("set {variable} to a folder that can be written");
    let there = path.ancestors().find(|folder| fs::symlink_metadata(folder).is_ok()).unwrap_or(path);
    if let Err(e) = tempfile::tempfile_in(there) {
        return Check::fail(name, Error::failed(format!("cannot write to `{shown}`: {e}")).hint(hint));
    }
    match Store::free_space(there) {
        Err(error) => Check::warn(name, error.message, hint),
        Ok(free) if free < LITTLE_ROOM => {
            Check::warn(name, format!("{shown}, only {} free", Bytes(free)), "infer list")
        }
        Ok(free) => Check::ok(name, format!("{shown}, {} free", Bytes(free))),
    }
}

fn token() -> Check {
    let access = match hub::access() {
        Err(error) => return Check::fail("token", error),
        Ok(access) => access,
    };
    match (access.token_source(), access.withheld_source()) {
        (_, Some(source)) => Check::warn(
            "token",
            format!("the one from {source} is not sent: {} is not encrypted", access.endpoint()),
            "unset HF_ENDPOINT",
        ),
        (Some(source), None) => Check::ok("token", format!("from {source}, sent to {}", access.endpoint())),
        (None, None) => Check::ok("token", "none; models that are open to all need none"),
    }
}

fn reach(offline: bool) -> Check {
    const NAME: &str = "hub";
    if offline {
        return Check::ok(NAME, "not asked: offline");
    }
    let started = Instant::now();
    let options = crate::model::hub::Options { connections: 1, retries: 0, idle: PATIENCE };
    let is_late = || started.elapsed() > PATIENCE;
    let answer = hub::hub(options).and_then(|hub| {
        hub.search("smollm2", &mut |_| {
            if is_late() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
    });
    match answer {
        Ok(_) => Check::ok(NAME, format!("{} answers", hub::endpoint())),
        Err(_) if is_late() => {
            let found = format!("no answer from {} in {} seconds", hub::endpoint(), PATIENCE.as_secs());
            Check::warn(NAME, found, format!("curl -I {}", hub::endpoint()))
        }
        Err(error) => {
            let next = error.hint.unwrap_or_else(|| format!("curl -I {}", hub::endpoint()));
            Check::warn(NAME, error.message, next)
        }
    }
}

/// The person's own names for models.
fn names() -> Check {
    match hub::registry() {
        Ok(registry) => {
            Check::ok("names", format!("{} for models", Count(registry.entries().count() as u64, "name")))
        }
        Err(error) => Check::fail("names", error),
    }
}

/// The cache of prompts: are its entries whole, and can nobody else read them?
fn kept(ui: &Ui) -> Check {
    const NAME: &str = "prompts";
    let folder = match cache::folder() {
        Err(error) => return Check::fail(NAME, error),
        Ok(folder) => folder,
    };
    let started = Instant::now();
    let mut bar = None;
    let health = crate::session::cache::check(&folder, &mut |done, all| {
        bar.get_or_insert_with(|| ui.progress("checking the cache", all)).set(done);
        if started.elapsed() > READING { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    bar.as_mut().map(Bar::clear);
    let unread = match health.unread {
        0 => String::new(),
        unread => format!(", {unread} of them not read in {} seconds", READING.as_secs()),
    };
    let (entries, bytes) = (Count(health.entries as u64, "entry"), Bytes(health.bytes));
    let found = format!("{entries} kept on disk, {bytes}{unread}");
    if health.broken > 0 {
        return Check::warn(
            NAME,
            format!("{found}; {} cannot be used", health.broken),
            "infer cache clear --yes",
        );
    }
    if is_open(&folder) {
        let next = format!("chmod 700 '{}'", folder.display());
        return Check::warn(NAME, format!("{found}; others on this machine can look into the folder"), next);
    }
    Check::ok(NAME, found)
}

/// May anybody but the owner look into this folder?
#[cfg(unix)]
fn is_open(folder: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(folder).is_ok_and(|about| about.permissions().mode() & 0o077 != 0)
}

#[cfg(not(unix))]
fn is_open(_: &Path) -> bool {
    false
}

/// Downloads that did not end, and links to files that are gone.
fn downloads() -> Check {
    const NAME: &str = "models";
    let store = match hub::store() {
        Err(error) => return Check::fail(NAME, error),
        Ok(store) => store,
    };
    let listing = store.list(&quant::variants);
    let found = format!("{} here", Count(listing.models.len() as u64, "model"));
    if let Some(dangling) = listing.loose.iter().find(|loose| loose.what == LooseKind::Dangling) {
        let found = format!("{found}; {} has a file whose content is gone", dangling.repo);
        return Check::warn(NAME, found, format!("infer pull {}", dangling.repo));
    }
    let mut left = listing.partials.iter().filter(|partial| !partial.busy);
    let Some(first) = left.next() else { return Check::ok(NAME, found) };
    let next = match &first.journal {
        Some(partial) => format!("infer pull {}/{}", partial.head.repo, partial.head.path),
        None => format!("infer rm {} --dry-run", first.repo),
    };
    let count = Count(1 + left.count() as u64, "download").to_string();
    Check::warn(NAME, format!("{found}; {count} did not end"), next)
}

/// The model inside the program answers as it always does.
fn answers() -> Check {
    const NAME: &str = "answer";
    match ask_demo() {
        Ok(answer) if answer == EXPECTED => Check::ok(NAME, "the built-in model answers"),
        Ok(answer) => Check::fail(
            NAME,
            Error::failed(format!("the built-in model says `{answer}`, not `{EXPECTED}`"))
                .hint("infer run demo --gpu-layers 0 --temp 0 -v \"What is the capital of France?\""),
        ),
        Err(error) => Check::fail(NAME, error),
    }
}

const QUESTION: &str = "What is the capital of France?";
const EXPECTED: &str = "The capital of France is Paris.";

fn ask_demo() -> Result<String> {
    let Located::File(path) = pull::places()?.locate("demo")? else {
        return Err(Error::failed("the built-in model is not in this build"));
    };
    let header = Header::open(&path)?;
    let shape = header.shape();
    let text_of = |role| shape.special(role).and_then(|token| token.text.as_deref()).unwrap_or_default();
    let template = super::load::own_template(&header)
        .map(|source| Template::new(source, text_of("bos"), text_of("eos")))
        .transpose()?;
    let plan = LoadPlan::usual(256, KvType::F16, machine::threads());
    let weights = Weights::load(&path, &plan, &mut |_| ControlFlow::Continue(()))?;
    let mut session = Session::new(weights.open(Arc::default())?, template);
    let options = Options {
        sampling: Sampling { temp: 0.0, ..Sampling::default() },
        stops: Vec::new(),
        max_tokens: Some(32),
        think: Think::Auto,
        overflow: Overflow::Stop,
        keep: 0,
        now: Now::default(),
    };
    Ok(session.say(QUESTION, &options, &mut |_| ControlFlow::Continue(()))?.text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(kind: DeviceKind) -> Device {
        let text = |text: &str| text.to_owned();
        let (name, description, backend) = (text("CUDA0"), text("A card"), text("CUDA"));
        Device { kind, index: 0, name, description, backend, total: 8_000_000_000, free: 5_000_000_000 }
    }

    #[test]
    fn a_gpu_is_named_and_a_driver_without_one_is_a_warning() {
        let cpu = [device(DeviceKind::Cpu)];
        assert_eq!(gpu(&cpu, None).state, State::Ok);
        let check = gpu(&cpu, Some("580.1"));
        assert_eq!((check.state, check.found.as_str()), (State::Warn, "none is seen; NVIDIA driver 580.1"));
        let check = gpu(&[device(DeviceKind::Gpu)], Some("580.1"));
        assert_eq!(check.state, State::Ok);
        assert_eq!(check.found, "CUDA0: A card, 5.0 GB of 8.0 GB free; NVIDIA driver 580.1");
    }

    #[test]
    fn a_folder_is_tried_and_left_as_it_was() {
        let home = tempfile::tempdir().unwrap();
        let good = folder("cache", &home.path().join("not/there"), "X");
        assert_ne!(good.state, State::Fail);
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
        let file = home.path().join("file");
        fs::write(&file, "").unwrap();
        let bad = folder("cache", &file.join("below"), "X");
        assert_eq!(
            (bad.state, bad.next.as_deref()),
            (State::Fail, Some("set X to a folder that can be written"))
        );
    }

    #[test]
    fn the_page_gives_one_next_step_and_the_object_the_worst_state() {
        let checks = [
            Check::ok("one", "fine"),
            Check::fail("two", Error::failed("bad\u{1b}").hint("type this")),
            Check::warn("three", "so so", "type that"),
        ];
        let expected = "ok    one    fine\nfail  two    bad\\u{1b}\n             next: type this\n\
                        warn  three  so so\n             next: type that\n";
        assert_eq!(page(&checks), expected);
        assert_eq!(object(&checks)["state"], "fail");
        assert_eq!(object(&checks[2..])["state"], "warn");
        assert_eq!(object(&checks[..1])["checks"][0]["next"], Value::Null);
    }
}
