//! What a person can type for MODEL: an alias, a repository of the hub or a file in it, a URL, a path.
//!
//! Nothing here asks the network or a registry: a name is only taken apart and checked. What it is, it stays when it is
//! printed and read again.

use std::fmt::{self, Display, Formatter};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::human::{Escaped, is_harmful};

mod checked;

pub(crate) use checked::is_commit;
pub(crate) use checked::{RepoId, RepoPath, Revision, is_sha256};

/// Besides the endpoint, the hosts that serve the same names.
const HUB_HOSTS: [&str; 3] = ["huggingface.co", "hf.co", "www.huggingface.co"];

const FORMS: &str =
    "give `org/repo`, `org/repo:Q4_K_M`, `org/repo/file.gguf`, an alias or the path of a file";

/// A model, as it was named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ModelRef {
    /// The model inside the program.
    Demo,
    /// A file on this disk, there or not.
    Path(PathBuf),
    /// A word of the registry.
    Alias(Alias),
    /// A repository of the hub.
    Hub(HubRef),
}

/// A short name, in lower case. `qwen3:8b` is one as a whole; only the registry knows whether `8b` is a quant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Alias {
    pub(crate) name: String,
    /// What follows the last colon.
    pub(crate) quant: Option<String>,
}

/// A model in a repository of the hub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HubRef {
    pub(crate) repo: RepoId,
    pub(crate) revision: Option<Revision>,
    pub(crate) pick: Pick,
}

/// Which of a repository's files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Pick {
    /// Whatever is the usual choice.
    Default,
    /// A quant such as `Q4_K_M`, or the name of a file without its folder.
    Quant(String),
    /// The path of a file in the repository; it ends in `.gguf`.
    File(String),
}

impl ModelRef {
    /// Take a name apart. `endpoint` is the URL of the hub, `is_file` tells what lies on this disk.
    pub(crate) fn parse(text: &str, endpoint: &str, is_file: &dyn Fn(&Path) -> bool) -> Result<Self> {
        if text.is_empty() {
            return Err(Error::usage("the name of the model is empty").hint(FORMS));
        }
        if text == "-" {
            return Err(Error::usage("`-` names no model, standard input is part of the prompt")
                .hint("name the model first: `infer run demo < prompt.txt`"));
        }
        if text.eq_ignore_ascii_case("demo") {
            return Ok(Self::Demo);
        }
        if looks_local(text) || ((text.contains('/') || is_gguf(text)) && is_file(Path::new(text))) {
            return Ok(Self::Path(text.into()));
        }
        if let Some(rest) = strip_prefix(text, "hf:") {
            return HubRef::parse(rest.strip_prefix("//").unwrap_or(rest)).map(Self::Hub);
        }
        if let Some(rest) = after_host(text, endpoint) {
            return HubRef::from_url(text, rest).map(Self::Hub);
        }
        if text.contains("://") {
            return Err(foreign_url(text, endpoint));
        }
        if !text.contains('/') {
            return if is_gguf(text) {
                Ok(Self::Path(text.into()))
            } else {
                Alias::parse(text).map(Self::Alias)
            };
        }
        // A file that is not there: with one folder it could be nothing else, with more it may be a file of the hub.
        if is_gguf(text) && text.matches('/').count() == 1 && !text.contains(':') {
            return Ok(Self::Path(text.into()));
        }
        match HubRef::parse(text) {
            Err(_) if is_gguf(text) => Ok(Self::Path(text.into())),
            hub => hub.map(Self::Hub),
        }
    }
}

impl Display for ModelRef {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Demo => f.write_str("demo"),
            Self::Path(path) => path.display().fmt(f),
            Self::Alias(alias) => alias.fmt(f),
            Self::Hub(hub) => hub.fmt(f),
        }
    }
}

impl Alias {
    fn parse(text: &str) -> Result<Self> {
        if let Some((alias, revision)) = text.split_once('@') {
            let message = format!("the alias `{}` takes no revision", Escaped(alias));
            return Err(
                Error::usage(message).hint(format!("give the repository: `org/repo@{}`", Escaped(revision)))
            );
        }
        let lower = text.to_lowercase();
        let (name, quant) = match lower.rsplit_once(':') {
            Some((name, quant)) => (name, Some(quant)),
            None => (lower.as_str(), None),
        };
        if name.is_empty() || quant == Some("") {
            let message = format!("`{}` lacks a word beside its colon", Escaped(text));
            return Err(Error::usage(message).hint("an alias is `qwen3`, `qwen3:8b` or `qwen3:8b:q8_0`"));
        }
        Ok(Self { name: name.to_owned(), quant: quant.map(str::to_owned) })
    }
}

