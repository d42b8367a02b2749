use std::{
    future::Ready,
    path::Path,
    pin::Pin,
    task::{Context, Poll},
};

use auth::{Authenticator, Peer};
use bytes::Bytes;
use http::{StatusCode, Version, header};
use http_body::Frame;
use http_body_util::{BodyExt, Empty, StreamBody, combinators::UnsyncBoxBody};
use hyper_util::rt::{TokioExecutor, TokioIo};
use pki::{Authority, Identity, Names};
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    sync::mpsc,
    task::JoinHandle,
};

use super::*;

type Answer = UnsyncBoxBody<Bytes, Infallible>;

/// Says who asked and how; `/watch` answers one line and then waits for the end; `/slow` answers when told.
#[derive(Clone)]
struct Echo {
    authenticator: Arc<Authenticator>,
    stop: CancellationToken,
    /// `/slow` waits for this, and says that it does.
    finish: CancellationToken,
    waiting: mpsc::UnboundedSender<()>,
}

impl tower::Service<Request<Incoming>> for Echo {
    type Response = Response<Answer>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Answer>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Incoming>) -> Self::Future {
        let this = self.clone();
        Box::pin(async move {
            let peer = request.extensions().get::<Peer>().cloned().unwrap();
            let user = this.authenticator.authenticate(&peer, request.headers(), request.uri().path());
            let host = request.headers().get(header::HOST).map(|h| h.to_str().unwrap().to_owned());
            let text = format!(
                "{:?} {} tls={} user={} host={}",
                request.version(),
                request.uri().path(),
                peer.is_tls(),
                user.map(|u| u.name.clone()).unwrap_or_else(|e| e.to_string()),
                host.unwrap_or_default()
            );
            let body: Answer = match request.uri().path() {
                "/watch" => {
                    let stop = this.stop.clone();
                    let (send, receive) = mpsc::channel::<Result<Frame<Bytes>, Infallible>>(1);
                    let _ = send.send(Ok(Frame::data(Bytes::from("event\n")))).await;
                    let _ = this.waiting.send(());
                    let held = futures_util::stream::unfold((receive, send, stop), |(mut r, s, stop)| async move {
                        tokio::select! {
                            frame = r.recv() => frame.map(|f| (f, (r, s, stop))),
                            () = stop.cancelled() => None,
                        }
                    });
                    StreamBody::new(Box::pin(held)).boxed_unsync()
                }
                "/slow" => {
                    let _ = this.waiting.send(());
                    this.finish.cancelled().await;
                    whole(text)
                }
                "/body" => whole(request.into_body().collect().await.unwrap().to_bytes()),
                "/large" => whole(vec![b'x'; 64 << 20]),
                _ => whole(text),
            };
            Ok(Response::new(body))
        })
    }
}

fn whole(bytes: impl Into<Bytes>) -> Answer {
    http_body_util::Full::new(bytes.into()).boxed_unsync()
}

/// One running server with both listeners.
struct Rig {
    plain: SocketAddr,
    tls: SocketAddr,
    stats: Arc<Stats>,
    stop: CancellationToken,
    finish: CancellationToken,
    waiting: mpsc::UnboundedReceiver<()>,
    running: JoinHandle<Drained>,
    authority: Authority,
    other: Authority,
    certificates: Arc<Certificates>,
    _dir: tempfile::TempDir,
}

impl Rig {
    async fn new(limits: Limits) -> Rig {
        let dir = tempfile::tempdir().unwrap();
        let authority = Authority::open_or_create(&dir.path().join("pki")).unwrap();
        let other = Authority::open_or_create(&dir.path().join("other")).unwrap();
        let identity = authority.server("server", &Names::local()).unwrap();
        let certificates = Certificates::new(identity.chain().unwrap(), identity.key().unwrap()).unwrap();
        let tls = Tls::new(Arc::clone(&certificates), &[root(&authority)]).unwrap();
        let mut server = Server::new(limits);
        let plain = free(async |addr| server.bind_plain(addr).await).await;
        let tls = free(async |addr| server.bind_tls(addr, tls.clone()).await).await;
        let (stop, finish) = (CancellationToken::new(), CancellationToken::new());
        let (send, waiting) = mpsc::unbounded_channel();
        let echo = Echo {
            authenticator: Arc::new(
                Authenticator::new(auth::Options { anonymous: true, ..auth::Options::default() }).unwrap(),
            ),
            stop: stop.clone(),
            finish: finish.clone(),
            waiting: send,
        };
        let stats = server.stats();
        let running = tokio::spawn(server.run(echo, stop.clone()));
        Rig { plain, tls, stats, stop, finish, waiting, running, authority, other, certificates, _dir: dir }
    }

