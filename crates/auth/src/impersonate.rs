//! Acting as somebody else: what the `Impersonate-*` headers ask for, which rights that takes, and who the request becomes.
//!
//! Read strictly: a header we would overlook leaves the request running with the caller's own, usually larger, rights. Naming such a
//! header in `Connection` changes nothing: what is there is read.

use std::collections::BTreeMap;

use http::{HeaderMap, HeaderName};
use percent_encoding::percent_decode_str;

use crate::{ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED, User, service_account_groups, split_service_account};

const PREFIX: &str = "impersonate-";
const EXTRA: &str = "impersonate-extra-";

/// The headers cannot be followed. What they hold is not repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    #[error("requested impersonation of groups, uid or extra without impersonating a user")]
    NoUser,
    #[error("Impersonate-User and Impersonate-Uid must be there once and not be empty")]
    NotOnce,
    #[error("an Impersonate header is unknown or cannot be read")]
    Unreadable,
}

/// Who the caller wants to be.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Impersonation {
    user: String,
    uid: String,
    groups: Vec<String>,
    extra: BTreeMap<String, Vec<String>>,
}

/// One thing the caller must be allowed to `impersonate`.
#[derive(Debug, PartialEq, Eq)]
pub struct Claim<'a> {
    pub group: &'static str,
    pub resource: &'static str,
    pub subresource: &'a str,
    pub namespace: &'a str,
    pub name: &'a str,
}

impl Impersonation {
    pub fn requested(headers: &HeaderMap) -> Result<Option<Impersonation>, Malformed> {
        if !headers.keys().any(|name| name.as_str().starts_with(PREFIX)) {
            return Ok(None);
        }
        let mut asked = Impersonation::default();
        for name in headers.keys().filter(|name| name.as_str().starts_with(PREFIX)) {
            let values = values(headers, name)?;
            match name.as_str() {
                "impersonate-user" => asked.user = once(values)?,
                "impersonate-uid" => asked.uid = once(values)?,
                "impersonate-group" => asked.groups = values,
                other => {
                    let key = other.strip_prefix(EXTRA).filter(|key| !key.is_empty()).ok_or(Malformed::Unreadable)?;
                    let key = percent_decode_str(key).decode_utf8().map_err(|_| Malformed::Unreadable)?;
                    asked.extra.entry(key.into_owned()).or_default().extend(values);
                }
            }
        }
        if asked.user.is_empty() { Err(Malformed::NoUser) } else { Ok(Some(asked)) }
    }

    /// Every right it takes; all are needed.
    pub fn claims(&self) -> impl Iterator<Item = Claim<'_>> {
        let core = |resource, name| Claim { group: "", resource, subresource: "", namespace: "", name };
        let user = match split_service_account(&self.user) {
            Some((namespace, name)) => Claim { namespace, ..core("serviceaccounts", name) },
            None => core("users", self.user.as_str()),
        };
        let groups = self.groups.iter().map(move |group| core("groups", group.as_str()));
        let about = |resource, subresource, name| Claim {
            group: "authentication.k8s.io",
            resource,
            subresource,
            namespace: "",
            name,
        };
        let extra = self.extra.iter().flat_map(move |(key, values)| {
            values.iter().map(move |value| about("userextras", key.as_str(), value.as_str()))
        });
        let uid = (!self.uid.is_empty()).then(|| about("uids", "", self.uid.as_str()));
        std::iter::once(user).chain(groups).chain(extra).chain(uid)
    }

    /// The user the request goes on as. Stated groups are all there are, but for the one that says whether it logged in.
    pub fn user(self) -> User {
        let mut groups = self.groups;
        if groups.is_empty()
            && let Some((namespace, _)) = split_service_account(&self.user)
        {
            groups.extend(service_account_groups(namespace));
        }
        let mut user = User { name: self.user, uid: self.uid, groups, extra: self.extra };
        if user.name == ANONYMOUS {
            user.join(UNAUTHENTICATED);
        } else if !user.is_in(UNAUTHENTICATED) {
            user.join(AUTHENTICATED);
        }
        user
    }
}

fn values(headers: &HeaderMap, name: &HeaderName) -> Result<Vec<String>, Malformed> {
    let texts = headers.get_all(name).iter().map(|value| String::from_utf8(value.as_bytes().to_vec()));
    texts.collect::<Result<_, _>>().map_err(|_| Malformed::Unreadable)
}

