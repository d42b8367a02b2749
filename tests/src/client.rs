//! The client of the suites: one call is one struct; bytes in, bytes out, nothing retried or hidden.
use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::peer::TOKEN;
use crate::{PATIENCE, Peer};

pub type H2 = http2::SendRequest<BoxBody<Bytes, Infallible>>;
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// A body and the media type it has unless the call says otherwise.
pub struct Body(pub Bytes, pub &'static str);

impl From<Value> for Body {
    fn from(value: Value) -> Self {
        Body(value.to_string().into(), "application/json")
    }
}
impl From<&Value> for Body {
    fn from(value: &Value) -> Self {
        Body(value.to_string().into(), "application/json")
    }
}
impl From<&str> for Body {
    fn from(text: &str) -> Self {
        Body(Bytes::copy_from_slice(text.as_bytes()), "application/json")
    }
}
impl From<String> for Body {
    fn from(text: String) -> Self {
        Body(text.into(), "application/json")
    }
}
impl From<Vec<u8>> for Body {
    fn from(bytes: Vec<u8>) -> Self {
        Body(bytes.into(), "application/json")
    }
}

pub fn tls_config(roots: rustls::RootCertStore) -> Arc<rustls::ClientConfig> {
    Arc::new(rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth())
}

/// The connection that most calls share.
#[derive(Default)]
pub(crate) struct Connections {
    shared: Mutex<Option<H2>>,
}

impl Connections {
    pub(crate) fn forget(&self) {
        *self.shared.lock().unwrap() = None;
    }
}

impl Peer {
    /// TLS with exactly this protocol offered (`h2`, `http/1.1`), for those who speak raw bytes.
    pub async fn tls(&self, protocol: &str) -> Result<TlsStream<BufReader<TcpStream>>, Failure> {
        let mut config = (*self.tls).clone();
        config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        let stream = TcpStream::connect(("127.0.0.1", self.port)).await?;
        stream.set_nodelay(true)?;
        let name = rustls::pki_types::ServerName::try_from("127.0.0.1")?;
        // rustls reads 4 KiB at a time; the buffer below it makes that one system call in sixteen.
        Ok(TlsConnector::from(Arc::new(config)).connect(name, BufReader::with_capacity(64 << 10, stream)).await?)
    }

    pub async fn h2(&self) -> Result<H2, Failure> {
        let stream = TokioIo::new(self.tls("h2").await?);
        let (sender, connection) = http2::Builder::new(TokioExecutor::new())
            .initial_stream_window_size(4 << 20)
            .initial_connection_window_size(64 << 20)
            .handshake(stream)
            .await?;
        tokio::spawn(connection);
        Ok(sender)
    }

    async fn shared(&self) -> Result<H2, Failure> {
        let known = self.connections.shared.lock().unwrap().clone();
        if let Some(sender) = known.filter(|sender| !sender.is_closed()) {
            return Ok(sender);
        }
        let sender = self.h2().await?;
        *self.connections.shared.lock().unwrap() = Some(sender.clone());
        Ok(sender)
    }

    /// Sends raw bytes over TLS and reads until the server closes or `limit` passes.
    pub async fn raw(&self, bytes: &[u8], limit: Duration) -> Vec<u8> {
        let mut stream = self.tls("http/1.1").await.expect("tls");
        let _ = stream.write_all(bytes).await;
        let _ = stream.flush().await;
        read_until(&mut stream, limit).await
    }
}

/// Everything the stream gives until its end or `limit`.
pub async fn read_until(stream: &mut (impl tokio::io::AsyncRead + Unpin), limit: Duration) -> Vec<u8> {
    let mut all = Vec::new();
    let _ = tokio::time::timeout(limit, async {
        let mut buffer = [0; 16384];
        while let Ok(n) = stream.read(&mut buffer).await {
            if n == 0 {
                break;
            }
            all.extend_from_slice(&buffer[..n]);
        }
    })
    .await;
    all
}

/// The head of an answer whose connection may stay open after it, and what came with it.
pub async fn read_head(stream: &mut (impl tokio::io::AsyncRead + Unpin)) -> String {
    let mut all = Vec::new();
    let _ = tokio::time::timeout(PATIENCE, async {
        let mut buffer = [0; 16384];
        while !all.windows(4).any(|end| end == b"\r\n\r\n") {
            match stream.read(&mut buffer).await {
                Ok(n) if n > 0 => all.extend_from_slice(&buffer[..n]),
                _ => break,
            }
        }
    })
    .await;
    String::from_utf8_lossy(&all).into_owned()
}

pub(crate) async fn plain_post(port: u16, path: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.expect("connect");
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.expect("write");
    String::from_utf8_lossy(&read_until(&mut stream, PATIENCE).await).into_owned()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Shared,
    Fresh,
    Http1,
    PlainHttp1,
}

/// One request.
#[derive(Clone)]
pub struct Call<'a> {
    peer: &'a Peer,
    method: &'a str,
    path: String,
    headers: Vec<(String, String)>,
    body: Option<Bytes>,
    media: Option<String>,
    token: Option<String>,
    limit: Duration,
    way: Way,
}

