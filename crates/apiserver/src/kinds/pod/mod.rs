//! Pods and what embeds them: defaults, rules, updates, columns.

mod annotations;
pub mod columns;
mod container;
mod defaults;
mod env;
mod gates;
mod mounts;
mod profiles;
mod resources;
mod scheduling;
mod sources;
mod spec;
mod status;
mod totals;
pub mod update;
mod volume;
mod warnings;
mod windows;

#[allow(unused_imports)] // what else embeds a pod's spec
pub use defaults::default_pod_spec;
pub use defaults::{default_pod, default_template};
pub use resources::{
    amount, container_resource_name, is_standard, qos, requirements as check_resources, resource_name,
};
pub use scheduling::{node_selector, tolerations};
pub use sources::check_source;
pub use spec::{validate, validate_template};
pub use warnings::{old_node_label, warnings};

use super::check::At;

/// The lists of containers in a spec, in the order in which all are looked at.
const CONTAINER_LISTS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// All containers of a spec.
fn containers_of<'a>(spec: &'a At<'a>) -> impl Iterator<Item = At<'a>> {
    CONTAINER_LISTS.into_iter().flat_map(|list| spec.items(list))
}
