//! `RedisMigration` between two real servers.

use kube::api::{Patch, PatchParams, PostParams};
use muster_tests::{Peer, cases, runner::Case};
use reconcilers::redismigration::{RedisMigration, RedisMigrationSpec};
use runtime::phase::{CANCEL, PhaseStatus};
use serde_json::{Value, json};

use crate::{
    redis::Redis,
    stage::{Stage, annotated, reasons, until},
};

pub fn cases() -> Vec<Case> {
    cases![
        migrations: every_type_arrives_with_its_time_to_live,
        killed_servers_and_a_killed_manager_do_not_lose_or_spoil_anything,
        a_precheck_that_cannot_pass_ends_in_prefailed_with_the_reason,
        a_server_that_nobody_names_is_waited_for_and_then_told,
        keys_that_are_there_already_are_treated_as_the_spec_says,
        a_pause_holds_and_a_cancel_ends_it,
        every_difference_of_every_type_is_seen,
        tls_and_users_are_spoken,
        a_migration_that_is_deleted_stops,
    ]
}

const PASSWORD: &str = "pa55-w0rd-of-the-source";

impl Stage {
    async fn migrate(&self, name: &str, spec: Value) {
        let spec: RedisMigrationSpec = serde_json::from_value(spec).unwrap();
        self.api().create(&PostParams::default(), &RedisMigration::new(name, spec)).await.unwrap();
    }

    async fn status(&self, name: &str) -> PhaseStatus {
        let api = self.api::<RedisMigration>();
        // The API itself is up all the time, but a busy machine may keep a request waiting.
        api.get(name).await.unwrap().status.unwrap_or_default()
    }

    /// Waits for the end; says the phase and the reason for it.
    async fn end(&self, name: &str, limit: u64) -> (String, String, PhaseStatus) {
        let over = |status: &PhaseStatus| {
            status.phase.as_deref().is_some_and(|phase| ["Succeeded", "PreFailed", "Failed"].contains(&phase))
        };
        let status = until(limit, name, || self.status(name), over).await;
        let last = status.history.last().unwrap().clone();
        (last.phase, last.reason, status)
    }
}

async fn every_type_arrives_with_its_time_to_live(peer: &Peer) {
    let (source, dest) = (Redis::start(Some(PASSWORD), &[]), Redis::start(None, &[]));
    source.fill(200);
    let stage = Stage::new(peer).await;
    stage.secret("ali-123", &[("address", &source.address()), ("password", PASSWORD)]).await;
    stage.secret("tx-123", &[("address", &dest.address())]).await;
    let manager = stage.manager(&Value::Null);
    stage.migrate("rmtest", json!({"source": "ali-123", "dest": "tx-123"})).await;
    let (phase, reason, status) = stage.end("rmtest", 60).await;
    assert_eq!((phase.as_str(), reason.as_str()), ("Succeeded", "Done"), "{status:#?}");
    let visited: Vec<_> = status.history.iter().map(|visit| visit.phase.as_str()).collect();
    assert_eq!(visited, ["Pending", "Precheck", "Migrate", "Succeeded"]);
    assert_eq!(source.digest(), dest.digest());
    assert_eq!(source.count(), dest.count());
    let ttl: i64 = dest.ask(&["PTTL", "ttl:7"]).parse().unwrap();
    assert!((3_500_000..=3_600_007).contains(&ttl), "{ttl}");
    assert_eq!(dest.ask(&["PTTL", "string:7"]), "-1");
    let copy = &status.state["Migrate"].steps["copy"];
    assert!(copy.done && copy.data["done"] == source.count(), "{copy:?}");
    assert_eq!(status.state["Migrate"].steps["verify"].data["done"], source.count());
    until(
        10,
        "events",
        || reasons(&stage, "rmtest"),
        |seen| ["Pending", "Precheck", "Migrate", "Succeeded"].iter().all(|reason| seen.iter().any(|r| r == reason)),
    )
    .await;
    manager.stop().await;
}

