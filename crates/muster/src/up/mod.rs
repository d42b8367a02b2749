//! `muster up`: the whole product in one process: API server, hub, fleet, gateway, one data directory, one log.

mod demo;
mod greeting;
mod inside;
mod local;
mod meta;
mod reconcilers;

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use clap::Args;
use gateway::{Face, Limits, Listening, Options, PublicUrl, ServeError, Tls};
use pki::{Authority, Names};
use runtime::{
    app::{App, AppError},
    config::Config,
    logging::Log,
    trace::Exporter,
};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub use self::local::Door;
use self::{demo::Demo, meta::Meta, reconcilers::Reconcilers};
use crate::{
    apiext,
    cli::LogFormat,
    hub::{self, Traces},
    logging,
    members::{Members, NAMESPACE},
    paths::DataDir,
    problem::{Kind, Problem},
    signals::Signals,
};

const RENEW_EVERY: Duration = Duration::from_secs(12 * 60 * 60);

#[derive(Debug, Args)]
pub struct Up {
    /// Add three simulated clusters with sample applications; login admin:teleport, on this machine
    /// only
    #[arg(long)]
    pub demo: bool,
    /// Directory of everything it keeps [default: ~/.muster]
    #[arg(long, env = "MUSTER_DATA_DIR", value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Address of the console and the REST API; beyond this machine they speak TLS
    #[arg(long, default_value = "127.0.0.1:8088", value_name = "ADDRESS:PORT")]
    pub bind: SocketAddr,
    /// Names by which browsers know it, beside addresses and localhost
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    pub host: Vec<String>,
    /// Where browsers find it behind a proxy that speaks TLS, such as https://muster.example.com
    #[arg(long, env = "MUSTER_PUBLIC_URL", value_name = "URL")]
    pub public_url: Option<PublicUrl>,
    /// Own certificate of the console instead of a generated one
    #[arg(long, value_name = "FILE", requires = "tls_private_key_file")]
    pub tls_cert_file: Option<PathBuf>,
    /// Its private key
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    pub tls_private_key_file: Option<PathBuf>,
    /// File with the first administrator's password, instead of the setup link
    #[arg(long, env = "MUSTER_ADMIN_PASSWORD_FILE", value_name = "FILE")]
    pub admin_password_file: Option<PathBuf>,
    /// HTTPS port of the Kubernetes API on 127.0.0.1, 0 for none
    #[arg(long, default_value_t = 6443, value_name = "PORT")]
    pub secure_port: u16,
    /// Plain HTTP port of it, 0 for none
    #[arg(long, default_value_t = 0, value_name = "PORT")]
    pub insecure_port: u16,
    #[command(flatten)]
    pub run: hub::Run,
    /// Further flags of muster apiserver, behind --
    #[arg(last = true, value_name = "FLAGS", conflicts_with = "kubeconfig")]
    pub apiserver: Vec<String>,
}

pub fn run(flags: Up) -> Result<(), Problem> {
    let config = hub::load(flags.run.config.clone(), overrides(&flags))?;
    let (log, exporter) = logging::start(config.logging.verbosity, config.logging.json, &config.tracing, "muster")?;
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|e| Problem::new(Kind::Failed, "cannot start", e))?
        .block_on(serve(flags, config, log, exporter))
}

/// The flags as keys of the configuration.
fn overrides(flags: &Up) -> Vec<(String, String)> {
    let mut over = flags.run.overrides();
    // Which API is not the configuration's to say here.
    over.retain(|(key, _)| key != "managers.*.api.kubeconfig");
    if flags.run.kubeconfig.is_none() && flags.run.leader_elect.is_none() {
        // The store lets one process in: there is nobody to elect against, and nobody to wait for after a crash.
        over.insert(0, ("managers.*.leaderElection.enabled".to_owned(), "false".to_owned()));
    }
    over
}

async fn serve(flags: Up, config: Config, log: Arc<Log>, exporter: Option<Exporter>) -> Result<(), Problem> {
    let begun = Instant::now();
    // Before anybody can see us ready: a signal that finds no handler kills.
    let mut signals = Signals::new()?;
    let traces = Traces::start(exporter);
    let dir = DataDir::of_user(flags.data_dir.clone())?;
    dir.create()?;
    if config.api_ext.is_some() {
        tracing::info!("the section apiExt is not used here: APIExt is on the console's address");
    }
    let token = local::new_token()?;
    let mut meta = Meta::open(&flags, &dir, &token, &log).await?;
    let started = tokio::select! {
        started = Started::new(&flags, &dir, &config, log, &meta, token) => started,
        () = signals.next() => Err(Problem::new(Kind::Failed, "stopped", "it was told to while it started")),
    };
    let outcome = match started {
        Err(problem) => Err(problem),
        Ok(mut started) => {
            greeting::say(&flags, &config, &dir, &meta, &started, begun.elapsed());
            let outcome = tokio::select! {
                () = signals.next() => {
                    tracing::info!("stopping; again to stop at once");
                    signals.exit_on_next();
                    Ok(())
                }
                problem = meta.failure() => Err(problem),
                problem = started.failure() => Err(problem),
                problem = keep_certificate(&flags, &dir) => Err(problem),
            };
            Door::remove(dir.root());
            started.stop().await;
            outcome
        }
    };
    meta.close().await;
    traces.stop().await;
    outcome
}

