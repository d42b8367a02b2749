//! Journal bytes: a segment's head, the frames after it, and telling a torn tail from damage.
//!
//! A crash can leave only the last frame unfinished: cut short, or with sectors that were never written (zeros). Such a frame was
//! never acknowledged. Anything else that does not check out was once whole, so it is damage.

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

fn parse(bytes: &[u8], offset: usize) -> Parsed<'_> {
    let rest = &bytes[offset..];
    if rest.len() < FRAME_HEAD {
        return Parsed::Short;
    }
    if &rest[..4] != FRAME_MAGIC || crc32c(&rest[..20]) != word(rest, 20) {
        return Parsed::Bad("a frame's head is wrong");
    }
    let body = FRAME_HEAD + word(rest, 4) as usize;
    let Some(frame) = rest.get(..body + FRAME_TAIL) else { return Parsed::Short };
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
        if (bytes.len() < SEGMENT_HEAD || torn(bytes, 0)) && next_whole(bytes, 0).is_none() {
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
            Parsed::Short if last && next_whole(bytes, scan.whole + 1).is_none() => break,
            Parsed::Short => return damaged(scan.whole, "the segment ends inside a frame"),
            Parsed::Bad(_) if last && torn(bytes, scan.whole) && next_whole(bytes, scan.whole + 1).is_none() => break,
            Parsed::Bad(why) => return damaged(scan.whole, why),
        }
    }
    Ok(scan)
}

/// Does a sector from `offset` on hold nothing at all? Frames start and end with marks, so a written sector of one never does
/// unless a value holds 512 aligned zeros itself.
fn torn(bytes: &[u8], offset: usize) -> bool {
    let mut start = offset;
    while start < bytes.len() {
        let end = ((start / SECTOR + 1) * SECTOR).min(bytes.len());
        if bytes[start..end].iter().all(|b| *b == 0) {
            return true;
        }
        start = end;
    }
    false
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
