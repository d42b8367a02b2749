//! Hands keys to reconciles and deals with how they end: waits, retries, panics, hangs, leaders deposed and programs stopped.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
    panic,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use jiff::Timestamp;
use tokio::{
    task::{Id, JoinError, JoinSet},
    time::{Instant, sleep_until, timeout, timeout_at},
};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::{
    Context, Failure, Key, Next, Priority,
    controller::{Tuning, Work},
    fence::Fenced,
    handle::LastError,
    metrics::ControllerMetrics,
    queue::{Ended, Queue},
};

/// The loop of one reconciler.
pub(crate) struct Dispatcher {
    pub name: Arc<str>,
    pub queue: Arc<Queue<Key>>,
    pub work: Arc<dyn Work>,
    pub tuning: Tuning,
    pub metrics: ControllerMetrics,
    pub log: FailureLog,
}

/// Why the loop ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// Asked to; running reconciles had their time to finish.
    Stopped,
    /// This process no longer leads; running reconciles were cut off at once.
    Deposed,
}

struct Ran {
    result: Result<Next, Failure>,
    took: Duration,
}

impl Dispatcher {
    /// Works until `stop` (then finishes within `grace`) or `deposed`.
    pub(crate) async fn run(
        &mut self,
        context: &Context,
        stop: &CancellationToken,
        deposed: &CancellationToken,
        grace: Duration,
    ) -> End {
        self.metrics.workers.set(i64::try_from(self.tuning.concurrency).unwrap_or(i64::MAX));
        let mut running: JoinSet<Ran> = JoinSet::new();
        let mut keys: HashMap<Id, Key> = HashMap::new();
        let resync = |from: Instant, every: Duration| from + every.mul_f64(1.0 + 0.1 * fastrand::f64());
        let mut resync_at = self.tuning.resync.map(|every| resync(Instant::now(), every));
        self.queue.open();
        let end = loop {
            let free = running.len() < self.tuning.concurrency;
            let far = Instant::now() + Duration::from_secs(86_400);
            tokio::select! {
                biased;
                () = deposed.cancelled() => break End::Deposed,
                () = stop.cancelled() => break End::Stopped,
                Some(ended) = running.join_next_with_id() => self.ended(ended, &mut keys),
                taken = self.queue.next(), if free => {
                    let Some(taken) = taken else { break End::Stopped };
                    let id = self.start(taken.key.clone(), taken.failures, context, &mut running);
                    keys.insert(id, taken.key);
                }
                () = sleep_until(resync_at.unwrap_or(far)) => {
                    if let Some(every) = self.tuning.resync {
                        self.work.keys().into_iter().for_each(|key| self.queue.add(key, Priority::Listed));
                        resync_at = Some(resync(Instant::now(), every));
                    }
                }
            }
        };
        self.queue.close();
        if end == End::Stopped {
            let until = Instant::now() + grace;
            loop {
                tokio::select! {
                    biased;
                    () = deposed.cancelled() => break,
                    ended = timeout_at(until, running.join_next_with_id()) => match ended {
                        Ok(Some(ended)) => self.ended(ended, &mut keys),
                        Ok(None) => break,
                        Err(_) => {
                            let left: Vec<String> = keys.values().take(10).map(Key::to_string).collect();
                            tracing::warn!(controller = &*self.name, ?left, "did not finish in time; cut off and handed back");
                            break;
                        }
                    },
                }
            }
        }
        running.abort_all();
        // A task that does not yield cannot be cut off; it must not hold up the others.
        let abort = async {
            while let Some(ended) = running.join_next_with_id().await {
                self.ended(ended, &mut keys);
            }
        };
        if timeout(Duration::from_secs(5), abort).await.is_err() {
            tracing::error!(controller = &*self.name, "a reconcile does not yield and cannot be cut off");
        }
        for (_, key) in keys.drain() {
            self.queue.done(&key, Ended::Interrupted);
        }
        self.metrics.active.set(0);
        end
    }

    fn start(&self, key: Key, failures: u32, context: &Context, running: &mut JoinSet<Ran>) -> Id {
        self.metrics.active.inc();
        let span = tracing::info_span!("reconcile", controller = &*self.name, %key, failures);
        let deadline = self.tuning.deadline;
        let work = self.work.clone().run(key, context.clone());
        let run = async move {
            let start = Instant::now();
            let result = timeout(deadline, work).await;
            let result = result.unwrap_or_else(|_| Err(Failure::retry(format!("did not end within {deadline:?}"))));
            Ran { result, took: start.elapsed() }
        };
        running.spawn(run.instrument(span)).id()
    }

    fn ended(&mut self, ended: Result<(Id, Ran), JoinError>, keys: &mut HashMap<Id, Key>) {
        let id = match &ended {
            Ok((id, _)) => *id,
            Err(error) => error.id(),
        };
        let Some(key) = keys.remove(&id) else { return };
        self.metrics.active.dec();
        let how = match ended {
            Ok((_, ran)) => {
                self.metrics.time.observe(ran.took.as_secs_f64());
                self.judge(&key, ran.result)
            }
            Err(error) if error.is_panic() => {
                self.metrics.panics.inc();
                self.failed(&key, &format!("panicked: {}", panic_words(error)), "trying again");
                Ended::Failed
            }
            Err(_) => Ended::Interrupted,
        };
        self.queue.done(&key, how);
    }

