//! Requests in figures, under the names operators know from kube-apiserver. Counting takes no lock and allocates nothing: each kind
//! knows its row, a row its cells, and a cell is made once, when something is counted in it for the first time.

mod expose;

use crate::kinds::{Kind, Registry};
use crate::path::{Resource, Verb};
use http::Method;
use http::request::Parts;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// Kinds that are counted by name besides the built-in ones; those that come later are counted together.
const MOST_CUSTOM: usize = 200;
const OTHER: &str = "other";

const VERBS: [&str; 11] =
    ["GET", "LIST", "WATCH", "POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION", "CONNECT", OTHER];
const WATCH: usize = 2;
const CONNECT: usize = 9;
const UNKNOWN_VERB: usize = 10;

/// What a request is about: one object, a namespace, or all of the cluster.
const SCOPES: [&str; 3] = ["resource", "namespace", "cluster"];

/// Codes that are counted apart; the last stands for all others.
const CODES: [u16; 22] =
    [200, 201, 202, 204, 400, 401, 403, 404, 405, 406, 409, 410, 413, 415, 422, 428, 429, 500, 503, 504, 507, 0];

/// Upper ends of the buckets.
const SECONDS: [f64; 16] = [0.001, 0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.5, 2.0, 5.0, 10.0, 30.0, 60.0];
const NANOS: [u64; 16] = {
    let mut nanos = [0; 16];
    let mut i = 0;
    while i < 16 {
        nanos[i] = (SECONDS[i] * 1e9) as u64;
        i += 1;
    }
    nanos
};

/// Paths that are no resources, by their first part; the last stands for all others.
const PATHS: [&str; 14] = [
    "/",
    "/api",
    "/apis",
    "/openapi",
    "/openid",
    "/.well-known",
    "/healthz",
    "/livez",
    "/readyz",
    "/version",
    "/metrics",
    "/debug",
    "/muster.dev",
    OTHER,
];

pub(crate) struct Figures {
    builtin: Vec<Arc<Row>>,
    custom: Mutex<Vec<Arc<Row>>>,
    /// Resources that nobody serves, and custom kinds beyond the ones counted by name.
    other: Arc<Row>,
    paths: Row,
    /// Requests whose answer has not begun: those that read, and those that write.
    under_way: [AtomicUsize; 2],
}

/// The figures of one resource.
pub(crate) struct Row {
    group: Box<str>,
    version: Box<str>,
    resource: Box<str>,
    /// "" first, what is not known last.
    subresources: Vec<Box<str>>,
    /// By subresource, verb and scope.
    cells: Box<[OnceLock<Box<Cell>>]>,
    watches: AtomicUsize,
}

#[derive(Default)]
struct Cell {
    codes: [AtomicU64; CODES.len()],
    buckets: [AtomicU64; SECONDS.len() + 1],
    nanos: AtomicU64,
}

impl Figures {
    pub fn new(registry: &Registry) -> Self {
        let row = |kind: &Arc<Kind>| Arc::new(Row::of(kind));
        Self {
            builtin: registry.builtins().iter().map(row).collect(),
            custom: Mutex::default(),
            other: Arc::new(Row::new(OTHER, OTHER, OTHER, Vec::new())),
            paths: Row::new("", "", "", PATHS[..PATHS.len() - 1].iter().map(|path| (*path).into()).collect()),
            under_way: Default::default(),
        }
    }

