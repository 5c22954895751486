//! Disks that are full or cannot be written. Linux lets a test mount a small one of its own; elsewhere there is nothing
//! to be shown here.

#![cfg(target_os = "linux")]

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::{MIB, REPO, hub, pull};
use crate::support::hub::{Fault, Hub, Server};

/// Runs a script in a mount namespace of its own, with `pull` as a command for the program and a disk of `size` as the
/// cache.
fn on_a_disk(home: &Path, hub: &Hub, size: &str, script: &str) -> Output {
    let script = format!(
        "mkdir cache && mount -t tmpfs -o size={size} none cache || exit 99\n\
         pull() {{ \"$INFER\" pull {REPO} --connections 1; }}\n{script}"
    );
    Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", &script])
        .current_dir(home)
        .env_clear()
        .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
        .env("HOME", home)
        .env("HF_HUB_CACHE", home.join("cache"))
        .env("HF_ENDPOINT", hub.endpoint())
        .env("INFER", env!("CARGO_BIN_EXE_infer"))
        .output()
        .expect("unshare of util-linux")
}

/// Whether this system lets a test mount anything; some containers do not.
fn may_mount() -> bool {
    let home = TempDir::new().expect("a temporary folder");
    let may = on_a_disk(home.path(), &Hub::new(), "1m", "exit 0").status.success();
    if !may {
        // A test that shows nothing says so.
        let _ = writeln!(std::io::stderr(), "skipped: this system lets no test mount a disk");
    }
    may
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_disk_too_small_is_not_written_to() {
    if !may_mount() {
        return;
    }
    let (hub, home) = (hub(), TempDir::new().expect("a temporary folder"));
    // The model would fit, but not with the room that is left to others.
    let ran = on_a_disk(home.path(), &hub, "70m", "pull; code=$?; find cache -type f >&2; exit $code");
    let err = text(&ran.stderr);
    assert_eq!(ran.status.code(), Some(5), "{err}");
    let needed =
        format!("error: 73.4 MB more are needed, 73.4 MB are free in `{}/cache`\n", home.path().display());
    assert!(err.contains(&needed), "{err}");
    assert!(err.contains("\nhint: `infer list` shows what could go, `infer rm MODEL` removes it\n"), "{err}");
    assert!(!err.contains(".infer-part"), "{err}");
    assert_eq!(hub.asked(Server::Cdn), 0);
}

#[test]
fn a_disk_that_fills_up_keeps_what_came() {
    if !may_mount() {
        return;
    }
    let (hub, home) = (hub(), TempDir::new().expect("a temporary folder"));
    hub.set(Fault::Hold { after: 4 * MIB + 5 });
    // Somebody else fills the disk when four blocks are there; then it has room again.
    let script = "
        pull 2>first.txt & first=$!
        until [ \"$(cat cache/*/blobs/*.json 2>/dev/null | wc -l)\" = 5 ]; do sleep 0.05; done
        cat /dev/zero >cache/filler 2>/dev/null
        touch full
        wait $first; echo $? >code.txt
        rm cache/filler
        pull 2>second.txt";
    let ran = thread::scope(|scope| {
        let ran = scope.spawn(|| on_a_disk(home.path(), &hub, "100m", script));
        let deadline = Instant::now() + Duration::from_secs(60);
        while !home.path().join("full").exists() && !ran.is_finished() {
            assert!(Instant::now() < deadline, "the disk was never full");
            thread::sleep(Duration::from_millis(10));
        }
        hub.release();
        ran.join().expect("the script")
    });
    let said = |file| std::fs::read_to_string(home.path().join(file)).expect("what was said");
    let (first, second) = (said("first.txt"), said("second.txt"));
    assert_eq!(said("code.txt"), "5\n", "{first}");
    let error = "error: the disk is full, 4.2 MB of 6.3 MB are kept\n\
                 hint: free some space (`infer list` shows what is there), then `infer pull org/name/m-Q4_K_M.gguf` goes on\n";
    assert!(first.ends_with(error), "{first}");
    assert!(ran.status.success(), "{second}");
    assert!(second.contains(", 4.2 MB of them here already\n"), "{second}");
}

#[test]
fn a_cache_that_cannot_be_written_is_said_before_a_byte_is_fetched() {
    if !may_mount() {
        return;
    }
    let (hub, home) = (hub(), TempDir::new().expect("a temporary folder"));
    let ran = on_a_disk(home.path(), &hub, "100m", "mount -o remount,ro cache; pull");
    let err = text(&ran.stderr);
    assert_eq!(ran.status.code(), Some(1), "{err}");
    let cache = home.path().join("cache");
    let error = format!(
        "error: cannot write into `{}`: Read-only file system (os error 30)\n\
         hint: set HF_HUB_CACHE to a folder that can be written\n",
        cache.display()
    );
    assert!(err.ends_with(&error), "{err}");
    assert_eq!(hub.asked(Server::Cdn), 0);
}

#[test]
fn a_cache_that_is_a_file_is_said_so() {
    let hub = hub();
    pull(&hub, &[REPO, "-q"])
        .file("not-a-folder", "")
        .env("HF_HUB_CACHE", "not-a-folder/hub")
        .status(1)
        .stderr("error: cannot create `{home}/not-a-folder/hub`: Not a directory (os error 20)\n")
        .run();
    assert_eq!(hub.asked(Server::Cdn), 0);
}