impl Display for Alias {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        self.quant.as_ref().map_or(Ok(()), |quant| write!(f, ":{quant}"))
    }
}

impl HubRef {
    /// `org/repo[/path.gguf][:quant][@revision]`, also `org/repo@revision:quant` and `org/repo@revision/path.gguf`.
    fn parse(text: &str) -> Result<Self> {
        let (name, revision, tag) = split(text)?;
        if tag == Some("") || revision.as_deref() == Some("") {
            return Err(no_model(text));
        }
        let mut parts = name.splitn(3, '/');
        let (Some(org), Some(repo), file) = (parts.next(), parts.next(), parts.next()) else {
            return Err(no_model(text));
        };
        let repo = RepoId::parse(&format!("{org}/{repo}"))?;
        let revision = revision.map(Revision::parse).transpose()?;
        let pick = match (file, tag) {
            (None, None) => Pick::Default,
            (None, Some(tag)) => Pick::Quant(checked_tag(tag)?),
            (Some(file), None) => Pick::File(checked_file(&repo, file)?),
            (Some(_), Some(_)) => {
                let message = format!("`{}` names both a file and a quant", Escaped(text));
                return Err(Error::usage(message).hint(FORMS));
            }
        };
        Ok(Self { repo, revision, pick })
    }

    /// What follows the host in a URL, as the hub's pages have them.
    fn from_url(text: &str, rest: &str) -> Result<Self> {
        let rest = rest.split(['?', '#']).next().unwrap_or_default().trim_matches('/');
        let Some(parts) = rest.split('/').map(percent_decoded).collect::<Option<Vec<_>>>() else {
            let message = format!("`{}` has an escape that is no text", Escaped(text));
            return Err(Error::usage(message).hint(FORMS));
        };
        if parts.len() < 2 || matches!(parts[0].as_str(), "datasets" | "spaces") {
            return Err(no_model(text));
        }
        let (is_tree, tail) = match parts.get(2..).and_then(<[String]>::split_first) {
            Some((word, tail)) if matches!(word.as_str(), "blob" | "resolve" | "raw") => (false, tail),
            Some((word, tail)) if word == "tree" => (true, tail),
            _ => return Self::parse(&parts.join("/")),
        };
        let repo = RepoId::parse(&parts[..2].join("/"))?;
        let Some((revision, path)) = split_revision(tail) else { return Err(no_model(text)) };
        let revision = Some(Revision::parse(&revision)?);
        let pick = match path {
            [] if is_tree => Pick::Default,
            [] => return Err(no_model(text)),
            // Folders of a repository are named for the quant in them.
            [.., folder] if is_tree => Pick::Quant(checked_tag(folder)?),
            path => Pick::File(checked_file(&repo, &path.join("/"))?),
        };
        Ok(Self { repo, revision, pick })
    }
}

impl Display for HubRef {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let plain = self.pick == Pick::Default && self.revision.is_none();
        if plain && is_gguf(self.repo.name()) {
            f.write_str("hf:")?; // else it would be read as a path
        }
        self.repo.fmt(f)?;
        match &self.pick {
            Pick::Default => {}
            Pick::Quant(quant) => write!(f, ":{quant}")?,
            Pick::File(path) => write!(f, "/{path}")?,
        }
        self.revision.as_ref().map_or(Ok(()), |revision| write!(f, "@{revision}"))
    }
}

/// Whether it can only be a path, there or not.
fn looks_local(text: &str) -> bool {
    let drive = matches!(text.as_bytes(), [letter, b':', b'/', ..] if letter.is_ascii_alphabetic());
    drive || text.starts_with(['.', '/', '~']) || text.contains('\\')
}

pub(super) fn is_gguf(text: &str) -> bool {
    text.len() > 5 && text.get(text.len() - 5..).is_some_and(|end| end.eq_ignore_ascii_case(".gguf"))
}

/// Strip a prefix in any letter case.
fn strip_prefix<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    let (start, rest) = text.split_at_checked(prefix.len())?;
    start.eq_ignore_ascii_case(prefix).then_some(rest)
}

