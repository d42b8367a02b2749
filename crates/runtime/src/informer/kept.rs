//! An object as an informer keeps it: its text, packed.

use std::sync::Arc;

use kube::Resource;
use serde::de::DeserializeOwned;

use crate::packed::{pack, unpack};

/// Shorter texts are not worth the work.
const PACK_FROM: usize = 512;

/// The text of an object.
#[derive(PartialEq, Eq)]
pub(crate) struct Kept(Box<[u8]>);

impl Kept {
    pub(crate) fn new(text: Box<[u8]>) -> Self {
        let packed = if text.len() < PACK_FROM { None } else { pack(&text, b"") };
        Kept(packed.map_or(text, Vec::into_boxed_slice))
    }

    /// The typed value, made anew. It was readable when it arrived.
    pub(crate) fn read<K: DeserializeOwned + Resource>(&self) -> Result<Arc<K>, serde_json::Error> {
        let mut object: K = serde_json::from_slice(&unpack(&self.0, b""))?;
        // Where the server wrote them in a way of its own, they were not cut.
        object.meta_mut().managed_fields = None;
        Ok(Arc::new(object))
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    fn text(value: &str) -> Box<[u8]> {
        let map = serde_json::json!({"metadata": {"name": "a"}, "data": {"k": value}});
        map.to_string().into_bytes().into()
    }

    #[test]
    fn a_long_text_takes_less_than_it_is_and_a_short_one_as_much() {
        let words = "the same words again ".repeat(100);
        let long = Kept::new(text(&words));
        assert!(long.0.len() < text(&words).len() / 4);
        let read: Arc<ConfigMap> = long.read().unwrap();
        assert_eq!(read.data.as_ref().unwrap()["k"], words);
        assert_eq!(Kept::new(text("short")).0, text("short"));
    }
}
