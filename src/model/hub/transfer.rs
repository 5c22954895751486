//! What the connections of one download share, and what each of them does: ask for a run of blocks, write what comes,
//! and when that breaks, wait and ask for the rest.

use std::hash::Hasher;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use reqwest::header::{CONTENT_ENCODING, CONTENT_RANGE, RANGE};
use reqwest::{Client, Response, StatusCode, Url};
use tokio::sync::{Notify, mpsc};
use tokio::time::{sleep, timeout};
use twox_hash::XxHash3_64;

use super::client::{self, Head, HeadError, Meta, header, host};
use super::part::Part;
use super::ranges::{BLOCK, Ranges, RunId, block_bytes, block_count};
use super::refusal::{self, Answer};
use super::{Access, HubFile, Notice, Options, backoff};
use crate::error::{Error, Kind, Result};
use crate::human::{Bytes, Escaped};

/// A connection is looked at this often while it is silent.
const LOOK: Duration = Duration::from_millis(500);

/// A connection slower than this share of the others' mean is opened anew, a few times.
const SLOW: f64 = 0.25;
const REOPENINGS: u32 = 3;

/// An answer that breaks before it has brought so many bytes has brought nothing.
const PROGRESS: u64 = 64 << 10;

/// A wrong answer is asked for again at most so often: it is no accident then.
const WRONG_ANSWERS: u32 = 3;

/// The longest wait that a server may ask for.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(600);

/// One file on its way, shared by its connections.
pub(super) struct Transfer {
    pub(super) client: Client,
    pub(super) access: Access,
    pub(super) file: HubFile,
    pub(super) meta: Meta,
    pub(super) part: Part,
    options: Options,
    notices: mpsc::UnboundedSender<Notice>,
    ranges: Mutex<Ranges>,
    /// The signed address, and how often it was renewed.
    location: tokio::sync::Mutex<(u32, Url)>,
    /// Before this nobody asks the server for anything.
    gate: Mutex<Option<Instant>>,
    /// Bytes of the file that are there, those of unfinished blocks included.
    have: AtomicU64,
    /// Bytes that came in this run.
    came: AtomicU64,
    started: Instant,
    alive: AtomicUsize,
    idle: AtomicUsize,
    wake: Notify,
}

/// A run of blocks under one connection.
struct Run {
    id: RunId,
    block: u64,
    /// Bytes of the block that have come.
    offset: u64,
    hash: XxHash3_64Stream,
    reopened: u32,
}

type XxHash3_64Stream = twox_hash::xxhash3_64::Hasher;

impl Run {
    fn new(id: RunId, block: u64) -> Self {
        Self { id, block, offset: 0, hash: XxHash3_64::with_seed(0), reopened: 0 }
    }

    fn position(&self) -> u64 {
        self.block * BLOCK + self.offset
    }
}

/// Attempts in a row of one connection that brought nothing.
struct Streak {
    failures: u32,
    /// What all connections together had brought when it began.
    came: u64,
}

/// How a connection ended.
pub(super) enum Ended {
    /// The server has fewer for us; the others go on.
    Retired,
    /// The server sends the whole file whatever is asked for.
    NoRanges,
}

/// Why an answer ended before its end.
enum Trouble {
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
    fn broke(error: &reqwest::Error, url: &Url, idle: Duration) -> Self {
        if !error.is_connect() && error.is_timeout() {
            return Self::silent(url, idle);
        }
        let how = if error.is_connect() { "cannot be opened" } else { "broke" };
        Self::Broken(format!("the connection to {} {how}: {}", host(url), refusal::root_cause(error)))
    }

    fn silent(url: &Url, idle: Duration) -> Self {
        Self::Broken(format!("the connection to {} was silent for {} s", host(url), idle.as_secs()))
    }

    fn early(url: &Url) -> Self {
        Self::Broken(format!("the connection to {} ended early", host(url)))
    }

