//! A server under test: the real kube-apiserver with its etcd, or muster (on its own files or on an etcd), in a folder of its own on free loopback ports.
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde_json::json;

use crate::client::{Answer, Call, Connections, Watch};
use crate::process::{Memory, Process};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Kubernetes,
    Muster,
    /// Muster with its data in an etcd instead of a folder.
    MusterOnEtcd,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Kubernetes => "kubernetes",
            Kind::Muster => "muster",
            Kind::MusterOnEtcd => "muster-on-etcd",
        }
    }

    pub fn is_muster(self) -> bool {
        self != Kind::Kubernetes
    }

    fn has_etcd(self) -> bool {
        self != Kind::Muster
    }
}

/// A start asks often; an answer that was lost must not hold up the next question for long.
const ONE_PROBE: Duration = Duration::from_secs(10);

pub const TOKEN: &str = "suite-admin-token";
/// Of `suite-worker`, who may do what roles say.
pub const WORKER: &str = "suite-worker-token";

pub struct Peer {
    pub kind: Kind,
    pub dir: PathBuf,
    pub port: u16,
    /// Plain HTTP on loopback; only muster has it.
    pub plain_port: Option<u16>,
    pub started_in: Duration,
    pub tls: Arc<rustls::ClientConfig>,
    pub(crate) connections: Connections,
    processes: Mutex<Vec<Process>>,
    etcd_port: Option<u16>,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    binary: Option<PathBuf>,
    data: PathBuf,
    _folder: Option<tempfile::TempDir>,
}

/// How to start a peer when the defaults do not fit.
#[derive(Default, Clone)]
pub struct Settings {
    /// The folder that keeps the data; a temporary one otherwise.
    pub dir: Option<PathBuf>,
    /// Further arguments for muster or kube-apiserver.
    pub arguments: Vec<String>,
    /// Further variables in muster's environment.
    pub environment: Vec<(String, String)>,
    /// Parent of the temporary folder (the disk to measure).
    pub under: Option<PathBuf>,
    /// Where muster keeps its data, when not within the folder.
    pub data: Option<PathBuf>,
    /// The muster to start; otherwise MUSTER_BIN, or the debug build.
    pub binary: Option<PathBuf>,
}

impl Peer {
    pub async fn kubernetes() -> Result<Peer, String> {
        Self::start(Kind::Kubernetes).await
    }

    pub async fn muster() -> Result<Peer, String> {
        Self::start(Kind::Muster).await
    }

    pub async fn start(kind: Kind) -> Result<Peer, String> {
        Self::start_with(kind, Settings::default()).await
    }

    pub async fn start_with(kind: Kind, settings: Settings) -> Result<Peer, String> {
        let (dir, folder) = match settings.dir {
            Some(dir) => (dir, None),
            None => {
                let mut builder = tempfile::Builder::new();
                builder.prefix("muster-test-");
                let folder = match &settings.under {
                    Some(parent) => builder.tempdir_in(parent),
                    None => builder.tempdir(),
                }
                .map_err(|e| e.to_string())?;
                (folder.path().to_owned(), Some(folder))
            }
        };
        std::fs::create_dir_all(&dir).map_err(|e| e.to_string())?;
        let tokens =
            format!("{TOKEN},suite-admin,suite-admin,\"system:masters\"\n{WORKER},suite-worker,suite-worker,workers\n");
        std::fs::write(dir.join("tokens.csv"), tokens).map_err(|e| e.to_string())?;
        let port = free_port();
        let mut peer = Peer {
            kind,
            port,
            plain_port: kind.is_muster().then(free_port),
            started_in: Duration::ZERO,
            tls: crate::client::tls_config(RootCertStore::empty()),
            connections: Connections::default(),
            processes: Mutex::new(Vec::new()),
            etcd_port: kind.has_etcd().then(free_port),
            arguments: settings.arguments,
            environment: settings.environment,
            binary: settings.binary,
            data: settings.data.unwrap_or_else(|| dir.join("data")),
            dir,
            _folder: folder,
        };
        if kind == Kind::Kubernetes {
            write_certificates(&peer.dir)?;
        }
        let start = Instant::now();
        peer.launch()?;
        peer.until_ready(Duration::from_secs(180)).await?;
        peer.started_in = start.elapsed();
        // Kubernetes is ready before it knows the rights that everybody has.
        let review = json!({"group": "authorization.k8s.io", "resource": "selfsubjectaccessreviews", "verb": "create"});
        peer.allows("suite-worker", review).await;
        Ok(peer)
    }

