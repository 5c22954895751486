//! The hub: what a repository holds, and the bytes of its files.
//!
//! hf-hub knows what the answers of the hub's API look like. What is sent, and to whom, is ours: hf-hub 1.0.0 stores error
//! pages as weights, never resumes, and takes the token wherever a list of pages leads. Every call blocks, passes events to
//! a sink, and stops when the sink says so.
//!
//! `api` asks what there is, `client` for a file's size, checksum and place; `download` watches over a file, `transfer` is
//! what its connections do, `ranges` who fetches what, `part` the file on the disk; `refusal` says what errors mean.

use std::fmt;
use std::future::Future;
use std::ops::{ControlFlow, Range};
use std::time::{Duration, Instant};

use reqwest::header::RANGE;
use reqwest::{Client, StatusCode, Url};
use tokio::runtime::Runtime;

use self::client::{Head, HeadError};
use self::download::TICK;
use self::refusal::{Answer, Asked};
use super::name::{RepoId, RepoPath, Revision};
use super::quant::RemoteFile;
use crate::error::{Error, Kind, Result};
use crate::human::Escaped;

mod api;
mod client;
mod download;
mod part;
mod ranges;
mod refusal;
mod remote;
mod transfer;

pub(crate) use client::Meta;
pub(crate) use download::MARGIN;
pub(crate) use part::Part;
pub(crate) use ranges::BLOCK;
pub(crate) use remote::Remote;

/// The hub's address when nothing else is said.
pub(crate) const ENDPOINT: &str = "https://huggingface.co";

/// A question to the hub is repeated at most so often: somebody waits for the answer.
const MOST_QUESTIONS: u32 = 4;

/// Who is asked, and as whom.
#[derive(Debug, Clone)]
pub(crate) struct Access {
    endpoint: Url,
    token: Option<Token>,
    /// Where a token was found that is not sent, as anybody on the way could read it.
    withheld: Option<String>,
}

/// A secret and where it was found, such as `HF_TOKEN`.
#[derive(Clone)]
pub(crate) struct Token {
    pub(crate) value: String,
    pub(crate) source: String,
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token from {}", self.source)
    }
}

impl Access {
    /// Check the address. A token that would travel unencrypted stays here.
    pub(crate) fn new(endpoint: &str, token: Option<Token>) -> Result<Self> {
        let url = Url::parse(endpoint).ok().filter(|url| {
            ["http", "https"].contains(&url.scheme()) && url.has_host() && url.query().is_none()
        });
        let url = url.ok_or_else(|| {
            Error::usage(format!("`{}` is not the address of a hub", Escaped(endpoint)))
                .hint(format!("set HF_ENDPOINT to an address such as {ENDPOINT}, or unset it"))
        })?;
        let (token, withheld) = match token {
            Some(token) if !client::may_carry_token(&url) => (None, Some(token.source)),
            token => (token, None),
        };
        Ok(Self { endpoint: url, token, withheld })
    }

    /// The hub's address without a slash at the end.
    pub(crate) fn endpoint(&self) -> &str {
        self.endpoint.as_str().trim_end_matches('/')
    }

    /// Where the token came from, if there is one.
    pub(crate) fn token_source(&self) -> Option<&str> {
        self.token.as_ref().map(|token| token.source.as_str())
    }

    /// Where a token came from that must not be sent.
    pub(crate) fn withheld_source(&self) -> Option<&str> {
        self.withheld.as_deref()
    }
}

/// How much at once, and how patiently.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Options {
    /// Connections per file.
    pub(crate) connections: usize,
    /// Attempts in a row that may bring nothing.
    pub(crate) retries: u32,
    /// How long a server may be silent.
    pub(crate) idle: Duration,
}

/// What happens while something is asked for or fetched.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Event<'a> {
    /// Nothing new.
    Tick,
    /// Bytes of the file that are there, and those that came in this run.
    Progress { have: u64, came: u64 },
    /// The server wants to be left alone for so long.
    Wait { why: &'a str, left: Duration },
    /// Something broke; it is tried again in so long.
    Retry { why: &'a str, wait: Duration },
    /// What must not pass silently.
    Note(&'a str),
}

/// Hears events and answers whether to go on.
pub(crate) type Sink<'a> = &'a mut dyn FnMut(&Event<'_>) -> ControlFlow<()>;

/// An event on its way from a connection to the calling thread.
enum Notice {
    Retry { why: String, wait: Duration },
    Wait { why: String, until: Instant },
}

/// One file of one commit.
#[derive(Debug, Clone)]
pub(crate) struct HubFile {
    pub(crate) repo: RepoId,
    pub(crate) revision: Option<Revision>,
    pub(crate) commit: String,
    pub(crate) path: RepoPath,
}

impl fmt::Display for HubFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.repo, self.path.as_str())?;
        self.revision.as_ref().map_or(Ok(()), |revision| write!(f, "@{}", revision.as_str()))
    }
}

