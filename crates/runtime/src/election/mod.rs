//! Who leads: one lease, held by renewing it, given back on a clean stop, taken over when its holder is silent.

mod decide;
#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use futures_util::StreamExt;
use http::HeaderValue;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use kube::{
    Api, Client,
    api::{ObjectMeta, PostParams},
    runtime::{WatchStreamExt, watcher},
};
use prometheus_client::metrics::gauge::Gauge;
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout, timeout_at},
};
use tokio_util::sync::CancellationToken;

use self::decide::{Action, Record, Seen, decide};
use crate::{Clock, Metrics, fence::Fence};

/// How this process stands for election.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Election {
    /// Where the lease is.
    pub namespace: String,
    /// What it is called; processes with the same lease stand against each other.
    pub name: String,
    /// Who we are; must differ between processes. Nothing but letters, digits and `-_.`.
    pub identity: String,
    /// Others leave a lease alone for this long after its renewal.
    pub lease: Duration,
    /// A leader that could not renew for this long no longer writes. Must be shorter than `lease`.
    pub renew_deadline: Duration,
    /// Between two renewals, or two looks at another's lease.
    pub retry: Duration,
}

impl Election {
    /// For the lease `namespace/name`, with an identity of our own and times that have a killed leader replaced within 15 seconds:
    /// its last renewal is seen at most a retry and its jitter later, and the lease counts from there.
    pub fn new(namespace: &str, name: &str) -> Self {
        Election {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            identity: format!("{}_{:016x}", host(), fastrand::u64(..)),
            lease: Duration::from_secs(12),
            renew_deadline: Duration::from_secs(8),
            retry: Duration::from_secs(1),
        }
    }

    /// What is wrong with it, if anything.
    pub fn check(&self) -> Result<(), String> {
        if self.renew_deadline >= self.lease {
            return Err(format!(
                "the renew deadline {:?} must be shorter than the lease {:?}",
                self.renew_deadline, self.lease
            ));
        }
        if self.retry * 2 > self.renew_deadline {
            return Err(format!(
                "the retry period {:?} must be at most half of the renew deadline {:?}",
                self.retry, self.renew_deadline
            ));
        }
        if self.lease < Duration::from_secs(1) {
            return Err("a lease shorter than a second cannot be written down".to_owned());
        }
        if self.identity.is_empty() || !self.identity.chars().all(allowed) {
            return Err(format!("the identity {:?} may only have letters, digits and -_.", self.identity));
        }
        Ok(())
    }

