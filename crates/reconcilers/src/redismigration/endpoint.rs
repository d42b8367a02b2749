//! A Redis server by name: the Secret that says where it is and how to get in.

use std::{fmt, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use runtime::phase::Trouble;
use tokio_rustls::rustls::{self, pki_types::pem::PemObject};
use zeroize::Zeroizing;

use super::resp::{Command, Connection, Error, command};

const ANSWER: Duration = Duration::from_secs(60);

/// A text nobody gets to see by accident.
#[derive(Clone, Default)]
pub struct Hidden(Zeroizing<String>);

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[hidden]")
    }
}

/// Which of the two servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Where the keys are.
    Source,
    /// Where they go.
    Dest,
}

impl Side {
    /// As the spec calls it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Source => "source",
            Self::Dest => "dest",
        }
    }

    fn reason(self, what: &str) -> String {
        format!("{}{what}", if self == Self::Source { "Source" } else { "Dest" })
    }
}

/// Where a server is and how to get in.
#[derive(Debug, Clone)]
pub struct Endpoint {
    side: Side,
    /// The name in the spec, which is the Secret's.
    name: String,
    /// `host:port`.
    pub address: String,
    username: Option<String>,
    password: Option<Hidden>,
    /// The number of the database.
    pub db: u32,
    tls: Option<Arc<rustls::ClientConfig>>,
}

impl Endpoint {
    /// Reads the Secret of that name. A Secret that is missing may still come; one that is wrong is for people.
    pub async fn resolve(client: &Client, namespace: &str, name: &str, side: Side) -> Result<Self, Trouble> {
        let found = Api::<Secret>::namespaced(client.clone(), namespace).get_opt(name).await?;
        let Some(secret) = found else {
            let word = side.word();
            return Err(Trouble::retry(
                &side.reason("UnknownServer"),
                format!(
                    "spec.{word} names the Secret {namespace}/{name}, which does not exist; create it with the key address"
                ),
            ));
        };
        Self::read(&secret, name, side).map_err(|why| {
            let word = side.word();
            Trouble::fatal(
                &side.reason("Misconfigured"),
                format!("the Secret {namespace}/{name} of spec.{word}: {why}"),
            )
        })
    }

    fn read(secret: &Secret, name: &str, side: Side) -> Result<Self, String> {
        let text = |key: &str| match secret.data.as_ref().and_then(|data| data.get(key)) {
            // The value is not shown: it may be the password, misplaced.
            Some(bytes) => std::str::from_utf8(&bytes.0)
                .map(|text| Some(text.trim_end_matches(['\r', '\n']).to_owned()))
                .map_err(|_| format!("the key {key} is not text")),
            None => Ok(None),
        };
        let address = text("address")?.filter(|a| !a.is_empty()).ok_or("it has no key address (host:port)")?;
        let address = with_port(&address)?;
        let db = match text("db")? {
            Some(db) => db.parse().map_err(|_| "the key db is not a number".to_owned())?,
            None => 0,
        };
        let tls = match text("tls")?.as_deref() {
            Some("true") => Some(trusting(&text("ca.crt")?.ok_or("tls is true, but the key ca.crt is missing")?)?),
            None | Some("" | "false") => None,
            Some(_) => return Err("the key tls is neither true nor false".to_owned()),
        };
        let password = text("password")?.filter(|p| !p.is_empty()).map(|p| Hidden(Zeroizing::new(p)));
        let username = text("username")?.filter(|u| !u.is_empty());
        Ok(Self { side, name: name.to_owned(), address, username, password, db, tls })
    }

    /// Connects, logs in, selects the database.
    pub async fn connect(&self) -> Result<Connection, Error> {
        let mut connection = Connection::open(&self.address, self.tls.clone(), ANSWER).await?;
        if let Some(Hidden(password)) = &self.password {
            let login: Command = match &self.username {
                Some(username) => command!["AUTH", username, password.as_bytes()],
                None => command!["AUTH", password.as_bytes()],
            };
            connection.call(login).await?;
        }
        connection.call(command!["PING"]).await?;
        if self.db > 0 {
            connection.call(command!["SELECT", self.db.to_string()]).await?;
        }
        Ok(connection)
    }

