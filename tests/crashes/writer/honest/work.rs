//! What `honest` does: a folder of files, what may be in them, and the handles that it keeps.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::super::{Failure, failed};
use super::Danger;
use super::claims::{BLOCK, BLOCKS, Claim, ZEROS, block_bytes};
use super::settle::read;
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
    /// Somebody asked for its removal.
    pub is_removed: bool,
}

/// A handle.
pub struct Open {
    file: File,
    path: PathBuf,
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
    fn new(file: File, path: PathBuf, made: Option<u64>) -> Open {
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
    random: Random,
    pub danger: Danger,
    pub names: Vec<Claim<Option<u64>>>,
    pub files: BTreeMap<u64, Known>,
    pub open: BTreeMap<u64, Open>,
    /// Numbers files and writes.
    next: u64,
    steps: u64,
    syncs: u64,
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

    /// Does one thing and notes what came of it.
    pub fn step(&mut self) -> Step {
        self.steps += 1;
        match self.random.below(16) {
            0..=5 => self.write(),
            6..=8 => self.sync(),
            9 | 10 => self.create(),
            11 => self.unlink(),
            12 => self.rename(),
            13 => self.truncate(),
            14 => self.look(),
            _ => self.close(),
        }
    }

    /// The path of one of its names.
    pub fn path(&self, name: u64) -> PathBuf {
        self.folder.join(format!("name-{name}"))
    }

    /// A call failed. That is wrong in calm times, but for handles that were open before.
    fn refused(&mut self, file: Option<u64>, what: &str, path: &Path, error: io::Error) -> Step {
        self.refusals += 1;
        let is_shaken = file.and_then(|file| self.open.remove(&file)).is_some_and(|open| open.is_shaken);
        if self.danger == Danger::None && !is_shaken {
            return Err(failed(what, path)(error));
        }
        Ok(())
    }

    /// A handle, a new one if there are few.
    fn handle(&mut self) -> Result<Option<u64>, Failure> {
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
    fn certain(&self, name: u64) -> Option<Option<u64>> {
        let claim = &self.names[name as usize];
        claim.last.filter(|_| self.danger != Danger::Loss || claim.is_durable())
    }

    fn write(&mut self) -> Step {
        let Some(file) = self.handle()? else { return Ok(()) };
        let first = self.random.below(BLOCKS as u64) as usize;
        let last = BLOCKS.min(first + 1 + self.random.below(24) as usize);
        let write = self.number();
        let bytes: Vec<u8> = (first..last).flat_map(|block| block_bytes(file, block, write)).collect();
        self.change(file, first..last, write, "write", |open| {
            open.write_all_at(&bytes, (first * BLOCK) as u64)
        })
    }

    fn truncate(&mut self) -> Step {
        let Some(file) = self.handle()? else { return Ok(()) };
        let first = self.random.below(BLOCKS as u64) as usize;
        self.change(file, first..BLOCKS, ZEROS, "truncate", |open| open.set_len((first * BLOCK) as u64))
    }

    fn change(
        &mut self,
        file: u64,
        blocks: std::ops::Range<usize>,
        write: u64,
        what: &str,
        call: impl FnOnce(&File) -> io::Result<()>,
    ) -> Step {
        let known = self.files.get_mut(&file).expect("it is known");
        known.blocks[blocks.clone()].iter_mut().for_each(|claim| claim.issue(write));
        let open = self.open.get_mut(&file).expect("it is open");
        if let Err(error) = call(&open.file) {
            let path = open.path.clone();
            return self.refused(Some(file), what, &path, error);
        }
        open.mine.extend(blocks.clone().map(|block| (block, write)));
        known.blocks[blocks].iter_mut().for_each(|claim| claim.answer(write));
        Ok(())
    }

    fn sync(&mut self) -> Step {
        let count = self.open.len() as u64;
        let which = if count == 0 { return Ok(()) } else { self.random.below(count) };
        let file = *self.open.keys().nth(which as usize).expect("there are more");
        let open = self.open.get_mut(&file).expect("it is open");
        if let Err(error) = open.file.sync_all() {
            let path = open.path.clone();
            return self.refused(Some(file), "fsync", &path, error);
        }
        if let Some(owed) = &open.owes {
            return Err(format!("fsync of {:?} says OK, though: {owed}", open.path));
        }
        self.syncs += 1;
        self.confirm(file);
        Ok(())
    }

    /// An fsync of this file said OK.
    fn confirm(&mut self, file: u64) {
        let open = self.open.get_mut(&file).expect("it is open");
        let blocks = &mut self.files.get_mut(&file).expect("it is known").blocks;
        std::mem::take(&mut open.mine).into_iter().for_each(|(block, write)| blocks[block].confirm(write));
        // Who opened it after a loss is not told of what was lost before, but for its own name.
        let is_told = self.danger != Danger::Loss || open.is_older;
        if is_told {
            blocks.iter_mut().for_each(Claim::confirm_last);
        }
        let confirmed: Vec<u64> =
            if is_told { (0..NAMES).collect() } else { open.made.into_iter().collect() };
        for name in confirmed {
            let claim = &mut self.names[name as usize];
            claim.confirm_last();
            if let Some(file) = claim.last.flatten() {
                self.files.get_mut(&file).expect("it is known").is_durable = true;
            }
        }
    }

    fn create(&mut self) -> Step {
        let name = self.random.below(NAMES);
        if self.certain(name) != Some(None) {
            return Ok(());
        }
        let (file, path) = (self.number(), self.path(name));
        self.names[name as usize].issue(Some(file));
        let blocks = (0..BLOCKS).map(|_| Claim::durable(ZEROS)).collect();
        self.files.insert(file, Known { blocks, inode: None, is_durable: false, is_removed: false });
        let made = OpenOptions::new().read(true).write(true).create_new(true).open(&path);
        match made.and_then(|made| Ok((made.metadata()?.ino(), made))) {
            Ok((inode, made)) => {
                self.files.get_mut(&file).expect("it is new").inode = Some(inode);
                self.names[name as usize].answer(Some(file));
                self.open.insert(file, Open::new(made, path, Some(name)));
                Ok(())
            }
            Err(error) => self.refused(None, "create", &path, error),
        }
    }

    fn unlink(&mut self) -> Step {
        let name = self.random.below(NAMES);
        let Some(file) = self.certain(name).flatten() else { return Ok(()) };
        let path = self.path(name);
        self.files.get_mut(&file).expect("it is known").is_removed = true;
        self.names[name as usize].issue(None);
        if let Err(error) = fs::remove_file(&path) {
            return self.refused(None, "unlink", &path, error);
        }
        self.names[name as usize].answer(None);
        self.open.remove(&file);
        Ok(())
    }

    fn rename(&mut self) -> Step {
        let (from, to) = (self.random.below(NAMES), self.random.below(NAMES));
        let Some(file) = self.certain(from).flatten() else { return Ok(()) };
        if self.certain(to) != Some(None) {
            return Ok(());
        }
        let (old, new) = (self.path(from), self.path(to));
        self.names[from as usize].issue(None);
        self.names[to as usize].issue(Some(file));
        if let Err(error) = fs::rename(&old, &new) {
            return self.refused(None, "rename", &old, error);
        }
        self.names[from as usize].answer(None);
        self.names[to as usize].answer(Some(file));
        if let Some(open) = self.open.get_mut(&file) {
            (open.path, open.made) = (new, open.made.map(|_| to));
        }
        Ok(())
    }

    fn look(&mut self) -> Step {
        let name = self.random.below(NAMES);
        let Some(file) = self.certain(name).flatten() else { return Ok(()) };
        let path = self.path(name);
        match read(&path) {
            Ok(bytes) => self.compare(&path, file, &bytes),
            Err(error) => self.refused(None, "read", &path, error),
        }
    }

    fn close(&mut self) -> Step {
        let last = self.open.keys().next_back().copied();
        last.and_then(|file| self.open.remove(&file));
        Ok(())
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}
