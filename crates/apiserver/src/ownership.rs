//! Who owns which field after a write: the one place where an object gets its `metadata.managedFields`.
//!
//! They are held and stored as JSON beside the object, not in it: most writes change few of them, and some none.

mod types;

use crate::kinds::{Kind, Registry};
use apply::managed::{Element, FieldSet, Managers, Refused, Scope};
use meta::{FieldError, FieldErrors, Object, Reason, Status};
use schema::Facts;
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::sync::LazyLock;
use types::Place;

/// Who writes, and through what.
#[derive(Clone, Debug)]
pub(crate) struct By<'a> {
    pub manager: Cow<'a, str>,
    /// Empty for the object itself.
    pub subresource: &'a str,
    pub dry_run: bool,
}

impl By<'static> {
    /// The server itself: its controllers, and the objects it makes.
    pub const SERVER: Self = Self { manager: Cow::Borrowed("muster"), subresource: "", dry_run: false };
}

impl<'a> By<'a> {
    pub fn through(self, subresource: &'a str) -> Self {
        Self { subresource, ..self }
    }
}

/// The manager of a client that does not name one: the name of its program, as far as it can be printed.
pub(crate) fn manager_of(user_agent: &str) -> Cow<'_, str> {
    let name = user_agent.split('/').next().unwrap_or_default();
    if name.len() <= MAX_MANAGER && name.bytes().all(|b| (b' '..0x7f).contains(&b)) {
        return Cow::Borrowed(name);
    }
    let mut out = String::new();
    for c in name.chars().filter(|c| meta::options::is_print(*c)) {
        if out.len() + c.len_utf8() > MAX_MANAGER {
            break;
        }
        out.push(c);
    }
    Cow::Owned(out)
}

const MAX_MANAGER: usize = 128;

/// The kind, the way and the time of a write.
pub(crate) struct Write<'w> {
    pub kind: &'w Kind,
    /// Where the kind's other versions are found.
    pub registry: &'w Registry,
    pub by: &'w By<'w>,
    pub now: &'w str,
    /// Every write reaches everything.
    pub unrestricted: bool,
}

