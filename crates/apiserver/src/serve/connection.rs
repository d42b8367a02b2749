//! One connection from its first byte to its last.

use std::{
    convert::Infallible,
    error::Error as StdError,
    io,
    net::SocketAddr,
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
    },
    task::{Context, Poll},
    time::Duration,
};

use auth::Peer;
use futures_util::{StreamExt, stream::FuturesUnordered};
use http::{HeaderValue, Request, Response, header};
use http_body::{Body, Frame, SizeHint};
use hyper::{
    body::Incoming,
    server::conn::{http1, http2},
    service::{Service, service_fn},
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf},
    net::TcpStream,
    time,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{Limits, Shared, Tls};

/// How each protocol is spoken; made once per server.
pub(super) struct Protocols {
    http1: http1::Builder,
    http2: http2::Builder<Streams>,
}

impl Protocols {
    pub(super) fn new(limits: &Limits, tasks: TaskTracker) -> Protocols {
        let mut http1 = http1::Builder::new();
        // Our own watchdog bounds heads: hyper's timer would also cut idle connections, and costs an allocation per request.
        http1.timer(TokioTimer::new()).header_read_timeout(None).max_header_size(limits.head_bytes as usize);
        let mut http2 = http2::Builder::new(Streams(tasks));
        http2
            .timer(TokioTimer::new())
            .max_concurrent_streams(limits.streams)
            .max_header_list_size(limits.head_bytes)
            // Streams opened and reset at once ("rapid reset") end the connection beyond these.
            .max_pending_accept_reset_streams(64)
            .max_local_error_reset_streams(256)
            // What a client may send before it is read: enough for whole bodies, and little for a connection in total.
            .initial_stream_window_size(256 << 10)
            .initial_connection_window_size(1 << 20)
            .max_send_buf_size(1 << 20)
            .keep_alive_interval(Duration::from_secs(30))
            .keep_alive_timeout(Duration::from_secs(20));
        Protocols { http1, http2 }
    }
}

/// Each HTTP/2 request is a task of its own, so that requests of one connection use all cores. It ends with its connection.
#[derive(Clone)]
struct Streams(TaskTracker);

impl<F: Future<Output: Send> + Send + 'static> hyper::rt::Executor<F> for Streams {
    fn execute(&self, stream: F) {
        self.0.spawn(stream);
    }
}

