//! Validation of values against their nodes, in the words and the order of the OpenAPI validator behind kube-apiserver.

use std::collections::HashSet;

use meta::field::quoted;
use meta::{FieldError, FieldErrors};
use serde_json::{Map, Number, Value};

use super::correlate::Items;
use super::node::{Additional, Checks, Kind, Node};
use super::number::{Num, bound, integral, num};
use super::path::{NOWHERE, Path};
use super::view::View;

/// Nobody reads more; what is wrong beyond it is found when these are repaired.
const MAX_FINDINGS: usize = 500;

/// Validates `value`, whose place is called `base` ("" for a whole object).
pub(super) fn check(node: &Node, value: View<'_>, base: &str) -> FieldErrors {
    unique(Checker { base }.value(node, value, &Path::Root).errors)
}

/// As `check`, for an update: what is wrong in parts that did not change is let pass.
pub(super) fn check_update(node: &Node, value: View<'_>, old: View<'_>, base: &str) -> FieldErrors {
    let errors = check(node, value, base);
    if errors.is_empty() { errors } else { unique(Checker { base }.ratcheted(node, value, old, &Path::Root).errors) }
}

fn unique(mut errors: FieldErrors) -> FieldErrors {
    if errors.len() > 1 {
        let mut seen = HashSet::new();
        errors.retain(|error| seen.insert(error.to_string()));
    }
    errors
}

/// What was found, and how much was fine: of failed alternatives, the one that fits best is told.
#[derive(Default)]
struct Outcome {
    errors: FieldErrors,
    matches: u32,
}

impl Outcome {
    fn add(&mut self, other: Outcome) {
        self.matches = self.matches.saturating_add(other.matches);
        let room = MAX_FINDINGS.saturating_sub(self.errors.len());
        if self.errors.is_empty() {
            self.errors = other.errors;
        } else {
            self.errors.extend(other.errors.into_iter().take(room));
        }
    }
}

#[derive(Clone, Copy)]
struct Checker<'b> {
    base: &'b str,
}

