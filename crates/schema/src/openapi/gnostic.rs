//! The v2 document as protobuf (`openapi.v2.Document`): the only form older Go clients ask for.
//!
//! Takes the document as `v2` makes it, with the schemas of custom resources; what those never write
//! (headers, examples, XML, …) is not covered.

use serde_json::{Map, Value};

/// Encodes a v2 document made by [`super::v2`].
pub fn v2_protobuf(document: &Value) -> Vec<u8> {
    let mut out = Message::default();
    out.text(1, document.get("swagger"));
    let mut info = Message::default();
    info.text(1, document.pointer("/info/title"));
    info.text(2, document.pointer("/info/version"));
    out.message(2, info);
    let mut paths = Message::default();
    for (path, item) in entries(document.get("paths")) {
        paths.named(2, path, path_item(item));
    }
    out.message(8, paths);
    let mut definitions = Message::default();
    for (name, definition) in entries(document.get("definitions")) {
        definitions.named(1, name, schema(definition));
    }
    out.message(9, definitions);
    for requirement in list(document.get("security")) {
        let mut message = Message::default();
        for (name, _) in entries(Some(requirement)) {
            message.named(1, name, Message::default());
        }
        out.message(12, message);
    }
    let mut security = Message::default();
    for (name, definition) in entries(document.get("securityDefinitions")) {
        let mut key = Message::default();
        for (tag, part) in [(1, "type"), (2, "name"), (3, "in"), (4, "description")] {
            key.text(tag, definition.get(part));
        }
        let mut item = Message::default();
        item.message(2, key);
        security.named(1, name, item);
    }
    out.message(13, security);
    out.0
}

fn entries(value: Option<&Value>) -> impl Iterator<Item = (&String, &Value)> {
    value.and_then(Value::as_object).into_iter().flatten()
}

fn list(value: Option<&Value>) -> impl Iterator<Item = &Value> {
    value.and_then(Value::as_array).into_iter().flatten()
}

fn path_item(item: &Value) -> Message {
    let mut message = Message::default();
    for (tag, method) in [(2, "get"), (3, "put"), (4, "post"), (5, "delete"), (8, "patch")] {
        if let Some(found) = item.get(method) {
            message.message(tag, operation(found));
        }
    }
    for found in list(item.get("parameters")) {
        message.message(9, parameter(found));
    }
    message
}

fn operation(operation: &Value) -> Message {
    let mut message = Message::default();
    message.texts(1, operation.get("tags"));
    message.text(5, operation.get("operationId"));
    message.texts(6, operation.get("produces"));
    message.texts(7, operation.get("consumes"));
    for found in list(operation.get("parameters")) {
        message.message(8, parameter(found));
    }
    let mut responses = Message::default();
    for (code, found) in entries(operation.get("responses")) {
        let mut response = Message::default();
        response.text(1, found.get("description"));
        if let Some(found) = found.get("schema") {
            let mut item = Message::default();
            item.message(1, schema(found));
            response.message(2, item);
        }
        let mut value = Message::default();
        value.message(1, response);
        responses.named(1, code, value);
    }
    message.message(9, responses);
    message.extensions(13, operation);
    message
}

fn parameter(parameter: &Value) -> Message {
    let mut item = Message::default();
    let place = parameter.get("in").and_then(Value::as_str).unwrap_or_default();
    if place == "body" {
        let mut body = Message::default();
        body.text(2, parameter.get("name"));
        body.text(3, parameter.get("in"));
        body.flag(4, parameter.get("required"));
        if let Some(found) = parameter.get("schema") {
            body.message(5, schema(found));
        }
        item.message(1, body);
    } else {
        // Path and query parameters differ in where their type stands and what they are wrapped in.
        let (wrap, kind, unique) = if place == "path" { (4, 5, 19) } else { (3, 6, 20) };
        let mut plain = Message::default();
        plain.flag(1, parameter.get("required"));
        plain.text(2, parameter.get("in"));
        plain.text(4, parameter.get("name"));
        plain.text(kind, parameter.get("type"));
        plain.flag(unique, parameter.get("uniqueItems"));
        let mut choice = Message::default();
        choice.message(wrap, plain);
        item.message(2, choice);
    }
    let mut outer = Message::default();
    outer.message(1, item);
    outer
}

