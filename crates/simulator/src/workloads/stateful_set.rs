//! StatefulSets: pods with names and claims of their own, one after the other.

use std::collections::BTreeMap;
use std::time::Duration;

use meta::{Object, Status};
use serde_json::{Value, json};

use super::{available, make, pods_of, revision, unmake};
use crate::cluster::{Cluster, Happening, is_race, pod_from};
use crate::look::{at, is_true, label, list, number, owner_reference, part, phase, text};
use crate::todo::{Todo, Work};

const CONTROLLER: &str = "statefulset-controller";

pub(crate) async fn sync(cluster: &Cluster, work: &Work, todo: &mut Todo) -> Result<(), Status> {
    let Some(set) = cluster.kinds.stateful_sets.get(&work.namespace, &work.name) else { return Ok(()) };
    let update = revision::current(cluster, &set).await?;
    if !set.is_deleting() {
        act(cluster, &set, &update).await?;
    }
    status(cluster, &set, &update, work, todo).await
}

/// Pods by their number.
fn ordinals(cluster: &Cluster, set: &Object) -> BTreeMap<i64, Object> {
    let number = |pod: &Object| pod.name().rsplit_once('-').and_then(|(_, n)| n.parse().ok());
    pods_of(cluster, set).into_iter().filter_map(|pod| Some((number(&pod)?, pod))).collect()
}

fn is_of(pod: &Object, revision: &Object) -> bool {
    label(pod, revision::HASH) == Some(revision.name())
}

/// What is next: one thing at a time, or all at once if it is to be parallel.
async fn act(cluster: &Cluster, set: &Object, update: &Object) -> Result<(), Status> {
    let parallel = text(set, "/spec/podManagementPolicy") == "Parallel";
    let start = number(set, "/spec/ordinals/start");
    let wanted = start..start + number(set, "/spec/replicas");
    let mut pods = ordinals(cluster, set);
    // What has ended is made anew.
    for (n, pod) in pods.clone() {
        if matches!(phase(&pod), "Succeeded" | "Failed") {
            unmake(cluster, set, CONTROLLER, &pod).await?;
            pods.remove(&n);
            if !parallel {
                return Ok(());
            }
        }
    }
    let min_ready = number(set, "/spec/minReadySeconds");
    for n in wanted.clone() {
        match pods.get(&n) {
            None => {
                claims(cluster, set, n).await?;
                make(cluster, set, CONTROLLER, pod(cluster, set, update, n)).await?;
                if !parallel {
                    return Ok(());
                }
            }
            Some(pod) if pod.is_deleting() && !parallel => return Ok(()),
            // One of an old template that does not come up must not hold up its own update.
            Some(pod) if !parallel && available(cluster, pod, min_ready).is_err() && is_of(pod, update) => {
                return Ok(());
            }
            Some(_) => {}
        }
    }
    for (n, pod) in pods.iter().rev().filter(|(n, _)| !wanted.contains(n)) {
        if !pod.is_deleting() {
            unmake(cluster, set, CONTROLLER, pod).await?;
        }
        if !parallel || *n < start {
            return Ok(());
        }
    }
    if text(set, "/spec/updateStrategy/type") == "OnDelete" {
        return Ok(());
    }
    let partition = number(set, "/spec/updateStrategy/rollingUpdate/partition");
    for (_, pod) in pods.iter().rev().filter(|(n, _)| wanted.contains(n) && **n >= partition) {
        if pod.is_deleting() {
            return Ok(());
        }
        if !is_of(pod, update) {
            return unmake(cluster, set, CONTROLLER, pod).await;
        }
        if available(cluster, pod, min_ready).is_err() {
            return Ok(());
        }
    }
    Ok(())
}

