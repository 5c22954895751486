//! Flat tables of what the bundled llama.cpp (b11434) knows: architectures, tensor types, file types, tokenizers.

/// The architectures that llama.cpp can load, from `LLM_ARCH_NAMES` in `llama-arch.cpp`, without `clip`.
#[rustfmt::skip]
pub(crate) const ARCHITECTURES: &[&str] = &[
    "afmoe", "apertus", "arcee", "arctic", "arwkv7", "baichuan", "bailingmoe", "bailingmoe2", "bailingmoe3",
    "bert", "bitnet", "bloom", "chameleon", "chatglm", "clef", "codeshell", "cogvlm", "cohere2", "cohere2moe",
    "command-r", "dbrx", "deci", "deepseek", "deepseek2", "deepseek2-ocr", "deepseek32", "deepseek4",
    "dflash", "dots1", "dots3note", "dream", "eagle3", "ernie4_5", "ernie4_5-moe", "eurobert", "exaone",
    "exaone-moe", "exaone4", "falcon", "falcon-h1", "gemma", "gemma-embedding", "gemma2", "gemma3", "gemma3n",
    "gemma4", "gemma4-assistant", "glm-dsa", "glm4", "glm4moe", "glm5-next", "gpt-oss", "gpt2", "gptj",
    "gptneox", "granite", "granite_swa", "granitehybrid", "granitemoe", "graniteswitch", "grok", "grovemoe",
    "hrm_text", "hunyuan-dense", "hunyuan-moe", "hunyuan_vl", "hy_v3", "hy_v4", "internlm2", "jais", "jais2",
    "jamba", "jina-bert-v2", "jina-bert-v3", "kimi-k3", "kimi-linear", "laguna", "lfm2", "lfm2moe", "llada",
    "llada-moe", "llama", "llama-embed", "llama4", "maincoder", "mamba", "mamba2", "maple", "mellum", "mimo2",
    "minicpm", "minicpm3", "minimax-01", "minimax-m2", "minimax-m3", "mistral3", "mistral4", "modern-bert",
    "mpt", "muse-glimmer", "nanbeige", "nemotron", "nemotron_h", "nemotron_h_moe", "neo-bert", "nomic-bert",
    "nomic-bert-moe", "olmo", "olmo2", "olmoe", "openelm", "orion", "paddleocr", "pangu-embedded", "phi2",
    "phi3", "phimoe", "plamo", "plamo2", "plamo3", "plm", "pockettts", "qwen", "qwen2", "qwen2moe", "qwen2vl",
    "qwen3", "qwen35", "qwen35moe", "qwen3moe", "qwen3next", "qwen3tts", "qwen3vl", "qwen3vlmoe", "qwen4exp",
    "refact", "rnd1", "rwkv6", "rwkv6qwen2", "rwkv7", "seed_oss", "smallthinker", "smollm3", "spark2_5",
    "stablelm", "starcoder", "starcoder2", "step35", "t5", "t5encoder", "talkie", "wavtokenizer-dec",
    "xverse",
];

/// Does llama.cpp know this architecture?
pub(crate) fn is_known(arch: &str) -> bool {
    ARCHITECTURES.binary_search(&arch).is_ok()
}

/// What a model of an architecture is for, when it is not for writing text; in words that follow "is".
pub(crate) fn other_purpose(arch: &str) -> Option<&'static str> {
    Some(match arch {
        "bert" | "modern-bert" | "nomic-bert" | "nomic-bert-moe" | "neo-bert" | "jina-bert-v2"
        | "jina-bert-v3" | "eurobert" | "gemma-embedding" | "llama-embed" => "an embedding model",
        "t5" => "an encoder-decoder model",
        "t5encoder" => "an encoder without a decoder",
        "dream" | "llada" | "llada-moe" | "rnd1" => "a diffusion model",
        "eagle3" | "dflash" | "gemma4-assistant" => "a draft head for speculative decoding",
        "wavtokenizer-dec" | "qwen3tts" | "pockettts" => "a speech model",
        "clef" => "a decision model",
        _ => return None,
    })
}

/// Models without attention, whose files need not name any heads.
pub(crate) fn is_recurrent(arch: &str) -> bool {
    matches!(arch, "mamba" | "mamba2" | "rwkv6" | "rwkv6qwen2" | "rwkv7" | "arwkv7")
}

