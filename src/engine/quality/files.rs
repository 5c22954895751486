//! Measuring model files: the llama.cpp engine as something to evaluate, one or two models in memory at once.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use twox_hash::XxHash3_64;

use super::{CHUNK, Comparison, Evaluate, FIRST, Reference, Vocabulary, compare, interrupted, record};
use crate::engine::llama::{Brake, Llama, Weights};
use crate::engine::{Engine, KvType, LoadPlan, Token};
use crate::error::{Error, Result};

/// Logits that are asked for at once.
const OUTPUTS: u32 = 256;

/// What is measured, and how.
pub(crate) struct Measuring<'a> {
    /// Where the models go. The window and the type of the KV cache are always the same: a chunk, F16.
    pub(crate) plan: &'a LoadPlan,
    pub(crate) text: &'a str,
    /// Both models in memory at once. Otherwise the reference's log-probabilities go to a temporary file.
    pub(crate) together: bool,
    /// The folder for that file.
    pub(crate) folder: &'a Path,
    /// Stops an evaluation in the middle of a chunk.
    pub(crate) brake: Brake,
}

/// What is going on while measuring.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Event<'a> {
    /// A model is being loaded: the share done, 0 to 1.
    Loading(&'a Path, f32),
    /// Chunks evaluated, and of how many in all. Each model's count.
    Evaluated(usize, usize),
}

/// Is told what is going on; may break.
type Sink<'a> = dyn FnMut(Event<'_>) -> ControlFlow<()> + 'a;

/// Memory in bytes that measuring takes for each model in memory, beside its weights and its small KV cache: the
/// logits of half a chunk, where they are computed and where they are read.
pub(crate) fn memory_for_logits(vocabulary: usize) -> u64 {
    2 * u64::from(OUTPUTS) * 4 * vocabulary as u64
}

/// Compare two model files on a text.
///
/// # Errors
///
/// As [`compare`], and whatever keeps a model from loading.
pub(crate) fn compare_files(
    reference: &Path,
    candidate: &Path,
    how: &Measuring<'_>,
    sink: &mut Sink<'_>,
) -> Result<Comparison> {
    let threads = how.plan.threads;
    let first = how.load(reference, sink)?;
    if how.together {
        let second = how.load(candidate, sink)?;
        let mut reference = how.open(&first)?;
        let reference = Reference::Model(&mut reference);
        let report = &mut |done, all| sink(Event::Evaluated(done, all));
        return compare(reference, &mut how.open(&second)?, how.text, threads, report);
    }
    let report = &mut |done, all| sink(Event::Evaluated(done, 2 * all));
    let recording = record(&mut how.open(&first)?, how.text, how.folder, threads, report)?;
    drop(first);
    let second = how.load(candidate, sink)?;
    let report = &mut |done, all| sink(Event::Evaluated(all + done, 2 * all));
    compare(Reference::Recording(recording), &mut how.open(&second)?, how.text, threads, report)
}

impl Measuring<'_> {
    /// Load a model for measuring; [`Self::open`] then makes it something to evaluate.
    pub(crate) fn load(&self, path: &Path, sink: &mut Sink<'_>) -> Result<Weights> {
        let ctx = u32::try_from(CHUNK).unwrap_or(u32::MAX);
        let plan = LoadPlan { ctx, kv: KvType::F16, ..self.plan.clone() };
        Weights::load(path, &plan, &mut |share| sink(Event::Loading(path, share)))
    }

    pub(crate) fn open<'w>(&self, weights: &'w Weights) -> Result<Measured<'w>> {
        let llama = weights.open_for(OUTPUTS, Arc::clone(&self.brake))?;
        let window = llama.trained_window();
        if window < CHUNK {
            let message = format!("the model looks back on {window} tokens, measuring takes {CHUNK}");
            return Err(Error::failed(message));
        }
        Ok(Measured { vocabulary: vocabulary(&llama), llama })
    }
}

/// A model in memory, ready to be evaluated.
pub(crate) struct Measured<'w> {
    llama: Llama<'w>,
    vocabulary: Vocabulary,
}

fn vocabulary(llama: &Llama<'_>) -> Vocabulary {
    let mut len = 0;
    let mut texts = Vec::new();
    for text in llama.vocabulary() {
        len += 1;
        texts.extend_from_slice(text);
        texts.push(0);
    }
    Vocabulary { len, hash: XxHash3_64::oneshot(&texts) }
}

impl Evaluate for Measured<'_> {
    fn bos(&self) -> Option<Token> {
        self.llama.bos()
    }

    fn vocabulary(&self) -> Vocabulary {
        self.vocabulary
    }

    fn tokenize(&self, text: &str) -> Result<Vec<Token>> {
        self.llama.tokenize(text, false)
    }

    fn logits(&mut self, chunk: &[Token]) -> Result<&[f32]> {
        self.llama.evaluate(chunk, FIRST)?.ok_or_else(interrupted)
    }
}
