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

    fn join(&mut self, group: &str) {
        if !self.is_in(group) {
            self.groups.push(group.to_owned());
        }
    }
}
