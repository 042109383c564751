//! CRC32C of a file's whole contents, holes as the zeros that they read as, so that it does not depend on where the
//! holes are.

/// A checksum that grows with the file.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Checksum(u32);

impl Checksum {
    /// The checksum with `bytes` after what was there.
    pub(crate) fn then(self, bytes: &[u8]) -> Checksum {
        Checksum(crc32c::crc32c_append(self.0, bytes))
    }

    /// The checksum with a part of `length` bytes, whose own checksum is `part`, after what was there.
    pub(crate) fn then_part(self, part: u32, length: u64) -> Checksum {
        if self.0 == 0 {
            // As before the first part: a sum of zero moved by any length is zero, which would be computed at length.
            return Checksum(part);
        }
        let length = usize::try_from(length).expect("Forebay runs on 64-bit machines");
        Checksum(crc32c::crc32c_combine(self.0, part, length))
    }

    /// The checksum with `length` zeros after what was there, in a time that grows with the logarithm of `length`.
    pub(crate) fn then_zeros(self, mut length: u64) -> Checksum {
        let mut checksum = self;
        let (mut run, mut run_length) = (crc32c::crc32c(&[0]), 1_u64);
        while length > 0 {
            if length & 1 == 1 {
                checksum = checksum.then_part(run, run_length);
            }
            length >>= 1;
            if length > 0 {
                run = Checksum(run).then_part(run, run_length).0;
                run_length *= 2;
            }
        }
        checksum
    }

    /// Its value.
    pub(crate) fn value(self) -> u32 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hole_counts_as_its_zeros() {
        for length in [0, 1, 2, 3, 511, 4096, 1_000_003] {
            let mut bytes = b"before".to_vec();
            bytes.resize(6 + length, 0);
            bytes.extend_from_slice(b"after");
            let checksum = Checksum::default().then(b"before").then_zeros(length as u64).then(b"after");
            assert_eq!(checksum.value(), crc32c::crc32c(&bytes), "{length} zeros");
        }
    }

    #[test]
    fn the_checksum_of_the_parts_is_that_of_the_whole() {
        let bytes: Vec<u8> = (0..10_000_u32).map(|i| (i * 7 % 251) as u8).collect();
        let (first, second) = bytes.split_at(3_333);
        let parts = Checksum::default()
            .then_part(crc32c::crc32c(first), first.len() as u64)
            .then_part(crc32c::crc32c(second), second.len() as u64);
        assert_eq!(parts.value(), crc32c::crc32c(&bytes));
    }
}
