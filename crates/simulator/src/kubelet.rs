//! The kubelets of all nodes: what becomes of a pod once it has a node. `step` decides on plain data; `sync` acts.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use meta::options::DeleteOptions;
use meta::{Object, Status};
use serde_json::{Map, Value};
use tokio::time::Instant;

use crate::cluster::{Cluster, Happening, is_race};
use crate::look::{annotation, at, hash, is_true, number, part, phase, text};
use crate::scheduler::Board;
use crate::settings::Timing;
use crate::todo::{Todo, Who, Work};
use crate::{EXIT_CODE, FAIL, Failure, RUN_FOR, node, pod};

const KUBELET: &str = "kubelet";
const LONGEST_BACK_OFF: Duration = Duration::from_secs(300);

/// Where a pod is that is not at rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Pulling,
    /// Could not be pulled so many times.
    PullFailed(u32),
    /// Started, not ready yet.
    Starting,
    /// Will end, well or by a crash.
    Ending,
    /// Crashed so many times; waits to be started again.
    BackOff(u32),
    Stopping,
}

/// A pod on its way: of which object, where, until when.
#[derive(Clone, Debug)]
pub(crate) struct Life {
    uid: Box<str>,
    stage: Stage,
    due: Instant,
}

pub(crate) type Lives = HashMap<(Arc<str>, Arc<str>), Life>;

/// What a kubelet does next about a pod.
#[derive(Default)]
struct Step {
    /// The new status, if it changes.
    status: Option<Map<String, Value>>,
    tells: Vec<Happening<'static>>,
    /// The stage it is in from now, and for how long; none when it is at rest.
    then: Option<(Stage, Duration)>,
    remove: bool,
}

/// What a kubelet knows besides the pod.
struct Knows<'a> {
    timing: &'a Timing,
    now: &'a str,
    address: &'a (dyn Fn() -> String + Sync),
    host: &'a str,
}

/// Between half and all of a time, always the same for the same pod.
fn spread(time: Duration, uid: &str, what: &str) -> Duration {
    let share = u32::try_from(hash(&[uid, what]) % 128).unwrap_or_default();
    time / 2 + time / 256 * share
}

fn back_off(first: Duration, tries: u32) -> Duration {
    first.saturating_mul(2u32.saturating_pow(tries.min(16))).min(LONGEST_BACK_OFF)
}

/// What was asked of this very pod, or usual.
fn run_time(pod: &Object, usual: Duration) -> Duration {
    let asked = annotation(pod, RUN_FOR).and_then(|text| meta::duration::parse(text).ok());
    asked.and_then(|asked| Duration::try_from(asked).ok()).unwrap_or(usual)
}

/// The next step of a pod; `life` is where it was, and whether that is over.
fn step(pod: &Object, life: Option<(Stage, bool)>, knows: &Knows<'_>) -> Step {
    if pod.is_deleting() {
        return stop(pod, life, knows.timing);
    }
    if matches!(phase(pod), "Succeeded" | "Failed") {
        return Step::default();
    }
    let failure = Failure::of(annotation(pod, FAIL));
    match life {
        None => at_rest(pod, failure, knows),
        Some((Stage::Pulling, true)) if failure == Some(Failure::ImagePull) => pull_failed(pod, 0, knows),
        Some((Stage::Pulling, true)) => start(pod, failure, knows),
        // As soon as the failure is taken away, not when the wait is over.
        Some((Stage::PullFailed(_), _)) if failure != Some(Failure::ImagePull) => pull(pod, knows),
        Some((Stage::PullFailed(tries), true)) => pull_failed(pod, tries + 1, knows),
        Some((Stage::Starting, true)) => started(pod, failure, knows),
        Some((Stage::Ending, true)) => end(pod, failure, knows),
        Some((Stage::BackOff(_), _)) if failure != Some(Failure::CrashLoop) => start(pod, failure, knows),
        Some((Stage::BackOff(_), true)) => start(pod, failure, knows),
        Some((_, false)) | Some((Stage::Stopping, true)) => {
            Step { then: life.map(|(stage, _)| (stage, Duration::MAX)), ..Step::default() }
        }
    }
}

