//! The reconciler app (KC-1): every manager of a configuration with its endpoints, from start to a clean end.

mod api;
mod standalone;

use std::{fs, path::PathBuf, sync::Arc};

use kube::Client;
use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub use self::{
    api::{client, config as api_config},
    standalone::main,
};
use crate::{
    BoxError, Handle, Manager, ManagerError, Metrics, Options, Registry,
    config::{Config, ManagerConfig, TlsFiles},
    health::{CheckGuard, Health, HealthFlag, Probe},
    process,
    serve::{Admin, Endpoints, ListenError, LogLevel, Server, Serves},
    trace::ExporterOptions,
};

/// Why an app cannot run.
#[derive(Debug, thiserror::Error)]
pub enum AppError {
    /// The API's configuration is wrong.
    #[error("managers.{manager}.api: {why}")]
    Api {
        /// Which manager.
        manager: String,
        /// What is wrong.
        why: BoxError,
    },
    /// A certificate or key is.
    #[error("{}: {why}", file.display())]
    Tls {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// An address is taken.
    #[error("managers.{manager}: {source}")]
    Listen {
        /// Which manager.
        manager: String,
        /// Which address, and why.
        source: ListenError,
    },
    /// A reconciler, or the election.
    #[error("managers.{manager}: {source}")]
    Manager {
        /// Which manager.
        manager: String,
        /// What is wrong.
        source: ManagerError,
    },
    /// A fault of ours.
    #[error("a part of the program died: {0}")]
    Died(String),
}

/// Managers that are set up and have their addresses; nothing runs yet.
pub struct App {
    parts: Vec<Part>,
}

struct Part {
    name: String,
    manager: Manager,
    health: Health,
    servers: Vec<Server>,
    endpoints: Endpoints,
}

impl App {
    /// Sets up every manager; `registry` makes the reconcilers of each.
    pub async fn new(
        config: &Config,
        registry: impl Fn() -> Registry,
        log: Option<Arc<dyn LogLevel>>,
    ) -> Result<App, AppError> {
        let mut parts = Vec::new();
        for manager in &config.managers {
            let why = |why| AppError::Api { manager: manager.name.clone(), why };
            let client = client(&manager.api).await.map_err(why)?;
            parts.push(Part::new(manager, client, registry(), log.clone()).await?);
        }
        Ok(App { parts })
    }

    /// The same through a client that exists already, whatever the configuration says of the API.
    pub async fn through(
        client: &Client,
        config: &Config,
        registry: impl Fn() -> Registry,
        log: Option<Arc<dyn LogLevel>>,
    ) -> Result<App, AppError> {
        let mut parts = Vec::new();
        for manager in &config.managers {
            parts.push(Part::new(manager, client.clone(), registry(), log.clone()).await?);
        }
        Ok(App { parts })
    }

    /// The managers, to ask and to steer them while they run.
    pub fn handles(&self) -> Vec<Handle> {
        self.parts.iter().map(|part| part.manager.handle()).collect()
    }

    /// The figures of the first manager, for whatever belongs to the process as a whole.
    pub fn metrics(&self) -> Option<&Metrics> {
        self.parts.first().map(|part| &part.endpoints.metrics)
    }

