//! Placeholder with the agreed types; replaced when the branches are merged.
#![allow(dead_code, reason = "wired in the next commit")]

/// A file of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RemoteFile {
    pub(crate) path: String,
    pub(crate) size: Option<u64>,
}

/// The files of one model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Variant {
    pub(crate) label: Option<String>,
    pub(crate) files: Vec<RemoteFile>,
    pub(crate) missing: Vec<u32>,
}
