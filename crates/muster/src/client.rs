//! A running server, asked over its own HTTPS port with the administrator's certificate.

use std::{path::Path, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Request, StatusCode, Uri};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use pki::{Authority, Endpoint};
use rustls::{
    ClientConfig, RootCertStore,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use tokio::{io::AsyncWriteExt, net::TcpStream, time};
use tokio_rustls::TlsConnector;

use crate::{
    paths::DataDir,
    problem::{Kind, Problem},
};

/// For connecting and for each piece of the answer: a server that says nothing this long is not coming back.
const PATIENCE: Duration = Duration::from_secs(30);

/// POSTs to `path` and writes the answer's body to `file`, which must not exist.
pub async fn download(dir: &DataDir, path: &str, file: &Path) -> Result<(), Problem> {
    let endpoint = Endpoint::read(&dir.kubeconfig())?.ok_or_else(|| {
        Problem::new(
            Kind::Unreachable,
            "cannot reach the running server",
            format!("there is no {}", dir.kubeconfig().display()),
        )
        .next("start it with --secure-port, or stop it and try again")
    })?;
    fetch(dir, &endpoint, path, file).await.map_err(|why| {
        Problem::new(
            Kind::Failed,
            format!("the running server at {} did not answer as it should", endpoint.server),
            why,
        )
        .next("look at its log; or stop it and try again")
    })
}

async fn fetch(dir: &DataDir, endpoint: &Endpoint, path: &str, file: &Path) -> Result<(), String> {
    let text = |e: &dyn std::error::Error| e.to_string();
    let uri: Uri = endpoint.server.parse().map_err(|e| text(&e))?;
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
    let stream = patiently(TcpStream::connect((host.as_str(), uri.port_u16().unwrap_or(443)))).await?;
    let name = ServerName::try_from(host).map_err(|e| text(&e))?;
    let connector = TlsConnector::from(Arc::new(config(dir, endpoint)?));
    let stream = patiently(connector.connect(name, stream)).await?;
    let (mut sender, connection) = patiently(http1::handshake(TokioIo::new(stream))).await?;
    let connection = tokio::spawn(connection);
    let request = Request::post(path)
        .header("host", uri.authority().map_or("", |a| a.as_str()))
        .header("user-agent", concat!("muster/", env!("CARGO_PKG_VERSION")))
        .body(Empty::<Bytes>::new())
        .map_err(|e| text(&e))?;
    let mut response = patiently(sender.send_request(request)).await?;
    if response.status() != StatusCode::OK {
        let status = response.status();
        let body = Limited::new(response.into_body(), 4096).collect().await.map(|b| b.to_bytes()).unwrap_or_default();
        return Err(format!("{status}: {}", String::from_utf8_lossy(&body).trim()));
    }
    let mut options = tokio::fs::OpenOptions::new();
    let mut out = options.write(true).create_new(true).mode(0o600).open(file).await.map_err(|e| text(&e))?;
    while let Some(frame) = time::timeout(PATIENCE, response.frame()).await.map_err(|e| text(&e))? {
        if let Ok(data) = frame.map_err(|e| text(&e))?.into_data() {
            out.write_all(&data).await.map_err(|e| text(&e))?;
        }
    }
    out.sync_all().await.map_err(|e| text(&e))?;
    drop(sender);
    connection.abort();
    Ok(())
}

fn config(dir: &DataDir, endpoint: &Endpoint) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(endpoint.authority_pem.as_bytes()) {
        roots.add(certificate.map_err(|e| e.to_string())?).map_err(|e| e.to_string())?;
    }
    let admin = Authority::open_or_create(&dir.pki())
        .and_then(|authority| authority.client("admin", auth::ADMIN, auth::MASTERS))
        .map_err(|e| e.to_string())?;
    ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|e| e.to_string())?
        .with_root_certificates(roots)
        .with_client_auth_cert(admin.chain()?, admin.key()?)
        .map_err(|e| e.to_string())
}

async fn patiently<T, E: std::fmt::Display>(work: impl Future<Output = Result<T, E>>) -> Result<T, String> {
    match time::timeout(PATIENCE, work).await {
        Ok(outcome) => outcome.map_err(|e| e.to_string()),
        Err(_) => Err(format!("no answer within {} seconds", PATIENCE.as_secs())),
    }
}

#[cfg(test)]
mod tests {
    use std::{convert::Infallible, fs, net::SocketAddr, os::unix::fs::PermissionsExt};

    use apiserver::serve::{BindError, Certificates, Limits, Server, Tls};
    use http::Response;
    use http_body_util::Full;
    use hyper::body::Incoming;
    use pki::{Kubeconfig, Names};
    use tokio_util::sync::CancellationToken;

    use super::*;

    /// Gives its bytes to administrators who POST, and says no to everybody else.
    async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
        let authenticator = auth::Authenticator::new(auth::Options::default()).unwrap();
        let user = authenticator.authenticate(request.extensions().get().unwrap(), request.headers(), "/").unwrap();
        let body = match (request.method().as_str(), request.uri().path(), user.is_in(auth::MASTERS)) {
            ("POST", "/large", true) => Bytes::from(vec![7; 5 << 20]),
            _ => {
                let mut refused = Response::new(Full::from("not here"));
                *refused.status_mut() = StatusCode::NOT_FOUND;
                return Ok(refused);
            }
        };
        Ok(Response::new(Full::new(body)))
    }

    #[tokio::test]
    async fn a_running_server_is_asked_with_the_admin_certificate() {
        let folder = tempfile::tempdir().unwrap();
        let dir = DataDir::choose(Some(folder.path().to_owned())).unwrap();
        let authority = Authority::open_or_create(&dir.pki()).unwrap();
        let identity = authority.server("server", &Names::local()).unwrap();
        let certificates = Certificates::new(identity.chain().unwrap(), identity.key().unwrap()).unwrap();
        let tls = Tls::new(certificates, &[CertificateDer::from(authority.certificate_der().to_vec())]).unwrap();
        let mut server = Server::new(Limits::default());
        let mut port = 19_000 + (std::process::id() % 500) as u16;
        let bound = loop {
            match server.bind_tls(SocketAddr::from(([127, 0, 0, 1], port)), tls.clone()).await {
                Err(BindError::InUse { .. }) => port += 1,
                bound => break bound.unwrap(),
            }
        };
        let stop = CancellationToken::new();
        let running = tokio::spawn(server.run(tower::service_fn(answer), stop.clone()));

        let file = folder.path().join("out");
        let error = download(&dir, "/large", &file).await.unwrap_err().to_string();
        assert!(error.contains("admin.kubeconfig"), "{error}");
        let admin = authority.client("admin", auth::ADMIN, auth::MASTERS).unwrap();
        let kubeconfig = Kubeconfig {
            cluster: "muster",
            user: "admin",
            server: &format!("https://{bound}"),
            authority_pem: authority.certificate_pem(),
            identity: &admin,
        };
        kubeconfig.write(&dir.kubeconfig()).unwrap();

        download(&dir, "/large", &file).await.unwrap();
        assert_eq!(fs::read(&file).unwrap(), vec![7; 5 << 20]);
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        // A file that is there is not written over.
        assert!(download(&dir, "/large", &file).await.is_err());
        let error = download(&dir, "/other", &folder.path().join("none")).await.unwrap_err().to_string();
        assert!(error.contains("404") && error.contains("not here"), "{error}");
        assert!(!folder.path().join("none").exists());
        stop.cancel();
        running.await.unwrap();
    }
}