impl Write<'_> {
    /// The owners of a new object: whoever makes it owns all of it, besides what they claim for others.
    pub fn created(&self, object: &Object, claimed: Option<&Value>) -> Vec<u8> {
        self.scoped(|scope| {
            let changes = scope.changes(scope.blank, &object.0).ok()?;
            let sides = (scope.blank, &object.0);
            let managers = Managers::decode(claimed).unwrap_or_default();
            scope.update(managers, changes, sides, &self.by.manager).ok().map(encode)
        })
        .unwrap_or_default()
    }

    /// The owners after an update; nothing when they stay the same. `held` are the object's, `claimed` what the client says they are.
    pub fn updated(&self, current: &Object, desired: &Object, held: &[u8], claimed: Option<&Value>) -> Option<Vec<u8>> {
        // Only writes of the object itself may say who owns it.
        let claimed = claimed.filter(|_| self.by.subresource.is_empty());
        self.scoped(|scope| {
            // What cannot be told apart cannot be owned.
            let Ok(changes) = scope.changes(&current.0, &desired.0) else { return Some(Vec::new()) };
            let reset = claimed.is_some_and(Managers::is_reset);
            let stated = claimed.and_then(|c| Managers::decode(Some(c)).ok()).filter(|managers| !managers.is_empty());
            if changes.is_same() && stated.is_none() && !reset {
                return None;
            }
            let read = parse(held);
            let managers = match stated {
                _ if reset => Managers::default(),
                Some(stated) => stated,
                None => Managers::decode(read.as_ref()).unwrap_or_default(),
            };
            // An object nobody keeps account of stays so until somebody applies to it.
            if managers.is_empty() {
                return Some(Vec::new());
            }
            let sides = (&current.0, &desired.0);
            Some(scope.update(managers, changes, sides, &self.by.manager).map(encode).unwrap_or_default())
        })
        .filter(|owners| owners != held)
    }

    /// Applies a configuration: the object, when it changes, and its owners.
    pub fn applied(
        &self,
        live: &Object,
        held: &[u8],
        configuration: &Object,
        force: bool,
    ) -> Result<(Option<Object>, Vec<u8>), Status> {
        let read = parse(held);
        let managers = Managers::decode(read.as_ref())
            .map_err(|e| Status::new(500, Reason::Unknown, format!("failed to decode managed fields: {e}")))?;
        self.scoped(|scope| {
            let applied = scope.apply(managers, &live.0, &configuration.0, &self.by.manager, force);
            let applied = applied.map_err(|refused| match refused {
                Refused::Conflicts(conflicts) => {
                    let causes = conflicts.0.iter().map(|c| (format!("conflict with {}", c.manager), c.field.clone()));
                    Status::apply_conflict(conflicts.to_string(), causes)
                }
                // Kubernetes says 500 here; it is the client's mistake.
                refused => Status::bad_request(refused.to_string()),
            })?;
            Ok((applied.object.map(Object), encode(applied.managers)))
        })
    }

    /// An object of the kind before anyone wrote anything.
    pub fn blank(&self) -> Object {
        let mut object = Object(blank(self.kind).clone());
        object.set_type(&self.kind.api_version(), &self.kind.kind);
        object
    }

    fn scoped<'s, R>(&'s self, act: impl FnOnce(Scope<'_, Place<'s>>) -> R) -> R {
        let kind = self.kind;
        let api_version = kind.api_version();
        // A body that is no kind of its own is not in the registry.
        let versions = |version: &str| match version == api_version {
            true => Some(types::node(kind)),
            false => self.registry.by_type(version, &kind.kind).map(|kind| types::node(kind)),
        };
        let convert = |from: &str, to: &str, fields: &Map<String, Value>| {
            let find = |version: &str| match version == api_version {
                true => Some(kind),
                false => self.registry.by_type(version, &kind.kind).map(|kind| &**kind),
            };
            convert(find(from)?, find(to)?, fields)
        };
        act(Scope {
            api_version: &api_version,
            subresource: self.by.subresource,
            node: types::node(kind),
            blank: blank(kind),
            ignored: &self.ignored(),
            versions: &versions,
            convert: &convert,
            // Whoever scales owns the number of replicas without a date.
            now: if self.by.subresource == "scale" { "" } else { self.now },
        })
    }

    /// What a write leaves alone: the object's its status, the status's all else.
    fn ignored(&self) -> Cow<'static, FieldSet<'static>> {
        static STATUS: LazyLock<FieldSet<'static>> = LazyLock::new(|| field("status"));
        static SPEC: LazyLock<FieldSet<'static>> = LazyLock::new(|| field("spec"));
        if self.unrestricted || !self.kind.behaviour.status {
            return Cow::Owned(FieldSet::default());
        }
        let mut out = Cow::Borrowed(if self.by.subresource == "status" { &*SPEC } else { &*STATUS });
        for (_, path) in self.kind.behaviour.resets.iter().filter(|(through, _)| *through == self.by.subresource) {
            out.to_mut().insert(&path.split('.').map(Element::field).collect::<Vec<_>>());
        }
        out
    }
}

/// An object of one kind as another version of it shows it; nothing when both have the same fields.
fn convert(from: &Kind, to: &Kind, fields: &Map<String, Value>) -> Option<Map<String, Value>> {
    if from.custom.is_some() || std::ptr::eq(from, to) || (from.stored_as.is_none() && to.stored_as.is_none()) {
        return None;
    }
    let mut object = Object(fields.clone());
    from.to_stored(&mut object);
    to.to_served(&mut object, 0);
    Some(object.0)
}

