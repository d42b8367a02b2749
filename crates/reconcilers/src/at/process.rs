//! Runs a command as a process of this machine: no shell, a clean environment, an end in time, the tail of its output.

use std::{process::Stdio, time::Duration};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    process::{Child, Command},
    time::timeout,
};

use super::types::Outcome;

/// How much of the output is kept.
const TAIL: usize = 4096;
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// Well or not.
    pub outcome: Outcome,
    /// Its exit code, if it had one.
    pub exit_code: Option<i32>,
    /// For people.
    pub message: String,
    /// The end of what it wrote.
    pub output: Option<String>,
}

impl Ended {
    /// It did not even begin.
    pub fn failed(message: impl Into<String>) -> Self {
        Self { outcome: Outcome::Failed, exit_code: None, message: message.into(), output: None }
    }
}

/// Kills the whole group of the command when it is dropped: also when the reconcile is cut off.
struct Group(Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(pid) = self.0 {
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }
}

/// Runs the words to their end, at most for `limit`.
pub async fn run(words: &[String], env: &[(&str, &str)], limit: Duration) -> Ended {
    let Some((program, arguments)) = words.split_first() else { return Ended::failed("the command is empty") };
    let child = Command::new(program)
        .args(arguments)
        .env_clear()
        .env("PATH", PATH)
        .env("HOME", "/")
        .env("LANG", "C.UTF-8")
        .envs(env.iter().copied())
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn();
    let mut child = match child {
        Ok(child) => child,
        Err(why) => return Ended::failed(format!("{program} could not be started: {why}")),
    };
    let group = Group(child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw));
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let mut output = Vec::new();
    let ended = timeout(limit, finish(&mut child, stdout, stderr, &mut output)).await;
    drop(group); // whatever it left behind ends with it
    let output = Some(shown(&output)).filter(|output| !output.is_empty());
    match ended {
        Ok(Ok(status)) => {
            let outcome = if status.success() { Outcome::Succeeded } else { Outcome::Failed };
            Ended { outcome, exit_code: status.code(), message: status.to_string(), output }
        }
        Ok(Err(why)) => Ended { output, ..Ended::failed(format!("lost sight of {program}: {why}")) },
        Err(_) => {
            let message = format!("did not end within {limit:?} and was killed");
            Ended { outcome: Outcome::TimedOut, exit_code: None, message, output }
        }
    }
}

/// Waits for the command, and a moment longer for what it wrote: a child of it may hold the pipe open.
async fn finish(
    child: &mut Child,
    stdout: Option<impl AsyncRead + Unpin>,
    stderr: Option<impl AsyncRead + Unpin>,
    output: &mut Vec<u8>,
) -> std::io::Result<std::process::ExitStatus> {
    let read = gather(stdout, stderr, output);
    tokio::pin!(read);
    let status = tokio::select! {
        biased;
        () = &mut read => return child.wait().await,
        status = child.wait() => status?,
    };
    let _ = timeout(Duration::from_millis(500), read).await;
    Ok(status)
}

/// Both outputs as they come, only the end of them.
async fn gather(mut a: Option<impl AsyncRead + Unpin>, mut b: Option<impl AsyncRead + Unpin>, output: &mut Vec<u8>) {
    async fn some(from: &mut Option<impl AsyncRead + Unpin>, buffer: &mut [u8]) -> usize {
        match from {
            Some(stream) => stream.read(buffer).await.unwrap_or(0),
            None => std::future::pending().await,
        }
    }
    let (mut x, mut y) = ([0; 4096], [0; 4096]);
    while a.is_some() || b.is_some() {
        tokio::select! {
            count = some(&mut a, &mut x) => {
                output.extend_from_slice(&x[..count]);
                a = a.filter(|_| count > 0);
            }
            count = some(&mut b, &mut y) => {
                output.extend_from_slice(&y[..count]);
                b = b.filter(|_| count > 0);
            }
        }
        if output.len() > 2 * TAIL {
            output.drain(..output.len() - TAIL);
        }
    }
}

/// The tail as text.
pub fn shown(output: &[u8]) -> String {
    let tail = &output[output.len().saturating_sub(TAIL)..];
    String::from_utf8_lossy(tail).trim_start_matches('\u{fffd}').replace('\0', "\u{fffd}")
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn sh(script: &str) -> Ended {
        let words = ["sh", "-c", script].map(str::to_owned);
        run(&words, &[("AT_NAME", "x")], Duration::from_secs(60)).await
    }

    #[tokio::test]
    async fn exit_code_and_output_are_kept() {
        // KC-7
        let ended = sh("echo out; echo err >&2; exit 3").await;
        assert_eq!((ended.outcome, ended.exit_code), (Outcome::Failed, Some(3)));
        let output = ended.output.unwrap();
        assert!(output.contains("out\n") && output.contains("err\n"), "{output}");
        assert_eq!(sh("true").await.outcome, Outcome::Succeeded);
    }

    #[tokio::test]
    async fn the_environment_is_clean() {
        // KC-7
        let output = sh("env").await.output.unwrap();
        let mut names: Vec<_> = output.lines().filter_map(|line| line.split('=').next()).collect();
        names.retain(|name| !["_", "SHLVL", "PWD", "OLDPWD"].contains(name)); // the shell's own
        names.sort_unstable();
        assert_eq!(names, ["AT_NAME", "HOME", "LANG", "PATH"]);
    }

    #[tokio::test]
    async fn only_the_tail_of_much_output_is_kept() {
        // KC-7
        let output = sh("i=0; while [ $i -lt 5000 ]; do echo line $i; i=$((i+1)); done").await.output.unwrap();
        assert!(output.len() <= TAIL && output.ends_with("line 4999\n"), "{} bytes", output.len());
    }

    #[tokio::test]
    async fn a_command_that_takes_too_long_is_killed_with_its_children() {
        // KC-7
        let file = std::env::temp_dir().join(format!("muster-at-{}", std::process::id()));
        let script = format!("(sleep 8; touch {0}) & echo begun; sleep 60", file.display());
        let words = ["sh".to_owned(), "-c".to_owned(), script];
        let ended = run(&words, &[], Duration::from_secs(5)).await;
        assert_eq!((ended.outcome, ended.output.as_deref()), (Outcome::TimedOut, Some("begun\n")));
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert!(!file.exists(), "a child of the command went on");
    }

    #[tokio::test]
    async fn a_program_that_is_not_there_is_a_failure_with_its_name() {
        // KC-7
        let ended = run(&["no-such-program".to_owned()], &[], Duration::from_secs(1)).await;
        assert_eq!(ended.outcome, Outcome::Failed);
        assert!(ended.message.contains("no-such-program"), "{}", ended.message);
    }
}
