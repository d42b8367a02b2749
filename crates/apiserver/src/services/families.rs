//! Which families of addresses a service speaks: what its author says of it, made complete. This cluster speaks IPv4; only a headless
//! service without a selector may say otherwise.

use super::invalid;
use crate::kinds::check::At;
use crate::kinds::service;
use meta::{FieldError, Object, Status};
use serde_json::{Map, Value};

const POLICY: &str = "spec.ipFamilyPolicy";

/// Fills in `ipFamilyPolicy` and `ipFamilies`, or says why they cannot be what was asked for.
pub(super) fn settle(object: &mut Object, old: Option<&Object>) -> Result<(), Status> {
    let nothing = Map::new();
    let was = old.and_then(|old| old.0.get("spec")).and_then(Value::as_object).unwrap_or(&nothing);
    let was = At::root("spec", was);
    let Some(spec) = service::spec_mut(object) else { return Ok(()) };
    let at = At::root("spec", spec);
    if !service::needs_address(&at) || (old.is_some() && stays(&at, &was)) {
        return Ok(());
    }
    let open = at.text("clusterIP") == "None" && at.entries("selector").next().is_none();
    let policy = match (at.text("ipFamilyPolicy"), was.text("ipFamilyPolicy")) {
        ("", "") if open => "RequireDualStack",
        ("", "") => "SingleStack",
        ("", before) => before,
        (said, _) => said,
    }
    .to_owned();
    let mut addresses = at.list("clusterIPs").to_vec();
    let mut families = at.list("ipFamilies").to_vec();
    let mut errors = service::addresses(&at);
    if errors.is_empty() {
        errors = agree(&policy, &was, &mut addresses, &mut families);
    }
    if errors.is_empty() && !open {
        if policy == "RequireDualStack" {
            let why = "this cluster is not configured for dual-stack services";
            errors.push(FieldError::invalid(POLICY, policy.as_str(), why));
        }
        for (i, family) in families.iter().enumerate().filter(|(_, family)| *family != "IPv4") {
            let field = format!("spec.ipFamilies[{i}]");
            errors.push(FieldError::invalid(field, family.clone(), "not configured on this cluster"));
        }
    }
    if !errors.is_empty() {
        return Err(invalid(object, &errors));
    }
    if families.is_empty() {
        families.push("IPv4".into());
    }
    if open && families.len() == 1 && policy != "SingleStack" {
        families.push(if families[0] == "IPv4" { "IPv6".into() } else { "IPv4".into() });
    }
    spec.insert("ipFamilyPolicy".into(), policy.into());
    spec.insert("ipFamilies".into(), families.into());
    if !addresses.is_empty() {
        spec.insert("clusterIPs".into(), addresses.into());
    }
    Ok(())
}

/// A service that would have both families if there were both is left as it is, whatever the cluster speaks by now.
fn stays(at: &At<'_>, was: &At<'_>) -> bool {
    let before = was.text("ipFamilyPolicy");
    at.text("ipFamilyPolicy") == "PreferDualStack"
        && (before.is_empty() || before == "PreferDualStack")
        && ["type", "clusterIPs", "ipFamilies"].iter().all(|key| at.value(key) == was.value(key))
}

/// Policy, addresses and families must say the same; who asks for one stack gives the second up, and families follow from addresses.
fn agree(policy: &str, was: &At<'_>, addresses: &mut Vec<Value>, families: &mut Vec<Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let single = policy == "SingleStack";
    let mut tell = |why: String| errors.push(FieldError::invalid(POLICY, policy, why));
    for (list, key, one, many) in [
        (&mut *addresses, "clusterIPs", "cluster IP", "cluster IPs"),
        (&mut *families, "ipFamilies", "IP family", "IP families"),
    ] {
        let before = was.list(key);
        if single && list.len() > 1 && list == before {
            list.truncate(1);
        } else if !single && !list.is_empty() && list.len() < before.len() {
            tell(format!("must be 'SingleStack' to release the secondary {one}"));
        }
        if single && list.len() == 2 {
            tell(format!("must be 'RequireDualStack' or 'PreferDualStack' when multiple {many} are specified"));
        }
    }
    for (i, address) in addresses.iter().enumerate().take_while(|(_, address)| *address != "None") {
        if i < families.len() {
            continue;
        }
        if address.as_str().unwrap_or_default().contains(':') {
            let why = "IPv6 is not configured on this cluster";
            errors.push(FieldError::invalid(format!("spec.clusterIPs[{i}]"), addresses.clone(), why));
        } else {
            families.push("IPv4".into());
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn settled(spec: Value, old: Option<Value>) -> Result<Value, String> {
        let service = |spec: Value| Object::from_value(json!({"metadata": {"name": "s"}, "spec": spec})).unwrap();
        let mut object = service(spec);
        settle(&mut object, old.map(service).as_ref()).map_err(|status| status.message)?;
        Ok(object.0["spec"].clone())
    }

    #[test]
    fn a_service_speaks_one_family_unless_it_is_open() {
        let plain = settled(json!({"type": "ClusterIP"}), None).unwrap();
        assert_eq!((&plain["ipFamilyPolicy"], &plain["ipFamilies"]), (&json!("SingleStack"), &json!(["IPv4"])));
        let open = settled(json!({"type": "ClusterIP", "clusterIP": "None", "clusterIPs": ["None"]}), None).unwrap();
        assert_eq!(open["ipFamilies"], json!(["IPv4", "IPv6"]));
        assert_eq!(open["ipFamilyPolicy"], "RequireDualStack");
        let prefer = settled(json!({"type": "ClusterIP", "ipFamilyPolicy": "PreferDualStack"}), None).unwrap();
        assert_eq!(prefer["ipFamilies"], json!(["IPv4"]));
    }

    #[test]
    fn two_stacks_are_refused_in_words() {
        for (spec, why) in [
            (json!({"ipFamilyPolicy": "RequireDualStack"}), "this cluster is not configured for dual-stack services"),
            (json!({"ipFamilies": ["IPv6"]}), "spec.ipFamilies[0]: Invalid value: \"IPv6\": not configured"),
            (json!({"ipFamilies": ["IPv4", "IPv6"]}), "when multiple IP families are specified"),
            (json!({"clusterIP": "::1", "clusterIPs": ["::1"]}), "IPv6 is not configured on this cluster"),
        ] {
            let told = settled(spec.clone(), None).unwrap_err();
            assert!(told.contains(why), "{spec}: {told}");
        }
    }

    #[test]
    fn an_update_keeps_the_policy_it_does_not_mention() {
        let old = json!({"type": "ClusterIP", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"],
            "ipFamilies": ["IPv4"], "ipFamilyPolicy": "PreferDualStack"});
        let mut new = old.clone();
        new.as_object_mut().unwrap().remove("ipFamilyPolicy");
        assert_eq!(settled(new, Some(old.clone())).unwrap()["ipFamilyPolicy"], "PreferDualStack");
        let two = json!({"type": "ClusterIP", "clusterIP": "None", "clusterIPs": ["None"], "selector": {"a": "b"},
            "ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "PreferDualStack"});
        let mut one = two.clone();
        one["ipFamilyPolicy"] = "SingleStack".into();
        assert_eq!(settled(one, Some(two.clone())).unwrap()["ipFamilies"], json!(["IPv4"]));
        let mut less = two.clone();
        less["ipFamilies"] = json!(["IPv4"]);
        assert!(settled(less, Some(two)).unwrap_err().contains("to release the secondary IP family"));
    }
}
