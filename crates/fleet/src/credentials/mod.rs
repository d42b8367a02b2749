//! How to reach a member and who we are there: read from a kubeconfig or given as a service account's token, and nothing that
//! could run a program or open a file of this machine.

mod kubeconfig;
mod refused;
mod role;

use std::{fmt, time::Duration};

use base64::{Engine, prelude::BASE64_STANDARD};
use http::{HeaderValue, Uri, header};
use kube::{Client, Config, client::ConfigExt};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use serde_json::json;

use self::refused::keep;
pub(crate) use self::role::{ACCOUNT, LENDING, lending_account};
pub use self::{
    refused::{Refusals, Refused},
    role::{ACCOUNT_NAMESPACE, Access, account_manifest},
};
use crate::Secret;

const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// More of an authority than this is no authority.
const MOST_CERTIFICATES: usize = 64;

/// What a person may allow when importing, each by an explicit word.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Allow {
    /// Believe any certificate: whoever stands between us and the member reads and writes everything.
    pub insecure: bool,
    /// No authority given: believe whoever this machine believes.
    pub system_roots: bool,
    /// Plain HTTP to somewhere else than this machine.
    pub plain_http: bool,
}

/// Where a member is, whom to believe there, and who we are.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    server: Uri,
    trust: Trust,
    server_name: Option<String>,
    identity: Identity,
    namespace: Option<String>,
}

#[derive(Clone, PartialEq, Eq)]
enum Trust {
    /// Only this authority, as PEM.
    Authority(String),
    System,
    Anybody,
    /// Plain HTTP.
    Nothing,
}

#[derive(Clone, PartialEq, Eq)]
enum Identity {
    Token(Secret),
    /// Certificate and key as PEM.
    Certificate(String, Secret),
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let identity = match self.identity {
            Identity::Token(_) => "a token",
            Identity::Certificate(..) => "a certificate",
        };
        f.debug_struct("Credentials").field("server", &self.server).field("identity", &identity).finish_non_exhaustive()
    }
}

impl Credentials {
    /// Reads one context of a kubeconfig (the current one unless named). Everything the file may ask of this machine beyond
    /// connecting is refused.
    pub fn from_kubeconfig(text: &str, context: Option<&str>, allow: Allow) -> Result<Self, Refusals> {
        Ok(kubeconfig::read(text, context, allow)?.checked()?)
    }

    /// A service account's token and the authority (PEM) of the member's API server.
    pub fn from_token(server: &str, authority: &str, token: &str, allow: Allow) -> Result<Self, Refusals> {
        let mut wrong = Vec::new();
        let server = keep(address("server", server, allow), &mut wrong);
        let trust = match (&server, authority.trim()) {
            // Whether one is needed is for the address to say.
            (None, "") => None,
            (Some(server), "") => keep(trust_without_authority("ca.crt", server, allow), &mut wrong),
            (_, pem) => keep(authority_of("ca.crt", pem.as_bytes()).map(Trust::Authority), &mut wrong),
        };
        let identity = keep(token_of("token", token).map(Identity::Token), &mut wrong);
        match (server, trust, identity, Refusals::of(wrong)) {
            (Some(server), Some(trust), Some(identity), None) => {
                Ok(Credentials { server, trust, server_name: None, identity, namespace: None }.checked()?)
            }
            (.., refusals) => Err(refusals.unwrap_or_else(|| unreadable().into())),
        }
    }

    /// Where the member's API is.
    pub fn server(&self) -> &Uri {
        &self.server
    }

