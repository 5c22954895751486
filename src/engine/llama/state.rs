//! The cache in a file: what `llama_state_seq_save_file` writes and `llama_state_seq_load_file` reads, layer by layer
//! and straight between file and cache. What stands in the file behind it is not looked at.
//!
//! llama.cpp believes what it reads: whoever gives a file to [`Llama::restore_state`] has seen that nothing in it changed.
#![expect(unsafe_code, reason = "llama.cpp writes and reads the files")]

use std::ffi::{CStr, CString};
use std::path::Path;

use llama_cpp_sys_2 as sys;

use super::{Llama, Weights};
use crate::engine::log::{self, failure};
use crate::engine::placement::uses_gpu;
use crate::engine::{LoadPlan, Token};
use crate::error::{Error, Result};

/// Before its content a file has a magic number, the version and the number of tokens; a state in memory, whose size
/// llama.cpp tells, has a magic number and the sequence.
const HEAD: usize = 12 - 8;

impl Llama<'_> {
    /// The bytes of the file that [`Self::save_state`] would write.
    pub(super) fn state_size(&self) -> Option<u64> {
        if self.len() == 0 || self.shift_pending {
            return None;
        }
        // SAFETY: a valid context, sequence 0 exists.
        let state = unsafe { sys::llama_state_seq_get_size(self.context.as_ptr(), 0) };
        (state > 0).then_some((HEAD + self.len() * size_of::<Token>() + state) as u64)
    }

    /// Write the cache, which holds these tokens. Keys that wait to be turned would be written as they are not yet.
    pub(super) fn save_state(&mut self, path: &Path, tokens: &[Token]) -> Result<()> {
        if self.shift_pending || tokens.is_empty() || self.len() != tokens.len() {
            return Err(Error::failed("the cache is not in a state to be saved"));
        }
        let file = c_path(path)?;
        log::forget();
        // SAFETY: a valid context, sequence 0 exists; a C string; pointer and length of a live slice.
        let written = unsafe {
            sys::llama_state_seq_save_file(
                self.context.as_ptr(),
                file.as_ptr(),
                0,
                tokens.as_ptr(),
                tokens.len(),
            )
        };
        // llama.cpp does not look whether the last bytes could be written when it closes the file.
        let whole = written > 0 && path.metadata().is_ok_and(|about| about.len() == written as u64);
        if whole { Ok(()) } else { Err(failure("the cache cannot be saved")) }
    }

    /// Fill the cache from a file that holds exactly these tokens. The cache is empty where that fails.
    pub(super) fn restore_state(&mut self, path: &Path, tokens: &[Token]) -> bool {
        self.clear();
        let Ok(file) = c_path(path) else { return false };
        if tokens.is_empty() || tokens.len() > self.window {
            return false;
        }
        let mut held: Vec<Token> = vec![0; tokens.len()];
        let mut count = 0;
        log::forget();
        // SAFETY: a valid context, sequence 0 exists; a C string; a live buffer with its length, which llama.cpp
        // does not write beyond.
        let read = unsafe {
            sys::llama_state_seq_load_file(
                self.context.as_ptr(),
                file.as_ptr(),
                0,
                held.as_mut_ptr(),
                held.len(),
                &raw mut count,
            )
        };
        let done = read > 0 && count == tokens.len() && held == tokens && self.len() == tokens.len();
        if !done {
            self.clear();
        }
        done
    }
}

impl Weights {
    /// What the values in a cache depend on, besides the model and its tokens: names for a person, and values.
    pub(crate) fn cache_settings(&self, plan: &LoadPlan) -> Vec<(&'static str, String)> {
        let p = &self.context;
        // SAFETY: plain getters for values of their own types; static strings.
        let names = unsafe {
            [
                sys::ggml_type_name(p.type_k),
                sys::ggml_type_name(p.type_v),
                sys::llama_flash_attn_type_name(p.flash_attn_type),
            ]
            .map(|name| CStr::from_ptr(name).to_string_lossy().into_owned())
        };
        let [keys, values, flash] = names;
        let rope = format!(
            "{} {} {} {} {} {} {} {}",
            p.rope_scaling_type,
            p.rope_freq_base,
            p.rope_freq_scale,
            p.yarn_ext_factor,
            p.yarn_attn_factor,
            p.yarn_beta_fast,
            p.yarn_beta_slow,
            p.yarn_orig_ctx
        );
        let on_gpu = uses_gpu(plan.device.as_deref(), plan.gpu_layers);
        let place = if on_gpu { format!("{:?} {}", plan.device, self.gpu_layers) } else { "cpu".to_owned() };
        vec![
            ("type of the KV cache", format!("{keys} {values}")),
            ("flash attention", flash),
            ("RoPE", rope),
            // Some models turn their keys otherwise in contexts that are longer than the original one.
            ("length of the context", if self.is_long(plan.ctx) { "long" } else { "original" }.to_owned()),
            ("sliding window", if p.swa_full { "full" } else { "small" }.to_owned()),
            ("placement", place),
        ]
    }

    /// Is a context of this length longer than the one that the model was first trained on?
    fn is_long(&self, ctx: u32) -> bool {
        let model = self.model.as_ptr();
        // SAFETY: a plain getter on a valid model.
        let trained = u64::try_from(unsafe { sys::llama_model_n_ctx_train(model) }).unwrap_or(0);
        let original = self.fact("rope.scaling.original_context_length").and_then(|len| len.parse().ok());
        u64::from(ctx) > original.unwrap_or(trained)
    }
}