    fn words(&self) -> &str {
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

impl Transfer {
    pub(super) fn new(
        client: Client,
        access: Access,
        file: HubFile,
        meta: Meta,
        part: Part,
        options: Options,
        notices: mpsc::UnboundedSender<Notice>,
    ) -> Self {
        let (size, connections) = (part.size(), options.connections);
        Self {
            ranges: Mutex::new(Ranges::new(size, connections, |block| part.has(block))),
            have: AtomicU64::new(part.bytes()),
            location: tokio::sync::Mutex::new((0, meta.location.clone())),
            gate: Mutex::new(None),
            came: AtomicU64::new(0),
            started: Instant::now(),
            alive: AtomicUsize::new(connections),
            idle: AtomicUsize::new(0),
            wake: Notify::new(),
            client,
            access,
            file,
            meta,
            part,
            options,
            notices,
        }
    }

    /// Bytes of the file that are there.
    pub(super) fn have(&self) -> u64 {
        self.have.load(Ordering::Relaxed)
    }

    /// Bytes that came in this run.
    pub(super) fn came(&self) -> u64 {
        self.came.load(Ordering::Relaxed)
    }

    /// Count again what is there, after connections were stopped in the middle of blocks.
    pub(super) fn recount(&self) {
        self.have.store(self.part.bytes(), Ordering::Relaxed);
    }

    /// A block's bytes on the disk are not what came: it is fetched again.
    pub(super) fn refetch(&self, block: u64) {
        let range = block_bytes(block, self.part.size());
        self.have.fetch_sub(range.end - range.start, Ordering::Relaxed);
        self.ranges().release(block..block + 1);
        self.wake.notify_waiters();
    }

    /// Fetch everything a second time, from a new address.
    pub(super) async fn begin_again(&self) -> Result<()> {
        self.part.forget_all();
        self.have.store(0, Ordering::Relaxed);
        *self.ranges() = Ranges::new(self.part.size(), self.options.connections, |_| false);
        self.alive.store(self.options.connections, Ordering::Relaxed);
        self.idle.store(0, Ordering::Relaxed);
        let generation = self.location.lock().await.0;
        self.renew(generation).await.map_err(|trouble| self.give_up(trouble))
    }

    fn ranges(&self) -> MutexGuard<'_, Ranges> {
        self.ranges.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One connection: work until it is stopped from outside.
    pub(super) async fn work(&self) -> Result<Ended> {
        let mut streak = Streak { failures: 0, came: self.came() };
        loop {
            let woken = self.wake.notified();
            let taken = self.ranges().take();
            let Some((id, block)) = taken else {
                self.idle.fetch_add(1, Ordering::Relaxed);
                woken.await;
                self.idle.fetch_sub(1, Ordering::Relaxed);
                continue;
            };
            if let Some(ended) = self.finish(Run::new(id, block), &mut streak).await? {
                return Ok(ended);
            }
        }
    }

    /// Bring a run to its end, or as far as this connection can.
    async fn finish(&self, mut run: Run, streak: &mut Streak) -> Result<Option<Ended>> {
        loop {
            let before = run.position();
            let ended = self.fetch(&mut run).await;
            let has_progress = ended.is_ok() || run.position() >= before + PROGRESS;
            if has_progress {
                *streak = Streak { failures: 0, came: self.came() };
            }
            let trouble = match ended {
                Ok(()) => return Ok(None),
                Err(Trouble::Fatal(error)) => return Err(error),
                Err(Trouble::NoRanges) => return Ok(Some(Ended::NoRanges)),
                Err(Trouble::Slow) => {
                    run.reopened += 1;
                    continue;
                }
                Err(trouble) => trouble,
            };
            streak.failures += u32::from(!has_progress);
            if streak.failures > self.patience(&trouble) {
                // Others may get what this one does not: servers limit connections.
                if self.came() > streak.came && self.alive.load(Ordering::Relaxed) > 1 {
                    self.alive.fetch_sub(1, Ordering::Relaxed);
                    self.let_go(&run);
                    return Ok(Some(Ended::Retired));
                }
                return Err(self.give_up(trouble));
            }
            // Nobody should have to wait for a connection that waits.
            let let_go = !has_progress && (run.offset == 0 || self.idle.load(Ordering::Relaxed) > 0);
            if let_go {
                self.let_go(&run);
            }
            self.recover(trouble, streak.failures).await?;
            if let_go {
                return Ok(None);
            }
        }
    }

    /// How many attempts in a row may end like this.
    fn patience(&self, trouble: &Trouble) -> u32 {
        match trouble {
            Trouble::Wrong(_) => self.options.retries.min(WRONG_ANSWERS),
            // That an address has expired says nothing of the next one.
            Trouble::Denied(..) => self.options.retries.clamp(1, WRONG_ANSWERS),
            _ => self.options.retries,
        }
    }

    /// Leave a run to the others. What came of an unfinished block is lost.
    fn let_go(&self, run: &Run) {
        self.have.fetch_sub(run.offset, Ordering::Relaxed);
        self.ranges().give_back(run.id);
        self.wake.notify_waiters();
    }

    /// Do what helps against a trouble, before the next try.
    async fn recover(&self, trouble: Trouble, failures: u32) -> Result<()> {
        let trouble = match trouble {
            Trouble::Denied(generation, why) => match self.renew(generation).await {
                // The first time it had expired. A new one that is not taken either is another matter.
                Ok(()) if failures <= 1 => return Ok(()),
                Ok(()) => Trouble::Broken(why),
                Err(trouble) => trouble,
            },
            trouble => trouble,
        };
        match trouble {
            Trouble::Fatal(error) => return Err(error),
            Trouble::Status(_, answer) if answer.wait.is_some_and(|wait| wait > LONGEST_WAIT) => {
                return Err(refusal::error(&answer, self.file.asked(), &self.access));
            }
            Trouble::Status(why, Answer { wait: Some(wait), .. }) => self.close_gate(wait, why),
            trouble => self.pause(trouble.words(), failures).await,
        }
        Ok(())
    }

    async fn pause(&self, why: &str, failures: u32) {
        let wait = backoff(failures);
        // A receiver that is gone has no use for it.
        let _ = self.notices.send(Notice::Retry { why: why.to_owned(), wait });
        sleep(wait).await;
    }

    /// The error after the last try.
    fn give_up(&self, trouble: Trouble) -> Error {
        match trouble {
            Trouble::Fatal(error) => error,
            Trouble::Status(_, answer) if answer.status == 429 => {
                refusal::error(&answer, self.file.asked(), &self.access)
            }
            trouble => Error::new(Kind::Network, format!("{}, {}", trouble.words(), self.kept()))
                .hint(format!("`infer pull {}` goes on from there", self.file)),
        }
    }

    /// How much an interrupted download leaves.
    pub(super) fn kept(&self) -> String {
        format!("{} of {} are kept", Bytes(self.part.bytes()), Bytes(self.part.size()))
    }

    /// Nobody asks before the time is over.
    fn close_gate(&self, wait: Duration, why: String) {
        let until = Instant::now() + wait;
        let mut gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        let before = *gate;
        *gate = before.max(Some(until));
        if is_news(before, until) {
            // A receiver that is gone has no use for it.
            let _ = self.notices.send(Notice::Wait { why, until });
        }
    }

    async fn pass_gate(&self) {
        loop {
            let gate = *self.gate.lock().unwrap_or_else(PoisonError::into_inner);
            match gate.map(|until| until.saturating_duration_since(Instant::now())) {
                Some(left) if !left.is_zero() => sleep(left).await,
                _ => return,
            }
        }
    }

    /// Get a new signed address, once for all connections.
    async fn renew(&self, seen: u32) -> std::result::Result<(), Trouble> {
        let mut location = self.location.lock().await;
        if location.0 != seen {
            return Ok(());
        }
        self.pass_gate().await;
        let HubFile { repo, commit, path, .. } = &self.file;
        match client::head(&self.client, &self.access, repo, commit, path).await {
            Ok(Head::File(meta)) if meta.sha256 == self.meta.sha256 && meta.size == self.meta.size => {
                *location = (seen + 1, meta.location);
                Ok(())
            }
            Ok(Head::File(_)) => Err(Trouble::Fatal(
                Error::new(
                    Kind::Network,
                    format!("{} has changed on the hub while it was downloaded", self.file),
                )
                .hint(format!("`infer pull {}` begins with the new one", self.file)),
            )),
            Ok(Head::Refused(answer)) if answer.is_passing() => {
                Err(Trouble::Status(refusal::says(&self.access.endpoint, answer.status), answer))
            }
            Ok(Head::Refused(answer)) => {
                Err(Trouble::Fatal(refusal::error(&answer, self.file.asked(), &self.access)))
            }
            Err(HeadError::Fatal(error)) => Err(Trouble::Fatal(error)),
            Err(HeadError::Transport(error)) => {
                Err(Trouble::broke(&error, &self.access.endpoint, self.options.idle))
            }
        }
    }

    /// Ask for the rest of a run and write what comes.
    async fn fetch(&self, run: &mut Run) -> std::result::Result<(), Trouble> {
        self.pass_gate().await;
        let size = self.part.size();
        let (start, end) = (run.position(), (self.ranges().end(run.id) * BLOCK).min(size));
        let range = (!(start == 0 && end == size)).then_some((start, end));
        let mut response = self.ask(range).await?;
        let begun = Instant::now();
        let mut bytes = 0;
        while let Some(chunk) = self.chunk(&mut response, run, begun, &mut bytes).await? {
            if !self.take(&mut *run, chunk.as_ref())? {
                return Ok(());
            }
        }
        Err(Trouble::early(response.url()))
    }

    /// A request for a range, or for the whole, until its headers have come.
    async fn ask(&self, range: Option<(u64, u64)>) -> std::result::Result<Response, Trouble> {
        let (generation, url) = self.location.lock().await.clone();
        let mut request = self.access.get(&self.client, &url);
        if let Some((start, end)) = range {
            request = request.header(RANGE, format!("bytes={start}-{}", end - 1));
        }
        let idle = self.options.idle;
        let response = match timeout(idle, request.send()).await {
            Err(_) => return Err(Trouble::silent(&url, idle)),
            Ok(Err(error)) => return Err(Trouble::broke(&error, &url, idle)),
            Ok(Ok(response)) => response,
        };
        let status = response.status();
        let answers = || refusal::says(&url, status.as_u16());
        match status {
            StatusCode::OK | StatusCode::PARTIAL_CONTENT => {}
            _ if status.is_redirection() || [401, 403, 404, 410].contains(&status.as_u16()) => {
                return Err(Trouble::Denied(generation, answers()));
            }
            _ if status.is_success() || status == StatusCode::RANGE_NOT_SATISFIABLE => {
                return Err(Trouble::Wrong(answers()));
            }
            _ => return Err(Trouble::Status(answers(), Answer::read(response).await)),
        }
        self.check(&response, range.unwrap_or((0, self.part.size())))?;
        if range.is_some() && response.status() == StatusCode::OK {
            return Err(Trouble::NoRanges);
        }
        Ok(response)
    }

    /// The answer must be about the bytes that were asked for.
    fn check(&self, response: &Response, (start, end): (u64, u64)) -> std::result::Result<(), Trouble> {
        let wrong = |how: String| Err(Trouble::Wrong(format!("{} {how}", host(response.url()))));
        if let Some(encoding) = header(response.headers(), &CONTENT_ENCODING).filter(|e| e != "identity") {
            return wrong(format!("sends {} instead of the bytes", Escaped(&encoding)));
        }
        if response.status() == StatusCode::PARTIAL_CONTENT {
            let got = header(response.headers(), &CONTENT_RANGE).unwrap_or_default();
            if !is_part(&got, start..end, self.part.size()) {
                let asked = format!("bytes {start}-{}/{}", end - 1, self.part.size());
                return wrong(format!("sends `{}` when asked for `{asked}`", Escaped(&got)));
            }
        } else if let Some(length) = response.content_length().filter(|length| *length != self.part.size()) {
            return wrong(format!(
                "sends a file of {} instead of {}",
                Bytes(length),
                Bytes(self.part.size())
            ));
        }
        Ok(())
    }

    /// The next bytes of an answer. Silence breaks it off, and so does being far behind the others.
    async fn chunk(
        &self,
        response: &mut Response,
        run: &Run,
        begun: Instant,
        bytes: &mut u64,
    ) -> std::result::Result<Option<impl AsRef<[u8]> + use<>>, Trouble> {
        let (silent_since, idle) = (Instant::now(), self.options.idle);
        loop {
            if run.reopened < REOPENINGS && self.is_slow(begun, *bytes) {
                return Err(Trouble::Slow);
            }
            match timeout(LOOK, response.chunk()).await {
                Ok(Ok(chunk)) => {
                    *bytes += chunk.as_ref().map_or(0, |chunk| chunk.len() as u64);
                    return Ok(chunk);
                }
                Ok(Err(error)) => return Err(Trouble::broke(&error, response.url(), idle)),
                Err(_) if silent_since.elapsed() >= idle => {
                    return Err(Trouble::silent(response.url(), idle));
                }
                Err(_) => {}
            }
        }
    }

    /// Far slower than the others, for long enough to be sure, or for a moment while others wait for it.
    fn is_slow(&self, begun: Instant, bytes: u64) -> bool {
        let patience = if self.idle.load(Ordering::Relaxed) > 0 { 1.0 } else { 5.0 };
        let (here, all) = (begun.elapsed().as_secs_f64(), self.started.elapsed().as_secs_f64());
        #[expect(clippy::cast_precision_loss, reason = "rates are compared roughly")]
        let (mine, mean) = (bytes as f64 / here, self.came() as f64 / all / self.options.connections as f64);
        here > patience && self.options.connections > 1 && mine < mean * SLOW
    }

    /// Write what came where it belongs. False when the run is at its end.
    fn take(&self, run: &mut Run, bytes: &[u8]) -> Result<bool> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let end = block_bytes(run.block, self.part.size()).end;
            let (now, later) =
                rest.split_at(rest.len().min(usize::try_from(end - run.position()).unwrap_or(0)));
            self.part.write(now, run.position()).map_err(|e| self.disk(&e))?;
            run.hash.write(now);
            run.offset += now.len() as u64;
            self.have.fetch_add(now.len() as u64, Ordering::Relaxed);
            self.came.fetch_add(now.len() as u64, Ordering::Relaxed);
            if run.position() == end {
                self.part.mark(run.block, run.hash.finish()).map_err(|e| self.disk(&e))?;
                if !self.ranges().advance(run.id) {
                    return Ok(false);
                }
                *run = Run { reopened: run.reopened, ..Run::new(run.id, run.block + 1) };
            }
            rest = later;
        }
        Ok(true)
    }

