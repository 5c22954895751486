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
        answer.session.check_length(answer.prompt.len())?;
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
mod tests {
    use super::*;
    use crate::engine::scripted::{Scripted, shown};

    /// `S: …` lines, one per message, and the head of the answer.
    const TEMPLATE: &str = "{% for m in messages %}{{ m.role[0] | upper }}: {{ m.content }}\n{% endfor %}A: ";

    fn session(window: usize, answers: &[&str]) -> Session<Scripted> {
        let template = Template::new(TEMPLATE, "", "").unwrap();
        Session::new(Scripted::new(window, answers), Some(template))
    }

    fn options() -> Options {
        Options {
            sampling: Sampling::default(),
            stops: Vec::new(),
            max_tokens: None,
            think: Think::Auto,
            overflow: Overflow::Stop,
            keep: 0,
            now: Now::default(),
        }
    }

    /// The outcome and the events, the reports on prefill left out.
    fn say(session: &mut Session<Scripted>, text: &str, options: &Options) -> (Result<Outcome>, Vec<String>) {
        let mut events = Vec::new();
        let outcome = session.say(text, options, &mut |event| {
            if !matches!(event, Event::Prefill { .. }) {
                events.push(format!("{event:?}"));
            }
            ControlFlow::Continue(())
        });
        (outcome, events)
    }

    fn contents(session: &Session<Scripted>) -> Vec<&str> {
        session.messages().iter().map(|m| m.content.as_str()).collect()
    }

    #[test]
    fn the_first_token_counts_when_it_is_given_out_and_the_others_take_time() {
        let mut session = session(1000, &["", "P", "Pa"]);
        for (has_text, has_steps) in [(false, false), (true, false), (true, true)] {
            let metrics = say(&mut session, "?", &options()).0.unwrap().metrics;
            let found = (metrics.ttft.is_some(), metrics.steps.percentile(50).is_some());
            assert_eq!(found, (has_text, has_steps));
        }
        // What a stop text may begin with is held back, and never given out when it is one.
        let mut session = self::session(1000, &["Pa"]);
        let stops = Options { stops: vec!["Pa".to_owned()], ..options() };
        let metrics = say(&mut session, "?", &stops).0.unwrap().metrics;
        assert_eq!((metrics.generated, metrics.ttft), (2, None));
    }

    #[test]
    fn a_second_turn_evaluates_only_what_is_new() {
        let mut session = session(1000, &["Paris.", "Rome."]);
        let (first, _) = say(&mut session, "France?", &options());
        let first = first.unwrap();
        assert_eq!((first.text.as_str(), first.finish), ("Paris.", Finish::EndOfTurn));
        let m = &first.metrics;
        assert_eq!((m.prompt, m.cached, m.evaluated, m.generated), (14, 0, 14, 6));
        let (second, _) = say(&mut session, "Italy?", &options());
        let m = second.unwrap().metrics;
        // Cached are the first prompt and the six letters of its answer; new are its line end and the next line.
        assert_eq!((m.prompt, m.cached, m.evaluated), (34, 20, 14));
        assert_eq!(shown(&session.engine.cache), "U: France?\nA: Paris.\nU: Italy?\nA: Rome.");
    }

    #[test]
    fn a_memory_that_cannot_go_back_returns_to_its_marks() {
        let mut session = session(1000, &["one", "two", "three", "four", "five"]);
        session.engine.cannot_go_back = true;
        session.set_system("S");
        let (first, _) = say(&mut session, "a", &options());
        let m = first.unwrap().metrics;
        assert_eq!((m.prompt, m.cached, m.not_cached), (13, 0, Some("nothing was cached")));
        let mut quiet = |_: Event<'_>| ControlFlow::Continue(());
        // The answer begins where a mark is; only the one token is evaluated that always is.
        let m = session.answer_again(None, &options(), &mut quiet).unwrap().metrics;
        assert_eq!((m.cached, m.evaluated, m.not_cached), (12, 1, None));
        // Another message goes back to the end of the system prompt and the beginning of every message.
        let m = session.answer_again(Some("b"), &options(), &mut quiet).unwrap().metrics;
        assert_eq!((m.cached, m.evaluated), (8, 5));
        say(&mut session, "second", &options()).0.unwrap();
        // A message changed in the middle goes back to the end of the answer before it.
        let m = session.answer_again(Some("sec"), &options(), &mut quiet).unwrap().metrics;
        assert_eq!((m.prompt, m.cached, m.not_cached), (29, 18, Some("the model's memory cannot go back")));
        assert_eq!(shown(&session.engine.cache), "S: S\nU: b\nA: three\nU: sec\nA: five");
    }

