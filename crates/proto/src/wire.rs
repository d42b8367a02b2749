//! The protobuf wire format: reads fields one by one from a slice, never beyond it; writes them to a buffer.

use crate::ProtoError;

/// One field of a message as it stands on the wire.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Item<'a> {
    Varint(u64),
    Fixed64(u64),
    Bytes(&'a [u8]),
    Fixed32(u32),
}

impl Item<'_> {
    pub fn wire_type(&self) -> u8 {
        match self {
            Item::Varint(_) => 0,
            Item::Fixed64(_) => 1,
            Item::Bytes(_) => 2,
            Item::Fixed32(_) => 5,
        }
    }
}

pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Reader { rest: bytes }
    }

    /// The next field, or `None` at the end of the message.
    pub fn next(&mut self) -> Result<Option<(u32, Item<'a>)>, ProtoError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let key = self.varint()?;
        let tag = u32::try_from(key >> 3).ok().filter(|t| (1..1 << 29).contains(t));
        let tag = tag.ok_or(ProtoError::Malformed("illegal field number"))?;
        let item = match key & 7 {
            0 => Item::Varint(self.varint()?),
            1 => Item::Fixed64(u64::from_le_bytes(self.fixed()?)),
            2 => {
                let length = usize::try_from(self.varint()?).unwrap_or(usize::MAX);
                let bytes = self.rest.get(..length).ok_or(ProtoError::Malformed("a length beyond the end"))?;
                self.rest = &self.rest[length..];
                Item::Bytes(bytes)
            }
            5 => Item::Fixed32(u32::from_le_bytes(self.fixed()?)),
            _ => return Err(ProtoError::Malformed("groups are not supported")),
        };
        Ok(Some((tag, item)))
    }

    /// A bare number: packed lists are a row of these.
    pub fn varint(&mut self) -> Result<u64, ProtoError> {
        let mut value = 0u64;
        for (at, byte) in self.rest.iter().take(10).enumerate() {
            value |= u64::from(byte & 0x7f) << (7 * at);
            if byte & 0x80 == 0 {
                if at == 9 && *byte > 1 {
                    break;
                }
                self.rest = &self.rest[at + 1..];
                return Ok(value);
            }
        }
        Err(ProtoError::Malformed(if self.rest.len() < 10 { "unexpected end" } else { "integer overflow" }))
    }

    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    fn fixed<const N: usize>(&mut self) -> Result<[u8; N], ProtoError> {
        let (head, rest) = self.rest.split_first_chunk::<N>().ok_or(ProtoError::Malformed("unexpected end"))?;
        self.rest = rest;
        Ok(*head)
    }
}

#[derive(Default)]
pub(crate) struct Writer {
    pub out: Vec<u8>,
}

impl Writer {
    pub fn raw_varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.out.push((value as u8) | 0x80);
            value >>= 7;
        }
        self.out.push(value as u8);
    }

    pub fn varint(&mut self, tag: u32, value: u64) {
        self.raw_varint(u64::from(tag) << 3);
        self.raw_varint(value);
    }

    pub fn fixed64(&mut self, tag: u32, value: u64) {
        self.raw_varint(u64::from(tag) << 3 | 1);
        self.out.extend_from_slice(&value.to_le_bytes());
    }

    pub fn bytes(&mut self, tag: u32, value: &[u8]) {
        self.raw_varint(u64::from(tag) << 3 | 2);
        self.raw_varint(value.len() as u64);
        self.out.extend_from_slice(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(bytes: &[u8]) -> Result<Vec<u32>, ProtoError> {
        let mut reader = Reader::new(bytes);
        let mut tags = Vec::new();
        while let Some((tag, _)) = reader.next()? {
            tags.push(tag);
        }
        Ok(tags)
    }

    #[test]
    fn broken_wire_data_is_refused() {
        for bytes in [
            &[0x0a][..],                                                                   // a length is missing
            &[0x0a, 0x05, 1][..],                                                          // shorter than its length
            &[0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01][..],       // longer than memory
            &[0x08, 0x80][..],                                                             // a number without end
            &[0x08, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01][..], // a number too long
            &[0x0b][..],                                                                   // a group
            &[0x0f][..],                                                                   // no such wire type
            &[0x00, 0x00][..],                                                             // field zero
            &[0x09, 1, 2, 3][..],                                                          // half a fixed64
        ] {
            assert!(all(bytes).is_err(), "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn numbers_come_back(tag in 1u32..(1 << 29), value: u64) {
            let mut writer = Writer::default();
            writer.varint(tag, value);
            prop_assert_eq!(Reader::new(&writer.out).next().unwrap(), Some((tag, Item::Varint(value))));
        }

        #[test]
        fn never_panics(bytes: Vec<u8>) {
            let _ = all(&bytes);
        }
    }
}
