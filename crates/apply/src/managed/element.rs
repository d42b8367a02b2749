//! One step of a path into an object.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt::{self, Write};

use serde_json::Value;

use super::value;

/// A field by name, a list item by its keys, by its value or by its place. Borrows from the object it was found in.
#[derive(Debug, Clone)]
pub enum Element<'a> {
    Field(Cow<'a, str>),
    /// Sorted by name.
    Key(Vec<(Cow<'a, str>, Cow<'a, Value>)>),
    Value(Cow<'a, Value>),
    Index(i64),
}

impl<'a> Element<'a> {
    pub fn field(name: &'a str) -> Self {
        Self::Field(Cow::Borrowed(name))
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Field(_) => 0,
            Self::Key(_) => 1,
            Self::Value(_) => 2,
            Self::Index(_) => 3,
        }
    }
}

impl Ord for Element<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Field(a), Self::Field(b)) => a.cmp(b),
            (Self::Key(a), Self::Key(b)) => {
                value::sequence(a.iter(), b.iter(), |(k, a), (l, b)| k.cmp(l).then_with(|| value::order(a, b)))
            }
            (Self::Value(a), Self::Value(b)) => value::order(a, b),
            (Self::Index(a), Self::Index(b)) => a.cmp(b),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for Element<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Element<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Element<'_> {}

/// As conflicts name it: `.spec`, `[name="web"]`, `[="a"]`, `[3]`.
impl fmt::Display for Element<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Key(keys) => {
                for (i, (name, value)) in keys.iter().enumerate() {
                    f.write_char(if i == 0 { '[' } else { ',' })?;
                    write!(f, "{name}={value}")?;
                }
                f.write_char(']')
            }
            Self::Value(value) => write!(f, "[={value}]"),
            Self::Index(at) => write!(f, "[{at}]"),
        }
    }
}
