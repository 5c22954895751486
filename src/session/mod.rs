//! A conversation with a language model: messages, the window they must fit in, and the one generation loop.
//!
//! It knows no files of models and no terminal. What happens is reported as [`Event`]s to a sink, whose answer can
//! stop the work; how an answer ended is an [`Outcome`], of which none is an error.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use crate::engine::{Engine, Sampling, Token};
use crate::error::{Error, Result};

mod answer;
pub(crate) mod cache;
mod keep;
pub(crate) mod metrics;
pub(crate) mod prompt;
mod room;
pub(crate) mod speed;
pub(crate) mod template;
pub(crate) mod text;
pub(crate) mod transcript;
mod turns;
mod usage;
mod window;

use answer::Answer;
use cache::PrefixStore;
pub(crate) use metrics::Metrics;
use prompt::Encoded;
use room::Room;
pub(crate) use template::{Message, Role, Template, Think};
use transcript::Journal;
use turns::Shown;
pub(crate) use usage::Usage;
use window::{Budget, KvWindow, common};

/// The local date and time, for templates that print it.
pub(crate) type Now = jiff::civil::DateTime;

/// What happens while an answer is made.
#[derive(Debug, PartialEq)]
pub(crate) enum Event<'a> {
    /// Prompt tokens evaluated so far, of those that had to be.
    Prefill { done: usize, total: usize },
    /// Text of the answer.
    Text(&'a str),
    /// Text of the model's reasoning.
    Thought(&'a str),
    /// The template takes no system message: it went into the first user turn.
    FoldedSystem,
    /// Tokens that were in the cache are evaluated again, because this kind of memory cannot go back to them.
    Reread { tokens: usize },
    /// What became of entries of the cache on disk, for those who want to know.
    Cache(&'a str),
    /// An entry is being written, which can take its time. Told again and again; breaking ends it.
    Keeping,
    /// Tokens cannot move in this kind of memory, so what stays in the window is evaluated again.
    Unshiftable { reason: &'static str },
    /// Whole turns left the window, or with none of them the oldest part of the answer itself. Tokens.
    Dropped { turns: usize, tokens: usize, used: usize, window: usize },
}

/// Takes events; breaking ends the answer as [`Finish::Interrupted`].
pub(crate) type Sink<'a> = dyn FnMut(Event<'_>) -> ControlFlow<()> + 'a;

/// Why an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Finish {
    /// The model ended its turn.
    EndOfTurn,
    /// A stop string came up.
    Stop,
    /// The wanted number of tokens is reached.
    Length,
    /// The window is full.
    Window,
    /// The sink or the engine's brake stopped it.
    Interrupted,
}

impl Finish {
    /// The word that `--json` and `--stats` print.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::EndOfTurn => "end_of_turn",
            Self::Stop => "stop",
            Self::Length => "length",
            Self::Window => "window",
            Self::Interrupted => "interrupted",
        }
    }
}

/// One answer.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) finish: Finish,
    pub(crate) text: String,
    pub(crate) thought: String,
    pub(crate) metrics: Metrics,
}

/// What to do when the window is full. What goes is the same for the first two: the oldest whole turns, and without
/// any the oldest half of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Overflow {
    /// What stays moves up in the cache. Its values were computed when the rest was still seen.
    Slide,
    /// What stays is evaluated again: exact, and slower.
    Rebuild,
    /// End the answer.
    Stop,
}

/// How to answer.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) sampling: Sampling,
    pub(crate) stops: Vec<String>,
    /// The most tokens to generate.
    pub(crate) max_tokens: Option<usize>,
    pub(crate) think: Think,
    pub(crate) overflow: Overflow,
    /// The first tokens that stay whatever leaves the window: the turns that they belong to, or of a raw text as many.
    pub(crate) keep: usize,
    /// For templates that print the date.
    pub(crate) now: Now,
}

/// Two texts that begin with different tokens.
const SOME: [&str; 2] = ["A", "0"];

