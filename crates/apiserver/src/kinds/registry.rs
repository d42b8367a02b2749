//! Every kind served, found by path, by type or by collection. A registry never changes; a new one takes its place.

use super::custom::Definition;
use super::{Kind, builtin};
use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use store::Collection;

pub struct Registry {
    builtin: Vec<Arc<Kind>>,
    kinds: Vec<Arc<Kind>>,
    /// By plural name; several groups and versions may share one.
    by_plural: HashMap<String, Vec<Arc<Kind>>>,
    /// By kind; the same.
    by_kind: HashMap<String, Vec<Arc<Kind>>>,
    /// One kind per collection: the one in whose form its objects are stored.
    stored: Vec<Arc<Kind>>,
    by_collection: HashMap<Collection, Arc<Kind>>,
    groups: Vec<Group>,
    /// Where a group stands in `groups`.
    by_group: HashMap<String, usize>,
}

struct Group {
    name: String,
    /// The preferred one first.
    versions: Vec<(String, Vec<Arc<Kind>>)>,
}

impl Registry {
    pub fn builtin() -> Self {
        Self::new(builtin::kinds().into_iter().map(Arc::new).collect(), &[])
    }

    /// The built-in kinds and what these definitions define.
    pub fn with(&self, definitions: &[Arc<Definition>]) -> Self {
        Self::new(self.builtin.clone(), definitions)
    }

    fn new(builtin: Vec<Arc<Kind>>, definitions: &[Arc<Definition>]) -> Self {
        // Nobody defines what is built in, whatever is stored.
        let taken: HashSet<&Collection> = builtin.iter().map(|k| &k.collection).collect();
        let free = |d: &&Arc<Definition>| d.is_served() && !taken.contains(&d.stored.collection);
        let served: Vec<&Arc<Definition>> = definitions.iter().filter(free).collect();
        let kinds: Vec<_> = builtin.iter().chain(served.iter().flat_map(|d| &d.kinds)).cloned().collect();
        let own_form = builtin.iter().filter(|k| k.stored_as.is_none() && k.action.is_none());
        let stored: Vec<_> = own_form.chain(served.iter().map(|d| &d.stored)).cloned().collect();
        let mut by_plural: HashMap<String, Vec<Arc<Kind>>> = HashMap::with_capacity(kinds.len());
        let mut by_kind: HashMap<String, Vec<Arc<Kind>>> = HashMap::with_capacity(kinds.len());
        for kind in &kinds {
            by_plural.entry(kind.plural.clone()).or_default().push(kind.clone());
            by_kind.entry(kind.kind.clone()).or_default().push(kind.clone());
        }
        let by_collection = stored.iter().map(|k| (k.collection.clone(), k.clone())).collect();
        let groups = groups(&kinds, builtin.len());
        let by_group = groups.iter().enumerate().map(|(at, group)| (group.name.clone(), at)).collect();
        Self { builtin, kinds, by_plural, by_kind, stored, by_collection, groups, by_group }
    }

    pub fn kinds(&self) -> &[Arc<Kind>] {
        &self.kinds
    }

    /// Those every server serves, each at its ordinal.
    pub fn builtins(&self) -> &[Arc<Kind>] {
        &self.builtin
    }

    pub fn is_builtin_group(&self, group: &str) -> bool {
        self.builtin.iter().any(|k| k.group == group)
    }

    /// The built-in kinds of a group: names no definition can have.
    pub fn builtin_of<'a>(&'a self, group: &'a str) -> impl Iterator<Item = &'a Kind> {
        self.builtin.iter().filter(move |k| k.group == group).map(|k| &**k)
    }

    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Kind>> {
        self.by_plural.get(plural)?.iter().find(|k| k.group == group && k.version == version)
    }

    pub fn by_type(&self, api_version: &str, kind: &str) -> Option<&Arc<Kind>> {
        let (group, version) = meta::split_api_version(api_version);
        self.by_kind.get(kind)?.iter().find(|k| k.group == group && k.version == version)
    }

