//! A kube-rs program: typed API, derived CRD, watcher and reflector, controller, server-side apply. The same steps on kube-apiserver and on us.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, unused_crate_dependencies)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::controller::Action;
use kube::runtime::wait::{await_condition, conditions};
use kube::runtime::{Controller, WatchStreamExt, finalizer, reflector, watcher};
use kube::{Api, Client, Config, CustomResource, CustomResourceExt, Resource, ResourceExt};
use muster_tests::Peer;
use muster_tests::runner::{arguments, chosen_peers, install_panic_hook};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(CustomResource, Deserialize, Serialize, Clone, Debug, JsonSchema)]
#[kube(
    group = "kube.muster.dev",
    version = "v1",
    kind = "Document",
    namespaced,
    status = "DocumentStatus",
    shortname = "doc"
)]
struct DocumentSpec {
    title: String,
    #[schemars(range(min = 1, max = 5))]
    copies: Option<i32>,
}

#[derive(Deserialize, Serialize, Clone, Debug, Default, JsonSchema)]
struct DocumentStatus {
    printed: i32,
}

type Outcome = Result<(), Box<dyn std::error::Error>>;

fn main() {
    install_panic_hook();
    let wanted = arguments();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut failed = 0;
    for kind in chosen_peers() {
        runtime.block_on(async {
            let peer = Peer::start(kind).await.unwrap();
            let client = client(&peer).await;
            let mut report = |name: &str, outcome: Outcome| {
                println!("test kube {name} on {} ... {}", kind.name(), if outcome.is_ok() { "ok" } else { "FAILED" });
                if let Err(error) = outcome {
                    println!("    {error}");
                    failed += 1;
                }
            };
            if wanted.wants("typed") {
                report("typed", typed(&client).await);
            }
            if wanted.wants("custom") {
                report("custom", custom(&client).await);
            }
            if wanted.wants("reflect") {
                report("reflect", reflect(&client).await);
            }
            if wanted.wants("control") {
                report("control", control(&client).await);
            }
        });
    }
    println!("\ntest result: {}. {failed} failed", if failed == 0 { "ok" } else { "FAILED" });
    if failed > 0 {
        std::process::exit(1);
    }
}

async fn client(peer: &Peer) -> Client {
    let kubeconfig = Kubeconfig::read_from(peer.kubeconfig()).unwrap();
    Client::try_from(Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap()).unwrap()
}

fn expect(ok: bool, what: impl Into<String>) -> Outcome {
    if ok { Ok(()) } else { Err(what.into().into()) }
}

async fn namespace(client: &Client, name: &str) -> Outcome {
    let made = Namespace {
        metadata: kube::core::ObjectMeta { name: Some(name.into()), ..Default::default() },
        ..Default::default()
    };
    Api::<Namespace>::all(client.clone()).create(&PostParams::default(), &made).await?;
    Ok(())
}

/// Create, conflict, patch, scale, status, delete.
async fn typed(client: &Client) -> Outcome {
    namespace(client, "kube-typed").await?;
    let api: Api<Deployment> = Api::namespaced(client.clone(), "kube-typed");
    let made: Deployment = serde_json::from_value(json!({"metadata": {"name": "web"}, "spec": {
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}}}}))?;
    let made = api.create(&PostParams::default(), &made).await?;
    expect(made.spec.as_ref().and_then(|s| s.replicas) == Some(1), "replicas were not defaulted")?;
    let applied = json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 3}});
    let after = api.patch("web", &PatchParams::apply("kube").force(), &Patch::Apply(applied)).await?;
    expect(after.spec.and_then(|s| s.replicas) == Some(3), "apply did not set the replicas")?;
    expect(
        after.metadata.managed_fields.is_some_and(|m| m.iter().any(|e| e.manager.as_deref() == Some("kube"))),
        "no owner",
    )?;
    match api.replace("web", &PostParams::default(), &made).await {
        Err(kube::Error::Api(status)) if status.code == 409 => {}
        other => return Err(format!("a stale replace gave {other:?}").into()),
    }
    let scale = api.get_scale("web").await?;
    expect(scale.spec.and_then(|s| s.replicas) == Some(3), "scale does not agree")?;
    api.patch_status(
        "web",
        &PatchParams::default(),
        &Patch::Merge(json!({"status": {"replicas": 3, "readyReplicas": 2}})),
    )
    .await?;
    expect(api.get_status("web").await?.status.and_then(|s| s.ready_replicas) == Some(2), "status was not kept")?;
    let metadata = api.get_metadata("web").await?;
    expect(metadata.name_any() == "web", "metadata only")?;
    api.delete("web", &DeleteParams::background()).await?;
    expect(api.get_opt("web").await?.is_none(), "it is still there")
}