    /// How we say there who we are: `token` or `certificate`.
    pub fn identity(&self) -> &'static str {
        match self.identity {
            Identity::Token(_) => "token",
            Identity::Certificate(..) => "certificate",
        }
    }

    /// Whom we believe there: `authority`, `system`, `anybody` or `nobody` (plain HTTP).
    pub fn trust(&self) -> &'static str {
        match self.trust {
            Trust::Authority(_) => "authority",
            Trust::System => "system",
            Trust::Anybody => "anybody",
            Trust::Nothing => "nobody",
        }
    }

    /// SHA-256 of each certificate of the authority, as people compare them: `AB:CD:…`.
    pub fn fingerprints(&self) -> Vec<String> {
        let Trust::Authority(pem) = &self.trust else { return Vec::new() };
        let read = CertificateDer::pem_slice_iter(pem.as_bytes()).filter_map(Result::ok);
        let shown = |der: CertificateDer<'_>| {
            let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &der);
            digest.as_ref().iter().map(|byte| format!("{byte:02X}")).collect::<Vec<_>>().join(":")
        };
        read.map(shown).collect()
    }

    /// The same as a kubeconfig of one context, as it is kept in a Secret.
    pub fn to_kubeconfig(&self, name: &str) -> Secret {
        let mut cluster = json!({"server": self.server.to_string()});
        match &self.trust {
            Trust::Authority(pem) => cluster["certificate-authority-data"] = BASE64_STANDARD.encode(pem).into(),
            Trust::Anybody => cluster["insecure-skip-tls-verify"] = true.into(),
            Trust::System | Trust::Nothing => {}
        }
        if let Some(server_name) = &self.server_name {
            cluster["tls-server-name"] = server_name.as_str().into();
        }
        let user = match &self.identity {
            Identity::Token(token) => json!({"token": token.reveal()}),
            Identity::Certificate(certificate, key) => json!({
                "client-certificate-data": BASE64_STANDARD.encode(certificate),
                "client-key-data": BASE64_STANDARD.encode(key.reveal()),
            }),
        };
        let mut context = json!({"cluster": name, "user": name});
        if let Some(namespace) = &self.namespace {
            context["namespace"] = namespace.as_str().into();
        }
        // JSON is YAML, and needs no quoting rules of ours.
        let whole = json!({"apiVersion": "v1", "kind": "Config", "current-context": name,
            "clusters": [{"name": name, "cluster": cluster}],
            "users": [{"name": name, "user": user}],
            "contexts": [{"name": name, "context": context}]});
        Secret::new(format!("{whole:#}\n"))
    }

    /// The same place with another identity: a token that the member itself has just given.
    pub(crate) fn with_token(&self, token: &str) -> Result<Self, Refused> {
        Ok(Self { identity: Identity::Token(token_of("token", token)?), ..self.clone() })
    }

    /// A client with connections of its own. Nothing is sent before the first request.
    pub fn connect(&self) -> Result<Client, kube::Error> {
        Client::try_from(self.config())
    }

    /// What would fail at every connection is said now.
    fn checked(self) -> Result<Self, Refused> {
        if self.trust == Trust::Nothing {
            return Ok(self);
        }
        if rustls::crypto::CryptoProvider::get_default().is_none() {
            // Somebody else may have been faster: fine.
            let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        }
        match self.config().rustls_client_config() {
            Ok(_) => Ok(self),
            Err(error) => Err(Refused::new(
                "(credentials)",
                format!("cannot be used for TLS: {error}"),
                "check that the key belongs to the certificate and that both are whole",
            )),
        }
    }

    fn config(&self) -> Config {
        let mut config = Config::new(self.server.clone());
        config.connect_timeout = Some(CONNECT_WITHIN);
        // We wait and try again ourselves, where a deadline is known.
        config.default_retry = false;
        config.tls_server_name = self.server_name.clone();
        if let Some(namespace) = &self.namespace {
            config.default_namespace = namespace.clone();
        }
        match &self.trust {
            Trust::Authority(pem) => {
                let read = CertificateDer::pem_slice_iter(pem.as_bytes());
                config.root_cert = Some(read.filter_map(Result::ok).map(|der| der.to_vec()).collect());
            }
            Trust::Anybody => config.accept_invalid_certs = true,
            Trust::System | Trust::Nothing => {}
        }
        match &self.identity {
            Identity::Token(token) => config.auth_info.token = Some(token.reveal().to_owned().into()),
            Identity::Certificate(certificate, key) => {
                config.auth_info.client_certificate_data = Some(BASE64_STANDARD.encode(certificate));
                config.auth_info.client_key_data = Some(BASE64_STANDARD.encode(key.reveal()).into());
            }
        }
        let name = concat!("muster/", env!("CARGO_PKG_VERSION"));
        config.headers.push((header::USER_AGENT, HeaderValue::from_static(name)));
        config
    }
}

