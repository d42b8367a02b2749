//! Workloads and what goes with them: what they start as, what cannot change, and what their controllers may write.
use muster_tests::runner::Case;
use muster_tests::{Peer, cases};
use serde_json::{Value, json};

pub fn cases() -> Vec<Case> {
    cases![workloads: deployments_get_defaults, generations_count_what_matters, selectors_cannot_change, a_stateful_set_is_mostly_fixed,
        daemon_sets_count_their_templates, status_is_written_alone, scale_moves_replicas, jobs_select_their_own_pods, job_templates_are_fixed,
        a_deleted_job_leaves_its_pods, schedules_are_read, autoscalers_in_two_versions, one_default_priority, system_priorities,
        budgets_need_a_version, ingresses_lead_somewhere, network_policies_default_their_types, storage_classes_are_fixed, warnings_come_with_success]
}

fn apps(resource: &str, ns: &str) -> String {
    format!("/apis/apps/v1/namespaces/{ns}/{resource}")
}

fn template(labels: Value) -> Value {
    json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "nginx:1"}]}})
}

fn workload(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"selector": {"matchLabels": {"app": "a"}}, "template": template(json!({"app": "a"}))}})
}

fn job(name: &str) -> Value {
    let mut template = template(json!({"mine": "1"}));
    template["spec"]["restartPolicy"] = "Never".into();
    json!({"metadata": {"name": name}, "spec": {"template": template}})
}

async fn deployments_get_defaults(peer: &Peer) {
    let ns = peer.namespace().await;
    let made = peer.post(&apps("deployments", &ns), workload("a")).await.ok(201);
    let spec = &made["spec"];
    assert_eq!(spec["replicas"], 1);
    assert_eq!(
        spec["strategy"],
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}})
    );
    assert_eq!((&spec["revisionHistoryLimit"], &spec["progressDeadlineSeconds"]), (&json!(10), &json!(600)));
    assert_eq!(spec["template"]["spec"]["restartPolicy"], "Always");
    assert_eq!(made["status"], json!({}));
    assert_eq!(made["metadata"]["generation"], 1);
}

async fn generations_count_what_matters(peer: &Peer) {
    let ns = peer.namespace().await;
    for (resource, annotated) in [("deployments", 3), ("replicasets", 2), ("daemonsets", 2)] {
        let path = format!("{}/a", apps(resource, &ns));
        peer.post(&apps(resource, &ns), workload("a")).await.ok(201);
        let generation = |object: Value| object["metadata"]["generation"].as_i64().unwrap();
        let patch = |body: Value| peer.patch(&path, "merge", body);
        assert_eq!(
            generation(patch(json!({"metadata": {"labels": {"l": "1"}}})).await.ok(200)),
            1,
            "{resource}: labels"
        );
        assert_eq!(generation(patch(json!({"spec": {"minReadySeconds": 1}})).await.ok(200)), 2, "{resource}: spec");
        let noted = patch(json!({"metadata": {"annotations": {"n": "1"}}})).await.ok(200);
        assert_eq!(generation(noted), annotated, "{resource}: annotations");
    }
}

async fn selectors_cannot_change(peer: &Peer) {
    let ns = peer.namespace().await;
    for resource in ["deployments", "replicasets", "daemonsets"] {
        peer.post(&apps(resource, &ns), workload("a")).await.ok(201);
        let other = json!({"spec": {"selector": {"matchLabels": {"app": "b"}}, "template": {"metadata": {"labels": {"app": "b"}}}}});
        peer.patch(&format!("{}/a", apps(resource, &ns)), "merge", other).await.invalid(&["spec.selector"]);
        let mut wrong = workload("b");
        wrong["spec"]["template"]["metadata"]["labels"] = json!({"app": "x"});
        peer.post(&apps(resource, &ns), wrong).await.invalid(&["spec.template.metadata.labels"]);
    }
}

