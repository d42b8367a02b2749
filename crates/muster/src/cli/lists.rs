//! `muster pods`, `endpoints`, `releases`, `events`: rows over one cluster or all of them.

use clap::Args;
use jiff::Timestamp;
use serde_json::Value;

use super::{
    gateway::{Server, Url},
    scope::{Groups, Scope},
    view::{Column, Listing, text},
    words,
};
use crate::problem::Problem;

#[derive(Debug, Args)]
pub struct OfApp {
    /// An application, by its label `app` [default: every one]
    pub app: Option<String>,
    #[command(flatten)]
    pub scope: Scope,
    #[command(flatten)]
    pub groups: Groups,
    #[command(flatten)]
    pub listing: Listing,
    #[command(flatten)]
    pub server: Server,
}

#[derive(Debug, Args)]
pub struct Events {
    /// Only what happened to this object or to those of this application [default: everything]
    pub app: Option<String>,
    #[command(flatten)]
    pub scope: Scope,
    /// Only warnings
    #[arg(long)]
    pub warnings: bool,
    #[command(flatten)]
    pub listing: Listing,
    #[command(flatten)]
    pub server: Server,
}

pub async fn pods(flags: OfApp) -> Result<(), Problem> {
    let gateway = flags.server.gateway()?;
    let url = flags.scope.pods_url(flags.app.as_deref().unwrap_or("all"), &flags.groups);
    let rows = flags.listing.rows(&gateway, url).await?;
    flags.listing.print(&rows, &pod_columns(Timestamp::now()))
}

pub async fn endpoints(flags: OfApp) -> Result<(), Problem> {
    let gateway = flags.server.gateway()?;
    let app = flags.app.as_deref().unwrap_or("all");
    let url = Url::of(&["api", "cluster", &flags.scope.cluster, "endpoints", app]);
    let url = flags.groups.on(url).with_some("namespace", flags.scope.namespace.as_ref());
    let rows = flags.listing.rows(&gateway, url).await?;
    flags.listing.print(&rows, &endpoint_columns())
}

pub async fn releases(flags: OfApp) -> Result<(), Problem> {
    let gateway = flags.server.gateway()?;
    let app = flags.app.as_deref().unwrap_or("all");
    let url = Url::of(&["api", "cluster", &flags.scope.cluster, "appPod", app, "helm"]);
    let url = flags.groups.on(url).with_some("namespace", flags.scope.namespace.as_ref());
    let rows = flags.listing.rows(&gateway, url).await?;
    flags.listing.print(&rows, &release_columns(Timestamp::now()))
}

pub async fn events(flags: Events) -> Result<(), Problem> {
    let gateway = flags.server.gateway()?;
    let mut listing = flags.listing;
    listing.filter = all_of([
        listing.filter.take().map(|filter| format!("({filter})")),
        flags.scope.namespace.as_ref().map(|name| format!("namespace eq {}", quoted(name))),
        flags.app.as_ref().map(|app| {
            let app = app.trim_end_matches('-');
            format!("(object eq {} or object startswith {})", quoted(app), quoted(&format!("{app}-")))
        }),
        flags.warnings.then(|| "type eq Warning".to_owned()),
    ]);
    listing.sort = listing.sort.or_else(|| Some("-last".to_owned()));
    let url = Url::of(&["wapi", "v1", "events"]);
    let one = Some(&flags.scope.cluster).filter(|cluster| *cluster != "all");
    let rows = listing.rows(&gateway, url.with_some("cluster", one)).await?;
    listing.print(&rows, &event_columns(Timestamp::now()))
}

/// A text in the language of filters, which knows no way to write a quote within quotes.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', ""))
}

fn all_of(parts: impl IntoIterator<Item = Option<String>>) -> Option<String> {
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(" and "))
}

fn since(head: &'static str, pointer: &'static str, now: Timestamp) -> Column {
    Column::by(head, move |row| words::age(&text(row, pointer), now))
}

