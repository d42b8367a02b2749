//! The tree against a naive model, and the rules readers rely on.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::model::Attrs;

/// Every state there ever was.
#[derive(Default)]
struct Model {
    states: Vec<(Revision, State)>,
    events: Vec<Told>,
}

type State = BTreeMap<String, (Revision, u8)>;

/// Revision, item, value, value before.
type Told = (Revision, String, Option<u8>, Option<u8>);

impl Model {
    fn at(&self, revision: Revision) -> State {
        self.states.iter().rev().find(|(r, _)| *r <= revision).map(|(_, s)| s.clone()).unwrap_or_default()
    }
}

#[derive(Clone, Debug)]
enum Step {
    Put(u8, u8),
    Delete(u8),
    Compact(u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (0..6u8, any::<u8>()).prop_map(|(k, v)| Step::Put(k, v)),
        3 => (0..6u8).prop_map(Step::Delete),
        1 => (0..100u8).prop_map(Step::Compact),
    ]
}

fn item(k: u8) -> String {
    format!("{}/{k}", if k < 3 { "a" } else { "b" })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]
    #[test]
    fn every_kept_revision_reads_as_the_model_says(steps in prop::collection::vec(step(), 1..60)) {
        let tree = Arc::new(Tree::new());
        let c = Collection::new("c");
        let mut model = Model::default();
        let mut now = BTreeMap::new();
        let mut revision = 1;
        for step in steps {
            let (k, value) = match step {
                Step::Put(k, v) => (item(k), Some(v)),
                Step::Delete(k) => (item(k), None),
                Step::Compact(percent) => {
                    let upto = tree.oldest() + (revision - tree.oldest()) * u64::from(percent) / 100;
                    tree.compact(upto).unwrap();
                    continue;
                }
            };
            let prev = now.get(&k).map(|(_, v)| *v);
            if value.is_none() && prev.is_none() {
                continue;
            }
            revision += 1;
            let change = match value {
                Some(v) => Change::Put { value: Bytes::from(vec![v]), attrs: Arc::new(Attrs::default()) },
                None => Change::Delete,
            };
            match value {
                Some(v) => drop(now.insert(k.clone(), (revision, v))),
                None => drop(now.remove(&k)),
            }
            tree.feed(vec![Fed { revision, key: Key::new(&c, &k), change }], revision);
            model.states.push((revision, now.clone()));
            model.events.push((revision, k, value, prev));

            for at in tree.oldest()..=revision {
                let page = tree
                    .range(&Range { collection: &c, prefix: "", after: None, limit: 0, at: Some(at) }, |_, _| true)
                    .unwrap();
                let read: BTreeMap<_, _> =
                    page.items.iter().map(|(i, e)| (i.to_string(), (e.revision, e.value[0]))).collect();
                prop_assert_eq!(read, model.at(at), "at {}", at);
            }
            prop_assert_eq!(tree.count(&c, ""), now.len());
            prop_assert_eq!(tree.count(&c, "a/"), now.keys().filter(|k| k.starts_with("a/")).count());
            prop_assert_eq!(tree.count(&c, "b/3"), now.keys().filter(|k| k.starts_with("b/3")).count());
            if let Some(shelf) = tree.find(&c) {
                let mut out = Vec::new();
                let from = tree.oldest();
                prop_assert!(shelf.events("", from, revision, usize::MAX, &mut out).is_ok());
                let seen: Vec<_> = out
                    .iter()
                    .map(|e| (e.revision, e.key.item.to_string(), e.entry.as_ref().map(|e| e.value[0]), e.prev.as_ref().map(|e| e.value[0])))
                    .collect();
                let expected: Vec<_> = model.events.iter().filter(|e| e.0 > from).cloned().collect();
                prop_assert_eq!(seen, expected);
            }
        }
        // Compacted to the end, only what is live is held.
        tree.compact(revision).unwrap();
        prop_assert_eq!(tree.superseded(), 0);
        if let Some(shelf) = tree.find(&c) {
            let state = shelf.state.read().unwrap();
            prop_assert_eq!(state.items.len(), now.len());
            prop_assert!(state.history.is_empty() && state.items.values().all(|v| v.older.is_none()));
        }
    }
}

#[test]
fn feeding_the_same_change_again_is_harmless() {
    let tree = Arc::new(Tree::new());
    let c = Collection::new("c");
    let change = Change::Put { value: Bytes::from_static(b"1"), attrs: Arc::default() };
    let fed = Fed { revision: 5, key: Key::new(&c, "a"), change };
    tree.feed(vec![fed.clone()], 5);
    tree.feed(vec![fed], 5);
    let gone = Fed { revision: 7, key: Key::new(&c, "a"), change: Change::Delete };
    tree.feed(vec![gone.clone()], 7);
    tree.feed(vec![Fed { revision: 8, ..gone }], 8);
    let mut out = Vec::new();
    assert!(tree.find(&c).unwrap().events("", 1, 8, 10, &mut out).is_ok());
    assert_eq!(out.iter().map(|e| e.revision).collect::<Vec<_>>(), [5, 7]);
}

