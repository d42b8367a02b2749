//! One member: its connections behind a gate, a task that looks after it, and what is known of it.

pub(crate) mod guard;
pub(crate) mod health;
pub(crate) mod lend;
mod probe;

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use jiff::Timestamp;
use kube::Client;
use tokio::{
    sync::watch,
    task::AbortHandle,
    time::{Instant, sleep},
};

use self::{
    guard::{Gate, Limits},
    health::{Health, Observation, Pace, Rules, State},
};
use crate::{Credentials, cache::Caches};

/// How members are looked after. One for the whole fleet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Care {
    /// How much of us one member may take.
    pub limits: Limits,
    /// When a member changes its state.
    pub rules: Rules,
    /// How often it is asked.
    pub pace: Pace,
}

/// A member as somebody declared it.
#[derive(Clone, Debug)]
pub struct Declared {
    /// Its name in the fleet.
    pub name: Arc<str>,
    /// Its labels, for selections.
    pub labels: BTreeMap<String, String>,
    /// The way to it.
    pub connection: Connection,
}

/// The way to a member.
#[derive(Clone)]
pub enum Connection {
    /// Over the network.
    Credentials(Box<Credentials>),
    /// A client somebody else made, with a number to know it by: a simulated member in this process.
    Client(Client, u64),
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Connection::Credentials(credentials) => credentials.fmt(f),
            Connection::Client(_, number) => write!(f, "client {number}"),
        }
    }
}

impl Connection {
    /// Through a client that exists already.
    pub fn through(client: Client) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Connection::Client(client, NEXT.fetch_add(1, Ordering::Relaxed))
    }

    fn connect(&self) -> Result<Client, kube::Error> {
        match self {
            Connection::Credentials(credentials) => credentials.connect(),
            Connection::Client(client, _) => Ok(client.clone()),
        }
    }

    /// Whether nothing changed, so that connections can stay.
    pub(crate) fn is_same(&self, other: &Connection) -> bool {
        match (self, other) {
            (Connection::Credentials(one), Connection::Credentials(other)) => one == other,
            (Connection::Client(_, one), Connection::Client(_, other)) => one == other,
            _ => false,
        }
    }
}

/// What is known of a member at this moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// Its state,
    pub state: State,
    /// and since when.
    pub since: Timestamp,
    /// The Kubernetes version it says it is.
    pub version: Option<String>,
    /// How long the last probe took.
    pub latency: Option<Duration>,
    /// When it last answered.
    pub answered: Option<Timestamp>,
    /// Why the last probe failed, if it did. Safe to show.
    pub error: Option<Arc<str>>,
}

/// A member cluster. What is asked of it goes through [`Member::client`]; its own task looks after it until it is dropped.
pub struct Member {
    name: Arc<str>,
    connection: Connection,
    labels: RwLock<Arc<BTreeMap<String, String>>>,
    gate: Arc<Gate>,
    client: Client,
    status: watch::Receiver<Status>,
    caches: Caches,
    task: AbortHandle,
}

impl Drop for Member {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Member {
    /// Connects and begins to look after it.
    pub(crate) fn start(declared: Declared, care: Care) -> Result<Arc<Self>, kube::Error> {
        let Declared { name, labels, connection } = declared;
        let gate = Gate::new(name.clone(), care.limits, connection.connect()?);
        let (sender, status) = watch::channel(Status {
            state: State::Connecting,
            since: Timestamp::now(),
            version: None,
            latency: None,
            answered: None,
            error: None,
        });
        let client = gate.client();
        let keeper =
            Keeper { name: name.clone(), connection: connection.clone(), gate: gate.clone(), care, status: sender };
        let task = tokio::spawn(keeper.run()).abort_handle();
        let caches = Caches::new(name.clone(), client.clone(), care.limits.cache);
        let labels = RwLock::new(Arc::new(labels));
        Ok(Arc::new(Member { name, connection, labels, gate, client, status, caches, task }))
    }

