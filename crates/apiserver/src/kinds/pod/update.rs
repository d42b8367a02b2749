//! What becomes of a pod that exists: what may change, what a status may say, how long its deletion waits.

use super::{annotations, gates, profiles, qos, scheduling, status};
use crate::Inner;
use crate::kinds::check::At;
use crate::objects::Part;
use meta::{FieldError, FieldErrors, GroupResource, Object, Status, name};
use serde_json::{Map, Value, json};
use std::collections::{HashMap, HashSet};
use store::Range;

const CHANGEABLE: &str = "pod updates may not change fields other than `spec.containers[*].image`,\
    `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),\
    `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

fn text<'a>(object: &'a Object, part: &str, key: &str) -> &'a str {
    object.0.get(part).and_then(|part| part.get(key)).and_then(Value::as_str).unwrap_or_default()
}

/// Seconds until a deleted pod is gone: what was asked for, else what its spec says; nothing where nothing runs.
pub fn grace(pod: &Object, asked: Option<i64>) -> Option<i64> {
    let own = pod.0.get("spec").and_then(|spec| spec.get("terminationGracePeriodSeconds")).and_then(Value::as_i64);
    let seconds = asked.or(own).unwrap_or_default();
    let runs =
        !text(pod, "spec", "nodeName").is_empty() && !matches!(text(pod, "status", "phase"), "Failed" | "Succeeded");
    Some(match seconds {
        _ if !runs => 0,
        seconds if seconds < 0 => 1,
        seconds => seconds,
    })
}

/// What is allowed but rarely meant; told once, not to those who update pods all day.
pub fn warnings(pod: &Object, old: Option<&Object>) -> Vec<String> {
    let mut warnings = Vec::new();
    if old.is_some() {
        return warnings;
    }
    let wrong = name::dns1123_label(pod.name());
    if !wrong.is_empty() && !pod.name().is_empty() {
        warnings.push(format!(
            "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is \
             recommended: [{}]",
            wrong.join(" ")
        ));
    }
    warnings.extend(super::warnings(&At::root("", &pod.0)));
    warnings
}

/// A new pod has no past.
pub fn prepare_create(pod: &mut Object) {
    let root = At::root("", &pod.0);
    let spec = root.part("spec");
    let mut status = json!({"phase": "Pending", "qosClass": qos(&spec)});
    if spec.has("schedulingGates") {
        status["conditions"] = json!([{"type": "PodScheduled", "status": "False", "lastProbeTime": null,
            "lastTransitionTime": meta::time::seconds(jiff::Timestamp::now()), "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates"}]);
    }
    pod.0.insert("status".into(), status);
    scheduling::follow_labels(pod);
    profiles::adopt(pod);
}

/// What the author of a new pod is told of it as they wrote it.
pub fn advice(pod: &Object, old: Option<&Object>) -> Vec<String> {
    if old.is_some() { Vec::new() } else { profiles::advice(pod) }
}

/// The priority of a pod is that of its class; a pod that exists keeps its own.
pub fn admit(api: &Inner, pod: &mut Object, old: Option<&Object>) -> Result<(), Status> {
    let Some(Value::Object(spec)) = pod.0.get_mut("spec") else { return Ok(()) };
    super::defaults::default_tolerations(spec);
    if let Some(old) = old {
        for key in ["priority", "preemptionPolicy"] {
            if let Some(value) = old.0.get("spec").and_then(|spec| spec.get(key)) {
                crate::kinds::defaults::set(spec, key, value.clone());
            }
        }
        return Ok(());
    }
    let asked = spec.get("priorityClassName").and_then(Value::as_str).unwrap_or_default().to_owned();
    let (class, priority, preemption) = match class(api, &asked)? {
        Some(class) => class,
        None if asked.is_empty() => (String::new(), 0, Some("PreemptLowerPriority".to_owned())),
        None => return Err(refused(pod, &format!("no PriorityClass with name {asked} was found"))),
    };
    if let Some(given) = spec.get("priority").and_then(Value::as_i64).filter(|given| *given != priority) {
        let why = format!(
            "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller \
             computed {priority} from the given PriorityClass name"
        );
        return Err(refused(pod, &why));
    }
    let given = spec.get("preemptionPolicy").and_then(Value::as_str).map(str::to_owned);
    if let (Some(given), Some(policy)) = (given, &preemption)
        && given != *policy
    {
        let why = format!(
            "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission \
             controller computed {policy} from the given PriorityClass name"
        );
        return Err(refused(pod, &why));
    }
    if !class.is_empty() {
        spec.insert("priorityClassName".into(), class.into());
    }
    spec.insert("priority".into(), priority.into());
    if let Some(policy) = preemption {
        spec.insert("preemptionPolicy".into(), policy.into());
    }
    Ok(())
}

