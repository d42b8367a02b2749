//! Fuzzing: targets as plain functions over bytes, and a runner that needs nothing but stable Rust.
//!
//! A target panics when something is wrong. `cargo test -p muster-fuzz` feeds each one its corpus and a bounded number of
//! mutated inputs; `cargo run --release -p muster-fuzz -- json 600` keeps at one for ten minutes; `libfuzzer/` drives the same
//! functions with coverage on nightly. An input that once failed goes into `corpus/<target>/`.

pub mod mutate;
pub mod runner;
pub mod targets;

pub type Target = fn(&[u8]);

/// Every target by name; the name is also its corpus folder and its libFuzzer binary.
pub const TARGETS: &[(&str, Target)] = &[
    ("json", targets::json),
    ("yaml", targets::yaml),
    ("json_patch", targets::json_patch),
    ("merge_patch", targets::merge_patch),
    ("strategic_merge_patch", targets::strategic_merge_patch),
    ("managed_fields", targets::managed_fields),
    ("server_side_apply", targets::server_side_apply),
    ("label_selector", targets::label_selector),
    ("label_selector_object", targets::label_selector_object),
    ("field_selector", targets::field_selector),
    ("name", targets::name),
    ("protobuf", targets::protobuf),
    ("typed_body", targets::typed_body),
    ("custom_resource", targets::custom_resource),
    ("cel", targets::cel),
    ("filter", targets::filter),
];

pub fn target(name: &str) -> Option<Target> {
    TARGETS.iter().find(|(known, _)| *known == name).map(|(_, target)| *target)
}
