//! Access control over stored objects: the policy that follows Roles and bindings, the accounts tokens depend on, reviews, grants,
//! impersonation, and the controllers that keep it all up.

pub(crate) mod accounts;
pub(crate) mod aggregate;
pub(crate) mod assigned;
pub(crate) mod bootstrap;
mod grants;
mod impersonate;
mod objects;
mod policy;
mod reviews;
mod tokens;

pub(crate) use reviews::About;
pub(crate) use tokens::TOKEN_REQUEST;

use crate::Inner;
use std::sync::Arc;

pub(crate) const RBAC: &str = "rbac.authorization.k8s.io";

/// Lets the authorizer and the issuer of tokens see what is stored.
pub(crate) fn connect(api: &Inner) {
    api.options.authorizer.follow(Arc::new(policy::Follower::new(api.store.clone())));
    if let Some(issuer) = api.options.authenticator.issuer() {
        issuer.look_up_in(Arc::new(objects::Stored::new(api.store.clone())));
    }
}

#[cfg(test)]
mod tests;