async fn killed_servers_and_a_killed_manager_do_not_lose_or_spoil_anything(peer: &Peer) {
    let (mut source, mut dest) = (Redis::start(None, &[]), Redis::start(None, &["--appendfsync", "no"]));
    source.fill(50);
    source.fill_many(60_000);
    let stage = Stage::new(peer).await;
    stage.secret("a", &[("address", &source.address())]).await;
    stage.secret("b", &[("address", &dest.address())]).await;
    let manager = stage.manager(&Value::Null);
    stage.migrate("long", json!({"source": "a", "dest": "b", "concurrency": 1})).await;
    let arrived =
        async |count: u64, dest: &Redis| until(60, "keys at dest", async || dest.count(), |n| *n >= count).await;
    arrived(1_000, &dest).await;
    manager.crash().await;
    let before = dest.count();
    let manager = stage.manager(&Value::Null);
    if before < 60_000 {
        arrived(before + 1, &dest).await;
    }
    source.kill();
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    source.launch();
    let before = dest.count();
    until(
        30,
        "goes on",
        async || stage.status("long").await,
        |status| status.phase.as_deref() == Some("Succeeded") || status.attempts == 0 || dest.count() > before,
    )
    .await;
    dest.kill();
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    dest.launch();
    manager.crash().await;
    let manager = stage.manager(&Value::Null);
    let (phase, reason, status) = stage.end("long", 240).await;
    assert_eq!((phase.as_str(), reason.as_str()), ("Succeeded", "Done"), "{status:#?}");
    assert_eq!((source.digest(), source.count()), (dest.digest(), dest.count()));
    let verified = &status.state["Migrate"].steps["verify"].data;
    assert!(verified["done"].as_u64().unwrap() >= source.count(), "{verified}");
    manager.stop().await;
}

async fn a_precheck_that_cannot_pass_ends_in_prefailed_with_the_reason(peer: &Peer) {
    let source = Redis::start(Some(PASSWORD), &[]);
    source.fill_many(20_000);
    let small = Redis::start(None, &["--maxmemory", "2mb"]);
    let replica = Redis::start(None, &["--replicaof", "127.0.0.1 1"]);
    let stage = Stage::new(peer).await;
    stage.secret("good", &[("address", &source.address()), ("password", PASSWORD)]).await;
    stage.secret("wrong", &[("address", &source.address()), ("password", "wr0ng-s3cret")]).await;
    stage.secret("open", &[("address", &source.address())]).await;
    stage.secret("small", &[("address", &small.address())]).await;
    stage.secret("replica", &[("address", &replica.address())]).await;
    stage.secret("missing", &[("address", "127.0.0.1:1")]).await;
    stage.secret("odd", &[("address", "not an address")]).await;
    let manager = stage.manager(&Value::Null);
    let table = [
        ("wrong", "small", "SourceAuthenticationFailed"),
        ("open", "small", "SourceAuthenticationFailed"),
        ("missing", "small", "SourceUnreachable"),
        ("good", "missing", "DestUnreachable"),
        ("good", "small", "DestNotEnoughMemory"),
        ("good", "replica", "DestReadOnly"),
        ("good", "odd", "DestMisconfigured"),
        ("good", "good", "SameDatabase"),
    ];
    for (source, dest, _) in table {
        stage.migrate(&format!("{source}-{dest}"), json!({"source": source, "dest": dest})).await;
    }
    for (source, dest, expected) in table {
        let name = format!("{source}-{dest}");
        let (phase, reason, status) = stage.end(&name, 60).await;
        assert_eq!((phase.as_str(), reason.as_str()), ("PreFailed", expected), "{name}: {status:#?}");
        assert!(status.message.is_some_and(|message| message.len() > 20));
    }
    assert_eq!(small.count(), 0, "nothing is copied before the checks have passed");
    let events = stage.api::<k8s_openapi::api::core::v1::Event>().list(&Default::default()).await.unwrap();
    let objects = stage.api::<RedisMigration>().list(&Default::default()).await.unwrap();
    let seen = serde_json::to_string(&(events.items, objects.items)).unwrap();
    assert!(!seen.contains(PASSWORD) && !seen.contains("wr0ng-s3cret"), "a password is shown");
    manager.stop().await;
}

/// A Secret that is missing may come within the minute that Pending has; then the work begins, else it ends with the reason.
async fn a_server_that_nobody_names_is_waited_for_and_then_told(peer: &Peer) {
    let (source, dest) = (Redis::start(None, &[]), Redis::start(None, &[]));
    source.fill(5);
    let stage = Stage::new(peer).await;
    stage.secret("here", &[("address", &source.address())]).await;
    let manager = stage.manager(&Value::Null);
    let table = [("absent", "here", "spec.source"), ("here", "nowhere", "spec.dest")];
    for (source, dest, _) in table {
        stage.migrate(&format!("{source}-{dest}"), json!({"source": source, "dest": dest})).await;
    }
    stage.migrate("late", json!({"source": "here", "dest": "coming"})).await;
    let told = |status: &PhaseStatus| status.message.as_deref().is_some_and(|message| message.contains("coming"));
    let status = until(20, "told", || stage.status("late"), told).await;
    assert_eq!(status.phase.as_deref(), Some("Pending"), "{status:#?}");
    stage.secret("coming", &[("address", &dest.address())]).await;
    assert_eq!(stage.end("late", 60).await.0, "Succeeded");
    assert_eq!(source.digest(), dest.digest());
    for (source, dest, field) in table {
        let name = format!("{source}-{dest}");
        let (phase, reason, status) = stage.end(&name, 100).await;
        assert_eq!((phase.as_str(), reason.as_str()), ("PreFailed", "DeadlineExceeded"), "{name}: {status:#?}");
        let message = status.message.unwrap();
        let missing = if source == "absent" { source } else { dest };
        for word in [field, missing, "does not exist", "create it"] {
            assert!(message.contains(word), "{word} is not in {message}");
        }
        let failed = status.conditions.iter().find(|condition| condition.type_ == "Succeeded").unwrap();
        assert!(failed.status == "False" && failed.message.contains(missing), "{failed:?}");
    }
    manager.stop().await;
}

