//! A folder whose bytes the kernel counts: `FOLDER/NUMBER-ID`, with NUMBER its project on an XFS mounted with
//! `prjquota`.
//!
//! A volume that is removed is renamed to `.discarded-NUMBER`, may not grow any more, and is deleted by a thread. What
//! it still takes is missing in the room meanwhile, and its number belongs to nobody else.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::mount::{MountFlags, mount_bind, mount_remount};
use store::image::{self, MOUNT_FLAGS, VolumeError, failed, tool};

use super::{Backing, Room};

/// Our first project: far from those that sites number by hand.
const PROJECT_FIRST: u32 = 0x4662_0000;

/// What a volume that is being deleted is renamed to, before its number.
const DISCARDED: &str = ".discarded-";

/// What quotas are counted in.
const BLOCK_BYTES: u64 = 4096;

#[derive(Debug)]
pub(super) struct ProjectQuota {
    /// Where the folders are; the file system is this node's alone.
    pub(super) folder: PathBuf,
}

impl ProjectQuota {
    /// Commands of xfs_quota's, on the file system of the folder.
    fn quota(&self, commands: &[&str]) -> Result<String, VolumeError> {
        let mut find = Command::new("findmnt");
        find.args(["--noheadings", "--output", "TARGET", "--target"]).arg(&self.folder);
        let mountpoint = tool("findmnt", &mut find, &self.folder)?;
        let mut command = Command::new("xfs_quota");
        // It splits its commands at spaces: folders are named from here. No lists of the site's projects are read.
        command.current_dir(&self.folder).args(["-D", "/dev/null", "-P", "/dev/null", "-x"]);
        command.args(commands.iter().flat_map(|text| ["-c", text]));
        tool("xfs_quota", command.arg(mountpoint.trim_end_matches('\n')), &self.folder)
    }

    fn lacks(&self, what: &str) -> VolumeError {
        VolumeError::Tool { tool: "xfs_quota", path: self.folder.clone(), output: what.to_owned() }
    }

    /// The names in the folder.
    fn names(&self) -> Result<Vec<String>, VolumeError> {
        let read =
            |entry: io::Result<std::fs::DirEntry>| Ok(entry?.file_name().to_string_lossy().into_owned());
        let names = std::fs::read_dir(&self.folder).and_then(|entries| entries.map(read).collect());
        names.map_err(|e| failed("read", &self.folder, e))
    }

    /// The folder's name and project of the volume `id`.
    fn find(&self, id: &str) -> Result<Option<(String, u32)>, VolumeError> {
        let names = self.names()?;
        let mut found = names.into_iter().filter_map(|name| {
            let (project, of) = volume(&name)?;
            (of == id).then_some((name, project))
        });
        Ok(found.next())
    }

    /// The smallest project that no folder here has.
    fn unused(&self) -> Result<u32, VolumeError> {
        let names = self.names()?;
        let used: Vec<u32> = names.iter().filter_map(|name| project_of(name)).collect();
        Ok((PROJECT_FIRST..).find(|project| !used.contains(project)).expect("a folder has fewer entries"))
    }

    /// Deletes a discarded folder, by and by.
    fn delete(&self, name: &str) {
        let path = self.folder.join(name);
        let delete = move || {
            if let Err(error) = std::fs::remove_dir_all(&path) {
                tracing::warn!(
                    "delete the discarded volume {}: {error}; it is tried again when the node \
                    starts",
                    path.display()
                );
            }
        };
        if let Err(error) = std::thread::Builder::new().name("delete".to_owned()).spawn(delete) {
            tracing::warn!("start a thread that deletes {name}: {error}; it is deleted when the node starts");
        }
    }

    /// What a volume with this project may hold and has free, as the kernel says where it enforces the quota.
    fn limits(&self, name: &str) -> Result<(u64, u64), VolumeError> {
        let path = self.folder.join(name);
        let stat = rustix::fs::statvfs(&path).map_err(|e| failed("measure", &path, e.into()))?;
        Ok((stat.f_blocks * stat.f_frsize, stat.f_bfree * stat.f_frsize))
    }
}

impl Backing for ProjectQuota {
    fn open(&self) -> Result<(), VolumeError> {
        std::fs::create_dir_all(&self.folder).map_err(|e| failed("make", &self.folder, e))?;
        // It says nothing, and succeeds, where the kernel has no quotas.
        if !self.quota(&["state -p"])?.contains("Enforcement: ON") {
            return Err(self.lacks(
                "no project quota is enforced there: it must be on XFS mounted with -o prjquota, and the kernel have \
                 CONFIG_XFS_QUOTA",
            ));
        }
        for name in self.names()?.iter().filter(|name| name.starts_with(DISCARDED)) {
            self.delete(name);
        }
        Ok(())
    }

    fn room(&self) -> Result<Room, VolumeError> {
        let mut free_bytes = image::available(&self.folder)?;
        for name in self.names()?.iter().filter(|name| volume(name).is_some()) {
            // A quota takes nothing from the others until it is used.
            free_bytes = free_bytes.saturating_sub(self.limits(name)?.1);
        }
        Ok(Room { free_bytes, grain_bytes: BLOCK_BYTES })
    }

    fn taken(&self, capacity_bytes: u64) -> u64 {
        capacity_bytes
    }

    fn holds(&self, bytes: u64) -> u64 {
        bytes
    }

    fn create(&self, id: &str, bytes: u64) -> Result<(), VolumeError> {
        let project = self.unused()?;
        let name = format!("{project}-{id}");
        let path = self.folder.join(&name);
        DirBuilder::new().mode(0o700).create(&path).map_err(|e| failed("make", &path, e))?;
        // The project may have been that of a volume that was discarded.
        let (mark, limit) =
            (format!("project -s -p {name} {project}"), format!("limit -p bhard={bytes} ihard=0 {project}"));
        self.quota(&[&mark, &limit])?;
        // Its exit status does not tell all that can go wrong.
        if self.limits(&name)?.0 != bytes {
            return Err(self.lacks(&format!("the kernel does not keep the limit of project {project}")));
        }
        Ok(())
    }

    fn mount(&self, id: &str, mountpoint: &Path) -> Result<(), VolumeError> {
        let Some((name, _)) = self.find(id)? else {
            return Err(self.lacks(&format!("there is no folder of the volume {id}")));
        };
        mount_bind(self.folder.join(name), mountpoint)
            .and_then(|()| mount_remount(mountpoint, MountFlags::BIND | MOUNT_FLAGS, c""))
            .map_err(|e| failed("mount the volume at", mountpoint, e.into()))
    }

    fn remove(&self, id: &str) -> Result<(), VolumeError> {
        let Some((name, project)) = self.find(id)? else { return Ok(()) };
        // Whoever still has a file in it open writes no more.
        self.quota(&[&format!("limit -p bhard={BLOCK_BYTES} ihard=1 {project}")])?;
        let discarded = format!("{DISCARDED}{project}");
        std::fs::rename(self.folder.join(&name), self.folder.join(&discarded))
            .map_err(|e| failed("rename away", &self.folder.join(name), e))?;
        self.delete(&discarded);
        Ok(())
    }
}

/// The project and the id of a volume's folder.
fn volume(name: &str) -> Option<(u32, &str)> {
    let (number, id) = name.split_once('-')?;
    Some((number.parse().ok()?, id))
}

fn project_of(name: &str) -> Option<u32> {
    match name.strip_prefix(DISCARDED) {
        Some(number) => number.parse().ok(),
        None => volume(name).map(|(project, _)| project),
    }
}