    /// Runs until told to stop, or until a manager cannot go on. Health is answered to the last.
    pub async fn run(self, stop: CancellationToken) -> Result<(), AppError> {
        let managers_stop = stop.child_token();
        let servers_stop = CancellationToken::new();
        let (mut managers, mut servers) = (JoinSet::new(), JoinSet::new());
        let mut watching = Vec::new();
        for part in self.parts {
            let client = part.manager.client();
            watching.push(Watching::new(&part.health, part.manager.handle(), client));
            let endpoints = Arc::new(part.endpoints);
            for server in part.servers {
                servers.spawn(server.run(Arc::clone(&endpoints), servers_stop.clone()));
            }
            let (name, stop) = (part.name, managers_stop.clone());
            managers.spawn(async move {
                let ended = part.manager.run(stop).await;
                ended.map_err(|source| AppError::Manager { manager: name, source })
            });
        }
        let mut outcome = Ok(());
        let mut leave = |ended: Option<Result<Result<(), AppError>, tokio::task::JoinError>>| match ended {
            None => false,
            Some(ended) => {
                let ended = ended.map_err(|died| AppError::Died(died.to_string())).flatten();
                if outcome.is_ok() {
                    outcome = ended;
                }
                true
            }
        };
        tokio::select! {
            () = stop.cancelled() => watching.iter().for_each(|watching| watching.stopping.fail("stopping")),
            ended = managers.join_next() => drop(leave(ended)),
        }
        // One that ended alone takes the others with it: half a hub would look like a whole one.
        managers_stop.cancel();
        while leave(managers.join_next().await) {}
        servers_stop.cancel();
        while servers.join_next().await.is_some() {}
        outcome
    }
}

/// What is watched of a manager.
struct Watching {
    stopping: HealthFlag,
    _checks: [CheckGuard; 3],
}

impl Watching {
    fn new(health: &Health, handle: Handle, client: Client) -> Watching {
        let stopping = health.add_flag(Probe::Ready, "shutdown", "starting");
        stopping.pass();
        let manager = {
            let handle = handle.clone();
            move || {
                let handle = handle.clone();
                async move { handle.list().await.map(drop).map_err(|error| error.to_string()) }
            }
        };
        let caches = move || {
            let handle = handle.clone();
            async move {
                let all = handle.list().await.map_err(|error| error.to_string())?;
                let late: Vec<String> =
                    all.into_iter().filter(|one| one.enabled && !one.synced).map(|one| one.name).collect();
                if late.is_empty() { Ok(()) } else { Err(format!("not yet read: {}", late.join(", "))) }
            }
        };
        let api = move || {
            let client = client.clone();
            async move { client.apiserver_version().await.map(drop).map_err(|error| error.to_string()) }
        };
        let checks = [
            health.add(Probe::Live, "manager", manager),
            health.add(Probe::Ready, "api", api),
            health.add(Probe::Ready, "caches", caches),
        ];
        Watching { stopping, _checks: checks }
    }
}

impl Part {
    async fn new(
        config: &ManagerConfig,
        client: Client,
        registry: Registry,
        log: Option<Arc<dyn LogLevel>>,
    ) -> Result<Part, AppError> {
        let name = config.name.clone();
        if config.profiling {
            heap::start_profiling();
        }
        let metrics = Metrics::new();
        metrics.register(process::register);
        let options = options(config, &registry);
        let manager = Manager::new(client.clone(), registry, options)
            .map_err(|source| AppError::Manager { manager: name.clone(), source })?
            .metrics(metrics.clone());
        let health = Health::default();
        let endpoints = Endpoints {
            health: health.clone(),
            metrics,
            manager: Some(manager.handle()),
            admin: Some(Admin::new(client)),
            log,
        };
        let servers = bind(config).await?;
        Ok(Part { name, manager, health, servers, endpoints })
    }
}

/// What the configuration says, as the manager takes it.
fn options(config: &ManagerConfig, registry: &Registry) -> Options {
    let mut settings = config.reconcilers.clone();
    if let Some(concurrency) = config.concurrency {
        for registration in registry.iter() {
            settings.entry(registration.name.to_string()).or_default().concurrency.get_or_insert(concurrency);
        }
    }
    Options {
        name: format!("muster-{}", config.name),
        enabled: config.controllers.clone(),
        settings,
        election: config.election.clone(),
        grace: config.grace,
    }
}

async fn bind(config: &ManagerConfig) -> Result<Vec<Server>, AppError> {
    let tls = config.tls.as_ref().map(tls).transpose()?;
    let health = Serves { health: true, admin: true, ..Serves::default() };
    let figures = Serves { metrics: true, ..Serves::default() };
    let wanted = match (config.health, config.metrics) {
        (Some(one), Some(other)) if one == other && one.port() != 0 => {
            vec![(one, Serves { metrics: true, ..health })]
        }
        (one, other) => one.map(|addr| (addr, health)).into_iter().chain(other.map(|addr| (addr, figures))).collect(),
    };
    let mut servers = Vec::new();
    for (addr, serves) in wanted {
        let server = Server::bind(addr, serves, tls.clone()).await;
        let server = server.map_err(|source| AppError::Listen { manager: config.name.clone(), source })?;
        let scheme = if tls.is_some() { "https" } else { "http" };
        let paths = if serves.health { "/livez, /readyz" } else { "/metrics" };
        tracing::info!(manager = config.name, address = %server.addr().unwrap_or(addr), scheme, paths, "listening");
        servers.push(server);
    }
    Ok(servers)
}

fn tls(files: &TlsFiles) -> Result<Arc<ServerConfig>, AppError> {
    let wrong =
        |file: &PathBuf, why: &dyn std::fmt::Display| AppError::Tls { file: file.clone(), why: why.to_string() };
    let pem = fs::read(&files.certificate).map_err(|e| wrong(&files.certificate, &e))?;
    let chain: Vec<_> =
        CertificateDer::pem_slice_iter(&pem).collect::<Result<_, _>>().map_err(|e| wrong(&files.certificate, &e))?;
    if chain.is_empty() {
        return Err(wrong(&files.certificate, &"it holds no certificate in PEM form"));
    }
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|e| wrong(&files.key, &e))?;
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
        .map_err(|e| wrong(&files.key, &e))?;
    Ok(Arc::new(config))
}

/// Where traces go, from the configuration, else as OpenTelemetry's own variables say. `None` when they go nowhere.
pub fn exporter_options(config: &crate::config::Tracing, service: &str) -> Option<ExporterOptions> {
    exporter_options_from(config, service, |name| std::env::var(name).ok().filter(|value| !value.is_empty()))
}

fn exporter_options_from(
    config: &crate::config::Tracing,
    service: &str,
    variable: impl Fn(&str) -> Option<String>,
) -> Option<ExporterOptions> {
    if variable("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
        return None;
    }
    let common =
        || variable("OTEL_EXPORTER_OTLP_ENDPOINT").map(|url| format!("{}/v1/traces", url.trim_end_matches('/')));
    let own = || variable("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT");
    let endpoint = config.endpoint.clone().or_else(own).or_else(common)?;
    let headers = variable("OTEL_EXPORTER_OTLP_HEADERS").unwrap_or_default();
    let header = |pair: &str| pair.split_once('=').map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned()));
    Some(ExporterOptions {
        endpoint,
        headers: headers.split(',').filter_map(header).collect(),
        ca_file: config.ca_file.clone(),
        ratio: config.ratio,
        service: variable("OTEL_SERVICE_NAME").unwrap_or_else(|| service.to_owned()),
    })
}

#[cfg(test)]
mod tests;
