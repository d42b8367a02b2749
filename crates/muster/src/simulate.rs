//! `muster simulate`: simulated clusters on ports of this machine, with kubeconfigs, so that kubectl works on each.

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
    time::Duration,
};

use clap::Args;
use pki::Authority;
use runtime::config::Tracing;
use simulator::{Member, MemberError, Network, NodePool, Settings};

use crate::{
    duration, logging,
    paths::DataDir,
    problem::{Kind, Problem},
    say,
    signals::Signals,
};

/// The file that says how the clusters are reached, and how often it is looked at.
const NETWORK: &str = "network";
const LOOK: Duration = Duration::from_millis(200);

#[derive(Debug, Args)]
pub struct Simulate {
    /// How many clusters
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=5000))]
    pub members: u16,
    /// Nodes in each
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u16).range(0..=5000))]
    pub nodes: u16,
    /// Pods in each, ten to an application: app-1, app-2, …; a node takes 250
    #[arg(long, default_value_t = 0, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=100_000))]
    pub pods: u32,
    /// Write no events: a large fleet is cheaper
    #[arg(long)]
    pub no_events: bool,
    /// How long events are kept after they were last written, 0 for ever
    #[arg(long, default_value = "1h", value_parser = duration::parse, value_name = "DURATION", conflicts_with = "no_events")]
    pub event_ttl: Duration,
    /// What their names begin with
    #[arg(long, default_value = "member", value_name = "NAME")]
    pub prefix: String,
    /// Address they listen on; 0.0.0.0 opens them to the network
    #[arg(long, default_value = "127.0.0.1", value_name = "IP")]
    pub bind_address: IpAddr,
    /// Port of the first, the others take those behind it; 0 takes free ones
    #[arg(long, default_value_t = 7443, value_name = "PORT")]
    pub port: u16,
    /// How much longer every request takes
    #[arg(long, default_value = "0s", value_parser = duration::parse, value_name = "DURATION")]
    pub latency: Duration,
    /// Directory for certificates and kubeconfigs [default: `simulated` in the server's data directory]
    #[arg(long, env = "MUSTER_SIMULATED_DIR", value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// How much to log: 0 to 10
    #[arg(short = 'v', long = "v", default_value_t = 0, value_name = "LEVEL")]
    pub verbosity: u8,
}

pub fn run(flags: Simulate) -> Result<(), Problem> {
    let nowhere = Tracing { endpoint: None, ratio: 1.0, ca_file: None };
    let _log = logging::start(flags.verbosity, false, &nowhere, "muster-simulate")?;
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|e| Problem::new(Kind::Failed, "cannot start", e))?
        .block_on(simulate(flags))
}

async fn simulate(flags: Simulate) -> Result<(), Problem> {
    let dir = match &flags.data_dir {
        Some(dir) => DataDir::choose(Some(dir.clone()))?,
        None => DataDir::choose(Some(DataDir::choose(None)?.root().join("simulated")))?,
    };
    dir.create()?;
    let authority = Authority::open_or_create(&dir.pki())?;
    // Before anybody can see us ready: a signal that finds no handler kills.
    let mut signals = Signals::new()?;
    let mut members = Vec::with_capacity(usize::from(flags.members));
    let outcome = tokio::select! {
        started = start(&flags, &dir, &authority, &mut members) => started,
        () = signals.next() => Err(Problem::new(Kind::Failed, "stopped", "it was told to while it started")),
    };
    if outcome.is_ok() {
        let file = dir.root().join(NETWORK);
        tokio::select! {
            () = signals.next() => {}
            () = follow_network(&file, flags.latency, &members) => {}
        }
    }
    signals.exit_on_next();
    for member in &members {
        member.stop().await;
    }
    outcome
}

