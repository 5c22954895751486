//! The one integration binary; a file per verb or subject.

mod chat;
mod floors;
mod help;
mod real;
mod run;
mod support;
mod terminal;
