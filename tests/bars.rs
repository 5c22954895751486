//! A download as it stands on a terminal: bars, countdowns, what is left in the end, and what Ctrl-C leaves.

use std::time::Duration;

use crate::support::hub::{Content, Fault, Hub, Place, Repo};
use crate::support::tiny_gguf::Tiny;
use crate::support::{Infer, Terminal, rows};

const LARGE: u64 = 16 << 20;

/// A hub with one file of 16.8 MB that stops sending after so many bytes.
fn hub(file: &str, after: u64) -> Hub {
    let hub = Hub::with(Repo::new("org/Large-GGUF").content(file, &Content::big_gguf(LARGE, 1)));
    hub.set(Fault::Hold { after });
    hub
}

fn pull(hub: &Hub) -> Infer {
    Infer::new().args(["pull", "org/Large-GGUF"]).env("HF_ENDPOINT", hub.endpoint())
}

/// Every number that stood before a `%`, in the order of its appearance.
fn percentages(screen: &str) -> Vec<u64> {
    let mut pieces: Vec<&str> = screen.split('%').collect();
    pieces.pop();
    let digits = pieces.iter().filter_map(|text| text.rsplit(|c: char| !c.is_ascii_digit()).next());
    digits.filter_map(|digits| digits.parse().ok()).collect()
}

