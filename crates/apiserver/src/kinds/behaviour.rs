//! What differs from kind to kind, as data and small functions.

use super::{Action, Subresource};
use crate::Inner;
use crate::objects::Part;
use jiff::Timestamp;
use meta::table::Column;
use meta::{FieldErrors, Object, Status};
use serde_json::Value;

/// Another group-version is the stored form; top-level fields are renamed on the way, and what else differs is converted.
pub struct StoredAs {
    pub api_version: &'static str,
    /// (stored, served)
    pub renames: &'static [(&'static str, &'static str)],
    pub to_stored: fn(&mut Object),
    pub to_served: fn(&mut Object),
}

/// What differs from kind to kind, as data and small functions.
pub struct Behaviour {
    /// Name rule; the flag says it is a prefix (generateName).
    pub name: fn(&str, bool) -> Vec<String>,
    /// `metadata.generation` counts changes of the spec.
    pub generation: bool,
    /// What counts as such a change, new before old.
    pub changes: fn(&Object, &Object) -> bool,
    /// Has a status subresource: the main resource leaves status alone and the other way round.
    pub status: bool,
    /// Fields that writes through a subresource do not reach, besides the obvious (an object's status, a status's spec): the
    /// subresource ("" is the object itself) and a dotted path.
    pub resets: &'static [(&'static str, &'static str)],
    /// A write of the status may change labels, annotations and finalizers, too.
    pub status_metadata: bool,
    /// Its creator may say the status, too.
    pub born_with_status: bool,
    /// Subresources besides `status`.
    pub subresources: &'static [Subresource],
    /// Names for several kinds at once, e.g. `all`.
    pub categories: &'static [&'static str],
    /// PUT creates what does not exist.
    pub create_on_update: bool,
    /// PUT without a resourceVersion overwrites.
    pub unconditional_update: bool,
    /// Told with every answer, when not empty.
    pub deprecation: &'static str,
    /// DELETE answers the object instead of a Status.
    pub returns_deleted: bool,
    /// Field selectors beyond metadata.name and metadata.namespace: label, and dotted path in the stored form; what follows a
    /// `?` stands for a field that is not there.
    pub selectable: &'static [(&'static str, &'static str)],
    /// DELETE of the whole collection is allowed.
    pub deletes_collection: bool,
    pub columns: &'static [Column],
    pub cells: fn(&Object, Timestamp) -> Vec<Value>,
    /// Nothing is stored: a POST does this and answers.
    pub action: Option<Action>,
    /// A deletion may wait until whoever runs the object has ended it.
    pub waits: bool,
    /// How many seconds, given what the deletion asks for; `None` where deletions do not wait.
    pub grace: fn(&Object, Option<i64>) -> Option<i64>,
    /// It acts as a service account of its namespace.
    pub runs_as_account: bool,
    /// Writes go one by one, so that `admit` can choose what must be unique among all objects.
    pub one_by_one: bool,
    /// Defaults of any write.
    pub default: fn(&mut Object),
    /// What depends on other objects, before the rules are checked; without an old object it is a creation.
    pub admit: fn(&Inner, &mut Object, Option<&Object>) -> Result<(), Status>,
    /// What only creation sets.
    pub prepare_create: fn(&mut Object),
    /// What an update of the main resource may not touch is taken from the old object.
    pub prepare_update: fn(&mut Object, &Object),
    /// The same for the other parts; of a status it finds everything else already taken.
    pub prepare_part: fn(Part, &mut Object, &Object),
    pub validate: fn(&Object) -> FieldErrors,
    /// What is wrong with a new object only.
    pub validate_create: fn(&Object) -> FieldErrors,
    pub validate_update: fn(&Object, &Object) -> FieldErrors,
    pub validate_part: fn(Part, &Object, &Object) -> FieldErrors,
    /// What the author of an object owns beyond what it says: defaults that follow from the rest of it.
    pub authored: Option<fn(&mut Object)>,
    /// What the author of an object should be told of it as it was sent; the old one is there on an update.
    pub advice: Option<Warn>,
    /// The same of an accepted object as it is stored.
    pub warnings: Option<Warn>,
    /// Deleting it leaves what it owns alone, unless the client says otherwise.
    pub orphans: bool,
}

pub type Warn = fn(&Object, Option<&Object>) -> Vec<String>;

/// Anything but metadata and status differs.
pub fn spec_changes(new: &Object, old: &Object) -> bool {
    rest(new, &["metadata", "status"]).ne(rest(old, &["metadata", "status"]))
}

/// An object's fields but some.
pub(super) fn rest<'a>(object: &'a Object, but: &'a [&str]) -> impl Iterator<Item = (&'a String, &'a Value)> {
    object.0.iter().filter(|(key, _)| !but.contains(&key.as_str()))
}
