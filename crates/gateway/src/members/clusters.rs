//! The clusters themselves: their rows with figures, the fleet at a glance, its events, and a search over everything (SYM-13: 1, SC-3, SC-4).

use std::collections::BTreeMap;
use std::sync::Arc;

use fleet::{Fleet, Member, State};
use serde_json::{Map, Value, json};

use super::Members;
use super::gather::Gathered;
use super::listing::{Listing, Parameters, with_items};
use super::reach::{Reach, Scope, What};
use super::route::Places;
use super::table::Table;
use super::views::{KNOWN, Sum, View, WARNINGS};
use crate::access::List;
use crate::apiext::page::answer;
use crate::apiext::query::ListQuery;
use crate::apiext::row::{Row, Shape};
use crate::caller::Caller;
use crate::options::Limits;
use crate::problem::Problem;
use crate::visit::{Answered, bytes, json as json_answer};

const MOST_WARNINGS: usize = 20;
const MOST_FOUND: usize = 20;

/// A member and what could be counted on it.
pub(super) struct Counted {
    pub(super) member: Arc<Member>,
    pods: Option<Sum>,
    nodes: Option<Sum>,
}

impl Members {
    /// The members the caller may list, with the figures the caller may see.
    pub(super) async fn counted(&self, caller: &Caller, scope: &Scope) -> Result<Vec<Counted>, Problem> {
        let clusters: Reach<List> = self.reaching.reach(caller, What::all(&KNOWN.clusters), scope).await?;
        // Whoever may see clusters but not pods gets clusters without their figures, which are not waited for as lists are.
        let figures = match scope {
            Scope::One(name) => Scope::Some([name.clone()].into()),
            several => several.clone(),
        };
        let (pods, nodes) = tokio::join!(
            self.look(caller, &View::Pods, None, &figures),
            self.look(caller, &View::Nodes, None, &figures)
        );
        let (pods, nodes) = (or_nothing(pods)?, or_nothing(nodes)?);
        let sums = |gathered: &Gathered| -> BTreeMap<Arc<str>, Sum> {
            gathered.tables.iter().map(|(name, table): &(_, Arc<Table>)| (name.clone(), table.sum)).collect()
        };
        let (pods, nodes) = (sums(&pods), sums(&nodes));
        let one = |member: &Arc<Member>| Counted {
            pods: pods.get(member.name()).copied(),
            nodes: nodes.get(member.name()).copied(),
            member: member.clone(),
        };
        clusters.each().map(|reached| reached.itself().map(one)).collect()
    }

    pub(super) async fn clusters(&self, caller: &Caller, places: &Places, query: &str) -> Answered {
        let listing = Listing::parse(places.get("name"), query, &self.limits)?;
        let counted = self.counted(caller, &listing.scope).await?;
        let rows: Vec<Arc<Row>> = counted.iter().map(|counted| Arc::new(counted.row(&self.reaching.fleet))).collect();
        let page = answer(&rows, &listing.query, &|_| None);
        let tail = json!({"count": page.count, "page": listing.query.page(), "pageSize": listing.query.page_size,
            "unanswered": [], "stale": []});
        Ok(bytes(200, "application/json", with_items(&page.items, &tail.to_string())))
    }

    pub(super) async fn overview(&self, caller: &Caller) -> Answered {
        let counted = self.counted(caller, &Scope::All).await?;
        let mut states: BTreeMap<String, u64> = BTreeMap::new();
        let (mut pods, mut nodes) = (Sum::default(), Sum::default());
        for one in &counted {
            *states.entry(one.member.status().state.to_string()).or_default() += 1;
            pods += one.pods.unwrap_or_default();
            nodes += one.nodes.unwrap_or_default();
        }
        let rows: Vec<Value> = counted.iter().map(|one| one.to_json(&self.reaching.fleet)).collect();
        let warnings = match self.look(caller, &View::Events, None, &Scope::All).await {
            Ok(gathered) => newest(&gathered, MOST_WARNINGS)?,
            Err(problem) if problem.code == 403 => vec![],
            Err(problem) => return Err(problem),
        };
        let shown = json!({"clusters": states, "nodes": nodes.count, "nodesReady": nodes.ready, "pods": pods.count,
            "podsReady": pods.ready, "cpu": {"allocatable": nodes.cpu, "requested": pods.cpu},
            "memory": {"allocatable": nodes.memory, "requested": pods.memory}, "warnings": warnings, "members": rows});
        Ok(json_answer(200, &shown))
    }

