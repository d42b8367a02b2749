//! Keeps one cache up to date: reads everything in pages, watches, resumes, reads again when the history is gone.

use std::{collections::BTreeSet, io, pin::pin, sync::Weak, time::Duration};

use http::Request;
use kube::Client;
use runtime::{
    Key,
    lines::{Line, read_line},
};
use serde::Deserialize;
use serde_json::{Value, value::RawValue};
use tokio::time::{Instant, sleep, timeout};

use super::{Cache, Phase, Subject, store::compact};
use crate::{
    CallError,
    words::{readable, words},
};

pub(super) const PAGE: usize = 500;
/// The member ends a watch after this long,
const WATCH_FOR: Duration = Duration::from_secs(290);
/// and one on which nothing came for longer is dead.
const SILENCE: Duration = Duration::from_secs(305);
/// No object is larger; a line without end must not fill the memory.
const LONGEST_LINE: usize = 8 << 20;
/// Between tries, doubled up to the longest: a try at a member that is away costs nothing, its gate is shut.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

pub(super) struct Reader {
    client: Client,
    path: String,
    selector: Option<String>,
    /// Ends with the last one who holds it.
    cache: Weak<Cache>,
    /// Where to go on; `None` when everything must be read.
    version: Option<String>,
    member: String,
    /// Whether the objects are secret.
    secret: bool,
    /// Objects asked for at once; fewer when they are so large that an answer would be.
    page: usize,
}

pub(super) fn is_too_large(error: &kube::Error) -> bool {
    matches!(CallError::of(error), Some(CallError::TooLarge { .. }))
}

