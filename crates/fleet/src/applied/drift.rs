//! What of a wish is not so on the member. Pure; fields nobody wished for are nobody's business.

use serde_json::Value;

/// More than these are counted, not listed.
const MOST: usize = 20;

/// The paths at which `live` is not what `wanted` says.
pub(crate) fn differences(wanted: &Value, live: &Value) -> Vec<String> {
    let mut found = Vec::new();
    compare(wanted, live, &mut String::new(), &mut found);
    found
}

fn compare(wanted: &Value, live: &Value, path: &mut String, found: &mut Vec<String>) {
    if found.len() >= MOST {
        return;
    }
    match (wanted, live) {
        (Value::Object(wanted), Value::Object(live)) => {
            for (name, value) in wanted {
                // An empty wish is as good as none.
                let empty = value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty);
                within(path, &format!(".{name}"), |path| match live.get(name) {
                    Some(live) => compare(value, live, path, found),
                    None if empty => {}
                    None => found.push(path.clone()),
                });
            }
        }
        (Value::Array(wanted), Value::Array(live)) => lists(wanted, live, path, found),
        (Value::Number(wanted), Value::Number(live)) if wanted.as_f64() == live.as_f64() => {}
        (Value::Null, _) => {}
        (wanted, live) if wanted == live => {}
        _ => found.push(if path.is_empty() { ".".to_owned() } else { path.clone() }),
    }
}

/// Items with a name are found by it, texts anywhere; others by their place.
fn lists(wanted: &[Value], live: &[Value], path: &mut String, found: &mut Vec<String>) {
    let name = |item: &Value| item.get("name").and_then(Value::as_str).map(str::to_owned);
    let named = wanted.iter().chain(live).all(|item| name(item).is_some());
    if named {
        for item in wanted {
            let same = name(item);
            within(path, &format!("[{}]", same.clone().unwrap_or_default()), |path| {
                match live.iter().find(|other| name(other) == same) {
                    Some(other) => compare(item, other, path, found),
                    None => found.push(path.clone()),
                }
            });
        }
    } else if wanted.len() > live.len() || (wanted.len() < live.len() && !wanted.iter().all(Value::is_string)) {
        found.push(path.clone());
    } else if wanted.iter().all(Value::is_string) {
        if !wanted.iter().all(|item| live.contains(item)) {
            found.push(path.clone());
        }
    } else {
        for (at, (item, other)) in wanted.iter().zip(live).enumerate() {
            within(path, &format!("[{at}]"), |path| compare(item, other, path, found));
        }
    }
}

fn within(path: &mut String, part: &str, then: impl FnOnce(&mut String)) {
    let length = path.len();
    path.push_str(part);
    then(path);
    path.truncate(length);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_was_wished_for_counts() {
        let wanted = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"replicas": 2, "empty": {}, "none": null,
            "containers": [{"name": "web", "image": "i:1"}], "finalizers": ["f"], "ports": [{"port": 80}]}});
        let mut live = json!({"metadata": {"labels": {"a": "b", "c": "d"}, "uid": "u"}, "spec": {"replicas": 2.0,
            "containers": [{"name": "injected"}, {"name": "web", "image": "i:1", "policy": "Always"}],
            "finalizers": ["other", "f"], "ports": [{"port": 80, "protocol": "TCP"}]}, "status": {}});
        assert_eq!(differences(&wanted, &live), [] as [&str; 0]);
        live["spec"]["replicas"] = json!(3);
        live["spec"]["containers"][1]["image"] = json!("i:2");
        live["metadata"]["labels"].as_object_mut().unwrap().remove("a");
        live["spec"]["ports"] = json!([{"port": 80}, {"port": 81}]);
        assert_eq!(
            differences(&wanted, &live),
            [".metadata.labels.a", ".spec.containers[web].image", ".spec.ports", ".spec.replicas"]
        );
    }

    #[test]
    fn another_shape_is_one_difference() {
        assert_eq!(differences(&json!({"a": {"b": 1}}), &json!({"a": "text"})), [".a"]);
        assert_eq!(differences(&json!(1), &json!({})), ["."]);
        assert_eq!(differences(&json!({"l": ["a", "b"]}), &json!({"l": ["b"]})), [".l"]);
    }
}
