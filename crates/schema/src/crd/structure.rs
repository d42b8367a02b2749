//! What makes a schema structural: every value has one type, told outside of the logical junctors.

use meta::{FieldError, FieldErrors};
use serde_json::Value;

use crate::structural::path::Path;
use crate::structural::pattern;
use crate::structural::props::{AdditionalProps, Items, Props};

/// After so many errors, reading on helps nobody.
pub(super) const ENOUGH: usize = 500;

#[derive(Clone, Copy, PartialEq)]
enum Level {
    Root,
    Item,
    Field,
}

/// A part of JSON schema that structural schemas do not have; other checks tell where it is.
pub(super) fn unsupported(props: Props<'_>) -> Option<String> {
    let mut found = None;
    props.any(&mut |props| {
        found = unsupported_here(props);
        found.is_some()
    });
    found
}

fn unsupported_here(props: Props<'_>) -> Option<String> {
    const NAMES: [(&str, &str); 7] = [
        ("id", "id"),
        ("$schema", "schema"),
        ("$ref", "$ref"),
        ("patternProperties", "patternProperties"),
        ("dependencies", "dependencies"),
        ("additionalItems", "additionalItems"),
        ("definitions", "definitions"),
    ];
    let filled = |value: &Value| match value {
        Value::String(text) => !text.is_empty(),
        Value::Object(map) => !map.is_empty(),
        _ => true,
    };
    if let Some((_, name)) = NAMES.iter().find(|(key, _)| props.get(key).is_some_and(filled)) {
        return Some(format!("OpenAPIV3Schema '{name}' is not supported"));
    }
    if matches!(props.items(), Some(Items::Many(_))) {
        return Some("OpenAPIV3Schema 'items' must be a schema, but is an array".into());
    }
    if props.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
        return Some("internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined".into());
    }
    None
}

pub(super) fn validate(props: Props<'_>, path: &Path<'_>) -> FieldErrors {
    let mut checker = Checker { errors: Vec::new(), allowance: pattern::ALLOWANCE };
    checker.schema(props, Level::Root, path);
    complete(props, props, path, path, &mut checker.errors);
    checker.errors.sort_by_cached_key(ToString::to_string);
    checker.errors
}

struct Checker {
    errors: FieldErrors,
    /// What the patterns seen so far leave to the others.
    allowance: usize,
}

impl Checker {
    fn schema(&mut self, props: Props<'_>, level: Level, path: &Path<'_>) {
        if self.errors.len() > ENOUGH {
            return;
        }
        let kind = props.kind();
        let items = props.item();
        if kind == "array" && items.is_none() {
            self.errors.push(FieldError::required(path.field("items").to_string(), "must be specified"));
        }
        if let Some(items) = items {
            self.schema(items, Level::Item, &path.field("items"));
        }
        let in_properties = path.field("properties");
        for (name, property) in props.named("properties") {
            self.schema(property, Level::Field, &in_properties.key(name));
        }
        let additional = path.field("additionalProperties");
        match props.additional() {
            None => {}
            Some(_) if level == Level::Root => self.forbid(&additional, "must not be used at the root"),
            Some(_) if props.embedded() => {
                self.forbid(&additional, "must not be used if x-kubernetes-embedded-resource is set");
            }
            Some(_) => {}
        }
        if let Some(inner) = props.additional_schema() {
            self.schema(inner, Level::Field, &additional);
        }
        self.extensions(props, path);
        self.types(props, kind, level, path);
        self.metadata(props, level, path);
        self.values(props, int_or_string_any_of(props), int_or_string_all_of(props), path);
    }

    fn forbid(&mut self, path: &Path<'_>, why: &str) {
        self.errors.push(FieldError::forbidden(path.to_string(), why));
    }

    fn extensions(&mut self, props: Props<'_>, path: &Path<'_>) {
        if props.int_or_string() {
            for name in ["x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"] {
                if props.flag(name) {
                    let why = "must be false if x-kubernetes-int-or-string is true";
                    self.errors.push(FieldError::invalid(path.field(name).to_string(), true, why));
                }
            }
        }
    }

