//! The llama.cpp engine: model, context, batches and samplers behind safe calls.
//!
//! llama-cpp-2 hides its raw handles, and with them the abort callback, the sliding window, the thread counts and
//! the memory; so the handles here are our own over llama-cpp-sys-2, and llama-cpp-2 serves what needs no handle.
//! llama.cpp aborts the process on many wrong calls: every call is preceded by the check that it wants.
#![expect(unsafe_code, reason = "this file is the boundary to llama.cpp")]

use std::cell::OnceCell;
use std::ffi::{CStr, CString, c_void};
use std::marker::PhantomData;
use std::ops::{ControlFlow, Range};
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use llama_cpp_sys_2 as sys;

use self::marks::Marks;
use super::log::{self, failure};
use super::placement::{Placement, chosen_devices, uses_gpu};
use super::sampler::{Sampler, argmax};
use super::vram::Vram;
use super::{Engine, Fed, Flash, GpuLayers, KvType, LoadPlan, Sampling, Token};
use crate::error::{Error, Kind, Result};

mod marks;
mod shift;
mod state;

/// The release of llama.cpp inside llama-cpp-sys-2; the pin in `Cargo.toml` keeps the two together.
pub(crate) const LLAMA_CPP_BUILD: &str = "b11434";

/// The brake of a running evaluation: set it and the engine stops as soon as it can.
pub(crate) type Brake = Arc<AtomicBool>;

/// A model in memory.
pub(crate) struct Weights {
    pub(super) model: NonNull<sys::llama_model>,
    vocab: NonNull<sys::llama_vocab>,
    /// Keeps the context parameters that llama.cpp's fit chose for this model.
    pub(super) context: sys::llama_context_params,
    /// Layers on a GPU, where there is one.
    pub(crate) gpu_layers: i32,
    /// Nothing of it stayed with the CPU but the table that tokens are looked up in.
    pub(crate) is_whole_on_gpu: bool,
    /// The GPUs before the model came.
    vram: Vram,
}

impl Weights {
    /// Load a model. `progress` is told the share done, 0 to 1, and may break.
    pub(crate) fn load(
        path: &Path,
        plan: &LoadPlan,
        progress: &mut dyn FnMut(f32) -> ControlFlow<()>,
    ) -> Result<Self> {
        log::init();
        let vram = Vram::now();
        let file = path
            .to_str()
            .and_then(|p| CString::new(p).ok())
            .ok_or_else(|| Error::failed(format!("the path {} is not valid UTF-8", path.display())))?;
        let mut chosen = chosen_devices(plan)?;
        let mut context = context_params(plan);
        let mut placement = Placement::new();
        // SAFETY: plain values.
        let mut params = unsafe { sys::llama_model_default_params() };
        if let Some(list) = &mut chosen {
            params.devices = list.as_mut_ptr();
        }
        params.n_gpu_layers = match plan.gpu_layers {
            GpuLayers::Auto | GpuLayers::All => -1,
            GpuLayers::Count(n) => i32::try_from(n).unwrap_or(i32::MAX),
        };
        let on_gpu = uses_gpu(plan.device.as_deref(), plan.gpu_layers);
        if plan.gpu_layers == GpuLayers::Auto && on_gpu {
            placement.fit(&file, &mut params, &mut context)?;
        }
        let mut report = Report { progress, stopped: false };
        params.progress_callback = Some(on_progress);
        params.progress_callback_user_data = (&raw mut report).cast();
        log::forget();
        // SAFETY: the path is a C string; device list, placement and report outlive the call, which is the only user.
        let model = unsafe { sys::llama_model_load_from_file(file.as_ptr(), params) };
        let Some(model) = NonNull::new(model) else {
            return Err(if report.stopped {
                Error::new(Kind::Interrupted, "interrupted while loading")
            } else {
                failure(&format!("cannot load `{}`", path.display()))
            });
        };
        // SAFETY: the model is valid; its vocabulary lives as long.
        let vocab = unsafe { sys::llama_model_get_vocab(model.as_ptr()) };
        // SAFETY: a plain getter on a valid model.
        let layers = unsafe { sys::llama_model_n_layer(model.as_ptr()) };
        let weights = Self {
            model,
            vocab: NonNull::new(vocab.cast_mut())
                .ok_or_else(|| Error::failed("the model has no vocabulary"))?,
            context,
            gpu_layers: params.n_gpu_layers,
            is_whole_on_gpu: on_gpu && is_whole(params.n_gpu_layers, layers) && !placement.holds_back(),
            vram,
        };
        weights.refuse_what_cannot_generate(path)?;
        Ok(weights)
    }