fn c_path(path: &Path) -> Result<CString> {
    let text = path.to_str().and_then(|text| CString::new(text).ok());
    text.ok_or_else(|| Error::failed(format!("the path {} is not valid UTF-8", path.display())))
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::io::Write;
    use std::ops::ControlFlow;

    use super::*;
    use crate::engine::llama::Brake;
    use crate::engine::{Engine, KvType, Sampling};

    const DEMO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/demo/demo-f16.gguf");

    fn plan(ctx: u32, kv: KvType) -> LoadPlan {
        LoadPlan::on_cpu(ctx, kv, 1)
    }

    fn weights(plan: &LoadPlan) -> Weights {
        Weights::load(Path::new(DEMO), plan, &mut |_| ControlFlow::Continue(())).unwrap()
    }

    fn prompt(llama: &Llama<'_>) -> Vec<Token> {
        let text =
            "<|im_start|>user\nTell me a story about a fox named Lily.<|im_end|>\n<|im_start|>assistant\n";
        llama.tokenize(text, true).unwrap()
    }

    /// What follows, greedily.
    fn generate(llama: &mut Llama<'_>, count: usize) -> Vec<Token> {
        llama.begin(&Sampling { temp: 0.0, ..Sampling::default() }, &[]).unwrap();
        let mut tokens = Vec::new();
        for _ in 0..count {
            let token = llama.sample().unwrap();
            tokens.push(token);
            llama.feed(&[token], true).unwrap();
        }
        tokens
    }

    #[test]
    fn what_was_saved_goes_on_in_another_context_as_if_nothing_had_happened() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        for kv in [KvType::F16, KvType::Q8_0, KvType::Q4_0] {
            let weights = weights(&plan(1024, kv));
            let mut llama = weights.open(Brake::default()).unwrap();
            let prompt = prompt(&llama);
            let (first, rest) = prompt.split_at(prompt.len() - 5);
            llama.feed(first, false).unwrap();
            let size = llama.state_size().unwrap();
            llama.save_state(&path, first).unwrap();
            assert_eq!(path.metadata().unwrap().len(), size);
            llama.feed(rest, true).unwrap();
            let wanted = generate(&mut llama, 30);

            // What stands behind it is not read.
            OpenOptions::new().append(true).open(&path).unwrap().write_all(b"something else").unwrap();
            let mut other = weights.open(Brake::default()).unwrap();
            other.feed(rest, true).unwrap();
            assert!(other.restore_state(&path, first));
            assert_eq!(other.len(), first.len());
            other.feed(rest, true).unwrap();
            assert_eq!(generate(&mut other, 30), wanted, "{kv:?}");
            // It can be gone back in as in any other.
            assert_eq!(other.truncate(3).unwrap(), 3);
        }
    }

    #[test]
    fn what_does_not_fit_leaves_the_cache_empty() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        let f16 = weights(&plan(1024, KvType::F16));
        let mut llama = f16.open(Brake::default()).unwrap();
        let prompt = prompt(&llama);
        llama.feed(&prompt, false).unwrap();
        llama.save_state(&path, &prompt).unwrap();

        let (q8, short) = (weights(&plan(1024, KvType::Q8_0)), weights(&plan(16, KvType::F16)));
        let mut longer = prompt.clone();
        longer.push(1);
        let mut others = prompt.clone();
        others[0] += 1;
        let none = folder.path().join("none");
        for (weights, path, tokens) in [
            (&q8, &path, prompt.as_slice()),
            (&short, &path, &prompt),
            (&f16, &path, &longer),
            (&f16, &path, &prompt[1..]),
            (&f16, &path, &others),
            (&f16, &path, &[]),
            (&f16, &none, &prompt),
        ] {
            let mut llama = weights.open(Brake::default()).unwrap();
            llama.feed(&[3, 4, 5], true).unwrap();
            assert!(!llama.restore_state(path, tokens));
            assert_eq!(llama.len(), 0);
            llama.feed(&[3, 4, 5], true).unwrap();
        }
    }

    #[test]
    fn only_what_is_settled_is_saved() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        let weights = weights(&plan(1024, KvType::F16));
        let mut llama = weights.open(Brake::default()).unwrap();
        assert!(llama.state_size().is_none() && llama.save_state(&path, &[]).is_err());
        let prompt = prompt(&llama);
        llama.feed(&prompt, false).unwrap();
        assert!(llama.save_state(&path, &prompt[1..]).is_err(), "the cache holds more");
        llama.remove(2..4).unwrap();
        let mut moved = prompt.clone();
        moved.drain(2..4);
        assert!(llama.state_size().is_none() && llama.save_state(&path, &moved).is_err());
        assert!(!path.exists());
        llama.feed(&[3], false).unwrap();
        moved.push(3);
        llama.save_state(&path, &moved).unwrap();
        assert!(llama.restore_state(&path, &moved));
        let nowhere = folder.path().join("none/state");
        assert!(llama.save_state(&nowhere, &moved).is_err());
    }

    #[test]
    fn settings_tell_what_values_depend_on() {
        let settings = |ctx, kv| weights(&plan(ctx, kv)).cache_settings(&plan(ctx, kv));
        let f16 = settings(512, KvType::F16);
        assert_eq!(f16, settings(1024, KvType::F16), "not on the length of the window");
        let differing = |other: Vec<(&'static str, String)>| {
            let pairs = f16.iter().zip(other);
            pairs.filter(|(one, other)| *one != other).map(|(one, _)| one.0).collect::<Vec<_>>()
        };
        assert_eq!(differing(settings(512, KvType::Q8_0)), ["type of the KV cache", "flash attention"]);
        assert_eq!(differing(settings(2048, KvType::F16)), ["length of the context"]);
    }
}