    fn types(&mut self, props: Props<'_>, kind: &str, level: Level, path: &Path<'_>) {
        let field = || path.field("type").to_string();
        if props.embedded() && kind != "object" {
            let why = "must be object if x-kubernetes-embedded-resource is true";
            self.errors.push(if kind.is_empty() {
                FieldError::required(field(), why)
            } else {
                FieldError::invalid(field(), kind, why)
            });
        } else if kind.is_empty() && !props.int_or_string() && !props.preserves_unknown() {
            let why = match level {
                Level::Root => "must not be empty at the root",
                Level::Item => "must not be empty for specified array items",
                Level::Field => "must not be empty for specified object fields",
            };
            self.errors.push(FieldError::required(field(), why));
        }
        if level == Level::Root && !kind.is_empty() && kind != "object" {
            self.errors.push(FieldError::invalid(field(), kind, "must be object at the root"));
        }
    }

    /// Resources have apiVersion, kind and metadata; a schema says little about them.
    fn metadata(&mut self, props: Props<'_>, level: Level, path: &Path<'_>) {
        let resource = level == Level::Root || props.embedded();
        let in_properties = path.field("properties");
        for (name, expected) in [("kind", "string"), ("apiVersion", "string"), ("metadata", "object")] {
            let Some(property) = props.property(name).filter(|_| resource) else { continue };
            if property.kind() != expected {
                let field = in_properties.key(name).field("type").to_string();
                self.errors.push(FieldError::invalid(field, property.kind(), format!("must be {expected}")));
            }
        }
        if let Some(metadata) = props.property("metadata").filter(|_| level == Level::Root)
            && !only_names(metadata)
        {
            let why =
                "must not specify anything other than name and generateName, but metadata is implicitly specified";
            self.forbid(&in_properties.key("metadata"), why);
        }
        if props.embedded() && !props.preserves_unknown() && props.named("properties").next().is_none() {
            let why = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
            self.errors.push(FieldError::required(in_properties.to_string(), why));
        }
    }

    /// The junctors of a schema; two of them may tell types where a value is an integer or a string.
    fn values(&mut self, props: Props<'_>, skip_any_of: bool, skip_first_all_of: bool, path: &Path<'_>) {
        if !skip_any_of {
            self.junctor(props, "anyOf", false, path);
        }
        self.junctor(props, "allOf", skip_first_all_of, path);
        self.junctor(props, "oneOf", false, path);
        if let Some(not) = props.part("not") {
            self.nested(not, false, &path.field("not"));
        }
        let source = props.text("pattern");
        if !source.is_empty()
            && let Err(why) = pattern::compile(source, &mut self.allowance)
        {
            let why = format!("must be a valid regular expression, but isn't: {why}");
            self.errors.push(FieldError::invalid(path.field("pattern").to_string(), source, why));
        }
    }

    fn junctor(&mut self, props: Props<'_>, name: &str, skip_first: bool, path: &Path<'_>) {
        let junctor = path.field(name);
        for (at, nested) in props.parts(name).into_iter().enumerate() {
            self.nested(nested, skip_first && at == 0, &junctor.index(at));
        }
    }

