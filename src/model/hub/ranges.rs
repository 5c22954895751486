//! Which blocks of a file are still to be fetched, and by whom: pure arithmetic, no network.
//!
//! A file is cut into blocks of [`BLOCK`] bytes. A connection takes a run of them from the front of what is missing. One
//! that finds nothing left takes the second half of the longest run of another, so that all end together.

use std::ops::Range;

/// The unit of the journal: what an interrupted download loses at most per connection.
pub(crate) const BLOCK: u64 = 1 << 20;

/// How many blocks a file of `size` bytes has.
pub(crate) fn block_count(size: u64) -> u64 {
    size.div_ceil(BLOCK)
}

/// The bytes of one block.
pub(crate) fn block_bytes(block: u64, size: u64) -> Range<u64> {
    block * BLOCK..((block + 1) * BLOCK).min(size)
}

/// A run that some connection works on: the block being fetched and the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Run {
    next: u64,
    end: u64,
}

/// Names a run until it ends.
pub(super) type RunId = usize;

/// The blocks of one file.
#[derive(Debug)]
pub(super) struct Ranges {
    /// Runs of blocks that nobody works on, ascending and apart.
    free: Vec<Range<u64>>,
    active: Vec<Option<Run>>,
    /// The longest run to take at once.
    piece: u64,
}

impl Ranges {
    /// A file with the blocks that `is_done` knows already, for so many connections.
    pub(super) fn new(size: u64, connections: usize, is_done: impl Fn(u64) -> bool) -> Self {
        let mut ranges = Self { free: Vec::new(), active: Vec::new(), piece: piece(size, connections) };
        for block in (0..block_count(size)).filter(|&block| !is_done(block)) {
            ranges.release(block..block + 1);
        }
        ranges
    }

    /// The next run for a connection without one: its id and its first block.
    pub(super) fn take(&mut self) -> Option<(RunId, u64)> {
        let run = self.take_free().or_else(|| self.steal())?;
        let id = self.active.iter().position(Option::is_none).unwrap_or(self.active.len());
        if id == self.active.len() {
            self.active.push(None);
        }
        self.active[id] = Some(run);
        Some((id, run.next))
    }

    fn take_free(&mut self) -> Option<Run> {
        let first = self.free.first_mut()?;
        let run = Run { next: first.start, end: first.end.min(first.start + self.piece) };
        first.start = run.end;
        if first.is_empty() {
            self.free.remove(0);
        }
        Some(run)
    }

    /// The second half of the longest run, but never a block that is being fetched.
    fn steal(&mut self) -> Option<Run> {
        let longest = self.active.iter_mut().flatten().max_by_key(|run| run.end - run.next)?;
        let (start, end) = (longest.next + 1 + (longest.end - longest.next - 1) / 2, longest.end);
        if start >= end {
            return None;
        }
        longest.end = start;
        Some(Run { next: start, end })
    }

    /// The end of a run as it is now: others may have taken some of it.
    pub(super) fn end(&self, id: RunId) -> u64 {
        self.active.get(id).copied().flatten().map_or(0, |run| run.end)
    }

    /// The block being fetched is there. Whether the run goes on; it is gone otherwise.
    pub(super) fn advance(&mut self, id: RunId) -> bool {
        let Some(slot) = self.active.get_mut(id) else { return false };
        match slot {
            Some(run) if run.next + 1 < run.end => {
                run.next += 1;
                true
            }
            _ => {
                *slot = None;
                false
            }
        }
    }

    /// A connection gives up: what is left of its run waits for another.
    pub(super) fn give_back(&mut self, id: RunId) {
        if let Some(run) = self.active.get_mut(id).and_then(Option::take) {
            self.release(run.next..run.end);
        }
    }

    /// Blocks that are to be fetched (again).
    pub(super) fn release(&mut self, blocks: Range<u64>) {
        let at = self.free.partition_point(|range| range.start < blocks.start);
        self.free.insert(at, blocks);
        let mut joined: Vec<Range<u64>> = Vec::with_capacity(self.free.len());
        for range in self.free.drain(..) {
            match joined.last_mut() {
                Some(last) if last.end >= range.start => last.end = last.end.max(range.end),
                _ => joined.push(range),
            }
        }
        self.free = joined;
    }

    /// Is every block fetched?
    #[cfg(test)]
    fn is_empty(&self) -> bool {
        self.free.is_empty() && self.active.iter().all(Option::is_none)
    }
}

