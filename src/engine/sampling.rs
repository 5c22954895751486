//! How the next token is chosen: plain values, checked once.

use crate::error::{Error, Result};

/// Parameters of the sampler chain: penalties, then top-k, top-p, min-p, temperature, in the order of llama.cpp.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sampling {
    /// 0 chooses the most likely token always.
    pub(crate) temp: f32,
    /// The most tokens to choose among; 0 is no limit.
    pub(crate) top_k: i32,
    /// The smallest set of tokens with at least this probability together; 1 is no limit.
    pub(crate) top_p: f32,
    /// Drop tokens less likely than this share of the most likely one; 0 drops none.
    pub(crate) min_p: f32,
    /// Divide the logit of a token seen lately by this; 1 is no penalty.
    pub(crate) repeat_penalty: f32,
    /// How many tokens back the penalty looks.
    pub(crate) repeat_last_n: i32,
    /// The seed of the random numbers.
    pub(crate) seed: u32,
}

impl Default for Sampling {
    fn default() -> Self {
        Self {
            temp: 0.8,
            top_k: 40,
            top_p: 0.95,
            min_p: 0.05,
            repeat_penalty: 1.0,
            repeat_last_n: 64,
            seed: 0,
        }
    }
}

impl Sampling {
    /// Refuse values that no sampler can use.
    pub(crate) fn validate(&self) -> Result<()> {
        let check = |ok: bool, name: &str, value: f32, range: &str| {
            if ok { Ok(()) } else { Err(Error::usage(format!("`{name}` is {value}, it must be {range}"))) }
        };
        check((0.0..=100.0).contains(&self.temp), "temp", self.temp, "from 0 to 100")?;
        check((0.0..=1.0).contains(&self.top_p), "top-p", self.top_p, "from 0 to 1")?;
        check((0.0..=1.0).contains(&self.min_p), "min-p", self.min_p, "from 0 to 1")?;
        check(
            self.repeat_penalty > 0.0 && self.repeat_penalty <= 10.0,
            "repeat-penalty",
            self.repeat_penalty,
            "more than 0 and at most 10",
        )?;
        if self.top_k < 0 {
            return Err(Error::usage(format!("`top-k` is {}, it must be 0 or more", self.top_k)));
        }
        Ok(())
    }

    /// The same result whatever the seed?
    pub(crate) fn is_greedy(&self) -> bool {
        self.temp == 0.0 || self.top_k == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_each_value_out_of_range_by_name() {
        let base = Sampling::default;
        for (bad, name) in [
            (Sampling { temp: -1.0, ..base() }, "temp"),
            (Sampling { temp: f32::NAN, ..base() }, "temp"),
            (Sampling { top_p: 1.5, ..base() }, "top-p"),
            (Sampling { min_p: -0.1, ..base() }, "min-p"),
            (Sampling { repeat_penalty: 0.0, ..base() }, "repeat-penalty"),
            (Sampling { top_k: -1, ..base() }, "top-k"),
        ] {
            let error = bad.validate().unwrap_err();
            assert!(error.message.starts_with(&format!("`{name}` is ")), "{}", error.message);
        }
        base().validate().unwrap();
    }
}
