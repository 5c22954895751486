//! A stand-in of the Hugging Face hub on this machine's own network: the hub, its CDN, and a third host.
//!
//! ```ignore
//! let hub = Hub::with(Repo::new("org/name").file("m-Q4_K_M.gguf", bytes));
//! hub.set(Fault::Drop { after: 1000 }.times(1));
//! Infer::new().args(["pull", "org/name"]).env("HF_ENDPOINT", hub.endpoint()).run();
//! assert_eq!(hub.sent_twice(), 0);
//! ```

#![allow(dead_code, unused_imports, reason = "each user needs another part of it")]

mod content;
mod faults;
mod http;
mod routes;
mod selftest;
mod server;

use std::net::{TcpListener, TcpStream};
use std::ops::Range;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

pub(crate) use content::{Content, Repo};
pub(crate) use faults::{Fault, Place, Switch};
pub(crate) use server::{Request, Server};

use server::{Shared, locked};

/// Longest wait for something that has to happen.
const PATIENCE: Duration = Duration::from_secs(60);

/// A hub that serves until it is dropped. Everything can be changed while it does.
pub(crate) struct Hub {
    shared: Arc<Shared>,
    /// Where to connect to so that a listener looks up, with its thread.
    listeners: Vec<(std::net::SocketAddr, Option<JoinHandle<()>>)>,
}

impl Hub {
    /// An empty hub.
    pub(crate) fn new() -> Self {
        Self::on("127.0.0.1", "127.0.0.1")
    }

    /// A hub with one repository.
    pub(crate) fn with(repo: Repo) -> Self {
        let hub = Self::new();
        hub.add(repo);
        hub
    }

    /// An empty hub under other names of this machine: `localhost`, `[::1]`.
    pub(crate) fn on(hub: &str, cdn: &str) -> Self {
        let hosts = [(Server::Hub, hub), (Server::Cdn, cdn), (Server::Third, "127.0.0.1")];
        let bound = hosts.map(|(server, host)| {
            let interface = if host == "[::1]" { "[::1]:0" } else { "127.0.0.1:0" };
            let listener = TcpListener::bind(interface).expect("a port on this machine");
            let address = listener.local_addr().expect("the address of a port");
            (server, format!("http://{host}:{}", address.port()), listener, address)
        });
        let shared = Arc::new(Shared::new(&bound[0].1, &bound[1].1, &bound[2].1));
        let started = Instant::now();
        let serve = |(server, _, listener, address)| {
            let shared = Arc::clone(&shared);
            let thread = thread::spawn(move || server::serve(server, &listener, &shared, started));
            (address, Some(thread))
        };
        let listeners = bound.into_iter().map(serve).collect();
        Self { shared, listeners }
    }

    /// For `HF_ENDPOINT`.
    pub(crate) fn endpoint(&self) -> String {
        locked(&self.shared.site).hub.clone()
    }

    pub(crate) fn cdn(&self) -> String {
        locked(&self.shared.site).cdn.clone()
    }

    pub(crate) fn third(&self) -> String {
        self.shared.third.clone()
    }

    /// An address of this machine where nobody answers.
    pub(crate) fn refused() -> String {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port on this machine");
        format!("http://{}", listener.local_addr().expect("the address of a port"))
    }

    /// Adds a repository, its files committed to `main`, and returns that commit.
    pub(crate) fn add(&self, mut repo: Repo) -> String {
        let sha = repo.commit("main");
        locked(&self.shared.site).repos.insert(repo.id.clone(), repo);
        sha
    }

    /// Changes a repository; its files are committed to `main` again. Returns that commit.
    pub(crate) fn change(&self, id: &str, change: impl FnOnce(Repo) -> Repo) -> String {
        let repo = locked(&self.shared.site).repos.remove(id);
        self.add(change(repo.unwrap_or_else(|| panic!("no repository {id}"))))
    }

    pub(crate) fn remove(&self, id: &str) {
        locked(&self.shared.site).repos.remove(id);
    }

    /// An old name of a repository, which redirects.
    pub(crate) fn rename(&self, old: &str, new: &str) {
        locked(&self.shared.site).renamed.insert(old.to_owned(), new.to_owned());
    }

    /// Makes a token valid that has access to nothing in particular.
    pub(crate) fn account(&self, token: &str) {
        locked(&self.shared.site).accounts.insert(token.to_owned());
    }

    /// The commit of a branch, tag or commit.
    pub(crate) fn commit(&self, id: &str, revision: &str) -> String {
        let site = locked(&self.shared.site);
        let sha = site.repos.get(id).and_then(|repo| Some(repo.at(revision)?.0.to_owned()));
        sha.unwrap_or_else(|| panic!("no {id}@{revision}"))
    }

    /// The sha256 of a large file at `main`, the git hash of another: its name among the blobs of a cache.
    pub(crate) fn etag(&self, id: &str, path: &str) -> String {
        let site = locked(&self.shared.site);
        let file = site.repos.get(id).and_then(|repo| repo.at("main")?.1.get(path).cloned());
        drop(site);
        file.unwrap_or_else(|| panic!("no {id}/{path}")).etag()
    }

    /// Bytes a second of each connection; `None` for as many as there can be.
    pub(crate) fn rate(&self, rate: Option<u64>) {
        locked(&self.shared.pace).rate = rate;
    }

