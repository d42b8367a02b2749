//! `metrics.k8s.io`: what pods and nodes use. The numbers are made of names and the time: they move, and are the same for all who ask.

use apiserver::Body;
use http::{Response, header};
use meta::options::{ListOptions, Query};
use meta::{GroupResource, Object, Status};
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::look::{hash, list, phase};
use crate::node;

pub(crate) const GROUP: &str = "metrics.k8s.io";
const VERSION: &str = "v1beta1";
/// How long numbers stay, in seconds.
const WINDOW: i64 = 30;

/// Processor in thousandths, memory in Mi.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Usage {
    cpu: u64,
    memory: u64,
}

impl Usage {
    fn plus(self, other: Self) -> Self {
        Self { cpu: self.cpu + other.cpu, memory: self.memory + other.memory }
    }

    fn to_value(self) -> Value {
        json!({"cpu": format!("{}m", self.cpu), "memory": format!("{}Mi", self.memory)})
    }
}

/// A container's: around a level of its own, a little up and down from window to window.
fn usage(pod: &Object, container: &str, window: i64) -> Usage {
    let level = hash(&[pod.uid(), container]);
    let sway = hash(&[pod.uid(), container, &window.to_string()]);
    Usage { cpu: 5 + level % 120 + sway % 40, memory: 16 + (level >> 16) % 200 + (sway >> 16) % 8 }
}

fn of_pod(pod: &Object, window: i64) -> Vec<(String, Usage)> {
    let running = list(pod, "/status/containerStatuses").iter().filter(|status| status["state"]["running"].is_object());
    running
        .filter_map(|status| status["name"].as_str())
        .map(|name| (name.to_owned(), usage(pod, name, window)))
        .collect()
}

fn total(pod: &Object, window: i64) -> Usage {
    of_pod(pod, window).into_iter().map(|(_, usage)| usage).fold(Usage::default(), Usage::plus)
}

fn api_version() -> String {
    format!("{GROUP}/{VERSION}")
}

fn pod_metrics(pod: &Object, now: &str, window: i64) -> Value {
    let containers: Vec<Value> =
        of_pod(pod, window).into_iter().map(|(name, usage)| json!({"name": name, "usage": usage.to_value()})).collect();
    json!({"kind": "PodMetrics", "apiVersion": api_version(), "timestamp": now, "window": format!("{WINDOW}s"), "containers": containers,
        "metadata": {"name": pod.name(), "namespace": pod.namespace(), "creationTimestamp": now, "labels": pod.meta().get("labels")}})
}

fn node_metrics(cluster: &Cluster, node: &Object, now: &str, window: i64) -> Value {
    let idle = Usage { cpu: 120, memory: 900 };
    let used = node::pods_on(cluster, node.name()).iter().map(|pod| total(pod, window)).fold(idle, Usage::plus);
    json!({"kind": "NodeMetrics", "apiVersion": api_version(), "timestamp": now, "window": format!("{WINDOW}s"), "usage": used.to_value(),
        "metadata": {"name": node.name(), "creationTimestamp": now, "labels": node.meta().get("labels")}})
}

/// What is asked for behind the group's name; none when there is no such thing.
pub(crate) fn answer(cluster: &Cluster, path: &[&str], query: &Query<'_>) -> Result<Option<Value>, Status> {
    let now = cluster.stamp();
    let window = cluster.settings.clock.now().as_second() / WINDOW;
    let running = |pod: &Object| phase(pod) == "Running";
    let many = |kind: &str, items: Vec<Value>| json!({"kind": kind, "apiVersion": api_version(), "metadata": {}, "items": items});
    let pods = |namespace: &str| -> Result<Value, Status> {
        let labels = ListOptions::parse(query)?.labels;
        let chosen = |pod: &Object| running(pod) && labels.matches_with(|key| crate::look::label(pod, key));
        let pods = cluster.kinds.pods.list(namespace, |_| true);
        Ok(many(
            "PodMetricsList",
            pods.iter().filter(|pod| chosen(pod)).map(|pod| pod_metrics(pod, &now, window)).collect(),
        ))
    };
    Ok(Some(match path {
        [] => group(),
        [VERSION] => resources(),
        [VERSION, "nodes"] => {
            let labels = ListOptions::parse(query)?.labels;
            let nodes = cluster.kinds.nodes.list("", |_| true);
            let chosen = nodes
                .iter()
                .filter(|node| !node::is_lost(node))
                .filter(|node| labels.matches_with(|key| crate::look::label(node, key)));
            many("NodeMetricsList", chosen.map(|node| node_metrics(cluster, node, &now, window)).collect())
        }
        [VERSION, "nodes", name] => {
            let node = cluster.kinds.nodes.get("", name).filter(|node| !node::is_lost(node));
            let node =
                node.ok_or_else(|| Status::not_found(GroupResource { group: GROUP, resource: "nodes" }, name))?;
            node_metrics(cluster, &node, &now, window)
        }
        [VERSION, "pods"] => pods("")?,
        [VERSION, "namespaces", namespace, "pods"] => pods(namespace)?,
        [VERSION, "namespaces", namespace, "pods", name] => {
            let pod = cluster.kinds.pods.get(namespace, name).filter(running);
            let pod = pod.ok_or_else(|| Status::not_found(GroupResource { group: GROUP, resource: "pods" }, name))?;
            pod_metrics(&pod, &now, window)
        }
        _ => return Ok(None),
    }))
}

