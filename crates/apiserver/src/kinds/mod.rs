//! The kinds we serve: rows of data over one generic handler, and the registry that finds them.

mod access;
mod builtin;
mod columns;
pub mod metadata;
mod rules;

pub use builtin::SEALED;

use crate::objects::Part;
use jiff::Timestamp;
use meta::table::Column;
use meta::{FieldErrors, GroupResource, Object};
use serde_json::Value;
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use store::{Attrs, Collection, Key};

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
}

/// An endpoint below an object, e.g. `status`.
#[derive(Clone, Debug)]
pub struct Subresource {
    pub name: &'static str,
    pub endpoint: Endpoint,
    /// The kind of its bodies, when that is not the object's own.
    pub body: Option<GroupVersionKind>,
    pub verbs: &'static [&'static str],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupVersionKind {
    pub group: &'static str,
    pub version: &'static str,
    pub kind: &'static str,
}

/// What a path leads to.
#[derive(Clone, Debug)]
pub enum Endpoint {
    /// The object, or a part of it in the object's own shape.
    Object(Part),
    /// How many there should be and are, as a `Scale`.
    Scale(ScalePaths),
    Action(Action),
}

/// Where a kind keeps what a `Scale` shows; dotted paths without a leading dot.
#[derive(Clone, Debug)]
pub struct ScalePaths {
    pub replicas: Cow<'static, str>,
    pub current: Cow<'static, str>,
    pub selector: ScaleSelector,
}

#[derive(Clone, Debug)]
pub enum ScaleSelector {
    None,
    /// A LabelSelector in `spec.selector`.
    Spec,
    /// The selector's text form stands at this path.
    Text(String),
}

/// What a POST does that does not store its body as an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    ReviewAccess,
    /// In the namespace of the path.
    ReviewAccessHere,
    ReviewMyAccess,
    ReviewMyRules,
    ReviewMyself,
    ReviewToken,
    /// A token for the service account of the path.
    RequestToken,
}

pub const STATUS: Subresource = Subresource {
    name: "status",
    endpoint: Endpoint::Object(Part::Status),
    body: None,
    verbs: &["get", "patch", "update"],
};

pub const FINALIZE: Subresource =
    Subresource { name: "finalize", endpoint: Endpoint::Object(Part::Finalize), body: None, verbs: &["update"] };

impl Subresource {
    pub const fn scale(paths: ScalePaths) -> Self {
        Self {
            name: "scale",
            endpoint: Endpoint::Scale(paths),
            body: Some(GroupVersionKind { group: "autoscaling", version: "v1", kind: "Scale" }),
            verbs: &["get", "patch", "update"],
        }
    }

    pub const fn action(name: &'static str, action: Action, body: GroupVersionKind) -> Self {
        Self { name, endpoint: Endpoint::Action(action), body: Some(body), verbs: &["create"] }
    }
}

/// Another group-version is the stored form; top-level fields are renamed on the way.
pub struct StoredAs {
    pub api_version: &'static str,
    /// (stored, served)
    pub renames: &'static [(&'static str, &'static str)],
}

