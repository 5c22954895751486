//! The one integration binary: every file here drives the program from outside, through `support::Infer`.

mod floors;
mod help;
mod hostile;
mod show;
mod support;
