//! Every route over members, and what each takes.

use http::Method;

use super::route::{Op, Parameter, Route};

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
const KUBECONFIG: &[Parameter] = &[
    ("action", "string", "getkubeconfig."),
    ("ttlSeconds", "integer", "How long its token is good: 600 to 86400, 3600 if not said; the cluster may give less."),
    (
        "createAccount",
        "string",
        "read or operate: makes the account of the token on a cluster that has none, with these rights.",
    ),
    ("longLived", "boolean", "Instead of a token that ends, the credential that is kept for the cluster."),
];
const ACCESS: &[Parameter] = &[
    ("access", "string", "read (default) or operate."),
    ("namespace", "string", "Where the account is (muster-system)."),
];
const NAMESPACE: &[Parameter] = &[("namespace", "string", "Only in this namespace.")];
const SEARCH: &[Parameter] = &[("q", "string", "A part of a name.")];

/// Everything there is. What has a word where another has a place stands first.
#[rustfmt::skip]
pub(super) fn table() -> &'static [Route] {
    static TABLE: std::sync::LazyLock<Vec<Route>> = std::sync::LazyLock::new(|| {
        let mut routes = Vec::new();
        let mut add = |method: Method, path, op, summary, parameters, list, answer| {
            routes.push(Route { method, path, op, summary, parameters, list, answer });
        };
        let (get, post, put, delete) = (Method::GET, Method::POST, Method::PUT, Method::DELETE);
        add(get.clone(), "/api/cluster/{name}", Op::Clusters, "The state of all clusters, or of one.", &[], true, "Cluster");
        add(get.clone(), "/api/cluster/{name}/namespace/{namespace}/app/{app}/resource", Op::AppResources, "An application's pods, workloads, services and endpoints.", &PARTS[1..], false, "AppResources");
        add(get.clone(), "/api/cluster/{name}/appPod/{app}", Op::AppPods, "An application's pods.", PARTS, true, "Pod");
        add(get.clone(), "/api/cluster/{name}/appPod/{app}/helm", Op::AppReleases, "An application's Helm releases; all when the application is called all.", PATTERNS, true, "Release");
        add(post.clone(), "/api/cluster/{name}/namespace/{namespace}/app/{app}/restart", Op::AppRestart, "Restarts an application's workloads, or those of a part of it.", &PARTS[1..], false, "Restarted");
        add(get.clone(), "/api/cluster/{name}/endpoints/{app}", Op::AppEndpoints, "An application's endpoints.", PARTS, true, "Endpoints");
        add(get.clone(), "/api/cluster/{name}/terminal", Op::Terminal, "A terminal in a pod, as a WebSocket with the channels of v5.channel.k8s.io.", TERMINAL, false, "101");
        add(get.clone(), "/api/cluster/{name}/exec", Op::Exec, "Runs one command in a pod. With a cookie it needs the header X-Muster-Csrf.", IN_POD, false, "Ran");
        add(post.clone(), "/api/cluster/{name}/exec", Op::Exec, "Runs one command in a pod.", IN_POD, false, "Ran");
        add(get.clone(), "/api/cluster/{name}/deployments/stat", Op::DeploymentStat, "Replicas of deployments: desired, updated, ready, available, unavailable.", PARTS, true, "DeploymentStat");
        add(get.clone(), "/api/cluster/{name}/namespace/{namespace}/pods/{pod}/event", Op::PodEvents, "The events of a pod.", &[], true, "Event");
        add(get.clone(), "/api/cluster/{name}/namespace/{namespace}/pods/{pod}/logs", Op::PodLogs, "The log of a pod.", LOGS, false, "text/plain");
        add(get.clone(), "/api/cluster/{name}/namespace/{namespace}/pods/{pod}/logs/file", Op::LogFile, "A log file within a pod.", FILE, false, "text/plain");
        add(get.clone(), "/api/pod/logfiles", Op::LogFiles, "The files of a folder within a pod.", FILES, false, "LogFiles");
        add(get.clone(), "/api/cluster/{name}/cleanups", Op::Cleanups, "What is still to be removed from clusters that could not be asked.", &[], true, "Cleanup");
        add(post.clone(), "/api/cluster/{name}/cleanups/{owner}/abandon", Op::CleanupAbandon, "Gives a removal up: what is on the cluster stays there, and it is written down who wanted it so and why.", &[], false, "Abandoned");
        add(get.clone(), "/api/cluster/{name}/kinds", Op::Kinds, "The kinds a cluster has; of all clusters together.", &[], false, "Kinds");
        add(get.clone(), "/api/cluster/{name}/resources/{group}/{version}/namespaces/{namespace}/{plural}", Op::List, "Objects of a kind in a namespace.", &[], true, "Row");
        add(get.clone(), "/api/cluster/{name}/resources/{group}/{version}/namespaces/{namespace}/{plural}/{object}", Op::Get, "One object.", GET, false, "Row");
        add(put.clone(), "/api/cluster/{name}/resources/{group}/{version}/namespaces/{namespace}/{plural}/{object}", Op::Apply, "Applies an object (server-side apply).", APPLY, false, "Object");
        add(delete.clone(), "/api/cluster/{name}/resources/{group}/{version}/namespaces/{namespace}/{plural}/{object}", Op::Delete, "Deletes an object.", DELETE, false, "Deleted");
        add(post.clone(), "/api/cluster/{name}/resources/{group}/{version}/namespaces/{namespace}/{plural}/{object}/{action}", Op::Act, "Does an action to an object: scale, restart, pause, resume.", &[], false, "Row");
        add(get.clone(), "/api/cluster/{name}/resources/{group}/{version}/{plural}", Op::List, "Objects of a kind.", NAMESPACE, true, "Row");
        add(get.clone(), "/api/cluster/{name}/resources/{group}/{version}/{plural}/{object}", Op::Get, "One object without a namespace.", GET, false, "Row");
        add(put, "/api/cluster/{name}/resources/{group}/{version}/{plural}/{object}", Op::Apply, "Applies an object without a namespace (server-side apply).", APPLY, false, "Object");
        add(delete.clone(), "/api/cluster/{name}/resources/{group}/{version}/{plural}/{object}", Op::Delete, "Deletes an object without a namespace.", DELETE, false, "Deleted");
        add(post.clone(), "/api/cluster/{name}/resources/{group}/{version}/{plural}/{object}/{action}", Op::Act, "Does an action to an object without a namespace.", &[], false, "Row");
        add(get.clone(), "/apis/zcloud.cn/v1/clusters", Op::ZcloudList, "All clusters.", ONLY_READY, false, "ZcloudClusters");
        add(post.clone(), "/apis/zcloud.cn/v1/clusters", Op::ZcloudCollection, "The action import: makes a cluster a member.", ACTION, false, "Import");
        add(get.clone(), "/apis/zcloud.cn/v1/clusters/{name}", Op::ZcloudGet, "One cluster.", &[], false, "ZcloudCluster");
        add(post, "/apis/zcloud.cn/v1/clusters/{name}", Op::ZcloudAct, "The action getkubeconfig: a kubeconfig with a token that ends.", KUBECONFIG, false, "Kubeconfig");
        add(delete, "/apis/zcloud.cn/v1/clusters/{name}", Op::ZcloudDelete, "Takes a cluster out of the fleet; nothing on it changes.", &[], false, "Deleted");
        add(get.clone(), "/apis/zcloud.cn/v1/clusters/{name}/{plural}", Op::ZcloudInside, "What a ready cluster holds: namespaces, nodes, pods, deployments, …", &[], true, "ZcloudCollection");
        add(get.clone(), "/apis/zcloud.cn/v1/clusters/{name}/namespaces/{namespace}/{plural}", Op::ZcloudInside, "What a namespace of a ready cluster holds.", &[], true, "ZcloudCollection");
        add(get.clone(), "/apis/zcloud.cn/v1/clusters/{name}/{plural}/{object}", Op::ZcloudInsideOne, "One thing a ready cluster holds.", &[], false, "Row");
        add(get.clone(), "/apis/zcloud.cn/v1/clusters/{name}/namespaces/{namespace}/{plural}/{object}", Op::ZcloudInsideOne, "One thing in a namespace of a ready cluster.", &[], false, "Row");
        add(get.clone(), "/wapi/v1/member-role", Op::MemberRole, "The account a cluster needs for muster, for kubectl apply.", ACCESS, false, "application/yaml");
        add(get.clone(), "/wapi/v1/overview", Op::Overview, "The fleet at a glance.", &[], false, "Overview");
        add(get.clone(), "/wapi/v1/events", Op::Events, "The events of all clusters, the newest first.", NAMESPACE, true, "Event");
        add(get.clone(), "/wapi/v1/search", Op::Search, "Clusters, pods and deployments by a part of their name.", SEARCH, false, "Found");
        add(get, "/wapi/v1/openapi.json", Op::OpenApi, "This document.", &[], false, "Document");
        routes
    });
    &TABLE
}
