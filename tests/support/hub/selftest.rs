//! The hub is tested with bare sockets: what it says has to be right before it may judge a client.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant, SystemTime};

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

fn model(hub: &Hub) -> String {
    format!("{}/Org/Name/resolve/main/m-Q4_K_M.gguf", hub.endpoint())
}

#[test]
fn describes_a_model() {
    let hub = hub();
    let info = get(&format!("{}/api/models/Org/Name", hub.endpoint())).json();
    let commit = hub.commit("Org/Name", "main");
    assert_eq!((commit.len(), &info["sha"]), (40, &json!(commit)));
    let expected = json!(["Org/Name", false, false, false, ["gguf", "license:apache-2.0"]]);
    assert_eq!(json!([info["id"], info["private"], info["gated"], info["disabled"], info["tags"]]), expected);
    let siblings = json!([{ "rfilename": "m-Q4_K_M.gguf" }, { "rfilename": "sub/README.md" }]);
    assert_eq!(info["siblings"], siblings);
    let at_commit = get(&format!("{}/api/models/Org/Name/revision/{commit}", hub.endpoint()));
    assert_eq!(at_commit.json(), info);
}

#[test]
fn lists_files_by_pages() {
    let hub = hub();
    let url = format!("{}/api/models/Org/Name/tree/main", hub.endpoint());
    let sha256 = hub.etag("Org/Name", "m-Q4_K_M.gguf");
    assert_eq!(sha256, "cd2df694e424bc7968cc37f47751019e5ca0cd1bdf2e479ea537c3a1c32ee1aa");
    let all = get(&format!("{url}?recursive=true"));
    let kinds: Vec<Value> = all
        .json()
        .as_array()
        .expect("a list")
        .iter()
        .map(|e| json!([e["type"], e["path"], e["size"]]))
        .collect();
    let expected =
        json!([["directory", "sub", 0], ["file", "m-Q4_K_M.gguf", 100_000], ["file", "sub/README.md", 8]]);
    assert_eq!((json!(kinds), all.header("link")), (expected, None));
    let lfs = json!({ "oid": sha256, "size": 100_000, "pointerSize": 135 });
    assert_eq!(all.json()[1]["lfs"], lfs);
    assert_eq!(all.json()[1]["xetHash"].as_str().map(str::len), Some(64));
    assert_eq!(all.json()[2].get("lfs"), None);

    let top = get(&url).json();
    assert_eq!(json!([top[0]["path"], top[1]["path"], top[2]]), json!(["sub", "m-Q4_K_M.gguf", null]));
    assert_eq!(get(&format!("{url}/sub")).json()[0]["path"], json!("sub/README.md"));

    hub.page_size(2);
    let first = get(&format!("{url}?recursive=true"));
    let link = first.header("link").expect("a second page");
    let next = link.strip_prefix('<').and_then(|link| link.strip_suffix(">; rel=\"next\"")).expect("a URL");
    let second = get(next);
    assert_eq!(
        (first.json()[1]["path"].clone(), second.json()[0]["path"].clone()),
        (json!("m-Q4_K_M.gguf"), json!("sub/README.md"))
    );
    assert_eq!((second.json()[1].clone(), second.header("link")), (Value::Null, None));
}

#[test]
fn searches() {
    let hub = hub();
    hub.add(Repo::new("org/other-name").file("a.safetensors", "x"));
    hub.add(Repo::new("org/hidden-name").file("a.gguf", "x").private());
    let found = |query: &str| {
        let list = get(&format!("{}/api/models?{query}", hub.endpoint())).json();
        list.as_array().expect("a list").iter().map(|model| model["id"].to_string()).collect::<Vec<_>>()
    };
    assert_eq!(found("search=NAME&filter=gguf&limit=5"), ["\"Org/Name\""]);
    assert_eq!(found("search=name"), ["\"Org/Name\"", "\"org/other-name\""]);
    assert_eq!(found("search=name&limit=1").len(), 1);
    assert_eq!(found("search=nothing"), [""; 0]);
}

