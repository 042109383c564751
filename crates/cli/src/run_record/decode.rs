//! From the text of a record to the record, or to why there is none.

use disk::format::FormatError;
use serde::Deserialize;

use super::{RunRecord, SCHEMA};

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
