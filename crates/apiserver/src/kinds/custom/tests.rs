use super::*;
use crate::kinds::{ScalePaths, ScaleSelector};
use serde_json::json;
use store::{Attrs, Entry};

fn definition(revision: Revision, previous: Option<&Definition>, change: impl FnOnce(&mut Value)) -> Definition {
    let mut value = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com", "uid": "u"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [
                {"name": "v1", "served": true, "storage": true, "selectableFields": [{"jsonPath": ".spec.color"}],
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": {
                        "color": {"type": "string"}, "size": {"type": "integer", "default": 1}}}}}}},
                {"name": "v2", "served": true, "storage": false, "schema": {"openAPIV3Schema": {"type": "object",
                    "properties": {"spec": {"type": "object", "properties": {"weight": {"type": "integer"}}}}}}}]},
        "status": {"acceptedNames": {"plural": "widgets", "kind": "Widget", "listKind": "WidgetList"},
            "conditions": [{"type": "Established", "status": "True"}]}});
    change(&mut value);
    let object = Object::from_value(value).unwrap();
    let bytes = object.encode().into();
    Definition::new(&object, &bytes, revision, previous, &CancellationToken::new()).unwrap()
}

fn widget(api_version: &str, spec: Value) -> Object {
    let value = json!({"apiVersion": api_version, "kind": "Widget", "metadata": {"name": "a"}, "spec": spec});
    Object::from_value(value).unwrap()
}

#[test]
fn bytes_are_served_as_they_are_only_in_the_version_and_schema_that_shaped_them() {
    let definition = definition(10, None, |_| {});
    let [v1, v2] = definition.kinds.as_slice() else { panic!("two versions") };
    let bytes = widget("example.com/v1", json!({})).encode();
    assert!(v1.is_verbatim(&bytes, 11));
    assert!(!v1.is_verbatim(&bytes, 10), "written before the schema");
    assert!(!v2.is_verbatim(&bytes, 11), "another version");
    assert!(v1.shares_event(11) && !v1.shares_event(10) && !v2.shares_event(11));
}

#[test]
fn a_version_shows_and_keeps_what_both_it_and_the_stored_one_know() {
    let definition = definition(10, None, |_| {});
    let [v1, v2] = definition.kinds.as_slice() else { panic!("two versions") };
    let mut object = widget("example.com/v1", json!({"color": "red", "weight": 2}));
    v1.to_served(&mut object, 5);
    assert_eq!(object.0["spec"], json!({"color": "red", "size": 1}), "pruned and defaulted on the way out");
    v2.to_served(&mut object, 11);
    assert_eq!((object.api_version(), &object.0["spec"]), ("example.com/v2", &json!({})));
    let mut object = widget("example.com/v2", json!({"weight": 2}));
    assert!(v2.converts() && !v1.converts());
    v2.to_stored(&mut object);
    assert_eq!(
        (object.api_version(), &object.0["spec"]),
        ("example.com/v1", &json!({"size": 1})),
        "with the stored version's defaults"
    );
}

#[test]
fn a_schema_that_did_not_change_is_kept() {
    let first = definition(10, None, |_| {});
    let second = definition(20, Some(&first), |crd| {
        crd["spec"]["versions"][1]["schema"]["openAPIV3Schema"] = json!({"type": "object"})
    });
    let shape = |d: &Definition, at: usize| d.shapes[at].clone();
    assert!(Arc::ptr_eq(&shape(&first, 0), &shape(&second, 0)));
    assert!(!Arc::ptr_eq(&shape(&first, 1), &shape(&second, 1)));
    assert!(!second.serves_like(&first));
    let third = definition(30, Some(&second), |crd| {
        crd["spec"]["versions"][1]["schema"]["openAPIV3Schema"] = json!({"type": "object"});
        crd["metadata"]["labels"] = json!({"a": "b"});
    });
    assert!(third.serves_like(&second));
}

#[test]
fn fields_that_became_selectable_later_are_read_from_the_object() {
    let definition = definition(10, None, |_| {});
    let v1 = &definition.kinds[0];
    let object = widget("example.com/v1", json!({"color": "red"}));
    let described = Entry::new(11, object.encode().into(), Arc::new(v1.describe(&object)));
    assert_eq!(*described.attrs.fields, [("spec.color".into(), "red".into())]);
    assert!(v1.late_values(&described, ["spec.color"]).is_empty());
    let undescribed = Entry::new(11, object.encode().into(), Arc::new(Attrs::default()));
    assert!(v1.late_values(&undescribed, ["metadata.name"]).is_empty(), "nobody asked");
    assert_eq!(v1.late_values(&undescribed, ["spec.color"]), [("spec.color".into(), "red".into())]);
}

#[test]
fn cells_take_the_type_of_their_column() {
    let now = Timestamp::from_second(100).unwrap();
    for (kind, value, want) in [
        ("string", json!("a"), json!("a")),
        ("string", json!({"b": [1]}), json!("{\"b\":[1]}")),
        ("string", json!(1), json!("1")),
        ("integer", json!(7), json!(7)),
        ("integer", json!(7.9), json!(7)),
        ("integer", json!("7"), json!(null)),
        ("number", json!(1), json!(1.0)),
        ("boolean", json!(true), json!(true)),
        ("boolean", json!("true"), json!(null)),
        ("date", json!("1970-01-01T00:00:40Z"), json!("60s")),
        ("date", json!("soon"), json!("<invalid>")),
        ("date", json!(null), json!(null)),
    ] {
        assert_eq!(columns::cell(kind, &value, now), want, "{kind} {value}");
    }
}

#[test]
fn what_a_scale_shows_must_be_a_small_number() {
    let paths = ScalePaths {
        replicas: "spec.n".into(),
        current: "status.n".into(),
        selector: ScaleSelector::Text("status.s".into()),
    };
    let told = |value: Value| {
        let mut errors = Vec::new();
        scale::check(&paths, value.as_object().unwrap(), &mut errors);
        errors.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert!(told(json!({"spec": {"n": 3}, "status": {"s": "a=b"}})).is_empty());
    assert_eq!(told(json!({"spec": {"n": -3}})), [".spec.n: Invalid value: -3: should be a non-negative integer"]);
    assert_eq!(
        told(json!({"spec": {"n": "x"}})),
        [".spec.n: Invalid value: 0: .spec.n accessor error: x is of the type string, expected int64"]
    );
    assert_eq!(
        told(json!({"spec": {"n": 3_000_000_000_u64}})),
        [".spec.n: Invalid value: 3000000000: should be less than or equal to 2147483647"]
    );
    assert_eq!(told(json!({"status": {"s": 1}})).len(), 1);
}
