//! Threads that wait for each other a short while where others want the cores too.
//!
//! Between two steps of a model the threads of OpenMP wait for the last of them in a loop. GNU's library does so for
//! milliseconds before it sleeps, and where another program wants the same cores, that waiting is what keeps the last
//! thread from running: decoding was seen to fall to a thirtieth. A shorter wait costs some percent where the cores
//! are free, so it is asked for only where they are not. The library reads its environment before `main` begins: the
//! way to tell it is to start this program once more.

/// Rounds of the loop; the library's own number is 300,000.
#[cfg(target_os = "linux")]
const ROUNDS: &str = "1000";

/// Start again with a shorter wait, unless the machine is idle or the person has said how threads shall wait. Where
/// that is not possible everything works as it is.
#[cfg(target_os = "linux")]
pub(super) fn shorten_if_busy(argv: &[std::ffi::OsString]) {
    use std::os::unix::process::CommandExt;

    let said = ["GOMP_SPINCOUNT", "OMP_WAIT_POLICY"].iter().any(|name| std::env::var_os(name).is_some());
    if said || !others_run() {
        return;
    }
    let (Ok(program), Some(name)) = (std::env::current_exe(), argv.first()) else { return };
    // It only comes back when it failed.
    let _ =
        std::process::Command::new(program).arg0(name).args(&argv[1..]).env("GOMP_SPINCOUNT", ROUNDS).exec();
}

/// Do others want the cores, for longer than a moment? Whoever started this program runs for one, which is not meant.
#[cfg(target_os = "linux")]
pub(super) fn others_run() -> bool {
    [0, 1, 2].into_iter().all(|moment: u64| {
        std::thread::sleep(std::time::Duration::from_millis(moment));
        is_busy(&std::fs::read_to_string("/proc/stat").unwrap_or_default())
    })
}

/// Does anybody else run at this moment, by the kernel's `/proc/stat`?
#[cfg(target_os = "linux")]
fn is_busy(stat: &str) -> bool {
    let running = stat.lines().find_map(|line| line.strip_prefix("procs_running ")?.trim().parse().ok());
    running.is_some_and(|running: u32| running > 1)
}

/// Elsewhere nobody knows.
#[cfg(not(target_os = "linux"))]
pub(super) fn others_run() -> bool {
    false
}

/// Elsewhere OpenMP is another library.
#[cfg(not(target_os = "linux"))]
pub(super) fn shorten_if_busy(_: &[std::ffi::OsString]) {}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_busy_where_more_than_this_process_runs() {
        for (stat, expected) in [
            ("cpu  1 2 3\nprocs_running 1\nprocs_blocked 0\n", false),
            ("cpu  1 2 3\nprocs_running 3\n", true),
            ("", false),
            ("procs_running x\n", false),
        ] {
            assert_eq!(is_busy(stat), expected, "{stat:?}");
        }
    }
}
