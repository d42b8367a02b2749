//! Nodes: made at start, never beating, always well until an annotation says that they are lost.

use meta::options::DeleteOptions;
use meta::{Object, Status};
use serde_json::{Value, json};

use crate::cluster::{Cluster, Happening, is_race};
use crate::look::{annotation, at, condition, entries, list, part, set_condition};
use crate::settings::NodePool;
use crate::todo::{Todo, Who, Work};
use crate::{FAIL, Failure};

const CONTROLLER: &str = "node-controller";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const NOT_READY: &str = "node.kubernetes.io/not-ready";
const SILENT: &str = "Kubelet stopped posting node status.";

/// Makes the nodes that are not there yet.
pub(crate) async fn ensure(cluster: &Cluster) -> Result<(), Status> {
    let mut host = 1u32;
    for pool in &cluster.settings.nodes {
        for i in 1..=pool.count {
            host += 1;
            let node = node(pool, i, host, &cluster.stamp());
            match cluster.kinds.nodes.create("", node).await {
                Err(error) if !is_race(&error) => return Err(error),
                Err(_) => {}
                Ok(node) => {
                    turn(cluster, &node, false).await?;
                    let why = format!("Node {name} event: Registered Node {name} in Controller", name = node.name());
                    cluster.tell(&node, Happening::normal(CONTROLLER, "RegisteredNode", why)).await;
                }
            }
        }
    }
    Ok(())
}

