//! Which kinds there are: what the API's discovery says, narrowed to the configured ones, asked again when a kind is unknown.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kube::Client;
use kube::core::discovery::v2::{APIGroupDiscoveryList, APIResourceDiscovery};
use tokio::time::{Instant, sleep_until, timeout};

use super::path::encode;
use crate::access::{Authorized, Discover};
use crate::problem::Problem;

/// A kind as the API serves it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Kind {
    /// Empty for the core group.
    pub group: String,
    pub version: String,
    pub plural: String,
    pub kind: String,
    pub namespaced: bool,
    pub verbs: Vec<String>,
    pub short_names: Vec<String>,
    /// Whether it has the `scale` subresource.
    pub has_scale: bool,
    /// Whether it has the `status` subresource.
    pub has_status: bool,
}

impl Kind {
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// The group as paths of this face spell it.
    pub fn group_word(&self) -> &str {
        if self.group.is_empty() { "core" } else { &self.group }
    }

    /// Fields that stay out of lists unless they are asked for by name, which needs the right to get the objects.
    pub fn private_fields(&self) -> &'static [&'static str] {
        match (self.group.as_str(), self.plural.as_str()) {
            ("", "secrets") => &["data", "stringData"],
            _ => &[],
        }
    }

    /// Path of the collection, or of an object in it, in the Kubernetes API.
    pub(crate) fn url(&self, namespace: Option<&str>, name: Option<&str>) -> String {
        let mut url = match self.group.as_str() {
            "" => format!("/api/{}", encode(&self.version)),
            group => format!("/apis/{}/{}", encode(group), encode(&self.version)),
        };
        if let Some(namespace) = namespace {
            url = format!("{url}/namespaces/{}", encode(namespace));
        }
        url = format!("{url}/{}", encode(&self.plural));
        match name {
            Some(name) => format!("{url}/{}", encode(name)),
            None => url,
        }
    }

    pub(crate) fn allows(&self, verb: &str) -> bool {
        self.verbs.iter().any(|known| known == verb)
    }

    #[cfg(test)]
    pub(crate) fn for_tests(group: &str, version: &str, plural: &str, kind: &str) -> Self {
        let verbs = ["get", "list", "watch", "create", "update", "patch", "delete"].map(str::to_owned).to_vec();
        let [group, version, plural, kind] = [group, version, plural, kind].map(str::to_owned);
        let short_names = vec![];
        Self { group, version, plural, kind, namespaced: true, verbs, short_names, has_scale: false, has_status: false }
    }
}

type Key = (String, String, String);

pub(crate) struct Catalog {
    client: Client,
    /// `group/plural` patterns; empty is everything.
    wanted: Vec<String>,
    known: Mutex<Option<Snapshot>>,
    /// One question at a time.
    asking: tokio::sync::Mutex<()>,
}

#[derive(Clone)]
struct Snapshot {
    kinds: Arc<HashMap<Key, Arc<Kind>>>,
    taken: Instant,
}

/// How long discovery is believed, and how long at least lies between two questions.
const FRESH: Duration = Duration::from_secs(60);
const AGAIN: Duration = Duration::from_secs(1);
const DEADLINE: Duration = Duration::from_secs(10);

impl Catalog {
    pub(crate) fn new(client: Client, wanted: Vec<String>) -> Self {
        Self { client, wanted, known: Mutex::new(None), asking: tokio::sync::Mutex::new(()) }
    }

    pub(crate) async fn find(&self, group: &str, version: &str, plural: &str) -> Result<Option<Arc<Kind>>, Problem> {
        // A definition may have come since: no is said only by what was asked after the question came.
        self.find_or_no(group, version, plural, Duration::ZERO).await
    }

    /// The same, where a no may be as old as this: for who asks many catalogs at once, of which some do not have the kind.
    pub(crate) async fn find_or_no(
        &self,
        group: &str,
        version: &str,
        plural: &str,
        no_for: Duration,
    ) -> Result<Option<Arc<Kind>>, Problem> {
        let key = (group.to_owned(), version.to_owned(), plural.to_owned());
        let now = Instant::now();
        let known = self.snapshot(now.checked_sub(FRESH)).await?;
        if let Some(kind) = known.kinds.get(&key) {
            return Ok(Some(kind.clone()));
        }
        Ok(self.snapshot(now.checked_sub(no_for)).await?.kinds.get(&key).cloned())
    }

    /// All kinds, in order of group, version and plural.
    pub(crate) async fn all(&self, _: &Authorized<Discover>) -> Result<Vec<Arc<Kind>>, Problem> {
        self.every().await
    }

    /// The same, for who has another proof.
    pub(crate) async fn every(&self) -> Result<Vec<Arc<Kind>>, Problem> {
        let mut kinds: Vec<Arc<Kind>> =
            self.snapshot(Instant::now().checked_sub(AGAIN)).await?.kinds.values().cloned().collect();
        kinds.sort_by(|a, b| (&a.group, &a.version, &a.plural).cmp(&(&b.group, &b.version, &b.plural)));
        Ok(kinds)
    }

