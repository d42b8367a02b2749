//! `muster terminal POD`: a shell in a container, with this terminal at its end.

use std::{
    io::{IsTerminal, Write},
    time::Duration,
};

use clap::Args;
use futures_util::{SinkExt, StreamExt};
use rustix::termios::{self, OptionalActions, Termios};
use serde_json::{Value, json};
use tokio::{
    io::AsyncReadExt,
    signal::unix::{SignalKind, signal},
    time::timeout,
};
use tokio_tungstenite::tungstenite::{Bytes, Message};

use super::{
    gateway::{Server, Url},
    scope::Scope,
    words::readable,
};
use crate::problem::{Kind, Problem};

#[derive(Debug, Args)]
pub struct Terminal {
    /// The pod
    pub pod: String,
    /// The container, where the pod has several
    #[arg(short, long, value_name = "NAME")]
    pub container: Option<String>,
    /// What to run there
    #[arg(long, default_value = "sh", value_name = "PROGRAM")]
    pub command: String,
    #[command(flatten)]
    pub scope: Scope,
    #[command(flatten)]
    pub server: Server,
}

/// The first byte of every message, as in Kubernetes' v5.channel.k8s.io.
mod channel {
    pub const INPUT: u8 = 0;
    pub const OUTPUT: u8 = 1;
    pub const ERRORS: u8 = 2;
    pub const END: u8 = 3;
    pub const SIZE: u8 = 4;
}

/// Ctrl-], which leaves a terminal that does not answer.
const LEAVE: u8 = 0x1d;
/// For the last words of a connection.
const FAREWELL: Duration = Duration::from_secs(2);

/// The exit code is the program's.
pub async fn run(flags: Terminal) -> Result<u8, Problem> {
    if !(std::io::stdin().is_terminal() && std::io::stdout().is_terminal()) {
        return Err(Problem::new(Kind::Usage, "there is no terminal here", "this is not run by a person")
            .next(format!("run one command instead: muster exec {} -- COMMAND", flags.pod)));
    }
    let gateway = flags.server.gateway()?;
    let pod = flags.scope.pod(&gateway, &flags.pod).await?;
    let url = Url::of(&["api", "cluster", &pod.cluster, "terminal"])
        .with("namespace", &pod.namespace)
        .with("pod", &pod.name)
        .with_some("container", flags.container.as_ref())
        .with("command", &flags.command)
        .with("tty", "true");
    let mut socket = gateway.web_socket(&url).await?;
    let failed = |why: String| Problem::new(Kind::Unreachable, "the terminal broke off", why);
    let mut resized = signal(SignalKind::window_change()).map_err(|e| failed(e.to_string()))?;
    eprintln!("{}; Ctrl-] leaves a terminal that hangs", pod.place());
    let raw = Raw::enter()?;
    socket.send(size()).await.map_err(|e| failed(e.to_string()))?;
    let (mut input, mut keys, mut open) = (tokio::io::stdin(), vec![0; 4096], true);
    let ended = loop {
        tokio::select! {
            message = socket.next() => match message {
                Some(Ok(Message::Binary(bytes))) => match heard(&bytes) {
                    Heard::Print(text) => {
                        let mut out = std::io::stdout();
                        if out.write_all(text).and_then(|()| out.flush()).is_err() {
                            break Ok(0);
                        }
                    }
                    Heard::Ended(outcome) => break outcome,
                    Heard::Nothing => {}
                },
                Some(Ok(Message::Close(frame))) => {
                    let why = frame.map(|frame| readable(&frame.reason, 300)).filter(|why| !why.is_empty());
                    break match why {
                        Some(why) => Err(Problem::new(Kind::Failed, "the terminal was closed", why)),
                        None => Ok(0),
                    };
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => break Err(failed(error.to_string())),
                None => break Ok(0),
            },
            count = input.read(&mut keys), if open => match count {
                Ok(0) | Err(_) => open = false,
                Ok(count) if keys[..count].contains(&LEAVE) => break Ok(0),
                Ok(count) => {
                    let typed = [&[channel::INPUT], &keys[..count]].concat();
                    if let Err(error) = socket.send(Message::Binary(Bytes::from(typed))).await {
                        break Err(failed(error.to_string()));
                    }
                }
            },
            _ = resized.recv() => {
                if let Err(error) = socket.send(size()).await {
                    break Err(failed(error.to_string()));
                }
            }
        }
    };
    drop(raw);
    let _ = timeout(FAREWELL, socket.close(None)).await;
    ended
}

/// What a message means.
enum Heard<'a> {
    Print(&'a [u8]),
    Ended(Result<u8, Problem>),
    Nothing,
}

fn heard(message: &[u8]) -> Heard<'_> {
    match message.split_first() {
        Some((&(channel::OUTPUT | channel::ERRORS), text)) => Heard::Print(text),
        Some((&channel::END, status)) => Heard::Ended(outcome(status)),
        _ => Heard::Nothing,
    }
}

