//! Opening a directory: newest snapshot, then the journal after it; refusing what is damaged.

use std::path::Path;
use std::sync::Arc;

use crate::embedded::{RESTORING, Segment, VERSION, frame, initialise, lock, named, segment_path, snapshot_path};
use crate::error::{Error, Result};
use crate::fs::{File, Fs, read_all};
use crate::model::{Change, Entry, Revision};
use crate::options::Options;
use crate::record::{Names, Raw};
use crate::seal::Sealer;
use crate::snapshot::{Kind, SnapshotReader};
use crate::tree::Tree;

pub(crate) struct Opened {
    pub lock: Box<dyn Send + Sync>,
    pub segments: Vec<Segment>,
    /// The last segment, to be appended to.
    pub file: Box<dyn File>,
    pub snapshot: (Revision, u64),
}

pub(crate) fn open(fs: &Arc<dyn Fs>, dir: &Path, tree: &Tree, options: &Options) -> Result<Opened> {
    let fs = fs.as_ref();
    let io = |e| Error::io(format!("opening {}", dir.display()), e);
    if !options.sealed.is_empty() && options.keys.is_none() {
        return Err(Error::Seal("collections are to be sealed, but there is no key ring".into()));
    }
    fs.create_dir(dir).map_err(io)?;
    let lock = lock(fs, dir)?;
    let names = fs.list(dir).map_err(io)?;
    for name in names.iter().filter(|name| name.ends_with(".tmp")) {
        fs.remove(&dir.join(name)).map_err(io)?;
    }
    let with = |extension: &str| {
        let mut revisions: Vec<_> = names.iter().filter_map(|name| named(name, extension)).collect();
        revisions.sort_unstable();
        revisions
    };
    let (mut logs, snapshots) = (with(".log"), with(".snap"));
    if names.iter().any(|name| name == "VERSION") {
        check_version(fs, dir)?;
    } else {
        // A first start that was cut short leaves at most an empty first segment.
        let begun = logs.iter().all(|first| *first == tree.revision() + 1) && snapshots.is_empty();
        let empty =
            |first: &Revision| fs.len(&segment_path(dir, *first)).is_ok_and(|n| n <= frame::SEGMENT_HEAD as u64);
        if !(begun && logs.iter().all(empty)) {
            let (found, known) = ("no VERSION beside data".to_owned(), VERSION.trim().to_owned());
            return Err(Error::Version { file: dir.join("VERSION"), found, known });
        }
        initialise(fs, dir, tree.revision() + 1)?;
        logs = vec![tree.revision() + 1];
    }
    let mut reading = Reading { fs, dir, tree, options, sealer: options.sealer(), names: Names::default() };
    reading.drop_unbegun(&mut logs)?;
    let snapshot = reading.snapshot(&snapshots)?;
    // Segments that the snapshot replaces: a crash came before they were removed.
    let needed = logs.iter().rposition(|first| *first <= tree.revision() + 1).unwrap_or(0);
    let (segments, file) = reading.journal(&logs[needed..])?;
    let obsolete = logs[..needed].iter().map(|first| segment_path(dir, *first));
    let replaced = snapshots.iter().filter(|r| **r < snapshot.0).map(|r| snapshot_path(dir, *r));
    for path in obsolete.chain(replaced) {
        fs.remove(&path).map_err(io)?;
    }
    Ok(Opened { lock, segments, file, snapshot })
}

fn check_version(fs: &dyn Fs, dir: &Path) -> Result<()> {
    let file = dir.join("VERSION");
    let found = read_all(fs, &file).map_err(|e| Error::io(format!("reading {}", file.display()), e))?;
    if found == VERSION.as_bytes() {
        return Ok(());
    }
    if found == RESTORING.as_bytes() {
        return Err(Error::Unfinished { dir: dir.into() });
    }
    let found = String::from_utf8_lossy(&found[..found.len().min(100)]).trim().to_owned();
    Err(Error::Version { file, found, known: VERSION.trim().to_owned() })
}

struct Reading<'a> {
    fs: &'a dyn Fs,
    dir: &'a Path,
    tree: &'a Tree,
    options: &'a Options,
    sealer: Sealer,
    names: Names,
}

