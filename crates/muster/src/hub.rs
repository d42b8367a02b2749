//! `muster hub` and `muster reconciler NAME`: all reconcilers of a configuration, or one of them.

use std::{io, path::PathBuf, sync::Arc};

use clap::Args;
use runtime::{
    ManagerError, Patterns, Registry,
    app::{App, AppError},
    config::{Config, Overrides},
    trace::Exporter,
};
use tokio_util::sync::CancellationToken;

use crate::{
    apiext,
    cli::{LogFormat, boolean},
    logging,
    members::Members,
    problem::{Kind, Problem},
    signals::Signals,
};

#[derive(Debug, Args)]
pub struct Hub {
    /// Reconcilers to run, separated by commas; * for all, -NAME takes one away
    #[arg(long, value_delimiter = ',', value_name = "NAMES", allow_hyphen_values = true)]
    pub controllers: Vec<String>,
    #[command(flatten)]
    pub run: Run,
}

#[derive(Debug, Args)]
pub struct Reconciler {
    /// Which one; `muster crds -o name` and the documentation list them
    pub name: String,
    #[command(flatten)]
    pub run: Run,
}

/// What comes before the environment and the file.
#[derive(Debug, Args)]
pub struct Run {
    /// The configuration; without one, everything is the default
    #[arg(short, long, env = "MUSTER_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// A Kubernetes to work on, instead of what the configuration says
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Stand for election before working; false for a single replica
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = boolean,
          value_name = "BOOL")]
    pub leader_elect: Option<bool>,
    /// Where /metrics is, 0 for nowhere [default: 127.0.0.1:18001]
    #[arg(long, value_name = "ADDRESS")]
    pub metrics_bind_address: Option<String>,
    /// Where /livez, /readyz, /debug and /controllers are, 0 for nowhere [default: 127.0.0.1:18002]
    #[arg(long, alias = "health-probe-bind-address", value_name = "ADDRESS")]
    pub health_bind_address: Option<String>,
    /// Take samples for heap profiles
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = boolean,
          value_name = "BOOL")]
    pub profiling: Option<bool>,
    /// Any key of the configuration, such as managers.default.concurrency=8; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = pair)]
    pub set: Vec<(String, String)>,
    /// How much to log: 0 to 10; MUSTER_LOG overrides it with filters such as muster_runtime=debug
    #[arg(short = 'v', long = "v", alias = "zap-log-level", value_name = "LEVEL")]
    pub verbosity: Option<u8>,
    #[arg(long, value_enum)]
    pub log_format: Option<LogFormat>,
}

fn pair(text: &str) -> Result<(String, String), String> {
    let split = text.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
    split.ok_or_else(|| "write KEY=VALUE, such as managers.default.concurrency=8".to_owned())
}

pub fn run(flags: Hub) -> Result<(), Problem> {
    let mut over = flags.run.overrides();
    if !flags.controllers.is_empty() {
        over.push(("managers.*.controllers".to_owned(), flags.controllers.join(",")));
    }
    start(load(flags.run.config, over)?, "muster-hub")
}

pub fn run_one(flags: Reconciler) -> Result<(), Problem> {
    let name = flags.name;
    let registry = registry();
    if registry.get(&name).is_none() {
        return Err(unknown(&registry, &name));
    }
    let over = flags.run.overrides();
    let mut config = load(flags.run.config, over)?;
    // The manager that would run it in the hub; the others are not started.
    let at = config.managers.iter().position(|manager| manager.controllers.allows(&name)).unwrap_or(0);
    let mut manager = config.managers.swap_remove(at);
    manager.controllers = Patterns::new([name.as_str()]);
    // Each reconciler stands for election by itself: two that run alone must not wait for each other.
    if let Some(election) = &mut manager.election {
        election.name = format!("{}-{name}", election.name);
    }
    config.managers = vec![manager];
    config.fleet.enabled = None;
    config.api_ext = None;
    start(config, &format!("muster-{name}"))
}

/// Every reconciler this program has.
pub fn registry() -> Registry {
    let mut registry = Registry::new();
    reconcilers::register(&mut registry);
    registry
}

pub fn unknown(registry: &Registry, name: &str) -> Problem {
    let known: Vec<&str> = registry.iter().map(|registration| &*registration.name).collect();
    Problem::new(Kind::NotFound, format!("there is no reconciler {name}"), format!("there are {}", known.join(", ")))
        .next("choose one of these; `muster new reconciler NAME` starts a new one")
}