/// An engine with a conversation.
pub(crate) struct Session<E: Engine> {
    engine: E,
    cache: KvWindow,
    template: Option<Template>,
    /// The whole conversation, the system message first if there is one.
    messages: Vec<Message>,
    /// What the first message begins with, in front of its question.
    preamble: String,
    /// The first tokens of a prompt, which all conversations share that begin like this one; nothing where that may
    /// have changed.
    stable: Option<Vec<Token>>,
    /// The cache on disk.
    store: Option<PrefixStore>,
    /// Tokens in the cache were moved, or come from a process where they were: their values are not those of a fresh
    /// evaluation.
    moved: bool,
    /// Tokens whose evaluation was measured, and how long it took.
    evaluated: (usize, Duration),
    shown: Shown,
    /// [`Event::FoldedSystem`] is news only once.
    said_folded: bool,
    /// So is [`Event::Unshiftable`].
    said_unshiftable: bool,
    /// Where the conversation is kept while it is held.
    journal: Option<Journal>,
}

impl<E: Engine> Session<E> {
    pub(crate) fn new(engine: E, template: Option<Template>) -> Self {
        Self {
            engine,
            cache: KvWindow::default(),
            template,
            messages: Vec::new(),
            preamble: String::new(),
            stable: None,
            store: None,
            moved: false,
            evaluated: (0, Duration::ZERO),
            shown: Shown::default(),
            said_folded: false,
            said_unshiftable: false,
            journal: None,
        }
    }

    /// Keep the conversation in a file from now on.
    pub(crate) fn keep_in(&mut self, journal: Journal) -> Result<()> {
        self.journal = Some(journal);
        self.record()
    }

    /// Bring the file to the conversation as it stands, after a change that is no answer.
    pub(crate) fn record(&mut self) -> Result<()> {
        self.journal.as_mut().map_or(Ok(()), |journal| journal.sync(&self.messages))
    }

    /// The conversation so far, also what the model no longer sees.
    pub(crate) fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Replace the conversation, such as by one that was saved.
    pub(crate) fn set_messages(&mut self, messages: Vec<Message>) {
        self.messages = messages;
        self.stable = None;
        self.shown = Shown::default();
    }

    /// Forget the conversation but not the system message.
    pub(crate) fn clear(&mut self) {
        self.messages.truncate(self.system_len());
        self.shown = Shown::default();
    }

    /// Set the system message, or take it away with an empty text.
    pub(crate) fn set_system(&mut self, text: &str) {
        self.messages.drain(..self.system_len());
        self.stable = None;
        if !text.is_empty() {
            self.messages.insert(0, Message::new(Role::System, text));
        }
    }

    /// Tell what the first message will begin with, such as files that several questions are asked about: where it
    /// ends is a place worth to be kept.
    pub(crate) fn set_preamble(&mut self, text: String) {
        self.preamble = text;
        self.stable = None;
    }

    /// The system message, if there is one.
    pub(crate) fn system(&self) -> Option<&str> {
        self.messages.first().filter(|m| m.role == Role::System).map(|m| m.content.as_str())
    }

    /// Tokens in the cache and the most that it holds.
    pub(crate) fn usage(&self) -> (usize, usize) {
        (self.cache.len(), self.engine.window())
    }

    /// Take back the last user message and what was answered to it; what both pushed out of the window is shown to the
    /// model again. The user's text, if there was one.
    pub(crate) fn undo(&mut self) -> Option<String> {
        let at = self.messages.iter().rposition(|m| m.role == Role::User)?;
        let text = std::mem::take(&mut self.messages[at].content);
        self.messages.truncate(at);
        self.shown.go_back(at - self.system_len());
        Some(text)
    }

    /// Answer a user's message, which takes the place of one that has no answer. When nothing was generated, the
    /// conversation stays as it was.
    pub(crate) fn say(&mut self, text: &str, options: &Options, sink: &mut Sink) -> Result<Outcome> {
        let before = (self.messages.clone(), self.shown.clone());
        self.messages.pop_if(|m| m.role == Role::User);
        self.attempt(text, before, options, sink)
    }

    /// The last user message.
    pub(crate) fn last_message(&self) -> Option<&str> {
        self.messages.iter().rfind(|m| m.role == Role::User).map(|m| m.content.as_str())
    }

    /// Whether the last message has no answer, as after a crash.
    pub(crate) fn is_unanswered(&self) -> bool {
        self.messages.last().is_some_and(|m| m.role == Role::User)
    }

    /// Answer the last user message once more, or `text` in its place. When nothing was generated, the conversation
    /// stays as it was.
    pub(crate) fn answer_again(
        &mut self,
        text: Option<&str>,
        options: &Options,
        sink: &mut Sink,
    ) -> Result<Outcome> {
        let before = (self.messages.clone(), self.shown.clone());
        let old = self.undo().ok_or_else(|| Error::failed("there is no message to answer again"))?;
        self.attempt(text.unwrap_or(&old), before, options, sink)
    }

