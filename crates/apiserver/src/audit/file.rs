//! Where lines end: standard output, or a private file that rotates.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

#[cfg(test)]
type TestSink = Box<dyn FnMut(&[u8]) -> io::Result<()> + Send>;

pub(super) enum Sink {
    Stdout,
    File(Rotating),
    #[cfg(test)]
    Test(TestSink),
}

pub(super) struct Rotating {
    path: PathBuf,
    file: File,
    /// Bytes of whole lines in the file.
    len: u64,
    max_bytes: u64,
    backups: u32,
}

impl Sink {
    pub(super) fn open(path: &Path, max_bytes: u64, backups: u32) -> io::Result<Sink> {
        if let Some(folder) = path.parent().filter(|p| !p.as_os_str().is_empty()) {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        let file = open(path)?;
        let len = file.metadata()?.len();
        Ok(Sink::File(Rotating { path: path.to_owned(), file, len, max_bytes, backups }))
    }

    /// Writes whole lines, all of them or none.
    pub(super) fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        match self {
            Sink::Stdout => io::stdout().lock().write_all(lines),
            Sink::File(file) => file.write(lines),
            #[cfg(test)]
            Sink::Test(write) => write(lines),
        }
    }
}

impl Rotating {
    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        if self.len > 0 && self.len + lines.len() as u64 > self.max_bytes {
            self.rotate()?;
        }
        match self.file.write_all(lines) {
            Ok(()) => {
                self.len += lines.len() as u64;
                Ok(())
            }
            Err(error) => {
                // A full disk took part of it: half a line would spoil the next one.
                let _ = self.file.set_len(self.len);
                Err(error)
            }
        }
    }

    /// `audit.log` → `audit.log.1` → … ; the oldest goes. Without backups the file starts anew.
    fn rotate(&mut self) -> io::Result<()> {
        let numbered = |n: u32| {
            let mut name = self.path.clone().into_os_string();
            name.push(format!(".{n}"));
            PathBuf::from(name)
        };
        if self.backups == 0 {
            self.file.set_len(0)?;
        } else {
            for n in (1..self.backups).rev() {
                match fs::rename(numbered(n), numbered(n + 1)) {
                    Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
                    _ => (),
                }
            }
            fs::rename(&self.path, numbered(1))?;
            self.file = open(&self.path)?;
        }
        self.len = 0;
        Ok(())
    }
}

fn open(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
    let metadata = file.metadata()?;
    // An older file may be open to others; a pipe or a device keeps the mode it has.
    if metadata.is_file() && metadata.permissions().mode() & 0o077 != 0 {
        file.set_permissions(fs::Permissions::from_mode(0o600))?;
    }
    Ok(file)
}
