//! What is looked at after a danger, and what other mounts show: [`Work`] beside what is there.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::super::{Failure, failed};
use super::Danger;
use super::claims::{BLOCK, BLOCKS, Claim, write_of};
use super::work::{NAMES, Step, Work};

/// The file through which a mount hears of losses.
const HEARS: &str = "hears-of-losses";

impl Work {
    /// The danger is over: everything is there as was confirmed, and as was answered if nothing was to be lost; no call
    /// fails any more.
    pub fn settle(&mut self) -> Step {
        if let Some(told) = self.hear_of_losses()? {
            told.sync_all().map_err(failed("fsync once more", &self.folder.join(HEARS)))?;
        }
        for known in self.files.values_mut() {
            known.is_shaken |= known.is_changed || !known.blocks.iter().all(Claim::is_durable);
        }
        let lost = self.settle_names()?;
        let shown: Vec<(PathBuf, u64)> = self.shown().collect();
        for (path, file) in shown {
            self.settle_blocks(&path, file)?;
        }
        for open in self.open.values_mut() {
            open.is_shaken = true;
            // Who opened it after a loss is not told of names that were lost before.
            let told = lost.iter().find(|(name, _)| open.is_older || open.made == Some(*name));
            open.owes = open.owes.take().or_else(|| told.map(|(_, what)| what.clone()));
        }
        self.danger = Danger::None;
        let named: BTreeSet<u64> =
            self.names.iter().flat_map(|name| name.may.iter().flatten().copied()).collect();
        self.files.retain(|file, _| named.contains(file) || self.open.contains_key(file));
        Ok(())
    }

    /// Compares what another mount shows at `mount`. Where reads `may_fail`, those that succeed.
    pub fn check(&mut self, mount: &Path, may_fail: bool) -> Step {
        let folder = mount.join(&self.name);
        for name in 0..NAMES {
            let found = self.file_of(&folder, name)?;
            if !self.names[name as usize].allows(found, false) {
                return Err(self.wrong_name(&folder, name, found));
            }
        }
        let shown: Vec<(PathBuf, u64)> = self.shown().collect();
        for (path, file) in shown {
            let path = folder.join(path.file_name().expect("it has a name"));
            match read(&path) {
                Ok(bytes) => self.compare(&path, file, &bytes)?,
                Err(_) if may_fail => self.refusals += 1,
                Err(error) => return Err(failed("read", &path)(error)),
            }
        }
        Ok(())
    }

    /// Has to do with every storage node, so that this mount knows of each loss, and the home knows what this mount has
    /// lost: once every mount did, handles that are opened have nothing to be told. If its own fsync told of one, its
    /// handle.
    pub fn hear_of_losses(&mut self) -> Result<Option<File>, Failure> {
        let path = self.folder.join(HEARS);
        let file = File::create(&path).map_err(failed("create", &path))?;
        file.write_all_at(&[1; BLOCKS * BLOCK], 0).map_err(failed("write", &path))?;
        let is_told = file.sync_all().is_err();
        self.refusals += u64::from(is_told);
        Ok(is_told.then_some(file))
    }

    fn shown(&self) -> impl Iterator<Item = (PathBuf, u64)> + '_ {
        let numbered = (0..NAMES).zip(&self.names);
        numbered.filter_map(|(name, claim)| Some((self.path(name), claim.last.flatten()?)))
    }

    /// Which of our files has this name in `folder`.
    fn file_of(&mut self, folder: &Path, name: u64) -> Result<Option<u64>, Failure> {
        let path = folder.join(format!("name-{name}"));
        let inode = match fs::symlink_metadata(&path) {
            Ok(metadata) => metadata.ino(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed("stat", &path)(error)),
        };
        let with = |inode| {
            let mut candidates = self.names[name as usize].may.iter().flatten();
            candidates.find(|file| self.files[file].inode == inode).copied()
        };
        // One whose creation failed has an inode that nobody told.
        let Some(file) = with(Some(inode)).or_else(|| with(None)) else {
            return Err(format!("{path:?} is inode {inode}, which it never was"));
        };
        self.files.get_mut(&file).expect("it is known").inode = Some(inode);
        Ok(Some(file))
    }

    fn wrong_name(&self, folder: &Path, name: u64, found: Option<u64>) -> Failure {
        let claim = &self.names[name as usize];
        format!("name-{name} in {folder:?} is file {found:?}; answered last, and possible: {claim:?}")
    }

    /// Looks which file each name has; tells which names lost what.
    fn settle_names(&mut self) -> Result<Vec<(u64, String)>, Failure> {
        let (folder, mut lost) = (self.folder.clone(), Vec::new());
        let mut shown: BTreeMap<u64, u64> = BTreeMap::new();
        for name in 0..NAMES {
            let found = self.file_of(&folder, name)?;
            let claim = &mut self.names[name as usize];
            let before = claim.clone();
            let settled = claim.settle(found);
            if settled.is_err() || !before.allows(found, self.danger == Danger::Loss) {
                self.names[name as usize] = before;
                return Err(self.wrong_name(&folder, name, found));
            }
            if settled == Ok(true) {
                self.losses += 1;
                lost.push((name, format!("name-{name} is {found:?}, though {:?} was answered", before.last)));
            }
            found.into_iter().for_each(|file| *shown.entry(file).or_default() += 1);
        }
        for (file, known) in &self.files {
            let times = shown.get(file).copied().unwrap_or_default();
            if times > 1 || (times == 0 && known.is_durable && !known.is_removed) {
                return Err(format!("file {file} of {folder:?} has {times} names, not 1"));
            }
        }
        Ok(lost)
    }

    /// Looks which write each block of a file shows.
    fn settle_blocks(&mut self, path: &Path, file: u64) -> Step {
        let bytes = read(path).map_err(failed("read", path))?;
        for (block, bytes) in bytes.chunks(BLOCK).enumerate() {
            let claim = &mut self.files.get_mut(&file).expect("it is known").blocks[block];
            let wrong = |why: &str| format!("{path:?} (file {file}), block {block}: {why}");
            let found = write_of(file, block, bytes).map_err(|why| wrong(&why))?;
            let before = claim.clone();
            let settled = claim.settle(found);
            if settled.is_err() || !before.allows(found, self.danger == Danger::Loss) {
                return Err(wrong(&format!("write {found} is there, but {before:?}")));
            }
            if settled == Ok(false) {
                continue;
            }
            self.losses += 1;
            if let Some(open) = self.open.get_mut(&file).filter(|open| open.is_told_of(block)) {
                open.owes =
                    Some(wrong(&format!("write {found} is there, though {:?} was answered", before.last)));
            }
        }
        Ok(())
    }

    /// Compares what was read with what the file may hold now.
    pub fn compare(&self, path: &Path, file: u64, bytes: &[u8]) -> Step {
        for (block, bytes) in bytes.chunks(BLOCK).enumerate() {
            let claim = &self.files[&file].blocks[block];
            let wrong = |why: &str| format!("{path:?} (file {file}), block {block}: {why}");
            let found = write_of(file, block, bytes).map_err(|why| wrong(&why))?;
            if !claim.allows(found, self.danger == Danger::Loss) {
                return Err(wrong(&format!("write {found} is there, but {claim:?}")));
            }
        }
        Ok(())
    }
}

/// All of a file that there may be; what is beyond its end is zeros.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = fs::read(path)?;
    if bytes.len() > BLOCKS * BLOCK {
        return Err(io::Error::other(format!("it has {} bytes, more than were ever written", bytes.len())));
    }
    bytes.resize(BLOCKS * BLOCK, 0);
    Ok(bytes)
}
