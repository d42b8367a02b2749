//! Requests to whichever member answers: deadlines, failover, login, and what a failure says about a write.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use http::uri::PathAndQuery;
use prost::Message;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};
use tonic::client::Grpc;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Code, Request, Status, Streaming};
use tonic_prost::ProstCodec;

use super::config::{Config, Login};
use super::wire::{self, AuthenticateRequest, AuthenticateResponse, Headed, Header, WatchRequest, WatchResponse};
use crate::error::{Error, Result};
use crate::held;

/// The largest answer taken; a page of values that is larger is asked for in smaller pages.
const LARGEST: usize = 64 << 20;
const STRANGER: &str = "it belongs to another etcd";
/// Requests of ours that may wait in a watch stream.
const ASKS: usize = 16;
/// After all members failed once: the first pause, doubled up to the second.
const PAUSE: (Duration, Duration) = (Duration::from_millis(25), Duration::from_millis(400));

pub(super) struct Client {
    members: Vec<Member>,
    /// Counts up at each failure; which member that is, is its remainder.
    turn: AtomicUsize,
    login: Option<Login>,
    /// None before the first login. Held while logging in, so that many requests with an outdated token log in once.
    pass: tokio::sync::Mutex<Option<Pass>>,
    /// Told by the first answer; a member of another cluster is not listened to.
    cluster: OnceLock<u64>,
    attempt: Duration,
}

/// What etcd gave for our login: nothing, if it wants none.
type Pass = Option<MetadataValue<Ascii>>;

struct Member {
    endpoint: Endpoint,
    channel: Mutex<Channel>,
}

/// May a request whose fate is unknown be sent again?
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Again {
    Safe,
    Never,
}

#[derive(Debug)]
pub(super) enum Failure {
    /// etcd understood and said no; nothing was written.
    Refused(Refusal, String),
    /// No member took it within the deadline; nothing was written.
    Unavailable(String),
    /// It may have been written. Only with [`Again::Never`].
    Doubt(String),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Refusal {
    Compacted,
    /// The answer does not fit into [`LARGEST`].
    Big,
    TooLarge,
    NoSpace,
    Other,
}

impl Failure {
    pub(super) fn into_error(self, size: usize, limit: usize) -> Error {
        match self {
            Failure::Refused(Refusal::TooLarge, _) => Error::TooLarge { size, limit },
            Failure::Refused(Refusal::NoSpace, why) => Error::Full(why),
            Failure::Refused(_, why) | Failure::Unavailable(why) => Error::Unavailable(why),
            Failure::Doubt(why) => Error::Unknown(why),
        }
    }
}

/// What one failed attempt means.
enum Meaning {
    /// It did not reach the state machine.
    Untouched,
    /// The token is no longer good.
    Login,
    Doubt,
    Refused(Refusal),
}

/// etcd tells many failures apart only by their text.
fn meaning(status: &Status) -> Meaning {
    let says = |text: &str| status.message().contains(text);
    match status.code() {
        _ if unconnected(status) => Meaning::Untouched,
        Code::Unavailable if says("etcdserver: no leader") => Meaning::Untouched,
        Code::Unauthenticated => Meaning::Login,
        Code::InvalidArgument if says("revision in header is old") || says("user name is empty") => Meaning::Login,
        Code::InvalidArgument if says("request is too large") => Meaning::Refused(Refusal::TooLarge),
        Code::OutOfRange if says("has been compacted") => Meaning::Refused(Refusal::Compacted),
        Code::OutOfRange if says("decoded message length too large") => Meaning::Refused(Refusal::Big),
        Code::ResourceExhausted if says("database space exceeded") => Meaning::Refused(Refusal::NoSpace),
        Code::ResourceExhausted if says("too many requests") => Meaning::Untouched,
        Code::ResourceExhausted if says("received message larger than max") => Meaning::Refused(Refusal::TooLarge),
        Code::InvalidArgument
        | Code::NotFound
        | Code::PermissionDenied
        | Code::FailedPrecondition
        | Code::OutOfRange
        | Code::Unimplemented => Meaning::Refused(Refusal::Other),
        _ => Meaning::Doubt,
    }
}

/// Was there no connection to send it on?
fn unconnected(status: &Status) -> bool {
    let mut source = std::error::Error::source(status);
    while let Some(error) = source {
        if error.is::<tonic::ConnectError>() {
            return true;
        }
        source = error.source();
    }
    false
}

/// The whole story of a failure, for people.
fn told(status: &Status) -> String {
    let mut text = status.message().to_owned();
    let mut source = std::error::Error::source(status);
    while let Some(error) = source {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        source = error.source();
    }
    text
}

fn grpc(channel: Channel) -> Grpc<Channel> {
    Grpc::new(channel).max_decoding_message_size(LARGEST)
}

impl Client {
    pub(super) fn new(config: &Config) -> Result<Client> {
        let wrong = |why: String| Error::Unavailable(format!("etcd: {why}"));
        let tls = tls(config)?;
        let mut members = Vec::new();
        for name in &config.endpoints {
            let endpoint = Endpoint::from_shared(name.clone()).map_err(|e| wrong(format!("endpoint {name}: {e}")))?;
            let mut endpoint = endpoint
                .connect_timeout(config.connect)
                .tcp_nodelay(true)
                .http2_keep_alive_interval(config.ping)
                .keep_alive_timeout(config.ping / 2)
                .keep_alive_while_idle(true)
                .initial_stream_window_size(4 << 20)
                .initial_connection_window_size(16 << 20);
            match (endpoint.uri().scheme_str(), &tls) {
                (Some("http"), _) => {}
                (Some("https"), Some(tls)) => {
                    let set = endpoint.tls_config(tls.clone());
                    endpoint = set.map_err(|e| wrong(format!("endpoint {name}: {}", chain(&e))))?;
                }
                (Some("https"), None) => return Err(wrong(format!("{name} needs an authority's certificate"))),
                _ => return Err(wrong(format!("endpoint {name} is neither http:// nor https://"))),
            }
            members.push(Member { channel: Mutex::new(endpoint.connect_lazy()), endpoint });
        }
        if members.is_empty() {
            return Err(wrong("no endpoint is named".into()));
        }
        Ok(Client {
            members,
            turn: AtomicUsize::new(0),
            login: config.login.clone(),
            pass: tokio::sync::Mutex::new(None),
            cluster: OnceLock::new(),
            attempt: config.attempt,
        })
    }

