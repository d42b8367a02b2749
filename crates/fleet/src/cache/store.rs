//! Objects as their bytes, found by key or by label. Pure.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
};

use runtime::Key;
use serde::Deserialize;
use serde_json::Value;

use super::short::Bytes;

/// What an entry costs beside its bytes: key, map and pointers, measured and rounded up.
const OVERHEAD: usize = 200;
/// What nobody reads here, and is often half of an object.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

#[derive(Default)]
pub(crate) struct Store {
    objects: BTreeMap<Key, Bytes>,
    /// One per indexed label.
    indexes: Box<[Index]>,
    size: usize,
}

/// The objects by the value of one label.
struct Index {
    label: String,
    values: HashMap<Box<str>, BTreeMap<Key, Bytes>>,
}

/// Which objects of a cache.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// Only in this namespace.
    pub namespace: Option<String>,
    /// Only with these labels.
    pub labels: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Head<'a> {
    #[serde(borrow)]
    metadata: HeadMeta<'a>,
}

#[derive(Deserialize)]
struct HeadMeta<'a> {
    #[serde(borrow, default)]
    labels: Option<Labels<'a>>,
}

impl Store {
    pub(crate) fn new(labels: &[String]) -> Self {
        let indexes = labels.iter().map(|label| Index { label: label.clone(), values: HashMap::new() });
        Store { indexes: indexes.collect(), ..Store::default() }
    }

    /// How much memory it takes, nearly.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    pub(crate) fn len(&self) -> usize {
        self.objects.len()
    }

    pub(crate) fn get(&self, key: &Key) -> Option<Bytes> {
        self.objects.get(key).cloned()
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &Key> {
        self.objects.keys()
    }

    pub(crate) fn put(&mut self, key: Key, bytes: Bytes) {
        self.remove(&key);
        if !self.indexes.is_empty() {
            let json = bytes.json();
            let labels = labels_of(&json);
            for index in &mut self.indexes {
                if let Some(value) = labels.get(index.label.as_str()) {
                    index.values.entry(Box::from(&**value)).or_default().insert(key.clone(), bytes.clone());
                }
            }
        }
        self.size += cost(&key, &bytes);
        self.objects.insert(key, bytes);
    }

    pub(crate) fn remove(&mut self, key: &Key) -> bool {
        let Some(bytes) = self.objects.remove(key) else { return false };
        self.size -= cost(key, &bytes);
        if self.indexes.is_empty() {
            return true;
        }
        let json = bytes.json();
        let labels = labels_of(&json);
        for index in &mut self.indexes {
            let Some(value) = labels.get(index.label.as_str()) else { continue };
            if let Some(found) = index.values.get_mut(&**value) {
                found.remove(key);
                if found.is_empty() {
                    index.values.remove(&**value);
                }
            }
        }
        true
    }

    /// The selected objects, in the order of their keys. Labels that are indexed cost nothing but a look-up; for others the objects
    /// must be read.
    pub(crate) fn select(&self, selection: &Selection) -> Vec<(Key, Bytes)> {
        let mut found: Vec<&BTreeMap<Key, Bytes>> = Vec::new();
        let mut read: Vec<(&str, &str)> = Vec::new();
        for (label, value) in &selection.labels {
            match self.indexes.iter().find(|index| index.label == *label) {
                Some(index) => match index.values.get(value.as_str()) {
                    Some(objects) => found.push(objects),
                    None => return Vec::new(),
                },
                None => read.push((label.as_str(), value.as_str())),
            }
        }
        found.sort_by_key(|objects| objects.len());
        let (first, others) = match found.split_first() {
            Some((first, others)) => (*first, others),
            None => (&self.objects, [].as_slice()),
        };
        let here = selection.namespace.as_deref();
        let wanted = |(key, bytes): &(&Key, &Bytes)| {
            (here.is_none() || here == key.namespace.as_deref())
                && others.iter().all(|objects| objects.contains_key(*key))
                && has_labels(bytes, &read)
        };
        first.iter().filter(wanted).map(|(key, bytes)| (key.clone(), bytes.clone())).collect()
    }
}

fn cost(key: &Key, bytes: &Bytes) -> usize {
    bytes.len() + key.name.len() + key.namespace.as_ref().map_or(0, |namespace| namespace.len()) + OVERHEAD
}

type Labels<'a> = BTreeMap<Cow<'a, str>, Cow<'a, str>>;

fn labels_of(bytes: &[u8]) -> Labels<'_> {
    let head: Option<Head<'_>> = serde_json::from_slice(bytes).ok();
    head.and_then(|head| head.metadata.labels).unwrap_or_default()
}

fn has_labels(bytes: &Bytes, wanted: &[(&str, &str)]) -> bool {
    if wanted.is_empty() {
        return true;
    }
    let json = bytes.json();
    let labels = labels_of(&json);
    wanted.iter().all(|(name, value)| labels.get(*name).is_some_and(|has| has == value))
}

