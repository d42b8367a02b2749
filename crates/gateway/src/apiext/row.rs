//! The flat shape: what was `metadata` stands at the top, next to `phase`, `spec` and `status`; bookkeeping of the API is left out.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use fleet::Key;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::core::DynamicObject;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::catalog::Kind;
use super::field::{Cell, FieldPath};
use super::labels::Labels;
use super::scan;

/// Fields of the flat shape that the server makes; writers may send them back, they are not read.
pub(crate) const MADE_HERE: [&str; 8] =
    ["id", "created", "deleting", "generation", "owner", "phase", "phaseMessage", "finalizers"];

/// kubectl keeps a copy of the whole object here, secrets' data included.
pub(crate) const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Columns whose cells stay with the row; further ones push out the oldest.
pub(crate) const KEPT_COLUMNS: usize = 24;

/// Bytes of the longest text that is kept beside the JSON it stands in.
const KEPT_BYTES: usize = 512;

/// One object, ready to be searched and shown. Immutable but for the cells, which are read once per column.
#[derive(Debug)]
pub(crate) struct Row {
    /// The member it is on; empty in the meta API.
    pub(crate) cluster: Arc<str>,
    pub(crate) namespace: Arc<str>,
    pub(crate) name: Arc<str>,
    pub(crate) id: Box<str>,
    pub(crate) version: Box<str>,
    created: Cell,
    phase: Cell,
    pub(crate) labels: Labels,
    /// What `q` looks at beside names and labels, in lower case; of these only what is not.
    text: Box<str>,
    shown: Shown,
    cells: Mutex<Vec<(u32, Cell)>>,
}

/// What a row looks like.
#[derive(Debug)]
enum Shown {
    /// Made already.
    Json(Box<[u8]>),
    /// Made of the object when somebody looks: most rows of a large kind are counted and sorted, and never shown.
    Object(fleet::Bytes, Arc<Kind>),
}

/// A row of a shape of its own.
pub(crate) struct Shape<'a> {
    pub(crate) cluster: &'a Arc<str>,
    pub(crate) namespace: &'a Arc<str>,
    pub(crate) name: &'a Arc<str>,
    pub(crate) labels: &'a BTreeMap<Cow<'a, str>, Cow<'a, str>>,
    /// Empty when it has none.
    pub(crate) created: &'a str,
    pub(crate) phase: &'a str,
    /// Further words that `q` finds it by.
    pub(crate) words: &'a [&'a str],
    /// With `cluster`, `name`, and what else of the above it has, under these names.
    pub(crate) json: Vec<u8>,
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
    #[serde(skip_serializing_if = "str::is_empty")]
    cluster: &'a str,
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

/// As much of an object as searching and sorting it usually needs; the rest is skipped, not read.
#[derive(Deserialize)]
struct Head<'a> {
    #[serde(borrow)]
    metadata: HeadMeta<'a>,
    #[serde(default)]
    status: Value,
    #[serde(borrow, default)]
    spec: Option<Described<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct HeadMeta<'a> {
    #[serde(borrow, default)]
    labels: Option<BTreeMap<Cow<'a, str>, Cow<'a, str>>>,
    #[serde(borrow, default)]
    creation_timestamp: Option<Cow<'a, str>>,
    #[serde(default)]
    deletion_timestamp: Option<IgnoredAny>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Described<'a> {
    #[serde(borrow, default)]
    display_name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    description: Option<Cow<'a, str>>,
}

impl Row {
    pub(crate) fn new(object: DynamicObject, kind: &Kind, show: Show) -> Self {
        Self::flat(object, kind, show, Arc::from(""))
    }

    /// An object just read from a member.
    pub(crate) fn new_on(object: DynamicObject, kind: &Kind, show: Show, cluster: &str) -> Self {
        Self::flat(object, kind, show, cluster.into())
    }

