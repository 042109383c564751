//! Disks that are full, or that can only be read.

use std::fs;

use rustix::fs::{FallocateFlags, fallocate, statvfs};

use crate::ground::Ground;

/// So long the load works on a bad disk, at most, milliseconds.
const BAD_MAX_MS: u64 = 400;

impl Ground {
    /// Takes all room of a storage node's disk, and gives it back.
    #[track_caller]
    pub fn fill_disk(&mut self) {
        let n = self.any_storage();
        let folder = self.disks[n].folder();
        let ballast = folder.join("ballast");
        let file = fs::File::create(&ballast).expect("there is room");
        let mut end = 0;
        // Metadata takes of the last blocks: smaller and smaller pieces, until not even a block fits.
        for piece in [64 << 20, 1 << 20, 4096] {
            while fallocate(&file, FallocateFlags::empty(), end, piece).is_ok() {
                end += piece;
            }
        }
        let free = statvfs(&folder).expect("it is mounted").f_bavail;
        assert!(free < 1024, "{free} blocks are left of a disk that is to be full");
        self.pause(BAD_MAX_MS);
        drop(file);
        fs::remove_file(&ballast).expect("the disk is ours");
    }

    /// A storage node's disk can only be read; then it is mounted anew.
    #[track_caller]
    pub fn make_read_only(&mut self) {
        let n = self.any_storage();
        self.disks[n].become_read_only();
        self.pause(BAD_MAX_MS);
        self.site.storage[n].kill();
        self.disks[n].restore();
        self.site.storage[n].start();
    }
}
