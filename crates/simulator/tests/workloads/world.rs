//! A member in virtual time, and words to ask it with.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use simulator::{Member, Settings, VirtualClock};

pub struct World {
    pub member: Member,
    pub client: Client,
}

/// A member of three nodes.
pub async fn world() -> World {
    world_of(|_| {}).await
}

pub async fn world_of(change: impl FnOnce(&mut Settings)) -> World {
    let mut settings = Settings::new("test");
    settings.clock = Arc::new(VirtualClock::starting_at("2026-03-01T00:00:00Z".parse().unwrap()));
    change(&mut settings);
    let member = Member::start(settings).await.unwrap();
    let client = Client::new(member.service(), "default");
    World { member, client }
}

impl World {
    pub fn all<K>(&self) -> Api<K>
    where
        K: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), "default")
    }

    pub async fn create<K>(&self, object: Value) -> K
    where
        K: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>
            + Clone
            + Serialize
            + DeserializeOwned
            + Debug,
    {
        self.all::<K>().create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap()
    }

    pub async fn patch<K>(&self, name: &str, patch: Value) -> K
    where
        K: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>
            + Clone
            + Serialize
            + DeserializeOwned
            + Debug,
    {
        self.all::<K>().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap()
    }

    pub async fn pods(&self, labels: &str) -> Vec<Pod> {
        self.all::<Pod>().list(&ListParams::default().labels(labels)).await.unwrap().items
    }

    /// The reasons of an object's events.
    pub async fn reasons(&self, name: &str) -> Vec<String> {
        let fields = format!("involvedObject.name={name}");
        let events = self.all::<Event>().list(&ListParams::default().fields(&fields)).await.unwrap();
        events.items.into_iter().filter_map(|event| event.reason).collect()
    }

    /// Waits, in virtual time, until an object is as wanted.
    pub async fn until<K>(&self, name: &str, wanted: impl Fn(&Value) -> bool) -> Value
    where
        K: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>
            + Clone
            + Serialize
            + DeserializeOwned
            + Debug,
    {
        let mut last = Value::Null;
        for _ in 0..20_000 {
            last = serde_json::to_value(self.all::<K>().get(name).await.unwrap()).unwrap();
            if wanted(&last) {
                return last;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("{name} did not become as wanted: {last:#}");
    }

    /// Waits until so many pods are there and ready, and no more.
    pub async fn until_ready(&self, labels: &str, count: usize) -> Vec<Pod> {
        for _ in 0..20_000 {
            let pods = self.pods(labels).await;
            if pods.len() == count && pods.iter().all(is_ready) {
                return pods;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let pods = self.pods(labels).await;
        panic!(
            "{labels}: {} pods, wanted {count} ready ones: {:#?}",
            pods.len(),
            pods.iter()
                .map(|p| (p.metadata.name.clone(), p.status.as_ref().and_then(|s| s.phase.clone())))
                .collect::<Vec<_>>()
        );
    }
}

pub fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|s| s.conditions.clone()).unwrap_or_default();
    conditions.iter().any(|c| c.type_ == "Ready" && c.status == "True") && pod.metadata.deletion_timestamp.is_none()
}

pub fn template(app: &str, image: &str) -> Value {
    json!({"metadata": {"labels": {"app": app}}, "spec": {"containers": [{"name": "web", "image": image, "ports": [{"name": "http", "containerPort": 8080}]}]}})
}

pub fn deployment(name: &str, replicas: i64) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template(name, "shop:1")}})
}
