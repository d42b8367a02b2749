//! Structural schemas as the OpenAPI documents publish them.

use serde_json::Value;

pub(super) fn v3(props: &Value) -> Value {
    props.clone()
}

pub(super) fn v2(props: &Value) -> Value {
    props.clone()
}
