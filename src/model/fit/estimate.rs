//! What a model would take of which only a name is known: its size as its makers call it, and how it is quantized. All of
//! this is typical, and nothing is exact.

use super::place::{Layer, Load};
use super::{Fitting, Wish};
use crate::engine::KvType;
use crate::model::name::Pick;
use crate::model::quant;
use crate::model::recipe::Target;
use crate::model::registry::{Entry, parameters};
use crate::numbers::{float, whole};

/// The quantization that is taken where none is named.
const USUAL_QUANT: &str = "Q4_K_M";

/// Parameters below which a model is small.
const SMALL: f64 = 1.1e9;

/// Layers of a typical model, for how much of one a GPU can take.
const LAYERS: u64 = 32;

/// Bits per weight that a change of quantization should save at least.
const SAVING: f64 = 0.2;

/// Bits per weight of whole files, embeddings included, of models from 4 to 30 billion parameters: as in llama.cpp's
/// `tools/quantize/README.md` for Llama 3.1 8B, rounded.
const BITS: [(&str, f64); 18] = [
    ("F32", 32.0),
    ("F16", 16.0),
    ("BF16", 16.0),
    ("Q8_0", 8.5),
    ("Q6_K", 6.6),
    ("Q5_K_M", 5.7),
    ("Q5_K_S", 5.6),
    ("Q5_0", 5.6),
    ("Q4_1", 5.1),
    ("Q4_K_M", 4.9),
    ("Q4_K_S", 4.7),
    ("Q4_0", 4.7),
    ("IQ4_NL", 4.7),
    ("MXFP4", 4.7),
    ("IQ4_XS", 4.5),
    ("Q3_K_M", 4.0),
    ("Q3_K_S", 3.7),
    ("Q2_K", 3.2),
];

/// Bytes of 16-bit keys and values for a token, up to so many billion parameters: layers times 8 heads of 128 numbers in
/// the larger classes, fewer or narrower heads in the small ones.
const CACHE: [(f64, u64); 8] = [
    (0.5, 24 << 10),
    (1.3, 48 << 10),
    (2.5, 112 << 10),
    (5.0, 144 << 10),
    (10.0, 144 << 10),
    (20.0, 192 << 10),
    (40.0, 256 << 10),
    (f64::INFINITY, 320 << 10),
];

/// A model by its size and quantization.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Estimate {
    /// `Q4_K_M`
    pub(crate) quant: String,
    /// Bytes of all weights, and of those that a token needs.
    pub(crate) weights: u64,
    pub(crate) active: u64,
    /// Bytes of 16-bit keys and values for a token.
    pub(crate) cache: u64,
    /// Billions.
    parameters: f64,
}

impl Estimate {
    /// Of a model of the registry, if its size is written in a way that is known.
    pub(crate) fn of(entry: &Entry) -> Option<Self> {
        let quant = match &entry.pick {
            Pick::Default => USUAL_QUANT.to_owned(),
            Pick::Quant(quant) => quant.to_uppercase(),
            Pick::File(file) => quant::quant_of(file)?.to_uppercase(),
        };
        Self::new(&entry.size, &quant)
    }

    /// From `8B`, `30B-A3B` or `E4B`, and `Q4_K_M`.
    pub(crate) fn new(size: &str, quant: &str) -> Option<Self> {
        let (all, active) = size_of(size)?;
        // Of a small model much is embeddings, which keep more bits.
        let bits = bits_per_weight(quant)
            .map(|bits| if all < SMALL { bits.midpoint(bits.max(8.5)) } else { bits })?;
        let bytes = |parameters: f64| whole(parameters * bits / 8.0);
        let billions = all / 1e9;
        // Few of the layers' weights are used by each token, but all of their keys and values.
        let class = if active < all { (all * active).sqrt() / 1e9 } else { billions };
        let cache = CACHE.iter().find(|(most, _)| class < *most).map_or(0, |(_, bytes)| *bytes);
        Some(Self {
            quant: quant.to_owned(),
            weights: bytes(all),
            active: bytes(active),
            cache,
            parameters: billions,
        })
    }

    /// Bytes that the next token reads behind so many others.
    pub(crate) fn decode_bytes(&self, depth: u64, kv: KvType) -> u64 {
        self.active.saturating_add(self.cache_bytes(depth, kv))
    }

    fn cache_bytes(&self, tokens: u64, kv: KvType) -> u64 {
        // Two bytes a number.
        kv.bytes(self.cache / 2).saturating_mul(tokens)
    }
}

impl Fitting for Estimate {
    /// Newer models know more than the usual window.
    fn trained(&self) -> u64 {
        u64::MAX
    }

    fn takes_eight_bits(&self) -> bool {
        true
    }

    fn load(&self, wish: &Wish, ctx: u32) -> Load {
        let (tokens, ubatch) = (u64::from(ctx), u64::from(wish.ubatch.min(ctx)));
        let cache = self.cache_bytes(tokens, wish.kv) / LAYERS;
        // A tenth is about what turns tokens into embeddings and back.
        let output = self.weights / 20;
        let layer = || Layer { weights: (self.weights - 2 * output) / LAYERS, cache };
        // Billions of parameters are about (width / 1400)², and the widest moment of a layer 16 widths.
        let width = whole(1400.0 * self.parameters.sqrt());
        Load {
            layers: std::iter::once(Layer { weights: output, cache: 0 })
                .chain((0..LAYERS).map(|_| layer()))
                .collect(),
            input: output,
            copied: 0,
            marks: 0,
            compute: ubatch * (16 * width * 4 + 2 * tokens),
            output: 0,
        }
    }
}