fn node(pool: &NodePool, i: usize, host: u32, now: &str) -> Object {
    let name = format!("{}-{i}", pool.prefix);
    let [_, _, c, d] = host.to_be_bytes();
    let mut labels = json!({"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux", "beta.kubernetes.io/arch": "amd64"});
    for (key, value) in &pool.labels {
        labels[key] = value.as_str().into();
    }
    let well = |kind: &str, status: &str, reason: &str, message: &str| {
        json!({"type": kind, "status": status, "reason": reason, "message": message,
            "lastHeartbeatTime": now, "lastTransitionTime": now})
    };
    let resources =
        json!({"cpu": pool.cpu, "memory": pool.memory, "pods": pool.pods.to_string(), "ephemeral-storage": "100Gi"});
    let node = json!({
        "metadata": {"name": name, "labels": labels, "annotations": {"node.alpha.kubernetes.io/ttl": "0"}},
        "spec": {"podCIDR": format!("10.{}.{d}.0/24", 128 + c % 128), "providerID": format!("simulated://{name}")},
        "status": {
            "capacity": resources, "allocatable": resources,
            "addresses": [{"type": "InternalIP", "address": format!("172.18.{c}.{d}")}, {"type": "Hostname", "address": name}],
            "conditions": [
                well("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
                well("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
                well("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
                well("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
            ],
            "nodeInfo": {"machineID": name, "systemUUID": name, "bootID": name, "kernelVersion": "6.12.0-simulated",
                "osImage": "Muster simulated node", "containerRuntimeVersion": "simulated://1.0", "kubeletVersion": "v1.34.4",
                "kubeProxyVersion": "", "operatingSystem": "linux", "architecture": "amd64"},
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        },
    });
    Object::from_value(node).unwrap_or_default()
}

pub(crate) fn is_lost(node: &Object) -> bool {
    Failure::of(annotation(node, FAIL)) == Some(Failure::Lost)
}

fn is_known_lost(node: &Object) -> bool {
    condition(node, "Ready")["status"] == "Unknown"
}

/// Lets a node fall silent or come back, and evicts what stood on it too long.
pub(crate) async fn sync(cluster: &Cluster, name: &str, todo: &mut Todo) -> Result<(), Status> {
    let Some(node) = cluster.kinds.nodes.get("", name) else { return orphaned(cluster, name).await };
    let (lost, known) = (is_lost(&node), is_known_lost(&node));
    // The API server lets nobody onto a new node until somebody says that it is ready.
    let new = !lost && list(&node, "/spec/taints").iter().any(|taint| taint["key"] == NOT_READY);
    if lost != known || new {
        turn(cluster, &node, lost).await?;
        let (reason, message) = match lost {
            true => ("NodeNotReady", format!("Node {name} status is now: NodeNotReady")),
            false => ("NodeReady", format!("Node {name} status is now: NodeReady")),
        };
        cluster.tell(&node, Happening::normal(CONTROLLER, reason, message)).await;
    }
    let pods = pods_on(cluster, name);
    if !lost {
        for pod in pods {
            todo.now(Work::new(Who::Kubelet, pod.namespace(), pod.name()));
        }
        return Ok(());
    }
    let since = text_of(condition(&node, "Ready"), "lastTransitionTime");
    let silent = if known { cluster.since(since).unwrap_or_default() } else { 0 };
    let left = cluster.settings.timing.eviction.as_secs().saturating_sub(silent.max(0).unsigned_abs());
    for pod in &pods {
        unready(cluster, pod).await?;
        if left == 0 && !pod.is_deleting() && !tolerates_loss(pod) {
            let why = format!("Marking for deletion Pod {}/{}", pod.namespace(), pod.name());
            cluster.tell(pod, Happening::normal("taint-eviction-controller", "TaintManagerEviction", why)).await;
            let gone = cluster.kinds.pods.delete(pod.namespace(), pod.name(), &DeleteOptions::default()).await;
            gone.or_else(|error| if is_race(&error) { Ok(()) } else { Err(error) })?;
        }
    }
    if left > 0 {
        todo.after(std::time::Duration::from_secs(left.max(1)), Work::new(Who::Node, "", name));
    }
    Ok(())
}

/// Pods of a node that is no more cannot be ended by anybody: they go at once.
async fn orphaned(cluster: &Cluster, name: &str) -> Result<(), Status> {
    for pod in pods_on(cluster, name) {
        let options =
            DeleteOptions { grace_seconds: Some(0), uid: Some(pod.uid().to_owned()), ..DeleteOptions::default() };
        let gone = cluster.kinds.pods.delete(pod.namespace(), pod.name(), &options).await;
        gone.or_else(|error| if is_race(&error) { Ok(()) } else { Err(error) })?;
    }
    Ok(())
}

fn text_of<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

async fn turn(cluster: &Cluster, node: &Object, lost: bool) -> Result<(), Status> {
    let now = cluster.stamp();
    let done = cluster.kinds.nodes.set("", node.name(), |node| {
        let status = part(node, "status");
        let kinds = ["MemoryPressure", "DiskPressure", "PIDPressure", "Ready"];
        for kind in kinds {
            let (status_text, reason, message) = match (lost, kind) {
                (true, _) => ("Unknown", "NodeStatusUnknown", SILENT),
                (false, "Ready") => ("True", "KubeletReady", "kubelet is posting ready status"),
                (false, "MemoryPressure") => {
                    ("False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available")
                }
                (false, "DiskPressure") => ("False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
                (false, _) => ("False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
            };
            let condition = json!({"type": kind, "status": status_text, "reason": reason, "message": message,
                "lastHeartbeatTime": now});
            set_condition(status, condition, &now);
        }
        let mut taints: Vec<Value> = list(node, "/spec/taints").to_vec();
        taints.retain(|taint| taint["key"] != UNREACHABLE && taint["key"] != NOT_READY);
        if lost {
            for effect in ["NoSchedule", "NoExecute"] {
                taints.push(json!({"key": UNREACHABLE, "effect": effect, "timeAdded": now}));
            }
        }
        let spec = part(node, "spec");
        match taints.is_empty() {
            true => spec.remove("taints"),
            false => spec.insert("taints".into(), taints.into()),
        };
    });
    done.await
}

pub(crate) fn pods_on(cluster: &Cluster, node: &str) -> Vec<Object> {
    cluster.kinds.pods.list("", |entry| entry.attrs.fields.iter().any(|(k, v)| &**k == "spec.nodeName" && **v == *node))
}

/// A pod whose node is silent cannot be counted on.
async fn unready(cluster: &Cluster, pod: &Object) -> Result<(), Status> {
    if condition(pod, "Ready")["status"] != "True" {
        return Ok(());
    }
    let now = cluster.stamp();
    let done = cluster.kinds.pods.set(pod.namespace(), pod.name(), |pod| {
        let lost = json!({"type": "Ready", "status": "False", "reason": "NodeNotReady", "message": "Node is not ready",
            "lastProbeTime": null});
        set_condition(part(pod, "status"), lost, &now);
    });
    match done.await {
        Err(error) if !is_race(&error) => Err(error),
        _ => Ok(()),
    }
}

/// Who tolerates it for a while goes after that while, which is as long as the eviction takes.
fn tolerates_loss(pod: &Object) -> bool {
    list(pod, "/spec/tolerations").iter().any(|t| {
        let named = t["key"] == UNREACHABLE || t["key"].as_str().unwrap_or_default().is_empty();
        let effect = t["effect"].as_str().unwrap_or_default();
        named && matches!(effect, "" | "NoExecute") && t["tolerationSeconds"].is_null()
    })
}

/// The address that pods on the node's own network share.
pub(crate) fn address(node: &Object) -> &str {
    let addresses = list(node, "/status/addresses");
    addresses.iter().find(|a| a["type"] == "InternalIP").and_then(|a| a["address"].as_str()).unwrap_or_default()
}

/// Marks a node as lost, or takes the mark away.
pub(crate) fn mark(node: &mut Object, failure: Option<&str>) {
    let annotations = entries(node, "annotations");
    match failure {
        Some(failure) => annotations.insert(FAIL.into(), failure.into()),
        None => annotations.remove(FAIL),
    };
}

pub(crate) fn is_unschedulable(node: &Object) -> bool {
    *at(node, "/spec/unschedulable") == true || node.is_deleting()
}
