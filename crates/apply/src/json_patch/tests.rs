use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::measure::measure;

fn patch(document: Value, operations: Value) -> Result<Value, Error> {
    Patch::parse(operations)?.apply(document)
}

fn op(kind: &str, path: &str, value: Value) -> Value {
    json!({"op": kind, "path": path, "value": value})
}

#[test]
fn operations_do_what_the_rfc_says() {
    let cases = [
        // document, operation, result
        (json!({"a": 1}), op("add", "/b", json!(2)), json!({"a": 1, "b": 2})),
        (json!({"a": 1}), op("add", "/a", json!(2)), json!({"a": 2})),
        (json!({"a": [1, 3]}), op("add", "/a/1", json!(2)), json!({"a": [1, 2, 3]})),
        (json!({"a": [1]}), op("add", "/a/1", json!(2)), json!({"a": [1, 2]})),
        (json!({"a": [1]}), op("add", "/a/-", json!([2])), json!({"a": [1, [2]]})),
        (json!({"a": {"b": {}}}), op("add", "/a/b/c", json!({})), json!({"a": {"b": {"c": {}}}})),
        (json!({}), op("add", "/", json!(1)), json!({"": 1})),
        (json!({"a/b": 1}), op("replace", "/a~1b", json!(2)), json!({"a/b": 2})),
        (json!({"~1": 1}), op("replace", "/~01", json!(2)), json!({"~1": 2})),
        (json!({"~2": 1}), op("replace", "/~2", json!(2)), json!({"~2": 2})),
        (json!({"a": 1, "b": 2}), op("remove", "/a", json!(null)), json!({"b": 2})),
        (json!({"a": [1, 2, 3]}), op("remove", "/a/1", json!(null)), json!({"a": [1, 3]})),
        (json!({"a": [1, 2]}), op("replace", "/a/0", json!({"x": 1})), json!({"a": [{"x": 1}, 2]})),
        (json!({"a": 1}), op("replace", "", json!({"b": 2})), json!({"b": 2})),
        (
            json!({"a": {"b": [1, {"c": "x"}]}}),
            op("test", "/a/b/1", json!({"c": "x"})),
            json!({"a": {"b": [1, {"c": "x"}]}}),
        ),
        (json!({"a": 1}), op("test", "", json!({"a": 1})), json!({"a": 1})),
        (
            json!({"a": {"x": 1}, "b": {}}),
            json!({"op": "move", "from": "/a/x", "path": "/b/y"}),
            json!({"a": {}, "b": {"y": 1}}),
        ),
        (json!({"a": [1, 2, 3]}), json!({"op": "move", "from": "/a/0", "path": "/a/2"}), json!({"a": [2, 3, 1]})),
        (json!({"a": 1}), json!({"op": "move", "from": "/a", "path": "/a"}), json!({"a": 1})),
        (json!({"a": [1]}), json!({"op": "copy", "from": "/a", "path": "/b"}), json!({"a": [1], "b": [1]})),
        (json!([1, 2]), op("remove", "/0", json!(null)), json!([2])),
    ];
    for (document, operation, expected) in cases {
        assert_eq!(patch(document, json!([operation])).as_ref(), Ok(&expected), "{operation}");
    }
}

#[test]
fn kubernetes_readings_its_clients_lean_on() {
    let cases = [
        (json!({"a": [1, 2]}), op("remove", "/a/-1", json!(null)), json!({"a": [1]})),
        (json!({"a": [1, 2]}), op("add", "/a/-1", json!(3)), json!({"a": [1, 2, 3]})),
        (json!({"a": [1, 2]}), op("replace", "/a/-2", json!(3)), json!({"a": [3, 2]})),
        (json!({"a": {}}), op("replace", "/a/b", json!(1)), json!({"a": {"b": 1}})),
        (json!({}), json!({"op": "add", "path": "/a"}), json!({"a": null})),
        (json!({}), op("test", "/a", json!(null)), json!({})),
        (json!({"a": null}), json!({"op": "test", "path": "/a"}), json!({"a": null})),
    ];
    for (document, operation, expected) in cases {
        assert_eq!(patch(document, json!([operation])).as_ref(), Ok(&expected), "{operation}");
    }
}

