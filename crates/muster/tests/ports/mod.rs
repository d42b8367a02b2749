//! Ports for servers that are started in a moment.

use std::{
    net::TcpListener,
    sync::atomic::{AtomicU16, Ordering},
};

/// A port nobody listens on, below the range the system hands out by itself: one of those may be a connection's by the time the server binds it.
pub fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = 20_000 + (std::process::id() % 500) as u16 * 20;
    loop {
        let port = start + NEXT.fetch_add(1, Ordering::Relaxed);
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}
