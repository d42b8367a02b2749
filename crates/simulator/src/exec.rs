//! `pods/exec` and `pods/attach`: a simulated shell behind the WebSocket protocol of kubectl (`v4` and `v5.channel.k8s.io`).

use std::sync::Arc;
use std::time::Duration;

use apiserver::Body;
use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use meta::options::Query;
use meta::{Object, Status};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error as SocketError, Message};

use crate::log_request::container;
use crate::look::list;
use crate::member::Inner;
use crate::shell::{Outcome, Shell, Then, is_error};

/// A session in which nobody says anything for so long is over.
const IDLE: Duration = Duration::from_secs(4 * 3600);
/// How long a client may leave what is sent to it unread.
const STALL: Duration = Duration::from_secs(60);
/// The most a client may send at once, or type into one line, or feed to a command.
const MOST: usize = 1 << 20;
const PIECE: usize = 32 << 10;
const BUFFER: usize = 8 << 10;
const PROTOCOLS: [&str; 2] = ["v5.channel.k8s.io", "v4.channel.k8s.io"];

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const ERROR: u8 = 3;
const RESIZE: u8 = 4;
const CLOSE: u8 = 255;

/// What is to be run, and how.
struct Wish {
    words: Vec<String>,
    stdin: bool,
    tty: bool,
    attach: bool,
}

/// Answers a request that the API server has let through.
pub(crate) fn answer(
    inner: &Arc<Inner>,
    pod: Object,
    query: &str,
    headers: &HeaderMap,
    upgrade: Option<OnUpgrade>,
    attach: bool,
) -> Result<Response<Body>, Status> {
    let flags = Query::parse(Some(query));
    let container = container(&pod, &flags).to_owned();
    let status = list(&pod, "/status/containerStatuses").iter().find(|status| status["name"] == container.as_str());
    if !status.is_some_and(|status| status["state"]["running"].is_object()) {
        let why = format!("unable to upgrade connection: container not found ({container:?}): it does not run");
        return Err(Status::bad_request(why));
    }
    let words =
        form_urlencoded::parse(query.as_bytes()).filter(|(key, _)| key == "command").map(|(_, word)| word.into_owned());
    let wish = Wish {
        words: words.collect(),
        stdin: flags.flag("stdin").unwrap_or_default(),
        tty: flags.flag("tty").unwrap_or_default(),
        attach,
    };
    if wish.words.is_empty() && !attach {
        return Err(Status::bad_request("you must specify at least 1 command for the container"));
    }
    let (response, protocol) = handshake(headers)?;
    let upgrade = upgrade.ok_or_else(|| Status::bad_request("this connection cannot be upgraded; use HTTP/1.1"))?;
    let owner = Arc::clone(inner);
    inner.tasks.spawn(async move {
        let talk = async {
            let Ok(Ok(io)) = timeout(STALL, upgrade).await else { return };
            let config = WebSocketConfig::default().read_buffer_size(BUFFER).write_buffer_size(BUFFER);
            let config = config.max_message_size(Some(MOST)).max_frame_size(Some(MOST));
            let socket = WebSocketStream::from_raw_socket(TokioIo::new(io), Role::Server, Some(config)).await;
            let line = Line { socket, tty: wish.tty, half_close: protocol == PROTOCOLS[0], size: (0, 0) };
            Session { line, shell: Shell::new(&pod, &container), inner: Arc::clone(&owner) }.run(wish).await;
        };
        tokio::select! {
            () = talk => {}
            () = owner.stop.cancelled() => {}
            () = owner.way.clone().cut() => {}
        }
    });
    Ok(response)
}

/// The server's side of the opening handshake (RFC 6455), with the newest protocol both know.
fn handshake(headers: &HeaderMap) -> Result<(Response<Body>, &'static str), Status> {
    let has = |name: header::HeaderName, wanted: &str| {
        let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|value| value.split(',')).any(|value| value.trim().eq_ignore_ascii_case(wanted))
    };
    if !has(header::CONNECTION, "upgrade") || !has(header::UPGRADE, "websocket") {
        return Err(Status::bad_request("Upgrade request required: this server speaks WebSocket here"));
    }
    let key =
        headers.get(header::SEC_WEBSOCKET_KEY).ok_or_else(|| Status::bad_request("Sec-WebSocket-Key is missing"))?;
    let protocol = PROTOCOLS.into_iter().find(|protocol| has(header::SEC_WEBSOCKET_PROTOCOL, protocol));
    let protocol = protocol.ok_or_else(|| {
        Status::bad_request(format!(
            "unable to upgrade: none of the subprotocols is known; known are {}",
            PROTOCOLS.join(", ")
        ))
    })?;
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let fields = response.headers_mut();
    fields.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    fields.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    fields.insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(protocol));
    if let Ok(accept) = HeaderValue::from_str(&derive_accept_key(key.as_bytes())) {
        fields.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
    }
    Ok((response, protocol))
}

