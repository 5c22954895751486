use super::*;

fn shipped() -> Registry {
    Registry::load(None).unwrap()
}

fn alias(text: &str) -> Alias {
    match super::super::name::ModelRef::parse(text, "https://huggingface.co", &|_| false).unwrap() {
        super::super::name::ModelRef::Alias(alias) => alias,
        other => panic!("{text} is {other:?}"),
    }
}

/// The shipped names under a user's file.
fn with_own(text: &str) -> Result<Registry> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("models.toml");
    std::fs::write(&path, text).unwrap();
    Registry::load(Some(&path)).map_err(|mut error| {
        error.message = error.message.replace(path.to_str().unwrap(), "models.toml");
        error
    })
}

#[test]
fn every_shipped_entry_is_complete() {
    let registry = shipped();
    assert!(registry.entries().count() >= 30, "{} entries", registry.entries().count());
    for entry in registry.entries() {
        let alias = &entry.alias;
        assert!(!entry.license.is_empty(), "{alias} has no licence");
        let size = entry.size.strip_prefix('E').unwrap_or(&entry.size).to_lowercase();
        let parameters = parameters(&size).unwrap_or_else(|| panic!("{alias}: {size}"));
        assert!((1e8..4e10).contains(&parameters), "{alias}: {}", entry.size);
        if let Some((_, size)) = alias.split_once(':') {
            let own = super::parameters(size).unwrap_or_else(|| panic!("{alias} has no size"));
            assert!((own / parameters).ln().abs() < 0.1, "{alias}: {}", entry.size);
        }
        let about = &entry.about;
        assert!(about.len() >= 20 && about.len() <= 90 && !about.ends_with('.'), "{alias}: {about}");
        assert_ne!(entry.pick, Pick::Default, "{alias} leaves open which file");
        if let Pick::Quant(quant) = &entry.pick {
            assert_eq!(quant::quant_of(quant).as_ref(), Some(quant), "{alias}");
        }
        assert_eq!(entry.sha256.is_some(), entry.revision.is_some(), "{alias} pins one of two");
        assert!(!entry.own);
        assert_eq!(
            registry.entry_for(&registry.resolve(&self::alias(alias)).unwrap()),
            Some(entry),
            "{alias}"
        );
    }
}

#[test]
fn every_family_has_a_size_that_its_bare_name_means() {
    let registry = shipped();
    for entry in registry.entries() {
        let (family, _) = entry.alias.split_once(':').unwrap_or((&entry.alias, ""));
        let meant = registry.get(family).unwrap_or_else(|| panic!("`{family}` means nothing"));
        assert!(meant.alias.starts_with(family), "`{family}` means `{}`", meant.alias);
    }
    for link in registry.links.keys() {
        assert!(!link.contains(':') && registry.get(link).is_some(), "{link}");
    }
}

#[test]
fn the_shipped_file_has_its_notes_and_no_surprises() {
    assert!(SHIPPED.is_ascii());
    assert!(SHIPPED.lines().all(|line| line.len() <= 120));
    let example: String = SHIPPED
        .lines()
        .filter_map(|line| line.strip_prefix("#     "))
        .fold(String::new(), |text, line| text + line + "\n");
    let registry = with_own(&example).unwrap();
    assert!(registry.entries().any(|entry| entry.own), "the example at the head of the file has no entry");
}

#[test]
fn an_alias_resolves_as_a_whole_and_then_with_a_quant() {
    let registry = shipped();
    for (text, expected) in [
        ("qwen3:8b", "Qwen/Qwen3-8B-GGUF:Q4_K_M"),
        ("Qwen3:8B", "Qwen/Qwen3-8B-GGUF:Q4_K_M"),
        ("qwen3:8b:Q8_0", "Qwen/Qwen3-8B-GGUF:q8_0"),
        ("qwen3:8b:some-file", "Qwen/Qwen3-8B-GGUF:some-file"),
        ("qwen3", "Qwen/Qwen3-4B-GGUF:Q4_K_M"),
        ("qwen3:q8", "Qwen/Qwen3-4B-GGUF:q8"),
        ("qwen3:UD-Q4_K_XL", "Qwen/Qwen3-4B-GGUF:ud-q4_k_xl"),
        ("phi4-mini:q8_0", "unsloth/Phi-4-mini-instruct-GGUF:q8_0"),
        ("gpt-oss", "ggml-org/gpt-oss-20b-GGUF/gpt-oss-20b-mxfp4.gguf"),
    ] {
        assert_eq!(registry.resolve(&alias(text)).unwrap().to_string(), expected, "{text}");
    }
}

