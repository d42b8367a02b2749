//! How a write changes who owns what.

use std::borrow::Cow;
use std::sync::OnceLock;

use serde_json::Value;

use super::compare::{Comparison, compare};
use super::conflict::Conflicts;
use super::element::Element;
use super::managers::{Manager, Managers, Operation};
use super::schema::{Form, Items, Node, Schema};
use super::set::FieldSet;
use super::validate::{Duplicates, Misfit, validate};
use super::{annotation, fields_of, merge, remove, value};

pub(super) type Fields = serde_json::Map<String, Value>;

/// What a write is about, whoever makes it.
#[derive(Clone, Copy)]
pub struct Scope<'s, T> {
    /// The version the objects are in.
    pub api_version: &'s str,
    /// The subresource written through; empty for the object itself.
    pub subresource: &'s str,
    /// The type of the objects.
    pub node: Node<T>,
    /// An object of the kind that nobody wrote anything into yet.
    pub blank: &'s Fields,
    /// Fields that writes of this scope do not reach: a write of the object leaves its status alone.
    pub ignored: &'s FieldSet<'s>,
    /// The type in another version; owners in a version that is gone are forgotten.
    pub versions: &'s dyn Fn(&str) -> Option<Node<T>>,
    /// An object of one version as another has it; nothing when both have the same fields.
    pub convert: &'s dyn Fn(&str, &str, &Fields) -> Option<Fields>,
    /// The time of the write.
    pub now: &'s str,
}

/// What an apply leaves behind.
#[derive(Debug)]
pub struct Applied<'a> {
    /// Nothing when the object already is what was applied.
    pub object: Option<Fields>,
    pub managers: Managers<'a>,
}

/// Why an apply was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error(transparent)]
    Conflicts(#[from] Conflicts),
    #[error("failed to create typed patch object ({subject}): {misfit}")]
    Patch { subject: String, misfit: Misfit },
    #[error("failed to merge config: {0}")]
    Merge(Misfit),
    #[error("failed to compare objects: {0}")]
    Compare(Misfit),
}

impl Refused {
    /// Refuses a configuration that is not of the type it is applied as.
    pub fn unless_fit<'t, T: Schema<'t>>(configuration: &Fields, node: Node<T>) -> Result<(), Self> {
        validate(configuration, node, Duplicates::Refused)
            .map_err(|misfit| Self::Patch { subject: subject(configuration), misfit })
    }
}

impl<'s, 't, T: Schema<'t>> Scope<'s, T> {
    /// What a write changes, of the fields it reaches.
    pub fn changes<'a>(&self, live: &'a Fields, new: &'a Fields) -> Result<Comparison<'a>, Misfit>
    where
        't: 'a,
    {
        Ok(compare(live, new, self.node)?.without(self.ignored))
    }

