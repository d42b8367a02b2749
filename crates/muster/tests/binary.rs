//! The binary as a user meets it: starting, failing clearly, stopping, backups and keys.
#![allow(clippy::unwrap_used)]

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Child, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

mod ports;

use ports::free_port;
use rustix::process::{Pid, Signal, kill_process};

fn muster(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_muster"));
    command.args(arguments).env_remove("MUSTER_DATA_DIR").env_remove("MUSTER_LOG");
    command
}

fn run(arguments: &[&str]) -> (i32, String, String) {
    let Output { status, stdout, stderr } = muster(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

struct Server {
    process: Child,
    plain: u16,
    secure: u16,
}

impl Server {
    fn start(data: &Path, more: &[&str]) -> Server {
        let (plain, secure) = (free_port(), free_port());
        let process = muster(&["apiserver", "--authn-allow-localhost"])
            .arg(format!("--data-dir={}", data.display()))
            .arg(format!("--insecure-port={plain}"))
            .arg(format!("--secure-port={secure}"))
            .args(more)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let server = Server { process, plain, secure };
        let begun = Instant::now();
        while server.try_get("/readyz").is_none_or(|answer| !answer.starts_with("HTTP/1.1 200")) {
            assert!(begun.elapsed() < Duration::from_secs(60), "never ready");
            thread::sleep(Duration::from_millis(20));
        }
        server
    }

    fn send(&self, request: &str) -> std::io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.plain))?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        stream.write_all(request.as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }

    fn try_get(&self, path: &str) -> Option<String> {
        self.send(&format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")).ok()
    }

    fn get(&self, path: &str) -> String {
        self.try_get(path).unwrap()
    }

    fn post(&self, path: &str, body: &str) -> String {
        self.send(&format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        ))
        .unwrap()
    }

    /// Asks it to stop; what it said on standard error.
    fn stop(mut self, signal: Signal) -> String {
        kill_process(Pid::from_child(&self.process), signal).unwrap();
        let begun = Instant::now();
        let status = loop {
            if let Some(status) = self.process.try_wait().unwrap() {
                break status;
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "does not stop");
            thread::sleep(Duration::from_millis(10));
        };
        assert!(status.success(), "{status}");
        let mut said = String::new();
        self.process.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        said
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

const SECRET: &str = r#"{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"},"data":{"k":"Y2FuYXJ5LTQ3MTE="}}"#;

#[test]
fn a_first_start_makes_everything_and_says_how_to_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = Server::start(&data, &[]);
    let (plain, secure) = (server.plain, server.secure);
    assert!(server.get("/version").contains("gitVersion"));
    assert!(server.get("/api/v1/namespaces/default").starts_with("HTTP/1.1 200"));
    let said = server.stop(Signal::TERM);

    let kubeconfig = data.join("admin.kubeconfig");
    for expected in [
        format!("data        {}", data.display()),
        format!("https://127.0.0.1:{secure}"),
        format!("http://127.0.0.1:{plain}"),
        "sha256 ".to_owned(),
        format!("kubectl --kubeconfig {} get namespaces", kubeconfig.display()),
        "every program on this machine is an administrator".to_owned(),
    ] {
        assert!(said.contains(&expected), "{expected}: {said}");
    }
    for file in ["admin.kubeconfig", "encryption.key", "pki/ca.key", "pki/server.pem", "audit/audit.log"] {
        assert_eq!(fs::metadata(data.join(file)).unwrap().permissions().mode() & 0o777, 0o600, "{file}");
    }
    // The second start uses what is there.
    let authority = fs::read_to_string(data.join("pki/ca.crt")).unwrap();
    Server::start(&data, &[]).stop(Signal::INT);
    assert_eq!(authority, fs::read_to_string(data.join("pki/ca.crt")).unwrap());
}

#[test]
fn secrets_are_neither_on_disk_nor_in_any_log() {
    // B-17
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &["-v=10", "--audit-log-reads"]);
    assert!(server.post("/api/v1/namespaces/default/secrets", SECRET).starts_with("HTTP/1.1 201"));
    assert!(server.get("/api/v1/namespaces/default/secrets/s?x=canary-query").contains("Y2FuYXJ5LTQ3MTE="));
    let refused = server
        .send("GET /api HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer canary-token\r\nConnection: close\r\n\r\n")
        .unwrap();
    assert!(refused.starts_with("HTTP/1.1 401") && !refused.contains("canary"), "{refused}");
    let said = server.stop(Signal::TERM);
    assert!(!said.contains("canary") && !said.contains("Y2FuYXJ5"), "{said}");
    let audit = fs::read_to_string(dir.path().join("audit/audit.log")).unwrap();
    assert!(audit.contains("\"verb\":\"create\"") && audit.contains("\"code\":401"), "{audit}");
    let mut folders = vec![dir.path().to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
            assert!(!text.contains("canary") && !text.contains("Y2FuYXJ5"), "{}", path.display());
        }
    }
}

