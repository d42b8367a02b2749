//! Component schemas: one per type that a served resource reaches, named as upstream names them.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::{Defined, Resource, Style, words};
use crate::facts::{Facts, Field, Form, ListType, Shape, Type};

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.";
const EXTENSIONS: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.";

pub(super) struct Components<'f> {
    facts: &'f Facts,
    pub style: Style,
    schemas: Map<String, Value>,
    /// Every group and version served: the kinds of meta/v1 belong to all of them.
    versions: BTreeSet<(String, String)>,
}

impl<'f> Components<'f> {
    pub fn new(facts: &'f Facts, style: Style, resources: &[&Resource<'_>]) -> Self {
        let versions = resources.iter().map(|r| (r.group.to_owned(), r.version.to_owned())).collect();
        let mut components = Components { facts, style, schemas: Map::new(), versions };
        for resource in resources {
            if let Some(defined) = &resource.defined {
                components.define(resource, defined);
            }
        }
        components
    }

    /// Enters the schemas of a custom kind and of its list.
    fn define(&mut self, resource: &Resource<'_>, defined: &Defined<'_>) {
        let (group, version) = (resource.group, resource.version);
        let mut schema = match self.style {
            Style::V2 => defined.schema.openapi_v2(),
            Style::V3 => defined.schema.openapi_v3(),
        };
        // The schema refers to it.
        self.meta("ObjectMeta");
        let entry = |kind: &str| json!([{"group": group, "version": version, "kind": kind}]);
        schema["x-kubernetes-group-version-kind"] = entry(resource.kind);
        let name = defined_name(group, version, resource.kind);
        let mut list = json!({"type": "object", "required": ["items"],
            "description": format!("{} is a list of {}", defined.list_kind, resource.kind),
            "properties": {"items": {"type": "array", "description": format!("List of {}.", resource.plural),
                "items": {"$ref": self.style.reference(&name)}}},
            "x-kubernetes-group-version-kind": entry(defined.list_kind)});
        let metadata = self.meta("ListMeta");
        let text = || Map::from_iter([("type".to_owned(), json!("string"))]);
        for (name, mut property) in [("apiVersion", text()), ("kind", text()), ("metadata", self.referring(metadata))] {
            property.insert("description".into(), words::of_field("", name).into());
            list["properties"][name] = property.into();
        }
        if !defined.selectable.is_empty() {
            let fields: Vec<Value> = defined.selectable.iter().map(|path| json!({"fieldPath": path})).collect();
            schema["x-kubernetes-selectable-fields"] = fields.clone().into();
            list["x-kubernetes-selectable-fields"] = fields.into();
        }
        self.schemas.insert(name, schema);
        self.schemas.insert(defined_name(group, version, defined.list_kind), list);
    }

    pub fn finish(self) -> Map<String, Value> {
        self.schemas
    }

    /// A reference to the schema of a kind; kinds without facts are objects of any shape.
    pub fn kind(&mut self, group: &str, version: &str, kind: &str) -> Value {
        let facts = self.facts;
        if let Some(ty) = facts.kind(group, version, kind) {
            return json!({"$ref": self.type_reference(ty)});
        }
        let name = defined_name(group, version, kind);
        let reference = self.style.reference(&name);
        self.schemas.entry(name).or_insert_with(|| {
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                "x-kubernetes-group-version-kind": [{"group": group, "version": version, "kind": kind}]})
        });
        json!({"$ref": reference})
    }

    /// A reference to a type of meta/v1 that the table may not hold as a kind: `DeleteOptions`, `Status`.
    pub fn meta(&mut self, name: &str) -> Value {
        let facts = self.facts;
        match facts.named(&format!("meta/v1.{name}")) {
            Some(ty) => json!({"$ref": self.type_reference(ty)}),
            None => self.special(&format!("{META}{name}"), json!({"type": "object"})),
        }
    }

    fn special(&mut self, name: &str, schema: Value) -> Value {
        let reference = self.style.reference(name);
        self.schemas.entry(name).or_insert(schema);
        json!({"$ref": reference})
    }

    fn type_reference(&mut self, ty: &Type) -> String {
        let name = component_name(ty);
        let reference = self.style.reference(&name);
        if !self.schemas.contains_key(&name) {
            // Entered before it is made: types may refer to themselves.
            self.schemas.insert(name.clone(), Value::Null);
            let schema = self.object(ty);
            self.schemas.insert(name, schema);
        }
        reference
    }

    fn object(&mut self, ty: &Type) -> Value {
        let mut schema = Map::new();
        schema.insert("type".into(), "object".into());
        if let Some(text) = words::of_type(ty.name) {
            schema.insert("description".into(), text.into());
        }
        let properties: Map<String, Value> =
            ty.fields.iter().map(|field| (field.name.to_owned(), self.property(ty, field))).collect();
        if !properties.is_empty() {
            schema.insert("properties".into(), Value::Object(properties));
        }
        let required: Vec<&str> = ty.fields.iter().filter(|f| f.required).map(|f| f.name).collect();
        if !required.is_empty() {
            schema.insert("required".into(), json!(required));
        }
        if ty.atomic {
            schema.insert("x-kubernetes-map-type".into(), "atomic".into());
        }
        let kinds = self.kinds_of(ty);
        if !kinds.is_empty() {
            schema.insert("x-kubernetes-group-version-kind".into(), Value::Array(kinds));
        }
        Value::Object(schema)
    }

    fn kinds_of(&self, ty: &Type) -> Vec<Value> {
        let entry = |group: &str, version: &str, kind: &str| json!({"group": group, "version": version, "kind": kind});
        match ty.kind {
            Some(k) => vec![entry(k.group, k.version, k.kind)],
            None if ty.name == "meta/v1.DeleteOptions" => {
                self.versions.iter().map(|(group, version)| entry(group, version, "DeleteOptions")).collect()
            }
            None => Vec::new(),
        }
    }

    fn property(&mut self, ty: &Type, field: &Field) -> Value {
        let values = field.enumeration.is_some().then(|| field.enumeration().collect::<Vec<_>>());
        let mut schema = self.shape(&field.shape, values.as_deref());
        if let Some(text) = words::of_field(ty.name, field.name) {
            schema.insert("description".into(), text.into());
        }
        if let Some(value) = field.default() {
            schema.insert("default".into(), value);
        }
        let mut extend = |name: &str, value: Value| schema.insert(format!("x-kubernetes-{name}"), value);
        match field.list_type {
            Some(ListType::Atomic) => extend("list-type", "atomic".into()),
            Some(ListType::Set) => extend("list-type", "set".into()),
            Some(ListType::Map) => extend("list-type", "map".into()),
            None => None,
        };
        if !field.list_keys.is_empty() {
            extend("list-map-keys", json!(field.list_keys));
        }
        if let Some(strategy) = field.patch_strategy {
            extend("patch-strategy", strategy.into());
        }
        if let Some(key) = field.merge_key {
            extend("patch-merge-key", key.into());
        }
        if field.atomic {
            extend("map-type", "atomic".into());
        }
        if field.granular {
            extend("map-type", "granular".into());
        }
        Value::Object(schema)
    }

    fn shape(&mut self, shape: &Shape, values: Option<&[&str]>) -> Map<String, Value> {
        let plain = |kind: &str, format: Option<&str>| {
            let mut map = Map::new();
            map.insert("type".into(), kind.into());
            if let Some(format) = format {
                map.insert("format".into(), format.into());
            }
            map
        };
        let facts = self.facts;
        match &shape.form {
            Form::String => {
                let mut map = plain("string", None);
                if let Some(values) = values {
                    map.insert("enum".into(), json!(values));
                }
                map
            }
            Form::Bool => plain("boolean", None),
            Form::Int32 => plain("integer", Some("int32")),
            Form::Int64 => plain("integer", Some("int64")),
            Form::Double => plain("number", Some("double")),
            Form::Bytes => plain("string", Some("byte")),
            Form::Items => {
                let mut map = plain("array", None);
                map.insert("items".into(), json!({"type": "string"}));
                map
            }
            Form::List(element) => {
                let mut map = plain("array", None);
                map.insert("items".into(), Value::Object(self.shape(element, values)));
                map
            }
            Form::Map(element) => {
                let mut map = plain("object", None);
                map.insert("additionalProperties".into(), Value::Object(self.shape(element, values)));
                map
            }
            Form::Struct(id) => {
                let reference = json!({"$ref": self.type_reference(facts.get(*id))});
                let mut map = self.referring(reference);
                if self.style == Style::V3 && !shape.pointer {
                    map.insert("default".into(), json!({}));
                }
                map
            }
            form => {
                let (name, schema) = special_schema(form, self.style);
                let reference = self.special(&name, schema);
                self.referring(reference)
            }
        }
    }

    /// OpenAPI 3.0 ignores what stands beside a reference, so there it is wrapped.
    fn referring(&self, reference: Value) -> Map<String, Value> {
        match (self.style, reference) {
            (Style::V3, reference) => Map::from_iter([("allOf".to_owned(), json!([reference]))]),
            (Style::V2, Value::Object(map)) => map,
            (Style::V2, _) => Map::new(),
        }
    }
}

