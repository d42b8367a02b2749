//! Events do not live for ever: each goes when nobody wrote it for the configured time.

use crate::kinds::Kind;
use crate::{Api, Inner};
use jiff::{SignedDuration, Timestamp};
use meta::options::DeleteOptions;
use meta::{Object, Reason, time};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use store::{Key, Range, Revision};
use tokio_util::sync::CancellationToken;

/// Events taken at once, and read at the start between two turns of others.
const BATCH: usize = 256;
/// The clock may be set while we sleep.
const LOOK_ANYWAY: Duration = Duration::from_secs(60);
/// Until a deletion that failed is tried again.
const RETRY: SignedDuration = SignedDuration::from_secs(10);

/// Writes of events by when they were made; of those of one event only the newest counts.
type Writes = BTreeMap<(Timestamp, Revision), Key>;

/// Deletes events whose time is up, until told to stop. Their time is counted from when they were written, whoever served then.
pub(crate) async fn run(api: Api, stop: CancellationToken) {
    let api = &api.inner;
    let (Some(kind), Ok(ttl)) = (api.kind("", "v1", "events"), SignedDuration::try_from(api.options.event_ttl)) else {
        return;
    };
    if ttl.is_zero() {
        return;
    }
    // Only when the history was too short it returns by itself.
    while !stop.is_cancelled() {
        tokio::select! {
            () = stop.cancelled() => return,
            followed = follow(api, &kind, ttl) => if followed.is_err() { return },
        }
    }
}

async fn follow(api: &Inner, kind: &Kind, ttl: SignedDuration) -> store::Result<()> {
    let range = Range { collection: &kind.collection, prefix: "", after: None, limit: 0, at: None };
    let page = api.store.range(&range, |_, _| true)?;
    let mut watch = match api.store.watch(&kind.collection, "", page.revision) {
        Err(store::Error::Compacted { .. }) => return Ok(()),
        watch => watch?,
    };
    let mut writes = Writes::new();
    for (i, (item, entry)) in page.items.into_iter().enumerate() {
        if i % BATCH == BATCH - 1 {
            tokio::task::yield_now().await;
        }
        let at = written_at(&entry.value, api.clock.now());
        writes.insert((at, entry.revision), Key { collection: kind.collection.clone(), item });
    }
    let mut events: Vec<Arc<store::Event>> = Vec::new();
    loop {
        let now = api.clock.now();
        let due = writes.first_key_value().map(|((at, _), _)| now.duration_since(*at) - ttl);
        if due.is_some_and(|late| !late.is_negative())
            && let Some(((_, revision), key)) = writes.pop_first()
        {
            if !expire(api, kind, &key, revision).await {
                writes.insert((now + RETRY - ttl, revision), key);
            }
            continue;
        }
        let rest = due.and_then(|early| Duration::try_from(-early).ok()).unwrap_or(LOOK_ANYWAY);
        events.clear();
        tokio::select! {
            moved = watch.next(BATCH, &mut events) => match moved {
                Err(store::Error::Compacted { .. }) => return Ok(()),
                moved => {
                    moved?;
                    let now = api.clock.now();
                    let written = events.iter().filter_map(|e| Some((e.entry.as_ref()?.revision, e.key.clone())));
                    writes.extend(written.map(|(revision, key)| ((now, revision), key)));
                }
            },
            () = tokio::time::sleep(rest.min(LOOK_ANYWAY)) => {}
        }
    }
}

/// When an event was last written, as the server noted it in the event. Whatever a client claims of its owners, not later than now.
fn written_at(value: &[u8], now: Timestamp) -> Timestamp {
    let event = meta::json::parse(value).ok().and_then(|parsed| Object::from_value(parsed.value)).unwrap_or_default();
    let owners = event.meta().get("managedFields").and_then(Value::as_array).into_iter().flatten();
    let times = owners.filter_map(|owner| owner.get("time")?.as_str()).chain([event.meta_text("creationTimestamp")]);
    times.filter_map(time::parse).max().unwrap_or(now).min(now)
}