fn refused(pod: &Object, why: &str) -> Status {
    Status::forbidden(GroupResource { group: "", resource: "pods" }, pod.name(), why)
}

/// Name, value and preemption policy of a priority class; of the default one when none is named.
fn class(api: &Inner, asked: &str) -> Result<Option<(String, i64, Option<String>)>, Status> {
    // These two are always there.
    let builtin = match asked {
        "system-cluster-critical" => Some(2_000_000_000),
        "system-node-critical" => Some(2_000_001_000),
        _ => None,
    };
    let kind = api.kind("scheduling.k8s.io", "v1", "priorityclasses");
    let read = |object: &Object| {
        let policy = object.0.get("preemptionPolicy").and_then(Value::as_str).map(str::to_owned);
        let value = object.0.get("value").and_then(Value::as_i64).unwrap_or_default();
        (object.name().to_owned(), value, policy)
    };
    if let Some(kind) = kind {
        if !asked.is_empty() {
            if let Some(entry) = api.store.get(&kind.key("", asked)) {
                return Ok(Some(read(&api.decode_stored(&kind, &entry.value, entry.revision)?)));
            }
        } else {
            let range = Range { collection: &kind.collection, prefix: "", after: None, limit: 0, at: None };
            let page = api.store.range(&range, |_, _| true).map_err(crate::objects::storage)?;
            let mut default: Option<(String, i64, Option<String>)> = None;
            for (_, entry) in page.items {
                let object = api.decode_stored(&kind, &entry.value, entry.revision)?;
                let class = read(&object);
                let chosen = object.0.get("globalDefault") == Some(&Value::Bool(true));
                if chosen && default.as_ref().is_none_or(|(_, value, _)| class.1 < *value) {
                    default = Some(class);
                }
            }
            return Ok(default);
        }
    }
    Ok(builtin.map(|value| (asked.to_owned(), value, Some("PreemptLowerPriority".to_owned()))))
}

pub fn validate_create(pod: &Object) -> FieldErrors {
    let mut errors = Vec::new();
    let root = At::root("", &pod.0);
    let spec = root.part("spec");
    if spec.has("ephemeralContainers") {
        spec.forbidden("ephemeralContainers", "cannot be set on create", &mut errors);
    }
    if spec.has("nodeName") && spec.has("schedulingGates") {
        spec.forbidden("nodeName", "cannot be set until all schedulingGates have been cleared", &mut errors);
    }
    profiles::agree(&root, &mut errors);
    errors
}

