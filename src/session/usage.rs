//! Who takes how much of the window.

use super::window::Budget;
use super::{Message, Options, Overflow, Role, Session};
use crate::engine::Engine;
use crate::error::Result;

/// Turns that are counted one by one. Each has to be encoded with all before it.
const COUNTED: usize = 20;

/// The window as the next message will find it. Tokens.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) window: usize,
    /// The system prompt, and what the template puts in front of a first message.
    pub(crate) system: usize,
    /// Whole turns that the model no longer sees.
    pub(crate) dropped: usize,
    /// Turns before those below, and their tokens together.
    pub(crate) earlier: (usize, usize),
    /// The latest turns: what was asked, and the tokens of question and answer.
    pub(crate) turns: Vec<(String, usize)>,
    /// The oldest of these turns that leave with the next message, however short it is.
    pub(crate) leaving: usize,
}

impl Usage {
    /// Tokens of all that is shown to the model.
    pub(crate) fn used(&self) -> usize {
        self.system + self.earlier.1 + self.turns.iter().map(|(_, tokens)| tokens).sum::<usize>()
    }
}

impl<E: Engine> Session<E> {
    /// What the conversation takes of the window.
    pub(crate) fn context(&self, options: &Options) -> Result<Usage> {
        let visible = self.visible();
        let starts: Vec<usize> = (0..visible.len()).filter(|at| visible[*at].role == Role::User).collect();
        let system = self.shared(options)?;
        let earlier = starts.len().saturating_sub(COUNTED);
        // Tokens up to the end of each turn that is counted, and of the last one before.
        let mut ends = Vec::new();
        for turn in earlier..=starts.len() {
            let end = starts.get(turn).copied().unwrap_or(visible.len());
            ends.push(if turn == 0 {
                system
            } else {
                self.encode_messages(&visible[..end], options)?.tokens.len()
            });
        }
        let turns = starts[earlier..].iter().zip(ends.windows(2));
        let turns = turns.map(|(&at, ends)| (visible[at].content.clone(), ends[1].saturating_sub(ends[0])));
        let mut usage = Usage {
            window: self.engine.window(),
            system,
            dropped: self.dropped_turns(),
            earlier: (earlier, ends[0].saturating_sub(system)),
            turns: turns.collect(),
            leaving: 0,
        };
        let is_full = Budget::new(usage.window, options.max_tokens).is_full(usage.used());
        if is_full && options.overflow != Overflow::Stop {
            usage.leaving = self.leaving(&visible, options)?;
        }
        Ok(usage)
    }

    /// How many of the visible turns leave when room is made, as few as needed.
    fn leaving(&self, visible: &[Message], options: &Options) -> Result<usize> {
        let budget = Budget::new(self.engine.window(), options.max_tokens);
        let stays = self.system_len() + self.pinned(options)?;
        let starts: Vec<usize> =
            (stays..visible.len()).filter(|at| visible[*at].role == Role::User).collect();
        // Without the first `low` turns there are still too many tokens, without the first `high` not.
        let (mut low, mut high) = (0, starts.len());
        while high > low + 1 {
            let middle = low.midpoint(high);
            let rest = [&visible[..stays], &visible[starts[middle]..]].concat();
            let is_enough = budget.is_enough(self.encode_messages(&rest, options)?.tokens.len());
            *if is_enough { &mut high } else { &mut low } = middle;
        }
        Ok(high)
    }
}
