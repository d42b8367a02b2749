//! Evaluation of validation rules over an object, each at its own place, with the old self where there is one.

use cel::{Budget, EvalError, Outcome};
use meta::field::quoted;
use meta::{FieldError, FieldErrors};
use serde_json::{Map, Value};

use super::correlate::Items;
use super::node::{Additional, Node};
use super::path::Path;
use super::rules::{Reason, Rule};
use super::view::View;

/// The longest message an expression may make.
const MAX_MESSAGE: usize = 5 * 1024;

/// A value and its old self, nearest to where we are: when they are equal, what is wrong was wrong before.
type Anchor<'a> = Option<(View<'a>, View<'a>)>;

/// Evaluates all rules of an object.
pub(super) fn object(
    node: &Node,
    object: &Map<String, Value>,
    old: Option<&Map<String, Value>>,
    errors: &mut FieldErrors,
) {
    if !node.below.rules {
        return;
    }
    let mut evaluator = Evaluator { budget: new_budget(), spent: false, ratchet: true, errors };
    let anchor = old.map(|old| (object.into(), old.into()));
    // Rules of the root need the object as a value.
    if !node.rules.is_empty() {
        let (this, old) = (Value::Object(object.clone()), old.map(|old| Value::Object(old.clone())));
        evaluator.rules(node, &this, old.as_ref(), anchor, &Path::Root);
    }
    evaluator.fields(node, object, old, anchor, &Path::Root);
}

/// Evaluates the rules of a default against itself and against nothing before it; false when the budget ran out.
pub(crate) fn default(
    node: &Node,
    value: &Value,
    path: &Path<'_>,
    budget: &mut Budget,
    errors: &mut FieldErrors,
) -> bool {
    if !node.below.rules {
        return true;
    }
    let before = errors.len();
    for old in [Some(value), None] {
        let mut evaluator = Evaluator { budget: budget.clone(), spent: false, ratchet: false, errors };
        evaluator.value(node, value, old, None, path);
        let (left, spent) = (evaluator.budget, evaluator.spent);
        if left.remaining() < budget.remaining() {
            *budget = left;
        }
        if spent {
            return false;
        }
        if errors.len() > before {
            break;
        }
    }
    true
}

pub(crate) fn new_budget() -> Budget {
    Budget::new(cel::PER_CALL_LIMIT, cel::OBJECT_BUDGET)
}

struct Evaluator<'e> {
    budget: Budget,
    /// Nothing more is evaluated.
    spent: bool,
    ratchet: bool,
    errors: &'e mut FieldErrors,
}