    /// An object of a member as it is kept in memory. What it looks like is made when it is shown.
    pub(crate) fn of_member(cluster: &Arc<str>, key: &Key, object: &fleet::Bytes, kind: &Arc<Kind>) -> Self {
        let namespace = key.namespace.clone().unwrap_or_else(|| Arc::from(""));
        let json = object.json();
        let Ok(Head { metadata, status, spec }) = serde_json::from_slice::<Head<'_>>(&json) else {
            // Of a strange shape: read as a whole, which asks for less, and else shown by its name.
            if let Ok(whole) = serde_json::from_slice(&json) {
                return Self::flat(whole, kind, Show::Public, cluster.clone());
            }
            let whole: Value = serde_json::from_slice(&json).unwrap_or_default();
            let labels = whole["metadata"]["labels"].as_object().into_iter().flatten();
            let labels =
                labels.filter_map(|(key, value)| Some((key.as_str().into(), value.as_str()?.into()))).collect();
            let shown = json!({"cluster": &**cluster, "namespace": &*namespace, "name": &*key.name, "labels": labels});
            let shape = Shape::of(cluster, &namespace, &key.name, &labels);
            return Self::shaped(Shape { json: shown.to_string().into(), ..shape });
        };
        let rest = Map::from_iter([("status".to_owned(), status)]);
        let (phase, _) = phase(&rest, metadata.deletion_timestamp.is_some());
        let labels = metadata.labels.unwrap_or_default();
        let Described { display_name, description } = spec.unwrap_or_default();
        let words: Vec<&str> = [&display_name, &description].into_iter().flatten().map(AsRef::as_ref).collect();
        let created = metadata.creation_timestamp.unwrap_or_default();
        let shape = Shape {
            created: &created,
            phase: phase.unwrap_or_default(),
            words: &words,
            ..Shape::of(cluster, &namespace, &key.name, &labels)
        };
        Self { shown: Shown::Object(object.clone(), kind.clone()), ..Self::shaped(shape) }
    }

    /// A row of a shape of its own.
    pub(crate) fn shaped(shape: Shape<'_>) -> Self {
        let labels: Labels = shape.labels.iter().collect();
        let cell = |text: &str| if text.is_empty() { Cell::Missing } else { Cell::text(text) };
        let words = [shape.phase].into_iter().chain(shape.words.iter().copied());
        let text = search_text([shape.cluster, shape.name, shape.namespace], &labels, words);
        Self {
            cluster: shape.cluster.clone(),
            namespace: shape.namespace.clone(),
            name: shape.name.clone(),
            id: Box::default(),
            version: Box::default(),
            created: cell(shape.created),
            phase: cell(shape.phase),
            labels,
            text,
            shown: Shown::Json(shape.json.into_boxed_slice()),
            cells: Mutex::default(),
        }
    }

    fn flat(object: DynamicObject, kind: &Kind, show: Show, cluster: Arc<str>) -> Self {
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
        let own = ["cluster", "name", "namespace", "resourceVersion", "labels", "annotations"];
        for field in MADE_HERE.iter().chain(&own[usize::from(cluster.is_empty())..]) {
            rest.remove(*field);
        }
        let (phase, message) = phase(&rest, metadata.deletion_timestamp.is_some());
        let kept: Labels = labels.iter().collect();
        let spec = rest.get("spec").unwrap_or(&Value::Null);
        let described = ["displayName", "description"].iter().filter_map(|key| spec[key].as_str());
        let text = search_text([&cluster, &name, &namespace], &kept, phase.into_iter().chain(described));
        let flat = Flat {
            id: &id,
            cluster: &cluster,
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
            cluster,
            created: Cell::text(created),
            phase: phase.map_or(Cell::Missing, Cell::text),
            labels: kept,
            namespace: namespace.into(),
            name: name.into(),
            id: id.into(),
            version: version.into(),
            text,
            shown: Shown::Json(json),
            cells: Mutex::new(Vec::new()),
        }
    }

    /// What it looks like.
    pub(crate) fn json(&self) -> Cow<'_, [u8]> {
        match &self.shown {
            Shown::Json(json) => Cow::Borrowed(json),
            Shown::Object(object, kind) => match serde_json::from_slice(&object.json()) {
                Ok(object) => match Self::flat(object, kind, Show::Public, self.cluster.clone()).shown {
                    Shown::Json(json) => Cow::Owned(json.into_vec()),
                    Shown::Object(..) => Cow::Borrowed(b"{}"),
                },
                Err(_) => Cow::Borrowed(b"{}"),
            },
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        let json = match &self.shown {
            Shown::Json(json) => json.len(),
            Shown::Object(..) => 0,
        };
        json + self.text.len() + self.labels.text().len() + 400
    }

    pub(crate) fn contains(&self, lower: &str) -> bool {
        let own = [&*self.text, &*self.name, &*self.namespace, &*self.cluster, self.labels.text()];
        own.iter().any(|text| text.contains(lower))
    }

    /// Puts the cells of these columns at the end of `cells`. A column with a number is kept with the row under it.
    pub(crate) fn cells(&self, columns: &[(Option<u32>, FieldPath)], cells: &mut Vec<Cell>) {
        for (id, path) in columns {
            let cell = self.known(path).unwrap_or_else(|| match id {
                Some(id) => self.kept(*id, path),
                None => self.find(path),
            });
            cells.push(cell);
        }
    }

    fn kept(&self, id: u32, path: &FieldPath) -> Cell {
        let mut kept = self.cells.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, cell)) = kept.iter().find(|(known, _)| *known == id) {
            return cell.clone();
        }
        let cell = self.find(path);
        if cell.bytes() <= KEPT_BYTES {
            if kept.len() >= KEPT_COLUMNS {
                kept.remove(0);
            }
            kept.push((id, cell.clone()));
        }
        cell
    }

    /// Reads what stands at a path.
    fn find(&self, path: &FieldPath) -> Cell {
        if let Shown::Object(object, kind) = &self.shown
            && let Some(path) = in_object(path, kind)
        {
            return scan::cell(&path, &object.json());
        }
        scan::cell(path, &self.json())
    }

    /// What can be said without reading anything.
    fn known(&self, path: &FieldPath) -> Option<Cell> {
        let text = |text: &Arc<str>| if text.is_empty() { Cell::Missing } else { Cell::Text(text.clone()) };
        match path.segments() {
            [one] => match one.as_str() {
                "name" => Some(Cell::Text(self.name.clone())),
                "namespace" => Some(text(&self.namespace)),
                "cluster" if !self.cluster.is_empty() => Some(text(&self.cluster)),
                "created" => Some(self.created.clone()),
                "phase" => Some(self.phase.clone()),
                _ => None,
            },
            [first, key] if first == "labels" => Some(self.labels.get(key).map_or(Cell::Missing, Cell::text)),
            _ => None,
        }
    }

    pub(crate) fn value(&self) -> Value {
        serde_json::from_slice(&self.json()).unwrap_or_default()
    }
}