/// Told to stop: the containers get their time, then the pod goes.
fn stop(pod: &Object, life: Option<(Stage, bool)>, timing: &Timing) -> Step {
    let ended = matches!(phase(pod), "Succeeded" | "Failed");
    match life {
        Some((Stage::Stopping, true)) => Step { remove: true, ..Step::default() },
        Some((Stage::Stopping, false)) => Step { then: Some((Stage::Stopping, Duration::MAX)), ..Step::default() },
        _ if ended => Step { remove: true, ..Step::default() },
        _ => {
            let grace = Duration::from_secs(
                u64::try_from(number(pod, "/metadata/deletionGracePeriodSeconds")).unwrap_or_default(),
            );
            let tells = pod::containers(pod)
                .map(|name| Happening::normal(KUBELET, "Killing", format!("Stopping container {name}")).of(name));
            let wait = spread(timing.stop, pod.uid(), "stop").min(grace);
            Step { tells: tells.collect(), then: Some((Stage::Stopping, wait)), ..Step::default() }
        }
    }
}

/// A pod that nobody is busy with: new, or running.
fn at_rest(pod: &Object, failure: Option<Failure>, knows: &Knows<'_>) -> Step {
    if phase(pod) != "Running" {
        return pull(pod, knows);
    }
    let ready = is_true(pod, "Ready");
    let ends = text(pod, "/spec/restartPolicy") != "Always";
    match failure {
        Some(Failure::CrashLoop) => Step { then: Some((Stage::Ending, knows.timing.crash)), ..Step::default() },
        Some(Failure::NotReady) if ready => unready(pod, knows),
        Some(Failure::NotReady) => Step::default(),
        _ if !ready => started(pod, failure, knows),
        // Its end was not known any more, as after a node's return.
        _ if ends => Step { then: Some((Stage::Ending, run_time(pod, knows.timing.run))), ..Step::default() },
        _ => Step::default(),
    }
}

fn pull(pod: &Object, knows: &Knows<'_>) -> Step {
    let tells = pod::images(pod)
        .map(|(name, image)| Happening::normal(KUBELET, "Pulling", format!("Pulling image {image:?}")).of(name));
    Step {
        status: Some(pod::creating(pod, knows.host, knows.now)),
        tells: tells.collect(),
        then: Some((Stage::Pulling, spread(knows.timing.pull, pod.uid(), "pull"))),
        ..Step::default()
    }
}

fn pull_failed(pod: &Object, tries: u32, knows: &Knows<'_>) -> Step {
    let mut tells = Vec::new();
    let mut reasons = Vec::new();
    for (name, image) in pod::images(pod) {
        let why = format!("rpc error: code = NotFound desc = failed to pull and unpack image {image:?}: not found");
        if tries == 0 {
            tells
                .push(Happening::warning(KUBELET, "Failed", format!("Failed to pull image {image:?}: {why}")).of(name));
            tells.push(Happening::warning(KUBELET, "Failed", "Error: ErrImagePull").of(name));
            reasons.push(("ErrImagePull", why));
        } else {
            let why = format!("Back-off pulling image {image:?}");
            tells.push(Happening::normal(KUBELET, "BackOff", why.clone()).of(name));
            tells.push(Happening::warning(KUBELET, "Failed", "Error: ImagePullBackOff").of(name));
            reasons.push(("ImagePullBackOff", why));
        }
    }
    Step {
        status: Some(pod::waiting(pod, &reasons, knows.now)),
        tells,
        // The first failure is shown for a moment, then the wait begins.
        then: Some((
            Stage::PullFailed(tries),
            if tries == 0 { Duration::from_secs(1) } else { back_off(knows.timing.back_off, tries - 1) },
        )),
        ..Step::default()
    }
}

