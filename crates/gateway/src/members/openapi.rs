//! The OpenAPI 3 document of this room and of the console's own routes: made from their tables, so it cannot disagree with them.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::route::Route;
use super::routes::table;
use crate::apiext::query;
use crate::operations::OPERATIONS;

/// The document. It is the same for everybody and for as long as the process runs.
pub(super) fn document() -> Bytes {
    static DOCUMENT: LazyLock<Bytes> = LazyLock::new(|| Bytes::from(make().to_string()));
    DOCUMENT.clone()
}

fn make() -> Value {
    let problem = json!({"$ref": "#/components/responses/Problem"});
    let mut paths: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    for route in table() {
        paths
            .entry(route.path)
            .or_default()
            .insert(route.method.as_str().to_ascii_lowercase(), operation(route, &problem));
    }
    for operation in OPERATIONS {
        paths.entry(operation.path).or_default().insert(operation.method.to_owned(), operation.to_openapi(&problem));
    }
    json!({
        "openapi": "3.0.3",
        "info": {"title": "Muster", "version": "v1", "description": "The clusters of a fleet and what runs on them. The kinds of the meta API have a document of their own at /apiext/openapi.json."},
        "security": [{"bearer": []}, {"session": []}],
        "paths": paths,
        "components": {
            "schemas": schemas(),
            "responses": {"Problem": {"description": "Why not.", "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Problem"}}}}},
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}, "session": {"type": "apiKey", "in": "cookie", "name": "muster_session"}},
        },
    })
}

fn operation(route: &Route, problem: &Value) -> Value {
    let places = route.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let mut parameters: Vec<Value> = places
        .map(|name| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}, "description": about_place(name)}))
        .collect();
    let listed = if route.list { query::PARAMETERS } else { &[] };
    let narrowed: &[_] = match route.list && route.path.contains("{name}") {
        true => &[("cluster", "string", "Of all clusters only these: a,b.")],
        false => &[],
    };
    for (name, kind, about) in route.parameters.iter().chain(narrowed).chain(listed) {
        parameters.push(json!({"name": name, "in": "query", "description": about, "schema": {"type": kind}}));
    }
    let (code, answer) = match route.answer {
        "101" => ("101", json!({"description": "It is a WebSocket from now on."})),
        media if media.contains('/') => {
            ("200", json!({"description": "Done.", "content": {media: {"schema": {"type": "string"}}}}))
        }
        schema => {
            let row = json!({"$ref": format!("#/components/schemas/{schema}")});
            let schema = if route.list { list(&row) } else { row };
            ("200", json!({"description": "Done.", "content": {"application/json": {"schema": schema}}}))
        }
    };
    let words: Vec<String> =
        route.path.split(['/', '-', '.', '{', '}']).filter(|word| !word.is_empty()).map(capital).collect();
    let mut shown = json!({
        "operationId": format!("{}{}", route.method.as_str().to_ascii_lowercase(), words.concat()),
        "summary": route.summary,
        "tags": [tag(route.path)],
        "responses": {code: answer, "default": problem},
    });
    if !parameters.is_empty() {
        shown["parameters"] = parameters.into();
    }
    if let Some(body) = body(route) {
        shown["requestBody"] = body;
    }
    shown
}

fn tag(path: &str) -> &'static str {
    match path {
        _ if path.starts_with("/wapi/") => "console",
        _ if path.starts_with("/apis/zcloud.cn/") => "zcloud",
        _ if path.contains("/resources/") || path.ends_with("/kinds") => "kinds",
        _ => "applications",
    }
}

fn capital(word: &str) -> String {
    let mut chars = word.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

fn about_place(name: &str) -> &'static str {
    match name {
        "name" => "The cluster; all for every cluster, where that makes sense; meta for the meta API's own kinds.",
        "namespace" => "The namespace.",
        "app" => "The application: the label app or app.kubernetes.io/name.",
        "pod" => "The pod.",
        "group" => "The API group; core for the core group.",
        "version" => "The version of the API group.",
        "plural" => "The kind in the plural, as in pods.",
        "object" => "The object's name.",
        "action" => "What to do.",
        "owner" => "Whose objects they are: the id of the row.",
        _ => "",
    }
}