    /// Its name in the fleet.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Its labels.
    pub fn labels(&self) -> Arc<BTreeMap<String, String>> {
        self.labels.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A client for it: every call has a deadline, a bound and a size, and fails at once while it is unreachable.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// What is known of it now.
    pub fn status(&self) -> Status {
        self.status.borrow().clone()
    }

    /// The same, and a word when it changes.
    pub fn watch(&self) -> watch::Receiver<Status> {
        self.status.clone()
    }

    /// What is kept of it in memory.
    pub fn caches(&self) -> &Caches {
        &self.caches
    }

    /// Whether it is reached without a network: a simulated member of this process.
    pub fn is_here(&self) -> bool {
        matches!(self.connection, Connection::Client(..))
    }

    /// The way to it as a kubeconfig, with our own credentials inside, which do not end; none for a member of this process.
    /// For people there is [`Member::lend`].
    pub fn kubeconfig(&self) -> Option<crate::Secret> {
        match &self.connection {
            Connection::Credentials(credentials) => Some(credentials.to_kubeconfig(&self.name)),
            Connection::Client(..) => None,
        }
    }

    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// It is no longer a member: nothing is asked of it any more, whoever still holds it.
    pub(crate) fn leave(&self) {
        self.task.abort();
        self.gate.close();
        self.caches.close();
    }

    pub(crate) fn relabel(&self, labels: BTreeMap<String, String>) {
        *self.labels.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(labels);
    }
}

/// The task of one member: asks it whether it lives, and opens or shuts its gate.
struct Keeper {
    name: Arc<str>,
    connection: Connection,
    gate: Arc<Gate>,
    care: Care,
    status: watch::Sender<Status>,
}

/// How often the version is asked for, in answers.
const VERSION_EVERY: u32 = 60;

impl Keeper {
    async fn run(self) {
        let mut health = Health::new(self.care.rules);
        let mut answers = 0u32;
        // A fleet that starts does not ask all its members in the same instant.
        sleep(Duration::from_millis(fastrand::u64(0..200))).await;
        loop {
            let wants_version = answers.is_multiple_of(VERSION_EVERY);
            let start = Instant::now();
            let seen = probe::ask(&self.gate.behind(), wants_version, self.care.pace.deadline).await;
            let latency = start.elapsed();
            let observation = match &seen {
                Ok(_) => Observation::Answered,
                Err(_) => Observation::Failed,
            };
            let change = health.observe(observation, Instant::now());
            match &seen {
                Ok(_) => answers = answers.wrapping_add(1),
                Err(trouble) => {
                    answers = 0;
                    if trouble.dead_connection {
                        // A connection can be dead for minutes before anybody is told; the next try gets a new one.
                        if let Ok(client) = self.connection.connect() {
                            self.gate.replace(client);
                        }
                    }
                    // Also while it has never answered: nobody shall wait for what is known to fail.
                    if health.state() != State::Running {
                        self.gate.shut(trouble.why.clone());
                    }
                }
            }
            if health.state() == State::Running {
                self.gate.open();
            }
            if let Some(change) = change {
                let why = seen.as_ref().err().map(|trouble| &*trouble.why);
                tracing::info!(member = %self.name, from = %change.from, to = %change.to, why, "a member changed its state");
            }
            self.status.send_if_modified(|status| {
                let before = status.clone();
                if let Some(change) = change {
                    status.state = change.to;
                    status.since = Timestamp::now();
                }
                match seen {
                    Ok(answer) => {
                        status.version = answer.version.or(status.version.take());
                        status.latency = Some(latency);
                        status.answered = Some(Timestamp::now());
                        status.error = None;
                    }
                    Err(trouble) => status.error = Some(trouble.why),
                }
                // The time of the last answer alone is no news: nobody is woken by a member that is as it was.
                before.state != status.state || before.error != status.error || before.version != status.version
            });
            sleep(self.care.pace.pause(&health, fastrand::f64())).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU8;

    use super::*;
    use crate::testing;

    const WELL: u8 = 0;
    const SILENT: u8 = 1;
    const REFUSING: u8 = 2;

    fn server(mode: &Arc<AtomicU8>) -> Client {
        let mode = mode.clone();
        testing::client(move |request| {
            let mode = mode.load(Ordering::SeqCst);
            async move {
                match (mode, request.uri().path()) {
                    (SILENT, _) => std::future::pending().await,
                    (REFUSING, _) => testing::refusal(401),
                    (_, "/version") => testing::json(200, &serde_json::json!({"gitVersion": "v1.34.1\u{1b}[31m"})),
                    _ => testing::json(200, &serde_json::json!("ok")),
                }
            }
        })
    }

    fn member(mode: &Arc<AtomicU8>) -> Arc<Member> {
        let connection = Connection::through(server(mode));
        let declared = Declared { name: "m".into(), labels: BTreeMap::new(), connection };
        Member::start(declared, Care::default()).unwrap()
    }

    async fn until(member: &Member, state: State) -> Duration {
        let start = Instant::now();
        let mut watch = member.watch();
        tokio::time::timeout(Duration::from_secs(120), watch.wait_for(|status| status.state == state))
            .await
            .unwrap()
            .unwrap();
        start.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn a_member_runs_is_lost_and_comes_back() {
        // SYM-9, F-8
        let mode = Arc::new(AtomicU8::new(WELL));
        let member = member(&mode);
        until(&member, State::Running).await;
        assert_eq!(member.status().version.as_deref(), Some("v1.34.1"));
        mode.store(SILENT, Ordering::SeqCst);
        assert!(until(&member, State::Unreachable).await <= Duration::from_secs(40));
        assert_eq!(member.status().error.as_deref(), Some("no answer within 5s"));
        let start = Instant::now();
        let error = member.client().apiserver_version().await.unwrap_err();
        assert!(guard::CallError::of(&error).is_some(), "{error}");
        assert_eq!(start.elapsed(), Duration::ZERO);
        mode.store(WELL, Ordering::SeqCst);
        assert!(until(&member, State::Running).await <= Duration::from_secs(15));
        assert_eq!(member.status().error, None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_member_that_does_not_know_us_says_so_and_never_runs() {
        let mode = Arc::new(AtomicU8::new(REFUSING));
        let member = member(&mode);
        tokio::time::sleep(Duration::from_secs(60)).await;
        let status = member.status();
        assert_eq!(status.state, State::Connecting);
        assert!(status.error.unwrap().contains("renew the member's credentials"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_dead_member_delays_no_other() {
        // F-8
        let (dead, well) = (Arc::new(AtomicU8::new(SILENT)), Arc::new(AtomicU8::new(WELL)));
        let (dead, well) = (member(&dead), member(&well));
        let waiting = tokio::spawn({
            let client = dead.client();
            async move { futures_util::future::join_all((0..200).map(|_| client.apiserver_version())).await }
        });
        until(&well, State::Running).await;
        let start = Instant::now();
        assert!(well.client().apiserver_version().await.is_ok());
        assert_eq!(start.elapsed(), Duration::ZERO);
        assert!(waiting.await.unwrap().iter().all(Result::is_err));
        assert!(start.elapsed() <= Duration::from_secs(31));
    }
}
