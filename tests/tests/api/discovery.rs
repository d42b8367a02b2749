//! Discovery, version, health, OpenAPI: what a client asks before it asks for anything else.
use muster_tests::runner::Case;
use muster_tests::{Peer, cases};
use serde_json::{Value, json};

pub fn cases() -> Vec<Case> {
    cases![discovery: version, health, health_in_detail, groups, core_resources, aggregated, aggregated_is_cached_by_etag, openapi_v3_index, openapi_v3_documents,
        openapi_v2, unknown_paths, anonymous_may_see_little, wrong_token, audit_ids]
}

async fn version(peer: &Peer) {
    let version = peer.get("/version").await.ok(200);
    assert_eq!(version["major"], "1");
    assert!(version["minor"].as_str().unwrap().parse::<u32>().unwrap() >= 34);
    assert!(version["gitVersion"].as_str().unwrap().starts_with("v1."));
    for field in ["gitCommit", "gitTreeState", "buildDate", "goVersion", "compiler", "platform"] {
        assert!(version[field].is_string(), "{field} in {version}");
    }
}

async fn health(peer: &Peer) {
    for path in ["/healthz", "/livez", "/readyz"] {
        let answer = peer.call("GET", path).token(None).fresh().send().await;
        assert_eq!((answer.status, answer.text().as_str()), (200, "ok"));
        assert_eq!(answer.header("content-type"), "text/plain; charset=utf-8");
    }
}

async fn health_in_detail(peer: &Peer) {
    let verbose = peer.get("/readyz?verbose").await;
    assert_eq!(verbose.status, 200);
    let text = verbose.text();
    assert!(text.contains("[+]ping ok\n"), "{text}");
    assert!(text.ends_with("readyz check passed\n"), "{text}");
    for line in text.lines().filter(|line| line.starts_with("[+]")) {
        let check = line.trim_start_matches("[+]").split(' ').next().unwrap();
        assert_eq!(peer.get(&format!("/readyz/{check}")).await.text(), "ok", "{check}");
    }
    let without = peer.get("/readyz?verbose&exclude=ping").await.text();
    assert!(without.contains("[+]ping excluded: ok\n"), "{without}");
    assert_eq!(peer.get("/readyz/no-such-check").await.status, 404);
}

async fn groups(peer: &Peer) {
    let versions = peer.get("/api").await.ok(200);
    assert_eq!(versions["kind"], "APIVersions");
    assert_eq!(versions["versions"], json!(["v1"]));
    let groups = peer.get("/apis").await.ok(200);
    assert_eq!(groups["kind"], "APIGroupList");
    for (group, version) in [("coordination.k8s.io", "v1"), ("events.k8s.io", "v1")] {
        let found = groups["groups"].as_array().unwrap().iter().find(|g| g["name"] == group).unwrap();
        assert_eq!(found["preferredVersion"]["version"], version);
        assert_eq!(peer.get(&format!("/apis/{group}")).await.ok(200)["kind"], "APIGroup");
        let resources = peer.get(&format!("/apis/{group}/{version}")).await.ok(200);
        assert_eq!(resources["groupVersion"], format!("{group}/{version}"));
    }
}

async fn core_resources(peer: &Peer) {
    let list = peer.get("/api/v1").await.ok(200);
    assert_eq!(list["kind"], "APIResourceList");
    let find = |name: &str| list["resources"].as_array().unwrap().iter().find(|r| r["name"] == name).unwrap().clone();
    let maps = find("configmaps");
    assert_eq!(maps["singularName"], "configmap");
    assert_eq!(maps["namespaced"], true);
    assert_eq!(maps["shortNames"], json!(["cm"]));
    assert_eq!(
        maps["verbs"],
        json!(["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"])
    );
    assert!(maps["storageVersionHash"].is_string());
    let namespaces = find("namespaces");
    assert_eq!(namespaces["namespaced"], false);
    assert_eq!(namespaces["verbs"], json!(["create", "delete", "get", "list", "patch", "update", "watch"]));
    assert_eq!(find("namespaces/finalize")["verbs"], json!(["update"]));
    assert_eq!(find("namespaces/status")["verbs"], json!(["get", "patch", "update"]));
    assert_eq!(find("events")["shortNames"], json!(["ev"]));
    assert_eq!(find("serviceaccounts")["shortNames"], json!(["sa"]));
}

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";

async fn aggregated(peer: &Peer) {
    for (path, group, resource) in [("/api", None, "configmaps"), ("/apis", Some("coordination.k8s.io"), "leases")] {
        let answer = peer.call("GET", path).accept(AGGREGATED).send().await;
        assert!(answer.header("content-type").contains("as=APIGroupDiscoveryList"), "{:?}", answer.headers);
        let list = answer.ok(200);
        assert_eq!(
            (list["kind"].as_str(), list["apiVersion"].as_str()),
            (Some("APIGroupDiscoveryList"), Some("apidiscovery.k8s.io/v2"))
        );
        let item = list["items"].as_array().unwrap().iter().find(|g| g["metadata"]["name"].as_str() == group).unwrap();
        let found =
            item["versions"][0]["resources"].as_array().unwrap().iter().find(|r| r["resource"] == resource).unwrap();
        assert_eq!(found["scope"], "Namespaced");
        assert!(found["responseKind"]["kind"].is_string());
        assert!(found["verbs"].as_array().unwrap().contains(&json!("watch")));
        assert_eq!(item["versions"][0]["freshness"], "Current");
    }
}

