//! The flat shape: what was `metadata` stands at the top, next to `phase`, `spec` and `status`; bookkeeping of the API is left out.

use std::sync::{Mutex, PoisonError};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::core::DynamicObject;
use serde::Serialize;
use serde_json::{Map, Value};

use super::catalog::Kind;
use super::field::{Cell, FieldPath};
use super::scan;

/// Fields of the flat shape that the server makes; writers may send them back, they are not read.
pub(crate) const MADE_HERE: [&str; 8] =
    ["id", "created", "deleting", "generation", "owner", "phase", "phaseMessage", "finalizers"];

/// kubectl keeps a copy of the whole object here, secrets' data included.
pub(crate) const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Columns whose cells stay with the row; further ones are read anew each time.
pub(crate) const KEPT_COLUMNS: u32 = 24;

/// One object, ready to be searched and shown. Immutable but for the cells, which are read from `json` once per column.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) namespace: Box<str>,
    pub(crate) name: Box<str>,
    pub(crate) id: Box<str>,
    pub(crate) version: Box<str>,
    created: Cell,
    phase: Cell,
    name_cell: Cell,
    namespace_cell: Cell,
    pub(crate) labels: Box<[(Box<str>, Box<str>)]>,
    /// What `q` looks at, in lower case.
    text: Box<str>,
    pub(crate) json: Box<[u8]>,
    cells: Mutex<Vec<(u32, Cell)>>,
}

/// Whether the private parts of a kind (a Secret's data) are shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Show {
    Public,
    Private,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Flat<'a> {
    id: &'a str,
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    namespace: &'a str,
    created: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    deleting: Option<&'a Time>,
    resource_version: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    generation: Option<i64>,
    labels: &'a Value,
    annotations: &'a Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    finalizers: &'a Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    phase: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    phase_message: Option<&'a str>,
    #[serde(flatten)]
    rest: &'a Map<String, Value>,
}

impl Row {
    pub(crate) fn new(object: DynamicObject, kind: &Kind, show: Show) -> Self {
        let DynamicObject { metadata, data, .. } = object;
        let mut rest = match data {
            Value::Object(map) => map,
            _ => Map::new(),
        };
        if show == Show::Public {
            for field in kind.private_fields() {
                rest.remove(*field);
            }
        }
        let ObjectMeta { name, namespace, uid, resource_version, creation_timestamp, labels, mut annotations, .. } =
            metadata;
        if let Some(annotations) = &mut annotations {
            annotations.remove(LAST_APPLIED);
        }
        let created = creation_timestamp.and_then(|time| serde_json::to_value(time).ok());
        let created = created.as_ref().and_then(Value::as_str).unwrap_or("");
        let labels = labels.unwrap_or_default();
        let owner = metadata.owner_references.as_deref().unwrap_or_default();
        let owner = owner.iter().find(|owner| owner.controller == Some(true)).or(owner.first());
        let (name, namespace) = (name.unwrap_or_default(), namespace.unwrap_or_default());
        let (id, version) = (uid.unwrap_or_default(), resource_version.unwrap_or_default());
        // What the object itself has at its top must not stand twice.
        for field in MADE_HERE.iter().chain(&["name", "namespace", "resourceVersion", "labels", "annotations"]) {
            rest.remove(*field);
        }
        let (phase, message) = phase(&rest, metadata.deletion_timestamp.is_some());
        let text = search_text(&name, &namespace, phase, &labels, &rest);
        let flat = Flat {
            id: &id,
            name: &name,
            namespace: &namespace,
            created,
            deleting: metadata.deletion_timestamp.as_ref(),
            resource_version: &version,
            generation: metadata.generation,
            labels: &serde_json::to_value(&labels).unwrap_or_default(),
            annotations: &serde_json::to_value(annotations.unwrap_or_default()).unwrap_or_default(),
            owner: owner.map(|owner| format!("{}/{}", owner.kind, owner.name)),
            finalizers: &metadata.finalizers,
            phase,
            phase_message: message,
            rest: &rest,
        };
        let json = serde_json::to_vec(&flat).unwrap_or_else(|_| b"{}".to_vec()).into_boxed_slice();
        Self {
            created: Cell::text(created),
            phase: phase.map_or(Cell::Missing, Cell::text),
            name_cell: Cell::text(&name),
            namespace_cell: if namespace.is_empty() { Cell::Missing } else { Cell::text(&namespace) },
            labels: labels.into_iter().map(|(key, value)| (key.into(), value.into())).collect(),
            namespace: namespace.into(),
            name: name.into(),
            id: id.into(),
            version: version.into(),
            text,
            json,
            cells: Mutex::new(Vec::new()),
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.json.len() + self.text.len() + 400
    }

    pub(crate) fn contains(&self, lower: &str) -> bool {
        self.text.contains(lower)
    }

    /// Puts the cells of these columns at the end of `cells`. A column with a number is kept with the row under it.
    pub(crate) fn cells(&self, columns: &[(Option<u32>, FieldPath)], cells: &mut Vec<Cell>) {
        for (id, path) in columns {
            let cell = self.known(path).unwrap_or_else(|| match id {
                Some(id) => self.kept(*id, path),
                None => scan::cell(path, &self.json),
            });
            cells.push(cell);
        }
    }

    fn kept(&self, id: u32, path: &FieldPath) -> Cell {
        let mut kept = self.cells.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, cell)) = kept.iter().find(|(known, _)| *known == id) {
            return cell.clone();
        }
        let cell = scan::cell(path, &self.json);
        kept.push((id, cell.clone()));
        cell
    }

    /// What can be said without reading the JSON.
    fn known(&self, path: &FieldPath) -> Option<Cell> {
        match path.segments() {
            [one] => match one.as_str() {
                "name" => Some(self.name_cell.clone()),
                "namespace" => Some(self.namespace_cell.clone()),
                "created" => Some(self.created.clone()),
                "phase" => Some(self.phase.clone()),
                _ => None,
            },
            [first, key] if first == "labels" => {
                let value = self.labels.iter().find(|(known, _)| **known == **key);
                Some(value.map_or(Cell::Missing, |(_, value)| Cell::text(value)))
            }
            _ => None,
        }
    }

    pub(crate) fn value(&self) -> Value {
        serde_json::from_slice(&self.json).unwrap_or_default()
    }
}

