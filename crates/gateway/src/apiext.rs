//! APIExt: any kind of the API as plain REST. This file is the way of a request: route, proof, handler.

pub(crate) mod actions;
mod cache;
pub(crate) mod catalog;
pub(crate) mod columns;
pub(crate) mod field;
pub(crate) mod filter;
mod handlers;
mod input;
mod labels;
mod object;
mod openapi;
pub(crate) mod page;
pub(crate) mod path;
pub(crate) mod query;
mod routes;
pub(crate) mod row;
mod scan;
mod words;

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{HeaderValue, Method, header};
use serde::Deserialize;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::access::{Authorized, Discover, Gatekeeper, List, Reveal, Target};
use crate::caller::Caller;
use crate::options::Options;
use crate::problem::Problem;
use crate::upstream::Upstream;
use crate::visit::{Answered, Notices, Room, Visit, bytes};
use actions::Actions;
use cache::Caches;
use catalog::{Catalog, Kind};
use input::Asked;
use path::{Path, ResourcePath};
use routes::{Answer, Route, Shape};

/// Lists that go to the API themselves, at once: each may hold a whole kind in memory.
const DIRECT_LISTS: usize = 4;

/// Everything the handlers share.
pub(crate) struct App {
    options: Options,
    gatekeeper: Arc<Gatekeeper>,
    pub(crate) catalog: Catalog,
    caches: Caches,
    actions: Actions,
    routes: Vec<Route>,
    direct: Semaphore,
    documents: openapi::Documents,
}

impl App {
    pub(crate) fn new(
        options: Options,
        upstream: Upstream,
        actions: Actions,
        gatekeeper: Arc<Gatekeeper>,
        stop: CancellationToken,
    ) -> Arc<Self> {
        let limits = &options.limits;
        Arc::new(Self {
            gatekeeper,
            catalog: Catalog::new(upstream.own().clone(), options.kinds.clone()),
            caches: Caches::new(upstream.own().clone(), limits.clone(), stop),
            documents: openapi::Documents::new(upstream.own().clone()),
            actions,
            routes: routes::table(),
            direct: Semaphore::new(DIRECT_LISTS),
            options,
        })
    }

    async fn handle(self: Arc<Self>, mut visit: Visit) -> Answered {
        let path = Path::parse(&visit.path)?;
        let route = self.route(&visit.method, &path)?;
        self.gatekeeper.recognise(&visit.caller).await?;
        let body = visit.body(&self.options.limits).await?;
        let target = self.target(&path, route).await?;
        let asked = Asked {
            media: visit.header(header::CONTENT_TYPE).map(str::to_owned),
            if_match: visit.header(header::IF_MATCH).map(str::to_owned),
            query: visit.query,
            body,
            action: match path {
                Path::Resource(resource) => resource.action,
                _ => None,
            },
        };
        let Answer { code, body } = route.handle(self.clone(), visit.caller, target, asked).await?;
        // The tag of an object is what `If-Match` takes.
        let version = (route.shape == Shape::Object || code == 201).then(|| version_of(&body)).flatten();
        let mut response = bytes(code, "application/json", body);
        if let Some(tag) = version.and_then(|version| HeaderValue::from_str(&format!("\"{version}\"")).ok()) {
            response.headers_mut().insert(header::ETAG, tag);
        }
        Ok(response)
    }

    /// Hears of changes of what a path shows, if the caller may read it. Notices are of the whole kind: a page that is read once too
    /// often costs less than one remembered for each listener.
    async fn notices(self: Arc<Self>, caller: Caller, path: String) -> Result<Notices, Problem> {
        let path = Path::parse(&path)?;
        let route = self.route(&Method::GET, &path)?;
        let target = self.target(&path, route).await?;
        match route.shape {
            Shape::Collection => {
                let proof = self.gatekeeper.clone().authorize::<List>(caller, target).await?;
                self.caches.notices(&proof)
            }
            Shape::Object => {
                let proof = self.gatekeeper.clone().authorize::<Reveal>(caller, target).await?;
                self.caches.notices(&proof)
            }
            _ => Err(Problem::not_found("this path cannot be followed")),
        }
    }

