//! Failures on demand, and recovery when they are taken away.

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use serde_json::{Value, json};
use simulator::FAIL;

use crate::world::{World, deployment, template, world, world_of};

async fn pod(world: &World, name: &str, failure: Option<&str>) {
    let mut pod = template(name, "shop:1");
    pod["metadata"]["name"] = name.into();
    if let Some(failure) = failure {
        pod["metadata"]["annotations"] = json!({FAIL: failure});
    }
    world.create::<Pod>(pod).await;
}

fn waiting(reason: &'static str) -> impl Fn(&Value) -> bool {
    move |pod| pod["status"]["containerStatuses"][0]["state"]["waiting"]["reason"] == reason
}

fn ready(pod: &Value) -> bool {
    pod["status"]["containerStatuses"][0]["ready"] == true
}

#[tokio::test(start_paused = true)]
async fn an_image_that_cannot_be_pulled() {
    let world = world().await;
    pod(&world, "p", Some("image-pull")).await;
    world.until::<Pod>("p", waiting("ErrImagePull")).await;
    world.until::<Pod>("p", waiting("ImagePullBackOff")).await;
    let reasons = world.reasons("p").await;
    assert!(reasons.contains(&"Failed".to_owned()) && reasons.contains(&"BackOff".to_owned()), "{reasons:?}");
    world.patch::<Pod>("p", json!({"metadata": {"annotations": {FAIL: null}}})).await;
    world.until::<Pod>("p", ready).await;
    world.member.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_crash_loop_counts_its_restarts() {
    let world = world().await;
    pod(&world, "p", Some("crash-loop")).await;
    let looped = world
        .until::<Pod>("p", |p| {
            waiting("CrashLoopBackOff")(p) && p["status"]["containerStatuses"][0]["restartCount"].as_i64() >= Some(3)
        })
        .await;
    assert_eq!(looped["status"]["containerStatuses"][0]["lastState"]["terminated"]["exitCode"], 1);
    world.patch::<Pod>("p", json!({"metadata": {"annotations": {FAIL: null}}})).await;
    let well = world.until::<Pod>("p", ready).await;
    assert!(well["status"]["containerStatuses"][0]["restartCount"].as_i64() >= Some(3), "the past is kept");
    world.member.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_never_ready_and_one_that_stops_being_so() {
    let world = world().await;
    pod(&world, "p", Some("not-ready")).await;
    world.until::<Pod>("p", |p| p["status"]["phase"] == "Running").await;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let still = world.until::<Pod>("p", |_| true).await;
    assert!(!ready(&still));
    world.patch::<Pod>("p", json!({"metadata": {"annotations": {FAIL: null}}})).await;
    world.until::<Pod>("p", ready).await;
    world.patch::<Pod>("p", json!({"metadata": {"annotations": {FAIL: "not-ready"}}})).await;
    world.until::<Pod>("p", |p| !ready(p)).await;
    assert!(world.reasons("p").await.contains(&"Unhealthy".to_owned()));
    world.member.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_lost_node_is_left_by_its_pods() {
    let world = world().await;
    world.create::<Deployment>(deployment("shop", 3)).await;
    world.until_ready("app=shop", 3).await;
    world.member.lose_node("node-1", true).await.unwrap();
    let nodes: Api<Node> = Api::all(world.client.clone());
    tokio::time::sleep(Duration::from_secs(10)).await;
    let node = serde_json::to_value(nodes.get("node-1").await.unwrap()).unwrap();
    let state =
        node["status"]["conditions"].as_array().unwrap().iter().find(|c| c["type"] == "Ready").unwrap()["status"]
            .clone();
    assert_eq!(state, "Unknown");
    assert_eq!(world.pods("app=shop").await.len(), 3, "nobody is evicted yet");
    tokio::time::sleep(Duration::from_secs(320)).await;
    let pods = world.pods("app=shop").await;
    let (gone, well): (Vec<_>, Vec<_>) = pods.iter().partition(|p| p.metadata.deletion_timestamp.is_some());
    assert_eq!((gone.len(), well.len()), (1, 3), "the one on the lost node cannot end: nobody is there to end it");
    world.member.lose_node("node-1", false).await.unwrap();
    let pods = world.until_ready("app=shop", 3).await;
    assert!(pods.iter().all(|p| p.metadata.deletion_timestamp.is_none()));
    world.member.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_without_room_waits_for_some() {
    let world =
        world_of(|settings| settings.nodes[0] = simulator::NodePool { count: 1, pods: 2, ..Default::default() }).await;
    for name in ["a", "b", "c"] {
        pod(&world, name, None).await;
    }
    let refused = |p: &Value| {
        p["status"]["conditions"].as_array().is_some_and(|all| all.iter().any(|c| c["reason"] == "Unschedulable"))
    };
    let waits = world.until::<Pod>("c", refused).await;
    assert_eq!(waits["status"]["phase"], "Pending");
    assert!(world.reasons("c").await.contains(&"FailedScheduling".to_owned()));
    world.all::<Pod>().delete("a", &Default::default()).await.unwrap();
    world.until::<Pod>("c", ready).await;
    world.member.stop().await;
}
