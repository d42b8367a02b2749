//! What a verified token says of its bearer, read once and checked on every request.

use std::sync::Arc;

use serde::Deserialize;

use super::{BoundKind, Found, LEEWAY, LEGACY_ISSUER, Objects, Refused, USER_ISSUER};
use crate::{User, service_account_groups, service_account_name};

const ABOUT: &str = "authentication.kubernetes.io";

pub(super) struct Identity {
    pub user: Arc<User>,
    /// Empty: for whoever issued it.
    audiences: Vec<String>,
    not_before: Option<i64>,
    issued_at: Option<i64>,
    expires: Option<i64>,
    /// All of these must still be there.
    holders: Vec<Holder>,
    /// The Secret that must still hold this very token.
    secret: Option<Arc<str>>,
}

struct Holder {
    kind: BoundKind,
    item: Arc<str>,
    uid: String,
}

/// Fields named twice are an error: two readers could each take another one.
#[derive(Deserialize)]
struct Claims {
    iss: String,
    sub: String,
    #[serde(default)]
    aud: Audiences,
    exp: Option<i64>,
    nbf: Option<i64>,
    iat: Option<i64>,
    #[serde(default)]
    jti: String,
    #[serde(rename = "kubernetes.io")]
    account: Option<Account>,
    #[serde(rename = "muster.dev")]
    person: Option<Person>,
    #[serde(rename = "kubernetes.io/serviceaccount/namespace")]
    legacy_namespace: Option<String>,
    #[serde(rename = "kubernetes.io/serviceaccount/service-account.name")]
    legacy_name: Option<String>,
    #[serde(rename = "kubernetes.io/serviceaccount/service-account.uid")]
    legacy_uid: Option<String>,
    #[serde(rename = "kubernetes.io/serviceaccount/secret.name")]
    legacy_secret: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(untagged)]
enum Audiences {
    #[default]
    None,
    One(String),
    Many(Vec<String>),
}

impl Audiences {
    fn is_empty(&self) -> bool {
        match self {
            Audiences::None => true,
            Audiences::One(_) => false,
            Audiences::Many(many) => many.is_empty(),
        }
    }
}

#[derive(Deserialize)]
struct Account {
    namespace: String,
    serviceaccount: Reference,
    secret: Option<Reference>,
    pod: Option<Reference>,
    node: Option<Reference>,
}

#[derive(Deserialize)]
struct Reference {
    name: String,
    #[serde(default)]
    uid: String,
}

#[derive(Deserialize)]
struct Person {
    #[serde(default)]
    uid: String,
    #[serde(default)]
    groups: Vec<String>,
}

impl Identity {
    pub fn read(claims: &[u8], issuer: &str) -> Result<Identity, Refused> {
        let claims: Claims = serde_json::from_slice(claims).map_err(|_| Refused::NotOurs)?;
        match claims.iss.as_str() {
            USER_ISSUER => Identity::of_person(claims),
            LEGACY_ISSUER => Identity::of_secret(claims),
            iss if iss == issuer => Identity::of_account(claims),
            _ => None,
        }
        .ok_or(Refused::NotOurs)
    }

    fn of_person(mut claims: Claims) -> Option<Identity> {
        claims.exp?;
        let person = claims.person.take()?;
        if !matches!(std::mem::take(&mut claims.aud), Audiences::One(aud) if aud == USER_ISSUER) {
            return None;
        }
        let mut user = User::authenticated(claims.sub.clone(), person.uid, person.groups);
        user.extra.insert(format!("{ABOUT}/credential-id"), vec![format!("JTI={}", claims.jti)]);
        Some(Identity::of(user, claims, Vec::new()))
    }

