//! Helm 3 and Helm 4 install, upgrade, roll back and uninstall a chart with hooks and CRDs: every step ends as it must, and what it leaves is the same on both servers.
//!
//! Nothing runs Jobs on a bare API server; a task of the suite plays their controller, so that Helm really waits for its hooks.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use muster_tests::peer::peers_folder;
use muster_tests::runner::{chosen_peers, install_panic_hook};
use muster_tests::{PATIENCE, Peer};
use serde_json::{Value, json};
use tokio::task::JoinSet;

/// A command line, how it must end, what it must say, and what must and must not be there afterwards.
struct Step {
    /// `{chart}` is the chart's folder.
    line: &'static str,
    succeeds: bool,
    says: &'static str,
    leaves: &'static [&'static str],
    removes: &'static [&'static str],
}

const fn good(line: &'static str, says: &'static str, leaves: &'static [&'static str]) -> Step {
    Step { line, succeeds: true, says, leaves, removes: &[] }
}

const fn bad(line: &'static str, says: &'static str) -> Step {
    Step { line, succeeds: false, says, leaves: &[], removes: &[] }
}

const INSTALLED: &[&str] = &[
    "/configmaps/shop-pre-install ",
    "/configmaps/shop-post-install ",
    "/jobs/shop-migration Complete",
    "/services/shop ",
    "/deployments/shop replicas 2",
    "/orders/shop-first ",
    "\"greeting\":\"hello\"",
    "/sh.helm.release.v1.shop.v1 \"deployed\"",
];
const UPGRADED: &[&str] = &[
    "/configmaps/shop-pre-upgrade ",
    "/configmaps/shop-post-upgrade ",
    "/deployments/shop replicas 3",
    "\"greeting\":\"welcome\"",
    "/sh.helm.release.v1.shop.v1 \"superseded\"",
    "/sh.helm.release.v1.shop.v2 \"deployed\"",
];
const ROLLED_BACK: &[&str] =
    &["/configmaps/shop-pre-rollback ", "/deployments/shop replicas 2", "\"greeting\":\"hello\""];

const STEPS: &[Step] = &[
    good("install shop {chart} -n shop --create-namespace --set migration=works", "STATUS: deployed", INSTALLED),
    bad("install shop {chart} -n shop", "cannot re"),
    good("status shop -n shop", "STATUS: deployed", &[]),
    good("get manifest shop -n shop", "kind: Deployment", &[]),
    good("list -n shop", "shop-1.0.0", &[]),
    good(
        "upgrade shop {chart} -n shop --set greeting=welcome --set replicas=3 --set migration=works",
        "STATUS: deployed",
        UPGRADED,
    ),
    good("upgrade shop {chart} -n shop --set greeting=again --dry-run=server", "greeting: \"again\"", UPGRADED),
    bad("upgrade shop {chart} -n shop --set image= --set replicas=nonsense", ""),
    // A job that fails stops the upgrade before anything of the application has changed.
    Step {
        line: "upgrade shop {chart} -n shop --set greeting=never --set migration=fails",
        succeeds: false,
        says: "pre-upgrade",
        leaves: &["/jobs/shop-migration Failed", "/deployments/shop replicas 3"],
        removes: &["\"greeting\":\"never\""],
    },
    good("history shop -n shop --max 1", "failed", &[]),
    good("rollback shop 1 -n shop", "Rollback was a success", ROLLED_BACK),
    good("get values shop -n shop", "migration: works", &[]),
    good("get hooks shop -n shop", "helm.sh/hook: pre-install,pre-upgrade", &[]),
    good(
        "upgrade other {chart} -n shop --install --set greeting=third",
        "STATUS: deployed",
        &["/deployments/other replicas 2"],
    ),
    bad("upgrade absent {chart} -n shop", "has no deployed releases"),
    Step {
        line: "uninstall other -n shop",
        succeeds: true,
        says: "uninstalled",
        leaves: &["/deployments/shop "],
        removes: &["/deployments/other ", "/orders/other-first ", "/sh.helm.release.v1.other."],
    },
    Step {
        line: "uninstall shop -n shop --keep-history",
        succeeds: true,
        says: "uninstalled",
        leaves: &["\"uninstalled\"", "/configmaps/shop-pre-delete "],
        removes: &[
            "/deployments/",
            "/services/",
            "/orders/",
            "/ingresses/",
            "/rolebindings/",
            "/poddisruptionbudgets/",
        ],
    },
    Step {
        line: "uninstall shop -n shop",
        succeeds: true,
        says: "uninstalled",
        leaves: &[],
        removes: &["/sh.helm.release."],
    },
    Step { line: "list -n shop", succeeds: true, says: "NAME", leaves: &[], removes: &["/deployments/"] },
];

