//! A whole cluster: etcd, kube-apiserver, controller manager and scheduler as they are, with nodes that kwok plays, or one that is real.
//!
//! kwok's pods become Running as soon as they are scheduled. Their logs are a file, and a command in a container runs on this machine, with
//! the folder of the cluster as its directory: what passes through the API server on the way is real. The real node has a kubelet and
//! containerd (`peers/node`); its pods use the machine's network.
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::Kind;
use crate::peer::{Peer, Settings, ensure, free_port, spawn, tail};
use crate::process::Process;

/// What a pod that kwok plays prints.
pub const PRINTED: &str = "hello from a fake pod";

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Nodes {
    /// Three, by kwok.
    Fake,
    /// One; it needs root and control groups v1.
    Real,
}

impl Nodes {
    fn count(self) -> usize {
        match self {
            Nodes::Fake => 3,
            Nodes::Real => 1,
        }
    }
}

pub struct Cluster {
    pub name: String,
    nodes: Nodes,
    peers: PathBuf,
    /// What the API server does not do itself; they die before it.
    around: Mutex<Vec<Process>>,
    ports: [u16; 3],
    pub peer: Peer,
    _folder: TempDir,
}

impl Cluster {
    /// Starts everything and waits until the nodes are ready.
    pub async fn start(name: &str, nodes: Nodes) -> Result<Cluster, String> {
        let mut wanted = vec!["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"];
        let of_nodes: &[&str] = if nodes == Nodes::Fake { &["kwok"] } else { &["kubelet", "node"] };
        wanted.extend(of_nodes);
        let peers = ensure(&wanted)?;
        let folder = tempfile::Builder::new().prefix("muster-cluster-").tempdir().map_err(|why| why.to_string())?;
        let dir = folder.path().to_owned();
        let arguments = vec![
            "--enable-admission-plugins=ServiceAccount".to_owned(),
            // The kubelet lets in who has a certificate of the cluster's authority.
            format!("--kubelet-client-certificate={}/apiserver.crt", dir.display()),
            format!("--kubelet-client-key={}/apiserver.key", dir.display()),
        ];
        let settings = Settings { dir: Some(dir), arguments, ..Settings::default() };
        let peer = Peer::start_with(Kind::Kubernetes, settings).await?;
        let ports = [free_port(), free_port(), free_port()];
        let around = Mutex::default();
        let cluster = Cluster { name: name.to_owned(), nodes, peers, around, ports, peer, _folder: folder };
        cluster.write_stages()?;
        cluster.launch_around()?;
        cluster.add_nodes()?;
        cluster.until_nodes_ready().await?;
        Ok(cluster)
    }

    /// Adds those of kwok's nodes that are not there.
    pub fn add_nodes(&self) -> Result<(), String> {
        if self.nodes == Nodes::Real {
            return Ok(()); // its kubelet does it
        }
        let nodes: String = (0..self.nodes.count()).map(node).collect();
        self.kubectl_fed("apply -f -", &nodes).map(drop)
    }

    /// kill -9 of every process, as when the machine is gone.
    pub fn kill(&self) {
        let mut around = self.around.lock().unwrap();
        around.iter_mut().for_each(Process::kill);
        around.clear();
        self.peer.kill();
    }

    /// The same cluster again, after it was killed.
    pub async fn start_again(&self) -> Result<(), String> {
        self.peer.launch()?;
        self.peer.ready_again(Duration::from_secs(90)).await?;
        self.launch_around()?;
        self.until_nodes_ready().await
    }

    /// A kubeconfig without paths, as `kubectl config view` makes one for somebody else.
    pub fn kubeconfig(&self) -> Result<String, String> {
        self.kubectl("config view --raw --flatten")
    }

    /// The output of a kubectl command that must succeed; words are split at blanks.
    pub fn kubectl(&self, line: &str) -> Result<String, String> {
        self.kubectl_fed(line, "")
    }

    pub fn kubectl_fed(&self, line: &str, input: &str) -> Result<String, String> {
        self.run("kubectl", line, input)
    }