async fn keys_that_are_there_already_are_treated_as_the_spec_says(peer: &Peer) {
    let source = Redis::start(None, &[]);
    source.fill(20);
    let stage = Stage::new(peer).await;
    stage.secret("source", &[("address", &source.address())]).await;
    let manager = stage.manager(&Value::Null);
    for (policy, expected, kept) in [
        ("Never", ("Failed", "KeyExists"), "mine"),
        ("Keep", ("Succeeded", "Done"), "mine"),
        ("Always", ("Succeeded", "Done"), ""),
    ] {
        let dest = Redis::start(None, &[]);
        dest.ask(&["SET", "string:7", "mine"]);
        let name = policy.to_lowercase();
        stage.secret(&name, &[("address", &dest.address())]).await;
        stage.migrate(&name, json!({"source": "source", "dest": name, "overwrite": policy})).await;
        let (phase, reason, status) = stage.end(&name, 60).await;
        assert_eq!((phase.as_str(), reason.as_str()), expected, "{status:#?}");
        assert_eq!(dest.ask(&["GET", "string:7"]) == "mine", kept == "mine", "{policy}");
        if policy == "Never" {
            assert!(status.message.unwrap().contains("string:7"));
        }
    }
    // Only what the pattern says, and into another database.
    let dest = Redis::start(None, &[]);
    stage.secret("other", &[("address", &dest.address()), ("db", "3")]).await;
    stage.migrate("some", json!({"source": "source", "dest": "other", "keyPattern": "hash:1*"})).await;
    assert_eq!(stage.end("some", 60).await.0, "Succeeded");
    assert_eq!((dest.count(), dest.ask(&["-n", "3", "DBSIZE"])), (0, "11".to_owned()));
    manager.stop().await;
}

async fn a_pause_holds_and_a_cancel_ends_it(peer: &Peer) {
    let (source, dest) = (Redis::start(None, &[]), Redis::start(None, &[]));
    source.fill_many(20_000);
    let stage = Stage::new(peer).await;
    stage.secret("a", &[("address", &source.address())]).await;
    stage.secret("b", &[("address", &dest.address())]).await;
    let manager = stage.manager(&Value::Null);
    stage.migrate("paused", json!({"source": "a", "dest": "b", "paused": true})).await;
    until(20, "paused", || stage.status("paused"), |status| status.paused_since.is_some()).await;
    assert_eq!(dest.count(), 0);
    let api = stage.api::<RedisMigration>();
    let spec = |field: &str, value: bool| Patch::Merge(json!({"spec": {field: value}}));
    api.patch("paused", &PatchParams::default(), &spec("paused", false)).await.unwrap();
    assert_eq!(stage.end("paused", 60).await.0, "Succeeded");
    assert_eq!(source.digest(), dest.digest());

    stage.migrate("cancelled", json!({"source": "a", "dest": "b", "overwrite": "Always", "paused": true})).await;
    until(20, "paused", || stage.status("cancelled"), |status| status.paused_since.is_some()).await;
    api.patch("cancelled", &PatchParams::default(), &annotated(CANCEL, Some("true"))).await.unwrap();
    let (phase, reason, _) = stage.end("cancelled", 30).await;
    assert_eq!((phase.as_str(), reason.as_str()), ("PreFailed", "Cancelled"));
    until(10, "events", || reasons(&stage, "cancelled"), |seen| seen.iter().any(|reason| reason == "Cancelled")).await;
    manager.stop().await;
}

