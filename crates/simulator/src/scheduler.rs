//! Which node a pod goes to: what it asks for must be free there, and its selector, affinity and tolerations must allow it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use meta::{Object, Status};
use serde_json::{Value, json};

use crate::cluster::{Cluster, Happening, is_race};
use crate::look::{at, fits, is_active, label, list, part, set_condition, text};
use crate::node;

const SCHEDULER: &str = "default-scheduler";

/// What a pod takes, or a node has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Room {
    pub cpu: i128,
    pub memory: i128,
    pub pods: i128,
}

impl Room {
    /// In billionths, as quantities are read.
    fn of(resources: &Value) -> Self {
        let amount = |name: &str| match &resources[name] {
            Value::String(text) => schema::quantity::nanos(text).unwrap_or_default(),
            value => i128::from(value.as_i64().unwrap_or_default()) * 1_000_000_000,
        };
        Self { cpu: amount("cpu"), memory: amount("memory"), pods: amount("pods") }
    }

    pub fn asked(pod: &Object) -> Self {
        let sum = |path: &str| {
            list(pod, path).iter().map(|c| Self::of(&c["resources"]["requests"])).fold(Self::default(), Self::plus)
        };
        let first = list(pod, "/spec/initContainers").iter().map(|c| Self::of(&c["resources"]["requests"]));
        let first =
            first.fold(Self::default(), |a, b| Self { cpu: a.cpu.max(b.cpu), memory: a.memory.max(b.memory), pods: 0 });
        let main = sum("/spec/containers");
        Self { cpu: main.cpu.max(first.cpu), memory: main.memory.max(first.memory), pods: 1_000_000_000 }
    }

    fn plus(self, other: Self) -> Self {
        Self { cpu: self.cpu + other.cpu, memory: self.memory + other.memory, pods: self.pods + other.pods }
    }

    fn minus(self, other: Self) -> Self {
        Self { cpu: self.cpu - other.cpu, memory: self.memory - other.memory, pods: self.pods - other.pods }
    }
}

/// What stands where, kept up to date by what happens to nodes and pods.
#[derive(Default)]
pub(crate) struct Board {
    nodes: BTreeMap<Arc<str>, Object>,
    used: HashMap<Arc<str>, Room>,
    placed: HashMap<Arc<str>, (Arc<str>, Room)>,
    /// Pods that found no place; they are looked at again when some is made.
    pub waiting: HashSet<(Arc<str>, Arc<str>)>,
}

impl Board {
    pub fn node(&mut self, name: &str, node: Option<Object>) {
        match node {
            Some(node) => _ = self.nodes.insert(name.into(), node),
            None => _ = self.nodes.remove(name),
        }
    }

    pub fn find(&self, name: &str) -> Option<&Object> {
        self.nodes.get(name)
    }

    pub fn nodes(&self) -> impl Iterator<Item = &Object> {
        self.nodes.values()
    }

    /// `key` is the pod's place in the store. True when it made room.
    pub fn pod(&mut self, key: &Arc<str>, pod: Option<&Object>) -> bool {
        let ended = |pod: &&Object| !matches!(text(pod, "/status/phase"), "Succeeded" | "Failed");
        let place = pod.filter(ended).map(|pod| text(pod, "/spec/nodeName")).filter(|node| !node.is_empty());
        match (place, self.placed.contains_key(key)) {
            (Some(node), false) => {
                let (node, room) = (Arc::<str>::from(node), pod.map(Room::asked).unwrap_or_default());
                let used = self.used.entry(Arc::clone(&node)).or_default();
                *used = used.plus(room);
                self.placed.insert(Arc::clone(key), (node, room));
                false
            }
            (None, true) => {
                if let Some((node, room)) = self.placed.remove(key)
                    && let Some(used) = self.used.get_mut(&node)
                {
                    *used = used.minus(room);
                }
                true
            }
            _ => false,
        }
    }