fn without_scheme(url: &str) -> &str {
    strip_prefix(url, "https://").or_else(|| strip_prefix(url, "http://")).unwrap_or(url)
}

/// What follows the hub's host, with or without a scheme before it.
fn after_host<'a>(text: &'a str, endpoint: &str) -> Option<&'a str> {
    let text = without_scheme(text);
    let endpoint = without_scheme(endpoint).trim_end_matches('/');
    [endpoint].into_iter().filter(|host| !host.is_empty()).chain(HUB_HOSTS).find_map(|host| {
        strip_prefix(text, host).filter(|rest| rest.is_empty() || rest.starts_with(['/', '?', '#']))
    })
}

/// (`org/repo[/path]`, revision, tag)
fn split(text: &str) -> Result<(String, Option<String>, Option<&str>)> {
    let Some((left, right)) = text.rsplit_once('@') else {
        let (name, tag) = split_tag(text);
        return Ok((name.to_owned(), None, tag));
    };
    if is_gguf(right) && !right.contains(':') {
        let parts: Vec<String> = right.split('/').map(str::to_owned).collect();
        return Ok(match split_revision(&parts) {
            Some((revision, path)) if left.matches('/').count() == 1 && !path.is_empty() => {
                (format!("{left}/{}", path.join("/")), Some(revision), None)
            }
            _ => (text.to_owned(), None, None), // the `@` is part of the file's name
        });
    }
    let (name, before) = split_tag(left);
    let (revision, after) = match right.split_once(':') {
        Some((revision, tag)) => (revision, Some(tag)),
        None => (right, None),
    };
    if before.is_some() && after.is_some() {
        return Err(Error::usage(format!("`{}` names two quants", Escaped(text))).hint(FORMS));
    }
    Ok((name.to_owned(), Some(revision.to_owned()), before.or(after)))
}

/// The tag is what follows the last colon behind the last slash.
fn split_tag(text: &str) -> (&str, Option<&str>) {
    match text.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => (name, Some(tag)),
        _ => (text, None),
    }
}

/// A revision and the path behind it. Only the hub's own refs (`refs/pr/1`) have slashes that are not escaped.
fn split_revision(parts: &[String]) -> Option<(String, &[String])> {
    let length = if parts.first()? == "refs" { 3 } else { 1 };
    let (revision, path) = parts.split_at_checked(length)?;
    Some((revision.join("/"), path))
}

/// A quant, or the name of a file: which of the two is for the repository's files to say.
fn checked_tag(tag: &str) -> Result<String> {
    if tag.contains(['/', '\\', ':', '@']) || tag.contains(is_harmful) {
        let message = format!("`{}` is no quant", Escaped(tag));
        return Err(Error::usage(message).hint("a quant is a word like `Q4_K_M`: `org/repo:Q4_K_M`"));
    }
    Ok(tag.to_owned())
}

fn checked_file(repo: &RepoId, file: &str) -> Result<String> {
    if !is_gguf(file) {
        let message = format!("`{}` is no GGUF file of `{repo}`", Escaped(file));
        return Err(Error::usage(message).hint(format!("try `{repo}`, or a file of it: `{repo}/file.gguf`")));
    }
    if RepoPath::parse(file).is_none() {
        let message = format!("`{}` is no safe path of a file", Escaped(file));
        return Err(Error::usage(message).hint(format!("try `{repo}`, or a file of it: `{repo}/file.gguf`")));
    }
    Ok(file.to_owned())
}

/// Text with `%20` and the like resolved; nothing where that is no text.
fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(if byte == b'%' { hex(rest.next()?)? * 16 + hex(rest.next()?)? } else { byte });
    }
    String::from_utf8(bytes).ok()
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

fn no_model(text: &str) -> Error {
    Error::usage(format!("`{}` names no model", Escaped(text))).hint(FORMS)
}

fn foreign_url(text: &str, endpoint: &str) -> Error {
    let ours = without_scheme(endpoint).trim_end_matches('/');
    let ours = if ours.is_empty() { HUB_HOSTS[0] } else { ours };
    Error::usage(format!("`{}` is not on `{}`", Escaped(text), Escaped(ours)))
        .hint("give a model of the hub as `org/repo`, or download the file yourself and give its path")
}

#[cfg(test)]
mod tests;
