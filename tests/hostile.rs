//! Files that nobody vouches for: each ends in an answer or in one line that says what is wrong with it.
//!
//! `INFER_SEEDS=17..18` runs these seeds instead of the usual ones and leaves the file of a failure in `target/tmp`.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeSet;
use std::io::Read;
use std::ops::Range;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::support::Infer;
use crate::support::tiny_gguf::{Tiny, Value};

/// What is asked of every model: little, by the most likely tokens. One thread, as several children run at once.
const RUN: [&str; 8] = ["--raw", "-n", "2", "--temp", "0", "-t", "1", "hello world"];

/// The same through the model's template.
const CHAT: [&str; 7] = ["-n", "2", "--temp", "0", "-t", "1", "hi"];

/// No file may take longer than this.
const LONGEST: Duration = Duration::from_secs(10);

fn run(file: &str) -> Infer {
    Infer::new().args(["run", file]).args(RUN)
}

/// The two verbs that open a model.
#[track_caller]
fn refuses(verbs: &[&str], file: &str, content: &[u8], message: &str) {
    for &verb in verbs {
        let infer = if verb == "run" { run(file) } else { Infer::new().args([verb, file]) };
        infer.file(file, content).status(1).stderr(format!("error: `{file}` {message}\n")).run();
    }
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

#[test]
fn what_is_no_gguf_is_named() {
    let both = ["run", "show"];
    refuses(&both, "m.gguf", b"", "is empty, it has 0 bytes");
    refuses(&both, "m.gguf", b"GG", "is not a GGUF file: it has only 2 bytes");
    refuses(&both, "m.bin", b"PK\x03\x04", "is not a GGUF file: it begins with the bytes 50 4b 03 04");
    refuses(&both, "m.gguf", b"<!doctype html>", "is not a GGUF file but a web page");
    let pointer = b"version https://git-lfs.github.com/spec/v1";
    refuses(&both, "m.gguf", pointer, "is not a GGUF file but a pointer of Git LFS to one");
    let big = Tiny { version: 3_u32.swap_bytes(), ..Tiny::llama() }.bytes();
    let message = "is a big-endian GGUF file, this machine needs a little-endian one";
    refuses(&both, "m.gguf", &big, message);
    let old = Tiny { version: 1, ..Tiny::llama() }.bytes();
    refuses(&both, "m.gguf", &old, "is a GGUF file of version 1, only versions 2 and 3 can be read");
}

#[test]
fn a_path_that_is_no_file_is_named() {
    for verb in ["run", "show"] {
        let infer = |file: &str| {
            if verb == "run" { run(file) } else { Infer::new().args([verb, file]) }
        };
        infer("folder")
            .file("folder/x", "")
            .status(1)
            .stderr("error: `folder` is a folder, not a GGUF file\n")
            .run();
        infer("none.gguf")
            .status(3)
            .stderr(
                "error: no such file: `none.gguf`\nhint: give the path of a GGUF file, or a name of `infer list --names`\n",
            )
            .run();
    }
}

#[cfg(unix)]
#[test]
fn a_file_without_permission_is_named() {
    use std::os::unix::fs::PermissionsExt;
    let home =
        Infer::new().arg("--version").file("m.gguf", Tiny::llama().bytes()).stdout_is(|_| true).run().home;
    let path = home.path().join("m.gguf");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o000)).unwrap();
    // Root reads everything.
    if std::fs::File::open(&path).is_err() {
        run("m.gguf").home(&home).status(1).stderr("error: no permission to read `m.gguf`\n").run();
    }
}

#[test]
fn a_file_that_is_cut_short_says_where() {
    let tiny = Tiny::llama();
    let (bytes, header) = (tiny.bytes(), tiny.header_bytes().len());
    for (len, clause) in [
        (900, "or damaged: its 900 bytes end inside the metadata"),
        (header - 9, "or damaged: its {len} bytes end inside the list of its 20 tensors"),
        (header + 99, ": its tensors need {all} bytes, it has {len}"),
        (bytes.len() - 1, ": its tensors need {all} bytes, it has {len}"),
    ] {
        let thousands =
            |n: usize| if n < 1000 { n.to_string() } else { format!("{},{:03}", n / 1000, n % 1000) };
        let clause = clause.replace("{all}", &thousands(bytes.len())).replace("{len}", &thousands(len));
        let joint = if clause.starts_with(':') { "" } else { " " };
        refuses(&["run", "show"], "m.gguf", &bytes[..len], &format!("is cut short{joint}{clause}"));
    }
}