#[test]
fn redirects_to_the_cdn() {
    let hub = hub();
    let reply = ask("HEAD", &model(&hub), &[]);
    let etag = format!("\"{}\"", hub.etag("Org/Name", "m-Q4_K_M.gguf"));
    let commit = hub.commit("Org/Name", "main");
    assert_eq!(reply.status, 302);
    for (name, value) in [
        ("etag", etag.as_str()),
        ("x-linked-etag", &etag),
        ("x-linked-size", "100000"),
        ("x-repo-commit", &commit),
        ("accept-ranges", "bytes"),
    ] {
        assert_eq!(reply.header(name), Some(value), "{name}");
    }
    assert_eq!(reply.header("x-xet-hash").map(str::len), Some(64));
    assert!(reply.header("link").is_some_and(|link| link.contains("rel=\"xet-auth\"")));
    let location = reply.header("location").expect("a location");
    assert!(location.starts_with(&format!("{}/repos/", hub.cdn())), "{location}");
    let body = get(location);
    assert_eq!((body.status, body.body == bytes(), body.header("x-repo-commit")), (200, true, None));
    assert_ne!(body.header("etag"), Some(etag.as_str()));

    let known = ask("HEAD", &model(&hub), &[&format!("If-None-Match: {etag}")]);
    assert_eq!((known.status, known.header("etag")), (304, Some(etag.as_str())));
    hub.change("Org/Name", Repo::without_xet);
    assert_eq!(ask("HEAD", &model(&hub), &[]).header("x-xet-hash"), None);
}

#[test]
fn serves_ranges_on_one_connection() {
    let hub = hub();
    let (mut client, target) = Client::to(&signed(&hub));
    let cases = [
        ("bytes=0-9", 206, Some("bytes 0-9/100000"), 0..10),
        ("bytes=99990-", 206, Some("bytes 99990-99999/100000"), 99_990..100_000),
        ("bytes=-5", 206, Some("bytes 99995-99999/100000"), 99_995..100_000),
        ("bytes=99998-200000", 206, Some("bytes 99998-99999/100000"), 99_998..100_000),
        ("lines=0-9", 200, None, 0..100_000),
    ];
    for (range, status, content_range, expected) in cases {
        let reply = client.ask("GET", &target, &[&format!("Range: {range}")]).expect("an answer");
        assert_eq!((reply.status, reply.header("content-range")), (status, content_range), "{range}");
        assert!(reply.body == bytes()[expected], "{range}");
    }
    let beyond = client.ask("GET", &target, &["Range: bytes=100000-"]).expect("an answer");
    assert_eq!((beyond.status, beyond.header("content-range")), (416, Some("bytes */100000")));
    assert_eq!(hub.connections(Server::Cdn), 1);
    assert_eq!(hub.ranges(), [0..10, 99_990..100_000, 99_995..100_000, 99_998..100_000, 0..100_000]);
    assert_eq!((hub.cdn_bytes(), hub.sent_twice()), (100_027, 27));
}

#[test]
fn serves_small_files_itself() {
    let hub = hub();
    let url = format!("{}/Org/Name/resolve/main/sub/README.md", hub.endpoint());
    let reply = get(&url);
    let commit = hub.commit("Org/Name", "main");
    let target = reply.header("location").expect("a location").to_owned();
    assert_eq!(reply.status, 307);
    assert!(
        target.starts_with(&format!("/api/resolve-cache/models/Org/Name/{commit}/sub/README.md?")),
        "{target}"
    );
    let file = get(&format!("{}{target}", hub.endpoint()));
    assert_eq!((file.status, file.body.as_slice()), (200, b"# Hello\n".as_slice()));
    let etag = hub.etag("Org/Name", "sub/README.md");
    assert_eq!((etag.len(), file.header("etag")), (40, Some(format!("\"{etag}\"").as_str())));
    assert_eq!(file.header("x-repo-commit"), Some(commit.as_str()));
    assert_eq!(hub.asked(Server::Cdn), 0);
}

