//! A conversation on file while it is held, so that whatever ends the program takes at most the answer being written.
//!
//! A message is one append, synced before it is evaluated. Everything else that changes a conversation writes the file
//! anew and puts it into its place whole. A last line that was being written when the machine or the program stopped is
//! seen as such when the file is opened the next time.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::claim::{Claim, beside};
use super::{Head, Transcript, from_jsonl, to_jsonl};
use crate::error::{Error, Result};
use crate::session::Message;

/// The file of a conversation, for this process alone.
#[derive(Debug)]
pub(crate) struct Journal {
    claim: Claim,
    /// What the file holds, or is to hold with the next write.
    transcript: Transcript,
    /// The model that the file names with the next message.
    next_model: Option<String>,
    file: OnDisk,
    was_torn: bool,
}

#[derive(Debug)]
enum OnDisk {
    /// There is none before there is a message.
    Absent,
    /// It holds the transcript, and takes more at its end.
    Whole(File),
    /// It must be written anew.
    Stale,
}

impl Journal {
    /// Go on with the conversation in a file, or begin one there.
    pub(crate) fn open(claim: Claim) -> Result<Self> {
        let path = &claim.path;
        let (transcript, file, was_torn) = match read(path)? {
            None => (Transcript::default(), OnDisk::Absent, false),
            Some(read) => {
                let file = File::options().append(true).open(path).map_err(|e| cannot("write", path, &e))?;
                let file = if read.ends { OnDisk::Whole(file) } else { OnDisk::Stale };
                (read.transcript, file, read.is_torn)
            }
        };
        Ok(Self { claim, transcript, next_model: None, file, was_torn })
    }

    /// The messages on file.
    pub(crate) fn messages(&self) -> &[Message] {
        &self.transcript.messages
    }

    pub(crate) fn model(&self) -> Option<&str> {
        self.transcript.model.as_deref()
    }

    /// Is there no file yet?
    pub(crate) fn is_new(&self) -> bool {
        matches!(self.file, OnDisk::Absent)
    }

    /// Is no other process writing to it?
    pub(crate) fn is_exclusive(&self) -> bool {
        self.claim.is_exclusive()
    }

    /// Was the last line left half written, and is therefore not among the messages?
    pub(crate) fn was_torn(&self) -> bool {
        self.was_torn
    }

    /// Name the model; the file does so as soon as something is said with it.
    pub(crate) fn set_model(&mut self, model: &str) {
        self.next_model = (self.model() != Some(model)).then(|| model.to_owned());
    }

    /// That these messages are on file. Others that follow them there stay until something takes their place.
    pub(crate) fn hold(&mut self, messages: &[Message]) -> Result<()> {
        let holds = matches!(self.file, OnDisk::Whole(_)) && self.messages().starts_with(messages);
        if holds { Ok(()) } else { self.sync(messages) }
    }

    /// That these messages, and no others, are on file.
    pub(crate) fn sync(&mut self, messages: &[Message]) -> Result<()> {
        if self.is_new() && messages.is_empty() {
            return Ok(());
        }
        let says_more = !self.messages().starts_with(messages);
        if let Some(model) = self.next_model.take_if(|_| says_more) {
            self.transcript.model = Some(model);
            self.file = OnDisk::Stale;
        }
        // What a write that fails leaves behind is not known.
        let file = match (std::mem::replace(&mut self.file, OnDisk::Stale), self.new_of(messages)) {
            (OnDisk::Whole(file), Some(new)) if is_at(&file, &self.claim.path) => append(file, new),
            _ => self.rewrite(messages),
        };
        self.file = OnDisk::Whole(file.map_err(|e| cannot("write", &self.claim.path, &e))?);
        self.transcript.messages = messages.to_vec();
        Ok(())
    }

    /// The messages that come after those on file, if those stay.
    fn new_of<'m>(&self, messages: &'m [Message]) -> Option<&'m [Message]> {
        messages.strip_prefix(self.messages())
    }

    /// The whole file anew: the old one stays until the new one is safe.
    fn rewrite(&self, messages: &[Message]) -> io::Result<File> {
        let head = self.transcript.model.clone().map(|model| serde_json::json!(Head { model }));
        let text = head.map_or(String::new(), |head| format!("{head}\n")) + &to_jsonl(messages);
        let temporary = temporary(&self.claim.path);
        let write = || -> io::Result<File> {
            let mut file = create(&temporary)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&temporary, &self.claim.path)?;
            Ok(file)
        };
        let file = write().inspect_err(|_| {
            // It is only in the way.
            let _ = fs::remove_file(&temporary);
        })?;
        sync_folder(&self.claim.path);
        Ok(file)
    }
}

