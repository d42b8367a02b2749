//! `/healthz`, `/livez`, `/readyz`: named checks, each reachable on its own.

use crate::Inner;
use crate::body::Body;
use crate::render;
use http::Response;
use meta::options::Query;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock};
use store::{Health, Store};

/// A check says nothing when all is well, or why it is not.
pub type Check = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;

pub(crate) struct Checks {
    store: Store,
    started: AtomicBool,
    added: RwLock<Vec<(&'static str, Check)>>,
}

impl Checks {
    pub fn new(store: Store) -> Self {
        Self { store, started: AtomicBool::new(false), added: RwLock::default() }
    }

    /// The system's own objects exist: requests can be served.
    pub fn started(&self) {
        self.started.store(true, Ordering::Release);
    }

    pub fn add(&self, name: &'static str, check: Check) {
        self.added.write().unwrap_or_else(PoisonError::into_inner).push((name, check));
    }

    /// Liveness asks only whether a restart would help; a full disk or a lost etcd is no reason for one.
    fn run(&self, endpoint: &str) -> Vec<(&'static str, Result<(), String>)> {
        let mut out = vec![("ping", Ok(()))];
        if endpoint != "livez" {
            let storage = match self.store.health() {
                Health::Ok => Ok(()),
                Health::Full { why } => Err(format!("the disk is full: {why}")),
                Health::Failed { why } => Err(why),
            };
            out.push(("storage", storage));
            let started = self.started.load(Ordering::Acquire);
            out.push(("poststarthook/system-objects", if started { Ok(()) } else { Err("not finished".into()) }));
        }
        for (name, check) in self.added.read().unwrap_or_else(PoisonError::into_inner).iter() {
            out.push((name, check()));
        }
        out
    }
}

impl Inner {
    pub(crate) fn health(&self, endpoint: &str, only: &[&str], query: Option<&str>) -> Response<Body> {
        let query = Query::parse(query);
        let excluded = query.get("exclude").unwrap_or_default().to_owned();
        let mut results = self.health.run(endpoint);
        results.retain(|(name, _)| *name != excluded);
        if !only.is_empty() {
            let wanted = only.join("/");
            results.retain(|(name, _)| *name == wanted);
            return match results.first() {
                None => render::no_page(),
                Some((_, Ok(()))) => render::text(200, "ok"),
                Some((_, Err(why))) => render::text(500, format!("internal server error: {why}\n")),
            };
        }
        let failed = results.iter().any(|(_, r)| r.is_err());
        if !failed && query.get("verbose").is_none() {
            return render::text(200, "ok");
        }
        let mut text = String::new();
        for (name, result) in &results {
            match result {
                Ok(()) => text.push_str(&format!("[+]{name} ok\n")),
                Err(why) => text.push_str(&format!("[-]{name} failed: {why}\n")),
            }
        }
        text.push_str(&format!("{endpoint} check {}\n", if failed { "failed" } else { "passed" }));
        render::text(if failed { 500 } else { 200 }, text)
    }
}
