//! Profiles in pprof's format, for `go tool pprof`: where the processor's time goes, and who holds the memory.

mod pprof;

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, SystemTime},
};

use self::pprof::{Builder, Frame};

/// Samples per second and busy core. Not a round number: work that happens every 10 ms is seen all the same.
const FREQUENCY: i32 = 99;

/// Longest CPU profile.
pub const LONGEST: Duration = Duration::from_secs(300);

/// Why there is no profile.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// One timer serves the process.
    #[error("another CPU profile is being taken; try again when it is done")]
    Busy,
    /// Not started with `--profiling`.
    #[error("the heap profile is off; start the program with --profiling")]
    Off,
    /// The system refused.
    #[error("the profile could not be taken: {0}")]
    Failed(String),
}

/// Where the processor's time goes during `time`, gzipped. One at a time.
pub async fn cpu(time: Duration) -> Result<Vec<u8>, ProfileError> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    struct Turn;
    impl Drop for Turn {
        fn drop(&mut self) {
            TAKEN.store(false, Ordering::Release);
        }
    }
    if TAKEN.swap(true, Ordering::Acquire) {
        return Err(ProfileError::Busy);
    }
    let turn = Turn;
    let failed = |e: &dyn std::fmt::Display| ProfileError::Failed(e.to_string());
    // Off the runtime's threads: the first time, the program's own debug information is read.
    let guard = tokio::task::spawn_blocking(|| {
        // Walking a stack inside these may wait for a lock that the interrupted thread holds.
        let quiet = ["libc", "libgcc", "pthread", "vdso"];
        ::pprof::ProfilerGuardBuilder::default().frequency(FREQUENCY).blocklist(&quiet).build()
    });
    let guard = guard.await.map_err(|e| failed(&e))?.map_err(|e| failed(&e))?;
    let started = SystemTime::now();
    tokio::time::sleep(time.min(LONGEST)).await;
    let profile = tokio::task::spawn_blocking(move || {
        let report = guard.report().build().map_err(|e| e.to_string())?;
        drop(guard);
        drop(turn);
        encode_cpu(&report, started, time)
    });
    profile.await.map_err(|e| failed(&e))?.map_err(ProfileError::Failed)
}

fn encode_cpu(report: &::pprof::Report, started: SystemTime, time: Duration) -> Result<Vec<u8>, String> {
    let period = 1_000_000_000 / i64::from(FREQUENCY);
    let mut builder = Builder::new(&[("samples", "count"), ("cpu", "nanoseconds")], ("cpu", "nanoseconds"), period);
    for (frames, count) in &report.data {
        let count = i64::try_from(*count).unwrap_or(i64::MAX);
        // The innermost frames are the signal's own.
        let stack = frames.frames.iter().map(|inlined| {
            let names = inlined.iter().map(|symbol| Frame {
                function: symbol.name(),
                file: symbol.filename().into_owned(),
                line: i64::from(symbol.lineno.unwrap_or(0)),
            });
            (inlined.first().and_then(|symbol| symbol.addr).map_or(0, |addr| addr as u64), names.collect())
        });
        builder.sample(stack, &[count, count.saturating_mul(period)]);
    }
    builder.finish(started, time).map_err(|e| e.to_string())
}

/// What is alive and who allocated it, estimated, gzipped.
pub async fn heap() -> Result<Vec<u8>, ProfileError> {
    if !::heap::is_profiling() {
        return Err(ProfileError::Off);
    }
    let profile = tokio::task::spawn_blocking(encode_heap);
    profile.await.map_err(|e| e.to_string()).flatten().map_err(ProfileError::Failed)
}

fn encode_heap() -> Result<Vec<u8>, String> {
    let period = i64::try_from(::heap::PERIOD).unwrap_or(i64::MAX);
    let mut builder = Builder::new(&[("inuse_objects", "count"), ("inuse_space", "bytes")], ("space", "bytes"), period);
    for site in ::heap::live() {
        let stack: Vec<_> = site.stack.iter().map(|address| (*address as u64, symbols(*address))).collect();
        let ours = stack.iter().rposition(|(_, frames)| frames.iter().any(is_allocator)).map_or(0, |at| at + 1);
        let value = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        builder.sample(stack.into_iter().skip(ours), &[value(site.objects), value(site.bytes)]);
    }
    builder.finish(SystemTime::now(), Duration::ZERO).map_err(|e| e.to_string())
}