fn body(route: &Route) -> Option<Value> {
    use super::route::Op;
    let schema = match route.op {
        Op::Apply => json!({"type": "object", "description": "A whole Kubernetes object."}),
        Op::Act => json!({"type": "object", "description": "What the action takes: {\"replicas\": 3} for scale."}),
        Op::CleanupAbandon => json!({"$ref": "#/components/schemas/AbandonRequest"}),
        Op::ZcloudCollection => json!({"$ref": "#/components/schemas/ImportRequest"}),
        _ => return None,
    };
    let media = json!({"schema": schema});
    Some(json!({"required": route.op != Op::Act, "content": {"application/json": media, "application/yaml": media}}))
}

fn list(row: &Value) -> Value {
    json!({"type": "object", "required": ["items", "count", "pageSize", "unanswered", "stale"], "properties": {
        "items": {"type": "array", "items": row},
        "count": {"type": "integer", "description": "Rows that match, on all pages."},
        "page": {"type": "integer"}, "pageSize": {"type": "integer"},
        "cursor": {"type": "string", "description": "Goes on behind this page; missing on the last."},
        "unanswered": {"type": "array", "items": {"$ref": "#/components/schemas/Unanswered"}},
        "stale": {"type": "array", "items": {"$ref": "#/components/schemas/Stale"}},
    }})
}

/// Fields as `name:type`, parted by spaces; `?` at the end of a name for what may be missing, `[]` before a type for lists.
fn object(fields: &str) -> Value {
    let mut properties = Map::new();
    let mut required: Vec<&str> = Vec::new();
    for field in fields.split_whitespace() {
        let (name, kind) = field.split_once(':').unwrap_or((field, "string"));
        let (name, needed) = name.strip_suffix('?').map_or((name, true), |name| (name, false));
        let simple = |kind: &str| match kind {
            "time" => json!({"type": "string", "format": "date-time"}),
            "words" => json!({"type": "object", "additionalProperties": {"type": "string"}}),
            "any" => json!({}),
            kind if kind.starts_with(char::is_uppercase) => json!({"$ref": format!("#/components/schemas/{kind}")}),
            kind => json!({"type": kind}),
        };
        let schema = match kind.strip_prefix("[]") {
            Some(kind) => json!({"type": "array", "items": simple(kind)}),
            None => simple(kind),
        };
        properties.insert(name.to_owned(), schema);
        if needed {
            required.push(name);
        }
    }
    json!({"type": "object", "properties": properties, "required": required})
}

