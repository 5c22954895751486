//! What is in the KV cache, and the plan to get from there to what is wanted.

use crate::engine::Token;

/// A mirror of the tokens in the engine's cache.
#[derive(Debug, Default)]
pub(crate) struct KvWindow {
    tokens: Vec<Token>,
}

/// How the cache becomes the wanted prompt.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct KvPlan {
    /// The first tokens of the cache that stay.
    pub(crate) keep: usize,
    /// Tokens to evaluate after those.
    pub(crate) feed: usize,
}

impl KvWindow {
    /// Keep the longest common prefix, but feed at least one token: the logits to sample from are not cached.
    pub(crate) fn plan(&self, wanted: &[Token]) -> KvPlan {
        let common = self.tokens.iter().zip(wanted).take_while(|(a, b)| a == b).count();
        let keep = common.min(wanted.len().saturating_sub(1));
        KvPlan { keep, feed: wanted.len() - keep }
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
        for (cached, wanted, keep, feed) in [
            (&[][..], &[1, 2, 3][..], 0, 3),
            (&[1, 2, 3], &[1, 2, 3, 4, 5], 3, 2),
            (&[1, 2, 3], &[1, 2, 9, 9], 2, 2),
            (&[1, 2, 3], &[7, 2, 3], 0, 3),
            (&[1, 2, 3], &[1, 2], 1, 1),
            (&[1, 2, 3], &[1, 2, 3], 2, 1),
            (&[1], &[1], 0, 1),
        ] {
            let window = KvWindow { tokens: cached.to_vec() };
            assert_eq!(window.plan(wanted), KvPlan { keep, feed }, "{cached:?} -> {wanted:?}");
        }
    }
}
