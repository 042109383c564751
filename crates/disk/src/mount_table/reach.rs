//! Whether what a process of another mount namespace mounts is mounted here, too: the kernel copies a mount to the
//! peers and the slaves of the mount that it is made on (mount_namespaces(7)).

use std::io;
use std::path::Path;

use super::unescape;

/// How the mount that holds a place shares what is mounted on it.
#[derive(Debug, Default, PartialEq, Eq)]
struct Sharing {
    /// Its group of peers.
    peers: Option<u64>,
    /// The group that it is told by, without telling it.
    master: Option<u64>,
}

/// Whether what the process `pid` mounts at or below `place` appears at that path here.
///
/// # Errors
/// Nobody may look at that process: it is gone, or another user's.
pub fn is_seen_from(pid: i32, place: &Path) -> io::Result<bool> {
    let namespace = |of: &str| std::fs::read_link(format!("/proc/{of}/ns/mnt"));
    if namespace(&pid.to_string())? == namespace("self")? {
        return Ok(true);
    }
    let table = |of: &str| std::fs::read(format!("/proc/{of}/mountinfo"));
    let (theirs, own) = (table(&pid.to_string())?, table("self")?);
    Ok(is_told(&sharing(&theirs, place), &sharing(&own, place)))
}

fn is_told(theirs: &Sharing, own: &Sharing) -> bool {
    theirs.peers.is_some_and(|group| [own.peers, own.master].contains(&Some(group)))
}

/// Of the mount that `place` is on, by a table as `/proc/PID/mountinfo` has it.
fn sharing(table: &[u8], place: &Path) -> Sharing {
    let mut nearest = (0, Sharing::default());
    for line in table.split(|&byte| byte == b'\n') {
        let mut fields = line.split(|&byte| byte == b' ');
        let Some(mountpoint) = fields.nth(4).map(unescape) else { continue };
        let length = mountpoint.as_os_str().len();
        // The last one at a place is the one that is seen.
        if place.starts_with(&mountpoint) && length >= nearest.0 {
            nearest = (length, of_fields(fields.skip(1).take_while(|field| *field != b"-")));
        }
    }
    nearest.1
}

/// By the optional fields of a line.
fn of_fields<'a>(fields: impl Iterator<Item = &'a [u8]>) -> Sharing {
    let mut sharing = Sharing::default();
    for field in fields.filter_map(|field| std::str::from_utf8(field).ok()) {
        match field.split_once(':') {
            Some(("shared", group)) => sharing.peers = group.parse().ok(),
            Some(("master", group)) => sharing.master = group.parse().ok(),
            _ => {}
        }
    }
    sharing
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_reaches_peers_and_slaves_of_the_mount_that_it_is_made_on() {
        let host =
            b"22 1 8:1 / / rw,nosuid shared:1 - ext4 a rw\n23 22 8:2 / /home rw shared:7 - ext4 b rw\n\
            24 22 8:3 / /tmp rw - ext4 c rw\n";
        let job =
            b"42 41 8:1 / / rw,nosuid master:1 - ext4 a rw\n43 42 8:2 / /home rw master:7 - ext4 b rw\n\
            44 42 8:3 / /tmp rw shared:9 - ext4 c rw\n45 44 0:9 / /tmp rw shared:9 - tmpfs d rw\n";
        let reaches = |from: &[u8], to: &[u8], place: &str| {
            is_told(&sharing(from, Path::new(place)), &sharing(to, Path::new(place)))
        };
        assert!(reaches(host, job, "/home/ada/.local/state") && reaches(host, host, "/homes"));
        assert!(!reaches(job, host, "/home/ada") && !reaches(job, job, "/home/ada"), "slaves tell nobody");
        assert!(!reaches(host, job, "/tmp/x"), "it is private");
        assert_eq!(sharing(b"", Path::new("/")), Sharing::default());
    }

    #[test]
    fn what_this_process_mounts_it_sees() {
        let own = i32::try_from(std::process::id()).unwrap();
        assert!(is_seen_from(own, Path::new("/")).unwrap());
        is_seen_from(i32::MAX, Path::new("/")).unwrap_err();
    }
}
