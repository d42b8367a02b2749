//! What the profile costs an allocation: bare mimalloc, the wrapper off, the wrapper on. Run with `--release`.
#![allow(clippy::print_stdout)]

use std::{
    alloc::{GlobalAlloc, Layout},
    hint::black_box,
    time::Instant,
};

fn measure(name: &str, allocator: &impl GlobalAlloc) {
    const ROUNDS: usize = 30_000_000;
    let mut kept = [(std::ptr::null_mut::<u8>(), Layout::new::<u8>()); 64];
    let begun = Instant::now();
    for round in 0..ROUNDS {
        let slot = &mut kept[round % 64];
        // SAFETY: a block is freed once, by the allocator and layout it was made with.
        unsafe {
            if !slot.0.is_null() {
                allocator.dealloc(slot.0, slot.1);
            }
            slot.1 = Layout::from_size_align_unchecked(16 + round % 7 * 40, 8);
            slot.0 = black_box(allocator.alloc(slot.1));
        }
    }
    println!("{name:10} {:.2} ns per allocation and free", begun.elapsed().as_nanos() as f64 / ROUNDS as f64);
}

fn main() {
    for _ in 0..2 {
        measure("mimalloc", &mimalloc::MiMalloc);
        measure("off", &heap::Heap);
    }
    heap::start_profiling();
    measure("on", &heap::Heap);
}
