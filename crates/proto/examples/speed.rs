//! How long the table takes to load and bodies take to decode: `cargo run --release -p muster-proto --example speed`.
#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::hint::black_box;
use std::time::Instant;

use schema::Facts;
use serde_json::{Value, json};

/// Time on the processor in µs: other work on the machine does not count.
fn used() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split(' ').next().unwrap().parse::<f64>().unwrap() / 1000.0
}

fn main() {
    let start = Instant::now();
    let facts = Facts::builtin();
    println!("facts: indexed in {:?}", start.elapsed());
    let start = Instant::now();
    println!("facts: all {} types read in {:?}", facts.types().count(), start.elapsed());
    let data: serde_json::Map<String, Value> =
        (0..20).map(|n| (format!("key-{n:02}.properties"), Value::from("x".repeat(80)))).collect();
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "namespace": "default",
        "labels": {"app": "demo"}, "creationTimestamp": "2026-01-01T00:00:00Z"}, "data": data});
    let pod = serde_json::from_slice(include_bytes!("../testdata/v1-pod.full.json")).unwrap();
    for (name, object) in [("ConfigMap", map), ("Pod, every field", pod)] {
        let object: Value = object;
        let text = serde_json::to_vec(&object).unwrap();
        let body = muster_proto::encode(&object).unwrap();
        let ty = facts.kind("", "v1", object["kind"].as_str().unwrap()).unwrap();
        let per = |what: &str, size: usize, mut run: Box<dyn FnMut() + '_>| {
            let rounds = 40_000_000 / (size * 20 + 2000);
            let start = used();
            (0..rounds).for_each(|_| run());
            println!("{name}: {what} ({size} bytes): {:.1} µs", (used() - start) / rounds as f64);
        };
        per("parse JSON", text.len(), Box::new(|| drop(black_box(serde_json::from_slice::<Value>(&text).unwrap()))));
        per(
            "parse JSON + decode",
            text.len(),
            Box::new(|| {
                let mut value: Value = serde_json::from_slice(&text).unwrap();
                black_box(schema::decode(facts, ty, &mut value).unwrap());
            }),
        );
        per("protobuf to JSON", body.len(), Box::new(|| drop(black_box(muster_proto::decode(&body).unwrap()))));
        per(
            "protobuf to JSON + decode",
            body.len(),
            Box::new(|| {
                let mut value = muster_proto::decode(&body).unwrap().value;
                black_box(schema::decode(facts, ty, &mut value).unwrap());
            }),
        );
    }
}