    fn lease_name(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

/// The machine's name, or what stands for it.
pub(crate) fn host() -> String {
    let host = std::env::var("HOSTNAME").ok().filter(|host| !host.is_empty());
    let host = host.or_else(|| std::fs::read_to_string("/proc/sys/kernel/hostname").ok()).unwrap_or_default();
    let host: String = host.trim().chars().filter(|c| allowed(*c)).collect();
    if host.is_empty() { "muster".to_owned() } else { host }
}

fn allowed(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-_.".contains(c)
}

/// A time in which this process leads; numbered from 1.
pub(crate) type Term = u64;

/// Stands for election until stopped.
pub(crate) struct Elector {
    api: Api<Lease>,
    election: Election,
    fence: Arc<Fence>,
    clock: Arc<dyn Clock>,
    terms: Arc<watch::Sender<Option<Term>>>,
    status: Gauge,
    /// The lease as last read or written, for its resourceVersion.
    lease: Option<Lease>,
    seen: Option<Seen>,
    leading: Option<Leading>,
    last_term: Term,
    /// Said once, not at every try.
    complained: bool,
}

struct Leading {
    transitions: i32,
    until: Instant,
}

impl Elector {
    pub(crate) fn new(
        client: Client,
        election: Election,
        fence: Arc<Fence>,
        clock: Arc<dyn Clock>,
        metrics: &Metrics,
        terms: Arc<watch::Sender<Option<Term>>>,
    ) -> Self {
        let status = metrics.leading(&election.name);
        status.set(0);
        Elector {
            api: Api::namespaced(client, &election.namespace),
            election,
            fence,
            clock,
            terms,
            status,
            lease: None,
            seen: None,
            leading: None,
            last_term: 0,
            complained: false,
        }
    }

    /// Runs until `stop`, then gives the lease back.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let only = watcher::Config::default().fields(&format!("metadata.name={}", self.election.name)).timeout(290);
        // Only to look sooner when a lease is given back; without the right to watch, looking every now and then must do.
        let mut news = watcher(self.api.clone(), only).default_backoff().boxed();
        loop {
            let pause = {
                let step = self.step();
                tokio::pin!(step);
                tokio::select! {
                    pause = &mut step => Some(pause),
                    // A renewal under way ends soon, and giving back is simpler when it did.
                    () = stop.cancelled() => timeout(Duration::from_secs(1), step).await.ok(),
                }
            };
            let Some(pause) = pause else { break };
            let pause = sleep(pause);
            tokio::pin!(pause);
            loop {
                tokio::select! {
                    () = &mut pause => break,
                    () = stop.cancelled() => break,
                    event = news.next(), if self.leading.is_none() => match event {
                        Some(Ok(_)) => break,
                        // Polling goes on; the stream waits by itself before it tries again.
                        Some(Err(_)) => {}
                        None => { (&mut pause).await; break }
                    },
                }
            }
            if stop.is_cancelled() {
                break;
            }
        }
        self.release().await;
    }

    /// Looks, decides, acts. Says when to look again.
    async fn step(&mut self) -> Duration {
        if self.leading.as_ref().is_some_and(|leading| Instant::now() >= leading.until) {
            self.lose("the lease could not be renewed in time");
        }
        let outcome = match &self.leading {
            // A renewal that is not through by then is of no use.
            Some(leading) => timeout_at(leading.until, self.attempt()).await,
            None => timeout(self.election.renew_deadline / 2, self.attempt()).await,
        };
        match outcome {
            Ok(Ok(pause)) => {
                if std::mem::take(&mut self.complained) {
                    tracing::info!(lease = self.election.lease_name(), "the lease can be reached again");
                }
                pause
            }
            Ok(Err(kube::Error::Api(status))) if status.code == 409 || status.code == 404 => {
                // Somebody was faster, or deleted it: look again before deciding.
                self.lease = None;
                self.election.retry / 4
            }
            failed => {
                self.lease = None;
                let why = match failed {
                    Ok(Err(error)) => error.to_string(),
                    _ => "no answer in time".to_owned(),
                };
                if !std::mem::replace(&mut self.complained, true) {
                    tracing::warn!(
                        lease = self.election.lease_name(),
                        why,
                        leading = self.leading.is_some(),
                        "cannot reach the lease"
                    );
                }
                match &self.leading {
                    Some(leading) => self.election.retry.min(leading.until.saturating_duration_since(Instant::now())),
                    None => self.jittered_retry(),
                }
            }
        }
    }

    async fn attempt(&mut self) -> Result<Duration, kube::Error> {
        // A leader renews on what it wrote last; if that is not the newest, the server refuses and we look.
        if self.lease.is_none() || self.leading.is_none() {
            self.look().await?;
        }
        let leading = self.leading.as_ref().map(|leading| leading.transitions);
        match decide(Instant::now(), self.seen.as_ref(), &self.election.identity, leading) {
            Action::Create => self.write(0).await,
            Action::Renew { transitions } | Action::Take { transitions } => self.write(transitions).await,
            Action::Wait(left) => Ok(self.jittered_retry().min(left + Duration::from_millis(1))),
            Action::Lost => {
                self.lose("somebody else took the lease, or it was deleted");
                Ok(Duration::ZERO)
            }
        }
    }

    async fn look(&mut self) -> Result<(), kube::Error> {
        let lease = self.api.get_opt(&self.election.name).await?;
        let now = Instant::now();
        self.seen = lease.as_ref().map(|lease| Seen::update(self.seen.take(), record(lease), now));
        self.lease = lease;
        Ok(())
    }

    /// Writes the lease as ours, and leads if the server takes it.
    async fn write(&mut self, transitions: i32) -> Result<Duration, kube::Error> {
        // Counted from before the request goes out: others count from after it arrived.
        let (sent, sent_of_day) = (Instant::now(), self.clock.now());
        let mut lease = self.lease.clone().unwrap_or_else(|| Lease {
            metadata: ObjectMeta { name: Some(self.election.name.clone()), ..ObjectMeta::default() },
            ..Lease::default()
        });
        let spec = lease.spec.get_or_insert_default();
        if self.leading.is_none() {
            spec.acquire_time = Some(MicroTime(sent_of_day));
        }
        spec.holder_identity = Some(self.election.identity.clone());
        spec.lease_duration_seconds = Some(i32::try_from(self.election.lease.as_secs()).unwrap_or(i32::MAX));
        spec.lease_transitions = Some(transitions);
        spec.renew_time = Some(MicroTime(sent_of_day));
        let written = match self.lease {
            Some(_) => self.api.replace(&self.election.name, &PostParams::default(), &lease).await?,
            None => self.api.create(&PostParams::default(), &lease).await?,
        };
        self.seen = Some(Seen { record: record(&written), since: Instant::now() });
        self.lease = Some(written);
        self.hold(transitions, sent, sent_of_day);
        Ok(self.election.retry)
    }

    fn hold(&mut self, transitions: i32, sent: Instant, sent_of_day: Timestamp) {
        let deadline = self.election.renew_deadline;
        let until = sent + deadline;
        let until_of_day = SignedDuration::try_from(deadline).ok().and_then(|d| sent_of_day.checked_add(d).ok());
        let header = format!("{}/{}/{transitions}", self.election.lease_name(), self.election.identity);
        let Ok(header) = HeaderValue::try_from(header) else {
            return self.lose("the lease's name cannot be put into a header");
        };
        let new = self.leading.replace(Leading { transitions, until }).is_none();
        if new {
            self.last_term += 1;
        }
        self.fence.hold(self.last_term, until, until_of_day.unwrap_or(sent_of_day), header);
        if new {
            self.status.set(1);
            tracing::info!(
                lease = self.election.lease_name(),
                identity = self.election.identity,
                transitions,
                "leading"
            );
            self.terms.send_replace(Some(self.last_term));
        }
    }

    fn lose(&mut self, why: &str) {
        self.fence.lose();
        self.leading = None;
        self.lease = None;
        self.status.set(0);
        self.terms.send_replace(None);
        tracing::warn!(lease = self.election.lease_name(), why, "no longer leading");
    }

    /// Gives the lease back, so that another can lead at once.
    async fn release(mut self) {
        self.fence.lose();
        self.status.set(0);
        let leading = self.leading.take();
        self.terms.send_replace(None);
        if leading.is_none() {
            return;
        }
        let name = self.election.lease_name();
        match timeout(Duration::from_secs(5), self.give_back()).await {
            Ok(Ok(())) => tracing::info!(lease = name, "gave the lease back"),
            Ok(Err(error)) => {
                tracing::warn!(lease = name, %error, "could not give the lease back; it runs out by itself")
            }
            Err(_) => tracing::warn!(lease = name, "could not give the lease back in time; it runs out by itself"),
        }
    }

    async fn give_back(&mut self) -> Result<(), kube::Error> {
        loop {
            let known = self.lease.is_some();
            if !known {
                self.look().await?;
            }
            let Some(mut lease) = self.lease.take() else { return Ok(()) };
            if record(&lease).holder != self.election.identity {
                return Ok(());
            }
            let spec: &mut LeaseSpec = lease.spec.get_or_insert_default();
            spec.holder_identity = None;
            spec.lease_duration_seconds = Some(1);
            spec.renew_time = Some(MicroTime(self.clock.now()));
            spec.acquire_time = spec.renew_time.clone();
            match self.api.replace(&self.election.name, &PostParams::default(), &lease).await {
                // What we knew was old: look and try once more.
                Err(kube::Error::Api(status)) if status.code == 409 && known => {}
                other => return other.map(|_| ()),
            }
        }
    }

    fn jittered_retry(&self) -> Duration {
        self.election.retry.mul_f64(1.0 + 0.2 * fastrand::f64())
    }
}

fn record(lease: &Lease) -> Record {
    let spec = lease.spec.as_ref();
    let seconds = spec.and_then(|spec| spec.lease_duration_seconds).and_then(|s| u64::try_from(s).ok());
    Record {
        holder: spec.and_then(|spec| spec.holder_identity.clone()).unwrap_or_default(),
        duration: Duration::from_secs(seconds.unwrap_or(15)),
        transitions: spec.and_then(|spec| spec.lease_transitions).unwrap_or(0),
        renewed: spec.and_then(|spec| spec.renew_time.as_ref()).map(|time| time.0),
    }
}
