//! `infer doctor`: a home where all is well, and homes where one thing after the other is not.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use crate::support::Infer;
use crate::support::hub::{Hub, Repo, Server};

const SHA: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

/// The object of `--json`, which is all that is printed.
fn examine(infer: Infer, status: i32) -> Value {
    let ran = infer.args(["doctor", "--json"]).stdout_is(|_| true).status(status).run();
    assert_eq!(ran.stdout.lines().count(), 1, "{}", ran.stdout);
    serde_json::from_str(&ran.stdout).expect("an object")
}

fn offline() -> Infer {
    Infer::new().arg("-q").env("HF_HUB_OFFLINE", "1")
}

/// State, finding and next step of a check.
fn check<'v>(value: &'v Value, name: &str) -> (&'v str, &'v str, &'v str) {
    let checks = value["checks"].as_array().expect("checks");
    let check = checks.iter().find(|check| check["name"] == name).expect(name);
    let text = |key: &str| check[key].as_str().unwrap_or_default();
    (text("state"), text("found"), text("next"))
}

#[test]
fn a_new_home_is_well() {
    let hub = Hub::with(Repo::new("org/smollm2").file("a.gguf", "x"));
    let value = examine(Infer::new().env("HF_ENDPOINT", hub.endpoint()), 0);
    let names: Vec<&str> =
        value["checks"].as_array().unwrap().iter().map(|check| check["name"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        [
            "processor",
            "backends",
            "gpu",
            "memory",
            "hub cache",
            "cache",
            "data",
            "token",
            "hub",
            "names",
            "prompts",
            "models",
            "answer"
        ]
    );
    for (name, found) in [
        ("token", "none; models that are open to all need none".to_owned()),
        ("hub", format!("{} answers", hub.endpoint())),
        ("prompts", "0 entries kept on disk, 0 B".to_owned()),
        ("models", "0 models here".to_owned()),
        ("answer", "the built-in model answers".to_owned()),
    ] {
        assert_eq!(check(&value, name), ("ok", found.as_str(), ""));
    }
    assert_eq!(hub.asked(Server::Hub), 1);
}

#[test]
fn a_hub_that_does_not_answer_is_a_warning_and_none_is_asked_offline() {
    let value = examine(Infer::new().env("HF_ENDPOINT", Hub::refused()), 0);
    let (state, _, next) = check(&value, "hub");
    assert!(state == "warn" && !next.is_empty());
    let hub = Hub::new();
    for infer in [
        Infer::new().env("HF_ENDPOINT", hub.endpoint()).env("HF_HUB_OFFLINE", "1").arg("-q"),
        Infer::new().env("HF_ENDPOINT", hub.endpoint()).args(["-q"]),
    ] {
        let ran =
            infer.args(["doctor", "--offline"]).stdout_is(|text| text.contains("not asked: offline")).run();
        assert!(
            ran.stdout.lines().any(|line| line.starts_with("ok ") && line.contains(" hub ")),
            "{}",
            ran.stdout
        );
    }
    assert_eq!(hub.asked(Server::Hub), 0);
}

#[test]
fn a_token_is_named_and_never_shown() {
    let hub = Hub::new();
    hub.account("hf_secret");
    let value = examine(Infer::new().env("HF_ENDPOINT", hub.endpoint()).env("HF_TOKEN", "hf_secret"), 0);
    let found = format!("from HF_TOKEN, sent to {}", hub.endpoint());
    assert_eq!(check(&value, "token"), ("ok", found.as_str(), ""));
    assert!(!value.to_string().contains("hf_secret"));
    let value = examine(offline().env("HF_TOKEN", "hf secret"), 1);
    assert_eq!(check(&value, "token").0, "fail");
    assert!(!value.to_string().contains("hf secret"));
}

#[test]
fn what_is_broken_is_found_with_a_next_step() {
    let entry = "cache/infer/prefixes/broken.kv";
    let part = format!("cache/huggingface/hub/models--org--name/blobs/{SHA}.infer-part");
    let value = examine(offline().file(entry, "no entry").file(part, "half"), 0);
    assert_eq!(value["state"], "warn");
    let found = "1 entry kept on disk, 8 B; 1 cannot be used";
    assert_eq!(check(&value, "prompts"), ("warn", found, "infer cache clear --yes"));
    let found = "0 models here; 1 download did not end";
    assert_eq!(check(&value, "models"), ("warn", found, "infer rm org/name --dry-run"));
}

#[test]
fn a_folder_of_prompts_is_for_its_owner_alone() {
    let infer = offline();
    let folder = infer.home_path().join("cache/infer/prefixes");
    fs::create_dir_all(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
    let value = examine(infer, 0);
    let next = format!("chmod 700 '{}'", folder.display());
    assert_eq!((check(&value, "prompts").0, check(&value, "prompts").2), ("warn", next.as_str()));
}

#[test]
fn what_cannot_work_fails() {
    let infer =
        offline().file("file", "").env("HF_HUB_CACHE", "file/hub").file("config/infer/models.toml", "= 1");
    let value = examine(infer, 1);
    assert_eq!(value["state"], "fail");
    let (state, found, next) = check(&value, "hub cache");
    assert!(state == "fail" && found.starts_with("cannot write to `~/file/hub`: "), "{found}");
    assert_eq!(next, "set HF_HUB_CACHE to a folder that can be written");
    assert_eq!(check(&value, "names").0, "fail");

    let ran = offline().file("file", "").env("HF_HUB_CACHE", "file").arg("doctor");
    ran.stdout_is(|_| true).stderr("error: 1 check failed\n").status(1).run();
}
