//! A metadata log that a disk has changed: it is refused by name, or read as what was written, or as a beginning of it
//! (a torn tail), and never as something else.
//!
//! The input is edits: two bytes of a place, one to write there; an odd rest cuts the log.

#![no_main]

use libfuzzer_sys::fuzz_target;
use store::fuzzing;

fuzz_target!(|edits: &[u8]| {
    let (mut log, written) = fuzzing::log();
    let chunks = edits.chunks_exact(3);
    if let [low, high] = chunks.remainder() {
        log.truncate(usize::from(u16::from_le_bytes([*low, *high])) % (log.len() + 1));
    }
    for edit in chunks {
        let at = usize::from(u16::from_le_bytes([edit[0], edit[1]])) % log.len().max(1);
        if let Some(byte) = log.get_mut(at) {
            *byte = edit[2];
        }
    }
    if let Ok(read) = fuzzing::read(&log) {
        assert!(written.starts_with(&read), "{read:?} was never written");
    }
});
