//! Ports, connections and the record of what passed through them.

use std::collections::HashMap;
use std::io::{self, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use super::content::{PIECE, index};
use super::faults::{self, Delivery, End, Fault, Place, Switch};
use super::http::{Answer, Incoming};
use super::routes::Site;

/// How often a held body looks whether its client is still there.
const LOOK: Duration = Duration::from_millis(10);

/// Longest wait for a client to close after us.
const LINGER: Duration = Duration::from_secs(2);

/// The three hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Server {
    Hub,
    Cdn,
    /// A host that nobody named: where some faults redirect to. Answers as hub and as CDN.
    Third,
}

/// A request and what became of it.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) server: Server,
    pub(crate) method: String,
    /// As it came: path and query, a whole URL at a proxy, `host:port` after `CONNECT`.
    pub(crate) target: String,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    /// Counted from 1 over all servers.
    pub(crate) connection: u64,
    /// Since the hub's start.
    pub(crate) at: Duration,
    /// 0 as long as nothing has been answered.
    pub(crate) status: u16,
    /// The file of a repository that the answer is about.
    pub(crate) file: Option<String>,
    /// The bytes of the file that the answer has in its body, if all goes well.
    pub(crate) range: Range<u64>,
    /// Bytes of the body that were sent.
    pub(crate) sent: u64,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Path without query.
    pub(crate) fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }
}

#[derive(Default)]
pub(super) struct Log {
    pub(super) requests: Vec<Request>,
    pub(super) connections: Vec<Server>,
    /// Bytes of files that the CDN and the third host have sent, and that they may send by now.
    pub(super) cdn_bytes: u64,
    promised: u64,
    /// When the last of these bytes was given to the network.
    pub(super) last_byte: Option<SystemTime>,
    pub(super) hold: Option<u64>,
    /// `forget` makes numbers of requests in the log those of another log.
    pub(super) forgotten: u64,
}

/// What threads share.
#[derive(Default)]
pub(super) struct Shared {
    pub(super) site: Mutex<Site>,
    pub(super) switches: Mutex<Vec<Switch>>,
    pub(super) pace: Mutex<Pace>,
    pub(super) log: Mutex<Log>,
    /// Something in `log` changed.
    pub(super) changed: Condvar,
    pub(super) third: String,
    stopping: AtomicBool,
    open: Mutex<HashMap<u64, TcpStream>>,
}

/// How fast every connection is.
#[derive(Default, Clone, Copy)]
pub(super) struct Pace {
    /// Bytes a second.
    pub(super) rate: Option<u64>,
    /// Before each answer.
    pub(super) latency: Duration,
}

pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    pub(super) fn new(hub: &str, cdn: &str, third: &str) -> Self {
        Self { site: Mutex::new(Site::new(hub, cdn)), third: third.to_owned(), ..Self::default() }
    }

    pub(super) fn stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    /// Ends all connections; the listeners end with the next one.
    pub(super) fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        self.changed.notify_all();
        for stream in locked(&self.open).values() {
            // It may be closed already.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Waits until the log is as wanted.
    pub(super) fn wait(&self, what: &str, longest: Duration, mut done: impl FnMut(&Log) -> bool) {
        let deadline = Instant::now() + longest;
        let mut log = locked(&self.log);
        while !done(&log) {
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "{what}: not within {longest:?}; seen: {:#?}", log.requests);
            log = self.changed.wait_timeout(log, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Answers connections until `stop`, each in a thread of its own.
pub(super) fn serve(server: Server, listener: &TcpListener, shared: &Arc<Shared>, started: Instant) {
    for stream in listener.incoming() {
        if shared.stopping() {
            return;
        }
        let (Ok(stream), shared) = (stream, Arc::clone(shared)) else { continue };
        thread::spawn(move || {
            let number = {
                let mut log = locked(&shared.log);
                log.connections.push(server);
                log.connections.len() as u64
            };
            let Ok(copy) = stream.try_clone() else { return };
            locked(&shared.open).insert(number, copy);
            if shared.stopping() {
                return;
            }
            // A client may leave at any time.
            let _ = Connection { server, number, stream, shared: &shared, started, slow: None }.run();
            locked(&shared.open).remove(&number);
        });
    }
}

struct Connection<'a> {
    server: Server,
    number: u64,
    stream: TcpStream,
    shared: &'a Shared,
    started: Instant,
    /// Bytes a second, since a fault made this connection slow.
    slow: Option<u64>,
}

/// Where a request stands in the log: how many logs were forgotten before, and its number in this one.
type Entry = (u64, usize);

impl Connection<'_> {
    fn run(mut self) -> io::Result<()> {
        self.stream.set_nodelay(true)?;
        let mut reader = BufReader::new(self.stream.try_clone()?);
        while let Some(incoming) = Incoming::read(&mut reader)? {
            let entry = self.record(&incoming);
            if !self.answer(&incoming, entry)? {
                return self.close();
            }
        }
        Ok(())
    }

    fn record(&self, incoming: &Incoming) -> Entry {
        let mut log = locked(&self.shared.log);
        log.requests.push(Request {
            server: self.server,
            method: incoming.method.clone(),
            target: incoming.target.clone(),
            headers: incoming.headers.clone(),
            connection: self.number,
            at: self.started.elapsed(),
            status: 0,
            file: None,
            range: 0..0,
            sent: 0,
        });
        self.shared.changed.notify_all();
        (log.forgotten, log.requests.len() - 1)
    }

    fn note(&self, entry: Entry, change: impl FnOnce(&mut Request)) {
        let mut log = locked(&self.shared.log);
        if log.forgotten == entry.0 {
            change(&mut log.requests[entry.1]);
        }
        self.shared.changed.notify_all();
    }

    /// Answers a request; false when the connection ends with that.
    fn answer(&mut self, incoming: &Incoming, entry: Entry) -> io::Result<bool> {
        let has_body = incoming.method != "HEAD";
        let mut answer = self.honest(incoming);
        let faults = faults::fired(&mut locked(&self.shared.switches), &answer, has_body);
        if faults.contains(&Fault::Expired) {
            locked(&self.shared.site).expire();
        }
        let here = self.address();
        let target = incoming.path_and_query();
        let delivery = faults::spoil(&mut answer, &faults, target, &here, &self.shared.third);
        if delivery.end == End::Silent {
            self.until_closed();
        }
        if matches!(delivery.end, End::Silent | End::Hangup) {
            return Ok(false);
        }
        let latency = locked(&self.shared.pace).latency;
        thread::sleep(latency);
        self.slow = delivery.slow.or(self.slow);
        self.note(entry, |request| {
            (request.status, request.file, request.range) =
                (answer.status, answer.file.clone(), answer.range.clone());
        });
        self.stream.write_all(answer.head().as_bytes())?;
        let whole = !has_body || answer.status == 304 || self.body(&answer, &delivery, entry)?;
        let asked_to_close =
            incoming.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
        Ok(whole && !answer.no_length && !asked_to_close && !incoming.old)
    }

    fn honest(&self, incoming: &Incoming) -> Answer {
        if incoming.method == "CONNECT" {
            return Answer::text(502, "No tunnels here");
        }
        let mut site = locked(&self.shared.site);
        let is_signed = incoming.path_and_query().starts_with("/repos/");
        let from_cdn = self.server == Server::Cdn || (self.server == Server::Third && is_signed);
        let answer = if from_cdn { site.cdn_answer(incoming) } else { site.hub_answer(incoming) };
        Answer { server: self.server, ..answer }
    }

    fn address(&self) -> String {
        let site = locked(&self.shared.site);
        match self.server {
            Server::Hub => site.hub.clone(),
            Server::Cdn => site.cdn.clone(),
            Server::Third => self.shared.third.clone(),
        }
    }

    /// Sends the body; false when it ended before its time.
    fn body(&mut self, answer: &Answer, delivery: &Delivery, entry: Entry) -> io::Result<bool> {
        let rate = self.slow.or(locked(&self.shared.pace).rate);
        let most = rate.map_or(PIECE, |rate| (rate / 50).clamp(1, PIECE));
        let of_file = answer.place == Place::Cdn && matches!(answer.status, 200 | 206);
        let (start, mut sent) = (Instant::now(), 0);
        let (mut scratch, mut spoilt) = (Vec::new(), Vec::new());
        let mut rest = answer.range.clone();
        let stop = match delivery.end {
            End::Close(after) | End::Stall(after) => after,
            _ => u64::MAX,
        };
        while !rest.is_empty() && sent < stop {
            let piece = answer.content.piece(&rest, &mut scratch);
            let wanted = (piece.len() as u64).min(most).min(stop - sent);
            let len = if of_file { self.allowed(wanted)? } else { wanted };
            let piece = flipped(&piece[..index(len)], rest.start, &delivery.flips, &mut spoilt);
            (rest.start, sent) = (rest.start + len, sent + len);
            if let Some(rate) = rate {
                let due = Duration::from_secs_f64(seconds(sent, rate));
                thread::sleep(due.saturating_sub(start.elapsed()));
            }
            // Counted first: what a client has, is in the record.
            self.count(of_file, len, entry);
            self.stream.write_all(piece)?;
            if rest.is_empty() && delivery.end == End::Never {
                rest = answer.range.clone();
            }
        }
        if matches!(delivery.end, End::Stall(_)) {
            self.until_closed();
        }
        Ok(rest.is_empty())
    }

    fn count(&self, of_file: bool, len: u64, entry: Entry) {
        let mut log = locked(&self.shared.log);
        if log.forgotten == entry.0 {
            log.requests[entry.1].sent += len;
            if of_file {
                log.cdn_bytes += len;
                log.last_byte = Some(SystemTime::now());
            }
        }
        self.shared.changed.notify_all();
    }

    /// How many of `wanted` bytes may leave the CDN now; waits while it is held. A client that left gets nothing more,
    /// though the network would take it.
    fn allowed(&self, wanted: u64) -> io::Result<u64> {
        let mut log = locked(&self.shared.log);
        loop {
            if self.shared.stopping() || self.is_closed() {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            let room = log.hold.map_or(u64::MAX, |hold| hold.saturating_sub(log.promised));
            if room > 0 {
                let len = wanted.min(room);
                log.promised += len;
                return Ok(len);
            }
            log = self.shared.changed.wait_timeout(log, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Whether the client has closed.
    fn is_closed(&self) -> bool {
        let peeked = self.stream.set_nonblocking(true).and_then(|()| self.stream.peek(&mut [0]));
        let back = self.stream.set_nonblocking(false);
        match peeked {
            Ok(len) => len == 0 || back.is_err(),
            Err(error) => error.kind() != io::ErrorKind::WouldBlock,
        }
    }

    /// Waits for the client to close.
    fn until_closed(&mut self) {
        let mut bytes = [0; 1024];
        while self.stream.read(&mut bytes).is_ok_and(|len| len > 0) {}
    }

    /// Closes so that all that was sent arrives: a socket closed over unread bytes would reset the connection.
    fn close(&mut self) -> io::Result<()> {
        self.stream.shutdown(Shutdown::Write)?;
        self.stream.set_read_timeout(Some(LINGER))?;
        self.until_closed();
        Ok(())
    }
}

#[expect(clippy::cast_precision_loss, reason = "a pause need not be exact")]
fn seconds(bytes: u64, rate: u64) -> f64 {
    bytes as f64 / rate as f64
}

/// The piece that starts at an offset of the file, with some bytes changed.
fn flipped<'a>(piece: &'a [u8], start: u64, flips: &[u64], spoilt: &'a mut Vec<u8>) -> &'a [u8] {
    let within = start..start + piece.len() as u64;
    let here: Vec<u64> = flips.iter().copied().filter(|offset| within.contains(offset)).collect();
    if here.is_empty() {
        return piece;
    }
    spoilt.clear();
    spoilt.extend_from_slice(piece);
    for offset in here {
        spoilt[index(offset - start)] ^= 0xff;
    }
    spoilt
}

impl Log {
    /// An empty log; connections are kept, for their numbers go on.
    pub(super) fn forget(&mut self) {
        self.requests.clear();
        self.forgotten += 1;
        (self.cdn_bytes, self.promised, self.last_byte) = (0, 0, None);
    }
}
