//! Directory entries, packed as READDIR and READDIRPLUS want them.

use zerocopy::IntoBytes;

use crate::abi::{DirEntry, EntryOut};

/// Entries for one reply.
#[derive(Debug)]
pub struct Listing {
    bytes: Vec<u8>,
    limit: usize,
}

impl Listing {
    /// An empty one, for at most `limit` bytes, which the request says.
    pub fn new(limit: u32) -> Listing {
        let limit = limit as usize;
        Listing { bytes: Vec::with_capacity(limit.min(64 << 10)), limit }
    }

    /// Adds an entry of READDIR, after which reading goes on at `cookie`; `mode` is the inode's. False when it does not
    /// fit any more.
    pub fn add(&mut self, ino: u64, cookie: u64, name: &[u8], mode: u32) -> bool {
        self.push(&[], ino, cookie, name, mode)
    }

    /// Adds an entry of READDIRPLUS, which is a lookup too. False when it does not fit any more.
    pub fn add_with_attributes(&mut self, entry: &EntryOut, cookie: u64, name: &[u8]) -> bool {
        self.push(entry.as_bytes(), entry.nodeid, cookie, name, entry.attr.mode)
    }

    /// Adds an entry of READDIRPLUS that is none: as [`Listing::add`].
    pub fn add_without_attributes(&mut self, ino: u64, cookie: u64, name: &[u8], mode: u32) -> bool {
        // An inode 0 has the kernel look the name up when somebody wants to know more (`fuse_direntplus_link`).
        self.push(EntryOut::default().as_bytes(), ino, cookie, name, mode)
    }

    /// All that was added.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn push(&mut self, front: &[u8], ino: u64, off: u64, name: &[u8], mode: u32) -> bool {
        let Ok(namelen) = u32::try_from(name.len()) else { return false };
        let len = (front.len() + size_of::<DirEntry>() + name.len()).next_multiple_of(8);
        if self.bytes.len() + len > self.limit {
            return false;
        }
        let end = self.bytes.len() + len;
        self.bytes.extend_from_slice(front);
        // The kinds of readdir(3) are the upper bits of a mode.
        let kind = (mode >> 12) & 0o17;
        self.bytes.extend_from_slice(DirEntry { ino, off, namelen, kind }.as_bytes());
        self.bytes.extend_from_slice(name);
        self.bytes.resize(end, 0);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_padded_to_eight_bytes() {
        let mut listing = Listing::new(4096);
        assert!(listing.add(0x0102, 3, b"abc", 0o100_644));
        let golden = [
            2, 1, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 8, 0, 0, 0, b'a', b'b', b'c', 0, 0,
            0, 0, 0,
        ];
        assert_eq!(listing.as_bytes(), golden);
    }

    #[test]
    fn what_does_not_fit_is_left_for_the_next_request() {
        let mut listing = Listing::new(32 + 31);
        assert!(listing.add(1, 1, b"12345678", 0));
        assert!(!listing.add(2, 2, b"12345678", 0));
        assert_eq!(listing.as_bytes().len(), 32);
        let mut listing = Listing::new(160);
        assert!(listing.add_with_attributes(&EntryOut::default(), 1, b"12345678"));
        assert_eq!(listing.as_bytes().len(), 128 + 32);
    }
}
