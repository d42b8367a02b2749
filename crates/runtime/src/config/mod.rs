//! The configuration file of a hub: one section per manager, checked as a whole before anything starts.
//!
//! A value comes from a flag, else from the environment (`MUSTER_` and the key's path), else from the file, else it is the default.
//! Every problem is reported, each with its place.

mod nearest;
mod reader;
mod values;
mod yaml;

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

pub use self::reader::Overrides;
use self::{
    reader::{Reader, Section},
    values::{address, boolean, count, duration, path, text, word},
    yaml::Node,
};
use crate::{Election, Filter, Patterns, Settings};

/// A hub's whole configuration.
#[derive(Debug, Clone)]
pub struct Config {
    /// What is logged.
    pub logging: Logging,
    /// Where traces go.
    pub tracing: Tracing,
    /// The managers, in the order of the file; at least one.
    pub managers: Vec<ManagerConfig>,
    /// The member clusters.
    pub fleet: Fleet,
    /// The REST face, if it is to run.
    pub api_ext: Option<ApiExt>,
    /// What callers of REST may cost.
    pub gateway: Gateway,
}

/// What callers of REST may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gateway {
    /// Requests of one caller; twice as many at once after a pause.
    pub requests_per_second: u32,
}

/// Where member clusters are declared, and how they are looked after.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fleet {
    /// Whether they are followed; `None` when the configuration says nothing of them.
    pub enabled: Option<bool>,
    /// The namespace of the Secrets and ConfigMaps; `None` is every namespace.
    pub namespace: Option<String>,
    /// Between two probes of a member that is well.
    pub probe_period: Duration,
    /// How long a call to a member may take.
    pub call_timeout: Duration,
    /// Calls to one member at once.
    pub calls: usize,
    /// Memory for what is kept of one member, in bytes.
    pub cache: usize,
    /// Whose objects; the first manager's when the section does not say.
    pub api: ApiSource,
}

/// What is logged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Logging {
    /// 0 to 10, as `-v`.
    pub verbosity: u8,
    /// Lines for people, or JSON.
    pub json: bool,
}

/// Where traces go.
#[derive(Debug, Clone, PartialEq)]
pub struct Tracing {
    /// The collector; without one nothing is traced.
    pub endpoint: Option<String>,
    /// Which share of the traces that begin here is kept.
    pub ratio: f64,
    /// Authorities of the collector's certificate.
    pub ca_file: Option<PathBuf>,
}

/// One manager.
#[derive(Debug, Clone)]
pub struct ManagerConfig {
    /// The section's name.
    pub name: String,
    /// For `/metrics`; `None` is off.
    pub metrics: Option<SocketAddr>,
    /// For health, profiles and the reconcilers; `None` is off.
    pub health: Option<SocketAddr>,
    /// Both addresses speak TLS with this.
    pub tls: Option<TlsFiles>,
    /// Take heap profiles from the start.
    pub profiling: bool,
    /// Whose objects.
    pub api: ApiSource,
    /// Reconciles at once, for reconcilers that do not say their own.
    pub concurrency: Option<usize>,
    /// Which reconcilers run.
    pub controllers: Patterns,
    /// What is set for each of them.
    pub reconcilers: BTreeMap<String, Settings>,
    /// Without, this process always leads.
    pub election: Option<Election>,
    /// How long running work may take to finish at the end.
    pub grace: Duration,
}

/// A certificate and its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate chain, PEM.
    pub certificate: PathBuf,
    /// Its private key, PEM.
    pub key: PathBuf,
}

/// How the API is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApiSource {
    /// As kubectl finds it: `KUBECONFIG`, `~/.kube/config`, else the service account of the pod.
    Found {
        /// The context, if not the current one.
        context: Option<String>,
    },
    /// A kubeconfig.
    Kubeconfig {
        /// The file.
        file: PathBuf,
        /// The context, if not the current one.
        context: Option<String>,
    },
    /// A server by its address.
    Server {
        /// Such as `http://127.0.0.1:6080`.
        url: String,
        /// Authorities of its certificate.
        ca_file: Option<PathBuf>,
        /// A bearer token, read again when it changes.
        token_file: Option<PathBuf>,
    },
}

