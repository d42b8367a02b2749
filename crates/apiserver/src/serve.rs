//! The listeners: TLS and loopback plain HTTP, HTTP/1.1 and HTTP/2, each connection bounded in size, time and number.
//!
//! A connection is one task. It ends when its client goes, when it has been idle for long (never while a request, such as a watch,
//! runs on it), when its client dawdles over the head of a request, or with the server. The first listener that stops stops nothing
//! else; all stop together, by the token given to [`Server::run`]: no new connections, a GOAWAY on the open ones, requests finish
//! (watches hold the same token and end themselves), and what is left at the deadline is cut.

mod connection;
mod flow;
mod shares;
mod tls;
mod traffic;
mod workers;

#[cfg(test)]
mod tests;

use std::{
    convert::Infallible,
    error::Error as StdError,
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use hyper::body::Incoming;
use socket2::{SockRef, TcpKeepalive};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    time,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub use tls::{Certificates, Tls, TlsError};

use connection::Protocols;
use shares::{Share, Shares};
use workers::Workers;

/// What a connection may cost. The defaults are for a server open to a network.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Open connections; further ones wait in the listen queue until one closes. One address gets three quarters of them, and
    /// is turned away beyond.
    pub connections: usize,
    /// Bytes of a request's head (431 beyond). More than 100 header fields on HTTP/1.1 are 431 as well.
    pub head_bytes: u32,
    /// From the first byte of a request to the end of its head, and from connecting to the first request.
    pub head_timeout: Duration,
    pub handshake_timeout: Duration,
    /// How long a connection may stay open with no request on it.
    pub idle_timeout: Duration,
    /// How long a client may leave a full socket, or the window of one HTTP/2 stream, unread while we have something for it.
    pub stall_timeout: Duration,
    /// Requests at once on one HTTP/2 connection. Clients run all their watches on one.
    pub streams: u32,
    /// How long requests may take to finish once the server stops.
    pub drain_timeout: Duration,
    /// Threads of their own for connections; 0 serves them on the caller's runtime.
    pub threads: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections: 10_000,
            head_bytes: 64 << 10,
            head_timeout: Duration::from_secs(10),
            handshake_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(180),
            stall_timeout: Duration::from_secs(60),
            streams: 1000,
            drain_timeout: Duration::from_secs(10),
            threads: 0,
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum BindError {
    #[error("cannot listen on {addr}: another program uses this port")]
    InUse { addr: SocketAddr },
    #[error("cannot listen on {addr}: ports below 1024 need more rights than this user has")]
    Denied { addr: SocketAddr },
    #[error("cannot listen on {addr}: this machine has no such address")]
    NoSuchAddress { addr: SocketAddr },
    #[error("plain HTTP is served on loopback only, not on {addr}")]
    NotLoopback { addr: SocketAddr },
    #[error("cannot listen on {addr}: {source}")]
    Other { addr: SocketAddr, source: io::Error },
}

/// What happened on the listeners, for metrics.
#[derive(Debug, Default)]
pub struct Stats {
    pub accepted: AtomicU64,
    pub open: AtomicUsize,
    pub requests: AtomicU64,
    pub handshakes_failed: AtomicU64,
    /// Connections turned away because their address had its share.
    pub turned_away: AtomicU64,
    /// Connections closed because a head did not arrive in time, or because nobody read what was sent; streams reset for the latter.
    pub dawdlers_cut: AtomicU64,
}

/// How the server ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drained {
    /// Connections that still had work at the deadline and were cut.
    pub cut: usize,
}

/// What can be served: a tower service that takes requests as they come from the wire, is always ready, never fails, and answers
/// with bytes. Every such service is one; there is nothing to implement.
pub trait Answers: Clone + Send + 'static {
    type Body: Body<Data = Bytes, Error: Into<Box<dyn StdError + Send + Sync>>> + Send + Unpin + 'static;
    type Answer: Future<Output = Result<Response<Self::Body>, Infallible>> + Send;

    fn answer(&self, request: Request<Incoming>) -> Self::Answer;
}

impl<S, B> Answers for S
where
    S: tower::Service<Request<Incoming>, Response = Response<B>, Error = Infallible, Future: Send>,
    S: Clone + Send + 'static,
    B: Body<Data = Bytes, Error: Into<Box<dyn StdError + Send + Sync>>> + Send + Unpin + 'static,
{
    type Body = B;
    type Answer = S::Future;

    fn answer(&self, request: Request<Incoming>) -> S::Future {
        self.clone().call(request)
    }
}

/// Bound listeners, ready to run.
pub struct Server {
    limits: Limits,
    stats: Arc<Stats>,
    listeners: Vec<(TcpListener, Option<Tls>)>,
}

impl Server {
    pub fn new(limits: Limits) -> Server {
        Server { limits, stats: Arc::default(), listeners: Vec::new() }
    }

    /// Plain HTTP, on a loopback address. Port 0 takes a free one; the answer is the address bound.
    pub async fn bind_plain(&mut self, addr: SocketAddr) -> Result<SocketAddr, BindError> {
        if !addr.ip().to_canonical().is_loopback() {
            return Err(BindError::NotLoopback { addr });
        }
        self.bind(addr, None).await
    }

    pub async fn bind_tls(&mut self, addr: SocketAddr, tls: Tls) -> Result<SocketAddr, BindError> {
        self.bind(addr, Some(tls)).await
    }

