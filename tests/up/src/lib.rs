//! A `muster up` as a child process, in a folder and on ports of its own, and the commands that ask it.
// The whole crate is a test tool: a failed unwrap is a failed test.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod gate;

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::sleep;
use std::time::{Duration, Instant};

use muster_tests::peer::{free_port, muster_binary};
use muster_tests::process::Process;
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::OpenptFlags;
use serde_json::Value;
use tempfile::TempDir;

pub use gate::Gate;

pub const PATIENCE: Duration = Duration::from_secs(90);

/// A running `muster up`. It dies with this value.
pub struct Up {
    folder: TempDir,
    pub port: u16,
    pub secure_port: u16,
    flags: Vec<String>,
    process: Process,
}

impl Up {
    /// Starts it and waits until it has written its door for the command line.
    pub fn start(flags: &[&str]) -> Up {
        Up::start_on("127.0.0.1", flags)
    }

    /// The same with the console on another address.
    pub fn start_on(address: &str, flags: &[&str]) -> Up {
        let folder = tempfile::Builder::new().prefix("muster-up-").tempdir().unwrap();
        let (port, secure_port) = (free_port(), free_port());
        let mut all: Vec<String> = vec![
            "up".to_owned(),
            format!("--data-dir={}", folder.path().join("data").display()),
            format!("--bind={address}:{port}"),
            format!("--secure-port={secure_port}"),
            "--metrics-bind-address=0".to_owned(),
            "--health-bind-address=0".to_owned(),
        ];
        all.extend(flags.iter().map(|flag| (*flag).to_owned()));
        let process = spawn(&all, folder.path());
        let mut up = Up { folder, port, secure_port, flags: all, process };
        up.until_ready();
        up
    }

    /// The same again, after it died.
    pub fn start_again(&mut self) {
        self.process = spawn(&self.flags, self.folder.path());
        self.until_ready();
    }

    fn until_ready(&mut self) {
        let begun = Instant::now();
        // The greeting is the last thing of a start; a restart appends one more.
        let greetings = |log: &str| log.matches(", ready in ").count();
        let wanted = greetings(&self.log_before());
        while greetings(&self.log()) <= wanted {
            assert!(self.process.alive(), "it died:\n{}", self.log());
            assert!(begun.elapsed() < PATIENCE, "it is not ready:\n{}", self.log());
            sleep(Duration::from_millis(5));
        }
        fs::write(self.folder.path().join("seen"), self.log()).unwrap();
    }

