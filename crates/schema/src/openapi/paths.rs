//! Paths and operations of a resource, with the query parameters each operation takes.

use serde_json::{Map, Value, json};

use super::components::Components;
use super::{Resource, Style};

const PATCHES: [&str; 4] = [
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
];

const WRITE: &[(&str, &str)] = &[("dryRun", "string"), ("fieldManager", "string"), ("fieldValidation", "string")];
const PATCH: &[(&str, &str)] =
    &[("dryRun", "string"), ("fieldManager", "string"), ("fieldValidation", "string"), ("force", "boolean")];
const LIST: &[(&str, &str)] = &[
    ("allowWatchBookmarks", "boolean"),
    ("continue", "string"),
    ("fieldSelector", "string"),
    ("labelSelector", "string"),
    ("limit", "integer"),
    ("resourceVersion", "string"),
    ("resourceVersionMatch", "string"),
    ("sendInitialEvents", "boolean"),
    ("timeoutSeconds", "integer"),
    ("watch", "boolean"),
];
const DELETE: &[(&str, &str)] = &[
    ("dryRun", "string"),
    ("gracePeriodSeconds", "integer"),
    ("orphanDependents", "boolean"),
    ("propagationPolicy", "string"),
];

/// What an operation does: the verb it is allowed by, its HTTP method, and the word for it in identifiers.
struct Action {
    verb: &'static str,
    method: &'static str,
    word: &'static str,
    action: &'static str,
    query: &'static [(&'static str, &'static str)],
}

const COLLECTION: [Action; 3] = [
    Action { verb: "list", method: "get", word: "list", action: "list", query: LIST },
    Action { verb: "create", method: "post", word: "create", action: "post", query: WRITE },
    Action {
        verb: "deletecollection",
        method: "delete",
        word: "deleteCollection",
        action: "deletecollection",
        query: DELETE,
    },
];
const ITEM: [Action; 4] = [
    Action { verb: "get", method: "get", word: "read", action: "get", query: &[] },
    Action { verb: "update", method: "put", word: "replace", action: "put", query: WRITE },
    Action { verb: "patch", method: "patch", word: "patch", action: "patch", query: PATCH },
    Action { verb: "delete", method: "delete", word: "delete", action: "delete", query: DELETE },
];
const SUBRESOURCE: [Action; 4] = [
    Action { verb: "get", method: "get", word: "read", action: "get", query: &[] },
    Action { verb: "update", method: "put", word: "replace", action: "put", query: WRITE },
    Action { verb: "patch", method: "patch", word: "patch", action: "patch", query: PATCH },
    Action { verb: "create", method: "post", word: "create", action: "post", query: WRITE },
];

pub(super) fn add(resource: &Resource<'_>, components: &mut Components<'_>, paths: &mut Map<String, Value>) {
    let base = match resource.group {
        "" => format!("/api/{}", resource.version),
        group => format!("/apis/{group}/{}", resource.version),
    };
    let scoped = if resource.namespaced { format!("{base}/namespaces/{{namespace}}") } else { base.clone() };
    let collection = format!("{scoped}/{}", resource.plural);
    let item = format!("{collection}/{{name}}");
    let own = Target::own(resource);
    insert(paths, collection, path_item(&own, &COLLECTION, resource, &["namespace"], components));
    insert(paths, item.clone(), path_item(&own, &ITEM, resource, &["name", "namespace"], components));
    if resource.namespaced {
        let everywhere = Target { suffix: "ForAllNamespaces", everywhere: true, ..Target::own(resource) };
        insert(
            paths,
            format!("{base}/{}", resource.plural),
            path_item(&everywhere, &COLLECTION[..1], resource, &[], components),
        );
    }
    for sub in &resource.subresources {
        let target =
            Target { kind: (sub.group, sub.version, sub.kind), verbs: sub.verbs, suffix: sub.name, everywhere: false };
        let path = path_item(&target, &SUBRESOURCE, resource, &["name", "namespace"], components);
        insert(paths, format!("{item}/{}", sub.name), path);
    }
}

fn insert(paths: &mut Map<String, Value>, path: String, item: Option<Value>) {
    if let Some(item) = item {
        paths.insert(path, item);
    }
}

/// What a path's operations act on.
struct Target<'a> {
    kind: (&'a str, &'a str, &'a str),
    verbs: &'a [&'a str],
    /// The end of the operation's identifier: a subresource's name, or the all-namespaces form.
    suffix: &'a str,
    everywhere: bool,
}

impl<'a> Target<'a> {
    fn own(resource: &Resource<'a>) -> Self {
        let kind = (resource.group, resource.version, resource.kind);
        Target { kind, verbs: resource.verbs, suffix: "", everywhere: false }
    }
}

