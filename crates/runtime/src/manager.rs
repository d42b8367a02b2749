//! Runs the enabled reconcilers of a registry: sets them up, waits for their caches, lets them work while this process leads,
//! and stops them in good order.

use std::{
    collections::BTreeMap,
    future::pending,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use kube::Client;
use prometheus_client::metrics::counter::Counter;
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::{
    Backoff, Clock, Context, Election, Filter, Key, Metrics, Patterns, Priority, Recorder, Registration, Registry,
    Setup, SystemClock,
    controller::{BoxError, Prepared, Work},
    dispatch::{Dispatcher, End, Failing, FailureLog},
    election::{Elector, Term, host},
    fence::Fence,
    handle::{Command, ControllerStatus, Handle, HandleError},
    informer::Informers,
    queue::Queue,
};

/// How a manager runs.
#[derive(Debug, Clone)]
pub struct Options {
    /// Who writes the Events.
    pub name: String,
    /// Which reconcilers are enabled at the start.
    pub enabled: Patterns,
    /// Per reconciler, by name.
    pub settings: BTreeMap<String, Settings>,
    /// Without, this process always leads.
    pub election: Option<Election>,
    /// How long running reconciles may take to finish when the manager stops.
    pub grace: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            name: "muster".to_owned(),
            enabled: Patterns::default(),
            settings: BTreeMap::new(),
            election: None,
            grace: Duration::from_secs(30),
        }
    }
}

/// What the configuration says about one reconciler. What it does not say is as the reconciler's author wanted it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Settings {
    /// Reconciles at once.
    pub concurrency: Option<usize>,
    /// Only these objects.
    pub filter: Filter,
    /// Look at every object again after this long.
    pub resync: Option<Duration>,
    /// A reconcile that takes longer is given up and tried again.
    pub deadline: Option<Duration>,
    /// For the reconciler itself.
    pub options: serde_json::Value,
}

/// Why a manager cannot run.
#[derive(Debug, thiserror::Error)]
pub enum ManagerError {
    /// A name that no reconciler has.
    #[error("there is no reconciler {unknown}; there are: {known}")]
    Unknown {
        /// The name, or names.
        unknown: String,
        /// Those there are.
        known: String,
    },
    /// Two reconcilers with one name.
    #[error("two reconcilers are called {0}; give one of them another name")]
    Twice(String),
    /// The reconciler could not be made.
    #[error("the reconciler {name} could not be set up: {why}")]
    Setup {
        /// Its name.
        name: String,
        /// What its author says.
        why: BoxError,
    },
    /// The election's times or names do not fit.
    #[error("leader election: {0}")]
    Election(String),
}

/// The reconcilers of one API, run together.
pub struct Manager {
    client: Client,
    registry: Registry,
    options: Options,
    clock: Arc<dyn Clock>,
    metrics: Metrics,
    commands: mpsc::Receiver<Command>,
    handle: Handle,
}

impl Manager {
    /// Checks the names; nothing runs yet.
    pub fn new(client: Client, registry: Registry, options: Options) -> Result<Self, ManagerError> {
        let known: Vec<&str> = registry.iter().map(|registration| &*registration.name).collect();
        if let Some(twice) = known.iter().enumerate().find(|(at, name)| known[..*at].contains(name)) {
            return Err(ManagerError::Twice((*twice.1).to_owned()));
        }
        let configured = Patterns::new(options.settings.keys().cloned());
        let mut unknown = options.enabled.unknown(&known);
        unknown.extend(configured.unknown(&known));
        if !unknown.is_empty() && !known.is_empty() {
            return Err(ManagerError::Unknown { unknown: unknown.join(", "), known: known.join(", ") });
        }
        if let Some(election) = &options.election {
            election.check().map_err(ManagerError::Election)?;
        }
        let (handle, commands) = Handle::new();
        let clock = Arc::new(SystemClock);
        Ok(Manager { client, registry, options, clock, metrics: Metrics::new(), commands, handle })
    }

    /// With figures that others show, too.
    pub fn metrics(mut self, metrics: Metrics) -> Self {
        self.metrics = metrics;
        self
    }

    /// With another time of day.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// The client it works with, unfenced.
    pub(crate) fn client(&self) -> Client {
        self.client.clone()
    }

