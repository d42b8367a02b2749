//! The one task of a member: it follows what happens, wakes whom it concerns, and lets each do its next thing.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use apiserver::{Api, Resource};
use meta::{Object, Status};
use serde_json::{Map, Value};
use store::{Collection, Event, Range, Watch};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::cluster::Cluster;
use crate::kubelet::{self, Lives};
use crate::look::{at, controller, fits, label, text};
use crate::node;
use crate::scheduler::{self, Board};
use crate::todo::{Todo, Who, Work};
use crate::workloads::{budget, cron_job, daemon_set, deployment, endpoints, job, replica_set, stateful_set};

/// How long what failed waits before it is tried again.
const RETRY: Duration = Duration::from_secs(1);
/// Events taken from one collection at once.
const BATCH: usize = 256;
/// After so long without a write the past is let go of: it is memory that nobody asks for.
const QUIET: Duration = Duration::from_secs(300);
/// What is done in one go before others in the process get their turn.
const TURN: usize = 32;

/// A service's name and what it selects.
type Selectors = HashMap<Arc<str>, HashMap<Arc<str>, Map<String, Value>>>;

pub(crate) struct Driver {
    cluster: Arc<Cluster>,
    api: Api,
    follows: Vec<Follow>,
    todo: Todo,
    board: Board,
    lives: Lives,
    selectors: Selectors,
}

/// What the driver follows, and how far it has come.
struct Follow {
    who: Who,
    resource: Resource,
    watch: Option<Watch>,
}

impl Driver {
    pub fn new(api: Api, cluster: Arc<Cluster>) -> Self {
        let kinds = &cluster.kinds;
        let follows = [
            (Who::Node, &kinds.nodes),
            (Who::Kubelet, &kinds.pods),
            (Who::Deployment, &kinds.deployments),
            (Who::ReplicaSet, &kinds.replica_sets),
            (Who::StatefulSet, &kinds.stateful_sets),
            (Who::DaemonSet, &kinds.daemon_sets),
            (Who::Job, &kinds.jobs),
            (Who::CronJob, &kinds.cron_jobs),
            (Who::Service, &kinds.services),
            (Who::Budget, &kinds.budgets),
        ];
        let follows = follows.map(|(who, resource)| Follow { who, resource: resource.clone(), watch: None }).into();
        Self {
            api,
            follows,
            todo: Todo::default(),
            board: Board::default(),
            lives: Lives::default(),
            selectors: Selectors::default(),
            cluster,
        }
    }