/// `show` shows what can be shown of each.
#[test]
fn a_model_that_cannot_write_is_named() {
    let tiny = Tiny::llama;
    let file_type = |name| Tiny::empty().set("general.type", text(name));
    for (model, message) in [
        (tiny().with_architecture("gpt9"), "has the architecture `gpt9`, which this version cannot run"),
        (
            tiny().with_architecture("clip"),
            "is a projector of images or sound (mmproj), not a language model",
        ),
        (
            tiny().set("general.type", text("mmproj")),
            "is a projector of images or sound (mmproj), not a language model",
        ),
        (file_type("adapter"), "is an adapter (LoRA), not a language model"),
        (file_type("imatrix"), "is an importance matrix, not a language model"),
        (tiny().with_architecture("bert"), "is an embedding model (`bert`), it cannot write text"),
        (tiny().set("llama.pooling_type", Value::U32(1)), "is an embedding model, it cannot write text"),
        (
            tiny().with_architecture("t5encoder"),
            "is an encoder without a decoder (`t5encoder`), it cannot write text",
        ),
        (tiny().with_architecture("llada"), "is a diffusion model (`llada`), it cannot write text"),
        (tiny().without_prefix("tokenizer."), "has no vocabulary, it cannot write text"),
        (tiny().without("general.architecture"), "does not say which architecture it has"),
        (tiny().without_tensors(), "has a vocabulary but no weights"),
        (tiny().without_tensor("token_embd.weight"), "is damaged: it has no tensor `token_embd.weight`"),
    ] {
        let bytes = model.bytes();
        refuses(&["run"], "m.gguf", &bytes, message);
        Infer::new()
            .args(["show", "m.gguf"])
            .file("m.gguf", bytes)
            .stdout_is(|text| text.starts_with("file ") && text.contains("\nparameters "))
            .run();
    }
}

#[test]
fn llama_cpp_says_what_the_header_does_not_show() {
    run("m.gguf")
        .file("m.gguf", Tiny::llama().without_tensor("blk.1.ffn_down.weight").bytes())
        .status(1)
        .stderr("error: cannot load `m.gguf`: tensor 'blk.1.ffn_down.weight' not found\n")
        .run();
}

#[test]
fn a_split_model_is_loaded_from_its_first_part() {
    let whole = run("m.gguf").file("m.gguf", Tiny::llama().bytes()).stdout_is(|text| !text.is_empty()).run();
    let parts: Vec<Vec<u8>> = Tiny::llama().split(3).iter().map(Tiny::bytes).collect();
    let name = |n: usize| format!("m-0000{n}-of-00003.gguf");
    let with = |infer: Infer, numbers: &[usize]| {
        numbers.iter().fold(infer, |infer, &n| infer.file(name(n), parts[n - 1].clone()))
    };
    with(run(&name(1)), &[1, 2, 3]).stdout(whole.stdout).run();
    for (file, there, message) in [
        (
            2,
            [1, 2, 3].as_slice(),
            "`m-00002-of-00003.gguf` is part 2 of 3, a model is loaded from its first part\n\
             hint: try `infer run m-00001-of-00003.gguf`",
        ),
        (1, &[1, 2], "part 3 of 3 of `m-00001-of-00003.gguf` is missing: `m-00003-of-00003.gguf`"),
    ] {
        with(run(&name(file)), there).status(1).stderr(format!("error: {message}\n")).run();
    }
    let cut = &parts[1][..parts[1].len() - 1];
    let cut_message = format!(
        "error: `{}` is cut short: its tensors need {},{:03} bytes, it has {},{:03}\n",
        name(2),
        parts[1].len() / 1000,
        parts[1].len() % 1000,
        cut.len() / 1000,
        cut.len() % 1000
    );
    with(run(&name(1)), &[1, 3]).file(name(2), cut).status(1).stderr(cut_message).run();
}

