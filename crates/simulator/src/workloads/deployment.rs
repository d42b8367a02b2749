//! Deployments: a ReplicaSet per template, and the way from the old ones to the new.

use std::time::Duration;

use meta::options::DeleteOptions;
use meta::{Object, Reason, Status};
use serde_json::{Value, json};

use super::pods_of;
use crate::cluster::{Cluster, Happening, is_race};
use crate::look::{
    annotation, at, condition, entries, hash, number, owned, owner_reference, part, set_condition, share, short_hash,
    text,
};
use crate::todo::{Todo, Work};

const CONTROLLER: &str = "deployment-controller";
const HASH: &str = "pod-template-hash";
const REVISION: &str = "deployment.kubernetes.io/revision";
const HISTORY: &str = "deployment.kubernetes.io/revision-history";
const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
const MAX: &str = "deployment.kubernetes.io/max-replicas";
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// How far a rollout may go in each direction.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    desired: i64,
    surge: i64,
    unavailable: i64,
}

impl Bounds {
    fn of(deployment: &Object) -> Self {
        let desired = number(deployment, "/spec/replicas");
        if text(deployment, "/spec/strategy/type") == "Recreate" {
            return Self { desired, surge: 0, unavailable: desired };
        }
        let surge = share(at(deployment, "/spec/strategy/rollingUpdate/maxSurge"), desired, true);
        let unavailable =
            share(at(deployment, "/spec/strategy/rollingUpdate/maxUnavailable"), desired, false).min(desired);
        // Both zero would never move.
        let unavailable = if surge == 0 && unavailable == 0 { 1 } else { unavailable };
        Self { desired, surge, unavailable }
    }
}

/// What of a ReplicaSet a rollout looks at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Size {
    asked: i64,
    available: i64,
}

impl Size {
    fn of(set: &Object) -> Self {
        Self { asked: number(set, "/spec/replicas"), available: number(set, "/status/availableReplicas") }
    }
}

/// The next sizes of a rolling update: of the new set, and of the old ones in the given order.
fn roll(bounds: Bounds, new: Size, old: &[Size]) -> (i64, Vec<i64>) {
    let Bounds { desired, surge, unavailable } = bounds;
    let all = new.asked + old.iter().map(|size| size.asked).sum::<i64>();
    let grown = match new.asked {
        asked if asked >= desired => desired,
        asked => asked + (desired + surge - all).clamp(0, desired - asked),
    };
    let mut sizes: Vec<i64> = old.iter().map(|size| size.asked).collect();
    // Growing comes first; what goes is decided when that is done.
    if grown != new.asked {
        return (grown, sizes);
    }
    let least = desired - unavailable;
    let mut room = all - least - (new.asked - new.available).max(0);
    // What does not work goes first: it helps nobody.
    for (size, asked) in old.iter().zip(&mut sizes) {
        let gone = (size.asked - size.available).clamp(0, room.max(0));
        *asked -= gone;
        room -= gone;
    }
    let mut spare = (new.available + old.iter().map(|size| size.available).sum::<i64>() - least).min(room);
    for asked in &mut sizes {
        let gone = (*asked).min(spare.max(0));
        *asked -= gone;
        spare -= gone;
    }
    (grown, sizes)
}

