//! WebSockets: the handshake, bounded messages, pings, and an end with a reason.
//!
//! A browser says who it is with a ticket in the first frame (`Door::talk`); what a room gets is a [`Socket`] whose caller is known.

use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use http::header::{self, HeaderName, HeaderValue};
use http::request::Parts;
use http::{HeaderMap, Method, Response, StatusCode, Version};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{self, Message as Frame};
use tokio_util::sync::CancellationToken;

use crate::problem::Problem;
use crate::visit::Body;

/// The largest message taken. A terminal's paste is cut into smaller ones by the console.
const LARGEST: usize = 256 << 10;
const BUFFER: usize = 8 << 10;
/// How often the peer is asked whether it lives, and how long it may be silent.
const PING: Duration = Duration::from_secs(15);
const SILENT: Duration = Duration::from_secs(45);
/// How long the peer may leave what is sent to it unread.
const STALL: Duration = Duration::from_secs(30);
const FAREWELL: Duration = Duration::from_secs(2);

/// Something said over a WebSocket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    Text(String),
    Binary(Bytes),
}

/// The peer does not listen any more.
#[derive(Debug)]
pub(crate) struct Gone;

trait Io: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Io for T {}

/// An open WebSocket, our side.
pub(crate) struct Socket {
    stream: WebSocketStream<Box<dyn Io>>,
    heard: Instant,
    ping: Interval,
    stop: CancellationToken,
}

impl Socket {
    pub(crate) async fn new(io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, stop: CancellationToken) -> Self {
        let config = WebSocketConfig::default()
            .read_buffer_size(BUFFER)
            .write_buffer_size(0)
            .max_write_buffer_size(4 << 20)
            .max_message_size(Some(LARGEST))
            .max_frame_size(Some(LARGEST));
        let io: Box<dyn Io> = Box::new(io);
        let stream = WebSocketStream::from_raw_socket(io, Role::Server, Some(config)).await;
        let mut ping = interval_at(Instant::now() + PING, PING);
        ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { stream, heard: Instant::now(), ping, stop }
    }

    /// What the peer says next; nothing when it is gone, broke the rules, or the server stops. May be dropped and called again.
    pub(crate) async fn next(&mut self) -> Option<Message> {
        loop {
            let frame = tokio::select! {
                frame = self.stream.next() => frame,
                _ = self.ping.tick() => {
                    if self.heard.elapsed() > SILENT || self.put(Frame::Ping(Bytes::new())).await.is_err() {
                        return None;
                    }
                    continue;
                }
                () = self.stop.cancelled() => {
                    self.farewell(1001, "the server stops").await;
                    return None;
                }
            };
            self.heard = Instant::now();
            match frame {
                Some(Ok(Frame::Text(text))) => return Some(Message::Text(text.as_str().to_owned())),
                Some(Ok(Frame::Binary(bytes))) => return Some(Message::Binary(bytes)),
                Some(Ok(Frame::Ping(_) | Frame::Pong(_) | Frame::Frame(_))) => {}
                Some(Err(tungstenite::Error::Capacity(_))) => {
                    self.farewell(1009, "the message is too large").await;
                    return None;
                }
                Some(Err(tungstenite::Error::Protocol(_) | tungstenite::Error::Utf8(_))) => {
                    self.farewell(1002, "that is not the WebSocket protocol").await;
                    return None;
                }
                Some(Ok(Frame::Close(_))) => {
                    // The answer to it is already queued.
                    let _ = timeout(FAREWELL, self.stream.flush()).await;
                    return None;
                }
                Some(Err(_)) | None => return None,
            }
        }
    }

    /// Says something. Waits while the peer does not read, but not for ever.
    pub(crate) async fn send(&mut self, message: Message) -> Result<(), Gone> {
        self.put(match message {
            Message::Text(text) => Frame::Text(text.into()),
            Message::Binary(bytes) => Frame::Binary(bytes),
        })
        .await
    }

    async fn put(&mut self, frame: Frame) -> Result<(), Gone> {
        match timeout(STALL, self.stream.send(frame)).await {
            Ok(Ok(())) => Ok(()),
            _ => Err(Gone),
        }
    }

    /// Ends it with a reason. Codes from 4000 are ours: 4000 and what HTTP would have said.
    pub(crate) async fn close(mut self, code: u16, why: &str) {
        self.farewell(code, why).await;
        // A connection that is dropped with something unread is reset, and the reason is lost on the way.
        let drained = async { while let Some(Ok(_)) = self.stream.next().await {} };
        let _ = timeout(FAREWELL, drained).await;
    }

    /// Ends it with what is wrong: code 4000 and the problem's.
    pub(crate) async fn refuse(self, problem: &Problem) {
        self.close(4000 + problem.code, &problem.message).await;
    }

    async fn farewell(&mut self, code: u16, why: &str) {
        let end = (0..=why.len().min(120)).rev().find(|at| why.is_char_boundary(*at)).unwrap_or(0);
        let frame = CloseFrame { code: CloseCode::from(code), reason: why[..end].into() };
        let _ = timeout(FAREWELL, self.stream.close(Some(frame))).await;
    }
}