    /// The kind in whose stored form a collection's objects are.
    pub fn stored_in(&self, collection: &Collection) -> Option<&Arc<Kind>> {
        self.by_collection.get(collection)
    }

    /// One kind per collection.
    pub fn stored(&self) -> impl Iterator<Item = &Arc<Kind>> {
        self.stored.iter()
    }

    /// Groups with their versions, the preferred one first.
    pub fn groups(&self) -> Vec<(&str, Vec<&str>)> {
        self.groups.iter().map(|g| (g.name.as_str(), g.versions.iter().map(|(v, _)| v.as_str()).collect())).collect()
    }

    pub fn of_version<'a>(&'a self, group: &'a str, version: &'a str) -> impl Iterator<Item = &'a Arc<Kind>> {
        let group = self.by_group.get(group).map(|at| &self.groups[*at]);
        let versions = group.into_iter().flat_map(|g| &g.versions);
        versions.filter(move |(v, _)| v == version).flat_map(|(_, kinds)| kinds)
    }
}

/// Built-in groups in the order of their rows, the others by name behind them.
fn groups(kinds: &[Arc<Kind>], builtin: usize) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let mut at: HashMap<&str, usize> = HashMap::new();
    let mut builtin_groups = 0;
    for (i, kind) in kinds.iter().enumerate() {
        let place = *at.entry(&kind.group).or_insert_with(|| {
            groups.push(Group { name: kind.group.clone(), versions: Vec::new() });
            groups.len() - 1
        });
        if i < builtin {
            builtin_groups = groups.len();
        }
        let versions = &mut groups[place].versions;
        match versions.iter_mut().find(|(v, _)| *v == kind.version) {
            Some((_, kinds)) => kinds.push(kind.clone()),
            None => versions.push((kind.version.clone(), vec![kind.clone()])),
        }
    }
    let custom = &mut groups[builtin_groups..];
    custom.sort_by(|a, b| a.name.cmp(&b.name));
    for group in custom {
        group.versions.sort_by(|(a, _), (b, _)| by_priority(a, b));
        for (_, kinds) in &mut group.versions {
            kinds.sort_by(|a, b| a.plural.cmp(&b.plural));
        }
    }
    groups
}

/// The order of versions by age and maturity: v2, v1, v2beta1, v1beta2, v1alpha1, then others by name.
pub fn by_priority(a: &str, b: &str) -> Ordering {
    match (rank(a), rank(b)) {
        (Some(a), Some(b)) => b.cmp(&a),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => a.cmp(b),
    }
}

/// Maturity, major, minor.
fn rank(version: &str) -> Option<(u8, u64, u64)> {
    let rest = version.strip_prefix('v')?;
    let (major, rest) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len()));
    let (maturity, minor) = match rest {
        "" => (2, "0"),
        _ => rest
            .strip_prefix("beta")
            .map(|minor| (1, minor))
            .or_else(|| rest.strip_prefix("alpha").map(|minor| (0, minor)))?,
    };
    let number = |text: &str| (!text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse().ok());
    Some((maturity, number(major)??, number(minor)??))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_by_maturity_then_number() {
        let mut versions =
            ["v11alpha2", "foo10", "v10beta3", "v2", "v3beta1", "v1", "v12alpha1", "foo1", "v11beta2", "v10"];
        versions.sort_by(|a, b| by_priority(a, b));
        let want = ["v10", "v2", "v1", "v11beta2", "v10beta3", "v3beta1", "v12alpha1", "v11alpha2", "foo1", "foo10"];
        assert_eq!(versions, want);
    }

    #[test]
    fn built_in_kinds_are_found_every_way() {
        let registry = Registry::builtin();
        let kind = registry.find("", "v1", "configmaps").unwrap();
        assert!(Arc::ptr_eq(kind, registry.by_type("v1", "ConfigMap").unwrap()));
        assert!(Arc::ptr_eq(kind, registry.stored_in(&kind.collection).unwrap()));
        assert!(registry.of_version("", "v1").any(|k| Arc::ptr_eq(k, kind)));
    }
}