impl<'a> Call<'a> {
    pub fn new(peer: &'a Peer, method: &'a str, path: &str) -> Self {
        Call {
            peer,
            method,
            path: path.to_owned(),
            headers: Vec::new(),
            body: None,
            media: None,
            token: Some(TOKEN.to_owned()),
            limit: PATIENCE,
            way: Way::Shared,
        }
    }

    pub fn get(peer: &'a Peer, path: &str) -> Self {
        Self::new(peer, "GET", path)
    }

    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn accept(self, media: &str) -> Self {
        self.header("accept", media)
    }

    pub fn body(mut self, body: impl Into<Body>) -> Self {
        let Body(bytes, media) = body.into();
        self.body = Some(bytes);
        self.media.get_or_insert(media.to_owned());
        self
    }

    /// The content type; an empty one sends none.
    pub fn media(mut self, media: &str) -> Self {
        self.media = Some(media.to_owned()).filter(|media| !media.is_empty());
        self
    }

    pub fn token(mut self, token: Option<&str>) -> Self {
        self.token = token.map(str::to_owned);
        self
    }

    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// On a connection of its own.
    pub fn fresh(mut self) -> Self {
        self.way = Way::Fresh;
        self
    }

    pub fn http1(mut self) -> Self {
        self.way = Way::Http1;
        self
    }

    /// Over the port without TLS.
    pub fn plain(mut self) -> Self {
        self.way = Way::PlainHttp1;
        self
    }

    pub async fn send(self) -> Answer {
        let what = format!("{} {}", self.method, self.path);
        let peer = self.peer;
        match self.try_send().await {
            Ok(answer) => answer,
            Err(why) => panic!("{what}: {why:?}{}", if peer.alive() { String::new() } else { peer.log_tail() }),
        }
    }

    pub async fn try_send(self) -> Result<Answer, Failure> {
        let what = format!("{} {}", self.method, self.path);
        let limit = self.limit;
        tokio::time::timeout(limit, async {
            let mut tries = 0;
            loop {
                tries += 1;
                let opened = match self.clone().open().await {
                    Err(why) if tries < 9 && why.downcast_ref().is_some_and(|why| self.can_go_again(why)) => {
                        tokio::time::sleep(Duration::from_millis(10)).await;
                        continue;
                    }
                    opened => opened?,
                };
                let (parts, body) = opened.into_parts();
                let body = match body.collect().await {
                    // A refusal did nothing, so it can be had again, with its body.
                    Err(cut)
                        if tries < 9
                            && (self.can_go_again(&cut) && self.method == "GET"
                                || parts.status.as_u16() >= 400 && is_goodbye(&cut)) =>
                    {
                        continue;
                    }
                    body => body?.to_bytes(),
                };
                let status = parts.status.as_u16();
                return Ok(Answer { what, status, version: parts.version, headers: parts.headers, body });
            }
        })
        .await
        .map_err(|_| format!("no answer within {limit:?}"))?
    }

    /// Whether what failed was not done, or was only looked at. The server may say goodbye to the connection that calls share,
    /// and on a machine that stood still in between it hangs up before whatever is under way on it is answered.
    fn can_go_again(&self, why: &hyper::Error) -> bool {
        is_goodbye(why) || self.method == "GET" && self.way == Way::Shared && is_cut(why)
    }

