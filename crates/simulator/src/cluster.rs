//! The hands of everybody who works in a member: its kinds, its clock, and the events they leave.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use apiserver::{Api, Resource};
use meta::{Object, Reason, Status, time};
use serde_json::{Value, json};

use crate::look::{self, number};
use crate::settings::Settings;

/// The kinds that somebody in a member looks after.
pub(crate) struct Kinds {
    pub pods: Resource,
    pub nodes: Resource,
    pub services: Resource,
    pub endpoints: Resource,
    pub slices: Resource,
    pub events: Resource,
    pub claims: Resource,
    pub deployments: Resource,
    pub replica_sets: Resource,
    pub stateful_sets: Resource,
    pub daemon_sets: Resource,
    pub revisions: Resource,
    pub jobs: Resource,
    pub cron_jobs: Resource,
    pub budgets: Resource,
}

impl Kinds {
    fn of(api: &Api) -> Result<Self, Status> {
        let find = |group: &str, plural: &str| {
            api.resource(group, "v1", plural)
                .ok_or_else(|| Status::internal(format!("the API server does not serve {plural} of {group:?}")))
        };
        Ok(Self {
            pods: find("", "pods")?,
            nodes: find("", "nodes")?,
            services: find("", "services")?,
            endpoints: find("", "endpoints")?,
            slices: find("discovery.k8s.io", "endpointslices")?,
            events: find("", "events")?,
            claims: find("", "persistentvolumeclaims")?,
            deployments: find("apps", "deployments")?,
            replica_sets: find("apps", "replicasets")?,
            stateful_sets: find("apps", "statefulsets")?,
            daemon_sets: find("apps", "daemonsets")?,
            revisions: find("apps", "controllerrevisions")?,
            jobs: find("batch", "jobs")?,
            cron_jobs: find("batch", "cronjobs")?,
            budgets: find("policy", "poddisruptionbudgets")?,
        })
    }
}

pub(crate) struct Cluster {
    pub kinds: Kinds,
    pub settings: Arc<Settings>,
    /// Pod addresses given so far.
    addresses: AtomicU32,
}

/// What happened, as an event tells it.
pub(crate) struct Happening<'a> {
    pub component: &'a str,
    pub warning: bool,
    pub reason: &'a str,
    pub message: String,
    /// A part of the object, such as `spec.containers{web}`.
    pub field: String,
}

impl<'a> Happening<'a> {
    pub fn normal(component: &'a str, reason: &'a str, message: impl Into<String>) -> Self {
        Self { component, warning: false, reason, message: message.into(), field: String::new() }
    }

    pub fn warning(component: &'a str, reason: &'a str, message: impl Into<String>) -> Self {
        Self { warning: true, ..Self::normal(component, reason, message) }
    }

    pub fn of(self, container: &str) -> Self {
        Self { field: format!("spec.containers{{{container}}}"), ..self }
    }
}

impl Cluster {
    pub fn new(api: &Api, settings: Arc<Settings>) -> Result<Self, Status> {
        Ok(Self { kinds: Kinds::of(api)?, settings, addresses: AtomicU32::new(0) })
    }

    /// Now, as objects write it.
    pub fn stamp(&self) -> String {
        time::seconds(self.settings.clock.now())
    }

    /// How many seconds ago that was; none when it is no time.
    pub fn since(&self, stamp: &str) -> Option<i64> {
        Some(self.settings.clock.now().duration_since(time::parse(stamp)?).as_secs())
    }

    /// A fresh address of the pod network, 10.128.0.0/9.
    pub fn address(&self) -> String {
        let n = self.addresses.fetch_add(1, Relaxed) % 0x007f_fffe + 1;
        let [_, b, c, d] = n.to_be_bytes();
        format!("10.{}.{c}.{d}", 128 + b)
    }

    /// Leaves an event; the same one again counts up, as it does in a real cluster. Events are help, not truth: failures are not told.
    pub async fn tell(&self, about: &Object, happening: Happening<'_>) {
        if self.settings.events.is_none() {
            return;
        }
        let Happening { component, warning, reason, message, field } = happening;
        let namespace = if about.namespace().is_empty() { "default" } else { about.namespace() };
        let hash = look::hash(&[about.uid(), reason, &message, &field]);
        let name = format!("{}.{hash:016x}", about.name());
        let now = self.stamp();
        let repeated = self.kinds.events.set(namespace, &name, |event| {
            let count = number(event, "/count") + 1;
            event.0.insert("count".into(), count.into());
            event.0.insert("lastTimestamp".into(), now.as_str().into());
        });
        if repeated.await.is_ok() {
            return;
        }
        let host = look::text(about, "/spec/nodeName");
        let source = if component == "kubelet" {
            json!({"component": component, "host": host})
        } else {
            json!({"component": component})
        };
        let mut involved = json!({"kind": about.kind(), "apiVersion": about.api_version(), "namespace": about.namespace(),
            "name": about.name(), "uid": about.uid(), "resourceVersion": about.resource_version()});
        if !field.is_empty() {
            involved["fieldPath"] = field.into();
        }
        let event = json!({"metadata": {"name": name}, "involvedObject": involved, "reason": reason, "message": message,
            "source": source, "firstTimestamp": now, "lastTimestamp": now, "count": 1,
            "type": if warning { "Warning" } else { "Normal" }, "reportingComponent": component,
            "reportingInstance": if component == "kubelet" { host } else { "" }});
        if let Some(event) = Object::from_value(event)
            && let Err(error) = self.kinds.events.create(namespace, event).await
        {
            tracing::debug!(%error, reason, "an event was not written");
        }
    }
}

/// Somebody else was faster, or it is gone: the next look sees it.
pub(crate) fn is_race(status: &Status) -> bool {
    matches!(status.reason, Reason::NotFound | Reason::Conflict | Reason::AlreadyExists)
}

/// A pod made of a workload's template.
pub(crate) fn pod_from(template: &Value, owner: Value, name: Option<&str>, generate: &str) -> Object {
    let mut pod = Object::default();
    let meta = &template["metadata"];
    for part in ["labels", "annotations", "finalizers"] {
        if let Some(value) = meta.get(part) {
            pod.meta_mut().insert(part.into(), value.clone());
        }
    }
    match name {
        Some(name) => pod.set_meta("name", name),
        None => pod.set_meta("generateName", generate),
    }
    pod.meta_mut().insert("ownerReferences".into(), owner);
    pod.0.insert("spec".into(), template["spec"].clone());
    pod
}