impl Run {
    /// The flags as keys of the configuration; `--set` last, for it is the most exact.
    pub fn overrides(&self) -> Vec<(String, String)> {
        let text = |flag: &Option<String>| flag.clone();
        let truth = |flag: Option<bool>| flag.map(|flag| flag.to_string());
        let format = self.log_format.map(|format| match format {
            LogFormat::Text => "text".to_owned(),
            LogFormat::Json => "json".to_owned(),
        });
        let named = [
            ("managers.*.api.kubeconfig", self.kubeconfig.as_ref().map(|file| file.display().to_string())),
            ("managers.*.leaderElection.enabled", truth(self.leader_elect)),
            ("managers.*.metricsBindAddress", text(&self.metrics_bind_address)),
            ("managers.*.healthBindAddress", text(&self.health_bind_address)),
            ("managers.*.profiling", truth(self.profiling)),
            ("logging.verbosity", self.verbosity.map(|verbosity| verbosity.to_string())),
            ("logging.format", format),
        ];
        let named = named.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
        named.chain(self.set.iter().cloned()).collect()
    }
}

pub fn load(file: Option<PathBuf>, flags: Vec<(String, String)>) -> Result<Config, Problem> {
    // A variable that is not text cannot be one of ours.
    let environment =
        std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let overrides = Overrides { environment: environment.collect(), flags };
    Config::load(file.as_deref(), overrides).map_err(|error| {
        Problem::new(Kind::Usage, "the configuration is wrong", error)
            .next("mend it; deploy/config/kubecontroller.yaml shows every key")
    })
}

fn start(config: Config, service: &str) -> Result<(), Problem> {
    let (log, exporter) = logging::start(config.logging.verbosity, config.logging.json, &config.tracing, service)?;
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|e| Problem::new(Kind::Failed, "cannot start", e))?
        .block_on(serve(config, log, exporter))
}

async fn serve(config: Config, log: Arc<runtime::logging::Log>, exporter: Option<Exporter>) -> Result<(), Problem> {
    let mut signals = Signals::new()?;
    let traces = Traces::start(exporter);
    let app = App::new(&config, registry, Some(log)).await.map_err(problem)?;
    let members = Members::of_hub(&config.fleet, app.metrics()).await?;
    let face = match &config.api_ext {
        Some(section) => Some(apiext::bind(section, config.gateway, app.metrics()).await?),
        None => None,
    };
    let stop = CancellationToken::new();
    let face = face.map(|face| tokio::spawn(face.run(stop.clone())));
    let mut running = tokio::spawn(app.run(stop.clone()));
    let early = tokio::select! {
        () = signals.next() => {
            tracing::info!("stopping; again to stop at once");
            signals.exit_on_next();
            None
        }
        ended = &mut running => Some(ended),
    };
    stop.cancel();
    let ended = match early {
        Some(ended) => ended,
        None => running.await,
    };
    if let Some(face) = face {
        let _ = face.await;
    }
    if let Some(members) = members {
        members.stop().await;
    }
    traces.stop().await;
    ended.map_err(|died| Problem::new(Kind::Failed, "the hub died", died))?.map_err(problem)
}

/// The exporter of traces while it runs.
pub struct Traces {
    stop: CancellationToken,
    task: Option<tokio::task::JoinHandle<()>>,
}

impl Traces {
    pub fn start(exporter: Option<Exporter>) -> Traces {
        let stop = CancellationToken::new();
        Traces { task: exporter.map(|exporter| tokio::spawn(exporter.run(stop.clone()))), stop }
    }

    /// Sends what is left.
    pub async fn stop(self) {
        self.stop.cancel();
        if let Some(task) = self.task {
            let _ = task.await;
        }
    }
}

pub fn problem(error: AppError) -> Problem {
    let why = error.to_string();
    match error {
        AppError::Api { .. } => Problem::new(Kind::Usage, "the API cannot be used", why)
            .next("name a kubeconfig with --kubeconfig, or a server with --set managers.default.api.server=URL"),
        AppError::Tls { .. } => Problem::new(Kind::Usage, "TLS cannot be set up", why),
        AppError::Listen { source, .. } if source.source.kind() == io::ErrorKind::AddrInUse => {
            Problem::new(Kind::InUse, "cannot listen", why)
                .next("stop that program, or choose others with --metrics-bind-address and --health-bind-address")
        }
        AppError::Listen { .. } => Problem::new(Kind::Usage, "cannot listen", why),
        AppError::Manager { source: ManagerError::Setup { .. }, .. } => Problem::new(Kind::Usage, "cannot start", why)
            .next("look at its options in the configuration, or take it out with --controllers=-NAME"),
        AppError::Manager { .. } => Problem::new(Kind::Usage, "cannot start", why),
        AppError::Died(_) => Problem::new(Kind::Failed, "the hub stopped", why),
    }
}
