//! Custom kinds: what a CustomResourceDefinition says, as kinds like any other.

use super::jsonpath::Path;
use super::registry::by_priority;
use super::{Behaviour, Kind, STATUS, ScalePaths, ScaleSelector, Subresource, builtin, metadata};
use bytes::Bytes;
use jiff::Timestamp;
use meta::table::Column;
use meta::{FieldError, FieldErrors, Object, time};
use schema::structural::Schema;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};
use store::{Collection, Revision};
use tokio_util::sync::CancellationToken;

/// One CustomResourceDefinition and the kinds it makes.
pub struct Definition {
    pub name: String,
    pub revision: Revision,
    /// One per served version.
    pub kinds: Vec<Arc<Kind>>,
    /// The storage version, served or not.
    pub stored: Arc<Kind>,
    /// The names it was granted.
    pub names: Names,
    accepted: bool,
    /// It has all the names it wants.
    content: bool,
    /// It is going away and waits for its instances to go first.
    cleanup: bool,
    shapes: Vec<Arc<Shape>>,
    /// Of everything that decides how requests are answered.
    digest: String,
    retired: CancellationToken,
}

/// The names a definition has been granted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    pub plural: String,
    pub singular: String,
    pub short: Vec<String>,
    pub kind: String,
    pub list_kind: String,
    pub categories: Vec<String>,
}

/// The schema of one version.
pub struct Shape {
    version: String,
    /// The definition as it is stored; the schema is taken from it when first needed.
    definition: Bytes,
    schema: OnceLock<Schema>,
    digest: String,
    /// Objects stored after this revision were pruned and defaulted by this very schema.
    /// (One whose writer was under way when the schema changed is brought into shape by its next write.)
    since: Revision,
}

/// What a custom kind knows beyond what every kind does.
pub struct Custom {
    pub list_kind: String,
    /// The definition is going away: nothing new is made.
    pub terminating: bool,
    /// Clients of a deprecated version are told.
    pub warnings: Vec<String>,
    /// Ends when the definition changes; watches end with it.
    pub retired: CancellationToken,
    /// Changes whenever the definition does.
    pub digest: String,
    /// The bytes an object begins with that is stored in this version.
    head: Vec<u8>,
    stored_api_version: String,
    shape: Arc<Shape>,
    stored_shape: Arc<Shape>,
    columns: Vec<Printed>,
    /// Fields that selectors may name in this version, and in any: dotted paths.
    selectable: Vec<String>,
    selectable_anywhere: Vec<String>,
}

/// A printer column.
struct Printed {
    definition: Value,
    kind: String,
    path: Option<Path>,
}

static PLAIN: Behaviour =
    Behaviour { generation: true, unconditional_update: false, status_metadata: false, ..builtin::PLAIN };

static WITH_STATUS: Behaviour = Behaviour {
    status: true,
    prepare_create: |object| {
        object.0.remove("status");
    },
    ..PLAIN
};

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn texts(value: &Value, key: &str) -> Vec<String> {
    list(value, key).iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn flag(value: &Value, key: &str) -> bool {
    value.get(key).and_then(Value::as_bool).unwrap_or_default()
}

impl Names {
    pub fn parse(value: &Value) -> Self {
        Self {
            plural: text(value, "plural").into(),
            singular: text(value, "singular").into(),
            short: texts(value, "shortNames"),
            kind: text(value, "kind").into(),
            list_kind: text(value, "listKind").into(),
            categories: texts(value, "categories"),
        }
    }

    pub fn to_value(&self) -> Value {
        let mut out = json!({"plural": self.plural, "kind": self.kind});
        for (key, value) in [("singular", &self.singular), ("listKind", &self.list_kind)] {
            if !value.is_empty() {
                out[key] = value.as_str().into();
            }
        }
        for (key, value) in [("shortNames", &self.short), ("categories", &self.categories)] {
            if !value.is_empty() {
                out[key] = json!(value);
            }
        }
        out
    }
}

/// The status of a condition of a definition: `True`, `False`, or nothing.
pub fn condition<'a>(definition: &'a Object, kind: &str) -> &'a str {
    let conditions = definition.0.get("status").map(|s| list(s, "conditions")).unwrap_or_default();
    conditions.iter().find(|c| text(c, "type") == kind).map(|c| text(c, "status")).unwrap_or_default()
}

