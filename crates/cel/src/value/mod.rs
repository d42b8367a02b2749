//! Values while an expression runs. JSON is borrowed, never copied; its declaration says what it means.

mod compare;
mod list;
mod map;
pub(crate) mod number;
mod text;
pub(crate) mod time;

use std::rc::Rc;

use serde_json::Value;

use crate::decl::Decl;
use crate::error::EvalError;
use crate::functions::names::Format;
use crate::functions::net::Cidr;
use crate::functions::quantity::Quantity;
use crate::functions::semver::Semver;
use crate::functions::url::Url;
use crate::syntax::ast::Literal;

pub(crate) use compare::{compare, equal};
pub(crate) use list::List;
pub(crate) use map::{Key, Mapping};
pub(crate) use text::Text;
use time::Timestamp;

pub(crate) type Evaluated<T> = Result<T, EvalError>;

#[derive(Clone, Debug)]
pub(crate) enum Val<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Text<'a>),
    Bytes(Rc<[u8]>),
    Timestamp(Timestamp),
    /// In nanoseconds.
    Duration(i64),
    /// A type, by its name.
    Type(&'static str),
    List(List<'a>),
    Map(Mapping<'a>),
    Optional(Option<Rc<Val<'a>>>),
    Quantity(Rc<Quantity>),
    Url(Rc<Url>),
    Ip(std::net::IpAddr),
    Cidr(Cidr),
    Format(&'static Format),
    Semver(Rc<Semver>),
}

pub(crate) fn fail<T>(message: impl Into<String>) -> Evaluated<T> {
    Err(EvalError::Failed(message.into()))
}

pub(crate) const NO_SUCH_OVERLOAD: &str = "no such overload";

pub(crate) fn no_such_overload<T>() -> Evaluated<T> {
    fail(NO_SUCH_OVERLOAD)
}

impl<'a> Val<'a> {
    /// What a piece of JSON is, given its declaration.
    pub fn bind(value: &'a Value, decl: &'a Decl) -> Evaluated<Val<'a>> {
        let wrong = |wanted: &str| fail(format!("invalid data, expected {wanted}, got {}", json_kind(value)));
        Ok(match (decl, value) {
            (_, Value::Null) => Val::Null,
            (Decl::Dyn, value) => Val::untyped(value),
            (Decl::IntOrString { .. }, Value::String(_)) => Val::untyped(value),
            (Decl::IntOrString { .. }, Value::Number(number)) if number.is_i64() => Val::untyped(value),
            (Decl::IntOrString { .. }, _) => {
                return fail("invalid data, expected XIntOrString value to be either a string or integer");
            }
            (Decl::Null, _) => return wrong("null"),
            (Decl::Bool, Value::Bool(value)) => Val::Bool(*value),
            (Decl::Bool, _) => return wrong("bool"),
            (Decl::Int, Value::Number(number)) if number.is_i64() => Val::Int(number.as_i64().unwrap_or_default()),
            (Decl::Int, _) => return wrong("int"),
            (Decl::Double, Value::Number(number)) => Val::Double(number.as_f64().unwrap_or(f64::NAN)),
            (Decl::Double, _) => return wrong("float"),
            (Decl::String { .. } | Decl::Enum { .. }, Value::String(text)) => Val::from(text.as_str()),
            (Decl::Bytes { .. }, Value::String(text)) => match crate::base64::decode(text) {
                Some(bytes) => Val::Bytes(bytes.into()),
                None => return fail(format!("Invalid byte formatted string {text}: illegal base64 data")),
            },
            (Decl::Timestamp, Value::String(text)) => match time::parse_timestamp(text) {
                Some(time) => Val::Timestamp(time),
                None => return fail(format!("Invalid date-time formatted string {text}: invalid date-time")),
            },
            (Decl::Date, Value::String(text)) => match time::parse_timestamp(&format!("{text}T00:00:00Z")) {
                Some(time) => Val::Timestamp(time),
                None => return fail(format!("Invalid date formatted string {text}: invalid date")),
            },
            (Decl::Duration, Value::String(text)) => match time::parse_lenient_duration(text) {
                Some(nanos) => Val::Duration(nanos),
                None => return fail(format!("Invalid duration {text}: unable to parse {text} as duration")),
            },
            (
                Decl::String { .. }
                | Decl::Enum { .. }
                | Decl::Bytes { .. }
                | Decl::Timestamp
                | Decl::Date
                | Decl::Duration,
                _,
            ) => {
                return wrong("string");
            }
            (Decl::List { element, identity, .. }, Value::Array(items)) => {
                Val::List(List::Json { items, element, identity })
            }
            (Decl::List { .. }, _) => {
                return fail("invalid data, expected an array for the provided schema with type=array");
            }
            (Decl::Map { value, .. }, Value::Object(entries)) => Val::Map(Mapping::Json { entries, value }),
            (Decl::Object { fields, .. }, Value::Object(entries)) => Val::Map(Mapping::Object { entries, fields }),
            (Decl::Map { .. } | Decl::Object { .. }, _) => {
                return fail("invalid data, expected a map for the provided schema with type=object");
            }
        })
    }

    fn untyped(value: &'a Value) -> Val<'a> {
        match value {
            Value::Null => Val::Null,
            Value::Bool(value) => Val::Bool(*value),
            Value::Number(number) => match number.as_i64() {
                Some(int) => Val::Int(int),
                None => Val::Double(number.as_f64().unwrap_or(f64::NAN)),
            },
            Value::String(text) => Val::from(text.as_str()),
            Value::Array(items) => {
                Val::List(List::Json { items, element: &Decl::Dyn, identity: &crate::decl::Identity::Atomic })
            }
            Value::Object(entries) => Val::Map(Mapping::Json { entries, value: &Decl::Dyn }),
        }
    }

    pub fn literal(literal: &'a Literal) -> Val<'a> {
        match literal {
            Literal::Null => Val::Null,
            Literal::Bool(value) => Val::Bool(*value),
            Literal::Int(value) => Val::Int(*value),
            Literal::Uint(value) => Val::Uint(*value),
            Literal::Double(value) => Val::Double(*value),
            Literal::String(text) => Val::from(text.as_str()),
            Literal::Bytes(bytes) => Val::Bytes(bytes.as_slice().into()),
        }
    }

    pub fn list(items: Vec<Val<'a>>) -> Val<'a> {
        Val::List(List::owned(items))
    }

    pub fn some(value: Val<'a>) -> Val<'a> {
        Val::Optional(Some(Rc::new(value)))
    }

    pub fn type_name(&self) -> &'static str {
        use crate::check::types;
        match self {
            Val::Null => "null_type",
            Val::Bool(_) => "bool",
            Val::Int(_) => "int",
            Val::Uint(_) => "uint",
            Val::Double(_) => "double",
            Val::String(_) => "string",
            Val::Bytes(_) => "bytes",
            Val::Timestamp(_) => "google.protobuf.Timestamp",
            Val::Duration(_) => "google.protobuf.Duration",
            Val::Type(_) => "type",
            Val::List(_) => "list",
            Val::Map(_) => "map",
            Val::Optional(_) => "optional_type",
            Val::Quantity(_) => types::QUANTITY,
            Val::Url(_) => types::URL,
            Val::Ip(_) => types::IP,
            Val::Cidr(_) => types::CIDR,
            Val::Format(_) => types::FORMAT,
            Val::Semver(_) => types::SEMVER,
        }
    }

    /// The size the cost model sees: characters, bytes, elements; one for everything else.
    pub fn size(&self) -> u64 {
        match self {
            Val::String(text) => text.chars().count() as u64,
            Val::Bytes(bytes) => bytes.len() as u64,
            Val::List(list) => list.len() as u64,
            Val::Map(map) => map.len() as u64,
            Val::Optional(Some(value)) => value.size(),
            Val::Ip(ip) => {
                if ip.is_ipv4() {
                    4
                } else {
                    16
                }
            }
            Val::Cidr(cidr) => {
                if cidr.address.is_ipv4() {
                    4
                } else {
                    16
                }
            }
            _ => 1,
        }
    }

    /// What `optional.ofNonZeroValue` takes for nothing.
    pub fn is_zero(&self) -> bool {
        match self {
            Val::Null => true,
            Val::Bool(value) => !value,
            Val::Int(value) => *value == 0,
            Val::Uint(value) => *value == 0,
            Val::Double(value) => *value == 0.0,
            Val::String(text) => text.is_empty(),
            Val::Bytes(bytes) => bytes.is_empty(),
            Val::Duration(nanos) => *nanos == 0,
            Val::List(list) => list.len() == 0,
            Val::Map(map) => map.len() == 0,
            Val::Optional(value) => value.is_none(),
            _ => false,
        }
    }
}

fn json_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

impl From<bool> for Val<'_> {
    fn from(value: bool) -> Self {
        Val::Bool(value)
    }
}

impl From<i64> for Val<'_> {
    fn from(value: i64) -> Self {
        Val::Int(value)
    }
}

impl From<String> for Val<'_> {
    fn from(text: String) -> Self {
        Val::String(Text::Owned(text.into()))
    }
}

impl<'a> From<&'a str> for Val<'a> {
    fn from(text: &'a str) -> Self {
        Val::String(Text::Borrowed(text))
    }
}
