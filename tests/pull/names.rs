//! What a name means on a hub: aliases, quants, revisions, folders, parts.

use super::{folder, path_of, pull, tiny};
use crate::support::Infer;
use crate::support::hub::{Hub, Repo, Server};

const MANY: &str = "org/many-GGUF";

/// A repository as they are: several quants, a folder, and files that are no models.
fn many() -> Hub {
    Hub::with(
        Repo::new(MANY)
            .file("m-Q8_0.gguf", [tiny(), vec![0; 8]].concat())
            .file("m-Q4_K_M.gguf", tiny())
            .file("UD/m-UD-Q4_K_XL.gguf", tiny())
            .file("m-BF16.gguf", tiny())
            .file("mmproj-m-F16.gguf", tiny())
            .file("mtp-m-Q4_0.gguf", tiny())
            .file("m.imatrix.gguf", tiny())
            .file("README.md", "# Many\n")
            .file(".gitattributes", "*.gguf filter=lfs\n"),
    )
}

/// Pulls a name: the file that is chosen.
#[track_caller]
fn chooses(hub: &Hub, name: &str, file: &str) {
    pull(hub, &[name, "-q"]).stdout(path_of(hub, MANY, file)).run();
}

#[track_caller]
fn refuses(hub: &Hub, name: &str, status: i32, error: &str) {
    pull(hub, &[name]).status(status).stderr(error).run();
    assert_eq!(hub.asked(Server::Cdn), 0);
}

/// A size as it is shown.
fn shown(bytes: usize) -> String {
    let tenths = |unit: usize| (bytes * 10 + unit / 2) / unit;
    let (tenths, unit) = if tenths(1000) < 10_000 { (tenths(1000), "KB") } else { (tenths(1_000_000), "MB") };
    format!("{}.{} {unit}", tenths / 10, tenths % 10)
}

#[test]
fn a_name_means_one_file() {
    let hub = many();
    for (name, file) in [
        ("org/many-GGUF", "m-Q4_K_M.gguf"),
        ("hf.co/org/many-GGUF", "m-Q4_K_M.gguf"),
        ("https://huggingface.co/org/many-GGUF", "m-Q4_K_M.gguf"),
        ("org/many-GGUF:q8_0", "m-Q8_0.gguf"),
        ("org/many-GGUF:q8", "m-Q8_0.gguf"),
        ("org/many-GGUF:BF16", "m-BF16.gguf"),
        ("org/many-GGUF:UD-Q4_K_XL", "UD/m-UD-Q4_K_XL.gguf"),
        ("org/many-GGUF:Q4_K_XL", "UD/m-UD-Q4_K_XL.gguf"),
        ("org/many-GGUF/UD/m-UD-Q4_K_XL.gguf", "UD/m-UD-Q4_K_XL.gguf"),
        ("org/many-GGUF/M-q8_0.gguf", "m-Q8_0.gguf"),
        ("org/many-GGUF/m-UD-Q4_K_XL.gguf", "UD/m-UD-Q4_K_XL.gguf"),
    ] {
        chooses(&hub, name, file);
    }
}

#[test]
fn what_is_not_there_is_answered_with_all_that_is() {
    // `F16` is neither `BF16` nor the helper's.
    let hub = many();
    let size = |extra| shown(tiny().len() + extra);
    refuses(
        &hub,
        "org/many-GGUF:F16",
        3,
        &format!(
            "error: org/many-GGUF has no `F16`; it has UD-Q4_K_XL {0}, BF16 {0}, Q4_K_M {0}, Q8_0 {1}\n\
             hint: try `infer pull org/many-GGUF:BF16`\n",
            size(0),
            size(8)
        ),
    );
}

#[test]
fn a_list_comes_by_pages() {
    let hub = many();
    hub.page_size(2);
    pull(&hub, &["org/many-GGUF:F16"])
        .status(3)
        .stderr_is(|text| {
            ["UD-Q4_K_XL", "BF16", "Q4_K_M", "Q8_0"].iter().all(|quant| text.contains(&format!("{quant} ")))
        })
        .run();
    assert_eq!(hub.count(|request| request.path().contains("/tree/")), 5);
}