impl Definition {
    /// `stored` are the bytes of `object`; shapes that did not change come from `previous`. `None` when it is not a definition one could serve.
    pub fn new(
        object: &Object,
        stored: &Bytes,
        revision: Revision,
        previous: Option<&Definition>,
        stop: &CancellationToken,
    ) -> Option<Self> {
        let spec = object.0.get("spec")?;
        let status = object.0.get("status").unwrap_or(&Value::Null);
        let names = Names::parse(status.get("acceptedNames").unwrap_or(&Value::Null));
        let accepted = condition(object, "NamesAccepted") == "True" || condition(object, "Established") == "True";
        let terminating = object.is_deleting();
        let digest = crate::discovery::digest(
            json!([object.uid(), spec, names.to_value()]).to_string().as_bytes(),
        );
        let retired = match previous {
            Some(previous) if previous.digest == digest => previous.retired.clone(),
            _ => stop.child_token(),
        };
        let versions = list(spec, "versions");
        let shapes: Vec<_> = versions.iter().map(|v| Shape::new(spec, v, stored, revision, previous)).collect();
        let storage = versions.iter().position(|v| flag(v, "storage"))?;
        let make = |at: usize| {
            let shapes = (shapes[at].clone(), shapes[storage].clone());
            kind(spec, &versions[at], &names, shapes, (terminating, &retired, &digest))
        };
        let stored = Arc::new(make(storage));
        let served = (0..versions.len()).filter(|at| flag(&versions[*at], "served"));
        let kinds = served.map(|at| if at == storage { stored.clone() } else { Arc::new(make(at)) }).collect();
        let content = accepted && names == Names::parse(spec.get("names").unwrap_or(&Value::Null));
        let cleanup = terminating && object.has_finalizer(super::definition::CLEANUP);
        let name = object.name().into();
        Some(Self { name, revision, kinds, stored, names, accepted, content, cleanup, shapes, digest, retired })
    }

    pub fn is_served(&self) -> bool {
        self.accepted
    }

    /// As long as it does not change there is nothing to decide about it.
    pub fn is_settled(&self) -> bool {
        self.content
    }

    pub fn needs_cleanup(&self) -> bool {
        self.cleanup
    }

    /// Ends what depended on this definition unless `next` answers all requests as it did.
    pub fn retire(&self, next: Option<&Definition>) {
        if next.is_none_or(|next| next.digest != self.digest) {
            self.retired.cancel();
        }
    }
}

fn kind(
    spec: &Value,
    version: &Value,
    names: &Names,
    (shape, stored_shape): (Arc<Shape>, Arc<Shape>),
    (terminating, retired, digest): (bool, &CancellationToken, &str),
) -> Kind {
    let group = text(spec, "group");
    // Before names are granted nothing is served; the collection is where objects will be.
    let plural = spec.get("names").map(|n| text(n, "plural")).unwrap_or_default();
    let mut subresources = Vec::new();
    let wanted = version.get("subresources").unwrap_or(&Value::Null);
    let has_status = wanted.get("status").is_some_and(|s| !s.is_null());
    if has_status {
        subresources.push(STATUS);
    }
    if let Some(paths) = wanted.get("scale").filter(|s| !s.is_null()).map(scale_paths) {
        subresources.push(Subresource::scale(paths));
    }
    let all = list(spec, "versions").iter().flat_map(selectable);
    let mut selectable_anywhere: Vec<String> = all.collect();
    selectable_anywhere.sort();
    selectable_anywhere.dedup();
    let api_version = meta::api_version(group, text(version, "name"));
    let custom = Custom {
        list_kind: names.list_kind.clone(),
        terminating,
        warnings: deprecation(spec, version, &names.kind),
        retired: retired.clone(),
        digest: digest.to_owned(),
        head: head(&names.kind, &api_version),
        stored_api_version: meta::api_version(group, &stored_shape.version),
        shape,
        stored_shape,
        columns: columns(version),
        selectable: selectable(version).collect(),
        selectable_anywhere,
    };
    Kind {
        group: group.into(),
        version: text(version, "name").into(),
        kind: names.kind.clone(),
        plural: plural.into(),
        singular: names.singular.clone(),
        short_names: names.short.clone(),
        categories: names.categories.clone(),
        namespaced: text(spec, "scope") != "Cluster",
        collection: Collection::new(&format!("{group}/{plural}")),
        stored_as: None,
        behaviour: if has_status { &WITH_STATUS } else { &PLAIN },
        subresources,
        action: None,
        custom: Some(Box::new(custom)),
    }
}