/// `com.example.stable.v1.CronTab`
fn defined_name(group: &str, version: &str, kind: &str) -> String {
    let mut labels: Vec<&str> = group.split('.').rev().filter(|l| !l.is_empty()).collect();
    labels.extend([version, kind]);
    labels.join(".")
}

/// The types with a JSON form of their own.
fn special_schema(form: &Form, style: Style) -> (String, Value) {
    let either = |kinds: [&str; 2]| json!([{"type": kinds[0]}, {"type": kinds[1]}]);
    match form {
        Form::Time => (format!("{META}Time"), json!({"type": "string", "format": "date-time"})),
        Form::MicroTime => (format!("{META}MicroTime"), json!({"type": "string", "format": "date-time"})),
        Form::FieldsV1 => (format!("{META}FieldsV1"), json!({"type": "object"})),
        Form::Raw => ("io.k8s.apimachinery.pkg.runtime.RawExtension".into(), json!({"type": "object"})),
        Form::Quantity => (
            "io.k8s.apimachinery.pkg.api.resource.Quantity".into(),
            match style {
                Style::V2 => json!({"type": "string"}),
                Style::V3 => json!({"oneOf": either(["string", "number"])}),
            },
        ),
        Form::IntOrString => (
            "io.k8s.apimachinery.pkg.util.intstr.IntOrString".into(),
            match style {
                Style::V2 => json!({"type": "string", "format": "int-or-string"}),
                Style::V3 => json!({"format": "int-or-string", "oneOf": either(["integer", "string"])}),
            },
        ),
        Form::SchemaOrBool => (format!("{EXTENSIONS}JSONSchemaPropsOrBool"), json!({})),
        Form::SchemaOrArray => (format!("{EXTENSIONS}JSONSchemaPropsOrArray"), json!({})),
        Form::SchemaOrStrings => (format!("{EXTENSIONS}JSONSchemaPropsOrStringArray"), json!({})),
        _ => (format!("{EXTENSIONS}JSON"), json!({})),
    }
}

/// `core/v1.ConfigMap` is `io.k8s.api.core.v1.ConfigMap` to the outside.
fn component_name(ty: &Type) -> String {
    if let Some(rest) = ty.name.strip_prefix("meta/v1.") {
        return format!("{META}{rest}");
    }
    if let Some(rest) = ty.name.strip_prefix("apiextensions/v1.") {
        return format!("{EXTENSIONS}{rest}");
    }
    format!("io.k8s.api.{}", ty.name.replace('/', "."))
}
