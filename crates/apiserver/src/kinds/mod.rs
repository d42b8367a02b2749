//! The kinds we serve: rows of data over one generic handler, and the registry that finds them.

mod access;
mod apps;
mod autoscaling;
mod batch;
mod behaviour;
mod builtin;
mod cells;
pub mod check;
mod classes;
mod columns;
mod core;
pub mod custom;
pub mod defaults;
pub mod definition;
mod describe;
mod endpoint;
mod endpoints;
mod jsonpath;
mod limits;
pub mod metadata;
mod networking;
mod node;
pub mod pod;
mod policy;
mod registry;
mod rules;
pub mod service;
mod templates;
pub mod volumes;

pub use behaviour::{Behaviour, StoredAs, spec_changes};
pub use builtin::SEALED;
pub use classes::SYSTEM_PRIORITIES;
pub use custom::{Custom, Definition};
pub use describe::describer;
pub use endpoint::{
    Action, Connect, Endpoint, FINALIZE, GroupVersionKind, STATUS, ScalePaths, ScaleSelector, Subresource,
};
pub use registry::Registry;

use crate::objects::Part;
use behaviour::rest;
use describe::describe;
use jiff::Timestamp;
use meta::{FieldErrors, GroupResource, Object};
use serde_json::Value;
use std::borrow::Cow;
use store::{Attrs, Collection, Entry, Key, Revision};
use tokio_util::sync::CancellationToken;

/// One served kind at one version.
pub struct Kind {
    pub group: String,
    pub version: String,
    pub kind: String,
    pub plural: String,
    pub singular: String,
    pub short_names: Vec<String>,
    pub categories: Vec<String>,
    pub namespaced: bool,
    /// Where its objects live; versions and groups that share objects share the collection.
    pub collection: Collection,
    /// How its objects are stored when that is not how they are served.
    pub stored_as: Option<StoredAs>,
    pub behaviour: &'static Behaviour,
    pub subresources: Vec<Subresource>,
    /// Nothing is stored: a POST does this and answers.
    pub action: Option<Action>,
    /// Defined by a CustomResourceDefinition.
    pub custom: Option<Box<Custom>>,
    /// Where a built-in kind stands among them.
    pub ordinal: usize,
}

impl Kind {
    /// The kind of a body that is not itself stored, as far as decoding needs to know it.
    pub fn of_body(body: GroupVersionKind) -> Self {
        Self {
            group: body.group.into(),
            version: body.version.into(),
            kind: body.kind.into(),
            plural: String::new(),
            singular: String::new(),
            short_names: Vec::new(),
            categories: Vec::new(),
            namespaced: false,
            collection: Collection::new(""),
            stored_as: None,
            behaviour: &builtin::PLAIN,
            subresources: Vec::new(),
            action: None,
            custom: None,
            ordinal: usize::MAX,
        }
    }