/// The containers start, for the first time or again.
fn start(pod: &Object, failure: Option<Failure>, knows: &Knows<'_>) -> Step {
    let mut tells = Vec::new();
    let again = pod::restarts(pod) > 0;
    for (name, image) in pod::images(pod) {
        let pulled = match again {
            true => format!("Container image {image:?} already present on machine"),
            false => {
                format!("Successfully pulled image {image:?} in {:?}", spread(knows.timing.pull, pod.uid(), "pull"))
            }
        };
        tells.push(Happening::normal(KUBELET, "Pulled", pulled).of(name));
        tells.push(Happening::normal(KUBELET, "Created", format!("Created container: {name}")).of(name));
        tells.push(Happening::normal(KUBELET, "Started", format!("Started container {name}")).of(name));
    }
    let address = match text(pod, "/status/podIP") {
        "" if at(pod, "/spec/hostNetwork") == true => knows.host.to_owned(),
        "" => (knows.address)(),
        known => known.to_owned(),
    };
    let then = match failure {
        Some(Failure::CrashLoop) => (Stage::Ending, knows.timing.crash),
        _ => (Stage::Starting, spread(knows.timing.ready, pod.uid(), "ready")),
    };
    Step { status: Some(pod::running(pod, &address, false, knows.now)), tells, then: Some(then), ..Step::default() }
}

/// Time to be ready.
fn started(pod: &Object, failure: Option<Failure>, knows: &Knows<'_>) -> Step {
    let ends = text(pod, "/spec/restartPolicy") != "Always";
    match failure {
        Some(Failure::NotReady) => Step { tells: vec![unhealthy(pod)], ..Step::default() },
        Some(Failure::CrashLoop) => Step { then: Some((Stage::Ending, knows.timing.crash)), ..Step::default() },
        _ => Step {
            status: Some(pod::running(pod, text(pod, "/status/podIP"), true, knows.now)),
            then: ends.then(|| (Stage::Ending, run_time(pod, knows.timing.run))),
            ..Step::default()
        },
    }
}

fn unready(pod: &Object, knows: &Knows<'_>) -> Step {
    let status = pod::running(pod, text(pod, "/status/podIP"), false, knows.now);
    Step { status: Some(status), tells: vec![unhealthy(pod)], ..Step::default() }
}

fn unhealthy(pod: &Object) -> Happening<'static> {
    let name = pod::containers(pod).next().unwrap_or_default();
    Happening::warning(KUBELET, "Unhealthy", "Readiness probe failed: HTTP probe failed with statuscode: 503").of(name)
}

/// A container ends: the pod with it, or it is started again after a while.
fn end(pod: &Object, failure: Option<Failure>, knows: &Knows<'_>) -> Step {
    let asked = annotation(pod, EXIT_CODE).and_then(|code| code.parse().ok());
    let code: i64 = asked.unwrap_or(if failure == Some(Failure::CrashLoop) { 1 } else { 0 });
    let again = match text(pod, "/spec/restartPolicy") {
        "Always" => true,
        "OnFailure" => code != 0,
        _ => false,
    };
    if !again {
        return Step { status: Some(pod::ended(pod, code, knows.now)), ..Step::default() };
    }
    let crashes = pod::restarts(pod);
    let wait = back_off(knows.timing.back_off, crashes);
    let name = pod::containers(pod).next().unwrap_or_default();
    let why =
        format!("Back-off restarting failed container {name} in pod {}_{}({})", pod.name(), pod.namespace(), pod.uid());
    Step {
        status: Some(pod::crashed(pod, code, wait, knows.now)),
        tells: vec![Happening::warning(KUBELET, "BackOff", why).of(name)],
        then: Some((Stage::BackOff(crashes), wait)),
        ..Step::default()
    }
}

