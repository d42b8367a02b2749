//! What objects of members look like in lists: one small function per shape, from the object's bytes to a row, read once.

mod deployments;
mod endpoints;
mod events;
mod nodes;
mod object;
mod pods;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use fleet::{Bytes, Key};

use crate::apiext::catalog::Kind;
use crate::apiext::row::Row;

/// The labels by which pods belong to an application, and to a part of it.
pub(super) const APP: [&str; 2] = ["app", "app.kubernetes.io/name"];
pub(super) const GROUP: &str = "sym-group";
pub(super) const UNIT: &str = "sym-unit";
pub(super) const LDC: &str = "sym-ldc";

/// Of a text that a member made only so much is kept.
const LONGEST: usize = 4_096;

/// One way to look at the objects of a kind.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum View {
    Pods,
    Deployments,
    Endpoints,
    Events,
    Nodes,
    /// As APIExt shows any kind.
    Flat(Arc<Kind>),
}

/// Kinds every cluster has, without asking it.
pub(super) struct Known {
    pub(super) pods: Arc<Kind>,
    pub(super) nodes: Arc<Kind>,
    pub(super) events: Arc<Kind>,
    pub(super) services: Arc<Kind>,
    pub(super) endpoints: Arc<Kind>,
    pub(super) namespaces: Arc<Kind>,
    pub(super) secrets: Arc<Kind>,
    pub(super) config_maps: Arc<Kind>,
    pub(super) deployments: Arc<Kind>,
    pub(super) stateful_sets: Arc<Kind>,
    pub(super) daemon_sets: Arc<Kind>,
    pub(super) jobs: Arc<Kind>,
    pub(super) cron_jobs: Arc<Kind>,
    pub(super) ingresses: Arc<Kind>,
    /// Not a kind of any cluster: the member itself, as roles name it.
    pub(super) clusters: Arc<Kind>,
    /// Not a kind either: what Helm keeps in Secrets, as roles name it.
    pub(super) releases: Arc<Kind>,
}

pub(super) static KNOWN: LazyLock<Known> = LazyLock::new(|| {
    let kind = |group: &str, plural: &str, kind: &str, namespaced: bool| {
        let verbs = ["get", "list", "watch", "create", "update", "patch", "delete"];
        Arc::new(Kind {
            group: group.to_owned(),
            version: "v1".to_owned(),
            plural: plural.to_owned(),
            kind: kind.to_owned(),
            namespaced,
            verbs: verbs.map(str::to_owned).to_vec(),
            short_names: vec![],
            has_scale: matches!(plural, "deployments" | "statefulsets"),
            has_status: true,
        })
    };
    Known {
        pods: kind("", "pods", "Pod", true),
        nodes: kind("", "nodes", "Node", false),
        events: kind("", "events", "Event", true),
        services: kind("", "services", "Service", true),
        endpoints: kind("", "endpoints", "Endpoints", true),
        namespaces: kind("", "namespaces", "Namespace", false),
        secrets: kind("", "secrets", "Secret", true),
        config_maps: kind("", "configmaps", "ConfigMap", true),
        deployments: kind("apps", "deployments", "Deployment", true),
        stateful_sets: kind("apps", "statefulsets", "StatefulSet", true),
        daemon_sets: kind("apps", "daemonsets", "DaemonSet", true),
        jobs: kind("batch", "jobs", "Job", true),
        cron_jobs: kind("batch", "cronjobs", "CronJob", true),
        ingresses: kind("networking.k8s.io", "ingresses", "Ingress", true),
        clusters: kind("", "clusters", "Cluster", false),
        releases: kind("helm.sh", "releases", "Release", true),
    }
});

/// What one object came to.
pub(super) struct Made {
    pub(super) row: Row,
    /// Words it is found by at once: its application, or what an event is about.
    pub(super) index: Vec<Box<str>>,
    pub(super) sum: Sum,
}

/// Figures that add up over the objects of a kind.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub(super) struct Sum {
    pub(super) count: u64,
    pub(super) ready: u64,
    /// Cores.
    pub(super) cpu: f64,
    /// Bytes.
    pub(super) memory: f64,
}

impl std::ops::AddAssign for Sum {
    fn add_assign(&mut self, other: Self) {
        self.count += other.count;
        self.ready += other.ready;
        self.cpu += other.cpu;
        self.memory += other.memory;
    }
}

impl View {
    /// Which objects it looks at.
    pub(super) fn kind(&self) -> &Arc<Kind> {
        match self {
            View::Pods => &KNOWN.pods,
            View::Deployments => &KNOWN.deployments,
            View::Endpoints => &KNOWN.endpoints,
            View::Events => &KNOWN.events,
            View::Nodes => &KNOWN.nodes,
            View::Flat(kind) => kind,
        }
    }

    /// The row of an object. One of a strange shape is shown as any kind is.
    pub(super) fn make(&self, cluster: &Arc<str>, key: &Key, object: &Bytes) -> Made {
        let made = match self {
            View::Pods => pods::pod(cluster, key, object),
            View::Deployments => deployments::deployment(cluster, key, object),
            View::Endpoints => endpoints::endpoints(cluster, key, object),
            View::Events => events::event(cluster, key, object),
            View::Nodes => nodes::node(cluster, key, object),
            View::Flat(_) => None,
        };
        made.unwrap_or_else(|| {
            let row = Row::of_member(cluster, key, object, self.kind());
            let index = apps(row.labels.iter());
            Made { row, index, sum: Sum { count: 1, ..Sum::default() } }
        })
    }
}

pub(super) type Labels<'a> = BTreeMap<Cow<'a, str>, Cow<'a, str>>;

/// The applications that labels name.
fn apps<'a>(labels: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<Box<str>> {
    let mut found: Vec<Box<str>> = Vec::new();
    for (_, value) in labels.filter(|(key, _)| APP.contains(key)) {
        if !found.iter().any(|known| **known == *value) {
            found.push(value.into());
        }
    }
    found
}

pub(super) fn apps_of(labels: &Labels<'_>) -> Vec<Box<str>> {
    apps(labels.iter().map(|(key, value)| (&**key, &**value)))
}

pub(super) fn app_of<'a>(labels: &'a Labels<'_>) -> &'a str {
    APP.iter().find_map(|label| labels.get(*label)).map_or("", |value| &**value)
}

pub(super) fn clip(text: &str) -> &str {
    let end = (0..=text.len().min(LONGEST)).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    &text[..end]
}

/// Under this word all warnings are found; no kind has such a name.
pub(super) const WARNINGS: &str = "!";

/// The word under which the events about an object are found.
pub(super) fn about_key(kind: &str, name: &str) -> Box<str> {
    format!("{kind}/{name}").into()
}