    #[test]
    fn regenerating_evaluates_one_token() {
        let mut session = session(1000, &["one", "two"]);
        say(&mut session, "a", &options()).0.unwrap();
        let mut quiet = |_: Event<'_>| ControlFlow::Continue(());
        let outcome = session.answer_again(None, &options(), &mut quiet).unwrap();
        assert_eq!((outcome.text.as_str(), outcome.metrics.evaluated), ("two", 1));
        assert_eq!(contents(&session), ["a", "two"]);
    }

    #[test]
    fn an_answer_ends_by_stop_string_length_or_window() {
        let stop = Options { stops: vec!["cd".to_owned()], ..options() };
        let length = Options { max_tokens: Some(3), ..options() };
        let none = Options { max_tokens: Some(0), ..options() };
        for (window, options, text, finish) in [
            (1000, &stop, "ab", Finish::Stop),
            (1000, &length, "abc", Finish::Length),
            (1000, &none, "", Finish::Length),
            (10, &options(), "abc", Finish::Window),
        ] {
            let mut session = session(window, &["abcdef"]);
            let outcome = say(&mut session, "a", options).0.unwrap();
            assert_eq!((outcome.text.as_str(), outcome.finish), (text, finish));
            assert_eq!(contents(&session), ["a", text]);
        }
    }

    #[test]
    fn a_character_cut_by_the_length_is_not_printed_as_garbage() {
        let mut session = session(1000, &["é"]);
        let outcome = say(&mut session, "a", &Options { max_tokens: Some(1), ..options() }).0.unwrap();
        assert_eq!((outcome.text.as_str(), outcome.metrics.generated), ("", 1));
    }

    #[test]
    fn a_prompt_that_does_not_fit_is_refused_before_it_is_evaluated() {
        for overflow in [Overflow::Stop, Overflow::Rebuild, Overflow::Slide] {
            let mut session = session(20, &["no"]);
            let (outcome, _) = say(&mut session, "0123456789012", &Options { overflow, ..options() });
            let error = outcome.unwrap_err();
            assert_eq!(error.kind, Kind::PromptTooLong);
            assert_eq!(error.message, "the prompt is 20 tokens long, the context holds 20");
            assert_eq!((session.engine.fed, contents(&session).len()), (0, 0));
        }
    }

    #[test]
    fn the_oldest_turns_go_and_the_system_message_stays() {
        // Sliding evaluates the new message and the end of the answer before it, which the template adds.
        for (overflow, evaluated) in [(Overflow::Slide, 13), (Overflow::Rebuild, 33)] {
            let mut session = session(64, &["first answer", "second answer", "third"]);
            session.set_system("Brief.");
            let options = Options { overflow, ..options() };
            say(&mut session, "one", &options).0.unwrap();
            say(&mut session, "two", &options).0.unwrap();
            let (outcome, events) = say(&mut session, "three", &options);
            assert_eq!(events[0], "Dropped { turns: 1, tokens: 23, used: 46, window: 64 }");
            let m = outcome.unwrap().metrics;
            assert_eq!((m.dropped_turns, m.dropped_tokens, m.evictions), (1, 23, 1));
            assert_eq!((m.evaluated, m.cached), (evaluated, 46 - evaluated), "{overflow:?}");
            assert_eq!(session.engine.removed.len(), usize::from(overflow == Overflow::Slide));
            assert_eq!(
                shown(&session.engine.cache),
                "S: Brief.\nU: two\nA: second answer\nU: three\nA: third"
            );
            assert_eq!(
                contents(&session),
                ["Brief.", "one", "first answer", "two", "second answer", "three", "third"],
                "what left the window is still part of the conversation"
            );
        }
    }

