//! How good a model is on a text, and how close one model is to another: perplexity, KL divergence, top-1 agreement.
//!
//! Text is cut and scored as llama.cpp's `llama-perplexity` does (`tools/perplexity/perplexity.cpp`, functions
//! `perplexity` and `kl_divergence`, with `-c 512 -b 512`): chunks of [`CHUNK`] tokens, each from an empty cache, BOS in
//! place of each chunk's first token where the vocabulary wants one, and only the second half scored, so that every
//! scored token has something to be predicted from. The last tokens that fill no chunk are left out.
//!
//! Two models are compared token by token over their whole vocabulary. The reference's log-probabilities are kept in
//! 16 bits, whether both models are in memory ([`Reference::Model`]) or only one ([`record`], then
//! [`Reference::Recording`]): one path, and llama.cpp's figures. 16 bits are also the grain of the divergence: that
//! of a model from itself is some 0.00001 rather than 0. Perplexities are exact.

use std::ops::ControlFlow;
use std::path::Path;

use super::Token;
use crate::error::{Error, Kind, Result};

mod files;
mod grade;
mod recording;
mod rows;
mod statistics;
#[cfg(test)]
mod tests;

pub(crate) use files::{Event, Measuring, compare_files, memory_for_logits};
pub(crate) use grade::{Grade, Verdict, judge};
use recording::Recording;

use recording::Recorder;
use rows::Packed;

/// Tokens that are evaluated together, from an empty cache.
pub(crate) const CHUNK: usize = 512;

/// The first token of a chunk whose successor is scored.
const FIRST: usize = CHUNK / 2;

/// Tokens of a chunk that are scored: of the second half all but its first.
pub(crate) const SCORED: usize = CHUNK - 1 - FIRST;

/// A measured value with one standard error.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Estimate {
    pub(crate) value: f64,
    pub(crate) error: f64,
}

/// What a model made of a text.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Evaluation {
    /// e to the mean negative log-probability of a token.
    pub(crate) perplexity: Estimate,
    /// Tokens scored.
    pub(crate) tokens: usize,
}

/// How far a candidate is from a reference. Divergences are in nats.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Comparison {
    /// Tokens scored.
    pub(crate) tokens: usize,
    /// The reference's perplexity.
    pub(crate) reference: Estimate,
    /// The candidate's perplexity.
    pub(crate) candidate: Estimate,
    /// The candidate's perplexity over the reference's. llama.cpp prints it with a reference in 16 bits, which is too
    /// low where the reference knows little of the text.
    pub(crate) ratio: Estimate,
    /// Mean KL divergence of the candidate from the reference.
    pub(crate) kl: Estimate,
    pub(crate) kl_median: f32,
    /// 90, 95 and 99 of 100 tokens diverge less.
    pub(crate) kl_90: f32,
    pub(crate) kl_95: f32,
    pub(crate) kl_99: f32,
    pub(crate) kl_max: f32,
    /// The share of tokens, 0 to 1, where both think the same token the most likely.
    pub(crate) top1: Estimate,
    /// The root mean square of the difference in the probability of the text's own token, 0 to 1.
    pub(crate) rms_dp: Estimate,
}

/// Size and content of a vocabulary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Vocabulary {
    pub(crate) len: usize,
    /// A hash of all tokens in order.
    pub(crate) hash: u64,
}

/// A model that can be measured.
pub(crate) trait Evaluate {
    /// The token that stands first in every chunk, where the vocabulary wants one.
    fn bos(&self) -> Option<Token>;

    fn vocabulary(&self) -> Vocabulary;

    /// Text to tokens; the text of a control token stays text. Adds no token of its own.
    fn tokenize(&self, text: &str) -> Result<Vec<Token>>;

    /// Evaluate a chunk from an empty cache. Answers the logits after each token of its second half: `CHUNK / 2` rows,
    /// each as long as the vocabulary.
    fn logits(&mut self, chunk: &[Token]) -> Result<&[f32]>;
}

/// Is told the chunks evaluated, and of how many in all; may break.
pub(crate) type Report<'a> = dyn FnMut(usize, usize) -> ControlFlow<()> + 'a;

/// What a candidate is compared with.
pub(crate) enum Reference<'a> {
    /// A model in memory.
    Model(&'a mut dyn Evaluate),
    /// What [`record`] kept.
    Recording(Recording),
}

/// The perplexity of a model on a text.
///
/// # Errors
///
/// A text of fewer than two chunks, a model whose output is not a number, or [`Kind::Interrupted`].
pub(crate) fn perplexity(
    model: &mut dyn Evaluate,
    text: &str,
    threads: usize,
    report: &mut Report<'_>,
) -> Result<Evaluation> {
    let tokens = cut(model, text)?;
    let len = model.vocabulary().len;
    let mut losses = Vec::new();
    let mut steps = Steps::new(tokens.len() / CHUNK, report);
    for chunk in tokens.chunks_exact(CHUNK) {
        let logits = logits(model, chunk)?;
        losses.extend(rows::losses(logits, len, targets(chunk), threads)?);
        steps.step()?;
    }
    Ok(statistics::evaluation(&losses))
}

