//! Extended attributes of one file, as a sorted list: the standard library has none.

use std::io;
use std::path::Path;

use rustix::fs::{XattrFlags, lgetxattr, llistxattr, lsetxattr};

/// Names and values of the `user.` attributes of `path` itself (links are not followed).
pub fn read(path: &Path) -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut names = vec![0_u8; 65536];
    let length = llistxattr(path, &mut names[..])?;
    let mut attributes = Vec::new();
    for name in names[..length].split(|byte| *byte == 0).filter(|name| name.starts_with(b"user.")) {
        let name = String::from_utf8_lossy(name).into_owned();
        let mut value = vec![0_u8; 65536];
        let length = lgetxattr(path, name.as_str(), &mut value[..])?;
        value.truncate(length);
        attributes.push((name, value));
    }
    attributes.sort();
    Ok(attributes)
}

/// Sets one attribute of `path` itself.
pub fn set(path: &Path, name: &str, value: &[u8]) -> io::Result<()> {
    Ok(lsetxattr(path, name, value, XattrFlags::empty())?)
}
