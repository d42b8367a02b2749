//! JSON merge patch (RFC 7386): objects merge key by key, null removes, everything else replaces.
//!
//! One step beyond the RFC, as in Kubernetes: nulls are also dropped from objects inside new arrays, so that a patch never
//! brings a null member into a document.

use serde_json::{Map, Value};

use crate::{Error, MAX_DEPTH};

/// Applies a patch to an object. Both must be objects: no Kubernetes object is anything else.
pub fn apply(document: Value, patch: &Value) -> Result<Value, Error> {
    match (document, patch) {
        (Value::Object(mut document), Value::Object(patch)) => {
            merge(&mut document, patch, 1)?;
            Ok(Value::Object(document))
        }
        _ => Err(Error::Malformed("a JSON merge patch must be an object".into())),
    }
}

/// `depth` counts the objects from the root to `document`, itself included.
fn merge(document: &mut Map<String, Value>, patch: &Map<String, Value>, depth: usize) -> Result<(), Error> {
    if depth > MAX_DEPTH {
        return Err(Error::TooDeep);
    }
    for (key, change) in patch {
        match (document.get_mut(key), change) {
            (_, Value::Null) => {
                document.remove(key);
            }
            (Some(Value::Object(members)), Value::Object(change)) => merge(members, change, depth + 1)?,
            (_, change) => {
                document.insert(key.clone(), without_nulls(change, depth)?);
            }
        }
    }
    Ok(())
}

/// A copy of a value that stands `depth` containers deep, without null members.
fn without_nulls(value: &Value, depth: usize) -> Result<Value, Error> {
    if depth > MAX_DEPTH {
        return Err(Error::TooDeep);
    }
    Ok(match value {
        Value::Object(members) => {
            let kept = members.iter().filter(|(_, member)| !member.is_null());
            Value::Object(
                kept.map(|(key, member)| Ok((key.clone(), without_nulls(member, depth + 1)?)))
                    .collect::<Result<_, Error>>()?,
            )
        }
        Value::Array(items) => {
            Value::Array(items.iter().map(|item| without_nulls(item, depth + 1)).collect::<Result<_, Error>>()?)
        }
        scalar => scalar.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strategic::tests::any_json;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn objects_merge_null_removes_the_rest_replaces() {
        for (document, patch, expected) in [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
            (json!({"a": "b"}), json!({"a": null}), json!({})),
            (json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"})),
            (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "c"}), json!({"a": ["b"]}), json!({"a": ["b"]})),
            (json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}})),
            (json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]})),
            (json!({"a": [1, 2]}), json!({"a": {"b": 1}}), json!({"a": {"b": 1}})),
            (json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1})),
            (json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
            (json!({"a": "s"}), json!({"a": {"b": null, "c": 1}}), json!({"a": {"c": 1}})),
            (json!({"a": [1]}), json!({"a": [null, {"x": null, "y": 1}]}), json!({"a": [null, {"y": 1}]})),
            (json!({"a": 1}), json!({}), json!({"a": 1})),
        ] {
            assert_eq!(apply(document, &patch), Ok(expected), "{patch}");
        }
    }

    #[test]
    fn only_objects_patch_objects() {
        for patch in [json!([]), json!(1), json!(null), json!("x")] {
            assert_eq!(apply(json!({}), &patch).unwrap_err().code(), 400);
        }
    }

    #[test]
    fn b2_depth_is_bounded() {
        let nest = |levels: usize| (1..levels).fold(json!({}), |inner, _| json!({"a": inner}));
        assert!(apply(nest(MAX_DEPTH), &nest(MAX_DEPTH)).is_ok());
        assert_eq!(apply(json!({}), &nest(MAX_DEPTH + 2)), Err(Error::TooDeep));
        assert_eq!(apply(nest(2 * MAX_DEPTH), &nest(2 * MAX_DEPTH)), Err(Error::TooDeep));
    }

    /// The patch that leads from one object to another.
    fn diff(from: &Map<String, Value>, to: &Map<String, Value>) -> Value {
        let mut patch = Map::new();
        for key in from.keys().filter(|key| !to.contains_key(*key)) {
            patch.insert(key.clone(), Value::Null);
        }
        for (key, value) in to {
            match (from.get(key), value) {
                (Some(Value::Object(from)), Value::Object(to)) => patch.insert(key.clone(), diff(from, to)),
                (Some(same), value) if same == value => None,
                _ => patch.insert(key.clone(), value.clone()),
            };
        }
        Value::Object(patch)
    }

    fn any_object() -> impl Strategy<Value = Value> {
        prop::collection::btree_map("[a-c]", any_json(), 0..4).prop_map(|members| members.into_iter().collect())
    }

    proptest! {
        #[test]
        fn the_difference_leads_from_one_to_the_other(a in any_object(), b in any_object()) {
            let b = without_nulls(&b, 0).unwrap();
            let patch = diff(a.as_object().unwrap(), b.as_object().unwrap());
            prop_assert_eq!(apply(a, &patch), Ok(b));
        }

        #[test]
        fn applying_twice_is_applying_once(a in any_object(), patch in any_object()) {
            let once = apply(a, &patch).unwrap();
            prop_assert_eq!(apply(once.clone(), &patch), Ok(once));
        }

        #[test]
        fn b1_never_panics(a in any_json(), patch in any_json()) {
            let objects = a.is_object() && patch.is_object();
            prop_assert_eq!(apply(a, &patch).is_ok(), objects);
        }
    }
}
