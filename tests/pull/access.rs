//! Who may see what: every refusal of the hub is one cause and one next step.

use super::{FILE, FIRST, REPO, assert_published, content, hub, is_head, path_of, pull};
use crate::support::hub::{Fault, Hub, Place, Repo, Server};

const LOG_IN: &str = "set HF_TOKEN, or log in with `hf auth login`";

/// Pulls `args` with a token or without: exit code and what is said, `HOST` standing for the hub's address.
#[track_caller]
fn refused(hub: &Hub, args: &[&str], token: Option<&str>, status: i32, error: &str) {
    let endpoint = hub.endpoint();
    let mut expected = error.replace("HOST", endpoint.trim_start_matches("http://"));
    let mut pull = pull(hub, args).status(status);
    if let Some(token) = token {
        pull = pull.env("HF_TOKEN", token);
        expected.insert_str(0, &format!("the token from HF_TOKEN is sent to {endpoint}\n"));
    }
    pull.stderr(expected).run();
    assert_eq!((hub.asked(Server::Cdn), hub.xet_requests()), (0, 0));
}

fn with(repo: Repo) -> Hub {
    let hub = Hub::with(repo.content(FILE, &content()));
    hub.account("hf_other");
    hub
}

#[test]
fn what_does_not_exist_or_may_not_be_seen() {
    let anonymous = format!(
        "error: org/none does not exist, or is private and no token is set\n\
         hint: check the spelling; for a private one {LOG_IN}\n"
    );
    let known = "error: org/none does not exist, or the token from HF_TOKEN may not see it\n\
                 hint: check the spelling; for a private one check the token from HF_TOKEN\n";
    let hub = with(Repo::new(REPO).private().allow("hf_mine"));
    refused(&hub, &["org/none"], None, 3, &anonymous);
    refused(&hub, &["org/none"], Some("hf_other"), 3, known);
    refused(&hub, &[REPO], None, 3, &anonymous.replace("none", "name"));
    refused(&hub, &[REPO], Some("hf_other"), 3, &known.replace("none", "name"));
    let ran = pull(&hub, &[REPO, "-q"]).env("HF_TOKEN", "hf_mine").stdout(path_of(&hub, REPO, FILE)).run();
    assert_published(&hub, &ran.home, &content());
}

#[test]
fn a_token_that_the_hub_does_not_know() {
    refused(
        &hub(),
        &[REPO],
        Some("hf_wrong"),
        4,
        "error: the hub does not know the token from HF_TOKEN\n\
         hint: make a new one at https://huggingface.co/settings/tokens, or `unset HF_TOKEN` for open models\n",
    );
}

#[test]
fn gated_models() {
    let hub = with(Repo::new(REPO).gated("manual").allow("hf_mine"));
    refused(
        &hub,
        &[REPO],
        None,
        4,
        &format!(
            "error: org/name is gated: its licence has to be accepted first\n\
             hint: accept its licence at http://HOST/org/name, then {LOG_IN}\n"
        ),
    );
    refused(
        &hub,
        &[REPO],
        Some("hf_other"),
        4,
        "error: org/name is gated, and the account of the token from HF_TOKEN has no access\n\
         hint: accept its licence at http://HOST/org/name\n",
    );
    let ran = pull(&hub, &[REPO, "-q"]).env("HF_TOKEN", "hf_mine").stdout(path_of(&hub, REPO, FILE)).run();
    assert_published(&hub, &ran.home, &content());
}

#[test]
fn a_repository_that_the_hub_has_closed() {
    refused(
        &with(Repo::new(REPO).disabled()),
        &[REPO],
        None,
        4,
        "error: org/name has been disabled by the hub\n\
         hint: http://HOST/org/name may say why; choose another repository\n",
    );
}

#[test]
fn revisions_and_files_that_are_not_there() {
    refused(
        &hub(),
        &["org/name@v9"],
        None,
        3,
        "error: org/name has no revision `v9`\n\
         hint: http://HOST/org/name/tree/main lists its branches; without `@REVISION` it is `main`\n",
    );
    refused(
        &hub(),
        &["org/name/other.gguf"],
        None,
        3,
        "error: org/name has no `other.gguf`; it has Q4_K_M 6.3 MB\nhint: try `infer pull org/name:Q4_K_M`\n",
    );
    // A hub that lists a file and then has none.
    let hub = hub();
    let headers = [("X-Error-Code", "EntryNotFound"), ("X-Repo-Commit", &hub.commit(REPO, "main"))];
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    hub.set(Fault::Answer { status: 404, headers, body: String::new() }.at(Place::Head));
    refused(
        &hub,
        &[REPO],
        None,
        3,
        "error: org/name has no file `m-Q4_K_M.gguf`\n\
         hint: `infer show org/name` or http://HOST/org/name/tree/main lists what there is\n",
    );
}

#[test]
fn other_refusals_are_told_in_the_words_of_the_hub() {
    // A HEAD has no body to say it in.
    for (place, words) in [(Place::Info, ": Your \\u{1b}[31mcountry\\nis not served"), (Place::Head, "")] {
        let hub = hub();
        let body = r#"{"error":"Your \u001b[31mcountry\nis not served"}"#.to_owned();
        hub.set(Fault::Answer { status: 403, headers: Vec::new(), body }.at(place));
        refused(
            &hub,
            &[REPO],
            None,
            4,
            &format!(
                "error: the hub refuses access to org/name{words}\n\
                 hint: see http://HOST/org/name; {LOG_IN}\n"
            ),
        );
    }
    let hub = hub();
    hub.set(Fault::Status(418).at(Place::Info));
    refused(
        &hub,
        &[REPO],
        None,
        4,
        "error: HOST answers 418 I'm a teapot\nhint: the same command goes on where it stopped; try again later\n",
    );
}

#[test]
fn no_refusal_is_asked_for_twice() {
    for status in [401, 403, 404, 410, 451] {
        let hub = hub();
        hub.set(Fault::Status(status).at(Place::Info));
        pull(&hub, &[REPO]).status(if matches!(status, 401 | 404) { 3 } else { 4 }).stderr_is(|_| true).run();
        assert_eq!(hub.requests().len(), 1, "{status}");
    }
}

#[test]
fn access_that_is_lost_on_the_way_is_an_error_of_its_own() {
    let hub = with(Repo::new(REPO).gated("auto").allow("hf_mine"));
    hub.set(Fault::Expired.after(1).times(1));
    let headers = vec![("X-Error-Code".to_owned(), "GatedRepo".to_owned())];
    hub.set(Fault::Answer { status: 403, headers, body: String::new() }.at(Place::Head).after(1));
    let endpoint = hub.endpoint();
    pull(&hub, &[REPO, "--connections", "1", "-q"])
        .env("HF_TOKEN", "hf_mine")
        .status(4)
        .stderr(format!(
            "error: org/name is gated, and the account of the token from HF_TOKEN has no access\n\
             hint: accept its licence at {endpoint}/org/name\n"
        ))
        .run();
    assert_eq!(hub.count(is_head), 2);
    assert_eq!(hub.ranges(), [FIRST]);
    assert!(!hub.token_seen_on_cdn());
}
