//! The real kubectl, command by command, on both servers: exit code and output must be the same, ids and ages apart.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use muster_tests::peer::peers_folder;
use muster_tests::runner::{arguments, chosen_peers, install_panic_hook};
use muster_tests::{PATIENCE, Peer};

#[path = "kubectl/cascades.rs"]
mod cascades;
#[path = "kubectl/nodes.rs"]
mod nodes;
#[path = "kubectl/workloads.rs"]
mod workloads;

/// One command line, what it reads on standard input, and how much of its output is compared.
struct Step {
    line: &'static str,
    input: &'static str,
    compare: Compare,
}

#[derive(PartialEq, Clone, Copy)]
enum Compare {
    All,
    /// Only the exit code: the output lists what we do not have, or is free.
    Code,
    /// Exit code and the fields with their types: descriptions are in our own words.
    Fields,
}

impl Compare {
    fn same(self, left: &str, right: &str) -> bool {
        match self {
            Compare::Code => true,
            Compare::All => left == right,
            Compare::Fields => typed_lines(left) == typed_lines(right),
        }
    }
}

/// Lines such as `data <map[string]string>`.
fn typed_lines(text: &str) -> Vec<&str> {
    text.lines()
        .map(str::trim)
        .filter(|line| line.contains(" <") || line.starts_with("KIND:") || line.starts_with("GROUP:"))
        .collect()
}

const fn step(line: &'static str) -> Step {
    Step { line, input: "", compare: Compare::All }
}
const fn fed(line: &'static str, input: &'static str) -> Step {
    Step { line, input, compare: Compare::All }
}
const fn fields(line: &'static str) -> Step {
    Step { line, input: "", compare: Compare::Fields }
}
const fn code(line: &'static str) -> Step {
    Step { line, input: "", compare: Compare::Code }
}

const MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: applied\n  labels: {app: one}\ndata:\n  a: \"1\"\n  b: \"2\"\n";
const CHANGED: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: applied\n  labels: {app: two}\ndata:\n  b: \"3\"\n  c: \"4\"\n";
const TWO: &str = "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: robot}\nsecrets: [{name: s}]\n---\napiVersion: coordination.k8s.io/v1\nkind: Lease\nmetadata: {name: lock}\nspec: {holderIdentity: me, leaseDurationSeconds: 15}\n";
const FRESH: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: fresh}\ndata: {a: \"1\"}\n";
const UNKNOWN: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: typo}\ndatta: {a: b}\n";
const EVENT: &str = "apiVersion: v1\nkind: Event\nmetadata: {name: e1}\ninvolvedObject: {kind: ConfigMap, name: applied, namespace: demo, apiVersion: v1}\nreason: Tested\nmessage: it happened\ntype: Normal\nsource: {component: suite}\n";

const CRD: &str = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: crontabs.stable.example.com}\nspec:\n  group: stable.example.com\n  scope: Namespaced\n  names: {plural: crontabs, singular: crontab, kind: CronTab, shortNames: [ct], categories: [all]}\n  versions:\n  - name: v1\n    served: true\n    storage: true\n    subresources: {status: {}, scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}}\n    selectableFields: [{jsonPath: .spec.color}]\n    additionalPrinterColumns:\n    - {name: Schedule, type: string, jsonPath: .spec.schedule}\n    - {name: Replicas, type: integer, jsonPath: .spec.replicas, priority: 1}\n    schema:\n      openAPIV3Schema:\n        type: object\n        description: Runs something again and again.\n        properties:\n          spec:\n            type: object\n            required: [schedule]\n            properties:\n              schedule: {type: string, description: When it runs.}\n              image: {type: string, default: busybox}\n              replicas: {type: integer, minimum: 0}\n              color: {type: string}\n          status: {type: object, properties: {replicas: {type: integer}}}\n";
const CRONTAB: &str = "apiVersion: stable.example.com/v1\nkind: CronTab\nmetadata: {name: nightly}\nspec: {schedule: 0 0, replicas: 1, color: red}\n";
const CRONTAB_CHANGED: &str =
    "apiVersion: stable.example.com/v1\nkind: CronTab\nmetadata: {name: nightly}\nspec: {schedule: 0 1, color: blue}\n";