#[test]
fn events_of_one_revision_are_never_split_between_batches() {
    let tree = Arc::new(Tree::new());
    let c = Collection::new("c");
    let put = |revision, item: &str| Fed {
        revision,
        key: Key::new(&c, item),
        change: Change::Put { value: Bytes::new(), attrs: Arc::default() },
    };
    tree.feed(vec![put(2, "a"), put(3, "b"), put(3, "c"), put(3, "d"), put(4, "e")], 4);
    let shelf = tree.find(&c).unwrap();
    let mut out = Vec::new();
    let cursor = shelf.events("", 1, 4, 2, &mut out).ok().unwrap();
    assert_eq!((cursor, out.len()), (3, 4));
    let cursor = shelf.events("", cursor, 4, 2, &mut out).ok().unwrap();
    assert_eq!((cursor, out.len()), (4, 5));
}

#[test]
fn a_value_in_a_roomy_buffer_is_shrunk() {
    let mut roomy = Vec::with_capacity(10_000);
    roomy.extend_from_slice(b"small");
    let value = snug(Bytes::from(roomy));
    assert_eq!(value, "small");
    assert!(value.try_into_mut().unwrap().capacity() < 100);
}

#[test]
fn events_made_again_from_versions_are_the_same_as_fresh_ones() {
    let tree = Arc::new(Tree::new());
    let c = Collection::new("c");
    let last = 2 + FRESH as u64 * 2;
    for revision in 2..=last {
        let key = Key::new(&c, if revision % 3 == 0 { "odd" } else { "even" });
        let change = match revision % 7 {
            0 => Change::Delete,
            _ => Change::Put { value: Bytes::from(revision.to_string()), attrs: Arc::default() },
        };
        tree.feed(vec![Fed { revision, key: key.clone(), change }], revision);
    }
    let shelf = tree.find(&c).unwrap();
    let all = |shelf: &Shelf| {
        let mut out = Vec::new();
        let mut cursor = 1;
        while cursor < last {
            cursor = shelf.events("", cursor, last, 100, &mut out).ok().unwrap();
        }
        let told = |e: &Option<Entry>| e.as_ref().map(|e| (e.revision, e.value.clone()));
        out.iter().map(|e| (e.revision, e.key.item.clone(), told(&e.entry), told(&e.prev))).collect::<Vec<_>>()
    };
    let mixed = all(&shelf);
    shelf.state.write().unwrap().fresh.clear();
    let remade = all(&shelf);
    assert!(mixed.len() > FRESH && mixed == remade);
    for (i, (revision, item, entry, prev)) in mixed.iter().enumerate() {
        let before = mixed[..i].iter().rev().find(|(_, other, ..)| other == item).and_then(|b| b.2.clone());
        assert_eq!(*prev, before);
        assert_eq!(entry.is_some(), revision % 7 != 0);
    }
}

#[test]
fn long_lists_and_compactions_go_by_chunks_and_stay_whole() {
    let tree = Arc::new(Tree::new());
    let c = Collection::new("c");
    let count = CHUNK as u64 * 5 + 7;
    let put = |revision, item: u64| Fed {
        revision,
        key: Key::new(&c, &format!("n/{item:06}")),
        change: Change::Put { value: Bytes::from(revision.to_string()), attrs: Arc::default() },
    };
    tree.feed((0..count).map(|i| put(2 + i, i)).collect(), 1 + count);
    let first = tree.revision();
    // Every second one is gone, every third one changed, after the revision that is listed.
    let mut revision = first;
    for i in 0..count {
        revision += 1;
        let fed = put(revision, i);
        let change = if i % 2 == 0 { Change::Delete } else { fed.change };
        if i % 2 == 0 || i % 3 == 0 {
            tree.feed(vec![Fed { change, ..fed }], revision);
        }
    }
    let at = |at, after: Option<&str>, limit| {
        let range = Range { collection: &c, prefix: "n/", after, limit, at: Some(at) };
        tree.range(&range, |_, _| true).unwrap()
    };
    for limit in [0, 1, 511, 512, 513, 1000] {
        let (mut seen, mut after): (Vec<Arc<str>>, Option<Arc<str>>) = (Vec::new(), None);
        // One by one would be slow over all of it.
        let pages = if limit == 1 { 3 } else { usize::MAX };
        for _ in 0..pages {
            let page = at(first, after.as_deref(), limit);
            assert!(page.items.iter().all(|(_, e)| e.revision <= first));
            seen.extend(page.items.iter().map(|(item, _)| item.clone()));
            after = seen.last().cloned();
            if !page.more {
                break;
            }
        }
        assert!(seen.is_sorted() && seen.len() as u64 == if limit == 1 { 3 } else { count }, "limit {limit}");
    }
    let head = tree.revision();
    let live = at(head, None, 0).items.len();
    assert_eq!((live as u64, tree.count(&c, "n/")), (count / 2, live));
    tree.compact(head).unwrap();
    assert_eq!((at(head, None, 0).items.len(), tree.superseded()), (live, 0));
    assert_eq!(tree.find(&c).unwrap().state.read().unwrap().items.len(), live);
}
