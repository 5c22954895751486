//! The folder of the entries: bounded in size, for one person only, and shared by all processes. Who writes or makes room
//! holds its lock; who reads does not, because a file is whole from the moment that it has its name.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use tempfile::NamedTempFile;

/// What the name of an entry ends with, and that of one which is being written.
const ENTRY: &str = ".kv";
const UNFINISHED: &str = ".kv-new";
const LOCK: &str = "lock";

/// The most entries. The descriptions of all that a model has are read to find one, each in some 40 µs.
pub(super) const MOST: usize = 256;

/// How long to wait for another process that is writing. What is not saved is only evaluated again.
const PATIENCE: Duration = Duration::from_secs(2);

/// A folder that need not be there yet.
#[derive(Debug, Clone)]
pub(super) struct Folder(PathBuf);

/// A file in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) path: PathBuf,
    pub(super) bytes: u64,
    pub(super) used: SystemTime,
}

/// The right to change what is in a folder.
pub(super) struct Locked<'f> {
    folder: &'f Folder,
    _file: File,
}

impl Folder {
    pub(super) fn new(path: PathBuf) -> Self {
        Self(path)
    }

    /// The path of an entry.
    pub(super) fn entry(&self, name: &str) -> PathBuf {
        self.0.join(format!("{name}{ENTRY}"))
    }

    /// The entries whose names begin like this, those used last first.
    pub(super) fn entries(&self, start: &str) -> Vec<Item> {
        self.items(|name| name.starts_with(start) && name.ends_with(ENTRY))
    }

    /// Are there more than `limit` bytes of entries, too many of them, or something that was not finished?
    pub(super) fn is_untidy(&self, limit: u64) -> bool {
        let entries = self.entries("");
        let bytes: u64 = entries.iter().map(|item| item.bytes).sum();
        bytes > limit || entries.len() > MOST || !self.unfinished().is_empty()
    }

    fn unfinished(&self) -> Vec<Item> {
        self.items(|name| name.ends_with(UNFINISHED))
    }

    fn items(&self, is_wanted: impl Fn(&str) -> bool) -> Vec<Item> {
        let Ok(files) = fs::read_dir(&self.0) else { return Vec::new() };
        let item = |file: fs::DirEntry| {
            let about = file.metadata().ok().filter(fs::Metadata::is_file)?;
            is_wanted(file.file_name().to_str()?).then(|| Item {
                path: file.path(),
                bytes: about.len(),
                used: about.modified().unwrap_or(SystemTime::UNIX_EPOCH),
            })
        };
        let mut items: Vec<Item> = files.filter_map(Result::ok).filter_map(item).collect();
        items.sort_by(|a, b| b.used.cmp(&a.used).then_with(|| a.path.cmp(&b.path)));
        items
    }

    /// Make the folder if need be, and wait for one's turn to change it, or as long as one may go on.
    pub(super) fn lock(&self, go_on: &mut dyn FnMut() -> io::Result<()>) -> io::Result<Locked<'_>> {
        create_private(&self.0)?;
        let file = open_private(&self.0.join(LOCK))?;
        let start = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Locked { folder: self, _file: file }),
                Err(TryLockError::Error(error)) => return Err(error),
                Err(TryLockError::WouldBlock) if start.elapsed() < PATIENCE => {
                    go_on()?;
                    std::thread::sleep(Duration::from_millis(5));
                }
                Err(TryLockError::WouldBlock) => {
                    return Err(io::Error::new(io::ErrorKind::WouldBlock, "another process is writing"));
                }
            }
        }
    }
}

impl Locked<'_> {
    /// A new file that nobody else can read; it is gone again unless it gets a name.
    pub(super) fn create(&self) -> io::Result<NamedTempFile> {
        tempfile::Builder::new().prefix("").suffix(UNFINISHED).tempfile_in(&self.folder.0)
    }

    /// Remove what dead processes did not finish: who writes holds the lock, and that is us. Then remove the entries
    /// that were used longest ago, until one of `bytes` more, if any, fits into `limit` and [`MOST`]. The one at `replaced`
    /// is as good as gone. Answers how many entries that were, and their bytes.
    pub(super) fn make_room(
        &self,
        bytes: u64,
        limit: u64,
        replaced: Option<&Path>,
    ) -> io::Result<(usize, u64)> {
        for item in self.folder.unfinished() {
            remove(&item.path)?;
        }
        let entries = self.folder.entries("");
        let mut left = limit.saturating_sub(bytes);
        let most = MOST - usize::from(bytes > 0);
        let mut removed = (0, 0);
        let others = entries.iter().filter(|item| Some(item.path.as_path()) != replaced);
        for (place, item) in others.enumerate() {
            if let Some(less) = left.checked_sub(item.bytes).filter(|_| place < most) {
                left = less;
            } else {
                // All that were used longer ago go as well.
                left = 0;
                remove(&item.path)?;
                removed = (removed.0 + 1, removed.1 + item.bytes);
            }
        }
        Ok(removed)
    }

    /// Remove every entry. Answers how many bytes that freed.
    pub(super) fn clear(&self) -> io::Result<u64> {
        let mut freed = 0;
        for item in self.folder.entries("").into_iter().chain(self.folder.unfinished()) {
            remove(&item.path)?;
            freed += item.bytes;
        }
        Ok(freed)
    }
}

/// Remove a file; it is no matter when another process was quicker.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Note that an entry was used just now.
pub(super) fn touch(path: &Path) {
    // An entry that stays the oldest is only removed sooner.
    let _ = File::options().append(true).open(path).and_then(|file| file.set_modified(SystemTime::now()));
}

fn create_private(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

fn open_private(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.create(true).truncate(false).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}