fn head(kind: &str, api_version: &str) -> Vec<u8> {
    let mut bytes = Object::default();
    bytes.set_type(api_version, kind);
    let mut bytes = bytes.encode();
    // Up to and with the brace that opens the metadata.
    bytes.truncate(bytes.len() - 2);
    bytes
}

fn scale_paths(scale: &Value) -> ScalePaths {
    let path = |key: &str| text(scale, key).trim_start_matches('.').to_owned();
    let selector = match path("labelSelectorPath") {
        none if none.is_empty() => ScaleSelector::None,
        path => ScaleSelector::Text(path),
    };
    ScalePaths { replicas: path("specReplicasPath").into(), current: path("statusReplicasPath").into(), selector }
}

fn selectable(version: &Value) -> impl Iterator<Item = String> {
    list(version, "selectableFields").iter().map(|f| text(f, "jsonPath").trim_start_matches('.').to_owned())
}

fn deprecation(spec: &Value, version: &Value, kind: &str) -> Vec<String> {
    if !flag(version, "deprecated") {
        return Vec::new();
    }
    let (group, own) = (text(spec, "group"), text(version, "name"));
    let words = match text(version, "deprecationWarning") {
        "" => {
            let fresh = list(spec, "versions").iter().filter(|v| flag(v, "served") && !flag(v, "deprecated"));
            let better = fresh.map(|v| text(v, "name")).filter(|name| by_priority(name, own).is_lt());
            let instead = better.min_by(|a, b| by_priority(a, b));
            let instead = instead.map(|name| format!("; use {group}/{name} {kind}")).unwrap_or_default();
            format!("{group}/{own} {kind} is deprecated{instead}")
        }
        words => words.to_owned(),
    };
    vec![words]
}

fn columns(version: &Value) -> Vec<Printed> {
    let age = [json!({"name": "Age", "type": "date", "description": "", "jsonPath": ".metadata.creationTimestamp"})];
    let own = list(version, "additionalPrinterColumns");
    let shown = if own.is_empty() { &age[..] } else { own };
    let column = |column: &Value| {
        let path = text(column, "jsonPath");
        let description = match column.get("description").and_then(Value::as_str) {
            Some(words) if !words.is_empty() || own.is_empty() => words.to_owned(),
            _ => format!("Custom resource definition column (in JSONPath format): {path}"),
        };
        let definition = json!({"name": text(column, "name"), "type": text(column, "type"), "format": text(column, "format"),
            "description": description, "priority": column.get("priority").and_then(Value::as_i64).unwrap_or_default()});
        Printed { definition, kind: text(column, "type").into(), path: Path::parse(path) }
    };
    shown.iter().map(column).collect()
}

impl Shape {
    fn new(spec: &Value, version: &Value, stored: &Bytes, revision: Revision, previous: Option<&Definition>) -> Arc<Self> {
        let name = text(version, "name");
        let preserve = flag(spec, "preserveUnknownFields");
        let digest = crate::discovery::digest(json!([preserve, version.get("schema")]).to_string().as_bytes());
        let same = |shape: &&Arc<Shape>| shape.version == name && shape.digest == digest;
        if let Some(shape) = previous.and_then(|p| p.shapes.iter().find(same)) {
            return shape.clone();
        }
        let definition = stored.clone();
        Arc::new(Self { version: name.into(), definition, schema: OnceLock::new(), digest, since: revision })
    }

    /// Compiled when first asked for: of a thousand definitions most are never used.
    fn schema(&self) -> &Schema {
        self.schema.get_or_init(|| {
            let root = meta::json::parse(&self.definition).map(|parsed| parsed.value).unwrap_or_default();
            let spec = root.get("spec").unwrap_or(&Value::Null);
            let version = list(spec, "versions").iter().find(|v| text(v, "name") == self.version);
            let props = version.and_then(|v| v.pointer("/schema/openAPIV3Schema"));
            match props.filter(|_| !flag(spec, "preserveUnknownFields")).map(Schema::compile) {
                None => Schema::preserve_all(),
                Some(Ok(schema)) => schema,
                // It was checked when it was written; one that came another way must not take the server down.
                Some(Err(errors)) => {
                    let error = meta::field::aggregate(&errors);
                    tracing::error!(version = %self.version, %error, "a stored schema cannot be used; its objects are not checked");
                    Schema::preserve_all()
                }
            }
        })
    }
}

