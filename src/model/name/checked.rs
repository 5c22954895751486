//! Parts of a name that end up in URLs and in paths: checked once, here, whoever they come from.

use std::fmt::{self, Display, Formatter};

use crate::error::{Error, Result};
use crate::human::{Escaped, is_harmful};

/// A repository: `org/name`. The hub ignores the letter case and answers with its own.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RepoId(String);

/// A branch, a tag, a ref or a commit.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Revision(String);

/// The path of a file in a repository that is safe to lay below a folder of ours, on any system.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RepoPath(String);

/// The longest part of a repository's name.
const LONGEST: usize = 96;

impl RepoId {
    pub(crate) fn parse(text: &str) -> Result<Self> {
        match text.split_once('/') {
            Some((org, name)) if is_name(org) && is_name(name) => Ok(Self(text.to_owned())),
            _ => Err(Error::usage(format!("`{}` is not the name of a repository", Escaped(text)))
                .hint("a repository is `org/name`, of letters, digits, `-`, `_` and `.`")),
        }
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn org(&self) -> &str {
        self.0.split_once('/').map_or("", |(org, _)| org)
    }

    pub(crate) fn name(&self) -> &str {
        self.0.split_once('/').map_or("", |(_, name)| name)
    }

    /// The same repository in the eyes of the hub?
    pub(crate) fn same_as(&self, other: &Self) -> bool {
        self.0.eq_ignore_ascii_case(&other.0)
    }
}

/// The hub itself has no name with `--` or `..`; the cache puts `--` between org and name.
fn is_name(text: &str) -> bool {
    text.len() <= LONGEST
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
        && !text.contains("..")
        && !text.contains("--")
}

impl Revision {
    pub(crate) fn parse(text: impl AsRef<str>) -> Result<Self> {
        let text = text.as_ref();
        let known = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b'/');
        // It names a file below `refs/`, so it has to be a path that stays there.
        if text.bytes().all(known) && !text.contains("..") && RepoPath::parse(text).is_some() {
            return Ok(Self(text.to_owned()));
        }
        Err(Error::usage(format!("`{}` is not a revision", Escaped(text)))
            .hint("a revision is a branch, a tag or a commit: `org/repo@main`"))
    }

    /// Where the hub's newest files are.
    pub(crate) fn main() -> Self {
        Self("main".to_owned())
    }