async fn every_difference_of_every_type_is_seen(peer: &Peer) {
    let (source, dest) = (Redis::start(None, &[]), Redis::start(None, &[]));
    source.fill(5);
    let stage = Stage::new(peer).await;
    stage.secret("a", &[("address", &source.address())]).await;
    stage.secret("b", &[("address", &dest.address())]).await;
    let manager = stage.manager(&Value::Null);
    stage.migrate("first", json!({"source": "a", "dest": "b"})).await;
    assert_eq!(stage.end("first", 60).await.0, "Succeeded");
    // Everything is there already, and equal: large sets and hashes although they are dumped in another order.
    stage.migrate("again", json!({"source": "a", "dest": "b"})).await;
    let (phase, _, status) = stage.end("again", 60).await;
    assert_eq!(phase, "Succeeded", "{status:#?}");
    let changes: [(&str, &[&str]); 8] = [
        ("string:1", &["SET", "string:1", "other"]),
        ("large:hash", &["HSET", "large:hash", "field77", "other"]),
        ("large:list", &["LSET", "large:list", "2500", "other"]),
        ("large:zset", &["ZADD", "large:zset", "7.5", "member77"]),
        ("stream", &["XGROUP", "SETID", "stream", "readers", "30-1"]),
        ("list:1", &["RPUSH", "list:1", "more"]),
        ("zset:1", &["DEL", "zset:1", "hash:1"]),
        (
            "large:set",
            &["EVAL", "redis.call('SREM', 'large:set', 'member7'); redis.call('SADD', 'large:set', 'x')", "0"],
        ),
    ];
    for (number, (key, change)) in changes.into_iter().enumerate() {
        dest.ask(change);
        if key == "zset:1" {
            dest.ask(&["SET", "zset:1", "a string"]); // another type
        }
        let name = format!("differs-{number}");
        stage.migrate(&name, json!({"source": "a", "dest": "b", "keyPattern": key})).await;
    }
    for (number, (key, _)) in changes.into_iter().enumerate() {
        let (phase, reason, status) = stage.end(&format!("differs-{number}"), 60).await;
        assert_eq!((phase.as_str(), reason.as_str()), ("Failed", "KeyExists"), "{key}: {status:#?}");
        assert!(status.message.unwrap().contains(key));
    }
    stage.migrate("mended", json!({"source": "a", "dest": "b", "overwrite": "Always"})).await;
    assert_eq!(stage.end("mended", 60).await.0, "Succeeded");
    assert_eq!(source.digest(), dest.digest());
    manager.stop().await;
}

async fn tls_and_users_are_spoken(peer: &Peer) {
    let (source, dest) = (Redis::start(None, &[]), Redis::start_tls("mover", "m0ver-s3cret"));
    source.fill(10);
    let stage = Stage::new(peer).await;
    stage.secret("a", &[("address", &source.address())]).await;
    let address = format!("localhost:{}", dest.port);
    let ca = dest.ca.clone().unwrap();
    let secure = [("address", address.as_str()), ("tls", "true"), ("username", "mover")];
    stage.secret("b", &[&secure[..], &[("ca.crt", &ca), ("password", "m0ver-s3cret")]].concat()).await;
    stage.secret("plain", &[("address", &address)]).await;
    let manager = stage.manager(&Value::Null);
    stage.migrate("secure", json!({"source": "a", "dest": "b"})).await;
    stage.migrate("plain", json!({"source": "a", "dest": "plain"})).await;
    let (phase, _, status) = stage.end("secure", 60).await;
    assert_eq!(phase, "Succeeded", "{status:#?}");
    assert_eq!(source.digest(), dest.digest());
    assert_eq!(stage.end("plain", 60).await.0, "PreFailed");
    manager.stop().await;
}

async fn a_migration_that_is_deleted_stops(peer: &Peer) {
    let (source, dest) = (Redis::start(None, &[]), Redis::start(None, &[]));
    source.fill_many(300_000);
    let stage = Stage::new(peer).await;
    stage.secret("a", &[("address", &source.address())]).await;
    stage.secret("b", &[("address", &dest.address())]).await;
    let manager = stage.manager(&Value::Null);
    stage.migrate("gone", json!({"source": "a", "dest": "b", "concurrency": 1})).await;
    until(60, "keys at dest", async || dest.count(), |count| *count > 0).await;
    stage.api::<RedisMigration>().delete("gone", &Default::default()).await.unwrap();
    let mut last = dest.count();
    for _ in 0..30 {
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        let now = dest.count();
        if now == last {
            break;
        }
        last = now;
    }
    assert!(last < 300_000, "it went on to the end");
    assert!(stage.api::<RedisMigration>().get_opt("gone").await.unwrap().is_none(), "it came back");
    manager.stop().await;
}
