//! `infer chat`: a conversation, line by line, from a terminal or a pipe. Only answers go to stdout.

use std::path::PathBuf;

use clap::ArgMatches;

use super::args::{AnswerArgs, ChatArgs, ThinkArg};
use super::commands::{self, Command};
use super::dirs;
use super::lines::{self, Input, Lines, Piped, Typed};
use super::load;
use super::record;
use super::run::sampling_line;
use super::screen::{Screen, full_line, stats_line, usage_table};
use super::sessions::{self, Name, Whence};
use super::settings::Settings;
use super::ui::Ui;
use crate::engine::Engine;
use crate::error::{Error, Kind, Result};
use crate::human::{Count, Thousands};
use crate::session::transcript::{self, Transcript};
use crate::session::{Event, Finish, Outcome, Overflow, Role, Session, Sink};

pub(crate) fn run(ui: &mut Ui, args: &ChatArgs, matches: &ArgMatches) -> Result<()> {
    if args.session.list {
        return sessions::list(ui, args.session.json);
    }
    if let Some(name) = &args.session.remove {
        return sessions::remove(ui, name, args.common.model.yes);
    }
    // Held from here on, so that nobody waits for a model in vain.
    let kept = sessions::open(&args.session)?;
    let model = sessions::model(args.model.as_deref(), kept.as_ref())?;
    let found = load::locate(ui, model, &args.common)?;
    let mut loaded = load::load(ui, &found, &args.common, matches, false)?;
    if loaded.template.is_none() {
        return Err(Error::failed("the model has no chat template, so it can only continue texts")
            .hint("try `--template chatml`, or `infer run MODEL --raw \"Once upon a time\"`"));
    }
    let mut session = Session::new(loaded.weights.open(ui.brake())?, loaded.template.take());
    if let Some(system) = &args.common.system {
        session.set_system(system);
    }
    let mut lines: Box<dyn Lines> = if ui.has_piped_input() {
        Box::new(Piped)
    } else {
        let typed = Typed::new(ui, dirs::state())?;
        let context = Thousands(loaded.ctx.into());
        ui.status(&format!("{}, context {context}; /help lists the commands", loaded.name));
        Box::new(typed)
    };
    let name = kept.map(|kept| kept.go_on(ui, &mut session, &found)).transpose()?;
    if let Some(store) = loaded.store.take() {
        session.set_store(match &name {
            Some(name) => store.for_session(&name.to_string()),
            None => store,
        });
    }
    let overflow = load::overflow(args.overflow, Overflow::Slide);
    let mut chat = Chat::new(ui, &args.common, loaded.name, session, loaded.settings, overflow);
    chat.kept_as = name;
    chat.run(&mut *lines)
}

/// A conversation with what can be changed in it.
struct Chat<'u, E: Engine> {
    ui: &'u mut Ui,
    args: AnswerArgs,
    name: String,
    session: Session<E>,
    settings: Settings,
    overflow: Overflow,
    last: Option<Outcome>,
    /// A file read in front of the next message.
    pending: Option<String>,
    /// Files that hold this conversation and may be written again.
    own_files: Vec<PathBuf>,
    /// The session that it is.
    kept_as: Option<Name>,
}

/// Go on, or leave?
#[derive(PartialEq, Eq)]
enum Next {
    Line,
    /// Let the person edit this text.
    Edit(String),
    Leave,
}

impl<'u, E: Engine> Chat<'u, E> {
    fn new(
        ui: &'u mut Ui,
        args: &AnswerArgs,
        name: String,
        session: Session<E>,
        settings: Settings,
        overflow: Overflow,
    ) -> Self {
        Self {
            ui,
            args: args.clone(),
            name,
            session,
            settings,
            overflow,
            last: None,
            pending: None,
            own_files: Vec::new(),
            kept_as: None,
        }
    }

    /// The whole conversation. What is to outlive it besides its messages is kept at the end, however that came.
    fn run(mut self, lines: &mut dyn Lines) -> Result<()> {
        let result = self.converse(lines);
        if !self.ui.is_interrupted() && !self.session.is_stuck() {
            let options = load::options(&self.args, &mut self.settings, self.overflow);
            Screen::keep(self.ui, &mut self.session, &options);
        }
        result
    }

