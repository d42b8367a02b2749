//! The OpenAPI 3 document of this face: made from the table of routes, the actions, and the schemas that the API itself publishes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::{Method, Request};
use kube::Client;
use serde_json::{Map, Value, json};
use tokio::time::{Instant, timeout};

use super::actions::{Action, Actions};
use super::catalog::Kind;
use super::path::{OPENAPI, ROOT};
use super::routes::{Route, Shape};
use super::row::MADE_HERE;
use crate::access::{Authorized, Discover};
use crate::problem::Problem;

const FRESH: Duration = Duration::from_secs(30);
const DEADLINE: Duration = Duration::from_secs(20);

/// Documents made lately, by the group they were narrowed to.
pub(crate) struct Documents {
    client: Client,
    made: Mutex<HashMap<Option<String>, (Bytes, Instant)>>,
    /// One is made at a time: it takes megabytes of schemas.
    making: tokio::sync::Mutex<()>,
}

impl Documents {
    pub(crate) fn new(client: Client) -> Self {
        Self { client, made: Mutex::default(), making: tokio::sync::Mutex::new(()) }
    }

    pub(crate) async fn get(
        &self,
        _: &Authorized<Discover>,
        kinds: &[Arc<Kind>],
        routes: &[Route],
        actions: &Actions,
        group: Option<&str>,
    ) -> Result<Bytes, Problem> {
        let kinds: Vec<&Kind> = kinds
            .iter()
            .map(AsRef::as_ref)
            .filter(|kind| group.is_none_or(|group| group == kind.group_word()))
            .collect();
        if kinds.is_empty() {
            return Err(Problem::not_found("there is no kind of that group").with("parameter", "group"));
        }
        let key = group.map(str::to_owned);
        if let Some(document) = self.known(&key) {
            return Ok(document);
        }
        let _turn = self.making.lock().await;
        if let Some(document) = self.known(&key) {
            return Ok(document);
        }
        let schemas = timeout(DEADLINE, self.schemas(&kinds))
            .await
            .map_err(|_| Problem::unavailable("the Kubernetes API did not give its schemas in time; try again"))??;
        let document = Bytes::from(document(&kinds, routes, actions, &schemas).to_string());
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        made.retain(|_, (_, at)| at.elapsed() < FRESH);
        made.insert(key, (document.clone(), Instant::now()));
        Ok(document)
    }

    fn known(&self, key: &Option<String>) -> Option<Bytes> {
        let made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        made.get(key).filter(|(_, at)| at.elapsed() < FRESH).map(|(document, _)| document.clone())
    }

    /// `components.schemas` of every group and version that the kinds are of.
    async fn schemas(&self, kinds: &[&Kind]) -> Result<Map<String, Value>, Problem> {
        let index = fetch(self.client.clone(), "/openapi/v3".to_owned())
            .await
            .ok_or_else(|| Problem::unavailable("the Kubernetes API did not give its schemas; try again"))?;
        let wanted: BTreeSet<String> = kinds.iter().map(|kind| group_path(kind)).collect();
        let urls: Vec<String> = wanted
            .iter()
            .filter_map(|path| index["paths"][path]["serverRelativeURL"].as_str().map(str::to_owned))
            .collect();
        let documents = stream::iter(urls.into_iter().map(|url| fetch(self.client.clone(), url)))
            .buffer_unordered(4)
            .collect::<Vec<_>>()
            .await;
        let mut schemas = Map::new();
        for document in documents.into_iter().flatten() {
            if let Value::Object(mut document) = document
                && let Some(Value::Object(found)) =
                    document.get_mut("components").and_then(|parts| parts.get_mut("schemas")).map(Value::take)
            {
                schemas.extend(found);
            }
        }
        Ok(schemas)
    }
}

async fn fetch(client: Client, url: String) -> Option<Value> {
    let request =
        Request::builder().method(Method::GET).uri(&url).header("accept", "application/json").body(Vec::new()).ok()?;
    match client.request::<Value>(request).await {
        Ok(document) => Some(document),
        Err(why) => {
            tracing::warn!(url, %why, "cannot read a schema document of the API; its kinds are described loosely");
            None
        }
    }
}

fn group_path(kind: &Kind) -> String {
    if kind.group.is_empty() {
        format!("api/{}", kind.version)
    } else {
        format!("apis/{}/{}", kind.group, kind.version)
    }
}

