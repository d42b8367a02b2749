//! The rules, one example each.

use super::*;

fn conflict(refused: Refused) -> Conflicts {
    match refused {
        Refused::Conflicts(conflicts) => conflicts,
        other => panic!("{other}"),
    }
}

#[test]
fn a_creator_owns_what_it_wrote() {
    let store =
        Store::new(json!({"apiVersion": "v1", "kind": "Thing", "metadata": {"name": "a", "labels": {"x": "1"}},
        "spec": {"replicas": 1, "selector": {"a": "b"}, "command": ["x"], "free": {"deep": {"er": [1]}, "none": {}},
            "ports": [{"number": 80}, {"number": 443, "protocol": "UDP", "note": "n"}]},
        "status": {"phase": "new"}}));
    assert_eq!(
        store.owned("creator"),
        json!({
            "f:metadata": {"f:labels": {".": {}, "f:x": {}}},
            "f:spec": {".": {}, "f:replicas": {}, "f:selector": {}, "f:command": {},
                "f:free": {".": {}, "f:deep": {".": {}, "f:er": {}}, "f:none": {}},
                "f:ports": {".": {},
                    "k:{\"number\":80,\"protocol\":\"TCP\"}": {".": {}, "f:number": {}},
                    "k:{\"number\":443,\"protocol\":\"UDP\"}": {".": {}, "f:note": {}, "f:number": {}, "f:protocol": {}}}},
        })
    );
    assert_eq!(store.managers[0]["operation"], "Update");
    assert_eq!(store.managers[0]["time"], "2026-01-01T00:00:01Z");
}

#[test]
fn an_update_takes_what_it_changes_from_everyone() {
    let mut store = Store::new(json!({"spec": {"replicas": 1, "paused": true}}));
    store.apply("applier", &json!({"spec": {"paused": true}})).unwrap();
    store.update("other", json!({"spec": {"replicas": 2, "paused": false}}));
    assert_eq!(store.owned("creator"), json!({"f:spec": {}}));
    assert_eq!(store.owned("applier"), Value::Null);
    assert_eq!(store.owned("other"), json!({"f:spec": {"f:paused": {}, "f:replicas": {}}}));
}

#[test]
fn an_update_that_changes_nothing_changes_no_owner_and_no_time() {
    let mut store = Store::new(json!({"spec": {"replicas": 1}}));
    let before = store.managers.clone();
    store.update("other", json!({"spec": {"replicas": 1.0}}));
    assert_eq!(store.managers, before);
    store.update("other", json!({"spec": {"replicas": 1}, "status": {"phase": "x"}}));
    assert_eq!(store.managers, before, "status is out of reach");
}

#[test]
fn removing_fields_leaves_the_time_of_the_remover_alone() {
    let mut store = Store::new(json!({"spec": {"replicas": 1, "paused": true}}));
    store.update("creator", json!({"spec": {"replicas": 1}}));
    assert_eq!(store.managers[0]["time"], "2026-01-01T00:00:01Z");
    assert_eq!(store.owned("creator"), json!({"f:spec": {".": {}, "f:replicas": {}}}));
}

#[test]
fn a_conflict_names_the_other_manager() {
    let mut store = Store::new(json!({"spec": {"replicas": 1}}));
    let refused = conflict(store.apply("me", &json!({"spec": {"replicas": 2}})).unwrap_err());
    assert_eq!(refused.to_string(), "Apply failed with 1 conflict: conflict with \"creator\" using v1: .spec.replicas");
    assert_eq!(refused.0[0].manager, "\"creator\" using v1");
    assert_eq!(store.value(), json!({"spec": {"replicas": 1}}));

    store.apply("first", &json!({"spec": {"replicas": 1, "ports": [{"number": 1, "note": "a"}]}})).unwrap();
    let both = json!({"spec": {"replicas": 2, "ports": [{"number": 1, "note": "b"}]}});
    let refused = conflict(store.apply("me", &both).unwrap_err());
    assert_eq!(
        refused.to_string(),
        "Apply failed with 3 conflicts: conflicts with \"creator\" using v1:\n- .spec.replicas\n\
         conflicts with \"first\":\n- .spec.replicas\n- .spec.ports[number=1,protocol=\"TCP\"].note"
    );
}

