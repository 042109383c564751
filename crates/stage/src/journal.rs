//! What a stage has finished, on disk, so that a later run of the same stage does not do it again.
//!
//! ```text
//! journal := record*                    one JSON object a line, appended; a torn last line is cut off at the next start
//! record  := start | folder | part | blocks | file | made | remark | cleared | mounted
//! start   := {"start":{"format","stage","source","destination","run","pass"}}   first of each run, also of a pass
//! part    := {"part":{"target","place","size","mtime","changed","ino"}}   a large file, begun at `place`; its source's version
//! blocks  := {"blocks":{"target","blocks":[[number, crc32c],...]}} blocks of it, written there
//! folder  := {"folder":{"path","ino","taken"}}    parts are made in it; `taken`: what lies in it is undecided
//! cleared := "cleared"                                             nothing is left in the folders above
//! file    := {"file":{"target","size","mtime","changed","crc32c","attempts","verified","finished_ms"}}   a regular file that is done
//! made    := {"made":{"target"}}                                    the destination folder, about to be made by us
//! published := {"published":{"path","device","ino","changed"}}    the path was given to this inode; after `file`
//! mounted := {"mounted":{"path","mountpoint","kind","crc32c"}}     what a folder of a list's line was on at first
//! opened  := {"opened":{"path","device","ino","changed"}}           a pass made this folder at the target
//! remark  := {"remark":{"path","text"}}                             metadata that could not be kept, or an attempt that failed
//! ```
//!
//! `target` and `path` are text, or an array of bytes where they are not UTF-8.
//!
//! What a power loss kept from the disk is zeros, and counts as records that were never made. Any other line that is no
//! record was not written by us: nobody goes on with such a journal, and it stays as it is.
//!
//! **Invariant:** a `file` or `blocks` record is a hint, not a proof: the caller compares it with both sides before it
//! believes it. A `mounted` record is none: where one may be missing, nobody takes what is there now for what was.

mod drained;
mod earlier;
mod error;
mod folders;
mod inode;
mod past;
mod record;
mod siblings;

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use rustix::fs::{Mode, OFlags};
use wire::data::Attr;
use wire::node::{PfsMount, StageSpec};

use self::drained::Drained;
pub(crate) use self::drained::Left;
pub use self::earlier::{Finished, Unfinished};
pub use self::error::JournalError;
pub(crate) use self::folders::Noted;
pub(crate) use self::inode::Inode;
use self::past::Past;
pub use self::record::PathText;
use self::record::{
    BlocksRecord, FileRecord, MadeRecord, MountedRecord, PartRecord, Record, RemarkRecord, StartRecord,
    ThereRecord,
};
use self::siblings::Siblings;

/// Records between two syncs: what a power loss can make a stage copy again.
const RECORDS_UNSYNCED_MAX: u32 = 256;

/// The journal of one stage.
pub struct Journal {
    path: PathBuf,
    run: u64,
    finished: HashMap<u64, Finished>,
    unfinished: Mutex<HashMap<PathBuf, Unfinished>>,
    /// The places of what is in `unfinished`, also after it was taken.
    places: HashSet<PathBuf>,
    made: HashSet<PathBuf>,
    mounted: Vec<PfsMount>,
    /// Something that earlier runs recorded cannot be read.
    is_damaged: bool,
    folders: Mutex<folders::Folders>,
    drained: Mutex<Drained>,
    siblings: Siblings,
    output: Mutex<Output>,
}

struct Output {
    /// `None`: nothing is kept.
    file: Option<File>,
    unsynced: u32,
    broken: bool,
}

impl Journal {
    /// Opens the journal of a stage, or makes it. Records of another are thrown away.
    ///
    /// # Errors
    /// The file cannot be opened, read or written, a newer Forebay wrote it, or it is damaged: then it stays as it is.
    pub fn open(path: &Path, stage: &StageSpec) -> Result<Journal, JournalError> {
        let journal = Journal::start(path, StartRecord::of_stage(stage), false)?;
        Ok(Journal { siblings: Siblings::of(path, stage), ..journal })
    }

    /// The same for who copies single entries under the name `id`, and does without where the disk is full: what
    /// earlier runs recorded is known then, and nothing is added.
    ///
    /// # Errors
    /// As of [`Journal::open`].
    pub(crate) fn of_entries(path: &Path, id: &str) -> Result<Journal, JournalError> {
        Journal::start(path, StartRecord::of_entries(id), true)
    }

    fn start(path: &Path, mut start: StartRecord, is_optional: bool) -> Result<Journal, JournalError> {
        let failed = |operation| move |source| JournalError { operation, path: path.to_owned(), source };
        let file = disk::regular::open(path, OFlags::RDWR | OFlags::CREATE, Mode::from_raw_mode(0o666));
        let mut file = file.map_err(failed("open"))?;
        let (mut past, length) = Past::read(&file, &start).map_err(failed("read"))?;
        past.run += 1;
        start.run = past.run;
        let begun = file
            .set_len(length)
            .and_then(|()| file.seek(SeekFrom::End(0)))
            .and_then(|_| file.write_all(&Record::Start(start).line()))
            .and_then(|()| file.sync_data());
        let broken = is_optional && begun.as_ref().is_err_and(disk::is_full);
        if !broken {
            begun.map_err(failed("write"))?;
        }
        let output = Mutex::new(Output { file: Some(file), unsynced: 0, broken });
        let Past { run, finished, unfinished, made, mounted, is_damaged, drained, folders, .. } = past;
        let folders = Mutex::new(folders::Folders::after(folders));
        let places = unfinished.values().map(|file| file.place.clone()).collect();
        let unfinished = Mutex::new(unfinished);
        Ok(Journal {
            path: path.to_owned(),
            run,
            finished,
            unfinished,
            places,
            made,
            mounted,
            is_damaged,
            folders,
            drained: Mutex::new(drained),
            siblings: Siblings::default(),
            output,
        })
    }

