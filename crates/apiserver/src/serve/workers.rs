//! Threads that serve connections, one runtime each: a request never changes threads, so no wake-up crosses cores on its way.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread::{self, JoinHandle};

use tokio::runtime::{Builder, Handle};
use tokio_util::sync::CancellationToken;

/// Decoding recurses as deep as documents nest; unoptimised builds need several times what release builds do. Unused stack costs nothing.
const STACK: usize = 16 << 20;

/// Stopped and joined when dropped; the connections must have ended by then or they are cut.
pub(super) struct Workers {
    threads: Vec<(Handle, JoinHandle<()>)>,
    next: AtomicUsize,
    stop: CancellationToken,
}

impl Workers {
    /// `count` threads; 0 means that connections stay on the caller's runtime.
    pub(super) fn start(count: usize) -> io::Result<Workers> {
        let stop = CancellationToken::new();
        let mut threads = Vec::with_capacity(count);
        for i in 0..count {
            let runtime = Builder::new_current_thread().enable_all().build()?;
            let (handle, until) = (runtime.handle().clone(), stop.clone());
            let thread = thread::Builder::new()
                .name(format!("serve-{i}"))
                .stack_size(STACK)
                .spawn(move || runtime.block_on(until.cancelled()))?;
            threads.push((handle, thread));
        }
        Ok(Workers { threads, next: AtomicUsize::new(0), stop })
    }

    pub(super) fn none() -> Workers {
        Workers { threads: Vec::new(), next: AtomicUsize::new(0), stop: CancellationToken::new() }
    }

    /// The next thread in turn.
    pub(super) fn pick(&self) -> Option<&Handle> {
        let turn = self.next.fetch_add(1, Relaxed);
        self.threads.get(turn % self.threads.len().max(1)).map(|(handle, _)| handle)
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.stop.cancel();
        for (_, thread) in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
