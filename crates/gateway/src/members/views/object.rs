//! What objects of all kinds have.

use std::borrow::Cow;

use serde::Deserialize;

use super::Labels;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Object<'a, S, T> {
    #[serde(borrow)]
    pub(super) metadata: Meta<'a>,
    #[serde(default = "Option::default")]
    pub(super) spec: Option<S>,
    #[serde(default = "Option::default")]
    pub(super) status: Option<T>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Meta<'a> {
    #[serde(borrow, default)]
    pub(super) labels: Option<Labels<'a>>,
    #[serde(borrow, default)]
    pub(super) creation_timestamp: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) deletion_timestamp: Option<Cow<'a, str>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Condition<'a> {
    #[serde(borrow, rename = "type", default)]
    pub(super) kind: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(super) status: Cow<'a, str>,
}

pub(super) fn is_true(conditions: Option<&[Condition<'_>]>, kind: &str) -> bool {
    conditions.unwrap_or_default().iter().any(|condition| condition.kind == kind && condition.status == "True")
}
