//! A look at the entries: which would be of use, and why others are not.

use std::borrow::Cow;
use std::path::PathBuf;

use super::entry::About;
use super::{FEWEST, PrefixStore, note_flaw};
use crate::engine::Token;
use crate::human::Count;
use crate::session::metrics::NOTHING_CACHED;

/// An entry that could be used, and how many of its tokens.
pub(super) struct Candidate {
    pub(super) path: PathBuf,
    pub(super) about: About,
    pub(super) useful: usize,
}

/// What a look at the entries brought.
#[derive(Default)]
pub(super) struct Look {
    pub(super) candidates: Vec<Candidate>,
    /// The most useful of those that cannot be used, and why.
    missed: Option<(usize, String)>,
    /// There are others, of which too little or nothing is of use.
    others: bool,
}

impl Look {
    fn miss(&mut self, useful: usize, reason: String) {
        if self.missed.as_ref().is_none_or(|(most, _)| useful > *most) {
            self.missed = Some((useful, reason));
        }
    }

    /// Why nothing, or not more, can be used.
    pub(super) fn why_not(&self) -> Option<Cow<'static, str>> {
        let most = self.candidates.iter().map(|candidate| candidate.useful).max();
        match (&self.missed, most) {
            (Some((useful, reason)), most) if most.is_none_or(|most| *useful > most) => {
                Some(not_used(reason))
            }
            (_, Some(_)) => None,
            (_, None) if self.others => Some("no entry on disk fits the beginning of this prompt".into()),
            (_, None) => Some(NOTHING_CACHED.into()),
        }
    }
}

pub(super) fn not_used(reason: &str) -> Cow<'static, str> {
    format!("an entry on disk is not used: {reason}").into()
}

impl PrefixStore {
    /// The entries that would be of use, as far as their descriptions say.
    pub(super) fn look(
        &self,
        useful: &dyn Fn(&[Token]) -> usize,
        window: usize,
        have: usize,
        note: &mut dyn FnMut(&str),
    ) -> Look {
        let mut look = Look::default();
        for item in self.folder.entries(&self.model_part()) {
            let about = match About::read(&item.path) {
                Ok(about) => about,
                Err(flaw) => {
                    note_flaw(&item.path, &flaw, note);
                    flaw.reason().into_iter().for_each(|reason| look.miss(0, reason.to_owned()));
                    continue;
                }
            };
            if !self.may_use(&about) {
                continue;
            }
            let useful = useful(&about.tokens);
            if useful < have + FEWEST {
                look.others = true;
            } else if let Some(reason) = self.reason_against(&about, useful - have, window) {
                look.miss(useful, reason);
            } else {
                look.candidates.push(Candidate { path: item.path, about, useful });
            }
        }
        let most = look.candidates.iter().map(|candidate| candidate.useful).max().unwrap_or(0);
        if let Some((useful, reason)) = look.missed.as_ref().filter(|(useful, _)| *useful > most) {
            note(&format!("cache: an entry for {} is not used: {reason}", Count(*useful as u64, "token")));
        }
        look
    }

    /// Why an entry that would save so many tokens cannot be used.
    fn reason_against(&self, about: &About, gain: usize, window: usize) -> Option<String> {
        if let Some(what) = about.key.difference(&self.key) {
            return Some(format!("it was made with another {what}"));
        }
        if about.tokens.len() > window {
            return Some("it is longer than the context".to_owned());
        }
        let pays = !about.is_empty() && about.pays_off(gain);
        (!pays).then(|| "evaluating the tokens is quicker".to_owned())
    }

    fn may_use(&self, about: &About) -> bool {
        about.session.is_none() || about.session == self.session
    }
}
