//! Black-box suites and their harness.
