//! A member: an API server and everybody who works in its cluster, reached in-process or by HTTPS.

use std::convert::Infallible;
use std::error::Error as StdError;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use apiserver::serve::{BindError, Certificates, Limits, Server, Tls};
use apiserver::{Api, Body, Controllers};
use auth::{Authenticator, Authorizer, Peer, User};
use futures_util::StreamExt;
use http::{Request, Response, StatusCode, header};
use http_body_util::{BodyStream, Empty};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use meta::Status;
use pki::{Authority, Kubeconfig, Names};
use rustls::pki_types::CertificateDer;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::cluster::Cluster;
use crate::driver::Driver;
use crate::network::{Network, Way};
use crate::settings::Settings;
use crate::{doors, engine, node};

/// How long a member may take to make its own objects.
const PATIENCE: Duration = Duration::from_secs(60);
/// What its service accounts' tokens name as their issuer, as in a cluster that was told nothing else.
const ISSUER: &str = "https://kubernetes.default.svc";
/// What may be under way in a connection in memory.
const TUNNEL: usize = 64 << 10;
/// How long its work may take to end.
const FAREWELL: Duration = Duration::from_secs(15);

#[derive(Debug, thiserror::Error)]
pub enum MemberError {
    #[error("the simulated member {name} cannot start: {why}")]
    Start { name: String, why: String },
    #[error("the simulated member {name} cannot listen: {source}")]
    Listen { name: String, source: BindError },
    #[error("the simulated member {name} cannot use its certificates: {why}")]
    Certificates { name: String, why: String },
    #[error("the simulated member {name} cannot be filled: {why}")]
    Fill { name: String, why: String },
}

/// A running simulated cluster. Cheap to clone: a handle. It runs until [`Member::stop`].
#[derive(Clone)]
pub struct Member {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub settings: Arc<Settings>,
    pub api: Api,
    pub cluster: Arc<Cluster>,
    pub way: Way,
    /// All that runs for this member; ends with `stop`.
    pub tasks: TaskTracker,
    pub stop: CancellationToken,
    /// Who asks in-process.
    admin: Peer,
}

impl Member {
    /// Starts a member; when this returns it has its nodes and answers.
    pub async fn start(settings: Settings) -> Result<Member, MemberError> {
        let settings = Arc::new(settings);
        let failed = |why: String| MemberError::Start { name: settings.name.clone(), why };
        let written = Arc::new(Notify::new());
        let store = engine::open(settings.history, Arc::clone(&written));
        // Keys of its own, for as long as it runs: a token of one cluster opens no other.
        let keys = auth::SigningKeys::generate().map_err(|e| failed(e.to_string()))?;
        let keys = auth::SigningKeys::parse(keys.as_bytes(), &[]).map_err(|e| failed(e.to_string()))?;
        let issuer = auth::IssuerOptions { issuer: ISSUER.to_owned(), audiences: Vec::new(), keys };
        let issuer = Some(Arc::new(auth::Issuer::new(issuer)));
        let options = auth::Options { issuer, ..auth::Options::default() };
        let authenticator = Authenticator::new(options).map_err(|e| failed(e.to_string()))?;
        let mut options = apiserver::Options::new(authenticator, Authorizer::new());
        options.clock = Arc::clone(&settings.clock);
        options.event_ttl = settings.events.unwrap_or(options.event_ttl);
        options.controllers = Controllers { service_accounts: true, root_ca: false };
        let api = Api::new(store, options);
        let cluster = Arc::new(Cluster::new(&api, Arc::clone(&settings)).map_err(|e| failed(e.message))?);
        let inner = Inner {
            api: api.clone(),
            cluster: Arc::clone(&cluster),
            way: Way::default(),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
            admin: Peer::in_process(User::admin()),
            settings: Arc::clone(&settings),
        };
        let member = Member { inner: Arc::new(inner) };
        let tasks = &member.inner.tasks;
        tasks.spawn({
            let (api, name) = (api.clone(), settings.name.clone());
            async move {
                if let Err(error) = api.run_controllers().await {
                    tracing::error!(member = name, %error, "the API server's controllers ended");
                }
            }
        });
        member.ready().await.map_err(failed)?;
        node::ensure(&cluster).await.map_err(|e| failed(e.message))?;
        let driver = Driver::new(api, cluster);
        tasks.spawn(driver.run(written, member.inner.stop.clone()));
        Ok(member)
    }

