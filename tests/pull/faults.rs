//! What breaks, is slow or refused on the way to the bytes, and that they come all the same.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use super::{
    FILE, FIRST, MIB, REPO, SECOND, assert_nothing_published, assert_published, content, hub, is_get,
    is_head, path_of, pull, pull_from, said, said_with, timeless,
};
use crate::support::hub::{Content, Fault, Hub, Place, Repo, Server, Switch};
use crate::support::{Infer, Ran};

/// One connection after the other, so that the order of requests is known.
pub(super) const ONE: [&str; 3] = [REPO, "--connections", "1"];

/// Pulls in spite of a fault, over one connection.
#[track_caller]
pub(super) fn recovers(fault: impl Into<Switch>, args: &[&str]) -> Hub {
    let hub = hub();
    hub.set(fault);
    let args: Vec<&str> = ONE.iter().chain(args).copied().collect();
    let ran = pull(&hub, &args).stdout(path_of(&hub, REPO, FILE)).stderr_is(timeless(said(&hub))).run();
    assert_published(&hub, &ran.home, &content());
    hub
}

/// As `recovers`, over several connections and with some notes.
#[track_caller]
pub(super) fn recovers_with(fault: impl Into<Switch>, notes: impl Fn(&Hub) -> String) -> Hub {
    let hub = hub();
    hub.set(fault);
    let said = said_with(&hub, &notes(&hub));
    let ran = pull(&hub, &[REPO]).stdout(path_of(&hub, REPO, FILE)).stderr_is(timeless(said)).run();
    assert_published(&hub, &ran.home, &content());
    hub
}

/// Pulls with a fault that does not go away: what is said instead of the last line.
#[track_caller]
pub(super) fn fails(hub: &Hub, status: i32, args: &[&str], error: &str) -> Ran {
    let args: Vec<&str> = ONE.iter().chain(args).copied().collect();
    let begun = said(hub);
    let begun = &begun[..begun.find("m-Q4_K_M.gguf: 6.3 MB in").expect("the last line")];
    let ran = pull(hub, &args).status(status).stderr(format!("{begun}{error}")).run();
    assert_nothing_published(&ran.home);
    assert_eq!((hub.xet_requests(), hub.token_seen_on_cdn()), (0, false));
    ran
}

/// The name of a server as it is said to a person.
pub(super) fn host(endpoint: &str) -> &str {
    endpoint.trim_start_matches("http://")
}

#[test]
fn a_broken_answer_is_taken_up_where_it_broke() {
    let middle = 300_000;
    for fault in [Fault::Drop { after: middle }, Fault::Cut { after: middle }, Fault::Stall { after: middle }]
    {
        let hub = recovers(fault.clone().times(1), &["--timeout", "1"]);
        assert_eq!(hub.ranges(), [FIRST, middle..4 * MIB, SECOND], "{fault:?}");
        assert_eq!(hub.sent_twice(), 0, "{fault:?}");
        assert_eq!(hub.count(is_head), 1);
    }
}

#[test]
fn every_answer_may_break_once() {
    let hub = recovers(Fault::DropEachRangeOnce { after: MIB + 5 }, &[]);
    assert_eq!(hub.ranges(), [FIRST, MIB + 5..4 * MIB, SECOND, 5 * MIB + 5..6 * MIB]);
    assert_eq!(hub.sent_twice(), 0);
    recovers_with(Fault::DropEachRangeOnce { after: 10 }, |_| String::new());
}

#[test]
fn progress_is_no_failure_however_little_it_is() {
    // Every answer breaks, and no attempt may fail: but each brings something.
    let hub = recovers(Fault::Drop { after: 2 * MIB }, &["--retries", "0"]);
    assert_eq!((hub.count(is_get), hub.sent_twice()), (3, 0));
}