/// Of a pod's spec hardly anything changes.
pub fn validate_update(new: &Object, old: &Object) -> FieldErrors {
    let mut errors = Vec::new();
    let (new_root, old_root) = (At::root("", &new.0), At::root("", &old.0));
    let (spec, was) = (new_root.part("spec"), old_root.part("spec"));
    annotations::check_update(&new_root.part("metadata"), &old_root.part("metadata"), &mut errors);
    for list in ["containers", "initContainers"] {
        if spec.list(list).len() != was.list(list).len() {
            spec.forbidden(list, "pod updates may not add or remove containers", &mut errors);
            return errors;
        }
    }
    match (spec.int("activeDeadlineSeconds"), was.int("activeDeadlineSeconds")) {
        (Some(new), _) if !(0..=i64::from(i32::MAX)).contains(&new) => {
            spec.invalid("activeDeadlineSeconds", "must be between 0 and 2147483647, inclusive", &mut errors);
            return errors;
        }
        (Some(new), Some(old)) if old < new => {
            spec.invalid("activeDeadlineSeconds", "must be less than or equal to previous value", &mut errors);
            return errors;
        }
        (None, Some(_)) => {
            spec.invalid("activeDeadlineSeconds", "must not update from a positive integer to nil value", &mut errors);
        }
        _ => {}
    }
    only_added_tolerations(&spec, &was, &mut errors);
    gates::only_removed(&spec, &was, &mut errors);
    let mut munged = spec.map.clone();
    for key in ["activeDeadlineSeconds", "tolerations", "schedulingGates"] {
        put(&mut munged, key, was.map.get(key));
    }
    for list in ["containers", "initContainers"] {
        for (container, old) in list_mut(&mut munged, list).zip(was.items(list)) {
            put(container, "image", old.map.get("image"));
        }
    }
    if was.int("terminationGracePeriodSeconds").is_some_and(|n| n < 0)
        && spec.int("terminationGracePeriodSeconds") == Some(1)
    {
        put(&mut munged, "terminationGracePeriodSeconds", was.map.get("terminationGracePeriodSeconds"));
    }
    if was.has("schedulingGates") {
        gates::narrower(&spec, &was, &mut munged, &mut errors);
    }
    if munged != *was.map {
        errors.push(FieldError::forbidden("spec", CHANGEABLE));
    }
    errors
}

pub fn put(map: &mut Map<String, Value>, key: &str, value: Option<&Value>) {
    match value {
        Some(value) => map.insert(key.to_owned(), value.clone()),
        None => map.remove(key),
    };
}

pub fn list_mut<'a>(map: &'a mut Map<String, Value>, list: &str) -> impl Iterator<Item = &'a mut Map<String, Value>> {
    map.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten().filter_map(Value::as_object_mut)
}

fn only_added_tolerations(spec: &At<'_>, was: &At<'_>, errors: &mut FieldErrors) {
    fn rest<'a>(at: &At<'a>) -> [&'a str; 4] {
        ["key", "operator", "value", "effect"].map(|key| at.text(key))
    }
    let kept: HashSet<[&str; 4]> = spec.items("tolerations").map(|new| rest(&new)).collect();
    if !was.items("tolerations").all(|old| kept.contains(&rest(&old))) {
        spec.forbidden("tolerations", "existing toleration can not be modified except its tolerationSeconds", errors);
        return;
    }
    scheduling::tolerations(spec, errors);
}

/// What the other parts of a pod may touch.
pub fn prepare_part(part: Part, new: &mut Object, old: &Object) {
    match part {
        Part::Status => status::prepare(new, old),
        Part::EphemeralContainers => {
            let containers = new.0.get("spec").and_then(|spec| spec.get("ephemeralContainers")).cloned();
            restore(new, old);
            if let Some(Value::Object(spec)) = new.0.get_mut("spec") {
                put(spec, "ephemeralContainers", containers.as_ref());
            }
        }
        Part::Resize => {
            let asked = new.0.get("spec").and_then(Value::as_object).cloned().unwrap_or_default();
            restore(new, old);
            if let Some(Value::Object(spec)) = new.0.get_mut("spec") {
                for list in ["containers", "initContainers"] {
                    resize(spec, &At::root("spec", &asked), list);
                }
            }
        }
        Part::Main | Part::Finalize => {}
    }
}

/// The old object, at the version the client had.
fn restore(new: &mut Object, old: &Object) {
    let version = new.resource_version().to_owned();
    *new = old.clone();
    new.set_meta("resourceVersion", &version);
}

/// Containers that were added, removed or renamed are taken as they are, for the rules to refuse.
fn resize(spec: &mut Map<String, Value>, asked: &At<'_>, list: &str) {
    let same = {
        let was = At::root("spec", spec);
        let names = |at: &At<'_>| at.items(list).map(|c| c.text("name").to_owned()).collect::<Vec<_>>();
        names(&was) == names(asked)
    };
    if !same {
        put(spec, list, asked.map.get(list));
        return;
    }
    for (container, new) in list_mut(spec, list).zip(asked.items(list)) {
        put(container, "resources", new.map.get("resources"));
        put(container, "resizePolicy", new.map.get("resizePolicy"));
    }
}

