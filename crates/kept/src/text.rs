//! The text of a form: that of a file which says its format and its checksum, and JSON alone.

use disk::format::{self, FormatError};

use crate::OnDisk;

/// The text of a file with `value`, in this format: see [`disk::format`].
///
/// # Errors
/// It has no JSON, as a path that is not UTF-8.
pub fn encode(value: &impl OnDisk, format: u32) -> serde_json::Result<Vec<u8>> {
    format::encode(&value.to_form(), format)
}

/// What [`encode`] made a text of, in this format or an older one.
///
/// # Errors
/// [`FormatError`]; the caller says of which file, and leaves that as it is.
pub fn decode<T: OnDisk>(text: &[u8], known: u32) -> Result<T, FormatError> {
    format::decode(text, known).map(T::from_form)
}

/// The JSON of `value`, without a format.
///
/// # Errors
/// As [`encode`].
pub fn to_text(value: &impl OnDisk) -> serde_json::Result<String> {
    serde_json::to_string(&value.to_form())
}

/// What [`to_text`] made a text of.
///
/// # Errors
/// It is something else.
pub fn from_text<T: OnDisk>(text: &[u8]) -> serde_json::Result<T> {
    serde_json::from_slice(text).map(T::from_form)
}