impl Checker<'_> {
    fn value(self, node: &Node, value: View<'_>, path: &Path<'_>) -> Outcome {
        self.walk(node, value, None, path)
    }

    /// An unchanged value is never complained about.
    fn ratcheted(self, node: &Node, value: View<'_>, old: View<'_>, path: &Path<'_>) -> Outcome {
        let mut outcome = self.walk(node, value, Some(old), path);
        if !outcome.errors.is_empty() && value == old {
            outcome.errors.clear();
        }
        outcome
    }

    fn walk(self, node: &Node, value: View<'_>, old: Option<View<'_>>, path: &Path<'_>) -> Outcome {
        let mut out = Outcome::default();
        let format = node.checks.as_ref().and_then(|checks| checks.format.as_ref());
        let typed = node.kind != Kind::Any || format.is_some();
        if typed || value == View::Null {
            match mistyped(node, format.map(|(_, name)| name.as_str()), value) {
                Some((expected, found)) => {
                    let name = path.dotted();
                    let why = format!("{name} in body must be of type {expected}: \"{found}\"");
                    out.errors.push(FieldError::type_invalid(self.place(&name), found, why));
                }
                None => out.matches += 1,
            }
            out.matches += u32::from(value != View::Null);
        }
        if let Some(checks) = &node.checks {
            if value == View::Null {
                self.enumeration(checks, value, path, &mut out);
                return out;
            }
            self.junctors(checks, value, path, &mut out);
        } else if value == View::Null {
            return out;
        }
        // The parts that always apply: alternatives, enumeration, and the schema as a whole.
        out.matches += 4;
        let checks = node.checks.as_deref();
        match value {
            View::Text(text) => {
                out.matches += 1;
                if let Some(checks) = checks {
                    self.text(checks, text, path, &mut out);
                }
            }
            View::Number(number) => {
                out.matches += 2;
                if let Some(checks) = checks {
                    self.number(checks, number, path, &mut out);
                }
            }
            View::List(list) => {
                out.matches += 2;
                self.list(node, list, old, path, &mut out);
            }
            _ => {}
        }
        if let Some(checks) = checks {
            self.enumeration(checks, value, path, &mut out);
        }
        if let View::Object(map) = value {
            out.matches += 1;
            self.object(node, map, old, path, &mut out);
        }
        out
    }

    /// The place as errors name it.
    fn place(self, name: &str) -> String {
        match (self.base, name.strip_prefix('.').unwrap_or(name)) {
            ("", "") => NOWHERE.to_owned(),
            ("", name) => name.to_owned(),
            (base, "") => base.to_owned(),
            (base, name) => format!("{base}.{name}"),
        }
    }

    /// `told` is the value shown, `why` follows "… in body ".
    fn invalid(self, path: &Path<'_>, told: impl Into<Value>, why: &str, out: &mut Outcome) {
        let name = path.dotted();
        let text = format!("{name} in body {why}");
        out.errors.push(FieldError::invalid(self.place(&name), told, text));
    }

    /// Failed alternatives are not told of a place but of the whole.
    fn composite(self, path: &Path<'_>, why: &str, out: &mut Outcome) {
        let text = format!("{} {why}", quoted(&path.dotted()));
        out.errors.push(FieldError::invalid(self.place(""), "", text));
    }

    fn junctors(self, checks: &Checks, value: View<'_>, path: &Path<'_>, out: &mut Outcome) {
        if !checks.any_of.is_empty() {
            let (fitting, best) = self.alternatives(&checks.any_of, value, path, true);
            if fitting == 0 {
                self.composite(path, "must validate at least one schema (anyOf)", out);
            }
            out.add(best);
        }
        if !checks.one_of.is_empty() {
            let (fitting, best) = self.alternatives(&checks.one_of, value, path, false);
            match fitting {
                0 => self.composite(path, "must validate one and only one schema (oneOf). Found none valid", out),
                1 => {}
                n => {
                    let why = format!("must validate one and only one schema (oneOf). Found {n} valid alternatives");
                    self.composite(path, &why, out);
                }
            }
            if fitting < 2 {
                out.add(best);
            }
        }
        if !checks.all_of.is_empty() {
            let mut fitting = 0;
            for node in &checks.all_of {
                let outcome = self.value(node, value, path);
                fitting += usize::from(outcome.errors.is_empty());
                out.add(outcome);
            }
            if fitting == 0 {
                self.composite(path, "must validate all the schemas (allOf). None validated", out);
            } else if fitting < checks.all_of.len() {
                self.composite(path, "must validate all the schemas (allOf)", out);
            }
        }
        if let Some(not) = &checks.not
            && self.value(not, value, path).errors.is_empty()
        {
            self.composite(path, "must not validate the schema (not)", out);
        }
    }

    /// How many alternatives fit, and the first that does, or else the one that fits best.
    fn alternatives(self, nodes: &[Node], value: View<'_>, path: &Path<'_>, first_only: bool) -> (usize, Outcome) {
        let mut fitting = 0;
        let mut best: Option<Outcome> = None;
        for node in nodes {
            let outcome = self.value(node, value, path);
            if outcome.errors.is_empty() {
                fitting += 1;
                if fitting == 1 {
                    best = Some(outcome);
                }
                if first_only {
                    break;
                }
            } else if fitting == 0 && best.as_ref().is_none_or(|best| outcome.matches > best.matches) {
                best = Some(outcome);
            }
        }
        (fitting, best.unwrap_or_default())
    }

    fn text(self, checks: &Checks, text: &str, path: &Path<'_>, out: &mut Outcome) {
        // Only the first of these is told.
        let limited = checks.max_length.is_some() || checks.min_length.is_some();
        let length = if limited { i64::try_from(text.chars().count()).unwrap_or(i64::MAX) } else { 0 };
        if let Some(max) = checks.max_length.filter(|max| length > *max) {
            let max = usize::try_from(max).unwrap_or_default();
            out.errors.push(FieldError::too_long(self.place(&path.dotted()), max));
        } else if let Some(min) = checks.min_length.filter(|min| length < *min) {
            self.invalid(path, shown(text), &format!("should be at least {min} chars long"), out);
        } else if checks.pattern.as_ref().is_some_and(|pattern| !pattern.is_match(text)) {
            self.invalid(path, shown(text), &format!("should match '{}'", checks.pattern_source), out);
        }
        if let Some((format, name)) = &checks.format {
            out.matches += 1;
            if !format.fits(text) {
                let place = path.dotted();
                let text = shown(text);
                let why = format!("{place} in body must be of type {name}: {}", quoted(text));
                out.errors.push(FieldError::type_invalid(self.place(&place), text, why));
            }
        }
    }

    fn number(self, checks: &Checks, number: &Number, path: &Path<'_>, out: &mut Outcome) {
        let told = || Value::Number(number.clone());
        let number = num(number);
        if let Some(factor) = checks.multiple_of {
            let (factor, multiple) = match number {
                Num::Int(int) => (factor.trunc(), int.checked_rem(factor as i64) == Some(0)),
                Num::Float(float) => {
                    (factor, integral(if factor < 1.0 { 1.0 / factor * float } else { float / factor }))
                }
            };
            let shown = bound(number, factor);
            if factor <= 0.0 {
                let name = path.dotted();
                let why = format!("factor MultipleOf declared for {name} must be positive: {shown}");
                out.errors.push(FieldError::invalid(self.place(&name), factor, why));
            } else if !multiple {
                self.invalid(path, told(), &format!("should be a multiple of {shown}"), out);
            }
        }
        if let Some(minimum) = checks.minimum {
            let exclusive = checks.exclusive_minimum;
            let below = match number {
                Num::Int(int) => int < minimum as i64 || (exclusive && int == minimum as i64),
                Num::Float(float) => float < minimum || (exclusive && float == minimum),
            };
            if below {
                let than = if exclusive { "greater than" } else { "greater than or equal to" };
                self.invalid(path, told(), &format!("should be {than} {}", bound(number, minimum)), out);
            }
        }
        if let Some(maximum) = checks.maximum {
            let exclusive = checks.exclusive_maximum;
            let above = match number {
                Num::Int(int) => int > maximum as i64 || (exclusive && int == maximum as i64),
                Num::Float(float) => float > maximum || (exclusive && float == maximum),
            };
            if above {
                let than = if exclusive { "less than" } else { "less than or equal to" };
                self.invalid(path, told(), &format!("should be {than} {}", bound(number, maximum)), out);
            }
        }
    }

    fn list(self, node: &Node, list: &[Value], old: Option<View<'_>>, path: &Path<'_>, out: &mut Outcome) {
        if let Some(items) = &node.items {
            let before = old.map(|old| Items::of(node, old));
            for (at, item) in list.iter().enumerate() {
                let place = path.index(at);
                out.add(match before.as_ref().and_then(|before| before.get(item)) {
                    Some(old) => self.ratcheted(items, item.into(), old.into(), &place),
                    None => self.value(items, item.into(), &place),
                });
                if out.errors.len() >= MAX_FINDINGS {
                    break;
                }
            }
        }
        let Some(checks) = &node.checks else { return };
        let size = i64::try_from(list.len()).unwrap_or(i64::MAX);
        if let Some(min) = checks.min_items.filter(|min| size < *min) {
            self.invalid(path, size, &format!("should have at least {min} items"), out);
        }
        if let Some(max) = checks.max_items.filter(|max| size > *max) {
            let max = usize::try_from(max).unwrap_or_default();
            out.errors.push(FieldError::too_many(self.place(&path.dotted()), list.len(), max));
        }
    }

    fn enumeration(self, checks: &Checks, value: View<'_>, path: &Path<'_>, out: &mut Outcome) {
        let allowed = &checks.enumeration;
        if allowed.is_empty() || allowed.iter().any(|allowed| same(allowed, value)) {
            return;
        }
        let words: Vec<String> =
            allowed.iter().map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned)).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        out.errors.push(FieldError::not_supported(self.place(&path.dotted()), value.to_value(), &words));
    }

    fn object(self, node: &Node, map: &Map<String, Value>, old: Option<View<'_>>, path: &Path<'_>, out: &mut Outcome) {
        let checks = node.checks.as_deref();
        let size = i64::try_from(map.len()).unwrap_or(i64::MAX);
        if let Some(min) = checks.and_then(|checks| checks.min_properties).filter(|min| size < *min) {
            self.invalid(path, size, &format!("should have at least {min} properties"), out);
        }
        if let Some(max) = checks.and_then(|checks| checks.max_properties).filter(|max| size > *max) {
            let max = usize::try_from(max).unwrap_or_default();
            out.errors.push(FieldError::too_many(self.place(&path.dotted()), map.len(), max));
        }
        let old = match old {
            Some(View::Object(map)) => Some(map),
            _ => None,
        };
        let mut at = 0;
        for (name, value) in map {
            let place = path.field(name);
            let Some(field) = node.seek_field(name, &mut at) else {
                if matches!(node.additional, Some(Additional::Untyped { allowed: false })) {
                    let here = path.dotted();
                    let why = format!("{here}.{name} in body is a forbidden property");
                    out.errors.push(FieldError::invalid(self.place(&here), name.as_str(), why));
                }
                continue;
            };
            // Both sides of an update are shown in the same version, so a change of these two cannot be seen.
            let hidden = path.is_root() && self.base.is_empty() && matches!(name.as_str(), "apiVersion" | "kind");
            out.add(match old.and_then(|old| old.get(name)).filter(|_| !hidden) {
                Some(old) => self.ratcheted(field, value.into(), old.into(), &place),
                None => self.value(field, value.into(), &place),
            });
            if out.errors.len() >= MAX_FINDINGS {
                break;
            }
        }
        for name in checks.map(|checks| checks.required.as_slice()).unwrap_or_default() {
            if !map.contains_key(name) {
                out.errors.push(FieldError::required(self.place(&path.field(name).dotted()), ""));
            }
        }
    }
}

