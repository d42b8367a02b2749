//! One RBAC rule: what it allows, what it covers, and how it is written in messages.

use std::fmt;

use crate::Request;

const ALL: &str = "*";

/// Verbs on resources of API groups, or on URLs; lists as a Role states them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Rule {
    pub verbs: Vec<String>,
    pub api_groups: Vec<String>,
    pub resources: Vec<String>,
    pub resource_names: Vec<String>,
    pub non_resource_urls: Vec<String>,
}

impl Rule {
    pub fn allows(&self, request: &Request<'_>) -> bool {
        if !self.verbs.iter().any(|verb| verb == ALL || verb == request.verb) {
            return false;
        }
        if request.resource.is_empty() {
            return self.non_resource_urls.iter().any(|url| url_covers(url, request.path));
        }
        self.api_groups.iter().any(|group| group == ALL || group == request.group)
            && self.resources.iter().any(|resource| names(resource, request.resource, request.subresource))
            && (self.resource_names.is_empty() || self.resource_names.iter().any(|name| name == request.name))
    }

    /// Whoever holds these rules may do everything the wanted ones allow.
    pub fn all_covered(held: &[Rule], wanted: &[Rule]) -> bool {
        missing(held, wanted).is_ok_and(|missing| missing.is_empty())
    }

    /// Whoever has this rule may do everything the other one allows. Sure only when it answers yes, or when the other holds one value
    /// of each kind.
    fn covers(&self, other: &Rule) -> bool {
        covers_each(&self.verbs, &other.verbs)
            && covers_each(&self.api_groups, &other.api_groups)
            && other.resources.iter().all(|resource| self.covers_resource(resource))
            && other.non_resource_urls.iter().all(|url| self.non_resource_urls.iter().any(|own| url_covers(own, url)))
            && (self.resource_names.is_empty()
                || (!other.resource_names.is_empty()
                    && other.resource_names.iter().all(|name| self.resource_names.contains(name))))
    }

    fn covers_resource(&self, wanted: &str) -> bool {
        let any_parent = wanted.split_once('/').map(|(_, subresource)| subresource);
        self.resources
            .iter()
            .any(|own| own == ALL || own == wanted || any_parent.is_some_and(|sub| own.strip_prefix("*/") == Some(sub)))
    }

    /// The rule as rules with one value of each kind.
    fn atoms(&self) -> impl Iterator<Item = Rule> {
        let one = |text: &String| vec![text.clone()];
        let unnamed = self.resource_names.is_empty().then_some(None);
        let on_resources = self.api_groups.iter().flat_map(move |group| {
            self.resources.iter().flat_map(move |resource| {
                self.verbs.iter().flat_map(move |verb| {
                    self.resource_names.iter().map(Some).chain(unnamed).map(move |name| Rule {
                        verbs: one(verb),
                        api_groups: one(group),
                        resources: one(resource),
                        resource_names: name.map(one).unwrap_or_default(),
                        non_resource_urls: Vec::new(),
                    })
                })
            })
        });
        let on_urls = self.non_resource_urls.iter().flat_map(move |url| {
            let made = move |verb| Rule { verbs: one(verb), non_resource_urls: one(url), ..Rule::default() };
            self.verbs.iter().map(made)
        });
        on_resources.chain(on_urls)
    }
}

/// More combinations than this are not taken apart: a role could state billions of them in a megabyte.
const MAX_ATOMS: usize = 100_000;

/// What `wanted` allows beyond `held`, compacted; none when it is covered.
pub(crate) fn missing(held: &[Rule], wanted: &[Rule]) -> Result<Vec<Rule>, TooManyCombinations> {
    let mut missing: Vec<Rule> = Vec::new();
    let mut seen = 0;
    for rule in wanted {
        if held.iter().any(|own| own.covers(rule)) {
            continue;
        }
        for atom in rule.atoms() {
            seen += 1;
            if seen > MAX_ATOMS {
                return Err(TooManyCombinations);
            }
            if !held.iter().any(|own| own.covers(&atom)) {
                missing.push(atom);
            }
        }
    }
    Ok(compact(missing))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooManyCombinations;

/// Joins what differs by verb only, as it is shown to people.
fn compact(atoms: Vec<Rule>) -> Vec<Rule> {
    let mut joined: std::collections::BTreeMap<Rule, Vec<String>> = std::collections::BTreeMap::new();
    let mut rest = Vec::new();
    for mut atom in atoms {
        if atom.non_resource_urls.is_empty() {
            let verbs = std::mem::take(&mut atom.verbs);
            joined.entry(atom).or_default().extend(verbs);
        } else {
            rest.push(atom);
        }
    }
    rest.extend(joined.into_iter().map(|(rule, verbs)| Rule { verbs, ..rule }));
    rest
}

fn covers_each(own: &[String], wanted: &[String]) -> bool {
    own.iter().any(|own| own == ALL) || wanted.iter().all(|wanted| own.contains(wanted))
}

/// `pods`, `pods/log`, `*/log`, `*`.
fn names(stated: &str, resource: &str, subresource: &str) -> bool {
    if subresource.is_empty() {
        return stated == ALL || stated == resource;
    }
    let whole = stated.strip_suffix(subresource).and_then(|rest| rest.strip_suffix('/'));
    stated == ALL || whole.is_some_and(|parent| parent == ALL || parent == resource)
}

/// Only stars at the end stand for anything.
fn url_covers(stated: &str, url: &str) -> bool {
    stated == url || (stated.ends_with('*') && url.starts_with(stated.trim_end_matches('*')))
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            ("APIGroups", &self.api_groups),
            ("Resources", &self.resources),
            ("NonResourceURLs", &self.non_resource_urls),
            ("ResourceNames", &self.resource_names),
            ("Verbs", &self.verbs),
        ];
        f.write_str("{")?;
        for (i, (name, values)) in parts.iter().filter(|(_, values)| !values.is_empty()).enumerate() {
            write!(f, "{}{name}:{}", if i == 0 { "" } else { ", " }, Quoted(values))?;
        }
        f.write_str("}")
    }
}

/// `["a" "b"]`
pub(crate) struct Quoted<'a>(pub &'a [String]);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (i, value) in self.0.iter().enumerate() {
            write!(f, "{}{value:?}", if i == 0 { "" } else { " " })?;
        }
        f.write_str("]")
    }
}

#[cfg(test)]
mod tests;
