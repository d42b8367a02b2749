//! The whole state at one revision in one file, every block checksummed; also the format of backups.
//!
//! ```text
//! head     magic, format, kind, revision, created, crc
//! block*   length, crc, records
//! trailer  end mark, count, crc over all blocks' crcs, crc
//! ```

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crc32c::{crc32c, crc32c_append};

use crate::error::{Error, Result};
use crate::fs::{File, Fs};
use crate::model::{Entry, Revision};
use crate::record::{self, Raw};
use crate::seal::Sealer;
use crate::tree::Tree;

const MAGIC: &[u8; 8] = b"MUSTRSNP";
const FORMAT: u32 = 1;
const HEAD: usize = 8 + 4 + 4 + 8 + 8 + 4;
const END: u32 = u32::MAX;
const BLOCK: usize = 128 << 10;
/// No writer makes longer ones: a length beyond is damage, not a reason to allocate.
const MAX_BLOCK: u32 = 1 << 30;
/// Written back to the disk every so often, so that the end's sync does not stall the journal's.
const SYNC_EVERY: u64 = 8 << 20;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Snapshot = 1,
    Backup = 2,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    pub kind: Kind,
    pub revision: Revision,
    pub created: u64,
}

/// Writes a snapshot file under a temporary name; [`SnapshotWriter::finish`] puts it in place.
pub(crate) struct SnapshotWriter<'a> {
    fs: &'a dyn Fs,
    temporary: PathBuf,
    path: PathBuf,
    file: Box<dyn File>,
    block: Vec<u8>,
    count: u64,
    chain: u32,
    bytes: u64,
    unsynced: u64,
}

impl<'a> SnapshotWriter<'a> {
    pub(crate) fn create(fs: &'a dyn Fs, path: &Path, head: Head) -> io::Result<Self> {
        let mut name = path.as_os_str().to_owned();
        name.push(".tmp");
        let temporary = PathBuf::from(name);
        let mut bytes = Vec::with_capacity(HEAD);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&FORMAT.to_le_bytes());
        bytes.extend_from_slice(&(head.kind as u32).to_le_bytes());
        bytes.extend_from_slice(&head.revision.to_le_bytes());
        bytes.extend_from_slice(&head.created.to_le_bytes());
        let crc = crc32c(&bytes);
        bytes.extend_from_slice(&crc.to_le_bytes());
        let mut file = fs.create(&temporary)?;
        file.write(&bytes)?;
        let bytes = HEAD as u64;
        Ok(Self { fs, temporary, path: path.into(), file, block: Vec::new(), count: 0, chain: crc, bytes, unsynced: 0 })
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.block.is_empty() {
            return Ok(());
        }
        let crc = crc32c(&self.block);
        let mut head = [0; 8];
        head[..4].copy_from_slice(&(self.block.len() as u32).to_le_bytes());
        head[4..].copy_from_slice(&crc.to_le_bytes());
        self.file.write(&head)?;
        self.file.write(&self.block)?;
        self.chain = crc32c_append(self.chain, &crc.to_le_bytes());
        let written = 8 + self.block.len() as u64;
        self.bytes += written;
        self.unsynced += written;
        if self.unsynced > SYNC_EVERY {
            self.file.sync()?;
            self.unsynced = 0;
        }
        self.block.clear();
        Ok(())
    }

    /// Copies a whole block of `records` from another snapshot.
    pub(crate) fn copy(&mut self, block: &[u8], records: u64) -> io::Result<()> {
        self.flush()?;
        self.block.extend_from_slice(block);
        self.count += records;
        self.flush()
    }

    fn add(&mut self, record: impl FnOnce(&mut Vec<u8>) -> Result<()>) -> Result<()> {
        record(&mut self.block)?;
        self.count += 1;
        if self.block.len() >= BLOCK {
            self.flush().map_err(|e| self.failed(e))?;
        }
        Ok(())
    }

    /// On return the file is in place, whole and durable. Gives the count of entries and the file's length.
    pub(crate) fn finish(mut self) -> io::Result<(u64, u64)> {
        let finished = self.put_in_place();
        if finished.is_err() {
            self.discard();
        }
        finished
    }

    fn put_in_place(&mut self) -> io::Result<(u64, u64)> {
        self.flush()?;
        let mut bytes = Vec::with_capacity(20);
        bytes.extend_from_slice(&END.to_le_bytes());
        bytes.extend_from_slice(&self.count.to_le_bytes());
        bytes.extend_from_slice(&self.chain.to_le_bytes());
        let crc = crc32c(&bytes);
        bytes.extend_from_slice(&crc.to_le_bytes());
        self.file.write(&bytes)?;
        self.file.sync()?;
        self.fs.rename(&self.temporary, &self.path)?;
        self.fs.sync_dir(self.path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new(".")))?;
        Ok((self.count, self.bytes + bytes.len() as u64))
    }

    fn failed(&self, error: io::Error) -> Error {
        written(&self.path, error)
    }

    /// Removes what was written so far.
    pub(crate) fn discard(self) {
        let _ = self.fs.remove(&self.temporary);
    }
}

fn written(path: &Path, error: io::Error) -> Error {
    Error::io(format!("writing {}", path.display()), error)
}