/// Expected and found, when a value is not of its node's type. A format stands in for the type of what is no text.
fn mistyped<'a>(node: &Node, format: Option<&'a str>, value: View<'_>) -> Option<(&'a str, &'static str)> {
    let (found, of_format) = match value {
        View::Null => {
            let fits = node.nullable || node.kind == Kind::Any;
            return (!fits).then(|| (expected(node.kind), "null"));
        }
        View::Bool(_) => ("boolean", ""),
        View::Text(_) => ("string", ""),
        View::List(_) => ("array", ""),
        View::Object(_) => ("object", ""),
        View::Number(number) => match num(number) {
            Num::Int(_) => ("integer", "int64"),
            Num::Float(_) => ("number", "float64"),
        },
    };
    let fits = match (node.kind, value) {
        (Kind::Object, View::Object(_))
        | (Kind::List, View::List(_))
        | (Kind::String | Kind::IntOrString, View::Text(_))
        | (Kind::Boolean, View::Bool(_))
        | (Kind::Number, View::Number(_)) => true,
        (Kind::Integer | Kind::IntOrString, View::Number(number)) => match num(number) {
            Num::Int(_) => true,
            Num::Float(float) => integral(float),
        },
        _ => false,
    };
    let numeric = matches!(node.kind, Kind::Integer | Kind::Number | Kind::IntOrString);
    match (format, value) {
        _ if fits => None,
        (Some(format), View::Bool(_) | View::Number(_) | View::Object(_)) => Some((format, of_format)),
        (Some(_), _) if !numeric => None,
        _ => Some((expected(node.kind), found)),
    }
}

fn expected(kind: Kind) -> &'static str {
    match kind {
        Kind::IntOrString => "integer,string",
        kind => kind.type_name(),
    }
}

/// Errors show no more of a text than an answer has room for.
fn shown(text: &str) -> &str {
    &text[..text.floor_char_boundary(4096)]
}

/// Numbers equal across integer and float; null equals nothing, not even itself.
fn same(allowed: &Value, value: View<'_>) -> bool {
    match (View::from(allowed), value) {
        (View::Null, _) | (_, View::Null) => false,
        (View::Number(a), View::Number(b)) => match (num(a), num(b)) {
            (Num::Int(a), Num::Int(b)) => a == b,
            (Num::Int(a), Num::Float(b)) => a == b as i64,
            (Num::Float(a), Num::Int(b)) => a == b as f64,
            (Num::Float(a), Num::Float(b)) => a == b,
        },
        (allowed, value) => allowed == value,
    }
}
