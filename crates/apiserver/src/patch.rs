//! PATCH: the three patch languages, applied to the current object and checked like any other write.

use crate::decode;
use crate::kinds::Kind;
use apply::strategic::{Field, MergeStrategy};
use meta::options::FieldValidation;
use meta::{Object, Status};
use schema::{Facts, Form, Type};
use serde_json::Value;

pub struct Patch {
    language: Language,
    /// Fields named twice in the patch itself.
    duplicates: Vec<String>,
    /// It is about the owners of fields; most are not, and need not see them.
    pub sees_owners: bool,
}

enum Language {
    Json(apply::json_patch::Patch),
    Merge(Value),
    Strategic(Value),
}

const ACCEPTED: &str = "application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json, application/apply-patch+yaml";

/// Kinds that are known at run time only have nothing to merge by.
const ACCEPTED_BY_CUSTOM: &str =
    "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";

impl Patch {
    pub fn parse(kind: &Kind, media_type: &str, body: &[u8]) -> Result<Self, Status> {
        let make: fn(Value) -> Result<Language, apply::Error> = match media_type {
            "application/json-patch+json" => |v| apply::json_patch::Patch::parse(v).map(Language::Json),
            "application/merge-patch+json" => |v| Ok(Language::Merge(v)),
            "application/strategic-merge-patch+json" if kind.custom.is_none() => |v| Ok(Language::Strategic(v)),
            _ if kind.custom.is_some() => return Err(Status::unsupported_media_type(ACCEPTED_BY_CUSTOM)),
            _ => return Err(Status::unsupported_media_type(ACCEPTED)),
        };
        let parsed = meta::json::parse(body).map_err(|e| Status::bad_request(format!("error decoding patch: {e}")))?;
        let sees_owners = memchr::memmem::find(body, b"managedFields").is_some();
        Ok(Self { language: make(parsed.value).map_err(refused)?, duplicates: parsed.duplicates, sees_owners })
    }

    /// The patched object in served form, checked against the schema, and the warnings for the client.
    pub fn apply(
        &self,
        kind: &Kind,
        current: &Object,
        validation: FieldValidation,
    ) -> Result<(Object, Vec<String>), Status> {
        let document = Value::Object(current.0.clone());
        let patched = match &self.language {
            Language::Json(patch) => patch.apply(document),
            Language::Merge(patch) => apply::merge_patch::apply(document, patch),
            Language::Strategic(patch) => match Facts::builtin().kind(&kind.group, &kind.version, &kind.kind) {
                Some(ty) => apply::strategic::apply(document, patch.clone(), Shape(ty)),
                None => return Err(Status::unsupported_media_type(ACCEPTED)),
            },
        };
        let mut object = Object::from_value(patched.map_err(refused)?)
            .ok_or_else(|| Status::unprocessable("the patch does not leave an object behind"))?;
        if kind.custom.is_some() {
            decode::check_custom_type(kind, &object)?;
        } else if object.kind() != kind.kind || object.api_version() != kind.api_version() {
            return Err(unfit("kind and apiVersion may not be changed"));
        }
        let warnings =
            decode::check(kind, &mut object, self.duplicates.clone(), validation).map_err(|e| unfit(&e.to_string()))?;
        Ok((object, warnings))
    }
}

/// The patch applies, but what it leaves is not an object of the kind. The object is not repeated in the error: it may hold secrets.
fn unfit(why: &str) -> Status {
    Status::invalid("", "", "", &[meta::FieldError::invalid("patch", "<object>", why)])
}

fn refused(e: apply::Error) -> Status {
    match e.code() {
        400 => Status::bad_request(e.to_string()),
        413 => Status::new(413, meta::Reason::RequestEntityTooLarge, format!("Request entity too large: {e}")),
        _ => Status::unprocessable(e.to_string()),
    }
}

/// What strategic merge must know of a type, from the facts table.
#[derive(Clone, Copy)]
struct Shape(&'static Type);

impl apply::strategic::Facts<'static> for Shape {
    fn field(self, name: &str) -> Option<Field<'static, Self>> {
        let field = self.0.field(name)?;
        let facts = Facts::builtin().inner(&field.shape).map(Shape);
        let merges = field.patch_strategy.is_some_and(|s| s.split(',').any(|s| s == "merge"));
        let replaces = field.patch_strategy.is_some_and(|s| s.split(',').any(|s| s == "replace"));
        let strategy = match (&field.shape.form, field.merge_key) {
            (Form::List(_), Some(key)) if merges => MergeStrategy::MergeBy(key),
            (Form::List(_), None) if merges => MergeStrategy::MergeSet,
            _ if replaces => MergeStrategy::Replace,
            _ => MergeStrategy::Default,
        };
        // The values of a map of structs are reached by arbitrary names; none of our kinds merges lists in there.
        let facts = facts.filter(|_| !matches!(field.shape.form, Form::Map(_)));
        Some(Field { facts, strategy })
    }
}