fn field(name: &'static str) -> FieldSet<'static> {
    let mut out = FieldSet::default();
    out.insert(&[Element::field(name)]);
    out
}

/// Whether a configuration is of the type it is applied as.
pub(crate) fn check_fit(object: &Object, group: &str, version: &str, kind: &str) -> Result<(), Status> {
    Refused::unless_fit(&object.0, types::builtin(group, version, kind))
        .map_err(|refused| Status::bad_request(refused.to_string()))
}

/// What is wrong with the names of the owners a client claims.
pub(crate) fn check_claimed(claimed: Option<&Value>) -> FieldErrors {
    let mut errors = Vec::new();
    for (i, owner) in claimed.and_then(Value::as_array).into_iter().flatten().enumerate() {
        let text = |key: &str| owner.get(key).and_then(Value::as_str).unwrap_or_default();
        let field = |key: &str| format!("metadata.managedFields[{i}].{key}");
        meta::options::check_manager(&field("manager"), text("manager"), &mut errors);
        if text("subresource").len() > MAX_SUBRESOURCE {
            errors.push(FieldError::too_long(field("subresource"), MAX_SUBRESOURCE));
        }
        if errors.len() > MAX_ERRORS {
            break;
        }
    }
    // Claims that cannot be read are not taken over, whatever the names.
    if errors.is_empty() || Managers::decode(claimed).is_ok() { errors } else { Vec::new() }
}

const MAX_SUBRESOURCE: usize = 256;
const MAX_ERRORS: usize = 64;

fn blank(kind: &Kind) -> &'static Map<String, Value> {
    static NOTHING: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);
    let facts = Facts::builtin();
    facts.kind(&kind.group, &kind.version, &kind.kind).map_or(&NOTHING, |ty| facts.blank(ty))
}

fn parse(held: &[u8]) -> Option<Value> {
    // What is stored was written here; what is damaged is nobody's.
    if held.is_empty() { None } else { meta::json::parse(held).ok().map(|parsed| parsed.value) }
}

/// Nobody is written as nothing.
fn encode(mut managers: Managers<'_>) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    if !managers.is_empty() {
        managers.encode(&mut out);
    }
    out
}

/// Owners that differ only in when they last wrote.
pub(crate) fn only_times_differ(held: &[u8], owners: &[u8]) -> bool {
    let (held, owners) = (parse(held), parse(owners));
    match (Managers::decode(held.as_ref()), Managers::decode(owners.as_ref())) {
        (Ok(held), Ok(owners)) => !held.is_empty() && held.is_same_but_for_times(&owners),
        _ => false,
    }
}

/// The object as clients see it, owners included.
pub(crate) fn with_owners(object: &Object, held: &[u8]) -> Object {
    let mut out = object.clone();
    if let Some(owners) = parse(held) {
        out.meta_mut().insert("managedFields".into(), owners);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_client_without_a_name_is_known_by_its_program() {
        for (agent, manager) in [
            ("kubectl/v1.34.4 (linux/amd64)", "kubectl"),
            ("Mozilla", "Mozilla"),
            ("", ""),
            ("tab\there/1", "tabhere"),
            ("grüße\u{200b}/2", "grüße"),
        ] {
            assert_eq!(manager_of(agent), manager, "{agent:?}");
        }
        assert_eq!(manager_of(&"x".repeat(500)), "x".repeat(128));
        assert_eq!(manager_of(&"ü".repeat(500)), "ü".repeat(64));
    }

    #[test]
    fn times_alone_make_no_difference() {
        let owner = |time: &str, field: &str| {
            let fields = json!({field: {}});
            json!([{"manager": "a", "operation": "Update", "apiVersion": "v1", "time": time, "fieldsType": "FieldsV1",
                "fieldsV1": fields}])
            .to_string()
        };
        let (old, later) = (owner("2026-01-01T00:00:00Z", "f:a"), owner("2026-01-02T00:00:00Z", "f:a"));
        assert!(only_times_differ(old.as_bytes(), later.as_bytes()));
        assert!(!only_times_differ(old.as_bytes(), owner("2026-01-01T00:00:00Z", "f:b").as_bytes()));
        assert!(!only_times_differ(old.as_bytes(), b""));
        assert!(!only_times_differ(b"", b""));
    }

    #[test]
    fn names_that_cannot_be_shown_are_refused() {
        let claim = |manager: &str, operation: &str| json!([{"manager": manager, "operation": operation, "apiVersion": "v1", "fieldsType": "FieldsV1"}]);
        let errors = check_claimed(Some(&claim("a\tb", "Update")));
        assert_eq!(
            meta::field::aggregate(&errors),
            "metadata.managedFields[0].manager: Invalid value: \"a\\tb\": invalid character U+0009 (at position 1)"
        );
        assert_eq!(check_claimed(Some(&claim(&"x".repeat(129), "Apply"))).len(), 1);
        assert!(check_claimed(Some(&claim("a\tb", "Other"))).is_empty(), "not taken over anyway");
        assert!(check_claimed(Some(&claim("fine", "Update"))).is_empty());
        assert!(check_claimed(None).is_empty());
    }
}
