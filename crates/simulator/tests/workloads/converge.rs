//! The law of the simulation: whatever is done to workloads, in the end there is what they ask for.

use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use kube::api::DeleteParams;
use proptest::prelude::*;
use serde_json::json;
use simulator::FAIL;

use crate::world::{World, deployment, template, world};

#[derive(Clone, Debug)]
enum Act {
    Scale(u8, i64),
    Update(u8, u8),
    Fail(u8, &'static str),
    KillPod(u8, usize),
    Delete(u8),
    LoseNode(usize),
    Wait(u64),
}

fn act() -> impl Strategy<Value = Act> {
    let which = 0u8..2;
    prop_oneof![
        (which.clone(), 0i64..6).prop_map(|(w, n)| Act::Scale(w, n)),
        (which.clone(), 0u8..4).prop_map(|(w, n)| Act::Update(w, n)),
        (which.clone(), prop::sample::select(vec!["image-pull", "crash-loop", "not-ready", "nothing"]))
            .prop_map(|(w, f)| Act::Fail(w, f)),
        (which.clone(), 0usize..6).prop_map(|(w, n)| Act::KillPod(w, n)),
        which.prop_map(Act::Delete),
        (1usize..4).prop_map(Act::LoseNode),
        (0u64..90).prop_map(Act::Wait),
    ]
}

fn name(which: u8) -> &'static str {
    if which == 0 { "web" } else { "db" }
}

async fn make(world: &World, which: u8) {
    if which == 0 {
        world.create::<Deployment>(deployment("web", 3)).await;
    } else {
        let set = json!({"metadata": {"name": "db"}, "spec": {"replicas": 2, "serviceName": "db", "selector": {"matchLabels": {"app": "db"}}, "template": template("db", "db:1")}});
        world.create::<StatefulSet>(set).await;
    }
}

async fn patch(world: &World, which: u8, patch: serde_json::Value) {
    if which == 0 {
        world.patch::<Deployment>("web", patch).await;
    } else {
        world.patch::<StatefulSet>("db", patch).await;
    }
}

async fn perform(world: &World, act: &Act) {
    match act {
        Act::Scale(which, n) => patch(world, *which, json!({"spec": {"replicas": n}})).await,
        Act::Update(which, n) => {
            let containers = json!([{"name": "web", "image": format!("image:{n}")}]);
            patch(world, *which, json!({"spec": {"template": {"spec": {"containers": containers}}}})).await;
        }
        Act::Fail(which, failure) => {
            patch(world, *which, json!({"spec": {"template": {"metadata": {"annotations": {FAIL: failure}}}}})).await;
        }
        Act::KillPod(which, n) => {
            if let Some(pod) = world.pods(&format!("app={}", name(*which))).await.get(*n) {
                let pods = world.all::<k8s_openapi::api::core::v1::Pod>();
                let _ = pods.delete(pod.metadata.name.as_deref().unwrap(), &DeleteParams::default()).await;
            }
        }
        Act::Delete(which) => {
            if *which == 0 {
                world.all::<Deployment>().delete("web", &DeleteParams::default()).await.unwrap();
            } else {
                world.all::<StatefulSet>().delete("db", &DeleteParams::default()).await.unwrap();
            }
            make(world, *which).await;
        }
        Act::LoseNode(n) => {
            for other in 1..=3 {
                world.member.lose_node(&format!("node-{other}"), other == *n).await.unwrap();
            }
        }
        Act::Wait(seconds) => tokio::time::sleep(Duration::from_secs(*seconds)).await,
    }
}

/// All that was done is undone but the wishes: they must come true.
async fn settles(world: &World) {
    for node in 1..=3 {
        world.member.lose_node(&format!("node-{node}"), false).await.unwrap();
    }
    for which in 0..2 {
        patch(world, which, json!({"spec": {"template": {"metadata": {"annotations": {FAIL: null}}}}})).await;
    }
    for which in 0..2u8 {
        let (wanted, image) = if which == 0 {
            let d = serde_json::to_value(world.all::<Deployment>().get("web").await.unwrap()).unwrap();
            (d["spec"]["replicas"].as_u64(), d["spec"]["template"]["spec"]["containers"][0]["image"].clone())
        } else {
            let s = serde_json::to_value(world.all::<StatefulSet>().get("db").await.unwrap()).unwrap();
            (s["spec"]["replicas"].as_u64(), s["spec"]["template"]["spec"]["containers"][0]["image"].clone())
        };
        let wanted = usize::try_from(wanted.unwrap()).unwrap();
        let labels = format!("app={}", name(which));
        let mut settled = 0;
        for _ in 0..50_000 {
            let pods = world.pods(&labels).await;
            let right = |p: &k8s_openapi::api::core::v1::Pod| {
                crate::world::is_ready(p) && p.spec.as_ref().unwrap().containers[0].image.as_deref() == image.as_str()
            };
            settled = if pods.len() == wanted && pods.iter().all(right) { settled + 1 } else { 0 };
            // It also stays so.
            if settled > 20 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        assert!(settled > 20, "{labels} did not settle at {wanted} pods of {image}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 60, ..ProptestConfig::default() })]
    #[test]
    fn whatever_is_done_there_is_in_the_end_what_is_asked_for(acts in prop::collection::vec(act(), 1..10)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let world = world().await;
            make(&world, 0).await;
            make(&world, 1).await;
            for act in &acts {
                perform(&world, act).await;
            }
            settles(&world).await;
            world.member.stop().await;
        });
    }
}