async fn a_stateful_set_is_mostly_fixed(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = format!("{}/a", apps("statefulsets", &ns));
    let mut set = workload("a");
    set["spec"]["serviceName"] = "db".into();
    let made = peer.post(&apps("statefulsets", &ns), set).await.ok(201);
    assert_eq!(
        made["spec"]["persistentVolumeClaimRetentionPolicy"],
        json!({"whenDeleted": "Retain", "whenScaled": "Retain"})
    );
    peer.patch(&path, "merge", json!({"spec": {"replicas": 3, "minReadySeconds": 1, "ordinals": {"start": 1}}}))
        .await
        .ok(200);
    let status = peer.patch(&path, "merge", json!({"spec": {"serviceName": "x"}})).await.fails(422, "Invalid");
    assert!(
        status["message"].as_str().unwrap().contains("updates to statefulset spec for fields other than"),
        "{status}"
    );
    // A set's pods are named after it, so its name is one label.
    peer.post(&apps("statefulsets", &ns), workload("a.b")).await.invalid(&["metadata.name"]);
}

async fn daemon_sets_count_their_templates(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = format!("{}/a", apps("daemonsets", &ns));
    let count = |object: &Value| object["metadata"]["annotations"]["deprecated.daemonset.template.generation"].clone();
    let made = peer.post(&apps("daemonsets", &ns), workload("a")).await.ok(201);
    assert_eq!(count(&made), "1");
    let same = peer.put(&path, workload("a")).await.ok(200);
    assert_eq!(count(&same), "1", "what is defaulted is not a change");
    let other = json!({"spec": {"template": {"spec": {"hostNetwork": true}}}});
    assert_eq!(count(&peer.patch(&path, "merge", other).await.ok(200)), "2");
}

async fn status_is_written_alone(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = format!("{}/a", apps("deployments", &ns));
    let mut with_status = workload("a");
    with_status["status"] = json!({"replicas": 9});
    assert_eq!(peer.post(&apps("deployments", &ns), with_status).await.ok(201)["status"], json!({}));
    let left = peer.patch(&path, "merge", json!({"status": {"replicas": 9}})).await.ok(200);
    assert_eq!(left["status"], json!({}), "the main resource leaves the status alone");
    let body = json!({"metadata": {"labels": {"no": "1"}}, "spec": {"replicas": 7}, "status": {"replicas": 2, "readyReplicas": 1}});
    let written = peer.patch(&format!("{path}/status"), "merge", body).await.ok(200);
    assert_eq!(written["status"], json!({"replicas": 2, "readyReplicas": 1}));
    assert_eq!((&written["spec"]["replicas"], &written["metadata"]["labels"]), (&json!(1), &Value::Null));
    let wrong = json!({"status": {"replicas": 1, "readyReplicas": 2}});
    peer.patch(&format!("{path}/status"), "merge", wrong).await.invalid(&["status.readyReplicas"]);
}

async fn scale_moves_replicas(peer: &Peer) {
    let ns = peer.namespace().await;
    for resource in ["deployments", "replicasets", "statefulsets"] {
        let path = format!("{}/a", apps(resource, &ns));
        peer.post(&apps(resource, &ns), workload("a")).await.ok(201);
        let scale = peer.get(&format!("{path}/scale")).await.ok(200);
        assert_eq!(
            (&scale["spec"]["replicas"], &scale["status"]["selector"]),
            (&json!(1), &json!("app=a")),
            "{resource}"
        );
        peer.patch(&format!("{path}/scale"), "merge", json!({"spec": {"replicas": 4}})).await.ok(200);
        assert_eq!(peer.get(&path).await.ok(200)["spec"]["replicas"], 4);
        peer.patch(&format!("{path}/scale"), "merge", json!({"spec": {"replicas": -1}}))
            .await
            .invalid(&["spec.replicas"]);
    }
}

