//! The command line. The flags of `apiserver` are those of kube-apiserver and of the tool it follows, where they mean the same.
//!
//! The modules below are the commands that ask a running gateway, one per group of verbs.

pub mod asked;
mod cleanups;
pub mod cluster;
pub mod complete;
pub mod console;
pub mod exec;
mod gateway;
mod kubeconfig;
pub mod lists;
pub mod logs;
pub mod restart;
mod scope;
pub mod terminal;
#[cfg(test)]
mod tests;
mod view;
mod words;

use std::{net::IpAddr, path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::{controller, crds, duration, hub, new, phase, simulate, up};

const EXIT_CODES: &str = "Exit codes: 0 ended as asked; 1 failed, also on stored data that cannot be used; 2 wrong usage: a flag, or a \
                          file it names; 3 kept for a difference that was found; 4 it took too long; 5 not allowed; 6 not found; 7 a \
                          conflict, also a port, a file or a data directory that is in use; 8 nobody answers; 130 interrupted. exec and \
                          terminal end as the program in the container ends.";

/// Builds, adopts and runs a fleet of Kubernetes clusters
#[derive(Debug, Parser)]
#[command(name = "muster", version, max_term_width = 100, after_help = EXIT_CODES, subcommand_required = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run everything in one process: API server, hub, fleet, console
    Up(Box<up::Up>),
    /// Look after the member clusters
    #[command(subcommand)]
    Cluster(cluster::Cluster),
    /// List pods, over all clusters
    Pods(Box<lists::OfApp>),
    /// Print what containers print, of several pods and clusters at once
    Logs(Box<logs::Logs>),
    /// Run one command in a container
    Exec(Box<exec::Exec>),
    /// Open a shell in a container
    Terminal(Box<terminal::Terminal>),
    /// List events, newest first
    Events(Box<lists::Events>),
    /// List the addresses behind services
    Endpoints(Box<lists::OfApp>),
    /// List Helm releases
    Releases(Box<lists::OfApp>),
    /// Restart the workloads of an application
    Restart(Box<restart::Restart>),
    /// Print where the console is
    Console(console::Where),
    /// Run the API server alone
    Apiserver(Box<Apiserver>),
    /// Run the reconcilers of a configuration
    Hub(Box<hub::Hub>),
    /// Run one reconciler alone
    Reconciler(Box<hub::Reconciler>),
    /// Look after the reconcilers of a running hub
    #[command(subcommand)]
    Controller(controller::Controller),
    /// Print or apply the definitions of the reconcilers' kinds
    Crds(crds::Crds),
    /// Look at phase machines
    #[command(subcommand)]
    Phase(phase::Phase),
    /// Run simulated clusters, each with a kubeconfig
    Simulate(simulate::Simulate),
    /// Begin something new
    #[command(subcommand)]
    New(new::New),
    /// Save, check and bring back the data
    #[command(subcommand)]
    Backup(Backup),
    /// Look after the keys that seal Secrets on disk
    #[command(subcommand)]
    Key(Key),
    /// Make short-lived tokens, and look after the keys that sign tokens
    #[command(subcommand)]
    Token(Token),
    /// Print the version
    Version(VersionFlags),
    /// Print a completion script for a shell; in bash, zsh and fish it knows the names of clusters,
    /// pods and more
    Completion { shell: clap_complete::Shell },
    /// What could stand at the cursor; the scripts of `completion` ask it
    #[command(name = "__complete", hide = true)]
    Complete(complete::Complete),
}

