//! How many bytes of weights a device can read in a second: what limits an answer, which needs all of them for each
//! token.
#![expect(unsafe_code, reason = "memory is asked for before it is read")]

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use super::ggml::{Backend, Copy};
use super::{Device, DeviceKind};
use crate::error::{Error, Result};
use crate::machine;
use crate::numbers::float;

/// How long to read, in all. The fastest pass counts: whatever else runs can only make one slower.
const BUDGET: Duration = Duration::from_millis(400);
/// At least so many passes.
const PASSES: u32 = 3;
/// The most bytes that are set aside, and the share of the free memory.
const LARGEST: u64 = 512 << 20;
const SHARE: u64 = 8;
/// A pass reads at least so many bytes, several times over if they are few: starting threads together takes time.
const PASS: u64 = 128 << 20;
/// How far ahead of what is read memory is asked for, in bytes. Not every processor does that by itself, virtual ones least
/// of all: without it a tenth of the bandwidth was seen.
const AHEAD: usize = 2048;
/// Bytes that come from memory together.
const LINE: usize = 64;

/// What was measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Bandwidth {
    pub(crate) bytes_per_second: f64,
    /// How many bytes were read again and again. Those of a small model may stay in the processor's cache, which is
    /// faster than memory; so it is as many as the model has, if memory allows.
    pub(crate) working_set: u64,
}

/// Read as many bytes as a model has, on a GPU or with threads of the CPU. `None` if the brake stopped it. On a GPU a
/// copy is measured, which reads and writes.
pub(crate) fn measure(
    gpu: Option<&Device>,
    threads: usize,
    bytes: u64,
    brake: &AtomicBool,
) -> Result<Option<Bandwidth>> {
    match gpu.filter(|device| device.kind == DeviceKind::Gpu) {
        Some(gpu) => copying(gpu, working_set(bytes, Some(gpu.free)), brake),
        None => reading(threads.max(1), working_set(bytes, machine::memory_available()), brake),
    }
}

/// As many bytes as wanted, within the limits; whole words for any number of threads.
fn working_set(wanted: u64, free: Option<u64>) -> u64 {
    let most = free.map_or(LARGEST, |free| (free / SHARE).min(LARGEST));
    wanted.min(most).max(1 << 20)
}

fn copying(gpu: &Device, bytes: u64, brake: &AtomicBool) -> Result<Option<Bandwidth>> {
    let copy = Copy::new(Backend::open(Some(gpu), 1)?, bytes)?;
    let times = u32::try_from(PASS.div_ceil(bytes)).unwrap_or(1);
    copy.run(1);
    let (began, mut best) = (Instant::now(), Duration::MAX);
    let mut passes = 0;
    while passes < PASSES || began.elapsed() < BUDGET {
        if brake.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let start = Instant::now();
        copy.run(times);
        best = best.min(start.elapsed());
        passes += 1;
    }
    Ok(Some(result(bytes, 2 * u64::from(times), best)))
}

fn reading(threads: usize, bytes: u64, brake: &AtomicBool) -> Result<Option<Bandwidth>> {
    let words = usize::try_from(bytes / 8).unwrap_or(usize::MAX);
    let mut memory: Vec<u64> = Vec::new();
    memory.try_reserve_exact(words).map_err(|_| Error::failed("no memory for a measurement"))?;
    memory.resize(words, 1);
    let rounds = PASS.div_ceil(bytes);
    let (barrier, stop) = (Barrier::new(threads), AtomicBool::new(false));
    // Where one cannot be started, the others must not wait for it.
    let all_there = OnceLock::new();
    let part = words.div_ceil(threads);
    let best = thread::scope(|scope| {
        let mut parts = memory.chunks(part);
        // The last threads have less to read, or nothing, where a few words are left over.
        let mut next = move || parts.next().unwrap_or_default();
        let first = next();
        let passes = Passes { barrier: &barrier, stop: &stop, rounds };
        let started = (1..threads).try_for_each(|_| {
            let (words, all_there) = (next(), &all_there);
            let read = move || while *all_there.wait() && passes.read(words).is_some() {};
            thread::Builder::new().spawn_scoped(scope, read).map(drop)
        });
        all_there.get_or_init(|| started.is_ok());
        started.map(|()| passes.lead(first, brake))
    });
    let best = best.map_err(|e| {
        Error::failed(format!("cannot start {threads} threads: {e}"))
            .hint(format!("`--threads {}` uses the cores that are here", machine::threads()))
    })?;
    Ok(best.map(|best| result(8 * words as u64, rounds, best)))
}

