//! The person's folders: what can be made again, and what is remembered.

use std::path::PathBuf;

use directories::ProjectDirs;

use crate::error::{Error, Result};

/// What can be made again at any time, such as the unpacked demo model.
pub(crate) fn cache() -> Result<PathBuf> {
    project()
        .map(|dirs| dirs.cache_dir().to_owned())
        .ok_or_else(|| Error::failed("no home folder to keep a cache in").hint("set HOME, or XDG_CACHE_HOME"))
}

/// What is remembered between runs, such as the lines typed. `None` where there is no home.
pub(crate) fn state() -> Option<PathBuf> {
    project().map(|dirs| dirs.state_dir().unwrap_or(dirs.data_dir()).to_owned())
}

/// What the person has written for us, such as names for models. `None` where there is no home.
pub(crate) fn config() -> Option<PathBuf> {
    project().map(|dirs| dirs.config_dir().to_owned())
}

/// What was made here and cannot be fetched again.
pub(crate) fn data() -> Result<PathBuf> {
    project()
        .map(|dirs| dirs.data_dir().to_owned())
        .ok_or_else(|| Error::failed("no home folder to keep files in").hint("set HOME, or XDG_DATA_HOME"))
}

/// Where `~` points.
pub(crate) fn home() -> Option<PathBuf> {
    directories::BaseDirs::new().map(|dirs| dirs.home_dir().to_owned())
}

fn project() -> Option<ProjectDirs> {
    ProjectDirs::from("", "", "infer")
}
