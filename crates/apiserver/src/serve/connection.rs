//! One connection from its first byte to its last.

use std::{
    error::Error as StdError,
    io,
    net::SocketAddr,
    pin::{Pin, pin},
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use auth::Peer;
use futures_util::{StreamExt, stream::FuturesUnordered};
use http::{HeaderValue, Request, Response, header};
use http_body::Body;
use hyper::{
    body::Incoming,
    server::conn::{http1, http2},
    service::{Service, service_fn},
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
    time,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    Answers, Limits, Shared, Stats, Tls, flow,
    traffic::{Activity, Observed, Running, Tracked},
};

/// How often a connection that winds up is looked at.
const FAREWELL: Duration = Duration::from_millis(100);

/// How each protocol is spoken; made once per server.
pub(super) struct Protocols {
    http1: http1::Builder,
    http2: http2::Builder<Streams>,
}

impl Protocols {
    pub(super) fn new(limits: &Limits, tasks: TaskTracker, stats: &Arc<Stats>) -> Protocols {
        let mut http1 = http1::Builder::new();
        // Our own watchdog bounds heads: hyper's timer would also cut idle connections, and costs an allocation per request.
        http1.timer(TokioTimer::new()).header_read_timeout(None).max_header_size(limits.head_bytes as usize);
        let mut http2 =
            http2::Builder::new(Streams { tasks, stall_timeout: limits.stall_timeout, stats: Arc::clone(stats) });
        http2
            .timer(TokioTimer::new())
            .max_concurrent_streams(limits.streams)
            .max_header_list_size(limits.head_bytes)
            // Streams opened and reset at once ("rapid reset") end the connection beyond these.
            .max_pending_accept_reset_streams(64)
            .max_local_error_reset_streams(256)
            // What a client may send before it is read, and what is queued for it: enough for speed, and little for a connection.
            .initial_stream_window_size(256 << 10)
            .initial_connection_window_size(1 << 20)
            .max_send_buf_size(256 << 10)
            .keep_alive_interval(Duration::from_secs(30))
            .keep_alive_timeout(Duration::from_secs(20));
        Protocols { http1, http2 }
    }
}

/// Each HTTP/2 request is a task of its own. It ends with its connection, or when its client takes nothing of the answer for long:
/// the connection itself may be well then, so its watchdog sees nothing.
#[derive(Clone)]
struct Streams {
    tasks: TaskTracker,
    stall_timeout: Duration,
    stats: Arc<Stats>,
}

impl<F: Future<Output: Send> + Send + 'static> hyper::rt::Executor<F> for Streams {
    fn execute(&self, stream: F) {
        let (limit, stats) = (self.stall_timeout, Arc::clone(&self.stats));
        self.tasks.spawn(async move {
            if flow::taken(stream, limit).await.is_none() {
                stats.dawdlers_cut.fetch_add(1, Relaxed);
            }
        });
    }
}

pub(super) async fn serve(
    shared: &Shared,
    stream: TcpStream,
    addr: SocketAddr,
    tls: Option<Tls>,
    service: impl Answers,
) {
    let Some(tls) = tls else {
        let Some(Ok(http2)) = before(shared, shared.limits.head_timeout, speaks_http2(&stream)).await else { return };
        return speak(shared, stream, Peer::plain(addr), http2, service).await;
    };
    let stream = match before(shared, shared.limits.handshake_timeout, handshake(tls, stream)).await {
        Some(Ok(stream)) => stream,
        Some(Err(error)) => {
            shared.stats.handshakes_failed.fetch_add(1, Relaxed);
            tracing::debug!(%addr, %error, "TLS handshake failed");
            return;
        }
        None => {
            shared.stats.handshakes_failed.fetch_add(1, Relaxed);
            return;
        }
    };
    let session = stream.get_ref().1;
    let peer = Peer::tls(addr, session.peer_certificates().unwrap_or_default());
    let http2 = session.alpn_protocol() == Some(b"h2");
    speak(shared, stream, peer, http2, service).await;
}

/// The outcome, unless time runs out or the server stops first: nobody waits for a connection that has not asked anything yet.
async fn before<T>(shared: &Shared, limit: Duration, work: impl Future<Output = T>) -> Option<T> {
    time::timeout(limit, shared.stop.run_until_cancelled(work)).await.ok()?
}

