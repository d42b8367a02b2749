//! What selectors and the garbage collector ask of objects, told once per version.

use super::Registry;
use meta::Object;
use serde_json::Value;
use std::sync::Arc;
use store::{Attrs, Key};

pub(super) fn describe(object: &Object, selectable: &[(&str, &'static str)]) -> Attrs {
    let fields = selectable.iter().filter_map(|(_, path)| {
        let (steps, absent) = path.split_once('?').unwrap_or((path, ""));
        let mut steps = steps.split('.');
        let first = steps.next().and_then(|step| object.0.get(step));
        let value = steps.fold(first, |value, step| value?.get(step));
        let text = match value {
            None | Some(Value::Null) => absent.to_owned(),
            Some(Value::String(s)) => s.clone(),
            Some(other) => other.to_string(),
        };
        if text.is_empty() {
            return None;
        }
        Some(((*path).into(), text.into()))
    });
    Attrs {
        labels: object.labels().map(|(k, v)| (k.into(), v.into())).collect(),
        fields: fields.collect(),
        uid: object.uid().into(),
        owners: object.owners().map(|o| o.uid.into()).collect(),
    }
}

/// Derives the facts of values that come from disk or from another writer.
pub fn describer(registry: Arc<Registry>) -> store::Describe {
    Arc::new(move |key: &Key, value: &[u8]| {
        let Ok(parsed) = meta::json::parse(value) else { return Attrs::default() };
        let Some(object) = Object::from_value(parsed.value) else { return Attrs::default() };
        match registry.stored_in(&key.collection) {
            Some(kind) => kind.describe(&object),
            None => describe(&object, &[]),
        }
    })
}
