//! Files out of the system's memory, so that a load can be measured as the first one of the day.

use std::path::Path;

/// Let the system forget the pages of a file, as far as nobody else holds them. It may not be able to, and does not say.
#[cfg(target_os = "linux")]
pub(crate) fn forget(path: &Path) {
    use rustix::fs::{Advice, fadvise};
    // A file that cannot be opened stops the load that follows, with words for it.
    if let Ok(file) = std::fs::File::open(path) {
        // Pages that are still to be written cannot be dropped.
        let _ = file.sync_all();
        let _ = fadvise(&file, 0, None, Advice::DontNeed);
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn forget(_: &Path) {}