async fn aggregated_is_cached_by_etag(peer: &Peer) {
    // Cases beside this one define kinds, which changes the document: the tag is then another one.
    for _ in 0..20 {
        let first = peer.call("GET", "/apis").accept(AGGREGATED).send().await;
        let tag = first.header("etag").to_owned();
        assert!(tag.len() > 10 && tag.starts_with('"'), "{tag}");
        let second = peer.call("GET", "/apis").accept(AGGREGATED).header("if-none-match", &tag).send().await;
        if second.header("etag") == tag {
            assert_eq!((second.status, second.body.len()), (304, 0));
            return;
        }
        assert_eq!(second.status, 200, "another document");
    }
    panic!("the document changed between every two requests");
}

async fn openapi_v3_index(peer: &Peer) {
    let index = peer.get("/openapi/v3").await.ok(200);
    for path in ["api/v1", "apis/coordination.k8s.io/v1", "apis/events.k8s.io/v1"] {
        let url = index["paths"][path]["serverRelativeURL"].as_str().unwrap();
        assert!(url.starts_with(&format!("/openapi/v3/{path}?hash=")), "{url}");
    }
}

async fn openapi_v3_documents(peer: &Peer) {
    let index = peer.get("/openapi/v3").await.ok(200);
    for (path, schema, kind) in [
        ("api/v1", "io.k8s.api.core.v1.ConfigMap", json!({"group": "", "version": "v1", "kind": "ConfigMap"})),
        (
            "apis/coordination.k8s.io/v1",
            "io.k8s.api.coordination.v1.Lease",
            json!({"group": "coordination.k8s.io", "version": "v1", "kind": "Lease"}),
        ),
    ] {
        let document = peer.get(index["paths"][path]["serverRelativeURL"].as_str().unwrap()).await.ok(200);
        assert!(document["openapi"].as_str().unwrap().starts_with("3.0"));
        let schema = &document["components"]["schemas"][schema];
        assert_eq!(schema["x-kubernetes-group-version-kind"], json!([kind]), "{schema}");
        assert!(schema["description"].is_string() && schema["properties"]["metadata"].is_object());
    }
    // kubectl asks whether PATCH knows fieldValidation before it validates on the server.
    let core = peer.get(index["paths"]["api/v1"]["serverRelativeURL"].as_str().unwrap()).await.ok(200);
    let patch = &core["paths"]["/api/v1/namespaces/{namespace}/configmaps/{name}"]["patch"];
    let named = |parameters: &Value| {
        parameters.as_array().is_some_and(|list| list.iter().any(|parameter| parameter["name"] == "fieldValidation"))
    };
    assert!(named(&patch["parameters"]), "{patch}");
    assert_eq!(patch["x-kubernetes-group-version-kind"]["kind"], "ConfigMap");
}

async fn openapi_v2(peer: &Peer) {
    let document = peer.get("/openapi/v2").await.ok(200);
    assert_eq!(document["swagger"], "2.0");
    let secret = &document["definitions"]["io.k8s.api.core.v1.Secret"];
    assert_eq!(secret["properties"]["stringData"]["type"], "object");
    assert_eq!(secret["x-kubernetes-group-version-kind"][0]["kind"], "Secret");
}

async fn unknown_paths(peer: &Peer) {
    for path in ["/api/v1/nothings", "/apis/nothing.example/v1/things", "/apis/coordination.k8s.io/v9/leases"] {
        let answer = peer.get(path).await;
        assert_eq!(answer.status, 404, "{}", answer.text());
    }
    assert_eq!(peer.get("/no/such/path").await.status, 404);
}

async fn anonymous_may_see_little(peer: &Peer) {
    assert_eq!(peer.call("GET", "/version").token(None).fresh().send().await.status, 200);
    let status = peer.call("GET", "/api/v1/namespaces").token(None).fresh().send().await;
    assert!(matches!(status.status, 401 | 403), "{}", status.text());
    assert_eq!(status.json()["kind"], "Status");
}

async fn wrong_token(peer: &Peer) {
    let answer = peer.call("GET", "/api/v1/namespaces").token(Some("wrong")).fresh().send().await;
    answer.fails(401, "Unauthorized");
}

async fn audit_ids(peer: &Peer) {
    let one = peer.get("/version").await;
    let two = peer.get("/version").await;
    assert_eq!(one.header("audit-id").len(), 36);
    assert_ne!(one.header("audit-id"), two.header("audit-id"));
}