fn group() -> Value {
    let version = json!({"groupVersion": api_version(), "version": VERSION});
    json!({"kind": "APIGroup", "apiVersion": "v1", "name": GROUP, "versions": [version], "preferredVersion": version})
}

const KINDS: [(&str, &str, bool); 2] = [("nodes", "NodeMetrics", false), ("pods", "PodMetrics", true)];

fn resources() -> Value {
    let all = KINDS.map(|(name, kind, namespaced)| {
        json!({"name": name, "singularName": "", "namespaced": namespaced, "kind": kind, "verbs": ["get", "list"]})
    });
    json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": api_version(), "resources": all})
}

/// Adds our group to the list of groups, in whichever form it is.
pub(crate) fn announce(response: Response<Body>) -> Response<Body> {
    let (mut parts, body) = response.into_parts();
    let Body::Full(Some(bytes)) = &body else { return Response::from_parts(parts, body) };
    let Ok(mut document) = serde_json::from_slice::<Value>(bytes) else { return Response::from_parts(parts, body) };
    match (document["kind"].as_str(), document.get("groups").is_some(), document.get("items").is_some()) {
        (Some("APIGroupList"), true, _) => {
            if let Some(groups) = document["groups"].as_array_mut() {
                groups.push(group());
            }
        }
        (Some("APIGroupDiscoveryList"), _, true) => {
            let resources = KINDS.map(|(name, kind, namespaced)| {
                json!({"resource": name, "responseKind": {"group": GROUP, "version": VERSION, "kind": kind}, "singularResource": "",
                    "scope": if namespaced { "Namespaced" } else { "Cluster" }, "verbs": ["get", "list"]})
            });
            let version = json!({"version": VERSION, "freshness": "Current", "resources": resources});
            if let Some(items) = document["items"].as_array_mut() {
                items.push(json!({"metadata": {"name": GROUP, "creationTimestamp": null}, "versions": [version]}));
            }
        }
        _ => return Response::from_parts(parts, body),
    }
    // They were of the list before.
    parts.headers.remove(header::ETAG);
    parts.headers.remove(header::CONTENT_LENGTH);
    Response::from_parts(parts, Body::from(document.to_string().into_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod() -> Object {
        let status = json!({"containerStatuses": [{"name": "web", "state": {"running": {}}}, {"name": "side", "state": {"waiting": {}}}]});
        Object::from_value(json!({"metadata": {"name": "p", "uid": "u"}, "status": status})).unwrap()
    }

    #[test]
    fn only_what_runs_uses_something_and_the_same_for_all_who_ask() {
        let used = of_pod(&pod(), 7);
        assert_eq!(used.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["web"]);
        assert_eq!(used, of_pod(&pod(), 7));
        assert!((0..20).any(|window| total(&pod(), window) != total(&pod(), 7)), "it moves");
    }

    #[test]
    fn the_group_is_added_to_both_forms_of_the_list() {
        for list in
            [json!({"kind": "APIGroupList", "groups": []}), json!({"kind": "APIGroupDiscoveryList", "items": []})]
        {
            let response = announce(crate::doors::json(200, &list));
            let Body::Full(Some(bytes)) = response.into_body() else { panic!("a whole body") };
            assert!(String::from_utf8_lossy(&bytes).contains(GROUP), "{list}");
        }
    }
}