    fn converse(&mut self, lines: &mut dyn Lines) -> Result<()> {
        // The last message, while it is being changed.
        let mut draft: Option<String> = None;
        loop {
            let input = lines::message(lines, self.ui, draft.as_deref().unwrap_or_default())?;
            let revises = draft.take().is_some();
            let next = match input {
                Input::Message(line) => self.line(&line, revises, lines.can_edit()),
                Input::Cancelled => Ok(Next::Line),
                Input::End => return Ok(()),
            };
            if self.ui.is_closed() {
                return Ok(());
            }
            match next {
                Ok(Next::Line) => {}
                Ok(Next::Edit(text)) => draft = Some(text),
                Ok(Next::Leave) => return Ok(()),
                // A person can go on after an error; a script must see it.
                Err(error) if lines.is_person() && !self.session.is_stuck() => self.ui.error(&error),
                Err(error) => return Err(error),
            }
        }
    }

    fn line(&mut self, line: &str, revises: bool, can_edit: bool) -> Result<Next> {
        match commands::parse(line) {
            None if line.trim().is_empty() => Ok(Next::Line),
            None if revises => self.revise(line).map(|()| Next::Line),
            None => self.say(line).map(|()| Next::Line),
            Some(Ok((command, rest))) => {
                let next = self.command(command, rest, can_edit)?;
                self.session.record()?;
                Ok(next)
            }
            Some(Err(word)) => {
                Err(Error::usage(format!("there is no command `{word}`")).hint("`/help` lists the commands"))
            }
        }
    }

    fn say(&mut self, text: &str) -> Result<()> {
        let message = match &self.pending {
            Some(file) => format!("{}\n\n{text}", file.trim_end()),
            None => text.to_owned(),
        };
        if self.session.is_unanswered() {
            self.ui.note("the message without an answer makes room for this one");
        }
        let turns = self.session.messages().len();
        self.answer(|session, options, sink| session.say(&message, options, sink))?;
        if self.session.messages().len() > turns {
            self.pending = None;
        }
        Ok(())
    }

    fn revise(&mut self, text: &str) -> Result<()> {
        self.answer(|session, options, sink| session.answer_again(Some(text), options, sink))
    }

