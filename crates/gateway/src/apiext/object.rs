//! From the flat shape back to an object of the API. A body with `metadata` is one already.

use serde_json::{Map, Value, json};

use super::catalog::Kind;
use super::row::{LAST_APPLIED, MADE_HERE};
use crate::problem::Problem;

/// Where a write goes: the path decides, the body may only agree.
pub(crate) struct Place<'a> {
    pub(crate) kind: &'a Kind,
    pub(crate) namespace: Option<&'a str>,
    pub(crate) name: Option<&'a str>,
}

/// The object to create.
pub(crate) fn to_create(place: &Place<'_>, body: Value) -> Result<Value, Problem> {
    let mut body = map(body)?;
    let mut object = if is_kubernetes(&body) {
        place.agrees(&body)?;
        body
    } else {
        let mut metadata = Map::new();
        for field in ["name", "namespace", "generateName", "labels", "annotations"] {
            if let Some(value) = body.remove(field) {
                metadata.insert(field.to_owned(), value);
            }
        }
        let mut object = own_fields(body);
        object.insert("metadata".to_owned(), Value::Object(metadata));
        object
    };
    place.mark(&mut object)?;
    Ok(Value::Object(object))
}

/// `current` with what the body says. What the flat shape does not show (owners, finalizers, bookkeeping) stays as it is.
pub(crate) fn to_replace(
    place: &Place<'_>,
    current: Value,
    body: Value,
    version: Option<&str>,
) -> Result<Value, Problem> {
    let mut body = map(body)?;
    let kubernetes = is_kubernetes(&body);
    if kubernetes {
        place.agrees(&body)?;
    }
    let given = if kubernetes {
        body["metadata"]["resourceVersion"].as_str()
    } else {
        body.get("resourceVersion").and_then(Value::as_str)
    };
    let version = given.or(version).filter(|version| !version.is_empty()).map(str::to_owned).ok_or_else(|| {
        Problem::new(428, "PreconditionRequired", "send the resourceVersion of the object you read, in the body or as If-Match, so that nobody's change is lost")
    })?;
    if current["metadata"]["resourceVersion"].as_str() != Some(&version) {
        let why = "the object has changed since you read it: read it again, apply your change to it and send that";
        return Err(
            Problem::new(409, "Conflict", why).with("resourceVersion", current["metadata"]["resourceVersion"].clone())
        );
    }
    if kubernetes {
        place.mark(&mut body)?;
        body["metadata"]["resourceVersion"] = version.into();
        return Ok(Value::Object(body));
    }
    let mut metadata = map(current["metadata"].clone())?;
    let applied = metadata.get("annotations").and_then(|annotations| annotations.get(LAST_APPLIED)).cloned();
    for field in ["labels", "annotations"] {
        match body.remove(field) {
            Some(value) => metadata.insert(field.to_owned(), value),
            None => metadata.remove(field),
        };
    }
    if let Some(applied) = applied {
        let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
        if let Value::Object(annotations) = annotations {
            annotations.insert(LAST_APPLIED.to_owned(), applied);
        }
    }
    for (field, there) in [("name", place.name), ("namespace", place.namespace)] {
        if let Some(said) = body.remove(field) {
            agree(field, &said, there)?;
        }
    }
    metadata.insert("resourceVersion".to_owned(), version.into());
    body.remove("resourceVersion");
    let mut object = own_fields(body);
    // A status in the body is what was read; controllers write it, not this face.
    if let Some(status) = current.get("status") {
        object.insert("status".to_owned(), status.clone());
    }
    object.insert("metadata".to_owned(), Value::Object(metadata));
    place.mark(&mut object)?;
    Ok(Value::Object(object))
}

/// A merge patch. Fields that only the server makes are refused by name: a patch that silently does nothing helps nobody.
pub(crate) fn to_patch(place: &Place<'_>, body: Value) -> Result<Value, Problem> {
    let mut body = map(body)?;
    if is_kubernetes(&body) {
        place.agrees(&body)?;
        return Ok(Value::Object(body));
    }
    let made =
        MADE_HERE.iter().chain(&["name", "namespace", "kind", "apiVersion"]).find(|field| body.contains_key(**field));
    if let Some(field) = made {
        return Err(Problem::new(422, "Invalid", format!("{field} cannot be patched: it is made by the server"))
            .with("field", *field));
    }
    if place.kind.has_status && body.contains_key("status") {
        return Err(Problem::new(422, "Invalid", "status cannot be patched: the kind's controller writes it")
            .with("field", "status"));
    }
    let mut metadata = Map::new();
    for field in ["labels", "annotations", "resourceVersion"] {
        if let Some(value) = body.remove(field) {
            metadata.insert(field.to_owned(), value);
        }
    }
    if !metadata.is_empty() {
        body.insert("metadata".to_owned(), Value::Object(metadata));
    }
    Ok(Value::Object(body))
}

