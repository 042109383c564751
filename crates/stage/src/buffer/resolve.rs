//! What a path in the buffer leads to, through symbolic links that stay in the buffer.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use rustix::io::Errno;
use wire::data::FileKind;

use crate::tree::{Found, Result, Source};

/// As many as Linux follows in one path (path_resolution(7)).
const LINKS_MAX: usize = 40;

/// The entry behind `path`, and its path free of links.
///
/// # Errors
/// XDEV for a link that leaves the buffer: an absolute one (the mount point is unknown here), or one above the root.
/// LOOP after 40 links. Else the errno of the lookup.
pub(super) fn resolve(tree: &dyn Source, path: &Path) -> Result<Found> {
    let mut ahead: VecDeque<OsString> = VecDeque::new();
    push_front(&mut ahead, path);
    let mut entry = tree.find(Path::new(""))?;
    let mut links = 0;
    while let Some(name) = ahead.pop_front() {
        if name == "/" {
            return Err(Errno::XDEV);
        }
        if !entry.is_folder() {
            return Err(Errno::NOTDIR);
        }
        let folder: PathBuf = entry.path.clone();
        if name == ".." {
            entry = tree.find(folder.parent().ok_or(Errno::XDEV)?)?;
            continue;
        }
        let next = tree.find(&folder.join(name))?;
        if next.attr.kind != FileKind::Symlink {
            entry = next;
            continue;
        }
        links += 1;
        if links > LINKS_MAX {
            return Err(Errno::LOOP);
        }
        push_front(&mut ahead, &tree.read_link(&next)?);
    }
    Ok(entry)
}

/// Puts the components of a path before those that are still ahead; an absolute one begins with `/`.
fn push_front(ahead: &mut VecDeque<OsString>, path: &Path) {
    for component in path.components().rev().filter(|component| *component != Component::CurDir) {
        ahead.push_front(component.as_os_str().to_owned());
    }
}