#[test]
fn refusals_say_what_and_how_grave() {
    let document = || json!({"a": {"b": 1}, "l": [1], "n": null});
    let cases = [
        (json!({}), 400, "must be an array"),
        (json!(null), 400, "must be an array"),
        (json!([1]), 400, "operation 0 of the JSON patch must be an object"),
        (json!([{"op": 1, "path": "/a"}]), 400, "\"op\" of a JSON patch operation must be a string"),
        (json!([{"op": "add", "path": 1}]), 400, "\"path\" of a JSON patch operation must be a string"),
        (json!([{"op": "merge", "path": "/a"}]), 422, "Unexpected kind: merge"),
        (json!([{"path": "/a"}]), 422, "Unexpected kind: unknown"),
        (json!([{"op": "add"}]), 422, "add operation failed to decode path: missing value"),
        (json!([{"op": "copy", "path": "/a"}]), 422, "copy operation failed to decode from: missing value"),
        (
            json!([op("add", "/x/y", json!(1))]),
            422,
            "add operation does not apply: doc is missing path: \"/x/y\": missing value",
        ),
        (json!([op("add", "/a/b/c", json!(1))]), 422, "doc is missing path: \"/a/b/c\""),
        (json!([op("add", "/n/c", json!(1))]), 422, "doc is missing path: \"/n/c\""),
        (json!([op("add", "", json!({}))]), 422, "doc is missing path: \"\""),
        (json!([op("add", "a", json!({}))]), 422, "doc is missing path: \"a\""),
        (json!([op("replace", "/x/y", json!(1))]), 422, "replace operation does not apply: doc is missing path"),
        (
            json!([op("remove", "/x", json!(1))]),
            422,
            "error in remove for path: '/x': Unable to remove nonexistent key: x",
        ),
        (json!([op("remove", "/l/1", json!(1))]), 422, "Unable to access invalid index: 1"),
        (json!([op("remove", "/l/-", json!(1))]), 422, "Unable to access invalid index: -"),
        (json!([op("add", "/l/2", json!(1))]), 422, "error in add for path: '/l/2': Unable to access invalid index: 2"),
        (json!([op("add", "/l/-3", json!(1))]), 422, "invalid index referenced"),
        (json!([op("add", "/l/x", json!(1))]), 422, "invalid index referenced"),
        (json!([op("add", "/l/99999999999999999999", json!(1))]), 422, "invalid index referenced"),
        (json!([op("add", "/l/-9223372036854775808", json!(1))]), 422, "invalid index referenced"),
        (json!([op("replace", "/l/1", json!(1))]), 422, "invalid index referenced"),
        (json!([op("replace", "", json!(1))]), 400, "must be object or array"),
        (json!([op("test", "/a/b", json!(2))]), 422, "testing value /a/b failed: test failed"),
        (json!([op("test", "/a/b", json!("1"))]), 422, "test failed"),
        (json!([op("test", "/a/x", json!(1))]), 422, "test failed"),
        (
            json!([{"op": "copy", "from": "/x", "path": "/y"}]),
            422,
            "copy operation does not apply: doc is missing from path",
        ),
        (json!([{"op": "copy", "from": "/a", "path": "/x/y"}]), 422, "doc is missing destination path"),
        (json!([{"op": "move", "from": "/x", "path": "/y"}]), 422, "error in move for path: '/x'"),
        // Into its own child: the parent is gone by then.
        (json!([{"op": "move", "from": "/a", "path": "/a/b"}]), 422, "doc is missing destination path"),
    ];
    for (operations, code, words) in cases {
        let error = patch(document(), operations.clone()).unwrap_err();
        assert!(error.to_string().contains(words), "{operations}: {error}");
        assert_eq!(error.code(), code, "{operations}: {error}");
    }
}

#[test]
fn operations_are_counted() {
    let many = |n: usize| Value::from(vec![op("test", "/a", json!(null)); n]);
    assert_eq!(patch(json!({}), many(MAX_OPERATIONS)), Ok(json!({})));
    let error = patch(json!({}), many(MAX_OPERATIONS + 1)).unwrap_err();
    assert_eq!(error.to_string(), "The allowed maximum operations in a JSON patch is 10000, got 10001");
    assert_eq!(error.code(), 413);
}