/// Does llama.cpp assert that all of a head is rotated, and that keys and values are equally wide?
pub(crate) fn rotates_whole_head(arch: &str) -> bool {
    matches!(
        arch,
        "arcee"
            | "baichuan"
            | "chameleon"
            | "ernie4_5"
            | "exaone"
            | "exaone4"
            | "falcon"
            | "granite"
            | "grok"
            | "internlm2"
            | "llama"
            | "llama4"
            | "mistral3"
            | "olmo"
            | "olmo2"
            | "olmoe"
            | "orion"
            | "plamo"
            | "qwen2"
            | "qwen2moe"
            | "qwen2vl"
            | "qwen3"
            | "qwen3moe"
            | "qwen3vl"
            | "qwen3vlmoe"
            | "seed_oss"
            | "smollm3"
            | "starcoder2"
            | "xverse"
    )
}

/// Does llama.cpp read the number of heads from the first layer only? Layers that differ make it abort.
pub(crate) fn has_equal_layers(arch: &str) -> bool {
    (rotates_whole_head(arch) && arch != "granite") || matches!(arch, "gemma" | "gemma2" | "gemma3")
}

/// Architectures that know positions by other means than rotation. The others never end with 0 rotated dimensions.
pub(crate) fn rotates_nothing(arch: &str) -> bool {
    matches!(
        arch,
        "bloom"
            | "glm5-next"
            | "gpt2"
            | "gptj"
            | "granitehybrid"
            | "jais"
            | "jamba"
            | "kimi-k3"
            | "kimi-linear"
            | "mpt"
            | "nemotron_h"
            | "nemotron_h_moe"
            | "refact"
            | "starcoder"
    )
}

/// Which layers of an architecture llama.cpp lets slide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Slides {
    /// Those that the file lists.
    Listed,
    /// All but every so many-th, unless the file says otherwise; `first` when a full one comes first. 0 is all.
    Between { every: usize, first: bool },
}

/// How llama.cpp alternates sliding and full attention in a model of so many layers. Other architectures ignore
/// their window.
pub(crate) fn slides(arch: &str, layers: u64) -> Option<Slides> {
    let (every, first) = match arch {
        "dots3note" | "gemma4" | "granite_swa" | "maple" | "mimo2" | "spark2_5" | "step35" => {
            return Some(Slides::Listed);
        }
        "lfm2" => (0, false),
        "gemma2" | "gpt-oss" => (2, false),
        "afmoe" | "cohere2" | "exaone-moe" | "llama4" | "mellum" | "muse-glimmer" | "olmo2" => (4, false),
        "exaone4" if layers == 64 => (4, false),
        "cohere2moe" | "laguna" | "smallthinker" => (4, true),
        "gemma3n" => (5, false),
        "gemma3" => (6, false),
        "plamo3" => (8, false),
        _ => return None,
    };
    Some(Slides::Between { every, first })
}

/// The window that llama.cpp takes where a file names this one, or none. Some architectures have their own.
pub(crate) fn sliding_window(arch: &str, told: Option<u64>) -> Option<u64> {
    match (arch, told) {
        (_, Some(0)) => None,
        ("llama4", _) => Some(8192),
        ("smallthinker", Some(_)) | ("gemma2" | "exaone4", None) => Some(4096),
        _ => told,
    }
}

/// Which layers of an architecture keep a recurrent state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Recurrence {
    None,
    /// All, and none has keys and values.
    All,
    /// All, and all have keys and values beside it.
    Beside,
    /// Those without heads of the KV cache.
    WithoutHeads,
    /// Those without heads of the KV cache and without a feed-forward part.
    WithoutHeadsAndFeedForward,
    /// All but every so many-th, where the file does not list them.
    Between(u64),
}

pub(crate) fn recurrence(arch: &str) -> Recurrence {
    match arch {
        _ if is_recurrent(arch) => Recurrence::All,
        "falcon-h1" => Recurrence::Beside,
        "bailingmoe3" | "glm5-next" | "granitehybrid" | "jamba" | "kimi-k3" | "kimi-linear" | "lfm2"
        | "lfm2moe" | "plamo2" => Recurrence::WithoutHeads,
        "nemotron_h" | "nemotron_h_moe" => Recurrence::WithoutHeadsAndFeedForward,
        "qwen35" | "qwen35moe" | "qwen3next" | "qwen4exp" => Recurrence::Between(4),
        "minimax-01" => Recurrence::Between(8),
        _ => Recurrence::None,
    }
}

