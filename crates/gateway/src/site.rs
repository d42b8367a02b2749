//! The way of a request: door, caller, pace, room. Every request of the listener comes through here, and nothing else makes a caller.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use http::header::{self, HeaderName, HeaderValue};
use http::request::Parts;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::access::Gatekeeper;
use crate::apiext::App;
use crate::assets;
use crate::caller::{Caller, Connection, key};
use crate::door::{self, Entered};
use crate::figures::Figures;
use crate::lean::Wish;
use crate::options::Options;
use crate::pace::Pace;
use crate::problem::Problem;
use crate::seats::Seats;
use crate::session::Sessions;
use crate::unread;
use crate::visit::{Answered, Body, BoxError, REQUEST_ID, Room, Visit};
use crate::ws::{self, Message, Socket};

/// A browser has this long to say who it is after it opened a WebSocket; so many may do so at once, in all and of one address.
const INTRODUCTION: Duration = Duration::from_secs(10);
const INTRODUCING: usize = 200;
const INTRODUCING_EACH: usize = 50;
/// How long something that is open may take to say goodbye once its session ended.
const GRACE: Duration = Duration::from_secs(5);

/// Paths that begin with one of these are ours; everything else is a page of the console.
pub(crate) const OWN: [&str; 4] = ["apiext", "api", "apis", "wapi"];

/// What there is beside APIExt.
pub(crate) struct Console {
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) rooms: Vec<Arc<dyn Room>>,
    pub(crate) seats: Arc<Seats>,
}

/// Everything that answers on one listener.
pub(crate) struct Site {
    options: Options,
    pace: Arc<Pace>,
    gatekeeper: Arc<Gatekeeper>,
    apiext: Arc<App>,
    console: Option<Console>,
    figures: Figures,
    /// Sockets whose owner is not known yet.
    introducing: Arc<Seats>,
    /// What outlives the connection's own task: open sockets, the users' watch.
    tasks: TaskTracker,
    /// Finish what you have.
    stop: CancellationToken,
    /// Finish now.
    cut: CancellationToken,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Introduction {
    ticket: String,
}

impl Site {
    pub(crate) fn new(
        options: Options,
        pace: Arc<Pace>,
        gatekeeper: Arc<Gatekeeper>,
        apiext: Arc<App>,
        console: Option<Console>,
        figures: Figures,
        stop: CancellationToken,
    ) -> Self {
        let introducing = Seats::new(INTRODUCING, INTRODUCING_EACH);
        Self {
            options,
            pace,
            gatekeeper,
            apiext,
            console,
            figures,
            introducing,
            tasks: TaskTracker::new(),
            stop,
            cut: CancellationToken::new(),
        }
    }

    pub(crate) fn console(&self) -> Option<&Console> {
        self.console.as_ref()
    }

    /// Begins what runs beside the requests.
    pub(crate) fn start(self: &Arc<Self>) {
        if let Some(console) = &self.console {
            let (sessions, stop) = (console.sessions.clone(), self.stop.clone());
            self.tasks.spawn(async move { sessions.follow(stop).await });
        }
    }

    /// Ends what runs beside the requests.
    pub(crate) fn stop(&self) {
        self.stop.cancel();
        self.tasks.close();
    }

    /// What has not ended by now is not waited for.
    pub(crate) fn cut(&self) {
        self.cut.cancel();
    }

    /// After `stop`: everything has ended.
    pub(crate) async fn ended(&self) {
        self.tasks.wait().await;
        self.apiext.ended().await;
    }

