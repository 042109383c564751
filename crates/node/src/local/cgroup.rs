//! The rank of this node's drainers. They have a cgroup of their own: what they may take of the processors and disks
//! where the jobs, which are in cgroups of their own, want them too. Niceness counts only among the processes of one
//! cgroup.
//!
//! It is `forebay-drain` at the root of each hierarchy, beside the groups that the workload manager makes for jobs:
//! `cpu.weight` and `io.weight` of version 2, `cpu.shares` and `blkio.weight` where a site still has version 1.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Pid;

/// The group's name.
const NAME: &str = "forebay-drain";

/// Puts the process `pid` and all that it starts into the group, which gets `weight`: 1 to 10000, 100 is what a group
/// has that nobody gave a weight. What the kernel or the site lacks is left out.
///
/// # Errors
/// There is no hierarchy in which that is possible.
pub(super) fn join(pid: u32, weight: u32) -> io::Result<()> {
    let mut joined = Err(io::Error::new(ErrorKind::NotFound, "no cgroup hierarchy has weights"));
    for hierarchy in hierarchies(&std::fs::read_to_string("/proc/self/mountinfo")?) {
        match hierarchy.join(pid, weight) {
            Ok(()) if joined.is_err() => joined = Ok(()),
            Err(error) if joined.is_err() => joined = Err(error),
            _ => {}
        }
    }
    joined
}

/// Takes the process `pid` out of the group, and its threads' niceness and idle I/O class away: it competes with the
/// jobs. Only if it is one of `program`, since who says that it should is its user.
///
/// # Errors
/// The process has ended, or the kernel refuses.
pub(super) fn leave(pid: u32, program: &Path) -> io::Result<()> {
    let process = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(ErrorKind::InvalidData)?;
    let is_nice = rustix::process::getpriority_process(Some(process))? > 0;
    if !is_nice || std::fs::read_link(format!("/proc/{pid}/exe"))? != program {
        return Ok(());
    }
    for hierarchy in hierarchies(&std::fs::read_to_string("/proc/self/mountinfo")?) {
        let (Hierarchy::Unified(root) | Hierarchy::Cpu(root) | Hierarchy::Block(root)) = hierarchy;
        if std::fs::read_to_string(root.join(NAME).join("cgroup.procs"))
            .is_ok_and(|members| members.lines().any(|member| member == pid.to_string()))
        {
            std::fs::write(root.join("cgroup.procs"), pid.to_string())?;
        }
    }
    let mut threads = Vec::new();
    for thread in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        let name = thread?.file_name().to_string_lossy().into_owned();
        let id = name.parse().ok().and_then(Pid::from_raw).ok_or(ErrorKind::InvalidData)?;
        rustix::process::setpriority_process(Some(id), 0)?;
        threads.push(name);
    }
    // Where there are no I/O classes, there is none to take away.
    let _told =
        Command::new("ionice").args(["--class", "2", "--classdata", "4", "--pid"]).args(threads).output();
    Ok(())
}

#[derive(Debug, PartialEq, Eq)]
enum Hierarchy {
    Unified(PathBuf),
    /// Version 1, with the controller `cpu`.
    Cpu(PathBuf),
    /// Version 1, with the controller `blkio`.
    Block(PathBuf),
}

impl Hierarchy {
    fn join(&self, pid: u32, weight: u32) -> io::Result<()> {
        let (Hierarchy::Unified(root) | Hierarchy::Cpu(root) | Hierarchy::Block(root)) = self;
        let group = root.join(NAME);
        match std::fs::create_dir(&group) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let weighed = match self {
            Hierarchy::Unified(_) => {
                for controller in ["+cpu", "+io"] {
                    // Where a hierarchy of version 1 has it, this one cannot.
                    let _ = std::fs::write(root.join("cgroup.subtree_control"), controller);
                }
                let files = [("cpu.weight", ""), ("io.weight", "default "), ("io.bfq.weight", "default ")];
                files.map(|(file, key)| set(&group.join(file), &format!("{key}{weight}")))
            }
            Hierarchy::Cpu(_) => {
                // 1024 is what a group has that nobody gave any.
                let shares = (weight * 1024 / 100).max(2);
                [set(&group.join("cpu.shares"), &shares.to_string()), Ok(false), Ok(false)]
            }
            Hierarchy::Block(_) => {
                let weight = weight.clamp(10, 1000).to_string();
                let files = ["blkio.weight", "blkio.bfq.weight"];
                let [a, b] = files.map(|file| set(&group.join(file), &weight));
                [a, b, Ok(false)]
            }
        };
        let mut any = false;
        for set in weighed {
            any |= set?;
        }
        if !any {
            // A group without weights is of no use.
            let _ = std::fs::remove_dir(&group);
            return Err(io::Error::new(ErrorKind::NotFound, format!("{} has no weights", root.display())));
        }
        std::fs::write(group.join("cgroup.procs"), pid.to_string())
    }
}

/// Writes a weight, where the kernel has it; says whether it has.
fn set(file: &Path, value: &str) -> io::Result<bool> {
    if !disk::exists(file)? {
        return Ok(false);
    }
    std::fs::write(file, value).map(|()| true)
}

/// Those that have weights, in the text of `/proc/PID/mountinfo` (proc_pid_mountinfo(5)).
fn hierarchies(mountinfo: &str) -> Vec<Hierarchy> {
    let of = |line: &str| {
        let (mount, file_system) = line.split_once(" - ")?;
        let root = PathBuf::from(mount.split(' ').nth(4)?);
        let mut fields = file_system.split(' ');
        let (kind, options) = (fields.next()?, fields.nth(1)?);
        let has = |controller: &str| options.split(',').any(|option| option == controller);
        match kind {
            "cgroup2" => Some(Hierarchy::Unified(root)),
            "cgroup" if has("cpu") => Some(Hierarchy::Cpu(root)),
            "cgroup" if has("blkio") => Some(Hierarchy::Block(root)),
            _ => None,
        }
    };
    mountinfo.lines().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hierarchies_of_both_versions_are_found_by_their_controllers() {
        let table = "23 1 0:20 / /proc rw - proc proc rw\n\
            32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct\n\
            33 31 0:30 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset\n\
            38 31 0:35 / /sys/fs/cgroup/blkio rw,relatime - cgroup cgroup rw,blkio\n\
            41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw,nsdelegate\n";
        let path = |name: &str| PathBuf::from("/sys/fs/cgroup").join(name);
        let expected = [
            Hierarchy::Cpu(path("cpu,cpuacct")),
            Hierarchy::Block(path("blkio")),
            Hierarchy::Unified(path("unified")),
        ];
        assert_eq!(hierarchies(table), expected);
    }
}
