//! The hub is tested with bare sockets: what it says has to be right before it may judge a client.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Content, Fault, Hub, Place, Repo, Server};

/// An answer as it came.
struct Reply {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    /// The body was as long as its head says.
    whole: bool,
}

impl Reply {
    fn header(&self, name: &str) -> Option<&str> {
        let name = name.to_lowercase();
        self.headers.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str())
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("a body of JSON")
    }
}

/// A connection with the method that it last asked with.
struct Client(BufReader<TcpStream>);

impl Client {
    fn to(url: &str) -> (Self, String) {
        let rest = url.strip_prefix("http://").expect("a URL");
        let at = rest.find('/').unwrap_or(rest.len());
        let stream = TcpStream::connect(&rest[..at]).expect("a connection");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a time-out");
        (Self(BufReader::new(stream)), if at < rest.len() { rest[at..].to_owned() } else { "/".to_owned() })
    }

    fn send(&mut self, method: &str, target: &str, headers: &[&str]) {
        let head = [&format!("{method} {target} HTTP/1.1"), "Host: hub"];
        let lines: Vec<&str> = head.into_iter().chain(headers.iter().copied()).chain(["", ""]).collect();
        let request = lines.join("\r\n");
        self.0.get_mut().write_all(request.as_bytes()).expect("a request that is taken");
    }

    /// The head of the next answer; `None` when the connection was closed instead.
    fn head(&mut self) -> Option<Reply> {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("a line");
        let status = line.split(' ').nth(1)?.parse().expect("a status");
        let mut headers = Vec::new();
        loop {
            line.clear();
            self.0.read_line(&mut line).expect("a line");
            let Some((name, value)) = line.split_once(':') else { break };
            headers.push((name.to_lowercase(), value.trim().to_owned()));
        }
        Some(Reply { status, headers, body: Vec::new(), whole: true })
    }

    fn ask(&mut self, method: &str, target: &str, headers: &[&str]) -> Option<Reply> {
        self.send(method, target, headers);
        let mut reply = self.head()?;
        if method != "HEAD" && reply.status != 304 {
            let len = reply.header("content-length").map(|len| len.parse::<u64>().expect("a length"));
            let body = (&mut self.0).take(len.unwrap_or(u64::MAX)).read_to_end(&mut reply.body);
            body.expect("a body");
            reply.whole = len == Some(reply.body.len() as u64);
        }
        Some(reply)
    }
}

/// Asks on a connection of its own.
fn ask(method: &str, url: &str, headers: &[&str]) -> Reply {
    let (mut client, target) = Client::to(url);
    client.ask(method, &target, headers).expect("an answer")
}

fn get(url: &str) -> Reply {
    ask("GET", url, &[])
}

/// 100,000 bytes, no two neighbours alike.
fn bytes() -> Vec<u8> {
    (0..100_000_u32).map(|n| u8::try_from(n % 251).expect("a byte")).collect()
}

fn hub() -> Hub {
    Hub::with(Repo::new("Org/Name").file("m-Q4_K_M.gguf", bytes()).file("sub/README.md", "# Hello\n"))
}

/// The URL that the hub signs for the model.
fn signed(hub: &Hub) -> String {
    let head = ask("HEAD", &format!("{}/Org/Name/resolve/main/m-Q4_K_M.gguf", hub.endpoint()), &[]);
    head.header("location").expect("a redirect").to_owned()
}

/// A hub with a fault on, and what the CDN then says to a request for a range.
fn part(fault: Fault, range: &str) -> (Hub, Reply) {
    let hub = hub();
    let url = signed(&hub);
    hub.set(fault);
    let reply = ask("GET", &url, &[&format!("Range: bytes={range}")]);
    (hub, reply)
}

/// Serves a big file for measurements with other programs:
/// `INFER_HUB_MB=300 INFER_HUB_RATE=25000000 INFER_HUB_LATENCY_MS=50 cargo test --release --test integration --
/// --ignored --nocapture --exact support::hub::selftest::serve_until_killed`.
/// A file of one's own instead of the made-up one: `INFER_HUB_FILE`.
#[test]
#[ignore = "serves until it is killed"]
fn serve_until_killed() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let hub = Hub::new();
    let (name, content) = if let Ok(path) = std::env::var("INFER_HUB_FILE") {
        let name = path.rsplit('/').next().expect("a name").to_owned();
        (name, Content::new(std::fs::read(path).expect("the file of INFER_HUB_FILE")))
    } else {
        (
            "big-Q4_K_M.gguf".to_owned(),
            Content::big_gguf(number("INFER_HUB_MB").unwrap_or(300) * 1_000_000, 1),
        )
    };
    hub.add(Repo::new("bench/big").content(&name, &content).file("README.md", "# Big\n"));
    hub.rate(number("INFER_HUB_RATE"));
    hub.latency(Duration::from_millis(number("INFER_HUB_LATENCY_MS").unwrap_or(0)));
    println!("HF_ENDPOINT={}", hub.endpoint());
    println!("URL={}/bench/big/resolve/main/{name}", hub.endpoint());
    println!("SIZE={}\nSHA256={}", content.len(), content.sha256());
    loop {
        std::thread::sleep(Duration::from_secs(1));
    }
}
