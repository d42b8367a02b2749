//! Kubeconfigs for people: the way to a member with a token that ends by itself, of an account there that is not ours.

use std::{fmt, time::Duration};

use http::Request;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Connection, Member};
use crate::{
    Access, Secret,
    applied::MANAGER,
    credentials::{ACCOUNT, ACCOUNT_NAMESPACE, LENDING, lending_account},
    words::words,
};

/// A kubeconfig that ends by itself.
#[derive(Debug)]
pub struct Lent {
    /// With the token inside.
    pub kubeconfig: Secret,
    /// Who its bearer is on the member: `system:serviceaccount:…`.
    pub account: String,
    /// When it ends. The member's word: it may be sooner than asked for.
    pub expires: Timestamp,
}

/// Why nothing was lent.
#[derive(Debug)]
pub enum NotLent {
    /// A member of this process has no address.
    Here,
    /// The member has no account to lend a token of: `namespace/name`.
    NoAccount(String),
    /// The member does not let us; which account, and what it said.
    Refused(String, String),
    /// What it answered is no token.
    Strange(String),
    /// It could not be asked.
    Call(kube::Error),
}

impl fmt::Display for NotLent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotLent::Here => f.write_str("it is part of this process and has no address"),
            NotLent::NoAccount(account) => write!(f, "it has no account {account}"),
            NotLent::Refused(account, why) => {
                write!(f, "it does not let muster make or use the account {account}: {why}")
            }
            NotLent::Strange(why) => write!(f, "what it answered is no token: {why}"),
            NotLent::Call(error) => f.write_str(&words(error)),
        }
    }
}

impl std::error::Error for NotLent {}

impl Member {
    /// A kubeconfig with a token of the account for lending, valid for about `ttl`: no shorter than ten minutes on any Kubernetes, and
    /// no longer than the member allows.
    pub async fn lend(&self, ttl: Duration) -> Result<Lent, NotLent> {
        let Connection::Credentials(credentials) = &self.connection else { return Err(NotLent::Here) };
        let namespace = self.lending_namespace().await?;
        let account = format!("{namespace}/{LENDING}");
        let wish = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            "spec": {"expirationSeconds": ttl.as_secs()}});
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{LENDING}/token");
        let reply = self.ask("POST", &path, "application/json", &wish).await.map_err(|error| match &error {
            kube::Error::Api(status) if status.code == 404 => NotLent::NoAccount(account.clone()),
            kube::Error::Api(status) if matches!(status.code, 400..500) => {
                NotLent::Refused(account.clone(), words(&error))
            }
            _ => NotLent::Call(error),
        })?;
        let status = &reply["status"];
        let expires = status["expirationTimestamp"].as_str().and_then(|stamp| stamp.parse().ok());
        let expires = expires.ok_or_else(|| NotLent::Strange("it does not say when it ends".to_owned()))?;
        let token = status["token"].as_str().unwrap_or_default();
        let lent = credentials.with_token(token).map_err(|refused| NotLent::Strange(refused.to_string()))?;
        let account = format!("system:serviceaccount:{namespace}:{LENDING}");
        Ok(Lent { kubeconfig: lent.to_kubeconfig(&self.name), account, expires })
    }

    /// Makes the account for lending, with these rights on the member. Only when somebody asks for it: it stays there.
    pub async fn make_lending_account(&self, access: Access) -> Result<(), NotLent> {
        let namespace = self.lending_namespace().await?;
        for (path, object) in lending_account(access, &namespace) {
            let path = format!("{path}?fieldManager={MANAGER}&force=true");
            let applied = self.ask("PATCH", &path, "application/apply-patch+yaml", &object).await;
            applied.map_err(|error| match &error {
                kube::Error::Api(status) if matches!(status.code, 400..500) => {
                    NotLent::Refused(format!("{namespace}/{LENDING}"), words(&error))
                }
                _ => NotLent::Call(error),
            })?;
        }
        Ok(())
    }

    /// Beside our own account, if that is who we are on the member.
    async fn lending_namespace(&self) -> Result<String, NotLent> {
        let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
        let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
        let reply = match self.ask("POST", path, "application/json", &review).await {
            Ok(reply) => reply,
            // An old Kubernetes does not say who we are.
            Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404) => Value::Null,
            Err(error) => return Err(NotLent::Call(error)),
        };
        let user = reply["status"]["userInfo"]["username"].as_str().unwrap_or_default();
        Ok(namespace_of(user).unwrap_or(ACCOUNT_NAMESPACE).to_owned())
    }

    async fn ask(&self, method: &str, path: &str, media: &str, body: &Value) -> Result<Value, kube::Error> {
        let request = Request::builder().method(method).uri(path).header(http::header::CONTENT_TYPE, media);
        let request = request.body(body.to_string().into_bytes()).map_err(kube::Error::HttpError)?;
        self.client.request(request).await
    }
}

