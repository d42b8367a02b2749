//! What the server sends, line by line and page by page: one object at a time, so that a bad one spoils nothing but itself.

use std::sync::Arc;

use kube::Resource;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::value::RawValue;

use super::Kept;
use crate::Key;

/// No object is larger; a line without end must not fill the memory.
pub(crate) const LONGEST_LINE: usize = 64 << 20;

/// An object as it arrived.
pub(crate) enum Arrived<K> {
    Object(Key, Box<K>, Kept),
    /// It exists, but is not what its kind says.
    Unreadable(Key, Version, String),
}

/// A `resourceVersion`.
pub(crate) type Version = Arc<str>;

/// One line of a watch.
pub(crate) enum Event<K> {
    /// Added or changed.
    Here(Arrived<K>, Version),
    /// Deleted, or no longer selected.
    Gone(Key, Version),
    /// How far we are; `true` ends the initial events.
    Bookmark(Version, bool),
    /// The server ends the watch in words.
    Failed { code: u16, message: String },
}

/// A page of a list.
pub(crate) struct Page<K> {
    pub objects: Vec<Arrived<K>>,
    pub version: Version,
    pub next: Option<String>,
}

#[derive(Deserialize)]
struct RawEvent<'a> {
    r#type: &'a str,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Deserialize)]
struct RawPage<'a> {
    metadata: PageMeta,
    #[serde(borrow)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PageMeta {
    resource_version: Option<String>,
    r#continue: Option<String>,
}

/// The little of an object that must be readable: which one it is.
#[derive(Deserialize)]
struct Head {
    metadata: HeadMeta,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct HeadMeta {
    name: Option<String>,
    namespace: Option<String>,
    resource_version: Option<String>,
    annotations: Option<serde_json::Value>,
}

#[derive(Deserialize)]
struct Refusal {
    code: Option<u16>,
    message: Option<String>,
}

/// What cannot be understood at all: the stream is of no use any more.
#[derive(Debug, thiserror::Error)]
#[error("the server sent what is no {what}: {why}")]
pub(crate) struct Garbled {
    what: &'static str,
    why: serde_json::Error,
}

/// Reads one line of a watch.
pub(crate) fn event<K: DeserializeOwned + Resource<DynamicType = ()>>(line: &[u8]) -> Result<Event<K>, Garbled> {
    let garbled = |why| Garbled { what: "watch event", why };
    let raw: RawEvent<'_> = serde_json::from_slice(line).map_err(garbled)?;
    match raw.r#type {
        "BOOKMARK" => {
            let head: Head = serde_json::from_str(raw.object.get()).map_err(garbled)?;
            let end = head.metadata.annotations.as_ref().and_then(|all| all.get("k8s.io/initial-events-end"));
            let ends = end.and_then(|end| end.as_str()) == Some("true");
            Ok(Event::Bookmark(head.metadata.resource_version.unwrap_or_default().into(), ends))
        }
        "ERROR" => {
            let refusal: Refusal = serde_json::from_str(raw.object.get()).map_err(garbled)?;
            Ok(Event::Failed {
                code: refusal.code.unwrap_or(500),
                message: refusal.message.unwrap_or_else(|| "without a reason".to_owned()),
            })
        }
        "DELETED" => {
            let head: Head = serde_json::from_str(raw.object.get()).map_err(garbled)?;
            let version = head.metadata.resource_version.clone().unwrap_or_default().into();
            Ok(Event::Gone(head.key(), version))
        }
        _ => {
            let (arrived, version) = arrived(raw.object).map_err(garbled)?;
            Ok(Event::Here(arrived, version))
        }
    }
}

