//! Private files: made with mode 0600 from the first byte, complete or not there at all.

use std::{
    fs::{self, File, OpenOptions},
    io::Write,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU64, Ordering},
};

use crate::Error;

/// Writes `bytes` to a new file beside `path` (exclusively created, mode 0600), makes it durable and renames it over `path`.
/// After a crash `path` holds the old content or the new one, and was never readable by others.
pub fn write_private(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    write(path, bytes, 0o600)
}

pub(crate) fn write_public(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    write(path, bytes, 0o644)
}

fn write(path: &Path, bytes: &[u8], mode: u32) -> Result<(), Error> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temporary: PathBuf = folder.join(format!(".{name}.{}.{}", process::id(), NEXT.fetch_add(1, Ordering::Relaxed)));
    let outcome = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(&temporary)
        .and_then(|mut file| {
            file.write_all(bytes)?;
            file.sync_all()
        })
        .and_then(|()| fs::rename(&temporary, path))
        .and_then(|()| File::open(folder)?.sync_all());
    outcome.map_err(|source| {
        let _ = fs::remove_file(&temporary);
        Error::Io { doing: "write", path: path.to_owned(), source }
    })
}

/// The folder of private files, mode 0700 when it is made here.
pub(crate) fn private_folder(path: &Path) -> Result<(), Error> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(|source| Error::Io {
        doing: "create the folder",
        path: path.to_owned(),
        source,
    })
}

/// The file's text, or none when there is no such file.
pub(crate) fn read(path: &Path) -> Result<Option<String>, Error> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) if e.kind() == std::io::ErrorKind::InvalidData => {
            Err(Error::Unusable { path: path.to_owned(), problem: "it is not text".to_owned() })
        }
        Err(source) => Err(Error::Io { doing: "read", path: path.to_owned(), source }),
    }
}

/// As [`read`], for files that hold a key: one that others may read is closed to them, loudly.
pub(crate) fn read_private(path: &Path) -> Result<Option<String>, Error> {
    if let Ok(metadata) = fs::metadata(path)
        && metadata.permissions().mode() & 0o077 != 0
    {
        tracing::warn!(path = %path.display(), "a private key was readable by others; setting its mode to 0600");
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).map_err(|source| Error::Io {
            doing: "set the mode of",
            path: path.to_owned(),
            source,
        })?;
    }
    read(path)
}
