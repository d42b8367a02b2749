use proptest::prelude::*;
use serde_json::json;

use super::*;

fn decoded(group: &str, version: &str, kind: &str, mut value: Value) -> (Value, Vec<String>) {
    let facts = Facts::builtin();
    let unknown = decode(facts, facts.kind(group, version, kind).unwrap(), &mut value).unwrap().unknown;
    (value, unknown)
}

fn refused(group: &str, version: &str, kind: &str, mut value: Value) -> String {
    let facts = Facts::builtin();
    decode(facts, facts.kind(group, version, kind).unwrap(), &mut value).unwrap_err().to_string()
}

#[test]
fn unknown_fields_go_and_are_told_by_path() {
    let pod = json!({"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","nmae":1},"foo":{},
        "spec":{"containers":[{"name":"c","image":"i"},{"name":"d","imag":"x"}],"foo":null}});
    let (value, unknown) = decoded("", "v1", "Pod", pod);
    assert_eq!(unknown, ["foo", "metadata.nmae", "spec.containers[1].imag", "spec.foo"]);
    assert_eq!(
        value,
        json!({"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"status":{},
        "spec":{"containers":[{"name":"c","image":"i","resources":{}},{"name":"d","resources":{}}]}})
    );
}

#[test]
fn mismatches_are_worded_as_go_words_them() {
    for (kind, value, error) in [
        (
            "ConfigMap",
            json!({"data":"x"}),
            "json: cannot unmarshal string into Go struct field ConfigMap.data of type map[string]string",
        ),
        (
            "ConfigMap",
            json!({"data":{"a":1}}),
            "json: cannot unmarshal number into Go struct field ConfigMap.data of type string",
        ),
        (
            "ConfigMap",
            json!({"immutable":"x"}),
            "json: cannot unmarshal string into Go struct field ConfigMap.immutable of type bool",
        ),
        (
            "ConfigMap",
            json!({"metadata":{"labels":[]}}),
            "json: cannot unmarshal array into Go struct field ObjectMeta.metadata.labels of type map[string]string",
        ),
        (
            "ConfigMap",
            json!({"metadata":"x"}),
            "json: cannot unmarshal string into Go struct field ConfigMap.metadata of type v1.ObjectMeta",
        ),
        ("ConfigMap", json!([]), "json: cannot unmarshal array into Go value of type v1.ConfigMap"),
        (
            "Secret",
            json!({"type":1}),
            "json: cannot unmarshal number into Go struct field Secret.type of type v1.SecretType",
        ),
        ("Secret", json!({"data":{"a":"not base64"}}), "illegal base64 data at input byte 3"),
        (
            "Pod",
            json!({"spec":{"containers":{}}}),
            "json: cannot unmarshal object into Go struct field PodSpec.spec.containers of type []v1.Container",
        ),
        (
            "Pod",
            json!({"spec":{"containers":[{"name":true}]}}),
            "json: cannot unmarshal bool into Go struct field Container.spec.containers.name of type string",
        ),
        (
            "Pod",
            json!({"spec":{"priority":3000000000u64}}),
            "json: cannot unmarshal number 3000000000 into Go struct field PodSpec.spec.priority of type int32",
        ),
        (
            "Pod",
            json!({"spec":{"priority":1.5}}),
            "json: cannot unmarshal number 1.5 into Go struct field PodSpec.spec.priority of type int32",
        ),
        (
            "Pod",
            json!({"metadata":{"creationTimestamp":1}}),
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.creationTimestamp of type string",
        ),
        (
            "Service",
            json!({"spec":{"ports":[{"targetPort":true}]}}),
            "json: cannot unmarshal bool into Go struct field ServicePort.spec.ports.targetPort of type int32",
        ),
    ] {
        assert_eq!(refused("", "v1", kind, value), error);
    }
}

#[test]
fn zero_values_go_where_go_omits_them_and_come_where_it_writes_them() {
    let event = json!({"metadata":{"name":"e","namespace":"","creationTimestamp":null,"labels":{}},"count":0,"reason":"",
        "eventTime":"2024-01-01T01:00:00.123456+01:00","firstTimestamp":"0001-01-01T00:00:00Z"});
    assert_eq!(
        decoded("", "v1", "Event", event).0,
        json!({"metadata":{"name":"e"},"involvedObject":{},"source":{},"firstTimestamp":null,"lastTimestamp":null,
            "eventTime":"2024-01-01T00:00:00.123456Z","reportingComponent":"","reportingInstance":""})
    );
    assert_eq!(decoded("", "v1", "Namespace", json!({})).0, json!({"metadata":{},"spec":{},"status":{}}));
    assert_eq!(decoded("", "v1", "Service", json!({})).0["status"], json!({"loadBalancer":{}}));
    assert_eq!(decoded("apps", "v1", "Deployment", json!({"spec":{"replicas":0}})).0["spec"]["replicas"], 0);
    assert_eq!(decoded("rbac.authorization.k8s.io", "v1", "Role", json!({"rules":[]})).0["rules"], json!([]));
    assert_eq!(
        decoded("", "v1", "ConfigMap", json!({"data":{"a":null},"binaryData":{"b":null},"immutable":false})).0,
        json!({"metadata":{},"data":{"a":""},"binaryData":{"b":""},"immutable":false})
    );
}