const CRONTAB_UNKNOWN: &str =
    "apiVersion: stable.example.com/v1\nkind: CronTab\nmetadata: {name: typo}\nspec: {schedule: 0 0, colour: red}\n";
const CRONTAB_WRONG: &str =
    "apiVersion: stable.example.com/v1\nkind: CronTab\nmetadata: {name: wrong}\nspec: {replicas: -1}\n";
const NODE: &str = "apiVersion: v1\nkind: Node\nmetadata: {name: n1, labels: {node-role.kubernetes.io/worker: \"\"}}\nspec: {podCIDR: 10.1.0.0/24}\nstatus:\n  capacity: {cpu: \"4\", memory: 8Gi, pods: \"110\"}\n  addresses: [{type: InternalIP, address: 192.0.2.7}]\n  conditions: [{type: Ready, status: \"True\", reason: Fine, message: all good}]\n";
const CONTROLLER: &str = "apiVersion: v1\nkind: ReplicationController\nmetadata: {name: rc}\nspec:\n  template:\n    metadata: {labels: {app: rc}}\n    spec: {containers: [{name: c, image: \"nginx:1\"}]}\n";
const CLAIM: &str = "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: claim}\nspec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}\n";
const BINDING: &str =
    "apiVersion: v1\nkind: Binding\nmetadata: {name: p}\ntarget: {apiVersion: v1, kind: Node, name: n1}\n";

const RIGHTS: &str = "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: granted}\nrules: [{apiGroups: [\"\"], resources: [pods], verbs: [get, list]}, {apiGroups: [\"\"], resources: [secrets], verbs: [get]}]\n---\napiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: granted}\nroleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: granted}\nsubjects: [{kind: User, name: ann, apiGroup: rbac.authorization.k8s.io}, {kind: User, name: bob, apiGroup: rbac.authorization.k8s.io}]\n---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: demo-granted}\nrules: [{nonResourceURLs: [/metrics], verbs: [get]}]\n";
const OTHER_RIGHTS: &str = "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: granted, labels: {a: b}}\nrules: [{apiGroups: [\"\"], resources: [pods], verbs: [get, watch]}]\n---\napiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: granted}\nroleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: granted}\nsubjects: [{kind: Group, name: dev, apiGroup: rbac.authorization.k8s.io}]\n";
const OTHER_ROLE: &str = "apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: granted}\nroleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}\nsubjects: [{kind: User, name: ann, apiGroup: rbac.authorization.k8s.io}]\n";

/// The initial objects of the repository, applied as the README says.
macro_rules! initial {
    ($folder:literal) => {
        step(concat!("apply -f ", env!("CARGO_MANIFEST_DIR"), "/../deploy/initialization/", $folder))
    };
}

