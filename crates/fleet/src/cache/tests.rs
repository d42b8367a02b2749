//! Caches against a server made of closures.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Mutex as StdMutex,
};

use serde_json::{Value, json};

use super::*;
use crate::{
    Limits,
    member::guard::Gate,
    testing::{self, Answer},
};

/// Answers requests in turn; a request beyond the script waits for ever.
fn scripted(answers: Vec<Answer>) -> (Client, Arc<StdMutex<Vec<String>>>) {
    let asked: Arc<StdMutex<Vec<String>>> = Arc::default();
    let answers = Arc::new(StdMutex::new(VecDeque::from(answers)));
    let seen = asked.clone();
    let client = testing::client(move |request| {
        seen.lock().unwrap().push(request.uri().to_string());
        let answer = answers.lock().unwrap().pop_front();
        async move {
            match answer {
                Some(answer) => answer,
                None => std::future::pending().await,
            }
        }
    });
    (client, asked)
}

fn pod(name: &str, version: u64) -> Value {
    json!({"metadata": {"name": name, "namespace": "n", "resourceVersion": version.to_string(), "labels": {"app": "x"}}})
}

fn page(items: &[Value], next: &str) -> Answer {
    testing::json(200, &json!({"metadata": {"resourceVersion": "10", "continue": next}, "items": items}))
}

fn event(kind: &str, object: &Value) -> String {
    json!({"type": kind, "object": object}).to_string()
}

fn pods() -> Subject {
    Subject::new("", "v1", "pods").indexed("app")
}

fn caches(client: Client, most: usize) -> Caches {
    Caches::new("m".into(), client, most)
}