    /// After an update from `live` to `new`: what `changes` tells is the updater's now, and nobody else's.
    pub fn update<'a>(
        &self,
        mut managers: Managers<'a>,
        changes: Comparison<'a>,
        (live, new): (&Fields, &Fields),
        name: &'a str,
    ) -> Result<Managers<'a>, Misfit>
    where
        's: 'a,
        't: 'a,
    {
        self.reconcile(&mut managers);
        let sides = self.other_versions(&mut managers, live, new);
        let others = self.changes_in(&sides)?;
        for manager in &mut managers.0 {
            lose(&mut manager.fields, in_version(&manager.api_version, &others, &changes));
        }
        managers.0.retain(|m| !m.fields.is_empty());
        let taken = changes.modified.union(changes.added).difference(system_fields());
        if !taken.is_empty() {
            let mut own = self.manager(name, Operation::Update);
            own.fields = match managers.find(&own) {
                Some(at) => std::mem::take(&mut managers.0[at].fields).union(taken),
                None => taken,
            };
            own.time = Some(Cow::Borrowed(self.now));
            managers.put(own);
        }
        managers.cap();
        Ok(managers)
    }

    /// Lays a configuration over the live object for an applier: what it names is the applier's, what the applier named before and
    /// nobody owns any more goes.
    pub fn apply<'a>(
        &self,
        mut managers: Managers<'a>,
        live: &'a Fields,
        configuration: &'a Fields,
        name: &'a str,
        force: bool,
    ) -> Result<Applied<'a>, Refused>
    where
        's: 'a,
        't: 'a,
    {
        if managers.is_empty() {
            // Whatever is there was written before anyone kept account.
            let changes = self.changes(self.blank, live).map_err(Refused::Compare)?;
            let sides = (self.blank, live);
            managers = self.update(managers, changes, sides, "before-first-apply").map_err(Refused::Compare)?;
        }
        Refused::unless_fit(configuration, self.node)?;
        self.reconcile(&mut managers);
        // Somebody who applied from the client's side before may take over what they applied.
        let before = (name == annotation::CLIENT && !force).then(|| managers.clone());
        let mut applied = match self.attempt(managers, live, configuration, name, force)? {
            Ok(applied) => applied,
            Err((managers, mut conflicts)) => {
                let last = before.as_ref().and_then(|_| annotation::unchanged(live, self));
                if let Some(allowed) = last.as_ref().and_then(|last| annotation::fields(last, live, self.node)) {
                    let left = conflicts.into_iter().map(|(at, fields)| (at, fields.difference(&allowed)));
                    conflicts = left.filter(|(_, fields)| !fields.is_empty()).collect();
                }
                match before {
                    Some(before) if conflicts.is_empty() => {
                        let forced = self.attempt(before, live, configuration, name, true)?;
                        forced.map_err(|(managers, conflicts)| Conflicts::new(&managers, &conflicts))?
                    }
                    _ => return Err(Conflicts::new(&managers, &conflicts).into()),
                }
            }
        };
        if name == annotation::CLIENT {
            annotation::follow(live, configuration, &mut applied.object);
        }
        Ok(applied)
    }

    /// One try; the managers back, with the fields in conflict by their place, when there are some and they are not forced.
    #[allow(clippy::type_complexity)] // said once, where it is made
    fn attempt<'a>(
        &self,
        mut managers: Managers<'a>,
        live: &'a Fields,
        configuration: &'a Fields,
        name: &'a str,
        force: bool,
    ) -> Result<Result<Applied<'a>, (Managers<'a>, Vec<(usize, FieldSet<'a>)>)>, Refused>
    where
        's: 'a,
        't: 'a,
    {
        let mut object = live.clone();
        merge(&mut object, configuration, self.node).map_err(Refused::Merge)?;
        let mut own = self.manager(name, Operation::Apply);
        let fields = fields_of(configuration, self.node).map_err(Refused::Merge)?;
        own.fields = fields.recursive_difference(self.ignored);
        let before = managers.find(&own).map(|at| managers.0[at].clone());
        own.time = before.as_ref().and_then(|before| before.time.clone());
        managers.put(own.clone());
        if let Some(before) = before {
            self.prune(&mut object, &managers, before).map_err(Refused::Merge)?;
        }

        let changes = self.changes(live, &object).map_err(Refused::Compare)?;
        let sides = self.other_versions(&mut managers, live, &object);
        let others = self.changes_in(&sides).map_err(Refused::Compare)?;
        if !force {
            let mut conflicts = Vec::new();
            for (at, manager) in managers.0.iter().enumerate().filter(|(_, manager)| !manager.is_same(&own)) {
                let changes = in_version(&manager.api_version, &others, &changes);
                let (modified, added) = (&changes.modified, &changes.added);
                let found = manager.fields.intersection(modified).union(manager.fields.intersection(added));
                if !found.is_empty() {
                    conflicts.push((at, found));
                }
            }
            if !conflicts.is_empty() {
                return Ok(Err((managers, conflicts)));
            }
        }
        for manager in managers.0.iter_mut().filter(|manager| !manager.is_same(&own)) {
            lose(&mut manager.fields, in_version(&manager.api_version, &others, &changes));
        }
        let object = Some(object).filter(|object| !value::equal_objects(object, live));
        if let Some(at) = managers.find(&own) {
            let own = &mut managers.0[at];
            own.fields = std::mem::take(&mut own.fields).difference(system_fields());
            if object.is_some() {
                own.time = Some(Cow::Borrowed(self.now));
            }
        }
        managers.0.retain(|m| !m.fields.is_empty());
        Ok(Ok(Applied { object, managers }))
    }

    /// Takes out what the applier owned before, and neither it nor anyone else owns now.
    fn prune(&self, object: &mut Fields, managers: &Managers<'_>, before: Manager<'_>) -> Result<(), Misfit> {
        let now = managers.find(&before).map(|at| &managers.0[at]);
        let dropped = match now {
            Some(now) => before.fields.clone().difference(&now.fields),
            None => before.fields.clone(),
        };
        let version = |api_version: &str| {
            if api_version == self.api_version { Some(self.node) } else { (self.versions)(api_version) }
        };
        let Some(node) = version(&before.api_version) else { return Ok(()) };
        if dropped.is_empty() {
            return Ok(());
        }
        let as_in = |from: &str, to: &str, fields: Fields| (self.convert)(from, to, &fields).unwrap_or(fields);
        let last = named(before.fields, node);
        let merged = as_in(self.api_version, &before.api_version, object.clone());
        let (mut pruned, mut pruned_in) = (merged.clone(), &*before.api_version);
        remove::remove(&mut pruned, &last, node);
        // Back comes what somebody owns, version by version.
        let mut versions: Vec<&str> = vec![&before.api_version];
        for manager in managers.iter() {
            if !versions.contains(&&*manager.api_version) {
                versions.push(&manager.api_version);
            }
        }
        for api_version in versions {
            let Some(node) = version(api_version) else { continue };
            let of_version = managers.iter().filter(|m| m.api_version == api_version);
            let owned = of_version.fold(FieldSet::default(), |all, m| all.union(m.fields.clone()));
            let mut back = as_in(self.api_version, api_version, object.clone());
            let (whole, left) = (back.clone(), as_in(pruned_in, api_version, pruned));
            let kept = named(fields_of(&left, node)?, node);
            let gone = named(fields_of(&whole, node)?, node).difference(&kept.union(named(owned, node)));
            remove::remove(&mut back, &gone, node);
            (pruned, pruned_in) = (back, api_version);
        }
        let pruned = as_in(pruned_in, &before.api_version, pruned);
        // Only what the applier itself owned may go.
        let kept = named(fields_of(&pruned, node)?, node);
        let gone = named(fields_of(&merged, node)?, node).difference(&kept).intersection(&last);
        let mut left = merged.clone();
        remove::remove(&mut left, &gone, node);
        *object = as_in(&before.api_version, self.api_version, left);
        Ok(())
    }

    /// Both sides of a write in every version other than the scope's that a manager names fields in. Forgets managers whose version is
    /// gone.
    fn other_versions<'a>(&self, managers: &mut Managers<'_>, live: &'a Fields, new: &'a Fields) -> Vec<Sides<'a, T>> {
        let mut out: Vec<Sides<'a, T>> = Vec::new();
        managers.0.retain(|manager| {
            let version = &*manager.api_version;
            if version == self.api_version || out.iter().any(|sides| sides.api_version == version) {
                return true;
            }
            let Some(node) = (self.versions)(version) else { return false };
            let [live, new] = [live, new].map(|fields| match (self.convert)(self.api_version, version, fields) {
                Some(converted) => Cow::Owned(converted),
                None => Cow::Borrowed(fields),
            });
            out.push(Sides { api_version: version.to_owned(), node, live, new });
            true
        });
        out
    }

    /// What the write changes, as each of the other versions has it.
    fn changes_in<'v>(&self, sides: &'v [Sides<'_, T>]) -> Result<Vec<(&'v str, Comparison<'v>)>, Misfit>
    where
        't: 'v,
    {
        let of = |sides: &'v Sides<'_, T>| {
            let changes = compare(&sides.live, &sides.new, sides.node);
            changes.map(|changes| (sides.api_version.as_str(), changes.without(self.ignored)))
        };
        sides.iter().map(of).collect()
    }

    fn manager(&self, name: &'s str, operation: Operation) -> Manager<'s>
    where
        't: 's,
    {
        Manager {
            name: Cow::Borrowed(if name.is_empty() { "unknown" } else { name }),
            operation,
            api_version: Cow::Borrowed(self.api_version),
            time: None,
            subresource: Cow::Borrowed(self.subresource),
            fields: FieldSet::default(),
        }
    }

    /// A type may have become owned as a whole since its fields were taken account of.
    fn reconcile(&self, managers: &mut Managers<'_>) {
        for manager in &mut managers.0 {
            let same = manager.api_version == self.api_version;
            let node = if same { Some(self.node) } else { (self.versions)(&manager.api_version) };
            if let Some(node) = node {
                reconcile(&mut manager.fields, node);
            }
        }
    }
}

/// An object before and after a write, as a version has it.
struct Sides<'a, T> {
    api_version: String,
    node: Node<T>,
    live: Cow<'a, Fields>,
    new: Cow<'a, Fields>,
}

