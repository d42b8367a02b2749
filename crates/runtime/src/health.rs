//! Is the program alive, is it ready: checks that any part adds while it runs, and takes away by dropping what it got.

use std::{
    collections::BTreeMap,
    fmt,
    future::Future,
    panic::AssertUnwindSafe,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::{FutureExt, future::join_all};

/// How long a check may think before it counts as failed.
const DEADLINE: Duration = Duration::from_secs(5);

/// Which question a check belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Probe {
    /// A failure means that only a restart helps. Asked for readiness, too.
    Live,
    /// A failure means that this process shall get no work now.
    Ready,
}

/// A check's answer: fine, or why not, in words without secrets.
pub type Verdict = Result<(), String>;

type Work = Pin<Box<dyn Future<Output = Verdict> + Send>>;

/// The checks of a process. Cheap to clone; all clones are the same.
#[derive(Clone, Default)]
pub struct Health {
    checks: Arc<Mutex<Checks>>,
}

#[derive(Default)]
struct Checks {
    /// In the order they were added.
    by_id: BTreeMap<u64, Arc<Check>>,
    next: u64,
}

struct Check {
    name: String,
    probe: Probe,
    deadline: Duration,
    work: Box<dyn Fn() -> Work + Send + Sync>,
    /// How it went last: a change is logged, not every failure.
    failing: AtomicBool,
}

/// Keeps a check in place; dropping it takes the check away.
#[must_use = "the check is taken away when this is dropped"]
pub struct CheckGuard {
    checks: Arc<Mutex<Checks>>,
    id: u64,
}

/// A check whose answer is set from outside.
pub struct HealthFlag {
    verdict: Arc<Mutex<Verdict>>,
    _guard: CheckGuard,
}

/// One check's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The check.
    pub name: String,
    /// Its answer.
    pub verdict: Verdict,
}

impl Health {
    /// Adds a check, which has five seconds to answer.
    pub fn add<F>(&self, probe: Probe, name: &str, check: impl Fn() -> F + Send + Sync + 'static) -> CheckGuard
    where
        F: Future<Output = Verdict> + Send + 'static,
    {
        self.add_within(probe, name, DEADLINE, check)
    }

    /// Adds a check that has this long to answer.
    pub fn add_within<F>(
        &self,
        probe: Probe,
        name: &str,
        deadline: Duration,
        check: impl Fn() -> F + Send + Sync + 'static,
    ) -> CheckGuard
    where
        F: Future<Output = Verdict> + Send + 'static,
    {
        let work: Box<dyn Fn() -> Work + Send + Sync> = Box::new(move || Box::pin(check()));
        let check = Check { name: name.to_owned(), probe, deadline, work, failing: AtomicBool::new(false) };
        let mut checks = lock(&self.checks);
        let id = checks.next;
        checks.next += 1;
        checks.by_id.insert(id, Arc::new(check));
        CheckGuard { checks: Arc::clone(&self.checks), id }
    }

    /// Adds a check that fails with `why` until it is told otherwise.
    pub fn add_flag(&self, probe: Probe, name: &str, why: &str) -> HealthFlag {
        let verdict = Arc::new(Mutex::new(Err(why.to_owned())));
        let shown = Arc::clone(&verdict);
        let guard = self.add(probe, name, move || {
            let now = lock(&shown).clone();
            async move { now }
        });
        HealthFlag { verdict, _guard: guard }
    }

    /// Asks every check of a question at once.
    pub async fn ask(&self, probe: Probe) -> Vec<Outcome> {
        self.ask_those(|check| check.probe <= probe).await
    }

    /// Asks the checks of one name.
    pub async fn ask_one(&self, probe: Probe, name: &str) -> Vec<Outcome> {
        self.ask_those(|check| check.probe <= probe && check.name == name).await
    }

    async fn ask_those(&self, wanted: impl Fn(&Check) -> bool) -> Vec<Outcome> {
        let asked: Vec<Arc<Check>> =
            lock(&self.checks).by_id.values().filter(|check| wanted(check)).map(Arc::clone).collect();
        join_all(asked.iter().map(|check| check.ask())).await
    }
}

impl Check {
    async fn ask(&self) -> Outcome {
        // A check that panics is a check that fails, when it is made as well as while it runs.
        let work = AssertUnwindSafe(async { (self.work)().await }).catch_unwind();
        let verdict = match tokio::time::timeout(self.deadline, work).await {
            Ok(Ok(verdict)) => verdict,
            Ok(Err(_)) => Err("the check itself panicked".to_owned()),
            Err(_) => Err(format!("no answer within {:?}", self.deadline)),
        };
        let failed = verdict.is_err();
        if self.failing.swap(failed, Ordering::Relaxed) != failed {
            match &verdict {
                Ok(()) => tracing::info!(check = %self.name, "healthy again"),
                Err(why) => tracing::warn!(check = %self.name, %why, "a health check fails"),
            }
        }
        Outcome { name: self.name.clone(), verdict }
    }
}

impl HealthFlag {
    /// All is well.
    pub fn pass(&self) {
        *lock(&self.verdict) = Ok(());
    }

