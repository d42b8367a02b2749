//! The addresses a program is watched and looked after by: health, figures, profiles, log level, reconcilers.

mod admin;
mod answer;
mod debug;
mod exposition;
mod routes;
#[cfg(test)]
mod tests;

use std::{convert::Infallible, io, net::SocketAddr, sync::Arc, time::Duration};

use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::ServerConfig;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use self::routes::Way;
pub use self::{admin::Admin, debug::debug, routes::metrics};
use crate::{Handle, Metrics, health::Health};

/// Connections at once to one address: probes, scrapers, a few people.
const MOST_CONNECTIONS: usize = 128;
/// For a handshake, and for the head of a request.
const PATIENCE: Duration = Duration::from_secs(10);
/// For requests under way when told to stop.
const GRACE: Duration = Duration::from_secs(5);

/// What is shown.
#[derive(Default)]
pub struct Endpoints {
    /// For `/livez` and `/readyz`.
    pub health: Health,
    /// For `/metrics`.
    pub metrics: Metrics,
    /// For `/controllers`.
    pub manager: Option<Handle>,
    /// Lets administrators in; without it nobody is.
    pub admin: Option<Admin>,
    /// For `/debug/loglevel`.
    pub log: Option<Arc<dyn LogLevel>>,
}

/// How much is logged, changed while the program runs.
pub trait LogLevel: Send + Sync {
    /// As it is now.
    fn level(&self) -> String;
    /// A number as for `-v`, or a filter such as `warn,muster=debug`.
    fn set_level(&self, level: &str) -> Result<(), String>;
}

/// Which of the paths an address answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Serves {
    /// `/livez`, `/readyz`.
    pub health: bool,
    /// `/metrics`.
    pub metrics: bool,
    /// `/debug/`, `/controllers`, for administrators.
    pub admin: bool,
}

/// An address that cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {addr}: {source}")]
pub struct ListenError {
    /// The address.
    pub addr: SocketAddr,
    /// What the system says.
    pub source: io::Error,
}

/// A bound address, not yet answering.
pub struct Server {
    listener: TcpListener,
    serves: Serves,
    tls: Option<TlsAcceptor>,
}

impl Server {
    /// Takes the address.
    pub async fn bind(addr: SocketAddr, serves: Serves, tls: Option<Arc<ServerConfig>>) -> Result<Server, ListenError> {
        let listener = TcpListener::bind(addr).await.map_err(|source| ListenError { addr, source })?;
        Ok(Server { listener, serves, tls: tls.map(TlsAcceptor::from) })
    }

    /// Where it listens; of use when port 0 was asked for.
    pub fn addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers until told to stop, then lets answers under way be finished, for a moment.
    pub async fn run(self, endpoints: Arc<Endpoints>, stop: CancellationToken) {
        let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
        let mut connections = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                Some(_) = connections.join_next() => continue,
                () = stop.cancelled() => break,
            };
            let (stream, peer) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::debug!(%error, "a connection could not be accepted");
                    sleep(Duration::from_millis(50)).await;
                    continue;
                }
            };
            // One too many is closed at once: whoever probes comes back.
            let Ok(place) = Arc::clone(&places).try_acquire_owned() else { continue };
            let (endpoints, stop) = (Arc::clone(&endpoints), stop.clone());
            let (serves, tls) = (self.serves, self.tls.clone());
            connections.spawn(async move {
                let _place = place;
                match tls {
                    None => talk(stream, endpoints, serves, Way { peer, encrypted: false }, stop).await,
                    Some(tls) => {
                        if let Some(stream) = handshake(&tls, stream).await {
                            talk(stream, endpoints, serves, Way { peer, encrypted: true }, stop).await;
                        }
                    }
                }
            });
        }
        let _ = timeout(GRACE, async { while connections.join_next().await.is_some() {} }).await;
    }
}

async fn handshake(tls: &TlsAcceptor, stream: TcpStream) -> Option<tokio_rustls::server::TlsStream<TcpStream>> {
    match timeout(PATIENCE, tls.accept(stream)).await {
        Ok(Ok(stream)) => Some(stream),
        Ok(Err(error)) => {
            tracing::debug!(%error, "TLS handshake failed");
            None
        }
        Err(_) => None,
    }
}

async fn talk<S>(stream: S, endpoints: Arc<Endpoints>, serves: Serves, way: Way, stop: CancellationToken)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let answer = service_fn(move |request| {
        let endpoints = Arc::clone(&endpoints);
        async move { Ok::<_, Infallible>(routes::route(&endpoints, serves, way, request).await) }
    });
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(PATIENCE).max_buf_size(16 << 10);
    let connection = server.serve_connection(TokioIo::new(stream), answer);
    tokio::pin!(connection);
    tokio::select! {
        _ = connection.as_mut() => return,
        () = stop.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}