#[derive(Debug, thiserror::Error)]
enum Ended {
    #[error("{0}")]
    Api(#[from] kube::Error),
    #[error("the connection broke: {0}")]
    Io(#[from] io::Error),
    #[error("the member sent what is no JSON")]
    Garbled,
    #[error("the member ended the watch with {0}")]
    Failed(u64),
    #[error("nothing came for {SILENCE:?}")]
    Silent,
    #[error("the request cannot be made: {0}")]
    Request(#[from] http::Error),
    /// Nobody wants it any more, or it is too large to be kept.
    #[error("no longer followed")]
    Over,
}

impl Ended {
    fn words(&self) -> String {
        match self {
            Ended::Api(error) => words(error),
            other => readable(&other.to_string()),
        }
    }

    fn is_gone(&self) -> bool {
        match self {
            Ended::Api(kube::Error::Api(status)) => status.code == 410,
            Ended::Failed(code) => *code == 410,
            _ => false,
        }
    }
}

/// Items are read one by one: a tree of a whole page would be many times its text.
#[derive(Deserialize)]
pub(super) struct Page<'a> {
    pub metadata: PageMeta,
    #[serde(borrow, default)]
    pub items: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PageMeta {
    resource_version: Option<String>,
    pub r#continue: Option<String>,
}

#[derive(Deserialize)]
struct Event {
    r#type: String,
    object: Value,
}

impl Reader {
    pub(super) fn new(member: &str, client: Client, subject: &Subject, cache: Weak<Cache>) -> Self {
        let (path, selector) = (subject.path(), subject.selector.clone());
        let secret = subject.is_secret();
        Reader { client, path, selector, cache, version: None, member: member.to_owned(), secret, page: PAGE }
    }

    pub(super) async fn run(mut self) {
        let mut pause = FIRST_PAUSE;
        let mut said = false;
        loop {
            let start = Instant::now();
            let ended = self.round().await;
            if let Some(cache) = self.cache.upgrade() {
                cache.fresh(false);
            }
            if start.elapsed() > LONGEST_PAUSE {
                (pause, said) = (FIRST_PAUSE, false);
            }
            match ended {
                Ok(()) => {}
                Err(Ended::Over) => return,
                Err(ended) if ended.is_gone() => self.version = None,
                Err(Ended::Api(error)) if self.page > 1 && is_too_large(&error) => self.page = (self.page / 4).max(1),
                Err(ended) => {
                    if let Some(cache) = self.cache.upgrade() {
                        cache.troubled(Some(ended.words().into()));
                    }
                    // Said once per outage: an unreachable member is in the log already.
                    if !std::mem::replace(&mut said, true) {
                        tracing::debug!(member = self.member, path = self.path, %ended, "cannot follow these objects; trying again");
                    }
                }
            }
            sleep(pause.mul_f64(0.5 + 0.5 * fastrand::f64())).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn round(&mut self) -> Result<(), Ended> {
        if self.version.is_none() {
            self.version = Some(self.list().await?);
        }
        self.watch().await
    }

    async fn list(&mut self) -> Result<String, Ended> {
        let mut stale: Option<BTreeSet<Key>> = None;
        let mut next: Option<String> = None;
        loop {
            let request = self.request(|query| {
                query.append_pair("limit", &self.page.to_string());
                if let Some(next) = &next {
                    query.append_pair("continue", next);
                }
            })?;
            // Deadline and size are the gate's.
            let body = self.client.request_text(request).await?;
            let page: Page<'_> = serde_json::from_str(&body).map_err(|_| Ended::Garbled)?;
            let cache = self.cache.upgrade().ok_or(Ended::Over)?;
            let stale = stale.get_or_insert_with(|| cache.known());
            for object in page.items.unwrap_or_default() {
                let Ok(object) = serde_json::from_str::<Value>(object.get()) else { continue };
                let Some((key, _, bytes)) = compact(object, self.secret) else { continue };
                stale.remove(&key);
                if !cache.put(key, bytes) {
                    return Err(self.too_large());
                }
            }
            next = page.metadata.r#continue.filter(|next| !next.is_empty());
            if next.is_none() {
                stale.iter().for_each(|key| cache.remove(key));
                cache.phase.send_if_modified(|phase| {
                    let first = *phase == Phase::Reading;
                    *phase = if first { Phase::Here(None) } else { *phase };
                    first
                });
                return Ok(page.metadata.resource_version.unwrap_or_default());
            }
        }
    }

    async fn watch(&mut self) -> Result<(), Ended> {
        let request = self.request(|query| {
            query.append_pair("watch", "true");
            query.append_pair("allowWatchBookmarks", "true");
            query.append_pair("timeoutSeconds", &WATCH_FOR.as_secs().to_string());
            query.append_pair("resourceVersion", self.version.as_deref().unwrap_or_default());
        })?;
        let mut lines = pin!(self.client.request_stream(request).await?);
        let cache = self.cache.upgrade().ok_or(Ended::Over)?;
        cache.fresh(true);
        cache.troubled(None);
        drop(cache);
        let mut line = Vec::new();
        loop {
            line.clear();
            line.shrink_to(64 << 10);
            let read = timeout(SILENCE, read_line(&mut lines, &mut line, LONGEST_LINE)).await;
            match read.map_err(|_| Ended::Silent)?? {
                Line::Whole => {}
                Line::End => return Ok(()),
                Line::TooLong => return Err(Ended::Garbled),
            }
            let event: Event = serde_json::from_slice(&line).map_err(|_| Ended::Garbled)?;
            if event.r#type == "ERROR" {
                return Err(Ended::Failed(event.object["code"].as_u64().unwrap_or(500)));
            }
            let cache = self.cache.upgrade().ok_or(Ended::Over)?;
            if event.r#type == "BOOKMARK" {
                self.advance(event.object["metadata"]["resourceVersion"].as_str());
                continue;
            }
            let Some((key, version, bytes)) = compact(event.object, self.secret) else { continue };
            if event.r#type == "DELETED" {
                cache.remove(&key);
            } else if !cache.put(key, bytes) {
                return Err(self.too_large());
            }
            self.advance(Some(&version));
        }
    }

    fn advance(&mut self, version: Option<&str>) {
        if let Some(version) = version.filter(|version| !version.is_empty()) {
            self.version = Some(version.to_owned());
        }
    }

    fn too_large(&self) -> Ended {
        tracing::warn!(
            member = self.member,
            path = self.path,
            "there is more of it than this member may take of our memory; it is asked directly from now on"
        );
        Ended::Over
    }

    fn request(
        &self,
        add: impl FnOnce(&mut form_urlencoded::Serializer<'_, String>),
    ) -> Result<Request<Vec<u8>>, Ended> {
        let mut query = form_urlencoded::Serializer::for_suffix(format!("{}?", self.path), self.path.len() + 1);
        if let Some(selector) = &self.selector {
            query.append_pair("labelSelector", selector);
        }
        add(&mut query);
        Ok(Request::get(query.finish()).body(Vec::new())?)
    }
}
