//! What was answered and what was confirmed: for a thing that changes, the values that it may have after a power loss.
//!
//! A file is told block by block, each 4 KiB: a block says which write of which file it is, or is zeros.
//!
//! **Invariant:** a value leaves [`Claim::may`] only when an fsync said that a later one is durable.

use super::Failure;

/// Bytes of a block.
pub const BLOCK: usize = 4096;

/// Blocks of a file at most: a few stripes of 64 KiB.
pub const BLOCKS: usize = 80;

/// The number of the write that makes zeros.
pub const ZEROS: u64 = 0;

/// One thing that changes.
#[derive(Clone, Debug)]
pub struct Claim<T> {
    /// What it is, as was answered last; `None` after a change that failed: it may have been made.
    pub last: Option<T>,
    /// What it may be after a power loss: what was confirmed last, and every change since.
    pub may: Vec<T>,
}

impl<T: Copy + PartialEq> Claim<T> {
    /// A thing that is durable as it is.
    pub fn durable(value: T) -> Claim<T> {
        Claim { last: Some(value), may: vec![value] }
    }

    /// A change is asked for.
    pub fn issue(&mut self, value: T) {
        self.last = None;
        if !self.may.contains(&value) {
            self.may.push(value);
        }
    }

    /// The last change was answered.
    pub fn answer(&mut self, value: T) {
        self.last = Some(value);
    }

    /// An fsync said that it is durable with this value.
    pub fn confirm(&mut self, value: T) {
        *self = Claim::durable(value);
    }

    /// An fsync said that it is durable as it is.
    pub fn confirm_last(&mut self) {
        if let Some(value) = self.last {
            self.confirm(value);
        }
    }

    /// Whether it is the same whatever was lost.
    pub fn is_durable(&self) -> bool {
        self.may.len() == 1
    }

    /// Whether this may be seen. While something may be lost, every value may that was not overtaken by an fsync.
    pub fn allows(&self, value: T, losing: bool) -> bool {
        match self.last {
            Some(last) if !losing => last == value,
            _ => self.may.contains(&value),
        }
    }

    /// It was looked at after a loss: whether what was answered is gone. `Err`: what was confirmed is.
    pub fn settle(&mut self, found: T) -> Result<bool, ()> {
        if !self.may.contains(&found) {
            return Err(());
        }
        Ok(self.last.replace(found).is_some_and(|last| last != found))
    }
}

/// The bytes of a block.
pub fn block_bytes(file: u64, block: usize, write: u64) -> Vec<u8> {
    if write == ZEROS {
        return vec![0; BLOCK];
    }
    let words = [write, file, block as u64, write ^ file.rotate_left(17) ^ (block as u64).rotate_left(40)];
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes.repeat(BLOCK / bytes.len())
}

/// Which write a block of this file shows.
pub fn write_of(file: u64, block: usize, bytes: &[u8]) -> Result<u64, Failure> {
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
    let write = word(0);
    if block_bytes(file, block, write) == bytes {
        return Ok(write);
    }
    let (other, place) = (word(8), word(16));
    if (other, place) != (file, block as u64) && block_bytes(other, place as usize, write) == bytes {
        return Err(format!("shows block {place} of file {other} (its write {write})"));
    }
    let whole = block_bytes(other, place as usize, write);
    let until = whole.iter().zip(bytes).take_while(|(one, other)| one == other).count();
    let then = word((until / 32 * 32).min(BLOCK - 32));
    Err(format!(
        "is torn: write {write} of file {other} (its block {place}) up to byte {until}, then write {then}"
    ))
}
