//! One answer: the prompt into the cache, then token after token, until something ends it. The only generation loop.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use super::prompt::Encoded;
use super::text::{Part, Splitter, Tags};
use super::{Event, Finish, Metrics, Options, Outcome, Overflow, Session, Sink, Template};
use crate::engine::{Engine, Fed, Token};
use crate::error::Result;

/// Tokens evaluated between two progress reports.
const CHUNK: usize = 512;

/// Whether a full window could be made to hold more.
pub(super) enum Room {
    Made,
    /// The prompt and the answer so far fill the window by themselves.
    NotEnough,
    Interrupted,
}

/// One answer in the making.
pub(super) struct Answer<'s, 'o, E: Engine> {
    pub(super) session: &'s mut Session<E>,
    options: &'o Options,
    /// The prompt as it is shown to the model now.
    pub(super) prompt: Vec<Token>,
    folded_system: bool,
    /// Whether there are turns to drop.
    chat: bool,
    /// Tokens of the answer, for when the window is rebuilt under it.
    generated: Vec<Token>,
    splitter: Splitter,
    tags: Option<Tags>,
    pub(super) outcome: Outcome,
    started: Instant,
    first: Option<Instant>,
    prefill_after_first: Duration,
}

impl<'s, 'o, E: Engine> Answer<'s, 'o, E> {
    pub(super) fn new(
        session: &'s mut Session<E>,
        options: &'o Options,
        encoded: Encoded,
        chat: bool,
        started: Instant,
    ) -> Self {
        let tags = session.template.as_ref().filter(|_| chat).and_then(Template::thinking);
        Self {
            splitter: Splitter::new(options.stops.clone(), tags, encoded.opens_thought),
            tags,
            session,
            options,
            folded_system: encoded.folded_system,
            prompt: encoded.tokens,
            chat,
            generated: Vec::new(),
            outcome: Outcome {
                finish: Finish::Interrupted,
                text: String::new(),
                thought: String::new(),
                metrics: Metrics::default(),
            },
            started,
            first: None,
            prefill_after_first: Duration::ZERO,
        }
    }

    pub(super) fn run(mut self, sink: &mut Sink) -> Result<Outcome> {
        if self.folded_system && !std::mem::replace(&mut self.session.said_folded, true) {
            // The brake is asked again at the first chunk; the news itself can't be refused.
            let _ = sink(Event::FoldedSystem);
        }
        self.outcome.metrics.prompt = self.prompt.len();
        self.outcome.finish = match self.prefill(sink)? {
            ControlFlow::Continue(()) => {
                self.session.engine.begin(&self.options.sampling, &self.prompt)?;
                self.decode(sink)?
            }
            ControlFlow::Break(()) => Finish::Interrupted,
        };
        let rest = self.splitter.finish();
        // The answer is over; a sink that has had enough changes nothing.
        let _ = self.emit(rest, sink);
        let now = Instant::now();
        let metrics = &mut self.outcome.metrics;
        metrics.total = now - self.started;
        metrics.ttft = self.first.map(|first| first - self.started);
        metrics.used = self.session.cache.len();
        Ok(self.outcome)
    }

    /// Bring the cache to the prompt followed by what has been answered so far.
    fn prefill(&mut self, sink: &mut Sink) -> Result<ControlFlow<()>> {
        let start = Instant::now();
        let wanted = [self.prompt.as_slice(), self.generated.as_slice()].concat();
        let keep = self.session.cache.plan(&wanted);
        let kept = self.session.engine.truncate(keep)?;
        self.session.cache.truncate(kept);
        if kept < keep {
            // As above.
            let _ = sink(Event::Reread { tokens: keep - kept });
        }
        if self.generated.is_empty() {
            self.outcome.metrics.cached = kept;
        }
        let flow = self.feed_reporting(&wanted[kept..], sink)?;
        let took = start.elapsed();
        self.outcome.metrics.prefill += took;
        if self.first.is_some() {
            self.prefill_after_first += took;
        }
        Ok(flow)
    }

    fn feed_reporting(&mut self, tokens: &[Token], sink: &mut Sink) -> Result<ControlFlow<()>> {
        let total = tokens.len();
        let mut done = 0;
        for chunk in tokens.chunks(CHUNK) {
            if sink(Event::Prefill { done, total }).is_break()
                || self.feed(chunk, done + chunk.len() == total)?.is_break()
            {
                return Ok(ControlFlow::Break(()));
            }
            done += chunk.len();
            self.outcome.metrics.evaluated += chunk.len();
        }
        Ok(sink(Event::Prefill { done, total }))
    }