/// Keep what a reference says about a text in a temporary file in `folder`: two bytes for each word of the
/// vocabulary and each token scored.
///
/// # Errors
///
/// As [`perplexity`], and a folder that cannot be written to or has no room.
pub(crate) fn record(
    reference: &mut dyn Evaluate,
    text: &str,
    folder: &Path,
    threads: usize,
    report: &mut Report<'_>,
) -> Result<Recording> {
    let tokens = cut(reference, text)?;
    let vocabulary = reference.vocabulary();
    let mut recorder = Recorder::new(folder)?;
    let mut rows = Packed::new(SCORED, vocabulary.len);
    let mut steps = Steps::new(tokens.len() / CHUNK, report);
    for chunk in tokens.chunks_exact(CHUNK) {
        rows.fill(logits(reference, chunk)?, targets(chunk), threads)?;
        recorder.push(&rows)?;
        steps.step()?;
    }
    recorder.finish(vocabulary, tokens)
}

/// Compare a candidate with a reference on a text. Each model's chunks count for the report.
///
/// # Errors
///
/// As [`perplexity`], and two models that do not share their vocabulary, or cut the text differently.
pub(crate) fn compare(
    mut reference: Reference<'_>,
    candidate: &mut dyn Evaluate,
    text: &str,
    threads: usize,
    report: &mut Report<'_>,
) -> Result<Comparison> {
    let vocabulary = reference.vocabulary();
    check_same_vocabulary(vocabulary, candidate.vocabulary())?;
    let tokens = cut(candidate, text)?;
    check_same_tokens(&reference.tokens(text)?, &tokens)?;
    let mut rows = Packed::new(SCORED, vocabulary.len);
    let mut positions = Vec::new();
    let mut steps = Steps::new(tokens.len() / CHUNK * reference.models(), report);
    for chunk in tokens.chunks_exact(CHUNK) {
        if reference.next(chunk, &mut rows, threads)? {
            steps.step()?;
        }
        positions.extend(rows.compare(logits(candidate, chunk)?, targets(chunk), threads)?);
        steps.step()?;
    }
    Ok(statistics::comparison(&positions))
}

impl Reference<'_> {
    fn vocabulary(&self) -> Vocabulary {
        match self {
            Self::Model(model) => model.vocabulary(),
            Self::Recording(recording) => recording.vocabulary,
        }
    }

    fn tokens(&self, text: &str) -> Result<Vec<Token>> {
        match self {
            Self::Model(model) => cut(*model, text),
            Self::Recording(recording) => Ok(recording.tokens.clone()),
        }
    }

    /// Models that evaluate each chunk, the candidate included.
    fn models(&self) -> usize {
        match self {
            Self::Model(_) => 2,
            Self::Recording(_) => 1,
        }
    }

    /// The log-probabilities of the next chunk. Was it evaluated for that?
    fn next(&mut self, chunk: &[Token], rows: &mut Packed, threads: usize) -> Result<bool> {
        match self {
            Self::Model(model) => rows.fill(logits(*model, chunk)?, targets(chunk), threads).map(|()| true),
            Self::Recording(recording) => recording.next(rows).map(|()| false),
        }
    }
}

/// The text's whole chunks. As llama.cpp does with a file, one line end at the end of the text is left out.
fn cut(model: &dyn Evaluate, text: &str) -> Result<Vec<Token>> {
    let mut tokens: Vec<Token> = model.bos().into_iter().collect();
    tokens.extend(model.tokenize(text.strip_suffix('\n').unwrap_or(text))?);
    if tokens.len() < 2 * CHUNK {
        let message = format!("the text has {} tokens, measuring takes {} at least", tokens.len(), 2 * CHUNK);
        return Err(Error::failed(message));
    }
    tokens.truncate(tokens.len() / CHUNK * CHUNK);
    Ok(tokens)
}

/// The tokens that are scored.
fn targets(chunk: &[Token]) -> &[Token] {
    &chunk[FIRST + 1..]
}

/// The logits of a chunk, BOS in place of its first token.
fn logits<'a>(model: &'a mut dyn Evaluate, chunk: &[Token]) -> Result<&'a [f32]> {
    let len = model.vocabulary().len;
    let mut tokens = chunk.to_vec();
    if let (Some(first), Some(bos)) = (tokens.first_mut(), model.bos()) {
        *first = bos;
    }
    let logits = model.logits(&tokens)?;
    if len == 0 || logits.len() < SCORED * len {
        return Err(Error::failed("the model gave too few logits"));
    }
    Ok(logits)
}

fn check_same_vocabulary(reference: Vocabulary, candidate: Vocabulary) -> Result<()> {
    if reference.len != candidate.len {
        return Err(Error::failed(format!(
            "the models cannot be compared: one has a vocabulary of {} tokens, the other of {}",
            reference.len, candidate.len
        )));
    }
    if reference.hash != candidate.hash {
        return Err(Error::failed(format!(
            "the models cannot be compared: both vocabularies have {} tokens, but not the same ones",
            reference.len
        )));
    }
    Ok(())
}

fn check_same_tokens(reference: &[Token], candidate: &[Token]) -> Result<()> {
    if reference == candidate {
        return Ok(());
    }
    let same = reference.iter().zip(candidate).take_while(|(a, b)| a == b).count();
    let message =
        format!("the models cannot be compared: they cut the text differently from token {same} on");
    Err(Error::failed(message))
}

/// Counts chunks for a report.
struct Steps<'a, 'r> {
    done: usize,
    all: usize,
    report: &'a mut Report<'r>,
}

impl<'a, 'r> Steps<'a, 'r> {
    fn new(all: usize, report: &'a mut Report<'r>) -> Self {
        Self { done: 0, all, report }
    }

    fn step(&mut self) -> Result<()> {
        self.done += 1;
        match (self.report)(self.done, self.all) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(interrupted()),
        }
    }
}

fn interrupted() -> Error {
    Error::new(Kind::Interrupted, "interrupted while measuring")
}
