//! What objects of members look like in lists: one small function per shape, from the object's bytes to a row, read once.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use fleet::{Bytes, Key};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::quantity;
use crate::apiext::catalog::Kind;
use crate::apiext::row::{Row, Shape};

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
            View::Pods => pod(cluster, key, object),
            View::Deployments => deployment(cluster, key, object),
            View::Endpoints => endpoints(cluster, key, object),
            View::Events => event(cluster, key, object),
            View::Nodes => node(cluster, key, object),
            View::Flat(_) => None,
        };
        made.unwrap_or_else(|| {
            let row = Row::of_member(cluster, key, object, self.kind());
            let index = apps(row.labels.iter().map(|(key, value)| (&**key, &**value)));
            Made { row, index, sum: Sum { count: 1, ..Sum::default() } }
        })
    }
}

type Labels<'a> = BTreeMap<Cow<'a, str>, Cow<'a, str>>;

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

fn apps_of(labels: &Labels<'_>) -> Vec<Box<str>> {
    apps(labels.iter().map(|(key, value)| (&**key, &**value)))
}

fn app_of<'a>(labels: &'a Labels<'_>) -> &'a str {
    APP.iter().find_map(|label| labels.get(*label)).map_or("", |value| &**value)
}

fn clip(text: &str) -> &str {
    let end = (0..=text.len().min(LONGEST)).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    &text[..end]
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Object<'a, S, T> {
    #[serde(borrow)]
    metadata: Meta<'a>,
    #[serde(default = "Option::default")]
    spec: Option<S>,
    #[serde(default = "Option::default")]
    status: Option<T>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Meta<'a> {
    #[serde(borrow, default)]
    labels: Option<Labels<'a>>,
    #[serde(borrow, default)]
    creation_timestamp: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    deletion_timestamp: Option<Cow<'a, str>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Condition<'a> {
    #[serde(borrow, rename = "type", default)]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    status: Cow<'a, str>,
}

fn is_true(conditions: Option<&[Condition<'_>]>, kind: &str) -> bool {
    conditions.unwrap_or_default().iter().any(|condition| condition.kind == kind && condition.status == "True")
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodSpec<'a> {
    #[serde(borrow, default)]
    node_name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    containers: Vec<Container<'a>>,
    #[serde(borrow, default)]
    init_containers: Option<Vec<Container<'a>>>,
}

#[derive(Default, Deserialize)]
struct Container<'a> {
    #[serde(borrow, default)]
    image: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    resources: Option<Resources<'a>>,
}

#[derive(Default, Deserialize)]
struct Resources<'a> {
    #[serde(borrow, default)]
    requests: Option<BTreeMap<Cow<'a, str>, Value>>,
}

impl Container<'_> {
    fn requests(&self, what: &str) -> f64 {
        let requests = self.resources.as_ref().and_then(|resources| resources.requests.as_ref());
        match requests.and_then(|requests| requests.get(what)) {
            Some(Value::String(text)) => quantity::parse(text).max(0.0),
            Some(Value::Number(number)) => number.as_f64().unwrap_or(0.0).max(0.0),
            _ => 0.0,
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodStatus<'a> {
    #[serde(borrow, default)]
    phase: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    reason: Option<Cow<'a, str>>,
    #[serde(borrow, rename = "podIP", default)]
    ip: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    conditions: Option<Vec<Condition<'a>>>,
    #[serde(borrow, default)]
    init_container_statuses: Option<Vec<ContainerStatus<'a>>>,
    #[serde(borrow, default)]
    container_statuses: Option<Vec<ContainerStatus<'a>>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ContainerStatus<'a> {
    #[serde(default)]
    ready: bool,
    #[serde(default)]
    restart_count: u64,
    #[serde(borrow, default)]
    state: Option<ContainerState<'a>>,
}

#[derive(Default, Deserialize)]
struct ContainerState<'a> {
    #[serde(borrow, default)]
    waiting: Option<Why<'a>>,
    #[serde(borrow, default)]
    terminated: Option<Why<'a>>,
}

#[derive(Default, Deserialize)]
struct Why<'a> {
    #[serde(borrow, default)]
    reason: Option<Cow<'a, str>>,
}