#[test]
fn a_server_that_hangs_up_or_says_nothing_is_asked_again() {
    for fault in [Fault::Hangup, Fault::Silent, Fault::Status(503)] {
        for place in [Place::Info, Place::Head, Place::Cdn] {
            let hub = recovers(fault.clone().at(place).times(2), &["--timeout", "1"]);
            assert_eq!(hub.requests().len(), 6, "{fault:?} {place:?}: {:#?}", hub.requests());
        }
    }
}

#[test]
fn a_server_that_stays_away_is_an_error_that_names_it() {
    for (fault, error, hint) in [
        (Fault::Silent, "no answer from HOST: timed out", "check the network; the same command goes on"),
        (
            Fault::Status(503),
            "HOST answers 503 Service Unavailable",
            "the same command goes on where it stopped; try again later",
        ),
    ] {
        for place in [Place::Info, Place::Head] {
            let hub = hub();
            hub.set(fault.clone().at(place));
            let error = error.replace("HOST", host(&hub.endpoint()));
            pull(&hub, &[REPO, "--retries", "0", "--timeout", "1"])
                .status(4)
                .stderr(format!("error: {error}\nhint: {hint}\n"))
                .run();
            assert_eq!(hub.asked(Server::Cdn), 0);
        }
    }
}

#[test]
fn a_cdn_that_stays_away_keeps_what_came() {
    let cases: [(Fault, &str); 4] = [
        (Fault::Silent, "the connection to HOST was silent for 1 s"),
        (Fault::Status(503), "HOST answers 503 Service Unavailable"),
        (Fault::Denied, "HOST answers 403 Forbidden"),
        (Fault::Status(416), "HOST answers 416 Range Not Satisfiable"),
    ];
    for (fault, error) in cases {
        let hub = hub();
        hub.set(fault.after(1).at(Place::Cdn));
        let cdn = hub.cdn();
        let ran = fails(
            &hub,
            4,
            &["--retries", "0", "--timeout", "1"],
            &format!(
                "error: {}, 4.2 MB of 6.3 MB are kept\nhint: `infer pull org/name/m-Q4_K_M.gguf` goes on from there\n",
                error.replace("HOST", host(&cdn))
            ),
        );
        hub.clear_faults();
        hub.forget();
        pull(&hub, &ONE)
            .home(&ran.home)
            .stdout(path_of(&hub, REPO, FILE))
            .stderr_is(|text| text.contains("m-Q4_K_M.gguf: fetching 6.3 MB, 4.2 MB of them here already\n"))
            .run();
        assert_eq!(hub.ranges(), [SECOND]);
        assert_published(&hub, &ran.home, &content());
    }
}

#[test]
fn a_connection_that_breaks_for_ever_ends_after_so_many_attempts() {
    let hub = hub();
    hub.set(Fault::Hangup.at(Place::Cdn));
    let cdn = hub.cdn();
    let ran = pull(&hub, &[REPO, "--connections", "1", "--retries", "2", "-q"])
        .status(4)
        .stderr_is(move |text| {
            text.starts_with(&format!("error: the connection to {} broke: ", host(&cdn)))
                && text.ends_with(
                    ", 0 B of 6.3 MB are kept\nhint: `infer pull org/name/m-Q4_K_M.gguf` goes on from there\n",
                )
        })
        .run();
    assert_eq!(hub.count(is_get), 3);
    assert_nothing_published(&ran.home);
}

#[test]
fn a_server_that_wants_time_is_given_it() {
    for (fault, place) in [
        (Fault::TooMany { retry_after: 1 }, Place::Info),
        (Fault::TooMany { retry_after: 1 }, Place::Head),
        (Fault::TooMany { retry_after: 1 }, Place::Cdn),
        (Fault::RateLimit { reset: 0 }, Place::Info),
        (Fault::RateLimit { reset: 0 }, Place::Head),
        (Fault::RateLimit { reset: 0 }, Place::Cdn),
    ] {
        let hub = hub();
        hub.set(fault.clone().at(place).times(1));
        let server = if place == Place::Cdn { hub.cdn() } else { hub.endpoint() };
        let note = format!("{} answers 429 Too Many Requests; trying again in 1.00 s\n", host(&server));
        let said = if place == Place::Cdn { said_with(&hub, &note) } else { note + &said(&hub) };
        let ran = pull(&hub, &ONE).stdout(path_of(&hub, REPO, FILE)).stderr_is(timeless(said)).run();
        assert_published(&hub, &ran.home, &content());
        let requests = hub.requests();
        let refused = requests.iter().position(|request| request.status == 429).expect("a refusal");
        let waited = requests[refused + 1].at.saturating_sub(requests[refused].at);
        assert!(waited >= Duration::from_secs(1), "{fault:?} {place:?}: {waited:?}");
    }
}

