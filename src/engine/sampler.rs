//! llama.cpp's sampler chain, and the plain argmax that greedy answers need instead.
#![expect(unsafe_code, reason = "samplers live in llama.cpp")]

use std::ptr::NonNull;

use llama_cpp_sys_2 as sys;

use super::{Sampling, Token};

/// The most likely token, the lowest of equals.
pub(super) fn argmax(logits: &[f32]) -> Token {
    let mut best = (0, f32::NEG_INFINITY);
    for (token, &logit) in logits.iter().enumerate() {
        if logit > best.1 {
            best = (token, logit);
        }
    }
    Token::try_from(best.0).unwrap_or(0)
}

/// A chain of llama.cpp's samplers.
pub(super) struct Sampler {
    chain: NonNull<sys::llama_sampler>,
}

impl Sampler {
    /// `None` where plain argmax does: greedy, without penalties.
    pub(super) fn new(sampling: &Sampling, vocab: i32, history: &[Token]) -> Option<Self> {
        #[expect(clippy::float_cmp, reason = "exactly 1 is the value that switches the penalty off")]
        let penalties = sampling.repeat_penalty != 1.0 && sampling.repeat_last_n != 0;
        if sampling.is_greedy() && !penalties {
            return None;
        }
        // SAFETY: each sampler is created here and given to the chain, which owns it from then on.
        unsafe {
            let chain =
                NonNull::new(sys::llama_sampler_chain_init(sys::llama_sampler_chain_default_params()))?;
            let add = |sampler| sys::llama_sampler_chain_add(chain.as_ptr(), sampler);
            if penalties {
                let last_n = sampling.repeat_last_n;
                add(sys::llama_sampler_init_penalties(vocab, last_n, sampling.repeat_penalty, 0.0, 0.0));
            }
            if sampling.is_greedy() {
                add(sys::llama_sampler_init_greedy());
            } else {
                add(sys::llama_sampler_init_top_k(sampling.top_k));
                add(sys::llama_sampler_init_top_p(sampling.top_p, 1));
                add(sys::llama_sampler_init_min_p(sampling.min_p, 1));
                add(sys::llama_sampler_init_temp(sampling.temp));
                add(sys::llama_sampler_init_dist(sampling.seed));
            }
            let back = usize::try_from(sampling.repeat_last_n).unwrap_or(0);
            if penalties {
                for &token in &history[history.len().saturating_sub(back)..] {
                    sys::llama_sampler_accept(chain.as_ptr(), token);
                }
            }
            Some(Self { chain })
        }
    }

    /// Choose a token from the context's last output, and remember it for the penalties.
    ///
    /// # Safety
    ///
    /// The context must be valid and have an output.
    pub(super) unsafe fn sample(&self, context: *mut sys::llama_context) -> Token {
        // SAFETY: the caller's promise; the chain ends in a sampler that selects. This call also accepts.
        unsafe { sys::llama_sampler_sample(self.chain.as_ptr(), context, -1) }
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        // SAFETY: the only owner of the chain.
        unsafe { sys::llama_sampler_free(self.chain.as_ptr()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_likely_token_is_the_lowest_of_equals() {
        for (logits, expected) in
            [(&[0.0, 2.0, 2.0][..], 1), (&[-1.0, -3.0], 0), (&[f32::NEG_INFINITY, -5.0], 1)]
        {
            assert_eq!(argmax(logits), expected);
        }
    }
}