fn is_empty(text: &&str) -> bool {
    text.is_empty()
}

#[derive(Serialize)]
struct PodRow<'a> {
    cluster: &'a str,
    namespace: &'a str,
    name: &'a str,
    app: &'a str,
    phase: &'a str,
    ready: String,
    restarts: u64,
    node: &'a str,
    ip: &'a str,
    created: &'a str,
    #[serde(skip_serializing_if = "is_empty")]
    reason: &'a str,
    #[serde(skip_serializing_if = "is_empty")]
    group: &'a str,
    #[serde(skip_serializing_if = "is_empty")]
    unit: &'a str,
    #[serde(skip_serializing_if = "is_empty")]
    ldc: &'a str,
    image: &'a str,
    labels: &'a Labels<'a>,
}

fn pod(cluster: &Arc<str>, key: &Key, object: &Bytes) -> Option<Made> {
    let Object { metadata, spec, status } =
        serde_json::from_slice::<Object<'_, PodSpec<'_>, PodStatus<'_>>>(object).ok()?;
    let (spec, status) = (spec.unwrap_or_default(), status.unwrap_or_default());
    let namespace = key.namespace.clone().unwrap_or_default();
    let labels = metadata.labels.unwrap_or_default();
    let label = |name: &str| labels.get(name).map_or("", |value| &**value);
    let phase = match (&metadata.deletion_timestamp, &status.phase) {
        (Some(_), _) => "Terminating",
        (None, Some(phase)) => phase,
        (None, None) => "Unknown",
    };
    let containers = status.container_statuses.as_deref().unwrap_or_default();
    let all = status.init_container_statuses.iter().flatten().chain(containers);
    let why = |status: &ContainerStatus<'_>| {
        let state = status.state.as_ref()?;
        let why = state.waiting.as_ref().or(state.terminated.as_ref())?.reason.as_deref()?;
        (why != "Completed").then(|| why.to_owned())
    };
    let reason = all.clone().find_map(why).or_else(|| status.reason.as_deref().map(str::to_owned)).unwrap_or_default();
    let created = metadata.creation_timestamp.as_deref().unwrap_or_default();
    let image = spec.containers.first().and_then(|container| container.image.as_deref()).unwrap_or_default();
    let node = spec.node_name.as_deref().unwrap_or_default();
    let row = PodRow {
        cluster,
        namespace: &namespace,
        name: &key.name,
        app: app_of(&labels),
        phase,
        ready: format!("{}/{}", containers.iter().filter(|status| status.ready).count(), spec.containers.len()),
        restarts: all.map(|status| status.restart_count).sum(),
        node,
        ip: status.ip.as_deref().unwrap_or_default(),
        created,
        reason: clip(&reason),
        group: label(GROUP),
        unit: label(UNIT),
        ldc: label(LDC),
        image,
        labels: &labels,
    };
    let json = serde_json::to_vec(&row).ok()?;
    // Whatever has ended asks for nothing any more.
    let over = matches!(status.phase.as_deref(), Some("Succeeded" | "Failed"));
    let requests = |what: &str| {
        let own: f64 = spec.containers.iter().map(|container| container.requests(what)).sum();
        let first = spec.init_containers.iter().flatten().map(|container| container.requests(what));
        if over { 0.0 } else { first.fold(own, f64::max) }
    };
    let ready = is_true(status.conditions.as_deref(), "Ready");
    let sum = Sum { count: 1, ready: ready.into(), cpu: requests("cpu"), memory: requests("memory") };
    let shape = Shape {
        created,
        phase,
        words: &[node, image, &reason],
        json,
        ..Shape::of(cluster, &namespace, &key.name, &labels)
    };
    let index = apps_of(&labels);
    Some(Made { row: Row::shaped(shape), index, sum })
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct DeploymentSpec<'a> {
    #[serde(default)]
    replicas: Option<i64>,
    #[serde(default)]
    paused: Option<bool>,
    #[serde(borrow, default)]
    template: Option<Template<'a>>,
}