pub(crate) async fn sync(cluster: &Cluster, work: &Work, todo: &mut Todo) -> Result<(), Status> {
    let Some(deployment) = cluster.kinds.deployments.get(&work.namespace, &work.name) else { return Ok(()) };
    let mut sets = cluster.kinds.replica_sets.list(&work.namespace, |entry| owned(entry, deployment.uid()));
    sets.sort_by_key(revision_of);
    let template = template_of(&deployment);
    let at = sets.iter().position(|set| template_of(set) == template);
    if deployment.is_deleting() {
        return status(cluster, &deployment, at.map(|at| sets[at].clone()), &sets, todo, work, false).await;
    }
    let new = at.map(|at| sets.remove(at));
    let old = sets;
    let paused = *crate::look::at(&deployment, "/spec/paused") == true;
    let bounds = Bounds::of(&deployment);
    if paused {
        // Only its size follows.
        let active = new.iter().chain(old.iter().rev()).find(|set| number(set, "/spec/replicas") > 0).or(new.as_ref());
        if let Some(active) = active {
            scale(cluster, &deployment, active, bounds.desired, bounds).await?;
        }
        let all: Vec<Object> = old.into_iter().chain(new.clone()).collect();
        return status(cluster, &deployment, new, &all, todo, work, false).await;
    }
    let recreate = text(&deployment, "/spec/strategy/type") == "Recreate";
    if recreate {
        for set in old.iter().filter(|set| number(set, "/spec/replicas") > 0) {
            scale(cluster, &deployment, set, 0, bounds).await?;
        }
        if old.iter().any(|set| {
            pods_of(cluster, set).iter().any(|pod| !matches!(crate::look::phase(pod), "Succeeded" | "Failed"))
        }) {
            let all: Vec<Object> = old.into_iter().chain(new.clone()).collect();
            // The pods of the old sets tell their own set only.
            todo.after(Duration::from_millis(200), work.clone());
            return status(cluster, &deployment, new, &all, todo, work, false).await;
        }
    }
    let created = new.is_none();
    let next = old.iter().map(revision_of).max().unwrap_or_default() + 1;
    let new = match new {
        Some(set) => set,
        None => match create(cluster, &deployment, &template, next).await? {
            Some(set) => set,
            // A name was taken: the next look takes another.
            None => {
                todo.now(work.clone());
                return Ok(());
            }
        },
    };
    number_revision(cluster, &deployment, &new, next).await?;
    if recreate {
        scale(cluster, &deployment, &new, bounds.desired, bounds).await?;
    } else {
        let sizes: Vec<Size> = old.iter().map(Size::of).collect();
        let (grown, shrunk) = roll(bounds, Size::of(&new), &sizes);
        scale(cluster, &deployment, &new, grown, bounds).await?;
        for (set, size) in old.iter().zip(shrunk) {
            scale(cluster, &deployment, set, size, bounds).await?;
        }
    }
    let all = cluster.kinds.replica_sets.list(&work.namespace, |entry| owned(entry, deployment.uid()));
    let new = all.iter().find(|set| set.uid() == new.uid()).cloned();
    status(cluster, &deployment, new, &all, todo, work, created).await?;
    forget(cluster, &deployment, &old).await
}

fn revision_of(set: &Object) -> i64 {
    annotation(set, REVISION).and_then(|text| text.parse().ok()).unwrap_or_default()
}

/// The template without what makes it a set's own.
fn template_of(object: &Object) -> Value {
    let mut template = at(object, "/spec/template").clone();
    if let Some(Value::Object(labels)) = template.pointer_mut("/metadata/labels") {
        labels.remove(HASH);
    }
    if let Some(Value::Object(meta)) = template.get_mut("metadata") {
        meta.remove("creationTimestamp");
    }
    template
}

/// Makes the set of a template; none when its name is somebody else's.
async fn create(
    cluster: &Cluster,
    deployment: &Object,
    template: &Value,
    revision: i64,
) -> Result<Option<Object>, Status> {
    let collisions = number(deployment, "/status/collisionCount").to_string();
    let suffix = short_hash(hash(&[&template.to_string(), &collisions]));
    let name = format!("{}-{suffix}", deployment.name());
    let mut template = template.clone();
    template["metadata"]["labels"][HASH] = suffix.as_str().into();
    let mut selector = at(deployment, "/spec/selector").clone();
    selector["matchLabels"][HASH] = suffix.as_str().into();
    let set = json!({
        "metadata": {"name": name, "labels": template["metadata"]["labels"], "annotations": inherited(deployment, revision),
            "ownerReferences": owner_reference("apps/v1", "Deployment", deployment)},
        "spec": {"replicas": 0, "selector": selector, "template": template,
            "minReadySeconds": number(deployment, "/spec/minReadySeconds")},
    });
    match cluster.kinds.replica_sets.create(deployment.namespace(), Object::from_value(set).unwrap_or_default()).await {
        Ok(set) => Ok(Some(set)),
        Err(error) if error.reason == Reason::AlreadyExists => {
            let counted = cluster.kinds.deployments.set(deployment.namespace(), deployment.name(), |deployment| {
                let next = number(deployment, "/status/collisionCount") + 1;
                part(deployment, "status").insert("collisionCount".into(), next.into());
            });
            counted.await.map(|()| None)
        }
        Err(error) => {
            let why = format!("Failed to create new replica set {name:?}: {}", error.message);
            cluster.tell(deployment, Happening::warning(CONTROLLER, "ReplicaSetCreateError", why)).await;
            Err(error)
        }
    }
}