#[test]
fn nothing_is_guessed() {
    let hub = Hub::with(
        Repo::new(MANY)
            .file("a-Q2_K.gguf", tiny())
            .file("b-Q3_K_S.gguf", tiny())
            .file("c-Q3_K_S.gguf", tiny()),
    );
    let size = shown(tiny().len());
    refuses(
        &hub,
        MANY,
        3,
        &format!(
            "error: org/many-GGUF has none of the usual quants; it has Q2_K {size}, Q3_K_S {size}, Q3_K_S {size}\n\
             hint: choose one: `infer pull org/many-GGUF:Q2_K`\n"
        ),
    );
    refuses(
        &hub,
        "org/many-GGUF:Q3_K_S",
        2,
        "error: `org/many-GGUF:Q3_K_S` means 2 files: b-Q3_K_S.gguf, c-Q3_K_S.gguf\n\
         hint: give the file: `infer pull org/many-GGUF/b-Q3_K_S.gguf`\n",
    );
}

#[test]
fn a_repository_without_models_leads_to_others() {
    let hub = many();
    hub.add(Repo::new("org/many").file("model.safetensors", "x"));
    hub.add(Repo::new("other/MANY-gguf").file("a.gguf", tiny()));
    refuses(
        &hub,
        "org/many",
        3,
        "error: org/many has no GGUF files\nhint: try `infer pull org/many-GGUF` or `infer pull other/MANY-gguf`\n",
    );
    let hub = Hub::with(Repo::new("org/few").file("model.safetensors", "x").file("mmproj-F16.gguf", "x"));
    refuses(
        &hub,
        "org/few",
        3,
        "error: org/few has no GGUF files\nhint: look for one with them, such as `org/few-GGUF`\n",
    );
}

#[test]
fn the_hub_decides_how_a_name_is_written() {
    let hub = many();
    chooses(&hub, "ORG/Many-gguf", "m-Q4_K_M.gguf");
    hub.rename("old/name", MANY);
    let ran = pull(&hub, &["old/name", "-q"]).stdout(path_of(&hub, MANY, "m-Q4_K_M.gguf")).run();
    assert!(!folder(ran.home.path(), "old/name").exists());
    // Then it is found as it was typed, but for the letter case only under its own name.
    hub.forget();
    pull(&hub, &["ORG/Many-gguf", "-q"])
        .home(&ran.home)
        .env("HF_HUB_OFFLINE", "1")
        .stdout(path_of(&hub, MANY, "m-Q4_K_M.gguf"))
        .run();
    assert_eq!(hub.requests().len(), 0);
}

#[test]
fn revisions_lead_to_their_commits() {
    let hub = Hub::with(
        Repo::new(MANY)
            .file("m.gguf", tiny())
            .named("v1.0")
            .file("m.gguf", [tiny(), vec![1; 8]].concat())
            .named("refs/pr/1")
            .file("m.gguf", [tiny(), vec![2; 8]].concat()),
    );
    let main = hub.commit(MANY, "main");
    let home = pull(&hub, &[MANY, "-q"]).stdout(path_of(&hub, MANY, "m.gguf")).run().home;
    let refs = folder(home.path(), MANY).join("refs");
    for revision in ["v1.0", "refs/pr/1", "main", &hub.commit(MANY, "v1.0")] {
        let commit = hub.commit(MANY, revision);
        let path = path_of(&hub, MANY, "m.gguf").replace(&main, &commit);
        for name in [format!("{MANY}@{revision}"), format!("{MANY}/m.gguf@{revision}")] {
            pull(&hub, &[&name, "-q"]).home(&home).stdout(&path).run();
        }
        let known = std::fs::read_to_string(refs.join(revision)).ok();
        assert_eq!(known, Some(commit).filter(|commit| commit != revision), "{revision}");
    }
}

