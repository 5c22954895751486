//! Who may know whom: the floors of the program, read from its source.
//!
//! A small scanner rather than a parser: it drops comments and texts, follows `use` trees and relative paths, and knows
//! which lines belong to tests. What it must be able to find stands in the second half, so that it cannot go blind.

use std::fmt;
use std::path::Path;

/// A floor (a folder or a file of `src/`) and what it may name besides itself.
const FLOORS: [(&str, &[&str]); 8] = [
    ("cli", &["session", "model", "engine", "error", "human", "machine", "numbers"]),
    ("session", &["engine", "error", "human", "machine"]),
    ("model", &["engine", "error", "human", "machine", "numbers"]),
    ("engine", &["error", "human", "machine", "numbers"]),
    ("error", &[]),
    ("human", &[]),
    ("machine", &[]),
    ("numbers", &[]),
];

/// An outside crate and its only home: a folder or a file without `.rs`.
const HOMES: [(&str, &str); 22] = [
    ("clap", "cli"),
    ("clap_complete", "cli"),
    ("directories", "cli/dirs"),
    ("indicatif", "cli/ui"),
    ("console", "cli/ui"),
    ("ctrlc", "cli/ui"),
    ("plotters", "cli/bench/plot"),
    ("rustyline", "cli/lines"),
    ("hf_hub", "model/hub"),
    ("reqwest", "model/hub"),
    ("tokio", "model/hub"),
    ("futures_util", "model/hub"),
    ("sha2", "model/hub"),
    ("rustix", "model/page_cache"),
    ("toml", "model/registry"),
    ("strsim", "model"),
    ("fs4", "model/store"),
    ("minijinja", "session"),
    ("minijinja_contrib", "session"),
    ("libc", "engine"),
    ("llama_cpp_2", "engine"),
    ("llama_cpp_sys_2", "engine"),
];

const PRINTING: [&str; 5] = ["print", "println", "eprint", "eprintln", "dbg"];
const STREAMS: [&str; 3] = ["stdin", "stdout", "stderr"];
const ENVIRONMENT: [&str; 6] = ["var", "var_os", "vars", "vars_os", "args", "args_os"];

#[test]
fn the_source_keeps_to_its_floors() {
    let mut files = Vec::new();
    gather(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), "", &mut files);
    assert!(files.iter().any(|(path, _)| path == "main.rs"), "no source found");
    let broken: Vec<String> = broken_rules(&files).iter().map(ToString::to_string).collect();
    assert!(broken.is_empty(), "\n{}", broken.join("\n"));
}

/// Every source file below a folder, as (path from `src/`, content).
fn gather(folder: &Path, prefix: &str, files: &mut Vec<(String, String)>) {
    for entry in std::fs::read_dir(folder).expect("a folder of source") {
        let path = entry.expect("an entry").path();
        let name = format!("{prefix}{}", path.file_name().expect("a name").to_string_lossy());
        if path.is_dir() {
            gather(&path, &format!("{name}/"), files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push((name, std::fs::read_to_string(&path).expect("a source file")));
        }
    }
    files.sort();
}

/// A place where a rule is broken.
#[derive(Debug, PartialEq, Eq)]
struct Broken {
    file: String,
    line: usize,
    rule: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "src/{}:{}: {}", self.file, self.line, self.rule)
    }
}

fn broken_rules(files: &[(String, String)]) -> Vec<Broken> {
    let sources: Vec<Source> = files.iter().map(|(path, text)| Source::read(path, text)).collect();
    let test_modules: Vec<Vec<String>> =
        sources.iter().flat_map(|source| source.test_modules.clone()).collect();
    let mut broken = Vec::new();
    for source in &sources {
        let only_for_tests = test_modules.iter().any(|module| source.module.starts_with(module));
        for name in &source.names {
            let rules = [
                floor(source, name),
                home(source, name),
                safety(source, name),
                if name.in_test || only_for_tests { None } else { surroundings(source, name) },
            ];
            let file = &source.path;
            broken.extend(rules.into_iter().flatten().map(|rule| Broken {
                file: file.clone(),
                line: name.line,
                rule,
            }));
        }
    }
    broken.dedup(); // one line of a `use` tree, one complaint
    broken
}

