//! What `kubectl get pods` prints.

use crate::kinds::check::At;
use crate::kinds::columns::{AGE, age};
use jiff::Timestamp;
use meta::table::Column;
use meta::{Object, time};
use serde_json::Value;
use std::collections::HashSet;

pub const POD: &[Column] = &[
    Column::name(),
    Column::new("Ready", "string"),
    Column::new("Status", "string"),
    Column::new("Restarts", "string"),
    AGE,
    Column::new("IP", "string").wide(),
    Column::new("Node", "string").wide(),
    Column::new("Nominated Node", "string").wide(),
    Column::new("Readiness Gates", "string").wide(),
];

pub fn pod(object: &Object, now: Timestamp) -> Vec<Value> {
    let root = At::root("", &object.0);
    let (spec, status) = (root.part("spec"), root.part("status"));
    let seen = look(object, &spec, &status);
    let restarts = match seen.last_restart {
        Some(at) if seen.restarts > 0 => format!("{} ({} ago)", seen.restarts, time::age(at, now)),
        _ => seen.restarts.to_string(),
    };
    let or_none = |text: &str| Value::from(if text.is_empty() { "<none>" } else { text });
    vec![
        object.name().into(),
        format!("{}/{}", seen.ready, seen.containers).into(),
        seen.reason.into(),
        restarts.into(),
        age(object, now),
        or_none(status.text("podIP")),
        or_none(spec.text("nodeName")),
        or_none(status.text("nominatedNodeName")),
        gates(&spec, &status).into(),
    ]
}

struct Seen<'a> {
    ready: usize,
    containers: usize,
    reason: String,
    restarts: i64,
    last_restart: Option<&'a str>,
}

/// Restarts of containers, and when the last one was.
#[derive(Default)]
struct Restarts<'a> {
    count: i64,
    last: Option<&'a str>,
}

impl<'a> Restarts<'a> {
    fn add(&mut self, container: &At<'a>) {
        self.count += container.int("restartCount").unwrap_or_default();
        let ended = container.value("lastState").get("terminated").and_then(|t| t.get("finishedAt"));
        // Times of one form compare as text.
        self.last = self.last.max(ended.and_then(Value::as_str));
    }
}

/// A pod's state in one word: what its containers say goes before what its phase says.
fn look<'a>(object: &Object, spec: &'a At<'a>, status: &'a At<'a>) -> Seen<'a> {
    let mut reason = match status.text("reason") {
        "" => status.text("phase").to_owned(),
        reason => reason.to_owned(),
    };
    let gated = |c: &At<'_>| c.text("type") == "PodScheduled" && c.text("reason") == "SchedulingGated";
    if status.items("conditions").any(|condition| gated(&condition)) {
        reason = "SchedulingGated".into();
    }
    let sidecars: HashSet<&str> =
        spec.items("initContainers").filter(|c| c.text("restartPolicy") == "Always").map(|c| c.text("name")).collect();
    let mut ready = 0;
    let (mut all, mut lasting) = (Restarts::default(), Restarts::default());
    let mut initializing = false;
    for (i, container) in status.items("initContainerStatuses").enumerate() {
        all.add(&container);
        let sidecar = sidecars.contains(container.text("name"));
        if sidecar {
            lasting.add(&container);
        }
        let state = container.part("state");
        let ended = state.child("terminated");
        if ended.is_some_and(|ended| ended.int("exitCode").unwrap_or_default() == 0) {
            continue;
        }
        if sidecar && container.flag("started") {
            ready += usize::from(container.flag("ready"));
            continue;
        }
        let waiting = state.part("waiting");
        let waits = waiting.text("reason");
        reason = match &ended {
            Some(ended) => format!("Init:{}", why_ended(ended)),
            None if !waits.is_empty() && waits != "PodInitializing" => format!("Init:{waits}"),
            None => format!("Init:{i}/{}", spec.list("initContainers").len()),
        };
        initializing = true;
        break;
    }
    let is_true = |kind: &str| status.items("conditions").any(|c| c.text("type") == kind && c.text("status") == "True");
    if !initializing || is_true("Initialized") {
        all = lasting;
        let mut running = false;
        let statuses: Vec<At<'_>> = status.items("containerStatuses").collect();
        for container in statuses.iter().rev() {
            all.add(container);
            let state = container.part("state");
            let waiting = state.part("waiting");
            if !waiting.text("reason").is_empty() {
                reason = waiting.text("reason").to_owned();
            } else if let Some(ended) = state.child("terminated") {
                reason = why_ended(&ended);
            } else if container.flag("ready") && state.has("running") {
                running = true;
                ready += 1;
            }
        }
        if reason == "Completed" && running {
            reason = if is_true("Ready") { "Running" } else { "NotReady" }.to_owned();
        }
    }
    if object.is_deleting() {
        if status.text("reason") == "NodeLost" {
            reason = "Unknown".into();
        } else if !matches!(status.text("phase"), "Failed" | "Succeeded") {
            reason = "Terminating".into();
        }
    }
    let containers = spec.list("containers").len() + sidecars.len();
    Seen { ready, containers, reason, restarts: all.count, last_restart: all.last }
}