    pub fn resource(&self) -> GroupResource<'_> {
        GroupResource { group: &self.group, resource: &self.plural }
    }

    pub fn api_version(&self) -> String {
        meta::api_version(&self.group, &self.version)
    }

    /// The apiVersion its objects are stored in.
    pub fn stored_api_version(&self) -> Cow<'_, str> {
        match (&self.custom, &self.stored_as) {
            (Some(custom), _) => custom.stored_api_version().into(),
            (None, Some(stored)) => stored.api_version.into(),
            (None, None) => self.api_version().into(),
        }
    }

    /// The item under which an object of this kind is stored.
    pub fn key(&self, namespace: &str, name: &str) -> Key {
        let item = if self.namespaced { format!("{namespace}/{name}") } else { name.to_owned() };
        Key { collection: self.collection.clone(), item: item.into() }
    }

    /// The item prefix of a namespace; everything when there is none.
    pub fn prefix(&self, namespace: &str) -> String {
        if self.namespaced && !namespace.is_empty() { format!("{namespace}/") } else { String::new() }
    }

    pub fn verbs(&self) -> &'static [&'static str] {
        if self.action.is_some() {
            &["create"]
        } else if let Some(custom) = &self.custom {
            match custom.terminating {
                true => &["delete", "deletecollection", "get", "list", "watch"],
                false => &["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"],
            }
        } else if self.behaviour.deletes_collection {
            &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
        } else {
            &["create", "delete", "get", "list", "patch", "update", "watch"]
        }
    }

    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|s| s.name == name)
    }

    /// The kind of its lists.
    pub fn list_kind(&self) -> Cow<'_, str> {
        match &self.custom {
            Some(custom) => custom.list_kind.as_str().into(),
            None => format!("{}List", self.kind).into(),
        }
    }

    /// Objects are not stored in the form they are served in.
    pub fn converts(&self) -> bool {
        self.stored_as.is_some() || self.custom.as_ref().is_some_and(|c| !c.is_stored_version())
    }

    /// The stored bytes of an object are what is served, but for its revision.
    pub fn is_verbatim(&self, value: &[u8], revision: Revision) -> bool {
        match &self.custom {
            Some(custom) => custom.is_verbatim(value, revision),
            None => self.stored_as.is_none(),
        }
    }

    /// The event of this revision looks alike to all its watchers.
    pub fn shares_event(&self, revision: Revision) -> bool {
        self.custom.as_ref().map_or(self.stored_as.is_none(), |custom| custom.shares(revision))
    }

    /// The stored form of an object as this kind serves it.
    pub fn to_stored(&self, object: &mut Object) {
        if let Some(stored) = &self.stored_as {
            for (inner, outer) in stored.renames {
                rename(object, outer, inner);
            }
            (stored.to_stored)(object);
            object.set_type(stored.api_version, &self.kind);
            let (group, version) = meta::split_api_version(stored.api_version);
            retype(object, group, version, &self.kind);
        }
        if let Some(custom) = &self.custom {
            custom.to_stored(object, &self.kind);
        }
    }

    /// The served form of an object stored at a revision.
    pub fn to_served(&self, object: &mut Object, revision: Revision) {
        if let Some(custom) = &self.custom {
            custom.to_served(object, self, revision);
        } else if let Some(stored) = &self.stored_as {
            for (inner, outer) in stored.renames {
                rename(object, inner, outer);
            }
            (stored.to_served)(object);
            object.set_type(&self.api_version(), &self.kind);
            retype(object, &self.group, &self.version, &self.kind);
        } else {
            object.set_type(&self.api_version(), &self.kind);
        }
    }

    /// Brings a body into the kind's form; tells the fields that are not of it and were dropped.
    pub fn conform(&self, object: &mut Object) -> Result<Vec<String>, schema::Mismatch> {
        if let Some(custom) = &self.custom {
            return custom.conform(object);
        }
        let facts = schema::Facts::builtin();
        let Some(ty) = facts.kind(&self.group, &self.version, &self.kind) else { return Ok(Vec::new()) };
        let mut value = Value::Object(std::mem::take(&mut object.0));
        let outcome = schema::decode(facts, ty, &mut value);
        *object = Object::from_value(value).unwrap_or_default();
        outcome.map(|decoded| decoded.unknown)
    }

    /// Defaults of any write.
    pub fn default(&self, object: &mut Object) {
        match &self.custom {
            Some(custom) => custom.default(object),
            None => (self.behaviour.default)(object),
        }
    }

    /// The object as far as it is its author's.
    pub fn authored<'o>(&self, object: &'o Object) -> Cow<'o, Object> {
        match self.behaviour.authored {
            Some(add) => {
                let mut whole = object.clone();
                add(&mut whole);
                Cow::Owned(whole)
            }
            None => Cow::Borrowed(object),
        }
    }

    /// Turns lists without items into none, as they are stored.
    pub fn drop_empty_lists(&self, object: &mut Object) {
        if self.custom.is_none()
            && schema::holds_empty_list(&object.0)
            && let Some(ty) = schema::Facts::builtin().kind(&self.group, &self.version, &self.kind)
        {
            schema::drop_empty_lists(schema::Facts::builtin(), ty, &mut object.0);
        }
    }

    /// What is wrong with an object beyond its metadata; `old` is the one it replaces.
    pub fn validate(&self, part: Part, object: &Object, old: Option<&Object>) -> FieldErrors {
        if let Some(custom) = &self.custom {
            return custom.validate(self, part, object, old);
        }
        // A status is judged by its own rules: it must not fail for what the spec was allowed to be.
        let mut errors = if part == Part::Status { Vec::new() } else { (self.behaviour.validate)(object) };
        errors.extend(match (old, part) {
            (None, _) => (self.behaviour.validate_create)(object),
            (Some(old), Part::Main) => (self.behaviour.validate_update)(object, old),
            (Some(old), part) => (self.behaviour.validate_part)(part, object, old),
        });
        errors
    }

    /// A change that counts as a new generation: of anything but metadata and what the status subresource is for.
    pub fn is_new_generation(&self, new: &Object, old: &Object) -> bool {
        match &self.custom {
            Some(_) if !self.behaviour.status => rest(new, &["metadata"]).ne(rest(old, &["metadata"])),
            Some(_) => spec_changes(new, old),
            None => (self.behaviour.changes)(new, old),
        }
    }

    pub fn column_definitions(&self) -> Value {
        match &self.custom {
            Some(custom) => custom.column_definitions(),
            None => self.behaviour.columns.iter().map(|c| c.to_value()).collect(),
        }
    }

    /// The cells of a table row, from the stored form.
    pub fn cells(&self, mut stored: Object, revision: Revision, now: Timestamp) -> Vec<Value> {
        match &self.custom {
            Some(custom) => {
                custom.to_served(&mut stored, self, revision);
                custom.cells(&stored, now)
            }
            None => (self.behaviour.cells)(&stored, now),
        }
    }

    /// What the writer of an object should know.
    pub fn advice(&self, object: &Object, old: Option<&Object>) -> Vec<String> {
        match (&self.custom, self.behaviour.advice) {
            (Some(custom), _) => custom.advice(object, old),
            (None, Some(advice)) => advice(object, old),
            (None, None) => Vec::new(),
        }
    }

    /// What every client of the kind is warned of.
    pub fn warnings(&self) -> &[String] {
        self.custom.as_ref().map(|c| c.warnings.as_slice()).unwrap_or_default()
    }

    /// Ends when the kind is no longer what it is now, at the latest with `stop`.
    pub fn lifetime(&self, stop: &CancellationToken) -> CancellationToken {
        self.custom.as_ref().map_or(stop, |custom| &custom.retired).child_token()
    }

    /// What creation makes of a status: nothing is known yet.
    pub fn clear_status(&self, object: &mut Object) {
        let facts = schema::Facts::builtin();
        let field = facts.kind(&self.group, &self.version, &self.kind).and_then(|ty| ty.field("status"));
        match field.map(|field| facts.zero(&field.shape)) {
            Some(zero) if !zero.is_null() => object.0.insert("status".into(), zero),
            _ => object.0.remove("status"),
        };
    }

    /// The group that names this kind in validation errors: the one it is stored in.
    pub fn error_group(&self) -> &str {
        self.stored_as.as_ref().map_or(&self.group, |stored| meta::split_api_version(stored.api_version).0)
    }

    /// The key under which a selectable field stands among an entry's facts.
    pub fn selectable_path(&self, label: &str) -> Option<&str> {
        match &self.custom {
            Some(custom) => custom.selectable_path(label),
            None => self.behaviour.selectable.iter().find(|(l, _)| *l == label).map(|(_, path)| *path),
        }
    }

    /// Facts about an object that selectors and the garbage collector ask for.
    pub fn describe(&self, object: &Object) -> Attrs {
        let mut attrs = describe(object, self.behaviour.selectable);
        if let Some(custom) = &self.custom {
            attrs.fields = custom.selectable_values(object);
        }
        attrs
    }

    /// The values of selectable fields when the entry lacks them: the definition that names them came later.
    pub fn late_values(
        &self,
        entry: &Entry,
        wanted: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> Vec<(Box<str>, Box<str>)> {
        let Some(custom) = &self.custom else { return Vec::new() };
        let lacks = |path: &str| !entry.attrs.fields.iter().any(|(k, _)| &**k == path);
        if !wanted.into_iter().any(|field| self.selectable_path(field.as_ref()).is_some_and(lacks)) {
            return Vec::new();
        }
        let parsed = meta::json::parse(&entry.value).ok().and_then(|p| Object::from_value(p.value));
        parsed.map(|object| custom.selectable_values(&object)).unwrap_or_default()
    }

    /// Whether a field selector may name this field.
    pub fn selects(&self, field: &str) -> bool {
        field == "metadata.name"
            || (field == "metadata.namespace" && self.namespaced)
            || self.selectable_path(field).is_some()
    }
}

fn rename(object: &mut Object, from: &str, to: &str) {
    if let Some(value) = object.0.remove(from) {
        object.0.insert(to.to_owned(), value);
    }
}

/// Renamed fields may be left out in one form and always written in the other.
fn retype(object: &mut Object, group: &str, version: &str, kind: &str) {
    let facts = schema::Facts::builtin();
    if let Some(ty) = facts.kind(group, version, kind) {
        let mut value = Value::Object(std::mem::take(&mut object.0));
        // What is stored was checked when it was written.
        let _ = schema::decode(facts, ty, &mut value);
        *object = Object::from_value(value).unwrap_or_default();
    }
}