    #[test]
    fn an_answer_that_fills_the_window_goes_on_over_the_rest() {
        for overflow in [Overflow::Slide, Overflow::Rebuild] {
            let mut session =
                session(64, &["0123456789", "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz"]);
            let options = Options { overflow, ..options() };
            say(&mut session, "one", &options).0.unwrap();
            let (outcome, events) = say(&mut session, "two", &options);
            let outcome = outcome.unwrap();
            assert_eq!((outcome.text.len(), outcome.finish), (52, Finish::EndOfTurn));
            assert!(
                events.contains(&"Dropped { turns: 1, tokens: 21, used: 44, window: 64 }".to_owned()),
                "{events:?}"
            );
            let cache = shown(&session.engine.cache);
            assert_eq!(cache, format!("U: two\nA: {}", outcome.text));
        }
    }

    #[test]
    fn an_answer_longer_than_the_window_loses_its_oldest_half_again_and_again() {
        let long: String = (0..400).map(|i| char::from(b'a' + u8::try_from(i % 26).unwrap())).collect();
        for (overflow, cannot_go_back) in
            [(Overflow::Slide, false), (Overflow::Slide, true), (Overflow::Rebuild, false)]
        {
            let mut session = session(64, &[&long, "next"]);
            session.engine.cannot_go_back = cannot_go_back;
            let options = Options { overflow, ..options() };
            let (outcome, events) = say(&mut session, "one", &options);
            let outcome = outcome.unwrap();
            assert_eq!((outcome.text.as_str(), outcome.finish), (long.as_str(), Finish::EndOfTurn));
            // 55 tokens beside the prompt, 28 of which go each time.
            let m = &outcome.metrics;
            assert_eq!((m.evictions, m.dropped_turns, m.dropped_tokens), (13, 0, 13 * 28));
            let tail = &long[13 * 28..];
            assert_eq!(shown(&session.engine.cache), format!("U: one\nA: {tail}"));
            let said = events.iter().filter(|e| e.starts_with("Unshiftable")).count();
            assert_eq!(said, usize::from(cannot_go_back), "said once");
            // The prompt is evaluated once, and each time the token that found no room. Rebuilding adds the other 26
            // that stay, and without going back also the last token of the prompt.
            let again = match (overflow, cannot_go_back) {
                (Overflow::Slide, false) => 0,
                (_, true) => 27,
                (_, false) => 26,
            };
            assert_eq!(m.evaluated, 10 + 13 * (1 + again), "{overflow:?} {cannot_go_back}");
            // The whole turn has to go, because it never fits.
            let (outcome, events) = say(&mut session, "two", &options);
            assert_eq!(outcome.unwrap().text, "next");
            assert!(events[0].starts_with("Dropped { turns: 1,"), "{events:?}");
            assert_eq!(shown(&session.engine.cache), "U: two\nA: next");
        }
    }

    #[test]
    fn the_window_is_accounted_for_to_the_last_token() {
        let mut session = session(200, &["1"; 40]);
        session.set_system("Brief.");
        let options = Options { overflow: Overflow::Slide, ..options() };
        let usage = session.context(&options).unwrap();
        // `S: Brief.` and its line end, and `U: ` of the first message.
        assert_eq!((usage.system, usage.used(), usage.window, usage.turns.len()), (13, 13, 200, 0));
        for i in 0..25 {
            say(&mut session, &format!("{i:02}"), &options).0.unwrap();
        }
        let usage = session.context(&options).unwrap();
        assert_eq!(usage.used(), session.encode(&options).unwrap().tokens.len());
        let shown = session.visible().iter().filter(|m| m.role == Role::User).count();
        assert_eq!(usage.dropped + usage.earlier.0 + usage.turns.len(), 25);
        assert_eq!(usage.earlier.0 + usage.turns.len(), shown);
        assert_eq!(usage.turns.last().unwrap(), &("24".to_owned(), 11));
        session.clear();
        for i in 0..22 {
            session.messages.push(Message::new(Role::User, format!("{i}")));
            session.messages.push(Message::new(Role::Assistant, "ok"));
        }
        let usage = session.context(&options).unwrap();
        assert_eq!((usage.earlier.0, usage.turns.len()), (2, 20));
        assert_eq!(usage.used(), session.encode(&options).unwrap().tokens.len());
    }

