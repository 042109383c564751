//! Whether what is drained and where it is drained to lie in one another, by whatever paths: what is drained would be
//! drained again, without end, or the job's files would be replaced by their own copies.
//!
//! Paths tell of links, numbers of inodes of a folder that has two paths, and the kernel's table of what is mounted in
//! it, as a part of the other.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use disk::mount_table::{Mount, holding, mounts};

/// A folder as its file system has it, whatever paths lead there.
#[derive(Clone, Debug)]
struct Spot {
    /// The path that it was found by.
    path: PathBuf,
    /// The kernel's number of the mount that is there.
    mount: u64,
    device: (u32, u32),
    folder: PathBuf,
}

impl Spot {
    /// That of `path`, which is on this mount.
    fn of(path: &Path, mount: &Mount) -> Option<Spot> {
        let folder = mount.root.join(path.strip_prefix(&mount.mountpoint).ok()?);
        Some(Spot { path: path.to_owned(), mount: mount.id, device: mount.device, folder })
    }

    /// That of what `path` leads to; `None` where the kernel does not tell.
    fn at(path: &Path) -> Option<Spot> {
        Spot::of(path, &holding(path).ok()?)
    }

    fn overlaps(&self, other: &Spot) -> bool {
        let is_in = |one: &Spot, other: &Spot| one.folder.starts_with(&other.folder);
        self.device == other.device && (is_in(self, other) || is_in(other, self))
    }

    /// Whether its path leads there: a later mount may hide it.
    fn is_seen(&self) -> bool {
        holding(&self.path).is_ok_and(|mount| mount.id == self.mount)
    }
}

/// Why nothing can be drained from and to these folders; `None` where it can.
pub fn overlap(from: &Path, to: &Path) -> Option<String> {
    let (from, to) = (nearest(from), nearest(to));
    let why = || {
        let (from, to) = (from.display(), to.display());
        format!("one of {from} and {to} is inside the other: what is drained would be drained again")
    };
    if is_above(&from, &to) || is_above(&to, &from) {
        return Some(why());
    }
    let (here, there) = (spots(&from), spots(&to));
    let met = |one: &&Spot| there.iter().any(|other| one.overlaps(other) && one.is_seen() && other.is_seen());
    let spot = here.iter().find(met)?;
    let by = |path: &Path| format!("{}, by what is mounted on {}", why(), path.display());
    Some(if spot.path == from { why() } else { by(&spot.path) })
}

/// Whether what is mounted on `mountpoint`, in the drained folder, is `to`, or one of the two lies in the other.
pub(crate) fn is_of(mountpoint: &Path, to: &Path) -> bool {
    Spot::at(mountpoint).zip(Spot::at(to)).is_some_and(|(here, there)| here.overlaps(&there))
}

fn is_above(above: &Path, path: &Path) -> bool {
    let inode = |path: &Path| std::fs::metadata(path).ok().map(|found| (found.dev(), found.ino()));
    let is_it = |path: &Path| inode(path).is_some_and(|found| Some(found) == inode(above));
    path.starts_with(above) || path.ancestors().any(is_it)
}

/// The folder itself, and all that is mounted below it.
fn spots(folder: &Path) -> Vec<Spot> {
    let is_below = |mount: &Mount| mount.mountpoint != folder && mount.mountpoint.starts_with(folder);
    let below = mounts().unwrap_or_default().into_iter().filter(is_below);
    let below = below.filter_map(|mount| Spot::of(&mount.mountpoint, &mount));
    Spot::at(folder).into_iter().chain(below).collect()
}

/// The path without links, as far as it is there.
pub(crate) fn nearest(path: &Path) -> PathBuf {
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let found = whole.ancestors().find_map(|above| Some((above, above.canonicalize().ok()?)));
    let Some((above, real)) = found else { return whole };
    whole.strip_prefix(above).map_or_else(|_| real.clone(), |below| real.join(below))
}