#[test]
fn names_of_a_persons_own() {
    let hub = many();
    let own = "[mine]\nrepo = \"org/many-GGUF\"\nquant = \"Q8_0\"\n[its]\nsame_as = \"mine\"\n\
               [file]\nrepo = \"org/many-GGUF\"\nfile = \"UD/m-UD-Q4_K_XL.gguf\"\n";
    for (name, file) in [
        ("mine", "m-Q8_0.gguf"),
        ("MINE", "m-Q8_0.gguf"),
        ("its", "m-Q8_0.gguf"),
        ("mine:bf16", "m-BF16.gguf"),
        ("file", "UD/m-UD-Q4_K_XL.gguf"),
    ] {
        pull(&hub, &[name, "-q"])
            .file("config/infer/models.toml", own)
            .stdout(path_of(&hub, MANY, file))
            .run();
    }
    hub.forget();
    pull(&hub, &["mime"])
        .file("config/infer/models.toml", own)
        .status(3)
        .stderr_is(|text| text.contains("`mime`") && text.contains("`mine`"))
        .run();
    assert_eq!(hub.requests().len(), 0);
}

#[test]
fn the_parts_of_a_model_come_together() {
    let part = |number: u8| [tiny(), vec![number; 40]].concat();
    let repo = Repo::new(MANY)
        .file("Q8_0/m-Q8_0-00001-of-00003.gguf", part(1))
        .file("Q8_0/m-Q8_0-00002-of-00003.gguf", part(2))
        .file("Q8_0/m-Q8_0-00003-of-00003.gguf", part(3))
        .file("m-Q2_K-00001-of-00002.gguf", part(4));
    let hub = Hub::with(repo);
    for name in [MANY, "org/many-GGUF:Q8_0", "org/many-GGUF/Q8_0/m-Q8_0-00002-of-00003.gguf"] {
        let ran =
            pull(&hub, &[name, "-q"]).stdout(path_of(&hub, MANY, "Q8_0/m-Q8_0-00001-of-00003.gguf")).run();
        let snapshot = folder(ran.home.path(), MANY).join("snapshots").join(hub.commit(MANY, "main"));
        for number in 1..=3 {
            let path = snapshot.join(format!("Q8_0/m-Q8_0-0000{number}-of-00003.gguf"));
            assert_eq!(std::fs::read(path).expect("a part"), part(number));
        }
    }
    let size = shown(part(1).len() * 3);
    hub.forget();
    refuses(
        &hub,
        "org/many-GGUF:Q2_K",
        3,
        &format!(
            "error: part 2 of org/many-GGUF:Q2_K is missing on the hub\nhint: it also has Q8_0 {size}\n"
        ),
    );
}

#[test]
fn each_part_is_told_and_the_path_is_that_of_the_first() {
    let part = |number: u8| [tiny(), vec![number; 40]].concat();
    let hub = Hub::with(
        Repo::new(MANY).file("m-00001-of-00002.gguf", part(1)).file("m-00002-of-00002.gguf", part(2)),
    );
    let (size, both) = (shown(part(1).len()), shown(part(1).len() * 2));
    let expected = format!(
        "org/many-GGUF:m ({both} in 2 files)\nlicense: apache-2.0 ({}/org/many-GGUF)\n\
         m-00001-of-00002.gguf: fetching {size}\nm-00001-of-00002.gguf: {size} in TIME, SHA-256 verified\n\
         m-00002-of-00002.gguf: fetching {size}\nm-00002-of-00002.gguf: {size} in TIME, SHA-256 verified\n",
        hub.endpoint()
    );
    pull(&hub, &[MANY])
        .stdout(path_of(&hub, MANY, "m-00001-of-00002.gguf"))
        .stderr_is(super::timeless(expected))
        .run();
}

#[test]
fn what_is_a_file_or_in_the_program_is_not_asked_for() {
    let hub = many();
    pull(&hub, &["./m.gguf"])
        .file("m.gguf", tiny())
        .stdout("./m.gguf\n")
        .stderr("./m.gguf: already here\n")
        .run();
    pull(&hub, &["demo", "-q"]).stdout_is(|text| text.ends_with(".gguf\n")).run();
    Infer::new()
        .args(["pull", "qwen3-8x"])
        .env("HF_ENDPOINT", hub.endpoint())
        .status(3)
        .stderr_is(|text| text.starts_with("error: ") && text.contains("`qwen3"))
        .run();
    assert_eq!(hub.requests().len(), 0);
}