    /// Asks member after member until one answers or the deadline is there.
    pub(super) async fn call<Q, A>(
        &self,
        path: &'static str,
        ask: &Q,
        deadline: Instant,
        again: Again,
    ) -> Result<A, Failure>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + Headed + 'static,
    {
        let (mut tries, mut logins, mut pause) = (0, 0, PAUSE.0);
        loop {
            let turn = self.turn.load(Ordering::SeqCst);
            let member = self.member(turn);
            let until = deadline.min(Instant::now() + self.attempt);
            let mut pass = None;
            let (doubt, why) = match timeout_at(until, self.try_call(member, path, ask.clone(), &mut pass)).await {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(status)) => match meaning(&status) {
                    Meaning::Refused(refusal) => return Err(Failure::Refused(refusal, told(&status))),
                    Meaning::Login if logins < 2 => {
                        logins += 1;
                        self.forget(pass).await;
                        continue;
                    }
                    Meaning::Login => return Err(Failure::Refused(Refusal::Other, told(&status))),
                    Meaning::Untouched => (false, told(&status)),
                    Meaning::Doubt => (true, told(&status)),
                },
                Err(_) => {
                    // The connection may be dead without saying so.
                    *held!(member.channel.lock()) = member.endpoint.connect_lazy();
                    (true, format!("no answer within {:?}", self.attempt))
                }
            };
            let why = format!("etcd {}: {why}", member.endpoint.uri());
            tracing::debug!(why, path, "a request to etcd failed");
            self.move_on(turn);
            if doubt && again == Again::Never {
                return Err(Failure::Doubt(why));
            }
            tries += 1;
            if tries % self.members.len() == 0 {
                let wake = Instant::now() + pause;
                if wake < deadline {
                    sleep_until(wake).await;
                }
                pause = (pause * 2).min(PAUSE.1);
            }
            if Instant::now() >= deadline {
                return Err(Failure::Unavailable(why));
            }
        }
    }

    async fn try_call<Q, A>(
        &self,
        member: &Member,
        path: &'static str,
        ask: Q,
        pass: &mut Option<Pass>,
    ) -> Result<A, Status>
    where
        Q: Message + 'static,
        A: Message + Default + Headed + 'static,
    {
        let channel = held!(member.channel.lock()).clone();
        let given = pass.insert(self.pass(&channel).await?).clone();
        let answer = unary::<Q, A>(channel, path, ask, given).await?;
        self.same_cluster(answer.header())?;
        Ok(answer)
    }