#[derive(Debug, Args)]
pub struct Data {
    /// Directory of everything the server keeps [default: /var/lib/muster for root, else
    /// $XDG_DATA_HOME/muster]
    #[arg(long, alias = "file-rootpath", env = "MUSTER_DATA_DIR", value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// File of the keys that seal Secrets, made at first start [default: DIR/encryption.key]
    #[arg(long, value_name = "FILE")]
    pub encryption_key_file: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Backend {
    /// A directory (crash-safe, nothing to install)
    #[value(alias = "embedded")]
    File,
    /// An etcd cluster, which several servers may share
    Etcd,
    /// Nothing survives the process
    Memory,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    Text,
    Json,
}

#[derive(Debug, Args)]
pub struct Apiserver {
    #[command(flatten, next_help_heading = "Storage")]
    pub data: Data,
    /// Where objects are kept
    #[arg(long, value_enum, default_value = "file", help_heading = "Storage")]
    pub backend: Backend,
    /// How far back watches can resume and lists can be continued
    #[arg(long, default_value = "5m", value_parser = duration::parse, value_name = "DURATION", help_heading = "Storage")]
    pub history: Duration,
    #[command(flatten, next_help_heading = "etcd (with --backend=etcd)")]
    pub etcd: Etcd,
    #[command(flatten, next_help_heading = "Listening")]
    pub listen: Listen,
    #[command(flatten, next_help_heading = "Who may come in")]
    pub access: Access,
    #[command(flatten, next_help_heading = "Limits")]
    pub limits: Limits,
    /// Let one update change an object and its status together
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true",
          value_parser = boolean, action = clap::ArgAction::Set, value_name = "BOOL", help_heading = "Behaviour")]
    pub unrestricted_update: bool,
    /// How long events are kept after they were last written, 0 for ever
    #[arg(long, default_value = "1h", value_parser = duration::parse, value_name = "DURATION", help_heading = "Behaviour")]
    pub event_ttl: Duration,
    /// Addresses of services inside the cluster
    #[arg(long, default_value = "10.96.0.0/12", value_name = "CIDR", help_heading = "Behaviour")]
    pub service_cluster_ip_range: apiserver::ServiceRange,
    /// Ports that services of type NodePort take on every node
    #[arg(long, default_value = "30000-32767", value_parser = port_range, value_name = "FROM-TO", help_heading = "Behaviour")]
    pub service_node_port_range: std::ops::RangeInclusive<u16>,
    /// What is made by itself in namespaces: serviceaccount (default accounts, tokens in Secrets),
    /// root-ca (ConfigMap kube-root-ca.crt); -NAME turns one off
    #[arg(long, value_delimiter = ',', default_value = "*", value_name = "NAMES", allow_hyphen_values = true,
          value_parser = ["*", "serviceaccount", "-serviceaccount", "root-ca", "-root-ca"], hide_possible_values = true,
          help_heading = "Behaviour")]
    pub controllers: Vec<String>,
    /// What is not done to new objects: ServiceAccount (pods get an account, which must be there;
    /// done only where the serviceaccount controller makes accounts)
    #[arg(long, value_delimiter = ',', value_name = "NAMES", value_parser = ["ServiceAccount"], hide_possible_values = true,
          help_heading = "Behaviour")]
    pub disable_admission_plugins: Vec<String>,
    #[command(flatten, next_help_heading = "Logs")]
    pub logs: Logs,
}

/// What keeps one client from taking the server from the others.
#[derive(Debug, Args)]
pub struct Limits {
    /// Longest time a request that is not a watch may take; its own timeout parameter may say less
    #[arg(long, default_value = "1m", value_parser = duration::parse, value_name = "DURATION")]
    pub request_timeout: Duration,
    /// Reads at once, 0 for any number; more are told to come back (429), but never system:masters
    #[arg(long, default_value_t = 400, value_name = "N")]
    pub max_requests_inflight: usize,
    /// Writes at once, likewise; one user takes at most three quarters of either
    #[arg(long, default_value_t = 200, value_name = "N")]
    pub max_mutating_requests_inflight: usize,
    /// Watches of one user at once, 0 for any number
    #[arg(long, default_value_t = 10_000, value_name = "N")]
    pub max_watches_per_user: usize,
}

fn port_range(text: &str) -> Result<std::ops::RangeInclusive<u16>, String> {
    let parsed = text.split_once('-').and_then(|(from, to)| Some((from.parse::<u16>().ok()?, to.parse::<u16>().ok()?)));
    match parsed {
        Some((from, to)) if 0 < from && from <= to => Ok(from..=to),
        _ => Err("is not a range of ports such as 30000-32767".to_owned()),
    }
}

