//! A hub, a CDN or a network that means no good.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use tempfile::TempDir;

use super::{FILE, REPO, assert_nothing_published, assert_published, content, hub, path_of, pull, tiny};
use crate::support::hub::{Fault, Hub, Place, Repo, Server};
use crate::support::{Infer, Ran};

const TOKEN: &str = "hf_secret";

/// Pulls from a hub that lies: an exit code and how the error begins. Nothing is written, nothing dangerous is said.
#[track_caller]
fn refuses(hub: &Hub, args: &[&str], status: i32, error: &str) -> Ran {
    hub.account(TOKEN);
    let home = Arc::new(TempDir::new().expect("a temporary folder"));
    let endpoint = hub.endpoint();
    let expected = format!("error: {error}").replace("HOST", endpoint.trim_start_matches("http://"));
    let ran = pull(hub, args)
        .arg("-q")
        .home(&home)
        .env("HF_TOKEN", TOKEN)
        .status(status)
        .stderr_is(move |text| {
            let harmless = !text.contains(|c: char| c.is_control() && c != '\n');
            harmless && text.starts_with(&expected) && !text.contains(TOKEN) && !text.contains("X-Amz")
        })
        .run();
    assert_eq!(files(home.path()), Vec::<String>::new());
    assert!(!hub.token_seen_on_cdn());
    assert_nothing_published(&home);
    ran
}

/// All files of a home but those of the cache's own and the state.
fn files(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).expect("a folder").flatten() {
            let (path, name) = (entry.path(), entry.file_name());
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(path);
            } else if name != "rebuild-advice"
                && name != "CACHEDIR.TAG"
                && path.extension() != Some("lock".as_ref())
            {
                found.push(path.to_string_lossy().into_owned());
            }
        }
    }
    found
}

#[test]
fn paths_that_lead_elsewhere() {
    for (path, shown) in [
        ("../../x.gguf", "../../x.gguf"),
        ("/abs.gguf", "/abs.gguf"),
        ("C:\\x.gguf", "C:\\x.gguf"),
        ("a/../../../x.gguf", "a/../../../x.gguf"),
        ("a//x.gguf", "a//x.gguf"),
        ("a\u{1b}[31m.gguf", "a\\u{1b}[31m.gguf"),
        ("a\u{202e}.gguf", "a\\u{202e}.gguf"),
        ("a\n.gguf", "a\\n.gguf"),
        ("nul.gguf", "nul.gguf"),
    ] {
        let hub = Hub::with(Repo::new(REPO).file(path, tiny()));
        refuses(&hub, &[REPO], 4, &format!("org/name names a file `{shown}`, which no cache can hold\n"));
        assert_eq!(hub.requests().len(), 1, "{path}");
    }
}

#[test]
fn names_in_lists_are_shown_and_not_obeyed() {
    let hub =
        Hub::with(Repo::new(REPO).file("a\u{1b}]0;x\u{7}-Q2_K.gguf", tiny()).file("b\u{9b}31m.gguf", tiny()));
    refuses(&hub, &[REPO], 3, "org/name has none of the usual quants; it has Q2_K ");
    refuses(&hub, &["org/name:Q3_K_S"], 3, "org/name has no `Q3_K_S`; it has Q2_K ");
}

#[test]
fn hashes_and_commits_that_are_paths() {
    let evil = "../../../../../../../../tmp/evil";
    let long = "../".repeat(20) + "evil";
    for etag in [evil, &long[..64], &"AB".repeat(32), &"ab".repeat(21), "", "ab\u{e9}"] {
        let hub = hub();
        hub.set(Fault::Etag(etag.to_owned()).at(Place::Head));
        refuses(&hub, &[REPO], 4, "the answer of HOST is not that of a hub: its checksum is `");
    }
    for commit in [evil, "", "main", &"AB".repeat(20), &"ab".repeat(32)] {
        for place in [Place::Info, Place::Head] {
            let hub = hub();
            hub.set(Fault::Commit(commit.to_owned()).at(place));
            refuses(&hub, &[REPO], 4, "the answer of HOST is not that of a hub: its commit is `");
        }
    }
    // One that is well-formed and not the one that was asked for.
    let (hub, other) = (hub(), "ab".repeat(20));
    hub.set(Fault::Commit(other).at(Place::Head));
    let asked = hub.commit(REPO, "main");
    refuses(
        &hub,
        &[REPO],
        4,
        &format!(
            "the answer of HOST is not that of a hub: it answers for commit abababababab when asked for {}\n",
            &asked[..12]
        ),
    );
}

/// A hub that says this of the repository.
fn saying(body: &str) -> Hub {
    let hub = hub();
    let body = body.replace("SHA", &hub.commit(REPO, "main"));
    hub.set(Fault::Answer { status: 200, headers: Vec::new(), body }.at(Place::Info));
    hub
}

