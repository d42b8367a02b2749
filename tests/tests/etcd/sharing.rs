//! Two API servers on one etcd: what is done through one holds for the other.
use std::collections::HashSet;
use std::path::PathBuf;

use muster_tests::peer::{Settings, WORKER};
use muster_tests::runner::Case;
use muster_tests::{Answer, Kind, PATIENCE, Peer, Watch, cases, eventually};
use serde_json::{Value, json};

use crate::MAPS;
use crate::members::Members;

pub fn cases() -> Vec<Case> {
    cases![
        muster sharing: writes_through_one_are_seen_through_the_other,
        nobody_is_refused_for_what_a_server_learns_late,
        conflicts_are_conflicts_whichever_server_is_asked,
        definitions_made_on_one_are_served_by_the_other,
        rights_given_on_one_hold_on_the_other,
        addresses_and_ports_are_handed_out_once,
        tokens_and_secrets_open_where_the_keys_are_shared,
    ]
}

/// One etcd, two servers with the same keys.
struct Pair {
    etcd: Members,
    keys: tempfile::TempDir,
    a: Peer,
    b: Peer,
}

impl Pair {
    async fn start(more: &[&str]) -> Pair {
        let etcd = Members::start(1).await;
        let keys = tempfile::tempdir().unwrap();
        // The first makes the keys; the second is given them.
        let mut arguments = arguments(&etcd, more);
        let a = server(arguments.clone()).await;
        for (file, flag) in
            [("encryption.key", "encryption-key-file"), ("service-account.key", "service-account-signing-key-file")]
        {
            let copy = keys.path().join(file);
            std::fs::copy(a.dir.join("data").join(file), &copy).unwrap();
            arguments.push(format!("--{flag}={}", copy.display()));
        }
        let b = server(arguments).await;
        Pair { etcd, keys, a, b }
    }

    /// From one to the other, and back.
    fn ways(&self) -> [(&Peer, &Peer); 2] {
        [(&self.a, &self.b), (&self.b, &self.a)]
    }
}

fn arguments(etcd: &Members, more: &[&str]) -> Vec<String> {
    let own = ["--backend=etcd".to_owned(), format!("--etcd-servers={}", etcd.urls())];
    own.into_iter().chain(more.iter().map(|argument| (*argument).to_owned())).collect()
}

async fn server(arguments: Vec<String>) -> Peer {
    Peer::start_with(Kind::Muster, Settings { arguments, ..Settings::default() }).await.unwrap()
}

fn map(name: &str, value: usize) -> Value {
    json!({"metadata": {"name": name}, "data": {"n": value.to_string()}})
}

fn version(object: &Value) -> String {
    object["metadata"]["resourceVersion"].as_str().unwrap().to_owned()
}

async fn writes_through_one_are_seen_through_the_other(_: &Peer) {
    let pair = Pair::start(&[]).await;
    let path = format!("{MAPS}?watch=true");
    let (mut of_a, mut of_b) = (pair.a.watch(&path).await, pair.b.watch(&path).await);
    let mut expected = Vec::new();
    for n in 0..40 {
        let (one, other) = pair.ways()[n % 2];
        let name = format!("w{n}");
        let made = one.post(MAPS, map(&name, n)).await.ok(201);
        expected.push((name.clone(), version(&made)));
        // A read that asks for no particular version is as new as what anybody was told.
        let read = other.get(&format!("{MAPS}/{name}")).await.ok(200);
        assert_eq!((version(&read), &read["metadata"]["uid"]), (version(&made), &made["metadata"]["uid"]));
        let list = other.get(MAPS).await.ok(200);
        assert_eq!(list["items"].as_array().unwrap().len(), n + 1);
        assert!(version(&list).parse::<u64>().unwrap() >= version(&made).parse::<u64>().unwrap());
    }
    // Each once, in one order, on both.
    for watch in [&mut of_a, &mut of_b] {
        for (name, version_made) in &expected {
            assert_eq!(version(&watch.expect("ADDED", name).await), *version_made);
        }
    }
    // A watch begun on one goes on on the other.
    let from = expected[20].1.clone();
    let mut later = pair.b.watch(&format!("{path}&resourceVersion={from}")).await;
    for (name, _) in &expected[21..] {
        later.expect("ADDED", name).await;
    }
}

