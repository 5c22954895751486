//! Arguments that were refused, in our words: what is wrong, and what can be typed instead.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command, CommandFactory};

use super::args::Cli;
use crate::error::Error;

/// What to type where a value makes no sense.
const VALUES: [(&str, &str); 3] = [
    ("ctx", "`--ctx 8192`, or `--ctx 8k`"),
    ("keep", "`--keep 256`, up to half of the context"),
    ("max-tokens", "`-n 256`, or leave it out for no limit"),
];

/// What Rust says of a text that is no number, and what that means.
const WORDS: [(&str, &str); 3] = [
    ("invalid digit found in string", "not a whole number"),
    ("invalid float literal", "not a number"),
    ("number too large to fit in target type", "too large a number"),
];

/// What clap refused, in the form of all other errors.
pub(super) fn error(error: &clap::Error) -> Error {
    let text = error.render().to_string();
    let message: Vec<&str> = text.split("\n\n").next().unwrap_or_default().lines().map(str::trim).collect();
    let mut message = message.join(" ");
    for (words, meaning) in WORDS {
        message = message.replace(words, meaning);
    }
    let usage = text.split("\n\n").find_map(|part| part.strip_prefix("Usage: infer ")).unwrap_or_default();
    let hint = suggestion(error)
        .or_else(|| from_environment(error))
        .or_else(|| value(error).map(str::to_owned))
        .or_else(|| command(error, usage, &message).map(str::to_owned))
        .unwrap_or_else(|| "`infer --help` and `infer COMMAND --help` show what there is".to_owned());
    Error::usage(message.strip_prefix("error: ").unwrap_or(&message)).hint(hint)
}

/// A name that is nearly the one that was typed.
fn suggestion(error: &clap::Error) -> Option<String> {
    let kinds = [ContextKind::SuggestedArg, ContextKind::SuggestedSubcommand, ContextKind::SuggestedValue];
    let tip = kinds.into_iter().find_map(|kind| match error.get(kind) {
        Some(ContextValue::String(one)) => Some(one),
        Some(ContextValue::Strings(many)) => many.first(),
        _ => None,
    });
    tip.map(|tip| format!("did you mean `{tip}`?"))
}

/// A value that nobody typed.
fn from_environment(error: &clap::Error) -> Option<String> {
    let arg = refused(error)?;
    let name = arg.get_env()?;
    let value = std::env::var_os(name)?;
    let is_it = text(error, ContextKind::InvalidValue).is_some_and(|refused| value == *refused);
    let (name, flag) = (name.to_string_lossy(), arg.get_long()?);
    is_it.then(|| format!("{name} is set in the environment: `unset {name}`, or give `--{flag}`"))
}

fn value(error: &clap::Error) -> Option<&'static str> {
    let arg = refused(error)?;
    VALUES.iter().find(|(name, _)| arg.get_long() == Some(name)).map(|(_, hint)| *hint)
}

/// What else was meant, by the command that it was said to.
fn command(error: &clap::Error, usage: &str, message: &str) -> Option<&'static str> {
    let about_json = message.contains("'--json'") || message.contains(" --list-sessions");
    match error.kind() {
        ErrorKind::InvalidSubcommand | ErrorKind::UnknownArgument if usage.starts_with("cache") => Some(
            "`infer cache clear` removes all of it, `infer chat --remove-session NAME` a session and what is kept of it",
        ),
        ErrorKind::InvalidSubcommand => {
            Some("`infer --help` lists the commands; `infer run MODEL` asks a model")
        }
        ErrorKind::ArgumentConflict | ErrorKind::MissingRequiredArgument
            if usage.starts_with("chat") && about_json =>
        {
            Some(
                "`infer run MODEL --json \"Hello\"` prints an answer as JSON; in `chat` it is for `--list-sessions`",
            )
        }
        _ => None,
    }
}

fn text(error: &clap::Error, kind: ContextKind) -> Option<&str> {
    match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text),
        _ => None,
    }
}

/// The argument whose value was refused.
fn refused(error: &clap::Error) -> Option<Arg> {
    let shown = text(error, ContextKind::InvalidArg)?;
    let mut all = Cli::command();
    // Before this an argument cannot be shown.
    all.build();
    let commands = std::iter::once(&all).chain(all.get_subcommands());
    commands.flat_map(Command::get_arguments).find(|arg| arg.to_string() == shown).cloned()
}
