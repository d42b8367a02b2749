//! A command in a pod: the WebSocket to the member that carries its input, output and end (`v5.channel.k8s.io`, else `v4`).

use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use http::header::{self, HeaderValue};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error as SocketError, Message};

use super::reach::Reached;
use crate::access::Create;
use crate::problem::Problem;

pub(super) const STDIN: u8 = 0;
pub(super) const STDOUT: u8 = 1;
pub(super) const STDERR: u8 = 2;
pub(super) const ERROR: u8 = 3;
pub(super) const RESIZE: u8 = 4;
pub(super) const CLOSE: u8 = 255;

/// The most a member may say at once.
const LARGEST: usize = 1 << 20;
const BUFFER: usize = 16 << 10;
/// How long the connection may take to become a channel.
const OPEN: Duration = Duration::from_secs(10);
/// How long a member may leave what is sent to it unread.
const STALL: Duration = Duration::from_secs(30);
const V5: &str = "v5.channel.k8s.io";
const V4: &str = "v4.channel.k8s.io";
const MOST_WORDS: usize = 256;
/// The reason of a command without an exit code.
pub(super) const COMMAND_FAILED: &str = "CommandFailed";
const LONGEST_COMMAND: usize = 64 << 10;

/// What to run, and where.
#[derive(Clone, Debug)]
pub(super) struct Command<'a> {
    pub(super) pod: &'a str,
    pub(super) container: Option<&'a str>,
    /// Each word as it is: no shell reads them.
    pub(super) words: Vec<String>,
    pub(super) stdin: bool,
    pub(super) stdout: bool,
    pub(super) stderr: bool,
    pub(super) tty: bool,
}

impl Command<'_> {
    /// One whose output is read, and nothing said to it.
    pub(super) fn quiet<'a>(pod: &'a str, container: Option<&'a str>, words: Vec<String>) -> Command<'a> {
        Command { pod, container, words, stdin: false, stdout: true, stderr: true, tty: false }
    }

    fn query(&self) -> Result<String, Problem> {
        let size: usize = self.words.iter().map(String::len).sum();
        if self.words.first().is_none_or(String::is_empty) {
            return Err(Problem::bad_request("the parameter command is missing: once for each word")
                .with("parameter", "command"));
        }
        if self.words.len() > MOST_WORDS || size > LONGEST_COMMAND || self.words.iter().any(|word| word.contains('\0'))
        {
            let why = format!("a command has at most {MOST_WORDS} words and {LONGEST_COMMAND} bytes, and no NUL");
            return Err(Problem::bad_request(why).with("parameter", "command"));
        }
        let mut query = form_urlencoded::Serializer::new(String::new());
        if let Some(container) = self.container {
            query.append_pair("container", container);
        }
        for (name, on) in [("stdin", self.stdin), ("stdout", self.stdout), ("stderr", self.stderr), ("tty", self.tty)] {
            query.append_pair(name, if on { "true" } else { "false" });
        }
        query.extend_pairs(self.words.iter().map(|word| ("command", word)));
        Ok(query.finish())
    }
}

/// Something the command said.
#[derive(Debug, PartialEq)]
pub(super) enum Said {
    /// On one of its channels; the first byte is the channel's number.
    Frame(Bytes),
    /// How it ended.
    Ended(Bytes),
}

/// A running command.
pub(super) struct Channel {
    stream: WebSocketStream<TokioIo<Upgraded>>,
    /// Whether the end of the input can be said.
    half_close: bool,
}

impl Channel {
    pub(super) async fn open(reached: &Reached<'_, Create>, command: &Command<'_>) -> Result<Self, Problem> {
        let query = command.query()?;
        match timeout(OPEN, Self::connect(reached, command.pod, &query)).await {
            Ok(opened) => opened,
            Err(_) => {
                Err(Problem::new(504, "ClusterSlow", format!("{} did not start the command in time", reached.name()))
                    .with("cluster", &**reached.name()))
            }
        }
    }

    async fn connect(reached: &Reached<'_, Create>, pod: &str, query: &str) -> Result<Self, Problem> {
        let failed = |why: &str| {
            let why = format!("the cluster {} did not open a channel to the pod: {why}", reached.name());
            Problem::new(502, "ClusterFailed", why).with("cluster", &**reached.name())
        };
        let key = generate_key();
        let headers = [
            (header::CONNECTION, HeaderValue::from_static("Upgrade")),
            (header::UPGRADE, HeaderValue::from_static("websocket")),
            (header::SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13")),
            (header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static("v5.channel.k8s.io, v4.channel.k8s.io")),
            (header::SEC_WEBSOCKET_KEY, HeaderValue::from_str(&key).map_err(|_| failed("no key could be made"))?),
        ];
        let response = reached.upgrade(pod, query, &headers).await?;
        if response.status() != http::StatusCode::SWITCHING_PROTOCOLS {
            return Err(failed("it answered, but did not switch to another protocol"));
        }
        let half_close = answered(response.headers(), &key).map_err(failed)?;
        let io = hyper::upgrade::on(response).await.map_err(|_| failed("the connection broke"))?;
        let config = WebSocketConfig::default()
            .read_buffer_size(BUFFER)
            .write_buffer_size(0)
            .max_write_buffer_size(4 << 20)
            .max_message_size(Some(LARGEST))
            .max_frame_size(Some(LARGEST));
        let stream = WebSocketStream::from_raw_socket(TokioIo::new(io), Role::Client, Some(config)).await;
        Ok(Self { stream, half_close })
    }

    /// What it says next; nothing when the connection is gone. May be dropped and called again.
    pub(super) async fn next(&mut self) -> Option<Said> {
        loop {
            let frame = match self.stream.next().await? {
                Ok(Message::Binary(bytes)) => bytes,
                Ok(Message::Text(text)) => Bytes::copy_from_slice(text.as_bytes()),
                Ok(Message::Close(_)) | Err(_) => return None,
                Ok(_) => continue,
            };
            match frame.first() {
                Some(&ERROR) => return Some(Said::Ended(frame.slice(1..))),
                // The first frame of a channel may be empty.
                Some(&(STDOUT | STDERR)) if frame.len() > 1 => return Some(Said::Frame(frame)),
                _ => {}
            }
        }
    }

    /// Says something on a channel: `frame` begins with its number.
    pub(super) async fn send(&mut self, frame: Bytes) -> Result<(), Gone> {
        // Who cannot be told of the end gets none: the command sees it when the connection goes.
        if frame.first() == Some(&CLOSE) && !self.half_close {
            return Ok(());
        }
        match timeout(STALL, self.stream.send(Message::Binary(frame))).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(Gone),
        }
    }

