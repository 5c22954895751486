//! How large a window fits into memory.

use crate::error::{Error, Kind, Result};
use crate::human::{Bytes, Thousands};

/// The window when none is asked for, unless the model's own is smaller.
const DEFAULT_CTX: u64 = 8192;

/// The smallest window that is worth a conversation.
const SMALLEST_CTX: u64 = 512;

/// What a model needs. Bytes and tokens.
pub(crate) struct Need<'a> {
    pub(crate) weights: u64,
    /// What a window of so many tokens keeps.
    pub(crate) cache: &'a dyn Fn(u64) -> u64,
    /// The context the model was trained on.
    pub(crate) trained: u64,
}

impl Need<'_> {
    fn total(&self, ctx: u64) -> u64 {
        self.weights.saturating_add((self.cache)(ctx))
    }
}

/// The window when none is asked for and memory is no matter.
pub(crate) fn usual_context(trained: u64) -> u64 {
    trained.clamp(1, DEFAULT_CTX)
}

/// The window in tokens: the one wanted, or what fits of the default.
pub(crate) fn context(need: &Need<'_>, wanted: Option<u32>, available: Option<u64>) -> Result<u32> {
    let available = available.unwrap_or(u64::MAX);
    let ctx = wanted.map_or(usual_context(need.trained), u64::from);
    let mut fitting = ctx;
    while fitting > SMALLEST_CTX && need.total(fitting) > available {
        fitting /= 2;
    }
    if need.total(fitting) > available || (wanted.is_some() && fitting != ctx) {
        return Err(too_big(need, ctx, fitting, available));
    }
    u32::try_from(fitting).map_err(|_| Error::usage("the context is too large"))
}

fn too_big(need: &Need<'_>, ctx: u64, fitting: u64, available: u64) -> Error {
    let message = format!(
        "the model needs {} at context {}; {} is free",
        Bytes(need.total(ctx)),
        Thousands(ctx),
        Bytes(available)
    );
    let hint = if need.total(fitting) <= available {
        format!("try `--ctx {fitting}`")
    } else {
        "try a smaller model or quantization".to_owned()
    };
    Error::new(Kind::TooBig, message).hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEED: Need = Need { weights: 1_000_000, cache: &|tokens| 1000 * tokens, trained: 32_768 };

    #[test]
    fn the_default_is_what_fits_of_8192_and_of_the_models_own() {
        for (trained, available, expected) in [
            (32_768, None, 8192),
            (2048, None, 2048),
            (32_768, Some(9_192_000), 8192),
            (32_768, Some(9_191_999), 4096),
            (32_768, Some(1_600_000), 512),
            (300, Some(1_300_000), 300),
            (0, None, 1),
        ] {
            let need = Need { trained, ..NEED };
            assert_eq!(context(&need, None, available).unwrap(), expected, "{trained} {available:?}");
        }
    }

    #[test]
    fn a_wanted_window_is_given_or_refused_but_never_changed() {
        assert_eq!(context(&NEED, Some(100_000), None).unwrap(), 100_000);
        let error = context(&NEED, Some(8192), Some(6_000_000)).unwrap_err();
        assert_eq!(error.kind, Kind::TooBig);
        assert_eq!(error.message, "the model needs 9.2 MB at context 8,192; 6.0 MB is free");
        assert_eq!(error.hint.as_deref(), Some("try `--ctx 4096`"));
    }

    #[test]
    fn a_model_that_fits_at_no_window_says_so() {
        let error = context(&NEED, None, Some(1_000_000)).unwrap_err();
        assert_eq!(error.hint.as_deref(), Some("try a smaller model or quantization"));
    }
}