/// Everything on the meta cluster, running.
pub struct Started {
    /// Where browsers find the console.
    pub url: String,
    /// The one-time link, while there is no administrator.
    pub setup: Option<String>,
    demo: Option<Demo>,
    members: Members,
    hub: Task<Result<(), AppError>>,
    face: Task<()>,
}

/// A task that ends when it is told to.
struct Task<T> {
    stop: CancellationToken,
    /// None when it ended by itself.
    running: Option<JoinHandle<T>>,
}

impl<T: Send + 'static> Task<T> {
    fn start<F: Future<Output = T> + Send + 'static>(begin: impl FnOnce(CancellationToken) -> F) -> Task<T> {
        let stop = CancellationToken::new();
        Task { running: Some(tokio::spawn(begin(stop.clone()))), stop }
    }

    /// Returns when it ended by itself.
    async fn ended(&mut self) -> Result<T, tokio::task::JoinError> {
        let Some(running) = &mut self.running else { return std::future::pending().await };
        let ended = running.await;
        self.running = None;
        ended
    }

    async fn stop(self) {
        self.stop.cancel();
        if let Some(running) = self.running {
            let _ = running.await;
        }
    }
}

impl Started {
    async fn new(
        flags: &Up,
        dir: &DataDir,
        config: &Config,
        log: Arc<Log>,
        meta: &Meta,
        token: String,
    ) -> Result<Started, Problem> {
        let members = match config.fleet.enabled {
            Some(false) => Members::none(&config.fleet),
            _ => Members::follow(meta.fleet.clone(), &config.fleet),
        };
        // At once: hashing a password and filling three clusters take their time.
        let (served, demo) = tokio::join!(Served::new(flags, dir, config, log, meta, &members), async {
            match flags.demo {
                true => Demo::start(&members.fleet).await.map(Some),
                false => Ok(None),
            }
        });
        let (Served { app, face, authority }, demo) = match (served, demo) {
            (Ok(served), Ok(demo)) => (served, demo),
            (Err(problem), demo) => {
                if let Ok(Some(demo)) = demo {
                    demo.stop().await;
                }
                return Err(problem);
            }
            (Ok(_), Err(problem)) => return Err(problem),
        };
        let url = match &flags.public_url {
            Some(public) => public.to_string(),
            None => reached(&face, flags.host.first().map(String::as_str)),
        };
        let setup = face.setup_link().map(|link| link.replacen(&face.url(), &url, 1));
        // The command line is on this machine, whatever others call it.
        let server = reached(&face, None);
        let console = (url != server).then(|| url.clone());
        let door = Door { server, token, certificate_authority: authority, setup: setup.clone(), console };
        door.write(dir.root())?;
        let hub = Task::start(|stop| app.run(stop));
        let face = Task::start(|stop| face.run(stop));
        Ok(Started { url, setup, demo, members, hub, face })
    }

    /// Returns only when a part cannot go on.
    async fn failure(&mut self) -> Problem {
        tokio::select! {
            ended = self.hub.ended() => match ended {
                Ok(Ok(())) => Problem::new(Kind::Failed, "the hub ended", "nobody told it to"),
                Ok(Err(error)) => hub::problem(error),
                Err(died) => Problem::new(Kind::Failed, "the hub died", died),
            },
            ended = self.face.ended() => {
                let why = ended.err().map_or_else(|| "nobody told it to".to_owned(), |died| died.to_string());
                Problem::new(Kind::Failed, "the console ended", why)
            }
        }
    }

    /// In reverse: who asks first, who is asked last.
    async fn stop(self) {
        self.face.stop().await;
        self.hub.stop().await;
        self.members.stop().await;
        if let Some(demo) = self.demo {
            demo.stop().await;
        }
    }
}

/// The hub and the gateway, with their addresses taken.
struct Served {
    app: App,
    face: Listening,
    /// Whom the command line is to believe, if the gateway speaks TLS.
    authority: Option<String>,
}

