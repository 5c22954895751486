//! The process that quantizes, and how its parent speaks with it.
//!
//! The parent writes the job as a line of JSON and keeps the pipe open; when it closes, the parent is gone, and so is the
//! half-written file a moment later. The child writes llama.cpp's log to stdout, and an error as `--json` does.

use std::io::{BufRead, BufReader, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::cli::ui::{self, Ui};
use crate::engine::leave::leave;
use crate::engine::{log, quantize};
use crate::error::{Error, Kind, Result};
use crate::model::imatrix::Imatrix;

/// The command that a person never types.
pub(crate) const COMMAND: &str = "quantize-worker";

/// The child's last line: the file is made.
const DONE: &str = "done";

/// How often a person is looked after.
const TICK: Duration = Duration::from_millis(100);

/// A job on its way to the child.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) source: PathBuf,
    pub(crate) output: PathBuf,
    pub(crate) ftype: u32,
    pub(crate) threads: usize,
    pub(crate) requantize: bool,
    pub(crate) imatrix: Option<PathBuf>,
    pub(crate) texts: Vec<(String, String)>,
    pub(crate) realign: bool,
    pub(crate) buffer: usize,
}

/// The child: do the job that stands on stdin, then stay until the parent has no use for the file any more.
pub(crate) fn work(ui: &mut Ui) -> Result<()> {
    let line = ui.read_line(1 << 20)?.unwrap_or_default();
    let job: Job =
        serde_json::from_slice(&line).map_err(|e| Error::failed(format!("no job on stdin: {e}")))?;
    log::listen(Some(Box::new(ui::work_line)), ui::last_words);
    let guard = leave_with_parent(job.output.clone());
    let imatrix = match &job.imatrix {
        Some(path) => {
            Imatrix::read(path)?.means().into_iter().map(|(name, v)| (name.to_owned(), v)).collect()
        }
        None => Vec::new(),
    };
    quantize::quantize(&quantize::Job {
        source: &job.source,
        output: &job.output,
        ftype: job.ftype,
        threads: job.threads,
        requantize: job.requantize,
        imatrix: &imatrix,
        texts: &job.texts,
        realign: job.realign,
        buffer: job.buffer,
    })?;
    ui::work_line(DONE);
    // It ends the process.
    let _ = guard.join();
    Ok(())
}

/// When nobody holds the other end of stdin any more, the file is under its own name, or nobody wants it.
fn leave_with_parent(output: PathBuf) -> JoinHandle<()> {
    thread::spawn(move || {
        // Nothing is ever written behind the job.
        let _ = Ui::read_input(1);
        // What has not been renamed would look like a model.
        let _ = std::fs::remove_file(&output);
        leave(1);
    })
}

/// The parent's side of a child. When it is dropped, or the parent dies, the child goes, and with it the file that it
/// made, unless that has been renamed.
pub(crate) struct Worker {
    child: Child,
    pipe: Option<ChildStdin>,
    lines: Receiver<String>,
    said: Option<JoinHandle<String>>,
    output: PathBuf,
}

impl Worker {
    /// Let a child begin with the job.
    pub(crate) fn start(job: &Job) -> Result<Self> {
        let failed = |e: std::io::Error| Error::failed(format!("cannot start the quantizing process: {e}"));
        let program = std::env::current_exe().map_err(failed)?;
        let mut child = Command::new(program)
            .args([COMMAND, "--json"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let (lines, said) = (lines(&mut child), Some(stderr(&mut child)));
        let mut pipe = child.stdin.take();
        let text =
            serde_json::to_string(job).map_err(|e| Error::failed(format!("cannot describe the job: {e}")))?;
        // A child that is gone already says why when it is waited for.
        let _ = pipe.as_mut().map(|pipe| writeln!(pipe, "{text}"));
        Ok(Self { child, pipe, lines, said, output: job.output.clone() })
    }

    /// Wait until the file is made. `done` hears the name of each tensor that is finished, and `None` now and then.
    pub(crate) fn wait(&mut self, done: &mut dyn FnMut(Option<&str>) -> ControlFlow<()>) -> Result<()> {
        let mut error = None;
        loop {
            let line = match self.lines.recv_timeout(TICK) {
                Ok(line) if line == DONE => return Ok(()),
                Ok(line) => Some(line),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return Err(error.unwrap_or_else(|| self.gone())),
            };
            error = error.or_else(|| line.as_deref().and_then(error_of));
            let tensor = line.as_deref().map(tensor_of);
            // A line about something else is no news.
            if tensor != Some(None) && done(tensor.flatten()).is_break() {
                return Err(Error::new(Kind::Interrupted, "interrupted; nothing was written"));
            }
        }
    }

    /// The child ended without an error of its own.
    fn gone(&mut self) -> Error {
        let status = self.child.wait().map_or_else(|e| e.to_string(), |status| status.to_string());
        let last_words = self.said.take().and_then(|said| said.join().ok()).unwrap_or_default();
        let said = last_words.lines().find_map(|line| line.strip_prefix("error: "));
        Error::failed(said.map_or_else(
            || format!("the quantizing process ended early ({status}); nothing was written"),
            str::to_owned,
        ))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Both fail only when it has ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
        drop(self.pipe.take());
        // Killed, it cannot remove what it made. What was renamed is not there any more.
        let _ = std::fs::remove_file(&self.output);
    }
}

fn lines(child: &mut Child) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    if let Some(out) = child.stdout.take() {
        thread::spawn(move || {
            for line in BufReader::new(out).split(b'\n').map_while(std::result::Result::ok) {
                if sender.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                    break;
                }
            }
        });
    }
    receiver
}