    fn of_account(mut claims: Claims) -> Option<Identity> {
        claims.exp?;
        let Account { namespace, serviceaccount: account, secret, pod, node } = claims.account.take()?;
        let mut user = service_account(&namespace, &account.name, &account.uid);
        if claims.sub != user.name || claims.aud.is_empty() {
            return None;
        }
        let mut add = |key: &str, value: &str| user.extra.insert(format!("{ABOUT}/{key}"), vec![value.to_owned()]);
        add("credential-id", &format!("JTI={}", claims.jti));
        for (name, reference) in [("pod", &pod), ("node", &node)] {
            if let Some(reference) = reference {
                add(&format!("{name}-name"), &reference.name);
                add(&format!("{name}-uid"), &reference.uid);
            }
        }
        let within = |name: &str| Arc::from(format!("{namespace}/{name}"));
        let mut holders =
            vec![Holder { kind: BoundKind::ServiceAccount, item: within(&account.name), uid: account.uid }];
        let bound_to_pod = pod.is_some();
        for (kind, reference) in [(BoundKind::Secret, secret), (BoundKind::Pod, pod)] {
            holders.extend(reference.map(|r| Holder { kind, item: within(&r.name), uid: r.uid }));
        }
        // The node of a pod is information; a node alone is what the token is bound to.
        if !bound_to_pod {
            holders.extend(node.map(|r| Holder { kind: BoundKind::Node, item: r.name.into(), uid: r.uid }));
        }
        Some(Identity::of(user, claims, holders))
    }

    fn of_secret(mut claims: Claims) -> Option<Identity> {
        let namespace = claims.legacy_namespace.take()?;
        let (name, uid, secret) = (claims.legacy_name.take()?, claims.legacy_uid.take()?, claims.legacy_secret.take()?);
        let user = service_account(&namespace, &name, &uid);
        if claims.sub != user.name {
            return None;
        }
        let item = Arc::from(format!("{namespace}/{name}"));
        let mut identity = Identity::of(user, claims, vec![Holder { kind: BoundKind::ServiceAccount, item, uid }]);
        identity.secret = Some(Arc::from(format!("{namespace}/{secret}")));
        Some(identity)
    }

    fn of(user: User, claims: Claims, holders: Vec<Holder>) -> Identity {
        Identity {
            user: Arc::new(user),
            audiences: match claims.aud {
                Audiences::None => Vec::new(),
                Audiences::One(one) => vec![one],
                Audiences::Many(many) => many,
            },
            not_before: claims.nbf,
            issued_at: claims.iat,
            expires: claims.exp,
            holders,
            secret: None,
        }
    }

    pub fn audiences_or<'a>(&'a self, ours: &'a [String]) -> &'a [String] {
        if self.audiences.is_empty() { ours } else { &self.audiences }
    }

    pub fn check_times(&self, now: i64) -> Result<(), Refused> {
        if self.not_before.is_some_and(|from| now.saturating_add(LEEWAY) < from) {
            return Err(Refused::NotYet);
        }
        if self.expires.is_some_and(|end| now.saturating_sub(LEEWAY) > end) {
            return Err(Refused::Expired);
        }
        if self.issued_at.is_some_and(|at| now.saturating_add(LEEWAY) < at) {
            return Err(Refused::Future);
        }
        Ok(())
    }

    /// The last second at which it is accepted, as `check_times` has it.
    pub fn last_second(&self) -> Option<i64> {
        self.expires.map(|end| end.saturating_add(LEEWAY))
    }

    pub fn depends_on_objects(&self) -> bool {
        !self.holders.is_empty() || self.secret.is_some()
    }

    pub fn check_objects(&self, objects: &dyn Objects, token: &[u8], now: i64) -> Result<(), Refused> {
        for Holder { kind, item, uid } in &self.holders {
            match (objects.find(*kind, item, uid, now.saturating_sub(LEEWAY)), kind) {
                (Found::Same, _) => {}
                (Found::Gone, BoundKind::ServiceAccount) => {
                    return Err(Refused::Account(format!("service account {item} has been deleted")));
                }
                (Found::Other(is), BoundKind::ServiceAccount) => {
                    return Err(Refused::Account(format!("service account UID ({is}) does not match claim ({uid})")));
                }
                (Found::Gone, _) => return Err(Refused::Invalidated),
                (Found::Other(is), kind) => {
                    return Err(Refused::BoundUid { kind: kind.word(), is, claimed: uid.clone() });
                }
            }
        }
        let Some(secret) = &self.secret else { return Ok(()) };
        let held = objects.token_in(secret).ok_or(Refused::Invalidated)?;
        aws_lc_rs::constant_time::verify_slices_are_equal(&held, token).map_err(|_| Refused::Invalidated)
    }
}

fn service_account(namespace: &str, name: &str, uid: &str) -> User {
    User::authenticated(service_account_name(namespace, name), uid, service_account_groups(namespace))
}
