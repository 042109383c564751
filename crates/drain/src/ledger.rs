//! What has landed on the PFS, on the node's disk: the drainer's memory across `kill -9` and reboots.
//!
//! ```text
//! ledger := record*                 one JSON object a line, appended; a torn last line is cut off at the next start
//! record := {"of":{...}}          the first: its format, and which drain it is of, see [`crate::bound`]
//!         | {"begun":{...}}       about to be published under this name
//!         | {"landed":{...}}      verified, under its name, the folder synced
//!         | {"placed":{...}}      which inode is about to get a name on the PFS, or has just got it
//!         | {"first":{...}}       what had a name on the PFS before the first copy for it was begun
//!         | {"gone":path}         removed from the PFS again
//!         | {"lost":{...}}        the node's disk could not write back something of a file
//! ```
//!
//! What was begun and has not landed may be on the PFS or not; it matters when the file is gone from the node. A record
//! that a power loss takes away only makes a file be copied again.

mod landed;
mod names;
mod owner;
mod read;
mod record;

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use disk::{Room, regular};
use rustix::fs::{Mode, OFlags};

pub(crate) use self::landed::Landed;
pub(crate) use self::owner::Of;
use self::record::{LandedRecord, LostRecord, Record, append};
use crate::generation::Stamp;
use crate::placed::{Over, Under};

/// As many versions of a file as are remembered that were begun and have not landed.
const BEGUN_MAX: usize = 32;

/// Everything that has landed, by the path below the drained folder.
pub(crate) struct Ledger {
    path: PathBuf,
    file: File,
    /// Bytes of whole records.
    length: u64,
    room: Room,
    /// Which drain it is of; `None`: it is new.
    of: Option<Of>,
    landed: HashMap<PathBuf, Landed>,
    /// Versions that were begun since the last one landed, oldest first.
    begun: HashMap<PathBuf, Vec<Landed>>,
    /// What was put under which name on the PFS.
    placed: HashMap<PathBuf, Under>,
    /// What had a name there before the first copy for it was begun, as long as none has got it.
    first: HashMap<PathBuf, Over>,
    /// Paths of one file: more than one if it was renamed, or has several names.
    paths: HashMap<(u64, Stamp), Vec<PathBuf>>,
    /// Files that were seen with several names at once: one of their names is no later name of another.
    linked: HashSet<(u64, Stamp)>,
    /// Files of which the node's disk could not write back something: the kernel says so once.
    lost: HashSet<(u64, Stamp)>,
}

impl Ledger {
    /// Reads the ledger in the drainer's folder `state`, or makes it.
    ///
    /// # Errors
    /// The file cannot be opened, read or written, or a newer Forebay wrote it: then it stays as it is.
    pub(crate) fn open(state: &Path) -> anyhow::Result<Ledger> {
        let path = state.join("ledger");
        let open = regular::open(&path, OFlags::RDWR | OFlags::CREATE, Mode::from_raw_mode(0o666));
        let mut ledger = Ledger {
            file: open.with_context(|| format!("open the ledger {}", path.display()))?,
            path: path.clone(),
            length: 0,
            room: Room::of(state),
            of: None,
            landed: HashMap::new(),
            begun: HashMap::new(),
            placed: HashMap::new(),
            first: HashMap::new(),
            paths: HashMap::new(),
            linked: HashSet::new(),
            lost: HashSet::new(),
        };
        let whole = ledger.read().with_context(|| format!("read the ledger {}", path.display()))?;
        ledger.file.set_len(whole).with_context(|| format!("cut the ledger {}", path.display()))?;
        ledger.length = whole;
        Ok(ledger)
    }

    /// Which drain it is of.
    pub(crate) fn of(&self) -> Option<&Of> {
        self.of.as_ref()
    }

    /// Forgets everything: from now on it is of another drain.
    ///
    /// # Errors
    /// The node's disk.
    pub(crate) fn begin_anew(&mut self, of: Of) -> std::io::Result<()> {
        let mut line = Vec::new();
        append(&mut line, &Record::of(&of));
        // The flash is the same.
        self.lost.iter().for_each(|file| append(&mut line, &Record::Lost(LostRecord::new(*file))));
        // Beside it: a kill in the midst must not forget these.
        self.room.or_give_up(|| disk::replace(&self.path, &line))?;
        (self.file, self.length) =
            (regular::open(&self.path, OFlags::RDWR, Mode::empty())?, length_of(&line));
        (self.landed, self.begun) = (HashMap::new(), HashMap::new());
        (self.placed, self.first) = (HashMap::new(), HashMap::new());
        (self.paths, self.linked) = (HashMap::new(), HashSet::new());
        self.of = Some(of);
        Ok(())
    }

    /// What landed from this path.
    pub(crate) fn get(&self, path: &Path) -> Option<&Landed> {
        self.landed.get(path)
    }

    /// Everything that has landed.
    pub(crate) fn landed(&self) -> impl Iterator<Item = (&PathBuf, &Landed)> {
        self.landed.iter()
    }

