//! Rows of what members hold, kept from one request to the next: an object is read once, however often it is listed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};

use fleet::{Bytes, Cache, Key, NotCached, Selection};

use super::views::{Sum, View};
use crate::apiext::columns::Columns;
use crate::apiext::row::Row;

/// Rows in order of namespace and name.
pub(super) type Rows = Arc<[Arc<Row>]>;

/// All rows of one view of one member, as of one version of its memory.
pub(super) struct Table {
    cache: Weak<Cache>,
    version: u64,
    entries: Vec<Entry>,
    rows: Rows,
    index: HashMap<Box<str>, Rows>,
    pub(super) sum: Sum,
}

struct Entry {
    /// What the row was made of: the same bytes make the same row.
    object: Bytes,
    row: Arc<Row>,
    index: Box<[Box<str>]>,
    sum: Sum,
}

impl Table {
    /// All of them.
    pub(super) fn rows(&self) -> &Rows {
        &self.rows
    }

    /// Those found by a word; see [`View`].
    pub(super) fn found(&self, word: &str) -> &[Arc<Row>] {
        self.index.get(word).map_or(&[], |rows| rows)
    }

    fn is_of(&self, cache: &Arc<Cache>) -> bool {
        self.version == cache.version() && std::ptr::eq(self.cache.as_ptr(), Arc::as_ptr(cache))
    }

    /// Made of what the memory holds now, with the rows of what did not change since `before`.
    fn read(view: &View, name: &Arc<str>, cache: &Arc<Cache>, before: Option<&Table>) -> Result<Table, NotCached> {
        // Asked first: what changes meanwhile makes this table old, never new.
        let version = cache.version();
        let objects = cache.select(&Selection::default())?;
        Ok(Self::make(view, name, objects, (Arc::downgrade(cache), version), before))
    }

    /// A table that nobody keeps.
    pub(super) fn passing(view: &View, name: &Arc<str>, mut objects: Vec<(Key, Bytes)>) -> Table {
        objects.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        Self::make(view, name, objects, (Weak::new(), 0), None)
    }

    fn make(
        view: &View,
        name: &Arc<str>,
        objects: Vec<(Key, Bytes)>,
        (cache, version): (Weak<Cache>, u64),
        before: Option<&Table>,
    ) -> Table {
        let mut old = before.map_or(&[][..], |before| &before.entries).iter().peekable();
        let mut entries = Vec::with_capacity(objects.len());
        let mut sum = Sum::default();
        for (key, object) in objects {
            let place = (key.namespace.as_deref().unwrap_or_default(), &*key.name);
            // Both are in the same order.
            while old.next_if(|entry| (&*entry.row.namespace, &*entry.row.name) < place).is_some() {}
            let same = old.next_if(|entry| entry.object.is_same(&object));
            let entry = match same {
                Some(Entry { object, row, index, sum }) => {
                    Entry { object: object.clone(), row: row.clone(), index: index.clone(), sum: *sum }
                }
                None => {
                    let made = view.make(name, &key, &object);
                    Entry { object, row: Arc::new(made.row), index: made.index.into(), sum: made.sum }
                }
            };
            sum += entry.sum;
            entries.push(entry);
        }
        let mut index: HashMap<Box<str>, Vec<Arc<Row>>> = HashMap::new();
        for entry in &entries {
            for word in &entry.index {
                match index.get_mut(word) {
                    Some(rows) => rows.push(entry.row.clone()),
                    None => {
                        index.insert(word.clone(), vec![entry.row.clone()]);
                    }
                }
            }
        }
        let index = index.into_iter().map(|(word, rows)| (word, rows.into())).collect();
        let rows = entries.iter().map(|entry| entry.row.clone()).collect();
        Table { cache, version, entries, rows, index, sum }
    }
}

/// The tables of one view.
#[derive(Default)]
pub(super) struct Kept {
    members: RwLock<HashMap<Arc<str>, Arc<Table>>>,
    pub(super) columns: Columns,
}

impl Kept {
    /// The tables of these members that are as their memories are; nothing in the place of the others.
    pub(super) fn current(&self, caches: &[(Arc<str>, Arc<Cache>)]) -> Vec<Option<Arc<Table>>> {
        let members = self.members.read().unwrap_or_else(PoisonError::into_inner);
        let known =
            |(name, cache): &(Arc<str>, Arc<Cache>)| members.get(name).filter(|table| table.is_of(cache)).cloned();
        caches.iter().map(known).collect()
    }

    /// Brings a member's table up to date.
    pub(super) fn refresh(&self, view: &View, name: &Arc<str>, cache: &Arc<Cache>) -> Result<Arc<Table>, NotCached> {
        let before = self.members.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
        if let Some(table) = before.as_ref().filter(|table| table.is_of(cache)) {
            return Ok(table.clone());
        }
        let table = Arc::new(Table::read(view, name, cache, before.as_deref())?);
        self.members.write().unwrap_or_else(PoisonError::into_inner).insert(name.clone(), table.clone());
        Ok(table)
    }

