//! The table of routes over members: requests are dispatched by it and the OpenAPI document is made from it.

use http::Method;

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

const PARTS: &[Parameter] = &[
    ("namespace", "string", "Only in this namespace."),
    ("group", "string", "Only of these groups (label sym-group): blue,green."),
    ("unit", "string", "Only of these units (label sym-unit)."),
    ("ldc", "string", "Only of these LDCs (label sym-ldc)."),
];
const PATTERNS: &[Parameter] = &[
    ("namespace", "string", "Only in this namespace."),
    ("group", "string", "A regular expression for the group."),
    ("unit", "string", "A regular expression for the unit."),
    ("ldc", "string", "A regular expression for the LDC."),
];
const IN_POD: &[Parameter] = &[
    ("namespace", "string", "The pod's namespace."),
    ("pod", "string", "The pod."),
    ("container", "string", "The container; the pod's default or first one when missing."),
    ("command", "string", "A word of the command; once for each. No shell reads it."),
    ("timeoutSeconds", "integer", "How long the command may run; at most 25."),
];
const TERMINAL: &[Parameter] = &[
    ("namespace", "string", "The pod's namespace."),
    ("pod", "string", "The pod."),
    ("container", "string", "The container; the pod's default or first one when missing."),
    ("command", "string", "What to run, a word each; sh when missing."),
    ("tty", "boolean", "Whether it is a terminal; true when missing."),
    ("stdin", "boolean", "Whether there is input; true when missing."),
    ("stdout", "boolean", "Whether there is output; true when missing."),
    ("stderr", "boolean", "Whether errors have a channel of their own; a terminal has none."),
];
const LOGS: &[Parameter] = &[
    ("container", "string", "The container; the pod's only one when missing."),
    ("tailLines", "integer", "Only the last lines; also as tail."),
    ("follow", "boolean", "Goes on as the log grows."),
    ("sinceSeconds", "integer", "Only what is not older; also as since, which takes 90s, 5m and 2h."),
    ("sinceTime", "string", "Only what was written after this time (RFC 3339)."),
    ("previous", "boolean", "Of the container before this one."),
    ("timestamps", "boolean", "Each line begins with its time."),
    ("tail", "integer", "The same as tailLines."),
    ("since", "string", "The same as sinceSeconds."),
];
const FILES: &[Parameter] = &[
    ("cluster", "string", "The cluster."),
    ("namespace", "string", "The pod's namespace."),
    ("pod", "string", "The pod."),
    ("container", "string", "The container; the pod's default or first one when missing."),
    ("path", "string", "The folder, from the root; /var/log when missing."),
];
const FILE: &[Parameter] = &[
    ("container", "string", "The container; the pod's default or first one when missing."),
    ("path", "string", "The file, from the root."),
    ("tail", "integer", "Only the last lines; 1000 when missing."),
    ("follow", "boolean", "Goes on as the file grows."),
];
const GET: &[Parameter] = &[
    ("raw", "boolean", "The object as Kubernetes has it, without managedFields."),
    ("fields", "string", "Only these fields: name,spec.replicas."),
];
const APPLY: &[Parameter] = &[
    ("dryRun", "boolean", "Shows what would be, and stores nothing."),
    ("force", "boolean", "Takes fields over from their owners."),
];
const DELETE: &[Parameter] =
    &[("propagation", "string", "What happens to what the object owns: background (default), foreground or orphan.")];
const ONLY_READY: &[Parameter] = &[("onlyready", "boolean", "Only clusters that are ready: Running or Unreachable.")];
const ACTION: &[Parameter] = &[("action", "string", "What to do.")];
const ACCESS: &[Parameter] = &[("access", "string", "read (default) or operate.")];
const NAMESPACE: &[Parameter] = &[("namespace", "string", "Only in this namespace.")];
const SEARCH: &[Parameter] = &[("q", "string", "A part of a name.")];