    /// What an error of this server means for the migration.
    pub fn trouble(&self, error: &Error) -> Trouble {
        let message = format!("{} {} ({}): {error}", self.side.word(), self.name, self.address);
        let what = match error.code() {
            "WRONGPASS" | "NOAUTH" => "AuthenticationFailed",
            "NOPERM" => "NotPermitted",
            "OOM" => "OutOfMemory",
            "READONLY" => "ReadOnly",
            // Old servers have no code of their own for this.
            "ERR" if matches!(error, Error::Refused(text) if text.contains("invalid password") || text.contains("AUTH")) => {
                "AuthenticationFailed"
            }
            _ if error.is_passing() => return Trouble::retry(&self.side.reason("Unreachable"), message),
            _ => "Refused",
        };
        Trouble::fatal(&self.side.reason(what), message)
    }

    /// A trouble in the words of this server.
    pub fn fatal(&self, what: &str, message: impl fmt::Display) -> Trouble {
        let message = format!("{} {} ({}): {message}", self.side.word(), self.name, self.address);
        Trouble::fatal(&self.side.reason(what), message)
    }
}

/// `host`, `host:port` or `[v6]:port`; 6379 when there is no port.
fn with_port(address: &str) -> Result<String, String> {
    let wrong = || format!("the address {address:?} is not host:port");
    if address.contains(['/', '@', ' ']) {
        return Err("the address is not host:port; user and password have keys of their own".to_owned());
    }
    let colon = if address.ends_with(']') { None } else { address.rsplit_once(':') };
    match colon {
        None => Ok(format!("{address}:6379")),
        Some((host, port)) => {
            let bare_v6 = host.contains(':') && !host.starts_with('[');
            if host.is_empty() || bare_v6 || port.parse::<u16>().is_err() {
                Err(wrong())
            } else {
                Ok(address.to_owned())
            }
        }
    }
}

fn trusting(ca: &str) -> Result<Arc<rustls::ClientConfig>, String> {
    let mut roots = rustls::RootCertStore::empty();
    for certificate in rustls::pki_types::CertificateDer::pem_slice_iter(ca.as_bytes()) {
        let certificate = certificate.map_err(|why| format!("ca.crt cannot be read: {why}"))?;
        roots.add(certificate).map_err(|why| format!("ca.crt cannot be used: {why}"))?;
    }
    if roots.is_empty() {
        return Err("ca.crt holds no certificate".to_owned());
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|why| why.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use k8s_openapi::ByteString;

    use super::*;

    fn secret(pairs: &[(&str, &str)]) -> Secret {
        let data: BTreeMap<_, _> =
            pairs.iter().map(|(key, value)| ((*key).to_owned(), ByteString(value.as_bytes().to_vec()))).collect();
        Secret { data: Some(data), ..Secret::default() }
    }

    #[test]
    fn a_secret_says_where_and_how_and_its_password_is_never_shown() {
        // KC-7
        let all = [("address", "redis.example:7000\n"), ("username", "mover"), ("password", "s3cret!"), ("db", "2")];
        let endpoint = Endpoint::read(&secret(&all), "ali-123", Side::Source).unwrap();
        assert_eq!((endpoint.address.as_str(), endpoint.db), ("redis.example:7000", 2));
        let shown = format!("{endpoint:?} {:?}", endpoint.trouble(&Error::Refused("WRONGPASS no".into())));
        assert!(shown.contains("[hidden]") && !shown.contains("s3cret!"), "{shown}");
    }

    #[test]
    fn a_wrong_secret_says_which_key_without_its_value() {
        // KC-7
        let wrong: [&[(&str, &str)]; 6] = [
            &[],
            &[("address", "")],
            &[("address", "redis://u:s3cret@h:1")],
            &[("address", "h:70000")],
            &[("address", "h"), ("db", "s3cret")],
            &[("address", "h"), ("tls", "true")],
        ];
        for pairs in wrong {
            let why = Endpoint::read(&secret(pairs), "x", Side::Dest).unwrap_err();
            assert!(why.contains("address") || why.contains("db") || why.contains("ca.crt"), "{why}");
            assert!(!why.contains("s3cret"), "{why}");
        }
    }

    #[test]
    fn an_address_without_a_port_means_6379() {
        // KC-7
        for (given, meant) in
            [("h", "h:6379"), ("[::1]", "[::1]:6379"), ("[::1]:7", "[::1]:7"), ("10.0.0.1:1", "10.0.0.1:1")]
        {
            assert_eq!(with_port(given).as_deref(), Ok(meant));
        }
        assert!(with_port("::1").is_err());
    }
}
