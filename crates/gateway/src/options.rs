//! What the operator decides: addresses, TLS, which kinds, and how much a client may cost.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::public::PublicUrl;

/// How APIExt is served. Only the address has no sensible default.
#[derive(Clone, Debug)]
pub struct Options {
    /// Port 0 takes a free one.
    pub listen: SocketAddr,
    /// Without it the face speaks plain HTTP, and then only on a loopback address.
    pub tls: Option<Tls>,
    /// The kinds to serve, as `group/plural` (`core/pods`, `apps/*`, `*`); empty serves every kind the API has.
    pub kinds: Vec<String>,
    /// Host names clients use for this server, beside addresses and `localhost`. Over TLS, none means any: the certificate decides.
    pub hosts: Vec<String>,
    /// Web origins (`https://console.example.com`) that may call from a browser. None may by default.
    pub origins: Vec<String>,
    /// Where browsers find us when a proxy that speaks TLS stands before us.
    pub public: Option<PublicUrl>,
    pub limits: Limits,
}

impl Options {
    pub fn new(listen: SocketAddr) -> Self {
        Self {
            listen,
            tls: None,
            kinds: vec![],
            hosts: vec![],
            origins: vec![],
            public: None,
            limits: Limits::default(),
        }
    }

    /// Whether browsers reach us by TLS, ours or a proxy's: then cookies are for that alone.
    pub(crate) fn is_sealed(&self) -> bool {
        self.tls.is_some() || self.public.is_some()
    }
}

#[derive(Clone, Debug)]
pub struct Tls {
    /// PEM, the leaf first.
    pub certificate: PathBuf,
    /// PEM.
    pub key: PathBuf,
    /// Who signs the certificates of clients. A client with such a certificate acts, by impersonation, as the user it names.
    pub client_ca: Option<PathBuf>,
}

/// Requests per second and how many may come at once after a pause.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    pub per_second: f64,
    pub burst: f64,
}

impl Rate {
    /// So many, and twice as many at once.
    pub fn of(per_second: u32) -> Self {
        let per_second = f64::from(per_second);
        Self { per_second, burst: per_second * 2.0 }
    }
}

/// What clients may cost. The defaults are for a server open to a network.
#[derive(Clone, Debug)]
pub struct Limits {
    pub connections: usize,
    /// Requests under way at once, in all; one caller gets at most three quarters of it.
    pub in_flight: usize,
    pub per_caller: Rate,
    /// For callers whom the API has not recognised (yet), by address.
    pub per_stranger: Rate,
    pub body_bytes: usize,
    pub head_bytes: u32,
    /// To the end of a request's head; also how long an HTTP/1.1 connection without a request stays open.
    pub head_timeout: Duration,
    pub body_timeout: Duration,
    pub handshake_timeout: Duration,
    pub idle_timeout: Duration,
    /// How long a client may leave its socket full while there is something for it.
    pub stall_timeout: Duration,
    /// From the end of the head to the beginning of the answer.
    pub request_timeout: Duration,
    pub drain_timeout: Duration,
    pub page_size: usize,
    pub max_page_size: usize,
    /// Objects of one kind that a list may look at.
    pub objects_per_kind: usize,
    /// Bytes of rows kept in all caches together.
    pub cache_bytes: usize,
    /// Kinds cached at once.
    pub cached_kinds: usize,
    /// How long a kind that nobody lists stays cached.
    pub cache_idle: Duration,
    /// How long the API's yes to a caller is believed; at most five seconds.
    pub review_ttl: Duration,
}

impl Limits {
    /// The defaults, with another rate for those whom the API knows.
    pub fn paced(requests_per_second: u32) -> Self {
        Self { per_caller: Rate::of(requests_per_second), ..Self::default() }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 2_000,
            in_flight: 256,
            per_caller: Rate::of(100),
            per_stranger: Rate { per_second: 20.0, burst: 60.0 },
            body_bytes: 3 << 20,
            head_bytes: 32 << 10,
            head_timeout: Duration::from_secs(30),
            body_timeout: Duration::from_secs(30),
            handshake_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(120),
            stall_timeout: Duration::from_secs(30),
            request_timeout: Duration::from_secs(30),
            drain_timeout: Duration::from_secs(10),
            page_size: 50,
            max_page_size: 1_000,
            objects_per_kind: 200_000,
            cache_bytes: 512 << 20,
            cached_kinds: 64,
            cache_idle: Duration::from_secs(300),
            review_ttl: Duration::from_secs(5),
        }
    }
}
