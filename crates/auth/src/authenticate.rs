//! Who is asking: the first of in-process identity, client certificate, token, local request that applies; otherwise anonymous.

use std::{
    path::PathBuf,
    sync::{Arc, PoisonError, RwLock},
    time::SystemTime,
};

use http::{HeaderMap, HeaderValue, header};

use crate::{Credential, Issuer, Peer, Refused, TokenFileError, TokenTable, User, authorize, credential::Proof, local};

/// Why a request has no user. The text may be shown to the caller and logged: it never holds what was presented.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unauthenticated {
    #[error("Unauthorized")]
    WrongToken,
    #[error("Unauthorized")]
    Nothing,
    #[error("Unauthorized: the Authorization header must be there once and read \"Bearer <token>\"")]
    MalformedAuthorization,
    #[error("Unauthorized: the client certificate names no user: {0}")]
    Certificate(String),
    #[error("Unauthorized: the client certificate has expired")]
    CertificateExpired,
    #[error(
        "Unauthorized: static tokens are not accepted from kubectl on this server (--kubectl-ephemeral-token); use a client certificate, or a \
         short-lived token from `muster token create`"
    )]
    StaticTokenFromKubectl,
    #[error("kubectl is disabled on this server (--kubectl-disabled)")]
    KubectlDisabled,
}

impl Unauthenticated {
    /// The HTTP status: 401 when better credentials would help, 403 when they would not.
    pub fn code(&self) -> u16 {
        match self {
            Self::WrongToken
            | Self::Nothing
            | Self::MalformedAuthorization
            | Self::Certificate(_)
            | Self::CertificateExpired
            | Self::StaticTokenFromKubectl => 401,
            Self::KubectlDisabled => 403,
        }
    }
}

#[derive(Debug, Clone, Default)]
pub struct Options {
    pub token_file: Option<PathBuf>,
    /// Local programs are administrators, see [`local`](crate::local). Off by default.
    pub allow_localhost: bool,
    /// Requests of kubectl are refused. A policy for honest clients, not a fence: any client can name itself otherwise.
    pub kubectl_disabled: bool,
    /// Static tokens of kubectl are refused.
    pub kubectl_ephemeral_token: bool,
    /// Whoever presents nothing is `system:anonymous` everywhere; otherwise only where health and version are asked for.
    pub anonymous: bool,
    /// Whose signed tokens are accepted.
    pub issuer: Option<Arc<Issuer>>,
}

/// Cheap to clone; clones see the same tokens.
#[derive(Debug, Clone)]
pub struct Authenticator {
    options: Options,
    /// Replaced as a whole when the file changes, so that a request sees either the old file or the new one.
    tokens: Arc<RwLock<Arc<TokenTable>>>,
    anonymous: Arc<User>,
    local: Arc<User>,
}

impl Authenticator {
    pub fn new(options: Options) -> Result<Authenticator, TokenFileError> {
        let tokens = options.token_file.as_deref().map(TokenTable::read).transpose()?.unwrap_or_default();
        if options.allow_localhost {
            tracing::warn!("--authn-allow-localhost is on: every program on this machine is an administrator here");
        }
        Ok(Authenticator {
            options,
            tokens: Arc::new(RwLock::new(Arc::new(tokens))),
            anonymous: Arc::new(User::anonymous()),
            local: Arc::new(User::admin()),
        })
    }

    /// Reads the token file again. When it is wrong, the tokens known so far stay valid.
    pub fn reload_tokens(&self) -> Result<usize, TokenFileError> {
        let Some(path) = &self.options.token_file else { return Ok(0) };
        let table = Arc::new(TokenTable::read(path)?);
        let count = table.len();
        *self.tokens.write().unwrap_or_else(PoisonError::into_inner) = table;
        Ok(count)
    }

    pub fn issuer(&self) -> Option<&Arc<Issuer>> {
        self.options.issuer.as_ref()
    }

