//! Conversations that are kept: their names, where they lie, and `--list-sessions` and `--remove-session`.

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::SystemTime;

use serde_json::{Value, json};

use super::args::SessionArgs;
use super::dirs;
use super::models::{columns, minute, seconds};
use super::pull::Found;
use super::screen;
use super::ui::Ui;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::human::{Count, Escaped};
use crate::session::cache;
use crate::session::transcript::{self, Claim, Journal, Transcript};
use crate::session::{Message, Role, Session};

/// The most characters of a name: four bytes each, and an ending, are still the name of a file.
const LONGEST: usize = 60;

const ENDING: &str = ".jsonl";

/// The name of a session, and of its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Name(String);

impl FromStr for Name {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let begins = text.starts_with(|c: char| c.is_alphanumeric() || c == '_');
        let allowed = text.chars().all(|c| c.is_alphanumeric() || "-_.".contains(c));
        if begins && allowed && text.chars().count() <= LONGEST {
            return Ok(Self(text.to_owned()));
        }
        Err(format!(
            "a name is up to {LONGEST} letters, digits, `-`, `_` and `.`, of which `-` and `.` are not the first"
        ))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The folder of all sessions, which need not exist yet.
fn folder() -> Result<PathBuf> {
    Ok(dirs::data()?.join("sessions"))
}

fn path(folder: &Path, name: &Name) -> PathBuf {
    folder.join(format!("{name}{ENDING}"))
}

/// A session that is held by this process.
pub(crate) struct Kept {
    name: Name,
    journal: Journal,
}

/// The session that the arguments ask for, if they do.
pub(crate) fn open(args: &SessionArgs) -> Result<Option<Kept>> {
    if args.name.is_none() && !args.last {
        return Ok(None);
    }
    let folder = folder()?;
    let name = args.name.clone().map_or_else(|| last(&folder), Ok)?;
    create(&folder)?;
    let journal = Journal::open(claim(&folder, &name)?).map_err(|e| match e.hint {
        None => e.hint("mend the file, or begin another session: `--session NAME`"),
        Some(_) => e,
    })?;
    if !journal.is_new() {
        // The file's time says when it was used last, or at least when it was written last.
        let file = File::options().append(true).open(path(&folder, &name));
        let _ = file.and_then(|file| file.set_modified(SystemTime::now()));
    }
    Ok(Some(Kept { name, journal }))
}

/// What people say to a model is nobody else's to read.
fn create(folder: &Path) -> Result<()> {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(folder).map_err(|e| {
        Error::failed(format!("cannot create `{}`: {e}", folder.display()))
            .hint("set XDG_DATA_HOME to a folder that can be written")
    })
}

fn claim(folder: &Path, name: &Name) -> Result<Claim> {
    Claim::take(&path(folder, name))?.ok_or_else(|| {
        Error::failed(format!("the session `{name}` is in use by another process"))
            .hint("leave it there first, or begin another: `--session NAME`")
    })
}

fn last(folder: &Path) -> Result<Name> {
    let newest = all(folder)?.into_iter().next();
    newest.map(|(name, _)| name).ok_or_else(|| {
        Error::failed("there is no session to go on with")
            .hint("`infer chat MODEL --session NAME` begins one")
    })
}

/// The model that is meant: the one given, or the session's own.
pub(crate) fn model<'a>(given: Option<&'a str>, kept: Option<&'a Kept>) -> Result<&'a str> {
    match (given, kept) {
        (Some(model), _) => Ok(model),
        (None, None) => Err(Error::usage("no model is given")
            .hint("`infer chat demo`, or `infer chat --continue` for the last session")),
        (None, Some(Kept { name, journal })) => journal.model().ok_or_else(|| {
            let why = if journal.is_new() {
                format!("there is no session `{name}` yet, so it needs a model")
            } else {
                format!("the session `{name}` does not say its model")
            };
            Error::usage(why).hint(format!("`infer chat MODEL --session {name}`"))
        }),
    }
}

impl Kept {
    /// Take up the conversation, and keep it from now on; `found` is the model that it goes on with.
    pub(crate) fn go_on<E: Engine>(
        self,
        ui: &mut Ui,
        session: &mut Session<E>,
        found: &Found,
    ) -> Result<Name> {
        let Self { name, mut journal } = self;
        let model = lasting(found);
        if !ui.has_piped_input() {
            let what = if journal.is_new() {
                "new".to_owned()
            } else {
                Count(turns(journal.messages()), "turn").to_string()
            };
            ui.status(&format!("session `{name}`: {what}"));
        }
        if !journal.is_exclusive() {
            ui.note(&format!(
                "session `{name}`: its file system cannot lock, so a second process would not be kept out"
            ));
        }
        if journal.was_torn() {
            ui.note(&format!("session `{name}`: the last line was cut off in the middle and is dropped"));
        }
        if let Some(before) = journal.model().filter(|before| *before != model) {
            ui.note(&format!("session `{name}`: held with `{before}` so far, from now on with `{model}`"));
        }
        if !journal.is_new() {
            restore(ui, session, journal.messages().to_vec(), Whence::Session);
        }
        journal.set_model(&model);
        session.keep_in(journal)?;
        Ok(name)
    }
}

/// Where a conversation was kept.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Whence {
    /// On the command line, where `-s` may have given a system prompt as well.
    Session,
    /// By `/load`.
    File,
}