    /// The journal of a mover, whose coordinator keeps the real one: nothing is kept and nothing known.
    pub fn detached(run: u64) -> Journal {
        let output = Mutex::new(Output { file: None, unsynced: 0, broken: false });
        Journal {
            path: PathBuf::new(),
            run,
            finished: HashMap::new(),
            unfinished: Mutex::default(),
            places: HashSet::new(),
            made: HashSet::new(),
            mounted: Vec::new(),
            is_damaged: false,
            folders: Mutex::default(),
            drained: Mutex::default(),
            siblings: Siblings::default(),
            output,
        }
    }

    fn is_detached(&self) -> bool {
        self.path.as_os_str().is_empty()
    }

    /// Which run of the stage this is, from 1.
    pub fn run(&self) -> u64 {
        self.run
    }

    /// What an earlier run finished at this path of the target.
    pub fn finished(&self, target: &Path) -> Option<Finished> {
        self.finished.get(&key(target)).copied()
    }

    /// What an earlier run began to make of this path of the target. It is given away once.
    pub fn take_unfinished(&self, target: &Path) -> Option<Unfinished> {
        self.unfinished.lock().expect("no thread panics with the lock").remove(target)
    }

    /// Whether an earlier run began a file at this place.
    pub fn is_place(&self, path: &Path) -> bool {
        self.places.contains(path)
    }

    /// Places of files that were begun and that nobody asked for in this run.
    pub fn abandoned(&self) -> Vec<PathBuf> {
        let mut unfinished = self.unfinished.lock().expect("no thread panics with the lock");
        unfinished.drain().map(|(_, file)| file.place).collect()
    }

    /// What the other stages of the job have published, as it was when the journal was opened.
    pub(crate) fn siblings(&self) -> &Siblings {
        &self.siblings
    }

    /// Whether an earlier run made this folder.
    pub fn was_made(&self, target: &Path) -> bool {
        self.made.contains(target)
    }

    /// Records that a large file is made at `place`; `source` are its attributes.
    pub fn begin(&self, target: &Path, place: &Path, source: &Attr) {
        self.append(&Record::Part(PartRecord::new(target, place, source)));
    }

    /// Records that blocks of it are written, with their checksums.
    pub fn blocks(&self, target: &Path, blocks: impl Iterator<Item = usize>, crc32c: &[u32]) {
        let blocks = blocks.zip(crc32c.iter().copied()).collect();
        self.append(&Record::Blocks(BlocksRecord { target: PathText::from(target), blocks }));
    }

    /// Records a finished file, and which inode it is at the target: together, as a kill between the two would have it
    /// copied again.
    pub(crate) fn finish(&self, target: &Path, done: Finished, there: Inode) {
        let mut lines = Record::File(FileRecord::new(target, done)).line();
        lines.extend(Record::Published(ThereRecord::new(target, there)).line());
        self.append_lines(&lines);
    }

    /// What earlier runs noted that folders are on.
    pub(crate) fn mounted(&self) -> &[PfsMount] {
        &self.mounted
    }

    /// Whether some of what they noted may be missing.
    pub(crate) fn is_damaged(&self) -> bool {
        self.is_damaged
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Records what folders are on, durably: no other record stands for that.
    ///
    /// # Errors
    /// The disk's.
    pub(crate) fn note_mounted(&self, found: &[PfsMount]) -> io::Result<()> {
        let mut output = self.output.lock().expect("no thread panics with the lock");
        let Some(file) = &mut output.file else { return Ok(()) };
        let lines: Vec<u8> =
            found.iter().flat_map(|mount| Record::Mounted(MountedRecord::from(mount)).line()).collect();
        file.write_all(&lines)?;
        file.sync_data()
    }

    /// Records that the destination folder is about to be made.
    pub fn make(&self, target: &Path) {
        self.append(&Record::Made(MadeRecord { target: PathText::from(target) }));
    }

    /// Records something that the owner of the files should know and that is no failure.
    pub fn remark(&self, path: &str, text: &str) {
        self.append(&Record::Remark(RemarkRecord { path: path.to_owned(), text: text.to_owned() }));
    }

    /// Makes what is recorded so far survive a power loss.
    pub fn sync(&self) {
        let mut output = self.output.lock().expect("no thread panics with the lock");
        let synced = output.file.as_ref().map_or(Ok(()), File::sync_data);
        self.check(&mut output, synced);
    }

    fn append(&self, record: &Record) {
        self.append_lines(&record.line());
    }

    fn append_lines(&self, lines: &[u8]) {
        let mut output = self.output.lock().expect("no thread panics with the lock");
        let Output { file: Some(file), unsynced, broken: false } = &mut *output else { return };
        let mut written = file.write_all(lines);
        *unsynced += 1;
        if written.is_ok() && *unsynced >= RECORDS_UNSYNCED_MAX {
            *unsynced = 0;
            written = file.sync_data();
        }
        self.check(&mut output, written);
    }

    /// A stage goes on without its journal: all that is lost is what a later run could have skipped.
    fn check(&self, output: &mut Output, written: io::Result<()>) {
        if let Err(error) = written
            && !output.broken
        {
            output.broken = true;
            tracing::warn!("write stage journal {}: {error}; the stage goes on without", self.path.display());
        }
    }
}

/// A hash in place of the path keeps a million records in 50 MB. Should two paths share one, size and time of change
/// on both sides still have to be the same before a file is skipped.
fn key(path: &Path) -> u64 {
    let mut hasher = DefaultHasher::new();
    path.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests;