/// Looks at one pod.
pub(crate) async fn sync(
    cluster: &Cluster,
    work: &Work,
    board: &Board,
    lives: &mut Lives,
    todo: &mut Todo,
) -> Result<(), Status> {
    let id = (Arc::clone(&work.namespace), Arc::clone(&work.name));
    let Some(pod) = cluster.kinds.pods.get(&work.namespace, &work.name) else {
        lives.remove(&id);
        return Ok(());
    };
    let host = board.find(text(&pod, "/spec/nodeName"));
    // Without a node there is no kubelet, and a lost one does nothing.
    let Some(host) = host.filter(|host| !node::is_lost(host)) else {
        lives.remove(&id);
        return Ok(());
    };
    let life = lives.get(&id).filter(|life| *life.uid == *pod.uid()).cloned();
    let now = Instant::now();
    let stamp = cluster.stamp();
    let knows = Knows {
        timing: &cluster.settings.timing,
        now: &stamp,
        address: &|| cluster.address(),
        host: node::address(host),
    };
    let step = step(&pod, life.as_ref().map(|life| (life.stage, life.due <= now)), &knows);
    if step.remove {
        lives.remove(&id);
        let options =
            DeleteOptions { grace_seconds: Some(0), uid: Some(pod.uid().to_owned()), ..DeleteOptions::default() };
        let gone = cluster.kinds.pods.delete(&work.namespace, &work.name, &options).await;
        return gone.or_else(|error| if is_race(&error) { Ok(()) } else { Err(error) });
    }
    // Where it is first: if a write fails, the next look finds it there.
    match step.then {
        Some((stage, wait)) => {
            let kept = life.filter(|life| life.stage == stage && wait == Duration::MAX);
            let due = kept.map_or_else(|| now.checked_add(wait).unwrap_or(now), |life| life.due);
            lives.insert(id.clone(), Life { uid: pod.uid().into(), stage, due });
            todo.at(due, Work { who: Who::Kubelet, ..work.clone() });
        }
        None => _ = lives.remove(&id),
    }
    if let Some(status) = step.status {
        let written = cluster.kinds.pods.set(&work.namespace, &work.name, |current| {
            if current.uid() == pod.uid() {
                *part(current, "status") = status.clone();
            }
        });
        match written.await {
            Err(error) if is_race(&error) => return Ok(()),
            outcome => outcome?,
        }
    }
    for happening in step.tells {
        cluster.tell(&pod, happening).await;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(annotations: Value, policy: &str, status: Value) -> Object {
        Object::from_value(json!({"metadata": {"name": "p", "namespace": "n", "uid": "u", "annotations": annotations},
            "spec": {"nodeName": "a", "restartPolicy": policy, "containers": [{"name": "web", "image": "nginx"}]}, "status": status}))
        .unwrap()
    }

    fn next(pod: &Object, life: Option<(Stage, bool)>) -> Step {
        let timing = Timing::default();
        step(
            pod,
            life,
            &Knows { timing: &timing, now: "2026-01-01T00:00:00Z", address: &|| "10.0.0.1".into(), host: "1.2.3.4" },
        )
    }

    fn apply(pod: &mut Object, step: Step) -> Option<Stage> {
        if let Some(status) = step.status {
            pod.0.insert("status".into(), Value::Object(status));
        }
        step.then.map(|(stage, _)| stage)
    }

    #[test]
    fn a_pod_is_pulled_started_and_ready() {
        let mut pod = object(json!({}), "Always", json!({"phase": "Pending"}));
        let step = next(&pod, None);
        assert_eq!(apply(&mut pod, step), Some(Stage::Pulling));
        assert_eq!(
            at(&pod, "/status/containerStatuses").pointer("/0/state/waiting/reason"),
            Some(&json!("ContainerCreating"))
        );
        let step = next(&pod, Some((Stage::Pulling, true)));
        assert_eq!(step.tells.iter().map(|t| t.reason).collect::<Vec<_>>(), ["Pulled", "Created", "Started"]);
        assert_eq!(apply(&mut pod, step), Some(Stage::Starting));
        assert_eq!((phase(&pod), is_true(&pod, "Ready")), ("Running", false));
        let step = next(&pod, Some((Stage::Starting, true)));
        assert_eq!(apply(&mut pod, step), None);
        assert!(is_true(&pod, "Ready"));
        assert!(next(&pod, None).status.is_none(), "it rests");
    }

    #[test]
    fn an_image_that_cannot_be_pulled_is_tried_again_until_it_can() {
        let mut pod = object(json!({FAIL: "image-pull"}), "Always", json!({"phase": "Pending"}));
        let step = next(&pod, Some((Stage::Pulling, true)));
        assert_eq!(apply(&mut pod, step), Some(Stage::PullFailed(0)));
        let step = next(&pod, Some((Stage::PullFailed(0), true)));
        assert_eq!(apply(&mut pod, step), Some(Stage::PullFailed(1)));
        assert_eq!(
            at(&pod, "/status/containerStatuses").pointer("/0/state/waiting/reason"),
            Some(&json!("ImagePullBackOff"))
        );
        pod.meta_mut().remove("annotations");
        let step = next(&pod, Some((Stage::PullFailed(1), false)));
        assert_eq!(apply(&mut pod, step), Some(Stage::Pulling), "at once when the failure is taken away");
    }

    #[test]
    fn a_crash_is_counted_and_waited_for() {
        let mut pod = object(json!({FAIL: "crash-loop"}), "Always", json!({"phase": "Pending"}));
        let step = next(&pod, Some((Stage::Pulling, true)));
        assert_eq!(apply(&mut pod, step), Some(Stage::Ending));
        let step = next(&pod, Some((Stage::Ending, true)));
        assert_eq!(apply(&mut pod, step), Some(Stage::BackOff(0)));
        let status = &at(&pod, "/status/containerStatuses")[0];
        assert_eq!(status["state"]["waiting"]["reason"], "CrashLoopBackOff");
        assert_eq!((&status["restartCount"], &status["lastState"]["terminated"]["exitCode"]), (&json!(1), &json!(1)));
        let step = next(&pod, Some((Stage::BackOff(0), true)));
        assert_eq!(apply(&mut pod, step), Some(Stage::Ending));
        assert_eq!(at(&pod, "/status/containerStatuses")[0]["restartCount"], 1);
        assert_eq!(back_off(Duration::from_secs(10), 30), LONGEST_BACK_OFF);
    }

    #[test]
    fn what_is_meant_to_end_ends_as_it_is_told() {
        for (annotations, policy, phase_after) in [
            (json!({}), "Never", "Succeeded"),
            (json!({EXIT_CODE: "3"}), "Never", "Failed"),
            (json!({FAIL: "crash-loop"}), "Never", "Failed"),
            (json!({}), "OnFailure", "Succeeded"),
            (json!({EXIT_CODE: "3"}), "OnFailure", "Running"),
        ] {
            let mut pod = object(annotations.clone(), policy, json!({"phase": "Running"}));
            let step = next(&pod, Some((Stage::Ending, true)));
            apply(&mut pod, step);
            assert_eq!(phase(&pod), phase_after, "{annotations} {policy}");
        }
    }

    #[test]
    fn a_deleted_pod_stops_and_goes() {
        let mut pod = object(json!({}), "Always", json!({"phase": "Running"}));
        pod.set_meta("deletionTimestamp", "2026-01-01T00:00:30Z");
        pod.meta_mut().insert("deletionGracePeriodSeconds".into(), 30.into());
        let step = next(&pod, None);
        assert_eq!((step.tells[0].reason, step.then.map(|(stage, _)| stage)), ("Killing", Some(Stage::Stopping)));
        assert!(!next(&pod, Some((Stage::Stopping, false))).remove);
        assert!(next(&pod, Some((Stage::Stopping, true))).remove);
    }
}