const LEFT: &[&str] = &[
    "/api/v1/namespaces/shop/configmaps",
    "/api/v1/namespaces/shop/services",
    "/api/v1/namespaces/shop/secrets",
    "/apis/apps/v1/namespaces/shop/deployments",
    "/apis/batch/v1/namespaces/shop/jobs",
    "/apis/policy/v1/namespaces/shop/poddisruptionbudgets",
    "/apis/networking.k8s.io/v1/namespaces/shop/ingresses",
    "/apis/rbac.authorization.k8s.io/v1/namespaces/shop/rolebindings",
    "/apis/shop.muster.dev/v1/namespaces/shop/orders",
];

fn main() {
    install_panic_hook();
    let helms = peers_folder().unwrap();
    let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients/chart").display().to_string();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut failed = 0;
    for helm in ["helm3", "helm4"] {
        let start = |kind| Arc::new(runtime.block_on(Peer::start(kind)).unwrap());
        let peers: Vec<Arc<Peer>> = chosen_peers().into_iter().map(start).collect();
        let mut controllers = JoinSet::new();
        for peer in &peers {
            controllers.spawn_on(end_jobs(peer.clone()), runtime.handle());
        }
        for step in STEPS {
            let line = step.line.replace("{chart}", &chart);
            let outcomes: Vec<(i32, String, Vec<String>)> = peers
                .iter()
                .map(|peer| {
                    let mut said = run(&helms.join(helm), peer, &line);
                    let begun = Instant::now();
                    // Helm takes a definition that is established for one that is listed, which in Kubernetes is a moment later.
                    while said.1.contains("no matches for kind") && !peer.is_muster() && begun.elapsed() < PATIENCE {
                        said = run(&helms.join(helm), peer, &line);
                    }
                    let (code, text) = said;
                    (code, text, runtime.block_on(left(peer)))
                })
                .collect();
            let same = outcomes.windows(2).all(|pair| pair[0].0 == pair[1].0 && pair[0].2 == pair[1].2);
            let wrong: Vec<String> = outcomes
                .iter()
                .zip(&peers)
                .flat_map(|(outcome, peer)| step.misses(outcome, peer.kind.name()))
                .collect();
            let ok = same && wrong.is_empty();
            println!("test {helm} {} ... {}", step.line, if ok { "ok" } else { "FAILED" });
            if !ok {
                wrong.iter().for_each(|line| println!("  {line}"));
                for (peer, (code, text, left)) in peers.iter().zip(&outcomes) {
                    println!("--- {} exit {code}\n{}", peer.kind.name(), text.chars().take(2000).collect::<String>());
                    let other: Vec<&String> = outcomes.iter().flat_map(|o| &o.2).collect();
                    let unlike = left.iter().filter(|l| other.iter().filter(|o| o == &l).count() < peers.len());
                    unlike.for_each(|line| println!("    {line}"));
                }
            }
            failed += usize::from(!ok);
        }
        runtime.block_on(controllers.shutdown());
        for peer in &peers {
            if let Some(panic) = peer.panic_in_log() {
                println!("{} panicked: {panic}", peer.kind.name());
                failed += 1;
            }
        }
    }
    println!("\ntest result: {}. {failed} failed", if failed == 0 { "ok" } else { "FAILED" });
    if failed > 0 {
        std::process::exit(1);
    }
}