    fn judge(&mut self, key: &Key, result: Result<Next, Failure>) -> Ended {
        if result.is_ok() {
            self.log.succeeded(&self.name, key);
        }
        match result {
            Ok(Next::Wait) => {
                self.metrics.success.inc();
                Ended::Well
            }
            Ok(Next::After(pause)) => {
                self.metrics.requeue_after.inc();
                Ended::After(pause)
            }
            Ok(Next::Again) => {
                self.metrics.requeue.inc();
                Ended::Again
            }
            // Not the object's fault: the next leader does it, or we when we lead again.
            Err(failure) if failure.is_fenced() => Ended::Interrupted,
            Err(Failure::Retry(why)) => {
                self.failed(key, &words(&*why), "trying again");
                Ended::Failed
            }
            Err(Failure::Fatal(why)) => {
                self.metrics.terminal.inc();
                self.failed(key, &words(&*why), "left until it changes");
                Ended::Well
            }
        }
    }

    fn failed(&mut self, key: &Key, why: &str, then: &str) {
        self.metrics.error.inc();
        self.metrics.errors.inc();
        self.log.failed(&self.name, key, why, then);
    }
}

/// What is to be said of an error: of a refusal by the API, its words and not its fields.
fn words(error: &(dyn std::error::Error + 'static)) -> String {
    match error.downcast_ref::<kube::Error>() {
        Some(kube::Error::Api(status)) => format!("the API answered {}: {}", status.code, status.message),
        _ => error.to_string(),
    }
}

fn panic_words(error: JoinError) -> String {
    let Ok(payload) = error.try_into_panic() else { return "without words".to_owned() };
    let words = payload.downcast_ref::<&str>().map(|words| (*words).to_owned());
    let words = words.or_else(|| payload.downcast_ref::<String>().cloned());
    // Dropping what was thrown may throw again.
    let _ = panic::catch_unwind(panic::AssertUnwindSafe(move || drop(payload)));
    words.unwrap_or_else(|| "without words".to_owned())
}

/// Of a long message only the beginning is shown to who asks; the log has all of it.
const MOST_SHOWN: usize = 1_000;

/// What fails now, for who asks from outside.
#[derive(Debug, Clone, Default)]
pub(crate) struct Failing {
    pub count: usize,
    /// What was heard last, until that object is well again.
    pub last: Option<LastError>,
}

/// Says once what is wrong with an object, and once that it is not any more; at every try only for those who ask.
#[derive(Default)]
pub(crate) struct FailureLog {
    /// A digest of the last words per failing key; bounded by the number of keys that fail.
    said: HashMap<Key, u64>,
    shown: Arc<Mutex<Failing>>,
}

impl FailureLog {
    /// What fails now; goes on changing.
    pub(crate) fn shown(&self) -> Arc<Mutex<Failing>> {
        self.shown.clone()
    }

    fn failed(&mut self, controller: &str, key: &Key, why: &str, then: &str) {
        let mut digest = DefaultHasher::new();
        why.hash(&mut digest);
        let digest = digest.finish();
        if self.said.insert(key.clone(), digest) == Some(digest) {
            tracing::debug!(controller, %key, why, then, "the reconcile failed again");
        } else {
            tracing::warn!(controller, %key, why, then, "the reconcile failed");
        }
        let message = why.chars().take(MOST_SHOWN).collect();
        let last = LastError { key: key.to_string(), message, at: Timestamp::now().to_string() };
        self.show(|shown| shown.last = Some(last));
    }

    fn show(&self, change: impl FnOnce(&mut Failing)) {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut shown);
        shown.count = self.said.len();
    }

    fn succeeded(&mut self, controller: &str, key: &Key) {
        if self.said.remove(key).is_some() {
            tracing::info!(controller, %key, "the reconcile no longer fails");
            let mended = key.to_string();
            self.show(|shown| {
                shown.last.take_if(|last| last.key == mended);
            });
        }
    }
}

impl Failure {
    /// Whether it is the fence that said no.
    pub(crate) fn is_fenced(&self) -> bool {
        let (Failure::Retry(why) | Failure::Fatal(why)) = self;
        let mut error: Option<&(dyn std::error::Error + 'static)> = Some(&**why);
        while let Some(current) = error {
            if current.downcast_ref::<Fenced>().is_some()
                || current.downcast_ref::<kube::Error>().is_some_and(|error| Fenced::of(error).is_some())
            {
                return true;
            }
            error = current.source();
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_failure_is_shown_until_its_object_is_well_again() {
        // KC-10
        let mut log = FailureLog::default();
        let shown = log.shown();
        let now = || shown.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (one, two) = (Key::new(Some("a"), "one"), Key::new(Some("a"), "two"));
        assert!(now().count == 0 && now().last.is_none());
        log.failed("c", &one, "no disk", "trying again");
        log.failed("c", &two, &"x".repeat(5_000), "trying again");
        assert_eq!(now().count, 2);
        assert_eq!(now().last.map(|last| (last.key, last.message.len())), Some(("a/two".to_owned(), MOST_SHOWN)));
        log.failed("c", &one, "no disk", "trying again");
        assert_eq!(now().last.map(|last| (last.key, last.message)), Some(("a/one".to_owned(), "no disk".to_owned())));
        log.succeeded("c", &two);
        assert_eq!((now().count, now().last.is_some()), (1, true), "that of another object stays");
        log.succeeded("c", &one);
        assert!(now().count == 0 && now().last.is_none());
    }
}