const STEPS: &[Step] = &[
    initial!("namespaces"),
    initial!("catalogs"),
    initial!("binmetas"),
    initial!("teams"),
    initial!("users"),
    initial!("users"),
    step("-n default get users"),
    code("version"),
    code("cluster-info"),
    code("api-resources"),
    step("api-resources --api-group=coordination.k8s.io"),
    step("api-resources --api-group=events.k8s.io -o wide"),
    code("api-versions"),
    code("get --raw /readyz?verbose"),
    step("get namespaces"),
    step("create namespace demo"),
    step("create namespace demo"),
    step("get ns demo -o name"),
    step("get namespace demo --show-labels"),
    step("describe namespace demo"),
    step("get configmaps -n demo"),
    step("create configmap made -n demo --from-literal=k=v --from-literal=other=1"),
    step("create configmap made -n demo --from-literal=k=v"),
    step("get cm made -n demo"),
    step("get cm made -n demo -o yaml"),
    step("get cm made -n demo -o json"),
    step("get cm made -n demo -o name"),
    step("get cm -n demo -o wide"),
    step("get cm made -n demo -o jsonpath={.data.k}"),
    step("get cm -n demo -o custom-columns=N:.metadata.name,K:.data.k"),
    step("describe configmap made -n demo"),
    step("create secret generic hidden -n demo --from-literal=password=x"),
    step("create secret tls bad -n demo --cert=/nonexistent --key=/nonexistent"),
    step("get secrets -n demo"),
    step("describe secret hidden -n demo"),
    step("create serviceaccount builder -n demo"),
    step("get sa -n demo"),
    step("describe sa builder -n demo"),
    step("create role reader -n demo --verb=get,list --resource=configmaps"),
    step("create rolebinding readers -n demo --role=reader --user=ann --serviceaccount=demo:builder"),
    step("create clusterrole demo-writer --verb=* --resource=secrets --resource-name=one"),
    step("create clusterrolebinding demo-writers --clusterrole=demo-writer --group=dev"),
    step("create clusterrolebinding demo-writers --clusterrole=demo-writer --group=dev"),
    step("get roles,rolebindings -n demo"),
    step("get clusterrolebinding demo-writers -o wide"),
    step("describe role reader -n demo"),
    step("describe rolebinding readers -n demo"),
    step("describe clusterrole demo-writer"),
    step("describe clusterrolebinding demo-writers"),
    step("auth whoami"),
    step("auth whoami --as=ann --as-group=dev --as-uid=7"),
    step("auth can-i create configmaps -n demo"),
    step("auth can-i list configmaps -n demo --as=ann"),
    step("auth can-i list configmaps -n default --as=ann"),
    step("auth can-i --list -n demo --as=nobody --as-group=system:unauthenticated"),
    step("get cm -n demo --as=nobody"),
    step("get cm -n demo --as=ann -o name"),
    code("create token builder -n demo"),
    step("create token builder -n demo --duration=1m"),
    step("create token missing -n demo"),
    fed("auth reconcile -n demo -f - --dry-run=server", RIGHTS),
    fed("auth reconcile -n demo -f -", RIGHTS),
    fed("auth reconcile -n demo -f -", RIGHTS),
    step("auth can-i list pods -n demo --as=bob"),
    fed("auth reconcile -n demo -f -", OTHER_RIGHTS),
    step("get role,rolebinding granted -n demo -o yaml"),
    fed("auth reconcile -n demo --remove-extra-permissions --remove-extra-subjects -f -", OTHER_RIGHTS),
    step("get role,rolebinding granted -n demo -o yaml"),
    step("auth can-i list pods -n demo --as=bob"),
    step("auth can-i watch pods -n demo --as=bob --as-group=dev"),
    // Another role means another binding: the old one is deleted.
    fed("auth reconcile -n demo -f -", OTHER_ROLE),
    step("get rolebinding granted -n demo -o yaml"),
    fed("auth reconcile -n demo -f -", MAP),
    fed("auth reconcile -n demo -f - --as=ann", RIGHTS),
    step("delete clusterrole demo-granted"),
    step("delete clusterrolebinding demo-writers"),
    step("delete clusterrole demo-writer"),
    fed("apply -n demo -f -", MAP),
    fed("apply -n demo -f -", MAP),
    fed("diff -n demo -f -", MAP),
    fed("apply -n demo -f -", CHANGED),
    step("get cm applied -n demo -o yaml"),
    fed("apply -n demo --dry-run=server -f -", MAP),
    fed("apply -n demo --dry-run=client -f -", MAP),
    step("get cm applied -n demo -o jsonpath={.data}"),
    step("get cm applied -n demo -o yaml --show-managed-fields"),
    step("apply view-last-applied cm applied -n demo"),
    fed("apply -n demo --server-side --field-manager=other -f -", MAP),
    fed("apply -n demo --server-side -f -", CHANGED),
    step("get cm applied -n demo -o yaml --show-managed-fields"),
    step("apply view-last-applied cm applied -n demo"),
    fed("apply -n demo --server-side -f -", CHANGED),
    fed("apply -n demo --server-side --field-manager=other -f -", MAP),
    fed("diff -n demo --server-side --field-manager=other -f -", MAP),
    fed("diff -n demo --server-side --field-manager=other --force-conflicts -f -", MAP),
    fed("apply -n demo --server-side --field-manager=other --force-conflicts --dry-run=server -f -", MAP),
    fed("apply -n demo --server-side --field-manager=other --force-conflicts -f -", MAP),
    step("get cm applied -n demo -o yaml --show-managed-fields"),
    fed("apply -n demo --server-side -f -", CHANGED),
    fed("apply -n demo --server-side --force-conflicts -f -", CHANGED),
    fed("apply -n demo --server-side -f -", FRESH),
    fed("apply -n demo --server-side -f -", FRESH),
    step("get cm fresh -n demo -o yaml --show-managed-fields"),
    fed("apply -n demo -f -", FRESH),
    step("label cm fresh -n demo seen=true"),
    step("get cm fresh -n demo -o yaml --show-managed-fields"),
    // Kubernetes calls it its own failure.
    Step { line: "apply -n demo --server-side -f -", input: UNKNOWN, compare: Compare::Code },
    step("delete cm fresh -n demo"),
    fed("apply -n demo --server-side -f -", TWO),
    step("get sa robot -n demo -o yaml --show-managed-fields"),
    fed("apply -n demo -f -", TWO),
    step("get sa,leases -n demo"),
    fed("apply -n demo -f -", UNKNOWN),
    fed("apply -n demo --validate=false -f -", UNKNOWN),
    fed("create -n demo -f -", UNKNOWN),
    fed("create -n demo --validate=warn -f -", UNKNOWN),
    fed("replace -n demo -f -", MAP),
    fed("create -n demo -f -", MAP),
    step("label cm applied -n demo color=red"),
    step("label cm applied -n demo color=blue"),
    step("label cm applied -n demo color=blue --overwrite"),
    step("label cm applied -n demo color-"),
    step("annotate cm applied -n demo note=hello"),
    step("annotate cm applied -n demo note-"),
    step("patch cm applied -n demo -p {\"data\":{\"p\":\"1\"}}"),
    step("patch cm applied -n demo --type=merge -p {\"data\":{\"p\":null}}"),
    step("patch cm applied -n demo --type=json -p [{\"op\":\"add\",\"path\":\"/data/j\",\"value\":\"x\"}]"),
    step("patch cm applied -n demo --type=json -p [{\"op\":\"test\",\"path\":\"/data/j\",\"value\":\"y\"}]"),
    step("patch sa robot -n demo -p {\"secrets\":[{\"name\":\"t\"}]}"),
    step("get sa robot -n demo -o jsonpath={.secrets[*].name}"),
    // The editor (`command`) writes welcome for hello.
    step("create cm edited -n demo --from-literal=k=hello"),
    step("edit cm edited -n demo"),
    step("get cm edited -n demo -o yaml --show-managed-fields"),
    step("edit cm edited -n demo"),
    step("edit cm missing -n demo"),
    step("create cm fixed -n demo --from-literal=k=hello"),
    step("patch cm fixed -n demo -p {\"immutable\":true}"),
    // It names a temporary file.
    code("edit cm fixed -n demo"),
    step("get cm fixed -n demo -o jsonpath={.data.k}"),
    step("create cm shown -n demo --from-literal=k=hello"),
    step("edit cm shown -n demo --output-patch"),
    step("edit cm shown -n demo -o jsonpath={.data}"),
    step("delete cm edited fixed shown -n demo"),
    step("get cm -n demo -l app=one"),
    step("get cm -n demo -l app=nothing"),
    step("get cm -n demo --field-selector metadata.name=applied"),
    step("get cm -n demo --field-selector data.x=y"),
    step("get cm -A -l app=one"),
    step("get cm -n demo --chunk-size=1"),
    step("get cm -n demo --sort-by=.metadata.name -o name"),
    step("get cm missing -n demo"),
    step("get nothings -n demo"),
    step("get cm missing -n demo --ignore-not-found"),
    fields("explain configmap"),
    fields("explain configmap.data"),
    fields("explain secret --recursive"),
    fields("explain lease.spec"),
    fields("explain namespace.spec.finalizers"),
    fields("explain serviceaccount.secrets"),
    fields("explain events.involvedObject"),
    step("explain configmap.nothing"),
    fed("create -n demo -f -", EVENT),
    step("get events -n demo"),
    step("get events -n demo -o wide"),
    step("events -n demo"),
    step("events -n demo --for configmap/applied"),
    step("describe cm applied -n demo"),
    step("create cm gone -n demo --dry-run=server -o name"),
    step("create cm gone -n demo --dry-run=client -o yaml"),
    step("delete cm made -n demo --dry-run=server"),
    step("delete cm made -n demo"),
    step("delete cm made -n demo"),
    step("delete cm made -n demo --ignore-not-found"),
    step("wait --for=delete cm/made -n demo --timeout=60s"),
    step("wait --for=jsonpath={.data.j}=never cm/applied -n demo --timeout=1s"),
    step("wait --for=jsonpath={.metadata.name}=applied cm/applied -n demo --timeout=60s"),
    step("delete cm,secret --all -n demo"),
    step("get cm,secret -n demo"),
    step("delete lease lock -n demo --now"),
    fed("apply -f -", CRD),
    step("wait --for=condition=established crd/crontabs.stable.example.com --timeout=60s"),
    fed("apply -f -", CRD),
    step("api-resources --api-group=stable.example.com"),
    step("api-resources --api-group=apiextensions.k8s.io -o wide"),
    step("get crd crontabs.stable.example.com -o jsonpath={.status.acceptedNames}"),
    step("get crd crontabs.stable.example.com -o name"),
    fields("explain crontab"),
    fields("explain ct.spec"),
    step("explain crontab.spec.schedule"),
    fields("explain crontab --recursive"),
    fed("create -n demo -f -", CRONTAB),
    fed("apply -n demo -f -", CRONTAB),
    fed("apply -n demo -f -", CRONTAB_CHANGED),
    fed("apply -n demo -f -", CRONTAB_UNKNOWN),
    fed("apply -n demo -f -", CRONTAB_WRONG),
    fed("create -n demo -f -", CRONTAB_UNKNOWN),
    fed("create -n demo --validate=warn -f -", CRONTAB_UNKNOWN),
    step("get ct -n demo"),
    step("get crontabs -n demo -o wide"),
    step("get crontab.v1.stable.example.com nightly -n demo -o yaml"),
    step("get crontab.stable.example.com -n demo -o json"),
    // What else is of this category differs.
    code("get all -n demo"),
    step("get ct -n demo --field-selector spec.color=blue"),
    step("get ct -n demo --field-selector spec.image=busybox"),
    code("describe ct nightly -n demo"),
    step("scale ct/nightly -n demo --replicas=3"),
    step("scale ct/nightly -n demo --replicas=3 --current-replicas=1"),
    step("get ct nightly -n demo -o jsonpath={.spec.replicas}"),
    step("patch ct nightly -n demo -p {\"spec\":{\"color\":\"red\"}}"),
    step("patch ct nightly -n demo --type=merge -p {\"spec\":{\"color\":\"red\"}}"),
    step("patch ct nightly -n demo --subresource=status --type=merge -p {\"status\":{\"replicas\":2}}"),
    step("get ct nightly -n demo --subresource=scale -o yaml"),
    step("label ct nightly -n demo a=b"),
    step("delete ct typo -n demo"),
    step("delete crd crontabs.stable.example.com"),
    step("get ct -n demo"),
    step("get crd crontabs.stable.example.com"),
    // Kubernetes lets go of orphans in its controller manager, which is not here: do not wait for it.
    step("delete sa robot -n demo --cascade=orphan --wait=false"),
    step("delete sa builder -n demo --cascade=background --wait=false"),
    fed("create -f -", NODE),
    step("get nodes"),
    step("get nodes -o wide"),
    step("label node n1 disk=ssd"),
    step("taint node n1 dedicated=x:NoSchedule"),
    step("cordon n1"),
    step("get node n1"),
    step("uncordon n1"),
    step("describe node n1"),
    step("run p -n demo --image=nginx:1 --port=80 --env=A=b"),
    step("run p -n demo --image=nginx:1"),
    step("get pods -n demo"),
    step("get pods -n demo -o wide"),
    step("get pod p -n demo -o yaml"),
    step("describe pod p -n demo"),
    step("logs p -n demo"),
    step("logs p -n demo -c nope"),
    step("set image pod/p -n demo p=nginx:2"),
    step("label pod p -n demo tier=front"),
    fed("create -n demo --validate=false -f -", BINDING),
    step("get pods -n demo -o wide --field-selector spec.nodeName=n1"),
    step("describe pod p -n demo"),
    step("expose pod p -n demo --port=80 --name=web"),
    step("create service clusterip inner -n demo --tcp=80:8080"),
    step("create service nodeport outer -n demo --tcp=80 --node-port=30777"),
    step("create service externalname alias -n demo --external-name=a.example"),
    step("get svc -n demo"),
    step("get svc -n demo -o wide"),
    step("describe svc web -n demo"),
    step("describe svc outer -n demo"),
    step("get endpoints -n demo"),
    fed("apply -n demo -f -", CONTROLLER),
    step("get rc -n demo -o wide"),
    step("scale rc rc -n demo --replicas=3"),
    step("scale rc rc -n demo --current-replicas=1 --replicas=5"),
    step("get rc rc -n demo"),
    step("describe rc rc -n demo"),
    fed("apply -n demo -f -", CLAIM),
    step("get pvc -n demo"),
    step("describe pvc claim -n demo"),
    step("create quota q -n demo --hard=pods=1000"),
    step("get quota -n demo"),
    step("get all -n demo"),
    step("delete svc web inner -n demo"),
    step("delete pod p -n demo --wait=false"),
    step("get pods -n demo"),
    step("delete pod p -n demo --force --grace-period=0"),
    step("get pods -n demo"),
    step("delete rc rc -n demo --cascade=background"),
    step("delete node n1"),
    fields("explain pod.spec.containers"),
    fields("explain service.spec"),
    step("delete ns default"),
    step("delete ns demo --wait=false"),
    step("auth whoami -o jsonpath={.status.userInfo.username}"),
];

