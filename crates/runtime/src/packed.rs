//! Texts as memory keeps them: packed where that saves something. An object is half as large as its typed value or much less, and made
//! into one in microseconds.

use std::borrow::Cow;

use lz4_flex::block::{compress_with_dict, decompress_with_dict};

/// Stands before what is packed, with its length; no JSON begins with it.
const PACKED: u8 = 0;
const HEAD: usize = 1 + size_of::<u32>();

/// The packed text, if that saves a quarter. Of what stands in the sample too, little must be kept.
pub fn pack(text: &[u8], sample: &[u8]) -> Option<Vec<u8>> {
    let length = u32::try_from(text.len()).ok()?;
    let body = compress_with_dict(text, sample);
    // What begins as if it were packed is no JSON, and packed whatever that costs.
    let worth = HEAD + body.len() <= text.len() / 4 * 3 || text.first() == Some(&PACKED);
    worth.then(|| [&[PACKED][..], &length.to_le_bytes(), &body].concat())
}

/// The text again, whether it was packed or not. The sample is the one it was packed with.
pub fn unpack<'a>(kept: &'a [u8], sample: &[u8]) -> Cow<'a, [u8]> {
    match kept.split_first_chunk::<HEAD>() {
        Some((&[PACKED, a, b, c, d], body)) => {
            let length = u32::from_le_bytes([a, b, c, d]) as usize;
            // We packed it ourselves; should memory have rotted, an empty text is an error to whoever reads it.
            Cow::Owned(decompress_with_dict(body, length, sample).unwrap_or_default())
        }
        _ => Cow::Borrowed(kept),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn kept(text: &[u8], sample: &[u8]) -> Vec<u8> {
        pack(text, sample).unwrap_or_else(|| text.to_vec())
    }

    #[test]
    fn a_sample_makes_a_short_text_shorter() {
        let text = br#"{"metadata":{"name":"web"},"status":{"phase":"Running","reason":"none"}}"#;
        assert_eq!(pack(text, b""), None);
        assert!(kept(text, br#"{"metadata":{"name":"status":{"phase":"Running","reason":""#).len() < text.len() / 2);
    }

    #[test]
    fn whatever_it_is_it_is_read_back() {
        for text in [&b""[..], b"\0", b"\0\0\0\0\0\0", b"{}", b"\xff\xfe"] {
            for sample in [&b""[..], b"x", b"{}{}{}{}{}{}{}{}"] {
                assert_eq!(unpack(&kept(text, sample), sample), text, "{text:?}");
            }
        }
    }

    proptest! {
        #[test]
        fn texts_are_read_back(word in "[a-z0-9 ]{0,40}", times in 0usize..200, noise in ".{0,600}", sample in ".{0,200}") {
            let text = format!("{}{noise}{sample}", word.repeat(times));
            for sample in [sample.as_bytes(), b""] {
                let packed = kept(text.as_bytes(), sample);
                prop_assert_eq!(&packed, &kept(text.as_bytes(), sample), "equal texts are kept equally");
                prop_assert_eq!(unpack(&packed, sample), text.as_bytes());
            }
        }
    }
}