impl<'a> Shape<'a> {
    pub(crate) fn of(
        cluster: &'a Arc<str>,
        namespace: &'a Arc<str>,
        name: &'a Arc<str>,
        labels: &'a BTreeMap<Cow<'a, str>, Cow<'a, str>>,
    ) -> Self {
        Shape { cluster, namespace, name, labels, created: "", phase: "", words: &[], json: Vec::new() }
    }
}

/// Where the object itself holds what the flat shape has at a path; nothing for what is made, and for what is not shown.
fn in_object<'a>(path: &'a FieldPath, kind: &Kind) -> Option<Cow<'a, FieldPath>> {
    let (first, rest) = path.segments().split_first()?;
    let field = match first.as_str() {
        "id" => "uid",
        "deleting" => "deletionTimestamp",
        field @ ("annotations" | "labels" | "generation" | "resourceVersion" | "finalizers") => field,
        "name" | "namespace" | "cluster" | "created" | "owner" | "phase" | "phaseMessage" => return None,
        "metadata" | "kind" | "apiVersion" => return None,
        private if kind.private_fields().contains(&private) => return None,
        _ => return Some(Cow::Borrowed(path)),
    };
    Some(Cow::Owned(FieldPath::of(["metadata", field].into_iter().chain(rest.iter().map(String::as_str)))))
}

/// The phase and the words people give things. Names and labels are looked at where they are, unless they are not in lower case.
fn search_text<'a>(names: [&'a str; 3], labels: &'a Labels, words: impl Iterator<Item = &'a str>) -> Box<str> {
    let plain = |byte: u8| byte.is_ascii() && !byte.is_ascii_uppercase();
    let strange = names.into_iter().chain([labels.text()]).filter(|text| !text.bytes().all(plain));
    words.chain(strange).collect::<Vec<_>>().join("\n").to_lowercase().into()
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

/// Of rows in the order of namespaces: those of one, or all.
pub(crate) fn within<'a>(rows: &'a [Arc<Row>], namespace: Option<&str>) -> &'a [Arc<Row>] {
    let Some(namespace) = namespace else { return rows };
    let begin = rows.partition_point(|row| *row.namespace < *namespace);
    let end = rows.partition_point(|row| *row.namespace <= *namespace);
    &rows[begin..end]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

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
        let text = String::from_utf8(row.json().to_vec()).unwrap();
        assert!(text.starts_with(r#"{"id":"u-1","name":"web","namespace":"shop","created""#), "{text}");
    }

    #[test]
    fn data_of_secrets_is_shown_only_when_asked_for() {
        let kind = Kind::for_tests("", "v1", "secrets", "Secret");
        let secret = json!({"metadata": {"name": "s", "annotations": {LAST_APPLIED: "canary"}}, "type": "Opaque",
            "data": {"k": "Y2FuYXJ5"}, "stringData": {"k": "canary"}});
        let text = |show| String::from_utf8(row(secret.clone(), &kind, show).json().to_vec()).unwrap();
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
    fn a_search_finds_names_labels_phase_and_words_in_any_case() {
        let row =
            plain(json!({"metadata": {"name": "web-1", "namespace": "shop", "labels": {"Team": "Größe", "app": "x"}},
            "spec": {"displayName": "The Shop"}, "status": {"phase": "Running"}}));
        for word in ["web", "hop", "team", "größe", "app", "the shop", "running"] {
            assert!(row.contains(word), "{word}");
        }
        for word in ["webshop", "web-1shop", "teamgröße", "displayname", "db"] {
            assert!(!row.contains(word), "{word}");
        }
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
