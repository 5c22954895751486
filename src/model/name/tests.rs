use super::*;
use crate::error::Kind;

const HUB: &str = "https://huggingface.co";
const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

fn parse_at(text: &str, endpoint: &str) -> Result<ModelRef> {
    ModelRef::parse(text, endpoint, &|_| false)
}

fn parse(text: &str) -> Result<ModelRef> {
    parse_at(text, HUB)
}

/// A model reference on one line: its kind and its fields.
fn shape(reference: &ModelRef) -> String {
    match reference {
        ModelRef::Demo => "demo".to_owned(),
        ModelRef::Path(path) => format!("path {}", path.display()),
        ModelRef::Alias(Alias { name, quant }) => format!("alias {name} {}", quant.as_deref().unwrap_or("-")),
        ModelRef::Hub(HubRef { repo, revision, pick }) => {
            let revision = revision.as_ref().map_or("-", Revision::as_str);
            match pick {
                Pick::Default => format!("hub {repo} {revision} default"),
                Pick::Quant(quant) => format!("hub {repo} {revision} quant {quant}"),
                Pick::File(file) => format!("hub {repo} {revision} file {file}"),
            }
        }
    }
}

/// Each text is read as the shape, and what is printed is read as the same again.
#[track_caller]
fn table(endpoint: &str, rows: &[(&str, &str)]) {
    for (text, expected) in rows {
        let reference = parse_at(text, endpoint).unwrap_or_else(|e| panic!("{text}: {e}"));
        assert_eq!(shape(&reference), *expected, "{text}");
        let printed = reference.to_string();
        assert_eq!(parse_at(&printed, endpoint).unwrap(), reference, "{text} was printed as {printed}");
    }
}

#[test]
fn aliases() {
    table(
        HUB,
        &[
            ("demo", "demo"),
            ("Demo", "demo"),
            ("smollm2", "alias smollm2 -"),
            ("qwen3:8b", "alias qwen3 8b"),
            ("Qwen3:8B", "alias qwen3 8b"),
            ("qwen3:8b:Q8_0", "alias qwen3:8b q8_0"),
            ("phi4-mini:q8", "alias phi4-mini q8"),
            ("demo2", "alias demo2 -"),
            ("no such\u{1b}", "alias no such\u{1b} -"),
        ],
    );
}

#[test]
fn repositories() {
    table(
        HUB,
        &[
            ("Qwen/Qwen3-8B-GGUF", "hub Qwen/Qwen3-8B-GGUF - default"),
            ("Qwen/Qwen3-8B-GGUF:Q4_K_M", "hub Qwen/Qwen3-8B-GGUF - quant Q4_K_M"),
            ("o/r:UD-Q4_K_XL", "hub o/r - quant UD-Q4_K_XL"),
            ("o/r:I-Compact", "hub o/r - quant I-Compact"),
            ("o/r:m-Q4_K_M.gguf", "hub o/r - quant m-Q4_K_M.gguf"),
            ("o/r@main", "hub o/r main default"),
            ("o/r:Q8_0@v1.0", "hub o/r v1.0 quant Q8_0"),
            ("o/r@v1.0:Q8_0", "hub o/r v1.0 quant Q8_0"),
            ("o/r@refs/pr/1", "hub o/r refs/pr/1 default"),
            ("o/r:Q8_0@refs/pr/1", "hub o/r refs/pr/1 quant Q8_0"),
            ("o/r@refs/pr/1:Q8_0", "hub o/r refs/pr/1 quant Q8_0"),
            ("o/r@feature/x", "hub o/r feature/x default"),
            (&format!("o/r@{COMMIT}"), &format!("hub o/r {COMMIT} default")),
            ("hf:o/r:Q8_0", "hub o/r - quant Q8_0"),
            ("HF:o/r", "hub o/r - default"),
            ("hf://o/r@main", "hub o/r main default"),
            ("hf.co/o/r", "hub o/r - default"),
            ("hf.co/o/r:Q4_K_M", "hub o/r - quant Q4_K_M"),
            ("HuggingFace.co/o/r@main", "hub o/r main default"),
            ("hf:o/r.gguf", "hub o/r.gguf - default"),
            ("hf.co/o/r.gguf", "hub o/r.gguf - default"),
            ("o/r.gguf:Q8_0", "hub o/r.gguf - quant Q8_0"),
            ("o/r.gguf@main", "hub o/r.gguf main default"),
        ],
    );
}

