//! Journal bytes: a segment's head, the frames after it, and telling a torn tail from damage.
//!
//! A crash can leave only the last frame unfinished: cut short, or with sectors that were never written (zeros). Such a frame was
//! never acknowledged. Anything else that does not check out was once whole, so it is damage.
//!
//! Behind the last frame a segment may have zeros to its end: room made ahead. That nothing is missing before them is seen by the
//! next segment, whose name says where it goes on.
//!
//! A frame that holds a sector of zeros by itself would look unwritten when it rots. Values are JSON or sealed, so none does; should one
//! all the same, a new segment is begun behind it before it is acknowledged, and only the last segment may have a torn tail.
//! What no rule can tell apart: a sector of the last frame that was written, acknowledged, and reads as zeros now.

use std::path::Path;

use crc32c::{crc32c, crc32c_append};

use crate::error::{Error, Result};
use crate::model::Revision;
use crate::record;
use crate::seal::Sealer;
use crate::tree::Fed;

const SEGMENT_MAGIC: &[u8; 8] = b"MUSTRLOG";
const FORMAT: u32 = 1;
const FRAME_MAGIC: &[u8; 4] = b"MFRM";
/// Never zero, so that a last sector that was written never looks unwritten.
const MARK: &[u8; 4] = b"\xe5end";
pub(crate) const SEGMENT_HEAD: usize = 8 + 4 + 8 + 4 + 4;
const FRAME_HEAD: usize = 4 + 4 + 8 + 4 + 4;
const FRAME_TAIL: usize = 4 + 4;
const SECTOR: usize = 512;

pub(crate) fn segment_head(first: Revision) -> Vec<u8> {
    let mut head = Vec::with_capacity(SEGMENT_HEAD);
    head.extend_from_slice(SEGMENT_MAGIC);
    head.extend_from_slice(&FORMAT.to_le_bytes());
    head.extend_from_slice(&first.to_le_bytes());
    let crc = crc32c(&head);
    head.extend_from_slice(&crc.to_le_bytes());
    head.extend_from_slice(MARK);
    head
}

/// Writes one group as one frame into `out`, which it clears first.
pub(crate) fn encode(out: &mut Vec<u8>, group: &[Fed], sealer: &Sealer) -> Result<()> {
    out.clear();
    out.resize(FRAME_HEAD, 0);
    for fed in group {
        let value = match &fed.change {
            crate::Change::Put { value, .. } => Some(value.as_ref()),
            crate::Change::Delete => None,
        };
        record::write(out, &fed.key, fed.revision, value, sealer)?;
    }
    let size = out.len() - FRAME_HEAD;
    let len = u32::try_from(size).map_err(|_| Error::TooLarge { size, limit: u32::MAX as usize })?;
    let first = group.first().map_or(0, |fed| fed.revision);
    out[..4].copy_from_slice(FRAME_MAGIC);
    out[4..8].copy_from_slice(&len.to_le_bytes());
    out[8..16].copy_from_slice(&first.to_le_bytes());
    out[16..20].copy_from_slice(&(group.len() as u32).to_le_bytes());
    let crc = crc32c(&out[..20]);
    out[20..24].copy_from_slice(&crc.to_le_bytes());
    let crc = crc32c(out);
    out.extend_from_slice(&crc.to_le_bytes());
    out.extend_from_slice(MARK);
    Ok(())
}

/// A frame whose checksums are right.
pub(crate) struct Frame<'a> {
    pub first: Revision,
    pub count: u32,
    pub records: &'a [u8],
    pub offset: usize,
}

enum Parsed<'a> {
    Whole(Frame<'a>, usize),
    /// The head is right and says more than there is.
    Short,
    Bad(&'static str),
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from(word(bytes, at)) | u64::from(word(bytes, at + 4)) << 32
}

/// How long the frame is that begins here, if its head is right.
fn frame_size(bytes: &[u8]) -> Option<usize> {
    let head = bytes.get(..FRAME_HEAD)?;
    let right = &head[..4] == FRAME_MAGIC && crc32c(&head[..20]) == word(head, 20);
    right.then(|| FRAME_HEAD + word(head, 4) as usize + FRAME_TAIL)
}

fn parse(bytes: &[u8], offset: usize) -> Parsed<'_> {
    let rest = &bytes[offset..];
    if rest.len() < FRAME_HEAD {
        return Parsed::Short;
    }
    let Some(size) = frame_size(rest) else { return Parsed::Bad("a frame's head is wrong") };
    let body = size - FRAME_TAIL;
    let Some(frame) = rest.get(..size) else { return Parsed::Short };
    if crc32c_append(crc32c(&frame[..FRAME_HEAD]), &frame[FRAME_HEAD..body]) != word(frame, body)
        || &frame[body + 4..] != MARK
    {
        return Parsed::Bad("a frame's checksum is wrong");
    }
    let whole = Frame { first: long(rest, 8), count: word(rest, 16), records: &frame[FRAME_HEAD..body], offset };
    Parsed::Whole(whole, offset + frame.len())
}

