//! A disk in memory that fails and loses power at any operation.
//!
//! It keeps what the kernel would hold in memory apart from what is durable. A power loss leaves of what was not synced
//! any part: of a file any pages, of the names in the folder the first few changes. A sync that fails drops what it was
//! for, as Linux does, and says so once.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

use rustix::io::Errno;

use super::super::log::format::PAGE_BYTES;
use crate::log_folder::{Folder, LogFile};

/// What the disk does at one of its operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// It fails once, with this errno; what it should have done may be done in part.
    Fails(Errno),
    /// Nothing works from then on.
    PowerLoss,
}

#[derive(Clone, Debug, Default)]
struct Inode {
    /// What the kernel has.
    bytes: Vec<u8>,
    durable: Vec<u8>,
    /// Changes since, in order.
    pending: Vec<Change>,
}

#[derive(Clone, Debug)]
enum Change {
    Page(usize, Vec<u8>),
    Length(usize),
}

#[derive(Clone, Debug)]
enum Naming {
    Create(&'static str, usize),
    Replace(String, String),
    Remove(String),
}

#[derive(Clone, Debug, Default)]
pub struct Disk {
    inodes: Vec<Inode>,
    names: BTreeMap<String, usize>,
    durable_names: BTreeMap<String, usize>,
    pending_names: Vec<Naming>,
    pub operations: u64,
    pub trouble: Option<(u64, Trouble)>,
    pub is_dead: bool,
    random: u64,
}

impl Disk {
    /// An empty one, with trouble at the operation of this number.
    pub fn new(random: u64, trouble: Option<(u64, Trouble)>) -> Disk {
        Disk { random, trouble, ..Disk::default() }
    }

    fn draw(&mut self, below: u64) -> u64 {
        // xorshift64*: Vigna, "An experimental exploration of Marsaglia's xorshift generators, scrambled".
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        (self.random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % below
    }

    /// Counts an operation. Whether it is to fail, and then whether it does its work all the same.
    fn operate(&mut self) -> Result<(), (Errno, bool)> {
        if self.is_dead {
            return Err((Errno::IO, false));
        }
        self.operations += 1;
        match self.trouble {
            Some((at, Trouble::Fails(errno))) if at == self.operations => {
                let works = self.draw(2) == 0 && errno == Errno::IO;
                Err((errno, works))
            }
            Some((at, Trouble::PowerLoss)) if at == self.operations => {
                self.is_dead = true;
                Err((Errno::IO, false))
            }
            _ => Ok(()),
        }
    }

    fn name(names: &mut BTreeMap<String, usize>, naming: &Naming) {
        match naming {
            Naming::Create(name, inode) => drop(names.insert((*name).to_owned(), *inode)),
            Naming::Replace(from, to) => {
                if let Some(inode) = names.remove(from) {
                    names.insert(to.clone(), inode);
                }
            }
            Naming::Remove(name) => drop(names.remove(name)),
        }
    }

    fn change_names(&mut self, naming: Naming) {
        Disk::name(&mut self.names, &naming);
        self.pending_names.push(naming);
    }

    /// What the disk has after the power was lost.
    pub fn after_power_loss(&self) -> Disk {
        let mut after = Disk { trouble: None, is_dead: false, operations: 0, ..self.clone() };
        let kept = after.draw(after.pending_names.len() as u64 + 1) as usize;
        for naming in after.pending_names.drain(..).take(kept) {
            Disk::name(&mut after.durable_names, &naming);
        }
        after.names.clone_from(&after.durable_names);
        for at in 0..after.inodes.len() {
            let mut inode = std::mem::take(&mut after.inodes[at]);
            let pending = std::mem::take(&mut inode.pending);
            let reached = after.reached(&pending);
            for (change, _) in pending.iter().zip(&reached).filter(|(_, reached)| **reached) {
                apply(&mut inode.durable, change);
            }
            inode.bytes.clone_from(&inode.durable);
            after.inodes[at] = inode;
        }
        after
    }

    /// Which changes of a file have reached the disk: of each page those up to some moment, as the kernel writes whole
    /// pages; of lengths the first few, and nothing that came after one that did not.
    fn reached(&mut self, pending: &[Change]) -> Vec<bool> {
        let keeps = self.draw(3);
        let mut last: BTreeMap<usize, usize> = BTreeMap::new();
        let mut is_cut = false;
        let mut moments: BTreeMap<usize, usize> = BTreeMap::new();
        for (at, change) in pending.iter().enumerate() {
            if let Change::Page(offset, _) = change {
                last.insert(offset / PAGE_BYTES, at);
            }
        }
        for (page, last) in last {
            // All of it, nothing of it, or up to any moment.
            let moment = [last + 1, 0, self.draw(last as u64 + 2) as usize][keeps as usize];
            moments.insert(page, moment);
        }
        let mut reached = Vec::new();
        for (at, change) in pending.iter().enumerate() {
            reached.push(match change {
                Change::Page(offset, _) => !is_cut && at < moments[&(offset / PAGE_BYTES)],
                Change::Length(_) => {
                    is_cut = is_cut || keeps == 1 || (keeps == 2 && self.draw(2) == 0);
                    !is_cut
                }
            });
        }
        reached
    }

    /// What it has after the process was killed.
    pub fn after_kill(&self) -> Disk {
        Disk { trouble: None, operations: 0, ..self.clone() }
    }
}

fn apply(bytes: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Page(offset, page) => {
            bytes.resize(bytes.len().max(offset + page.len()), 0);
            bytes[*offset..offset + page.len()].copy_from_slice(page);
        }
        Change::Length(len) => bytes.resize(*len, 0),
    }
}

#[derive(Clone, Debug)]
pub struct SimFolder(Arc<Mutex<Disk>>);

impl SimFolder {
    pub fn over(disk: Disk) -> SimFolder {
        SimFolder(Arc::new(Mutex::new(disk)))
    }

