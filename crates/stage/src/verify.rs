//! Which parts of a file are read back and compared; a sample is made of chunks of 16 MiB.

use wire::node::Verify;

use crate::blocks::{UNIT_BLOCKS, UNIT_BYTES as CHUNK_BYTES};

/// Up to this size a file is read back as a whole where the policy leaves the choice: reading back costs about as much
/// time as reading did, and with larger files a stage would wait for that more than for anything else. Where four files
/// were read back as a whole they were staged at 0.62 to 0.68 of the rate at which the disk can be written, with a
/// sample at 0.93 to 0.95.
const FULL_BYTES_MAX: u64 = 256 << 20;

/// Of the chunks between the first and the last one in so many is read back, where not all are.
const SAMPLE_EVERY: usize = 8;

/// What is done for a file of this size.
pub(crate) fn of_size(policy: Verify, size: u64) -> Verify {
    match policy {
        Verify::BySize if size <= FULL_BYTES_MAX => Verify::Full,
        Verify::BySize => Verify::Sampled,
        // A sample of few chunks is all of them, and is called so.
        Verify::Sampled if size <= 2 * CHUNK_BYTES => Verify::Full,
        chosen => chosen,
    }
}

/// Whether a block is read back.
pub(crate) fn includes(policy: Verify, size: u64, block: usize) -> bool {
    let index = block / UNIT_BLOCKS;
    match of_size(policy, size) {
        Verify::Off => false,
        Verify::Full | Verify::BySize => true,
        Verify::Sampled => index.is_multiple_of(SAMPLE_EVERY) || index == last(size),
    }
}

/// Bytes of a file that are read back.
pub(crate) fn bytes(policy: Verify, size: u64) -> u64 {
    match of_size(policy, size) {
        Verify::Off => 0,
        Verify::Full | Verify::BySize => size,
        Verify::Sampled => {
            let last = last(size);
            let whole = u64::try_from(last.div_ceil(SAMPLE_EVERY)).expect("a count fits 64 bits");
            whole * CHUNK_BYTES + size - u64::try_from(last).expect("an index fits 64 bits") * CHUNK_BYTES
        }
    }
}

fn last(size: u64) -> usize {
    usize::try_from(size.saturating_sub(1) / CHUNK_BYTES).expect("Forebay runs on 64-bit machines")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_both_ends_and_an_eighth_of_the_rest() {
        let size = 100 * CHUNK_BYTES + 5;
        let read: Vec<usize> =
            (0..=100).filter(|index| includes(Verify::Sampled, size, *index * UNIT_BLOCKS)).collect();
        assert_eq!((read[0], *read.last().unwrap(), read.len()), (0, 100, 14));
        assert_eq!(bytes(Verify::Sampled, size), 13 * CHUNK_BYTES + 5);
    }

    #[test]
    fn large_files_are_sampled_unless_all_is_asked_for() {
        assert_eq!(bytes(Verify::BySize, FULL_BYTES_MAX), FULL_BYTES_MAX);
        assert!(bytes(Verify::BySize, 100 << 30) < 14 << 30);
        assert_eq!(bytes(Verify::Full, 100 << 30), 100 << 30);
        assert_eq!(bytes(Verify::Off, 100 << 30), 0);
        assert_eq!(bytes(Verify::Sampled, 0), 0);
    }
}
