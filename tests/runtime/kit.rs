//! What the cases share: a kind, a reconciler made of a closure, managers that are stopped or killed, the log.
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kube::api::{Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, CustomResource, CustomResourceExt, ResourceExt};
pub use muster_tests::eventually;
use muster_tests::{PATIENCE, Peer};
use runtime::{Context, Controller, Failure, Handle, Key, Manager, Metrics, Next, Options, Reconciler, Registry};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio_util::sync::CancellationToken;

#[derive(CustomResource, Deserialize, Serialize, Clone, Debug, JsonSchema)]
#[kube(group = "runtime.muster.dev", version = "v1", kind = "Task", namespaced, status = "TaskStatus")]
pub struct TaskSpec {
    pub value: i64,
}

#[derive(Deserialize, Serialize, Clone, Debug, Default, JsonSchema)]
pub struct TaskStatus {
    pub seen: i64,
}

pub async fn config(peer: &Peer) -> Config {
    // Written anew each time: one at a time.
    static FILE: Mutex<()> = Mutex::new(());
    let kubeconfig = {
        let _turn = FILE.lock();
        Kubeconfig::read_from(peer.kubeconfig()).unwrap()
    };
    Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap()
}

pub async fn client(peer: &Peer) -> Client {
    Client::try_from(config(peer).await).unwrap()
}

/// A client that goes through a proxy.
pub async fn client_through(peer: &Peer, port: u16) -> Client {
    let mut config = config(peer).await;
    config.cluster_url = format!("https://127.0.0.1:{port}").parse().unwrap();
    Client::try_from(config).unwrap()
}

/// The definition of `Task`, with a status that takes anything, so that it can be spoilt.
pub async fn define(client: &Client) {
    let mut crd = serde_json::to_value(Task::crd()).unwrap();
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"] =
        json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let crd = serde_json::from_value(crd).unwrap();
    let api: Api<k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition> =
        Api::all(client.clone());
    match api.create(&PostParams::default(), &crd).await {
        Ok(_) => {}
        Err(kube::Error::Api(status)) if status.code == 409 => {}
        Err(error) => panic!("{error}"),
    }
    // In a namespace of nobody, because those of other cases cannot be read on purpose.
    let tasks: Api<Task> = Api::namespaced(client.clone(), "default");
    eventually("the definition is served", || async { tasks.list(&Default::default()).await.is_ok() }).await;
}

/// A namespace and its tasks.
pub struct Place {
    pub namespace: String,
    pub client: Client,
    pub tasks: Api<Task>,
}

impl Place {
    pub async fn new(peer: &Peer) -> Place {
        let client = client(peer).await;
        define(&client).await;
        let namespace = peer.namespace().await;
        let tasks = Api::namespaced(client.clone(), &namespace);
        Place { namespace, client, tasks }
    }

    pub async fn make(&self, name: &str, value: i64) -> Task {
        self.tasks.create(&PostParams::default(), &Task::new(name, TaskSpec { value })).await.unwrap()
    }

