//! Maps and objects. An object's fields have declared types and escaped names; a map's keys are data.

use std::collections::BTreeMap;
use std::rc::Rc;

use serde_json::{Map, Value};

use super::{Evaluated, Text, Val, equal, fail};
use crate::decl::Decl;
use crate::error::EvalError;
use crate::escape::{escape, unescape};
use crate::eval::Meter;

#[derive(Clone, Debug)]
pub(crate) enum Mapping<'a> {
    Object { entries: &'a Map<String, Value>, fields: &'a BTreeMap<String, Decl> },
    Json { entries: &'a Map<String, Value>, value: &'a Decl },
    Owned(Rc<BTreeMap<Key<'a>, (Val<'a>, Val<'a>)>>),
}

/// A value as a key: numbers that are equal are the same key, whatever their type.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key<'a> {
    Null,
    Bool(bool),
    Integer(i128),
    /// A double that is no integer, by its bits.
    Fraction(u64),
    String(Text<'a>),
    Bytes(Rc<[u8]>),
    Duration(i64),
    Timestamp(i64, i32),
    Type(&'static str),
}

impl<'a> Key<'a> {
    pub fn new(value: &Val<'a>) -> Evaluated<Key<'a>> {
        Ok(match value {
            Val::Null => Key::Null,
            Val::Bool(value) => Key::Bool(*value),
            Val::Int(value) => Key::Integer((*value).into()),
            Val::Uint(value) => Key::Integer((*value).into()),
            Val::Double(value) if value.fract() == 0.0 && value.abs() < 1e30 => Key::Integer(*value as i128),
            Val::Double(value) => Key::Fraction(value.to_bits()),
            Val::String(text) => Key::String(text.clone()),
            Val::Bytes(bytes) => Key::Bytes(bytes.clone()),
            Val::Duration(nanos) => Key::Duration(*nanos),
            Val::Timestamp(time) => Key::Timestamp(time.seconds, time.nanos),
            Val::Type(name) => Key::Type(name),
            other => return fail(format!("unsupported key type: {}", other.type_name())),
        })
    }
}

impl<'a> Mapping<'a> {
    pub fn len(&self) -> usize {
        match self {
            Mapping::Object { entries, .. } | Mapping::Json { entries, .. } => entries.len(),
            Mapping::Owned(entries) => entries.len(),
        }
    }

    pub fn find(&self, key: &Val<'a>) -> Evaluated<Option<Val<'a>>> {
        match (self, key) {
            (Mapping::Owned(entries), key) => Ok(entries.get(&Key::new(key)?).map(|(_, value)| value.clone())),
            (Mapping::Json { .. }, Val::String(name)) => self.raw(name),
            (Mapping::Object { .. }, Val::String(name)) => match unescape(name) {
                Some(name) => self.raw(&name),
                None => Ok(None),
            },
            _ => super::no_such_overload(),
        }
    }

    /// The value under a JSON name. A null field of an object is an absent one.
    pub fn raw(&self, name: &str) -> Evaluated<Option<Val<'a>>> {
        let (value, decl) = match self {
            Mapping::Object { entries, fields } => match (entries.get(name), fields.get(name)) {
                (Some(value), Some(decl)) if !value.is_null() => (value, decl),
                _ => return Ok(None),
            },
            Mapping::Json { entries, value: decl } => match entries.get(name) {
                Some(value) => (value, *decl),
                None => return Ok(None),
            },
            Mapping::Owned(_) => return Ok(None),
        };
        Val::bind(value, decl).map(Some)
    }

    /// All keys, in order.
    pub fn keys(&self) -> Vec<Val<'a>> {
        match self {
            Mapping::Owned(entries) => entries.values().map(|(key, _)| key.clone()).collect(),
            Mapping::Json { entries, .. } => entries.keys().map(|key| Val::from(key.as_str())).collect(),
            Mapping::Object { entries, fields } => {
                let known = entries.keys().filter(|name| fields.contains_key(*name));
                known.map(|name| Val::from(escape(name).unwrap_or_else(|| name.clone()))).collect()
            }
        }
    }

    pub fn equal(&self, other: &Mapping<'a>, meter: &mut Meter) -> Evaluated<bool> {
        if self.len() != other.len() {
            return Ok(false);
        }
        if let (Mapping::Object { entries, fields }, Mapping::Object { entries: others, .. }) = (self, other) {
            // What the schema does not know is compared as it is.
            for (name, value) in entries.iter().filter(|(name, _)| !fields.contains_key(*name)) {
                let Some(other) = others.get(name) else { continue };
                if !alike(&Val::bind(value, &Decl::Dyn)?, &Val::bind(other, &Decl::Dyn)?, meter)? {
                    return Ok(false);
                }
            }
        }
        meter.step(self.len())?;
        for key in self.keys() {
            match (self.find(&key)?, other.find(&key)?) {
                (Some(one), Some(two)) => {
                    if !equal(&one, &two, meter)? {
                        return Ok(false);
                    }
                }
                (None, None) => {}
                _ => return Ok(false),
            }
        }
        Ok(true)
    }
}

/// Equality that takes what cannot be compared for different.
fn alike<'a>(one: &Val<'a>, two: &Val<'a>, meter: &mut Meter) -> Evaluated<bool> {
    match equal(one, two, meter) {
        Err(EvalError::Failed(_)) => Ok(false),
        outcome => outcome,
    }
}