/// What a client was told by one server it may build on at the other, at once.
async fn nobody_is_refused_for_what_a_server_learns_late(_: &Peer) {
    let pair = Pair::start(&[]).await;
    for n in 0..60 {
        let (one, other) = pair.ways()[n % 2];
        let name = format!("l{n}");
        let path = format!("{MAPS}/{name}");
        let mut made = one.post(MAPS, map(&name, 0)).await.ok(201);
        made["data"]["n"] = json!("1");
        let mut changed = other.put(&path, &made).await.ok(200);
        changed["data"]["n"] = json!("2");
        let changed = one.put(&path, &changed).await.ok(200);
        // The same again is no change, but it is one where somebody else has changed it meanwhile.
        let mut back = changed.clone();
        back["metadata"].as_object_mut().unwrap().remove("resourceVersion");
        back["data"]["n"] = json!("1");
        assert_eq!(other.put(&path, &back).await.ok(200)["data"]["n"], "1");
        assert_eq!(one.get(&path).await.ok(200)["data"]["n"], "1");
        let patched = one.patch(
            &path,
            "json",
            json!([{"op": "test", "path": "/data/n", "value": "1"}, {"op": "add", "path": "/data/m", "value": "x"}]),
        );
        let patched = patched.await.ok(200);
        let only = json!({"preconditions": {"resourceVersion": version(&patched)}});
        other.delete_with(&path, only).await.ok(200);
        one.get(&path).await.fails(404, "NotFound");
        one.post(MAPS, map(&name, 3)).await.ok(201);
        other.delete(&path).await.ok(200);

        let namespace = format!("late-{n}");
        one.post("/api/v1/namespaces", json!({"metadata": {"name": namespace}})).await.ok(201);
        let within = format!("/api/v1/namespaces/{namespace}/configmaps");
        other.post(&within, map("first", 0)).await.ok(201);
        let applied =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "first"}, "data": {"k": "v"}});
        let apply = one.call("PATCH", &format!("{within}/first?fieldManager=t")).body(applied);
        apply.media("application/apply-patch+yaml").send().await.ok(200);
    }
}

async fn conflicts_are_conflicts_whichever_server_is_asked(_: &Peer) {
    let pair = Pair::start(&[]).await;
    let made = pair.a.post(MAPS, map("c", 0)).await.ok(201);
    pair.b.post(MAPS, map("c", 0)).await.fails(409, "AlreadyExists");
    let path = format!("{MAPS}/c");
    pair.b.patch(&path, "merge", json!({"data": {"n": "1"}})).await.ok(200);
    for peer in [&pair.a, &pair.b] {
        peer.put(&path, &made).await.fails(409, "Conflict");
        let only = json!({"preconditions": {"resourceVersion": version(&made)}});
        peer.delete_with(&path, only).await.fails(409, "Conflict");
    }
    // Counting up by both at once: none is lost, none happens twice.
    let (pair, path) = (&pair, &path);
    let count = |peer: &'static str| async move {
        let peer = if peer == "a" { &pair.a } else { &pair.b };
        let mut done = 0;
        while done < 30 {
            let mut object = peer.get(path).await.ok(200);
            let n: usize = object["data"]["n"].as_str().unwrap().parse().unwrap();
            object["data"]["n"] = json!((n + 1).to_string());
            match peer.put(path, &object).await {
                answer if answer.status == 409 => {}
                answer => {
                    answer.ok(200);
                    done += 1;
                }
            }
        }
    };
    tokio::join!(count("a"), count("b"), count("a"), count("b"));
    for peer in [&pair.a, &pair.b] {
        assert_eq!(peer.get(path).await.ok(200)["data"]["n"], "121");
    }
}