/// Reads one page of a list.
pub(crate) fn page<K: DeserializeOwned + Resource<DynamicType = ()>>(body: &[u8]) -> Result<Page<K>, Garbled> {
    let garbled = |why| Garbled { what: "list", why };
    let raw: RawPage<'_> = serde_json::from_slice(body).map_err(garbled)?;
    let objects = raw.items.unwrap_or_default().into_iter().map(|item| Ok(arrived(item)?.0));
    Ok(Page {
        objects: objects.collect::<Result<_, _>>().map_err(garbled)?,
        version: raw.metadata.resource_version.unwrap_or_default().into(),
        next: raw.metadata.r#continue.filter(|next| !next.is_empty()),
    })
}

impl Head {
    fn key(&self) -> Key {
        Key::new(self.metadata.namespace.as_deref(), self.metadata.name.as_deref().unwrap_or_default())
    }
}

fn arrived<K>(raw: &RawValue) -> Result<(Arrived<K>, Version), serde_json::Error>
where
    K: DeserializeOwned + Resource<DynamicType = ()>,
{
    let kept = without_owners(raw.get());
    match serde_json::from_slice::<K>(&kept) {
        Ok(mut object) => {
            let key = Key::of(&object);
            let meta = object.meta_mut();
            meta.managed_fields = None;
            let version = meta.resource_version.as_deref().unwrap_or_default().into();
            Ok((Arrived::Object(key, Box::new(object), Kept::new(kept)), version))
        }
        Err(why) => {
            let head: Head = serde_json::from_str(raw.get())?;
            let version: Version = head.metadata.resource_version.clone().unwrap_or_default().into();
            Ok((Arrived::Unreadable(head.key(), version.clone(), why.to_string()), version))
        }
    }
}

/// The object without its `metadata.managedFields`: nobody reconciles by who owns a field, and it is often half of the object. Only the
/// object's own are cut, and only if they are the first field of that name, which is how servers write it.
fn without_owners(object: &str) -> Box<[u8]> {
    let whole = object.as_bytes();
    let Some((start, end)) = owners(whole) else { return whole.into() };
    let (before, after) = (&whole[..start], &whole[end..]);
    // One comma goes with the field.
    match after.strip_prefix(b",") {
        Some(after) => [before, after].concat().into(),
        None => [before.strip_suffix(b",").unwrap_or(before), after].concat().into(),
    }
}

/// From where to where the field stands.
fn owners(object: &[u8]) -> Option<(usize, usize)> {
    const NAME: &[u8] = b"\"managedFields\":[";
    let start = memchr::memmem::find(object, NAME)?;
    if !is_in_metadata(&object[..start]) {
        return None;
    }
    let inside = start + NAME.len();
    Some((start, inside + closing_bracket(&object[inside..])? + 1))
}