    #[test]
    fn under_stop_a_full_window_ends_the_answer() {
        let mut session = session(64, &[&"x".repeat(200)]);
        let outcome = say(&mut session, "one", &options()).0.unwrap();
        assert_eq!((outcome.text.len(), outcome.finish), (55, Finish::Window));
    }

    #[test]
    fn the_turns_of_the_first_tokens_stay_when_that_is_wanted() {
        for (keep, first) in [
            (0, "U: thr\nA: 3\nU: fou"),
            (3, "U: thr\nA: 3\nU: fou"),
            (4, "U: one\nA: 1\nU: fou"),
            (12, "U: one\nA: 1\nU: fou"),
            (13, "U: one\nA: 1\nU: two\nA: 2\nU: fiv"),
        ] {
            let mut session = session(48, &["1", "2", "3", "4", "5"]);
            let options = Options { overflow: Overflow::Slide, keep, ..options() };
            for text in ["one", "two", "thr", "fou", "fiv"] {
                say(&mut session, text, &options).0.unwrap();
            }
            let cache = shown(&session.engine.cache);
            assert!(cache.starts_with(first), "{keep}: {cache}");
        }
    }

    #[test]
    fn a_raw_text_keeps_its_beginning_and_its_end() {
        let long = "x".repeat(100) + "end";
        for (keep, shows) in [(0, "0123"), (10, "0123456789")] {
            let mut session = session(64, &[&long]);
            let options = Options { overflow: Overflow::Slide, keep, ..options() };
            let mut quiet = |_: Event<'_>| ControlFlow::Continue(());
            let outcome = session.complete("0123456789abcdef", &options, &mut quiet).unwrap();
            assert_eq!((outcome.text.as_str(), outcome.finish), (long.as_str(), Finish::EndOfTurn));
            let cache = shown(&session.engine.cache);
            assert!(cache.starts_with(&format!("{shows}x")) && cache.ends_with("end"), "{keep}: {cache}");
        }
    }