async fn definitions_made_on_one_are_served_by_the_other(_: &Peer) {
    let pair = Pair::start(&[]).await;
    for (n, (one, other)) in pair.ways().into_iter().enumerate() {
        let group = format!("g{n}.example.com");
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer", "default": 3}}, "default": {}}}});
        let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("widgets.{group}")},
            "spec": {"group": group, "scope": "Namespaced", "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}});
        let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        one.post(definitions, definition).await.ok(201);
        let path = format!("/apis/{group}/v1/namespaces/default/widgets");
        eventually("it is served there, too", || async { other.get(&path).await.status == 200 }).await;
        let widget = json!({"apiVersion": format!("{group}/v1"), "kind": "Widget", "metadata": {"name": "w"}});
        assert_eq!(other.post(&path, &widget).await.ok(201)["spec"]["size"], 3);
        assert_eq!(one.get(&format!("{path}/w")).await.ok(200)["spec"]["size"], 3);
        let wrong = json!({"apiVersion": format!("{group}/v1"), "kind": "Widget", "metadata": {"name": "x"}, "spec": {"size": "large"}});
        other.post(&path, wrong).await.fails(422, "Invalid");
        let groups = other.get("/apis").await.ok(200);
        assert!(groups["groups"].as_array().unwrap().iter().any(|known| known["name"] == group.as_str()), "{groups}");
        let mut watch = other.watch(&format!("{path}?watch=true")).await;
        watch.expect("ADDED", "w").await;
        // Deleting it on the other empties it and ends what was open.
        other.delete(&format!("{definitions}/widgets.{group}")).await.ok(200);
        for peer in [one, other] {
            eventually("it is gone", || async { peer.get(&path).await.status == 404 }).await;
            let definition = format!("{definitions}/widgets.{group}");
            eventually("its definition is gone", || async { peer.get(&definition).await.status == 404 }).await;
        }
    }
}