fn schema(schema_value: &Value) -> Message {
    let mut message = Message::default();
    message.text(1, schema_value.get("$ref"));
    message.text(2, schema_value.get("format"));
    message.text(3, schema_value.get("title"));
    message.text(4, schema_value.get("description"));
    if let Some(value) = schema_value.get("default") {
        message.message(5, any(value));
    }
    for (tag, name) in [(6, "multipleOf"), (7, "maximum"), (9, "minimum")] {
        message.double(tag, schema_value.get(name));
    }
    for (tag, name) in [(8, "exclusiveMaximum"), (10, "exclusiveMinimum"), (16, "uniqueItems")] {
        message.flag(tag, schema_value.get(name));
    }
    message.text(13, schema_value.get("pattern"));
    let counts = [
        (11, "maxLength"),
        (12, "minLength"),
        (14, "maxItems"),
        (15, "minItems"),
        (17, "maxProperties"),
        (18, "minProperties"),
    ];
    for (tag, name) in counts {
        message.integer(tag, schema_value.get(name));
    }
    message.texts(19, schema_value.get("required"));
    for value in list(schema_value.get("enum")) {
        message.message(20, any(value));
    }
    if let Some(value) = schema_value.get("additionalProperties") {
        let mut item = Message::default();
        match value {
            Value::Bool(_) => item.flag(2, Some(value)),
            _ => item.message(1, schema(value)),
        }
        message.message(21, item);
    }
    if let Some(Value::String(kind)) = schema_value.get("type") {
        let mut item = Message::default();
        item.bytes(1, kind.as_bytes());
        message.message(22, item);
    }
    if let Some(value) = schema_value.get("items") {
        let mut item = Message::default();
        item.message(1, schema(value));
        message.message(23, item);
    }
    if let Some(Value::Object(properties)) = schema_value.get("properties") {
        let mut item = Message::default();
        for (name, property) in properties {
            item.named(1, name, schema(property));
        }
        message.message(25, item);
    }
    message.extensions(31, schema_value);
    message
}

/// Any JSON value travels as YAML text, which JSON is.
fn any(value: &Value) -> Message {
    let mut message = Message::default();
    message.bytes(2, value.to_string().as_bytes());
    message
}

#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push((value as u8) | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn bytes(&mut self, tag: u64, bytes: &[u8]) {
        self.varint(tag << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn message(&mut self, tag: u64, message: Message) {
        self.bytes(tag, &message.0);
    }

    fn text(&mut self, tag: u64, value: Option<&Value>) {
        if let Some(Value::String(text)) = value {
            self.bytes(tag, text.as_bytes());
        }
    }

    fn texts(&mut self, tag: u64, value: Option<&Value>) {
        list(value).for_each(|text| self.text(tag, Some(text)));
    }

    fn flag(&mut self, tag: u64, value: Option<&Value>) {
        if value == Some(&Value::Bool(true)) {
            self.varint(tag << 3);
            self.varint(1);
        }
    }

    fn integer(&mut self, tag: u64, value: Option<&Value>) {
        if let Some(value) = value.and_then(Value::as_i64).filter(|value| *value != 0) {
            self.varint(tag << 3);
            self.varint(value.cast_unsigned());
        }
    }

    fn double(&mut self, tag: u64, value: Option<&Value>) {
        if let Some(value) = value.and_then(Value::as_f64).filter(|value| *value != 0.0) {
            self.varint(tag << 3 | 1);
            self.0.extend_from_slice(&value.to_le_bytes());
        }
    }

    fn named(&mut self, tag: u64, name: &str, value: Message) {
        let mut pair = Message::default();
        pair.bytes(1, name.as_bytes());
        pair.message(2, value);
        self.message(tag, pair);
    }

    fn extensions(&mut self, tag: u64, of: &Value) {
        let none = Map::new();
        let members = of.as_object().unwrap_or(&none);
        for (name, value) in members.iter().filter(|(name, _)| name.starts_with("x-")) {
            self.named(tag, name, any(value));
        }
    }
}