/// Writes the tree as it was at `revision`. The caller keeps it from being compacted past that meanwhile.
pub(crate) fn write(fs: &dyn Fs, path: &Path, head: Head, tree: &Tree, sealer: &Sealer) -> Result<(u64, u64)> {
    let mut writer = SnapshotWriter::create(fs, path, head).map_err(|e| written(path, e))?;
    let filled = tree.each(head.revision, |key, entry: Entry| {
        writer.add(|block| record::write(block, key, entry.revision, Some(&entry.value), sealer))
    });
    match filled {
        Ok(()) => writer.finish().map_err(|e| written(path, e)),
        Err(error) => {
            writer.discard();
            Err(error)
        }
    }
}

/// Reads a snapshot file, block by block; nothing is handed out that its checksum does not cover.
pub(crate) struct SnapshotReader {
    path: Arc<Path>,
    file: io::BufReader<Box<dyn Read + Send>>,
    pub head: Head,
    offset: u64,
    chain: u32,
    count: u64,
}

impl SnapshotReader {
    pub(crate) fn open(fs: &dyn Fs, path: &Path) -> Result<SnapshotReader> {
        let file = fs.read(path).map_err(|e| Error::io(format!("reading {}", path.display()), e))?;
        let head = Head { kind: Kind::Snapshot, revision: 0, created: 0 };
        let file = io::BufReader::with_capacity(256 << 10, file);
        let mut reader = SnapshotReader { path: path.into(), file, head, offset: 0, chain: 0, count: 0 };
        let mut bytes = [0; HEAD];
        reader.fill(&mut bytes)?;
        let at = |i: usize| u32::from_le_bytes([bytes[i], bytes[i + 1], bytes[i + 2], bytes[i + 3]]);
        let long = |i: usize| u64::from(at(i)) | u64::from(at(i + 4)) << 32;
        if &bytes[..8] != MAGIC {
            return Err(reader.damaged("it is not a snapshot or backup"));
        }
        if crc32c(&bytes[..HEAD - 4]) != at(HEAD - 4) {
            return Err(reader.damaged("the head's checksum is wrong"));
        }
        if at(8) != FORMAT {
            let (found, known) = (format!("format {}", at(8)), format!("format {FORMAT}"));
            return Err(Error::Version { file: path.into(), found, known });
        }
        let kind = match at(12) {
            1 => Kind::Snapshot,
            2 => Kind::Backup,
            _ => return Err(reader.damaged("its kind is unknown")),
        };
        reader.head = Head { kind, revision: long(16), created: long(24) };
        reader.chain = at(HEAD - 4);
        reader.offset = HEAD as u64;
        Ok(reader)
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<()> {
        match self.file.read_exact(bytes) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(self.damaged("it ends too early")),
            Err(error) => Err(Error::io(format!("reading {}", self.path.display()), error)),
        }
    }

    pub(crate) fn damaged(&self, why: &str) -> Error {
        Error::Corrupt { file: self.path.to_path_buf(), offset: self.offset, why: why.into() }
    }

    /// The next block's records, or None after the trailer proved that all of them were there.
    pub(crate) fn block(&mut self, block: &mut Vec<u8>) -> Result<bool> {
        let mut head = [0; 4];
        self.fill(&mut head)?;
        let len = u32::from_le_bytes(head);
        if len == END {
            return self.trailer(head).map(|()| false);
        }
        if len > MAX_BLOCK {
            return Err(self.damaged("a block's length is wrong"));
        }
        let mut crc = [0; 4];
        self.fill(&mut crc)?;
        block.clear();
        let expected = u64::from(len);
        let read = (&mut self.file).take(expected).read_to_end(block);
        let read = read.map_err(|e| Error::io(format!("reading {}", self.path.display()), e))?;
        if read as u64 != expected {
            return Err(self.damaged("it ends too early"));
        }
        if crc32c(block) != u32::from_le_bytes(crc) {
            return Err(self.damaged("a block's checksum is wrong"));
        }
        self.chain = crc32c_append(self.chain, &crc);
        self.offset += 8 + expected;
        Ok(true)
    }

    /// The records of a block; counts them.
    pub(crate) fn records(&mut self, mut block: &[u8], mut each: impl FnMut(Raw<'_>) -> Result<()>) -> Result<u64> {
        let mut records = 0;
        while !block.is_empty() {
            let raw = Raw::take(&mut block).ok_or_else(|| self.damaged("a record is malformed"))?;
            records += 1;
            each(raw)?;
        }
        self.count += records;
        Ok(records)
    }

    fn trailer(&mut self, mark: [u8; 4]) -> Result<()> {
        let mut rest = [0; 16];
        self.fill(&mut rest)?;
        let crc = crc32c_append(crc32c(&mark), &rest[..12]);
        let (count, chain) = (&rest[..8], &rest[8..12]);
        let whole =
            crc.to_le_bytes() == rest[12..] && self.count.to_le_bytes() == *count && self.chain.to_le_bytes() == *chain;
        if !whole {
            return Err(self.damaged("the trailer does not fit the blocks"));
        }
        self.offset += 20;
        let mut one = [0];
        match self.file.read(&mut one) {
            Ok(0) => Ok(()),
            Ok(_) => Err(self.damaged("something follows the trailer")),
            Err(error) => Err(Error::io(format!("reading {}", self.path.display()), error)),
        }
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }
}