    /// Answers one request, whatever it is.
    pub(crate) async fn answer<B>(self: Arc<Self>, connection: Connection, request: Request<B>) -> Response<Body>
    where
        B: http_body::Body<Data = bytes::Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let origin = door::allowed_origin(&self.options, request.headers());
        let (method, path, begun) = (request.method().clone(), request.uri().path().to_owned(), Instant::now());
        let id = format!("{:016x}", fastrand::u64(..));
        let (figures, _under_way) = (self.figures.clone(), self.figures.begin());
        let wish = Wish::of(&method, &path, request.headers());
        let deadline = self.options.limits.request_timeout + self.options.limits.body_timeout;
        let (mut parts, body) = request.into_parts();
        if let Ok(id) = HeaderValue::from_str(&id) {
            parts.headers.insert(REQUEST_ID, id);
        }
        let (body, unread) = unread::lend(&parts.headers, body.map_err(Into::into).boxed_unsync());
        let handling = self.handle(connection, parts, body.boxed_unsync()).boxed();
        let handled = std::panic::AssertUnwindSafe(timeout(deadline, handling)).catch_unwind().await;
        let response = match handled {
            Ok(Ok(Ok(response))) => response,
            Ok(Ok(Err(problem))) => problem.into_response().map(whole_again),
            Ok(Err(_)) => Problem::new(504, "Timeout", "the request took too long").into_response().map(whole_again),
            Err(_) => {
                tracing::error!(id, "a handler panicked; the request is answered with 500");
                Problem::new(500, "InternalError", "the server failed on this request; its log says where")
                    .into_response()
                    .map(whole_again)
            }
        };
        if response.status().is_client_error() {
            unread.discard().await;
        }
        let mut response = wish.grant(response).await;
        figures.answered(&method, &path, response.status(), begun.elapsed());
        tracing::debug!(%method, path, id, code = response.status().as_u16(), took = ?begun.elapsed(), "answered");
        let headers = response.headers_mut();
        headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("same-origin"));
        headers.insert(header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
        if let Ok(id) = HeaderValue::from_str(&id) {
            headers.insert(REQUEST_ID, id);
        }
        match origin {
            Some(origin) => {
                headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
                headers.append(header::VARY, HeaderValue::from_static("Origin"));
            }
            // No page of another origin can even embed it.
            None => {
                let name = HeaderName::from_static("cross-origin-resource-policy");
                headers.insert(name, HeaderValue::from_static("same-origin"));
            }
        }
        response
    }

    async fn handle(self: Arc<Self>, connection: Connection, parts: Parts, body: Body) -> Answered {
        let connection = &connection;
        let path = parts.uri.path();
        if self.console.is_some() && is_page(path) {
            // A link to the console may stand on any page, so only the host is looked at.
            door::known_host(&self.options, connection.tls, &parts.uri, &parts.headers)?;
            return assets::answer(&parts.method, path, &parts.headers);
        }
        let entered = door::check(&self.options, connection.tls, &parts.uri, &parts.headers)?;
        if let Some(preflight) = self.preflight(&parts.method, &parts.headers) {
            return Ok(preflight);
        }
        let Some(console) = &self.console else {
            let caller = Caller::of(&entered, &parts.method, &parts.headers, connection, None)?;
            return self.visit(self.apiext.clone(), caller, connection, parts, body).await;
        };
        if Sessions::is_open(path) {
            // Strangers share what their address may do.
            let _place = self.pace.enter(key(&[b"nobody"]), connection.address)?;
            let limits = &self.options.limits;
            return console.sessions.answer_nobody(&entered, connection, &parts, body, limits).await;
        }
        let room = console.rooms.iter().find(|room| room.owns(path)).cloned();
        match room {
            Some(room) if room.converses(path) => self.clone().converse(&entered, connection, room, parts).await,
            room => {
                let caller = Caller::of(&entered, &parts.method, &parts.headers, connection, Some(&console.sessions))?;
                let room =
                    room.ok_or_else(|| Problem::not_found("there is nothing at this path; see /wapi/v1/openapi.json"))?;
                self.visit(room, caller, connection, parts, body).await
            }
        }
    }

    async fn visit(
        &self,
        room: Arc<dyn Room>,
        caller: Caller,
        connection: &Connection,
        parts: Parts,
        body: Body,
    ) -> Answered {
        if caller.signed_in().is_some() {
            // Whoever has logged in is no stranger, even before the API was asked.
            self.pace.recognise(caller.key);
        }
        let _place = self.pace.enter(caller.key, connection.address)?;
        room.answer(Visit::new(caller, parts.method, &parts.uri, parts.headers, body)).await
    }