fn once(mut values: Vec<String>) -> Result<String, Malformed> {
    match (values.pop(), values.is_empty()) {
        (Some(value), true) if !value.is_empty() => Ok(value),
        _ => Err(Malformed::NotOnce),
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;
    use crate::MASTERS;

    fn asked(pairs: &[(&'static str, &str)]) -> Result<Option<Impersonation>, Malformed> {
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            map.append(*name, HeaderValue::from_str(value).unwrap());
        }
        Impersonation::requested(&map)
    }

    fn becomes(pairs: &[(&'static str, &str)]) -> User {
        asked(pairs).unwrap().unwrap().user()
    }

    #[test]
    fn nothing_asked_is_nothing_changed() {
        assert_eq!(asked(&[("x-impersonate-user", "a"), ("connection", "impersonate-user")]), Ok(None));
    }

    #[test]
    fn what_cannot_be_followed_is_refused_never_overlooked() {
        // CVE-2021-31999, CVE-2021-36776: a header that is dropped or read differently runs as the caller.
        for (pairs, why) in [
            (vec![("impersonate-group", MASTERS)], Malformed::NoUser),
            (vec![("impersonate-uid", "1")], Malformed::NoUser),
            (vec![("impersonate-extra-a", "1")], Malformed::NoUser),
            (vec![("impersonate-user", "")], Malformed::NotOnce),
            (vec![("impersonate-user", "a"), ("impersonate-user", "b")], Malformed::NotOnce),
            (vec![("impersonate-user", "a"), ("impersonate-uid", "1"), ("impersonate-uid", "2")], Malformed::NotOnce),
            (vec![("impersonate-user", "a"), ("impersonate-role", "b")], Malformed::Unreadable),
            (vec![("impersonate-user", "a"), ("impersonate-extra-", "b")], Malformed::Unreadable),
            (vec![("impersonate-user", "a"), ("impersonate-extra-%ff", "b")], Malformed::Unreadable),
        ] {
            assert_eq!(asked(&pairs), Err(why), "{pairs:?}");
        }
    }

    #[test]
    fn every_part_is_a_right_of_its_own() {
        let asked = asked(&[
            ("impersonate-user", "bob"),
            ("impersonate-group", "dev"),
            ("impersonate-group", MASTERS),
            ("impersonate-uid", "7"),
            ("impersonate-extra-acme.com%2fproject", "x"),
        ]);
        let asked = asked.unwrap().unwrap();
        let found: Vec<_> = asked.claims().map(|c| (c.group, c.resource, c.subresource, c.name)).collect();
        let authentication = "authentication.k8s.io";
        assert_eq!(
            found,
            [
                ("", "users", "", "bob"),
                ("", "groups", "", "dev"),
                ("", "groups", "", MASTERS),
                (authentication, "userextras", "acme.com/project", "x"),
                (authentication, "uids", "", "7"),
            ]
        );
    }

    #[test]
    fn a_service_account_is_one_only_under_a_name_it_could_have() {
        let account = asked(&[("impersonate-user", "system:serviceaccount:d:sa")]).unwrap().unwrap();
        let claim = account.claims().next().unwrap();
        assert_eq!((claim.resource, claim.namespace, claim.name), ("serviceaccounts", "d", "sa"));
        assert_eq!(
            account.user().groups,
            ["system:serviceaccounts", "system:serviceaccounts:d", "system:authenticated"]
        );
        for name in ["system:serviceaccount:d:S_a", "system:serviceaccount:d", "system:serviceaccount:d:a:b"] {
            let user = asked(&[("impersonate-user", name)]).unwrap().unwrap();
            assert_eq!(user.claims().next().unwrap().resource, "users", "{name}");
            assert_eq!(user.user().groups, ["system:authenticated"], "{name}");
        }
    }

    #[test]
    fn groups_say_whether_the_user_logged_in() {
        assert_eq!(becomes(&[("impersonate-user", ANONYMOUS)]).groups, [UNAUTHENTICATED]);
        assert_eq!(becomes(&[("impersonate-user", "b")]).groups, [AUTHENTICATED]);
        let stated = [("impersonate-user", "b"), ("impersonate-group", UNAUTHENTICATED)];
        assert_eq!(becomes(&stated).groups, [UNAUTHENTICATED]);
        let account = [("impersonate-user", "system:serviceaccount:d:sa"), ("impersonate-group", "dev")];
        assert_eq!(becomes(&account).groups, ["dev", AUTHENTICATED]);
    }
}