    /// Asks every member that can be reached for its cluster: a write must never go to a stranger.
    pub(super) async fn one_cluster<Q, A>(&self, path: &'static str, ask: &Q) -> Result<()>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + Headed + 'static,
    {
        let asked = self.members.iter().map(|member| async move {
            let mut pass = None;
            match timeout(self.attempt, self.try_call::<Q, A>(member, path, ask.clone(), &mut pass)).await {
                Ok(Err(status)) if status.message().contains(STRANGER) => {
                    Err(Error::Unavailable(format!("etcd {}: {}", member.endpoint.uri(), status.message())))
                }
                _ => Ok(()),
            }
        });
        futures_util::future::join_all(asked).await.into_iter().collect()
    }

    /// Opens a watch stream at the member of this turn, on a connection of its own.
    pub(super) async fn watch(
        &self,
        turn: usize,
        first: WatchRequest,
    ) -> Result<(mpsc::Sender<WatchRequest>, Streaming<WatchResponse>), String> {
        let member = self.member(turn);
        let said = |why: String| format!("etcd {}: {why}", member.endpoint.uri());
        let opening = async {
            let channel = member.endpoint.connect().await.map_err(|e| chain(&e))?;
            let token = self.pass(&channel).await.map_err(|s| told(&s))?;
            let (asks, mut asked) = mpsc::channel(ASKS);
            // There is room: the channel is new.
            let _ = asks.send(first).await;
            let asked = futures_util::stream::poll_fn(move |cx| asked.poll_recv(cx));
            let mut grpc = grpc(channel);
            grpc.ready().await.map_err(|e| chain(&e))?;
            let codec = ProstCodec::<WatchRequest, WatchResponse>::default();
            let path = PathAndQuery::from_static(wire::WATCH);
            let stream = grpc.streaming(request(asked, token), path, codec).await;
            Ok((asks, stream.map_err(|s| told(&s))?.into_inner()))
        };
        let opened = timeout(self.attempt, opening).await;
        opened.unwrap_or_else(|_| Err(format!("no answer within {:?}", self.attempt))).map_err(said)
    }

    pub(super) async fn log_in_again(&self) {
        self.pass.lock().await.take();
    }

    /// Unless another request has logged in again since.
    async fn forget(&self, used: Option<Pass>) {
        let mut held = self.pass.lock().await;
        if *held == used {
            held.take();
        }
    }

    /// One etcd restored over another must not be mistaken for it.
    pub(super) fn same_cluster(&self, header: Option<&Header>) -> Result<(), Status> {
        let told = header.map_or(0, |h| h.cluster_id);
        let ours = *self.cluster.get_or_init(|| told);
        if told == ours {
            return Ok(());
        }
        Err(Status::unavailable(format!("{STRANGER}: cluster {told:x}, not {ours:x}")))
    }

    async fn pass(&self, channel: &Channel) -> Result<Pass, Status> {
        let Some(login) = &self.login else { return Ok(None) };
        let mut held = self.pass.lock().await;
        if let Some(pass) = &*held {
            return Ok(pass.clone());
        }
        let ask = AuthenticateRequest { name: login.user.clone(), password: login.password.to_string() };
        let pass = match unary::<_, AuthenticateResponse>(channel.clone(), wire::AUTHENTICATE, ask, None).await {
            Err(status) if status.message().contains("authentication is not enabled") => None,
            answer => {
                let token = answer?.token.parse::<MetadataValue<Ascii>>();
                let mut token = token.map_err(|_| Status::internal("an unusable token"))?;
                token.set_sensitive(true);
                Some(token)
            }
        };
        *held = Some(pass.clone());
        Ok(pass)
    }

    fn member(&self, turn: usize) -> &Member {
        &self.members[turn % self.members.len()]
    }

    /// The next member's turn, unless someone else already moved on.
    fn move_on(&self, turn: usize) {
        let _ = self.turn.compare_exchange(turn, turn.wrapping_add(1), Ordering::SeqCst, Ordering::SeqCst);
    }
}

async fn unary<Q, A>(channel: Channel, path: &'static str, ask: Q, token: Pass) -> Result<A, Status>
where
    Q: Message + 'static,
    A: Message + Default + 'static,
{
    let mut grpc = grpc(channel);
    grpc.ready().await.map_err(|e| Status::from_error(Box::new(e)))?;
    let answer =
        grpc.unary(request(ask, token), PathAndQuery::from_static(path), ProstCodec::<Q, A>::default()).await?;
    Ok(answer.into_inner())
}

/// With the word that a member without a leader shall say so at once instead of waiting for one.
fn request<T>(message: T, token: Pass) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("hasleader", MetadataValue::from_static("true"));
    if let Some(token) = token {
        request.metadata_mut().insert("token", token);
    }
    request
}

fn tls(config: &Config) -> Result<Option<ClientTlsConfig>> {
    let Some(tls) = &config.tls else { return Ok(None) };
    let read =
        |path: &std::path::Path| std::fs::read(path).map_err(|e| Error::io(format!("reading {}", path.display()), e));
    let mut made = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(read(&tls.ca)?));
    if let Some((certificate, key)) = &tls.identity {
        made = made.identity(Identity::from_pem(read(certificate)?, read(key)?));
    }
    if let Some(name) = &tls.server_name {
        made = made.domain_name(name);
    }
    Ok(Some(made))
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}
