//! An engine that plays a script: exact answers for tests of everything above it.
//!
//! Its vocabulary: tokens 0 to 255 are bytes, 256 begins a text, 257 ends a turn, and the rest are the control
//! tokens `<|im_start|>`, `<|im_end|>`, `<think>` and `</think>`. Every answer is taken from the script in turn.

use std::collections::VecDeque;
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::{Engine, Fed, Sampling, Token};
use crate::error::{Error, Result};

const BOS: Token = 256;
const END: Token = 257;
const CONTROL: [(Token, &str); 6] = [
    (BOS, "<s>"),
    (END, "<|im_end|>"),
    (258, "<|im_start|>"),
    (259, "<think>"),
    (260, "</think>"),
    (261, "<|other|>"),
];

#[derive(Default)]
pub(crate) struct Scripted {
    pub(crate) window: usize,
    pub(crate) adds_bos: bool,
    /// A memory that cannot drop its end, like a recurrent one, nor move tokens.
    pub(crate) cannot_go_back: bool,
    marks: Vec<usize>,
    /// What was removed from the middle of the cache, to the end of it.
    pub(crate) removed: Vec<Range<usize>>,
    /// Fail when this many tokens have been fed.
    pub(crate) fail_after: Option<usize>,
    /// Stop at the brake when this many tokens have been fed.
    pub(crate) brake_after: Option<usize>,
    pub(crate) vram: Option<u64>,
    /// A file that another process moves to where a state is restored from, just before that.
    pub(crate) replacement: Option<PathBuf>,
    control_texts: Vec<String>,
    /// What is sampled, answer after answer.
    answers: VecDeque<VecDeque<Token>>,
    current: VecDeque<Token>,
    /// The cache.
    pub(crate) cache: Vec<Token>,
    /// All that was ever fed.
    pub(crate) fed: usize,
}

impl Scripted {
    pub(crate) fn new(window: usize, answers: &[&str]) -> Self {
        let end = |answer: &&str| {
            let mut tokens: VecDeque<Token> = tokens(answer, true).into();
            tokens.push_back(END);
            tokens
        };
        Self {
            window,
            control_texts: CONTROL.iter().map(|(_, name)| (*name).to_owned()).collect(),
            answers: answers.iter().map(end).collect(),
            ..Self::default()
        }
    }
}

/// Text to tokens, by the vocabulary above.
fn tokens(text: &str, special: bool) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if let Some((token, name)) = CONTROL.iter().find(|(_, name)| special && rest.starts_with(name)) {
            tokens.push(*token);
            rest = &rest[name.len()..];
        } else {
            tokens.extend(rest[..first.len_utf8()].bytes().map(Token::from));
            rest = &rest[first.len_utf8()..];
        }
    }
    tokens
}

/// The cache as text, for tests to compare.
pub(crate) fn shown(cache: &[Token]) -> String {
    let engine = Scripted::default();
    let bytes: Vec<u8> = cache.iter().flat_map(|&token| engine.piece(token, true)).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

impl Engine for Scripted {
    fn tokenize(&self, text: &str, special: bool) -> Result<Vec<Token>> {
        Ok(tokens(text, special))
    }

    fn piece(&self, token: Token, special: bool) -> Vec<u8> {
        match u8::try_from(token) {
            Ok(byte) => vec![byte],
            Err(_) if !special => Vec::new(),
            Err(_) => CONTROL
                .iter()
                .find(|(t, _)| *t == token)
                .map_or(Vec::new(), |(_, name)| name.as_bytes().to_vec()),
        }
    }

    fn is_end(&self, token: Token) -> bool {
        token == END
    }

    fn bos(&self) -> Option<Token> {
        self.adds_bos.then_some(BOS)
    }

    fn control_texts(&self) -> &[String] {
        &self.control_texts
    }

    fn window(&self) -> usize {
        self.window
    }

    fn batch(&self) -> usize {
        512
    }

    fn truncate(&mut self, len: usize) -> Result<usize> {
        if len < self.cache.len() {
            self.marks.retain(|mark| *mark <= len);
            let mark = self.marks.last().copied().unwrap_or(0);
            self.cache.truncate(if self.cannot_go_back { mark } else { len });
        }
        Ok(self.cache.len())
    }

    fn goes_back(&self) -> bool {
        !self.cannot_go_back
    }

    fn mark(&mut self) -> Result<()> {
        self.marks.push(self.cache.len());
        Ok(())
    }

    fn unshiftable(&self) -> Option<&'static str> {
        self.cannot_go_back.then_some("the script says so")
    }

    fn remove(&mut self, range: Range<usize>) -> Result<()> {
        assert!(!self.cannot_go_back && range.end <= self.cache.len(), "an invalid removal");
        self.cache.drain(range.clone());
        self.removed.push(range);
        Ok(())
    }

    fn state_size(&self) -> Option<u64> {
        (!self.cache.is_empty()).then_some(4 + 4 * self.cache.len() as u64)
    }

    /// The number of tokens, and the tokens.
    fn save(&mut self, path: &Path, tokens: &[Token]) -> Result<()> {
        assert_eq!(self.cache, tokens, "the cache holds something else");
        let count = Token::try_from(tokens.len()).unwrap();
        let bytes: Vec<u8> = std::iter::once(&count).chain(tokens).flat_map(|n| n.to_le_bytes()).collect();
        std::fs::write(path, bytes).map_err(|e| Error::failed(e.to_string()))
    }

    fn restore(&mut self, path: &Path, tokens: &[Token]) -> bool {
        self.marks.clear();
        self.cache.clear();
        if let Some(file) = self.replacement.take() {
            std::fs::rename(file, path).unwrap();
        }
        let bytes = std::fs::read(path).unwrap_or_default();
        let mut numbers = bytes.chunks_exact(4).map(|n| Token::from_le_bytes(n.try_into().unwrap()));
        let count = numbers.next().and_then(|count| usize::try_from(count).ok()).unwrap_or(0);
        let held: Vec<Token> = numbers.take(count).collect();
        if held != tokens || tokens.is_empty() || tokens.len() > self.window {
            return false;
        }
        self.cache = held;
        true
    }

    fn vram(&self) -> Option<u64> {
        self.vram
    }

    fn feed(&mut self, tokens: &[Token], _: bool) -> Result<Fed> {
        assert!(!tokens.is_empty() && self.cache.len() + tokens.len() <= self.window, "an invalid batch");
        for (count, &token) in tokens.iter().enumerate() {
            if self.brake_after.is_some_and(|limit| self.fed >= limit) {
                self.brake_after = None;
                if self.cannot_go_back && count > 0 {
                    self.cache.truncate(self.marks.last().copied().unwrap_or(0));
                }
                return Ok(Fed::Interrupted(self.cache.len()));
            }
            if self.fail_after.is_some_and(|limit| self.fed >= limit) {
                return Err(Error::failed("the script says so"));
            }
            self.cache.push(token);
            self.fed += 1;
        }
        Ok(Fed::All)
    }

    fn wait(&mut self) {}

    fn begin(&mut self, _: &Sampling, _: &[Token]) -> Result<()> {
        self.current = self.answers.pop_front().unwrap_or_default();
        Ok(())
    }

    fn sample(&mut self) -> Result<Token> {
        Ok(self.current.pop_front().unwrap_or(END))
    }
}
