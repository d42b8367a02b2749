//! The way of a request: authenticate, parse, authorise, then the handler. No handler is reachable by another way.

use crate::audit::{Entry, OwnQuestion};
use crate::body::Body;
use crate::gate::{Place, Work};
use crate::kinds::{Connect, Endpoint, Kind};
use crate::negotiate::{self, Form};
use crate::objects::Part;
use crate::path::{self, Target, Verb};
use crate::render;
use crate::verbs::Call;
use crate::{Api, Inner, decode, inspect};
use auth::{Authorized, Peer, User};
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, header};
use http_body::Body as HttpBody;
use meta::options::Query;
use meta::selector::FieldSelector;
use meta::{GroupResource, Status};
use percent_encoding::percent_decode_str;
use std::convert::Infallible;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tracing::Instrument;

impl Api {
    /// Answers one request. The connection's `auth::Peer` must be in the request's extensions.
    pub async fn handle<B>(&self, request: Request<B>) -> Response<Body>
    where
        B: HttpBody + Send,
        B::Data: Send,
        B::Error: std::fmt::Display,
    {
        // Part of the caller's trace, if anybody collects traces; else this costs one look.
        let span = tracing::info_span!(
            target: "trace", parent: None, "request", otel.kind = "server",
            traceparent = request.headers().get("traceparent").and_then(|value| value.to_str().ok()),
            http.request.method = request.method().as_str(), url.path = request.uri().path(),
            http.response.status_code = tracing::field::Empty, audit.id = tracing::field::Empty,
            object.version = tracing::field::Empty,
        );
        if span.is_disabled() {
            return self.answer(request).await;
        }
        let response = self.answer(request).instrument(span.clone()).await;
        span.record("http.response.status_code", response.status().as_u16());
        span.record("audit.id", response.headers().get("audit-id").and_then(|id| id.to_str().ok()));
        response
    }

    async fn answer<B>(&self, request: Request<B>) -> Response<Body>
    where
        B: HttpBody + Send,
        B::Data: Send,
        B::Error: std::fmt::Display,
    {
        let started = Instant::now();
        let (parts, body) = request.into_parts();
        let _under_way = self.inner.figures.as_ref().map(|figures| figures.begin(&parts.method));
        let mut body = pin!(body);
        let mut trail = Trail { id: self.inner.uid(), ..Trail::default() };
        let query = Query::parse(parts.uri.query());
        let target = path::parse(parts.uri.path());
        let result = match time_limit(&parts.method, &target, &query, self.inner.options.request_timeout) {
            Ok(limit) => {
                let work = self.inner.route(&parts, &target, body.as_mut(), &mut trail);
                let late = |_| Status::timeout("request did not complete within the allotted timeout");
                tokio::time::timeout(limit, work).await.map_err(late).flatten()
            }
            Err(status) => Err(status),
        };
        let mut response = result.unwrap_or_else(|status| render::status(&status));
        let waits = parts.headers.contains_key(http::header::EXPECT);
        if response.status().is_client_error() && !body.is_end_stream() && !waits {
            decode::discard(body).await;
        }
        if let Ok(id) = HeaderValue::from_str(&trail.id) {
            response.headers_mut().insert("audit-id", id);
        }
        if query.flag("pretty").unwrap_or_default() {
            render::indent(&mut response);
        }
        let code = response.status().as_u16();
        self.inner.audit(&parts, &trail, code, started);
        self.inner.count(&parts, &target, &query, &trail, (code, started.elapsed()));
        if parts.method == Method::HEAD {
            *response.body_mut() = Body::empty();
        }
        response
    }
}

impl<B> tower::Service<Request<B>> for Api
where
    B: HttpBody + Send + 'static,
    B::Data: Send,
    B::Error: std::fmt::Display,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let api = self.clone();
        Box::pin(async move { Ok(api.handle(request).await) })
    }
}

/// Says in the request's trace which version of an object it made: what is done because of that version can be linked to it.
pub(crate) fn wrote(revision: u64) {
    tracing::Span::current().record("object.version", revision);
}

/// What the audit log will say of a request.
#[derive(Default)]
struct Trail {
    id: String,
    user: Option<Arc<User>>,
    /// Whom the user acted as.
    acting_as: Option<Arc<User>>,
    verb: &'static str,
    target: Option<path::Resource>,
    /// What it was about, if that is served.
    kind: Option<Arc<Kind>>,
    /// Why it was allowed, or what stood in the way of that.
    reason: Option<Arc<str>>,
}

/// What is asked of a resource.
struct Asked<'a> {
    target: &'a path::Resource,
    query: Query<'a>,
    verb: Verb,
}

