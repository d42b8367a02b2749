//! APIExt on us and on kube-apiserver: every case runs on both and expects the same. // KC-8
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "apiext/actions.rs"]
mod actions;
#[path = "apiext/documents.rs"]
mod documents;
#[path = "apiext/hostile.rs"]
mod hostile;
#[path = "apiext/lean.rs"]
mod lean;
#[path = "apiext/rights.rs"]
mod rights;
#[path = "apiext/rows.rs"]
mod rows;
#[path = "apiext/serving.rs"]
mod serving;
#[path = "apiext/writes.rs"]
mod writes;

fn main() {
    let all = [
        rows::all(),
        writes::all(),
        actions::all(),
        rights::all(),
        documents::all(),
        serving::all(),
        hostile::all(),
        lean::all(),
    ];
    muster_tests::runner::main(all.concat());
}
