//! Where everything is kept: our own API server in this process, or a Kubernetes that somebody else runs.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use apiserver::audit::{Audit, AuditLog, Destination};
use clap::{Args, FromArgMatches};
use gateway::{Deed, Trail, Upstream};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client, api::PostParams, core::ObjectMeta};
use runtime::{config::ApiSource, logging::Log};
use tokio::time::timeout;

use super::{Up, inside, local};
use crate::{
    cli::Apiserver,
    crds, hub,
    members::NAMESPACE,
    paths::DataDir,
    problem::{Kind, Problem},
    serving::{Opened, Running},
};

/// For a meta cluster to answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// The meta cluster, and the ways to it.
pub struct Meta {
    /// Ours, while it runs.
    server: Option<Running>,
    /// What the greeting says of it.
    pub shown: Shown,
    pub hub: Client,
    pub fleet: Client,
    pub upstream: Upstream,
    /// Where the audit log is, if this process writes it to a file.
    pub audit: Option<PathBuf>,
    /// Where what is done to members is written down.
    pub trail: Arc<Lines>,
    /// The audit log of this process, where the API server is another's and keeps its own.
    kept: Option<AuditLog>,
}

/// What is done to members, as lines of the audit log.
pub struct Lines(Audit);

impl Trail for Lines {
    fn note(&self, deed: &Deed) {
        self.0.note(deed);
    }
}

pub struct Shown {
    /// Where kubectl reaches it.
    pub url: Option<String>,
    pub plain: Option<String>,
    pub kubeconfig: Option<PathBuf>,
}

impl Meta {
    /// Ours unless a kubeconfig is given. `token` is the command line's.
    pub async fn open(flags: &Up, dir: &DataDir, token: &str, log: &Arc<Log>) -> Result<Meta, Problem> {
        match &flags.run.kubeconfig {
            None => Meta::own(flags, dir, token, log).await,
            Some(file) => Meta::elsewhere(file, dir, token).await,
        }
    }

    async fn own(flags: &Up, dir: &DataDir, token: &str, log: &Arc<Log>) -> Result<Meta, Problem> {
        let opened = Opened::open(apiserver_flags(flags, dir)?, log).await?;
        let url = opened.secure().map(|secure| secure.url.clone());
        let kubeconfig = url.as_ref().map(|_| dir.kubeconfig());
        let plain = opened.plain.map(|address| format!("http://{address}"));
        let audit = match &opened.flags().logs.audit_log_path {
            None => Some(dir.audit_log()),
            Some(path) => match Destination::parse(path) {
                Destination::File(file) => Some(file),
                Destination::Off | Destination::Stdout => None,
            },
        };
        let running = opened.start();
        let api = running.api();
        let (hub, fleet, gateway) =
            (inside::part(api, "hub"), inside::part(api, "fleet"), inside::part(api, "gateway"));
        let bare = local::client(inside::part(api, "cli"), inside::nobody(api), token);
        let upstream = Upstream::new(gateway, bare);
        let trail = Arc::new(Lines(running.audit()));
        let shown = Shown { url, plain, kubeconfig };
        Ok(Meta { server: Some(running), shown, hub, fleet, upstream, audit, trail, kept: None })
    }

    async fn elsewhere(file: &Path, dir: &DataDir, token: &str) -> Result<Meta, Problem> {
        let unusable = |why: String| {
            Problem::new(Kind::Usage, format!("{} cannot be used", file.display()), why)
                .next("name a kubeconfig whose current context is the cluster to keep everything in")
        };
        let source = ApiSource::Kubeconfig { file: file.to_owned(), context: None };
        let client = runtime::app::client(&source).await.map_err(|e| unusable(e.to_string()))?;
        let config = runtime::app::api_config(&source).await.map_err(|e| unusable(e.to_string()))?;
        let url = Some(config.cluster_url.to_string());
        let upstream = Upstream::from_config(config).map_err(|e| unusable(e.to_string()))?;
        let upstream = upstream.map_bare(|own, bare| local::client(own.clone(), bare, token));
        let shown = Shown { url, plain: None, kubeconfig: Some(file.to_owned()) };
        let destination = Destination::File(dir.audit_log());
        let kept = AuditLog::open(&apiserver::audit::Options { destination, ..apiserver::audit::Options::default() })
            .map_err(|e| Problem::new(Kind::Usage, "the audit log cannot be written", e))?;
        let trail = Arc::new(Lines(kept.audit()));
        let (hub, fleet) = (client.clone(), client);
        Ok(Meta { server: None, shown, hub, fleet, upstream, audit: Some(dir.audit_log()), trail, kept: Some(kept) })
    }