    async fn ready(&self) -> Result<(), String> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let mut request = Request::new(Empty::<bytes::Bytes>::new());
            *request.uri_mut() = http::Uri::from_static("/readyz");
            request.extensions_mut().insert(self.inner.admin.clone());
            if self.inner.api.handle(request).await.status().is_success() {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err("its API server did not become ready".to_owned());
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    pub fn name(&self) -> &str {
        &self.inner.settings.name
    }

    /// The member's API server, for whoever needs no network.
    pub fn api(&self) -> &Api {
        &self.inner.api
    }

    /// Changes how the member is reached from now on, by all ways.
    pub fn set_network(&self, network: Network) {
        self.inner.way.set(network);
    }

    /// Marks a node as lost, or as found again.
    pub async fn lose_node(&self, name: &str, lost: bool) -> Result<(), Status> {
        let failure = lost.then(|| crate::Failure::Lost.as_str());
        self.inner.cluster.kinds.nodes.set("", name, |node| node::mark(node, failure)).await
    }

    /// The way in for programs of this process: they are administrators. Fits under a `kube::Client`.
    pub fn service(&self) -> MemberService {
        MemberService { member: self.clone(), peer: Some(self.inner.admin.clone()) }
    }

    /// Serves HTTPS at an address (port 0 takes a free one), with certificates of the authority, until the member stops.
    /// Answers with the administrator's kubeconfig.
    pub async fn serve(&self, addr: SocketAddr, authority: &Authority) -> Result<Served, MemberError> {
        let name = self.name();
        let unusable = |why: String| MemberError::Certificates { name: name.to_owned(), why };
        let mut names = Names::local();
        names.add(&addr.ip().to_string());
        let identity = authority.server("members", &names).map_err(|e| unusable(e.to_string()))?;
        let certificates = Certificates::new(identity.chain().map_err(unusable)?, identity.key().map_err(unusable)?);
        let certificates = certificates.map_err(|e| unusable(e.to_string()))?;
        let clients = [CertificateDer::from(authority.certificate_der().to_vec())];
        let tls = Tls::new(certificates, &clients).map_err(|e| unusable(e.to_string()))?;
        let mut server = Server::new(Limits { drain_timeout: Duration::from_secs(5), ..Limits::default() });
        let bound = server.bind_tls(addr, tls).await;
        let bound = bound.map_err(|source| MemberError::Listen { name: name.to_owned(), source })?;
        let reached = match bound.ip().is_unspecified() {
            true => SocketAddr::from(([127, 0, 0, 1], bound.port())),
            false => bound,
        };
        let admin = authority.client("admin", auth::ADMIN, auth::MASTERS).map_err(|e| unusable(e.to_string()))?;
        let url = format!("https://{reached}");
        let kubeconfig = Kubeconfig {
            cluster: name,
            user: "admin",
            server: &url,
            authority_pem: authority.certificate_pem(),
            identity: &admin,
        };
        let served = Served { kubeconfig: kubeconfig.render(), address: bound, url: url.clone() };
        let service = FromNetwork(MemberService { member: self.clone(), peer: None });
        let serving = server.run(service, self.inner.stop.clone());
        self.inner.tasks.spawn(async move {
            serving.await;
        });
        Ok(served)
    }

    /// Ends everything that runs for the member.
    pub async fn stop(&self) {
        self.inner.stop.cancel();
        self.inner.api.stop();
        self.inner.tasks.close();
        if tokio::time::timeout(FAREWELL, self.inner.tasks.wait()).await.is_err() {
            tracing::warn!(member = self.name(), "work of a simulated member still ran at the deadline");
        }
        self.inner.api.store().shutdown().await;
    }
}

/// Where a member is served.
#[derive(Debug, Clone)]
pub struct Served {
    pub address: SocketAddr,
    pub url: String,
    /// The administrator's, everything inside.
    pub kubeconfig: String,
}

/// Requests to a member, over its simulated network.
#[derive(Clone)]
pub struct MemberService {
    member: Member,
    /// Who asks; none when the request says so itself.
    peer: Option<Peer>,
}

type Boxed = Box<dyn StdError + Send + Sync>;
type Answer<E> = Pin<Box<dyn Future<Output = Result<Response<Body>, E>> + Send>>;

impl<B> tower::Service<Request<B>> for MemberService
where
    B: http_body::Body<Data = bytes::Bytes> + Send + 'static,
    B::Error: std::fmt::Display + Into<Boxed>,
{
    type Response = Response<Body>;
    type Error = Boxed;
    type Future = Answer<Boxed>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Boxed>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        if let Some(peer) = &self.peer {
            request.extensions_mut().insert(peer.clone());
        }
        let inner = Arc::clone(&self.member.inner);
        // What becomes another protocol needs a connection, and there is none in a process.
        let tunnels = self.peer.is_some() && request.headers().contains_key(header::UPGRADE);
        Box::pin(async move {
            inner.way.pass().await?;
            if tunnels {
                return tunnel(&inner, request).await;
            }
            let response = doors::answer(&inner, request).await;
            Ok(response.map(|body| over(&inner, body)))
        })
    }
}