fn pod_columns(now: Timestamp) -> Vec<Column> {
    let status = |row: &Value| {
        let reason = text(row, "/reason");
        if reason.is_empty() { text(row, "/phase") } else { reason }
    };
    vec![
        Column::at("CLUSTER", "/cluster"),
        Column::at("NAMESPACE", "/namespace"),
        Column::at("NAME", "/name").shrinks(),
        Column::at("READY", "/ready"),
        Column::by("STATUS", status),
        Column::at("RESTARTS", "/restarts"),
        since("AGE", "/created", now),
        Column::at("APP", "/app").wide(),
        Column::at("GROUP", "/group").wide(),
        Column::at("UNIT", "/unit").wide(),
        Column::at("LDC", "/ldc").wide(),
        Column::at("NODE", "/node").wide(),
        Column::at("IP", "/ip").wide(),
        Column::at("IMAGE", "/image").wide().shrinks(),
    ]
}

fn endpoint_columns() -> Vec<Column> {
    vec![
        Column::at("CLUSTER", "/cluster"),
        Column::at("NAMESPACE", "/namespace"),
        Column::at("NAME", "/name").shrinks(),
        Column::by("READY", |row| addresses(row, true)).shrinks(),
        Column::by("NOT READY", |row| addresses(row, false)).shrinks(),
        Column::at("APP", "/app").wide(),
    ]
}

/// Every address with every port, as kubectl shows them.
fn addresses(row: &Value, ready: bool) -> String {
    let list = |key: &str| row[key].as_array().map(Vec::as_slice).unwrap_or_default();
    let here = list("addresses").iter().filter(|address| address["ready"] == ready).map(|address| text(address, "/ip"));
    let all: Vec<String> = match list("ports") {
        [] => here.collect(),
        ports => here.flat_map(|ip| ports.iter().map(move |port| format!("{ip}:{}", text(port, "/port")))).collect(),
    };
    all.join(",")
}

fn release_columns(now: Timestamp) -> Vec<Column> {
    vec![
        Column::at("CLUSTER", "/cluster"),
        Column::at("NAMESPACE", "/namespace"),
        Column::at("NAME", "/name").shrinks(),
        Column::by("CHART", |row| format!("{}-{}", text(row, "/chart"), text(row, "/chartVersion"))).shrinks(),
        Column::at("REVISION", "/revision"),
        Column::at("STATUS", "/status"),
        since("UPDATED", "/updated", now),
        Column::at("APP VERSION", "/appVersion").wide(),
    ]
}

fn event_columns(now: Timestamp) -> Vec<Column> {
    vec![
        since("LAST", "/last", now),
        Column::at("CLUSTER", "/cluster"),
        Column::at("NAMESPACE", "/namespace"),
        Column::at("TYPE", "/type"),
        Column::at("REASON", "/reason"),
        Column::by("OBJECT", |row| format!("{}/{}", text(row, "/kind").to_lowercase(), text(row, "/object"))).shrinks(),
        Column::at("MESSAGE", "/message").shrinks(),
        Column::at("COUNT", "/count").wide(),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn filters_are_joined_and_cannot_be_left() {
        let joined = all_of([Some("(a eq 1)".to_owned()), None, Some(format!("b eq {}", quoted("x' or 'y")))]);
        assert_eq!(joined.as_deref(), Some("(a eq 1) and b eq 'x or y'"));
        assert_eq!(all_of([None, None]), None);
    }

    #[test]
    fn endpoints_are_addresses_with_ports() {
        let row = json!({"addresses": [{"ip": "10.0.0.1", "ready": true}, {"ip": "10.0.0.2", "ready": false}],
            "ports": [{"name": "http", "port": 80}, {"port": 81}]});
        assert_eq!(addresses(&row, true), "10.0.0.1:80,10.0.0.1:81");
        assert_eq!(addresses(&row, false), "10.0.0.2:80,10.0.0.2:81");
        assert_eq!(addresses(&json!({"addresses": [{"ip": "10.0.0.1", "ready": true}]}), true), "10.0.0.1");
    }

    #[test]
    fn a_pods_reason_says_more_than_its_phase() {
        let columns = pod_columns("2026-01-01T00:01:00Z".parse().unwrap());
        let row = json!({"cluster": "a", "phase": "Running", "reason": "CrashLoopBackOff", "created": "2026-01-01T00:00:00Z"});
        let cell = |head: &str| (columns.iter().find(|column| column.head == head).unwrap().cell)(&row);
        assert_eq!((cell("STATUS"), cell("AGE")), ("CrashLoopBackOff".to_owned(), "60s".to_owned()));
    }
}