    pub async fn change(&self, name: &str, value: i64) {
        let patch = Patch::Merge(json!({"spec": {"value": value}}));
        self.tasks.patch(name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// A filter for this place alone: cases run side by side.
    pub fn filter(&self) -> runtime::Filter {
        runtime::Filter { namespaces: vec![self.namespace.clone()], ..Default::default() }
    }

    pub async fn seen(&self, name: &str) -> Option<i64> {
        self.tasks.get(name).await.ok()?.status.map(|status| status.seen)
    }
}

/// Writes what was seen into the status.
pub async fn write_seen(task: &Task, context: &Context) -> Result<(), Failure> {
    let api: Api<Task> = Api::namespaced(context.client.clone(), &task.namespace().unwrap());
    let patch = Patch::Merge(json!({"status": {"seen": task.spec.value}}));
    api.patch_status(&task.name_any(), &PatchParams::default(), &patch).await?;
    Ok(())
}

pub type Outcome = Pin<Box<dyn Future<Output = Result<Next, Failure>> + Send>>;
type OnTask = Arc<dyn Fn(Arc<Task>, Context) -> Outcome + Send + Sync>;
type OnKey = Arc<dyn Fn(Key, String) + Send + Sync>;

/// A reconciler made of closures.
#[derive(Clone)]
pub struct Closure {
    task: OnTask,
    gone: OnKey,
    unreadable: OnKey,
}

impl Closure {
    pub fn new<F>(task: impl Fn(Arc<Task>, Context) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<Next, Failure>> + Send + 'static,
    {
        let nothing: OnKey = Arc::new(|_, _| {});
        let task: OnTask = Arc::new(move |object, context| Box::pin(task(object, context)));
        Closure { task, gone: nothing.clone(), unreadable: nothing }
    }

    pub fn gone(mut self, gone: impl Fn(Key, String) + Send + Sync + 'static) -> Self {
        self.gone = Arc::new(gone);
        self
    }

    pub fn unreadable(mut self, unreadable: impl Fn(Key, String) + Send + Sync + 'static) -> Self {
        self.unreadable = Arc::new(unreadable);
        self
    }
}

impl Reconciler for Closure {
    type Object = Task;

    async fn reconcile(&self, object: Arc<Task>, context: &Context) -> Result<Next, Failure> {
        (self.task)(object, context.clone()).await
    }

    async fn gone(&self, key: &Key, _: &Context) -> Result<Next, Failure> {
        (self.gone)(key.clone(), String::new());
        Ok(Next::Wait)
    }

    async fn unreadable(&self, key: &Key, why: &str, _: &Context) -> Result<Next, Failure> {
        (self.unreadable)(key.clone(), why.to_owned());
        Ok(Next::Wait)
    }
}

/// A manager that runs, on a runtime of its own so that it can be killed with everything in it.
pub struct Running {
    pub handle: Handle,
    pub metrics: Metrics,
    stop: CancellationToken,
    ended: Mutex<std::sync::mpsc::Receiver<()>>,
    runtime: Option<tokio::runtime::Runtime>,
}

impl Running {
    /// Runs the one reconciler `name`; `client` is made inside, because its tasks must die with it.
    pub fn start<F>(
        client: F,
        name: &str,
        options: Options,
        build: impl Fn() -> Controller<Closure> + Send + Sync + 'static,
    ) -> Running
    where
        F: Future<Output = Client> + Send + 'static,
    {
        let mut registry = Registry::new();
        registry.register(name, move |_| Ok(build())).crd();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let (metrics, stop) = (Metrics::new(), CancellationToken::new());
        let (sender, handle) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel();
        runtime.spawn({
            let (metrics, stop) = (metrics.clone(), stop.clone());
            async move {
                let manager = Manager::new(client.await, registry, options).unwrap().metrics(metrics);
                sender.send(manager.handle()).unwrap();
                manager.run(stop).await.unwrap();
                let _ = end.send(());
            }
        });
        let handle = tokio::task::block_in_place(|| handle.recv_timeout(PATIENCE).unwrap());
        Running { handle, metrics, stop, ended: Mutex::new(ended), runtime: Some(runtime) }
    }

    /// Stops in good order.
    pub fn stop(mut self) {
        self.stop.cancel();
        tokio::task::block_in_place(|| {
            self.ended.get_mut().unwrap().recv_timeout(PATIENCE).expect("the manager did not stop");
            if let Some(runtime) = self.runtime.take() {
                runtime.shutdown_timeout(Duration::from_secs(2));
            }
        });
    }

    /// Ends everything at once, as kill -9 would.
    pub fn kill(mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }

    pub fn figure(&self, name: &str) -> f64 {
        let text = self.metrics.encode().unwrap();
        text.lines()
            .find_map(|line| line.strip_prefix(name)?.rsplit_once(' ')?.1.parse().ok())
            .unwrap_or_else(|| panic!("no {name} in\n{text}"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

static LOG: Mutex<Vec<u8>> = Mutex::new(Vec::new());

struct Log;

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        LOG.lock().unwrap().extend_from_slice(bytes);
        if std::env::var_os("MUSTER_TEST_SHOW").is_some() {
            eprint!("{}", String::from_utf8_lossy(bytes));
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

pub fn keep_the_log() {
    let words = std::env::var("RUST_LOG").unwrap_or_else(|_| "info,kube=off".to_owned());
    let filter = tracing_subscriber::EnvFilter::new(words);
    tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false).with_writer(|| Log).init();
}

/// Lines of the log with all these words.
pub fn logged(words: &[&str]) -> Vec<String> {
    let log = String::from_utf8_lossy(&LOG.lock().unwrap()).into_owned();
    log.lines().filter(|line| words.iter().all(|word| line.contains(word))).map(str::to_owned).collect()
}