    pub fn disk(&self) -> MutexGuard<'_, Disk> {
        self.0.lock().unwrap()
    }

    fn naming(&self, naming: Naming) -> io::Result<()> {
        let mut disk = self.disk();
        let result = disk.operate();
        if !matches!(result, Err((_, false))) {
            disk.change_names(naming);
        }
        result.map_err(|(errno, _)| errno.into())
    }
}

impl Folder for SimFolder {
    fn open(&self, name: &str) -> io::Result<Arc<dyn LogFile>> {
        let mut disk = self.disk();
        disk.operate().map_err(|(errno, _)| errno)?;
        let inode = *disk.names.get(name).ok_or(Errno::NOENT)?;
        Ok(Arc::new(SimFile { disk: self.0.clone(), inode }))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn LogFile>> {
        let mut disk = self.disk();
        disk.operate().map_err(|(errno, _)| errno)?;
        let inode = disk.inodes.len();
        disk.inodes.push(Inode::default());
        let name = ["meta.log.new", "meta.mark"].into_iter().find(|known| *known == name).unwrap();
        disk.change_names(Naming::Create(name, inode));
        Ok(Arc::new(SimFile { disk: self.0.clone(), inode }))
    }

    fn publish(&self, from: &str, to: &str) -> io::Result<()> {
        if self.disk().names.contains_key(to) {
            return Err(Errno::EXIST.into());
        }
        self.replace(from, to)
    }

    fn replace(&self, from: &str, to: &str) -> io::Result<()> {
        self.naming(Naming::Replace(from.to_owned(), to.to_owned()))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        if !self.disk().names.contains_key(name) {
            return Err(Errno::NOENT.into());
        }
        self.naming(Naming::Remove(name.to_owned()))
    }

    fn sync(&self) -> io::Result<()> {
        let mut disk = self.disk();
        let result = disk.operate();
        let pending = std::mem::take(&mut disk.pending_names);
        if result.is_ok() {
            pending.iter().for_each(|naming| Disk::name(&mut disk.durable_names, naming));
        } else {
            disk.pending_names = pending;
        }
        result.map_err(|(errno, _)| errno.into())
    }

    fn path_of(&self, name: &str) -> PathBuf {
        PathBuf::from(name)
    }
}

#[derive(Debug)]
struct SimFile {
    disk: Arc<Mutex<Disk>>,
    inode: usize,
}

impl SimFile {
    fn change(&self, changes: Vec<Change>) -> io::Result<()> {
        let mut disk = self.disk.lock().unwrap();
        let result = disk.operate();
        let done = match result {
            Ok(()) => changes.len(),
            Err((_, true)) => disk.draw(changes.len() as u64 + 1) as usize,
            Err((_, false)) => 0,
        };
        let inode = &mut disk.inodes[self.inode];
        for change in changes.into_iter().take(done) {
            apply(&mut inode.bytes, &change);
            inode.pending.push(change);
        }
        result.map_err(|(errno, _)| errno.into())
    }
}

impl LogFile for SimFile {
    fn len(&self) -> io::Result<u64> {
        let mut disk = self.disk.lock().unwrap();
        disk.operate().map_err(|(errno, _)| errno)?;
        Ok(disk.inodes[self.inode].bytes.len() as u64)
    }

    fn read_at(&self, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        let mut disk = self.disk.lock().unwrap();
        disk.operate().map_err(|(errno, _)| errno)?;
        let bytes = &disk.inodes[self.inode].bytes;
        let begin = bytes.len().min(offset as usize);
        Ok(bytes[begin..bytes.len().min(begin.saturating_add(len))].to_vec())
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut changes = Vec::new();
        let (mut at, mut rest) = (offset as usize, bytes);
        while !rest.is_empty() {
            let (page, after) = rest.split_at(rest.len().min(PAGE_BYTES - at % PAGE_BYTES));
            changes.push(Change::Page(at, page.to_vec()));
            (at, rest) = (at + page.len(), after);
        }
        self.change(changes)
    }

    fn space(&self) -> io::Result<u64> {
        Ok(0)
    }

    fn reserve(&self, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.change(vec![Change::Length(len as usize)])
    }

    fn sync(&self) -> io::Result<()> {
        let mut disk = self.disk.lock().unwrap();
        let result = disk.operate();
        if disk.is_dead {
            return Err(Errno::IO.into());
        }
        let inode = &mut disk.inodes[self.inode];
        // What a failed sync could not write is clean for the kernel, and not on the disk.
        inode.pending.clear();
        if result.is_ok() {
            inode.durable.clone_from(&inode.bytes);
        }
        result.map_err(|(errno, _)| errno.into())
    }
}
