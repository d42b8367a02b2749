//! The laws, for any objects.

use super::*;
use proptest::prelude::*;

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![Just(json!(1)), Just(json!(1.5)), Just(json!("x")), Just(json!(true)), Just(json!("<y>"))]
}

fn deduced() -> impl Strategy<Value = Value> {
    scalar().prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map("[a-c]", inner, 0..3).prop_map(|m| m.into_iter().collect()),
        ]
    })
}

fn strings() -> impl Strategy<Value = Value> {
    prop::collection::btree_map("[a-c]", "[xy]", 0..3).prop_map(|m| m.into_iter().collect())
}

fn ports() -> impl Strategy<Value = Value> {
    let port = (1..4i64, prop::option::of("TCP|UDP"), prop::option::of("[mn]"));
    prop::collection::vec(port, 0..4).prop_map(|ports| {
        let mut seen = std::collections::BTreeSet::new();
        let mut out = Vec::new();
        for (number, protocol, note) in ports {
            if seen.insert((number, protocol.clone().unwrap_or_else(|| "TCP".into()))) {
                let mut port = json!({"number": number});
                if let Some(protocol) = protocol {
                    port["protocol"] = protocol.into();
                }
                if let Some(note) = note {
                    port["note"] = note.into();
                }
                out.push(port);
            }
        }
        out.into()
    })
}

fn maybe(strategy: impl Strategy<Value = Value>) -> impl Strategy<Value = Option<Value>> {
    prop::option::of(strategy)
}

/// Any object of the type; optionally without containers that are empty, which have no owner by themselves.
fn any_object() -> impl Strategy<Value = Value> {
    let finalizers = prop::collection::btree_set("[a-c]", 0..3).prop_map(|s| s.into_iter().collect::<Value>());
    let spec = (
        maybe((1..3i64).prop_map(Value::from)),
        maybe(strings()),
        maybe(prop::collection::vec("[ab]", 0..2).prop_map(Value::from)),
        maybe(ports()),
        maybe(deduced()),
    );
    (maybe(strings()), maybe(finalizers), spec).prop_map(|(labels, finalizers, spec)| {
        let mut out = json!({});
        let mut put = |outer: &str, name: &str, value: Option<Value>| {
            if let Some(value) = value {
                out[outer][name] = value;
            }
        };
        put("metadata", "labels", labels);
        put("metadata", "finalizers", finalizers);
        put("spec", "replicas", spec.0);
        put("spec", "selector", spec.1);
        put("spec", "command", spec.2);
        put("spec", "ports", spec.3);
        put("spec", "free", spec.4);
        out
    })
}

