//! CustomResourceDefinitions as objects: their defaults and their validation.

use meta::FieldErrors;
use serde_json::{Map, Value};

/// Fills in what the author may leave out.
pub fn default(_crd: &mut Map<String, Value>) {}

/// What is wrong with a CRD; `old` is the stored one on update.
pub fn validate(_crd: &Map<String, Value>, _old: Option<&Map<String, Value>>) -> FieldErrors {
    Vec::new()
}