#[test]
fn strangers_in_an_operation_are_named() {
    let parsed =
        Patch::parse(json!([op("test", "/a", json!(null)), {"op": "test", "path": "/a", "valeu": 1}])).unwrap();
    assert_eq!(parsed.unknown_fields(), ["[1].valeu"]);
}

// B-1, CVE-2019-1002100
#[test]
fn b1_a_copy_bomb_stays_within_the_limit() {
    let double = |i: usize| json!({"op": "copy", "from": "/a", "path": format!("/a/{i}")});
    let bomb: Vec<_> = (0..1000).map(double).collect();
    let error = patch(json!({"a": {"x": "y".repeat(100)}}), Value::from(bomb)).unwrap_err();
    assert!(matches!(error, Error::CopyTooLarge { .. } | Error::TooDeep), "{error}");
    let flat: Vec<_> = (0..10_000).map(|i| json!({"op": "copy", "from": "/a", "path": format!("/b{i}")})).collect();
    let error = patch(json!({"a": "y".repeat(1 << 20)}), Value::from(flat)).unwrap_err();
    assert!(matches!(error, Error::CopyTooLarge { size, limit: COPY_LIMIT } if size < 2 * COPY_LIMIT), "{error}");
}

// B-2
#[test]
fn b2_no_patch_builds_a_document_too_deep_to_walk() {
    // Each move pushes everything one level down.
    let mut operations = Vec::new();
    for _ in 0..5_000 {
        operations.push(op("add", "/b", json!({})));
        operations.push(json!({"op": "move", "from": "/a", "path": "/b/a"}));
        operations.push(json!({"op": "move", "from": "/b", "path": "/a"}));
    }
    operations.truncate(MAX_OPERATIONS);
    assert_eq!(patch(json!({"a": 1}), Value::from(operations)), Err(Error::TooDeep));
    let nest = |levels: usize| (0..levels).fold(json!(1), |inner, _| json!([inner]));
    assert_eq!(patch(json!({}), json!([op("add", "/a", nest(MAX_DEPTH))])), Err(Error::TooDeep));
    assert!(patch(json!({}), json!([op("add", "/a", nest(MAX_DEPTH - 1))])).is_ok());
    let long = format!("{}x", "/".repeat(1 << 20));
    assert!(matches!(patch(json!({}), json!([op("add", &long, json!(1))])), Err(Error::MissingPath { .. })));
}

// B-1
#[test]
fn b1_shifting_a_long_array_ten_thousand_times_is_refused() {
    let operations = vec![op("add", "/a/0", json!(1)); MAX_OPERATIONS];
    let document = json!({"a": vec![0; 500_000]});
    assert_eq!(patch(document, Value::from(operations)), Err(Error::TooMuchWork));
}

fn any_json() -> impl Strategy<Value = Value> {
    crate::strategic::tests::any_json()
}

fn any_operation() -> impl Strategy<Value = Value> {
    let kind = prop::sample::select(vec!["add", "remove", "replace", "move", "copy", "test", "?"]);
    let path = || "(/(a|b|c|0|1|-|-1|~0)){0,4}";
    (kind, path(), path(), any_json())
        .prop_map(|(kind, from, path, value)| json!({"op": kind, "from": from, "path": path, "value": value}))
}

proptest! {
    #[test]
    fn b1_never_panics_and_growth_is_bounded(
        document in any_json(),
        operations in prop::collection::vec(prop_oneof![9 => any_operation(), 1 => any_json()], 0..8),
    ) {
        let operations = Value::from(operations);
        let limit = measure(&document).bytes + measure(&operations).bytes + COPY_LIMIT;
        if let Ok(result) = patch(document, operations) {
            prop_assert!(measure(&result).bytes <= limit);
        }
    }

    #[test]
    fn what_was_added_tests_equal_and_can_be_removed(
        document in prop::collection::btree_map("[a-c]{1,2}", any_json(), 0..4), key in "[d-f~/]{1,3}", value in any_json(),
    ) {
        let document: Value = document.into_iter().collect();
        let path = format!("/{}", key.replace('~', "~0").replace('/', "~1"));
        let operations = json!([op("add", &path, value.clone()), op("test", &path, value), op("remove", &path, json!(null))]);
        prop_assert_eq!(patch(document.clone(), operations), Ok(document));
    }
}
