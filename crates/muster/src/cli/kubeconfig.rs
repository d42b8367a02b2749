//! `muster cluster kubeconfig`: a kubeconfig of a member that ends by itself, or, if asked for by its name, the one that is kept.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use clap::Args;
use jiff::Timestamp;
use serde_json::Value;

use super::{
    cluster::zcloud,
    gateway::{Server, Url},
    view::text,
};
use crate::{
    duration,
    problem::{Kind, Problem},
    say,
};

#[derive(Debug, Args)]
pub struct Kubeconfig {
    pub name: String,
    /// Where to, for you alone [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Write over a file that is there
    #[arg(long, requires = "file")]
    pub force: bool,
    /// How long its token is good, from 10m to 24h; the cluster may give less
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = ttl)]
    pub ttl: Duration,
    /// On a cluster that has no account for it yet: make one that may read, or also operate
    #[arg(long, value_name = "RIGHTS", value_parser = ["read", "operate"], hide_possible_values = true)]
    pub create_account: Option<String>,
    /// Instead, the credential that muster itself uses there: it does not end
    #[arg(long, conflicts_with_all = ["ttl", "create_account"])]
    pub long_lived: bool,
    #[command(flatten)]
    pub server: Server,
}

fn ttl(text: &str) -> Result<Duration, String> {
    let ttl = duration::parse(text)?;
    let fits = (Duration::from_secs(600)..=Duration::from_secs(86_400)).contains(&ttl);
    if fits { Ok(ttl) } else { Err("a token is good for 10m at least and 24h at most".to_owned()) }
}

pub async fn run(flags: Kubeconfig) -> Result<(), Problem> {
    if let Some(file) = flags.file.as_deref().filter(|file| file.exists() && !flags.force) {
        return Err(Problem::new(Kind::Conflict, "nothing was written", format!("{} is there", file.display()))
            .next("name another file, or write over it with --force"));
    }
    let answer = flags.server.gateway()?.post(&question(&flags), None).await?;
    let kubeconfig = answer["kubeconfig"].as_str().ok_or_else(|| {
        let what = format!("there is no kubeconfig of {}", flags.name);
        Problem::new(Kind::Failed, what, "the answer of the server has none")
    })?;
    match &flags.file {
        None => say(kubeconfig)?,
        Some(file) => {
            pki::write_private(file, kubeconfig.as_bytes())
                .map_err(|e| Problem::new(Kind::Failed, format!("cannot write {}", file.display()), e))?;
        }
    }
    eprint!("{}", told(&answer, flags.file.as_deref(), Timestamp::now()));
    Ok(())
}

fn question(flags: &Kubeconfig) -> Url {
    let url = zcloud(&[&flags.name]).with("action", "getkubeconfig");
    if flags.long_lived {
        return url.with("longLived", "true");
    }
    url.with("ttlSeconds", flags.ttl.as_secs().to_string()).with_some("createAccount", flags.create_account.as_ref())
}

/// Until when, as whom, and what to do with it.
fn told(answer: &Value, file: Option<&Path>, now: Timestamp) -> String {
    let expires = text(answer, "/expires");
    let mut said = match expires.parse::<Timestamp>() {
        Ok(until) => format!("good until {expires} (for {}) as {}\n", within(until, now), text(answer, "/account")),
        Err(_) => "this is the credential that muster itself uses: it does not end, so keep it safe\n".to_owned(),
    };
    if let Some(file) = file {
        said.push_str(&format!("written; try: kubectl --kubeconfig {} get nodes\n", file.display()));
    }
    said
}

/// What is left, in the largest units that say it.
fn within(until: Timestamp, now: Timestamp) -> String {
    let minutes = (until.as_second().saturating_sub(now.as_second()).max(0) + 30) / 60;
    match (minutes / 60, minutes % 60) {
        (0, minutes) => format!("{minutes}m"),
        (hours, 0) => format!("{hours}h"),
        (hours, minutes) => format!("{hours}h{minutes}m"),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::json;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        flags: Kubeconfig,
    }

    fn asked(words: &[&str]) -> Option<String> {
        let line = Line::try_parse_from([&["muster", "prod"], words].concat()).ok()?;
        Some(question(&line.flags).as_str().split_once('&').unwrap_or_default().1.to_owned())
    }

    #[test]
    fn what_ends_is_asked_for_unless_the_flag_says_otherwise() {
        // B-20
        assert_eq!(asked(&[]).unwrap(), "ttlSeconds=3600");
        assert_eq!(asked(&["--ttl", "90m", "--create-account", "read"]).unwrap(), "ttlSeconds=5400&createAccount=read");
        assert_eq!(asked(&["--long-lived"]).unwrap(), "longLived=true");
        for wrong in [
            &["--long-lived", "--ttl", "1h"][..],
            &["--create-account", "admin"],
            &["--ttl", "soon"],
            &["--ttl", "9m"],
            &["--ttl", "25h"],
            &["--long-lived", "--create-account", "read"],
        ] {
            assert_eq!(asked(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn people_are_told_until_when_it_is_good() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let lent = json!({"expires": "2026-01-01T01:30:00Z", "account": "system:serviceaccount:muster-system:muster-kubeconfig"});
        let said = told(&lent, Some(Path::new("f")), now);
        assert!(said.starts_with("good until 2026-01-01T01:30:00Z (for 1h30m) as system:"), "{said}");
        assert!(said.ends_with("try: kubectl --kubeconfig f get nodes\n"), "{said}");
        assert!(told(&json!({"longLived": true}), None, now).contains("does not end"));
        assert_eq!(within("2026-01-01T00:10:29Z".parse().unwrap(), now), "10m");
        assert_eq!(within("2026-01-02T00:00:00Z".parse().unwrap(), now), "24h");
    }
}