/// Paths into our own crate lead down or stay.
fn floor(source: &Source, name: &Name) -> Option<String> {
    let here = source.module.first()?; // main.rs may name every floor
    let there = name.inside(source)?.first()?.clone();
    let (_, below) = FLOORS.iter().find(|(floor, _)| floor == here)?;
    let is_floor = FLOORS.iter().any(|(floor, _)| *floor == there);
    (is_floor && there != *here && !below.contains(&there.as_str()))
        .then(|| format!("`{here}` must not know `{there}`"))
}

fn home(source: &Source, name: &Name) -> Option<String> {
    let first = name.path.first()?;
    let (_, home) = HOMES.iter().find(|(outside, _)| outside == first)?;
    let named = name.path.len() > 1 || name.imported;
    (named && !source.is_in(home)).then(|| format!("`{first}` lives in {home}"))
}

fn safety(source: &Source, name: &Name) -> Option<String> {
    (name.path == ["unsafe"] && !source.is_in("engine")).then(|| "`unsafe` lives in engine".to_owned())
}

/// Terminal, streams and environment belong to `cli`.
fn surroundings(source: &Source, name: &Name) -> Option<String> {
    let pair = |module: &str, items: &[&str]| {
        name.path.windows(2).any(|pair| pair[0] == module && items.contains(&pair[1].as_str()))
    };
    let last = name.path.last()?;
    if name.is_macro && PRINTING.contains(&last.as_str()) && !source.is_in("cli/ui") {
        return Some(format!("`{last}!` lives in cli/ui"));
    }
    if pair("io", &STREAMS) && !source.is_in("cli/ui") {
        return Some(format!("`io::{last}` lives in cli/ui"));
    }
    if (last == "IsTerminal" || pair("env", &ENVIRONMENT)) && !source.is_in("cli") && source.path != "main.rs"
    {
        return Some(format!("`{last}` lives in cli"));
    }
    None
}

/// What the scanner knows of one file.
struct Source {
    path: String,
    module: Vec<String>,
    names: Vec<Name>,
    /// Modules in files of their own that exist only under `#[cfg(test)]`.
    test_modules: Vec<Vec<String>>,
}

/// A path of names joined by `::`, or a single name.
struct Name {
    line: usize,
    path: Vec<String>,
    /// The module that the path stands in.
    module: Vec<String>,
    in_test: bool,
    is_macro: bool,
    /// Part of a `use` or `extern crate`.
    imported: bool,
}

impl Name {
    /// The path from the root of our crate, if it leads there.
    fn inside(&self, source: &Source) -> Option<Vec<String>> {
        let mut steps = self.path.iter().map(String::as_str).peekable();
        let mut from = self.module.clone();
        match *steps.peek()? {
            "crate" => {
                steps.next();
                from.clear();
            }
            "self" | "super" => {
                if steps.peek() == Some(&"self") {
                    steps.next();
                }
                while steps.peek() == Some(&"super") {
                    steps.next();
                    from.pop();
                }
            }
            _ if source.path == "main.rs" => {}
            _ => return None,
        }
        from.extend(steps.map(str::to_owned));
        Some(from)
    }
}

impl Source {
    /// Whether this file is the given file (without `.rs`) or lies in the given folder.
    fn is_in(&self, place: &str) -> bool {
        let rest = self.path.strip_prefix(place);
        rest.is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
    }

    fn read(path: &str, text: &str) -> Self {
        let stem = path.trim_end_matches(".rs");
        let stem = stem.strip_suffix("/mod").unwrap_or(stem);
        let module = if stem == "main" { Vec::new() } else { stem.split('/').map(str::to_owned).collect() };
        let mut scanner = Scanner {
            tokens: tokens(text),
            at: 0,
            depth: 0,
            inline: Vec::new(),
            test: Test::No,
            source: Self { path: path.to_owned(), module, names: Vec::new(), test_modules: Vec::new() },
        };
        scanner.scan();
        scanner.source
    }
}

/// Where the scanner is with respect to `#[cfg(test)]`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Test {
    No,
    /// After the attribute, before the item's body.
    Item,
    /// In the body, which ends at this depth.
    Body(usize),
}

struct Scanner {
    tokens: Vec<(usize, Token)>,
    at: usize,
    depth: usize,
    /// Inline modules, each with the depth that it ends at.
    inline: Vec<(usize, String)>,
    test: Test,
    source: Source,
}