/// For what was not read although nothing is known to be wrong with it.
fn unreadable() -> Refused {
    Refused::new("(credentials)", "cannot be read", "look at the whole of it")
}

/// The address of an API server and nothing else.
fn address(field: &str, text: &str, allow: Allow) -> Result<Uri, Refused> {
    let like = "give an address like https://host:6443";
    let uri: Uri = text.trim().parse().map_err(|_| Refused::new(field, "is no address", like))?;
    let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
        return Err(Refused::new(field, "names no scheme and host", like));
    };
    if authority.as_str().contains('@') {
        return Err(Refused::new(
            field,
            "holds a user name or password",
            "put credentials under users, not into the address",
        ));
    }
    if authority.host().is_empty() || uri.query().is_some() {
        return Err(Refused::new(field, "is more or less than an address", like));
    }
    let here = matches!(authority.host(), "127.0.0.1" | "[::1]" | "localhost");
    match scheme {
        "https" => Ok(uri),
        "http" if here || allow.plain_http => Ok(uri),
        "http" => Err(Refused::new(
            field,
            "is plain HTTP to another machine, so that everybody on the way can read and change what is sent",
            "use https, or allow plain HTTP explicitly",
        )),
        other => Err(Refused::new(field, format!("has the scheme {other}"), like)),
    }
}

fn trust_without_authority(field: &str, server: &Uri, allow: Allow) -> Result<Trust, Refused> {
    match server.scheme_str() {
        Some("http") => Ok(Trust::Nothing),
        _ if allow.system_roots => Ok(Trust::System),
        _ => Err(Refused::new(
            field,
            "is missing, so that nothing says whom to believe",
            "add the authority's certificate, or allow this machine's own authorities explicitly",
        )),
    }
}

/// Certificates, and nothing else that happened to be in the text.
fn authority_of(field: &str, pem: &[u8]) -> Result<String, Refused> {
    let remedy = "give the PEM of the authority that signed the API server's certificate";
    let mut read = Vec::new();
    for found in CertificateDer::pem_slice_iter(pem) {
        read.push(found.map_err(|_| Refused::new(field, "is no PEM", remedy))?);
    }
    if read.is_empty() || read.len() > MOST_CERTIFICATES {
        return Err(Refused::new(field, format!("holds {} certificates", read.len()), remedy));
    }
    let mut roots = rustls::RootCertStore::empty();
    if read.iter().any(|certificate| roots.add(certificate.clone()).is_err()) {
        return Err(Refused::new(field, "holds a certificate that cannot be read", remedy));
    }
    Ok(read.iter().map(|der| pem_of("CERTIFICATE", der)).collect())
}

fn certificate_of(field: &str, pem: &[u8]) -> Result<String, Refused> {
    let remedy = "give the PEM of the certificate and those that signed it";
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match read {
        Ok(chain) if (1..=MOST_CERTIFICATES).contains(&chain.len()) => {
            Ok(chain.iter().map(|der| pem_of("CERTIFICATE", der)).collect())
        }
        _ => Err(Refused::new(field, "holds no certificate", remedy)),
    }
}

fn key_of(field: &str, pem: &[u8]) -> Result<Secret, Refused> {
    let wrong = || Refused::new(field, "holds no private key", "give the PEM of the key the certificate was made for");
    PrivateKeyDer::from_pem_slice(pem).map_err(|_| wrong())?;
    let text = std::str::from_utf8(pem).map_err(|_| wrong())?;
    Ok(Secret::new(text))
}

fn token_of(field: &str, token: &str) -> Result<Secret, Refused> {
    let token = token.trim();
    if token.is_empty() || token.len() > 16 << 10 || HeaderValue::from_str(token).is_err() {
        let remedy = "give the token alone, as `kubectl create token` prints it";
        return Err(Refused::new(field, "is no token", remedy));
    }
    Ok(Secret::new(token))
}

fn pem_of(label: &str, der: &[u8]) -> String {
    let text = BASE64_STANDARD.encode(der);
    let lines = text.as_bytes().chunks(64).map(|line| String::from_utf8_lossy(line) + "\n");
    format!("-----BEGIN {label}-----\n{}-----END {label}-----\n", lines.collect::<String>())
}