impl Served {
    async fn new(
        flags: &Up,
        dir: &DataDir,
        config: &Config,
        log: Arc<Log>,
        meta: &Meta,
        members: &Members,
    ) -> Result<Served, Problem> {
        meta.prepare().await?;
        let app = App::through(&meta.hub, config, hub::registry, Some(log)).await.map_err(hub::problem)?;
        if let Some(metrics) = app.metrics() {
            members.fleet.measure(metrics);
            meta.measure(metrics);
        }
        let reconcilers = Arc::new(Reconcilers::of(&app, config, hub::registry()));
        let (mut options, authority) = options(flags, dir)?;
        options.limits = Limits::paced(config.gateway.requests_per_second);
        let mut face = Face::new(options, meta.upstream.clone())
            .actions(apiext::actions())
            .console()
            .namespace(NAMESPACE)
            .fleet(members.fleet.clone())
            .controllers(reconcilers)
            .trail(meta.trail.clone());
        if let Some(file) = &meta.audit {
            face = face.audit(file.clone());
        }
        if let Some(metrics) = app.metrics() {
            face = face.measure(metrics);
        }
        if flags.demo {
            face = face.demo_admin();
        }
        if let Some(file) = &flags.admin_password_file {
            face = face.first_admin(password(file)?);
        }
        Ok(Served { app, face: face.bind().await.map_err(problem)?, authority })
    }
}

/// Our own certificate lives a year and is renewed in its last month; the gateway takes a new one up by itself.
async fn keep_certificate(flags: &Up, dir: &DataDir) -> Problem {
    loop {
        tokio::time::sleep(RENEW_EVERY).await;
        if let Err(problem) = options(flags, dir) {
            tracing::error!(
                problem = problem.brief(),
                "the console's certificate could not be renewed; the old one stays"
            );
        }
    }
}

/// How the gateway listens, and the authority that the command line is to believe.
fn options(flags: &Up, dir: &DataDir) -> Result<(Options, Option<String>), Problem> {
    let mut options =
        Options { hosts: flags.host.clone(), public: flags.public_url.clone(), ..Options::new(flags.bind) };
    if let (Some(certificate), Some(key)) = (&flags.tls_cert_file, &flags.tls_private_key_file) {
        options.tls = Some(Tls { certificate: certificate.clone(), key: key.clone(), client_ca: None });
        let pem = fs::read_to_string(certificate).ok();
        return Ok((options, pem));
    }
    if flags.bind.ip().to_canonical().is_loopback() {
        return Ok((options, None));
    }
    let authority = Authority::open_or_create(&dir.pki())?;
    let mut names = Names::local();
    names.add(&flags.bind.ip().to_string());
    // A proxy on another machine may ask for the name that browsers do.
    let public = flags.public_url.iter().map(|url| url.host().to_owned());
    for name in flags.host.iter().cloned().chain(public) {
        if !names.add(&name) {
            let why = format!("{name:?} is neither an address nor a DNS name");
            return Err(Problem::new(Kind::Usage, "--host or --public-url cannot be used", why));
        }
    }
    authority.server("console", &names)?;
    // Key and certificate are in one file.
    let file = dir.pki().join("console.pem");
    options.tls = Some(Tls { certificate: file.clone(), key: file, client_ca: None });
    Ok((options, Some(authority.certificate_pem().to_owned())))
}

/// The address to type, under a name if it has one.
fn reached(face: &Listening, name: Option<&str>) -> String {
    let bound = face.address();
    let scheme = if face.url().starts_with("https:") { "https" } else { "http" };
    match name {
        Some(name) => format!("{scheme}://{name}:{}", bound.port()),
        None if bound.ip().is_unspecified() => format!("{scheme}://127.0.0.1:{}", bound.port()),
        None => face.url(),
    }
}

/// What a password file holds, without the end of its line.
fn password(file: &Path) -> Result<fleet::Secret, Problem> {
    let text = fs::read_to_string(file).map_err(|e| {
        Problem::new(Kind::Usage, format!("no password in {}", file.display()), e)
            .next("mend --admin-password-file or MUSTER_ADMIN_PASSWORD_FILE, or leave it out and use the setup link")
    })?;
    Ok(fleet::Secret::new(text.trim_end_matches(['\r', '\n'])))
}

fn problem(error: ServeError) -> Problem {
    match &error {
        ServeError::Bind { source, .. } if source.kind() == std::io::ErrorKind::AddrInUse => {
            Problem::new(Kind::InUse, "cannot listen", error).next("stop that program, or choose another with --bind")
        }
        ServeError::Users(_) => Problem::new(Kind::Usage, "the console cannot be served", error)
            .next("choose another password for --admin-password-file, or leave it out and use the setup link"),
        _ => Problem::new(Kind::Usage, "the console cannot be served", error)
            .next("look at --bind and the flags for its certificate"),
    }
}

/// Whether the log is for programs.
fn is_json(config: &Config, flags: &Up) -> bool {
    config.logging.json || flags.run.log_format == Some(LogFormat::Json)
}
