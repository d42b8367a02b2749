//! Objects as their bytes, found by key or by label. Pure.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

use runtime::Key;
use serde::Deserialize;
use serde_json::Value;

/// What an entry costs beside its bytes: key, map and pointers, measured and rounded up.
const OVERHEAD: usize = 200;
/// What nobody reads here, and is often half of an object.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// One object as JSON, without `managedFields` and what kubectl last applied.
pub type Bytes = Arc<[u8]>;

#[derive(Default)]
pub(crate) struct Store {
    objects: BTreeMap<Key, Bytes>,
    /// Label values of the indexed labels, in the order of `labels`.
    index: HashMap<(usize, Box<str>), HashSet<Key>>,
    labels: Box<[String]>,
    size: usize,
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
    labels: Option<BTreeMap<std::borrow::Cow<'a, str>, std::borrow::Cow<'a, str>>>,
}

impl Store {
    pub(crate) fn new(labels: &[String]) -> Self {
        Store { labels: labels.into(), ..Store::default() }
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
        for (at, label) in self.labels.iter().enumerate() {
            if let Some(value) = label_of(&bytes, label) {
                self.index.entry((at, value.into())).or_default().insert(key.clone());
            }
        }
        self.size += cost(&key, &bytes);
        self.objects.insert(key, bytes);
    }

    pub(crate) fn remove(&mut self, key: &Key) -> bool {
        let Some(bytes) = self.objects.remove(key) else { return false };
        self.size -= cost(key, &bytes);
        for (at, label) in self.labels.iter().enumerate() {
            let Some(value) = label_of(&bytes, label) else { continue };
            let place = (at, Box::from(value));
            if let Some(keys) = self.index.get_mut(&place) {
                keys.remove(key);
                if keys.is_empty() {
                    self.index.remove(&place);
                }
            }
        }
        true
    }

    /// The selected objects, in the order of their keys unless found by the index.
    pub(crate) fn select(&self, selection: &Selection) -> Vec<(Key, Bytes)> {
        let wanted = |(key, bytes): &(&Key, &Bytes)| {
            let here = selection.namespace.as_deref();
            (here.is_none() || here == key.namespace.as_deref()) && has_labels(bytes, &selection.labels)
        };
        let cloned = |(key, bytes): (&Key, &Bytes)| (key.clone(), bytes.clone());
        let indexed = self.labels.iter().enumerate().find_map(|(at, label)| {
            let value = selection.labels.get(label)?;
            Some(self.index.get(&(at, value.as_str().into())))
        });
        match indexed {
            Some(Some(keys)) => {
                let found = keys.iter().filter_map(|key| self.objects.get_key_value(key));
                found.filter(wanted).map(cloned).collect()
            }
            Some(None) => Vec::new(),
            None => self.objects.iter().filter(wanted).map(cloned).collect(),
        }
    }
}

fn cost(key: &Key, bytes: &Bytes) -> usize {
    bytes.len() + key.name.len() + key.namespace.as_ref().map_or(0, |namespace| namespace.len()) + OVERHEAD
}

fn label_of(bytes: &[u8], label: &str) -> Option<String> {
    let head: Head<'_> = serde_json::from_slice(bytes).ok()?;
    head.metadata.labels?.get(label).map(|value| value.clone().into_owned())
}

fn has_labels(bytes: &[u8], wanted: &BTreeMap<String, String>) -> bool {
    if wanted.is_empty() {
        return true;
    }
    let Ok(head) = serde_json::from_slice::<Head<'_>>(bytes) else { return false };
    let labels = head.metadata.labels.unwrap_or_default();
    wanted.iter().all(|(name, value)| labels.get(name.as_str()).is_some_and(|has| has == value))
}

/// Key, version and bytes of an object as it arrived; `None` if it is none.
pub(crate) fn compact(mut object: Value) -> Option<(Key, String, Bytes)> {
    let meta = object.get_mut("metadata")?.as_object_mut()?;
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
        let (key, _, bytes) = compact(object).unwrap();
        (key, bytes)
    }

    fn store(labels: &[&str]) -> Store {
        Store::new(&labels.iter().map(|label| (*label).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn what_nobody_reads_is_not_kept() {
        let (_, bytes) = pod("n", "a", "x");
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        assert!(bytes.len() < 200 && text.contains("\"a\":\"b\""), "{text}");
        assert_eq!(compact(json!({"metadata": {}})), None);
        assert_eq!(compact(json!("x")), None);
    }

    #[test]
    fn a_selection_by_an_indexed_label_finds_what_one_without_finds() {
        // SYM-13
        let (mut indexed, mut plain) = (store(&["app"]), store(&[]));
        for (namespace, name, app) in [("n", "a", "x"), ("n", "b", "y"), ("m", "c", "x"), ("n", "a", "y")] {
            let (key, bytes) = pod(namespace, name, app);
            indexed.put(key.clone(), bytes.clone());
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
            for store in [&indexed, &plain] {
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
            prop_assert_eq!((store.size(), store.index.len()), (0, 0));
        }
    }
}
