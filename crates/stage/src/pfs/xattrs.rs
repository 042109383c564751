//! Extended attributes of what a path of ours leads to.

use std::path::Path;

use rustix::io::Errno;

use crate::tree::{Result, Xattr, is_access_list, is_label, keeps_xattr};

/// Those that a stage keeps; none where there are none.
pub(super) fn read(path: &Path) -> Result<Vec<Xattr>> {
    let names = match names(path) {
        Err(Errno::NOTSUP) => return Ok(Vec::new()),
        names => names?,
    };
    let kept = names.split(|byte| *byte == 0).filter(|name| keeps_xattr(name));
    let read = kept.map(|name| Ok((name.to_vec(), value(path, name)?)));
    // One that was removed meanwhile is none.
    read.filter(|read| !matches!(read, Err(Errno::NODATA))).collect()
}

/// The names of the others, but for the system's labels.
pub(super) fn unkept(path: &Path) -> Result<Vec<Vec<u8>>> {
    let names = match names(path) {
        Err(Errno::NOTSUP) => return Ok(Vec::new()),
        names => names?,
    };
    let names = names.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    Ok(names.filter(|name| !keeps_xattr(name) && !is_label(name)).map(<[u8]>::to_vec).collect())
}

/// Takes the access lists away that are not among `kept`.
pub(super) fn disinherit(path: &Path, kept: &[Xattr]) -> Result<()> {
    let names = match names(path) {
        Err(Errno::NOTSUP) => return Ok(()),
        names => names?,
    };
    let is_kept = |name: &[u8]| kept.iter().any(|(kept, _)| kept == name);
    let names = names.split(|byte| *byte == 0);
    for name in names.filter(|name| is_access_list(name) && !is_kept(name)) {
        rustix::fs::removexattr(path, name)?;
    }
    Ok(())
}

/// Names of extended attributes, each closed by a NUL.
fn names(path: &Path) -> Result<Vec<u8>> {
    let mut names = vec![0; rustix::fs::listxattr_query(path)?];
    if !names.is_empty() {
        let length = rustix::fs::listxattr(path, names.as_mut_slice())?;
        names.truncate(length);
    }
    Ok(names)
}

fn value(path: &Path, name: &[u8]) -> Result<Vec<u8>> {
    let mut value = vec![0; rustix::fs::getxattr_query(path, name)?];
    if !value.is_empty() {
        let length = rustix::fs::getxattr(path, name, value.as_mut_slice())?;
        value.truncate(length);
    }
    Ok(value)
}
