//! Applications over members: pods, endpoints, replicas, events, and everything of one application together (SYM-13: 2, 3, 6, 9, 10).

use std::sync::Arc;

use futures_util::future::try_join_all;
use serde_json::Value;

use super::Members;
use super::gather::{Gathered, Unanswered};
use super::listing::{Listing, Parameters, Parts, array, scope};
use super::reach::{Reach, Scope, What};
use super::route::Places;
use super::views::{KNOWN, View, about_key};
use crate::access::List;
use crate::apiext::catalog::Kind;
use crate::caller::Caller;
use crate::problem::Problem;
use crate::visit::{Answered, bytes};

/// The application of the path; none when it says `all`, which is every one.
fn of_app(places: &Places) -> Option<String> {
    Some(places.get("app").to_owned()).filter(|app| app != "all")
}

impl Members {
    /// The tables of a view for the caller, as far as they may see it.
    pub(super) async fn look(
        &self,
        caller: &Caller,
        view: &View,
        namespace: Option<&str>,
        scope: &Scope,
    ) -> Result<Gathered, Problem> {
        let reach: Reach<List> = self.reaching.reach(caller, What::within(view.kind(), namespace), scope).await?;
        Ok(self.tables.gather(&reach, view, scope.patience()).await)
    }

    /// A list of a view: all rows, or those found by a word.
    pub(super) async fn list(&self, caller: &Caller, view: &View, listing: Listing, word: Option<String>) -> Answered {
        let gathered = self.look(caller, view, listing.namespace.as_deref(), &listing.scope).await?;
        Ok(bytes(200, "application/json", listing.answer(gathered, word).await?))
    }

    pub(super) async fn app_pods(&self, caller: &Caller, places: &Places, query: &str) -> Answered {
        let listing = Listing::parse(places.get("name"), query, &self.limits)?;
        self.list(caller, &View::Pods, listing, of_app(places)).await
    }

    pub(super) async fn app_endpoints(&self, caller: &Caller, places: &Places, query: &str) -> Answered {
        let listing = Listing::parse(places.get("name"), query, &self.limits)?;
        self.list(caller, &View::Endpoints, listing, of_app(places)).await
    }

    pub(super) async fn deployment_stat(&self, caller: &Caller, places: &Places, query: &str) -> Answered {
        let listing = Listing::parse(places.get("name"), query, &self.limits)?;
        self.list(caller, &View::Deployments, listing, None).await
    }

    pub(super) async fn pod_events(&self, caller: &Caller, places: &Places, query: &str) -> Answered {
        let mut listing = Listing::parse(places.get("name"), query, &self.limits)?.or_sorted("-last");
        listing.namespace = Some(places.get("namespace").to_owned());
        self.list(caller, &View::Events, listing, Some(about_key("Pod", places.get("pod")).into())).await
    }

    /// The main resources of an application in a namespace. Kinds the caller may not see are left out.
    pub(super) async fn app_resources(&self, caller: &Caller, places: &Places, query: &str) -> Answered {
        let parameters = Parameters::only(query, &["cluster", "group", "unit", "ldc"], &[])?;
        let scope = scope(places.get("name"), parameters.get("cluster"))?;
        let (namespace, app) = (places.get("namespace"), places.get("app"));
        let parts = Parts::exact(&parameters);
        let views = resources();
        let looks = views.iter().map(|(_, view)| async {
            match self.look(caller, view, Some(namespace), &scope).await {
                Ok(gathered) => Ok(Ok(gathered)),
                Err(problem) if problem.code == 403 => Ok(Err(problem)),
                Err(problem) => Err(problem),
            }
        });
        let looks = try_join_all(looks).await?;
        let mut unanswered: Vec<Unanswered> = Vec::new();
        let mut fields: Vec<String> = Vec::new();
        let mut refused: Option<Problem> = None;
        for ((field, _), look) in views.iter().zip(looks) {
            match look {
                Ok(gathered) => {
                    let rows = array(gathered.rows(Some(app)).filter(|row| parts.fit(row)));
                    fields.push(format!("\"{field}\":{rows}"));
                    for one in gathered.unanswered {
                        if !unanswered.iter().any(|known| known.cluster == one.cluster) {
                            unanswered.push(one);
                        }
                    }
                }
                Err(problem) => refused = Some(problem),
            }
        }
        match refused {
            Some(problem) if fields.is_empty() => Err(problem),
            _ => {
                let named: Value = unanswered.iter().map(Unanswered::to_json).collect();
                let body = format!("{{{},\"unanswered\":{named}}}", fields.join(","));
                Ok(bytes(200, "application/json", body))
            }
        }
    }
}

/// What belongs to an application, under the names the answer has.
pub(super) fn resources() -> Vec<(&'static str, View)> {
    let flat = |kind: &Arc<Kind>| View::Flat(kind.clone());
    vec![
        ("pods", View::Pods),
        ("deployments", View::Deployments),
        ("statefulSets", flat(&KNOWN.stateful_sets)),
        ("daemonSets", flat(&KNOWN.daemon_sets)),
        ("services", flat(&KNOWN.services)),
        ("endpoints", View::Endpoints),
        ("ingresses", flat(&KNOWN.ingresses)),
    ]
}
