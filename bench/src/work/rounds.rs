//! Opening, writing and closing a small file, over and over.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;

use super::block;

/// Bytes of the file.
const BYTES: usize = 100;

/// So many rounds with the file at `path`, which the first of them may make.
pub fn work(path: &Path, count: usize) -> io::Result<()> {
    let bytes = block(BYTES);
    (0..count).try_for_each(|_| {
        OpenOptions::new().write(true).create(true).truncate(false).open(path)?.write_all(&bytes)
    })
}
