//! Services of several servers on one store.

use super::ServiceRange;
use crate::objects::Part;
use crate::ownership::By;
use crate::{Api, Options, describe, namespaces};
use auth::{Authenticator, Authorizer};
use meta::{Object, Status};
use serde_json::{Value, json};
use std::collections::HashSet;
use store::Store;

fn server(store: &Store, range: &str) -> Api {
    let mut options = Options::new(Authenticator::new(auth::Options::default()).unwrap(), Authorizer::new());
    options.service_range = range.parse::<ServiceRange>().unwrap();
    options.service_node_ports = 30000..=30063;
    Api::new(store.clone(), options)
}

async fn servers(range: &str) -> [Api; 2] {
    let store = Store::memory(store::Options { describe: describe(), tick: None, ..store::Options::default() });
    let servers = [server(&store, range), server(&store, range)];
    namespaces::ensure_system(&servers[0].inner).await.unwrap();
    servers
}

async fn create(api: &Api, name: &str, spec: Value) -> Result<Object, Status> {
    let kind = api.inner.kind("", "v1", "services").unwrap();
    let object = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec});
    let object = Object::from_value(object).unwrap();
    let stored = api.inner.create(&kind, "default", object, &By::SERVER).await?;
    api.inner.decode_stored(&kind, &stored.value, stored.revision)
}

async fn delete(api: &Api, name: &str) {
    let kind = api.inner.kind("", "v1", "services").unwrap();
    api.inner.delete(&kind, "default", name, &Default::default()).await.unwrap();
}

fn node_port() -> Value {
    json!({"type": "NodePort", "ports": [{"port": 80}]})
}

fn message(outcome: Result<Object, Status>) -> String {
    outcome.unwrap_err().message
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_of_one_store_never_give_an_address_or_a_port_twice() {
    // Few enough that they meet: 30 addresses, of which the services take 26, and 64 ports.
    let servers = servers("10.0.0.0/27").await;
    let makers = servers.iter().enumerate().map(|(n, api)| {
        let api = api.clone();
        tokio::spawn(async move {
            let mut made = Vec::new();
            for i in 0..13 {
                made.push(create(&api, &format!("s-{n}-{i}"), node_port()).await.unwrap());
            }
            made
        })
    });
    let mut made = Vec::new();
    for maker in makers.collect::<Vec<_>>() {
        made.extend(maker.await.unwrap());
    }
    let addresses: HashSet<&str> = made.iter().map(|s| s.0["spec"]["clusterIP"].as_str().unwrap()).collect();
    let ports: HashSet<i64> = made.iter().map(|s| s.0["spec"]["ports"][0]["nodePort"].as_i64().unwrap()).collect();
    assert_eq!((addresses.len(), ports.len()), (26, 26));
}

#[tokio::test]
async fn what_a_service_gives_back_is_free_and_what_it_holds_is_not() {
    let [a, b] = servers("10.0.0.0/24").await;
    let asked = || json!({"type": "NodePort", "clusterIP": "10.0.0.9", "ports": [{"port": 80, "nodePort": 30007}]});
    create(&a, "one", asked()).await.unwrap();
    let why = message(create(&b, "two", asked()).await);
    assert!(why.contains("failed to allocate IP 10.0.0.9: provided IP is already allocated"), "{why}");
    let other = json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30007}]});
    let why = message(create(&b, "two", other.clone()).await);
    assert!(why.contains("Invalid value: 30007: provided port is already allocated"), "{why}");

    // A service that becomes internal gives its port back, but keeps its address.
    let kind = a.inner.kind("", "v1", "services").unwrap();
    let internal = a.inner.update(&kind, "default", "one", Part::Main, &By::SERVER, |current| {
        let mut desired = current.clone();
        let address = desired.0["spec"]["clusterIP"].clone();
        desired.0.insert("spec".into(), json!({"type": "ClusterIP", "clusterIP": address, "ports": [{"port": 80}]}));
        Ok(desired)
    });
    internal.await.unwrap();
    create(&b, "two", other).await.unwrap();
    delete(&b, "two").await;
    delete(&b, "one").await;
    create(&b, "three", asked()).await.unwrap();
}

#[tokio::test]
async fn the_index_survives_a_history_that_was_forgotten() {
    let [a, b] = servers("10.0.0.0/30").await;
    // Two addresses can be given out, the first of which is nobody's yet.
    let plain = || json!({"ports": [{"port": 80}]});
    create(&a, "one", plain()).await.unwrap();
    assert!(message(create(&a, "two", plain()).await).contains("range is full"));
    delete(&b, "one").await;
    a.inner.store.compact(a.inner.store.revision()).await.unwrap();
    create(&a, "two", plain()).await.unwrap();
    assert!(message(create(&b, "three", plain()).await).contains("range is full"));
}
