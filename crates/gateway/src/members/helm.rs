//! Helm releases on members: the newest revision of each, from the Secrets Helm keeps them in (SYM-13: 4).
//!
//! Which releases there are is told by labels, which are in memory; only those that are shown are read and unpacked, and what they
//! came to is kept. A member may be hostile: sizes are bounded before and after unpacking.

use std::collections::{BTreeMap, HashMap};
use std::io::Read;
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use flate2::read::GzDecoder;
use futures_util::{StreamExt, stream};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use super::Members;
use super::gather::Unanswered;
use super::listing::{Parameters, Parts, scope, with_items};
use super::reach::{Reach, Reached, What};
use super::route::Places;
use super::views::KNOWN;
use crate::access::List;
use crate::apiext::page::answer;
use crate::apiext::query::{From, ListQuery};
use crate::apiext::row::{Row, Shape};
use crate::caller::Caller;
use crate::visit::{Answered, bytes};

/// Of a packed release, and of what it unpacks to.
const MOST_PACKED: usize = 2 << 20;
const MOST_UNPACKED: u64 = 32 << 20;
/// Secrets read at once from all members.
const AT_ONCE: usize = 32;
const MOST_KEPT: usize = 20_000;
/// Releases of one member that are looked at.
const MOST_RELEASES: usize = 5_000;