fn main() {
    install_panic_hook();
    if arguments().list {
        println!("kubectl: test");
        return;
    }
    let wanted = arguments();
    let kubectl = peers_folder().unwrap().join("kubectl");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let peers: Vec<Peer> = chosen_peers()
        .into_iter()
        .map(|kind| runtime.block_on(Peer::start(kind)).unwrap_or_else(|why| panic!("{}: {why}", kind.name())))
        .collect();
    let mut failed = 0;
    // Later steps build on earlier ones: a filter only chooses which are reported.
    let steps: Vec<&Step> = STEPS.iter().chain(workloads::STEPS).collect();
    // Of a tenth of a second and more, for all steps together.
    let mut waits = 300;
    for step in &steps {
        let mut outputs: Vec<(i32, String)> = peers.iter().map(|peer| run(&kubectl, peer, step)).collect();
        let mut same = is_same(step, &outputs);
        while !same && may_change(step, &outputs[0].1) && waits > 0 {
            waits -= 1;
            std::thread::sleep(Duration::from_millis(100));
            outputs[0] = run(&kubectl, &peers[0], step);
            same = is_same(step, &outputs);
        }
        if !wanted.wants(step.line) {
            continue;
        }
        println!("test kubectl {} ... {}", step.line, if same { "ok" } else { "FAILED" });
        if !same || std::env::var_os("MUSTER_TEST_SHOW").is_some() {
            for (peer, (code, text)) in peers.iter().zip(&outputs) {
                println!("--- {} exit {code}\n{}", peer.kind.name(), text.chars().take(3000).collect::<String>());
            }
        }
        failed += usize::from(!same);
    }
    let rolled: Vec<Vec<String>> =
        peers.iter().map(|peer| workloads::roll_back(|line, input| run_line(&kubectl, peer, line, input).1)).collect();
    let same = rolled.windows(2).all(|pair| pair[0] == pair[1]) && rolled.iter().all(|all| all[5].trim() == "app:1");
    println!("test kubectl rollout undo ... {}", if same { "ok" } else { "FAILED" });
    if !same {
        println!("{rolled:#?}");
    }
    failed += usize::from(!same);
    let drained: Vec<_> =
        peers.iter().map(|peer| nodes::drain(|line, input| run_line(&kubectl, peer, line, input))).collect();
    let wrong: Vec<String> = drained.iter().filter_map(|seen| nodes::is_drained(seen).err()).collect();
    let same = drained.windows(2).all(|pair| pair[0] == pair[1]) && wrong.is_empty();
    println!("test kubectl drain ... {}", if same { "ok" } else { "FAILED" });
    if !same {
        println!("{wrong:#?} {drained:#?}");
    }
    failed += usize::from(!same);
    for peer in peers.iter().filter(|peer| peer.is_muster()) {
        let outcome = cascades::cascade(|line, input| run_line(&kubectl, peer, line, input));
        println!("test kubectl delete --cascade ... {}", outcome.as_ref().map_or("FAILED", |()| "ok"));
        if let Err(why) = outcome {
            println!("{why}");
            failed += 1;
        }
    }
    for peer in &peers {
        let ok = watch_shows_changes(&kubectl, peer);
        println!("test kubectl get -w on {} ... {}", peer.kind.name(), if ok { "ok" } else { "FAILED" });
        failed += usize::from(!ok);
        if let Some(panic) = peer.panic_in_log() {
            println!("{} panicked: {panic}", peer.kind.name());
            failed += 1;
        }
    }
    println!("\ntest result: {} of {} commands differ", failed, steps.len());
    drop(peers);
    if failed > 0 {
        std::process::exit(1);
    }
}