    pub async fn open(self) -> Result<http::Response<Incoming>, Failure> {
        let authority = match self.way {
            Way::PlainHttp1 => format!("127.0.0.1:{}", self.peer.plain_port.unwrap_or(0)),
            _ => format!("127.0.0.1:{}", self.peer.port),
        };
        let uri = match self.way {
            Way::Shared | Way::Fresh => format!("https://{authority}{}", self.path),
            Way::Http1 | Way::PlainHttp1 => self.path.clone(),
        };
        let mut request = Request::builder().method(self.method).uri(uri);
        if matches!(self.way, Way::Http1 | Way::PlainHttp1) {
            request = request.header("host", &authority);
        }
        for (name, value) in &self.headers {
            request = request.header(name.as_str(), value.as_str());
        }
        if let (Some(media), Some(_)) = (&self.media, &self.body) {
            request = request.header("content-type", media.as_str());
        }
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let whole = request.body(Full::new(self.body.unwrap_or_default()))?;
        let request = whole.clone().map(BodyExt::boxed);
        match self.way {
            Way::Shared => match self.peer.shared().await?.send_request(request).await {
                Err(refused) if is_goodbye(&refused) => {
                    Ok(self.peer.h2().await?.send_request(whole.map(BodyExt::boxed)).await?)
                }
                answered => Ok(answered?),
            },
            Way::Fresh => Ok(self.peer.h2().await?.send_request(request).await?),
            Way::Http1 => {
                let (mut sender, connection) = http1::handshake(TokioIo::new(self.peer.tls("http/1.1").await?)).await?;
                tokio::spawn(connection);
                Ok(sender.send_request(request).await?)
            }
            Way::PlainHttp1 => {
                let stream = TcpStream::connect(authority).await?;
                let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
                tokio::spawn(connection);
                Ok(sender.send_request(request).await?)
            }
        }
    }
}

/// Whether the server said goodbye without an error. Kubernetes does on the connection of a 401, to whatever came after
/// it there, unread, and sometimes before the body of the 401 itself.
fn is_goodbye(refused: &hyper::Error) -> bool {
    let cause = std::error::Error::source(refused).and_then(|cause| cause.downcast_ref::<h2::Error>());
    cause.is_some_and(|cause| cause.is_go_away() && cause.is_remote() && cause.reason() == Some(h2::Reason::NO_ERROR))
        || refused.is_canceled()
}

/// Whether the connection broke.
fn is_cut(failed: &hyper::Error) -> bool {
    let mut cause = std::error::Error::source(failed);
    while let Some(why) = cause {
        if why.is::<std::io::Error>() || why.downcast_ref::<h2::Error>().is_some_and(h2::Error::is_io) {
            return true;
        }
        cause = why.source();
    }
    false
}

/// One answer, whole.
pub struct Answer {
    pub what: String,
    pub status: u16,
    pub version: http::Version,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Answer {
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("")
    }

    pub fn warnings(&self) -> Vec<String> {
        self.headers.get_all("warning").iter().filter_map(|value| value.to_str().ok()).map(str::to_owned).collect()
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|why| panic!("{}: not JSON ({why}): {}", self.what, self.text()))
    }

    /// The body of an answer with this code.
    #[track_caller]
    pub fn ok(&self, code: u16) -> Value {
        assert_eq!(self.status, code, "{}: {}", self.what, self.text());
        self.json()
    }

    /// A Status failure with this code and reason; checks the invariants every Status keeps.
    #[track_caller]
    pub fn fails(&self, code: u16, reason: &str) -> Value {
        assert_eq!(self.status, code, "{}: {}", self.what, self.text());
        assert!(self.header("content-type").starts_with("application/json"), "{}: {}", self.what, self.text());
        let status = self.json();
        assert_eq!(status["kind"], "Status", "{}: {status}", self.what);
        assert_eq!(status["apiVersion"], "v1", "{}: {status}", self.what);
        assert_eq!(status["status"], "Failure", "{}: {status}", self.what);
        assert_eq!(status["code"], code, "{}: {status}", self.what);
        assert_eq!(status["reason"].as_str().unwrap_or(""), reason, "{}: {status}", self.what);
        assert!(status["metadata"].is_object(), "{}: {status}", self.what);
        status
    }

    /// Bad input that Kubernetes answers with 500 and no reason: we say 400, since it is not the server that failed (B-1).
    #[track_caller]
    pub fn bad_request_or_internal(&self, peer: &Peer) {
        if peer.is_muster() || self.status != 500 {
            self.fails(400, "BadRequest");
        } else {
            self.fails(500, "");
        }
    }

    /// A 422 that names exactly these fields.
    #[track_caller]
    pub fn invalid(&self, fields: &[&str]) -> Value {
        let status = self.fails(422, "Invalid");
        let causes = status["details"]["causes"].as_array().cloned().unwrap_or_default();
        let mut named: Vec<&str> = causes.iter().filter_map(|cause| cause["field"].as_str()).collect();
        named.dedup();
        assert_eq!(named, fields, "{}: {status}", self.what);
        status
    }
}

