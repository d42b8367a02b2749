//! Where etcd is and how patient we are with it.

use std::path::PathBuf;
use std::time::Duration;

use zeroize::Zeroizing;

#[derive(Clone, Debug)]
pub struct Config {
    /// `http://host:port` or `https://host:port`; members of one cluster.
    pub endpoints: Vec<String>,
    /// Everything of ours lies under `<prefix>/`.
    pub prefix: String,
    /// Needed for `https`.
    pub tls: Option<Tls>,
    pub login: Option<Login>,
    /// A request is answered, one way or the other, within this time.
    pub deadline: Duration,
    /// One try at one member; then another member is asked.
    pub attempt: Duration,
    pub connect: Duration,
    /// A silent connection is probed this often; etcd takes less than 5 s as abuse.
    pub ping: Duration,
    /// etcd's own `--max-request-bytes` (1.5 MiB unless told otherwise) less what goes around a value.
    pub max_value: usize,
    /// How often the servers that share this etcd let one of them compact it; None = never (someone else does).
    pub compact_every: Option<Duration>,
}

#[derive(Clone, Debug)]
pub struct Tls {
    /// PEM file of the authorities that etcd's certificate may come from.
    pub ca: PathBuf,
    /// PEM files of our certificate and its key.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// The name in etcd's certificate, if not the endpoint's host.
    pub server_name: Option<String>,
}

#[derive(Clone)]
pub struct Login {
    pub user: String,
    pub password: Zeroizing<String>,
}

impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Login").field("user", &self.user).finish_non_exhaustive()
    }
}

impl Config {
    pub fn new(endpoints: impl IntoIterator<Item = impl Into<String>>) -> Config {
        Config { endpoints: endpoints.into_iter().map(Into::into).collect(), ..Config::default() }
    }
}

impl Default for Config {
    fn default() -> Self {
        Config {
            endpoints: vec!["http://127.0.0.1:2379".into()],
            prefix: "/muster".into(),
            tls: None,
            login: None,
            deadline: Duration::from_secs(10),
            attempt: Duration::from_secs(2),
            connect: Duration::from_secs(2),
            ping: Duration::from_secs(6),
            max_value: (3 << 19) - 4096,
            compact_every: Some(Duration::from_secs(300)),
        }
    }
}