/// Sends one request through a connection that is all in memory, so that it can be upgraded.
async fn tunnel<B>(inner: &Arc<Inner>, request: Request<B>) -> Result<Response<Body>, Boxed>
where
    B: http_body::Body<Data = bytes::Bytes> + Send + 'static,
    B::Error: Into<Boxed>,
{
    let (near, far) = tokio::io::duplex(TUNNEL);
    let service = service_fn({
        let inner = Arc::clone(inner);
        move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(inner.admin.clone());
            let inner = Arc::clone(&inner);
            async move { Ok::<_, Infallible>(doors::answer(&inner, request).await) }
        }
    });
    let server =
        hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(far), service).with_upgrades();
    let (mut sender, client) = hyper::client::conn::http1::handshake(TokioIo::new(near)).await?;
    let client = client.with_upgrades();
    let stop = inner.stop.clone();
    inner.tasks.spawn(async move {
        let both = async { tokio::join!(server, client) };
        let _ = stop.run_until_cancelled(both).await;
    });
    let response = sender.send_request(request).await?;
    Ok(response.map(|body| {
        let pieces = BodyStream::new(body).filter_map(|frame| async { frame.ok()?.into_data().ok() });
        Body::stream(Box::pin(pieces))
    }))
}

/// What is streamed comes over the same way, piece by piece, and ends when the member does.
fn over(inner: &Arc<Inner>, body: Body) -> Body {
    let Body::Stream(stream) = body else { return body };
    let way = inner.way.clone();
    let pieces = stream.then(move |piece| {
        let way = way.clone();
        async move { way.pass().await.ok().map(|()| piece) }
    });
    let cut = Box::pin(inner.way.clone().cut());
    Body::stream(
        pieces.take_while(|piece| std::future::ready(piece.is_some())).filter_map(std::future::ready).take_until(cut),
    )
}

/// The same for a listener, whose connections cannot be refused any more.
#[derive(Clone)]
struct FromNetwork(MemberService);

impl tower::Service<Request<Incoming>> for FromNetwork {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Answer<Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Incoming>) -> Self::Future {
        let answer = self.0.call(request);
        Box::pin(async move {
            Ok(answer.await.unwrap_or_else(|error| {
                let mut response = Response::new(Body::from(error.to_string().into_bytes()));
                *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
                response
            }))
        })
    }
}
