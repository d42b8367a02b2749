//! Names for completion, from the server the line speaks of: clusters, namespaces, pods, applications, releases, reconcilers.

use std::{collections::BTreeSet, path::PathBuf, time::Duration};

use serde_json::Value;
use tokio::time::timeout;

use super::place::Place;
use crate::{
    cli::gateway::{Server, Url},
    controller, hub,
};

/// Long enough for a server on another continent, short enough for a finger that waits.
const PATIENCE: Duration = Duration::from_secs(1);
/// Rows looked at for names.
const ROWS: &str = "1000";

/// Whose names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Names {
    Clusters,
    /// One of them, or all.
    Scope,
    Namespaces,
    Pods,
    Apps,
    PodsAndApps,
    Releases,
    /// Of a running hub.
    Running,
    /// Of this program.
    Reconcilers,
}

impl Names {
    /// What an argument of a command names.
    pub fn of(path: &[&str], id: &str) -> Option<Names> {
        match (path, id) {
            (["cluster", "get" | "kubeconfig" | "delete" | "cleanups"], "name") => Some(Names::Clusters),
            (["cluster", "cleanups", "abandon"], "name") => Some(Names::Clusters),
            (["cluster", ..], _) => None,
            (_, "cluster") => Some(Names::Scope),
            (_, "namespace") => Some(Names::Namespaces),
            (["pods" | "endpoints" | "events" | "restart"], "app") => Some(Names::Apps),
            (["releases"], "app") => Some(Names::Releases),
            (["logs"], "word") => Some(Names::PodsAndApps),
            (["exec" | "terminal"], "pod") => Some(Names::Pods),
            (["controller", _], "name") => Some(Names::Running),
            (["reconciler"], "name") | (["crds", ..], "names") | (["phase", ..], "kind") => Some(Names::Reconcilers),
            _ => None,
        }
    }
}

/// The names, as far as somebody answers in time.
pub async fn ask(names: Names, place: &Place<'_>) -> Vec<String> {
    let cluster = place.said("cluster").unwrap_or_else(|| "all".to_owned());
    let namespace = place.said("namespace");
    let pods = |field: &str| {
        let url = Url::of(&["api", "cluster", &cluster, "appPod", "all"]).with_some("namespace", namespace.as_ref());
        // Of many only those that can be meant.
        let begun = Some(&place.begun).filter(|begun| is_plain(begun));
        url.with_some("filter", begun.map(|begun| format!("{field} startswith '{begun}'")))
    };
    match names {
        Names::Clusters => rows(place, Url::of(&["api", "cluster", "all"]), "name").await,
        Names::Scope => {
            let mut all = rows(place, Url::of(&["api", "cluster", "all"]), "name").await;
            all.push("all".to_owned());
            all
        }
        Names::Namespaces => {
            rows(place, Url::of(&["api", "cluster", &cluster, "resources", "core", "v1", "namespaces"]), "name").await
        }
        Names::Pods => rows(place, pods("name"), "name").await,
        Names::Apps => rows(place, pods("app"), "app").await,
        Names::PodsAndApps => {
            let (pods, apps) = tokio::join!(rows(place, pods("name"), "name"), rows(place, pods("app"), "app"));
            apps.into_iter().chain(pods).collect()
        }
        Names::Releases => {
            let url = Url::of(&["api", "cluster", &cluster, "appPod", "all", "helm"]);
            rows(place, url.with_some("namespace", namespace.as_ref()), "name").await
        }
        Names::Running => match timeout(PATIENCE, running(place).names()).await {
            Ok(Ok(names)) => names.into_iter().filter(|name| is_plain(name)).collect(),
            Ok(Err(_)) | Err(_) => reconcilers(),
        },
        Names::Reconcilers => reconcilers(),
    }
}

fn reconcilers() -> Vec<String> {
    hub::registry().iter().map(|registration| registration.name.to_string()).collect()
}

/// The hub the line speaks of.
fn running(place: &Place<'_>) -> controller::Running {
    let file = |id: &str| place.said(id).map(PathBuf::from);
    controller::Running {
        hub: place.said("hub").unwrap_or_else(|| controller::HUB.to_owned()),
        token_file: file("token_file"),
        certificate_authority: file("certificate_authority"),
        data_dir: file("data_dir"),
    }
}

/// One field of the rows of a list, each value once.
async fn rows(place: &Place<'_>, url: Url, field: &str) -> Vec<String> {
    let file = |id: &str| place.said(id).map(PathBuf::from);
    let server = Server {
        server: place.said("server"),
        token_file: file("token_file"),
        certificate_authority: file("certificate_authority"),
        data_dir: file("data_dir"),
    };
    let Ok(gateway) = server.gateway() else { return Vec::new() };
    match timeout(PATIENCE, gateway.get(&url.with("fields", field).with("pageSize", ROWS))).await {
        Ok(Ok(answer)) => values(&answer, field),
        Ok(Err(_)) | Err(_) => Vec::new(),
    }
}

fn values(answer: &Value, field: &str) -> Vec<String> {
    let rows = answer["items"].as_array().into_iter().flatten();
    let plain = rows.filter_map(|row| row[field].as_str()).filter(|value| is_plain(value));
    plain.map(str::to_owned).collect::<BTreeSet<_>>().into_iter().collect()
}

/// What a name of Kubernetes can be: nothing that a shell or a terminal would make something else of.
fn is_plain(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    (1..=253).contains(&text.len()) && text.chars().all(plain) && !text.starts_with('-')
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use serde_json::json;

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn what_clusters_call_things_cannot_run_in_a_shell() {
        // B-14
        let answer = json!({"items": [{"name": "web"}, {"name": "$(reboot)"}, {"name": "a b"}, {"name": "web"}, {"name": "*"},
            {"name": "-rf"}, {"name": "a\u{1b}[2J"}, {"name": ""}, {"name": 5}, {}, {"name": "db-0.x_1"}]});
        assert_eq!(values(&answer, "name"), ["db-0.x_1", "web"]);
        assert!(values(&json!({"items": 5}), "name").is_empty());
    }

    #[test]
    fn every_argument_that_names_something_is_one_of_its_command() {
        let mut root = Cli::command();
        root.build();
        for (path, id, names) in [
            (&["cluster", "get"][..], "name", Some(Names::Clusters)),
            (&["cluster", "import"], "name", None),
            (&["cluster", "role"], "namespace", None),
            (&["pods"], "cluster", Some(Names::Scope)),
            (&["restart"], "namespace", Some(Names::Namespaces)),
            (&["restart"], "app", Some(Names::Apps)),
            (&["releases"], "app", Some(Names::Releases)),
            (&["logs"], "word", Some(Names::PodsAndApps)),
            (&["exec"], "pod", Some(Names::Pods)),
            (&["terminal"], "pod", Some(Names::Pods)),
            (&["controller", "requeue"], "name", Some(Names::Running)),
            (&["reconciler"], "name", Some(Names::Reconcilers)),
            (&["crds", "apply"], "names", Some(Names::Reconcilers)),
            (&["phase", "graph"], "kind", Some(Names::Reconcilers)),
        ] {
            assert_eq!(Names::of(path, id), names, "{path:?} {id}");
            let command = path.iter().fold(&root, |command, name| command.find_subcommand(name).unwrap());
            assert!(command.get_arguments().any(|arg| arg.get_id() == id), "{path:?} {id}");
        }
        assert!(!reconcilers().is_empty());
    }
}