/// How long a request may take: what it asks for, and never more than `most`. Of a watch that is its beginning; how long it
/// streams it says elsewhere.
fn time_limit(
    method: &Method,
    target: &Result<Target, path::Hostile>,
    query: &Query<'_>,
    most: Duration,
) -> Result<Duration, Status> {
    if matches!(target, Ok(Target::Path(segments)) if inspect::is_inside(segments)) {
        return Ok(most.max(inspect::LONGEST));
    }
    let Some(asked) = query.get("timeout").filter(|text| !text.is_empty()) else { return Ok(most) };
    let watch = query.flag("watch").unwrap_or_default();
    if matches!(target, Ok(Target::Resource(resource)) if Verb::of(method, resource, watch) == Some(Verb::Watch)) {
        return Ok(most);
    }
    let asked = meta::duration::parse(asked)
        .map_err(|e| Status::bad_request(format!("invalid timeout specified in the request URL - {e}")))?;
    // Zero, and what lies in the past, is no wish of the client's own.
    Ok(Duration::try_from(asked).ok().filter(|asked| !asked.is_zero()).map_or(most, |asked| asked.min(most)))
}

impl Inner {
    async fn route<B>(
        &self,
        parts: &Parts,
        target: &Result<Target, path::Hostile>,
        body: B,
        trail: &mut Trail,
    ) -> Result<Response<Body>, Status>
    where
        B: HttpBody + Send,
        B::Data: Send,
        B::Error: std::fmt::Display,
    {
        let peer = parts.extensions.get::<Peer>().ok_or_else(Status::unauthorized)?;
        let caller = self
            .options
            .authenticator
            .authenticate(peer, &parts.headers, parts.uri.path())
            .map_err(|e| refused(e, peer))?;
        trail.user = Some(caller.clone());
        let acting_as = self.impersonate(&caller, &parts.headers)?;
        trail.acting_as = acting_as.clone();
        let user = acting_as.unwrap_or(caller);
        let malformed = |_: &path::Hostile| Status::bad_request("the URL path is malformed");
        match target.as_ref().map_err(malformed)? {
            Target::Resource(resource) => {
                let query = Query::parse(parts.uri.query());
                let watch = query.flag("watch").unwrap_or_default();
                let verb = Verb::of(&parts.method, resource, watch).ok_or_else(Status::method_not_allowed)?;
                trail.verb = verb.as_str();
                trail.target = Some(resource.clone());
                let place = self.gate.enter(&user, if verb.writes() { Work::Write } else { Work::Read })?;
                let selected = selected_name(verb, resource, &query);
                let asked = auth::Request {
                    user: &user,
                    verb: verb.as_str(),
                    group: &resource.group,
                    version: &resource.version,
                    resource: &resource.resource,
                    subresource: &resource.subresource,
                    namespace: resource.scope(),
                    name: selected.as_deref().unwrap_or(&resource.name),
                    path: "",
                };
                let proof = self.authorize_request(asked, trail)?;
                let watching = if verb == Verb::Watch { self.gate.enter(&user, Work::Watch)? } else { None };
                let asked = Asked { target: resource, query, verb };
                let response = self.resource(parts, asked, proof, body, trail).await?;
                // A list is a read until it is sent, a watch only until it begins.
                if verb != Verb::Watch {
                    return Ok(response.map(|body| body.hold(place)));
                }
                let counted = self.figures.as_ref().map(|figures| figures.row(trail.kind.as_deref()).watched());
                let held = (watching.is_some() || counted.is_some()).then_some((watching, counted));
                Ok(response.map(|body| body.hold(held)))
            }
            Target::Path(segments) => {
                trail.verb = method_verb(&parts.method);
                let place = self.enter_path(&user, &parts.method, segments)?;
                // Decoded, as it is served; `parse` has refused what decodes to another shape.
                let path = percent_decode_str(parts.uri.path()).decode_utf8_lossy();
                let asked = auth::Request::path(&user, trail.verb, &path);
                let proof = self.authorize_request(asked, trail)?;
                let response = match inspect::is_shown(segments) {
                    true => self.inspect(parts, &proof, body).await?,
                    false => self.path(parts, segments, proof).await?,
                };
                Ok(response.map(|body| body.hold(place)))
            }
        }
    }

    /// Whoever asks how we are gets an answer, however busy we are.
    fn enter_path(&self, user: &Arc<User>, method: &Method, segments: &[String]) -> Result<Option<Place>, Status> {
        match segments.first().map(String::as_str) {
            Some("healthz" | "livez" | "readyz" | "version") => Ok(None),
            _ if matches!(*method, Method::GET | Method::HEAD) => self.gate.enter(user, Work::Read),
            _ => self.gate.enter(user, Work::Write),
        }
    }