#[test]
fn answers_that_are_none() {
    for (body, why) in [
        ("", "it is not JSON"),
        (r#"{"id":"org/name","#, "it is not JSON"),
        ("<html>", "it is not JSON"),
        ("[]", "its JSON is not what it should be"),
        (r#"{"sha":"SHA"}"#, "its JSON is not what it should be"),
        (r#"{"id":"../..","sha":"SHA"}"#, "its repository is called `../..`"),
        (r#"{"id":"a/b/c","sha":"SHA"}"#, "its repository is called `a/b/c`"),
        (r#"{"id":"a/\u001b[31mb","sha":"SHA"}"#, "its repository is called `a/\\u{1b}[31mb`"),
        (r#"{"id":"org/name"}"#, "its commit is ``"),
    ] {
        refuses(&saying(body), &[REPO], 4, &format!("the answer of HOST is not that of a hub: {why}\n"));
    }
    let deep = format!(r#"{{"id":"org/name","cardData":{}{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
    refuses(&saying(&deep), &[REPO], 4, "the answer of HOST is not that of a hub: it is not JSON\n");
}

#[test]
fn words_of_the_hub_do_not_move_the_cursor() {
    let hub = saying(
        r#"{"id":"org/name","sha":"SHA","tags":["license:\u001b]0;owned\u0007\u009b2J"],
            "siblings":[{"rfilename":"m-Q4_K_M.gguf"}]}"#,
    );
    let ran = pull(&hub, &[REPO])
        .stdout(path_of(&hub, REPO, FILE))
        .stderr_is(|text| {
            text.contains("license: \\u{1b}]0;owned\\u{7}\\u{9b}2J (")
                && !text.contains(|c: char| c.is_control() && c != '\n')
        })
        .run();
    assert_published(&hub, &ran.home, &content());
}

#[test]
fn sizes_that_are_lies() {
    // More than there is: the CDN says so at once.
    let hub = hub();
    hub.set(Fault::SizeOff(5));
    refused_by_size(&hub, "6291456", "6291461");
    let hub = super::hub();
    hub.set(Fault::SizeOff(-5));
    refused_by_size(&hub, "6291456", "6291451");
    // More than any disk has.
    let hub = super::hub();
    hub.set(Fault::SizeOff(i64::MAX));
    let ran = pull(&hub, &[REPO, "-q"])
        .status(5)
        .stderr_is(|text| {
            text.starts_with("Q4_K_M (9.2 EB) does not fit into this machine's memory; ")
                && text.contains("\nerror: 9.2 EB more are needed, ")
        })
        .run();
    assert_nothing_published(&ran.home);
    let hub = super::hub();
    hub.set(Fault::SizeOff(-6_291_456));
    refuses(&hub, &[REPO], 4, "the answer of HOST is not that of a hub: no size\n");
}

#[track_caller]
fn refused_by_size(hub: &Hub, is: &str, said: &str) {
    let cdn = hub.cdn();
    pull(hub, &[REPO, "--connections", "1", "--retries", "0", "-q"])
        .status(4)
        .stderr(format!(
            "error: {} sends `bytes 0-4194303/{is}` when asked for `bytes 0-4194303/{said}`, 0 B of 6.3 MB are kept\n\
             hint: `infer pull org/name/m-Q4_K_M.gguf` goes on from there\n",
            cdn.trim_start_matches("http://")
        ))
        .run();
}

#[test]
fn answers_without_end() {
    for place in [Place::Info, Place::Tree] {
        let hub = hub();
        hub.set(Fault::Endless.at(place));
        // The list of files is only for its sizes: without them it is shown all the same.
        let (args, status, error) = if place == Place::Info {
            ([REPO], 4, "the answer of HOST is not that of a hub: it is longer than 33.6 MB\n")
        } else {
            (["org/name:Q8_0"], 3, "org/name has no `Q8_0`; it has Q4_K_M\n")
        };
        refuses(&hub, &args, status, error);
    }
    // An error page without end, too.
    let hub = hub();
    hub.set(Fault::Status(404).at(Place::Info));
    hub.set(Fault::Endless.at(Place::Info));
    refuses(&hub, &[REPO], 3, "org/name does not exist, or the token from HF_TOKEN may not see it\n");
}

#[test]
fn a_list_that_goes_on_elsewhere_is_not_followed() {
    let hub = hub();
    let target = format!("{}/api/models/org/name/tree/main?cursor=1", hub.third());
    let link = ["<", &target, ">; rel=\"next\""].concat();
    hub.set(Fault::Header { name: "Link".to_owned(), value: link.clone() }.at(Place::Tree));
    refuses(&hub, &["org/name:Q8_0"], 3, "org/name has no `Q8_0`; it has Q4_K_M\n");
    assert_eq!(hub.connections(Server::Third), 0);

    let hub = Hub::with(Repo::new("org/few").file("model.safetensors", "x"));
    hub.set(Fault::Header { name: "Link".to_owned(), value: link }.at(Place::Search));
    refuses(&hub, &["org/few"], 3, "org/few has no GGUF files\n");
    assert_eq!(hub.connections(Server::Third), 0);
}

#[test]
fn a_list_that_goes_round_in_circles_ends() {
    let hub = hub();
    let target = format!("{}/api/models/org/name/tree/main?recursive=true", hub.endpoint());
    let value = ["<", &target, ">; rel=\"next\""].concat();
    hub.set(Fault::Header { name: "Link".to_owned(), value }.at(Place::Tree));
    refuses(&hub, &["org/name:Q8_0"], 3, "org/name has no `Q8_0`; it has Q4_K_M");
}

#[test]
fn the_token_is_for_the_hub_alone() {
    let hub = Hub::with(Repo::new(REPO).content(FILE, &content()).gated("auto").allow(TOKEN));
    hub.set(Fault::Expired.after(1).times(1));
    let ran = pull(&hub, &[REPO, "-q"]).env("HF_TOKEN", TOKEN).stdout(path_of(&hub, REPO, FILE)).run();
    assert_published(&hub, &ran.home, &content());
    let sent: Vec<bool> = hub.requests().iter().map(|r| r.header("authorization").is_some()).collect();
    let of_hub: Vec<bool> = hub.requests().iter().map(|r| r.server == Server::Hub).collect();
    assert_eq!(sent, of_hub);
    assert_eq!(hub.count(|request| request.header("referer").is_some()), 0);
    let everywhere = files(ran.home.path());
    let told = everywhere
        .iter()
        .filter(|path| fs::read(path).is_ok_and(|bytes| String::from_utf8_lossy(&bytes).contains(TOKEN)));
    assert_eq!(told.count(), 0, "the token is not written anywhere");
}

#[test]
fn a_signed_address_is_never_said() {
    for fault in [Fault::Hangup, Fault::Denied, Fault::Drop { after: 5 }, Fault::Silent, Fault::LoginPage] {
        let hub = hub();
        hub.set(fault.at(Place::Cdn));
        pull(&hub, &[REPO, "--retries", "1", "--timeout", "1", "-v"])
            .status(4)
            .stderr_is(|text| {
                !text.contains("X-Amz") && !text.contains("/repos/") && text.contains("\nerror: ")
            })
            .timeout(std::time::Duration::from_secs(90))
            .run();
    }
}

#[cfg(unix)]
#[test]
fn a_link_out_of_the_cache_is_not_followed() {
    let hub = hub();
    let elsewhere = TempDir::new().expect("a temporary folder");
    let pull = pull(&hub, &[REPO, "-q"]);
    let folder = super::folder(&pull.home_path(), REPO);
    fs::create_dir_all(&folder).expect("a folder");
    std::os::unix::fs::symlink(elsewhere.path(), folder.join("blobs")).expect("a link");
    pull.status(1)
        .stderr(format!(
            "error: `{}` leads out of the cache through a link\n\
             hint: set HF_HUB_CACHE to a cache that is a folder of its own\n",
            folder.join("blobs").display()
        ))
        .run();
    assert_eq!(files(elsewhere.path()), Vec::<String>::new());
    assert_eq!(hub.asked(Server::Cdn), 0);
}

#[cfg(unix)]
#[test]
fn a_hidden_link_for_the_part_file_is_not_written_through() {
    let hub = hub();
    let victim = TempDir::new().expect("a temporary folder");
    let victim_file = victim.path().join("precious");
    fs::write(&victim_file, "precious").expect("a file");
    let pull = pull(&hub, &[REPO, "-q"]);
    let blobs = super::folder(&pull.home_path(), REPO).join("blobs");
    fs::create_dir_all(&blobs).expect("a folder");
    let part = blobs.join(format!("{}.infer-part", content().sha256()));
    std::os::unix::fs::symlink(&victim_file, &part).expect("a link");
    pull.status(1)
        .stderr_is(move |text| text.starts_with(&format!("error: cannot open `{}`: ", part.display())))
        .run();
    assert_eq!(fs::read_to_string(&victim_file).expect("a file"), "precious");
}

#[test]
fn what_a_person_types_is_no_path_either() {
    for (name, status) in [
        ("org/name@../../x", 2),
        ("../../x/y.gguf", 3),
        ("org/../x", 2),
        ("org/name/../../x.gguf", 3),
        ("org/name/..\\x.gguf", 3),
        ("org/name\u{1b}[31m", 2),
    ] {
        let hub = hub();
        Infer::new()
            .args(["pull", name])
            .env("HF_ENDPOINT", hub.endpoint())
            .status(status)
            .stderr_is(|text| text.starts_with("error: ") && !text.contains('\u{1b}'))
            .run();
        assert_eq!(hub.requests().len(), 0);
    }
}