const SCHEMAS: &[(&str, &str)] = &[
    ("Problem", "code:integer reason message details:object"),
    ("Unanswered", "cluster reason message"),
    ("Stale", "cluster since:time"),
    ("Amounts", "allocatable:number requested:number"),
    (
        "Cluster",
        "name cluster state ready:boolean version? latencyMs?:number since:time answered?:time error? labels:words origin simulated:boolean nodes?:integer nodesReady?:integer pods?:integer podsReady?:integer cpu?:Amounts memory?:Amounts",
    ),
    (
        "Pod",
        "cluster namespace name app phase ready restarts:integer node ip created:time reason? group? unit? ldc? image labels:words",
    ),
    (
        "DeploymentStat",
        "cluster namespace name app phase desiredReplicas:integer updatedReplicas:integer readyReplicas:integer availableReplicas:integer unavailableReplicas:integer paused:boolean created:time image labels:words",
    ),
    ("Address", "ip node? pod? ready:boolean"),
    (
        "Endpoints",
        "cluster namespace name app ready:integer notReady:integer addresses:[]Address ports:[]object created:time labels:words",
    ),
    ("Event", "cluster namespace name kind object reason type message count:integer first:time last:time source"),
    ("Release", "cluster namespace name chart chartVersion appVersion revision:integer status updated description?"),
    (
        "AppResources",
        "pods?:[]Pod deployments?:[]DeploymentStat statefulSets?:[]Row daemonSets?:[]Row services?:[]Row endpoints?:[]Endpoints ingresses?:[]Row unanswered:[]Unanswered",
    ),
    ("Workload", "cluster namespace kind name message?"),
    ("Restarted", "restarted:[]Workload failed:[]Workload unanswered:[]Unanswered"),
    ("Ran", "stdout stderr exitCode:integer truncated:boolean"),
    ("LogFile", "name path size?:integer modified?:time"),
    ("Kind", "group version plural kind namespaced:boolean verbs:[]string shortNames:[]string"),
    (
        "Row",
        "id cluster name namespace? created:time resourceVersion labels:words annotations:words owner? phase? phaseMessage? spec?:any status?:any stale?:[]Stale",
    ),
    ("Object", "apiVersion kind metadata:object spec?:any status?:any"),
    ("Deleted", "cluster? namespace? name deleted:boolean"),
    ("ZcloudCluster", "id type name status ready:boolean nodesCount?:integer version? labels:words"),
    ("ZcloudClusters", "type resourceType data:[]ZcloudCluster"),
    ("ZcloudCollection", "type resourceType data:[]object count?:integer page?:integer pageSize?:integer"),
    ("ImportRequest", "name kubeconfig? context? server? ca? token? labels?:words allow?:[]string dryRun?:boolean"),
    ("Refused", "field why remedy"),
    (
        "Import",
        "name server? user? trust? fingerprints?:[]string labels:words allow:[]string dryRun:boolean exists?:boolean imported?:boolean origin? refused:[]Refused",
    ),
    ("Kubeconfig", "kubeconfig longLived:boolean account? expires?:time"),
    ("Cleanup", "cluster namespace name kind uid id state deleteContainers:boolean since?:time abandoned?"),
    ("AbandonRequest", "reason"),
    ("Abandoned", "cluster id abandoned:boolean by reason"),
    (
        "Overview",
        "clusters:object nodes:integer nodesReady:integer pods:integer podsReady:integer cpu:Amounts memory:Amounts warnings:[]Event members:[]Cluster",
    ),
    ("FoundOne", "kind cluster namespace name path"),
];

fn schemas() -> Value {
    let mut all: Map<String, Value> =
        SCHEMAS.iter().map(|(name, fields)| ((*name).to_owned(), object(fields))).collect();
    for (name, of) in [("LogFiles", "LogFile"), ("Kinds", "Kind"), ("Found", "FoundOne")] {
        all.insert(name.to_owned(), json!({"type": "array", "items": {"$ref": format!("#/components/schemas/{of}")}}));
    }
    all.insert("Document".to_owned(), json!({"type": "object"}));
    Value::Object(all)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_route_is_in_the_document_once_with_its_places() {
        // SYM-13
        let document = make();
        let mut ids = BTreeSet::new();
        for route in table() {
            let shown = &document["paths"][route.path][route.method.as_str().to_ascii_lowercase()];
            assert!(shown.is_object(), "{}", route.path);
            assert!(ids.insert(shown["operationId"].as_str().unwrap().to_owned()), "{shown}");
            let places =
                shown["parameters"].as_array().map_or(0, |all| all.iter().filter(|one| one["in"] == "path").count());
            assert_eq!(places, route.path.matches('{').count(), "{}", route.path);
            let names: Vec<&str> = shown["parameters"]
                .as_array()
                .into_iter()
                .flatten()
                .filter(|one| one["in"] == "query")
                .map(|one| one["name"].as_str().unwrap())
                .collect();
            assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "{}: {names:?}", route.path);
        }
        for operation in OPERATIONS {
            assert!(ids.insert(operation.id.to_owned()), "{}", operation.id);
        }
    }

    #[test]
    fn every_reference_leads_to_a_schema() {
        let document = make();
        let text = document.to_string();
        for reference in text.split("\"#/components/schemas/").skip(1) {
            let name = reference.split('"').next().unwrap();
            assert!(document["components"]["schemas"][name].is_object(), "{name}");
        }
    }
}
