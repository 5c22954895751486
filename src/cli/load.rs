//! From the arguments to a model in memory, ready to answer.

use std::fs;
use std::io::Read;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Instant;

use clap::ArgMatches;

use super::args::{AnswerArgs, OverflowArg, ThinkArg};
use super::pull::Found;
use super::settings::Settings;
use super::ui::Ui;
use super::{cache, pull, version};
use crate::engine::LoadPlan;
use crate::engine::llama::{LLAMA_CPP_BUILD, Weights};
use crate::error::{Error, Kind, Result};
use crate::human::{Bytes, Thousands};
use crate::model::fingerprint::fingerprint;
use crate::model::gguf::{Header, Shape};
use crate::session::cache::{Key, PrefixStore};
use crate::session::{Options, Overflow, Template, Think};

pub(super) mod kv;
pub(super) mod plan;

/// What is measured on where a person gives no text: real words, for models whose experts are chosen by them.
pub(super) const TEXT: &str = include_str!("../../assets/check/check.txt");

/// A loaded model and all that was decided about it.
pub(crate) struct Loaded {
    /// As the person named it.
    pub(crate) name: String,
    pub(crate) weights: Weights,
    /// The template in use; `None` where the model has none, or with `--raw`.
    pub(crate) template: Option<Template>,
    pub(crate) settings: Settings,
    pub(crate) ctx: u32,
    /// The cache on disk, if it is wanted.
    pub(crate) store: Option<PrefixStore>,
    /// When loading began. It ends when the context is open.
    pub(crate) started: Instant,
}

/// The model of this name.
pub(crate) fn locate(ui: &mut Ui, name: &str, args: &AnswerArgs) -> Result<Found> {
    pull::obtain(ui, name, args.model.yes)
}

/// Load a model. With `raw` no template is wanted.
pub(crate) fn load(
    ui: &mut Ui,
    found: &Found,
    args: &AnswerArgs,
    matches: &ArgMatches,
    raw: bool,
) -> Result<Loaded> {
    let started = Instant::now();
    let path = &found.path;
    version::advise_rebuild(ui);
    let header = Header::open(path)?.with_parts(path)?;
    header.check_runnable(path)?;
    let shape = header.shape();
    let in_registry = |name: &str| found.sampling.get(name).copied();
    let settings = Settings::resolve(&args.sampling, matches, in_registry, |key| header.f64(key))?;
    let template = if raw { None } else { template(args.template.as_deref(), &header, &shape)? };
    let planned = plan::plan(ui, args, &found.name, &shape)?;
    let plan = &planned.load;
    check_positions(&header, plan.ctx)?;
    check_keep(args.context.keep, plan.ctx)?;
    warn_beyond_training(ui, plan.ctx, &shape);
    let weights = load_weights(ui, path, plan)?;
    let store = store(ui, args, found, &header, template.as_ref(), &weights, plan);
    if ui.is_verbose() || args.stats {
        ui.note(&plan::load_line(&shape, &planned, weights.gpu_layers, started.elapsed()));
    }
    Ok(Loaded {
        name: found.name.clone(),
        weights,
        template,
        settings,
        ctx: planned.load.ctx,
        store,
        started,
    })
}

/// The cache on disk for just this model, loaded just so.
fn store(
    ui: &mut Ui,
    args: &AnswerArgs,
    found: &Found,
    header: &Header,
    template: Option<&Template>,
    weights: &Weights,
    plan: &LoadPlan,
) -> Option<PrefixStore> {
    let limit = args.context.cache_size;
    if args.context.no_cache || limit == 0 {
        return None;
    }
    let store = || {
        let mut settings = vec![
            ("version of llama.cpp", LLAMA_CPP_BUILD.to_owned()),
            ("version of this program", env!("CARGO_PKG_VERSION").to_owned()),
        ];
        settings.extend(weights.cache_settings(plan));
        let key = Key::new(fingerprint(&found.path, header)?, template, settings);
        Ok(PrefixStore::new(cache::folder()?, limit, key, found.name.clone()))
    };
    let store: Result<PrefixStore> = store();
    store.map_err(|e| ui.detail(&format!("cache: not in use: {}", e.message))).ok()
}

