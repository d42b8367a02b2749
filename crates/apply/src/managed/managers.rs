//! The entries of `metadata.managedFields`.

use std::borrow::Cow;
use std::cmp::Ordering;

use serde_json::Value;

use super::encode::Malformed;
use super::set::FieldSet;

/// Everyone who owns fields of an object, each once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Managers<'a>(pub(super) Vec<Manager<'a>>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manager<'a> {
    pub name: Cow<'a, str>,
    pub operation: Operation,
    /// The version in which the fields are named.
    pub api_version: Cow<'a, str>,
    /// When the fields last changed.
    pub time: Option<Cow<'a, str>>,
    pub subresource: Cow<'a, str>,
    pub fields: FieldSet<'a>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    Apply,
    Update,
}

/// Why `managedFields` cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    #[error("managedFields must be a list of objects")]
    NotAList,
    #[error("operation must be `Apply` or `Update`")]
    Operation,
    #[error("apiVersion must not be empty")]
    NoVersion,
    #[error("missing fieldsType in managed fields entry {0}")]
    NoFieldsType(usize),
    #[error("invalid fieldsType {1:?} in managed fields entry {0}")]
    FieldsType(usize, String),
    #[error("error decoding set: {0}")]
    Fields(#[from] Malformed),
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

impl Manager<'_> {
    /// Appliers are known by name and subresource, updaters by version too.
    pub(super) fn is_same(&self, other: &Manager<'_>) -> bool {
        self.key() == other.key()
    }

    fn key(&self) -> (Operation, &str, &str, &str) {
        let version = if self.operation == Operation::Apply { "" } else { &*self.api_version };
        (self.operation, &self.name, &self.subresource, version)
    }

    /// What tells managers apart, as the text they are sorted by.
    pub(super) fn identity(&self) -> String {
        let mut out = Vec::new();
        let mut put = |name: &str, value: &str| {
            if !value.is_empty() {
                out.extend_from_slice(if out.is_empty() { b"{" } else { b"," });
                out.extend_from_slice(format!("\"{name}\":{}", Value::from(value)).as_bytes());
            }
        };
        put("manager", &self.name);
        put("operation", self.operation.name());
        if self.operation == Operation::Update {
            put("apiVersion", &self.api_version);
        }
        put("subresource", &self.subresource);
        String::from_utf8_lossy(&out).into_owned() + "}"
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.push(b'{');
        let text = |name: &str, value: &str, out: &mut Vec<u8>| {
            if !value.is_empty() {
                out.push(b'"');
                out.extend_from_slice(name.as_bytes());
                out.extend_from_slice(b"\":");
                // Writing JSON into a Vec cannot fail.
                let _ = serde_json::to_writer(&mut *out, value);
                out.push(b',');
            }
        };
        text("manager", &self.name, out);
        text("operation", self.operation.name(), out);
        text("apiVersion", &self.api_version, out);
        text("time", self.time.as_deref().unwrap_or_default(), out);
        text("subresource", &self.subresource, out);
        out.extend_from_slice(b"\"fieldsType\":\"FieldsV1\",\"fieldsV1\":");
        self.fields.encode(out);
        out.push(b'}');
    }
}

