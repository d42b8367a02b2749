//! Actions as sub-paths. // KC-8
use gateway::{Action, Actions, Options, Plan, Problem};
use muster_tests::runner::Case;
use muster_tests::{Peer, cases};
use muster_tests_gateway::{Face, define_things, deployment, generous, refused};
use serde_json::json;

pub fn all() -> Vec<Case> {
    cases![actions: workloads_scale_restart_pause_and_resume, kinds_with_phases_are_told_by_annotation, a_kind_may_have_actions_of_its_own, an_unknown_action_names_the_known_ones]
}

async fn workloads_scale_restart_pause_and_resume(peer: &Peer) {
    let (face, ns) = (Face::start(peer).await, peer.namespace().await);
    let place = format!("/apiext/v1/apps/v1/namespaces/{ns}/deployments");
    face.post(&place, deployment("web", 1)).await.ok(201);
    let act = async |action: &str, body| face.post(&format!("{place}/web/{action}"), body).await;
    assert_eq!(act("scale", json!({"replicas": 4})).await.ok(200)["spec"]["replicas"], 4);
    assert_eq!(face.get(&format!("{place}?filter=spec.replicas+eq+4")).await.ok(200)["count"], 1);
    let restarted = act("restart", json!({})).await.ok(200);
    assert!(restarted["spec"]["template"]["metadata"]["annotations"]["kubectl.kubernetes.io/restartedAt"].is_string());
    let paused = act("pause", json!({})).await.ok(200);
    assert_eq!(paused["spec"]["paused"], true);
    assert_eq!(
        act("pause", json!({})).await.ok(200)["resourceVersion"],
        paused["resourceVersion"],
        "asking twice changes nothing"
    );
    refused(&act("restart", json!({})).await, 409);
    assert!(act("resume", json!({})).await.ok(200)["spec"].get("paused").is_none_or(|paused| paused == false));
    refused(&act("scale", json!({"replicas": -1})).await, 400);
    refused(&act("scale", json!({})).await, 400);
    // No body is an empty one.
    face.call("POST", &format!("{place}/web/restart")).send().await.ok(200);
    refused(&face.post(&format!("{place}/gone/restart"), json!({})).await, 404);
}

async fn kinds_with_phases_are_told_by_annotation(peer: &Peer) {
    let (face, ns) = (Face::start(peer).await, peer.namespace().await);
    define_things(peer, "phases.example.com").await;
    let place = format!("/apiext/v1/phases.example.com/v1/namespaces/{ns}/things");
    face.post(&place, json!({"name": "t", "spec": {"size": 1}})).await.ok(201);
    let act =
        async |action: &str| face.post(&format!("{place}/t/{action}"), json!({})).await.ok(200)["annotations"].clone();
    assert_eq!(act("pause").await, json!({"muster.dev/pause": "true"}));
    assert_eq!(act("resume").await, json!({}));
    assert_eq!(act("cancel").await, json!({"muster.dev/cancel": "true"}));
    let again = act("retry").await;
    assert!(again["muster.dev/retry"].is_string() && again.get("muster.dev/cancel").is_none(), "{again}");
}

async fn a_kind_may_have_actions_of_its_own(peer: &Peer) {
    let ns = peer.namespace().await;
    let grow = Action::new(
        "touch",
        "Notes the time.",
        |kind| kind.plural == "configmaps",
        |input| match input.object["data"]["n"].as_str() {
            Some("9") => Err(Problem::new(409, "Conflict", "it is full")),
            _ => Ok(Plan::Patch(json!({"data": {"n": "9", "by": input.body["by"]}}))),
        },
    )
    .with_input(json!({"type": "object", "properties": {"by": {"type": "string"}}}));
    let options = Options { limits: generous(), ..Options::new(([127, 0, 0, 1], 0).into()) };
    let face = Face::start_with(peer, options, Actions::default().with(grow)).await;
    let place = format!("/apiext/v1/core/v1/namespaces/{ns}/configmaps");
    face.post(&place, json!({"name": "c"})).await.ok(201);
    assert_eq!(
        face.post(&format!("{place}/c/touch"), json!({"by": "me"})).await.ok(200)["data"],
        json!({"n": "9", "by": "me"})
    );
    assert_eq!(refused(&face.post(&format!("{place}/c/touch"), json!({})).await, 409)["message"], "it is full");
    refused(&face.post(&format!("{place}/c/touch"), json!({"to": "me"})).await, 400);
}

async fn an_unknown_action_names_the_known_ones(peer: &Peer) {
    let (face, ns) = (Face::start(peer).await, peer.namespace().await);
    let place = format!("/apiext/v1/apps/v1/namespaces/{ns}/deployments");
    face.post(&place, deployment("web", 1)).await.ok(201);
    let problem = refused(&face.post(&format!("{place}/web/explode"), json!({})).await, 404);
    assert_eq!(problem["details"]["actions"], json!(["pause", "restart", "resume", "scale"]));
    refused(&face.get(&format!("{place}/web/restart")).await, 405);
}