    fn answer(
        &mut self,
        make: impl FnOnce(&mut Session<E>, &crate::session::Options, &mut Sink<'_>) -> Result<Outcome>,
    ) -> Result<()> {
        let options = load::options(&self.args, &mut self.settings, self.overflow);
        let mut screen = Screen::new(self.ui, true);
        let outcome = make(&mut self.session, &options, &mut |event: Event<'_>| screen.show(&event));
        drop(screen);
        // A reader that is gone needs no newline; the loop sees that it is gone.
        let _ = self.ui.end_answer();
        let outcome = outcome?;
        self.after(&outcome)?;
        self.last = Some(outcome);
        Ok(())
    }

    /// What must be said about an answer besides its text.
    fn after(&mut self, outcome: &Outcome) -> Result<()> {
        if outcome.finish == Finish::Interrupted && !self.ui.is_closed() {
            if self.ui.has_piped_input() && self.ui.is_interrupted() {
                return Err(Error::new(Kind::Interrupted, ""));
            }
            self.ui.release_brake();
            let nothing = outcome.text.is_empty();
            self.ui.status(if nothing { "stopped; the conversation stays as it was" } else { "stopped" });
        }
        if outcome.finish == Finish::Window {
            let (_, window) = self.session.usage();
            self.ui.note(&full_line(window, self.overflow));
        }
        if self.args.stats {
            let (used, window) = (outcome.metrics.used as u64, self.session.usage().1 as u64);
            let window = format!("window {} of {}", Thousands(used), Thousands(window));
            self.ui.note(&format!("{}, {window}", stats_line(outcome, None)));
        }
        if let Some(path) = &self.args.metrics_file {
            record::append(self.ui, path, &self.name, self.session.usage().1, None, outcome);
        }
        Ok(())
    }

    fn command(&mut self, command: Command, rest: &str, can_edit: bool) -> Result<Next> {
        match command {
            Command::Help => self.ui.note(&commands::help()),
            Command::Bye => return Ok(Next::Leave),
            Command::Clear => {
                self.session.clear();
                self.pending = None;
                self.ui.status("the conversation is forgotten");
            }
            Command::Set => self.set(rest)?,
            Command::Show => self.show(),
            Command::System => {
                self.session.set_system(rest);
                self.ui.status(if rest.is_empty() { "no system prompt" } else { "the system prompt is set" });
            }
            Command::Regen => {
                self.answer(|session, options, sink| session.answer_again(None, options, sink))?;
            }
            Command::Undo => self.undo()?,
            Command::Edit => return self.edit(rest, can_edit),
            Command::Save => self.save(rest)?,
            Command::Load => self.load(rest)?,
            Command::Read => self.read(rest)?,
            Command::Context => self.context()?,
            Command::Stats => self.stats()?,
        }
        Ok(Next::Line)
    }

    fn set(&mut self, rest: &str) -> Result<()> {
        let usage = || {
            Error::usage("`/set` takes a name and a value").hint("`/set temp 0.2`; `/show` lists the names")
        };
        let (name, value) = rest.split_once(char::is_whitespace).ok_or_else(usage)?;
        let value = value.trim();
        let bad = |what: &str| Error::usage(format!("`{name}` takes {what}, not `{value}`"));
        match name.replace('_', "-").as_str() {
            "max-tokens" if value == "none" => self.args.max_tokens = None,
            "max-tokens" => {
                self.args.max_tokens = Some(value.parse().map_err(|_| bad("a number or `none`"))?);
            }
            "stats" => {
                self.args.stats = match value {
                    "on" => true,
                    "off" => false,
                    _ => return Err(bad("`on` or `off`")),
                }
            }
            "think" => {
                let parsed = <ThinkArg as clap::ValueEnum>::from_str(value, true);
                self.args.think = parsed.map_err(|_| bad("`auto`, `on` or `off`"))?;
            }
            _ if self.settings.set(name, value)? => {}
            _ => {
                return Err(Error::usage(format!("there is no setting `{name}`")).hint("`/show` lists them"));
            }
        }
        self.ui.status(&format!("{name} is {value}"));
        Ok(())
    }

    fn show(&mut self) {
        let (used, window) = self.session.usage();
        let turns = self.session.messages().iter().filter(|m| m.role == Role::User).count();
        let max = self.args.max_tokens.map_or("none".to_owned(), |n| n.to_string());
        let mut lines = vec![
            format!("model: {}", self.name),
            sampling_line(&self.settings),
            format!("max-tokens: {max}, think: {:?}", self.args.think).to_lowercase(),
            format!("system: {}", self.session.system().unwrap_or("none")),
            format!(
                "window: {} of {} tokens in use, {}",
                Thousands(used as u64),
                Thousands(window as u64),
                Count(turns as u64, "turn")
            ),
        ];
        lines.extend(self.kept_as.as_ref().map(|name| format!("session: {name}")));
        self.ui.note(&lines.join("\n"));
    }

    fn undo(&mut self) -> Result<()> {
        let dropped = self.session.dropped_turns();
        self.session.undo().ok_or_else(|| Error::failed("there is nothing to take back"))?;
        let back = dropped - self.session.dropped_turns();
        self.ui.status("the last message and its answer are taken back");
        if back > 0 {
            let are = if back == 1 { "is" } else { "are" };
            self.ui.status(&format!("window: {} {are} back in it", Count(back as u64, "turn")));
        }
        Ok(())
    }

    /// In the editor the old text is offered for changing; elsewhere the new text must come along. Nothing is taken
    /// back before there is a new text to answer.
    fn edit(&mut self, text: &str, can_edit: bool) -> Result<Next> {
        if text.is_empty() && !can_edit {
            return Err(Error::usage("`/edit` needs the new text here").hint("`/edit What is 2 + 3?`"));
        }
        let old = self.session.last_message().ok_or_else(|| Error::failed("there is no message to edit"))?;
        if text.is_empty() {
            return Ok(Next::Edit(old.to_owned()));
        }
        self.revise(text)?;
        Ok(Next::Line)
    }

    fn save(&mut self, file: &str) -> Result<()> {
        let path = file_argument("/save", file)?;
        if path.exists() && !path.is_file() {
            return Err(
                Error::failed(format!("`{file}` is not a regular file")).hint("save under another name")
            );
        }
        // What is there and not ours. Only another conversation may be replaced, and that is said.
        let other = path.exists() && !self.own_files.contains(&path);
        let before = other.then(|| load::read_text(&path).and_then(|text| transcript::from_jsonl(&text)));
        let before = before.transpose().map_err(|_| {
            Error::failed(format!("`{file}` exists and is not a conversation; it is left as it is"))
                .hint("save under another name")
        })?;
        let before = before.map(|before| before.messages.len());
        load::write_file(&path, &transcript::to_jsonl(self.session.messages()), load::Readers::Owner)?;
        let messages = |count: usize| Count(count as u64, "message");
        let replaced = before.map_or(String::new(), |count| format!(", in place of {}", messages(count)));
        self.ui.status(&format!("saved {} to `{file}`{replaced}", messages(self.session.messages().len())));
        self.own_files.push(path);
        Ok(())
    }

    fn load(&mut self, file: &str) -> Result<()> {
        let path = file_argument("/load", file)?;
        let Transcript { messages, .. } = transcript::from_jsonl(&load::read_text(&path)?)
            .map_err(|e| Error { message: format!("`{file}`: {}", e.message), ..e })?;
        let loaded = format!("loaded {} from `{file}`", Count(messages.len() as u64, "message"));
        self.ui.status(&loaded);
        sessions::restore(self.ui, &mut self.session, messages, Whence::File);
        self.own_files.push(path);
        Ok(())
    }

    fn read(&mut self, file: &str) -> Result<()> {
        if file.is_empty() && self.pending.take().is_some() {
            self.ui.status("what was read is forgotten");
            return Ok(());
        }
        let path = file_argument("/read", file)?;
        let text = load::read_text(&path)?;
        self.ui.status(&format!(
            "read {}; it goes in front of the next message",
            Count(text.len() as u64, "byte")
        ));
        self.pending = Some(match self.pending.take() {
            Some(before) => format!("{before}\n\n{text}"),
            None => text,
        });
        Ok(())
    }

    fn context(&mut self) -> Result<()> {
        let options = load::options(&self.args, &mut self.settings, self.overflow);
        let usage = self.session.context(&options)?;
        self.ui.note(&usage_table(&usage));
        Ok(())
    }

    fn stats(&mut self) -> Result<()> {
        let last = self.last.as_ref().ok_or_else(|| Error::failed("there is no answer yet"))?;
        let m = &last.metrics;
        let mut lines = vec![format!("last answer: {}", stats_line(last, None))];
        if m.evictions > 0 {
            let turns = Count(m.dropped_turns as u64, "turn");
            let tokens = Count(m.dropped_tokens as u64, "token");
            let evictions = Count(m.evictions as u64, "eviction");
            lines.push(format!("dropped for it: {turns}, {tokens}, in {evictions}"));
        }
        self.ui.note(&lines.join("\n"));
        Ok(())
    }
}

/// A file as a person types it, or as Tab does: with `\\` before a space, and `~` for the home folder.
fn file_argument(command: &str, file: &str) -> Result<PathBuf> {
    if file.is_empty() {
        return Err(Error::usage(format!("`{command}` needs a file")).hint(format!("`{command} talk.jsonl`")));
    }
    let file = lines::unescape(file);
    Ok(match file.strip_prefix("~/").zip(dirs::home()) {
        Some((below, home)) => home.join(below),
        None => PathBuf::from(file),
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::super::args::{Cli, Command as Verb};
    use super::super::lines::scripted::Listed;
    use super::*;
    use crate::engine::scripted::Scripted;
    use crate::session::Template;

    const TEMPLATE: &str = "{% for m in messages %}{{ m.role[0] | upper }}: {{ m.content }}\n{% endfor %}A: ";

    /// Lines in; result, stdout and stderr out.
    fn chat(answers: &[&str], lines: &[&str]) -> (Result<()>, String, String) {
        chat_from(1000, answers, lines, |_| {})
    }

    /// As `chat`, in a window of so many tokens and with something done to the session before.
    fn chat_from(
        window: usize,
        answers: &[&str],
        lines: &[&str],
        prepare: impl FnOnce(&mut Session<Scripted>),
    ) -> (Result<()>, String, String) {
        let (mut ui, out, err) = Ui::captured(false);
        let cli = Cli::parse_from(["infer", "chat", "x", "--seed", "1"]);
        let Some(Verb::Chat(args)) = cli.command else { unreachable!("these are arguments of `chat`") };
        let matches = clap::ArgMatches::default();
        let settings = Settings::resolve(&args.common.sampling, &matches, |_| None, |_| None).unwrap();
        let template = Template::new(TEMPLATE, "", "").unwrap();
        let mut session = Session::new(Scripted::new(window, answers), Some(template));
        prepare(&mut session);
        let chat =
            Chat::new(&mut ui, &args.common, "scripted".to_owned(), session, settings, Overflow::Rebuild);
        let result = chat.run(&mut Listed::new(lines));
        (result, out.text(), err.text())
    }

    #[test]
    fn answers_go_to_stdout_a_line_each_and_words_about_them_to_stderr() {
        let lines = ["hello", "", "/undo", "again", "/bye", "never"];
        let (result, out, err) = chat(&["one", "two\n"], &lines);
        result.unwrap();
        assert_eq!(out, "one\ntwo\n");
        assert_eq!(err, "the last message and its answer are taken back\n");
    }

    #[test]
    fn an_unknown_command_ends_a_script_and_names_help() {
        let (result, out, _) = chat(&["one"], &["/hepl", "hello"]);
        let error = result.unwrap_err();
        assert_eq!(error.message, "there is no command `/hepl`");
        assert_eq!((error.kind.exit_code(), out.as_str()), (2, ""));
    }

    #[test]
    fn settings_can_be_changed_and_shown() {
        let lines = ["/set temp 0.25", "/set max-tokens 2", "/system Be brief.", "hello", "/show"];
        let (result, out, err) = chat(&["abcdef"], &lines);
        result.unwrap();
        assert_eq!(out, "ab\n");
        let expected = "temp is 0.25\nmax-tokens is 2\nthe system prompt is set\nmodel: scripted\nsampling: temp 0.25 \
                        (set), top-k 40 (default), top-p 0.95 (default), min-p 0.05 (default), repeat-penalty 1 \
                        (default), seed 1 (flag)\nmax-tokens: 2, think: auto\nsystem: Be brief.\nwindow: 26 of 1,000 \
                        tokens in use, 1 turn\n";
        assert_eq!(err, expected);
    }

    #[test]
    fn a_setting_that_is_wrong_is_named() {
        for (line, message) in [
            ("/set", "`/set` takes a name and a value"),
            ("/set temp", "`/set` takes a name and a value"),
            ("/set colour red", "there is no setting `colour`"),
            ("/set think maybe", "`think` takes `auto`, `on` or `off`, not `maybe`"),
            ("/set stats 1", "`stats` takes `on` or `off`, not `1`"),
            ("/set max-tokens -1", "`max-tokens` takes a number or `none`, not `-1`"),
            ("/regen", "there is no message to answer again"),
            ("/undo", "there is nothing to take back"),
            ("/edit", "`/edit` needs the new text here"),
            ("/stats", "there is no answer yet"),
            ("/save", "`/save` needs a file"),
        ] {
            assert_eq!(chat(&[], &[line]).0.unwrap_err().message, message, "{line}");
        }
    }

    #[test]
    fn edit_and_regenerate_replace_the_last_answer() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("talk.jsonl");
        let save = format!("/save {}", file.display());
        let lines = ["first", "/regen", "/edit second", save.as_str()];
        let (result, out, _) = chat(&["a", "b", "c"], &lines);
        result.unwrap();
        assert_eq!(out, "a\nb\nc\n");
        let saved = std::fs::read_to_string(&file).unwrap();
        let expected =
            "{\"role\":\"user\",\"content\":\"second\"}\n{\"role\":\"assistant\",\"content\":\"c\"}\n";
        assert_eq!(saved, expected);
    }

    #[test]
    #[cfg(unix)]
    fn a_saved_conversation_goes_on_and_other_files_are_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("talk.jsonl");
        let (save, load) = (format!("/save {}", file.display()), format!("/load {}", file.display()));
        chat(&["Paris."], &["France?", &save]).0.unwrap();
        chat(&["Rome."], &[&load, "Italy?", &save]).0.unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap().lines().count(), 4);
        let link = folder.path().join("link.jsonl");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let save_link = format!("/save {}", link.display());
        let (result, _, err) = chat(&["Rome."], &["Italy?", &save_link, &save_link]);
        result.unwrap();
        let saved = format!("saved 2 messages to `{}`", link.display());
        assert_eq!(err, format!("{saved}, in place of 4 messages\n{saved}\n"));
        assert!(link.is_symlink() && std::fs::read_to_string(&file).unwrap().contains("Rome."));
        let error = chat(&[], &["/save /dev/null"]).0.unwrap_err();
        assert_eq!(error.message, "`/dev/null` is not a regular file");
        let other = folder.path().join("letter.txt");
        std::fs::write(&other, "Dear Ada").unwrap();
        let error = chat(&[], &[&format!("/save {}", other.display())]).0.unwrap_err();
        assert!(error.message.ends_with("exists and is not a conversation; it is left as it is"));
        assert_eq!(std::fs::read_to_string(&other).unwrap(), "Dear Ada");
        assert!(
            chat(&[], &[&format!("/load {}", other.display())]).0.unwrap_err().message.contains("line 1")
        );
    }

    #[test]
    fn loading_says_what_becomes_of_the_system_prompt() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("talk.jsonl");
        let load = format!("/load {}", file.display());
        let message =
            |role: &str, content: &str| format!("{{\"role\":\"{role}\",\"content\":\"{content}\"}}\n");
        let turn = message("user", "Hi") + &message("assistant", "Hello");
        for (saved, before, said, after) in [
            (turn.clone(), "/system Mine", "the system prompt stays; the file has none\n", "system: Mine\n"),
            (message("system", "Its") + &turn, "/clear", "", "system: Its\n"),
            (
                message("system", "Its") + &turn,
                "/system Mine",
                "the system prompt of the file has taken the place of yours\n",
                "system: Its\n",
            ),
        ] {
            std::fs::write(&file, saved).unwrap();
            let (result, _, err) = chat(&[], &[before, &load, "/show"]);
            result.unwrap();
            let (_, loaded) = err.split_once(&format!("from `{}`\n", file.display())).unwrap();
            assert!(loaded.starts_with(&format!("{said}model: ")) && loaded.contains(after), "{err}");
        }
    }

