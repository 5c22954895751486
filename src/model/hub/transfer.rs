//! What the connections of one download share, and what each of them does: ask for a run of blocks, write what comes,
//! and when that breaks, wait and ask for the rest.
//!
//! `ask` puts one question, `trouble` says what became of it, `whole` knows servers without ranges.

use std::hash::Hasher;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use reqwest::{Client, Url};
use tokio::sync::{Notify, mpsc};
use tokio::time::sleep;
use twox_hash::XxHash3_64;

use self::trouble::Trouble;
use super::client::{self, Head, HeadError, Meta};
use super::part::Part;
use super::ranges::{BLOCK, Ranges, RunId, block_bytes};
use super::refusal::{self, Answer};
use super::{Access, HubFile, Notice, Options, backoff};
use crate::error::{Error, Kind, Result};
use crate::human::Bytes;

mod ask;
mod trouble;
mod whole;

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
}

/// Whether a wait is worth a line: all connections are told to wait at about the same time.
fn is_news(before: Option<Instant>, until: Instant) -> bool {
    const ABOUT: Duration = Duration::from_millis(500);
    before.is_none_or(|before| before + ABOUT < until)
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
