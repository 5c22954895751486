//! What quantizing a model will make of each tensor, and how large the result will be: pure, from the header alone.
//!
//! The choice is llama.cpp's (`llama_tensor_get_type_impl` and `tensor_type_fallback` in `llama-quant.cpp`, b11434), for the
//! targets offered here. It decides; this predicts, and a test holds the prediction against what it made.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use super::arch::{TensorType, tensor_type};
use super::gguf::{Header, Tensor, layer_of};

/// The alignment of what llama.cpp writes, in bytes.
const ALIGNMENT: u64 = 32;

/// A kind of file to make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    F16,
    Bf16,
    Q8_0,
    Q6K,
    Q5KM,
    Q5KS,
    Q4KM,
    Q4KS,
    Q4_0,
    Iq4Nl,
    Iq4Xs,
}

/// Target, name, `llama_ftype`, the type of most tensors.
const TARGETS: [(Target, &str, u32, u32); 11] = [
    (Target::Q8_0, "Q8_0", 7, 8),
    (Target::Q6K, "Q6_K", 18, 14),
    (Target::Q5KM, "Q5_K_M", 17, 13),
    (Target::Q5KS, "Q5_K_S", 16, 13),
    (Target::Q4KM, "Q4_K_M", 15, 12),
    (Target::Q4KS, "Q4_K_S", 14, 12),
    (Target::Iq4Nl, "IQ4_NL", 25, 20),
    (Target::Iq4Xs, "IQ4_XS", 30, 23),
    (Target::Q4_0, "Q4_0", 2, 2),
    (Target::F16, "F16", 1, 1),
    (Target::Bf16, "BF16", 32, 30),
];

const F16: u32 = 1;
const Q4_1: u32 = 3;
const Q5_0: u32 = 6;
const Q5_1: u32 = 7;
const Q8_0: u32 = 8;
const Q4_K: u32 = 12;
const Q5_K: u32 = 13;
const Q6_K: u32 = 14;
const IQ4_NL: u32 = 20;
const IQ4_XS: u32 = 23;

impl Target {
    fn row(self) -> (Self, &'static str, u32, u32) {
        TARGETS.into_iter().find(|row| row.0 == self).unwrap_or(TARGETS[0])
    }

    /// As everybody writes it: `Q4_K_M`.
    pub(crate) fn name(self) -> &'static str {
        self.row().1
    }

    /// llama.cpp's number for it.
    pub(crate) fn ftype(self) -> u32 {
        self.row().2
    }

    pub(crate) fn all() -> impl Iterator<Item = Self> {
        TARGETS.into_iter().map(|row| row.0)
    }

    fn default_type(self) -> u32 {
        self.row().3
    }

    /// Does it lose nothing that quantizing means?
    pub(crate) fn is_float(self) -> bool {
        matches!(self, Self::F16 | Self::Bf16)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Target {
    type Err = String;

    /// A type in any case, `int8` for `Q8_0` or `int4` for `Q4_K_M`.
    fn from_str(text: &str) -> Result<Self, String> {
        let upper = text.to_uppercase().replace('-', "_");
        match upper.as_str() {
            "INT8" => Ok(Self::Q8_0),
            "INT4" => Ok(Self::Q4KM),
            "MXFP4" | "MXFP4_MOE" => {
                Err("mxfp4 is for models with experts that were trained in it; llama.cpp makes Q8_0 of all else; \
                     take int4 or int8"
                    .to_owned())
            }
            _ => TARGETS.into_iter().find(|row| row.1 == upper).map(|row| row.0).ok_or_else(|| {
                let names: Vec<String> = TARGETS.iter().map(|row| row.1.to_lowercase()).collect();
                format!("no such type; there are int4, int8, {}", names.join(", "))
            }),
        }
    }
}

/// What becomes of a model.
#[derive(Debug, Clone)]
pub(crate) struct Recipe {
    pub(crate) target: Target,
    pub(crate) steps: Vec<Step>,
    /// Bytes of the new file, as near as can be known before.
    pub(crate) file_bytes: u64,
}

/// What becomes of a tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) name: String,
    pub(crate) elements: u64,
    /// Elements of a row.
    pub(crate) row: u64,
    pub(crate) from: &'static TensorType,
    pub(crate) to: &'static TensorType,
    pub(crate) bytes: u64,
    /// The type that was meant, where the row is no multiple of its block.
    pub(crate) instead_of: Option<&'static TensorType>,
}

