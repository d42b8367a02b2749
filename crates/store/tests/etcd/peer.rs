//! Real etcd members on loopback, started and killed by the tests.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

/// The folder of etcd and etcdctl. None, with a word, only if peers are declared optional.
pub fn binaries() -> Option<PathBuf> {
    static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
    let found = FOUND.get_or_init(|| {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/peers/ensure");
        let optional = std::env::var_os("MUSTER_PEERS_OPTIONAL").is_some();
        let out = Command::new(script).args(["etcd", "etcdctl"]).stderr(Stdio::inherit()).output();
        match out {
            Ok(out) if out.status.success() => Some(String::from_utf8_lossy(&out.stdout).trim().into()),
            other if optional => {
                eprintln!("SKIPPED: no etcd to test against, and MUSTER_PEERS_OPTIONAL is set ({other:?})");
                None
            }
            other => panic!("no etcd to test against: {other:?}"),
        }
    });
    found.clone()
}

/// A port below 32768 that nobody has now.
pub fn port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let from = 20_000 + (std::process::id() % 1000) as u16 * 10;
    loop {
        let port = from + NEXT.fetch_add(1, Ordering::SeqCst) % 2000;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

pub struct Member {
    pub client: u16,
    flags: Vec<String>,
    child: Option<Child>,
    secure: Vec<String>,
}

impl Member {
    pub fn url(&self) -> String {
        let scheme = if self.secure.is_empty() { "http" } else { "https" };
        format!("{scheme}://127.0.0.1:{}", self.client)
    }

    pub fn start(&mut self) {
        let etcd = binaries().unwrap().join("etcd");
        let child = Command::new(etcd).args(&self.flags).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        self.child = Some(child.unwrap());
    }

    /// kill -9
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// kill -STOP: it holds its connections and says nothing.
    pub fn freeze(&self) {
        self.signal("-STOP");
    }

    pub fn thaw(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, signal: &str) {
        let pid = self.child.as_ref().unwrap().id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    }

    pub fn ctl(&self, args: &[&str]) -> String {
        self.try_ctl(args).unwrap()
    }

    pub fn try_ctl(&self, args: &[&str]) -> Result<String, String> {
        let ctl = binaries().unwrap().join("etcdctl");
        let out = Command::new(ctl)
            .arg(format!("--endpoints={}", self.url()))
            .arg("--command-timeout=3s")
            .args(&self.secure)
            .args(args)
            .output()
            .unwrap();
        if !out.status.success() {
            return Err(format!("etcdctl {args:?}: {}", String::from_utf8_lossy(&out.stderr)));
        }
        Ok(String::from_utf8_lossy(&out.stdout).into_owned())
    }

    pub fn leads(&self) -> bool {
        let status = self.try_ctl(&["endpoint", "status"]).unwrap_or_default();
        // endpoint, id, version, …, is leader: the first true of the line.
        status.split(", ").any(|word| word == "true")
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.kill();
    }
}

pub struct Cluster {
    pub members: Vec<Member>,
    _dir: tempfile::TempDir,
}

impl Cluster {
    /// None when there is no etcd and that is allowed.
    pub fn start(count: usize) -> Option<Cluster> {
        Cluster::with(count, &[], &[])
    }

    /// `flags` go to etcd (and make it https if they name a certificate), `secure` to etcdctl.
    pub fn with(count: usize, flags: &[&str], secure: &[&str]) -> Option<Cluster> {
        binaries()?;
        let dir = tempfile::tempdir().unwrap();
        let ports: Vec<(u16, u16)> = (0..count).map(|_| (port(), port())).collect();
        let all: Vec<_> = ports.iter().enumerate().map(|(i, p)| format!("m{i}=http://127.0.0.1:{}", p.1)).collect();
        let scheme = if secure.is_empty() { "http" } else { "https" };
        let mut members = Vec::new();
        for (i, (client, peer)) in ports.into_iter().enumerate() {
            let mut own: Vec<String> = vec![
                format!("--name=m{i}"),
                format!("--data-dir={}", dir.path().join(format!("m{i}")).display()),
                format!("--listen-client-urls={scheme}://127.0.0.1:{client}"),
                format!("--advertise-client-urls={scheme}://127.0.0.1:{client}"),
                format!("--listen-peer-urls=http://127.0.0.1:{peer}"),
                format!("--initial-advertise-peer-urls=http://127.0.0.1:{peer}"),
                format!("--initial-cluster={}", all.join(",")),
                "--initial-cluster-state=new".into(),
                "--log-level=error".into(),
                // kill -9 loses no page the kernel has; only the speed measurement wants a true sync.
                format!("--unsafe-no-fsync={}", std::env::var_os("MUSTER_ETCD_FSYNC").is_none()),
            ];
            own.extend(flags.iter().map(ToString::to_string));
            let secure = secure.iter().map(ToString::to_string).collect();
            let mut member = Member { client, flags: own, child: None, secure };
            member.start();
            members.push(member);
        }
        Some(Cluster { members, _dir: dir })
    }

    pub fn urls(&self) -> Vec<String> {
        self.members.iter().map(Member::url).collect()
    }

    /// Blocks until someone leads.
    pub fn leader(&self) -> usize {
        let end = Instant::now() + Duration::from_secs(30);
        loop {
            let leader = self.members.iter().position(|m| m.child.is_some() && m.leads());
            if let Some(leader) = leader {
                return leader;
            }
            assert!(Instant::now() < end, "no leader");
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}
