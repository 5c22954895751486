//! Placeholder with the agreed signatures; replaced when the branches are merged.
#![allow(dead_code, reason = "wired in the next commit")]

use std::fmt;
use std::path::PathBuf;

use crate::error::{Error, Result};

/// A repository of the hub: `org/name`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RepoId(String);

impl RepoId {
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let ok = |part: &str| {
            part.len() <= 96
                && part.starts_with(|c: char| c.is_ascii_alphanumeric())
                && part.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
                && !part.contains("..")
                && !part.contains("--")
        };
        match text.split_once('/') {
            Some((org, name)) if ok(org) && ok(name) => Ok(Self(text.to_owned())),
            _ => Err(Error::usage(format!("not a repository: `{}`", text.escape_debug()))),
        }
    }

    pub(crate) fn org(&self) -> &str {
        self.0.split_once('/').map_or("", |(org, _)| org)
    }

    pub(crate) fn name(&self) -> &str {
        self.0.split_once('/').map_or("", |(_, name)| name)
    }

    pub(crate) fn same_as(&self, other: &Self) -> bool {
        self.0.eq_ignore_ascii_case(&other.0)
    }
}

impl fmt::Display for RepoId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A branch, tag or commit.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Revision(String);

impl Revision {
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let parts_ok = text.split('/').all(|part| !matches!(part, "" | "." | ".."));
        let chars_ok = text.chars().all(|c| c.is_ascii_alphanumeric() || "._/-".contains(c));
        if parts_ok && chars_ok && !text.contains("..") {
            return Ok(Self(text.to_owned()));
        }
        Err(Error::usage(format!("not a revision: `{}`", text.escape_debug())))
    }

    pub(crate) fn is_commit(&self) -> bool {
        is_commit(&self.0)
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A file's path in a repository that may touch a file system.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RepoPath(String);

impl RepoPath {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let parts_ok = text.split('/').all(|part| !matches!(part, "" | "." | ".."));
        let chars_ok = !text.chars().any(|c| c.is_control() || "\\:".contains(c));
        (parts_ok && chars_ok).then(|| Self(text.to_owned()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn to_path(&self) -> PathBuf {
        self.0.split('/').collect()
    }
}

impl fmt::Display for RepoPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// 40 lower-case hexadecimal digits.
pub(crate) fn is_commit(text: &str) -> bool {
    is_hex(text, 40)
}

/// 64 lower-case hexadecimal digits.
pub(crate) fn is_sha256(text: &str) -> bool {
    is_hex(text, 64)
}

fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}