    /// Forgets what is kept of memories that are gone. Says whether anything is left.
    fn sweep(&self) -> bool {
        let mut members = self.members.write().unwrap_or_else(PoisonError::into_inner);
        members.retain(|_, table| table.cache.strong_count() > 0);
        !members.is_empty()
    }
}

/// The tables of all views.
#[derive(Default)]
pub(super) struct Tables(Mutex<HashMap<View, Arc<Kept>>>);

impl Tables {
    pub(super) fn of(&self, view: &View) -> Arc<Kept> {
        let mut views = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = views.get(view) {
            return kept.clone();
        }
        views.entry(view.clone()).or_default().clone()
    }

    /// Forgets what nobody has asked for lately: the members' memories are dropped then, and so is what was made of them.
    pub(super) fn sweep(&self) {
        let mut views = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        views.retain(|_, kept| kept.sweep() || Arc::strong_count(kept) > 1);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    use crate::apiext::row::within;

    fn pod(namespace: &str, name: &str, app: &str) -> (Key, Bytes) {
        let object = json!({"metadata": {"name": name, "namespace": namespace, "labels": {"app": app}}});
        (Key::new(Some(namespace), name), object.to_string().into_bytes().into())
    }

    fn names(rows: &[Arc<Row>]) -> Vec<&str> {
        rows.iter().map(|row| &*row.name).collect()
    }

    #[test]
    fn rows_of_what_did_not_change_are_kept() {
        // SYM-13
        let name: Arc<str> = "m".into();
        let make = |objects: &[(Key, Bytes)], before: Option<&Table>| {
            Table::make(&View::Pods, &name, objects.to_vec(), (Weak::new(), 0), before)
        };
        let all = [pod("a", "p1", "web"), pod("a", "p2", "db"), pod("b", "p0", "web"), pod("b", "p3", "web")];
        let first = make(&all, None);
        assert_eq!(names(first.rows()), ["p1", "p2", "p0", "p3"]);
        assert_eq!(names(first.found("web")), ["p1", "p0", "p3"]);
        assert_eq!(names(within(first.found("web"), Some("b"))), ["p0", "p3"]);
        assert!(first.found("nobody").is_empty() && within(first.rows(), Some("c")).is_empty());
        // One gone, one changed, one new.
        let after = [all[0].clone(), pod("a", "p2", "web"), pod("a", "p9", "web"), all[3].clone()];
        let second = make(&after, Some(&first));
        assert_eq!(names(second.found("web")), ["p1", "p2", "p9", "p3"]);
        assert!(second.found("db").is_empty());
        let same = |a: &[Arc<Row>], name: &str, b: &[Arc<Row>]| {
            let find = |rows: &[Arc<Row>]| rows.iter().find(|row| &*row.name == name).cloned().unwrap();
            Arc::ptr_eq(&find(a), &find(b))
        };
        assert!(same(first.rows(), "p1", second.rows()) && same(first.rows(), "p3", second.rows()));
        assert!(!same(first.rows(), "p2", second.rows()));
        assert_eq!((first.sum.count, second.sum.count), (4, 4));
    }

    proptest::proptest! {
        /// Whatever was kept, a table made with it is the table made without it.
        #[test]
        fn a_table_made_from_an_older_one_is_the_same(
            before in proptest::collection::btree_map((0u8..3, 0u8..8), 0u8..3, 0..20),
            after in proptest::collection::btree_map((0u8..3, 0u8..8), 0u8..3, 0..20),
        ) {
            let name: Arc<str> = "m".into();
            let mut known: HashMap<(u8, u8, u8), (Key, Bytes)> = HashMap::new();
            let mut objects = |all: &std::collections::BTreeMap<(u8, u8), u8>| -> Vec<(Key, Bytes)> {
                all.iter().map(|((namespace, pod_name), app)| known.entry((*namespace, *pod_name, *app))
                    .or_insert_with(|| pod(&namespace.to_string(), &pod_name.to_string(), &app.to_string())).clone()).collect()
            };
            let (before, after) = (objects(&before), objects(&after));
            let make = |objects: &[(Key, Bytes)], old: Option<&Table>| Table::make(&View::Pods, &name, objects.to_vec(), (Weak::new(), 0), old);
            let first = make(&before, None);
            let (with, without) = (make(&after, Some(&first)), make(&after, None));
            let shown = |rows: &[Arc<Row>]| rows.iter().map(|row| String::from_utf8_lossy(&row.json()).into_owned()).collect::<Vec<_>>();
            proptest::prop_assert_eq!(shown(with.rows()), shown(without.rows()));
            for app in ["0", "1", "2"] {
                proptest::prop_assert_eq!(shown(with.found(app)), shown(without.found(app)));
            }
        }
    }
}
