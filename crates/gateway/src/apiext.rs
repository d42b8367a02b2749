//! APIExt: any kind of the API as plain REST. This file is the way of a request: door, caller, pace, route, proof, handler.

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
use futures_util::FutureExt;
use http::header::{self, HeaderValue};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body::Body;
use http_body_util::{BodyExt, Full, Limited};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use crate::access::{Authorized, Discover, Gatekeeper, Target};
use crate::caller::{Caller, Connection};
use crate::door;
use crate::options::Options;
use crate::pace::Pace;
use crate::problem::Problem;
use crate::upstream::Upstream;
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
    pace: Arc<Pace>,
    catalog: Catalog,
    caches: Caches,
    actions: Actions,
    routes: Vec<Route>,
    direct: Semaphore,
    documents: openapi::Documents,
}

impl App {
    pub(crate) fn new(options: Options, upstream: Upstream, actions: Actions, stop: CancellationToken) -> Arc<Self> {
        let limits = &options.limits;
        let pace = Pace::new(limits);
        Arc::new(Self {
            gatekeeper: Gatekeeper::new(upstream.clone(), pace.clone(), limits.review_ttl, limits.request_timeout),
            catalog: Catalog::new(upstream.own().clone(), options.kinds.clone()),
            caches: Caches::new(upstream.own().clone(), limits.clone(), stop),
            documents: openapi::Documents::new(upstream.own().clone()),
            pace,
            actions,
            routes: routes::table(),
            direct: Semaphore::new(DIRECT_LISTS),
            options,
        })
    }

    /// Answers one request, whatever it is.
    pub(crate) async fn answer<B>(
        self: Arc<Self>,
        connection: &Connection,
        request: Request<B>,
    ) -> Response<Full<Bytes>>
    where
        B: Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let origin = door::allowed_origin(&self.options, request.headers());
        let (method, path, begun) = (request.method().clone(), request.uri().path().to_owned(), Instant::now());
        let deadline = self.options.limits.request_timeout + self.options.limits.body_timeout;
        let handled =
            std::panic::AssertUnwindSafe(timeout(deadline, self.handle(connection, request))).catch_unwind().await;
        let mut response = match handled {
            Ok(Ok(Ok(response))) => response,
            Ok(Ok(Err(problem))) => problem.into_response(),
            Ok(Err(_)) => Problem::new(504, "Timeout", "the request took too long").into_response(),
            Err(_) => {
                tracing::error!("a handler panicked; the request is answered with 500");
                Problem::new(500, "InternalError", "the server failed on this request; its log says where")
                    .into_response()
            }
        };
        tracing::debug!(%method, path, code = response.status().as_u16(), took = ?begun.elapsed(), "answered");
        let headers = response.headers_mut();
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        if let Some(origin) = origin {
            headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
            headers.insert(header::VARY, HeaderValue::from_static("Origin"));
        }
        response
    }

    async fn handle<B>(
        self: Arc<Self>,
        connection: &Connection,
        request: Request<B>,
    ) -> Result<Response<Full<Bytes>>, Problem>
    where
        B: Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (parts, body) = request.into_parts();
        door::check(&self.options, connection.tls, &parts.uri, &parts.headers)?;
        if let Some(preflight) = self.preflight(&parts.method, &parts.headers) {
            return Ok(preflight);
        }
        let caller = Caller::of(&parts.headers, connection)?;
        let _place = self.pace.enter(caller.key, connection.address)?;
        let path = Path::parse(parts.uri.path())?;
        let route = self.route(&parts.method, &path)?;
        self.gatekeeper.recognise(&caller).await?;
        let body = self.read_body(body).await?;
        let target = self.target(&path, route).await?;
        let text =
            |name| parts.headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok()).map(str::to_owned);
        let asked = Asked {
            query: parts.uri.query().unwrap_or("").to_owned(),
            media: text(header::CONTENT_TYPE),
            if_match: text(header::IF_MATCH),
            body,
            action: match path {
                Path::Resource(resource) => resource.action,
                _ => None,
            },
        };
        let Answer { code, body } = route.handle(self.clone(), caller, target, asked).await?;
        let mut response = Response::new(Full::new(body));
        *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::OK);
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Ok(response)
    }

    /// The answer to a browser that asks whether a page of a configured origin may call.
    fn preflight(&self, method: &Method, headers: &HeaderMap) -> Option<Response<Full<Bytes>>> {
        if *method != Method::OPTIONS {
            return None;
        }
        door::allowed_origin(&self.options, headers)?;
        let mut response = Response::new(Full::default());
        *response.status_mut() = StatusCode::NO_CONTENT;
        let allowed = [
            (header::ACCESS_CONTROL_ALLOW_METHODS, "GET, POST, PUT, PATCH, DELETE"),
            (header::ACCESS_CONTROL_ALLOW_HEADERS, "authorization, content-type, if-match"),
            (header::ACCESS_CONTROL_MAX_AGE, "600"),
        ];
        for (name, value) in allowed {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        Some(response)
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

    async fn read_body<B>(&self, body: B) -> Result<Bytes, Problem>
    where
        B: Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let limits = &self.options.limits;
        if body.is_end_stream() {
            return Ok(Bytes::new());
        }
        match timeout(limits.body_timeout, Limited::new(body, limits.body_bytes).collect()).await {
            Ok(Ok(body)) => Ok(body.to_bytes()),
            Ok(Err(why)) if why.is::<http_body_util::LengthLimitError>() => Err(Problem::new(
                413,
                "RequestEntityTooLarge",
                format!("the body has more than {} bytes", limits.body_bytes),
            )),
            Ok(Err(_)) => Err(Problem::bad_request("the body broke off")),
            Err(_) => Err(Problem::new(408, "Timeout", "the body did not come in time")),
        }
    }

    /// The kind that the path names, where it fits its scope and allows what the route does.
    async fn target(&self, path: &Path, route: &Route) -> Result<Target, Problem> {
        let Path::Resource(asked) = path else {
            return Ok(Target::Document(if route.shape == Shape::OpenApi { "/openapi/v3" } else { "/apis" }));
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
