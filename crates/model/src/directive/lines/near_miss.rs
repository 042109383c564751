//! Lines that were probably meant as directives.

use super::{Family, is_hidden};

/// Why a line that is no directive was probably meant as one.
pub(super) fn near_miss(line: &str) -> Option<String> {
    let trimmed = line.trim_start();
    let prefix = trimmed.get(..3)?;
    let family =
        [Family::Dw, Family::Bb].into_iter().find(|family| family.prefix().eq_ignore_ascii_case(prefix))?;
    let rest = &trimmed[3..];
    let keyword = rest.split(is_hidden).find(|word| !word.is_empty())?;
    if !family.keywords().contains(&keyword.to_ascii_lowercase().as_str()) {
        return None;
    }
    let what = if trimmed.len() < line.len() {
        "a directive must begin in the first column"
    } else if prefix != family.prefix() {
        "directives are upper case"
    } else if rest.starts_with(keyword) {
        "white space is missing after the prefix"
    } else if !rest.starts_with(|c: char| c.is_ascii_whitespace()) {
        "an invisible character follows the prefix, where a plain space is expected"
    } else {
        return None;
    };
    Some(format!(
        "this looks like a directive but is not: {what}; write `{} {keyword}`, or `##` at the start to switch it off",
        family.prefix()
    ))
}
