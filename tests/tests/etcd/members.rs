//! An etcd of one or several members, which can be killed and started again.
use std::path::PathBuf;
use std::time::{Duration, Instant};

use muster_tests::PATIENCE;
use muster_tests::peer::{free_port, peers_folder};
use muster_tests::process::Process;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

pub struct Members {
    folder: tempfile::TempDir,
    program: PathBuf,
    /// For clients, and for each other.
    ports: Vec<(u16, u16)>,
    processes: Vec<Option<Process>>,
}

impl Members {
    pub async fn start(count: usize) -> Members {
        let mut members = Members {
            folder: tempfile::tempdir().unwrap(),
            program: peers_folder().unwrap().join("etcd"),
            ports: (0..count).map(|_| (free_port(), free_port())).collect(),
            processes: (0..count).map(|_| None).collect(),
        };
        (0..count).for_each(|member| members.launch(member));
        members.until_serving().await;
        members
    }

    pub fn launch(&mut self, member: usize) {
        let url = |port: u16| format!("http://127.0.0.1:{port}");
        let all = self.ports.iter().enumerate().map(|(n, (_, peer))| format!("m{n}={}", url(*peer)));
        let (client, peer) = self.ports[member];
        let folder = self.folder.path();
        let arguments = [
            format!("--name=m{member}"),
            format!("--data-dir={}", folder.join(format!("m{member}")).display()),
            format!("--listen-client-urls={}", url(client)),
            format!("--advertise-client-urls={}", url(client)),
            format!("--listen-peer-urls={}", url(peer)),
            format!("--initial-advertise-peer-urls={}", url(peer)),
            format!("--initial-cluster={}", all.collect::<Vec<_>>().join(",")),
            "--log-level=error".to_owned(),
        ];
        let log = folder.join(format!("m{member}.log"));
        self.processes[member] = Some(Process::spawn("etcd", &self.program, &arguments, &log).unwrap());
    }

    pub fn kill(&mut self, member: usize) {
        self.processes[member] = None;
    }

    /// Where clients find one.
    pub fn port(&self, member: usize) -> u16 {
        self.ports[member].0
    }

    /// Where clients find them all.
    pub fn urls(&self) -> String {
        let urls = self.ports.iter().map(|(client, _)| format!("http://127.0.0.1:{client}"));
        urls.collect::<Vec<_>>().join(",")
    }

    /// Waits until a member says that it can read and write, which takes a quorum.
    pub async fn until_serving(&self) {
        let end = Instant::now() + 2 * PATIENCE;
        loop {
            for (client, _) in &self.ports {
                if is_healthy(*client).await {
                    return;
                }
            }
            assert!(Instant::now() < end, "etcd does not serve");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

async fn is_healthy(port: u16) -> bool {
    let asked = async {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
        stream.write_all(b"GET /health HTTP/1.1\r\nHost: etcd\r\nConnection: close\r\n\r\n").await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        std::io::Result::Ok(answer.contains("\"health\":\"true\""))
    };
    matches!(tokio::time::timeout(Duration::from_secs(10), asked).await, Ok(Ok(true)))
}