    /// Every path that something is or may be on the PFS of.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        let only_begun = self.begun.keys().filter(|path| !self.landed.contains_key(*path));
        self.landed.keys().chain(only_begun)
    }

    /// What is or may be on the PFS of this path: what was begun since the last version landed, and that.
    pub(crate) fn traces(&self, path: &Path) -> Vec<Landed> {
        self.begun.get(path).into_iter().flatten().chain(self.landed.get(path)).cloned().collect()
    }

    /// Names on the PFS that something has landed under.
    pub(crate) fn targets(&self) -> impl Iterator<Item = &PathBuf> {
        self.landed.values().map(|landed| &landed.target)
    }

    /// Folders on the PFS in which something was begun that has not landed.
    pub(crate) fn folders_begun(&self) -> HashSet<PathBuf> {
        let begun = self.begun.values().flatten();
        begun.filter_map(|begun| begun.target.parent()).map(Path::to_owned).collect()
    }

    /// How many files have landed.
    pub(crate) fn len(&self) -> usize {
        self.landed.len()
    }

    /// Other paths that the files of `path` have, or had: it was renamed, so far as that is sure. Nothing follows from
    /// a number that may have been used again, nor from the names of a file that had several.
    pub(crate) fn other_paths(&self, path: &Path) -> Vec<PathBuf> {
        let files = self.traces(path).into_iter().filter(|trace| trace.generation.is_told());
        let files = files.map(|trace| trace.generation.file()).filter(|file| !self.linked.contains(file));
        let paths = files.flat_map(|file| self.paths.get(&file).into_iter().flatten());
        paths.filter(|other| *other != path).cloned().collect()
    }

    /// Records that a version of a file is about to be published, or has been and is not the newest any more.
    ///
    /// # Errors
    /// The node's disk.
    pub(crate) fn begin(&mut self, path: &Path, begun: Landed) -> std::io::Result<()> {
        let mut line = Vec::new();
        append(&mut line, &Record::Begun(LandedRecord::new(path, &begun)));
        self.put_begun(path.to_owned(), begun);
        self.write(&line)
    }

    /// Records files that have landed.
    ///
    /// # Errors
    /// The node's disk.
    pub(crate) fn land(&mut self, files: &[(PathBuf, Landed)]) -> std::io::Result<()> {
        let mut lines = Vec::new();
        for (path, landed) in files {
            append(&mut lines, &Record::Landed(LandedRecord::new(path, landed)));
            self.put(path.clone(), landed.clone());
        }
        self.write(&lines)
    }

    /// Records that what landed from `path` was removed again.
    ///
    /// # Errors
    /// The node's disk.
    pub(crate) fn gone(&mut self, path: &Path) -> std::io::Result<()> {
        let mut line = Vec::new();
        append(&mut line, &Record::Gone(path.into()));
        self.forget(path);
        self.write(&line)
    }

    /// Records, durably, that the node's disk could not write back something of a file: its inode, and when that was
    /// made.
    ///
    /// # Errors
    /// The node's disk. It is known all the same, as long as this process lives.
    pub(crate) fn lose(&mut self, file: (u64, Stamp)) -> std::io::Result<()> {
        self.lost.insert(file);
        let mut line = Vec::new();
        append(&mut line, &Record::Lost(LostRecord::new(file)));
        self.write(&line)?;
        self.sync()
    }

    /// Whether that is so of this.
    pub(crate) fn has_lost(&self, file: (u64, Stamp)) -> bool {
        self.lost.contains(&file)
    }

    /// What cannot be written whole is cut off, or written over by the next.
    fn write(&mut self, lines: &[u8]) -> std::io::Result<()> {
        // The other half is for the next start.
        let written = self.room.or_give_up_some(|| self.file.write_all_at(lines, self.length));
        written.inspect_err(|_| drop(self.file.set_len(self.length)))?;
        self.length += length_of(lines);
        Ok(())
    }

    /// Makes what was recorded survive a power loss.
    ///
    /// # Errors
    /// The node's disk.
    pub(crate) fn sync(&self) -> std::io::Result<()> {
        self.file.sync_data()
    }

    fn put(&mut self, path: PathBuf, landed: Landed) {
        self.take(&path);
        self.index(&path, &landed);
        self.landed.insert(path, landed);
    }

    fn put_begun(&mut self, path: PathBuf, begun: Landed) {
        let versions = self.begun.entry(path.clone()).or_default();
        if versions.contains(&begun) {
            return;
        }
        let oldest = (versions.len() >= BEGUN_MAX).then(|| versions.remove(0));
        versions.push(begun.clone());
        if let Some(oldest) = oldest {
            self.unindex(&path, &oldest);
        }
        self.index(&path, &begun);
    }

    fn take(&mut self, path: &Path) {
        let begun = self.begun.remove(path).unwrap_or_default();
        for trace in begun.into_iter().chain(self.landed.remove(path)) {
            self.unindex(path, &trace);
        }
    }

    fn index(&mut self, path: &Path, trace: &Landed) {
        let file = trace.generation.file();
        if trace.generation.linked {
            self.linked.insert(file);
        }
        self.paths.entry(file).or_default().push(path.to_owned());
    }

    /// Takes away one entry: of a path that is there twice, the other stays.
    fn unindex(&mut self, path: &Path, trace: &Landed) {
        let file = trace.generation.file();
        if let Some(paths) = self.paths.get_mut(&file) {
            if let Some(place) = paths.iter().position(|other| other == path) {
                paths.swap_remove(place);
            }
            if paths.is_empty() {
                self.paths.remove(&file);
            }
        }
    }
}

fn length_of(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).expect("a length in memory fits 64 bits")
}

#[cfg(test)]
mod tests;
