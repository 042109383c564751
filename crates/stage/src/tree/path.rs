//! Paths of a tree.

use std::ffi::OsStr;
use std::path::Path;

use rustix::io::Errno;

use super::Result;

/// The folder and the name of a path; the empty folder for a name alone.
///
/// # Errors
/// ISDIR for a path without a last name, as the root.
pub fn split(path: &Path) -> Result<(&Path, &OsStr)> {
    let name = path.file_name().ok_or(Errno::ISDIR)?;
    Ok((path.parent().unwrap_or(Path::new("")), name))
}

/// A path on one line of text: control characters are written as in Rust strings.
pub(crate) fn on_one_line(path: &Path) -> String {
    let mut line = String::new();
    for character in path.to_string_lossy().chars() {
        match character {
            _ if character.is_control() => line.extend(character.escape_default()),
            _ => line.push(character),
        }
    }
    line
}
