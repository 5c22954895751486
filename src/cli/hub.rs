//! Where the hub is and where its files lie on this machine, as Python's `huggingface_hub` reads it from the
//! environment.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::args::PullArgs;
use super::dirs;
use super::ui::Ui;
use crate::error::{Error, Result};
use crate::model::hub::{Access, ENDPOINT, Hub, Options, Token};
use crate::model::registry::Registry;
use crate::model::store::Store;

/// Connections and attempts unless a person says otherwise.
pub(crate) const OPTIONS: Options = Options { connections: 8, retries: 8, idle: Duration::from_secs(30) };

/// What is not empty.
fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// `1`, `on`, `yes` or `true`, in any case.
fn is_set(name: &str) -> bool {
    variable(name).is_some_and(|value| ["1", "on", "yes", "true"].contains(&value.to_lowercase().as_str()))
}

/// Must the network be left alone?
pub(crate) fn is_offline() -> bool {
    is_set("HF_HUB_OFFLINE")
}

pub(crate) fn endpoint() -> String {
    variable("HF_ENDPOINT").map_or(ENDPOINT.to_owned(), |text| text.trim_end_matches('/').to_owned())
}

/// A folder from the environment; `~` is the home.
fn folder(name: &str) -> Option<PathBuf> {
    let text = variable(name)?;
    match text.strip_prefix('~') {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => {
            dirs::home().map(|home| home.join(rest.trim_start_matches('/')))
        }
        _ => Some(text.into()),
    }
}

/// The folder of everything from the hub.
fn home() -> Result<PathBuf> {
    folder("HF_HOME")
        .or_else(|| folder("XDG_CACHE_HOME").map(|cache| cache.join("huggingface")))
        .or_else(|| dirs::home().map(|home| home.join(".cache/huggingface")))
        .ok_or_else(|| Error::failed("no home folder to keep models in").hint("set HOME, or HF_HOME"))
}

/// The files on this machine.
pub(crate) fn store() -> Result<Store> {
    let cache = folder("HF_HUB_CACHE").or_else(|| folder("HUGGINGFACE_HUB_CACHE"));
    let cache = cache.map_or_else(|| home().map(|home| home.join("hub")), Ok)?;
    Ok(Store::new(absolute(&cache)?, dirs::data()?.join("models")))
}

fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).map_err(|e| Error::failed(format!("cannot use `{}`: {e}", path.display())))
}

/// The shipped names and the person's own.
pub(crate) fn registry() -> Result<Registry> {
    let own = dirs::config().map(|folder| folder.join("models.toml"));
    Registry::load(own.as_deref().filter(|path| path.exists()))
}

/// The hub that the environment names.
pub(crate) fn hub(options: Options) -> Result<Hub> {
    Hub::new(access()?, options)
}

pub(crate) fn options(args: &PullArgs) -> Options {
    Options {
        connections: args.connections.into(),
        retries: args.retries,
        idle: Duration::from_secs(args.timeout),
    }
}

/// Who would be asked, and as whom.
pub(crate) fn access() -> Result<Access> {
    Access::new(&endpoint(), token()?)
}

/// `HF_TOKEN`, or the file that `hf auth login` writes.
fn token() -> Result<Option<Token>> {
    if is_set("HF_HUB_DISABLE_IMPLICIT_TOKEN") {
        return Ok(None);
    }
    for name in ["HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"] {
        if let Some(value) = variable(name) {
            return clean(&value, name);
        }
    }
    let path = folder("HF_TOKEN_PATH").map_or_else(|| home().map(|home| home.join("token")), Ok)?;
    fs::read_to_string(&path).map_or(Ok(None), |text| clean(&text, &shown(&path)))
}

/// Without the white space around it. What cannot be sent is an error here, and not a refusal by the hub.
fn clean(text: &str, source: &str) -> Result<Option<Token>> {
    let value = text.trim();
    if value.is_empty() {
        return Ok(None);
    }
    if value.chars().all(|c| c.is_ascii_graphic()) {
        return Ok(Some(Token { value: value.to_owned(), source: source.to_owned() }));
    }
    Err(Error::usage(format!("the token from {source} has characters that no token has"))
        .hint("copy it again from https://huggingface.co/settings/tokens"))
}

/// A path with `~` for the home.
pub(crate) fn shown(path: &Path) -> String {
    let inside = dirs::home().and_then(|home| path.strip_prefix(home).ok().map(Path::to_owned));
    inside.map_or_else(|| path.display().to_string(), |rest| format!("~/{}", rest.display()))
}

/// Say what a careful person wants to know before a token is sent.
pub(crate) fn say_where_token_goes(ui: &mut Ui, hub: &Hub) {
    let access = hub.access();
    if let Some(source) = access.token_source().filter(|_| access.endpoint() != ENDPOINT) {
        ui.status(&format!("the token from {source} is sent to {}", access.endpoint()));
    }
    if let Some(source) = access.withheld_source() {
        ui.note(&format!("the token from {source} is not sent: {} is not encrypted", access.endpoint()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_trimmed_and_must_be_one() {
        assert_eq!(clean(" hf_abc\r\n", "HF_TOKEN").unwrap().unwrap().value, "hf_abc");
        assert!(clean(" \n", "HF_TOKEN").unwrap().is_none());
        let error = clean("hf_a\u{1b}b", "HF_TOKEN").unwrap_err();
        assert_eq!(error.message, "the token from HF_TOKEN has characters that no token has");
    }
}
