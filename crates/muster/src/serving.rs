//! The API server in this process: opened in order, served until told to stop, closed in reverse. `apiserver` and `up` share it.

use std::{net::SocketAddr, path::Path, sync::Arc};

use apiserver::{
    Api, Ceilings, Controllers,
    audit::{Audit, AuditLog, Destination},
    serve::{BindError, Certificates, Drained, Limits, Server, Stats, Tls},
};
use auth::{Authenticator, Authorizer, Issuer, IssuerOptions};
use meta::Status;
use pki::{Authority, Identity, Kubeconfig, Names};
use runtime::{Metrics, logging::Log};
use rustix::process::{Resource, getrlimit, setrlimit};
use rustls::pki_types::{CertificateDer, pem::PemObject};
use store::{KeyRing, Store};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::{
    cli::{Apiserver, Listen},
    inspect::Inside,
    paths::DataDir,
    problem::{Kind, Problem},
    storage, token,
    upkeep::Upkeep,
};

/// Everything open and every address taken; nothing is served yet.
pub struct Opened {
    parts: Parts,
    server: Server,
    pub plain: Option<SocketAddr>,
    api: Api,
}

/// What an API server stands on, to be closed in the end.
struct Parts {
    flags: Apiserver,
    dir: DataDir,
    store: Store,
    keys: Arc<KeyRing>,
    authenticator: Authenticator,
    audit: AuditLog,
    secure: Option<Secure>,
    stats: Arc<Stats>,
}

/// Shows the server's own figures there.
fn measure(metrics: &Metrics, api: &Api, stats: &Arc<Stats>) {
    metrics.register(|registry| {
        api.measure(registry);
        stats.measure(registry);
    });
}

impl Opened {
    /// `log` is shown and changed at `/debug/loglevel`.
    pub async fn open(flags: Apiserver, log: &Arc<Log>) -> Result<Opened, Problem> {
        let dir = DataDir::choose(flags.data.data_dir.clone())?;
        dir.create()?;
        // The store first: it holds the directory's lock, so that nobody else touches what follows.
        let keys = storage::keys(&flags.data, &dir)?;
        let store = storage::open(&flags, &dir, Arc::clone(&keys)).await?;
        match Opened::on(flags, dir, store.clone(), keys, log).await {
            Ok(opened) => Ok(opened),
            Err(problem) => {
                store.shutdown().await;
                Err(problem)
            }
        }
    }

    async fn on(
        flags: Apiserver,
        dir: DataDir,
        store: Store,
        keys: Arc<KeyRing>,
        log: &Arc<Log>,
    ) -> Result<Opened, Problem> {
        let authenticator = authenticator(&flags, &dir)?;
        let audit = audit_log(&flags, &dir)?;
        let connections = raise_file_limit(flags.listen.max_connections);
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let mut server = Server::new(Limits { connections, threads, ..Limits::default() });
        let plain = bind_plain(&mut server, &flags.listen).await?;
        let secure = bind_secure(&mut server, &flags, &dir).await?;
        let mut options = options(&flags, &authenticator, &audit, secure.as_ref())?;
        let metrics = Metrics::new();
        options.inspect = Some(Inside::of(log, metrics.clone()));
        options.measured = true;
        if flags.logs.profiling {
            heap::start_profiling();
        }
        let api = Api::new(store.clone(), options);
        let stats = server.stats();
        metrics.register(runtime::process::register);
        measure(&metrics, &api, &stats);
        let parts = Parts { flags, dir, store, keys, authenticator, audit, secure, stats };
        Ok(Opened { parts, server, plain, api })
    }

    /// Where it keeps its data.
    pub fn dir(&self) -> &DataDir {
        &self.parts.dir
    }

    pub fn flags(&self) -> &Apiserver {
        &self.parts.flags
    }

    pub fn secure(&self) -> Option<&Secure> {
        self.parts.secure.as_ref()
    }

    /// Closes everything again, unserved.
    pub async fn close(self) {
        self.parts.close().await;
    }

    /// Begins to serve.
    pub fn start(self) -> Running {
        let Opened { parts, server, api, .. } = self;
        let stop = CancellationToken::new();
        let controllers = tokio::spawn({
            let api = api.clone();
            async move { api.run_controllers().await }
        });
        let serving = tokio::spawn(server.run(api.clone(), stop.clone()));
        Running { parts, api, stop, controllers: Some(controllers), serving }
    }
}

/// An API server that serves.
pub struct Running {
    parts: Parts,
    api: Api,
    stop: CancellationToken,
    /// None when they ended by themselves.
    controllers: Option<JoinHandle<Result<(), Status>>>,
    serving: JoinHandle<Drained>,
}

impl Running {
    pub fn api(&self) -> &Api {
        &self.api
    }

    /// Shows the server's figures among others, too.
    pub fn measure(&self, metrics: &Metrics) {
        measure(metrics, &self.api, &self.parts.stats);
    }

