//! The status as it is stored: patches, schema, and what somebody else broke.

use proptest::prelude::*;
use schemars::SchemaGenerator;
use serde::Deserialize;
use serde_json::{Value, json};

use super::world::{MemoryJournal, Told, Usual, World, apply_patch, clock, once, quick};
use crate::{
    Next,
    phase::{Change, Machine, PhaseStatus, Plan, Step, status::merge_patch},
};

fn machine() -> Machine<Usual, World> {
    use Usual::*;
    let done = || Plan::handler(quick(|_, _| Ok(Step::Done)));
    Machine::builder("Demo")
        .success(Pending, Precheck)
        .success(Precheck, Running)
        .success(Running, Succeeded)
        .failure(Pending, PreFailed)
        .failure(Precheck, PreFailed)
        .failure(Running, Failed)
        .handler(Pending, done())
        .handler(Precheck, done())
        .handler(Running, done())
        .build()
        .unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_status_that_cannot_be_read_is_marked_once_and_left_alone() {
    // KC-6
    let broken = [
        json!({"phase": "Dancing"}),
        json!({"phase": 7}),
        json!({"phase": "Running", "state": {"Running": {"done": "maybe"}}}),
        json!({"phase": "Running", "history": "long"}),
        json!({"phase": "Running", "deadline": "tomorrow"}),
    ];
    for status in broken {
        let (journal, told, clock) = (MemoryJournal::default(), Told::default(), clock());
        journal.store.lock().unwrap().status = status.clone();
        for _ in 0..3 {
            let next = once(&machine(), &World::default(), &journal, &told, &clock).await.unwrap();
            assert_eq!(next, Next::Wait, "{status}");
        }
        let told = told.0.lock().unwrap();
        assert!(
            matches!(told.as_slice(), [Change::Unreadable(why)] if why.reason == "StatusUnreadable"),
            "{status}: {told:?}"
        );
        let stored = journal.store.lock().unwrap().status.clone();
        let condition = &stored["conditions"][0];
        assert_eq!((&condition["type"], &condition["status"]), (&json!("Stalled"), &json!("True")), "{status}");
        for (name, value) in status.as_object().unwrap() {
            assert_eq!(&stored[name], value, "{name} was overwritten");
        }
        assert_eq!(journal.store.lock().unwrap().writes, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_mended_status_goes_on_from_where_it_says() {
    // KC-6
    let (journal, clock) = (MemoryJournal::default(), clock());
    journal.store.lock().unwrap().status = json!({"phase": "Dancing"});
    once(&machine(), &World::default(), &journal, &(), &clock).await.unwrap();
    journal.store.lock().unwrap().status["phase"] = json!("Running");
    once(&machine(), &World::default(), &journal, &(), &clock).await.unwrap();
    let status = journal.status();
    assert_eq!(status.phase.as_deref(), Some("Succeeded"));
    assert!(status.conditions.iter().all(|condition| condition.type_ != "Stalled"));
}

#[test]
fn the_status_has_a_schema_a_crd_can_carry() {
    // KC-4
    let schema = SchemaGenerator::default().into_root_schema_for::<PhaseStatus>().to_value();
    let state = &schema["properties"]["state"];
    assert_eq!(state["x-kubernetes-preserve-unknown-fields"], true, "{schema:#}");
    assert_eq!(state["type"], "object");
    assert_eq!(schema.get("required"), None, "a status grows field by field");
    assert!(schema["properties"].get("unreadable").is_none());
    assert_eq!(schema["properties"]["conditions"]["x-kubernetes-list-map-keys"], json!(["type"]));
}

#[derive(Deserialize, serde::Serialize)]
struct Wider {
    extra: String,
    #[serde(flatten)]
    phases: PhaseStatus,
}

#[test]
fn a_kind_can_flatten_the_status_into_its_own() {
    // KC-6
    let stored = json!({"extra": "x", "phase": "Running", "state": {"Running": {"steps": {"a": {"done": true}}}}});
    let wider = Wider::deserialize(&stored).unwrap();
    assert_eq!(wider.extra, "x");
    assert!(wider.phases.state["Running"].steps["a"].done);
    assert_eq!(serde_json::to_value(&wider).unwrap(), stored);
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        any::<i8>().prop_map(Value::from),
        "[a-c]{0,2}".prop_map(Value::from)
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map("[a-d]", inner, 0..4).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn a_merge_patch_makes_the_new_of_the_old(old in json_value(), new in json_value()) {
        // KC-6
        let mut made = old.clone();
        match merge_patch(&old, &new) {
            Some(patch) => apply_patch(&mut made, &patch),
            None => prop_assert_eq!(&old, &new),
        }
        prop_assert_eq!(made, new);
    }
}
