//! Leaving in the middle of a computation.
#![expect(unsafe_code, reason = "std offers no way out that skips the destructors of C++")]

use std::ffi::c_int;

unsafe extern "C" {
    // SAFETY: it takes a number, touches nothing and never returns; C on Unix and on Windows has it.
    safe fn _exit(status: c_int) -> !;
}

/// End the process at once. `std::process::exit` runs llama.cpp's static destructors, and its threads, which may
/// still be computing, then crash on what is gone.
pub(crate) fn leave(code: u8) -> ! {
    _exit(c_int::from(code))
}
