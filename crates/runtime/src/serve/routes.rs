//! What stands under which path. Health and figures are for everybody who reaches the address; the rest is for administrators.

use std::{fmt::Write, net::SocketAddr, sync::Arc, time::Duration};

use http::{Method, Request, StatusCode, header};
use http_body::Body;
use serde_json::json;
use tokio::time::timeout;

use super::{
    Endpoints, Serves,
    answer::{self, Answer, Refusal},
    debug, exposition,
};
use crate::{
    BoxError, Handle, HandleError, Key, Metrics,
    health::{Outcome, Probe},
    profile,
};

/// For everything but profiles, which say how long they take.
const PATIENCE: Duration = Duration::from_secs(30);

/// How a request came.
#[derive(Debug, Clone, Copy)]
pub struct Way {
    pub peer: SocketAddr,
    pub encrypted: bool,
}

impl Way {
    /// Whether a token may travel on it.
    fn is_private(self) -> bool {
        self.encrypted || self.peer.ip().to_canonical().is_loopback()
    }
}

pub async fn route<B>(endpoints: &Arc<Endpoints>, serves: Serves, way: Way, request: Request<B>) -> Answer
where
    B: Body + Send,
    B::Error: Into<BoxError>,
{
    let query = Query::of(&request);
    let allowed = match query.duration("seconds") {
        Ok(seconds) if request.uri().path() == "/debug/pprof/profile" => {
            PATIENCE + seconds.unwrap_or_default().min(profile::LONGEST) + PATIENCE
        }
        _ => PATIENCE,
    };
    let answered = match timeout(allowed, find(endpoints, serves, way, &query, request)).await {
        Ok(answered) => answered,
        Err(_) => Err(Refusal::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", "it took too long")),
    };
    answered.unwrap_or_else(Refusal::answer)
}

async fn find<B>(
    endpoints: &Arc<Endpoints>,
    serves: Serves,
    way: Way,
    query: &Query,
    request: Request<B>,
) -> Result<Answer, Refusal>
where
    B: Body + Send,
    B::Error: Into<BoxError>,
{
    let path = request.uri().path().to_owned();
    let segments: Vec<&str> = path.split('/').skip(1).collect();
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    match segments.as_slice() {
        ["livez" | "healthz", check @ ..] if serves.health && reads => {
            health(endpoints, Probe::Live, check, query, way).await
        }
        ["readyz", check @ ..] if serves.health && reads => health(endpoints, Probe::Ready, check, query, way).await,
        ["metrics"] if serves.metrics && reads => figures(&endpoints.metrics, &request),
        ["debug", ..] if serves.admin => {
            let user = admit(endpoints, way, &request).await?;
            debug::inside(endpoints.log.as_ref(), &user, &segments, query, request).await
        }
        ["controllers", ..] if serves.admin => {
            let user = admit(endpoints, way, &request).await?;
            controllers(endpoints, &user, &segments, query, &request).await
        }
        _ => Err(not_here(serves, &path, reads)),
    }
}

fn not_here(serves: Serves, path: &str, reads: bool) -> Refusal {
    let known =
        [(serves.health, "/livez, /readyz"), (serves.metrics, "/metrics"), (serves.admin, "/debug/, /controllers")];
    let known: Vec<&str> = known.iter().filter(|(on, _)| *on).map(|(_, paths)| *paths).collect();
    let here = known.join(", ");
    if !reads && !path.starts_with("/debug") && !path.starts_with("/controllers") {
        return Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", "only GET is answered here");
    }
    Refusal::not_found(format!("there is no {path:?} here; there are {here}"))
}

async fn admit<B>(endpoints: &Endpoints, way: Way, request: &Request<B>) -> Result<String, Refusal> {
    if !way.is_private() {
        let what = "tokens are not taken over plain HTTP from another machine; use this machine, or configure TLS";
        return Err(Refusal::new(StatusCode::FORBIDDEN, "Forbidden", what));
    }
    match &endpoints.admin {
        Some(admin) => admin.admit(request).await,
        None => Err(Refusal::new(
            StatusCode::FORBIDDEN,
            "Forbidden",
            "there is no API to ask who you are, so nobody is let in",
        )),
    }
}

async fn health(
    endpoints: &Endpoints,
    probe: Probe,
    check: &[&str],
    query: &Query,
    way: Way,
) -> Result<Answer, Refusal> {
    let outcomes = match check {
        [] | [""] => endpoints.health.ask(probe).await,
        name => {
            let name = name.join("/");
            let found = endpoints.health.ask_one(probe, &name).await;
            if found.is_empty() {
                return Err(Refusal::not_found(format!("there is no check {name:?}")));
            }
            found
        }
    };
    let excluded: Vec<&str> = query.all("exclude").collect();
    let counts = |outcome: &&Outcome| !excluded.contains(&outcome.name.as_str());
    let failed = outcomes.iter().filter(counts).any(|outcome| outcome.verdict.is_err());
    if !failed && !query.has("verbose") {
        return Ok(answer::text("ok"));
    }
    let mut out = String::new();
    for outcome in &outcomes {
        let name = &outcome.name;
        let _ = match &outcome.verdict {
            _ if !counts(&outcome) => writeln!(out, "[+]{name} excluded: ok"),
            Ok(()) => writeln!(out, "[+]{name} ok"),
            // What is wrong inside is for those who run it.
            Err(why) if way.peer.ip().to_canonical().is_loopback() => writeln!(out, "[-]{name} failed: {why}"),
            Err(_) => writeln!(out, "[-]{name} failed: the log says why"),
        };
    }
    let asked = if probe == Probe::Live { "livez" } else { "readyz" };
    let _ = writeln!(out, "{asked} check {}", if failed { "failed" } else { "passed" });
    let mut answer = answer::text(out);
    if failed {
        *answer.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    }
    Ok(answer)
}

/// Answers a request for `/metrics` that another listener has let in.
pub fn metrics<B>(metrics: &Metrics, request: &Request<B>) -> Answer {
    let answer = match *request.method() {
        Method::GET | Method::HEAD => figures(metrics, request),
        _ => Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", "only GET is answered here")),
    };
    answer.unwrap_or_else(Refusal::answer)
}

fn figures<B>(metrics: &Metrics, request: &Request<B>) -> Result<Answer, Refusal> {
    let failed = |_| Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", "the figures cannot be written");
    let openmetrics = metrics.encode().map_err(failed)?;
    let accept = request.headers().get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    Ok(match exposition::wants_openmetrics(accept) {
        true => answer::bytes(exposition::OPENMETRICS, openmetrics),
        false => answer::bytes(exposition::PROMETHEUS, exposition::prometheus(&openmetrics)),
    })
}

/// The reconcilers, for administrators. `user` was let in for exactly this method and path.
async fn controllers<B>(
    endpoints: &Endpoints,
    user: &str,
    segments: &[&str],
    query: &Query,
    request: &Request<B>,
) -> Result<Answer, Refusal> {
    match (request.method().as_str(), segments) {
        ("GET", ["controllers"]) => {
            let manager = manager(endpoints)?;
            let items = manager.list().await.map_err(handle_refusal)?;
            let leading = manager.leading().await.map_err(handle_refusal)?;
            answer::json(&json!({"leading": leading, "items": items}))
        }
        ("GET", ["controllers", name]) => {
            let items = manager(endpoints)?.list().await.map_err(handle_refusal)?;
            let known = items.iter().map(|item| item.name.clone()).collect::<Vec<_>>().join(", ");
            let found = items.into_iter().find(|item| item.name == *name);
            answer::json(
                &found.ok_or_else(|| handle_refusal(HandleError::Unknown { name: (*name).to_owned(), known }))?,
            )
        }
        ("POST", ["controllers", name, action @ ("enable" | "disable" | "requeue")]) => {
            let manager = manager(endpoints)?;
            let key = query.all("key").next().map(Key::parse);
            let count = match *action {
                "enable" => manager.enable(name).await.map(|()| 0),
                "disable" => manager.disable(name).await.map(|()| 0),
                _ => manager.requeue(name, key.clone()).await,
            };
            let count = count.map_err(handle_refusal)?;
            tracing::info!(
                user,
                controller = name,
                action,
                key = key.map(|key| key.to_string()),
                "asked by an administrator"
            );
            answer::json(&json!({"name": name, "action": action, "count": count}))
        }
        _ => Err(Refusal::not_found(format!("there is no {} {:?} here", request.method(), request.uri().path()))),
    }
}

fn manager(endpoints: &Endpoints) -> Result<&Handle, Refusal> {
    endpoints.manager.as_ref().ok_or_else(|| Refusal::not_found("no reconcilers run here"))
}

fn handle_refusal(error: HandleError) -> Refusal {
    let what = error.to_string();
    match error {
        HandleError::Unknown { .. } => Refusal::not_found(what),
        HandleError::Disabled(_) => Refusal::new(StatusCode::CONFLICT, "Conflict", what),
        HandleError::Setup(_) => Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", what),
        HandleError::Stopped => Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", what),
    }
}

/// The query of a request, decoded.
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    pub(super) fn of<B>(request: &Request<B>) -> Query {
        let query = request.uri().query().unwrap_or_default().as_bytes();
        Query(form_urlencoded::parse(query).into_owned().collect())
    }

    fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    fn has(&self, name: &str) -> bool {
        self.all(name).any(|value| !matches!(value, "false" | "0"))
    }

    pub(super) fn duration(&self, name: &str) -> Result<Option<Duration>, Refusal> {
        let parse = |text: &str| text.parse().map(Duration::from_secs);
        let wrong = |_| Refusal::bad_request(format!("{name} must be a number of seconds"));
        self.all(name).next().map(parse).transpose().map_err(wrong)
    }
}
