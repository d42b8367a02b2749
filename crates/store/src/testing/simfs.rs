//! A disk in memory that loses what was not synced, fills up, fails and rots on demand.
//!
//! A crash keeps what a real disk guarantees (synced content under names whose directory was synced) and a random choice of the
//! rest: unsynced pages one by one, unsynced names one by one.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::Dice;
use crate::fs::{File, Fs};

const PAGE: usize = 4096;

#[derive(Clone, Default)]
pub struct SimFs(Arc<Mutex<Disk>>);

#[derive(Default)]
struct Disk {
    /// What programs see.
    names: BTreeMap<PathBuf, usize>,
    /// What is surely there after a crash.
    durable: BTreeMap<PathBuf, usize>,
    files: Vec<Inode>,
    locked: BTreeSet<PathBuf>,
    /// Operations so far that change something.
    operations: u64,
    crash_at: Option<u64>,
    crashed: bool,
    free: Option<u64>,
    broken: Option<Broken>,
    /// Which kind of operation each was, for reports.
    log: Vec<String>,
}

#[derive(Clone, Default)]
struct Inode {
    bytes: Vec<u8>,
    synced: Vec<u8>,
    dirty: BTreeSet<usize>,
}

/// What fails, from now on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Broken {
    Writes,
    Syncs,
    /// One sync, the next.
    NextSync,
    /// Also what would repair it.
    Everything,
    Reads,
}

impl SimFs {
    pub fn new() -> SimFs {
        SimFs::default()
    }

    fn disk(&self) -> std::sync::MutexGuard<'_, Disk> {
        self.0.lock().expect("simulated disk")
    }

    /// Operations so far that change something: the points a crash can come at.
    pub fn operations(&self) -> u64 {
        self.disk().operations
    }

    pub fn log(&self) -> Vec<String> {
        self.disk().log.clone()
    }

    /// The machine stops in the middle of operation `n`; every later one fails.
    pub fn crash_at(&self, n: u64) {
        self.disk().crash_at = Some(n);
    }

    pub fn crashed(&self) -> bool {
        self.disk().crashed
    }

    /// What the next start finds.
    pub fn after_crash(&self, seed: u64) -> SimFs {
        let disk = self.disk();
        let mut dice = Dice(seed);
        let mut names = disk.durable.clone();
        let touched: BTreeSet<_> = disk.names.keys().chain(disk.durable.keys()).cloned().collect();
        for path in touched {
            let (now, then) = (disk.names.get(&path), disk.durable.get(&path));
            if now != then && dice.below(2) == 0 {
                match now {
                    Some(inode) => drop(names.insert(path, *inode)),
                    None => drop(names.remove(&path)),
                }
            }
        }
        let files: Vec<Inode> = disk.files.iter().map(|inode| inode.after_crash(&mut dice)).collect();
        SimFs(Arc::new(Mutex::new(Disk { durable: names.clone(), names, files, ..Disk::default() })))
    }

    /// What a program finds that was killed while the machine went on.
    pub fn after_kill(&self) -> SimFs {
        let disk = self.disk();
        let (names, durable, files) = (disk.names.clone(), disk.durable.clone(), disk.files.clone());
        SimFs(Arc::new(Mutex::new(Disk { names, durable, files, ..Disk::default() })))
    }

    /// Bytes left on the disk; None = endless.
    pub fn free(&self, bytes: Option<u64>) {
        self.disk().free = bytes;
    }

    pub fn broken(&self, what: Option<Broken>) {
        self.disk().broken = what;
    }

    pub fn paths(&self) -> Vec<PathBuf> {
        self.disk().names.keys().cloned().collect()
    }

    pub fn content(&self, path: &Path) -> Vec<u8> {
        let disk = self.disk();
        disk.names.get(path).map(|i| disk.files[*i].bytes.clone()).unwrap_or_default()
    }

    /// Replaces a file behind the store's back.
    pub fn set_content(&self, path: &Path, bytes: Vec<u8>) {
        let mut disk = self.disk();
        let inode = disk.names[path];
        disk.files[inode] = Inode { synced: bytes.clone(), bytes, dirty: BTreeSet::new() };
    }

    pub fn flip(&self, path: &Path, byte: usize, bit: u8) {
        let mut bytes = self.content(path);
        bytes[byte] ^= 1 << bit;
        self.set_content(path, bytes);
    }
}

