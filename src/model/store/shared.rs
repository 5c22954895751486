//! The bytes that Python's `huggingface_hub` keeps once for several repositories: `blobs/<..>/<xet hash>` in the cache
//! itself. A repository's blob is then a link there, and `<xet hash>.refs` names every such link. Like there, bytes
//! whose links are not known for certain are kept.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

use super::{is_at, open_plain};
use crate::model::name::is_sha256;

const MARKER: &str = ".huggingface-shared-blobs";

/// The shared bytes that a repository's blob stands for.
pub(super) fn bytes_of(hub: &Path, blob: &Path) -> Option<PathBuf> {
    let shared = hub.join("blobs");
    if fs::read(shared.join(MARKER)).ok()? != b"1\n" {
        return None;
    }
    let target = blob.parent()?.join(fs::read_link(blob).ok()?);
    let hash = target.file_name()?.to_str().filter(|name| is_sha256(name))?;
    let there = shared.join(&hash[..2]).join(hash);
    let same = fs::canonicalize(&target).ok()? == fs::canonicalize(&there).ok()?;
    (same && fs::symlink_metadata(&there).ok()?.is_file()).then_some(there)
}

/// The blobs that stand for these bytes, or `None` where that is not known for certain.
pub(super) fn users(hub: &Path, bytes: &Path) -> Option<BTreeSet<PathBuf>> {
    let manifest = fs::read_to_string(bytes.with_extension("refs")).ok()?;
    let there = fs::canonicalize(bytes).ok()?;
    let mut users = BTreeSet::new();
    for line in manifest.lines().filter(|line| is_blob_path(Path::new(line))) {
        let blob = hub.join(line);
        match fs::canonicalize(&blob) {
            Ok(target) if target == there => users.extend([blob]),
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return None,
            _ => {}
        }
    }
    Some(users)
}

/// `models--org--name/blobs/<etag>`
fn is_blob_path(path: &Path) -> bool {
    let parts: Vec<_> = path.components().collect();
    parts.len() == 3
        && parts.iter().all(|part| matches!(part, Component::Normal(_)))
        && parts[1].as_os_str() == "blobs"
}

/// Remove shared bytes that no blob stands for any more; how many there were.
pub(super) fn sweep(hub: &Path, bytes: &Path) -> u64 {
    let lock = bytes.with_extension("lock");
    let Ok((file, created)) = open_plain(&lock) else { return 0 };
    #[cfg(unix)]
    if created {
        let _ = file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    }
    let _ = created;
    // Unlike a download's, this lock is what keeps another's link from losing its bytes.
    if file.lock().is_err() || !is_at(&file, &lock).unwrap_or(false) {
        return 0;
    }
    let unused = users(hub, bytes).is_some_and(|users| users.is_empty());
    match fs::symlink_metadata(bytes) {
        Ok(metadata) if unused && metadata.is_file() && fs::remove_file(bytes).is_ok() => {
            let _ = fs::remove_file(bytes.with_extension("refs"));
            metadata.len()
        }
        _ => 0,
    }
}
