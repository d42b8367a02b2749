//! The Kubernetes API as one service: negotiation, discovery, verbs, watch, garbage collection, and the listeners that serve it.

mod access;
mod actions;
pub mod audit;
mod backup;
mod body;
mod bootstrap;
mod connect;
mod decode;
mod definitions;
mod discovery;
mod events;
mod fence;
mod figures;
mod garbage;
mod gate;
mod health;
mod inside;
mod inspect;
mod kinds;
mod namespaces;
mod negotiate;
mod objects;
mod openapi;
mod ownership;
mod patch;
mod path;
mod pods;
mod read;
mod render;
mod router;
mod scale;
pub mod serve;
mod served;
mod server_side;
mod services;
mod turns;
mod verbs;
mod watch;

pub use body::Body;
pub use gate::Ceilings;
pub use health::Check;
pub use inside::Resource;
pub use inspect::Inspect;
pub use services::{RangeError, ServiceRange};

use auth::{Authenticator, Authorizer};
use kinds::{Kind, Registry};
use meta::{Clock, Status, SystemClock};
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;
use store::{Collection, Store};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// What the API server is told at start.
pub struct Options {
    pub authenticator: Authenticator,
    pub authorizer: Authorizer,
    pub audit: audit::Audit,
    /// How long a request may take; a watch, until it begins.
    pub request_timeout: Duration,
    pub ceilings: Ceilings,
    /// The main resource and its status may be written together.
    pub unrestricted_update: bool,
    /// How long events are kept after they were last written; zero is for ever.
    pub event_ttl: Duration,
    pub clock: Arc<dyn Clock>,
    /// Addresses of services inside the cluster.
    pub service_range: ServiceRange,
    /// Ports that services take on every node.
    pub service_node_ports: RangeInclusive<u16>,
    /// Where others reach this server.
    pub advertise: Option<SocketAddr>,
    /// Where clients reach us, e.g. `https://10.0.0.1:6443`; empty when only we know.
    pub public_url: String,
    /// The authority clients shall trust, in PEM form; published in every namespace.
    pub root_ca: Option<String>,
    pub controllers: Controllers,
    /// New pods are given a service account, which must be there.
    pub assign_accounts: bool,
    /// Requests are counted, for [`Api::measure`].
    pub measured: bool,
    /// What is shown below `/debug/` and at `/metrics`; nothing without it.
    pub inspect: Option<Arc<dyn Inspect>>,
}

/// What is made by itself in every namespace; a kube-apiserver alone makes none of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Controllers {
    /// The `default` service account, and the tokens in Secrets made for accounts.
    pub service_accounts: bool,
    /// The ConfigMap `kube-root-ca.crt`.
    pub root_ca: bool,
}

impl Options {
    pub fn new(authenticator: Authenticator, authorizer: Authorizer) -> Self {
        Self {
            authenticator,
            authorizer,
            audit: audit::Audit::off(),
            request_timeout: Duration::from_secs(60),
            ceilings: Ceilings::default(),
            unrestricted_update: false,
            event_ttl: Duration::from_secs(3600),
            clock: Arc::new(SystemClock),
            service_range: ServiceRange::default(),
            service_node_ports: 30000..=32767,
            advertise: None,
            public_url: String::new(),
            root_ca: None,
            controllers: Controllers { service_accounts: true, root_ca: true },
            assign_accounts: false,
            measured: false,
            inspect: None,
        }
    }
}

/// The API server, cheap to clone: a handle that answers requests.
#[derive(Clone)]
pub struct Api {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub store: Store,
    pub served: served::Current,
    pub definitions: definitions::Definitions,
    pub options: Options,
    pub clock: Arc<dyn Clock>,
    pub health: health::Checks,
    pub gate: Arc<gate::Gate>,
    /// Held by whoever writes an object of a kind that is written one by one.
    pub turns: turns::Turns,
    pub taken: services::Taken,
    pub figures: Option<figures::Figures>,
    /// Watches and controllers end when this is cancelled.
    pub stop: CancellationToken,
}

/// How the store finds out what selectors ask for; give it to the store when opening it.
/// What definitions select by is not known yet then: it is read from such objects when somebody asks.
pub fn describe() -> store::Describe {
    kinds::describer(Arc::new(Registry::builtin()))
}

