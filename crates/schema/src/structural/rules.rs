//! Validation rules (x-kubernetes-validations): what expressions may see of a value, and how they are compiled.

use std::collections::{BTreeMap, BTreeSet};

use cel::{CompileError, Decl, Identity, OldSelf, Output, Program};
use serde_json::Value;

use super::props::Props;
use crate::crd::field_path;

/// One rule, ready to be evaluated.
#[derive(Debug)]
pub(crate) struct Rule {
    pub program: Program,
    pub optional_old: bool,
    /// Makes the message, with its text.
    pub message_expression: Option<(Program, String)>,
    /// The fixed message, or "failed rule: …".
    pub message: String,
    /// The message or the rule itself, as errors of evaluation name it.
    pub name: String,
    pub reason: Reason,
    /// Where the error is shown, from the rule's own place.
    pub field_path: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    Invalid,
    Forbidden,
    Required,
    Duplicate,
}

/// A rule or its message that does not compile, in the words of the API server.
pub(crate) enum Fault {
    Rule(String),
    /// The rule itself is fine.
    Message(Box<Rule>, String),
}

/// Compiles one rule; nothing for one without text.
pub(crate) fn compile(rule: Props<'_>, owner: Props<'_>, decl: &Decl) -> Option<Result<Rule, Fault>> {
    let source = rule.text("rule");
    if source.trim().is_empty() {
        return None;
    }
    let optional_old = rule.flag("optionalOldSelf");
    let old = if optional_old { OldSelf::Optional } else { OldSelf::Bound };
    let program = match Program::compile(source, decl, old, Output::Bool) {
        Ok(program) => program,
        Err(error) => return Some(Err(Fault::Rule(rule_fault(&error)))),
    };
    let fixed = rule.text("message").trim();
    let mut compiled = Rule {
        program,
        optional_old,
        message_expression: None,
        message: if fixed.is_empty() { format!("failed rule: {}", source.trim()) } else { fixed.to_owned() },
        name: if fixed.is_empty() { source.trim().to_owned() } else { fixed.to_owned() },
        reason: match rule.text("reason") {
            "FieldValueForbidden" => Reason::Forbidden,
            "FieldValueRequired" => Reason::Required,
            "FieldValueDuplicate" => Reason::Duplicate,
            _ => Reason::Invalid,
        },
        field_path: match rule.text("fieldPath") {
            "" => String::new(),
            path => field_path::follow(path, owner, true).map(|found| found.path).unwrap_or_default(),
        },
    };
    let expression = rule.text("messageExpression");
    if !expression.is_empty() {
        match Program::compile(expression, decl, old, Output::String) {
            Ok(program) => compiled.message_expression = Some((program, expression.to_owned())),
            Err(error) => return Some(Err(Fault::Message(Box::new(compiled), message_fault(&error)))),
        }
    }
    Some(Ok(compiled))
}

fn rule_fault(error: &CompileError) -> String {
    if let CompileError::Source(text) = error {
        format!("compilation failed: {text}")
    } else if let CompileError::Output(_) = error {
        format!("cel expression {error}")
    } else {
        error.to_string()
    }
}

fn message_fault(error: &CompileError) -> String {
    if let CompileError::Source(text) = error {
        format!("messageExpression compilation failed: {text}")
    } else {
        format!("messageExpression {error}")
    }
}

/// What expressions see of values of this schema; nothing of values whose shape is unknown.
/// `resource`: values have apiVersion, kind and metadata, of which name and generateName are seen.
pub(crate) fn declare(props: Props<'_>, resource: bool) -> Option<Decl> {
    let max = |name: &str| props.integer(name).map(|max| u64::try_from(max).unwrap_or_default());
    if props.int_or_string() {
        return Some(Decl::IntOrString { max: max("maxLength") });
    }
    Some(match props.kind() {
        "array" => {
            let item = props.item()?;
            let identity = match props.list_type() {
                Some("set") => Identity::Set,
                Some("map") => Identity::Map(owned(&props.texts("x-kubernetes-list-map-keys"))),
                _ => Identity::Atomic,
            };
            Decl::List { element: Box::new(declare(item, item.embedded())?), max: max("maxItems"), identity }
        }
        "object" => match props.additional_schema() {
            Some(value) => Decl::Map { value: Box::new(declare(value, value.embedded())?), max: max("maxProperties") },
            None => object(props, resource),
        },
        "string" => match props.text("format") {
            "byte" => Decl::Bytes { max: max("maxLength") },
            "duration" => Decl::Duration,
            "date" => Decl::Date,
            "date-time" => Decl::Timestamp,
            _ => match (max("maxLength"), props.values("enum")) {
                (None, values) if !values.is_empty() => {
                    let longest = values.iter().filter_map(Value::as_str).map(str::len).max().unwrap_or_default();
                    Decl::Enum { longest: longest as u64 }
                }
                (max, _) => Decl::String { max },
            },
        },
        "boolean" => Decl::Bool,
        "number" => Decl::Double,
        "integer" => Decl::Int,
        _ => return None,
    })
}

fn object(props: Props<'_>, resource: bool) -> Decl {
    let mut fields: BTreeMap<String, Decl> = props
        .named("properties")
        .filter_map(|(name, property)| Some((name.to_owned(), declare(property, property.embedded())?)))
        .collect();
    let must: BTreeSet<String> = owned(&props.texts("required")).into_iter().collect();
    let required = must
        .into_iter()
        .filter(|name| props.property(name).is_some_and(|property| property.get("default").is_none()))
        .collect();
    if resource && !declares_meta(props) {
        let text = Decl::String { max: None };
        let names = ["name", "generateName"].map(|name| (name.to_owned(), text.clone()));
        fields.insert("apiVersion".into(), text.clone());
        fields.insert("kind".into(), text);
        let metadata = Decl::Object { fields: names.into_iter().collect(), required: BTreeSet::new() };
        fields.insert("metadata".into(), metadata);
    }
    Decl::Object { fields, required }
}

fn declares_meta(props: Props<'_>) -> bool {
    let text = |props: Option<Props<'_>>| props.is_some_and(|props| props.kind() == "string");
    let metadata = props.property("metadata");
    let in_metadata = |name: &str| text(metadata.and_then(|metadata| metadata.property(name)));
    text(props.property("kind"))
        && text(props.property("apiVersion"))
        && metadata.is_some_and(|metadata| metadata.kind() == "object")
        && in_metadata("name")
        && in_metadata("generateName")
}

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}
