//! The schema of one version, compiled when it is first needed and kept as long as it does not change.

use super::{Definition, digest, flag, list, text};
use bytes::Bytes;
use meta::Object;
use schema::structural::Schema;
use serde_json::Value;
use std::sync::{Arc, OnceLock};
use store::Revision;

/// The schema of one version.
pub struct Shape {
    pub version: String,
    /// The definition as it is stored; the schema is taken from it when first needed.
    definition: Bytes,
    schema: OnceLock<Schema>,
    pub digest: String,
    /// Objects stored after this revision were pruned and defaulted by this very schema.
    /// (One whose writer was under way when the schema changed is brought into shape by its next write.)
    pub since: Revision,
}

impl Shape {
    pub fn new(
        spec: &Value,
        version: &Value,
        stored: &Bytes,
        revision: Revision,
        previous: Option<&Definition>,
    ) -> Arc<Self> {
        let name = text(version, "name");
        let preserve = flag(spec, "preserveUnknownFields");
        let digest = digest(&(preserve, version.get("schema")));
        let same = |shape: &&Arc<Shape>| shape.version == name && shape.digest == digest;
        if let Some(shape) = previous.and_then(|p| p.shapes.iter().find(same)) {
            return shape.clone();
        }
        let definition = stored.clone();
        Arc::new(Self { version: name.into(), definition, schema: OnceLock::new(), digest, since: revision })
    }

    /// Drops what the schema does not know and fills in its defaults.
    pub fn bring_into_form(&self, object: &mut Object) {
        self.schema().prune(&mut object.0);
        self.schema().default(&mut object.0);
    }

    /// Compiled when first asked for: of a thousand definitions most are never used.
    pub fn schema(&self) -> &Schema {
        self.schema.get_or_init(|| {
            let root = meta::json::parse(&self.definition).map(|parsed| parsed.value).unwrap_or_default();
            let spec = root.get("spec").unwrap_or(&Value::Null);
            let version = list(spec, "versions").iter().find(|v| text(v, "name") == self.version);
            let props = version.and_then(|v| v.pointer("/schema/openAPIV3Schema"));
            match props.filter(|_| !flag(spec, "preserveUnknownFields")).map(Schema::compile) {
                None => Schema::preserve_all(),
                Some(Ok(schema)) => schema,
                // It was checked when it was written; one that came another way must not take the server down.
                Some(Err(errors)) => {
                    let error = meta::field::aggregate(&errors);
                    tracing::error!(version = %self.version, %error, "a stored schema cannot be used; its objects are not checked");
                    Schema::preserve_all()
                }
            }
        })
    }
}