/// `model::gguf` tries every length of a small file; this is the whole way, with the ends of all that a file is made of.
#[test]
fn a_file_cut_anywhere_is_refused() {
    let tiny = Tiny::llama();
    let bytes = tiny.bytes();
    let mut lengths: BTreeSet<usize> = (0..bytes.len()).step_by(bytes.len() / 100).collect();
    for border in borders(&tiny) {
        lengths.extend((border.saturating_sub(1)..=border + 1).filter(|&len| len < bytes.len()));
    }
    let lengths: Vec<usize> = lengths.into_iter().collect();
    let cases = 0..lengths.len() as u64;
    let at = |case| lengths[usize::try_from(case).unwrap()];
    for_each(
        cases,
        &RUN,
        |case| bytes[..at(case)].to_vec(),
        |case, ran| {
            let fine = ran.outcome() == Ok(Outcome::Refused)
                && ["is cut short", "is empty", "is not a GGUF"].iter().any(|w| ran.stderr.contains(w));
            if fine { Ok(()) } else { Err(format!("cut to {} bytes", at(case))) }
        },
    );
}

/// Where the counts, each entry, each tensor's description and each tensor's data end.
fn borders(tiny: &Tiny) -> Vec<usize> {
    let mut all = vec![4, 8, 16, 24];
    for count in 0..=tiny.metadata.len() {
        let head = Tiny { metadata: tiny.metadata[..count].to_vec(), tensors: Vec::new(), ..tiny.clone() };
        all.push(head.header_bytes().len());
    }
    for count in 0..=tiny.tensors.len() {
        let head = Tiny { tensors: tiny.tensors[..count].to_vec(), ..tiny.clone() };
        all.push(head.header_bytes().len());
    }
    let mut at = tiny.header_bytes().len().next_multiple_of(tiny.alignment);
    for tensor in &tiny.tensors {
        at = (at + tensor.data.len()).next_multiple_of(tiny.alignment);
        all.push(at);
    }
    all
}

#[test]
fn a_changed_model_works_or_is_refused() {
    let tiny = Tiny::llama();
    let answered = AtomicU64::new(0);
    let seeds = seeds(0..2_000);
    let all = seeds.end - seeds.start;
    for_each(
        seeds,
        &RUN,
        |seed| mutate_model(&tiny, seed),
        |_, ran| {
            answered.fetch_add(u64::from(ran.outcome()? == Outcome::Answered), Ordering::Relaxed);
            Ok(())
        },
    );
    // Changes that are all refused at the door would test nothing behind it.
    let answered = answered.into_inner();
    assert!(all < 100 || (all / 10..all * 9 / 10).contains(&answered), "{answered} of {all} answered");
}

#[test]
fn a_changed_template_or_vocabulary_works_or_is_refused() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/demo/demo-f16.gguf");
    let bytes = std::fs::read(path).unwrap();
    for_each(seeds(0..300), &CHAT, |seed| mutate_demo(&bytes, seed), |_, ran| ran.outcome().map(|_| ()));
}

#[test]
fn a_template_that_does_not_end_is_refused() {
    for (template, why) in [
        (
            "{% set ns = namespace() %}{% set ns.x = ns %}{{ ns }}",
            "invalid operation: a namespace inside a variable (line 1)",
        ),
        (
            "{% set ns = namespace(x=[]) %}{% for i in range(9999) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x }}",
            "invalid operation: a variable has too many levels (line 1)",
        ),
        ("{{ (['a' * 99999] * 99999) | join }}", "it does not come to an end"),
    ] {
        Infer::new()
            .args(["run", "m.gguf"])
            .args(CHAT)
            .file("m.gguf", Tiny::llama().set("tokenizer.chat_template", text(template)).bytes())
            .status(1)
            .stderr(format!("error: cannot render the model's chat template: {why}\n"))
            .run();
    }
}

fn seeds(usual: Range<u64>) -> Range<u64> {
    let Ok(wanted) = std::env::var("INFER_SEEDS") else { return usual };
    let (from, to) =
        wanted.split_once("..").unwrap_or_else(|| panic!("INFER_SEEDS is {wanted}, not FROM..TO"));
    from.parse().unwrap()..to.parse().unwrap()
}

/// splitmix64: the same changes everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() % n as u64).unwrap()
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    /// A number that programs trip over, or a small one.
    fn edge(&mut self) -> u64 {
        match self.below(8) {
            0 => 0,
            1 => u64::MAX,
            2 => i64::MAX as u64,
            3 => 1 << 63,
            4 => 0x7fff_ffff_8000_0000,
            5 => 1 << self.below(64),
            _ => self.next() % 300,
        }
    }
}

