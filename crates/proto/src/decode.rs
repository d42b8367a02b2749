//! Protobuf to JSON: walks a message with the type's facts at hand.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use schema::time::{Moment, Precision};
use schema::{Facts, Field, Form, PartOf, Shape, Type};
use serde_json::{Map, Number, Value};

use crate::wire::{Item, Reader};
use crate::{MAGIC, ProtoError};

/// Messages inside messages; JSON bodies are held to about the same.
const MAX_DEPTH: usize = 100;
/// Bytes of memory a decoded body may take per byte of the body, beyond a free allowance. Real bodies stay far below:
/// clients write even empty strings, so a message of a few bytes is never one of the big ones.
const MEMORY_FACTOR: usize = 64;
const MEMORY_ALLOWANCE: usize = 1 << 20;
/// What a small JSON object and a value cost in memory.
const OBJECT_COST: usize = 640;
const VALUE_COST: usize = 64;

#[derive(Debug, PartialEq)]
pub struct Decoded {
    pub api_version: String,
    pub kind: String,
    /// With apiVersion and kind set. Values that JSON omits are already gone; `schema::decode` brings it to its final form.
    pub value: Value,
}

/// Reads a request body: `k8s\0`, then the envelope with the kind's name and its message (or JSON).
pub fn decode(bytes: &[u8]) -> Result<Decoded, ProtoError> {
    let facts = Facts::builtin();
    let budget = bytes.len().saturating_mul(MEMORY_FACTOR).saturating_add(MEMORY_ALLOWANCE);
    Decoder { facts, budget }.envelope(bytes, 0)
}

struct Decoder {
    facts: &'static Facts,
    /// Memory that may still be taken.
    budget: usize,
}

/// Go clients may send any bytes as a string; JSON writes U+FFFD for what is no UTF-8.
fn owned(bytes: &[u8]) -> String {
    std::str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes).into_owned(), str::to_owned)
}

fn text(item: Item<'_>) -> Result<String, ProtoError> {
    match item {
        Item::Bytes(bytes) => Ok(owned(bytes)),
        _ => Err(ProtoError::Malformed("a string with another wire type")),
    }
}

fn slice(item: Item<'_>) -> Result<&[u8], ProtoError> {
    match item {
        Item::Bytes(bytes) => Ok(bytes),
        _ => Err(ProtoError::Malformed("a message with another wire type")),
    }
}

fn number(item: Item<'_>) -> Result<u64, ProtoError> {
    match item {
        Item::Varint(value) => Ok(value),
        _ => Err(ProtoError::Malformed("a number with another wire type")),
    }
}

impl Decoder {
    fn envelope(&mut self, bytes: &[u8], depth: usize) -> Result<Decoded, ProtoError> {
        let message = bytes.strip_prefix(&MAGIC).ok_or(ProtoError::NoMagic)?;
        let (mut api_version, mut kind) = (String::new(), String::new());
        let (mut raw, mut encoding, mut content_type) = (&[][..], String::new(), String::new());
        let mut reader = Reader::new(message);
        while let Some((tag, item)) = reader.next()? {
            match tag {
                1 => {
                    let mut reader = Reader::new(slice(item)?);
                    while let Some((tag, item)) = reader.next()? {
                        match tag {
                            1 => api_version = text(item)?,
                            2 => kind = text(item)?,
                            _ => {}
                        }
                    }
                }
                2 => raw = slice(item)?,
                3 => encoding = text(item)?,
                4 => content_type = text(item)?,
                _ => {}
            }
        }
        if !encoding.is_empty() {
            return Err(ProtoError::ContentEncoding(encoding));
        }
        let mut value = match content_type.as_str() {
            "" | "application/vnd.kubernetes.protobuf" => {
                let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
                let Some(ty) = self.facts.kind(group, version, &kind) else {
                    return Err(ProtoError::UnknownKind { api_version, kind });
                };
                let mut map = Map::new();
                self.message(ty, raw, &mut map, depth)?;
                Value::Object(map)
            }
            "application/json" => serde_json::from_slice(raw)?,
            _ => return Err(ProtoError::ContentType(content_type)),
        };
        if let Value::Object(map) = &mut value {
            // The envelope names the kind; the message inside leaves it out.
            for (name, held) in [("apiVersion", &mut api_version), ("kind", &mut kind)] {
                match map.get(name) {
                    Some(Value::String(own)) if held.is_empty() => held.clone_from(own),
                    _ => {
                        map.insert(name.into(), Value::String(held.clone()));
                    }
                }
            }
        }
        Ok(Decoded { api_version, kind, value })
    }

    fn message(
        &mut self,
        ty: &Type,
        bytes: &[u8],
        map: &mut Map<String, Value>,
        depth: usize,
    ) -> Result<(), ProtoError> {
        self.members(ty, bytes, map, depth)?;
        map.retain(|name, value| ty.field(name).is_none_or(|field| !field.omits(value)));
        Ok(())
    }

