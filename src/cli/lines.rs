//! Where a conversation's messages come from: a line editor on a terminal, or lines in a pipe.

use std::fs;
use std::path::PathBuf;

use rustyline::completion::{Completer, FilenameCompleter, Pair};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::DefaultHistory;
use rustyline::validate::Validator;
use rustyline::{Behavior, CompletionType, Config, Context, Editor, Helper};

use super::ui::Ui;
use super::{commands, load};
use crate::error::{Error, Result};

/// Lines kept from run to run.
const HISTORY_LINES: usize = 1000;

/// What came in.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Input {
    Message(String),
    /// Ctrl-C at the prompt: the line is gone, the conversation is not.
    Cancelled,
    End,
}

/// One line at a time. `first` says which prompt to show, `initial` is text to edit.
pub(crate) trait Lines {
    fn line(&mut self, ui: &mut Ui, first: bool, initial: &str) -> Result<Input>;
    /// Keep a whole message for the arrow keys and the next run.
    fn remember(&mut self, _message: &str) {}
    /// Does a person write them? Errors are then something to go on from.
    fn is_person(&self) -> bool {
        false
    }
    /// Can a text be edited before it is sent?
    fn can_edit(&self) -> bool {
        false
    }
}

/// A whole message: lines joined where one ends in `\`, or between `"""` and `"""`.
pub(crate) fn message(lines: &mut dyn Lines, ui: &mut Ui, initial: &str) -> Result<Input> {
    let mut block = Block::default();
    let mut initial = initial;
    loop {
        match lines.line(ui, block.is_empty(), initial)? {
            Input::Message(line) => {
                if let Some(message) = block.push(&line) {
                    lines.remember(&message);
                    return Ok(Input::Message(message));
                }
            }
            // What was typed before the end of the input counts.
            Input::End if !block.is_empty() => {
                let message = block.take();
                lines.remember(&message);
                return Ok(Input::Message(message));
            }
            other => return Ok(other),
        }
        initial = "";
    }
}

/// Lines that belong to one message.
#[derive(Debug, Default)]
struct Block {
    text: String,
    /// There is a line already, if an empty one.
    begun: bool,
    quoted: bool,
    open: bool,
}

impl Block {
    const QUOTES: &str = "\"\"\"";

    fn is_empty(&self) -> bool {
        !self.open
    }

    /// The message, when this line was its last.
    fn push(&mut self, line: &str) -> Option<String> {
        let mut line = line;
        if !self.open {
            if let Some(rest) = line.trim_start().strip_prefix(Self::QUOTES) {
                (self.quoted, self.open) = (true, true);
                line = rest;
                if line.is_empty() {
                    return None;
                }
            }
        } else if self.begun {
            self.text.push('\n');
        }
        self.begun = true;
        if self.quoted {
            if let Some(rest) = line.trim_end().strip_suffix(Self::QUOTES) {
                self.text.push_str(rest);
                return Some(self.take());
            }
            self.text.push_str(line);
            return None;
        }
        if let Some(rest) = line.strip_suffix('\\') {
            self.text.push_str(rest);
            self.open = true;
            return None;
        }
        self.text.push_str(line);
        Some(self.take())
    }

    fn take(&mut self) -> String {
        let text = std::mem::take(&mut self.text);
        *self = Self::default();
        text.strip_suffix('\n').map_or(text.clone(), str::to_owned)
    }
}

/// Lines of piped input.
pub(crate) struct Piped;

impl Lines for Piped {
    fn line(&mut self, ui: &mut Ui, _: bool, _: &str) -> Result<Input> {
        let line = ui.read_line(load::LONGEST_INPUT + 1)?;
        let text = line.map(|line| load::text(line, "the piped line")).transpose()?;
        Ok(text.map_or(Input::End, Input::Message))
    }
}

/// The line editor.
pub(crate) struct Typed {
    editor: Editor<Completion, DefaultHistory>,
    history: Option<PathBuf>,
    /// The terminal cannot be edited on: rustyline reads whole lines there.
    dumb: bool,
}

impl Typed {
    /// An editor with the lines of earlier runs from `folder`.
    pub(crate) fn new(ui: &mut Ui, folder: Option<PathBuf>) -> Result<Self> {
        let config = Config::builder()
            .max_history_size(HISTORY_LINES)
            .and_then(|config| config.history_ignore_dups(true))
            .map_err(|e| Error::failed(format!("cannot keep a history: {e}")))?
            .completion_type(CompletionType::List)
            .bracketed_paste(true)
            // The prompt must not go to stdout when that is a file.
            .behavior(if ui.is_interactive() { Behavior::Stdio } else { Behavior::PreferTerm })
            .build();
        let mut editor = Editor::with_config(config)
            .map_err(|e| Error::failed(format!("cannot use the terminal: {e}")))?;
        editor.set_helper(Some(Completion { files: FilenameCompleter::new() }));
        let history = folder.map(|folder| folder.join("history"));
        if let Some(path) = &history {
            if let Err(e) = path.parent().map_or(Ok(()), fs::create_dir_all) {
                ui.status(&format!("the history is not kept: {e}"));
            }
            // There is none the first time.
            let _ = editor.load_history(path);
        }
        Ok(Self { editor, history, dumb: ui.is_dumb() })
    }
}