#[test]
fn an_unknown_alias_gets_the_nearest_names() {
    let registry = shipped();
    for (text, nearest) in [
        ("qwen3:9b", &["qwen3:8b", "qwen3:14b", "qwen3:4b"][..]),
        ("qwen3:0.5b", &["qwen3:0.6b", "qwen3:1.7b", "qwen3:4b"]),
        ("gemma4:27b", &["gemma4:26b", "gemma4:12b", "gemma4:e4b"]),
        ("llama3.2:7b", &["llama3.2:3b", "llama3.2:1b"]),
        ("phi4:15b", &["phi4:14b"]),
        ("zzz", &[]),
        ("nothing-like-it", &[]),
    ] {
        assert_eq!(registry.nearest(text), nearest, "{text}");
    }
    for (text, near) in [
        ("qwen3-8", "qwen3:8b"),
        ("qwen3:8", "qwen3:8b"),
        ("qwen", "qwen3"),
        ("lama3.2", "llama3.2"),
        ("llama3:8b", "llama3.1:8b"),
        ("gema3", "gemma3"),
        ("smolm2", "smollm2"),
        ("mistral", "mistral-nemo"),
        ("gptoss", "gpt-oss"),
        ("phi-4", "phi4"),
        ("deepseek", "deepseek-r1"),
        ("Gema3:Q4_K_M", "gemma3"),
    ] {
        let nearest = registry.nearest(text);
        assert!(nearest.contains(&near) && nearest.len() <= 3, "{text}: {nearest:?}");
    }
}

#[test]
fn an_unknown_alias_is_an_error_with_a_next_step() {
    let registry = shipped();
    for (text, message, hint) in [
        ("qwen3:9b", "no such model: `qwen3:9b`", "did you mean `qwen3:8b`, `qwen3:14b` or `qwen3:4b`?"),
        ("qwen3:latest", "no such model: `qwen3:latest`", "did you mean `qwen3:"),
        ("phi4:15b", "no such model: `phi4:15b`", "did you mean `phi4:14b`?"),
        ("a\u{1b}b", "no such model: `a\\u{1b}b`", "give `org/repo` of a model on the hub"),
    ] {
        let error = registry.resolve(&alias(text)).unwrap_err();
        assert_eq!((error.kind, error.message.as_str()), (Kind::NotFound, message));
        assert!(error.hint.as_ref().unwrap().starts_with(hint), "{:?}", error.hint);
    }
}

#[test]
fn sizes_are_numbers() {
    for (size, expected) in [
        ("0.6b", Some(6e8)),
        ("135m", Some(1.35e8)),
        ("30b-a3b", Some(3e10)),
        ("e4b", Some(4e9)),
        ("8", None),
        ("latest", None),
        ("b", None),
        ("", None),
        ("q4_k_m", None),
    ] {
        assert_eq!(parameters(size), expected, "{size}");
    }
}

#[test]
fn entries_go_by_name_and_size() {
    let registry = shipped();
    let sizes: Vec<&str> =
        registry.entries().filter_map(|entry| entry.alias.strip_prefix("qwen3:")).collect();
    assert_eq!(sizes, ["0.6b", "1.7b", "4b", "8b", "14b"]);
}

#[test]
fn the_users_file_lies_over_the_shipped_one_name_by_name() {
    let registry = with_own(
        r#"
        mine = { repo = "me/Mine-GGUF" }
        qwen3 = { same_as = "mine" }
        work = { same_as = "qwen3:8b" }
        ["gemma3:4b"]
        repo = "me/gemma"
        file = "a/g.gguf"
        revision = "main"
        sampling = { temp = 1, top_k = 64 }
        "#,
    )
    .unwrap();
    let resolved = |text: &str| registry.resolve(&alias(text)).unwrap().to_string();
    assert_eq!(resolved("mine"), "me/Mine-GGUF");
    assert_eq!(resolved("mine:q8"), "me/Mine-GGUF:q8");
    assert_eq!(resolved("qwen3"), "me/Mine-GGUF");
    assert_eq!(resolved("work"), "Qwen/Qwen3-8B-GGUF:Q4_K_M");
    assert_eq!(resolved("gemma3"), "me/gemma/a/g.gguf@main");
    assert_eq!(resolved("qwen3:4b"), "Qwen/Qwen3-4B-GGUF:Q4_K_M");
    let gemma = registry.get("gemma3:4b").unwrap();
    assert!(gemma.own && gemma.license.is_empty());
    assert_eq!(gemma.sampling, BTreeMap::from([("temp".to_owned(), 1.0), ("top_k".to_owned(), 64.0)]));
    assert!(!registry.get("work").unwrap().own);
}

#[test]
fn an_entry_is_found_by_what_it_stands_for() {
    let registry = with_own("mine = { repo = 'qwen/qwen3-8b-gguf', quant = 'Q8_0' }").unwrap();
    let hub = |text: &str| match super::super::name::ModelRef::parse(text, "", &|_| false).unwrap() {
        super::super::name::ModelRef::Hub(hub) => hub,
        other => panic!("{other:?}"),
    };
    let found = |text: &str| registry.entry_for(&hub(text)).map(|entry| entry.alias.as_str());
    assert_eq!(found("Qwen/Qwen3-8B-GGUF:Q4_K_M"), Some("qwen3:8b"));
    assert_eq!(found("Qwen/Qwen3-8B-GGUF:Q8_0"), Some("mine"));
    assert_eq!(found("qwen/qwen3-8b-gguf:Q5_K_M"), Some("mine")); // same model, other quant: the user's goes first
    assert_eq!(found("qwen/qwen3-4b-gguf"), Some("qwen3:4b"));
    assert_eq!(found("o/r"), None);
}

