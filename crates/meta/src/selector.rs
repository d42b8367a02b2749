//! Selectors: which objects a list or watch asks for, by labels and by fields.

mod field;
mod label;

pub use field::{FieldError, FieldRequirement, FieldSelector};
pub use label::{LabelError, LabelRequirement, LabelSelector, Labels, Operator};