#[test]
fn files_of_a_repository() {
    table(
        HUB,
        &[
            ("o/r/m.gguf", "hub o/r - file m.gguf"),
            ("o/r/M.GGUF", "hub o/r - file M.GGUF"),
            ("o/r/Q4_K_M/m-00001-of-00002.gguf", "hub o/r - file Q4_K_M/m-00001-of-00002.gguf"),
            ("o/r/m.gguf@main", "hub o/r main file m.gguf"),
            ("o/r/a/b.gguf@refs/pr/1", "hub o/r refs/pr/1 file a/b.gguf"),
            ("o/r@main/a/b.gguf", "hub o/r main file a/b.gguf"),
            ("o/r@refs/pr/1/b.gguf", "hub o/r refs/pr/1 file b.gguf"),
            ("o/r/x@1.gguf", "hub o/r - file x@1.gguf"),
            ("o/r/v@1/x.gguf", "hub o/r - file v@1/x.gguf"),
            ("o/r/x@1.gguf@main", "hub o/r main file x@1.gguf"),
            ("hf:o/r/m.gguf", "hub o/r - file m.gguf"),
            ("hf.co/o/r/a/m.gguf", "hub o/r - file a/m.gguf"),
            ("o/r/blob/main/m.gguf", "hub o/r - file blob/main/m.gguf"), // no host, no URL
        ],
    );
}

#[test]
fn urls_of_the_hub() {
    table(
        HUB,
        &[
            ("https://huggingface.co/o/r", "hub o/r - default"),
            ("https://huggingface.co/o/r/", "hub o/r - default"),
            ("HTTPS://HuggingFace.CO/o/r", "hub o/r - default"),
            ("http://hf.co/o/r:Q8_0", "hub o/r - quant Q8_0"),
            ("https://www.huggingface.co/o/r#files", "hub o/r - default"),
            ("https://huggingface.co/o/r?not-for-all-audiences=true", "hub o/r - default"),
            ("https://huggingface.co/o/r/tree/main", "hub o/r main default"),
            ("https://huggingface.co/o/r/tree/main/UD-Q4_K_XL", "hub o/r main quant UD-Q4_K_XL"),
            ("https://huggingface.co/o/r/tree/refs%2Fpr%2F1", "hub o/r refs/pr/1 default"),
            ("https://huggingface.co/o/r/blob/main/m.gguf", "hub o/r main file m.gguf"),
            ("https://huggingface.co/o/r/resolve/main/a/m.gguf?download=true", "hub o/r main file a/m.gguf"),
            ("https://huggingface.co/o/r/raw/main/m.gguf#x", "hub o/r main file m.gguf"),
            ("https://huggingface.co/o/r/resolve/refs/pr/1/m.gguf", "hub o/r refs/pr/1 file m.gguf"),
            ("https://huggingface.co/o/r/resolve/refs%2Fpr%2F1/m.gguf", "hub o/r refs/pr/1 file m.gguf"),
            ("https://huggingface.co/o/r/blob/main/my%20model.gguf", "hub o/r main file my model.gguf"),
            ("https://huggingface.co/o/r/blob/main/a%2Fm.gguf", "hub o/r main file a/m.gguf"),
            ("https://huggingface.co/o/r/blob/main/%C3%A9.gguf", "hub o/r main file é.gguf"),
            ("hf.co/o/r/resolve/main/m.gguf", "hub o/r main file m.gguf"),
        ],
    );
}

#[test]
fn urls_of_the_endpoint() {
    let here = "http://localhost:8080";
    table(
        here,
        &[
            ("http://localhost:8080/o/r", "hub o/r - default"),
            ("localhost:8080/o/r/resolve/main/m.gguf", "hub o/r main file m.gguf"),
            ("https://huggingface.co/o/r", "hub o/r - default"),
            ("localhost/o/r.gguf", "hub localhost/o - file r.gguf"), // another port, another host
        ],
    );
    table("https://mirror.example/api/hf/", &[("https://mirror.example/api/hf/o/r", "hub o/r - default")]);
    for url in ["http://localhost:8081/o/r", "http://localhost/o/r", "http://localhost:80801/o/r"] {
        assert_eq!(parse_at(url, here).unwrap_err().kind, Kind::Usage, "{url}");
    }
    let error = parse_at("https://mirror.example/o/r", "https://mirror.example/api/hf/").unwrap_err();
    assert_eq!(error.message, "`https://mirror.example/o/r` is not on `mirror.example/api/hf`");
}

#[test]
fn paths() {
    table(
        HUB,
        &[
            ("m.gguf", "path m.gguf"),
            ("M.GGUF", "path M.GGUF"),
            ("m-00002-of-00003.gguf", "path m-00002-of-00003.gguf"),
            ("./m", "path ./m"),
            ("../m", "path ../m"),
            ("/m", "path /m"),
            ("~/m.gguf", "path ~/m.gguf"),
            (".", "path ."),
            ("folder/m.gguf", "path folder/m.gguf"),
            ("my folder/b/m.gguf", "path my folder/b/m.gguf"),
            ("a\\b", "path a\\b"),
            ("C:\\m.gguf", "path C:\\m.gguf"),
            ("c:/m", "path c:/m"),
        ],
    );
}

