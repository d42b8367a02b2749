//! Does an object fit the types that ownership is told apart by?

use std::fmt;

use serde_json::Value;

use super::element::Element;
use super::list::identify;
use super::schema::{Form, Items, List, Map, Node, Scalar, Schema};
use super::words;

/// What does not fit, with the path it stands at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Misfit {
    errors: Vec<(String, String)>,
}

/// Whether two items of a list may be the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Duplicates {
    Allowed,
    Refused,
}

/// More findings than this are not told: an answer has bounds.
const MAX_ERRORS: usize = 32;

impl Misfit {
    pub(super) fn new(why: impl Into<String>) -> Self {
        Self { errors: vec![(String::new(), why.into())] }
    }

    pub(super) fn below(mut self, element: &Element<'_>) -> Self {
        for (path, _) in &mut self.errors {
            path.insert_str(0, &element.to_string());
        }
        self
    }
}

impl std::error::Error for Misfit {}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = |(path, why): &(String, String)| {
            if path.is_empty() { why.clone() } else { format!("{path}: {why}") }
        };
        match self.errors.as_slice() {
            [one] => f.write_str(&line(one)),
            several => {
                f.write_str("errors:")?;
                several.iter().take(MAX_ERRORS).try_for_each(|e| write!(f, "\n  {}", line(e)))
            }
        }
    }
}

/// Checks forms, undeclared fields and list items, all the way down.
pub fn validate<'t, T: Schema<'t>>(
    object: &serde_json::Map<String, Value>,
    node: Node<T>,
    duplicates: Duplicates,
) -> Result<(), Misfit> {
    let mut errors = Vec::new();
    match node.atom().map {
        Some(map) => fields(object, node, &map, duplicates, &mut errors),
        None => return Err(Misfit::new("the type of an object is not a map")),
    }
    if errors.is_empty() { Ok(()) } else { Err(Misfit { errors }) }
}

type Errors = Vec<(String, String)>;

fn place<'t, T: Schema<'t>>(value: &Value, node: Node<T>, duplicates: Duplicates, errors: &mut Errors) {
    let why = match (node.form(Some(value)), value) {
        (_, Value::Null) => return,
        (Some(Form::Map(map)), Value::Object(object)) => return fields(object, node, &map, duplicates, errors),
        (Some(Form::List(list)), Value::Array(items)) => return elements(items, node, &list, duplicates, errors),
        (Some(Form::Scalar(scalar)), value) => match misfit(scalar, value) {
            Some(why) => why,
            None => return,
        },
        (Some(Form::Map(_)), value) => format!("expected map, got &{{{}}}", words::plain(value)),
        (Some(Form::List(_)), value) => format!("expected list, got &{{{}}}", words::plain(value)),
        (None, _) => "schema error: invalid atom: inlined".into(),
    };
    errors.push((String::new(), why));
}

fn misfit(scalar: Scalar, value: &Value) -> Option<String> {
    match (scalar, value) {
        (Scalar::Number, Value::Number(_)) | (Scalar::String, Value::String(_)) | (Scalar::Boolean, Value::Bool(_)) => {
            None
        }
        (Scalar::Any, value) if !value.is_array() && !value.is_object() => None,
        (Scalar::Number, value) => Some(format!("expected numeric (int or float), got {}", words::type_of(value))),
        (Scalar::String, value) => {
            Some(format!("expected string, got &value.valueUnstructured{{Value:{}}}", words::literal(value)))
        }
        (Scalar::Boolean, value) => Some(format!("expected boolean, got &{{{}}}", words::plain(value))),
        (Scalar::Any, value) => Some(format!("expected any scalar, got &{{{}}}", words::plain(value))),
    }
}

fn fields<'t, T: Schema<'t>>(
    object: &serde_json::Map<String, Value>,
    node: Node<T>,
    map: &Map<T>,
    duplicates: Duplicates,
    errors: &mut Errors,
) {
    for (name, value) in object {
        let before = errors.len();
        match node.declared(name).or(map.element) {
            Some(child) => place(value, child, duplicates, errors),
            None => {
                errors.push((format!(".{name}"), "field not declared in schema".into()));
                return;
            }
        }
        prefix(errors, before, || Element::field(name));
        if errors.len() >= MAX_ERRORS {
            return;
        }
    }
}

fn elements<'t, T: Schema<'t>>(
    items: &[Value],
    node: Node<T>,
    list: &List<T>,
    duplicates: Duplicates,
    errors: &mut Errors,
) {
    let mut seen = std::collections::BTreeSet::new();
    for (i, item) in items.iter().enumerate() {
        let element = if list.items == Items::Atomic {
            Element::Index(i64::try_from(i).unwrap_or(i64::MAX))
        } else {
            match identify(node, list, item) {
                Ok(element) => element,
                Err(why) => return errors.push((String::new(), format!("element {i}: {why}"))),
            }
        };
        let before = errors.len();
        place(item, list.element, duplicates, errors);
        prefix(errors, before, || element.clone());
        if duplicates == Duplicates::Refused && list.items != Items::Atomic {
            let name = element.to_string();
            if !seen.insert(element) {
                errors.insert(before, (String::new(), format!("duplicate entries for key {name}")));
            }
        }
        if errors.len() >= MAX_ERRORS {
            return;
        }
    }
}

fn prefix<'a>(errors: &mut Errors, from: usize, element: impl FnOnce() -> Element<'a>) {
    if errors.len() > from {
        let element = element().to_string();
        errors[from..].iter_mut().for_each(|(path, _)| path.insert_str(0, &element));
    }
}