/// Waits for a bar that is so far.
#[track_caller]
fn wait_for_share(terminal: &mut Terminal, share: u64) {
    loop {
        let before = terminal.wait_for("%");
        let digits = before.rsplit(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
        if digits.parse::<u64>().is_ok_and(|number| number >= share) {
            return;
        }
    }
}

#[test]
fn one_bar_that_never_goes_back_and_leaves_one_line() {
    let hub = hub("Large-Q8_0.gguf", LARGE / 2);
    let mut terminal = pull(&hub).terminal();
    wait_for_share(&mut terminal, 20);
    hub.release();
    let ran = terminal.finish();
    let shares = percentages(&ran.stdout);
    assert!(shares.is_sorted() && shares.first() < shares.last(), "{shares:?}");
    let screen = rows(&ran.stdout);
    assert_eq!(screen[0], "org/Large-GGUF:Q8_0 (16.8 MB)");
    assert!(screen[1].starts_with("license: apache-2.0 (http://"), "{screen:?}");
    assert!(screen[2].starts_with("Large-Q8_0.gguf: 16.8 MB in "), "{screen:?}");
    assert!(screen[2].ends_with(", SHA-256 verified"), "{screen:?}");
    let path = screen[3..].concat();
    assert!(path.ends_with("/Large-Q8_0.gguf") && !path.contains(['█', '░', '%']), "{screen:?}");
}

#[test]
fn a_split_model_has_a_bar_for_the_file_and_one_for_all() {
    let parts = Tiny::llama().split(3);
    let name = |n: usize| format!("m-Q8_0-0000{n}-of-00003.gguf");
    let repo = (1..=3).fold(Repo::new("org/Large-GGUF"), |repo, n| repo.file(&name(n), parts[n - 1].bytes()));
    let hub = Hub::with(repo);
    hub.set(Fault::Hold { after: 1000 });
    let mut terminal = pull(&hub).terminal();
    let file = terminal.wait_for("file 1 of 3");
    assert!(file.contains("m-Q8_0-00…f-00003.gguf  ░░░░░░░░░░    0%    "), "{file:?}");
    hub.release();
    let ran = terminal.finish();
    assert!(ran.stdout.contains("file 3 of 3"), "{:?}", ran.stdout);
    let screen = rows(&ran.stdout);
    assert!(screen[0].ends_with(" in 3 files)"), "{screen:?}");
    for n in 1..=3 {
        assert!(screen[n + 1].starts_with(&format!("{}: ", name(n))), "{screen:?}");
    }
    assert!(!screen.concat().contains(['█', '░', '%']), "{screen:?}");
}

#[test]
fn ctrl_c_says_what_is_kept_and_the_next_run_begins_there() {
    let hub = hub("Large-Q8_0.gguf", LARGE / 2);
    // Far less than what a silent connection is waited for.
    let mut terminal = pull(&hub).status(130).timeout(Duration::from_secs(20)).terminal();
    let home = terminal.home();
    wait_for_share(&mut terminal, 20);
    terminal.send("\x03");
    let screen = rows(&terminal.finish().stdout);
    let said = &screen[2];
    let kept = said.strip_prefix("interrupted: ").and_then(|said| said.split_once(" of 16.8 MB are kept; "));
    let (kept, rest) = kept.unwrap_or_else(|| panic!("{screen:?}"));
    assert_eq!(rest, "the same command goes on from there");
    assert_eq!(screen[3..], [""], "no trace of bar and ^C");
    let megabytes: f64 = kept.strip_suffix(" MB").and_then(|n| n.parse().ok()).expect("some megabytes");

    hub.clear_faults();
    hub.set(Fault::Hold { after: hub.cdn_bytes() + 1000 });
    let mut terminal = pull(&hub).home(&home).terminal();
    terminal.wait_for("%");
    hub.release();
    let ran = terminal.finish();
    let shares = percentages(&ran.stdout);
    let first = u32::try_from(shares[0]).map(f64::from).expect("a share");
    assert!((first - megabytes / 16.8 * 100.0).abs() < 2.0, "{kept} and then {shares:?}");
    assert!(shares.is_sorted(), "{shares:?}");
    assert!(rows(&ran.stdout)[0].ends_with(" of it missing)"), "{:?}", ran.stdout);
}

#[test]
fn a_wait_is_counted_down() {
    for (place, file) in [(Place::Api, false), (Place::Cdn, true)] {
        let hub = hub("Large-Q8_0.gguf", u64::MAX);
        hub.set(Fault::TooMany { retry_after: 2 }.at(place).times(1));
        let mut terminal = pull(&hub).terminal();
        let before = terminal.wait_for("; again in ");
        assert_eq!(before.contains("Large-Q8_0.gguf"), file, "{before:?}");
        assert!(rows(&terminal.finish().stdout).concat().contains(", SHA-256 verified"));
    }
}

#[test]
fn a_long_name_does_not_break_the_line() {
    let name = format!("{}-Q8_0.gguf", "Large".repeat(30));
    let hub = hub(&name, LARGE / 2);
    let mut terminal = pull(&hub).terminal();
    wait_for_share(&mut terminal, 20);
    let screen = terminal.screen();
    let bars: Vec<&str> = screen.split(['\r', '\n']).filter(|line| line.contains('%')).collect();
    assert!(!bars.is_empty() && bars.iter().all(|bar| bar.chars().count() <= 77), "{bars:?}");
    assert!(bars[0].starts_with("Large") && bars[0].contains("e-Q8_0.gguf  "), "{bars:?}");
    hub.release();
    let screen = rows(&terminal.finish().stdout);
    assert!(!screen.concat().contains(['█', '░', '%']), "{screen:?}");
}

#[test]
fn bars_are_for_terminals_that_can_draw_and_people_who_want_them() {
    let bars = |terminal: Terminal| terminal.finish().stdout.contains('%');
    let all = |arg: &str, name: &str, value: &str| {
        let hub = hub("Large-Q8_0.gguf", u64::MAX);
        let infer = pull(&hub).env(name, value);
        bars(if arg.is_empty() { infer.terminal() } else { infer.arg(arg).terminal() })
    };
    assert!(all("", "A", "b") && all("", "NO_COLOR", "1"));
    assert!(!all("-q", "A", "b") && !all("-v", "A", "b") && !all("--json", "A", "b"));
    assert!(!all("", "TERM", "dumb"));
    for (value, coloured) in [("", true), ("1", false)] {
        let hub = hub("Large-Q8_0.gguf", LARGE / 2);
        let mut terminal = pull(&hub).env("NO_COLOR", value).terminal();
        wait_for_share(&mut terminal, 20);
        hub.release();
        assert_eq!(terminal.finish().stdout.contains("\u{1b}[36m"), coloured);
    }
    // The path is for whoever reads stdout; the bar stays on the screen.
    let hub = hub("Large-Q8_0.gguf", u64::MAX);
    let ran = pull(&hub).redirect("> out.txt").terminal().finish();
    let path = std::fs::read_to_string(ran.home.path().join("out.txt")).expect("the file");
    assert!(ran.stdout.contains('%') && path.ends_with("/Large-Q8_0.gguf\n"), "{path}");
}
