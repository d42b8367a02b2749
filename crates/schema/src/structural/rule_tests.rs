use super::*;
use serde_json::json;

fn schema(spec: Value) -> Schema {
    Schema::compile(&json!({"type": "object", "properties": {"spec": spec}})).unwrap()
}

fn ruled(mut props: Value, rules: Value) -> Value {
    props["x-kubernetes-validations"] = rules;
    props
}

fn object(spec: Value) -> Map<String, Value> {
    match json!({"apiVersion": "e.com/v1", "kind": "K", "metadata": {"name": "x"}, "spec": spec}) {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

fn told(schema: &Schema, new: Value, old: Option<Value>) -> Vec<String> {
    let errors = schema.validate(&object(new), old.map(object).as_ref());
    errors.iter().map(ToString::to_string).collect()
}

fn integer() -> Value {
    json!({"type": "integer"})
}

fn text() -> Value {
    json!({"type": "string", "maxLength": 20})
}

#[test]
fn rules_run_where_they_stand() {
    let schema = schema(ruled(
        json!({"type": "object", "properties": {
            "a": ruled(integer(), json!([{"rule": "self > 0"}])),
            "b": integer(),
            "list": {"type": "array", "maxItems": 9, "items": ruled(text(), json!([{"rule": "self != 'bad'"}]))},
            "map": {"type": "object", "maxProperties": 9, "additionalProperties": ruled(integer(), json!([{"rule": "self < 9"}]))},
            "a-b": ruled(integer(), json!([{"rule": "self > 0"}])),
            "free": ruled(json!({"type": "integer", "nullable": true}), json!([{"rule": "self > 0"}])),
        }}),
        json!([{"rule": "!has(self.a) || !has(self.b) || self.a < self.b", "message": " a must be below b "}]),
    ));
    let cases = [
        (json!({"a": 1, "b": 2}), vec![]),
        (json!({"a": 3, "b": 2}), vec!["spec: Invalid value: \"object\": a must be below b"]),
        (json!({"a": 0}), vec!["spec.a: Invalid value: \"integer\": failed rule: self > 0"]),
        (json!({"list": ["ok", "bad"]}), vec!["spec.list[1]: Invalid value: \"string\": failed rule: self != 'bad'"]),
        (json!({"map": {"k": 9}}), vec!["spec.map[k]: Invalid value: \"integer\": failed rule: self < 9"]),
        (json!({"a-b": 0}), vec!["spec.a-b: Invalid value: \"integer\": failed rule: self > 0"]),
        (json!({"free": null}), vec![]),
    ];
    for (value, expected) in cases {
        assert_eq!(told(&schema, value.clone(), None), expected, "{value}");
    }
}

#[test]
fn rules_wait_until_types_and_limits_are_right() {
    let schema =
        schema(ruled(json!({"type": "object", "properties": {"a": integer()}}), json!([{"rule": "self.a > 0"}])));
    assert_eq!(
        told(&schema, json!({"a": "x"}), None),
        [
            "spec.a: Invalid value: \"string\": spec.a in body must be of type integer: \"string\"",
            "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; \
             correct the existing errors to complete validation",
        ]
    );
}

#[test]
fn a_rule_says_how_its_failure_is_told() {
    let fields = || json!({"type": "object", "properties": {"p": integer(), "n": integer()}});
    let cases = [
        (
            json!({"rule": "has(self.p)", "reason": "FieldValueRequired", "fieldPath": ".p"}),
            "spec.p: Required value: failed rule: has(self.p)",
        ),
        (json!({"rule": "has(self.p)", "reason": "FieldValueForbidden", "message": "no"}), "spec: Forbidden: no"),
        (json!({"rule": "has(self.p)", "reason": "FieldValueDuplicate"}), "spec: Duplicate value: \"object\""),
        (
            json!({"rule": "has(self.p)", "messageExpression": "self.n > 5 ? 'many' : 'few'"}),
            "spec: Invalid value: \"object\": few",
        ),
        (
            json!({"rule": "has(self.p)", "message": "plain", "messageExpression": "'two\\nlines'"}),
            "spec: Invalid value: \"object\": plain",
        ),
        (
            json!({"rule": "has(self.p)", "messageExpression": "' '"}),
            "spec: Invalid value: \"object\": failed rule: has(self.p)",
        ),
        (
            json!({"rule": "has(self.p)", "message": "plain", "messageExpression": "self.n / 0 > 1 ? 'a' : 'b'"}),
            "spec: Invalid value: \"object\": plain",
        ),
        (
            json!({"rule": "self.n / 0 > 1"}),
            "spec: Invalid value: \"object\": division by zero evaluating rule: self.n / 0 > 1",
        ),
    ];
    for (rule, expected) in cases {
        let schema = schema(ruled(fields(), json!([rule])));
        assert_eq!(told(&schema, json!({"n": 1}), None), [expected], "{rule}");
    }
}

#[test]
fn transitions_compare_with_the_old_self() {
    let schema = schema(json!({"type": "object", "properties": {
        "grows": ruled(integer(), json!([{"rule": "self >= oldSelf"}])),
        "once": ruled(integer(), json!([{"rule": "!oldSelf.hasValue() || self == oldSelf.value()", "optionalOldSelf": true}])),
        "list": {"type": "array", "maxItems": 9, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
            "items": ruled(
                json!({"type": "object", "required": ["k"], "properties": {"k": text(), "v": integer()}}),
                json!([{"rule": "self.v >= oldSelf.v", "message": "must grow"}]),
            )},
    }}));
    assert_eq!(told(&schema, json!({"grows": 1, "once": 1, "list": [{"k": "a", "v": 1}]}), None), Vec::<String>::new());
    let shrinks = told(&schema, json!({"grows": 1}), Some(json!({"grows": 2})));
    assert_eq!(shrinks, ["spec.grows: Invalid value: \"integer\": failed rule: self >= oldSelf"]);
    assert_eq!(told(&schema, json!({"once": 2}), Some(json!({}))), Vec::<String>::new());
    assert_eq!(told(&schema, json!({"once": 2}), Some(json!({"once": 1}))).len(), 1);
    let old = json!({"list": [{"k": "a", "v": 5}, {"k": "b", "v": 5}]});
    let new = json!({"list": [{"k": "b", "v": 6}, {"k": "a", "v": 4}, {"k": "new", "v": 0}]});
    assert_eq!(told(&schema, new, Some(old)), ["spec.list[1]: Invalid value: \"object\": must grow"]);
}

#[test]
fn rules_let_pass_what_did_not_change() {
    let schema = schema(json!({"type": "object", "properties": {
        "a": ruled(integer(), json!([{"rule": "self > 0"}])),
        "b": integer(),
        "list": {"type": "array", "maxItems": 9, "items": ruled(text(), json!([{"rule": "self != 'bad'"}]))},
    }}));
    let cases = [
        (json!({"a": 0}), json!({"a": 0, "b": 1}), 0),
        (json!({"a": 0}), json!({"a": -1}), 1),
        (json!({}), json!({"a": 0}), 1),
        (json!({"list": ["bad"]}), json!({"list": ["bad"], "b": 1}), 0),
        (json!({"list": ["bad"]}), json!({"list": ["bad", "ok"]}), 1),
    ];
    for (old, new, errors) in cases {
        assert_eq!(told(&schema, new.clone(), Some(old.clone())).len(), errors, "{old} to {new}");
    }
}

#[test]
fn the_root_shows_its_name_and_no_more_of_its_metadata() {
    let rules = json!([{"rule": "self.metadata.name == 'x' && self.kind == 'K'"}, {"rule": "self.spec.a < 9", "message": "root"}]);
    let spec = json!({"type": "object", "properties": {"a": integer()}});
    let schema = Schema::compile(&ruled(json!({"type": "object", "properties": {"spec": spec}}), rules)).unwrap();
    assert_eq!(told(&schema, json!({"a": 1}), None), Vec::<String>::new());
    assert_eq!(told(&schema, json!({"a": 9}), None), ["<nil>: Invalid value: \"object\": root"]);
    let hidden = ruled(json!({"type": "object"}), json!([{"rule": "has(self.metadata.labels)"}]));
    assert!(Schema::compile(&hidden).is_err());
}

#[test]
fn rules_stop_when_an_object_has_cost_enough() {
    let list = ruled(
        json!({"type": "array", "maxItems": 600, "items": integer()}),
        json!([{"rule": "self.all(x, self.all(y, x == y))"}]),
    );
    let schema = schema(json!({"type": "object", "properties": {"a": list.clone(), "b": list}}));
    let ones = vec![1; 600];
    assert_eq!(
        told(&schema, json!({"a": ones, "b": ones}), None),
        ["spec.a: Invalid value: \"array\": 'operation cancelled: actual cost limit exceeded': \
             no further validation rules will be run due to call cost exceeds limit for rule: self.all(x, self.all(y, x == y))"]
    );
}
