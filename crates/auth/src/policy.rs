//! Who has which rules: Roles and bindings folded into an index by subject, so that a decision reads only the asker's own rules.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use crate::{Request, Rule, User, rule::Quoted};

/// A Role, or a ClusterRole when the namespace is empty.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RoleRef {
    pub namespace: Box<str>,
    pub name: Box<str>,
}

impl RoleRef {
    pub fn new(namespace: &str, name: &str) -> RoleRef {
        RoleRef { namespace: namespace.into(), name: name.into() }
    }

    fn kind(&self) -> &'static str {
        if self.namespace.is_empty() { "ClusterRole" } else { "Role" }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    User(String),
    Group(String),
    /// The namespace may be empty in a RoleBinding: it is the binding's own.
    ServiceAccount {
        namespace: String,
        name: String,
    },
}

/// All roles and bindings. A binding's namespace is empty for a ClusterRoleBinding.
#[derive(Debug, Default)]
pub struct Policy {
    roles: HashMap<RoleRef, Arc<[Rule]>>,
    /// Where each binding stands in the indices, so that it can be taken out.
    bindings: HashMap<(Box<str>, Box<str>), Vec<Subject>>,
    users: HashMap<Box<str>, Grants>,
    groups: HashMap<Box<str>, Grants>,
}

/// By the namespace they hold in; empty for everywhere.
type Grants = HashMap<Box<str>, Vec<Grant>>;

/// One subject's share of a binding.
#[derive(Debug)]
struct Grant {
    binding: Box<str>,
    role: Arc<RoleRef>,
    /// Made once, so that saying why costs a decision nothing.
    reason: Arc<str>,
}

/// What the policy says of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    Allowed(Arc<str>),
    /// No rule allows it; the roles that bindings of the asker name and that are not there.
    Silent(Vec<RoleRef>),
}

impl Default for Verdict {
    fn default() -> Self {
        Verdict::Silent(Vec::new())
    }
}

impl Policy {
    pub fn set_role(&mut self, role: RoleRef, rules: Vec<Rule>) {
        self.roles.insert(role, rules.into());
    }

    pub fn remove_role(&mut self, role: &RoleRef) {
        self.roles.remove(role);
    }

    pub fn role(&self, role: &RoleRef) -> Option<&Arc<[Rule]>> {
        self.roles.get(role)
    }

    pub fn set_binding(&mut self, namespace: &str, name: &str, role: RoleRef, subjects: Vec<Subject>) {
        self.remove_binding(namespace, name);
        let role = Arc::new(role);
        for subject in &subjects {
            let Some((index, key)) = self.place(subject, namespace) else { continue };
            let reason = describe(namespace, name, &role, subject).into();
            let grants = index.entry(key.into()).or_default().entry(namespace.into()).or_default();
            grants.push(Grant { binding: name.into(), role: role.clone(), reason });
        }
        self.bindings.insert((namespace.into(), name.into()), subjects);
    }

    pub fn remove_binding(&mut self, namespace: &str, name: &str) {
        for subject in self.bindings.remove(&(namespace.into(), name.into())).unwrap_or_default() {
            let Some((index, key)) = self.place(&subject, namespace) else { continue };
            let Some(grants) = index.get_mut(key.as_str()) else { continue };
            if let Some(here) = grants.get_mut(namespace) {
                here.retain(|grant| &*grant.binding != name);
                if here.is_empty() {
                    grants.remove(namespace);
                }
            }
            if grants.is_empty() {
                index.remove(key.as_str());
            }
        }
    }

    /// The index a subject is found in, and under which name. A service account is the user it logs in as.
    fn place(&mut self, subject: &Subject, home: &str) -> Option<(&mut HashMap<Box<str>, Grants>, String)> {
        match subject {
            Subject::User(name) => Some((&mut self.users, name.clone())),
            Subject::Group(name) => Some((&mut self.groups, name.clone())),
            Subject::ServiceAccount { namespace, name } => {
                let namespace = if namespace.is_empty() { home } else { namespace };
                (!namespace.is_empty()).then(|| (&mut self.users, crate::service_account_name(namespace, name)))
            }
        }
    }