impl Recipe {
    /// Bytes of all tensors.
    pub(crate) fn tensor_bytes(&self) -> u64 {
        self.steps.iter().map(|step| step.bytes).sum()
    }

    pub(crate) fn elements(&self) -> u64 {
        self.steps.iter().map(|step| step.elements).sum()
    }

    #[expect(clippy::cast_precision_loss, reason = "shown with two decimals")]
    pub(crate) fn bits_per_weight(&self) -> f64 {
        self.tensor_bytes() as f64 * 8.0 / self.elements().max(1) as f64
    }

    /// Elements in tensors that get another type than was meant.
    pub(crate) fn fallen_back(&self) -> u64 {
        self.steps.iter().filter(|step| step.instead_of.is_some()).map(|step| step.elements).sum()
    }

    /// The most memory that a step takes, in bytes, when buffers are kept below `most`: what is read, what is made, and
    /// the numbers in between.
    pub(crate) fn working_bytes(&self, most: u64) -> u64 {
        let needed =
            |step: &Step| if step.from == step.to { 0 } else { (step.elements * 4 + step.bytes).min(most) };
        self.steps.iter().map(needed).max().unwrap_or(0)
    }
}

/// Facts of a model that the choice depends on.
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
struct Facts {
    falcon: bool,
    glm5_next: bool,
    layers: i64,
    experts: u64,
    /// Query heads for each KV head, in the first layer.
    gqa: u64,
    /// A model with 80 layers and shared KV heads, in the architectures where llama.cpp calls that 70B.
    is_70b: bool,
    tied: bool,
    has_imatrix: bool,
    /// How many tensors are like `attn_v`.
    values: i64,
}

impl Facts {
    fn new(header: &Header, has_imatrix: bool) -> Self {
        let arch = header.architecture().unwrap_or_default();
        let shape = header.shape();
        let layers = header.arch_u64("block_count").and_then(|n| i64::try_from(n).ok()).unwrap_or(0);
        let first = |of: &[u64]| of.first().copied().unwrap_or(0);
        let (heads, kv_heads) = (first(&shape.heads), first(&shape.kv_heads));
        let is_70b = match arch {
            "llama" => layers == 80 && heads != kv_heads,
            "qwen2" | "deci" | "olmo" => layers == 80,
            "jais2" => layers == 68,
            _ => false,
        };
        Self {
            falcon: arch == "falcon",
            glm5_next: arch == "glm5-next",
            layers,
            experts: shape.experts.unwrap_or(0),
            gqa: heads.checked_div(kv_heads).unwrap_or(0),
            is_70b,
            tied: !header.tensors.iter().any(|tensor| tensor.name == "output.weight"),
            has_imatrix,
            values: header
                .tensors
                .iter()
                .filter(|tensor| is_value(&tensor.name))
                .count()
                .try_into()
                .unwrap_or(0),
        }
    }
}

/// What quantizing to `target` will make of the model, its parts joined.
pub(crate) fn recipe(header: &Header, target: Target, has_imatrix: bool) -> Recipe {
    let facts = Facts::new(header, has_imatrix);
    let mut chooser = Chooser { facts, target, value: 0, down: 0 };
    let mut tensors: Vec<&Tensor> = header.tensors.iter().collect();
    tensors.sort_by(|a, b| in_order(&a.name, &b.name));
    let steps: Vec<Step> = tensors.into_iter().map(|tensor| chooser.step(tensor)).collect();
    let padded: u64 = steps.iter().map(|step| step.bytes.next_multiple_of(ALIGNMENT)).sum();
    let file_bytes = header.meta_bytes().next_multiple_of(ALIGNMENT) + padded;
    Recipe { target, steps, file_bytes }
}