fn names(cache: &Cache) -> Vec<String> {
    cache.select(&Selection::default()).unwrap().iter().map(|(key, _)| key.to_string()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_kind_is_read_in_pages_and_then_followed() {
    // SYM-8
    let (sender, watch) = testing::lines();
    let (client, asked) = scripted(vec![page(&[pod("a", 1)], "more"), page(&[pod("b", 2)], ""), watch]);
    let caches = caches(client, 1 << 20);
    let cache = caches.open(&pods());
    assert_eq!(cache.count(), Err(NotCached::Reading));
    cache.ready(Duration::from_secs(5)).await.unwrap();
    assert_eq!(names(&cache), ["n/a", "n/b"]);
    let mut changes = cache.changes();
    sender.send(event("ADDED", &pod("c", 11))).unwrap();
    sender.send(event("DELETED", &pod("a", 12))).unwrap();
    assert_eq!(changes.recv().await.unwrap().key.to_string(), "n/c");
    assert_eq!(changes.recv().await.unwrap().now, None);
    assert_eq!(names(&cache), ["n/b", "n/c"]);
    assert!(cache.is_fresh());
    let selection = Selection { labels: BTreeMap::from([("app".to_owned(), "x".to_owned())]), ..Selection::default() };
    assert_eq!(cache.select(&selection).unwrap().len(), 2);
    let asked = asked.lock().unwrap().clone();
    assert!(asked[0].starts_with("/api/v1/pods?") && asked[1].contains("continue=more"), "{asked:?}");
    assert!(asked[2].contains("watch=true") && asked[2].contains("resourceVersion=10"), "{asked:?}");
}

#[tokio::test(start_paused = true)]
async fn a_broken_watch_goes_on_and_a_lost_history_is_read_again() {
    // F-8
    let (first, broken) = testing::lines();
    let (second, gone) = testing::lines();
    let (_third, quiet) = testing::lines();
    let (client, asked) = scripted(vec![page(&[pod("a", 1)], ""), broken, gone, page(&[pod("z", 20)], ""), quiet]);
    let caches = caches(client, 1 << 20);
    let cache = caches.open(&pods());
    cache.ready(Duration::from_secs(5)).await.unwrap();
    let mut changes = cache.changes();
    first.send(event("ADDED", &pod("b", 15))).unwrap();
    changes.recv().await.unwrap();
    drop(first);
    second.send(json!({"type": "ERROR", "object": {"code": 410}}).to_string()).unwrap();
    while names(&cache) != ["n/z"] {
        changes.recv().await.unwrap();
    }
    assert!(asked.lock().unwrap()[2].contains("resourceVersion=15"), "{asked:?}");
}

#[tokio::test(start_paused = true)]
async fn what_a_member_holds_too_much_of_is_not_kept() {
    // F-9, B-14
    let many: Vec<Value> = (0..100).map(|n| pod(&format!("p{n}"), n)).collect();
    let (client, _) = scripted(vec![page(&many, "")]);
    let caches = caches(client, 10_000);
    let cache = caches.open(&pods());
    assert_eq!(cache.ready(Duration::from_secs(5)).await, Err(NotCached::TooLarge));
    assert_eq!(caches.size(), 0);
}

#[tokio::test(start_paused = true)]
async fn equal_questions_share_one_watch_and_it_ends_when_nobody_asks() {
    let (_sender, watch) = testing::lines();
    let (client, asked) = scripted(vec![page(&[pod("a", 1)], ""), watch]);
    let caches = caches(client, 1 << 20);
    let (one, other) = (caches.open(&pods()), caches.open(&pods()));
    assert!(Arc::ptr_eq(&one, &other));
    one.ready(Duration::from_secs(5)).await.unwrap();
    drop(other);
    tokio::time::sleep(IDLE * 2).await;
    assert_eq!(caches.subjects().len(), 1, "somebody holds it");
    drop(one);
    tokio::time::sleep(IDLE * 2).await;
    assert_eq!((caches.subjects().len(), caches.size()), (0, 0));
    assert!(asked.lock().unwrap().iter().filter(|asked| !asked.contains("watch")).count() == 1);
}

#[tokio::test(start_paused = true)]
async fn what_is_no_object_is_left_out() {
    // B-14
    let (sender, watch) = testing::lines();
    let list = [json!("x"), json!({"metadata": {"name": 5}}), json!(null), pod("a", 1)];
    let (client, _) = scripted(vec![page(&list, ""), watch]);
    let caches = caches(client, 1 << 20);
    let cache = caches.open(&pods());
    cache.ready(Duration::from_secs(5)).await.unwrap();
    let mut changes = cache.changes();
    sender.send(event("ADDED", &json!([]))).unwrap();
    sender.send(event("ADDED", &pod("b", 2))).unwrap();
    changes.recv().await.unwrap();
    assert_eq!(names(&cache), ["n/a", "n/b"]);
}

#[test]
fn a_pod_as_servers_send_it_takes_less_than_5_kilobytes() {
    let env: Vec<Value> =
        (0..8).map(|n| json!({"name": format!("VARIABLE_{n}"), "value": format!("value-{n}")})).collect();
    let container = |name: &str| {
        json!({"name": name, "image": format!("registry.example.com/team/{name}:v1.2.3"), "imagePullPolicy": "IfNotPresent",
        "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
        "env": env,
        "resources": {"limits": {"cpu": "500m", "memory": "512Mi"}, "requests": {"cpu": "100m", "memory": "128Mi"}},
        "readinessProbe": {"httpGet": {"path": "/ready", "port": 8080, "scheme": "HTTP"}, "periodSeconds": 10, "timeoutSeconds": 1},
        "volumeMounts": [{"name": "kube-api-access", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "readOnly": true}],
        "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"})
    };
    let statuses = ["web", "sidecar"].map(|name| {
        json!({"name": name, "ready": true, "restartCount": 0, "image": format!("registry.example.com/team/{name}:v1.2.3"),
        "imageID": format!("registry.example.com/team/{name}@sha256:{}", "0".repeat(64)),
        "containerID": format!("containerd://{}", "0".repeat(64)), "state": {"running": {"startedAt": "2026-01-01T00:00:04Z"}}})
    });
    let conditions = ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"]
        .map(|kind| json!({"type": kind, "status": "True", "lastTransitionTime": "2026-01-01T00:00:05Z"}));
    let pod = json!({"kind": "Pod", "apiVersion": "v1",
        "metadata": {"name": "web-6d4b75cb6d-hxk2p", "generateName": "web-6d4b75cb6d-", "namespace": "team-a",
            "uid": "0b0e2a7e-62a5-4bd5-9d5e-0c4d1c1f9f3e", "resourceVersion": "1234567", "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"app": "web", "pod-template-hash": "6d4b75cb6d", "sym-group": "blue", "sym-ldc": "bj5"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-6d4b75cb6d", "controller": true,
                "uid": "8ab2a6fd-1d2c-4f8a-9a39-0a3d7d8d2c11", "blockOwnerDeletion": true}],
            "managedFields": [{"manager": "kubelet", "fieldsV1": {"f:status": "x".repeat(3000)}}]},
        "spec": {"containers": [container("web"), container("sidecar")], "nodeName": "node-17", "serviceAccountName": "web",
            "restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler",
            "volumes": [{"name": "kube-api-access", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}],
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}]},
        "status": {"phase": "Running", "podIP": "10.1.2.3", "hostIP": "10.0.0.17", "startTime": "2026-01-01T00:00:00Z",
            "conditions": conditions, "containerStatuses": statuses}});
    let mut store = store::Store::new(&["app".to_owned()]);
    let (key, _, bytes) = store::compact(pod, false).unwrap();
    store.put(key, bytes);
    assert!(store.size() <= 5 << 10, "{}", store.size());
}

