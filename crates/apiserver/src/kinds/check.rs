//! Small checks from which the rules of kinds are made: one line, one rule.

use meta::{FieldError, FieldErrors, name};
use serde_json::{Map, Value};
use std::sync::LazyLock;

static EMPTY: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);

/// A struct within an object and the way to it, as a chain of stack frames: a path costs nothing until it must be told.
#[derive(Clone, Copy)]
pub struct At<'a> {
    pub map: &'a Map<String, Value>,
    up: Option<&'a At<'a>>,
    step: &'a str,
    index: Option<usize>,
}

impl<'a> At<'a> {
    /// `path` is the way to the struct itself; empty for a whole object.
    pub fn root(path: &'a str, map: &'a Map<String, Value>) -> Self {
        Self { map, up: None, step: path, index: None }
    }

    pub fn path(&self) -> String {
        let mut path = self.up.map(At::path).unwrap_or_default();
        if !path.is_empty() && !self.step.is_empty() {
            path.push('.');
        }
        path.push_str(self.step);
        if let Some(index) = self.index {
            path.push_str(&format!("[{index}]"));
        }
        path
    }

    /// The path of one of its fields.
    pub fn field(&self, name: &str) -> String {
        let path = self.path();
        if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
    }

    pub fn has(&self, name: &str) -> bool {
        self.map.get(name).is_some_and(|value| !value.is_null())
    }

    pub fn value(&self, name: &str) -> &'a Value {
        self.map.get(name).unwrap_or(&Value::Null)
    }

    pub fn text(&self, name: &str) -> &'a str {
        self.value(name).as_str().unwrap_or_default()
    }

    pub fn int(&self, name: &str) -> Option<i64> {
        self.value(name).as_i64()
    }

    pub fn flag(&self, name: &str) -> bool {
        self.value(name).as_bool().unwrap_or_default()
    }

    /// The struct in a field, when it is set.
    pub fn child(&'a self, name: &'a str) -> Option<At<'a>> {
        self.value(name).as_object().map(|map| At { map, up: Some(self), step: name, index: None })
    }

    /// The same, empty when it is not set.
    pub fn part(&'a self, name: &'a str) -> At<'a> {
        self.child(name).unwrap_or(At { map: &EMPTY, up: Some(self), step: name, index: None })
    }

    /// The structs of a list.
    pub fn items(&'a self, name: &'a str) -> impl Iterator<Item = At<'a>> {
        self.list(name).iter().enumerate().map(move |(index, value)| At {
            map: value.as_object().unwrap_or(&EMPTY),
            up: Some(self),
            step: name,
            index: Some(index),
        })
    }

    pub fn list(&self, name: &str) -> &'a [Value] {
        self.value(name).as_array().map(Vec::as_slice).unwrap_or_default()
    }

    pub fn texts(&self, name: &str) -> impl Iterator<Item = &'a str> {
        self.list(name).iter().map(|value| value.as_str().unwrap_or_default())
    }

    /// The entries of a map.
    pub fn entries(&self, name: &str) -> impl Iterator<Item = (&'a str, &'a Value)> {
        self.value(name).as_object().into_iter().flatten().map(|(key, value)| (key.as_str(), value))
    }

    pub fn required(&self, name: &str, errors: &mut FieldErrors) -> bool {
        let missing = match self.value(name) {
            Value::Null => true,
            Value::String(text) => text.is_empty(),
            Value::Array(list) => list.is_empty(),
            Value::Object(map) => map.is_empty(),
            Value::Number(n) => n.as_i64() == Some(0),
            Value::Bool(_) => false,
        };
        if missing {
            errors.push(FieldError::required(self.field(name), ""));
        }
        !missing
    }

    pub fn invalid(&self, name: &str, why: impl Into<String>, errors: &mut FieldErrors) {
        errors.push(FieldError::invalid(self.field(name), self.value(name).clone(), why));
    }

    pub fn forbidden(&self, name: &str, why: &str, errors: &mut FieldErrors) {
        errors.push(FieldError::forbidden(self.field(name), why));
    }

    /// What a rule of names says of the value; nothing when it is not set.
    pub fn named(&self, name: &str, rule: fn(&str) -> Vec<String>, errors: &mut FieldErrors) {
        let value = self.text(name);
        if !value.is_empty() {
            errors.extend(rule(value).into_iter().map(|why| FieldError::invalid(self.field(name), value, why)));
        }
    }

    /// The same of a value that is set, even to nothing.
    pub fn stated(&self, name: &str, rule: fn(&str) -> Vec<String>, errors: &mut FieldErrors) {
        if self.has(name) {
            named(&self.field(name), self.text(name), rule, errors);
        }
    }

    /// One of the values, when it is set.
    pub fn one_of(&self, name: &str, supported: &[&str], errors: &mut FieldErrors) {
        if self.has(name) && !supported.contains(&self.text(name)) {
            errors.push(FieldError::not_supported(self.field(name), self.value(name).clone(), supported));
        }
    }

    pub fn non_negative(&self, name: &str, errors: &mut FieldErrors) {
        if self.int(name).is_some_and(|n| n < 0) {
            self.invalid(name, NON_NEGATIVE, errors);
        }
    }

    pub fn port(&self, name: &str, errors: &mut FieldErrors) {
        if self.int(name).is_some_and(|n| !(1..=65535).contains(&n)) {
            self.invalid(name, PORT, errors);
        }
    }

    /// A port by number or by the name that a container gives it.
    pub fn port_or_name(&self, name: &str, errors: &mut FieldErrors) {
        match self.value(name) {
            Value::String(text) => {
                errors.extend(
                    port_name(text).into_iter().map(|why| FieldError::invalid(self.field(name), text.as_str(), why)),
                );
            }
            _ => self.port(name, errors),
        }
    }

    /// Permission bits.
    pub fn mode(&self, name: &str, errors: &mut FieldErrors) {
        if self.int(name).is_some_and(|mode| !(0..=0o777).contains(&mode)) {
            self.invalid(name, "must be a number between 0 and 0777 (octal), both inclusive", errors);
        }
    }

    /// Values of a label-like map: keys are qualified names, values label values, both told at the map.
    pub fn labels(&self, name: &str, errors: &mut FieldErrors) {
        for (key, value) in self.entries(name) {
            errors.extend(
                name::qualified_name(key).into_iter().map(|why| FieldError::invalid(self.field(name), key, why)),
            );
            let value = value.as_str().unwrap_or_default();
            errors.extend(
                name::label_value(value).into_iter().map(|why| FieldError::invalid(self.field(name), value, why)),
            );
        }
    }
}

