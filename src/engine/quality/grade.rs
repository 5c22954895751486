//! A judgement.
use super::Comparison;
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Grade {
    Poor,
    Fair,
    Good,
}
pub(crate) fn judge(_: &Comparison) -> Grade {
    Grade::Good
}
impl Grade {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Poor => "poor",
            Self::Fair => "fair",
            Self::Good => "good",
        }
    }
}
pub(crate) fn sentence(c: &Comparison) -> String {
    format!("{}: top-1 {:.1} %, KL {:.4}", judge(c).as_str(), c.top1.value * 100.0, c.kl.value)
}
