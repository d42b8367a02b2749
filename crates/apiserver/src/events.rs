//! Events do not live for ever: the oldest go when their time is up.

use crate::Api;
use meta::options::DeleteOptions;
use std::collections::VecDeque;
use std::sync::Arc;
use store::{Key, Range, Revision};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// A write of an event, in the order of time; only the newest write of each event counts.
struct Seen {
    at: Instant,
    key: Key,
    revision: Revision,
}

/// Deletes events that nobody wrote for the configured time. After a restart they live that long again.
pub(crate) async fn run(api: Api, stop: CancellationToken) {
    let Some(kind) = api.inner.served.get().registry.find("", "v1", "events").cloned() else { return };
    let store = &api.inner.store;
    let ttl = api.inner.options.event_ttl;
    let mut waiting: VecDeque<Seen> = VecDeque::new();
    let mut events = Vec::new();
    while !stop.is_cancelled() {
        let range = Range { collection: &kind.collection, prefix: "", after: None, limit: 0, at: None };
        let Ok(page) = store.range(&range, |_, _| true) else { return };
        let now = Instant::now();
        waiting.clear();
        waiting.extend(page.items.into_iter().map(|(item, entry)| Seen {
            at: now,
            key: Key { collection: kind.collection.clone(), item },
            revision: entry.revision,
        }));
        let Ok(mut watch) = store.watch(&kind.collection, "", page.revision) else { continue };
        loop {
            let due = waiting.front().map_or(Instant::now() + ttl, |seen| seen.at + ttl);
            events.clear();
            tokio::select! {
                () = stop.cancelled() => return,
                moved = watch.next(256, &mut events) => match moved {
                    Ok(()) => {
                        let now = Instant::now();
                        let written = events.iter().filter_map(|e: &Arc<store::Event>| e.entry.as_ref().map(|entry| (e, entry.revision)));
                        waiting.extend(written.map(|(e, revision)| Seen { at: now, key: e.key.clone(), revision }));
                    }
                    Err(store::Error::Compacted { .. }) => break,
                    Err(_) => return,
                },
                () = tokio::time::sleep_until(due) => {
                    let Some(seen) = waiting.pop_front() else { continue };
                    let Some((namespace, name)) = seen.key.item.split_once('/') else { continue };
                    let options = DeleteOptions { resource_version: Some(seen.revision.to_string()), ..DeleteOptions::default() };
                    // Conflict: written since, and queued again. Gone: nothing to do.
                    let _ = api.inner.delete(&kind, namespace, name, &options).await;
                }
            }
        }
    }
}
