//! Which deed a request over members is: for the audit log.

use std::sync::Arc;

use http::Method;
use http::header::USER_AGENT;

use super::Members;
use super::kinds::named;
use super::objects::META;
use super::route::{Op, Places};
use crate::caller::Caller;
use crate::problem::Problem;
use crate::trail::{Changed, Deed, Doing};
use crate::visit::{Answered, REQUEST_ID, Visit};

impl Members {
    /// A request as a deed, begun now. Who it is is asked first for what changes something: it is written down even when given up.
    pub(super) async fn doing(&self, op: Op, places: &Places, visit: &Visit) -> Doing {
        let text = |name| visit.header(name).unwrap_or_default().to_owned();
        let deed = Deed {
            request_id: text(REQUEST_ID),
            source: visit.caller.address(),
            path: visit.path.clone(),
            user_agent: text(USER_AGENT),
            ..described(op, &visit.method, places, &visit.query)
        };
        self.begun(op, deed, &visit.caller).await
    }

    /// The same for a log over a stream, which is no request of its own.
    pub(super) async fn doing_text(&self, op: Op, places: &Places, caller: &Caller, path: &str, query: &str) -> Doing {
        let described = described(op, &Method::GET, places, query);
        let deed = Deed { source: caller.address(), path: path.to_owned(), ..described };
        self.begun(op, deed, caller).await
    }

    async fn begun(&self, op: Op, deed: Deed, caller: &Caller) -> Doing {
        // What is done to the meta API is in its own log, in the caller's name.
        let trail = self.trail.clone().filter(|_| deed.cluster != META);
        let mut doing = Doing::new(trail, deed, matters(op));
        if doing.is_kept() && doing.matters() {
            doing.by(&self.reaching.gatekeeper.name(caller).await);
        }
        doing
    }

    /// Writes down how it ended.
    pub(super) async fn done(&self, mut doing: Doing, caller: &Caller, outcome: Outcome) {
        let refused = matches!(&outcome, Err(problem) if matches!(problem.code, 401 | 403));
        if doing.is_kept() && !doing.matters() && refused {
            doing.by(&self.reaching.gatekeeper.name(caller).await);
        }
        doing.ended(match &outcome {
            Ok((code, changed)) => Ok((*code, changed.as_deref())),
            Err(problem) => Err(problem),
        });
    }
}

/// The code of an answer, and what it says was changed; or the refusal.
pub(super) type Outcome = Result<(u16, Option<Arc<Changed>>), Problem>;

/// Of an answer that is on its way.
pub(super) fn outcome(answered: &Answered) -> Outcome {
    match answered {
        Ok(response) => Ok((response.status().as_u16(), response.extensions().get::<Arc<Changed>>().cloned())),
        Err(problem) => Err(problem.clone()),
    }
}

/// Whether it changes something, runs something or gives something secret out.
fn matters(op: Op) -> bool {
    match op {
        Op::AppRestart | Op::Terminal | Op::Exec | Op::LogFiles | Op::LogFile => true,
        Op::Apply | Op::Delete | Op::Act => true,
        Op::ZcloudCollection | Op::ZcloudAct | Op::ZcloudDelete | Op::CleanupAbandon => true,
        Op::Clusters | Op::AppResources | Op::AppPods | Op::AppReleases | Op::AppEndpoints => false,
        Op::DeploymentStat | Op::PodEvents | Op::PodLogs | Op::Kinds | Op::List | Op::Get => false,
        Op::ZcloudList | Op::ZcloudGet | Op::ZcloudInside | Op::ZcloudInsideOne => false,
        Op::MemberRole | Op::Overview | Op::Events | Op::Search | Op::OpenApi | Op::Cleanups => false,
    }
}

