//! kubectl on workloads and what goes with them. There is no controller: the status is written by hand.

use crate::{Step, fed, fields, step};

const SETS: &str = "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: db}\nspec:\n  serviceName: db\n  replicas: 2\n  selector: {matchLabels: {app: db}}\n  template:\n    metadata: {labels: {app: db}}\n    spec:\n      containers: [{name: db, image: 'postgres:17', volumeMounts: [{name: data, mountPath: /data}]}]\n  volumeClaimTemplates:\n  - metadata: {name: data}\n    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}\n---\napiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: agent}\nspec:\n  selector: {matchLabels: {app: agent}}\n  template:\n    metadata: {labels: {app: agent}}\n    spec:\n      nodeSelector: {disk: ssd}\n      containers: [{name: agent, image: 'agent:1'}]\n---\napiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {name: plain}\nspec:\n  selector: {matchLabels: {app: plain}}\n  template:\n    metadata: {labels: {app: plain}}\n    spec:\n      containers: [{name: c, image: 'c:1'}]\n";
const POLICY: &str = "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: inside}\nspec:\n  podSelector: {matchLabels: {app: web}}\n  ingress:\n  - from: [{podSelector: {matchLabels: {app: db}}}, {ipBlock: {cidr: 10.0.0.0/8, except: [10.1.0.0/16]}}]\n    ports: [{port: 80}]\n";
const CLASSES: &str = "apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: fast, annotations: {storageclass.kubernetes.io/is-default-class: 'true'}}\nprovisioner: example.com/disk\nparameters: {type: ssd}\n---\napiVersion: networking.k8s.io/v1\nkind: IngressClass\nmetadata: {name: edge}\nspec: {controller: example.com/edge}\n---\napiVersion: node.k8s.io/v1\nkind: RuntimeClass\nmetadata: {name: sandboxed}\nhandler: runsc\n";
const DONE: &str = r#"patch deploy web -n work --subresource=status --type=merge -p {"status":{"observedGeneration":99,"replicas":5,"updatedReplicas":5,"readyReplicas":5,"availableReplicas":5}}"#;

