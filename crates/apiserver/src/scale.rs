//! The `scale` subresource: any kind with replicas seen as an autoscaling/v1 Scale.

use crate::body::Body;
use crate::kinds::{GroupVersionKind, Kind, ScalePaths, ScaleSelector};
use crate::objects::{Part, Stored};
use crate::ownership::By;
use crate::patch::Patch;
use crate::path::Verb;
use crate::verbs::Call;
use crate::{decode, negotiate, ownership, server_side};
use http::Response;
use meta::options::{FieldValidation, Version, WriteOptions};
use meta::selector::LabelSelector;
use meta::{FieldError, Object, Status};
use serde_json::{Map, Value, json};

const SCALE: GroupVersionKind = GroupVersionKind { group: "autoscaling", version: "v1", kind: "Scale" };
const SCALE_VERSION: &str = "autoscaling/v1";

impl Call<'_> {
    pub async fn scale(&self, verb: Verb, paths: &ScalePaths, body: &[u8]) -> Result<Response<Body>, Status> {
        let kind = Kind::of_body(SCALE);
        let stored = match verb {
            Verb::Get => {
                let version = Version::parse(self.query.get("resourceVersion").unwrap_or_default())?;
                self.fresh(version).await?;
                let entry = self.api.store.get(&self.key());
                let entry = entry.ok_or_else(|| Status::not_found(self.kind.resource(), self.name))?;
                let object = self.api.decode_stored(&self.kind, &entry.value, entry.revision)?;
                if at(&object.0, &paths.replicas).is_none() {
                    let why = format!("the spec replicas field \".{}\" does not exist", paths.replicas);
                    return Err(Status::internal(why));
                }
                entry.into()
            }
            Verb::Update => {
                let options = WriteOptions::parse(&self.query, "UpdateOptions")?;
                let content = negotiate::content(self.headers)?;
                let decoded = decode::object(&kind, content, body, options.field_validation)?;
                self.warn(decoded.warnings);
                self.check_name(&decoded.object)?;
                self.rescale(paths, &self.by(&options, "scale"), |_| Ok(decoded.object.clone())).await?
            }
            Verb::Patch if negotiate::media_type(self.headers) == server_side::MEDIA_TYPE => {
                self.apply_scale(paths, body).await?
            }
            Verb::Patch => {
                let options = WriteOptions::parse(&self.query, "PatchOptions")?;
                let patch = Patch::parse(&self.kind, negotiate::media_type(self.headers), body)?;
                self.rescale(paths, &self.by(&options, "scale"), |scale| {
                    let (desired, warnings) = patch.apply(&kind, scale, options.field_validation)?;
                    self.warn(warnings);
                    Ok(desired)
                })
                .await?
            }
            _ => return Err(Status::method_not_allowed()),
        };
        let object = self.api.decode_stored(&self.kind, &stored.value, stored.revision)?;
        Ok(self.plain(200, &Value::Object(paths.view(&object).0)))
    }

    /// Applies to a Scale: to the object's replicas, in the name of who applies through `scale`.
    async fn apply_scale(&self, paths: &ScalePaths, body: &[u8]) -> Result<Stored, Status> {
        let options = WriteOptions::parse_apply(&self.query)?;
        let by = self.by(&options, "scale");
        let scale = decode::configuration(body)?.object;
        server_side::check_type(&scale, SCALE_VERSION, SCALE.kind)?;
        ownership::check_fit(&scale, SCALE.group, SCALE.version, SCALE.kind)?;
        if !scale.name().is_empty() {
            self.check_name(&scale)?;
        }
        let mut configuration = Object::default();
        configuration.set_type(&self.kind.api_version(), &self.kind.kind);
        for key in ["uid", "resourceVersion"] {
            configuration.set_meta(key, scale.meta_text(key));
        }
        if let Some(replicas) = at(&scale.0, "spec.replicas") {
            set(&mut configuration.0, &paths.replicas, replicas.clone());
        }
        let change = |current: &Object, held: &[u8]| {
            let applied = self.api.apply(&self.kind, &by, Some((current, held)), &configuration, options.force);
            let (mut desired, owners) = applied.map_err(|refused| self.as_scale(paths, refused))?;
            decode::check(&self.kind, &mut desired, Vec::new(), FieldValidation::Ignore)
                .map_err(|e| Status::bad_request(e.to_string()))?;
            self.check_replicas(at(&desired.0, &paths.replicas))?;
            Ok((desired, Some(owners).filter(|owners| owners != held)))
        };
        self.api.rewrite(&self.kind, self.namespace, self.name, Part::Main, by.dry_run, change).await
    }

    fn check_replicas(&self, replicas: Option<&Value>) -> Result<i64, Status> {
        let replicas = replicas.and_then(Value::as_i64).unwrap_or_default();
        // A custom kind has its own words for it.
        if replicas < 0 && self.kind.custom.is_none() {
            let e = FieldError::invalid("spec.replicas", replicas, "must be greater than or equal to 0");
            return Err(Status::invalid(SCALE.group, SCALE.kind, self.name, &[e]));
        }
        Ok(replicas)
    }

    /// A refusal names the Scale's version and field, not the object's.
    fn as_scale(&self, paths: &ScalePaths, mut refused: Status) -> Status {
        let field = format!(".{}", paths.replicas);
        let reword = |text: &str| in_version(text, SCALE_VERSION).replace(&field, ".spec.replicas");
        refused.message = reword(&refused.message);
        for cause in refused.details.iter_mut().flat_map(|details| &mut details.causes) {
            (cause.message, cause.field) = (reword(&cause.message), reword(&cause.field));
        }
        refused
    }

    async fn rescale(
        &self,
        paths: &ScalePaths,
        by: &By<'_>,
        change: impl Fn(&Object) -> Result<Object, Status>,
    ) -> Result<Stored, Status> {
        let change = |current: &Object| {
            let desired = change(&paths.view(current))?;
            self.check_uid(current, &desired)?;
            let replicas = self.check_replicas(at(&desired.0, "spec.replicas"))?;
            let mut object = current.clone();
            set(&mut object.0, &paths.replicas, replicas.into());
            // The scale's version is the object's: whoever states one means it.
            if !desired.resource_version().is_empty() {
                object.set_meta("resourceVersion", desired.resource_version());
            }
            Ok(object)
        };
        self.api.update(&self.kind, self.namespace, self.name, Part::Main, by, change).await
    }
}

