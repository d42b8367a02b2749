//! Deployments through their life.

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Endpoints;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{DeleteParams, ListParams};
use serde_json::{Value, json};

use crate::world::{deployment, world};

fn complete(replicas: i64) -> impl Fn(&Value) -> bool {
    move |d| {
        let status = &d["status"];
        status["observedGeneration"] == d["metadata"]["generation"]
            && status["updatedReplicas"].as_i64().unwrap_or_default() == replicas
            && status["availableReplicas"].as_i64().unwrap_or_default() == replicas
            && status["replicas"].as_i64().unwrap_or_default() == replicas
    }
}

#[tokio::test(start_paused = true)]
async fn a_deployment_comes_up_and_says_so() {
    let world = world().await;
    world.create::<Deployment>(deployment("shop", 3)).await;
    let done = world.until::<Deployment>("shop", complete(3)).await;
    let conditions = done["status"]["conditions"].as_array().unwrap();
    let reason = |kind: &str| conditions.iter().find(|c| c["type"] == kind).unwrap()["reason"].clone();
    assert_eq!(
        (reason("Available"), reason("Progressing")),
        (json!("MinimumReplicasAvailable"), json!("NewReplicaSetAvailable"))
    );
    assert_eq!(done["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "1");
    let pods = world.until_ready("app=shop", 3).await;
    let nodes: std::collections::BTreeSet<_> =
        pods.iter().map(|p| p.spec.as_ref().unwrap().node_name.clone().unwrap()).collect();
    assert_eq!(nodes.len(), 3, "spread over the nodes");
    let reasons = world.reasons(pods[0].metadata.name.as_deref().unwrap()).await;
    for wanted in ["Scheduled", "Pulling", "Pulled", "Created", "Started"] {
        assert!(reasons.iter().any(|r| r == wanted), "{wanted} is missing in {reasons:?}");
    }
    assert_eq!(world.reasons("shop").await, ["ScalingReplicaSet"]);
    world.member.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_update_rolls_and_can_be_undone() {
    let world = world().await;
    world.create::<Deployment>(deployment("shop", 4)).await;
    let first = world.until::<Deployment>("shop", complete(4)).await;
    let image =
        |image: &str| json!({"spec": {"template": {"spec": {"containers": [{"name": "web", "image": image}]}}}});
    world.patch::<Deployment>("shop", image("shop:2")).await;
    let done = world.until::<Deployment>("shop", |d| complete(4)(d)).await;
    assert_eq!(done["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "2");
    let pods = world.until_ready("app=shop", 4).await;
    assert!(pods.iter().all(|p| p.spec.as_ref().unwrap().containers[0].image.as_deref() == Some("shop:2")));
    // What `kubectl rollout undo` does: the old template comes back.
    let undo = json!({"spec": {"template": first["spec"]["template"]}});
    world.patch::<Deployment>("shop", undo).await;
    let done = world
        .until::<Deployment>("shop", |d| {
            complete(4)(d) && d["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "3"
        })
        .await;
    assert_eq!(done["spec"]["template"]["spec"]["containers"][0]["image"], "shop:1");
    let sets = world.all::<ReplicaSet>().list(&ListParams::default()).await.unwrap().items;
    assert_eq!(sets.len(), 2, "the old set was used again");
    world.member.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_rollout_that_cannot_go_on_is_told_and_keeps_the_old_pods() {
    let world = world().await;
    let mut wanted = deployment("shop", 2);
    wanted["spec"]["progressDeadlineSeconds"] = 60.into();
    world.create::<Deployment>(wanted).await;
    world.until::<Deployment>("shop", complete(2)).await;
    let broken = json!({"spec": {"template": {"metadata": {"annotations": {simulator::FAIL: "image-pull"}}}}});
    world.patch::<Deployment>("shop", broken).await;
    let told = |d: &Value| {
        d["status"]["conditions"]
            .as_array()
            .unwrap()
            .iter()
            .any(|c| c["reason"] == "ProgressDeadlineExceeded" && c["status"] == "False")
    };
    let stuck = world.until::<Deployment>("shop", told).await;
    assert_eq!(stuck["status"]["availableReplicas"], 2);
    let mend = json!({"spec": {"template": {"metadata": {"annotations": {simulator::FAIL: null}}}}});
    world.patch::<Deployment>("shop", mend).await;
    world.until::<Deployment>("shop", complete(2)).await;
    world.member.stop().await;
}

#[tokio::test(start_paused = true)]
async fn recreate_never_runs_old_and_new_together() {
    let world = world().await;
    let mut wanted = deployment("shop", 3);
    wanted["spec"]["strategy"] = json!({"type": "Recreate"});
    world.create::<Deployment>(wanted).await;
    world.until::<Deployment>("shop", complete(3)).await;
    world
        .patch::<Deployment>(
            "shop",
            json!({"spec": {"template": {"spec": {"containers": [{"name": "web", "image": "shop:2"}]}}}}),
        )
        .await;
    loop {
        let pods = world.pods("app=shop").await;
        let images: std::collections::BTreeSet<_> =
            pods.iter().map(|p| p.spec.as_ref().unwrap().containers[0].image.clone()).collect();
        assert!(images.len() < 2, "old and new at once");
        let status = serde_json::to_value(world.all::<Deployment>().get("shop").await.unwrap()).unwrap();
        if complete(3)(&status) && images.iter().flatten().all(|image| image == "shop:2") {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    world.member.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_service_knows_who_is_behind_it() {
    let world = world().await;
    world.create::<Deployment>(deployment("shop", 2)).await;
    let service = json!({"metadata": {"name": "shop"}, "spec": {"selector": {"app": "shop"}, "ports": [{"name": "web", "port": 80, "targetPort": "http"}]}});
    world.create::<Service>(service).await;
    world.until_ready("app=shop", 2).await;
    let behind =
        |count: usize| move |e: &Value| e["subsets"][0]["addresses"].as_array().is_some_and(|a| a.len() == count);
    let found = world.until::<Endpoints>("shop", behind(2)).await;
    assert_eq!(found["subsets"][0]["ports"][0]["port"], 8080);
    let slices = world
        .all::<EndpointSlice>()
        .list(&ListParams::default().labels("kubernetes.io/service-name=shop"))
        .await
        .unwrap();
    assert_eq!(slices.items[0].endpoints.len(), 2);
    world.patch::<Deployment>("shop", json!({"spec": {"replicas": 1}})).await;
    world.until::<Endpoints>("shop", behind(1)).await;
    world.all::<Service>().delete("shop", &DeleteParams::default()).await.unwrap();
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    assert!(world.all::<Endpoints>().get_opt("shop").await.unwrap().is_none());
    world.member.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_is_deleted_takes_its_pods_along() {
    let world = world().await;
    world.create::<Deployment>(deployment("shop", 2)).await;
    world.until_ready("app=shop", 2).await;
    world.all::<Deployment>().delete("shop", &DeleteParams::default()).await.unwrap();
    world.until_ready("app=shop", 0).await;
    assert!(world.all::<ReplicaSet>().list(&ListParams::default()).await.unwrap().items.is_empty());
    world.member.stop().await;
}