#[test]
fn a_limit_is_an_error_that_says_when_to_come_again() {
    for (fault, place) in [
        (Fault::TooMany { retry_after: 7 }, Place::Info),
        (Fault::RateLimit { reset: 6 }, Place::Info),
        (Fault::RateLimit { reset: 6 }, Place::Head),
        (Fault::TooMany { retry_after: 3600 }, Place::Head),
    ] {
        let hub = hub();
        let (wait, retries) = if fault == (Fault::TooMany { retry_after: 3600 }) {
            // Nobody wants to look at a countdown of an hour.
            ("1 h 00 min", "8")
        } else {
            ("7.00 s", "0")
        };
        hub.set(fault.at(place));
        pull(&hub, &[REPO, "--retries", retries])
            .status(4)
            .stderr(format!(
                "error: the hub limits the requests of this address (without a token); again in {wait}\n\
                 hint: set HF_TOKEN, or log in with `hf auth login`\n"
            ))
            .run();
    }
    let hub = hub();
    hub.set(Fault::TooMany { retry_after: 7 }.after(1).at(Place::Cdn));
    fails(
        &hub,
        4,
        &["--retries", "0"],
        "error: the hub limits the requests of this address (without a token); again in 7.00 s\n\
         hint: set HF_TOKEN, or log in with `hf auth login`\n",
    );
}

#[test]
fn one_limit_stops_all_connections() {
    let hub = hub();
    hub.set(Fault::TooMany { retry_after: 1 }.at(Place::Cdn).times(6));
    let note = format!("{} answers 429 Too Many Requests; trying again in 1.00 s\n", host(&hub.cdn()));
    let ran = pull(&hub, &[REPO])
        .stdout(path_of(&hub, REPO, FILE))
        .stderr_is(move |text| text.contains(&note))
        .run();
    assert_published(&hub, &ran.home, &content());
    let requests = hub.requests();
    let refused = requests.iter().find(|request| request.status == 429).expect("a refusal").at;
    let mut answered = requests.iter().filter(|request| request.status == 206);
    assert!(answered.all(|request| request.at >= refused + Duration::from_secs(1)), "{requests:#?}");
}

#[test]
fn an_address_that_expires_is_renewed_once_for_all_connections() {
    let big = Content::big_gguf(24 * MIB, 2);
    let hub = Hub::with(Repo::new(REPO).content(FILE, &big));
    hub.set(Fault::Expired.after(3).times(1));
    let ran = pull(&hub, &[REPO, "--connections", "4", "--retries", "0", "-q"])
        .stdout(path_of(&hub, REPO, FILE))
        .run();
    assert_published(&hub, &ran.home, &big);
    assert_eq!(hub.count(is_head), 2);
    assert_eq!(hub.count(|request| request.server == Server::Hub), 3);
}

#[test]
fn a_hub_that_wants_time_for_a_new_address_is_given_it() {
    let hub = hub();
    hub.set(Fault::Expired.after(1).times(1));
    hub.set(Fault::TooMany { retry_after: 1 }.at(Place::Head).after(1).times(1));
    let endpoint = hub.endpoint();
    let note = format!("{} answers 429 Too Many Requests; trying again in 1.00 s\n", host(&endpoint));
    let said = said_with(&hub, &note);
    let ran = pull(&hub, &ONE).stdout(path_of(&hub, REPO, FILE)).stderr_is(timeless(said)).run();
    assert_published(&hub, &ran.home, &content());
    assert_eq!(hub.count(is_head), 3);
}