#[derive(Debug, Args)]
pub struct Etcd {
    /// Members of one etcd cluster, separated by commas
    #[arg(long, value_delimiter = ',', value_name = "URL")]
    pub etcd_servers: Vec<String>,
    /// Authority of etcd's certificates
    #[arg(long, value_name = "FILE")]
    pub etcd_cafile: Option<PathBuf>,
    /// Our certificate for etcd
    #[arg(long, value_name = "FILE", requires = "etcd_keyfile")]
    pub etcd_certfile: Option<PathBuf>,
    /// Its private key
    #[arg(long, value_name = "FILE", requires = "etcd_certfile")]
    pub etcd_keyfile: Option<PathBuf>,
    /// Everything of ours lies under this key
    #[arg(long, default_value = "/muster", value_name = "KEY")]
    pub etcd_prefix: String,
    /// User for etcd's own authentication
    #[arg(long, value_name = "NAME", requires = "etcd_password_file")]
    pub etcd_user: Option<String>,
    /// File with that user's password
    #[arg(long, value_name = "FILE", requires = "etcd_user")]
    pub etcd_password_file: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct Listen {
    /// Address of the HTTPS port; 0.0.0.0 opens it to the network
    #[arg(long, default_value = "127.0.0.1", value_name = "ADDRESS")]
    pub bind_address: IpAddr,
    /// HTTPS port, 0 for none
    #[arg(long, default_value_t = 6443, value_name = "PORT")]
    pub secure_port: u16,
    /// Address under which others reach this server, if --bind-address does not say it
    #[arg(long, value_name = "ADDRESS")]
    pub advertise_address: Option<IpAddr>,
    /// Plain HTTP port on 127.0.0.1, 0 for none
    #[arg(long, default_value_t = 6080, value_name = "PORT")]
    pub insecure_port: u16,
    /// Own server certificate instead of a generated one
    #[arg(long, value_name = "FILE", requires = "tls_private_key_file")]
    pub tls_cert_file: Option<PathBuf>,
    /// Its private key
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    pub tls_private_key_file: Option<PathBuf>,
    /// Further names and addresses for the generated certificate
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    pub tls_san: Vec<String>,
    /// Open connections at once
    #[arg(long, default_value_t = 10_000, value_name = "N")]
    pub max_connections: usize,
}

#[derive(Debug, Args)]
pub struct Access {
    /// Authority of further client certificates
    #[arg(long, value_name = "FILE")]
    pub client_ca_file: Option<PathBuf>,
    /// Static tokens, one line each: token,user,uid,"group1,group2"
    #[arg(long, value_name = "FILE")]
    pub token_auth_file: Option<PathBuf>,
    /// Treat programs on this machine as administrators
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true",
          value_parser = boolean, action = clap::ArgAction::Set, value_name = "BOOL")]
    pub authn_allow_localhost: bool,
    /// Refuse kubectl
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true",
          value_parser = boolean, action = clap::ArgAction::Set, value_name = "BOOL")]
    pub kubectl_disabled: bool,
    /// Refuse static tokens from kubectl; it takes certificates and tokens of `muster token create`
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true",
          value_parser = boolean, action = clap::ArgAction::Set, value_name = "BOOL")]
    pub kubectl_ephemeral_token: bool,
    /// Let whoever presents nothing be system:anonymous everywhere, not for health and version only
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true",
          value_parser = boolean, action = clap::ArgAction::Set, value_name = "BOOL")]
    pub anonymous_auth: bool,
    /// Issuer of service-account tokens
    #[arg(long, default_value = "https://kubernetes.default.svc.cluster.local", value_name = "URL")]
    pub service_account_issuer: String,
    #[command(flatten)]
    pub signing: Signing,
    /// Further keys (EC P-256) by which service-account tokens are verified
    #[arg(long, value_delimiter = ',', value_name = "FILE")]
    pub service_account_key_file: Vec<PathBuf>,
    /// Whom tokens are for when they do not say [default: the issuer]
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    pub api_audiences: Vec<String>,
}