    /// The log of what is done to it, for what other parts of this process have to say.
    pub fn audit(&self) -> Audit {
        self.parts.audit.audit()
    }

    /// Looks after the server; returns only when it cannot go on, with the reason.
    pub async fn failure(&mut self) -> Problem {
        let Parts { flags, dir, store, keys, authenticator, secure, .. } = &self.parts;
        let upkeep = Upkeep { flags, dir, authenticator, ring: keys, store, secure: secure.as_ref() };
        let Some(controllers) = &mut self.controllers else { return std::future::pending().await };
        let why = tokio::select! {
            never = upkeep.run() => never,
            ended = controllers => match ended {
                Ok(Ok(())) => "the controllers ended".to_owned(),
                Ok(Err(status)) => status.message.clone(),
                Err(died) => died.to_string(),
            },
        };
        self.controllers = None;
        Problem::new(Kind::Failed, "the server stopped", why)
    }

    /// Ends what runs, then closes what is open.
    pub async fn stop(self) {
        self.stop.cancel();
        self.api.stop();
        let _ = self.serving.await;
        if let Some(controllers) = self.controllers {
            let _ = controllers.await;
        }
        self.parts.close().await;
    }
}

impl Parts {
    async fn close(self) {
        drop(self.audit);
        self.store.shutdown().await;
    }
}

fn options(
    flags: &Apiserver,
    authenticator: &Authenticator,
    audit: &AuditLog,
    secure: Option<&Secure>,
) -> Result<apiserver::Options, Problem> {
    let mut options = apiserver::Options::new(authenticator.clone(), Authorizer::new());
    options.audit = audit.audit();
    let limits = &flags.limits;
    options.request_timeout = limits.request_timeout;
    options.ceilings = Ceilings {
        reads: limits.max_requests_inflight,
        writes: limits.max_mutating_requests_inflight,
        watches_per_user: limits.max_watches_per_user,
    };
    options.unrestricted_update = flags.unrestricted_update;
    options.event_ttl = flags.event_ttl;
    options.service_range = flags.service_cluster_ip_range;
    options.service_node_ports = flags.service_node_port_range.clone();
    let address = flags.listen.advertise_address.unwrap_or(flags.listen.bind_address);
    options.advertise = secure.map(|_| SocketAddr::new(address, flags.listen.secure_port));
    options.controllers = Controllers {
        service_accounts: is_on(&flags.controllers, "serviceaccount"),
        root_ca: is_on(&flags.controllers, "root-ca"),
    };
    let disabled = flags.disable_admission_plugins.iter().any(|plugin| plugin == "ServiceAccount");
    options.assign_accounts = options.controllers.service_accounts && !disabled;
    if let Some(secure) = secure {
        options.public_url = secure.url.clone();
        options.root_ca = Some(trusted(&flags.listen, secure)?);
    }
    Ok(options)
}

fn authenticator(flags: &Apiserver, dir: &DataDir) -> Result<Authenticator, Problem> {
    let access = &flags.access;
    let issuer = Issuer::new(IssuerOptions {
        issuer: access.service_account_issuer.clone(),
        audiences: access.api_audiences.clone(),
        keys: token::keys(access, dir)?,
    });
    Authenticator::new(auth::Options {
        token_file: access.token_auth_file.clone(),
        allow_localhost: access.authn_allow_localhost,
        kubectl_disabled: access.kubectl_disabled,
        kubectl_ephemeral_token: access.kubectl_ephemeral_token,
        anonymous: access.anonymous_auth,
        issuer: Some(Arc::new(issuer)),
    })
    .map_err(|e| Problem::new(Kind::Usage, "the token file cannot be used", e))
}

/// As `--controllers` says it: `*` is all, a minus takes one away.
fn is_on(controllers: &[String], name: &str) -> bool {
    let states = |text: &str| controllers.iter().any(|c| c == text);
    (states("*") || states(name)) && !states(&format!("-{name}"))
}

fn audit_log(flags: &Apiserver, dir: &DataDir) -> Result<AuditLog, Problem> {
    let logs = &flags.logs;
    let destination = match &logs.audit_log_path {
        Some(path) => Destination::parse(path),
        None => Destination::File(dir.audit_log()),
    };
    AuditLog::open(&apiserver::audit::Options {
        destination,
        max_bytes: logs.audit_log_maxsize << 20,
        backups: logs.audit_log_maxbackup,
        reads: logs.audit_log_reads,
        ..apiserver::audit::Options::default()
    })
    .map_err(|e| Problem::new(Kind::Usage, "the audit log cannot be written", e))
}

