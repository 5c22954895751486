//! Which turns the model is shown, and which have left its window.

use super::window::common;
use super::{Message, Options, Overflow, Role, Session};
use crate::engine::Engine;
use crate::error::{Error, Kind, Result};
use crate::human::Thousands;

/// What of the conversation is shown to the model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Shown {
    /// Messages after the system message that are shown whatever leaves the window.
    pub(super) pinned: usize,
    /// Messages after those that are no longer shown.
    pub(super) dropped: usize,
    /// Turns that pushed others out of the window: the place of each behind the system message, and the two counts before.
    pushed: Vec<(usize, usize, usize)>,
}

impl Shown {
    /// Note what was shown before the turn that begins at this place, if less is shown now.
    pub(super) fn remember(&mut self, at: usize, before: &Self) {
        if self.dropped > before.dropped {
            self.pushed.push((at, before.pinned, before.dropped));
        }
    }

    /// Show what was shown before the turn at this place, which is gone, and those behind it.
    pub(super) fn go_back(&mut self, at: usize) {
        while let Some((_, pinned, dropped)) = self.pushed.pop_if(|(turn, ..)| *turn >= at) {
            (self.pinned, self.dropped) = (pinned, dropped);
        }
        // Of a conversation that was loaded nobody knows it.
        self.pinned = self.pinned.min(at);
        self.dropped = self.dropped.min(at - self.pinned);
    }
}

impl<E: Engine> Session<E> {
    /// The messages that the model sees.
    pub(super) fn visible(&self) -> Vec<Message> {
        let stays = self.system_len() + self.shown.pinned;
        [&self.messages[..stays], &self.messages[stays + self.shown.dropped..]].concat()
    }

    /// Turns that it no longer sees.
    pub(crate) fn dropped_turns(&self) -> usize {
        let stays = self.system_len() + self.shown.pinned;
        let hidden = &self.messages[stays..stays + self.shown.dropped];
        hidden.iter().filter(|m| m.role == Role::User).count()
    }

    /// A prompt must leave room for one token at least.
    pub(super) fn check_length(&self, tokens: usize) -> Result<()> {
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
    pub(super) fn check_conversation(&self, tokens: usize, options: &Options) -> Result<()> {
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

    /// Visible turns before the one being answered that may go.
    pub(super) fn droppable_turns(&mut self, options: &Options) -> Result<usize> {
        self.shown.pinned = self.pinned(options)?;
        let visible = &self.messages[self.system_len() + self.shown.pinned + self.shown.dropped..];
        Ok(visible.iter().filter(|m| m.role == Role::User).count().saturating_sub(1))
    }

    /// Messages after the system message that stay: with the first turn that leaves it is settled which.
    pub(super) fn pinned(&self, options: &Options) -> Result<usize> {
        if self.shown.dropped > 0 { Ok(self.shown.pinned) } else { self.pinned_messages(options) }
    }

    /// Messages after the system message that the first [`Options::keep`] tokens of the prompt belong to, as far as half of
    /// the window holds their turns.
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
            tokens = common(&self.encode_messages(&self.messages[..next], options)?.tokens, &all);
            if tokens > self.engine.window() / 2 {
                break;
            }
            end = next;
        }
        Ok(end - first)
    }

    /// Let the oldest visible turns go, all that [`Self::droppable_turns`] counts at the most.
    pub(super) fn drop_turns(&mut self, turns: usize) {
        let start = self.system_len() + self.shown.pinned + self.shown.dropped;
        let mut users = self.messages.iter().enumerate().skip(start).filter(|(_, m)| m.role == Role::User);
        if let Some((at, _)) = users.nth(turns) {
            self.shown.dropped = at - self.system_len() - self.shown.pinned;
        }
    }
}
