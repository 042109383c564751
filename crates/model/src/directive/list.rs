//! The lines of a list file (`type=list`): `SOURCE DESTINATION`, one regular file each.
//!
//! For `stage_in` the source is on the PFS and the destination in the buffer; for `stage_out` the other way round.
//! Blank lines and lines that begin with `#` are skipped. A name cannot contain white space, and `%` is not a symbol
//! here.

use super::paths::check_pfs_path;
use super::{BufferPath, parse_buffer_path};
use crate::phase::Direction;

/// One line of a list file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListEntry {
    /// The file on the PFS: an absolute path.
    pub pfs: String,
    /// The file in the buffer.
    pub buffer: BufferPath,
}

/// A mistake in a line of a list file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("column {column}: {message}")]
pub struct ListLineError {
    /// The column, from 1, counted in characters.
    pub column: u32,
    /// What is wrong and what was expected; one line.
    pub message: String,
}

/// Reads a line of a list file; `None` for a blank line or a comment.
///
/// # Errors
/// See [`ListLineError`].
pub fn parse_list_line(line: &str, direction: Direction) -> Option<Result<ListEntry, ListLineError>> {
    let words = words(line);
    match words.as_slice() {
        [] => None,
        [(_, first), ..] if first.starts_with('#') => None,
        [source, destination] => Some(match direction {
            Direction::In => entry("source", source, "destination", destination),
            Direction::Out => entry("destination", destination, "source", source),
        }),
        [(column, _)] => Some(Err(error(
            *column,
            "expected two paths, source and destination, but there is one".to_owned(),
        ))),
        [_, _, (column, third), ..] => Some(Err(error(
            *column,
            format!(
                "unexpected `{third}`: a line has two paths, source and destination, and a name in a list cannot \
                 contain white space; use type=directory for such files"
            ),
        ))),
    }
}

/// The words of a line, each with its column.
fn words(line: &str) -> Vec<(u32, &str)> {
    let mut column = 1;
    let mut words = Vec::new();
    for word in line.split(|c: char| c.is_ascii_whitespace()) {
        let at = column;
        column += u32::try_from(word.chars().count()).unwrap_or(u32::MAX - column) + 1;
        if !word.is_empty() {
            words.push((at, word));
        }
    }
    words
}

type Word<'a> = (u32, &'a str);

fn entry(pfs_side: &str, pfs: &Word, buffer_side: &str, buffer: &Word) -> Result<ListEntry, ListLineError> {
    check_pfs_path(pfs.1).map_err(|why| error(pfs.0, format!("{pfs_side}: {why}")))?;
    let path = parse_buffer_path(buffer.1)
        .unwrap_or_else(|| {
            Err(format!("`{}` is not in a buffer; expected a path such as $DW_JOB_STRIPED/name", buffer.1))
        })
        .map_err(|why| error(buffer.0, format!("{buffer_side}: {why}")))?;
    for (side, (column, text)) in [(pfs_side, pfs), (buffer_side, buffer)] {
        if text.ends_with('/') || (side == buffer_side && path.path.is_empty()) {
            return Err(error(
                *column,
                format!("{side}: `{text}` must name a file; lists cannot stage directories"),
            ));
        }
    }
    Ok(ListEntry { pfs: pfs.1.to_owned(), buffer: path })
}

fn error(column: u32, message: String) -> ListLineError {
    ListLineError { column, message }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::BufferRef;
    use crate::directive::{BufferPath, BufferRoot};
    use crate::phase::AccessMode;

    #[test]
    fn both_directions_have_source_first() {
        let expected = Some(Ok(ListEntry {
            pfs: "/pfs/a".into(),
            buffer: BufferPath {
                root: BufferRoot { buffer: BufferRef::Own, access_mode: AccessMode::Striped },
                path: "x/a".into(),
            },
        }));
        assert_eq!(parse_list_line("/pfs/a\t$DW_JOB_STRIPED/x/a", Direction::In), expected);
        assert_eq!(parse_list_line("  $DW_JOB_STRIPED/x/a /pfs/a\r", Direction::Out), expected);
    }

    #[test]
    fn blank_lines_and_comments_are_skipped() {
        assert_eq!(parse_list_line("", Direction::In), None);
        assert_eq!(parse_list_line(" \t", Direction::In), None);
        assert_eq!(parse_list_line("# inputs", Direction::In), None);
    }

    #[test]
    fn a_mistake_is_named_with_its_column() {
        for (line, column, part) in [
            ("/pfs/a", 1, "there is one"),
            ("/pfs/a b $DW_JOB_STRIPED/a", 10, "white space"),
            ("pfs/a $DW_JOB_STRIPED/a", 1, "absolute"),
            ("/pfs/a /bb/a", 8, "not in a buffer"),
            ("/pfs/a $DW_JOB_STRIPED", 8, "must name a file"),
            ("/pfs/a/ $DW_JOB_STRIPED/a", 1, "must name a file"),
            ("$DW_JOB_STRIPED/a /pfs/a", 1, "source"),
        ] {
            let error = parse_list_line(line, Direction::In).expect("not blank").expect_err(line);
            assert_eq!(error.column, column, "{line}: {error}");
            assert!(error.message.contains(part), "{line}: {error}");
        }
    }
}