impl Scanner {
    fn scan(&mut self) {
        let mut imported = false;
        while let Some((_, token)) = self.tokens.get(self.at).cloned() {
            match token {
                Token::Mark('{') => self.open(),
                Token::Mark('}') => self.close(),
                Token::Mark(';') => {
                    imported = false;
                    if self.test == Test::Item {
                        self.test = Test::No;
                    }
                }
                Token::Mark('#') => self.attribute(),
                Token::Mark(_) => {}
                Token::Word(word) => {
                    imported |= word == "use" || word == "extern";
                    if word == "mod" {
                        self.declaration();
                    } else {
                        self.path(Vec::new(), imported);
                        continue;
                    }
                }
            }
            self.at += 1;
        }
    }

    fn open(&mut self) {
        if self.test == Test::Item {
            self.test = Test::Body(self.depth);
        }
        self.depth += 1;
    }

    fn close(&mut self) {
        self.depth = self.depth.saturating_sub(1);
        if self.test == Test::Body(self.depth) {
            self.test = Test::No;
        }
        self.inline.retain(|(depth, _)| *depth < self.depth);
    }

    /// `#[cfg(test)]`, or with `test` among other conditions.
    fn attribute(&mut self) {
        let ahead = |n: usize| self.tokens.get(self.at + n).map(|(_, token)| token);
        let is_cfg = ahead(1) == Some(&Token::Mark('[')) && ahead(2) == Some(&Token::Word("cfg".into()));
        let until_close = (3..).map_while(ahead).take_while(|token| **token != Token::Mark(']'));
        let mut words = until_close.filter(|token| matches!(token, Token::Word(_)));
        if is_cfg && self.test == Test::No && words.any(|word| *word == Token::Word("test".into())) {
            self.test = Test::Item;
        }
    }

    /// `mod name {` or `mod name;`; stops on the name.
    fn declaration(&mut self) {
        let (Some(Token::Word(name)), Some(after)) = (self.token(1), self.token(2)) else { return };
        match after {
            Token::Mark('{') => self.inline.push((self.depth, name)),
            Token::Mark(';') if self.test == Test::Item => {
                let mut module = self.module();
                module.push(name);
                self.source.test_modules.push(module);
            }
            _ => {}
        }
        self.at += 1;
    }

    /// A path that starts at a word, with the groups of a `use` tree unfolded; stops behind it.
    fn path(&mut self, mut path: Vec<String>, imported: bool) {
        let line = self.tokens[self.at].0;
        while let Some(Token::Word(word)) = self.token(0) {
            path.push(word);
            self.at += 1;
            if !(self.token(0) == Some(Token::Mark(':')) && self.token(1) == Some(Token::Mark(':'))) {
                break;
            }
            self.at += 2;
            if self.token(0) == Some(Token::Mark('{')) {
                self.group(&path, imported);
                return;
            }
        }
        let is_macro = self.token(0) == Some(Token::Mark('!')) && self.token(1) != Some(Token::Mark('='));
        let (module, in_test) = (self.module(), self.test != Test::No);
        self.source.names.push(Name { line, path, module, in_test, is_macro, imported });
    }

    /// `{a, b::{c, d}, e as f, self, *}` after `path::`; stops behind it.
    fn group(&mut self, path: &[String], imported: bool) {
        self.at += 1;
        loop {
            match self.token(0) {
                Some(Token::Word(word)) if word == "self" => {
                    self.source.names.push(Name {
                        line: self.tokens[self.at].0,
                        path: path.to_vec(),
                        module: self.module(),
                        in_test: self.test != Test::No,
                        is_macro: false,
                        imported,
                    });
                    self.at += 1;
                }
                Some(Token::Word(_)) => self.path(path.to_vec(), imported),
                Some(Token::Mark('}')) | None => break,
                Some(Token::Mark(_)) => self.at += 1,
            }
        }
        self.at += 1;
    }

    fn token(&self, ahead: usize) -> Option<Token> {
        self.tokens.get(self.at + ahead).map(|(_, token)| token.clone())
    }