async fn rights_given_on_one_hold_on_the_other(_: &Peer) {
    let pair = Pair::start(&[]).await;
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    for (n, (one, other)) in pair.ways().into_iter().enumerate() {
        let list = || async { other.call("GET", MAPS).token(Some(WORKER)).send().await.status };
        assert_eq!(list().await, 403);
        let name = format!("worker-{n}");
        let role = json!({"metadata": {"name": name}, "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "watch"]}]});
        one.post(&format!("{rbac}/clusterroles"), role).await.ok(201);
        let binding = json!({"metadata": {"name": name}, "roleRef": {"kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "User", "name": "suite-worker"}]});
        one.post(&format!("{rbac}/clusterrolebindings"), binding).await.ok(201);
        eventually("the grant holds there", || async { list().await == 200 }).await;
        let mut watch = Watch::by(other.call("GET", &format!("{MAPS}?watch=true")).token(Some(WORKER))).await;
        one.delete(&format!("{rbac}/clusterrolebindings/{name}")).await.ok(200);
        eventually("its end holds there", || async { list().await == 403 }).await;
        // B-20: also for what is open, although nothing happens.
        let ended = tokio::time::timeout(PATIENCE, async { while watch.advance().await.is_some() {} });
        assert!(ended.await.is_ok(), "the watch goes on");
    }
}

fn service(name: &str, spec: Value) -> Value {
    let mut service = json!({"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}});
    for (key, value) in spec.as_object().unwrap() {
        service["spec"][key] = value.clone();
    }
    service
}

async fn addresses_and_ports_are_handed_out_once(_: &Peer) {
    let pair = Pair::start(&["--service-node-port-range=30000-30199"]).await;
    let services = "/api/v1/namespaces/default/services";
    let make = |n: usize| {
        let peer = if n.is_multiple_of(2) { &pair.a } else { &pair.b };
        async move { peer.post(services, service(&format!("s{n}"), json!({"type": "NodePort"}))).await.ok(201) }
    };
    let (mut addresses, mut ports) = (HashSet::new(), HashSet::new());
    // Three quarters of the ports there are, eight at a time.
    for eight in 0..19 {
        for made in futures_util::future::join_all((0..8).map(|n| make(eight * 8 + n))).await {
            let address = made["spec"]["clusterIP"].as_str().unwrap().to_owned();
            assert!(addresses.insert(address.clone()), "{address} was handed out twice");
            let port = made["spec"]["ports"][0]["nodePort"].as_u64().unwrap();
            assert!(ports.insert(port), "{port} was handed out twice");
        }
    }
    // Asked for by both at once, one gets it.
    for n in 0..20 {
        let wanted = json!({"clusterIP": format!("10.96.200.{}", n + 1)});
        let (x, y) = (service(&format!("x{n}"), wanted.clone()), service(&format!("y{n}"), wanted));
        let (x, y): (Answer, Answer) = tokio::join!(pair.a.post(services, x), pair.b.post(services, y));
        let mut codes = [x.status, y.status];
        codes.sort_unstable();
        assert_eq!(codes, [201, 422], "{} {}", x.text(), y.text());
    }
}

async fn tokens_and_secrets_open_where_the_keys_are_shared(_: &Peer) {
    let pair = Pair::start(&[]).await;
    let who = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    for (n, (one, other)) in pair.ways().into_iter().enumerate() {
        let accounts = "/api/v1/namespaces/default/serviceaccounts";
        let name = format!("bot-{n}");
        one.post(accounts, json!({"metadata": {"name": name}})).await.ok(201);
        let made = one.post(&format!("{accounts}/{name}/token"), json!({})).await.ok(201);
        let token = made["status"]["token"].as_str().unwrap();
        let ask = |peer: &'static str| {
            let peer = if (peer == "one") == (n == 0) { &pair.a } else { &pair.b };
            let call = peer.call("POST", who).body(json!({})).token(Some(token)).fresh();
            async move { call.send().await.status }
        };
        eventually("the token counts there", || async { ask("other").await == 201 }).await;
        one.delete(&format!("{accounts}/{name}")).await.ok(200);
        assert_eq!(ask("one").await, 401);
        eventually("and ends there with its account", || async { ask("other").await == 401 }).await;
        let secret = json!({"metadata": {"name": format!("s{n}")}, "stringData": {"k": "hidden words"}});
        one.post("/api/v1/namespaces/default/secrets", secret).await.ok(201);
        let read = other.get(&format!("/api/v1/namespaces/default/secrets/s{n}")).await.ok(200);
        assert_eq!(read["data"]["k"], "aGlkZGVuIHdvcmRz");
    }
    // A server with other keys would serve what it cannot open: it does not start, and says why.
    let settings = Settings { arguments: arguments(&pair.etcd, &[]), ..Settings::default() };
    let why = Peer::start_with(Kind::Muster, settings).await.err().expect("it started with another key");
    assert!(why.contains("--encryption-key-file"), "{why}");
    // One with the right key but other signing keys takes none of the others' tokens.
    let key: PathBuf = pair.keys.path().join("encryption.key");
    let more = format!("--encryption-key-file={}", key.display());
    let stranger = server(arguments(&pair.etcd, &[&more])).await;
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    pair.a.post(accounts, json!({"metadata": {"name": "bot"}})).await.ok(201);
    let made = pair.a.post(&format!("{accounts}/bot/token"), json!({})).await.ok(201);
    let token = made["status"]["token"].as_str().unwrap();
    eventually("it knows the account", || async { stranger.get(&format!("{accounts}/bot")).await.status == 200 }).await;
    let call = stranger.call("POST", who).body(json!({})).token(Some(token)).fresh();
    call.send().await.fails(401, "Unauthorized");
}