/// A watch stream read event by event.
pub struct Watch {
    what: String,
    body: Incoming,
    buffer: Vec<u8>,
    ready: VecDeque<Value>,
    pub headers: HeaderMap,
}

impl Watch {
    pub async fn open(peer: &Peer, path: &str, accept: Option<&str>) -> Watch {
        Self::try_open(peer, path, accept).await.unwrap_or_else(|answer| panic!("{path}: {answer}"))
    }

    pub async fn try_open(peer: &Peer, path: &str, accept: Option<&str>) -> Result<Watch, String> {
        let mut call = Call::get(peer, path);
        if let Some(accept) = accept {
            call = call.accept(accept);
        }
        Self::try_by(call).await
    }

    /// Watches with any call, on a connection of its own.
    pub async fn by(call: Call<'_>) -> Watch {
        let what = call.path.clone();
        Self::try_by(call).await.unwrap_or_else(|answer| panic!("{what}: {answer}"))
    }

    pub async fn try_by(call: Call<'_>) -> Result<Watch, String> {
        let (what, call) = (call.path.clone(), call.fresh());
        let opened = tokio::time::timeout(PATIENCE, call.open()).await;
        let response = opened.map_err(|_| "headers did not come".to_owned())?.map_err(|why| why.to_string())?;
        let (parts, body) = response.into_parts();
        if parts.status != 200 {
            let text = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
            return Err(format!("{}: {}", parts.status, String::from_utf8_lossy(&text)));
        }
        Ok(Watch { what, body, buffer: Vec::new(), ready: VecDeque::new(), headers: parts.headers })
    }

    /// The next event; `None` when the stream ended.
    pub async fn next(&mut self) -> Option<Value> {
        match tokio::time::timeout(PATIENCE, self.advance()).await {
            Ok(event) => event,
            Err(_) => panic!("{}: no event within {PATIENCE:?}", self.what),
        }
    }

    /// The next event that is not a bookmark.
    pub async fn event(&mut self) -> Value {
        loop {
            let event = self.next().await.unwrap_or_else(|| panic!("{}: the stream ended", self.what));
            if event["type"] != "BOOKMARK" {
                return event;
            }
        }
    }

    /// Expects the next event to be of this type about this object, and gives the object.
    #[track_caller]
    pub fn expect<'a>(&'a mut self, kind: &'a str, name: &'a str) -> impl Future<Output = Value> + 'a {
        let caller = std::panic::Location::caller();
        async move {
            let event = self.event().await;
            assert!(
                event["type"] == kind && event["object"]["metadata"]["name"] == name,
                "{caller}: expected {kind} {name}, got {event}"
            );
            event["object"].clone()
        }
    }

    /// Asserts that nothing comes for a while.
    pub async fn quiet(&mut self, time: Duration) {
        if let Ok(Some(event)) = tokio::time::timeout(time, self.advance()).await {
            panic!("{}: unexpected {event}", self.what);
        }
    }

    /// All events until the server ends the stream.
    pub async fn rest(&mut self) -> Vec<Value> {
        let mut events = Vec::new();
        while let Some(event) = self.next().await {
            events.push(event);
        }
        events
    }

    /// Like [`Watch::next`] without a limit; `Err` when the connection broke.
    pub async fn advance(&mut self) -> Option<Value> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            let frame = self.body.frame().await?;
            let Ok(frame) = frame else { return None };
            if let Ok(data) = frame.into_data() {
                self.buffer.extend_from_slice(&data);
                while let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                    let line: Vec<u8> = self.buffer.drain(..=end).collect();
                    let event = serde_json::from_slice(&line)
                        .unwrap_or_else(|why| panic!("{}: {why}: {}", self.what, String::from_utf8_lossy(&line)));
                    self.ready.push_back(event);
                }
            }
        }
    }
}