/// The functions at an address: several where the compiler put one into another.
fn symbols(address: usize) -> Vec<Frame> {
    let mut frames = Vec::new();
    // A return address is behind the call; one less is inside it.
    backtrace::resolve(address.saturating_sub(1) as *mut _, |symbol| {
        frames.push(Frame {
            function: symbol.name().map_or_else(String::new, |name| format!("{name:#}")),
            file: symbol.filename().map_or_else(String::new, |file| file.display().to_string()),
            line: i64::from(symbol.lineno().unwrap_or(0)),
        });
    });
    frames
}

/// The walk and the allocator itself, which would stand above every sample.
fn is_allocator(frame: &Frame) -> bool {
    ["heap::", "<heap::", "__rust", "__rg"].iter().any(|prefix| frame.function.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use std::{io::Read, process::Command, sync::Arc};

    use super::*;

    #[global_allocator]
    static HEAP: ::heap::Heap = ::heap::Heap;

    #[inline(never)]
    fn burn_the_processor(done: &AtomicBool) -> u64 {
        let mut sum = 0u64;
        while !done.load(Ordering::Relaxed) {
            for n in 0..100_000u64 {
                sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(n));
            }
        }
        sum
    }

    #[inline(never)]
    fn hold_much_memory() -> Vec<Vec<u8>> {
        (0..2000).map(|_| vec![3; 50_000]).collect()
    }

    /// What `go tool pprof -raw` says, or nothing where there is no Go.
    fn pprof_raw(profile: &[u8]) -> Option<String> {
        let mut text = Vec::new();
        flate2::read::GzDecoder::new(profile).read_to_end(&mut text).expect("gzip");
        let file = tempfile::NamedTempFile::new().expect("file");
        std::fs::write(file.path(), profile).expect("write");
        let out = Command::new("go").args(["tool", "pprof", "-raw"]).arg(file.path()).output().ok()?;
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        Some(String::from_utf8(out.stdout).expect("text"))
    }

    /// Waits while another test of this process takes one.
    async fn in_turn(time: Duration) -> Result<Vec<u8>, ProfileError> {
        loop {
            match cpu(time).await {
                Err(ProfileError::Busy) => tokio::time::sleep(Duration::from_millis(20)).await,
                ended => return ended,
            }
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_cpu_profile_names_the_busy_function_and_only_one_is_taken_at_a_time() {
        // SYM-11
        let done = Arc::new(AtomicBool::new(false));
        let burner = std::thread::spawn({
            let done = Arc::clone(&done);
            move || burn_the_processor(&done)
        });
        let first = tokio::spawn(in_turn(Duration::from_secs(1)));
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert!(matches!(cpu(Duration::from_secs(1)).await, Err(ProfileError::Busy)));
        let profile = first.await.expect("task").expect("profile");
        done.store(true, Ordering::Relaxed);
        burner.join().expect("burner");
        if let Some(raw) = pprof_raw(&profile) {
            assert!(raw.contains("samples/count cpu/nanoseconds"), "{raw}");
            assert!(raw.contains("burn_the_processor"), "{raw}");
        }
        // The turn is over.
        in_turn(Duration::from_millis(10)).await.expect("a second profile");
    }

    #[tokio::test]
    async fn a_heap_profile_names_who_holds_the_memory() {
        // SYM-11
        ::heap::start_profiling();
        let held = hold_much_memory();
        let profile = heap().await.expect("profile");
        if let Some(raw) = pprof_raw(&profile) {
            assert!(raw.contains("inuse_objects/count inuse_space/bytes"), "{raw}");
            assert!(raw.contains("hold_much_memory") && !raw.contains("heap::live::"), "{raw}");
        }
        drop(held);
    }
}