    /// Evaluate, and mirror what the cache holds then. Breaks when the brake was on.
    fn feed(&mut self, tokens: &[Token], output: bool) -> Result<ControlFlow<()>> {
        let before = self.session.cache.len();
        let fed = self.session.engine.feed(tokens, output);
        match fed {
            Ok(Fed::All) => self.session.cache.extend(tokens),
            Ok(Fed::Interrupted(held)) => {
                self.session.cache.truncate(held);
                self.session.cache.extend(&tokens[..held.saturating_sub(before)]);
            }
            // What the cache holds after a failure is not known, so nothing of it is used again.
            Err(_) => self.session.cache.truncate(self.session.engine.truncate(0)?),
        }
        Ok(if fed? == Fed::All { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
    }

    fn decode(&mut self, sink: &mut Sink) -> Result<Finish> {
        loop {
            if self.options.max_tokens == Some(self.generated.len()) {
                return Ok(Finish::Length);
            }
            let token = self.session.engine.sample()?;
            if self.session.engine.is_end(token) {
                self.first.get_or_insert_with(Instant::now);
                return Ok(Finish::EndOfTurn);
            }
            self.generated.push(token);
            self.outcome.metrics.generated += 1;
            self.count_time();
            let parts = self.splitter.push(&self.bytes(token));
            if self.emit(parts, sink).is_break() {
                return Ok(Finish::Interrupted);
            }
            if self.splitter.stopped() {
                return Ok(Finish::Stop);
            }
            if self.options.max_tokens == Some(self.generated.len()) {
                return Ok(Finish::Length);
            }
            if let Some(finish) = self.advance(token, sink)? {
                return Ok(finish);
            }
        }
    }

    /// Put the token just chosen into the cache, making room when there is none.
    fn advance(&mut self, token: Token, sink: &mut Sink) -> Result<Option<Finish>> {
        if self.session.cache.len() < self.session.engine.window() {
            return Ok(self.feed(&[token], true)?.is_break().then_some(Finish::Interrupted));
        }
        if !self.chat || self.options.overflow != Overflow::Rebuild {
            return Ok(Some(Finish::Window));
        }
        match self.make_room(sink)? {
            Room::Made => Ok(self.prefill(sink)?.is_break().then_some(Finish::Interrupted)),
            Room::NotEnough => Ok(Some(Finish::Window)),
            Room::Interrupted => Ok(Some(Finish::Interrupted)),
        }
    }

    /// Drop the oldest turns, as few as needed for three quarters of the window to hold the rest, and say so.
    pub(super) fn make_room(&mut self, sink: &mut Sink) -> Result<Room> {
        let window = self.session.engine.window();
        let (before, start) = (self.prompt.len(), self.session.dropped);
        // Dropping `low` turns is not enough; dropping `high` is, or is all that can go.
        let (mut low, mut high) = (0, self.session.droppable_turns());
        let mut prompt = Vec::new();
        while high > low {
            let turns = if high - low == 1 { high } else { low.midpoint(high) };
            // A long conversation takes time to encode.
            if sink(Event::Prefill { done: 0, total: before }).is_break() {
                self.session.dropped = start;
                return Ok(Room::Interrupted);
            }
            self.session.dropped = start;
            self.session.drop_turns(turns);
            prompt = self.session.encode(self.options)?.tokens;
            let enough = prompt.len() + self.generated.len() <= window * 3 / 4;
            match (turns == high, enough) {
                (true, _) => break,
                (false, true) => high = turns,
                (false, false) => low = turns,
            }
        }
        let used = prompt.len() + self.generated.len();
        if high == 0 || used >= window {
            self.session.dropped = start;
            return Ok(Room::NotEnough);
        }
        self.outcome.metrics.dropped_turns += high;
        let tokens = before.saturating_sub(prompt.len());
        self.prompt = prompt;
        // The brake is asked again at the next chunk; the news itself can't be refused.
        let _ = sink(Event::Dropped { turns: high, tokens, used, window });
        Ok(Room::Made)
    }

    /// The bytes of a token. Control tokens stand for nothing, unless a thought marker or a stop string is one.
    fn bytes(&self, token: Token) -> Vec<u8> {
        let bytes = self.session.engine.piece(token, false);
        if !bytes.is_empty() {
            return bytes;
        }
        let special = self.session.engine.piece(token, true);
        match std::str::from_utf8(&special) {
            Ok(text) if !text.is_empty() && self.listens_to(text) => special,
            _ => bytes,
        }
    }

    fn listens_to(&self, control: &str) -> bool {
        self.tags.is_some_and(|tags| tags.contain(control))
            || self.options.stops.iter().any(|stop| stop.contains(control))
    }

    /// All of it belongs to the answer, also what the sink does not want to hear any more.
    fn emit(&mut self, parts: Vec<Part>, sink: &mut Sink) -> ControlFlow<()> {
        let mut flow = ControlFlow::Continue(());
        for part in parts {
            let event = match &part {
                Part::Text(text) => {
                    self.outcome.text.push_str(text);
                    Event::Text(text)
                }
                Part::Thought(text) => {
                    self.outcome.thought.push_str(text);
                    Event::Thought(text)
                }
            };
            if sink(event).is_break() {
                flow = ControlFlow::Break(());
            }
        }
        flow
    }

    /// Decode time runs from the first token to the latest.
    fn count_time(&mut self) {
        let now = Instant::now();
        let first = *self.first.get_or_insert(now);
        self.outcome.metrics.decode = (now - first).saturating_sub(self.prefill_after_first);
    }
}
