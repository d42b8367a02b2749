//! What is to be looked at, now and later: each thing waits at most once in the queue and once among the timers.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

/// Who looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Who {
    Node,
    Scheduler,
    Kubelet,
    Deployment,
    ReplicaSet,
    StatefulSet,
    DaemonSet,
    Job,
    CronJob,
    Service,
    Budget,
}

/// One object to look at.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Work {
    pub who: Who,
    /// Empty for nodes.
    pub namespace: Arc<str>,
    pub name: Arc<str>,
}

impl Work {
    pub fn new(who: Who, namespace: &str, name: &str) -> Self {
        Self { who, namespace: namespace.into(), name: name.into() }
    }
}

/// Many changes of one moment are looked at once.
const MOMENT: Duration = Duration::from_millis(20);

#[derive(Default)]
pub(crate) struct Todo {
    queue: VecDeque<Work>,
    queued: HashSet<Work>,
    /// In the order of time; the same entries as `due`.
    timers: BTreeSet<(Instant, Work)>,
    due: HashMap<Work, Instant>,
}

impl Todo {
    pub fn now(&mut self, work: Work) {
        if self.queued.insert(work.clone()) {
            self.queue.push_back(work);
        }
    }

    /// With what else happens in this moment.
    pub fn soon(&mut self, work: Work) {
        self.at(Instant::now() + MOMENT, work);
    }

    pub fn after(&mut self, wait: Duration, work: Work) {
        self.at(Instant::now() + wait, work);
    }

    /// At the given time, or before if it was to be looked at before.
    pub fn at(&mut self, at: Instant, work: Work) {
        if let Some(old) = self.due.get(&work) {
            if *old <= at {
                return;
            }
            self.timers.remove(&(*old, work.clone()));
        }
        self.due.insert(work.clone(), at);
        self.timers.insert((at, work));
    }

    /// The next thing to look at now.
    pub fn pop(&mut self) -> Option<Work> {
        let now = Instant::now();
        while self.timers.first().is_some_and(|(at, _)| *at <= now) {
            if let Some((_, work)) = self.timers.pop_first() {
                self.due.remove(&work);
                self.now(work);
            }
        }
        let work = self.queue.pop_front()?;
        self.queued.remove(&work);
        Some(work)
    }

    /// When there will be something to do, if nothing else happens.
    pub fn next(&self) -> Option<Instant> {
        self.timers.first().map(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str) -> Work {
        Work::new(Who::Kubelet, "default", name)
    }

    #[tokio::test(start_paused = true)]
    async fn work_waits_once_and_the_earliest_time_wins() {
        let mut todo = Todo::default();
        todo.now(pod("a"));
        todo.now(pod("a"));
        assert_eq!(todo.pop(), Some(pod("a")));
        assert_eq!(todo.pop(), None);
        todo.after(Duration::from_secs(5), pod("b"));
        todo.after(Duration::from_secs(2), pod("b"));
        todo.after(Duration::from_secs(9), pod("b"));
        assert_eq!(todo.next(), Some(Instant::now() + Duration::from_secs(2)));
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(todo.pop(), Some(pod("b")));
        assert_eq!((todo.pop(), todo.next()), (None, None));
    }
}
