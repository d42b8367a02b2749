//! The black-box suite: every case runs on kube-apiserver + etcd and on muster, so it states what Kubernetes really does. What rests on the store
//! runs on muster with an etcd as well.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "api/apply.rs"]
mod apply;
#[path = "api/cluster.rs"]
mod cluster;
#[path = "api/concurrency.rs"]
mod concurrency;
#[path = "api/custom.rs"]
mod custom;
#[path = "api/definitions.rs"]
mod definitions;
#[path = "api/deletion.rs"]
mod deletion;
#[path = "api/discovery.rs"]
mod discovery;
#[path = "api/encoding.rs"]
mod encoding;
#[path = "api/flags.rs"]
mod flags;
#[path = "api/garbage.rs"]
mod garbage;
#[path = "api/kinds.rs"]
mod kinds;
#[path = "api/lists.rs"]
mod lists;
#[path = "api/objects.rs"]
mod objects;
#[path = "api/watches.rs"]
mod watches;
#[path = "api/workloads.rs"]
mod workloads;

/// Modules whose cases ask for something of the store: revisions, watches, pages, compare-and-set, clean-up.
const STORED: &[&str] =
    &["apply", "concurrency", "custom", "definitions", "deletion", "garbage", "lists", "objects", "watches"];

fn main() {
    muster_tests::runner::main_with_etcd(
        [
            apply::cases(),
            cluster::cases(),
            concurrency::cases(),
            custom::cases(),
            definitions::cases(),
            deletion::cases(),
            discovery::cases(),
            encoding::cases(),
            flags::cases(),
            garbage::cases(),
            kinds::cases(),
            lists::cases(),
            objects::cases(),
            watches::cases(),
            workloads::cases(),
        ]
        .concat(),
        STORED,
    );
}

/// Path of a collection in a namespace: `configmaps`, or `leases` and `events.k8s.io` events in their groups.
pub fn collection(resource: &str, namespace: &str) -> String {
    match resource {
        "leases" => format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"),
        "newevents" => format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events"),
        core => format!("/api/v1/namespaces/{namespace}/{core}"),
    }
}

/// A config map with a value.
pub fn config_map(name: &str, value: &str) -> serde_json::Value {
    serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"value": value}})
}

pub fn revision(object: &serde_json::Value) -> u64 {
    let text = object["metadata"]["resourceVersion"].as_str().unwrap_or("");
    text.parse().unwrap_or_else(|_| panic!("no resourceVersion in {object}"))
}

pub fn names(list: &serde_json::Value) -> Vec<String> {
    let items = list["items"].as_array().unwrap_or_else(|| panic!("no items in {list}"));
    items.iter().map(|item| item["metadata"]["name"].as_str().unwrap_or("?").to_owned()).collect()
}