#[test]
fn what_lies_on_this_disk_goes_first() {
    let is_file = |path: &Path| ["a/b", "a/b/c.gguf", "plain"].contains(&path.to_str().unwrap());
    for (text, expected) in [
        ("a/b", "path a/b"),
        ("a/b/c.gguf", "path a/b/c.gguf"),
        ("a/c", "hub a/c - default"),
        ("hf:a/b", "hub a/b - default"),
        ("plain", "alias plain -"), // `./plain` is the file
    ] {
        assert_eq!(shape(&ModelRef::parse(text, HUB, &is_file).unwrap()), expected);
    }
}

#[test]
fn what_names_no_model_says_why_and_what_to_type() {
    for (text, message) in [
        ("", "the name of the model is empty"),
        ("-", "`-` names no model, standard input is part of the prompt"),
        ("qwen3@main", "the alias `qwen3` takes no revision"),
        ("qwen3:", "`qwen3:` lacks a word beside its colon"),
        (":q4", "`:q4` lacks a word beside its colon"),
        ("hf:qwen3", "`qwen3` names no model"),
        ("https://huggingface.co", "`https://huggingface.co` names no model"),
        ("https://huggingface.co/gpt2", "`https://huggingface.co/gpt2` names no model"),
        ("https://huggingface.co/o/r/blob/main", "`https://huggingface.co/o/r/blob/main` names no model"),
        ("https://huggingface.co/o/r/blob", "`https://huggingface.co/o/r/blob` names no model"),
        ("https://huggingface.co/o/r/blob/main/README.md", "`README.md` is no GGUF file of `o/r`"),
        ("https://huggingface.co/o/r/discussions/1", "`discussions/1` is no GGUF file of `o/r`"),
        ("https://huggingface.co/datasets/o/r", "`https://huggingface.co/datasets/o/r` names no model"),
        ("https://huggingface.co/o/r/blob/main/..%2F..%2Fx.gguf", "`../../x.gguf` is no safe path of a file"),
        ("https://huggingface.co/o/r/blob/main/a%1b.gguf", "`a\\u{1b}.gguf` is no safe path of a file"),
        (
            "https://huggingface.co/o/r/blob/main/%zz.gguf",
            "`https://huggingface.co/o/r/blob/main/%zz.gguf` has an escape that is no text",
        ),
        (
            "https://huggingface.co/o/r/blob/main/%ff.gguf",
            "`https://huggingface.co/o/r/blob/main/%ff.gguf` has an escape that is no text",
        ),
        ("https://huggingface.co/o/r/resolve/..%2F..%2Fx/m.gguf", "`../../x` is not a revision"),
        ("https://example.com/o/r", "`https://example.com/o/r` is not on `huggingface.co`"),
        (
            "https://huggingface.co.evil.com/o/r",
            "`https://huggingface.co.evil.com/o/r` is not on `huggingface.co`",
        ),
        ("https://user@huggingface.co/o/r", "`https://user@huggingface.co/o/r` is not on `huggingface.co`"),
        ("ftp://huggingface.co/o/r", "`ftp://huggingface.co/o/r` is not on `huggingface.co`"),
        ("file:///m.gguf", "`file:///m.gguf` is not on `huggingface.co`"),
        ("o/r/x", "`x` is no GGUF file of `o/r`"),
        ("o/r:", "`o/r:` names no model"),
        ("o/r:a\u{1b}b", "`a\\u{1b}b` is no quant"),
        ("o/r@", "`o/r@` names no model"),
        ("o/r@..", "`..` is not a revision"),
        ("o/r:Q4@main:Q8", "`o/r:Q4@main:Q8` names two quants"),
        ("hf:o/r/m.gguf:Q4", "`o/r/m.gguf:Q4` names both a file and a quant"),
        ("o/", "`o/` is not the name of a repository"),
        ("o/..", "`o/..` is not the name of a repository"),
        ("o/r\u{1b}[31m", "`o/r\\u{1b}[31m` is not the name of a repository"),
        ("hf:o/r/../m.gguf", "`../m.gguf` is no safe path of a file"),
        ("hf:o/r/nul.gguf", "`nul.gguf` is no safe path of a file"),
    ] {
        let error = match parse(text) {
            Ok(reference) => panic!("{text} was read as {}", shape(&reference)),
            Err(error) => error,
        };
        assert_eq!((error.kind, error.message.as_str()), (Kind::Usage, message), "{text}");
        assert!(error.hint.is_some_and(|hint| hint.contains('`')), "{text} has no hint");
    }
}
