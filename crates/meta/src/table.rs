//! Tables: the columns `kubectl get` prints.

use serde_json::{Value, json};

/// One column: its heading and the type of its cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    pub name: &'static str,
    /// `string`, `integer`, `date`, …
    pub kind: &'static str,
    /// `name` marks the column that identifies the row.
    pub format: &'static str,
    /// 0 is always shown, higher ones only in wide output.
    pub priority: u8,
}

impl Column {
    pub const fn new(name: &'static str, kind: &'static str) -> Self {
        Self { name, kind, format: "", priority: 0 }
    }

    pub const fn name() -> Self {
        Self { name: "Name", kind: "string", format: "name", priority: 0 }
    }

    pub const fn wide(mut self) -> Self {
        self.priority = 1;
        self
    }

    pub fn to_value(self) -> Value {
        json!({"name": self.name, "type": self.kind, "format": self.format, "description": "", "priority": self.priority})
    }
}
