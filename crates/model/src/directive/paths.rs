//! What every path of the PFS in a directive must be.

use super::parse_buffer_path;
use super::shell::check_plain_path;

/// Refuses what is not an absolute path of the PFS.
pub(super) fn check_pfs_path(path: &str) -> Result<(), String> {
    if parse_buffer_path(path).is_some() {
        return Err(format!("`{path}` is in the buffer; expected a path of the parallel file system"));
    }
    check_plain_path(path)?;
    if path.starts_with('~') {
        return Err(format!(
            "`{path}` begins with `~`, which only the shell replaces; write the absolute path"
        ));
    }
    if !path.starts_with('/') {
        return Err(format!(
            "`{path}` is not an absolute path; begin it with a slash, or with %d/ for the job's folder"
        ));
    }
    Ok(())
}

/// An absolute path in one spelling: without empty and `.` components; a slash at its end stays. `..` stays too: where
/// it leads, symbolic links decide.
pub(super) fn plain(path: &str) -> String {
    let parts: Vec<&str> = path.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    let is_folder = path.ends_with('/') || path.ends_with("/.");
    let slash = if is_folder && !parts.is_empty() { "/" } else { "" };
    format!("/{}{slash}", parts.join("/"))
}
