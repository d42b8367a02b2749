//! `pods/log`: which lines of a log are asked for, and following it.

use std::sync::Arc;
use std::time::Duration;

use apiserver::Body;
use bytes::Bytes;
use futures_util::stream;
use http::{HeaderValue, Response, header};
use jiff::{SignedDuration, Timestamp};
use meta::options::Query;
use meta::{Object, Status};

use crate::log::{Log, NoLog};
use crate::member::Inner;

/// Lines made at once.
const CHUNK: u64 = 256;
/// How often a followed log is looked at at least, to see that its container has ended.
const LOOK: Duration = Duration::from_secs(2);

/// What of a log is wanted.
struct Wanted {
    follow: bool,
    timestamps: bool,
    tail: Option<u64>,
    since: Option<Timestamp>,
    limit: Option<usize>,
}

impl Wanted {
    fn parse(query: &Query<'_>, now: Timestamp) -> Result<Self, Status> {
        let number = |key: &str| match query.get(key).filter(|text| !text.is_empty()) {
            None => Ok(None),
            Some(text) => text.parse::<u64>().map(Some).map_err(|_| {
                Status::bad_request(format!("{key}: Invalid value: {text:?}: must be a whole number and not negative"))
            }),
        };
        let seconds = number("sinceSeconds")?.map(|n| SignedDuration::from_secs(i64::try_from(n).unwrap_or(i64::MAX)));
        let since = match query.get("sinceTime").filter(|text| !text.is_empty()) {
            Some(text) => {
                let wrong = || {
                    Status::bad_request(format!("sinceTime: Invalid value: {text:?}: must be a time as of RFC 3339"))
                };
                Some(meta::time::parse(text).ok_or_else(wrong)?)
            }
            None => seconds.map(|ago| now.checked_sub(ago).unwrap_or(Timestamp::MIN)),
        };
        Ok(Self {
            follow: query.flag("follow").unwrap_or_default(),
            timestamps: query.flag("timestamps").unwrap_or_default(),
            tail: number("tailLines")?,
            since,
            limit: number("limitBytes")?.map(|n| usize::try_from(n).unwrap_or(usize::MAX)),
        })
    }

    fn write(&self, log: &Log, lines: std::ops::Range<u64>, left: &mut Option<usize>) -> Bytes {
        let mut out = String::new();
        for line in lines {
            if self.timestamps {
                out.push_str(&log.time(line).strftime("%Y-%m-%dT%H:%M:%S.%9fZ ").to_string());
            }
            out.push_str(&log.line(line));
            out.push('\n');
        }
        let mut bytes = Bytes::from(out);
        if let Some(left) = left {
            bytes.truncate(*left);
            *left -= bytes.len();
        }
        bytes
    }
}

/// The container a request means: the one it names, else the pod's default, else its first.
pub(crate) fn container<'a>(pod: &'a Object, query: &'a Query<'_>) -> &'a str {
    let usual = crate::look::annotation(pod, "kubectl.kubernetes.io/default-container");
    let named = query.get("container").filter(|name| !name.is_empty()).or(usual);
    named.or_else(|| crate::pod::containers(pod).next()).unwrap_or_default()
}

/// Answers a request for a log that the API server has let through.
pub(crate) fn answer(inner: &Arc<Inner>, pod: &Object, query: &Query<'_>) -> Result<Response<Body>, Status> {
    let now = inner.settings.clock.now();
    let wanted = Wanted::parse(query, now)?;
    let container = container(pod, query).to_owned();
    let log = Log::of(pod, &container, query.flag("previous").unwrap_or_default()).map_err(|why| {
        Status::bad_request(match why {
            NoLog::Waiting(reason) => {
                format!("container {container:?} in pod {:?} is waiting to start: {reason}", pod.name())
            }
            NoLog::NoPrevious => {
                format!("previous terminated container {container:?} in pod {:?} not found", pod.name())
            }
            NoLog::NoContainer => format!("container {container:?} in pod {:?} is not available", pod.name()),
        })
    })?;
    let end = log.count(now);
    let mut first = log.first(now).max(wanted.since.map(|since| log.since(since)).unwrap_or_default());
    if let Some(tail) = wanted.tail {
        first = first.max(end.saturating_sub(tail));
    }
    let reader = Reader {
        left: wanted.limit,
        next: first.min(end),
        wanted,
        log,
        inner: Arc::clone(inner),
        pod: (pod.namespace().to_owned(), pod.name().to_owned(), pod.uid().to_owned()),
        container,
    };
    let mut response = Response::new(Body::stream(stream::unfold(reader, Reader::read)));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    Ok(response)
}

/// Somebody who reads a log.
struct Reader {
    wanted: Wanted,
    log: Log,
    next: u64,
    left: Option<usize>,
    inner: Arc<Inner>,
    /// Namespace, name and uid.
    pod: (String, String, String),
    container: String,
}

impl Reader {
    async fn read(mut self) -> Option<(Bytes, Self)> {
        loop {
            let now = self.inner.settings.clock.now();
            let end = self.log.count(now);
            if self.left == Some(0) || self.inner.stop.is_cancelled() {
                return None;
            }
            if self.next < end {
                let until = end.min(self.next + CHUNK);
                let bytes = self.wanted.write(&self.log, self.next..until, &mut self.left);
                self.next = until;
                return Some((bytes, self));
            }
            if !self.wanted.follow || self.log.is_ended() {
                return None;
            }
            let wait = Duration::try_from(self.log.time(self.next).duration_since(now)).unwrap_or_default();
            let wait = wait.clamp(Duration::from_millis(1), LOOK);
            self.inner.stop.run_until_cancelled(tokio::time::sleep(wait)).await?;
            self.look()?;
        }
    }

    /// Looks at the pod again; none when it is gone.
    fn look(&mut self) -> Option<()> {
        let (namespace, name, uid) = &self.pod;
        let pod = self.inner.cluster.kinds.pods.get(namespace, name).filter(|pod| pod.uid() == uid)?;
        // A container that was started again writes a new log: the old one ends.
        match Log::of(&pod, &self.container, false) {
            Ok(log) if log.is_same_run(&self.log) => self.log = log,
            _ => return None,
        }
        Some(())
    }
}
