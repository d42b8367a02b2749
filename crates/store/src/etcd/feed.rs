//! Keeps the tree fed: a list at one revision, then one watch stream from there on, resumed wherever it breaks.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, sleep, sleep_until};

use super::client::{Again, Failure, Refusal};
use super::core::Core;
use super::wire::{
    self, KeyValue, RangeRequest, RangeResponse, WatchAsk, WatchCreate, WatchEvent, WatchProgress, WatchRequest,
    WatchResponse,
};
use crate::error::{Error, Result};
use crate::model::{Change, Entry, Key, Range, Revision};
use crate::tree::Fed;

/// Values per page of a list; fewer when they are large.
const PAGE: i64 = 1000;
const SMALLEST_PAGE: i64 = 16;
/// Lists that may be cut short by a compaction before we give up for now.
const LISTS: usize = 5;
/// When someone waits for a revision: events usually bring it at once; if not, we ask, and ask again.
const ASK_AFTER: Duration = Duration::from_millis(5);
const ASK_AGAIN: Duration = Duration::from_millis(100);
/// So long may a stream bring nothing while someone waits, at first and at most; then another member is followed.
const SILENCE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(8));
/// Cut off for longer than this is a failure that health tells.
const PATIENCE: Duration = Duration::from_secs(2);
const PAUSE: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// What etcd holds at one revision: what the tree does not have yet, and the keys of all.
struct List {
    revision: Revision,
    news: Vec<(Key, Entry)>,
    keys: HashSet<Key>,
}

/// The first list; history begins there.
pub(super) async fn load(core: &Core) -> Result<()> {
    let list = list(core).await?;
    for (key, entry) in list.news {
        core.tree.load(key, entry);
    }
    core.tree.begin(list.revision);
    core.seen.send_replace(core.tree.revision());
    Ok(())
}

/// Events are lost for good. The tree is brought to the present by what differs; as what was between is not known, the past up to
/// now can no longer be read, and watchers of collections that changed must list again.
async fn reload(core: &Core) -> Result<()> {
    let List { revision, mut news, keys } = list(core).await?;
    news.sort_by_key(|(_, entry)| entry.revision);
    let mut changes: Vec<Fed> = news
        .into_iter()
        .map(|(key, Entry { revision, value, attrs, .. })| Fed { revision, key, change: Change::Put { value, attrs } })
        .collect();
    for collection in core.tree.collections() {
        let all = Range { collection: &collection, prefix: "", after: None, limit: 0, at: None };
        for (item, _) in core.tree.range(&all, |_, _| true)?.items {
            let key = Key { collection: collection.clone(), item };
            if !keys.contains(&key) {
                changes.push(Fed { revision, key, change: Change::Delete });
            }
        }
    }
    tracing::warn!(revision, changes = changes.len(), "events were compacted before we saw them; listed again");
    core.reloads.fetch_add(1, Ordering::SeqCst);
    core.tree.feed(changes, revision);
    core.tree.compact(revision)?;
    core.seen.send_replace(core.tree.revision());
    Ok(())
}

async fn list(core: &Core) -> Result<List> {
    for _ in 0..LISTS {
        match try_list(core).await? {
            Some(list) => return Ok(list),
            None => tracing::info!("a list from etcd was overtaken by a compaction; listing again"),
        }
    }
    Err(Error::Unavailable("etcd is compacted faster than it can be listed".into()))
}

async fn try_list(core: &Core) -> Result<Option<List>> {
    let (mut news, mut keys) = (Vec::new(), HashSet::new());
    let revision = pages(core, core.layout.all(), |kv| {
        let Some(item) = core.layout.item(&kv.key) else { return Ok(()) };
        let known = core.tree.get(&item).is_some_and(|entry| entry.revision == kv.revision());
        if !known {
            let Some(entry) = core.entry(&item, &kv)? else { return Ok(()) };
            news.push((item.clone(), entry));
        }
        keys.insert(item);
        Ok(())
    });
    Ok(revision.await?.map(|revision| List { revision, news, keys }))
}

/// Everything from the first key up to the second, at one revision, which is given. None: that was compacted meanwhile.
pub(super) async fn pages(
    core: &Core,
    (mut key, range_end): (Bytes, Bytes),
    mut each: impl FnMut(KeyValue) -> Result<()>,
) -> Result<Option<Revision>> {
    let mut revision = 0;
    let mut limit = PAGE;
    loop {
        let ask =
            RangeRequest { key: key.clone(), range_end: range_end.clone(), limit, revision, ..Default::default() };
        let page: RangeResponse = match core.client.call(wire::RANGE, &ask, core.deadline(), Again::Safe).await {
            Err(Failure::Refused(Refusal::Compacted, _)) => return Ok(None),
            Err(Failure::Refused(Refusal::Big, _)) if limit > SMALLEST_PAGE => {
                limit = (limit / 4).max(SMALLEST_PAGE);
                continue;
            }
            page => page.map_err(|failure| failure.into_error(0, 0))?,
        };
        if revision == 0 {
            revision = page.header.as_ref().map_or(0, |header| header.revision);
        }
        let last = page.kvs.last().map(|kv| kv.key.clone());
        page.kvs.into_iter().try_for_each(&mut each)?;
        match last {
            // The next key after this one.
            Some(last) if page.more => key = [&last[..], b"\0"].concat().into(),
            _ => return Ok(Some(u64::try_from(revision).unwrap_or(0))),
        }
    }
}

enum Ended {
    Lost(String),
    /// What comes next was compacted away.
    Compacted,
    /// A value came that does not open; the tree stays where it is until it does.
    Stuck(String),
}

