use super::*;

fn crd(schema: Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    })
}

fn plain() -> Value {
    crd(json!({"type": "object"}))
}

fn object(value: Value) -> Object {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

fn told(crd: Value) -> Vec<String> {
    let mut crd = object(crd);
    default(&mut crd);
    validate(&crd, None).iter().map(ToString::to_string).collect()
}

/// A plain CRD with one place of it replaced, and the one thing that is told of it.
fn refused(pointer: &str, value: Value, expected: &str) {
    let mut crd = plain();
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    crd.pointer_mut(parent).unwrap()[key] = value;
    assert_eq!(told(crd), [expected], "{pointer}");
}

#[test]
fn names_and_modes_that_are_left_out_are_filled_in() {
    let mut crd = object(plain());
    default(&mut crd);
    assert_eq!(
        crd["spec"]["names"],
        json!({"plural": "widgets", "kind": "Widget", "singular": "widget", "listKind": "WidgetList"})
    );
    assert_eq!(crd["spec"]["conversion"], json!({"strategy": "None"}));
    assert_eq!(crd["status"]["storedVersions"], json!(["v1"]));
    let once = crd.clone();
    default(&mut crd);
    assert_eq!(crd, once);
    assert_eq!(validate(&crd, None), []);
}

#[test]
fn names_group_and_scope_are_checked() {
    refused(
        "/spec/scope",
        json!("Global"),
        "spec.scope: Unsupported value: \"Global\": supported values: \"Cluster\", \"Namespaced\"",
    );
    refused("/spec/scope", json!(""), "spec.scope: Required value");
    refused(
        "/metadata/name",
        json!("x"),
        "metadata.name: Invalid value: \"x\": must be spec.names.plural+\".\"+spec.group",
    );
    refused(
        "/spec/names/listKind",
        json!("Widget"),
        "spec.names.listKind: Invalid value: \"Widget\": kind and listKind may not be the same",
    );
    let mut short = plain();
    short["spec"]["group"] = "example".into();
    short["metadata"]["name"] = "widgets.example".into();
    assert_eq!(told(short), ["spec.group: Invalid value: \"example\": should be a domain with at least one dot"]);
    let mut bad = plain();
    bad["spec"]["names"]["shortNames"] = json!(["w", "W"]);
    bad["spec"]["names"]["categories"] = json!(["All"]);
    let errors = told(bad);
    assert!(errors[0].starts_with("spec.names.shortNames[1]: Invalid value: \"W\": a DNS-1035 label"), "{errors:?}");
    assert!(errors[1].starts_with("spec.names.categories[0]: Invalid value: \"All\": a DNS-1035 label"), "{errors:?}");
}

#[test]
fn community_groups_need_approval() {
    let with = |annotation: Option<&str>| {
        let mut crd = plain();
        crd["spec"]["group"] = "x.k8s.io".into();
        crd["metadata"]["name"] = "widgets.x.k8s.io".into();
        if let Some(annotation) = annotation {
            crd["metadata"]["annotations"] = json!({"api-approved.kubernetes.io": annotation});
        }
        told(crd)
    };
    assert_eq!(with(Some("unapproved, a test")), Vec::<String>::new());
    assert_eq!(with(Some("https://github.com/x")), Vec::<String>::new());
    assert!(
        with(None)[0].starts_with("metadata.annotations[api-approved.kubernetes.io]: Required value: protected groups")
    );
    assert!(with(Some("yes"))[0].contains("Invalid value: \"yes\": protected groups"));
}

#[test]
fn one_version_is_stored_and_all_are_told_apart() {
    let version = |name: &str, storage: bool, kind: &str| json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": {"type": kind}}});
    let with = |versions: Value| {
        let mut crd = plain();
        crd["spec"]["versions"] = versions;
        told(crd)
    };
    let errors = with(json!([version("v1", false, "object")]));
    assert!(errors[0].ends_with("must have exactly one version marked as storage version"), "{errors:?}");
    assert_eq!(errors[1], "status.storedVersions: Invalid value: null: must have at least one stored version");
    let errors = with(json!([version("v1", true, "object"), version("v1", false, "object")]));
    assert!(errors[0].ends_with("must contain unique version names"), "{errors:?}");
    // What differs between versions is told at the version, what does not at the top.
    let errors = with(json!([version("v1", true, "object"), version("v2", false, "string")]));
    assert_eq!(
        errors,
        ["spec.versions[1].schema.openAPIV3Schema.type: Invalid value: \"string\": must be object at the root"]
    );
    let errors = with(json!([version("v1", true, "string"), version("v2", false, "string")]));
    assert_eq!(errors, ["spec.validation.openAPIV3Schema.type: Invalid value: \"string\": must be object at the root"]);
    let errors = with(json!([{"name": "v1", "served": true, "storage": true}]));
    assert_eq!(errors, ["spec.versions[0].schema.openAPIV3Schema: Required value"]);
}

#[test]
fn columns_scale_and_selectable_fields_are_checked() {
    let with = |key: &str, value: Value| {
        let spec = json!({"type": "object", "properties": {"a": {"type": "string"}, "o": {"type": "object"}}});
        let mut crd = crd(json!({"type": "object", "properties": {"spec": spec}}));
        crd["spec"]["versions"][0][key] = value;
        told(crd)
    };
    assert_eq!(
        with("additionalPrinterColumns", json!([{"name": "", "type": "x", "format": "y", "jsonPath": "a"}])),
        [
            "spec.additionalPrinterColumns[0].name: Required value",
            "spec.additionalPrinterColumns[0].type: Invalid value: \"x\": must be one of boolean,date,integer,number,string",
            "spec.additionalPrinterColumns[0].format: Invalid value: \"y\": must be one of byte,date,date-time,double,float,int32,int64,password",
            "spec.additionalPrinterColumns[0].JSONPath: Invalid value: \"a\": must be a simple json path starting with .",
        ]
    );
    assert_eq!(
        with(
            "subresources",
            json!({"scale": {"specReplicasPath": ".a", "statusReplicasPath": "", "labelSelectorPath": ".x"}})
        ),
        [
            "spec.subresources.scale.specReplicasPath: Invalid value: \".a\": should be a json path under .spec",
            "spec.subresources.scale.statusReplicasPath: Required value",
            "spec.subresources.scale.labelSelectorPath: Invalid value: \".x\": should be a json path under either .spec or .status",
        ]
    );
    assert_eq!(
        with(
            "selectableFields",
            json!([{"jsonPath": ".spec.a"}, {"jsonPath": ".spec.a"}, {"jsonPath": ".spec.o"}, {"jsonPath": ".nope"}])
        ),
        [
            "spec.selectableFields[1].jsonPath: Duplicate value: \".spec.a\"",
            "spec.selectableFields[2].jsonPath: Invalid value: \".spec.o\": must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.",
            "spec.selectableFields[3].jsonPath: Invalid value: \".nope\": is an invalid path: does not refer to a valid field",
        ]
    );
}

#[test]
fn conversion_by_webhook_is_checked_and_then_not_supported() {
    refused(
        "/spec/conversion",
        json!({"strategy": "X"}),
        "spec.conversion.strategy: Unsupported value: \"X\": supported values: \"None\", \"Webhook\"",
    );
    let mut crd = plain();
    crd["spec"]["conversion"] = json!({"strategy": "Webhook"});
    let missing = [
        "spec.conversion.webhookClientConfig: Required value: required when strategy is set to Webhook",
        "spec.conversion.conversionReviewVersions: Required value",
    ];
    assert_eq!(told(crd.clone()), missing);
    crd["spec"]["conversion"]["webhook"] =
        json!({"conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://a/b"}});
    assert_eq!(
        told(crd),
        ["spec.conversion.strategy: Forbidden: conversion by webhook is not supported yet, use None"]
    );
}

