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
    outcome: Outcome,
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
            started: Instant::now(),
            first: None,
            prefill_after_first: Duration::ZERO,
        }
    }

    pub(super) fn run(mut self, sink: &mut Sink) -> Result<Outcome> {
        if self.folded_system && sink(Event::FoldedSystem).is_break() {
            return Ok(self.outcome);
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
        let plan = self.session.cache.plan(&wanted);
        let kept = self.session.engine.truncate(plan.keep)?;
        self.session.cache.truncate(kept);
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
            if sink(Event::Prefill { done, total }).is_break() {
                return Ok(ControlFlow::Break(()));
            }
            let fed = self.feed(chunk)?;
            done += fed;
            self.outcome.metrics.evaluated += fed;
            if fed < chunk.len() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(sink(Event::Prefill { done, total }))
    }

    /// Evaluate, and mirror what was evaluated. Fewer than given when the brake was on.
    fn feed(&mut self, tokens: &[Token]) -> Result<usize> {
        let fed = match self.session.engine.feed(tokens)? {
            Fed::All => tokens.len(),
            Fed::Interrupted(count) => count,
        };
        self.session.cache.extend(&tokens[..fed]);
        Ok(fed)
    }

    fn decode(&mut self, sink: &mut Sink) -> Result<Finish> {
        loop {
            if self.options.max_tokens == Some(self.generated.len()) {
                return Ok(Finish::Length);
            }
            let token = self.session.engine.sample()?;
            if self.session.engine.is_end(token) {
                self.count_time();
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
            return Ok((self.feed(&[token])? == 0).then_some(Finish::Interrupted));
        }
        let can_drop = self.chat && self.options.overflow == Overflow::Rebuild;
        if !can_drop || !self.drop_turns(sink)? {
            return Ok(Some(Finish::Window));
        }
        Ok(self.prefill(sink)?.is_break().then_some(Finish::Interrupted))
    }

    /// Drop the oldest turns until three quarters of the window hold the rest, and say so. False when the prompt
    /// and the answer so far leave no room even then.
    pub(super) fn drop_turns(&mut self, sink: &mut Sink) -> Result<bool> {
        let window = self.session.engine.window();
        let before = self.prompt.len();
        let mut turns = 0;
        while self.prompt.len() + self.generated.len() > window * 3 / 4 && self.session.drop_oldest_turn() {
            turns += 1;
            self.prompt = self.session.encode(self.options)?.tokens;
        }
        let used = self.prompt.len() + self.generated.len();
        if turns > 0 {
            self.outcome.metrics.dropped_turns += turns;
            let tokens = before.saturating_sub(self.prompt.len());
            // The brake is asked again at the next chunk; the news itself can't be refused.
            let _ = sink(Event::Dropped { turns, tokens, used, window });
        }
        Ok(turns > 0 && used < window)
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

    fn emit(&mut self, parts: Vec<Part>, sink: &mut Sink) -> ControlFlow<()> {
        for part in parts {
            match part {
                Part::Text(text) => {
                    self.outcome.text.push_str(&text);
                    sink(Event::Text(&text))?;
                }
                Part::Thought(text) => {
                    self.outcome.thought.push_str(&text);
                    sink(Event::Thought(&text))?;
                }
            }
        }
        ControlFlow::Continue(())
    }

    /// Decode time runs from the first token to the latest.
    fn count_time(&mut self) {
        let now = Instant::now();
        let first = *self.first.get_or_insert(now);
        self.outcome.metrics.decode = (now - first).saturating_sub(self.prefill_after_first);
    }
}