#[test]
fn redirects_other_spellings_and_old_names() {
    let hub = hub();
    hub.rename("old/one", "Org/Name");
    for (asked, expected) in [
        ("/org/name/resolve/main/m-Q4_K_M.gguf", "/Org/Name/resolve/main/m-Q4_K_M.gguf"),
        ("/old/one/resolve/main/m-Q4_K_M.gguf?a=b", "/Org/Name/resolve/main/m-Q4_K_M.gguf?a=b"),
        ("/api/models/ORG/NAME/tree/main", "/api/models/Org/Name/tree/main"),
    ] {
        let reply = get(&format!("{}{asked}", hub.endpoint()));
        assert_eq!(
            (reply.status, reply.header("location"), reply.header("etag")),
            (307, Some(expected), None)
        );
    }
}

#[test]
fn keeps_every_commit() {
    let hub = Hub::new();
    let repo = Repo::new("o/n").file("m.gguf", "old").named("v1").named("refs/pr/1").file("m.gguf", "new");
    let new = hub.add(repo);
    let old = hub.commit("o/n", "v1");
    assert_ne!(old, new);
    let body = |revision: &str| {
        let head = get(&format!("{}/o/n/resolve/{revision}/m.gguf", hub.endpoint()));
        (head.header("x-repo-commit").map(str::to_owned), get(head.header("location").expect("a URL")).body)
    };
    for revision in ["v1", "refs%2Fpr%2F1", &old] {
        assert_eq!(body(revision), (Some(old.clone()), b"old".to_vec()), "{revision}");
    }
    assert_eq!(body("main"), (Some(new), b"new".to_vec()));
    let third = hub.change("o/n", |repo| repo.file("m.gguf", "third").sha(&"3".repeat(40)));
    assert_eq!((third.clone(), body("main")), ("3".repeat(40), (Some(third), b"third".to_vec())));
    assert_eq!(body(&old), (Some(old.clone()), b"old".to_vec()));
}

#[test]
fn refuses_as_the_hub_does() {
    let hub = hub();
    hub.account("hf_other");
    let file = |id: &str| Repo::new(id).file("m.gguf", "x").allow("hf_mine");
    hub.add(file("o/gated").gated("manual"));
    hub.add(file("o/private").private());
    hub.add(file("o/disabled").disabled());
    let restricted = "Access to model o/gated is restricted";
    let cases = [
        ("/o/gated/resolve/main/m.gguf", None, 401, Some("GatedRepo"), restricted),
        ("/o/gated/resolve/main/m.gguf", Some("hf_other"), 403, Some("GatedRepo"), restricted),
        ("/o/gated/resolve/main/m.gguf", Some("hf_mine"), 302, None, ""),
        ("/api/models/o/gated", None, 200, None, ""),
        ("/o/private/resolve/main/m.gguf", None, 401, Some("RepoNotFound"), "Repository not found"),
        (
            "/o/private/resolve/main/m.gguf",
            Some("hf_other"),
            404,
            Some("RepoNotFound"),
            "Repository not found",
        ),
        ("/o/private/resolve/main/m.gguf", Some("hf_mine"), 302, None, ""),
        ("/api/models/o/private", None, 401, None, "Invalid username or password."),
        ("/api/models/o/none", Some("hf_mine"), 404, Some("RepoNotFound"), "Repository not found"),
        ("/api/models/Org/Name", Some("hf_typo"), 401, None, "Invalid credentials in Authorization header"),
        ("/o/disabled/resolve/main/m.gguf", None, 403, None, "Access to this resource is disabled."),
        ("/Org/Name/resolve/nope/m-Q4_K_M.gguf", None, 404, Some("RevisionNotFound"), "Invalid rev id: nope"),
        ("/api/models/Org/Name/revision/nope", None, 404, Some("RevisionNotFound"), "Invalid rev id: nope"),
        ("/Org/Name/resolve/main/nope.gguf", None, 404, Some("EntryNotFound"), "Entry not found"),
        ("/api/whoami-v2", None, 401, None, "Invalid username or password."),
        ("/api/whoami-v2", Some("hf_other"), 200, None, ""),
    ];
    for (path, token, status, code, message) in cases {
        let authorization = token.map(|token| format!("Authorization: Bearer {token}"));
        let headers: Vec<&str> = authorization.iter().map(String::as_str).collect();
        let reply = ask("GET", &format!("{}{path}", hub.endpoint()), &headers);
        let said = reply.header("x-error-message").unwrap_or_default();
        assert_eq!((reply.status, reply.header("x-error-code")), (status, code), "{path} {token:?}");
        assert!(
            said.starts_with(message) && said.is_empty() == message.is_empty(),
            "{path} {token:?}: {said}"
        );
        if !message.is_empty() {
            assert_eq!(reply.json()["error"], json!(said));
        }
    }
    let missing = get(&format!("{}/Org/Name/resolve/main/nope.gguf", hub.endpoint()));
    assert_eq!(missing.header("x-repo-commit"), Some(hub.commit("Org/Name", "main").as_str()));
    let gated = get(&format!("{}/api/models/o/gated", hub.endpoint())).json();
    assert_eq!(gated["gated"], json!("manual"));
}