/// The annotations a set takes over from its deployment.
fn inherited(deployment: &Object, revision: i64) -> Value {
    let mut out = deployment.meta().get("annotations").cloned().unwrap_or_else(|| json!({}));
    if let Some(map) = out.as_object_mut() {
        map.remove(LAST_APPLIED);
        map.remove(HISTORY);
    }
    let bounds = Bounds::of(deployment);
    out[REVISION] = revision.to_string().into();
    out[DESIRED] = bounds.desired.to_string().into();
    out[MAX] = (bounds.desired + bounds.surge).to_string().into();
    out
}

/// The newest template has the highest number, also when it was there before.
async fn number_revision(cluster: &Cluster, deployment: &Object, set: &Object, next: i64) -> Result<(), Status> {
    let own = revision_of(set);
    let revision = own.max(next).to_string();
    if own < next {
        cluster
            .kinds
            .replica_sets
            .update(set.namespace(), set.name(), |set| {
                let annotations = entries(set, "annotations");
                let past = annotations.get(HISTORY).and_then(Value::as_str).unwrap_or_default();
                let past = if past.is_empty() { own.to_string() } else { format!("{past},{own}") };
                annotations.insert(HISTORY.into(), past.into());
                annotations.insert(REVISION.into(), revision.as_str().into());
            })
            .await?;
    }
    if annotation(deployment, REVISION) != Some(&revision) {
        let numbered = cluster.kinds.deployments.update(deployment.namespace(), deployment.name(), |deployment| {
            entries(deployment, "annotations").insert(REVISION.into(), revision.as_str().into());
        });
        numbered.await?;
    }
    Ok(())
}

async fn scale(cluster: &Cluster, deployment: &Object, set: &Object, to: i64, bounds: Bounds) -> Result<(), Status> {
    let from = number(set, "/spec/replicas");
    let (desired, max) = (bounds.desired.to_string(), (bounds.desired + bounds.surge).to_string());
    if from == to && annotation(set, DESIRED) == Some(&desired) && annotation(set, MAX) == Some(&max) {
        return Ok(());
    }
    let scaled = cluster.kinds.replica_sets.update(set.namespace(), set.name(), |set| {
        part(set, "spec").insert("replicas".into(), to.into());
        let annotations = entries(set, "annotations");
        annotations.insert(DESIRED.into(), desired.as_str().into());
        annotations.insert(MAX.into(), max.as_str().into());
    });
    match scaled.await {
        Err(error) if is_race(&error) => return Ok(()),
        outcome => outcome?,
    };
    if from != to {
        let way = if to > from { "up" } else { "down" };
        let why = format!("Scaled {way} replica set {} from {from} to {to}", set.name());
        cluster.tell(deployment, Happening::normal(CONTROLLER, "ScalingReplicaSet", why)).await;
    }
    Ok(())
}

/// Old sets beyond the limit go, the oldest first.
async fn forget(cluster: &Cluster, deployment: &Object, old: &[Object]) -> Result<(), Status> {
    let Some(limit) = at(deployment, "/spec/revisionHistoryLimit").as_u64() else { return Ok(()) };
    let empty = |set: &&Object| {
        number(set, "/spec/replicas") == 0 && number(set, "/status/replicas") == 0 && !set.is_deleting()
    };
    let idle: Vec<&Object> = old.iter().filter(empty).collect();
    let beyond = idle.len().saturating_sub(usize::try_from(limit).unwrap_or(usize::MAX));
    for set in &idle[..beyond] {
        let gone = cluster.kinds.replica_sets.delete(set.namespace(), set.name(), &DeleteOptions::default()).await;
        gone.or_else(|error| if is_race(&error) { Ok(()) } else { Err(error) })?;
    }
    Ok(())
}

