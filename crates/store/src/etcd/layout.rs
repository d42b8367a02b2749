//! How keys and values look in etcd.
//!
//! A key is `<prefix>/<collection>/<item>`; collections are `group/resource`, others are escaped into the same shape so that the
//! way back is never ambiguous. A value begins with one line that says who wrote it, which is how a writer recognises its own
//! write after a lost answer: `m1 p <writer> <number>` for plain, `m1 s …` for sealed bytes.

use bytes::{BufMut, Bytes, BytesMut};

use super::wire::RangeRequest;
use crate::model::{Collection, Key};

/// First part of the key of a collection that is not of the form `group/resource`.
const ODD: &str = "=";
const LINE: usize = "m1 p 0123456789abcdef 0123456789abcdef\n".len();

pub(super) struct Layout {
    prefix: String,
}

/// Who wrote a value: a store's number, drawn when it opens, and the number of its write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Tag {
    pub writer: u64,
    pub number: u64,
}

impl Layout {
    pub(super) fn new(prefix: &str) -> Layout {
        Layout { prefix: prefix.trim_end_matches('/').to_owned() }
    }

    /// Everything of ours, as etcd wants a range: from the first, to the second excluded.
    pub(super) fn all(&self) -> (Bytes, Bytes) {
        (format!("{}/", self.prefix).into(), format!("{}0", self.prefix).into())
    }

    /// A read that costs nothing and tells how far etcd is.
    pub(super) fn probe(&self) -> RangeRequest {
        RangeRequest { key: self.all().0, count_only: true, ..RangeRequest::default() }
    }

    /// Everything of one collection.
    pub(super) fn collection(&self, collection: &Collection) -> (Bytes, Bytes) {
        let from = self.key(&Key::new(collection, ""));
        // Ends in `/`, after which `0` comes next.
        let to = [&from[..from.len() - 1], b"0"].concat();
        (from, to.into())
    }

    /// Where servers agree who compacts; no item, as it has no collection.
    pub(super) fn compaction(&self) -> Bytes {
        format!("{}/.compaction", self.prefix).into()
    }

    /// Compared by every write of one store; raised when an answer was lost.
    pub(super) fn fence(&self, writer: u64) -> Bytes {
        format!("{}/.fence/{writer:016x}", self.prefix).into()
    }

    pub(super) fn key(&self, key: &Key) -> Bytes {
        let collection = key.collection.as_str();
        match collection.split_once('/') {
            Some((group, resource)) if group != ODD && !group.starts_with('.') && !resource.contains('/') => {
                format!("{}/{collection}/{}", self.prefix, key.item).into()
            }
            _ => {
                let escaped = collection.replace('%', "%25").replace('/', "%2F");
                format!("{}/{ODD}/{escaped}/{}", self.prefix, key.item).into()
            }
        }
    }

    /// None: not a key this layout makes.
    pub(super) fn item(&self, key: &[u8]) -> Option<Key> {
        let rest = std::str::from_utf8(key).ok()?.strip_prefix(&self.prefix)?.strip_prefix('/')?;
        let (group, rest) = rest.split_once('/')?;
        let (resource, item) = rest.split_once('/')?;
        if group == ODD {
            let name = resource.replace("%2F", "/").replace("%25", "%");
            return Some(Key::new(&Collection::new(&name), item));
        }
        if group.starts_with('.') {
            return None;
        }
        Some(Key::new(&Collection::new(&format!("{group}/{resource}")), item))
    }
}

pub(super) fn envelop(tag: Tag, sealed: bool, body: &[u8]) -> Bytes {
    let mut value = BytesMut::with_capacity(LINE + body.len());
    let kind = if sealed { 's' } else { 'p' };
    value.put_slice(format!("m1 {kind} {:016x} {:016x}\n", tag.writer, tag.number).as_bytes());
    value.put_slice(body);
    value.freeze()
}

/// Who wrote it, whether it is sealed, and the body. None: not a value of ours.
pub(super) fn unfold(value: &[u8]) -> Option<(Tag, bool, &[u8])> {
    let (line, body) = value.split_at_checked(LINE)?;
    let mut words = std::str::from_utf8(line).ok()?.strip_suffix('\n')?.split(' ');
    if words.next() != Some("m1") {
        return None;
    }
    let sealed = match words.next()? {
        "s" => true,
        "p" => false,
        _ => return None,
    };
    let mut number = || u64::from_str_radix(words.next()?, 16).ok();
    let tag = Tag { writer: number()?, number: number()? };
    words.next().is_none().then_some((tag, sealed, body))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn keys_read_as_people_expect() {
        let layout = Layout::new("/muster/");
        let key = |c: &str, i: &str| layout.key(&Key::new(&Collection::new(c), i));
        assert_eq!(key("core/configmaps", "ns/a"), "/muster/core/configmaps/ns/a");
        assert_eq!(key("leases", "a"), "/muster/=/leases/a");
        assert_eq!(layout.item(b"/muster/.compaction"), None);
        assert_eq!(layout.item(b"/muster/.x/y/z"), None);
        assert_eq!(layout.item(b"/musters/core/configmaps/a"), None);
    }

    proptest! {
        #[test]
        fn every_key_finds_its_way_back(collection in "[a-z./=%25F]{0,8}", item in "[a-z/%.]{0,6}") {
            let layout = Layout::new("/muster");
            let key = Key::new(&Collection::new(&collection), &item);
            let stored = layout.key(&key);
            prop_assert_eq!(layout.item(&stored), Some(key));
            let (from, to) = layout.all();
            prop_assert!(stored >= from && stored < to);
        }

        #[test]
        fn values_unfold_and_junk_does_not_panic(writer: u64, number: u64, sealed: bool, body: Vec<u8>) {
            let tag = Tag { writer, number };
            let value = envelop(tag, sealed, &body);
            prop_assert_eq!(unfold(&value), Some((tag, sealed, &body[..])));
            let _ = unfold(&body);
            prop_assert_eq!(unfold(&value[1..]), None);
        }
    }
}
