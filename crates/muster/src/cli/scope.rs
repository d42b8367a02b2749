//! Which part of the fleet a command is about, and which pods a word of the user means.

use clap::Args;
use serde_json::Value;

use super::{
    gateway::{Gateway, Url},
    view::{Listing, name, text},
};
use crate::problem::{Kind, Problem};

/// Which clusters, and where in them.
#[derive(Debug, Clone, Args)]
pub struct Scope {
    /// A cluster, or all
    #[arg(long, env = "MUSTER_CLUSTER", default_value = "all", value_name = "NAME")]
    pub cluster: String,
    /// A namespace [default: every one]
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,
}

/// The seed's groups of one application.
#[derive(Debug, Clone, Default, Args)]
pub struct Groups {
    /// Only this group: blue, green, canary
    #[arg(long, value_name = "NAME")]
    pub group: Option<String>,
    /// Only this unit
    #[arg(long, value_name = "NAME")]
    pub unit: Option<String>,
    /// Only this logical data centre
    #[arg(long, value_name = "NAME")]
    pub ldc: Option<String>,
}

impl Groups {
    pub fn on(&self, url: Url) -> Url {
        url.with_some("group", self.group.as_ref())
            .with_some("unit", self.unit.as_ref())
            .with_some("ldc", self.ldc.as_ref())
    }
}

/// One pod, wherever it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pod {
    pub cluster: String,
    pub namespace: String,
    pub name: String,
}

impl Pod {
    fn of(row: &Value) -> Pod {
        Pod { cluster: text(row, "/cluster"), namespace: text(row, "/namespace"), name: text(row, "/name") }
    }
}

const EVERYTHING: Listing = Listing { output: None, sort: None, filter: None, selector: None, limit: None };

impl Scope {
    /// The rows of an application's pods; `all` is every application.
    pub fn pods_url(&self, app: &str, groups: &Groups) -> Url {
        let url = Url::of(&["api", "cluster", &self.cluster, "appPod", app]);
        groups.on(url).with_some("namespace", self.namespace.as_ref())
    }

    /// The pods a word means: the one of that name, else those of the application.
    pub async fn pods(&self, gateway: &Gateway, word: &str, groups: &Groups) -> Result<Vec<Pod>, Problem> {
        let named = Listing { filter: Some(format!("name eq '{}'", word.replace('\'', ""))), ..EVERYTHING };
        let rows = named.rows(gateway, self.pods_url("all", groups)).await?;
        let rows = match rows.items.is_empty() {
            false => rows,
            true => EVERYTHING.rows(gateway, self.pods_url(word, groups)).await?,
        };
        if rows.items.is_empty() {
            let silent: Vec<String> = rows.unanswered.iter().map(|one| text(one, "/cluster")).collect();
            let silent = match silent.is_empty() {
                true => String::new(),
                false => format!("; not asked could be {}", silent.join(", ")),
            };
            let why = format!("no pod and no application of {} is called so{silent}", self.words());
            return Err(Problem::new(Kind::NotFound, format!("there is no pod {word}"), why)
                .next("look at what there is: muster pods"));
        }
        Ok(rows.items.iter().map(Pod::of).collect())
    }

    /// Exactly one pod: a name that several carry must be narrowed.
    pub async fn pod(&self, gateway: &Gateway, word: &str) -> Result<Pod, Problem> {
        let mut pods = self.pods(gateway, word, &Groups::default()).await?;
        match pods.len() {
            1 => Ok(pods.remove(0)),
            more => {
                let some: Vec<String> = pods.iter().take(5).map(Pod::place).collect();
                let rest = if more > some.len() { ", …" } else { "" };
                Err(Problem::new(
                    Kind::Failed,
                    format!("{word} means {more} pods"),
                    format!("{}{rest}", some.join(", ")),
                )
                .next("name one pod, and narrow with --cluster and -n"))
            }
        }
    }

    fn words(&self) -> String {
        let namespace = self.namespace.as_ref().map_or_else(String::new, |name| format!(", namespace {name}"));
        match self.cluster.as_str() {
            "all" => format!("all clusters{namespace}"),
            name => format!("cluster {name}{namespace}"),
        }
    }
}

impl Pod {
    pub fn place(&self) -> String {
        name(&serde_json::json!({"cluster": self.cluster, "namespace": self.namespace, "name": self.name}))
    }
}