    /// Answer a message. It is on file before it is evaluated; when nothing was generated, all is again as it was
    /// `before`.
    fn attempt(
        &mut self,
        text: &str,
        before: (Vec<Message>, Shown),
        options: &Options,
        sink: &mut Sink,
    ) -> Result<Outcome> {
        let (at, shown) = (self.messages.len() - self.system_len(), self.shown.clone());
        self.messages.push(Message::new(Role::User, text));
        let held = self.journal.as_mut().map_or(Ok(()), |journal| journal.hold(&self.messages));
        let outcome = held.and_then(|()| self.reply(options, sink));
        match &outcome {
            Ok(outcome) if outcome.finish != Finish::Interrupted || !outcome.text.is_empty() => {
                self.messages.push(Message::new(Role::Assistant, &outcome.text));
                self.shown.remember(at, &shown);
            }
            _ => (self.messages, self.shown) = before,
        }
        let recorded = self.record();
        // What went wrong first is what is told.
        outcome.and_then(|outcome| recorded.map(|()| outcome))
    }

    /// The template did not come to an end and may be running still, so the process should.
    pub(crate) fn is_stuck(&self) -> bool {
        self.template.as_ref().is_some_and(Template::is_stuck)
    }

    /// Continue a text, without a template.
    pub(crate) fn complete(&mut self, text: &str, options: &Options, sink: &mut Sink) -> Result<Outcome> {
        let started = Instant::now();
        let tokens = prompt::encode_raw(&self.engine, text)?;
        self.check_length(tokens.len())?;
        let some = SOME.map(|rest| prompt::encode_raw(&self.engine, &format!("{}{rest}", self.preamble)));
        let stable = shared_tokens(some)?;
        let count = stable.len();
        self.stable = Some(stable);
        let mut answer = Answer::raw(self, options, tokens, started);
        answer.stable = count;
        answer.run(sink)
    }

    /// The answer to the messages as they stand.
    fn reply(&mut self, options: &Options, sink: &mut Sink) -> Result<Outcome> {
        let started = Instant::now();
        let encoded = self.encode(options)?;
        let budget = Budget::new(self.engine.window(), options.max_tokens);
        let is_full = budget.is_full(encoded.tokens.len());
        let stable = self.stable.take().map_or_else(|| self.shared_tokens(options), Ok)?;
        let count = stable.len();
        self.stable = Some(stable);
        let mut answer = Answer::new(self, options, encoded, started);
        answer.stable = count;
        let makes_room = options.overflow != Overflow::Stop && is_full;
        if makes_room && matches!(answer.make_room(sink)?, Room::Interrupted) {
            return Ok(answer.outcome);
        }
        let tokens = answer.prompt.len();
        answer.session.check_conversation(tokens, options)?;
        answer.run(sink)
    }

    /// What the model is shown, as tokens.
    fn encode(&self, options: &Options) -> Result<Encoded> {
        self.encode_messages(&self.visible(), options)
    }

    fn encode_messages(&self, messages: &[Message], options: &Options) -> Result<Encoded> {
        let template =
            self.template.as_ref().ok_or_else(|| Error::failed("the model has no chat template"))?;
        prompt::encode(&self.engine, template, messages, options.think, options.now)
    }

    /// The first tokens that all conversations share which have the system message and the beginning of the first
    /// message.
    fn shared_tokens(&self, options: &Options) -> Result<Vec<Token>> {
        shared_tokens(SOME.map(|question| {
            let mut messages = self.messages[..self.system_len()].to_vec();
            messages.push(Message::new(Role::User, format!("{}{question}", self.preamble)));
            Ok(self.encode_messages(&messages, options)?.tokens)
        }))
    }

    /// How many those are.
    fn shared(&self, options: &Options) -> Result<usize> {
        Ok(self.shared_tokens(options)?.len())
    }

    fn system_len(&self) -> usize {
        usize::from(self.system().is_some())
    }
}

/// What two prompts with different questions have in common.
fn shared_tokens([one, other]: [Result<Vec<Token>>; 2]) -> Result<Vec<Token>> {
    let mut tokens = one?;
    tokens.truncate(common(&tokens, &other?));
    Ok(tokens)
}

#[cfg(test)]
mod tests;
