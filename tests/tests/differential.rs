//! The same requests to kube-apiserver and to muster: code, media type, warnings and body must be the same, or be listed
//! with a reason in `tests/differential/differences.yaml`. An entry that covers nothing is a failure too, unless it is marked `sometimes`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

use std::path::Path;

use muster_tests::differential::{Allowed, Finding, Sequence, compare, load};
use muster_tests::runner::{arguments, chosen_peers, install_panic_hook};
use muster_tests::{Kind, Peer};
use serde_json::json;

fn main() {
    install_panic_hook();
    let arguments = arguments();
    if arguments.list {
        println!("differential: test");
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("differential");
    let allowed: Vec<Allowed> = load(&folder.join("differences.yaml"));
    let mut files: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|e| e == "yaml") && !path.ends_with("differences.yaml"));
    files.sort();

    // Without muster (or without kubernetes) one peer is compared with a second instance of itself: the data must be stable.
    let chosen = chosen_peers();
    let (left, right) = match chosen.as_slice() {
        [only] => (*only, *only),
        _ => (Kind::Kubernetes, Kind::Muster),
    };
    let (findings, steps) = runtime.block_on(async {
        let left = Peer::start(left).await.unwrap_or_else(|why| panic!("{why}"));
        let right = Peer::start(right).await.unwrap_or_else(|why| panic!("{why}"));
        let mut findings = Vec::new();
        let mut steps = 0;
        let mut number = 0;
        for path in &files {
            let file = path.file_stem().unwrap().to_string_lossy().into_owned();
            let sequences: Vec<Sequence> = load(path);
            for sequence in sequences.iter().flat_map(Sequence::expand) {
                number += 1;
                if !arguments.wants(&format!("{file}/{}", sequence.sequence)) {
                    continue;
                }
                let namespace = format!("diff-{number}");
                let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
                left.post("/api/v1/namespaces", &body).await.ok(201);
                right.post("/api/v1/namespaces", &body).await.ok(201);
                steps += sequence.steps.len();
                findings.extend(compare(&file, &sequence, &left, &right, &namespace).await);
            }
        }
        for peer in [&left, &right] {
            assert!(peer.panic_in_log().is_none(), "{} panicked: {:?}", peer.kind.name(), peer.panic_in_log());
        }
        (findings, steps)
    });

    let mut unlisted: Vec<&Finding> = Vec::new();
    let mut used = vec![0usize; allowed.len()];
    for finding in &findings {
        match allowed.iter().position(|entry| entry.covers(finding)) {
            Some(i) => used[i] += 1,
            None => unlisted.push(finding),
        }
    }
    for finding in &unlisted {
        let cut = |value: &serde_json::Value| value.to_string().chars().take(600).collect::<String>();
        println!(
            "{}\n  {}\n  - {}\n  + {}",
            finding.at,
            finding.difference.path,
            cut(&finding.difference.left),
            cut(&finding.difference.right)
        );
    }
    let whole = arguments.filters.is_empty() && left != right;
    let unused: Vec<&Allowed> =
        allowed.iter().zip(&used).filter(|(a, used)| whole && **used == 0 && !a.sometimes).map(|(a, _)| a).collect();
    for entry in &unused {
        println!("listed but not seen: {} {} ({})", entry.at, entry.path, entry.reason);
    }
    println!(
        "\ndifferential: {steps} steps, {} differences, {} of them listed, {} not listed, {} entries unused",
        findings.len(),
        findings.len() - unlisted.len(),
        unlisted.len(),
        unused.len()
    );
    drop(runtime);
    if !unlisted.is_empty() || !unused.is_empty() {
        std::process::exit(1);
    }
}