pub fn validate_part(part: Part, new: &Object, old: &Object) -> FieldErrors {
    let mut errors = Vec::new();
    let (new_root, old_root) = (At::root("", &new.0), At::root("", &old.0));
    match part {
        Part::Status => {
            annotations::check_update(&new_root.part("metadata"), &old_root.part("metadata"), &mut errors);
            annotations::check(&new_root.part("metadata"), "metadata.annotations", &new_root.part("spec"), &mut errors);
            status::check(&new_root, &old_root, &mut errors);
        }
        Part::EphemeralContainers => {
            let (spec, was) = (new_root.part("spec"), old_root.part("spec"));
            let all: HashMap<&str, &Map<String, Value>> =
                spec.items("ephemeralContainers").map(|new| (new.text("name"), new.map)).collect();
            for old in was.items("ephemeralContainers") {
                let name = old.text("name");
                let why = match all.get(name) {
                    None => format!("existing ephemeral containers {name:?} may not be removed\n"),
                    Some(new) if **new != *old.map => {
                        format!("existing ephemeral containers {name:?} may not be changed\n")
                    }
                    Some(_) => continue,
                };
                spec.forbidden("ephemeralContainers", &why, &mut errors);
            }
        }
        Part::Resize => match unresizable(&new_root, &old_root) {
            Some(why) => errors.push(FieldError::forbidden("[]", why)),
            None => resized(&new_root.part("spec"), &old_root.part("spec"), &mut errors),
        },
        Part::Main | Part::Finalize => {}
    }
    errors
}

/// Pods that keep what they were given.
fn unresizable(new: &At<'_>, old: &At<'_>) -> Option<&'static str> {
    let (spec, was) = (new.part("spec"), old.part("spec"));
    let whole =
        |at: &At<'_>| ["requests", "limits"].iter().any(|list| at.part("resources").entries(list).next().is_some());
    if whole(&spec) || whole(&was) {
        return Some("pods with pod-level resources cannot be resized");
    }
    if annotations::is_mirror(&old.part("metadata")) {
        return Some("static pods cannot be resized");
    }
    (was.part("os").text("name") == "windows").then_some("windows pods cannot be resized")
}