    /// `headers` must carry the authority the client addressed as its `Host`, see [`local`](crate::local). `path` is asked for without
    /// credentials, if there are none.
    pub fn authenticate(&self, peer: &Peer, headers: &HeaderMap, path: &str) -> Result<Arc<User>, Unauthenticated> {
        if let Some(user) = peer.in_process_user() {
            return Ok(Arc::clone(user));
        }
        let kubectl = (self.options.kubectl_disabled || self.options.kubectl_ephemeral_token) && is_kubectl(headers);
        if kubectl && self.options.kubectl_disabled {
            return Err(Unauthenticated::KubectlDisabled);
        }
        if let Some(user) = peer.certificate_user(SystemTime::now()) {
            return user;
        }
        if let Some(token) = presented_token(headers)? {
            return match self.static_user(token) {
                Some(_) if kubectl => Err(Unauthenticated::StaticTokenFromKubectl),
                Some(user) => Ok(user),
                None => self.signed_user(token),
            };
        }
        if self.options.allow_localhost && local::is_local(peer, headers) {
            return Ok(Arc::clone(&self.local));
        }
        if self.options.anonymous || authorize::is_open_path(path) {
            return Ok(Arc::clone(&self.anonymous));
        }
        Err(Unauthenticated::Nothing)
    }

    /// What an authenticated request presented, for asking again while its answer goes on.
    pub fn credential(&self, peer: &Peer, headers: &HeaderMap) -> Credential {
        if peer.in_process_user().is_some() {
            // Whom it acts for may lose the right to it.
            let acts = headers.contains_key("impersonate-user");
            return Credential::new(if acts { Proof::Nothing } else { Proof::Process });
        }
        if peer.certificate_ends().is_some() {
            return Credential::new(Proof::Certificate(peer.clone()));
        }
        let Ok(Some(token)) = presented_token(headers) else { return Credential::new(Proof::Nothing) };
        Credential::new(match (self.static_user(token), &self.options.issuer) {
            (Some(user), _) => Proof::Static { tokens: Arc::clone(&self.tokens), token: token.into(), user },
            (None, Some(issuer)) => Proof::Signed { issuer: Arc::clone(issuer), token: token.into() },
            (None, None) => Proof::Nothing,
        })
    }

    fn static_user(&self, token: &[u8]) -> Option<Arc<User>> {
        let tokens = Arc::clone(&self.tokens.read().unwrap_or_else(PoisonError::into_inner));
        tokens.user_of(token)
    }

    fn signed_user(&self, token: &[u8]) -> Result<Arc<User>, Unauthenticated> {
        let issuer = self.options.issuer.as_ref().ok_or(Unauthenticated::WrongToken)?;
        issuer.authenticate(token, seconds_now()).map_err(|why| {
            tracing::debug!(%why, "a token was refused");
            Unauthenticated::WrongToken
        })
    }

    /// Whose token it is, and for which of the audiences (ours, when none are named); or why it is nobody's.
    pub fn review(&self, token: &str, audiences: &[String]) -> Result<(Arc<User>, Vec<String>), Refused> {
        let ours = self.options.issuer.as_deref().map(Issuer::audiences).unwrap_or_default();
        let wanted = if audiences.is_empty() { ours } else { audiences };
        if let Some(user) = self.static_user(token.as_bytes()) {
            let common: Vec<String> = wanted.iter().filter(|a| ours.contains(a)).cloned().collect();
            return if common.is_empty() { Err(Refused::NotOurs) } else { Ok((user, common)) };
        }
        let issuer = self.options.issuer.as_ref().ok_or(Refused::NotOurs)?;
        issuer.verify(token.as_bytes(), wanted, seconds_now())
    }
}

/// Seconds since 1970.
pub(crate) fn seconds_now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

fn is_kubectl(headers: &HeaderMap) -> bool {
    headers.get_all(header::USER_AGENT).iter().any(|agent| agent.as_bytes().starts_with(b"kubectl/"))
}

/// The bearer token. Anything else in an Authorization header is an error, never anonymous: whoever presents credentials means them.
fn presented_token(headers: &HeaderMap) -> Result<Option<&[u8]>, Unauthenticated> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let Some(first) = values.next() else { return Ok(None) };
    // Two readers of a doubled header may each take another one.
    if values.next().is_some() {
        return Err(Unauthenticated::MalformedAuthorization);
    }
    bearer(first).map(Some).ok_or(Unauthenticated::MalformedAuthorization)
}

fn bearer(value: &HeaderValue) -> Option<&[u8]> {
    let (scheme, token) = value.as_bytes().split_at_checked(7)?;
    let token = token.trim_ascii();
    (scheme.eq_ignore_ascii_case(b"bearer ") && !token.is_empty() && token.iter().all(u8::is_ascii_graphic))
        .then_some(token)
}

#[cfg(test)]
mod tests {
    use std::{fs, net::SocketAddr};

    use super::*;
    use crate::{ADMIN, ANONYMOUS, MASTERS};

    const TOKENS: &str = "good-token,alice,1,\"dev,ops\"\nroot-token,root,0,system:masters\n";