/// Key, version and bytes of an object as it arrived; `None` if it is none. Of a secret one only the names of its values are kept.
pub(crate) fn compact(mut object: Value, secret: bool) -> Option<(Key, String, Bytes)> {
    let whole = object.as_object_mut()?;
    whole.remove("kind");
    whole.remove("apiVersion");
    if secret {
        for name in ["data", "stringData"] {
            if let Some(Value::Object(values)) = whole.get_mut(name) {
                values.values_mut().for_each(|value| *value = Value::Null);
            }
        }
    }
    let meta = whole.get_mut("metadata")?.as_object_mut()?;
    meta.remove("managedFields");
    if let Some(annotations) = meta.get_mut("annotations").and_then(Value::as_object_mut) {
        annotations.remove(LAST_APPLIED);
    }
    let key = Key::new(meta.get("namespace").and_then(Value::as_str), meta.get("name")?.as_str()?);
    let version = meta.get("resourceVersion").and_then(Value::as_str).unwrap_or_default().to_owned();
    Some((key, version, serde_json::to_vec(&object).ok()?.into()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn pod(namespace: &str, name: &str, app: &str) -> (Key, Bytes) {
        let object = json!({"metadata": {"name": name, "namespace": namespace, "labels": {"app": app, "tier": "web"},
            "managedFields": [{"manager": "x".repeat(1000)}], "annotations": {LAST_APPLIED: "y".repeat(1000), "a": "b"}}});
        let (key, _, bytes) = compact(object, false).unwrap();
        (key, bytes)
    }

    fn store(labels: &[&str]) -> Store {
        Store::new(&labels.iter().map(|label| (*label).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn what_nobody_reads_is_not_kept() {
        let (_, bytes) = pod("n", "a", "x");
        let text = String::from_utf8(bytes.json().into_owned()).unwrap();
        assert!(bytes.len() < 200 && text.contains("\"a\":\"b\""), "{text}");
        assert_eq!(compact(json!({"metadata": {}}), false), None);
        assert_eq!(compact(json!("x"), false), None);
    }

    #[test]
    fn the_values_of_secrets_are_in_no_cache() {
        // B-17
        let object = json!({"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "s", "namespace": "n",
            "annotations": {LAST_APPLIED: "canary"}}, "data": {"password": "canary"}, "stringData": {"token": "canary"}});
        let (_, _, bytes) = compact(object, true).unwrap();
        let text = String::from_utf8(bytes.json().into_owned()).unwrap();
        assert!(!text.contains("canary") && text.contains("password"), "{text}");
    }

    #[test]
    fn a_selection_by_an_indexed_label_finds_what_one_without_finds() {
        // SYM-13
        let (mut indexed, mut twice, mut plain) = (store(&["app"]), store(&["app", "tier"]), store(&[]));
        for (namespace, name, app) in [("n", "a", "x"), ("n", "b", "y"), ("m", "c", "x"), ("n", "a", "y")] {
            let (key, bytes) = pod(namespace, name, app);
            indexed.put(key.clone(), bytes.clone());
            twice.put(key.clone(), bytes.clone());
            plain.put(key, bytes);
        }
        let selection = |namespace: Option<&str>, labels: &[(&str, &str)]| Selection {
            namespace: namespace.map(str::to_owned),
            labels: labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
        };
        for (selection, names) in [
            (selection(None, &[("app", "x")]), vec!["m/c"]),
            (selection(None, &[("app", "y"), ("tier", "web")]), vec!["n/a", "n/b"]),
            (selection(Some("m"), &[("app", "y")]), vec![]),
            (selection(Some("n"), &[]), vec!["n/a", "n/b"]),
            (selection(None, &[("app", "nobody")]), vec![]),
        ] {
            for store in [&indexed, &twice, &plain] {
                let mut found: Vec<String> = store.select(&selection).iter().map(|(key, _)| key.to_string()).collect();
                found.sort();
                assert_eq!(found, names, "{selection:?}");
            }
        }
    }

    proptest! {
        #[test]
        fn size_and_index_follow_every_change(changes in proptest::collection::vec((0u8..6, 0u8..3, any::<bool>()), 0..60)) {
            let mut store = store(&["app"]);
            for (name, app, put) in changes {
                let (key, bytes) = pod("n", &name.to_string(), &app.to_string());
                if put { store.put(key, bytes) } else { store.remove(&key); }
            }
            let by_label: usize = (0..3u8).map(|app| store.select(&Selection {
                namespace: None, labels: BTreeMap::from([("app".to_owned(), app.to_string())]),
            }).len()).sum();
            prop_assert_eq!(by_label, store.len());
            for key in store.keys().cloned().collect::<Vec<_>>() {
                store.remove(&key);
            }
            prop_assert_eq!((store.size(), store.indexes[0].values.len()), (0, 0));
        }
    }
}
