//! Whether cached tokens can move to other positions. llama.cpp moves a token by turning its key further, which some
//! models do not allow, on which it aborts for others, and which it gets wrong for a few.
#![expect(unsafe_code, reason = "the model is llama.cpp's")]

use std::ffi::CString;

use llama_cpp_sys_2 as sys;

use super::Weights;

/// Architectures that llama.cpp (b11434) turns as it should not.
const TURNED_WRONGLY: [&str; 9] = [
    // Some of their layers know no positions.
    "afmoe",
    "llama4",
    "smollm3",
    // Their keys are scaled after they were turned.
    "hunyuan-dense",
    "hunyuan-moe",
    "hunyuan_vl",
    "maincoder",
    // The keys of their index are mixed whatever the type of the cache.
    "deepseek32",
    "glm-dsa",
];

impl Weights {
    pub(super) fn is_recurrent(&self) -> bool {
        let model = self.model.as_ptr();
        // SAFETY: plain getters on a valid model.
        unsafe { sys::llama_model_is_recurrent(model) || sys::llama_model_is_hybrid(model) }
    }

    /// How far layers that slide look back; 0 where none does.
    pub(super) fn sliding_window(&self) -> usize {
        // SAFETY: a plain getter on a valid model.
        usize::try_from(unsafe { sys::llama_model_n_swa(self.model.as_ptr()) }).unwrap_or(0)
    }

    /// See [`super::Engine::unshiftable`].
    pub(super) fn unshiftable(
        &self,
        memory: sys::llama_memory_t,
        keys: sys::ggml_type,
    ) -> Option<&'static str> {
        // SAFETY: a valid model; a memory of its context, of which null cannot shift; plain values.
        let (rope, shifts, quantized) = unsafe {
            (
                sys::llama_model_rope_type(self.model.as_ptr()),
                sys::llama_memory_can_shift(memory),
                sys::ggml_is_quantized(keys),
            )
        };
        if self.is_recurrent() {
            Some("it sums up all that it has read")
        } else if self.sliding_window() > 0 {
            Some("some of its layers keep the last tokens only")
        } else if !matches!(rope, sys::LLAMA_ROPE_TYPE_NORM | sys::LLAMA_ROPE_TYPE_NEOX) {
            Some("its positions are not plain rotations")
        } else if !shifts {
            Some("llama.cpp has no way to move it")
        } else if self.is_turned_wrongly() {
            Some("llama.cpp would turn its keys wrongly")
        } else {
            (quantized && !self.turns_quantized()).then_some("its quantized keys cannot be turned")
        }
    }

    /// Rotations that also stretch, as those of `YaRN` do, stretch once more each time that a key is turned.
    fn is_turned_wrongly(&self) -> bool {
        let yarn = self.fact("rope.scaling.type").is_some_and(|kind| kind == "yarn");
        let stretch = self.fact("rope.scaling.attn_factor").and_then(|factor| factor.parse::<f32>().ok());
        let arch = self.meta("general.architecture").unwrap_or_default();
        yarn || stretch.is_some_and(|factor| (factor - 1.0).abs() > 1e-6)
            || TURNED_WRONGLY.contains(&arch.as_str())
    }

    /// llama.cpp mixes the numbers of quantized keys in blocks, and unmixes them to turn them. It does so only with
    /// heads of whole blocks, follows a null pointer with others, and needs whole blocks in the part that turns.
    fn turns_quantized(&self) -> bool {
        let number = |key| self.fact(key).and_then(|n| n.parse::<u32>().ok());
        let model = self.model.as_ptr();
        // SAFETY: plain getters on a valid model.
        let (width, heads) = unsafe { (sys::llama_model_n_embd(model), sys::llama_model_n_head(model)) };
        let share = u32::try_from(width).unwrap_or(0).checked_div(u32::try_from(heads).unwrap_or(0));
        let head = number("attention.key_length").or(share).unwrap_or(0);
        let turned = number("rope.dimension_count").unwrap_or(head);
        // The largest power of two that fits, from 64 on.
        let block = 1_u32.checked_shl(head.trailing_zeros()).unwrap_or(0);
        block >= 64 && turned > 0 && turned.is_multiple_of(block)
    }

    /// A value of the architecture's own: `rope.scaling.type` stands for `llama.rope.scaling.type`.
    pub(super) fn fact(&self, key: &str) -> Option<String> {
        self.meta(&format!("{}.{key}", self.meta("general.architecture")?))
    }

    /// A short value from the file's metadata, as text.
    fn meta(&self, key: &str) -> Option<String> {
        let key = CString::new(key).ok()?;
        let mut text = [0_u8; 64];
        // SAFETY: a valid model, a C string, pointer and length of a live buffer.
        let len = unsafe {
            sys::llama_model_meta_val_str(
                self.model.as_ptr(),
                key.as_ptr(),
                text.as_mut_ptr().cast(),
                text.len(),
            )
        };
        // What is longer was cut.
        let text = text.get(..usize::try_from(len).ok()?)?;
        Some(String::from_utf8_lossy(text).into_owned())
    }
}