impl Inode {
    fn after_crash(&self, dice: &mut Dice) -> Inode {
        let mut bytes = self.synced.clone();
        // The length may have got ahead of the content: pages never written read as zeros.
        let longer = self.bytes.len() > bytes.len();
        if !self.dirty.is_empty() {
            match dice.below(4) {
                0 => {}
                1 if longer => {
                    let len = bytes.len() as u64 + dice.below((self.bytes.len() - bytes.len()) as u64 + 1);
                    bytes.resize(len as usize, 0);
                }
                _ => bytes.resize(self.bytes.len(), 0),
            }
        }
        for page in &self.dirty {
            let (start, end) = (page * PAGE, ((page + 1) * PAGE).min(bytes.len()).min(self.bytes.len()));
            if start < end && dice.below(2) == 0 {
                bytes[start..end].copy_from_slice(&self.bytes[start..end]);
            }
        }
        Inode { synced: bytes.clone(), bytes, dirty: BTreeSet::new() }
    }
}

fn stopped() -> io::Error {
    io::Error::other("the simulated machine has stopped")
}

impl Disk {
    /// Counts an operation. Err = the machine stopped before; true = it stops in the middle of this one.
    fn operation(&mut self, what: &str, path: &Path) -> io::Result<bool> {
        if self.crashed {
            return Err(stopped());
        }
        let now = self.operations;
        self.operations += 1;
        self.log.push(format!("{what} {}", path.display()));
        self.crashed = self.crash_at == Some(now);
        Ok(self.crashed)
    }

    /// An operation on names: a crash in its middle leaves it visible and not durable.
    fn naming(&mut self, what: &str, path: &Path, change: impl FnOnce(&mut Disk) -> io::Result<()>) -> io::Result<()> {
        let stops = self.operation(what, path)?;
        if matches!(self.broken, Some(Broken::Everything)) {
            return Err(io::Error::from_raw_os_error(5));
        }
        change(self)?;
        if stops { Err(stopped()) } else { Ok(()) }
    }
}

impl Fs for SimFs {
    fn create_dir(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let disk = self.disk();
        if disk.crashed {
            return Err(stopped());
        }
        let inside = disk.names.keys().filter(|path| path.parent() == Some(dir));
        Ok(inside.filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned())).collect())
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn File>> {
        let mut disk = self.disk();
        let mut inode = 0;
        disk.naming("create", path, |disk| {
            disk.files.push(Inode::default());
            inode = disk.files.len() - 1;
            disk.names.insert(path.into(), inode);
            Ok(())
        })?;
        Ok(Box::new(SimFile { disk: self.0.clone(), path: path.into(), inode, end: 0 }))
    }

    fn append(&self, path: &Path) -> io::Result<Box<dyn File>> {
        let disk = self.disk();
        let inode = *disk.names.get(path).ok_or(ErrorKind::NotFound)?;
        let end = disk.files[inode].bytes.len();
        Ok(Box::new(SimFile { disk: self.0.clone(), path: path.into(), inode, end }))
    }

    fn read(&self, path: &Path) -> io::Result<Box<dyn Read + Send>> {
        let disk = self.disk();
        let inode = *disk.names.get(path).ok_or(ErrorKind::NotFound)?;
        if disk.crashed {
            return Err(stopped());
        }
        if disk.broken == Some(Broken::Reads) {
            return Err(io::Error::from_raw_os_error(5));
        }
        Ok(Box::new(io::Cursor::new(disk.files[inode].bytes.clone())))
    }

    fn len(&self, path: &Path) -> io::Result<u64> {
        let disk = self.disk();
        let inode = *disk.names.get(path).ok_or(ErrorKind::NotFound)?;
        Ok(disk.files[inode].bytes.len() as u64)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk().naming("rename", to, |disk| {
            let inode = disk.names.remove(from).ok_or(ErrorKind::NotFound)?;
            disk.names.insert(to.into(), inode);
            Ok(())
        })
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk().naming("remove", path, |disk| {
            disk.names.remove(path).ok_or(ErrorKind::NotFound)?;
            Ok(())
        })
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut disk = self.disk();
        let stops = disk.operation("sync_dir", dir)?;
        if matches!(disk.broken, Some(Broken::Everything | Broken::Syncs)) {
            return Err(io::Error::from_raw_os_error(5));
        }
        if stops {
            return Err(stopped());
        }
        let inside = |path: &Path| path.parent() == Some(dir);
        disk.durable.retain(|path, _| !inside(path));
        let now: Vec<_> = disk.names.iter().filter(|(path, _)| inside(path)).map(|(p, i)| (p.clone(), *i)).collect();
        disk.durable.extend(now);
        Ok(())
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>> {
        let mut disk = self.disk();
        if !disk.locked.insert(path.into()) {
            return Err(ErrorKind::WouldBlock.into());
        }
        Ok(Box::new(SimLock(self.0.clone(), path.into())))
    }
}