/// The longest run to take at once, in blocks: long enough that the wait for an answer is small against it, short
/// enough that the checksum, which needs the blocks in order, is never far behind.
fn piece(size: u64, connections: usize) -> u64 {
    (size / (connections as u64 * 4).max(1)).clamp(4 * BLOCK, 32 * BLOCK) / BLOCK
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn blocks_cover_a_file() {
        for (size, blocks, last) in [(1, 1, 0..1), (MIB, 1, 0..MIB), (MIB + 1, 2, MIB..MIB + 1), (0, 0, 0..0)]
        {
            assert_eq!(block_count(size), blocks);
            assert_eq!(block_bytes(blocks.saturating_sub(1), size), last);
        }
    }

    #[test]
    fn a_piece_is_a_share_within_bounds() {
        for (size, connections, blocks) in
            [(MIB, 8, 4), (1 << 30, 8, 32), (300 * MIB, 8, 9), (1 << 40, 8, 32), (100 * MIB, 1, 25)]
        {
            assert_eq!(piece(size, connections), blocks);
        }
    }

    #[test]
    fn runs_come_from_the_front_and_skip_what_is_done() {
        let mut ranges = Ranges::new(12 * MIB, 8, |block| (2..4).contains(&block));
        assert_eq!(ranges.take(), Some((0, 0)));
        assert_eq!(ranges.end(0), 2);
        assert_eq!(ranges.take(), Some((1, 4)));
        assert_eq!(ranges.end(1), 8);
        assert_eq!(ranges.take(), Some((2, 8)));
        assert_eq!(ranges.end(2), 12);
    }

    #[test]
    fn an_idle_connection_takes_the_second_half_of_the_longest_run() {
        let mut ranges = Ranges::new(6 * MIB, 1, |_| false);
        assert_eq!(ranges.take(), Some((0, 0)));
        assert_eq!(ranges.end(0), 4);
        assert_eq!(ranges.take(), Some((1, 4)));
        assert!(ranges.advance(1));
        // Blocks 1 to 3 of the first run wait, block 5 of the second is being fetched.
        assert_eq!(ranges.take(), Some((2, 2)));
        assert_eq!((ranges.end(0), ranges.end(2)), (2, 4));
        assert_eq!(ranges.take(), Some((3, 3)));
        assert_eq!(ranges.take(), Some((4, 1)));
        assert_eq!(ranges.take(), None);
        assert!(!ranges.is_empty());
    }

    #[test]
    fn a_run_ends_where_another_began_to_take_from_it() {
        let mut ranges = Ranges::new(4 * MIB, 1, |_| false);
        let (id, _) = ranges.take().unwrap();
        let (thief, start) = ranges.take().unwrap();
        assert_eq!(start, 2);
        assert!(ranges.advance(id));
        assert!(!ranges.advance(id));
        assert!(ranges.advance(thief));
        assert!(!ranges.advance(thief));
        assert!(ranges.is_empty());
        assert!(!ranges.advance(id));
    }

    #[test]
    fn what_is_given_back_is_taken_by_the_next() {
        let mut ranges = Ranges::new(4 * MIB, 1, |_| false);
        let (id, _) = ranges.take().unwrap();
        assert!(ranges.advance(id));
        ranges.give_back(id);
        ranges.release(0..1);
        assert_eq!(ranges.take(), Some((0, 0)));
        assert_eq!(ranges.end(0), 4);
    }

    /// Every block is fetched once, whatever the order in which connections work.
    #[test]
    fn every_block_is_fetched_once() {
        for seed in 0..200 {
            let mut random = fastrand::Rng::with_seed(seed);
            let blocks = random.u64(1..80);
            let mut fetched = vec![0; usize::try_from(blocks).unwrap()];
            let mut ranges = Ranges::new(blocks * MIB, random.usize(1..9), |_| false);
            let mut runs: Vec<(RunId, u64)> = Vec::new();
            while !ranges.is_empty() {
                if runs.is_empty() || random.bool() {
                    runs.extend(ranges.take());
                }
                if runs.is_empty() {
                    continue;
                }
                let at = random.usize(..runs.len());
                let (id, block) = runs[at];
                if random.u8(..8) == 0 {
                    ranges.give_back(id);
                    runs.swap_remove(at);
                    continue;
                }
                fetched[usize::try_from(block).unwrap()] += 1;
                if ranges.advance(id) {
                    runs[at].1 += 1;
                } else {
                    runs.swap_remove(at);
                }
            }
            assert_eq!(fetched, vec![1; fetched.len()], "seed {seed}");
        }
    }
}
