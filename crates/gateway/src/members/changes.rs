//! Hears of changes behind the paths of this room, so that a page is read again only when there is something new on it.

use std::sync::Arc;
use std::time::Duration;

use fleet::{Cache, Change, State};
use futures_util::stream::{self, BoxStream};
use http::Method;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::sleep;

use super::Members;
use super::apps;
use super::gather::STALE_AFTER;
use super::kinds::named;
use super::listing::{Parameters, scope};
use super::objects::META;
use super::reach::{Reach, Scope, What};
use super::route::{self, Op, Places};
use super::views::{KNOWN, View};
use crate::access::List;
use crate::apiext::catalog::Kind;
use crate::caller::Caller;
use crate::problem::Problem;
use crate::visit::{Notice, Notices, Room};

/// Figures of whole clusters are not read more often than this.
const FIGURES: Duration = Duration::from_secs(2);

/// What a path shows.
struct Shown {
    kinds: Vec<Arc<Kind>>,
    scope: Scope,
    namespace: Option<String>,
    /// Changes that do not mention it are of no interest; an application's or a pod's name.
    word: Option<String>,
    /// Only this object.
    object: Option<String>,
    pace: Option<Duration>,
}

impl Shown {
    fn of(kind: &Arc<Kind>, scope: Scope) -> Self {
        Self { kinds: vec![kind.clone()], scope, namespace: None, word: None, object: None, pace: None }
    }
}

impl Members {
    pub(super) async fn notices(
        self: Arc<Self>,
        caller: Caller,
        path: String,
        query: String,
    ) -> Result<Notices, Problem> {
        let (route, places) = route::find(&Method::GET, &path)?;
        if places.get("name") == META && matches!(route.op, Op::List | Op::Get) {
            let rest = path.split_once("/resources/").map_or("", |(_, rest)| rest);
            let apiext: Arc<dyn Room> = self.apiext.clone();
            return apiext.follow(caller, format!("/apiext/v1/{rest}"), String::new()).await;
        }
        let shown = shown(route.op, &places, &query)?;
        let mut streams: Vec<BoxStream<'static, Notice>> = vec![self.arrivals()];
        let mut refused = None;
        let mut seen = false;
        for kind in &shown.kinds {
            let what = What::within(kind, shown.namespace.as_deref());
            match self.reaching.reach::<List>(&caller, what, &shown.scope).await {
                Ok(reach) => {
                    seen = true;
                    streams.extend(changes(&reach, &shown));
                    if streams.len() <= 1 + reach.each().len() {
                        streams.extend(states(&reach));
                    }
                    streams.extend(reach.each().map(|reached| turns(reached.cache())));
                }
                // Of several kinds those count that the caller may see.
                Err(problem) if problem.code == 403 => refused = Some(problem),
                Err(problem) => return Err(problem),
            }
        }
        match refused {
            Some(problem) if !seen => Err(problem),
            _ => Ok(Box::pin(stream::select_all(streams))),
        }
    }

    /// Members that come and go.
    fn arrivals(&self) -> BoxStream<'static, Notice> {
        let changed = self.reaching.fleet.changed();
        Box::pin(stream::unfold(changed, |mut changed| async move {
            changed.changed().await.ok()?;
            Some((Notice::Moved, changed))
        }))
    }
}

fn shown(op: Op, places: &Places, query: &str) -> Result<Shown, Problem> {
    let parameters = Parameters::take(query, &["cluster", "namespace"], &[])?;
    let scope = || scope(places.find("name").unwrap_or("all"), parameters.get("cluster"));
    let namespace = places.find("namespace").or(parameters.get("namespace")).map(str::to_owned);
    let word = places.find("app").map(str::to_owned);
    let of = |kind: &Arc<Kind>| {
        Ok::<_, Problem>(Shown { namespace: namespace.clone(), word: word.clone(), ..Shown::of(kind, scope()?) })
    };
    match op {
        Op::Clusters | Op::ZcloudList | Op::ZcloudGet => {
            let kinds = vec![KNOWN.pods.clone(), KNOWN.nodes.clone()];
            Ok(Shown { kinds, pace: Some(FIGURES), ..Shown::of(&KNOWN.pods, scope()?) })
        }
        Op::Overview => {
            let kinds = vec![KNOWN.pods.clone(), KNOWN.nodes.clone(), KNOWN.events.clone()];
            Ok(Shown { kinds, pace: Some(FIGURES), ..Shown::of(&KNOWN.pods, Scope::All) })
        }
        Op::AppPods => of(&KNOWN.pods),
        Op::AppEndpoints => of(&KNOWN.endpoints),
        Op::AppReleases => Ok(Shown { word: None, ..of(&KNOWN.releases)? }),
        Op::DeploymentStat => of(&KNOWN.deployments),
        Op::PodEvents => Ok(Shown { word: places.find("pod").map(str::to_owned), ..of(&KNOWN.events)? }),
        Op::Events => of(&KNOWN.events),
        Op::AppResources => {
            let kinds = apps::resources().iter().map(|(_, view): &(_, View)| view.kind().clone()).collect();
            Ok(Shown { kinds, ..of(&KNOWN.pods)? })
        }
        Op::List => of(&named(places)),
        Op::Get => Ok(Shown { object: places.find("object").map(str::to_owned), ..of(&named(places))? }),
        _ => Err(Problem::not_found("this path cannot be followed: only lists and objects can")),
    }
}