pub(super) fn load_weights(ui: &Ui, path: &Path, plan: &LoadPlan) -> Result<Weights> {
    ui.stop_with_brake();
    let mut bar = ui.progress("loading", 1000);
    let weights = Weights::load(path, plan, &mut |share| {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of 1000 steps")]
        bar.set((share * 1000.0) as u64);
        if ui.is_interrupted() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    bar.clear();
    if ui.is_interrupted() {
        return Err(Error::new(Kind::Interrupted, "interrupted while loading"));
    }
    weights
}

/// What always stays must leave room for what comes and goes.
fn check_keep(keep: Option<u32>, ctx: u32) -> Result<()> {
    match keep {
        Some(keep) if keep > ctx / 2 => Err(Error::usage(format!(
            "`--keep {keep}` leaves too little of a context of {} tokens",
            Thousands(ctx.into())
        ))
        .hint(format!("`--keep` takes up to half of the context: {}", ctx / 2))),
        _ => Ok(()),
    }
}

/// A model that learned its positions has none beyond.
pub(super) fn check_positions(header: &Header, ctx: u32) -> Result<()> {
    let positions = header.tensor("position_embd.weight").and_then(|tensor| tensor.dims.get(1));
    match positions {
        Some(&positions) if u64::from(ctx) > positions => {
            let message = format!("the model has positions for {} tokens only", Thousands(positions));
            Err(Error::usage(message).hint(format!("try `--ctx {positions}`")))
        }
        _ => Ok(()),
    }
}

pub(super) fn warn_beyond_training(ui: &mut Ui, ctx: u32, shape: &Shape) {
    let Some(trained) = shape.context.filter(|&trained| trained > 0 && u64::from(ctx) > trained) else {
        return;
    };
    ui.note(&format!(
        "context: {} tokens wanted, the model was trained on {}; answers may get worse beyond",
        Thousands(ctx.into()),
        Thousands(trained)
    ));
}

/// The template wanted, or the model's own.
fn template(wanted: Option<&str>, header: &Header, shape: &Shape) -> Result<Option<Template>> {
    let source = match wanted {
        None => own_template(header).map(str::to_owned),
        Some(name) => Some(match Template::builtin(name) {
            Some(source) => source.to_owned(),
            None => read_template(name)?,
        }),
    };
    let text_of = |role| shape.special(role).and_then(|token| token.text.as_deref()).unwrap_or_default();
    source.map(|source| Template::new(&source, text_of("bos"), text_of("eos"))).transpose()
}

/// The model's default template, or the first of its named ones.
pub(crate) fn own_template(header: &Header) -> Option<&str> {
    let all = header.chat_templates();
    all.iter().find(|(name, _)| name.is_none()).or(all.first()).map(|(_, source)| *source)
}

fn read_template(name: &str) -> Result<String> {
    let builtin: Vec<&str> = Template::builtin_names().collect();
    fs::read_to_string(name).map_err(|e| {
        Error::usage(format!("no template `{name}`: {e}"))
            .hint(format!("`--template` takes a Jinja file or one of {}", builtin.join(", ")))
    })
}

/// Everything about how to answer.
pub(crate) fn options(args: &AnswerArgs, settings: &mut Settings, overflow: Overflow) -> Options {
    Options {
        sampling: settings.for_answer(),
        stops: args.stops.clone(),
        max_tokens: args.max_tokens,
        think: think(args.think),
        overflow,
        keep: args.context.keep.unwrap_or(0) as usize,
        now: jiff::ZonedDateTime::now().datetime(),
    }
}

pub(crate) fn think(arg: ThinkArg) -> Think {
    match arg {
        ThinkArg::Auto => Think::Auto,
        ThinkArg::On => Think::On,
        ThinkArg::Off => Think::Off,
    }
}

pub(crate) fn overflow(arg: Option<OverflowArg>, default: Overflow) -> Overflow {
    match arg {
        None => default,
        Some(OverflowArg::Slide) => Overflow::Slide,
        Some(OverflowArg::Rebuild) => Overflow::Rebuild,
        Some(OverflowArg::Stop) => Overflow::Stop,
    }
}

/// The most bytes of one part of a prompt. No context holds that many tokens, and some files never end.
pub(crate) const LONGEST_INPUT: u64 = 16 << 20;

/// A text file for a prompt.
pub(crate) fn read_text(path: &Path) -> Result<String> {
    let failed = |e| Error::failed(format!("cannot read `{}`: {e}", path.display()));
    let mut bytes = Vec::new();
    fs::File::open(path).map_err(failed)?.take(LONGEST_INPUT + 1).read_to_end(&mut bytes).map_err(failed)?;
    text(bytes, &format!("`{}`", path.display()))
}

/// What was read for a prompt, up to one byte more than it may have.
pub(crate) fn text(bytes: Vec<u8>, what: &str) -> Result<String> {
    if bytes.len() as u64 > LONGEST_INPUT {
        return Err(Error::new(
            Kind::PromptTooLong,
            format!("{what} is longer than {}", Bytes(LONGEST_INPUT)),
        )
        .hint("give the part that matters, such as with `head -c 100000`"));
    }
    utf8(bytes, what)
}

/// Bytes as text, or where they stop being text.
fn utf8(bytes: Vec<u8>, what: &str) -> Result<String> {
    String::from_utf8(bytes).map_err(|e| {
        let at = e.utf8_error().valid_up_to();
        Error::failed(format!("{what} is not UTF-8 text at byte {at}"))
            .hint("convert it first, such as with `iconv -f latin1 -t utf-8`")
    })
}

/// Who may read a new file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Readers {
    Owner,
    /// As the person's settings have it for any file.
    Usual,
}

/// Write a file whole or not at all. One that is there keeps its place, also behind a link, and who may read it.
pub(crate) fn write_file(path: &Path, text: &str, readers: Readers) -> Result<()> {
    let write = || -> std::io::Result<()> {
        let path = &path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut builder = tempfile::Builder::new();
        #[cfg(unix)]
        if readers == Readers::Usual {
            builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        }
        let mut file = builder.tempfile_in(folder)?;
        std::io::Write::write_all(&mut file, text.as_bytes())?;
        if let Ok(about) = fs::metadata(path) {
            file.as_file().set_permissions(about.permissions())?;
        }
        file.as_file().sync_all()?;
        file.persist(path).map_err(|e| e.error)?;
        Ok(())
    };
    write().map_err(|e| Error::failed(format!("cannot write `{}`: {e}", path.display())))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::engine::llama::Llama;
    use crate::engine::{KvType, Sampling, quantize};
    use crate::model::recipe::Target;
    use crate::session::{Message, Now, Role, Session};

    #[test]
    fn the_demo_model_answers_what_its_readme_says() {
        let folder = tempfile::tempdir().unwrap();
        let path = crate::model::demo::unpack(folder.path()).unwrap();
        let right = right_answers(&path);
        assert!(right >= 188, "{right} of 200, the README says 190");
    }

    #[test]
    fn the_demo_model_answers_the_same_with_fewer_bits() {
        let folder = tempfile::tempdir().unwrap();
        let source = crate::model::demo::unpack(folder.path()).unwrap();
        for (target, stated) in [(Target::Q8_0, 190), (Target::Q4_0, 190), (Target::Q4KM, 191)] {
            let output = folder.path().join(target.name());
            let job = quantize::Job {
                source: &source,
                output: &output,
                ftype: target.ftype(),
                threads: 1,
                requantize: false,
                imatrix: &[],
                texts: &[],
                realign: false,
                buffer: 0,
            };
            quantize::quantize(&job).unwrap();
            let right = right_answers(&output);
            assert!(right + 2 >= stated, "{target}: {right} of 200, the README says {stated}");
        }
    }

    /// How many of the held-out questions a model answers through the whole of `session` and the real engine.
    fn right_answers(path: &Path) -> usize {
        let header = Header::open(path).unwrap();
        let template = template(None, &header, &header.shape()).unwrap();
        let plan = LoadPlan::on_cpu(1024, KvType::F16, 1);
        let weights = Weights::load(path, &plan, &mut |_| ControlFlow::Continue(())).unwrap();
        let mut session = Session::new(weights.open(Arc::default()).unwrap(), template);
        let questions = include_str!("../../assets/demo/eval.jsonl").lines();
        questions.filter(|line| is_answered(&mut session, line)).count()
    }

    fn is_answered(session: &mut Session<Llama<'_>>, line: &str) -> bool {
        let question: serde_json::Value = serde_json::from_str(line).unwrap();
        let mut messages: Vec<Message> = serde_json::from_value(question["messages"].clone()).unwrap();
        let last = messages.pop().filter(|m| m.role == Role::User).unwrap();
        session.set_messages(messages);
        let options = Options {
            sampling: Sampling { temp: 0.0, ..Sampling::default() },
            stops: Vec::new(),
            max_tokens: Some(300),
            think: Think::Auto,
            overflow: Overflow::Stop,
            keep: 0,
            now: Now::default(),
        };
        let answer = session.say(&last.content, &options, &mut |_| ControlFlow::Continue(())).unwrap();
        answer.text == question["expected"].as_str().unwrap()
    }
}
