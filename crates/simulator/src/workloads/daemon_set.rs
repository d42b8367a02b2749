//! DaemonSets: a pod on every node that takes it.

use std::collections::BTreeMap;
use std::time::Duration;

use meta::{Object, Status};
use serde_json::{Value, json};

use super::{available, make, pods_of, revision, unmake};
use crate::cluster::{Cluster, is_race, pod_from};
use crate::look::{at, is_active, is_true, label, list, number, owner_reference, part, phase, share, text};
use crate::scheduler::{Board, admits, tolerated};
use crate::todo::{Todo, Work};

const CONTROLLER: &str = "daemonset-controller";

pub(crate) async fn sync(cluster: &Cluster, work: &Work, board: &Board, todo: &mut Todo) -> Result<(), Status> {
    let Some(set) = cluster.kinds.daemon_sets.get(&work.namespace, &work.name) else { return Ok(()) };
    let update = revision::current(cluster, &set).await?;
    let sample = pod(&set, &update, "");
    let wanted: Vec<&str> = board.nodes().filter(|node| takes(node, &set, &sample)).map(|node| node.name()).collect();
    if !set.is_deleting() {
        act(cluster, &set, &update, &wanted).await?;
    }
    status(cluster, &set, &update, &wanted, work, todo).await
}

/// Whether a node shall have one. A cordon does not keep it away.
fn takes(node: &Object, set: &Object, sample: &Object) -> bool {
    let mut plain = sample.clone();
    part(&mut plain, "spec")
        .insert("affinity".into(), at(set, "/spec/template").pointer("/spec/affinity").cloned().unwrap_or_default());
    let held = |taint: &&Value| taint["effect"] != "PreferNoSchedule" && !tolerated(&plain, taint);
    admits(node, &plain) && list(node, "/spec/taints").iter().find(held).is_none()
}

/// The node a pod of ours is for.
fn node_of(pod: &Object) -> Option<&str> {
    let bound = text(pod, "/spec/nodeName");
    if !bound.is_empty() {
        return Some(bound);
    }
    let terms = at(pod, "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms");
    terms.pointer("/0/matchFields/0/values/0").and_then(Value::as_str)
}

fn pod(set: &Object, update: &Object, node: &str) -> Object {
    let owner = owner_reference("apps/v1", "DaemonSet", set);
    let mut pod = pod_from(at(set, "/spec/template"), owner, None, &format!("{}-", set.name()));
    let labels = crate::look::entries(&mut pod, "labels");
    labels.insert(revision::HASH.into(), revision::hash_of(update).into());
    labels.insert("pod-template-generation".into(), set.generation().to_string().into());
    let spec = part(&mut pod, "spec");
    let here = json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]);
    spec.insert(
        "affinity".into(),
        json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": here}}}),
    );
    let Value::Array(tolerations) = spec.entry("tolerations").or_insert_with(|| json!([])) else { return pod };
    for (key, effect) in [
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
        ("unreachable", "NoSchedule"),
    ] {
        tolerations.push(json!({"key": format!("node.kubernetes.io/{key}"), "operator": "Exists", "effect": effect}));
    }
    pod
}

async fn act(cluster: &Cluster, set: &Object, update: &Object, wanted: &[&str]) -> Result<(), Status> {
    let mut placed: BTreeMap<String, Vec<Object>> = BTreeMap::new();
    for pod in pods_of(cluster, set) {
        if matches!(phase(&pod), "Succeeded" | "Failed") && !pod.is_deleting() {
            unmake(cluster, set, CONTROLLER, &pod).await?;
        } else if let Some(node) = node_of(&pod) {
            placed.entry(node.to_owned()).or_default().push(pod);
        }
    }
    for (node, pods) in &placed {
        let keep = usize::from(wanted.contains(&node.as_str()));
        for pod in pods.iter().filter(|pod| is_active(pod)).skip(keep) {
            unmake(cluster, set, CONTROLLER, pod).await?;
        }
    }
    let empty = wanted.iter().filter(|node| !placed.contains_key(**node));
    for node in empty {
        make(cluster, set, CONTROLLER, pod(set, update, node)).await?;
    }
    if text(set, "/spec/updateStrategy/type") == "OnDelete" {
        return Ok(());
    }
    let count = i64::try_from(wanted.len()).unwrap_or(i64::MAX);
    let may_miss = share(at(set, "/spec/updateStrategy/rollingUpdate/maxUnavailable"), count, true).max(1);
    let min_ready = number(set, "/spec/minReadySeconds");
    let running: Vec<&Object> =
        wanted.iter().filter_map(|node| placed.get(*node)?.iter().find(|pod| is_active(pod))).collect();
    let up = running.iter().filter(|pod| available(cluster, pod, min_ready).is_ok()).count();
    let mut room = may_miss - (count - i64::try_from(up).unwrap_or_default());
    let old = running.iter().filter(|pod| label(pod, revision::HASH) != Some(revision::hash_of(update)));
    for pod in old {
        // One that is down already costs nothing.
        let down = available(cluster, pod, min_ready).is_err();
        if !down && room <= 0 {
            continue;
        }
        room -= i64::from(!down);
        unmake(cluster, set, CONTROLLER, pod).await?;
    }
    Ok(())
}

async fn status(
    cluster: &Cluster,
    set: &Object,
    update: &Object,
    wanted: &[&str],
    work: &Work,
    todo: &mut Todo,
) -> Result<(), Status> {
    let min_ready = number(set, "/spec/minReadySeconds");
    let (mut current, mut astray, mut ready, mut usable, mut updated) = (0i64, 0i64, 0i64, 0i64, 0i64);
    for pod in pods_of(cluster, set).iter().filter(|pod| is_active(pod)) {
        if !node_of(pod).is_some_and(|node| wanted.contains(&node)) {
            astray += 1;
            continue;
        }
        current += 1;
        ready += i64::from(is_true(pod, "Ready"));
        match available(cluster, pod, min_ready) {
            Ok(()) => usable += 1,
            Err(Some(seconds)) => todo.after(Duration::from_secs(seconds), work.clone()),
            Err(None) => {}
        }
        updated += i64::from(label(pod, revision::HASH) == Some(revision::hash_of(update)));
    }
    let desired = i64::try_from(wanted.len()).unwrap_or(i64::MAX);
    let written = cluster.kinds.daemon_sets.set(&work.namespace, &work.name, |object| {
        let status = part(object, "status");
        for (key, count) in [
            ("desiredNumberScheduled", desired),
            ("currentNumberScheduled", current),
            ("numberMisscheduled", astray),
            ("numberReady", ready),
            ("observedGeneration", set.generation()),
        ] {
            status.insert(key.into(), count.into());
        }
        for (key, count) in
            [("numberAvailable", usable), ("numberUnavailable", desired - usable), ("updatedNumberScheduled", updated)]
        {
            match count {
                0 => status.remove(key),
                count => status.insert(key.into(), count.into()),
            };
        }
    });
    written.await.or_else(|error| if is_race(&error) { Ok(()) } else { Err(error) })?;
    let used: Vec<String> =
        pods_of(cluster, set).iter().filter_map(|pod| label(pod, revision::HASH).map(str::to_owned)).collect();
    let used: Vec<&str> = used.iter().map(String::as_str).chain([revision::hash_of(update)]).collect();
    revision::forget(cluster, set, &used).await
}