/// Changes of the objects a path shows, member by member.
fn changes(reach: &Reach<List>, shown: &Shown) -> Vec<BoxStream<'static, Notice>> {
    reach.each().map(|reached| heard(reached.cache(), shown)).collect()
}

fn heard(cache: Arc<Cache>, shown: &Shown) -> BoxStream<'static, Notice> {
    let (namespace, object, pace) = (shown.namespace.clone(), shown.object.clone(), shown.pace);
    let word = shown.word.as_ref().map(|word| format!("\"{word}\""));
    let matters = move |change: &Change| {
        let here = namespace.is_none() || namespace.as_deref() == change.key.namespace.as_deref();
        let this = object.as_deref().is_none_or(|object| object == &*change.key.name);
        // Of what is gone nobody knows any more what it said.
        let said = match (&word, &change.now) {
            (Some(word), Some(now)) => memchr::memmem::find(&now.json(), word.as_bytes()).is_some(),
            _ => true,
        };
        here && this && said
    };
    let changes = cache.changes();
    // The memory is kept up to date for as long as somebody listens.
    Box::pin(stream::unfold((cache, changes, matters), move |(cache, mut changes, matters)| async move {
        loop {
            match changes.recv().await {
                Ok(change) if !matters(&change) => continue,
                Ok(_) | Err(RecvError::Lagged(_)) => {
                    if let Some(pace) = pace {
                        sleep(pace).await;
                    }
                    return Some((Notice::Changed, (cache, changes, matters)));
                }
                Err(RecvError::Closed) => return None,
            }
        }
    }))
}

/// Members that are lost and found: their rows become stale, or fresh again.
fn states(reach: &Reach<List>) -> Vec<BoxStream<'static, Notice>> {
    let one = |state: (State, tokio::sync::watch::Receiver<fleet::Status>)| -> BoxStream<'static, Notice> {
        Box::pin(stream::unfold(state, |(before, mut watch)| async move {
            let now = watch.wait_for(|status| status.state != before).await.ok()?.state;
            Some((Notice::Changed, (now, watch)))
        }))
    };
    reach.each().map(|reached| one((reached.status().state, reached.watch()))).collect()
}

/// What is in memory becomes old, or is kept up to date again. A member may be found before its objects are, and none of them need have
/// changed meanwhile: nothing else would say it.
fn turns(cache: Arc<Cache>) -> BoxStream<'static, Notice> {
    Box::pin(stream::unfold((cache.is_fresh(), cache), |(mut before, cache)| async move {
        loop {
            cache.turns(!before).await;
            if before {
                // Lists call it old only after a while.
                sleep(STALE_AFTER + Duration::from_millis(100)).await;
                if cache.is_fresh() {
                    continue;
                }
            }
            before = !before;
            return Some((Notice::Changed, (before, cache)));
        }
    }))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn lists_and_objects_can_be_followed_and_nothing_else() {
        // F-20
        for path in [
            "/api/cluster/all",
            "/api/cluster/all/appPod/web",
            "/api/cluster/all/appPod/web/helm",
            "/api/cluster/m/resources/apps/v1/deployments",
            "/api/cluster/m/resources/apps/v1/namespaces/n/deployments/web",
            "/wapi/v1/overview",
            "/wapi/v1/events",
            "/api/cluster/m/namespace/n/app/web/resource",
            "/api/cluster/m/namespace/n/pods/p/event",
        ] {
            let (route, places) = route::find(&Method::GET, path).unwrap();
            assert!(shown(route.op, &places, "").is_ok(), "{path}");
        }
        for path in [
            "/api/cluster/m/exec",
            "/api/cluster/m/terminal",
            "/wapi/v1/openapi.json",
            "/api/cluster/m/namespace/n/pods/p/logs",
        ] {
            let (route, places) = route::find(&Method::GET, path).unwrap();
            assert_eq!(shown(route.op, &places, "").err().unwrap().code, 404, "{path}");
        }
        let (route, places) = route::find(&Method::GET, "/api/cluster/all/appPod/web").unwrap();
        let web = shown(route.op, &places, "namespace=shop&cluster=a,b&page=2").unwrap();
        assert_eq!((web.namespace.as_deref(), web.word.as_deref()), (Some("shop"), Some("web")));
        assert_eq!(web.scope, Scope::Some(["a".to_owned(), "b".to_owned()].into()));
    }
}