#[test]
fn force_takes_the_field_over() {
    let mut store = Store::new(json!({"spec": {"replicas": 1, "paused": true}}));
    store.force("me", &json!({"spec": {"replicas": 2}}));
    assert_eq!(store.value(), json!({"spec": {"replicas": 2, "paused": true}}));
    assert_eq!(store.owned("me"), json!({"f:spec": {"f:replicas": {}}}));
    assert_eq!(store.owned("creator"), json!({"f:spec": {".": {}, "f:paused": {}}}));
}

#[test]
fn the_same_value_is_shared() {
    let mut store = Store::new(json!({}));
    store.apply("a", &json!({"spec": {"replicas": 1, "paused": true}})).unwrap();
    store.apply("b", &json!({"spec": {"replicas": 1}})).unwrap();
    let b = store.managers.as_array().unwrap().iter().find(|e| e["manager"] == "b").unwrap();
    assert_eq!(b.get("time"), None, "nothing changed when b came");
    // What a drops stays as long as b owns it; the rest goes.
    store.apply("a", &json!({"spec": {"free": 1}})).unwrap();
    assert_eq!(store.value(), json!({"spec": {"replicas": 1, "free": 1}}));
    store.apply("b", &json!({"spec": {"command": ["x"]}})).unwrap();
    assert_eq!(store.value(), json!({"spec": {"free": 1, "command": ["x"]}}));
}

#[test]
fn what_an_applier_drops_goes_by_key_by_value_and_by_name() {
    let mut store = Store::new(json!({"metadata": {"finalizers": ["kept"]}, "spec": {"ports": [{"number": 9}]}}));
    store
        .apply(
            "a",
            &json!({"metadata": {"finalizers": ["x", "y"], "labels": {"l": "1", "m": "2"}},
                "spec": {"ports": [{"number": 1, "note": "n"}, {"number": 2}], "free": {"f": {"g": 1, "h": 2}}}}),
        )
        .unwrap();
    assert_eq!(store.value()["metadata"]["finalizers"], json!(["kept", "x", "y"]));
    assert_eq!(store.value()["spec"]["ports"], json!([{"number": 9}, {"number": 1, "note": "n"}, {"number": 2}]));
    store
        .apply(
            "a",
            &json!({"metadata": {"finalizers": ["y"], "labels": {"m": "2"}},
                "spec": {"ports": [{"number": 1}], "free": {"f": {"h": 2}}}}),
        )
        .unwrap();
    assert_eq!(
        store.value(),
        json!({"metadata": {"finalizers": ["kept", "y"], "labels": {"m": "2"}},
            "spec": {"ports": [{"number": 9}, {"number": 1}], "free": {"f": {"h": 2}}}})
    );
}

#[test]
fn a_whole_is_replaced_as_a_whole() {
    let mut store = Store::new(json!({}));
    store.apply("a", &json!({"spec": {"selector": {"x": "1"}, "command": ["a", "b"]}})).unwrap();
    store.apply("a", &json!({"spec": {"selector": {"y": "1"}, "command": ["c"]}})).unwrap();
    assert_eq!(store.value(), json!({"spec": {"selector": {"y": "1"}, "command": ["c"]}}));
    assert!(store.apply("b", &json!({"spec": {"selector": {"z": "1"}}})).is_err());
}

#[test]
fn items_both_have_follow_the_configuration() {
    let port = |n: i64| json!({"number": n});
    for (old, applied, merged) in [
        (vec![1, 2, 3], vec![3, 1], vec![2, 3, 1]),
        (vec![1, 2, 3], vec![2, 4], vec![1, 2, 3, 4]),
        (vec![1, 2], vec![3, 2, 1], vec![3, 2, 1]),
        (vec![], vec![2, 1], vec![2, 1]),
        (vec![1, 2, 3, 4], vec![4, 2], vec![1, 3, 4, 2]),
    ] {
        let list = |numbers: &[i64]| numbers.iter().map(|n| port(*n)).collect::<Vec<_>>();
        let mut store = Store::new(json!({"spec": {"ports": list(&old)}}));
        store.force("a", &json!({"spec": {"ports": list(&applied)}}));
        assert_eq!(store.value()["spec"]["ports"], json!(list(&merged)), "{old:?} {applied:?}");
    }
}