/// What the threads share: they begin each pass together, and end together.
#[derive(Clone, Copy)]
struct Passes<'a> {
    barrier: &'a Barrier,
    stop: &'a AtomicBool,
    rounds: u64,
}

impl Passes<'_> {
    /// Read one's part in one pass. `None` when there is no other.
    fn read(&self, words: &[u64]) -> Option<Duration> {
        self.barrier.wait();
        if self.stop.load(Ordering::Relaxed) {
            return None;
        }
        let start = Instant::now();
        for _ in 0..self.rounds {
            black_box(sum(black_box(words)));
        }
        self.barrier.wait();
        Some(start.elapsed())
    }

    /// Read as long as there is time, and answer the shortest pass. `None` if the brake stopped it.
    fn lead(&self, words: &[u64], brake: &AtomicBool) -> Option<Duration> {
        let (began, mut best) = (Instant::now(), None);
        for pass in 0.. {
            let braked = brake.load(Ordering::Relaxed);
            if braked || (pass >= PASSES && began.elapsed() > BUDGET) {
                self.stop.store(true, Ordering::Relaxed);
                best = best.filter(|_| !braked);
            }
            let Some(took) = self.read(words) else { break };
            best = Some(best.map_or(took, |best: Duration| best.min(took)));
        }
        best
    }
}

/// Sums in several places at a time, so that memory is waited for and not the addition before.
fn sum(words: &[u64]) -> u64 {
    let mut sums = [0_u64; 32];
    let (chunks, rest) = words.as_chunks::<32>();
    for chunk in chunks {
        ask_ahead(chunk);
        for (sum, word) in sums.iter_mut().zip(chunk) {
            *sum = sum.wrapping_add(*word);
        }
    }
    sums.iter().chain(rest).fold(0, |all, word| all.wrapping_add(*word))
}

/// Ask for as many words as these, further on.
#[cfg(target_arch = "x86_64")]
fn ask_ahead(words: &[u64]) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    let from = words.as_ptr().cast::<i8>();
    for line in (0..size_of_val(words)).step_by(LINE) {
        // SAFETY: nothing is read, and any address may be asked for.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(from.wrapping_add(AHEAD + line)) };
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn ask_ahead(_: &[u64]) {}

fn result(bytes: u64, rounds: u64, took: Duration) -> Bandwidth {
    let read = float(bytes) * float(rounds);
    Bandwidth { bytes_per_second: read / took.as_secs_f64().max(1e-9), working_set: bytes }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_read() {
        for len in [0, 1, 31, 32, 33, 1000] {
            let words: Vec<u64> = (1..=len).collect();
            assert_eq!(sum(&words), len * (len + 1) / 2, "{len}");
        }
    }

    #[test]
    fn no_more_memory_is_taken_than_there_is_room_for() {
        for (wanted, free, bytes) in [
            (92 << 20, None, 92 << 20),
            (92 << 20, Some(800 << 20), 92 << 20),
            (92 << 20, Some(80 << 20), 10 << 20),
            (8 << 30, Some(64 << 30), LARGEST),
            (0, Some(0), 1 << 20),
        ] {
            assert_eq!(working_set(wanted, free), bytes, "{wanted} {free:?}");
        }
    }

    #[test]
    fn any_number_of_threads_reads_the_same() {
        for threads in [1, 2, 3, 7] {
            let measured = measure(None, threads, 3 << 20, &AtomicBool::new(false)).unwrap().unwrap();
            assert_eq!(measured.working_set, 3 << 20, "{threads}");
            assert!(measured.bytes_per_second.is_finite() && measured.bytes_per_second > 0.0, "{threads}");
        }
    }

    #[test]
    fn the_brake_stops_it() {
        assert_eq!(measure(None, 2, 1 << 20, &AtomicBool::new(true)).unwrap(), None);
    }
}
