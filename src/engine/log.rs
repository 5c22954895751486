//! What llama.cpp says: its log, captured, and its last words before it gives up.
#![expect(unsafe_code, reason = "callbacks that llama.cpp calls")]

use std::cell::RefCell;
use std::ffi::{CStr, c_char, c_void};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use llama_cpp_sys_2 as sys;

use crate::error::{Error, Kind};

/// Takes each line of the log as it comes.
pub(crate) type Sink = Box<dyn Fn(&str) + Send>;

/// Says the last words of a process that llama.cpp is about to abort.
pub(crate) type LastWords = fn(&str) -> !;

struct Log {
    partial: String,
    partial_is_error: bool,
    sink: Option<Sink>,
    last_words: Option<LastWords>,
}

thread_local! {
    /// The first line that was logged as an error, on the thread whose call went wrong.
    static FIRST_ERROR: RefCell<Option<String>> = const { RefCell::new(None) };
}

static LOG: Mutex<Log> =
    Mutex::new(Log { partial: String::new(), partial_is_error: false, sink: None, last_words: None });

fn lock() -> MutexGuard<'static, Log> {
    LOG.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Start the backend once per process, with its log captured.
pub(super) fn init() {
    static START: Once = Once::new();
    START.call_once(|| {
        install();
        // It can only fail by having been called before, and the `Once` excludes that. Dropping it would free the
        // backends, which have to live as long as the process.
        std::mem::forget(llama_cpp_2::llama_backend::LlamaBackend::init());
    });
}

/// Point llama.cpp's log and abort callbacks here.
pub(super) fn install() {
    // SAFETY: both callbacks are static functions that need no data.
    unsafe {
        sys::llama_log_set(Some(on_log), std::ptr::null_mut());
        sys::ggml_set_abort_callback(Some(on_abort));
    }
}

/// Also hand every line to `sink`, and let `last_words` end the process when llama.cpp would abort it.
pub(crate) fn listen(sink: Option<Sink>, last_words: LastWords) {
    let mut log = lock();
    log.sink = sink;
    log.last_words = Some(last_words);
}

/// Forget earlier errors, so that [`first_error`] speaks of the call that follows.
pub(super) fn forget() {
    FIRST_ERROR.set(None);
}

/// An error with the first line that llama.cpp logged as one: the cause stands only there.
pub(super) fn failure(what: &str) -> Error {
    match first_error() {
        Some(cause) => {
            let memory = ["insufficient memory", "failed to allocate", "out of memory"];
            let kind =
                if memory.iter().any(|sign| cause.contains(sign)) { Kind::TooBig } else { Kind::Failed };
            Error::new(kind, format!("{what}: {cause}"))
        }
        None => Error::failed(what.to_owned()),
    }
}

/// The first error since [`forget`], which is the cause, in one line without the function's name.
pub(super) fn first_error() -> Option<String> {
    FIRST_ERROR.with_borrow(|line| line.as_deref().map(cause))
}

/// `llama_model_load: error loading model: x` says `x`.
fn cause(line: &str) -> String {
    let mut rest = line.trim();
    while let Some((head, tail)) = rest.split_once(": ") {
        let is_function = !head.contains(' ') && head.contains('_');
        if !is_function && head != "error loading model" {
            break;
        }
        rest = tail;
    }
    rest.to_owned()
}

/// What llama.cpp says on this thread while `act` runs.
#[cfg(test)]
pub(crate) fn lines_of(act: impl FnOnce()) -> Vec<String> {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (sender, lines) = std::sync::mpsc::channel();
    let here = std::thread::current().id();
    lock().sink = Some(Box::new(move |line| {
        if std::thread::current().id() == here {
            sender.send(line.to_owned()).unwrap();
        }
    }));
    act();
    lock().sink = None;
    lines.iter().collect()
}

unsafe extern "C" fn on_log(level: sys::ggml_log_level, text: *const c_char, _: *mut c_void) {
    if text.is_null() {
        return;
    }
    // SAFETY: llama.cpp passes a null-terminated string.
    let text = unsafe { CStr::from_ptr(text) }.to_string_lossy();
    let mut log = lock();
    if level != sys::GGML_LOG_LEVEL_CONT {
        log.partial_is_error = level == sys::GGML_LOG_LEVEL_ERROR;
    }
    log.partial.push_str(&text);
    while let Some(end) = log.partial.find('\n') {
        let line: String = log.partial.drain(..=end).collect();
        let line = line.trim_end();
        if let Some(sink) = &log.sink {
            sink(line);
        }
        if log.partial_is_error {
            // A thread that ends may have let go of its error before llama.cpp's last word.
            let _ = FIRST_ERROR.try_with(|first| {
                first.borrow_mut().get_or_insert_with(|| line.to_owned());
            });
        }
    }
}

unsafe extern "C" fn on_abort(message: *const c_char) {
    let message = if message.is_null() {
        std::borrow::Cow::Borrowed("no reason given")
    } else {
        // SAFETY: ggml passes a null-terminated string.
        unsafe { CStr::from_ptr(message) }.to_string_lossy()
    };
    let last_words = lock().last_words;
    if let Some(last_words) = last_words {
        last_words(&message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cause_is_what_stands_behind_the_names() {
        for (line, expected) in [
            (
                "llama_model_load: error loading model: unknown model architecture: 'x'\n",
                "unknown model architecture: 'x'",
            ),
            ("gguf_init_from_file_impl: failed to read magic", "failed to read magic"),
            ("plain words: stay", "plain words: stay"),
        ] {
            assert_eq!(cause(line), expected);
        }
    }
}
