//! What is in the KV cache, and the plan to get from there to what is wanted.

use std::ops::Range;

use crate::engine::Token;

/// Moving fewer tokens than this is not worth that their keys and values know of what was dropped.
const FEWEST_MOVED: usize = 8;

/// How many tokens the window has, and how many of them the answer should find free.
#[derive(Debug, Clone, Copy)]
pub(super) struct Budget {
    pub(super) window: usize,
    pub(super) reserve: usize,
}

impl Budget {
    /// The reserve is what the answer may take, an eighth of the window at the most.
    pub(super) fn new(window: usize, max_tokens: Option<usize>) -> Self {
        let share = window / 8;
        Self { window, reserve: max_tokens.map_or(share, |n| n.min(share)) }
    }

    /// Does a prompt of so many tokens leave too little for the answer?
    pub(super) fn is_full(self, tokens: usize) -> bool {
        tokens + self.reserve >= self.window
    }

    /// After turns were dropped, is there enough room for it not to happen in every turn?
    pub(super) fn is_enough(self, tokens: usize) -> bool {
        tokens <= self.window * 3 / 4
    }

    /// How many of the `stream` tokens that follow `base` ones must go when the answer has filled the window: its
    /// oldest half. `None` when it has less than a quarter of the window for itself: it would not know what it says.
    pub(super) fn trim(self, base: usize, stream: usize) -> Option<usize> {
        let cut = stream.div_ceil(2);
        (self.is_enough(base) && cut < stream && base + stream - cut < self.window).then_some(cut)
    }
}

/// How the cache comes to hold what is wanted: `keep` tokens stay, the `drop` tokens behind them leave, `shift` tokens
/// behind those move up, and the rest of the wanted ones are fed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Plan {
    pub(super) keep: usize,
    pub(super) drop: usize,
    pub(super) shift: usize,
}

impl Plan {
    /// Tokens that need no evaluation.
    pub(super) fn reused(self) -> usize {
        self.keep + self.shift
    }

    /// What leaves from the middle.
    pub(super) fn hole(self) -> Range<usize> {
        self.keep..self.keep + self.drop
    }
}

/// A mirror of the tokens in the engine's cache.
#[derive(Debug, Default)]
pub(crate) struct KvWindow {
    tokens: Vec<Token>,
}

impl KvWindow {
    /// The plan, which may move tokens or not.
    pub(super) fn plan_for(&self, wanted: &[Token], may_shift: bool) -> Plan {
        if may_shift { self.plan_shifting(wanted) } else { self.plan(wanted) }
    }

    /// The plan without moving anything: the longest common prefix stays, but never all of what is wanted, because
    /// the logits to sample from are not cached.
    fn plan(&self, wanted: &[Token]) -> Plan {
        let most = wanted.len().saturating_sub(1);
        Plan { keep: common(&self.tokens, wanted).min(most), ..Plan::default() }
    }

    /// The plan where tokens may move: as [`Self::plan`], and of what is cached behind the common prefix the longest
    /// stretch that is wanted next moves up to it.
    fn plan_shifting(&self, wanted: &[Token]) -> Plan {
        let plan = self.plan(wanted);
        let rest = &wanted[plan.keep..];
        let most = rest.len().saturating_sub(1);
        let runs = common_runs(rest, &self.tokens[plan.keep..]);
        let best = runs.into_iter().enumerate().skip(1).max_by_key(|&(at, run)| (run, std::cmp::Reverse(at)));
        match best {
            Some((drop, run)) if run.min(most) >= FEWEST_MOVED => Plan { drop, shift: run.min(most), ..plan },
            _ => plan,
        }
    }

    /// Another cache, that holds these tokens.
    pub(super) fn of(tokens: Vec<Token>) -> Self {
        Self { tokens }
    }

    pub(super) fn tokens(&self) -> &[Token] {
        &self.tokens
    }

    /// The cache was cut to its first `len` tokens.
    pub(super) fn truncate(&mut self, len: usize) {
        self.tokens.truncate(len);
    }

