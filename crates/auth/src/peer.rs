//! The other end of a connection: its address, and the identity its certificate gave it once and for all requests.

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, SystemTime},
};

use x509_parser::prelude::{FromDer, X509Certificate};

use crate::{Unauthenticated, User};

/// Cheap to clone: the listener puts one into every request of its connection.
#[derive(Debug, Clone)]
pub struct Peer(Arc<Connection>);

#[derive(Debug)]
struct Connection {
    addr: Option<SocketAddr>,
    tls: bool,
    in_process: Option<Arc<User>>,
    certificate: Option<Result<CertificateUser, String>>,
}

#[derive(Debug)]
struct CertificateUser {
    user: Arc<User>,
    not_after: SystemTime,
}

impl Peer {
    /// A plain connection.
    pub fn plain(addr: SocketAddr) -> Peer {
        Peer(Arc::new(Connection { addr: Some(addr), tls: false, in_process: None, certificate: None }))
    }

    /// A TLS connection. `certificates` (DER, leaf first) is the chain the client presented, which the TLS layer **has verified**
    /// against the client CA; empty when it presented none.
    pub fn tls<C: AsRef<[u8]>>(addr: SocketAddr, certificates: &[C]) -> Peer {
        let certificate = certificates.first().map(|leaf| CertificateUser::read(leaf.as_ref()));
        Peer(Arc::new(Connection { addr: Some(addr), tls: true, in_process: None, certificate }))
    }

    /// A caller inside this process, which needs no proof.
    pub fn in_process(user: impl Into<Arc<User>>) -> Peer {
        Peer(Arc::new(Connection { addr: None, tls: false, in_process: Some(user.into()), certificate: None }))
    }

    pub fn addr(&self) -> Option<SocketAddr> {
        self.0.addr
    }

    pub fn is_tls(&self) -> bool {
        self.0.tls
    }

    pub(crate) fn in_process_user(&self) -> Option<&Arc<User>> {
        self.0.in_process.as_ref()
    }

    /// When the client certificate ends, if there is one that names a user.
    pub(crate) fn certificate_ends(&self) -> Option<SystemTime> {
        self.0.certificate.as_ref()?.as_ref().ok().map(|known| known.not_after)
    }

    /// The user of the client certificate. Expiry is checked on every request: a connection may outlive its certificate.
    pub(crate) fn certificate_user(&self, now: SystemTime) -> Option<Result<Arc<User>, Unauthenticated>> {
        Some(match self.0.certificate.as_ref()? {
            Ok(known) if now <= known.not_after => Ok(Arc::clone(&known.user)),
            Ok(_) => Err(Unauthenticated::CertificateExpired),
            Err(why) => Err(Unauthenticated::Certificate(why.clone())),
        })
    }
}

impl CertificateUser {
    fn read(der: &[u8]) -> Result<CertificateUser, String> {
        let (_, certificate) = X509Certificate::from_der(der).map_err(|e| format!("it cannot be read: {e}"))?;
        let subject = certificate.subject();
        let text = |part: &x509_parser::x509::AttributeTypeAndValue<'_>| part.as_str().map(str::to_owned);
        let names: Vec<String> =
            subject.iter_common_name().map(text).collect::<Result<_, _>>().map_err(|e| format!("common name: {e}"))?;
        let groups: Vec<String> = subject
            .iter_organization()
            .map(text)
            .collect::<Result<_, _>>()
            .map_err(|e| format!("organization: {e}"))?;
        // Two common names would let two readers of one certificate see two users.
        let [name] = names.as_slice() else {
            return Err(format!("it has {} common names, exactly one is needed", names.len()));
        };
        if name.is_empty() {
            return Err("its common name is empty".to_owned());
        }
        let not_after = u64::try_from(certificate.validity().not_after.timestamp()).unwrap_or(0);
        Ok(CertificateUser {
            user: Arc::new(User::authenticated(name, "", groups)),
            not_after: SystemTime::UNIX_EPOCH + Duration::from_secs(not_after),
        })
    }
}