    /// The emptiest node that takes the pod, or why there is none, as the scheduler words it.
    pub fn choose(&self, pod: &Object) -> Result<&str, String> {
        let asked = Room::asked(pod);
        let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
        let mut best: Option<(i128, i128, &str)> = None;
        for (name, node) in &self.nodes {
            let used = self.used.get(name).copied().unwrap_or_default();
            match refusal(node, pod, used, asked) {
                Some(why) => *reasons.entry(why).or_default() += 1,
                None => {
                    let candidate = (used.pods, used.cpu, &**name);
                    if best.is_none_or(|best| candidate < best) {
                        best = Some(candidate);
                    }
                }
            }
        }
        best.map(|(_, _, name)| name).ok_or_else(|| {
            if self.nodes.is_empty() {
                return "no nodes available to schedule pods".to_owned();
            }
            let mut told: Vec<String> = reasons.into_iter().map(|(why, count)| format!("{count} {why}")).collect();
            told.sort();
            format!("0/{} nodes are available: {}.", self.nodes.len(), told.join(", "))
        })
    }
}

/// Why a node does not take a pod.
fn refusal(node: &Object, pod: &Object, used: Room, asked: Room) -> Option<String> {
    if node::is_unschedulable(node)
        && !tolerated(pod, &json!({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}))
    {
        return Some("node(s) were unschedulable".into());
    }
    if !admits(node, pod) {
        return Some("node(s) didn't match Pod's node affinity/selector".into());
    }
    let held = |taint: &&Value| taint["effect"] != "PreferNoSchedule" && !tolerated(pod, taint);
    if let Some(taint) = list(node, "/spec/taints").iter().find(held) {
        let (key, value) = (taint["key"].as_str().unwrap_or_default(), taint["value"].as_str().unwrap_or_default());
        return Some(format!("node(s) had untolerated taint {{{key}: {value}}}"));
    }
    let left = Room::of(at(node, "/status/allocatable")).minus(used);
    match () {
        () if left.pods < asked.pods => Some("Too many pods".into()),
        () if asked.cpu > 0 && left.cpu < asked.cpu => Some("Insufficient cpu".into()),
        () if asked.memory > 0 && left.memory < asked.memory => Some("Insufficient memory".into()),
        () => None,
    }
}

/// Whether a pod may be on a node at all: its selector and its required affinity.
pub(crate) fn admits(node: &Object, pod: &Object) -> bool {
    let wanted = at(pod, "/spec/nodeSelector").as_object();
    if wanted.is_some_and(|wanted| !fits(wanted, |key| label(node, key))) {
        return false;
    }
    let required =
        at(pod, "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms");
    let Some(terms) = required.as_array() else { return true };
    terms.iter().any(|term| {
        let all = |key: &str, value: &dyn Fn(&str) -> Option<String>| {
            term[key]
                .as_array()
                .into_iter()
                .flatten()
                .all(|rule| holds(rule, value(rule["key"].as_str().unwrap_or_default())))
        };
        all("matchExpressions", &|key| label(node, key).map(str::to_owned))
            && all("matchFields", &|key| (key == "metadata.name").then(|| node.name().to_owned()))
    })
}

fn holds(rule: &Value, value: Option<String>) -> bool {
    let among = || rule["values"].as_array().into_iter().flatten().any(|v| v.as_str() == value.as_deref());
    let number = |text: Option<&str>| text.and_then(|text| text.parse::<i64>().ok());
    let compare = || number(value.as_deref()).zip(number(rule["values"][0].as_str()));
    match rule["operator"].as_str().unwrap_or_default() {
        "In" => value.is_some() && among(),
        "NotIn" => !among(),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => compare().is_some_and(|(is, than)| is > than),
        "Lt" => compare().is_some_and(|(is, than)| is < than),
        _ => false,
    }
}

pub(crate) fn tolerated(pod: &Object, taint: &Value) -> bool {
    list(pod, "/spec/tolerations").iter().any(|t| {
        let any = |key: &str| t[key].as_str().unwrap_or_default().is_empty();
        let exists = t["operator"] == "Exists";
        (any("effect") || t["effect"] == taint["effect"])
            && ((any("key") && exists) || t["key"] == taint["key"])
            && (exists || t["value"].as_str().unwrap_or_default() == taint["value"].as_str().unwrap_or_default())
    })
}