/// A schema of `spec`, and what is told of it without the way there.
#[test]
fn schemas_must_be_structural() {
    let text = || json!({"type": "string"});
    let cases: Vec<(Value, Vec<&str>)> = vec![
        (json!({}), vec![".type: Required value: must not be empty for specified object fields"]),
        (json!({"type": "array"}), vec![".items: Required value: must be specified"]),
        (
            json!({"type": "array", "items": {}}),
            vec![".items.type: Required value: must not be empty for specified array items"],
        ),
        (
            json!({"type": "text"}),
            vec![
                ".type: Unsupported value: \"text\": supported values: \"array\", \"boolean\", \"integer\", \"number\", \"object\", \"string\"",
            ],
        ),
        (
            json!({"type": "object", "additionalProperties": text(), "properties": {"a": text()}}),
            vec![".additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive"],
        ),
        (
            json!({"type": "string", "pattern": "("}),
            vec![
                ".pattern: Invalid value: \"(\": must be a valid regular expression, but isn't: error parsing regexp: missing closing ): `(`",
            ],
        ),
        (
            json!({"type": "string", "anyOf": [{"type": "string", "default": "x", "description": "d"}]}),
            vec![
                ".anyOf[0].default: Forbidden: must be undefined to be structural",
                ".anyOf[0].description: Forbidden: must be empty to be structural",
                ".anyOf[0].type: Forbidden: must be empty to be structural",
            ],
        ),
        (json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]}), vec![]),
        (
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": false}),
            vec![".x-kubernetes-preserve-unknown-fields: Invalid value: false: must be true or undefined"],
        ),
        (
            json!({"type": "object", "x-kubernetes-embedded-resource": true}),
            vec![
                ".properties: Required value: must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields",
            ],
        ),
        (
            json!({"type": "array", "items": text(), "uniqueItems": true}),
            vec![
                ".uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
            ],
        ),
        (json!({"type": "string", "$ref": "x"}), vec![".$ref: Forbidden: $ref is not supported"]),
        (
            json!({"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "set"}),
            vec![
                ".items.x-kubernetes-map-type: Invalid value: null: must be atomic as item of a list with x-kubernetes-list-type=set",
            ],
        ),
        (
            json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a", "b", "b"],
                "items": {"type": "object", "properties": {"a": {"type": "string", "nullable": true}}}}),
            vec![
                ".x-kubernetes-list-map-keys: Invalid value: [\"a\",\"b\",\"b\"]: entries must all be names of item properties",
                ".x-kubernetes-list-map-keys: Invalid value: [\"a\",\"b\",\"b\"]: entries must all be names of item properties",
                ".x-kubernetes-list-map-keys: Invalid value: [\"a\",\"b\",\"b\"]: must not contain duplicate entries",
                ".items.properties[a].default: Required value: this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property",
                ".items.properties[a].nullable: Forbidden: this property is in x-kubernetes-list-map-keys, so it cannot be nullable",
            ],
        ),
        (
            json!({"type": "integer", "default": "x"}),
            vec![".default: Invalid value: \"string\":  in body must be of type integer: \"string\""],
        ),
        (
            json!({"type": "object", "default": {"b": 1}, "properties": {"a": text()}}),
            vec![".default: Invalid value: {\"b\":1}: must not have unknown fields"],
        ),
        (
            json!({"type": "string", "x-kubernetes-validations": [{"rule": " ", "fieldPath": ".x", "reason": "Odd"}]}),
            vec![
                ".x-kubernetes-validations[0].rule: Required value: rule is not specified",
                ".x-kubernetes-validations[0].reason: Unsupported value: \"Odd\": supported values: \"FieldValueDuplicate\", \"FieldValueForbidden\", \"FieldValueInvalid\", \"FieldValueRequired\"",
                ".x-kubernetes-validations[0].fieldPath: Invalid value: \".x\": must be a valid path",
            ],
        ),
    ];
    for (spec, expected) in cases {
        let errors = told(crd(json!({"type": "object", "properties": {"spec": spec}})));
        let at = "spec.validation.openAPIV3Schema.properties[spec]";
        let short: Vec<&str> = errors.iter().map(|error| error.strip_prefix(at).unwrap_or(error)).collect();
        assert_eq!(short, expected, "{spec}");
    }
}