    /// What was last heard of a kind, however long ago, without asking.
    pub(crate) fn last_heard(&self, group: &str, version: &str, plural: &str) -> Option<Arc<Kind>> {
        self.known()?.kinds.get(&(group.to_owned(), version.to_owned(), plural.to_owned())).cloned()
    }

    fn known(&self) -> Option<Snapshot> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What the API has, asked not before `since`. The API is asked once a second at most: who comes too early waits.
    async fn snapshot(&self, since: Option<Instant>) -> Result<Snapshot, Problem> {
        let fits = |snapshot: &Snapshot| since.is_none_or(|since| snapshot.taken >= since);
        if let Some(snapshot) = self.known().filter(fits) {
            return Ok(snapshot);
        }
        let _turn = self.asking.lock().await;
        let known = self.known();
        if let Some(snapshot) = known.clone().filter(fits) {
            return Ok(snapshot);
        }
        if let Some(before) = known {
            sleep_until(before.taken + AGAIN).await;
        }
        let taken = Instant::now();
        let found = timeout(DEADLINE, async {
            tokio::try_join!(self.client.list_core_api_versions_aggregated(), self.client.list_api_groups_aggregated())
        });
        let (core, groups) = match found.await {
            Ok(Ok(found)) => found,
            Ok(Err(why)) => {
                // Not in the log: a cluster that is away is there already, and this is said at every request.
                let why = fleet::words(&why);
                return Err(Problem::unavailable(format!("the Kubernetes API did not say which kinds it has: {why}")));
            }
            Err(_) => {
                return Err(Problem::unavailable(
                    "the Kubernetes API did not say in time which kinds it has; try again",
                ));
            }
        };
        let kinds = kinds(core).chain(kinds(groups)).filter(|kind| self.is_wanted(kind));
        let key = |kind: &Kind| (kind.group.clone(), kind.version.clone(), kind.plural.clone());
        let snapshot = Snapshot { kinds: Arc::new(kinds.map(|kind| (key(&kind), Arc::new(kind))).collect()), taken };
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = Some(snapshot.clone());
        Ok(snapshot)
    }

    fn is_wanted(&self, kind: &Kind) -> bool {
        let fits = |pattern: &String| match pattern.split_once('/') {
            None => pattern == "*",
            Some((group, plural)) => group == kind.group_word() && (plural == "*" || plural == kind.plural),
        };
        self.wanted.is_empty() || self.wanted.iter().any(fits)
    }
}

fn kinds(groups: APIGroupDiscoveryList) -> impl Iterator<Item = Kind> {
    groups.items.into_iter().flat_map(|group| {
        let name = group.metadata.and_then(|metadata| metadata.name).unwrap_or_default();
        group.versions.into_iter().flat_map(move |version| {
            let (name, version_name) = (name.clone(), version.version.unwrap_or_default());
            version.resources.into_iter().filter_map(move |resource| kind(&name, &version_name, resource))
        })
    })
}

/// Only what can be listed or got has a face: the rest (reviews, bindings) are calls, not things.
fn kind(group: &str, version: &str, resource: APIResourceDiscovery) -> Option<Kind> {
    let has = |name: &str| resource.subresources.iter().any(|sub| sub.subresource.as_deref() == Some(name));
    let (has_scale, has_status) = (has("scale"), has("status"));
    let kind = Kind {
        group: group.to_owned(),
        version: version.to_owned(),
        plural: resource.resource?,
        kind: resource.response_kind?.kind?,
        namespaced: resource.scope.as_deref() == Some("Namespaced"),
        verbs: resource.verbs,
        short_names: resource.short_names,
        has_scale,
        has_status,
    };
    (kind.allows("list") || kind.allows("get")).then_some(kind)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    #[test]
    fn discovery_becomes_kinds_and_calls_are_left_out() {
        let list = json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "items": [{"metadata": {"name": "apps"}, "versions": [{"version": "v1", "resources": [
            {"resource": "deployments", "scope": "Namespaced", "responseKind": {"group": "apps", "version": "v1", "kind": "Deployment"},
             "verbs": ["get", "list"], "subresources": [{"subresource": "scale", "verbs": []}]},
            {"resource": "reviews", "scope": "Cluster", "responseKind": {"kind": "Review"}, "verbs": ["create"]}]}]}]});
        let found: Vec<Kind> = kinds(serde_json::from_value(list).unwrap()).collect();
        assert_eq!(found.len(), 1);
        assert!(found[0].namespaced && found[0].has_scale && !found[0].has_status);
        assert_eq!(found[0].url(Some("a b"), Some("x/y")), "/apis/apps/v1/namespaces/a%20b/deployments/x%2Fy");
    }
}
