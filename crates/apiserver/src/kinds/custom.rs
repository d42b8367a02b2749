//! Custom kinds: what a CustomResourceDefinition says, as kinds like any other.

mod columns;
mod definition;
mod scale;
mod shape;

pub use definition::{Definition, Names, condition};

use super::{Endpoint, Kind, metadata};
use crate::figures::Row;
use crate::objects::Part;
use columns::Printed;
use jiff::Timestamp;
use meta::table::Column;
use meta::{FieldErrors, Object};
use schema::structural::Schema;
use serde_json::Value;
use shape::Shape;
use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};
use store::Revision;
use tokio_util::sync::CancellationToken;

/// What a custom kind knows beyond what every kind does.
pub struct Custom {
    pub list_kind: String,
    /// The definition is going away: nothing new is made.
    pub terminating: bool,
    /// Clients of a deprecated version are told.
    pub warnings: Vec<String>,
    /// Ends when the definition changes; watches end with it.
    pub retired: CancellationToken,
    /// Changes whenever the definition does.
    pub digest: String,
    /// The bytes an object begins with that is stored in this version.
    head: Vec<u8>,
    stored_api_version: String,
    shape: Arc<Shape>,
    stored_shape: Arc<Shape>,
    /// Of every version: objects may still be stored in one that is stored no more.
    shapes: Vec<Arc<Shape>>,
    columns: Vec<Printed>,
    /// Fields that selectors may name in this version, and in any: dotted paths.
    selectable: Vec<String>,
    selectable_anywhere: Vec<String>,
    /// Where its requests are counted, once there was one.
    pub row: OnceLock<Arc<Row>>,
}

impl Custom {
    pub fn schema(&self) -> &Schema {
        self.shape.schema()
    }

