//! What a pod's status says in each stage of its life.

use std::time::Duration;

use meta::Object;
use serde_json::{Map, Value, json};

use crate::look::{at, hash, list, set_condition};

pub(crate) fn containers(pod: &Object) -> impl Iterator<Item = &str> {
    list(pod, "/spec/containers").iter().filter_map(|c| c["name"].as_str())
}

/// Containers with their images.
pub(crate) fn images(pod: &Object) -> impl Iterator<Item = (&str, &str)> {
    list(pod, "/spec/containers")
        .iter()
        .filter_map(|c| Some((c["name"].as_str()?, c["image"].as_str().unwrap_or_default())))
}

/// How often its containers were started again.
pub(crate) fn restarts(pod: &Object) -> u32 {
    let counts = list(pod, "/status/containerStatuses").iter().filter_map(|s| s["restartCount"].as_u64());
    counts.max().and_then(|n| u32::try_from(n).ok()).unwrap_or_default()
}

fn status(pod: &Object) -> Map<String, Value> {
    at(pod, "/status").as_object().cloned().unwrap_or_default()
}

fn conditions(status: &mut Map<String, Value>, started: bool, ready: Option<&str>, now: &str) {
    let flag = |yes: bool| if yes { "True" } else { "False" };
    let mut set = |kind: &str, yes: bool, reason: Option<(&str, &str)>| {
        let mut condition = json!({"type": kind, "status": flag(yes), "lastProbeTime": null});
        if let Some((reason, message)) = reason {
            condition["reason"] = reason.into();
            condition["message"] = message.into();
        }
        set_condition(status, condition, now);
    };
    set("PodReadyToStartContainers", started, None);
    set("Initialized", true, None);
    let reason = ready.map(|message| match message {
        "" => ("PodCompleted", ""),
        message => ("ContainersNotReady", message),
    });
    set("Ready", ready.is_none(), reason);
    set("ContainersReady", ready.is_none(), reason);
    set("PodScheduled", true, None);
}

fn unready(pod: &Object) -> String {
    format!("containers with unready status: [{}]", containers(pod).collect::<Vec<_>>().join(" "))
}

/// One entry of `containerStatuses`; what is known of the container before stays.
fn container(pod: &Object, name: &str, image: &str, state: Value, ready: bool, started: bool) -> Value {
    let before = list(pod, "/status/containerStatuses").iter().find(|s| s["name"] == name);
    let kept = |key: &str| before.map(|b| b[key].clone()).filter(|v| !v.is_null());
    let image_id = if started { format!("simulated/{image}@sha256:{:064x}", hash(&[image])) } else { String::new() };
    let mut out = json!({"name": name, "image": image, "imageID": image_id, "ready": ready, "started": started,
        "restartCount": kept("restartCount").unwrap_or(0.into()), "lastState": kept("lastState").unwrap_or(json!({})), "state": state});
    if started {
        out["containerID"] = identity(pod, name, out["restartCount"].as_u64().unwrap_or_default()).into();
    }
    out
}

fn identity(pod: &Object, name: &str, restarts: u64) -> String {
    format!("simulated://{:016x}", hash(&[pod.uid(), name, &restarts.to_string()]))
}

fn each(pod: &Object, make: impl Fn(usize, &str, &str) -> Value) -> Value {
    images(pod).enumerate().map(|(i, (name, image))| make(i, name, image)).collect()
}

/// Bound to a node, images on their way.
pub(crate) fn creating(pod: &Object, host: &str, now: &str) -> Map<String, Value> {
    let mut out = status(pod);
    out.insert("phase".into(), "Pending".into());
    out.insert("hostIP".into(), host.into());
    out.insert("hostIPs".into(), json!([{"ip": host}]));
    out.entry("startTime").or_insert_with(|| now.into());
    conditions(&mut out, false, Some(&unready(pod)), now);
    let state = json!({"waiting": {"reason": "ContainerCreating"}});
    out.insert(
        "containerStatuses".into(),
        each(pod, |_, name, image| container(pod, name, image, state.clone(), false, false)),
    );
    out
}

