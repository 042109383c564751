//! Which format a small JSON file has, and whether it is as it was written. The file says so itself: an older Forebay
//! refuses what a newer wrote, and a bit that flipped on the disk is seen.
//!
//! ```text
//! file := {"format": number, "crc32c": sum, ...}     without a number: the first format
//! file := {"format": number, "crc32c": sum, "content": value}     what has no keys of its own
//! sum  := CRC32C of the text without "crc32c", keys in order, in eight hexadecimal digits
//! ```
//!
//! A number is raised when an older Forebay must not read what is written from then on. Files without a sum are of
//! before there were any, or were changed by hand: they are believed.

use std::io;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

const FORMAT: &str = "format";
const SUM: &str = "crc32c";
const CONTENT: &str = "content";

/// What helps where a newer Forebay wrote a file, whichever it is. Whoever says it adds what is to be started or
/// repeated then.
pub const UPGRADE: &str = "install the Forebay that wrote it, or a newer one";

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
    /// A bit flipped, or somebody has changed it.
    #[error(
        "its checksum is {expected}, but it has {found}: the disk has damaged it, or it was changed by hand; if it is \
         right as it is, remove \"{SUM}\" from it"
    )]
    Sum {
        /// What it says.
        expected: String,
        /// What it has.
        found: String,
    },
    /// It is damaged, or something else.
    #[error(transparent)]
    Damaged(#[from] serde_json::Error),
}

impl From<FormatError> for io::Error {
    fn from(error: FormatError) -> io::Error {
        io::Error::new(error.kind(), error.to_string())
    }
}

impl FormatError {
    /// Of an [`io::Error`] for it: whoever adds the file's name to the message keeps the kind, and with it
    /// [`is_newer`].
    fn kind(&self) -> io::ErrorKind {
        match self {
            FormatError::Newer { .. } => io::ErrorKind::Unsupported,
            FormatError::Sum { .. } | FormatError::Damaged(_) => io::ErrorKind::InvalidData,
        }
    }
}

/// Whether a file was not understood because a newer Forebay wrote it: then [`UPGRADE`] helps, and nothing else. No
/// error of the kernel is taken for one.
pub fn is_newer(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::Unsupported && error.raw_os_error().is_none() && error.get_ref().is_some()
}

/// The text of `value` in this format.
///
/// # Errors
/// `value` has no JSON.
pub fn encode(value: &impl Serialize, format: u32) -> serde_json::Result<Vec<u8>> {
    let mut fields = match serde_json::to_value(value)? {
        Value::Object(fields) => fields,
        other => Map::from_iter([(CONTENT.to_owned(), other)]),
    };
    fields.insert(FORMAT.into(), format.into());
    let sum = sum_of(&fields)?;
    fields.insert(SUM.into(), sum.into());
    serde_json::to_vec(&fields)
}

/// What [`encode`] made a text of, in this format or an older one.
///
/// # Errors
/// [`FormatError`]; the caller says of which file, and leaves that as it is.
pub fn decode<T: DeserializeOwned>(text: &[u8], known: u32) -> Result<T, FormatError> {
    let mut fields = match serde_json::from_slice(text)? {
        Value::Object(fields) => fields,
        other => return Ok(serde_json::from_value(other)?),
    };
    let expected = fields.remove(SUM);
    let found = sum_of(&fields)?;
    let format = fields.remove(FORMAT).and_then(|format| format.as_u64());
    match (expected, format) {
        // Before the format: a bit that flipped in that does not make a newer Forebay of the disk.
        (Some(expected), _) if expected != found => {
            let expected = expected.as_str().unwrap_or_default().to_owned();
            Err(FormatError::Sum { expected, found })
        }
        (_, Some(found)) if found > u64::from(known) => Err(FormatError::Newer { found, known }),
        _ => {
            let content = fields.remove(CONTENT).filter(|_| fields.is_empty());
            Ok(serde_json::from_value(content.unwrap_or(Value::Object(fields)))?)
        }
    }
}

fn sum_of(fields: &Map<String, Value>) -> serde_json::Result<String> {
    Ok(format!("{:08x}", crc32c::crc32c(&serde_json::to_vec(fields)?)))
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
        let newer = io::Error::from(decode::<BTreeMap<String, u64>>(&text, 1).unwrap_err());
        assert!(is_newer(&io::Error::new(newer.kind(), format!("read a.json: {newer}"))));
        assert!(!is_newer(&io::Error::from_raw_os_error(95)), "EOPNOTSUPP is the kernel's");
        assert!(!is_newer(&decode::<u32>(b"{", 1).unwrap_err().into()));
        assert_eq!(decode::<BTreeMap<String, u64>>(b"{\"a\":7}", 1).unwrap()["a"], 7);
        assert!(matches!(decode::<u32>(b"{", 1), Err(FormatError::Damaged(_))));
        assert_eq!(decode::<Vec<u32>>(&encode(&[1], 1).unwrap(), 1).unwrap(), [1]);
        assert_eq!(decode::<Vec<u32>>(b"[1]", 1).unwrap(), [1], "as it was before lists had a format");
    }

    #[test]
    fn a_bit_that_flips_anywhere_is_seen_or_changes_nothing() {
        let value = BTreeMap::from([("lacking".to_owned(), vec![3_u32, 17]), ("whole".to_owned(), vec![])]);
        let text = encode(&value, 1).unwrap();
        let newer = String::from_utf8_lossy(&text).replace("\"format\":1", "\"format\":3");
        let read = decode::<BTreeMap<String, Value>>(newer.as_bytes(), 1);
        assert!(matches!(read, Err(FormatError::Sum { .. })), "it is blamed on a newer Forebay: {read:?}");
        for place in 0..text.len() * 8 {
            let mut damaged = text.clone();
            damaged[place / 8] ^= 1 << (place % 8);
            // A sum under another name says nothing, and takes nothing away.
            let read = decode::<BTreeMap<String, Value>>(&damaged, 1).map(|mut read| {
                read.retain(|key, _| value.contains_key(key));
                serde_json::to_value(read).unwrap()
            });
            assert!(read.is_err() || read.unwrap() == serde_json::to_value(&value).unwrap(), "bit {place}");
        }
    }
}
