//! FieldsV1: a set of fields as a JSON object. `f:` names a field, `k:` the keys of a list item, `v:` its value, `i:` its place,
//! and `.` says that the object itself is a member.

use std::borrow::Cow;

use serde_json::Value;

use super::element::Element;
use super::set::{Branch, FieldSet};

/// Why a FieldsV1 document is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    #[error("a set of fields must be an object")]
    NotAnObject,
    #[error("parsing key as path element: key must be 2 characters long:")]
    ShortKey,
    #[error("parsing key as path element: missing colon: {0}")]
    NoColon(String),
    #[error("parsing key as path element: {key}: {why}")]
    BadElement { key: String, why: String },
}

impl<'a> FieldSet<'a> {
    /// Reads FieldsV1. Keys of a kind we do not know are passed over: a later version may know them.
    pub fn decode(fields: &'a Value) -> Result<Self, Malformed> {
        Ok(read(fields)?.1)
    }

    /// Appends FieldsV1.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.write(false, &mut Vec::new(), out);
    }

    pub fn to_value(&self) -> Value {
        let mut text = Vec::new();
        self.encode(&mut text);
        serde_json::from_slice(&text).unwrap_or_default()
    }

    fn write(&self, itself: bool, scratch: &mut Vec<u8>, out: &mut Vec<u8>) {
        out.push(b'{');
        let mut first = true;
        if itself && !self.is_empty() {
            out.extend_from_slice(b"\".\":{}");
            first = false;
        }
        for branch in &self.branches {
            if !std::mem::take(&mut first) {
                out.push(b',');
            }
            write_key(&branch.element, scratch, out);
            out.push(b':');
            branch.children.write(branch.member, scratch, out);
        }
        out.push(b'}');
    }
}

/// Whether the object itself is a member, and the set below it.
fn read(fields: &Value) -> Result<(bool, FieldSet<'_>), Malformed> {
    let map = fields.as_object().ok_or(Malformed::NotAnObject)?;
    let mut set = FieldSet { branches: Vec::with_capacity(map.len()) };
    let mut itself = false;
    for (key, below) in map {
        if key == "." {
            itself = true;
            continue;
        }
        let Some(element) = element(key)? else { continue };
        let (member, children) = read(below)?;
        set.branches.push(Branch { element, member, children });
    }
    set.sort();
    Ok((itself || set.is_empty(), set))
}

fn element(key: &str) -> Result<Option<Element<'_>>, Malformed> {
    let bad = |why: String| Malformed::BadElement { key: key.to_owned(), why };
    let Some((kind, rest)) = key.split_at_checked(1).filter(|_| key.len() >= 2) else {
        return if key.len() < 2 { Err(Malformed::ShortKey) } else { Err(Malformed::NoColon(key.to_owned())) };
    };
    let Some(rest) = rest.strip_prefix(':') else { return Err(Malformed::NoColon(key.to_owned())) };
    let json = || meta::json::parse(rest.as_bytes()).map(|parsed| parsed.value).map_err(|e| bad(e.to_string()));
    Ok(Some(match kind {
        "f" => Element::Field(Cow::Borrowed(rest)),
        "v" => Element::Value(Cow::Owned(json()?)),
        "i" => Element::Index(rest.parse().map_err(|_| bad("invalid syntax".into()))?),
        "k" => match json()? {
            Value::Object(keys) => {
                Element::Key(keys.into_iter().map(|(k, v)| (Cow::Owned(k), Cow::Owned(v))).collect())
            }
            _ => return Err(bad("expect { or n".into())),
        },
        _ => return Ok(None),
    }))
}

fn write_key(element: &Element<'_>, scratch: &mut Vec<u8>, out: &mut Vec<u8>) {
    if let Element::Field(name) = element
        && name.bytes().all(|b| b >= b' ' && b != b'"' && b != b'\\')
    {
        out.extend_from_slice(b"\"f:");
        out.extend_from_slice(name.as_bytes());
        out.push(b'"');
        return;
    }
    scratch.clear();
    match element {
        Element::Field(name) => {
            scratch.extend_from_slice(b"f:");
            scratch.extend_from_slice(name.as_bytes());
        }
        Element::Key(keys) => {
            scratch.extend_from_slice(b"k:");
            for (i, (name, value)) in keys.iter().enumerate() {
                scratch.push(if i == 0 { b'{' } else { b',' });
                let start = scratch.len();
                let _ = serde_json::to_writer(&mut *scratch, &**name);
                escape(start, scratch);
                scratch.push(b':');
                write_json(value, scratch);
            }
            scratch.extend_from_slice(if keys.is_empty() { b"{}" } else { b"}" });
        }
        Element::Value(value) => {
            scratch.extend_from_slice(b"v:");
            write_json(value, scratch);
        }
        Element::Index(at) => scratch.extend_from_slice(format!("i:{at}").as_bytes()),
    }
    let text = String::from_utf8_lossy(scratch);
    // Writing JSON into a Vec cannot fail.
    let _ = serde_json::to_writer(out, &*text);
}

/// JSON as Go writes it: two servers must give the same item the same key.
pub(super) fn write_json(value: &Value, out: &mut Vec<u8>) {
    let start = out.len();
    let _ = serde_json::to_writer(&mut *out, value);
    escape(start, out);
}

/// Escapes `<`, `>` and `&`, which in JSON stand in strings only.
fn escape(start: usize, out: &mut Vec<u8>) {
    if out[start..].iter().any(|b| matches!(b, b'<' | b'>' | b'&')) {
        for byte in out.split_off(start) {
            match byte {
                b'<' | b'>' | b'&' => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
                other => out.push(other),
            }
        }
    }
}
