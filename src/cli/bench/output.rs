//! Rows to stdout, as they come.

use super::row::{Planned, Row};
use crate::cli::args::BenchArgs;
use crate::cli::ui::Ui;
use crate::error::Result;

pub(super) struct Output {}

impl Output {
    pub(super) fn new(_: &BenchArgs, _: &[Planned], _: Option<usize>) -> Result<Self> {
        Ok(Self {})
    }
    pub(super) fn begin(&mut self, _: &mut Ui) {}
    pub(super) fn row(&mut self, ui: &mut Ui, row: Row) {
        let _ = ui.page(&format!(
            "{} {:?} {:?} {:?} {:?} {:?} {:?}",
            row.test,
            row.median(),
            row.spread(),
            row.answer,
            row.load,
            row.memory,
            row.samples
        ));
    }
    pub(super) fn end(&mut self, _: &mut Ui) {}
    pub(super) fn judge(self, _: &mut Ui) -> Result<()> {
        Ok(())
    }
}
