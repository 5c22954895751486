//! One file from its address to verified bytes in a part file.
//!
//! The calling thread watches: it passes events up, asks whether to go on, and looks at the disk. The connections and the
//! checksum work beside it. Nothing here publishes: who calls does, when this has returned the right file.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet, spawn_blocking};
use tokio::time::{MissedTickBehavior, interval};

use super::part::Part;
use super::ranges::BLOCK;
use super::transfer::{Ended, Transfer, disk_error};
use super::{Event, Hub, HubFile, Meta, Notice, Options, Sink};
use crate::error::{Error, Kind, Result};
use crate::model::store::Store;

/// How often a person is looked after.
pub(super) const TICK: Duration = Duration::from_millis(100);

/// Room that a download leaves on the disk.
pub(crate) const MARGIN: u64 = 64 << 20;

impl Hub {
    /// Fetch what is missing of `file` into `part`, which lies in `folder`. Returns when every byte is on the disk
    /// and the SHA-256 is the hub's; with the SHA-256 when it is another, twice.
    pub(crate) fn fetch(
        &self,
        file: &HubFile,
        meta: &Meta,
        part: Part,
        folder: &std::path::Path,
        sink: Sink<'_>,
    ) -> Result<Option<String>> {
        let (sender, notices) = mpsc::unbounded_channel();
        let connections =
            self.options.connections.min(usize::try_from(meta.size.div_ceil(BLOCK)).unwrap_or(1)).max(1);
        let transfer = Arc::new(Transfer::new(
            self.client.clone(),
            self.access.clone(),
            file.clone(),
            meta.clone(),
            part,
            Options { connections, ..self.options },
            sender,
        ));
        let mut watch =
            Watch { transfer, notices, folder: folder.to_owned(), sink, shown: 0, looked: Instant::now() };
        self.runtime.block_on(watch.run(connections))
    }
}

/// The calling thread's side of a download.
struct Watch<'a> {
    transfer: Arc<Transfer>,
    notices: mpsc::UnboundedReceiver<Notice>,
    folder: std::path::PathBuf,
    sink: Sink<'a>,
    /// The most bytes shown so far: a bar never goes back.
    shown: u64,
    looked: Instant,
}

impl Watch<'_> {
    async fn run(&mut self, connections: usize) -> Result<Option<String>> {
        let mut sha256 = self.pass(connections).await?;
        if sha256 != self.transfer.meta.sha256 {
            self.say(&Event::Note(&format!(
                "{}: the bytes are not those that the hub promises (SHA-256 {}…); fetching all of it again",
                self.transfer.file.path.as_str(),
                &sha256[..12]
            )))?;
            self.shown = 0;
            self.transfer.begin_again().await?;
            sha256 = self.pass(connections).await?;
        }
        Ok(Some(sha256).filter(|sha256| *sha256 != self.transfer.meta.sha256))
    }

    /// Fetch all that is missing; the SHA-256 of the whole.
    async fn pass(&mut self, connections: usize) -> Result<String> {
        let mut workers = JoinSet::new();
        for _ in 0..connections {
            let transfer = Arc::clone(&self.transfer);
            workers.spawn(async move { transfer.work().await });
        }
        let follower =
            blocking(&self.transfer, |transfer| transfer.part.follow(&|block| transfer.refetch(block)));
        let flusher = blocking(&self.transfer, |transfer| transfer.part.flush_along());
        let result = self.watch(&mut workers, follower).await;
        workers.shutdown().await;
        self.transfer.part.stop();
        // It ends by itself, and what it could not write shows in the sync.
        let _ = flusher.await;
        result
    }

    async fn watch(
        &mut self,
        workers: &mut JoinSet<Result<Ended>>,
        mut follower: JoinHandle<std::io::Result<Option<String>>>,
    ) -> Result<String> {
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                sha256 = &mut follower => {
                    let sha256 = sha256.map_err(|e| Error::failed(format!("the checksum failed: {e}")))?;
                    let sha256 = sha256.map_err(|e| self.transfer.disk(&e))?;
                    self.progress()?;
                    self.sync().await?;
                    return sha256.ok_or_else(|| Error::failed("the checksum was stopped"));
                }
                Some(ended) = workers.join_next() => {
                    let ended = ended.map_err(|e| Error::failed(format!("a connection failed: {e}")))?;
                    if matches!(ended?, Ended::NoRanges) {
                        self.take_whole(workers).await?;
                    }
                }
                Some(notice) = self.notices.recv() => self.notice(&notice)?,
                _ = tick.tick() => self.progress()?,
            }
        }
    }

    /// The server has no ranges: one connection takes all.
    async fn take_whole(&mut self, workers: &mut JoinSet<Result<Ended>>) -> Result<()> {
        workers.shutdown().await;
        self.transfer.recount();
        self.say(&Event::Note(
            "the server sends whole files only: one connection, and what breaks begins again",
        ))?;
        let transfer = Arc::clone(&self.transfer);
        workers.spawn(async move { transfer.work_whole().await });
        Ok(())
    }

    async fn sync(&mut self) -> Result<()> {
        let mut sync = blocking(&self.transfer, |transfer| transfer.part.sync());
        loop {
            tokio::select! {
                done = &mut sync => {
                    let done = done.map_err(|e| Error::failed(format!("the disk failed: {e}")))?;
                    return done.map_err(|e| self.transfer.disk(&e));
                }
                () = tokio::time::sleep(TICK) => self.progress()?,
            }
        }
    }

    fn notice(&mut self, notice: &Notice) -> Result<()> {
        match notice {
            Notice::Retry { why, wait } => self.say(&Event::Retry { why, wait: *wait }),
            Notice::Wait { why, until } => {
                self.say(&Event::Wait { why, left: until.saturating_duration_since(Instant::now()) })
            }
        }
    }

    /// Show how far it is, and look after the disk.
    fn progress(&mut self) -> Result<()> {
        self.shown = self.shown.max(self.transfer.have());
        if self.looked.elapsed() > Duration::from_secs(1) {
            self.looked = Instant::now();
            let left = self.transfer.meta.size.saturating_sub(self.transfer.have());
            if left > 0 && Store::free_space(&self.folder).is_ok_and(|free| free < MARGIN / 2) {
                let full = std::io::ErrorKind::StorageFull.into();
                return Err(disk_error(&full, &self.transfer.file, &self.transfer.kept()));
            }
        }
        self.say(&Event::Progress { have: self.shown, came: self.transfer.came() })
    }

    fn say(&mut self, event: &Event<'_>) -> Result<()> {
        match (self.sink)(event) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Error::new(
                Kind::Interrupted,
                format!("interrupted: {}; the same command goes on from there", self.transfer.kept()),
            )),
        }
    }
}

fn blocking<T: Send + 'static>(
    transfer: &Arc<Transfer>,
    work: impl FnOnce(&Transfer) -> T + Send + 'static,
) -> JoinHandle<T> {
    let transfer = Arc::clone(transfer);
    spawn_blocking(move || work(&transfer))
}
