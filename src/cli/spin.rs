//! Threads that wait for each other a short while, not a long one.
//!
//! Between two steps of a model the threads of OpenMP wait for the last of them in a loop. GNU's library does so for
//! about a millisecond before it sleeps, and as long as another program wants the same cores, that other program is
//! what keeps the last thread from running: decoding was seen to fall to a thirtieth. A shorter wait costs a few
//! percent at most where the cores are free. The library reads its environment before `main` begins, so the way to
//! tell it is to start this program once more.

/// Rounds of the loop; the library's own number is 300,000.
const ROUNDS: &str = "1000";

/// Start again with a shorter wait, unless the person has said how threads shall wait. Where that is not possible
/// everything works as it is.
#[cfg(target_os = "linux")]
pub(super) fn shorten(argv: &[std::ffi::OsString]) {
    use std::os::unix::process::CommandExt;

    let said = ["GOMP_SPINCOUNT", "OMP_WAIT_POLICY"].iter().any(|name| std::env::var_os(name).is_some());
    let (false, Ok(program), Some(name)) = (said, std::env::current_exe(), argv.first()) else { return };
    // It only comes back when it failed.
    let _ =
        std::process::Command::new(program).arg0(name).args(&argv[1..]).env("GOMP_SPINCOUNT", ROUNDS).exec();
}

/// Elsewhere OpenMP is another library.
#[cfg(not(target_os = "linux"))]
pub(super) fn shorten(_: &[std::ffi::OsString]) {}
