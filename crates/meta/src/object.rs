//! An object of any kind: JSON with metadata, and the byte form it is stored and served in.

use serde_json::{Map, Value};
use std::ops::Range;
use std::sync::LazyLock;

static EMPTY: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);

/// A Kubernetes object. Accessors tolerate absent or odd metadata: what input can reach never panics.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Object(pub Map<String, Value>);

impl Object {
    pub fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::Object(map) => Some(Self(map)),
            _ => None,
        }
    }

    fn text(&self, key: &str) -> &str {
        self.0.get(key).and_then(Value::as_str).unwrap_or_default()
    }

    pub fn kind(&self) -> &str {
        self.text("kind")
    }

    pub fn api_version(&self) -> &str {
        self.text("apiVersion")
    }

    pub fn set_type(&mut self, api_version: &str, kind: &str) {
        self.0.insert("apiVersion".into(), api_version.into());
        self.0.insert("kind".into(), kind.into());
    }

    pub fn meta(&self) -> &Map<String, Value> {
        self.0.get("metadata").and_then(Value::as_object).unwrap_or(&EMPTY)
    }

    /// The metadata, created (or replaced when it is not an object).
    pub fn meta_mut(&mut self) -> &mut Map<String, Value> {
        let slot = self.0.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
        if !slot.is_object() {
            *slot = Value::Object(Map::new());
        }
        match slot {
            Value::Object(map) => map,
            _ => unreachable!("made an object above"),
        }
    }

    pub fn meta_text(&self, key: &str) -> &str {
        self.meta().get(key).and_then(Value::as_str).unwrap_or_default()
    }

    /// Sets a metadata string; an empty one removes the field.
    pub fn set_meta(&mut self, key: &str, value: &str) {
        if value.is_empty() {
            self.meta_mut().remove(key);
        } else {
            self.meta_mut().insert(key.into(), value.into());
        }
    }

    pub fn name(&self) -> &str {
        self.meta_text("name")
    }

    pub fn namespace(&self) -> &str {
        self.meta_text("namespace")
    }

    pub fn uid(&self) -> &str {
        self.meta_text("uid")
    }

    pub fn resource_version(&self) -> &str {
        self.meta_text("resourceVersion")
    }

    pub fn set_revision(&mut self, revision: u64) {
        self.set_meta("resourceVersion", &revision.to_string());
    }

    pub fn generation(&self) -> i64 {
        self.meta().get("generation").and_then(Value::as_i64).unwrap_or_default()
    }

    pub fn is_deleting(&self) -> bool {
        !self.meta_text("deletionTimestamp").is_empty()
    }

    pub fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        let labels = self.meta().get("labels").and_then(Value::as_object).unwrap_or(&EMPTY);
        labels.iter().filter_map(|(k, v)| Some((k.as_str(), v.as_str()?)))
    }

    pub fn finalizers(&self) -> impl Iterator<Item = &str> {
        let list = self.meta().get("finalizers").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        list.iter().filter_map(Value::as_str)
    }

    pub fn has_finalizer(&self, name: &str) -> bool {
        self.finalizers().any(|f| f == name)
    }

    pub fn add_finalizer(&mut self, name: &str) {
        if self.has_finalizer(name) {
            return;
        }
        let list = self.meta_mut().entry("finalizers").or_insert_with(|| Value::Array(Vec::new()));
        match list {
            Value::Array(items) => items.push(name.into()),
            other => *other = Value::Array(vec![name.into()]),
        }
    }

    pub fn remove_finalizer(&mut self, name: &str) {
        let meta = self.meta_mut();
        if let Some(Value::Array(items)) = meta.get_mut("finalizers") {
            items.retain(|f| f.as_str() != Some(name));
            if items.is_empty() {
                meta.remove("finalizers");
            }
        }
    }

    pub fn owners(&self) -> impl Iterator<Item = Owner<'_>> {
        let list = self.meta().get("ownerReferences").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        list.iter().filter_map(Value::as_object).map(|map| {
            let text = |key: &str| map.get(key).and_then(Value::as_str).unwrap_or_default();
            Owner {
                api_version: text("apiVersion"),
                kind: text("kind"),
                name: text("name"),
                uid: text("uid"),
                blocks: map.get("blockOwnerDeletion").and_then(Value::as_bool).unwrap_or_default(),
            }
        })
    }

    /// The stored form: kind, apiVersion and metadata first, no resourceVersion (the store's revision is spliced in when served).
    pub fn encode(&self) -> Vec<u8> {
        self.encode_with(&[])
    }

    /// The stored form with `metadata.managedFields` as the given JSON, when there is some, instead of the object's own.
    pub fn encode_with(&self, managed: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(1024 + managed.len());
        out.push(b'{');
        for key in ["kind", "apiVersion"] {
            write_field(&mut out, key, &self.text(key).into());
            out.push(b',');
        }
        out.extend_from_slice(METADATA);
        let mut first = true;
        if !managed.is_empty() {
            out.extend_from_slice(MANAGED);
            out.extend_from_slice(managed);
            first = false;
        }
        let left_out = |key: &str| key == "resourceVersion" || (key == "managedFields" && !managed.is_empty());
        for (key, value) in self.meta().iter().filter(|(key, _)| !left_out(key)) {
            if !std::mem::take(&mut first) {
                out.push(b',');
            }
            write_field(&mut out, key, value);
        }
        out.push(b'}');
        for (key, value) in &self.0 {
            if !matches!(key.as_str(), "kind" | "apiVersion" | "metadata") {
                out.push(b',');
                write_field(&mut out, key, value);
            }
        }
        out.push(b'}');
        out
    }
}