/// The client is gone.
#[derive(Debug)]
struct Gone;

/// What the client says.
enum Said {
    Typed(Bytes),
    /// No more input will come.
    Closed,
}

/// The connection, with its channels.
struct Line<S> {
    socket: WebSocketStream<S>,
    tty: bool,
    /// The client can say that its input has ended.
    half_close: bool,
    /// Rows and columns of the terminal, as the client last said them.
    size: (u16, u16),
}

/// Rows and columns, as a client says them: `{"Width": 80, "Height": 24}`.
fn sized(said: &[u8]) -> Option<(u16, u16)> {
    let said: Value = serde_json::from_slice(said).ok()?;
    let side = |name: &str| u16::try_from(said[name].as_u64()?).ok();
    Some((side("Height")?, side("Width")?))
}

impl<S: AsyncRead + AsyncWrite + Unpin> Line<S> {
    async fn send(&mut self, channel: u8, data: &[u8]) -> Result<(), Gone> {
        for piece in data.chunks(PIECE) {
            let mut frame = Vec::with_capacity(piece.len() + 1);
            frame.push(channel);
            frame.extend_from_slice(piece);
            let sent = timeout(STALL, self.socket.send(Message::Binary(frame.into()))).await;
            sent.map_err(|_| Gone)?.map_err(|_: SocketError| Gone)?;
        }
        Ok(())
    }

    /// Output of a command. A terminal has one channel, and its lines end as a terminal's do.
    async fn show(&mut self, channel: u8, text: &str) -> Result<(), Gone> {
        match self.tty {
            true => self.send(STDOUT, text.replace('\n', "\r\n").as_bytes()).await,
            false => self.send(channel, text.as_bytes()).await,
        }
    }

    async fn hear(&mut self) -> Result<Said, Gone> {
        loop {
            let message = timeout(IDLE, self.socket.next()).await.map_err(|_| Gone)?.ok_or(Gone)?.map_err(|_| Gone)?;
            let data: Bytes = match message {
                Message::Binary(data) => data,
                Message::Text(text) => Bytes::from(text.as_str().to_owned()),
                Message::Close(_) => return Err(Gone),
                _ => continue,
            };
            match data.split_first() {
                Some((&STDIN, typed)) => return Ok(Said::Typed(data.slice_ref(typed))),
                Some((&CLOSE, [STDIN])) if self.half_close => return Ok(Said::Closed),
                Some((&RESIZE, said)) => self.size = sized(said).unwrap_or(self.size),
                _ => {}
            }
        }
    }

    /// Says how it ended, and hangs up.
    async fn end(mut self, outcome: Value) -> Result<(), Gone> {
        self.send(ERROR, outcome.to_string().as_bytes()).await?;
        let farewell = CloseFrame { code: CloseCode::Normal, reason: "".into() };
        let _ = timeout(STALL, self.socket.close(Some(farewell))).await;
        // The client answers the farewell before the connection goes.
        while let Ok(Some(Ok(_))) = timeout(Duration::from_secs(1), self.socket.next()).await {}
        Ok(())
    }
}

fn success() -> Value {
    json!({"metadata": {}, "status": "Success"})
}

fn ended(code: i32) -> Value {
    if code == 0 {
        return success();
    }
    json!({"metadata": {}, "status": "Failure", "reason": "NonZeroExitCode",
        "message": format!("command terminated with non-zero exit code: exit status {code}"),
        "details": {"causes": [{"reason": "ExitCode", "message": code.to_string()}]}})
}

