//! `muster cluster`: the members of the fleet.

use std::{
    fs,
    io::{self, BufRead, IsTerminal, Read},
    path::{Path, PathBuf},
    time::Duration,
};

use clap::{Args, Subcommand};
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use tokio::time::{Instant, sleep};

use super::{
    cleanups,
    gateway::{Gateway, Server, Url},
    kubeconfig,
    view::{Column, Listing, Output, text},
    words::{age, bytes, cores, readable},
};
use crate::{
    duration,
    problem::{Kind, Problem},
    say,
    show::{self, Form},
};

/// A kubeconfig or a token is not larger.
const LARGEST: u64 = 1 << 20;
/// Events told of what was waited for in vain.
const LAST_EVENTS: usize = 3;

#[derive(Debug, Subcommand)]
pub enum Cluster {
    /// List them with their states and figures
    #[command(visible_alias = "ls")]
    List {
        #[command(flatten)]
        listing: Listing,
        #[command(flatten)]
        server: Server,
    },
    /// Show one
    Get {
        name: String,
        #[arg(short, long, value_enum)]
        output: Option<Output>,
        #[command(flatten)]
        server: Server,
    },
    /// Make a cluster a member, by a kubeconfig or by a service account's token
    Import(Box<Import>),
    /// Print the account a cluster needs for us, with no more rights than are used; for kubectl apply
    Role {
        /// See everything but secrets, and change nothing
        #[arg(long)]
        read_only: bool,
        /// Where the account is, on that cluster
        #[arg(short, long, default_value = fleet::ACCOUNT_NAMESPACE, value_name = "NAME")]
        namespace: String,
    },
    /// Write a kubeconfig of a member, with a token that ends by itself
    Kubeconfig(Box<kubeconfig::Kubeconfig>),
    /// List what is still to be removed from members that could not be asked
    Cleanups(Box<cleanups::Cleanups>),
    /// Take a member out of the fleet; nothing on it is changed
    #[command(visible_alias = "rm")]
    Delete {
        name: String,
        /// Do not ask
        #[arg(short, long)]
        yes: bool,
        #[command(flatten)]
        server: Server,
    },
}

#[derive(Debug, Args)]
pub struct Import {
    /// Its name in the fleet
    pub name: String,
    /// A kubeconfig, - for standard input; only what its context needs is sent
    #[arg(long, value_name = "FILE", required_unless_present = "server_url")]
    pub kubeconfig: Option<PathBuf>,
    /// The context in it [default: the current one]
    #[arg(long, value_name = "NAME", requires = "kubeconfig")]
    pub context: Option<String>,
    /// Instead of a kubeconfig: the address of the cluster's API
    #[arg(long, value_name = "URL", conflicts_with = "kubeconfig", requires = "service_account_token")]
    pub server_url: Option<String>,
    /// Authority of its certificate
    #[arg(long, value_name = "FILE", requires = "server_url")]
    pub ca: Option<PathBuf>,
    /// File with the token of a service account there, - for standard input
    #[arg(long, alias = "member-token-file", value_name = "FILE", requires = "server_url")]
    pub service_account_token: Option<PathBuf>,
    /// Labels of the member; may be repeated
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = label)]
    pub labels: Vec<(String, String)>,
    /// What is refused otherwise: insecure (any certificate), system-roots (no authority given), plain-http
    #[arg(long, value_delimiter = ',', value_name = "WORDS", value_parser = ["insecure", "system-roots", "plain-http"],
          hide_possible_values = true)]
    pub allow: Vec<String>,
    /// Only say what would be imported
    #[arg(long)]
    pub dry_run: bool,
    /// Wait until it runs [default: 60s when no duration is given]
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "60s", value_parser = duration::parse,
          value_name = "DURATION")]
    pub wait: Option<Duration>,
    #[arg(short, long, value_enum)]
    pub output: Option<Output>,
    #[command(flatten)]
    pub server: Server,
}

