//! Commands in pods: one that is run and read to its end, and a terminal (SYM-13: 7, 8).

use std::time::Duration;

use bytes::Bytes;
use serde_json::json;
use tokio::time::{Instant, interval, sleep_until, timeout};

use super::Members;
use super::channel::{CLOSE, Channel, Command, RESIZE, STDERR, STDIN, Said, exit_code};
use super::listing::Parameters;
use super::reach::{Reach, Reached, Scope, What};
use super::route::Places;
use super::views::KNOWN;
use crate::access::Create;
use crate::caller::Caller;
use crate::problem::Problem;
use crate::standing;
use crate::trail::Doing;
use crate::visit::{Answered, json as json_answer};
use crate::ws::{Message, Socket};

/// Of each kind of output only so much is kept.
const MOST_OUTPUT: usize = 1 << 20;
/// Of the output of a command that was lost so much is told.
const LAST_WORDS: usize = 16 << 10;
const RUN_FOR: u64 = 20;
const LONGEST_RUN: u64 = 25;
/// A terminal in which nothing happens for so long is over.
const IDLE: Duration = Duration::from_secs(2 * 3600);
const PING: Duration = Duration::from_secs(20);
/// What a terminal's size may be said in.
const LONGEST_RESIZE: usize = 256;

/// What a command came to.
#[derive(Default)]
pub(super) struct Ran {
    pub(super) out: Vec<u8>,
    pub(super) err: Vec<u8>,
    pub(super) code: i32,
    /// There was more output than is kept, or the command had to be left before it ended.
    pub(super) truncated: bool,
}

impl Members {
    /// The right to run commands in pods of a namespace.
    pub(super) async fn in_pods(
        &self,
        caller: &Caller,
        cluster: &str,
        namespace: &str,
    ) -> Result<Reach<Create>, Problem> {
        if cluster == "all" {
            return Err(Problem::bad_request("name one cluster: a pod is on one"));
        }
        let what = What::within(&KNOWN.pods, Some(namespace)).sub("exec");
        self.reaching.reach(caller, what, &Scope::One(cluster.to_owned())).await
    }

    pub(super) async fn exec(&self, caller: &Caller, places: &Places, query: &str, doing: &Doing) -> Answered {
        let parameters = Parameters::only(query, &["namespace", "pod", "container", "timeoutSeconds"], &["command"])?;
        let (namespace, pod) = (parameters.needed("namespace")?, parameters.needed("pod")?);
        let patience = parameters.number("timeoutSeconds", LONGEST_RUN)?.unwrap_or(RUN_FOR);
        let reach = self.in_pods(caller, places.get("name"), namespace).await?;
        let command = Command::quiet(pod, parameters.get("container"), parameters.all("command"));
        let user = caller.name().unwrap_or("(token)");
        tracing::info!(
            user,
            cluster = places.get("name"),
            namespace,
            pod,
            program = command.words.first(),
            "runs a command in a pod"
        );
        doing.started();
        let ran = run(&reach.one()?, &command, Duration::from_secs(patience), MOST_OUTPUT).await?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(json_answer(
            200,
            &json!({"stdout": text(&ran.out), "stderr": text(&ran.err), "exitCode": ran.code, "truncated": ran.truncated}),
        ))
    }

    /// Talks for a terminal until it is over.
    pub(super) async fn terminal(
        &self,
        caller: &Caller,
        places: &Places,
        query: &str,
        mut socket: Socket,
        doing: Doing,
    ) {
        match self.terminal_opened(caller, places, query).await {
            Ok((reach, channel)) => {
                doing.started();
                let lost = standing::lost(caller, || reach.still());
                let away = async {
                    match reach.one() {
                        Ok(reached) => reached.lost().await,
                        Err(_) => std::future::pending().await,
                    }
                };
                let ended = tokio::select! {
                    ended = bridge(&mut socket, channel) => ended,
                    why = lost => Err(why),
                    () = away => Err(Problem::new(503, "ClusterUnreachable", "the cluster is no longer reached")),
                };
                // Before the goodbye, which may take its time.
                doing.ended(ended.as_ref().map(|()| (200, None)));
                match ended {
                    Ok(()) => socket.close(1000, "").await,
                    Err(problem) => socket.refuse(&problem).await,
                }
            }
            Err(problem) => {
                doing.ended(Err(&problem));
                socket.refuse(&problem).await
            }
        }
    }

    async fn terminal_opened(
        &self,
        caller: &Caller,
        places: &Places,
        query: &str,
    ) -> Result<(Reach<Create>, Channel), Problem> {
        let own = ["namespace", "pod", "container", "tty", "stdin", "stdout", "stderr"];
        let parameters = Parameters::only(query, &own, &["command"])?;
        let (namespace, pod) = (parameters.needed("namespace")?, parameters.needed("pod")?);
        let on = |name: &str| parameters.get(name).map_or(Ok(true), |_| parameters.flag(name));
        let tty = on("tty")?;
        let mut words = parameters.all("command");
        if words.is_empty() {
            words.push("sh".to_owned());
        }
        // A terminal has one channel for output and errors.
        let stderr = !tty && on("stderr")?;
        let container = parameters.get("container");
        let command = Command { pod, container, words, stdin: on("stdin")?, stdout: on("stdout")?, stderr, tty };
        let reach = self.in_pods(caller, places.get("name"), namespace).await?;
        let user = caller.name().unwrap_or("(token)");
        tracing::info!(user, cluster = places.get("name"), namespace, pod, "opens a terminal in a pod");
        let channel = Channel::open(&reach.one()?, &command).await?;
        Ok((reach, channel))
    }
}