    fn log_before(&self) -> String {
        fs::read_to_string(self.folder.path().join("seen")).unwrap_or_default()
    }

    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Everything it said.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.process.log).unwrap_or_default()
    }

    /// kill -9.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Asks it to end, and says whether it did with 0.
    pub fn stop(&mut self) {
        let pid = Pid::from_raw(i32::try_from(self.process.id()).unwrap()).unwrap();
        kill_process(pid, Signal::TERM).unwrap();
        let begun = Instant::now();
        while self.process.alive() {
            assert!(begun.elapsed() < PATIENCE, "it does not stop:\n{}", self.log());
            sleep(Duration::from_millis(10));
        }
    }

    /// Runs a muster command against it: its exit code, and what it wrote to both.
    pub fn command(&self, words: &[&str]) -> (i32, String, String) {
        muster(words, &self.data(), "")
    }

    pub fn fed(&self, words: &[&str], input: &str) -> (i32, String, String) {
        muster(words, &self.data(), input)
    }

    /// Runs a muster command, which must succeed.
    pub fn ok(&self, line: &str) -> String {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (code, out, err) = self.command(&words);
        assert_eq!(code, 0, "`muster {line}`: {out}{err}\n{}", tail(&self.log()));
        out
    }

    pub fn json(&self, line: &str) -> Value {
        serde_json::from_str(&self.ok(&format!("{line} -o json"))).unwrap()
    }

    /// What a listing shows now: nothing while no cluster has answered in time, which on a busy machine happens to every first question.
    pub fn seen(&self, line: &str) -> String {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (code, out, err) = self.command(&words);
        assert!(code == 0 || code == 8 && err.contains("no cluster answered"), "`muster {line}`: {code} {out}{err}");
        out
    }

    /// Its rows.
    pub fn rows(&self, line: &str) -> Vec<Value> {
        let seen: Value = serde_json::from_str(&self.seen(&format!("{line} -o json"))).unwrap_or_default();
        seen["items"].as_array().cloned().unwrap_or_default()
    }

    /// Waits until a listing has so many rows.
    pub fn until_rows(&self, line: &str, count: usize) {
        until(&format!("`muster {line}` has {count} rows"), || self.rows(line).len() == count);
    }

    /// Restarts until every cluster took part, and gives what it said then.
    pub fn until_restarted(&self, line: &str) -> String {
        let words: Vec<&str> = line.split_whitespace().collect();
        let mut said = String::new();
        until(&format!("`muster {line}` reaches all"), || {
            let (code, out, err) = self.command(&words);
            assert!(code == 0 || err.contains("restart again"), "`muster {line}`: {code} {out}{err}");
            said = out;
            code == 0
        });
        said
    }

    /// Waits until every member runs.
    pub fn until_running(&self, count: usize) {
        until("the members run", || {
            self.rows("cluster list").iter().filter(|row| row["state"] == "Running").count() == count
        });
    }

    /// One request with the token of the command line.
    pub fn rest(&self, method: &str, path: &str, body: &str) -> (u16, Value) {
        let door = fs::read_to_string(self.data().join("client.json")).unwrap();
        let door: Value = serde_json::from_str(&door).unwrap();
        let token = format!("Bearer {}", door["token"].as_str().unwrap());
        let (code, answer) = self.request(method, path, &[("Authorization", &token)], body);
        (code, serde_json::from_str(&answer).unwrap_or(Value::String(answer)))
    }

    /// One request without a token; code and body.
    pub fn request(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> (u16, String) {
        request(self.port, method, path, headers, body)
    }
}

/// A simulated cluster of another process, with its kubeconfig.
pub struct Other {
    _process: Process,
    pub kubeconfig: String,
}

impl Other {
    pub fn start(folder: &Path) -> Other {
        Other::several(folder, 1)
    }

    /// The first of so many; `member-2.kubeconfig` and so on are beside it.
    pub fn several(folder: &Path, count: usize) -> Other {
        let dir = folder.join("simulated");
        let members = format!("--members={count}");
        let flags = ["simulate", &members, "--port=0", &format!("--data-dir={}", dir.display())];
        let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
        let log = folder.join("simulated.log");
        let process = Process::spawn("simulate", &muster_binary().unwrap(), &flags, &log).unwrap();
        until("the other cluster runs", || {
            fs::read_to_string(&log).unwrap_or_default().contains("simulated clusters;")
        });
        Other { _process: process, kubeconfig: dir.join("member-1.kubeconfig").display().to_string() }
    }

    /// The port of its API.
    pub fn port(&self) -> u16 {
        let text = fs::read_to_string(&self.kubeconfig).unwrap();
        let rest = text.split("https://127.0.0.1:").nth(1).unwrap();
        rest.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap()
    }

    /// A kubeconfig that leads to it through another port.
    pub fn through(&self, port: u16, folder: &Path) -> String {
        let text = fs::read_to_string(&self.kubeconfig).unwrap();
        let text = text.replace(&format!("https://127.0.0.1:{}", self.port()), &format!("https://127.0.0.1:{port}"));
        let file = folder.join("through.kubeconfig");
        fs::write(&file, text).unwrap();
        file.display().to_string()
    }
}

