use super::*;
use serde_json::json;

fn schema(spec: Value) -> Schema {
    Schema::compile(&json!({"type": "object", "properties": {"spec": spec}})).unwrap()
}

fn object(spec: Value) -> Map<String, Value> {
    match json!({"apiVersion": "e.com/v1", "kind": "K", "metadata": {"name": "x"}, "spec": spec}) {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

fn told(errors: &[FieldError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

/// Schema of `spec.x`, its value, and what is told of it without the leading `spec.x: `.
fn check(cases: &[(Value, Value, &[&str])]) {
    for (props, value, expected) in cases {
        let schema = schema(json!({"type": "object", "properties": {"x": props}}));
        let errors = told(&schema.validate(&object(json!({"x": value})), None));
        let expected: Vec<String> = expected.iter().map(|text| format!("spec.x{text}")).collect();
        assert_eq!(errors, expected, "{props} on {value}");
    }
}

#[test]
fn values_of_the_wrong_type_are_refused() {
    let of_type = |expected: &str, found: &str| {
        format!(": Invalid value: \"{found}\": spec.x in body must be of type {expected}: \"{found}\"")
    };
    let cases = [
        (json!({"type": "integer"}), json!("a"), Some(("integer", "string"))),
        (json!({"type": "integer"}), json!(1.5), Some(("integer", "number"))),
        (json!({"type": "integer"}), json!(1.0), None),
        (json!({"type": "integer"}), json!(null), Some(("integer", "null"))),
        (json!({"type": "integer", "nullable": true}), json!(null), None),
        (json!({"type": "integer", "format": "int32"}), json!(5_000_000_000_i64), None),
        (json!({"type": "number"}), json!(1), None),
        (json!({"type": "string"}), json!({}), Some(("string", "object"))),
        (json!({"type": "boolean"}), json!("true"), Some(("boolean", "string"))),
        (json!({"type": "array", "items": {"type": "string"}}), json!({}), Some(("array", "object"))),
        (json!({"type": "object"}), json!([]), Some(("object", "array"))),
        (json!({"x-kubernetes-int-or-string": true}), json!(1), None),
        (json!({"x-kubernetes-int-or-string": true}), json!("1"), None),
        (json!({"x-kubernetes-int-or-string": true}), json!(true), Some(("integer,string", "boolean"))),
        (json!({"type": "string", "format": "date-time"}), json!(5), Some(("date-time", "int64"))),
        (json!({"x-kubernetes-preserve-unknown-fields": true}), json!([1, {}]), None),
    ];
    for (props, value, wrong) in cases {
        let expected = wrong.map(|(expected, found)| of_type(expected, found));
        check(&[(props, value, &expected.iter().map(String::as_str).collect::<Vec<_>>())]);
    }
}

#[test]
fn limits_are_told_in_the_words_of_the_openapi_validator() {
    check(&[
        (
            json!({"type": "integer", "minimum": 1}),
            json!(0),
            &[": Invalid value: 0: spec.x in body should be greater than or equal to 1"],
        ),
        (
            json!({"type": "integer", "maximum": 5, "exclusiveMaximum": true}),
            json!(5),
            &[": Invalid value: 5: spec.x in body should be less than 5"],
        ),
        (
            json!({"type": "number", "maximum": 1_000_000, "multipleOf": 0.25}),
            json!(2_000_000.1),
            &[
                ": Invalid value: 2.0000001e+06: spec.x in body should be a multiple of 0.25",
                ": Invalid value: 2.0000001e+06: spec.x in body should be less than or equal to 1e+06",
            ],
        ),
        (json!({"type": "string", "maxLength": 3}), json!("ééée"), &[": Too long: may not be more than 3 bytes"]),
        (
            json!({"type": "string", "minLength": 2}),
            json!("é"),
            &[": Invalid value: \"é\": spec.x in body should be at least 2 chars long"],
        ),
        (
            json!({"type": "string", "pattern": "^a$"}),
            json!("b"),
            &[": Invalid value: \"b\": spec.x in body should match '^a$'"],
        ),
        (
            json!({"type": "array", "items": {"type": "integer"}, "maxItems": 1}),
            json!([1, 2]),
            &[": Too many: 2: must have at most 1 item"],
        ),
        (
            json!({"type": "array", "items": {"type": "integer"}, "minItems": 2}),
            json!([1]),
            &[": Invalid value: 1: spec.x in body should have at least 2 items"],
        ),
        (
            json!({"type": "object", "additionalProperties": {"type": "string"}, "minProperties": 2}),
            json!({"a": "b"}),
            &[": Invalid value: 1: spec.x in body should have at least 2 properties"],
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}),
            json!({}),
            &[".a: Required value"],
        ),
        (
            json!({"type": "string", "enum": ["a", "b"]}),
            json!("c"),
            &[": Unsupported value: \"c\": supported values: \"a\", \"b\""],
        ),
        (json!({"type": "number", "enum": [1, 2.5]}), json!(1.0), &[]),
        (
            json!({"type": "string", "format": "ipv4"}),
            json!("x"),
            &[": Invalid value: \"x\": spec.x in body must be of type ipv4: \"x\""],
        ),
        (
            json!({"type": "object", "additionalProperties": {"type": "integer"}}),
            json!({"a.b": "c"}),
            &[".a.b: Invalid value: \"string\": spec.x.a.b in body must be of type integer: \"string\""],
        ),
    ]);
}

#[test]
fn of_failed_alternatives_the_one_that_fits_best_is_told() {
    let whole = |text: &str| format!("<nil>: Invalid value: \"\": \"spec.x\" {text}");
    let cases = [
        (
            json!({"type": "integer", "anyOf": [{"minimum": 5}, {"maximum": 2}]}),
            json!(3),
            vec![
                whole("must validate at least one schema (anyOf)"),
                "spec.x: Invalid value: 3: spec.x in body should be greater than or equal to 5".into(),
            ],
        ),
        (
            json!({"type": "integer", "oneOf": [{"minimum": 5}, {"maximum": 8}]}),
            json!(6),
            vec![whole("must validate one and only one schema (oneOf). Found 2 valid alternatives")],
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
                "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}),
            json!({}),
            vec![
                whole("must validate one and only one schema (oneOf). Found none valid"),
                "spec.x.a: Required value".into(),
            ],
        ),
        (
            json!({"type": "integer", "allOf": [{"minimum": 5}, {"maximum": 8}]}),
            json!(4),
            vec![
                "spec.x: Invalid value: 4: spec.x in body should be greater than or equal to 5".into(),
                whole("must validate all the schemas (allOf)"),
            ],
        ),
        (
            json!({"type": "integer", "not": {"minimum": 5}}),
            json!(5),
            vec![whole("must not validate the schema (not)")],
        ),
    ];
    for (props, value, expected) in cases {
        let schema = schema(json!({"type": "object", "properties": {"x": props}}));
        assert_eq!(told(&schema.validate(&object(json!({"x": value})), None)), expected, "{value}");
    }
}

#[test]
fn unknown_fields_are_dropped_and_told() {
    let schema = schema(json!({"type": "object", "properties": {
        "known": {"type": "string"},
        "list": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}},
        "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"a": {"type": "string"}}}},
        "open": {"type": "object", "additionalProperties": true},
        "kept": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
            "properties": {"strict": {"type": "object", "properties": {"a": {"type": "string"}}}}},
        "pod": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true},
    }}));
    let mut value = object(json!({
        "known": "x",
        "gone": {"deep": 1},
        "list": [{"a": "x", "b": 1}],
        "map": {"k": {"b": 1}},
        "open": {"scalar": 1, "emptied": {"a": 1}},
        "kept": {"any": {"thing": 1}, "strict": {"b": 1}},
        "pod": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "n", "odd": 1, "labels": {"a": "b"}}, "spec": {"x": 1}},
    }));
    value.insert("extra".into(), json!(1));
    let dropped = schema.prune(&mut value);
    assert_eq!(
        dropped,
        [
            "extra",
            "spec.gone",
            "spec.kept.strict.b",
            "spec.list[0].b",
            "spec.map.k.b",
            "spec.open.emptied.a",
            "spec.pod.metadata.odd",
        ]
    );
    let expected = object(json!({
        "known": "x",
        "list": [{"a": "x"}],
        "map": {"k": {}},
        "open": {"scalar": 1, "emptied": {}},
        "kept": {"any": {"thing": 1}, "strict": {}},
        "pod": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "n", "labels": {"a": "b"}}, "spec": {"x": 1}},
    }));
    assert_eq!(value, expected);
    assert_eq!(schema.prune(&mut value), Vec::<String>::new());
}