/// Collections the store must seal.
pub fn sealed_collections() -> impl Iterator<Item = Collection> {
    kinds::SEALED.iter().map(|name| Collection::new(name))
}

impl Api {
    pub fn new(store: Store, options: Options) -> Self {
        let stop = CancellationToken::new();
        let (definitions, served) = definitions::Definitions::new(&store, &stop);
        let inner = Inner {
            figures: options.measured.then(|| figures::Figures::new(&served.registry)),
            served: served::Current::new(served),
            definitions,
            health: health::Checks::new(store.clone()),
            gate: gate::Gate::new(options.ceilings),
            clock: options.clock.clone(),
            store,
            options,
            turns: Default::default(),
            taken: Default::default(),
            stop,
        };
        access::connect(&inner);
        Self { inner: Arc::new(inner) }
    }

    /// Makes the system's own objects and runs the controllers until `stop` is called; returns when they have ended.
    pub async fn run_controllers(&self) -> Result<(), Status> {
        let stop = self.inner.stop.clone();
        namespaces::ensure_system(&self.inner).await?;
        access::bootstrap::reconcile(&self.inner).await?;
        bootstrap::priority_classes(&self.inner).await?;
        services::ensure_system(&self.inner).await?;
        self.inner.health.started();
        let mut tasks = JoinSet::new();
        tasks.spawn_blocking(backup::sweep);
        tasks.spawn(access::aggregate::run(self.clone(), stop.clone()));
        tasks.spawn(access::accounts::run(self.clone(), stop.clone()));
        tasks.spawn(definitions::run(self.clone(), stop.clone()));
        tasks.spawn(namespaces::run(self.clone(), stop.clone()));
        tasks.spawn(garbage::run(self.clone(), stop.clone()));
        tasks.spawn(events::run(self.clone(), stop));
        while let Some(ended) = tasks.join_next().await {
            if let Err(e) = ended {
                return Err(Status::internal(format!("a controller died: {e}")));
            }
        }
        Ok(())
    }

    /// Ends watches and controllers; requests in flight finish.
    pub fn stop(&self) {
        self.inner.stop.cancel();
    }

    /// Adds a named check to `/readyz` and `/livez`.
    pub fn add_check(&self, name: &'static str, check: Check) {
        self.inner.health.add(name, check);
    }
}

impl Inner {
    /// A kind as it is served now.
    pub fn kind(&self, group: &str, version: &str, plural: &str) -> Option<Arc<Kind>> {
        self.served.get().registry.find(group, version, plural).cloned()
    }

    pub fn namespace_kind(&self) -> Arc<Kind> {
        match self.served.get().registry.find("", "v1", "namespaces") {
            Some(kind) => kind.clone(),
            None => unreachable!("Namespace is a built-in row"),
        }
    }

    /// Returns once the collection holds something newer than `since`, and moves `since` there.
    pub async fn changed(&self, collection: &Collection, since: &mut u64) {
        let revision = self.store.revision();
        let after = (*since).max(self.store.oldest());
        match self.store.watch(collection, "", after) {
            Ok(mut watch) => {
                let mut seen = Vec::new();
                let _ = watch.next(1024, &mut seen).await;
                *since = watch.revision();
            }
            Err(_) => *since = revision,
        }
    }

    pub fn random(&self) -> u64 {
        let mut bytes = [0; 8];
        fill(&mut bytes);
        u64::from_le_bytes(bytes)
    }

    /// A version 4 UUID.
    pub fn uid(&self) -> String {
        let mut b = [0u8; 16];
        fill(&mut b);
        b[6] = (b[6] & 0x0f) | 0x40;
        b[8] = (b[8] & 0x3f) | 0x80;
        let mut out = String::with_capacity(36);
        for (i, byte) in b.into_iter().enumerate() {
            if matches!(i, 4 | 6 | 8 | 10) {
                out.push('-');
            }
            for nibble in [byte >> 4, byte & 15] {
                out.push(char::from(b"0123456789abcdef"[usize::from(nibble)]));
            }
        }
        out
    }
}

/// Random bytes from the operating system's generator; without one nothing is safe, so we do not go on.
fn fill(bytes: &mut [u8]) {
    if aws_lc_rs::rand::fill(bytes).is_err() {
        panic!("the random number generator failed");
    }
}
