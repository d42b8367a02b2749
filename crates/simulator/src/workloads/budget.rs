//! PodDisruptionBudgets: how many pods may go now, which evictions are decided by.

use std::collections::BTreeSet;

use meta::selector::LabelSelector;
use meta::{Object, Status};
use serde_json::{Map, Value, json};

use crate::cluster::{Cluster, is_race};
use crate::look::{at, controller, is_active, is_true, label, number, part, set_condition, share};
use crate::todo::Work;

/// After so many seconds an eviction that did not come about no longer counts.
const FORGIVEN: i64 = 120;

pub(crate) fn selects(budget: &Object, pod: &Object) -> bool {
    let selector =
        LabelSelector::from_object(at(budget, "/spec/selector")).unwrap_or_else(|_| LabelSelector::nothing());
    selector.matches_with(|key| label(pod, key))
}

pub(crate) async fn sync(cluster: &Cluster, work: &Work) -> Result<(), Status> {
    let Some(budget) = cluster.kinds.budgets.get(&work.namespace, &work.name) else { return Ok(()) };
    let mut pods = cluster.kinds.pods.list(&work.namespace, |_| true);
    pods.retain(|pod| is_active(pod) && selects(&budget, pod));
    let count = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
    let expected = expected(cluster, &pods);
    // Evicted, and not yet marked as such: already spent.
    let spent = at(&budget, "/status/disruptedPods").as_object().cloned().unwrap_or_default();
    let recent =
        |stamp: &Value| stamp.as_str().and_then(|stamp| cluster.since(stamp)).is_some_and(|since| since < FORGIVEN);
    let spent: Map<String, Value> =
        spent.into_iter().filter(|(name, stamp)| recent(stamp) && pods.iter().any(|pod| pod.name() == name)).collect();
    let healthy = count(pods.iter().filter(|pod| is_true(pod, "Ready") && !spent.contains_key(pod.name())).count());
    let desired = match (at(&budget, "/spec/maxUnavailable"), at(&budget, "/spec/minAvailable")) {
        (missing, least) if missing.is_null() => share(least, expected, true),
        (most, _) => (expected - share(most, expected, true)).max(0),
    };
    let allowed = if expected > 0 { (healthy - desired).max(0) } else { 0 };
    let now = cluster.stamp();
    let written = cluster.kinds.budgets.set(&work.namespace, &work.name, |current| {
        let status = part(current, "status");
        for (key, value) in [
            ("expectedPods", expected),
            ("currentHealthy", healthy),
            ("desiredHealthy", desired),
            ("disruptionsAllowed", allowed),
            ("observedGeneration", budget.generation()),
        ] {
            status.insert(key.into(), value.into());
        }
        match spent.is_empty() {
            true => status.remove("disruptedPods"),
            false => status.insert("disruptedPods".into(), spent.clone().into()),
        };
        let (flag, reason) = if allowed > 0 { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
        let condition = json!({"type": "DisruptionAllowed", "status": flag, "reason": reason, "message": "",
            "observedGeneration": budget.generation()});
        set_condition(status, condition, &now);
    });
    written.await.or_else(|error| if is_race(&error) { Ok(()) } else { Err(error) })
}

/// How many there should be: what their sets ask for, and as many as there are of those nobody counts.
fn expected(cluster: &Cluster, pods: &[Object]) -> i64 {
    let mut sets = BTreeSet::new();
    let mut expected = 0;
    for pod in pods {
        let set = match controller(pod) {
            Some(("ReplicaSet", name)) => cluster.kinds.replica_sets.get(pod.namespace(), name),
            Some(("StatefulSet", name)) => cluster.kinds.stateful_sets.get(pod.namespace(), name),
            _ => None,
        };
        match set {
            Some(set) if sets.insert(set.uid().to_owned()) => expected += number(&set, "/spec/replicas"),
            Some(_) => {}
            None => expected += 1,
        }
    }
    expected
}