    pub(super) fn disk(&self, error: &std::io::Error) -> Error {
        disk_error(error, &self.file, &self.kept())
    }

    /// The only connection to a server without ranges: take the whole again and again, until nothing is missing. Blocks
    /// that are there already pass by.
    pub(super) async fn work_whole(&self) -> Result<Ended> {
        let mut failures = 0;
        loop {
            let woken = self.wake.notified();
            let missing = (0..block_count(self.part.size())).any(|block| !self.part.has(block));
            if !missing {
                woken.await;
                continue;
            }
            let before = self.part.bytes();
            let Err(trouble) = self.fetch_whole().await else { continue };
            failures = if self.part.bytes() > before { 0 } else { failures + 1 };
            match trouble {
                Trouble::Fatal(error) => return Err(error),
                trouble if failures > self.patience(&trouble) => return Err(self.give_up(trouble)),
                trouble => self.recover(trouble, failures).await?,
            }
        }
    }

    async fn fetch_whole(&self) -> std::result::Result<(), Trouble> {
        self.pass_gate().await;
        let mut response = self.ask(None).await?;
        let (mut at, size, idle) = (0, self.part.size(), self.options.idle);
        let mut hash = XxHash3_64::with_seed(0);
        while at < size {
            let chunk = match timeout(idle, response.chunk()).await {
                Ok(Ok(Some(chunk))) => chunk,
                Ok(Ok(None)) => return Err(Trouble::early(response.url())),
                Ok(Err(error)) => return Err(Trouble::broke(&error, response.url(), idle)),
                Err(_) => return Err(Trouble::silent(response.url(), idle)),
            };
            let mut rest: &[u8] = &chunk;
            while !rest.is_empty() && at < size {
                let block = at / BLOCK;
                let end = block_bytes(block, size).end;
                let (now, later) = rest.split_at(rest.len().min(usize::try_from(end - at).unwrap_or(0)));
                let known = self.part.has(block);
                if !known {
                    self.part.write(now, at).map_err(|e| self.disk(&e))?;
                    hash.write(now);
                    self.came.fetch_add(now.len() as u64, Ordering::Relaxed);
                }
                at += now.len() as u64;
                if at == end {
                    if !known {
                        self.part.mark(block, hash.finish()).map_err(|e| self.disk(&e))?;
                        self.have.fetch_add(end - block * BLOCK, Ordering::Relaxed);
                    }
                    hash = XxHash3_64::with_seed(0);
                }
                rest = later;
            }
        }
        Ok(())
    }
}

