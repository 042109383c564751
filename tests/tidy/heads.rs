//! Whether a file says at its beginning what it is for: `//!`.

/// How many heads a source lacks: none or one.
pub fn lacking(text: &str) -> usize {
    usize::from(!text.starts_with("//! "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_begins_with_what_it_is_for() {
        assert_eq!(lacking("//! What it is for.\n\nuse std::fs;\n"), 0);
        for text in ["use std::fs;\n//! Late.\n", "// Only a comment.\n", "//!\n", ""] {
            assert_eq!(lacking(text), 1, "{text}");
        }
    }
}
