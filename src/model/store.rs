//! What lies where on this disk: the hub's cache, shared with other tools, and the folder of models made here.
#![allow(dead_code, unused_imports, reason = "wired in the next commit")]

use std::io;
use std::path::Path;

use tempfile::NamedTempFile;

mod journal;

pub(crate) use journal::{Blocks, Journal, JournalHead, JournalWriter, Opened, Partial, StartedOver};

/// A temporary file that is to be renamed to `path`: in the same folder, named after it, as readable as the umask
/// allows, and written only at its end.
fn beside(path: &Path) -> io::Result<NamedTempFile> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let mut prefix = name.to_owned();
    prefix.push(".");
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder.append(true).prefix(&prefix).suffix(".tmp").tempfile_in(folder)
}