/// Pure: what is known of kinds, routes, actions and schemas as one document.
pub(crate) fn document(kinds: &[&Kind], routes: &[Route], actions: &Actions, schemas: &Map<String, Value>) -> Value {
    let mut used = BTreeMap::new();
    let mut components = Map::new();
    components.insert("Problem".to_owned(), problem_schema());
    let mut paths: BTreeMap<String, Map<String, Value>> = BTreeMap::new();
    let by_kind = index(schemas);
    for route in routes {
        let path = match route.shape {
            Shape::Kinds => ROOT.to_owned(),
            Shape::OpenApi => OPENAPI.to_owned(),
            _ => continue,
        };
        put(&mut paths, path, route, operation(route, route.id, None, vec![], json!({"type": "object"}), None));
    }
    for kind in kinds {
        let name = schema_name(kind);
        let own = by_kind.get(&(kind.group.as_str(), kind.version.as_str(), kind.kind.as_str()));
        components.insert(name.clone(), flat_schema(own.copied()));
        if let Some(own) = own {
            follow(own, schemas, &mut used);
        }
        for route in routes.iter().filter(|route| kind.allows(route.verb)) {
            kind_paths(kind, &name, route, actions, &mut paths);
        }
    }
    components.extend(used.into_iter().map(|(name, schema)| (name.to_owned(), schema.clone())));
    json!({
        "openapi": "3.0.3",
        "info": {"title": "Muster APIExt", "version": "v1", "description": "The resources of the Kubernetes API as plain REST."},
        "security": [{"bearer": []}],
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}}},
    })
}

type ByKind<'a> = HashMap<(&'a str, &'a str, &'a str), &'a Value>;

/// Schemas by the kind they say they are of.
fn index(schemas: &Map<String, Value>) -> ByKind<'_> {
    let mut found = HashMap::new();
    for schema in schemas.values() {
        // DeleteOptions and the like name every group.
        let Some([one]) = schema["x-kubernetes-group-version-kind"].as_array().map(Vec::as_slice) else { continue };
        let [group, version, kind] = ["group", "version", "kind"].map(|key| one[key].as_str().unwrap_or(""));
        found.insert((group, version, kind), schema);
    }
    found
}

/// Collects every schema that one refers to.
fn follow<'a>(schema: &'a Value, all: &'a Map<String, Value>, used: &mut BTreeMap<&'a str, &'a Value>) {
    let mut open = vec![schema];
    while let Some(value) = open.pop() {
        match value {
            Value::Object(map) => {
                if let Some(name) =
                    map.get("$ref").and_then(Value::as_str).and_then(|name| name.strip_prefix("#/components/schemas/"))
                    && let Some((name, found)) = all.get_key_value(name)
                    && used.insert(name, found).is_none()
                {
                    open.push(found);
                }
                open.extend(map.values());
            }
            Value::Array(list) => open.extend(list),
            _ => {}
        }
    }
}

fn schema_name(kind: &Kind) -> String {
    format!("{}.{}.{}", kind.group_word(), kind.version, kind.kind)
}

/// The flat shape of a kind: what is the same for all, and the kind's own fields.
fn flat_schema(own: Option<&Value>) -> Value {
    let text = |about: &str| json!({"type": "string", "description": about});
    let made = |about: &str| json!({"type": "string", "readOnly": true, "description": about});
    let words =
        |about: &str| json!({"type": "object", "additionalProperties": {"type": "string"}, "description": about});
    let mut properties = json!({
        "id": made("Never used again, not even by an object of the same name."),
        "name": text("Unique among the objects of its kind and namespace."),
        "namespace": text("Where it lives; kinds without namespaces have none."),
        "created": {"type": "string", "format": "date-time", "readOnly": true},
        "deleting": {"type": "string", "format": "date-time", "readOnly": true, "description": "Since when it is being deleted."},
        "resourceVersion": text("Changes with every write. Send it back to write only over what you read."),
        "generation": {"type": "integer", "format": "int64", "readOnly": true},
        "labels": words("To select by."),
        "annotations": words("Notes that nobody selects by."),
        "owner": made("Kind/name of what it belongs to."),
        "finalizers": {"type": "array", "items": {"type": "string"}, "readOnly": true},
        "phase": made("How it is, in one word."),
        "phaseMessage": made("Why."),
    });
    let own = own.and_then(|own| own["properties"].as_object());
    for (name, schema) in own.into_iter().flatten() {
        let hidden = ["apiVersion", "kind", "metadata"].contains(&name.as_str()) || MADE_HERE.contains(&name.as_str());
        if !hidden && properties.get(name).is_none() {
            properties[name] = schema.clone();
        }
    }
    // A kind without a published schema may have anything.
    json!({"type": "object", "properties": properties, "additionalProperties": own.is_none()})
}