pub const STEPS: &[Step] = &[
    step("create namespace work"),
    step("create deployment web -n work --image=nginx:1.2 --replicas=2 --port=80"),
    step("create deployment web -n work --image=nginx:1.2"),
    step("create deployment Bad_Name -n work --image=nginx"),
    step("get deployments -n work"),
    step("get deploy web -n work -o wide"),
    step("get deploy web -n work -o yaml"),
    step("describe deployment web -n work"),
    step("rollout status deploy/web -n work --timeout=5s"),
    step("rollout history deploy/web -n work"),
    step("rollout undo deploy/web -n work"),
    step("scale deploy/web -n work --replicas=5"),
    step("scale deploy/web -n work --current-replicas=3 --replicas=7"),
    step("set image deploy/web nginx=nginx:2 -n work"),
    step("set env deploy/web -n work KEY=value"),
    step("set resources deploy/web -n work --limits=cpu=200m,memory=512Mi"),
    step("rollout pause deploy/web -n work"),
    step("rollout resume deploy/web -n work"),
    step(DONE),
    step("rollout status deploy/web -n work --timeout=60s"),
    step("wait deploy/web -n work --for=jsonpath={.status.readyReplicas}=5 --timeout=60s"),
    step("get deploy web -n work -o jsonpath={.spec.template.spec.containers[0].env}"),
    step("autoscale deploy web -n work --min=1 --max=3 --cpu-percent=50"),
    step("get hpa -n work"),
    step("describe hpa web -n work"),
    step("get hpa.v1.autoscaling web -n work -o jsonpath={.spec}"),
    step("expose deployment web -n work --port=80 --dry-run=client -o name"),
    fed("apply -n work -f -", SETS),
    fed("apply -n work -f -", SETS),
    step("get sts,ds,rs -n work -o wide"),
    step("describe statefulset db -n work"),
    step("describe daemonset agent -n work"),
    step("describe replicaset plain -n work"),
    step("scale sts db -n work --replicas=3"),
    step("scale rs plain -n work --replicas=4"),
    step("rollout status sts/db -n work --timeout=5s"),
    step("rollout history ds/agent -n work"),
    step(r#"patch sts db -n work --type=merge -p {"spec":{"serviceName":"other"}}"#),
    step("create job once -n work --image=busybox -- echo hi"),
    step("get jobs -n work"),
    step("create cronjob hourly -n work --image=busybox --schedule=@hourly -- date"),
    step("create cronjob never -n work --image=busybox --schedule=sometimes -- date"),
    step("get cronjobs -n work -o wide"),
    step("describe cronjob hourly -n work"),
    step("create job now -n work --from=cronjob/hourly"),
    step("get job now -n work -o jsonpath={.metadata.ownerReferences[0].kind}"),
    step(r#"patch cronjob hourly -n work -p {"spec":{"suspend":true}}"#),
    step("delete job now -n work"),
    step("create ingress web -n work --class=edge --rule=a.example/x=web:80 --rule=b.example/*=web:http,tls=cert"),
    step("get ingress -n work"),
    step("describe ingress web -n work"),
    step("create pdb web -n work --selector=app=web --min-available=1"),
    step("create pdb half -n work --selector=app=web --max-unavailable=50%"),
    step("get pdb -n work"),
    step("describe pdb web -n work"),
    fed("apply -n work -f -", POLICY),
    step("get netpol -n work"),
    step("describe networkpolicy inside -n work"),
    step("create priorityclass high --value=1000 --description=much"),
    step("create priorityclass huge --value=2000000000"),
    step("get priorityclasses"),
    step("describe priorityclass high"),
    fed("apply -f -", CLASSES),
    step("get sc,ingressclass,runtimeclass"),
    step("describe storageclass fast"),
    step("describe ingressclass edge"),
    step("get all -n work"),
    fields("explain deployment.spec.strategy --output=plaintext-openapiv2"),
    step("api-resources --api-group=apps -o wide"),
    step("api-resources --api-group=batch"),
    step("api-resources --api-group=autoscaling"),
    step("delete deploy,sts,ds,rs,hpa,cronjob,ingress,pdb,netpol --all -n work"),
    step("delete job --all -n work"),
    step("get all -n work"),
];

/// A rollback needs the old ReplicaSets, which their controller would have made: `run` takes a command line and its input.
pub fn roll_back(run: impl Fn(&str, &str) -> String) -> Vec<String> {
    run("create deployment back -n default --image=app:1", "");
    let uid = run("get deploy back -n default -o jsonpath={.metadata.uid}", "");
    for revision in ["1", "2"] {
        run("apply -n default -f -", &replica_set(uid.trim(), revision));
    }
    let lines = [
        "set image deploy/back app=app:2 -n default",
        "annotate deploy back deployment.kubernetes.io/revision=2 -n default",
        "rollout history deploy/back -n default",
        "rollout history deploy/back -n default --revision=1",
        "rollout undo deploy/back -n default",
        "get deploy back -n default -o jsonpath={.spec.template.spec.containers[0].image}",
        "rollout restart deploy/back -n default",
    ];
    lines.iter().map(|line| run(line, "")).collect()
}

fn replica_set(uid: &str, revision: &str) -> String {
    let labels = format!("{{app: back, pod-template-hash: h{revision}}}");
    format!(
        "apiVersion: apps/v1\nkind: ReplicaSet\nmetadata:\n  name: back-{revision}\n  labels: {labels}\n  \
         annotations: {{deployment.kubernetes.io/revision: '{revision}'}}\n  \
         ownerReferences: [{{apiVersion: apps/v1, kind: Deployment, name: back, uid: {uid}, controller: true}}]\nspec:\n  \
         selector: {{matchLabels: {labels}}}\n  template:\n    metadata: {{labels: {labels}}}\n    \
         spec: {{containers: [{{name: app, image: 'app:{revision}'}}]}}\n"
    )
}