#[derive(Default, Deserialize)]
struct Template<'a> {
    #[serde(borrow, default)]
    metadata: Option<Meta<'a>>,
    #[serde(borrow, default)]
    spec: Option<PodSpec<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct DeploymentStatus {
    updated_replicas: Option<i64>,
    ready_replicas: Option<i64>,
    available_replicas: Option<i64>,
    unavailable_replicas: Option<i64>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DeploymentRow<'a> {
    cluster: &'a str,
    namespace: &'a str,
    name: &'a str,
    app: &'a str,
    phase: &'a str,
    desired_replicas: i64,
    updated_replicas: i64,
    ready_replicas: i64,
    available_replicas: i64,
    unavailable_replicas: i64,
    paused: bool,
    created: &'a str,
    image: &'a str,
    labels: &'a Labels<'a>,
}

fn deployment(cluster: &Arc<str>, key: &Key, object: &Bytes) -> Option<Made> {
    let Object { metadata, spec, status } =
        serde_json::from_slice::<Object<'_, DeploymentSpec<'_>, DeploymentStatus>>(object).ok()?;
    let (spec, status) = (spec.unwrap_or_default(), status.unwrap_or_default());
    let namespace = key.namespace.clone().unwrap_or_default();
    let labels = metadata.labels.unwrap_or_default();
    let template = spec.template.unwrap_or_default();
    let of_pods = template.metadata.and_then(|metadata| metadata.labels).unwrap_or_default();
    let desired = spec.replicas.unwrap_or(1);
    let available = status.available_replicas.unwrap_or(0);
    let paused = spec.paused.unwrap_or(false);
    let phase = match () {
        () if metadata.deletion_timestamp.is_some() => "Terminating",
        () if paused => "Paused",
        () if status.updated_replicas.unwrap_or(0) < desired => "Progressing",
        () if available < desired => "Unavailable",
        () => "Available",
    };
    let created = metadata.creation_timestamp.as_deref().unwrap_or_default();
    let containers = template.spec.unwrap_or_default().containers;
    let image = containers.first().and_then(|container| container.image.as_deref()).unwrap_or_default();
    let row = DeploymentRow {
        cluster,
        namespace: &namespace,
        name: &key.name,
        app: if app_of(&labels).is_empty() { app_of(&of_pods) } else { app_of(&labels) },
        phase,
        desired_replicas: desired,
        updated_replicas: status.updated_replicas.unwrap_or(0),
        ready_replicas: status.ready_replicas.unwrap_or(0),
        available_replicas: available,
        unavailable_replicas: status.unavailable_replicas.unwrap_or((desired - available).max(0)),
        paused,
        created,
        image,
        labels: &labels,
    };
    let json = serde_json::to_vec(&row).ok()?;
    let mut index = apps_of(&labels);
    index.extend(apps_of(&of_pods));
    index.sort();
    index.dedup();
    let shape =
        Shape { created, phase, words: &[image], json, ..Shape::of(cluster, &namespace, &key.name, &labels) };
    let sum = Sum { count: 1, ready: (available >= desired).into(), ..Sum::default() };
    Some(Made { row: Row::shaped(shape), index, sum })
}

#[derive(Deserialize)]
struct EndpointsObject<'a> {
    #[serde(borrow)]
    metadata: Meta<'a>,
    #[serde(borrow, default)]
    subsets: Option<Vec<Subset<'a>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Subset<'a> {
    #[serde(borrow, default)]
    addresses: Option<Vec<Address<'a>>>,
    #[serde(borrow, default)]
    not_ready_addresses: Option<Vec<Address<'a>>>,
    #[serde(default)]
    ports: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Address<'a> {
    #[serde(borrow, default)]
    ip: Cow<'a, str>,
    #[serde(borrow, default)]
    node_name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    target_ref: Option<TargetRef<'a>>,
}

#[derive(Deserialize)]
struct TargetRef<'a> {
    #[serde(borrow, default)]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    name: Option<Cow<'a, str>>,
}

#[derive(Serialize)]
struct AddressRow<'a> {
    ip: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pod: Option<&'a str>,
    ready: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EndpointsRow<'a> {
    cluster: &'a str,
    namespace: &'a str,
    name: &'a str,
    app: &'a str,
    ready: usize,
    not_ready: usize,
    addresses: Vec<AddressRow<'a>>,
    ports: Vec<&'a Value>,
    created: &'a str,
    labels: &'a Labels<'a>,
}

