//! What the author of a service should be told although it is accepted.

use super::{HINTS, TOPOLOGY, needs_address};
use crate::kinds::check::At;
use crate::kinds::networking::cidr::{self, address_warning};
use meta::Object;

pub fn warnings(service: &Object, _: Option<&Object>) -> Vec<String> {
    let mut warnings = Vec::new();
    let root = At::root("", &service.0);
    let (metadata, spec) = (root.part("metadata"), root.part("spec"));
    if metadata.part("annotations").has(HINTS) {
        warnings.push(format!("annotation {HINTS} is deprecated, please use {TOPOLOGY} instead"));
    }
    let addresses = |list: &str, warnings: &mut Vec<String>| {
        let told = spec.texts(list).enumerate().filter(|(_, address)| *address != "None");
        warnings.extend(told.filter_map(|(i, address)| address_warning(&format!("spec.{list}[{i}]"), address)));
    };
    addresses("clusterIPs", &mut warnings);
    if spec.text("type") == "ClusterIP" && spec.text("clusterIP") == "None" {
        for (field, ignored) in [
            ("loadBalancerIP", spec.has("loadBalancerIP")),
            ("externalIPs", spec.has("externalIPs")),
            ("SessionAffinity", spec.text("sessionAffinity") != "None"),
        ] {
            if ignored {
                warnings.push(format!("spec.{field} is ignored for headless services"));
            }
        }
    }
    addresses("externalIPs", &mut warnings);
    warnings.extend(address_warning("spec.loadBalancerIP", spec.text("loadBalancerIP")));
    for (i, range) in spec.texts("loadBalancerSourceRanges").enumerate() {
        warnings.extend(cidr::warning(&format!("spec.loadBalancerSourceRanges[{i}]"), range));
    }
    if !needs_address(&spec) && spec.has("externalIPs") {
        warnings.push("spec.externalIPs is ignored when spec.type is \"ExternalName\"".to_owned());
    }
    if needs_address(&spec) && spec.has("externalName") {
        warnings.push("spec.externalName is ignored when spec.type is not \"ExternalName\"".to_owned());
    }
    warnings
}