    /// The header check has refused these by name already; this is the word of the library itself.
    fn refuse_what_cannot_generate(&self, path: &Path) -> Result<()> {
        let model = self.model.as_ptr();
        // SAFETY: a valid model; both are plain getters.
        let (encoder, diffusion) =
            unsafe { (sys::llama_model_has_encoder(model), sys::llama_model_is_diffusion(model)) };
        if encoder || diffusion {
            let what = if encoder { "an encoder" } else { "a diffusion model" };
            return Err(Error::failed(format!("`{}` is {what}, it cannot continue a text", path.display())));
        }
        Ok(())
    }

    /// Open a context: the KV cache is allocated here, at its full size.
    pub(crate) fn open(&self, brake: Brake) -> Result<Llama<'_>> {
        self.open_with(self.context, brake)
    }

    /// Open a context by another plan than the one it was loaded by; the weights stay where they are.
    pub(crate) fn open_by(&self, plan: &LoadPlan, brake: Brake) -> Result<Llama<'_>> {
        self.open_with(context_params(plan), brake)
    }

    /// llama.cpp's own words for the model, such as `llama 135M Q4_1`; bytes of its tensors; its parameters.
    pub(crate) fn about(&self) -> (String, u64, u64) {
        let model = self.model.as_ptr();
        let mut text = [0_u8; 128];
        // SAFETY: plain getters on a valid model; the text is cut to the buffer and ends with a zero.
        let (bytes, parameters) = unsafe {
            sys::llama_model_desc(model, text.as_mut_ptr().cast(), text.len());
            (sys::llama_model_size(model), sys::llama_model_n_params(model))
        };
        let text = CStr::from_bytes_until_nul(&text).unwrap_or_default();
        (text.to_string_lossy().into_owned(), bytes, parameters)
    }

    /// Open a context for [`Llama::evaluate`] with room for the logits of `outputs` tokens, not of a whole batch.
    pub(super) fn open_for(&self, outputs: u32, brake: Brake) -> Result<Llama<'_>> {
        self.open_with(sys::llama_context_params { n_outputs_max: outputs, ..self.context }, brake)
    }

    /// Open a context with parameters made from [`Self::context`].
    pub(super) fn open_with(&self, mut params: sys::llama_context_params, brake: Brake) -> Result<Llama<'_>> {
        params.abort_callback = Some(on_abort);
        params.abort_callback_data = Arc::as_ptr(&brake).cast_mut().cast();
        log::forget();
        // SAFETY: a valid model; the brake is kept in `Llama`, which frees the context before it.
        let context = unsafe { sys::llama_init_from_model(self.model.as_ptr(), params) };
        let context = NonNull::new(context)
            .ok_or_else(|| failure("cannot open a context").hint("try a smaller `--ctx`"))?;
        // SAFETY: a valid context.
        let memory = unsafe { sys::llama_get_memory(context.as_ptr()) };
        // SAFETY: a plain getter on a valid context. n_batch is read back because llama.cpp may lower it.
        let batch = unsafe { sys::llama_n_batch(context.as_ptr()) } as usize;
        let llama = Llama {
            context,
            memory,
            vocab: self.vocab,
            window: params.n_ctx as usize,
            batch,
            outputs: if params.n_outputs_max == 0 { batch } else { params.n_outputs_max as usize },
            sliding: self.sliding_window(),
            recurrent: self.is_recurrent(),
            unshiftable: self.unshiftable(memory, params.type_k),
            shift_pending: false,
            marks: Marks::default(),
            sampler: None,
            control_texts: OnceCell::new(),
            brake,
            vram: self.vram.clone(),
            weights: PhantomData,
        };
        if memory.is_null() {
            return Err(Error::failed("this kind of model has no memory, it cannot continue a text"));
        }
        Ok(llama)
    }
}