    /// These tokens were taken out, and those behind them moved up.
    pub(super) fn remove(&mut self, range: Range<usize>) {
        self.tokens.drain(range);
    }

    /// These tokens were evaluated.
    pub(super) fn extend(&mut self, tokens: &[Token]) {
        self.tokens.extend_from_slice(tokens);
    }

    /// Tokens in the cache.
    pub(super) fn len(&self) -> usize {
        self.tokens.len()
    }
}

/// How many first tokens two texts share.
pub(super) fn common(a: &[Token], b: &[Token]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// For each place in `text`, how many tokens from there on are the first ones of `pattern`. This is the Z algorithm
/// (Gusfield, Algorithms on Strings, Trees, and Sequences, 1997, §1.4): linear in the lengths.
fn common_runs(pattern: &[Token], text: &[Token]) -> Vec<usize> {
    let both: Vec<Token> = [pattern, text].concat();
    let mut runs = vec![0; both.len()];
    // The run that reaches farthest.
    let (mut start, mut end) = (0, 0);
    for at in 1..both.len() {
        let mut run = if at < end { runs[at - start].min(end - at) } else { 0 };
        while at + run < both.len() && both[run] == both[at + run] {
            run += 1;
        }
        if at + run > end {
            (start, end) = (at, at + run);
        }
        runs[at] = run;
    }
    runs.drain(..pattern.len());
    runs.iter().map(|run| (*run).min(pattern.len())).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn window(tokens: &[Token]) -> KvWindow {
        KvWindow { tokens: tokens.to_vec() }
    }

    /// The cache after a plan was followed.
    fn followed(cached: &[Token], wanted: &[Token], plan: Plan) -> Vec<Token> {
        let mut window = window(cached);
        window.truncate(plan.hole().end + plan.shift);
        window.remove(plan.hole());
        window.extend(&wanted[plan.reused()..]);
        window.tokens
    }

    #[test]
    fn keeps_the_longest_common_prefix_and_feeds_the_rest() {
        for (cached, wanted, keep) in [
            (&[][..], &[1, 2, 3][..], 0),
            (&[1, 2, 3], &[1, 2, 3, 4, 5], 3),
            (&[1, 2, 3], &[1, 2, 9, 9], 2),
            (&[1, 2, 3], &[7, 2, 3], 0),
            (&[1, 2, 3], &[1, 2], 1),
            (&[1, 2, 3], &[1, 2, 3], 2),
            (&[1], &[1], 0),
        ] {
            let plan = window(cached).plan(wanted);
            assert_eq!(plan, Plan { keep, drop: 0, shift: 0 }, "{cached:?} -> {wanted:?}");
        }
    }

    #[test]
    fn moves_what_stays_behind_what_goes() {
        let turn = |from: Token, len: Token| (from..from + len).collect::<Vec<_>>();
        let (system, a, b, c) = (turn(0, 3), turn(100, 20), turn(200, 10), turn(300, 9));
        let new = vec![7, 8];
        for (cached, wanted, plan) in [
            ([&system[..], &a, &b].concat(), [&system[..], &b, &new].concat(), (3, 20, 10)),
            ([&system[..], &a, &b, &c].concat(), [&system[..], &c, &new].concat(), (3, 30, 9)),
            // What follows the moved ones is not wanted.
            ([&system[..], &a, &b, &c].concat(), [&system[..], &b, &new].concat(), (3, 20, 10)),
            // Nothing in front.
            ([&a[..], &b].concat(), [&b[..], &new].concat(), (0, 20, 10)),
            // The last token wanted is evaluated.
            ([&system[..], &a, &b].concat(), [&system[..], &b].concat(), (3, 20, 9)),
            // Too few to move.
            ([&system[..], &a, &b[..7]].concat(), [&system[..], &b[..7], &new].concat(), (3, 0, 0)),
            // Nothing to drop.
            ([&system[..], &a].concat(), [&system[..], &a, &b].concat(), (23, 0, 0)),
            (vec![], [&system[..], &a].concat(), (0, 0, 0)),
        ] {
            let found = window(&cached).plan_shifting(&wanted);
            assert_eq!((found.keep, found.drop, found.shift), plan, "{cached:?} -> {wanted:?}");
            assert_eq!(followed(&cached, &wanted, found), wanted);
        }
    }

    #[test]
    fn an_answer_loses_its_oldest_half_unless_that_makes_no_room() {
        for (window, base, stream, cut) in [
            (100, 20, 80, Some(40)),
            (100, 20, 81, Some(41)),
            (100, 75, 25, Some(13)),
            (100, 76, 24, None),
            (4, 3, 1, None),
            (100, 100, 0, None),
            (100, 98, 4, None),
        ] {
            assert_eq!(Budget::new(window, None).trim(base, stream), cut, "{base} + {stream}");
        }
    }

    #[test]
    fn an_eighth_of_the_window_is_for_the_answer() {
        for (max_tokens, tokens, full) in [
            (None, 69, false),
            (None, 70, true),
            (Some(2), 77, false),
            (Some(2), 78, true),
            (Some(99), 70, true),
        ] {
            assert_eq!(Budget::new(80, max_tokens).is_full(tokens), full, "{max_tokens:?} {tokens}");
        }
        assert!(Budget::new(80, None).is_enough(60) && !Budget::new(80, None).is_enough(61));
    }

    proptest! {
        /// Whatever is cached and wanted, following the plan gives what is wanted, evaluates at least one token, and
        /// moves only tokens that are wanted as they are.
        #[test]
        fn a_plan_leads_to_what_is_wanted(
            cached in proptest::collection::vec(0..3_i32, 0..60),
            wanted in proptest::collection::vec(0..3_i32, 1..60),
        ) {
            let window = window(&cached);
            for plan in [window.plan(&wanted), window.plan_shifting(&wanted)] {
                prop_assert!(plan.reused() < wanted.len());
                prop_assert!(plan.hole().end + plan.shift <= cached.len());
                prop_assert!((plan.drop == 0) == (plan.shift == 0));
                prop_assert_eq!(&cached[..plan.keep], &wanted[..plan.keep]);
                prop_assert_eq!(followed(&cached, &wanted, plan), wanted.clone());
            }
        }

        /// Turns that leave from the middle are found, and all that stays is moved.
        #[test]
        fn dropped_turns_cost_no_evaluation(
            sizes in proptest::collection::vec(1..30_i32, 1..8),
            gone in 0..8_usize,
        ) {
            let mut next = 0;
            let mut take = |len: i32| { next += len; (next - len..next).collect::<Vec<_>>() };
            let system = take(5);
            let turns: Vec<_> = sizes.iter().map(|&len| take(len)).collect();
            let new = take(3);
            let gone = gone.min(turns.len());
            let cached = [system.clone(), turns.concat()].concat();
            let stays = turns[gone..].concat();
            let wanted = [system, stays.clone(), new.clone()].concat();
            let plan = window(&cached).plan_shifting(&wanted);
            let fed = if gone > 0 && stays.len() < FEWEST_MOVED { stays.len() + new.len() } else { new.len() };
            prop_assert_eq!(wanted.len() - plan.reused(), fed);
        }

        #[test]
        fn runs_are_what_counting_gives(
            pattern in proptest::collection::vec(0..2_i32, 0..12),
            text in proptest::collection::vec(0..2_i32, 0..40),
        ) {
            let counted: Vec<_> = (0..text.len()).map(|at| common(&text[at..], &pattern)).collect();
            prop_assert_eq!(common_runs(&pattern, &text), counted);
        }

        /// Trimming always ends in a window with room, and never takes everything.
        #[test]
        fn trimming_makes_room(window in 16..2000_usize, base in 0..2000_usize, stream in 0..2000_usize) {
            if let Some(cut) = Budget::new(window, None).trim(base, stream) {
                prop_assert!(cut > 0 && cut < stream && base + stream - cut < window);
            }
        }
    }
}