    /// The kind as documents describe it.
    pub fn defined(&self) -> schema::openapi::Defined<'_> {
        schema::openapi::Defined { list_kind: &self.list_kind, schema: self.schema(), selectable: &self.selectable }
    }

    pub fn stored_api_version(&self) -> &str {
        &self.stored_api_version
    }

    /// The stored bytes are what this version shows.
    pub fn is_verbatim(&self, value: &[u8], revision: Revision) -> bool {
        (revision == 0 || revision > self.shape.since) && value.starts_with(&self.head)
    }

    /// Objects of this version are stored as they are served.
    pub fn is_stored_version(&self) -> bool {
        Arc::ptr_eq(&self.shape, &self.stored_shape)
    }

    /// Every event after this revision looks alike to all watchers of this version.
    pub fn shares(&self, revision: Revision) -> bool {
        self.is_stored_version() && revision > self.shape.since
    }

    /// Brings a body into the kind's form: what is not of the schema goes, and is told.
    pub fn conform(&self, object: &mut Object) -> Result<Vec<String>, schema::Mismatch> {
        let mut unknown = Vec::new();
        let facts = schema::Facts::builtin();
        if let (Some(ty), Some(metadata)) = (facts.named("meta/v1.ObjectMeta"), object.0.get_mut("metadata")) {
            let decoded = schema::decode(facts, ty, metadata)?;
            unknown.extend(decoded.unknown.into_iter().map(|path| format!("metadata.{path}")));
        }
        unknown.extend(self.schema().prune(&mut object.0));
        Ok(unknown)
    }

    pub fn default(&self, object: &mut Object) {
        self.schema().default(&mut object.0);
    }

    /// The stored form of an object of this version: a field that only this version knows is not kept, and what is not
    /// said is what the stored version takes it to be.
    pub fn to_stored(&self, object: &mut Object, kind: &str) {
        object.set_type(&self.stored_api_version, kind);
        if self.shape.digest != self.stored_shape.digest {
            self.stored_shape.bring_into_form(object);
        }
    }

    /// A stored object as this version shows it: another version or an older schema may have shaped it.
    pub fn to_served(&self, object: &mut Object, kind: &Kind, revision: Revision) {
        let own = kind.api_version();
        let same = object.api_version() == own && object.kind() == kind.kind;
        let (_, version) = meta::split_api_version(object.api_version());
        let other = self.shapes.iter().find(|shape| shape.version == version && version != kind.version).cloned();
        object.set_type(&own, &kind.kind);
        match other {
            // Defaults are those of the version it is stored in: this one only drops what it does not know.
            Some(stored) => {
                if revision <= stored.since {
                    stored.bring_into_form(object);
                }
                self.schema().prune(&mut object.0);
            }
            None if !same || revision <= self.shape.since => self.shape.bring_into_form(object),
            None => {}
        }
    }

    pub fn validate(&self, kind: &Kind, part: Part, object: &Object, old: Option<&Object>) -> FieldErrors {
        let mut errors = match (part, old) {
            (Part::Status, Some(old)) => self.schema().validate_status(&object.0, &old.0),
            _ => self.schema().validate(&object.0, old.map(|o| &o.0)),
        };
        for sub in &kind.subresources {
            if let Endpoint::Scale(paths) = &sub.endpoint {
                scale::check(paths, &object.0, &mut errors);
            }
        }
        errors
    }

    /// Finalizers without a domain may meet those of others.
    pub fn advice(&self, object: &Object, old: Option<&Object>) -> Vec<String> {
        let new: BTreeSet<&str> = object.finalizers().filter(|f| !old.is_some_and(|o| o.has_finalizer(f))).collect();
        let standard = |f: &str| [metadata::FOREGROUND, metadata::ORPHAN, "kubernetes"].contains(&f);
        let unqualified = new.into_iter().filter(|f| !f.contains('/') && !standard(f));
        let words = |f: &str| {
            let how = if f.contains('.') { " including a path (/)" } else { "" };
            format!(
                "metadata.finalizers: {f:?}: prefer a domain-qualified finalizer name{how} to avoid accidental conflicts with other finalizer writers"
            )
        };
        unqualified.map(words).collect()
    }

    pub fn column_definitions(&self) -> Value {
        let name = std::iter::once(Column::name().to_value());
        name.chain(self.columns.iter().map(|c| c.definition.clone())).collect()
    }

    pub fn cells(&self, object: &Object, now: Timestamp) -> Vec<Value> {
        let cell = |column: &Printed| {
            let value = column.path.as_ref().and_then(|path| path.first(&object.0)).unwrap_or(&Value::Null);
            columns::cell(&column.kind, value, now)
        };
        std::iter::once(object.name().into()).chain(self.columns.iter().map(cell)).collect()
    }

    /// The path of a field that selectors may name.
    pub fn selectable_path(&self, label: &str) -> Option<&str> {
        self.selectable.iter().find(|path| *path == label).map(String::as_str)
    }

    /// The values of all fields any version selects by. Those without a value stand there too:
    /// an entry that lacks one was described before the field could be selected by.
    pub fn selectable_values(&self, object: &Object) -> Vec<(Box<str>, Box<str>)> {
        let value = |path: &String| {
            let found = scale::lookup(&object.0, path).ok().flatten();
            let value = match found {
                None | Some(Value::Null) => String::new(),
                Some(Value::String(text)) => text.clone(),
                Some(other) => other.to_string(),
            };
            (path.as_str().into(), value.into())
        };
        self.selectable_anywhere.iter().map(value).collect()
    }
}

/// Parts of a definition; what is not there is empty.
fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn texts(value: &Value, key: &str) -> Vec<String> {
    list(value, key).iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn flag(value: &Value, key: &str) -> bool {
    value.get(key).and_then(Value::as_bool).unwrap_or_default()
}

fn digest(parts: &impl serde::Serialize) -> String {
    // Writing JSON to memory cannot fail.
    crate::discovery::digest(&serde_json::to_vec(parts).unwrap_or_default())
}

#[cfg(test)]
mod tests;
