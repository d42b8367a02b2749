//! Parts of a CRD as kube-apiserver shows them in errors: its own Go structs, as JSON in the order of their fields.

use meta::FieldError;
use meta::field::Wrong;
use serde_json::Value;

use crate::structural::props::Props;

/// Like `FieldError::invalid`, for a value that is shown already.
pub(super) fn invalid(field: impl Into<String>, shown: &str, why: &str) -> FieldError {
    FieldError { wrong: Wrong::Invalid, field: field.into(), value: None, detail: format!("{shown}: {why}") }
}

pub(super) fn rule(rule: Props<'_>) -> String {
    let text = |name: &str| Value::from(rule.text(name));
    structure(&[
        ("Rule", text("rule")),
        ("Message", text("message")),
        ("MessageExpression", text("messageExpression")),
        ("Reason", rule.get("reason").cloned().unwrap_or_default()),
        ("FieldPath", text("fieldPath")),
        ("OptionalOldSelf", rule.get("optionalOldSelf").cloned().unwrap_or_default()),
    ])
}

/// `hidden`: parts that all versions have alike, and that stand elsewhere therefore.
pub(super) fn versions(list: &[Props<'_>], hidden: &[&str]) -> String {
    let one = |version: &Props<'_>| {
        let part = |name: &str| version.get(name).filter(|_| !hidden.contains(&name)).cloned().unwrap_or_default();
        structure(&[
            ("Name", version.text("name").into()),
            ("Served", version.flag("served").into()),
            ("Storage", version.flag("storage").into()),
            ("Deprecated", version.flag("deprecated").into()),
            ("DeprecationWarning", version.get("deprecationWarning").cloned().unwrap_or_default()),
            ("Schema", part("schema")),
            ("Subresources", part("subresources")),
            ("AdditionalPrinterColumns", part("additionalPrinterColumns")),
            ("SelectableFields", part("selectableFields")),
        ])
    };
    let all: Vec<String> = list.iter().map(one).collect();
    format!("[{}]", all.join(","))
}

fn structure(fields: &[(&str, Value)]) -> String {
    let fields: Vec<String> = fields.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
    // Go writes JSON so that it can stand in HTML.
    format!("{{{}}}", fields.join(",")).replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}
