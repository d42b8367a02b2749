//! The table of routes over members: requests are dispatched by it and the OpenAPI document is made from it.

use http::Method;

use super::routes::table;
use crate::apiext::path::segment;
use crate::problem::Problem;

/// What a route does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    Clusters,
    AppResources,
    AppPods,
    AppReleases,
    AppRestart,
    AppEndpoints,
    Terminal,
    Exec,
    DeploymentStat,
    PodEvents,
    PodLogs,
    LogFiles,
    LogFile,
    Kinds,
    List,
    Get,
    Apply,
    Delete,
    Act,
    ZcloudList,
    ZcloudCollection,
    ZcloudGet,
    ZcloudAct,
    ZcloudDelete,
    ZcloudInside,
    ZcloudInsideOne,
    MemberRole,
    Overview,
    Events,
    Search,
    OpenApi,
    Cleanups,
    CleanupAbandon,
}

/// Name, JSON type, what it does.
pub(super) type Parameter = (&'static str, &'static str, &'static str);

pub(super) struct Route {
    pub(super) method: Method,
    /// `{name}` stands for one segment.
    pub(super) path: &'static str,
    pub(super) op: Op,
    pub(super) summary: &'static str,
    /// Beside those of a list.
    pub(super) parameters: &'static [Parameter],
    /// Whether it takes what every list takes.
    pub(super) list: bool,
    /// The schema of a good answer, or its media type.
    pub(super) answer: &'static str,
}

/// What stands in the places of a route.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Places(Vec<(&'static str, String)>);

impl Places {
    pub(super) fn of(places: Vec<(&'static str, String)>) -> Self {
        Self(places)
    }

    pub(super) fn get(&self, name: &str) -> &str {
        self.find(name).unwrap_or_default()
    }

    pub(super) fn find(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str())
    }
}

const ROOTS: [&str; 3] = ["/api/cluster/", "/api/pod/", "/apis/zcloud.cn/"];

/// Whether a path belongs here, whatever stands behind it.
pub(super) fn owns(path: &str) -> bool {
    ROOTS.iter().any(|root| path.starts_with(root))
        || table().iter().any(|route| route.path == path && route.path.starts_with("/wapi/"))
}

/// The route of a request.
pub(super) fn find(method: &Method, path: &str) -> Result<(&'static Route, Places), Problem> {
    let segments: Vec<&str> = path.strip_prefix('/').unwrap_or(path).split('/').collect();
    let mut allowed: Vec<&str> = Vec::new();
    for route in table() {
        if !fits(route.path, &segments) {
            continue;
        }
        if route.method != *method {
            allowed.push(route.method.as_str());
            continue;
        }
        let mut places = Vec::new();
        for (place, raw) in route.path[1..].split('/').zip(&segments) {
            if let Some(name) = place.strip_prefix('{') {
                places.push((name.trim_end_matches('}'), segment(raw)?));
            }
        }
        return Ok((route, Places(places)));
    }
    if allowed.is_empty() {
        // A path that is none of ours because of an empty or strange part says so.
        for raw in segments {
            segment(raw)?;
        }
        return Err(Problem::not_found("no such path; GET /wapi/v1/openapi.json lists those there are"));
    }
    allowed.dedup();
    let allowed = allowed.join(", ");
    Err(Problem::new(405, "MethodNotAllowed", format!("this path takes {allowed}")).with("allow", allowed))
}

fn fits(template: &str, segments: &[&str]) -> bool {
    let mut places = template[1..].split('/');
    let mut given = segments.iter();
    loop {
        match (places.next(), given.next()) {
            (None, None) => return true,
            (Some(place), Some(segment)) if place.starts_with('{') || place == *segment => {}
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn op(method: &str, path: &str) -> Result<(Op, Places), u16> {
        let found = find(&method.parse().unwrap(), path);
        found.map(|(route, places)| (route.op, places)).map_err(|problem| problem.code)
    }

    #[test]
    fn the_thirteen_paths_of_the_seed_lead_where_they_say() {
        // SYM-13
        for (method, path, expected) in [
            ("GET", "/api/cluster/all", Op::Clusters),
            ("GET", "/api/cluster/bj/namespace/shop/app/web/resource", Op::AppResources),
            ("GET", "/api/cluster/all/appPod/web", Op::AppPods),
            ("GET", "/api/cluster/all/appPod/web/helm", Op::AppReleases),
            ("POST", "/api/cluster/bj/namespace/shop/app/web/restart", Op::AppRestart),
            ("GET", "/api/cluster/bj/endpoints/web", Op::AppEndpoints),
            ("GET", "/api/cluster/bj/terminal", Op::Terminal),
            ("GET", "/api/cluster/bj/exec", Op::Exec),
            ("GET", "/api/cluster/bj/deployments/stat", Op::DeploymentStat),
            ("GET", "/api/cluster/bj/namespace/shop/pods/web-1/event", Op::PodEvents),
            ("GET", "/api/cluster/bj/namespace/shop/pods/web-1/logs", Op::PodLogs),
            ("GET", "/api/pod/logfiles", Op::LogFiles),
            ("GET", "/api/cluster/bj/namespace/shop/pods/web-1/logs/file", Op::LogFile),
        ] {
            assert_eq!(op(method, path).unwrap().0, expected, "{path}");
            assert!(owns(path), "{path}");
        }
    }

    #[test]
    fn places_are_decoded_and_namespaces_are_places_or_objects() {
        let (found, places) = op("GET", "/api/cluster/m/resources/core/v1/namespaces/shop/pods").unwrap();
        assert_eq!((found, places.get("namespace"), places.get("plural")), (Op::List, "shop", "pods"));
        let (found, places) = op("GET", "/api/cluster/m/resources/core/v1/namespaces/shop").unwrap();
        assert_eq!((found, places.get("plural"), places.get("object")), (Op::Get, "namespaces", "shop"));
        let (found, places) =
            op("GET", "/api/cluster/m/resources/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode").unwrap();
        assert_eq!((found, places.get("object")), (Op::Get, "system:node"));
        let (found, places) =
            op("POST", "/api/cluster/m/resources/apps/v1/namespaces/n/deployments/web/scale").unwrap();
        assert_eq!((found, places.get("action")), (Op::Act, "scale"));
        let (found, places) = op("GET", "/apis/zcloud.cn/v1/clusters/m/namespaces/n/pods").unwrap();
        assert_eq!((found, places.get("namespace")), (Op::ZcloudInside, "n"));
    }

    #[test]
    fn what_is_no_path_is_refused_by_what_is_wrong_with_it() {
        for (method, path, code) in [
            ("GET", "/api/cluster/", 400),
            ("GET", "/api/cluster/a%2fb/appPod/x", 400),
            ("GET", "/api/cluster/../appPod/x", 400),
            ("GET", "/api/cluster/a/appPod//helm", 400),
            ("GET", "/api/cluster/a/appPod/x%00", 400),
            ("GET", "/api/cluster/a/nothing/b/c/d/e/f/g/h/i", 404),
            ("POST", "/api/cluster/a/appPod/x", 405),
            ("DELETE", "/api/cluster/a", 405),
        ] {
            assert_eq!(op(method, path).unwrap_err(), code, "{path}");
        }
        for other in ["/api/v1/pods", "/apis/apps/v1/deployments", "/wapi/v1/login", "/wapi/v1/overviews", "/"] {
            assert!(!owns(other), "{other}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_path_makes_it_panic(path in "[/a-z%0-9.{}é]{0,80}") {
            let _ = find(&Method::GET, &format!("/api/cluster{path}"));
        }
    }
}