#[test]
fn records_everything() {
    let hub = hub();
    get(&format!("{}/api/models/Org/Name/xet-read-token/main", hub.endpoint()));
    ask("POST", &format!("{}/v1/telemetry", hub.endpoint()), &["Content-Length: 0"]);
    assert_eq!((hub.xet_requests(), hub.token_seen_on_cdn()), (2, false));
    let url = signed(&hub);
    ask("GET", &url, &["AUTHORIZATION: Bearer x", "Range: bytes=10-19"]);
    let last = hub.requests().pop().expect("a request");
    assert_eq!((last.server, last.method.as_str(), last.status, last.sent), (Server::Cdn, "GET", 206, 10));
    assert_eq!(
        (last.header("authorization"), last.range.clone(), last.file.as_deref()),
        (Some("Bearer x"), 10..20, Some("m-Q4_K_M.gguf"))
    );
    assert!(url.ends_with(&last.target) && hub.token_seen_on_cdn());
    assert_eq!((last.connection, hub.connections(Server::Hub), hub.connections(Server::Third)), (4, 3, 0));
    assert_eq!(
        hub.lines(Server::Hub)[1..],
        ["POST /v1/telemetry 404", "HEAD /Org/Name/resolve/main/m-Q4_K_M.gguf 302"]
    );
    hub.forget();
    assert_eq!((hub.requests().len(), hub.cdn_bytes(), hub.token_seen_on_cdn()), (0, 0, false));
}

#[test]
fn counts_what_is_sent_twice() {
    let hub = hub();
    let url = signed(&hub);
    for range in ["0-99", "50-149", "200-299", "0-9"] {
        ask("GET", &url, &[&format!("Range: bytes={range}")]);
    }
    assert_eq!((hub.sent_twice(), hub.cdn_bytes()), (60, 310));
}

#[test]
fn is_a_proxy_for_plain_http() {
    let hub = hub();
    let (mut client, _) = Client::to(&hub.endpoint());
    let through = client.ask("GET", "http://hub.invalid/api/models/Org/Name", &[]).expect("an answer");
    assert_eq!((through.status, &through.json()["id"]), (200, &json!("Org/Name")));
    let tunnel = client.ask("CONNECT", "huggingface.co:443", &[]).expect("an answer");
    assert_eq!(tunnel.status, 502);
    let targets: Vec<String> = hub.requests().into_iter().map(|request| request.target).collect();
    assert_eq!(targets, ["http://hub.invalid/api/models/Org/Name", "huggingface.co:443"]);
}

#[test]
fn has_other_names_and_ends() {
    let hub = Hub::on("127.0.0.1", "localhost");
    hub.add(Repo::new("Org/Name").file("m-Q4_K_M.gguf", bytes()));
    assert!(signed(&hub).starts_with("http://localhost:"));
    let endpoint = hub.endpoint();
    let (mut idle, _) = Client::to(&endpoint);
    idle.ask("GET", "/api/models/Org/Name", &[]).expect("an answer");
    drop(hub);
    assert!(idle.head().is_none());
    let address = endpoint.strip_prefix("http://").expect("an address");
    assert!(TcpStream::connect(address).is_err());
    let refused = Hub::refused();
    assert!(TcpStream::connect(refused.strip_prefix("http://").expect("an address")).is_err());
}

