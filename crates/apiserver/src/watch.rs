//! Watches: a cursor into the collection's history, written out as it moves.

use crate::body::Body;
use crate::negotiate::{Encoding, Form};
use crate::read::Filter;
use crate::render::{self, Renderer, write};
use crate::verbs::Call;
use bytes::Bytes;
use http::Response;
use meta::Status;
use meta::options::{ListOptions, Version};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use store::{Entry, Event, Range, Revision, Store, Watch};
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_util::sync::CancellationToken;

const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// The last bookmark comes this long before the watch ends, so that the next one starts close to where this one was.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);
/// Without a timeoutSeconds a watch ends after this long, so that clients spread over servers again.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30 * 60);
/// A watcher that lost its rights or its credentials gets nothing after this long.
const ASK_AGAIN_EVERY: Duration = Duration::from_secs(5);
/// And is ended after this long, though nothing happens. With the few seconds until a changed token file is read that is within half a minute.
const LOOK_EVERY: Duration = Duration::from_secs(20);
/// Events taken at once, and the size at which a chunk is sent.
const BATCH: usize = 512;
const CHUNK: usize = 64 * 1024;
/// A collection's watchers rest after each wake for about five times what waking one of them costs, times their number: waking takes a fifth of
/// a core at most, and what happens meanwhile travels together. The first event after a quiet moment goes at once.
const REST_PER_WATCHER: Duration = Duration::from_micros(100);
const LONGEST_REST: Duration = Duration::from_millis(50);

impl Call<'_> {
    pub async fn watch(&self) -> Result<Response<Body>, Status> {
        let mut options = ListOptions::parse(&self.query)?;
        options.watch = true;
        let filter = Filter::new(&self.kind, options)?.named(self.name);
        let renderer = self.renderer()?;
        let start = self.start(&filter).await?;
        let options = &filter.options;
        let timeout = options.timeout.filter(|s| *s > 0).map_or(DEFAULT_TIMEOUT, Duration::from_secs);
        let credential = self.api.options.authenticator.credential(self.peer, self.headers);
        let deadline = Instant::now() + credential.ends().map_or(timeout, |end| timeout.min(until(end)));
        let bookmark_at = if options.bookmarks { next_bookmark(deadline) } else { None };
        // What this process asks itself is nobody's to take away.
        let look_at = credential.can_end().then(|| Instant::now() + LOOK_EVERY);
        let stream = Stream {
            timer: Box::pin(sleep_until(earliest(bookmark_at, look_at, deadline))),
            bookmark_at,
            look_at,
            mark_initial_end: options.initial_events == Some(true) && options.bookmarks,
            deadline,
            stop: self.kind.lifetime(&self.api.stop),
            credential,
            right: self.api.options.authorizer.right(&self.proof),
            asked: Instant::now(),
            store: self.api.store.clone(),
            renderer,
            filter,
            source: start,
            pending: Vec::new(),
            rest: None,
            columns: true,
        };
        let body = futures_util::stream::unfold(stream, |mut stream| async move {
            let chunk = stream.next_chunk().await?;
            Some((chunk, stream))
        });
        let content_type = match self.answer.encoding {
            Encoding::Json => "application/json",
            Encoding::Yaml => return Err(Status::not_acceptable("application/json;stream=watch")),
        };
        Ok(render::build(200, content_type, Body::stream(body)))
    }

    /// Where the watch begins: with the present objects, or after a version.
    async fn start(&self, filter: &Filter) -> Result<Source, Status> {
        let options = &filter.options;
        let prefix = self.kind.prefix(self.namespace);
        let snapshot = match (options.version, options.initial_events) {
            (_, Some(true)) => true,
            (Version::At(_), _) | (_, Some(false)) => false,
            (Version::MostRecent | Version::Any, None) => true,
        };
        self.fresh(options.version).await.or_else(|s| match options.version {
            // A version from the future is waited for, not refused, when no state was asked for.
            Version::At(_) if !snapshot => Ok(()),
            _ => Err(s),
        })?;
        if snapshot {
            let range = Range { collection: &self.kind.collection, prefix: &prefix, after: None, limit: 0, at: None };
            let page = self
                .api
                .store
                .range(&range, |item, entry| filter.matches(item, entry))
                .map_err(crate::objects::storage)?;
            let items = page.items.into_iter();
            return Ok(Source::Initial {
                items,
                then: page.revision,
                collection: self.kind.collection.clone(),
                prefix,
            });
        }
        let after = match options.version {
            Version::At(n) => n,
            Version::MostRecent | Version::Any => self.api.store.revision(),
        };
        Ok(match self.api.store.watch(&self.kind.collection, &prefix, after) {
            Ok(watch) => Source::Live(watch),
            Err(e) => Source::Failed(Some(gone(&e, after))),
        })
    }
}

enum Source {
    /// The objects present at the start, as ADDED events.
    Initial {
        items: std::vec::IntoIter<(Arc<str>, Entry)>,
        then: Revision,
        collection: store::Collection,
        prefix: String,
    },
    Live(Watch),
    /// One ERROR event, then the end.
    Failed(Option<Status>),
}

