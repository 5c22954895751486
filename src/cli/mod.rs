//! The person's floor: parse, do one thing, render the error, pick the exit code.

mod args;
mod bench;
mod cache;
mod chat;
mod commands;
mod dirs;
mod doctor;
mod fit;
mod hub;
mod lines;
mod load;
mod models;
mod pull;
mod quantize;
mod record;
mod refusal;
mod room;
mod run;
mod screen;
mod sessions;
mod settings;
mod show;
mod spin;
mod tune;
mod tuned;
mod ui;
mod version;

use std::ffi::OsString;
use std::ops::ControlFlow;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{ArgMatches, CommandFactory, FromArgMatches};

use crate::error::{Error, Kind, Result};
use crate::model::Located;
use crate::model::gguf::Header;
use args::{Cli, Command, ShowArgs, VolumeArgs};
use room::Room;
use show::Source;
use ui::Ui;

/// The whole program.
pub(crate) fn run(argv: &[OsString]) -> ExitCode {
    #[cfg(unix)]
    crate::engine::signals::outlive_the_limit_of_files();
    let json = argv.iter().skip(1).take_while(|arg| *arg != "--").any(|arg| arg == "--json");
    if let Err(error) = version::check_cpu() {
        return finish(&mut Ui::new(VolumeArgs::default()), Err(error), json);
    }
    let parsed = Cli::command()
        .try_get_matches_from(argv)
        .and_then(|matches| Cli::from_arg_matches(&matches).map(|cli| (cli, matches)));
    let (cli, matches) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => return refuse(&error, json),
    };
    let json = json || matches!(&cli.command, Some(Command::Bench(bench)) if bench.prints_json());
    if matches!(
        cli.command,
        Some(
            Command::Run(_) | Command::Chat(_) | Command::Quantize(_) | Command::Bench(_) | Command::Tune(_)
        )
    ) {
        spin::shorten_if_busy(argv);
    }
    let mut ui = Ui::new(cli.volume);
    let wants_log = cli.volume.verbose > 1;
    crate::engine::log::listen(wants_log.then(|| Box::new(ui::log_line) as _), ui::last_words);
    let result = dispatch(&mut ui, cli, &matches).and_then(|()| ui.check_product());
    finish(&mut ui, result, json)
}

fn dispatch(ui: &mut Ui, cli: Cli, matches: &ArgMatches) -> Result<()> {
    if cli.version {
        version::print(ui);
        return Ok(());
    }
    let matches = matches.subcommand().map_or(matches, |(_, matches)| matches);
    match cli.command {
        Some(Command::Run(args)) => run::run(ui, args, matches),
        Some(Command::Chat(args)) => chat::run(ui, &args, matches),
        Some(Command::Show(args)) => show(ui, &args),
        Some(Command::Pull(args)) => pull::run(ui, &args),
        Some(Command::List(args)) => models::list(ui, &args),
        Some(Command::Rm(args)) => models::remove(ui, &args),
        Some(Command::Cache { command }) => cache::run(ui, &command),
        Some(Command::Fit(args)) => fit::run(ui, &args),
        Some(Command::Doctor(args)) => doctor::run(ui, &args),
        Some(Command::Bench(args)) => bench::run(ui, &args),
        Some(Command::Tune(args)) => tune::run(ui, &args),
        Some(Command::Quantize(args)) => quantize::run(ui, &args),
        Some(Command::QuantizeWorker { .. }) => quantize::worker::work(ui),
        Some(Command::Completions { shell }) => {
            completions(ui, shell);
            Ok(())
        }
        None => Err(Error::usage("no command").hint("`infer --help` lists the commands")),
    }
}

fn finish(ui: &mut Ui, result: Result<()>, json: bool) -> ExitCode {
    let Err(error) = result else { return ExitCode::SUCCESS };
    ui.clear_echo();
    // Without a message all has been said: the answer so far is out. An interruption has been seen by who caused it.
    let is_said = error.message.is_empty() || (error.kind == Kind::Interrupted && !json);
    if !is_said && json && !ui.is_closed() {
        report_json(ui, &error);
    } else if !is_said {
        ui.error(&error);
    }
    ExitCode::from(error.kind.exit_code())
}

fn report_json(ui: &mut Ui, error: &Error) {
    let value = serde_json::json!({
        "error": { "kind": error.kind.as_str(), "message": error.message, "hint": error.hint }
    });
    // A reader that is gone reads no error either.
    let _ = ui.json(&value);
}

/// What clap refused, in the form of all other errors; help is printed as it is.
fn refuse(error: &clap::Error, json: bool) -> ExitCode {
    let mut ui = Ui::new(VolumeArgs::default());
    match error.kind() {
        ErrorKind::DisplayHelp => {
            let _ = ui.page(&error.render().to_string());
            let result = ui.check_product();
            finish(&mut ui, result, json)
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            ui.note(error.render().to_string().trim_end());
            ExitCode::from(2)
        }
        _ => finish(&mut ui, Err(refusal::error(error)), json),
    }
}

fn show(ui: &mut Ui, args: &ShowArgs) -> Result<()> {
    let places = pull::places()?;
    match places.locate(&args.model)? {
        Located::File(path) => {
            let header = Header::open(&path)?;
            // The template stands in the first part.
            let header = if args.template { header } else { header.with_parts(&path)? };
            show_header(ui, args, &header, &Source::Here(&path))
        }
        Located::Remote(model) => {
            let (plan, header) = pull::peek(ui, &places, &args.model, &model)?;
            show_header(ui, args, &header, &Source::Hub(&plan))
        }
    }
}

fn show_header(ui: &mut Ui, args: &ShowArgs, header: &Header, source: &Source<'_>) -> Result<()> {
    // Whether all of it could be written is asked once, at the end.
    let _: ControlFlow<()> = if args.template {
        let template = load::own_template(header).ok_or_else(|| {
            Error::failed("the model has no chat template")
                .hint("`infer run MODEL --raw` continues a text without one")
        })?;
        ui.page(template)
    } else if args.json {
        ui.json(&show::json(header, source, &Room::here().fits(&header.shape())))
    } else {
        ui.page(&show::text(header, source, &Room::here().fits(&header.shape())))
    };
    Ok(())
}

fn completions(ui: &mut Ui, shell: clap_complete::Shell) {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "infer", &mut script);
    // Whether all of it could be written is asked once, at the end.
    let _ = ui.page(&String::from_utf8_lossy(&script));
}