/// How a tensor's numbers are stored: `block` of them share `bytes` bytes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TensorType {
    pub(crate) id: u32,
    pub(crate) name: &'static str,
    pub(crate) block: u64,
    pub(crate) bytes: u64,
    /// Can a weight have this type? The others are for intermediate results.
    pub(crate) weight: bool,
}

/// The type behind a number in a file, from `ggml.h` and `ggml-common.h`.
pub(crate) fn tensor_type(id: u32) -> Option<&'static TensorType> {
    TENSOR_TYPES.iter().find(|t| t.id == id)
}

const fn weight(id: u32, name: &'static str, block: u64, bytes: u64) -> TensorType {
    TensorType { id, name, block, bytes, weight: true }
}

const fn other(id: u32, name: &'static str, block: u64, bytes: u64) -> TensorType {
    TensorType { id, name, block, bytes, weight: false }
}

static TENSOR_TYPES: &[TensorType] = &[
    weight(0, "F32", 1, 4),
    weight(1, "F16", 1, 2),
    weight(2, "Q4_0", 32, 18),
    weight(3, "Q4_1", 32, 20),
    weight(6, "Q5_0", 32, 22),
    weight(7, "Q5_1", 32, 24),
    weight(8, "Q8_0", 32, 34),
    other(9, "Q8_1", 32, 36),
    weight(10, "Q2_K", 256, 84),
    weight(11, "Q3_K", 256, 110),
    weight(12, "Q4_K", 256, 144),
    weight(13, "Q5_K", 256, 176),
    weight(14, "Q6_K", 256, 210),
    other(15, "Q8_K", 256, 292),
    weight(16, "IQ2_XXS", 256, 66),
    weight(17, "IQ2_XS", 256, 74),
    weight(18, "IQ3_XXS", 256, 98),
    weight(19, "IQ1_S", 256, 50),
    weight(20, "IQ4_NL", 32, 18),
    weight(21, "IQ3_S", 256, 110),
    weight(22, "IQ2_S", 256, 82),
    weight(23, "IQ4_XS", 256, 136),
    other(24, "I8", 1, 1),
    other(25, "I16", 1, 2),
    other(26, "I32", 1, 4),
    other(27, "I64", 1, 8),
    other(28, "F64", 1, 8),
    weight(29, "IQ1_M", 256, 56),
    weight(30, "BF16", 1, 2),
    weight(34, "TQ1_0", 256, 54),
    weight(35, "TQ2_0", 256, 66),
    weight(39, "MXFP4", 32, 17),
    weight(40, "NVFP4", 64, 36),
    weight(41, "Q1_0", 128, 18),
    weight(42, "Q2_0", 64, 18),
];

/// The name of `general.file_type`, which tells what most tensors are, from `llama_ftype` in `llama.h`.
pub(crate) fn file_type(id: u64) -> Option<&'static str> {
    Some(match id {
        0 => "F32",
        1 => "F16",
        2 => "Q4_0",
        3 => "Q4_1",
        7 => "Q8_0",
        8 => "Q5_0",
        9 => "Q5_1",
        10 => "Q2_K",
        11 => "Q3_K_S",
        12 => "Q3_K_M",
        13 => "Q3_K_L",
        14 => "Q4_K_S",
        15 => "Q4_K_M",
        16 => "Q5_K_S",
        17 => "Q5_K_M",
        18 => "Q6_K",
        19 => "IQ2_XXS",
        20 => "IQ2_XS",
        21 => "Q2_K_S",
        22 => "IQ3_XS",
        23 => "IQ3_XXS",
        24 => "IQ1_S",
        25 => "IQ4_NL",
        26 => "IQ3_S",
        27 => "IQ3_M",
        28 => "IQ2_S",
        29 => "IQ2_M",
        30 => "IQ4_XS",
        31 => "IQ1_M",
        32 => "BF16",
        36 => "TQ1_0",
        37 => "TQ2_0",
        38 => "MXFP4_MOE",
        39 => "NVFP4",
        40 => "Q1_0",
        41 => "Q2_0",
        _ => return None,
    })
}

