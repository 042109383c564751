//! What the fuzz targets need of this crate's inside. It is in their build only.

use std::path::Path;

use crate::shard::log::{LogError, format, scan};
use crate::shard::record::{Entry, Record};

/// A log of some entries, and what they say.
///
/// # Panics
/// They cannot be encoded.
pub fn log() -> (Vec<u8>, Vec<String>) {
    let (mut bytes, mut written) = (format::head(7), Vec::new());
    for number in 0..24 {
        let record = match number % 3 {
            0 => Record::Numbered { until: number.into() },
            1 => Record::Opened { ino: number.into() },
            _ => Record::Cut { inos: (0..number).map(model::Ino).collect(), overflown: false },
        };
        let entry = Entry { origin: None, record };
        format::encode(&mut bytes, &entry, 7 + number).expect("short entries");
        written.push(format!("{entry:?}"));
    }
    (bytes, written)
}

/// What the bytes of a log say.
///
/// # Errors
/// They are refused.
pub fn read(bytes: &[u8]) -> Result<Vec<String>, LogError> {
    let mut read = Vec::new();
    scan::scan(Path::new("log"), bytes, 0, &mut |entry| read.push(format!("{entry:?}")))?;
    Ok(read)
}