/// What differs from kind to kind, as data and small functions.
pub struct Behaviour {
    /// Name rule; the flag says it is a prefix (generateName).
    pub name: fn(&str, bool) -> Vec<String>,
    /// `metadata.generation` counts changes of the spec.
    pub generation: bool,
    /// Has a status subresource: the main resource leaves status alone and the other way round.
    pub status: bool,
    /// Subresources besides `status`.
    pub subresources: &'static [Subresource],
    /// PUT creates what does not exist.
    pub create_on_update: bool,
    /// PUT without a resourceVersion overwrites.
    pub unconditional_update: bool,
    /// DELETE answers the object instead of a Status.
    pub returns_deleted: bool,
    /// Field selectors beyond metadata.name and metadata.namespace: label, and dotted path in the stored form.
    pub selectable: &'static [(&'static str, &'static str)],
    /// DELETE of the whole collection is allowed.
    pub deletes_collection: bool,
    pub columns: &'static [Column],
    pub cells: fn(&Object, Timestamp) -> Vec<Value>,
    /// Defaults of any write.
    pub default: fn(&mut Object),
    /// What only creation sets.
    pub prepare_create: fn(&mut Object),
    /// What an update of the main resource may not touch is taken from the old object.
    pub prepare_update: fn(&mut Object, &Object),
    pub validate: fn(&Object) -> FieldErrors,
    pub validate_update: fn(&Object, &Object) -> FieldErrors,
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
        }
    }

    pub fn resource(&self) -> GroupResource<'_> {
        GroupResource { group: &self.group, resource: &self.plural }
    }

    pub fn api_version(&self) -> String {
        meta::api_version(&self.group, &self.version)
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
        } else if self.behaviour.deletes_collection {
            &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
        } else {
            &["create", "delete", "get", "list", "patch", "update", "watch"]
        }
    }

    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|s| s.name == name)
    }

    /// The stored form of an object as this kind serves it.
    pub fn to_stored(&self, object: &mut Object) {
        if let Some(stored) = &self.stored_as {
            for (inner, outer) in stored.renames {
                rename(object, outer, inner);
            }
            object.set_type(stored.api_version, &self.kind);
            let (group, version) = meta::split_api_version(stored.api_version);
            retype(object, group, version, &self.kind);
        }
    }

    /// The served form of a stored object.
    pub fn to_served(&self, object: &mut Object) {
        if let Some(stored) = &self.stored_as {
            for (inner, outer) in stored.renames {
                rename(object, inner, outer);
            }
            object.set_type(&self.api_version(), &self.kind);
            retype(object, &self.group, &self.version, &self.kind);
        } else {
            object.set_type(&self.api_version(), &self.kind);
        }
    }

    /// The group that names this kind in validation errors: the one it is stored in.
    pub fn error_group(&self) -> &str {
        self.stored_as.as_ref().map_or(&self.group, |stored| meta::split_api_version(stored.api_version).0)
    }

    /// The key under which a selectable field stands among an entry's facts.
    pub fn selectable_path(&self, label: &str) -> Option<&'static str> {
        self.behaviour.selectable.iter().find(|(l, _)| *l == label).map(|(_, path)| *path)
    }

    /// Facts about an object that selectors and the garbage collector ask for.
    pub fn describe(&self, object: &Object) -> Attrs {
        describe(object, self.behaviour.selectable)
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

fn describe(object: &Object, selectable: &[(&str, &'static str)]) -> Attrs {
    let fields = selectable.iter().filter_map(|(_, path)| {
        let mut steps = path.split('.');
        let mut value = object.0.get(steps.next()?)?;
        for step in steps {
            value = value.get(step)?;
        }
        let text = match value {
            Value::String(s) if s.is_empty() => return None,
            Value::String(s) => s.clone(),
            other => other.to_string(),
        };
        Some(((*path).into(), text.into()))
    });
    Attrs {
        labels: object.labels().map(|(k, v)| (k.into(), v.into())).collect(),
        fields: fields.collect(),
        uid: object.uid().into(),
        owners: object.owners().map(|o| o.uid.into()).collect(),
    }
}

/// Every kind served, found by path or by type.
pub struct Registry {
    kinds: Vec<Arc<Kind>>,
    /// By plural name; several groups and versions may share one.
    by_plural: HashMap<String, Vec<Arc<Kind>>>,
    by_collection: HashMap<Collection, Arc<Kind>>,
}

impl Registry {
    pub fn builtin() -> Self {
        let kinds: Vec<Arc<Kind>> = builtin::kinds().into_iter().map(Arc::new).collect();
        let mut by_plural: HashMap<String, Vec<Arc<Kind>>> = HashMap::new();
        for kind in &kinds {
            by_plural.entry(kind.plural.clone()).or_default().push(kind.clone());
        }
        // The kind that is stored as it is served speaks for the collection.
        let stored = kinds.iter().filter(|k| k.stored_as.is_none() && k.action.is_none());
        let by_collection = stored.map(|k| (k.collection.clone(), k.clone())).collect();
        Self { kinds, by_plural, by_collection }
    }

    pub fn kinds(&self) -> &[Arc<Kind>] {
        &self.kinds
    }

    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Kind>> {
        self.by_plural.get(plural)?.iter().find(|k| k.group == group && k.version == version)
    }

    pub fn by_type(&self, api_version: &str, kind: &str) -> Option<&Arc<Kind>> {
        let (group, version) = meta::split_api_version(api_version);
        self.kinds.iter().find(|k| k.group == group && k.version == version && k.kind == kind)
    }

    /// The kind in whose stored form a collection's objects are.
    pub fn stored_in(&self, collection: &Collection) -> Option<&Arc<Kind>> {
        self.by_collection.get(collection)
    }

    /// One kind per collection.
    pub fn stored(&self) -> impl Iterator<Item = &Arc<Kind>> {
        self.kinds.iter().filter(|k| k.stored_as.is_none() && k.action.is_none())
    }

    pub fn groups(&self) -> Vec<(&str, Vec<&str>)> {
        let mut out: Vec<(&str, Vec<&str>)> = Vec::new();
        for k in &self.kinds {
            match out.iter_mut().find(|(group, _)| *group == k.group) {
                Some((_, versions)) => {
                    if !versions.contains(&k.version.as_str()) {
                        versions.push(&k.version);
                    }
                }
                None => out.push((&k.group, vec![&k.version])),
            }
        }
        out
    }

    pub fn of_version<'a>(&'a self, group: &'a str, version: &'a str) -> impl Iterator<Item = &'a Arc<Kind>> {
        self.kinds.iter().filter(move |k| k.group == group && k.version == version)
    }
}

/// Derives the facts of values that come from disk or from another writer.
pub fn describer(registry: Arc<Registry>) -> store::Describe {
    Arc::new(move |key: &Key, value: &[u8]| {
        let Ok(parsed) = meta::json::parse(value) else { return Attrs::default() };
        let Some(object) = Object::from_value(parsed.value) else { return Attrs::default() };
        match registry.stored_in(&key.collection) {
            Some(kind) => kind.describe(&object),
            None => describe(&object, &[]),
        }
    })
}