fn is_same(step: &Step, outputs: &[(i32, String)]) -> bool {
    let [a, b] = outputs else { return true };
    let [theirs, ours] = [&a.1, &b.1].map(|text| without_reason(step.line, text));
    a.0 == b.0 && step.compare.same(theirs, ours) || known(step.line).is_some()
}

/// Kubernetes publishes what was defined, and forgets it, a moment after it has said so: what reads, and what failed for that, is asked
/// again there.
fn may_change(step: &Step, said: &str) -> bool {
    let reads = ["get ", "wait ", "explain ", "api-resources ", "rollout status ", "-n default get "];
    reads.iter().any(|start| step.line.starts_with(start)) || said.contains("no matches for kind")
}

/// Kubernetes says no, we say why.
fn without_reason<'a>(line: &str, text: &'a str) -> &'a str {
    let denied = line.starts_with("auth can-i ") && text.starts_with("no - RBAC: no rule allows to ");
    if denied { "no\n" } else { text }
}

/// Commands whose difference is meant, with the reason.
fn known(line: &str) -> Option<&'static str> {
    match line {
        r#"patch cm applied -n demo --type=json -p [{"op":"test","path":"/data/j","value":"y"}]"# => {
            Some("Kubernetes does not say which test failed, we do")
        }
        _ => None,
    }
}