#[test]
fn drops_a_connection() {
    let (hub, reply) = part(Fault::Drop { after: 300 }, "1000-1999");
    assert_eq!((reply.status, reply.header("content-length"), reply.whole), (206, Some("1000"), false));
    assert!(reply.body == bytes()[1000..1300]);
    let sent: Vec<_> = hub.sent_ranges().into_iter().zip(hub.ranges()).collect();
    assert_eq!(sent, [(1000..1300, 1000..2000)]);

    let url = signed(&hub);
    hub.clear_faults();
    hub.set(Fault::Drop { after: 300 }.after(1).times(1));
    let lengths: Vec<usize> = (0..3).map(|_| get(&url).body.len()).collect();
    assert_eq!(lengths, [100_000, 300, 100_000]);
    // A body that is no longer than that is none to drop.
    hub.set(Fault::Drop { after: 300 }.times(1));
    assert!(ask("GET", &url, &["Range: bytes=0-299"]).whole && !get(&url).whole && get(&url).whole);
}

#[test]
fn drops_each_range_once() {
    let hub = hub();
    let url = signed(&hub);
    hub.set(Fault::DropEachRangeOnce { after: 100 });
    let length = |range: &str| ask("GET", &url, &[&format!("Range: bytes={range}")]).body.len();
    let lengths = ["0-999", "100-999", "1000-1999", "1100-1999"].map(length);
    assert_eq!((lengths, hub.sent_twice()), ([100, 900, 100, 900], 0));
}

#[test]
fn stalls_and_keeps_silent_until_the_client_closes() {
    let hub = hub();
    let (mut client, target) = Client::to(&signed(&hub));
    hub.set(Fault::Stall { after: 500 }.times(1));
    client.send("GET", &target, &[]);
    client.head().expect("a head");
    client.0.read_exact(&mut [0; 500]).expect("500 bytes");
    client.0.get_ref().set_read_timeout(Some(Duration::from_millis(50))).expect("a time-out");
    assert!(client.0.read(&mut [0]).is_err());

    hub.set(Fault::Silent.times(1));
    let (mut client, _) = Client::to(&hub.endpoint());
    client.send("GET", "/api/models/Org/Name", &[]);
    hub.wait_for(1, |request| request.path() == "/api/models/Org/Name");
    client.0.get_ref().set_read_timeout(Some(Duration::from_millis(50))).expect("a time-out");
    assert!(client.0.read(&mut [0]).is_err());

    hub.set(Fault::Hangup.times(1));
    let (mut client, _) = Client::to(&hub.endpoint());
    assert!(client.ask("GET", "/api/models/Org/Name", &[]).is_none());
    assert_eq!(get(&format!("{}/api/models/Org/Name", hub.endpoint())).status, 200);
}

#[test]
fn holds_the_cdn_at_a_byte() {
    let hub = hub();
    let url = signed(&hub);
    hub.set(Fault::Hold { after: 1500 });
    std::thread::scope(|scope| {
        let clients = [(); 2].map(|()| scope.spawn(|| ask("GET", &url, &["Range: bytes=0-999"]).body.len()));
        hub.wait_for_bytes(1500);
        assert_eq!(hub.cdn_bytes(), 1500);
        // Other requests pass.
        assert_eq!(get(&format!("{}/api/models/Org/Name", hub.endpoint())).status, 200);
        hub.release();
        assert_eq!(clients.map(|client| client.join().expect("a client")), [1000, 1000]);
    });
    assert_eq!(hub.cdn_bytes(), 2000);

    // Nothing is sent to a client that left while it was held.
    hub.forget();
    hub.set(Fault::Hold { after: 10 });
    let (mut client, target) = Client::to(&url);
    client.send("GET", &target, &[]);
    hub.wait_for_bytes(10);
    drop(client);
    hub.release();
    assert!(ask("GET", &url, &["Range: bytes=0-0"]).whole);
    assert_eq!(hub.cdn_bytes(), 11);
}

