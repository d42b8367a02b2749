//! `At`: once, at its time, whatever happens to the manager.

use k8s_openapi::{api::core::v1::Pod, jiff::Timestamp};
use kube::{
    ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use muster_tests::{Peer, cases, runner::Case};
use reconcilers::at::{At, AtPhase, AtSpec, AtStatus, Outcome, Runner};
use serde_json::{Value, json};

use crate::stage::{Stage, until};

pub fn cases() -> Vec<Case> {
    cases![
        ats: a_process_runs_once_at_its_time_over_restarts,
        a_claim_of_somebody_who_is_no_more_is_reported_and_not_run_again,
        a_process_is_not_run_unless_the_configuration_allows_it,
        a_mistake_is_told_and_mended,
        a_pod_is_made_once_and_followed_to_its_end,
        the_runner_follows_from_the_server,
    ]
}

fn process() -> Value {
    json!({"at": {"runner": "process", "allowProcess": true}})
}

fn pod() -> Value {
    json!({"at": {"runner": "pod", "image": "example/image:1"}})
}

impl Stage {
    async fn at(&self, name: &str, schedule: &str, command: &str) {
        let spec = json!({"schedule": schedule, "command": command});
        let spec: AtSpec = serde_json::from_value(spec).unwrap();
        self.api().create(&PostParams::default(), &At::new(name, spec)).await.unwrap();
    }

    async fn at_status(&self, name: &str) -> AtStatus {
        self.api::<At>().get(name).await.unwrap().status.unwrap_or_default()
    }

    async fn done(&self, name: &str) -> AtStatus {
        until(40, name, || self.at_status(name), |status| status.phase == AtPhase::Done).await
    }
}

fn in_seconds(seconds: i64) -> String {
    Timestamp::from_second(Timestamp::now().as_second() + seconds).unwrap().to_string()
}

const LONG_AGO: &str = "2020-01-01T00:00:00+08:00";

async fn a_process_runs_once_at_its_time_over_restarts(peer: &Peer) {
    let stage = Stage::new(peer).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ran");
    let manager = stage.manager(&process());
    stage.at("later", &in_seconds(20), &format!("sh -c 'date +%s >> {}; echo YAY; exit 3'", file.display())).await;
    until(20, "pending", || stage.at_status("later"), |status| status.message.is_some()).await;
    assert!(!file.exists());
    manager.crash().await;
    let manager = stage.manager(&process());
    let status = stage.done("later").await;
    assert_eq!((status.outcome, status.exit_code), (Some(Outcome::Failed), Some(3)), "{status:?}");
    assert_eq!(status.output.as_deref(), Some("YAY\n"));
    manager.stop().await;
    let manager = stage.manager(&process());
    stage.at("next", LONG_AGO, "echo 'two words' \"$HOME\"").await;
    let status = stage.done("next").await;
    assert_eq!(status.output.as_deref(), Some("two words $HOME\n"), "no shell has touched it");
    let ran = std::fs::read_to_string(&file).unwrap();
    assert_eq!(ran.lines().count(), 1, "{ran}");
    manager.stop().await;
}

async fn a_claim_of_somebody_who_is_no_more_is_reported_and_not_run_again(peer: &Peer) {
    let stage = Stage::new(peer).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ran");
    let manager = stage.manager(&process());
    stage.at("cut", LONG_AGO, &format!("sh -c 'echo begun >> {}; sleep 60'", file.display())).await;
    until(20, "begun", async || file.exists(), |begun| *begun).await;
    manager.crash().await;
    assert_eq!(stage.at_status("cut").await.phase, AtPhase::Running);
    let manager = stage.manager(&process());
    let status = stage.done("cut").await;
    assert_eq!(status.outcome, Some(Outcome::Interrupted), "{status:?}");
    assert!(status.message.unwrap().contains("not run again"));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "begun\n");
    manager.stop().await;
}

async fn a_process_is_not_run_unless_the_configuration_allows_it(peer: &Peer) {
    let stage = Stage::new(peer).await;
    let manager = stage.manager(&json!({"at": {"runner": "process"}}));
    stage.at("no", LONG_AGO, "true").await;
    let told = |status: &AtStatus| status.message.as_deref().is_some_and(|message| message.contains("allowProcess"));
    let status = until(20, "refused", || stage.at_status("no"), told).await;
    assert_eq!((status.phase, status.claim), (AtPhase::Pending, None));
    manager.stop().await;
}