/// What a rule of names says of a value, empty or not.
pub fn named(field: &str, value: &str, rule: fn(&str) -> Vec<String>, errors: &mut FieldErrors) {
    errors.extend(rule(value).into_iter().map(|why| FieldError::invalid(field, value, why)));
}

/// A LabelSelector; `at` is the selector itself.
pub fn label_selector(at: &At<'_>, errors: &mut FieldErrors) {
    at.labels("matchLabels", errors);
    for requirement in at.items("matchExpressions") {
        requirement_values(&requirement, errors);
        named(&requirement.field("key"), requirement.text("key"), name::qualified_name, errors);
        label_values(&requirement, errors);
    }
}

/// Whether the values fit the operator.
pub fn requirement_values(requirement: &At<'_>, errors: &mut FieldErrors) {
    let none = requirement.list("values").is_empty();
    match requirement.text("operator") {
        "In" | "NotIn" if none => {
            let why = "must be specified when `operator` is 'In' or 'NotIn'";
            errors.push(FieldError::required(requirement.field("values"), why));
        }
        "Exists" | "DoesNotExist" if !none => {
            let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            requirement.forbidden("values", why, errors);
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        operator => {
            errors.push(FieldError::invalid(requirement.field("operator"), operator, "not a valid selector operator"))
        }
    }
}

pub fn label_values(requirement: &At<'_>, errors: &mut FieldErrors) {
    for (i, value) in requirement.texts("values").enumerate() {
        named(&format!("{}[{i}]", requirement.field("values")), value, name::label_value, errors);
    }
}

/// One entry of the conditions in a status.
pub fn condition(at: &At<'_>, errors: &mut FieldErrors) {
    named(&at.field("type"), at.text("type"), name::qualified_name, errors);
    let status = at.text("status");
    let statuses = ["False", "True", "Unknown"];
    if !statuses.contains(&status) {
        errors.push(FieldError::not_supported(at.field("status"), status, &statuses));
    }
    if at.int("observedGeneration").is_some_and(|n| n < 0) {
        at.invalid("observedGeneration", "must be greater than or equal to zero", errors);
    }
    at.required("lastTransitionTime", errors);
    if at.required("reason", errors) {
        named(&at.field("reason"), at.text("reason"), condition_reason, errors);
        if at.text("reason").len() > 1024 {
            errors.push(FieldError::too_long(at.field("reason"), 1024));
        }
    }
    if at.text("message").len() > 32 * 1024 {
        errors.push(FieldError::too_long(at.field("message"), 32 * 1024));
    }
}

fn condition_reason(value: &str) -> Vec<String> {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let fits = value.starts_with(|c: char| c.is_ascii_alphabetic())
        && value.ends_with(word)
        && value.chars().all(|c| word(c) || c == ',' || c == ':');
    if fits {
        return Vec::new();
    }
    vec![
        "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric characters or \
         '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName',  or \
         'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')"
            .to_owned(),
    ]
}

/// `domain/path`, such as the name of a controller.
pub fn domain_prefixed(at: &At<'_>, field: &str, errors: &mut FieldErrors) {
    if !at.required(field, errors) {
        return;
    }
    let value = at.text(field);
    let Some((host, path)) = value.split_once('/').filter(|(host, path)| !host.is_empty() && !path.is_empty()) else {
        at.invalid(field, "must be a domain-prefixed path (such as \"acme.io/foo\")", errors);
        return;
    };
    named(&at.field(field), host, name::dns1123_subdomain, errors);
    let fits = |b: u8| b.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&b);
    if !path.bytes().all(fits) {
        let why = "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')";
        errors.push(FieldError::invalid(at.field(field), path, why));
    }
}