/// The path with the operations that are allowed, or nothing when none is.
fn path_item(
    target: &Target<'_>,
    actions: &[Action],
    resource: &Resource<'_>,
    in_path: &[&str],
    components: &mut Components<'_>,
) -> Option<Value> {
    let mut item = Map::new();
    for action in actions.iter().filter(|a| target.verbs.contains(&a.verb)) {
        item.insert(action.method.into(), operation(target, action, resource, components));
    }
    if item.is_empty() {
        return None;
    }
    let style = components.style;
    let parameters: Vec<Value> = in_path
        .iter()
        .filter(|name| resource.namespaced || **name != "namespace")
        .map(|name| parameter(style, name, "path", "string"))
        .chain([parameter(style, "pretty", "query", "string")])
        .collect();
    item.insert("parameters".into(), Value::Array(parameters));
    Some(Value::Object(item))
}

fn operation(target: &Target<'_>, action: &Action, resource: &Resource<'_>, components: &mut Components<'_>) -> Value {
    let style = components.style;
    let (group, version, kind) = target.kind;
    let answer = match action.verb {
        "list" => components.kind(group, version, &resource.list_kind()),
        "delete" | "deletecollection" => components.meta("Status"),
        _ => components.kind(group, version, kind),
    };
    let body = match action.verb {
        "create" | "update" => Some(components.kind(group, version, kind)),
        "patch" => Some(components.meta("Patch")),
        "delete" | "deletecollection" => Some(components.meta("DeleteOptions")),
        _ => None,
    };
    let query = action.query.iter().map(|(name, kind)| parameter(style, name, "query", kind));
    let mut operation = json!({
        "operationId": operation_id(target, action, resource),
        "tags": [tag(resource)],
        "x-kubernetes-action": action.action,
        "x-kubernetes-group-version-kind": {"group": group, "version": version, "kind": kind},
    });
    let codes: &[&str] = match action.verb {
        "create" => &["200", "201", "202"],
        "update" | "patch" => &["200", "201"],
        "delete" => &["200", "202"],
        _ => &["200"],
    };
    let optional_body = action.method == "delete";
    let types: Vec<&str> = match action.verb {
        // Nothing says how lists of a custom kind would merge.
        "patch" => PATCHES.into_iter().filter(|p| resource.defined.is_none() || !p.contains("strategic")).collect(),
        _ => vec!["*/*"],
    };
    let (parameters, responses) = match style {
        Style::V2 => {
            let body =
                body.map(|schema| json!({"name": "body", "in": "body", "required": !optional_body, "schema": schema}));
            operation["consumes"] = json!(types);
            operation["produces"] = json!(["application/json"]);
            let answer = json!({"description": "OK", "schema": answer});
            (body.into_iter().chain(query).collect::<Vec<_>>(), answer)
        }
        Style::V3 => {
            if let Some(schema) = body {
                let content: Map<String, Value> =
                    types.iter().map(|t| ((*t).to_owned(), json!({"schema": schema}))).collect();
                operation["requestBody"] = json!({"content": content});
                if !optional_body {
                    operation["requestBody"]["required"] = true.into();
                }
            }
            let answer = json!({"description": "OK", "content": {"application/json": {"schema": answer}}});
            (query.collect(), answer)
        }
    };
    if !parameters.is_empty() {
        operation["parameters"] = Value::Array(parameters);
    }
    let mut all: Map<String, Value> = codes.iter().map(|code| ((*code).to_owned(), responses.clone())).collect();
    all.insert("401".into(), json!({"description": "Unauthorized"}));
    operation["responses"] = Value::Object(all);
    operation
}

fn parameter(style: Style, name: &str, place: &str, kind: &str) -> Value {
    let mut parameter = json!({"name": name, "in": place});
    if place == "path" {
        parameter["required"] = true.into();
    }
    match style {
        Style::V2 => {
            parameter["type"] = kind.into();
            parameter["uniqueItems"] = true.into();
        }
        Style::V3 => parameter["schema"] = json!({"type": kind, "uniqueItems": true}),
    }
    parameter
}

/// `core_v1`, `coordination_v1`
fn tag(resource: &Resource<'_>) -> String {
    format!("{}_{}", group_words(resource.group, "_", false), resource.version)
}

/// `readCoreV1NamespacedConfigMap`, `patchAppsV1NamespacedDeploymentStatus`
fn operation_id(target: &Target<'_>, action: &Action, resource: &Resource<'_>) -> String {
    let scope = if resource.namespaced && !target.everywhere { "Namespaced" } else { "" };
    let collection = if action.verb == "deletecollection" { "Collection" } else { "" };
    format!(
        "{}{collection}{}{}{scope}{}{}",
        action.word.trim_end_matches("Collection"),
        group_words(resource.group, "", true),
        capital(resource.version),
        resource.kind,
        capital(target.suffix),
    )
}

fn group_words(group: &str, separator: &str, capitals: bool) -> String {
    let group = if group.is_empty() { "core" } else { group.strip_suffix(".k8s.io").unwrap_or(group) };
    let words: Vec<String> = group.split('.').map(|w| if capitals { capital(w) } else { w.to_owned() }).collect();
    words.join(separator)
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_ascii_uppercase().to_string() + letters.as_str()).unwrap_or_default()
}
