//! Buffers to measure: the real processes, in a folder of their own, on a medium.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use tests::cluster::{Cluster, Outcome, program_folder};
use tests::processes::of_folder;

use crate::{cpu, report};

/// Where a buffer's bytes lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Medium {
    /// As the results call it.
    pub name: &'static str,
    folder: &'static str,
}

/// In memory nothing but our own work costs time.
const MEDIA: [Medium; 2] =
    [Medium { name: "disk", folder: "/var/tmp" }, Medium { name: "memory", folder: "/dev/shm" }];

/// The media that this machine has.
pub fn media() -> impl Iterator<Item = Medium> {
    MEDIA.into_iter().filter(|medium| Path::new(medium.folder).is_dir())
}

/// The medium that no disk slows down.
pub fn memory() -> Option<Medium> {
    let found = media().find(|medium| medium.name == "memory");
    if found.is_none() {
        report::note("there is no /dev/shm: what is measured in memory only is left out");
    }
    found
}

/// How a fragment keeps its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Volume {
    /// As users get it: an image where that works, so that the kernel can be handed whole files.
    Default,
    /// A folder of the medium itself: nothing between the storage node and the medium.
    Directory,
}

/// A mounted buffer.
pub struct Buffer {
    cluster: Cluster,
    /// The folder of the programs.
    programs: PathBuf,
    mountpoint: PathBuf,
    medium: Medium,
    nodes: u32,
}

impl Buffer {
    /// Makes one that holds 2 GiB.
    pub fn mount(medium: Medium, nodes: u32, volume: Volume) -> Result<Buffer> {
        Buffer::mount_of(medium, nodes, volume, "2GiB")
    }

    /// Makes one.
    pub fn mount_of(medium: Medium, nodes: u32, volume: Volume, capacity: &str) -> Result<Buffer> {
        Buffer::mount_with(medium, nodes, volume, &["--capacity", capacity])
    }

    /// Makes one with these options of `forebay mount`.
    pub fn mount_with(medium: Medium, nodes: u32, volume: Volume, options: &[&str]) -> Result<Buffer> {
        Buffer::mount_by(program_folder(), medium, nodes, volume, options)
    }

    /// The same with the programs in this folder.
    pub fn mount_by(
        programs: PathBuf,
        medium: Medium,
        nodes: u32,
        volume: Volume,
        options: &[&str],
    ) -> Result<Buffer> {
        let cluster = Cluster::new_in(Path::new(medium.folder));
        let mountpoint = cluster.pfs("mnt");
        let path = text(&mountpoint)?;
        let count = nodes.to_string();
        let mut arguments = vec!["mount", path, "--nodes", &count];
        arguments.extend(options);
        if volume == Volume::Directory {
            arguments.extend(["--volume", "directory"]);
        }
        let buffer = Buffer { cluster, programs, mountpoint: mountpoint.clone(), medium, nodes };
        buffer.forebay(&arguments).expect_success();
        Ok(buffer)
    }

    /// Runs `forebay ARGUMENTS` on the buffer's state folder to its end.
    pub fn forebay(&self, arguments: &[&str]) -> Outcome {
        let mut command = Command::new(self.programs.join("forebay"));
        command.args(arguments).arg("--dir").arg(&self.cluster.state).current_dir(&self.cluster.work);
        self.cluster.spawn(command).wait()
    }

    /// Where it is mounted.
    pub fn mountpoint(&self) -> &Path {
        &self.mountpoint
    }

    /// How results call it: the medium and the number of nodes.
    pub fn name(&self) -> String {
        format!("{}, {} node{}", self.medium.name, self.nodes, if self.nodes == 1 { "" } else { "s" })
    }

    /// How many storage nodes it has.
    pub fn nodes(&self) -> u32 {
        self.nodes
    }

    /// The cluster.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// A new folder `name` that is not in the buffer.
    pub fn folder_beside(&self, name: &str) -> PathBuf {
        self.cluster.pfs(name)
    }

    /// A folder on the file system that holds the buffer's objects: in the first fragment's volume where there is one,
    /// else in the state folder. The same each time.
    pub fn backing(&self) -> Result<PathBuf> {
        let fragments = self.cluster.state.join("nodes/n0/fragments");
        let volume = self.cluster.mounts().into_iter().find(|point| point.starts_with(&fragments));
        let folder = volume.unwrap_or_else(|| self.cluster.state.clone()).join("bench-baseline");
        fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
        Ok(folder)
    }

    /// A folder on each file system that holds objects of the buffer.
    pub fn volumes(&self) -> Vec<PathBuf> {
        let nodes = self.cluster.state.join("nodes");
        let own: Vec<PathBuf> =
            self.cluster.mounts().into_iter().filter(|point| point.starts_with(&nodes)).collect();
        if own.is_empty() { vec![self.cluster.state.clone()] } else { own }
    }

    /// CPU seconds that its processes and those that they have waited for have used so far, in the kernel's behalf too.
    pub fn cpu_seconds(&self) -> Result<f64> {
        cpu::seconds(of_folder(self.cluster.folder()).iter().map(|process| process.pid))
    }

    /// Unmounts it and removes everything.
    pub fn unmount(self) -> Result<()> {
        self.forebay(&["umount", text(&self.mountpoint)?]).expect_success();
        Ok(())
    }
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().context("temporary folders have plain names")
}