struct Session<S> {
    line: Line<S>,
    shell: Shell,
    inner: Arc<Inner>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Session<S> {
    async fn run(mut self, wish: Wish) {
        let ended = match self.serve(&wish).await {
            Ok(outcome) => self.line.end(outcome).await,
            Err(gone) => Err(gone),
        };
        if ended.is_err() {
            tracing::trace!("the client of a simulated shell went away");
        }
    }

    async fn serve(&mut self, wish: &Wish) -> Result<Value, Gone> {
        let now = self.inner.settings.clock.now();
        if wish.attach {
            let from = self.shell.log().map(|log| log.count(now)).unwrap_or_default();
            self.follow(false, from).await?;
            return Ok(success());
        }
        let program = wish.words.first().map(String::as_str).unwrap_or_default();
        if !Shell::knows(program) {
            let why = format!("exec: {program:?}: executable file not found in $PATH");
            return Ok(json!({"metadata": {}, "status": "Failure", "reason": "InternalError", "code": 500,
                "message": format!("Internal error occurred: error executing command in container: {why}")}));
        }
        if Shell::is_interactive(&wish.words) && wish.stdin {
            let code = if wish.tty { self.terminal().await? } else { self.script().await? };
            return Ok(ended(code));
        }
        let input = match wish.stdin && !wish.tty && matches!(program, "cat" | "grep" | "wc" | "head" | "tail") {
            true => Some(self.input().await?),
            false => None,
        };
        self.shell.size = wish.tty.then_some(self.line.size);
        let outcome = self.shell.run(&wish.words, input, now);
        self.perform(outcome).await.map(|outcome| ended(outcome.code))
    }

    /// All that is typed until it ends.
    async fn input(&mut self) -> Result<String, Gone> {
        let mut all = Vec::new();
        while all.len() < MOST {
            match self.line.hear().await? {
                Said::Typed(piece) => all.extend_from_slice(&piece),
                Said::Closed => break,
            }
        }
        Ok(String::from_utf8_lossy(&all).into_owned())
    }

    /// Shows what a command said, and waits for what it waits for.
    async fn perform(&mut self, mut outcome: Outcome) -> Result<Outcome, Gone> {
        self.line.show(STDOUT, &outcome.out).await?;
        self.line.show(STDERR, &outcome.err).await?;
        let interrupted = match outcome.then.take() {
            Some(Then::Sleep(time)) => self.wait(time).await?,
            Some(Then::Follow { errors, from }) => self.follow(errors, from).await?,
            None => false,
        };
        if interrupted {
            outcome.code = 130;
        }
        Ok(outcome)
    }

    /// True when somebody pressed control-C meanwhile.
    async fn wait(&mut self, time: Duration) -> Result<bool, Gone> {
        let over = tokio::time::sleep(time);
        let mut over = std::pin::pin!(over);
        let mut closed = false;
        loop {
            tokio::select! {
                () = &mut over => return Ok(false),
                said = self.line.hear(), if !closed => match said? {
                    Said::Typed(typed) if self.line.tty && typed.contains(&3) => {
                        self.line.show(STDOUT, "^C\n").await?;
                        return Ok(true);
                    }
                    Said::Typed(_) => {}
                    Said::Closed => closed = true,
                },
            }
        }
    }

    /// Shows the lines of the log as they are written, until interrupted.
    async fn follow(&mut self, errors: bool, mut next: u64) -> Result<bool, Gone> {
        loop {
            let Some(log) = self.shell.log().cloned() else { return Ok(false) };
            let now = self.inner.settings.clock.now();
            while next < log.count(now) {
                let line = log.line(next);
                next += 1;
                if !errors || is_error(&line) {
                    self.line.show(STDOUT, &format!("{line}\n")).await?;
                }
            }
            let wait = Duration::try_from(log.time(next).duration_since(now)).unwrap_or_default();
            if self.wait(wait.max(Duration::from_millis(1))).await? {
                return Ok(true);
            }
        }
    }

    /// Lines from a pipe.
    async fn script(&mut self) -> Result<i32, Gone> {
        let (mut buffer, mut code, mut closed) = (Vec::new(), 0, false);
        while !closed {
            match self.line.hear().await? {
                Said::Typed(piece) if buffer.len() + piece.len() <= MOST => buffer.extend_from_slice(&piece),
                Said::Typed(_) => return Ok(2),
                Said::Closed => {
                    buffer.push(b'\n');
                    closed = true;
                }
            }
            while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = buffer.drain(..=end).collect();
                let outcome = self.shell.line(&String::from_utf8_lossy(&line), self.inner.settings.clock.now());
                let outcome = self.perform(outcome).await?;
                code = outcome.code;
                if outcome.exit {
                    return Ok(code);
                }
            }
        }
        Ok(code)
    }