/// Whether the event needs no more looking after.
async fn expire(api: &Inner, kind: &Kind, key: &Key, revision: Revision) -> bool {
    let Some((namespace, name)) = key.item.split_once('/') else { return true };
    let options = DeleteOptions { resource_version: Some(revision.to_string()), ..DeleteOptions::default() };
    match api.delete(kind, namespace, name, &options).await {
        Ok(_) => true,
        // Written since, and noted again; or gone.
        Err(status) if matches!(status.reason, Reason::Conflict | Reason::NotFound) => true,
        Err(status) => {
            tracing::warn!(%status, event = %key.item, "an event whose time is up could not be deleted yet");
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ownership::By;
    use crate::{Options, describe, namespaces};
    use auth::{Authenticator, Authorizer};
    use meta::Clock;
    use serde_json::json;
    use std::sync::Mutex;
    use store::Store;

    struct Hands(Mutex<Timestamp>);

    impl Hands {
        fn turn(&self, seconds: i64) {
            let mut now = self.0.lock().unwrap();
            *now += SignedDuration::from_secs(seconds);
        }
    }

    impl Clock for Hands {
        fn now(&self) -> Timestamp {
            *self.0.lock().unwrap()
        }
    }

    async fn server(store: &Store, clock: &Arc<Hands>, ttl: u64) -> Api {
        let authenticator = Authenticator::new(auth::Options::default()).unwrap();
        let mut options = Options::new(authenticator, Authorizer::new());
        options.clock = clock.clone();
        options.event_ttl = Duration::from_secs(ttl);
        let api = Api::new(store.clone(), options);
        namespaces::ensure_system(&api.inner).await.unwrap();
        api
    }

    fn memory() -> (Store, Arc<Hands>) {
        let store = Store::memory(store::Options { describe: describe(), tick: None, ..store::Options::default() });
        (store, Arc::new(Hands(Mutex::new("2026-01-01T00:00:00Z".parse().unwrap()))))
    }

    async fn record(api: &Api, name: &str) {
        let kind = api.inner.kind("", "v1", "events").unwrap();
        let object = json!({"metadata": {"name": name}, "involvedObject": {"namespace": "default"}, "reason": "r"});
        api.inner.create(&kind, "default", Object::from_value(object).unwrap(), &By::SERVER).await.unwrap();
    }

    fn names(api: &Api) -> Vec<String> {
        let kind = api.inner.kind("", "v1", "events").unwrap();
        let range = Range { collection: &kind.collection, prefix: "", after: None, limit: 0, at: None };
        let page = api.inner.store.range(&range, |_, _| true).unwrap();
        page.items.iter().map(|(item, _)| item.trim_start_matches("default/").to_owned()).collect()
    }

    /// Lets the keeper look at the clock, and the store's thread, whose time is the real one, do its work.
    async fn settle() {
        for _ in 0..10 {
            tokio::time::sleep(LOOK_ANYWAY).await;
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    async fn until(api: &Api, wanted: &[&str]) {
        for _ in 0..2000 {
            if names(api) == wanted {
                return;
            }
            settle().await;
        }
        panic!("{:?} and not {wanted:?}", names(api));
    }

    #[tokio::test(start_paused = true)]
    async fn an_events_time_is_counted_from_its_write_and_goes_on_over_a_restart() {
        let (store, clock) = memory();
        let first = server(&store, &clock, 3600).await;
        record(&first, "old").await;
        clock.turn(3000);
        record(&first, "young").await;
        // Another process; the old event has ten minutes left, not an hour.
        drop(first);
        let second = server(&store, &clock, 3600).await;
        let stop = CancellationToken::new();
        let keeper = tokio::spawn(run(second.clone(), stop.clone()));
        settle().await;
        assert_eq!(names(&second), ["old", "young"]);
        clock.turn(601);
        until(&second, &["young"]).await;
        // One that comes while it runs.
        record(&second, "new").await;
        settle().await;
        clock.turn(3000);
        until(&second, &["new"]).await;
        settle().await;
        assert_eq!(names(&second), ["new"]);
        clock.turn(601);
        until(&second, &[]).await;
        stop.cancel();
        keeper.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_that_is_written_again_lives_on() {
        let (store, clock) = memory();
        let api = server(&store, &clock, 3600).await;
        record(&api, "busy").await;
        let stop = CancellationToken::new();
        let keeper = tokio::spawn(run(api.clone(), stop.clone()));
        settle().await;
        clock.turn(3000);
        let kind = api.inner.kind("", "v1", "events").unwrap();
        let again = api.inner.update(&kind, "default", "busy", crate::objects::Part::Main, &By::SERVER, |current| {
            let mut desired = current.clone();
            desired.0.insert("count".into(), 2.into());
            Ok(desired)
        });
        again.await.unwrap();
        settle().await;
        clock.turn(3000);
        settle().await;
        assert_eq!(names(&api), ["busy"]);
        clock.turn(601);
        until(&api, &[]).await;
        stop.cancel();
        keeper.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn no_time_is_for_ever() {
        let (store, clock) = memory();
        let api = server(&store, &clock, 0).await;
        record(&api, "eternal").await;
        // Nothing to look after: it ends by itself.
        run(api.clone(), CancellationToken::new()).await;
        clock.turn(1 << 30);
        assert_eq!(names(&api), ["eternal"]);
    }

    #[test]
    fn the_newest_time_the_server_noted_counts_and_never_one_to_come() {
        let now: Timestamp = "2026-01-01T12:00:00Z".parse().unwrap();
        let at = |metadata: Value| written_at(json!({"metadata": metadata}).to_string().as_bytes(), now).to_string();
        let made = "2026-01-01T10:00:00Z";
        assert_eq!(at(json!({"creationTimestamp": made})), made);
        let owners = |time: &str| json!({"creationTimestamp": made, "managedFields": [{"manager": "m", "time": time}]});
        assert_eq!(at(owners("2026-01-01T11:00:00Z")), "2026-01-01T11:00:00Z");
        assert_eq!(at(owners("2026-01-01T09:00:00Z")), made);
        assert_eq!(at(owners("2999-01-01T00:00:00Z")), now.to_string());
        assert_eq!(at(json!({})), now.to_string());
        assert_eq!(written_at(b"garbage", now), now);
    }
}