fn stderr(child: &mut Child) -> JoinHandle<String> {
    let err = child.stderr.take();
    thread::spawn(move || {
        let mut text = Vec::new();
        // What cannot be read is not said.
        let _ = err.map(|mut err| std::io::Read::read_to_end(&mut err, &mut text));
        String::from_utf8_lossy(&text).into_owned()
    })
}

/// `[  12/ 290] blk.0.attn_q.weight - [ 576, 576, 1, 1], type = f16, …` is about `blk.0.attn_q.weight`.
fn tensor_of(line: &str) -> Option<&str> {
    let (count, rest) = line.trim_start().strip_prefix('[')?.split_once("] ")?;
    let is_count = count.contains('/') && count.chars().all(|c| c.is_ascii_digit() || c == '/' || c == ' ');
    is_count.then(|| rest.split_whitespace().next()).flatten()
}

/// The error that the child says as `--json` does.
fn error_of(line: &str) -> Option<Error> {
    let value: serde_json::Value = serde_json::from_str(line).ok()?;
    let error = value.get("error")?;
    let text = |key: &str| error.get(key).and_then(|value| value.as_str()).map(str::to_owned);
    Some(Error { kind: Kind::Failed, message: text("message")?, hint: text("hint") })
}

/// Where the text that follows a key of the metadata stands in a file, and how long it is.
pub(crate) fn text_at(beginning: &[u8], key: &str) -> Option<(usize, usize)> {
    const STRING: [u8; 4] = 8_u32.to_le_bytes();
    let mut needle = (key.len() as u64).to_le_bytes().to_vec();
    needle.extend_from_slice(key.as_bytes());
    needle.extend_from_slice(&STRING);
    let at = beginning.windows(needle.len()).position(|window| window == needle)? + needle.len();
    let length = beginning.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes)?;
    Some((at + 8, usize::try_from(length).ok()?))
}

/// Write over a text of the metadata in place, which keeps its length.
pub(crate) fn overwrite(path: &Path, header: u64, key: &str, text: &str) -> Result<()> {
    let failed = |e: std::io::Error| Error::failed(format!("cannot write `{}`: {e}", path.display()));
    let mut file = std::fs::OpenOptions::new().read(true).write(true).open(path).map_err(failed)?;
    let mut beginning = Vec::new();
    std::io::Read::read_to_end(&mut std::io::Read::take(&mut file, header), &mut beginning)
        .map_err(failed)?;
    let (at, length) = text_at(&beginning, key)
        .ok_or_else(|| Error::failed(format!("`{}` has no `{key}`", path.display())))?;
    let mut bytes = text.as_bytes().to_vec();
    bytes.resize(length, b' ');
    std::io::Seek::seek(&mut file, std::io::SeekFrom::Start(at as u64)).map_err(failed)?;
    file.write_all(&bytes).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_tells_which_tensor_is_done() {
        for (line, name) in [
            (
                "[   1/ 272]                        token_embd.weight - [  576, 49152,     1,     1], type =    f16, size = 1",
                Some("token_embd.weight"),
            ),
            (
                "[ 272/ 272] output_norm.weight - [   576], type = f32, size = 0.002 MiB",
                Some("output_norm.weight"),
            ),
            ("llama_model_loader: - type  f32:   61 tensors", None),
            ("[GGUF] x", None),
            ("", None),
        ] {
            assert_eq!(tensor_of(line), name);
        }
    }

    #[test]
    fn a_text_of_the_metadata_is_found_behind_its_key() {
        use crate::model::gguf::tiny_gguf::{Tiny, Value};
        let bytes = Tiny::llama().set("infer.verdict", Value::Text("abc   ".into())).bytes();
        let (at, length) = text_at(&bytes, "infer.verdict").unwrap();
        assert_eq!((&bytes[at..at + length], length), (&b"abc   "[..], 6));
        assert_eq!(text_at(&bytes, "infer.other"), None);
    }
}
