//! From the text of a record to the record, or to why there is none.

use std::path::Path;

use disk::format::{FormatError, UPGRADE};
use serde::Deserialize;

use super::{RunRecord, SCHEMA};
use crate::failure::Failure;

/// What is the same in every schema.
#[derive(Deserialize)]
struct AnyRecord {
    schema: u32,
}

/// The record that is this text.
///
/// # Errors
/// A newer Forebay wrote it, or it is damaged.
pub(super) fn decode(text: &[u8]) -> Result<RunRecord, FormatError> {
    match serde_json::from_slice(text)? {
        AnyRecord { schema } if schema > SCHEMA => {
            Err(FormatError::Newer { found: schema.into(), known: SCHEMA })
        }
        _ => Ok(serde_json::from_slice(text)?),
    }
}

/// What is said of the record `path` then.
pub(super) fn not_understood(path: &Path, error: &FormatError) -> Failure {
    let first = match error {
        FormatError::Newer { .. } => UPGRADE,
        _ => "put the file back as it was",
    };
    Failure::unavailable(
        format!("understand {}, what an interrupted run was at: {error}", path.display()),
        format!(
            "{first}; or give the run up with `rm {path}`: its buffer is kept until \
             `forebay rm {token}`",
            token = path.file_stem().unwrap_or_default().to_string_lossy(),
            path = path.display()
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_that_a_newer_forebay_wrote_is_known_as_that_whatever_else_is_in_it() {
        let newer = decode(b"{\"schema\":2,\"what\":\"follows\"}").unwrap_err();
        assert!(matches!(newer, FormatError::Newer { found: 2, known: 1 }), "{newer}");
        assert!(matches!(decode(b"{\"schema\":1}").unwrap_err(), FormatError::Damaged(_)));
        assert!(matches!(decode(b"{").unwrap_err(), FormatError::Damaged(_)));
    }
}
