//! A signal that would end the process where a call can say what is wrong.
#![expect(unsafe_code, reason = "std offers no way to ignore a signal")]

/// Let a write beyond the limit of a file's size (`ulimit -f`) fail, as one to a full disk does. Without this the system
/// ends the process there.
pub(crate) fn outlive_the_limit_of_files() {
    // SAFETY: ignoring a signal runs no code of ours; it can only fail for a signal that there is not.
    let _ = unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}