    pub(super) async fn events(&self, caller: &Caller, query: &str) -> Answered {
        let listing = Listing::parse("all", query, &self.limits)?.or_sorted("-last");
        self.list(caller, &View::Events, listing, None).await
    }

    /// Clusters, pods and deployments whose name has the text in it; those that begin with it first.
    pub(super) async fn search(&self, caller: &Caller, query: &str) -> Answered {
        let parameters = Parameters::only(query, &["q"], &[])?;
        let text = parameters.get("q").unwrap_or_default().trim().to_lowercase();
        if text.is_empty() || text.len() > 256 {
            return Ok(json_answer(200, &json!([])));
        }
        let clusters = self.reaching.reach::<List>(caller, What::all(&KNOWN.clusters), &Scope::All).await;
        let clusters = match clusters {
            Ok(reach) => reach.each().map(|reached| reached.name().clone()).collect(),
            Err(problem) if problem.code == 403 => vec![],
            Err(problem) => return Err(problem),
        };
        let (pods, deployments) = tokio::join!(
            self.look(caller, &View::Pods, None, &Scope::All),
            self.look(caller, &View::Deployments, None, &Scope::All)
        );
        let (pods, deployments) = (or_nothing(pods)?, or_nothing(deployments)?);
        let work = move || {
            let mut found = Found { text, begins: vec![], holds: vec![] };
            for name in clusters {
                found.look(&name, || {
                    json!({"kind": "Cluster", "cluster": &*name, "namespace": "", "name": &*name,
                    "path": format!("/api/cluster/{name}")})
                });
            }
            for (kind, group, plural, gathered) in
                [("Deployment", "apps", "deployments", &deployments), ("Pod", "core", "pods", &pods)]
            {
                for row in gathered.rows(None) {
                    if found.is_full() {
                        break;
                    }
                    found.look(&row.name, || {
                        let (cluster, namespace, name) = (&*row.cluster, &*row.namespace, &*row.name);
                        let path = format!(
                            "/api/cluster/{cluster}/resources/{group}/v1/namespaces/{namespace}/{plural}/{name}"
                        );
                        json!({"kind": kind, "cluster": cluster, "namespace": namespace, "name": name, "path": path})
                    });
                }
            }
            found.take()
        };
        let found = tokio::task::spawn_blocking(work).await;
        let found = found.map_err(|_| Problem::new(500, "InternalError", "the search could not be done"))?;
        Ok(json_answer(200, &found))
    }
}

/// What the caller may not see is not there for them.
fn or_nothing(look: Result<Gathered, Problem>) -> Result<Gathered, Problem> {
    match look {
        Err(problem) if problem.code == 403 => Ok(Gathered::default()),
        look => look,
    }
}

/// What a search found, in two baskets.
struct Found {
    text: String,
    begins: Vec<Value>,
    holds: Vec<Value>,
}

impl Found {
    fn look(&mut self, name: &str, shown: impl FnOnce() -> Value) {
        // Names of objects are in lower case; a cluster's may not be.
        if name.starts_with(&self.text) && self.begins.len() < MOST_FOUND {
            self.begins.push(shown());
        } else if self.holds.len() < MOST_FOUND
            && (name.contains(&self.text) || name.to_lowercase().contains(&self.text))
        {
            self.holds.push(shown());
        }
    }

