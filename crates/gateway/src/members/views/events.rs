//! Events.

use std::borrow::Cow;
use std::sync::Arc;

use fleet::{Bytes, Key};
use serde::{Deserialize, Serialize};

use super::endpoints::TargetRef;
use super::object::Meta;
use super::{Labels, Made, Sum, WARNINGS, about_key, clip};
use crate::apiext::row::{Row, Shape};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct EventObject<'a> {
    #[serde(borrow)]
    metadata: Meta<'a>,
    #[serde(borrow, default)]
    involved_object: Option<TargetRef<'a>>,
    #[serde(borrow, default)]
    reason: Option<Cow<'a, str>>,
    #[serde(borrow, rename = "type", default)]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    message: Option<Cow<'a, str>>,
    #[serde(default)]
    count: Option<i64>,
    #[serde(borrow, default)]
    first_timestamp: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    last_timestamp: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    event_time: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    series: Option<Series<'a>>,
    #[serde(borrow, default)]
    reporting_component: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    source: Option<Source<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Series<'a> {
    #[serde(default)]
    count: Option<i64>,
    #[serde(borrow, default)]
    last_observed_time: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct Source<'a> {
    #[serde(borrow, default)]
    component: Option<Cow<'a, str>>,
}

#[derive(Serialize)]
struct EventRow<'a> {
    cluster: &'a str,
    namespace: &'a str,
    name: &'a str,
    kind: &'a str,
    object: &'a str,
    reason: &'a str,
    #[serde(rename = "type")]
    severity: &'a str,
    message: &'a str,
    count: i64,
    first: &'a str,
    last: &'a str,
    source: &'a str,
}

pub(super) fn event(cluster: &Arc<str>, key: &Key, object: &Bytes) -> Option<Made> {
    let text = object.json();
    let event: EventObject<'_> = serde_json::from_slice(&text).ok()?;
    let namespace = key.namespace.clone().unwrap_or_default();
    let about = event.involved_object.as_ref();
    let kind = about.and_then(|about| about.kind.as_deref()).unwrap_or_default();
    let name = about.and_then(|about| about.name.as_deref()).unwrap_or_default();
    let created = event.metadata.creation_timestamp.as_deref().unwrap_or_default();
    let given = |text: Option<&str>| text.filter(|text| !text.is_empty()).map(str::to_owned);
    let series = event.series.as_ref();
    let first = given(event.first_timestamp.as_deref()).or_else(|| given(event.event_time.as_deref()));
    let first = first.unwrap_or_else(|| created.to_owned());
    let last = given(series.and_then(|series| series.last_observed_time.as_deref()))
        .or_else(|| given(event.last_timestamp.as_deref()))
        .unwrap_or_else(|| first.clone());
    let source = given(event.reporting_component.as_deref())
        .or_else(|| given(event.source.as_ref().and_then(|source| source.component.as_deref())))
        .unwrap_or_default();
    let reason = clip(event.reason.as_deref().unwrap_or_default());
    let message = clip(event.message.as_deref().unwrap_or_default());
    let severity = event.kind.as_deref().unwrap_or("Normal");
    let row = EventRow {
        cluster,
        namespace: &namespace,
        name: &key.name,
        kind,
        object: name,
        reason,
        severity,
        message,
        count: event.count.or(series.and_then(|series| series.count)).unwrap_or(1),
        first: &first,
        last: &last,
        source: &source,
    };
    let json = serde_json::to_vec(&row).ok()?;
    let labels = Labels::new();
    let shape = Shape {
        words: &[kind, name, reason, message, severity],
        json,
        ..Shape::of(cluster, &namespace, &key.name, &labels)
    };
    let sum = Sum { count: 1, ready: (severity != "Warning").into(), ..Sum::default() };
    let mut index: Vec<Box<str>> = vec![about_key(kind, name)];
    if severity == "Warning" {
        index.push(WARNINGS.into());
    }
    Some(Made { row: Row::shaped(shape), index, sum })
}
