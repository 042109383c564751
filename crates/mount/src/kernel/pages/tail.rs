//! The page in which a file ends: what a mapping stores there beyond the end, which is in no file.
//!
//! The kernel writes such a page back up to the end that it knows. So the page must be gone before the file grows, or
//! those stores become contents. Before a write or an allocation it is dropped like the pages that these change. While
//! a truncation is under way the kernel writes nothing back, and who had it drop a page then would wait for ever. It
//! drops all pages of the file by itself, once that is answered: of what it writes back then, what lies beyond the
//! former end is made zeros.
//!
//! **Invariant:** only bytes that were beyond the end when the kernel got their page are ever made zeros.

use std::borrow::Cow;
use std::ops::Range;

/// The smallest page there is. Where they are larger, what fills them is, too, so that nothing is missed.
pub const PAGE_BYTES: u64 = 4096;

/// Where a file ends, of which the kernel may have the page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum End {
    /// In no page that the kernel has.
    #[default]
    Elsewhere,
    /// Here, in the midst of a page.
    At(u64),
    /// The kernel has pages of which nobody knows.
    Unknown,
}

/// What there is to know of one file.
#[derive(Debug, Default)]
pub struct Tail {
    end: End,
    /// Beyond a former end, in a page that the kernel has not got again since.
    beyond: Option<Range<u64>>,
}

impl Tail {
    /// Of a file with such an end.
    pub fn new(end: End) -> Tail {
        Tail { end, beyond: None }
    }

    /// Where the file ends in a page that the kernel may have.
    pub fn end(&self) -> End {
        self.end
    }

    /// The kernel got a page with the end.
    pub fn ends_at(&mut self, end: u64) {
        self.end = if end.is_multiple_of(PAGE_BYTES) { End::Elsewhere } else { End::At(end) };
    }

    /// The kernel gets these pages, and so had dropped them.
    pub fn filled(&mut self, pages: &Range<u64>) {
        if self.beyond.as_ref().is_some_and(|beyond| pages.contains(&beyond.start)) {
            self.beyond = None;
        }
    }

    /// The kernel has dropped these pages.
    pub fn dropped(&mut self, pages: &Range<u64>) {
        if matches!(self.end, End::At(end) if pages.contains(&end)) {
            self.end = End::Elsewhere;
        }
    }

    /// A truncation made a file longer that ended at `end`.
    pub fn grew_from(&mut self, end: u64) {
        self.end = End::Elsewhere;
        self.beyond = Some(end..end.next_multiple_of(PAGE_BYTES)).filter(|beyond| !beyond.is_empty());
    }

    /// What is contents of `bytes`, which the kernel writes back to `offset`.
    pub fn contents<'a>(&self, offset: u64, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        let Some(beyond) = &self.beyond else { return Cow::Borrowed(bytes) };
        let within = |at: u64| {
            usize::try_from(at.saturating_sub(offset)).map_or(bytes.len(), |at| at.min(bytes.len()))
        };
        let (start, end) = (within(beyond.start), within(beyond.end));
        if start == end {
            return Cow::Borrowed(bytes);
        }
        let mut bytes = bytes.to_vec();
        bytes[start..end].fill(0);
        Cow::Owned(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_stored_beyond_the_end_is_zeros_until_the_kernel_gets_the_page_again() {
        let mut tail = Tail::new(End::At(100));
        assert!(*tail.contents(0, &[7; 4096]) == [7; 4096], "the kernel knows the end");
        tail.grew_from(100);
        let found = tail.contents(0, &[7; 8192]);
        assert!(found[..100] == [7; 100] && found[100..4096] == [0; 3996] && found[4096..] == [7; 4096]);
        assert!(*tail.contents(4096, &[7; 4096]) == [7; 4096]);
        assert!(*tail.contents(0, &[7; 50]) == [7; 50]);
        tail.filled(&(4096..8192));
        assert!(tail.contents(0, &[7; 4096])[100] == 0, "that is another page");
        tail.filled(&(0..8192));
        assert!(*tail.contents(0, &[7; 4096]) == [7; 4096]);
    }

    #[test]
    fn an_end_between_two_pages_has_nothing_beyond_it() {
        let mut tail = Tail::default();
        tail.ends_at(4096);
        assert_eq!(tail.end(), End::Elsewhere);
        tail.grew_from(4096);
        assert!(*tail.contents(4096, &[7; 4096]) == [7; 4096]);
        tail.ends_at(4097);
        tail.dropped(&(0..4096));
        assert_eq!(tail.end(), End::At(4097));
        tail.dropped(&(4096..8192));
        assert_eq!(tail.end(), End::Elsewhere);
    }
}