    /// Makes what everything else counts on: our namespace and the definitions of our kinds.
    pub async fn prepare(&self) -> Result<(), Problem> {
        let failed = |why: String| {
            let url = self.shown.url.as_deref().unwrap_or("the meta cluster");
            Problem::new(Kind::Unreachable, format!("{url} cannot be used as the meta cluster"), why)
                .next("look whether it answers, and whether you may make namespaces and definitions there")
        };
        let namespaces: Api<Namespace> = Api::all(self.hub.clone());
        let metadata = ObjectMeta { name: Some(NAMESPACE.to_owned()), ..ObjectMeta::default() };
        let namespace = Namespace { metadata, ..Namespace::default() };
        let made = timeout(PATIENCE, namespaces.create(&PostParams::default(), &namespace)).await;
        match made.map_err(|_| failed("it did not answer in time".to_owned()))? {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(error) => return Err(failed(fleet::words(&error))),
        }
        for crd in hub::registry().crds() {
            crds::apply(&self.hub, &crd).await?;
        }
        Ok(())
    }

    /// Shows the figures of our own API server.
    pub fn measure(&self, metrics: &runtime::Metrics) {
        if let Some(server) = &self.server {
            server.measure(metrics);
        }
    }

    /// Returns only when it cannot go on.
    pub async fn failure(&mut self) -> Problem {
        match &mut self.server {
            Some(server) => server.failure().await,
            None => std::future::pending().await,
        }
    }

    pub async fn close(self) {
        if let Some(server) = self.server {
            server.stop().await;
        }
        drop(self.kept);
    }
}

/// The flags of `muster apiserver`, as they are by default but for what `up` decides.
fn apiserver_flags(flags: &Up, dir: &DataDir) -> Result<Apiserver, Problem> {
    let decided = [
        "apiserver".to_owned(),
        format!("--data-dir={}", dir.root().display()),
        format!("--secure-port={}", flags.secure_port),
        format!("--insecure-port={}", flags.insecure_port),
    ];
    let command = Apiserver::augment_args(clap::Command::new("apiserver")).args_override_self(true);
    command
        .try_get_matches_from(decided.iter().chain(&flags.apiserver))
        .and_then(|matches| Apiserver::from_arg_matches(&matches))
        .map_err(|error| {
            let why = error.to_string();
            let why = why.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
            Problem::new(Kind::Usage, "the flags for the API server are wrong", why)
                .next("behind -- stand flags of muster apiserver; muster apiserver --help lists them")
        })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command};

    fn up(line: &str) -> Up {
        match Cli::try_parse_from(line.split_whitespace()).unwrap().command {
            Command::Up(flags) => *flags,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_api_server_of_up_keeps_to_this_machine_and_needs_no_plain_port() {
        let dir = DataDir::choose(Some("/d".into())).unwrap();
        let flags = apiserver_flags(&up("muster up"), &dir).unwrap();
        assert_eq!((flags.listen.secure_port, flags.listen.insecure_port), (6443, 0));
        assert!(flags.listen.bind_address.is_loopback() && !flags.access.authn_allow_localhost);
        assert_eq!(flags.data.data_dir, Some("/d".into()));
        let more = up("muster up --secure-port 0 -- --history=1h --token-auth-file=t.csv --secure-port=7");
        let flags = apiserver_flags(&more, &dir).unwrap();
        assert_eq!((flags.history.as_secs(), flags.listen.secure_port), (3600, 7));
        let wrong = apiserver_flags(&up("muster up -- --no-such"), &dir).unwrap_err().to_string();
        assert!(wrong.contains("--no-such") && wrong.contains("apiserver --help"), "{wrong}");
    }
}
