//! JSON patch (RFC 6902) as Kubernetes applies it.
//!
//! Our own, because Kubernetes' reading differs from the RFC in ways its clients lean on, and because every operation must be
//! bounded: indices may count from the end, `replace` sets a missing key of an existing object, an absent `value` is null, and
//! null tests equal to absent. Where Kubernetes' reading only hides mistakes we keep to the RFC: copying a missing key fails, and
//! a pointer must begin with `/`.

use serde_json::{Map, Value};

use crate::measure::measure;
use crate::{Error, MAX_DEPTH};

pub const MAX_OPERATIONS: usize = 10_000;

/// What all copies of one patch may add together, as many bytes as a request body may have: without it a few operations
/// double a document until memory ends (CVE-2019-1002100).
pub const COPY_LIMIT: usize = 3 << 20;

/// Nodes one patch may walk or shift beyond its own size, some tenths of a second: ten thousand operations on a long array
/// or a big subtree would otherwise take minutes.
const WORK_LIMIT: usize = 20_000_000;

/// Shifting array elements is this much cheaper than walking nodes.
const SHIFTS_PER_NODE: usize = 16;

// What is missing, in Kubernetes' words.
const MISSING: &str = "doc is missing path";
const TESTED: &str = "is missing path";
const FROM: &str = "doc is missing from path";
const DESTINATION: &str = "doc is missing destination path";

/// A patch read once, to be applied as often as a write has to be retried.
#[derive(Debug, Clone, PartialEq)]
pub struct Patch {
    operations: Vec<Operation>,
    unknown_fields: Vec<String>,
}

#[derive(Debug, Clone, PartialEq)]
enum Operation {
    Add { path: Pointer, value: Value },
    Remove { path: Pointer },
    Replace { path: Pointer, value: Value },
    Move { from: Pointer, path: Pointer },
    Copy { from: Pointer, path: Pointer },
    Test { path: Pointer, value: Value },
}

/// A JSON pointer (RFC 6901). The root has no segments.
#[derive(Debug, Clone, PartialEq)]
struct Pointer {
    text: String,
    segments: Vec<String>,
}

impl Patch {
    pub fn parse(patch: Value) -> Result<Self, Error> {
        let Value::Array(items) = patch else {
            return Err(Error::Malformed("a JSON patch must be an array of operations".into()));
        };
        if items.len() > MAX_OPERATIONS {
            return Err(Error::TooManyOperations(items.len()));
        }
        let mut unknown_fields = Vec::new();
        let mut operations = Vec::with_capacity(items.len());
        for (index, item) in items.into_iter().enumerate() {
            let Value::Object(item) = item else {
                return Err(Error::Malformed(format!("operation {index} of the JSON patch must be an object")));
            };
            let strange = |field: &&String| !matches!(field.as_str(), "op" | "path" | "from" | "value");
            unknown_fields.extend(item.keys().filter(strange).take(100).map(|field| format!("[{index}].{field}")));
            operations.push(Operation::parse(item)?);
        }
        Ok(Self { operations, unknown_fields })
    }

    /// Members no operation has, as paths (`[0].valeu`), for strict field validation.
    pub fn unknown_fields(&self) -> &[String] {
        &self.unknown_fields
    }

    pub fn apply(&self, mut document: Value) -> Result<Value, Error> {
        let mut budget = Budget::default();
        for operation in &self.operations {
            operation.apply(&mut document, &mut budget)?;
        }
        Ok(document)
    }
}