/// Follows etcd for as long as the store lives.
pub(super) async fn follow(core: Arc<Core>) {
    let mut stream = Stream { core, turn: 0, events: Vec::new(), silence: SILENCE.0, lost: None, stuck: false };
    let mut pause = PAUSE.0;
    loop {
        let began = Instant::now();
        let ended = stream.run().await;
        stream.events.clear();
        let why = match ended {
            Ended::Compacted => match reload(&stream.core).await {
                Ok(()) => {
                    stream.stuck = false;
                    continue;
                }
                Err(error) => error.to_string(),
            },
            Ended::Lost(why) => why,
            Ended::Stuck(why) => {
                stream.stuck = true;
                // Most likely another server rotated the ring that we share.
                match stream.core.sealer.reload() {
                    Ok(()) => why,
                    Err(error) => format!("{why}; {error}"),
                }
            }
        };
        tracing::debug!(why, "the watch stream ended");
        if why.contains("auth") {
            stream.core.client.log_in_again().await;
        }
        let since = *stream.lost.get_or_insert_with(Instant::now);
        if stream.stuck || since.elapsed() > PATIENCE {
            stream.core.cut_off(Some(why));
        }
        stream.turn = stream.turn.wrapping_add(1);
        pause = if began.elapsed() > PAUSE.1 { PAUSE.0 } else { (pause * 2).min(PAUSE.1) };
        sleep(pause).await;
    }
}

struct Stream {
    core: Arc<Core>,
    turn: usize,
    /// Of a response that came in part.
    events: Vec<WatchEvent>,
    /// Grows while changing members does not help: all may just be slow.
    silence: Duration,
    lost: Option<Instant>,
    stuck: bool,
}

impl Stream {
    async fn run(&mut self) -> Ended {
        let (key, range_end) = self.core.layout.all();
        let start_revision = i64::try_from(*self.core.seen.borrow()).unwrap_or(0) + 1;
        // No previous values: the tree knows what was before.
        let create = WatchCreate { key, range_end, start_revision, progress_notify: true, fragment: true };
        let first = WatchRequest { ask: Some(WatchAsk::Create(create)) };
        let (asks, mut answers) = match self.core.client.watch(self.turn, first).await {
            Ok(opened) => opened,
            Err(why) => return Ended::Lost(why),
        };
        let mut wanted = self.core.wanted.subscribe();
        // Since when the tree has been behind what is wanted without coming closer, and when to ask for progress.
        let mut behind: Option<Instant> = None;
        let mut ask = Instant::now();
        loop {
            let seen = *self.core.seen.borrow();
            let waiting = *wanted.borrow_and_update() > seen;
            if !waiting {
                behind = None;
            } else if behind.is_none() {
                behind = Some(Instant::now());
                ask = Instant::now() + ASK_AFTER;
            }
            tokio::select! {
                answer = answers.message() => match answer {
                    Ok(Some(answer)) => {
                        if let Err(ended) = self.take(answer) {
                            return ended;
                        }
                        if *self.core.seen.borrow() > seen {
                            behind = behind.map(|_| Instant::now());
                            self.silence = SILENCE.0;
                        }
                    }
                    Ok(None) => return Ended::Lost("the stream was closed".into()),
                    Err(status) => return Ended::Lost(status.message().to_owned()),
                },
                changed = wanted.changed(), if !waiting => {
                    if changed.is_err() {
                        return Ended::Lost("the store is gone".into());
                    }
                }
                () = sleep_until(ask), if waiting => {
                    if behind.is_some_and(|since| since.elapsed() > self.silence) {
                        let why = format!("nothing came for {:?}", self.silence);
                        self.silence = (self.silence * 2).min(SILENCE.1);
                        return Ended::Lost(why);
                    }
                    // A full queue already holds the question.
                    let _ = asks.try_send(WatchRequest { ask: Some(WatchAsk::Progress(WatchProgress {})) });
                    ask = Instant::now() + ASK_AGAIN;
                }
            }
        }
    }

    fn take(&mut self, answer: WatchResponse) -> Result<(), Ended> {
        if let Err(status) = self.core.client.same_cluster(answer.header.as_ref()) {
            return Err(Ended::Lost(status.message().to_owned()));
        }
        if answer.canceled {
            return Err(if answer.compact_revision > 0 {
                Ended::Compacted
            } else {
                Ended::Lost(format!("the watch was cancelled: {}", answer.cancel_reason))
            });
        }
        if answer.created {
            self.lost = None;
            if !self.stuck {
                self.core.cut_off(None);
            }
            return Ok(());
        }
        if answer.events.is_empty() {
            // Progress; it says nothing while a response is still coming in parts.
            if self.events.is_empty() {
                self.feed(Vec::new(), wire::revision(answer.header.as_ref()));
            }
            return Ok(());
        }
        self.events.extend(answer.events);
        if answer.fragment {
            return Ok(());
        }
        let mut changes = Vec::with_capacity(self.events.len());
        let mut revision = 0;
        for event in std::mem::take(&mut self.events) {
            let Some(kv) = event.kv else { continue };
            revision = kv.revision();
            let Some(key) = self.core.layout.item(&kv.key) else { continue };
            let entry = if event.kind == 0 {
                self.core.entry(&key, &kv).map_err(|error| Ended::Stuck(error.to_string()))?
            } else {
                None
            };
            let change = entry.map_or(Change::Delete, |Entry { value, attrs, .. }| Change::Put { value, attrs });
            changes.push(Fed { revision, key, change });
        }
        self.feed(changes, revision);
        if std::mem::take(&mut self.stuck) {
            self.core.cut_off(None);
        }
        Ok(())
    }

    fn feed(&self, changes: Vec<Fed>, revision: Revision) {
        self.core.tree.feed(changes, revision);
        self.core.seen.send_replace(self.core.tree.revision());
    }
}