    async fn bind(&mut self, addr: SocketAddr, tls: Option<Tls>) -> Result<SocketAddr, BindError> {
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::AddrInUse => BindError::InUse { addr },
            io::ErrorKind::PermissionDenied => BindError::Denied { addr },
            io::ErrorKind::AddrNotAvailable => BindError::NoSuchAddress { addr },
            _ => BindError::Other { addr, source },
        };
        let listener = TcpListener::bind(addr).await.map_err(failed)?;
        let bound = listener.local_addr().map_err(failed)?;
        self.listeners.push((listener, tls));
        Ok(bound)
    }

    pub fn stats(&self) -> Arc<Stats> {
        Arc::clone(&self.stats)
    }

    /// Serves until `stop`, then drains. Every request carries the [`auth::Peer`] of its connection in its extensions, and as its `Host`
    /// the authority it was addressed to, whatever the protocol. The service must always be ready.
    pub async fn run(self, service: impl Answers, stop: CancellationToken) -> Drained {
        let drain_timeout = self.limits.drain_timeout;
        let workers = Arc::new(Workers::start(self.limits.threads).unwrap_or_else(|error| {
            tracing::error!(%error, "cannot start serving threads; serving on the main ones");
            Workers::none()
        }));
        let cut = CancellationToken::new();
        let tasks = TaskTracker::new();
        let shared = Shared {
            places: Arc::new(Semaphore::new(self.limits.connections)),
            shares: Shares::of(self.limits.connections),
            protocols: Arc::new(Protocols::new(&self.limits, tasks.clone(), &self.stats)),
            limits: Arc::new(self.limits),
            stats: Arc::clone(&self.stats),
            tasks: tasks.clone(),
            stop: stop.clone(),
            cut: cut.clone(),
        };
        for (listener, tls) in self.listeners {
            let listening = shared.clone().accept(listener, tls, service.clone(), Arc::clone(&workers));
            tasks.spawn(listening);
        }
        stop.cancelled().await;
        tasks.close();
        if time::timeout(drain_timeout, tasks.wait()).await.is_ok() {
            return Drained { cut: 0 };
        }
        let left = self.stats.open.load(Relaxed);
        tracing::warn!(connections = left, "requests still ran at the deadline; their connections are cut");
        cut.cancel();
        // Tasks end at once when cut; a handler that never yields must not hold up the exit.
        let _ = time::timeout(Duration::from_secs(2), tasks.wait()).await;
        Drained { cut: left }
    }
}

/// What every connection needs to know of its server.
#[derive(Clone)]
struct Shared {
    limits: Arc<Limits>,
    stats: Arc<Stats>,
    protocols: Arc<Protocols>,
    places: Arc<Semaphore>,
    shares: Arc<Shares>,
    tasks: TaskTracker,
    /// Finish what you have.
    stop: CancellationToken,
    /// Finish now.
    cut: CancellationToken,
}

impl Shared {
    async fn accept(self, listener: TcpListener, tls: Option<Tls>, service: impl Answers, workers: Arc<Workers>) {
        loop {
            let Some(accepted) = self.stop.run_until_cancelled(listener.accept()).await else { return };
            let (stream, addr) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Out of descriptors, most likely: a pause lets connections end. A client that gave up early needs none.
                    if !matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset) {
                        tracing::error!(%error, "cannot accept connections; trying again");
                        time::sleep(Duration::from_millis(100)).await;
                    }
                    continue;
                }
            };
            self.stats.accepted.fetch_add(1, Relaxed);
            // At once: whoever has its share must not keep the others waiting.
            let Some(share) = self.shares.take(addr.ip()) else {
                self.turn_away(addr);
                continue;
            };
            // Only now: a listener that waits for its next connection must not hold a place the others could use.
            let place = self.stop.run_until_cancelled(Arc::clone(&self.places).acquire_owned()).await;
            let Some(Ok(place)) = place else { return };
            let place = Place { _all: place, _own: share };
            prepare(&stream);
            let (shared, tls, service) = (self.clone(), tls.clone(), service.clone());
            let Some(thread) = workers.pick() else {
                self.tasks.spawn(shared.serve(stream, addr, tls, service, place));
                continue;
            };
            // A socket belongs to the runtime it is made in.
            let Ok(stream) = stream.into_std() else { continue };
            let moved = async move {
                if let Ok(stream) = TcpStream::from_std(stream) {
                    shared.serve(stream, addr, tls, service, place).await;
                }
            };
            self.tasks.spawn_on(moved, thread);
        }
    }
}

impl Shared {
    fn turn_away(&self, addr: SocketAddr) {
        let so_far = self.stats.turned_away.fetch_add(1, Relaxed);
        // Once in a while: a flood of connections must not become a flood of lines.
        if so_far.is_multiple_of(1000) {
            tracing::warn!(
                address = %addr.ip(), turned_away = so_far + 1,
                "an address has its share of the connections open; further ones are closed at once"
            );
        }
    }

    async fn serve(self, stream: TcpStream, addr: SocketAddr, tls: Option<Tls>, service: impl Answers, place: Place) {
        self.stats.open.fetch_add(1, Relaxed);
        connection::serve(&self, stream, addr, tls, service).await;
        drop(place);
        self.stats.open.fetch_sub(1, Relaxed);
    }
}

/// Room for a connection among all, and among those of its address.
struct Place {
    _all: OwnedSemaphorePermit,
    _own: Share,
}

/// Answers leave at once, and a client that vanished without a word (a cable, a power cut) is found out even under a quiet watch.
fn prepare(stream: &TcpStream) {
    let _ = stream.set_nodelay(true);
    let keepalive = TcpKeepalive::new().with_time(Duration::from_secs(60)).with_interval(Duration::from_secs(15));
    let _ = SockRef::from(stream).set_tcp_keepalive(&keepalive);
}
