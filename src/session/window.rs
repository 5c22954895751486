//! What is in the KV cache, and the plan to get from there to what is wanted.

use crate::engine::Token;

/// A mirror of the tokens in the engine's cache.
#[derive(Debug, Default)]
pub(crate) struct KvWindow {
    tokens: Vec<Token>,
}

impl KvWindow {
    /// How many of its first tokens stay: the longest common prefix, but never all of what is wanted, because the
    /// logits to sample from are not cached.
    pub(crate) fn plan(&self, wanted: &[Token]) -> usize {
        let common = self.tokens.iter().zip(wanted).take_while(|(a, b)| a == b).count();
        common.min(wanted.len().saturating_sub(1))
    }

    /// The cache was cut to its first `len` tokens.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.tokens.truncate(len);
    }

    /// These tokens were evaluated.
    pub(crate) fn extend(&mut self, tokens: &[Token]) {
        self.tokens.extend_from_slice(tokens);
    }

    /// Tokens in the cache.
    pub(crate) fn len(&self) -> usize {
        self.tokens.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_longest_common_prefix_and_feeds_the_rest() {
        for (cached, wanted, keep) in [
            (&[][..], &[1, 2, 3][..], 0),
            (&[1, 2, 3], &[1, 2, 3, 4, 5], 3),
            (&[1, 2, 3], &[1, 2, 9, 9], 2),
            (&[1, 2, 3], &[7, 2, 3], 0),
            (&[1, 2, 3], &[1, 2], 1),
            (&[1, 2, 3], &[1, 2, 3], 2),
            (&[1], &[1], 0),
        ] {
            let window = KvWindow { tokens: cached.to_vec() };
            assert_eq!(window.plan(wanted), keep, "{cached:?} -> {wanted:?}");
        }
    }
}