/// Finds a place for one pod.
pub(crate) async fn sync(
    cluster: &Cluster,
    namespace: &Arc<str>,
    name: &Arc<str>,
    board: &mut Board,
) -> Result<(), Status> {
    let waits = (Arc::clone(namespace), Arc::clone(name));
    let pod = cluster.kinds.pods.get(namespace, name);
    let unplaced = |pod: &Object| is_active(pod) && text(pod, "/spec/nodeName").is_empty();
    let Some(pod) = pod.filter(unplaced).filter(|pod| list(pod, "/spec/schedulingGates").is_empty()) else {
        board.waiting.remove(&waits);
        return Ok(());
    };
    if !matches!(text(&pod, "/spec/schedulerName"), "" | SCHEDULER) {
        return Ok(());
    }
    let now = cluster.stamp();
    match board.choose(&pod) {
        Ok(node) => {
            let node = node.to_owned();
            board.waiting.remove(&waits);
            let bound = cluster.kinds.pods.set(namespace, name, |pod| {
                part(pod, "spec").insert("nodeName".into(), node.as_str().into());
                let bound = json!({"type": "PodScheduled", "status": "True", "lastProbeTime": null});
                set_condition(part(pod, "status"), bound, &now);
            });
            match bound.await {
                Err(error) if is_race(&error) => return Ok(()),
                outcome => outcome?,
            }
            let mut placed = pod.clone();
            part(&mut placed, "spec").insert("nodeName".into(), node.as_str().into());
            board.pod(&format!("{namespace}/{name}").into(), Some(&placed));
            let why = format!("Successfully assigned {namespace}/{name} to {node}");
            cluster.tell(&pod, Happening::normal(SCHEDULER, "Scheduled", why)).await;
        }
        Err(why) => {
            board.waiting.insert(waits);
            let marked = cluster.kinds.pods.set(namespace, name, |pod| {
                let refused = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": why,
                    "lastProbeTime": null});
                set_condition(part(pod, "status"), refused, &now);
            });
            if let Err(error) = marked.await
                && !is_race(&error)
            {
                return Err(error);
            }
            cluster.tell(&pod, Happening::warning(SCHEDULER, "FailedScheduling", why)).await;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(value: Value) -> Object {
        Object::from_value(value).unwrap()
    }

    fn board() -> Board {
        let mut board = Board::default();
        for (name, cpu) in [("a", "2"), ("b", "4")] {
            let node = json!({"metadata": {"name": name, "labels": {"disk": name}}, "status": {"allocatable": {"cpu": cpu, "memory": "1Gi", "pods": "2"}}});
            board.node(name, Some(object(node)));
        }
        board
    }

    fn pod(spec: Value) -> Object {
        object(json!({"metadata": {"name": "p", "namespace": "n"}, "spec": spec}))
    }

    fn asking(cpu: &str) -> Value {
        json!([{"name": "c", "resources": {"requests": {"cpu": cpu}}}])
    }

    #[test]
    fn a_pod_goes_to_the_emptiest_node_that_has_room() {
        let mut board = board();
        assert_eq!(board.choose(&pod(json!({"containers": asking("3")}))), Ok("b"));
        let placed = pod(json!({"nodeName": "b", "containers": asking("3")}));
        assert!(!board.pod(&"n/p".into(), Some(&placed)));
        assert_eq!(board.choose(&pod(json!({"containers": asking("1")}))), Ok("a"));
        let refused = board.choose(&pod(json!({"containers": asking("3")}))).unwrap_err();
        assert_eq!(refused, "0/2 nodes are available: 2 Insufficient cpu.");
        assert!(board.pod(&"n/p".into(), None), "it made room");
        assert_eq!(board.choose(&pod(json!({"containers": asking("3")}))), Ok("b"));
    }

    #[test]
    fn selectors_and_taints_decide_who_may() {
        let mut board = board();
        assert_eq!(board.choose(&pod(json!({"nodeSelector": {"disk": "b"}}))), Ok("b"));
        let tainted = json!({"metadata": {"name": "a", "labels": {"disk": "a"}},
            "spec": {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]}, "status": {"allocatable": {"pods": "9"}}});
        board.node("a", Some(object(tainted)));
        let wanting = json!({"disk": "a"});
        let refused = board.choose(&pod(json!({"nodeSelector": wanting}))).unwrap_err();
        assert!(refused.contains("1 node(s) had untolerated taint {k: v}"), "{refused}");
        let tolerant =
            json!({"nodeSelector": wanting, "tolerations": [{"key": "k", "operator": "Equal", "value": "v"}]});
        assert_eq!(board.choose(&pod(tolerant)), Ok("a"));
        let term = json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b"]}]}]);
        let bound = json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": term}}}});
        assert_eq!(board.choose(&pod(bound)), Ok("b"));
    }
}
