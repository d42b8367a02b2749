//! The samples that are still alive: safe code, called from inside the allocator.
//!
//! It allocates itself (a map, stacks); `BUSY` keeps a thread from sampling its own bookkeeping, and from waiting for a lock it holds.

use std::{
    cell::Cell,
    collections::HashMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU16, Ordering},
    },
};

use crate::{PERIOD, stack};

/// More are not kept: at one sample per half MiB that is 32 GiB alive.
const MOST: usize = 1 << 16;

/// One byte-sized question before any lock: may this address be a sample? Counts of the samples whose addresses fall together.
static MARKS: [AtomicU16; 1 << 16] = [const { AtomicU16::new(0) }; 1 << 16];
static SAMPLES: Mutex<Option<HashMap<usize, Sample>>> = Mutex::new(None);

// Constant and without a destructor: they need no allocation and exist as long as the thread.
thread_local! {
    /// Bytes to go until the next sample.
    static LEFT: Cell<i64> = const { Cell::new(0) };
    /// Random state; zero before the first use.
    static DICE: Cell<u64> = const { Cell::new(0) };
    /// This thread is doing the profile's own work.
    static BUSY: Cell<bool> = const { Cell::new(false) };
}

#[derive(Debug)]
pub struct Sample {
    size: usize,
    stack: Box<[usize]>,
}

/// A place in the program and what it holds, estimated from the samples.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Site {
    /// Return addresses, innermost first.
    pub stack: Vec<usize>,
    /// Allocations alive.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// What is alive of everything sampled, by place, the largest first.
pub fn live() -> Vec<Site> {
    busily(|| {
        let mut sites: HashMap<Box<[usize]>, (f64, f64)> = HashMap::new();
        for sample in samples().iter().flat_map(HashMap::values) {
            let weight = weight(sample.size);
            let site = sites.entry(sample.stack.clone()).or_default();
            site.0 += weight;
            site.1 += weight * sample.size as f64;
        }
        let site = |(stack, (objects, bytes)): (Box<[usize]>, (f64, f64))| Site {
            stack: stack.into_vec(),
            objects: objects.round() as u64,
            bytes: bytes.round() as u64,
        };
        let mut sites: Vec<Site> = sites.into_iter().map(site).collect();
        sites.sort_unstable_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.stack.cmp(&b.stack)));
        sites
    })
    .unwrap_or_default()
}

#[inline]
pub fn allocated(address: usize, size: usize) {
    let due = LEFT.try_with(|left| {
        let rest = left.get() - i64::try_from(size).unwrap_or(i64::MAX);
        left.set(rest);
        rest < 0
    });
    if due == Ok(true) && address != 0 {
        sample(address, size);
    }
}

/// The sample at an address that is about to be given back.
#[inline]
pub fn freed(address: usize) -> Option<Sample> {
    if MARKS[mark(address)].load(Ordering::Acquire) == 0 { None } else { forget(address) }
}

pub fn put_back(address: usize, sample: Sample) {
    busily(|| keep(address, sample));
}

#[cold]
fn sample(address: usize, size: usize) {
    busily(|| {
        let first = DICE.with(Cell::get) == 0;
        let distance = next_distance();
        LEFT.with(|left| left.set(distance));
        // A thread's first distance begins with its second allocation.
        if !first {
            keep(address, Sample { size, stack: stack() });
        }
    });
}

fn keep(address: usize, sample: Sample) {
    let mut samples = samples();
    let samples = samples.get_or_insert_default();
    if samples.len() < MOST && samples.insert(address, sample).is_none() {
        MARKS[mark(address)].fetch_add(1, Ordering::Release);
    }
}

#[cold]
fn forget(address: usize) -> Option<Sample> {
    busily(|| {
        let sample = samples().as_mut().and_then(|samples| samples.remove(&address));
        if sample.is_some() {
            MARKS[mark(address)].fetch_sub(1, Ordering::Release);
        }
        sample
    })
    .flatten()
}

fn samples() -> MutexGuard<'static, Option<HashMap<usize, Sample>>> {
    SAMPLES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Does the profile's own work, unless this thread is in the middle of it already.