async fn custom(client: &Client) -> Outcome {
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    let apply = PatchParams::apply("kube").force();
    crds.patch("documents.kube.muster.dev", &apply, &Patch::Apply(Document::crd())).await?;
    let established = await_condition(crds.clone(), "documents.kube.muster.dev", conditions::is_crd_established());
    tokio::time::timeout(Duration::from_secs(60), established).await??;
    let api: Api<Document> = Api::namespaced(client.clone(), "default");
    let spec = |copies| DocumentSpec { title: "t".into(), copies: Some(copies) };
    for attempt in 0.. {
        // A server may need a moment between Established and the first request.
        match api.create(&PostParams::default(), &Document::new("one", spec(2))).await {
            Err(kube::Error::Api(status)) if status.code == 404 && attempt < 600 => {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            other => {
                other?;
                break;
            }
        }
    }
    match api.create(&PostParams::default(), &Document::new("two", spec(9))).await {
        Err(kube::Error::Api(status))
            if status.code == 422 && status.message.contains("should be less than or equal to 5") => {}
        other => return Err(format!("nine copies gave {other:?}").into()),
    }
    let status = json!({"status": {"printed": 1}});
    let after = api.patch_status("one", &PatchParams::default(), &Patch::Merge(status)).await?;
    expect(after.status.is_some_and(|s| s.printed == 1) && after.metadata.generation == Some(1), "status or generation")
}

async fn reflect(client: &Client) -> Outcome {
    namespace(client, "kube-reflect").await?;
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), "kube-reflect");
    for config in [watcher::Config::default(), watcher::Config::default().streaming_lists()] {
        api.delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
        let (store, writer) = reflector::store();
        let stream = reflector(writer, watcher(api.clone(), config)).applied_objects();
        let following = tokio::spawn(async move { stream.try_for_each(|_| async { Ok(()) }).await });
        for n in 0..20 {
            let map = ConfigMap {
                metadata: kube::core::ObjectMeta { name: Some(format!("m-{n}")), ..Default::default() },
                ..Default::default()
            };
            api.create(&PostParams::default(), &map).await?;
        }
        tokio::time::timeout(Duration::from_secs(60), store.wait_until_ready()).await??;
        for _ in 0..1200 {
            if store.len() == 20 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        following.abort();
        expect(store.len() == 20, format!("the reflector holds {} of 20", store.len()))?;
    }
    Ok(())
}

/// A controller with a finalizer sees an object come, change and go.
async fn control(client: &Client) -> Outcome {
    const FINALIZER: &str = "kube.muster.dev/seen";
    #[derive(Default)]
    struct Seen {
        applied: AtomicUsize,
        cleaned: AtomicUsize,
    }
    namespace(client, "kube-control").await?;
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), "kube-control");
    let seen = Arc::new(Seen::default());
    let reconcile = {
        let api = api.clone();
        move |object: Arc<ConfigMap>, seen: Arc<Seen>| {
            let api = api.clone();
            async move {
                finalizer(&api, FINALIZER, object, |event| async move {
                    match event {
                        finalizer::Event::Apply(_) => seen.applied.fetch_add(1, SeqCst),
                        finalizer::Event::Cleanup(_) => seen.cleaned.fetch_add(1, SeqCst),
                    };
                    Ok::<_, kube::Error>(Action::await_change())
                })
                .await
                .map_err(Box::new)
            }
        }
    };
    let running = tokio::spawn(
        Controller::new(api.clone(), watcher::Config::default())
            .run(reconcile, |_, _, _| Action::requeue(Duration::from_millis(200)), seen.clone())
            .for_each(|_| async {}),
    );
    let map = ConfigMap {
        metadata: kube::core::ObjectMeta { name: Some("m".into()), ..Default::default() },
        ..Default::default()
    };
    api.create(&PostParams::default(), &map).await?;
    let wait = async |what: &str, counter: &AtomicUsize| {
        for _ in 0..1200 {
            if counter.load(SeqCst) > 0 {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Err(format!("{what} did not happen"))
    };
    wait("the first reconcile", &seen.applied).await?;
    expect(api.get("m").await?.meta().finalizers.as_deref() == Some(&[FINALIZER.to_owned()]), "no finalizer")?;
    api.delete("m", &DeleteParams::default()).await?;
    wait("the clean-up", &seen.cleaned).await?;
    for _ in 0..1200 {
        if api.get_opt("m").await?.is_none() {
            running.abort();
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Err("the object never went".into())
}
