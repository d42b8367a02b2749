//! Who is calling: the credentials of one request, passed on to the API. Only the door makes a [`Caller`].

use std::net::IpAddr;
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use http::header::{AUTHORIZATION, HeaderName, HeaderValue};
use http::{HeaderMap, Method, Request};

use crate::door::Entered;
use crate::problem::Problem;
use crate::session::{Session, Sessions};

/// Whom the gateway has recognised itself, by a client certificate or a login: the API learns it by impersonation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Person {
    pub(crate) user: String,
    pub(crate) groups: Vec<String>,
}

/// What the listener knows of a connection; it stands in the extensions of each request.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    pub(crate) address: IpAddr,
    pub(crate) tls: bool,
    pub(crate) certificate: Option<Arc<Person>>,
}

/// Credentials by which the API can tell who asks. It is not proved that the API accepts them.
#[derive(Clone)]
pub(crate) struct Caller {
    credentials: Credentials,
    /// Stands for the credentials in maps, so that no token is kept.
    pub(crate) key: CallerKey,
    /// Where the caller was when it came in.
    address: Option<IpAddr>,
}

pub(crate) type CallerKey = [u8; 32];

#[derive(Clone)]
enum Credentials {
    Bearer(HeaderValue),
    Certificate(Arc<Person>),
    /// Somebody who logged in.
    Session(Arc<Session>),
}

/// Which of the gateway's ways to the API a request takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    /// Without credentials of the gateway: the request carries the caller's.
    Bare,
    /// As the gateway, impersonating the caller.
    Own,
}

const LONGEST_TOKEN: usize = 16 << 10;

impl Caller {
    /// From the `Authorization` header, else from the session's cookie, else from the client certificate.
    pub(crate) fn of(
        entered: &Entered,
        method: &Method,
        headers: &HeaderMap,
        connection: &Connection,
        sessions: Option<&Sessions>,
    ) -> Result<Self, Problem> {
        let caller = Self::recognised(entered, method, headers, connection, sessions)?;
        Ok(Self { address: Some(connection.address), ..caller })
    }

    fn recognised(
        entered: &Entered,
        method: &Method,
        headers: &HeaderMap,
        connection: &Connection,
        sessions: Option<&Sessions>,
    ) -> Result<Self, Problem> {
        no_impersonation(headers)?;
        let mut values = headers.get_all(AUTHORIZATION).iter();
        match (values.next(), values.next()) {
            (Some(_), Some(_)) => return Err(Problem::bad_request("there is more than one Authorization header")),
            (Some(value), None) => return Self::bearer(value),
            (None, _) => {}
        }
        if let Some(sessions) = sessions
            && let Some(session) = sessions.of(entered, method, headers)?
        {
            return Ok(Self::session(session));
        }
        match &connection.certificate {
            Some(user) => Ok(Self::certificate(user.clone())),
            None => Err(sessions.map_or_else(
                || {
                    Problem::unauthorized(
                        "say who you are: send Authorization: Bearer TOKEN, or use a client certificate",
                    )
                },
                Sessions::nobody,
            )),
        }
    }

    /// Whoever has logged in.
    pub(crate) fn session(session: Arc<Session>) -> Self {
        let person = session.person();
        let mut parts: Vec<&[u8]> = vec![b"session", session.stamp(), person.user.as_bytes()];
        parts.extend(person.groups.iter().map(|group| group.as_bytes()));
        let key = key(&parts);
        Self { credentials: Credentials::Session(session), key, address: None }
    }

    /// The session, if that is how the caller came.
    pub(crate) fn signed_in(&self) -> Option<&Arc<Session>> {
        match &self.credentials {
            Credentials::Session(session) => Some(session),
            _ => None,
        }
    }

    /// Whether the browser sends these credentials by itself, whoever's page makes it call.
    pub(crate) fn is_ambient(&self) -> bool {
        !matches!(self.credentials, Credentials::Bearer(_))
    }

    /// Returns when the session ends; never for credentials that are no session's.
    pub(crate) async fn ended(&self) {
        match &self.credentials {
            Credentials::Session(session) => session.ended().cancelled().await,
            _ => std::future::pending().await,
        }
    }

    /// Where it called from; of a socket that was opened with a ticket, where that was fetched.
    pub(crate) fn address(&self) -> Option<IpAddr> {
        self.address
    }

    /// The user's name, where the gateway itself knows it.
    pub(crate) fn name(&self) -> Option<&str> {
        self.person().map(|person| person.user.as_str())
    }

    /// Whom the gateway itself has recognised.
    fn person(&self) -> Option<&Person> {
        match &self.credentials {
            Credentials::Bearer(_) => None,
            Credentials::Certificate(person) => Some(person),
            Credentials::Session(session) => Some(session.person()),
        }
    }

