//! XFS on a logical volume, `GROUP/forebay-ID`: no second file system and no thread of the kernel's between a program
//! and the flash.

use std::path::{Path, PathBuf};
use std::process::Command;

use store::image::{self, VolumeError, tool};

use super::{Backing, Room};

#[derive(Debug)]
pub(super) struct LogicalVolumes {
    /// The volume group.
    pub(super) group: String,
}

impl LogicalVolumes {
    /// LVM's name of a volume.
    fn name(&self, id: &str) -> String {
        format!("{}/forebay-{id}", self.group)
    }

    fn device(&self, id: &str) -> PathBuf {
        Path::new("/dev").join(self.name(id))
    }

    /// Runs one of LVM's tools on the group or a volume of it.
    fn lvm(&self, name: &'static str, arguments: &[&str]) -> Result<String, VolumeError> {
        tool(name, Command::new(name).arg("--quiet").args(arguments), Path::new(&self.group))
    }

    fn exists(&self, id: &str) -> Result<bool, VolumeError> {
        let this = format!("lv_name=forebay-{id}");
        let found =
            self.lvm("lvs", &["--noheadings", "--options", "lv_name", "--select", &this, &self.group])?;
        Ok(!found.trim().is_empty())
    }
}

impl Backing for LogicalVolumes {
    fn open(&self) -> Result<(), VolumeError> {
        // Fails where the kernel has no device mapper.
        tool("dmsetup", Command::new("dmsetup").arg("version"), Path::new(&self.group))?;
        self.room().map(drop)
    }

    fn room(&self) -> Result<Room, VolumeError> {
        let options = ["--noheadings", "--nosuffix", "--units", "b", "--options", "vg_free,vg_extent_size"];
        let said = self.lvm("vgs", &[&options[..], &[&self.group]].concat())?;
        let mut numbers = said.split_whitespace().map(str::parse::<u64>);
        match (numbers.next(), numbers.next()) {
            (Some(Ok(free_bytes)), Some(Ok(grain_bytes @ 1..))) => Ok(Room { free_bytes, grain_bytes }),
            _ => Err(VolumeError::Tool { tool: "vgs", path: PathBuf::from(&self.group), output: said }),
        }
    }

    fn create(&self, id: &str, bytes: u64) -> Result<(), VolumeError> {
        let (size, name) = (format!("{bytes}b"), format!("forebay-{id}"));
        // Signatures of whatever had the space before are wiped, which lvcreate would ask about.
        let arguments = ["--yes", "--wipesignatures", "y", "--size", &size, "--name", &name, &self.group];
        self.lvm("lvcreate", &arguments)?;
        image::format(&self.device(id))
    }

    fn mount(&self, id: &str, mountpoint: &Path) -> Result<(), VolumeError> {
        // After a reboot the site may leave activation to who needs the volume.
        self.lvm("lvchange", &["--activate", "y", &self.name(id)])?;
        image::mount_device(&self.device(id), mountpoint)
    }

    fn remove(&self, id: &str) -> Result<(), VolumeError> {
        if !self.exists(id)? {
            return Ok(());
        }
        // Refused as long as a process that outlived its job has a file in it open.
        self.lvm("lvremove", &["--force", &self.name(id)]).map(drop)
    }
}
