//! The memory engine passes the suite.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a broken expectation is the test's failure"
)]

use store::testing::suite;
use store::{Options, Store};

#[tokio::test(flavor = "multi_thread")]
async fn the_memory_engine_passes_the_suite() {
    let store = Store::memory(Options::default());
    suite::all(&store).await;
    store.shutdown().await;
}
