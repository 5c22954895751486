//! How fast an engine is, piece of work by piece of work, by the rules of llama.cpp's `llama-bench`: a prefill is one prompt
//! with the logits of its last token; a decode evaluates one token after another, and none is sampled. What stands before
//! it in the cache is its depth, and is not timed.

use std::time::{Duration, Instant};

use super::answer::Answer;
use super::{Options, Outcome, Session, Sink};
use crate::engine::{Engine, Fed, Token};
use crate::error::Result;

/// A place in a text from which work is measured, as often as one likes.
pub(crate) struct Track<'a, E> {
    engine: &'a mut E,
    /// Depth and work take their tokens from here.
    text: &'a [Token],
    depth: usize,
}

impl<'a, E: Engine> Track<'a, E> {
    /// The text must be as long as the depth and the longest piece of work together, and so must the window.
    pub(crate) fn new(engine: &'a mut E, text: &'a [Token], depth: usize) -> Self {
        Self { engine, text, depth }
    }

    /// The time to evaluate the next `count` tokens as one prompt; `None` when the brake stopped it.
    pub(crate) fn prefill(&mut self, count: usize) -> Result<Option<Duration>> {
        if !self.go_to_start()? {
            return Ok(None);
        }
        let started = Instant::now();
        let fed = self.engine.feed(&self.text[self.depth..self.depth + count], true)?;
        self.engine.wait();
        Ok((fed == Fed::All).then(|| started.elapsed()))
    }

    /// The time of each of the next `count` tokens, one evaluated after another; `None` when the brake stopped it.
    pub(crate) fn decode(&mut self, count: usize) -> Result<Option<Vec<Duration>>> {
        if !self.go_to_start()? {
            return Ok(None);
        }
        let mut times = Vec::with_capacity(count);
        let mut last = Instant::now();
        for token in &self.text[self.depth..self.depth + count] {
            let fed = self.engine.feed(&[*token], true)?;
            self.engine.wait();
            if fed != Fed::All {
                return Ok(None);
            }
            let now = Instant::now();
            times.push(now - last);
            last = now;
        }
        Ok(Some(times))
    }

    /// Leave in the cache what stands before the work. False when the brake stopped it.
    fn go_to_start(&mut self) -> Result<bool> {
        let held = self.engine.truncate(self.depth)?;
        if held < self.depth {
            if self.engine.feed(&self.text[held..self.depth], false)? != Fed::All {
                return Ok(false);
            }
            self.engine.mark()?;
        }
        self.engine.wait();
        Ok(true)
    }
}

/// The first `count` tokens of a text that is repeated without end, behind the token that the vocabulary wants in front.
pub(crate) fn text_of<E: Engine>(engine: &E, text: &str, count: usize) -> Result<Vec<Token>> {
    let tokens = engine.tokenize(text, false)?;
    Ok(engine.bos().into_iter().chain(tokens.into_iter().cycle()).take(count).collect())
}

impl<E: Engine> Session<E> {
    /// Empty the cache.
    pub(crate) fn forget(&mut self) -> Result<()> {
        let kept = self.engine.truncate(0)?;
        self.cache.truncate(kept);
        Ok(())
    }

    /// Answer a prompt of just these tokens with just as many as the options want: no token ends the answer early.
    pub(crate) fn measure(
        &mut self,
        prompt: &[Token],
        options: &Options,
        sink: &mut Sink,
    ) -> Result<Outcome> {
        self.check_length(prompt.len())?;
        let mut answer = Answer::raw(self, options, prompt.to_vec(), Instant::now());
        answer.endless = true;
        answer.run(sink)
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use super::super::{Overflow, Think};
    use super::*;
    use crate::engine::Sampling;
    use crate::engine::scripted::{Scripted, shown};
    use crate::session::Finish;

    #[test]
    fn work_begins_at_its_depth_each_time() {
        for cannot_go_back in [false, true] {
            let mut engine = Scripted::new(64, &[]);
            engine.cannot_go_back = cannot_go_back;
            let text = text_of(&engine, "abc", 10).unwrap();
            let mut track = Track::new(&mut engine, &text, 4);
            assert!(track.prefill(5).unwrap().is_some());
            assert_eq!((shown(&track.engine.cache).as_str(), track.engine.fed), ("abcabcabc", 9));
            assert_eq!(track.decode(3).unwrap().unwrap().len(), 3);
            // The depth is not evaluated again.
            assert_eq!((shown(&track.engine.cache).as_str(), track.engine.fed), ("abcabca", 12));
        }
    }

    #[test]
    fn the_text_begins_as_every_prompt_does_and_goes_on_as_long_as_wanted() {
        let mut engine = Scripted::new(64, &[]);
        engine.adds_bos = true;
        assert_eq!(shown(&text_of(&engine, "ab", 6).unwrap()), "<s>ababa");
        assert_eq!(text_of(&engine, "", 6).unwrap().len(), 1);
    }

    #[test]
    fn the_brake_leaves_no_figure() {
        for (depth, brake_after) in [(4, 2), (4, 6), (0, 0)] {
            let braked = || {
                let mut engine = Scripted::new(64, &[]);
                engine.brake_after = Some(brake_after);
                engine
            };
            let text = text_of(&braked(), "abc", 10).unwrap();
            assert_eq!(Track::new(&mut braked(), &text, depth).prefill(5).unwrap(), None);
            assert_eq!(Track::new(&mut braked(), &text, depth).decode(5).unwrap(), None);
        }
    }

    #[test]
    fn an_answer_is_as_long_as_wanted_whatever_the_model_says() {
        let engine = Scripted::new(64, &["hi", "hi", "hi"]);
        let prompt = text_of(&engine, "abc", 10).unwrap();
        let mut session = Session::new(engine, None);
        let options = Options {
            sampling: Sampling::default(),
            stops: Vec::new(),
            max_tokens: Some(6),
            think: Think::Auto,
            overflow: Overflow::Stop,
            keep: 0,
            now: crate::session::Now::default(),
        };
        for cached in [0, 9, 0] {
            let outcome = session.measure(&prompt, &options, &mut |_| ControlFlow::Continue(())).unwrap();
            assert_eq!((outcome.finish, outcome.metrics.generated), (Finish::Length, 6));
            assert_eq!((outcome.metrics.prompt, outcome.metrics.cached), (10, cached));
            if cached > 0 {
                session.forget().unwrap();
            }
        }
    }
}
