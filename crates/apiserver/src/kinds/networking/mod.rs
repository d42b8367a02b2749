//! networking.k8s.io: Ingress, IngressClass, NetworkPolicy.

pub mod cidr;
mod columns;
mod ingress;
mod policy;

use super::Behaviour;
use super::builtin::{PLAIN, Row};
use super::defaults;
use serde_json::{Map, Value, json};

static INGRESS: Behaviour = Behaviour {
    generation: true,
    status: true,
    columns: columns::INGRESS,
    cells: columns::ingress,
    default: |object| defaults::apply("networking/v1.Ingress", &mut object.0),
    validate: ingress::validate,
    validate_create: ingress::validate_create,
    validate_part: |_, new, old| ingress::validate_status(new, old),
    warnings: Some(ingress::warnings),
    ..PLAIN
};

static INGRESS_CLASS: Behaviour = Behaviour {
    generation: true,
    columns: columns::INGRESS_CLASS,
    cells: columns::ingress_class,
    default: |object| defaults::apply("networking/v1.IngressClass", &mut object.0),
    validate: ingress::validate_class,
    validate_update: ingress::validate_class_update,
    ..PLAIN
};

static NETWORK_POLICY: Behaviour = Behaviour {
    generation: true,
    columns: columns::NETWORK_POLICY,
    cells: columns::network_policy,
    default: |object| defaults::apply("networking/v1.NetworkPolicy", &mut object.0),
    validate: policy::validate,
    warnings: Some(|new, _| policy::warnings(new)),
    ..PLAIN
};

#[rustfmt::skip]
pub const ROWS: &[Row] = &[
    Row { group: "networking.k8s.io", version: "v1", kind: "IngressClass", plural: "ingressclasses", singular: "ingressclass", short: &[], namespaced: false, collection: "networking.k8s.io/ingressclasses", stored_as: None, behaviour: &INGRESS_CLASS },
    Row { group: "networking.k8s.io", version: "v1", kind: "Ingress", plural: "ingresses", singular: "ingress", short: &["ing"], namespaced: true, collection: "networking.k8s.io/ingresses", stored_as: None, behaviour: &INGRESS },
    Row { group: "networking.k8s.io", version: "v1", kind: "NetworkPolicy", plural: "networkpolicies", singular: "networkpolicy", short: &["netpol"], namespaced: true, collection: "networking.k8s.io/networkpolicies", stored_as: None, behaviour: &NETWORK_POLICY },
];

#[rustfmt::skip]
pub const DEFAULTS: &[defaults::Row] = &[
    ("networking/v1.IngressClassParametersReference", r#"{"scope":"Cluster"}"#, defaults::nothing),
    ("networking/v1.NetworkPolicyPort", r#"{"protocol":"TCP"}"#, defaults::nothing),
    ("networking/v1.NetworkPolicySpec", "{}", policy_types),
];

/// A policy is about incoming traffic, and about outgoing when it has rules for that.
fn policy_types(spec: &mut Map<String, Value>) {
    let filled = |name: &str| spec.get(name).and_then(Value::as_array).is_some_and(|list| !list.is_empty());
    if !filled("policyTypes") {
        let types = if filled("egress") { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) };
        spec.insert("policyTypes".into(), types);
    }
}
