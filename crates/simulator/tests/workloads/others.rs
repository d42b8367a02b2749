//! StatefulSets, DaemonSets, Jobs and CronJobs.

use std::time::Duration;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{Node, PersistentVolumeClaim, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Api;
use kube::api::{EvictParams, ListParams};
use serde_json::{Value, json};
use simulator::{EXIT_CODE, FAIL, RUN_FOR};

use crate::world::{deployment, template, world};

fn names(pods: &[k8s_openapi::api::core::v1::Pod]) -> Vec<String> {
    pods.iter().filter_map(|p| p.metadata.name.clone()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_stateful_set_goes_one_by_one() {
    let world = world().await;
    let set = json!({"metadata": {"name": "db"}, "spec": {"replicas": 3, "serviceName": "db", "selector": {"matchLabels": {"app": "db"}},
        "template": template("db", "db:1"), "volumeClaimTemplates": [{"metadata": {"name": "data"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}]}});
    world.create::<StatefulSet>(set).await;
    loop {
        let pods = world.pods("app=db").await;
        let unready = pods.iter().filter(|p| !crate::world::is_ready(p)).count();
        assert!(unready <= 1, "one at a time");
        if pods.len() == 3 && unready == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(names(&world.pods("app=db").await), ["db-0", "db-1", "db-2"]);
    let claims = world.all::<PersistentVolumeClaim>().list(&ListParams::default()).await.unwrap().items;
    assert_eq!(claims.len(), 3);
    world
        .patch::<StatefulSet>(
            "db",
            json!({"spec": {"template": {"spec": {"containers": [{"name": "web", "image": "db:2"}]}}}}),
        )
        .await;
    let done = |s: &Value| {
        s["status"]["observedGeneration"] == s["metadata"]["generation"]
            && s["status"]["updatedReplicas"] == 3
            && s["status"]["readyReplicas"] == 3
            && s["status"]["currentRevision"] == s["status"]["updateRevision"]
    };
    world.until::<StatefulSet>("db", done).await;
    assert!(
        world
            .pods("app=db")
            .await
            .iter()
            .all(|p| p.spec.as_ref().unwrap().containers[0].image.as_deref() == Some("db:2"))
    );
    world.patch::<StatefulSet>("db", json!({"spec": {"replicas": 1}})).await;
    world.until_ready("app=db", 1).await;
    assert_eq!(names(&world.pods("app=db").await), ["db-0"]);
    world.member.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_daemon_set_is_on_every_node() {
    let world = world().await;
    let set = json!({"metadata": {"name": "agent"}, "spec": {"selector": {"matchLabels": {"app": "agent"}}, "template": template("agent", "agent:1")}});
    world.create::<DaemonSet>(set).await;
    let pods = world.until_ready("app=agent", 3).await;
    let nodes: std::collections::BTreeSet<_> =
        pods.iter().map(|p| p.spec.as_ref().unwrap().node_name.clone()).collect();
    assert_eq!(nodes.len(), 3);
    world
        .patch::<DaemonSet>(
            "agent",
            json!({"spec": {"template": {"spec": {"containers": [{"name": "web", "image": "agent:2"}]}}}}),
        )
        .await;
    world
        .until::<DaemonSet>("agent", |s| {
            s["status"]["updatedNumberScheduled"] == 3 && s["status"]["numberAvailable"] == 3
        })
        .await;
    let few = json!({"spec": {"template": {"spec": {"nodeSelector": {"kubernetes.io/hostname": "node-2"}}}}});
    world.patch::<DaemonSet>("agent", few).await;
    world.until_ready("app=agent", 1).await;
    world.member.stop().await;
}

fn job(name: &str, annotations: Value, spec: Value) -> Value {
    let mut template = json!({"metadata": {"annotations": annotations}, "spec": {"restartPolicy": "Never", "containers": [{"name": "work", "image": "work:1"}]}});
    template["metadata"]["labels"] = json!({"app": name});
    let mut job = json!({"metadata": {"name": name}, "spec": spec});
    job["spec"]["template"] = template;
    job
}

#[tokio::test(start_paused = true)]
async fn a_job_ends_well_or_gives_up() {
    let world = world().await;
    world.create::<Job>(job("good", json!({RUN_FOR: "90s"}), json!({"completions": 3, "parallelism": 2}))).await;
    let done = world
        .until::<Job>("good", |j| j["status"]["succeeded"] == 3 && j["status"]["completionTime"].is_string())
        .await;
    assert!(
        done["status"]["conditions"]
            .as_array()
            .unwrap()
            .iter()
            .any(|c| c["type"] == "Complete" && c["status"] == "True")
    );
    world.create::<Job>(job("bad", json!({EXIT_CODE: "3"}), json!({"backoffLimit": 2}))).await;
    let failed = world
        .until::<Job>("bad", |j| {
            j["status"]["conditions"].as_array().is_some_and(|c| c.iter().any(|c| c["type"] == "Failed"))
        })
        .await;
    assert_eq!(failed["status"]["failed"], 3);
    assert!(world.reasons("bad").await.contains(&"BackoffLimitExceeded".to_owned()));
    world
        .create::<Job>(job(
            "crash",
            json!({FAIL: "crash-loop"}),
            json!({"backoffLimit": 0, "ttlSecondsAfterFinished": 30}),
        ))
        .await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert!(world.all::<Job>().get_opt("crash").await.unwrap().is_none(), "its time was up");
    world.member.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_cron_job_starts_jobs_and_keeps_few() {
    let world = world().await;
    let cron = json!({"metadata": {"name": "tick"}, "spec": {"schedule": "*/5 * * * *", "successfulJobsHistoryLimit": 2,
        "jobTemplate": {"spec": job("x", json!({}), json!({}))["spec"]}}});
    world.create::<CronJob>(cron).await;
    tokio::time::sleep(Duration::from_secs(5 * 60 + 30)).await;
    assert_eq!(world.all::<Job>().list(&ListParams::default()).await.unwrap().items.len(), 1);
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let jobs = world.all::<Job>().list(&ListParams::default()).await.unwrap().items;
    assert_eq!(jobs.len(), 2, "the limit");
    let cron = world.until::<CronJob>("tick", |_| true).await;
    assert_eq!(cron["status"]["lastScheduleTime"], "2026-03-01T01:05:00Z");
    world.member.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_budget_says_how_many_may_go() {
    let world = world().await;
    world.create::<Deployment>(deployment("shop", 3)).await;
    let budget = json!({"metadata": {"name": "shop"}, "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "shop"}}}});
    world.create::<PodDisruptionBudget>(budget).await;
    let pods = world.until_ready("app=shop", 3).await;
    world.until::<PodDisruptionBudget>("shop", |b| b["status"]["disruptionsAllowed"] == 1).await;
    let evict = async |pod: &Pod| {
        world.all::<Pod>().evict(pod.metadata.name.as_deref().unwrap(), &EvictParams::default()).await
    };
    evict(&pods[0]).await.unwrap();
    assert!(evict(&pods[1]).await.is_err(), "one at a time");
    world.until_ready("app=shop", 3).await;
    world.until::<PodDisruptionBudget>("shop", |b| b["status"]["disruptionsAllowed"] == 1).await;
    world.member.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_removed_takes_its_pods_along() {
    let world = world().await;
    world.create::<Deployment>(deployment("shop", 3)).await;
    world.until_ready("app=shop", 3).await;
    Api::<Node>::all(world.client.clone()).delete("node-1", &Default::default()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(10)).await;
    let pods = world.until_ready("app=shop", 3).await;
    assert!(pods.iter().all(|p| p.spec.as_ref().unwrap().node_name.as_deref() != Some("node-1")));
    world.member.stop().await;
}
