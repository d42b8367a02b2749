//! One place in a structural schema, compiled: what the values there are made of.

use regex::Regex;
use serde_json::Value;

use super::format::Format;
use super::rules::Rule;

/// What a node's values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Object,
    List,
    String,
    Integer,
    Number,
    Boolean,
    IntOrString,
    /// No type: anything goes (x-kubernetes-preserve-unknown-fields without a type).
    Any,
}

impl Kind {
    /// As JSON Schema names it; nothing where there is no single name.
    pub(super) fn type_name(self) -> &'static str {
        match self {
            Kind::Object => "object",
            Kind::List => "array",
            Kind::String => "string",
            Kind::Integer => "integer",
            Kind::Number => "number",
            Kind::Boolean => "boolean",
            Kind::IntOrString | Kind::Any => "",
        }
    }
}

/// How the items of a list are told apart (x-kubernetes-list-type).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ListType {
    #[default]
    Atomic,
    Set,
    /// By the values of these fields.
    Map(Vec<String>),
}

/// What stands behind the keys of an object that are no properties.
#[derive(Debug)]
pub enum Additional {
    /// `additionalProperties: true`, or `false`, which forbids them but prunes nothing.
    Untyped {
        allowed: bool,
    },
    Typed(Box<Node>),
}

#[derive(Debug)]
pub struct Node {
    pub(super) kind: Kind,
    /// Sorted by name.
    pub(super) properties: Vec<(String, Node)>,
    pub(super) additional: Option<Additional>,
    pub(super) items: Option<Box<Node>>,
    pub(super) list_type: ListType,
    pub(super) atomic_map: bool,
    pub(super) nullable: bool,
    pub(super) preserve_unknown: bool,
    pub(super) embedded: bool,
    pub(super) default: Option<Value>,
    pub(super) checks: Option<Box<Checks>>,
    pub(super) rules: Vec<Rule>,
    pub(super) below: Below,
}

/// What values must fulfil beyond their type.
#[derive(Debug, Default)]
pub(super) struct Checks {
    pub format: Option<(Format, String)>,
    pub maximum: Option<f64>,
    pub exclusive_maximum: bool,
    pub minimum: Option<f64>,
    pub exclusive_minimum: bool,
    pub multiple_of: Option<f64>,
    pub max_length: Option<i64>,
    pub min_length: Option<i64>,
    pub pattern: Option<Regex>,
    /// The pattern as its author wrote it, for messages.
    pub pattern_source: String,
    pub max_items: Option<i64>,
    pub min_items: Option<i64>,
    pub max_properties: Option<i64>,
    pub min_properties: Option<i64>,
    pub enumeration: Vec<Value>,
    pub required: Vec<String>,
    pub all_of: Vec<Node>,
    pub any_of: Vec<Node>,
    pub one_of: Vec<Node>,
    pub not: Option<Box<Node>>,
}

/// What occurs at a node or anywhere below it, so that walks pass over the rest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Below {
    pub embedded: bool,
    /// Lists of type set or map.
    pub keyed: bool,
    pub rules: bool,
}

impl Below {
    pub fn and(self, other: Self) -> Self {
        Self {
            embedded: self.embedded || other.embedded,
            keyed: self.keyed || other.keyed,
            rules: self.rules || other.rules,
        }
    }
}

impl Node {
    /// A node that knows nothing of its values and keeps them all.
    pub(super) fn keeping_all(kind: Kind) -> Self {
        Self {
            kind,
            properties: Vec::new(),
            additional: None,
            items: None,
            list_type: ListType::Atomic,
            atomic_map: false,
            nullable: false,
            preserve_unknown: true,
            embedded: false,
            default: None,
            checks: None,
            rules: Vec::new(),
            below: Below::default(),
        }
    }

    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// All declared properties, sorted by name.
    pub fn properties(&self) -> impl ExactSizeIterator<Item = (&str, &Node)> {
        self.properties.iter().map(|(name, node)| (name.as_str(), node))
    }

    pub fn property(&self, name: &str) -> Option<&Node> {
        let at = self.properties.binary_search_by(|(known, _)| known.as_str().cmp(name)).ok()?;
        Some(&self.properties[at].1)
    }

    /// As `property`, for names that come in order: `at` remembers where the last one was found.
    pub(super) fn seek(&self, name: &str, at: &mut usize) -> Option<&Node> {
        if self.properties.get(*at).is_none_or(|(next, _)| next != name) {
            *at = self.properties.binary_search_by(|(known, _)| known.as_str().cmp(name)).ok()?;
        }
        *at += 1;
        Some(&self.properties[*at - 1].1)
    }

    /// As `field`, for names that come in order.
    pub(super) fn seek_field(&self, name: &str, at: &mut usize) -> Option<&Node> {
        self.seek(name, at).or(match &self.additional {
            Some(Additional::Typed(node)) => Some(node),
            _ => None,
        })
    }

    pub fn additional(&self) -> Option<&Additional> {
        self.additional.as_ref()
    }

    /// The node of a field, declared or additional.
    pub fn field(&self, name: &str) -> Option<&Node> {
        self.property(name).or(match &self.additional {
            Some(Additional::Typed(node)) => Some(node),
            _ => None,
        })
    }

    pub fn items(&self) -> Option<&Node> {
        self.items.as_deref()
    }

    pub fn list_type(&self) -> &ListType {
        &self.list_type
    }

    /// x-kubernetes-map-type: atomic.
    pub fn atomic_map(&self) -> bool {
        self.atomic_map
    }

    pub fn nullable(&self) -> bool {
        self.nullable
    }

    pub fn preserve_unknown(&self) -> bool {
        self.preserve_unknown
    }

    /// x-kubernetes-embedded-resource: has apiVersion, kind and metadata of its own.
    pub fn embedded(&self) -> bool {
        self.embedded
    }

    pub fn default(&self) -> Option<&Value> {
        self.default.as_ref()
    }
}
