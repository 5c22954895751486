//! The one integration binary; a file per verb or subject, each driving the program from outside.

#[cfg(unix)]
mod bars;
mod bench;
mod cache;
mod chat;
#[cfg(unix)]
mod doctor;
mod fit;
mod floors;
mod help;
mod hostile;
mod kill;
mod kinds;
#[cfg(unix)]
mod models;
mod pull;
mod quantize;
mod real;
mod run;
mod sessions;
mod show;
mod support;
mod terminal;
mod tune;
mod window;