/// Where our account is, if this is it. The name comes from the member and goes into a path.
fn namespace_of(user: &str) -> Option<&str> {
    let (namespace, name) = user.strip_prefix("system:serviceaccount:")?.split_once(':')?;
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let is_name = (1..=63).contains(&namespace.len()) && namespace.chars().all(plain);
    (name == ACCOUNT && is_name).then_some(namespace)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::{Allow, Care, Credentials, Declared, testing};

    #[test]
    fn only_our_own_account_says_where_to_look() {
        // B-14
        assert_eq!(namespace_of("system:serviceaccount:ops:muster"), Some("ops"));
        for other in [
            "admin",
            "system:serviceaccount:ops:root",
            "system:serviceaccount:a/../b:muster",
            "system:serviceaccount::muster",
            "system:serviceaccount:ops",
        ] {
            assert_eq!(namespace_of(other), None, "{other}");
        }
    }

    /// A member with an address, of which a script answers.
    fn member(answer: fn(&str) -> (u16, Value)) -> Member {
        let client = testing::client(move |request| async move {
            match answer(request.uri().path()) {
                (code @ 400.., _) => testing::refusal(code),
                (code, body) => testing::json(code, &body),
            }
        });
        let credentials = Credentials::from_token("http://127.0.0.1:1", "", "long-lived", Allow::default()).unwrap();
        let declared = Declared {
            name: "prod".into(),
            labels: BTreeMap::new(),
            connection: Connection::Credentials(Box::new(credentials)),
        };
        let member = Member::start(declared, Care::default()).unwrap();
        let mut member = std::sync::Arc::into_inner(member).unwrap();
        member.client = client;
        member
    }

    #[tokio::test]
    async fn what_is_lent_ends_and_holds_nothing_of_ours() {
        // B-20
        let member = member(|path| match path {
            "/apis/authentication.k8s.io/v1/selfsubjectreviews" => {
                (201, json!({"status": {"userInfo": {"username": "system:serviceaccount:ops:muster"}}}))
            }
            "/api/v1/namespaces/ops/serviceaccounts/muster-kubeconfig/token" => {
                (201, json!({"status": {"token": "short", "expirationTimestamp": "2026-01-01T00:00:00Z"}}))
            }
            _ => (404, Value::Null),
        });
        let lent = member.lend(Duration::from_secs(3600)).await.unwrap();
        assert!(lent.kubeconfig.reveal().contains("short") && !lent.kubeconfig.reveal().contains("long-lived"));
        assert_eq!(lent.account, "system:serviceaccount:ops:muster-kubeconfig");
        assert_eq!(lent.expires, "2026-01-01T00:00:00Z".parse().unwrap());
    }

    #[tokio::test]
    async fn why_nothing_is_lent_is_told_apart() {
        let ttl = Duration::from_secs(3600);
        let none = member(|_| (404, Value::Null)).lend(ttl).await.unwrap_err();
        assert!(matches!(&none, NotLent::NoAccount(account) if account == "muster-system/muster-kubeconfig"), "{none}");
        let refused = member(|path| match path.ends_with("/token") {
            true => (403, Value::Null),
            false => (201, Value::Null),
        });
        assert!(matches!(refused.lend(ttl).await.unwrap_err(), NotLent::Refused(..)));
        // A member that does not say when it ends, or gives something that is no token, lends nothing.
        for answer in [
            (|_| (201, json!({"status": {"token": "t"}}))) as fn(&str) -> (u16, Value),
            |_| (201, json!({"status": {"token": "a\nb", "expirationTimestamp": "2026-01-01T00:00:00Z"}})),
            |_| (201, json!({})),
        ] {
            assert!(matches!(member(answer).lend(ttl).await.unwrap_err(), NotLent::Strange(_)));
        }
        let failed = member(|_| (500, Value::Null)).lend(ttl).await.unwrap_err();
        assert!(matches!(failed, NotLent::Call(_)), "{failed}");
    }
}