    /// It is not, and why.
    pub fn fail(&self, why: impl Into<String>) {
        *lock(&self.verdict) = Err(why.into());
    }
}

impl Drop for CheckGuard {
    fn drop(&mut self) {
        lock(&self.checks).by_id.remove(&self.id);
    }
}

impl fmt::Debug for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(lock(&self.checks).by_id.values().map(|check| &check.name)).finish()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn answers(health: &Health, probe: Probe) -> Vec<(String, Verdict)> {
        health.ask(probe).await.into_iter().map(|outcome| (outcome.name, outcome.verdict)).collect()
    }

    #[tokio::test]
    async fn checks_come_and_go_while_the_program_runs() {
        // SYM-10
        let health = Health::default();
        assert!(answers(&health, Probe::Ready).await.is_empty());
        let cache = health.add_flag(Probe::Ready, "cache", "not synced yet");
        let disk = health.add(Probe::Live, "disk", || async { Ok(()) });
        let not_yet = Err("not synced yet".to_owned());
        assert_eq!(answers(&health, Probe::Live).await, [("disk".to_owned(), Ok(()))]);
        assert_eq!(answers(&health, Probe::Ready).await, [("cache".to_owned(), not_yet), ("disk".to_owned(), Ok(()))]);
        cache.pass();
        assert_eq!(answers(&health, Probe::Ready).await[0].1, Ok(()));
        cache.fail("the watch was cut");
        assert_eq!(health.ask_one(Probe::Ready, "cache").await[0].verdict, Err("the watch was cut".to_owned()));
        assert!(health.ask_one(Probe::Live, "cache").await.is_empty());
        drop(cache);
        assert_eq!(answers(&health, Probe::Ready).await, [("disk".to_owned(), Ok(()))]);
        drop(disk);
        assert!(answers(&health, Probe::Ready).await.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_check_that_hangs_or_panics_fails_and_holds_up_no_other() {
        // SYM-10
        let health = Health::default();
        let started = tokio::time::Instant::now();
        let _a = health.add_within(Probe::Live, "hangs", Duration::from_secs(3), std::future::pending);
        let _b = health.add_within(Probe::Live, "hangs too", Duration::from_secs(3), std::future::pending);
        let _c = health.add(Probe::Live, "panics", || async { panic!("on purpose") });
        let _d = health.add::<std::future::Ready<Verdict>>(Probe::Live, "panics early", || panic!("on purpose"));
        let _e = health.add(Probe::Live, "fine", || async { Ok(()) });
        let all = answers(&health, Probe::Live).await;
        assert_eq!(started.elapsed(), Duration::from_secs(3));
        assert_eq!(all.iter().filter(|(_, verdict)| verdict.is_ok()).count(), 1);
        assert!(all[0].1.as_ref().is_err_and(|why| why.contains("3s")), "{all:?}");
        assert!(all[2].1.as_ref().is_err_and(|why| why.contains("panicked")), "{all:?}");
    }

    #[tokio::test]
    async fn two_checks_of_one_name_are_two_checks() {
        let health = Health::default();
        let first = health.add_flag(Probe::Ready, "member", "one");
        let _second = health.add_flag(Probe::Ready, "member", "two");
        drop(first);
        assert_eq!(health.ask(Probe::Ready).await[0].verdict, Err("two".to_owned()));
    }
}
