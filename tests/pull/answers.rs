//! Answers that are wrong: other bytes than were asked for or promised, and those of somebody who is no hub.

use super::faults::{ONE, fails, host, recovers};
use super::{
    FILE, MIB, REPO, SECOND, assert_nothing_published, assert_published, blobs, content, hub, is_get,
    is_head, path_of, pull, said_with, timeless,
};
use crate::support::hub::{Content, Fault, Hub, Place, Repo, Server};

#[test]
fn an_answer_to_another_question_is_not_written() {
    for fault in [Fault::WrongContentRange, Fault::NoContentRange, Fault::Gzip] {
        let hub = recovers(fault.times(1), &[]);
        assert_eq!(hub.count(is_get), 3);
    }
    let cases = [
        (
            Fault::WrongContentRange,
            "sends `bytes 1-4194304/6291456` when asked for `bytes 0-4194303/6291456`",
        ),
        (Fault::NoContentRange, "sends `` when asked for `bytes 0-4194303/6291456`"),
        (Fault::Gzip, "sends gzip instead of the bytes"),
        (Fault::LoginPage, "sends a file of 50 B instead of 6.3 MB"),
    ];
    for (fault, error) in cases {
        let hub = hub();
        hub.set(fault.at(Place::Cdn));
        let cdn = hub.cdn();
        fails(
            &hub,
            4,
            &["--retries", "0"],
            &format!(
                "error: {} {error}, 0 B of 6.3 MB are kept\n\
                 hint: `infer pull org/name/m-Q4_K_M.gguf` goes on from there\n",
                host(&cdn)
            ),
        );
    }
}

#[test]
fn less_than_was_asked_for_is_taken_and_the_rest_asked_for() {
    let hub = recovers(Fault::ShortRange { len: 3 * MIB }, &[]);
    assert_eq!(hub.ranges(), [0..3 * MIB, 3 * MIB..4 * MIB, SECOND]);
}

#[test]
fn a_body_without_end_is_left_at_the_end_of_the_file() {
    let hub = recovers(Fault::Endless, &[]);
    assert_eq!(hub.count(is_get), 2);
    // The same from a server without ranges.
    let hub = super::hub();
    hub.set(Fault::IgnoreRange);
    hub.set(Fault::Endless);
    let ran = pull(&hub, &[REPO, "--connections", "1", "-q"])
        .stdout(path_of(&hub, REPO, FILE))
        .stderr("the server sends whole files only: one connection, and what breaks begins again\n")
        .run();
    assert_published(&hub, &ran.home, &content());
}

#[test]
fn one_wrong_byte_is_repaired() {
    let flip = Fault::Flip { offset: 5 * MIB + 77 };
    let note = |_: &Hub| {
        "m-Q4_K_M.gguf: the bytes are not those that the hub promises (SHA-256 WRONG…); fetching all of it again\n"
            .to_owned()
    };
    let hub = hub();
    hub.set(flip.times(1));
    let wrong = {
        let mut bytes = content().bytes(&(0..6 * MIB));
        bytes[usize::try_from(5 * MIB).expect("a place") + 77] ^= 0xff;
        Content::new(bytes).sha256()
    };
    let notes = note(&hub).replace("WRONG", &wrong[..12]);
    let said = said_with(&hub, &notes).replace("m-Q4_K_M.gguf: 6.3 MB in", "m-Q4_K_M.gguf: 12.6 MB in");
    let ran = pull(&hub, &ONE).stdout(path_of(&hub, REPO, FILE)).stderr_is(timeless(said)).run();
    assert_published(&hub, &ran.home, &content());
    assert_eq!((hub.count(is_get), hub.count(is_head)), (4, 2));
}