/// Only cpu and memory of containers that run may be changed.
fn resized(spec: &At<'_>, was: &At<'_>, errors: &mut FieldErrors) {
    if qos(spec) != qos(was) {
        let why = "Pod QOS Class may not change as a result of resizing";
        errors.push(FieldError::invalid("spec", qos(was), why));
    }
    let before = errors.len();
    for list in ["containers", "initContainers"] {
        if spec.list(list).len() != was.list(list).len() {
            spec.forbidden(list, &format!("{list} may not be added or removed on resize"), errors);
            continue;
        }
        for (new, old) in spec.items(list).zip(was.items(list)) {
            if new.text("name") != old.text("name") {
                new.forbidden("name", &format!("{list} may not be renamed or reordered on resize"), errors);
            }
        }
    }
    if errors.len() > before {
        return;
    }
    for list in ["containers", "initContainers"] {
        for (new, old) in spec.items(list).zip(was.items(list)) {
            let sidecar = old.text("restartPolicy") == "Always";
            if list == "initContainers" && !sidecar {
                if new.map != old.map {
                    let why = "resources for non-sidecar init containers are immutable";
                    errors.push(FieldError::forbidden("spec", why));
                }
                continue;
            }
            let (resources, before) = (new.part("resources"), old.part("resources"));
            for amounts in ["requests", "limits"] {
                if before.entries(amounts).any(|(name, _)| !resources.part(amounts).has(name)) {
                    resources.forbidden(amounts, &format!("resource {amounts} cannot be removed"), errors);
                }
                let other = |at: &At<'_>| -> Vec<(String, Value)> {
                    let kept = at.entries(amounts).filter(|(name, _)| !["cpu", "memory"].contains(name));
                    kept.map(|(name, value)| (name.to_owned(), value.clone())).collect()
                };
                if other(&resources) != other(&before) {
                    let why = match list {
                        "containers" => "only cpu and memory resources are mutable",
                        _ => "only cpu and memory resources for sidecar containers are mutable",
                    };
                    errors.push(FieldError::forbidden("spec", why));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(spec: Value) -> Object {
        Object::from_value(json!({"metadata": {"name": "a"}, "spec": spec, "status": {"phase": "Running"}})).unwrap()
    }

    fn findings(new: Value, old: Value) -> Vec<String> {
        validate_update(&pod(new), &pod(old)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_image_may_change_and_nothing_else() {
        let spec =
            |image: &str, command: &str| json!({"containers": [{"name": "a", "image": image, "command": [command]}]});
        assert!(findings(spec("b", "x"), spec("a", "x")).is_empty());
        let found = findings(spec("a", "y"), spec("a", "x"));
        assert!(found[0].starts_with("spec: Forbidden: pod updates may not change fields other than"), "{found:?}");
        let more = json!({"containers": [{"name": "a"}, {"name": "b"}]});
        assert_eq!(
            findings(more, json!({"containers": [{"name": "a"}]})),
            ["spec.containers: Forbidden: pod updates may not add or remove containers"]
        );
    }

    #[test]
    fn tolerations_are_only_added() {
        let one = json!({"key": "a", "operator": "Exists"});
        let two = json!({"key": "b", "operator": "Exists"});
        assert!(findings(json!({"tolerations": [one, two]}), json!({"tolerations": [one]})).is_empty());
        assert_eq!(
            findings(json!({"tolerations": [two]}), json!({"tolerations": [one]})),
            ["spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds"]
        );
    }

    #[test]
    fn a_deadline_only_comes_closer() {
        assert!(findings(json!({"activeDeadlineSeconds": 5}), json!({"activeDeadlineSeconds": 10})).is_empty());
        assert!(findings(json!({"activeDeadlineSeconds": 5}), json!({})).is_empty());
        assert_eq!(findings(json!({"activeDeadlineSeconds": 11}), json!({"activeDeadlineSeconds": 10})).len(), 1);
        assert_eq!(findings(json!({}), json!({"activeDeadlineSeconds": 10})).len(), 1);
    }

    #[test]
    fn grace_is_for_what_runs() {
        let waiting = pod(json!({"terminationGracePeriodSeconds": 30}));
        let running = pod(json!({"nodeName": "n", "terminationGracePeriodSeconds": 30}));
        let mut ended = running.clone();
        ended.0["status"]["phase"] = "Succeeded".into();
        assert_eq!(grace(&waiting, None), Some(0));
        assert_eq!(grace(&running, None), Some(30));
        assert_eq!(grace(&running, Some(5)), Some(5));
        assert_eq!(grace(&running, Some(-1)), Some(1));
        assert_eq!(grace(&ended, Some(5)), Some(0));
    }

    #[test]
    fn a_resize_changes_resources_and_nothing_else() {
        let cpu = |amount: &str| json!({"requests": {"cpu": amount}});
        let old = pod(json!({"containers": [{"name": "a", "image": "x", "resources": cpu("1")}]}));
        let mut new = pod(json!({"nodeName": "n", "containers": [{"name": "a", "image": "y", "resources": cpu("2")}]}));
        prepare_part(Part::Resize, &mut new, &old);
        assert_eq!(new.0["spec"], json!({"containers": [{"name": "a", "image": "x", "resources": cpu("2")}]}));
        assert!(validate_part(Part::Resize, &new, &old).is_empty());
        let mut less = pod(json!({"containers": [{"name": "a", "resources": {}}]}));
        prepare_part(Part::Resize, &mut less, &old);
        let found: Vec<String> = validate_part(Part::Resize, &less, &old).iter().map(ToString::to_string).collect();
        assert!(found.iter().any(|e| e.contains("resource requests cannot be removed")), "{found:?}");
    }
}
