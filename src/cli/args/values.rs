//! Values that several verbs take.

use clap::ValueEnum;

use crate::engine::{GpuLayers, KvType};

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum KvArg {
    F16,
    #[value(name = "q8_0", alias = "int8")]
    Q8_0,
    #[value(name = "q4_0", alias = "int4")]
    Q4_0,
}

impl From<KvArg> for KvType {
    fn from(arg: KvArg) -> Self {
        match arg {
            KvArg::F16 => Self::F16,
            KvArg::Q8_0 => Self::Q8_0,
            KvArg::Q4_0 => Self::Q4_0,
        }
    }
}

/// A number of tokens, also in thousands of 1024 as contexts are named.
pub(super) fn parse_tokens(text: &str) -> Result<u32, String> {
    let (number, unit) = text.strip_suffix(['k', 'K']).map_or((text, 1), |number| (number, 1024));
    let tokens = number.parse::<u32>().ok().and_then(|number| number.checked_mul(unit));
    tokens.ok_or_else(|| "not a number of tokens".to_owned())
}

pub(super) fn parse_max_tokens(text: &str) -> Result<usize, String> {
    parse_tokens(text).map(|tokens| tokens as usize)
}

pub(super) fn parse_context(text: &str) -> Result<u32, String> {
    let tokens = parse_tokens(text)?;
    let fits = (16..=1 << 30).contains(&tokens);
    fits.then_some(tokens).ok_or_else(|| "a context has 16 to 1,073,741,824 tokens".to_owned())
}

/// Bytes, with a unit of 1000 or 1024.
pub(super) fn parse_size(text: &str) -> Result<u64, String> {
    let wrong = || "not a size such as `8GB`, `500MB` or a number of bytes".to_owned();
    let lower = text.to_lowercase();
    let digits = lower.trim_end_matches(|c: char| c.is_ascii_alphabetic()).trim_end();
    let unit: u64 = match lower[digits.len()..].trim() {
        "" | "b" => 1,
        "k" | "kb" => 1000,
        "m" | "mb" => 1_000_000,
        "g" | "gb" => 1_000_000_000,
        "t" | "tb" => 1_000_000_000_000,
        "kib" => 1 << 10,
        "mib" => 1 << 20,
        "gib" => 1 << 30,
        "tib" => 1 << 40,
        _ => return Err(wrong()),
    };
    let number: f64 = digits.parse().ok().filter(|n| (0.0..1e9).contains(n)).ok_or_else(wrong)?;
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is in the range, and a byte more or less does not matter"
    )]
    Ok((number * unit as f64) as u64)
}

pub(super) fn parse_gpu_layers(text: &str) -> Result<GpuLayers, String> {
    match text {
        "auto" => Ok(GpuLayers::Auto),
        "all" => Ok(GpuLayers::All),
        _ => text.parse().map(GpuLayers::Count).map_err(|_| "not a number, `auto` or `all`".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_counted_alone_or_in_thousands() {
        for (text, expected) in [
            ("0", Some(0)),
            ("4096", Some(4096)),
            ("8k", Some(8192)),
            ("32K", Some(32_768)),
            ("4194304k", None),
            ("4294967296", None),
            ("-1", None),
            ("1.5k", None),
            ("k", None),
            ("8kb", None),
            ("abc", None),
        ] {
            assert_eq!(parse_tokens(text).ok(), expected, "{text}");
        }
        for (text, expected) in
            [("15", None), ("16", Some(16)), ("1048576k", Some(1 << 30)), ("1048577k", None), ("0", None)]
        {
            assert_eq!(parse_context(text).ok(), expected, "{text}");
        }
    }

    #[test]
    fn sizes_have_units() {
        for (text, expected) in [
            ("8GB", Some(8_000_000_000)),
            ("1.5g", Some(1_500_000_000)),
            ("500 MB", Some(500_000_000)),
            ("2GiB", Some(2 << 30)),
            ("1024", Some(1024)),
            ("", None),
            ("-1GB", None),
            ("8 parsecs", None),
            ("1e300", None),
        ] {
            assert_eq!(parse_size(text).ok(), expected, "{text}");
        }
    }

    #[test]
    fn layers_are_a_number_or_a_word() {
        for (text, expected) in [
            ("auto", Ok(GpuLayers::Auto)),
            ("all", Ok(GpuLayers::All)),
            ("12", Ok(GpuLayers::Count(12))),
            ("some", Err("not a number, `auto` or `all`".to_owned())),
            ("-1", Err("not a number, `auto` or `all`".to_owned())),
        ] {
            assert_eq!(parse_gpu_layers(text), expected);
        }
    }
}