/// Makes the ways to the clusters as the file says, whenever it changes. Never returns.
async fn follow_network(file: &Path, latency: Duration, members: &[Member]) {
    let usual = if latency.is_zero() { Network::Open } else { Network::Slow(latency) };
    let mut known = String::new();
    let mut now: BTreeMap<String, Network> = BTreeMap::new();
    loop {
        // One that is not there says nothing of anybody.
        let text = tokio::fs::read_to_string(file).await.unwrap_or_default();
        if text != known {
            let wanted = network(&text).unwrap_or_else(|why| {
                tracing::error!(file = %file.display(), why, "the network stays as it is");
                now.clone()
            });
            for member in members {
                let of = |all: &BTreeMap<String, Network>| all.get(member.name()).cloned().unwrap_or(usual.clone());
                let (was, network) = (of(&now), of(&wanted));
                if was != network {
                    tracing::info!(member = member.name(), ?network, "the way to it changed");
                    member.set_network(network);
                }
            }
            (known, now) = (text, wanted);
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Lines of `NAME open`, `NAME slow 3s`, `NAME black-hole` and `NAME refused`.
fn network(text: &str) -> Result<BTreeMap<String, Network>, String> {
    let mut all = BTreeMap::new();
    for (at, line) in text.lines().enumerate() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let network = match words[..] {
            [] => continue,
            [_, "open"] => Network::Open,
            [_, "black-hole"] => Network::BlackHole,
            [_, "refused"] => Network::Refused,
            [_, "slow", delay] => {
                Network::Slow(duration::parse(delay).map_err(|why| format!("line {}: {why}", at + 1))?)
            }
            _ => return Err(format!("line {} is not NAME open, slow DURATION, black-hole or refused", at + 1)),
        };
        all.insert(words[0].to_owned(), network);
    }
    Ok(all)
}

async fn start(
    flags: &Simulate,
    dir: &DataDir,
    authority: &Authority,
    members: &mut Vec<Member>,
) -> Result<(), Problem> {
    for i in 0..flags.members {
        let name = format!("{}-{}", flags.prefix, i + 1);
        let mut settings = Settings::new(&name);
        settings.nodes = vec![NodePool { count: usize::from(flags.nodes), ..NodePool::default() }];
        settings.events = (!flags.no_events).then_some(flags.event_ttl);
        let member = Member::start(settings).await.map_err(failed)?;
        members.push(member.clone());
        if !flags.latency.is_zero() {
            member.set_network(Network::Slow(flags.latency));
        }
        let port = match flags.port {
            0 => 0,
            first => first.checked_add(i).ok_or_else(|| {
                Problem::new(Kind::Usage, "there are not enough ports", format!("{first} + {i} is beyond 65535"))
                    .next("choose a lower --port, or fewer --members")
            })?,
        };
        let served = member.serve(SocketAddr::new(flags.bind_address, port), authority).await.map_err(failed)?;
        member.fill(flags.pods as usize).await.map_err(failed)?;
        let path = dir.root().join(format!("{name}.kubeconfig"));
        pki::write_private(&path, served.kubeconfig.as_bytes())?;
        say(&format!("{name}\t{}\t{}\n", served.url, path.display()))?;
    }
    if let Some(first) = members.first() {
        let path = dir.root().join(format!("{}.kubeconfig", first.name()));
        eprintln!("{} simulated clusters; try: kubectl --kubeconfig {} get nodes", members.len(), path.display());
    }
    Ok(())
}

fn failed(error: MemberError) -> Problem {
    match error {
        MemberError::Listen { .. } => Problem::new(Kind::InUse, "a simulated cluster cannot be served", error)
            .next("choose another --port (0 for free ones)"),
        MemberError::Start { .. } | MemberError::Certificates { .. } | MemberError::Fill { .. } => {
            Problem::new(Kind::Failed, "a simulated cluster cannot be run", error)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_names_members_and_how_they_are_reached() {
        let read = network("m-1 refused\n\n  m-2  slow 3s \nm-3 black-hole\nm-4 open\n").unwrap();
        let wanted =
            [Network::Refused, Network::Slow(Duration::from_secs(3)), Network::BlackHole, Network::Open].into_iter();
        assert_eq!(read.into_values().collect::<Vec<_>>(), wanted.collect::<Vec<_>>());
        for bad in ["m-1", "m-1 gone", "m-1 slow", "m-1 slow x", "m-1 open now"] {
            assert!(network(bad).unwrap_err().contains("line 1"), "{bad}");
        }
    }
}
