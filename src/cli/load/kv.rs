//! The KV cache: which type a model can take, and what it costs.

use crate::cli::args::KvArg;
use crate::cli::ui::Ui;
use crate::engine::KvType;
use crate::error::{Error, Result};
use crate::human::Bytes;
use crate::model::gguf::Shape;

/// The type wanted, where it makes a difference.
pub(crate) fn choose(ui: &mut Ui, wanted: KvArg, shape: &Shape) -> Result<KvType> {
    let kv = wanted.into();
    let usable = usable(kv, shape)?;
    if usable != kv {
        ui.note(&format!("the model keeps no keys and values: `--kv {kv}` changes nothing"));
    }
    Ok(usable)
}

/// llama.cpp keeps quantized keys and values in blocks that must not cross a head, and reads them by flash attention.
/// Where there are none, the type is of no matter.
pub(crate) fn usable(kv: KvType, shape: &Shape) -> Result<KvType> {
    let refuse = |why: String| Err(Error::usage(why).hint("leave `--kv` out"));
    if kv == KvType::F16 || !shape.cache.has_kv() {
        return Ok(KvType::F16);
    }
    if let Some(width) = shape.cache.unfit_width(kv) {
        return refuse(format!(
            "a {kv} KV cache needs heads of a multiple of {} values; here they have {width}",
            kv.block()
        ));
    }
    match shape.architecture.as_deref() {
        Some(arch @ "grok") => {
            refuse(format!("a {kv} KV cache needs flash attention, which `{arch}` models do without"))
        }
        _ => Ok(kv),
    }
}

/// What a context of so many tokens costs: `KV f16 184.3 MB (22.5 KB a token)`.
pub(super) fn cost(shape: &Shape, tokens: u64, kv: KvType) -> String {
    let cache = &shape.cache;
    let keys = || {
        let (all, token) = (cache.kv_bytes(tokens, kv), cache.bytes_per_token(kv));
        format!("KV {kv} {} ({} a token)", Bytes(all), Bytes(token))
    };
    let state = || format!("state {}", Bytes(cache.state_bytes()));
    match (cache.has_kv(), cache.state_bytes() > 0) {
        (false, _) => state(),
        (true, false) => keys(),
        (true, true) => format!("{}, {}", keys(), state()),
    }
}

#[cfg(test)]
mod tests;
