//! A conversation with a language model: messages, the window they must fit in, and the one generation loop.
//!
//! It knows no files of models and no terminal. What happens is reported as [`Event`]s to a sink, whose answer can
//! stop the work; how an answer ended is an [`Outcome`], of which none is an error.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use crate::engine::{Engine, Sampling, Token};
use crate::error::{Error, Kind, Result};
use crate::human::Thousands;

mod answer;
pub(crate) mod cache;
mod keep;
pub(crate) mod metrics;
pub(crate) mod prompt;
pub(crate) mod speed;
pub(crate) mod template;
pub(crate) mod text;
pub(crate) mod transcript;
mod usage;
mod window;

use answer::{Answer, Room};
use cache::PrefixStore;
pub(crate) use metrics::Metrics;
use prompt::Encoded;
pub(crate) use template::{Message, Role, Template, Think};
use transcript::Journal;
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
    /// Messages after the system message that are shown to the model whatever leaves the window.
    pinned: usize,
    /// Messages after those that are no longer shown to it.
    dropped: usize,
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
            pinned: 0,
            dropped: 0,
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
        (self.pinned, self.dropped) = (0, 0);
    }

    /// Forget the conversation but not the system message.
    pub(crate) fn clear(&mut self) {
        self.messages.truncate(self.system_len());
        (self.pinned, self.dropped) = (0, 0);
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

    /// Take back the last user message and what was answered to it. The user's text, if there was one.
    pub(crate) fn undo(&mut self) -> Option<String> {
        let at = self.messages.iter().rposition(|m| m.role == Role::User)?;
        let text = std::mem::take(&mut self.messages[at].content);
        self.messages.truncate(at);
        let left = at - self.system_len();
        self.pinned = self.pinned.min(left);
        self.dropped = self.dropped.min(left - self.pinned);
        Some(text)
    }

    /// Answer a user's message, which takes the place of one that has no answer. When nothing was generated, the
    /// conversation stays as it was.
    pub(crate) fn say(&mut self, text: &str, options: &Options, sink: &mut Sink) -> Result<Outcome> {
        let before = (self.messages.clone(), self.pinned, self.dropped);
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
        let before = (self.messages.clone(), self.pinned, self.dropped);
        let old = self.undo().ok_or_else(|| Error::failed("there is no message to answer again"))?;
        self.attempt(text.unwrap_or(&old), before, options, sink)
    }

    /// Answer a message. It is on file before it is evaluated; when nothing was generated, all is again as it was
    /// `before`.
    fn attempt(
        &mut self,
        text: &str,
        before: (Vec<Message>, usize, usize),
        options: &Options,
        sink: &mut Sink,
    ) -> Result<Outcome> {
        self.messages.push(Message::new(Role::User, text));
        let held = self.journal.as_mut().map_or(Ok(()), |journal| journal.hold(&self.messages));
        let outcome = held.and_then(|()| self.reply(options, sink));
        match &outcome {
            Ok(outcome) if outcome.finish != Finish::Interrupted || !outcome.text.is_empty() => {
                self.messages.push(Message::new(Role::Assistant, &outcome.text));
            }
            _ => (self.messages, self.pinned, self.dropped) = before,
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

    /// A prompt must leave room for one token at least.
    fn check_length(&self, tokens: usize) -> Result<()> {
        let window = self.engine.window();
        if tokens < window {
            return Ok(());
        }
        let message = format!(
            "the prompt is {} tokens long, the context holds {}",
            Thousands(tokens as u64),
            Thousands(window as u64)
        );
        // A window many times as large is no way out.
        let larger = (tokens + 1).next_multiple_of(1024);
        let hint = if larger <= 8 * window.max(1024) {
            format!("shorten it, or try `--ctx {larger}`")
        } else {
            "shorten it, such as with `head -c 10000`".to_owned()
        };
        Err(Error::new(Kind::PromptTooLong, message).hint(hint))
    }

    /// So must a conversation, of which the last message need not be what is too long.
    fn check_conversation(&self, tokens: usize, options: &Options) -> Result<()> {
        let window = self.engine.window();
        if tokens < window {
            return Ok(());
        }
        let mut alone = self.messages[..self.system_len()].to_vec();
        alone.extend(self.messages.last().cloned());
        self.check_length(self.encode_messages(&alone, options)?.tokens.len())?;
        let message = format!(
            "with this message the conversation is {} tokens long, the context holds {}",
            Thousands(tokens as u64),
            Thousands(window as u64)
        );
        Err(Error::new(Kind::PromptTooLong, message).hint(match options.overflow {
            Overflow::Stop => {
                "`/undo` or `/clear` makes room; with `--overflow slide` the oldest turns make room by themselves"
            }
            // Only turns that stay can be in the way.
            Overflow::Slide | Overflow::Rebuild => "`/clear` makes room, or try a smaller `--keep`",
        }))
    }

    fn system_len(&self) -> usize {
        usize::from(self.system().is_some())
    }

    /// Visible turns before the one being answered that may go.
    fn droppable_turns(&mut self, options: &Options) -> Result<usize> {
        if self.dropped == 0 {
            self.pinned = self.pinned_messages(options)?;
        }
        let visible = &self.messages[self.system_len() + self.pinned + self.dropped..];
        Ok(visible.iter().filter(|m| m.role == Role::User).count().saturating_sub(1))
    }

    /// Messages after the system message that the first [`Options::keep`] tokens of the prompt belong to.
    fn pinned_messages(&self, options: &Options) -> Result<usize> {
        if options.keep == 0 {
            return Ok(0);
        }
        let all = self.encode_messages(&self.messages, options)?.tokens;
        let first = self.system_len();
        let is_user = |at: &usize| self.messages[*at].role == Role::User;
        let mut end = first;
        let mut tokens = self.shared(options)?;
        for next in (first + 1..self.messages.len()).filter(is_user) {
            if tokens >= options.keep {
                break;
            }
            end = next;
            tokens = common(&self.encode_messages(&self.messages[..end], options)?.tokens, &all);
        }
        Ok(end - first)
    }

    /// Let the oldest visible turns go, all that [`Self::droppable_turns`] counts at the most.
    fn drop_turns(&mut self, turns: usize) {
        let start = self.system_len() + self.pinned + self.dropped;
        let mut users = self.messages.iter().enumerate().skip(start).filter(|(_, m)| m.role == Role::User);
        if let Some((at, _)) = users.nth(turns) {
            self.dropped = at - self.system_len() - self.pinned;
        }
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
