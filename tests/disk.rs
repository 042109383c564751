//! Disks for storage nodes alone, which a test fills, or cuts off as a power loss does. Needs root.
//!
//! **Invariant:** what is mounted for a disk is unmounted when it is dropped.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use rustix::fs::FallocateFlags;
use rustix::mount::{MountFlags, UnmountFlags};
use tempfile::TempDir;

use crate::processes;

/// A disk of the storage nodes' own.
pub struct Disk {
    base: TempDir,
    /// How often the power failed.
    losses: u32,
}

impl Disk {
    /// XFS on an image.
    pub fn xfs() -> Disk {
        Disk::formatted(2 << 30, Command::new("mkfs.xfs").arg("-q"))
    }

    /// ext4 on an image.
    pub fn ext4() -> Disk {
        Disk::formatted(2 << 30, Command::new("mkfs.ext4").arg("-qF"))
    }

    fn formatted(bytes: u64, format: &mut Command) -> Disk {
        let disk = Disk::empty();
        let image = disk.image();
        fs::File::create(&image).and_then(|file| file.set_len(bytes)).expect("the folder is ours");
        run(format.arg(&image));
        disk.attach();
        disk
    }

    /// ext4 without a journal, which promises 2 GiB and has room for `bytes`: what is more fails when it is written
    /// back. Its bitmaps and inodes have their room from the start, so that only what files hold is lost.
    pub fn sick(bytes: u64) -> Disk {
        let disk = Disk::tmpfs(bytes);
        let image = disk.folder().join("image");
        fs::File::create(&image).and_then(|file| file.set_len(2 << 30)).expect("it is sparse");
        let features = "^has_journal,^metadata_csum,^uninit_bg";
        run(Command::new("mkfs.ext4").args(["-q", "-O", features, "-N", "4096"]).arg(&image));
        let over = disk.folder().join("sick");
        fs::create_dir(&over).expect("the disk is ours");
        run(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(over));
        disk
    }

    /// A sick one has room for all that it promises.
    pub fn recover(&self) {
        run(Command::new("mount").args(["-o", "remount,size=3g"]).arg(self.folder()));
    }

    /// Memory.
    pub fn tmpfs(bytes: u64) -> Disk {
        let disk = Disk::empty();
        let size = std::ffi::CString::new(format!("size={bytes}")).expect("no zero bytes");
        rustix::mount::mount("tmpfs", disk.folder(), "tmpfs", MountFlags::empty(), Some(size.as_c_str()))
            .expect("we are root");
        disk
    }

    fn empty() -> Disk {
        let base = tempfile::Builder::new().prefix("fbd").tempdir().expect("temporary folders are writable");
        let disk = Disk { base, losses: 0 };
        fs::create_dir(disk.folder()).expect("the folder is ours");
        disk
    }

    fn image(&self) -> PathBuf {
        self.base.path().join(format!("image-{}", self.losses))
    }

    /// Where it is mounted.
    pub fn folder(&self) -> PathBuf {
        self.base.path().join("disk")
    }

    fn attach(&self) {
        // The dead one, which this is a copy of, may still be there; XFS would refuse a second with its number.
        let kind = Command::new("blkid").args(["-o", "value", "-s", "TYPE"]).arg(self.image()).output();
        let is_xfs = kind.expect("blkid is installed").stdout.starts_with(b"xfs");
        let options = if is_xfs { "loop,nouuid" } else { "loop" };
        run(Command::new("mount").args(["-o", options]).arg(self.image()).arg(self.folder()));
    }

    /// From here on it can only be read: what the kernel makes of a file system that it found to be damaged. ext4 only.
    pub fn become_read_only(&self) {
        run(Command::new("mount").args(["-o", "remount,abort"]).arg(self.folder()));
    }

    /// Leaves no room: takes what is left, to the last block.
    pub fn fill(&self) {
        let ballast = fs::File::options().create(true).append(true).open(self.folder().join("ballast"));
        let ballast = ballast.expect("a file without bytes fits, the first time");
        let (mut end, mut step) = (ballast.metadata().expect("it is open").len(), 1 << 30);
        while step >= 4096 {
            match rustix::fs::fallocate(&ballast, FallocateFlags::empty(), end, step) {
                Ok(()) => end += step,
                Err(_) => step /= 2,
            }
        }
        ballast.sync_all().expect("the disk works");
    }

    /// What is on it now stays, whatever happens.
    pub fn sync(&self) {
        let folder = fs::File::open(self.folder()).expect("the folder is ours");
        rustix::fs::syncfs(folder).expect("the disk is well");
    }

    /// From here on nothing reaches the disk any more, and what was not synced is gone.
    pub fn lose_power(&self) {
        run(Command::new("xfs_io").args(["-x", "-c", "shutdown"]).arg(self.folder()));
    }

    /// The machine is on again, with what is on the disk: a copy of that, where somebody (another mount namespace of
    /// this machine) holds on to the dead file system, which the image would then be found to be.
    pub fn restore(&mut self) {
        self.detach();
        let dead = self.image();
        if self.is_held() {
            self.losses += 1;
            run(Command::new("cp").arg("--sparse=always").arg(dead).arg(self.image()));
        }
        self.attach();
    }

    fn is_held(&self) -> bool {
        let devices = Command::new("losetup").arg("--associated").arg(self.image()).output();
        !devices.expect("losetup is installed").stdout.is_empty()
    }

    fn detach(&self) {
        for point in processes::mounts_of(&self.folder()).iter().rev() {
            let _gone = rustix::mount::unmount(point, UnmountFlags::DETACH);
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        self.detach();
    }
}

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("start {command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}
