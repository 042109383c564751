//! `$DW_JOB_STRIPED/x` and its like: which namespace, and which path in it.
//!
//! The name ends at a slash, at the closing brace, or at the end: `$DW_JOB_STRIPED/x`, `${DW_JOB_STRIPED}x` (the
//! variable's value ends with a slash, and scripts count on it) and `${DW_JOB_STRIPED}/x` are the same place, while
//! `$DW_JOB_STRIPEDx` is refused as a shell would not read it either.

use std::fmt;

use super::shell::check_plain_path;
use super::{BufferPath, BufferRoot};
use crate::Token;
use crate::buffer::BufferRef;
use crate::phase::AccessMode;

const JOB_STRIPED: &str = "DW_JOB_STRIPED";
const JOB_PRIVATE: &str = "DW_JOB_PRIVATE";
const PERSISTENT_STRIPED: &str = "DW_PERSISTENT_STRIPED_";
const PERSISTENT_PRIVATE: &str = "DW_PERSISTENT_PRIVATE_";
const EXPECTED: &str =
    "expected $DW_JOB_STRIPED, $DW_JOB_PRIVATE, $DW_PERSISTENT_STRIPED_name or $DW_PERSISTENT_PRIVATE_name";

/// Reads a path that begins with a buffer's name; `None` where it does not begin with `$DW_` or `${DW_`.
///
/// # Errors
/// In words: an unknown name, no slash after it, a `..`, a shell variable or a wildcard.
pub fn parse_buffer_path(text: &str) -> Option<Result<BufferPath, String>> {
    if let Some(rest) = text.strip_prefix("${").filter(|rest| rest.starts_with("DW_")) {
        return Some(match rest.split_once('}') {
            Some((name, path)) => locate(name, path),
            None => Err(format!("`{text}` has no closing brace; {EXPECTED}")),
        });
    }
    let rest = text.strip_prefix('$').filter(|rest| rest.starts_with("DW_"))?;
    let (name, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    Some(locate(name, path))
}

impl BufferRoot {
    /// The environment variable that names this namespace's mount, as `DW_JOB_STRIPED`.
    pub fn variable(&self) -> String {
        match (&self.buffer, self.access_mode) {
            (BufferRef::Own, AccessMode::Striped) => JOB_STRIPED.to_owned(),
            (BufferRef::Own, AccessMode::Private) => JOB_PRIVATE.to_owned(),
            (BufferRef::Persistent(name), AccessMode::Striped) => format!("{PERSISTENT_STRIPED}{name}"),
            (BufferRef::Persistent(name), AccessMode::Private) => format!("{PERSISTENT_PRIVATE}{name}"),
        }
    }

    /// The same as shells can read it: `_` in the place of what their variables cannot have in their names.
    pub fn shell_variable(&self) -> String {
        self.variable().replace(|c: char| !c.is_ascii_alphanumeric(), "_")
    }
}

impl fmt::Display for BufferRoot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "${}", self.variable())
    }
}

impl fmt::Display for BufferPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.root, self.path)
    }
}

fn locate(name: &str, path: &str) -> Result<BufferPath, String> {
    let root = root(name)?;
    check_plain_path(path)?;
    Ok(BufferPath { path: below_root(&root, path)?, root })
}

fn root(name: &str) -> Result<BufferRoot, String> {
    for (prefix, access_mode) in
        [(PERSISTENT_STRIPED, AccessMode::Striped), (PERSISTENT_PRIVATE, AccessMode::Private)]
    {
        if let Some(buffer) = name.strip_prefix(prefix) {
            let buffer = Token::of_buffer(buffer).map_err(|bad| bad.to_string())?;
            return Ok(BufferRoot { buffer: buffer.into(), access_mode });
        }
    }
    let own = |access_mode| Ok(BufferRoot { buffer: BufferRef::Own, access_mode });
    match name {
        JOB_STRIPED => return own(AccessMode::Striped),
        JOB_PRIVATE => return own(AccessMode::Private),
        "DW_JOB_STRIPED_CACHE" | "DW_JOB_LDBAL_CACHE" => {
            return Err(format!(
                "`${name}` is a cache: it fills itself, and nothing is staged to or from it"
            ));
        }
        _ => {}
    }
    for known in [JOB_STRIPED, JOB_PRIVATE] {
        if let Some(rest) = name.strip_prefix(known) {
            return Err(format!(
                "a slash must follow the buffer's name: write ${known}/{rest} or ${{{known}}}{rest}"
            ));
        }
    }
    Err(format!("unknown buffer `${name}`; {EXPECTED}"))
}