    /// To ask and to steer it while it runs.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Runs until `stop`, then lets running work finish, and gives the lease back last.
    pub async fn run(self, stop: CancellationToken) -> Result<(), ManagerError> {
        let Manager { client, registry, options, clock, metrics, mut commands, handle } = self;
        drop(handle);
        let (term, terms) = watch::channel(None);
        let term = Arc::new(term);
        let election_stop = CancellationToken::new();
        // Should this future be dropped, the lease is not kept for ever.
        let _stop_election = election_stop.clone().drop_guard();
        let mut elector = JoinSet::new();
        let fence = options.election.clone().map(|election| {
            let fence = Fence::new(format!("{}/{}", election.namespace, election.name), clock.clone());
            let standing = Elector::new(client.clone(), election, fence.clone(), clock.clone(), &metrics, term.clone());
            elector.spawn(standing.run(election_stop.clone()));
            fence
        });
        if fence.is_none() {
            term.send_replace(Some(1));
        }
        let clients = Clients { client, fence };
        let instance = options.election.as_ref().map_or_else(host, |election| election.identity.clone());
        let (events, events_task) = Recorder::start(clients.current(), &options.name, &instance, metrics.clone());
        let mut fleet = Fleet {
            informers: Informers::new(clients.client.clone(), metrics.clone()),
            slots: registry
                .iter()
                .map(|registration| Slot { registration: registration.clone(), alive: None, ended: None })
                .collect(),
            lives: JoinSet::new(),
            clients,
            options,
            clock,
            metrics,
            events,
            terms,
        };
        let mut outcome = fleet.start_enabled();
        if outcome.is_ok() {
            loop {
                tokio::select! {
                    biased;
                    () = stop.cancelled() => break,
                    Some(ended) = elector.join_next() => {
                        let why = ended.err().map_or_else(|| "it ended".to_owned(), |error| error.to_string());
                        outcome = Err(ManagerError::Election(format!("it cannot go on: {why}")));
                        break;
                    }
                    Some(command) = commands.recv() => fleet.obey(command).await,
                    Some(ended) = fleet.lives.join_next() => Fleet::buried(ended),
                    else => stop.cancelled().await,
                }
            }
        }
        tracing::info!("stopping: no new work, running work may finish");
        commands.close();
        fleet.stop_all().await;
        // The last Events still need the lease.
        drop(fleet);
        let _ = timeout(Duration::from_secs(2), events_task).await;
        election_stop.cancel();
        let given_back = async { while elector.join_next().await.is_some() {} };
        if timeout(Duration::from_secs(8), given_back).await.is_err() {
            tracing::warn!("the lease could not be given back in time");
        }
        outcome
    }
}

/// Clients that write only while they may.
struct Clients {
    client: Client,
    fence: Option<Arc<Fence>>,
}

impl Clients {
    /// Writes in whatever term it is.
    fn current(&self) -> Client {
        self.fence.as_ref().map_or_else(|| self.client.clone(), |fence| fence.client(self.client.clone(), None))
    }

    /// Writes in this term only.
    fn in_term(&self, term: Term) -> Client {
        self.fence.as_ref().map_or_else(|| self.client.clone(), |fence| fence.client(self.client.clone(), Some(term)))
    }
}

/// All reconcilers, running or not.
struct Fleet {
    slots: Vec<Slot>,
    lives: JoinSet<Arc<str>>,
    clients: Clients,
    informers: Arc<Informers>,
    options: Options,
    clock: Arc<dyn Clock>,
    metrics: Metrics,
    events: Recorder,
    terms: watch::Receiver<Option<Term>>,
}

struct Slot {
    registration: Registration,
    alive: Option<Alive>,
    /// Cancelled when the last life is over; the next one waits for it, so that no key is worked on by both.
    ended: Option<CancellationToken>,
}

/// What is needed to ask or stop a reconciler that runs.
struct Alive {
    stop: CancellationToken,
    queue: Arc<Queue<Key>>,
    work: Arc<dyn Work>,
    caches: Arc<crate::controller::Caches>,
    concurrency: usize,
    failing: Arc<Mutex<Failing>>,
    errors: Counter,
    retries: Counter,
}

impl Fleet {
    fn start_enabled(&mut self) -> Result<(), ManagerError> {
        let enabled = self.options.enabled.clone();
        let wanted = |slot: &Slot| enabled.allows(&slot.registration.name);
        let wanted: Vec<usize> = (0..self.slots.len()).filter(|at| wanted(&self.slots[*at])).collect();
        wanted.into_iter().try_for_each(|at| self.start(at))
    }

