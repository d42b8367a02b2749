//! JSON to protobuf, the way back of `decode`: for tests, tools and fuzzing. Writes zero values as the Go clients do.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use schema::time::{self, Precision};
use schema::{Facts, Field, Form, PartOf, Shape, Type};
use serde_json::{Map, Value};

use crate::wire::Writer;
use crate::{MAGIC, ProtoError};

/// Writes an object of a built-in kind, named by its apiVersion and kind. It must be of its type's form (`schema::decode`).
pub fn encode(value: &Value) -> Result<Vec<u8>, ProtoError> {
    let facts = Facts::builtin();
    let word = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (api_version, kind) = (word("apiVersion"), word("kind"));
    let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
    let (Some(ty), Some(map)) = (facts.kind(group, version, &kind), value.as_object()) else {
        return Err(ProtoError::UnknownKind { api_version, kind });
    };
    let mut type_meta = Writer::default();
    type_meta.bytes(1, api_version.as_bytes());
    type_meta.bytes(2, kind.as_bytes());
    let mut unknown = Writer { out: MAGIC.to_vec() };
    unknown.bytes(1, &type_meta.out);
    unknown.bytes(2, &message(facts, ty, map)?);
    unknown.bytes(3, b"");
    unknown.bytes(4, b"");
    Ok(unknown.out)
}

const UNFIT: ProtoError = ProtoError::Malformed("a value that does not fit its type");

fn message(facts: &Facts, ty: &Type, map: &Map<String, Value>) -> Result<Vec<u8>, ProtoError> {
    let mut writer = Writer::default();
    for part in &ty.parts {
        match part.of {
            PartOf::Embedded(id) => writer.bytes(part.tag, &message(facts, facts.get(id), map)?),
            PartOf::Field(at) => {
                let field = &ty.fields[usize::from(at)];
                member(facts, field, map.get(field.name).unwrap_or(&Value::Null), &mut writer)?;
            }
        }
    }
    Ok(writer.out)
}

fn member(facts: &Facts, field: &Field, value: &Value, writer: &mut Writer) -> Result<(), ProtoError> {
    match (&field.shape.form, value) {
        (Form::List(element), Value::Array(list)) => {
            list.iter().try_for_each(|item| write(facts, field.tag, element, item, writer))
        }
        (Form::Map(element), Value::Object(map)) => map.iter().try_for_each(|(key, item)| {
            let mut entry = Writer::default();
            entry.bytes(1, key.as_bytes());
            write(facts, 2, element, item, &mut entry)?;
            writer.bytes(field.tag, &entry.out);
            Ok(())
        }),
        (Form::List(_) | Form::Map(_) | Form::Bytes | Form::Items, Value::Null) => Ok(()),
        (_, Value::Null) if field.shape.pointer => Ok(()),
        (_, Value::Null) => write(facts, field.tag, &field.shape, &facts.zero(&field.shape), writer),
        _ => write(facts, field.tag, &field.shape, value, writer),
    }
}

fn write(facts: &Facts, tag: u32, shape: &Shape, value: &Value, writer: &mut Writer) -> Result<(), ProtoError> {
    let bytes = match (&shape.form, value) {
        (Form::Bool, Value::Bool(on)) => {
            writer.varint(tag, u64::from(*on));
            return Ok(());
        }
        (Form::Int32 | Form::Int64, Value::Number(n)) => {
            writer.varint(tag, n.as_i64().ok_or(UNFIT)? as u64);
            return Ok(());
        }
        (Form::Double, Value::Number(n)) => {
            writer.fixed64(tag, n.as_f64().ok_or(UNFIT)?.to_bits());
            return Ok(());
        }
        (Form::String, Value::String(text)) => text.clone().into_bytes(),
        (Form::Bytes, Value::String(text)) => STANDARD.decode(text).map_err(|_| UNFIT)?,
        (Form::Time | Form::MicroTime, Value::Null) => Vec::new(),
        (Form::Time, Value::String(text)) => moment(text, Precision::Seconds)?,
        (Form::MicroTime, Value::String(text)) => moment(text, Precision::Micros)?,
        (Form::Quantity, Value::String(text)) => one(1, text.as_bytes()),
        (Form::IntOrString, _) => int_or_string(value)?,
        (Form::Raw | Form::FieldsV1 | Form::Json, Value::Null) => Vec::new(),
        (Form::Raw | Form::FieldsV1 | Form::Json, _) => one(1, &serde_json::to_vec(value)?),
        (Form::Items, Value::Array(list)) => strings(1, list)?,
        (Form::SchemaOrBool | Form::SchemaOrArray | Form::SchemaOrStrings, _) => schema_or(facts, &shape.form, value)?,
        (Form::Struct(id), Value::Object(map)) => message(facts, facts.get(*id), map)?,
        _ => return Err(UNFIT),
    };
    writer.bytes(tag, &bytes);
    Ok(())
}

fn one(tag: u32, bytes: &[u8]) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.bytes(tag, bytes);
    writer.out
}

fn strings(tag: u32, list: &[Value]) -> Result<Vec<u8>, ProtoError> {
    let mut writer = Writer::default();
    for item in list {
        writer.bytes(tag, item.as_str().ok_or(UNFIT)?.as_bytes());
    }
    Ok(writer.out)
}

fn moment(text: &str, precision: Precision) -> Result<Vec<u8>, ProtoError> {
    let moment = time::parse(text, precision).map_err(|_| UNFIT)?;
    let mut writer = Writer::default();
    writer.varint(1, moment.seconds as u64);
    writer.varint(2, u64::from(moment.nanos));
    Ok(writer.out)
}

fn int_or_string(value: &Value) -> Result<Vec<u8>, ProtoError> {
    let mut writer = Writer::default();
    match value {
        Value::String(text) => {
            writer.varint(1, 1);
            writer.varint(2, 0);
            writer.bytes(3, text.as_bytes());
        }
        _ => {
            writer.varint(1, 0);
            writer.varint(2, value.as_i64().ok_or(UNFIT)? as u64);
            writer.bytes(3, b"");
        }
    }
    Ok(writer.out)
}

fn schema_or(facts: &Facts, form: &Form, value: &Value) -> Result<Vec<u8>, ProtoError> {
    let ty = facts.named("apiextensions/v1.JSONSchemaProps").ok_or(UNFIT)?;
    let mut writer = Writer::default();
    let schema_tag = if matches!(form, Form::SchemaOrBool) { 2 } else { 1 };
    match (form, value) {
        (Form::SchemaOrBool, Value::Bool(on)) => writer.varint(1, u64::from(*on)),
        (_, Value::Object(map)) => {
            if schema_tag == 2 {
                writer.varint(1, 1);
            }
            writer.bytes(schema_tag, &message(facts, ty, map)?);
        }
        (Form::SchemaOrArray, Value::Array(list)) => {
            for item in list {
                writer.bytes(2, &message(facts, ty, item.as_object().ok_or(UNFIT)?)?);
            }
        }
        (Form::SchemaOrStrings, Value::Array(list)) => return strings(2, list),
        _ => return Err(UNFIT),
    }
    Ok(writer.out)
}
