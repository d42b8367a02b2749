//! tests to come
