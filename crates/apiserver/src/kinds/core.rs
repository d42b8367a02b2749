//! The kinds of the core group that make up a cluster: pods, nodes, services, volumes.

use super::builtin::Row;

#[rustfmt::skip]
pub const ROWS: &[Row] = &[
];
