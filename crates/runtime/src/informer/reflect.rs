//! Follows one kind on the server for as long as anybody wants it: reads everything, watches, resumes, reads again when it must.

use std::{collections::HashSet, io, pin::pin, sync::Weak, time::Duration};

use http::Request;
use kube::Client;
use prometheus_client::metrics::counter::Counter;
use tokio::time::{Instant, sleep, timeout};

use super::{
    Informer, Scope,
    wire::{self, Arrived, Event, Garbled, Version},
};
use crate::{
    Backoff, Metrics, Object,
    lines::{Line, read_line},
};

/// The server ends a watch after this long; we open the next one.
const WATCH_FOR: Duration = Duration::from_secs(290);
/// A connection on which nothing came for longer than the server keeps a watch is dead.
const SILENCE: Duration = Duration::from_secs(305);
/// A server that knows initial events sends the next one, or their end, within this; one that does not never sends their end.
const INITIAL_SILENCE: Duration = Duration::from_secs(20);
/// A list page or the head of an answer must come within this.
const PATIENCE: Duration = Duration::from_secs(60);
const PAGE: usize = 500;
/// Between tries; the first is short, because most outages are.
const RETRY: Backoff = Backoff { first: Duration::from_millis(50), longest: Duration::from_secs(5), jitter: 0.5 };
/// A watch that lived for less counts like a failure when it comes to how fast to try again.
const SHORT: Duration = Duration::from_secs(1);

pub(super) struct Reader<K: Object> {
    client: Client,
    scope: Scope,
    /// Ends with the last one who holds it.
    informer: Weak<Informer<K>>,
    kind: String,
    path: String,
    /// Initial events over the watch instead of a list; until the server says it does not know how.
    streaming: bool,
    /// Where to go on; `None` when everything must be read.
    version: Option<Version>,
    /// Since when the server does not let us follow, and whether it did not even answer the request.
    trouble: Option<(Instant, bool)>,
    unreadable: Counter,
    relists: Counter,
}

