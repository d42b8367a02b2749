//! Where a copy is written before it is sent: a folder of our own, locked while its process lives, swept once that is dead.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use store::{Fs, RealFs};

const PREFIX: &str = "muster-backup-";
/// Until it is locked it has another name: one with the name that is swept is always locked, or left behind.
const MAKING: &str = "muster-making-";
/// Nobody takes that long to lock a folder.
const MADE_WITHIN: Duration = Duration::from_secs(60);
const COPY: &str = "copy";
const LOCK: &str = "LOCK";
/// All that is ever in one; the store writes under the second name first.
const FILES: [&str; 3] = [COPY, "copy.tmp", LOCK];

/// Gone, with what is in it, when dropped.
pub(super) struct Folder {
    path: PathBuf,
    _lock: Box<dyn Send + Sync>,
}

impl Folder {
    /// Nobody else reads it, and nobody can have put a link in its place.
    pub(super) fn make(parent: &Path, uid: &str) -> io::Result<Folder> {
        let (unlocked, path) = (parent.join(format!("{MAKING}{uid}")), parent.join(format!("{PREFIX}{uid}")));
        DirBuilder::new().mode(0o700).create(&unlocked)?;
        let locked = RealFs.lock(&unlocked.join(LOCK));
        match locked.and_then(|lock| fs::rename(&unlocked, &path).map(|()| lock)) {
            Ok(lock) => Ok(Folder { path, _lock: lock }),
            Err(error) => {
                remove(&unlocked);
                Err(error)
            }
        }
    }

    pub(super) fn copy(&self) -> PathBuf {
        self.path.join(COPY)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

/// Never more than the files known, so nothing of anybody else goes.
fn remove(folder: &Path) {
    for name in FILES {
        let _ = fs::remove_file(folder.join(name));
    }
    let _ = fs::remove_dir(folder);
}

/// Removes what processes of ours left that were killed in the middle of a backup.
pub(super) fn sweep(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten().filter(|entry| is_left(&entry.file_name().to_string_lossy(), entry)) {
        let path = entry.path();
        // Only a real folder of this very user: into anybody else's a link could have been put.
        let own =
            |file: &Path| fs::symlink_metadata(file).is_ok_and(|m| m.uid() == rustix::process::geteuid().as_raw());
        let folder = fs::symlink_metadata(&path).is_ok_and(|m| m.is_dir() && m.mode() & 0o077 == 0);
        let lock = path.join(LOCK);
        let plain = fs::symlink_metadata(&lock).map_or(true, |m| m.is_file());
        if !(own(&path) && folder && plain) {
            continue;
        }
        if let Ok(_lock) = RealFs.lock(&lock) {
            tracing::info!(folder = %path.display(), "removing what a backup that was cut short left");
            remove(&path);
        }
    }
}

/// Whether it may be of a backup that was cut short. One that was not even locked is empty, and somebody may be about to lock it.
fn is_left(name: &str, entry: &fs::DirEntry) -> bool {
    let old =
        || entry.metadata().and_then(|m| m.modified()).is_ok_and(|at| at.elapsed().is_ok_and(|age| age > MADE_WITHIN));
    name.starts_with(PREFIX) || (name.starts_with(MAKING) && old())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn names(parent: &Path) -> Vec<String> {
        let mut names: Vec<_> =
            fs::read_dir(parent).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn left(parent: &Path, name: &str, files: &[&str]) -> PathBuf {
        let path = parent.join(name);
        DirBuilder::new().mode(0o700).create(&path).unwrap();
        for file in files {
            fs::write(path.join(file), "secret").unwrap();
        }
        path
    }

    // F-18
    #[test]
    fn folders_of_the_dead_are_swept_and_those_of_the_living_are_not() {
        let parent = tempfile::tempdir().unwrap();
        let parent = parent.path();
        let living = Folder::make(parent, "living").unwrap();
        fs::write(living.copy(), "in use").unwrap();
        assert_eq!(fs::metadata(&living.path).unwrap().permissions().mode() & 0o777, 0o700);
        left(parent, "muster-backup-dead", &FILES);
        left(parent, "muster-backup-early", &[LOCK]);
        left(parent, "muster-backup-late", &["copy.tmp"]);
        left(parent, "muster-making-now", &[]);
        let stuck = left(parent, "muster-making-once", &[LOCK]);
        let long_ago = std::time::SystemTime::now() - MADE_WITHIN * 2;
        fs::File::open(&stuck).unwrap().set_modified(long_ago).unwrap();
        sweep(parent);
        assert_eq!(names(parent), ["muster-backup-living", "muster-making-now"]);
        fs::remove_dir(parent.join("muster-making-now")).unwrap();
        assert_eq!(fs::read_to_string(living.copy()).unwrap(), "in use");
        drop(living);
        assert!(names(parent).is_empty());
    }

    // F-18
    #[test]
    fn what_only_looks_like_ours_stays() {
        let parent = tempfile::tempdir().unwrap();
        let parent = parent.path();
        let precious = left(parent, "precious", &FILES);
        symlink(&precious, parent.join("muster-backup-link")).unwrap();
        let trap = left(parent, "muster-backup-trap", &["copy"]);
        symlink(precious.join("copy"), trap.join(LOCK)).unwrap();
        let open = left(parent, "muster-backup-open", &["copy"]);
        fs::set_permissions(&open, fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(parent.join("muster-backup-file"), "a file").unwrap();
        left(parent, "muster-backup-more", &["notes.txt", LOCK]);
        sweep(parent);
        let all = ["file", "link", "more", "open", "trap"].map(|name| format!("muster-backup-{name}"));
        assert_eq!(names(parent), all.into_iter().chain(["precious".to_owned()]).collect::<Vec<_>>());
        assert_eq!(fs::read_to_string(precious.join("copy")).unwrap(), "secret");
        assert!(parent.join("muster-backup-more/notes.txt").exists());
    }
}