impl HubFile {
    fn asked(&self) -> Asked<'_> {
        Asked {
            repo: self.repo.as_str(),
            revision: self.revision.as_ref().map(Revision::as_str),
            path: Some(self.path.as_str()),
        }
    }
}

/// What a repository is at one commit.
#[derive(Debug, Clone)]
pub(crate) struct Info {
    /// As the hub spells it.
    pub(crate) repo: RepoId,
    pub(crate) commit: String,
    /// Without sizes.
    pub(crate) files: Vec<RemoteFile>,
    pub(crate) license: Option<String>,
}

/// A connection to a hub. Nothing is sent before something is asked for.
pub(crate) struct Hub {
    runtime: Runtime,
    client: Client,
    access: Access,
    options: Options,
}

/// How an attempt to ask something ended, when it did not end well.
enum Failed {
    Refused(Answer),
    Transport(reqwest::Error),
    Fatal(Error),
}

impl From<HeadError> for Failed {
    fn from(error: HeadError) -> Self {
        match error {
            HeadError::Transport(error) => Self::Transport(error),
            HeadError::Fatal(error) => Self::Fatal(error),
        }
    }
}

impl Hub {
    pub(crate) fn new(access: Access, options: Options) -> Result<Self> {
        let failed = |e: &dyn std::error::Error| {
            Error::failed(format!("cannot prepare the network: {}", refusal::root_cause(e)))
        };
        let threads = std::thread::available_parallelism().map_or(2, usize::from).clamp(2, 4);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads)
            .enable_all()
            .build()
            .map_err(|e| failed(&e))?;
        let client = client::client(options.idle).map_err(|e| failed(&e))?;
        Ok(Self { runtime, client, access, options })
    }

    pub(crate) fn access(&self) -> &Access {
        &self.access
    }

    /// Size, checksum and place of a file.
    pub(crate) fn meta(&self, file: &HubFile, sink: Sink<'_>) -> Result<Meta> {
        let meta = self.ask(file.asked(), sink, || async {
            match client::head(&self.client, &self.access, &file.repo, &file.commit, &file.path).await? {
                Head::File(meta) => Ok(meta),
                Head::Refused(answer) => Err(Failed::Refused(answer)),
            }
        })?;
        if meta.commit == file.commit {
            return Ok(meta);
        }
        let why =
            format!("it answers for commit {} when asked for {}", &meta.commit[..12], &file.commit[..12]);
        Err(refusal::not_a_hub(&self.access.endpoint, &why))
    }

    /// Some bytes of a file: those of `range`, as far as the file goes.
    fn some_bytes(&self, file: &HubFile, meta: &Meta, range: Range<u64>, sink: Sink<'_>) -> Result<Vec<u8>> {
        let length = usize::try_from(range.end.min(meta.size).saturating_sub(range.start)).unwrap_or(0);
        let header = format!("bytes={}-{}", range.start, range.end.min(meta.size).saturating_sub(1));
        self.ask(file.asked(), sink, || async {
            let request = self.access.get(&self.client, &meta.location).header(RANGE, &header);
            let mut response = request.send().await.map_err(Failed::Transport)?;
            let status = response.status();
            if status.is_client_error() || status.is_server_error() {
                return Err(Failed::Refused(Answer::read(response).await));
            }
            // A server without ranges begins at the beginning.
            if status != StatusCode::PARTIAL_CONTENT && !(status.is_success() && range.start == 0) {
                let why = "it does not send parts of files";
                return Err(Failed::Fatal(refusal::not_a_hub(&meta.location, why)));
            }
            let mut bytes = Vec::with_capacity(length);
            while let Some(chunk) = response.chunk().await.map_err(Failed::Transport)? {
                bytes.extend_from_slice(&chunk);
                if bytes.len() >= length {
                    break;
                }
            }
            bytes.truncate(length);
            Ok(bytes)
        })
    }

    /// Ask until there is an answer, as often as is sensible.
    fn ask<T, F>(&self, asked: Asked<'_>, sink: Sink<'_>, question: impl Fn() -> F) -> Result<T>
    where
        F: Future<Output = std::result::Result<T, Failed>>,
    {
        let mut failures = 0;
        loop {
            let failed = match self.runtime.block_on(watched(question(), sink))? {
                Ok(answer) => return Ok(answer),
                Err(failed) => failed,
            };
            failures += 1;
            let (error, why, wait) = match failed {
                Failed::Fatal(error) => return Err(error),
                Failed::Transport(error) => {
                    let error = refusal::unreachable(&error, &self.access.endpoint);
                    let why = error.message.clone();
                    (error, why, None)
                }
                Failed::Refused(answer) => {
                    let error = refusal::error(&answer, asked, &self.access);
                    if !answer.is_passing() {
                        return Err(error);
                    }
                    (error, refusal::says(&self.access.endpoint, answer.status), answer.wait)
                }
            };
            if failures > self.options.retries.min(MOST_QUESTIONS)
                || wait.is_some_and(|wait| wait > transfer::LONGEST_WAIT)
            {
                return Err(error);
            }
            self.pause(&why, wait, failures, sink)?;
        }
    }

    /// Wait before the next attempt: as long as the server wants, or longer each time.
    fn pause(&self, why: &str, wait: Option<Duration>, failures: u32, sink: Sink<'_>) -> Result<()> {
        let length = wait.unwrap_or_else(|| backoff(failures));
        let event = match wait {
            Some(left) => Event::Wait { why, left },
            None => Event::Retry { why, wait: length },
        };
        if sink(&event).is_break() {
            return Err(interrupted());
        }
        // A timer begins inside the runtime.
        self.runtime.block_on(async { watched(tokio::time::sleep(length), sink).await })
    }
}