    fn bearer(value: &HeaderValue) -> Result<Self, Problem> {
        let wrong = || Problem::unauthorized("the Authorization header is not \"Bearer TOKEN\"");
        let text = value.to_str().map_err(|_| wrong())?;
        let (scheme, token) = text.split_once(' ').ok_or_else(wrong)?;
        let token = token.trim();
        if !scheme.eq_ignore_ascii_case("bearer")
            || token.is_empty()
            || token.contains(' ')
            || token.len() > LONGEST_TOKEN
        {
            return Err(wrong());
        }
        let mut value = HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| wrong())?;
        value.set_sensitive(true);
        Ok(Self { credentials: Credentials::Bearer(value), key: key(&[b"token", token.as_bytes()]), address: None })
    }

    fn certificate(user: Arc<Person>) -> Self {
        let mut parts: Vec<&[u8]> = vec![b"certificate", user.user.as_bytes()];
        parts.extend(user.groups.iter().map(|group| group.as_bytes()));
        let key = key(&parts);
        Self { credentials: Credentials::Certificate(user), key, address: None }
    }

    /// Puts the credentials on a request for the API and says which way it must go.
    pub(crate) fn sign<B>(&self, request: &mut Request<B>) -> Result<Way, Problem> {
        let headers = request.headers_mut();
        if let Credentials::Bearer(value) = &self.credentials {
            headers.insert(AUTHORIZATION, value.clone());
            return Ok(Way::Bare);
        }
        // Without somebody to act as there would be nobody but the gateway itself.
        let person = self.person().ok_or_else(|| Problem::unauthorized("nobody is calling"))?;
        let value = |text: &str| {
            HeaderValue::from_str(text)
                .map_err(|_| Problem::unauthorized("the user or a group has a name that no header can hold"))
        };
        headers.insert(HeaderName::from_static("impersonate-user"), value(&person.user)?);
        for group in &person.groups {
            headers.append(HeaderName::from_static("impersonate-group"), value(group)?);
        }
        Ok(Way::Own)
    }
}

/// These headers are the gateway's own word to the API: nobody else's may be mistaken for it.
fn no_impersonation(headers: &HeaderMap) -> Result<(), Problem> {
    if headers.keys().any(|name| name.as_str().starts_with("impersonate-")) {
        return Err(Problem::bad_request(
            "impersonation headers are not read here; call as the user itself, or use the Kubernetes API",
        ));
    }
    Ok(())
}

/// One value for several; no two lists of parts have the same.
pub(crate) fn key(parts: &[&[u8]]) -> CallerKey {
    let mut all = Vec::new();
    for part in parts {
        all.extend_from_slice(&(part.len() as u64).to_be_bytes());
        all.extend_from_slice(part);
    }
    let mut key = [0; 32];
    key.copy_from_slice(digest(&SHA256, &all).as_ref());
    key
}

#[cfg(test)]
impl Caller {
    pub(crate) fn for_tests(token: &str) -> Self {
        Self::bearer(
            &HeaderValue::from_str(&format!("Bearer {token}")).unwrap_or_else(|_| HeaderValue::from_static("x")),
        )
        .unwrap_or_else(|why| panic!("{why}"))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn connection(user: Option<&str>) -> Connection {
        let user = user.map(|user| Arc::new(Person { user: user.to_owned(), groups: vec!["g1".into(), "g2".into()] }));
        Connection { address: IpAddr::from([127, 0, 0, 1]), tls: true, certificate: user }
    }

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect()
    }

    fn of(headers: &HeaderMap, connection: &Connection) -> Result<Caller, Problem> {
        Caller::of(&Entered::for_tests(), &Method::GET, headers, connection, None)
    }

    #[test]
    fn a_token_goes_on_as_it_is_and_a_certificate_by_impersonation() {
        let mut request = Request::new(());
        let caller = of(&headers(&[("authorization", "bearer abc")]), &connection(Some("ann"))).unwrap();
        assert_eq!(caller.sign(&mut request).unwrap(), Way::Bare);
        assert_eq!((request.headers()["authorization"].to_str().unwrap(), request.headers().len()), ("Bearer abc", 1));
        let mut request = Request::new(());
        let caller = of(&headers(&[]), &connection(Some("ann"))).unwrap();
        assert_eq!(caller.sign(&mut request).unwrap(), Way::Own);
        let groups: Vec<_> = request.headers().get_all("impersonate-group").iter().collect();
        assert_eq!((request.headers()["impersonate-user"].to_str().unwrap(), groups.len()), ("ann", 2));
    }

    #[test]
    fn without_credentials_or_with_strange_ones_nobody_is_let_in() {
        for bad in ["", "Bearer", "Bearer ", "Basic abc", "Bearer a b", "abc"] {
            let value: HeaderMap = [(AUTHORIZATION, HeaderValue::from_str(bad).unwrap())].into_iter().collect();
            assert_eq!(of(&value, &connection(Some("ann"))).err().unwrap().code, 401, "{bad}");
        }
        assert_eq!(of(&headers(&[]), &connection(None)).err().unwrap().code, 401);
        let twice = headers(&[("authorization", "Bearer a"), ("authorization", "Bearer b")]);
        assert_eq!(of(&twice, &connection(None)).err().unwrap().code, 400);
        let posing = headers(&[("authorization", "Bearer a"), ("impersonate-user", "root")]);
        assert_eq!(of(&posing, &connection(None)).err().unwrap().code, 400);
    }

    #[test]
    fn different_credentials_have_different_keys() {
        let certificate = |user: &str, groups: &[&str]| {
            let groups = groups.iter().map(|group| (*group).to_owned()).collect();
            Caller::certificate(Arc::new(Person { user: user.to_owned(), groups })).key
        };
        let keys = [
            Caller::for_tests("a").key,
            Caller::for_tests("b").key,
            certificate("a", &[]),
            certificate("a", &["b"]),
            certificate("ab", &[]),
            certificate("a", &["b", "c"]),
            certificate("a", &["bc"]),
        ];
        for (i, key) in keys.iter().enumerate() {
            assert!(!keys[i + 1..].contains(key), "{i}");
        }
    }
}
