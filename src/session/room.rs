//! Making room in a full window.

use super::answer::Answer;
use super::window::Budget;
use super::{Event, Overflow, Sink};
use crate::engine::Engine;
use crate::error::Result;

/// Whether a full window could be made to hold more.
pub(super) enum Room {
    Made,
    /// What may not go fills the window by itself.
    NotEnough,
    Interrupted,
}

impl<E: Engine> Answer<'_, '_, E> {
    /// Let the oldest turns go, and when none is left or that is not enough the oldest half of the answer.
    pub(super) fn make_room(&mut self, sink: &mut Sink) -> Result<Room> {
        let turns = if self.chat { self.session.droppable_turns(self.options)? } else { 0 };
        let mut room = if turns > 0 { self.drop_turns(turns, sink)? } else { Room::NotEnough };
        if matches!(room, Room::NotEnough) && self.trim(sink) {
            room = Room::Made;
        }
        Ok(room)
    }

    /// May what stays move up, as it is? Otherwise it is evaluated again, which is news once.
    fn shifts(&mut self, sink: &mut Sink) -> bool {
        if self.options.overflow != Overflow::Slide {
            return false;
        }
        let Some(reason) = self.session.engine.unshiftable() else { return true };
        if !std::mem::replace(&mut self.session.said_unshiftable, true) {
            // The brake is asked again at the next chunk; the news itself can't be refused.
            let _ = sink(Event::Unshiftable { reason });
        }
        false
    }

    /// Drop the oldest of these turns, as few as needed for three quarters of the window to hold the rest, and say so.
    fn drop_turns(&mut self, all: usize, sink: &mut Sink) -> Result<Room> {
        let budget = self.budget();
        let (before, start) = (self.prompt.len(), self.session.shown.dropped);
        // Dropping `low` turns is not enough; dropping `high` is, or is all that can go.
        let (mut low, mut high) = (0, all);
        let mut prompt = Vec::new();
        while high > low {
            let turns = if high - low == 1 { high } else { low.midpoint(high) };
            // A long conversation takes time to encode.
            if sink(Event::Prefill { done: 0, total: before }).is_break() {
                self.session.shown.dropped = start;
                return Ok(Room::Interrupted);
            }
            self.session.shown.dropped = start;
            self.session.drop_turns(turns);
            prompt = self.session.encode(self.options)?.tokens;
            let enough = budget.is_enough(prompt.len() + self.stream.len());
            match (turns == high, enough) {
                (true, _) => break,
                (false, true) => high = turns,
                (false, false) => low = turns,
            }
        }
        if prompt.len() + self.stream.len() >= budget.window {
            self.session.shown.dropped = start;
            return Ok(Room::NotEnough);
        }
        self.prompt = prompt;
        self.say_dropped(high, before.saturating_sub(self.prompt.len()), sink);
        Ok(Room::Made)
    }

    /// Drop the oldest half of what follows the prompt, and say so. False when that makes no room.
    fn trim(&mut self, sink: &mut Sink) -> bool {
        let Some(cut) = self.budget().trim(self.prompt.len(), self.stream.len()) else { return false };
        self.stream.drain(..cut);
        self.say_dropped(0, cut, sink);
        true
    }

    fn say_dropped(&mut self, turns: usize, tokens: usize, sink: &mut Sink) {
        self.may_shift = self.shifts(sink);
        let metrics = &mut self.outcome.metrics;
        metrics.evictions += 1;
        metrics.dropped_turns += turns;
        metrics.dropped_tokens += tokens;
        let (used, window) = (self.prompt.len() + self.stream.len(), self.session.engine.window());
        // As above: news.
        let _ = sink(Event::Dropped { turns, tokens, used, window });
    }

    fn budget(&self) -> Budget {
        Budget::new(self.session.engine.window(), self.options.max_tokens)
    }
}