    /// Reads the members without dropping what JSON omits: an embedded struct's members go to the same map.
    fn members(
        &mut self,
        ty: &Type,
        bytes: &[u8],
        map: &mut Map<String, Value>,
        depth: usize,
    ) -> Result<(), ProtoError> {
        if depth > MAX_DEPTH {
            return Err(ProtoError::Depth);
        }
        if map.is_empty() {
            self.spend(OBJECT_COST)?;
        }
        let facts = self.facts;
        let mut reader = Reader::new(bytes);
        while let Some((tag, item)) = reader.next()? {
            match ty.part(tag) {
                Some(PartOf::Field(at)) => {
                    let field = &ty.fields[usize::from(at)];
                    self.field(ty, field, item, map, depth)?;
                }
                Some(PartOf::Embedded(id)) => self.members(facts.get(id), slice(item)?, map, depth + 1)?,
                None => {}
            }
        }
        Ok(())
    }

    fn field(
        &mut self,
        ty: &Type,
        field: &Field,
        item: Item<'_>,
        map: &mut Map<String, Value>,
        depth: usize,
    ) -> Result<(), ProtoError> {
        let wrong = || ProtoError::WireType { of: ty.name, field: field.name, found: item.wire_type() };
        self.spend(VALUE_COST)?;
        let held = match map.get_mut(field.name) {
            Some(held) => held,
            None => map.entry(field.name).or_insert(Value::Null),
        };
        match &field.shape.form {
            Form::List(element) => {
                if !held.is_array() {
                    *held = Value::Array(Vec::new());
                }
                let Value::Array(list) = held else { return Ok(()) };
                match (&element.form, item) {
                    (Form::Int32 | Form::Int64 | Form::Bool, Item::Bytes(packed)) => {
                        let mut reader = Reader::new(packed);
                        while !reader.is_empty() {
                            self.spend(VALUE_COST)?;
                            let item = Item::Varint(reader.varint()?);
                            list.push(self.value(element, item, Value::Null, depth)?.ok_or_else(wrong)?);
                        }
                    }
                    _ => list.push(self.value(element, item, Value::Null, depth)?.ok_or_else(wrong)?),
                }
            }
            Form::Map(element) => {
                if !held.is_object() {
                    self.spend(OBJECT_COST)?;
                    *held = Value::Object(Map::new());
                }
                let Value::Object(entries) = held else { return Ok(()) };
                let Item::Bytes(entry) = item else { return Err(wrong()) };
                let (key, value) = self.entry(element, entry, depth)?;
                entries.insert(key, value);
            }
            _ => {
                let before = held.take();
                *held = self.value(&field.shape, item, before, depth)?.ok_or_else(wrong)?;
            }
        }
        Ok(())
    }

    /// One entry of a map: a message with key and value, either of which may be left out when it is zero.
    fn entry(&mut self, element: &Shape, bytes: &[u8], depth: usize) -> Result<(String, Value), ProtoError> {
        self.spend(2 * VALUE_COST)?;
        let mut key = String::new();
        let mut value = None;
        let mut reader = Reader::new(bytes);
        while let Some((tag, item)) = reader.next()? {
            match tag {
                1 => key = text(item)?,
                2 => {
                    let wrong = ProtoError::Malformed("a map value with another wire type");
                    value = Some(self.value(element, item, Value::Null, depth)?.ok_or(wrong)?);
                }
                _ => {}
            }
        }
        let value = value.unwrap_or_else(|| match element.form {
            Form::Bytes => Value::String(String::new()),
            _ => self.facts.zero(element),
        });
        self.spend(key.len())?;
        Ok((key, value))
    }

    /// One value; `None` when the wire type does not fit. `before` is what an earlier occurrence left: messages merge.
    fn value(
        &mut self,
        shape: &Shape,
        item: Item<'_>,
        before: Value,
        depth: usize,
    ) -> Result<Option<Value>, ProtoError> {
        let bytes = match (&shape.form, item) {
            (Form::Bool, Item::Varint(n)) => return Ok(Some(Value::Bool(n != 0))),
            // Negative numbers travel as ten bytes; 32-bit ones are cut as every protobuf reader cuts them.
            (Form::Int32, Item::Varint(n)) => return Ok(Some(Value::from(n as i32))),
            (Form::Int64, Item::Varint(n)) => return Ok(Some(Value::from(n as i64))),
            (Form::Double, Item::Fixed64(bits)) => {
                return Ok(Some(Number::from_f64(f64::from_bits(bits)).map_or(Value::Null, Value::Number)));
            }
            (Form::Bool | Form::Int32 | Form::Int64 | Form::Double, _) => return Ok(None),
            (_, Item::Bytes(bytes)) => bytes,
            _ => return Ok(None),
        };
        self.spend(bytes.len())?;
        Ok(Some(match &shape.form {
            Form::String => Value::String(owned(bytes)),
            Form::Bytes => Value::String(STANDARD.encode(bytes)),
            Form::Time => moment(bytes, Precision::Seconds)?,
            Form::MicroTime => moment(bytes, Precision::Micros)?,
            Form::Quantity => match first_string(bytes)? {
                text if text.is_empty() => Value::from("0"),
                text => Value::String(text),
            },
            Form::IntOrString => int_or_string(bytes)?,
            Form::Raw | Form::FieldsV1 | Form::Json => self.raw(bytes, depth)?,
            Form::Items => Value::Array(self.strings(bytes, 1)?),
            Form::SchemaOrBool | Form::SchemaOrArray | Form::SchemaOrStrings => {
                self.schema_or(&shape.form, bytes, depth)?
            }
            Form::Struct(id) => {
                let mut map = match before {
                    Value::Object(map) => map,
                    _ => Map::new(),
                };
                self.message(self.facts.get(*id), bytes, &mut map, depth + 1)?;
                Value::Object(map)
            }
            Form::List(_) | Form::Map(_) | Form::Bool | Form::Int32 | Form::Int64 | Form::Double => return Ok(None),
        }))
    }