    async fn raw(&self) -> TcpStream {
        TcpStream::connect(self.plain).await.unwrap()
    }

    /// The same from another address of this machine.
    async fn raw_from(&self, last: u8) -> TcpStream {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::from(([127, 0, 0, last], 0))).unwrap();
        socket.connect(self.plain).await.unwrap()
    }

    async fn secure(
        &self,
        identity: Option<&Identity>,
        protocols: &[&str],
    ) -> io::Result<tokio_rustls::client::TlsStream<TcpStream>> {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(root(&self.authority)).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match identity {
            None => config.with_no_client_auth(),
            Some(i) => config.with_client_auth_cert(i.chain().unwrap(), i.key().unwrap()).unwrap(),
        };
        config.alpn_protocols = protocols.iter().map(|p| p.as_bytes().to_vec()).collect();
        let stream = TcpStream::connect(self.tls).await?;
        let name = ServerName::try_from("localhost").unwrap();
        tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, stream).await
    }

    async fn end(self) -> Drained {
        self.stop.cancel();
        self.running.await.unwrap()
    }
}

/// Binds a port below the range the system hands out by itself.
async fn free(mut bind: impl AsyncFnMut(SocketAddr) -> Result<SocketAddr, BindError>) -> SocketAddr {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let start = 10_000 + std::process::id() as usize % 400 * 20;
    loop {
        let port = u16::try_from(start + NEXT.fetch_add(1, Relaxed)).unwrap();
        match bind(SocketAddr::from(([127, 0, 0, 1], port))).await {
            Err(BindError::InUse { .. }) => continue,
            outcome => return outcome.unwrap(),
        }
    }
}

fn root(authority: &Authority) -> CertificateDer<'static> {
    CertificateDer::from(authority.certificate_der().to_vec())
}

fn short() -> Limits {
    Limits {
        // Not so short that a client on a busy machine is late with what it does say.
        head_timeout: Duration::from_secs(2),
        idle_timeout: Duration::from_secs(2),
        drain_timeout: Duration::from_secs(60),
        ..Limits::default()
    }
}

async fn http1(
    io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> hyper::client::conn::http1::SendRequest<Empty<Bytes>> {
    let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(io)).await.unwrap();
    tokio::spawn(connection);
    sender
}

