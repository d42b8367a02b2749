//! Lists without items: a body may hold them, and rules tell them from none; what is stored does not.

use serde_json::{Map, Value};

use crate::facts::{Facts, Form, Shape, Type};

/// Fields whose empty list is not the same as none, although neither is written: none gets a default.
const TOLD_APART: &[(&str, &str)] = &[("autoscaling/v2.HPAScalingRules", "policies")];

pub(crate) fn is_told_apart(ty: &Type, field: &str) -> bool {
    TOLD_APART.contains(&(ty.name, field))
}

/// Whether there is a list without items anywhere.
pub fn holds_empty_list(map: &Map<String, Value>) -> bool {
    fn any(value: &Value) -> bool {
        match value {
            Value::Array(list) => list.is_empty() || list.iter().any(any),
            Value::Object(map) => map.values().any(any),
            _ => false,
        }
    }
    map.values().any(any)
}

/// Makes lists without items into none: gone where the type omits them, null where it does not.
pub fn drop_empty_lists(facts: &Facts, ty: &Type, map: &mut Map<String, Value>) {
    map.retain(|name, value| {
        let Some(field) = ty.field(name) else { return true };
        if matches!(field.shape.form, Form::List(_) | Form::Items) && value.as_array().is_some_and(Vec::is_empty) {
            *value = Value::Null;
            return !field.omit_empty;
        }
        below(facts, &field.shape, value);
        true
    });
}

fn below(facts: &Facts, shape: &Shape, value: &mut Value) {
    match (&shape.form, value) {
        (Form::Struct(id), Value::Object(map)) => drop_empty_lists(facts, facts.get(*id), map),
        (Form::List(element), Value::Array(list)) => list.iter_mut().for_each(|item| below(facts, element, item)),
        (Form::Map(element), Value::Object(map)) => map.values_mut().for_each(|item| below(facts, element, item)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_empty_list_is_none_once_it_is_stored() {
        let facts = Facts::builtin();
        let role = json!({"metadata": {"finalizers": []}, "rules": [{"verbs": [], "resources": []}]});
        let Value::Object(mut role) = role else { panic!("an object") };
        assert!(holds_empty_list(&role));
        let ty = facts.kind("rbac.authorization.k8s.io", "v1", "Role").unwrap();
        drop_empty_lists(facts, ty, &mut role);
        assert_eq!(Value::Object(role.clone()), json!({"metadata": {}, "rules": [{"verbs": null}]}));
        assert!(!holds_empty_list(&role));
    }

    #[test]
    fn every_field_told_apart_exists() {
        for (ty, field) in TOLD_APART {
            assert!(Facts::builtin().named(ty).unwrap().field(field).is_some(), "{ty}.{field}");
        }
    }
}
