//! One answer: the prompt into the cache, then token after token, until something ends it. The only generation loop.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use super::cache::FEWEST;
use super::keep::FromDisk;
use super::metrics::Source;
use super::prompt::Encoded;
use super::room::Room;
use super::text::{Part, Splitter, Tags};
use super::{Event, Finish, Metrics, Options, Outcome, Overflow, Session, Sink, Template};
use crate::engine::{Engine, Fed, Token};
use crate::error::Result;

/// The first tokens of a raw text that stay in any case: models need somewhere to put attention that they have no
/// use for ("attention sinks", Xiao et al., Efficient Streaming Language Models with Attention Sinks, 2023).
const SINKS: usize = 4;

/// One answer in the making.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(super) struct Answer<'s, 'o, E: Engine> {
    pub(super) session: &'s mut Session<E>,
    pub(super) options: &'o Options,
    /// What is shown to the model first and stays: the prompt, or of a raw text the beginning.
    pub(super) prompt: Vec<Token>,
    /// How many of its first tokens other questions share.
    pub(super) stable: usize,
    /// What follows and may lose its oldest part: the answer, behind the rest of a raw text.
    pub(super) stream: Vec<Token>,
    folded_system: bool,
    /// Whether there are turns to drop.
    pub(super) chat: bool,
    /// Cached tokens may move to where others were dropped.
    pub(super) may_shift: bool,
    /// No token ends it.
    pub(super) endless: bool,
    splitter: Splitter,
    tags: Option<Tags>,
    pub(super) outcome: Outcome,
    started: Instant,
    first: Option<Instant>,
    /// When the first text or thought was given out.
    first_heard: Option<Instant>,
    prefill_after_first: Duration,
}

impl<'s, 'o, E: Engine> Answer<'s, 'o, E> {
    /// The answer to a conversation.
    pub(super) fn new(
        session: &'s mut Session<E>,
        options: &'o Options,
        encoded: Encoded,
        started: Instant,
    ) -> Self {
        let tags = session.template.as_ref().and_then(Template::thinking);
        Self {
            splitter: Splitter::new(options.stops.clone(), tags, encoded.opens_thought),
            tags,
            session,
            options,
            folded_system: encoded.folded_system,
            prompt: encoded.tokens,
            stable: 0,
            stream: Vec::new(),
            chat: true,
            may_shift: false,
            endless: false,
            outcome: Outcome {
                finish: Finish::Interrupted,
                text: String::new(),
                thought: String::new(),
                metrics: Metrics::default(),
            },
            started,
            first: None,
            first_heard: None,
            prefill_after_first: Duration::ZERO,
        }
    }

    /// What follows a raw text.
    pub(super) fn raw(
        session: &'s mut Session<E>,
        options: &'o Options,
        mut text: Vec<Token>,
        started: Instant,
    ) -> Self {
        let stream = text.split_off(options.keep.max(SINKS).min(text.len()));
        let encoded =
            Encoded { tokens: text, text: String::new(), folded_system: false, opens_thought: false };
        let answer = Self::new(session, options, encoded, started);
        Self {
            splitter: Splitter::new(options.stops.clone(), None, false),
            tags: None,
            stream,
            chat: false,
            ..answer
        }
    }