fn label(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(key, _)| !key.is_empty());
    pair.map(|(key, value)| (key.to_owned(), value.to_owned())).ok_or_else(|| "write KEY=VALUE".to_owned())
}

pub(super) fn zcloud(name: &[&str]) -> Url {
    Url::of(&[&["apis", "zcloud.cn", "v1", "clusters"], name].concat())
}

pub async fn run(command: Cluster) -> Result<(), Problem> {
    match command {
        Cluster::List { listing, server } => {
            let rows = listing.rows(&server.gateway()?, Url::of(&["api", "cluster", "all"])).await?;
            listing.print(&rows, &columns(Timestamp::now()))
        }
        Cluster::Get { name, output, server } => {
            let row = row(&server.gateway()?, &name).await?;
            match output {
                Some(Output::Json) => show::value(Form::Json, &row),
                Some(Output::Yaml) => show::value(Form::Yaml, &row),
                Some(Output::Name) => say(&format!("{}\n", text(&row, "/name"))),
                None | Some(Output::Wide) => say(&described(&row, Timestamp::now())),
            }
        }
        Cluster::Import(flags) => import(*flags).await,
        Cluster::Role { read_only, namespace } => say(&role(read_only, &namespace)?),
        Cluster::Kubeconfig(flags) => kubeconfig::run(*flags).await,
        Cluster::Cleanups(flags) => cleanups::run(*flags).await,
        Cluster::Delete { name, yes, server } => {
            let gateway = server.gateway()?;
            if !yes && !agreed(&format!("Take {name} out of the fleet? Nothing on it is changed."))? {
                return Err(Problem::new(Kind::Failed, "nothing was done", "you did not say yes"));
            }
            gateway.delete(&zcloud(&[&name])).await?;
            say(&format!("cluster/{name} deleted\n"))
        }
    }
}

async fn row(gateway: &Gateway, name: &str) -> Result<Value, Problem> {
    let answer = gateway.get(&Url::of(&["api", "cluster", name])).await?;
    let items = answer["items"].as_array().into_iter().flatten();
    let found = items.into_iter().find(|row| row["name"] == name).cloned();
    found.ok_or_else(|| {
        Problem::new(Kind::NotFound, format!("there is no cluster {name}"), "no member of the fleet is called so")
            .next("look at what there is: muster cluster list")
    })
}

fn columns(now: Timestamp) -> Vec<Column> {
    vec![
        Column::at("NAME", "/name").shrinks(),
        Column::at("STATE", "/state"),
        Column::at("VERSION", "/version"),
        Column::by("NODES", |row| part_of(row, "/nodesReady", "/nodes")),
        Column::by("PODS", |row| part_of(row, "/podsReady", "/pods")),
        Column::by("CPU", |row| share(row, "/cpu", cores)),
        Column::by("MEMORY", |row| share(row, "/memory", bytes)),
        Column::by("SINCE", move |row| age(&text(row, "/since"), now)),
        Column::by("ERROR", |row| text(row, "/error")).shrinks(),
        Column::by("LATENCY", latency).wide(),
        Column::by("LABELS", labels).wide().shrinks(),
        Column::at("ORIGIN", "/origin").wide(),
    ]
}

fn part_of(row: &Value, part: &str, whole: &str) -> String {
    let (part, whole) = (text(row, part), text(row, whole));
    if whole.is_empty() { String::new() } else { format!("{part}/{whole}") }
}

/// What is requested of what can be given.
fn share(row: &Value, pointer: &str, unit: fn(f64) -> String) -> String {
    let figure = |key: &str| row.pointer(&format!("{pointer}/{key}")).and_then(Value::as_f64);
    match (figure("requested"), figure("allocatable")) {
        (Some(requested), Some(allocatable)) => format!("{}/{}", unit(requested), unit(allocatable)),
        _ => String::new(),
    }
}

fn latency(row: &Value) -> String {
    row.pointer("/latencyMs").and_then(Value::as_f64).map_or_else(String::new, |ms| format!("{}ms", ms.round()))
}

