//! What every case needs: the definitions, a namespace, a manager that can be stopped well or badly, and patience.

use std::{collections::BTreeMap, fmt::Debug, future::Future, time::Duration};

use k8s_openapi::{
    api::core::v1::Secret, apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{
    Api, Client, Config,
    api::{Patch, PatchParams, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
    runtime::wait::{await_condition, conditions},
};
use muster_tests::{PATIENCE, Peer, eventually};
use runtime::{Filter, Manager, Options, Patterns, Registry, Settings};
use serde_json::{Value, json};
use tokio::{task::JoinHandle, time::Instant};
use tokio_util::sync::CancellationToken;

pub struct Stage {
    pub client: Client,
    pub namespace: String,
}

impl Stage {
    pub async fn new(peer: &Peer) -> Self {
        let kubeconfig = Kubeconfig::read_from(peer.kubeconfig()).unwrap();
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
        let client = Client::try_from(config).unwrap();
        let stage = Self { client, namespace: peer.namespace().await };
        stage.define(registry().crds()).await;
        stage
    }

    /// Makes kinds known and waits until they are served.
    pub async fn define(&self, definitions: Vec<CustomResourceDefinition>) {
        let crds = Api::<CustomResourceDefinition>::all(self.client.clone());
        for crd in definitions {
            let name = crd.metadata.name.clone().unwrap();
            crds.patch(&name, &PatchParams::apply("reconcilers-test").force(), &Patch::Apply(&crd)).await.unwrap();
            let served = await_condition(crds.clone(), &name, conditions::is_crd_established());
            tokio::time::timeout(PATIENCE, served).await.expect("the CRD is not established").unwrap();
            // Kubernetes serves it some time after it says so.
            let spec = &crd.spec;
            let path = format!("/apis/{}/{}/{}?limit=1", spec.group, spec.versions[0].name, spec.names.plural);
            eventually("the kind is served", || async {
                let ask = http::Request::get(&path).body(Vec::new()).unwrap();
                self.client.request_text(ask).await.is_ok()
            })
            .await;
        }
    }

    pub fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub async fn secret(&self, name: &str, data: &[(&str, &str)]) {
        let secret = Secret {
            metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
            string_data: Some(data.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()),
            ..Secret::default()
        };
        self.api::<Secret>().create(&PostParams::default(), &secret).await.unwrap();
    }

    /// A manager of all examples, for this namespace only.
    pub fn manager(&self, options: &Value) -> Running {
        self.manager_of(registry(), options)
    }

    pub fn manager_of(&self, registry: Registry, options: &Value) -> Running {
        let settings = |name: &str| Settings {
            filter: Filter { namespaces: vec![self.namespace.clone()], ..Filter::default() },
            options: options.get(name).cloned().unwrap_or(Value::Null),
            ..Settings::default()
        };
        let settings: BTreeMap<_, _> = registry.iter().map(|one| (one.name.to_string(), settings(&one.name))).collect();
        let options =
            Options { settings, enabled: Patterns::new(["*"]), grace: Duration::from_secs(2), ..Options::default() };
        let manager = Manager::new(self.client.clone(), registry, options).unwrap();
        let stop = CancellationToken::new();
        let task = tokio::spawn(manager.run(stop.clone()));
        Running { stop, task: Some(task) }
    }
}

pub fn registry() -> Registry {
    let mut registry = Registry::new();
    reconcilers::register(&mut registry);
    registry
}

/// A manager at work.
pub struct Running {
    stop: CancellationToken,
    task: Option<JoinHandle<Result<(), runtime::ManagerError>>>,
}

impl Running {
    pub async fn stop(mut self) {
        self.stop.cancel();
        if let Some(task) = self.task.take() {
            task.await.unwrap().unwrap();
        }
    }

    /// Everything is dropped where it stands: as near to kill -9 as one process can come.
    pub async fn crash(mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
            let _ = task.await;
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
        }
    }
}

/// Asks until it is so, at most for `limit` seconds, and not for less than a minute; shows the last answer otherwise.
pub async fn until<T: Debug, F: Future<Output = T>>(
    limit: u64,
    what: &str,
    mut ask: impl FnMut() -> F,
    so: impl Fn(&T) -> bool,
) -> T {
    let limit = Duration::from_secs(limit).max(PATIENCE);
    let end = Instant::now() + limit;
    loop {
        let answer = ask().await;
        if so(&answer) {
            return answer;
        }
        assert!(Instant::now() < end, "{what}: not within {limit:?}; last seen: {answer:#?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// The Events about an object, by reason.
pub async fn reasons(stage: &Stage, name: &str) -> Vec<String> {
    let events = stage.api::<k8s_openapi::api::core::v1::Event>().list(&Default::default()).await.unwrap();
    let about = events.items.into_iter().filter(|event| event.involved_object.name.as_deref() == Some(name));
    about.filter_map(|event| event.reason).collect()
}

pub fn annotated(name: &str, value: Option<&str>) -> Patch<Value> {
    Patch::Merge(json!({"metadata": {"annotations": {name: value}}}))
}
