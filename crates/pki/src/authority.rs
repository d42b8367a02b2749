//! The certificate authority of one data directory and the leaves it issues.
//!
//! The folder holds `ca.crt` and `ca.key` (made once, valid ten years, never replaced by us) and one file per leaf with key and
//! certificate together (valid one year, made anew when it has under 30 days left or no longer fits).

use std::{
    collections::BTreeSet,
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use aws_lc_rs::digest;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PublicKeyData, SanType,
};

use crate::{Error, Identity, files, identity::Facts};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const AUTHORITY_LIFE: Duration = Duration::from_secs(3653 * 24 * 60 * 60);
const LEAF_LIFE: Duration = Duration::from_secs(365 * 24 * 60 * 60);
const RENEW_BEFORE: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// Certificates are valid from a little before they are made: clocks of other machines run slow.
const CLOCK_SKEW: Duration = Duration::from_secs(60 * 60);

/// The names and addresses a server certificate is valid for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names(BTreeSet<String>);

impl Names {
    /// What every server certificate of ours carries: the loopback names, those by which pods know the API, and the host name.
    pub fn local() -> Names {
        let mut names = Names(BTreeSet::new());
        for name in ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"] {
            names.add(name);
        }
        names.0.insert(format!("ip:{}", Ipv4Addr::LOCALHOST));
        names.0.insert(format!("ip:{}", Ipv6Addr::LOCALHOST));
        if let Ok(host) = rustix::system::uname().nodename().to_str() {
            names.add(host);
        }
        names
    }

    /// Adds an IP address or a DNS name; anything else is left out, and the answer says so.
    pub fn add(&mut self, name: &str) -> bool {
        if let Ok(ip) = name.parse::<IpAddr>() {
            if !ip.is_unspecified() {
                self.0.insert(format!("ip:{ip}"));
            }
            return true;
        }
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        let label = |l: &str| {
            !l.is_empty() && l.len() <= 63 && l.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
        };
        let valid = name.len() <= 253 && name.split('.').all(label);
        if valid {
            self.0.insert(format!("dns:{name}"));
        }
        valid
    }

    fn sans(&self) -> Result<Vec<SanType>, rcgen::Error> {
        self.0
            .iter()
            .filter_map(|name| match name.split_once(':') {
                Some(("ip", ip)) => ip.parse().ok().map(|ip| Ok(SanType::IpAddress(ip))),
                Some((_, dns)) => Some(dns.try_into().map(SanType::DnsName)),
                None => None,
            })
            .collect()
    }
}

pub struct Authority {
    folder: PathBuf,
    certificate_pem: String,
    facts: Facts,
    issuer: Issuer<'static, KeyPair>,
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").field("folder", &self.folder).finish_non_exhaustive()
    }
}

impl Authority {
    /// The authority kept in `folder`, made there when the folder has none.
    pub fn open_or_create(folder: &Path) -> Result<Authority, Error> {
        files::private_folder(folder)?;
        let (certificate_path, key_path) = (folder.join("ca.crt"), folder.join("ca.key"));
        match (files::read(&certificate_path)?, files::read_private(&key_path)?) {
            (Some(certificate), Some(key)) => Authority::load(folder, certificate, &key),
            (None, None) => {
                let (certificate, key) = new_authority()?;
                files::write_private(&key_path, key.as_bytes())?;
                files::write_public(&certificate_path, certificate.as_bytes())?;
                Authority::load(folder, certificate, &key)
            }
            (Some(_), None) => Err(Error::HalfAuthority { present: certificate_path, missing: key_path }),
            (None, Some(_)) => Err(Error::HalfAuthority { present: key_path, missing: certificate_path }),
        }
    }