fn command(kubectl: &std::path::Path, peer: &Peer, line: &str) -> Command {
    // Every wait has an end.
    let mut command = Command::new("timeout");
    command
        .args(["--signal=KILL", "120"])
        .arg(kubectl)
        .arg("--kubeconfig")
        .arg(peer.kubeconfig())
        .args(line.split(' '));
    // A cache of its own for each server; otherwise one would see the other's discovery.
    command.env("KUBECACHEDIR", peer.dir.join("kubecache")).env("HOME", &peer.dir);
    command.env("KUBE_EDITOR", "sed -i s/hello/welcome/");
    command
}

fn run(kubectl: &std::path::Path, peer: &Peer, step: &Step) -> (i32, String) {
    run_line(kubectl, peer, step.line, step.input)
}

fn run_line(kubectl: &std::path::Path, peer: &Peer, line: &str, input: &str) -> (i32, String) {
    let mut child = command(kubectl, peer, line)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("kubectl");
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    (output.status.code().unwrap_or(-1), masked(&text, peer))
}

/// Ages, uids, revisions, times and addresses differ by nature.
fn masked(text: &str, peer: &Peer) -> String {
    let lines =
        text.replace(&format!("127.0.0.1:{}", peer.port), "SERVER").replace(&peer.dir.display().to_string(), "DIR");
    let mut out = String::new();
    for line in lines.lines() {
        if [
            "uid:",
            "resourceVersion:",
            "creationTimestamp:",
            "CreationTimestamp:",
            "Created on:",
            "Start Time:",
            "time:",
            "\"uid\":",
            "\"resourceVersion\":",
            "\"creationTimestamp\":",
        ]
        .iter()
        .any(|key| line.trim_start().starts_with(key))
        {
            out.push_str(line.split(':').next().unwrap_or(""));
            out.push_str(": …\n");
            continue;
        }
        // kubectl's own log lines and temporary files carry a time or a number.
        let line = match line.split_once("] ") {
            Some((head, rest)) if head.contains(".go:") => rest,
            _ => line,
        };
        if ["diff -u -N ", "--- /", "+++ /"].iter().any(|start| line.starts_with(start)) {
            out.push_str("DIFF\n");
            continue;
        }
        // How often it says that it waits depends on how often it is told something.
        if line.starts_with("Waiting for ") && out.ends_with(&format!("{line}\n")) {
            continue;
        }
        let words: Vec<&str> = line.split_whitespace().map(mask).collect();
        // Widths of columns follow the ages: compare words, but keep the indentation.
        let indent = line.len() - line.trim_start().len();
        out.push_str(&" ".repeat(indent));
        out.push_str(&words.join(" "));
        out.push('\n');
    }
    out
}