async fn jobs_select_their_own_pods(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = format!("/apis/batch/v1/namespaces/{ns}/jobs");
    let made = peer.post(&path, job("a")).await.ok(201);
    let uid = &made["metadata"]["uid"];
    assert_eq!(made["spec"]["selector"], json!({"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}));
    let labels = &made["spec"]["template"]["metadata"]["labels"];
    assert_eq!((&labels["mine"], &labels["job-name"], &labels["controller-uid"]), (&json!("1"), &json!("a"), uid));
    assert_eq!(&made["metadata"]["labels"], labels, "a job without labels has those of its pods");
    let mut own = job("b");
    own["metadata"]["labels"] = json!({"mine": "1"});
    assert_eq!(peer.post(&path, own).await.ok(201)["metadata"]["labels"], json!({"mine": "1"}));
    let mut stolen = job("c");
    stolen["spec"]["template"]["metadata"]["labels"] = json!({"job-name": "a"});
    peer.post(&path, stolen).await.invalid(&["spec.template.metadata.labels[job-name]"]);
    let mut forever = job("d");
    forever["spec"]["template"]["spec"]["restartPolicy"] = "Always".into();
    peer.post(&path, forever).await.invalid(&["spec.template.spec.restartPolicy"]);
    let done = peer.get(&format!("{path}?fieldSelector=status.successful%3D0")).await.ok(200);
    assert_eq!(crate::names(&done), ["a", "b"]);
}

async fn job_templates_are_fixed(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = format!("/apis/batch/v1/namespaces/{ns}/jobs");
    let moved = json!({"spec": {"template": {"spec": {"nodeSelector": {"a": "b"}}}}});
    peer.post(&path, job("running")).await.ok(201);
    peer.patch(&format!("{path}/running"), "merge", moved.clone()).await.invalid(&["spec.template"]);
    let mut waiting = job("waiting");
    waiting["spec"]["suspend"] = true.into();
    peer.post(&path, waiting).await.ok(201);
    peer.patch(&format!("{path}/waiting"), "merge", moved).await.ok(200);
    peer.patch(&format!("{path}/waiting"), "merge", json!({"spec": {"completions": 3}}))
        .await
        .invalid(&["spec.completions"]);
    peer.patch(&format!("{path}/waiting"), "merge", json!({"spec": {"parallelism": 3}})).await.ok(200);
}

async fn a_deleted_job_leaves_its_pods(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = format!("/apis/batch/v1/namespaces/{ns}/jobs");
    peer.post(&path, job("a")).await.ok(201);
    let answer = peer.delete(&format!("{path}/a")).await;
    assert!(
        answer.warnings().iter().any(|w| w.contains("child pods are preserved by default")),
        "{:?}",
        answer.warnings()
    );
    let marked = answer.ok(200);
    assert_eq!(marked["metadata"]["finalizers"], json!(["orphan"]), "{marked}");
    peer.post(&path, job("b")).await.ok(201);
    let gone = peer.delete(&format!("{path}/b?propagationPolicy=Background")).await;
    assert_eq!((gone.warnings().len(), &gone.ok(200)["status"]), (0, &json!("Success")));
}

async fn schedules_are_read(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = format!("/apis/batch/v1/namespaces/{ns}/cronjobs");
    let cron = |name: &str, schedule: &str| json!({"metadata": {"name": name}, "spec": {"schedule": schedule, "jobTemplate": {"spec": job("x")["spec"]}}});
    for (i, good) in ["*/5 * * * *", "@daily", "@every 1h", "0 0 * jan-mar MON-FRI"].iter().enumerate() {
        peer.post(&path, cron(&format!("good-{i}"), good)).await.ok(201);
    }
    for bad in ["", "* * * *", "61 * * * *", "@often", "TZ=UTC * * * * *", "a b c d e"] {
        peer.post(&path, cron("bad", bad)).await.invalid(&["spec.schedule"]);
    }
    let mut zoned = cron("zoned", "@daily");
    zoned["spec"]["timeZone"] = "Europe/Berlin".into();
    peer.post(&path, zoned.clone()).await.ok(201);
    zoned["metadata"]["name"] = "nowhere".into();
    zoned["spec"]["timeZone"] = "Mars/Base".into();
    peer.post(&path, zoned).await.invalid(&["spec.timeZone"]);
    peer.post(&path, cron(&"x".repeat(53), "@daily")).await.invalid(&["metadata.name"]);
}

async fn autoscalers_in_two_versions(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = |version: &str| format!("/apis/autoscaling/{version}/namespaces/{ns}/horizontalpodautoscalers");
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    let old = json!({"metadata": {"name": "a"}, "spec": {"maxReplicas": 5, "targetCPUUtilizationPercentage": 60, "scaleTargetRef": target}});
    peer.post(&path("v1"), old).await.ok(201);
    let new = peer.get(&format!("{}/a", path("v2"))).await.ok(200);
    assert_eq!(new["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"], 60);
    let memory = json!({"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}}});
    peer.patch(&format!("{}/a", path("v2")), "merge", json!({"spec": {"metrics": [memory]}})).await.ok(200);
    // What v1 cannot say survives an update through it.
    peer.patch(&format!("{}/a", path("v1")), "merge", json!({"spec": {"maxReplicas": 9}})).await.ok(200);
    let new = peer.get(&format!("{}/a", path("v2"))).await.ok(200);
    assert_eq!((&new["spec"]["metrics"], &new["spec"]["maxReplicas"]), (&json!([memory]), &json!(9)));
    let wrong =
        json!({"metadata": {"name": "b"}, "spec": {"minReplicas": 4, "maxReplicas": 3, "scaleTargetRef": target}});
    peer.post(&path("v1"), wrong).await.invalid(&["spec.maxReplicas"]);
}

async fn one_default_priority(peer: &Peer) {
    let path = "/apis/scheduling.k8s.io/v1/priorityclasses";
    let class = |name: &str| json!({"metadata": {"name": name}, "value": 0, "globalDefault": true});
    peer.post(path, class("first")).await.ok(201);
    peer.knows("there is a default", || async {
        let answer = peer.post(path, class("second")).await;
        if answer.status == 201 {
            peer.delete(&format!("{path}/second")).await.ok(200);
            return false;
        }
        let status = answer.fails(403, "Forbidden");
        assert!(status["message"].as_str().unwrap().contains("first is already marked as default"), "{status}");
        true
    })
    .await;
    peer.patch(&format!("{path}/first"), "merge", json!({"description": "still"})).await.ok(200);
    peer.patch(&format!("{path}/first"), "merge", json!({"value": 8})).await.invalid(&["value"]);
    peer.delete(&format!("{path}/first")).await.ok(200);
    peer.knows("the default is gone", || async { peer.post(path, class("second")).await.status == 201 }).await;
    peer.delete(&format!("{path}/second")).await.ok(200);
}

async fn system_priorities(peer: &Peer) {
    let path = "/apis/scheduling.k8s.io/v1/priorityclasses";
    for (name, value) in [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)] {
        assert_eq!(peer.get(&format!("{path}/{name}")).await.ok(200)["value"], value);
    }
    peer.post(path, json!({"metadata": {"name": "system-mine"}, "value": 1})).await.invalid(&["metadata.name"]);
    peer.post(path, json!({"metadata": {"name": "mine"}, "value": 1_000_000_001})).await.invalid(&["value"]);
}

async fn budgets_need_a_version(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = format!("/apis/policy/v1/namespaces/{ns}/poddisruptionbudgets");
    let made = peer.post(&path, json!({"metadata": {"name": "a"}, "spec": {"minAvailable": "50%"}})).await.ok(201);
    let mut change = made.clone();
    change["spec"]["minAvailable"] = 1.into();
    change["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    peer.put(&format!("{path}/a"), change.clone()).await.invalid(&["metadata.resourceVersion"]);
    change["metadata"]["resourceVersion"] = made["metadata"]["resourceVersion"].clone();
    peer.put(&format!("{path}/a"), change).await.ok(200);
    let both = json!({"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "maxUnavailable": 1}});
    peer.post(&path, both).await.invalid(&["spec"]);
}

async fn ingresses_lead_somewhere(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = format!("/apis/networking.k8s.io/v1/namespaces/{ns}/ingresses");
    let ingress = |spec: Value| json!({"metadata": {"name": "a"}, "spec": spec});
    let backend = json!({"service": {"name": "web", "port": {"number": 80}}});
    let rule = |path: Value| json!({"rules": [{"http": {"paths": [path]}}]});
    peer.post(&path, ingress(json!({}))).await.invalid(&["spec"]);
    peer.post(&path, ingress(rule(json!({"path": "/", "backend": backend}))))
        .await
        .invalid(&["spec.rules[0].http.paths[0].pathType"]);
    let relative = rule(json!({"path": "x", "pathType": "Prefix", "backend": backend}));
    peer.post(&path, ingress(relative)).await.invalid(&["spec.rules[0].http.paths[0].path"]);
    peer.post(&path, ingress(rule(json!({"path": "/x", "pathType": "Prefix", "backend": backend})))).await.ok(201);
}

async fn network_policies_default_their_types(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = format!("/apis/networking.k8s.io/v1/namespaces/{ns}/networkpolicies");
    for (name, spec, types) in [
        ("in", json!({"podSelector": {}}), json!(["Ingress"])),
        ("both", json!({"podSelector": {}, "egress": [{}]}), json!(["Ingress", "Egress"])),
        ("out", json!({"podSelector": {}, "policyTypes": ["Egress"]}), json!(["Egress"])),
    ] {
        let made = peer.post(&path, json!({"metadata": {"name": name}, "spec": spec})).await.ok(201);
        assert_eq!(made["spec"]["policyTypes"], types);
    }
    let outside = json!({"podSelector": {}, "ingress": [{"from": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["11.0.0.0/16"]}}]}]});
    let field = "spec.ingress[0].from[0].ipBlock.except[0]";
    peer.post(&path, json!({"metadata": {"name": "bad"}, "spec": outside})).await.invalid(&[field]);
}

async fn storage_classes_are_fixed(peer: &Peer) {
    let path = "/apis/storage.k8s.io/v1/storageclasses";
    let made = peer.post(path, json!({"metadata": {"name": "disk"}, "provisioner": "example.com/disk"})).await.ok(201);
    assert_eq!((&made["reclaimPolicy"], &made["volumeBindingMode"]), (&json!("Delete"), &json!("Immediate")));
    let class = format!("{path}/disk");
    peer.patch(&class, "merge", json!({"provisioner": "x", "parameters": {"a": "b"}}))
        .await
        .invalid(&["parameters", "provisioner"]);
    peer.patch(&class, "merge", json!({"allowVolumeExpansion": true})).await.ok(200);
    assert_eq!(peer.delete(&class).await.ok(200)["kind"], "StorageClass", "a deleted class is shown");
}

async fn warnings_come_with_success(peer: &Peer) {
    let ns = peer.namespace().await;
    let mut object = workload("dotted.name");
    object["spec"]["template"]["spec"]["containers"][0]["env"] =
        json!([{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]);
    let answer = peer.post(&apps("deployments", &ns), object).await;
    let warnings = answer.warnings();
    answer.ok(201);
    assert!(warnings.iter().any(|w| w.contains("a DNS label is recommended")), "{warnings:?}");
    assert!(warnings.iter().any(|w| w.contains("hides previous definition of")), "{warnings:?}");
    let path = format!("{}/dotted.name", apps("deployments", &ns));
    let labelled = peer.patch(&path, "merge", json!({"metadata": {"labels": {"l": "1"}}})).await;
    assert_eq!(labelled.warnings(), Vec::<String>::new(), "what did not change is not told again");
}
