//! Sends finished spans to a collector: OTLP over HTTP, in protobuf, in batches, never holding up the work that made them.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request, Uri, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use prost::Message;
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    sync::mpsc,
    time::{self, Instant},
};
use tokio_rustls::TlsConnector;
use tokio_util::sync::CancellationToken;

use super::{
    TraceLayer,
    otlp::{self, AnyValue, ExportRequest, KeyValue, Resource, ResourceSpans, Scope, ScopeSpans, Value},
};

/// Spans that wait to be sent; more are dropped.
const WAITING: usize = 4096;
const BATCH: usize = 512;
/// A span waits no longer than this for its batch to fill.
const PAUSE: Duration = Duration::from_secs(2);
/// For one batch, connecting included.
const PATIENCE: Duration = Duration::from_secs(10);

/// Where traces go and what is said of this program.
#[derive(Debug, Clone)]
pub struct ExporterOptions {
    /// The collector, such as `http://127.0.0.1:4318`; `/v1/traces` is added unless a path is given.
    pub endpoint: String,
    /// Further headers, for example an access key.
    pub headers: Vec<(String, String)>,
    /// Authorities of the collector's certificate, instead of the system's.
    pub ca_file: Option<PathBuf>,
    /// Which share of the traces that begin here is kept, 0 to 1. Traces that come from others are kept as they say.
    pub ratio: f64,
    /// `service.name` in the traces.
    pub service: String,
}

/// Why traces cannot be sent.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// Not a URL of a collector.
    #[error("{0:?} is not the address of a collector; write it like http://127.0.0.1:4318")]
    Endpoint(String),
    /// A header that cannot be sent.
    #[error("the header {0:?} cannot be sent")]
    Header(String),
    /// No authorities to trust.
    #[error("the collector's certificate could not be checked: {0}")]
    Authority(String),
}

/// Sends what the layer hands over; [`Exporter::run`] does the work.
pub struct Exporter {
    spans: mpsc::Receiver<otlp::Span>,
    dropped: Arc<AtomicU64>,
    collector: Collector,
    resource: Resource,
}

struct Collector {
    uri: Uri,
    host: String,
    port: u16,
    headers: Vec<(HeaderName, HeaderValue)>,
    tls: Option<TlsConnector>,
}

impl Exporter {
    /// The layer for the subscriber, and the exporter to run. Nothing is sent before it runs.
    pub fn new(options: &ExporterOptions) -> Result<(TraceLayer, Exporter), TraceError> {
        let (finished, spans) = mpsc::channel(WAITING);
        let dropped = Arc::new(AtomicU64::new(0));
        let text = |key: &str, text: &str| KeyValue {
            key: key.to_owned(),
            value: Some(AnyValue { value: Some(Value::Text(text.to_owned())) }),
        };
        let mut attributes =
            vec![text("service.name", &options.service), text("service.version", env!("CARGO_PKG_VERSION"))];
        if let Ok(host) = std::fs::read_to_string("/proc/sys/kernel/hostname") {
            attributes.push(text("host.name", host.trim()));
        }
        let layer = TraceLayer::new(finished, Arc::clone(&dropped), options.ratio);
        let collector = Collector::new(options)?;
        Ok((layer, Exporter { spans, dropped, collector, resource: Resource { attributes } }))
    }

    /// How many spans could not be sent since they last could.
    #[cfg(test)]
    pub(super) fn dropped(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.dropped)
    }

    /// Sends batches until told to stop, then what is left, within a deadline.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut failing = false;
        let mut batch = Vec::with_capacity(BATCH);
        while self.collect(&mut batch, &stop).await {
            self.send(&mut batch, &mut failing).await;
        }
        self.spans.close();
        let rest = async {
            loop {
                while batch.len() < BATCH
                    && let Ok(span) = self.spans.try_recv()
                {
                    batch.push(span);
                }
                if batch.is_empty() {
                    break;
                }
                self.send(&mut batch, &mut failing).await;
            }
        };
        let _ = time::timeout(PATIENCE, rest).await;
    }

    /// Fills a batch; false when it is time to stop.
    async fn collect(&mut self, batch: &mut Vec<otlp::Span>, stop: &CancellationToken) -> bool {
        let first = tokio::select! {
            span = self.spans.recv() => span,
            () = stop.cancelled() => None,
        };
        let Some(first) = first else { return false };
        batch.push(first);
        let full = Instant::now() + PAUSE;
        while batch.len() < BATCH {
            tokio::select! {
                span = self.spans.recv() => match span {
                    Some(span) => batch.push(span),
                    None => return false,
                },
                () = time::sleep_until(full) => break,
                () = stop.cancelled() => return false,
            }
        }
        true
    }

    /// One attempt: a collector that is away costs the traces of that time, and one line in the log.
    async fn send(&self, batch: &mut Vec<otlp::Span>, failing: &mut bool) {
        let count = batch.len();
        let scope = Scope { name: "muster".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() };
        let spans = ScopeSpans { scope: Some(scope), spans: std::mem::take(batch) };
        let spans = ResourceSpans { resource: Some(self.resource.clone()), scope_spans: vec![spans] };
        let body = ExportRequest { resource_spans: vec![spans] }.encode_to_vec();
        let outcome = match time::timeout(PATIENCE, self.collector.post(body)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(format!("no answer within {PATIENCE:?}")),
        };
        match outcome {
            Ok(()) if *failing => {
                let dropped = self.dropped.swap(0, Ordering::Relaxed);
                tracing::info!(collector = %self.collector.uri, dropped, "traces are sent again");
                *failing = false;
            }
            Ok(()) => (),
            Err(why) => {
                self.dropped.fetch_add(count as u64, Ordering::Relaxed);
                if !std::mem::replace(failing, true) {
                    tracing::warn!(collector = %self.collector.uri, %why, "traces cannot be sent; they are dropped until they can");
                }
            }
        }
    }
}

