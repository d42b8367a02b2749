//! What holds for all schemas and all values.

use super::*;
use proptest::prelude::*;

fn key() -> impl Strategy<Value = String> {
    prop_oneof![Just("a"), Just("b"), Just("k"), Just("metadata"), Just("kind"), Just("x.y")].prop_map(str::to_owned)
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-3i64..9).prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-5.0..5.0).prop_map(|float: f64| Value::from(float)),
        "[a-c0-9.:é-]{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            proptest::collection::btree_map(key(), inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(
            json!({"type": "integer", "nullable": true, "x-kubernetes-validations": [{"rule": "self > 0 && self >= oldSelf"}, {"rule": "10 / self < 9"}]})
        ),
        Just(
            json!({"type": "string", "maxLength": 5, "x-kubernetes-validations": [{"rule": "self.matches('a')", "messageExpression": "self"}]})
        ),
        Just(json!({"type": "integer", "minimum": 0, "maximum": 5, "multipleOf": 2, "default": 4})),
        Just(json!({"type": "number", "exclusiveMaximum": true, "maximum": 2.5})),
        Just(json!({"type": "string", "maxLength": 3, "minLength": 1, "pattern": "^[a-c]+$"})),
        Just(json!({"type": "string", "enum": ["a", "b"], "nullable": true, "default": "a"})),
        Just(json!({"type": "string", "format": "date-time"})),
        Just(json!({"type": "string", "format": "uri"})),
        Just(json!({"type": "boolean", "not": {"enum": [true]}})),
        Just(json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]})),
        Just(json!({"x-kubernetes-preserve-unknown-fields": true, "nullable": true})),
    ]
}

fn schema() -> impl Strategy<Value = Value> {
    scalar().prop_recursive(4, 40, 4, |inner| {
        let properties = proptest::collection::btree_map(key(), inner.clone(), 0..4);
        let list_type = prop_oneof![Just(None), Just(Some("atomic")), Just(Some("set")), Just(Some("map"))];
        prop_oneof![
            (properties, any::<[bool; 4]>()).prop_map(|(properties, [keep, resource, nullable, picky])| {
                let mut schema = json!({"type": "object", "properties": properties, "nullable": nullable});
                if keep {
                    schema["x-kubernetes-preserve-unknown-fields"] = true.into();
                }
                if resource {
                    schema["x-kubernetes-embedded-resource"] = true.into();
                }
                if picky {
                    schema["required"] = json!(["a"]);
                    schema["oneOf"] = json!([{"required": ["b"]}, {"properties": {"a": {"minimum": 2}}}]);
                }
                schema
            }),
            (inner.clone(), list_type).prop_map(|(items, list_type)| {
                let mut schema = json!({"type": "array", "items": items, "maxItems": 3});
                if let Some(list_type) = list_type {
                    schema["x-kubernetes-list-type"] = list_type.into();
                }
                if list_type == Some("map") {
                    schema["x-kubernetes-list-map-keys"] = json!(["k"]);
                }
                schema
            }),
            inner.prop_map(|inner| json!({"type": "object", "additionalProperties": inner, "maxProperties": 3})),
            any::<bool>().prop_map(|allowed| json!({"type": "object", "additionalProperties": allowed})),
        ]
    })
}

fn case() -> impl Strategy<Value = (Schema, Map<String, Value>, Map<String, Value>)> {
    let object = || proptest::collection::btree_map(key(), value(), 0..5);
    let properties = proptest::collection::btree_map(key(), schema(), 0..5);
    (properties, object(), object()).prop_map(|(properties, object, old)| {
        let schema = Schema::compile(&json!({"type": "object", "properties": properties})).unwrap();
        (schema, object.into_iter().collect(), old.into_iter().collect())
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn pruning_again_drops_nothing((schema, mut object, _) in case()) {
        schema.prune(&mut object);
        let once = object.clone();
        prop_assert_eq!(schema.prune(&mut object), Vec::<String>::new());
        prop_assert_eq!(object, once);
    }

    #[test]
    fn defaulting_again_changes_nothing((schema, mut object, _) in case()) {
        schema.prune(&mut object);
        schema.default(&mut object);
        let once = object.clone();
        schema.default(&mut object);
        prop_assert_eq!(object, once);
    }

    #[test]
    fn what_is_pruned_stays_pruned_with_defaults((schema, mut object, _) in case()) {
        schema.prune(&mut object);
        schema.default(&mut object);
        prop_assert_eq!(schema.prune(&mut object), Vec::<String>::new());
    }

    #[test]
    fn validation_ends_and_unchanged_values_pass((schema, mut object, old) in case()) {
        schema.prune(&mut object);
        schema.default(&mut object);
        let fresh = check::check(&schema.root, (&object).into(), "");
        let update = check::check_update(&schema.root, (&object).into(), (&old).into(), "");
        let same = check::check_update(&schema.root, (&object).into(), (&object).into(), "");
        prop_assert!(update.iter().all(|error| fresh.contains(error)));
        prop_assert_eq!(same, Vec::new());
        schema.validate(&object, None);
        schema.validate(&object, Some(&old));
        schema.validate_status(&object, &old);
        schema.openapi_v2();
        schema.openapi_v3();
    }
}