    /// RawExtension and its like: a message whose only member is JSON, or another protobuf object.
    fn raw(&mut self, bytes: &[u8], depth: usize) -> Result<Value, ProtoError> {
        let mut reader = Reader::new(bytes);
        let mut value = Value::Null;
        while let Some((tag, item)) = reader.next()? {
            if tag == 1 {
                let raw = slice(item)?;
                value = match raw {
                    [] => Value::Null,
                    _ if raw.starts_with(&MAGIC) && depth < MAX_DEPTH => self.envelope(raw, depth + 1)?.value,
                    _ => serde_json::from_slice(raw)?,
                };
            }
        }
        Ok(value)
    }

    fn schema_or(&mut self, form: &Form, bytes: &[u8], depth: usize) -> Result<Value, ProtoError> {
        let Some(ty) = self.facts.named("apiextensions/v1.JSONSchemaProps") else { return Ok(Value::Null) };
        let mut schema = None;
        let mut rest = Vec::new();
        let mut allows = false;
        let mut reader = Reader::new(bytes);
        while let Some((tag, item)) = reader.next()? {
            match (form, tag) {
                (Form::SchemaOrBool, 1) => allows = number(item)? != 0,
                (Form::SchemaOrBool, 2) | (Form::SchemaOrArray | Form::SchemaOrStrings, 1) => {
                    let map = schema.get_or_insert_with(Map::new);
                    self.message(ty, slice(item)?, map, depth + 1)?;
                }
                (Form::SchemaOrArray, 2) => {
                    let mut map = Map::new();
                    self.message(ty, slice(item)?, &mut map, depth + 1)?;
                    rest.push(Value::Object(map));
                }
                (Form::SchemaOrStrings, 2) => {
                    self.spend(VALUE_COST)?;
                    rest.push(Value::String(text(item)?));
                }
                _ => {}
            }
        }
        Ok(match (schema, form) {
            (Some(map), _) => Value::Object(map),
            (None, Form::SchemaOrBool) => Value::Bool(allows),
            (None, _) if rest.is_empty() => Value::Null,
            (None, _) => Value::Array(rest),
        })
    }

    fn strings(&mut self, bytes: &[u8], wanted: u32) -> Result<Vec<Value>, ProtoError> {
        let mut list = Vec::new();
        let mut reader = Reader::new(bytes);
        while let Some((tag, item)) = reader.next()? {
            if tag == wanted {
                self.spend(VALUE_COST)?;
                list.push(Value::String(text(item)?));
            }
        }
        Ok(list)
    }

    fn spend(&mut self, bytes: usize) -> Result<(), ProtoError> {
        self.budget = self.budget.checked_sub(bytes).ok_or(ProtoError::TooLarge)?;
        Ok(())
    }
}

/// Seconds and nanoseconds; an empty message is the zero time.
fn moment(bytes: &[u8], precision: Precision) -> Result<Value, ProtoError> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    let mut moment = Moment { seconds: 0, nanos: 0 };
    let mut reader = Reader::new(bytes);
    while let Some((tag, item)) = reader.next()? {
        match tag {
            1 => moment.seconds = number(item)? as i64,
            2 if precision == Precision::Micros => {
                moment.nanos = u32::try_from(number(item)?).ok().filter(|n| *n < 1_000_000_000).unwrap_or(0);
            }
            _ => {}
        }
    }
    if moment.is_zero() {
        return Ok(Value::Null);
    }
    moment.format(precision).map(Value::String).ok_or(ProtoError::Malformed("a time outside the years 0 to 9999"))
}

fn first_string(bytes: &[u8]) -> Result<String, ProtoError> {
    let mut reader = Reader::new(bytes);
    let mut found = String::new();
    while let Some((tag, item)) = reader.next()? {
        if tag == 1 {
            found = text(item)?;
        }
    }
    Ok(found)
}

fn int_or_string(bytes: &[u8]) -> Result<Value, ProtoError> {
    let (mut is_string, mut int, mut string) = (false, 0, String::new());
    let mut reader = Reader::new(bytes);
    while let Some((tag, item)) = reader.next()? {
        match tag {
            1 => is_string = number(item)? == 1,
            2 => int = number(item)? as i32,
            3 => string = text(item)?,
            _ => {}
        }
    }
    Ok(if is_string { Value::String(string) } else { Value::from(int) })
}

#[cfg(test)]
#[path = "decode_tests.rs"]
mod tests;
