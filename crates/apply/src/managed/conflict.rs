//! What stands in the way of an apply.

use std::fmt;

use super::managers::{Manager, Managers, Operation};
use super::set::FieldSet;

/// One field that somebody else owns with another value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// Who owns it, as users are told.
    pub manager: String,
    pub field: String,
}

/// All conflicts of an apply, those with one manager together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflicts(pub Vec<Conflict>);

impl Conflicts {
    /// From the fields in conflict of each manager that has some.
    pub(super) fn new(managers: &Managers<'_>, fields: &[(usize, FieldSet<'_>)]) -> Self {
        let mut found: Vec<_> = fields.iter().map(|(at, fields)| (&managers.0[*at], fields)).collect();
        found.sort_by_cached_key(|(manager, _)| manager.identity());
        let conflicts = found.into_iter().flat_map(|(manager, fields)| {
            let manager = describe(manager);
            fields.paths().into_iter().map(move |path| {
                let field = path.iter().map(ToString::to_string).collect();
                Conflict { manager: manager.clone(), field }
            })
        });
        Self(conflicts.collect())
    }
}

fn describe(manager: &Manager<'_>) -> String {
    let mut out = format!("{:?}", manager.name);
    if !manager.subresource.is_empty() {
        out += &format!(" with subresource {:?}", manager.subresource);
    }
    if manager.operation == Operation::Update {
        out += &format!(" using {}", manager.api_version);
    }
    out
}

impl std::error::Error for Conflicts {}

impl fmt::Display for Conflicts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [Conflict { manager, field }] = self.0.as_slice() {
            return write!(f, "Apply failed with 1 conflict: conflict with {manager}: {field}");
        }
        write!(f, "Apply failed with {} conflicts: ", self.0.len())?;
        let mut last = None;
        for Conflict { manager, field } in &self.0 {
            if last != Some(manager) {
                let separator = if last.is_some() { "\n" } else { "" };
                write!(f, "{separator}conflicts with {manager}:")?;
                last = Some(manager);
            }
            write!(f, "\n- {field}")?;
        }
        Ok(())
    }
}
