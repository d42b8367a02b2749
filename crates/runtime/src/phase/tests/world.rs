//! What the tests run on: a journal in memory that can crash, a clock that follows virtual time, a world with side effects.

use std::{
    collections::BTreeMap,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll},
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::{sync::Notify, task::yield_now, time::Instant};
use tokio_util::sync::CancellationToken;

use crate::{
    Clock, Failure, Next,
    phase::{
        Change, Controls, Effect, Handler, Journal, JournalError, Loaded, Machine, Observer, Phase, PhaseKind,
        PhaseStatus, Progress, Step, Trouble, status::merge_patch,
    },
};

/// The usual phases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Usual {
    Pending,
    Precheck,
    Running,
    Succeeded,
    PreFailed,
    Failed,
}

impl Phase for Usual {
    fn all() -> &'static [Self] {
        use Usual::*;
        &[Pending, Precheck, Running, Succeeded, PreFailed, Failed]
    }
    fn name(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Precheck => "Precheck",
            Self::Running => "Running",
            Self::Succeeded => "Succeeded",
            Self::PreFailed => "PreFailed",
            Self::Failed => "Failed",
        }
    }
    fn kind(self) -> PhaseKind {
        match self {
            Self::Pending => PhaseKind::Initial,
            Self::Precheck | Self::Running => PhaseKind::Normal,
            Self::Succeeded => PhaseKind::Succeeded,
            Self::PreFailed | Self::Failed => PhaseKind::Failed,
        }
    }
    fn pausable(self) -> bool {
        self == Self::Running
    }
}

/// A wall clock that follows tokio's virtual time.
pub struct VirtualClock {
    began: Timestamp,
    at: Instant,
}

pub fn clock() -> Arc<dyn Clock> {
    Arc::new(VirtualClock { began: "2026-01-01T00:00:00Z".parse().unwrap(), at: Instant::now() })
}

impl Clock for VirtualClock {
    fn now(&self) -> Timestamp {
        self.began + SignedDuration::try_from(self.at.elapsed()).unwrap()
    }
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(tokio::time::sleep(duration))
    }
}

/// When the process dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crash {
    /// Before the n-th write reaches the store.
    BeforeWrite(usize),
    /// After the n-th write, before its answer.
    AfterWrite(usize),
}

#[derive(Default)]
pub struct Store {
    /// The status as JSON, changed by merge patches only.
    pub status: Value,
    pub controls: Controls,
    pub writes: usize,
    pub crash: Option<Crash>,
    pub fail_next: Option<JournalError>,
}

/// The store survives a crash; the journal handed to a run does not.
#[derive(Clone, Default)]
pub struct MemoryJournal {
    pub store: Arc<Mutex<Store>>,
    pub crashed: Arc<Notify>,
}

impl MemoryJournal {
    pub fn status(&self) -> PhaseStatus {
        PhaseStatus::deserialize(&self.store.lock().unwrap().status).unwrap()
    }
    pub fn phase(&self) -> String {
        self.status().phase.unwrap_or_default()
    }
    pub fn visited(&self) -> Vec<String> {
        self.status().history.into_iter().map(|visit| visit.phase).collect()
    }
    pub fn controls(&self, change: impl FnOnce(&mut Controls)) {
        change(&mut self.store.lock().unwrap().controls);
    }
    async fn die(&self) -> ! {
        self.crashed.notify_one();
        std::future::pending::<()>().await;
        unreachable!()
    }
}

/// RFC 7386, written here a second time so that a wrong patch shows.
pub fn apply_patch(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (name, value) in patch {
        if value.is_null() {
            target.as_object_mut().unwrap().remove(name);
        } else {
            apply_patch(target.as_object_mut().unwrap().entry(name.clone()).or_insert(Value::Null), value);
        }
    }
}

impl Journal for MemoryJournal {
    async fn load(&mut self) -> Result<Loaded, JournalError> {
        yield_now().await;
        let controls = self.store.lock().unwrap().controls;
        Ok(Loaded { status: self.status(), controls })
    }

