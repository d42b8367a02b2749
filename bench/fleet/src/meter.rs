//! What processes cost: memory and cores, from `/proc`.

use std::fmt;
use std::fs::read_to_string;
use std::time::Instant;

/// MiB that a process holds.
pub fn resident(process: u32) -> f64 {
    let status = read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.split_whitespace().next().and_then(|kib| kib.parse::<f64>().ok()).unwrap_or(0.0) / 1024.0
}

/// Milliseconds of all cores that a process has used.
pub fn used(process: u32) -> u64 {
    let stat = read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let after = stat.rsplit(')').next().unwrap_or_default();
    let ticks = |n: usize| after.split_whitespace().nth(n).and_then(|ticks| ticks.parse::<u64>().ok()).unwrap_or(0);
    (ticks(11) + ticks(12)) * 10
}

/// Milliseconds that all cores together were busy.
fn busy() -> u64 {
    let stat = read_to_string("/proc/stat").unwrap_or_default();
    let first = stat.lines().next().unwrap_or_default();
    let ticks: Vec<u64> = first.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    // user, nice, system, (idle, iowait), irq, softirq
    [0, 1, 2, 5, 6].iter().filter_map(|i: &usize| ticks.get(*i)).sum::<u64>() * 10
}

/// The processes of a run.
#[derive(Clone)]
pub struct Cast {
    pub up: u32,
    pub simulated: u32,
}

impl Cast {
    fn used(&self) -> [u64; 4] {
        [used(self.up), used(self.simulated), used(std::process::id()), busy()]
    }

    pub fn meter(&self) -> Meter<'_> {
        Meter { cast: self, begun: Instant::now(), before: self.used() }
    }

    /// MiB of all of them, without the generator.
    pub fn resident(&self) -> f64 {
        resident(self.up) + resident(self.simulated)
    }
}

/// Cores used from its making on.
pub struct Meter<'a> {
    cast: &'a Cast,
    begun: Instant,
    before: [u64; 4],
}

impl Meter<'_> {
    fn cores(&self) -> [f64; 4] {
        let (millis, now) = (self.begun.elapsed().as_millis().max(1) as f64, self.cast.used());
        std::array::from_fn(|i| now[i].saturating_sub(self.before[i]) as f64 / millis)
    }

    pub fn shares(&self) -> Shares {
        let [up, simulated, generator, busy] = self.cores();
        Shares { up, simulated, generator, others: (busy - up - simulated - generator).max(0.0) }
    }
}

/// Who used how many cores.
#[derive(Clone, Copy)]
pub struct Shares {
    pub up: f64,
    pub simulated: f64,
    pub generator: f64,
    pub others: f64,
}

impl Shares {
    /// What bounded a run that went as fast as it could.
    pub fn bound(&self) -> String {
        let cores = std::thread::available_parallelism().map_or(1.0, |cores| usize::from(cores) as f64);
        let what = match self {
            _ if self.others > 0.3 => "a busy machine: measure again",
            _ if self.generator > 0.9 => "the generator's one thread",
            _ if self.up + self.simulated + self.generator > cores * 0.85 => "CPU",
            _ => "round trips",
        };
        format!("{what} ({self})")
    }
}

impl fmt::Display for Shares {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shares { up, simulated, generator, others } = self;
        write!(f, "up {up:.2}, simulated {simulated:.2}, generator {generator:.2}, others {others:.2} cores")
    }
}

/// Cores, model, memory and load of this machine.
pub fn machine() -> String {
    let read = |path: &str| read_to_string(path).unwrap_or_default();
    let info = read("/proc/cpuinfo");
    let model = info.lines().find_map(|line| line.strip_prefix("model name\t: ")).unwrap_or("unknown processor");
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let memory = read("/proc/meminfo").split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok());
    format!("{cores} cores, {model}, {} MiB", memory.unwrap_or(0) / 1024)
}

/// The load of the last minute.
pub fn load() -> String {
    read_to_string("/proc/loadavg").unwrap_or_default().split(' ').next().unwrap_or_default().to_owned()
}