pub(super) async fn serve<S, B>(shared: &Shared, stream: TcpStream, addr: SocketAddr, tls: Option<Tls>, service: S)
where
    S: tower::Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
    B: Body + Send + Unpin + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn StdError + Send + Sync>>,
{
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

async fn speak<I, S, B>(shared: &Shared, io: I, peer: Peer, http2: bool, service: S)
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: tower::Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
    B: Body + Send + Unpin + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn StdError + Send + Sync>>,
{
    let activity = Arc::new(Activity::default());
    let stats = Arc::clone(&shared.stats);
    let called = Arc::clone(&activity);
    let service = service_fn(move |mut request: Request<Incoming>| {
        let running = Running::begin(&called);
        stats.requests.fetch_add(1, Relaxed);
        address_as_host(&mut request);
        request.extensions_mut().insert(peer.clone());
        let answer = service.clone().call(request);
        async move { answer.await.map(|response| response.map(|body| Tracked { body, _running: running })) }
    });
    let io = TokioIo::new(Observed { io, activity: Arc::clone(&activity) });
    if http2 {
        let connection = pin!(shared.protocols.http2.serve_connection(io, service));
        drive(shared, connection, Watchdog::http2(activity, &shared.limits)).await;
    } else {
        let connection = pin!(shared.protocols.http1.serve_connection(io, service));
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
    // In a set of its own, so that the signals are polled when one of them fires and not on every byte of the connection.
    let mut signals = FuturesUnordered::new();
    signals.push(signal(shared.stop.clone(), time::interval(watchdog.period)));
    loop {
        let (signal, rest) = tokio::select! {
            biased;
            outcome = connection.as_mut() => {
                if let Err(error) = outcome {
                    tracing::debug!(%error, "connection ended early");
                }
                return;
            }
            Some(fired) = signals.next() => fired,
        };
        let (stop, interval) = rest;
        match signal {
            Signal::Stop => connection.as_mut().wind_up(),
            Signal::Tick => match watchdog.look() {
                Verdict::Fine => (),
                Verdict::Idle => connection.as_mut().wind_up(),
                Verdict::Dawdling => {
                    shared.stats.dawdlers_cut.fetch_add(1, Relaxed);
                    return;
                }
            },
        }
        // Once told to stop the token stays cancelled: from then on only the clock counts.
        let stop = if matches!(signal, Signal::Stop) { CancellationToken::new() } else { stop };
        signals.push(self::signal(stop, interval));
    }
}

enum Signal {
    Stop,
    Tick,
}

async fn signal(stop: CancellationToken, mut clock: time::Interval) -> (Signal, (CancellationToken, time::Interval)) {
    let signal = tokio::select! {
        () = stop.cancelled() => Signal::Stop,
        _ = clock.tick() => Signal::Tick,
    };
    (signal, (stop, clock))
}

/// A connection of either protocol.
trait Conversation: Future<Output = hyper::Result<()>> {
    /// Takes no further requests, finishes those it has, then ends.
    fn wind_up(self: Pin<&mut Self>);
}

impl<I, S, B> Conversation for http1::Connection<I, S>
where
    S: Service<Request<Incoming>, Response = Response<B>>,
    S::Error: Into<Box<dyn StdError + Send + Sync>>,
    I: hyper::rt::Read + hyper::rt::Write + Unpin,
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

/// What the watchdog sees of a connection. Written on the fast path, so plain counters and no clock.
#[derive(Debug, Default)]
struct Activity {
    /// Requests begun, ever.
    begun: AtomicU32,
    /// Requests whose answer has not been sent in full.
    running: AtomicU32,
    /// Bytes have arrived since the last request began; on HTTP/1.1 that is the start of a head.
    head_started: AtomicBool,
    /// Successful writes, ever (wraps).
    written: AtomicU32,
    /// The last write found the socket full.
    write_blocked: AtomicBool,
}

/// Counts a request as running until its answer has been sent or given up.
struct Running(Arc<Activity>);

impl Running {
    fn begin(activity: &Arc<Activity>) -> Running {
        activity.begun.fetch_add(1, Relaxed);
        activity.running.fetch_add(1, Relaxed);
        activity.head_started.store(false, Relaxed);
        Running(Arc::clone(activity))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Relaxed);
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
            http2: false,
        }
    }

    fn http2(activity: Arc<Activity>, limits: &Limits) -> Watchdog {
        Watchdog { http2: true, ..Watchdog::http1(activity, limits) }
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

/// The bytes of a connection, noting when they move.
struct Observed<I> {
    io: I,
    activity: Arc<Activity>,
}

impl<I: AsyncRead + Unpin> AsyncRead for Observed<I> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        let outcome = Pin::new(&mut this.io).poll_read(cx, buf);
        if buf.filled().len() != before {
            this.activity.head_started.store(true, Relaxed);
        }
        outcome
    }
}

impl<I> Observed<I> {
    fn wrote(&self, outcome: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        let blocked = outcome.is_pending();
        if !blocked {
            self.activity.written.fetch_add(1, Relaxed);
        }
        self.activity.write_blocked.store(blocked, Relaxed);
        outcome
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for Observed<I> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let outcome = Pin::new(&mut this.io).poll_write(cx, buf);
        this.wrote(outcome)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let outcome = Pin::new(&mut this.io).poll_write_vectored(cx, bufs);
        this.wrote(outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_shutdown(cx)
    }
}

/// An answer's body that keeps its request counted as running.
struct Tracked<B> {
    body: B,
    _running: Running,
}

impl<B: Body + Unpin> Body for Tracked<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.get_mut().body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