/// A revision of a release, known by the labels of its Secret.
#[derive(Clone, Debug, PartialEq)]
struct Revision {
    namespace: Arc<str>,
    secret: Arc<str>,
    version: Box<str>,
    release: String,
    number: u64,
    status: String,
    labels: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Head {
    metadata: HeadMeta,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct HeadMeta {
    #[serde(default)]
    labels: Option<BTreeMap<String, String>>,
    #[serde(default)]
    resource_version: Option<Box<str>>,
}

/// What is told of a release.
#[derive(Clone, Debug, Default, PartialEq)]
struct Told {
    chart: String,
    chart_version: String,
    app_version: String,
    updated: String,
    description: String,
}

/// What releases came to when they were unpacked. A Secret of Helm does not change but for its status, which is a label too.
#[derive(Default)]
pub(super) struct Releases(Mutex<HashMap<Place, Known>>);

/// The version of the Secret, and what it came to.
type Known = (Box<str>, Arc<Told>);

/// Member, namespace, name of the Secret.
type Place = (Arc<str>, Arc<str>, Arc<str>);

impl Releases {
    fn known(&self, place: &Place, version: &str) -> Option<Arc<Told>> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(place).filter(|(of, _)| **of == *version).map(|(_, told)| told.clone())
    }

    fn keep(&self, place: Place, version: Box<str>, told: Arc<Told>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MOST_KEPT {
            known.clear();
        }
        known.insert(place, (version, told));
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ReleaseRow<'a> {
    cluster: &'a str,
    namespace: &'a str,
    name: &'a str,
    chart: &'a str,
    chart_version: &'a str,
    app_version: &'a str,
    revision: u64,
    status: &'a str,
    updated: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    description: &'a str,
}

impl Members {
    pub(super) async fn app_releases(&self, caller: &Caller, places: &Places, query: &str) -> Answered {
        let own = ["cluster", "namespace", "group", "unit", "ldc"];
        let parameters = Parameters::take(query, &own, &[])?;
        let parts = Parts::patterns(&parameters)?;
        let query = ListQuery::parse(parameters.rest(), &self.limits)?;
        let scope = scope(places.get("name"), parameters.get("cluster"))?;
        let what = What::within(&KNOWN.releases, parameters.get("namespace"));
        let list: Reach<List> = self.reaching.reach(caller, what, &scope).await?;
        let until = Instant::now() + scope.patience();
        let app = places.get("app");
        let parts = &parts;
        let asked = list.each().map(|reached| async move {
            let found = self.releases_on(&reached, app, parts, until).await;
            found.map_err(|(reason, message)| Unanswered { cluster: reached.name().clone(), reason, message })
        });
        let asked: Vec<_> = asked.collect();
        let answers: Vec<_> = stream::iter(asked).buffered(AT_ONCE).collect().await;
        let (mut rows, mut unanswered) = (Vec::new(), Vec::new());
        for answer in answers {
            match answer {
                Ok(some) => rows.extend(some),
                Err(one) => unanswered.push(one.to_json()),
            }
        }
        rows.sort_by(|a: &Arc<Row>, b: &Arc<Row>| {
            (&a.cluster, &a.namespace, &a.name).cmp(&(&b.cluster, &b.namespace, &b.name))
        });
        let page = answer(&rows, &query, &|_| None);
        let mut tail = serde_json::json!({"count": page.count, "pageSize": query.page_size, "unanswered": unanswered, "stale": []});
        if let From::Page(number) = query.from {
            tail["page"] = number.into();
        }
        Ok(bytes(200, "application/json", with_items(&page.items, &tail.to_string())))
    }

    /// The releases of an application on one member.
    async fn releases_on(
        &self,
        reached: &Reached<'_, List>,
        app: &str,
        parts: &Parts,
        until: Instant,
    ) -> Result<Vec<Arc<Row>>, (&'static str, String)> {
        let failed = |error: kube::Error| ("Failed", fleet::words(&error));
        let slow = |_| ("Slow", "it did not give its releases in time; ask again in a moment".to_owned());
        let cache = reached.cache();
        let selection =
            fleet::Selection { namespace: reached.namespace().map(str::to_owned), ..fleet::Selection::default() };
        let objects = match cache.ready(until.saturating_duration_since(Instant::now())).await {
            Ok(()) => cache.select(&selection).map_err(|why| ("Reading", why.to_string()))?,
            Err(why) => match (reached.status().state, cache.trouble()) {
                (fleet::State::Running, None) => {
                    timeout_at(until, reached.list()).await.map_err(slow)?.map_err(failed)?.objects
                }
                (_, trouble) => return Err(("Failed", trouble.map_or_else(|| why.to_string(), |why| why.to_string()))),
            },
        };
        let revisions = newest(objects.iter().filter_map(|(key, object)| revision(key, &object.json())), app, parts);
        let told = revisions.iter().map(|revision| async move { self.told(reached, revision, until).await });
        let told: Vec<_> = told.collect();
        let told: Vec<Arc<Told>> = stream::iter(told).buffered(AT_ONCE).collect().await;
        Ok(revisions.iter().zip(told).map(|(revision, told)| Arc::new(row(reached.name(), revision, &told))).collect())
    }

    /// What a release says of itself. One that cannot be read is shown by what its labels say.
    async fn told(&self, reached: &Reached<'_, List>, revision: &Revision, until: Instant) -> Arc<Told> {
        let place = (reached.name().clone(), revision.namespace.clone(), revision.secret.clone());
        if let Some(told) = self.releases.known(&place, &revision.version) {
            return told;
        }
        let read = async {
            let body = reached.release(&revision.namespace, &revision.secret).await.ok()?;
            tokio::task::spawn_blocking(move || unpack(&body)).await.ok().flatten()
        };
        match timeout_at(until, read).await {
            Ok(Some(told)) => {
                let told = Arc::new(told);
                self.releases.keep(place, revision.version.clone(), told.clone());
                told
            }
            _ => Arc::default(),
        }
    }
}

fn row(cluster: &Arc<str>, revision: &Revision, told: &Told) -> Row {
    let name: Arc<str> = revision.release.as_str().into();
    let shown = ReleaseRow {
        cluster,
        namespace: &revision.namespace,
        name: &name,
        chart: &told.chart,
        chart_version: &told.chart_version,
        app_version: &told.app_version,
        revision: revision.number,
        status: &revision.status,
        updated: &told.updated,
        description: &told.description,
    };
    let json = serde_json::to_vec(&shown).unwrap_or_else(|_| b"{}".to_vec());
    let labels = revision.labels.iter().map(|(key, value)| (key.as_str().into(), value.as_str().into())).collect();
    let words = [told.chart.as_str(), revision.status.as_str()];
    Row::shaped(Shape { words: &words, json, ..Shape::of(cluster, &revision.namespace, &name, &labels) })
}

/// The revision a Secret is of; nothing if it is not Helm's.
fn revision(key: &fleet::Key, object: &[u8]) -> Option<Revision> {
    let Head { metadata } = serde_json::from_slice(object).ok()?;
    let labels = metadata.labels?;
    let of = |label: &str| labels.get(label).cloned();
    if of("owner")? != "helm" || !key.name.starts_with("sh.helm.release.v1.") {
        return None;
    }
    Some(Revision {
        namespace: key.namespace.clone().unwrap_or_default(),
        secret: key.name.clone(),
        version: metadata.resource_version.unwrap_or_default(),
        release: of("name")?,
        number: of("version")?.parse().ok()?,
        status: of("status").unwrap_or_default(),
        labels,
    })
}

/// The newest revision of each release that belongs to the application and the part of it.
fn newest(revisions: impl Iterator<Item = Revision>, app: &str, parts: &Parts) -> Vec<Revision> {
    let mut newest: BTreeMap<(Arc<str>, String), Revision> = BTreeMap::new();
    for revision in revisions {
        let ours = app == "all"
            || revision.release == app
            || revision.release.strip_prefix(app).is_some_and(|rest| rest.starts_with('-'));
        let fits = parts.is_empty()
            || parts.fit_labels(|label| revision.labels.get(label).map(String::as_str))
            || parts.fit_name(&revision.release);
        if !ours || !fits {
            continue;
        }
        let key = (revision.namespace.clone(), revision.release.clone());
        if newest.get(&key).is_none_or(|known| known.number < revision.number) {
            newest.insert(key, revision);
        }
    }
    newest.into_values().take(MOST_RELEASES).collect()
}

#[derive(Deserialize)]
struct Packed {
    #[serde(default)]
    data: BTreeMap<String, String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Release {
    info: Info,
    chart: Chart,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Info {
    last_deployed: Value,
    description: Value,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Chart {
    metadata: ChartMeta,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ChartMeta {
    name: Value,
    version: Value,
    app_version: Value,
}

/// Reads a Secret of Helm: base64 of base64 of gzip of JSON. Nothing is kept of it but a few words: values and manifests hold secrets.
fn unpack(secret: &[u8]) -> Option<Told> {
    let Packed { data } = serde_json::from_slice(secret).ok()?;
    let outer = data.get("release").filter(|text| text.len() <= MOST_PACKED)?;
    let inner = BASE64_STANDARD.decode(outer).ok()?;
    let packed = BASE64_STANDARD.decode(inner).ok()?;
    let release: Release = match packed.get(..2) {
        Some([0x1f, 0x8b]) => {
            serde_json::from_reader(std::io::BufReader::new(GzDecoder::new(&packed[..]).take(MOST_UNPACKED))).ok()?
        }
        _ => serde_json::from_slice(&packed).ok()?,
    };
    let text = |value: &Value| {
        let text: String = value.as_str().unwrap_or_default().chars().filter(|c| !c.is_control()).take(200).collect();
        text
    };
    let Release { info, chart } = release;
    Some(Told {
        chart: text(&chart.metadata.name),
        chart_version: text(&chart.metadata.version),
        app_version: text(&chart.metadata.app_version),
        updated: text(&info.last_deployed),
        description: text(&info.description),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use serde_json::json;
    use std::io::Write;

    fn secret(release: &[u8], gzip: bool) -> Vec<u8> {
        let packed = if gzip {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
            encoder.write_all(release).unwrap();
            encoder.finish().unwrap()
        } else {
            release.to_vec()
        };
        let inner = BASE64_STANDARD.encode(packed);
        json!({"data": {"release": BASE64_STANDARD.encode(inner)}}).to_string().into_bytes()
    }

    #[test]
    fn a_release_tells_its_chart_and_nothing_of_its_values() {
        // SYM-13, B-17
        let release = json!({"name": "web", "info": {"last_deployed": "2026-01-02T03:04:05Z", "description": "Install\u{1b}[31m complete"},
            "chart": {"metadata": {"name": "shop", "version": "1.2.3", "appVersion": "v8"}, "templates": [{"data": "x"}]},
            "config": {"password": "canary"}, "manifest": "canary"});
        for gzip in [true, false] {
            let told = unpack(&secret(release.to_string().as_bytes(), gzip)).unwrap();
            assert_eq!(
                (told.chart.as_str(), told.chart_version.as_str(), told.app_version.as_str()),
                ("shop", "1.2.3", "v8")
            );
            assert!(!format!("{told:?}").contains("canary") && !told.description.contains('\u{1b}'));
        }
    }

    #[test]
    fn a_bomb_and_garbage_are_not_unpacked() {
        // B-14
        let bomb = format!("{{\"manifest\":\"{}\"}}", " ".repeat(64 << 20));
        assert!(secret(bomb.as_bytes(), true).len() < MOST_PACKED, "small when it is packed");
        assert_eq!(unpack(&secret(bomb.as_bytes(), true)), None);
        assert_eq!(unpack(&secret(b"[", true)), None);
        assert_eq!(unpack(b"{\"data\":{\"release\":\"!\"}}"), None);
        assert_eq!(unpack(b"{}"), None);
        assert_eq!(unpack(b"\xff"), None);
        assert!(
            unpack(&secret(br#"{"chart":{"metadata":{"name":5}}}"#, true)).is_some_and(|told| told.chart.is_empty())
        );
    }

    fn revision_of(name: &str, number: u64, labels: &[(&str, &str)]) -> Revision {
        let mut all = json!({"owner": "helm", "name": name, "version": number.to_string(), "status": "deployed"});
        for (key, value) in labels {
            all[*key] = (*value).into();
        }
        let object = json!({"metadata": {"labels": all, "resourceVersion": "1"}}).to_string();
        revision(&fleet::Key::new(Some("n"), &format!("sh.helm.release.v1.{name}.v{number}")), object.as_bytes())
            .unwrap()
    }

    #[test]
    fn the_newest_revision_of_each_release_of_the_application_counts() {
        // SYM-13
        let all = || {
            [
                revision_of("web", 9, &[]),
                revision_of("web", 10, &[]),
                revision_of("web-blue", 1, &[]),
                revision_of("webber", 1, &[]),
                revision_of("web-x", 1, &[("sym-group", "green")]),
            ]
            .into_iter()
        };
        let names = |app: &str, query: &str| {
            let parts = Parts::patterns(&Parameters::only(query, &["group", "unit", "ldc"], &[]).unwrap()).unwrap();
            newest(all(), app, &parts).iter().map(|one| format!("{}@{}", one.release, one.number)).collect::<Vec<_>>()
        };
        assert_eq!(names("web", ""), ["web@10", "web-blue@1", "web-x@1"]);
        assert_eq!(names("web", "group=blue|green"), ["web-blue@1", "web-x@1"]);
        assert_eq!(names("all", ""), ["web@10", "web-blue@1", "web-x@1", "webber@1"]);
        assert!(names("nobody", "").is_empty());
        let other = fleet::Key::new(Some("n"), "my-secret");
        assert_eq!(revision(&other, br#"{"metadata":{"labels":{"owner":"helm","name":"x","version":"1"}}}"#), None);
    }
}