#[test]
fn defaults_fill_gaps_and_take_the_place_of_nulls() {
    let schema = schema(json!({"type": "object", "properties": {
        "a": {"type": "integer", "default": 5},
        "n": {"type": "integer", "nullable": true, "default": 5},
        "plain": {"type": "string"},
        "deep": {"type": "object", "default": {}, "properties": {"q": {"type": "string", "default": "z"}}},
        "list": {"type": "array", "items": {"type": "object", "properties": {"p": {"type": "string", "default": "TCP"}}}},
        "map": {"type": "object", "additionalProperties": {"type": "integer", "default": 7}},
        "odd": {"x-kubernetes-preserve-unknown-fields": true, "nullable": true},
    }}));
    let mut value = object(json!({
        "a": null, "n": null, "plain": null, "list": [{}, null, {"p": null}], "map": {"k": null}, "odd": {"x": null},
    }));
    schema.default(&mut value);
    let expected = json!({
        "a": 5, "n": null, "deep": {"q": "z"}, "list": [{"p": "TCP"}, null, {"p": "TCP"}], "map": {"k": 7}, "odd": {"x": null},
    });
    assert_eq!(value["spec"], expected);
}

#[test]
fn sets_and_maps_hold_no_two_items_alike() {
    let schema = schema(json!({"type": "object", "properties": {
        "set": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        "one": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
            "items": {"type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "integer"}}}},
        "two": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k", "p"],
            "items": {"type": "object", "properties": {"k": {"type": "string"}, "p": {"type": "string"}}}},
    }}));
    let bad = object(json!({
        "set": ["a", "b", "a", "a"],
        "one": [{"k": "a"}, {"k": "a", "v": 1}, {"v": 1}, {}],
        "two": [{"k": "a", "p": "x"}, {"k": "a", "p": "y"}, {"k": "a", "p": "x"}],
    }));
    let expected = [
        "spec.one[1]: Duplicate value: {\"k\":\"a\"}",
        "spec.one[3]: Duplicate value: {}",
        "spec.set[2]: Duplicate value: \"a\"",
        "spec.two[2]: Duplicate value: {\"k\":\"a\",\"p\":\"x\"}",
    ];
    assert_eq!(told(&schema.validate(&bad, None)), expected);
    // What was so before may stay so.
    assert_eq!(told(&schema.validate(&bad, Some(&bad))), Vec::<String>::new());
}

