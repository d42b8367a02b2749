//! Backups: one file, written while the store goes on; checked, and restored into an empty directory.

use std::path::Path;

use crate::embedded;
use crate::error::{Error, Result};
use crate::fs::Fs;
use crate::model::{BackupInfo, Revision};
use crate::seal::Sealer;
use crate::snapshot::{self, Head, Kind, SnapshotReader, SnapshotWriter};
use crate::tree::Tree;

/// How far a restored store's revision lies ahead of its backup. Whatever clients saw after the backup is below that and
/// compacted, so they list again instead of taking new revisions for old ones.
pub const RESTORE_LEAP: Revision = 1_000_000_000;

pub(crate) fn write(fs: &dyn Fs, to: &Path, tree: &Tree, sealer: &Sealer, created: u64) -> Result<BackupInfo> {
    let head = Head { kind: Kind::Backup, revision: tree.revision(), created };
    let (count, bytes) = snapshot::write(fs, to, head, tree, sealer)?;
    Ok(BackupInfo { revision: head.revision, count, created, bytes })
}

/// Reads a whole backup and checks every checksum. Sealed values stay sealed: no key is needed.
pub fn verify(fs: &dyn Fs, backup: &Path) -> Result<BackupInfo> {
    copy(fs, backup, |_, _| Ok(()))
}

/// Makes a store directory from a backup. The directory must be empty, not exist, or be what a restore cut short left.
///
/// From the first file on, VERSION says that a restore is under way, and a store is never opened on that. So a crash anywhere leaves
/// nothing, or something that is refused until a restore has been run again, or the whole store.
pub fn restore(fs: &dyn Fs, backup: &Path, dir: &Path) -> Result<BackupInfo> {
    let info = verify(fs, backup)?;
    let io = |e| Error::io(format!("restoring into {}", dir.display()), e);
    fs.create_dir(dir).map_err(io)?;
    embedded::restorable(fs, dir)?;
    let _lock = embedded::lock(fs, dir)?;
    // Once more: somebody may have been faster.
    let leftovers = embedded::restorable(fs, dir)?;
    embedded::mark(fs, dir, embedded::RESTORING)?;
    for name in leftovers.iter().filter(|name| !name.starts_with("VERSION")) {
        fs.remove(&dir.join(name)).map_err(io)?;
    }
    let head = Head { kind: Kind::Snapshot, revision: info.revision + RESTORE_LEAP, created: info.created };
    let path = embedded::snapshot_path(dir, head.revision);
    let mut writer = SnapshotWriter::create(fs, &path, head).map_err(io)?;
    copy(fs, backup, |block, records| writer.copy(block, records).map_err(io))?;
    writer.finish().map_err(io)?;
    embedded::initialise(fs, dir, head.revision + 1)?;
    Ok(info)
}

fn copy(fs: &dyn Fs, backup: &Path, mut each: impl FnMut(&[u8], u64) -> Result<()>) -> Result<BackupInfo> {
    let mut reader = SnapshotReader::open(fs, backup)?;
    let head = reader.head;
    if head.kind != Kind::Backup {
        return Err(reader.damaged("it is a snapshot, not a backup"));
    }
    let mut block = Vec::new();
    while reader.block(&mut block)? {
        let mut ahead = false;
        let records = reader.records(&block, |raw| {
            ahead |= raw.revision > head.revision;
            Ok(())
        })?;
        if ahead {
            return Err(reader.damaged("a record is newer than the backup"));
        }
        each(&block, records)?;
    }
    Ok(BackupInfo { revision: head.revision, count: reader.count(), created: head.created, bytes: reader.offset() })
}