fn endpoints(cluster: &Arc<str>, key: &Key, object: &Bytes) -> Option<Made> {
    let EndpointsObject { metadata, subsets } = serde_json::from_slice(object).ok()?;
    let subsets = subsets.unwrap_or_default();
    let namespace = key.namespace.clone().unwrap_or_default();
    let labels = metadata.labels.unwrap_or_default();
    let mut addresses = Vec::new();
    for subset in &subsets {
        for (ready, list) in [(true, &subset.addresses), (false, &subset.not_ready_addresses)] {
            for address in list.iter().flatten() {
                let pod = address.target_ref.as_ref().filter(|target| target.kind.as_deref() == Some("Pod"));
                let pod = pod.and_then(|target| target.name.as_deref());
                addresses.push(AddressRow { ip: &address.ip, node: address.node_name.as_deref(), pod, ready });
            }
        }
    }
    let ready = addresses.iter().filter(|address| address.ready).count();
    let created = metadata.creation_timestamp.as_deref().unwrap_or_default();
    let row = EndpointsRow {
        cluster,
        namespace: &namespace,
        name: &key.name,
        app: app_of(&labels),
        ready,
        not_ready: addresses.len() - ready,
        addresses,
        ports: subsets.iter().filter_map(|subset| subset.ports.as_ref()?.as_array()).flatten().collect(),
        created,
        labels: &labels,
    };
    let json = serde_json::to_vec(&row).ok()?;
    let mut index = apps_of(&labels);
    // A service is often named as its application, and nothing more said.
    if !index.iter().any(|app| **app == *key.name) {
        index.push((*key.name).into());
    }
    let shape = Shape { created, json, ..Shape::of(cluster, &namespace, &key.name, &labels) };
    Some(Made { row: Row::shaped(shape), index, sum: Sum { count: 1, ..Sum::default() } })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct EventObject<'a> {
    #[serde(borrow)]
    metadata: Meta<'a>,
    #[serde(borrow, default)]
    involved_object: Option<TargetRef<'a>>,
    #[serde(borrow, default)]
    reason: Option<Cow<'a, str>>,
    #[serde(borrow, rename = "type", default)]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    message: Option<Cow<'a, str>>,
    #[serde(default)]
    count: Option<i64>,
    #[serde(borrow, default)]
    first_timestamp: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    last_timestamp: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    event_time: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    series: Option<Series<'a>>,
    #[serde(borrow, default)]
    reporting_component: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    source: Option<Source<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Series<'a> {
    #[serde(default)]
    count: Option<i64>,
    #[serde(borrow, default)]
    last_observed_time: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct Source<'a> {
    #[serde(borrow, default)]
    component: Option<Cow<'a, str>>,
}

#[derive(Serialize)]
struct EventRow<'a> {
    cluster: &'a str,
    namespace: &'a str,
    name: &'a str,
    kind: &'a str,
    object: &'a str,
    reason: &'a str,
    #[serde(rename = "type")]
    severity: &'a str,
    message: &'a str,
    count: i64,
    first: &'a str,
    last: &'a str,
    source: &'a str,
}