#[test]
fn embedded_resources_name_their_kind_and_carry_proper_metadata() {
    let schema = schema(json!({"type": "object", "properties": {"pods": {"type": "array", "items":
        {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}}}}));
    let bad = object(json!({"pods": [
        {},
        {"apiVersion": "a/b/c", "kind": ""},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a/b", "labels": {"a": "b c"}}},
    ]}));
    let errors = told(&schema.validate(&bad, None));
    let begins = [
        "spec.pods[0].apiVersion: Required value",
        "spec.pods[0].kind: Required value",
        "spec.pods[1].apiVersion: Invalid value: \"a/b/c\": unexpected GroupVersion string: a/b/c",
        "spec.pods[1].kind: Invalid value: \"\": must not be empty",
        "spec.pods[2].metadata.name: Invalid value: \"a/b\": may not contain '/'",
        "spec.pods[2].metadata.labels: Invalid value: \"b c\": a valid label must be",
    ];
    assert_eq!(errors.len(), begins.len(), "{errors:?}");
    for (error, begin) in errors.iter().zip(begins) {
        assert!(error.starts_with(begin), "{error}");
    }
    let unreadable = object(json!({"pods": [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": 1}}]}));
    let error = schema.malformed(&unreadable).unwrap();
    assert_eq!(error.field, "spec.pods[0].metadata");
    assert!(schema.malformed(&bad).is_none());
}

#[test]
fn what_did_not_change_is_not_complained_about() {
    let schema = schema(json!({"type": "object", "properties": {
        "a": {"type": "integer", "maximum": 5},
        "o": {"type": "object", "required": ["y"], "properties": {"x": {"type": "integer", "maximum": 5}, "y": {"type": "integer"}}},
        "atomic": {"type": "array", "items": {"type": "integer", "maximum": 5}},
        "keyed": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
            "items": {"type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "integer", "maximum": 5}}}},
    }}));
    let too_large = |path: &str| format!("{path}: Invalid value: 9: {path} in body should be less than or equal to 5");
    let cases = [
        (json!({"a": 9}), json!({"a": 9, "atomic": []}), vec![]),
        (json!({"a": 8}), json!({"a": 9}), vec![too_large("spec.a")]),
        (json!({"o": {"x": 9}}), json!({"o": {"x": 9}}), vec![]),
        (json!({"o": {"x": 9}}), json!({"o": {"x": 9, "y": 1}}), vec![]),
        (json!({"o": {"x": 9, "y": 1}}), json!({"o": {"x": 9}}), vec!["spec.o.y: Required value".into()]),
        (json!({"atomic": [9]}), json!({"atomic": [9], "a": 1}), vec![]),
        (json!({"atomic": [9]}), json!({"atomic": [9, 1]}), vec![too_large("spec.atomic[0]")]),
        (
            json!({"keyed": [{"k": "a", "v": 9}]}),
            json!({"keyed": [{"k": "b", "v": 9}, {"k": "a", "v": 9}]}),
            vec![too_large("spec.keyed[0].v")],
        ),
    ];
    for (old, new, expected) in cases {
        assert_eq!(told(&schema.validate(&object(new.clone()), Some(&object(old)))), expected, "{new}");
    }
}

#[test]
fn a_status_is_judged_alone() {
    let schema = Schema::compile(&json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {"a": {"type": "integer"}}},
        "status": {"type": "object", "properties": {"ready": {"type": "integer"}}},
    }}))
    .unwrap();
    let old = object(json!({"a": "wrong"}));
    let mut new = old.clone();
    new.insert("status".into(), json!({"ready": "x"}));
    let expected = "status.ready: Invalid value: \"string\": ready in body must be of type integer: \"string\"";
    assert_eq!(told(&schema.validate_status(&new, &old)), [expected]);
}

#[test]
fn nodes_tell_how_lists_and_maps_merge() {
    let schema = schema(json!({"type": "object", "x-kubernetes-map-type": "atomic", "properties": {
        "l": {"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"]},
        "m": {"type": "object", "additionalProperties": {"type": "integer"}},
    }}));
    let spec = schema.root().property("spec").unwrap();
    assert!(spec.atomic_map() && spec.kind() == Kind::Object);
    assert_eq!(spec.property("l").unwrap().list_type(), &ListType::Map(vec!["a".into()]));
    assert_eq!(spec.property("m").unwrap().field("any").unwrap().kind(), Kind::Integer);
    assert!(spec.field("nope").is_none());
    assert_eq!(spec.properties().map(|(name, _)| name).collect::<Vec<_>>(), ["l", "m"]);
    assert!(Schema::preserve_all().root().preserve_unknown());
}

