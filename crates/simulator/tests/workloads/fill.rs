//! A member that is not empty from the start.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::ListParams;
use serde_json::json;

use crate::world::world_of;

#[tokio::test(start_paused = true)]
async fn events_are_kept_as_long_as_the_settings_say() {
    let world = world_of(|settings| settings.events = Some(Duration::from_secs(600))).await;
    world
        .create::<Pod>(json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}))
        .await;
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert!(world.reasons("p").await.contains(&"Started".to_owned()));
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(world.reasons("p").await, [""; 0]);
    world.member.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_member_is_filled_with_as_many_pods_as_asked_for() {
    let world = world_of(|settings| settings.events = None).await;
    world.member.fill(123).await.unwrap();
    let pods: Api<Pod> = Api::all(world.client.clone());
    let of = async |labels: &str| {
        let list = pods.list(&ListParams::default().labels(labels)).await.unwrap();
        list.items.iter().filter(|pod| pod.status.as_ref().unwrap().phase.as_deref() == Some("Running")).count()
    };
    tokio::time::timeout(Duration::from_secs(120), async {
        while of("app.kubernetes.io/part-of=fleet").await < 123 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    })
    .await
    .unwrap();
    assert_eq!((of("app=app-1").await, of("app=app-13").await, of("app=app-14").await), (10, 3, 0));
    assert!(world.member.fill(1).await.is_err(), "what is there is not touched");
    world.member.stop().await;
}