pub fn ip(value: &str) -> Vec<String> {
    match value.parse::<std::net::IpAddr>() {
        Ok(_) => Vec::new(),
        Err(_) => vec!["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)".to_owned()],
    }
}

pub fn cidr(value: &str) -> Vec<String> {
    let parsed = value.split_once('/').and_then(|(address, bits)| {
        let address: std::net::IpAddr = address.parse().ok()?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        bits.parse::<u8>().ok().filter(|bits| *bits <= most)
    });
    match parsed {
        Some(_) => Vec::new(),
        None => vec!["must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)".to_owned()],
    }
}

pub const NON_NEGATIVE: &str = "must be greater than or equal to 0";
pub const PORT: &str = "must be between 1 and 65535, inclusive";
pub const IMMUTABLE: &str = "field is immutable";

/// A port's name: like a service in /etc/services.
pub fn port_name(value: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if value.len() > 15 {
        wrong.push("must be no more than 15 characters".to_owned());
    }
    if value.is_empty() || !value.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-') {
        wrong.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned());
    }
    if !value.bytes().any(|b| b.is_ascii_lowercase()) {
        wrong.push("must contain at least one letter (a-z)".to_owned());
    }
    if value.contains("--") {
        wrong.push("must not contain consecutive hyphens".to_owned());
    }
    if value.starts_with('-') || value.ends_with('-') {
        wrong.push("must not begin or end with a hyphen".to_owned());
    }
    wrong
}

/// No `..` in a path.
pub fn no_backsteps(path: &str) -> Option<&'static str> {
    path.split('/').any(|part| part == "..").then_some("must not contain '..'")
}

/// A path below a volume's root.
pub fn descending(field: String, path: &str, errors: &mut FieldErrors) {
    if path.starts_with('/') {
        errors.push(FieldError::invalid(field.clone(), path, "must be a relative path"));
    }
    if let Some(why) = no_backsteps(path) {
        errors.push(FieldError::invalid(field, path, why));
    }
}

/// The same, and not one of the names volumes keep for themselves.
pub fn local(field: String, path: &str, errors: &mut FieldErrors) {
    descending(field.clone(), path, errors);
    if path.starts_with("..") && !path.starts_with("../") {
        errors.push(FieldError::invalid(field, path, "must not start with '..'"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_path_is_told_from_the_root() {
        let object = json!({"spec": {"containers": [{}, {"name": ""}]}});
        let root = At::root("", object.as_object().unwrap());
        let spec = root.part("spec");
        let second = spec.items("containers").nth(1).unwrap();
        assert_eq!(second.field("name"), "spec.containers[1].name");
        let mut errors = Vec::new();
        assert!(!second.required("name", &mut errors));
        assert_eq!(errors[0].to_string(), "spec.containers[1].name: Required value");
        assert_eq!(At::root("spec.template", &EMPTY).field("x"), "spec.template.x");
    }

    #[test]
    fn port_names() {
        assert!(port_name("http").is_empty() && port_name("a-1").is_empty());
        for wrong in ["", "1", "-a", "a-", "a--b", "A", "sixteen-letters-x"] {
            assert!(!port_name(wrong).is_empty(), "{wrong}");
        }
    }
}