impl Operation {
    fn parse(mut item: Map<String, Value>) -> Result<Self, Error> {
        let text = |item: &mut Map<String, Value>, member: &str| match item.remove(member) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(Error::Malformed(format!("\"{member}\" of a JSON patch operation must be a string"))),
        };
        let kind = text(&mut item, "op")?.unwrap_or_else(|| "unknown".into());
        let (path, from) = (text(&mut item, "path")?, text(&mut item, "from")?);
        let value = item.remove("value").unwrap_or(Value::Null);
        let pointer = |operation, member, what, text: Option<String>| match text {
            Some(text) => Pointer::parse(operation, what, text),
            None => Err(Error::MissingMember { operation, member }),
        };
        let path = |operation, what| pointer(operation, "path", what, path);
        let from = |operation| pointer(operation, "from", FROM, from);
        match kind.as_str() {
            "add" => Ok(Self::Add { path: path("add", MISSING)?, value }),
            "remove" => Ok(Self::Remove { path: path("remove", MISSING)? }),
            "replace" => Ok(Self::Replace { path: path("replace", MISSING)?, value }),
            "move" => Ok(Self::Move { from: from("move")?, path: path("move", DESTINATION)? }),
            "copy" => Ok(Self::Copy { from: from("copy")?, path: path("copy", DESTINATION)? }),
            "test" => Ok(Self::Test { path: path("test", TESTED)?, value }),
            _ => Err(Error::UnknownOperation(kind)),
        }
    }

    fn apply(&self, document: &mut Value, budget: &mut Budget) -> Result<(), Error> {
        match self {
            Self::Add { path, value } => {
                Place::find(document, path, "add", MISSING)?.add(value.clone(), budget)?;
                budget.depth(path, value)
            }
            Self::Remove { path } => Place::find(document, path, "remove", MISSING)?.remove(budget).map(drop),
            Self::Replace { path, value } if path.is_root() => {
                if !(value.is_object() || value.is_array()) {
                    return Err(Error::Malformed("replace operation value must be object or array".into()));
                }
                *document = value.clone();
                budget.depth(path, value)
            }
            Self::Replace { path, value } => {
                Place::find(document, path, "replace", MISSING)?.replace(value.clone())?;
                budget.depth(path, value)
            }
            Self::Move { from, path } => {
                let value = Place::find(document, from, "move", FROM)?.remove(budget)?;
                if path.segments.len() > from.segments.len() {
                    budget.walk(measure(&value).nodes)?;
                    budget.depth(path, &value)?;
                }
                Place::find(document, path, "move", DESTINATION)?.add(value, budget)
            }
            Self::Copy { from, path } => {
                let value = Place::find(document, from, "copy", FROM)?.get()?;
                let value = value.ok_or_else(|| from.missing("copy", FROM))?;
                budget.copy(value)?;
                budget.depth(path, value)?;
                let value = value.clone();
                Place::find(document, path, "copy", DESTINATION)?.add(value, budget)
            }
            Self::Test { path, value } => {
                let passed = if path.is_root() {
                    document == value
                } else {
                    Place::find(document, path, "test", TESTED)?.get()?.unwrap_or(&Value::Null) == value
                };
                if passed { Ok(()) } else { Err(Error::TestFailed(path.text.clone())) }
            }
        }
    }
}

impl Pointer {
    fn parse(operation: &'static str, what: &'static str, text: String) -> Result<Self, Error> {
        let bare = Self { text, segments: Vec::new() };
        if bare.text.is_empty() {
            return Ok(bare);
        }
        // No document nests deeper, so a longer pointer leads nowhere; it need not be taken apart to know that.
        if !bare.text.starts_with('/') || bare.text.bytes().filter(|b| *b == b'/').count() > MAX_DEPTH {
            return Err(bare.missing(operation, what));
        }
        // "~01" is "~1": the order matters, and what is no escape stands for itself.
        let segments = bare.text.split('/').skip(1).map(|part| part.replace("~1", "/").replace("~0", "~")).collect();
        Ok(Self { segments, ..bare })
    }

    fn is_root(&self) -> bool {
        self.segments.is_empty()
    }

    fn missing(&self, operation: &'static str, what: &'static str) -> Error {
        let path: String = self.text.chars().take(1000).collect();
        let quoted = matches!(operation, "add" | "remove");
        Error::MissingPath { operation, what, path: if quoted { format!("\"{path}\"") } else { path } }
    }
}

/// Where a pointer leads: a key or index in a container that exists.
struct Place<'d, 'p> {
    container: &'d mut Value,
    pointer: &'p Pointer,
    key: &'p str,
    operation: &'static str,
}

