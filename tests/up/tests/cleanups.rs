//! What could not be removed from a member that was away: listed, done when it is back, given up in writing alone.
#![allow(clippy::unwrap_used, clippy::expect_used, unused_crate_dependencies)]

use std::fs;

use fleet::{Allow, AppliedSet, Care, Cleanups, Credentials, Fleet, Owner, Policy, Removal};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};
use muster_tests_up::{Gate, Other, Up, json_lines, until};
use serde_json::{Value, json};

fn owner(name: &str) -> Owner {
    Owner { kind: "AppSet".into(), namespace: "shop".into(), name: name.into(), uid: format!("uid-{name}") }
}

fn client(kubeconfig: &str) -> Client {
    let text = fs::read_to_string(kubeconfig).unwrap();
    Credentials::from_kubeconfig(&text, None, Allow::default()).unwrap().connect().unwrap()
}

/// What an owner has on the member, before it goes away.
async fn applied(member: &Client, owner: &Owner) {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": owner.name, "namespace": "default"}, "data": {"k": "v"}});
    let set = AppliedSet::new(member.clone(), owner.clone(), Policy::default());
    set.apply(vec![serde_json::from_value(map).unwrap()]).await.unwrap();
}

async fn is_there(member: &Client, name: &str) -> bool {
    let maps: Api<ConfigMap> = Api::namespaced(member.clone(), "default");
    maps.get_opt(name).await.unwrap().is_some()
}

fn state(up: &Up) -> String {
    up.json("cluster get prod")["state"].as_str().unwrap_or_default().to_owned()
}

fn owed(up: &Up) -> Vec<(String, String)> {
    let rows = up.json("cluster cleanups prod");
    let text = |row: &Value, key: &str| row[key].as_str().unwrap().to_owned();
    rows["items"].as_array().unwrap().iter().map(|row| (text(row, "name"), text(row, "state"))).collect()
}

#[test]
fn what_is_owed_is_listed_done_when_the_member_is_back_and_given_up_only_in_writing() {
    // F-8
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let up = Up::start(&[]);
    let other = Other::start(up.folder());
    let gate = Gate::to(other.port());
    let _guard = runtime.enter();
    let member = client(&other.kubeconfig);
    let (gone, kept) = (owner("gone"), owner("kept"));
    runtime.block_on(async { tokio::join!(applied(&member, &gone), applied(&member, &kept)) });
    up.ok(&format!("cluster import prod --kubeconfig {} --wait", other.through(gate.port, up.folder())));
    assert_eq!(owed(&up), []);

    gate.shut();
    until("the member is missed", || state(&up) == "Unreachable");
    // Whoever deletes an owner puts the removal off.
    let meta = client(up.data().join("admin.kubeconfig").to_str().unwrap());
    let cleanups = Cleanups::new(meta.clone(), "muster-system");
    let nobody = Fleet::new(Care::default());
    runtime.block_on(async {
        for owner in [&gone, &kept] {
            let removal = cleanups.remove(&nobody, "prod", owner, Policy::default()).await.unwrap();
            assert_eq!(removal, Removal::PutOff);
        }
    });
    assert_eq!(owed(&up), [("gone".into(), "Owed".into()), ("kept".into(), "Owed".into())]);
    let table = up.ok("cluster cleanups");
    assert!(table.contains(&gone.label()) && table.contains("AppSet shop/gone  Owed"), "{table}");
    let (_, _, said) = up.command(&["cluster", "cleanups"]);
    assert!(said.contains("when the cluster answers again") && said.contains("cleanups abandon CLUSTER ID"), "{said}");
    assert_eq!(up.ok("cluster cleanups other -o name"), "");

    // Given up by name of the member and the owner, with a reason, which is written down with who it was.
    let id = kept.label();
    let (code, _, err) = up.command(&["cluster", "cleanups", "abandon", "prod", &id, "--yes"]);
    assert!(code == 2 && err.contains("--reason"), "{code} {err}");
    let (code, _, err) = up.command(&["cluster", "cleanups", "abandon", "prod", &id, "--reason", "it stays"]);
    assert!(code == 2 && err.contains("--yes"), "{code} {err}");
    let (code, _, err) = up.command(&["cluster", "cleanups", "abandon", "prod", "feed", "--reason", "x", "--yes"]);
    assert_eq!(code, 6, "{err}");
    let abandon = ["cluster", "cleanups", "abandon", "prod", &id, "--reason", "shop keeps it", "--yes"];
    let (code, said, err) = up.command(&abandon);
    assert!(code == 0 && said.contains("given up"), "{said}{err}");
    assert_eq!(up.command(&abandon).0, 7, "once is enough");
    assert_eq!(owed(&up), [("gone".into(), "Owed".into()), ("kept".into(), "GivenUp".into())]);
    let table = up.ok("cluster cleanups");
    assert!(table.contains(" ago by system:muster:cli: shop keeps it"), "{table}");
    let (code, row, err) = up.command(&["cluster", "cleanups", "prod", "--filter", "state eq GivenUp", "-o", "json"]);
    assert_eq!(code, 0, "{err}");
    let row: Value = serde_json::from_str(&row).unwrap();
    let row = row["items"][0]["abandoned"].as_str().unwrap().to_owned();
    assert!(row.contains("system:muster:cli") && row.ends_with(": shop keeps it"), "{row}");
    let events: Api<k8s_openapi::api::core::v1::Event> = Api::namespaced(meta, "muster-system");
    let events = runtime.block_on(events.list(&Default::default())).unwrap();
    let told = events.iter().find(|event| event.reason.as_deref() == Some("CleanupAbandoned")).expect("no event");
    let message = told.message.as_deref().unwrap_or_default();
    assert!(message.contains("AppSet shop/kept from prod: shop keeps it"), "{message}");
    let log = || fs::read_to_string(up.data().join("audit/audit.log")).unwrap();
    until("it is in the audit log", || {
        json_lines(&log()).iter().any(|line| {
            line["verb"] == "abandon" && line["cluster"] == "prod" && line["name"] == *id && line["code"] == 200
        })
    });

    gate.open();
    until("the member is back", || state(&up) == "Running");
    until("what was owed is done", || owed(&up) == [("kept".to_owned(), "GivenUp".to_owned())]);
    runtime.block_on(async {
        assert!(!is_there(&member, "gone").await, "it was to be removed");
        assert!(is_there(&member, "kept").await, "it was given up");
    });
    // However often it was tried, that it is away is said by who looks after it alone, with its name.
    let said = up.log();
    let lost = said.lines().find(|line| line.contains("to=Unreachable")).expect("it is not said");
    assert!(lost.contains("prod") && !said.contains("ERROR"), "{said}");
}
