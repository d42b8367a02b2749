//! The queue's rules without a clock, a lock or a task: which key is next, which must wait, which are being worked on.
//!
//! A key is in the queue at most once, so the queue is bounded by the number of keys there are.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap, VecDeque},
    hash::Hash,
    time::Duration,
};

use tokio::time::Instant;

use super::{Backoff, Rate, backoff::Bucket};

/// How urgent a key is. A waiting key only ever becomes more urgent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// Nothing is known to have changed: the first list after a start, a resync.
    Listed,
    /// It was asked for: a retry, a requeue.
    Again,
    /// Somebody changed something.
    Changed,
}

/// After this many keys of higher priority a waiting lower one has its turn.
const PATIENCE: u32 = 8;

/// Room for so many keys is kept.
const ROOM: usize = 256;

/// What the queue knows about a key. Dropped as soon as there is nothing to know.
#[derive(Debug, Default)]
struct Entry {
    /// Waiting for a worker. The ticket tells this wish from older ones still lying in the lanes.
    ready: Option<Ready>,
    /// Waiting for a time; never together with `ready`.
    due: Option<Due>,
    /// In the hands of a worker since then.
    running: Option<Instant>,
    /// In a row, without a success between.
    failures: u32,
}

#[derive(Debug, Clone, Copy)]
struct Ready {
    priority: Priority,
    since: Instant,
    ticket: u64,
}

#[derive(Debug, Clone, Copy)]
struct Due {
    at: Instant,
    priority: Priority,
    ticket: u64,
}

/// A key handed to a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Taken<K> {
    pub key: K,
    pub priority: Priority,
    /// How long it waited.
    pub waited: Duration,
    pub failures: u32,
}

/// How the work on a key ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Nothing more to do.
    Well,
    /// Look again then.
    After(Duration),
    /// Look again when it is its turn.
    Again,
    /// Try again, later and later.
    Failed,
    /// It was interrupted and has to be done: neither a failure nor a success.
    Interrupted,
}

pub(crate) struct Core<K> {
    entries: HashMap<K, Entry>,
    /// One per priority, by `Priority as usize`; may hold stale tickets, at most one per priority and key.
    lanes: [VecDeque<(K, u64)>; 3],
    /// How often a lane was passed over while it had something.
    passed: [u32; 3],
    timers: BinaryHeap<Reverse<(Instant, u64)>>,
    /// The key of each ticket in `timers` that still counts.
    waiting: HashMap<u64, K>,
    next_ticket: u64,
    /// How many tickets in each lane still count.
    queued: [usize; 3],
    running: usize,
    backoff: Backoff,
    bucket: Bucket,
    random: fastrand::Rng,
}

impl<K: Clone + Eq + Hash> Core<K> {
    pub(crate) fn new(backoff: Backoff, rate: Rate, random: fastrand::Rng) -> Self {
        Core {
            entries: HashMap::new(),
            lanes: Default::default(),
            passed: [0; 3],
            timers: BinaryHeap::new(),
            waiting: HashMap::new(),
            next_ticket: 0,
            queued: [0; 3],
            running: 0,
            backoff,
            bucket: Bucket::new(rate),
            random,
        }
    }

    /// Asks for work on `key`. True when this is a new wish rather than one more for a key that waits already.
    pub(crate) fn add(&mut self, key: K, priority: Priority, now: Instant) -> bool {
        let ticket = self.ticket();
        let entry = self.entries.entry(key.clone()).or_default();
        if let Some(due) = entry.due.take() {
            self.waiting.remove(&due.ticket);
        }
        let (since, fresh) = match entry.ready {
            Some(ready) if ready.priority >= priority => return false,
            Some(ready) => {
                if entry.running.is_none() {
                    self.queued[ready.priority as usize] -= 1;
                }
                (ready.since, false)
            }
            None => (now, true),
        };
        entry.ready = Some(Ready { priority, since, ticket });
        // A key in a worker's hands is handed out again only when that worker is done with it.
        if entry.running.is_none() {
            self.queue(priority, key, ticket);
        }
        fresh
    }

    /// Asks for work on `key` at a time. Whichever wish comes first counts; the run that follows decides anew.
    pub(crate) fn add_at(&mut self, key: K, at: Instant, priority: Priority, now: Instant) -> bool {
        if at <= now {
            return self.add(key, priority, now);
        }
        let ticket = self.ticket();
        let entry = self.entries.entry(key.clone()).or_default();
        if entry.ready.is_some() || entry.due.is_some_and(|due| due.at <= at) {
            return false;
        }
        if let Some(later) = entry.due.replace(Due { at, priority, ticket }) {
            self.waiting.remove(&later.ticket);
        }
        self.waiting.insert(ticket, key);
        self.timers.push(Reverse((at, ticket)));
        // Timers whose key was woken earlier lie there until they are due; not too many of them.
        if self.timers.len() > 2 * self.waiting.len() + 64 {
            self.timers.retain(|Reverse((_, ticket))| self.waiting.contains_key(ticket));
        }
        true
    }