/// Where `metadata.managedFields` stands in a stored object, if it stands first in the metadata as [`Object::encode_with`] puts it:
/// its JSON, and all of the field with the comma after it. Who changes an object need not read who owns what.
pub fn managed_fields(stored: &[u8]) -> Option<(Range<usize>, Range<usize>)> {
    let field = head(stored)?;
    let start = field + MANAGED.len();
    if stored.get(field..start) != Some(MANAGED) {
        return None;
    }
    let (mut depth, mut quoted, mut at) = (0usize, false, start);
    loop {
        match stored.get(at)? {
            b'\\' if quoted => at += 1,
            b'"' => quoted = !quoted,
            b'[' | b'{' if !quoted => depth += 1,
            b']' | b'}' if !quoted => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    break;
                }
            }
            _ => {}
        }
        at += 1;
    }
    let end = at + 1;
    let comma = usize::from(stored.get(end) == Some(&b','));
    Some((start..end, field..end + comma))
}

/// One entry of `metadata.ownerReferences`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Owner<'a> {
    pub api_version: &'a str,
    pub kind: &'a str,
    pub name: &'a str,
    pub uid: &'a str,
    pub blocks: bool,
}

const METADATA: &[u8] = b"\"metadata\":{";
const MANAGED: &[u8] = b"\"managedFields\":";

fn write_field(out: &mut Vec<u8>, key: &str, value: &Value) {
    // Writing JSON into a Vec cannot fail: keys are strings and numbers are finite.
    let _ = serde_json::to_writer(&mut *out, key);
    out.push(b':');
    crate::json::write(out, value);
}

/// Copies a stored object into `out` with its revision as `metadata.resourceVersion`.
///
/// Relies on the stored form: before the first `"metadata":{` stand only kind and apiVersion, which cannot contain it.
pub fn splice(stored: &[u8], revision: u64, out: &mut Vec<u8>) {
    out.reserve(stored.len() + 48);
    let Some(at) = head(stored) else {
        out.extend_from_slice(stored);
        return;
    };
    out.extend_from_slice(&stored[..at]);
    out.extend_from_slice(b"\"resourceVersion\":\"");
    let mut digits = itoa::Buffer::new();
    out.extend_from_slice(digits.format(revision).as_bytes());
    out.push(b'"');
    if stored.get(at) != Some(&b'}') {
        out.push(b',');
    }
    out.extend_from_slice(&stored[at..]);
}