#[test]
fn special_types_take_their_one_form() {
    let (pod, _) = decoded(
        "",
        "v1",
        "Pod",
        json!({"spec":{"containers":[{"resources":{"limits":{"cpu":"1000m","memory":"0.5Gi"},"requests":{"cpu":1}}}]}}),
    );
    assert_eq!(
        pod["spec"]["containers"][0]["resources"],
        json!({"limits":{"cpu":"1","memory":"512Mi"},"requests":{"cpu":"1"}})
    );
    let (lease, _) = decoded(
        "coordination.k8s.io",
        "v1",
        "Lease",
        json!({"spec":{"renewTime":"2024-01-01T00:00:00.000001Z","leaseDurationSeconds":15}}),
    );
    assert_eq!(lease["spec"]["renewTime"], "2024-01-01T00:00:00.000001Z");
    let (service, _) = decoded("", "v1", "Service", json!({"spec":{"ports":[{"port":80,"targetPort":"http"}]}}));
    assert_eq!(service["spec"]["ports"], json!([{"port":80,"targetPort":"http"}]));
    let crd = json!({"spec":{"group":"g","names":{"plural":"p","kind":"K"},"scope":"Namespaced","versions":[{"name":"v1","served":true,"storage":true,
        "schema":{"openAPIV3Schema":{"type":"object","default":{"any":[1,null]},"properties":{"a":{"type":"array","items":{"type":"number","maximum":5.0,"unknown":1}},
        "b":{"additionalProperties":false}}}}}]}});
    let (crd, unknown) = decoded("apiextensions.k8s.io", "v1", "CustomResourceDefinition", crd);
    let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    assert_eq!(schema["properties"]["a"], json!({"type":"array","items":{"type":"number","maximum":5}}));
    assert_eq!(schema["default"], json!({"any":[1,null]}));
    assert!(unknown.is_empty());
}

#[test]
fn nesting_without_end_is_refused() {
    let mut schema = json!({});
    for _ in 0..400 {
        schema = json!({"not": schema});
    }
    let crd = json!({"spec":{"versions":[{"schema":{"openAPIV3Schema":schema}}]}});
    assert_eq!(refused("apiextensions.k8s.io", "v1", "CustomResourceDefinition", crd), Mismatch::Depth.to_string());
}

#[test]
fn a_body_of_empty_objects_cannot_take_much_memory() {
    let owners = |count| json!({"metadata":{"ownerReferences":vec![json!({}); count]}});
    assert_eq!(refused("", "v1", "ConfigMap", owners(MAX_FILLED + 1)), Mismatch::Empty.to_string());
    assert!(decoded("", "v1", "ConfigMap", owners(1000)).1.is_empty());
}

#[test]
fn metadata_of_custom_resources_is_decoded_alone() {
    let facts = Facts::builtin();
    let mut metadata = json!({"name":"x","foo":1,"annotations":{"a":null}});
    let decoded = decode(facts, facts.named("meta/v1.ObjectMeta").unwrap(), &mut metadata).unwrap();
    assert_eq!((metadata, decoded.unknown), (json!({"name":"x","annotations":{"a":""}}), vec!["foo".to_owned()]));
}

/// JSON of any kind under names that the types really have, so that decoding gets past the first level.
fn any_json() -> impl Strategy<Value = Value> {
    let names = prop::sample::select(vec![
        "metadata",
        "spec",
        "status",
        "name",
        "labels",
        "containers",
        "template",
        "selector",
        "data",
        "ports",
        "schema",
        "versions",
        "openAPIV3Schema",
        "items",
        "properties",
        "resources",
        "limits",
        "volumes",
        "creationTimestamp",
        "rules",
        "verbs",
        "x",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-3i64..3).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop::sample::select(vec!["", "a", "aGVsbG8=", "2024-01-01T00:00:00+01:00", "1Gi", "1000m"])
            .prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 64, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::vec((names.clone(), inner), 0..6)
                .prop_map(|pairs| Value::Object(pairs.into_iter().map(|(k, v)| (k.to_owned(), v)).collect())),
        ]
    })
}

proptest! {
    #[test]
    fn decoding_is_idempotent_and_never_panics(kind in 0..Facts::builtin().kinds.len(), value in any_json()) {
        let facts = Facts::builtin();
        let ty = facts.get(facts.kinds[kind].1);
        let mut once = value;
        if decode(facts, ty, &mut once).is_ok() {
            let mut twice = once.clone();
            prop_assert_eq!(decode(facts, ty, &mut twice), Ok(Decoded::default()));
            prop_assert_eq!(once, twice);
        }
    }

    #[test]
    fn the_zero_object_of_every_kind_is_stable(kind in 0..Facts::builtin().kinds.len()) {
        let facts = Facts::builtin();
        let ty = facts.get(facts.kinds[kind].1);
        let mut once = json!({});
        decode(facts, ty, &mut once).unwrap();
        let mut twice = once.clone();
        decode(facts, ty, &mut twice).unwrap();
        prop_assert_eq!(once, twice);
    }
}