/// Why a round ended.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error("{0}")]
    Api(#[from] kube::Error),
    #[error("the connection broke: {0}")]
    Io(#[from] io::Error),
    #[error("{0}")]
    Garbled(#[from] Garbled),
    #[error("the server ended the watch with {code}: {message}")]
    Ended { code: u16, message: String },
    #[error("nothing came for {0:?}")]
    Silent(Duration),
    #[error("the request cannot be made: {0}")]
    Request(#[from] http::Error),
    #[error("a line of more than {} MiB", wire::LONGEST_LINE >> 20)]
    Endless,
}

impl Trouble {
    fn code(&self) -> Option<u16> {
        match self {
            Trouble::Api(kube::Error::Api(status)) => Some(status.code),
            Trouble::Ended { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// The history we want to go on from is no more.
    fn is_gone(&self) -> bool {
        self.code() == Some(410)
    }

    /// What a server answers that does not know initial events over a watch.
    fn is_refusal(&self) -> bool {
        matches!(self.code(), Some(400 | 403 | 405 | 422 | 501))
    }
}

/// Everybody who wanted this kind is gone.
struct Unwanted;

impl<K: Object> Reader<K> {
    pub(super) fn new(client: Client, scope: Scope, informer: Weak<Informer<K>>, metrics: &Metrics) -> Self {
        let kind = K::kind(&()).into_owned();
        Reader {
            client,
            path: K::url_path(&(), scope.namespace.as_deref()),
            scope,
            informer,
            streaming: true,
            version: None,
            trouble: None,
            unreadable: metrics.unreadable(&kind),
            relists: metrics.relists(&kind),
            kind,
        }
    }

    /// Runs until nobody wants the kind any more.
    pub(super) async fn run(mut self) {
        let mut failures = 0;
        while self.informer.strong_count() > 0 {
            let start = Instant::now();
            let ended = self.round().await;
            let lived = start.elapsed();
            match ended {
                Ok(Ok(())) if lived >= SHORT => failures = 0,
                Ok(Ok(())) => failures += 1,
                Ok(Err(Unwanted)) => return,
                Err(trouble) if trouble.is_gone() => {
                    self.version = None;
                    self.relists.inc();
                    tracing::info!(
                        kind = self.kind,
                        "the server no longer has the history we were at; reading everything again"
                    );
                    failures = if lived >= SHORT { 0 } else { failures + 1 };
                }
                Err(trouble) if self.streaming && self.version.is_none() && trouble.is_refusal() => {
                    tracing::debug!(kind = self.kind, %trouble, "no initial events over a watch; listing in pages");
                    self.streaming = false;
                    continue;
                }
                Err(trouble) => {
                    failures = if lived >= SHORT && self.trouble.is_none() { 1 } else { failures + 1 };
                    self.in_trouble(&trouble, failures);
                }
            }
            if failures > 0 {
                sleep(RETRY.pause(failures, fastrand::f64())).await;
            }
        }
    }

    /// Reads everything if it must, then watches until the watch ends.
    async fn round(&mut self) -> Result<Result<(), Unwanted>, Trouble> {
        if self.version.is_none() && !self.streaming {
            let Some(version) = self.list().await? else { return Ok(Err(Unwanted)) };
            self.version = Some(version);
        }
        self.watch().await
    }

    /// Reads everything, page by page. `None` when nobody wants it any more.
    async fn list(&mut self) -> Result<Option<Version>, Trouble> {
        let mut stale: Option<HashSet<_>> = None;
        let mut next: Option<String> = None;
        loop {
            let request = self.request(|query| {
                query.append_pair("limit", &PAGE.to_string());
                if let Some(next) = &next {
                    query.append_pair("continue", next);
                }
            })?;
            let body = timeout(PATIENCE, self.client.request_text(request)).await;
            let body = body.map_err(|_| Trouble::Silent(PATIENCE))??;
            let page = wire::page::<K>(body.as_bytes())?;
            let Some(informer) = self.informer.upgrade() else { return Ok(None) };
            let stale = stale.get_or_insert_with(|| informer.known().into_iter().collect());
            for arrived in page.objects {
                self.take_in(&informer, arrived, stale);
            }
            next = page.next;
            if next.is_none() {
                self.read_everything(&informer, stale);
                return Ok(Some(page.version));
            }
        }
    }

    /// One watch from its request to its end.
    async fn watch(&mut self) -> Result<Result<(), Unwanted>, Trouble> {
        let initial = self.version.is_none();
        let mut request = self.request(|query| {
            query.append_pair("watch", "true");
            query.append_pair("allowWatchBookmarks", "true");
            query.append_pair("timeoutSeconds", &WATCH_FOR.as_secs().to_string());
            match &self.version {
                Some(version) => query.append_pair("resourceVersion", version),
                None => {
                    query.append_pair("sendInitialEvents", "true").append_pair("resourceVersionMatch", "NotOlderThan")
                }
            };
        })?;
        // A compressed stream would have to be unpacked event by event, which not every client layer can.
        request.headers_mut().insert(http::header::ACCEPT_ENCODING, http::HeaderValue::from_static("identity"));
        let stream = timeout(PATIENCE, self.client.request_stream(request)).await;
        let stream = stream.map_err(|_| Trouble::Silent(PATIENCE))??;
        if !initial && self.trouble.is_some_and(|(_, unanswered)| unanswered) {
            self.out_of_trouble();
        }
        let mut lines = pin!(stream);
        let mut line = Vec::new();
        // What was known before the initial events and has not come again.
        let mut stale = initial.then(|| self.known());
        loop {
            line.clear();
            let patience = if stale.is_some() { INITIAL_SILENCE } else { SILENCE };
            let Ok(read) = timeout(patience, read_line(&mut lines, &mut line, wire::LONGEST_LINE)).await else {
                self.streaming &= stale.is_none();
                return Err(Trouble::Silent(patience));
            };
            match read? {
                Line::Whole => {}
                Line::End => return Ok(Ok(())),
                Line::TooLong => return Err(Trouble::Endless),
            }
            let event = wire::event::<K>(&line)?;
            // A single large object must not keep its room for ever.
            line.shrink_to(64 << 10);
            let Some(informer) = self.informer.upgrade() else { return Ok(Err(Unwanted)) };
            if stale.is_none() && !matches!(event, Event::Failed { .. }) {
                self.out_of_trouble();
            }
            match (event, &mut stale) {
                (Event::Here(arrived, _), Some(stale)) => self.take_in(&informer, arrived, stale),
                (Event::Here(arrived, version), None) => {
                    let unread = informer.put(arrived, false);
                    self.report(unread);
                    self.version = Some(version);
                }
                (Event::Gone(key, _), Some(stale)) => {
                    stale.remove(&key);
                    informer.remove(&key);
                }
                (Event::Gone(key, version), None) => {
                    informer.remove(&key);
                    self.version = Some(version);
                }
                (Event::Bookmark(version, true), seen @ Some(_)) => {
                    if let Some(stale) = seen.take() {
                        self.read_everything(&informer, &stale);
                    }
                    self.version = Some(version);
                }
                (Event::Bookmark(version, _), None) => self.version = Some(version),
                (Event::Bookmark(_, false), Some(_)) => {}
                (Event::Failed { code, message }, _) => return Err(Trouble::Ended { code, message }),
            }
        }
    }

    fn take_in(&self, informer: &Informer<K>, arrived: Arrived<K>, stale: &mut HashSet<crate::Key>) {
        let (Arrived::Object(key, ..) | Arrived::Unreadable(key, ..)) = &arrived;
        stale.remove(key);
        // What comes again after an outage and is not what we had, was changed meanwhile.
        let listed = !*informer.synced.borrow();
        let unread = informer.put(arrived, listed);
        self.report(unread);
    }

    /// The first or a further reading is complete: whatever did not come again is gone.
    fn read_everything(&mut self, informer: &Informer<K>, stale: &HashSet<crate::Key>) {
        for key in stale {
            informer.remove(key);
        }
        self.out_of_trouble();
        let first = !informer.synced.send_replace(true);
        tracing::debug!(kind = self.kind, objects = informer.read(|all| all.len()), first, "everything is read");
    }

    fn known(&self) -> HashSet<crate::Key> {
        self.informer.upgrade().map(|informer| informer.known().into_iter().collect()).unwrap_or_default()
    }

    fn request(
        &self,
        add: impl FnOnce(&mut form_urlencoded::Serializer<'_, String>),
    ) -> Result<Request<Vec<u8>>, Trouble> {
        let mut query = form_urlencoded::Serializer::new(format!("{}?", self.path));
        self.scope.query(&mut query);
        add(&mut query);
        Ok(Request::get(query.finish()).body(Vec::new())?)
    }

    /// Logged when it begins, not at every try.
    fn in_trouble(&mut self, trouble: &Trouble, failures: u32) {
        // A stream that broke is opened again; only if that fails, or it breaks again before everything is read, there is
        // something to say.
        let broke = matches!(trouble, Trouble::Io(_) | Trouble::Silent(_)) && (self.version.is_some() || failures < 3);
        if broke {
            tracing::debug!(kind = self.kind, %trouble, "the watch broke; opening it again");
        } else if self.trouble.is_none() {
            self.trouble = Some((Instant::now(), matches!(trouble, Trouble::Api(_))));
            let hint = match trouble.code() {
                Some(404) => "the server does not serve this kind; is its definition installed?",
                Some(401) => "the server does not know us; check the credentials",
                Some(403) => "the server forbids it; list and watch must be allowed",
                _ => "trying again until it works",
            };
            let (kind, namespace) = (&self.kind, self.scope.namespace.as_deref());
            tracing::warn!(kind, namespace, %trouble, hint, "cannot follow the objects of this kind");
        } else {
            tracing::debug!(kind = self.kind, %trouble, "still cannot follow the objects of this kind");
        }
    }

    fn out_of_trouble(&mut self) {
        if let Some((since, _)) = self.trouble.take() {
            let (kind, after) = (&self.kind, since.elapsed());
            tracing::info!(kind, ?after, "following the objects of this kind again");
        }
    }

    fn report(&self, unread: Option<super::Unread>) {
        if let Some(super::Unread { key, version, why }) = unread {
            self.unreadable.inc();
            tracing::warn!(kind = self.kind, %key, %version, %why, "this object is not what its kind says; left out until it changes");
        }
    }
}

impl<K: Object> Drop for Reader<K> {
    fn drop(&mut self) {
        tracing::debug!(kind = self.kind, "no longer followed");
    }
}