struct Stream {
    source: Source,
    store: Store,
    filter: Filter,
    renderer: Renderer,
    /// Goes off at the next bookmark, the next look or the deadline, whichever is first; one timer for the life of the watch.
    timer: Pin<Box<Sleep>>,
    bookmark_at: Option<Instant>,
    /// When credential and right are asked for though nothing happened.
    look_at: Option<Instant>,
    mark_initial_end: bool,
    deadline: Instant,
    stop: CancellationToken,
    credential: auth::Credential,
    right: auth::Right,
    /// When credential and right were last known to hold.
    asked: Instant,
    pending: Vec<Arc<Event>>,
    /// Nothing is sent before this.
    rest: Option<Instant>,
    /// The next table must carry its column definitions.
    columns: bool,
}

/// Events of one collection, rendered: two watchers that took as many between the same two took the same.
struct Burst {
    first: Arc<Event>,
    last: Arc<Event>,
    count: usize,
    bytes: Bytes,
}

thread_local! {
    /// The burst rendered last on this thread: its watchers are woken one after the other and mostly take the same.
    static LAST_BURST: RefCell<Option<Burst>> = const { RefCell::new(None) };
}

impl Stream {
    async fn next_chunk(&mut self) -> Option<Bytes> {
        let mut out = Vec::new();
        match &mut self.source {
            Source::Failed(status) => {
                error_event(&status.take()?, &mut out);
            }
            Source::Initial { items, then, collection, prefix } => {
                out.reserve(CHUNK.min(items.as_slice().iter().map(|(_, e)| e.value.len() + 128).sum()));
                for (_, entry) in items.by_ref() {
                    let columns = std::mem::take(&mut self.columns);
                    frame(&self.renderer, "ADDED", &entry.value, entry.revision, columns, &mut out);
                    if out.len() >= CHUNK {
                        return Some(out.into());
                    }
                }
                let after = *then;
                if self.mark_initial_end {
                    bookmark(&self.renderer, after, true, &mut out);
                }
                self.source = match self.store.watch(collection, prefix, after) {
                    Ok(watch) => Source::Live(watch),
                    Err(e) => Source::Failed(Some(gone(&e, after))),
                };
                if out.is_empty() {
                    return self.live_chunk().await;
                }
            }
            Source::Live(_) => return self.live_chunk().await,
        }
        Some(out.into())
    }

    /// Events that every plain watcher sees alike: rendered once, the same buffer goes to all of them.
    fn shared_frame(&self) -> Option<Bytes> {
        let plain = self.renderer.answer.form == Form::Whole && self.filter.is_everything();
        if !plain || !self.pending.iter().all(|event| self.renderer.kind.shares_event(written(event))) {
            return None;
        }
        let render = |events: &[Arc<Event>]| {
            let mut out = Vec::with_capacity(
                events.iter().map(|event| event.entry.as_ref().map_or(0, |e| e.value.len()) + 128).sum(),
            );
            for event in events {
                write_event(&self.filter, &self.renderer, event, &mut false, &mut out);
            }
            Bytes::from(out)
        };
        match self.pending.as_slice() {
            [] => None,
            [event] => Some(event.rendered(|_| render(&self.pending))),
            [first, .., last] => LAST_BURST.with_borrow_mut(|slot| {
                let count = self.pending.len();
                let same = |b: &Burst| b.count == count && Arc::ptr_eq(&b.first, first) && Arc::ptr_eq(&b.last, last);
                if let Some(burst) = slot.as_ref().filter(|b| same(b)) {
                    return Some(burst.bytes.clone());
                }
                let bytes = render(&self.pending);
                *slot = Some(Burst { first: first.clone(), last: last.clone(), count, bytes: bytes.clone() });
                Some(bytes)
            }),
        }
    }

    /// Waits for something to tell: events, a bookmark, or the end.
    async fn live_chunk(&mut self) -> Option<Bytes> {
        let mut out = Vec::new();
        loop {
            let Source::Live(watch) = &mut self.source else {
                error_event(&Status::internal("the watch has no source"), &mut out);
                return Some(out.into());
            };
            if let Some(end) = self.rest.take() {
                sleep_until(end).await;
            }
            self.pending.clear();
            // Checked here, so that a busy watch, whose events are always ready, ends too.
            if self.stop.is_cancelled() || Instant::now() >= self.deadline {
                return None;
            }
            tokio::select! {
                biased;
                moved = watch.next(BATCH, &mut self.pending) => match moved {
                    Ok(()) => {
                        if !still_allowed(&self.credential, &self.right, &mut self.asked) {
                            return None;
                        }
                        self.rest = rest(watch.watchers());
                        if let Some(frame) = self.shared_frame() {
                            return Some(frame);
                        }
                        for event in &self.pending {
                            write_event(&self.filter, &self.renderer, event, &mut self.columns, &mut out);
                        }
                        if !out.is_empty() {
                            return Some(out.into());
                        }
                    }
                    Err(e) => {
                        let status = gone(&e, watch.revision());
                        error_event(&status, &mut out);
                        self.source = Source::Failed(None);
                        return Some(out.into());
                    }
                },
                () = self.stop.cancelled() => return None,
                () = self.timer.as_mut() => {
                    let now = Instant::now();
                    if now >= self.deadline || !still_allowed(&self.credential, &self.right, &mut self.asked) {
                        return None;
                    }
                    self.look_at = self.look_at.map(|_| now + LOOK_EVERY);
                    let due = self.bookmark_at.is_some_and(|at| now >= at);
                    if due {
                        self.bookmark_at = next_bookmark(self.deadline);
                        bookmark(&self.renderer, watch.revision(), false, &mut out);
                    }
                    self.timer.as_mut().reset(earliest(self.bookmark_at, self.look_at, self.deadline));
                    if due {
                        return Some(out.into());
                    }
                }
            }
        }
    }
}

