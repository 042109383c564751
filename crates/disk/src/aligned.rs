//! A buffer that begins where a page does: direct I/O takes no other, and the kernel takes twice as long to copy to or
//! from an odd place.

use std::ops::{Deref, DerefMut};

/// A page.
const PAGE: usize = 4096;

/// See the module. It only ever grows: clearing it for each use would cost as much as the use.
#[derive(Default)]
pub struct Aligned {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl Aligned {
    /// The first `len` bytes. What was in them is gone where there were not so many.
    pub fn first(&mut self, len: usize) -> &mut [u8] {
        if self.len < len {
            self.bytes = vec![0; len + PAGE];
            self.start = self.bytes.as_ptr().align_offset(PAGE).min(PAGE);
            self.len = len;
        }
        &mut self[..len]
    }
}

impl Deref for Aligned {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.len]
    }
}

impl DerefMut for Aligned {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_into_begins_at_a_page_however_it_grew() {
        let mut buffer = Aligned::default();
        for len in [1, 100, 1 << 20, 50, (1 << 20) + 1] {
            let place = buffer.first(len);
            assert_eq!((place.len(), place.as_ptr().align_offset(PAGE)), (len, 0));
        }
    }
}
