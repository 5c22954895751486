//! `infer cache`: what was kept of prompts and sessions on disk, and none of it any more.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::args::{CacheClearArgs, CacheCommand, CacheListArgs};
use super::dirs;
use super::models::{columns, minute, seconds};
use super::ui::Ui;
use crate::error::{Error, Result};
use crate::human::{Bytes, Count, Escaped, Thousands};
use crate::session::cache::{self, Held};

/// Where the entries are.
pub(crate) fn folder() -> Result<PathBuf> {
    Ok(dirs::cache()?.join("prefixes"))
}

pub(crate) fn run(ui: &mut Ui, command: &CacheCommand) -> Result<()> {
    match command {
        CacheCommand::List(args) => list(ui, args),
        CacheCommand::Clear(args) => clear(ui, args),
    }
}

fn list(ui: &mut Ui, args: &CacheListArgs) -> Result<()> {
    let folder = folder()?;
    let mut held = cache::list(&folder);
    let bytes: u64 = held.iter().map(|held| held.bytes).sum();
    held.retain(|held| held.about.as_ref().is_none_or(|about| !about.is_empty()));
    // Whether all of it could be written is asked once, at the end.
    let _ = if args.json {
        let entries: Vec<Value> = held.iter().map(entry_json).collect();
        ui.json(&json!({ "entries": entries, "bytes": bytes, "path": folder.to_string_lossy() }))
    } else if held.is_empty() {
        ui.status(
            "nothing is kept; `run` and `chat` keep what they read of system prompts, files and sessions",
        );
        return Ok(());
    } else {
        ui.page(&table(&held))
    };
    Ok(())
}

fn table(held: &[Held]) -> String {
    let mut rows = vec![["MODEL", "TOKENS", "SIZE", "USED", "FOR"].map(str::to_owned)];
    rows.extend(held.iter().map(|Held { about, bytes, used }| {
        let what = about.as_ref().map(|about| {
            let session = about.session.as_ref().map(|name| format!("session {}", Escaped(name)));
            (
                Escaped(&about.model).to_string(),
                Thousands(about.tokens.len() as u64).to_string(),
                session.unwrap_or_else(|| "prompts".to_owned()),
            )
        });
        let unreadable = || ("-".to_owned(), "-".to_owned(), "nobody: it cannot be read".to_owned());
        let (model, tokens, purpose) = what.unwrap_or_else(unreadable);
        [model, tokens, Bytes(*bytes).to_string(), minute(*used), purpose]
    }));
    columns(&rows)
}

fn entry_json(held: &Held) -> Value {
    let about = held.about.as_ref();
    json!({
        "model": about.map(|about| &about.model),
        "tokens": about.map(|about| about.tokens.len()),
        "session": about.and_then(|about| about.session.as_ref()),
        "bytes": held.bytes,
        "used": seconds(held.used),
    })
}

fn clear(ui: &mut Ui, args: &CacheClearArgs) -> Result<()> {
    let folder = folder()?;
    let held = cache::list(&folder);
    if !args.yes && !held.is_empty() && ui.can_ask() {
        let bytes: u64 = held.iter().map(|held| held.bytes).sum();
        let (entries, size) = (Count(held.len() as u64, "entry"), Bytes(bytes));
        if !ui.confirm(&format!("remove {entries}, {size}?"), false)? {
            return Err(Error::failed("nothing was removed").hint("answer `y`, or give `--yes`"));
        }
    }
    let freed = cache::clear(&folder)
        .map_err(|e| Error::failed(format!("cannot clear `{}`: {e}", Escaped(&folder.to_string_lossy()))))?;
    if args.json {
        // A reader that is gone needs no object.
        let _ = ui.json(&json!({ "removed": held.len(), "bytes": freed }));
    } else {
        ui.status(&format!("freed {}", Bytes(freed)));
    }
    Ok(())
}