/// Waiting for each container's own reason.
pub(crate) fn waiting(pod: &Object, reasons: &[(&str, String)], now: &str) -> Map<String, Value> {
    let mut out = status(pod);
    conditions(&mut out, true, Some(&unready(pod)), now);
    let make = |i: usize, name: &str, image: &str| {
        let (reason, message) = reasons.get(i).map(|(r, m)| (*r, m.as_str())).unwrap_or_default();
        container(pod, name, image, json!({"waiting": {"reason": reason, "message": message}}), false, false)
    };
    out.insert("containerStatuses".into(), each(pod, make));
    out
}

pub(crate) fn running(pod: &Object, address: &str, ready: bool, now: &str) -> Map<String, Value> {
    let mut out = status(pod);
    out.insert("phase".into(), "Running".into());
    out.insert("podIP".into(), address.into());
    out.insert("podIPs".into(), json!([{"ip": address}]));
    let message = unready(pod);
    conditions(&mut out, true, if ready { None } else { Some(&message) }, now);
    let make = |_, name: &str, image: &str| {
        let before = list(pod, "/status/containerStatuses").iter().find(|s| s["name"] == name);
        let since = before.map(|b| b["state"]["running"]["startedAt"].clone()).filter(Value::is_string);
        let state = json!({"running": {"startedAt": since.unwrap_or_else(|| now.into())}});
        container(pod, name, image, state, ready, true)
    };
    out.insert("containerStatuses".into(), each(pod, make));
    let first: Vec<Value> = list(pod, "/spec/initContainers")
        .iter()
        .filter_map(|c| Some((c["name"].as_str()?, c["image"].as_str().unwrap_or_default())))
        .map(|(name, image)| {
            let done = terminated(pod, name, 0, now, now);
            let mut out = container(pod, name, image, json!({"terminated": done}), true, true);
            out["started"] = false.into();
            out
        })
        .collect();
    if !first.is_empty() && !out.contains_key("initContainerStatuses") {
        out.insert("initContainerStatuses".into(), first.into());
    }
    out
}

fn terminated(pod: &Object, name: &str, code: i64, since: &str, now: &str) -> Value {
    let before = list(pod, "/status/containerStatuses").iter().find(|s| s["name"] == name);
    let restarts = before.and_then(|b| b["restartCount"].as_u64()).unwrap_or_default();
    json!({"exitCode": code, "reason": if code == 0 { "Completed" } else { "Error" }, "startedAt": since, "finishedAt": now,
        "containerID": identity(pod, name, restarts)})
}

fn since<'a>(pod: &'a Object, name: &str, now: &'a str) -> &'a str {
    let before = list(pod, "/status/containerStatuses").iter().find(|s| s["name"] == name);
    before.and_then(|b| b["state"]["running"]["startedAt"].as_str()).unwrap_or(now)
}

/// Over for good.
pub(crate) fn ended(pod: &Object, code: i64, now: &str) -> Map<String, Value> {
    let mut out = status(pod);
    out.insert("phase".into(), if code == 0 { "Succeeded" } else { "Failed" }.into());
    conditions(&mut out, false, Some(if code == 0 { "" } else { "containers have failed" }), now);
    let make = |_, name: &str, image: &str| {
        let state = json!({"terminated": terminated(pod, name, code, since(pod, name, now), now)});
        let mut made = container(pod, name, image, state, false, true);
        made["started"] = false.into();
        made
    };
    out.insert("containerStatuses".into(), each(pod, make));
    out
}

/// Ended, and to be started again after a while.
pub(crate) fn crashed(pod: &Object, code: i64, wait: Duration, now: &str) -> Map<String, Value> {
    let mut out = status(pod);
    conditions(&mut out, true, Some(&unready(pod)), now);
    let make = |_, name: &str, image: &str| {
        let message = format!(
            "back-off {} restarting failed container={name} pod={}_{}({})",
            meta::time::human(wait),
            pod.name(),
            pod.namespace(),
            pod.uid()
        );
        let state = json!({"waiting": {"reason": "CrashLoopBackOff", "message": message}});
        let mut made = container(pod, name, image, state, false, true);
        made["started"] = false.into();
        made["lastState"] = json!({"terminated": terminated(pod, name, code, since(pod, name, now), now)});
        made["restartCount"] = (made["restartCount"].as_u64().unwrap_or_default() + 1).into();
        made
    };
    out.insert("containerStatuses".into(), each(pod, make));
    out
}
