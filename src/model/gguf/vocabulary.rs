//! What llama.cpp's tokenizers take for granted about a vocabulary.

use super::check::{Checked, MAX_TOKENS};
use super::{Header, Texts};
use crate::human::{Escaped, Thousands};

impl Header {
    /// Tokens, scores, types, special ids and merges agree with each other.
    pub(super) fn check_vocabulary(&self) -> Checked {
        let tokens =
            self.texts("tokenizer.ggml.tokens").filter(|t| t.len() > 0).ok_or("it has no list of tokens")?;
        if tokens.len() as u64 > MAX_TOKENS {
            return Err(format!("it has {} tokens", Thousands(tokens.len() as u64)));
        }
        for (key, what) in [("scores", "scores"), ("token_type", "types")] {
            let key = format!("tokenizer.ggml.{key}");
            let len = self.array_len(&key);
            if self.value(&key).is_some() && len.is_none_or(|n| n < tokens.len()) {
                let (n, len) = (Thousands(tokens.len() as u64), Thousands(len.unwrap_or(0) as u64));
                return Err(format!("it has {n} tokens, but {what} for {len} of them"));
            }
        }
        check_special(self, tokens.len() as u64)?;
        check_unique(tokens)?;
        match self.str("tokenizer.ggml.model") {
            Some("llama") => check_byte_tokens(tokens),
            Some("gpt2" | "gemma4") => self.check_merges(),
            _ => Ok(()),
        }
    }

    fn check_merges(&self) -> Checked {
        let key = "tokenizer.ggml.merges";
        if self.value(key).is_none() && self.str("tokenizer.ggml.pre") == Some("kimi-k2") {
            return Ok(());
        }
        let merges = self.texts(key).filter(|m| m.len() > 0).ok_or("its tokenizer has no merges")?;
        // A space may be the first character of the first half, as llama.cpp reads it.
        let whole = |merge: &[u8]| {
            merge.iter().skip(1).position(|&b| b == b' ').is_some_and(|at| at + 2 < merge.len())
        };
        match merges.iter().position(|m| !whole(m)) {
            Some(at) => {
                Err(format!("merge {} of its tokenizer does not have two halves", Thousands(at as u64)))
            }
            None => Ok(()),
        }
    }
}

/// llama.cpp replaces an impossible id by a default of its own, which would end answers at the wrong token.
fn check_special(header: &Header, tokens: u64) -> Checked {
    for key in ["bos_token_id", "eos_token_id", "eot_token_id"] {
        let key = format!("tokenizer.ggml.{key}");
        // -1 is a common way to say that there is none.
        match header.u64(&key) {
            Some(id) if id >= tokens && id != u64::from(u32::MAX) => {
                return Err(format!("`{key}` is {id}, but there are {} tokens", Thousands(tokens)));
            }
            _ => {}
        }
    }
    Ok(())
}

/// llama.cpp asserts that no two tokens have the same text. It reads up to a zero byte, and names empty ones itself.
fn check_unique(tokens: &Texts) -> Checked {
    let text = |bytes: &[u8]| bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
    let texts = tokens.iter().map(|bytes| &bytes[..text(bytes)]).filter(|bytes| !bytes.is_empty());
    // Sorting by a hash first is several times faster than sorting long common prefixes.
    let mut keyed: Vec<(u64, &[u8])> = texts.map(|bytes| (fnv(bytes), bytes)).collect();
    keyed.sort_unstable();
    match keyed.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => {
            Err(format!("the token `{}` occurs twice", Escaped(&String::from_utf8_lossy(pair[0].1))))
        }
        None => Ok(()),
    }
}

fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &b| (hash ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
}

/// `SentencePiece` spells unknown characters in byte tokens; llama.cpp throws across the FFI when one is missing.
fn check_byte_tokens(tokens: &Texts) -> Checked {
    let mut found = [false; 256];
    for token in tokens.iter() {
        let byte = match *token {
            [b'<', b'0', b'x', high, low, b'>'] => std::str::from_utf8(&[high, low])
                .ok()
                .filter(|hex| hex.bytes().all(|b| matches!(b, b'0'..=b'9' | b'A'..=b'F')))
                .and_then(|hex| u8::from_str_radix(hex, 16).ok()),
            [byte] => Some(byte),
            _ => None,
        };
        if let Some(byte) = byte {
            found[usize::from(byte)] = true;
        }
    }
    match found.iter().position(|&f| !f) {
        Some(byte) => Err(format!("its vocabulary lacks the token `<0x{byte:02X}>`")),
        None => Ok(()),
    }
}