    /// A commit never changes what it names.
    pub(crate) fn is_commit(&self) -> bool {
        is_commit(&self.0)
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl RepoPath {
    /// Relative, with `/` between parts, each of them an ordinary name on Linux, macOS and Windows.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        text.split('/').all(is_part).then(|| Self(text.to_owned()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// Windows drops dots and spaces at the end of a name, so `.. ` would be `..`, and gives a colon meanings of its own.
fn is_part(part: &str) -> bool {
    !part.is_empty()
        && !part.contains(['\\', ':'])
        && !part.contains(is_harmful)
        && !part.ends_with(['.', ' '])
        && !is_device(part)
}

/// Names that are devices on Windows, with any ending.
fn is_device(part: &str) -> bool {
    const NAMES: [&str; 6] = ["CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$"];
    let stem = part.split('.').next().unwrap_or_default().trim_end().to_ascii_uppercase();
    let numbered = stem.strip_prefix("COM").or_else(|| stem.strip_prefix("LPT"));
    let is_port = |number: &str| {
        let mut chars = number.chars();
        matches!((chars.next(), chars.next()), (Some('0'..='9' | '¹' | '²' | '³'), None))
    };
    NAMES.contains(&stem.as_str()) || numbered.is_some_and(is_port)
}

/// The full name of a commit: 40 lower-case hex digits.
pub(crate) fn is_commit(text: &str) -> bool {
    is_lower_hex(text, 40)
}

/// A sha256: 64 lower-case hex digits.
pub(crate) fn is_sha256(text: &str) -> bool {
    is_lower_hex(text, 64)
}

fn is_lower_hex(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

impl Display for RepoId {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl Display for Revision {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl Display for RepoPath {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;

    #[test]
    fn repositories() {
        for good in ["a/b", "Qwen/Qwen3-8B-GGUF", "0x/1.5_b-c", "a/b.gguf", "a.b/c"] {
            let id = RepoId::parse(good).unwrap();
            assert_eq!((id.to_string(), format!("{}/{}", id.org(), id.name())), (good.into(), good.into()));
        }
        let long = format!("a/{}", "x".repeat(97));
        for bad in [
            "",
            "a",
            "a/",
            "/b",
            "a/b/c",
            "-a/b",
            "a/.b",
            "a/b..c",
            "../b",
            "a/..",
            "a b/c",
            "a/b\u{1b}",
            "é/b",
            "a/b--c",
            "a/b:c",
            "a\\b",
            &long,
        ] {
            let error = RepoId::parse(bad).unwrap_err();
            assert_eq!(error.kind, Kind::Usage, "{bad}");
            assert!(!error.message.contains('\u{1b}'));
        }
        RepoId::parse(&long[..98]).unwrap();
    }

    #[test]
    fn repositories_are_the_same_in_any_letter_case() {
        let [a, b, c] = ["Qwen/Qwen3", "qwen/QWEN3", "qwen/qwen2"].map(|id| RepoId::parse(id).unwrap());
        assert!(a.same_as(&b) && !a.same_as(&c));
        assert_ne!(a, b);
    }

    #[test]
    fn revisions() {
        for good in ["main", "refs/pr/1", "v1.0_a-b", "feature/x", "0123456789abcdef0123456789abcdef01234567"]
        {
            assert_eq!(Revision::parse(good).unwrap().to_string(), good);
        }
        for bad in [
            "", "..", "a/../b", "../../x", "/abs", "a/", "a//b", "a/./b", "a..b", "a b", "a:b", "a\\b", "é",
            "nul",
        ] {
            assert_eq!(Revision::parse(bad).unwrap_err().kind, Kind::Usage, "{bad}");
        }
        assert!(Revision::parse("0123456789abcdef0123456789abcdef01234567").unwrap().is_commit());
        assert!(!Revision::parse("0123456789ABCDEF0123456789abcdef01234567").unwrap().is_commit());
    }

    #[test]
    fn paths_that_stay_in_their_folder_on_every_system() {
        for good in [
            "a.gguf",
            "a/b/c.gguf",
            "Q4_K_M/a b.gguf",
            "é/你.gguf",
            ".gitattributes",
            "a..b",
            "console",
            "com10",
            "nul-1",
        ] {
            assert_eq!(RepoPath::parse(good).unwrap().as_str(), good);
        }
        for bad in [
            "",
            "/",
            "/abs",
            "a/",
            "a//b",
            ".",
            "..",
            "../x",
            "../../x",
            "a/../b",
            "a/./b",
            "a\\b",
            "..\\x",
            "C:\\x",
            "C:/x",
            "C:x",
            "\\\\host\\x",
            "//host/x",
            "a:stream",
            "a\x1b[31m",
            "a\nb",
            "a\0",
            "a\u{202e}b",
            "a.",
            "a ",
            ".. /x",
            "... ",
            "con",
            "NUL",
            "a/aux.gguf",
            "Com1.gguf",
            "lpt¹",
            "conout$",
            "nul .gguf",
            "COM0",
        ] {
            assert_eq!(RepoPath::parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn hashes() {
        assert!(is_commit(&"0a".repeat(20)) && is_sha256(&"0a".repeat(32)));
        for bad in [
            "",
            &"0A".repeat(20),
            &"0g".repeat(20),
            &"0a".repeat(19),
            "../../../../../../../../../../../evil12",
        ] {
            assert!(!is_commit(bad) && !is_sha256(bad), "{bad}");
        }
    }
}