fn labels(row: &Value) -> String {
    let labels = row["labels"].as_object().into_iter().flatten();
    let pairs = labels.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()));
    readable(&pairs.collect::<Vec<_>>().join(","), 1_000)
}

fn described(row: &Value, now: Timestamp) -> String {
    let simulated = if row["simulated"] == true { "yes" } else { "" };
    let lines = [
        ("name", text(row, "/name")),
        ("state", format!("{} for {}", text(row, "/state"), age(&text(row, "/since"), now))),
        ("error", text(row, "/error")),
        ("version", text(row, "/version")),
        ("latency", latency(row)),
        ("nodes", part_of(row, "/nodesReady", "/nodes")),
        ("pods", part_of(row, "/podsReady", "/pods")),
        ("cpu", share(row, "/cpu", cores)),
        ("memory", share(row, "/memory", bytes)),
        ("labels", labels(row)),
        ("origin", text(row, "/origin")),
        ("simulated", simulated.to_owned()),
    ];
    let known = lines.into_iter().filter(|(_, value)| !value.is_empty());
    known.map(|(key, value)| format!("{key:<10} {value}\n")).collect()
}

async fn import(flags: Import) -> Result<(), Problem> {
    let labels: Map<String, Value> =
        flags.labels.iter().map(|(key, value)| (key.clone(), value.as_str().into())).collect();
    let mut body = json!({"name": flags.name, "labels": labels, "allow": flags.allow, "dryRun": flags.dry_run});
    if let Some(file) = &flags.kubeconfig {
        body["kubeconfig"] = only_context(&read(file)?, flags.context.as_deref(), file)?.into();
    } else {
        body["server"] = flags.server_url.as_deref().unwrap_or_default().into();
        let authority = flags.ca.as_deref().map(read).transpose()?;
        body["ca"] = authority.unwrap_or_default().into();
        let token = flags.service_account_token.as_deref().map(read).transpose()?;
        body["token"] = token.unwrap_or_default().trim().into();
    }
    let gateway = flags.server.gateway()?;
    let answer = gateway.post(&zcloud(&[]).with("action", "import"), Some(&body)).await?;
    match flags.output {
        Some(Output::Json) => show::value(Form::Json, &answer)?,
        Some(Output::Yaml) => show::value(Form::Yaml, &answer)?,
        _ => say(&imported(&flags.name, flags.dry_run, &answer))?,
    }
    if flags.dry_run && answer["refused"].as_array().is_some_and(|refused| !refused.is_empty()) {
        return Err(Problem::new(Kind::Failed, "it would be refused", "see above").next("mend the fields named above"));
    }
    match flags.wait.filter(|_| !flags.dry_run) {
        Some(limit) => until_running(&gateway, &flags.name, limit).await,
        None => Ok(()),
    }
}

/// The manifest of the account; nobody needs to be asked for it.
fn role(read_only: bool, namespace: &str) -> Result<String, Problem> {
    let access = if read_only { fleet::Access::Read } else { fleet::Access::Operate };
    fleet::account_manifest(access, namespace)
        .map_err(|refused| Problem::new(Kind::Usage, "--namespace cannot be used", refused))
}

/// What the gateway understood, for people.
fn imported(name: &str, dry_run: bool, answer: &Value) -> String {
    let refused = answer["refused"].as_array().is_some_and(|refused| !refused.is_empty());
    let done = match (dry_run, refused) {
        (true, true) => "would be refused (dry run)",
        (true, false) => "would be imported (dry run)",
        (false, _) => "imported",
    };
    let mut out = format!("cluster/{name} {done}\n");
    for (word, pointer) in [
        ("server", "/server"),
        ("user", "/user"),
        ("trust", "/trust"),
        ("authority", "/fingerprints"),
        ("allowed", "/allow"),
    ] {
        let value = text(answer, pointer);
        if !value.is_empty() {
            out.push_str(&format!("  {word:<10} {value}\n"));
        }
    }
    for refused in answer["refused"].as_array().into_iter().flatten() {
        let word = |pointer| text(refused, pointer);
        out.push_str(&format!("  refused    {}: {}; {}\n", word("/field"), word("/why"), word("/remedy")));
    }
    out
}

