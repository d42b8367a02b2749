//! A certificate chain with its private key: what a server shows and what a client proves itself with.

use std::{fmt, path::Path, time::Duration};

use rcgen::PublicKeyData;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};

use crate::{Error, files};

/// The key is never printed: `Debug` shows the certificate only.
pub struct Identity {
    certificate_pem: String,
    key_pem: String,
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("certificate_pem", &self.certificate_pem).finish_non_exhaustive()
    }
}

impl Identity {
    pub(crate) fn new(certificate_pem: String, key_pem: String) -> Identity {
        Identity { certificate_pem, key_pem }
    }

    /// Files somebody else made (`--tls-cert-file`, `--tls-private-key-file`). RSA and EC keys in any of the usual PEM forms.
    pub fn read(certificate: &Path, key: &Path) -> Result<Identity, Error> {
        let text = |path: &Path| {
            files::read(path)?.ok_or_else(|| Error::Io {
                doing: "read",
                path: path.to_owned(),
                source: std::io::ErrorKind::NotFound.into(),
            })
        };
        let identity = Identity { certificate_pem: text(certificate)?, key_pem: text(key)? };
        let unusable = |path: &Path, problem: String| Error::Unusable { path: path.to_owned(), problem };
        let chain = identity.chain().map_err(|problem| unusable(certificate, problem))?;
        let private = identity.key().map_err(|problem| unusable(key, problem))?;
        let signer =
            rustls::crypto::aws_lc_rs::sign::any_supported_type(&private).map_err(|e| unusable(key, e.to_string()))?;
        match rustls::sign::CertifiedKey::new(chain, signer).keys_match() {
            Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::KeyMismatch)) => {
                Err(Error::Mismatch { certificate: certificate.to_owned(), key: key.to_owned() })
            }
            _ => Ok(identity),
        }
    }

    /// The certificates, leaf first.
    pub fn chain(&self) -> Result<Vec<CertificateDer<'static>>, String> {
        certificates(&self.certificate_pem)
    }

    pub fn key(&self) -> Result<PrivateKeyDer<'static>, String> {
        PrivateKeyDer::from_pem_slice(self.key_pem.as_bytes()).map_err(|e| format!("no private key in PEM form: {e}"))
    }

    pub fn certificate_pem(&self) -> &str {
        &self.certificate_pem
    }

    pub fn key_pem(&self) -> &str {
        &self.key_pem
    }

    /// One of our own leaves: key and certificate in one file, so that no crash can part them.
    pub(crate) fn load(path: &Path) -> Result<Option<Identity>, Error> {
        let Some(text) = files::read_private(path)? else { return Ok(None) };
        let unusable = |problem: String| Error::Unusable { path: path.to_owned(), problem };
        let at = text.find("-----BEGIN CERTIFICATE-----").ok_or_else(|| unusable("it has no certificate".into()))?;
        let (key_pem, certificate_pem) = text.split_at(at);
        let identity = Identity { certificate_pem: certificate_pem.to_owned(), key_pem: key_pem.to_owned() };
        let leaf = identity.leaf().map_err(unusable)?;
        let key = rcgen::KeyPair::from_pem(&identity.key_pem).map_err(|e| unusable(format!("private key: {e}")))?;
        if leaf.public_key != key.subject_public_key_info() {
            return Err(unusable("its key and its certificate do not belong together".to_owned()));
        }
        Ok(Some(identity))
    }

    pub(crate) fn save(&self, path: &Path) -> Result<(), Error> {
        files::write_private(path, format!("{}{}", self.key_pem, self.certificate_pem).as_bytes())
    }

    pub(crate) fn leaf(&self) -> Result<Facts, String> {
        Facts::of_pem(&self.certificate_pem)
    }

    /// Seconds since 1970 after which the leaf is no longer valid.
    pub fn expires(&self) -> Result<Duration, String> {
        Ok(Duration::from_secs(self.leaf()?.not_after))
    }
}

/// What we need to know of a certificate to decide whether it still serves.
pub(crate) struct Facts {
    pub public_key: Vec<u8>,
    pub subject_key: Vec<u8>,
    pub authority_key: Vec<u8>,
    pub is_ca: bool,
    /// Seconds since 1970.
    pub not_after: u64,
    /// Sorted, `ip:…` and `dns:…`.
    pub names: Vec<String>,
    pub common_name: String,
    pub organizations: Vec<String>,
    pub der: Vec<u8>,
}

impl Facts {
    pub(crate) fn of_pem(pem: &str) -> Result<Facts, String> {
        use x509_parser::prelude::{FromDer, GeneralName, ParsedExtension, X509Certificate};
        let der = certificates(pem)?.swap_remove(0);
        let (_, parsed) = X509Certificate::from_der(&der).map_err(|e| format!("not a certificate: {e}"))?;
        let text = |part: &x509_parser::x509::AttributeTypeAndValue<'_>| part.as_str().unwrap_or_default().to_owned();
        let mut facts = Facts {
            public_key: parsed.public_key().raw.to_vec(),
            subject_key: Vec::new(),
            authority_key: Vec::new(),
            is_ca: parsed.is_ca(),
            not_after: u64::try_from(parsed.validity().not_after.timestamp()).unwrap_or(0),
            names: Vec::new(),
            common_name: parsed.subject().iter_common_name().next().map(text).unwrap_or_default(),
            organizations: parsed.subject().iter_organization().map(text).collect(),
            der: der.to_vec(),
        };
        for extension in parsed.extensions() {
            match extension.parsed_extension() {
                ParsedExtension::SubjectKeyIdentifier(id) => facts.subject_key = id.0.to_vec(),
                ParsedExtension::AuthorityKeyIdentifier(id) => {
                    facts.authority_key = id.key_identifier.as_ref().map(|id| id.0.to_vec()).unwrap_or_default();
                }
                ParsedExtension::SubjectAlternativeName(names) => {
                    facts.names.extend(names.general_names.iter().filter_map(|name| match name {
                        GeneralName::DNSName(name) => Some(format!("dns:{name}")),
                        GeneralName::IPAddress(bytes) => ip(bytes).map(|ip| format!("ip:{ip}")),
                        _ => None,
                    }));
                }
                _ => (),
            }
        }
        facts.names.sort();
        Ok(facts)
    }
}

fn ip(bytes: &[u8]) -> Option<std::net::IpAddr> {
    <[u8; 4]>::try_from(bytes).map(Into::into).or_else(|_| <[u8; 16]>::try_from(bytes).map(Into::into)).ok()
}

/// At least one certificate, or why not.
fn certificates(pem: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    match found {
        Ok(found) if found.is_empty() => Err("it has no certificate".to_owned()),
        Ok(found) => Ok(found),
        Err(e) => Err(format!("not a certificate in PEM form: {e}")),
    }
}