fn problem_schema() -> Value {
    json!({"type": "object", "required": ["code", "reason", "message", "details"], "properties": {
        "code": {"type": "integer", "description": "The HTTP status."},
        "reason": {"type": "string", "description": "A stable word for programs."},
        "message": {"type": "string", "description": "For people: what is wrong and what to do."},
        "details": {"type": "object", "description": "The parameter or fields it is about, when to try again, …"},
    }})
}

fn page_schema(row: &Value) -> Value {
    json!({"type": "object", "required": ["kind", "apiVersion", "count", "pageSize", "items"], "properties": {
        "kind": {"type": "string"}, "apiVersion": {"type": "string"},
        "count": {"type": "integer", "description": "Rows that match, on all pages."},
        "page": {"type": "integer"}, "pageSize": {"type": "integer"},
        "cursor": {"type": "string", "description": "Goes on behind this page; missing on the last."},
        "items": {"type": "array", "items": row},
    }})
}

fn put(paths: &mut BTreeMap<String, Map<String, Value>>, path: String, route: &Route, operation: Value) {
    paths.entry(path).or_default().insert(route.method.as_str().to_ascii_lowercase(), operation);
}

fn kind_paths(
    kind: &Kind,
    schema: &str,
    route: &Route,
    actions: &Actions,
    paths: &mut BTreeMap<String, Map<String, Value>>,
) {
    let root = format!("{ROOT}/{}/{}", kind.group_word(), kind.version);
    let place = if kind.namespaced {
        format!("{root}/namespaces/{{namespace}}/{}", kind.plural)
    } else {
        format!("{root}/{}", kind.plural)
    };
    let row = json!({"$ref": format!("#/components/schemas/{schema}")});
    let id = |verb: &str| format!("{verb}{}", camel(&[kind.group_word(), &kind.version, &kind.kind]));
    let mut at: Vec<&str> = if kind.namespaced { vec!["namespace"] } else { vec![] };
    let named = |about: Option<&Action>, id: &str, at: &[&str], answer: Value| {
        operation(route, id, Some(kind), at.to_vec(), answer, Some((&row, about)))
    };
    match route.shape {
        Shape::Kinds | Shape::OpenApi => {}
        Shape::Collection => {
            let answer = if route.method == Method::GET { page_schema(&row) } else { row.clone() };
            if kind.namespaced && route.method == Method::GET {
                let all = named(None, &format!("{}InAllNamespaces", id(route.id)), &[], answer.clone());
                put(paths, format!("{root}/{}", kind.plural), route, all);
            }
            put(paths, place, route, named(None, &id(route.id), &at, answer));
        }
        Shape::Object => {
            at.push("name");
            let answer = if route.method == Method::DELETE {
                json!({"type": "object", "required": ["name", "deleted"], "properties": {"id": {"type": "string"}, "name": {"type": "string"},
                    "namespace": {"type": "string"}, "deleted": {"type": "boolean", "description": "false: marked for deletion, and gone once its finalizers are done."}}})
            } else {
                row.clone()
            };
            put(paths, format!("{place}/{{name}}"), route, named(None, &id(route.id), &at, answer));
        }
        Shape::Action => {
            at.push("name");
            for action in actions.of(kind) {
                put(
                    paths,
                    format!("{place}/{{name}}/{}", action.name),
                    route,
                    named(Some(action), &id(&action.name), &at, row.clone()),
                );
            }
        }
    }
}

fn operation(
    route: &Route,
    id: &str,
    kind: Option<&Kind>,
    at: Vec<&str>,
    answer: Value,
    body: Option<(&Value, Option<&Action>)>,
) -> Value {
    let mut parameters: Vec<Value> = at
        .iter()
        .map(|name| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}}))
        .collect();
    parameters.extend(route.parameters.iter().map(
        |(name, kind, about)| json!({"name": name, "in": "query", "description": about, "schema": {"type": kind}}),
    ));
    let refused = json!({"description": "Why not.", "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Problem"}}}});
    let action = body.and_then(|(_, action)| action);
    let mut operation = json!({
        "operationId": id,
        "summary": action.map_or(route.summary, |action| action.summary.as_str()),
        "responses": {route.code.to_string(): {"description": "Done.", "content": {"application/json": {"schema": answer}}}, "default": refused},
    });
    if let Some(kind) = kind {
        operation["tags"] = json!([format!("{}/{}", kind.group_word(), kind.plural)]);
    }
    if !parameters.is_empty() {
        operation["parameters"] = parameters.into();
    }
    if let Some((row, action)) = body.filter(|_| !route.media.is_empty()) {
        let schema = action.map_or(row, |action| &action.input);
        // A patch names some fields of a row, and null takes one away.
        let schema = if route.method == Method::PATCH { json!({"type": "object"}) } else { schema.clone() };
        let content: Map<String, Value> =
            route.media.iter().map(|media| ((*media).to_owned(), json!({"schema": schema}))).collect();
        operation["requestBody"] = json!({"required": action.is_none(), "content": content});
    }
    operation
}

