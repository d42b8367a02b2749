//! Which kinds members have: each says so itself, and is asked again now and then.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use fleet::{Member, State};
use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::Members;
use super::gather::Unanswered;
use super::listing::{Parameters, scope};
use super::reach::{Reach, Scope, What};
use super::route::Places;
use super::views::KNOWN;
use crate::access::{Discover, List, Target};
use crate::apiext::catalog::{Catalog, Kind};
use crate::caller::Caller;
use crate::problem::Problem;
use crate::visit::{Answered, json as json_answer};

/// How long the no of one among others is believed.
const NO_FOR: Duration = Duration::from_secs(10);

/// The catalog of each member, for as long as it is one.
#[derive(Default)]
pub(super) struct Catalogs(Mutex<HashMap<Arc<str>, Own>>);

type Own = (Weak<Member>, Arc<Catalog>);

impl Catalogs {
    fn of(&self, member: &Arc<Member>) -> Arc<Catalog> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // One that was declared anew has another way to it.
        if let Some((of, catalog)) = known.get(member.name())
            && std::ptr::eq(of.as_ptr(), Arc::as_ptr(member))
        {
            return catalog.clone();
        }
        let catalog = Arc::new(Catalog::new(member.client(), vec![]));
        known.insert(member.name().clone(), (Arc::downgrade(member), catalog.clone()));
        catalog
    }

    /// Forgets those of members that left.
    pub(super) fn sweep(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|_, (member, _)| member.strong_count() > 0);
    }
}

/// A kind as a path names it; what it is like is for a catalog to say.
pub(super) fn named(places: &Places) -> Arc<Kind> {
    let group = match places.get("group") {
        "core" => "",
        group => group,
    };
    Arc::new(Kind {
        group: group.to_owned(),
        version: places.get("version").to_owned(),
        plural: places.get("plural").to_owned(),
        kind: places.get("plural").to_owned(),
        namespaced: places.find("namespace").is_some(),
        verbs: vec![],
        short_names: vec![],
        has_scale: false,
        has_status: false,
    })
}

pub(super) fn no_kind(kind: &Kind) -> Problem {
    let why = format!(
        "there is no kind {}/{}/{} there; GET /api/cluster/{{name}}/kinds lists those there are",
        kind.group_word(),
        kind.version,
        kind.plural
    );
    Problem::not_found(why)
}

impl Members {
    /// What a member says of a kind; `None` when it does not have it. Of one among others a no is believed for a while.
    pub(super) async fn kind_on(
        &self,
        member: &str,
        asked: &Kind,
        scope: &Scope,
    ) -> Result<Option<Arc<Kind>>, Unanswered> {
        let unanswered = |reason, message| Unanswered { cluster: member.into(), reason, message };
        let Some(member) = self.reaching.fleet.member(member) else {
            return Err(unanswered("Left", "it left the fleet".to_owned()));
        };
        let catalog = self.catalogs.of(&member);
        let no_for = if matches!(scope, Scope::One(_)) { Duration::ZERO } else { NO_FOR };
        let found = catalog.find_or_no(&asked.group, &asked.version, &asked.plural, no_for);
        match timeout(scope.patience(), found).await {
            Ok(Ok(kind)) => Ok(kind),
            Ok(Err(problem)) => Err(away(&member).unwrap_or_else(|| unanswered("Failed", problem.message))),
            Err(_) => Err(away(&member).unwrap_or_else(|| {
                unanswered("Slow", "it did not say in time which kinds it has; ask again in a moment".to_owned())
            })),
        }
    }

    /// A kind of a member that cannot be asked: as it last said, else as every cluster has it.
    pub(super) fn kind_once_on(&self, member: &str, asked: &Kind) -> Option<Arc<Kind>> {
        let member = self.reaching.fleet.member(member)?;
        let heard = self.catalogs.of(&member).last_heard(&asked.group, &asked.version, &asked.plural);
        heard.or_else(|| {
            let (everywhere, _) = super::zcloud::inside(&asked.plural).ok()?;
            (everywhere.group == asked.group && everywhere.version == asked.version).then_some(everywhere)
        })
    }

    /// `GET …/kinds`: of one cluster, of the meta API, or of all clusters together.
    pub(super) async fn kinds(&self, caller: &Caller, places: &Places, query: &str) -> Answered {
        let parameters = Parameters::only(query, &["cluster"], &[])?;
        if places.get("name") == "meta" {
            let proof = self.reaching.gatekeeper.clone();
            let proof = proof.authorize::<Discover>(caller.clone(), Target::Document("/apis".into())).await?;
            let all = self.apiext.catalog.all(&proof).await?;
            return Ok(json_answer(200, &all.iter().map(|kind| shown(kind)).collect()));
        }
        let scope = scope(places.get("name"), parameters.get("cluster"))?;
        let reach: Reach<List> = self.reaching.reach(caller, What::all(&KNOWN.clusters), &scope).await?;
        let members: Vec<Arc<Member>> =
            reach.each().map(|reached| reached.itself().cloned()).collect::<Result<_, _>>()?;
        let patience = scope.patience();
        let asked = members.iter().map(|member| async move {
            match timeout(patience, self.catalogs.of(member).every()).await {
                Ok(Ok(kinds)) => Ok(kinds),
                Ok(Err(problem)) => Err(problem),
                Err(_) => Err(Problem::new(504, "ClusterSlow", "it did not say in time which kinds it has")),
            }
        });
        let mut all: BTreeMap<(String, String, String), Arc<Kind>> = BTreeMap::new();
        for (member, kinds) in members.iter().zip(join_all(asked).await) {
            match kinds {
                Ok(kinds) => {
                    for kind in kinds {
                        all.entry((kind.group.clone(), kind.version.clone(), kind.plural.clone())).or_insert(kind);
                    }
                }
                // Of one cluster alone there is nothing else to show.
                Err(problem) if matches!(scope, Scope::One(_)) => {
                    return Err(problem.with("cluster", &**member.name()));
                }
                Err(problem) => tracing::debug!(member = %member.name(), %problem, "a member did not name its kinds"),
            }
        }
        Ok(json_answer(200, &all.values().map(|kind| shown(kind)).collect()))
    }
}

/// Why a member that is known to be away does not answer.
fn away(member: &Member) -> Option<Unanswered> {
    let status = member.status();
    let reason = match status.state {
        State::Running => return None,
        State::Unreachable => "Unreachable",
        State::Connecting => "Connecting",
    };
    let message = status.error.map_or_else(|| "it has not answered yet".to_owned(), |why| why.to_string());
    Some(Unanswered { cluster: member.name().clone(), reason, message })
}

fn shown(kind: &Kind) -> Value {
    json!({"group": kind.group_word(), "version": kind.version, "plural": kind.plural, "kind": kind.kind,
        "namespaced": kind.namespaced, "verbs": kind.verbs, "shortNames": kind.short_names})
}
