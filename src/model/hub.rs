//! The hub: what a repository holds, and the bytes of its files.
//!
//! hf-hub asks the API (`info`, the tree, the search). The bytes come through a client of our own: hf-hub 1.0.0 stores
//! error pages as weights, and never resumes. Every call blocks, passes events to a sink, and stops when the sink says so.
//!
//! `client` asks for a file's size, checksum and place; `download` watches over a file, `transfer` is what its connections
//! do, `ranges` who fetches what, `part` the file on the disk; `refusal` says what the hub's errors mean.

use std::fmt;
use std::future::Future;
use std::ops::{ControlFlow, Range};
use std::path::Path;
use std::time::{Duration, Instant};

use futures_util::TryStreamExt;
use hf_hub::repository::{ModelInfo, RepoTreeEntry};
use hf_hub::{HFClient, HFError};
use reqwest::header::RANGE;
use reqwest::{Client, StatusCode, Url};
use tokio::runtime::Runtime;

use self::client::{Head, HeadError};
use self::download::TICK;
use self::refusal::{Answer, Asked};
use super::name::{RepoId, RepoPath, Revision, is_commit};
use super::quant::RemoteFile;
use crate::error::{Error, Kind, Result};
use crate::human::Escaped;

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

/// No repository of models has more files; a longer list is not one.
const MOST_FILES: usize = 20_000;

/// A question to the hub is repeated at most so often: somebody waits for the answer.
const MOST_QUESTIONS: u32 = 4;

/// Who is asked, and as whom.
#[derive(Debug, Clone)]
pub(crate) struct Access {
    endpoint: Url,
    token: Option<Token>,
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
        let token = token.filter(|_| client::may_carry_token(&url));
        Ok(Self { endpoint: url, token })
    }

    /// The hub's address without a slash at the end.
    pub(crate) fn endpoint(&self) -> &str {
        self.endpoint.as_str().trim_end_matches('/')
    }

    /// Where the token came from, if there is one.
    pub(crate) fn token_source(&self) -> Option<&str> {
        self.token.as_ref().map(|token| token.source.as_str())
    }
}

/// How much at once, and how patiently.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Options {
    /// Connections per file.
    pub(crate) connections: usize,
    /// Attempts in a row that may bring nothing.
    pub(crate) retries: u32,
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
    api: HFClient,
    bytes: Client,
    access: Access,
    options: Options,
}

/// How an attempt to ask something ended, when it did not end well.
enum Failed {
    Refused(Answer),
    Transport(reqwest::Error),
    Fatal(Error),
}

