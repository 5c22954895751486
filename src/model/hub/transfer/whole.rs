//! A server that sends whole files only: one connection, and what is here already passes by.

use std::hash::Hasher;
use std::sync::atomic::Ordering;

use tokio::time::timeout;
use twox_hash::XxHash3_64;

use super::{Ended, Transfer, Trouble};
use crate::error::Result;
use crate::model::hub::ranges::{BLOCK, block_bytes, block_count};

impl Transfer {
    /// The only connection to a server without ranges: take the whole again and again, until nothing is missing. Blocks
    /// that are there already pass by.
    pub(in crate::model::hub) async fn work_whole(&self) -> Result<Ended> {
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