impl Evaluator<'_> {
    fn value(&mut self, node: &Node, value: &Value, old: Option<&Value>, anchor: Anchor<'_>, path: &Path<'_>) {
        if !node.below.rules || value.is_null() || self.spent {
            return;
        }
        let old = old.filter(|old| !old.is_null());
        self.rules(node, value, old, anchor, path);
        match value {
            Value::Object(map) => self.fields(node, map, old.and_then(Value::as_object), anchor, path),
            Value::Array(list) => self.items(node, list, old, anchor, path),
            _ => {}
        }
    }

    fn fields(
        &mut self,
        node: &Node,
        map: &Map<String, Value>,
        old: Option<&Map<String, Value>>,
        anchor: Anchor<'_>,
        path: &Path<'_>,
    ) {
        let mut at = 0;
        for (name, value) in map {
            let (field, place) = match (node.seek(name, &mut at), &node.additional) {
                (Some(property), _) => (property, path.field(name)),
                (None, Some(Additional::Typed(inner))) => (&**inner, path.key(name)),
                _ => continue,
            };
            let before = old.and_then(|old| old.get(name));
            // Both sides of an update are shown in the same version, so a change of these two cannot be seen.
            let hidden = path.is_root() && matches!(name.as_str(), "apiVersion" | "kind");
            let anchor = match before {
                _ if hidden => None,
                Some(old) => Some((value.into(), old.into())),
                None => anchor,
            };
            self.value(field, value, before, anchor, &place);
            if self.spent {
                return;
            }
        }
    }

    fn items(&mut self, node: &Node, list: &[Value], old: Option<&Value>, anchor: Anchor<'_>, path: &Path<'_>) {
        let Some(items) = node.items.as_deref().filter(|items| items.below.rules) else { return };
        let before = old.map(|old| Items::of(node, old.into()));
        for (at, item) in list.iter().enumerate() {
            let old = before.as_ref().and_then(|before| before.get(item));
            let anchor = old.map(|old| (item.into(), old.into())).or(anchor);
            self.value(items, item, old, anchor, &path.index(at));
            if self.spent {
                return;
            }
        }
    }

    fn rules(&mut self, node: &Node, this: &Value, old: Option<&Value>, anchor: Anchor<'_>, path: &Path<'_>) {
        for rule in &node.rules {
            if rule.program.uses_old() && old.is_none() && !rule.optional_old {
                continue;
            }
            let before = old.filter(|_| rule.program.uses_old());
            // A failed rule shows the type in place of the value.
            let told = node.kind.type_name();
            match rule.program.evaluate(this, before, &mut self.budget) {
                Ok(Outcome::Bool(true)) => {}
                Ok(_) => self.failed(rule, told, this, old, anchor, path),
                Err(error) => {
                    let why = self.cannot(rule, &error);
                    self.errors.push(FieldError::invalid(path.to_string(), told, why));
                }
            }
            if self.spent {
                return;
            }
        }
    }

    fn failed(
        &mut self,
        rule: &Rule,
        told: &str,
        this: &Value,
        old: Option<&Value>,
        anchor: Anchor<'_>,
        path: &Path<'_>,
    ) {
        let message = self.message(rule, this, old);
        if self.ratchet && !rule.program.uses_old() && anchor.is_some_and(|(new, old)| new == old) {
            return;
        }
        let place = match (path, rule.field_path.as_str()) {
            (path, "") => path.to_string(),
            (Path::Root, below) => below.to_owned(),
            (path, below) => format!("{path}.{below}"),
        };
        self.errors.push(match message {
            Err(why) => FieldError::invalid(place, told, why),
            Ok(message) => match rule.reason {
                Reason::Invalid => FieldError::invalid(place, told, message),
                Reason::Forbidden => FieldError::forbidden(place, message),
                Reason::Required => FieldError::required(place, message),
                Reason::Duplicate => FieldError::duplicate(place, told),
            },
        });
    }

    /// The message of a failed rule; an error when finding it cost too much.
    fn message(&mut self, rule: &Rule, this: &Value, old: Option<&Value>) -> Result<String, String> {
        let Some((program, source)) = &rule.message_expression else { return Ok(rule.message.clone()) };
        let before = old.filter(|_| program.uses_old());
        match program.evaluate(this, before, &mut self.budget) {
            Ok(Outcome::String(text)) => Ok(usable(&text).unwrap_or(&rule.message).to_owned()),
            Err(EvalError::CostLimit { total }) => {
                self.spent = true;
                let no_more = "no further validation rules will be run";
                Err(if total {
                    format!("messageExpression evaluation failed due to running out of cost budget, {no_more}")
                } else {
                    format!("{no_more} due to call cost exceeds limit for messageExpression: {}", quoted(source))
                })
            }
            _ => Ok(rule.message.clone()),
        }
    }

    fn cannot(&mut self, rule: &Rule, error: &EvalError) -> String {
        let name = &rule.name;
        match error {
            EvalError::CostLimit { total } => {
                self.spent = true;
                if *total {
                    "validation failed due to running out of cost budget, no further validation rules will be run"
                        .into()
                } else {
                    format!(
                        "'{error}': no further validation rules will be run due to call cost exceeds limit for rule: {name}"
                    )
                }
            }
            EvalError::Failed(why) if why.starts_with("no such overload") => format!(
                "'{why}': call arguments did not match a supported operator, function or macro signature for rule: {name}"
            ),
            EvalError::Failed(why) => format!("{why} evaluating rule: {name}"),
        }
    }
}

/// A message made by an expression is one line of bounded length, or it is not used.
fn usable(text: &str) -> Option<&str> {
    let text = text.trim();
    (!text.is_empty() && text.len() <= MAX_MESSAGE && !text.contains('\n')).then_some(text)
}
