//! The journal being written: one frame and one sync per group; a failed group is cut off again.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::embedded::{Segment, Segments, frame, segment_path};
use crate::error::{Error, Result};
use crate::fs::{File, Fs};
use crate::held;
use crate::model::Revision;
use crate::seal::Sealer;
use crate::tree::Fed;
use crate::writer::Journal;

/// Zeros made ahead at once, at most; a segment's part of it.
const RESERVE: u64 = 512 << 10;
/// Longer frames are appended: the sync of their content costs more than that of the file's length.
const SMALL: usize = 64 << 10;
/// A frame's buffer larger than this is not kept for the next one.
const KEPT_BUFFER: usize = 1 << 20;

pub(crate) struct FileJournal {
    fs: Arc<dyn Fs>,
    dir: PathBuf,
    file: Box<dyn File>,
    segments: Segments,
    /// Bytes of the current segment that are durable.
    durable: u64,
    /// Up to here there are zeros behind them, or it was tried in vain.
    reserved: u64,
    /// Why nothing more can be written: the file's end is not known.
    broken: Option<String>,
    /// A new segment that failed. Nothing is written to the old one until it is gone for good: at the next start the newest
    /// segment decides where the journal ends.
    leftover: Option<PathBuf>,
    sealer: Sealer,
    segment_bytes: u64,
    frame: Vec<u8>,
    _lock: Arc<dyn Send + Sync>,
}

impl FileJournal {
    pub(crate) fn new(
        fs: Arc<dyn Fs>,
        dir: &Path,
        file: Box<dyn File>,
        segments: Segments,
        sealer: Sealer,
        segment_bytes: u64,
        lock: Arc<dyn Send + Sync>,
    ) -> FileJournal {
        let durable = held!(segments.lock()).last().map_or(0, |s| s.bytes);
        FileJournal {
            fs,
            dir: dir.into(),
            file,
            segments,
            durable,
            reserved: durable,
            broken: None,
            leftover: None,
            sealer,
            segment_bytes,
            frame: Vec::new(),
            _lock: lock,
        }
    }

    fn clear_leftover(&mut self) -> Result<()> {
        let Some(path) = &self.leftover else { return Ok(()) };
        match self.fs.remove(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => self.fs.sync_dir(&self.dir).map_err(failed)?,
        }
        self.leftover = None;
        Ok(())
    }

    /// Makes room for a small frame and some after it. Without it they are as durable, only slower: a failure refuses nothing.
    fn reserve(&mut self) -> Result<()> {
        if self.frame.len() > SMALL || self.durable + self.frame.len() as u64 <= self.reserved {
            return Ok(());
        }
        let len = RESERVE.min(self.segment_bytes / 16).max(self.frame.len() as u64);
        if let Err(error) = self.file.reserve(len) {
            tracing::debug!(%error, "no room ahead in the journal");
            self.cut_back(&error)?;
        }
        self.reserved = self.durable + len;
        Ok(())
    }

    /// After a failed write or sync: back to what is durable, so that the group is surely not there.
    fn cut_back(&mut self, why: &io::Error) -> Result<()> {
        self.reserved = self.durable;
        match self.file.truncate(self.durable).and_then(|()| self.file.sync()) {
            Ok(()) => Ok(()),
            Err(error) => {
                let broken = format!("{why}; cutting the journal back failed, too: {error}; restart to recover");
                self.broken = Some(broken.clone());
                Err(Error::Unknown(broken))
            }
        }
    }
}

impl Journal for FileJournal {
    fn append(&mut self, group: &[Fed]) -> Result<()> {
        if let Some(why) = &self.broken {
            return Err(Error::Unavailable(why.clone()));
        }
        let Some(first) = group.first().map(|fed| fed.revision) else { return Ok(()) };
        if self.durable >= self.segment_bytes
            && let Err(error) = self.roll(first)
        {
            // Not a reason to refuse the write: the old segment still takes it, if the disk does.
            tracing::warn!(%error, "no new journal segment; going on in the old one");
        }
        self.clear_leftover()?;
        frame::encode(&mut self.frame, group, &self.sealer)?;
        self.reserve()?;
        let written = self.file.write(&self.frame).and_then(|()| self.file.sync());
        if let Err(error) = written {
            self.cut_back(&error)?;
            return Err(failed(error));
        }
        let blank = frame::blank(&self.frame, self.durable);
        self.durable += self.frame.len() as u64;
        if let Some(segment) = held!(self.segments.lock()).last_mut() {
            segment.bytes = self.durable;
        }
        // Nothing looks torn that a segment follows. The group is durable either way.
        if blank && let Err(error) = self.roll(first + group.len() as Revision) {
            tracing::warn!(%error, "no new journal segment; going on in the old one");
        }
        if self.frame.capacity() > KEPT_BUFFER {
            self.frame = Vec::new();
        }
        Ok(())
    }

    fn roll(&mut self, next: Revision) -> Result<()> {
        if held!(self.segments.lock()).last().is_some_and(|s| s.first == next) {
            return Ok(());
        }
        self.clear_leftover()?;
        match create_segment(self.fs.as_ref(), &self.dir, next) {
            Ok((file, segment)) => {
                self.file = file;
                self.durable = segment.bytes;
                self.reserved = segment.bytes;
                held!(self.segments.lock()).push(segment);
                Ok(())
            }
            Err(error) => {
                self.leftover = Some(segment_path(&self.dir, next));
                Err(failed(error))
            }
        }
    }
}

fn failed(error: io::Error) -> Error {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    match error.kind() {
        StorageFull | QuotaExceeded | FileTooLarge => Error::Full(error.to_string()),
        _ => Error::io("writing the journal", error),
    }
}

/// Durable with its head before anything is written into it.
pub(crate) fn create_segment(fs: &dyn Fs, dir: &Path, first: Revision) -> io::Result<(Box<dyn File>, Segment)> {
    let path = segment_path(dir, first);
    let mut file = fs.create(&path)?;
    file.write(&frame::segment_head(first))?;
    file.sync()?;
    fs.sync_dir(dir)?;
    Ok((file, Segment { first, path, bytes: frame::SEGMENT_HEAD as u64 }))
}
