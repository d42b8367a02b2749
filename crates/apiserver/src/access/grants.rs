//! Nobody gives away rights it does not have: what a write of a Role or a binding takes besides the right to write it.

use super::RBAC;
use super::policy::{role_ref, rules};
use crate::verbs::Call;
use auth::{MASTERS, Request, Rule};
use meta::{Object, Status};
use serde_json::Value;

impl Call<'_> {
    /// To be asked before any write of an object by a user; `current` is what it replaces.
    pub fn confirm_grant(&self, desired: &Object, current: Option<&Object>) -> Result<(), Status> {
        let user = self.proof.user();
        if self.kind.group != RBAC || user.is_in(MASTERS) {
            return Ok(());
        }
        if current.is_some_and(|current| unguarded(current) == unguarded(desired)) {
            return Ok(());
        }
        if self.kind.kind.ends_with("Binding") {
            self.confirm_binding(desired)
        } else {
            self.confirm_role(desired, current)
        }
    }

    fn confirm_role(&self, desired: &Object, current: Option<&Object>) -> Result<(), Status> {
        if self.may("escalate", &self.kind.plural, self.name) {
            return Ok(());
        }
        self.confirm_rules(desired, &rules(desired))?;
        // Whoever chooses what is gathered could gather anything.
        if (aggregates(desired) || current.is_some_and(aggregates))
            && self.confirm_rules(desired, &everything()).is_err()
        {
            let why = "must have cluster-admin privileges to use the aggregationRule";
            return Err(Status::forbidden(self.kind.resource(), desired.name(), why));
        }
        Ok(())
    }

    fn confirm_binding(&self, desired: &Object) -> Result<(), Status> {
        // What names no role is refused by validation.
        let Some(role) = role_ref(desired, self.namespace) else { return Ok(()) };
        let plural = if role.namespace.is_empty() { "clusterroles" } else { "roles" };
        if self.may("bind", plural, &role.name) {
            return Ok(());
        }
        let found = self.api.options.authorizer.role(&role);
        let granted = found.ok_or_else(|| Status::not_found(self.kind.resource(), &role.name))?;
        self.confirm_rules(desired, &granted)
    }

    fn confirm_rules(&self, desired: &Object, rules: &[Rule]) -> Result<(), Status> {
        let resource = self.kind.resource();
        let held =
            self.api.options.authorizer.confirm_grant(self.proof.user(), self.namespace, rules, &resource.to_string());
        held.map_err(|why| Status::forbidden(resource, desired.name(), &why.to_string()))
    }

    fn may(&self, verb: &str, plural: &str, name: &str) -> bool {
        let request = Request {
            user: self.proof.user(),
            verb,
            group: RBAC,
            version: "*",
            resource: plural,
            subresource: "",
            namespace: self.namespace,
            name,
            path: "",
        };
        self.api.options.authorizer.opinion(&request).allowed
    }
}

/// The object without what the garbage collector must be able to change on anything.
fn unguarded(object: &Object) -> Object {
    let mut rest = object.clone();
    for key in ["ownerReferences", "finalizers", "managedFields"] {
        rest.meta_mut().remove(key);
    }
    rest
}

fn aggregates(role: &Object) -> bool {
    let selectors = role.0.get("aggregationRule").and_then(|rule| rule.get("clusterRoleSelectors"));
    selectors.and_then(Value::as_array).is_some_and(|list| !list.is_empty())
}

fn everything() -> [Rule; 2] {
    let all = || vec!["*".to_owned()];
    [
        Rule { verbs: all(), api_groups: all(), resources: all(), ..Rule::default() },
        Rule { verbs: all(), non_resource_urls: all(), ..Rule::default() },
    ]
}
