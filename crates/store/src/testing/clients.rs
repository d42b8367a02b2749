//! Clients that write, read, list and watch a store at once, and record all they see for the history checker.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::history::{Act, Op, Outcome, Seen, Watched};
use super::{Dice, delete, key, put};
use crate::{Collection, Entry, Error, Event, Expect, Range, Revision, Store, Watch};

const COLLECTION: &str = "suite/clients";
const SOON: Duration = Duration::from_secs(20);

/// Runs `clients` side by side, `steps` operations each, over a handful of keys; one watcher from the start, others on the way.
pub async fn run(store: &Store, clients: u64, steps: u64) -> (Vec<Op>, Vec<Watched>) {
    let time = Arc::new(AtomicU64::new(0));
    let c = Collection::new(COLLECTION);
    let from = store.revision();
    let mut watches = vec![(from, "", store.watch(&c, "", from).expect("watch"))];
    let running: Vec<_> = (0..clients).map(|n| tokio::spawn(client(store.clone(), time.clone(), n, steps))).collect();
    for _ in 0..3 {
        tokio::task::yield_now().await;
        let from = store.revision();
        watches.push((from, "n/1", store.watch(&c, "n/1", from).expect("watch")));
    }
    let mut ops = Vec::new();
    for client in running {
        ops.extend(client.await.expect("client"));
    }
    let upto = store.sync().await.expect("sync");
    let mut watched = Vec::new();
    for (from, prefix, watch) in watches {
        watched.push(Watched { prefix: prefix.into(), from, upto, events: drain(watch, upto).await });
    }
    (ops, watched)
}

async fn drain(mut watch: Watch, upto: Revision) -> Vec<(Revision, String, Option<String>)> {
    let mut events: Vec<Arc<Event>> = Vec::new();
    while watch.revision() < upto {
        // At the collection's head with nothing that matches, it would wait for ever; the bookmark moves on by looking.
        let next = tokio::time::timeout(Duration::from_millis(50), watch.next(7, &mut events)).await;
        next.unwrap_or(Ok(())).expect("events");
    }
    events.iter().map(|e| (e.revision, e.key.item.to_string(), e.entry.as_ref().map(text))).collect()
}

fn text(entry: &Entry) -> String {
    String::from_utf8_lossy(&entry.value).into_owned()
}

fn seen(entry: &Entry) -> Seen {
    Seen { revision: entry.revision, value: text(entry) }
}

async fn client(store: Store, time: Arc<AtomicU64>, number: u64, steps: u64) -> Vec<Op> {
    let mut dice = Dice(number);
    let mut ops = Vec::new();
    for step in 0..steps {
        let name = format!("n/{}", dice.below(4));
        // Read before the clock is: what it knows may be old by the time the write is made.
        let known = store.get(&key(COLLECTION, &name)).map_or(Expect::Absent, |e| Expect::At(e.revision));
        let began = time.fetch_add(1, Ordering::SeqCst);
        let act = tokio::time::timeout(SOON, act(&store, &mut dice, name, known, format!("{number}-{step}"))).await;
        ops.push(Op { began, ended: time.fetch_add(1, Ordering::SeqCst), act: act.expect("an answer in time") });
    }
    ops
}

async fn act(store: &Store, dice: &mut Dice, name: String, known: Expect, fresh: String) -> Act {
    let k = key(COLLECTION, &name);
    let roll = dice.below(6);
    match roll {
        0 => {
            store.sync().await.expect("sync");
            Act::Get { seen: store.get(&k).as_ref().map(seen), key: name }
        }
        1 => {
            store.sync().await.expect("sync");
            let range = Range { collection: &k.collection, prefix: "n/", after: None, limit: 0, at: None };
            let page = store.range(&range, |_, _| true).expect("range");
            let items = page.items.iter().map(|(item, e)| (item.to_string(), seen(e))).collect();
            Act::List { prefix: "n/".into(), revision: page.revision, past: false, items }
        }
        _ => {
            let expect = [Expect::Anything, Expect::Absent, known][dice.below(3) as usize];
            let value = (roll != 2).then_some(fresh);
            let write = match &value {
                Some(value) => put(&k, expect, value.clone()),
                None => delete(&k, expect),
            };
            let outcome = match store.write(write).await {
                Ok(written) => Outcome::Done(written.revision),
                Err(Error::Conflict { current }) => Outcome::Refused(current.map(|e| e.revision)),
                Err(Error::Unknown(_)) => Outcome::Unknown,
                Err(_) => Outcome::Failed,
            };
            Act::Write { key: name, expect, value, outcome }
        }
    }
}