impl Step {
    /// What is not as it must be after this step on one server.
    fn misses(&self, (code, text, left): &(i32, String, Vec<String>), server: &str) -> Vec<String> {
        let mut missed = Vec::new();
        if (*code == 0) != self.succeeds {
            missed.push(format!("{server}: exit code {code}"));
        }
        if !text.contains(self.says) {
            missed.push(format!("{server}: does not say {:?}", self.says));
        }
        let there = |words: &str| left.iter().any(|line| line.contains(words));
        missed.extend(self.leaves.iter().filter(|words| !there(words)).map(|words| format!("{server}: no {words}")));
        missed.extend(self.removes.iter().filter(|words| there(words)).map(|words| format!("{server}: still {words}")));
        missed
    }
}

/// Ends every Job as its label says, in the way the controller of Kubernetes does it.
async fn end_jobs(peer: Arc<Peer>) {
    loop {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let Ok(answer) = peer.call("GET", "/apis/batch/v1/jobs").try_send().await else { continue };
        let list = answer.json();
        for job in list["items"].as_array().map(Vec::as_slice).unwrap_or_default() {
            if job["status"]["conditions"].is_array() || !job["metadata"]["deletionTimestamp"].is_null() {
                continue;
            }
            let name = job["metadata"]["name"].as_str().unwrap_or_default();
            let time = &job["metadata"]["creationTimestamp"];
            let condition =
                |kind: &str| json!({"type": kind, "status": "True", "lastProbeTime": time, "lastTransitionTime": time});
            let status = if job["metadata"]["labels"]["outcome"] == "fails" {
                json!({"startTime": time, "failed": 1, "conditions": [condition("FailureTarget"), condition("Failed")]})
            } else {
                json!({"startTime": time, "completionTime": time, "succeeded": 1,
                    "conditions": [condition("SuccessCriteriaMet"), condition("Complete")]})
            };
            let path = format!("/apis/batch/v1/namespaces/shop/jobs/{name}/status");
            let answer = peer.patch(&path, "merge", json!({"status": status})).await;
            // It may have been deleted in between.
            assert!(matches!(answer.status, 200 | 404 | 409), "{}", answer.text());
        }
    }
}

fn run(helm: &Path, peer: &Peer, line: &str) -> (i32, String) {
    let output = Command::new("timeout")
        .args(["--signal=KILL", "180"])
        .arg(helm)
        .args(line.split(' '))
        .env("KUBECONFIG", peer.kubeconfig())
        .env("HOME", &peer.dir)
        .output()
        .expect("helm");
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    (output.status.code().unwrap_or(-1), text)
}

/// Every object the releases left, with what is the same on every server.
async fn left(peer: &Peer) -> Vec<String> {
    let mut all = Vec::new();
    for path in LEFT {
        let list = peer.get(path).await.json();
        for item in list["items"].as_array().map(Vec::as_slice).unwrap_or_default() {
            let name = item["metadata"]["name"].as_str().unwrap_or_default();
            // Release records hold times; controllers of ours may add maps of their own.
            let release = name.starts_with("sh.helm.release");
            if name == "kube-root-ca.crt" {
                continue;
            }
            let mut item = item.clone();
            scrub(&mut item);
            all.push(if release {
                format!("{path}/{name} {}", item["metadata"]["labels"]["status"])
            } else if path.ends_with("/jobs") {
                // Its labels hold its uid, its status times: what Helm waits for is how it ended.
                let conditions = item["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
                let ended = conditions.last().and_then(|last| last["type"].as_str()).unwrap_or("still runs");
                format!("{path}/{name} {ended} {}", item["metadata"]["annotations"])
            } else if path.ends_with("/deployments") {
                format!("{path}/{name} replicas {} {item}", item["spec"]["replicas"])
            } else {
                format!("{path}/{name} {item}")
            });
        }
    }
    all
}

fn scrub(item: &mut Value) {
    if let Some(metadata) = item["metadata"].as_object_mut() {
        for key in ["uid", "resourceVersion", "creationTimestamp"] {
            metadata.remove(key);
        }
        if let Some(labels) = metadata.get_mut("labels").and_then(Value::as_object_mut) {
            labels.remove("modifiedAt");
        }
        for entry in metadata.get_mut("managedFields").and_then(Value::as_array_mut).into_iter().flatten() {
            entry.as_object_mut().map(|e| e.remove("time"));
        }
    }
    if let Some(spec) = item["spec"].as_object_mut() {
        spec.remove("clusterIP");
        spec.remove("clusterIPs");
    }
}
