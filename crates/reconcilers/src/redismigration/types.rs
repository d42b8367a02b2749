//! `RedisMigration`: copies the keys of one Redis into another.

use kube::CustomResource;
use runtime::phase::{Phase, PhaseKind, PhaseStatus};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Copies the keys of one Redis database into another and proves key by key that they arrived.
#[derive(CustomResource, Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "database.cloud.tencent.com",
    version = "v1",
    kind = "RedisMigration",
    plural = "redismigrations",
    namespaced,
    shortname = "rmig",
    status = "PhaseStatus",
    printcolumn = r#"{"name":"Source","type":"string","jsonPath":".spec.source"}"#,
    printcolumn = r#"{"name":"Dest","type":"string","jsonPath":".spec.dest"}"#,
    printcolumn = r#"{"name":"Phase","type":"string","jsonPath":".status.phase"}"#,
    printcolumn = r#"{"name":"Message","type":"string","jsonPath":".status.message"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct RedisMigrationSpec {
    /// The server with the keys: the name of a Secret of this namespace with the keys `address` (host:port) and, as needed,
    /// `username`, `password`, `db`, `tls` (true) and `ca.crt`.
    #[schemars(length(min = 1, max = 253))]
    pub source: String,
    /// The server that gets them, named in the same way.
    #[schemars(length(min = 1, max = 253))]
    pub dest: String,
    /// Only keys that match this pattern of Redis.
    #[serde(default = "every_key")]
    #[schemars(length(min = 1, max = 1024))]
    pub key_pattern: String,
    /// What to do with a key that the destination already has with another value.
    #[serde(default)]
    pub overwrite: Overwrite,
    /// How many pairs of connections copy at once.
    #[serde(default = "four")]
    #[schemars(range(min = 1, max = 32))]
    pub concurrency: u32,
    /// Whether every key is compared after copying.
    #[serde(default = "yes")]
    pub verify: bool,
    /// Stands still while true; goes on where it was.
    #[serde(default)]
    pub paused: bool,
    /// Ends the migration; what was copied stays.
    #[serde(default)]
    pub cancelled: bool,
}

/// What to do with a key that the destination already has with another value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Overwrite {
    /// The migration fails and names the key.
    #[default]
    Never,
    /// The source's value wins.
    Always,
    /// The destination's value stays.
    Keep,
}

fn every_key() -> String {
    "*".to_owned()
}

fn four() -> u32 {
    4
}

fn yes() -> bool {
    true
}

/// The phases of a migration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stage {
    /// Finds out where the servers are.
    Pending,
    /// Looks whether it can work.
    Precheck,
    /// Copies and compares.
    Migrate,
    /// Every key has arrived.
    Succeeded,
    /// It could not have worked; nothing was copied.
    PreFailed,
    /// It broke off; what was copied stays.
    Failed,
}

impl Phase for Stage {
    fn all() -> &'static [Self] {
        &[Self::Pending, Self::Precheck, Self::Migrate, Self::Succeeded, Self::PreFailed, Self::Failed]
    }

    fn name(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Precheck => "Precheck",
            Self::Migrate => "Migrate",
            Self::Succeeded => "Succeeded",
            Self::PreFailed => "PreFailed",
            Self::Failed => "Failed",
        }
    }

    fn kind(self) -> PhaseKind {
        match self {
            Self::Pending => PhaseKind::Initial,
            Self::Precheck | Self::Migrate => PhaseKind::Normal,
            Self::Succeeded => PhaseKind::Succeeded,
            Self::PreFailed | Self::Failed => PhaseKind::Failed,
        }
    }

    fn pausable(self) -> bool {
        !self.kind().is_terminal()
    }
}
