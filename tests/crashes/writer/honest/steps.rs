//! The steps of `honest`: each makes one call, or looks.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};

use super::Danger;
use super::claims::{BLOCK, BLOCKS, Claim, ZEROS, block_bytes};
use super::settle::read;
use super::work::{Known, NAMES, Open, Step, Work};

impl Work {
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
        blocks: Range<usize>,
        write: u64,
        what: &str,
        call: impl FnOnce(&File) -> io::Result<()>,
    ) -> Step {
        let known = self.files.get_mut(&file).expect("it is known");
        known.is_changed = true;
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
        let known = self.files.get_mut(&file).expect("it is known");
        let blocks = &mut known.blocks;
        std::mem::take(&mut open.mine).into_iter().for_each(|(block, write)| blocks[block].confirm(write));
        // Who opened it after a loss is not told of what was lost before, but for its own name.
        let is_told = self.danger != Danger::Loss || open.is_older;
        if is_told {
            blocks.iter_mut().for_each(Claim::confirm_last);
            known.is_changed = false;
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
        self.files.insert(
            file,
            Known {
                blocks,
                inode: None,
                is_durable: false,
                is_changed: false,
                is_shaken: false,
                is_removed: false,
            },
        );
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
}
