//! Two drainers of one session whose hosts are called alike: whether one goes on for the other, or another machine has
//! that name.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::generation::Stamp;
use crate::overlap::nearest;
use crate::status::{SILENCE_MAX, Status};
use crate::top::Top;

/// What tells a drainer of this machine from its namesakes.
pub(crate) struct Own {
    pub(crate) from: PathBuf,
    pub(crate) folder: Option<(u64, Stamp)>,
    /// As [`machine`] says.
    pub(crate) machine: String,
}

impl Own {
    /// Of who drains the folder `from`, of this identity.
    pub(crate) fn new(from: PathBuf, folder: Option<(u64, Stamp)>) -> Own {
        Own { from, folder, machine: machine() }
    }

    /// Of who is to drain the folder at `from`, as far as that can be told.
    pub(crate) fn at(from: &Path) -> Own {
        let from = nearest(from);
        let folder = Top::open(&from).ok().and_then(|top| top.identity());
        Own::new(from, folder)
    }

    /// Whether this drainer goes on for the one that said this.
    pub(crate) fn succeeds(&self, last: &Status) -> bool {
        let is_same = last.folder.is_some() && last.folder == self.folder;
        is_same || last.from == self.from && !self.is_of_another(last)
    }

    /// Whether who said this drains another folder that has the same path, and may still do so.
    fn is_of_another(&self, last: &Status) -> bool {
        let differs = last.folder.is_some() && self.folder.is_some() && last.folder != self.folder;
        let may_run = if self.is_neighbour(last) {
            differs && is_running(last.pid)
        } else {
            differs || !last.machine.is_empty()
        };
        may_run && !last.ended && last.silence() <= SILENCE_MAX
    }

    /// Whether who said this was on this machine.
    pub(crate) fn is_neighbour(&self, last: &Status) -> bool {
        last.machine == self.machine
    }
}

/// Whether `status` is of the drainer of the folder that is at `from`, so far as that can be told: in a job a volume
/// has another path.
pub fn is_drained_by(status: &Status, from: &Path) -> bool {
    let own = Own::at(from);
    if let (Some(drained), Some(asked)) = (status.folder, own.folder) {
        return drained == asked;
    }
    let inode = |path: &Path| std::fs::metadata(path).map(|found| (found.dev(), found.ino()));
    match (inode(&status.from), inode(from)) {
        (Ok(drained), Ok(asked)) => drained == asked,
        _ => true,
    }
}

/// Adds to what drainers said that the start was refused of which `refusal`, in a file of this name, tells. It is
/// called as its node, unless another folder is.
pub(crate) fn add_refusal(statuses: &mut Vec<Status>, name: String, refusal: Status) {
    let is_last = |last: &&mut Status| {
        let is_same = match (last.folder, refusal.folder) {
            (Some(last), Some(refused)) => last == refused,
            _ => last.from == refusal.from,
        };
        is_same && last.host == refusal.host && last.updated_ms <= refusal.updated_ms
    };
    match statuses.iter_mut().find(is_last) {
        // What it had found before is owed still.
        Some(last) => {
            let Status { pid, machine, updated_ms, troubles, .. } = refusal;
            let (failed, before) = (last.failed.max(1), std::mem::take(last));
            let said = Status { pid, machine, updated_ms, troubles, failed, ..before };
            *last = Status { refused: true, ended: true, settled: false, ..said };
        }
        None => {
            let is_taken = statuses.iter().any(|other| other.host == refusal.host);
            let host = if is_taken { name } else { refusal.host.clone() };
            statuses.push(Status { host, refused: true, ended: true, ..refusal });
        }
    }
}

/// The node of which a status of this name tells.
pub fn node_of(name: &str) -> &str {
    let is_hash = |end: &str| end.len() == 8 && end.bytes().all(|byte| byte.is_ascii_hexdigit());
    name.rsplit_once('.').filter(|(_, end)| is_hash(end)).map_or(name, |(node, _)| node)
}

/// Which running kernel, and which numbering of its processes: a name of a host may be that of several.
pub(crate) fn machine() -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let numbering = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    format!("{} {}", boot.trim(), numbering.display())
}

/// Whether there is a process of this number here, other than this one. One that has ended and that nobody has waited
/// for has no program any more.
pub fn is_running(pid: u32) -> bool {
    let program = std::fs::read_link(format!("/proc/{pid}/exe"));
    pid != std::process::id() && !program.is_err_and(|error| disk::is_absent(&error))
}

/// Of what has no name that is short, and the same in every process.
pub(crate) fn short_hash(hashed: &impl Hash) -> u32 {
    let mut hasher = DefaultHasher::new();
    hashed.hash(&mut hasher);
    (hasher.finish() >> 32) as u32
}
