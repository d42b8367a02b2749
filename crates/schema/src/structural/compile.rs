//! From a written schema to nodes: done once per version, so that no object pays for it.

use std::collections::HashMap;

use meta::{FieldError, FieldErrors};
use regex::Regex;
use serde_json::Value;

use super::format::Format;
use super::node::{Additional, Below, Checks, Kind, ListType, Node};
use super::pattern;
use super::props::{AdditionalProps, Props};
use super::prune;
use super::rules::{self, Fault, Rule};

/// Far beyond any schema people write, well within the stack.
const MAX_DEPTH: usize = 128;

pub(super) struct Compiler {
    patterns: HashMap<String, Regex>,
    allowance: usize,
    /// For judging a schema: rules that do not compile are passed over, defaults stay as they were written.
    lenient: bool,
}

impl Compiler {
    pub fn new() -> Self {
        Self { patterns: HashMap::new(), allowance: pattern::ALLOWANCE, lenient: false }
    }

    pub fn lenient() -> Self {
        Self { lenient: true, ..Self::new() }
    }

    pub fn node(&mut self, props: Props<'_>, depth: usize) -> Result<Node, FieldErrors> {
        if depth > MAX_DEPTH {
            return Err(vec![FieldError::forbidden("", "the schema is nested too deeply")]);
        }
        let mut properties = Vec::new();
        for (name, property) in props.named("properties") {
            properties.push((name.to_owned(), self.node(property, depth + 1)?));
        }
        properties.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        let additional = match props.additional() {
            None => None,
            Some(AdditionalProps::Allowed(allowed)) => Some(Additional::Untyped { allowed }),
            Some(AdditionalProps::Schema(schema)) => Some(Additional::Typed(Box::new(self.node(schema, depth + 1)?))),
        };
        let items = props.item().map(|item| self.node(item, depth + 1)).transpose()?.map(Box::new);
        let list_type = match props.list_type() {
            Some("set") => ListType::Set,
            Some("map") => {
                ListType::Map(props.texts("x-kubernetes-list-map-keys").into_iter().map(str::to_owned).collect())
            }
            _ => ListType::Atomic,
        };
        let mut node = Node {
            kind: kind(props),
            properties,
            additional,
            items,
            list_type,
            atomic_map: props.map_type() == Some("atomic"),
            nullable: props.flag("nullable"),
            preserve_unknown: props.preserves_unknown(),
            embedded: props.embedded(),
            default: props.get("default").cloned(),
            checks: self.checks(props, depth)?,
            rules: rules(props, depth == 0, self.lenient)?,
            below: Below::default(),
        };
        node.below = below(&node);
        if !self.lenient
            && let Some(mut default) = node.default.take()
        {
            prune::value(&node, &mut default, true);
            node.default = Some(default);
        }
        Ok(node)
    }

    fn checks(&mut self, props: Props<'_>, depth: usize) -> Result<Option<Box<Checks>>, FieldErrors> {
        const KEYS: [&str; 19] = [
            "format",
            "maximum",
            "minimum",
            "multipleOf",
            "maxLength",
            "minLength",
            "pattern",
            "maxItems",
            "minItems",
            "maxProperties",
            "minProperties",
            "enum",
            "required",
            "allOf",
            "anyOf",
            "oneOf",
            "not",
            "exclusiveMaximum",
            "exclusiveMinimum",
        ];
        if !KEYS.iter().any(|key| props.0.contains_key(*key)) {
            return Ok(None);
        }
        let mut all = |name: &str| -> Result<Vec<Node>, FieldErrors> {
            props.parts(name).into_iter().map(|schema| self.node(schema, depth + 1)).collect()
        };
        let (all_of, any_of, one_of) = (all("allOf")?, all("anyOf")?, all("oneOf")?);
        let not = props.part("not").map(|schema| self.node(schema, depth + 1)).transpose()?.map(Box::new);
        let format = props.text("format");
        Ok(Some(Box::new(Checks {
            format: Format::named(format).map(|known| (known, format.to_owned())),
            maximum: props.number("maximum"),
            exclusive_maximum: props.flag("exclusiveMaximum"),
            minimum: props.number("minimum"),
            exclusive_minimum: props.flag("exclusiveMinimum"),
            multiple_of: props.number("multipleOf"),
            max_length: props.integer("maxLength"),
            min_length: props.integer("minLength"),
            pattern: self.pattern(props.text("pattern"))?,
            pattern_source: props.text("pattern").to_owned(),
            max_items: props.integer("maxItems"),
            min_items: props.integer("minItems"),
            max_properties: props.integer("maxProperties"),
            min_properties: props.integer("minProperties"),
            enumeration: props.values("enum").to_vec(),
            required: props.texts("required").into_iter().map(str::to_owned).collect(),
            all_of,
            any_of,
            one_of,
            not,
        })))
    }

    fn pattern(&mut self, source: &str) -> Result<Option<Regex>, FieldErrors> {
        if source.is_empty() {
            return Ok(None);
        }
        if let Some(known) = self.patterns.get(source) {
            return Ok(Some(known.clone()));
        }
        let compiled = pattern::compile(source, &mut self.allowance).map_err(|why| {
            vec![FieldError::invalid(
                "pattern",
                source,
                format!("must be a valid regular expression, but isn't: {why}"),
            )]
        })?;
        self.patterns.insert(source.to_owned(), compiled.clone());
        Ok(Some(compiled))
    }
}

fn kind(props: Props<'_>) -> Kind {
    if props.int_or_string() {
        return Kind::IntOrString;
    }
    match props.kind() {
        "object" => Kind::Object,
        "array" => Kind::List,
        "string" => Kind::String,
        "integer" => Kind::Integer,
        "number" => Kind::Number,
        "boolean" => Kind::Boolean,
        _ => Kind::Any,
    }
}

/// The rules of one place. Values whose shape is unknown have none.
fn rules(props: Props<'_>, root: bool, lenient: bool) -> Result<Vec<Rule>, FieldErrors> {
    let written = props.parts("x-kubernetes-validations");
    if written.is_empty() {
        return Ok(Vec::new());
    }
    let Some(decl) = rules::declare(props, root || props.embedded()) else { return Ok(Vec::new()) };
    let fault = |why: String| vec![FieldError::invalid("x-kubernetes-validations", "", why)];
    let compiled = written.into_iter().filter_map(|rule| rules::compile(rule, props, &decl));
    let compiled = compiled.filter(|rule| !lenient || rule.is_ok());
    compiled
        .map(|rule| match rule {
            Ok(rule) => Ok(rule),
            Err(Fault::Rule(why) | Fault::Message(_, why)) => Err(fault(why)),
        })
        .collect()
}

fn below(node: &Node) -> Below {
    let own =
        Below { embedded: node.embedded, keyed: node.list_type != ListType::Atomic, rules: !node.rules.is_empty() };
    let additional = match &node.additional {
        Some(Additional::Typed(node)) => Some(&**node),
        _ => None,
    };
    let children = node.properties.iter().map(|(_, node)| node).chain(additional).chain(node.items.as_deref());
    children.fold(own, |all, child| all.and(child.below))
}

/// A schema that is no object is nothing to compile.
pub(super) fn object(props: &Value) -> Result<Props<'_>, FieldErrors> {
    Props::of(props).ok_or_else(|| vec![FieldError::required("", "a schema is an object")])
}
