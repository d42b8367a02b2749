use proptest::prelude::*;
use serde_json::json;

use super::*;

/// The shapes of a Pod, as far as these tests need them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    Pod,
    Meta,
    Spec,
    Container,
    Volume,
    Plain,
}

impl Facts<'static> for Shape {
    fn field(self, name: &str) -> Option<Field<'static, Self>> {
        use MergeStrategy::{Default, MergeBy, MergeSet, Replace};
        let (facts, strategy) = match (self, name) {
            (Shape::Pod, "metadata") => (Shape::Meta, Default),
            (Shape::Pod, "spec") => (Shape::Spec, Default),
            (Shape::Meta, "finalizers") => (Shape::Plain, MergeSet),
            (Shape::Meta, "ownerReferences") => (Shape::Plain, MergeBy("uid")),
            (Shape::Meta, "labels" | "annotations") => (Shape::Plain, Default),
            (Shape::Spec, "containers") => (Shape::Container, MergeBy("name")),
            (Shape::Spec, "volumes") => (Shape::Volume, MergeBy("name")),
            (Shape::Spec, "tolerations") => (Shape::Plain, Default),
            (Shape::Spec, "selector") => (Shape::Plain, Replace),
            (Shape::Container, "ports") => (Shape::Plain, MergeBy("containerPort")),
            (Shape::Container, "env") => (Shape::Plain, MergeBy("name")),
            (Shape::Container, "command") => (Shape::Plain, Default),
            _ => return None,
        };
        Some(Field { facts: Some(facts), strategy })
    }
}

fn spec(document: Value, patch: Value) -> Result<Value, Error> {
    apply(document, patch, Shape::Spec)
}

fn check(cases: Vec<(Value, Value, Value)>) {
    for (document, patch, expected) in cases {
        assert_eq!(spec(document, patch.clone()), Ok(expected), "{patch}");
    }
}

#[test]
fn objects_merge_and_null_removes() {
    check(vec![
        (json!({"a": {"x": 1}}), json!({"a": {"y": 2}}), json!({"a": {"x": 1, "y": 2}})),
        (json!({"a": {"x": 1}, "b": 1}), json!({"a": null}), json!({"b": 1})),
        (json!({"b": 1}), json!({"a": null}), json!({"b": 1})),
        (json!({"a": 1}), json!({"a": {"x": null, "y": 1}}), json!({"a": {"y": 1}})),
        (json!({}), json!({"a": {"x": {"y": null}, "l": [{"z": null}]}}), json!({"a": {"x": {}, "l": [{}]}})),
        (json!({"selector": {"x": 1}}), json!({"selector": {"y": 1}}), json!({"selector": {"y": 1}})),
        (json!({"unknown": [1, 2]}), json!({"unknown": [3]}), json!({"unknown": [3]})),
        (
            json!({"tolerations": [{"key": "a"}]}),
            json!({"tolerations": [{"key": "b"}]}),
            json!({"tolerations": [{"key": "b"}]}),
        ),
    ]);
}

