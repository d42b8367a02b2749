//! The allocator of the binary: mimalloc, with a sampling profile of what is alive that can be switched on.
//!
//! This is the one crate of the workspace that writes `unsafe`: `GlobalAlloc` cannot be implemented without it, and a stack can be
//! walked inside an allocator only without the lock that the safe walk takes. Everything unsafe is in this file and either
//! passes a caller's promise on to mimalloc unchanged or walks the own stack; what is done with the samples is safe code (`live.rs`).
//!
//! While off, an allocation costs one relaxed load more. While on, each thread counts bytes down to the next sample (on average every
//! [`PERIOD`] bytes, at random distances so that no pattern of sizes hides), and a free looks one byte up to see that it frees no sample.

mod live;

use std::{
    alloc::{GlobalAlloc, Layout},
    sync::atomic::{AtomicBool, Ordering},
};

use mimalloc::MiMalloc;

pub use live::{Site, live};

/// Bytes between two samples, on average.
pub const PERIOD: usize = 512 << 10;

/// Deeper callers are left out of a sample.
const DEPTH: usize = 64;

static ON: AtomicBool = AtomicBool::new(false);

/// mimalloc that can tell who holds the memory. For `#[global_allocator]`.
#[derive(Debug, Default, Clone, Copy)]
pub struct Heap;

/// Samples allocations from now on; what was allocated before stays unseen. There is no way back: frees of sampled memory must be noticed.
pub fn start_profiling() {
    ON.store(true, Ordering::Relaxed);
}

/// Whether [`start_profiling`] was called.
pub fn is_profiling() -> bool {
    ON.load(Ordering::Relaxed)
}

// SAFETY: every method hands its arguments to mimalloc, which keeps the contract, and returns what mimalloc returned. What is noted
// beside that neither touches the memory nor unwinds.
unsafe impl GlobalAlloc for Heap {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise is mimalloc's requirement.
        let memory = unsafe { MiMalloc.alloc(layout) };
        if is_profiling() {
            live::allocated(memory as usize, layout.size());
        }
        memory
    }

    #[inline]
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // Before it is free: afterwards the address may already be somebody else's sample.
        if is_profiling() {
            live::freed(memory as usize);
        }
        // SAFETY: the caller's promise is mimalloc's requirement.
        unsafe { MiMalloc.dealloc(memory, layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise is mimalloc's requirement.
        let memory = unsafe { MiMalloc.alloc_zeroed(layout) };
        if is_profiling() {
            live::allocated(memory as usize, layout.size());
        }
        memory
    }

    #[inline]
    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !is_profiling() {
            // SAFETY: the caller's promise is mimalloc's requirement.
            return unsafe { MiMalloc.realloc(memory, layout, size) };
        }
        let sample = live::freed(memory as usize);
        // SAFETY: the caller's promise is mimalloc's requirement.
        let moved = unsafe { MiMalloc.realloc(memory, layout, size) };
        match (moved.is_null(), sample) {
            // Nothing was freed.
            (true, Some(sample)) => live::put_back(memory as usize, sample),
            (true, None) => (),
            (false, _) => live::allocated(moved as usize, size),
        }
        moved
    }
}

/// The return addresses of the callers, innermost first.
fn stack() -> Box<[usize]> {
    let mut addresses = [0; DEPTH];
    let mut depth = 0;
    // SAFETY: the lock that is left out protects symbol tables, which are not used here; the platform's unwinder may be called from any
    // thread. The closure does not unwind.
    unsafe {
        backtrace::trace_unsynchronized(|frame| {
            addresses[depth] = frame.ip() as usize;
            depth += 1;
            depth < DEPTH
        });
    }
    addresses[..depth].into()
}
