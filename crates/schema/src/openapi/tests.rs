use super::*;

const ALL: &[&str] = &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

fn resources() -> Vec<Resource<'static>> {
    let resource = |group, version, kind, plural, namespaced| Resource {
        group,
        version,
        kind,
        plural,
        namespaced,
        verbs: ALL,
        subresources: Vec::new(),
        defined: None,
    };
    let mut namespace = resource("", "v1", "Namespace", "namespaces", false);
    namespace.subresources.push(Subresource {
        name: "status",
        group: "",
        version: "v1",
        kind: "Namespace",
        verbs: &["get", "patch", "update"],
    });
    vec![
        resource("", "v1", "ConfigMap", "configmaps", true),
        resource("", "v1", "Service", "services", true),
        namespace,
        resource("apps", "v1", "Deployment", "deployments", true),
        resource("example.com", "v1", "Widget", "widgets", true),
    ]
}

/// Every `$ref` of a document.
fn references(value: &Value, into: &mut Vec<String>) {
    match value {
        Value::Object(map) => map.iter().for_each(|(key, value)| match value {
            Value::String(target) if key == "$ref" => into.push(target.clone()),
            _ => references(value, into),
        }),
        Value::Array(list) => list.iter().for_each(|value| references(value, into)),
        _ => {}
    }
}

#[test]
fn every_reference_leads_somewhere() {
    let facts = Facts::builtin();
    for document in [
        v3(facts, "", "v1", &resources(), "v1.34.0"),
        v3(facts, "apps", "v1", &resources(), ""),
        v2(facts, &resources(), ""),
    ] {
        let mut found = Vec::new();
        references(&document, &mut found);
        assert!(found.len() > 50);
        for target in found {
            let schema = document.pointer(target.trim_start_matches('#'));
            assert!(schema.is_some_and(Value::is_object), "{target}");
        }
    }
}

#[test]
fn kinds_are_found_by_group_version_and_kind() {
    let document = v3(Facts::builtin(), "", "v1", &resources(), "v1.34.0");
    let map = &document["components"]["schemas"]["io.k8s.api.core.v1.ConfigMap"];
    assert_eq!(map["x-kubernetes-group-version-kind"], json!([{"group": "", "version": "v1", "kind": "ConfigMap"}]));
    assert_eq!(map["properties"]["data"]["additionalProperties"], json!({"type": "string"}));
    assert!(document["components"]["schemas"].get("io.k8s.api.apps.v1.Deployment").is_none(), "other groups stay out");
}

#[test]
fn merging_is_told_as_clients_look_for_it() {
    let facts = Facts::builtin();
    for (document, ports) in [
        (v3(facts, "", "v1", &resources(), ""), "/components/schemas/io.k8s.api.core.v1.ServiceSpec/properties/ports"),
        (v2(facts, &resources(), ""), "/definitions/io.k8s.api.core.v1.ServiceSpec/properties/ports"),
    ] {
        let ports = document.pointer(ports).unwrap();
        assert_eq!(ports["x-kubernetes-patch-strategy"], "merge");
        assert_eq!(ports["x-kubernetes-patch-merge-key"], "port");
        assert_eq!(ports["x-kubernetes-list-type"], "map");
        assert_eq!(ports["x-kubernetes-list-map-keys"], json!(["port", "protocol"]));
    }
}

#[test]
fn patching_takes_field_validation() {
    let document = v3(Facts::builtin(), "", "v1", &resources(), "");
    let patch = &document["paths"]["/api/v1/namespaces/{namespace}/configmaps/{name}"]["patch"];
    assert_eq!(patch["operationId"], "patchCoreV1NamespacedConfigMap");
    assert!(
        patch["parameters"].as_array().unwrap().iter().any(|p| p["name"] == "fieldValidation" && p["in"] == "query")
    );
    assert_eq!(patch["x-kubernetes-group-version-kind"]["kind"], "ConfigMap");
    let paths: Vec<&String> =
        document["paths"].as_object().unwrap().keys().filter(|p| p.contains("namespaces/{name}")).collect();
    assert_eq!(paths, ["/api/v1/namespaces/{name}", "/api/v1/namespaces/{name}/status"]);
    assert_eq!(document["paths"]["/api/v1/configmaps"]["get"]["operationId"], "listCoreV1ConfigMapForAllNamespaces");
}

#[test]
fn kinds_without_facts_are_free_objects() {
    let document = v3(Facts::builtin(), "example.com", "v1", &resources(), "");
    assert_eq!(
        document["components"]["schemas"]["com.example.v1.Widget"]["x-kubernetes-preserve-unknown-fields"],
        true
    );
}

#[test]
fn the_protobuf_form_holds_every_definition() {
    let document = v2(Facts::builtin(), &resources(), "v1.34.0");
    let bytes = v2_protobuf(&document);
    for name in document["definitions"].as_object().unwrap().keys().chain(document["paths"].as_object().unwrap().keys())
    {
        assert!(bytes.windows(name.len()).any(|window| window == name.as_bytes()), "{name}");
    }
}

#[test]
fn the_protobuf_form_keeps_the_limits_of_custom_resources() {
    let limited = json!({"pattern": "^a$", "maxLength": 300, "maximum": 1.5, "exclusiveMaximum": true, "additionalProperties": true});
    let bytes = v2_protobuf(&json!({"definitions": {"Widget": limited}}));
    let holds = |part: &[u8]| bytes.windows(part.len()).any(|window| window == part);
    assert!(holds(&[13 << 3 | 2, 3, b'^', b'a', b'$']));
    assert!(holds(&[11 << 3, 0xac, 0x02]));
    assert!(holds(&[&[7 << 3 | 1][..], &1.5f64.to_le_bytes()].concat()));
    assert!(holds(&[8 << 3, 1]));
    assert!(holds(&[0xaa, 0x01, 2, 2 << 3, 1]));
}
