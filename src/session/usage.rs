//! Who takes how much of the window.

use super::{Options, Role, Session};
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
        Ok(Usage {
            window: self.engine.window(),
            system,
            dropped: self.dropped_turns(),
            earlier: (earlier, ends[0].saturating_sub(system)),
            turns: turns
                .map(|(&at, ends)| (visible[at].content.clone(), ends[1].saturating_sub(ends[0])))
                .collect(),
        })
    }
}