    fn load(folder: &Path, certificate_pem: String, key_pem: &str) -> Result<Authority, Error> {
        let (certificate_path, key_path) = (folder.join("ca.crt"), folder.join("ca.key"));
        let unusable = |path: &Path, problem: String| Error::Unusable { path: path.to_owned(), problem };
        let facts = Facts::of_pem(&certificate_pem).map_err(|problem| unusable(&certificate_path, problem))?;
        if !facts.is_ca {
            return Err(unusable(&certificate_path, "it is not the certificate of an authority".to_owned()));
        }
        let left = left(facts.not_after);
        if left.is_zero() {
            return Err(unusable(&certificate_path, "it has expired".to_owned()));
        }
        if left < 90 * DAY {
            tracing::warn!(path = %certificate_path.display(), days = left.as_secs() / DAY.as_secs(), "the authority expires soon");
        }
        let key = KeyPair::from_pem(key_pem).map_err(|e| unusable(&key_path, format!("private key: {e}")))?;
        if facts.public_key != key.subject_public_key_info() {
            return Err(Error::Mismatch { certificate: certificate_path, key: key_path });
        }
        let issuer = Issuer::from_ca_cert_pem(&certificate_pem, key)?;
        Ok(Authority { folder: folder.to_owned(), certificate_pem, facts, issuer })
    }

    pub fn certificate_pem(&self) -> &str {
        &self.certificate_pem
    }

    pub fn certificate_der(&self) -> &[u8] {
        &self.facts.der
    }

    /// SHA-256 of the certificate, as `openssl x509 -fingerprint -sha256` prints it.
    pub fn fingerprint(&self) -> String {
        let hash = digest::digest(&digest::SHA256, &self.facts.der);
        hash.as_ref().iter().map(|b| format!("{b:02X}")).collect::<Vec<_>>().join(":")
    }

    /// The server certificate kept as `<stem>.pem`; a new one when it is not there, near its end, of another authority, or for other
    /// names.
    pub fn server(&self, stem: &str, names: &Names) -> Result<Identity, Error> {
        self.kept(
            stem,
            |leaf| leaf.names == names.0.iter().cloned().collect::<Vec<_>>(),
            || {
                let mut params = leaf_params("muster", None, ExtendedKeyUsagePurpose::ServerAuth);
                params.subject_alt_names = names.sans()?;
                Ok(params)
            },
        )
    }

    /// The client certificate kept as `<stem>.pem`: the common name is the user, the organization is its group. One group: the
    /// library we make certificates with holds one value of each kind in a name.
    pub fn client(&self, stem: &str, user: &str, group: &str) -> Result<Identity, Error> {
        self.kept(
            stem,
            |leaf| leaf.common_name == user && leaf.organizations == [group],
            || Ok(leaf_params(user, Some(group), ExtendedKeyUsagePurpose::ClientAuth)),
        )
    }

    fn kept(
        &self,
        stem: &str,
        fits: impl Fn(&Facts) -> bool,
        params: impl FnOnce() -> Result<CertificateParams, rcgen::Error>,
    ) -> Result<Identity, Error> {
        let path = self.folder.join(format!("{stem}.pem"));
        if let Some(identity) = Identity::load(&path)?
            && let Ok(leaf) = identity.leaf()
            && leaf.authority_key == self.facts.subject_key
            && left(leaf.not_after) >= RENEW_BEFORE
            && fits(&leaf)
        {
            return Ok(identity);
        }
        let key = KeyPair::generate()?;
        let certificate = params()?.signed_by(&key, &self.issuer)?;
        let identity = Identity::new(certificate.pem(), key.serialize_pem());
        identity.save(&path)?;
        tracing::info!(path = %path.display(), "issued a certificate");
        Ok(identity)
    }
}

fn new_authority() -> Result<(String, String), Error> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::default();
    valid_for(&mut params, AUTHORITY_LIFE);
    // The name tells two authorities apart in a client's store; clients match by key, people by name.
    let id: String = key.public_key_raw().iter().rev().take(4).map(|b| format!("{b:02x}")).collect();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, format!("muster-ca-{id}"));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
    let certificate = params.self_signed(&key)?;
    Ok((certificate.pem(), key.serialize_pem()))
}

fn leaf_params(name: &str, organization: Option<&str>, usage: ExtendedKeyUsagePurpose) -> CertificateParams {
    let mut params = CertificateParams::default();
    valid_for(&mut params, LEAF_LIFE);
    params.distinguished_name = DistinguishedName::new();
    if let Some(organization) = organization {
        params.distinguished_name.push(DnType::OrganizationName, organization);
    }
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![usage];
    params.use_authority_key_identifier_extension = true;
    params
}

fn valid_for(params: &mut CertificateParams, life: Duration) {
    let now = SystemTime::now();
    params.not_before = (now - CLOCK_SKEW).into();
    params.not_after = (now + life).into();
}