#[test]
fn is_as_slow_as_told() {
    let hub = hub();
    let url = signed(&hub);
    let timed = || {
        let start = Instant::now();
        assert!(get(&url).whole);
        start.elapsed()
    };
    let at_least = |hundredths: u64| Duration::from_millis(10 * hundredths);
    hub.rate(Some(500_000));
    assert!(timed() >= at_least(19));
    hub.rate(None);
    hub.set(Fault::Slow { rate: 500_000 }.times(1));
    let (mut client, target) = Client::to(&url);
    for _ in 0..2 {
        let start = Instant::now();
        client.ask("GET", &target, &[]).expect("an answer");
        assert!(start.elapsed() >= at_least(19));
    }
    hub.latency(at_least(10));
    assert!(timed() >= at_least(10));
}

#[test]
fn spoils_bodies() {
    let (_, cut) = part(Fault::Cut { after: 300 }, "0-999");
    assert_eq!((cut.status, cut.header("content-length"), cut.body.len()), (206, None, 300));
    let (_, whole) = part(Fault::IgnoreRange, "10-19");
    assert_eq!((whole.status, whole.header("content-range"), whole.body.len()), (200, None, 100_000));
    let (_, wrong) = part(Fault::WrongContentRange, "10-19");
    assert_eq!((wrong.status, wrong.header("content-range")), (206, Some("bytes 11-20/100000")));
    let (_, none) = part(Fault::NoContentRange, "10-19");
    assert_eq!((none.status, none.header("content-range"), none.body.len()), (206, None, 10));
    let (_, short) = part(Fault::ShortRange { len: 4 }, "10-19");
    assert_eq!(
        (short.header("content-range"), short.body.as_slice()),
        (Some("bytes 10-13/100000"), &bytes()[10..14])
    );

    let hub = hub();
    let url = signed(&hub);
    hub.set(Fault::Flip { offset: 15 }.times(1));
    let bytes_of = |range: &str| ask("GET", &url, &[&format!("Range: bytes={range}")]).body;
    assert_eq!(bytes_of("0-9"), bytes()[0..10]);
    assert_eq!(bytes_of("14-16"), [14, 15 ^ 0xff, 16]);
    assert_eq!(bytes_of("14-16"), [14, 15, 16]);

    hub.set(Fault::Endless);
    let (mut client, target) = Client::to(&url);
    client.send("GET", &target, &["Range: bytes=0-9"]);
    assert_eq!(client.head().expect("a head").header("content-length"), None);
    let mut endless = [0; 30];
    client.0.read_exact(&mut endless).expect("30 bytes");
    assert_eq!(endless.chunks(10).collect::<Vec<_>>(), [&bytes()[..10]; 3]);
}

#[test]
fn packs_a_body() {
    let (_, reply) = part(Fault::Gzip, "0-9");
    assert_eq!(
        (reply.status, reply.header("content-encoding"), reply.header("content-range")),
        (200, Some("gzip"), None)
    );
    // As `gzip` stores ten bytes, without a name and a time.
    let head = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255, 1, 10, 0, 0xf5, 0xff];
    let crc = 0x456c_d746_u32.to_le_bytes();
    assert_eq!(reply.body, [&head, &bytes()[..10], &crc, &10_u32.to_le_bytes()].concat());
}

