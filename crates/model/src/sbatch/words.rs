//! The words of an `#SBATCH` line.

/// The name of an option and the value attached to it: `--name=value`, `-nvalue`.
pub(super) fn split_option(word: &str) -> Option<(&str, Option<&str>)> {
    if word.starts_with("--") {
        return Some(word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value))));
    }
    let letter = word.strip_prefix('-')?.chars().next()?;
    let (name, value) = word.split_at(1 + letter.len_utf8());
    Some((name, Some(value).filter(|value| !value.is_empty())))
}

/// Splits a line into words. `'` and `"` keep white space and `#`; a backslash keeps the next character, except
/// inside `'`.
pub(super) fn split(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    let mut chars = line.chars();
    while let Some(ch) = chars.next() {
        match (quote, ch) {
            (Some(open), ch) if ch == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(ch);
                word.get_or_insert_default();
            }
            (None | Some('"'), '\\') => word.get_or_insert_default().extend(chars.next()),
            (None, '#') if word.is_none() => break,
            (None, ch) if ch.is_whitespace() => words.extend(word.take()),
            (_, ch) => word.get_or_insert_default().push(ch),
        }
    }
    words.extend(word);
    words
}