/// Whether a wait is worth a line: all connections are told to wait at about the same time.
fn is_news(before: Option<Instant>, until: Instant) -> bool {
    const ABOUT: Duration = Duration::from_millis(500);
    before.is_none_or(|before| before + ABOUT < until)
}

/// Whether a `Content-Range` begins where it should and does not go further: a server may send less than asked for.
fn is_part(text: &str, asked: Range<u64>, size: u64) -> bool {
    let last = |rest: &str| rest.strip_suffix(&format!("/{size}"))?.parse::<u64>().ok();
    let last = text.strip_prefix(&format!("bytes {}-", asked.start)).and_then(last);
    last.is_some_and(|last| asked.contains(&last))
}

/// A disk that takes no more, or that fails.
pub(super) fn disk_error(error: &std::io::Error, file: &HubFile, kept: &str) -> Error {
    use std::io::ErrorKind;
    let full = matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded);
    if full {
        return Error::new(Kind::TooBig, format!("the disk is full, {kept}")).hint(format!(
            "free some space (`infer list` shows what is there), then `infer pull {file}` goes on"
        ));
    }
    Error::failed(format!("cannot write the download: {error}, {kept}"))
        .hint(format!("then `infer pull {file}` goes on"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::name::{RepoId, RepoPath};

    #[test]
    fn a_part_begins_where_it_should_and_goes_no_further() {
        for (text, expected) in [
            ("bytes 100-199/1000", true),
            ("bytes 100-150/1000", true),
            ("bytes 100-100/1000", true),
            ("bytes 100-200/1000", false),
            ("bytes 100-99/1000", false),
            ("bytes 101-199/1000", false),
            ("bytes 0-199/1000", false),
            ("bytes 100-199/1001", false),
            ("bytes 100-199/*", false),
            ("bytes */1000", false),
            ("items 100-199/1000", false),
            ("", false),
        ] {
            assert_eq!(is_part(text, 100..200, 1000), expected, "{text}");
        }
    }

    #[test]
    fn a_wait_is_said_once_for_all_connections() {
        let (now, second) = (Instant::now(), Duration::from_secs(1));
        for (before, until, expected) in [
            (None, now, true),
            (Some(now), now, false),
            (Some(now), now + second / 10, false),
            (Some(now), now + second, true),
            (Some(now + second), now, false),
        ] {
            assert_eq!(is_news(before, until), expected);
        }
    }

    #[test]
    fn a_full_disk_is_told_from_a_broken_one() {
        use std::io::ErrorKind;
        let file = HubFile {
            repo: RepoId::parse("org/name").unwrap(),
            revision: None,
            commit: "a".repeat(40),
            path: RepoPath::parse("m.gguf").unwrap(),
        };
        for (kind, expected, message) in [
            (ErrorKind::StorageFull, Kind::TooBig, "the disk is full, 1 B of 2 B are kept"),
            (ErrorKind::QuotaExceeded, Kind::TooBig, "the disk is full, 1 B of 2 B are kept"),
            (
                ErrorKind::PermissionDenied,
                Kind::Failed,
                "cannot write the download: permission denied, 1 B of 2 B are kept",
            ),
        ] {
            let error = disk_error(&kind.into(), &file, "1 B of 2 B are kept");
            assert_eq!((error.kind, error.message.as_str()), (expected, message));
            assert!(error.hint.unwrap().contains("`infer pull org/name/m.gguf` goes on"));
        }
    }
}