/// Take up a conversation that was kept somewhere, and say what becomes of the system prompt and what is missing.
pub(crate) fn restore<E: Engine>(
    ui: &mut Ui,
    session: &mut Session<E>,
    messages: Vec<Message>,
    whence: Whence,
) {
    let system = session.system().map(str::to_owned);
    session.set_messages(messages);
    match (system, session.system()) {
        (Some(old), None) => {
            session.set_system(&old);
            ui.status(match whence {
                Whence::Session => "the session had no system prompt and has that of `-s` now",
                Whence::File => "the system prompt stays; the file has none",
            });
        }
        (Some(old), Some(new)) if old != new => ui.note(match whence {
            Whence::Session => {
                "`-s` is not used: the session keeps its own system prompt; `/system TEXT` changes it"
            }
            Whence::File => "the system prompt of the file has taken the place of yours",
        }),
        _ => {}
    }
    if session.is_unanswered() {
        ui.note("the last message has no answer yet; `/regen` answers it");
    }
}

/// A model by a name that means the same in every folder.
fn lasting(found: &Found) -> String {
    let is_path = found.path == Path::new(&found.name);
    let absolute = std::path::absolute(&found.path).ok().filter(|_| is_path);
    absolute.map_or_else(|| found.name.clone(), |path| path.to_string_lossy().into_owned())
}

fn turns(messages: &[Message]) -> u64 {
    messages.iter().filter(|message| message.role == Role::User).count() as u64
}

/// The beginning of the first message, on one line.
fn first_words(messages: &[Message]) -> String {
    let first = messages.iter().find(|message| message.role == Role::User);
    first.map_or(String::new(), |message| screen::first_words(&message.content))
}

/// Every session with the time of its last use, the latest first.
fn all(folder: &Path) -> Result<Vec<(Name, SystemTime)>> {
    let failed = |e: io::Error| Error::failed(format!("cannot read `{}`: {e}", folder.display()));
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(failed(e)),
    };
    let mut all = Vec::new();
    for entry in entries {
        let entry = entry.map_err(failed)?;
        let file = entry.file_name();
        // Other files are none of ours.
        let Some(Ok(name)) = file.to_str().and_then(|file| file.strip_suffix(ENDING)).map(str::parse::<Name>)
        else {
            continue;
        };
        // One that is removed at this moment is gone, and a folder is none, but what a link leads to may be one.
        let about = fs::metadata(entry.path()).ok().filter(fs::Metadata::is_file);
        if let Some(time) = about.and_then(|about| about.modified().ok()) {
            all.push((name, time));
        }
    }
    all.sort_by(|(a, earlier), (b, later)| later.cmp(earlier).then_with(|| a.0.cmp(&b.0)));
    Ok(all)
}

/// `--list-sessions`.
pub(crate) fn list(ui: &mut Ui, json: bool) -> Result<()> {
    let folder = folder()?;
    let sessions: Vec<Listed> =
        all(&folder)?.into_iter().filter_map(|(name, used)| Listed::read(&folder, name, used)).collect();
    // Whether all of it could be written is asked once, at the end.
    let _ = if json {
        ui.json(&json!({ "sessions": sessions.iter().map(Listed::json).collect::<Vec<_>>() }))
    } else if sessions.is_empty() {
        ui.status("no sessions yet; `infer chat MODEL --session NAME` begins one");
        return Ok(());
    } else {
        let head = ["NAME", "MODEL", "TURNS", "LAST USED", "FIRST WORDS"].map(str::to_owned);
        let rows: Vec<_> = std::iter::once(head).chain(sessions.iter().map(Listed::row)).collect();
        ui.page(&columns(&rows))
    };
    Ok(())
}

/// A session as it is listed; one that cannot be read is listed too.
struct Listed {
    name: Name,
    used: SystemTime,
    path: PathBuf,
    transcript: Result<Transcript>,
}