/// Bits per weight of a file of this quantization. Those that others make, such as `UD-Q4_K_XL`, are like the one in
/// their name.
fn bits_per_weight(quant: &str) -> Option<f64> {
    let quant = quant.strip_prefix("UD-").unwrap_or(quant);
    let known = BITS.iter().find(|(name, _)| *name == quant);
    known
        .or_else(|| BITS.iter().find(|(name, _)| quant.starts_with(&name[..4.min(name.len())])))
        .map(|(_, bits)| *bits)
}

/// All parameters, and those that a token needs.
fn size_of(label: &str) -> Option<(f64, f64)> {
    let label = label.to_lowercase();
    if let Some((all, active)) = label.split_once("-a") {
        return Some((parameters(all)?, parameters(active)?));
    }
    let active = parameters(&label)?;
    // `E4B` counts what a token needs; there are about twice as many with the tables of embeddings.
    Some((if label.starts_with('e') { 2.2 * active } else { active }, active))
}

/// The best of the quantizations that make a model fit into so many bytes, if it has more bits now.
pub(crate) fn smaller_quant(parameters: u64, bits: f64, room: u64) -> Option<Target> {
    let fits = |fewer: f64| fewer + SAVING < bits && float(parameters) * fewer / 8.0 <= float(room);
    let mut all = Target::all().filter(|target| !target.is_float());
    all.find(|target| bits_per_weight(target.name()).is_some_and(fits))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::registry::Registry;

    fn estimate(size: &str, quant: &str) -> Estimate {
        Estimate::new(size, quant).unwrap()
    }

    #[test]
    fn sizes_are_read_as_they_are_written() {
        for (label, all, active) in [
            ("8B", 8e9, 8e9),
            ("0.6B", 0.6e9, 0.6e9),
            ("135M", 135e6, 135e6),
            ("30B-A3B", 30e9, 3e9),
            ("E4B", 8.8e9, 4e9),
        ] {
            let (ours, ours_active) = size_of(label).unwrap();
            assert!((ours - all).abs() < 1.0 && (ours_active - active).abs() < 1.0, "{label}: {ours}");
        }
        for label in ["", "large", "B", "30B-A"] {
            assert_eq!(size_of(label), None, "{label}");
        }
    }

    #[test]
    fn bytes_follow_from_bits_per_weight() {
        for (quant, bytes) in [
            ("Q4_K_M", 4_900_000_000),
            ("Q8_0", 8_500_000_000),
            ("BF16", 16_000_000_000),
            ("UD-Q4_K_XL", 4_900_000_000),
        ] {
            assert_eq!(estimate("8B", quant).weights, bytes, "{quant}");
        }
        let mixture = estimate("30B-A3B", "Q4_K_M");
        assert_eq!((mixture.weights, mixture.active), (18_375_000_000, 1_837_500_000));
        assert_eq!(Estimate::new("8B", "ZIP"), None);
    }

    #[test]
    fn known_models_are_not_far_from_their_estimates() {
        // Bytes of the file, and of keys and values for a token, as their headers say.
        for (size, quant, file, cache) in [
            ("8B", "Q4_K_M", 4_920_000_000, 32 * 8 * 128 * 4),
            ("4B", "Q4_K_M", 2_500_000_000, 36 * 8 * 128 * 4),
            ("14B", "Q4_K_M", 9_000_000_000, 40 * 8 * 128 * 4),
            ("30B-A3B", "Q4_K_M", 18_600_000_000, 48 * 4 * 128 * 4),
            ("1B", "Q4_K_M", 806_000_000, 16 * 8 * 64 * 4),
            ("270M", "Q4_0", 241_000_000, 18 * 256 * 4),
            ("135M", "Q4_1", 98_000_000, 30 * 3 * 64 * 4),
        ] {
            let estimate = estimate(size, quant);
            let near = |ours: u64, real: u64| (float(ours) / float(real)).ln().abs() < 1.6_f64.ln();
            assert!(near(estimate.weights, file), "{size}: {}", estimate.weights);
            assert!(near(estimate.cache, cache), "{size}: {}", estimate.cache);
        }
    }

    #[test]
    fn a_token_reads_active_weights_and_what_it_sees() {
        let estimate = estimate("8B", "Q4_K_M");
        let cache = 144 << 10;
        assert_eq!(estimate.decode_bytes(100, KvType::F16), estimate.weights + 100 * cache);
        assert_eq!(estimate.decode_bytes(100, KvType::Q8_0), estimate.weights + 100 * cache / 64 * 34);
    }

    #[test]
    fn every_shipped_model_can_be_estimated() {
        let registry = Registry::load(None).unwrap();
        let unknown: Vec<&str> = registry
            .entries()
            .filter(|entry| Estimate::of(entry).is_none())
            .map(|entry| entry.alias.as_str())
            .collect();
        assert_eq!(unknown, [""; 0]);
    }

    #[test]
    fn fewer_bits_are_found_that_fit() {
        let gigabytes = |n: u64| n * 1_000_000_000;
        for (bits, room, expected) in [
            (16.0, gigabytes(9), Some(Target::Q8_0)),
            (16.0, gigabytes(5), Some(Target::Q4KM)),
            (4.95, gigabytes(4) + 800_000_000, Some(Target::Q4KS)),
            (4.9, gigabytes(4), None),
            (4.5, gigabytes(9), None),
        ] {
            assert_eq!(smaller_quant(gigabytes(8), bits, room), expected, "{bits} {room}");
        }
    }
}
