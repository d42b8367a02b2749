//! ReplicaSets: as many pods as asked for.

use std::time::Duration;

use meta::{Object, Status};
use serde_json::json;

use super::{available, make, pods_of, unmake};
use crate::cluster::{Cluster, is_race, pod_from};
use crate::look::{at, is_active, is_true, label, number, owner_reference, part, phase, text};
use crate::todo::{Todo, Work};

const CONTROLLER: &str = "replicaset-controller";
/// Pods made at once: between bursts others get their turn, and nobody who follows falls behind the history.
const BURST: usize = 50;

pub(crate) async fn sync(cluster: &Cluster, work: &Work, todo: &mut Todo) -> Result<(), Status> {
    let Some(set) = cluster.kinds.replica_sets.get(&work.namespace, &work.name) else { return Ok(()) };
    let mut pods = pods_of(cluster, &set);
    pods.retain(is_active);
    let wanted = usize::try_from(number(&set, "/spec/replicas")).unwrap_or_default();
    if !set.is_deleting() {
        let owner = owner_reference("apps/v1", "ReplicaSet", &set);
        let prefix = format!("{}-", set.name());
        for _ in (pods.len()..wanted).take(BURST) {
            let pod = pod_from(at(&set, "/spec/template"), owner.clone(), None, &prefix);
            make(cluster, &set, CONTROLLER, pod).await?;
        }
        if pods.len() + BURST < wanted {
            todo.now(work.clone());
        }
        if pods.len() > wanted {
            pods.sort_by_key(worth);
            for pod in pods.drain(..pods.len() - wanted) {
                unmake(cluster, &set, CONTROLLER, &pod).await?;
            }
        }
    }
    status(cluster, &set, todo, work).await
}

/// What is least worth goes first: not placed, not running, not ready, young.
fn worth(pod: &Object) -> (bool, bool, bool, std::cmp::Reverse<String>) {
    let young = std::cmp::Reverse(pod.meta_text("creationTimestamp").to_owned());
    (!text(pod, "/spec/nodeName").is_empty(), phase(pod) == "Running", is_true(pod, "Ready"), young)
}

async fn status(cluster: &Cluster, set: &Object, todo: &mut Todo, work: &Work) -> Result<(), Status> {
    let min_ready = number(set, "/spec/minReadySeconds");
    let template =
        at(set, "/spec/template").pointer("/metadata/labels").and_then(|l| l.as_object()).cloned().unwrap_or_default();
    let (mut replicas, mut labelled, mut ready, mut usable) = (0, 0, 0, 0);
    for pod in pods_of(cluster, set).iter().filter(|pod| is_active(pod)) {
        replicas += 1;
        labelled += i64::from(crate::look::fits(&template, |key| label(pod, key)));
        ready += i64::from(is_true(pod, "Ready"));
        match available(cluster, pod, min_ready) {
            Ok(()) => usable += 1,
            Err(Some(seconds)) => todo.after(Duration::from_secs(seconds), work.clone()),
            Err(None) => {}
        }
    }
    let written = cluster.kinds.replica_sets.set(&work.namespace, &work.name, |current| {
        let generation = set.generation();
        let status = part(current, "status");
        status.insert("replicas".into(), replicas.into());
        let counts = [("fullyLabeledReplicas", labelled), ("readyReplicas", ready), ("availableReplicas", usable)];
        for (key, count) in counts {
            match count {
                0 => status.remove(key),
                count => status.insert(key.into(), json!(count)),
            };
        }
        status.insert("observedGeneration".into(), generation.into());
    });
    written.await.or_else(|error| if is_race(&error) { Ok(()) } else { Err(error) })
}