    /// Starts the processes on the same folder and ports: also the restart after a crash.
    pub fn launch(&self) -> Result<(), String> {
        let mut processes = self.processes.lock().unwrap();
        processes.retain_mut(Process::alive);
        let dir = self.dir.display();
        if self.kind.has_etcd() {
            processes.push(self.launch_etcd()?);
        }
        match self.kind {
            Kind::Muster | Kind::MusterOnEtcd => {
                let mut arguments = vec![
                    "apiserver".to_owned(),
                    format!("--data-dir={}", self.data.display()),
                    format!("--secure-port={}", self.port),
                    format!("--insecure-port={}", self.plain_port.unwrap_or(0)),
                    "--bind-address=127.0.0.1".to_owned(),
                    format!("--token-auth-file={dir}/tokens.csv"),
                    "--service-cluster-ip-range=10.96.0.0/16".to_owned(),
                ];
                // As kube-apiserver does by itself, and without what its controller manager would add.
                let alike = [
                    "--anonymous-auth=true",
                    "--service-account-issuer=https://kubernetes.default.svc",
                    "--controllers=-serviceaccount,-root-ca",
                ];
                let stated = |flag: &str| self.arguments.iter().any(|a| a.split('=').next() == flag.split('=').next());
                arguments.extend(alike.into_iter().filter(|flag| !stated(flag)).map(str::to_owned));
                if let Some(port) = self.etcd_port {
                    arguments.extend(["--backend=etcd".to_owned(), format!("--etcd-servers=http://127.0.0.1:{port}")]);
                }
                arguments.extend(self.arguments.iter().cloned());
                let binary = self.binary.clone().map_or_else(muster_binary, Ok)?;
                let log = self.dir.join("muster.log");
                let started = Process::spawn_with("muster", &binary, &arguments, &self.environment, &log);
                processes.push(started.map_err(|why| format!("cannot start {}: {why}", binary.display()))?);
            }
            Kind::Kubernetes => {
                let peers = peers_folder()?;
                let mut arguments = vec![
                    format!("--etcd-servers=http://127.0.0.1:{}", self.etcd_port.unwrap_or(0)),
                    "--bind-address=127.0.0.1".to_owned(),
                    "--advertise-address=127.0.0.1".to_owned(),
                    format!("--secure-port={}", self.port),
                    format!("--tls-cert-file={dir}/apiserver.crt"),
                    format!("--tls-private-key-file={dir}/apiserver.key"),
                    format!("--client-ca-file={dir}/ca.crt"),
                    format!("--token-auth-file={dir}/tokens.csv"),
                    format!("--service-account-key-file={dir}/sa.pub"),
                    format!("--service-account-signing-key-file={dir}/sa.key"),
                    "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
                    "--service-cluster-ip-range=10.96.0.0/16".to_owned(),
                    "--authorization-mode=RBAC".to_owned(),
                    // As installers do; what may run where is a matter of admission.
                    "--allow-privileged=true".to_owned(),
                    "--endpoint-reconciler-type=none".to_owned(),
                    // Compaction only when a test asks for it.
                    "--etcd-compaction-interval=0".to_owned(),
                    "--profiling=false".to_owned(),
                ];
                if !self.arguments.iter().any(|argument| argument.starts_with("--enable-admission-plugins")) {
                    // What we do not have must not show in the bodies that are compared.
                    arguments.push("--disable-admission-plugins=ServiceAccount".to_owned());
                }
                arguments.extend(self.arguments.iter().cloned());
                processes.push(spawn("kube-apiserver", &peers.join("kube-apiserver"), &arguments, &self.dir)?);
            }
        }
        Ok(())
    }

    fn launch_etcd(&self) -> Result<Process, String> {
        let (client, peer) = (self.etcd_port.unwrap_or(0), free_port());
        let url = |port: u16| format!("http://127.0.0.1:{port}");
        let arguments = [
            format!("--data-dir={}/etcd", self.dir.display()),
            format!("--listen-client-urls={}", url(client)),
            format!("--advertise-client-urls={}", url(client)),
            format!("--listen-peer-urls={}", url(peer)),
            format!("--initial-advertise-peer-urls={}", url(peer)),
            format!("--initial-cluster=default={}", url(peer)),
            "--quota-backend-bytes=8589934592".to_owned(),
            "--log-level=warn".to_owned(),
        ];
        spawn("etcd", &peers_folder()?.join("etcd"), &arguments, &self.dir)
    }

