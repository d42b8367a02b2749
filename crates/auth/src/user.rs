//! A user as the rest of the server sees one, however it proved who it is.

use std::collections::BTreeMap;

/// Members may do everything; the admin certificate is in it.
pub const MASTERS: &str = "system:masters";
/// Every user that proved who it is.
pub const AUTHENTICATED: &str = "system:authenticated";
/// Every user that did not.
pub const UNAUTHENTICATED: &str = "system:unauthenticated";
/// The name of a user that presented nothing.
pub const ANONYMOUS: &str = "system:anonymous";
/// The name of the administrator: of the generated client certificate and of local requests under `--authn-allow-localhost`.
pub const ADMIN: &str = "system:admin";
/// Every service account.
pub const SERVICE_ACCOUNTS: &str = "system:serviceaccounts";
const SERVICE_ACCOUNT_PREFIX: &str = "system:serviceaccount:";

/// The user name a service account logs in with.
pub fn service_account_name(namespace: &str, name: &str) -> String {
    format!("{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}")
}

/// Namespace and name of the service account behind a user name; none when no service account can have it.
pub fn split_service_account(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix(SERVICE_ACCOUNT_PREFIX)?.split_once(':')?;
    let valid = meta::name::dns1123_label(namespace).is_empty() && meta::name::dns1123_subdomain(name).is_empty();
    valid.then_some((namespace, name))
}

/// The groups of every service account of a namespace.
pub fn service_account_groups(namespace: &str) -> [String; 2] {
    [SERVICE_ACCOUNTS.to_owned(), format!("{SERVICE_ACCOUNTS}:{namespace}")]
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct User {
    pub name: String,
    pub uid: String,
    pub groups: Vec<String>,
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// A user that proved who it is: `system:authenticated` is added to its groups.
    pub fn authenticated(
        name: impl Into<String>,
        uid: impl Into<String>,
        groups: impl IntoIterator<Item = String>,
    ) -> User {
        let mut user =
            User { name: name.into(), uid: uid.into(), groups: groups.into_iter().collect(), extra: BTreeMap::new() };
        user.join(AUTHENTICATED);
        user
    }

    /// The administrator, for this process's own controllers and for local requests.
    pub fn admin() -> User {
        User::authenticated(ADMIN, "", [MASTERS.to_owned()])
    }

    pub fn anonymous() -> User {
        User { name: ANONYMOUS.to_owned(), groups: vec![UNAUTHENTICATED.to_owned()], ..User::default() }
    }

    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|g| g == group)
    }

    pub fn join(&mut self, group: &str) {
        if !self.is_in(group) {
            self.groups.push(group.to_owned());
        }
    }
}
