//! What to do about an operation that was refused.

use model::phase::Direction;
use rustix::io::Errno;

/// Where it was the PFS.
pub(super) fn pfs_advice(errno: Errno, direction: Direction) -> &'static str {
    match errno {
        Errno::ACCESS => "check the permissions of this path and of the folders above it",
        Errno::PERM => "only root may do this; leave it out or stage as root",
        Errno::NOENT if direction == Direction::In => {
            "check the spelling; if it was there, it was removed or renamed meanwhile"
        }
        Errno::NOENT => "a folder above it was removed or renamed meanwhile; retry the stage",
        Errno::NOSPC => "free space on the parallel file system, then retry the stage",
        Errno::DQUOT => "your quota is used up; remove files or ask for more, then retry the stage",
        Errno::ROFS => "the file system is mounted read-only; ask its administrator, then retry the stage",
        Errno::ISDIR => "a folder is in the way, or the stage needs type=directory",
        Errno::NOTDIR => {
            "a file is in the way of a folder, or a symbolic link (none below the folder that the stage names is \
             followed: move it away, and see who may write there), or the stage needs type=file"
        }
        Errno::LOOP => "it is a symbolic link by now, or its links lead in a circle; correct them",
        Errno::XDEV => "it, or what it leads to, is not in a folder that stages may reach (pfs_roots)",
        Errno::NAMETOOLONG => "shorten the path, or stage to a folder nearer the root",
        Errno::REMOTEIO => {
            "its file system could not write back what was written to it, and nobody knows which part: write it anew, \
             then retry the stage"
        }
        Errno::FBIG => "the file system does not take files of this size; stage to another one",
        Errno::NOTSUP => {
            "this file system cannot hold such an entry; leave it out or pack it into a tar file"
        }
        _ => "ask the administrator of the parallel file system, then retry the stage",
    }
}

/// Where it was the buffer.
pub(super) fn buffer_advice(errno: Errno) -> &'static str {
    match errno {
        Errno::NOSPC => "ask for a larger capacity, or stage less",
        Errno::NOENT => "check the spelling, and whether anything wrote it",
        Errno::XDEV => "the symbolic link leads out of the buffer; name the file itself",
        Errno::LOOP => "its symbolic links lead in a circle; correct them",
        Errno::ISDIR => "a folder is in the way, or the stage needs type=directory",
        Errno::NOTDIR => "a file is in the way of a folder, or the stage needs type=file",
        Errno::PERM => "only root may do this; leave it out or stage as root",
        Errno::ACCESS => "it is another user's in the buffer; leave it out, or ask its owner to let you",
        Errno::IO => {
            "scrub the buffer, which names what is damaged; where nothing is, look at `forebay status` and at the \
             storage nodes' logs, then retry the stage"
        }
        _ => "look at `forebay status` and at the storage nodes' logs, then retry the stage",
    }
}
