//! Objects of every built-in kind that are wrong in one place, created on both servers, and laid over a good one, without being kept: the
//! answers must have the same code, reason and causes, or be listed with a reason in `tests/mutations/differences.yaml`.
//!
//! All of them take a minute; `MUSTER_TEST_MUTATIONS=500` runs so many, chosen by `MUSTER_TEST_SEED`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

use futures_util::{FutureExt, StreamExt};
use muster_tests::differential::{glob, load};
use muster_tests::mutation::{Mutant, chosen, mutants};
use muster_tests::runner::{arguments, chosen_peers, install_panic_hook};
use muster_tests::{Call, Kind, Peer};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::path::Path;

const WIDTH: usize = 8;

/// An object that both servers take.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sample {
    kind: String,
    /// Where it is created.
    post: String,
    object: Value,
}

/// A difference that stays.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Allowed {
    /// `Kind /path change`, `*` for any text.
    at: String,
    reason: String,
}

/// What of an answer must be the same: the code, the reason, and the field and reason of every cause.
async fn verdict(peer: &Peer, verb: &str, path: &str, object: &Value) -> String {
    let path = format!("{path}?dryRun=All&fieldValidation=Strict");
    let call = Call::new(peer, verb, &path).limit(muster_tests::PATIENCE).body(object.to_string());
    // A server may drop the stream: kube-apiserver panics over some objects.
    let Ok(answer) = AssertUnwindSafe(call.send()).catch_unwind().await else { return "no answer".to_owned() };
    let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut causes: Vec<String> = body["details"]["causes"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|cause| format!("{} {}", text(&cause["field"]), text(&cause["reason"])))
        .collect();
    causes.sort();
    causes.dedup();
    match answer.status {
        200 | 201 => "taken".to_owned(),
        code => format!("{code} {} [{}]", text(&body["reason"]), causes.join(", ")),
    }
}

/// What both servers say, under the name of the mutant; of an update, `PUT` comes first.
async fn judge(peers: [&Peer; 2], verb: &str, path: &str, sample: &Sample, mutant: &Mutant) -> (String, [String; 2]) {
    let [left, right] = peers;
    let (a, b) = tokio::join!(verdict(left, verb, path, &mutant.object), verdict(right, verb, path, &mutant.object));
    let verb = if verb == "POST" { "" } else { "PUT " };
    (format!("{verb}{} {} {}", sample.kind, mutant.path, mutant.change), [a, b])
}

fn main() {
    install_panic_hook();
    let arguments = arguments();
    if arguments.list {
        println!("mutations: test");
        return;
    }
    // One server alone has nobody to agree with.
    if chosen_peers().len() < 2 {
        println!("mutations: needs both servers");
        return;
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("mutations");
    let samples: Vec<Sample> = load(&folder.join("samples.yaml"));
    let allowed: Vec<Allowed> = load(&folder.join("differences.yaml"));
    let variable = |name: &str| std::env::var(name).ok();
    let most = match variable("MUSTER_TEST_MUTATIONS").as_deref() {
        Some(number) => number.parse().expect("MUSTER_TEST_MUTATIONS is a number"),
        None => usize::MAX,
    };
    let seed = variable("MUSTER_TEST_SEED").and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let wanted = samples.iter().filter(|sample| arguments.wants(&sample.kind));
    let all: Vec<(&Sample, Mutant)> = wanted
        .flat_map(|sample| {
            let whole = Mutant { path: String::new(), change: "unchanged", object: sample.object.clone() };
            std::iter::once(whole).chain(mutants(&sample.object)).map(move |mutant| (sample, mutant))
        })
        .collect();
    let count = all.len();
    let all = chosen(all, most, seed);

    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let findings: Vec<(String, [String; 2])> = runtime.block_on(async {
        let left = Peer::start(Kind::Kubernetes).await.unwrap_or_else(|why| panic!("{why}"));
        let right = Peer::start(Kind::Muster).await.unwrap_or_else(|why| panic!("{why}"));
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "mutants"}});
        left.post("/api/v1/namespaces", &namespace).await.ok(201);
        right.post("/api/v1/namespaces", &namespace).await.ok(201);
        let (left, right) = (&left, &right);
        let judged = futures_util::stream::iter(&all)
            .map(|(sample, mutant)| async move { judge([left, right], "POST", &sample.post, sample, mutant).await });
        let mut findings: Vec<_> = judged.buffer_unordered(WIDTH).collect().await;
        // The samples themselves, kept from here on, under the name that their mutants then change.
        for sample in samples.iter().filter(|sample| sample.object["metadata"]["name"].is_string()) {
            left.post(&sample.post, &sample.object).await;
            right.post(&sample.post, &sample.object).await;
        }
        let named = |sample: &Sample| Some(format!("{}/{}", sample.post, sample.object["metadata"]["name"].as_str()?));
        let updates: Vec<_> =
            all.iter().filter_map(|(sample, mutant)| Some((named(sample)?, *sample, mutant))).collect();
        let judged = futures_util::stream::iter(&updates)
            .map(|(path, sample, mutant)| async move { judge([left, right], "PUT", path, sample, mutant).await });
        findings.extend(judged.buffer_unordered(WIDTH).collect::<Vec<_>>().await);
        assert!(right.panic_in_log().is_none(), "muster panicked: {:?}", right.panic_in_log());
        findings
    });

    let mut differing: BTreeMap<&str, &[String; 2]> = BTreeMap::new();
    differing.extend(findings.iter().filter(|(_, [a, b])| a != b).map(|(at, both)| (at.as_str(), both)));
    let listed = |at: &str| allowed.iter().find(|entry| glob(&entry.at, at));
    let mut unlisted = 0;
    for (at, [a, b]) in &differing {
        match listed(at) {
            Some(entry) if variable("MUSTER_TEST_SHOW").is_some() => println!("listed: {at} ({})", entry.reason),
            Some(_) => {}
            None => {
                unlisted += 1;
                println!("{at}\n  - {a}\n  + {b}");
            }
        }
    }
    // Of a choice, not every listed difference is met.
    let unused: Vec<&Allowed> = match most {
        usize::MAX if arguments.filters.is_empty() => {
            allowed.iter().filter(|entry| !differing.keys().any(|at| glob(&entry.at, at))).collect()
        }
        _ => Vec::new(),
    };
    unused.iter().for_each(|entry| println!("listed but not seen: {} ({})", entry.at, entry.reason));
    println!(
        "\nmutations: {} requests over {count} mutants (seed {seed}), {} differ, {unlisted} not listed, {} entries unused",
        findings.len(),
        differing.len(),
        unused.len()
    );
    drop(runtime);
    if unlisted > 0 || !unused.is_empty() {
        std::process::exit(1);
    }
}