impl Reading<'_> {
    /// Loads the newest snapshot; gives its revision and length. It was durable before anything it replaces was removed, so a
    /// damaged one is refused, never passed over for an older one.
    fn snapshot(&mut self, snapshots: &[Revision]) -> Result<(Revision, u64)> {
        let Some(revision) = snapshots.last().copied() else { return Ok((0, 0)) };
        let mut reader = SnapshotReader::open(self.fs, &snapshot_path(self.dir, revision))?;
        if reader.head.kind != Kind::Snapshot || reader.head.revision != revision {
            return Err(reader.damaged("the head does not fit the file's name"));
        }
        let mut block = Vec::new();
        while reader.block(&mut block)? {
            let mut misplaced = false;
            reader.records(&block, |raw| {
                let fed = raw.fed(&mut self.names, &self.sealer, &self.options.describe)?;
                match fed.change {
                    Change::Put { value, attrs } if fed.revision <= revision => {
                        self.tree.load(fed.key, Entry::new(fed.revision, value, attrs));
                    }
                    _ => misplaced = true,
                }
                Ok(())
            })?;
            if misplaced {
                return Err(reader.damaged("a record does not belong into a snapshot"));
            }
        }
        self.tree.begin(revision);
        Ok((revision, reader.offset()))
    }

    /// Removes a last segment that a crash left without its head: the one before goes on. One with a head stays: from then on
    /// nothing was written to the one before, which may be folded already.
    fn drop_unbegun(&self, logs: &mut Vec<Revision>) -> Result<()> {
        let [_, .., last] = logs[..] else { return Ok(()) };
        let path = segment_path(self.dir, last);
        let io = |e| Error::io(format!("reading {}", path.display()), e);
        let bytes = read_all(self.fs, &path).map_err(io)?;
        if frame::scan(&path, &bytes, last, true)?.whole == 0 {
            self.fs.remove(&path).and_then(|()| self.fs.sync_dir(self.dir)).map_err(io)?;
            logs.pop();
        }
        Ok(())
    }

    /// Replays the segments from the one that continues the snapshot.
    fn journal(&mut self, logs: &[Revision]) -> Result<(Vec<Segment>, Box<dyn File>)> {
        let begin = self.tree.revision();
        let mut next: Option<Revision> = None;
        let mut segments = Vec::new();
        let mut whole = 0;
        for (i, first) in logs.iter().copied().enumerate() {
            let path = segment_path(self.dir, first);
            let bytes = read_all(self.fs, &path).map_err(|e| Error::io(format!("reading {}", path.display()), e))?;
            let scan = frame::scan(&path, &bytes, first, i + 1 == logs.len())?;
            let damaged =
                |offset: usize, why: String| Err(Error::Corrupt { file: path.clone(), offset: offset as u64, why });
            let expected = next.unwrap_or(first.min(begin + 1));
            if scan.whole == 0 || first != expected {
                return damaged(0, format!("the journal does not continue at revision {expected}"));
            }
            let mut expected = first;
            for frame in &scan.frames {
                if frame.first != expected {
                    return damaged(frame.offset, format!("the journal does not continue at revision {expected}"));
                }
                expected += u64::from(frame.count);
                let mut changes = Vec::with_capacity((frame.count as usize).min(frame.records.len()));
                let mut records = frame.records;
                for revision in frame.first..expected {
                    match Raw::take(&mut records).filter(|raw| raw.revision == revision) {
                        Some(raw) if revision > begin => {
                            changes.push(raw.fed(&mut self.names, &self.sealer, &self.options.describe)?);
                        }
                        Some(_) => {}
                        None => return damaged(frame.offset, "a record is malformed".into()),
                    }
                }
                if frame.count == 0 || !records.is_empty() {
                    return damaged(frame.offset, "a frame does not hold what it says".into());
                }
                if expected > begin + 1 {
                    self.tree.feed(changes, expected - 1);
                }
            }
            next = Some(expected);
            whole = scan.whole;
            if bytes[whole..].iter().any(|byte| *byte != 0) {
                tracing::warn!(file = %path.display(), at = whole, lost = bytes.len() - whole, "cut off an unfinished write");
            }
            segments.push(Segment { first, path, bytes: whole as u64 });
        }
        let lost = |why: &str| Error::Corrupt { file: self.dir.into(), offset: 0, why: why.into() };
        let Some(last) = segments.last() else { return Err(lost("the journal is missing")) };
        if next.is_none_or(|next| next < begin + 1) {
            return Err(lost("the journal ends before the snapshot"));
        }
        // What was read is served from now on, so it must be durable, even if it never was acknowledged.
        let io = |e| Error::io(format!("opening {}", last.path.display()), e);
        let mut file = self.fs.append(&last.path).map_err(io)?;
        file.truncate(whole as u64).and_then(|()| file.sync()).map_err(io)?;
        Ok((segments, file))
    }
}