impl Custom {
    pub fn schema(&self) -> &Schema {
        self.shape.schema()
    }

    /// The kind as documents describe it.
    pub fn defined(&self) -> schema::openapi::Defined<'_> {
        schema::openapi::Defined {
            list_kind: &self.list_kind,
            schema: self.schema(),
            selectable: &self.selectable,
        }
    }

    pub fn stored_api_version(&self) -> &str {
        &self.stored_api_version
    }

    /// The stored bytes are what this version shows.
    pub fn is_verbatim(&self, value: &[u8], revision: Revision) -> bool {
        (revision == 0 || revision > self.shape.since) && value.starts_with(&self.head)
    }

    /// Objects of this version are stored as they are served.
    pub fn is_stored_version(&self) -> bool {
        Arc::ptr_eq(&self.shape, &self.stored_shape)
    }

    /// Every event after this revision looks alike to all watchers of this version.
    pub fn shares(&self, revision: Revision) -> bool {
        self.is_stored_version() && revision > self.shape.since
    }

    /// Brings a body into the kind's form: what is not of the schema goes, and is told.
    pub fn conform(&self, object: &mut Object) -> Result<Vec<String>, schema::Mismatch> {
        let mut unknown = Vec::new();
        let facts = schema::Facts::builtin();
        if let (Some(ty), Some(metadata)) = (facts.named("meta/v1.ObjectMeta"), object.0.get_mut("metadata")) {
            let decoded = schema::decode(facts, ty, metadata)?;
            unknown.extend(decoded.unknown.into_iter().map(|path| format!("metadata.{path}")));
        }
        unknown.extend(self.schema().prune(&mut object.0));
        Ok(unknown)
    }

    pub fn default(&self, object: &mut Object) {
        self.schema().default(&mut object.0);
    }

    /// The stored form of an object of this version: a field that only this version knows is not kept.
    pub fn to_stored(&self, object: &mut Object, kind: &str) {
        object.set_type(&self.stored_api_version, kind);
        if self.shape.digest != self.stored_shape.digest {
            self.stored_shape.schema().prune(&mut object.0);
        }
    }

    /// A stored object as this version shows it: another version or an older schema may have shaped it.
    pub fn to_served(&self, object: &mut Object, kind: &Kind, revision: Revision) {
        let own = kind.api_version();
        let same = object.api_version() == own && object.kind() == kind.kind;
        object.set_type(&own, &kind.kind);
        if !same || revision <= self.shape.since {
            self.schema().prune(&mut object.0);
            self.schema().default(&mut object.0);
        }
    }

    pub fn validate(&self, kind: &Kind, object: &Object, old: Option<&Object>) -> FieldErrors {
        let mut errors = self.schema().validate(&object.0, old.map(|o| &o.0));
        for sub in &kind.subresources {
            if let super::Endpoint::Scale(paths) = &sub.endpoint {
                scale_rules(paths, &object.0, &mut errors);
            }
        }
        errors
    }

    /// Finalizers without a domain may meet those of others.
    pub fn advice(&self, object: &Object, old: Option<&Object>) -> Vec<String> {
        let new: BTreeSet<&str> = object.finalizers().filter(|f| !old.is_some_and(|o| o.has_finalizer(f))).collect();
        let standard = |f: &str| [metadata::FOREGROUND, metadata::ORPHAN, "kubernetes"].contains(&f);
        let unqualified = new.into_iter().filter(|f| !f.contains('/') && !standard(f));
        let words = |f: &str| {
            let how = if f.contains('.') { " including a path (/)" } else { "" };
            format!(
                "metadata.finalizers: {f:?}: prefer a domain-qualified finalizer name{how} to avoid accidental conflicts with other finalizer writers"
            )
        };
        unqualified.map(words).collect()
    }

    pub fn column_definitions(&self) -> Value {
        let name = std::iter::once(Column::name().to_value());
        name.chain(self.columns.iter().map(|c| c.definition.clone())).collect()
    }

    pub fn cells(&self, object: &Object, now: Timestamp) -> Vec<Value> {
        let cell = |column: &Printed| {
            let value = column.path.as_ref().and_then(|path| path.first(&object.0)).unwrap_or(&Value::Null);
            cell(&column.kind, value, now)
        };
        std::iter::once(object.name().into()).chain(self.columns.iter().map(cell)).collect()
    }

    /// The path of a field that selectors may name.
    pub fn selectable_path(&self, label: &str) -> Option<&str> {
        self.selectable.iter().find(|path| *path == label).map(String::as_str)
    }

    /// The values of all fields any version selects by. Those without a value stand there too:
    /// an entry that lacks one was described before the field could be selected by.
    pub fn selectable_values(&self, object: &Object) -> Vec<(Box<str>, Box<str>)> {
        let value = |path: &String| {
            let found = lookup(&object.0, path).ok().flatten();
            let value = match found {
                None | Some(Value::Null) => String::new(),
                Some(Value::String(text)) => text.clone(),
                Some(other) => other.to_string(),
            };
            (path.as_str().into(), value.into())
        };
        self.selectable_anywhere.iter().map(value).collect()
    }
}