/// The frames of one segment.
pub(crate) struct Scan<'a> {
    pub frames: Vec<Frame<'a>>,
    /// Bytes up to here are whole; behind is a torn tail, if anything.
    pub whole: usize,
}

/// Reads a segment. `last` allows it a torn tail. A segment whose very head was never finished scans as empty with `whole` 0.
pub(crate) fn scan<'a>(file: &Path, bytes: &'a [u8], first: Revision, last: bool) -> Result<Scan<'a>> {
    let damaged = |offset: usize, why: &str| {
        Err(Error::Corrupt { file: file.into(), offset: offset as u64, why: why.to_owned() })
    };
    let mut scan = Scan { frames: Vec::new(), whole: 0 };
    if bytes.get(..SEGMENT_HEAD) != Some(&segment_head(first)) {
        if bytes.starts_with(SEGMENT_MAGIC) && bytes.len() >= SEGMENT_HEAD && crc32c(&bytes[..20]) == word(bytes, 20) {
            let format = word(bytes, 8);
            if format != FORMAT {
                let (found, known) = (format!("format {format}"), format!("format {FORMAT}"));
                return Err(Error::Version { file: file.into(), found, known });
            }
            return damaged(0, "the segment's head does not fit its name");
        }
        if (bytes.len() < SEGMENT_HEAD || blank(&bytes[..bytes.len().min(SECTOR)], 0)) && next_whole(bytes, 0).is_none()
        {
            return Ok(scan);
        }
        return damaged(0, "the segment's head is wrong");
    }
    scan.whole = SEGMENT_HEAD;
    while scan.whole < bytes.len() {
        match parse(bytes, scan.whole) {
            Parsed::Whole(frame, end) => {
                scan.frames.push(frame);
                scan.whole = end;
            }
            _ if bytes[scan.whole..].iter().all(|byte| *byte == 0) => break,
            Parsed::Short if last && next_whole(bytes, scan.whole + 1).is_none() => break,
            Parsed::Short => return damaged(scan.whole, "the segment ends inside a frame"),
            Parsed::Bad(_) if last && torn(bytes, scan.whole) && next_whole(bytes, scan.whole + 1).is_none() => break,
            Parsed::Bad(why) => return damaged(scan.whole, why),
        }
    }
    Ok(scan)
}

/// Was the frame at `offset` never written to its end, or a sector of it not at all? A whole one ends with a mark and has something in
/// each sector, unless a value holds 512 aligned zeros itself. What stands behind the frame says nothing about it.
fn torn(bytes: &[u8], offset: usize) -> bool {
    let rest = &bytes[offset..];
    match frame_size(rest) {
        Some(size) => rest.get(size - 1) == Some(&0) || blank(&rest[..size.min(rest.len())], offset as u64),
        None => {
            let sectors = (offset + FRAME_HEAD).next_multiple_of(SECTOR) - offset;
            rest.iter().skip(FRAME_HEAD).all(|byte| *byte == 0)
                || blank(&rest[..sectors.min(rest.len())], offset as u64)
        }
    }
}

/// Whether bytes that stand at `offset` of a file leave a sector all zeros. Mostly looks at one byte of each.
pub(crate) fn blank(bytes: &[u8], offset: u64) -> bool {
    let first = SECTOR - (offset % SECTOR as u64) as usize;
    let (head, rest) = bytes.split_at(first.min(bytes.len()));
    let zeros = |sector: &[u8]| sector.iter().all(|b| *b == 0);
    (!head.is_empty() && zeros(head)) || rest.chunks(SECTOR).any(zeros)
}