#[test]
fn schemas_are_published_with_metadata_and_without_what_v2_lacks() {
    let schema = schema(json!({"type": "object", "required": ["n", "a"], "properties": {
        "a": {"type": "integer", "default": 3},
        "n": {"type": "string", "nullable": true},
        "ios": {"x-kubernetes-int-or-string": true},
        "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"k": {"type": "string"}}},
        "pod": {"type": "object", "x-kubernetes-embedded-resource": true, "properties": {"spec": {"type": "object"}}},
    }}));
    let (v3, v2) = (schema.openapi_v3(), schema.openapi_v2());
    let meta = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
    assert_eq!(v3["properties"]["metadata"]["allOf"], json!([{"$ref": format!("#/components/schemas/{meta}")}]));
    assert_eq!(v2["properties"]["metadata"]["$ref"], json!(format!("#/definitions/{meta}")));
    let (v3, v2) = (&v3["properties"]["spec"], &v2["properties"]["spec"]);
    assert_eq!(v3["properties"]["a"], json!({"type": "integer", "default": 3}));
    assert_eq!(v2["properties"]["a"], json!({"type": "integer"}));
    assert_eq!(v3["required"], json!(["n", "a"]));
    assert_eq!(v2["required"], json!(["a"]));
    assert_eq!(v3["properties"]["n"], json!({"type": "string", "nullable": true}));
    assert_eq!(v2["properties"]["n"], json!({}));
    let either = json!([{"type": "integer"}, {"type": "string"}]);
    assert_eq!(v3["properties"]["ios"], json!({"x-kubernetes-int-or-string": true, "anyOf": either}));
    assert_eq!(v2["properties"]["ios"], json!({"x-kubernetes-int-or-string": true}));
    assert_eq!(v2["properties"]["open"], json!({"x-kubernetes-preserve-unknown-fields": true}));
    assert_eq!(v3["properties"]["pod"]["required"], json!(["kind", "apiVersion"]));
}
