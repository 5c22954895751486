//! The one integration binary; a file per verb or subject, each driving the program from outside.

mod chat;
mod floors;
mod help;
mod hostile;
mod pull;
mod real;
mod run;
mod show;
mod support;
mod terminal;
