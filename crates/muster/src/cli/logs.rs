//! `muster logs`: what containers print, of one pod or of all pods of an application, over several clusters at once.

use std::{
    io::{IsTerminal, Write},
    time::Duration,
};

use clap::Args;
use tokio::{sync::mpsc, task::JoinSet};

use super::{
    gateway::{Gateway, Server, Url},
    scope::{Groups, Pod, Scope},
    words::harmless,
};
use crate::{
    duration,
    problem::{Kind, Problem},
};

#[derive(Debug, Args)]
pub struct Logs {
    /// A pod, or an application by its label `app`
    #[arg(value_name = "POD|APP")]
    pub word: String,
    /// Go on as more is printed
    #[arg(short, long)]
    pub follow: bool,
    /// Of the container before the last restart
    #[arg(short, long)]
    pub previous: bool,
    /// Only the last lines of each pod
    #[arg(long, value_name = "N")]
    pub tail: Option<u64>,
    /// Only what is not older, such as 10m
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub since: Option<Duration>,
    /// Each line with its time
    #[arg(long)]
    pub timestamps: bool,
    /// The container, where a pod has several
    #[arg(short, long, value_name = "NAME")]
    pub container: Option<String>,
    /// Pods at once; more are refused
    #[arg(long, default_value_t = 50, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=500))]
    pub max_pods: u16,
    /// Leave out which pod a line is of
    #[arg(long)]
    pub no_prefix: bool,
    #[command(flatten)]
    pub scope: Scope,
    #[command(flatten)]
    pub groups: Groups,
    #[command(flatten)]
    pub server: Server,
}

/// Lines that wait to be printed; whoever reads slowly slows the servers down.
const WAITING: usize = 1024;
/// A line that is longer is cut in pieces.
const LONGEST: usize = 64 << 10;

pub async fn run(flags: Logs) -> Result<(), Problem> {
    let gateway = flags.server.gateway()?;
    let pods = flags.scope.pods(&gateway, &flags.word, &flags.groups).await?;
    if pods.len() > usize::from(flags.max_pods) {
        let why = format!("{} has {} pods, and --max-pods is {}", flags.word, pods.len(), flags.max_pods);
        return Err(Problem::new(Kind::Failed, "these are too many pods at once", why)
            .next("narrow with --cluster, -n or --group, or raise --max-pods"));
    }
    let prefixes = !flags.no_prefix && pods.len() > 1;
    let (sender, mut lines) = mpsc::channel::<Vec<u8>>(WAITING);
    let mut readers = JoinSet::new();
    let gateway = std::sync::Arc::new(gateway);
    for pod in pods {
        let (gateway, sender, url) = (gateway.clone(), sender.clone(), flags.url(&pod));
        let prefix = if prefixes { format!("{} ", pod.place()) } else { String::new() };
        readers.spawn(async move {
            let outcome = follow(&gateway, &url, &prefix, &sender).await;
            outcome.map_err(|problem| (pod.place(), problem))
        });
    }
    drop(sender);
    let terminal = std::io::stdout().is_terminal();
    let mut out = std::io::stdout();
    while let Some(line) = lines.recv().await {
        let written = match terminal {
            true => out.write_all(harmless(&line).as_bytes()),
            false => out.write_all(&line),
        };
        // A reader that went away (`| head`) is the end, and no failure.
        if written.is_err() {
            return Ok(());
        }
    }
    let ended = readers.join_all().await;
    let (all, mut failed) = (ended.len(), ended.into_iter().filter_map(Result::err).collect::<Vec<_>>());
    if failed.len() == all
        && let Some((_, problem)) = failed.pop()
    {
        return Err(problem);
    }
    for (place, problem) in failed {
        eprintln!("warning: {place}: {}", problem.brief());
    }
    Ok(())
}

impl Logs {
    fn url(&self, pod: &Pod) -> Url {
        let Pod { cluster, namespace, name } = pod;
        let url = Url::of(&["api", "cluster", cluster, "namespace", namespace, "pods", name, "logs"]);
        let yes = |flag: bool| flag.then_some("true");
        url.with_some("container", self.container.as_ref())
            .with_some("follow", yes(self.follow))
            .with_some("previous", yes(self.previous))
            .with_some("timestamps", yes(self.timestamps))
            .with_some("tailLines", self.tail.map(|lines| lines.to_string()))
            .with_some("sinceSeconds", self.since.map(|since| since.as_secs().max(1).to_string()))
    }
}

/// Sends whole lines on, each with its prefix.
async fn follow(gateway: &Gateway, url: &Url, prefix: &str, lines: &mpsc::Sender<Vec<u8>>) -> Result<(), Problem> {
    let mut reply = gateway.stream(url).await?;
    let mut cutter = Cutter::default();
    loop {
        let piece = reply
            .piece()
            .await
            .map_err(|why| Problem::new(Kind::Unreachable, "the log broke off", why).next("ask for it again"))?;
        let Some(piece) = piece else { break };
        for line in cutter.cut(&piece) {
            if lines.send([prefix.as_bytes(), &line].concat()).await.is_err() {
                return Ok(());
            }
        }
    }
    if let Some(line) = cutter.rest() {
        let _ = lines.send([prefix.as_bytes(), &line].concat()).await;
    }
    Ok(())
}

/// Makes whole lines of pieces.
#[derive(Default)]
struct Cutter(Vec<u8>);

impl Cutter {
    fn cut(&mut self, piece: &[u8]) -> Vec<Vec<u8>> {
        let mut lines = Vec::new();
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            self.0.extend_from_slice(part);
            if part.ends_with(b"\n") {
                lines.push(std::mem::take(&mut self.0));
            } else if self.0.len() >= LONGEST {
                lines.extend(self.rest());
            }
        }
        lines
    }

    /// What has no end yet.
    fn rest(&mut self) -> Option<Vec<u8>> {
        let mut line = std::mem::take(&mut self.0);
        if line.is_empty() {
            return None;
        }
        line.push(b'\n');
        Some(line)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn pieces_become_lines_and_an_endless_line_is_cut() {
        let mut cutter = Cutter::default();
        assert!(cutter.cut(b"one\ntw").iter().eq([b"one\n".as_slice()]));
        assert!(cutter.cut(b"o\nthree").iter().eq([b"two\n".as_slice()]));
        assert_eq!(cutter.rest().unwrap(), b"three\n");
        assert_eq!(cutter.rest(), None);
        let endless = cutter.cut(&vec![b'x'; 3 * LONGEST]);
        assert_eq!(endless.len(), 1);
        assert!(cutter.0.is_empty());
    }

    proptest! {
        #[test]
        fn no_byte_is_lost_however_the_pieces_fall(text in "[ab\n]{0,200}", at in 0usize..200) {
            let mut cutter = Cutter::default();
            let at = at.min(text.len());
            let mut lines = cutter.cut(&text.as_bytes()[..at]);
            lines.extend(cutter.cut(&text.as_bytes()[at..]));
            lines.extend(cutter.rest());
            let mut whole = text.into_bytes();
            if !whole.is_empty() && !whole.ends_with(b"\n") {
                whole.push(b'\n');
            }
            prop_assert_eq!(lines.concat(), whole);
        }
    }
}