/// Half of the changes keep the file's structure and make it say something else; the others know only bytes.
fn mutate_model(tiny: &Tiny, seed: u64) -> Vec<u8> {
    let mut random = Random(seed);
    let mut tiny = tiny.clone();
    if random.below(2) == 0 {
        for _ in 0..=random.below(2) {
            tiny = mutate_meaning(tiny, &mut random);
        }
        return tiny.bytes();
    }
    let (mut bytes, header) = (tiny.bytes(), tiny.header_bytes().len());
    let find = |text: &str| bytes.windows(text.len()).position(|w| w == text.as_bytes()).unwrap();
    let regions = [
        0..find("tokenizer.ggml.tokens"),
        find("tokenizer.ggml.merges")..header,
        find("token_embd.weight")..header,
        0..header,
        0..bytes.len(),
    ];
    for _ in 0..=random.below(3) {
        let region = regions[random.below(regions.len())].clone();
        mutate_bytes(&mut bytes, region, &mut random);
    }
    bytes
}

/// The bytes before the weights, and seldom those.
fn mutate_demo(bytes: &[u8], seed: u64) -> Vec<u8> {
    let mut random = Random(seed ^ 0x6465_6d6f);
    let mut bytes = bytes.to_vec();
    let find = |text: &str| bytes.windows(text.len()).position(|w| w == text.as_bytes()).unwrap();
    let (tokenizer, template, tensors) =
        (find("tokenizer.ggml."), find("tokenizer.chat_template"), find("token_embd.weight"));
    let text = template + 40..template + 400;
    let regions = [text.clone(), text, tokenizer..tensors, 0..tensors + 4000, 0..bytes.len()];
    for _ in 0..=random.below(4) {
        let region = regions[random.below(regions.len())].clone();
        mutate_bytes(&mut bytes, region, &mut random);
    }
    bytes
}

fn mutate_bytes(bytes: &mut Vec<u8>, region: Range<usize>, random: &mut Random) {
    let region = region.start.min(bytes.len() - 8)..region.end.min(bytes.len());
    let at = region.start + random.below(region.len());
    let len = (1 + random.below(16)).min(bytes.len() - at);
    match random.below(8) {
        0 | 1 => bytes[at] ^= 1 << random.below(8),
        2 | 3 => {
            let edge = random.edge().to_le_bytes();
            let width = random.one_of(&[1, 2, 4, 8]).min(bytes.len() - at);
            bytes[at..at + width].copy_from_slice(&edge[..width]);
        }
        4 => {
            let filling = random.one_of(&[0, 0xff, 0x7f, 0x80]);
            bytes[at..at + len].fill(filling);
        }
        5 => {
            let new = random.next().to_le_bytes();
            bytes.splice(at..at, new[..len.min(8)].iter().copied());
        }
        6 => {
            bytes.drain(at..at + len);
        }
        _ => {
            let copied = bytes[at..at + len].to_vec();
            let to = region.start + random.below(region.len());
            bytes.splice(to..to, copied);
        }
    }
}

const ARCHITECTURES: [&str; 12] = [
    "gemma",
    "gemma2",
    "gemma3",
    "gpt2",
    "mamba",
    "phi3",
    "qwen2",
    "qwen2moe",
    "qwen3",
    "rwkv6",
    "stablelm",
    "starcoder2",
];

/// A file that is whole, and wrong.
fn mutate_meaning(mut tiny: Tiny, random: &mut Random) -> Tiny {
    let entry = random.below(tiny.metadata.len());
    let tensor = random.below(tiny.tensors.len());
    match random.below(12) {
        0 => {
            tiny.metadata.remove(entry);
        }
        1 => {
            let name = random.one_of(&ARCHITECTURES);
            tiny = tiny.with_architecture(name);
        }
        2 => tiny.metadata[entry].1 = any_value(random),
        3 => {
            let key = random.one_of(&MORE_KEYS);
            tiny = tiny.set(key, any_value(random));
        }
        4 => {
            tiny.tensors.remove(tensor);
        }
        5 => {
            let other = random.below(tiny.tensors.len());
            let name = tiny.tensors[other].name.clone();
            let name = std::mem::replace(&mut tiny.tensors[tensor].name, name);
            tiny.tensors[other].name = name;
        }
        6 => {
            let kind = random.one_of(&[0, 1, 2, 8, 12, 20, 24, 26, 30, 34, 39]);
            tiny.tensors[tensor].kind = kind;
        }
        7 => {
            let dims = &mut tiny.tensors[tensor].dims;
            match random.below(4) {
                0 => dims.reverse(),
                1 => dims.push(1),
                2 => dims.insert(0, 1),
                _ => dims[0] /= 2,
            }
        }
        8 => {
            let value = any_float(random);
            for number in tiny.tensors[tensor].data.chunks_exact_mut(4) {
                number.copy_from_slice(&value.to_le_bytes());
            }
        }
        _ => tiny.metadata[entry].1 = other_value(tiny.metadata[entry].1.clone(), random),
    }
    tiny
}

