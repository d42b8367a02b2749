//! The listener: TLS or loopback plain HTTP, HTTP/1.1 and HTTP/2, every connection bounded in size, time and number.

mod sent;
mod slow;
mod tls;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::caller::Connection;
use crate::options::{Limits, Options};
use crate::site::Site;
use sent::{Counted, SentBody, Traffic};
use slow::Impatient;
use tls::Identity;

/// Why the face cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("the gateway cannot listen on {address}: {source}")]
    Bind { address: SocketAddr, source: std::io::Error },
    #[error("the gateway speaks plain HTTP on loopback only, not on {0}: configure a certificate and key")]
    NeedsTls(SocketAddr),
    #[error("the gateway cannot use {file}: {why}")]
    Tls { file: String, why: String },
    #[error("the demo's password is known to everybody: it is made on loopback only, not on {0}")]
    DemoInTheOpen(String),
    #[error("the console's first user cannot be made: {0}")]
    Users(String),
}

/// A bound listener, ready to run.
pub(crate) struct Bound {
    listener: TcpListener,
    address: SocketAddr,
    identity: Option<Arc<Identity>>,
    limits: Limits,
}

impl Bound {
    /// Binds the address and reads the certificates.
    pub(crate) async fn new(options: &Options) -> Result<Self, ServeError> {
        let identity = match &options.tls {
            Some(tls) => Some(Arc::new(Identity::load(tls.clone())?)),
            None if options.listen.ip().to_canonical().is_loopback() => None,
            None => return Err(ServeError::NeedsTls(options.listen)),
        };
        let failed = |source| ServeError::Bind { address: options.listen, source };
        let listener = TcpListener::bind(options.listen).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { listener, address, identity, limits: options.limits.clone() })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn is_tls(&self) -> bool {
        self.identity.is_some()
    }

    /// Serves until `shutdown`: no new connections, requests under way finish, and what is left at the deadline is cut.
    pub(crate) async fn run(self, site: Arc<Site>, shutdown: CancellationToken) {
        let Bound { listener, identity, limits, .. } = self;
        let shared = Shared {
            site,
            identity,
            places: Arc::new(Semaphore::new(limits.connections)),
            tasks: TaskTracker::new(),
            limits: Arc::new(limits),
            stop: shutdown,
            cut: CancellationToken::new(),
        };
        shared.site.start();
        shared.accept(&listener).await;
        drop(listener);
        shared.tasks.close();
        // Streams and sockets are told; requests finish by themselves.
        shared.site.stop();
        let ending = async { tokio::join!(shared.tasks.wait(), shared.site.ended()) };
        if timeout(shared.limits.drain_timeout, ending).await.is_err() {
            tracing::warn!(
                connections = shared.tasks.len(),
                "requests still ran at the deadline; their connections are cut"
            );
            shared.cut.cancel();
            shared.site.cut();
            let ending = async { tokio::join!(shared.tasks.wait(), shared.site.ended()) };
            let _ = timeout(Duration::from_secs(2), ending).await;
        }
    }
}

#[derive(Clone)]
struct Shared {
    site: Arc<Site>,
    identity: Option<Arc<Identity>>,
    places: Arc<Semaphore>,
    tasks: TaskTracker,
    limits: Arc<Limits>,
    /// Finish what you have.
    stop: CancellationToken,
    /// Finish now.
    cut: CancellationToken,
}

impl Shared {
    async fn accept(&self, listener: &TcpListener) {
        loop {
            let next = async {
                let accepted = listener.accept().await;
                (Arc::clone(&self.places).acquire_owned().await, accepted)
            };
            let Some((Ok(place), accepted)) = self.stop.run_until_cancelled(next).await else { return };
            match accepted {
                Ok((stream, address)) => {
                    let shared = self.clone();
                    self.tasks.spawn(async move {
                        let cut = shared.cut.clone();
                        cut.run_until_cancelled(shared.connection(stream, address)).await;
                        drop(place);
                    });
                }
                Err(why) => {
                    // Out of descriptors, most likely: a pause lets connections end.
                    tracing::warn!(%why, "cannot accept a connection; trying again");
                    sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }

    async fn connection(self, stream: TcpStream, address: SocketAddr) {
        let _ = stream.set_nodelay(true);
        let address = address.ip().to_canonical();
        let Some(identity) = &self.identity else {
            return self.requests(stream, Connection { address, tls: false, certificate: None }).await;
        };
        match timeout(self.limits.handshake_timeout, identity.accept(stream)).await {
            Ok(Ok((stream, certificate))) => {
                let connection = Connection { address, tls: true, certificate: certificate.map(Arc::new) };
                self.requests(stream, connection).await;
            }
            Ok(Err(why)) => tracing::debug!(%address, %why, "a TLS handshake failed"),
            Err(_) => tracing::debug!(%address, "a TLS handshake took too long"),
        }
    }

    async fn requests(self, stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static, connection: Connection) {
        let traffic = Arc::new(Traffic::default());
        let (site, busy, about, stop) = (self.site.clone(), traffic.clone(), connection.clone(), self.stop.clone());
        let service = service_fn(move |request: hyper::Request<Incoming>| {
            let (site, connection, stop) = (site.clone(), about.clone(), stop.clone());
            let counted = Counted::new(&busy);
            async move {
                let response = site.answer(connection, request).await;
                Ok::<_, Infallible>(response.map(|body| SentBody::new(body, counted, stop)))
            }
        });
        let limits = &self.limits;
        let mut builder = auto::Builder::new(TokioExecutor::new());
        builder
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.head_timeout)
            .max_buf_size((limits.head_bytes as usize).max(8192))
            .http2()
            .timer(TokioTimer::new())
            .max_header_list_size(limits.head_bytes)
            .max_concurrent_streams(100)
            .keep_alive_interval(Some(Duration::from_secs(30)))
            .keep_alive_timeout(Duration::from_secs(20));
        let serving =
            builder.serve_connection_with_upgrades(TokioIo::new(Impatient::new(stream, limits.stall_timeout)), service);
        let mut serving = std::pin::pin!(serving);
        let (mut used, mut seen) = (Instant::now(), 0);
        let mut ending = false;
        loop {
            tokio::select! {
                ended = serving.as_mut() => {
                    if let Err(why) = ended {
                        tracing::debug!(address = %connection.address, %why, "a connection ended badly");
                    }
                    return;
                }
                () = self.stop.cancelled(), if !ending => {
                    ending = true;
                    serving.as_mut().graceful_shutdown();
                }
                () = sleep(limits.idle_timeout / 4) => {
                    let (begun, under_way) = traffic.look();
                    // Short ones come and go between two looks.
                    if under_way || begun != seen {
                        (used, seen) = (Instant::now(), begun);
                    } else if used.elapsed() > limits.idle_timeout {
                        if ending {
                            return;
                        }
                        ending = true;
                        serving.as_mut().graceful_shutdown();
                    }
                }
            }
        }
    }
}
