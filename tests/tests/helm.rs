//! Helm 3 and Helm 4 install, upgrade, roll back and uninstall a chart with hooks and CRDs; what they leave is the same on both servers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

use std::path::Path;
use std::process::Command;

use muster_tests::Peer;
use muster_tests::peer::peers_folder;
use muster_tests::runner::{chosen_peers, install_panic_hook};
use serde_json::Value;

/// `{chart}` is the chart's folder. After each step the objects of the release are compared.
const STEPS: &[&str] = &[
    "install shop {chart} -n shop --create-namespace",
    "install shop {chart} -n shop",
    "status shop -n shop",
    "get manifest shop -n shop",
    "list -n shop",
    "upgrade shop {chart} -n shop --set greeting=welcome --set replicas=3",
    "upgrade shop {chart} -n shop --set greeting=again --dry-run=server",
    "upgrade shop {chart} -n shop --set image= --set replicas=nonsense",
    "history shop -n shop --max 1",
    "rollback shop 1 -n shop",
    "get values shop -n shop",
    "get hooks shop -n shop",
    "upgrade other {chart} -n shop --install --set greeting=third",
    "upgrade absent {chart} -n shop",
    "uninstall other -n shop",
    "uninstall shop -n shop --keep-history",
    "uninstall shop -n shop",
    "list -n shop --all",
];

const LEFT: &[&str] = &[
    "/api/v1/namespaces/shop/configmaps",
    "/api/v1/namespaces/shop/services",
    "/api/v1/namespaces/shop/secrets",
    "/apis/apps/v1/namespaces/shop/deployments",
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
        let peers: Vec<Peer> =
            chosen_peers().into_iter().map(|kind| runtime.block_on(Peer::start(kind)).unwrap()).collect();
        for step in STEPS {
            let line = step.replace("{chart}", &chart);
            let outcomes: Vec<(i32, String, Vec<String>)> = peers
                .iter()
                .map(|peer| {
                    let (code, text) = run(&helms.join(helm), peer, &line);
                    (code, text, runtime.block_on(left(peer)))
                })
                .collect();
            let same = outcomes.windows(2).all(|pair| pair[0].0 == pair[1].0 && pair[0].2 == pair[1].2);
            println!("test {helm} {step} ... {}", if same { "ok" } else { "FAILED" });
            if !same {
                for (peer, (code, text, left)) in peers.iter().zip(&outcomes) {
                    println!("--- {} exit {code}\n{}", peer.kind.name(), text.chars().take(2000).collect::<String>());
                    let other: Vec<&String> = outcomes.iter().flat_map(|o| &o.2).collect();
                    let unlike = left.iter().filter(|l| other.iter().filter(|o| o == &l).count() < peers.len());
                    unlike.for_each(|line| println!("    {line}"));
                }
            }
            failed += usize::from(!same);
        }
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

fn run(helm: &Path, peer: &Peer, line: &str) -> (i32, String) {
    let output = Command::new("timeout")
        .args(["--signal=KILL", "90"])
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
