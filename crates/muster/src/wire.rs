//! HTTP to one running server: the connection, TLS and deadlines, for the commands that ask one.

use std::{fmt, fs, net::IpAddr, path::Path, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Request, Response, Uri, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::{body::Incoming, client::conn::http1};
use hyper_util::rt::TokioIo;
use rustls::{
    ClientConfig, RootCertStore,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    task::AbortHandle,
    time::timeout,
};
use tokio_rustls::TlsConnector;

/// For connecting, and for a server to begin its answer.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// An answer that is no stream is not larger.
const LARGEST: usize = 64 << 20;

/// Any connection.
pub trait Io: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Io for T {}

/// Whom to believe when a server speaks TLS.
pub enum Trust {
    /// Only these authorities.
    Authority(Vec<CertificateDer<'static>>),
    /// Whoever this machine believes.
    System,
}

impl Trust {
    pub fn file(path: &Path) -> Result<Trust, String> {
        let pem = fs::read(path).map_err(|e| format!("{}: {e}", path.display()))?;
        Trust::pem(&pem).map_err(|why| format!("{}: {why}", path.display()))
    }

    pub fn pem(pem: &[u8]) -> Result<Trust, String> {
        let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
        match found {
            Ok(found) if found.is_empty() => Err("it has no certificate in PEM form".to_owned()),
            Ok(found) => Ok(Trust::Authority(found)),
            Err(error) => Err(error.to_string()),
        }
    }

    fn roots(self) -> Result<RootCertStore, String> {
        let mut roots = RootCertStore::empty();
        match self {
            Trust::Authority(certificates) => {
                for certificate in certificates {
                    roots.add(certificate).map_err(|e| e.to_string())?;
                }
            }
            Trust::System => {
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            }
        }
        Ok(roots)
    }
}

/// Where a server is and how to speak to it.
#[derive(Clone)]
pub struct Server {
    /// As the user wrote it, without a slash at the end.
    url: String,
    /// Host and port, as the server is to see them.
    authority: String,
    host: String,
    port: u16,
    tls: Option<TlsConnector>,
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.url)
    }
}

impl Server {
    /// Tokens travel with requests, so that plain HTTP is spoken to this machine alone.
    pub fn new(url: &str, trust: impl FnOnce() -> Result<Trust, String>) -> Result<Server, String> {
        let wrong = || format!("{url:?} is not an address such as http://127.0.0.1:8088");
        let uri: Uri = url.parse().map_err(|_| wrong())?;
        let authority = uri.authority().ok_or_else(wrong)?;
        if !matches!(uri.path(), "" | "/") || uri.query().is_some() || authority.as_str().contains('@') {
            return Err(wrong());
        }
        let host = authority.host().trim_matches(['[', ']']).to_owned();
        let secure = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(wrong()),
        };
        let loopback = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
        if !secure && !loopback {
            return Err("a token is not sent to another machine over plain HTTP; use https".to_owned());
        }
        let port = authority.port_u16().unwrap_or(if secure { 443 } else { 80 });
        let tls = if secure { Some(connector(trust()?)?) } else { None };
        let url = url.trim_end_matches('/').to_owned();
        Ok(Server { url, authority: authority.to_string(), host, port, tls })
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    pub fn authority(&self) -> &str {
        &self.authority
    }

    pub async fn connect(&self) -> Result<Box<dyn Io>, String> {
        let connecting = async {
            let stream = TcpStream::connect((self.host.as_str(), self.port)).await.map_err(|e| e.to_string())?;
            let _ = stream.set_nodelay(true);
            let Some(tls) = &self.tls else { return Ok(Box::new(stream) as Box<dyn Io>) };
            let name = ServerName::try_from(self.host.clone()).map_err(|e| e.to_string())?;
            let stream = tls.connect(name, stream).await.map_err(|e| e.to_string())?;
            Ok(Box::new(stream) as Box<dyn Io>)
        };
        timeout(PATIENCE, connecting).await.unwrap_or_else(|_| Err("it did not answer in time".to_owned()))
    }

    /// Sends a request on a connection of its own. The answer's body may be a stream.
    pub async fn send(&self, mut request: Request<Full<Bytes>>) -> Result<Reply, String> {
        let host = self.authority.parse().map_err(|_| "the address cannot be sent".to_owned())?;
        request.headers_mut().insert(header::HOST, host);
        let agent = header::HeaderValue::from_static(concat!("muster/", env!("CARGO_PKG_VERSION")));
        request.headers_mut().insert(header::USER_AGENT, agent);
        let stream = self.connect().await?;
        let exchange = async {
            let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
            let connection = Connection(tokio::spawn(async move { drop(connection.await) }).abort_handle());
            let response = sender.send_request(request).await?;
            Ok(Reply { response, _connection: connection })
        };
        let answered: Result<Result<Reply, hyper::Error>, _> = timeout(PATIENCE, exchange).await;
        answered.map_err(|_| "it did not answer in time".to_owned())?.map_err(|e| said(&e))
    }
}

/// The innermost reason of a failure.
fn said(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}

fn connector(trust: Trust) -> Result<TlsConnector, String> {
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|e| e.to_string())?
        .with_root_certificates(trust.roots()?)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

/// The task of a connection; ends with its owner.
struct Connection(AbortHandle);

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// An answer that has begun.
pub struct Reply {
    response: Response<Incoming>,
    _connection: Connection,
}

impl Reply {
    pub fn status(&self) -> http::StatusCode {
        self.response.status()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.response.headers().get(name)?.to_str().ok()
    }

    /// The next piece of the body; none at its end. Waits as long as the server keeps the stream open.
    pub async fn piece(&mut self) -> Result<Option<Bytes>, String> {
        while let Some(frame) = self.response.frame().await {
            if let Ok(data) = frame.map_err(|e| said(&e))?.into_data() {
                return Ok(Some(data));
            }
        }
        Ok(None)
    }

    /// The whole body.
    pub async fn bytes(self) -> Result<Bytes, String> {
        let Reply { response, _connection } = self;
        let whole = Limited::new(response.into_body(), LARGEST).collect();
        let whole = timeout(PATIENCE, whole).await.map_err(|_| "its answer did not end in time".to_owned())?;
        whole.map(|body| body.to_bytes()).map_err(|e| e.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(url: &str) -> Result<Server, String> {
        Server::new(url, || Ok(Trust::System))
    }

    #[test]
    fn tokens_go_in_the_clear_to_this_machine_alone() {
        for (url, authority) in [
            ("http://127.0.0.1:8088", "127.0.0.1:8088"),
            ("http://localhost:1/", "localhost:1"),
            ("http://[::1]:5", "[::1]:5"),
            ("https://muster.example.org", "muster.example.org"),
        ] {
            assert_eq!(server(url).unwrap().authority(), authority);
        }
        for url in ["http://muster.example.org", "http://10.0.0.1:8088"] {
            assert!(server(url).err().unwrap().contains("use https"), "{url}");
        }
        for url in ["", "127.0.0.1:8088", "ftp://localhost", "http://", "http://u:p@localhost", "http://localhost/x"] {
            assert!(server(url).err().unwrap().contains("not an address"), "{url}");
        }
    }

    #[tokio::test]
    async fn a_server_that_is_not_there_is_said_to_be_so() {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let why = server(&format!("http://{free}")).unwrap().connect().await.err().unwrap();
        assert!(why.contains("refused"), "{why}");
    }
}
