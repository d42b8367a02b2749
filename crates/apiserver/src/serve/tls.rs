//! TLS: who we are, whose client certificates we believe, and how sessions are resumed.

use std::sync::{Arc, PoisonError, RwLock};

use rustls::{
    CipherSuite, RootCertStore, ServerConfig,
    crypto::{CryptoProvider, aws_lc_rs},
    pki_types::{CertificateDer, PrivateKeyDer},
    server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier},
    sign::CertifiedKey,
};
use tokio_rustls::TlsAcceptor;

#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("the server certificate cannot be used: {0}")]
    Certificate(rustls::Error),
    #[error("the client authority cannot be used: {0}")]
    ClientAuthority(String),
    #[error("TLS cannot be set up: {0}")]
    Setup(rustls::Error),
}

/// The server certificate. It can be replaced while connections are open; new handshakes use the new one.
#[derive(Debug)]
pub struct Certificates(RwLock<Arc<CertifiedKey>>);

impl Certificates {
    pub fn new(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Result<Arc<Certificates>, TlsError> {
        Ok(Arc::new(Certificates(RwLock::new(certified(chain, key)?))))
    }

    pub fn replace(&self, chain: Vec<CertificateDer<'static>>, key: PrivateKeyDer<'static>) -> Result<(), TlsError> {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = certified(chain, key)?;
        Ok(())
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner)))
    }
}

fn certified(chain: Vec<CertificateDer<'static>>, key: PrivateKeyDer<'static>) -> Result<Arc<CertifiedKey>, TlsError> {
    CertifiedKey::from_der(chain, key, &aws_lc_rs::default_provider()).map(Arc::new).map_err(TlsError::Certificate)
}

/// AES-128 first, as Go's servers have it: as safe in practice as AES-256 and a third cheaper, and a watch is mostly encryption.
fn provider() -> Arc<CryptoProvider> {
    let mut provider = aws_lc_rs::default_provider();
    let first = [CipherSuite::TLS13_AES_128_GCM_SHA256, CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256];
    provider.cipher_suites.sort_by_key(|suite| !first.contains(&suite.suite()));
    Arc::new(provider)
}

#[derive(Clone)]
pub struct Tls(TlsAcceptor);

impl Tls {
    /// Client certificates are asked for, not demanded; those presented must chain up to one of `client_authorities` (none: none are
    /// asked for).
    pub fn new(
        certificates: Arc<Certificates>,
        client_authorities: &[CertificateDer<'static>],
    ) -> Result<Tls, TlsError> {
        let provider = provider();
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(TlsError::Setup)?;
        let builder = if client_authorities.is_empty() {
            builder.with_no_client_auth()
        } else {
            let mut roots = RootCertStore::empty();
            for authority in client_authorities {
                roots.add(authority.clone()).map_err(|e| TlsError::ClientAuthority(e.to_string()))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                .allow_unauthenticated()
                .build()
                .map_err(|e| TlsError::ClientAuthority(e.to_string()))?;
            builder.with_client_cert_verifier(verifier)
        };
        let mut config = builder.with_cert_resolver(certificates);
        config.ignore_client_order = true;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        // Tickets keep resumption state with the client: a handshake costs far more than a request, and we hold no session cache.
        config.ticketer = aws_lc_rs::Ticketer::new().map_err(TlsError::Setup)?;
        config.send_tls13_tickets = 1;
        Ok(Tls(TlsAcceptor::from(Arc::new(config))))
    }

    pub(super) fn acceptor(&self) -> &TlsAcceptor {
        &self.0
    }
}
