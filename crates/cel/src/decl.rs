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