    /// The next key to work on, if there is one now.
    pub(crate) fn take(&mut self, now: Instant) -> Option<Taken<K>> {
        self.wake(now);
        let lane = self.choose()?;
        while let Some((key, ticket)) = self.lanes[lane].pop_front() {
            let Some(entry) = self.entries.get_mut(&key) else { continue };
            let Some(ready) = entry.ready.filter(|ready| ready.ticket == ticket) else { continue };
            entry.ready = None;
            entry.running = Some(now);
            let failures = entry.failures;
            self.queued[lane] -= 1;
            self.running += 1;
            let waited = now.saturating_duration_since(ready.since);
            return Some(Taken { key, priority: ready.priority, waited, failures });
        }
        None
    }

    /// The worker is done with `key`. Says how long it had it.
    pub(crate) fn done(&mut self, key: &K, ended: Ended, now: Instant) -> Option<Duration> {
        let entry = self.entries.get_mut(key)?;
        let since = entry.running.take()?;
        self.running -= 1;
        entry.failures = match ended {
            Ended::Failed => entry.failures.saturating_add(1),
            Ended::Interrupted => entry.failures,
            Ended::Well | Ended::After(_) | Ended::Again => 0,
        };
        let failures = entry.failures;
        if let Some(ready) = entry.ready {
            // Something happened meanwhile: one more run, which decides by itself what comes after.
            self.queue(ready.priority, key.clone(), ready.ticket);
            return Some(now.saturating_duration_since(since));
        }
        match ended {
            Ended::Well => {}
            Ended::After(pause) => {
                self.add_at(key.clone(), now + pause, Priority::Again, now);
            }
            Ended::Again => {
                let pause = self.bucket.take(now);
                self.add_at(key.clone(), now + pause, Priority::Again, now);
            }
            Ended::Failed => {
                let random = self.random.f64();
                let pause = self.backoff.pause(failures, random).max(self.bucket.take(now));
                self.add_at(key.clone(), now + pause, Priority::Again, now);
            }
            Ended::Interrupted => {
                self.add(key.clone(), Priority::Again, now);
            }
        }
        self.forget_if_empty(key);
        Some(now.saturating_duration_since(since))
    }

    /// When something will become ready by itself.
    pub(crate) fn next_wake(&mut self) -> Option<Instant> {
        while let Some(Reverse((at, ticket))) = self.timers.peek() {
            if self.waiting.contains_key(ticket) {
                return Some(*at);
            }
            self.timers.pop();
        }
        None
    }

    /// How many keys wait for a worker.
    pub(crate) fn depth(&self) -> usize {
        self.queued.iter().sum()
    }

    /// How many keys wait for a time.
    pub(crate) fn delayed(&self) -> usize {
        self.waiting.len()
    }

    /// How many keys are in workers' hands.
    pub(crate) fn running(&self) -> usize {
        self.running
    }

    /// Since when each running key is worked on.
    pub(crate) fn running_since(&self) -> impl Iterator<Item = Instant> {
        self.entries.values().filter_map(|entry| entry.running)
    }

    /// Moves what is due into the lanes.
    fn wake(&mut self, now: Instant) {
        while let Some(Reverse((at, ticket))) = self.timers.peek().copied() {
            if at > now {
                break;
            }
            self.timers.pop();
            let Some(key) = self.waiting.remove(&ticket) else { continue };
            let Some(due) = self.entries.get_mut(&key).and_then(|entry| entry.due.take()) else { continue };
            self.add(key, due.priority, at);
        }
    }

    /// The most urgent lane that has something, unless a lower one has been patient for long enough.
    fn choose(&mut self) -> Option<usize> {
        let has = |lane: usize| self.queued[lane] > 0;
        let patient = (0..3).find(|lane| has(*lane) && self.passed[*lane] >= PATIENCE);
        let chosen = patient.or_else(|| (0..3).rev().find(|lane| has(*lane)))?;
        for lane in 0..3 {
            self.passed[lane] = if lane < chosen && self.queued[lane] > 0 { self.passed[lane] + 1 } else { 0 };
        }
        Some(chosen)
    }

    fn queue(&mut self, priority: Priority, key: K, ticket: u64) {
        self.lanes[priority as usize].push_back((key, ticket));
        self.queued[priority as usize] += 1;
    }

    fn forget_if_empty(&mut self, key: &K) {
        if let Some(entry) = self.entries.get(key)
            && entry.ready.is_none()
            && entry.due.is_none()
            && entry.running.is_none()
            && entry.failures == 0
        {
            self.entries.remove(key);
            self.shrink();
        }
    }

    /// The room that the first list took is not kept for ever.
    fn shrink(&mut self) {
        if self.entries.capacity() > ROOM.max(8 * self.entries.len()) {
            self.entries.shrink_to(ROOM.max(2 * self.entries.len()));
            for lane in &mut self.lanes {
                lane.shrink_to(ROOM.max(2 * lane.len()));
            }
        }
    }

    fn ticket(&mut self) -> u64 {
        self.next_ticket += 1;
        self.next_ticket
    }

    #[cfg(test)]
    pub(crate) fn room(&self) -> usize {
        self.entries.capacity() + self.lanes.iter().map(VecDeque::capacity).sum::<usize>()
    }

    #[cfg(test)]
    pub(crate) fn timers(&self) -> usize {
        self.timers.len()
    }

    #[cfg(test)]
    pub(crate) fn known(&self) -> usize {
        self.entries.len()
    }
}
