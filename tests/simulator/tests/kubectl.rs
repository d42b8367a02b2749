//! The real kubectl on a simulated member, as a person uses it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use muster_tests::{PATIENCE, eventually};
use muster_tests_simulator::Stage;
use std::time::Duration;

const MANIFEST: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: shop}
spec:
  replicas: 3
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec:
      containers:
      - {name: web, image: shop:1, ports: [{name: http, containerPort: 8080}]}
---
apiVersion: v1
kind: Service
metadata: {name: shop}
spec: {selector: {app: shop}, ports: [{port: 80, targetPort: http}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 2
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {containers: [{name: db, image: db:1}]}
---
apiVersion: batch/v1
kind: Job
metadata: {name: once}
spec:
  template:
    metadata: {annotations: {simulator.muster.dev/run-for: 1s}}
    spec: {restartPolicy: Never, containers: [{name: work, image: work:1}]}
";

#[tokio::test(flavor = "multi_thread")]
async fn a_person_rolls_scales_looks_and_cleans_up() {
    let stage = Stage::begin("kubectl").await;
    let nodes = stage.kubectl("get nodes").await;
    assert_eq!(nodes.lines().filter(|line| line.contains(" Ready ")).count(), 3, "{nodes}");
    stage.kubectl_fed("apply -f -", MANIFEST).await;

    // Rollouts, forwards and back.
    let out = stage.kubectl("rollout status deployment/shop --timeout=120s").await;
    assert!(out.contains("successfully rolled out"), "{out}");
    stage.kubectl("rollout status statefulset/db --timeout=120s").await;
    stage.kubectl("set image deployment/shop web=shop:2").await;
    stage.kubectl("rollout status deployment/shop --timeout=120s").await;
    let history = stage.kubectl("rollout history deployment/shop").await;
    assert!(history.contains("\n1 ") && history.contains("\n2 "), "{history}");
    stage.kubectl("rollout undo deployment/shop").await;
    stage.kubectl("rollout status deployment/shop --timeout=120s").await;
    assert_eq!(
        stage.kubectl("get deployment shop -o jsonpath={.spec.template.spec.containers[0].image}").await,
        "shop:1"
    );
    stage.kubectl("rollout restart statefulset/db").await;
    stage.kubectl("rollout status statefulset/db --timeout=120s").await;
    stage.kubectl("wait --for=condition=complete job/once --timeout=120s").await;

    // Size, and who is behind the service.
    stage.kubectl("scale deployment/shop --replicas=5").await;
    stage.kubectl("wait --for=jsonpath={.status.readyReplicas}=5 deployment/shop --timeout=120s").await;
    let table = stage.kubectl("get deployment shop").await;
    assert!(table.contains("5/5"), "{table}");
    stage.kubectl("scale deployment/shop --replicas=1").await;
    stage.kubectl("rollout status deployment/shop --timeout=120s").await;
    // Those scaled away are still there, and running, while they stop.
    let only = async {
        loop {
            let pods = stage.kubectl("get pods -l app=shop -o name").await;
            match pods.lines().collect::<Vec<_>>()[..] {
                [pod] => break pod.to_owned(),
                _ => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    };
    let pod = tokio::time::timeout(2 * PATIENCE, only).await.expect("one pod is left");
    let events = stage.kubectl("events --for deployment/shop").await;
    assert!(events.contains("ScalingReplicaSet") && events.contains("Scaled down replica set"), "{events}");
    let described = stage.kubectl("describe deployment shop").await;
    assert!(described.contains("NewReplicaSetAvailable"), "{described}");

    // Into a pod.
    let log = stage.kubectl("logs db-0").await;
    assert!(log.contains("db starting in pod db-0"), "{log}");
    assert_eq!(stage.kubectl("logs db-0 --tail=1").await.lines().count(), 1);
    assert_eq!(stage.kubectl("exec db-0 -- hostname").await, "db-0\n");
    assert_eq!(stage.kubectl_fed("exec -i db-0 -- cat", "from outside\n").await, "from outside\n");
    let (code, ..) = stage.kubectl_with("exec -i db-0 -- sh", "exit 3\n").await;
    assert_eq!(code, 3);
    let (code, _, err) = stage.kubectl_with("exec db-0 -- cat /nothing", "").await;
    assert!(code == 1 && err.contains("No such file or directory"), "{code} {err}");
    let files = stage.kubectl("exec db-0 -- ls /var/log").await;
    assert_eq!(files, "app.log\nerror.log\n");
    let top = stage.kubectl("top pods").await;
    assert!(top.contains("db-0"), "{top}");
    assert!(stage.kubectl("top nodes").await.contains("node-1"));

    // And away with it.
    stage.kubectl(&format!("delete {pod} --timeout=120s")).await;
    stage.kubectl("rollout status deployment/shop --timeout=120s").await;
    stage.kubectl("delete deployment/shop statefulset/db service/shop job/once --timeout=120s").await;
    stage.kubectl("wait --for=delete pods --all --timeout=120s").await;
    eventually("nothing is left", || async {
        let left = stage.kubectl("get pods,replicasets,endpointslices -o name").await;
        left.lines().all(|line| line.contains("kubernetes"))
    })
    .await;
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_look_as_they_do_elsewhere() {
    let stage = Stage::begin("failures").await;
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p, annotations: {simulator.muster.dev/fail: image-pull}}\n\
               spec: {containers: [{name: web, image: nowhere/nothing:1}]}\n";
    stage.kubectl_fed("apply -f -", pod).await;
    stage.kubectl("wait --for=jsonpath={.status.containerStatuses[0].state.waiting.reason}=ImagePullBackOff pod/p --timeout=120s").await;
    let table = stage.kubectl("get pod p").await;
    assert!(table.contains("ImagePullBackOff") && table.contains("0/1"), "{table}");
    let (code, _, err) = stage.kubectl_with("logs p", "").await;
    assert!(code == 1 && err.contains("waiting to start"), "{err}");
    stage.kubectl("annotate pod p simulator.muster.dev/fail-").await;
    stage.kubectl("wait --for=condition=Ready pod/p --timeout=120s").await;
    stage.kubectl("annotate node node-1 simulator.muster.dev/fail=lost").await;
    stage.kubectl("wait --for=condition=Ready=Unknown node/node-1 --timeout=120s").await;
    let nodes = stage.kubectl("get nodes").await;
    assert!(nodes.lines().any(|line| line.starts_with("node-1") && line.contains("NotReady")), "{nodes}");
    stage.kubectl("annotate node node-1 simulator.muster.dev/fail-").await;
    stage.kubectl("wait --for=condition=Ready node/node-1 --timeout=120s").await;
    stage.end().await;
}