    pub(super) fn run(mut self, sink: &mut Sink) -> Result<Outcome> {
        if self.folded_system && !std::mem::replace(&mut self.session.said_folded, true) {
            // The brake is asked again at the first chunk; the news itself can't be refused.
            let _ = sink(Event::FoldedSystem);
        }
        let prompt = self.wanted();
        self.outcome.metrics.prompt = prompt.len();
        self.outcome.finish = match self.prefill(sink)? {
            ControlFlow::Continue(()) => {
                self.session.engine.begin(&self.options.sampling, &prompt)?;
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
        metrics.ttft = self.first_heard.map(|first| first - self.started);
        metrics.used = self.session.cache.len();
        metrics.vram = self.session.engine.vram();
        Ok(self.outcome)
    }

    /// What the cache should hold.
    fn wanted(&self) -> Vec<Token> {
        [self.prompt.as_slice(), self.stream.as_slice()].concat()
    }

    /// Bring the cache to what it should hold.
    fn prefill(&mut self, sink: &mut Sink) -> Result<ControlFlow<()>> {
        let start = Instant::now();
        let wanted = self.wanted();
        let reused = self.reuse(&wanted, sink)?;
        if self.outcome.metrics.generated == 0 {
            self.outcome.metrics.cached = reused;
        }
        let (evaluated, fed) = (self.outcome.metrics.evaluated, Instant::now());
        let flow = self.feed_reporting(&wanted, reused, sink)?;
        self.session.count_evaluated(self.outcome.metrics.evaluated - evaluated, fed.elapsed());
        let took = start.elapsed();
        self.outcome.metrics.prefill += took;
        if self.first.is_some() {
            self.prefill_after_first += took;
        }
        Ok(flow)
    }

    /// Leave in the cache what can be used of it. Answers how many of the wanted tokens that are.
    fn reuse(&mut self, wanted: &[Token], sink: &mut Sink) -> Result<usize> {
        let may_shift = std::mem::take(&mut self.may_shift);
        let begins = self.outcome.metrics.generated == 0;
        let (source, why_not) =
            match begins.then(|| self.session.restore(wanted, self.stable, may_shift, sink)) {
                Some(FromDisk::Read(why_not)) => (Source::Disk, why_not),
                Some(FromDisk::Nothing(why_not)) => (Source::Memory, why_not),
                None => (Source::Memory, None),
            };
        let session = &mut *self.session;
        let plan = session.cache.plan_for(wanted, may_shift);
        let stays = plan.hole().end + plan.shift;
        let differs = stays == 0 || stays < self.stable.min(wanted.len() - 1);
        let dropped = self.outcome.metrics.dropped_turns > 0 && plan.shift == 0;
        let not_cached = match source {
            Source::Memory if session.cache.len() == 0 => why_not,
            Source::Disk => why_not,
            Source::Memory if dropped => Some("the oldest turns left the window".into()),
            Source::Memory => differs.then(|| "the prompt begins differently".into()),
        };
        let kept = session.engine.truncate(stays)?;
        session.cache.truncate(kept);
        session.moved &= kept > 0;
        if begins {
            let cannot = (kept < stays).then(|| "the model's memory cannot go back".into());
            self.outcome.metrics.not_cached = cannot.or(not_cached);
            self.outcome.metrics.cached_from = (kept > 0).then_some(source);
        }
        if kept < stays {
            // The brake is asked again at the first chunk; the news itself can't be refused.
            let _ = sink(Event::Reread { tokens: stays - kept });
            return Ok(kept);
        }
        if plan.drop > 0 {
            session.engine.remove(plan.hole())?;
            session.cache.remove(plan.hole());
            session.moved = true;
        }
        Ok(plan.reused())
    }

    /// Feed what is wanted behind the first `done` tokens.
    fn feed_reporting(&mut self, wanted: &[Token], done: usize, sink: &mut Sink) -> Result<ControlFlow<()>> {
        let (from, total) = (done, wanted.len() - done);
        let stops = self.stops(wanted.len());
        if stops.is_some() {
            self.session.engine.mark()?;
        }
        let mut done = done;
        while done < wanted.len() {
            let stop = stops.iter().flatten().find(|stop| **stop > done);
            let end = stop.map_or(wanted.len(), |stop| *stop).min(done + self.session.engine.batch());
            if sink(Event::Prefill { done: done - from, total }).is_break()
                || self.feed(&wanted[done..end], end == wanted.len())?.is_break()
            {
                return Ok(ControlFlow::Break(()));
            }
            self.outcome.metrics.evaluated += end - done;
            done = end;
            if stop == Some(&end) && end < wanted.len() {
                self.session.engine.mark()?;
            }
        }
        Ok(sink(Event::Prefill { done: total, total }))
    }

    /// Where feeding pauses: behind what all questions share, so that the rest is evaluated in the same batches when
    /// that was read from disk; and in a memory that does not go back by itself, which is marked there, where the
    /// answer begins, one token early because that one is always evaluated.
    fn stops(&self, len: usize) -> Option<[usize; 2]> {
        let goes_back = self.session.engine.goes_back();
        let is_short = goes_back && self.stable < FEWEST;
        let shared = if is_short { len } else { self.stable.min(len) };
        (self.outcome.metrics.generated == 0).then_some([shared, if goes_back { len } else { len - 1 }])
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
            if self.options.max_tokens == Some(self.outcome.metrics.generated) {
                return Ok(Finish::Length);
            }
            let token = self.session.engine.sample()?;
            if !self.endless && self.session.engine.is_end(token) {
                return Ok(Finish::EndOfTurn);
            }
            self.stream.push(token);
            self.outcome.metrics.generated += 1;
            self.count_time();
            let parts = self.splitter.push(&self.bytes(token));
            if self.emit(parts, sink).is_break() {
                return Ok(Finish::Interrupted);
            }
            if self.splitter.stopped() {
                return Ok(Finish::Stop);
            }
            if self.options.max_tokens == Some(self.outcome.metrics.generated) {
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
        if self.options.overflow == Overflow::Stop {
            return Ok(Some(Finish::Window));
        }
        match self.make_room(sink)? {
            Room::Made => Ok(self.prefill(sink)?.is_break().then_some(Finish::Interrupted)),
            Room::NotEnough => Ok(Some(Finish::Window)),
            Room::Interrupted => Ok(Some(Finish::Interrupted)),
        }
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
            let heard = sink(event);
            self.first_heard.get_or_insert_with(Instant::now);
            if heard.is_break() {
                flow = ControlFlow::Break(());
            }
        }
        flow
    }

    /// Decode time runs from the first token to the latest.
    fn count_time(&mut self) {
        let now = Instant::now();
        let Some(first) = self.first else {
            self.first = Some(now);
            return;
        };
        let decode = (now - first).saturating_sub(self.prefill_after_first);
        let metrics = &mut self.outcome.metrics;
        metrics.steps.add(decode.saturating_sub(metrics.decode));
        metrics.decode = decode;
    }
}