#[test]
fn a_broken_file_is_an_error_that_names_file_line_and_cause() {
    let sha = "0".repeat(64);
    for (text, message) in [
        ("a = {", "`models.toml` line 1: "),
        ("\n\na = 1", "`models.toml` line 3: invalid type: integer `1`, expected a table"),
        (
            "[a]\nrepo = 'o/r'\nrepoo = 1",
            "`models.toml` line 3: unknown field `repoo`, expected one of `same_as`, `repo`",
        ),
        ("[a]\nrepo = 'o/r'\n[a]", "`models.toml` line 3: duplicate key"),
        ("[a]\nrepo = 1", "`models.toml` line 2: invalid type: integer `1`, expected a string"),
        ("\n[a]", "`models.toml` line 2: `a`: `repo` or `same_as` is missing"),
        (
            "[a]\nrepo = 'o/r'\nsame_as = 'b'",
            "`models.toml` line 1: `a`: `repo` and `same_as` exclude each other",
        ),
        ("[a]\nrepo = '../r'", "`models.toml` line 1: `a`: `../r` is not the name of a repository"),
        (
            "[a]\nrepo = 'o/r'\nfile = '../x.gguf'",
            "`models.toml` line 1: `a`: `file` must be the path of a GGUF file in the repository",
        ),
        (
            "[a]\nrepo = 'o/r'\nfile = 'x.bin'",
            "`models.toml` line 1: `a`: `file` must be the path of a GGUF file in the repository",
        ),
        (
            "[a]\nrepo = 'o/r'\nfile = 'x.gguf'\nquant = 'Q8_0'",
            "`models.toml` line 1: `a`: `quant` and `file` exclude each other",
        ),
        ("[a]\nrepo = 'o/r'\nrevision = '..'", "`models.toml` line 1: `a`: `..` is not a revision"),
        (
            "[a]\nrepo = 'o/r'\nsha256 = 'x'",
            "`models.toml` line 1: `a`: `sha256` must be 64 hex digits in lower case",
        ),
        (
            &format!("[a]\nrepo = 'o/r'\nsha256 = '{sha}'\nfile = 'x.gguf'"),
            "`models.toml` line 1: `a`: `sha256` needs a `file` and the commit that has it as `revision`",
        ),
        (
            "[a]\nrepo = 'o/r'\nsampling = { temp = -1 }",
            "`models.toml` line 1: `a`: `temp` is -1, it must be from 0 to 100",
        ),
        (
            "[a]\nrepo = 'o/r'\nsampling = { top_k = 1.5 }",
            "`models.toml` line 1: `a`: `top_k` is 1.5, it must be a whole number from 0",
        ),
        (
            "[a]\nrepo = 'o/r'\nsampling = { top_p = nan }",
            "`models.toml` line 1: `a`: `top_p` is NaN, it must be from 0 to 1",
        ),
        (
            "[a]\nrepo = 'o/r'\nsampling = { tmp = 1 }",
            "`models.toml` line 1: `a`: `sampling` knows `temp`, `top_k`, `top_p`, `min_p` and `repeat_penalty`, not `tmp`",
        ),
        ("\n[A]\nrepo = 'o/r'", "`models.toml` line 2: `A`: an alias is lower case: `name` or `name:size`"),
        ("['a/b']\nrepo = 'o/r'", "`models.toml` line 1: `a/b`: an alias is lower case"),
        ("[demo]\nrepo = 'o/r'", "`models.toml` line 1: `demo`: an alias is lower case"),
        ("['a\\u001b']", "`models.toml` line 1: `a\\u001b`: an alias is lower case"),
        ("\na = { same_as = 'nowhere' }", "`models.toml` line 2: `a`: `same_as` leads to no model"),
        (
            "a = { same_as = 'b' }\nb = { same_as = 'a' }",
            "`models.toml` line 1: `a`: `same_as` leads to no model",
        ),
        (
            "'qwen3:4b' = { same_as = 'qwen3' }",
            "`models.toml` line 1: `qwen3:4b`: `same_as` leads to no model",
        ),
    ] {
        let error = with_own(text).map(|_| ()).unwrap_err();
        assert!(error.message.starts_with(message), "{text}: {}", error.message);
        assert_eq!(error.hint.as_deref(), Some("correct that line, or move the file away"));
        assert!(!error.message.contains(['\n', '\u{1b}']), "{text}: {}", error.message);
    }
}

#[test]
fn a_user_without_a_file_has_the_shipped_names() {
    let folder = tempfile::tempdir().unwrap();
    let count = |user: Option<&Path>| Registry::load(user).map(|registry| registry.entries().count());
    assert_eq!(count(Some(&folder.path().join("none.toml"))).unwrap(), count(None).unwrap());
    assert_eq!(with_own("").unwrap().entries().count(), count(None).unwrap());
    let error = count(Some(folder.path())).unwrap_err();
    assert!(error.message.starts_with("cannot read `"), "{}", error.message);
}
