//! A file of the hub read from its beginning without a download: enough for its header.

use std::io::{self, Read};

use super::{Hub, HubFile, Meta, Sink};
use crate::error::Error;

/// How much is asked for at first; each further time twice as much, up to the most.
const FIRST: u64 = 1 << 20;
const MOST: u64 = 16 << 20;

pub(crate) struct Remote<'a> {
    hub: &'a Hub,
    file: &'a HubFile,
    meta: &'a Meta,
    sink: Sink<'a>,
    /// Where the next request begins, and how much it asks for.
    next: u64,
    step: u64,
    buffer: io::Cursor<Vec<u8>>,
    error: Option<Error>,
}

impl<'a> Remote<'a> {
    pub(crate) fn new(hub: &'a Hub, file: &'a HubFile, meta: &'a Meta, sink: Sink<'a>) -> Self {
        Self { hub, file, meta, sink, next: 0, step: FIRST, buffer: io::Cursor::default(), error: None }
    }

    /// What the hub said when reading failed.
    pub(crate) fn into_error(self) -> Option<Error> {
        self.error
    }
}

impl Read for Remote<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.buffer.read(buffer)?;
        if read > 0 || buffer.is_empty() || self.next >= self.meta.size {
            return Ok(read);
        }
        let range = self.next..self.next.saturating_add(self.step);
        match self.hub.some_bytes(self.file, self.meta, range, &mut *self.sink) {
            Ok(bytes) => {
                self.next += bytes.len() as u64;
                self.step = (self.step * 2).min(MOST);
                self.buffer = io::Cursor::new(bytes);
                self.buffer.read(buffer)
            }
            Err(error) => {
                let said = io::Error::other(error.message.clone());
                self.error = Some(error);
                Err(said)
            }
        }
    }
}