/// llama.cpp's order: by layer, then by name.
fn in_order(a: &str, b: &str) -> Ordering {
    layer_of(a).cmp(&layer_of(b)).then_with(|| a.cmp(b))
}

fn is_value(name: &str) -> bool {
    ["attn_qkv.weight", "attn_kv_b.weight", "attn_v.weight"].iter().any(|part| name.contains(part))
}

fn is_embedding(name: &str) -> bool {
    matches!(name, "token_embd.weight" | "per_layer_token_embd.weight")
}

/// Layers near both ends and every third between get more bits.
fn more_bits(layer: i64, layers: i64) -> bool {
    layer < layers / 8 || layer >= 7 * layers / 8 || (layer - layers / 8) % 3 == 2
}

/// Chooses tensor by tensor, in llama.cpp's order: it counts some of them.
struct Chooser {
    facts: Facts,
    target: Target,
    /// How many tensors like `attn_v` came before.
    value: i64,
    /// How many `ffn_down` came before.
    down: i64,
}

impl Chooser {
    fn step(&mut self, tensor: &Tensor) -> Step {
        let row = tensor.dims.first().copied().unwrap_or(1);
        let elements = tensor.elements();
        let (to, instead_of) = if !self.may_change(tensor) {
            (tensor.kind, None)
        } else if self.target.is_float() {
            (named(self.target.default_type()), None)
        } else {
            let meant = self.choose(&tensor.name, row);
            let got = fallback(meant, row);
            (named(got), (got != meant).then(|| named(meant)))
        };
        let bytes = elements / to.block * to.bytes;
        Step { name: tensor.name.clone(), elements, row, from: tensor.kind, to, bytes, instead_of }
    }

    /// Is it a matrix of weights that may lose precision?
    fn may_change(&self, tensor: &Tensor) -> bool {
        /// Small or delicate, so llama.cpp keeps them as they are.
        const KEPT: [&str; 35] = [
            "_norm.weight",
            "ffn_gate_inp.weight",
            "ffn_gate_tid2eid.weight",
            "altup",
            "laurel",
            "per_layer_model_proj",
            "ssm_conv1d",
            "shortconv.conv.weight",
            "indexer.k_proj.weight",
            "indexer.q_proj.weight",
            "time_mix_first.weight",
            "time_mix_w0.weight",
            "time_mix_w1.weight",
            "time_mix_w2.weight",
            "time_mix_v0.weight",
            "time_mix_v1.weight",
            "time_mix_v2.weight",
            "time_mix_a0.weight",
            "time_mix_a1.weight",
            "time_mix_a2.weight",
            "time_mix_g1.weight",
            "time_mix_g2.weight",
            "time_mix_decay_w1.weight",
            "time_mix_decay_w2.weight",
            "time_mix_lerp_fused.weight",
            "attn_rel_b.weight",
            ".position_embd",
            "sam.pos_embd",
            "sam.neck.",
            "sam.net_",
            ".rel_pos",
            ".patch_embd",
            ".patch_merger",
            "a.rvq.codebook",
            "mm.a.code_embd",
        ];
        const KEPT_GLM5: [&str; 14] = [
            "hc_",
            "indexer.attn_q_b",
            "indexer.attn_k",
            "indexer.proj",
            "indexer_compressor_gate",
            "indexer_compressor_ape",
            "ssm_f_a.weight",
            "ssm_f_b.weight",
            "ssm_g_a.weight",
            "ssm_g_b.weight",
            "ssm_beta.weight",
            "attn_kv_a_mqa.weight",
            "attn_k_b.weight",
            "attn_v_b.weight",
        ];
        let name = tensor.name.as_str();
        let has = |parts: &[&str]| parts.iter().any(|part| name.contains(part));
        let dimensions = tensor.dims.iter().rposition(|&size| size > 1).map_or(1, |last| last + 1);
        dimensions >= 2
            && name.ends_with("weight")
            && !matches!(name, "position_embd.weight" | "token_types.weight")
            && !has(&KEPT)
            && !(self.facts.glm5_next && has(&KEPT_GLM5))
    }