#[test]
fn a_cdn_that_refuses_every_address_is_not_asked_for_ever() {
    let hub = hub();
    hub.set(Fault::Denied);
    let cdn = hub.cdn();
    fails(
        &hub,
        4,
        &[],
        &format!(
            "error: {} answers 403 Forbidden, 0 B of 6.3 MB are kept\n\
             hint: `infer pull org/name/m-Q4_K_M.gguf` goes on from there\n",
            host(&cdn)
        ),
    );
    assert_eq!((hub.count(is_get), hub.count(is_head)), (4, 4));
}

#[test]
fn a_file_that_changes_on_the_way_is_not_mixed() {
    let hub = hub();
    hub.set(Fault::Expired.after(1).times(1));
    hub.set(Fault::Etag("ab".repeat(32)).at(Place::Head).after(1));
    fails(
        &hub,
        4,
        &[],
        "error: org/name/m-Q4_K_M.gguf has changed on the hub while it was downloaded\n\
         hint: `infer pull org/name/m-Q4_K_M.gguf` begins with the new one\n",
    );
}

#[test]
fn a_slow_connection_is_left_to_others() {
    let big = Content::big_gguf(16 * MIB, 3);
    let hub = Hub::with(Repo::new(REPO).content(FILE, &big));
    // At this pace its four blocks would take more than an hour.
    hub.set(Fault::Slow { rate: 1000 }.times(1));
    let ran = pull(&hub, &[REPO, "--connections", "4", "-q"]).stdout(path_of(&hub, REPO, FILE)).run();
    assert_published(&hub, &ran.home, &big);
    // The first to ask is the slow one; the blocks that it had taken came another way.
    let slow = hub.requests().into_iter().find(is_get).expect("a request");
    assert!(slow.sent < MIB, "{slow:?}");
}

#[test]
fn a_server_without_ranges_sends_the_whole() {
    let note = |_: &Hub| {
        "the server sends whole files only: one connection, and what breaks begins again\n".to_owned()
    };
    recovers_with(Fault::IgnoreRange, note);
    let hub = hub();
    hub.set(Fault::IgnoreRange);
    hub.set(Fault::Drop { after: 5 * MIB }.times(3));
    let said = said_with(&hub, &note(&hub));
    let ran = pull(&hub, &ONE).stdout(path_of(&hub, REPO, FILE)).stderr_is(timeless(said)).run();
    assert_published(&hub, &ran.home, &content());
}

/// What this system says of a port where nobody listens.
fn refusal(endpoint: &str) -> String {
    TcpStream::connect(host(endpoint)).expect_err("nobody is there").to_string()
}

#[test]
fn nobody_at_home() {
    let endpoint = Hub::refused();
    pull_from(&endpoint, &[REPO, "--retries", "0"])
        .status(4)
        .stderr(format!(
            "error: cannot reach {}: {}\n\
             hint: check the network, the proxy (`HTTPS_PROXY`) and `HF_ENDPOINT`\n",
            host(&endpoint),
            refusal(&endpoint)
        ))
        .run();
    let (hub, cdn) = (hub(), Hub::refused());
    hub.set(Fault::RedirectTo(format!("{cdn}/repos/x?X-Amz-Signature=secret")));
    let ran = pull(&hub, &[REPO, "--connections", "1", "--retries", "0", "-q"])
        .status(4)
        .stderr(format!(
            "error: the connection to {} cannot be opened: {}, 0 B of 6.3 MB are kept\n\
             hint: `infer pull org/name/m-Q4_K_M.gguf` goes on from there\n",
            host(&cdn),
            refusal(&cdn)
        ))
        .run();
    assert_nothing_published(&ran.home);
}