    fn nested(&mut self, props: Props<'_>, skip_any_of: bool, path: &Path<'_>) {
        if self.errors.len() > ENOUGH {
            return;
        }
        self.values(props, skip_any_of, false, path);
        if let Some(items) = props.item() {
            self.nested(items, false, &path.field("items"));
        }
        let in_properties = path.field("properties");
        for (name, property) in props.named("properties") {
            self.nested(property, false, &in_properties.key(name));
        }
        if !props.kind().is_empty() {
            self.forbid(&path.field("type"), "must be empty to be structural");
        }
        if !matches!(props.additional(), None | Some(AdditionalProps::Allowed(false))) {
            self.forbid(&path.field("additionalProperties"), "must be undefined to be structural");
        }
        let empty = |name: &str| props.text(name).is_empty() && props.values(name).is_empty();
        let rules: [(&str, bool, &str); 9] = [
            ("default", props.get("default").is_none(), "must be undefined to be structural"),
            ("title", empty("title"), "must be empty to be structural"),
            ("description", empty("description"), "must be empty to be structural"),
            ("nullable", !props.flag("nullable"), "must be false to be structural"),
            ("x-kubernetes-preserve-unknown-fields", !props.preserves_unknown(), "must be false to be structural"),
            ("x-kubernetes-embedded-resource", !props.embedded(), "must be false to be structural"),
            ("x-kubernetes-int-or-string", !props.int_or_string(), "must be false to be structural"),
            ("x-kubernetes-list-map-keys", empty("x-kubernetes-list-map-keys"), "must be empty to be structural"),
            ("x-kubernetes-validations", empty("x-kubernetes-validations"), "must be empty to be structural"),
        ];
        for (name, fine, why) in rules {
            if !fine {
                self.forbid(&path.field(name), why);
            }
        }
        for name in ["x-kubernetes-list-type", "x-kubernetes-map-type"] {
            if props.get(name).is_some() {
                self.forbid(&path.field(name), "must be undefined to be structural");
            }
        }
        if props.property("metadata").is_some() {
            self.forbid(&in_properties.key("metadata"), "must not be specified in a nested context");
        }
    }
}

/// Metadata at the root: name and generateName may be restricted, nothing else be said.
fn only_names(metadata: Props<'_>) -> bool {
    let nothing = |value: &Value| match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        _ => false,
    };
    let names = metadata.named("properties").all(|(name, _)| matches!(name, "name" | "generateName"));
    let unsaid = |key: &str| matches!(key, "type" | "default" | "properties" | "example" | "externalDocs");
    names && metadata.0.iter().all(|(key, value)| unsaid(key) || nothing(value))
}

/// `anyOf: [{type: integer}, {type: string}]`
fn int_or_string_any_of(props: Props<'_>) -> bool {
    let is = |props: &Props<'_>, kind: &str| props.0.len() == 1 && props.kind() == kind;
    matches!(props.parts("anyOf").as_slice(), [a, b] if is(a, "integer") && is(b, "string"))
}

/// The same, as the first of `allOf`.
fn int_or_string_all_of(props: Props<'_>) -> bool {
    props.parts("allOf").first().is_some_and(|first| int_or_string_any_of(*first))
}

/// Whatever junctors speak of must be declared outside of them.
fn complete(nested: Props<'_>, props: Props<'_>, path: &Path<'_>, nested_path: &Path<'_>, errors: &mut FieldErrors) {
    if let Some(not) = nested.part("not") {
        complete_nested(not, Some(props), path, &nested_path.field("not"), errors);
    }
    for name in ["allOf", "anyOf", "oneOf"] {
        let junctor = nested_path.field(name);
        for (at, inner) in nested.parts(name).into_iter().enumerate() {
            complete_nested(inner, Some(props), path, &junctor.index(at), errors);
        }
    }
}

fn complete_nested(
    nested: Props<'_>,
    props: Option<Props<'_>>,
    path: &Path<'_>,
    nested_path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    if errors.len() > ENOUGH {
        return;
    }
    let Some(props) = props else {
        errors.push(FieldError::required(path.to_string(), format!("because it is defined in {nested_path}")));
        return;
    };
    complete(nested, props, path, nested_path, errors);
    if let Some(items) = nested.item() {
        complete_nested(items, props.item(), &path.field("items"), &nested_path.field("items"), errors);
    }
    let (in_properties, in_nested) = (path.field("properties"), nested_path.field("properties"));
    for (name, property) in nested.named("properties") {
        complete_nested(property, props.property(name), &in_properties.key(name), &in_nested.key(name), errors);
    }
}