async fn handshake(tls: Tls, mut stream: TcpStream) -> io::Result<tokio_rustls::server::TlsStream<TcpStream>> {
    let mut first = [0];
    stream.peek(&mut first).await?;
    if first[0].is_ascii_uppercase() {
        let answer = b"HTTP/1.0 400 Bad Request\r\nContent-Type: text/plain\r\n\r\nThis port speaks HTTPS: use https:// in the address.\n";
        stream.write_all(answer).await?;
        return Err(io::Error::new(io::ErrorKind::InvalidData, "plain HTTP on the TLS port"));
    }
    tls.acceptor().accept(stream).await
}

/// Whether a plain connection opens with HTTP/2's preface. `PR` begins no method that we or anybody serves.
async fn speaks_http2(stream: &TcpStream) -> io::Result<bool> {
    let mut start = [0; 2];
    loop {
        match stream.peek(&mut start).await? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            1 if start[0] == b'P' => time::sleep(Duration::from_millis(10)).await,
            n => return Ok(start[..n] == *b"PR"),
        }
    }
}

async fn speak(
    shared: &Shared,
    io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    peer: Peer,
    http2: bool,
    service: impl Answers,
) {
    let activity = Arc::new(Activity::default());
    let stats = Arc::clone(&shared.stats);
    let called = Arc::clone(&activity);
    let service = service_fn(move |mut request: Request<Incoming>| {
        let running = Running::begin(&called);
        stats.requests.fetch_add(1, Relaxed);
        address_as_host(&mut request);
        request.extensions_mut().insert(peer.clone());
        let answer = service.answer(request);
        async move { answer.await.map(|response| response.map(|body| Tracked::new(body, running))) }
    });
    let io = TokioIo::new(Observed::new(io, Arc::clone(&activity)));
    if http2 {
        let connection = pin!(shared.protocols.http2.serve_connection(io, service));
        drive(shared, connection, Watchdog::http2(activity, &shared.limits)).await;
    } else {
        // What is upgraded leaves the connection here, and belongs to whoever answered so.
        let connection = pin!(shared.protocols.http1.serve_connection(io, service).with_upgrades());
        drive(shared, connection, Watchdog::http1(activity, &shared.limits)).await;
    }
}

/// One place to look for what the client addressed: HTTP/2's `:authority` and an absolute target win over a `Host` header (RFC 9112 §3.2.2).
fn address_as_host(request: &mut Request<Incoming>) {
    let Some(authority) = request.uri().authority() else { return };
    match HeaderValue::from_str(authority.as_str()) {
        Ok(host) => request.headers_mut().insert(header::HOST, host),
        Err(_) => request.headers_mut().remove(header::HOST),
    };
}

async fn drive<C: Conversation>(shared: &Shared, mut connection: Pin<&mut C>, mut watchdog: Watchdog) {
    // In a set of its own, so that the signals are polled when one of them fires and not on every byte of the connection: polling
    // a token takes a lock that all connections share.
    let mut stopping = false;
    let mut signals = FuturesUnordered::new();
    signals.push(signal(shared.stop.clone(), shared.cut.clone(), clock(watchdog.period)));
    loop {
        let (signal, mut ticks) = tokio::select! {
            biased;
            outcome = connection.as_mut() => {
                if let Err(error) = outcome {
                    tracing::debug!(%error, "connection ended early");
                }
                return;
            }
            Some(fired) = signals.next() => fired,
        };
        match signal {
            Signal::Cut => return,
            Signal::Stop => {
                stopping = true;
                connection.as_mut().wind_up();
                ticks = clock(FAREWELL);
            }
            // A client that neither asks nor answers the farewell is not waited for.
            Signal::Tick if stopping => {
                if watchdog.said_farewell() {
                    return;
                }
            }
            Signal::Tick => match watchdog.look() {
                Verdict::Fine => (),
                Verdict::Idle => connection.as_mut().wind_up(),
                Verdict::Dawdling => {
                    shared.stats.dawdlers_cut.fetch_add(1, Relaxed);
                    return;
                }
            },
        }
        // Once told to stop the token stays cancelled: from then on only the others count.
        let stop = if stopping { CancellationToken::new() } else { shared.stop.clone() };
        signals.push(self::signal(stop, shared.cut.clone(), ticks));
    }
}

enum Signal {
    Cut,
    Stop,
    Tick,
}

async fn signal(
    stop: CancellationToken,
    cut: CancellationToken,
    mut ticks: time::Interval,
) -> (Signal, time::Interval) {
    let signal = tokio::select! {
        () = cut.cancelled() => Signal::Cut,
        () = stop.cancelled() => Signal::Stop,
        _ = ticks.tick() => Signal::Tick,
    };
    (signal, ticks)
}