/// Conflicts in words, as if all owners named their fields in one version.
fn in_version(text: &str, version: &str) -> String {
    const USING: &str = " using ";
    let mut parts = text.split(USING);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find([':', '\n']).unwrap_or(part.len());
        out = out + USING + version + &part[end..];
    }
    out
}

impl ScalePaths {
    /// An object as a Scale.
    fn view(&self, object: &Object) -> Object {
        let number = |path: &str| at(&object.0, path).and_then(Value::as_i64).unwrap_or_default();
        let mut metadata = Map::new();
        for key in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
            if let Some(value) = object.meta().get(key) {
                metadata.insert(key.into(), value.clone());
            }
        }
        let mut scale = json!({"kind": SCALE.kind, "apiVersion": SCALE_VERSION, "metadata": metadata,
            "spec": {}, "status": {"replicas": number(&self.current)}});
        let replicas = number(&self.replicas);
        if replicas != 0 {
            scale["spec"]["replicas"] = replicas.into();
        }
        let selector = match &self.selector {
            ScaleSelector::None => String::new(),
            ScaleSelector::Spec => at(&object.0, "spec.selector")
                .and_then(|s| LabelSelector::from_object(s).ok())
                .map(|s| s.to_string())
                .unwrap_or_default(),
            ScaleSelector::Labels => {
                let labels = at(&object.0, "spec.selector").and_then(Value::as_object);
                let pair = |(key, value): (&String, &Value)| format!("{key}={}", value.as_str().unwrap_or_default());
                labels.into_iter().flatten().map(pair).collect::<Vec<_>>().join(",")
            }
            ScaleSelector::Text(path) => at(&object.0, path).and_then(Value::as_str).unwrap_or_default().to_owned(),
        };
        if !selector.is_empty() {
            scale["status"]["selector"] = selector.into();
        }
        Object::from_value(scale).unwrap_or_default()
    }
}

fn at<'a>(object: &'a Map<String, Value>, path: &str) -> Option<&'a Value> {
    let mut steps = path.split('.');
    let first = object.get(steps.next()?)?;
    steps.try_fold(first, |value, step| value.get(step))
}

/// Sets a value, making the objects on the way; a value in the way stays as it is.
fn set(object: &mut Map<String, Value>, path: &str, value: Value) {
    match path.split_once('.') {
        None => {
            object.insert(path.into(), value);
        }
        Some((step, rest)) => {
            if let Value::Object(inner) = object.entry(step).or_insert_with(|| json!({})) {
                set(inner, rest, value);
            }
        }
    }
}
