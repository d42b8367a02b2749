//! The server's certificate, read again when its file changes, and the users whom client certificates name.

use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::ServeError;
use crate::caller::Person;
use crate::options::Tls;

/// How often at most the files are looked at.
const LOOK: Duration = Duration::from_secs(10);

pub(super) struct Identity {
    files: Tls,
    current: Mutex<Current>,
}

struct Current {
    config: Arc<ServerConfig>,
    written: Vec<Option<SystemTime>>,
    looked: Instant,
}

impl Identity {
    pub(super) fn load(files: Tls) -> Result<Self, ServeError> {
        let (written, config) = (written(&files), config(&files)?);
        Ok(Self { files, current: Mutex::new(Current { config, written, looked: Instant::now() }) })
    }

    /// The configuration for the next handshake. Files that cannot be used leave the one before in place.
    fn config(&self) -> Arc<ServerConfig> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.looked.elapsed() >= LOOK {
            current.looked = Instant::now();
            let now = written(&self.files);
            if now != current.written {
                match config(&self.files) {
                    Ok(config) => {
                        tracing::info!("APIExt's certificate was renewed");
                        (current.config, current.written) = (config, now);
                    }
                    Err(why) => tracing::warn!(%why, "the new certificate cannot be used; the old one stays"),
                }
            }
        }
        current.config.clone()
    }

    pub(super) async fn accept(&self, stream: TcpStream) -> std::io::Result<(TlsStream<TcpStream>, Option<Person>)> {
        let stream = TlsAcceptor::from(self.config()).accept(stream).await?;
        let user = stream.get_ref().1.peer_certificates().and_then(<[_]>::first).map(user);
        match user {
            Some(None) => Err(std::io::Error::other("the client certificate names no user (its common name is empty)")),
            Some(Some(user)) => Ok((stream, Some(user))),
            None => Ok((stream, None)),
        }
    }
}

fn written(files: &Tls) -> Vec<Option<SystemTime>> {
    let time = |file: &Path| fs::metadata(file).and_then(|about| about.modified()).ok();
    [Some(&files.certificate), Some(&files.key), files.client_ca.as_ref()]
        .into_iter()
        .flatten()
        .map(|file| time(file))
        .collect()
}

fn config(files: &Tls) -> Result<Arc<ServerConfig>, ServeError> {
    let chain = certificates(&files.certificate)?;
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|why| unusable(&files.key, why))?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|why| unusable(&files.certificate, why))?;
    let builder = match &files.client_ca {
        None => builder.with_no_client_auth(),
        Some(file) => {
            let mut roots = RootCertStore::empty();
            for certificate in certificates(file)? {
                roots.add(certificate).map_err(|why| unusable(file, why))?;
            }
            // Who has no certificate may still have a token.
            let verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).allow_unauthenticated().build();
            builder.with_client_cert_verifier(verifier.map_err(|why| unusable(file, why))?)
        }
    };
    let mut config = builder.with_single_cert(chain, key).map_err(|why| unusable(&files.certificate, why))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, ServeError> {
    let chain: Vec<_> = CertificateDer::pem_file_iter(file)
        .and_then(Iterator::collect)
        .map_err(|why: rustls::pki_types::pem::Error| unusable(file, why))?;
    if chain.is_empty() { Err(unusable(file, "it holds no certificate")) } else { Ok(chain) }
}

fn unusable(file: &Path, why: impl ToString) -> ServeError {
    ServeError::Tls { file: file.display().to_string(), why: why.to_string() }
}

/// As Kubernetes reads them: the common name is the user, organisations are groups.
fn user(certificate: &CertificateDer<'_>) -> Option<Person> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    let subject = certificate.subject();
    let user = subject.iter_common_name().next()?.as_str().ok().filter(|user| !user.is_empty())?.to_owned();
    let groups =
        subject.iter_organization().map(|group| group.as_str().map(str::to_owned)).collect::<Result<_, _>>().ok()?;
    Some(Person { user, groups })
}