/// Keys that the model lacks and llama.cpp reads.
const MORE_KEYS: [&str; 22] = [
    "general.alignment",
    "llama.attention.key_length",
    "llama.attention.value_length",
    "llama.attention.sliding_window",
    "llama.attention.clamp_kqv",
    "llama.attention.causal",
    "llama.expert_count",
    "llama.expert_used_count",
    "llama.rope.scaling.type",
    "llama.rope.scaling.factor",
    "llama.rope.scaling.original_context_length",
    "llama.rope.dimension_sections",
    "llama.pooling_type",
    "llama.leading_dense_block_count",
    "tokenizer.ggml.scores",
    "tokenizer.ggml.precompiled_charsmap",
    "tokenizer.ggml.eot_token_id",
    "tokenizer.ggml.eos_token_ids",
    "tokenizer.ggml.suppress_tokens",
    "tokenizer.ggml.normalizer.lowercase",
    "split.count",
    "general.sampling.temp",
];

fn any_float(random: &mut Random) -> f32 {
    random.one_of(&[0.0, -0.0, 1.0, -1.0, 1e-45, 1e38, -1e38, f32::NAN, f32::INFINITY, f32::NEG_INFINITY])
}

fn any_value(random: &mut Random) -> Value {
    let edge = random.edge().to_le_bytes();
    let narrow = u32::from_le_bytes([edge[0], edge[1], edge[2], edge[3]]);
    let count = random.below(6);
    match random.below(10) {
        0 => Value::U64(u64::from_le_bytes(edge)),
        1 => Value::I32(narrow.cast_signed()),
        2 => Value::F32(any_float(random)),
        3 => Value::Bool(random.below(2) == 0),
        4 => text(
            random.one_of(&["", "llama", "gpt2", "t5", "rwkv", "yarn", "linear", "default", "\u{0}", "{{"]),
        ),
        5 => Value::U32s((0..count).map(|_| u32::try_from(random.next() % 300).unwrap()).collect()),
        6 => Value::F32s((0..count * 60).map(|_| any_float(random)).collect()),
        7 => Value::Texts(vec!["a".into(); count]),
        8 => Value::Bools(vec![true; count]),
        _ => Value::U32(narrow),
    }
}

