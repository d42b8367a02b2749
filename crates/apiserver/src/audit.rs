//! The audit log: who did what, when, with what outcome; one JSON line each.
//!
//! An [`Entry`] has no field that could hold a body, a header, a query or a token, so none can be logged. Requests never wait for
//! the log: they append to a bounded buffer, one thread of its own writes it out. What does not fit (a full buffer, a full disk) is
//! dropped, counted, and said so once in the server's own log. After a power cut the last few milliseconds may be missing.

mod file;

#[cfg(test)]
mod tests;

use std::{
    io,
    net::SocketAddr,
    path::PathBuf,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use auth::User;
use serde::Serialize;

use file::Sink;

/// Longest texts taken from a request.
const MAX_USER_AGENT: usize = 256;
const MAX_TEXT: usize = 1024;
/// Lines are gathered for a moment, so that a busy server writes a few large pieces and not thousands of small ones.
const GATHER: Duration = Duration::from_millis(10);

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Destination {
    Off,
    Stdout,
    File(PathBuf),
}

impl Destination {
    /// As `--audit-log-path` says it: `""` is off, `-` is standard output, else a file.
    pub fn parse(path: &str) -> Destination {
        match path {
            "" => Destination::Off,
            "-" => Destination::Stdout,
            path => Destination::File(path.into()),
        }
    }
}

#[derive(Debug, Clone)]
pub struct Options {
    pub destination: Destination,
    /// The file is rotated before it grows beyond this.
    pub max_bytes: u64,
    /// Rotated files kept: `audit.log.1` is the newest.
    pub backups: u32,
    /// Also log reads that were allowed.
    pub reads: bool,
    /// Bytes of lines that may wait for the disk.
    pub buffer: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options { destination: Destination::Off, max_bytes: 100 << 20, backups: 5, reads: false, buffer: 4 << 20 }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    #[error(
        "cannot write the audit log {path}: {source}; choose another place with --audit-log-path, or \"\" for none"
    )]
    Open { path: PathBuf, source: io::Error },
    #[error("cannot start the audit log's thread: {0}")]
    Thread(io::Error),
}

/// Stands in the extensions of a request by which a part of this process asks, in somebody's name, whether they may do something. No
/// request from outside can carry it.
///
/// Such a question is a read, although the API spells it `create`: what is then done is logged where it is done, and who looks at lists
/// in a browser would otherwise fill the log.
#[derive(Debug, Clone, Copy)]
pub struct OwnQuestion;

/// One request and its outcome. Absent parts are empty.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'a> {
    pub request_id: &'a str,
    pub user: &'a User,
    /// Whom the user acted as.
    pub acting_as: Option<&'a User>,
    /// Which binding allowed it, or what was wrong with those that might have.
    pub reason: &'a str,
    pub source: Option<SocketAddr>,
    pub verb: &'a str,
    pub group: &'a str,
    pub resource: &'a str,
    pub subresource: &'a str,
    pub namespace: &'a str,
    pub name: &'a str,
    /// Cut at the first `?`: the values of a query may be secrets.
    pub path: &'a str,
    pub user_agent: &'a str,
    pub code: u16,
    pub latency: Duration,
}

/// The handle requests log through. Clones share one log; the thread ends, with everything written, in [`AuditLog`]'s drop.
#[derive(Clone)]
pub struct Audit(Option<Arc<Shared>>);

struct Shared {
    lines: Mutex<Lines>,
    wake: Condvar,
    reads: bool,
    capacity: usize,
    written: AtomicU64,
    dropped: AtomicU64,
}

#[derive(Default)]
struct Lines {
    bytes: Vec<u8>,
    count: u64,
    closed: bool,
}

impl Audit {
    /// No log: every call does nothing.
    pub fn off() -> Audit {
        Audit(None)
    }

    /// Whether this outcome is logged: writes, whatever is denied, and reads when asked for. Cheap; ask before making an entry.
    pub fn wants(&self, verb: &str, code: u16) -> bool {
        self.0.as_ref().is_some_and(|log| log.reads || matches!(code, 401 | 403) || !is_read(verb))
    }

    pub fn record(&self, entry: &Entry<'_>) {
        let Some(log) = &self.0 else { return };
        if !self.wants(entry.verb, entry.code) {
            return;
        }
        let mut line = Vec::with_capacity(512);
        // Writing JSON of plain strings and numbers into memory cannot fail.
        if serde_json::to_writer(&mut line, &Line::of(entry)).is_err() {
            return;
        }
        line.push(b'\n');
        log.append(&line);
    }

    /// A line of another part of this process, made by it. Like an [`Entry`], it must have no field that could hold a secret.
    pub fn note<T: Serialize>(&self, line: &T) {
        let Some(log) = &self.0 else { return };
        let mut bytes = Vec::with_capacity(512);
        if serde_json::to_writer(&mut bytes, line).is_err() {
            return;
        }
        bytes.push(b'\n');
        log.append(&bytes);
    }

    /// Lines written since the start.
    pub fn written(&self) -> u64 {
        self.0.as_ref().map_or(0, |log| log.written.load(Relaxed))
    }

    /// Lines lost to a full buffer or a failing disk since the start.
    pub fn dropped(&self) -> u64 {
        self.0.as_ref().map_or(0, |log| log.dropped.load(Relaxed))
    }
}