    /// A pause before each answer.
    pub(crate) fn latency(&self, latency: Duration) {
        locked(&self.shared.pace).latency = latency;
    }

    /// Most entries in one answer of the tree.
    pub(crate) fn page_size(&self, entries: usize) {
        locked(&self.shared.site).page_size = Some(entries);
    }

    /// Switches a fault on, beside those that are on.
    pub(crate) fn set(&self, switch: impl Into<Switch>) {
        let switch = switch.into();
        if let Fault::Hold { after } = switch.fault() {
            locked(&self.shared.log).hold = Some(*after);
        } else {
            locked(&self.shared.switches).push(switch);
        }
    }

    /// All faults off, also a hold.
    pub(crate) fn clear_faults(&self) {
        locked(&self.shared.switches).clear();
        self.release();
    }

    /// Ends `Fault::Hold`.
    pub(crate) fn release(&self) {
        locked(&self.shared.log).hold = None;
        self.shared.changed.notify_all();
    }

    /// Makes all URLs of the CDN that were given out so far useless.
    pub(crate) fn expire(&self) {
        locked(&self.shared.site).expire();
    }

    /// All requests to all servers, in the order they came.
    pub(crate) fn requests(&self) -> Vec<Request> {
        locked(&self.shared.log).requests.clone()
    }

    pub(crate) fn count(&self, which: impl Fn(&Request) -> bool) -> usize {
        locked(&self.shared.log).requests.iter().filter(|request| which(request)).count()
    }

    /// How many requests a server got.
    pub(crate) fn asked(&self, server: Server) -> usize {
        self.count(|request| request.server == server)
    }

    /// The requests as `GET /path 200`, without queries: for a look at all of them.
    pub(crate) fn lines(&self, server: Server) -> Vec<String> {
        let requests = self.requests().into_iter().filter(|request| request.server == server);
        requests.map(|r| format!("{} {} {}", r.method, r.path(), r.status)).collect()
    }

    /// How many connections a server has accepted, since its start.
    pub(crate) fn connections(&self, server: Server) -> usize {
        locked(&self.shared.log).connections.iter().filter(|known| **known == server).count()
    }

    /// Bytes of files that the CDN and the third host have sent: given to the network, not yet taken by a client.
    pub(crate) fn cdn_bytes(&self) -> u64 {
        locked(&self.shared.log).cdn_bytes
    }

    /// When the last of them was.
    pub(crate) fn last_byte(&self) -> Option<SystemTime> {
        locked(&self.shared.log).last_byte
    }

    /// What the CDN was asked for with 200 or 206 as the answer, as ranges of bytes of files, in the order it was asked.
    pub(crate) fn ranges(&self) -> Vec<Range<u64>> {
        self.bodies().map(|request| request.range).collect()
    }

    /// The same as far as it was sent.
    pub(crate) fn sent_ranges(&self) -> Vec<Range<u64>> {
        self.bodies().map(|request| request.range.start..request.range.start + request.sent).collect()
    }

    /// How many bytes of files the CDN has sent more than once.
    pub(crate) fn sent_twice(&self) -> u64 {
        let mut sent: Vec<_> =
            self.bodies().map(|r| (r.file, r.range.start, r.range.start + r.sent)).collect();
        sent.sort();
        let (mut twice, mut file, mut reached) = (0, None, 0);
        for (path, start, end) in sent {
            if file != path {
                (file, reached) = (path, 0);
            }
            twice += end.min(reached).saturating_sub(start);
            reached = reached.max(end);
        }
        twice
    }

    fn bodies(&self) -> impl Iterator<Item = Request> {
        let is_body = |request: &Request| {
            let from_cdn = request.server != Server::Hub && request.target.starts_with("/repos/");
            from_cdn && request.method == "GET" && matches!(request.status, 200 | 206)
        };
        self.requests().into_iter().filter(is_body)
    }

    /// Whether a token came along to where it must not.
    pub(crate) fn token_seen_on_cdn(&self) -> bool {
        self.count(|request| request.server != Server::Hub && request.header("authorization").is_some()) > 0
    }

    /// How often Xet or its telemetry was asked for anything.
    pub(crate) fn xet_requests(&self) -> usize {
        let parts = ["/xet-read-token/", "/xet-write-token/", "/reconstructions", "/telemetry"];
        self.count(|request| parts.iter().any(|part| request.target.contains(part)))
    }

    /// Empties the record, before a second run.
    pub(crate) fn forget(&self) {
        locked(&self.shared.log).forget();
    }

    /// Waits until the CDN has sent so many bytes.
    #[track_caller]
    pub(crate) fn wait_for_bytes(&self, bytes: u64) {
        self.shared.wait(&format!("{bytes} bytes"), PATIENCE, |log| log.cdn_bytes >= bytes);
    }

    /// Waits until so many requests of a kind have come.
    #[track_caller]
    pub(crate) fn wait_for(&self, count: usize, which: impl Fn(&Request) -> bool) {
        self.shared.wait(&format!("{count} requests"), PATIENCE, |log| {
            log.requests.iter().filter(|request| which(request)).count() >= count
        });
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        self.shared.stop();
        for (address, thread) in &mut self.listeners {
            // The listener may have ended by itself.
            let _ = TcpStream::connect(*address);
            if let Some(thread) = thread.take() {
                // A panic there was shown when it happened.
                let _ = thread.join();
            }
        }
        self.shared.stop();
    }
}