async fn a_mistake_is_told_and_mended(peer: &Peer) {
    let stage = Stage::new(peer).await;
    let manager = stage.manager(&process());
    stage.at("odd", "tomorrow", "echo hello").await;
    let told = |word: &'static str| {
        move |status: &AtStatus| status.message.as_deref().is_some_and(|message| message.contains(word))
    };
    until(20, "told", || stage.at_status("odd"), told("RFC 3339")).await;
    let mend = |spec: Value| Patch::Merge(json!({"spec": spec}));
    let api = stage.api::<At>();
    let patch = json!({"schedule": LONG_AGO, "command": "echo 'hello"});
    api.patch("odd", &PatchParams::default(), &mend(patch)).await.unwrap();
    until(20, "told", || stage.at_status("odd"), told("not closed")).await;
    api.patch("odd", &PatchParams::default(), &mend(json!({"command": "echo hello"}))).await.unwrap();
    let status = stage.done("odd").await;
    assert_eq!((status.outcome, status.runner), (Some(Outcome::Succeeded), Some(Runner::Process)));
    manager.stop().await;
}

async fn a_pod_is_made_once_and_followed_to_its_end(peer: &Peer) {
    let stage = Stage::new(peer).await;
    let pods = stage.api::<Pod>();
    let manager = stage.manager(&pod());
    for name in ["good", "bad", "lost"] {
        stage.at(name, LONG_AGO, "echo 'two words'").await;
    }
    let mut made = Vec::new();
    for name in ["good", "bad", "lost"] {
        let status = until(20, name, || stage.at_status(name), |status| status.pod_uid.is_some()).await;
        made.push(status.pod.unwrap());
    }
    let first = pods.get(&made[0]).await.unwrap();
    let container = &first.spec.as_ref().unwrap().containers[0];
    assert_eq!(container.command.as_deref().unwrap(), ["echo", "two words"]);
    assert_eq!(container.image.as_deref(), Some("example/image:1"));
    manager.crash().await;
    let manager = stage.manager(&pod());
    // The kubelet's part: there is none here.
    let ended = |phase: &str, code: i32| {
        let state = json!({"terminated": {"exitCode": code, "message": "what it said"}});
        let container =
            json!({"name": "command", "ready": false, "restartCount": 0, "image": "i", "imageID": "", "state": state});
        Patch::Merge(json!({"status": {"phase": phase, "containerStatuses": [container]}}))
    };
    pods.patch_status(&made[0], &PatchParams::default(), &ended("Succeeded", 0)).await.unwrap();
    pods.patch_status(&made[1], &PatchParams::default(), &ended("Failed", 9)).await.unwrap();
    pods.delete(&made[2], &DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() }).await.unwrap();
    let status = stage.done("good").await;
    assert_eq!((status.outcome, status.exit_code), (Some(Outcome::Succeeded), Some(0)));
    assert_eq!(status.output.as_deref(), Some("what it said"));
    let status = stage.done("bad").await;
    assert_eq!((status.outcome, status.exit_code), (Some(Outcome::Failed), Some(9)));
    assert_eq!(stage.done("lost").await.outcome, Some(Outcome::Interrupted));
    let left: Vec<_> = pods.list(&Default::default()).await.unwrap().iter().map(ResourceExt::name_any).collect();
    assert_eq!(left.len(), 2, "{left:?}");
    assert_eq!(pods.get(&made[0]).await.unwrap().uid(), first.uid(), "it was made a second time");
    manager.stop().await;
}

async fn the_runner_follows_from_the_server(peer: &Peer) {
    let stage = Stage::new(peer).await;
    let manager = stage.manager(&json!({"at": {"allowProcess": true}}));
    stage.at("auto", LONG_AGO, "true").await;
    let status = until(20, "auto", || stage.at_status("auto"), |status| status.runner.is_some()).await;
    let expected = if peer.is_muster() { Runner::Process } else { Runner::Pod };
    assert_eq!(status.runner, Some(expected));
    manager.stop().await;
}
