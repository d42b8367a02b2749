//! `At`: a command and the time it is to run.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Runs a command at a time, once.
#[derive(CustomResource, Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "demo.wukong.com",
    version = "v1",
    kind = "At",
    plural = "ats",
    namespaced,
    status = "AtStatus",
    printcolumn = r#"{"name":"Schedule","type":"string","jsonPath":".spec.schedule"}"#,
    printcolumn = r#"{"name":"Phase","type":"string","jsonPath":".status.phase"}"#,
    printcolumn = r#"{"name":"Outcome","type":"string","jsonPath":".status.outcome"}"#,
    printcolumn = r#"{"name":"Exit","type":"integer","jsonPath":".status.exitCode"}"#,
    printcolumn = r#"{"name":"Command","type":"string","jsonPath":".spec.command","priority":1}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct AtSpec {
    /// When, as RFC 3339: `2026-11-16T10:00:00+08:00`. A time that has passed means now.
    #[schemars(length(min = 1, max = 64))]
    pub schedule: String,
    /// What: a program and its arguments, quoted as for a shell. No shell is used unless it says `sh -c '…'`.
    #[schemars(length(min = 1, max = 32768))]
    pub command: String,
    /// How long it may run.
    #[serde(default = "five_minutes")]
    #[schemars(range(min = 1, max = 86400))]
    pub timeout_seconds: u32,
    /// The image it runs in when it runs as a Pod; the configuration says which one otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
}

fn five_minutes() -> u32 {
    300
}

/// How far it has come.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AtStatus {
    /// PENDING, RUNNING, DONE.
    #[serde(default)]
    pub phase: AtPhase,
    /// How it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// What is going on, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// How it is run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runner: Option<Runner>,
    /// Who runs it: written before the command begins, so that nobody begins it a second time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<String>,
    /// The Pod it runs in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    /// The uid of that Pod, once it is known to exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_uid: Option<String>,
    /// When it was claimed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Time>,
    /// What it ended with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The end of what it wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
}

/// Where an `At` stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum AtPhase {
    /// Its time has not come.
    #[default]
    Pending,
    /// Claimed by somebody who runs it.
    Running,
    /// Over.
    Done,
}

/// How an `At` ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Outcome {
    /// With exit code 0.
    Succeeded,
    /// With another exit code, by a signal, or not even begun.
    Failed,
    /// It took too long and was ended.
    TimedOut,
    /// Whoever ran it stopped in the middle. It may have run in part, and is not run again.
    Interrupted,
}

/// How a command is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Runner {
    /// As a process beside the reconciler.
    Process,
    /// As a Pod.
    Pod,
}