/// The pod of a number, of the template that number has now.
fn pod(cluster: &Cluster, set: &Object, update: &Object, n: i64) -> Object {
    let held = text(set, "/status/currentRevision");
    let partition = number(set, "/spec/updateStrategy/rollingUpdate/partition");
    let old = revision::all(cluster, set).into_iter().find(|revision| revision.name() == held && n < partition);
    let revision = old.as_ref().unwrap_or(update);
    let name = format!("{}-{n}", set.name());
    let owner = owner_reference("apps/v1", "StatefulSet", set);
    let mut pod = pod_from(&revision::template(revision), owner, Some(&name), "");
    let labels = crate::look::entries(&mut pod, "labels");
    labels.insert(revision::HASH.into(), revision.name().into());
    labels.insert("statefulset.kubernetes.io/pod-name".into(), name.as_str().into());
    labels.insert("apps.kubernetes.io/pod-index".into(), n.to_string().into());
    let spec = part(&mut pod, "spec");
    spec.insert("hostname".into(), name.as_str().into());
    if let service @ Value::String(_) = at(set, "/spec/serviceName") {
        spec.insert("subdomain".into(), service.clone());
    }
    let templates = list(set, "/spec/volumeClaimTemplates");
    if !templates.is_empty() {
        let volumes = spec.entry("volumes").or_insert_with(|| json!([]));
        for claim in templates.iter().filter_map(|t| t["metadata"]["name"].as_str()) {
            let volume = json!({"name": claim, "persistentVolumeClaim": {"claimName": format!("{claim}-{name}")}});
            if let Some(volumes) = volumes.as_array_mut() {
                volumes.retain(|old| old["name"] != claim);
                volumes.push(volume);
            }
        }
    }
    pod
}

/// The claims of a number; they stay when the pod goes. Storage is always there.
async fn claims(cluster: &Cluster, set: &Object, n: i64) -> Result<(), Status> {
    for template in list(set, "/spec/volumeClaimTemplates") {
        let name = format!("{}-{}-{n}", template["metadata"]["name"].as_str().unwrap_or_default(), set.name());
        if cluster.kinds.claims.get(set.namespace(), &name).is_some() {
            continue;
        }
        let labels = at(set, "/spec/selector").get("matchLabels").cloned().unwrap_or_else(|| json!({}));
        let claim = json!({"metadata": {"name": name, "labels": labels}, "spec": template["spec"]});
        match cluster.kinds.claims.create(set.namespace(), Object::from_value(claim).unwrap_or_default()).await {
            Err(error) if !is_race(&error) => return Err(error),
            _ => {}
        }
        let why = format!("create Claim {name} Pod {}-{n} in StatefulSet {} success", set.name(), set.name());
        cluster.tell(set, Happening::normal(CONTROLLER, "SuccessfulCreate", why)).await;
        let bound = cluster.kinds.claims.set(set.namespace(), &name, |claim| {
            let (modes, asked) =
                (at(claim, "/spec/accessModes").clone(), at(claim, "/spec/resources/requests").clone());
            claim.0.insert("status".into(), json!({"phase": "Bound", "accessModes": modes, "capacity": asked}));
        });
        bound.await.or_else(|error| if is_race(&error) { Ok(()) } else { Err(error) })?;
    }
    Ok(())
}

async fn status(cluster: &Cluster, set: &Object, update: &Object, work: &Work, todo: &mut Todo) -> Result<(), Status> {
    let min_ready = number(set, "/spec/minReadySeconds");
    let held = text(set, "/status/currentRevision");
    let (mut replicas, mut ready, mut usable, mut updated, mut current) = (0, 0, 0, 0, 0);
    for pod in ordinals(cluster, set).values() {
        replicas += 1;
        ready += i64::from(is_true(pod, "Ready") && !pod.is_deleting());
        match available(cluster, pod, min_ready) {
            Ok(()) => usable += i64::from(!pod.is_deleting()),
            Err(Some(seconds)) => todo.after(Duration::from_secs(seconds), work.clone()),
            Err(None) => {}
        }
        updated += i64::from(is_of(pod, update) && !pod.is_deleting());
        current += i64::from(label(pod, revision::HASH) == Some(held) && !pod.is_deleting());
    }
    let wanted = number(set, "/spec/replicas");
    let complete = updated == wanted && replicas == wanted && ready == wanted;
    let held = if held.is_empty() || complete { update.name() } else { held };
    if complete {
        current = updated;
    }
    let written = cluster.kinds.stateful_sets.set(&work.namespace, &work.name, |object| {
        let status = part(object, "status");
        for (key, count) in [("readyReplicas", ready), ("updatedReplicas", updated), ("currentReplicas", current)] {
            match count {
                0 => status.remove(key),
                count => status.insert(key.into(), count.into()),
            };
        }
        status.insert("replicas".into(), replicas.into());
        status.insert("availableReplicas".into(), usable.into());
        status.insert("observedGeneration".into(), set.generation().into());
        status.insert("collisionCount".into(), 0.into());
        status.insert("currentRevision".into(), held.into());
        status.insert("updateRevision".into(), update.name().into());
    });
    written.await.or_else(|error| if is_race(&error) { Ok(()) } else { Err(error) })?;
    revision::forget(cluster, set, &[held, update.name()]).await
}