impl Collector {
    fn new(options: &ExporterOptions) -> Result<Collector, TraceError> {
        let wrong = || TraceError::Endpoint(options.endpoint.clone());
        let given: Uri = options.endpoint.parse().map_err(|_| wrong())?;
        let secure = match given.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(wrong()),
        };
        let mut parts = given.into_parts();
        let authority = parts.authority.clone().ok_or_else(wrong)?;
        let path = parts.path_and_query.as_ref().map_or("/", |path| path.as_str());
        if path == "/" {
            parts.path_and_query = Some("/v1/traces".parse().map_err(|_| wrong())?);
        }
        let header = |(name, value): &(String, String)| {
            let wrong = || TraceError::Header(name.clone());
            let mut value = HeaderValue::from_str(value).map_err(|_| wrong())?;
            value.set_sensitive(true);
            Ok((HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong())?, value))
        };
        Ok(Collector {
            uri: Uri::from_parts(parts).map_err(|_| wrong())?,
            host: authority.host().trim_matches(['[', ']']).to_owned(),
            port: authority.port_u16().unwrap_or(if secure { 443 } else { 80 }),
            headers: options.headers.iter().map(header).collect::<Result<_, _>>()?,
            tls: if secure { Some(connector(options.ca_file.as_deref())?) } else { None },
        })
    }

    async fn post(&self, body: Vec<u8>) -> Result<(), String> {
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await.map_err(|e| e.to_string())?;
        match &self.tls {
            None => self.post_over(stream, body).await,
            Some(tls) => {
                let name = ServerName::try_from(self.host.clone()).map_err(|e| e.to_string())?;
                let stream = tls.connect(name, stream).await.map_err(|e| e.to_string())?;
                self.post_over(stream, body).await
            }
        }
    }

    async fn post_over<S>(&self, stream: S, body: Vec<u8>) -> Result<(), String>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let mut request = Request::post(self.uri.path())
            .header(header::HOST, self.uri.authority().map_or("", |authority| authority.as_str()))
            .header(header::CONTENT_TYPE, "application/x-protobuf")
            .header(header::USER_AGENT, concat!("muster/", env!("CARGO_PKG_VERSION")))
            .body(Full::new(Bytes::from(body)))
            .map_err(|e| e.to_string())?;
        request.headers_mut().extend(self.headers.iter().cloned());
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(|e| e.to_string())?;
        let exchange = async {
            let response = sender.send_request(request).await.map_err(|e| e.to_string())?;
            let status = response.status();
            let body = Limited::new(response.into_body(), 4096).collect().await;
            if status.is_success() {
                return Ok(());
            }
            let said = body.map(|body| body.to_bytes()).unwrap_or_default();
            Err(format!("{status} {}", String::from_utf8_lossy(&said).trim()))
        };
        // The connection lives as long as this exchange: nobody else has to look after it.
        tokio::select! {
            outcome = exchange => outcome,
            ended = connection => Err(ended.err().map_or_else(|| "the collector hung up".to_owned(), |e| e.to_string())),
        }
    }
}

/// The system's authorities lie in one of these.
const BUNDLES: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

fn connector(ca_file: Option<&std::path::Path>) -> Result<TlsConnector, TraceError> {
    let wrong = |why: String| TraceError::Authority(why);
    let system = || BUNDLES.iter().map(std::path::Path::new).find(|path| path.exists());
    let path = ca_file.or_else(system).ok_or_else(|| wrong("this system has no file of authorities".to_owned()))?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(path).map_err(|e| wrong(format!("{}: {e}", path.display())))? {
        // Bundles hold certificates of every age; what cannot be read is not trusted.
        let _ = certificate.map(|certificate| roots.add(certificate));
    }
    if roots.is_empty() {
        return Err(wrong(format!("{} holds no certificate", path.display())));
    }
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|e| wrong(e.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}