/// A whole frame at or after `offset`: proof that what stands before it was once whole, too.
fn next_whole(bytes: &[u8], offset: usize) -> Option<usize> {
    let mut at = offset;
    while let Some(found) = bytes.get(at..)?.windows(4).position(|w| w == FRAME_MAGIC) {
        at += found;
        if matches!(parse(bytes, at), Parsed::Whole(..)) {
            return Some(at);
        }
        at += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::testing::key;
    use crate::{Change, Describe};

    fn put(revision: Revision, value: Vec<u8>) -> Fed {
        Fed { revision, key: key("c", "a/b"), change: Change::Put { value: value.into(), attrs: Arc::default() } }
    }

    fn segment(frames: &[Vec<Fed>]) -> (Vec<u8>, Vec<usize>) {
        let (mut bytes, mut ends) = (segment_head(2), Vec::new());
        for group in frames {
            let mut frame = Vec::new();
            encode(&mut frame, group, &Sealer::default()).unwrap();
            bytes.extend_from_slice(&frame);
            ends.push(bytes.len());
        }
        (bytes, ends)
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(values in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 1..6)) {
            let group: Vec<_> = values.iter().zip(2..).map(|(v, r)| put(r, v.clone())).collect();
            let (bytes, ends) = segment(std::slice::from_ref(&group));
            let scan = scan(Path::new("x"), &bytes, 2, false).unwrap();
            prop_assert_eq!((scan.frames.len(), scan.whole), (1, ends[0]));
            let mut records = scan.frames[0].records;
            let describe: Describe = Arc::new(|_, _| Default::default());
            for fed in &group {
                let raw = record::Raw::take(&mut records).unwrap();
                let read = raw.fed(&mut record::Names::default(), &Sealer::default(), &describe).unwrap();
                prop_assert_eq!((read.revision, &read.key), (fed.revision, &fed.key));
                let value = |fed: &Fed| match &fed.change {
                    Change::Put { value, .. } => value.clone(),
                    Change::Delete => panic!("a put"),
                };
                prop_assert_eq!(value(&read), value(fed));
            }
            prop_assert!(records.is_empty());
        }

        #[test]
        fn no_bytes_are_too_strange_to_judge(bytes in prop::collection::vec(any::<u8>(), 0..300), last: bool) {
            let _ = scan(Path::new("x"), &bytes, 2, last);
            let mut headed = segment_head(2);
            headed.extend_from_slice(&bytes);
            let _ = scan(Path::new("x"), &headed, 2, last);
            let mut records = &bytes[..];
            while record::Raw::take(&mut records).is_some() {}
        }
    }

    #[test]
    fn a_blank_sector_is_found_wherever_the_frame_stands() {
        for offset in [0, 1, 28, 511, 512, 700] {
            let mut bytes = vec![b'x'; 4 * SECTOR];
            bytes[600..600 + 2 * SECTOR].fill(0);
            assert!(blank(&bytes, offset), "{offset}");
            bytes[600 + SECTOR - 100] = 1;
            bytes[600 + SECTOR + 100] = 1;
            assert_eq!(blank(&bytes, offset), torn(&[vec![b'x'; offset as usize], bytes].concat(), 0), "{offset}");
        }
        assert!(!blank(b"x", 3) && !blank(b"", 3));
    }

    #[test]
    fn only_the_last_frame_of_the_last_segment_may_be_torn() {
        let (bytes, ends) = segment(&[vec![put(2, vec![b'x'; 900])], vec![put(3, vec![b'y'; 2000])]]);
        for cut in ends[0] + 1..bytes.len() {
            let torn = scan(Path::new("x"), &bytes[..cut], 2, true).unwrap();
            assert_eq!((torn.frames.len(), torn.whole), (1, ends[0]), "cut at {cut}");
            assert!(scan(Path::new("x"), &bytes[..cut], 2, false).is_err(), "cut at {cut}");
        }
        let zeroed = |from: usize, to: usize| {
            let mut bytes = bytes.clone();
            bytes[from..to].fill(0);
            bytes
        };
        // A sector that was never written, in the last frame: torn. In the one before: damage, as a whole one follows.
        assert_eq!(scan(Path::new("x"), &zeroed(1024, 1536), 2, true).unwrap().whole, ends[0]);
        assert!(scan(Path::new("x"), &zeroed(512, ends[0]), 2, true).is_err());
        // Less than a sector was written and rotted since.
        assert!(scan(Path::new("x"), &zeroed(1100, 1400), 2, true).is_err());
    }

    #[test]
    fn room_made_ahead_hides_no_damage() {
        let (mut bytes, ends) = segment(&[vec![put(2, vec![b'v'; 700])], vec![put(3, vec![b'w'; 90])]]);
        bytes.resize(ends[1] + 5000, 0);
        for last in [true, false] {
            assert_eq!(scan(Path::new("x"), &bytes, 2, last).unwrap().whole, ends[1]);
        }
        for byte in ends[0]..ends[1] {
            let mut rotten = bytes.clone();
            rotten[byte] ^= 1;
            assert!(scan(Path::new("x"), &rotten, 2, true).is_err(), "byte {byte} of the last frame");
        }
        // Written from its beginning up to some byte: never acknowledged.
        for byte in ends[0]..ends[1] {
            let mut unfinished = bytes.clone();
            unfinished[byte..ends[1]].fill(0);
            assert_eq!(scan(Path::new("x"), &unfinished, 2, true).unwrap().whole, ends[0], "up to byte {byte}");
            let is_clean = byte == ends[0];
            assert_eq!(scan(Path::new("x"), &unfinished, 2, false).is_ok(), is_clean, "only the last may be torn");
        }
    }
}