impl Listed {
    /// `None` when it has been removed in the meantime.
    fn read(folder: &Path, name: Name, used: SystemTime) -> Option<Self> {
        let path = path(folder, &name);
        let transcript = transcript::read(&path).transpose()?.map(|read| read.transcript);
        Some(Self { name, used, path, transcript })
    }

    fn row(&self) -> [String; 5] {
        let unknown = || "-".to_owned();
        let (model, turns, words) = match &self.transcript {
            Ok(held) => (
                held.model.as_deref().map_or_else(unknown, |model| Escaped(model).to_string()),
                turns(&held.messages).to_string(),
                Escaped(&first_words(&held.messages)).to_string(),
            ),
            Err(error) => (unknown(), unknown(), format!("({error})")),
        };
        [self.name.to_string(), model, turns, minute(self.used), words]
    }

    fn json(&self) -> Value {
        let held = self.transcript.as_ref().ok();
        json!({
            "name": self.name.to_string(),
            "model": held.and_then(|held| held.model.as_deref()),
            "turns": held.map(|held| turns(&held.messages)),
            "last_used": seconds(self.used),
            "first_words": held.map(|held| first_words(&held.messages)),
            "path": self.path.to_string_lossy(),
            "error": self.transcript.as_ref().err().map(ToString::to_string),
        })
    }
}

/// `--remove-session`.
pub(crate) fn remove(ui: &mut Ui, name: &Name, yes: bool) -> Result<()> {
    let folder = folder()?;
    if !path(&folder, name).exists() {
        return Err(Error::failed(format!("there is no session `{name}`"))
            .hint("`infer chat --list-sessions` shows what there is"));
    }
    let claim = claim(&folder, name)?;
    if !yes && ui.can_ask() && !ui.confirm(&format!("remove the session `{name}`?"), false)? {
        return Err(Error::failed("nothing was removed").hint("answer `y`, or give `--yes`"));
    }
    claim.remove()?;
    cache::forget(&super::cache::folder()?, &name.to_string())
        .map_err(|e| Error::failed(format!("cannot remove what the cache holds of `{name}`: {e}")))?;
    ui.status(&format!("removed the session `{name}`"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_names_of_files_in_one_folder() {
        let longest = "é".repeat(LONGEST);
        for (text, good) in [
            ("a", true),
            ("trip-2026_v1.2", true),
            ("_", true),
            ("заметки", true),
            (longest.as_str(), true),
            (&format!("{longest}é"), false),
            ("", false),
            (".", false),
            ("..", false),
            (".hidden", false),
            ("-a", false),
            ("a/b", false),
            ("a\\b", false),
            ("a b", false),
            ("a\nb", false),
            ("c:", false),
        ] {
            assert_eq!(text.parse::<Name>().is_ok(), good, "{text:?}");
        }
    }

    #[test]
    fn the_first_words_are_one_short_line() {
        for (content, expected) in [
            ("Hi", "Hi".to_owned()),
            ("two\n\n lines", "two lines".to_owned()),
            (&"é".repeat(50), "é".repeat(screen::WORDS) + "…"),
        ] {
            assert_eq!(first_words(&[Message::new(Role::User, content)]), expected);
        }
        assert_eq!(first_words(&[Message::new(Role::System, "Be brief.")]), "");
    }

    #[test]
    fn a_path_is_remembered_so_that_it_holds_in_every_folder() {
        let found = |name: &str, path: &str| Found {
            name: name.to_owned(),
            path: path.into(),
            sampling: std::collections::BTreeMap::default(),
        };
        assert_eq!(lasting(&found("qwen3:4b", "/cache/blob")), "qwen3:4b");
        let here = std::env::current_dir().unwrap();
        assert_eq!(lasting(&found("m.gguf", "m.gguf")), here.join("m.gguf").to_string_lossy());
    }

    #[test]
    fn sessions_are_sorted_by_their_last_use_and_other_files_are_none() {
        let folder = tempfile::tempdir().unwrap();
        for (file, day) in [("a.jsonl", 1), ("b.jsonl", 3), ("c.jsonl", 2), ("c.lock", 4), (".d.jsonl", 5)] {
            let file = fs::File::create(folder.path().join(file)).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(day * 86_400)).unwrap();
        }
        fs::create_dir(folder.path().join("e.jsonl")).unwrap();
        let names = || all(folder.path()).unwrap().into_iter().map(|(name, _)| name.0).collect::<Vec<_>>();
        assert_eq!(names(), ["b", "c", "a"]);
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink("c.jsonl", folder.path().join("f.jsonl")).unwrap();
            std::os::unix::fs::symlink("gone.jsonl", folder.path().join("g.jsonl")).unwrap();
            assert_eq!(names(), ["b", "c", "f", "a"]);
        }
        assert_eq!(all(&folder.path().join("none")).unwrap(), []);
    }
}