/// Tokenizers of models that write text, as `tokenizer.ggml.model` names them.
pub(crate) fn is_tokenizer(model: &str) -> bool {
    matches!(model, "llama" | "gpt2" | "gemma4" | "t5" | "rwkv" | "plamo2" | "whitespace" | "hybriddna")
}

/// Tokens with a purpose: our name for it, and the end of its key behind `tokenizer.ggml.`.
pub(crate) const SPECIAL_TOKENS: &[(&str, &str)] = &[
    ("bos", "bos_token_id"),
    ("eos", "eos_token_id"),
    ("eot", "eot_token_id"),
    ("eom", "eom_token_id"),
    ("unk", "unknown_token_id"),
    ("sep", "seperator_token_id"),
    ("pad", "padding_token_id"),
    ("mask", "mask_token_id"),
    ("fim_pre", "fim_pre_token_id"),
    ("fim_suf", "fim_suf_token_id"),
    ("fim_mid", "fim_mid_token_id"),
    ("fim_pad", "fim_pad_token_id"),
    ("fim_rep", "fim_rep_token_id"),
    ("fim_sep", "fim_sep_token_id"),
];

/// The numbers that a model may recommend for sampling, behind `general.sampling.`.
pub(crate) const SAMPLING: &[&str] = &[
    "temp",
    "top_k",
    "top_p",
    "min_p",
    "penalty_repeat",
    "penalty_last_n",
    "xtc_probability",
    "xtc_threshold",
    "mirostat",
    "mirostat_tau",
    "mirostat_eta",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn architectures_are_sorted_so_that_they_can_be_searched() {
        assert!(ARCHITECTURES.is_sorted());
        assert!(is_known("llama") && is_known("gemma3"));
        assert!(!is_known("clip") && !is_known("") && !is_known("(unknown)"));
    }

    #[test]
    fn whatever_has_a_purpose_or_a_pattern_is_a_known_architecture() {
        for arch in
            ["t5", "t5encoder", "eagle3", "gemma-embedding", "dream", "pockettts", "clef", "gemma4-assistant"]
        {
            assert!(is_known(arch) && other_purpose(arch).is_some(), "{arch}");
        }
        for arch in ["gemma2", "gemma3", "gpt-oss", "cohere2", "olmo2", "smallthinker", "mellum", "step35"] {
            assert!(is_known(arch) && other_purpose(arch).is_none() && slides(arch, 2).is_some(), "{arch}");
        }
        for arch in ["falcon-h1", "jamba", "lfm2", "nemotron_h", "qwen35moe", "minimax-01", "rwkv7"] {
            assert!(is_known(arch) && recurrence(arch) != Recurrence::None, "{arch}");
        }
    }

    #[test]
    fn tensor_types_are_listed_once_and_have_the_bits_they_are_known_for() {
        for t in TENSOR_TYPES {
            assert_eq!(tensor_type(t.id), Some(t));
        }
        for (id, hundredths) in
            [(0, 3200), (1, 1600), (2, 450), (8, 850), (12, 450), (14, 656), (30, 1600), (39, 425)]
        {
            let t = tensor_type(id).unwrap();
            assert_eq!(t.bytes * 800 / t.block, hundredths, "{}", t.name);
        }
        assert_eq!(tensor_type(4), None);
        assert_eq!(tensor_type(u32::MAX), None);
    }

    #[test]
    fn a_window_is_what_llama_cpp_makes_of_it() {
        for (arch, told, window) in [
            ("gemma3", Some(512), Some(512)),
            ("gemma3", Some(0), None),
            ("gemma3", None, None),
            ("gemma2", None, Some(4096)),
            ("gemma2", Some(100), Some(100)),
            ("llama4", None, Some(8192)),
            ("llama4", Some(100), Some(8192)),
            ("llama4", Some(0), None),
            ("smallthinker", Some(100), Some(4096)),
            ("smallthinker", None, None),
        ] {
            assert_eq!(sliding_window(arch, told), window, "{arch} {told:?}");
        }
        assert_eq!((slides("exaone4", 30), slides("llama", 32)), (None, None));
        assert_eq!(slides("exaone4", 64), Some(Slides::Between { every: 4, first: false }));
    }

    #[test]
    fn file_types_have_names() {
        for (id, name) in [(0, Some("F32")), (3, Some("Q4_1")), (15, Some("Q4_K_M")), (4, None), (1024, None)]
        {
            assert_eq!(file_type(id), name);
        }
    }
}
