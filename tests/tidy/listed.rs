//! What broke a rule before there was one: a line for each, `RULE NUMBER NAME`. A number may only fall, and a line
//! whose thing keeps the rule goes, so that nothing that was mended breaks again.

use std::collections::BTreeMap;

/// Rule and name, and how much of it there is.
pub type Counts = BTreeMap<(&'static str, String), usize>;

/// The rules whose breaches may be listed, and the largest number that is no breach.
pub const LIMITS: [(&str, usize); 6] =
    [("file", 300), ("function", 40), ("columns", 0), ("head", 0), ("sent", 0), ("circle", 1)];

/// What is listed.
///
/// # Errors
/// The first line that is not understood.
pub fn parse(text: &str) -> Result<Counts, String> {
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| parse_line(line).ok_or_else(|| format!("not understood: {line}"))).collect()
}

fn parse_line(line: &str) -> Option<((&'static str, String), usize)> {
    let (rule, rest) = line.split_once(' ')?;
    let (number, name) = rest.split_once(' ')?;
    let (rule, _) = LIMITS.iter().find(|(known, _)| *known == rule)?;
    Some(((*rule, name.to_owned()), number.parse().ok()?))
}

/// The list's text.
pub fn show(counts: &Counts) -> String {
    counts.iter().map(|((rule, name), number)| format!("{rule} {number} {name}\n")).collect()
}

/// What is found, without what keeps its rule.
pub fn breaches(mut found: Counts) -> Counts {
    found.retain(|(rule, _), number| LIMITS.iter().any(|(known, limit)| known == rule && *number > *limit));
    found
}

/// What is found and not listed, or is more than is listed.
pub fn worse(listed: &Counts, found: &Counts) -> Vec<String> {
    let more = found.iter().filter(|(thing, number)| listed.get(thing).is_none_or(|known| *number > known));
    let line = |((rule, name), number): (&(&str, String), &usize)| match listed.get(&(*rule, name.clone())) {
        None => format!("{rule} {number} {name}: keep the rule, it is not one of the old breaches"),
        Some(known) => format!("{rule} {number} {name}: it was {known}, and may only fall"),
    };
    more.map(line).collect()
}

/// The list as it is to be when something was mended; `None` where nothing was.
pub fn lowered(listed: &Counts, found: &Counts) -> Option<Counts> {
    let mut lower = listed.clone();
    lower.retain(|thing, number| {
        *number = found.get(thing).copied().unwrap_or(0).min(*number);
        *number > 0
    });
    (lower != *listed).then_some(lower)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_breach_and_a_larger_one_fail_and_an_old_one_does_not() {
        let listed = parse("# why\nfile 400 a.rs\nfile 350 b.rs\n").unwrap();
        let found = |text| breaches(parse(text).unwrap());
        assert!(worse(&listed, &found("file 400 a.rs\nfile 300 c.rs\n")).is_empty());
        assert_eq!(worse(&listed, &found("file 401 a.rs\n")).len(), 1);
        assert_eq!(worse(&listed, &found("file 301 c.rs\n")).len(), 1);
        assert_eq!(worse(&listed, &found("columns 1 a.rs\n")).len(), 1);
    }

    #[test]
    fn what_was_mended_leaves_the_list() {
        let listed = parse("file 400 a.rs\nfile 350 b.rs\n").unwrap();
        let found = parse("file 320 a.rs\n").unwrap();
        assert_eq!(show(&lowered(&listed, &found).unwrap()), "file 320 a.rs\n");
        assert_eq!(lowered(&listed, &listed), None);
        parse("file many a.rs").unwrap_err();
        parse("mood 4 a.rs").unwrap_err();
    }
}