proptest! {
    #[test]
    fn applying_twice_changes_nothing(live in any_object(), config in any_object()) {
        let mut store = Store::new(live);
        store.force("a", &config);
        let (object, managers) = (store.value(), store.managers.clone());
        store.apply("a", &config).unwrap();
        prop_assert_eq!(store.value(), object);
        prop_assert_eq!(&store.managers, &managers);
    }

    #[test]
    fn what_is_applied_is_there(live in any_object(), config in any_object()) {
        let mut store = Store::new(live);
        store.force("a", &config);
        let config = fields(config);
        let wanted = fields_of(&config, node()).unwrap().leaves();
        let object = store.object.clone();
        let changes = compare(&config, &object, node()).unwrap();
        prop_assert!(wanted.intersection(&changes.modified).is_empty());
        prop_assert!(wanted.intersection(&changes.removed).is_empty());
    }

    #[test]
    fn an_apply_never_drops_what_another_owns(
        live in any_object(), first in any_object(), second in any_object(), other in any_object(),
    ) {
        let mut store = Store::new(live);
        store.force("a", &first);
        store.force("b", &other);
        let owned = store.set_of("b");
        let before = store.object.clone();
        if store.apply("a", &second).is_err() {
            return Ok(());
        }
        let object = store.object.clone();
        let changes = compare(&before, &object, node()).unwrap();
        // Where a container becomes a scalar, what was in it is gone; only the container's owner is asked.
        let below = owned.clone().recursive_difference(&changes.modified);
        if below != owned.clone().difference(&changes.modified) {
            return Ok(());
        }
        prop_assert!(owned.intersection(&changes.removed).is_empty(), "{owned:?} {changes:?}");
        prop_assert!(owned.intersection(&changes.modified).is_empty());
        prop_assert_eq!(store.set_of("b"), owned);
    }

    #[test]
    fn intents_that_do_not_overlap_commute(a in any_object(), b in any_object()) {
        let (left, right) = (fields(a.clone()), fields(b.clone()));
        let overlap = fields_of(&left, node()).unwrap().intersection(&fields_of(&right, node()).unwrap());
        // Neither values nor the forms of containers may meet.
        let forms = compare(&left, &right, node()).unwrap().modified;
        if !overlap.is_empty() || !forms.is_empty() {
            return Ok(());
        }
        let run = |order: [(&str, &Value); 2]| {
            let mut store = Store { managers: json!([]), ..Store::default() };
            for (name, config) in order {
                store.apply(name, config).unwrap();
            }
            // The order of list items is that of arrival.
            (sorted(store.value()), store.owned("a"), store.owned("b"))
        };
        prop_assert_eq!(run([("a", &a), ("b", &b)]), run([("b", &b), ("a", &a)]));
    }

    #[test]
    fn applying_nothing_after_all_leaves_what_was_there(live in any_object(), config in any_object()) {
        // Containers with nothing in them are nobody's, and go with their surroundings.
        let live = filled(live).unwrap_or_else(|| json!({}));
        let mut store = Store::new(live.clone());
        if store.apply("a", &config).is_err() {
            return Ok(());
        }
        store.apply("a", &json!({})).unwrap();
        prop_assert_eq!(store.owned("a"), Value::Null);
        let after = store.object.clone();
        let live = fields(live);
        let changes = compare(&live, &after, node()).unwrap();
        prop_assert!(changes.removed.is_empty() && changes.modified.is_empty(), "{:?}", after);
    }

    #[test]
    fn what_an_update_changes_is_the_updaters(old in any_object(), new in any_object()) {
        let mut store = Store::new(old.clone());
        store.update("u", new.clone());
        let (old, new) = (fields(old), fields(new));
        let changes = compare(&old, &new, node()).unwrap();
        let mut taken = changes.modified.clone().union(changes.added.clone());
        let mut metadata = FieldSet::default();
        metadata.insert(&[Element::field("metadata")]);
        taken = taken.difference(&metadata);
        prop_assert_eq!(store.set_of("u"), taken);
        let creator = store.set_of("creator");
        for lost in [&changes.modified, &changes.added, &changes.removed] {
            prop_assert!(creator.intersection(lost).is_empty());
        }
    }

    #[test]
    fn fields_survive_encoding(object in any_object(), other in any_object()) {
        let (object, other) = (fields(object), fields(other));
        let set = fields_of(&object, node()).unwrap();
        let value = set.to_value();
        prop_assert_eq!(FieldSet::decode(&value).unwrap(), set.clone());
        let other = fields_of(&other, node()).unwrap();
        let both = set.clone().union(other.clone());
        prop_assert_eq!(both.clone().difference(&other).union(set.intersection(&other)), set.clone());
        prop_assert_eq!(both.len(), set.len() + other.len() - set.intersection(&other).len());
        prop_assert!(both.paths().iter().all(|path| set.has(path) || other.has(path)));
    }

    #[test]
    fn comparing_is_merging_backwards(old in any_object(), new in any_object()) {
        let (old, new) = (fields(old), fields(new));
        prop_assert!(compare(&old, &old, node()).unwrap().is_same());
        let there = compare(&old, &new, node()).unwrap();
        let back = compare(&new, &old, node()).unwrap();
        prop_assert_eq!(&there.added, &back.removed);
        prop_assert_eq!(&there.removed, &back.added);
        prop_assert_eq!(&there.modified, &back.modified);
    }

    #[test]
    fn b1_hostile_managed_fields_never_panic(entries in deduced(), config in deduced(), live in deduced()) {
        let _ = Managers::decode(Some(&entries));
        if let (Value::Object(config), Value::Object(live)) = (config, live) {
            let mut store = Store { object: live, managers: json!([]), now: 0 };
            let _ = store.apply("a", &Value::Object(config));
        }
    }
}

/// Without empty containers.
fn filled(value: Value) -> Option<Value> {
    let value = match value {
        Value::Array(items) => items.into_iter().filter_map(filled).collect(),
        Value::Object(fields) => fields.into_iter().filter_map(|(k, v)| Some((k, filled(v)?))).collect(),
        scalar => scalar,
    };
    let empty = value.as_array().is_some_and(Vec::is_empty) || value.as_object().is_some_and(|o| o.is_empty());
    (!empty).then_some(value)
}

fn sorted(value: Value) -> Value {
    match value {
        Value::Array(items) => {
            let mut items: Vec<Value> = items.into_iter().map(sorted).collect();
            items.sort_by_key(ToString::to_string);
            items.into()
        }
        Value::Object(fields) => fields.into_iter().map(|(k, v)| (k, sorted(v))).collect(),
        scalar => scalar,
    }
}