    /// A program of the peers, with the kubeconfig of this cluster.
    pub fn run(&self, program: &str, line: &str, input: &str) -> Result<String, String> {
        let failed = |why: String| format!("{}: `{program} {line}`: {why}", self.name);
        let mut child = Command::new(self.peers.join(program))
            .args(line.split_whitespace())
            .env("KUBECONFIG", self.peer.kubeconfig())
            .env("HOME", &self.peer.dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|why| failed(why.to_string()))?;
        // One that does not read its input has said why on standard error.
        let _ = child.stdin.take().map(|mut stdin| stdin.write_all(input.as_bytes()));
        let output = child.wait_with_output().map_err(|why| failed(why.to_string()))?;
        if !output.status.success() {
            return Err(failed(String::from_utf8_lossy(&output.stderr).into_owned()));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    pub fn log_tail(&self) -> String {
        let around = self.around.lock().unwrap();
        let around: String = around.iter().map(|p| format!("[{}]\n{}\n", p.name, tail(&p.log))).collect();
        around + &self.peer.log_tail()
    }

    fn launch_around(&self) -> Result<(), String> {
        let dir = self.peer.dir.display();
        let kubeconfig = self.peer.kubeconfig().display().to_string();
        let [manager, scheduler, kubelet] = self.ports;
        let of_kubernetes = |port: u16| {
            vec![
                format!("--kubeconfig={kubeconfig}"),
                format!("--authentication-kubeconfig={kubeconfig}"),
                format!("--authorization-kubeconfig={kubeconfig}"),
                format!("--secure-port={port}"),
                "--bind-address=127.0.0.1".to_owned(),
                "--leader-elect=false".to_owned(),
            ]
        };
        let mut of_manager = of_kubernetes(manager);
        of_manager.push(format!("--service-account-private-key-file={dir}/sa.key"));
        of_manager.push(format!("--root-ca-file={dir}/ca.crt"));
        let of_kwok = vec![
            format!("--kubeconfig={kubeconfig}"),
            format!("--config={dir}/kwok.yaml"),
            "--manage-all-nodes=false".to_owned(),
            "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake".to_owned(),
            "--node-ip=127.0.0.1".to_owned(),
            format!("--node-port={kubelet}"),
            format!("--tls-cert-file={dir}/apiserver.crt"),
            format!("--tls-private-key-file={dir}/apiserver.key"),
            "--node-lease-duration-seconds=40".to_owned(),
            "--cidr=10.0.0.1/24".to_owned(),
        ];
        let node = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/node");
        let of_node = vec![self.peers.display().to_string(), dir.to_string(), kubelet.to_string()];
        let nodes = match self.nodes {
            Nodes::Fake => ("kwok", self.peers.join("kwok"), of_kwok),
            Nodes::Real => ("node", node, of_node),
        };
        let mut around = self.around.lock().unwrap();
        for (name, program, arguments) in [
            ("kube-controller-manager", self.peers.join("kube-controller-manager"), of_manager),
            ("kube-scheduler", self.peers.join("kube-scheduler"), of_kubernetes(scheduler)),
            nodes,
        ] {
            around.push(spawn(name, &program, &arguments, &self.peer.dir)?);
        }
        Ok(())
    }

    /// The stages of kwok's module, and what logs and commands are.
    fn write_stages(&self) -> Result<(), String> {
        if self.nodes == Nodes::Real {
            return Ok(());
        }
        let dir = &self.peer.dir;
        let read = |path: &Path| std::fs::read_to_string(path).map_err(|why| format!("{}: {why}", path.display()));
        let log = dir.join("pod.txt");
        let own = format!(
            "apiVersion: kwok.x-k8s.io/v1alpha1\nkind: ClusterLogs\nmetadata: {{name: all}}\n\
             spec: {{logs: [{{logsFile: {}, follow: false}}]}}\n---\n\
             apiVersion: kwok.x-k8s.io/v1alpha1\nkind: ClusterExec\nmetadata: {{name: all}}\n\
             spec: {{execs: [{{local: {{workDir: {}}}}}]}}\n",
            log.display(),
            dir.display()
        );
        let stages = read(&self.peers.join("kwok-stages.yaml"))?;
        std::fs::write(&log, format!("2026-01-01T00:00:00.000000000Z stdout F {PRINTED}\n"))
            .and_then(|()| std::fs::write(dir.join("kwok.yaml"), own + &stages))
            .map_err(|why| format!("{}: {why}", dir.display()))
    }

    async fn until_nodes_ready(&self) -> Result<(), String> {
        let begun = Instant::now();
        let mut last = String::new();
        while begun.elapsed() < Duration::from_secs(120) {
            if self.around.lock().unwrap().iter_mut().any(|process| !process.alive()) {
                break;
            }
            let ready = "get nodes -o jsonpath={.items[*].status.conditions[?(@.type==\"Ready\")].status}";
            last = self.kubectl(ready).unwrap_or_else(|why| why);
            if last.split_whitespace().filter(|status| *status == "True").count() == self.nodes.count() {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        Err(format!("the nodes of {} do not become ready ({last}):\n{}", self.name, self.log_tail()))
    }
}

fn node(number: usize) -> String {
    let room = "{cpu: \"32\", memory: 64Gi, pods: \"110\"}";
    format!(
        "apiVersion: v1\nkind: Node\nmetadata:\n  name: node-{number}\n  annotations: {{kwok.x-k8s.io/node: fake}}\n  \
         labels: {{kubernetes.io/hostname: node-{number}, kubernetes.io/os: linux}}\n\
         status:\n  allocatable: {room}\n  capacity: {room}\n  nodeInfo: {{kubeletVersion: fake, operatingSystem: linux, architecture: amd64}}\n---\n"
    )
}