    fn module(&self) -> Vec<String> {
        let inline = self.inline.iter().map(|(_, name)| name.clone());
        self.source.module.iter().cloned().chain(inline).collect()
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Word(String),
    Mark(char),
}

/// Words and marks with their lines, without comments, texts, characters and lifetimes.
fn tokens(text: &str) -> Vec<(usize, Token)> {
    let chars: Vec<char> = text.chars().collect();
    let mut found = Vec::new();
    let (mut at, mut line) = (0, 1);
    while at < chars.len() {
        let rest = &chars[at..];
        let length = skipped(rest);
        if length > 0 {
            line += rest[..length].iter().filter(|c| **c == '\n').count();
            at += length;
            continue;
        }
        let word: String = rest.iter().take_while(|c| c.is_alphanumeric() || **c == '_').collect();
        if word.is_empty() {
            if rest[0] == '\n' {
                line += 1;
            } else if !rest[0].is_whitespace() {
                found.push((line, Token::Mark(rest[0])));
            }
            at += 1;
        } else {
            at += word.chars().count();
            found.push((line, Token::Word(word)));
        }
    }
    found
}

/// The length of the comment, text, character or lifetime that starts here, or 0.
fn skipped(rest: &[char]) -> usize {
    let starts = |text: &str| text.chars().enumerate().all(|(i, c)| rest.get(i) == Some(&c));
    if starts("//") {
        return rest.iter().take_while(|c| **c != '\n').count();
    }
    if starts("/*") {
        return block_comment(rest);
    }
    let prefix = rest.iter().take_while(|c| "bcr".contains(**c)).count();
    let raw = prefix > 0 && rest[prefix - 1] == 'r';
    let hashes = rest[prefix..].iter().take_while(|c| raw && **c == '#').count();
    let quote = prefix + hashes;
    match rest.get(quote) {
        Some('"') if prefix <= 2 => quote + 1 + text_length(&rest[quote + 1..], raw, hashes),
        Some('\'') if hashes == 0 && (prefix == 0 || rest[..prefix] == ['b']) => {
            quote + character(&rest[quote..])
        }
        _ => 0,
    }
}

fn block_comment(rest: &[char]) -> usize {
    let (mut at, mut depth) = (0, 0_usize);
    while at + 1 < rest.len() {
        match (rest[at], rest[at + 1]) {
            ('/', '*') => (at, depth) = (at + 2, depth + 1),
            ('*', '/') => (at, depth) = (at + 2, depth - 1),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    rest.len()
}

/// The length of a text behind its opening quote, closing quote and hashes included.
fn text_length(rest: &[char], raw: bool, hashes: usize) -> usize {
    let mut at = 0;
    while at < rest.len() {
        match rest[at] {
            '\\' if !raw => at += 2,
            '"' if rest[at + 1..].iter().take(hashes).filter(|c| **c == '#').count() == hashes => {
                return at + 1 + hashes;
            }
            _ => at += 1,
        }
    }
    rest.len()
}

/// A character or a lifetime, from its quote on.
fn character(rest: &[char]) -> usize {
    match rest {
        // The second character of an escape is never its end: '\''.
        ['\'', '\\', _, tail @ ..] => 4 + tail.iter().take_while(|c| **c != '\'').count(),
        ['\'', _, '\'', ..] => 3,
        _ => 1 + rest[1..].iter().take_while(|c| c.is_alphanumeric() || **c == '_').count(),
    }
}

/// The rules that a snippet breaks, as `line: rule`.
fn check(path: &str, text: &str) -> Vec<String> {
    let broken = broken_rules(&[(path.to_owned(), text.to_owned())]);
    broken.into_iter().map(|broken| format!("{}: {}", broken.line, broken.rule)).collect()
}

#[test]
fn finds_a_look_at_a_wrong_floor() {
    let cli = "1: `session` must not know `cli`";
    assert_eq!(check("session/mod.rs", "use crate::cli::ui::Ui;"), [cli]);
    assert_eq!(check("session/mod.rs", "use crate::{engine, cli::{args, ui}};"), [cli]);
    assert_eq!(check("session/text.rs", "fn f() { super::super::cli::run() }"), [cli]);
    assert_eq!(check("session/text.rs", "mod a { use super::super::super::cli; }"), [cli]);
    assert_eq!(check("session/mod.rs", "use super::cli::{self};"), [cli]);
    assert_eq!(
        check("session/window.rs", "#[cfg(test)]\nuse crate::model;"),
        ["2: `session` must not know `model`"]
    );
    assert_eq!(
        check("model/gguf.rs", "\n\nuse crate::session::Session;"),
        ["3: `model` must not know `session`"]
    );
    assert_eq!(
        check("engine/llama.rs", "let x: crate::model::Shape;"),
        ["1: `engine` must not know `model`"]
    );
    assert_eq!(check("human.rs", "use crate::error::Error;"), ["1: `human` must not know `error`"]);
    assert_eq!(
        check("session/mod.rs", "mod cli; use cli::a; use crate::engine; use crate::session::text;"),
        [""; 0]
    );
    assert_eq!(check("cli/run.rs", "use crate::{engine::llama, model, session};"), [""; 0]);
    assert_eq!(check("main.rs", "mod cli; fn main() { cli::main() }"), [""; 0]);
}

#[test]
fn finds_an_outside_crate_that_is_not_at_home() {
    let clap = "1: `clap` lives in cli";
    assert_eq!(check("engine/mod.rs", "#[derive(clap::ValueEnum)]\nenum A {}"), [clap]);
    assert_eq!(check("engine/mod.rs", "use clap;"), [clap]);
    assert_eq!(check("engine/mod.rs", "extern crate clap;"), [clap]);
    assert_eq!(check("engine/mod.rs", "let clap = 1; f(clap);"), [""; 0]);
    assert_eq!(check("model/mod.rs", "use minijinja::Value;"), ["1: `minijinja` lives in session"]);
    assert_eq!(check("cli/doctor.rs", "::llama_cpp_2::f()"), ["1: `llama_cpp_2` lives in engine"]);
    assert_eq!(check("engine.rs", "use llama_cpp_2::model; use llama_cpp_sys_2 as sys;"), [""; 0]);
    assert_eq!(check("cli/args.rs", "use clap::{Args, Parser};"), [""; 0]);
    assert_eq!(check("cli/lines/editor.rs", "use rustyline::Editor;"), [""; 0]);
    assert_eq!(check("cli/outlines.rs", "use rustyline::Editor;"), ["1: `rustyline` lives in cli/lines"]);
}

#[test]
fn finds_unsafe_code_and_talk_on_the_wrong_floor() {
    assert_eq!(check("model/gguf.rs", "let a = unsafe { f() };"), ["1: `unsafe` lives in engine"]);
    assert_eq!(check("engine/llama.rs", "unsafe extern \"C\" fn log() {}"), [""; 0]);
    assert_eq!(
        check("cli/run.rs", "println!(\"a\"); std::eprint!()"),
        ["1: `println!` lives in cli/ui", "1: `eprint!` lives in cli/ui"]
    );
    assert_eq!(
        check("cli/run.rs", "let out = std::io::stdout().lock();"),
        ["1: `io::stdout` lives in cli/ui"]
    );
    assert_eq!(check("cli/run.rs", "use std::io::{self, stdin};"), ["1: `io::stdin` lives in cli/ui"]);
    assert_eq!(check("session/mod.rs", "use std::{env, io::IsTerminal};"), ["1: `IsTerminal` lives in cli"]);
    assert_eq!(check("model/mod.rs", "std::env::var(\"HOME\")"), ["1: `var` lives in cli"]);
    assert_eq!(check("cli/ui.rs", "use std::io::{stdout, IsTerminal}; fn f() { println!() }"), [""; 0]);
    assert_eq!(check("cli/run.rs", "std::env::var(\"A\"); env!(\"B\"); let print = 1; print != 2;"), [""; 0]);
}

#[test]
fn lets_tests_print_and_ask_the_environment() {
    let test = "#[cfg(test)]\nmod tests { fn f() { println!(); std::env::var(\"A\"); } }\n";
    assert_eq!(check("model/mod.rs", test), [""; 0]);
    assert_eq!(check("model/mod.rs", &format!("{test}fn g() {{ dbg!() }}")), ["3: `dbg!` lives in cli/ui"]);
    assert_eq!(
        check("model/mod.rs", "#[cfg(test)]\nuse a;\nfn g() { dbg!() }"),
        ["3: `dbg!` lives in cli/ui"]
    );
    let files =
        [("engine/mod.rs", "#[cfg(test)] mod scripted;"), ("engine/scripted.rs", "fn f() { print!() }")];
    assert_eq!(broken_rules(&files.map(|(path, text)| (path.to_owned(), text.to_owned()))), []);
}

#[test]
fn does_not_read_comments_and_texts() {
    let quiet = r##"
        // unsafe
        /* unsafe /* unsafe */ unsafe */
        //! println!("a")
        const A: &str = "unsafe \" unsafe";
        const B: &str = r#"unsafe " unsafe"#;
        const C: &[u8] = br"unsafe\";
        const D: char = '"'; const E: char = '\''; const F: u8 = b'"'; const G: char = '\u{7f}';
        fn f<'unsafe_>(text: &'unsafe_ str, r#type: u8, crab: u8) {}
    "##;
    assert_eq!(check("cli/run.rs", quiet), [""; 0]);
    assert_eq!(check("cli/run.rs", &format!("{quiet}unsafe")), ["10: `unsafe` lives in engine"]);
}
