//! What a pod is when its author did not say.

use crate::kinds::defaults::{apply, set};
use meta::Object;
use serde_json::{Map, Value, json};

/// Defaults of a PodTemplateSpec, wherever it is embedded.
pub fn default_template(template: &mut Map<String, Value>) {
    if let Value::Object(spec) = template.entry("spec").or_insert_with(|| json!({})) {
        default_pod_spec(spec);
    }
}

pub fn default_pod_spec(spec: &mut Map<String, Value>) {
    apply("core/v1.PodSpec", spec);
}

/// A pod has defaults that templates do not: they would show in every object with a template.
pub fn default_pod(object: &mut Object) {
    if let Some(Value::Object(spec)) = object.0.get_mut("spec") {
        for list in ["containers", "initContainers"] {
            for container in containers(spec, list) {
                requests_from_limits(container);
            }
        }
        super::totals::default(spec);
        set(spec, "enableServiceLinks", true);
        if spec.get("hostNetwork").and_then(Value::as_bool).unwrap_or_default() {
            ["containers", "initContainers"].into_iter().for_each(|list| containers(spec, list).for_each(host_ports));
        }
        if spec.get("terminationGracePeriodSeconds").and_then(Value::as_i64).is_some_and(|seconds| seconds < 0) {
            spec.insert("terminationGracePeriodSeconds".into(), 1.into());
        }
    }
    apply("core/v1.Pod", &mut object.0);
}

fn containers<'a>(spec: &'a mut Map<String, Value>, list: &str) -> impl Iterator<Item = &'a mut Map<String, Value>> {
    let list = spec.get_mut(list).and_then(Value::as_array_mut);
    list.into_iter().flatten().filter_map(Value::as_object_mut)
}

fn requests_from_limits(container: &mut Map<String, Value>) {
    let Some(Value::Object(resources)) = container.get_mut("resources") else { return };
    let Some(Value::Object(limits)) = resources.get("limits").cloned() else { return };
    if let Value::Object(requests) = resources.entry("requests").or_insert_with(|| json!({})) {
        limits.into_iter().for_each(|(name, amount)| set(requests, &name, amount));
    }
}

/// On the host's network a container's port is the host's port.
fn host_ports(container: &mut Map<String, Value>) {
    let ports = container.get_mut("ports").and_then(Value::as_array_mut);
    for port in ports.into_iter().flatten().filter_map(Value::as_object_mut) {
        if let Some(number) = port.get("containerPort").cloned() {
            set(port, "hostPort", number);
        }
    }
}

/// A pod stays five minutes on a node that is not ready or not reachable. Nobody owns that: it is not its author's.
pub fn default_tolerations(spec: &mut Map<String, Value>) {
    const TAINTS: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];
    let list = spec.get("tolerations").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let text = |toleration: &Value, key: &str| toleration[key].as_str().unwrap_or_default().to_owned();
    let tolerated = |taint: &str| {
        list.iter().any(|toleration| {
            let (key, effect) = (text(toleration, "key"), text(toleration, "effect"));
            (key == taint || key.is_empty()) && (effect == "NoExecute" || effect.is_empty())
        })
    };
    let missing: Vec<Value> = TAINTS
        .into_iter()
        .filter(|taint| !tolerated(taint))
        .map(|taint| json!({"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}))
        .collect();
    if !missing.is_empty()
        && let Value::Array(list) = spec.entry("tolerations").or_insert_with(|| json!([]))
    {
        list.extend(missing);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(spec: Value) -> Value {
        let mut object = Object::from_value(json!({"spec": spec})).unwrap();
        default_pod(&mut object);
        default_tolerations(object.0["spec"].as_object_mut().unwrap());
        object.0["spec"].clone()
    }

    #[test]
    fn limits_are_requests_unless_requests_are_said() {
        let resources = json!({"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}});
        let spec = pod(json!({"containers": [{"name": "a", "resources": resources}]}));
        assert_eq!(spec["containers"][0]["resources"]["requests"], json!({"cpu": "1", "memory": "1Gi"}));
    }

    #[test]
    fn a_pod_on_the_hosts_network_takes_the_hosts_ports() {
        let spec = pod(json!({"hostNetwork": true, "containers": [{"name": "a", "ports": [{"containerPort": 80}]}]}));
        assert_eq!(spec["containers"][0]["ports"], json!([{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}]));
    }

    #[test]
    fn a_toleration_of_everything_needs_no_defaults() {
        let spec = pod(json!({"containers": [], "tolerations": [{"operator": "Exists"}]}));
        assert_eq!(spec["tolerations"], json!([{"operator": "Exists"}]));
        assert_eq!(pod(json!({"containers": []}))["tolerations"].as_array().unwrap().len(), 2);
    }

    #[test]
    fn a_template_does_not_get_what_only_pods_get() {
        let mut template =
            json!({"spec": {"containers": [{"name": "a", "image": "x:1"}]}}).as_object().unwrap().clone();
        default_template(&mut template);
        assert_eq!(
            template["spec"],
            json!({"containers": [{"name": "a", "image": "x:1", "imagePullPolicy": "IfNotPresent",
                "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}],
                "dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "schedulerName": "default-scheduler",
                "securityContext": {}, "terminationGracePeriodSeconds": 30})
        );
    }
}