impl Shared {
    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn append(&self, line: &[u8]) {
        let mut lines = self.lines();
        if lines.closed || lines.bytes.len() + line.len() > self.capacity {
            drop(lines);
            self.lost(1);
            return;
        }
        let was_empty = lines.bytes.is_empty();
        lines.bytes.extend_from_slice(line);
        lines.count += 1;
        drop(lines);
        if was_empty {
            self.wake.notify_one();
        }
    }

    fn lost(&self, count: u64) {
        if self.dropped.fetch_add(count, Relaxed) == 0 {
            tracing::error!("the audit log cannot keep up or cannot be written; lines are being dropped");
        }
    }

    /// The thread's life: take all lines at once, write them, until closed and empty.
    fn write_out(&self, mut sink: Sink) {
        let mut taken = Lines::default();
        loop {
            let mut lines = self.lines();
            while lines.bytes.is_empty() {
                if lines.closed {
                    return;
                }
                lines = self.wake.wait(lines).unwrap_or_else(PoisonError::into_inner);
            }
            if !lines.closed {
                drop(lines);
                thread::sleep(GATHER);
                lines = self.lines();
            }
            std::mem::swap(&mut lines.bytes, &mut taken.bytes);
            taken.count = std::mem::take(&mut lines.count);
            drop(lines);
            match sink.write(&taken.bytes) {
                Ok(()) => {
                    self.written.fetch_add(taken.count, Relaxed);
                }
                Err(error) => {
                    tracing::debug!(%error, lines = taken.count, "audit lines dropped");
                    self.lost(taken.count);
                }
            }
            taken.bytes.clear();
        }
    }
}

/// Owns the writing thread. Dropping it writes out what is waiting and ends the thread.
pub struct AuditLog {
    audit: Audit,
    thread: Option<JoinHandle<()>>,
}

impl AuditLog {
    pub fn open(options: &Options) -> Result<AuditLog, AuditError> {
        let sink = match &options.destination {
            Destination::Off => return Ok(AuditLog { audit: Audit::off(), thread: None }),
            Destination::Stdout => Sink::Stdout,
            Destination::File(path) => Sink::open(path, options.max_bytes, options.backups)
                .map_err(|source| AuditError::Open { path: path.clone(), source })?,
        };
        AuditLog::start(options, sink)
    }

    fn start(options: &Options, sink: Sink) -> Result<AuditLog, AuditError> {
        let shared = Arc::new(Shared {
            lines: Mutex::default(),
            wake: Condvar::new(),
            reads: options.reads,
            capacity: options.buffer,
            written: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
        });
        let writer = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("audit".to_owned())
            .spawn(move || writer.write_out(sink))
            .map_err(AuditError::Thread)?;
        Ok(AuditLog { audit: Audit(Some(shared)), thread: Some(thread) })
    }

    pub fn audit(&self) -> Audit {
        self.audit.clone()
    }
}

impl Drop for AuditLog {
    fn drop(&mut self) {
        if let Some(log) = &self.audit.0 {
            log.lines().closed = true;
            log.wake.notify_one();
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn is_read(verb: &str) -> bool {
    matches!(verb, "get" | "list" | "watch" | "head" | "options")
}

/// An entry as it is written.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    time: Time,
    request_id: &'a str,
    user: &'a str,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    groups: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    impersonated_user: Option<&'a str>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    impersonated_groups: &'a [String],
    #[serde(rename = "authorization.k8s.io/reason", skip_serializing_if = "str::is_empty")]
    reason: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<SocketAddr>,
    verb: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    group: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    resource: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    subresource: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    namespace: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'a str,
    path: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    user_agent: &'a str,
    code: u16,
    latency_micros: u64,
}

impl<'a> Line<'a> {
    fn of(entry: &Entry<'a>) -> Line<'a> {
        Line {
            time: Time(jiff::Timestamp::now()),
            request_id: shortened(entry.request_id, MAX_TEXT),
            user: shortened(&entry.user.name, MAX_TEXT),
            groups: some_groups(entry.user),
            impersonated_user: entry.acting_as.map(|user| shortened(&user.name, MAX_TEXT)),
            impersonated_groups: entry.acting_as.map(some_groups).unwrap_or_default(),
            reason: shortened(entry.reason, MAX_TEXT),
            source: entry.source,
            verb: shortened(entry.verb, MAX_TEXT),
            group: shortened(entry.group, MAX_TEXT),
            resource: shortened(entry.resource, MAX_TEXT),
            subresource: shortened(entry.subresource, MAX_TEXT),
            namespace: shortened(entry.namespace, MAX_TEXT),
            name: shortened(entry.name, MAX_TEXT),
            path: shortened(entry.path.split_once('?').map_or(entry.path, |(path, _)| path), MAX_TEXT),
            user_agent: shortened(entry.user_agent, MAX_USER_AGENT),
            code: entry.code,
            latency_micros: u64::try_from(entry.latency.as_micros()).unwrap_or(u64::MAX),
        }
    }
}

fn some_groups(user: &User) -> &[String] {
    &user.groups[..user.groups.len().min(32)]
}

struct Time(jiff::Timestamp);

impl Serialize for Time {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:.6}", self.0))
    }
}

fn shortened(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
}
