//! One child process of a peer: started with its output in a file, measured, and killed by its own pid.
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

pub struct Process {
    pub name: String,
    pub log: PathBuf,
    child: Child,
}

/// Memory of a process in KiB, from `/proc`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Memory {
    pub resident: u64,
    pub peak: u64,
}

impl Process {
    pub fn spawn(name: &str, program: &Path, arguments: &[String], log: &Path) -> std::io::Result<Self> {
        Self::spawn_with(name, program, arguments, &[], log)
    }

    /// The same, with further variables in its environment.
    pub fn spawn_with(
        name: &str,
        program: &Path,
        arguments: &[String],
        environment: &[(String, String)],
        log: &Path,
    ) -> std::io::Result<Self> {
        let out = File::options().create(true).append(true).open(log)?;
        // setpriv makes the kernel kill the child when this process dies, even by kill -9; without it a Drop must do.
        let setpriv = Path::new("/usr/bin/setpriv");
        let mut command = if setpriv.exists() {
            let mut command = Command::new(setpriv);
            command.args(["--pdeathsig", "KILL", "--"]).arg(program);
            command
        } else {
            Command::new(program)
        };
        let child = command
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(out.try_clone()?)
            .stderr(out)
            .env("RUST_BACKTRACE", "1")
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .spawn()?;
        Ok(Self { name: name.to_owned(), log: log.to_owned(), child })
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// kill -9 and reap.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    pub fn memory(&self) -> Memory {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id())).unwrap_or_default();
        let field = |name: &str| {
            let line = status.lines().find(|line| line.starts_with(name))?;
            line.split_whitespace().nth(1)?.parse().ok()
        };
        Memory { resident: field("VmRSS:").unwrap_or(0), peak: field("VmHWM:").unwrap_or(0) }
    }

    /// User and system time used so far, in milliseconds.
    pub fn cpu_millis(&self) -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.id())).unwrap_or_default();
        let after = stat.rsplit(')').next().unwrap_or("");
        let ticks = |n: usize| after.split_whitespace().nth(n).and_then(|t| t.parse::<u64>().ok()).unwrap_or(0);
        (ticks(11) + ticks(12)) * 10
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