impl<'a> Managers<'a> {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Manager<'a>> {
        self.0.iter()
    }

    /// Reads `metadata.managedFields`; nothing and null are nobody.
    pub fn decode(entries: Option<&'a Value>) -> Result<Self, Unusable> {
        let mut out = Self::default();
        let entries = match entries {
            None | Some(Value::Null) => return Ok(out),
            Some(Value::Array(entries)) => entries,
            Some(_) => return Err(Unusable::NotAList),
        };
        for (i, entry) in entries.iter().enumerate() {
            let text = |name: &str| Cow::Borrowed(entry.get(name).and_then(Value::as_str).unwrap_or_default());
            let operation = match &*text("operation") {
                "Apply" => Operation::Apply,
                "Update" => Operation::Update,
                _ => return Err(Unusable::Operation),
            };
            let api_version = text("apiVersion");
            if api_version.is_empty() {
                return Err(Unusable::NoVersion);
            }
            match &*text("fieldsType") {
                "FieldsV1" => {}
                "" => return Err(Unusable::NoFieldsType(i)),
                other => return Err(Unusable::FieldsType(i, other.to_owned())),
            }
            let fields = match entry.get("fieldsV1") {
                None | Some(Value::Null) => FieldSet::default(),
                Some(fields) => FieldSet::decode(fields)?,
            };
            let time = Some(text("time")).filter(|time| !time.is_empty());
            let (name, subresource) = (text("manager"), text("subresource"));
            out.0.push(Manager { name, operation, api_version, time, subresource, fields });
        }
        out.unite();
        Ok(out)
    }

    /// Of entries of one manager the last counts.
    fn unite(&mut self) {
        if self.0.len() < 2 {
            return;
        }
        // Each entry with its place, so that the last of equals comes first.
        let mut entries: Vec<_> = std::mem::take(&mut self.0).into_iter().enumerate().collect();
        entries.sort_by(|(i, a), (j, b)| a.key().cmp(&b.key()).then(j.cmp(i)));
        entries.dedup_by(|(_, later), (_, kept)| later.is_same(kept));
        self.0 = entries.into_iter().map(|(_, entry)| entry).collect();
    }

    /// Whether a client asks to forget all owners: an empty list, or one with a single empty entry.
    pub fn is_reset(entries: &Value) -> bool {
        match entries.as_array().map(Vec::as_slice) {
            Some([]) => true,
            Some([Value::Object(entry)]) => entry.values().all(|v| v.is_null() || v.as_str() == Some("")),
            Some([Value::Null]) => true,
            _ => false,
        }
    }

    /// Appends the list as JSON: appliers first, then by time, name, version and subresource.
    pub fn encode(&mut self, out: &mut Vec<u8>) {
        self.0.sort_by(in_list);
        for (i, manager) in self.0.iter().enumerate() {
            out.push(if i == 0 { b'[' } else { b',' });
            manager.encode(out);
        }
        out.extend_from_slice(if self.0.is_empty() { b"[]" } else { b"]" });
    }

    /// Like another list but for the times.
    pub fn is_same_but_for_times(&self, other: &Managers<'_>) -> bool {
        self.0.len() == other.0.len()
            && self
                .0
                .iter()
                .all(|m| other.0.iter().any(|o| m.is_same(o) && m.api_version == o.api_version && m.fields == o.fields))
    }

    pub(super) fn find(&self, wanted: &Manager<'_>) -> Option<usize> {
        self.0.iter().position(|m| m.is_same(wanted))
    }

    /// Adds an entry, in place of an earlier one of the same manager.
    pub(super) fn put(&mut self, manager: Manager<'a>) {
        match self.find(&manager) {
            Some(at) => self.0[at] = manager,
            None => self.0.push(manager),
        }
    }

    /// Folds the oldest updaters of a version into one entry until there are few enough.
    pub(super) fn cap(&mut self) {
        let count = self.0.iter().filter(|m| m.operation == Operation::Update).count();
        if count <= MAX_UPDATERS {
            return;
        }
        let (mut updaters, appliers): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.0).into_iter().partition(|m| m.operation == Operation::Update);
        updaters.sort_by_cached_key(|m| (m.name != ANCIENT, seconds(m).to_owned(), m.identity()));
        let mut excess = count - MAX_UPDATERS;
        let mut kept: Vec<Manager<'a>> = Vec::with_capacity(updaters.len());
        // What follows the first of a version is folded into it.
        for mut updater in updaters {
            let first = kept.iter().position(|m| m.api_version == updater.api_version);
            match first {
                Some(first) if excess > 0 => {
                    let bucket = &mut kept[first];
                    bucket.name = Cow::Borrowed(ANCIENT);
                    bucket.subresource = Cow::Borrowed("");
                    let before = std::mem::take(&mut bucket.fields);
                    bucket.fields = before.union(std::mem::take(&mut updater.fields));
                    bucket.time = updater.time;
                    excess -= 1;
                }
                _ => kept.push(updater),
            }
        }
        self.0 = appliers;
        self.0.extend(kept);
    }
}

const MAX_UPDATERS: usize = 10;
const ANCIENT: &str = "ancient-changes";

fn in_list(a: &Manager<'_>, b: &Manager<'_>) -> Ordering {
    let key = |m: &Manager<'_>| (m.operation, seconds(m).to_owned());
    key(a)
        .cmp(&key(b))
        .then_with(|| a.name.cmp(&b.name))
        .then_with(|| a.api_version.cmp(&b.api_version))
        .then_with(|| a.subresource.cmp(&b.subresource))
}

/// Times are stored in one form, so their text is in their order; none is the epoch.
fn seconds<'m>(manager: &'m Manager<'_>) -> &'m str {
    manager.time.as_deref().unwrap_or("1970-01-01T00:00:00Z")
}