#[test]
fn metadata_and_junctors_at_the_root_have_rules_of_their_own() {
    let at = "spec.validation.openAPIV3Schema";
    let metadata = |schema: Value| told(crd(json!({"type": "object", "properties": {"metadata": schema}})));
    assert_eq!(
        metadata(json!({"type": "object", "properties": {"name": {"type": "string", "maxLength": 9}}})),
        Vec::<String>::new()
    );
    let only = "must not specify anything other than name and generateName, but metadata is implicitly specified";
    assert_eq!(
        metadata(json!({"type": "object", "required": ["name"]})),
        [format!("{at}.properties[metadata]: Forbidden: {only}")]
    );
    let name = json!({"type": "object", "properties": {"name": {"type": "string", "default": "x"}}});
    assert_eq!(
        metadata(name),
        [format!(
            "{at}.properties[metadata].properties[name].default: Forbidden: must not be set in top-level metadata"
        )]
    );
    let undeclared = told(crd(json!({"type": "object", "anyOf": [{"properties": {"a": {"minimum": 1}}}]})));
    assert_eq!(
        undeclared,
        [format!("{at}.properties[a]: Required value: because it is defined in {at}.anyOf[0].properties[a]")]
    );
    let mut with_status = crd(json!({"type": "object", "minProperties": 1}));
    with_status["spec"]["versions"][0]["subresources"] = json!({"status": {}});
    let errors = told(with_status);
    assert!(
        errors[0].ends_with("fields are allowed at the root of the schema if the status subresource is enabled"),
        "{errors:?}"
    );
}