/// Runs a command and keeps what it says, up to `most` bytes of each kind.
pub(super) async fn run(
    reached: &Reached<'_, Create>,
    command: &Command<'_>,
    patience: Duration,
    most: usize,
) -> Result<Ran, Problem> {
    let until = Instant::now() + patience;
    let slow = || {
        let why = format!("the command did not end within {patience:?}; it may still run in the pod");
        Problem::new(504, "CommandSlow", why).with("cluster", &**reached.name())
    };
    let mut channel = timeout(patience, Channel::open(reached, command)).await.map_err(|_| slow())??;
    let mut ran = Ran::default();
    loop {
        let said = tokio::select! {
            said = channel.next() => said,
            () = sleep_until(until) => return Err(slow()),
        };
        match said {
            Some(Said::Frame(frame)) => {
                let kept = if frame[0] == STDERR { &mut ran.err } else { &mut ran.out };
                let room = most.saturating_sub(kept.len()).min(frame.len() - 1);
                kept.extend_from_slice(&frame[1..=room]);
                if room < frame.len() - 1 {
                    // Whoever says so much is not listened to any longer.
                    ran.truncated = true;
                    return Ok(ran);
                }
            }
            Some(Said::Ended(status)) => {
                let spoken = !ran.out.is_empty() || !ran.err.is_empty();
                ran.code = exit_code(&status, spoken).map_err(|problem| {
                    // What it said until then is all there is of it.
                    let end = |bytes: &[u8]| {
                        String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(LAST_WORDS)..]).into_owned()
                    };
                    let problem = problem.with("cluster", &**reached.name());
                    problem.with("stdout", end(&ran.out)).with("stderr", end(&ran.err))
                })?;
                return Ok(ran);
            }
            None => {
                let why = format!("the cluster {} broke the connection before the command ended", reached.name());
                return Err(Problem::new(502, "ClusterFailed", why).with("cluster", &**reached.name()));
            }
        }
    }
}

/// Carries what is typed there and what is said back, until one of them is done.
async fn bridge(socket: &mut Socket, mut channel: Channel) -> Result<(), Problem> {
    let gone = || Problem::new(502, "ClusterFailed", "the cluster broke the connection");
    let mut ping = interval(PING);
    let mut used = Instant::now();
    loop {
        tokio::select! {
            typed = socket.next() => {
                used = Instant::now();
                let Some(message) = typed else { return Ok(()) };
                if let Some(frame) = allowed(message)? {
                    channel.send(frame).await.map_err(|_| gone())?;
                }
            }
            said = channel.next() => {
                used = Instant::now();
                match said {
                    Some(Said::Frame(frame)) => {
                        if socket.send(Message::Binary(frame)).await.is_err() {
                            return Ok(());
                        }
                    }
                    Some(Said::Ended(status)) => {
                        let mut frame = vec![super::channel::ERROR];
                        frame.extend_from_slice(&status);
                        let _ = socket.send(Message::Binary(frame.into())).await;
                        return Ok(());
                    }
                    None => return Err(gone()),
                }
            }
            _ = ping.tick() => {
                if used.elapsed() > IDLE {
                    return Err(Problem::new(408, "Idle", "nothing happened in this terminal for two hours"));
                }
                channel.ping().await.map_err(|_| gone())?;
            }
        }
    }
}

/// What may go to a command: input, the terminal's size, the end of the input.
fn allowed(message: Message) -> Result<Option<Bytes>, Problem> {
    let wrong = || Problem::bad_request("send binary frames: channel 0 input, 4 size, 255 end of a channel");
    let Message::Binary(frame) = message else { return Err(wrong()) };
    match frame.first() {
        Some(&STDIN) if frame.len() == 1 => Ok(None),
        Some(&STDIN) => Ok(Some(frame)),
        Some(&CLOSE) if frame[1..] == [STDIN] => Ok(Some(frame)),
        Some(&RESIZE) if frame.len() <= LONGEST_RESIZE => {
            let size: serde_json::Value = serde_json::from_slice(&frame[1..]).map_err(|_| wrong())?;
            let side = |name: &str| size[name].as_u64().filter(|side| (1..=10_000).contains(side)).ok_or_else(wrong);
            let (width, height) = (side("Width")?, side("Height")?);
            // Said anew, so that nothing else goes along.
            let mut frame = vec![RESIZE];
            frame.extend_from_slice(json!({"Width": width, "Height": height}).to_string().as_bytes());
            Ok(Some(frame.into()))
        }
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn only_input_sizes_and_its_end_go_to_a_command() {
        // SYM-13
        let binary = |bytes: &[u8]| allowed(Message::Binary(Bytes::copy_from_slice(bytes)));
        assert_eq!(binary(b"\x00ls\n").unwrap().unwrap(), Bytes::from_static(b"\x00ls\n"));
        assert_eq!(binary(b"\x00").unwrap(), None);
        assert_eq!(binary(b"\xff\x00").unwrap().unwrap(), Bytes::from_static(b"\xff\x00"));
        let size = binary(b"\x04{\"Height\":24,\"Width\":80,\"x\":1}").unwrap().unwrap();
        assert_eq!(size, Bytes::from_static(b"\x04{\"Height\":24,\"Width\":80}"));
        for bad in [
            b"".as_slice(),
            b"\x01x",
            b"\x03{}",
            b"\xff\x01",
            b"\x04{}",
            b"\x04{\"Width\":0,\"Height\":1}",
            b"\x04x",
            b"\x09",
        ] {
            assert!(binary(bad).is_err(), "{bad:?}");
        }
        assert!(allowed(Message::Text("ls".to_owned())).is_err());
    }
}