/// Another value of the same kind.
fn other_value(value: Value, random: &mut Random) -> Value {
    let edge = random.edge();
    let narrow = u32::try_from(edge & 0xffff_ffff).unwrap();
    match value {
        Value::U32(_) => Value::U32(narrow),
        Value::F32(_) => Value::F32(any_float(random)),
        Value::Bool(b) => Value::Bool(!b),
        Value::Text(_) => {
            text(random.one_of(&["", "llama", "gpt2", "t5", "default", "gpt-4o", "llama-bpe", "model"]))
        }
        Value::I32s(mut all) => {
            let at = random.below(all.len());
            all[at] = narrow.cast_signed();
            if random.below(2) == 0 {
                all.truncate(at);
            }
            Value::I32s(all)
        }
        Value::Texts(mut all) => {
            let (at, from) = (random.below(all.len()), random.below(all.len()));
            match random.below(6) {
                0 => all.truncate(at),
                1 => {
                    let twin = all[from].clone();
                    all[at] = twin;
                }
                2 => all[at] = String::new(),
                3 => all[at].push_str(&" x".repeat(random.below(2000))),
                4 => all.swap(at, from),
                _ => {
                    let wild = random.one_of(&["\u{0}", "\u{ffff}", " ", "<0x00>", "<s>", "a b c"]);
                    all[at] = wild.into();
                }
            }
            Value::Texts(all)
        }
        other => other,
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Answered,
    Refused,
}

struct Ran {
    status: Option<ExitStatus>,
    stdout: Vec<u8>,
    stderr: String,
}

impl Ran {
    /// What is allowed: an answer with at most a note, or an error of one line with at most a hint.
    fn outcome(&self) -> Result<Outcome, String> {
        let lines: Vec<&str> = self.stderr.lines().collect();
        let begins = |line: &str, words: &[&str]| words.iter().any(|word| line.starts_with(word));
        let code = self.status.ok_or("still running: killed")?.code().ok_or("ended by a signal")?;
        match (code, lines.as_slice()) {
            (0, notes) if notes.iter().all(|line| begins(line, &["window: ", "context: "])) => {
                Ok(Outcome::Answered)
            }
            // What is wrong may show when a part of the answer is out. 5 does not fit, 6 is a prompt that is too long.
            (1 | 5 | 6, [error]) if begins(error, &["error: "]) => Ok(Outcome::Refused),
            (1 | 5 | 6, [error, hint]) if begins(error, &["error: "]) && begins(hint, &["hint: "]) => {
                Ok(Outcome::Refused)
            }
            _ => Err("neither an answer nor an error of one line".to_owned()),
        }
    }
}

/// Runs `infer run FILE ARGS` on the file of each case, several at a time, and panics with the cases that `check`
/// complains about.
fn for_each(
    cases: Range<u64>,
    args: &[&str],
    file: impl Fn(u64) -> Vec<u8> + Sync,
    check: impl Fn(u64, &Ran) -> Result<(), String> + Sync,
) {
    let home = TempDir::new().unwrap();
    let next = AtomicU64::new(cases.start);
    let failures = Mutex::new(Vec::new());
    let work = |worker: usize| {
        let path = home.path().join(format!("{worker}.gguf"));
        loop {
            let case = next.fetch_add(1, Ordering::Relaxed);
            if case >= cases.end {
                return;
            }
            let bytes = file(case);
            std::fs::write(&path, &bytes).unwrap();
            let ran = child(&path, args, home.path());
            if let Err(why) = check(case, &ran) {
                let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("hostile-{case}.gguf"));
                std::fs::write(&kept, &bytes).unwrap();
                let failure = format!(
                    "case {case}: {why}\n  status: {:?}\n  stdout: {:?}\n  stderr: {}\n  \
                     again: INFER_SEEDS={case}..{} make test, or `infer run {} {}`",
                    ran.status,
                    String::from_utf8_lossy(&ran.stdout),
                    ran.stderr.trim_end(),
                    case + 1,
                    kept.display(),
                    args.join(" "),
                );
                failures.lock().unwrap_or_else(PoisonError::into_inner).push(failure);
            }
        }
    };
    thread::scope(|scope| {
        for worker in 0..thread::available_parallelism().map_or(2, usize::from) {
            let work = &work;
            scope.spawn(move || work(worker));
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{} cases failed\n{}", failures.len(), failures.join("\n"));
}

/// One run with a limit on its time and, where the system has one, on its memory.
fn child(model: &Path, args: &[&str], home: &Path) -> Ran {
    let program = env!("CARGO_BIN_EXE_infer");
    let mut command = if cfg!(target_os = "linux") {
        let mut shell = Command::new("sh");
        // A gigabyte in blocks of 1024 bytes.
        shell.args(["-c", "ulimit -c 0; ulimit -v 976562; exec \"$0\" \"$@\"", program]);
        shell
    } else {
        Command::new(program)
    };
    let mut child = command
        .arg("run")
        .arg(model)
        .args(args)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", home)
        .env("XDG_CACHE_HOME", home)
        .env("XDG_STATE_HOME", crate::support::state_without_advice(home))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + LONGEST;
    // What a child says here fits into a pipe; one that says more waits and is found out.
    let status = loop {
        match child.try_wait().unwrap() {
            None if Instant::now() < deadline => thread::sleep(Duration::from_millis(1)),
            status => break status,
        }
    };
    if status.is_none() {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    child.stdout.take().unwrap().read_to_end(&mut stdout).unwrap();
    child.stderr.take().unwrap().read_to_end(&mut stderr).unwrap();
    Ran { status, stdout, stderr: String::from_utf8_lossy(&stderr).into_owned() }
}