    #[test]
    fn every_command_that_changes_a_kept_conversation_changes_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let (kept, saved) = (folder.path().join("kept.jsonl"), folder.path().join("saved.jsonl"));
        std::fs::write(
            &saved,
            "{\"role\":\"user\",\"content\":\"S\"}\n{\"role\":\"assistant\",\"content\":\"T\"}\n",
        )
        .unwrap();
        let load = format!("/load {}", saved.display());
        for (command, expected) in [
            ("/undo", &["a", "1"][..]),
            ("/clear", &[]),
            ("/system Brief.", &["Brief.", "a", "1", "b", "2"]),
            ("/regen", &["a", "1", "b", "3"]),
            ("/edit c", &["a", "1", "c", "3"]),
            (&load, &["S", "T"]),
            ("/show", &["a", "1", "b", "2"]),
        ] {
            let result = chat_from(1000, &["1", "2", "3"], &["a", "b", command], |session| {
                let claim = transcript::Claim::take(&kept).unwrap().unwrap();
                session.keep_in(transcript::Journal::open(claim).unwrap()).unwrap();
            });
            result.0.unwrap();
            let held = transcript::read(&kept).unwrap().unwrap().transcript;
            let contents: Vec<_> = held.messages.iter().map(|m| m.content.as_str()).collect();
            assert_eq!(contents, expected, "{command}");
            std::fs::remove_file(&kept).unwrap();
        }
    }

    #[test]
    fn what_left_the_window_is_told_and_comes_back_with_undo() {
        let lines = ["one", "two", "three and three and two", "/stats", "/context", "/undo", "/context"];
        let (result, out, err) = chat_from(64, &["1", "2", "3"], &lines, |session| session.set_system("S"));
        result.unwrap();
        assert_eq!(out, "1\n2\n3\n");
        let (before, after) = err.split_once("last answer: prompt 47 tokens (8 cached; ").expect(&err);
        assert_eq!(before, "window: dropped 1 turn, 12 tokens; 47 of 64 in use\n");
        let (_, after) = after.split_once('\n').unwrap();
        let expected = "\
dropped for it: 1 turn, 12 tokens, in 1 eviction
window: 64 tokens
        8  system prompt and template
        -  1 turn dropped
       12  two
       32  three and three and two
       12  free
the last message and its answer are taken back
window: 1 turn is back in it
window: 64 tokens
        8  system prompt and template
       12  one
       12  two
       32  free
";
        assert_eq!(after, expected);
    }

    #[test]
    fn a_message_without_an_answer_is_spoken_of() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("talk.jsonl");
        std::fs::write(&file, "{\"role\":\"user\",\"content\":\"Hi\"}\n").unwrap();
        let load = format!("/load {}", file.display());
        let unanswered = "the last message has no answer yet; `/regen` answers it\n";
        for (next, said) in
            [("/regen", ""), ("Hello", "the message without an answer makes room for this one\n")]
        {
            let (result, out, err) = chat(&["one"], &[&load, next]);
            result.unwrap();
            assert_eq!(out, "one\n");
            assert!(err.ends_with(&format!("`\n{unanswered}{said}")), "{err}");
        }
    }

    #[test]
    fn a_file_is_named_as_tab_completes_it() {
        assert_eq!(file_argument("/save", "a\\ b.jsonl").unwrap(), PathBuf::from("a b.jsonl"));
        let home = dirs::home().expect("a home folder");
        assert_eq!(file_argument("/save", "~/a.jsonl").unwrap(), home.join("a.jsonl"));
        assert_eq!(file_argument("/save", "~a").unwrap(), PathBuf::from("~a"));
    }

    #[test]
    fn a_file_that_was_read_goes_in_front_of_the_next_message_only() {
        let folder = tempfile::tempdir().unwrap();
        let (notes, talk) = (folder.path().join("notes.txt"), folder.path().join("talk.jsonl"));
        std::fs::write(&notes, "facts\n").unwrap();
        let (read, save) = (format!("/read {}", notes.display()), format!("/save {}", talk.display()));
        let (result, _, err) = chat(&["a", "b"], &[&read, "sum up", "and now?", &save]);
        result.unwrap();
        assert!(err.starts_with("read 6 bytes; it goes in front of the next message\n"), "{err}");
        let (_, _, err) = chat(&[], &[&read, "/read"]);
        assert!(err.ends_with("what was read is forgotten\n"), "{err}");
        let saved = transcript::from_jsonl(&std::fs::read_to_string(&talk).unwrap()).unwrap();
        let saved = saved.messages;
        assert_eq!((saved[0].content.as_str(), saved[2].content.as_str()), ("facts\n\nsum up", "and now?"));
    }
}