    /// Lets a WebSocket be opened. Who it is is known from a token, else from the ticket in its first frame: a cookie is not enough,
    /// for a browser sends it whoever's page opens the socket.
    async fn converse(
        self: Arc<Self>,
        entered: &Entered,
        connection: &Connection,
        room: Arc<dyn Room>,
        mut parts: Parts,
    ) -> Answered {
        let response = ws::handshake(&parts)?;
        if !entered.is_own() {
            return Err(Problem::new(403, "CrossOrigin", "a page of another origin may not open a WebSocket here"));
        }
        let known = match parts.headers.contains_key(header::AUTHORIZATION) {
            true => {
                let caller = Caller::of(entered, &parts.method, &parts.headers, connection, None)?;
                let _place = self.pace.enter(caller.key, connection.address)?;
                self.gatekeeper.recognise(&caller).await?;
                Some(caller)
            }
            false => {
                drop(self.pace.enter(key(&[b"nobody"]), connection.address)?);
                None
            }
        };
        let upgrade = parts.extensions.remove::<OnUpgrade>();
        let upgrade = upgrade.ok_or_else(|| Problem::bad_request("this connection cannot become a WebSocket"))?;
        let seat = self.introducing.take(key(&[b"address", connection.address.to_string().as_bytes()]))?;
        let site = self.clone();
        self.tasks.spawn(async move {
            let talk = async {
                let Ok(Ok(io)) = timeout(INTRODUCTION, upgrade).await else { return };
                let socket = Socket::new(TokioIo::new(io), site.stop.clone()).await;
                site.talk(room, known, parts, socket, seat).await;
            };
            site.cut.run_until_cancelled(talk).await;
        });
        Ok(response)
    }

    async fn talk(
        &self,
        room: Arc<dyn Room>,
        known: Option<Caller>,
        parts: Parts,
        mut socket: Socket,
        introducing: crate::seats::Seat,
    ) {
        let Some(console) = &self.console else { return };
        let caller = match known {
            Some(caller) => caller,
            None => match timeout(INTRODUCTION, socket.next()).await {
                Ok(Some(message)) => match introduced(&console.sessions, &message) {
                    Ok(caller) => caller,
                    Err(problem) => return socket.refuse(&problem).await,
                },
                Ok(None) => return,
                Err(_) => return socket.close(4408, "no ticket came").await,
            },
        };
        let _seat = match console.seats.take(caller.key) {
            Ok(seat) => seat,
            Err(problem) => return socket.refuse(&problem).await,
        };
        drop(introducing);
        let ended = {
            let caller = caller.clone();
            async move {
                caller.ended().await;
                // The room says goodbye itself; this is for one that does not.
                sleep(GRACE).await;
            }
        };
        let visit = Visit::new(caller, parts.method, &parts.uri, parts.headers, Body::default());
        let talking = std::panic::AssertUnwindSafe(room.converse(visit, socket)).catch_unwind();
        tokio::select! {
            done = talking => if done.is_err() {
                tracing::error!("a conversation panicked; its socket is closed");
            },
            () = ended => {}
        }
    }

    /// The answer to a browser that asks whether a page of a configured origin may call.
    fn preflight(&self, method: &Method, headers: &HeaderMap) -> Option<Response<Body>> {
        if *method != Method::OPTIONS {
            return None;
        }
        door::allowed_origin(&self.options, headers)?;
        let mut response = Response::new(Body::default());
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
}

fn introduced(sessions: &Sessions, message: &Message) -> Result<Caller, Problem> {
    let Message::Text(text) = message else {
        return Err(Problem::bad_request("the first frame is the text {\"ticket\":\"…\"}"));
    };
    let Introduction { ticket } = serde_json::from_str(text)
        .map_err(|_| Problem::bad_request("the first frame is the text {\"ticket\":\"…\"}"))?;
    sessions.redeem(&ticket)
}

/// Whether a path is the console's, not the API's.
fn is_page(path: &str) -> bool {
    let first = path.trim_start_matches('/').split('/').next().unwrap_or("");
    path.starts_with('/') && !path.starts_with("//") && !OWN.contains(&first)
}

fn whole_again(body: http_body_util::Full<bytes::Bytes>) -> Body {
    body.map_err(|never| match never {}).boxed_unsync()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_and_paths_of_the_api_are_told_apart() {
        for page in ["/", "/index.html", "/clusters/prod", "/assets/index-1.js", "/setup", "/apix", "/wapiti/v1"] {
            assert!(is_page(page), "{page}");
        }
        for own in
            ["/api", "/api/cluster/all", "/apis/zcloud.cn/v1", "/apiext/v1", "/wapi/v1/session", "//api", "*", ""]
        {
            assert!(!is_page(own), "{own}");
        }
    }
}