struct SimLock(Arc<Mutex<Disk>>, PathBuf);

impl Drop for SimLock {
    fn drop(&mut self) {
        self.0.lock().expect("simulated disk").locked.remove(&self.1);
    }
}

struct SimFile {
    disk: Arc<Mutex<Disk>>,
    path: PathBuf,
    inode: usize,
    end: usize,
}

impl SimFile {
    /// Writes at the end, which it does not move.
    fn put(&self, what: &str, bytes: &[u8]) -> io::Result<()> {
        let mut disk = self.disk.lock().expect("simulated disk");
        let stops = disk.operation(what, &self.path)?;
        if matches!(disk.broken, Some(Broken::Writes | Broken::Everything)) {
            return Err(io::Error::from_raw_os_error(5));
        }
        let reserved = disk.files[self.inode].bytes.len() - self.end;
        let room = disk.free.map_or(bytes.len(), |free| bytes.len().min(reserved + free as usize));
        // A crash in the middle: some of it got as far as the cache.
        let taken = if stops { room.min(bytes.len() / 2) } else { room };
        disk.free = disk.free.map(|free| free - taken.saturating_sub(reserved) as u64);
        let file = &mut disk.files[self.inode];
        let over = taken.min(reserved);
        file.bytes[self.end..self.end + over].copy_from_slice(&bytes[..over]);
        file.bytes.extend_from_slice(&bytes[over..taken]);
        file.dirty.extend(self.end / PAGE..=(self.end + taken).max(1).div_ceil(PAGE));
        if stops {
            return Err(stopped());
        }
        if taken < bytes.len() { Err(ErrorKind::StorageFull.into()) } else { Ok(()) }
    }
}

impl File for SimFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.put("write", bytes)?;
        self.end += bytes.len();
        Ok(())
    }

    fn reserve(&mut self, len: u64) -> io::Result<()> {
        self.put("reserve", &vec![0; len as usize])?;
        self.sync()
    }

    fn sync(&mut self) -> io::Result<()> {
        let mut disk = self.disk.lock().expect("simulated disk");
        let stops = disk.operation("sync", &self.path)?;
        if disk.broken == Some(Broken::NextSync) {
            disk.broken = None;
            return Err(io::Error::from_raw_os_error(5));
        }
        if matches!(disk.broken, Some(Broken::Syncs | Broken::Everything)) {
            return Err(io::Error::from_raw_os_error(5));
        }
        if stops {
            return Err(stopped());
        }
        let file = &mut disk.files[self.inode];
        file.synced = file.bytes.clone();
        file.dirty.clear();
        Ok(())
    }

    fn truncate(&mut self, len: u64) -> io::Result<()> {
        let mut disk = self.disk.lock().expect("simulated disk");
        let stops = disk.operation("truncate", &self.path)?;
        if matches!(disk.broken, Some(Broken::Everything)) {
            return Err(io::Error::from_raw_os_error(5));
        }
        let file = &mut disk.files[self.inode];
        let len = len as usize;
        let freed = file.bytes.len().saturating_sub(len) as u64;
        file.bytes.truncate(len);
        self.end = len;
        file.dirty.retain(|page| page * PAGE < len);
        if freed > 0 {
            // The last page is rewritten with the new end.
            file.dirty.insert(len / PAGE);
        }
        disk.free = disk.free.map(|free| free + freed);
        if stops { Err(stopped()) } else { Ok(()) }
    }
}