impl Drop for Weights {
    fn drop(&mut self) {
        // SAFETY: contexts borrow the weights, so none is left.
        unsafe { sys::llama_model_free(self.model.as_ptr()) }
    }
}

/// A context: one sequence of tokens in a KV cache, over borrowed weights.
pub(crate) struct Llama<'w> {
    pub(super) context: NonNull<sys::llama_context>,
    memory: sys::llama_memory_t,
    vocab: NonNull<sys::llama_vocab>,
    window: usize,
    batch: usize,
    /// The most tokens of a batch that can have logits.
    outputs: usize,
    sliding: usize,
    /// Has a state that sums up all tokens, alone or beside a KV cache.
    recurrent: bool,
    unshiftable: Option<&'static str>,
    /// Tokens have moved and their keys will be turned by the next decode.
    shift_pending: bool,
    marks: Marks,
    sampler: Option<Sampler>,
    control_texts: OnceCell<Vec<String>>,
    brake: Brake,
    vram: Vram,
    weights: PhantomData<&'w Weights>,
}

impl Llama<'_> {
    /// Tokens in the cache.
    fn len(&self) -> usize {
        // SAFETY: a valid memory, sequence 0 exists. -1 is the empty cache.
        let last = unsafe { sys::llama_memory_seq_pos_max(self.memory, 0) };
        usize::try_from(last + 1).unwrap_or(0)
    }

    /// Evaluate single tokens, and prompts, with so many threads from now on.
    pub(crate) fn set_threads(&mut self, threads: usize, threads_batch: usize) {
        let count = |threads: usize| i32::try_from(threads.max(1)).unwrap_or(i32::MAX);
        // SAFETY: a valid context, which evaluates nothing now.
        unsafe {
            sys::llama_set_n_threads(self.context.as_ptr(), count(threads), count(threads_batch));
        }
    }

    /// A batch was left half evaluated: nothing of it may stay. A recurrent state cannot be taken back to before it,
    /// and of tokens that had moved nobody knows which keys have been turned.
    fn forget_half_done(&mut self, before: usize) -> Result<usize> {
        if self.shift_pending {
            self.clear();
            return Ok(0);
        }
        if self.recurrent { Ok(self.back_to_mark(before)) } else { self.truncate(before) }
    }

    pub(super) fn clear(&mut self) {
        // SAFETY: a valid memory.
        unsafe { sys::llama_memory_clear(self.memory, false) }
        self.shift_pending = false;
        self.marks.forget();
    }

    /// Return to the last mark that is not beyond `len`, or to the beginning. Answers how many tokens stay.
    fn back_to_mark(&mut self, len: usize) -> usize {
        let place = self.marks.restore(self.context, len);
        let back = i32::try_from(place).unwrap_or(0);
        // SAFETY: a valid memory, sequence 0 exists; what a KV cache beside the mark holds beyond it goes.
        let done = place > 0 && unsafe { sys::llama_memory_seq_rm(self.memory, 0, back, -1) };
        if done && self.len() == place {
            return place;
        }
        self.clear();
        0
    }

    /// Can the cache go back to `len` tokens? A sliding window overwrites what has left it, so the tokens that
    /// position `len` would look at must still be there.
    fn can_go_back(&self, len: usize) -> bool {
        if self.sliding == 0 {
            return true;
        }
        // SAFETY: a valid memory, sequence 0 exists.
        let first = unsafe { sys::llama_memory_seq_pos_min(self.memory, 0) };
        usize::try_from(first).is_ok_and(|first| first <= len.saturating_sub(self.sliding))
    }

    /// The text of a token that text must not turn into by itself. User-defined tokens are ordinary text, but for
    /// those written like control tokens, which some models use as such.
    fn control_text(&self, token: Token) -> Option<String> {
        // SAFETY: callers pass tokens inside the vocabulary.
        let attributes = unsafe { sys::llama_vocab_get_attr(self.vocab.as_ptr(), token) };
        let control = attributes & (sys::LLAMA_TOKEN_ATTR_CONTROL | sys::LLAMA_TOKEN_ATTR_UNKNOWN) != 0;
        if !control && attributes & sys::LLAMA_TOKEN_ATTR_USER_DEFINED == 0 {
            return None;
        }
        let text = String::from_utf8(self.piece(token, true)).ok().filter(|text| !text.is_empty())?;
        (control || (text.starts_with("<|") && text.ends_with("|>"))).then_some(text)
    }

    /// The number of tokens in the vocabulary.
    pub(super) fn vocabulary_len(&self) -> usize {
        // SAFETY: a valid vocabulary.
        usize::try_from(unsafe { sys::llama_vocab_n_tokens(self.vocab.as_ptr()) }).unwrap_or(0)
    }

    /// The tokens as they stand in the vocabulary, in its order.
    pub(super) fn vocabulary(&self) -> impl Iterator<Item = &[u8]> {
        let vocab = self.vocab.as_ptr();
        // SAFETY: plain getters on a valid vocabulary.
        let (kind, len) = unsafe { (sys::llama_vocab_type(vocab), sys::llama_vocab_n_tokens(vocab)) };
        let len = if kind == sys::LLAMA_VOCAB_TYPE_NONE { 0 } else { len };
        (0..len).map(move |token| {
            // SAFETY: a token of a valid vocabulary that has texts: a null-terminated string that lives as long.
            unsafe { CStr::from_ptr(sys::llama_vocab_get_text(vocab, token)) }.to_bytes()
        })
    }

    /// The tokens that the model was trained to look back on.
    pub(super) fn trained_window(&self) -> usize {
        // SAFETY: a valid context, and with it its model.
        let len = unsafe { sys::llama_model_n_ctx_train(sys::llama_get_model(self.context.as_ptr())) };
        usize::try_from(len).unwrap_or(0)
    }

    /// Evaluate tokens from an empty cache, all in one batch: the logits after the one at `first` and after each
    /// later one, row by row. `None` when the brake stopped it. The cache is left to be cleared.
    pub(super) fn evaluate(&mut self, tokens: &[Token], first: usize) -> Result<Option<&[f32]>> {
        let limit = self.batch.min(self.window);
        let outputs = tokens.len().saturating_sub(first);
        if tokens.len() > limit || outputs == 0 || outputs > self.outputs {
            let (len, room) = (tokens.len(), self.outputs);
            return Err(Error::failed(format!(
                "{len} tokens with {outputs} outputs do not fit a batch of {limit} with {room}"
            )));
        }
        if self.brake.load(Ordering::Relaxed) {
            return Ok(None);
        }
        self.clear();
        let mut wanted: Vec<i8> = (0..tokens.len()).map(|at| (at >= first).into()).collect();
        match self.decode(tokens, &mut wanted) {
            0 => self.rows(first, outputs).map(Some),
            2 => Ok(None),
            _ => Err(failure("cannot evaluate the text")),
        }
    }

    /// One call of `llama_decode`, and its answer.
    fn decode(&mut self, tokens: &[Token], outputs: &mut [i8]) -> i32 {
        assert!(!tokens.is_empty() && tokens.len() <= self.batch && tokens.len() == outputs.len());
        assert!(outputs.iter().filter(|output| **output != 0).count() <= self.outputs);
        let len = i32::try_from(tokens.len()).unwrap_or(i32::MAX);
        log::forget();
        // SAFETY: not empty and at most n_batch tokens; the batch borrows the tokens and the flags, one for each
        // token, and C does not write to them.
        let status = unsafe {
            let mut batch = sys::llama_batch_get_one(tokens.as_ptr().cast_mut(), len);
            batch.logits = outputs.as_mut_ptr();
            sys::llama_decode(self.context.as_ptr(), batch)
        };
        // llama.cpp goes on without the keys that it could not turn.
        let unturned = self.shift_pending && log::first_error().is_some_and(|said| said.contains("K-shift"));
        let status = if status == 0 && unturned { -1 } else { status };
        self.shift_pending &= status != 0;
        status
    }

    /// The logits of the `count` tokens from the one at `first` of the last batch on, all of which were outputs.
    fn rows(&self, first: usize, count: usize) -> Result<&[f32]> {
        let first = i32::try_from(first).map_err(|_| Error::failed("the batch is too long"))?;
        // SAFETY: a valid context; a token without output is null.
        let row = unsafe { sys::llama_get_logits_ith(self.context.as_ptr(), first) };
        if row.is_null() {
            return Err(Error::failed("the model gave no output"));
        }
        // SAFETY: rows lie in the order of the batch and stay until the next decode, which needs `&mut self`.
        Ok(unsafe { std::slice::from_raw_parts(row, count * self.vocabulary_len()) })
    }

    /// The logits of the last token fed, one per token of the vocabulary.
    fn logits(&self) -> Result<&[f32]> {
        // SAFETY: plain getters on valid handles; -1 is the last output row, null where there is none.
        let (row, len) = unsafe {
            (
                sys::llama_get_logits_ith(self.context.as_ptr(), -1),
                sys::llama_vocab_n_tokens(self.vocab.as_ptr()),
            )
        };
        if row.is_null() {
            return Err(Error::failed("nothing has been evaluated to sample from"));
        }
        // SAFETY: llama.cpp holds one float per token at `row` until the next decode, which needs `&mut self`.
        let logits = unsafe { std::slice::from_raw_parts(row, usize::try_from(len).unwrap_or(0)) };
        // Minus infinity is how a token is ruled out.
        let mut bad = false;
        for logit in logits {
            bad |= logit.is_nan();
            bad |= *logit == f32::INFINITY;
        }
        if bad {
            return Err(Error::failed(
                "the model's output is not a number; the weights or the device are faulty",
            ));
        }
        Ok(logits)
    }
}

