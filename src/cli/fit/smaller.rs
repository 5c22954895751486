//! What to type where a model does not fit with any window.

use crate::cli::pull::places;
use crate::human::Escaped;
use crate::model::Places;
use crate::model::fit::estimate::{Estimate, smaller_quant};
use crate::model::gguf::Shape;
use crate::model::name::{HubRef, Pick};
use crate::model::recipe::Target;

/// A way out for the model of this name, where weights may have so many bytes.
pub(crate) fn smaller(name: &str, shape: &Shape, room: u64) -> String {
    let Ok(places) = places() else { return "free some memory".to_owned() };
    match smaller_quant(shape.parameters, shape.bits_per_weight(), room) {
        Some(target) => smaller_file(&places, name, shape, target),
        None => smaller_model(&places, room),
    }
}

/// The same model with fewer bits: from its repository, or made of the file that is here.
fn smaller_file(places: &Places, name: &str, shape: &Shape, target: Target) -> String {
    if let Ok(Some(hub)) = places.on_hub(name) {
        let hub = HubRef { pick: Pick::Quant(target.name().to_owned()), ..hub };
        return format!("try `infer run {hub}`");
    }
    let requantize = if shape.bits_per_weight() < 16.0 { " --allow-requantize" } else { "" };
    let (file, kind) = (Escaped(name), target.name().to_lowercase());
    format!("`infer quantize {file} --to {kind}{requantize}` makes a smaller one")
}

/// The largest model of the registry that fits.
fn smaller_model(places: &Places, room: u64) -> String {
    let estimates = places.registry.entries().filter_map(|entry| Some((Estimate::of(entry)?, entry)));
    let fitting = estimates.filter(|(estimate, _)| estimate.weights <= room);
    match fitting.max_by_key(|(estimate, _)| estimate.weights) {
        Some((_, entry)) => format!("try a smaller model: `infer run {}`", entry.alias),
        None => "free some memory, or try `infer run demo`".to_owned(),
    }
}
