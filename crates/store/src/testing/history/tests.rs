//! A true history passes; each planted bug is caught. F-3

use super::*;
use crate::testing::clients;
use crate::{Options, Store};

type Delivered = (Revision, String, Option<String>);

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_true_history_passes_and_each_planted_bug_is_caught() {
    let store = Store::memory(Options::default());
    let (ops, watches) = clients::run(&store, 6, 60).await;
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