impl Drop for Llama<'_> {
    fn drop(&mut self) {
        // SAFETY: the only owner; samplers do not refer to the context.
        unsafe { sys::llama_free(self.context.as_ptr()) }
    }
}

impl Engine for Llama<'_> {
    fn tokenize(&self, text: &str, special: bool) -> Result<Vec<Token>> {
        let too_long = || Error::failed("the text is too long to be tokenized");
        if text.is_empty() {
            return Ok(Vec::new());
        }
        let len = i32::try_from(text.len()).map_err(|_| too_long())?;
        // A token is at least one byte of text, but for a prefix that some vocabularies add.
        let mut tokens = vec![0; text.len() + 8];
        loop {
            let room = i32::try_from(tokens.len()).map_err(|_| too_long())?;
            // SAFETY: pointer and length of a live string and of a live buffer.
            let count = unsafe {
                sys::llama_tokenize(
                    self.vocab.as_ptr(),
                    text.as_ptr().cast(),
                    len,
                    tokens.as_mut_ptr(),
                    room,
                    false,
                    special,
                )
            };
            match usize::try_from(count) {
                Ok(count) => {
                    tokens.truncate(count);
                    return Ok(tokens);
                }
                Err(_) if count == i32::MIN => return Err(too_long()),
                Err(_) => tokens.resize(count.unsigned_abs() as usize, 0),
            }
        }
    }

    fn piece(&self, token: Token, special: bool) -> Vec<u8> {
        let mut bytes = vec![0_u8; 32];
        loop {
            let room = i32::try_from(bytes.len()).unwrap_or(i32::MAX);
            // SAFETY: the token came from this vocabulary; pointer and length of a live buffer.
            let count = unsafe {
                sys::llama_token_to_piece(
                    self.vocab.as_ptr(),
                    token,
                    bytes.as_mut_ptr().cast(),
                    room,
                    0,
                    special,
                )
            };
            if let Ok(count) = usize::try_from(count) {
                bytes.truncate(count);
                return bytes;
            }
            bytes.resize(count.unsigned_abs() as usize, 0);
        }
    }

    fn is_end(&self, token: Token) -> bool {
        // SAFETY: a valid vocabulary; out of range is false.
        unsafe { sys::llama_vocab_is_eog(self.vocab.as_ptr(), token) }
    }

    fn bos(&self) -> Option<Token> {
        // SAFETY: a valid vocabulary. A vocabulary without BOS says -1.
        let (wanted, bos) = unsafe {
            (sys::llama_vocab_get_add_bos(self.vocab.as_ptr()), sys::llama_vocab_bos(self.vocab.as_ptr()))
        };
        (wanted && bos >= 0).then_some(bos)
    }

    fn control_texts(&self) -> &[String] {
        self.control_texts.get_or_init(|| {
            // SAFETY: a valid vocabulary.
            let size = unsafe { sys::llama_vocab_n_tokens(self.vocab.as_ptr()) };
            (0..size).filter_map(|token| self.control_text(token)).collect()
        })
    }

    fn window(&self) -> usize {
        self.window
    }

    fn batch(&self) -> usize {
        self.batch
    }

    fn truncate(&mut self, len: usize) -> Result<usize> {
        let have = self.len();
        if len >= have {
            return Ok(have);
        }
        let back = i32::try_from(len).map_err(|_| Error::failed("the context is too long"))?;
        // SAFETY: a valid memory, sequence 0 exists; -1 is the end. Memory that cannot do it answers false.
        let done =
            len > 0 && self.can_go_back(len) && unsafe { sys::llama_memory_seq_rm(self.memory, 0, back, -1) };
        if done {
            self.marks.forget_beyond(len);
            return Ok(len);
        }
        Ok(self.back_to_mark(len))
    }

    fn goes_back(&self) -> bool {
        self.sliding == 0 && !self.recurrent
    }

    fn mark(&mut self) -> Result<()> {
        if !self.goes_back() && self.len() > 0 {
            self.marks.set(self.context, self.len());
        }
        Ok(())
    }

    fn unshiftable(&self) -> Option<&'static str> {
        self.unshiftable
    }

    fn remove(&mut self, range: Range<usize>) -> Result<()> {
        let have = self.len();
        if let Some(why) = self.unshiftable {
            return Err(Error::failed(format!("this model's memory cannot be moved: {why}")));
        }
        if range.end > have {
            return Err(Error::failed(format!("the cache holds {have} tokens, not {}", range.end)));
        }
        if range.is_empty() {
            return Ok(());
        }
        let position = |n| i32::try_from(n).map_err(|_| Error::failed("the context is too long"));
        let (start, end, by) = (position(range.start)?, position(range.end)?, position(range.len())?);
        // SAFETY: a valid memory, sequence 0 exists, and it was asked whether it can shift; -1 is the end.
        let done = unsafe { sys::llama_memory_seq_rm(self.memory, 0, start, end) };
        if !done {
            self.clear();
            return Err(Error::failed("llama.cpp would not take tokens out of the cache"));
        }
        if range.end < have {
            // SAFETY: as above; the tokens from `end` on move to where room has been made.
            unsafe { sys::llama_memory_seq_add(self.memory, 0, end, -1, -by) }
            self.shift_pending = true;
        }
        Ok(())
    }

    fn state_size(&self) -> Option<u64> {
        self.state_size()
    }

    fn save(&mut self, path: &Path, tokens: &[Token]) -> Result<()> {
        self.save_state(path, tokens)
    }

    fn restore(&mut self, path: &Path, tokens: &[Token]) -> bool {
        self.restore_state(path, tokens)
    }

    fn vram(&self) -> Option<u64> {
        self.vram.taken()
    }

    fn feed(&mut self, tokens: &[Token], output: bool) -> Result<Fed> {
        let start = self.len();
        if start + tokens.len() > self.window {
            return Err(Error::failed(format!("the context of {} tokens is full", self.window)));
        }
        let mut done = start;
        for chunk in tokens.chunks(self.batch) {
            if self.brake.load(Ordering::Relaxed) {
                return Ok(Fed::Interrupted(done));
            }
            let mut outputs = vec![0_i8; chunk.len()];
            if let Some(last) = outputs.last_mut() {
                *last = (output && done + chunk.len() == start + tokens.len()).into();
            }
            match self.decode(chunk, &mut outputs) {
                0 => done += chunk.len(),
                1 => return Err(Error::failed(format!("the context of {} tokens is full", self.window))),
                2 => return Ok(Fed::Interrupted(self.forget_half_done(done)?)),
                _ => {
                    let error = failure("cannot evaluate the prompt");
                    self.forget_half_done(done)?;
                    return Err(error);
                }
            }
        }
        Ok(Fed::All)
    }

    fn wait(&mut self) {
        // SAFETY: a valid context.
        unsafe { sys::llama_synchronize(self.context.as_ptr()) }
    }

    fn begin(&mut self, sampling: &Sampling, history: &[Token]) -> Result<()> {
        sampling.validate()?;
        // SAFETY: a valid vocabulary.
        let vocab = unsafe { sys::llama_vocab_n_tokens(self.vocab.as_ptr()) };
        self.sampler = Sampler::new(sampling, vocab, history);
        Ok(())
    }

    fn sample(&mut self) -> Result<Token> {
        let logits = self.logits()?;
        let Some(sampler) = &self.sampler else {
            return Ok(argmax(logits));
        };
        // SAFETY: the context has a last output row: it is where the logits came from.
        Ok(unsafe { sampler.sample(self.context.as_ptr()) })
    }
}