async fn bind_plain(server: &mut Server, listen: &Listen) -> Result<Option<SocketAddr>, Problem> {
    if listen.insecure_port == 0 {
        return Ok(None);
    }
    let addr = SocketAddr::from(([127, 0, 0, 1], listen.insecure_port));
    server.bind_plain(addr).await.map(Some).map_err(|e| cannot_bind(e, "--insecure-port"))
}

fn cannot_bind(error: BindError, flag: &str) -> Problem {
    match error {
        BindError::InUse { .. } => Problem::new(Kind::InUse, "cannot listen", error)
            .next(format!("stop that program, or choose another port with {flag} (0 for none)")),
        error => Problem::new(Kind::Usage, "cannot listen", error)
            .next(format!("choose another with {flag} or --bind-address")),
    }
}

/// The HTTPS side: what it shows, and what it takes to keep it fresh.
pub struct Secure {
    pub url: String,
    pub authority: Authority,
    pub certificates: Arc<Certificates>,
    pub names: Names,
}

async fn bind_secure(server: &mut Server, flags: &Apiserver, dir: &DataDir) -> Result<Option<Secure>, Problem> {
    let listen = &flags.listen;
    if listen.secure_port == 0 {
        return Ok(None);
    }
    let mut names = Names::local();
    names.add(&listen.bind_address.to_string());
    for name in &listen.tls_san {
        if !names.add(name) {
            return Err(Problem::new(
                Kind::Usage,
                "--tls-san cannot be used",
                format!("{name:?} is neither an address nor a DNS name"),
            ));
        }
    }
    let authority = Authority::open_or_create(&dir.pki())?;
    let identity = server_identity(listen, &authority, &names)?;
    let unusable = |why: String| Problem::new(Kind::Usage, "TLS cannot be set up", why);
    let chain = identity.chain().map_err(unusable)?;
    let certificates =
        Certificates::new(chain, identity.key().map_err(unusable)?).map_err(|e| unusable(e.to_string()))?;
    let mut clients = vec![CertificateDer::from(authority.certificate_der().to_vec())];
    if let Some(path) = &flags.access.client_ca_file {
        clients.extend(authorities(path)?);
    }
    let tls = Tls::new(Arc::clone(&certificates), &clients).map_err(|e| unusable(e.to_string()))?;
    let addr = SocketAddr::new(listen.bind_address, listen.secure_port);
    let bound = server.bind_tls(addr, tls).await.map_err(|e| cannot_bind(e, "--secure-port"))?;
    let reached = match bound.ip().is_unspecified() {
        true => SocketAddr::from(([127, 0, 0, 1], bound.port())),
        false => bound,
    };
    let secure = Secure { url: format!("https://{reached}"), authority, certificates, names };
    write_kubeconfig(listen, dir, &secure)?;
    Ok(Some(secure))
}

pub fn server_identity(listen: &Listen, authority: &Authority, names: &Names) -> Result<Identity, pki::Error> {
    match (&listen.tls_cert_file, &listen.tls_private_key_file) {
        (Some(certificate), Some(key)) => Identity::read(certificate, key),
        _ => authority.server("server", names),
    }
}

/// What clients shall trust: our authority, and the server's own certificate when that is of somebody else's.
fn trusted(listen: &Listen, secure: &Secure) -> Result<String, pki::Error> {
    let mut trusted = secure.authority.certificate_pem().to_owned();
    if listen.tls_cert_file.is_some() {
        trusted.push_str(server_identity(listen, &secure.authority, &secure.names)?.certificate_pem());
    }
    Ok(trusted)
}

/// The administrator's kubeconfig.
pub fn write_kubeconfig(listen: &Listen, dir: &DataDir, secure: &Secure) -> Result<(), pki::Error> {
    let admin = secure.authority.client("admin", auth::ADMIN, auth::MASTERS)?;
    let trusted = trusted(listen, secure)?;
    let kubeconfig =
        Kubeconfig { cluster: "muster", user: "admin", server: &secure.url, authority_pem: &trusted, identity: &admin };
    kubeconfig.write(&dir.kubeconfig()).map(|_| ())
}

fn authorities(path: &Path) -> Result<Vec<CertificateDer<'static>>, Problem> {
    let wrong =
        |why: String| Problem::new(Kind::Usage, format!("--client-ca-file {} cannot be used", path.display()), why);
    let found: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path).map_err(|e| wrong(e.to_string()))?.collect();
    match found {
        Ok(found) if found.is_empty() => Err(wrong("it has no certificate in PEM form".to_owned())),
        Ok(found) => Ok(found),
        Err(e) => Err(wrong(e.to_string())),
    }
}

/// Every connection is a file to the system: take as many as we may, and leave some for the store.
fn raise_file_limit(wanted: usize) -> usize {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let _ = setrlimit(Resource::Nofile, limit);
    let allowed = getrlimit(Resource::Nofile).current.map_or(usize::MAX, |n| usize::try_from(n).unwrap_or(usize::MAX));
    wanted.min(allowed / 4 * 3)
}