#[test]
fn refuses_for_a_while() {
    let hub = hub();
    let url = signed(&hub);
    for fault in [Fault::TooMany { retry_after: 7 }, Fault::RateLimit { reset: 9 }, Fault::Status(503)] {
        for (place, url) in [
            (Place::Api, format!("{}/api/models/Org/Name", hub.endpoint())),
            (Place::Get, model(&hub)),
            (Place::Cdn, url.clone()),
        ] {
            hub.set(fault.clone().at(place).times(2));
            let replies = [(); 3].map(|()| get(&url));
            let refused = &replies[0];
            match fault {
                Fault::TooMany { .. } => {
                    assert_eq!((refused.status, refused.header("retry-after")), (429, Some("7")));
                }
                Fault::RateLimit { .. } => {
                    assert_eq!((refused.status, refused.header("retry-after")), (429, None));
                    assert_eq!(refused.header("ratelimit"), Some("\"resolvers\";r=0;t=9"));
                }
                _ => assert_eq!(refused.status, 503),
            }
            assert_eq!(replies[1].status, refused.status);
            assert!(matches!(replies[2].status, 200 | 302), "{place:?}");
        }
    }
    hub.set(Fault::LoginPage);
    assert_eq!(
        [model(&hub), url].map(|url| get(&url).header("content-type").map(str::to_owned)),
        [(); 2].map(|()| Some("text/html".to_owned()))
    );
}

#[test]
fn expires_urls() {
    let hub = hub();
    let old = signed(&hub);
    hub.set(Fault::Expired.after(1).times(1));
    assert_eq!([get(&old).status, get(&old).status, get(&old).status], [200, 403, 403]);
    let denied = get(&old);
    assert!(
        denied.body.ends_with(b"<Error><Code>AccessDenied</Code><Message>Access denied</Message></Error>")
    );
    let new = signed(&hub);
    assert_eq!([get(&new).status, get(&old).status], [200, 403]);
    hub.set(Fault::Denied);
    assert_eq!(get(&signed(&hub)).status, 403);
}

#[test]
fn lies_about_a_file() {
    let hub = hub();
    let head = |fault: Fault| {
        hub.clear_faults();
        hub.set(fault);
        ask("HEAD", &model(&hub), &[])
    };
    assert_eq!(head(Fault::SizeOff(5)).header("x-linked-size"), Some("100005"));
    assert_eq!(head(Fault::SizeOff(-5)).header("x-linked-size"), Some("99995"));
    assert_eq!(head(Fault::NoSize).header("x-linked-size"), None);
    let hostile = head(Fault::Etag("../../x".into()));
    assert_eq!(
        (hostile.header("x-linked-etag"), hostile.header("etag")),
        (Some("\"../../x\""), Some("\"../../x\""))
    );
    assert_eq!(head(Fault::NoEtag).header("x-linked-etag"), None);
    assert_eq!(head(Fault::NoCommit).header("x-repo-commit"), None);
    assert_eq!(head(Fault::Commit("../x".into())).header("x-repo-commit"), Some("../x"));
    let info = get(&format!("{}/api/models/Org/Name", hub.endpoint())).json();
    assert_eq!((&info["sha"], &info["id"]), (&json!("../x"), &json!("Org/Name")));
    let link = Fault::Header { name: "Link".into(), value: "</next>; rel=\"next\"".into() };
    assert_eq!(head(link).header("link"), Some("</next>; rel=\"next\""));
}

#[test]
fn redirects_elsewhere() {
    let hub = hub();
    let head = |fault: Fault| {
        hub.clear_faults();
        hub.set(fault);
        let reply = ask("HEAD", &model(&hub), &[]);
        (
            reply.status,
            reply.header("location").expect("a location").to_owned(),
            reply.header("x-linked-size").is_some(),
        )
    };
    assert_eq!(head(Fault::RedirectLoop), (302, model(&hub), false));
    let elsewhere = "http://example.invalid/x";
    assert_eq!(head(Fault::RedirectTo(elsewhere.into())), (302, elsewhere.to_owned(), true));
    let (_, third, _) = head(Fault::RedirectToThird);
    assert!(third.starts_with(&hub.third()) && get(&third).body == bytes());
    assert_eq!(hub.cdn_bytes(), 100_000);
    let mirror = head(Fault::Mirror);
    assert_eq!(mirror, (308, model(&hub).replace(&hub.endpoint(), &hub.third()), false));
    let there = ask("HEAD", &mirror.1, &[]);
    assert_eq!((there.status, there.header("x-linked-size")), (302, Some("100000")));
    // The CDN itself may redirect too.
    hub.clear_faults();
    hub.set(Fault::RedirectToThird.at(Place::Cdn));
    let moved = get(&signed(&hub));
    assert_eq!(moved.status, 302);
    assert!(get(moved.header("location").expect("a location")).body == bytes());
}

