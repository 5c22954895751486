//! Which entries of an importance matrix belong to which weights of a model.

use std::collections::BTreeMap;

use super::Imatrix;
use crate::error::{Error, Result};
use crate::human::{Count, Escaped};
use crate::model::gguf::{Header, Tensor};

/// How an importance matrix fits a model.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Coverage {
    /// Entries with a weight of the same name and size.
    pub(crate) matched: usize,
    /// Matrices in the model's layers that have no entry, and are quantized as without an importance matrix.
    pub(crate) missing: Vec<String>,
    /// Entries that no weight has the name of.
    pub(crate) unknown: Vec<String>,
    /// Entries of another size than the weight.
    pub(crate) wrong: Vec<Wrong>,
}

/// An entry of the wrong size, in values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wrong {
    pub(crate) name: String,
    pub(crate) has: usize,
    pub(crate) needs: u64,
}

impl Imatrix {
    /// How it fits a model, all of whose parts are in the header. That of another model is an error: where the size of
    /// an entry is wrong, which llama.cpp throws at in the middle of its work, or most entries are for nothing.
    pub(crate) fn fit(&self, header: &Header) -> Result<Coverage> {
        let coverage = self.coverage(header);
        if !coverage.wrong.is_empty() || coverage.matched <= coverage.unknown.len() {
            return Err(coverage.error(self.entries.len()));
        }
        Ok(coverage)
    }

    fn coverage(&self, header: &Header) -> Coverage {
        let tensors: BTreeMap<&str, &Tensor> = header.tensors.iter().map(|t| (t.name.as_str(), t)).collect();
        let mut coverage = Coverage::default();
        for (name, squares) in &self.entries {
            let has = squares.sums.len();
            match tensors.get(name.as_str()).map(|tensor| values(tensor)) {
                None => coverage.unknown.push(name.clone()),
                Some(needs) if needs == has as u64 => coverage.matched += 1,
                Some(needs) => coverage.wrong.push(Wrong { name: name.clone(), has, needs }),
            }
        }
        let missing = header.tensors.iter().filter(|tensor| is_layer_matrix(tensor));
        coverage.missing = missing
            .filter(|tensor| !self.entries.contains_key(&tensor.name))
            .map(|t| t.name.clone())
            .collect();
        coverage
    }
}

/// The numbers that `llama_model_quantize` wants for a tensor: one for each column of each expert.
fn values(tensor: &Tensor) -> u64 {
    let size = |dimension: usize| tensor.dims.get(dimension).copied().unwrap_or(1);
    size(0).saturating_mul(size(2))
}

/// The weights that a layer multiplies with: what an importance matrix is for.
fn is_layer_matrix(tensor: &Tensor) -> bool {
    let name = &tensor.name;
    let matrix = tensor.dims.iter().filter(|&&size| size > 1).count() >= 2;
    matrix && name.starts_with("blk.") && name.ends_with(".weight") && !name.ends_with("_norm.weight")
}

impl Coverage {
    fn error(&self, entries: usize) -> Error {
        let example = match (self.wrong.first(), self.unknown.first()) {
            (Some(Wrong { name, has, needs }), _) => {
                format!("`{}` has {has} values there and {needs} columns here", Escaped(name))
            }
            (None, Some(name)) => format!("there is no `{}` here", Escaped(name)),
            (None, None) => "it is empty".to_owned(),
        };
        let (all, fit) = (Count(entries as u64, "entry"), self.matched);
        let (wrong, unknown) = (self.wrong.len(), self.unknown.len());
        Error::failed(format!(
            "the importance matrix was made for another model: of {all} {fit} fit, {wrong} have another size and \
             {unknown} belong to no weight; {example}"
        ))
        .hint("`--calibrate TEXTFILE` computes one for this model")
    }
}