    fn authorize_request<'a>(&self, asked: auth::Request<'a>, trail: &mut Trail) -> Result<Authorized<'a>, Status> {
        let outcome = self.options.authorizer.authorize(asked);
        trail.reason = match &outcome {
            Ok(proof) => proof.reason().cloned(),
            Err(denied) if denied.reason.is_empty() => None,
            Err(denied) => Some(denied.reason.as_str().into()),
        };
        outcome.map_err(|denied| forbidden(&asked, denied))
    }

    /// The choke point: the only way to an `Authorized`.
    pub(crate) fn authorize<'a>(&self, asked: auth::Request<'a>) -> Result<Authorized<'a>, Status> {
        self.options.authorizer.authorize(asked).map_err(|denied| forbidden(&asked, denied))
    }

    async fn resource<B>(
        &self,
        parts: &Parts,
        asked: Asked<'_>,
        proof: Authorized<'_>,
        body: B,
        trail: &mut Trail,
    ) -> Result<Response<Body>, Status>
    where
        B: HttpBody + Send,
        B::Data: Send,
        B::Error: std::fmt::Display,
    {
        let Asked { target, query, verb } = asked;
        let served = self.served.get();
        let registry = &served.registry;
        let found = registry
            .find(&target.group, &target.version, &target.resource)
            .filter(|kind| kind.namespaced || target.namespace.is_empty())
            .filter(|kind| !kind.namespaced || !target.namespace.is_empty() || target.name.is_empty())
            .filter(|kind| {
                kind.custom.is_none() || !kind.namespaced || !target.namespace.is_empty() || verb.reads_all()
            });
        let Some(kind) = found else {
            // A group that is not built in is nobody's: there is no page.
            let known = registry.is_builtin_group(&target.group);
            return if known { Err(Status::no_such_resource()) } else { Ok(render::no_page()) };
        };
        trail.kind = Some(kind.clone());
        let endpoint = match (target.subresource.as_str(), kind.action) {
            ("", None) => &Endpoint::Object(Part::Main),
            ("", Some(action)) => &Endpoint::Action(action),
            (name, _) => match kind.subresource(name) {
                Some(sub) => &sub.endpoint,
                None if kind.custom.is_none() => return Err(Status::no_such_resource()),
                None => {
                    let mut response = render::status(&Status::not_found(kind.resource(), &target.name));
                    render::warn(&mut response, kind.warnings());
                    return Ok(response);
                }
            },
        };
        if !target.tail.is_empty() && !matches!(endpoint, Endpoint::Connect(Connect::Proxy)) {
            return Err(Status::no_such_resource());
        }
        let answer = negotiate::accept(&parts.headers)?;
        match (answer.form, verb) {
            (Form::Partial, Verb::List) => {
                let why = "you requested PartialObjectMetadata, but the requested object is a list";
                return Err(Status::new(406, meta::Reason::NotAcceptable, why));
            }
            (Form::PartialList, Verb::Get | Verb::Create | Verb::Update | Verb::Patch) => {
                let why = "you requested PartialObjectMetadataList, but the requested object is not a list";
                return Err(Status::new(406, meta::Reason::NotAcceptable, why));
            }
            _ => {}
        }
        let bytes = if verb.writes() { decode::read(&parts.headers, body).await? } else { Default::default() };
        let call = Call {
            api: self,
            proof,
            kind: kind.clone(),
            namespace: &target.namespace,
            name: &target.name,
            endpoint,
            query,
            peer: parts.extensions.get::<Peer>().ok_or_else(Status::unauthorized)?,
            headers: &parts.headers,
            answer,
            warnings: Default::default(),
        };
        Ok(call.run(verb, bytes).await)
    }

    /// Everything that is not a resource: health, version, discovery, documents.
    async fn path(&self, parts: &Parts, segments: &[String], proof: Authorized<'_>) -> Result<Response<Body>, Status> {
        let names: Vec<&str> = segments.iter().map(String::as_str).collect();
        if names == ["muster.dev", "backup"] && parts.method == Method::POST {
            return self.backup(&proof).await;
        }
        if !matches!(parts.method, Method::GET | Method::HEAD) {
            return Err(Status::method_not_allowed());
        }
        match names.as_slice() {
            ["healthz" | "livez" | "readyz", check @ ..] => Ok(self.health(names[0], check, parts.uri.query())),
            ["version"] => Ok(render::value(200, &discovery_version())),
            ["openid", "v1", "jwks"] => Ok(self.openid_keys(&proof)),
            [".well-known", "openid-configuration"] => Ok(self.openid_configuration(&proof)),
            ["openapi", "v2"] => self.openapi_v2(&proof, &parts.headers),
            ["openapi", "v3", document @ ..] => self.openapi_v3(&proof, document, &parts.headers, parts.uri.query()),
            [] | ["api", ..] | ["apis", ..] => self.discover(&proof, &names, &parts.headers),
            _ => Ok(render::no_page()),
        }
    }

    fn count(
        &self,
        parts: &Parts,
        target: &Result<Target, path::Hostile>,
        query: &Query<'_>,
        trail: &Trail,
        (code, took): (u16, Duration),
    ) {
        let Some(figures) = &self.figures else { return };
        match target {
            Ok(Target::Resource(resource)) => {
                // What was refused before the kind was looked up is counted there, too.
                let looked_up = match &trail.kind {
                    Some(_) => None,
                    None => self.kind(&resource.group, &resource.version, &resource.resource),
                };
                let row = figures.row(trail.kind.as_deref().or(looked_up.as_deref()));
                let verb = Verb::of(&parts.method, resource, query.flag("watch").unwrap_or_default());
                figures.answered(row, parts, resource, verb, code, took);
            }
            Ok(Target::Path(segments)) => {
                figures.answered_path(segments.first().map(String::as_str), &parts.method, code, took);
            }
            Err(path::Hostile) => figures.answered_path(Some("?"), &parts.method, code, took),
        }
    }

    fn audit(&self, parts: &Parts, trail: &Trail, code: u16, started: Instant) {
        let audit = &self.options.audit;
        let target = trail.target.as_ref();
        let review = |t: &path::Resource| t.group == "authorization.k8s.io" && t.resource == "selfsubjectaccessreviews";
        let question = parts.extensions.get::<OwnQuestion>().is_some() && target.is_some_and(review);
        if !audit.wants(if question { "get" } else { trail.verb }, code) {
            return;
        }
        let nobody = User::anonymous();
        audit.record(&Entry {
            request_id: &trail.id,
            user: trail.user.as_deref().unwrap_or(&nobody),
            acting_as: trail.acting_as.as_deref(),
            reason: trail.reason.as_deref().unwrap_or_default(),
            source: parts.extensions.get::<Peer>().and_then(Peer::addr),
            verb: trail.verb,
            group: target.map_or("", |t| &t.group),
            resource: target.map_or("", |t| &t.resource),
            subresource: target.map_or("", |t| &t.subresource),
            namespace: target.map_or("", |t| &t.namespace),
            name: target.map_or("", |t| &t.name),
            path: parts.uri.path(),
            user_agent: parts.headers.get(header::USER_AGENT).and_then(|v| v.to_str().ok()).unwrap_or_default(),
            code,
            latency: started.elapsed(),
        });
    }
}

