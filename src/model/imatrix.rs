//! Placeholder.
use crate::error::{Error, Result};
use std::collections::BTreeMap;
use std::path::Path;
pub(crate) struct Imatrix {
    pub(crate) entries: BTreeMap<String, Vec<f32>>,
}
impl Imatrix {
    pub(crate) fn read(path: &Path) -> Result<Self> {
        Err(Error::failed(format!("{}", path.display())))
    }
}