#[test]
fn what_was_there_before_the_first_apply_has_an_owner() {
    let mut store = Store { object: fields(json!({"spec": {"replicas": 1, "paused": true}})), ..Store::default() };
    store.managers = json!([]);
    let refused = conflict(store.apply("me", &json!({"spec": {"replicas": 2}})).unwrap_err());
    assert_eq!(refused.0[0].manager, "\"before-first-apply\" using v1");
    store.force("me", &json!({"spec": {"replicas": 2}}));
    assert_eq!(store.owned("before-first-apply"), json!({"f:spec": {".": {}, "f:paused": {}}}));
    assert_eq!(store.managers[0]["manager"], "me", "appliers come first");
}

#[test]
fn who_applies_nothing_owns_nothing() {
    let mut store = Store::new(json!({"spec": {"paused": true}}));
    store.apply("a", &json!({"apiVersion": "v1", "kind": "Thing", "metadata": {"name": "n"}})).unwrap();
    assert_eq!(store.owned("a"), Value::Null);
    store.apply("a", &json!({"spec": {"replicas": 1}})).unwrap();
    store.apply("a", &json!({})).unwrap();
    assert_eq!(store.value()["spec"], json!({"paused": true}));
}

#[test]
fn old_updaters_are_folded_into_one() {
    let mut store = Store::new(json!({"spec": {"free": {}}}));
    let mut free = serde_json::Map::new();
    for i in 0..12 {
        free.insert(format!("f{i}"), json!(i));
        store.update(&format!("m{i:02}"), json!({"spec": {"free": free}}));
    }
    let names: Vec<_> = store.managers.as_array().unwrap().iter().map(|e| e["manager"].as_str().unwrap()).collect();
    assert_eq!(names.len(), 10);
    assert_eq!(names[..2], ["ancient-changes", "m03"]);
    let ancient = store.owned("ancient-changes");
    assert_eq!(ancient, json!({"f:spec": {".": {}, "f:free": {".": {}, "f:f0": {}, "f:f1": {}, "f:f2": {}}}}));
}