#[test]
fn a_subject_leads_to_its_own_collection_and_nowhere_else() {
    // B-14
    assert_eq!(Subject::new("apps", "v1", "deployments").path(), "/apis/apps/v1/deployments");
    let odd = Subject { namespace: Some("../../secrets?x=".to_owned()), ..Subject::new("", "v1", "..") };
    assert_eq!(odd.path(), "/api/v1/namespaces/..%2F..%2Fsecrets%3Fx%3D/%2E%2E");
}

#[tokio::test(start_paused = true)]
async fn objects_too_large_for_one_answer_are_asked_for_in_smaller_pages() {
    // B-14
    let many: Vec<Value> = (0..100).map(|n| pod(&format!("p{n}"), n)).collect();
    let (_sender, watch) = testing::lines();
    let (client, asked) = scripted(vec![page(&many, ""), page(&[pod("a", 1)], ""), watch]);
    let gate = Gate::new("m".into(), Limits { answer: 5000, ..Limits::default() }, client);
    let caches = caches(gate.client(), 1 << 20);
    caches.open(&pods()).ready(Duration::from_secs(5)).await.unwrap();
    let asked = asked.lock().unwrap().clone();
    assert!(asked[0].contains("limit=500") && asked[1].contains("limit=125"), "{asked:?}");
}

#[tokio::test(start_paused = true)]
async fn what_is_not_in_memory_is_asked_of_the_member() {
    // F-9
    let many: Vec<Value> = (0..100).map(|n| pod(&format!("p{n}"), n)).collect();
    let (client, asked) = scripted(vec![page(&many, ""), page(&[pod("a", 1)], "more"), page(&[pod("b", 1)], "")]);
    let caches = caches(client, 10_000);
    let labels = BTreeMap::from([("app".to_owned(), "x".to_owned())]);
    let selection = Selection { namespace: Some("n".to_owned()), labels };
    let listed = caches.list(&pods(), &selection, Duration::from_secs(5)).await.unwrap();
    assert_eq!((listed.objects.len(), listed.freshness), (2, Freshness::Direct));
    let asked = asked.lock().unwrap().clone();
    assert!(asked[1].starts_with("/api/v1/namespaces/n/pods?limit=500&labelSelector=app%3Dx"), "{asked:?}");
    let elsewhere = Subject { namespace: Some("m".to_owned()), ..pods() };
    let none = direct::list("m", &scripted(vec![]).0, &elsewhere, &selection, 10).await.unwrap();
    assert_eq!(none, []);
}

#[tokio::test(start_paused = true)]
async fn what_is_in_memory_is_answered_from_there_and_says_how_fresh_it_is() {
    // SYM-13, F-9
    let (sender, watch) = testing::lines();
    let (client, _) = scripted(vec![page(&[pod("a", 1)], ""), watch]);
    let caches = caches(client, 1 << 20);
    let list = async || caches.list(&pods(), &Selection::default(), Duration::from_secs(5)).await.unwrap();
    let first = list().await;
    assert_eq!((first.objects.len(), first.freshness), (1, Freshness::Live));
    // The watch ends, and the next one gets no answer.
    drop(sender);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(list().await.freshness, Freshness::Stale);
}