async fn status(
    cluster: &Cluster,
    deployment: &Object,
    new: Option<Object>,
    all: &[Object],
    todo: &mut Todo,
    work: &Work,
    created: bool,
) -> Result<(), Status> {
    let sum = |key: &str| all.iter().map(|set| number(set, &format!("/status/{key}"))).sum::<i64>();
    let (replicas, ready, available) = (sum("replicas"), sum("readyReplicas"), sum("availableReplicas"));
    let updated = new.as_ref().map(|set| number(set, "/status/replicas")).unwrap_or_default();
    let bounds = Bounds::of(deployment);
    let unavailable = (all.iter().map(|set| number(set, "/spec/replicas")).sum::<i64>() - available).max(0);
    let complete = updated == bounds.desired && replicas == bounds.desired && available == bounds.desired;
    let moved = number(deployment, "/status/updatedReplicas") != updated
        || number(deployment, "/status/replicas") > replicas
        || number(deployment, "/status/readyReplicas") < ready
        || number(deployment, "/status/availableReplicas") < available;
    let progress = Progress {
        set: new.as_ref().map(Object::name).unwrap_or_default(),
        complete,
        created,
        moved,
        paused: *at(deployment, "/spec/paused") == true,
    };
    let now = cluster.stamp();
    let before = condition(deployment, "Progressing");
    let deadline = at(deployment, "/spec/progressDeadlineSeconds").as_i64().filter(|s| *s < i64::from(i32::MAX));
    let since = before["lastUpdateTime"].as_str().and_then(|stamp| cluster.since(stamp));
    let late = deadline.zip(since).is_some_and(|(deadline, since)| since >= deadline);
    let progressing = progress.condition(before, late, &now);
    if let Some(deadline) = deadline.filter(|_| !complete && !late) {
        let left = deadline - since.unwrap_or_default();
        todo.after(Duration::from_secs(u64::try_from(left.max(1)).unwrap_or(1)), work.clone());
    }
    let written = cluster.kinds.deployments.set(&work.namespace, &work.name, |current| {
        let status = part(current, "status");
        for (key, count) in [
            ("replicas", replicas),
            ("updatedReplicas", updated),
            ("readyReplicas", ready),
            ("availableReplicas", available),
            ("unavailableReplicas", unavailable),
        ] {
            match count {
                0 => status.remove(key),
                count => status.insert(key.into(), count.into()),
            };
        }
        status.insert("observedGeneration".into(), deployment.generation().into());
        let enough = available >= bounds.desired - bounds.unavailable;
        let (flag, reason, message) = match enough {
            true => ("True", "MinimumReplicasAvailable", "Deployment has minimum availability."),
            false => ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability."),
        };
        upsert(status, json!({"type": "Available", "status": flag, "reason": reason, "message": message}), &now);
        if let Some(progressing) = &progressing {
            upsert(status, progressing.clone(), &now);
        }
    });
    written.await.or_else(|error| if is_race(&error) { Ok(()) } else { Err(error) })
}

/// A condition that says when it was last touched; one that says the same stays untouched.
fn upsert(status: &mut serde_json::Map<String, Value>, mut condition: Value, now: &str) {
    let same = |old: &&Value| ["type", "status", "reason", "message"].iter().all(|key| old[*key] == condition[*key]);
    let old = status.get("conditions").and_then(Value::as_array).into_iter().flatten().find(same);
    if old.is_some() && condition.get("lastUpdateTime").is_none() {
        return;
    }
    condition["lastUpdateTime"] = now.into();
    set_condition(status, condition, now);
}

/// How a rollout stands.
struct Progress<'a> {
    set: &'a str,
    complete: bool,
    created: bool,
    moved: bool,
    paused: bool,
}

