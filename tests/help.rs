//! Generated text that is committed: the completions and the command reference of the README are what the program
//! says today. `INFER_UPDATE=1` (`make completions`) writes them instead.

use std::path::Path;

use crate::support::Infer;

/// What `infer completions` takes, and the file that each shell looks for.
const COMPLETIONS: [(&str, &str); 5] = [
    ("bash", "infer.bash"),
    ("zsh", "_infer"),
    ("fish", "infer.fish"),
    ("powershell", "_infer.ps1"),
    ("elvish", "infer.elv"),
];

/// The commands of the reference, in its order.
const COMMANDS: [&str; 15] = [
    "run",
    "chat",
    "pull",
    "list",
    "show",
    "fit",
    "bench",
    "tune",
    "rm",
    "quantize",
    "cache",
    "cache list",
    "cache clear",
    "doctor",
    "completions",
];

const BEGIN: &str = "<!-- reference:begin -->\n";
const END: &str = "<!-- reference:end -->\n";

#[test]
fn completions_are_up_to_date() {
    for (shell, file) in COMPLETIONS {
        settle(&format!("completions/{file}"), &output(&["completions", shell]));
    }
}

#[test]
fn reference_is_up_to_date() {
    let readme = read("README.md");
    let (before, rest) = readme.split_once(BEGIN).expect("the mark where the reference begins");
    let (_, after) = rest.split_once(END).expect("the mark where the reference ends");
    let section = |command: &str| {
        let help = output(&command.split(' ').chain(["--help"]).collect::<Vec<_>>());
        format!("\n### `infer {command}`\n\n```text\n{help}```\n")
    };
    let reference = COMMANDS.map(section).concat();
    settle("README.md", &format!("{before}{BEGIN}{reference}\n{END}{after}"));
}

/// What the program prints, ending in a newline.
fn output(args: &[&str]) -> String {
    Infer::new().args(args.iter().copied()).stdout_is(|text| text.ends_with('\n')).run().stdout
}

fn read(file: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap_or_default()
}

/// Compares a committed file with what it should be, or writes it.
#[track_caller]
fn settle(file: &str, expected: &str) {
    if std::env::var_os("INFER_UPDATE").is_some_and(|value| value == "1") {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(path, expected).expect("the file is written");
    } else {
        assert!(read(file) == expected, "{file} is out of date: type `make completions`");
    }
}