impl Lines for Typed {
    fn line(&mut self, ui: &mut Ui, first: bool, initial: &str) -> Result<Input> {
        let mut prompt = if first { ">>> " } else { "... " };
        if self.dumb {
            // rustyline would print it to stdout, whatever that is.
            ui.ask(prompt);
            prompt = "";
        }
        match ui.edit_while(|| self.editor.readline_with_initial(prompt, (initial, ""))) {
            Ok(line) => Ok(Input::Message(line)),
            Err(ReadlineError::Interrupted) => Ok(Input::Cancelled),
            Err(ReadlineError::Eof) => {
                if self.dumb {
                    ui.ask("\n");
                }
                Ok(Input::End)
            }
            Err(e) => Err(Error::failed(format!("cannot read from the terminal: {e}"))),
        }
    }

    fn remember(&mut self, message: &str) {
        let added = self.editor.add_history_entry(message).unwrap_or(false);
        if let Some(path) = self.history.as_ref().filter(|_| added) {
            // A history that can't be written is no reason to stop a conversation.
            let _ = self.editor.append_history(path);
        }
    }

    fn is_person(&self) -> bool {
        true
    }

    fn can_edit(&self) -> bool {
        !self.dumb
    }
}

/// A file's name without the backslashes that Tab puts before spaces.
pub(crate) fn unescape(file: &str) -> String {
    rustyline::completion::unescape(file, Some('\\')).into_owned()
}

/// Tab: commands after `/`, files after a command that takes one.
struct Completion {
    files: FilenameCompleter,
}

impl Completer for Completion {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        pos: usize,
        context: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        let typed = &line[..pos];
        match typed.split_once(' ') {
            Some((command, _)) if commands::takes_file(command) => self.files.complete(line, pos, context),
            None if typed.starts_with('/') => {
                let pair = |name: &str| Pair { display: name.to_owned(), replacement: format!("{name} ") };
                Ok((0, commands::names().filter(|name| name.starts_with(typed)).map(pair).collect()))
            }
            _ => Ok((pos, Vec::new())),
        }
    }
}

impl Hinter for Completion {
    type Hint = String;
}
impl Highlighter for Completion {}
impl Validator for Completion {}
impl Helper for Completion {}

#[cfg(test)]
pub(crate) mod scripted {
    use std::collections::VecDeque;

    use super::*;

    /// Lines out of a list; `^C` is Ctrl-C.
    pub(crate) struct Listed(pub(crate) VecDeque<String>);

    impl Listed {
        pub(crate) fn new(lines: &[&str]) -> Self {
            Self(lines.iter().map(|&line| line.to_owned()).collect())
        }
    }

    impl Lines for Listed {
        fn line(&mut self, _: &mut Ui, _: bool, initial: &str) -> Result<Input> {
            Ok(match self.0.pop_front() {
                None => Input::End,
                Some(line) if line == "^C" => Input::Cancelled,
                Some(line) => Input::Message(format!("{initial}{line}")),
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::scripted::Listed;
    use super::*;

    fn messages(lines: &[&str]) -> Vec<Input> {
        let (mut ui, ..) = Ui::captured(false);
        let mut lines = Listed::new(lines);
        let mut all = Vec::new();
        loop {
            let input = message(&mut lines, &mut ui, "").unwrap();
            if input == Input::End {
                return all;
            }
            all.push(input);
        }
    }

    #[test]
    fn lines_become_messages() {
        for (lines, expected) in [
            (&["one", "two"][..], &["one", "two"][..]),
            (&["one\\", "two"], &["one\ntwo"]),
            (&["one\\", "two\\", "three", "four"], &["one\ntwo\nthree", "four"]),
            (&["\"\"\"", "a", "", "b", "\"\"\"", "c"], &["a\n\nb", "c"]),
            (&["\"\"\"a", "b\"\"\""], &["a\nb"]),
            (&["\"\"\"", "", "a", "\"\"\""], &["\na"]),
            (&["\"\"\"a\"\"\"", "b"], &["a", "b"]),
            (&["\"\"\"", "a\\", "b", "\"\"\""], &["a\\\nb"]),
            (&["\"\"\"", "never ended"], &["never ended"]),
            (&["open\\"], &["open"]),
        ] {
            let expected: Vec<Input> = expected.iter().map(|&m| Input::Message(m.to_owned())).collect();
            assert_eq!(messages(lines), expected, "{lines:?}");
        }
    }

    #[test]
    fn cancelling_drops_the_lines_so_far() {
        let expected = [Input::Cancelled, Input::Message("b".to_owned())];
        assert_eq!(messages(&["a\\", "^C", "b"]), expected);
    }
}