/// Addresses of services are chosen at random.
fn mask(word: &str) -> &str {
    match word {
        _ if is_age(word) => "AGE",
        _ if word.starts_with("10.96.") => "ADDRESS",
        _ if word.len() == 20 && word.ends_with('Z') && word.as_bytes()[10] == b'T' => "TIME",
        _ => word,
    }
}

fn is_age(word: &str) -> bool {
    let digits = word.trim_end_matches(['s', 'm', 'h', 'd']);
    digits.len() < word.len() && !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit() || "smhd".contains(c))
        || word == "<unknown>"
}

fn watch_shows_changes(kubectl: &std::path::Path, peer: &Peer) -> bool {
    let each = |line: &'static str| run(kubectl, peer, &step(line));
    let log = peer.dir.join("watched.txt");
    // One that is there before: when it is shown, what comes after it is.
    each("create cm known -n default");
    each("label cm known -n default watched=yes");
    let shown = |words: &str| {
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            let seen = std::fs::read_to_string(&log).unwrap_or_default();
            if seen.contains(words) {
                return seen;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        String::new()
    };
    let out = std::fs::File::create(&log).unwrap();
    let mut watching = command(kubectl, peer, "get cm -n default -w --output-watch-events -l watched=yes")
        .stdout(out)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    shown("known");
    each("create cm w -n default");
    each("label cm w -n default watched=yes");
    each("label cm w -n default more=1");
    each("delete cm w -n default");
    let seen = shown("DELETED");
    let _ = watching.kill();
    let _ = watching.wait();
    each("delete cm known -n default");
    let words = seen.lines().filter_map(|line| line.split_once(char::is_whitespace));
    let events: Vec<&str> =
        words.filter(|(_, rest)| rest.split_whitespace().next() == Some("w")).map(|(event, _)| event).collect();
    events == ["ADDED", "MODIFIED", "DELETED"]
}
