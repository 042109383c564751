//! How wide comments and prose are. rustfmt sees to the code.

/// The widest line, in characters.
const WIDTH: usize = 120;

/// How many lines of a source are wider.
pub fn of_source(text: &str) -> usize {
    text.lines().filter(|line| line.chars().count() > WIDTH).count()
}

/// The same for Markdown, where the rows of tables and what is quoted as it is may be wider.
pub fn of_prose(text: &str) -> usize {
    let mut quoted = false;
    let wide = text.lines().filter(|line| {
        quoted ^= line.trim_start().starts_with("```");
        let kept = quoted || line.starts_with("    ") || line.starts_with('|');
        !kept && line.chars().count() > WIDTH
    });
    wide.count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wide_line_counts_but_not_in_a_table_nor_quoted() {
        let (wide, fits) = ("é".repeat(121), "é".repeat(120));
        assert_eq!(of_source(&format!("// {wide}\n{fits}\n")), 1);
        assert_eq!(
            of_prose(&format!("{wide}\n{fits}\n| {wide} |\n```\n{wide}\n```\n    {wide}\n{wide}\n")),
            2
        );
    }
}
