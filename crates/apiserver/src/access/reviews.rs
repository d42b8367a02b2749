//! Reviews: may somebody do something, and what may I do. They decide nothing; they tell what would be decided.

use crate::body::Body;
use crate::kinds::Kind;
use crate::verbs::Call;
use crate::{decode, negotiate};
use auth::{Request, User};
use http::Response;
use meta::options::WriteOptions;
use meta::selector::{FieldSelector, LabelSelector};
use meta::{FieldError, FieldErrors, Object, Status, time};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Whom a review is about, and where it may look.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum About {
    Anybody,
    AnybodyHere,
    Myself,
}

impl Call<'_> {
    /// The body of a POST that is not stored.
    pub(super) fn request_body(&self, kind: &Kind, body: &[u8]) -> Result<Object, Status> {
        self.defaulted_body(kind, body, |_| {})
    }

    /// The same with defaults, which are its author's.
    pub(super) fn defaulted_body(&self, kind: &Kind, body: &[u8], default: fn(&mut Object)) -> Result<Object, Status> {
        let options = WriteOptions::parse(&self.query, "CreateOptions")?;
        let content = negotiate::content(self.headers)?;
        let decoded = decode::object(kind, content, body, options.field_validation)?;
        self.warn(decoded.warnings);
        let mut object = decoded.object;
        object.meta_mut().remove("managedFields");
        default(&mut object);
        let by = self.by(&options, self.proof.subresource());
        if let Some(owners) = self.api.owners_of_new(kind, &by, &object) {
            object.meta_mut().insert("managedFields".into(), owners);
        }
        Ok(object)
    }

    pub fn review_access(&self, about: About, body: &[u8]) -> Result<Response<Body>, Status> {
        let mut review = self.request_body(&self.kind, body)?;
        if about == About::AnybodyHere {
            self.check_namespace(&review)?;
            review.set_meta("namespace", self.namespace);
        }
        let errors = invalid(&review, about);
        if !errors.is_empty() {
            return Err(Status::invalid(&self.kind.group, "", "", &errors));
        }
        let spec = review.0.get("spec").and_then(Value::as_object).cloned().unwrap_or_default();
        let user = if about == About::Myself { self.proof.user().clone() } else { Arc::new(subject(&spec)) };
        let attribute = |part: &str, key: &str| {
            spec.get(part).and_then(|p| p.get(key)).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let of = |key: &str| attribute("resourceAttributes", key);
        let on_resource = spec.get("resourceAttributes").is_some_and(Value::is_object);
        let verb = if on_resource { of("verb") } else { attribute("nonResourceAttributes", "verb") };
        // A resource without a name is no path either: it matches what is stated for every resource.
        let resource = of("resource");
        let request = Request {
            user: &user,
            verb: &verb,
            group: &of("group"),
            version: &of("version"),
            resource: if on_resource && resource.is_empty() { NO_RESOURCE } else { &resource },
            subresource: &of("subresource"),
            namespace: &of("namespace"),
            name: &of("name"),
            path: &attribute("nonResourceAttributes", "path"),
        };
        let opinion = self.api.options.authorizer.opinion(&request);
        let mut status = json!({"allowed": opinion.allowed});
        set(&mut status, "reason", opinion.reason);
        set(&mut status, "evaluationError", unread_selectors(&spec));
        review.0.insert("status".into(), status);
        Ok(self.plain(201, &Value::Object(review.0)))
    }

    pub fn review_rules(&self, body: &[u8]) -> Result<Response<Body>, Status> {
        let review = self.request_body(&self.kind, body)?;
        let namespace =
            review.0.get("spec").and_then(|s| s.get("namespace")).and_then(Value::as_str).unwrap_or_default();
        if namespace.is_empty() {
            return Err(Status::bad_request("no namespace on request"));
        }
        let (rules, missing) = self.api.options.authorizer.rules_of(self.proof.user(), namespace);
        let mut on_resources = Vec::new();
        let mut on_urls = Vec::new();
        for rule in rules {
            if !rule.resources.is_empty() {
                let mut shown = json!({"verbs": rule.verbs, "apiGroups": rule.api_groups, "resources": rule.resources});
                if !rule.resource_names.is_empty() {
                    shown["resourceNames"] = json!(rule.resource_names);
                }
                on_resources.push(shown);
            }
            if !rule.non_resource_urls.is_empty() {
                on_urls.push(json!({"verbs": rule.verbs, "nonResourceURLs": rule.non_resource_urls}));
            }
        }
        let mut status = json!({"resourceRules": on_resources, "nonResourceRules": on_urls, "incomplete": false});
        set(&mut status, "evaluationError", auth::not_found(&missing));
        Ok(self.plain(201, &answer(&self.kind, json!({}), Some(json!({})), status)))
    }

    pub fn review_self(&self, body: &[u8]) -> Result<Response<Body>, Status> {
        self.request_body(&self.kind, body)?;
        let metadata = json!({"creationTimestamp": time::seconds(self.api.clock.now())});
        let status = json!({"userInfo": user_info(self.proof.user())});
        Ok(self.plain(201, &answer(&self.kind, metadata, None, status)))
    }
}