    fn is_full(&self) -> bool {
        self.begins.len() >= MOST_FOUND
    }

    fn take(mut self) -> Value {
        self.begins.append(&mut self.holds);
        self.begins.truncate(MOST_FOUND);
        Value::Array(self.begins)
    }
}

/// The newest warnings.
fn newest(gathered: &Gathered, most: usize) -> Result<Vec<Value>, Problem> {
    let query = ListQuery::parse(&format!("sort=-last&pageSize={most}"), &Limits::default())?;
    let page = answer(gathered.rows(Some(WARNINGS)), &query, &|path| gathered.number(path));
    Ok(page.items.iter().filter_map(|item| serde_json::from_slice(item).ok()).collect())
}

impl Counted {
    /// What there is to say of it; figures are absent while they are unknown.
    pub(super) fn to_json(&self, fleet: &Fleet) -> Value {
        let (member, status) = (&self.member, self.member.status());
        let name = &**member.name();
        let mut shown = Map::new();
        let mut put = |key: &str, value: Value| {
            shown.insert(key.to_owned(), value);
        };
        put("name", name.into());
        put("cluster", name.into());
        put("state", status.state.to_string().into());
        put("ready", (status.state == State::Running).into());
        if let Some(version) = status.version {
            put("version", version.into());
        }
        if let Some(latency) = status.latency {
            put("latencyMs", (latency.as_micros() as f64 / 1000.0).into());
        }
        put("since", status.since.to_string().into());
        if let Some(answered) = status.answered {
            put("answered", answered.to_string().into());
        }
        if let Some(error) = status.error {
            put("error", (*error).into());
        }
        put("labels", json!(*member.labels()));
        put("origin", fleet.origin(name).map(|origin| origin.to_string()).unwrap_or_default().into());
        put("simulated", member.is_here().into());
        if let Some(nodes) = self.nodes {
            put("nodes", nodes.count.into());
            put("nodesReady", nodes.ready.into());
        }
        if let Some(pods) = self.pods {
            put("pods", pods.count.into());
            put("podsReady", pods.ready.into());
        }
        if let (Some(nodes), Some(pods)) = (self.nodes, self.pods) {
            put("cpu", json!({"allocatable": nodes.cpu, "requested": pods.cpu}));
            put("memory", json!({"allocatable": nodes.memory, "requested": pods.memory}));
        }
        Value::Object(shown)
    }

    fn row(&self, fleet: &Fleet) -> Row {
        let json = self.to_json(fleet);
        let (name, labels) = (self.member.name(), self.member.labels());
        let labels = labels.iter().map(|(key, value)| (key.as_str().into(), value.as_str().into())).collect();
        let nowhere = Arc::from("");
        let state = json["state"].as_str().unwrap_or_default().to_owned();
        let shape =
            Shape { words: &[&state], json: json.to_string().into_bytes(), ..Shape::of(name, &nowhere, name, &labels) };
        Row::shaped(shape)
    }
}

impl ListQuery {
    /// Which page, for an answer that has no cursor.
    pub(super) fn page(&self) -> usize {
        match self.from {
            crate::apiext::query::From::Page(page) => page,
            crate::apiext::query::From::After(_) => 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_shows_what_begins_with_the_text_before_what_holds_it() {
        let mut found = Found { text: "web".to_owned(), begins: vec![], holds: vec![] };
        for name in ["my-web", "web-1", "db", "WEB"] {
            found.look(name, || name.into());
        }
        assert_eq!(found.take(), json!(["web-1", "my-web", "WEB"]));
    }

    #[test]
    fn a_search_is_bounded() {
        let mut found = Found { text: "p".to_owned(), begins: vec![], holds: vec![] };
        (0..100).for_each(|i| found.look(&format!("p{i}"), || i.into()));
        assert!(found.is_full());
        assert_eq!(found.take().as_array().map(Vec::len), Some(MOST_FOUND));
    }
}
