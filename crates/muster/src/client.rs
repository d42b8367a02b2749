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
            Kind::Configuration,
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