    /// The type that suits the tensor's part in the model.
    fn choose(&mut self, name: &str, row: u64) -> u32 {
        let usual = self.target.default_type();
        let kept_high = ["attn_q_a", "attn_q_b", "nextn.eh_proj"].iter().any(|part| name.contains(part));
        if self.facts.glm5_next && kept_high {
            return Q8_0;
        }
        if name == "output.weight" || (self.facts.tied && is_embedding(name)) {
            return match usual {
                _ if self.facts.falcon || !row.is_multiple_of(named(usual).block) => Q8_0,
                Q8_0 => Q8_0,
                _ => Q6_K,
            };
        }
        if is_embedding(name) {
            usual
        } else if is_value(name) {
            self.choose_value(usual)
        } else if name.contains("attn_k.weight") {
            if self.facts.experts == 8 { Q8_0 } else { usual }
        } else if name.contains("attn_q.weight") {
            usual
        } else if name.contains("attn_output.weight") {
            let careful = matches!(self.target, Target::Iq4Nl | Target::Iq4Xs | Target::Q4KS | Target::Q4KM);
            if !self.facts.falcon && self.facts.experts == 8 && careful { Q5_K } else { usual }
        } else if name.contains("ffn_up") || name.contains("ffn_gate") {
            usual
        } else if name.contains("ffn_down") {
            self.choose_down(usual, name)
        } else {
            usual
        }
    }

    fn choose_value(&mut self, usual: u32) -> u32 {
        let layer = self.value;
        self.value += 1;
        let facts = &self.facts;
        let mut chosen = match self.target {
            Target::Iq4Nl | Target::Iq4Xs if facts.gqa >= 4 => Q5_K,
            Target::Q4KM | Target::Q5KM if more_bits(layer, facts.values) => Q6_K,
            Target::Q4KS if layer < 4 => Q5_K,
            _ => usual,
        };
        if facts.is_70b && chosen == Q4_K {
            chosen = Q5_K;
        }
        if facts.experts == 8 { Q8_0 } else { chosen }
    }

    fn choose_down(&mut self, usual: u32, name: &str) -> u32 {
        let facts = &self.facts;
        // Experts come in any order.
        let own = || layer_of(name).and_then(|layer| i64::try_from(layer).ok()).unwrap_or(-1);
        let layer = if facts.experts > 1 { own() } else { self.down };
        self.down += 1;
        let early = layer < facts.layers / 8;
        match self.target {
            Target::Q4KM if facts.falcon && layer < facts.layers / 16 => Q6_K,
            Target::Q4KM if facts.falcon && more_bits(layer, facts.layers) => Q5_K,
            Target::Q4KM if facts.falcon => Q4_K,
            Target::Q4KM | Target::Q5KM if more_bits(layer, facts.layers) => Q6_K,
            Target::Iq4Nl | Target::Iq4Xs if early && !facts.has_imatrix => Q5_K,
            Target::Q4KS if early && !facts.falcon => Q5_K,
            Target::Q4_0 if early && facts.has_imatrix => Q4_1,
            _ => usual,
        }
    }
}

/// A type for rows that are no multiple of the block of the type meant.
fn fallback(meant: u32, row: u64) -> u32 {
    let fits = |id: u32| row.is_multiple_of(named(id).block);
    if fits(meant) {
        return meant;
    }
    let smaller = match meant {
        IQ4_XS => IQ4_NL,
        Q4_K => Q5_0,
        Q5_K => Q5_1,
        Q6_K => Q8_0,
        other => other,
    };
    if fits(smaller) { smaller } else { F16 }
}

/// One of the types above.
fn named(id: u32) -> &'static TensorType {
    const NONE: TensorType = TensorType { id: 0, name: "?", block: 1, bytes: 4, weight: false };
    tensor_type(id).unwrap_or(&NONE)
}