/// What was read of a file.
pub(crate) struct Read {
    pub(crate) transcript: Transcript,
    /// The last line was left half written and is not part of it.
    is_torn: bool,
    /// More can be written at its end.
    ends: bool,
}

/// A conversation on file, `None` where there is no file. Of a torn last line nothing is read.
pub(crate) fn read(path: &Path) -> Result<Option<Read>> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(cannot("read", path, &e)),
    };
    let (whole, rest) = bytes.split_at(bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1));
    // What a killed process left of a line ends in the middle, or was never filled. The rest is not ours to throw away.
    let is_cut = serde_json::from_slice::<Message>(rest).is_err_and(|e| e.is_eof()) && rest.starts_with(b"{");
    let is_empty = rest.iter().all(|byte| *byte == 0);
    let is_torn = !rest.is_empty() && !whole.is_empty() && (is_cut || is_empty);
    let text = str::from_utf8(if is_torn { whole } else { &bytes });
    let transcript = text
        .map_err(|e| Error::failed(format!("not UTF-8 text at byte {}", e.valid_up_to())))
        .and_then(from_jsonl);
    let transcript =
        transcript.map_err(|e| Error { message: format!("`{}`: {}", path.display(), e.message), ..e })?;
    Ok(Some(Read { transcript, is_torn, ends: rest.is_empty() }))
}

fn append(mut file: File, messages: &[Message]) -> io::Result<File> {
    if messages.is_empty() {
        return Ok(file);
    }
    let length = file.metadata()?.len();
    if let Err(e) = file.write_all(to_jsonl(messages).as_bytes()).and_then(|()| file.sync_data()) {
        // Where this fails too, the line is torn and will be seen as that.
        let _ = file.set_len(length);
        return Err(e);
    }
    Ok(file)
}

/// Where the new file is written: always the same place, so that a killed process leaves one at the most.
pub(super) fn temporary(path: &Path) -> PathBuf {
    beside(path, ".infer~")
}