/// The REST face.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiExt {
    /// Where it listens.
    pub address: SocketAddr,
    /// With TLS.
    pub tls: Option<TlsFiles>,
    /// Authorities of clients' certificates.
    pub client_ca: Option<PathBuf>,
    /// The kinds it shows, as `group/plural`; none is every kind.
    pub kinds: Vec<String>,
    /// The names clients know it by.
    pub hosts: Vec<String>,
    /// Web pages that may call it.
    pub origins: Vec<String>,
    /// Whose objects; the first manager's when the section does not say.
    pub api: ApiSource,
}

/// Everything that is wrong with a configuration.
#[derive(Debug)]
pub struct ConfigError {
    /// One line each.
    pub problems: Vec<String>,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problems.join("\n       "))
    }
}
impl std::error::Error for ConfigError {}

impl Config {
    /// Reads a file; without one, everything is the default.
    pub fn load(file: Option<&Path>, overrides: Overrides) -> Result<Config, ConfigError> {
        let Some(file) = file else { return Config::read("no file", Path::new(""), "", overrides) };
        let problem = |why: String| ConfigError { problems: vec![format!("{}: {why}", file.display())] };
        let text = fs::read_to_string(file).map_err(|error| problem(error.to_string()))?;
        let name = file.display().to_string();
        Config::read(&name, file.parent().unwrap_or(Path::new("")), &text, overrides)
    }

    /// Reads text. `folder` is what paths in it are relative to.
    pub fn read(name: &str, folder: &Path, text: &str, overrides: Overrides) -> Result<Config, ConfigError> {
        let node = Node::read(text).map_err(|why| ConfigError { problems: vec![format!("{name}: {why}")] })?;
        let mut reader = Reader::new(name, overrides);
        let reader = &mut reader;
        let mut root = reader.root(node);
        let mut section = root.section(reader, "logging");
        let logging = logging(reader, &mut section);
        section.finish(reader);
        let mut section = root.section(reader, "tracing");
        let tracing = tracing(reader, &mut section, folder);
        section.finish(reader);
        let mut section = root.section(reader, "managers");
        let mut names = section.names();
        if names.is_empty() {
            names.push("default".to_owned());
        }
        let managers: Vec<ManagerConfig> = names
            .iter()
            .map(|name| {
                let mut inner = section.section(reader, name);
                let manager = manager(reader, &mut inner, name, folder);
                inner.finish(reader);
                manager
            })
            .collect();
        section.finish(reader);
        let said = root.has("fleet");
        let mut section = root.section(reader, "fleet");
        let fleet = fleet(reader, &mut section, said, &managers, folder);
        section.finish(reader);
        let wanted = root.has("apiExt");
        let mut section = root.section(reader, "apiExt");
        let api_ext = api_ext(reader, &mut section, &managers, folder).filter(|_| wanted);
        section.finish(reader);
        let mut section = root.section(reader, "gateway");
        let gateway = gateway(reader, &mut section);
        section.finish(reader);
        root.finish(reader);
        check_addresses(reader, &managers, api_ext.as_ref());
        let problems = std::mem::replace(reader, Reader::new(name, Overrides::default())).finish();
        if problems.is_empty() {
            Ok(Config { logging, tracing, managers, fleet, api_ext, gateway })
        } else {
            Err(ConfigError { problems })
        }
    }
}

fn logging(reader: &mut Reader, section: &mut Section) -> Logging {
    let verbosity = section.value(reader, "verbosity", |text| match text.parse() {
        Ok(verbosity @ 0..=10) => Ok(verbosity),
        _ => Err("it must be a number from 0 to 10"),
    });
    let json = section.value(reader, "format", |text| match text {
        "json" => Ok(true),
        "text" => Ok(false),
        _ => Err("it must be text or json"),
    });
    Logging { verbosity: verbosity.unwrap_or(0), json: json.unwrap_or(false) }
}

fn tracing(reader: &mut Reader, section: &mut Section, folder: &Path) -> Tracing {
    let endpoint = section.value(reader, "endpoint", text).filter(|endpoint| !endpoint.is_empty());
    let ratio = section.value(reader, "sampleRatio", |text| match text.parse() {
        Ok(ratio) if (0.0..=1.0).contains(&ratio) => Ok(ratio),
        _ => Err("it must be a number from 0 to 1"),
    });
    Tracing { endpoint, ratio: ratio.unwrap_or(1.0), ca_file: file(reader, section, "caFile", folder) }
}