/// Are so many layers all of them? A negative number means that, and the output counts as one.
fn is_whole(on_gpu: i32, layers: i32) -> bool {
    on_gpu < 0 || on_gpu > layers
}

fn context_params(plan: &LoadPlan) -> sys::llama_context_params {
    // SAFETY: plain values.
    let mut params = unsafe { sys::llama_context_default_params() };
    let count = |threads| i32::try_from(threads).unwrap_or(i32::MAX);
    params.n_ctx = plan.ctx;
    params.n_batch = plan.batch;
    params.n_ubatch = plan.ubatch;
    params.n_threads = count(plan.threads);
    params.n_threads_batch = count(plan.threads_batch);
    // One token is sampled at a time. Otherwise there would be room for the logits of a whole micro-batch.
    params.n_outputs_max = 1;
    params.no_perf = true;
    params.swa_full = false;
    params.type_k = match plan.kv {
        KvType::F16 => sys::GGML_TYPE_F16,
        KvType::Q8_0 => sys::GGML_TYPE_Q8_0,
        KvType::Q4_0 => sys::GGML_TYPE_Q4_0,
    };
    params.type_v = params.type_k;
    // Quantized values can only be read by flash attention; otherwise llama.cpp knows where it pays.
    params.flash_attn_type = match (plan.kv, plan.flash) {
        (KvType::F16, Flash::Auto) => sys::LLAMA_FLASH_ATTN_TYPE_AUTO,
        (KvType::F16, Flash::Off) => sys::LLAMA_FLASH_ATTN_TYPE_DISABLED,
        _ => sys::LLAMA_FLASH_ATTN_TYPE_ENABLED,
    };
    params
}

struct Report<'a> {
    progress: &'a mut dyn FnMut(f32) -> ControlFlow<()>,
    stopped: bool,
}

unsafe extern "C" fn on_progress(share: f32, report: *mut c_void) -> bool {
    // SAFETY: `Weights::load` passes its report and waits for the call to end.
    let report = unsafe { &mut *report.cast::<Report>() };
    // A panic must not unwind into C.
    let answer = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| (report.progress)(share)));
    report.stopped = !matches!(answer, Ok(ControlFlow::Continue(())));
    !report.stopped
}

unsafe extern "C" fn on_abort(brake: *mut c_void) -> bool {
    // SAFETY: `Weights::open` passes the brake that `Llama` keeps alive.
    unsafe { &*brake.cast::<AtomicBool>() }.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests;