impl Progress<'_> {
    /// The condition to set; none when the old one holds.
    fn condition(&self, before: &Value, late: bool, now: &str) -> Option<Value> {
        let made = |flag: &str, reason: &str, message: String, touch: bool| {
            let mut condition = json!({"type": "Progressing", "status": flag, "reason": reason, "message": message});
            if touch {
                condition["lastUpdateTime"] = now.into();
            }
            Some(condition)
        };
        let set = self.set;
        if self.paused {
            return made("Unknown", "DeploymentPaused", "Deployment is paused".into(), false);
        }
        if before["reason"] == "DeploymentPaused" && !self.complete {
            return made("Unknown", "DeploymentResumed", "Deployment is resumed".into(), true);
        }
        if self.complete {
            return made(
                "True",
                "NewReplicaSetAvailable",
                format!("ReplicaSet {set:?} has successfully progressed."),
                false,
            );
        }
        if self.created {
            return made("True", "NewReplicaSetCreated", format!("Created new replica set {set:?}"), true);
        }
        // Once it succeeded it is not late again until there is a new template, whatever becomes of its pods.
        if before["reason"] == "NewReplicaSetAvailable" && !self.moved {
            return None;
        }
        if self.moved {
            return made("True", "ReplicaSetUpdated", format!("ReplicaSet {set:?} is progressing."), true);
        }
        if late || before["reason"] == "ProgressDeadlineExceeded" {
            return made(
                "False",
                "ProgressDeadlineExceeded",
                format!("ReplicaSet {set:?} has timed out progressing."),
                false,
            );
        }
        if before.is_null() {
            return made("True", "ReplicaSetUpdated", format!("ReplicaSet {set:?} is progressing."), true);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const fn size(asked: i64, available: i64) -> Size {
        Size { asked, available }
    }

    #[test]
    fn a_rollout_grows_within_the_surge_and_shrinks_within_what_may_miss() {
        let bounds = Bounds { desired: 4, surge: 1, unavailable: 1 };
        assert_eq!(roll(bounds, size(0, 0), &[size(4, 4)]), (1, vec![4]));
        assert_eq!(roll(bounds, size(1, 0), &[size(4, 4)]), (1, vec![3]));
        assert_eq!(roll(bounds, size(1, 0), &[size(3, 3)]), (2, vec![3]));
        assert_eq!(roll(bounds, size(4, 4), &[size(1, 1)]), (4, vec![0]));
        assert_eq!(roll(bounds, size(2, 0), &[size(2, 0), size(1, 1)]), (2, vec![2, 1]).clone());
    }

    proptest! {
        /// Whatever the bounds, a rollout in which every pod comes up ends with the new set alone, and never leaves its bounds.
        #[test]
        fn a_rollout_ends_and_keeps_its_bounds(desired in 0i64..30, surge in 0i64..5, unavailable in 0i64..5, old in prop::collection::vec(0i64..20, 0..4)) {
            let unavailable = unavailable.min(desired);
            let unavailable = if surge == 0 && unavailable == 0 { 1 } else { unavailable };
            let bounds = Bounds { desired, surge, unavailable };
            let mut new = size(0, 0);
            let mut old: Vec<Size> = old.into_iter().map(|n| size(n, n)).collect();
            for _ in 0..200 {
                let before: i64 = new.available + old.iter().map(|s| s.available).sum::<i64>();
                let total_before: i64 = new.asked + old.iter().map(|s| s.asked).sum::<i64>();
                let (grown, shrunk) = roll(bounds, new, &old);
                let total: i64 = grown + shrunk.iter().sum::<i64>();
                prop_assert!(total <= (desired + surge).max(total_before));
                for (set, to) in old.iter_mut().zip(&shrunk) {
                    prop_assert!(*to >= 0 && *to <= set.asked);
                    *set = size(*to, set.available.min(*to));
                }
                let left: i64 = new.available + old.iter().map(|s| s.available).sum::<i64>();
                prop_assert!(left >= (desired - unavailable).min(before), "never below what must be there");
                new = size(grown, grown);
            }
            prop_assert_eq!(new.asked, desired);
            prop_assert!(old.iter().all(|set| set.asked == 0));
        }
    }
}