/// No rule can name it, so only `*` matches.
const NO_RESOURCE: &str = "\0";

fn answer(kind: &Kind, metadata: Value, spec: Option<Value>, status: Value) -> Value {
    let mut out = Map::new();
    out.insert("kind".into(), kind.kind.as_str().into());
    out.insert("apiVersion".into(), kind.api_version().into());
    out.insert("metadata".into(), metadata);
    if let Some(spec) = spec {
        out.insert("spec".into(), spec);
    }
    out.insert("status".into(), status);
    Value::Object(out)
}

fn set(status: &mut Value, key: &str, text: String) {
    if !text.is_empty() {
        status[key] = text.into();
    }
}

/// A user as reviews show one.
pub(super) fn user_info(user: &User) -> Value {
    let mut out = json!({"username": user.name});
    set(&mut out, "uid", user.uid.clone());
    if !user.groups.is_empty() {
        out["groups"] = json!(user.groups);
    }
    if !user.extra.is_empty() {
        out["extra"] = json!(user.extra);
    }
    out
}

pub(super) fn texts(value: Option<&Value>) -> Vec<String> {
    value.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// The user a review asks about, exactly as stated.
fn subject(spec: &Map<String, Value>) -> User {
    let text = |key: &str| spec.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let extra = spec.get("extra").and_then(Value::as_object);
    let extra: BTreeMap<_, _> = extra.into_iter().flatten().map(|(k, v)| (k.clone(), texts(Some(v)))).collect();
    User { name: text("user"), uid: text("uid"), groups: texts(spec.get("groups")), extra }
}

fn invalid(review: &Object, about: About) -> FieldErrors {
    let mut errors = Vec::new();
    let empty = Map::new();
    let spec = review.0.get("spec").and_then(Value::as_object).unwrap_or(&empty);
    let on_resource = spec.get("resourceAttributes").filter(|v| !v.is_null());
    let on_path = spec.get("nonResourceAttributes").filter(|v| !v.is_null());
    let shown_path = |path: &Value| {
        let text = |key: &str| path.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        json!({"Path": text("path"), "Verb": text("verb")})
    };
    match (on_resource, on_path) {
        (Some(_), Some(path)) => {
            let why = "cannot be specified in combination with resourceAttributes";
            errors.push(FieldError::invalid("spec.nonResourceAttributes", shown_path(path), why));
        }
        (None, None) => {
            let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
            errors.push(FieldError::invalid("spec.resourceAttributes", Value::Null, why));
        }
        _ => {}
    }
    let named = spec.get("user").and_then(Value::as_str).is_some_and(|user| !user.is_empty());
    if about != About::Myself && !named && texts(spec.get("groups")).is_empty() {
        errors.push(FieldError::invalid("spec.user", "", "at least one of user or group must be specified"));
    }
    for selector in ["fieldSelector", "labelSelector"] {
        if let Some(stated) = on_resource.and_then(|r| r.get(selector)).filter(|s| !s.is_null()) {
            invalid_selector(&format!("spec.resourceAttributes.{selector}"), stated, &mut errors);
        }
    }
    let mut metadata = review.meta().clone();
    metadata.remove("managedFields");
    metadata.retain(|_, value| !value.is_null());
    if about == About::AnybodyHere {
        let namespace = metadata.remove("namespace").unwrap_or_default();
        if !metadata.is_empty() {
            let shown = Value::Object(review.meta().clone());
            errors.push(FieldError::invalid("metadata", shown, "must be empty except for namespace"));
        }
        let stated = on_resource.map(|r| r.get("namespace").cloned().unwrap_or_else(|| "".into()));
        if let Some(stated) = stated.filter(|stated| *stated != namespace) {
            errors.push(FieldError::invalid(
                "spec.resourceAttributes.namespace",
                stated,
                "must match metadata.namespace",
            ));
        }
        if let Some(path) = on_path {
            let why = "disallowed on this kind of request";
            errors.push(FieldError::invalid("spec.nonResourceAttributes", shown_path(path), why));
        }
    } else if !metadata.is_empty() {
        errors.push(FieldError::invalid("metadata", Value::Object(metadata), "must be empty"));
    }
    errors
}

fn requirements(selector: &Value) -> &[Value] {
    selector.get("requirements").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn raw(selector: &Value) -> &str {
    selector.get("rawSelector").and_then(Value::as_str).unwrap_or_default()
}

fn invalid_selector(field: &str, selector: &Value, errors: &mut FieldErrors) {
    let (raw, requirements) = (raw(selector), requirements(selector));
    if !raw.is_empty() && !requirements.is_empty() {
        let why = "may not specified at the same time as requirements";
        errors.push(FieldError::invalid(format!("{field}.rawSelector"), raw, why));
    }
    if raw.is_empty() && requirements.is_empty() {
        let why = format!("when {field} is specified, requirements or rawSelector is required");
        errors.push(FieldError::required(format!("{field}.requirements"), why));
    }
    for (i, requirement) in requirements.iter().enumerate() {
        let at = |key: &str| format!("{field}.requirements[{i}].{key}");
        let text = |key: &str| requirement.get(key).and_then(Value::as_str).unwrap_or_default();
        let values = texts(requirement.get("values"));
        match text("operator") {
            "In" | "NotIn" if values.is_empty() => {
                errors.push(FieldError::required(at("values"), "must be specified when `operator` is 'In' or 'NotIn'"));
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                errors.push(FieldError::forbidden(at("values"), why));
            }
            _ => {}
        }
        if field.ends_with("fieldSelector") {
            if text("key").is_empty() {
                errors.push(FieldError::required(at("key"), "must be specified"));
            }
        } else {
            let wrong = meta::name::qualified_name(text("key"));
            errors.extend(wrong.into_iter().map(|m| FieldError::invalid(at("key"), text("key"), m)));
        }
    }
}

/// Rules know no selectors; that a stated one could not be read is told all the same.
fn unread_selectors(spec: &Map<String, Value>) -> String {
    let stated = |name: &str| spec.get("resourceAttributes").and_then(|r| r.get(name)).filter(|s| !s.is_null());
    let mut out = Vec::new();
    if let Some(selector) = stated("fieldSelector") {
        let readable = |r: &Value| {
            matches!(r.get("operator").and_then(Value::as_str), Some("In" | "NotIn"))
                && texts(r.get("values")).len() == 1
        };
        out.extend(unread(
            "fieldSelector",
            FieldSelector::parse(raw(selector)).is_ok(),
            requirements(selector),
            readable,
        ));
    }
    if let Some(selector) = stated("labelSelector") {
        let readable = |r: &Value| LabelSelector::from_object(&json!({"matchExpressions": [r]})).is_ok();
        out.extend(unread(
            "labelSelector",
            LabelSelector::parse(raw(selector)).is_ok(),
            requirements(selector),
            readable,
        ));
    }
    out.join("; ")
}

fn unread(
    name: &str,
    raw_is_readable: bool,
    requirements: &[Value],
    readable: impl Fn(&Value) -> bool,
) -> Option<String> {
    let read = requirements.iter().filter(|r| readable(r)).count();
    if raw_is_readable && read == requirements.len() {
        return None;
    }
    let partially = if read > 0 { "partially " } else { "" };
    Some(format!("spec.resourceAttributes.{name} {partially}ignored due to parse error"))
}