/// How the program ended, from the Status Kubernetes sends last.
fn outcome(status: &[u8]) -> Result<u8, Problem> {
    let status: Value = serde_json::from_slice(status).unwrap_or(Value::Null);
    if status["status"] == "Success" {
        return Ok(0);
    }
    let causes = status["details"]["causes"].as_array().into_iter().flatten();
    let code =
        causes.into_iter().find(|cause| cause["reason"] == "ExitCode").and_then(|cause| cause["message"].as_str());
    match code.and_then(|code| code.parse().ok()) {
        Some(code) => Ok(code),
        None => {
            let why = readable(status["message"].as_str().unwrap_or("nobody said why"), 500);
            Err(Problem::new(Kind::Failed, "the terminal could not go on", why))
        }
    }
}

fn size() -> Message {
    let (width, height) = termios::tcgetwinsize(std::io::stdout()).map_or((0, 0), |size| (size.ws_col, size.ws_row));
    // A terminal that does not know its size says nought.
    let known = |side: u16, usual: u16| if side == 0 { usual } else { side };
    let (width, height) = (known(width, 80), known(height, 24));
    let text = json!({"Width": width, "Height": height}).to_string();
    Message::Binary(Bytes::from([&[channel::SIZE], text.as_bytes()].concat()))
}

/// The terminal while every key goes to the container; as it was when this is dropped.
struct Raw(Termios);

impl Raw {
    fn enter() -> Result<Raw, Problem> {
        let failed = |e: rustix::io::Errno| Problem::new(Kind::Failed, "the terminal cannot be used", e);
        let input = std::io::stdin();
        let before = termios::tcgetattr(&input).map_err(failed)?;
        let mut raw = before.clone();
        raw.make_raw();
        termios::tcsetattr(&input, OptionalActions::Now, &raw).map_err(failed)?;
        Ok(Raw(before))
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        let _ = termios::tcsetattr(std::io::stdin(), OptionalActions::Now, &self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_is_printed_until_the_program_ends() {
        // SYM-13
        assert!(matches!(heard(b"\x01hello"), Heard::Print(b"hello")));
        assert!(matches!(heard(b"\x02oops"), Heard::Print(b"oops")));
        for nothing in [b"".as_slice(), b"\x00x", b"\x09x", b"\xff\x01"] {
            assert!(matches!(heard(nothing), Heard::Nothing));
        }
        let end = |text: &str| outcome(text.as_bytes());
        assert_eq!(end(r#"{"status":"Success"}"#).unwrap(), 0);
        let failed = r#"{"status":"Failure","details":{"causes":[{"reason":"ExitCode","message":"3"}]}}"#;
        assert_eq!(end(failed).unwrap(), 3);
        let broken = end(r#"{"status":"Failure","message":"no such container\u001b[2J"}"#).unwrap_err().to_string();
        assert!(broken.contains("no such container") && !broken.contains('\u{1b}'), "{broken}");
        assert!(end("garbage").is_err());
    }
}
