//! The one error type: what happened in one line, what to type next in another, and a kind that decides the exit code.

use std::fmt;

/// What went wrong, coarsely: enough to choose an exit code and the `kind` of `--json`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Anything that has no code of its own.
    Failed,
    /// Arguments that make no sense together.
    Usage,
    /// No such model.
    NotFound,
    /// The network, or access to what lies behind it.
    Network,
    /// The model or its context does not fit into memory, or onto the disk.
    TooBig,
    /// The prompt alone is longer than the context.
    PromptTooLong,
    /// Ctrl-C. What was generated so far has been printed.
    Interrupted,
}

impl Kind {
    /// The documented exit code.
    pub(crate) fn exit_code(self) -> u8 {
        match self {
            Self::Failed => 1,
            Self::Usage => 2,
            Self::NotFound => 3,
            Self::Network => 4,
            Self::TooBig => 5,
            Self::PromptTooLong => 6,
            Self::Interrupted => 130,
        }
    }

    /// The word that `--json` prints.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Usage => "usage",
            Self::NotFound => "not_found",
            Self::Network => "network",
            Self::TooBig => "too_big",
            Self::PromptTooLong => "prompt_too_long",
            Self::Interrupted => "interrupted",
        }
    }
}

/// An error: one line of cause, lower case and without a full stop, and optionally one line that can be typed.
#[derive(Debug)]
pub(crate) struct Error {
    pub(crate) kind: Kind,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

/// The result of everything that can fail.
pub(crate) type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hint: None }
    }

    /// An error that exits with 1.
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self::new(Kind::Failed, message)
    }

    /// An error that exits with 2.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Kind::Usage, message)
    }

    /// Add the next step.
    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}