/// Names, labels, phase and the words people give things.
fn search_text(
    name: &str,
    namespace: &str,
    phase: Option<&str>,
    labels: &std::collections::BTreeMap<String, String>,
    rest: &Map<String, Value>,
) -> Box<str> {
    let spec = rest.get("spec").unwrap_or(&Value::Null);
    let described = ["displayName", "description"].iter().filter_map(|key| spec[key].as_str());
    let labels = labels.iter().flat_map(|(key, value)| [key.as_str(), value.as_str()]);
    let all: Vec<&str> = [name, namespace].into_iter().chain(phase).chain(labels).chain(described).collect();
    all.join("\n").to_lowercase().into()
}

/// One word for how it is, and why: from the status's own phase, else from the condition that decides.
fn phase(object: &Map<String, Value>, deleting: bool) -> (Option<&str>, Option<&str>) {
    let status = object.get("status").unwrap_or(&Value::Null);
    let word = |value: &'_ Value| value.as_str().is_some_and(|text| !text.is_empty());
    let message =
        ["message", "reason"].iter().map(|key| &status[key]).find(|value| word(value)).and_then(Value::as_str);
    if deleting {
        return (Some("Terminating"), message);
    }
    let own = [&status["phase"], &status["state"], &status["status"], &status["aggrStatus"]["status"]];
    if let Some(phase) = own.into_iter().find(|value| word(value)) {
        return (phase.as_str(), message);
    }
    let conditions = status["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    for (kind, no) in DECIDING {
        let Some(condition) = conditions.iter().find(|condition| condition["type"] == **kind) else { continue };
        let said = if condition["status"] == "True" { Some(*kind) } else { *no };
        if said.is_some() {
            return (said, condition["message"].as_str().filter(|text| !text.is_empty()).or(message));
        }
    }
    (None, message)
}