fn busily<T>(work: impl FnOnce() -> T) -> Option<T> {
    if BUSY.try_with(|busy| busy.replace(true)) != Ok(false) {
        return None;
    }
    let outcome = work();
    let _ = BUSY.try_with(|busy| busy.set(false));
    Some(outcome)
}

fn mark(address: usize) -> usize {
    // The golden ratio spreads addresses that are multiples of a page.
    ((address as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 48) as usize
}

/// Distances are exponentially distributed: every byte is as likely to be sampled as any other.
fn next_distance() -> i64 {
    let random = DICE.with(|dice| {
        let mut state = dice.get();
        if state == 0 {
            // Threads differ in where they keep this.
            state = (std::ptr::from_ref(dice) as u64) | 1;
        }
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        dice.set(state);
        state.wrapping_mul(0x2545_F491_4F6C_DD1D)
    });
    let fraction = ((random >> 11) as f64 + 1.0) / (1u64 << 53) as f64;
    (-fraction.ln() * PERIOD as f64) as i64
}

/// How many allocations of this size one sample stands for.
fn weight(size: usize) -> f64 {
    1.0 / (1.0 - (-(size.max(1) as f64) / PERIOD as f64).exp())
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, thread};

    use super::*;
    use crate::{Heap, start_profiling};

    #[global_allocator]
    static HEAP: Heap = Heap;

    /// Only what this test's own function holds: tests run side by side.
    fn held(function: &str) -> u64 {
        let ours = |site: &Site| {
            site.stack.iter().any(|address| {
                let mut found = false;
                backtrace::resolve(*address as *mut _, |symbol| {
                    found |= symbol.name().is_some_and(|name| name.to_string().contains(function));
                });
                found
            })
        };
        live().iter().filter(|site| ours(site)).map(|site| site.bytes).sum()
    }

    #[inline(never)]
    fn hoard(blocks: usize, size: usize) -> Vec<Vec<u8>> {
        (0..blocks).map(|_| vec![1; size]).collect()
    }

    #[inline(never)]
    fn send_away(to: &mpsc::Sender<Vec<u8>>, blocks: usize) {
        for _ in 0..blocks {
            to.send(vec![2; 40_000]).unwrap();
        }
    }

    #[inline(never)]
    fn grow_slowly(to: usize) -> Vec<u8> {
        let mut grown = Vec::new();
        while grown.len() < to {
            grown.extend_from_slice(&[0; 1000]);
        }
        grown
    }

    #[test]
    fn what_is_held_is_estimated_and_what_is_freed_is_forgotten() {
        // SYM-11
        start_profiling();
        let small = hoard(160_000, 400);
        let large = hoard(2, 32 << 20);
        let expected = (64 << 20) + (64 << 20);
        let seen = held("hoard");
        assert!((expected / 2..expected * 2).contains(&seen), "{seen} of {expected}");
        drop(small);
        let seen = held("hoard");
        assert!((60 << 20..80 << 20).contains(&seen), "{seen}");
        drop(large);
        assert_eq!(held("hoard"), 0);
    }

    #[test]
    fn memory_freed_by_another_thread_is_forgotten() {
        start_profiling();
        let (to, from) = mpsc::channel();
        let senders: Vec<_> = (0..4)
            .map(|_| {
                let to = to.clone();
                thread::spawn(move || send_away(&to, 1000))
            })
            .collect();
        drop(to);
        let mut kept = Vec::new();
        while let Ok(block) = from.recv() {
            kept.push(block);
        }
        senders.into_iter().for_each(|sender| sender.join().unwrap());
        assert!(held("send_away") > 40 << 20);
        drop(kept);
        assert_eq!(held("send_away"), 0);
    }

    #[test]
    fn a_block_that_grows_is_counted_once() {
        start_profiling();
        let grown: Vec<Vec<u8>> = (0..16).map(|_| grow_slowly(8 << 20)).collect();
        let capacity: u64 = grown.iter().map(|block| block.capacity() as u64).sum();
        let seen = held("grow_slowly");
        assert!((capacity / 2..=capacity * 3 / 2).contains(&seen), "{seen} of {capacity}");
        drop(grown);
        assert_eq!(held("grow_slowly"), 0);
    }
}
