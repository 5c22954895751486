//! What an importance matrix is made of: a model evaluates a text, and of the input of each of its matrices the squares
//! are summed up, column by column. As llama.cpp's `tools/imatrix/imatrix.cpp` does it, whose result this equals.
#![expect(unsafe_code, reason = "llama.cpp hands over the inputs during the evaluation")]

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError};

use llama_cpp_sys_2 as sys;

use super::llama::{Brake, Llama, Weights};
use super::log::{self, failure};
use super::{Engine, KvType, LoadPlan, Token};
use crate::error::{Error, Kind, Result};
use crate::human::Thousands;
use collect::{Collector, on_node};

mod collect;
mod squares;
#[cfg(test)]
mod tests;

pub(crate) use squares::Squares;

/// Tokens in a piece of text; each is evaluated by itself. That of llama.cpp's tool.
const CHUNK: u32 = 512;

/// What a text did to a model.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Calibrated {
    /// For each weight of the layers, by its name, the squares of its inputs.
    pub(crate) tensors: BTreeMap<String, Squares>,
    pub(crate) chunks: u32,
    /// Tokens in a chunk.
    pub(crate) chunk_size: u32,
}

/// How far a calibration has come.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Progress {
    /// The share of the model that is loaded, 0 to 1.
    Loading(f32),
    /// Pieces of text that are done. Told many times for each, so that a break does not have to wait.
    Chunks { done: u32, all: u32 },
}

/// Told how far it has come; a break ends the calibration as interrupted.
pub(crate) type Report<'a> = dyn FnMut(Progress) -> ControlFlow<()> + 'a;

/// Let a model evaluate a text and sum up the inputs of its matrices. The header must have been found runnable; of the
/// plan, the window and the cache are chosen here. What is left of the text after the last whole chunk is not used.
pub(crate) fn calibrate(
    path: &Path,
    text: &str,
    plan: &LoadPlan,
    report: &mut Report<'_>,
) -> Result<Calibrated> {
    let plan = LoadPlan { ctx: CHUNK, kv: KvType::F16, ..plan.clone() };
    let weights = Weights::load(path, &plan, &mut |share| report(Progress::Loading(share)))?;
    let brake = Brake::default();
    let collector = Mutex::new(Collector::new(report, Arc::clone(&brake)));
    let mut params = weights.context;
    // Every token of a chunk is an output.
    params.n_outputs_max = 0;
    params.cb_eval = Some(on_node);
    params.cb_eval_user_data = ptr::from_ref(&collector).cast_mut().cast();
    // Dropped before the collector, which it calls.
    let mut llama = weights.open_with(params, brake)?;
    let size = chunk_size(&weights)?;
    let mut tokens: Vec<Token> = llama.bos().into_iter().collect();
    tokens.extend(llama.tokenize(text, false)?);
    let all = u32::try_from(tokens.len() / size).unwrap_or(u32::MAX);
    if all == 0 {
        let have = Thousands(tokens.len() as u64);
        return Err(Error::failed(format!(
            "the text has only {have} tokens, {size} are the least to calibrate with"
        )));
    }
    let lock = || collector.lock().unwrap_or_else(PoisonError::into_inner);
    for (done, chunk) in (0..).zip(tokens.chunks_exact_mut(size)) {
        lock().start_chunk(done, all)?;
        if let (Some(bos), Some(first)) = (llama.bos(), chunk.first_mut()) {
            *first = bos;
        }
        let code = evaluate(&mut llama, chunk);
        lock().end_chunk()?;
        if code != 0 {
            return Err(failure("cannot evaluate the text"));
        }
    }
    lock().finish(all)?;
    let tensors = lock().take();
    Ok(Calibrated { tensors, chunks: all, chunk_size: u32::try_from(size).unwrap_or(CHUNK) })
}

/// A model can have been trained on less than a chunk; learned positions end there.
fn chunk_size(weights: &Weights) -> Result<usize> {
    // SAFETY: a plain getter on a valid model.
    let trained = unsafe { sys::llama_model_n_ctx_train(weights.model.as_ptr()) };
    match u32::try_from(trained) {
        Ok(trained @ 1..) => Ok(trained.min(CHUNK) as usize),
        _ => Err(Error::failed("the model does not say how long a context it was trained on")),
    }
}

/// One call of `llama_decode` from an empty cache, and its answer. Every token is an output, or the last layer would
/// leave out all others.
fn evaluate(llama: &mut Llama<'_>, tokens: &mut [Token]) -> i32 {
    llama.clear();
    let mut outputs = vec![1_i8; tokens.len()];
    let len = i32::try_from(tokens.len()).unwrap_or(i32::MAX);
    log::forget();
    // SAFETY: not empty and at most n_batch tokens; the batch borrows the tokens and the flags, one for each token.
    unsafe {
        let mut batch = sys::llama_batch_get_one(tokens.as_mut_ptr(), len);
        batch.logits = outputs.as_mut_ptr();
        sys::llama_decode(llama.context.as_ptr(), batch)
    }
}

fn interrupted() -> Error {
    Error::new(Kind::Interrupted, "interrupted while calibrating")
}