    /// A request that is under way until this is dropped.
    pub fn begin(&self, method: &Method) -> UnderWay<'_> {
        let writes = !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
        let counter = &self.under_way[usize::from(writes)];
        counter.fetch_add(1, Relaxed);
        UnderWay(counter)
    }

    /// The row of a resource as it is served now; nothing is served by that name without a kind.
    pub fn row<'a>(&'a self, kind: Option<&'a Kind>) -> &'a Arc<Row> {
        let Some(kind) = kind else { return &self.other };
        match &kind.custom {
            Some(custom) => custom.row.get_or_init(|| self.row_of_custom(kind)),
            None => self.builtin.get(kind.ordinal).unwrap_or(&self.other),
        }
    }

    /// A kind that is defined anew goes on where it was.
    fn row_of_custom(&self, kind: &Kind) -> Arc<Row> {
        let mut custom = self.custom.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = custom.iter().find(|row| row.is_of(kind)) {
            return known.clone();
        }
        if custom.len() >= MOST_CUSTOM {
            return self.other.clone();
        }
        let row = Arc::new(Row::of(kind));
        custom.push(row.clone());
        row
    }

    /// One request for a resource was answered.
    pub fn answered(&self, row: &Row, parts: &Parts, target: &Resource, verb: Option<Verb>, code: u16, took: Duration) {
        let scope = match (target.name.as_str(), target.namespace.as_str()) {
            ("", "") => 2,
            ("", _) => 1,
            _ => 0,
        };
        let verb = verb.map_or(UNKNOWN_VERB, |verb| place_of(verb, parts, &target.subresource));
        row.count(row.place(&target.subresource), verb, scope, code, took);
    }

    /// One request for something else was answered; `first` is the first part of its path.
    pub fn answered_path(&self, first: Option<&str>, method: &Method, code: u16, took: Duration) {
        let path = match first {
            None => 0,
            Some(first) => {
                PATHS.iter().position(|path| path.strip_prefix('/') == Some(first)).unwrap_or(PATHS.len() - 1)
            }
        };
        let verb = match *method {
            Method::GET | Method::HEAD => 0,
            Method::POST => 3,
            Method::PUT => 4,
            Method::DELETE => 7,
            _ => UNKNOWN_VERB,
        };
        self.paths.count(path, verb, 2, code, took);
    }
}

fn place_of(verb: Verb, parts: &Parts, subresource: &str) -> usize {
    match verb {
        _ if matches!(subresource, "exec" | "attach" | "portforward" | "proxy" | "log") => CONNECT,
        Verb::Get => 0,
        Verb::List => 1,
        Verb::Watch => WATCH,
        Verb::Create => 3,
        Verb::Update => 4,
        Verb::Patch => {
            let media = parts.headers.get(http::header::CONTENT_TYPE).map_or(&[][..], |value| value.as_bytes());
            if media.starts_with(b"application/apply-patch") { 6 } else { 5 }
        }
        Verb::Delete => 7,
        Verb::DeleteCollection => 8,
    }
}

impl Row {
    fn of(kind: &Kind) -> Self {
        let subresources = kind.subresources.iter().map(|sub| sub.name.into()).collect();
        Self::new(&kind.group, &kind.version, &kind.plural, subresources)
    }

    fn new(group: &str, version: &str, resource: &str, names: Vec<Box<str>>) -> Self {
        let is_path = resource.is_empty();
        let mut subresources: Vec<Box<str>> = if is_path { Vec::new() } else { vec!["".into()] };
        subresources.extend(names);
        subresources.push(OTHER.into());
        let cells = subresources.len() * VERBS.len() * SCOPES.len();
        Self {
            group: group.into(),
            version: version.into(),
            resource: resource.into(),
            subresources,
            cells: (0..cells).map(|_| OnceLock::new()).collect(),
            watches: AtomicUsize::new(0),
        }
    }

    fn is_of(&self, kind: &Kind) -> bool {
        *self.resource == *kind.plural && *self.group == *kind.group && *self.version == *kind.version
    }

    fn place(&self, subresource: &str) -> usize {
        if subresource.is_empty() {
            return 0;
        }
        self.subresources.iter().position(|known| **known == *subresource).unwrap_or(self.subresources.len() - 1)
    }

    fn count(&self, subresource: usize, verb: usize, scope: usize, code: u16, took: Duration) {
        let at = (subresource * VERBS.len() + verb) * SCOPES.len() + scope;
        let Some(cell) = self.cells.get(at) else { return };
        let cell = cell.get_or_init(Box::default);
        let code = CODES.iter().position(|known| *known == code).unwrap_or(CODES.len() - 1);
        cell.codes[code].fetch_add(1, Relaxed);
        // How long a stream took to begin says nothing of how long requests take.
        if verb != WATCH && verb != CONNECT {
            let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
            let bucket = NANOS.iter().position(|end| nanos <= *end).unwrap_or(NANOS.len());
            cell.buckets[bucket].fetch_add(1, Relaxed);
            cell.nanos.fetch_add(nanos, Relaxed);
        }
    }

    /// A watch that is open until this is dropped.
    pub fn watched(self: &Arc<Self>) -> Watched {
        self.watches.fetch_add(1, Relaxed);
        Watched(self.clone())
    }
}

pub(crate) struct UnderWay<'a>(&'a AtomicUsize);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

pub(crate) struct Watched(Arc<Row>);

impl Drop for Watched {
    fn drop(&mut self) {
        self.0.watches.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests;