    fn authenticator(options: Options) -> Authenticator {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token.csv");
        fs::write(&path, TOKENS).unwrap();
        Authenticator::new(Options { token_file: Some(path), anonymous: true, ..options }).unwrap()
    }

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            map.append(*name, HeaderValue::from_str(value).unwrap());
        }
        map
    }

    fn remote() -> Peer {
        Peer::plain(SocketAddr::from(([192, 0, 2, 1], 4000)))
    }

    fn loopback() -> Peer {
        Peer::plain(SocketAddr::from(([127, 0, 0, 1], 4000)))
    }

    fn certificate(build: impl FnOnce(&mut rcgen::CertificateParams)) -> Vec<u8> {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        build(&mut params);
        params.self_signed(&key).unwrap().der().to_vec()
    }

    #[test]
    fn tokens_and_header_tricks() {
        // B-5, B-10: what is presented and wrong is 401, never anonymous.
        use Unauthenticated::{MalformedAuthorization as Malformed, WrongToken as Wrong};
        let alg_none = "Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJzeXN0ZW06YWRtaW4ifQ.";
        let long = format!("Bearer {}", "x".repeat(8000));
        type Row<'a> = (&'a [(&'static str, &'a str)], Result<&'a str, Unauthenticated>);
        let table: &[Row<'_>] = &[
            (&[], Ok(ANONYMOUS)),
            (&[("authorization", "Bearer good-token")], Ok("alice")),
            (&[("authorization", "bearer   good-token ")], Ok("alice")),
            (&[("authorization", "Bearer root-token")], Ok("root")),
            (&[("authorization", "Bearer good-tokeN")], Err(Wrong)),
            (&[("authorization", "Bearer good-token2")], Err(Wrong)),
            (&[("authorization", "Bearer good-toke")], Err(Wrong)),
            (&[("authorization", alg_none)], Err(Wrong)),
            (&[("authorization", &long)], Err(Wrong)),
            (&[("authorization", "Bearer a.b.c")], Err(Wrong)),
            (&[("authorization", "Bearer ")], Err(Malformed)),
            (&[("authorization", "Bearer")], Err(Malformed)),
            (&[("authorization", "")], Err(Malformed)),
            (&[("authorization", "good-token")], Err(Malformed)),
            (&[("authorization", "Bearergood-token")], Err(Malformed)),
            (&[("authorization", "Bearer good-token root-token")], Err(Malformed)),
            (&[("authorization", "Bearer good-token, Bearer root-token")], Err(Malformed)),
            (&[("authorization", "Basic Z29vZC10b2tlbjo=")], Err(Malformed)),
            (&[("authorization", "Bearer good-token"), ("authorization", "Bearer root-token")], Err(Malformed)),
            (&[("authorization", "Bearer good-token"), ("authorization", "Bearer good-token")], Err(Malformed)),
            // Naming a header hop-by-hop does not make us drop it, nor believe another.
            (&[("connection", "authorization"), ("authorization", "Bearer wrong")], Err(Wrong)),
            (&[("x-remote-user", "root"), ("x-remote-group", MASTERS)], Ok(ANONYMOUS)),
            (&[("user-agent", "kubectl/v1.34"), ("authorization", "Bearer good-token")], Ok("alice")),
        ];
        let authenticator = authenticator(Options::default());
        for (pairs, expected) in table {
            let found = authenticator.authenticate(&remote(), &headers(pairs), "/x").map(|user| user.name.clone());
            assert_eq!(found, expected.clone().map(str::to_owned), "{pairs:?}");
        }
    }

    #[test]
    fn groups_say_whether_a_user_proved_itself() {
        let authenticator = authenticator(Options::default());
        let alice =
            authenticator.authenticate(&remote(), &headers(&[("authorization", "Bearer good-token")]), "/x").unwrap();
        assert_eq!(alice.groups, ["dev", "ops", "system:authenticated"]);
        assert_eq!(alice.uid, "1");
        let nobody = authenticator.authenticate(&loopback(), &headers(&[]), "/x").unwrap();
        assert_eq!(nobody.groups, ["system:unauthenticated"]);
    }

    #[test]
    fn without_credentials_only_health_and_version_answer() {
        let authenticator = Authenticator::new(Options::default()).unwrap();
        for (path, open) in [
            ("/healthz", true),
            ("/livez", true),
            ("/readyz", true),
            ("/version", true),
            ("/version/", true),
            ("/livez/ping", false),
            ("/healthz/../api", false),
            ("//healthz", false),
            ("/api", false),
            ("/", false),
            ("", false),
        ] {
            let found = authenticator.authenticate(&remote(), &headers(&[]), path);
            assert_eq!(found.is_ok(), open, "{path}");
            assert!(open || found.unwrap_err().code() == 401, "{path}");
        }
        // A wrong token does not fall back to nobody, not even there.
        let wrong = headers(&[("authorization", "Bearer x")]);
        assert_eq!(authenticator.authenticate(&remote(), &wrong, "/healthz"), Err(Unauthenticated::WrongToken));
    }

    #[test]
    fn a_token_without_any_token_file_is_refused() {
        let authenticator = Authenticator::new(Options { allow_localhost: true, ..Options::default() }).unwrap();
        let asked = headers(&[("authorization", "Bearer x"), ("host", "localhost")]);
        assert_eq!(authenticator.authenticate(&loopback(), &asked, "/x"), Err(Unauthenticated::WrongToken));
    }

    #[test]
    fn localhost_is_trusted_only_when_nothing_speaks_against_it() {
        // B-9: browsers, rebinding and proxies on this machine have a loopback address too.
        let v6 = Peer::plain("[::1]:9".parse().unwrap());
        let mapped = Peer::plain("[::ffff:127.0.0.1]:9".parse().unwrap());
        let host = ("host", "127.0.0.1:6080");
        type Row<'a> = (&'a Peer, &'a [(&'static str, &'a str)], bool);
        let table: &[Row<'_>] = &[
            (&loopback(), &[host], true),
            (&loopback(), &[("host", "localhost")], true),
            (&loopback(), &[("host", "LocalHost:1")], true),
            (&loopback(), &[("host", "[::1]:6080")], true),
            (&loopback(), &[("host", "[::1]")], true),
            (&v6, &[host], true),
            (&mapped, &[host], true),
            (&loopback(), &[host, ("connection", "Upgrade, keep-alive")], true),
            (&loopback(), &[host, ("sec-fetch-site", "none")], true),
            (&loopback(), &[], false),
            (&loopback(), &[("host", "")], false),
            (&remote(), &[host], false),
            (&loopback(), &[("host", "evil.example:6080")], false),
            (&loopback(), &[("host", "localhost.evil.example")], false),
            (&loopback(), &[("host", "127.0.0.1.evil.example")], false),
            (&loopback(), &[("host", "127.0.0.1:80@evil.example")], false),
            (&loopback(), &[("host", "localhost:6080:1")], false),
            (&loopback(), &[("host", "[::1]evil")], false),
            (&loopback(), &[("host", "[::1")], false),
            (&loopback(), &[("host", "[::1]:x")], false),
            (&loopback(), &[("host", "0x7f000001")], false),
            (&loopback(), &[host, ("host", "evil.example")], false),
            (&loopback(), &[host, ("origin", "http://127.0.0.1:6080")], false),
            (&loopback(), &[host, ("origin", "null")], false),
            (&loopback(), &[host, ("sec-fetch-site", "cross-site")], false),
            (&loopback(), &[host, ("sec-fetch-site", "same-site")], false),
            (&loopback(), &[host, ("x-forwarded-for", "127.0.0.1")], false),
            (&loopback(), &[host, ("X-Forwarded-Host", "localhost")], false),
            (&loopback(), &[host, ("forwarded", "for=127.0.0.1")], false),
            (&loopback(), &[host, ("via", "1.1 proxy")], false),
            (&loopback(), &[host, ("x-real-ip", "127.0.0.1")], false),
            (&loopback(), &[host, ("connection", "close, X-Forwarded-For")], false),
        ];
        let on = authenticator(Options { allow_localhost: true, ..Options::default() });
        let off = authenticator(Options::default());
        for (peer, pairs, trusted) in table {
            let user = on.authenticate(peer, &headers(pairs), "/x").unwrap();
            assert_eq!(user.is_in(MASTERS), *trusted, "{pairs:?}");
            assert_eq!(user.name, if *trusted { ADMIN } else { ANONYMOUS }, "{pairs:?}");
            assert_eq!(off.authenticate(peer, &headers(pairs), "/x").unwrap().name, ANONYMOUS, "{pairs:?}");
        }
        let wrong = headers(&[host, ("authorization", "Bearer nope")]);
        assert_eq!(on.authenticate(&loopback(), &wrong, "/x"), Err(Unauthenticated::WrongToken));
    }

    #[test]
    fn kubectl_policies() {
        let kubectl = |token: &'static str| headers(&[("user-agent", "kubectl/v1.34.4"), ("authorization", token)]);
        let other = headers(&[("user-agent", "Go kubectl/1"), ("authorization", "Bearer good-token")]);

        let disabled = authenticator(Options { kubectl_disabled: true, ..Options::default() });
        let refused = disabled.authenticate(&remote(), &kubectl("Bearer good-token"), "/x").unwrap_err();
        assert_eq!((refused.clone(), refused.code()), (Unauthenticated::KubectlDisabled, 403));
        assert_eq!(disabled.authenticate(&remote(), &other, "/x").unwrap().name, "alice");

        let ephemeral = authenticator(Options { kubectl_ephemeral_token: true, ..Options::default() });
        let refused = ephemeral.authenticate(&remote(), &kubectl("Bearer good-token"), "/x").unwrap_err();
        assert_eq!((refused.clone(), refused.code()), (Unauthenticated::StaticTokenFromKubectl, 401));
        // A wrong token does not learn that it would have been refused for another reason.
        let wrong = ephemeral.authenticate(&remote(), &kubectl("Bearer nope"), "/x").unwrap_err();
        assert_eq!(wrong, Unauthenticated::WrongToken);
        assert_eq!(ephemeral.authenticate(&remote(), &other, "/x").unwrap().name, "alice");
    }

    #[test]
    fn a_certificate_gives_name_and_groups() {
        let der = certificate(|p| {
            p.distinguished_name.push(rcgen::DnType::CommonName, "bob");
            p.distinguished_name.push(rcgen::DnType::OrganizationName, "system:masters");
        });
        let addr = SocketAddr::from(([192, 0, 2, 1], 1));
        let authenticator = authenticator(Options::default());
        let token = headers(&[("authorization", "Bearer good-token")]);
        let user = authenticator.authenticate(&Peer::tls(addr, &[der]), &token, "/x").unwrap();
        assert_eq!((user.name.as_str(), user.is_in(MASTERS)), ("bob", true));
        // No certificate on a TLS connection: the token counts.
        let none: &[Vec<u8>] = &[];
        assert_eq!(authenticator.authenticate(&Peer::tls(addr, none), &token, "/x").unwrap().name, "alice");
    }

    #[test]
    fn a_certificate_without_one_name_or_out_of_date_is_refused() {
        let addr = SocketAddr::from(([192, 0, 2, 1], 1));
        let authenticator = authenticator(Options::default());
        let refused =
            |der: Vec<u8>| authenticator.authenticate(&Peer::tls(addr, &[der]), &HeaderMap::new(), "/x").unwrap_err();
        assert!(matches!(refused(certificate(|_| ())), Unauthenticated::Certificate(_)));
        assert!(matches!(
            refused(certificate(|p| p.distinguished_name.push(rcgen::DnType::CommonName, ""))),
            Unauthenticated::Certificate(_)
        ));
        assert!(matches!(refused(b"garbage".to_vec()), Unauthenticated::Certificate(_)));
        let past = certificate(|p| {
            p.distinguished_name.push(rcgen::DnType::CommonName, "bob");
            p.not_after = rcgen::date_time_ymd(2020, 1, 1);
        });
        assert_eq!(refused(past), Unauthenticated::CertificateExpired);
    }

    #[test]
    fn an_in_process_caller_is_who_it_says() {
        let authenticator = authenticator(Options { kubectl_disabled: true, ..Options::default() });
        let peer = Peer::in_process(User::admin());
        let user = authenticator.authenticate(&peer, &headers(&[("user-agent", "kubectl/v1")]), "/x").unwrap();
        assert_eq!(user.name, ADMIN);
    }

    #[test]
    fn the_token_file_is_read_again_and_a_broken_one_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token.csv");
        fs::write(&path, "one,alice,1\n").unwrap();
        let options = Options { token_file: Some(path.clone()), ..Options::default() };
        let authenticator = Authenticator::new(options).unwrap();
        let name = |token: &str| {
            authenticator
                .authenticate(&remote(), &headers(&[("authorization", &format!("Bearer {token}"))]), "/x")
                .map(|user| user.name.clone())
        };
        fs::write(&path, "two,bob,2\nbroken").unwrap();
        assert!(authenticator.reload_tokens().is_err());
        assert_eq!(name("one"), Ok("alice".to_owned()));
        fs::write(&path, "two,bob,2\n").unwrap();
        assert_eq!(authenticator.reload_tokens().unwrap(), 1);
        assert_eq!((name("one"), name("two")), (Err(Unauthenticated::WrongToken), Ok("bob".to_owned())));
    }
}