/// A new file at this path that only its owner can read.
fn create(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let mut options = File::options();
    options.append(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// A rename is safe when its folder is. Not every system lets a folder be synced.
fn sync_folder(path: &Path) {
    if let Some(folder) = path.parent() {
        let _ = File::open(folder).and_then(|folder| folder.sync_all());
    }
}

/// Is an open file the one that stands at `path`?
pub(super) fn is_at(file: &File, path: &Path) -> bool {
    let open = file.try_clone().and_then(same_file::Handle::from_file);
    open.and_then(|open| Ok(open == same_file::Handle::from_path(path)?)).unwrap_or(false)
}

pub(super) fn cannot(act: &str, path: &Path, e: &io::Error) -> Error {
    let error = Error::failed(format!("cannot {act} `{}`: {e}", path.display()));
    match e.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            error.hint("set XDG_DATA_HOME to a folder that can be written")
        }
        io::ErrorKind::FileTooLarge => {
            error.hint("`ulimit -f unlimited` lifts the limit on the size of a file")
        }
        io::ErrorKind::StorageFull => error.hint("free some space, such as with `infer rm MODEL`"),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;
    use crate::session::Role;

    const HEAD: &str = "{\"model\":\"demo\"}\n";

    fn open(folder: &TempDir) -> Result<Journal> {
        Journal::open(Claim::take(&folder.path().join("a.jsonl"))?.expect("nobody else is here"))
    }

    /// User and assistant in turn.
    fn talk(contents: &[&str]) -> Vec<Message> {
        let roles = [Role::User, Role::Assistant].into_iter().cycle();
        contents.iter().zip(roles).map(|(content, role)| Message::new(role, *content)).collect()
    }

    /// A conversation that is on file already.
    fn held(contents: &[&str]) -> (TempDir, Journal) {
        let folder = tempfile::tempdir().unwrap();
        let mut journal = open(&folder).unwrap();
        journal.set_model("demo");
        journal.sync(&talk(contents)).unwrap();
        (folder, journal)
    }

    fn text(folder: &TempDir) -> String {
        fs::read_to_string(folder.path().join("a.jsonl")).unwrap()
    }

    fn write(folder: &TempDir, text: &str) {
        fs::write(folder.path().join("a.jsonl"), text).unwrap();
    }

    /// The file as it is to be.
    fn whole(contents: &[&str]) -> String {
        HEAD.to_owned() + &to_jsonl(&talk(contents))
    }

    #[test]
    fn nothing_is_written_before_there_is_something_to_keep() {
        let folder = tempfile::tempdir().unwrap();
        let mut journal = open(&folder).unwrap();
        journal.set_model("demo");
        journal.sync(&[]).unwrap();
        assert!(journal.is_new() && !folder.path().join("a.jsonl").exists());
        journal.hold(&talk(&["hi"])).unwrap();
        assert!(!journal.is_new());
        assert_eq!(text(&folder), whole(&["hi"]));
    }

    #[test]
    fn what_follows_is_appended_and_what_changes_is_written_anew() {
        for (messages, appends) in [
            (&["a", "b", "c"][..], true),
            (&["a", "b", "c", "d", "e"], true),
            (&["a", "b"], true),
            (&["a"], false),
            (&[], false),
            (&["a", "other", "c"], false),
        ] {
            let (folder, mut journal) = held(&["a", "b"]);
            let before = same_file::Handle::from_path(folder.path().join("a.jsonl")).unwrap();
            journal.sync(&talk(messages)).unwrap();
            assert_eq!(text(&folder), whole(messages));
            let after = same_file::Handle::from_path(folder.path().join("a.jsonl")).unwrap();
            assert_eq!(before == after, appends, "{messages:?}");
        }
    }

    #[test]
    fn an_old_answer_stays_until_there_is_a_new_one() {
        let (folder, mut journal) = held(&["a", "old"]);
        journal.hold(&talk(&["a"])).unwrap();
        assert_eq!(text(&folder), whole(&["a", "old"]));
        journal.hold(&talk(&["b"])).unwrap();
        assert_eq!(text(&folder), whole(&["b"]));
    }

    #[test]
    fn a_conversation_goes_on_where_it_was() {
        let (folder, journal) = held(&["a", "b", "c"]);
        assert!(Claim::take(&folder.path().join("a.jsonl")).unwrap().is_none(), "one process at a time");
        drop(journal);
        let mut journal = open(&folder).unwrap();
        assert_eq!(journal.messages(), talk(&["a", "b", "c"]));
        assert_eq!((journal.model(), journal.is_new(), journal.was_torn()), (Some("demo"), false, false));
        journal.set_model("other");
        // Whoever only looks, or takes something back, changes no model.
        for contents in [&["a", "b", "c"][..], &["a", "b"]] {
            journal.hold(&talk(contents)).unwrap();
            assert_eq!(text(&folder), whole(&["a", "b", "c"]));
        }
        journal.sync(&talk(&["a", "b"])).unwrap();
        assert_eq!(text(&folder), whole(&["a", "b"]));
        journal.hold(&talk(&["a", "b", "d"])).unwrap();
        assert_eq!(text(&folder), whole(&["a", "b", "d"]).replace("demo", "other"));
    }

    #[test]
    fn what_is_not_ours_is_refused_and_left_as_it_is() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("a.jsonl");
        let line = to_jsonl(&talk(&["a"]));
        for bytes in [
            br#"[{"role":"user","content":"precious"}]"#.to_vec(),
            vec![0; 1000],
            format!("{line}{{\"role\":\"assistant\" \"content\":\"a typo\"}}").into_bytes(),
            format!("{line}notes of mine").into_bytes(),
            br#"{"role":"user","content":"#.to_vec(),
        ] {
            fs::write(&path, &bytes).unwrap();
            assert!(read(&path).is_err(), "{}", String::from_utf8_lossy(&bytes));
            assert_eq!(fs::read(&path).unwrap(), bytes);
        }
    }

    #[test]
    fn a_torn_last_line_is_seen_dropped_and_gone_with_the_next_write() {
        let lines = whole(&["a", "b"]);
        let torn = lines.trim_end().len() - 1;
        // In the middle of a line, in the middle of a letter, in blocks never filled, and just before a line end.
        for (cut, was_torn, contents) in [
            (lines.as_bytes()[..torn].to_vec(), true, &["a"][..]),
            ([lines.as_bytes(), b"{\"role\":\"user\",\"content\":\"\xc3"].concat(), true, &["a", "b"]),
            ([lines.as_bytes(), &[0; 9]].concat(), true, &["a", "b"]),
            (lines.trim_end().as_bytes().to_vec(), false, &["a", "b"]),
        ] {
            let folder = tempfile::tempdir().unwrap();
            fs::write(folder.path().join("a.jsonl"), &cut).unwrap();
            let mut journal = open(&folder).unwrap();
            assert_eq!((journal.was_torn(), journal.messages()), (was_torn, &*talk(contents)));
            journal.sync(&talk(contents)).unwrap();
            assert_eq!(text(&folder), whole(contents));
        }
    }

    #[test]
    fn a_file_that_is_damaged_is_refused_and_left_alone() {
        for (damaged, said) in [
            (&b"hello\n"[..], "line 1 is not a message"),
            (b"{\"role\":\"assistant\",\"content\":\"a\"}\n", "line 1: user and assistant"),
            (b"\xff\n", "not UTF-8 text at byte 0"),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("a.jsonl");
            fs::write(&path, damaged).unwrap();
            let error = open(&folder).unwrap_err();
            assert!(error.message.starts_with(&format!("`{}`: {said}", path.display())), "{error}");
            assert_eq!(fs::read(&path).unwrap(), damaged);
        }
    }

    #[test]
    fn a_write_that_fails_is_an_error_and_the_next_one_makes_the_file_whole() {
        let (folder, mut journal) = held(&["a", "b"]);
        // Nothing can be appended to a file that is open for reading.
        journal.file = OnDisk::Whole(File::open(folder.path().join("a.jsonl")).unwrap());
        let error = journal.sync(&talk(&["a", "b", "c"])).unwrap_err();
        assert!(error.message.starts_with("cannot write `"), "{error}");
        assert_eq!((text(&folder), journal.messages()), (whole(&["a", "b"]), &*talk(&["a", "b"])));
        write(&folder, &(whole(&["a", "b"]) + "{\"rol"));
        journal.hold(&talk(&["a", "b", "c"])).unwrap();
        assert_eq!(text(&folder), whole(&["a", "b", "c"]));
    }

    #[test]
    fn a_new_file_that_cannot_be_written_leaves_the_old_one() {
        let (folder, mut journal) = held(&["a", "b"]);
        let in_the_way = folder.path().join(".a.jsonl.infer~");
        fs::create_dir(&in_the_way).unwrap();
        let error = journal.sync(&talk(&["other"])).unwrap_err();
        assert!(error.message.starts_with("cannot write `"), "{error}");
        assert_eq!(text(&folder), whole(&["a", "b"]));
        fs::remove_dir(&in_the_way).unwrap();
        journal.sync(&talk(&["other"])).unwrap();
        assert_eq!(text(&folder), whole(&["other"]));
    }

    #[test]
    fn a_file_that_somebody_took_away_is_written_again() {
        let (folder, mut journal) = held(&["a", "b"]);
        fs::remove_file(folder.path().join("a.jsonl")).unwrap();
        journal.sync(&talk(&["a", "b", "c"])).unwrap();
        assert_eq!(text(&folder), whole(&["a", "b", "c"]));
    }

    #[test]
    #[cfg(unix)]
    fn a_link_stays_one_and_what_it_leads_to_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let (link, target) = (folder.path().join("a.jsonl"), folder.path().join("elsewhere.txt"));
        std::os::unix::fs::symlink("elsewhere.txt", &link).unwrap();
        for contents in [&["a", "b"][..], &["a", "c"], &["a", "c", "d"]] {
            let mut journal = open(&folder).unwrap();
            journal.set_model("demo");
            journal.sync(&talk(contents)).unwrap();
            assert!(link.is_symlink() && !target.is_symlink());
            assert_eq!(fs::read_to_string(&target).unwrap(), whole(contents));
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    #[cfg(unix)]
    fn only_its_owner_can_read_it() {
        use std::os::unix::fs::PermissionsExt;
        let (folder, mut journal) = held(&["a", "b"]);
        journal.sync(&talk(&["c"])).unwrap();
        for file in ["a.jsonl", ".a.jsonl.infer"] {
            let mode = fs::metadata(folder.path().join(file)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{file}");
        }
    }
}