fn in_version<'c, 'a>(
    version: &str,
    others: &'c [(&str, Comparison<'a>)],
    own: &'c Comparison<'a>,
) -> &'c Comparison<'a> {
    others.iter().find(|(other, _)| *other == version).map_or(own, |(_, changes)| changes)
}

fn lose(fields: &mut FieldSet<'_>, changes: &Comparison<'_>) {
    let own = std::mem::take(fields);
    *fields = own.difference(&changes.modified).difference(&changes.added).difference(&changes.removed);
}

/// The set with the declared fields on the way to its members.
fn named<'a, 't, T: Schema<'t>>(mut set: FieldSet<'a>, node: Node<T>) -> FieldSet<'a> {
    let atom = node.atom();
    for branch in set.branches.iter_mut().filter(|b| !b.children.is_empty()) {
        let below = match (&branch.element, atom.map, atom.list) {
            (Element::Field(name), Some(map), _) => {
                let declared = node.declared(name);
                branch.member |= declared.is_some();
                declared.or(map.element)
            }
            (Element::Key(_), _, Some(list)) => Some(list.element),
            _ => None,
        };
        branch.children = named(std::mem::take(&mut branch.children), below.unwrap_or(Node::Deduced));
    }
    set
}

fn reconcile<'t, T: Schema<'t>>(set: &mut FieldSet<'_>, node: Node<T>) {
    let form = node.form(None);
    for branch in set.branches.iter_mut().filter(|b| !b.children.is_empty()) {
        let child = match (&branch.element, &form) {
            (Element::Field(name), Some(Form::Map(map))) => node.declared(name).or(map.element),
            (_, Some(Form::List(list))) => Some(list.element),
            _ => None,
        };
        let Some(child @ Node::Known(_)) = child else { continue };
        let whole = match child.form(None) {
            Some(Form::Map(map)) => map.atomic,
            Some(Form::List(list)) => list.items == Items::Atomic,
            _ => false,
        };
        if whole {
            branch.member = true;
            branch.children = FieldSet::default();
        } else {
            reconcile(&mut branch.children, child);
        }
    }
}

/// Fields that are nobody's: they name the object or are the server's.
fn system_fields() -> &'static FieldSet<'static> {
    static FIELDS: OnceLock<FieldSet<'static>> = OnceLock::new();
    FIELDS.get_or_init(|| {
        let mut set = FieldSet::default();
        for name in ["apiVersion", "kind", "metadata"] {
            set.insert(&[Element::field(name)]);
        }
        for name in [
            "name",
            "namespace",
            "creationTimestamp",
            "selfLink",
            "uid",
            "clusterName",
            "generation",
            "managedFields",
            "resourceVersion",
        ] {
            set.insert(&[Element::field("metadata"), Element::field(name)]);
        }
        set
    })
}

/// An object as errors name it: `namespace/name; group/version, Kind=kind`.
fn subject(object: &Fields) -> String {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    let meta = |name: &str| text(object.get("metadata").and_then(|m| m.get(name)));
    let api_version = text(object.get("apiVersion"));
    let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
    let (namespace, name, kind) = (meta("namespace"), meta("name"), text(object.get("kind")));
    format!("{namespace}/{name}; {group}/{version}, Kind={kind}")
}
