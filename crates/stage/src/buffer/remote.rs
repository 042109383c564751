//! A real buffer: the client library, call by call.

use std::ops::Range;
use std::os::fd::OwnedFd;

use client::Client;
use wire::data::{Attr, Creator, DirEntry, FileKind, SetAttr, Time};

use super::Namespace;
use crate::tree::{Result, Usage};

impl Namespace for Client {
    fn lookup(&self, parent: u64, name: &[u8]) -> Result<Attr> {
        Client::lookup(self, parent, name)
    }

    fn getattr(&self, ino: u64) -> Result<Attr> {
        Client::getattr(self, ino)
    }

    fn setattr(&self, ino: u64, set: &SetAttr) -> Result<Attr> {
        Client::setattr(self, ino, set)
    }

    fn mkdir(&self, parent: u64, name: &[u8], mode: u32, creator: &Creator) -> Result<Attr> {
        Client::mkdir(self, parent, name, mode, creator)
    }

    fn mknod(&self, parent: u64, name: &[u8], kind: FileKind, rdev: u64, creator: &Creator) -> Result<Attr> {
        Client::mknod(self, parent, name, kind, 0o600, rdev, creator)
    }

    fn symlink(&self, parent: u64, name: &[u8], target: &[u8], creator: &Creator) -> Result<Attr> {
        Client::symlink(self, parent, name, target, creator)
    }

    fn link(&self, ino: u64, parent: u64, name: &[u8]) -> Result<Attr> {
        Client::link(self, ino, parent, name)
    }

    fn create(&self, parent: u64, name: &[u8], mode: u32, creator: &Creator) -> Result<Attr> {
        Client::create(self, parent, name, mode, creator)
    }

    fn open(&self, ino: u64, write: bool) -> Result<()> {
        Client::open(self, ino, write).map(drop)
    }

    fn open_all(&self, inos: &[u64]) -> Vec<Result<Attr>> {
        Client::open_all(self, inos)
    }

    fn read_all(&self, files: &[(u64, usize)]) -> Vec<Option<Vec<u8>>> {
        Client::read_all(self, files)
    }

    fn survey(&self, inos: &[u64]) -> Vec<client::Survey> {
        Client::survey(self, inos)
    }

    fn close(&self, ino: u64, write: bool) -> Result<()> {
        Client::close(self, ino, write)
    }

    fn read(&self, ino: u64, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        Client::read(self, ino, offset, buffer)
    }

    fn write(&self, ino: u64, offset: u64, bytes: &[u8]) -> Result<()> {
        Client::write(self, ino, offset, bytes)
    }

    fn next_data(&self, ino: u64, offset: u64) -> Result<Option<Range<u64>>> {
        Client::next_data(self, ino, offset)
    }

    fn next_hole(&self, ino: u64, offset: u64, size: u64) -> Result<u64> {
        Client::next_hole(self, ino, offset, size)
    }

    fn fsync(&self, ino: u64) -> Result<()> {
        Client::fsync(self, ino)
    }

    fn fsync_many(&self, inos: &[u64]) -> Result<()> {
        Client::fsync_many(self, inos)
    }

    fn sync_metadata(&self) -> Result<()> {
        Client::sync_metadata(self)
    }

    fn place(&self, ino: u64, offset: u64, len: u64) -> Option<(u32, u64)> {
        Client::place(self, ino, offset, len)
    }

    fn object(&self, ino: u64, fragment: u32) -> Result<OwnedFd> {
        Client::object_on(self, ino, fragment)
    }

    fn wrote(&self, ino: u64, end: u64, mtime: Time) {
        Client::wrote(self, ino, end, mtime);
    }

    fn is_written(&self, ino: u64) -> Result<bool> {
        Client::is_written(self, ino)
    }

    fn unlink(&self, parent: u64, name: &[u8]) -> Result<()> {
        Client::unlink(self, parent, name)
    }

    fn rmdir(&self, parent: u64, name: &[u8]) -> Result<()> {
        Client::rmdir(self, parent, name)
    }

    fn rename(&self, parent: u64, name: &[u8], new_parent: u64, new_name: &[u8]) -> Result<()> {
        Client::rename(self, parent, name, new_parent, new_name)
    }

    fn readdir(&self, ino: u64, cookie: u64) -> Result<Vec<DirEntry>> {
        Client::readdir(self, ino, cookie)
    }

    fn readlink(&self, ino: u64) -> Result<Vec<u8>> {
        Client::readlink(self, ino)
    }

    fn getxattr(&self, ino: u64, name: &[u8]) -> Result<Vec<u8>> {
        Client::getxattr(self, ino, name)
    }

    fn setxattr(&self, ino: u64, name: &[u8], value: &[u8]) -> Result<()> {
        Client::setxattr(self, ino, name, value)
    }

    fn listxattr(&self, ino: u64) -> Result<Vec<Vec<u8>>> {
        Client::listxattr(self, ino)
    }

    fn usage(&self) -> Result<Usage> {
        let usage = Client::usage(self)?;
        Ok(Usage { capacity_bytes: usage.capacity, used_bytes: usage.used })
    }

    fn unverified(&self) -> Result<Vec<(u64, u32)>> {
        Client::unverified(self)
    }
}
