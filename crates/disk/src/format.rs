//! Which format a small JSON file has. The file says so itself, so that an older Forebay refuses what a newer wrote.
//!
//! ```text
//! file := {"format": number, ...}     without a number: the first format, as version 0.1.0 wrote it
//! ```
//!
//! A number is raised when an older Forebay must not read what is written from then on.

use std::io;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

const KEY: &str = "format";

/// Why a file is not understood.
#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    /// A newer Forebay wrote it.
    #[error("it has format {found}, this Forebay knows up to {known}: a newer one wrote it")]
    Newer {
        /// The file's.
        found: u64,
        /// The newest that is known here.
        known: u32,
    },
    /// It is damaged, or something else.
    #[error(transparent)]
    Damaged(#[from] serde_json::Error),
}

impl From<FormatError> for io::Error {
    fn from(error: FormatError) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidData, error.to_string())
    }
}

/// The text of `value` in this format, of which it says the number where `value` has keys.
///
/// # Errors
/// `value` has no JSON.
pub fn encode(value: &impl Serialize, format: u32) -> serde_json::Result<Vec<u8>> {
    let mut value = serde_json::to_value(value)?;
    if let Value::Object(fields) = &mut value {
        fields.insert(KEY.into(), format.into());
    }
    serde_json::to_vec(&value)
}

/// What [`encode`] made a text of, in this format or an older one.
///
/// # Errors
/// [`FormatError`]; the caller says of which file, and leaves that as it is.
pub fn decode<T: DeserializeOwned>(text: &[u8], known: u32) -> Result<T, FormatError> {
    let mut value: Value = serde_json::from_slice(text)?;
    let format = value.as_object_mut().and_then(|fields| fields.remove(KEY));
    match format.and_then(|format| format.as_u64()) {
        Some(found) if found > u64::from(known) => Err(FormatError::Newer { found, known }),
        _ => Ok(serde_json::from_value(value)?),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_file_says_its_format_and_one_that_does_not_has_the_first() {
        let value = BTreeMap::from([("a".to_owned(), u64::MAX)]);
        let text = encode(&value, 2).unwrap();
        assert!(String::from_utf8_lossy(&text).contains("\"format\":2"));
        assert_eq!(decode::<BTreeMap<String, u64>>(&text, 2).unwrap(), value);
        assert_eq!(decode::<BTreeMap<String, u64>>(&text, 3).unwrap(), value, "an older one is read");
        let newer = decode::<BTreeMap<String, u64>>(&text, 1).unwrap_err().to_string();
        assert!(newer.contains("format 2") && newer.contains("up to 1"), "{newer}");
        assert_eq!(decode::<BTreeMap<String, u64>>(b"{\"a\":7}", 1).unwrap()["a"], 7);
        assert!(matches!(decode::<u32>(b"{", 1), Err(FormatError::Damaged(_))));
        assert_eq!(decode::<Vec<u32>>(&encode(&[1], 1).unwrap(), 1).unwrap(), [1], "a list says none");
    }
}
