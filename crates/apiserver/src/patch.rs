//! PATCH: the three patch languages, applied to the current object and checked like any other write.

use crate::decode;
use crate::kinds::Kind;
use meta::options::FieldValidation;
use meta::{Object, Status};
use serde_json::Value;

pub enum Patch {
    Json(apply::json_patch::Patch),
    Merge(Value, Vec<String>),
    Strategic(Value, Vec<String>),
}

const ACCEPTED: &str = "application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json";

impl Patch {
    pub fn parse(_kind: &Kind, media_type: &str, body: &[u8]) -> Result<Self, Status> {
        let parsed = || meta::json::parse(body).map_err(|e| Status::bad_request(format!("error decoding patch: {e}")));
        match media_type {
            "application/json-patch+json" => {
                let patch = apply::json_patch::Patch::parse(&parsed()?.value);
                patch.map(Self::Json).map_err(|e| Status::bad_request(e.to_string()))
            }
            "application/merge-patch+json" => parsed().map(|p| Self::Merge(p.value, p.duplicates)),
            "application/strategic-merge-patch+json" => {
                let parsed = parsed()?;
                if !parsed.value.is_object() {
                    return Err(Status::bad_request("error decoding patch: a strategic merge patch must be an object"));
                }
                Ok(Self::Strategic(parsed.value, parsed.duplicates))
            }
            _ => Err(Status::unsupported_media_type(ACCEPTED)),
        }
    }

    /// The patched object in served form, checked against the schema, and the warnings for the client.
    pub fn apply(&self, kind: &Kind, current: &Object, validation: FieldValidation) -> Result<(Object, Vec<String>), Status> {
        let mut value = Value::Object(current.0.clone());
        let mut duplicates = Vec::new();
        match self {
            Self::Json(patch) => patch.apply(&mut value).map_err(|e| Status::unprocessable(e.to_string()))?,
            Self::Merge(patch, twice) => {
                apply::merge_patch::apply(&mut value, patch);
                duplicates.clone_from(twice);
            }
            Self::Strategic(patch, twice) => {
                let facts = Shape::of(kind);
                apply::strategic::apply(&mut value, patch, &facts).map_err(|e| Status::bad_request(e.to_string()))?;
                duplicates.clone_from(twice);
            }
        }
        let mut object = Object::from_value(value)
            .ok_or_else(|| Status::unprocessable("the patch does not leave an object behind"))?;
        if object.kind() != kind.kind || object.api_version() != kind.api_version() {
            return Err(Status::bad_request("the patch may not change kind or apiVersion"));
        }
        let warnings = decode::check(kind, &mut object, duplicates, validation)?;
        Ok((object, warnings))
    }
}