#[test]
fn what_names_stored_objects_cannot_change() {
    let update = |change: &dyn Fn(&mut Value)| {
        let mut old = object(plain());
        default(&mut old);
        old["status"]["conditions"] = json!([{"type": "Established", "status": "True"}]);
        let mut new = Value::Object(old.clone());
        change(&mut new);
        let mut new = object(new);
        prepare_update(&mut new, &old);
        validate(&new, Some(&old)).iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(update(&|_| {}), Vec::<String>::new());
    assert_eq!(
        update(&|crd| crd["spec"]["scope"] = "Cluster".into()),
        ["spec.scope: Invalid value: \"Cluster\": field is immutable"]
    );
    assert_eq!(
        update(&|crd| crd["spec"]["names"]["kind"] = "Gadget".into()),
        ["spec.names.kind: Invalid value: \"Gadget\": field is immutable"]
    );
    assert_eq!(
        update(&|crd| crd["spec"]["group"] = "x.com".into()),
        ["spec.group: Invalid value: \"x.com\": field is immutable"]
    );
    let renamed = update(&|crd| crd["spec"]["versions"][0]["name"] = "v2".into());
    assert!(renamed[0].starts_with("status.storedVersions[0]: Invalid value: \"v1\": missing from spec.versions; v1 was previously a storage version"), "{renamed:?}");
    assert_eq!(renamed.len(), 1);
}

#[test]
fn the_status_says_which_versions_objects_are_stored_in() {
    let mut old = object(plain());
    old.insert("status".into(), json!({"storedVersions": ["nonsense"]}));
    prepare_create(&mut old);
    assert_eq!(old["status"], json!({"storedVersions": ["v1"]}));
    let mut new = old.clone();
    new["spec"]["versions"] = json!([{"name": "v2", "storage": true}, {"name": "v1"}]);
    new.remove("status");
    prepare_update(&mut new, &old);
    assert_eq!(new["status"], json!({"storedVersions": ["v1", "v2"]}));
}

#[test]
fn a_format_that_nothing_checks_is_warned_of_once() {
    let with = |format: &str| {
        object(crd(json!({"type": "object", "properties": {"a": {"type": "string", "format": format}}})))
    };
    assert_eq!(warnings(&with("made-up"), None), ["unrecognized format \"made-up\""]);
    assert_eq!(warnings(&with("date-time"), None), Vec::<String>::new());
    assert_eq!(warnings(&with("made-up"), Some(&with("made-up"))), Vec::<String>::new());
}

#[test]
fn rules_must_compile_be_affordable_and_know_their_old_selves() {
    let at = "spec.validation.openAPIV3Schema.properties[spec]";
    let with = |spec: Value| told(crd(json!({"type": "object", "properties": {"spec": spec}})));
    let ruled = |rule: Value| json!({"type": "object", "properties": {"a": {"type": "integer"}}, "x-kubernetes-validations": [rule]});
    let shown = |rule: &str| {
        format!(
            "{{\"Rule\":\"{rule}\",\"Message\":\"\",\"MessageExpression\":\"\",\"Reason\":null,\"FieldPath\":\"\",\"OptionalOldSelf\":null}}"
        )
    };
    assert_eq!(with(ruled(json!({"rule": "self.a > 0"}))), Vec::<String>::new());
    assert_eq!(
        with(ruled(json!({"rule": "self.b > 0"}))),
        [format!(
            "{at}.x-kubernetes-validations[0].rule: Invalid value: {}: compilation failed: ERROR: <input>:1:5: undefined field 'b'\n | self.b > 0\n | ....^",
            shown("self.b \\u003e 0")
        )]
    );
    assert_eq!(
        with(ruled(json!({"rule": "self.a"}))),
        [format!(
            "{at}.x-kubernetes-validations[0].rule: Invalid value: {}: cel expression must evaluate to a bool",
            shown("self.a")
        )]
    );
    assert_eq!(
        with(ruled(json!({"rule": "self.a > 0", "optionalOldSelf": true}))),
        [format!(
            "{at}.x-kubernetes-validations[0].optionalOldSelf: Invalid value: true: may not be set if oldSelf is not used in rule"
        )]
    );
    let list = json!({"type": "array", "items": ruled(json!({"rule": "self.a == oldSelf.a"}))});
    assert_eq!(
        with(list),
        [format!(
            "{at}.items.x-kubernetes-validations[0].rule: Invalid value: \"self.a == oldSelf.a\": oldSelf cannot be used on the uncorrelatable portion of the schema within {at}"
        )]
    );
    let expensive = json!({"type": "array", "items": {"type": "array", "items": {"type": "string",
        "x-kubernetes-validations": [{"rule": "self.contains('x')"}]}}});
    let advice = "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)";
    assert_eq!(
        with(expensive),
        [
            format!(
                "{at}.items.items.x-kubernetes-validations[0].rule: Forbidden: estimated rule cost exceeds budget by factor of more than 100x {advice}"
            ),
            format!(
                "{at}.items.items.x-kubernetes-validations[0].rule: Forbidden: contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
            ),
            format!(
                "spec.validation.openAPIV3Schema: Forbidden: x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema exceeds budget by factor of more than 100x {advice}"
            ),
        ]
    );
    let default = json!({"type": "object", "default": {"a": 0}, "properties": {"a": {"type": "integer"}},
        "x-kubernetes-validations": [{"rule": "self.a > 0"}]});
    assert_eq!(with(default), [format!("{at}.default: Invalid value: \"object\": failed rule: self.a > 0")]);
}