    fn route(&self, method: &Method, path: &Path) -> Result<&Route, Problem> {
        let shape = match path {
            Path::Kinds => Shape::Kinds,
            Path::OpenApi => Shape::OpenApi,
            Path::Resource(ResourcePath { action: Some(_), .. }) => Shape::Action,
            Path::Resource(ResourcePath { name: Some(_), .. }) => Shape::Object,
            Path::Resource(_) => Shape::Collection,
        };
        let mut there = self.routes.iter().filter(|route| route.shape == shape);
        there.clone().find(|route| route.method == *method).ok_or_else(|| {
            let mut allowed = there.next().map(|route| route.method.to_string()).unwrap_or_default();
            there.for_each(|route| allowed = format!("{allowed}, {}", route.method));
            Problem::new(405, "MethodNotAllowed", format!("this path takes {allowed}")).with("allow", allowed)
        })
    }

    /// The kind that the path names, where it fits its scope and allows what the route does.
    async fn target(&self, path: &Path, route: &Route) -> Result<Target, Problem> {
        let Path::Resource(asked) = path else {
            return Ok(Target::Document(if route.shape == Shape::OpenApi {
                "/openapi/v3".into()
            } else {
                "/apis".into()
            }));
        };
        let ResourcePath { group, version, plural, namespace, name, .. } = asked;
        let kind = self.catalog.find(group, version, plural).await?.ok_or_else(|| {
            let group = if group.is_empty() { "core" } else { group };
            Problem::not_found(format!(
                "there is no kind {group}/{version}/{plural}; GET {} lists those there are",
                path::ROOT
            ))
        })?;
        fits(&kind, namespace.as_deref(), route)?;
        if !kind.allows(route.verb) {
            return Err(Problem::new(
                405,
                "MethodNotAllowed",
                format!("{} cannot be {}: the kind does not allow {}", kind.kind, past(route.verb), route.verb),
            ));
        }
        Ok(Target::Resource { kind, namespace: namespace.clone(), name: name.clone() })
    }

    async fn document(&self, proof: &Authorized<Discover>, group: Option<&str>) -> Result<Bytes, Problem> {
        let kinds = self.catalog.all(proof).await?;
        self.documents.get(proof, &kinds, &self.routes, &self.actions, group).await
    }

    /// After the stop token: what was started here has ended.
    pub(crate) async fn ended(&self) {
        self.caches.ended().await;
    }
}

impl Room for App {
    fn owns(&self, path: &str) -> bool {
        path == "/apiext" || path.starts_with("/apiext/")
    }

    fn answer(self: Arc<Self>, visit: Visit) -> BoxFuture<'static, Answered> {
        Box::pin(self.handle(visit))
    }

    fn follow(
        self: Arc<Self>,
        caller: Caller,
        path: String,
        _query: String,
    ) -> BoxFuture<'static, Result<Notices, Problem>> {
        Box::pin(self.notices(caller, path))
    }
}

fn past(verb: &str) -> &str {
    match verb {
        "get" | "list" => "read",
        "create" => "created",
        "update" | "patch" => "changed",
        _ => "deleted",
    }
}

/// Objects of a namespaced kind live in a namespace; a list may be of all.
fn fits(kind: &Kind, namespace: Option<&str>, route: &Route) -> Result<(), Problem> {
    let root = format!("{}/{}/{}", path::ROOT, kind.group_word(), kind.version);
    let lists = route.shape == Shape::Collection && route.method == Method::GET;
    match (kind.namespaced, namespace) {
        (false, Some(_)) => {
            Err(Problem::not_found(format!("{} has no namespace; use {root}/{}", kind.kind, kind.plural)))
        }
        (true, None) if !lists => Err(Problem::bad_request(format!(
            "{} lives in a namespace; use {root}/namespaces/{{namespace}}/{}",
            kind.kind, kind.plural
        ))),
        _ => Ok(()),
    }
}

/// The version an object in the flat shape says it has.
fn version_of(body: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Versioned {
        #[serde(rename = "resourceVersion")]
        version: Option<String>,
    }
    serde_json::from_slice::<Versioned>(body).ok()?.version
}
