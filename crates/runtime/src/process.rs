//! What the process takes from the machine, under the names every Prometheus client uses.

use std::{fmt, fs, time::SystemTime};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
    registry::Registry,
};
use rustix::{param, time};

/// Adds the figures; they are read when somebody asks.
pub fn register(registry: &mut Registry) {
    registry.register_collector(Box::new(Process { started: start_time() }));
}

#[derive(Debug)]
struct Process {
    started: Option<f64>,
}

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let cpu = time::clock_gettime(time::ClockId::ProcessCPUTime);
        let cpu = ConstCounter::new(cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9);
        let help = "Seconds of processor time taken, in user and system mode";
        cpu.encode(encoder.encode_descriptor("process_cpu_seconds", help, None, MetricType::Counter)?)?;
        let mut gauge = |name: &str, help: &str, value: Option<f64>| {
            // What the system does not tell is left out: a zero would be a lie.
            let Some(value) = value else { return Ok(()) };
            ConstGauge::new(value).encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)
        };
        gauge("process_resident_memory_bytes", "Bytes of memory in use", status_kib("VmRSS:"))?;
        gauge("process_virtual_memory_bytes", "Bytes of address space", status_kib("VmSize:"))?;
        gauge("process_open_fds", "Files and connections open", open_files())?;
        gauge("process_max_fds", "Files and connections that may be open", most_files())?;
        gauge("process_start_time_seconds", "When the process began, in seconds since 1970", self.started)
    }
}

/// A line of `/proc/self/status` that counts in KiB, in bytes.
fn status_kib(name: &str) -> Option<f64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix(" kB")?.trim().parse().ok().map(|kib: f64| kib * 1024.0)
}

fn open_files() -> Option<f64> {
    // Reading the folder opens one itself.
    Some(fs::read_dir("/proc/self/fd").ok()?.count().saturating_sub(1) as f64)
}

fn most_files() -> Option<f64> {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current.map(|most| most as f64)
}

/// From the time since the machine started, which is how the system counts.
fn start_time() -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The program's name stands in brackets and may hold anything; it is the second field.
    let ticks: f64 = stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()?;
    let after_boot = ticks / param::clock_ticks_per_second() as f64;
    let since_boot = time::clock_gettime(time::ClockId::Boottime);
    let since_boot = since_boot.tv_sec as f64 + since_boot.tv_nsec as f64 / 1e9;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()?.as_secs_f64();
    Some(now - since_boot + after_boot)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Metrics;

    #[test]
    fn the_process_is_measured_under_the_names_operators_know() {
        // SYM-11
        let metrics = Metrics::new();
        metrics.register(register);
        let text = metrics.encode().unwrap();
        let value = |name: &str| {
            let line =
                text.lines().find(|line| line.starts_with(&format!("{name} "))).unwrap_or_else(|| panic!("{name}"));
            line[name.len()..].trim().parse::<f64>().unwrap()
        };
        assert!(value("process_cpu_seconds_total") > 0.0);
        assert!(value("process_resident_memory_bytes") > 1e6);
        assert!(value("process_open_fds") >= 3.0);
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs_f64();
        let started = value("process_start_time_seconds");
        assert!(started <= now && started > now - 3600.0, "{started} and now {now}");
    }
}
