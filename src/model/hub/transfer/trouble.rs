//! Why an answer was not, or not wholly, what was asked for; always in words that carry no signed address.

use std::time::Duration;

use reqwest::Url;

use crate::error::Error;
use crate::model::hub::client::host;
use crate::model::hub::refusal::{self, Answer};

/// Why an answer ended before its end.
pub(super) enum Trouble {
    /// The connection broke or was silent; in words.
    Broken(String),
    /// The answer is not one to what was asked; in words.
    Wrong(String),
    /// The signed address, renewed so often, is not accepted (any more); in words.
    Denied(u32, String),
    /// A server refuses for now; in words.
    Status(String, Answer),
    NoRanges,
    /// Far slower than the others: a new connection may be better.
    Slow,
    Fatal(Error),
}

impl Trouble {
    pub(super) fn broke(error: &reqwest::Error, url: &Url, idle: Duration) -> Self {
        if !error.is_connect() && error.is_timeout() {
            return Self::silent(url, idle);
        }
        let how = if error.is_connect() { "cannot be opened" } else { "broke" };
        Self::Broken(format!("the connection to {} {how}: {}", host(url), refusal::root_cause(error)))
    }

    pub(super) fn silent(url: &Url, idle: Duration) -> Self {
        Self::Broken(format!("the connection to {} was silent for {} s", host(url), idle.as_secs()))
    }

    pub(super) fn early(url: &Url) -> Self {
        Self::Broken(format!("the connection to {} ended early", host(url)))
    }

    pub(super) fn words(&self) -> &str {
        match self {
            Self::Broken(words) | Self::Wrong(words) | Self::Denied(_, words) | Self::Status(words, _) => {
                words
            }
            Self::Fatal(error) => &error.message,
            Self::NoRanges => "the server sends whole files only",
            Self::Slow => "the connection is slow",
        }
    }
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Fatal(error)
    }
}