/// Ticks that were missed (a machine that slept) are left out: two looks in a row would see no progress between them.
fn clock(period: Duration) -> time::Interval {
    let mut ticks = time::interval(period);
    ticks.set_missed_tick_behavior(time::MissedTickBehavior::Delay);
    ticks
}

/// A connection of either protocol.
trait Conversation: Future<Output = hyper::Result<()>> {
    /// Takes no further requests, finishes those it has, then ends.
    fn wind_up(self: Pin<&mut Self>);
}

impl<I, S, B> Conversation for http1::UpgradeableConnection<I, S>
where
    S: Service<Request<Incoming>, Response = Response<B>>,
    S::Error: Into<Box<dyn StdError + Send + Sync>>,
    I: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
    B: Body + 'static,
    B::Error: Into<Box<dyn StdError + Send + Sync>>,
{
    fn wind_up(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}

impl<I, S, B, E> Conversation for http2::Connection<I, S, E>
where
    S: Service<Request<Incoming>, Response = Response<B>>,
    S::Error: Into<Box<dyn StdError + Send + Sync>>,
    I: hyper::rt::Read + hyper::rt::Write + Unpin,
    B: Body + 'static,
    B::Error: Into<Box<dyn StdError + Send + Sync>>,
    E: hyper::rt::bounds::Http2ServerConnExec<S::Future, B>,
{
    fn wind_up(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}

/// Judges a connection by what moved between its looks, a few seconds apart.
struct Watchdog {
    activity: Arc<Activity>,
    period: Duration,
    /// Looks without progress that are too many.
    head_looks: u32,
    idle_looks: u32,
    stall_looks: u32,
    begun: u32,
    written: u32,
    /// Looks in a row that found no request, no progress of a head, no progress of a blocked write.
    still: u32,
    waiting_for_head: u32,
    stalled: u32,
    farewell: u32,
    /// On HTTP/2 bytes arrive without any request (pings, windows), so only the first request is awaited.
    http2: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Fine,
    Idle,
    Dawdling,
}

impl Watchdog {
    fn http1(activity: Arc<Activity>, limits: &Limits) -> Watchdog {
        let period = (limits.head_timeout / 2).max(Duration::from_millis(10));
        let looks = |limit: Duration| (limit.as_millis() / period.as_millis()).clamp(2, u128::from(u32::MAX)) as u32;
        Watchdog {
            activity,
            period,
            // The first look comes at once, and a head may have begun just before a look.
            head_looks: looks(limits.head_timeout) + 1,
            idle_looks: looks(limits.idle_timeout) + 1,
            stall_looks: looks(limits.stall_timeout) + 1,
            begun: 0,
            written: 0,
            still: 0,
            waiting_for_head: 0,
            stalled: 0,
            farewell: 0,
            http2: false,
        }
    }

    fn http2(activity: Arc<Activity>, limits: &Limits) -> Watchdog {
        Watchdog { http2: true, ..Watchdog::http1(activity, limits) }
    }

    /// While stopping: whether no request has run for a while.
    fn said_farewell(&mut self) -> bool {
        let running = self.activity.running.load(Relaxed) > 0;
        self.farewell = if running { 0 } else { self.farewell + 1 };
        self.farewell > 3
    }

    fn look(&mut self) -> Verdict {
        let (begun, written) = (self.activity.begun.load(Relaxed), self.activity.written.load(Relaxed));
        let blocked = self.activity.write_blocked.load(Relaxed) && written == self.written;
        self.stalled = if blocked { self.stalled + 1 } else { 0 };
        self.written = written;
        if self.stalled >= self.stall_looks {
            return Verdict::Dawdling;
        }
        if begun != self.begun || self.activity.running.load(Relaxed) > 0 {
            (self.begun, self.still, self.waiting_for_head) = (begun, 0, 0);
            return Verdict::Fine;
        }
        self.still += 1;
        let in_head = begun == 0 || (!self.http2 && self.activity.head_started.load(Relaxed));
        self.waiting_for_head = if in_head { self.waiting_for_head + 1 } else { 0 };
        match () {
            () if self.waiting_for_head >= self.head_looks => Verdict::Dawdling,
            // It was asked to wind up and did not: the other side does not even read.
            () if self.still >= 2 * self.idle_looks => Verdict::Dawdling,
            () if self.still >= self.idle_looks => Verdict::Idle,
            () => Verdict::Fine,
        }
    }
}
