//! A true history passes; each planted bug is caught. F-3

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::testing::{Dice, delete, key, put};
use crate::{Collection, Error, Options, Range, Store};

type Delivered = (Revision, String, Option<String>);

/// Real clients on a real store, recorded.
async fn recorded() -> (Vec<Op>, Vec<Watched>) {
    let store = Store::memory(Options::default());
    let time = Arc::new(AtomicU64::new(0));
    let c = Collection::new("c");
    let from = store.revision();
    let mut watch = store.watch(&c, "", from).unwrap();
    let mut clients = Vec::new();
    for client in 0..6 {
        let (store, time, c) = (store.clone(), time.clone(), c.clone());
        clients.push(tokio::spawn(async move {
            let mut dice = Dice(client);
            let mut ops = Vec::new();
            for n in 0..60 {
                let name = format!("n/{}", dice.below(4));
                let k = key("c", &name);
                let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
                let seen = |e: &crate::Entry| Seen { revision: e.revision, value: text(&e.value) };
                let began = time.fetch_add(1, Ordering::SeqCst);
                let act = match dice.below(6) {
                    0 => Act::Get { seen: store.get(&k).as_ref().map(seen), key: name },
                    1 => {
                        let range = Range { collection: &c, prefix: "n/", after: None, limit: 0, at: None };
                        let page = store.range(&range, |_, _| true).unwrap();
                        let items = page.items.iter().map(|(item, e)| (item.to_string(), seen(e))).collect();
                        Act::List { prefix: "n/".into(), revision: page.revision, past: false, items }
                    }
                    roll => {
                        let expect = match dice.below(3) {
                            0 => Expect::Anything,
                            1 => Expect::Absent,
                            _ => store.get(&k).map_or(Expect::Absent, |e| Expect::At(e.revision)),
                        };
                        let value = (roll != 2).then(|| format!("{client}-{n}"));
                        let write = match &value {
                            Some(value) => put(&k, expect, value.clone()),
                            None => delete(&k, expect),
                        };
                        let outcome = match store.write(write).await {
                            Ok(written) => Outcome::Done(written.revision),
                            Err(Error::Conflict { current }) => Outcome::Refused(current.map(|e| e.revision)),
                            Err(other) => panic!("{other}"),
                        };
                        Act::Write { key: name, expect, value, outcome }
                    }
                };
                ops.push(Op { began, ended: time.fetch_add(1, Ordering::SeqCst), act });
            }
            ops
        }));
    }
    let mut ops = Vec::new();
    for client in clients {
        ops.extend(client.await.unwrap());
    }
    let mut events = Vec::new();
    watch.next(usize::MAX, &mut events).await.unwrap();
    let told = events.iter().map(|e| {
        let value = e.entry.as_ref().map(|e| String::from_utf8_lossy(&e.value).into_owned());
        (e.revision, e.key.item.to_string(), value)
    });
    let watched = Watched { prefix: String::new(), from, upto: store.revision(), events: told.collect() };
    (ops, vec![watched])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_true_history_passes_and_each_planted_bug_is_caught() {
    let (ops, watches) = recorded().await;
    assert_eq!(check(&ops, &watches), []);
    let events = &watches[0].events;
    assert!(events.len() > 50);

    // Watches.
    let watch = |change: fn(&mut Vec<Delivered>)| {
        let mut changed = watches.clone();
        change(&mut changed[0].events);
        check(&ops, &changed)
    };
    let lost = watch(|e| drop(e.remove(20)));
    assert!(matches!(lost[..], [Violation::WatchGap { revision, .. }] if revision == events[20].0), "{lost:?}");
    assert_eq!(watch(|e| e.insert(20, e[20].clone())), [Violation::WatchDisorder { revision: events[20].0 }]);
    assert_eq!(watch(|e| e.swap(20, 21)).len(), 1);
    assert!(matches!(watch(|e| e[20].2 = Some("other".into()))[0], Violation::FromNowhere { .. }));
    assert!(matches!(watch(|e| e.push((u64::MAX, "n/0".into(), None)))[0], Violation::FromNowhere { .. }));

    // A write that is acknowledged and then lost: nobody's watch and no list shows it.
    let mut broken = ops.clone();
    let late = broken.iter().map(|op| op.ended).max().unwrap();
    let next = watches[0].upto + 1;
    let op = |began, ended, act| Op { began, ended, act };
    let write =
        |value: &str, expect, outcome| Act::Write { key: "n/0".into(), expect, value: Some(value.into()), outcome };
    broken.push(op(late + 1, late + 2, write("x", Expect::Anything, Outcome::Done(next))));
    let items = Vec::new();
    broken.push(op(late + 3, late + 4, Act::List { prefix: "n/0".into(), revision: next, past: false, items }));
    assert!(check(&broken, &watches).contains(&Violation::NotASnapshot { revision: next, key: "n/0".into() }));

    // A revision given twice, and one that goes back in time.
    let mut broken = ops.clone();
    broken.push(op(late + 1, late + 2, write("x", Expect::Anything, Outcome::Done(events[3].0))));
    let found = check(&broken, &watches);
    assert!(found.contains(&Violation::RevisionTwice(events[3].0)));
    assert!(found.iter().any(|v| matches!(v, Violation::OrderAgainstTime { .. })));
}

fn op(began: u64, ended: u64, act: Act) -> Op {
    Op { began, ended, act }
}

fn put_op(began: u64, ended: u64, value: &str, expect: Expect, outcome: Outcome) -> Op {
    op(began, ended, Act::Write { key: "k".into(), expect, value: Some(value.into()), outcome })
}

fn get(began: u64, ended: u64, seen: Option<(Revision, &str)>) -> Op {
    let seen = seen.map(|(revision, value)| Seen { revision, value: value.into() });
    op(began, ended, Act::Get { key: "k".into(), seen })
}

#[test]
fn reads_must_be_neither_stale_nor_early() {
    use Outcome::Done;
    let writes = [put_op(1, 2, "a", Expect::Absent, Done(10)), put_op(5, 8, "b", Expect::At(10), Done(11))];
    let with = |read: Op| check(&[&writes[..], &[read]].concat(), &[]);
    assert_eq!(with(get(3, 4, Some((10, "a")))), []);
    assert_eq!(with(get(3, 4, None)), [Violation::Stale { key: "k".into() }], "missed an acknowledged write");
    assert_eq!(with(get(6, 7, Some((10, "a")))), [], "a write in flight may or may not be seen");
    assert_eq!(with(get(6, 7, Some((11, "b")))), []);
    assert_eq!(with(get(9, 10, Some((10, "a")))), [Violation::Stale { key: "k".into() }]);
    assert_eq!(with(get(3, 4, Some((11, "b")))), [Violation::Clairvoyant { key: "k".into() }]);
    assert!(matches!(with(get(9, 10, Some((12, "c"))))[..], [Violation::FromNowhere { .. }, ..]));
    // What one client saw, a later read of another may not miss.
    let twice = [&writes[..], &[get(6, 6, Some((11, "b"))), get(7, 7, Some((10, "a")))]].concat();
    assert_eq!(check(&twice, &[]), [Violation::Stale { key: "k".into() }]);
}

#[test]
fn compares_must_have_held() {
    use Outcome::{Done, Refused};
    let first = put_op(1, 2, "a", Expect::Absent, Done(10));
    let with = |ops: &[Op]| check(&[std::slice::from_ref(&first), ops].concat(), &[]);
    assert_eq!(with(&[put_op(3, 4, "b", Expect::At(10), Done(11))]), []);
    assert_eq!(with(&[put_op(3, 4, "b", Expect::Absent, Done(11))]), [Violation::CompareIgnored(11)]);
    let both = [put_op(3, 6, "b", Expect::At(10), Done(11)), put_op(4, 5, "c", Expect::At(10), Done(12))];
    assert_eq!(with(&both), [Violation::CompareIgnored(12)], "a lost update");
    assert_eq!(with(&[put_op(3, 4, "b", Expect::Absent, Refused(Some(10)))]), []);
    let misjudged = [Violation::CompareMisjudged { key: "k".into() }];
    assert_eq!(with(&[put_op(3, 4, "b", Expect::At(10), Refused(None))]), misjudged);
    assert_eq!(with(&[put_op(3, 4, "b", Expect::At(9), Refused(Some(8)))]), misjudged);
}

#[test]
fn unknown_outcomes_may_happen_or_not_but_not_twice() {
    use Outcome::{Done, Unknown};
    let ops = [put_op(1, 2, "a", Expect::Absent, Done(10)), put_op(3, 4, "b", Expect::Anything, Unknown)];
    let with = |read: Op| check(&[&ops[..], &[read]].concat(), &[]);
    assert_eq!(with(get(5, 6, Some((10, "a")))), []);
    assert_eq!(with(get(5, 6, Some((11, "b")))), []);
    assert!(!with(get(5, 6, Some((11, "c")))).is_empty());
    let twice = [&ops[..], &[get(5, 6, Some((11, "b"))), get(7, 8, Some((12, "b")))]].concat();
    assert!(check(&twice, &[]).iter().any(|v| matches!(v, Violation::FromNowhere { revision: 12, .. })));
}