/// When the timer is to go off next.
fn earliest(bookmark_at: Option<Instant>, look_at: Option<Instant>, deadline: Instant) -> Instant {
    [bookmark_at, look_at].into_iter().flatten().fold(deadline, Instant::min)
}

/// How long it is until then.
fn until(end: SystemTime) -> Duration {
    end.duration_since(SystemTime::now()).unwrap_or_default()
}

/// Asked when there is something to tell, and now and then when there is not.
fn still_allowed(credential: &auth::Credential, right: &auth::Right, asked: &mut Instant) -> bool {
    if asked.elapsed() >= ASK_AGAIN_EVERY {
        *asked = Instant::now();
        return credential.holds() && right.holds();
    }
    true
}

/// When the object an event shows was written: a deletion shows an older one.
fn written(event: &Event) -> Revision {
    event.entry.as_ref().or(event.prev.as_ref()).map_or(0, |entry| entry.revision)
}

/// How long a watch rests after it has sent something; timers are no finer than a millisecond.
fn rest(watchers: usize) -> Option<Instant> {
    let rest = (REST_PER_WATCHER * u32::try_from(watchers).unwrap_or(u32::MAX)).min(LONGEST_REST);
    (rest >= Duration::from_millis(1)).then(|| Instant::now() + rest)
}

fn next_bookmark(deadline: Instant) -> Option<Instant> {
    let now = Instant::now();
    let last = deadline.checked_sub(BOOKMARK_BEFORE_END).filter(|at| *at > now)?;
    Some(last.min(now + BOOKMARK_EVERY))
}

/// An event as this watcher sees it: objects that come into or leave its selection are added or deleted for it.
fn write_event(filter: &Filter, renderer: &Renderer, event: &Event, columns: &mut bool, out: &mut Vec<u8>) {
    let item = &event.key.item;
    let before = event.prev.as_ref().filter(|e| filter.matches(item, e));
    let after = event.entry.as_ref().filter(|e| filter.matches(item, e));
    let (kind, entry) = match (before, after) {
        (None, None) => return,
        (None, Some(now)) => ("ADDED", now),
        (Some(_), Some(now)) => ("MODIFIED", now),
        // Deleted, or out of the selection: the last state the watcher knew, at the revision of the change.
        (Some(last), None) => ("DELETED", last),
    };
    frame(renderer, kind, &renderer.in_shape(entry), event.revision, std::mem::take(columns), out);
}

fn frame(renderer: &Renderer, kind: &str, value: &[u8], revision: Revision, columns: bool, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"type\":\"");
    out.extend_from_slice(kind.as_bytes());
    out.extend_from_slice(b"\",\"object\":");
    renderer.alone(value, revision, columns, out);
    out.extend_from_slice(b"}\n");
}

/// Tells the watcher how far it has seen everything.
fn bookmark(renderer: &Renderer, revision: Revision, initial_end: bool, out: &mut Vec<u8>) {
    let mut metadata = json!({"resourceVersion": revision.to_string()});
    if initial_end {
        metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
    }
    let object = match renderer.answer.form {
        Form::Whole => {
            if renderer.kind.stored_as.is_none() && renderer.kind.custom.is_none() {
                metadata["creationTimestamp"] = Value::Null;
            }
            json!({"kind": renderer.kind.kind, "apiVersion": renderer.kind.api_version(), "metadata": metadata})
        }
        Form::Partial | Form::PartialList => {
            json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata})
        }
        Form::Table => json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata,
            "columnDefinitions": [], "rows": []}),
    };
    write(out, &json!({"type": "BOOKMARK", "object": object}));
    out.push(b'\n');
}

fn error_event(status: &Status, out: &mut Vec<u8>) {
    write(out, &json!({"type": "ERROR", "object": status.to_value()}));
    out.push(b'\n');
}

fn gone(e: &store::Error, after: Revision) -> Status {
    match e {
        store::Error::Compacted { oldest } => Status::expired(format!("too old resource version: {after} ({oldest})")),
        store::Error::Future { current } => Status::revision_too_large(after, *current),
        other => Status::unavailable(other.to_string()),
    }
}
