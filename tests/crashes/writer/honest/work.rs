//! What `honest` knows: a folder of files, what may be in them, and the handles that it keeps.
//!
//! **Invariant:** a change is noted as issued before its call, and as answered only after that succeeded.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::super::{Failure, failed};
use super::Danger;
use super::claims::Claim;
use tests::random::Random;

/// Names that files may have.
pub const NAMES: u64 = 16;

/// Files that are kept open.
const OPEN_MAX: usize = 8;

/// One file, also after its end.
pub struct Known {
    pub blocks: Vec<Claim<u64>>,
    /// Its inode, unless the call that made it failed.
    pub inode: Option<u64>,
    /// Its creation was confirmed.
    pub is_durable: bool,
    /// It was changed, perhaps into what it was, since an fsync confirmed all of it.
    pub is_changed: bool,
    /// What was written to it may have been lost, and no fsync of it said so yet: the next may, through any handle.
    pub is_shaken: bool,
    /// Somebody asked for its removal.
    pub is_removed: bool,
}

/// A handle.
pub struct Open {
    pub file: File,
    pub path: PathBuf,
    /// What was written through it since its last fsync: the last write to each block.
    pub mine: BTreeMap<usize, u64>,
    /// The name that was made with it.
    pub made: Option<u64>,
    /// It was open before the danger.
    pub is_older: bool,
    /// It was open in a danger: calls on it may fail for what happened then.
    pub is_shaken: bool,
    /// What was lost under it: its next fsync must fail.
    pub owes: Option<String>,
}

impl Open {
    pub fn new(file: File, path: PathBuf, made: Option<u64>) -> Open {
        let mine = BTreeMap::new();
        Open { file, path, mine, made, is_older: false, is_shaken: false, owes: None }
    }

    /// Whether its next fsync must say that this block was lost: as it wrote it, or was open when that happened.
    pub fn is_told_of(&self, block: usize) -> bool {
        self.is_older || self.mine.contains_key(&block)
    }
}

/// The folder.
pub struct Work {
    pub folder: PathBuf,
    pub name: String,
    pub random: Random,
    pub danger: Danger,
    pub names: Vec<Claim<Option<u64>>>,
    pub files: BTreeMap<u64, Known>,
    pub open: BTreeMap<u64, Open>,
    /// Numbers files and writes.
    next: u64,
    pub steps: u64,
    pub syncs: u64,
    pub refusals: u64,
    pub losses: u64,
}

/// How a step ended, if nothing is wrong.
pub type Step = Result<(), Failure>;

impl Work {
    /// Makes the folder, durably.
    pub fn make(mount: &Path, number: u64, seed: u64) -> Result<Work, Failure> {
        let name = format!("honest-{number}");
        let folder = mount.join(&name);
        fs::create_dir(&folder).map_err(failed("mkdir", &folder))?;
        File::open(&folder).and_then(|file| file.sync_all()).map_err(failed("fsync", &folder))?;
        Ok(Work {
            folder,
            name,
            random: Random::new(seed),
            danger: Danger::None,
            names: (0..NAMES).map(|_| Claim::durable(None)).collect(),
            files: BTreeMap::new(),
            open: BTreeMap::new(),
            next: number << 40 | 1,
            steps: 0,
            syncs: 0,
            refusals: 0,
            losses: 0,
        })
    }

    /// Steps, fsyncs that succeeded, calls that failed, changes that were lost.
    pub fn counts(&self) -> String {
        format!("{} {} {} {}", self.steps, self.syncs, self.refusals, self.losses)
    }

    /// From now on this may happen.
    pub fn expect(&mut self, danger: Danger) {
        self.danger = danger;
        self.open.values_mut().for_each(|open| open.is_older = true);
    }

    /// The path of one of its names.
    pub fn path(&self, name: u64) -> PathBuf {
        self.folder.join(format!("name-{name}"))
    }

    /// A call failed. That is wrong in calm times, but for handles that were open before.
    pub fn refused(&mut self, file: Option<u64>, what: &str, path: &Path, error: io::Error) -> Step {
        self.refusals += 1;
        let handle = file.and_then(|file| self.open.remove(&file)).is_some_and(|open| open.is_shaken);
        let known = file.and_then(|file| self.files.get_mut(&file));
        let is_shaken = known.is_some_and(|known| std::mem::take(&mut known.is_shaken)) || handle;
        if self.danger == Danger::None && !is_shaken {
            return Err(failed(what, path)(error));
        }
        Ok(())
    }

    /// A handle, a new one if there are few.
    pub fn handle(&mut self) -> Result<Option<u64>, Failure> {
        let count = self.open.len() as u64;
        if count > 0 && (count >= OPEN_MAX as u64 || self.random.below(3) > 0) {
            let which = self.random.below(count) as usize;
            return Ok(self.open.keys().nth(which).copied());
        }
        let name = self.random.below(NAMES);
        let Some(file) = self.certain(name).flatten() else { return Ok(None) };
        if self.open.contains_key(&file) {
            return Ok(Some(file));
        }
        let path = self.path(name);
        let opened = OpenOptions::new().read(true).write(true).open(&path);
        match opened.and_then(|opened| Ok((opened.metadata()?.ino(), opened))) {
            Ok((inode, opened)) if self.files[&file].inode == Some(inode) => {
                self.open.insert(file, Open::new(opened, path, None));
                Ok(Some(file))
            }
            Ok((inode, _)) => Err(format!("{path:?} is inode {inode}, not {:?}", self.files[&file].inode)),
            Err(error) => self.refused(None, "open", &path, error).map(|()| None),
        }
    }

    /// The file that a name has, if that is certain.
    pub fn certain(&self, name: u64) -> Option<Option<u64>> {
        let claim = &self.names[name as usize];
        claim.last.filter(|_| self.danger != Danger::Loss || claim.is_durable())
    }

    /// A number that neither a file nor a write has.
    pub fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}