#[derive(Debug, Args)]
pub struct Signing {
    /// File of the key (EC P-256) that signs tokens, made at first start [default:
    /// DIR/service-account.key]
    #[arg(long, value_name = "FILE")]
    pub service_account_signing_key_file: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct Logs {
    /// How much to log: 0 to 10; MUSTER_LOG overrides it with filters such as muster_store=debug
    #[arg(short = 'v', long = "v", default_value_t = 0, value_name = "LEVEL")]
    pub verbosity: u8,
    #[arg(long, value_enum, default_value = "text")]
    pub log_format: LogFormat,
    /// Collector of traces, OTLP over HTTP, such as http://127.0.0.1:4318 [default: none; OpenTelemetry's
    /// variables count]
    #[arg(long, value_name = "URL")]
    pub tracing_endpoint: Option<String>,
    /// Take samples for heap profiles, at /debug/pprof/heap
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true",
          value_parser = boolean, action = clap::ArgAction::Set, value_name = "BOOL")]
    pub profiling: bool,
    /// Audit log: a file, - for standard output, "" for none [default: DIR/audit/audit.log]
    #[arg(long, value_name = "PATH")]
    pub audit_log_path: Option<String>,
    /// MiB after which the audit log is rotated
    #[arg(long, default_value_t = 100, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    pub audit_log_maxsize: u64,
    /// Rotated audit logs to keep
    #[arg(long, default_value_t = 5, value_name = "N")]
    pub audit_log_maxbackup: u32,
    /// Also log reads that were allowed
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true",
          value_parser = boolean, action = clap::ArgAction::Set, value_name = "BOOL")]
    pub audit_log_reads: bool,
}

#[derive(Debug, Subcommand)]
pub enum Backup {
    /// Write a backup, from the running server or from its directory when it is stopped
    Create {
        #[command(flatten)]
        data: Data,
        /// Where to write it
        file: PathBuf,
    },
    /// Read a whole backup and check every checksum; needs no key
    Verify { file: PathBuf },
    /// Make the data directory's store from a backup; the server must be stopped
    Restore {
        #[command(flatten)]
        data: Data,
        file: PathBuf,
    },
}

#[derive(Debug, Subcommand)]
pub enum Key {
    /// List the keys, the one in use first
    List {
        #[command(flatten)]
        data: Data,
    },
    /// Add a new key and use it from now on; a running server takes it up within seconds
    Rotate {
        #[command(flatten)]
        data: Data,
    },
    /// Seal everything anew and forget older keys; the server must be stopped
    Prune {
        #[command(flatten)]
        data: Data,
    },
}

#[derive(Debug, Subcommand)]
pub enum Token {
    /// Print a token for a person; it ends by itself
    Create {
        #[command(flatten)]
        data: Data,
        #[command(flatten)]
        signing: Signing,
        /// Whose token
        #[arg(long, default_value = auth::ADMIN, value_name = "NAME")]
        user: String,
        /// Groups of that user, separated by commas [default: system:masters for system:admin]
        #[arg(long, value_delimiter = ',', value_name = "NAME")]
        group: Vec<String>,
        /// How long it is good, at most 24h
        #[arg(long, default_value = "1h", value_parser = duration::parse, value_name = "DURATION")]
        ttl: Duration,
    },
    /// List the keys that verify tokens, the one that signs first
    Keys {
        #[command(flatten)]
        data: Data,
        #[command(flatten)]
        signing: Signing,
    },
    /// Sign with a new key from now on; tokens of older keys stay good
    Rotate {
        #[command(flatten)]
        data: Data,
        #[command(flatten)]
        signing: Signing,
    },
    /// Forget all keys but the one that signs; tokens of the others end
    Prune {
        #[command(flatten)]
        data: Data,
        #[command(flatten)]
        signing: Signing,
    },
}

#[derive(Debug, Args)]
pub struct VersionFlags {
    #[arg(short, long, value_enum, default_value = "text")]
    pub output: Output,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Output {
    Text,
    Json,
}

/// Booleans as Go's flags take them.
pub fn boolean(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("write true or false".to_owned()),
    }
}

pub fn version(output: Output) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let platform = format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH);
    match output {
        Output::Text => format!("muster {version} ({platform})\n"),
        Output::Json => format!("{}\n", serde_json::json!({"version": version, "platform": platform})),
    }
}