#[test]
fn a_directory_or_port_in_use_is_said_clearly() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let data = format!("--data-dir={}", dir.path().display());
    let (code, _, said) = run(&["apiserver", &data, "--insecure-port=0", &format!("--secure-port={}", free_port())]);
    assert_eq!(code, 7, "{said}");
    assert!(said.contains(&format!("process {}", server.process.id())) && said.contains("--data-dir"), "{said}");

    let other = tempfile::tempdir().unwrap();
    let data = format!("--data-dir={}", other.path().display());
    let taken = format!("--secure-port={}", server.secure);
    let (code, _, said) = run(&["apiserver", &data, "--insecure-port=0", &taken]);
    assert_eq!(code, 7, "{said}");
    assert!(said.contains("another program uses this port") && said.contains("--secure-port"), "{said}");
    server.stop(Signal::TERM);
}

#[test]
fn wrong_files_and_flags_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let data = format!("--data-dir={}", dir.path().join("d").display());
    let tokens = dir.path().join("token.csv");
    fs::write(&tokens, "hush,alice,1\nhush-hush,bob\n").unwrap();
    let ports = ["--insecure-port=0", "--secure-port=0"];
    let tokens = format!("--token-auth-file={}", tokens.display());
    for (flags, code, expected) in [
        (vec![tokens.as_str()], 2, "line 2: 2 columns"),
        (vec!["--token-auth-file=/nowhere/token.csv"], 2, "/nowhere/token.csv"),
        (vec!["--backend=etcd"], 2, "--etcd-servers"),
        (vec![], 2, "both ports are 0"),
        (vec!["--audit-log-path=/dev/null/x"], 2, "--audit-log-path"),
        (vec!["--no-such-flag"], 2, "--no-such-flag"),
    ] {
        let arguments: Vec<&str> = ["apiserver", &data].into_iter().chain(ports).chain(flags.clone()).collect();
        let (found, _, said) = run(&arguments);
        assert_eq!(found, code, "{flags:?}: {said}");
        assert!(said.contains(expected) && !said.contains("hush"), "{flags:?}: {said}");
    }
}

#[test]
fn a_backup_comes_back_and_keys_rotate() {
    let dir = tempfile::tempdir().unwrap();
    let (data, other) = (dir.path().join("data"), dir.path().join("other"));
    let server = Server::start(&data, &[]);
    server.post("/api/v1/namespaces/default/secrets", SECRET);
    server.stop(Signal::TERM);

    let at = |path: &Path| format!("--data-dir={}", path.display());
    let file = dir.path().join("backup");
    let name = file.to_str().unwrap();
    let ok = |arguments: &[&str]| {
        let (code, out, said) = run(arguments);
        assert_eq!(code, 0, "{arguments:?}: {said}");
        out
    };
    ok(&["key", "rotate", &at(&data)]);
    assert_eq!(ok(&["key", "list", &at(&data)]), "key 2  in use\nkey 1  opens older data\n");
    assert!(ok(&["key", "prune", &at(&data)]).ends_with("key 2  in use\n"));

    // What the server makes for itself, and the secret.
    let said = ok(&["backup", "create", &at(&data), name]);
    let objects = said.split_once(" objects").and_then(|(before, _)| before.rsplit(' ').next()?.parse::<usize>().ok());
    assert!(objects.is_some_and(|count| count > 5), "{said}");
    assert!(ok(&["backup", "verify", name]).contains("is whole"));
    let (code, _, said) = run(&["backup", "create", &at(&data), name]);
    assert!(code == 7 && said.contains("exists"), "{said}");
    let (code, _, said) = run(&["backup", "restore", &at(&data), name]);
    assert!(code == 7 && said.contains("holds data"), "{said}");

    ok(&["backup", "restore", &at(&other), name]);
    // Without the right key file it does not start, and does not make a new one.
    let (code, _, said) = run(&["apiserver", &at(&other)]);
    assert!(code == 1 && said.contains("encryption.key is missing"), "{said}");
    assert!(!other.join("encryption.key").exists());
    fs::copy(data.join("encryption.key"), other.join("encryption.key")).unwrap();
    let restored = Server::start(&other, &[]);
    assert!(restored.get("/api/v1/namespaces/default/secrets/s").contains("Y2FuYXJ5LTQ3MTE="));
    restored.stop(Signal::TERM);

    // A restore that was cut short: refused, and run again.
    let cut = dir.path().join("cut");
    fs::create_dir_all(cut.join("store")).unwrap();
    fs::copy(data.join("encryption.key"), cut.join("encryption.key")).unwrap();
    fs::write(cut.join("store/VERSION"), "muster store 1, restore under way\n").unwrap();
    fs::write(cut.join("store/00000000001000000002.snap.tmp"), "half").unwrap();
    let (code, _, said) = run(&["apiserver", &at(&cut)]);
    assert!(code == 1 && said.contains("cut short") && said.contains("muster backup restore"), "{said}");
    ok(&["backup", "restore", &at(&cut), name]);
    let restored = Server::start(&cut, &[]);
    assert!(restored.get("/api/v1/namespaces/default/secrets/s").contains("Y2FuYXJ5LTQ3MTE="));
    restored.stop(Signal::TERM);

    let mut bytes = fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&file, bytes).unwrap();
    let (code, _, said) = run(&["backup", "verify", name]);
    assert!(code == 1 && said.contains("not a usable backup"), "{said}");
}
