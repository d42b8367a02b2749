//! Pods and what embeds them: defaults, rules, updates, columns.

pub mod columns;
mod container;
mod defaults;
mod resources;
mod scheduling;
mod spec;
pub mod update;
mod volume;

#[allow(unused_imports)] // what else embeds a pod's spec
pub use defaults::default_pod_spec;
pub use defaults::{default_pod, default_template};
pub use resources::{amount, container_resource_name, is_standard, qos, resource_name};
pub use scheduling::node_selector;
pub use spec::{validate, validate_template};
pub use volume::check_source;
