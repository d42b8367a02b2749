//! What the schema says of a value: its type, and how large it may get.

use std::collections::{BTreeMap, BTreeSet};

/// The largest request body the cost model reckons with.
pub const MAX_REQUEST_BYTES: u64 = 3 * 1024 * 1024;

/// What is known of the value bound to `self`. Field names are as in JSON; expressions reach them escaped (see [`crate::escape`]).
#[derive(Clone, Debug, PartialEq)]
pub enum Decl {
    /// Anything; its type is asked at run time.
    Dyn,
    /// `x-kubernetes-int-or-string`, with the schema's `maxLength`.
    IntOrString {
        max: Option<u64>,
    },
    Null,
    Bool,
    Int,
    Double,
    /// `max` is the schema's `maxLength`, in characters.
    String {
        max: Option<u64>,
    },
    /// A string out of an enumeration (and without `maxLength`), with the bytes of its longest value.
    Enum {
        longest: u64,
    },
    /// Format `byte`: base64 in JSON.
    Bytes {
        max: Option<u64>,
    },
    /// Format `date`.
    Date,
    /// Format `date-time`.
    Timestamp,
    /// Format `duration`.
    Duration,
    List {
        element: Box<Decl>,
        max: Option<u64>,
        identity: Identity,
    },
    Map {
        value: Box<Decl>,
        max: Option<u64>,
    },
    Object {
        fields: BTreeMap<String, Decl>,
        /// Fields every value must bring along: required and without a default. They bound how many such objects fit a request.
        required: BTreeSet<String>,
    },
}

/// `x-kubernetes-list-type`: decides what `==` and `+` mean on lists.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Identity {
    #[default]
    Atomic,
    Set,
    Map(Vec<String>),
}

impl Decl {
    /// What a resource always has, whatever its schema says: `apiVersion`, `kind` and the names in `metadata`. For the root of a
    /// custom resource and for embedded resources.
    pub fn with_object_meta(mut self) -> Decl {
        if let Decl::Object { fields, .. } = &mut self {
            let text = || Decl::String { max: None };
            let named = |metadata: &Decl| matches!(metadata, Decl::Object { fields, .. } if fields.contains_key("name") && fields.contains_key("generateName"));
            let complete = fields.contains_key("kind")
                && fields.contains_key("apiVersion")
                && fields.get("metadata").is_some_and(named);
            if !complete {
                let names = BTreeMap::from([("name".to_string(), text()), ("generateName".to_string(), text())]);
                fields.insert("kind".into(), text());
                fields.insert("apiVersion".into(), text());
                fields.insert("metadata".into(), Decl::Object { fields: names, required: BTreeSet::new() });
            }
        }
        self
    }

    /// The fewest bytes a value takes in JSON.
    pub fn min_size(&self) -> u64 {
        match self {
            Decl::Dyn | Decl::IntOrString { .. } | Decl::Int | Decl::Double => 1,
            Decl::Null | Decl::Bool => 4,
            Decl::String { .. } | Decl::Enum { .. } | Decl::Bytes { .. } | Decl::List { .. } | Decl::Map { .. } => 2,
            Decl::Date => 12,
            Decl::Timestamp => 21,
            Decl::Duration => 3,
            Decl::Object { fields, required } => {
                let sizes = fields.iter().filter(|(name, _)| required.contains(*name));
                2 + sizes.map(|(name, decl)| name.len() as u64 + decl.min_size() + 4).sum::<u64>()
            }
        }
    }

    /// How often such a value can be in one request, if nothing else bounds it.
    pub fn max_cardinality(&self) -> u64 {
        MAX_REQUEST_BYTES / (self.min_size() + 1)
    }

    /// The largest size (characters, bytes, elements) a value can have: what the schema says, or what fits a request.
    pub(crate) fn max_elements(&self) -> u64 {
        let longest = MAX_REQUEST_BYTES - 2;
        match self {
            // A character may take four bytes.
            Decl::String { max } | Decl::IntOrString { max } => max.map_or(longest, |max| max.saturating_mul(4)),
            Decl::Bytes { max } => max.unwrap_or(longest),
            Decl::Enum { longest } => *longest,
            Decl::Timestamp | Decl::Duration => 32,
            Decl::Date => 12,
            Decl::List { element, max, .. } => max.unwrap_or_else(|| longest / (element.min_size() + 1)),
            Decl::Map { value, max } => max.unwrap_or_else(|| longest / (value.min_size() + 6)),
            Decl::Dyn | Decl::Null | Decl::Bool | Decl::Int | Decl::Double | Decl::Object { .. } => 0,
        }
    }
}