/// Verb and object of a request. Of the query only names are read, never a command.
fn described(op: Op, method: &Method, places: &Places, query: &str) -> Deed {
    let asked = |wanted: &str| {
        let found = form_urlencoded::parse(query.as_bytes()).find(|(key, _)| key == wanted);
        found.map(|(_, value)| value.into_owned()).unwrap_or_default()
    };
    let place = |name: &str| places.get(name).to_owned();
    let deed = |verb: &str, resource: &str, sub: &str| Deed {
        verb: verb.to_owned(),
        cluster: place("name"),
        resource: resource.to_owned(),
        subresource: sub.to_owned(),
        namespace: place("namespace"),
        ..Deed::default()
    };
    let in_pod =
        |verb: &str, pod: String, namespace: String| Deed { namespace, name: pod, ..deed(verb, "pods", "exec") };
    let of_kind = |verb: &str| {
        let kind = named(places);
        Deed { group: kind.group.clone(), name: place("object"), ..deed(verb, &kind.plural, "") }
    };
    let itself = |verb: &str, sub: &str| Deed { name: place("name"), ..deed(verb, "clusters", sub) };
    match op {
        Op::Exec => in_pod("exec", asked("pod"), asked("namespace")),
        Op::Terminal => in_pod("terminal", asked("pod"), asked("namespace")),
        Op::LogFiles => Deed { cluster: asked("cluster"), ..in_pod("exec", asked("pod"), asked("namespace")) },
        Op::LogFile => in_pod("exec", place("pod"), place("namespace")),
        Op::AppRestart => Deed { name: place("app"), ..deed("restart", "applications", "") },
        Op::Apply => of_kind("apply"),
        Op::Delete => of_kind("delete"),
        Op::Act => of_kind(places.get("action")),
        Op::ZcloudCollection => deed("import", "clusters", ""),
        Op::ZcloudAct => itself("kubeconfig", given_out(&asked("longLived"), &asked("createAccount"))),
        Op::ZcloudDelete => itself("delete", ""),
        Op::CleanupAbandon => Deed { name: place("owner"), ..deed("abandon", "clusters", "cleanups") },
        Op::PodLogs => Deed { name: place("pod"), ..deed("get", "pods", "log") },
        Op::List => of_kind("list"),
        Op::Get => of_kind("get"),
        // The path says the rest.
        _ => Deed { name: place("app"), ..deed(&method.as_str().to_lowercase(), "", "") },
    }
}

/// What a kubeconfig that is given out holds: a token that ends (for which an account may be made first), or what we keep ourselves.
fn given_out(long_lived: &str, create_account: &str) -> &'static str {
    match (long_lived, create_account) {
        ("true" | "1", _) => "credentials",
        (_, "") => "kubeconfig",
        _ => "account",
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::route::find;
    use super::*;

    #[test]
    fn a_deed_names_its_object_and_never_the_command() {
        let of = |method: Method, path: &str, query: &str| {
            let (route, places) = find(&method, path).unwrap();
            let deed = described(route.op, &method, &places, query);
            assert!(!format!("{deed:?}").contains("s3cret"), "{deed:?}");
            let words = [
                &deed.verb,
                &deed.cluster,
                &deed.group,
                &deed.resource,
                &deed.subresource,
                &deed.namespace,
                &deed.name,
            ];
            (matters(route.op), words.map(String::as_str).join("|"))
        };
        let pod = "namespace=shop&pod=web-1&command=login&command=s3cret";
        for (method, path, query, expected) in [
            (Method::POST, "/api/cluster/bj/exec", pod, (true, "exec|bj||pods|exec|shop|web-1")),
            (Method::GET, "/api/cluster/bj/exec", pod, (true, "exec|bj||pods|exec|shop|web-1")),
            (Method::GET, "/api/cluster/bj/terminal", pod, (true, "terminal|bj||pods|exec|shop|web-1")),
            (Method::GET, "/api/pod/logfiles", "cluster=bj&namespace=shop&pod=p", (true, "exec|bj||pods|exec|shop|p")),
            (
                Method::POST,
                "/api/cluster/all/namespace/shop/app/web/restart",
                "group=s3cret",
                (true, "restart|all||applications||shop|web"),
            ),
            (
                Method::PUT,
                "/api/cluster/bj/resources/apps/v1/namespaces/shop/deployments/web",
                "",
                (true, "apply|bj|apps|deployments||shop|web"),
            ),
            (Method::DELETE, "/api/cluster/bj/resources/core/v1/nodes/n", "", (true, "delete|bj||nodes|||n")),
            (
                Method::POST,
                "/api/cluster/bj/resources/apps/v1/namespaces/n/deployments/web/scale",
                "",
                (true, "scale|bj|apps|deployments||n|web"),
            ),
            (
                Method::POST,
                "/apis/zcloud.cn/v1/clusters/bj",
                "action=getkubeconfig",
                (true, "kubeconfig|bj||clusters|kubeconfig||bj"),
            ),
            (
                Method::POST,
                "/apis/zcloud.cn/v1/clusters/bj",
                "action=getkubeconfig&longLived=1",
                (true, "kubeconfig|bj||clusters|credentials||bj"),
            ),
            (
                Method::POST,
                "/apis/zcloud.cn/v1/clusters/bj",
                "action=getkubeconfig&createAccount=read",
                (true, "kubeconfig|bj||clusters|account||bj"),
            ),
            (
                Method::GET,
                "/api/cluster/bj/namespace/shop/pods/p/logs",
                "sinceTime=s3cret",
                (false, "get|bj||pods|log|shop|p"),
            ),
            (Method::GET, "/api/cluster/all/appPod/web", "", (false, "get|all|||||web")),
        ] {
            let (matters, words) = of(method, path, query);
            assert_eq!((matters, words.as_str()), expected, "{path}");
        }
    }
}
