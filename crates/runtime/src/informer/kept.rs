//! An object as memory keeps it: its text, packed. Half as large as the typed value or much less, and made into one in microseconds.

use std::{borrow::Cow, sync::Arc};

use kube::Resource;
use serde::de::DeserializeOwned;

/// Shorter texts are not worth the work.
const PACK_FROM: usize = 512;
/// Stands before a packed text; no JSON begins with it.
const PACKED: u8 = 0;
const HEAD: usize = 1 + size_of::<u32>();

/// The text of an object.
#[derive(PartialEq, Eq)]
pub(crate) struct Kept(Box<[u8]>);

impl Kept {
    pub(crate) fn new(text: Box<[u8]>) -> Self {
        Kept(packed(&text).unwrap_or(text))
    }

    /// The typed value, made anew. It was readable when it arrived.
    pub(crate) fn read<K: DeserializeOwned + Resource>(&self) -> Result<Arc<K>, serde_json::Error> {
        let mut object: K = serde_json::from_slice(&self.text())?;
        // Where the server wrote them in a way of its own, they were not cut.
        object.meta_mut().managed_fields = None;
        Ok(Arc::new(object))
    }

    fn text(&self) -> Cow<'_, [u8]> {
        match self.0.split_first_chunk::<HEAD>() {
            Some((&[PACKED, a, b, c, d], body)) => {
                let length = u32::from_le_bytes([a, b, c, d]) as usize;
                // We packed it ourselves; should memory have rotted, an empty text is an error that says so.
                Cow::Owned(lz4_flex::block::decompress(body, length).unwrap_or_default())
            }
            _ => Cow::Borrowed(&self.0),
        }
    }
}

/// The packed text, if that saves a quarter.
fn packed(text: &[u8]) -> Option<Box<[u8]>> {
    if text.len() < PACK_FROM {
        return None;
    }
    let length = u32::try_from(text.len()).ok()?;
    let body = lz4_flex::block::compress(text);
    if HEAD + body.len() > text.len() / 4 * 3 {
        return None;
    }
    let mut packed = Vec::with_capacity(HEAD + body.len());
    packed.push(PACKED);
    packed.extend(length.to_le_bytes());
    packed.extend(body);
    Some(packed.into_boxed_slice())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use proptest::prelude::*;

    use super::*;

    fn text(value: &str) -> Box<[u8]> {
        let map = serde_json::json!({"metadata": {"name": "a"}, "data": {"k": value}});
        map.to_string().into_bytes().into()
    }

    #[test]
    fn a_long_text_takes_less_than_it_is_and_a_short_one_as_much() {
        let long = text(&"the same words again ".repeat(100));
        assert!(Kept::new(long.clone()).0.len() < long.len() / 4);
        let short = text("short");
        assert_eq!(Kept::new(short.clone()).0, short);
    }

    proptest! {
        #[test]
        fn what_is_kept_is_read_again(value in "[a-z0-9 ]{0,40}", times in 0usize..200, noise in ".{0,600}") {
            let value = format!("{}{noise}", value.repeat(times));
            let kept = Kept::new(text(&value));
            prop_assert!(kept == Kept::new(text(&value)), "equal texts are kept equally");
            let read: Arc<ConfigMap> = kept.read().unwrap();
            prop_assert_eq!(&read.data.as_ref().unwrap()["k"], &value);
        }
    }
}