    async fn save(&mut self, old: &PhaseStatus, new: &PhaseStatus) -> Result<Controls, JournalError> {
        yield_now().await;
        let count = {
            let mut store = self.store.lock().unwrap();
            store.writes += 1;
            store.writes
        };
        if self.store.lock().unwrap().crash == Some(Crash::BeforeWrite(count)) {
            self.die().await;
        }
        let patch = merge_patch(&serde_json::to_value(old).unwrap(), &serde_json::to_value(new).unwrap());
        let (controls, crash) = {
            let mut store = self.store.lock().unwrap();
            if let Some(error) = store.fail_next.take() {
                return Err(error);
            }
            let stored = PhaseStatus::deserialize(&store.status).unwrap();
            if stored != *old {
                return Err(JournalError::Conflict);
            }
            apply_patch(&mut store.status, &patch.expect("a save changes something"));
            (store.controls, store.crash == Some(Crash::AfterWrite(count)))
        };
        if crash {
            self.die().await;
        }
        yield_now().await;
        Ok(controls)
    }
}

/// What side effects change.
#[derive(Default)]
pub struct World {
    pub done: Mutex<BTreeMap<String, usize>>,
    pub tries: Mutex<BTreeMap<String, usize>>,
}

impl World {
    pub fn count(&self, effect: &str) -> usize {
        self.done.lock().unwrap().get(effect).copied().unwrap_or(0)
    }
    pub fn act(&self, effect: &str) {
        *self.done.lock().unwrap().entry(effect.to_owned()).or_default() += 1;
    }
    /// Which try this is, from 1.
    pub fn try_number(&self, of: &str) -> usize {
        let mut tries = self.tries.lock().unwrap();
        let count = tries.entry(of.to_owned()).or_default();
        *count += 1;
        *count
    }
}

/// A side effect by name.
pub struct Does(pub String);

impl Effect<World> for Does {
    async fn check(&self, world: &World, _: &mut Progress) -> Result<bool, Trouble> {
        yield_now().await;
        Ok(world.count(&self.0) > 0)
    }
    async fn act(&self, world: &World, _: &mut Progress) -> Result<(), Trouble> {
        yield_now().await;
        world.act(&self.0);
        yield_now().await;
        Ok(())
    }
}

type Work<P> = dyn Fn(&World, &mut Progress) -> Result<Step<P>, Trouble> + Send + Sync;

/// A handler without awaits, as a function.
pub struct Quick<P>(pub Box<Work<P>>);

pub fn quick<P: Phase>(
    work: impl Fn(&World, &mut Progress) -> Result<Step<P>, Trouble> + Send + Sync + 'static,
) -> Quick<P> {
    Quick(Box::new(work))
}

impl<P: Phase> Handler<P, World> for Quick<P> {
    async fn run(&self, world: &World, progress: &mut Progress) -> Result<Step<P>, Trouble> {
        yield_now().await;
        (self.0)(world, progress)
    }
}

/// Remembers what it was told.
#[derive(Default)]
pub struct Told(pub Mutex<Vec<Change>>);

impl Observer for Told {
    async fn changed(&self, change: &Change) {
        self.0.lock().unwrap().push(change.clone());
    }
}

/// One reconcile.
pub async fn once<P: Phase>(
    machine: &Machine<P, World>,
    world: &World,
    journal: &MemoryJournal,
    observer: &impl Observer,
    clock: &Arc<dyn Clock>,
) -> Result<Next, Failure> {
    let mut journal = journal.clone();
    let loaded = journal.load().await.unwrap();
    machine.run(world, loaded, &mut journal, observer, clock, &CancellationToken::new()).await
}

/// Reconciles until a terminal phase, waiting as long as it is told to.
pub async fn to_the_end<P: Phase>(
    machine: &Machine<P, World>,
    world: &World,
    journal: &MemoryJournal,
    clock: &Arc<dyn Clock>,
) {
    for _ in 0..1000 {
        match once(machine, world, journal, &(), clock).await {
            Ok(Next::Wait) => {
                assert!(
                    machine.is_over(&journal.status(), &Controls::default()),
                    "waits for nothing in {}",
                    journal.phase()
                );
                return;
            }
            Ok(Next::After(after)) => clock.sleep(after).await,
            Ok(Next::Again) => yield_now().await,
            Err(Failure::Retry(_)) => clock.sleep(Duration::from_millis(5)).await,
            Err(Failure::Fatal(why)) => panic!("{why}"),
        }
    }
    panic!("no end in sight: {:?}", journal.status());
}

/// Drops a future at its n-th poll: the process dies at an await.
pub struct DropAt<F> {
    pub future: Pin<Box<F>>,
    pub polls_left: usize,
}

impl<F: Future> Future for DropAt<F> {
    /// What the future came to, unless it died before.
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.polls_left == 0 {
            return Poll::Ready(None);
        }
        self.polls_left -= 1;
        self.future.as_mut().poll(context).map(Some)
    }
}