async fn http2(
    io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> hyper::client::conn::http2::SendRequest<Empty<Bytes>> {
    let (sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(io)).await.unwrap();
    tokio::spawn(connection);
    sender
}

fn get(uri: &str) -> Request<Empty<Bytes>> {
    Request::get(uri).header("host", "from.header").body(Empty::new()).unwrap()
}

async fn text(response: Response<Incoming>) -> String {
    String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

/// Sends bytes on a plain connection and returns all that comes until the server closes it.
async fn exchange(rig: &Rig, bytes: &[u8]) -> String {
    let mut stream = rig.raw().await;
    let _ = stream.write_all(bytes).await;
    closed(stream).await
}

/// Only a failure takes so long.
const PATIENCE: Duration = Duration::from_secs(60);

async fn closed(mut stream: TcpStream) -> String {
    let mut answer = Vec::new();
    let read = time::timeout(PATIENCE, stream.read_to_end(&mut answer)).await;
    assert!(read.is_ok(), "the server never closed the connection");
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn http1_is_served_and_kept_alive() {
    let rig = Rig::new(Limits::default()).await;
    let mut client = http1(rig.raw().await).await;
    for path in ["/a", "/b"] {
        let answer = text(client.send_request(get(path)).await.unwrap()).await;
        assert_eq!(answer, format!("HTTP/1.1 {path} tls=false user=system:anonymous host=from.header"));
    }
    assert_eq!((rig.stats.accepted.load(Relaxed), rig.stats.requests.load(Relaxed)), (1, 2));
    // An absolute target wins over the Host header. // B-5
    let raw =
        exchange(&rig, b"GET http://evil.example/x HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await;
    assert!(raw.contains("host=evil.example"), "{raw}");
    assert_eq!(rig.end().await, Drained { cut: 0 });
}

#[tokio::test]
async fn http2_is_served_with_and_without_tls() {
    let rig = Rig::new(Limits::default()).await;
    let mut plain = http2(rig.raw().await).await;
    let answer = text(plain.send_request(get("http://localhost:6080/p")).await.unwrap()).await;
    assert_eq!(answer, "HTTP/2.0 /p tls=false user=system:anonymous host=localhost:6080");

    let stream = rig.secure(None, &["h2", "http/1.1"]).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let mut client = http2(stream).await;
    // Many at once on one connection.
    let answers = (0..50).map(|n| client.send_request(get(&format!("https://a.example/{n}"))));
    for answer in futures_util::future::join_all(answers).await {
        let answer = answer.unwrap();
        assert_eq!((answer.status(), answer.version()), (StatusCode::OK, Version::HTTP_2));
    }
    assert_eq!(rig.end().await, Drained { cut: 0 });
}

#[tokio::test]
async fn a_client_certificate_is_the_user() {
    let rig = Rig::new(Limits::default()).await;
    let alice = rig.authority.client("alice", "alice", "dev").unwrap();
    for protocol in ["h2", "http/1.1"] {
        let stream = rig.secure(Some(&alice), &[protocol]).await.unwrap();
        let answer = match protocol {
            "h2" => http2(stream).await.send_request(get("https://x/who")).await,
            _ => http1(stream).await.send_request(get("/who")).await,
        };
        let answer = text(answer.unwrap()).await;
        assert!(answer.contains("tls=true user=alice"), "{answer}");
    }
    let nobody = http1(rig.secure(None, &[]).await.unwrap()).await.send_request(get("/")).await.unwrap();
    assert!(text(nobody).await.contains("tls=true user=system:anonymous"));
}

#[tokio::test]
async fn a_client_certificate_of_another_authority_is_refused() {
    let rig = Rig::new(Limits::default()).await;
    let mallory = rig.other.client("mallory", "system:admin", "system:masters").unwrap();
    // TLS 1.3 tells the client only when it reads.
    let refused = match rig.secure(Some(&mallory), &["http/1.1"]).await {
        Err(_) => true,
        Ok(mut stream) => {
            let _ = stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await;
            stream.read_to_end(&mut Vec::new()).await.is_err()
        }
    };
    assert!(refused);
    assert_eq!(rig.stats.requests.load(Relaxed), 0);
}

#[tokio::test]
async fn the_server_certificate_can_be_replaced_while_running() {
    let rig = Rig::new(Limits::default()).await;
    let shown = |stream: tokio_rustls::client::TlsStream<TcpStream>| {
        stream.get_ref().1.peer_certificates().unwrap()[0].as_ref().to_vec()
    };
    let before = shown(rig.secure(None, &[]).await.unwrap());
    let new = rig.authority.server("server-2", &Names::local()).unwrap();
    rig.certificates.replace(new.chain().unwrap(), new.key().unwrap()).unwrap();
    let after = shown(rig.secure(None, &[]).await.unwrap());
    assert_ne!(before, after);
    assert_eq!(after, new.chain().unwrap()[0].as_ref());
}

#[tokio::test]
async fn plain_http_on_the_tls_port_is_told_so() {
    let rig = Rig::new(Limits::default()).await;
    let mut stream = TcpStream::connect(rig.tls).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    let answer = closed(stream).await;
    assert!(answer.starts_with("HTTP/1.0 400") && answer.contains("https://"), "{answer}");
}

#[tokio::test]
async fn huge_heads_and_too_many_headers_are_431() {
    // B-3
    let rig = Rig::new(Limits::default()).await;
    let long = format!("GET / HTTP/1.1\r\nHost: x\r\nX-Long: {}\r\n\r\n", "a".repeat(70 << 10));
    let path = format!("GET /{} HTTP/1.1\r\nHost: x\r\n\r\n", "a".repeat(70 << 10));
    let many = format!("GET / HTTP/1.1\r\nHost: x\r\n{}\r\n", "X-Many: y\r\n".repeat(200));
    let endless = format!("GET / HTTP/1.1\r\nHost: x\r\n{}", "X-Many: y\r\n".repeat(100_000));
    for request in [long, path, many, endless] {
        // A server that stops reading and closes may reset the connection, so the answer itself can be lost with it.
        let mut stream = rig.raw().await;
        let _ = stream.write_all(request.as_bytes()).await;
        let mut answer = [0; 12];
        match time::timeout(PATIENCE, stream.read_exact(&mut answer)).await.expect("closed in time") {
            Ok(_) => assert!(
                answer.starts_with(b"HTTP/1.1 431") || answer.starts_with(b"HTTP/1.1 414"),
                "{}",
                String::from_utf8_lossy(&answer)
            ),
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::ConnectionReset),
        }
    }
    assert_eq!(rig.stats.requests.load(Relaxed), 0);

    let mut client = http2(rig.raw().await).await;
    let mut big = get("http://x/");
    big.headers_mut().insert("x-long", "a".repeat(70 << 10).parse().unwrap());
    let refused = client.send_request(big).await;
    assert!(refused.is_err() || refused.unwrap().status() == StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
    assert_eq!(rig.stats.requests.load(Relaxed), 0);
}

#[tokio::test]
async fn malformed_requests_are_400_or_closed() {
    let rig = Rig::new(Limits::default()).await;
    for request in [
        &b"\x00\x01\x02\x03\r\n\r\n"[..],
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nBad Header: y\r\n\r\n",
        b"POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        b"POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"POST /body HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked, gzip\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nnot the preface at all, not at all",
    ] {
        let answer = exchange(&rig, request).await;
        assert!(answer.starts_with("HTTP/1.1 400") || !answer.starts_with("HTTP/1.1"), "{request:?}: {answer}");
    }
    assert_eq!(rig.stats.requests.load(Relaxed), 0);
}

#[tokio::test]
async fn a_head_that_never_ends_is_cut() {
    // B-3: slow loris, on a new connection and on one that was used before.
    let rig = Rig::new(short()).await;
    assert_eq!(exchange(&rig, b"").await, "");
    assert_eq!(exchange(&rig, b"P").await, "");
    assert_eq!(exchange(&rig, b"GET / HTTP/1.1\r\nHost: x\r\nX-Sl").await, "");
    let used = exchange(&rig, b"GET /first HTTP/1.1\r\nHost: x\r\n\r\nGET /second HT").await;
    assert!(used.contains("/first") && !used.contains("/second"), "{used}");
    assert!(rig.stats.dawdlers_cut.load(Relaxed) >= 1);
    // One byte at a time does not help.
    let mut stream = rig.raw().await;
    let dripping = async {
        stream.write_all(b"GET / HTTP/1.1\r\n").await?;
        loop {
            stream.write_all(b"X").await?;
            time::sleep(Duration::from_millis(20)).await;
        }
        #[allow(unreachable_code)]
        io::Result::Ok(())
    };
    assert!(time::timeout(PATIENCE, dripping).await.expect("cut in time").is_err());
    // A handshake that never ends, likewise.
    let silent = Rig::new(Limits { handshake_timeout: Duration::from_millis(100), ..Limits::default() }).await;
    let mut stream = TcpStream::connect(silent.tls).await.unwrap();
    stream.write_all(&[0x16, 3, 1]).await.unwrap();
    assert_eq!(closed(stream).await, "");
}

#[tokio::test]
async fn idle_connections_are_closed_and_watches_never() {
    let mut rig = Rig::new(short()).await;
    let mut watcher = http1(rig.raw().await).await;
    let mut watch = watcher.send_request(get("/watch")).await.unwrap();
    let mut watcher2 = http2(rig.raw().await).await;
    let mut watch2 = watcher2.send_request(get("http://x/watch")).await.unwrap();
    for watch in [&mut watch, &mut watch2] {
        assert_eq!(watch.frame().await.unwrap().unwrap().into_data().unwrap(), "event\n");
    }
    let mut idle2 = http2(rig.raw().await).await;
    text(idle2.send_request(get("http://x/")).await.unwrap()).await;
    // This one lives as long as any idle connection may; the watches were there before it and outlive it.
    let idle = exchange(&rig, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert!(idle.starts_with("HTTP/1.1 200"));
    while !idle2.is_closed() {
        time::sleep(Duration::from_millis(20)).await;
    }
    time::sleep(Duration::from_secs(3)).await;
    assert_eq!(rig.stats.open.load(Relaxed), 2, "the watches");
    for _ in 0..2 {
        rig.waiting.recv().await.unwrap();
    }
    // Told to stop, the watches end as they should, and the server with them.
    rig.stop.cancel();
    for watch in [watch, watch2] {
        assert_eq!(text(watch).await, "");
    }
    assert_eq!(rig.end().await, Drained { cut: 0 });
}

#[tokio::test]
async fn a_client_that_does_not_read_is_cut() {
    let rig = Rig::new(Limits { stall_timeout: Duration::from_millis(300), ..short() }).await;
    let mut stream = rig.raw().await;
    stream.write_all(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    let start = time::Instant::now();
    while rig.stats.dawdlers_cut.load(Relaxed) == 0 {
        assert!(start.elapsed() < PATIENCE);
        time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(rig.end().await, Drained { cut: 0 });
}

#[tokio::test]
async fn a_stream_that_nobody_reads_is_reset_and_its_connection_goes_on() {
    // B-3: the window of one stream stays shut while the connection answers pings and other requests.
    let rig = Rig::new(Limits { stall_timeout: Duration::from_secs(1), ..Limits::default() }).await;
    for window in [0, 1, 64 << 10] {
        let cut = rig.stats.dawdlers_cut.load(Relaxed);
        let mut builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
        builder.initial_stream_window_size(window);
        let (mut client, connection) = builder.handshake(TokioIo::new(rig.raw().await)).await.unwrap();
        tokio::spawn(connection);
        let mut quiet = None;
        if window > 1 {
            // A watch that has nothing to say is not a client that does not read.
            let mut watch = client.send_request(get("http://x/watch")).await.unwrap();
            assert_eq!(watch.frame().await.unwrap().unwrap().into_data().unwrap(), "event\n");
            quiet = Some(watch);
        }
        let stuck = client.send_request(get("http://x/large")).await.unwrap();
        let start = time::Instant::now();
        while rig.stats.dawdlers_cut.load(Relaxed) == cut {
            assert!(start.elapsed() < PATIENCE, "window {window}: never reset");
            time::sleep(Duration::from_millis(10)).await;
        }
        assert!(stuck.into_body().collect().await.is_err(), "window {window}: reset, not ended");
        assert_eq!(rig.stats.dawdlers_cut.load(Relaxed), cut + 1, "window {window}: that one only");
        assert!(!client.is_closed(), "window {window}: the connection goes on");
        if let Some(watch) = quiet {
            let answer = client.send_request(get("http://x/other")).await.unwrap();
            assert!(text(answer).await.contains("/other"));
            time::sleep(Duration::from_secs(2)).await;
            rig.stop.cancel();
            assert_eq!(text(watch).await, "", "the watch ends as it should");
        }
    }
    assert_eq!(rig.end().await, Drained { cut: 0 });
}

#[tokio::test]
async fn a_slow_reader_of_a_stream_is_not_cut() {
    let rig = Rig::new(Limits { stall_timeout: Duration::from_secs(5), ..Limits::default() }).await;
    let mut builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
    builder.initial_stream_window_size(16 << 20);
    let (mut client, connection) = builder.handshake(TokioIo::new(rig.raw().await)).await.unwrap();
    tokio::spawn(connection);
    let mut slow = client.send_request(get("http://x/large")).await.unwrap();
    let (mut read, mut pauses) = (0, 0);
    while let Some(frame) = slow.frame().await {
        read += frame.unwrap().into_data().unwrap().len();
        if read / (16 << 20) > pauses {
            pauses += 1;
            time::sleep(Duration::from_secs(2)).await;
        }
    }
    assert_eq!((read, rig.stats.dawdlers_cut.load(Relaxed)), (64 << 20, 0));
}

#[tokio::test]
async fn stopping_lets_requests_finish_and_takes_no_new_ones() {
    let mut rig = Rig::new(Limits::default()).await;
    let mut one = http1(rig.raw().await).await;
    let mut two = http2(rig.secure(None, &["h2"]).await.unwrap()).await;
    let idle = rig.raw().await;
    // Connected, and never says a word: neither is waited for.
    let _silent = rig.secure(None, &["http/1.1"]).await.unwrap();
    let _silent2 = rig.secure(None, &["h2"]).await.unwrap();
    let mut half = rig.raw().await;
    half.write_all(b"GET /half HT").await.unwrap();
    let slow = tokio::spawn(async move { text(one.send_request(get("/slow")).await.unwrap()).await });
    let slow2 = tokio::spawn(async move { text(two.send_request(get("https://x/slow")).await.unwrap()).await });
    for _ in 0..2 {
        rig.waiting.recv().await.unwrap();
    }
    rig.stop.cancel();
    assert_eq!(closed(idle).await, "", "nobody waits for a connection without a request");
    while TcpStream::connect(rig.plain).await.is_ok() {
        time::sleep(Duration::from_millis(5)).await;
    }
    assert!(!rig.running.is_finished());
    rig.finish.cancel();
    assert!(slow.await.unwrap().contains("/slow") && slow2.await.unwrap().contains("/slow"));
    assert_eq!(rig.end().await, Drained { cut: 0 });
}

#[tokio::test]
async fn requests_that_never_finish_are_cut_at_the_deadline() {
    let mut rig = Rig::new(Limits { drain_timeout: Duration::from_millis(100), ..Limits::default() }).await;
    let mut one = http1(rig.raw().await).await;
    let mut two = http2(rig.raw().await).await;
    let slow = tokio::spawn(async move { one.send_request(get("/slow")).await.is_err() });
    let slow2 = tokio::spawn(async move { two.send_request(get("http://x/slow")).await.is_err() });
    for _ in 0..2 {
        rig.waiting.recv().await.unwrap();
    }
    assert_eq!(rig.end().await, Drained { cut: 2 });
    assert!(slow.await.unwrap() && slow2.await.unwrap());
}

#[tokio::test]
async fn more_connections_than_allowed_wait_for_a_place() {
    let rig = Rig::new(Limits { connections: 1, ..Limits::default() }).await;
    let mut first = http1(rig.raw().await).await;
    text(first.send_request(get("/")).await.unwrap()).await;
    let mut second = http1(rig.raw_from(2).await).await;
    let waiting = tokio::spawn(async move { text(second.send_request(get("/second")).await.unwrap()).await });
    time::sleep(Duration::from_millis(50)).await;
    assert_eq!(rig.stats.open.load(Relaxed), 1);
    drop(first);
    assert!(waiting.await.unwrap().contains("/second"));
}

#[tokio::test]
async fn an_address_that_takes_all_it_can_get_leaves_room_for_others() {
    let rig = Rig::new(Limits { connections: 8, ..Limits::default() }).await;
    // Never authenticated: they say nothing at all.
    let mut greedy = Vec::new();
    for _ in 0..6 {
        greedy.push(rig.raw().await);
    }
    while rig.stats.open.load(Relaxed) < 6 {
        time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(closed(rig.raw().await).await, "", "its share is taken, so it is closed without a word");
    assert_eq!(rig.stats.turned_away.load(Relaxed), 1);
    let mut other = http1(rig.raw_from(2).await).await;
    assert!(text(other.send_request(get("/other")).await.unwrap()).await.contains("/other"));
    // What ends is given back.
    greedy.pop();
    while rig.stats.open.load(Relaxed) > 6 {
        time::sleep(Duration::from_millis(5)).await;
    }
    let mut again = http1(rig.raw().await).await;
    assert!(text(again.send_request(get("/again")).await.unwrap()).await.contains("/again"));
}

#[tokio::test]
async fn listening_fails_clearly() {
    let mut server = Server::new(Limits::default());
    let taken = free(async |addr| server.bind_plain(addr).await).await;
    let error = server.bind_plain(taken).await.unwrap_err();
    assert!(matches!(error, BindError::InUse { .. }) && error.to_string().contains(&taken.to_string()), "{error}");
    for open in ["0.0.0.0:0", "192.0.2.1:0", "[::]:0"] {
        let error = server.bind_plain(open.parse().unwrap()).await.unwrap_err();
        assert!(matches!(error, BindError::NotLoopback { .. }), "{error}");
    }
    let nowhere = "192.0.2.1:0".parse().unwrap();
    let error = server.bind(nowhere, None).await.unwrap_err();
    assert!(matches!(error, BindError::NoSuchAddress { .. }), "{error}");
}

#[test]
fn a_key_that_does_not_fit_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::open_or_create(Path::new(dir.path())).unwrap();
    let (a, b) = (authority.server("a", &Names::local()).unwrap(), authority.server("b", &Names::local()).unwrap());
    assert!(matches!(Certificates::new(a.chain().unwrap(), b.key().unwrap()), Err(TlsError::Certificate(_))));
}

/// The service may be anything that is always ready, also one without an allocation per request.
#[test]
fn plain_functions_are_services() {
    fn served(_: impl Answers) {}
    fn answer(_: Request<Incoming>) -> Ready<Result<Response<Empty<Bytes>>, Infallible>> {
        std::future::ready(Ok(Response::new(Empty::new())))
    }
    served(tower::service_fn(answer));
}

/// `cargo test --release -p muster-apiserver requests_per_second -- --ignored --nocapture`
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement; client and server share the machine"]
async fn requests_per_second() {
    async fn load(name: &str, senders: Vec<Sender>) {
        let (count, end) = (Arc::new(AtomicU64::new(0)), time::Instant::now() + Duration::from_secs(3));
        let clients = senders.into_iter().map(|mut sender| {
            let count = Arc::clone(&count);
            tokio::spawn(async move {
                while time::Instant::now() < end {
                    let answer = match &mut sender {
                        Sender::One(one) => one.send_request(get("/x")).await.unwrap(),
                        Sender::Two(two) => two.send_request(get("https://localhost/x")).await.unwrap(),
                    };
                    answer.into_body().collect().await.unwrap();
                    count.fetch_add(1, Relaxed);
                }
            })
        });
        futures_util::future::join_all(clients.collect::<Vec<_>>()).await;
        println!("{name}: {} requests/s", count.load(Relaxed) / 3);
    }
    enum Sender {
        One(hyper::client::conn::http1::SendRequest<Empty<Bytes>>),
        Two(hyper::client::conn::http2::SendRequest<Empty<Bytes>>),
    }
    let rig = Rig::new(Limits::default()).await;
    let admin = rig.authority.client("admin", auth::ADMIN, auth::MASTERS).unwrap();
    let mut plain = Vec::new();
    let mut secure = Vec::new();
    let mut many = Vec::new();
    for _ in 0..64 {
        plain.push(Sender::One(http1(rig.raw().await).await));
        secure.push(Sender::One(http1(rig.secure(Some(&admin), &["http/1.1"]).await.unwrap()).await));
        many.push(Sender::Two(http2(rig.secure(Some(&admin), &["h2"]).await.unwrap()).await));
    }
    load("plain HTTP/1.1, 64 connections", plain).await;
    load("TLS HTTP/1.1, 64 connections", secure).await;
    load("TLS HTTP/2, 64 connections", many).await;
    let one = http2(rig.secure(Some(&admin), &["h2"]).await.unwrap()).await;
    load("TLS HTTP/2, 1 connection, 64 at once", (0..64).map(|_| Sender::Two(one.clone())).collect()).await;
    let handshakes = time::Instant::now();
    for _ in 0..200 {
        rig.secure(Some(&admin), &["h2"]).await.unwrap();
    }
    println!(
        "full handshakes with client certificate: {:.2} ms each, both sides",
        handshakes.elapsed().as_secs_f64() * 5.0
    );
}
