//! Which objects a reconciler sees.

use std::collections::BTreeSet;

use serde::Deserialize;

use crate::{Key, Patterns};

/// Part of the objects of a kind. Everything left out means everything.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Filter {
    /// A label selector, as `kubectl -l` takes it.
    pub labels: Option<String>,
    /// A field selector, as `kubectl --field-selector` takes it.
    pub fields: Option<String>,
    /// Only in these namespaces. Without meaning for kinds of the cluster.
    pub namespaces: Vec<String>,
    /// Only objects whose `namespace/name` (or `name`) these patterns allow.
    pub keys: Patterns,
}

impl Filter {
    /// Whether `key` is among those to be seen.
    pub(crate) fn allows(&self, key: &Key) -> bool {
        self.keys.is_everything() || self.keys.allows(&key.to_string())
    }
}

/// What one informer reads: the part of a filter the server can decide, in one namespace or all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Scope {
    pub namespace: Option<String>,
    pub labels: Option<String>,
    pub fields: Option<String>,
}

impl Scope {
    /// The informers a kind needs for what both filters let through: what the reconciler's author wants, and what the
    /// configuration leaves of it. None when nothing is left.
    pub(crate) fn of(author: &Filter, configured: &Filter, cluster_kind: bool) -> Vec<Scope> {
        let join = |a: &Option<String>, b: &Option<String>| match (a, b) {
            (Some(a), Some(b)) => Some(format!("{a},{b}")),
            (a, b) => a.clone().or_else(|| b.clone()),
        };
        let scope = |namespace| Scope {
            namespace,
            labels: join(&author.labels, &configured.labels),
            fields: join(&author.fields, &configured.fields),
        };
        if cluster_kind || (author.namespaces.is_empty() && configured.namespaces.is_empty()) {
            return vec![scope(None)];
        }
        let in_both =
            |name: &String| [author, configured].iter().all(|f| f.namespaces.is_empty() || f.namespaces.contains(name));
        let named: BTreeSet<&String> = author.namespaces.iter().chain(&configured.namespaces).collect();
        named.into_iter().filter(|name| in_both(name)).map(|name| scope(Some(name.clone()))).collect()
    }

    /// The words of the selectors for a request.
    pub(crate) fn query(&self, query: &mut form_urlencoded::Serializer<'_, String>) {
        for (name, value) in [("labelSelector", &self.labels), ("fieldSelector", &self.fields)] {
            if let Some(value) = value {
                query.append_pair(name, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_narrows_what_the_author_asked_for() {
        // KC-2
        let of = |names: &[&str], labels: &str| Filter {
            labels: Some(labels.to_owned()),
            namespaces: names.iter().map(|name| (*name).to_owned()).collect(),
            ..Filter::default()
        };
        let names = |scopes: Vec<Scope>| scopes.into_iter().map(|scope| scope.namespace).collect::<Vec<_>>();
        let both = Scope::of(&of(&["x", "y"], "a=b"), &of(&["z", "y"], "c"), false);
        assert_eq!(both[0].labels.as_deref(), Some("a=b,c"));
        assert_eq!(names(both), [Some("y".to_owned())]);
        assert_eq!(names(Scope::of(&of(&["x"], "a"), &of(&["z"], "b"), false)), [] as [Option<String>; 0]);
        assert_eq!(names(Scope::of(&of(&[], "a"), &of(&["z", "z"], "b"), false)), [Some("z".to_owned())]);
        assert_eq!(names(Scope::of(&of(&["x"], "a"), &of(&["z"], "b"), true)), [None]);
    }

    #[test]
    fn keys_are_seen_as_the_patterns_say() {
        let filter = Filter { keys: Patterns::new(["y/*", "-y/secret"]), ..Filter::default() };
        let sees = |namespace, name| filter.allows(&Key::new(Some(namespace), name));
        assert!(sees("y", "o") && !sees("x", "o") && !sees("y", "secret"));
    }
}
