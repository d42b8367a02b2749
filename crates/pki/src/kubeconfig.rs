//! Kubeconfigs with everything inside: no path in it can break.

use std::path::Path;

use base64::{Engine, prelude::BASE64_STANDARD};

use crate::{Error, Identity, files};

/// One cluster, one user, one context.
#[derive(Debug)]
pub struct Kubeconfig<'a> {
    pub cluster: &'a str,
    pub user: &'a str,
    /// `https://host:port`
    pub server: &'a str,
    pub authority_pem: &'a str,
    pub identity: &'a Identity,
}

impl Kubeconfig<'_> {
    /// As YAML that any reader of JSON strings agrees with: every value is quoted.
    pub fn render(&self) -> String {
        let quote = |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
        let (cluster, user) = (quote(self.cluster), quote(self.user));
        format!(
            "apiVersion: v1\nkind: Config\n\
             clusters:\n- name: {cluster}\n  cluster:\n    server: {}\n    certificate-authority-data: {}\n\
             users:\n- name: {user}\n  user:\n    client-certificate-data: {}\n    client-key-data: {}\n\
             contexts:\n- name: {cluster}\n  context:\n    cluster: {cluster}\n    user: {user}\n\
             current-context: {cluster}\n",
            quote(self.server),
            BASE64_STANDARD.encode(self.authority_pem),
            BASE64_STANDARD.encode(self.identity.certificate_pem()),
            BASE64_STANDARD.encode(self.identity.key_pem()),
        )
    }

    /// Written 0600 and atomically, and only when it would change: `true` when it did.
    pub fn write(&self, path: &Path) -> Result<bool, Error> {
        let text = self.render();
        if files::read_private(path)?.is_some_and(|old| old == text) {
            return Ok(false);
        }
        files::write_private(path, text.as_bytes())?;
        Ok(true)
    }
}

/// Where a kubeconfig leads and whom it trusts there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    pub server: String,
    pub authority_pem: String,
}

impl Endpoint {
    /// Of a kubeconfig written by us; none when the file is not there or was written by somebody else.
    pub fn read(path: &Path) -> Result<Option<Endpoint>, Error> {
        let text = files::read_private(path)?.unwrap_or_default();
        let value = |field: &str| text.lines().find_map(|line| line.trim().strip_prefix(field)?.strip_prefix(": "));
        let server = value("server").and_then(|quoted| quoted.strip_prefix('"')?.strip_suffix('"'));
        let authority = value("certificate-authority-data")
            .and_then(|data| BASE64_STANDARD.decode(data).ok())
            .and_then(|pem| String::from_utf8(pem).ok());
        Ok(server.zip(authority).map(|(server, authority_pem)| Endpoint { server: server.to_owned(), authority_pem }))
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use super::*;
    use crate::Authority;

    #[test]
    fn everything_is_inside_and_private() {
        let dir = tempfile::tempdir().unwrap();
        let authority = Authority::open_or_create(&dir.path().join("pki")).unwrap();
        let identity = authority.client("admin", "system:admin", "system:masters").unwrap();
        let config = Kubeconfig {
            cluster: "muster",
            user: "admin",
            server: "https://127.0.0.1:6443",
            authority_pem: authority.certificate_pem(),
            identity: &identity,
        };
        let path = dir.path().join("admin.kubeconfig");
        assert!(config.write(&path).unwrap());
        assert!(!config.write(&path).unwrap(), "unchanged: not written again");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let text = fs::read_to_string(&path).unwrap();
        let data = |field: &str| {
            let line = text.lines().find_map(|l| l.trim().strip_prefix(field)).unwrap();
            String::from_utf8(BASE64_STANDARD.decode(line.trim_start_matches(": ")).unwrap()).unwrap()
        };
        assert_eq!(data("certificate-authority-data"), authority.certificate_pem());
        assert_eq!(data("client-certificate-data"), identity.certificate_pem());
        assert_eq!(data("client-key-data"), identity.key_pem());
        let endpoint = Endpoint::read(&path).unwrap().unwrap();
        assert_eq!((endpoint.server.as_str(), endpoint.authority_pem.as_str()), (config.server, config.authority_pem));
        assert_eq!(Endpoint::read(&dir.path().join("none")).unwrap(), None);
        assert!(text.contains("server: \"https://127.0.0.1:6443\"") && text.contains("current-context: \"muster\""));
    }
}