    /// A person at a terminal, which shows what is typed.
    async fn terminal(&mut self) -> Result<i32, Gone> {
        let (mut typed, mut code) = (String::new(), 0);
        let mut keys = Keys::default();
        self.line.show(STDOUT, &self.shell.prompt()).await?;
        loop {
            let Said::Typed(piece) = self.line.hear().await? else { return Ok(code) };
            for key in keys.read(&piece) {
                match key {
                    Key::Letter(c) if typed.len() < MOST => {
                        typed.push(c);
                        self.line.send(STDOUT, c.encode_utf8(&mut [0; 4]).as_bytes()).await?;
                    }
                    Key::Letter(_) => {}
                    Key::Rubout => {
                        if typed.pop().is_some() {
                            self.line.send(STDOUT, b"\x08 \x08").await?;
                        }
                    }
                    Key::Interrupt => {
                        typed.clear();
                        self.line.show(STDOUT, "^C\n").await?;
                        self.line.show(STDOUT, &self.shell.prompt()).await?;
                    }
                    Key::End if typed.is_empty() => {
                        self.line.show(STDOUT, "exit\n").await?;
                        return Ok(code);
                    }
                    Key::End => {}
                    Key::Enter => {
                        self.line.show(STDOUT, "\n").await?;
                        let line = std::mem::take(&mut typed);
                        self.shell.size = Some(self.line.size);
                        let outcome = self.shell.line(&line, self.inner.settings.clock.now());
                        let outcome = self.perform(outcome).await?;
                        code = outcome.code;
                        if outcome.exit {
                            return Ok(code);
                        }
                        self.line.show(STDOUT, &self.shell.prompt()).await?;
                    }
                }
            }
        }
    }
}

#[derive(Debug, PartialEq)]
enum Key {
    Letter(char),
    Enter,
    Rubout,
    Interrupt,
    End,
}

/// Bytes of a keyboard as keys. Arrows and the like are left out; letters of several bytes may come in pieces.
#[derive(Default)]
struct Keys {
    escape: Escape,
    partial: Vec<u8>,
}

#[derive(Default, PartialEq)]
enum Escape {
    #[default]
    No,
    Begun,
    Sequence,
}

impl Keys {
    fn read(&mut self, bytes: &[u8]) -> Vec<Key> {
        let mut keys = Vec::new();
        for byte in bytes {
            match (&self.escape, byte) {
                (Escape::Begun, b'[' | b'O') => self.escape = Escape::Sequence,
                (Escape::Begun, _) => self.escape = Escape::No,
                (Escape::Sequence, 0x40..=0x7e) => self.escape = Escape::No,
                (Escape::Sequence, _) => {}
                (Escape::No, 0x1b) => self.escape = Escape::Begun,
                (Escape::No, b'\r' | b'\n') => keys.push(Key::Enter),
                (Escape::No, 0x7f | 0x08) => keys.push(Key::Rubout),
                (Escape::No, 3) => keys.push(Key::Interrupt),
                (Escape::No, 4) => keys.push(Key::End),
                (Escape::No, 0..0x20) => {}
                (Escape::No, byte) => {
                    self.partial.push(*byte);
                    match std::str::from_utf8(&self.partial) {
                        Ok(letter) => {
                            keys.extend(letter.chars().map(Key::Letter));
                            self.partial.clear();
                        }
                        Err(e) if e.error_len().is_some() || self.partial.len() > 3 => self.partial.clear(),
                        Err(_) => {}
                    }
                }
            }
        }
        keys
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_whatever_pieces_they_come_in() {
        let mut keys = Keys::default();
        assert_eq!(keys.read(b"a\x1b[Ab\xc3"), [Key::Letter('a'), Key::Letter('b')]);
        assert_eq!(
            keys.read(b"\xbc\r\x7f\x03\x04"),
            [Key::Letter('ü'), Key::Enter, Key::Rubout, Key::Interrupt, Key::End]
        );
        assert_eq!(keys.read(b"\xff\xfe!"), [Key::Letter('!')]);
    }

    #[test]
    fn only_websockets_of_known_protocols_are_opened() {
        let mut headers = HeaderMap::new();
        assert!(handshake(&headers).is_err());
        headers.insert(header::CONNECTION, HeaderValue::from_static("keep-alive, Upgrade"));
        headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(header::SEC_WEBSOCKET_KEY, HeaderValue::from_static("dGhlIHNhbXBsZSBub25jZQ=="));
        assert!(handshake(&headers).is_err());
        headers
            .insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static("v4.channel.k8s.io, v5.channel.k8s.io"));
        let (response, protocol) = handshake(&headers).unwrap();
        assert_eq!((response.status().as_u16(), protocol), (101, "v5.channel.k8s.io"));
        assert_eq!(response.headers()[header::SEC_WEBSOCKET_ACCEPT], "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }
}
