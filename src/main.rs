//! `infer` runs language models on one person's own machine, from the terminal.
//!
//! Four floors, and who may know whom:
//!
//! ```text
//!    cli ──────────────┬──────────────┐        the person: arguments, terminal, verbs
//!     │                ▼              ▼
//!     │            session          model      the conversation; the files. Neither knows the other
//!     │                │              │
//!     └───────────────►└──► engine ◄──┘        tokens in, tokens out; the only unsafe code
//!                              │
//!            error   human   machine   numbers   leaves: std only
//! ```
//!
//! A prompt's way: `cli::args` parses, `cli::run` gathers the prompt, `model::locate` finds the file, `model::gguf`
//! reads its header and refuses what cannot run, `model::fit` decides the window, `engine::llama` loads. Then
//! `session` renders the model's own template, brings the KV cache to the wanted tokens and runs the one generation
//! loop; its events come back up to `cli`, which alone prints.
//!
//! The cache's way: `session::window` plans from what is cached to what is wanted, `session::answer` decides what leaves when the
//! window is full, `session::keep` and `session::cache` bring the beginning of a prompt from disk and put it there.
//!
//! A conversation that is kept: `cli::sessions` names it and says what becomes of it, `session::transcript` holds its file and
//! writes each message before it is evaluated.
//!
//! A download's way: `cli::pull` shows it, `model::pull` plans and publishes, `model::hub` brings the bytes, `model::store`
//! knows what lies where. Quantizing: `model::recipe` predicts, `cli::quantize` lets a child do it in `engine::quantize`, and
//! `engine::quality` measures what it cost.
//!
//! What the machine can do: `model::fit` plans what goes where, `engine::bandwidth` and `engine::throughput` measure the machine and
//! `model::roofline` says what that allows. `session::speed` times the engine for `cli::bench`, which shows it beside the
//! roofline, and for `cli::tune`, which remembers the fastest settings in `cli::tuned`.

mod cli;
mod engine;
mod error;
mod human;
mod machine;
mod model;
mod numbers;
mod session;

fn main() -> std::process::ExitCode {
    cli::run(&std::env::args_os().collect::<Vec<_>>())
}
