//! Server-side apply: PATCH with a configuration instead of a change.

use crate::body::Body;
use crate::decode::{self, Configuration};
use crate::objects::Part;
use crate::ownership::By;
use crate::verbs::Call;
use http::Response;
use meta::options::{FieldValidation, WriteOptions};
use meta::{Object, Reason, Status};
use serde_json::Value;

pub const MEDIA_TYPE: &str = "application/apply-patch+yaml";
/// How often an object may come and go between looking for it and writing it.
const TRIES: usize = 8;

impl Call<'_> {
    /// Applies to the object, which is made if it does not exist.
    pub async fn apply(&self, part: Part, body: &[u8]) -> Result<Response<Body>, Status> {
        let options = WriteOptions::parse_apply(&self.query)?;
        let by = self.by(&options, part.subresource());
        let configuration = decode::configuration(body)?;
        for _ in 0..TRIES {
            let mut old = None;
            let done = self.api.rewrite(&self.kind, self.namespace, self.name, part, by.dry_run, |current, held| {
                let (desired, owners) = self.lay(&by, Some((current, held)), &configuration, &options)?;
                self.check_patched(current, &desired)?;
                old = self.remembered(part, current);
                Ok((desired, Some(owners).filter(|owners| owners != held)))
            });
            match done.await {
                Ok(stored) => {
                    if let Some(old) = old {
                        self.remark(&stored, Some(&old))?;
                    }
                    return Ok(self.answer(200, &stored));
                }
                Err(gone) if gone.reason == Reason::NotFound && part == Part::Main => {}
                Err(status) => return Err(status),
            }
            let (object, owners) = self.lay(&by, None, &configuration, &options)?;
            self.check_new(&object)?;
            self.may_create()?;
            match self.api.insert(&self.kind, self.namespace, object, by.dry_run, |_| owners).await {
                Ok(stored) => {
                    self.remark(&stored, None)?;
                    return Ok(self.answer(201, &stored));
                }
                Err(status) if status.reason == Reason::AlreadyExists => {}
                Err(status) => return Err(status),
            }
        }
        Err(Status::modified(self.kind.resource(), self.name))
    }

    /// The object with the configuration laid over it, as its kind has it, and its owners.
    fn lay(
        &self,
        by: &By<'_>,
        live: Option<(&Object, &[u8])>,
        configuration: &Configuration,
        options: &WriteOptions,
    ) -> Result<(Object, Vec<u8>), Status> {
        check_type(&configuration.object, &self.kind.api_version(), &self.kind.kind)?;
        let (mut object, owners) = self.api.apply(&self.kind, by, live, &configuration.object, options.force)?;
        decode::check(&self.kind, &mut object, Vec::new(), FieldValidation::Ignore).map_err(|e| {
            let applied = &configuration.object;
            let (namespace, name, of) = (applied.namespace(), applied.name(), type_of(applied));
            Status::bad_request(format!(
                "failed to convert new object ({namespace}/{name}; {of}) to proper version: unable to convert unstructured object to {of}: {e}"
            ))
        })?;
        let mut warnings = Vec::new();
        if let Some(duplicates) = &configuration.duplicates {
            match options.field_validation {
                FieldValidation::Ignore => {}
                FieldValidation::Warn => warnings.push(duplicates.clone()),
                FieldValidation::Strict => {
                    return Err(Status::bad_request(format!("error strict decoding YAML: {duplicates}")));
                }
            }
        }
        self.confirm_grant(&object, live.map(|(live, _)| live))?;
        warnings.extend(self.kind.advice(&object, live.map(|(live, _)| live)));
        self.warn(warnings);
        Ok((object, owners))
    }

    fn check_new(&self, object: &Object) -> Result<(), Status> {
        if !object.uid().is_empty() {
            let uid = object.uid();
            let why =
                format!("uid mismatch: the provided object specified uid {uid}, and no existing object was found");
            return Err(Status::conflict(self.kind.resource(), self.name, &why));
        }
        self.check_namespace(object)?;
        self.check_name(object)
    }
}

/// A configuration states its type, and says nothing of owners.
pub fn check_type(configuration: &Object, api_version: &str, kind: &str) -> Result<(), Status> {
    if configuration.api_version() != api_version || configuration.kind() != kind {
        return Err(Status::bad_request(format!("invalid object type: {}", type_of(configuration))));
    }
    match configuration.meta().get("managedFields") {
        Some(Value::Array(_)) => Err(Status::bad_request("metadata.managedFields must be nil")),
        _ => Ok(()),
    }
}

/// `group/version, Kind=kind`
fn type_of(object: &Object) -> String {
    let (group, version) = meta::split_api_version(object.api_version());
    format!("{group}/{version}, Kind={}", object.kind())
}
