//! The environment, read as Python's `huggingface_hub` reads it.

use super::{FILE, REPO, hub, path_of, pull};
use crate::support::Infer;
use crate::support::hub::{Hub, Repo, Server};

/// The tokens that the hub saw, one for each request.
fn tokens(hub: &Hub) -> Vec<String> {
    let of_hub = hub.requests().into_iter().filter(|request| request.server == Server::Hub);
    of_hub.map(|request| request.header("authorization").unwrap_or("none").to_owned()).collect()
}

/// A hub that knows one account.
fn knowing(token: &str) -> Hub {
    let hub = hub();
    hub.account(token);
    hub
}

#[test]
fn a_token_comes_from_one_of_four_places() {
    type Case = (&'static str, &'static str, Option<(&'static str, &'static str)>, &'static str);
    let cases: [Case; 7] = [
        ("HF_TOKEN", " hf_a\r\n", None, "HF_TOKEN"),
        ("HUGGING_FACE_HUB_TOKEN", "hf_a", None, "HUGGING_FACE_HUB_TOKEN"),
        ("HF_TOKEN_PATH", "secrets/t", Some(("secrets/t", "\nhf_a\n")), "secrets/t"),
        ("HF_TOKEN_PATH", "~/t", Some(("t", "hf_a")), "~/t"),
        ("HF_HOME", "hf", Some(("hf/token", "hf_a\n")), "hf/token"),
        ("HF_HOME", "~/hf", Some(("hf/token", "hf_a\n")), "~/hf/token"),
        ("UNRELATED", "", Some(("cache/huggingface/token", "hf_a\n")), "~/cache/huggingface/token"),
    ];
    for (name, value, file, source) in cases {
        let hub = knowing("hf_a");
        let mut pull = pull(&hub, &[REPO, "--dry-run"]).env(name, value);
        if let Some((path, content)) = file {
            pull = pull.file(path, content);
        }
        pull.stderr(format!(
            "the token from {source} is sent to {}\norg/name:Q4_K_M (6.3 MB)\n",
            hub.endpoint()
        ))
        .run();
        assert_eq!(tokens(&hub), ["Bearer hf_a", "Bearer hf_a"], "{name}={value}");
    }
}

#[test]
fn no_token_is_sent_unasked() {
    for (name, value) in [("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1"), ("HF_TOKEN_PATH", "/nowhere")] {
        let hub = hub();
        pull(&hub, &[REPO, "--dry-run", "-q"]).env(name, value).file("cache/huggingface/token", "hf_a").run();
        assert_eq!(tokens(&hub), ["none", "none"], "{name}");
    }
    // An empty variable is none.
    let hub = knowing("hf_a");
    pull(&hub, &[REPO, "--dry-run", "-q"]).env("HF_TOKEN", "").file("cache/huggingface/token", "hf_a").run();
    assert_eq!(tokens(&hub), ["Bearer hf_a", "Bearer hf_a"]);
}

#[test]
fn a_token_that_cannot_be_one_is_refused_here() {
    let hub = hub();
    pull(&hub, &[REPO])
        .env("HF_TOKEN", "hf_a b")
        .status(2)
        .stderr(
            "error: the token from HF_TOKEN has characters that no token has\n\
             hint: copy it again from https://huggingface.co/settings/tokens\n",
        )
        .run();
    assert_eq!(hub.requests().len(), 0);
}

#[test]
fn the_cache_is_where_python_has_it() {
    let cases: [(&[(&str, &str)], &str); 6] = [
        (&[("HF_HUB_CACHE", "{home}/a")], "a"),
        (&[("HF_HUB_CACHE", "a")], "a"),
        (&[("HF_HUB_CACHE", "~/a"), ("HF_HOME", "{home}/b")], "a"),
        (&[("HUGGINGFACE_HUB_CACHE", "{home}/a")], "a"),
        (&[("HF_HOME", "{home}/b")], "b/hub"),
        (&[("XDG_CACHE_HOME", "")], ".cache/huggingface/hub"),
    ];
    for (variables, cache) in cases {
        let hub = hub();
        let mut pull = pull(&hub, &[REPO, "-q"]);
        let home = pull.home_path();
        for (name, value) in variables {
            pull = pull.env(*name, value.replace("{home}", &home.to_string_lossy()));
        }
        let path = path_of(&hub, REPO, FILE).replace("cache/huggingface/hub", cache);
        pull.stdout(path).run();
    }
}

#[test]
fn offline_is_no_connection_at_all() {
    for value in ["1", "true", "YES", "on"] {
        let hub = hub();
        pull(&hub, &[REPO])
            .env("HF_HUB_OFFLINE", value)
            .status(4)
            .stderr(
                "error: `org/name` is not here, and HF_HUB_OFFLINE is set\n\
                 hint: `unset HF_HUB_OFFLINE` and type it again; `infer list` shows what is here\n",
            )
            .run();
        assert_eq!(hub.connections(Server::Hub), 0);
    }
    let hub = hub();
    let first = pull(&hub, &[REPO, "-q"]).env("HF_HUB_OFFLINE", "0").stdout(path_of(&hub, REPO, FILE)).run();
    let before = hub.connections(Server::Hub);
    pull(&hub, &[REPO])
        .home(&first.home)
        .env("HF_HUB_OFFLINE", "1")
        .stdout(path_of(&hub, REPO, FILE))
        .stderr("org/name: already here\n")
        .run();
    assert_eq!(hub.connections(Server::Hub), before);
}

#[test]
fn an_address_with_a_slash_or_a_folder() {
    let hub = hub();
    let endpoint = format!("{}/", hub.endpoint());
    super::pull_from(&endpoint, &[REPO, "-q"]).stdout(path_of(&hub, REPO, FILE)).run();
    // A mirror below a folder is asked there.
    super::pull_from(&format!("{endpoint}mirror/"), &[REPO, "-q"]).status(3).stderr_is(|_| true).run();
    assert_eq!(hub.lines(Server::Hub)[2], "GET /mirror/api/models/org/name 404");
}

#[test]
fn an_address_that_is_none() {
    for address in ["huggingface.co", "ftp://huggingface.co", "https://h?x=1"] {
        super::pull_from(address, &[REPO])
            .status(2)
            .stderr(format!(
                "error: `{address}` is not the address of a hub\n\
                 hint: set HF_ENDPOINT to an address such as https://huggingface.co, or unset it\n"
            ))
            .run();
    }
}

#[test]
fn names_in_the_form_of_the_hubs_own_addresses() {
    let hub = hub();
    let commit = hub.commit(REPO, "main");
    for name in [
        format!("{}/{REPO}", hub.endpoint()),
        format!("{}/{REPO}/blob/main/{FILE}", hub.endpoint()),
        format!("{}/{REPO}/resolve/{commit}/{FILE}", hub.endpoint()),
        format!("{}/{REPO}/tree/main", hub.endpoint()),
    ] {
        pull(&hub, &[&name, "-q"]).stdout(path_of(&hub, REPO, FILE)).run();
    }
}

#[test]
fn a_proxy_is_asked_instead_of_the_hub() {
    // The hub's port plays the proxy, too: it takes whole addresses as requests.
    let hub = hub();
    for name in ["HTTP_PROXY", "http_proxy", "ALL_PROXY"] {
        hub.forget();
        super::pull_from("http://hub.invalid", &[REPO, "--dry-run", "-q"]).env(name, hub.endpoint()).run();
        let asked: Vec<String> = hub.requests().into_iter().map(|request| request.target).collect();
        assert_eq!(
            asked.first().map(String::as_str),
            Some("http://hub.invalid/api/models/org/name"),
            "{name}"
        );
        assert_eq!(asked.len(), 2);
    }
}

#[test]
fn a_proxy_gets_a_tunnel_for_what_is_encrypted() {
    let hub = hub();
    for (name, proxy) in [("HTTPS_PROXY", hub.endpoint()), ("https_proxy", hub.endpoint())] {
        hub.forget();
        super::pull_from("https://hub.invalid", &[REPO, "--retries", "0"])
            .env(name, proxy)
            .env("HF_TOKEN", "hf_secret")
            .status(4)
            .stderr_is(|text| {
                text.contains("error: cannot reach hub.invalid: ") && !text.contains("hf_secret")
            })
            .run();
        let asked: Vec<_> =
            hub.requests().into_iter().map(|r| format!("{} {}", r.method, r.target)).collect();
        assert_eq!(asked, ["CONNECT hub.invalid:443"]);
        assert_eq!(tokens(&hub), ["none"]);
    }
}

#[test]
fn some_servers_are_asked_without_the_proxy() {
    let (hub, proxy) = (hub(), Hub::new());
    pull(&hub, &[REPO, "-q"])
        .env("HTTP_PROXY", proxy.endpoint())
        .env("NO_PROXY", "127.0.0.1")
        .stdout(path_of(&hub, REPO, FILE))
        .run();
    assert_eq!(proxy.requests().len(), 0);
    assert!(hub.asked(Server::Cdn) > 0);
}

#[test]
fn a_token_stays_here_when_anybody_could_read_it() {
    let hub = Hub::with(Repo::new(REPO).file(FILE, super::tiny()));
    super::pull_from("http://hub.invalid", &[REPO, "--dry-run"])
        .env("HTTP_PROXY", hub.endpoint())
        .env("HF_TOKEN", "hf_secret")
        .stderr_is(|text| {
            text.starts_with(
                "the token from HF_TOKEN is not sent: http://hub.invalid is not encrypted\norg/name:",
            )
        })
        .run();
    assert_eq!(tokens(&hub), ["none", "none"]);
}

#[test]
fn the_flags_have_bounds() {
    for (flag, value, range) in [
        ("--connections <N>", "0", "1..=16"),
        ("--connections <N>", "17", "1..=16"),
        ("--retries <N>", "101", "0..=100"),
        ("--timeout <SECONDS>", "0", "1..=3600"),
    ] {
        let name = flag.split(' ').next().expect("a name");
        Infer::new()
            .args(["pull", REPO, name, value])
            .status(2)
            .stderr(format!(
                "error: invalid value '{value}' for '{flag}': {value} is not in {range}\n\
                 hint: `infer --help` and `infer COMMAND --help` show what there is\n"
            ))
            .run();
    }
}