async fn until_running(gateway: &Gateway, name: &str, limit: Duration) -> Result<(), Problem> {
    let until = Instant::now() + limit;
    loop {
        let now = match row(gateway, name).await {
            Ok(row) if row["state"] == "Running" => return say(&format!("cluster/{name} is running\n")),
            Ok(row) => format!("it is {} ({})", text(&row, "/state"), text(&row, "/error")),
            Err(problem) => problem.brief(),
        };
        if Instant::now() >= until {
            tell_last(gateway, name).await;
            return Err(Problem::new(Kind::Timeout, format!("{name} does not run after {}s", limit.as_secs()), now)
                .next(format!("it is tried further; look at it with: muster cluster get {name}")));
        }
        sleep(Duration::from_millis(250)).await;
    }
}

/// What is known of a member that was waited for in vain, and what was last said of what declares it, on standard error.
async fn tell_last(gateway: &Gateway, name: &str) {
    let Ok(row) = row(gateway, name).await else { return };
    for line in described(&row, Timestamp::now()).lines() {
        eprintln!("  {line}");
    }
    // "Secret muster-system/prod"
    let origin = text(&row, "/origin");
    let Some((namespace, object)) = origin.split_once(' ').and_then(|(_, place)| place.split_once('/')) else { return };
    let url = Url::of(&["api", "cluster", "meta", "resources", "core", "v1", "namespaces", namespace, "events"]);
    // Whoever may not read them is shown none.
    let Ok(events) = gateway.get(&url.with("sort", "-lastTimestamp").with("pageSize", "200")).await else { return };
    let of = |event: &&Value| text(event, "/involvedObject/name") == object;
    for event in events["items"].as_array().into_iter().flatten().filter(of).take(LAST_EVENTS) {
        eprintln!(
            "  event      {}: {}",
            readable(&text(event, "/reason"), 60),
            readable(&text(event, "/message"), 300)
        );
    }
}

/// A file of the user's, or standard input.
fn read(path: &Path) -> Result<String, Problem> {
    let unusable = |why: String| Problem::new(Kind::Usage, format!("{} cannot be used", path.display()), why);
    let mut text = String::new();
    let source: Box<dyn Read> = match path == Path::new("-") {
        true => Box::new(io::stdin()),
        false => Box::new(fs::File::open(path).map_err(|e| unusable(e.to_string()))?),
    };
    source.take(LARGEST + 1).read_to_string(&mut text).map_err(|e| unusable(e.to_string()))?;
    if text.len() as u64 > LARGEST {
        return Err(unusable(format!("it is larger than {} KiB", LARGEST >> 10)));
    }
    Ok(text)
}

/// The kubeconfig with one context alone: credentials for other clusters are nobody's business.
fn only_context(kubeconfig: &str, context: Option<&str>, file: &Path) -> Result<String, Problem> {
    let unusable = |why: String| Problem::new(Kind::Usage, format!("{} cannot be used", file.display()), why);
    let whole = meta::yaml::parse_last(kubeconfig.as_bytes()).map_err(unusable)?;
    let named = |list: &str, name: &Value| -> Option<Value> {
        whole[list].as_array()?.iter().find(|entry| entry["name"] == *name).cloned()
    };
    let wanted = context.map_or_else(|| whole["current-context"].clone(), Value::from);
    let Some(found) = named("contexts", &wanted) else {
        let known = whole["contexts"].as_array().into_iter().flatten().filter_map(|entry| entry["name"].as_str());
        let known = readable(&known.collect::<Vec<_>>().join(", "), 500);
        let why = match wanted.as_str().filter(|name| !name.is_empty()) {
            Some(name) => format!("it has no context {name:?}; there are: {known}"),
            None => format!("it names no current context; there are: {known}"),
        };
        return Err(unusable(why).next("name one with --context"));
    };
    let list = |list: &str, key: &str| Value::from_iter(named(list, &found["context"][key]));
    let only = json!({"apiVersion": "v1", "kind": "Config", "current-context": wanted, "contexts": [found],
        "clusters": list("clusters", "cluster"), "users": list("users", "user")});
    Ok(only.to_string())
}

