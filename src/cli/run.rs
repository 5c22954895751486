//! `infer run`: one prompt in from arguments, files and a pipe; one answer out.

use std::time::Duration;

use clap::ArgMatches;
use serde_json::{Value, json};

use super::args::{ChatArgs, RunArgs, SessionArgs};
use super::load::{self, Loaded};
use super::screen::{Screen, full_line, stats_line};
use super::settings::Settings;
use super::ui::Ui;
use super::{chat, record};
use crate::engine::Engine;
use crate::error::{Error, Kind, Result};
use crate::session::{Finish, Options, Outcome, Overflow, Session};

pub(crate) fn run(ui: &mut Ui, args: RunArgs, matches: &ArgMatches) -> Result<()> {
    // A model that isn't there is told before a prompt is read that may take its time.
    let found = load::locate(ui, &args.model, &args.common)?;
    let (prompt, preamble) = gather(ui, &args)?;
    if prompt.trim().is_empty() {
        if ui.is_interactive() && args.files.is_empty() && !args.raw && !args.json {
            let RunArgs { model, common, overflow, .. } = args;
            let args = ChatArgs { model: Some(model), common, overflow, session: SessionArgs::default() };
            return chat::run(ui, &args, matches);
        }
        return Err(
            Error::usage("the prompt is empty").hint("`infer run MODEL \"your question\"`, or pipe one in")
        );
    }
    let mut loaded = load::load(ui, &found, &args.common, matches, args.raw)?;
    let raw = loaded.template.is_none();
    if raw && !args.raw {
        if args.common.system.is_some() {
            return Err(Error::usage("the model has no chat template, and so no place for a system prompt")
                .hint("leave `-s` out, or give a template such as `--template chatml`"));
        }
        ui.detail("the model has no chat template: it continues the text as it is");
    }
    let llama = loaded.weights.open(ui.brake())?;
    let load_time = loaded.started.elapsed();
    let mut session = Session::new(llama, loaded.template.take());
    if let Some(system) = &args.common.system {
        session.set_system(system);
    }
    session.set_preamble(preamble);
    if let Some(store) = loaded.store.take() {
        session.set_store(store);
    }
    let overflow = load::overflow(args.overflow, Overflow::Stop);
    let options = load::options(&args.common, &mut loaded.settings, overflow);
    let outcome = answer(ui, &mut session, &prompt, raw, &options, !args.json)?;
    report(ui, &args, &loaded, load_time, &options, &outcome);
    if !ui.is_interrupted() {
        Screen::keep(ui, &mut session, &options);
    }
    if outcome.finish == Finish::Interrupted && !ui.is_closed() {
        return Err(Error::new(Kind::Interrupted, ""));
    }
    Ok(())
}

/// Files, then arguments, then piped input, with blank lines between: what several questions can share comes first.
/// Answers the prompt, and what of it stands before the question.
fn gather(ui: &Ui, args: &RunArgs) -> Result<(String, String)> {
    let mut parts = Vec::new();
    for file in &args.files {
        if file.as_os_str() == "-" {
            return Err(
                Error::usage("`-f` takes a file").hint("piped input is part of the prompt without a flag")
            );
        }
        parts.push(load::read_text(file)?);
    }
    let files = join(parts.clone(), args.raw);
    if !args.prompt.is_empty() {
        parts.push(args.prompt.join(" "));
    }
    if ui.has_piped_input() {
        let input = Ui::read_input(load::LONGEST_INPUT + 1);
        let input = input.map_err(|e| Error::failed(format!("cannot read the input: {e}")))?;
        if !input.is_empty() {
            parts.push(load::text(input, "the piped input")?);
        }
    }
    let prompt = load::text(join(parts, args.raw).into_bytes(), "the prompt")?;
    let preamble = format!("{}\n\n", files.trim_end());
    let preamble = if prompt.starts_with(&preamble) { preamble } else { files };
    Ok((prompt, preamble))
}

/// One prompt of its parts. Only the joints are tidied, and the end where a template follows: an answer can depend
/// on every other space.
fn join(mut parts: Vec<String>, raw: bool) -> String {
    let last = parts.len().saturating_sub(1);
    for part in &mut parts[..last] {
        part.truncate(part.trim_end().len());
    }
    let text = parts.join("\n\n");
    if raw { text } else { text.trim_end().to_owned() }
}

fn answer<E: Engine>(
    ui: &mut Ui,
    session: &mut Session<E>,
    prompt: &str,
    raw: bool,
    options: &Options,
    shows_text: bool,
) -> Result<Outcome> {
    let mut screen = Screen::new(ui, shows_text);
    let mut sink = |event: crate::session::Event<'_>| screen.show(&event);
    let outcome = if raw {
        session.complete(prompt, options, &mut sink)
    } else {
        session.say(prompt, options, &mut sink)
    };
    drop(screen);
    if shows_text {
        // A reader that is gone needs no newline.
        let _ = ui.end_answer();
    }
    outcome
}

/// What was asked for beside the text, and what must not pass silently.
fn report(
    ui: &mut Ui,
    args: &RunArgs,
    loaded: &Loaded,
    load_time: Duration,
    options: &Options,
    outcome: &Outcome,
) {
    if args.json {
        // A reader that is gone reads no object.
        let _ = ui.json(&object(loaded, load_time, options, outcome));
    }
    if let Some(path) = &args.common.metrics_file {
        record::append(ui, path, &loaded.name, loaded.ctx as usize, Some(load_time), outcome);
    }
    if outcome.finish == Finish::Window {
        ui.note(&full_line(loaded.ctx as usize, options.overflow));
    }
    if args.common.stats {
        ui.note(&stats_line(outcome, Some(load_time)));
        ui.note(&sampling_line(&loaded.settings));
    }
}

pub(crate) fn sampling_line(settings: &Settings) -> String {
    format!("sampling: {}", settings.line())
}

/// The object of `--json`.
fn object(loaded: &Loaded, load_time: Duration, options: &Options, outcome: &Outcome) -> Value {
    let m = &outcome.metrics;
    let thinking = (!outcome.thought.is_empty()).then_some(&outcome.thought);
    json!({
        "model": loaded.name,
        "text": outcome.text,
        "thinking": thinking,
        "finish": outcome.finish.as_str(),
        "seed": options.sampling.seed,
        "tokens": record::tokens(m),
        "ms": record::times(m, Some(load_time)),
        "tokens_per_second": record::rates(m),
        "sampling": loaded.settings.json(),
        "context": record::context(m, loaded.ctx as usize),
        "bytes": record::bytes(m),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_become_one_prompt_in_their_order() {
        for (parts, raw, expected) in [
            (&[][..], false, ""),
            (&["one"], false, "one"),
            (&["one", "two\n", "three\n\n"], false, "one\n\ntwo\n\nthree"),
            (&["one \n", "two"], true, "one\n\ntwo"),
            (&[" one "], false, " one"),
            (&[" one \n"], true, " one \n"),
        ] {
            let parts = parts.iter().map(ToString::to_string).collect();
            assert_eq!(join(parts, raw), expected);
        }
    }
}