#[test]
fn bytes_that_stay_wrong_are_not_published() {
    for (fault, promised) in
        [(Fault::Flip { offset: 9 }, content().sha256()), (Fault::Etag("ab".repeat(32)), "ab".repeat(32))]
    {
        let is_flip = matches!(fault, Fault::Flip { .. });
        let mut bytes = content().bytes(&(0..6 * MIB));
        if is_flip {
            bytes[9] ^= 0xff;
        }
        let got = Content::new(bytes).sha256();
        let hub = hub();
        hub.set(fault);
        let ran = fails(
            &hub,
            1,
            &[],
            &format!(
                "m-Q4_K_M.gguf: the bytes are not those that the hub promises (SHA-256 {}…); fetching all of it again\n\
                 error: org/name/m-Q4_K_M.gguf came twice with other bytes than the hub promises (SHA-256 {}…, not {}…); nothing was kept\n\
                 hint: a proxy may change them: try another network, then `infer pull org/name/m-Q4_K_M.gguf`\n",
                &got[..12],
                &got[..12],
                &promised[..12]
            ),
        );
        assert_eq!(blobs(&ran.home), [""; 0]);
    }
}

#[test]
fn a_file_without_a_checksum_is_not_fetched() {
    let hub = Hub::with(Repo::new(REPO).git_file(FILE, super::tiny()));
    pull(&hub, &[REPO])
        .status(1)
        .stderr(
            "error: the file is one of git's, for which the hub promises no SHA-256\n\
             hint: choose another file or repository\n",
        )
        .run();
    assert_eq!(hub.count(|request| request.method == "GET"), 1);
}

#[test]
fn a_file_that_is_no_model_is_not_published() {
    let hub = Hub::with(Repo::new(REPO).file(FILE, "version https://git-lfs.github.com/spec/v1\n".repeat(9)));
    let ran = pull(&hub, &[REPO, "-q"])
        .status(1)
        .stderr_is(|text| text.starts_with("error: org/name/m-Q4_K_M.gguf is not a model: "))
        .run();
    assert_eq!(blobs(&ran.home), [""; 0]);
    assert_nothing_published(&ran.home);
}

#[test]
fn a_page_instead_of_the_hub() {
    for (place, why) in [(Place::Info, "it is not JSON"), (Place::Head, "no X-Repo-Commit")] {
        let hub = hub();
        hub.set(Fault::LoginPage.at(place));
        not_a_hub(&hub, why);
    }
    for (fault, why) in [
        (Fault::NoCommit, "no X-Repo-Commit"),
        (Fault::NoEtag, "its checksum is ``"),
        (Fault::NoSize, "no size"),
    ] {
        let hub = hub();
        hub.set(fault.at(Place::Head));
        not_a_hub(&hub, why);
    }
}

#[track_caller]
fn not_a_hub(hub: &Hub, why: &str) {
    let endpoint = hub.endpoint();
    pull(hub, &[REPO])
        .status(4)
        .stderr(format!(
            "error: the answer of {} is not that of a hub: {why}\n\
             hint: check `HF_ENDPOINT`, a proxy, or the login page of this network in a browser\n",
            host(&endpoint)
        ))
        .run();
    assert_eq!(hub.asked(Server::Cdn), 0);
}

#[test]
fn redirects_that_lead_nowhere() {
    let check = "hint: check `HF_ENDPOINT` and the proxy of your network\n";
    for place in [Place::Info, Place::Head] {
        let hub = hub();
        hub.set(Fault::RedirectLoop.at(place));
        let endpoint = hub.endpoint();
        pull(&hub, &[REPO])
            .status(4)
            .stderr(format!("error: {} redirects in circles\n{check}", host(&endpoint)))
            .run();
        assert!(hub.requests().len() <= 12, "{:?}", hub.lines(Server::Hub));
    }
    let hub = hub();
    hub.set(Fault::RedirectTo("http://example.invalid/repos/x?X-Amz-Signature=secret".to_owned()));
    pull(&hub, &[REPO])
        .status(4)
        .stderr(format!(
            "error: the hub redirects to example.invalid over a connection that is not encrypted\n{check}"
        ))
        .run();
}