fn camel(words: &[&str]) -> String {
    let parts = words.iter().flat_map(|word| word.split(|c: char| !c.is_ascii_alphanumeric()));
    parts.filter_map(|part| Some((part.chars().next()?.to_ascii_uppercase(), part.get(1..)?))).fold(
        String::new(),
        |mut all, (first, rest)| {
            all.push(first);
            all.push_str(rest);
            all
        },
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::routes::table;
    use super::*;

    fn made() -> Value {
        let deployments = Kind { has_scale: true, ..Kind::for_tests("apps", "v1", "deployments", "Deployment") };
        let nodes = Kind { namespaced: false, ..Kind::for_tests("", "v1", "nodes", "Node") };
        let schemas = json!({
            "io.Deployment": {"type": "object", "properties": {"metadata": {"$ref": "#/components/schemas/io.Meta"}, "kind": {"type": "string"},
                "spec": {"allOf": [{"$ref": "#/components/schemas/io.Spec"}]}}, "x-kubernetes-group-version-kind": [{"group": "apps", "version": "v1", "kind": "Deployment"}]},
            "io.Spec": {"type": "object", "properties": {"self": {"$ref": "#/components/schemas/io.Spec"}, "n": {"$ref": "#/components/schemas/io.N"}}},
            "io.N": {"type": "integer"}, "io.Meta": {"type": "object"}, "io.Unused": {"type": "object"}});
        document(&[&deployments, &nodes], &table(), &Actions::default(), schemas.as_object().unwrap())
    }

    #[test]
    fn every_route_of_the_table_is_in_the_document() {
        let document = made();
        let paths = document["paths"].as_object().unwrap();
        let operations: Vec<String> = paths
            .iter()
            .flat_map(|(path, methods)| {
                methods.as_object().unwrap().keys().map(move |method| format!("{method} {path}"))
            })
            .collect();
        let place = "/apiext/v1/apps/v1/namespaces/{namespace}/deployments";
        for expected in [
            "get /apiext/v1".to_owned(),
            "get /apiext/openapi.json".to_owned(),
            "get /apiext/v1/apps/v1/deployments".to_owned(),
            format!("get {place}"),
            format!("post {place}"),
            format!("get {place}/{{name}}"),
            format!("put {place}/{{name}}"),
            format!("patch {place}/{{name}}"),
            format!("delete {place}/{{name}}"),
            format!("post {place}/{{name}}/restart"),
            format!("post {place}/{{name}}/scale"),
            "get /apiext/v1/core/v1/nodes/{name}".to_owned(),
        ] {
            assert!(operations.contains(&expected), "{expected} is not in {operations:#?}");
        }
        assert!(
            !operations.contains(&"post /apiext/v1/apps/v1/deployments".to_owned()),
            "objects are created in a namespace"
        );
        let mut ids: Vec<&str> = paths
            .values()
            .flat_map(|methods| methods.as_object().unwrap().values())
            .map(|operation| operation["operationId"].as_str().unwrap())
            .collect();
        let all = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), all, "operation ids are unique");
    }

    #[test]
    fn a_row_has_the_flat_fields_and_the_kinds_own_and_all_references_resolve() {
        let document = made();
        let schemas = document["components"]["schemas"].as_object().unwrap();
        let row = &schemas["apps.v1.Deployment"]["properties"];
        assert!(
            row["phase"].is_object()
                && row["spec"].is_object()
                && row.get("metadata").is_none()
                && row.get("kind").is_none()
        );
        assert!(schemas.contains_key("io.Spec") && schemas.contains_key("io.N") && !schemas.contains_key("io.Unused"));
        let text = document.to_string();
        for reference in text.split("\"$ref\":\"#/components/schemas/").skip(1) {
            let name = reference.split('"').next().unwrap();
            assert!(schemas.contains_key(name), "{name} is not defined");
        }
    }
}