#[test]
fn kubectl_takes_over_what_it_applied_from_the_client() {
    let last = json!({"apiVersion": "v1", "spec": {"replicas": 1, "paused": true}}).to_string();
    let annotated = |replicas: i64, paused: bool| {
        json!({"apiVersion": "v1", "metadata": {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": last}},
            "spec": {"replicas": replicas, "paused": paused}})
    };
    let wanted = json!({"apiVersion": "v1", "spec": {"replicas": 5, "paused": false}});
    let mut store = Store::new(annotated(1, true));
    assert!(store.apply("someone", &wanted).is_err());
    store.apply("kubectl", &wanted).unwrap();
    assert_eq!(store.value()["spec"], wanted["spec"]);
    let kept = &store.value()["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"];
    assert_eq!(kept.as_str().unwrap(), format!("{wanted}\n"));

    // What changed since is somebody else's.
    let mut store = Store::new(annotated(1, true));
    store.update("scaler", annotated(3, true));
    let refused = conflict(store.apply("kubectl", &wanted).unwrap_err());
    assert_eq!(refused.0, [Conflict { manager: "\"scaler\" using v1".into(), field: ".spec.replicas".into() }]);
}

#[test]
fn a_configuration_must_fit_the_types() {
    for (configuration, why) in [
        (json!({"spec": {"nope": 1}}), ".spec.nope: field not declared in schema"),
        (json!({"spec": {"replicas": "1"}}), ".spec.replicas: expected numeric (int or float), got string"),
        (json!({"spec": {"command": {"a": 1}}}), ".spec.command: expected list, got &{map[a:1]}"),
        (json!({"spec": {"selector": ["a"]}}), ".spec.selector: expected map, got &{[a]}"),
        (
            json!({"metadata": {"labels": {"x": 1}}}),
            ".metadata.labels.x: expected string, got &value.valueUnstructured{Value:1}",
        ),
        (
            json!({"spec": {"ports": [{"number": 1}, {"number": 1, "protocol": "TCP"}]}}),
            ".spec.ports: duplicate entries for key [number=1,protocol=\"TCP\"]",
        ),
        (
            json!({"spec": {"ports": [null]}}),
            ".spec.ports: element 0: associative list with keys may not have a null element",
        ),
        (
            json!({"metadata": {"finalizers": [{}]}}),
            ".metadata.finalizers: element 0: associative list without keys has an element that's a map type",
        ),
    ] {
        let mut object = configuration.clone();
        object["apiVersion"] = "g/v1".into();
        object["kind"] = "Thing".into();
        let refused = Store::new(json!({})).apply("a", &object).unwrap_err().to_string();
        assert_eq!(refused, format!("failed to create typed patch object (/; g/v1, Kind=Thing): {why}"));
    }
}

#[test]
fn several_items_with_one_key_are_one_thing() {
    let list = |notes: &[&str]| json!({"spec": {"ports": notes.iter().map(|n| json!({"number": 1, "note": n})).collect::<Vec<_>>()}});
    let mut store = Store::new(list(&["a", "b"]));
    let key = "k:{\"number\":1,\"protocol\":\"TCP\"}";
    assert_eq!(store.owned("creator")["f:spec"]["f:ports"], json!({".": {}, key: {}}));
    store.update("other", list(&["a"]));
    assert_eq!(store.owned("creator")["f:spec"]["f:ports"], json!({}));
    assert_eq!(store.owned("other")["f:spec"]["f:ports"], json!({key: {".": {}, "f:note": {}, "f:number": {}}}));
}

#[test]
fn owners_in_a_version_that_is_gone_are_forgotten() {
    let mut store = Store::new(json!({"spec": {"replicas": 1}}));
    store.managers[0]["apiVersion"] = "v0".into();
    store.update("other", json!({"spec": {"replicas": 2}}));
    assert_eq!(store.owned("creator"), Value::Null);
}

#[test]
fn a_type_that_became_a_whole_is_owned_as_one() {
    let mut store = Store::new(json!({"spec": {"command": ["a"]}}));
    store.managers[0]["fieldsV1"] = json!({"f:spec": {"f:command": {"v:\"a\"": {}}, "f:selector": {"f:x": {}}}});
    store.update("other", json!({"spec": {"command": ["a"], "replicas": 1}}));
    assert_eq!(store.owned("creator"), json!({"f:spec": {"f:command": {}, "f:selector": {}}}));
}

#[test]
fn malformed_fields_are_refused() {
    for (fields, why) in [
        (json!({"f": {}}), "parsing key as path element: key must be 2 characters long:"),
        (json!({"spec": {}}), "parsing key as path element: missing colon: spec"),
        (json!({"ü:": {}}), "parsing key as path element: missing colon: ü:"),
        (json!({"f:a": 1}), "a set of fields must be an object"),
        (json!({"i:x": {}}), "parsing key as path element: i:x: invalid syntax"),
        (json!({"k:[]": {}}), "parsing key as path element: k:[]: expect { or n"),
    ] {
        assert_eq!(FieldSet::decode(&fields).unwrap_err().to_string(), why);
    }
    assert!(FieldSet::decode(&json!({"v:{": {}})).is_err());
    assert_eq!(FieldSet::decode(&json!({"x:later": {}, "f:a": {"x:b": {}}})).unwrap().to_value(), json!({"f:a": {}}));
}

#[test]
fn entries_are_checked() {
    let entry = |changes: Value| {
        let mut entry = json!({"manager": "a", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1"});
        for (name, value) in changes.as_object().unwrap() {
            entry[name] = value.clone();
        }
        json!([entry])
    };
    for (changes, why) in [
        (json!({"operation": "Foo"}), "operation must be `Apply` or `Update`"),
        (json!({"apiVersion": ""}), "apiVersion must not be empty"),
        (json!({"fieldsType": ""}), "missing fieldsType in managed fields entry 0"),
        (json!({"fieldsType": "V2"}), "invalid fieldsType \"V2\" in managed fields entry 0"),
        (
            json!({"fieldsV1": {"a": {}}}),
            "error decoding set: parsing key as path element: key must be 2 characters long:",
        ),
    ] {
        assert_eq!(Managers::decode(Some(&entry(changes))).unwrap_err().to_string(), why);
    }
    assert!(Managers::decode(Some(&entry(json!({})))).is_ok());
    assert!(Managers::is_reset(&json!([])));
    assert!(Managers::is_reset(&json!([{}])));
    assert!(!Managers::is_reset(&entry(json!({}))));
    assert!(!Managers::is_reset(&json!([{}, {}])));
}

#[test]
fn keys_are_written_as_go_writes_them() {
    let mut set = FieldSet::default();
    set.insert(&[Element::Value(std::borrow::Cow::Owned(json!("a<b&\"c\"")))]);
    set.insert(&[Element::field("quo\"te")]);
    let mut text = Vec::new();
    set.encode(&mut text);
    assert_eq!(String::from_utf8(text).unwrap(), r#"{"f:quo\"te":{},"v:\"a\\u003cb\\u0026\\\"c\\\"\"":{}}"#);
}
