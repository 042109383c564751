//! Where the buffers of this machine are kept, and whether that can make anything faster.

use std::path::{Path, PathBuf};

/// Kinds of file systems that are on other machines, as the kernel's table of mounts has them.
const OF_NETWORKS: [&str; 14] = [
    "9p",
    "afs",
    "beegfs",
    "ceph",
    "cifs",
    "fuse.sshfs",
    "glusterfs",
    "gpfs",
    "lustre",
    "nfs",
    "nfs4",
    "panfs",
    "pvfs2",
    "smb3",
];

const ADVICE: &str = "give --dir (or FOREBAY_DIR) a folder on local NVMe";

/// A mounted file system.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mounted {
    /// Major and minor number of its device.
    device: String,
    kind: String,
    /// As `/dev/nvme0n1p2`.
    source: String,
}

impl Mounted {
    fn is_of_network(&self) -> bool {
        OF_NETWORKS.contains(&self.kind.as_str())
    }

    /// Whether what is on both shares a disk. Volumes of one btrfs have devices of their own.
    fn is_with(&self, other: &Mounted) -> bool {
        self.device == other.device || (self.source.starts_with('/') && self.source == other.source)
    }
}

/// One line: the folder, and the kind of its file system.
pub fn line(folder: &Path) -> String {
    let kind = of(folder, &table()).map_or_else(|| "unknown".to_owned(), |mounted| mounted.kind);
    format!("buffers are kept in {} ({kind})", folder.display())
}

/// Why a buffer in the state folder `folder` makes nothing faster for files at `data`; `None` where it may.
pub fn remark(folder: &Path, data: &[PathBuf]) -> Option<String> {
    judge(folder, data, &table())
}

fn judge(folder: &Path, data: &[PathBuf], table: &str) -> Option<String> {
    let own = of(folder, table)?;
    let shown = folder.display();
    if own.is_of_network() {
        let kind = &own.kind;
        return Some(format!(
            "buffers are kept in {shown}, on a network ({kind}): this will not be faster; {ADVICE}"
        ));
    }
    let beside = data.iter().find(|path| of(path, table).is_some_and(|of_data| of_data.is_with(&own)))?;
    let beside = beside.display();
    Some(format!(
        "buffers are kept in {shown}, on the same disk as {beside}: this will not be faster; {ADVICE}"
    ))
}

fn table() -> String {
    std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default()
}

/// What `path`, or the nearest above it that is there, is on.
fn of(path: &Path, table: &str) -> Option<Mounted> {
    let real = path.ancestors().find_map(|above| above.canonicalize().ok())?;
    let mounts = table.lines().filter_map(parse).filter(|(point, _)| real.starts_with(point));
    // Of two at one place the later one covers the other.
    mounts.max_by_key(|(point, _)| point.components().count()).map(|(_, mounted)| mounted)
}

/// A line of proc_pid_mountinfo(5): the mount point, and what is mounted there.
fn parse(line: &str) -> Option<(PathBuf, Mounted)> {
    let (before, after) = line.split_once(" - ")?;
    let fields: Vec<&str> = before.split(' ').collect();
    let mut of_file_system = after.split(' ');
    let (kind, source) = (of_file_system.next()?.to_owned(), of_file_system.next()?.to_owned());
    let point = PathBuf::from(fields.get(4)?.replace("\\040", " "));
    Some((point, Mounted { device: (*fields.get(2)?).to_owned(), kind, source }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
22 1 259:2 / / rw shared:1 - ext4 /dev/nvme0n1p2 rw
30 22 0:50 / /etc rw shared:2 - nfs4 server:/etc rw
31 22 0:51 / /usr rw shared:3 - xfs /dev/sdb rw
32 31 0:52 / /usr/bin rw - btrfs /dev/nvme0n1p2 rw
";

    #[test]
    fn what_makes_nothing_faster_is_said_with_what_would() {
        let judge = |folder: &str, data: &[&str]| {
            let data: Vec<PathBuf> = data.iter().map(PathBuf::from).collect();
            judge(Path::new(folder), &data, TABLE).unwrap_or_default()
        };
        let network = judge("/etc", &["/usr"]);
        assert!(network.contains("on a network (nfs4)") && network.ends_with(ADVICE), "{network}");
        let same = judge("/", &["/usr/share", "/no/such/place"]);
        assert!(same.contains("on the same disk as /no/such/place: this will not be faster"), "{same}");
        assert!(judge("/", &["/usr/bin"]).contains("/usr/bin"), "another volume of the disk");
        assert_eq!(judge("/", &["/usr/share", "/etc/passwd"]), "");
        assert_eq!(judge("/", &[]), "");
    }
}