    /// Works until told to stop. `written` tells of every write to the member's store.
    pub async fn run(mut self, written: Arc<Notify>, stop: CancellationToken) {
        let (mut done, mut forgotten) = (0, 0);
        while !stop.is_cancelled() {
            self.follow();
            if let Some(work) = self.todo.pop() {
                self.look(&work).await;
                done += 1;
                if done % TURN == 0 {
                    tokio::task::yield_now().await;
                }
                continue;
            }
            let next = self.todo.next();
            let timer = async {
                match next {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = stop.cancelled() => return,
                () = written.notified() => {}
                () = timer => {}
                () = tokio::time::sleep(QUIET), if self.api.store().revision() > forgotten => {
                    forgotten = self.api.store().revision();
                    let _ = self.api.store().compact(forgotten).await;
                }
            }
        }
    }

    /// Takes in what happened since the last look.
    fn follow(&mut self) {
        for i in 0..self.follows.len() {
            let (who, resource) = (self.follows[i].who, self.follows[i].resource.clone());
            let mut events = Vec::new();
            loop {
                let Some(watch) = &mut self.follows[i].watch else {
                    self.begin(i, who, &resource);
                    break;
                };
                if !watch.is_behind() {
                    break;
                }
                if watch.take(BATCH, &mut events).is_err() {
                    // Fell behind the history: start over.
                    self.follows[i].watch = None;
                    continue;
                }
                if events.is_empty() {
                    break;
                }
                for event in events.drain(..) {
                    self.happened(who, &resource, &event);
                }
            }
        }
    }

    /// Looks at everything there is, and follows from there.
    fn begin(&mut self, i: usize, who: Who, resource: &Resource) {
        let store = self.api.store().clone();
        let collection: Collection = resource.collection().clone();
        let range = Range { collection: &collection, prefix: "", after: None, limit: 0, at: None };
        let Ok(page) = store.range(&range, |_, _| true) else { return };
        for (item, entry) in page.items {
            if let Some(object) = resource.decode(&entry) {
                self.changed(who, &item, Some(&object), None);
            }
        }
        self.follows[i].watch = store.watch(&collection, "", page.revision).ok();
    }

    fn happened(&mut self, who: Who, resource: &Resource, event: &Event) {
        let now = event.entry.as_ref().and_then(|entry| resource.decode(entry));
        // What it was matters when it is gone, and where its labels may have changed.
        let before = match (&now, who) {
            (None, _) | (_, Who::Kubelet) => event.prev.as_ref().and_then(|entry| resource.decode(entry)),
            _ => None,
        };
        self.changed(who, &event.key.item, now.as_ref(), before.as_ref());
    }

    /// Wakes whom a change concerns.
    fn changed(&mut self, who: Who, item: &Arc<str>, now: Option<&Object>, before: Option<&Object>) {
        let (namespace, name) = item.split_once('/').unwrap_or(("", item));
        let work = Work::new(who, namespace, name);
        let Some(newest) = now.or(before) else { return };
        match who {
            Who::Kubelet => self.pod_changed(item, work, now, before),
            Who::Node => {
                self.board.node(name, now.cloned());
                self.todo.now(work);
                self.wake_waiting();
                self.wake_all(Who::DaemonSet);
            }
            Who::Service => {
                let selector =
                    now.and_then(|service| at(service, "/spec/selector").as_object()).filter(|s| !s.is_empty());
                let here = self.selectors.entry(namespace.into()).or_default();
                match selector {
                    Some(selector) => _ = here.insert(name.into(), selector.clone()),
                    None => _ = here.remove(name),
                }
                self.todo.now(work);
            }
            who => {
                if now.is_some() {
                    self.todo.now(work);
                }
                if let Some((kind, owner)) = controller(newest) {
                    let up = match (who, kind) {
                        (Who::ReplicaSet, "Deployment") => Who::Deployment,
                        (Who::Job, "CronJob") => Who::CronJob,
                        _ => return,
                    };
                    self.todo.now(Work::new(up, namespace, owner));
                }
            }
        }
    }

    fn pod_changed(&mut self, item: &Arc<str>, work: Work, now: Option<&Object>, before: Option<&Object>) {
        if self.board.pod(item, now) {
            self.wake_waiting();
        }
        let Some(newest) = now.or(before) else { return };
        if let Some((kind, owner)) = controller(newest) {
            let who = match kind {
                "ReplicaSet" => Some(Who::ReplicaSet),
                "StatefulSet" => Some(Who::StatefulSet),
                "DaemonSet" => Some(Who::DaemonSet),
                "Job" => Some(Who::Job),
                _ => None,
            };
            if let Some(who) = who {
                self.todo.soon(Work::new(who, &work.namespace, owner));
            }
        }
        if let Some(services) = self.selectors.get(&work.namespace) {
            let selects = |wanted: &Map<String, Value>, pod: Option<&Object>| {
                pod.is_some_and(|pod| fits(wanted, |key| label(pod, key)))
            };
            for (service, wanted) in services {
                if selects(wanted, now) || selects(wanted, before) {
                    self.todo.soon(Work {
                        who: Who::Service,
                        namespace: Arc::clone(&work.namespace),
                        name: Arc::clone(service),
                    });
                }
            }
        }
        for budget in self.cluster.kinds.budgets.list(&work.namespace, |_| true) {
            if now.is_some_and(|pod| budget::selects(&budget, pod))
                || before.is_some_and(|pod| budget::selects(&budget, pod))
            {
                self.todo.soon(Work::new(Who::Budget, &work.namespace, budget.name()));
            }
        }
        let placed = !text(newest, "/spec/nodeName").is_empty();
        if now.is_some() && !placed {
            self.todo.now(Work { who: Who::Scheduler, ..work });
        } else {
            self.todo.now(work);
        }
    }

    /// There may be room now.
    fn wake_waiting(&mut self) {
        for (namespace, name) in &self.board.waiting {
            self.todo.soon(Work { who: Who::Scheduler, namespace: Arc::clone(namespace), name: Arc::clone(name) });
        }
    }

    fn wake_all(&mut self, who: Who) {
        let Some(follow) = self.follows.iter().find(|follow| follow.who == who) else { return };
        for object in follow.resource.list("", |_| true) {
            self.todo.soon(Work::new(who, object.namespace(), object.name()));
        }
    }

    async fn look(&mut self, work: &Work) {
        let (cluster, todo) = (&*self.cluster, &mut self.todo);
        let outcome: Result<(), Status> = match work.who {
            Who::Node => node::sync(cluster, &work.name, todo).await,
            Who::Scheduler => scheduler::sync(cluster, &work.namespace, &work.name, &mut self.board).await,
            Who::Kubelet => kubelet::sync(cluster, work, &self.board, &mut self.lives, todo).await,
            Who::Deployment => deployment::sync(cluster, work, todo).await,
            Who::ReplicaSet => replica_set::sync(cluster, work, todo).await,
            Who::StatefulSet => stateful_set::sync(cluster, work, todo).await,
            Who::DaemonSet => daemon_set::sync(cluster, work, &self.board, todo).await,
            Who::Job => job::sync(cluster, work, todo).await,
            Who::CronJob => cron_job::sync(cluster, work, todo).await,
            Who::Service => endpoints::sync(cluster, work).await,
            Who::Budget => budget::sync(cluster, work).await,
        };
        if let Err(error) = outcome {
            tracing::debug!(?work, %error, "a simulated controller will try again");
            self.todo.at(Instant::now() + RETRY, work.clone());
        }
    }
}