/// The same for an item of a list, which carries no kind and apiVersion of its own.
pub fn splice_item(stored: &[u8], revision: u64, out: &mut Vec<u8>) {
    match head(stored) {
        Some(at) => {
            out.push(b'{');
            splice(&stored[at - METADATA.len()..], revision, out);
        }
        None => splice(stored, revision, out),
    }
}

/// Where the metadata's first field begins.
fn head(stored: &[u8]) -> Option<usize> {
    memchr::memmem::find(stored, METADATA).map(|i| i + METADATA.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(v: Value) -> Object {
        Object::from_value(v).unwrap()
    }

    #[test]
    fn the_stored_form_has_its_head_first_and_no_resource_version() {
        let o = object(json!({"data": {"metadata": "{"}, "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "a", "resourceVersion": "7", "uid": "u"}}));
        let bytes = o.encode();
        assert_eq!(
            String::from_utf8(bytes.clone()).unwrap(),
            r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","uid":"u"},"data":{"metadata":"{"}}"#
        );
        let mut out = Vec::new();
        splice(&bytes, 42, &mut out);
        let back: Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(back["metadata"]["resourceVersion"], "42");
        assert_eq!(back["data"], o.0["data"]);
        let mut item = Vec::new();
        splice_item(&bytes, 42, &mut item);
        let item: Value = serde_json::from_slice(&item).unwrap();
        assert_eq!(item["metadata"], back["metadata"]);
        assert_eq!(item["data"], back["data"]);
        assert!(item.get("kind").is_none());
    }

    #[test]
    fn splicing_into_empty_metadata_is_still_json() {
        let mut out = Vec::new();
        splice(&object(json!({"kind": "X", "apiVersion": "v1"})).encode(), 1, &mut out);
        assert!(serde_json::from_slice::<Value>(&out).is_ok());
    }

    #[test]
    fn managed_fields_can_be_cut_out_of_the_stored_form() {
        let o = object(
            json!({"apiVersion": "v1", "kind": "X", "metadata": {"name": "a", "managedFields": ["old"]}, "x": 1}),
        );
        let managed = br#"[{"manager":"]\\\"}","fieldsV1":{"k:{\"a\":[]}":{}}}]"#;
        let stored = o.encode_with(managed);
        let (inner, outer) = managed_fields(&stored).unwrap();
        assert_eq!(&stored[inner], managed);
        let mut rest = stored.clone();
        rest.drain(outer);
        assert_eq!(rest, br#"{"kind":"X","apiVersion":"v1","metadata":{"name":"a"},"x":1}"#);

        let bare = object(json!({"apiVersion": "v1", "kind": "X"})).encode_with(b"[]");
        let (_, outer) = managed_fields(&bare).unwrap();
        assert_eq!(bare[outer], *b"\"managedFields\":[]");
        assert_eq!(managed_fields(&o.encode()[..20]), None);
        assert_eq!(managed_fields(&stored[..60]), None, "cut off");
    }

    #[test]
    fn finalizers_are_a_set() {
        let mut o = object(json!({"metadata": {"finalizers": ["a"]}}));
        o.add_finalizer("a");
        o.add_finalizer("b");
        assert_eq!(o.finalizers().collect::<Vec<_>>(), ["a", "b"]);
        o.remove_finalizer("a");
        o.remove_finalizer("b");
        assert!(o.meta().is_empty());
    }

    #[test]
    fn odd_metadata_is_tolerated() {
        let mut o = object(json!({"metadata": 5}));
        assert_eq!(o.name(), "");
        o.set_meta("name", "x");
        assert_eq!(o.name(), "x");
    }
}