/// Conditions that say how a thing is, the most decisive first, with the word for when they do not hold.
const DECIDING: &[(&str, Option<&str>)] = &[
    ("Failed", None),
    ("Complete", None),
    ("Suspended", None),
    ("Ready", Some("NotReady")),
    ("Available", Some("Unavailable")),
    ("Established", Some("NotEstablished")),
    ("Progressing", None),
];

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    fn row(object: Value, kind: &Kind, show: Show) -> Row {
        Row::new(serde_json::from_value(object).unwrap(), kind, show)
    }

    fn plain(object: Value) -> Row {
        row(object, &Kind::for_tests("apps", "v1", "deployments", "Deployment"), Show::Public)
    }

    #[test]
    fn metadata_is_lifted_to_the_top_and_bookkeeping_left_out() {
        let row = plain(json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {
            "name": "web", "namespace": "shop", "uid": "u-1", "resourceVersion": "7", "generation": 2,
            "creationTimestamp": "2026-01-02T03:04:05Z", "labels": {"app": "web"},
            "annotations": {"a": "b", LAST_APPLIED: "{\"everything\":1}"}, "managedFields": [{"manager": "x"}],
            "ownerReferences": [{"apiVersion": "v1", "kind": "AppSet", "name": "shop", "uid": "o", "controller": true}]},
            "spec": {"replicas": 3}, "status": {"conditions": [{"type": "Available", "status": "False", "message": "no pods"}]}}));
        assert_eq!(
            row.value(),
            json!({"id": "u-1", "name": "web", "namespace": "shop", "created": "2026-01-02T03:04:05Z",
            "resourceVersion": "7", "generation": 2, "labels": {"app": "web"}, "annotations": {"a": "b"}, "owner": "AppSet/shop",
            "phase": "Unavailable", "phaseMessage": "no pods", "spec": {"replicas": 3},
            "status": {"conditions": [{"type": "Available", "status": "False", "message": "no pods"}]}})
        );
        let text = String::from_utf8(row.json.to_vec()).unwrap();
        assert!(text.starts_with(r#"{"id":"u-1","name":"web","namespace":"shop","created""#), "{text}");
    }

    #[test]
    fn data_of_secrets_is_shown_only_when_asked_for() {
        let kind = Kind::for_tests("", "v1", "secrets", "Secret");
        let secret = json!({"metadata": {"name": "s", "annotations": {LAST_APPLIED: "canary"}}, "type": "Opaque",
            "data": {"k": "Y2FuYXJ5"}, "stringData": {"k": "canary"}});
        let text = |show| String::from_utf8(row(secret.clone(), &kind, show).json.to_vec()).unwrap();
        assert!(!text(Show::Public).contains("Y2FuYXJ5") && !text(Show::Public).contains("canary"));
        assert!(text(Show::Private).contains("Y2FuYXJ5"));
    }

    #[test]
    fn the_phase_is_one_word_whatever_the_kind_calls_it() {
        let phase = |status: Value| plain(json!({"metadata": {"name": "x"}, "status": status})).phase;
        let condition = |kind: &str, status: &str| json!({"type": kind, "status": status});
        assert_eq!(phase(json!({"phase": "Running"})), Cell::text("Running"));
        assert_eq!(phase(json!({"state": {"a": 1}, "phase": "DONE"})), Cell::text("DONE"));
        assert_eq!(phase(json!({"aggrStatus": {"status": "Scaling"}})), Cell::text("Scaling"));
        assert_eq!(phase(json!({"conditions": [condition("Ready", "False")]})), Cell::text("NotReady"));
        assert_eq!(
            phase(json!({"conditions": [condition("Complete", "True"), condition("Failed", "False")]})),
            Cell::text("Complete")
        );
        assert_eq!(phase(json!({"conditions": [condition("Failed", "False")]})), Cell::Missing);
        assert_eq!(phase(json!("strange")), Cell::Missing);
        let going = plain(
            json!({"metadata": {"name": "x", "deletionTimestamp": "2026-01-02T03:04:05Z"}, "status": {"phase": "Running"}}),
        );
        assert_eq!(going.phase, Cell::text("Terminating"));
    }

    #[test]
    fn cells_are_the_same_from_the_head_the_json_and_the_kept_ones() {
        let row =
            plain(json!({"metadata": {"name": "x", "labels": {"a": "b"}}, "spec": {"n": 5}, "status": {"phase": "P"}}));
        let paths = ["name", "namespace", "labels.a", "labels.z", "phase", "created", "spec.n"]
            .map(|path| FieldPath::parse(path).unwrap());
        let columns: Vec<_> = paths.iter().cloned().enumerate().map(|(i, path)| (Some(i as u32), path)).collect();
        let value = row.value();
        let expected: Vec<Cell> = paths.iter().map(|path| path.cell(&value)).collect();
        for _ in 0..2 {
            let mut cells = Vec::new();
            row.cells(&columns, &mut cells);
            assert_eq!(cells, expected);
        }
    }
}