/// Asks a person; without one to ask, the flag must say it.
pub fn agreed(question: &str) -> Result<bool, Problem> {
    if !io::stdin().is_terminal() {
        return Err(Problem::new(Kind::Usage, "nothing was done", "there is nobody to ask")
            .next("say yes in advance with --yes"));
    }
    eprint!("{question} [y/N] ");
    let mut answer = String::new();
    let _ = io::stdin().lock().read_line(&mut answer);
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = "
apiVersion: v1
current-context: a
contexts: [{name: a, context: {cluster: ca, user: ua}}, {name: b, context: {cluster: cb, user: ub}}]
clusters: [{name: ca, cluster: {server: 'https://a'}}, {name: cb, cluster: {server: 'https://b'}}]
users: [{name: ua, user: {token: secret-a}}, {name: ub, user: {token: secret-b}}]
";

    #[test]
    fn only_what_the_context_needs_is_sent() {
        // B-13
        let file = Path::new("f");
        let a: Value = serde_json::from_str(&only_context(TWO, None, file).unwrap()).unwrap();
        assert_eq!(
            (&a["clusters"][0]["cluster"]["server"], a["users"].as_array().unwrap().len()),
            (&"https://a".into(), 1)
        );
        assert!(!a.to_string().contains("secret-b"));
        let b = only_context(TWO, Some("b"), file).unwrap();
        assert!(b.contains("secret-b") && !b.contains("secret-a"));
        let wrong = only_context(TWO, Some("c"), file).unwrap_err().to_string();
        assert!(
            wrong.contains("there are: a, b") && wrong.contains("--context") && !wrong.contains("secret"),
            "{wrong}"
        );
        assert!(only_context("contexts: []", None, file).unwrap_err().to_string().contains("no current context"));
        assert!(only_context("[", None, file).is_err());
        // What is missing is for the server to say.
        assert!(only_context("{current-context: a, contexts: [{name: a, context: {cluster: x}}]}", None, file).is_ok());
    }

    #[test]
    fn a_member_is_described_by_what_is_known_of_it() {
        // SYM-13
        let row = json!({"name": "beijing", "state": "Running", "since": "2026-01-01T00:00:00Z", "version": "v1.34.0",
            "nodes": 4, "nodesReady": 3, "cpu": {"allocatable": 64.0, "requested": 7.5},
            "memory": {"allocatable": 274877906944u64, "requested": 1073741824}, "latencyMs": 1.4, "labels": {"zone": "z"}, "simulated": true});
        let text = described(&row, "2026-01-01T01:00:00Z".parse().unwrap());
        for line in [
            "state      Running for 60m",
            "nodes      3/4",
            "cpu        7.5/64",
            "memory     1Gi/256Gi",
            "labels     zone=z",
        ] {
            assert!(text.contains(line), "{text}");
        }
        assert!(!text.contains("error") && !text.contains("pods"));
    }

    #[test]
    fn the_account_is_printed_with_more_or_fewer_rights() {
        // MAE-7
        let (reads, operates) = (role(true, "muster-system").unwrap(), role(false, "ops").unwrap());
        assert!(!reads.contains("secrets,") && !reads.contains("patch"), "{reads}");
        assert!(operates.contains("deployments/scale") && operates.contains("namespace: ops"), "{operates}");
        assert_eq!(role(true, "a b").unwrap_err().code(), 2);
    }

    #[test]
    fn a_preview_names_what_is_refused() {
        let answer = json!({"server": "https://a", "user": "a token", "refused": [{"field": "users[0].user.exec", "why": "runs", "remedy": "use a token"}]});
        let text = imported("prod", true, &answer);
        assert!(
            text.contains("would be refused (dry run)")
                && text.contains("refused    users[0].user.exec: runs; use a token"),
            "{text}"
        );
    }
}