impl<'d, 'p> Place<'d, 'p> {
    fn find(
        document: &'d mut Value,
        pointer: &'p Pointer,
        operation: &'static str,
        what: &'static str,
    ) -> Result<Self, Error> {
        let missing = || pointer.missing(operation, what);
        let (key, parents) = pointer.segments.split_last().ok_or_else(missing)?;
        let mut container = document;
        for segment in parents {
            let next = match container {
                Value::Object(members) => members.get_mut(segment),
                Value::Array(items) => index(segment, items.len()).and_then(|at| items.get_mut(at)),
                _ => None,
            };
            container = next.ok_or_else(missing)?;
        }
        if !(container.is_object() || container.is_array()) {
            return Err(missing());
        }
        Ok(Self { container, pointer, key, operation })
    }

    fn get(self) -> Result<Option<&'d Value>, Error> {
        match &*self.container {
            Value::Array(items) => match index(self.key, items.len()).and_then(|at| items.get(at)) {
                Some(item) => Ok(Some(item)),
                None => Err(bad_index(self.operation, self.pointer, self.key)),
            },
            other => Ok(other.get(self.key)),
        }
    }

    fn add(self, value: Value, budget: &mut Budget) -> Result<(), Error> {
        match self.container {
            Value::Array(items) => {
                let at = if self.key == "-" { Some(items.len()) } else { index(self.key, items.len() + 1) };
                let at = at.ok_or_else(|| bad_index(self.operation, self.pointer, self.key))?;
                budget.walk((items.len() - at) / SHIFTS_PER_NODE)?;
                items.insert(at, value);
            }
            Value::Object(members) => {
                members.insert(self.key.to_owned(), value);
            }
            _ => return Err(self.pointer.missing(self.operation, MISSING)),
        }
        Ok(())
    }

    fn replace(self, value: Value) -> Result<(), Error> {
        match self.container {
            Value::Array(items) => match index(self.key, items.len()).and_then(|at| items.get_mut(at)) {
                Some(item) => *item = value,
                None => return Err(bad_index(self.operation, self.pointer, self.key)),
            },
            Value::Object(members) => {
                members.insert(self.key.to_owned(), value);
            }
            _ => return Err(self.pointer.missing(self.operation, MISSING)),
        }
        Ok(())
    }

    fn remove(self, budget: &mut Budget) -> Result<Value, Error> {
        match self.container {
            Value::Array(items) => {
                let at = index(self.key, items.len());
                let at = at.ok_or_else(|| bad_index(self.operation, self.pointer, self.key))?;
                budget.walk((items.len() - at) / SHIFTS_PER_NODE)?;
                Ok(items.remove(at))
            }
            Value::Object(members) => members.remove(self.key).ok_or_else(|| Error::MissingKey {
                operation: self.operation,
                path: self.pointer.text.clone(),
                key: self.key.to_owned(),
            }),
            _ => Err(self.pointer.missing(self.operation, MISSING)),
        }
    }
}

/// The index a segment names in an array with `length` places; negative ones count from the end.
fn index(segment: &str, length: usize) -> Option<usize> {
    let number: i64 = segment.parse().ok()?;
    let at = if number < 0 {
        length.checked_sub(usize::try_from(number.unsigned_abs()).ok()?)?
    } else {
        usize::try_from(number).ok()?
    };
    (at < length).then_some(at)
}

fn bad_index(operation: &'static str, pointer: &Pointer, key: &str) -> Error {
    Error::BadIndex { operation, path: pointer.text.clone(), index: key.to_owned() }
}

/// What a patch has used up so far.
#[derive(Default)]
struct Budget {
    copied: usize,
    work: usize,
}

impl Budget {
    fn copy(&mut self, value: &Value) -> Result<(), Error> {
        self.copied += measure(value).bytes;
        if self.copied > COPY_LIMIT {
            return Err(Error::CopyTooLarge { size: self.copied, limit: COPY_LIMIT });
        }
        Ok(())
    }

    fn walk(&mut self, nodes: usize) -> Result<(), Error> {
        self.work += nodes;
        if self.work > WORK_LIMIT { Err(Error::TooMuchWork) } else { Ok(()) }
    }

    fn depth(&self, path: &Pointer, value: &Value) -> Result<(), Error> {
        if path.segments.len() + measure(value).depth > MAX_DEPTH { Err(Error::TooDeep) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests;