/// Whether the request wants to become a WebSocket.
pub(crate) fn wanted(headers: &HeaderMap) -> bool {
    has(headers, header::UPGRADE, "websocket")
}

fn has(headers: &HeaderMap, name: HeaderName, wanted: &str) -> bool {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|value| value.trim().eq_ignore_ascii_case(wanted))
}

/// The server's side of the opening handshake (RFC 6455).
pub(crate) fn handshake(parts: &Parts) -> Result<Response<Body>, Problem> {
    let headers = &parts.headers;
    let upgrade = |why: &str| Problem::new(426, "UpgradeRequired", why).with("upgrade", "websocket");
    if parts.method != Method::GET || parts.version != Version::HTTP_11 {
        return Err(upgrade("a WebSocket begins with a GET over HTTP/1.1"));
    }
    if !has(headers, header::CONNECTION, "upgrade") || !wanted(headers) {
        return Err(upgrade("this path is a WebSocket: send Connection: Upgrade and Upgrade: websocket"));
    }
    if headers.get(header::SEC_WEBSOCKET_VERSION).is_none_or(|version| version != "13") {
        return Err(upgrade("only version 13 of the WebSocket protocol is spoken here"));
    }
    let mut keys = headers.get_all(header::SEC_WEBSOCKET_KEY).iter();
    let key = match (keys.next(), keys.next()) {
        (Some(key), None) if key.len() == 24 => key,
        _ => return Err(Problem::bad_request("Sec-WebSocket-Key must be one key of 16 bytes in base64")),
    };
    let mut response = Response::new(Body::default());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let fields = response.headers_mut();
    fields.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    fields.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    if let Ok(accept) = HeaderValue::from_str(&derive_accept_key(key.as_bytes())) {
        fields.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
    }
    Ok(response)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use http::Request;
    use tokio::io::{DuplexStream, duplex};

    async fn pair() -> (Socket, WebSocketStream<DuplexStream>, CancellationToken) {
        let (near, far) = duplex(1 << 20);
        let stop = CancellationToken::new();
        let socket = Socket::new(near, stop.clone()).await;
        (socket, WebSocketStream::from_raw_socket(far, Role::Client, None).await, stop)
    }

    #[tokio::test(start_paused = true)]
    async fn messages_go_both_ways_and_the_end_has_a_reason() {
        let (mut near, mut far, _stop) = pair().await;
        far.send(Frame::Text("hello".into())).await.unwrap();
        assert_eq!(near.next().await, Some(Message::Text("hello".to_owned())));
        near.send(Message::Binary(Bytes::from_static(b"\x01x"))).await.unwrap();
        assert_eq!(far.next().await.unwrap().unwrap().into_data(), Bytes::from_static(b"\x01x"));
        let closing = tokio::spawn(async move { near.refuse(&Problem::forbidden("é".repeat(300))).await });
        let Frame::Close(Some(frame)) = far.next().await.unwrap().unwrap() else { panic!() };
        assert_eq!(u16::from(frame.code), 4403);
        assert!(frame.reason.len() <= 120);
        drop(far);
        closing.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_says_nothing_for_too_long_is_gone() {
        let (mut near, far, _stop) = pair().await;
        let begun = Instant::now();
        assert_eq!(near.next().await, None);
        assert!(begun.elapsed() >= SILENT && begun.elapsed() <= SILENT + PING * 2);
        drop(far);
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_that_is_too_large_ends_it() {
        let (mut near, mut far, _stop) = pair().await;
        far.send(Frame::Binary(vec![0; LARGEST + 1].into())).await.unwrap();
        assert_eq!(near.next().await, None);
        let Frame::Close(Some(frame)) = far.next().await.unwrap().unwrap() else { panic!() };
        assert_eq!(u16::from(frame.code), 1009);
    }

    #[tokio::test(start_paused = true)]
    async fn the_servers_end_is_told() {
        let (mut near, mut far, stop) = pair().await;
        stop.cancel();
        assert_eq!(near.next().await, None);
        let Frame::Close(Some(frame)) = far.next().await.unwrap().unwrap() else { panic!() };
        assert_eq!(u16::from(frame.code), 1001);
    }

    #[test]
    fn only_a_whole_handshake_is_one() {
        let key = "dGhlIHNhbXBsZSBub25jZQ==";
        let parts = |pairs: &[(&str, &str)]| {
            let mut request = Request::get("/wapi/v1/stream");
            for (name, value) in pairs {
                request = request.header(*name, *value);
            }
            request.body(()).unwrap().into_parts().0
        };
        let all = [
            ("connection", "keep-alive, Upgrade"),
            ("upgrade", "websocket"),
            ("sec-websocket-version", "13"),
            ("sec-websocket-key", key),
        ];
        let response = handshake(&parts(&all)).unwrap();
        assert_eq!(response.headers()["sec-websocket-accept"], "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        for without in 0..all.len() {
            let some: Vec<_> = all.iter().enumerate().filter(|(at, _)| *at != without).map(|(_, pair)| *pair).collect();
            let code = handshake(&parts(&some)).err().unwrap().code;
            assert!(matches!(code, 426 | 400), "{without}: {code}");
        }
    }
}