fn why_ended(ended: &At<'_>) -> String {
    match (ended.text("reason"), ended.int("signal").unwrap_or_default()) {
        ("", 0) => format!("ExitCode:{}", ended.int("exitCode").unwrap_or_default()),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

fn gates(spec: &At<'_>, status: &At<'_>) -> String {
    let gates: Vec<&str> = spec.items("readinessGates").map(|gate| gate.text("conditionType")).collect();
    if gates.is_empty() {
        return "<none>".to_owned();
    }
    let open: HashSet<&str> =
        status.items("conditions").filter(|c| c.text("status") == "True").map(|c| c.text("type")).collect();
    let open = |gate: &&&str| open.contains(**gate);
    format!("{}/{}", gates.iter().filter(open).count(), gates.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn status_of(spec: Value, status: Value, deleting: bool) -> (String, String) {
        let mut object =
            Object::from_value(json!({"metadata": {"name": "a"}, "spec": spec, "status": status})).unwrap();
        if deleting {
            object.set_meta("deletionTimestamp", "2026-01-01T00:00:00Z");
        }
        let cells = pod(&object, Timestamp::UNIX_EPOCH);
        (cells[1].as_str().unwrap().to_owned(), cells[2].as_str().unwrap().to_owned())
    }

    #[test]
    fn the_state_of_a_pod_is_what_its_containers_say() {
        let one = json!({"containers": [{"name": "a"}]});
        let of = |state: Value, ready: bool| json!({"phase": "Running", "containerStatuses": [{"name": "a", "ready": ready, "state": state}]});
        for (status, ready, reason) in [
            (json!({"phase": "Pending"}), "0/1", "Pending"),
            (json!({"phase": "Failed", "reason": "Evicted"}), "0/1", "Evicted"),
            (of(json!({"running": {}}), true), "1/1", "Running"),
            (of(json!({"waiting": {"reason": "CrashLoopBackOff"}}), false), "0/1", "CrashLoopBackOff"),
            (of(json!({"terminated": {"exitCode": 3}}), false), "0/1", "ExitCode:3"),
            (of(json!({"terminated": {"exitCode": 0, "signal": 9}}), false), "0/1", "Signal:9"),
            (of(json!({"terminated": {"exitCode": 0, "reason": "Completed"}}), false), "0/1", "Completed"),
        ] {
            assert_eq!(status_of(one.clone(), status.clone(), false), (ready.into(), reason.into()), "{status}");
        }
        assert_eq!(status_of(one.clone(), json!({"phase": "Running"}), true).1, "Terminating");
        assert_eq!(status_of(one, json!({"phase": "Succeeded"}), true).1, "Succeeded");
    }

    #[test]
    fn init_containers_come_first_and_sidecars_count() {
        let spec = json!({"containers": [{"name": "a"}],
            "initContainers": [{"name": "i"}, {"name": "s", "restartPolicy": "Always"}]});
        let at = |first: Value| {
            json!({"phase": "Pending", "initContainerStatuses": [{"name": "i", "state": first},
            {"name": "s", "started": true, "ready": true, "state": {"running": {}}}]})
        };
        assert_eq!(status_of(spec.clone(), at(json!({"running": {}})), false), ("0/2".into(), "Init:0/2".into()));
        assert_eq!(
            status_of(spec.clone(), at(json!({"terminated": {"exitCode": 1, "reason": "Error"}})), false).1,
            "Init:Error"
        );
        assert_eq!(
            status_of(spec, at(json!({"terminated": {"exitCode": 0}})), false),
            ("1/2".into(), "Pending".into())
        );
    }
}
