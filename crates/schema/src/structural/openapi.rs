//! Structural schemas as the OpenAPI documents publish them: v3 whole, v2 without what its readers cannot cope with.

use serde_json::{Map, Value, json};

use super::props::{AdditionalProps, Props};
use crate::openapi::{OBJECT_META, Style, words};

const JUNCTORS: [&str; 4] = ["allOf", "anyOf", "oneOf", "not"];
/// Keywords that are published as they are.
const PLAIN: [&str; 28] = [
    "description",
    "type",
    "title",
    "nullable",
    "format",
    "maximum",
    "exclusiveMaximum",
    "minimum",
    "exclusiveMinimum",
    "maxLength",
    "minLength",
    "pattern",
    "maxItems",
    "minItems",
    "uniqueItems",
    "multipleOf",
    "enum",
    "maxProperties",
    "minProperties",
    "required",
    "default",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
    "x-kubernetes-validations",
];

/// The schema of a kind, except for what its author does not write: `x-kubernetes-group-version-kind`.
pub(super) fn kind(props: &Value, style: Style) -> Value {
    let Some(props) = Props::of(props) else { return json!({"type": "object"}) };
    if style == Style::V2 && props.preserves_unknown() {
        // kubectl would refuse every field that is not named.
        return json!({"type": "object"});
    }
    let mut schema = publish(props, style);
    add_meta(&mut schema, style);
    Value::Object(schema)
}

fn publish(props: Props<'_>, style: Style) -> Map<String, Value> {
    let mut schema = keywords(props);
    unfold(props, &mut schema);
    if let Some(item) = props.item() {
        schema.insert("items".into(), Value::Object(publish(item, style)));
    }
    let properties: Map<String, Value> = props
        .named("properties")
        .map(|(name, property)| (name.to_owned(), Value::Object(publish(property, style))))
        .collect();
    if !properties.is_empty() {
        schema.insert("properties".into(), Value::Object(properties));
    }
    match props.additional() {
        None => {}
        Some(AdditionalProps::Allowed(allowed)) => _ = schema.insert("additionalProperties".into(), allowed.into()),
        Some(AdditionalProps::Schema(inner)) => {
            schema.insert("additionalProperties".into(), Value::Object(publish(inner, style)));
        }
    }
    if style == Style::V2 {
        simplify(props, &mut schema);
    }
    if props.embedded() && !(style == Style::V2 && props.preserves_unknown()) {
        add_meta(&mut schema, style);
        let required = schema.entry("required").or_insert_with(|| json!([]));
        if let Some(required) = required.as_array_mut() {
            for name in ["kind", "apiVersion"] {
                if !required.iter().any(|known| known == name) {
                    required.push(name.into());
                }
            }
        }
    }
    schema
}

/// What stands beside the structure: all keywords that say something.
fn keywords(props: Props<'_>) -> Map<String, Value> {
    let says = |value: &Value| match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => !list.is_empty(),
        _ => true,
    };
    let told = |key: &str| PLAIN.contains(&key) || JUNCTORS.contains(&key);
    let entries = props.0.iter().filter(|(key, value)| told(key) && (says(value) || *key == "default"));
    entries.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// An integer or a string, told without the extension.
fn unfold(props: Props<'_>, schema: &mut Map<String, Value>) {
    if !props.int_or_string() {
        return;
    }
    let either = json!([{"type": "integer"}, {"type": "string"}]);
    let in_all_of =
        |schema: &Map<String, Value>| schema.get("allOf").and_then(|all| all.get(0)?.get("anyOf")) == Some(&either);
    match schema.get("anyOf") {
        Some(any) if *any == either => {}
        _ if in_all_of(schema) => {}
        None => _ = schema.insert("anyOf".into(), either),
        Some(_) => {
            let all = schema.entry("allOf").or_insert_with(|| json!([]));
            if let Some(all) = all.as_array_mut() {
                all.insert(0, json!({"anyOf": either}));
            }
        }
    }
}

fn simplify(props: Props<'_>, schema: &mut Map<String, Value>) {
    for key in JUNCTORS.into_iter().chain(["default"]) {
        schema.remove(key);
    }
    let nullable = props.flag("nullable");
    if nullable || props.preserves_unknown() {
        schema.remove("items");
        schema.remove("properties");
    }
    let of_type = |schema: &Map<String, Value>, kind: &str| schema.get("type").is_some_and(|known| known == kind);
    let bare_list = of_type(schema, "array") && !schema.contains_key("items");
    if nullable || bare_list || (props.preserves_unknown() && of_type(schema, "object")) {
        schema.remove("type");
    }
    schema.remove("nullable");
    if props.additional_schema().is_some_and(|inner| inner.flag("nullable")) {
        schema.remove("required");
    }
    if schema.contains_key("properties")
        && let Some(Value::Array(required)) = schema.get_mut("required")
    {
        let nullable = |name: &str| props.property(name).is_some_and(|property| property.flag("nullable"));
        required.retain(|name| !name.as_str().is_some_and(nullable));
        if required.is_empty() {
            schema.remove("required");
        }
    }
}

/// Every resource has these, whatever its author says.
fn add_meta(schema: &mut Map<String, Value>, style: Style) {
    let properties = schema.entry("properties").or_insert_with(|| json!({}));
    let Some(properties) = properties.as_object_mut() else { return };
    let described = |name: &str, mut value: Value| {
        if let Some(text) = words::of_field("", name) {
            value["description"] = text.into();
        }
        (name.to_owned(), value)
    };
    let reference = json!({"$ref": style.reference(OBJECT_META)});
    let metadata = match style {
        Style::V2 => reference,
        Style::V3 => json!({"allOf": [reference]}),
    };
    properties.extend([
        described("apiVersion", json!({"type": "string"})),
        described("kind", json!({"type": "string"})),
        described("metadata", metadata),
    ]);
}
