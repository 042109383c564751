//! What every path and name in a directive must be, whichever side it is on.

use super::parse_buffer_path;

/// Refuses what a reader of shell scripts would expect to be replaced, but is not.
pub(super) fn check_plain_path(path: &str) -> Result<(), String> {
    if let Some(variable) = shell_variable(path) {
        return Err(format!(
            "`{variable}` looks like a shell variable, and directives do not see those; use an absolute path, or \
             %d for the job's folder and %u for the user's name"
        ));
    }
    if path.contains('*') {
        return Err(format!(
            "`{path}` has a wildcard, and directives have none; stage the directory with type=directory, or several \
             files with type=list"
        ));
    }
    Ok(())
}

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

/// The first `$NAME`, `${...` or `$(...`.
fn shell_variable(text: &str) -> Option<&str> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.match_indices('$').find_map(|(at, _)| {
        let rest = &text[at + 1..];
        let length = match rest.chars().next()? {
            '{' => rest.find('}').map_or(rest.len(), |end| end + 1),
            '(' => rest.find(')').map_or(rest.len(), |end| end + 1),
            c if is_name(c) => rest.find(|c| !is_name(c)).unwrap_or(rest.len()),
            _ => return None,
        };
        Some(&text[at..=at + length])
    })
}