/// What is wrong with the form of a credential, or with the way it was sent, helps whoever holds it; of a credential that is not
/// known nothing is said.
fn refused(e: auth::Unauthenticated, peer: &Peer) -> Status {
    tracing::debug!(why = %e, address = ?peer.addr(), "a request was not let in");
    match e.code() {
        403 => Status::new(403, meta::Reason::Forbidden, e.to_string()),
        _ => Status::new(401, meta::Reason::Unauthorized, e.to_string()),
    }
}

fn forbidden(asked: &auth::Request<'_>, denied: auth::Denied) -> Status {
    let r = GroupResource { group: asked.group, resource: asked.resource };
    let mut status = Status::forbidden(r, asked.name, "");
    status.message = denied.message;
    status
}

/// The one object that a list or watch can only be about: whoever may have that one may ask this way.
fn selected_name(verb: Verb, resource: &path::Resource, query: &Query<'_>) -> Option<String> {
    if !matches!(verb, Verb::List | Verb::Watch) || !resource.name.is_empty() || resource.watch {
        return None;
    }
    let selector = FieldSelector::parse(query.get("fieldSelector")?).ok()?;
    selector.exact_name().filter(|name| meta::name::path_segment(name).is_empty()).map(str::to_owned)
}

fn method_verb(method: &Method) -> &'static str {
    match *method {
        Method::GET => "get",
        Method::HEAD => "head",
        Method::POST => "post",
        Method::PUT => "put",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        Method::OPTIONS => "options",
        _ => "other",
    }
}

fn discovery_version() -> serde_json::Value {
    serde_json::json!({
        "major": "1", "minor": "34", "gitVersion": concat!("v1.34.0+muster-", env!("CARGO_PKG_VERSION")),
        "gitCommit": "", "gitTreeState": "clean", "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "", "compiler": "rustc", "platform": format!("{}/{}", std::env::consts::OS, arch()),
    })
}

fn arch() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