    /// Waits for `/readyz` = 200 and says how long it took.
    pub async fn until_ready(&mut self, limit: Duration) -> Result<Duration, String> {
        let start = Instant::now();
        let ca = self.ca_file();
        let mut roots = None;
        loop {
            for process in self.processes.get_mut().unwrap() {
                if !process.alive() {
                    return Err(format!("{} died at the start:\n{}", process.name, tail(&process.log)));
                }
            }
            if roots.is_none() && ca.exists() {
                let mut store = RootCertStore::empty();
                if let Ok(certificate) = CertificateDer::from_pem_file(&ca)
                    && store.add(certificate).is_ok()
                {
                    roots = Some(());
                    self.tls = crate::client::tls_config(store);
                }
            }
            if roots.is_some()
                && let Ok(answer) = Call::get(self, "/readyz").limit(ONE_PROBE).fresh().try_send().await
                && answer.status == 200
            {
                return Ok(start.elapsed());
            }
            if start.elapsed() > limit {
                return Err(format!("{} was not ready within {limit:?}:\n{}", self.kind.name(), self.log_tail()));
            }
            // Short, so that a start of a few milliseconds is measured as such.
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// After a restart: the certificate authority is known, only `/readyz` must say 200 again.
    pub async fn ready_again(&self, limit: Duration) -> Result<Duration, String> {
        let start = Instant::now();
        while start.elapsed() < limit {
            let call = Call::get(self, "/readyz").limit(ONE_PROBE).fresh();
            if call.try_send().await.is_ok_and(|answer| answer.status == 200) {
                return Ok(start.elapsed());
            }
            if !self.alive() {
                return Err(format!("died at the restart:\n{}", self.log_tail()));
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        Err(format!("not ready within {limit:?} after the restart:\n{}", self.log_tail()))
    }

    pub fn ca_file(&self) -> PathBuf {
        match self.kind {
            Kind::Muster | Kind::MusterOnEtcd => self.data.join("pki/ca.crt"),
            Kind::Kubernetes => self.dir.join("ca.crt"),
        }
    }

    pub fn is_muster(&self) -> bool {
        self.kind.is_muster()
    }

    /// kill -9 of every process of the peer, at once.
    pub fn kill(&self) {
        self.processes.lock().unwrap().iter_mut().for_each(Process::kill);
        self.connections.forget();
    }

    pub fn alive(&self) -> bool {
        self.processes.lock().unwrap().iter_mut().all(Process::alive)
    }

    /// Summed over the processes of the peer.
    pub fn memory(&self) -> Memory {
        let processes = self.processes.lock().unwrap();
        processes
            .iter()
            .map(Process::memory)
            .fold(Memory::default(), |sum, m| Memory { resident: sum.resident + m.resident, peak: sum.peak + m.peak })
    }

    pub fn cpu_millis(&self) -> u64 {
        self.processes.lock().unwrap().iter().map(Process::cpu_millis).sum()
    }

    pub fn log_tail(&self) -> String {
        self.processes.lock().unwrap().iter().map(|p| format!("[{}]\n{}\n", p.name, tail(&p.log))).collect()
    }

    /// The first panic (Rust or Go) in the servers' logs.
    pub fn panic_in_log(&self) -> Option<String> {
        let processes = self.processes.lock().unwrap();
        processes.iter().find_map(|process| {
            let log = std::fs::read_to_string(&process.log).unwrap_or_default();
            let at = log.find("panicked at").or_else(|| log.find("Observed a panic"))?;
            Some(log[at..].chars().take(2000).collect())
        })
    }

    /// Forgets the history of old revisions, where the peer has a way to be told so.
    pub async fn compact(&self) -> bool {
        let Some(port) = self.etcd_port else { return false };
        let probe = self.get("/api/v1/namespaces?limit=1").await.ok(200);
        let revision = probe["metadata"]["resourceVersion"].as_str().unwrap_or("0").to_owned();
        let body = format!("{{\"revision\":\"{revision}\",\"physical\":true}}");
        crate::client::plain_post(port, "/v3/kv/compaction", &body).await.contains("200 OK")
    }

    /// Writes a kubeconfig for kubectl and says where.
    pub fn kubeconfig(&self) -> PathBuf {
        let path = self.dir.join("suite.kubeconfig");
        let text = format!(
            "apiVersion: v1\nkind: Config\nclusters: [{{name: c, cluster: {{server: \"https://127.0.0.1:{}\", \
             certificate-authority: {}}}}}]\nusers: [{{name: u, user: {{token: {TOKEN}}}}}]\n\
             contexts: [{{name: x, context: {{cluster: c, user: u}}}}]\ncurrent-context: x\n",
            self.port,
            self.ca_file().display()
        );
        // As a whole: cases beside this one read it.
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let part = self.dir.join(format!("suite.kubeconfig.{}", NEXT.fetch_add(1, Ordering::Relaxed)));
        std::fs::write(&part, text).and_then(|()| std::fs::rename(&part, &path)).unwrap();
        path
    }

    pub async fn get(&self, path: &str) -> Answer {
        Call::get(self, path).send().await
    }

    pub async fn post(&self, path: &str, body: impl Into<crate::client::Body>) -> Answer {
        Call::new(self, "POST", path).body(body).send().await
    }

    pub async fn put(&self, path: &str, body: impl Into<crate::client::Body>) -> Answer {
        Call::new(self, "PUT", path).body(body).send().await
    }

    /// `how` is `json`, `merge` or `strategic`.
    pub async fn patch(&self, path: &str, how: &str, body: impl Into<crate::client::Body>) -> Answer {
        let media = match how {
            "json" => "application/json-patch+json",
            "merge" => "application/merge-patch+json",
            "strategic" => "application/strategic-merge-patch+json",
            other => other,
        };
        Call::new(self, "PATCH", path).body(body).media(media).send().await
    }

    pub async fn delete(&self, path: &str) -> Answer {
        Call::new(self, "DELETE", path).send().await
    }

    pub async fn delete_with(&self, path: &str, options: serde_json::Value) -> Answer {
        Call::new(self, "DELETE", path).body(options).send().await
    }

    pub fn call<'a>(&'a self, method: &'a str, path: &str) -> Call<'a> {
        Call::new(self, method, path)
    }

    pub async fn watch(&self, path: &str) -> Watch {
        Watch::open(self, path, None).await
    }

    /// A namespace of its own for one case, so that cases do not meet; of fixed length, so that no name is the beginning of another in a log.
    pub async fn namespace(&self) -> String {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("case-{:04}", NEXT.fetch_add(1, Ordering::Relaxed));
        let body = serde_json::json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        self.post("/api/v1/namespaces", body).await.ok(201);
        name
    }
}

pub(crate) fn spawn(name: &str, program: &Path, arguments: &[String], dir: &Path) -> Result<Process, String> {
    Process::spawn(name, program, arguments, &dir.join(format!("{name}.log")))
        .map_err(|why| format!("cannot start {}: {why}", program.display()))
}

pub(crate) fn tail(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    let last = lines[lines.len().saturating_sub(8)..].iter().map(|line| line.chars().take(240).collect::<String>());
    last.collect::<Vec<_>>().join("\n")
}

pub fn muster_binary() -> Result<PathBuf, String> {
    let path = match std::env::var_os("MUSTER_BIN") {
        Some(path) => PathBuf::from(path),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/debug/muster"),
    };
    if path.exists() { Ok(path) } else { Err(format!("no {}: `cargo build` first, or set MUSTER_BIN", path.display())) }
}

/// The folder with the real peers, built on the first call ever (`tests/peers/ensure`).
pub fn peers_folder() -> Result<PathBuf, String> {
    static FOLDER: Mutex<Option<PathBuf>> = Mutex::new(None);
    let mut folder = FOLDER.lock().unwrap();
    if let Some(folder) = &*folder {
        return Ok(folder.clone());
    }
    let path = ensure(&["kube-apiserver", "kubectl", "etcd"])?;
    *folder = Some(path.clone());
    Ok(path)
}

/// Builds what is missing of these peers and names the folder that holds them.
pub fn ensure(peers: &[&str]) -> Result<PathBuf, String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/ensure");
    let output = std::process::Command::new(script)
        .args(peers)
        .stderr(std::process::Stdio::inherit())
        .output()
        .map_err(|e| e.to_string())?;
    if !output.status.success() {
        return Err("tests/peers/ensure failed".to_owned());
    }
    Ok(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()))
}

/// A free port below the range the kernel hands out by itself, so that nobody takes it before the server does.
pub fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = (std::process::id() % 1500) as u16 * 12;
    for _ in 0..5000 {
        let port = 12000 + (start + NEXT.fetch_add(1, Ordering::Relaxed)) % 20000;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    panic!("no free loopback port");
}

fn write_certificates(dir: &Path) -> Result<(), String> {
    use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
    let make = || -> Result<(), Box<dyn std::error::Error>> {
        let ca_key = KeyPair::generate()?;
        let mut ca = CertificateParams::new(Vec::<String>::new())?;
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        ca.distinguished_name.push(DnType::CommonName, "suite-ca");
        let ca_certificate = ca.self_signed(&ca_key)?;
        let issuer = Issuer::new(ca, ca_key);
        let key = KeyPair::generate()?;
        let mut leaf = CertificateParams::new(vec!["localhost".to_owned(), "127.0.0.1".to_owned()])?;
        leaf.distinguished_name.push(DnType::CommonName, "kube-apiserver");
        let leaf = leaf.signed_by(&key, &issuer)?;
        let accounts = KeyPair::generate()?;
        for (file, text) in [
            ("ca.crt", ca_certificate.pem()),
            ("apiserver.crt", leaf.pem()),
            ("apiserver.key", key.serialize_pem()),
            ("sa.key", accounts.serialize_pem()),
            ("sa.pub", accounts.public_key_pem()),
        ] {
            std::fs::write(dir.join(file), text)?;
        }
        Ok(())
    };
    make().map_err(|why| format!("certificates: {why}"))
}