fn cell(kind: &str, value: &Value, now: Timestamp) -> Value {
    match (kind, value) {
        (_, Value::Null) => Value::Null,
        ("string", Value::String(text)) => text.as_str().into(),
        ("string", other) => other.to_string().into(),
        ("integer", Value::Number(n)) => match (n.as_i64(), n.as_f64()) {
            (Some(whole), _) => whole.into(),
            // Go cuts off; what does not fit saturates.
            #[expect(clippy::cast_possible_truncation, reason = "cutting off is what is wanted")]
            (None, Some(float)) => (float as i64).into(),
            _ => Value::Null,
        },
        ("number", Value::Number(n)) => n.as_f64().map(Value::from).unwrap_or_default(),
        ("boolean", Value::Bool(_)) => value.clone(),
        ("date", Value::String(text)) => match time::parse(text) {
            Some(_) => time::age(text, now).into(),
            None => "<invalid>".into(),
        },
        _ => Value::Null,
    }
}

/// A dotted path; what stands in the way and is no object is an error.
fn lookup<'a>(object: &'a Map<String, Value>, path: &str) -> Result<Option<&'a Value>, String> {
    let mut found: Option<&Value> = None;
    for step in path.split('.') {
        let next = match found {
            None => object.get(step),
            Some(Value::Object(map)) => map.get(step),
            Some(other) => return Err(mistyped(path, other, "map[string]interface{}")),
        };
        match next {
            Some(value) => found = Some(value),
            None => return Ok(None),
        }
    }
    Ok(found)
}

fn mistyped(path: &str, found: &Value, expected: &str) -> String {
    let kind = match found {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(n) if n.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    };
    let shown = found.as_str().map_or_else(|| found.to_string(), str::to_owned);
    format!(".{path} accessor error: {shown} is of the type {kind}, expected {expected}")
}

/// What a Scale shows must be there in a form it can show.
fn scale_rules(paths: &ScalePaths, object: &Map<String, Value>, errors: &mut FieldErrors) {
    for path in [&paths.replicas, &paths.current] {
        let field = format!(".{path}");
        match lookup(object, path) {
            Err(why) => errors.push(FieldError::invalid(field, 0, why)),
            Ok(None) => {}
            Ok(Some(value)) => match value.as_i64() {
                None => errors.push(FieldError::invalid(field, 0, mistyped(path, value, "int64"))),
                Some(n) if n < 0 => errors.push(FieldError::invalid(field, n, "should be a non-negative integer")),
                Some(n) if n > i64::from(i32::MAX) => {
                    let why = format!("should be less than or equal to {}", i32::MAX);
                    errors.push(FieldError::invalid(field, n, why));
                }
                Some(_) => {}
            },
        }
    }
    if let ScaleSelector::Text(path) = &paths.selector {
        let why = match lookup(object, path) {
            Err(why) => Some(why),
            Ok(Some(value)) if !value.is_string() => Some(mistyped(path, value, "string")),
            Ok(_) => None,
        };
        errors.extend(why.map(|why| FieldError::invalid(format!(".{path}"), "", why)));
    }
}