/// Everything there is. What has a word where another has a place stands first.
pub(super) fn table() -> &'static [Route] {
    static TABLE: std::sync::LazyLock<Vec<Route>> = std::sync::LazyLock::new(|| {
        let mut routes = Vec::new();
        let mut add = |method: Method, path, op, summary, parameters, list, answer| {
            routes.push(Route { method, path, op, summary, parameters, list, answer });
        };
        let (get, post, put, delete) = (Method::GET, Method::POST, Method::PUT, Method::DELETE);
        add(
            get.clone(),
            "/api/cluster/{name}",
            Op::Clusters,
            "The state of all clusters, or of one.",
            &[],
            true,
            "Cluster",
        );
        add(
            get.clone(),
            "/api/cluster/{name}/namespace/{namespace}/app/{app}/resource",
            Op::AppResources,
            "An application's pods, workloads, services and endpoints.",
            &PARTS[1..],
            false,
            "AppResources",
        );
        add(get.clone(), "/api/cluster/{name}/appPod/{app}", Op::AppPods, "An application's pods.", PARTS, true, "Pod");
        add(
            get.clone(),
            "/api/cluster/{name}/appPod/{app}/helm",
            Op::AppReleases,
            "An application's Helm releases; all when the application is called all.",
            PATTERNS,
            true,
            "Release",
        );
        add(
            post.clone(),
            "/api/cluster/{name}/namespace/{namespace}/app/{app}/restart",
            Op::AppRestart,
            "Restarts an application's workloads, or those of a part of it.",
            &PARTS[1..],
            false,
            "Restarted",
        );
        add(
            get.clone(),
            "/api/cluster/{name}/endpoints/{app}",
            Op::AppEndpoints,
            "An application's endpoints.",
            PARTS,
            true,
            "Endpoints",
        );
        add(
            get.clone(),
            "/api/cluster/{name}/terminal",
            Op::Terminal,
            "A terminal in a pod, as a WebSocket with the channels of v5.channel.k8s.io.",
            TERMINAL,
            false,
            "101",
        );
        add(
            get.clone(),
            "/api/cluster/{name}/exec",
            Op::Exec,
            "Runs one command in a pod. With a cookie it needs the header X-Muster-Csrf.",
            IN_POD,
            false,
            "Ran",
        );
        add(post.clone(), "/api/cluster/{name}/exec", Op::Exec, "Runs one command in a pod.", IN_POD, false, "Ran");
        add(
            get.clone(),
            "/api/cluster/{name}/deployments/stat",
            Op::DeploymentStat,
            "Replicas of deployments: desired, updated, ready, available, unavailable.",
            PARTS,
            true,
            "DeploymentStat",
        );
        add(
            get.clone(),
            "/api/cluster/{name}/namespace/{namespace}/pods/{pod}/event",
            Op::PodEvents,
            "The events of a pod.",
            &[],
            true,
            "Event",
        );
        add(
            get.clone(),
            "/api/cluster/{name}/namespace/{namespace}/pods/{pod}/logs",
            Op::PodLogs,
            "The log of a pod.",
            LOGS,
            false,
            "text/plain",
        );
        add(
            get.clone(),
            "/api/cluster/{name}/namespace/{namespace}/pods/{pod}/logs/file",
            Op::LogFile,
            "A log file within a pod.",
            FILE,
            false,
            "text/plain",
        );
        add(
            get.clone(),
            "/api/pod/logfiles",
            Op::LogFiles,
            "The files of a folder within a pod.",
            FILES,
            false,
            "LogFiles",
        );
        add(
            get.clone(),
            "/api/cluster/{name}/kinds",
            Op::Kinds,
            "The kinds a cluster has; of all clusters together.",
            &[],
            false,
            "Kinds",
        );
        add(
            get.clone(),
            "/api/cluster/{name}/resources/{group}/{version}/namespaces/{namespace}/{plural}",
            Op::List,
            "Objects of a kind in a namespace.",
            &[],
            true,
            "Row",
        );
        add(
            get.clone(),
            "/api/cluster/{name}/resources/{group}/{version}/namespaces/{namespace}/{plural}/{object}",
            Op::Get,
            "One object.",
            GET,
            false,
            "Row",
        );
        add(
            put.clone(),
            "/api/cluster/{name}/resources/{group}/{version}/namespaces/{namespace}/{plural}/{object}",
            Op::Apply,
            "Applies an object (server-side apply).",
            APPLY,
            false,
            "Object",
        );
        add(
            delete.clone(),
            "/api/cluster/{name}/resources/{group}/{version}/namespaces/{namespace}/{plural}/{object}",
            Op::Delete,
            "Deletes an object.",
            DELETE,
            false,
            "Deleted",
        );
        add(
            post.clone(),
            "/api/cluster/{name}/resources/{group}/{version}/namespaces/{namespace}/{plural}/{object}/{action}",
            Op::Act,
            "Does an action to an object: scale, restart, pause, resume.",
            &[],
            false,
            "Row",
        );
        add(
            get.clone(),
            "/api/cluster/{name}/resources/{group}/{version}/{plural}",
            Op::List,
            "Objects of a kind.",
            NAMESPACE,
            true,
            "Row",
        );
        add(
            get.clone(),
            "/api/cluster/{name}/resources/{group}/{version}/{plural}/{object}",
            Op::Get,
            "One object without a namespace.",
            GET,
            false,
            "Row",
        );
        add(
            put,
            "/api/cluster/{name}/resources/{group}/{version}/{plural}/{object}",
            Op::Apply,
            "Applies an object without a namespace (server-side apply).",
            APPLY,
            false,
            "Object",
        );
        add(
            delete.clone(),
            "/api/cluster/{name}/resources/{group}/{version}/{plural}/{object}",
            Op::Delete,
            "Deletes an object without a namespace.",
            DELETE,
            false,
            "Deleted",
        );
        add(
            post.clone(),
            "/api/cluster/{name}/resources/{group}/{version}/{plural}/{object}/{action}",
            Op::Act,
            "Does an action to an object without a namespace.",
            &[],
            false,
            "Row",
        );
        add(
            get.clone(),
            "/apis/zcloud.cn/v1/clusters",
            Op::ZcloudList,
            "All clusters.",
            ONLY_READY,
            false,
            "ZcloudClusters",
        );
        add(
            post.clone(),
            "/apis/zcloud.cn/v1/clusters",
            Op::ZcloudCollection,
            "The action import: makes a cluster a member.",
            ACTION,
            false,
            "Import",
        );
        add(
            get.clone(),
            "/apis/zcloud.cn/v1/clusters/{name}",
            Op::ZcloudGet,
            "One cluster.",
            &[],
            false,
            "ZcloudCluster",
        );
        add(
            post,
            "/apis/zcloud.cn/v1/clusters/{name}",
            Op::ZcloudAct,
            "The action getkubeconfig.",
            ACTION,
            false,
            "Kubeconfig",
        );
        add(
            delete,
            "/apis/zcloud.cn/v1/clusters/{name}",
            Op::ZcloudDelete,
            "Takes a cluster out of the fleet; nothing on it changes.",
            &[],
            false,
            "Deleted",
        );
        add(
            get.clone(),
            "/apis/zcloud.cn/v1/clusters/{name}/{plural}",
            Op::ZcloudInside,
            "What a ready cluster holds: namespaces, nodes, pods, deployments, …",
            &[],
            true,
            "ZcloudCollection",
        );
        add(
            get.clone(),
            "/apis/zcloud.cn/v1/clusters/{name}/namespaces/{namespace}/{plural}",
            Op::ZcloudInside,
            "What a namespace of a ready cluster holds.",
            &[],
            true,
            "ZcloudCollection",
        );
        add(
            get.clone(),
            "/apis/zcloud.cn/v1/clusters/{name}/{plural}/{object}",
            Op::ZcloudInsideOne,
            "One thing a ready cluster holds.",
            &[],
            false,
            "Row",
        );
        add(
            get.clone(),
            "/apis/zcloud.cn/v1/clusters/{name}/namespaces/{namespace}/{plural}/{object}",
            Op::ZcloudInsideOne,
            "One thing in a namespace of a ready cluster.",
            &[],
            false,
            "Row",
        );
        add(
            get.clone(),
            "/wapi/v1/member-role",
            Op::MemberRole,
            "The account a cluster needs for muster, for kubectl apply.",
            ACCESS,
            false,
            "application/yaml",
        );
        add(get.clone(), "/wapi/v1/overview", Op::Overview, "The fleet at a glance.", &[], false, "Overview");
        add(
            get.clone(),
            "/wapi/v1/events",
            Op::Events,
            "The events of all clusters, the newest first.",
            NAMESPACE,
            true,
            "Event",
        );
        add(
            get.clone(),
            "/wapi/v1/search",
            Op::Search,
            "Clusters, pods and deployments by a part of their name.",
            SEARCH,
            false,
            "Found",
        );
        add(get, "/wapi/v1/openapi.json", Op::OpenApi, "This document.", &[], false, "Document");
        routes
    });
    &TABLE
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