#[test]
fn lists_of_objects_merge_by_key() {
    check(vec![
        (
            json!({"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]}),
            json!({"containers": [{"name": "b", "image": "2"}]}),
            json!({"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "2"}]}),
        ),
        // A new element goes before those only the server has.
        (
            json!({"containers": [{"name": "a"}, {"name": "b"}]}),
            json!({"containers": [{"name": "c", "image": null}]}),
            json!({"containers": [{"name": "c"}, {"name": "a"}, {"name": "b"}]}),
        ),
        // The patch's order wins over the server's; elements between them stay between.
        (
            json!({"containers": [{"name": "a"}, {"name": "x"}, {"name": "b"}]}),
            json!({"containers": [{"name": "b"}, {"name": "a"}]}),
            json!({"containers": [{"name": "x"}, {"name": "b"}, {"name": "a"}]}),
        ),
        (
            json!({"containers": [{"name": "a", "ports": [{"containerPort": 80}], "env": [{"name": "E", "value": "1"}]}]}),
            json!({"containers": [{"name": "a", "ports": [{"containerPort": 81}, {"containerPort": 80, "name": "web"}],
                                   "env": [{"name": "E", "value": null, "valueFrom": {}}]}]}),
            json!({"containers": [{"name": "a", "ports": [{"containerPort": 81}, {"containerPort": 80, "name": "web"}],
                                   "env": [{"name": "E", "valueFrom": {}}]}]}),
        ),
        (
            json!({"containers": [{"name": "a", "command": ["x", "y"]}]}),
            json!({"containers": [{"name": "a", "command": ["z"]}]}),
            json!({"containers": [{"name": "a", "command": ["z"]}]}),
        ),
        (json!({"containers": [{"name": "a"}]}), json!({"containers": []}), json!({"containers": [{"name": "a"}]})),
        (json!({"containers": []}), json!({"containers": []}), json!({"containers": []})),
    ]);
}

#[test]
fn lists_of_scalars_merge_as_sets() {
    let meta = |document, patch| apply(document, patch, Shape::Meta);
    for (old, patch, expected) in [
        (json!(["a", "b"]), json!({"finalizers": ["c"]}), json!(["c", "a", "b"])),
        (json!(["a", "b"]), json!({"finalizers": ["b", "c"]}), json!(["a", "b", "c"])),
        (json!(["a", "b"]), json!({"finalizers": ["b", "a"]}), json!(["b", "a"])),
        (json!(["a"]), json!({"finalizers": ["c", "c"]}), json!(["c", "a"])),
        (json!(["a", "b"]), json!({"$deleteFromPrimitiveList/finalizers": ["a", "z"]}), json!(["b"])),
        (
            json!(["a", "b"]),
            json!({"$deleteFromPrimitiveList/finalizers": ["a"], "finalizers": ["c"]}),
            json!(["c", "b"]),
        ),
        (
            json!(["a", "b", "c"]),
            json!({"$setElementOrder/finalizers": ["c", "a"], "$deleteFromPrimitiveList/finalizers": ["b"]}),
            json!(["c", "a"]),
        ),
    ] {
        assert_eq!(meta(json!({"finalizers": old}), patch.clone()), Ok(json!({"finalizers": expected})), "{patch}");
    }
    assert_eq!(meta(json!({}), json!({"$deleteFromPrimitiveList/finalizers": ["a"]})), Ok(json!({})));
    assert_eq!(
        meta(
            json!({"ownerReferences": [{"uid": "1", "name": "a"}]}),
            json!({"ownerReferences": [{"uid": "1", "name": "b"}, {"uid": "2"}]})
        ),
        Ok(json!({"ownerReferences": [{"uid": "1", "name": "b"}, {"uid": "2"}]}))
    );
}

#[test]
fn the_patch_directive_replaces_and_deletes() {
    check(vec![
        (json!({"a": {"x": 1}}), json!({"a": {"$patch": "replace", "y": 2, "z": null}}), json!({"a": {"y": 2}})),
        (json!({"a": {"x": 1}}), json!({"a": {"$patch": "delete"}}), json!({"a": {}})),
        (json!({"x": 1}), json!({"$patch": "replace", "y": 1}), json!({"y": 1})),
        (json!({"x": 1}), json!({"$patch": "delete"}), json!({})),
        // Nothing there to act on: the directive says nothing.
        (json!({}), json!({"a": {"$patch": "delete"}, "b": [{"$patch": "delete", "name": "x"}]}), json!({"b": []})),
        (
            json!({"containers": [{"name": "a"}, {"name": "b"}, {"name": "a"}]}),
            json!({"containers": [{"name": "a", "$patch": "delete"}, {"name": "z", "$patch": "delete"}]}),
            json!({"containers": [{"name": "b"}]}),
        ),
        (
            json!({"containers": [{"name": "a"}, {"name": "b"}]}),
            json!({"containers": [{"name": "c"}, {"$patch": "replace"}, {"name": "b", "image": "2"}]}),
            json!({"containers": [{"name": "c"}, {"name": "b", "image": "2"}]}),
        ),
        (
            json!({"containers": [{"name": "a"}]}),
            json!({"containers": [{"$patch": "replace"}]}),
            json!({"containers": []}),
        ),
    ]);
}

#[test]
fn retain_keys_clears_the_rest() {
    let volume = |value: Value| json!({"volumes": [value]});
    check(vec![
        (
            volume(json!({"name": "v", "emptyDir": {}})),
            volume(json!({"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x"}})),
            volume(json!({"name": "v", "hostPath": {"path": "/x"}})),
        ),
        (
            json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": {}}}),
            json!({"strategy": {"$retainKeys": ["type"], "type": "Recreate", "rollingUpdate": null}}),
            json!({"strategy": {"type": "Recreate"}}),
        ),
        // Brought in new, the directive is not kept.
        (
            json!({}),
            json!({"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}),
            json!({"strategy": {"type": "Recreate"}}),
        ),
    ]);
}

#[test]
fn set_element_order_orders() {
    let containers =
        |names: &str| json!({"containers": names.chars().map(|n| json!({"name": n.to_string()})).collect::<Vec<_>>()});
    for (old, patch, order, expected) in [
        ("abc", "", "cba", "cba"),
        ("abc", "d", "dabc", "dabc"),
        ("abc", "d", "abcd", "abcd"),
        // "x" is only on the server: before what followed it there.
        ("axb", "", "ab", "axb"),
        ("axb", "", "ba", "xba"),
        ("xab", "c", "acb", "xacb"),
    ] {
        let mut patch = containers(patch);
        patch["$setElementOrder/containers"] = containers(order)["containers"].clone();
        if patch["containers"] == json!([]) {
            patch.as_object_mut().unwrap().remove("containers");
        }
        assert_eq!(spec(containers(old), patch.clone()), Ok(containers(expected)), "{old} {patch}");
    }
    check(vec![
        (
            json!({"containers": [{"name": "a"}, {"name": "b"}]}),
            json!({"$setElementOrder/containers": [{"name": "b"}, {"name": "c"}],
                   "containers": [{"name": "c"}, {"name": "a", "$patch": "delete"}]}),
            json!({"containers": [{"name": "b"}, {"name": "c"}]}),
        ),
        (json!({}), json!({"$setElementOrder/containers": [{"name": "a"}]}), json!({})),
        (
            json!({}),
            json!({"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}], "containers": [{"name": "b"}, {"name": "a"}]}),
            json!({"containers": [{"name": "b"}, {"name": "a"}]}),
        ),
        // Lists that are replaced come in the wanted order anyway.
        (
            json!({"tolerations": [1]}),
            json!({"$setElementOrder/tolerations": [3, 2], "tolerations": [3, 2]}),
            json!({"tolerations": [3, 2]}),
        ),
    ]);
}

#[test]
fn refusals_are_in_kubernetes_words() {
    let one = || json!({"containers": [{"name": "a"}], "a": {"x": 1}, "finalizers": ["x"]});
    for (patch, words) in [
        (json!({"$patch": "merge"}), "unknown patch type: merge in map: {\"$patch\":\"merge\"}"),
        (json!({"$patch": "explode", "x": 1}), "unknown patch type: explode in map: {\"$patch\":\"explode\",\"x\":1}"),
        (json!({"$patch": 1}), "unknown patch type: 1 in map"),
        (
            json!({"containers": [{"name": "a", "$patch": "merge"}]}),
            "merging lists cannot yet be specified in the patch",
        ),
        (json!({"containers": [{"name": "a", "$patch": "x"}]}), "unknown patch type: x in map"),
        (json!({"containers": [{"image": "a"}]}), "map: {\"image\":\"a\"} does not contain declared merge key: name"),
        (json!({"containers": [{"$patch": "delete"}]}), "does not contain declared merge key: name"),
        (json!({"containers": ["a"]}), "list element types are not identical"),
        (json!({"containers": [[]]}), "lists of lists are not supported"),
        (json!({"$retainKeys": "x"}), "invalid patch format of retainKeys"),
        (json!({"$retainKeys": ["x"], "y": 1}), "invalid patch format of retainKeys"),
        (json!({"$setElementOrder": []}), "invalid patch format of setElementOrder list"),
        (json!({"$setElementOrder/containers": "a"}), "invalid patch format of setElementOrder list"),
        (json!({"$setElementOrder/containers": [{}]}), "does not contain declared merge key: name"),
        (
            json!({"$setElementOrder/containers": [{"name": "a"}], "containers": [{"name": "b"}]}),
            "doesn't match $setElementOrder list",
        ),
        (
            json!({"$setElementOrder/containers": [{"name": "a"}, {"name": "b"}], "containers": [{"name": "b"}, {"name": "a"}]}),
            "doesn't match $setElementOrder list",
        ),
        (json!({"$deleteFromPrimitiveList": []}), "invalid patch format of primitive list"),
        (json!({"$deleteFromPrimitiveList/finalizers": "x"}), "invalid patch format of primitive list"),
        (json!({"$deleteFromPrimitiveList/containers": [{"name": "a"}]}), "invalid patch format of primitive list"),
        (json!({"$deleteFromPrimitiveList/finalizers": [1]}), "list element types are not identical"),
    ] {
        let error = spec(one(), patch.clone()).unwrap_err();
        assert!(error.to_string().contains(words), "{patch}: {error}");
        // A malformed directive is a bad request; a patch that does not suit the object is unprocessable.
        let suits = words.contains("not identical") || words.contains("lists of lists");
        assert_eq!(error.code(), if suits { 422 } else { 400 }, "{patch}");
    }
    let error = apply(json!({"finalizers": [{}]}), json!({"finalizers": [{}]}), Shape::Meta).unwrap_err();
    assert_eq!(error.to_string(), "cannot merge lists without merge key for finalizers");
    assert_eq!(spec(json!({}), json!([])).unwrap_err().code(), 400);
}

// B-1
#[test]
fn b1_long_lists_merge_without_comparing_all_with_all() {
    let names = |range: std::ops::Range<usize>| range.map(|i| json!({"name": i.to_string()})).collect::<Vec<_>>();
    let merged = spec(json!({"containers": names(0..100_000)}), json!({"containers": names(50_000..150_000)})).unwrap();
    assert_eq!(merged["containers"].as_array().unwrap().len(), 150_000);
}

// B-2
#[test]
fn b2_depth_is_bounded() {
    let nest = |levels: usize| (1..levels).fold(json!({}), |inner, _| json!({"a": inner}));
    assert!(apply(nest(MAX_DEPTH), nest(MAX_DEPTH), ()).is_ok());
    assert!(apply(json!({}), nest(MAX_DEPTH), ()).is_ok());
    assert_eq!(apply(json!({}), nest(MAX_DEPTH + 1), ()), Err(Error::TooDeep));
    assert_eq!(apply(nest(2 * MAX_DEPTH), nest(2 * MAX_DEPTH), ()), Err(Error::TooDeep));
}

/// A type whose list `a` holds elements of the same type.
#[derive(Clone, Copy)]
struct Endless;

impl Facts<'static> for Endless {
    fn field(self, _: &str) -> Option<Field<'static, Self>> {
        Some(Field { facts: Some(Endless), strategy: MergeStrategy::MergeBy("k") })
    }
}

// B-2: three quarters of a worker's stack, which only a debug build comes near to needing.
#[test]
fn b2_the_deepest_merge_fits_the_stack() {
    let work = || {
        let nest = || (1..MAX_DEPTH / 2).fold(json!({"k": 1}), |inner, _| json!({"k": 1, "a": [inner]}));
        assert_eq!(apply(nest(), nest(), Endless), Ok(nest()));
    };
    std::thread::Builder::new().stack_size(1536 << 10).spawn(work).unwrap().join().unwrap();
}

/// JSON with few different keys, so that documents and patches meet.
pub(crate) fn any_json() -> impl Strategy<Value = Value> {
    any_json_with("[a-c]|0|~")
}

fn any_json_with(keys: &'static str) -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-2i64..3).prop_map(Value::from),
        Just(json!(0.5)),
        "[a-c]|delete|replace|merge|spec".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(keys, inner, 0..4).prop_map(|map| map.into_iter().collect()),
        ]
    })
}

const PATCH_KEYS: &str = "name|containers|volumes|finalizers|tolerations|selector|a|\\$patch|\\$retainKeys|\
    \\$setElementOrder/containers|\\$setElementOrder/finalizers|\\$deleteFromPrimitiveList/finalizers|\\$setElementOrder";

/// A list of named objects, as patches mostly carry.
fn named() -> impl Strategy<Value = Vec<Value>> {
    let images = prop::collection::btree_map("[a-e]", 0..3, 0..5);
    let list = |(name, image)| json!({"name": name, "image": image});
    images.prop_map(move |images| images.into_iter().map(list).collect::<Vec<Value>>()).prop_shuffle()
}

proptest! {
    #[test]
    fn b1_never_panics_and_leaves_no_directive(document in any_json(), patch in any_json_with(PATCH_KEYS)) {
        for shape in [Shape::Pod, Shape::Spec, Shape::Meta] {
            if let Ok(result) = apply(document.clone(), patch.clone(), shape) {
                prop_assert!(!result.to_string().contains("\"$patch\""), "{}", result);
            }
        }
    }

    #[test]
    fn without_facts_it_is_a_merge_patch(
        document in prop::collection::btree_map("[a-c]", any_json(), 0..4),
        patch in prop::collection::btree_map("[a-c]", any_json(), 0..4),
    ) {
        let (document, patch): (Value, Value) = (document.into_iter().collect(), patch.into_iter().collect());
        let merged = crate::merge_patch::apply(document.clone(), &patch);
        prop_assert_eq!(apply(document, patch, ()), merged);
    }

    #[test]
    fn applying_twice_is_applying_once(old in named(), patch in named()) {
        let (document, patch) = (json!({"containers": old}), json!({"containers": patch}));
        let once = spec(document, patch.clone()).unwrap();
        prop_assert_eq!(spec(once.clone(), patch), Ok(once));
    }

    #[test]
    fn a_merged_list_has_every_name_once_and_keeps_both_orders(old in named(), patch in named()) {
        let names = |items: &[Value]| items.iter().map(|item| item["name"].clone()).collect::<Vec<_>>();
        let merged = spec(json!({"containers": old}), json!({"containers": patch})).unwrap();
        let merged = names(merged["containers"].as_array().unwrap());
        let (old, patch) = (names(&old), names(&patch));
        let from_patch: Vec<_> = merged.iter().filter(|name| patch.contains(name)).cloned().collect();
        let server_only: Vec<_> = merged.iter().filter(|name| !patch.contains(name)).cloned().collect();
        prop_assert_eq!(from_patch, patch.clone());
        prop_assert_eq!(server_only, old.into_iter().filter(|name| !patch.contains(name)).collect::<Vec<_>>());
    }

    #[test]
    fn an_order_for_everything_is_kept_exactly(
        (old, order) in named().prop_flat_map(|old| (Just(old.clone()), Just(old).prop_shuffle())),
    ) {
        let patch = json!({"$setElementOrder/containers": order.clone()});
        prop_assume!(!old.is_empty());
        prop_assert_eq!(spec(json!({"containers": old}), patch), Ok(json!({"containers": order})));
    }
}