/// The addresses everybody knows.
fn loopback(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

fn manager(reader: &mut Reader, section: &mut Section, name: &str, folder: &Path) -> ManagerConfig {
    let metrics = section.value(reader, "metricsBindAddress", address).unwrap_or(Some(loopback(18001)));
    let health = section.value(reader, "healthBindAddress", address).unwrap_or(Some(loopback(18002)));
    let tls = tls(reader, section, folder);
    let profiling = section.value(reader, "profiling", boolean).unwrap_or(false);
    let api = api(reader, section, folder).unwrap_or(ApiSource::Found { context: None });
    let concurrency = section.value(reader, "concurrency", count);
    let controllers = section.list(reader, "controllers").unwrap_or_default();
    let grace = section.value(reader, "gracePeriod", duration).unwrap_or(Duration::from_secs(30));
    let mut inner = section.section(reader, "leaderElection");
    let election = election(reader, &mut inner, name);
    inner.finish(reader);
    let mut inner = section.section(reader, "reconcilers");
    let mut reconcilers = BTreeMap::new();
    let names: BTreeSet<String> = inner.names().into_iter().chain(inner.names_in_flags(reader)).collect();
    for reconciler in names {
        let mut own = inner.section(reader, &reconciler);
        let settings = settings(reader, &mut own, concurrency);
        own.finish(reader);
        reconcilers.insert(reconciler, settings);
    }
    inner.finish(reader);
    ManagerConfig {
        name: name.to_owned(),
        metrics,
        health,
        tls,
        profiling,
        api,
        concurrency,
        controllers: Patterns::new(controllers.into_iter().map(|found| found.text)),
        reconcilers,
        election,
        grace,
    }
}

fn settings(reader: &mut Reader, section: &mut Section, concurrency: Option<usize>) -> Settings {
    let concurrency = section.value(reader, "concurrency", count).or(concurrency);
    let resync = section.value(reader, "resync", duration);
    let deadline = section.value(reader, "deadline", duration);
    let options = section.free(reader, "options");
    let mut inner = section.section(reader, "filter");
    let words = |found: Option<Vec<reader::Found>>| found.unwrap_or_default().into_iter().map(|found| found.text);
    let filter = Filter {
        labels: inner.value(reader, "labels", word),
        fields: inner.value(reader, "fields", word),
        namespaces: words(inner.list(reader, "namespaces")).collect(),
        keys: Patterns::new(words(inner.list(reader, "keys"))),
    };
    inner.finish(reader);
    Settings { concurrency, filter, resync, deadline, options }
}

fn election(reader: &mut Reader, section: &mut Section, manager: &str) -> Option<Election> {
    let enabled = section.value(reader, "enabled", boolean).unwrap_or(true);
    let namespace = section.value(reader, "namespace", word).unwrap_or_else(|| "default".to_owned());
    let name = section.value(reader, "name", word).unwrap_or_else(|| format!("muster-{manager}"));
    let mut election = Election::new(&namespace, &name);
    election.identity = section.value(reader, "identity", word).unwrap_or(election.identity);
    election.lease = section.value(reader, "leaseDuration", duration).unwrap_or(election.lease);
    election.renew_deadline = section.value(reader, "renewDeadline", duration).unwrap_or(election.renew_deadline);
    election.retry = section.value(reader, "retryPeriod", duration).unwrap_or(election.retry);
    if enabled && let Err(why) = election.check() {
        reader.wrong_together(format!("{}: {why}", section.path_of("").trim_end_matches('.')));
    }
    enabled.then_some(election)
}

fn api(reader: &mut Reader, section: &mut Section, folder: &Path) -> Option<ApiSource> {
    let mut inner = section.section(reader, "api");
    let kubeconfig = file(reader, &mut inner, "kubeconfig", folder);
    let context = inner.value(reader, "context", word);
    let url = inner.value(reader, "server", |text| match text.starts_with("http://") || text.starts_with("https://") {
        true => Ok(text.trim_end_matches('/').to_owned()),
        false => Err("it must be an address such as http://127.0.0.1:6080"),
    });
    let ca_file = file(reader, &mut inner, "caFile", folder);
    let token_file = file(reader, &mut inner, "tokenFile", folder);
    let place = inner.path_of("");
    let place = place.trim_end_matches('.').to_owned();
    inner.finish(reader);
    match (kubeconfig, url) {
        (Some(_), Some(_)) => {
            reader.wrong_together(format!("{place}: either kubeconfig or server, not both"));
            None
        }
        (Some(file), None) => Some(ApiSource::Kubeconfig { file, context }),
        (None, Some(url)) => Some(ApiSource::Server { url, ca_file, token_file }),
        (None, None) => context.map(|context| ApiSource::Found { context: Some(context) }),
    }
}

fn tls(reader: &mut Reader, section: &mut Section, folder: &Path) -> Option<TlsFiles> {
    let mut inner = section.section(reader, "tls");
    let certificate = file(reader, &mut inner, "certFile", folder);
    let key = file(reader, &mut inner, "keyFile", folder);
    let place = inner.path_of("");
    inner.finish(reader);
    match (certificate, key) {
        (Some(certificate), Some(key)) => Some(TlsFiles { certificate, key }),
        (None, None) => None,
        _ => {
            reader.wrong_together(format!("{}: certFile and keyFile belong together", place.trim_end_matches('.')));
            None
        }
    }
}

fn fleet(reader: &mut Reader, section: &mut Section, said: bool, managers: &[ManagerConfig], folder: &Path) -> Fleet {
    let enabled = section.value(reader, "enabled", boolean).or(said.then_some(true));
    let namespace = section.value(reader, "namespace", word).unwrap_or_else(|| "muster-system".to_owned());
    let probe_period = section.value(reader, "probePeriod", duration).unwrap_or(Duration::from_secs(5));
    let call_timeout = section.value(reader, "callTimeout", duration).unwrap_or(Duration::from_secs(30));
    let calls = section.value(reader, "calls", count).unwrap_or(32);
    let mebibytes = section.value(reader, "cacheMebibytes", count).unwrap_or(256);
    let api = api(reader, section, folder).or_else(|| managers.first().map(|manager| manager.api.clone()));
    Fleet {
        enabled,
        namespace: Some(namespace).filter(|namespace| namespace != "*"),
        probe_period,
        call_timeout,
        calls,
        cache: mebibytes.saturating_mul(1 << 20),
        api: api.unwrap_or(ApiSource::Found { context: None }),
    }
}

fn api_ext(reader: &mut Reader, section: &mut Section, managers: &[ManagerConfig], folder: &Path) -> Option<ApiExt> {
    let address = section.value(reader, "bindAddress", address).unwrap_or(Some(loopback(18003)));
    let tls = tls(reader, section, folder);
    let client_ca = file(reader, section, "clientCAFile", folder);
    let mut words = |key| section.list(reader, key).unwrap_or_default().into_iter().map(|found| found.text).collect();
    let (kinds, hosts, origins) = (words("kinds"), words("hosts"), words("origins"));
    let api = api(reader, section, folder).or_else(|| managers.first().map(|manager| manager.api.clone()))?;
    Some(ApiExt { address: address?, tls, client_ca, kinds, hosts, origins, api })
}

fn gateway(reader: &mut Reader, section: &mut Section) -> Gateway {
    let requests_per_second = section.value(reader, "requestsPerSecond", |text| match text.parse() {
        Ok(rate @ 1..=1_000_000) => Ok(rate),
        _ => Err("it must be a number from 1 to 1000000"),
    });
    Gateway { requests_per_second: requests_per_second.unwrap_or(100) }
}

/// A path in the file is relative to the file; elsewhere to where the program runs.
fn file(reader: &mut Reader, section: &mut Section, key: &str, folder: &Path) -> Option<PathBuf> {
    let found = section.found(reader, key)?;
    match path(&found.text) {
        Ok(path) if matches!(found.origin, reader::Origin::File(_)) => Some(folder.join(path)),
        Ok(path) => Some(path),
        Err(why) => {
            reader.wrong(&section.path_of(key), &found.origin, why);
            None
        }
    }
}

/// No two parts may want the same address; one manager may use one for both.
fn check_addresses(reader: &mut Reader, managers: &[ManagerConfig], api_ext: Option<&ApiExt>) {
    let mut taken: BTreeMap<SocketAddr, String> = BTreeMap::new();
    let wanted = managers.iter().flat_map(|manager| {
        let both = manager.health.filter(|health| Some(*health) != manager.metrics);
        manager.metrics.into_iter().chain(both).map(|addr| (addr, format!("managers.{}", manager.name)))
    });
    let wanted = wanted.chain(api_ext.map(|api_ext| (api_ext.address, "apiExt".to_owned())));
    for (addr, who) in wanted.filter(|(addr, _)| addr.port() != 0) {
        match taken.get(&addr) {
            Some(other) => reader.wrong_together(format!("{other} and {who} both want the address {addr}")),
            None => drop(taken.insert(addr, who)),
        }
    }
}
