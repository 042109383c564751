//! How wide comments and prose are. rustfmt sees to the code.

/// The widest line, in characters.
const WIDTH: usize = 120;

/// The widest row of a table, which cannot go on in the next line. What is wider is a list.
const ROW: usize = 400;

/// How many lines of a source are wider.
pub fn of_source(text: &str) -> usize {
    text.lines().filter(|line| line.chars().count() > WIDTH).count()
}

/// The same for Markdown, where the rows of tables may be wider, up to a bound, and what is quoted as it is without
/// one: between fences, or indented by four after an empty line, but not what is indented below an item of a list.
pub fn of_prose(text: &str) -> usize {
    let (mut is_fenced, mut is_quoted, mut is_in_list, mut is_after_empty) = (false, false, false, true);
    let wide = text.lines().filter(|line| {
        is_fenced ^= line.trim_start().starts_with("```");
        let is_indented = line.starts_with("    ");
        if line.trim().is_empty() {
            is_after_empty = true;
            return false;
        }
        is_quoted = is_indented && !is_in_list && (is_quoted || is_after_empty);
        is_in_list = is_item(line.trim_start()) || is_in_list && (line.starts_with("  ") || !is_after_empty);
        is_after_empty = false;
        let widest = if line.starts_with('|') { ROW } else { WIDTH };
        !is_fenced && !is_quoted && line.chars().count() > widest
    });
    wide.count()
}

/// Whether a line begins an item of a list.
fn is_item(line: &str) -> bool {
    let numbered = line.trim_start_matches(|c: char| c.is_ascii_digit());
    line.starts_with("- ")
        || line.starts_with("* ")
        || numbered.len() < line.len() && numbered.starts_with(". ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wide_line_counts_but_not_quoted_and_in_a_table_only_beyond_its_bound() {
        let (wide, fits) = ("é".repeat(121), "é".repeat(120));
        assert_eq!(of_source(&format!("// {wide}\n{fits}\n")), 1);
        assert_eq!(of_prose(&format!("{wide}\n{fits}\n| {wide} |\n```\n{wide}\n```\n{wide}\n")), 2);
        assert_eq!(
            of_prose(&format!("| {} |\n| {} |\n", "x".repeat(396), "x".repeat(397))),
            1,
            "one is wider"
        );
        assert_eq!(of_prose(&format!("So:\n\n    {wide}\n\n    {wide}\n\nSo.\n")), 0, "it is quoted");
        assert_eq!(of_prose(&format!("So\n    {wide}\n")), 1, "it goes on");
        for item in ["- One", "12. Twelve", "  - Inner"] {
            assert_eq!(of_prose(&format!("{item}\n    {wide}\n\n    {wide}\n")), 2, "{item}");
        }
    }
}