#[test]
fn spoils_one_file_of_many() {
    let hub = hub();
    hub.change("Org/Name", |repo| repo.file("other.gguf", "other"));
    hub.set(Fault::Status(503).file("other.gguf"));
    let status = |name: &str| get(&format!("{}/Org/Name/resolve/main/{name}", hub.endpoint())).status;
    assert_eq!(["m-Q4_K_M.gguf", "other.gguf"].map(status), [302, 503]);
}

#[test]
fn takes_any_path() {
    let hub = Hub::new();
    let paths = ["../../x.gguf", "/abs.gguf", "C:\\x.gguf", "a\u{1b}[31m.gguf"];
    hub.add(paths.iter().fold(Repo::new("o/n"), |repo, path| repo.file(path, "x")));
    let mut listed: Vec<Value> = paths.iter().map(|path| json!(path)).collect();
    listed.sort_by_key(Value::to_string);
    let url = format!("{}/api/models/o/n", hub.endpoint());
    let names = |list: &Value, name: &str| {
        let files = list.as_array().expect("a list").iter().filter(|entry| entry["type"] != "directory");
        let mut names: Vec<Value> = files.map(|entry| entry[name].clone()).collect();
        names.sort_by_key(Value::to_string);
        names
    };
    assert_eq!(names(&get(&url).json()["siblings"], "rfilename"), listed);
    assert_eq!(names(&get(&format!("{url}/tree/main?recursive=true")).json(), "path"), listed);
}

#[test]
fn makes_big_files_out_of_little() {
    let content = Content::big(*b"head", (3 << 20) + 5, 1);
    let all = content.bytes(&(0..content.len()));
    assert_eq!((all.len(), &all[..4]), ((3 << 20) + 5, b"head".as_slice()));
    let mebibyte = 1 << 20;
    assert_ne!(all[mebibyte..2 * mebibyte], all[2 * mebibyte..3 * mebibyte]);
    assert_eq!(all[mebibyte + 8..2 * mebibyte], all[2 * mebibyte + 8..3 * mebibyte]);
    for start in [0, 3, 5, mebibyte - 1, mebibyte + 3, 3 * mebibyte - 2] {
        let end = (start + 300_000).min(all.len());
        assert!(content.bytes(&(start as u64..end as u64)) == all[start..end], "{start}");
    }
    assert_eq!(content.sha256(), Content::new(all).sha256());
    assert_ne!(content.sha256(), Content::big(*b"head", (3 << 20) + 5, 2).sha256());
    assert_eq!(&Content::big_gguf(mebibyte as u64, 1).bytes(&(0..4)), b"GGUF");
}

/// Serves a big file for measurements with other programs:
///
/// ```sh
/// INFER_HUB_MB=300 INFER_HUB_RATE=25000000 INFER_HUB_LATENCY_MS=50 \
///     cargo test --release --test integration -- --ignored --exact --nocapture support::hub::selftest::serve_until_killed
/// ```
///
/// `INFER_HUB_FILE` is a file of one's own instead of the made-up one. Each line on stdin is answered with what has
/// happened since the one before, as JSON.
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
    let mut connections = 0;
    for _ in std::io::stdin().lines() {
        let before = std::mem::replace(&mut connections, hub.connections(Server::Cdn));
        println!("{}", record(&hub, connections - before));
        hub.forget();
    }
    loop {
        std::thread::sleep(Duration::from_secs(1));
    }
}

fn record(hub: &Hub, connections: usize) -> Value {
    let last_byte = hub.last_byte().and_then(|at| at.duration_since(SystemTime::UNIX_EPOCH).ok());
    json!({
        "hub_requests": hub.asked(Server::Hub),
        "cdn_requests": hub.asked(Server::Cdn),
        "cdn_connections": connections,
        "cdn_bytes": hub.cdn_bytes(),
        "sent_twice": hub.sent_twice(),
        "last_byte": last_byte.map(|since| since.as_secs_f64()),
    })
}