/// Passes on what comes, over at most two connections at once. Others are closed at once.
fn two_at_a_time(cdn: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    let (cdn, open) = (host(cdn).to_owned(), Arc::new(AtomicUsize::new(0)));
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            if open.fetch_add(1, Ordering::SeqCst) >= 2 {
                open.fetch_sub(1, Ordering::SeqCst);
                continue;
            }
            let (open, server) = (Arc::clone(&open), TcpStream::connect(&cdn).expect("the CDN"));
            thread::spawn(move || {
                let (mut from, mut to) =
                    (client.try_clone().expect("a copy"), server.try_clone().expect("a copy"));
                let forth = thread::spawn(move || {
                    let _ = std::io::copy(&mut from, &mut to);
                    let _ = to.shutdown(std::net::Shutdown::Both);
                });
                let (mut from, mut to) = (server, client);
                let _ = std::io::copy(&mut from, &mut to);
                let _ = to.shutdown(std::net::Shutdown::Both);
                let _ = forth.join();
                open.fetch_sub(1, Ordering::SeqCst);
            });
        }
    });
    format!("http://{address}")
}

/// The address on the CDN that the hub gives for the model, path and query.
fn signed(hub: &Hub) -> String {
    let mut stream = TcpStream::connect(host(&hub.endpoint())).expect("the hub");
    let request = format!("HEAD /{REPO}/resolve/main/{FILE} HTTP/1.1\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("a request");
    let mut head = String::new();
    stream.read_to_string(&mut head).expect("an answer");
    let location = head.lines().find_map(|line| line.strip_prefix("Location: ")).expect("a redirect");
    location.trim_start_matches(&hub.cdn()).to_owned()
}

#[test]
fn a_server_that_takes_two_connections_gets_two() {
    let big = Content::big_gguf(32 * MIB, 4);
    let hub = Hub::with(Repo::new(REPO).content(FILE, &big));
    hub.rate(Some(20 * MIB));
    hub.set(Fault::RedirectTo(two_at_a_time(&hub.cdn()) + &signed(&hub)));
    let ran = pull(&hub, &[REPO, "-q", "--retries", "1"]).stdout(path_of(&hub, REPO, FILE)).run();
    assert_published(&hub, &ran.home, &big);
}

#[test]
fn a_mirror_that_sends_elsewhere_is_named() {
    for place in [Place::Info, Place::Head] {
        let hub = hub();
        hub.account("hf_secret");
        hub.set(Fault::Mirror.at(place));
        let third = hub.third();
        pull(&hub, &[REPO])
            .env("HF_TOKEN", "hf_secret")
            .status(4)
            .stderr_is(move |text| {
                text.ends_with(&format!(
                    "error: the hub redirects to {}, which is another server\n\
                     hint: if you trust it: `HF_ENDPOINT={third} infer pull MODEL`\n",
                    host(&third)
                ))
            })
            .run();
        assert_eq!(hub.asked(Server::Third), 0);
    }
}

#[test]
fn a_third_host_may_have_the_bytes_but_not_the_token() {
    let hub = hub();
    hub.account("hf_secret");
    hub.set(Fault::RedirectToThird);
    let ran = pull(&hub, &[REPO, "-q"]).env("HF_TOKEN", "hf_secret").stdout(path_of(&hub, REPO, FILE)).run();
    assert_published(&hub, &ran.home, &content());
    assert_eq!(hub.asked(Server::Cdn), 0);
    assert!(hub.count(|r| r.server == Server::Third && r.status == 206) > 0);
    assert!(
        hub.count(|r| r.server == Server::Hub && r.header("authorization") == Some("Bearer hf_secret")) == 2
    );
}

#[test]
fn other_names_of_this_machine() {
    for (hub, cdn) in [("localhost", "127.0.0.1"), ("[::1]", "[::1]"), ("127.0.0.1", "localhost")] {
        let hub = Hub::on(hub, cdn);
        hub.add(Repo::new(REPO).content(FILE, &content()));
        let ran: Ran = Infer::new()
            .args(["pull", REPO, "-q"])
            .env("HF_ENDPOINT", hub.endpoint())
            .stdout(path_of(&hub, REPO, FILE))
            .run();
        assert_published(&hub, &ran.home, &content());
    }
}