    /// What the user was granted everywhere and in the namespace.
    fn grants<'a>(&'a self, user: &'a User, namespace: &'a str) -> impl Iterator<Item = &'a Grant> {
        let own = self.users.get(user.name.as_str());
        let shared = user.groups.iter().filter_map(|group| self.groups.get(group.as_str()));
        own.into_iter().chain(shared).flat_map(move |grants| {
            let here = (!namespace.is_empty()).then(|| grants.get(namespace)).flatten();
            grants.get("").into_iter().chain(here).flatten()
        })
    }

    pub(crate) fn decide(&self, request: &Request<'_>) -> Verdict {
        let mut missing = BTreeSet::new();
        for grant in self.grants(request.user, request.namespace) {
            match self.roles.get(&*grant.role) {
                Some(rules) if rules.iter().any(|rule| rule.allows(request)) => {
                    return Verdict::Allowed(grant.reason.clone());
                }
                Some(_) => {}
                None => {
                    missing.insert((*grant.role).clone());
                }
            }
        }
        Verdict::Silent(missing.into_iter().collect())
    }

    /// Which bindings were looked at when no rule allowed a request, for those who may know.
    pub(crate) fn explain(&self, request: &Request<'_>) -> String {
        let mut bindings = BTreeSet::new();
        for grant in self.grants(request.user, request.namespace) {
            bindings.insert(grant.reason.strip_prefix(ALLOWED_BY).unwrap_or(&grant.reason));
        }
        let asked = request.wanted();
        if bindings.is_empty() {
            let groups = match request.user.groups.as_slice() {
                [] => String::new(),
                groups => format!(", or one of the groups {}", Quoted(groups)),
            };
            return format!("RBAC: no rule allows to {asked}: no binding there names the user{groups}");
        }
        let shown = bindings.iter().take(MOST_SHOWN).copied().collect::<Vec<_>>().join("; ");
        let more = match bindings.len().saturating_sub(MOST_SHOWN) {
            0 => String::new(),
            more => format!("; and {more} more"),
        };
        format!("RBAC: no rule allows to {asked}; looked at {shown}{more}")
    }

    /// Every rule of the user in a namespace (empty: those that hold everywhere), and the roles that are not there.
    pub(crate) fn rules_of(&self, user: &User, namespace: &str) -> (Vec<Rule>, Vec<RoleRef>) {
        let mut missing = BTreeSet::new();
        let mut rules = Vec::new();
        // A binding counts once, however many of its subjects the user is.
        let mut seen = BTreeSet::new();
        for grant in self.grants(user, namespace) {
            if !seen.insert((&grant.role, &grant.binding)) {
                continue;
            }
            match self.roles.get(&*grant.role) {
                Some(found) => rules.extend(found.iter().cloned()),
                None => {
                    missing.insert((*grant.role).clone());
                }
            }
        }
        (rules, missing.into_iter().collect())
    }
}

const ALLOWED_BY: &str = "RBAC: allowed by ";
/// Bindings that an explanation names; the rest is counted.
const MOST_SHOWN: usize = 8;

fn describe(namespace: &str, name: &str, role: &RoleRef, subject: &Subject) -> String {
    let binding = match namespace {
        "" => format!("ClusterRoleBinding {name:?}"),
        namespace => format!("RoleBinding {:?}", format!("{name}/{namespace}")),
    };
    let to = match subject {
        Subject::User(name) => format!("User {name:?}"),
        Subject::Group(name) => format!("Group {name:?}"),
        Subject::ServiceAccount { namespace: stated, name } => {
            let home = if stated.is_empty() { namespace } else { stated };
            format!("ServiceAccount {:?}", format!("{name}/{home}"))
        }
    };
    format!("{ALLOWED_BY}{binding} of {} {:?} to {to}", role.kind(), role.name)
}

/// What is wrong with bindings that lead to these roles; empty when there are none.
pub fn not_found(missing: &[RoleRef]) -> String {
    let text =
        |role: &RoleRef| format!("{}.rbac.authorization.k8s.io {:?} not found", role.kind().to_lowercase(), role.name);
    match missing {
        [] => String::new(),
        [one] => text(one),
        many => format!("[{}]", many.iter().map(text).collect::<Vec<_>>().join(", ")),
    }
}

/// Why nothing was found, when bindings lead to roles that are not there.
pub(crate) fn unresolved(missing: &[RoleRef]) -> String {
    if missing.is_empty() { String::new() } else { format!("RBAC: {}", not_found(missing)) }
}

#[cfg(test)]
mod tests;