fn left(not_after: u64) -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Duration::from_secs(not_after).saturating_sub(now)
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt, sync::Arc};

    use rustls::{
        RootCertStore,
        client::{WebPkiServerVerifier, danger::ServerCertVerifier},
        pki_types::{CertificateDer, ServerName, UnixTime},
        server::WebPkiClientVerifier,
    };

    use super::*;

    fn roots(authority: &Authority) -> Arc<RootCertStore> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from(authority.certificate_der().to_vec())).unwrap();
        Arc::new(roots)
    }

    fn provider() -> Arc<rustls::crypto::CryptoProvider> {
        Arc::new(rustls::crypto::aws_lc_rs::default_provider())
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn rustls_accepts_the_server_certificate_for_its_names_only() {
        let dir = tempfile::tempdir().unwrap();
        let authority = Authority::open_or_create(&dir.path().join("pki")).unwrap();
        let mut names = Names::local();
        assert!(names.add("10.1.2.3") && names.add("api.example.org") && !names.add("no/name") && !names.add(""));
        let server = authority.server("server", &names).unwrap();
        let verifier = WebPkiServerVerifier::builder_with_provider(roots(&authority), provider()).build().unwrap();
        let chain = server.chain().unwrap();
        let verify = |name: &str| {
            verifier.verify_server_cert(
                &chain[0],
                &[],
                &ServerName::try_from(name.to_owned()).unwrap(),
                &[],
                UnixTime::now(),
            )
        };
        for name in ["127.0.0.1", "::1", "localhost", "kubernetes.default.svc", "10.1.2.3", "api.example.org"] {
            assert!(verify(name).is_ok(), "{name}: {:?}", verify(name));
        }
        for name in ["10.1.2.4", "example.org", "evil.example"] {
            assert!(verify(name).is_err(), "{name}");
        }
    }

    #[test]
    fn rustls_accepts_client_certificates_of_this_authority_and_of_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let ours = Authority::open_or_create(&dir.path().join("a")).unwrap();
        let other = Authority::open_or_create(&dir.path().join("b")).unwrap();
        assert_ne!(ours.fingerprint(), other.fingerprint());
        let verifier = WebPkiClientVerifier::builder_with_provider(roots(&ours), provider()).build().unwrap();
        let verify = |identity: &Identity| {
            verifier.verify_client_cert(&identity.chain().unwrap()[0], &[], UnixTime::now()).is_ok()
        };
        assert!(verify(&ours.client("admin", "system:admin", "system:masters").unwrap()));
        assert!(!verify(&other.client("admin", "system:admin", "system:masters").unwrap()));
        // A server certificate is no client certificate.
        assert!(!verify(&ours.server("server", &Names::local()).unwrap()));
        let leaf = ours.client("admin", "system:admin", "system:masters").unwrap().leaf().unwrap();
        assert_eq!(
            (leaf.common_name.as_str(), leaf.organizations),
            ("system:admin", vec!["system:masters".to_owned()])
        );
    }

    #[test]
    fn files_are_private_and_reused() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("pki");
        let first = Authority::open_or_create(&folder).unwrap();
        let server = first.server("server", &Names::local()).unwrap();
        let client = first.client("admin", "a", "g").unwrap();
        assert_eq!((mode(&folder), mode(&folder.join("ca.key"))), (0o700, 0o600));
        assert_eq!((mode(&folder.join("server.pem")), mode(&folder.join("admin.pem"))), (0o600, 0o600));
        let mut left: Vec<_> = fs::read_dir(&folder).unwrap().map(|e| e.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["admin.pem", "ca.crt", "ca.key", "server.pem"], "no temporary file stays behind");

        let again = Authority::open_or_create(&folder).unwrap();
        assert_eq!(first.certificate_pem(), again.certificate_pem());
        assert_eq!(server.certificate_pem(), again.server("server", &Names::local()).unwrap().certificate_pem());
        assert_eq!(client.certificate_pem(), again.client("admin", "a", "g").unwrap().certificate_pem());
        // A key that others could read is closed to them.
        fs::set_permissions(folder.join("ca.key"), fs::Permissions::from_mode(0o644)).unwrap();
        Authority::open_or_create(&folder).unwrap();
        assert_eq!(mode(&folder.join("ca.key")), 0o600);
    }

    #[test]
    fn leaves_are_renewed_when_they_no_longer_fit() {
        let dir = tempfile::tempdir().unwrap();
        let authority = Authority::open_or_create(dir.path()).unwrap();
        let mut names = Names::local();
        let before = authority.server("server", &names).unwrap();
        names.add("10.9.8.7");
        let after = authority.server("server", &names).unwrap();
        assert_ne!(before.certificate_pem(), after.certificate_pem(), "other names");
        let user = authority.client("admin", "a", "g").unwrap();
        assert_ne!(user.certificate_pem(), authority.client("admin", "a", "h").unwrap().certificate_pem());

        // Near its end.
        let key = KeyPair::generate().unwrap();
        let mut params = leaf_params("a", Some("h"), ExtendedKeyUsagePurpose::ClientAuth);
        params.not_after = (SystemTime::now() + 29 * DAY).into();
        let old = Identity::new(params.signed_by(&key, &authority.issuer).unwrap().pem(), key.serialize_pem());
        old.save(&dir.path().join("admin.pem")).unwrap();
        let renewed = authority.client("admin", "a", "h").unwrap();
        assert_ne!(old.certificate_pem(), renewed.certificate_pem());
        assert!(renewed.expires().unwrap() > old.expires().unwrap());

        // Of an authority that was replaced.
        for file in ["ca.crt", "ca.key"] {
            fs::remove_file(dir.path().join(file)).unwrap();
        }
        let replaced = Authority::open_or_create(dir.path()).unwrap();
        assert_ne!(renewed.certificate_pem(), replaced.client("admin", "a", "h").unwrap().certificate_pem());
    }

    #[test]
    fn half_an_authority_is_refused_saying_what_to_do() {
        for (removed, kept) in [("ca.key", "ca.crt"), ("ca.crt", "ca.key")] {
            let dir = tempfile::tempdir().unwrap();
            Authority::open_or_create(dir.path()).unwrap();
            fs::remove_file(dir.path().join(removed)).unwrap();
            let error = Authority::open_or_create(dir.path()).unwrap_err();
            assert!(matches!(error, Error::HalfAuthority { .. }));
            assert!(error.to_string().contains(&format!("{kept} is there")), "{error}");
            assert!(!dir.path().join(removed).exists(), "nothing is made over it");
        }
    }

    #[test]
    fn damaged_files_are_named_and_never_replaced() {
        for file in ["ca.crt", "ca.key", "server.pem"] {
            for damage in ["", "garbage", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
                let dir = tempfile::tempdir().unwrap();
                Authority::open_or_create(dir.path()).unwrap().server("server", &Names::local()).unwrap();
                fs::write(dir.path().join(file), damage).unwrap();
                let outcome =
                    Authority::open_or_create(dir.path()).and_then(|a| a.server("server", &Names::local()).map(|_| a));
                let error = outcome.map(|_| ()).unwrap_err().to_string();
                assert!(error.contains(file), "{file} {damage:?}: {error}");
                assert_eq!(fs::read_to_string(dir.path().join(file)).unwrap(), damage);
            }
        }
    }

    #[test]
    fn a_key_of_another_certificate_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        Authority::open_or_create(&dir.path().join("a")).unwrap();
        Authority::open_or_create(&dir.path().join("b")).unwrap();
        fs::copy(dir.path().join("b/ca.key"), dir.path().join("a/ca.key")).unwrap();
        let error = Authority::open_or_create(&dir.path().join("a")).unwrap_err();
        assert!(matches!(error, Error::Mismatch { .. }), "{error}");
        let brought = Identity::read(&dir.path().join("b/ca.crt"), &dir.path().join("b/ca.key"));
        assert!(brought.is_ok());
        fs::copy(dir.path().join("a/ca.crt"), dir.path().join("c.crt")).unwrap();
        let error = Identity::read(&dir.path().join("c.crt"), &dir.path().join("b/ca.key")).unwrap_err();
        assert!(matches!(error, Error::Mismatch { .. }), "{error}");
    }

    #[test]
    fn debug_output_holds_no_key() {
        let dir = tempfile::tempdir().unwrap();
        let authority = Authority::open_or_create(dir.path()).unwrap();
        let identity = authority.server("server", &Names::local()).unwrap();
        assert!(!format!("{authority:?}{identity:?}").contains("PRIVATE"));
    }
}
