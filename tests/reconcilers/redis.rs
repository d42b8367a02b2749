//! A real Redis server of a case: started, filled, looked at, killed and started again.

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
    time::{Duration, Instant},
};

use muster_tests::{PATIENCE, peer::free_port, process::Process};

pub struct Redis {
    pub port: u16,
    arguments: Vec<String>,
    password: Option<String>,
    /// The certificate to trust, for a server that speaks TLS only.
    pub ca: Option<String>,
    dir: tempfile::TempDir,
    process: Option<Process>,
}

fn programs() -> &'static PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../peers/ensure");
        let output = Command::new(script).args(["redis-server", "redis-cli"]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        PathBuf::from(String::from_utf8_lossy(&output.stdout).trim())
    })
}

impl Redis {
    pub fn start(password: Option<&str>, more: &[&str]) -> Self {
        let port = free_port();
        let dir = tempfile::Builder::new().prefix("muster-redis-").tempdir().unwrap();
        let mut arguments: Vec<String> = [
            "--bind",
            "127.0.0.1",
            "--port",
            &port.to_string(),
            "--save",
            "",
            "--appendonly",
            "yes",
            "--appendfsync",
            "always",
            "--enable-debug-command",
            "yes",
            "--dir",
            &dir.path().display().to_string(),
        ]
        .map(str::to_owned)
        .into();
        arguments.extend(password.iter().flat_map(|p| ["--requirepass".to_owned(), (*p).to_owned()]));
        arguments.extend(more.iter().map(|word| (*word).to_owned()));
        let mut redis = Self { port, arguments, password: password.map(str::to_owned), ca: None, dir, process: None };
        redis.launch();
        redis
    }

    /// A server that speaks TLS only and knows one more user.
    pub fn start_tls(user: &str, password: &str) -> Self {
        let mut plain = Self::start(None, &[]);
        plain.kill();
        let key = rcgen::KeyPair::generate().unwrap();
        let parameters = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let certificate = parameters.self_signed(&key).unwrap().pem();
        let path = |name: &str| plain.dir.path().join(name).display().to_string();
        std::fs::write(path("crt"), &certificate).unwrap();
        std::fs::write(path("key"), key.serialize_pem()).unwrap();
        let more = [
            "--tls-port",
            &plain.port.to_string(),
            "--tls-cert-file",
            &path("crt"),
            "--tls-key-file",
            &path("key"),
            "--tls-auth-clients",
            "no",
            "--tls-ca-cert-file",
            &path("crt"),
            "--port",
            "0",
        ]
        .map(str::to_owned);
        plain.arguments.extend(more);
        plain.ca = Some(certificate);
        plain.launch();
        plain.ask(&["ACL", "SETUSER", user, "on", &format!(">{password}"), "~*", "&*", "+@all"]);
        plain
    }

    /// Also the restart after a kill, on the same data.
    pub fn launch(&mut self) {
        let log = self.dir.path().join("log");
        self.process = Some(Process::spawn("redis", &programs().join("redis-server"), &self.arguments, &log).unwrap());
        let end = Instant::now() + PATIENCE;
        while self.try_ask(&["PING"]).as_deref() != Ok("PONG") {
            assert!(
                Instant::now() < end,
                "redis does not answer: {}",
                std::fs::read_to_string(&log).unwrap_or_default()
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    pub fn kill(&mut self) {
        self.process = None;
    }

    fn try_ask(&self, words: &[&str]) -> Result<String, String> {
        let mut command = Command::new(programs().join("redis-cli"));
        command.args(["-p", &self.port.to_string()]);
        if self.ca.is_some() {
            command.args(["--tls", "--insecure"]);
        }
        if let Some(password) = &self.password {
            command.env("REDISCLI_AUTH", password);
        }
        let output = command.args(words).output().map_err(|e| e.to_string())?;
        let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        if text.starts_with("ERR") || text.is_empty() && !output.status.success() { Err(text) } else { Ok(text) }
    }

    pub fn ask(&self, words: &[&str]) -> String {
        self.try_ask(words).unwrap_or_else(|why| panic!("{words:?}: {why}"))
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Over the whole data set, whatever its encoding and order: Redis's own opinion of equality.
    pub fn digest(&self) -> String {
        self.ask(&["DEBUG", "DIGEST"])
    }

    pub fn count(&self) -> u64 {
        self.ask(&["DBSIZE"]).parse().unwrap()
    }

    /// Keys of every type, small ones and such that are kept in hash tables, some with a time to live.
    pub fn fill(&self, each: u32) {
        let script = "for i = 1, tonumber(ARGV[1]) do
            redis.call('SET', 'string:' .. i, string.rep('v' .. i, 20))
            redis.call('SET', 'ttl:' .. i, i, 'PX', 3600000 + i)
            redis.call('HSET', 'hash:' .. i, 'a', i, 'b', 'two')
            redis.call('RPUSH', 'list:' .. i, 'x', i, 'y')
            redis.call('ZADD', 'zset:' .. i, i, 'm', 1.5, 'n')
            redis.call('SADD', 'set:' .. i, i, 'a', 'b')
        end
        for i = 1, 3000 do
            redis.call('HSET', 'large:hash', 'field' .. i, i)
            redis.call('SADD', 'large:set', 'member' .. i)
            redis.call('ZADD', 'large:zset', i, 'member' .. i)
            redis.call('RPUSH', 'large:list', i)
        end
        for i = 1, 50 do redis.call('XADD', 'stream', i .. '-1', 'n', i) end
        redis.call('XGROUP', 'CREATE', 'stream', 'readers', '20-1')
        redis.call('SET', 'binary:\\0\\255\\r\\n', '\\0\\1\\255\\r\\n$3')
        return redis.call('DBSIZE')";
        self.ask(&["EVAL", script, "0", &each.to_string()]);
    }

    /// Many small keys, quickly.
    pub fn fill_many(&self, count: u32) {
        let script = "for i = 1, tonumber(ARGV[1]) do redis.call('SET', 'k' .. i, string.rep('x', 64) .. i) end";
        self.ask(&["EVAL", script, "0", &count.to_string()]);
    }
}
