//! The queue between what happens and what is done about it: one key at a time, the urgent ones first, failed ones later and later.

mod backoff;
mod core;
#[cfg(test)]
mod tests;

use std::{
    hash::Hash,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

use self::core::Core;
pub(crate) use self::{
    backoff::Bucket,
    core::{Ended, Taken},
};
pub use self::{
    backoff::{Backoff, Rate},
    core::Priority,
};
use crate::metrics::{QueueMetrics, Unfinished};

/// Shared by those who ask for work and the one who does it.
pub(crate) struct Queue<K> {
    state: Mutex<State<K>>,
    changed: Notify,
    metrics: QueueMetrics,
}

struct State<K> {
    core: Core<K>,
    /// Nothing is handed out any more; wishes are still remembered.
    closed: bool,
}

/// A queue in figures.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct QueueStatus {
    /// Keys that wait for a worker.
    pub ready: usize,
    /// Keys that wait for a time.
    pub delayed: usize,
    /// Keys being worked on.
    pub running: usize,
}

impl<K: Clone + Eq + Hash + Send + 'static> Queue<K> {
    pub(crate) fn new(backoff: Backoff, rate: Rate, metrics: QueueMetrics) -> Arc<Self> {
        let core = Core::new(backoff, rate, fastrand::Rng::new());
        let queue = Arc::new(Queue {
            state: Mutex::new(State { core, closed: false }),
            changed: Notify::new(),
            metrics: metrics.clone(),
        });
        metrics.watch_unfinished(Arc::downgrade(&queue) as std::sync::Weak<dyn Unfinished>);
        queue
    }

    /// Asks for work on `key` now.
    pub(crate) fn add(&self, key: K, priority: Priority) {
        self.change(|core, now| core.add(key, priority, now));
    }

    /// Asks for work on `key` after `pause`.
    #[cfg(test)]
    pub(crate) fn add_after(&self, key: K, pause: Duration) {
        self.change(|core, now| core.add_at(key, now + pause, Priority::Again, now));
    }

    /// The next key; `None` once the queue is closed. May be called by several workers, and dropped at any time.
    pub(crate) async fn next(&self) -> Option<Taken<K>> {
        loop {
            let changed = self.changed.notified();
            let wake = {
                let mut state = self.lock();
                if state.closed {
                    return None;
                }
                let taken = state.core.take(Instant::now());
                let depth = state.core.depth();
                if let Some(taken) = taken {
                    drop(state);
                    self.metrics.depth(depth);
                    self.metrics.waited(taken.waited);
                    if depth > 0 {
                        self.changed.notify_one();
                    }
                    return Some(taken);
                }
                state.core.next_wake()
            };
            match wake {
                Some(at) => tokio::select! { () = changed => {}, () = sleep_until(at) => {} },
                None => changed.await,
            }
        }
    }

    /// The work on `key` has ended. Must follow every `next`.
    pub(crate) fn done(&self, key: &K, ended: Ended) {
        let mut state = self.lock();
        let worked = state.core.done(key, ended, Instant::now());
        let depth = state.core.depth();
        drop(state);
        if let Some(worked) = worked {
            self.metrics.worked(worked);
        }
        if ended == Ended::Failed {
            self.metrics.retries.inc();
        }
        self.metrics.depth(depth);
        self.changed.notify_one();
    }

    /// Hands nothing out until `open`. What is being worked on can still be ended.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_waiters();
        self.changed.notify_one();
    }

    pub(crate) fn open(&self) {
        self.lock().closed = false;
        self.changed.notify_one();
    }

    pub(crate) fn status(&self) -> QueueStatus {
        let core = &self.lock().core;
        QueueStatus { ready: core.depth(), delayed: core.delayed(), running: core.running() }
    }

    fn change(&self, change: impl FnOnce(&mut Core<K>, Instant) -> bool) {
        let mut state = self.lock();
        let fresh = change(&mut state.core, Instant::now());
        let depth = state.core.depth();
        drop(state);
        if fresh {
            self.metrics.adds.inc();
            self.metrics.depth(depth);
        }
        self.changed.notify_one();
    }

    /// Nothing panics while the lock is held, and if it did, the rules would still hold.
    fn lock(&self) -> MutexGuard<'_, State<K>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Clone + Eq + Hash + Send + 'static> Unfinished for Queue<K> {
    fn unfinished(&self) -> (Duration, Duration) {
        let now = Instant::now();
        self.lock().core.running_since().fold((Duration::ZERO, Duration::ZERO), |(sum, longest), since| {
            let age = now.saturating_duration_since(since);
            (sum + age, longest.max(age))
        })
    }
}