impl Place<'_> {
    /// Refuses an object of another kind, name or namespace.
    fn agrees(&self, object: &Map<String, Value>) -> Result<(), Problem> {
        let of = |field: &str| object.get(field).filter(|value| !value.is_null());
        if let Some(said) = of("kind") {
            agree("kind", said, Some(&self.kind.kind))?;
        }
        if let Some(said) = of("apiVersion") {
            agree("apiVersion", said, Some(&self.kind.api_version()))?;
        }
        Ok(())
    }

    /// Writes kind, name and namespace of the path into the object.
    fn mark(&self, object: &mut Map<String, Value>) -> Result<(), Problem> {
        object.insert("apiVersion".to_owned(), self.kind.api_version().into());
        object.insert("kind".to_owned(), self.kind.kind.clone().into());
        let metadata = object.entry("metadata").or_insert_with(|| json!({}));
        let Value::Object(metadata) = metadata else {
            return Err(Problem::bad_request("metadata must be an object"));
        };
        for (field, there) in [("name", self.name), ("namespace", self.namespace)] {
            if let Some(said) = metadata.get(field).filter(|said| !said.is_null()) {
                // Without a name in the path the body names the object.
                if there.is_some() || field == "namespace" {
                    agree(field, said, there)?;
                }
            }
            if let Some(there) = there {
                metadata.insert(field.to_owned(), there.into());
            }
        }
        Ok(())
    }
}

fn agree(field: &str, said: &Value, there: Option<&str>) -> Result<(), Problem> {
    if said.as_str() == there {
        return Ok(());
    }
    let there = there.map_or("the path has none".to_owned(), |there| format!("the path says {there:?}"));
    Err(Problem::bad_request(format!("{field} in the body is not that of the path: {there}")).with("field", field))
}

fn is_kubernetes(body: &Map<String, Value>) -> bool {
    body.get("metadata").is_some_and(Value::is_object)
}

fn own_fields(mut body: Map<String, Value>) -> Map<String, Value> {
    for field in MADE_HERE.iter().chain(&["kind", "apiVersion", "resourceVersion"]) {
        body.remove(*field);
    }
    body
}

fn map(body: Value) -> Result<Map<String, Value>, Problem> {
    match body {
        Value::Object(map) => Ok(map),
        _ => Err(Problem::bad_request("the body must be a JSON object")),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn kind() -> Kind {
        Kind { has_status: true, ..Kind::for_tests("apps", "v1", "deployments", "Deployment") }
    }

    #[test]
    fn a_flat_body_becomes_an_object_of_the_kind_of_the_path() {
        let kind = kind();
        let place = Place { kind: &kind, namespace: Some("shop"), name: None };
        let flat = json!({"name": "web", "labels": {"a": "b"}, "spec": {"x": 1}, "phase": "Running", "id": "u", "created": "z"});
        let object = to_create(&place, flat).unwrap();
        assert_eq!(
            object,
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"x": 1},
            "metadata": {"name": "web", "namespace": "shop", "labels": {"a": "b"}}})
        );
    }

    #[test]
    fn a_body_that_contradicts_its_path_is_refused() {
        let kind = kind();
        let place = Place { kind: &kind, namespace: Some("shop"), name: Some("web") };
        for body in [
            json!({"namespace": "other"}),
            json!({"metadata": {"namespace": "other"}}),
            json!({"metadata": {}, "kind": "Pod"}),
            json!({"metadata": {}, "apiVersion": "v1"}),
            json!({"name": "db"}),
            json!([]),
            json!("x"),
            json!({"name": 5}),
        ] {
            assert_eq!(to_create(&place, body.clone()).unwrap_err().code, 400, "{body}");
        }
    }

    #[test]
    fn replacing_keeps_what_the_flat_shape_does_not_show() {
        let kind = kind();
        let place = Place { kind: &kind, namespace: Some("shop"), name: Some("web") };
        let current = json!({"metadata": {"name": "web", "namespace": "shop", "resourceVersion": "5", "ownerReferences": [1], "labels": {"old": "1"},
            "annotations": {LAST_APPLIED: "keep", "x": "y"}}, "spec": {"a": 1}, "status": {"s": 1}});
        let body = json!({"name": "web", "namespace": "shop", "resourceVersion": "5", "labels": {"new": "1"}, "spec": {"a": 2}, "status": {"s": 9}, "phase": "x"});
        let object = to_replace(&place, current.clone(), body, None).unwrap();
        assert_eq!(
            object,
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"a": 2}, "status": {"s": 1},
            "metadata": {"name": "web", "namespace": "shop", "resourceVersion": "5", "ownerReferences": [1], "labels": {"new": "1"}, "annotations": {LAST_APPLIED: "keep"}}})
        );
        assert_eq!(to_replace(&place, current.clone(), json!({"spec": {}}), None).unwrap_err().code, 428);
        assert_eq!(to_replace(&place, current.clone(), json!({"spec": {}}), Some("4")).unwrap_err().code, 409);
        assert!(to_replace(&place, current, json!({"spec": {}}), Some("5")).is_ok());
    }

    #[test]
    fn a_patch_may_not_name_what_the_server_makes() {
        let kind = kind();
        let place = Place { kind: &kind, namespace: None, name: Some("web") };
        for field in ["phase", "id", "name", "status", "owner"] {
            let problem = to_patch(&place, json!({field: "x"})).unwrap_err();
            assert!(problem.code == 422 && problem.message.contains(field), "{problem}");
        }
        let patch =
            to_patch(&place, json!({"labels": {"a": null}, "spec": {"x": null}, "resourceVersion": "5"})).unwrap();
        assert_eq!(patch, json!({"metadata": {"labels": {"a": null}, "resourceVersion": "5"}, "spec": {"x": null}}));
    }
}