    /// Sets a reconciler up and starts its life.
    fn start(&mut self, at: usize) -> Result<(), ManagerError> {
        let registration = self.slots[at].registration.clone();
        let name = registration.name.clone();
        let settings = self.options.settings.get(&*name).cloned().unwrap_or_default();
        let setup = Setup {
            name: name.clone(),
            client: self.clients.current(),
            clock: self.clock.clone(),
            events: self.events.clone(),
            metrics: self.metrics.clone(),
            options: settings.options,
        };
        let controller =
            (registration.build)(&setup).map_err(|why| ManagerError::Setup { name: name.to_string(), why })?;
        let mut tuning = controller.tuning().clone();
        tuning.concurrency = settings.concurrency.unwrap_or(tuning.concurrency).max(1);
        tuning.resync = settings.resync.or(tuning.resync);
        tuning.deadline = settings.deadline.unwrap_or(tuning.deadline);
        let queue = Queue::new(tuning.backoff, tuning.rate, self.metrics.queue(&name));
        let prepared = controller.prepare(&self.informers, &queue, settings.filter);
        let stop = CancellationToken::new();
        let log = FailureLog::default();
        self.slots[at].alive = Some(Alive {
            stop: stop.clone(),
            queue: queue.clone(),
            work: prepared.work.clone(),
            caches: prepared.caches.clone(),
            concurrency: tuning.concurrency,
            failing: log.shown(),
            errors: self.metrics.controller(&name).errors,
            retries: self.metrics.queue(&name).retries,
        });
        let ended = CancellationToken::new();
        let before = self.slots[at].ended.replace(ended.clone());
        let life = Life {
            dispatcher: Dispatcher {
                name: name.clone(),
                queue,
                work: prepared.work.clone(),
                tuning,
                metrics: self.metrics.controller(&name),
                log,
            },
            prepared,
            clients: Clients { client: self.clients.client.clone(), fence: self.clients.fence.clone() },
            clock: self.clock.clone(),
            events: self.events.clone(),
            terms: self.terms.clone(),
            stop,
            grace: self.options.grace,
        };
        self.lives.spawn(async move {
            let _ended = ended.drop_guard();
            if let Some(before) = before {
                before.cancelled().await;
            }
            life.run().await;
            name
        });
        Ok(())
    }

    async fn obey(&mut self, command: Command) {
        match command {
            Command::List(answer) => {
                let _ = answer.send(self.slots.iter().map(Slot::status).collect());
            }
            Command::Leading(answer) => {
                let _ = answer.send(self.terms.borrow().is_some());
            }
            Command::Enable(name, answer) => {
                let result = self.find(&name).and_then(|at| match self.slots[at].alive {
                    Some(_) => Ok(()),
                    None => self.start(at).map_err(|error| HandleError::Setup(error.to_string())),
                });
                let _ = answer.send(result);
            }
            Command::Disable(name, answer) => {
                let result = self.find(&name);
                if let Ok(at) = result
                    && let Some(alive) = self.slots[at].alive.take()
                {
                    tracing::info!(controller = name, "disabled; running work may finish");
                    alive.stop.cancel();
                }
                let _ = answer.send(result.map(|_| ()));
            }
            Command::Requeue(name, key, answer) => {
                let result = self.find(&name).and_then(|at| match &self.slots[at].alive {
                    Some(alive) => Ok(alive.requeue(key)),
                    None => Err(HandleError::Disabled(name)),
                });
                let _ = answer.send(result);
            }
        }
    }

    fn find(&self, name: &str) -> Result<usize, HandleError> {
        let at = self.slots.iter().position(|slot| &*slot.registration.name == name);
        at.ok_or_else(|| HandleError::Unknown {
            name: name.to_owned(),
            known: self.slots.iter().map(|slot| &*slot.registration.name).collect::<Vec<_>>().join(", "),
        })
    }

    /// A life ended: it was stopped, or the framework has a fault, which must not go unseen.
    fn buried(ended: Result<Arc<str>, tokio::task::JoinError>) {
        match ended {
            Ok(name) => tracing::debug!(controller = &*name, "ended"),
            Err(error) => {
                tracing::error!(%error, "the loop of a reconciler died; disable and enable it to start it again")
            }
        }
    }

