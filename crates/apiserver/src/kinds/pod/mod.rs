//! Pods and what embeds them: defaults, rules, updates, columns.

pub mod columns;
mod container;
mod defaults;
mod resources;
mod scheduling;
mod spec;
pub mod update;
mod volume;
mod warnings;

#[allow(unused_imports)] // what else embeds a pod's spec
pub use defaults::default_pod_spec;
pub use defaults::{default_pod, default_template};
pub use resources::{
    amount, container_resource_name, is_standard, qos, requirements as check_resources, resource_name,
};
pub use scheduling::{node_selector, tolerations};
pub use spec::{validate, validate_template};
pub use volume::check_source;
pub use warnings::{old_node_label, warnings};