    /// Shows the member that somebody is still here.
    pub(super) async fn ping(&mut self) -> Result<(), Gone> {
        let sent: Result<Result<(), SocketError>, _> =
            timeout(STALL, self.stream.send(Message::Ping(Bytes::new()))).await;
        match sent {
            Ok(Ok(())) => Ok(()),
            _ => Err(Gone),
        }
    }
}

/// Whether a member's handshake answers ours, and in which version of the protocol: says whether that knows the end of input.
fn answered(headers: &http::HeaderMap, key: &str) -> Result<bool, &'static str> {
    let said = |name: header::HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    if said(header::SEC_WEBSOCKET_ACCEPT) != Some(derive_accept_key(key.as_bytes()).as_str()) {
        return Err("its handshake is not an answer to ours");
    }
    match said(header::SEC_WEBSOCKET_PROTOCOL) {
        Some(V5) => Ok(true),
        Some(V4) => Ok(false),
        _ => Err("it speaks neither v5 nor v4 of the protocol"),
    }
}

/// The member does not listen any more.
#[derive(Debug)]
pub(super) struct Gone;

/// With which code a command ended. A member that gives none has failed itself: whether the command ran is known only if it has
/// `spoken`.
pub(super) fn exit_code(status: &[u8], spoken: bool) -> Result<i32, Problem> {
    let status: Value = serde_json::from_slice(status).unwrap_or_default();
    if status["status"] == "Success" {
        return Ok(0);
    }
    let causes = status["details"]["causes"].as_array().map(Vec::as_slice).unwrap_or_default();
    let code = causes.iter().find(|cause| cause["reason"] == "ExitCode").and_then(|cause| cause["message"].as_str());
    match code.and_then(|code| code.parse().ok()) {
        Some(code) => Ok(code),
        None => {
            let why = status["message"].as_str().unwrap_or("it gave no reason");
            let (code, what) = match spoken {
                true => (502, "the command ran, but the cluster lost it before its end and knows no exit code"),
                false => (422, "the cluster could not run the command, or lost it, and knows no exit code"),
            };
            Err(Problem::new(code, COMMAND_FAILED, format!("{what}: {why}")))
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn words_of_a_command_stay_words() {
        // SYM-13
        let words = ["sh", "-c", "echo $(id) & rm -rf /", ""].map(str::to_owned).to_vec();
        let query = Command::quiet("p", Some("c"), words.clone()).query().unwrap();
        let read: Vec<(String, String)> = form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        let commands: Vec<&String> = read.iter().filter(|(key, _)| key == "command").map(|(_, value)| value).collect();
        assert_eq!(commands, words.iter().collect::<Vec<_>>());
        assert!(read.contains(&("stdin".to_owned(), "false".to_owned())));
        for bad in
            [vec![], vec![String::new()], vec!["a\0b".to_owned()], vec!["x".to_owned(); 300], vec!["x".repeat(70_000)]]
        {
            assert_eq!(Command::quiet("p", None, bad).query().unwrap_err().code, 400);
        }
    }

    #[test]
    fn the_end_of_a_command_is_its_code_or_a_reason() {
        assert_eq!(exit_code(br#"{"status":"Success"}"#, false).unwrap(), 0);
        let failed = br#"{"status":"Failure","reason":"NonZeroExitCode","details":{"causes":[{"reason":"ExitCode","message":"3"}]}}"#;
        assert_eq!(exit_code(failed, true).unwrap(), 3);
        assert!(exit_code(b"garbage", false).is_err());
    }

    #[test]
    fn a_member_that_failed_itself_is_not_said_to_have_run_nothing() {
        // SYM-13
        let status = br#"{"status":"Failure","reason":"InternalError","message":"the runtime is gone"}"#;
        let silent = exit_code(status, false).unwrap_err();
        assert_eq!((silent.code, silent.reason.as_str()), (422, COMMAND_FAILED));
        assert!(silent.message.contains("or lost it") && silent.message.ends_with("the runtime is gone"), "{silent}");
        let spoken = exit_code(status, true).unwrap_err();
        assert_eq!((spoken.code, spoken.reason.as_str()), (502, COMMAND_FAILED));
        assert!(spoken.message.starts_with("the command ran"), "{spoken}");
    }
}