fn event(cluster: &Arc<str>, key: &Key, object: &Bytes) -> Option<Made> {
    let event: EventObject<'_> = serde_json::from_slice(object).ok()?;
    let namespace = key.namespace.clone().unwrap_or_default();
    let about = event.involved_object.as_ref();
    let kind = about.and_then(|about| about.kind.as_deref()).unwrap_or_default();
    let name = about.and_then(|about| about.name.as_deref()).unwrap_or_default();
    let created = event.metadata.creation_timestamp.as_deref().unwrap_or_default();
    let given = |text: Option<&str>| text.filter(|text| !text.is_empty()).map(str::to_owned);
    let series = event.series.as_ref();
    let first = given(event.first_timestamp.as_deref()).or_else(|| given(event.event_time.as_deref()));
    let first = first.unwrap_or_else(|| created.to_owned());
    let last = given(series.and_then(|series| series.last_observed_time.as_deref()))
        .or_else(|| given(event.last_timestamp.as_deref()))
        .unwrap_or_else(|| first.clone());
    let source = given(event.reporting_component.as_deref())
        .or_else(|| given(event.source.as_ref().and_then(|source| source.component.as_deref())))
        .unwrap_or_default();
    let reason = clip(event.reason.as_deref().unwrap_or_default());
    let message = clip(event.message.as_deref().unwrap_or_default());
    let severity = event.kind.as_deref().unwrap_or("Normal");
    let row = EventRow {
        cluster,
        namespace: &namespace,
        name: &key.name,
        kind,
        object: name,
        reason,
        severity,
        message,
        count: event.count.or(series.and_then(|series| series.count)).unwrap_or(1),
        first: &first,
        last: &last,
        source: &source,
    };
    let json = serde_json::to_vec(&row).ok()?;
    let labels = Labels::new();
    let shape = Shape {
        words: &[kind, name, reason, message, severity],
        json,
        ..Shape::of(cluster, &namespace, &key.name, &labels)
    };
    let sum = Sum { count: 1, ready: (severity != "Warning").into(), ..Sum::default() };
    let mut index: Vec<Box<str>> = vec![about_key(kind, name)];
    if severity == "Warning" {
        index.push(WARNINGS.into());
    }
    Some(Made { row: Row::shaped(shape), index, sum })
}

/// Under this word all warnings are found; no kind has such a name.
pub(super) const WARNINGS: &str = "!";

/// The word under which the events about an object are found.
pub(super) fn about_key(kind: &str, name: &str) -> Box<str> {
    format!("{kind}/{name}").into()
}

#[derive(Default, Deserialize)]
struct NodeSpec {
    #[serde(default)]
    unschedulable: Option<bool>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct NodeStatus<'a> {
    #[serde(borrow, default)]
    allocatable: Option<BTreeMap<Cow<'a, str>, Cow<'a, str>>>,
    #[serde(borrow, default)]
    conditions: Option<Vec<Condition<'a>>>,
    #[serde(borrow, default)]
    node_info: Option<NodeInfo<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct NodeInfo<'a> {
    #[serde(borrow, default)]
    kubelet_version: Option<Cow<'a, str>>,
}

#[derive(Serialize)]
struct NodeRow<'a> {
    cluster: &'a str,
    name: &'a str,
    phase: &'a str,
    ready: bool,
    schedulable: bool,
    roles: Vec<&'a str>,
    version: &'a str,
    cpu: f64,
    memory: f64,
    pods: f64,
    created: &'a str,
    labels: &'a Labels<'a>,
}

fn node(cluster: &Arc<str>, key: &Key, object: &Bytes) -> Option<Made> {
    let Object { metadata, spec, status } =
        serde_json::from_slice::<Object<'_, NodeSpec, NodeStatus<'_>>>(object).ok()?;
    let status = status.unwrap_or_default();
    let labels = metadata.labels.unwrap_or_default();
    let ready = is_true(status.conditions.as_deref(), "Ready");
    let has = |what: &str| {
        let given = status.allocatable.as_ref().and_then(|given| given.get(what));
        given.map_or(0.0, |text| quantity::parse(text).max(0.0))
    };
    let created = metadata.creation_timestamp.as_deref().unwrap_or_default();
    let phase = if ready { "Ready" } else { "NotReady" };
    let row = NodeRow {
        cluster,
        name: &key.name,
        phase,
        ready,
        schedulable: !spec.unwrap_or_default().unschedulable.unwrap_or(false),
        roles: labels.keys().filter_map(|key| key.strip_prefix("node-role.kubernetes.io/")).collect(),
        version: status.node_info.as_ref().and_then(|info| info.kubelet_version.as_deref()).unwrap_or_default(),
        cpu: has("cpu"),
        memory: has("memory"),
        pods: has("pods"),
        created,
        labels: &labels,
    };
    let json = serde_json::to_vec(&row).ok()?;
    let sum = Sum { count: 1, ready: ready.into(), cpu: row.cpu, memory: row.memory };
    let nowhere = Arc::from("");
    let shape = Shape { created, phase, json, ..Shape::of(cluster, &nowhere, &key.name, &labels) };
    Some(Made { row: Row::shaped(shape), index: vec![], sum })
}