/// Whether the text before stands in `{…"metadata":{…`: two braces open, the last by `"metadata":`.
fn is_in_metadata(before: &[u8]) -> bool {
    let (mut depth, mut text, mut escaped) = (0u32, false, false);
    let mut opened = 0;
    for (at, byte) in before.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if text => escaped = true,
            b'"' => text = !text,
            _ if text => {}
            b'{' | b'[' => {
                depth += 1;
                if depth == 2 {
                    opened = at;
                }
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    !text && depth == 2 && before[..opened].ends_with(b"\"metadata\":")
}

/// Where the bracket is that closes the list whose inside `rest` begins with.
fn closing_bracket(rest: &[u8]) -> Option<usize> {
    let (mut depth, mut text, mut escaped) = (1u32, false, false);
    for (at, byte) in rest.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if text => escaped = true,
            b'"' => text = !text,
            _ if text => {}
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    fn read(line: &str) -> Event<ConfigMap> {
        event(line.as_bytes()).unwrap()
    }

    #[test]
    fn an_object_arrives_without_its_owners() {
        let line = r#"{"type":"ADDED","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","namespace":"n","resourceVersion":"7","managedFields":[{"manager":"x]\"","fieldsV1":{"f:data":{}}}],"labels":{"l":"v"}},"data":{"k":"\"managedFields\":[1]"}}}"#;
        let Event::Here(Arrived::Object(key, object, kept), version) = read(line) else { panic!("not an object") };
        assert_eq!((key.to_string().as_str(), &*version), ("n/a", "7"));
        assert_eq!(object.metadata.managed_fields, None);
        assert_eq!(object.metadata.labels.as_ref().unwrap()["l"], "v");
        assert_eq!(object.data.as_ref().unwrap()["k"], "\"managedFields\":[1]");
        let text = r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","namespace":"n","resourceVersion":"7","labels":{"l":"v"}},"data":{"k":"\"managedFields\":[1]"}}"#;
        assert!(kept == Kept::new(text.as_bytes().into()), "without owners");
        assert_eq!(kept.read::<ConfigMap>().unwrap().data, object.data);
    }

    #[test]
    fn a_field_of_that_name_elsewhere_is_left_alone() {
        let cut = |object: &str| String::from_utf8(without_owners(object).into()).unwrap();
        for same in [
            r#"{"metadata":{"name":"a"},"spec":{"managedFields":[1,2]}}"#,
            r#"{"spec":{"metadata":{"managedFields":[1,2]}}}"#,
            r#"{"metadata":{"managedFields":[{"#,
        ] {
            assert_eq!(cut(same), same);
        }
        assert_eq!(cut(r#"{"metadata":{"managedFields":[{}]}}"#), r#"{"metadata":{}}"#);
        assert_eq!(cut(r#"{"metadata":{"name":"a","managedFields":[]}}"#), r#"{"metadata":{"name":"a"}}"#);
        assert_eq!(cut(r#"{"metadata":{"managedFields":[],"name":"a"}}"#), r#"{"metadata":{"name":"a"}}"#);
    }

    #[test]
    fn an_object_that_is_not_of_its_kind_still_says_which_one_it_is() {
        let line = r#"{"type":"MODIFIED","object":{"metadata":{"name":"a","namespace":"n","resourceVersion":"9"},"data":{"k":5}}}"#;
        let Event::Here(Arrived::Unreadable(key, version, why), _) = read(line) else { panic!("readable") };
        assert_eq!((key.to_string().as_str(), &*version), ("n/a", "9"));
        assert!(why.contains("expected a string"), "{why}");
    }

    #[test]
    fn bookmarks_errors_and_deletions_are_told_apart() {
        let end = r#"{"type":"BOOKMARK","object":{"kind":"ConfigMap","metadata":{"resourceVersion":"12","annotations":{"k8s.io/initial-events-end":"true"}}}}"#;
        assert!(matches!(read(end), Event::Bookmark(version, true) if &*version == "12"));
        let plain = r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"13"}}}"#;
        assert!(matches!(read(plain), Event::Bookmark(version, false) if &*version == "13"));
        let error = r#"{"type":"ERROR","object":{"kind":"Status","code":410,"message":"too old"}}"#;
        assert!(matches!(read(error), Event::Failed { code: 410, .. }));
        let gone = r#"{"type":"DELETED","object":{"metadata":{"name":"a","resourceVersion":"3"},"data":{"k":5}}}"#;
        assert!(matches!(read(gone), Event::Gone(key, _) if key.to_string() == "a"));
        assert!(event::<ConfigMap>(b"<html>").is_err());
    }

    #[test]
    fn one_bad_object_of_a_page_spoils_nothing_but_itself() {
        let body = br#"{"metadata":{"resourceVersion":"5","continue":"c"},"items":[{"metadata":{"name":"good"}},{"metadata":{"name":"bad"},"data":[]}]}"#;
        let page = page::<ConfigMap>(body).unwrap();
        assert_eq!((&*page.version, page.next.as_deref(), page.objects.len()), ("5", Some("c"), 2));
        assert!(matches!(&page.objects[0], Arrived::Object(..)));
        assert!(matches!(&page.objects[1], Arrived::Unreadable(..)));
    }
}