/// `path` without leading slash and empty or `.` components.
fn below_root(root: &BufferRoot, path: &str) -> Result<String, String> {
    let components: Vec<&str> = path.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    if components.contains(&"..") {
        // Also where it would stay inside: through a symbolic link it might not.
        return Err(format!("`..` is not allowed in a buffer path; name the place from {root} down"));
    }
    let slash = if path.ends_with('/') && !components.is_empty() { "/" } else { "" };
    Ok(components.join("/") + slash)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn striped(path: &str) -> Option<Result<BufferPath, String>> {
        let root = BufferRoot { buffer: BufferRef::Own, access_mode: AccessMode::Striped };
        Some(Ok(BufferPath { root, path: path.to_owned() }))
    }

    #[test]
    fn all_ways_to_write_a_place_are_the_same_place() {
        for text in [
            "$DW_JOB_STRIPED/a/b",
            "$DW_JOB_STRIPED//a/./b",
            "${DW_JOB_STRIPED}a/b",
            "${DW_JOB_STRIPED}/a//b",
        ] {
            assert_eq!(parse_buffer_path(text), striped("a/b"), "{text}");
        }
    }

    #[test]
    fn the_root_and_a_trailing_slash_are_kept_apart() {
        assert_eq!(parse_buffer_path("$DW_JOB_STRIPED"), striped(""));
        assert_eq!(parse_buffer_path("$DW_JOB_STRIPED/"), striped(""));
        assert_eq!(parse_buffer_path("$DW_JOB_STRIPED/a/"), striped("a/"));
    }

    #[test]
    fn a_persistent_buffer_is_known_by_name() {
        let root = BufferRoot {
            buffer: BufferRef::Persistent(Token::literal("sky_2")),
            access_mode: AccessMode::Striped,
        };
        assert_eq!(
            parse_buffer_path("$DW_PERSISTENT_STRIPED_sky_2/map"),
            Some(Ok(BufferPath { root: root.clone(), path: "map".into() }))
        );
        assert_eq!(root.to_string(), "$DW_PERSISTENT_STRIPED_sky_2");
        assert_eq!(root.shell_variable(), root.variable());
        let Some(Ok(path)) = parse_buffer_path("$DW_PERSISTENT_STRIPED_test35.1-a/x") else {
            panic!("a path")
        };
        assert_eq!(path.root.buffer.persistent(), Some(&Token::literal("test35.1-a")));
        assert_eq!(path.root.shell_variable(), "DW_PERSISTENT_STRIPED_test35_1_a");
    }

    #[test]
    fn what_is_not_a_buffer_is_told_from_a_wrong_one() {
        assert_eq!(parse_buffer_path("/pfs/a"), None);
        assert_eq!(parse_buffer_path("$HOME/a"), None);
        for (text, part) in [
            ("$DW_JOB_STRIPEDa", "write $DW_JOB_STRIPED/a or ${DW_JOB_STRIPED}a"),
            ("$DW_JOB_STRIPED_CACHE/a", "is a cache"),
            ("$DW_JOB_SRIPED/a", "unknown buffer `$DW_JOB_SRIPED`"),
            ("${DW_JOB_STRIPED/a", "no closing brace"),
            ("$DW_JOB_STRIPED/../a", "`..` is not allowed"),
            ("$DW_JOB_STRIPED/$SLURM_JOB_ID", "shell variable"),
            ("$DW_JOB_STRIPED/*.dat", "wildcard"),
            ("$DW_PERSISTENT_STRIPED_/a", "name"),
            ("$DW_PERSISTENT_STRIPED_2x/a", "letter"),
        ] {
            let error = parse_buffer_path(text).expect("it is a buffer path").expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