impl Hub {
    /// `cache` is the hub's cache folder, which hf-hub must not look for by itself.
    pub(crate) fn new(access: Access, options: Options, cache: &Path) -> Result<Self> {
        let failed = |e: &dyn std::error::Error| {
            Error::failed(format!("cannot prepare the network: {}", refusal::root_cause(e)))
        };
        let threads = std::thread::available_parallelism().map_or(2, usize::from).clamp(2, 4);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads)
            .enable_all()
            .build()
            .map_err(|e| failed(&e))?;
        // With a line break for a token hf-hub sends none. Without any it would look for one by itself.
        let token = access.token.as_ref().map_or("\n", |token| token.value.as_str());
        let api = HFClient::builder()
            .endpoint(access.endpoint())
            .token(token)
            .client(client::api_client(&access).map_err(|e| failed(&e))?)
            .user_agent(client::USER_AGENT)
            .cache_enabled(false)
            .cache_dir(cache)
            .retry_max_attempts(0)
            .build()
            .map_err(|e| failed(&e))?;
        let bytes = client::bytes_client().map_err(|e| failed(&e))?;
        Ok(Self { runtime, api, bytes, access, options })
    }

    pub(crate) fn access(&self) -> &Access {
        &self.access
    }

    /// What the repository is at a revision, `main` unless one is given.
    pub(crate) fn info(&self, repo: &RepoId, revision: Option<&Revision>, sink: Sink<'_>) -> Result<Info> {
        let asked = Asked { repo: repo.as_str(), revision: revision.map(Revision::as_str), path: None };
        let model = self.api.model(repo.org(), repo.name());
        let info = self.ask(asked, sink, || async {
            let wanted = revision.map(|revision| revision.as_str().to_owned());
            model.info().maybe_revision(wanted).send().await.map_err(|e| self.failed(e))
        })?;
        self.check_info(info)
    }

    fn check_info(&self, info: ModelInfo) -> Result<Info> {
        let strange = |what: &str, text: &str| {
            refusal::not_a_hub(&self.access.endpoint, &format!("{what} `{}`", Escaped(text)))
        };
        let repo = RepoId::parse(&info.id).map_err(|_| strange("its repository is called", &info.id))?;
        let commit = info.sha.unwrap_or_default();
        if !is_commit(&commit) {
            return Err(strange("its commit is", &commit));
        }
        let files = info.siblings.unwrap_or_default();
        let files = files.into_iter().map(|file| RemoteFile { path: file.rfilename, size: None }).collect();
        let license = info
            .tags
            .unwrap_or_default()
            .iter()
            .find_map(|tag| tag.strip_prefix("license:").map(str::to_owned));
        Ok(Info { repo, commit, files, license })
    }

    /// All files of a commit, with their sizes.
    pub(crate) fn tree(&self, repo: &RepoId, commit: &str, sink: Sink<'_>) -> Result<Vec<RemoteFile>> {
        let asked = Asked { repo: repo.as_str(), revision: None, path: None };
        let model = self.api.model(repo.org(), repo.name());
        let entries: Vec<RepoTreeEntry> = self.ask(asked, sink, || async {
            let tree = model.list_tree().revision(commit).recursive(true).limit(MOST_FILES).send();
            tree.map_err(|e| self.failed(e))?.try_collect().await.map_err(|e| self.failed(e))
        })?;
        Ok(entries
            .into_iter()
            .filter_map(|entry| match entry {
                RepoTreeEntry::File { path, size, .. } => Some(RemoteFile { path, size: Some(size) }),
                RepoTreeEntry::Directory { .. } => None,
            })
            .collect())
    }

    /// Repositories with GGUF files whose name is like this one.
    pub(crate) fn search(&self, name: &str, sink: Sink<'_>) -> Result<Vec<RepoId>> {
        const MOST: usize = 5;
        let asked = Asked { repo: name, revision: None, path: None };
        let found: Vec<ModelInfo> = self.ask(asked, sink, || async {
            let search = self.api.list_models().search(name).filter("gguf").limit(MOST).send();
            search.map_err(|e| self.failed(e))?.try_collect().await.map_err(|e| self.failed(e))
        })?;
        Ok(found.iter().filter_map(|info| RepoId::parse(&info.id).ok()).collect())
    }

    /// Size, checksum and place of a file.
    pub(crate) fn meta(&self, file: &HubFile, sink: Sink<'_>) -> Result<Meta> {
        let meta = self.ask(file.asked(), sink, || async {
            match client::head(&self.bytes, &self.access, &file.repo, &file.commit, &file.path).await {
                Ok(Head::File(meta)) => Ok(meta),
                Ok(Head::Refused(answer)) => Err(Failed::Refused(answer)),
                Err(HeadError::Fatal(error)) => Err(Failed::Fatal(error)),
                Err(HeadError::Transport(error)) => Err(Failed::Transport(error)),
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
            let request = self.access.get(&self.bytes, &meta.location).header(RANGE, &header);
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
            let (error, wait) = match failed {
                Failed::Fatal(error) => return Err(error),
                Failed::Transport(error) if error.is_decode() => {
                    return Err(refusal::not_a_hub(&self.access.endpoint, "it is not JSON"));
                }
                Failed::Transport(error) => (refusal::unreachable(&error, &self.access.endpoint), None),
                Failed::Refused(answer) => {
                    let error = refusal::error(&answer, asked, &self.access);
                    if !answer.is_passing() {
                        return Err(error);
                    }
                    (error, answer.wait)
                }
            };
            if failures > self.options.retries.min(MOST_QUESTIONS)
                || wait.is_some_and(|wait| wait > transfer::LONGEST_WAIT)
            {
                return Err(error);
            }
            self.pause(&error, wait, failures, sink)?;
        }
    }

    /// Wait before the next attempt: as long as the server wants, or longer each time.
    fn pause(&self, error: &Error, wait: Option<Duration>, failures: u32, sink: Sink<'_>) -> Result<()> {
        let length = wait.unwrap_or_else(|| backoff(failures));
        // How long it takes is said by who hears this.
        let why = error.message.split("; again in ").next().unwrap_or_default();
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

    /// What went wrong inside hf-hub.
    fn failed(&self, error: HFError) -> Failed {
        let (context, wait) = match error {
            HFError::Http { context }
            | HFError::AuthRequired { context }
            | HFError::Forbidden { context }
            | HFError::RepoNotFound { context: Some(context), .. }
            | HFError::RevisionNotFound { context: Some(context), .. } => (context, None),
            HFError::RateLimited { retry_after, context } => (context, retry_after),
            HFError::Request { source, .. } => return self.transport(source),
            HFError::Json(_) => {
                let why = "its JSON is not what it should be";
                return Failed::Fatal(refusal::not_a_hub(&self.access.endpoint, why));
            }
            other => return Failed::Fatal(Error::new(Kind::Network, refusal::root_cause(&other))),
        };
        Failed::Refused(Answer {
            status: context.status.as_u16(),
            code: context.error_code,
            message: context.server_message,
            wait,
        })
    }

    fn transport(&self, error: reqwest::Error) -> Failed {
        if error.is_redirect() {
            let message = format!("{} {}", client::host(&self.access.endpoint), refusal::root_cause(&error));
            return Failed::Fatal(
                Error::new(Kind::Network, message).hint("check `HF_ENDPOINT` and the proxy of your network"),
            );
        }
        Failed::Transport(error)
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
    Error::new(Kind::Interrupted, "interrupted before a byte was fetched")
}

/// How long to wait after so many failures in a row: half a second, doubled each time up to half a minute, and up to half
/// of it less by chance, so that many do not come back at once.
fn backoff(failures: u32) -> Duration {
    let longest = 0.5 * f64::from(1 << failures.clamp(1, 7).saturating_sub(1));
    Duration::from_secs_f64(longest.min(30.0) * (1.0 - fastrand::f64() / 2.0))
}
