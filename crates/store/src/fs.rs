//! The file system as a seam: what the embedded engine needs of a disk, the real one, and room for one that fails on demand.

use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// A disk. Names are plain paths; nothing follows links on purpose.
pub trait Fs: Send + Sync {
    /// Makes the directory (0700) and its parents, durably.
    fn create_dir(&self, dir: &Path) -> io::Result<()>;
    /// File names in the directory, in no order.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;
    /// A new, empty file (0600), replacing what was there.
    fn create(&self, path: &Path) -> io::Result<Box<dyn File>>;
    /// An existing file, to be written on at its end.
    fn append(&self, path: &Path) -> io::Result<Box<dyn File>>;
    fn read(&self, path: &Path) -> io::Result<Box<dyn Read + Send>>;
    fn len(&self, path: &Path) -> io::Result<u64>;
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Makes creations, renames and removals in the directory durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Holds the file for this process until the guard is dropped. `WouldBlock` when another holds it; the file says who.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>>;
}

/// A file being written.
pub trait File: Send {
    /// Writes all of it behind what was written before; on error any part may have been written.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Makes the content and the length durable.
    fn sync(&mut self) -> io::Result<()>;
    /// Cuts everything behind; the next write lands there.
    fn truncate(&mut self, len: u64) -> io::Result<()>;
    /// Zeros behind what was written, durably: writes into them change nothing but content, which syncs faster. On error any
    /// part of them may be there.
    fn reserve(&mut self, len: u64) -> io::Result<()>;
}

pub struct RealFs;

struct RealFile {
    file: fs::File,
    /// Where the next write goes; zeros may stand behind.
    end: u64,
}

impl Fs for RealFs {
    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        if dir.is_dir() {
            return Ok(());
        }
        let parent = dir.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if !parent.is_dir() {
            self.create_dir(parent)?;
        }
        match fs::DirBuilder::new().mode(0o700).create(dir) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => Ok(()),
            Err(error) => Err(error),
            Ok(()) => self.sync_dir(parent),
        }
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        fs::read_dir(dir)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn File>> {
        let file = OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(path)?;
        // An older file of that name may have been wider.
        file.set_permissions(fs::Permissions::from_mode(0o600))?;
        Ok(Box::new(RealFile { file, end: 0 }))
    }

    fn append(&self, path: &Path) -> io::Result<Box<dyn File>> {
        let file = OpenOptions::new().write(true).open(path)?;
        let end = file.metadata()?.len();
        Ok(Box::new(RealFile { file, end }))
    }

    fn read(&self, path: &Path) -> io::Result<Box<dyn Read + Send>> {
        Ok(Box::new(fs::File::open(path)?))
    }

    fn len(&self, path: &Path) -> io::Result<u64> {
        Ok(fs::metadata(path)?.len())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        fs::File::open(dir)?.sync_all()
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>> {
        let mut file = OpenOptions::new().create(true).read(true).append(true).mode(0o600).open(path)?;
        rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive)?;
        file.set_len(0)?;
        file.write_all(format!("{}\n", std::process::id()).as_bytes())?;
        Ok(Box::new(file))
    }
}

impl File for RealFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, self.end)?;
        self.end += bytes.len() as u64;
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn truncate(&mut self, len: u64) -> io::Result<()> {
        self.file.set_len(len)?;
        self.end = len;
        Ok(())
    }

    fn reserve(&mut self, len: u64) -> io::Result<()> {
        static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
        let (mut at, end) = (self.end, self.end + len);
        while at < end {
            let part = &ZEROS[..ZEROS.len().min((end - at) as usize)];
            self.file.write_all_at(part, at)?;
            at += part.len() as u64;
        }
        self.file.sync_data()
    }
}

/// Reads a whole small file.
pub(crate) fn read_all(fs: &dyn Fs, path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    fs.read(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Replaces a small file, so that after a crash it is either the old one or the new one.
pub(crate) fn replace(fs: &dyn Fs, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension("tmp");
    let mut file = fs.create(&temporary)?;
    file.write(bytes)?;
    file.sync()?;
    fs.rename(&temporary, path)?;
    fs.sync_dir(path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new(".")))
}