    async fn stop_all(&mut self) {
        for slot in &mut self.slots {
            if let Some(alive) = slot.alive.take() {
                alive.stop.cancel();
            }
        }
        let all = async { while self.lives.join_next().await.is_some() {} };
        if timeout(self.options.grace + Duration::from_secs(10), all).await.is_err() {
            tracing::error!("some reconcilers did not stop; leaving them");
            self.lives.abort_all();
        }
    }
}

impl Slot {
    fn status(&self) -> ControllerStatus {
        let registration = &self.registration;
        let alive = self.alive.as_ref();
        let failing = alive.map(|alive| alive.failing.lock().unwrap_or_else(PoisonError::into_inner).clone());
        let failing = failing.unwrap_or_default();
        ControllerStatus {
            name: registration.name.to_string(),
            group: registration.group.to_string(),
            version: registration.version.to_string(),
            kind: registration.kind.to_string(),
            enabled: alive.is_some(),
            synced: alive.is_some_and(|alive| alive.caches.are_synced()),
            concurrency: alive.map_or(0, |alive| alive.concurrency),
            queue: alive.map(|alive| alive.queue.status()).unwrap_or_default(),
            errors: alive.map_or(0, |alive| alive.errors.get()),
            retries: alive.map_or(0, |alive| alive.retries.get()),
            failing: failing.count,
            last_error: failing.last,
        }
    }
}

impl Alive {
    fn requeue(&self, key: Option<Key>) -> usize {
        let keys = key.map_or_else(|| self.work.keys(), |key| vec![key]);
        let count = keys.len();
        let priority = if count == 1 { Priority::Changed } else { Priority::Again };
        keys.into_iter().for_each(|key| self.queue.add(key, priority));
        count
    }
}

/// One reconciler from its first cache to its end.
struct Life {
    dispatcher: Dispatcher,
    prepared: Prepared,
    clients: Clients,
    clock: Arc<dyn Clock>,
    events: Recorder,
    terms: watch::Receiver<Option<Term>>,
    stop: CancellationToken,
    grace: Duration,
}

impl Life {
    async fn run(mut self) {
        let stop = self.stop.clone();
        tokio::select! {
            () = self.prepared.caches.synced() => {}
            () = stop.cancelled() => return,
        }
        loop {
            let term = tokio::select! {
                term = self.terms.wait_for(Option::is_some) => term.ok().and_then(|term| *term),
                () = stop.cancelled() => return,
            };
            let Some(term) = term else { return };
            if self.lead(term).await == End::Stopped {
                return;
            }
            // What was cut off is in the queue; what others changed meanwhile we may have acted on only in part.
            self.prepared.work.keys().into_iter().for_each(|key| self.dispatcher.queue.add(key, Priority::Listed));
        }
    }

    /// Works for as long as the term lasts.
    async fn lead(&mut self, term: Term) -> End {
        let context = Context {
            client: self.clients.in_term(term),
            clock: self.clock.clone(),
            events: self.events.clone(),
            caches: self.prepared.caches.clone(),
            stopping: self.stop.clone(),
        };
        let deposed = CancellationToken::new();
        let mut terms = self.terms.clone();
        let watch_the_term = async {
            let _ = terms.wait_for(|now| *now != Some(term)).await;
            deposed.cancel();
            pending::<()>().await;
        };
        let stop = self.stop.clone();
        let work = async {
            tokio::select! {
                () = call_back(&self.dispatcher.name, &self.prepared, &context) => {}
                () = deposed.cancelled() => return End::Deposed,
                () = stop.cancelled() => return End::Stopped,
            }
            self.dispatcher.run(&context, &stop, &deposed, self.grace).await
        };
        tokio::select! {
            end = work => end,
            () = watch_the_term => End::Deposed,
        }
    }
}

/// Runs what was to be done after the caches are full, again until it works.
async fn call_back(name: &str, prepared: &Prepared, context: &Context) {
    let backoff = Backoff { first: Duration::from_millis(100), longest: Duration::from_secs(30), jitter: 0.1 };
    for callback in &prepared.after_sync {
        let mut failures = 0;
        while let Err(error) = callback(context.clone()).await {
            failures += 1;
            if failures == 1 {
                tracing::warn!(controller = name, %error, "what is to be done before the first reconcile failed; trying again");
            }
            sleep(backoff.pause(failures, fastrand::f64())).await;
        }
    }
}