    #[test]
    fn breaking_keeps_the_part_and_the_turns() {
        let mut session = session(1000, &["abcdef", "next"]);
        let mut seen = String::new();
        let outcome = session.say("a", &options(), &mut |event| match event {
            Event::Text(text) => {
                seen += text;
                if seen == "abc" { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            }
            _ => ControlFlow::Continue(()),
        });
        assert_eq!(outcome.unwrap().finish, Finish::Interrupted);
        assert_eq!(contents(&session), ["a", "abc"]);
        say(&mut session, "b", &options()).0.unwrap();
        assert_eq!(shown(&session.engine.cache), "U: a\nA: abc\nU: b\nA: next");
    }

    #[test]
    fn the_brake_during_prefill_leaves_the_conversation_as_it_was() {
        let mut session = session(1000, &["abc"]);
        session.engine.brake_after = Some(5);
        let outcome = say(&mut session, "hello", &options()).0.unwrap();
        assert_eq!((outcome.finish, outcome.text.as_str()), (Finish::Interrupted, ""));
        assert_eq!((contents(&session).len(), shown(&session.engine.cache).as_str()), (0, "U: he"));
        let m = say(&mut session, "hello", &options()).0.unwrap().metrics;
        assert_eq!((m.cached, m.evaluated), (5, 7), "what was evaluated is used");
    }

    #[test]
    fn a_state_that_was_left_half_done_is_not_used_again() {
        let mut session = session(1000, &["one", "two"]);
        session.engine.cannot_go_back = true;
        say(&mut session, "a", &options()).0.unwrap();
        session.engine.brake_after = Some(session.engine.fed + 3);
        assert_eq!(say(&mut session, "bcdef", &options()).0.unwrap().finish, Finish::Interrupted);
        assert_eq!(shown(&session.engine.cache), "U: a\nA: one", "the last mark");
        let m = say(&mut session, "bcdef", &options()).0.unwrap().metrics;
        assert_eq!((m.cached, m.evaluated), (11, m.prompt - 11));
    }

    #[test]
    fn what_is_evaluated_again_is_said() {
        let mut session = session(1000, &["one", "two"]);
        session.engine.cannot_go_back = true;
        say(&mut session, "a", &options()).0.unwrap();
        session.undo();
        let (_, events) = say(&mut session, "ab", &options());
        assert_eq!(events[0], "Reread { tokens: 1 }");
    }

    #[test]
    fn a_long_conversation_finds_the_turns_to_drop_and_listens_to_the_brake() {
        let mut session = session(64, &["x"]);
        for i in 0..500 {
            session.messages.push(Message::new(Role::User, format!("{i:04}")));
            session.messages.push(Message::new(Role::Assistant, "ok"));
        }
        let options = Options { overflow: Overflow::Rebuild, ..options() };
        let outcome = session.say("now", &options, &mut |_| ControlFlow::Break(())).unwrap();
        assert_eq!((outcome.finish, session.dropped, session.messages.len()), (Finish::Interrupted, 0, 1000));
        let (outcome, events) = say(&mut session, "now", &options);
        // 14 tokens a turn, 10 for the last message and the head of the answer: two old turns fit into 48.
        assert_eq!(events[0], "Dropped { turns: 498, tokens: 6972, used: 38, window: 64 }");
        assert_eq!(outcome.unwrap().metrics.dropped_turns, 498);
    }

    #[test]
    fn a_refused_message_drops_and_announces_nothing() {
        let mut session = session(64, &["one", "no"]);
        let options = Options { overflow: Overflow::Rebuild, ..options() };
        say(&mut session, "a", &options).0.unwrap();
        let (outcome, events) = say(&mut session, &"b".repeat(80), &options);
        assert_eq!((outcome.unwrap_err().kind, events.len(), session.dropped), (Kind::PromptTooLong, 0, 0));
    }

    #[test]
    fn a_failing_engine_leaves_the_conversation_as_it_was() {
        let mut session = session(1000, &["abc"]);
        session.engine.fail_after = Some(14);
        assert_eq!(say(&mut session, "hello", &options()).0.unwrap_err().message, "the script says so");
        assert_eq!(contents(&session).len(), 0);
    }

    #[test]
    fn undo_takes_back_a_whole_turn_also_a_dropped_one() {
        let mut session = session(1000, &["x", "y"]);
        session.set_system("S");
        say(&mut session, "a", &options()).0.unwrap();
        say(&mut session, "b", &options()).0.unwrap();
        session.dropped = 4;
        assert_eq!(session.undo().as_deref(), Some("b"));
        assert_eq!((contents(&session), session.dropped), (vec!["S", "a", "x"], 2));
        assert_eq!(session.undo().as_deref(), Some("a"));
        assert_eq!((session.undo(), contents(&session)), (None, vec!["S"]));
    }

    /// A session that is kept in a file.
    fn kept(window: usize, answers: &[&str]) -> (tempfile::TempDir, Session<Scripted>) {
        let folder = tempfile::tempdir().unwrap();
        let claim = transcript::Claim::take(&folder.path().join("a.jsonl")).unwrap().unwrap();
        let mut session = session(window, answers);
        session.keep_in(Journal::open(claim).unwrap()).unwrap();
        (folder, session)
    }

    fn on_file(folder: &tempfile::TempDir) -> Vec<String> {
        let read = transcript::read(&folder.path().join("a.jsonl")).unwrap();
        let messages = read.map_or(Vec::new(), |read| read.transcript.messages);
        messages.into_iter().map(|message| message.content).collect()
    }

    #[test]
    fn a_message_is_on_file_before_it_is_evaluated_and_an_answer_when_it_is_whole() {
        let (folder, mut session) = kept(1000, &["one", "two"]);
        let mut seen = Vec::new();
        let mut quiet = |event: Event<'_>| {
            if matches!(event, Event::Prefill { .. } | Event::Text(_)) {
                seen.push(on_file(&folder));
            }
            ControlFlow::Continue(())
        };
        session.say("a", &options(), &mut quiet).unwrap();
        assert!(!seen.is_empty() && seen.iter().all(|held| held == &["a"]), "{seen:?}");
        assert_eq!(on_file(&folder), ["a", "one"]);
        // The old answer stays until the new one is there.
        seen.clear();
        let mut quiet = |_: Event<'_>| {
            seen.push(on_file(&folder));
            ControlFlow::Continue(())
        };
        session.answer_again(None, &options(), &mut quiet).unwrap();
        assert!(!seen.is_empty() && seen.iter().all(|held| held == &["a", "one"]), "{seen:?}");
        assert_eq!(on_file(&folder), ["a", "two"]);
    }

    #[test]
    fn a_message_that_got_no_answer_is_not_kept() {
        let (folder, mut session) = kept(30, &["one"]);
        say(&mut session, "a", &options()).0.unwrap();
        say(&mut session, "0123456789012", &options()).0.unwrap_err();
        assert_eq!(on_file(&folder), ["a", "one"]);
        session.engine.brake_after = Some(session.engine.fed + 1);
        assert_eq!(say(&mut session, "b", &options()).0.unwrap().finish, Finish::Interrupted);
        assert_eq!(on_file(&folder), ["a", "one"]);
    }

    #[test]
    fn a_message_that_cannot_be_kept_is_not_answered() {
        let (folder, mut session) = kept(1000, &["one", "two"]);
        say(&mut session, "a", &options()).0.unwrap();
        let fed = session.engine.fed;
        // A folder where the new file is to be written.
        std::fs::create_dir(folder.path().join("a.tmp")).unwrap();
        session.undo();
        let (outcome, _) = say(&mut session, "b", &options());
        assert!(outcome.unwrap_err().message.starts_with("cannot write `"));
        assert_eq!((session.engine.fed, contents(&session).len()), (fed, 0));
        assert_eq!(on_file(&folder), ["a", "one"], "nothing earlier is lost");
        std::fs::remove_dir(folder.path().join("a.tmp")).unwrap();
        session.record().unwrap();
        assert_eq!(on_file(&folder), [""; 0]);
    }

    #[test]
    fn a_message_without_an_answer_is_answered_or_makes_room() {
        for again in [true, false] {
            let (folder, mut session) = kept(1000, &["one"]);
            session.set_messages(vec![Message::new(Role::User, "a")]);
            assert!(session.is_unanswered());
            let mut quiet = |_: Event<'_>| ControlFlow::Continue(());
            let question = if again { "a" } else { "b" };
            if again {
                session.answer_again(None, &options(), &mut quiet).unwrap();
            } else {
                session.say(question, &options(), &mut quiet).unwrap();
            }
            assert_eq!(contents(&session), [question, "one"]);
            assert_eq!(on_file(&folder), [question, "one"]);
        }
    }

    #[test]
    fn a_message_without_an_answer_comes_back_when_what_replaced_it_got_none() {
        let mut session = session(1000, &["one"]);
        session.set_messages(vec![Message::new(Role::User, "a")]);
        session.engine.brake_after = Some(2);
        say(&mut session, "b", &options()).0.unwrap();
        assert_eq!(contents(&session), ["a"]);
    }

    #[test]
    fn thoughts_are_kept_apart_also_when_their_tags_are_control_tokens() {
        let template = Template::new(&format!("{TEMPLATE}{{# </think> #}}"), "", "").unwrap();
        let engine = Scripted::new(1000, &["<think>\nhm\n</think>\n\nyes"]);
        let mut session = Session::new(engine, Some(template));
        let outcome = say(&mut session, "a", &options()).0.unwrap();
        assert_eq!((outcome.thought.as_str(), outcome.text.as_str()), ("hm", "yes"));
        assert_eq!(contents(&session), ["a", "yes"]);
    }

    #[test]
    fn control_tokens_are_not_part_of_the_text() {
        let mut session = session(1000, &["a<|other|>b"]);
        assert_eq!(say(&mut session, "x", &options()).0.unwrap().text, "ab");
    }

    #[test]
    fn a_raw_text_is_continued_without_a_template() {
        let mut engine = Scripted::new(1000, &[" time."]);
        engine.adds_bos = true;
        let mut session = Session::new(engine, None);
        let mut quiet = |_: Event<'_>| ControlFlow::Continue(());
        let outcome = session.complete("Once upon a", &options(), &mut quiet).unwrap();
        assert_eq!((outcome.text.as_str(), outcome.metrics.prompt), (" time.", 12));
        assert_eq!(shown(&session.engine.cache), "<s>Once upon a time.");
    }
}