/// One request to a port of this machine; code and body.
pub fn request(port: u16, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut head = format!("{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    if !body.is_empty() {
        head.push_str(&format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len()));
    }
    stream.write_all(format!("{head}\r\n{body}").as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let code = answer.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap();
    (code, answer.split_once("\r\n\r\n").map_or_else(String::new, |(_, body)| body.to_owned()))
}

/// A program, mostly a command of muster, with a terminal at its end.
pub struct Seated {
    child: Child,
    near: fs::File,
    heard: Receiver<Vec<u8>>,
    said: String,
}

impl Seated {
    pub fn start(up: &Up, words: &[&str]) -> Seated {
        let mut command = Command::new(muster_binary().unwrap());
        command.args(words).env("MUSTER_DATA_DIR", up.data());
        Seated::at(command)
    }

    /// Any program, with a terminal at its end.
    pub fn at(mut command: Command) -> Seated {
        let near = rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        rustix::pty::grantpt(&near).unwrap();
        rustix::pty::unlockpt(&near).unwrap();
        let name = rustix::pty::ptsname(&near, Vec::new()).unwrap();
        let far = fs::File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
        command.stdin(far.try_clone().unwrap()).stdout(far.try_clone().unwrap()).stderr(far);
        let child = command.spawn().unwrap();
        let near = fs::File::from(near);
        let (sender, heard) = channel();
        let mut reader = near.try_clone().unwrap();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = reader.read(&mut buffer) {
                if sender.send(buffer[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        Seated { child, near, heard, said: String::new() }
    }

    pub fn type_in(&mut self, text: &str) {
        self.near.write_all(text.as_bytes()).unwrap();
    }

    /// Makes the window another size, as a person with a mouse does.
    pub fn resize(&self, rows: u16, columns: u16) {
        let size = rustix::termios::Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        rustix::termios::tcsetwinsize(&self.near, size).unwrap();
        // Nobody is told of it by the system: the program has no session of its own here.
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, Signal::WINCH).unwrap();
    }

    /// Waits until this was printed, behind what was waited for before.
    pub fn until(&mut self, text: &str) {
        self.heard_until(text);
    }

    /// The same, with what was printed until then.
    pub fn heard_until(&mut self, text: &str) -> String {
        let begun = Instant::now();
        loop {
            if let Some(at) = self.said.find(text) {
                return self.said.drain(..at + text.len()).collect();
            }
            assert!(begun.elapsed() < PATIENCE, "no {text:?} in {:?}", self.said);
            if let Ok(bytes) = self.heard.recv_timeout(Duration::from_millis(200)) {
                self.said.push_str(&String::from_utf8_lossy(&bytes));
            }
        }
    }

    /// Its exit code.
    pub fn ended(mut self) -> i32 {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code().unwrap_or(-1);
            }
            assert!(begun.elapsed() < PATIENCE, "it does not end; it said {:?}", self.said);
            sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Seated {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(flags: &[String], folder: &Path) -> Process {
    Process::spawn("up", &muster_binary().unwrap(), flags, &folder.join("up.log")).unwrap()
}

/// Runs a command of muster on a data directory.
pub fn muster(words: &[&str], data: &Path, input: &str) -> (i32, String, String) {
    let mut command = Command::new(muster_binary().unwrap());
    command.args(words).env("MUSTER_DATA_DIR", data).env("HOME", data);
    for variable in ["MUSTER_SERVER", "MUSTER_TOKEN", "MUSTER_CLUSTER", "MUSTER_LOG"] {
        command.env_remove(variable);
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let ended = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (ended.status.code().unwrap_or(-1), text(ended.stdout), text(ended.stderr))
}

/// The lines of a log of JSON that are written to their end.
pub fn json_lines(log: &str) -> Vec<Value> {
    let whole = log.rsplit_once('\n').map_or("", |(whole, _)| whole);
    whole.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|why| panic!("{why}: {line}"))).collect()
}

/// Tries until it holds.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "not in time: {what}");
        sleep(Duration::from_millis(100));
    }
}

fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(15)..].join("\n")
}