/// Wait for a future, and ask the sink now and then whether to go on.
async fn watched<T>(future: impl Future<Output = T>, sink: Sink<'_>) -> Result<T> {
    let mut future = std::pin::pin!(future);
    loop {
        match tokio::time::timeout(TICK, &mut future).await {
            Ok(done) => return Ok(done),
            Err(_) if sink(&Event::Tick).is_break() => return Err(interrupted()),
            Err(_) => {}
        }
    }
}

pub(crate) fn interrupted() -> Error {
    Error::new(Kind::Interrupted, "interrupted; the same command goes on")
}

/// How long to wait after so many failures in a row: half a second, doubled each time up to half a minute, and up to half
/// of it less by chance, so that many do not come back at once.
fn backoff(failures: u32) -> Duration {
    let longest = 0.5 * f64::from(1 << failures.clamp(1, 7).saturating_sub(1));
    Duration::from_secs_f64(longest.min(30.0) * (1.0 - fastrand::f64() / 2.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_up_to_half_a_minute_and_differ() {
        for (failures, longest) in
            [(0, 0.5), (1, 0.5), (2, 1.0), (3, 2.0), (6, 16.0), (7, 30.0), (8, 30.0), (u32::MAX, 30.0)]
        {
            for _ in 0..100 {
                let wait = backoff(failures).as_secs_f64();
                assert!((longest / 2.0..=longest).contains(&wait), "{failures}: {wait}");
            }
        }
        assert_ne!(backoff(7), backoff(7));
    }

    #[test]
    fn an_address_is_checked_and_a_token_kept_from_strangers() {
        let token = || Some(Token { value: "hf_a".to_owned(), source: "HF_TOKEN".to_owned() });
        for (address, endpoint, is_sent) in [
            ("https://huggingface.co/", "https://huggingface.co", true),
            ("https://h/mirror", "https://h/mirror", true),
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080", true),
            ("http://[::1]:8080/", "http://[::1]:8080", true),
            ("http://mirror", "http://mirror", false),
        ] {
            let access = Access::new(address, token()).unwrap();
            assert_eq!(access.endpoint(), endpoint);
            let (sent, withheld) = if is_sent { (Some("HF_TOKEN"), None) } else { (None, Some("HF_TOKEN")) };
            assert_eq!((access.token_source(), access.withheld_source()), (sent, withheld), "{address}");
            assert!(!format!("{access:?}").contains("hf_a"));
        }
        for address in ["", "huggingface.co", "ftp://h", "file:///h", "https://", "https://h?x=1", "data:,x"]
        {
            assert_eq!(Access::new(address, None).unwrap_err().kind, Kind::Usage, "{address}");
        }
    }
}
