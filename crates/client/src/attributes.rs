//! What is asked of an inode as a whole.

use rustix::io::Errno;
use wire::data::{Attr, NAME_BYTES_MAX, Request};

use super::{Client, Result};

impl Client {
    /// The inode behind a name.
    pub fn lookup(&self, parent: u64, name: &[u8]) -> Result<Attr> {
        if name.len() <= NAME_BYTES_MAX && self.known.is_absent(parent, name) {
            return Err(Errno::NOENT);
        }
        let found = self.inode(Request::Lookup { parent, name: name.to_vec() })?;
        self.with_live_size(found)
    }

    /// An inode's attributes.
    pub fn getattr(&self, ino: u64) -> Result<Attr> {
        let asked = self.known.moment();
        if let Some(attr) = self.known.attr(ino) {
            return Ok(attr);
        }
        let found = self.inode(Request::GetAttr { ino })?;
        self.known.learn(&found.attr, asked);
        self.with_live_size(found)
    }

    /// An inode's permissions, which only the home shard is asked for: no node needs to say where the file ends.
    pub fn mode(&self, ino: u64) -> Result<u32> {
        if let Some(attr) = self.known.attr(ino) {
            return Ok(attr.mode);
        }
        Ok(self.inode(Request::GetAttr { ino })?.attr.mode)
    }
}
